/* comm_coll.c - entry points of the collectives on device memory, their names for messages and traces, and
 * their traffic. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm_maker.h"
#include "comm/peers/rank_status.h"

int64_t tri_coll_count(const tri_coll *k) {
  int64_t n = 0;

  for (int i = 0; i < k->n_span; i++) n += k->span[i].per_rank;
  return n;
}

/* ---- traffic ---- */

static tri_flow flow_of(const tri_comm *c, const tri_coll *k, double s) {
  bool   pieces = k->kind == TRI_ALL_GATHER || k->kind == TRI_REDUCE_SCATTER;
  int    rings = k->kind == TRI_ALL_REDUCE ? 2 : 1;
  double bytes = (double)tri_coll_count(k) * (double)tri_dtype_bytes(k->dtype) * (c->size - 1);

  return (tri_flow){pieces ? bytes : rings * bytes / c->size, s, rings};
}

/* Keeps the faster one of *best and f. Both must have carried at least `least` bytes. */
static void keep(tri_flow *best, double least, const tri_flow *f) {
  if (f->bytes < least) return;
  if (best->bytes < least || f->bytes * best->s > best->bytes * f->s) *best = *f;
}

void tri_coll_timed(tri_comm *c, const tri_coll *k, double s) {
  tri_traffic *t = &c->traffic;
  tri_flow     f = flow_of(c, k, s > 1e-9 ? s : 1e-9); /* the clock's resolution */

  if (f.bytes > t->most) t->most = f.bytes;
  keep(&t->best, t->most / 2, &f);
  keep(&t->step_best, t->most / 2, &f);
}

static void count(tri_comm *c, const tri_coll *k) {
  double bytes = flow_of(c, k, 0).bytes;

  c->traffic.bytes += bytes;
  c->traffic.step_bytes += bytes;
}

void tri_comm_traffic_begin(tri_comm *c) {
  c->traffic.step_bytes = 0;
  c->traffic.step_best = (tri_flow){0, 0, 0};
}

/* ---- announced collectives ---- */

void tri_comm_expect(tri_comm *c, tri_coll_kind k) {
  if (c && c->size > 1) c->expected |= 1u << k;
}

void tri_comm_expect_in_stream(tri_comm *c, tri_coll_kind k) {
  if (c && c->size > 1) c->expected |= 1u << (TRI_COLL_KINDS + k);
}

bool tri_comm_is_used(unsigned kinds, tri_comm_use use) {
  if (use == TRI_USE_IN_STREAM) return kinds >> TRI_COLL_KINDS;
  for (int k = 0; k < TRI_COLL_KINDS; k++)
    if (kinds >> k & 1 && (tri_coll_lane((tri_coll_kind)k) == TRI_LANE_GATHER) == (use == TRI_USE_GATHER))
      return true;
  return false;
}

tri_scope tri_comm_same(tri_comm *const comm[TRI_SCOPE_COUNT], tri_scope s) {
  if ((s == TRI_TENSOR || s == TRI_MATES) && comm[s]->size == comm[TRI_NODE]->size) s = TRI_NODE;
  return comm[s]->size == comm[TRI_WORLD]->size ? TRI_WORLD : s;
}

unsigned tri_comm_kinds(tri_comm *const comm[TRI_SCOPE_COUNT], tri_scope s) {
  unsigned kinds = 0;

  for (int i = 0; i < TRI_SCOPE_COUNT; i++)
    if (tri_comm_same(comm, (tri_scope)i) == s) kinds |= comm[i]->expected;
  return kinds;
}

size_t tri_comm_beside_bytes(tri_comm *const comm[TRI_SCOPE_COUNT]) {
  const tri_comm_ops *ops = comm[TRI_WORLD]->ops;
  size_t              bytes = 0;

  if (comm[TRI_WORLD]->size == 1) return 0;
  for (int s = 0; s < TRI_SCOPE_COUNT; s++)
    for (int use = 0; use < TRI_COMM_USES; use++)
      if (tri_comm_is_used(tri_comm_kinds(comm, (tri_scope)s), (tri_comm_use)use)) bytes += ops->beside_each;
  return bytes > ops->beside_bytes ? bytes : ops->beside_bytes;
}

/* ---- entry points ---- */

/* A recorded collective has not run yet, so it has neither a number nor traffic. */
static tri_status record_one(tri_comm *c, const tri_coll *k) {
  tri_rank_status_carry(NULL, NULL, NULL);
  (void)tri_trace_carried(k->stream->device->trace);
  TRI_ASSERT(k->in_stream);
  if (!c->ops->replay)
    TRI_FAIL(TRI_EDEVICE, "staged collectives cannot be recorded, because the host takes part in them");
  c->recording->n++;
  c->recording->bytes += flow_of(c, k, 0).bytes;
  return c->ops->submit(c, k, NULL);
}

/* A rank counts as waiting only during tri_comm_wait. Submitting a collective with a request only marks it as
 * reached. The submission itself may have to wait for an older collective. */
static tri_status submit_to(tri_comm *c, const tri_coll *k, tri_req *req) {
  uint64_t   number = tri_rank_status_come((int)c->scope, tri_coll_text(k->kind));
  tri_status st;

  if (req) req->number = number;
  tri_rank_status_wait((int)c->scope, number);
  count(c, k);
  st = c->ops->submit(c, k, req);
  /* A GPU has only queued it. */
  tri_rank_status_leave(!req && st == TRI_OK && !tri_device_is_gpu(k->stream->device));
  return st;
}

/* A scope of one rank. */
static tri_status copy_own(const tri_coll *k, const tri_comm_span *p) {
  size_t bytes = (size_t)p->per_rank * tri_dtype_bytes(k->dtype);

  if (bytes == 0 || !p->send || p->send == p->recv) return TRI_OK;
  return k->stream->device->ops->copy(k->stream, p->recv, p->send, bytes);
}

tri_status tri_collective(tri_comm *c, const tri_coll *k, tri_req *req) {
  if (req) *req = (tri_req){NULL, 0};
  TRI_ASSERT(!(k->in_stream && req));
  TRI_ASSERT((unsigned)k->dtype < TRI_DTYPE_COUNT);
  for (int i = 0; i < k->n_span; i++) TRI_ASSERT(k->span[i].per_rank >= 0);
  if (c->size > 1 && tri_coll_count(k) > 0) return c->recording ? record_one(c, k) : submit_to(c, k, req);
  tri_rank_status_carry(NULL, NULL, NULL);
  (void)tri_trace_carried(k->stream->device->trace); /* drops the label of a call without a collective */
  for (int i = 0; i < k->n_span; i++) TRI_TRY(copy_own(k, &k->span[i]));
  return TRI_OK;
}

tri_status tri_all_gather_v(tri_comm *c, const tri_comm_span *span, int n, tri_dtype t, tri_stream *s,
                            tri_req *req) {
  return tri_collective(c, &(tri_coll){TRI_ALL_GATHER, span, n, t, TRI_SUM, s, false}, req);
}

tri_status tri_reduce_scatter_v(tri_comm *c, const tri_comm_span *span, int n, tri_dtype t, tri_redop op,
                                tri_stream *s, tri_req *req) {
  return tri_collective(c, &(tri_coll){TRI_REDUCE_SCATTER, span, n, t, op, s, false}, req);
}

tri_status tri_all_gather(tri_comm *c, void *recv, const void *send, int64_t per_rank, tri_dtype t,
                          tri_stream *s, tri_req *req) {
  return tri_all_gather_v(c, &(tri_comm_span){recv, send, per_rank}, 1, t, s, req);
}

tri_status tri_reduce_scatter(tri_comm *c, void *recv, const void *send, int64_t per_rank, tri_dtype t,
                              tri_redop op, tri_stream *s, tri_req *req) {
  return tri_reduce_scatter_v(c, &(tri_comm_span){recv, send, per_rank}, 1, t, op, s, req);
}

tri_status tri_all_reduce(tri_comm *c, void *buf, int64_t count, tri_dtype t, tri_redop op, tri_stream *s,
                          tri_req *req) {
  tri_comm_span whole = {buf, NULL, count};

  return tri_collective(c, &(tri_coll){TRI_ALL_REDUCE, &whole, 1, t, op, s, false}, req);
}

tri_status tri_comm_wait(tri_comm *c, tri_req *req, tri_stream *s) {
  tri_status st;

  if (!req->number) return c->ops->wait(c, req, s);
  tri_rank_status_wait((int)c->scope, req->number);
  st = c->ops->wait(c, req, s);
  tri_rank_status_leave(false);
  req->number = 0;
  return st;
}

const char *tri_scope_text(tri_scope s) {
  const char *text = tri_rank_status_scope((int)s);
  return text ? text : "?";
}

const char *tri_coll_text(tri_coll_kind k) {
  static const char *const text[] = {"all_gather", "reduce_scatter", "all_reduce"};
  return text[k];
}

tri_lane tri_coll_lane(tri_coll_kind k) { return k == TRI_ALL_GATHER ? TRI_LANE_GATHER : TRI_LANE_REDUCE; }

tri_trace_note tri_coll_note(tri_trace *t, const tri_comm *c, const tri_coll *k) {
  tri_trace_note note = tri_trace_carried(t);
  bool           pieces = k->kind == TRI_ALL_GATHER || k->kind == TRI_REDUCE_SCATTER;

  if (!t) return note;
  if (!note.what) note.what = tri_coll_text(k->kind);
  note.bytes = tri_coll_count(k) * (int64_t)tri_dtype_bytes(k->dtype) * (pieces ? c->size : 1);
  return note;
}
