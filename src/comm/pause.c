/* pause.c - how a rank waits for another: it spins briefly, yields its core, then sleeps. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* syscall */
#include "pause.h"

#include "base/clock.h"
#include "comm/peers/rank_status.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Chosen. Waking a thread takes some 50 us, so a sleep after one millisecond costs 5 % of the wait. If
 * yielding took 50 us or more, somebody else wants the core. sched_yield alone takes under 1 us. A nap is
 * also 5 % of the wait, and at most 1 ms. */
static const double yield_most_s = 1e-3, taken_s = 50e-6, nap_part = 0.05, nap_least_s = 50e-6,
                    nap_most_s = 1e-3;
enum {
  SPIN_TESTS = 100, /* chosen: calls of MPI_Test, some tens of microseconds */
  /* Chosen: MPI carries larger messages in pieces, and these move only while a rank calls MPI. */
  SMALL_BYTES = 32 * 1024
};

bool tri_pause_sleeps(double waited_s, double yield_s) {
  return waited_s >= yield_most_s || yield_s >= taken_s;
}

double tri_pause_nap_s(double waited_s) {
  const double nap_s = nap_part * waited_s;

  return nap_s < nap_least_s ? nap_least_s : nap_s > nap_most_s ? nap_most_s : nap_s;
}

bool tri_pause_yield(tri_pause *p) {
  double before_s, now_s;

  if (p->sleeps) return false;
  before_s = tri_now_s();
  if (p->from_s <= 0) p->from_s = before_s;
  sched_yield();
  now_s = tri_now_s();
  if (now_s - before_s > p->yield_s) p->yield_s = now_s - before_s;
  p->sleeps = tri_pause_sleeps(now_s - p->from_s, p->yield_s);
  return true;
}

static struct timespec spec_of(double s) {
  const long whole = (long)s;

  return (struct timespec){whole, (long)((s - (double)whole) * 1e9)};
}

void tri_pause_idle(tri_pause *p) {
  struct timespec nap;

  if (tri_pause_yield(p)) return;
  nap = spec_of(tri_pause_nap_s(tri_now_s() - p->from_s));
  nanosleep(&nap, NULL);
}

/* Returns the half of a flag that changes with each number. */
static const uint32_t *low_half(const _Atomic uint64_t *flag) {
  return (const uint32_t *)(const void *)flag + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

void tri_pause_sleep(const _Atomic uint64_t *flag, uint64_t number, double most_s) {
  const uint64_t        seen = atomic_load(flag);
  const struct timespec most = spec_of(most_s);

  if (seen >= number) return;
  syscall(SYS_futex, low_half(flag), FUTEX_WAIT, (uint32_t)seen, &most, NULL, 0);
}

void tri_pause_wake(_Atomic uint64_t *flag) {
  syscall(SYS_futex, low_half(flag), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int tri_pause_mpi(MPI_Request *request, bool moves_data) {
  tri_pause p = {0};
  int       done = 0, code = MPI_SUCCESS;

  for (int i = 0; i < SPIN_TESTS && !done && code == MPI_SUCCESS; i++)
    code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
  while (!done && code == MPI_SUCCESS) {
    if (moves_data)
      sched_yield();
    else
      tri_pause_idle(&p);
    code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
  }
  return code;
}

static int finish(int code, MPI_Request *request) {
  return code == MPI_SUCCESS ? tri_pause_mpi(request, false) : code;
}

static bool is_small(int n, MPI_Datatype t) {
  int bytes = 0;

  return MPI_Type_size(t, &bytes) == MPI_SUCCESS && (int64_t)n * bytes <= SMALL_BYTES;
}

int tri_pause_bcast(void *buf, int n, MPI_Datatype t, int root, MPI_Comm comm) {
  MPI_Request request;

  if (!is_small(n, t)) return MPI_Bcast(buf, n, t, root, comm);
  return finish(MPI_Ibcast(buf, n, t, root, comm, &request), &request);
}

int tri_pause_all_reduce(void *x, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  MPI_Request request;

  if (!is_small(n, t)) return MPI_Allreduce(MPI_IN_PLACE, x, n, t, op, comm);
  return finish(MPI_Iallreduce(MPI_IN_PLACE, x, n, t, op, comm, &request), &request);
}

int tri_pause_all_gather(const void *x, int n, MPI_Datatype t, void *all, MPI_Comm comm) {
  MPI_Request request;

  if (!is_small(n, t)) return MPI_Allgather(x, n, t, all, n, t, comm);
  return finish(MPI_Iallgather(x, n, t, all, n, t, comm, &request), &request);
}

int tri_pause_barrier(MPI_Comm comm) {
  MPI_Request request;

  return finish(MPI_Ibarrier(comm, &request), &request);
}

int tri_pause_dup(int scope, const char *kind, MPI_Comm comm, MPI_Comm *out) {
  int code;

  tri_rank_status_enter(scope, kind);
  code = MPI_Comm_dup(comm, out);
  tri_rank_status_leave(false); /* MPI may return before all have come */
  return code;
}
