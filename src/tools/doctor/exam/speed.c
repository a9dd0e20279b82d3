/* speed.c - measures the speed of links, products and memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "speed.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "comm/comm.h"
#include "tools/timer/timed_product.h"

#include <stdio.h>
#include <string.h>

/* Chosen. Buffers exceed the caches and take less than a second. The best of several times counts. */
enum {
  CPU_BYTES = 8 << 20,
  GPU_BYTES = 256 << 20,
  TIMES = 4,
  SHORT_TIMES = 10,
  SHORT_ROUNDS = 30,
  MOST_ROUNDS = 63
};
enum {
  PAIR_LEAST = 8,
  PAIR_BYTES = 4 << 20,
  PAIR_TIMES = 4,
  PINGS = 300, /* the best counts, because on busy cores both ranks rarely run at once */
  FIRST_SIDE = 512,
  LAST_SIDE = 8192,
  COPY_BYTES = 32 << 20
};
enum { LEAST_BYTES = 1024 };      /* per rank, to begin with */
static const double part_s = 0.5; /* chosen. Longest time of one network figure, also on a slow network */
static const double least_s = 0.25, product_s = 5e-4; /* time of a measurement, and of a large enough
                                                       * product */

tri_status tri_speed_plan(tri_session *se, tri_speed_buffers *out) {
  int64_t all = tri_device_is_gpu(se->device) ? GPU_BYTES : CPU_BYTES;

  for (int i = 0; i < TRI_SCOPE_COUNT; i++) {
    tri_comm_expect(se->comm[i], TRI_ALL_GATHER);
    tri_comm_expect(se->comm[i], TRI_ALL_REDUCE);
  }
  out->per_rank = all / se->rt.world_size;
  out->per_rank = out->per_rank < 1024 ? 1024 : out->per_rank / 64 * 64;
  TRI_TRY(tri_ledger_add(se->ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "gathered",
                         (size_t)(out->per_rank * se->rt.world_size), &out->recv));
  return tri_ledger_add(se->ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "sent", (size_t)out->per_rank,
                        &out->send);
}

/* ---- communicators ---- */

/* Times `times` calls in a row and sets the seconds per call of the slowest rank. bytes: gathers of so many
 * bytes per rank. 0: sums of one number. */
static tri_status time_calls(tri_session *se, tri_comm *c, const tri_speed_buffers *workspace, int64_t bytes,
                             int times, double *out) {
  int64_t ns;
  double  from_s;

  TRI_TRY(tri_host_barrier(c));
  from_s = tri_now_s();
  for (int i = 0; i < times; i++)
    TRI_TRY(bytes ? tri_all_gather(c, workspace->recv, workspace->send, bytes, TRI_U8, se->stream, NULL)
                  : tri_all_reduce(c, workspace->send, 1, TRI_F32, TRI_SUM, se->stream, NULL));
  TRI_TRY(se->device->ops->stream_sync(se->stream));
  ns = (int64_t)((tri_now_s() - from_s) * 1e9);
  TRI_TRY(tri_host_max(c, &ns, 1));
  *out = (double)ns / 1e9 / times;
  return TRI_OK;
}

/* Replaces *s by the largest of all ranks. */
static tri_status agree_on_time(tri_comm *world, double *s) {
  int64_t ns = (int64_t)(*s * 1e9);

  TRI_TRY(tri_host_max(world, &ns, 1));
  *s = (double)ns / 1e9;
  return TRI_OK;
}

/* Times gathers of growing size, four times as many bytes each, until one would exceed part_s. All ranks of
 * the world use the same size, even if their own communicators differ. */
static tri_status time_gather(tri_session *se, tri_comm *c, const tri_speed_buffers *workspace,
                              int64_t *bytes, double *best) {
  tri_comm *world = se->comm[TRI_WORLD];
  double    s = 0;

  for (*bytes = LEAST_BYTES < workspace->per_rank ? LEAST_BYTES : workspace->per_rank;; *bytes *= 4) {
    if (*bytes > workspace->per_rank) *bytes = workspace->per_rank;
    TRI_TRY(time_calls(se, c, workspace, *bytes, 1, &s));
    TRI_TRY(agree_on_time(world, &s));
    if (*bytes == workspace->per_rank || 4 * s > part_s) break;
  }
  *best = s;
  for (int i = 1; i < TIMES && i * s < part_s; i++) {
    double own = 0;
    TRI_TRY(time_calls(se, c, workspace, *bytes, 1, &own));
    if (own < *best) *best = own;
  }
  return TRI_OK;
}

tri_status tri_speed_scope(tri_session *se, tri_scope scope, const tri_speed_buffers *workspace,
                           tri_rate *out) {
  tri_comm *c = se->comm[scope];
  double    best = 0, s = 0, latency = 0, spent = 0;
  int64_t   ns[2], bytes = 0;

  *out = (tri_rate){.from = -1, .to = -1};
  if (c->size == 1 || tri_scope_same(scope, &se->place) != scope) return TRI_OK; /* or the node's again */
  TRI_TRY(time_calls(se, c, workspace, LEAST_BYTES, 1, &s));                     /* the first call connects */
  TRI_TRY(time_gather(se, c, workspace, &bytes, &best));
  TRI_TRY(time_calls(se, c, workspace, 0, 1, &s));
  TRI_TRY(agree_on_time(se->comm[TRI_WORLD], &s));
  for (int i = 0; i < 2 || (i < SHORT_ROUNDS && spent < part_s); i++) { /* the best counts, because cores may
                                                                         * be busy */
    int times = s * SHORT_TIMES > part_s ? 2 : SHORT_TIMES;
    TRI_TRY(time_calls(se, c, workspace, 0, times, &s));
    TRI_TRY(agree_on_time(se->comm[TRI_WORLD], &s));
    if (!i || s < latency) latency = s;
    spent += s * times;
  }
  ns[0] = (int64_t)(best * 1e9), ns[1] = (int64_t)(latency * 1e9);
  TRI_TRY(tri_host_max(se->comm[TRI_WORLD], ns, 2)); /* over all nodes, or local ranks */
  strcpy(out->scope, tri_scope_text(scope));
  out->bytes = bytes * c->size;
  out->bytes_per_s = (double)(out->bytes - bytes) / ((double)ns[0] / 1e9);
  out->latency_s = (double)ns[1] / 1e9;
  return TRI_OK;
}

/* ---- pairs of nodes ---- */

static int even_of(int n) { return n + n % 2; }

int tri_speed_rounds(const tri_runtime *rt) {
  int rounds = even_of(rt->nodes) - 1;

  return rt->nodes < 2 ? 0 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
}

/* Returns the partner in this round by the circle method of tournaments. Node n - 1 stays and the others
 * rotate. -1: no partner. */
static int partner_of(int me, int nodes, int round) {
  int n = even_of(nodes), m = n - 1, other;

  if (me == m)
    other = round % m * (n / 2) % m; /* otherwise this node would meet itself: 2 x = round (mod m) */
  else {
    other = ((round - me) % m + m) % m;
    if (other == me) other = m;
  }
  return other < nodes ? other : -1;
}

/* Measures a pair. Both ends use the time of the lower one. */
static tri_status ping(tri_comm *world, int peer, void *buf, size_t bytes, int times, double *best) {
  double unused;

  TRI_TRY(tri_ping(world, peer, buf, bytes, times, best));
  memcpy(buf, best, sizeof *best);
  TRI_TRY(tri_ping(world, peer, buf, sizeof *best, 0, &unused)); /* one message each way, the lower rank
                                                                  * first */
  memcpy(best, buf, sizeof *best);
  return TRI_OK;
}

/* Times messages of growing size, four times as many bytes each, until one would exceed part_s. */
static tri_status time_pair(tri_comm *world, int peer, void *buf, size_t *bytes, double *s, double *latency) {
  int times;

  TRI_TRY(ping(world, peer, buf, PAIR_LEAST, 1, s));
  times = part_s / (2 * (*s > 0 ? *s : 1e-9)) < PINGS ? (int)(part_s / (2 * *s)) : PINGS;
  TRI_TRY(ping(world, peer, buf, PAIR_LEAST, times > 1 ? times : 1, latency));
  for (*bytes = 1024;; *bytes *= 4) {
    TRI_TRY(ping(world, peer, buf, *bytes, 1, s));
    if (*bytes == PAIR_BYTES || 16 * *s > part_s) break; /* twice for both ways, of four times the bytes */
  }
  return *s * 2 * PAIR_TIMES < part_s ? ping(world, peer, buf, *bytes, PAIR_TIMES, s) : TRI_OK;
}

tri_status tri_speed_pair(tri_session *se, int round, tri_rate *out) {
  tri_comm  *world = se->comm[TRI_WORLD];
  bool       first = se->rt.local_rank == 0;
  int        peer = first ? partner_of(se->rt.node, se->rt.nodes, round) : -1;
  void      *buf = NULL;
  size_t     bytes = 0;
  double     s = 0, latency = 0;
  tri_status st = TRI_OK;

  *out = (tri_rate){.from = -1, .to = -1};
  TRI_TRY_DONE(tri_agree(world, first ? tri_host_alloc(PAIR_BYTES, 1, &buf) : TRI_OK));
  if (peer >= 0) { /* a node's first rank has the node's number (comm.h) */
    TRI_TRY_DONE(time_pair(world, peer, buf, &bytes, &s, &latency));
  }
  if (peer > se->rt.node && s > 0)
    *out = (tri_rate){.from = se->rt.node,
                      .to = peer,
                      .bytes = (int64_t)bytes,
                      .bytes_per_s = (double)bytes / s,
                      .latency_s = latency};
done:
  tri_host_free(&buf);
  return st;
}

/* ---- products and memory ---- */

/* Times one run, and more for least_s if the product is large enough. The best counts. Each rank times its
 * own product, because others may need another size. */
static tri_status time_open(tri_session *se, tri_timed_product *p, double *best) {
  const tri_timer  t = {se->device, se->stream, NULL};
  const tri_effort quick = {1, 1, 0, 0}, longer = {1, TRI_SERIES_MOST, least_s, least_s};
  tri_timing       took;

  TRI_TRY(tri_timed_product_time(p, TRI_PRODUCT_FWD, p->rows, &t, &quick, &took));
  if (took.best_s >= product_s || p->rows == LAST_SIDE)
    TRI_TRY(tri_timed_product_time(p, TRI_PRODUCT_FWD, p->rows, &t, &longer, &took));
  *best = took.best_s;
  return TRI_OK;
}

static tri_status time_side(tri_session *se, tri_dtype dtype, int64_t side, double *flops, double *best) {
  const tri_device_ops *ops = se->device->ops;
  const tri_linear_spec spec = {side, side, dtype, false, false, NULL};
  tri_timed_product     p = {0};
  void                 *memory = NULL;
  tri_status            st = TRI_OK;

  TRI_TRY_DONE(tri_timed_product_open(se->device, &spec, side, &p));
  TRI_TRY_DONE(ops->alloc(se->device, TRI_MEM_DEVICE, p.memory_bytes, &memory));
  TRI_TRY_DONE(tri_timed_product_start(&p, memory, se->stream));
  TRI_TRY_DONE(time_open(se, &p, best));
  *flops = tri_timed_product_flops(side, side, side) / *best;
done:
  tri_timed_product_close(&p);
  if (memory) ops->free(se->device, TRI_MEM_DEVICE, &memory);
  return st;
}

/* Times the smallest square product of at least product_s. */
static tri_status time_product(tri_session *se, tri_dtype dtype, double *flops) {
  double best = 0;

  for (int64_t side = FIRST_SIDE; side <= LAST_SIDE && best < product_s; side *= 2)
    TRI_TRY(time_side(se, dtype, side, flops, &best));
  return TRI_OK;
}

/* Measures bytes per second of copies from this kind of memory to the device. */
static tri_status time_copy(tri_session *se, tri_mem kind, double *rate) {
  tri_device *d = se->device;
  void       *from = NULL, *to = NULL;
  double      best = 0;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(d->ops->alloc(d, kind, COPY_BYTES, &from));
  TRI_TRY_DONE(d->ops->alloc(d, TRI_MEM_DEVICE, COPY_BYTES, &to));
  for (int i = 0; i < TIMES; i++) {
    double from_s = tri_now_s();
    TRI_TRY_DONE(d->ops->copy(se->stream, to, from, COPY_BYTES));
    TRI_TRY_DONE(d->ops->stream_sync(se->stream));
    double s = tri_now_s() - from_s;
    if (!i || s < best) best = s;
  }
  *rate = COPY_BYTES / best;
done:
  if (from) d->ops->free(d, kind, &from);
  if (to) d->ops->free(d, TRI_MEM_DEVICE, &to);
  return st;
}

tri_status tri_speed_device(tri_session *se, tri_speeds *out) {
  tri_comm *world = se->comm[TRI_WORLD];

  *out = (tri_speeds){0};
  TRI_TRY(tri_agree(world, time_product(se, TRI_BF16, &out->flops_bf16)));
  TRI_TRY(tri_agree(world, time_product(se, TRI_F32, &out->flops_f32)));
  TRI_TRY(tri_agree(world, time_copy(se, TRI_MEM_DEVICE, &out->mem_bytes_per_s)));
  out->mem_bytes_per_s *= 2;
  if (!tri_device_is_gpu(se->device)) return TRI_OK;
  return tri_agree(world, time_copy(se, TRI_MEM_PINNED, &out->host_bytes_per_s));
}
