/* comm_segment.c - memory that the ranks of a machine have in common: pieces of all their arenas, mapped one
 * behind the other, to be read and written by all. Flags of all ranks come first. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "comm_shm.h"
#include "cpu/device_cpu.h"
#include "comm/peers/rank_status.h"

#include <mpi.h>
#include <unistd.h>

enum { SAID = 7 }; /* as many as fit in the flag's cache line */

/* Only its owner writes it. What was said in generation n stands in said[n % SAID], in the lower half; the
 * lower half of n in the upper one. */
typedef struct flag {
  _Atomic uint64_t generation, said[SAID];
} flag;
_Static_assert(sizeof(flag) == 64, "one cache line each");

struct tri_segment {
  tri_host_comm *h;      /* borrowed */
  int           *fd;     /* [size]: of the ranks' blocks; borrowed. -1: none */
  int64_t       *offset; /* [size]: where each rank's part begins in its block */
  tri_cpu_row    row;
};

static size_t whole_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);

  return (bytes + page - 1) / page * page;
}

static size_t flag_bytes(int size) { return whole_pages((size_t)size * sizeof(flag)); }

/* Of each rank, without what comes before its first whole page. */
static size_t part_bytes(size_t bytes, int size) {
  return whole_pages((flag_bytes(size) + bytes + (size_t)size - 1) / (size_t)size);
}

size_t tri_segment_piece_bytes(size_t bytes, int size) {
  return part_bytes(bytes, size) + (size_t)sysconf(_SC_PAGESIZE);
}

static flag *flag_of(const tri_segment *w, int rank) { return (flag *)w->row.base + rank; }

static tri_status alloc_segment(tri_host_comm *h, tri_segment **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->h = h;
  TRI_TRY(TRI_ALLOC((*out)->fd, h->base.size));
  return TRI_ALLOC((*out)->offset, h->base.size);
}

/* Not collective. True if all parts could be mapped; says why not. My flag is 0 then. */
static bool map(tri_segment *w, size_t part) {
  tri_comm *c = &w->h->base;

  for (int r = 0; r < c->size; r++) {
    w->fd[r] = tri_shm_way_file(w->h, r);
    if (w->fd[r] < 0) return false; /* said where it was wanted */
  }
  if (tri_cpu_row_open(c->size, w->fd, w->offset, part, &w->row) != TRI_OK) {
    tri_log(TRI_LOG_INFO, "%s: each rank keeps a copy of what they would share", tri_error_message());
    tri_error_clear();
    return false;
  }
  for (int i = 0; i < SAID; i++)
    atomic_store_explicit(&flag_of(w, c->rank)->said[i], 0, memory_order_relaxed);
  atomic_store_explicit(&flag_of(w, c->rank)->generation, 0, memory_order_release);
  return true;
}

tri_status tri_segment_open(tri_comm *c, void *piece, size_t bytes, tri_segment **out) {
  tri_host_comm *h = (tri_host_comm *)c;
  size_t         part = part_bytes(bytes, c->size);
  int64_t        mine;
  int            good = false;
  tri_status     st = TRI_OK;

  *out = NULL;
  TRI_ASSERT(c->near && h->direct);
  if (!h->shm) return TRI_OK;
  mine = tri_shm_way_place(h, (const void *)whole_pages((size_t)piece), part);
  TRI_TRY_DONE(tri_agree(c, alloc_segment(h, out)));
  TRI_MPI_DONE(MPI_Allgather(&mine, 1, MPI_INT64_T, (*out)->offset, 1, MPI_INT64_T, *(MPI_Comm *)c->mpi));
  good = map(*out, part);
  TRI_MPI_DONE(MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, *(MPI_Comm *)c->mpi));
done:
  if (st != TRI_OK || !good) tri_segment_close(out);
  return st;
}

void tri_segment_close(tri_segment **w) {
  if (!*w) return;
  tri_cpu_row_close(&(*w)->row);
  TRI_FREE((*w)->fd);
  TRI_FREE((*w)->offset);
  TRI_FREE(*w);
}

void *tri_segment_base(const tri_segment *w) { return (char *)w->row.base + flag_bytes(w->h->base.size); }

/* A store with release is behind all that this thread wrote, and, by the barrier that ends a parallel loop,
 * behind what other threads wrote, but for stores past the caches: those are behind a fence of the thread
 * that made them (cpu/gemm/vec_tile.c, and memcpy and memset of long ranges). Whoever adds such stores to
 * what lies in a shared segment adds the fence. */
uint64_t tri_segment_generation(tri_segment *w, uint32_t what) {
  flag    *mine = flag_of(w, w->h->base.rank);
  uint64_t generation = atomic_load_explicit(&mine->generation, memory_order_relaxed) + 1;

  atomic_store_explicit(&mine->said[generation % SAID], generation << 32 | what, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst); /* this thread's own, those past the caches too */
  atomic_store_explicit(&mine->generation, generation, memory_order_release);
  tri_shm_way_wake(w->h, &mine->generation);
  return generation;
}

static tri_status await(tri_segment *w, uint64_t generation) {
  for (int r = 0; r < w->h->base.size; r++)
    TRI_TRY(tri_shm_way_await(w->h, r, &flag_of(w, r)->generation, "shared memory, pass", generation));
  return TRI_OK;
}

/* Every rank said the same in this generation, which all have come to; one that has come SAID passes
 * further no longer says. */
static tri_status compare(tri_segment *w, uint64_t generation, uint32_t what) {
  for (int r = 0; r < w->h->base.size; r++) {
    uint64_t said = atomic_load_explicit(&flag_of(w, r)->said[generation % SAID], memory_order_relaxed);
    if (said >> 32 == (uint32_t)generation && (uint32_t)said != what)
      TRI_FAIL(TRI_ECOMM,
               "ranks %d and %d of scope %s disagree on pass %llu of the memory that they share: %u and %u",
               w->h->base.rank, r, tri_scope_text(w->h->base.scope), (unsigned long long)generation, what,
               (uint32_t)said);
  }
  return TRI_OK;
}

tri_status tri_segment_wait(tri_segment *w, uint64_t generation) {
  tri_status st;

  tri_rank_status_enter((int)w->h->base.scope, "shared memory");
  st = await(w, generation);
  tri_rank_status_leave(false);
  return st;
}

tri_status tri_segment_barrier(tri_segment *w, uint32_t what) {
  uint64_t   generation = tri_segment_generation(w, what);
  tri_status st;

  tri_rank_status_enter((int)w->h->base.scope, "shared memory");
  st = await(w, generation);
  if (st == TRI_OK) st = compare(w, generation, what);
  tri_rank_status_leave(st == TRI_OK);
  return st;
}
