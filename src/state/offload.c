/* offload.c - keeps the optimizer state, in host memory if the store offloads it, and copies and spreads
 * shares of arrays. Two streams copy beside the work in the caller's stream. Optimizer state passes
 * through two workspaces on the device. While work runs in one, the other is filled with the next piece or
 * written back. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "residence.h"

enum { WORKSPACES = 2 };
enum { FILLED, USED, FLUSHED, EVENTS }; /* the last piece has arrived, was used, is written back */

/* Device memory for one piece. */
typedef struct workspace {
  float     *array[TRI_STATE_COUNT]; /* [piece] each, or NULL for a kind that is not in host memory */
  tri_event *event[EVENTS];
} workspace;

struct tri_pieces {
  workspace workspace[WORKSPACES];
  int64_t   piece; /* elements */
  int       next;  /* next workspace */
  bool      busy;  /* copies may be running */
};

/* True if the update keeps this kind of state beside the weights. */
static bool keeps(const tri_params *p, tri_state_kind kind) {
  return kind == TRI_STATE_WEIGHT    ? p->opt.dtype != TRI_F32
         : kind == TRI_STATE_AVERAGE ? p->opt.ema_beta > 0
                                     : true;
}

tri_status tri_offload_plan(tri_params *p, tri_ledger *l, tri_param_unit *u) {
  static const char *const what[] = {"master weights", "moments", "moments", "average"};

  /* An accumulator is fresh from one update to the first micro-batch of the next. */
  TRI_TRY(tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, true, "gradients",
                          (size_t)tri_params_count(p, u, p->layout.plan.grads) * 4, &u->acc));
  for (int k = 0; k < TRI_STATE_COUNT; k++)
    if (keeps(p, (tri_state_kind)k))
      TRI_TRY(tri_params_plan(p, l, p->optim_memory, TRI_PHASE_ALWAYS, true, what[k],
                              (size_t)tri_params_count(p, u, p->layout.plan.optim) * 4, &u->state[k]));
  return TRI_OK;
}

/* Opens the workspaces, and plans them on the device. */
static tri_status open_pieces(tri_params *p, tri_ledger *l) {
  const tri_device_ops *ops = p->device->ops;

  TRI_TRY(TRI_ALLOC(p->pieces, 1));
  for (tri_param_unit *u = p->unit; u < p->unit + p->opt.n_unit; u++)
    if (tri_params_count(p, u, p->layout.plan.optim) > p->pieces->piece)
      p->pieces->piece = tri_params_count(p, u, p->layout.plan.optim);
  if (p->pieces->piece > p->opt.offload) p->pieces->piece = p->opt.offload;
  for (workspace *r = p->pieces->workspace; r < p->pieces->workspace + WORKSPACES; r++) {
    for (int e = 0; e < EVENTS; e++) TRI_TRY(ops->event_open(p->device, &r->event[e]));
    for (int kind = 0; kind < TRI_STATE_COUNT; kind++)
      if (keeps(p, (tri_state_kind)kind))
        TRI_TRY(tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "offload pieces",
                                (size_t)p->pieces->piece * sizeof(float), &r->array[kind]));
  }
  return TRI_OK;
}

tri_status tri_offload_open(tri_params *p, tri_ledger *l) {
  const tri_device_ops *ops = p->device->ops;

  if (!p->opt.offload) return TRI_OK;
  TRI_TRY(TRI_ALLOC(p->offload, 1));
  TRI_TRY(ops->stream_open(p->device, "fetch", &p->offload->fetch));
  TRI_TRY(ops->stream_open(p->device, "flush", &p->offload->flush));
  TRI_TRY(ops->event_open(p->device, &p->offload->ready));
  TRI_TRY(ops->event_open(p->device, &p->offload->copied));
  return p->opt.train ? open_pieces(p, l) : TRI_OK;
}

static void close_event(tri_params *p, tri_event **e) {
  if (*e) p->device->ops->event_close(e);
}

void tri_offload_close(tri_params *p) {
  tri_offload *o = p->offload;

  if (!o) return;
  for (int k = 0; p->pieces && k < WORKSPACES * EVENTS; k++)
    close_event(p, &p->pieces->workspace[k / EVENTS].event[k % EVENTS]);
  close_event(p, &o->ready);
  close_event(p, &o->copied);
  if (o->fetch) p->device->ops->stream_close(&o->fetch);
  if (o->flush) p->device->ops->stream_close(&o->flush);
  TRI_FREE(p->pieces);
  TRI_FREE(p->offload);
}

tri_status tri_offload_follow(tri_params *p, tri_stream *s) {
  TRI_TRY(p->device->ops->event_record(p->offload->ready, s));
  return p->device->ops->stream_wait(p->offload->fetch, p->offload->ready);
}

tri_status tri_offload_copy(tri_params *p, const tri_param_unit *u, tri_lane lane, void *to, const void *from,
                            size_t bytes) {
  tri_trace     *trace = p->device->trace;
  tri_stream    *s = lane == TRI_LANE_FETCH ? p->offload->fetch : p->offload->flush;
  tri_trace_note note = {u->spec->name, p->opt.train ? "state" : "weights", p->opt.label, (int64_t)bytes};
  int            span = tri_trace_begin(trace, lane, note, s);

  TRI_TRY(p->device->ops->copy(s, to, from, bytes));
  tri_trace_end(trace, span, s);
  return TRI_OK;
}

/* ---- optimizer state ---- */

/* Returns views of elements e of the share, in the workspace if there is one. */
static tri_optim_view view(tri_params *p, tri_param_unit *u, const workspace *r, tri_range e) {
  float *x[TRI_STATE_COUNT];

  for (int k = 0; k < TRI_STATE_COUNT; k++)
    x[k] = r && r->array[k] ? r->array[k] : tri_params_state_at(p, u, (tri_state_kind)k, e.begin);
  return (tri_optim_view){.range = e,
                          .weight = x[TRI_STATE_WEIGHT],
                          .exp_avg = x[TRI_STATE_EXP_AVG],
                          .exp_avg_sq = x[TRI_STATE_EXP_AVG_SQ],
                          .average = x[TRI_STATE_AVERAGE],
                          .grad = tri_params_acc_at(p, u, e.begin),
                          .half = u->state[TRI_STATE_WEIGHT] ? tri_params_weight_at(p, u, e.begin) : NULL};
}

/* Copies the arrays of the set between elements e of the share and the workspace. */
static tri_status move(tri_params *p, tri_param_unit *u, tri_lane lane, unsigned set, workspace *r,
                       tri_range e) {
  for (int k = 0; k < TRI_STATE_COUNT; k++) {
    void *ends[2] = {r->array[k], NULL}; /* on the device and in host memory */
    if (!r->array[k] || !(set >> k & 1)) continue;
    ends[1] = tri_params_state_at(p, u, (tri_state_kind)k, e.begin);
    TRI_TRY(tri_offload_copy(p, u, lane, ends[lane != TRI_LANE_FETCH], ends[lane == TRI_LANE_FETCH],
                             (size_t)e.count * sizeof(float)));
  }
  return TRI_OK;
}

/* Works on elements e of the share. */
static tri_status work_on(tri_params *p, tri_param_unit *u, tri_range e, unsigned reads, unsigned writes,
                          tri_optim_work work, void *ctx, tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  tri_offload          *o = p->offload;
  workspace            *r = &p->pieces->workspace[p->pieces->next];
  tri_optim_view        v = view(p, u, r, e);

  p->pieces->next = (p->pieces->next + 1) % WORKSPACES;
  TRI_TRY(ops->stream_wait(o->fetch, r->event[USED]));
  TRI_TRY(ops->stream_wait(o->fetch, r->event[FLUSHED]));
  TRI_TRY(move(p, u, TRI_LANE_FETCH, reads, r, e));
  TRI_TRY(ops->event_record(r->event[FILLED], o->fetch));
  TRI_TRY(ops->stream_wait(s, r->event[FILLED]));
  TRI_TRY(work(ctx, &v, s));
  TRI_TRY(ops->event_record(r->event[USED], s));
  TRI_TRY(ops->stream_wait(o->flush, r->event[USED]));
  TRI_TRY(move(p, u, TRI_LANE_FLUSH, writes, r, e));
  return ops->event_record(r->event[FLUSHED], o->flush);
}

tri_status tri_params_optim_each(tri_params *p, int unit, unsigned reads, unsigned writes,
                                 tri_optim_work work, void *ctx, tri_stream *s) {
  tri_pieces     *o = p->pieces;
  tri_param_unit *u = &p->unit[unit];

  TRI_ASSERT(p->opt.train && !p->pending);
  if (o && !o->busy) TRI_TRY(tri_offload_follow(p, s)); /* waits for the previous writer of the state */
  if (o) o->busy = true;
  for (int f = 0; f < tri_params_fields(p, u); f++) {
    tri_range      all = tri_params_share(p, u, f, p->layout.plan.optim), part = all;
    tri_optim_view v = view(p, u, NULL, all);
    if (!o) TRI_TRY(work(ctx, &v, s));
    for (int64_t at = 0; o && at < all.count; at += part.count) {
      part = tri_range_meet(all, (tri_range){all.begin + at, o->piece});
      TRI_TRY(work_on(p, u, part, reads, writes, work, ctx, s));
    }
  }
  return TRI_OK;
}

tri_status tri_offload_settle(tri_params *p, tri_stream *s) {
  tri_pieces *o = p->pieces;

  if (!o || !o->busy) return TRI_OK;
  for (int r = 0; r < WORKSPACES; r++)
    TRI_TRY(p->device->ops->stream_wait(s, o->workspace[r].event[FLUSHED]));
  o->busy = false;
  return TRI_OK;
}

/* ---- spreading shares ---- */

tri_status tri_params_exchange(const tri_params *p, const tri_param_unit *u, const tri_exchange *x,
                               tri_stream *s, tri_req *req) {
  tri_comm_span span[TRI_MOST_FIELDS];
  size_t        each = tri_dtype_bytes(x->dtype);
  int           n = tri_params_fields(p, u);

  TRI_ASSERT(n <= TRI_MOST_FIELDS);
  if (req) *req = (tri_req){NULL, 0};
  if (!tri_params_padded(p, u)) return TRI_OK; /* a unit of adapters may have no params, and no arrays */
  for (int f = 0; f < n; f++) {
    tri_range all = tri_params_share(p, u, f, x->to), mine = tri_params_share(p, u, f, x->from);
    char     *whole = (char *)x->whole + (size_t)tri_params_at(p, u, x->to, all.begin) * each;
    char     *share = x->share ? (char *)x->share + (size_t)tri_params_at(p, u, x->from, mine.begin) * each
                               : whole + (size_t)(mine.begin - all.begin) * each;
    span[f] = x->kind == TRI_ALL_GATHER ? (tri_comm_span){whole, share, mine.count}
                                        : (tri_comm_span){share, whole, mine.count};
  }
  tri_params_carry(p, u, x->what);
  return tri_collective(tri_params_comm_between(p, x->to, x->from),
                        &(tri_coll){x->kind, span, n, x->dtype, TRI_SUM, s, false}, req);
}

/* Returns device memory that is unused while the store is filled. In a frozen store it is the unit's slot. */
static char *unused(const tri_params *p, const tri_param_unit *u, size_t *bytes) {
  *bytes = p->pieces ? (size_t)p->pieces->piece * sizeof(float)
                     : (size_t)tri_params_padded(p, u) * tri_params_weight_bytes(p);
  if (p->pieces) return (char *)p->pieces->workspace[0].array[TRI_STATE_EXP_AVG];
  return u->own ? u->own->flat : p->ring[0].flat;
}

/* Collective. Spreads a field from host memory, whose part of the share lies at `to`, through the device. */
static tri_status spread_field(tri_params *p, const tri_param_unit *u, int field, char *to, tri_dtype t,
                               tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  tri_shard_scope       optim = p->layout.plan.optim;
  tri_comm             *c = tri_params_comm_between(p, optim, TRI_SHARD_WORLD);
  int64_t               per_rank = tri_params_share(p, u, field, TRI_SHARD_WORLD).count;
  size_t                each = tri_dtype_bytes(t), bytes;
  char                 *spare = unused(p, u, &bytes);
  int64_t               most = (int64_t)(bytes / each) / c->size;

  TRI_ASSERT(most > 0);
  for (int64_t at = 0; at < per_rank; at += most) {
    int64_t n = per_rank - at < most ? per_rank - at : most;
    char   *mine = spare + (size_t)(c->rank * n) * each;
    TRI_TRY(ops->copy(s, mine, to + (size_t)(c->rank * per_rank + at) * each, (size_t)n * each));
    tri_params_carry(p, u, "new weights");
    TRI_TRY(tri_all_gather(c, spare, mine, n, t, s, NULL));
    for (int r = 0; r < c->size; r++)
      TRI_TRY(ops->copy(s, to + (size_t)(r * per_rank + at) * each, spare + (size_t)(r * n) * each,
                        (size_t)n * each));
  }
  return TRI_OK;
}

tri_status tri_offload_spread(tri_params *p, const tri_param_unit *u, void *array, tri_dtype t, tri_mem kind,
                              tri_stream *s) {
  tri_shard_scope optim = p->layout.plan.optim;
  tri_comm       *c = tri_params_comm_between(p, optim, TRI_SHARD_WORLD);

  TRI_TRY(tri_offload_settle(p, s));
  if (!c || c->size == 1 || !tri_params_padded(p, u)) return TRI_OK;
  if (kind == TRI_MEM_DEVICE) /* moments too, at the start */
    return tri_params_exchange(
        p, u, &(tri_exchange){"new weights", TRI_ALL_GATHER, optim, TRI_SHARD_WORLD, array, NULL, t}, s,
        NULL);
  for (int f = 0; f < tri_params_fields(p, u); f++) {
    int64_t at = tri_params_at(p, u, optim, tri_params_share(p, u, f, optim).begin);
    TRI_TRY(spread_field(p, u, f, (char *)array + (size_t)at * tri_dtype_bytes(t), t, s));
  }
  return TRI_OK;
}
