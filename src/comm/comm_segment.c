/* comm_segment.c - shared segments: pieces of all arenas of a machine, mapped one behind the other. Every
 * rank may read and write them. The flags of all ranks come first. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "comm_shm.h"
#include "cpu/device_cpu.h"
#include "comm/peers/rank_status.h"

#include <mpi.h>
#include <unistd.h>

enum { SAID = 7 }; /* as many as fit in the flag's cache line */

/* Only its owner writes it. said[n % SAID] belongs to generation n. Its lower half is the owner's `what`. Its
 * upper half is the lower half of n. */
typedef struct flag {
  _Atomic uint64_t generation, said[SAID];
} flag;
_Static_assert(sizeof(flag) == 64, "one cache line each");

struct tri_segment {
  tri_host_comm *h;      /* borrowed */
  int           *fd;     /* [size]: files of the ranks' blocks, borrowed. -1: none */
  int64_t       *offset; /* [size]: start of each rank's part in its block */
  tri_cpu_row    row;
};

static size_t whole_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);

  return (bytes + page - 1) / page * page;
}

static size_t flag_bytes(int size) { return whole_pages((size_t)size * sizeof(flag)); }

/* Bytes of each rank's part, from its first whole page on. */
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

/* Not collective. Maps all parts and sets my flag to 0. Returns false and logs the reason if a part cannot be
 * mapped. */
static bool map(tri_segment *w, size_t part) {
  tri_comm *c = &w->h->base;

  for (int r = 0; r < c->size; r++) {
    w->fd[r] = tri_shm_way_file(w->h, r);
    if (w->fd[r] < 0) return false; /* the reason was logged at attach */
  }
  if (tri_cpu_row_open(c->size, w->fd, w->offset, part, &w->row) != TRI_OK) {
    tri_log(TRI_LOG_INFO, "%s. Each rank keeps its own copy of the shared data", tri_error_message());
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

/* A release store comes after all earlier stores of this thread. The barrier at the end of a parallel loop
 * orders stores of other threads too, except stores that bypass the caches. Those are ordered by a fence in
 * the thread that made them (cpu/gemm/vec_tile.c, and memcpy and memset of long ranges). If you add such
 * stores to data in a shared segment, add the fence as well. */
uint64_t tri_segment_generation(tri_segment *w, uint32_t what) {
  flag    *mine = flag_of(w, w->h->base.rank);
  uint64_t generation = atomic_load_explicit(&mine->generation, memory_order_relaxed) + 1;

  atomic_store_explicit(&mine->said[generation % SAID], generation << 32 | what, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst); /* orders this thread's cache-bypassing stores too */
  atomic_store_explicit(&mine->generation, generation, memory_order_release);
  tri_shm_way_wake(w->h, &mine->generation);
  return generation;
}

static tri_status await(tri_segment *w, uint64_t generation) {
  for (int r = 0; r < w->h->base.size; r++)
    TRI_TRY(tri_shm_way_await(w->h, r, &flag_of(w, r)->generation, "shared memory, generation", generation));
  return TRI_OK;
}

/* Checks that every rank gave the same `what` in this generation, which all ranks have reached. A rank SAID
 * generations ahead has overwritten its value and is skipped. */
static tri_status compare(tri_segment *w, uint64_t generation, uint32_t what) {
  for (int r = 0; r < w->h->base.size; r++) {
    uint64_t said = atomic_load_explicit(&flag_of(w, r)->said[generation % SAID], memory_order_relaxed);
    if (said >> 32 == (uint32_t)generation && (uint32_t)said != what)
      TRI_FAIL(TRI_ECOMM,
               "ranks %d and %d of scope %s disagree on generation %llu of their shared memory: %u and %u",
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
