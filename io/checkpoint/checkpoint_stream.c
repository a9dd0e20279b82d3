/* checkpoint_stream.c - writes this rank's ranges of state.h5 on a thread, while its caller works on. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* O_DIRECT */
#include "base/clock.h"
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
  RING_PIECES = 4,              /* chosen: the next is copied and hashed while one is written */
  DIRECT_LEAST_BYTES = 1 << 16, /* chosen: the copy of less to the page cache costs nothing */
  NICEST = 19,                  /* specified: setpriority(2) */
  ALIGN_LEAST_BYTES =
      4096 /* specified: alignment for O_DIRECT on any disk in use; larger pages need their own */
};

/* A range that waits for the thread or has been written by it. */
typedef struct job {
  tri_ckpt_slab slab;
  char         *host;
  int64_t       offset_bytes, bytes;
  int64_t       end; /* end of its bytes in the ring, counted over all rounds */
  bool          hashed;
} job;

/* Ranges wait in a ring buffer. `put` and `freed` count its bytes over all rounds. */
typedef struct ring {
  char   *at, *own; /* own is NULL if the memory is the caller's */
  int64_t bytes, put, freed;
} ring;

struct tri_ckpt_stream {
  const tri_ckpt_manifest *m; /* borrowed, like folder; only its entries are read */
  const char              *folder;
  ring                     space;
  int64_t                  align;
  job                     *job;
  int64_t                  n_job, job_space, n_begun;
  job                      taken;         /* from take until give */
  int                      plain, direct; /* two descriptors of state.h5; direct is -1 without O_DIRECT */
  int                      rank;
  bool                     runs, no_more, gives_up, ended;
  bool                     polite; /* the thread yields the cores to the computing threads */
  pthread_t                thread;
  pthread_mutex_t          lock; /* guards space.freed, job to n_begun, no_more to ended, failed, message */
  pthread_cond_t           news;
  tri_status               failed;
  char                     message[512];
  double                   from_s, lasted_s; /* start, and seconds until the thread or its helper finished */
};

static void lock(tri_ckpt_stream *s) { pthread_mutex_lock(&s->lock); }
static void unlock(tri_ckpt_stream *s) { pthread_mutex_unlock(&s->lock); }

/* ---- the thread */

/* Writes all n bytes. Afterwards *n is the number of bytes not written. Returns 0 or errno. */
static int write_bytes(int fd, const char **at, int64_t *n, int64_t *offset, int64_t unit) {
  while (*n > 0) {
    ssize_t done = pwrite(fd, *at, (size_t)*n, (off_t)*offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return EIO;
    *at += done;
    *n -= done;
    *offset += done;
    if (done % unit) return *n ? EINVAL : 0; /* O_DIRECT cannot write an unaligned rest */
  }
  return 0;
}

/* Writes whole pages past the page cache. Copying to the page cache is slower than the disk (measured: 1.5 GB
 * in 0.8 s against 1.1 to 4.3 s), and the node has better use for the memory. */
static int write_range(tri_ckpt_stream *s, const char *at, int64_t n, int64_t offset) {
  int64_t head = (s->align - offset % s->align) % s->align, rest = n;
  int     e = 0;

  if (s->direct >= 0 && n - head >= DIRECT_LEAST_BYTES) {
    int64_t most = (n - head) / s->align * s->align;
    rest = n - head - most;
    e = write_bytes(s->plain, &at, &head, &offset, 1);
    if (e) return e;
    e = write_bytes(s->direct, &at, &most, &offset, s->align);
    rest += most; /* not 0 if the file system refuses such a write after all */
    if (e == EINVAL) e = 0;
  }
  return e ? e : write_bytes(s->plain, &at, &rest, &offset, 1);
}

static void fail(tri_ckpt_stream *s, const char *what, int e) {
  lock(s);
  if (s->failed == TRI_OK) {
    s->failed = TRI_EFILE;
    snprintf(s->message, sizeof s->message, "%s: rank %d: %s: %s", s->folder, s->rank, what, strerror(e));
  }
  unlock(s);
}

/* Waits for the next job and copies it. Returns its number, or -1 if there will be none. */
static int64_t wait_for_job(tri_ckpt_stream *s, job *out) {
  int64_t k = -1;

  lock(s);
  while (s->n_begun == s->n_job && !s->no_more && !s->gives_up) pthread_cond_wait(&s->news, &s->lock);
  if (s->n_begun < s->n_job && !s->gives_up && s->failed == TRI_OK) {
    k = s->n_begun++;
    *out = s->job[k];
  }
  unlock(s);
  return k;
}

static void run_job(tri_ckpt_stream *s, job *j) {
  const tri_ckpt_tensor *t = &s->m->entry[j->slab.tensor].t;
  char                   what[256];
  int                    e;

  if (!j->hashed) j->slab.hash = tri_hash64(j->host, (size_t)j->bytes, 0);
  e = write_range(s, j->host, j->bytes, j->offset_bytes);
  if (!e) return;
  snprintf(what, sizeof what, "writing %s/%s failed", t->group, t->name);
  fail(s, what, e);
}

/* Runs jobs until there are no more. Tells whether it ran any. */
static bool run_jobs(tri_ckpt_stream *s) {
  job  j;
  bool any = false;

  for (int64_t k; (k = wait_for_job(s, &j)) >= 0; any = true) {
    run_job(s, &j);
    lock(s);
    s->job[k].slab.hash = j.slab.hash;
    if (j.end > s->space.freed) s->space.freed = j.end;
    pthread_cond_signal(&s->news);
    unlock(s);
  }
  return any;
}

static void make_durable(tri_ckpt_stream *s) {
  bool whole;

  lock(s);
  whole = s->failed == TRI_OK && !s->gives_up;
  unlock(s);
  if (whole && fsync(s->plain) && errno != EINVAL) fail(s, "fsync of state.h5 failed", errno);
  lock(s);
  s->lasted_s = tri_now_s() - s->from_s;
  unlock(s);
}

static void *run(void *stream) {
  tri_ckpt_stream *s = stream;

  /* On Linux this sets the priority of this thread alone. If all cores compute, a step waits for the slowest
   * of its threads, so time taken by this thread would delay them all. */
  if (s->polite) setpriority(PRIO_PROCESS, 0, NICEST);
  run_jobs(s);
  make_durable(s);
  lock(s);
  s->ended = true;
  pthread_cond_signal(&s->news);
  unlock(s);
  return NULL;
}

/* ---- the caller */

tri_status tri_ckpt_stream_start(tri_ckpt_stream *s) {
  sigset_t all, before;
  int      e;

  TRI_ASSERT(!s->runs);
  s->polite = !s->space.own;
  s->from_s = tri_now_s();
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
  e = pthread_create(&s->thread, NULL, run, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (e) TRI_FAIL(TRI_EFILE, "%s: the thread to write it cannot be started (%s)", s->folder, strerror(e));
  s->runs = true;
  return TRI_OK;
}

static tri_status open_file(tri_ckpt_stream *s, const char *path) {
  const int how = O_WRONLY | O_NOFOLLOW | O_CLOEXEC;

  s->plain = open(path, how);
  if (s->plain < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s", path, strerror(errno));
  s->direct = open(path, how | O_DIRECT); /* fails on some file systems */
  return TRI_OK;
}

int64_t tri_ckpt_copy_bytes(int64_t bytes) {
  int64_t page = sysconf(_SC_PAGESIZE);

  return bytes + (page > ALIGN_LEAST_BYTES ? page : ALIGN_LEAST_BYTES);
}

tri_status tri_ckpt_stream_open(const char *path, const tri_ckpt_manifest *m, const char *folder, int rank,
                                tri_ckpt_stream **out) {
  tri_status       st = TRI_OK;
  tri_ckpt_stream *s;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(s, 1));
  *s = (tri_ckpt_stream){.m = m, .folder = folder, .rank = rank, .plain = -1, .direct = -1};
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->news, NULL);
  s->align = tri_ckpt_copy_bytes(0);
  TRI_TRY_DONE(open_file(s, path));
done:
  if (st != TRI_OK) tri_ckpt_stream_close(&s);
  *out = s;
  return st;
}

void tri_ckpt_stream_lend(tri_ckpt_stream *s, void *space, size_t bytes) {
  TRI_ASSERT(!s->space.at && !s->runs);
  s->space.at = space;
  s->space.bytes = (int64_t)bytes;
}

int64_t tri_ckpt_ring_bytes(void) { return RING_PIECES * tri_ckpt_copy_bytes(TRI_CKPT_PIECE_BYTES); }

static tri_status take_ring(tri_ckpt_stream *s) {
  s->space.bytes = tri_ckpt_ring_bytes();
  TRI_TRY(tri_pages_alloc((size_t)s->space.bytes, (void **)&s->space.own));
  s->space.at = s->space.own;
  return tri_ckpt_stream_start(s);
}

/* Returns how many bytes to skip from `put` on. O_DIRECT needs an address with the same offset in a page as
 * the file offset. */
static int64_t gap_before(const tri_ckpt_stream *s, int64_t offset_bytes, int64_t bytes) {
  int64_t at = s->space.put % s->space.bytes, align = s->align;
  int64_t pad =
      ((offset_bytes - (int64_t)((uintptr_t)(s->space.at + at) % (uintptr_t)align)) % align + align) % align;

  if (at + pad + bytes <= s->space.bytes) return pad;
  pad = ((offset_bytes - (int64_t)((uintptr_t)s->space.at % (uintptr_t)align)) % align + align) % align;
  return s->space.bytes - at + pad;
}

static tri_status report(const tri_ckpt_stream *s) {
  if (s->failed != TRI_OK) tri_error_set(s->failed, s->message);
  return s->failed;
}

tri_status tri_ckpt_stream_take(tri_ckpt_stream *s, int tensor, int64_t begin, int64_t count, void **host) {
  const tri_ckpt_entry *e = &s->m->entry[tensor];
  int64_t               size = (int64_t)tri_dtype_bytes(e->t.dtype), bytes = count * size, end;
  tri_status            st;

  TRI_ASSERT(bytes <= TRI_CKPT_PIECE_BYTES && !s->taken.host);
  *host = NULL;
  if (!s->space.at) TRI_TRY(take_ring(s));
  end = s->space.put + gap_before(s, e->offset_bytes + begin * size, bytes) + bytes;
  lock(s);
  if (!s->runs && end > s->space.bytes)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINTERNAL,
                  "%s: the planned buffer of %" PRId64 " bytes is too small for the tensors of this rank",
                  s->folder, s->space.bytes);
  else {
    while (end - s->space.freed > s->space.bytes && s->failed == TRI_OK)
      pthread_cond_wait(&s->news, &s->lock);
    st = report(s);
  }
  unlock(s);
  if (st != TRI_OK) return st;
  s->space.put = end;
  *host = s->space.at + (end - bytes) % s->space.bytes;
  s->taken = (job){{tensor, begin, count, 0}, *host, e->offset_bytes + begin * size, bytes, end, false};
  return TRI_OK;
}

tri_status tri_ckpt_stream_give(tri_ckpt_stream *s) {
  tri_status st;
  job        j = s->taken;

  s->taken.host = NULL;
  j.hashed = s->runs; /* while the thread writes */
  if (j.hashed) j.slab.hash = tri_hash64(j.host, (size_t)j.bytes, 0);
  lock(s);
  st = TRI_GROW(s->job, s->job_space, s->n_job + 1);
  if (st == TRI_OK) s->job[s->n_job++] = j;
  pthread_cond_signal(&s->news);
  unlock(s);
  return st;
}

bool tri_ckpt_stream_is_done(tri_ckpt_stream *s) {
  bool done;

  lock(s);
  done = !s->runs || s->ended;
  unlock(s);
  return done;
}

int64_t tri_ckpt_stream_count(const tri_ckpt_stream *s) { return s->n_job; }

static void join(tri_ckpt_stream *s) {
  if (!s->runs) return;
  pthread_join(s->thread, NULL);
  s->runs = false;
}

tri_status tri_ckpt_stream_wait(tri_ckpt_stream *s) {
  TRI_ASSERT(s->runs || !s->n_job || s->ended);
  lock(s);
  s->no_more = true;
  pthread_cond_signal(&s->news);
  unlock(s);
  if (s->runs && run_jobs(s)) { /* a polite thread gets little time while other ranks wait */
    join(s);
    make_durable(s);
  }
  join(s);
  return report(s);
}

double tri_ckpt_stream_lasted_s(const tri_ckpt_stream *s) { return s->lasted_s; }

void tri_ckpt_stream_slabs(const tri_ckpt_stream *s, tri_ckpt_slab *out) {
  for (int64_t i = 0; i < s->n_job; i++) out[i] = s->job[i].slab;
}

void tri_ckpt_stream_close(tri_ckpt_stream **s) {
  if (!*s) return;
  lock(*s);
  (*s)->gives_up = true;
  pthread_cond_signal(&(*s)->news);
  unlock(*s);
  join(*s);
  if ((*s)->plain >= 0) close((*s)->plain);
  if ((*s)->direct >= 0) close((*s)->direct);
  pthread_cond_destroy(&(*s)->news);
  pthread_mutex_destroy(&(*s)->lock);
  tri_pages_free((void **)&(*s)->space.own);
  TRI_FREE((*s)->job);
  TRI_FREE(*s);
}
