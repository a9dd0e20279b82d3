/* nccl_watch.c - bounded waits for NCCL: polls with a time limit, and the watchdog. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/log.h"
#include "nccl_impl.h"
#include "comm/peers/rank_status.h"
#include "comm/runtime.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
  LOOK_MS = 500,      /* chosen, the time to notice a dead rank */
  LAST_RESORT_S = 20, /* chosen, the time for NCCL and MPI to end before the system ends us */
  SPINS = 200,        /* chosen, yields before a poll sleeps, as a launch takes tens of microseconds */
  POLL_NS = 50000     /* chosen, then it looks every 50 microseconds */
};

void tri_nccl_abort(tri_nccl_hub *h) {
  h->failed = true;
  if (h->n_made == 0) return;
  ncclGroupStart();
  for (int i = 0; i < h->n_made; i++) ncclCommAbort(h->made[i]);
  ncclGroupEnd();
  h->n_made = 0;
}

tri_status tri_nccl_failed(const char *file, int line, const char *func, ncclResult_t r, const char *what) {
  const char *more = ncclGetLastError(NULL);
  return tri_fail(file, line, func, TRI_ECOMM, "NCCL: %s: %s%s%s", what, ncclGetErrorString(r),
                  more && *more ? "; " : "", more ? more : "");
}

/* Returns a rank of this node with an ended process, or -1. */
static int find_gone(const tri_nccl_hub *h) {
  const tri_nccl_info *me = &h->info[h->rank];

  for (int r = 0; r < h->size && me->boot[0]; r++) {
    const tri_nccl_info *c = &h->info[r];
    if (strcmp(c->boot, me->boot) || c->pid_space != me->pid_space) continue;
    if (kill((pid_t)c->pid, 0) && errno == ESRCH) return r;
  }
  return -1;
}

/* Looks once at the state of comm, then rests. The rest grows with the number of looks. */
static ncclResult_t ask(ncclComm_t comm, int n_looks) {
  ncclResult_t r = ncclInProgress, asked = ncclCommGetAsyncError(comm, &r);

  if (asked != ncclSuccess) return asked;
  if (r != ncclInProgress) return r;
  if (n_looks < SPINS)
    sched_yield();
  else
    nanosleep(&(struct timespec){0, POLL_NS}, NULL);
  return r;
}

tri_status tri_nccl_settle(tri_nccl_hub *h, ncclComm_t comm, ncclResult_t r, const char *what) {
  const tri_nccl_info *info = h->info;
  double               began_s = tri_now_s(), looked_s = began_s, now_s = began_s;
  int                  gone = -1;
  tri_status           st;

  /* NCCL 2.28's ncclCommSplit reports success while its thread still works. The communicator knows better. */
  if (r == ncclSuccess) r = ncclInProgress;
  for (int i = 0; r == ncclInProgress && gone < 0 && now_s - began_s <= h->wait_s; i++) {
    r = ask(comm, i);
    now_s = tri_now_s();
    if (r != ncclInProgress || now_s - looked_s < 1e-3 * LOOK_MS) continue;
    gone = find_gone(h);
    looked_s = now_s;
  }
  if (r == ncclSuccess) return TRI_OK;
  if (r != ncclInProgress)
    st = tri_nccl_failed(__FILE__, __LINE__, __func__, r, what);
  else if (gone >= 0)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECOMM,
                  "rank %d (process %lld on %s) is gone and rank %d waits for it in %s", gone,
                  (long long)info[gone].pid, info[gone].host, h->rank, what);
  else
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECOMM,
                  "rank %d on %s waited %.0f s for other ranks in %s (run.timeout_s)", h->rank,
                  info[h->rank].host, h->wait_s, what);
  tri_nccl_abort(h);
  return st;
}

bool tri_nccl_leave(ncclComm_t comm) {
  ncclResult_t r = ncclCommFinalize(comm);
  double       began_s = tri_now_s();

  for (int i = 0; r == ncclInProgress && tri_now_s() - began_s < LAST_RESORT_S; i++) r = ask(comm, i);
  if (r != ncclSuccess) return false;
  ncclCommDestroy(comm); /* local by now, and the last use of comm whatever it returns */
  return true;
}

/* ---- the watchdog ---- */

/* Returns the oldest unfinished collective, or NULL. */
static const tri_nccl_pending *find_oldest(const tri_nccl_hub *h) {
  const tri_nccl_pending *oldest = NULL;

  for (int i = 0; i < TRI_NCCL_PENDING; i++) {
    const tri_nccl_pending *p = &h->at[i];
    if (!p->number || (oldest && oldest->number < p->number)) continue;
    if (cudaEventQuery(p->done) == cudaErrorNotReady) oldest = p;
  }
  return oldest;
}

/* Returns true if something is wrong, with the reason in `why`. */
static bool look(tri_nccl_hub *h, char *why, size_t size) {
  const tri_nccl_pending *p;
  double                  now_s = tri_now_s();
  int                     gone;
  bool                    runs;

  for (int i = 0; i < h->n_made; i++) {
    ncclResult_t r = ncclSuccess;
    if (ncclCommGetAsyncError(h->made[i], &r) != ncclSuccess || r == ncclSuccess || r == ncclInProgress)
      continue;
    snprintf(why, size, "NCCL: %s; %s", ncclGetErrorString(r), ncclGetLastError(h->made[i]));
    return true;
  }
  p = find_oldest(h);
  runs = p && p->number == h->oldest && cudaEventQuery(p->ready) == cudaSuccess;
  tri_rank_status_device_waits(runs ? (int)p->scope : TRI_RANK_STATUS_NOWHERE, runs ? p->come : 0);
  if (!runs) {
    h->oldest = p ? p->number : 0; /* it is new, or still waits for our own work */
    h->since_s = now_s;
    h->missing = -1;
    return false;
  }
  gone = find_gone(h);
  if (gone >= 0 && gone == h->missing) { /* seen twice, as it may have ended well during the last piece */
    snprintf(why, size, "rank %d (process %lld on %s) is gone and rank %d waits for it", gone,
             (long long)h->info[gone].pid, h->info[gone].host, h->rank);
  } else if (now_s - h->since_s > h->wait_s) {
    snprintf(why, size, "rank %d on %s waited %.0f s for other ranks (run.timeout_s)", h->rank,
             h->info[h->rank].host, now_s - h->since_s);
  } else {
    h->missing = gone;
    return false;
  }
  size -= strlen(why);
  why += strlen(why);
  snprintf(why, size, " in %s number %llu of scope %s, %lld elements", p->what, (unsigned long long)p->number,
           tri_scope_text(p->scope), (long long)p->count);
  return true;
}

/* A kernel waiting for a dead rank may hold the main thread. tri_nccl_abort releases that thread with wrong
 * numbers. So this thread ends the program, and the lock stays held. */
static void end_run(tri_nccl_hub *h, const char *why) {
  tri_log(TRI_LOG_ERROR, "%s", why);
  tri_runtime_abort_within(LAST_RESORT_S, tri_status_exit_code(TRI_ECOMM));
  tri_nccl_abort(h);
  tri_runtime_abort(tri_status_exit_code(TRI_ECOMM));
}

/* Sleeps until the next look is due. Returns true if there will be none. */
static bool sleep_or_stop(tri_nccl_hub *h) {
  struct timespec until;
  int             stop;

  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (long)LOOK_MS * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while ((stop = sem_timedwait(&h->stop, &until)) != 0 && errno == EINTR) continue;
  return stop == 0;
}

static void *watch(void *hub_) {
  tri_nccl_hub *h = hub_;
  char          why[1024];

  cudaSetDevice(h->device);
  while (!sleep_or_stop(h)) {
    if (pthread_mutex_trylock(&h->lock)) continue; /* NCCL is at work and settle looks itself */
    if (!h->failed && look(h, why, sizeof why)) end_run(h, why);
    pthread_mutex_unlock(&h->lock);
  }
  return NULL;
}

/* Signals are for the main thread. */
tri_status tri_nccl_watch_start(tri_nccl_hub *h) {
  sigset_t all, before;
  int      e;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  e = pthread_create(&h->watch, NULL, watch, h);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (e) TRI_FAIL(TRI_ENOMEM, "could not start the thread that watches collectives (%s)", strerror(e));
  h->watching = true;
  return TRI_OK;
}

void tri_nccl_watch_stop(tri_nccl_hub *h) {
  if (!h->watching) return;
  sem_post(&h->stop);
  pthread_join(h->watch, NULL);
  h->watching = false;
}
