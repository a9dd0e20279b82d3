/* comm.c - opens communicators, queues pending collectives, and implements the control plane.
 *
 * Collectives on host memory go one of two ways. If all ranks of the scope are on one machine, they use
 * shared memory (comm_shm.c). Otherwise they use MPI (comm_mpi.c). Staged collectives (comm_staged.c) copy
 * device memory to the host and use MPI there. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm.h"
#include "base/choice.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/visible.h"
#include "comm_host.h"
#include "cpu/choose.h"
#include "device/gpu_plan.h"
#include "pause.h"
#include "comm/peers/rank_status.h"
#include "runtime.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chosen, below 2^31. The first is bytes, the others are numbers. */
enum { BCAST_PIECE = 1 << 30, SUM_PIECE = 4096, MAX_PIECE = 1 << 24 };

static MPI_Comm mpi_of(const tri_comm *c) { return *(MPI_Comm *)c->mpi; }

/* This rank enters a collective over c and waits there, or leaves it. `met` is true if nobody leaves it
 * before all ranks have come. */
static void       enter(const tri_comm *c, const char *kind) { tri_rank_status_enter((int)c->scope, kind); }
static tri_status left(tri_status st, bool met) {
  tri_rank_status_leave(met && st == TRI_OK);
  return st;
}

/* In a pretended communicator the other ranks do not exist (session.h). */
static bool is_alone(const tri_comm *c) { return !c->mpi; }

tri_status tri_mpi_fail(const char *file, int line, const char *func, int code, const char *call) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int  n = 0;

  MPI_Error_string(code, text, &n);
  return tri_fail(file, line, func, TRI_ECOMM, "MPI: %s (in %s)", text, call);
}

/* ---- the queue ---- */

static tri_status finish_timed(tri_host_comm *h, tri_pending_span *p, uint64_t number) {
  tri_comm_span whole = {NULL, NULL, p->count};
  tri_coll      k = p->k;

  h->to_s = 0;
  TRI_TRY(h->way->finish(h, &p->k, number));
  if (h->from_s <= 0) h->from_s = p->begun_s;
  if (h->to_s <= 0) h->to_s = tri_now_s();
  if (p->left > 0) return TRI_OK;
  k.span = &whole;
  tri_coll_timed(&h->base, &k, h->to_s - h->from_s);
  h->from_s = 0;
  return TRI_OK;
}

static tri_status finish_up_to(tri_host_comm *h, uint64_t number) {
  while (h->finished < number) {
    uint64_t          next = h->finished + 1;
    tri_pending_span *p = &h->ring[next % TRI_RING];
    tri_trace        *trace = h->staged ? NULL : h->device->trace; /* staged: traced in its own stream */
    int               span = tri_trace_begin(trace, tri_coll_lane(p->k.kind), p->about, p->k.stream);
    TRI_TRY(finish_timed(h, p, next));
    tri_trace_end(trace, span, p->k.stream); /* the CPU records at once */
    h->finished = next;
  }
  return TRI_OK;
}

/* Starts one span. *p has all but k.span, which points into the queue. */
static tri_status start_span(tri_host_comm *h, const tri_pending_span *p) {
  uint64_t          number = h->started + 1;
  tri_pending_span *at = &h->ring[number % TRI_RING];

  if (h->started - h->finished == TRI_RING) TRI_TRY(finish_up_to(h, h->finished + 1));
  *at = *p;
  at->k.span = &at->span;
  TRI_TRY(h->way->start(h, &at->k, number));
  h->started = number;
  return TRI_OK;
}

static tri_status host_submit(tri_comm *c, const tri_coll *k, tri_req *req) {
  tri_host_comm   *h = (tri_host_comm *)c;
  tri_pending_span p = {.k = *k, .count = tri_coll_count(k), .about = tri_coll_note(h->device->trace, c, k)};
  int64_t          bytes = p.about.bytes;

  p.k.n_span = 1;
  p.begun_s = tri_now_s();
  for (int i = 0; i < k->n_span; i++) p.left += k->span[i].per_rank > 0;
  for (int i = 0; i < k->n_span; i++) {
    p.span = k->span[i];
    if (p.span.per_rank == 0) continue;
    p.left--;
    p.about.bytes = bytes / p.count * p.span.per_rank;
    TRI_TRY(start_span(h, &p));
  }
  if (!req) return finish_up_to(h, h->started);
  req->impl = (void *)(uintptr_t)h->started;
  return TRI_OK;
}

static tri_status host_wait(tri_comm *c, tri_req *req, tri_stream *s) {
  uint64_t number = (uint64_t)(uintptr_t)req->impl;

  (void)s;
  req->impl = NULL;
  return finish_up_to((tri_host_comm *)c, number);
}

static void host_close(tri_comm **c) {
  tri_host_comm *h = (tri_host_comm *)*c;

  if (!h) return;
  tri_shm_way_close(&h->shm);
  tri_mpi_way_close(&h->mpi);
  tri_staged_way_close(h);
  TRI_FREE(h);
  *c = NULL;
}

static tri_status host_start(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                             const tri_comm_memory *m);

static const tri_comm_ops host_ops = {
    .start = host_start, .submit = host_submit, .wait = host_wait, .close = host_close};

/* ---- choice of the communicator ---- */

static const char *const way_name[TRI_COMM_WAYS] = {"shm", "mpi", "staged", "nccl"};

const char *tri_comm_way_text(tri_comm_way way) { return way_name[way]; }

/* Finds the way for a device of this name. `wish` is the value of run.collectives, or "". */
static tri_status find_way(const char *wish, const char *device, bool gpu, tri_comm_way *out) {
  bool nccl = tri_device_collectives(device) != NULL;
  int  i = 0;

  *out = !gpu ? TRI_BY_SHM : nccl ? TRI_BY_NCCL : TRI_BY_STAGED;
  if (!wish[0]) return TRI_OK;
  while (i < TRI_COMM_WAYS && strcmp(wish, way_name[i])) i++;
  if (i == TRI_COMM_WAYS || (gpu ? i == TRI_BY_SHM || i == TRI_BY_MPI : i == TRI_BY_NCCL))
    TRI_FAIL(TRI_ECONFIG, "%s%s: with run.device: %s it can be %s, or %s",
             tri_choice_source(TRI_CHOICE_COLLECTIVES), wish, device,
             gpu ? "nccl or staged" : "shm, mpi or staged", tri_choice_none(TRI_CHOICE_COLLECTIVES));
  *out = (tri_comm_way)i;
  if (*out == TRI_BY_NCCL && !nccl)
    TRI_FAIL(TRI_EABSENT,
             "%snccl: this program was built without NCCL. Make it %s, or configure with -DTRI_NCCL=ON",
             tri_choice_source(TRI_CHOICE_COLLECTIVES), tri_choice_none(TRI_CHOICE_COLLECTIVES));
  return TRI_OK;
}

enum { WISH_BYTES = 32 };

static void get_wish(char wish[WISH_BYTES]) {
  snprintf(wish, WISH_BYTES, "%s", tri_choice_word(TRI_CHOICE_COLLECTIVES));
}

/* Collective over world. Rank 0's choice decides for all ranks. *asked is true if it made one. */
static tri_status choose(const tri_runtime *rt, const tri_device *d, tri_comm_way *out, bool *asked) {
  char wish[WISH_BYTES] = "";

  if (rt->world_rank == 0) get_wish(wish);
  TRI_MPI(MPI_Bcast(wish, sizeof wish, MPI_CHAR, 0, *(MPI_Comm *)rt->mpi_world));
  *asked = wish[0] != 0;
  return find_way(wish, d->ops->name, tri_device_is_gpu(d), out);
}

tri_status tri_comm_check(const char *device) {
  char         wish[WISH_BYTES];
  tri_comm_way by;

  get_wish(wish);
  return find_way(wish, device, strcmp(device, tri_device_host()) != 0, &by);
}

/* Collective over world. Sets *n to the number of ranks with the GPU of this rank. If any two ranks have the
 * same GPU, sets *first and *second to the first such pair, else to -1. */
static tri_status find_sharers(tri_comm *world, const tri_device *d, int *n, int *first, int *second) {
  const size_t   one = sizeof d->uuid;
  size_t        *counts = NULL;
  unsigned char *all = NULL;
  tri_status     st = TRI_OK;

  *n = 0, *first = *second = -1;
  TRI_TRY_DONE(TRI_ALLOC(counts, world->size));
  TRI_TRY_DONE(TRI_ALLOC(all, (size_t)world->size * one));
  for (int r = 0; r < world->size; r++) counts[r] = one;
  TRI_TRY_DONE(tri_host_gather_into(world, d->uuid, counts, all));
  for (int r = 0; r < world->size; r++) *n += !memcmp(all + (size_t)r * one, d->uuid, one);
  for (int r = 1; r < world->size && *second < 0; r++)
    for (int q = 0; q < r && *second < 0; q++)
      if (!memcmp(all + (size_t)q * one, all + (size_t)r * one, one)) *first = q, *second = r;
done:
  TRI_FREE(counts);
  TRI_FREE(all);
  return st;
}

tri_status tri_comm_sharers(const tri_runtime *rt, tri_comm *world, const tri_device *d, int *n) {
  int first, second;

  *n = rt->machine_ranks;
  if (tri_device_is_gpu(d) && is_alone(world)) return *n = 1, TRI_OK; /* a planned rank has its own GPU */
  return tri_device_is_gpu(d) ? find_sharers(world, d, n, &first, &second) : TRI_OK;
}

static tri_status check_own_gpu(tri_comm *world, const tri_device *d) {
  int n, first, second;

  TRI_TRY(find_sharers(world, d, &n, &first, &second));
  if (second >= 0)
    TRI_FAIL(TRI_EDEVICE,
             "ranks %d and %d have the same GPU. Ask for one GPU per rank (--gpus-per-task=1, or as many "
             "--gpus-per-node as --ntasks-per-node). For a test, set run.collectives: staged",
             first, second);
  return TRI_OK;
}

/* ---- scopes ---- */

tri_scope_place tri_scope_find(tri_scope s, const tri_place *at) {
  int rank = at->local_rank * at->nodes + at->node, mates = at->local_size / at->tensor;

  switch (s) {
  case TRI_NODE:
    return (tri_scope_place){at->node, at->nodes, at->local_rank, at->local_size, 1, "node"};
  case TRI_CROSS:
    return (tri_scope_place){at->local_rank, at->local_size, at->node, at->nodes, at->nodes, "local rank"};
  case TRI_TENSOR:
    return (tri_scope_place){at->node * mates + at->local_rank % mates,
                             at->nodes * mates,
                             at->local_rank / mates,
                             at->tensor,
                             1,
                             "group"};
  case TRI_MATES:
    return (tri_scope_place){at->node * at->tensor + at->local_rank / mates,
                             at->nodes * at->tensor,
                             at->local_rank % mates,
                             mates,
                             1,
                             "group"};
  default:
    return (tri_scope_place){0, 1, rank, at->local_size * at->nodes, at->nodes, ""};
  }
}

tri_scope tri_scope_same(tri_scope s, const tri_place *at) {
  bool inside = s == TRI_TENSOR || s == TRI_MATES;

  return inside && tri_scope_find(s, at).size == at->local_size ? TRI_NODE : s;
}

static tri_status open_host(tri_device *d, tri_comm_way by, tri_comm **out) {
  tri_host_comm *h;

  if (!tri_cpu_family_find()) TRI_TRY(tri_cpu_family_choose()); /* not chosen yet with a GPU */
  TRI_TRY(TRI_ALLOC(h, 1));
  h->device = d;
  h->threads = d->threads;
  h->direct = by == TRI_BY_SHM;
  h->way = by == TRI_BY_STAGED ? &tri_staged_way_ops : &tri_mpi_way_ops;
  h->base.ops = &host_ops;
  *out = &h->base;
  return TRI_OK;
}

/* Collective over world. Gives c its scope and the ranks of this scope. */
static tri_status open_scope(const tri_runtime *rt, tri_scope scope, tri_comm *c) {
  tri_place       at = tri_runtime_place(rt);
  tri_scope_place place = tri_scope_find(scope, &at);

  c->scope = scope;
  TRI_TRY(tri_host_alloc(1, sizeof(MPI_Comm), &c->mpi));
  *(MPI_Comm *)c->mpi = MPI_COMM_NULL;
  TRI_MPI(MPI_Comm_split(*(MPI_Comm *)rt->mpi_world, place.which, place.rank, (MPI_Comm *)c->mpi));
  MPI_Comm_set_errhandler(mpi_of(c), MPI_ERRORS_RETURN);
  MPI_Comm_rank(mpi_of(c), &c->rank);
  MPI_Comm_size(mpi_of(c), &c->size);
  TRI_ASSERT(c->rank == place.rank && c->size == place.size);
  return TRI_OK;
}

/* Collective over world. Finds out whether the ranks of each node are on one machine. */
static tri_status find_near(const tri_runtime *rt, tri_comm *c) {
  int leader = rt->world_rank, least, most, apart;

  TRI_MPI(MPI_Allreduce(MPI_IN_PLACE, &leader, 1, MPI_INT, MPI_MIN, *(MPI_Comm *)rt->mpi_machine));
  TRI_MPI(MPI_Allreduce(&leader, &least, 1, MPI_INT, MPI_MIN, mpi_of(c)));
  TRI_MPI(MPI_Allreduce(&leader, &most, 1, MPI_INT, MPI_MAX, mpi_of(c)));
  apart = least != most;
  TRI_MPI(MPI_Allreduce(MPI_IN_PLACE, &apart, 1, MPI_INT, MPI_MAX, *(MPI_Comm *)rt->mpi_world));
  c->near = !apart && c->size > 1;
  return TRI_OK;
}

static tri_status open_comm(const tri_runtime *rt, tri_scope scope, tri_device *d, tri_comm **out) {
  tri_comm    *c = NULL;
  tri_status   st = TRI_OK;
  tri_comm_way by = TRI_BY_SHM;
  bool         asked = false;

  *out = NULL;
  TRI_ASSERT((unsigned)scope < TRI_SCOPE_COUNT);
  TRI_TRY(choose(rt, d, &by, &asked));
  TRI_TRY_DONE(by == TRI_BY_NCCL ? tri_device_collectives(d->ops->name)->open(d, &c) : open_host(d, by, &c));
  c->way = by;
  TRI_TRY_DONE(open_scope(rt, scope, c));
  if (by == TRI_BY_SHM && scope == TRI_NODE) TRI_TRY_DONE(find_near(rt, c));
  if (by == TRI_BY_NCCL && scope == TRI_WORLD && c->size > 1 && d->ops->leave_sm)
    d->ops->leave_sm(d, TRI_GPU_NCCL_SM);
  if (by != TRI_BY_NCCL) TRI_TRY_DONE(tri_mpi_way_open((tri_host_comm *)c));
  if (by == TRI_BY_STAGED) TRI_TRY_DONE(tri_staged_way_open((tri_host_comm *)c));
  if (scope == TRI_WORLD && tri_device_is_gpu(d) && !asked) TRI_TRY_DONE(check_own_gpu(c, d));
  *out = c;
  c = NULL;
done:
  tri_comm_close(&c);
  return st;
}

tri_status tri_comm_open(const tri_runtime *rt, tri_scope scope, tri_device *d, tri_comm **out) {
  tri_rank_status_enter(TRI_WORLD, "a communicator's start");
  return left(open_comm(rt, scope, d, out), false);
}

/* NCCL's sizes for plans, even if this build lacks NCCL. None of its operations is called. */
static const tri_comm_ops paper_ops = {.beside_bytes = TRI_GPU_NCCL_BYTES,
                                       .beside_each = TRI_GPU_NCCL_EACH_BYTES};

tri_status tri_comm_pretend(tri_scope scope, int size, const tri_device *d, tri_comm **out) {
  char wish[WISH_BYTES];
  bool gpu = tri_device_is_gpu(d), staged;

  get_wish(wish);
  staged = !strcmp(wish, way_name[TRI_BY_STAGED]);
  TRI_TRY(TRI_ALLOC(*out, 1));
  **out = (tri_comm){.ops = gpu && !staged ? &paper_ops : &host_ops,
                     .way = staged ? TRI_BY_STAGED
                            : gpu  ? TRI_BY_NCCL
                                   : TRI_BY_MPI,
                     .scope = scope,
                     .size = size,
                     .near = scope == TRI_NODE && size > 1 && !gpu &&
                             (!wish[0] || !strcmp(wish, way_name[TRI_BY_SHM]))};
  return TRI_OK;
}

size_t tri_comm_host_bytes(tri_comm *const comm[TRI_SCOPE_COUNT], int machine_ranks) {
  const tri_place two_nodes = {0, 1, 0, 2, 1};
  const tri_comm *world = comm[TRI_WORLD];
  char            wish[WISH_BYTES];
  size_t          bytes = 0;

  get_wish(wish);
  if (world->way == TRI_BY_NCCL) return 0;
  for (int s = 0; s < TRI_SCOPE_COUNT; s++) {
    unsigned kinds = tri_comm_kinds(comm, (tri_scope)s);
    bool     inside = tri_scope_find((tri_scope)s, &two_nodes).nodes == 1 || world->size == machine_ranks,
         reduces = (kinds | kinds >> TRI_COLL_KINDS) & (1u << TRI_REDUCE_SCATTER | 1u << TRI_ALL_REDUCE);
    if (inside && (!wish[0] || !strcmp(wish, way_name[TRI_BY_SHM]))) continue;
    if (reduces && comm[s]->size > 1) bytes += tri_mpi_way_bytes(comm[s]->size);
  }
  return bytes;
}

void tri_comm_close(tri_comm **c) {
  void *mpi;

  if (!*c) return;
  mpi = (*c)->mpi;
  (*c)->ops->close(c);
  if (mpi && *(MPI_Comm *)mpi != MPI_COMM_NULL) MPI_Comm_free((MPI_Comm *)mpi);
  tri_host_free(&mpi);
}

static bool is_staged(const tri_comm *c) { return c->way == TRI_BY_STAGED; }

size_t tri_comm_stage_bytes(tri_comm *const comm[TRI_SCOPE_COUNT]) {
  return is_staged(comm[TRI_WORLD]) && comm[TRI_WORLD]->size > 1 ? TRI_STAGE_BYTES : 0;
}

tri_status tri_comm_start(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                          const tri_comm_memory *m) {
  for (int i = 0; i < TRI_SCOPE_COUNT; i++) TRI_ASSERT(comm[i]->scope == (tri_scope)i);
  enter(comm[TRI_WORLD], "start of the communicators");
  return left(comm[TRI_WORLD]->ops->start(rt, comm, d, m), true);
}

static tri_status host_start(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                             const tri_comm_memory *m) {
  tri_host_comm *h[TRI_SCOPE_COUNT];
  char           wish[WISH_BYTES];
  bool           attached = false;

  for (int i = 0; i < TRI_SCOPE_COUNT; i++) {
    h[i] = (tri_host_comm *)comm[i];
    TRI_ASSERT(!h[i]->shm && h[i]->started == h[i]->finished);
    if (is_staged(comm[i])) tri_staged_way_attach(h[i], m->stage);
  }
  if (is_staged(comm[TRI_WORLD]) && comm[TRI_WORLD]->size > 1) {
    get_wish(wish); /* rank 0's choice. Only rank 0 prints this */
    tri_log(TRI_LOG_INFO, "collectives on device memory go through host memory and MPI (%s%s)",
            wish[0] ? tri_choice_source(TRI_CHOICE_COLLECTIVES) : "this program was built without NCCL",
            wish[0] ? wish : "");
  }
  if (tri_device_is_gpu(d)) return TRI_OK;
  TRI_TRY(tri_shm_way_attach(rt, h, d, m->base, m->bytes, h[TRI_WORLD]->direct, &attached));
  for (int i = 0; i < TRI_SCOPE_COUNT; i++)
    if (attached && h[i]->shm)
      h[i]->way = &tri_shm_way_ops;
    else if (h[i]->direct)
      comm[i]->way = TRI_BY_MPI;
  return TRI_OK;
}

/* ---- the control plane ---- */

static tri_status sum(tri_comm *c, double *x, int64_t n) {
  double    *all = NULL;
  tri_status st = TRI_OK;
  int        piece = n < SUM_PIECE ? (int)n : SUM_PIECE;

  TRI_TRY(TRI_ALLOC(all, (int64_t)piece * c->size));
  for (int64_t begin = 0; begin < n; begin += piece) {
    int m = n - begin < piece ? (int)(n - begin) : piece;
    TRI_MPI_DONE(tri_pause_all_gather(x + begin, m, MPI_DOUBLE, all, mpi_of(c)));
    for (int i = 0; i < m; i++) {
      double sum = all[i];
      for (int r = 1; r < c->size; r++) sum += all[(size_t)r * m + i];
      x[begin + i] = sum;
    }
  }
done:
  TRI_FREE(all);
  return st;
}

tri_status tri_host_sum(tri_comm *c, double *x, int64_t n) {
  if (is_alone(c)) return TRI_OK;
  enter(c, "sum");
  return left(sum(c, x, n), n > 0);
}

static tri_status sum_dd(tri_comm *c, tri_dd *x) {
  tri_dd    *all = NULL;
  tri_status st = TRI_OK;

  TRI_TRY(TRI_ALLOC(all, c->size));
  TRI_MPI_DONE(tri_pause_all_gather(x, 2, MPI_DOUBLE, all, mpi_of(c)));
  *x = all[0];
  for (int r = 1; r < c->size; r++) *x = tri_dd_add(*x, all[r]);
done:
  TRI_FREE(all);
  return st;
}

tri_status tri_host_sum_dd(tri_comm *c, tri_dd *x) {
  if (is_alone(c)) return TRI_OK;
  enter(c, "sum");
  return left(sum_dd(c, x), true);
}

static tri_status max(tri_comm *c, int64_t *x, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += MAX_PIECE) {
    int64_t m = n - begin < MAX_PIECE ? n - begin : MAX_PIECE;
    TRI_MPI(tri_pause_all_reduce(x + begin, (int)m, MPI_INT64_T, MPI_MAX, mpi_of(c)));
  }
  return TRI_OK;
}

tri_status tri_host_max(tri_comm *c, int64_t *x, int64_t n) {
  if (is_alone(c)) return TRI_OK;
  enter(c, "maximum");
  return left(max(c, x, n), n > 0);
}

static tri_status broadcast(tri_comm *c, void *buf, size_t bytes, int root) {
  for (size_t begin = 0; begin < bytes; begin += BCAST_PIECE) {
    size_t n = bytes - begin < BCAST_PIECE ? bytes - begin : BCAST_PIECE;
    TRI_MPI(tri_pause_bcast((char *)buf + begin, (int)n, MPI_BYTE, root, mpi_of(c)));
  }
  return TRI_OK;
}

tri_status tri_host_bcast(tri_comm *c, void *buf, size_t bytes, int root) {
  if (is_alone(c)) return TRI_OK;
  enter(c, "broadcast");
  return left(broadcast(c, buf, bytes, root), false);
}

static tri_status barrier(tri_comm *c) {
  TRI_MPI(tri_pause_barrier(mpi_of(c)));
  return TRI_OK;
}

tri_status tri_host_barrier(tri_comm *c) {
  enter(c, "barrier");
  return left(barrier(c), true);
}

static tri_status gather_sizes(tri_comm *c, size_t bytes, size_t *counts) {
  TRI_ASSERT(sizeof bytes == sizeof(uint64_t));
  TRI_MPI(tri_pause_all_gather(&bytes, 1, MPI_UINT64_T, counts, mpi_of(c)));
  return TRI_OK;
}

tri_status tri_host_gather_sizes(tri_comm *c, size_t bytes, size_t *counts) {
  enter(c, "sizes");
  return left(gather_sizes(c, bytes, counts), true);
}

/* all [total] already holds my bytes in their place. */
static tri_status gather_small(tri_comm *c, char *all, const size_t *counts) {
  int       *n = NULL, *at = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(n, c->size));
  TRI_TRY_DONE(TRI_ALLOC(at, c->size));
  for (int r = 0; r < c->size; r++) n[r] = (int)counts[r];
  for (int r = 1; r < c->size; r++) at[r] = at[r - 1] + n[r - 1];
  TRI_MPI_DONE(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, n, at, MPI_BYTE, mpi_of(c)));
done:
  TRI_FREE(n);
  TRI_FREE(at);
  return st;
}

static tri_status gather_into(tri_comm *c, const void *mine, const size_t *counts, void *out) {
  size_t total = 0, my_place = 0, place = 0;

  for (int r = 0; r < c->size; r++) {
    if (r == c->rank) my_place = total;
    total += counts[r];
  }
  if (counts[c->rank]) memcpy((char *)out + my_place, mine, counts[c->rank]);
  if (total <= INT32_MAX) return gather_small(c, out, counts);
  for (int r = 0; r < c->size; place += counts[r++]) TRI_TRY(broadcast(c, (char *)out + place, counts[r], r));
  return TRI_OK;
}

tri_status tri_host_gather_into(tri_comm *c, const void *mine, const size_t *counts, void *out) {
  enter(c, "gather");
  return left(gather_into(c, mine, counts, out), false);
}

tri_status tri_host_gather_all(tri_comm *c, const void *mine, size_t bytes, void **out, size_t *counts) {
  size_t     total = 0;
  tri_status st = TRI_OK;

  *out = NULL;
  TRI_TRY(tri_host_gather_sizes(c, bytes, counts));
  for (int r = 0; r < c->size; r++) total += counts[r];
  TRI_TRY(tri_agree(c, tri_host_alloc(total, 1, out)));
  st = tri_host_gather_into(c, mine, counts, *out);
  if (st != TRI_OK) tri_host_free(out);
  return st;
}

static tri_status agree(tri_comm *c, tri_status mine) {
  tri_error_kept error;
  int            first = mine == TRI_OK ? c->size : c->rank, status = (int)mine;

  TRI_MPI(tri_pause_all_reduce(&first, 1, MPI_INT, MPI_MIN, mpi_of(c)));
  if (first == c->size) return TRI_OK;
  tri_error_keep(&error);
  TRI_MPI(tri_pause_bcast(&status, 1, MPI_INT, first, mpi_of(c)));
  TRI_MPI(tri_pause_bcast(&error, sizeof error, MPI_CHAR, first, mpi_of(c)));
  if (first != c->rank) tri_error_put_back(&error);
  return (tri_status)status;
}

tri_status tri_agree(tri_comm *c, tri_status mine) {
  tri_status st;

  if (is_alone(c)) return mine;
  enter(c, "agreement");
  st = agree(c, mine);
  tri_rank_status_leave(st != TRI_ECOMM);
  return st;
}
