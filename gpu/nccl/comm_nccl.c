/* comm_nccl.c - collectives on device memory through NCCL: its communicators, and the queue of pending
 * collectives.
 *
 * Gathers run in one stream and reductions in another, both beside the caller's. Events order them. Each
 * stream has its own NCCL communicators, so a gather can overtake a reduction in flight. Collectives in the
 * caller's own stream have further ones, and may be recorded with the stream's other work. Communicators used
 * at once may wait for each other in a circle, unless every GPU launches in one order (NCCL user guide,
 * "Using multiple NCCL communicators concurrently"). Our order is the program's, the same on every rank, and
 * NCCL_LAUNCH_ORDER_IMPLICIT makes NCCL keep it.
 *
 * Communicators do not block, so nothing here waits for ever for a dead rank (nccl_watch.c). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm_nccl.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "nccl_impl.h"
#include "comm/peers/peers.h"
#include "comm/runtime.h"
#include "device/gpu_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0),
               "NCCL 2.26 is the first version to keep the order of launches");

enum { LEAST_VERSION = 22600 }; /* the same, for the library found at run time */

typedef tri_nccl_hub     hub;
typedef tri_nccl_info    info;
typedef tri_nccl_pending pending;
enum {
  GATHER = TRI_NCCL_GATHER,
  REDUCE = TRI_NCCL_REDUCE,
  LANES = TRI_NCCL_LANES,
  PENDING = TRI_NCCL_PENDING
};

typedef struct nccl_comm {
  tri_comm    base;
  tri_device *device; /* borrowed */
  hub        *hub;    /* shared, NULL until started and in a world of one rank */
} nccl_comm;

/* ---- open, close ---- */

static void forget_arena(hub *h) {
  for (int i = h->n_made - 1; i >= 0; i--) {
    if (h->registered[i]) ncclCommDeregister(h->made[i], h->registered[i]);
    h->registered[i] = NULL;
  }
}

/* Waits for the streams to finish while the watchdog still runs. Then every rank leaves the communicators in
 * one order. */
static void hub_close(hub **hub_) {
  hub *h = *hub_;

  if (!h) return;
  for (int i = 0; i < LANES; i++)
    if (h->lane[i].stream) cudaStreamSynchronize(h->lane[i].stream);
  tri_nccl_watch_stop(h);
  forget_arena(h);
  while (h->n_made > 0 && tri_nccl_leave(h->made[h->n_made - 1])) h->n_made--;
  tri_nccl_abort(h); /* the communicators left because another rank did not come */
  for (int i = 0; i < PENDING; i++) {
    if (h->at[i].ready) cudaEventDestroy(h->at[i].ready);
    if (h->at[i].done) cudaEventDestroy(h->at[i].done);
  }
  for (int i = 0; i < LANES; i++)
    if (h->lane[i].stream) cudaStreamDestroy(h->lane[i].stream);
  pthread_mutex_destroy(&h->lock);
  sem_destroy(&h->stop);
  TRI_FREE(h->info);
  TRI_FREE(*hub_);
}

/* Collective over world. `mine` holds the arena already. */
static tri_status gather_infos(const tri_runtime *rt, tri_comm *world, info mine, hub *h) {
  size_t     *counts = NULL;
  struct stat sb;
  FILE       *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  tri_status  st = TRI_OK;

  mine.pid = getpid();
  if (!stat("/proc/self/ns/pid", &sb)) mine.pid_space = (uint64_t)sb.st_ino;
  if (f && !fgets(mine.boot, sizeof mine.boot, f)) mine.boot[0] = 0;
  if (f) fclose(f);
  snprintf(mine.host, sizeof mine.host, "%s", rt->host);
  TRI_TRY_DONE(TRI_ALLOC(counts, h->size));
  for (int r = 0; r < h->size; r++) counts[r] = sizeof mine;
  TRI_TRY_DONE(tri_host_gather_into(world, &mine, counts, h->info));
done:
  TRI_FREE(counts);
  return st;
}

/* Not collective. The steps that can fail on one rank alone. */
static tri_status prepare(hub *h) {
  int version = 0, least = 0, most = 0;

  h->wait_s = tri_peers_timeout_s() > 0 ? tri_peers_timeout_s() : HUGE_VAL;
  TRI_NCCL_TRY(ncclGetVersion(&version));
  if (version < LEAST_VERSION)
    TRI_FAIL(TRI_EDEVICE,
             "the NCCL library found here has version number %d but at least %d is needed. Put a newer one "
             "first in LD_LIBRARY_PATH, or set TRI_COMM=staged",
             version, LEAST_VERSION);
  TRI_CUDA_TRY(cudaSetDevice(h->device));
  TRI_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &most));
  for (int i = 0; i < LANES; i++)
    TRI_CUDA_TRY(cudaStreamCreateWithPriority(&h->lane[i].stream, cudaStreamNonBlocking, most));
  for (int i = 0; i < PENDING; i++) {
    TRI_CUDA_TRY(cudaEventCreateWithFlags(&h->at[i].ready, cudaEventDisableTiming));
    TRI_CUDA_TRY(cudaEventCreateWithFlags(&h->at[i].done, cudaEventDisableTiming));
  }
  return TRI_OK;
}

/* Collective over made[0]. Sets *index to the communicator of the ranks with this color, in the order of key.
 * NCCL may deliver the communicator after the wait was given up, so its place is in the hub. */
static tri_status split(hub *h, int color, int key, int *index) {
  ncclComm_t *child = &h->made[h->n_made];

  *child = NULL;
  TRI_TRY(
      tri_nccl_settle(h, h->made[0], ncclCommSplit(h->made[0], color, key, child, NULL), "ncclCommSplit"));
  TRI_ASSERT(*child);
  *index = h->n_made++;
  return TRI_OK;
}

/* Collective over world. Makes a communicator for each use of each scope. All others are split from the
 * world's communicator. It has the first use that wants a communicator of the world. */
static tri_status make_scopes(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], hub *h) {
  const tri_place at_all = tri_runtime_place(rt);

  h->spare = true;
  for (int use = 0; use < TRI_COMM_USES; use++)
    for (int s = 0; s < TRI_SCOPE_COUNT; s++) {
      tri_scope_place place = tri_scope_find((tri_scope)s, &at_all);
      int            *at = &h->use[s][use];
      tri_scope       same = tri_comm_same(comm, (tri_scope)s); /* s itself or an earlier one */
      *at = (int)same < s ? h->use[same][use] : -1;
      if (!tri_comm_is_used(tri_comm_kinds(comm, (tri_scope)s), (tri_comm_use)use)) continue;
      if (s == TRI_WORLD && h->spare)
        *at = 0, h->spare = false;
      else
        TRI_TRY(split(h, place.which, place.rank, at));
    }
  return TRI_OK;
}

/* Collective over world. The ranks of the scopes are numbered as in comm.h. */
static tri_status make_comms(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], hub *h) {
  tri_comm    *world = comm[TRI_WORLD];
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  ncclResult_t r = ncclSuccess;

  memset(&id, 0, sizeof id);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("NCCL_ALGO", /* no sums in switches, see comm.h */
         "reducescatter:^nvls,collnetdirect;allreduce:^nvls,nvlstree,collnetdirect,collnetchain", 0);
  if (h->rank == 0) r = ncclGetUniqueId(&id);
  TRI_TRY(tri_agree(world, r == ncclSuccess
                               ? TRI_OK
                               : tri_nccl_failed(__FILE__, __LINE__, __func__, r, "ncclGetUniqueId")));
  TRI_TRY(tri_host_bcast(world, &id, sizeof id, 0));
  config.blocking = 0;
  config.maxCTAs = TRI_GPU_NCCL_SM; /* else two lanes take up to half of a GPU. NCCL_MAX_CTAS overrides */
  r = ncclCommInitRankConfig(&h->made[0], h->size, id, h->rank, &config);
  if (h->made[0]) h->n_made = 1;
  TRI_TRY(tri_nccl_settle(h, h->made[0], r, "ncclCommInitRankConfig"));
  return make_scopes(rt, comm, h);
}

/* Returns a rank on another node, or -1. */
static int find_remote(const hub *h) {
  for (int r = 0; r < h->size; r++)
    if (strcmp(h->info[r].boot, h->info[0].boot) || strcmp(h->info[r].host, h->info[0].host)) return r;
  return -1;
}

/* Returns a rank with an arena layout other than rank 0's, or -1. */
static int find_other_layout(const hub *h) {
  for (int r = 0; r < h->size; r++)
    if (memcmp(&h->info[r].arena, &h->info[0].arena, sizeof h->info[r].arena)) return r;
  return -1;
}

/* Collective over world. Registers the arena for gathers between nodes, which then need no copy on the way.
 * NCCL promises nothing unless all ranks register at the same offset in the arena (user guide, "User Buffer
 * Registration"). Inside a node NCCL wants memory of ncclMemAlloc and refuses that of cudaMalloc anew at
 * every collective. It registers neither ReduceScatter nor sums in place (2.28, coll_reg.cc). So only gathers
 * between nodes register, and only the memory they read and write, because a NIC maps registered memory page
 * by page. A run goes on without registration. */
static tri_status register_arena(tri_comm *world, hub *h, void *base) {
  const int at[] = {h->use[TRI_WORLD][GATHER], h->use[TRI_CROSS][GATHER]};
  int       other = find_other_layout(h);
  int64_t   refused = 0;

  if (find_remote(h) < 0 || h->info[0].arena.bytes == 0) return TRI_OK;
  if (other >= 0) {
    tri_log(TRI_LOG_DEBUG,
            "NCCL: buffers are not registered because rank %d has another memory plan than rank 0", other);
    return TRI_OK;
  }
  for (int i = 0; i < (at[1] == at[0] ? 1 : 2); i++) {
    if (at[i] < 0) continue;
    ncclResult_t r = ncclCommRegister(h->made[at[i]], base, h->info[0].arena.bytes, &h->registered[at[i]]);
    if (r != ncclSuccess)
      h->registered[at[i]] = NULL; /* local bookkeeping, the communicator stays as it was */
    if (!h->registered[at[i]]) refused = 1 + (int64_t)r;
  }
  TRI_TRY(tri_host_max(world, &refused, 1));
  if (!refused) return TRI_OK;
  forget_arena(h);
  tri_log(TRI_LOG_DEBUG, "NCCL: buffers are not registered because NCCL refused on a rank (%s)",
          refused > 1 ? ncclGetErrorString((ncclResult_t)(refused - 1)) : "switched off");
  return TRI_OK;
}

static void nccl_close(tri_comm **c) {
  nccl_comm *n = (nccl_comm *)*c;

  if (!n) return;
  if (n->hub && --n->hub->users == 0) hub_close(&n->hub);
  TRI_FREE(n);
  *c = NULL;
}

/* ---- one collective ---- */

static ncclDataType_t element(tri_dtype t) {
  return t == TRI_F32    ? ncclFloat32
         : t == TRI_BF16 ? ncclBfloat16
         : t == TRI_F16  ? ncclFloat16
         : t == TRI_I32  ? ncclInt32
         : t == TRI_I64  ? ncclInt64
                         : ncclUint8;
}

static ncclResult_t launch_span(const tri_coll *k, const tri_comm_span *p, ncclComm_t comm,
                                cudaStream_t stream) {
  ncclRedOp_t    op = k->op == TRI_MAX ? ncclMax : ncclSum;
  ncclDataType_t type = element(k->dtype);
  size_t         n = (size_t)p->per_rank;

  if (n == 0) return ncclSuccess;
  if (k->kind == TRI_ALL_GATHER) return ncclAllGather(p->send, p->recv, n, type, comm, stream);
  if (k->kind == TRI_REDUCE_SCATTER) return ncclReduceScatter(p->send, p->recv, n, type, op, comm, stream);
  return ncclAllReduce(p->recv, p->recv, n, type, op, comm, stream);
}

/* The spans of a list are one launch. A group's calls only collect them, and its end works on them. */
static ncclResult_t launch(const tri_coll *k, ncclComm_t comm, cudaStream_t stream) {
  ncclResult_t r, collected = ncclSuccess;

  if (k->n_span == 1) return launch_span(k, k->span, comm, stream);
  if ((r = ncclGroupStart()) != ncclSuccess) return r;
  for (int i = 0; i < k->n_span && collected == ncclSuccess; i++) {
    collected = launch_span(k, &k->span[i], comm, stream);
    if (collected == ncclInProgress) collected = ncclSuccess;
  }
  r = ncclGroupEnd();
  return collected == ncclSuccess ? r : collected;
}

/* The lock is held. */
static tri_status launch_one(hub *h, tri_scope scope, const tri_coll *k, int use, tri_stream *s) {
  int made = h->use[scope][use];

  TRI_ASSERT(made >= 0); /* tri_comm_expect was called */
  if (h->failed) TRI_FAIL(TRI_ECOMM, "cannot start a collective after a failed one");
  return tri_nccl_settle(h, h->made[made], launch(k, h->made[made], tri_cuda_stream_of(s)),
                         tri_coll_text(k->kind));
}

static int use_of(const tri_coll *k) {
  return k->in_stream ? TRI_USE_IN_STREAM : tri_coll_lane(k->kind) == TRI_LANE_GATHER ? GATHER : REDUCE;
}

/* Takes a place for the next collective. The watchdog does not see it before show_pending. */
static tri_status take_pending(hub *h, pending **out) {
  pending *p = &h->at[(h->started + 1) % PENDING];

  if (p->number) TRI_CUDA_TRY(cudaEventSynchronize(p->done)); /* a request never waited for, or long done */
  pthread_mutex_lock(&h->lock);
  p->number = 0;
  pthread_mutex_unlock(&h->lock);
  *out = p;
  return TRI_OK;
}

/* Records in s that the work up to now is p's collective, and shows p to the watchdog. The lock is not held
 * while the call may wait for a stream full of work. */
static tri_status show_pending(hub *h, tri_scope scope, const char *what, int64_t count, tri_stream *s,
                               pending *p) {
  TRI_CUDA_TRY(cudaEventRecord(p->done, tri_cuda_stream_of(s)));
  pthread_mutex_lock(&h->lock);
  p->scope = scope;
  p->what = what;
  p->count = count;
  p->come = tri_rank_status_newest((int)scope);
  p->number = ++h->started;
  pthread_mutex_unlock(&h->lock);
  return TRI_OK;
}

/* p->ready is recorded. Runs the collective in s. `about` is for a trace. There a collective begins once its
 * data is there and the collectives before it in its stream are done. It may then still wait for the other
 * ranks. */
static tri_status start(hub *h, tri_scope scope, const tri_coll *k, tri_stream *s, tri_trace_note about,
                        pending *p) {
  int        span;
  tri_status st;

  if (!k->in_stream) TRI_CUDA_TRY(cudaStreamWaitEvent(tri_cuda_stream_of(s), p->ready, 0));
  span = tri_trace_begin(s->device->trace, tri_coll_lane(k->kind), about, s);
  pthread_mutex_lock(&h->lock);
  st = launch_one(h, scope, k, use_of(k), s);
  pthread_mutex_unlock(&h->lock);
  TRI_TRY(st);
  tri_trace_end(s->device->trace, span, s);
  return show_pending(h, scope, tri_coll_text(k->kind), tri_coll_count(k), s, p);
}

/* ---- start ---- */

/* Bytes of a connecting collective over all ranks. With more bytes NCCL uses another path. Chosen. */
enum { CONNECT_BYTES = 16 << 20 };

/* Collective over the scope. Runs one collective of this kind, in place in `bytes` of zeroed memory. */
static tri_status connect_by(hub *h, tri_comm *c, tri_coll_kind kind, bool in_stream, void *memory,
                             size_t bytes) {
  const int64_t each = (int64_t)(bytes / sizeof(float)) / c->size;
  const bool    pieces = kind == TRI_ALL_GATHER || kind == TRI_REDUCE_SCATTER;
  float        *mine = (float *)memory + (kind == TRI_ALL_REDUCE ? 0 : c->rank * each);
  tri_comm_span span = {.per_rank = pieces ? each : each * c->size};
  tri_coll      k = {.kind = kind, .span = &span, .n_span = 1, .dtype = TRI_F32, .in_stream = in_stream};
  tri_stream   *s = &h->lane[in_stream ? GATHER : use_of(&k)].base;
  pending      *p = NULL;

  span.recv = kind == TRI_ALL_GATHER ? memory : mine;
  span.send = kind == TRI_ALL_GATHER ? mine : memory;
  TRI_TRY(take_pending(h, &p));
  TRI_CUDA_TRY(cudaEventRecord(p->ready, tri_cuda_stream_of(s)));
  TRI_TRY(start(h, c->scope, &k, s, (tri_trace_note){0}, p));
  TRI_CUDA_TRY(cudaStreamSynchronize(tri_cuda_stream_of(s)));
  return TRI_OK;
}

/* Collective over world. NCCL connects, and allocates its memory, when an algorithm is first used. So this
 * happens now, by a small and a large collective of each expected kind, and not in the first backward. */
static tri_status connect(tri_comm *const comm[TRI_SCOPE_COUNT], hub *h, tri_device *d, size_t arena) {
  const size_t bytes[2] = {sizeof(float) * (size_t)h->size,
                           arena < CONNECT_BYTES ? arena : (size_t)CONNECT_BYTES};
  void        *memory = NULL;
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(tri_agree(
      comm[TRI_WORLD], d->ops->alloc(d, TRI_MEM_DEVICE, bytes[0] > bytes[1] ? bytes[0] : bytes[1], &memory)));
  for (int s = 0; s < TRI_SCOPE_COUNT; s++)
    for (int k = 0; k < 2 * TRI_COLL_KINDS; k++) /* those in the caller's stream are the second half */
      for (int i = 0; i < 2; i++)
        if (tri_comm_kinds(comm, (tri_scope)s) >> k & 1 && bytes[i] >= bytes[0])
          TRI_TRY_DONE(connect_by(h, comm[s], (tri_coll_kind)(k % TRI_COLL_KINDS), k >= TRI_COLL_KINDS,
                                  memory, bytes[i]));
done:
  d->ops->free(d, TRI_MEM_DEVICE, &memory);
  return st;
}

/* Not collective. `before` is the GPU's free bytes before any communicator was made. */
static tri_status check_taken(tri_comm *const comm[TRI_SCOPE_COUNT], const hub *h, tri_device *d,
                              size_t before) {
  const double MiB = 0x1p20;
  const size_t kept = tri_comm_beside_bytes(comm);
  size_t       now, total, taken;
  int          n = h->n_made - (h->spare ? 1 : 0);

  TRI_TRY(d->ops->mem_info(d, &now, &total));
  taken = before > now ? before - now : 0;
  tri_log(TRI_LOG_INFO,
          "NCCL: connected %d communicator%s with %.0f MiB of the %.0f MiB of GPU memory kept for them", n,
          n == 1 ? "" : "s", (double)taken / MiB, (double)kept / MiB);
  if (taken <= kept || now >= TRI_GPU_LIBRARY_BYTES) return TRI_OK;
  TRI_FAIL(
      TRI_ENOMEM,
      "NCCL took %.0f MiB of GPU memory for %d communicators but the plan kept %.0f MiB. %.0f MiB are "
      "left for kernels and recorded steps, and they may need %.0f MiB. Lower NCCL_BUFFSIZE or NCCL_MAX_CTAS "
      "in the environment, or make the plan smaller (train.max_tokens_per_gpu, rollout.max_cached_tokens)",
      (double)taken / MiB, n, (double)kept / MiB, (double)now / MiB, (double)TRI_GPU_LIBRARY_BYTES / MiB);
}

/* Collective over world. Makes the communicators, starts the watchdog, and connects. */
static tri_status make_ready(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                             const tri_comm_memory *m, hub *h) {
  tri_comm *world = comm[TRI_WORLD];
  size_t    before, total;

  TRI_TRY(tri_agree(world, prepare(h)));
  TRI_TRY(tri_agree(world, d->ops->mem_info(d, &before, &total)));
  TRI_TRY(make_comms(rt, comm, h));
  TRI_TRY(register_arena(world, h, m->gathered));
  TRI_TRY(tri_nccl_watch_start(h));
  TRI_TRY(connect(comm, h, d, m->bytes));
  return tri_agree(world, check_taken(comm, h, d, before));
}

static tri_status nccl_start(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                             const tri_comm_memory *m) {
  tri_comm  *world = comm[TRI_WORLD];
  uint64_t   in_page = (uintptr_t)m->gathered % (uintptr_t)sysconf(_SC_PAGESIZE);
  info       mine = {.arena = {m->gathered_bytes, m->layout, in_page}};
  hub       *h = NULL;
  tri_status st = TRI_OK;

  if (world->size == 1) return TRI_OK; /* every collective is a copy */
  st = TRI_ALLOC(h, 1);
  if (h) { /* before the ranks agree, so that hub_close releases all of it */
    h->rank = world->rank, h->size = world->size, h->device = d->index;
    pthread_mutex_init(&h->lock, NULL);
    sem_init(&h->stop, 0, 0);
  }
  TRI_TRY_DONE(tri_agree(world, st));
  for (int i = 0; i < LANES; i++) h->lane[i].base.device = d;
  TRI_TRY_DONE(tri_agree(world, TRI_ALLOC(h->info, h->size)));
  TRI_TRY_DONE(gather_infos(rt, world, mine, h));
  TRI_TRY_DONE(make_ready(rt, comm, d, m, h));
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) ((nccl_comm *)comm[i])->hub = h;
  h->users = TRI_SCOPE_COUNT;
  h = NULL;
done:
  if (h) tri_nccl_watch_stop(h);
  if (h) tri_nccl_abort(h); /* the other ranks may be elsewhere */
  hub_close(&h);
  return st;
}

/* ---- collectives ---- */

/* Work that is recorded has not begun, so there is nothing to watch yet. */
static tri_status record_one(hub *h, tri_scope scope, const tri_coll *k) {
  tri_status st;

  pthread_mutex_lock(&h->lock);
  st = launch_one(h, scope, k, TRI_USE_IN_STREAM, k->stream);
  pthread_mutex_unlock(&h->lock);
  return st;
}

static tri_status nccl_submit(tri_comm *c, const tri_coll *k, tri_req *req) {
  nccl_comm     *n = (nccl_comm *)c;
  hub           *h = n->hub;
  pending       *p = NULL;
  tri_trace_note about;

  TRI_ASSERT(h);
  if (c->recording) return record_one(h, c->scope, k);
  about = tri_coll_note(n->device->trace, c, k);
  TRI_TRY(take_pending(h, &p));
  TRI_CUDA_TRY(cudaEventRecord(p->ready, tri_cuda_stream_of(k->stream)));
  TRI_TRY(start(h, c->scope, k, k->in_stream ? k->stream : &h->lane[use_of(k)].base, about, p));
  if (!req && !k->in_stream) TRI_CUDA_TRY(cudaStreamWaitEvent(tri_cuda_stream_of(k->stream), p->done, 0));
  if (req) req->impl = (void *)(uintptr_t)p->number;
  return TRI_OK;
}

static tri_status nccl_replay(tri_comm *c, tri_graph *g, tri_stream *s) {
  hub     *h = ((nccl_comm *)c)->hub;
  pending *p = NULL;

  if (h->failed) TRI_FAIL(TRI_ECOMM, "cannot start a recorded step after a failed collective");
  TRI_TRY(take_pending(h, &p));
  TRI_CUDA_TRY(cudaEventRecord(p->ready, tri_cuda_stream_of(s)));
  TRI_TRY(s->device->ops->graph_run(g, s));
  return show_pending(h, c->scope, "recorded step", 0, s, p);
}

/* If the slot holds a later collective, it was waited for when the slot was reused. */
static tri_status nccl_wait(tri_comm *c, tri_req *req, tri_stream *s) {
  uint64_t number = (uint64_t)(uintptr_t)req->impl;
  pending *p;

  req->impl = NULL;
  if (!number) return TRI_OK;
  p = &((nccl_comm *)c)->hub->at[number % PENDING];
  if (p->number == number) TRI_CUDA_TRY(cudaStreamWaitEvent(tri_cuda_stream_of(s), p->done, 0));
  return TRI_OK;
}

static const tri_comm_ops nccl_ops = {
    TRI_GPU_NCCL_BYTES, TRI_GPU_NCCL_EACH_BYTES, nccl_start, nccl_submit, nccl_wait, nccl_close, nccl_replay};

static tri_status nccl_open(tri_device *d, tri_comm **out) {
  nccl_comm *n;

  TRI_TRY(TRI_ALLOC(n, 1));
  n->base.ops = &nccl_ops;
  n->device = d;
  *out = &n->base;
  return TRI_OK;
}

const tri_comm_maker tri_nccl_maker = {nccl_open};
