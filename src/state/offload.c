/* offload.c - keeps parts of the parameter store in host memory, and copies them to the device and back in
 * pieces. Two streams copy beside the work in the caller's stream. A trained store's optimizer state passes
 * through two workspaces on the device. While work runs in one, the other is filled with the next piece or
 * written back. A unit of a frozen store is copied to its place in the slot it is gathered in. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "params_impl.h"

#include <stdio.h>

enum { WORKSPACES = 2 };

/* Device memory for one piece. */
typedef struct workspace {
  float     *array[TRI_STATE_COUNT];  /* [piece] each, or NULL for a kind that is not in host memory */
  tri_event *filled, *used, *flushed; /* its last piece has arrived, was used, is written back */
} workspace;

struct tri_offload {
  workspace   workspace[WORKSPACES];
  int64_t     piece;         /* elements */
  int         next;          /* next workspace */
  bool        busy;          /* copies may be running */
  tri_event  *ready;         /* the caller's stream has reached the next copies */
  tri_event  *copied;        /* the last unit of a frozen store is copied */
  tri_stream *fetch, *flush; /* to the device, and back */
};

bool tri_offload_holds(const tri_params *p, tri_state_kind kind) {
  if (!p->offload) return false;
  if (kind == TRI_STATE_WEIGHT)
    return !p->opt.train || p->opt.dtype != TRI_F32; /* a trained store keeps its master weights there */
  return p->opt.train && (kind != TRI_STATE_AVERAGE || p->opt.ema_beta > 0);
}

static tri_status plan_workspaces(tri_params *p, tri_ledger *l) {
  tri_offload *o = p->offload;
  char         name[48];

  snprintf(name, sizeof name, "%s offload pieces", p->opt.label);
  for (int i = 0; i < p->opt.n_unit; i++)
    if (p->unit[i].ro.count > o->piece) o->piece = p->unit[i].ro.count;
  if (o->piece > p->opt.offload) o->piece = p->opt.offload;
  for (int r = 0; r < WORKSPACES; r++)
    for (int kind = 0; kind < TRI_STATE_COUNT; kind++)
      if (tri_offload_holds(p, (tri_state_kind)kind))
        TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, name,
                               (size_t)o->piece * sizeof(float), (void **)&o->workspace[r].array[kind]));
  return TRI_OK;
}

tri_status tri_offload_open(tri_params *p, tri_ledger *l) {
  const tri_device_ops *ops = p->device->ops;
  tri_offload          *o;

  TRI_TRY(TRI_ALLOC(p->offload, 1));
  o = p->offload;
  TRI_TRY(ops->stream_open(p->device, "fetch", &o->fetch));
  TRI_TRY(ops->stream_open(p->device, "flush", &o->flush));
  TRI_TRY(ops->event_open(p->device, &o->ready));
  TRI_TRY(ops->event_open(p->device, &o->copied));
  for (workspace *r = o->workspace; r < o->workspace + WORKSPACES; r++) {
    TRI_TRY(ops->event_open(p->device, &r->filled));
    TRI_TRY(ops->event_open(p->device, &r->used));
    TRI_TRY(ops->event_open(p->device, &r->flushed));
  }
  return p->opt.train ? plan_workspaces(p, l) : TRI_OK;
}

static void close_event(tri_params *p, tri_event **e) {
  if (*e) p->device->ops->event_close(e);
}

void tri_offload_close(tri_params *p) {
  tri_offload *o = p->offload;

  if (!o) return;
  for (workspace *r = o->workspace; r < o->workspace + WORKSPACES; r++) {
    close_event(p, &r->filled);
    close_event(p, &r->used);
    close_event(p, &r->flushed);
  }
  close_event(p, &o->ready);
  close_event(p, &o->copied);
  if (o->fetch) p->device->ops->stream_close(&o->fetch);
  if (o->flush) p->device->ops->stream_close(&o->flush);
  TRI_FREE(p->offload);
}

/* Makes the stream of copies wait for the present work in s. */
static tri_status follow(tri_params *p, tri_stream *copies, tri_stream *s) {
  TRI_TRY(p->device->ops->event_record(p->offload->ready, s));
  return p->device->ops->stream_wait(copies, p->offload->ready);
}

/* Copies with a span of its own in the trace. */
static tri_status copy(tri_params *p, const tri_param_unit *u, tri_lane lane, tri_stream *s, void *to,
                       const void *from, size_t bytes) {
  tri_trace     *trace = p->device->trace;
  tri_trace_note note = {u->spec->name, p->opt.train ? "state" : "weights", p->opt.label, (int64_t)bytes};
  int            span = tri_trace_begin(trace, lane, note, s);

  TRI_TRY(p->device->ops->copy(s, to, from, bytes));
  tri_trace_end(trace, span, s);
  return TRI_OK;
}

/* ---- optimizer state ---- */

/* Returns views of the whole share, in host or device memory. */
static tri_optim_view whole_share(tri_params *p, tri_param_unit *u) {
  tri_optim_view v = {.range = u->ro,
                      .weight = tri_params_master(p, u),
                      .exp_avg = u->exp_avg,
                      .exp_avg_sq = u->exp_avg_sq,
                      .average = u->average,
                      .grad = u->acc + (u->ro.begin - u->rg.begin)};

  if (u->master) v.half = tri_params_weight_at(p, u, u->ro.begin);
  return v;
}

/* Returns views of elements [at, at + n). Kinds kept in host memory are viewed in the workspace. */
static tri_optim_view part_of(const tri_optim_view *whole, const workspace *r, int64_t at, int64_t n) {
  float *const  *in = r->array;
  tri_optim_view v = {.range = {whole->range.begin + at, n},
                      .weight = in[TRI_STATE_WEIGHT] ? in[TRI_STATE_WEIGHT] : whole->weight + at,
                      .exp_avg = in[TRI_STATE_EXP_AVG],
                      .exp_avg_sq = in[TRI_STATE_EXP_AVG_SQ],
                      .average = in[TRI_STATE_AVERAGE],
                      .grad = whole->grad + at};

  if (whole->half) v.half = whole->half + at;
  return v;
}

/* Copies the arrays of the set between elements [at, at + n) of the share and the workspace. */
static tri_status move(tri_params *p, tri_param_unit *u, tri_lane lane, unsigned set, workspace *r,
                       int64_t at, int64_t n) {
  for (int k = 0; k < TRI_STATE_COUNT; k++) {
    float *host;
    if (!(set >> k & 1) || !r->array[k]) continue;
    host = tri_params_state(p, u, (tri_state_kind)k) + at;
    if (lane == TRI_LANE_FETCH)
      TRI_TRY(copy(p, u, lane, p->offload->fetch, r->array[k], host, (size_t)n * sizeof *host));
    else
      TRI_TRY(copy(p, u, lane, p->offload->flush, host, r->array[k], (size_t)n * sizeof *host));
  }
  return TRI_OK;
}

/* Works on elements [at, at + n) of the share. */
static tri_status work_on(tri_params *p, tri_param_unit *u, const tri_optim_view *whole, int64_t at,
                          int64_t n, unsigned reads, unsigned writes, tri_optim_work work, void *ctx,
                          tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  tri_offload          *o = p->offload;
  workspace            *r = &o->workspace[o->next];
  tri_optim_view        v = part_of(whole, r, at, n);

  o->next = (o->next + 1) % WORKSPACES;
  TRI_TRY(ops->stream_wait(o->fetch, r->used));
  TRI_TRY(ops->stream_wait(o->fetch, r->flushed));
  TRI_TRY(move(p, u, TRI_LANE_FETCH, reads, r, at, n));
  TRI_TRY(ops->event_record(r->filled, o->fetch));
  TRI_TRY(ops->stream_wait(s, r->filled));
  TRI_TRY(work(ctx, &v, s));
  TRI_TRY(ops->event_record(r->used, s));
  TRI_TRY(ops->stream_wait(o->flush, r->used));
  TRI_TRY(move(p, u, TRI_LANE_FLUSH, writes, r, at, n));
  return ops->event_record(r->flushed, o->flush);
}

tri_status tri_params_optim_each(tri_params *p, int unit, unsigned reads, unsigned writes,
                                 tri_optim_work work, void *ctx, tri_stream *s) {
  tri_offload    *o = p->offload;
  tri_param_unit *u = &p->unit[unit];
  tri_optim_view  whole = whole_share(p, u);

  TRI_ASSERT(p->opt.train && !p->pending);
  if (!o) return work(ctx, &whole, s);
  if (!o->busy) TRI_TRY(follow(p, o->fetch, s)); /* waits for the previous writer of the state */
  o->busy = true;
  for (int64_t at = 0; at < u->ro.count; at += o->piece) {
    int64_t n = u->ro.count - at < o->piece ? u->ro.count - at : o->piece;
    TRI_TRY(work_on(p, u, &whole, at, n, reads, writes, work, ctx, s));
  }
  return TRI_OK;
}

tri_status tri_offload_settle(tri_params *p, tri_stream *s) {
  tri_offload *o = p->offload;

  if (!o || !o->busy) return TRI_OK;
  for (int r = 0; r < WORKSPACES; r++) TRI_TRY(p->device->ops->stream_wait(s, o->workspace[r].flushed));
  o->busy = false;
  return TRI_OK;
}

/* ---- frozen weights ---- */

tri_status tri_offload_gather(tri_params *p, tri_param_unit *u, tri_param_slot *sl, tri_stream *s) {
  tri_offload *o = p->offload;
  size_t       each = tri_params_weight_bytes(p);
  char        *mine = (char *)sl->flat + (size_t)u->rp.begin * each;

  TRI_TRY(follow(p, o->fetch, s)); /* the slot is free from then on */
  TRI_TRY(copy(p, u, TRI_LANE_FETCH, o->fetch, mine, u->weight, (size_t)u->rp.count * each));
  if (!tri_params_splits(p, p->opt.plan.params)) return p->device->ops->event_record(o->copied, o->fetch);
  tri_params_carry(p, u, "weights");
  return tri_all_gather(tri_params_comm(p, p->opt.plan.params), sl->flat, mine, u->rp.count, p->opt.dtype,
                        o->fetch, &sl->req);
}

tri_status tri_offload_wait(tri_params *p, tri_param_slot *sl, tri_stream *s) {
  if (!tri_params_splits(p, p->opt.plan.params)) return p->device->ops->stream_wait(s, p->offload->copied);
  return tri_comm_wait(tri_params_comm(p, p->opt.plan.params), &sl->req, s);
}

/* ---- filling ---- */

/* Returns device memory that is unused while a unit is filled. */
static void *spare_workspace(tri_params *p, tri_param_unit *u, size_t *bytes) {
  tri_param_slot *sl = u->own ? u->own : &p->ring[0];

  *bytes = p->opt.train ? (size_t)p->offload->piece * sizeof(float)
                        : (size_t)u->padded * tri_params_weight_bytes(p);
  if (!p->opt.train) return sl->flat;
  return p->offload->workspace[0].array[TRI_STATE_EXP_AVG];
}

tri_status tri_offload_spread(tri_params *p, tri_param_unit *u, void *buf, tri_dtype t, tri_comm *c,
                              int64_t per_rank, tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  size_t                each = tri_dtype_bytes(t), bytes;
  char                 *spare = spare_workspace(p, u, &bytes), *to = buf;
  int64_t               most = c ? (int64_t)(bytes / each) / c->size : 0;

  if (!c || c->size == 1) return TRI_OK;
  TRI_ASSERT(most > 0);
  TRI_TRY(tri_offload_settle(p, s));
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
