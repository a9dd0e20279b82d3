/* comm_shm.c - collectives between ranks of one machine, directly from the neighbours' memory.
 *
 * Every rank owns one control block and one arena (the attached device block). The other ranks map both
 * read-only. Starting a collective publishes the place of its buffer. Finishing it waits for the neighbours'
 * publications, reads their buffers, and sets `done`. It returns once all ranks have set `done`. In a list of
 * spans only the last one waits for that. A flag is a sequence number that only grows. Only its owner writes
 * it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm_shm.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/notice.h"
#include "cpu/device_cpu.h"
#include "pause.h"
#include "comm/peers/rank_status.h"
#include "peers/peers.h"
#include "runtime.h"

#include <mpi.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "flags in shared memory must be lock-free");

/* Chosen: these loads take a few microseconds, about the time in which a waiting neighbour answers. */
enum { SPIN_LOADS = 1000 };
static const double look_every_s = 1.0; /* chosen: the time until a dead neighbour is noticed */
static const double sleep_most_s = 0.1; /* chosen: the most that a missed wake-up costs */

static const int64_t outside_arena = -1;

/* One pending collective of one rank. Neighbours read the members below `done` between `published` and
 * `done`. */
typedef struct shm_slot {
  _Atomic uint64_t published, reduced, done; /* sequence numbers */
  int64_t          offset; /* offset of the published buffer in the arena, or outside_arena */
  int64_t          count;
  int32_t          kind, dtype, op;
  char             pad[8];
} shm_slot;
_Static_assert(sizeof(shm_slot) == 64, "one cache line each");

typedef struct shm_control {
  shm_slot slot[TRI_SCOPE_COUNT][TRI_RING];
  /* This rank sleeps, or is about to sleep, until a neighbour's flag changes. */
  _Atomic uint64_t sleeps;
} shm_control;

/* The ranks of a machine exchange these at attach. */
typedef struct shm_info {
  char     arena_name[64], control_name[64];
  size_t   arena_bytes, control_bytes; /* sizes of the whole blocks */
  size_t   arena_offset;               /* start of the attached range in its block */
  int64_t  pid;
  uint64_t pid_space; /* process numbers are comparable if this is equal */
  int      world_rank;
} shm_info;

typedef struct shm_neighbour {
  int                fd;                          /* its block's file, for shared segments. -1: none */
  const void        *arena_block, *control_block; /* mapped. NULL for myself */
  const char        *arena;
  const shm_control *control;
} shm_neighbour;

/* One per process, shared by the scopes in use. */
typedef struct shm_machine {
  int            users, n; /* n: ranks */
  char           host[64];
  tri_cpu_block  control;
  size_t         bytes; /* size of my arena */
  shm_info      *info;  /* [n] */
  shm_neighbour *at;    /* [n] */
} shm_machine;

struct tri_shm_way {
  shm_machine *machine; /* shared */
  int         *place;   /* [size]: rank of this communicator -> rank of the machine */
  const void **src;     /* [size]: scratch */
};

static void close_files(shm_machine *m) {
  for (int i = 0; m->at && i < m->n; i++) {
    if (m->at[i].fd >= 0) close(m->at[i].fd);
    m->at[i].fd = -1;
  }
}

static void machine_close(shm_machine **machine) {
  shm_machine *m = *machine;

  if (!m) return;
  close_files(m);
  for (int i = 0; m->at && i < m->n; i++) {
    tri_cpu_map_close(&m->at[i].arena_block, m->info[i].arena_bytes);
    tri_cpu_map_close(&m->at[i].control_block, m->info[i].control_bytes);
  }
  tri_cpu_block_close(&m->control);
  TRI_FREE(m->at);
  TRI_FREE(m->info);
  TRI_FREE(*machine);
}

void tri_shm_way_close(struct tri_shm_way **w) {
  if (!*w) return;
  if ((*w)->machine && --(*w)->machine->users == 0) machine_close(&(*w)->machine);
  TRI_FREE((*w)->place);
  TRI_FREE((*w)->src);
  TRI_FREE(*w);
}

/* ---- attach ---- */

/* Makes my info. It has no arena name if I have nothing to share. */
static tri_status make_info(const tri_runtime *rt, shm_machine *m, tri_device *d, const void *base,
                            size_t bytes, shm_info *info) {
  tri_cpu_block *b = base ? tri_cpu_block_find(d, base) : NULL;
  struct stat    sb;

  *info = (shm_info){.pid = getpid(), .world_rank = rt->world_rank};
  if (!stat("/proc/self/ns/pid", &sb)) info->pid_space = (uint64_t)sb.st_ino;
  if (!b) return TRI_OK;
  TRI_ASSERT((size_t)((const char *)base - (const char *)b->data) + bytes <= b->bytes);
  TRI_TRY(tri_cpu_block_open(sizeof(shm_control), true, 1, &m->control));
  if (rt->machine_ranks > 1 && !b->shared)
    tri_warn("no_shared_memory",
             "%s: %s. Collectives between the ranks of this machine go through MPI and are slower", rt->host,
             b->why_private);
  if (!b->shared || !m->control.shared) return TRI_OK;
  m->bytes = bytes;
  info->arena_bytes = b->bytes;
  info->control_bytes = m->control.bytes;
  info->arena_offset = (size_t)((const char *)base - (const char *)b->data);
  memcpy(info->arena_name, b->name, sizeof info->arena_name);
  memcpy(info->control_name, m->control.name, sizeof info->control_name);
  return TRI_OK;
}

static bool map_one(const shm_info *info, shm_neighbour *at) {
  return tri_cpu_map_open(info->arena_name, info->arena_bytes, &at->arena_block) == TRI_OK &&
         tri_cpu_map_open(info->control_name, info->control_bytes, &at->control_block) == TRI_OK;
}

/* Maps every neighbour's two blocks. True if all could be mapped. */
static bool map_all(shm_machine *m, int self, const void *base) {
  for (int i = 0; i < m->n; i++) {
    const shm_info *info = &m->info[i];
    shm_neighbour  *at = &m->at[i];
    if (!info->arena_name[0]) return false;
    if (i != self && !map_one(info, at)) {
      tri_warn("no_shared_memory",
               "%s. Collectives between the ranks of this machine go through MPI and are slower",
               tri_error_message());
      tri_error_clear();
      return false;
    }
    at->arena = i == self ? base : (const char *)at->arena_block + info->arena_offset;
    at->control = i == self ? m->control.data : at->control_block;
  }
  return true;
}

/* Opens all ranks' blocks again for shared segments, while they have names. If the process may not have this
 * many open files, it keeps none of them. Collectives work without them. */
static void open_files(shm_machine *m) {
  bool all = true;

  for (int i = 0; i < m->n && all; i++)
    all = tri_cpu_block_reopen(m->info[i].arena_name, &m->at[i].fd) == TRI_OK;
  if (all) return;
  tri_log(TRI_LOG_INFO, "%s. The ranks of this machine cannot share memory beyond collectives",
          tri_error_message());
  tri_error_clear();
  close_files(m);
}

/* Collective over h. Joins if all ranks of h are on one machine. `leader` is the machine's lowest world
 * rank. */
static tri_status join(tri_host_comm *h, shm_machine *m, int leader, int machine_rank) {
  int        mine[2] = {leader, machine_rank}, *all = NULL;
  bool       same = true;
  tri_status st = TRI_OK;

  TRI_TRY(TRI_ALLOC(all, 2 * (int64_t)h->base.size));
  TRI_MPI_DONE(MPI_Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, *(MPI_Comm *)h->base.mpi));
  for (int r = 0; r < h->base.size; r++) same = same && all[2 * r] == leader;
  if (!same) goto done;
  TRI_TRY_DONE(TRI_ALLOC(h->shm, 1));
  h->shm->machine = m;
  m->users++;
  TRI_TRY_DONE(TRI_ALLOC(h->shm->place, h->base.size));
  TRI_TRY_DONE(TRI_ALLOC(h->shm->src, h->base.size));
  for (int r = 0; r < h->base.size; r++) h->shm->place[r] = all[2 * r + 1];
done:
  TRI_FREE(all);
  return st;
}

tri_status tri_shm_way_attach(const tri_runtime *rt, tri_host_comm *const h[TRI_SCOPE_COUNT], tri_device *d,
                              const void *base, size_t bytes, bool wanted, bool *attached) {
  MPI_Comm     machine = *(MPI_Comm *)rt->mpi_machine, world = *(MPI_Comm *)h[TRI_WORLD]->base.mpi;
  shm_machine *m = NULL;
  shm_info     info;
  int          leader = rt->world_rank, good;
  tri_status   st = TRI_OK;

  *attached = false;
  TRI_TRY_DONE(TRI_ALLOC(m, 1));
  m->control.fd = -1;
  m->n = rt->machine_ranks;
  m->users = 1; /* this function */
  memcpy(m->host, rt->host, sizeof m->host);
  TRI_TRY_DONE(TRI_ALLOC(m->info, m->n));
  TRI_TRY_DONE(TRI_ALLOC(m->at, m->n));
  for (int i = 0; i < m->n; i++) m->at[i].fd = -1;
  TRI_TRY_DONE(make_info(rt, m, d, wanted ? base : NULL, bytes, &info));
  TRI_MPI_DONE(MPI_Allgather(&info, sizeof info, MPI_BYTE, m->info, sizeof info, MPI_BYTE, machine));
  good = map_all(m, rt->machine_rank, base);
  if (good && m->n > 1) open_files(m);
  TRI_MPI_DONE(MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, world));
  TRI_MPI_DONE(MPI_Allreduce(MPI_IN_PLACE, &leader, 1, MPI_INT, MPI_MIN, machine));
  for (int i = 0; good && i < TRI_SCOPE_COUNT; i++) TRI_TRY_DONE(join(h[i], m, leader, rt->machine_rank));
  *attached = good;
done:
  /* All mappings have succeeded or failed by now, so the names can go. */
  tri_cpu_device_unname(d);
  if (m) tri_cpu_block_unname(&m->control);
  if (m && --m->users == 0) machine_close(&m);
  return st;
}

/* ---- waiting ---- */

static const shm_slot *slot_of(const tri_host_comm *h, int rank, uint64_t number) {
  const struct tri_shm_way *w = h->shm;
  return &w->machine->at[w->place[rank]].control->slot[h->base.scope][number % TRI_RING];
}

static shm_slot *my_slot(const tri_host_comm *h, uint64_t number) {
  shm_control *control = h->shm->machine->control.data;
  return &control->slot[h->base.scope][number % TRI_RING];
}

static const char *arena_of(const tri_host_comm *h, int rank) {
  return h->shm->machine->at[h->shm->place[rank]].arena;
}

/* Usually the launcher or the monitor over the ranks ends this process when a neighbour dies. This check
 * serves runs without either. */
static tri_status check_alive(const tri_host_comm *h, int rank, const char *what, uint64_t number) {
  const shm_machine *m = h->shm->machine;
  const shm_info    *them = &m->info[h->shm->place[rank]], *me = &m->info[h->shm->place[h->base.rank]];

  if (tri_peers_timeout_s() > 0) return TRI_OK;
  if (them->pid_space != me->pid_space || kill((pid_t)them->pid, 0) == 0 || errno != ESRCH) return TRI_OK;
  TRI_FAIL(TRI_ECOMM,
           "rank %d (process %ld on %s) has died. Rank %d waits for it in %s number %llu of scope %s",
           them->world_rank, (long)them->pid, m->host, me->world_rank, what, (unsigned long long)number,
           tri_scope_text(h->base.scope));
}

/* A rank that wants to sleep first announces it and then reads the flag once more. A rank that changes a flag
 * looks for sleepers afterwards. So one of the two sees the other. If both miss, the sleep still has a time
 * limit. */
static void sleep_on(const tri_host_comm *h, const _Atomic uint64_t *flag, uint64_t number) {
  shm_control *mine = h->shm->machine->control.data;

  atomic_store(&mine->sleeps, 1);
  tri_pause_sleep(flag, number, sleep_most_s);
  atomic_store_explicit(&mine->sleeps, 0, memory_order_relaxed);
}

static void wake(const tri_host_comm *h, _Atomic uint64_t *flag) {
  const shm_machine *m = h->shm->machine;

  atomic_thread_fence(memory_order_seq_cst);
  for (int i = 0; i < m->n; i++)
    if (atomic_load_explicit(&m->at[i].control->sleeps, memory_order_relaxed)) {
      tri_pause_wake(flag);
      return;
    }
}

static tri_status wait_flag(const tri_host_comm *h, int rank, const _Atomic uint64_t *flag, const char *what,
                            uint64_t number) {
  tri_pause pause = {0};
  double    looked_s = 0;

  for (int i = 0; i < SPIN_LOADS; i++)
    if (atomic_load_explicit(flag, memory_order_acquire) >= number) return TRI_OK;
  while (atomic_load_explicit(flag, memory_order_acquire) < number) {
    if (tri_pause_yield(&pause)) continue;
    sleep_on(h, flag, number);
    if (looked_s == 0) looked_s = tri_now_s();
    if (tri_now_s() - looked_s < look_every_s) continue;
    TRI_TRY(check_alive(h, rank, what, number));
    looked_s = tri_now_s();
  }
  return TRI_OK;
}

static void set_flag(const tri_host_comm *h, _Atomic uint64_t *flag, uint64_t number) {
  atomic_store_explicit(flag, number, memory_order_release);
  wake(h, flag);
}

/* ---- the collectives, with src [size] as the ranks' published buffers ---- */

static void all_gather(const tri_host_comm *h, const tri_coll *k, const void *const *src) {
  size_t bytes = (size_t)k->span->per_rank * tri_dtype_bytes(k->dtype);

  for (int i = 0; i < h->base.size; i++) { /* each rank starts at a different neighbour */
    int   r = (h->base.rank + i) % h->base.size;
    char *dst = (char *)k->span->recv + (size_t)r * bytes;
    if ((const void *)dst != src[r]) tri_cpu_copy_bytes(dst, src[r], bytes, h->threads);
  }
}

static tri_cpu_redop redop(tri_redop op) { return op == TRI_MAX ? TRI_CPU_MAX : TRI_CPU_SUM; }

/* In place, rank r writes slice r of its own send. No neighbour reads this slice. */
static void reduce_scatter(const tri_host_comm *h, const tri_coll *k, const void **src) {
  size_t offset = (size_t)h->base.rank * (size_t)k->span->per_rank * tri_dtype_bytes(k->dtype);

  for (int r = 0; r < h->base.size; r++) src[r] = (const char *)src[r] + offset;
  tri_cpu_reduce(k->span->recv, src, h->base.size, k->span->per_rank, k->dtype, redop(k->op), h->threads);
}

/* Returns the first element of rank r's slice. Slices are whole cache lines. */
static int64_t slice_begin(const tri_host_comm *h, int64_t count, int r) {
  int64_t n = ((count + h->base.size - 1) / h->base.size + 63) / 64 * 64;
  return r * n < count ? r * n : count;
}

/* Rank r sums slice r into its own buffer. No other rank reads or writes this slice before `reduced` is
 * set. */
static tri_status all_reduce(const tri_host_comm *h, const tri_coll *k, const void **src, uint64_t number) {
  size_t  bytes = tri_dtype_bytes(k->dtype);
  int     rank = h->base.rank, size = h->base.size;
  int64_t begin = slice_begin(h, k->span->per_rank, rank),
          n = slice_begin(h, k->span->per_rank, rank + 1) - begin;
  const char *what = tri_coll_text(k->kind);

  for (int r = 0; r < size; r++) src[r] = (const char *)src[r] + (size_t)begin * bytes;
  tri_cpu_reduce((char *)k->span->recv + (size_t)begin * bytes, src, size, n, k->dtype, redop(k->op),
                 h->threads);
  set_flag(h, &my_slot(h, number)->reduced, number);
  for (int i = 1; i < size; i++) {
    int     r = (rank + i) % size;
    int64_t from = slice_begin(h, k->span->per_rank, r), to = slice_begin(h, k->span->per_rank, r + 1);
    TRI_TRY(wait_flag(h, r, &slot_of(h, r, number)->reduced, what, number));
    tri_cpu_copy_bytes((char *)k->span->recv + (size_t)from * bytes,
                       (const char *)src[r] + (size_t)from * bytes - (size_t)begin * bytes,
                       (size_t)(to - from) * bytes, h->threads);
  }
  return TRI_OK;
}

/* ---- the way ---- */

/* Returns the buffer that neighbours read, and its bytes. */
static const char *read_buffer(const tri_host_comm *h, const tri_coll *k, size_t *bytes) {
  bool own = k->kind == TRI_ALL_GATHER || k->kind == TRI_REDUCE_SCATTER;

  *bytes = (size_t)k->span->per_rank * tri_dtype_bytes(k->dtype) *
           (size_t)(k->kind == TRI_REDUCE_SCATTER ? h->base.size : 1);
  return own ? k->span->send : k->span->recv;
}

/* Waits until no rank needs my slot of this number, nor my buffers of this span and earlier ones. */
static tri_status await_done(const tri_host_comm *h, const char *what, uint64_t number) {
  for (int r = 0; r < h->base.size; r++) TRI_TRY(wait_flag(h, r, &slot_of(h, r, number)->done, what, number));
  return TRI_OK;
}

static tri_status shm_start(tri_host_comm *h, const tri_coll *k, uint64_t number) {
  shm_slot   *slot = my_slot(h, number);
  const char *arena = arena_of(h, h->base.rank), *buffer;
  size_t      bytes, offset;

  if (number > TRI_RING) TRI_TRY(await_done(h, tri_coll_text(k->kind), number - TRI_RING));
  buffer = read_buffer(h, k, &bytes);
  offset = (size_t)((uintptr_t)buffer - (uintptr_t)arena);
  slot->offset = outside_arena;
  if ((uintptr_t)buffer >= (uintptr_t)arena && offset <= h->shm->machine->bytes &&
      bytes <= h->shm->machine->bytes - offset)
    slot->offset = (int64_t)offset;
  slot->count = k->span->per_rank;
  slot->kind = (int32_t)k->kind;
  slot->dtype = (int32_t)k->dtype;
  slot->op = (int32_t)k->op;
  set_flag(h, &slot->published, number);
  return TRI_OK;
}

/* Waits for all publications and checks that every rank started the same collective. *inside is true if every
 * buffer lies in its arena. All ranks see the same value. */
static tri_status read_slots(const tri_host_comm *h, const tri_coll *k, uint64_t number, bool *inside) {
  const shm_slot *me = slot_of(h, h->base.rank, number);
  const char     *what = tri_coll_text(k->kind);

  *inside = true;
  for (int r = 0; r < h->base.size; r++) {
    const shm_slot *s = slot_of(h, r, number);
    TRI_TRY(wait_flag(h, r, &s->published, what, number));
    if (s->count != me->count || s->kind != me->kind || s->dtype != me->dtype || s->op != me->op)
      TRI_FAIL(TRI_ECOMM,
               "ranks %d and %d of scope %s disagree on collective %llu: %s of %lld and %s of %lld elements",
               h->base.rank, r, tri_scope_text(h->base.scope), (unsigned long long)number,
               tri_coll_text(k->kind), (long long)me->count, tri_coll_text((tri_coll_kind)s->kind),
               (long long)s->count);
    if (s->offset == outside_arena)
      *inside = false;
    else
      h->shm->src[r] = arena_of(h, r) + s->offset;
  }
  return TRI_OK;
}

static tri_status shm_finish(tri_host_comm *h, const tri_coll *k, uint64_t number) {
  const char *what = tri_coll_text(k->kind);
  bool        inside;

  TRI_TRY(read_slots(h, k, number, &inside));
  if (h->from_s <= 0) h->from_s = tri_now_s();
  if (!inside)
    TRI_TRY(tri_mpi_way_run(h, k));
  else if (k->kind == TRI_ALL_GATHER)
    all_gather(h, k, h->shm->src);
  else if (k->kind == TRI_REDUCE_SCATTER)
    reduce_scatter(h, k, h->shm->src);
  else
    TRI_TRY(all_reduce(h, k, h->shm->src, number));
  h->to_s = tri_now_s();
  set_flag(h, &my_slot(h, number)->done, number);
  return h->ring[number % TRI_RING].left > 0 ? TRI_OK : await_done(h, what, number);
}

const tri_coll_way tri_shm_way_ops = {shm_start, shm_finish};

/* ---- for shared segments ---- */

int tri_shm_way_file(const tri_host_comm *h, int rank) { return h->shm->machine->at[h->shm->place[rank]].fd; }

int64_t tri_shm_way_place(const tri_host_comm *h, const void *p, size_t bytes) {
  const shm_machine *m = h->shm->machine;
  uintptr_t          arena = (uintptr_t)arena_of(h, h->base.rank), at = (uintptr_t)p;

  TRI_ASSERT(at >= arena && bytes <= m->bytes && at - arena <= m->bytes - bytes);
  return (int64_t)(at - arena) + (int64_t)m->info[h->shm->place[h->base.rank]].arena_offset;
}

tri_status tri_shm_way_await(const tri_host_comm *h, int rank, const _Atomic uint64_t *flag, const char *what,
                             uint64_t number) {
  return wait_flag(h, rank, flag, what, number);
}

void tri_shm_way_wake(const tri_host_comm *h, _Atomic uint64_t *flag) { wake(h, flag); }
