/* params.c - opens, fills and reads the shards of the parameter store. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "residence.h"

#include <string.h>

typedef tri_param_unit unit;

enum { FILL_ELEMENTS = 1 << 20 }; /* chosen, at most 4 MiB of host memory while loading */

/* Announces the store's collectives to the communicators. The third one is for filling. */
static void expect(const tri_params *p) {
  tri_shard_plan plan = p->layout.plan;

  tri_comm_expect(tri_params_comm(p, plan.params), TRI_ALL_GATHER);
  tri_comm_expect(tri_params_comm_between(p, plan.params, plan.optim), TRI_ALL_GATHER);
  tri_comm_expect(tri_params_comm_between(p, plan.optim, TRI_SHARD_WORLD), TRI_ALL_GATHER);
  if (p->layout.fields) { /* residence_slice.c */
    tri_comm_expect(tri_params_comm_between(p, TRI_SHARD_NODE, plan.params), TRI_ALL_GATHER);
    tri_comm_expect(p->comm[TRI_MATES], TRI_ALL_GATHER);
  }
  if (!p->opt.train) return;
  tri_comm_expect(tri_params_comm(p, plan.grads), TRI_REDUCE_SCATTER);
  tri_comm_expect(tri_params_stage(p, 0), TRI_REDUCE_SCATTER);
  tri_comm_expect(tri_params_stage(p, 1), TRI_ALL_REDUCE);
}

/* Returns whether any unit has cut params. */
static bool has_cut(const tri_params *p) {
  bool any = false;

  for (int i = 0; i < p->opt.n_unit; i++) any = any || p->opt.unit[i].n_cut;
  return any;
}

/* Chooses the residence, and the memory of the optimizer state. */
static tri_status choose(tri_params *p) {
  bool all;

  TRI_TRY(tri_shared_open(p, &all));
  p->residence = p->opt.offload && !p->opt.train                ? &tri_residence_host
                 : !tri_params_splits(p, p->layout.plan.params) ? &tri_residence_whole
                 : all                                          ? &tri_residence_segment
                                                                : &tri_residence_ring;
  p->optim_memory = p->opt.offload && p->opt.train ? TRI_MEM_PINNED : TRI_MEM_DEVICE;
  p->layout.fields = p->opt.slice && p->residence->in_slots && has_cut(p);
  return p->opt.slice ? tri_slices_open(p) : TRI_OK;
}

static void enlarge(bool counts, int64_t n, int64_t *most) {
  if (counts && n > *most) *most = n;
}

/* Plans the same store without offload in the ledger, and closes it again. */
static tri_status plan_resident(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT], tri_ledger *ledger,
                                const tri_params_opt *opt) {
  tri_params    *twin = NULL;
  tri_params_opt resident = *opt;
  tri_status     st;

  resident.offload = 0;
  tri_ledger_set_case(ledger, TRI_CASE_RESIDENT);
  st = tri_params_open(d, comm, ledger, &resident, &twin);
  tri_ledger_set_case(ledger, TRI_CASE_ANY);
  tri_params_close(&twin);
  return st;
}

tri_status tri_params_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT], tri_ledger *ledger,
                           const tri_params_opt *opt, tri_params **out) {
  tri_params *p;

  TRI_TRY(tri_shard_plan_check(opt->plan));
  TRI_TRY(TRI_ALLOC(*out, 1));
  p = *out;
  p->opt = *opt;
  p->device = d;
  memcpy(p->comm, comm, sizeof p->comm);
  p->layout = tri_layout_make(opt->unit, opt->plan, opt->place, opt->train);
  TRI_TRY(choose(p));
  if (opt->offload) TRI_TRY(plan_resident(d, comm, ledger, opt));
  if (opt->offload) tri_ledger_set_case(ledger, TRI_CASE_OFFLOADED);
  TRI_TRY(TRI_ALLOC(p->unit, opt->n_unit));
  for (int i = 0; i < opt->n_unit; i++) {
    unit *u = &p->unit[i];
    u->spec = &opt->unit[i];
    u->fresh = true;
    enlarge(u->spec->in_ring, tri_params_padded(p, u), &p->ring_elements);
    enlarge(u->spec->apart, tri_params_padded(p, u), &p->apart_elements);
    TRI_TRY(tri_params_open_views(p, u));
    TRI_TRY(p->residence->plan_share(p, ledger, u));
    if (opt->train) TRI_TRY(tri_offload_plan(p, ledger, u));
  }
  if (opt->train) {
    TRI_TRY(tri_params_plan(p, ledger, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, "gradient norm",
                            sizeof *p->sum, &p->sum));
    TRI_TRY(tri_ledger_add(ledger, TRI_MEM_PINNED, TRI_PHASE_LEARN, false, "gradient norm",
                           sizeof *p->host_sum, (void **)&p->host_sum));
  }
  TRI_TRY(p->residence->plan_slots(p, ledger));
  TRI_TRY(tri_shared_plan(p, ledger));
  TRI_TRY(tri_params_plan(p, ledger, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "packed weights",
                          p->matrix_bytes, &p->matrix));
  expect(p);
  TRI_TRY(tri_offload_open(p, ledger));
  if (opt->offload) tri_ledger_set_case(ledger, TRI_CASE_ANY);
  return TRI_OK;
}

void tri_params_close(tri_params **p) {
  if (!*p) return;
  tri_offload_close(*p);
  tri_shared_close(*p);
  for (int i = 0; (*p)->unit && i < (*p)->opt.n_unit; i++) tri_params_close_views(&(*p)->unit[i]);
  tri_slices_close(*p);
  TRI_FREE((*p)->unit);
  TRI_FREE(*p);
}

const tri_params_opt *tri_params_options(const tri_params *p) { return &p->opt; }

/* ---- filling and reading ---- */

static tri_status cast_part(void *dtype, const tri_optim_view *v, tri_stream *s) {
  tri_tensor to = tri_view1(v->half, *(const tri_dtype *)dtype, v->range.count),
             from = tri_view1(v->weight, TRI_F32, v->range.count);

  return s->device->ops->kernels->cast(s, &to, &from);
}

static tri_status cast_master(tri_params *p, int index, tri_stream *s) {
  if (!p->unit[index].state[TRI_STATE_WEIGHT]) return TRI_OK;
  return tri_params_optim_each(p, index, 1u << TRI_STATE_WEIGHT, 0, cast_part, &p->opt.dtype, s);
}

/* True if this kind of state is the weights in their compute type. */
static bool is_compute(const unit *u, tri_state_kind kind) {
  return kind == TRI_STATE_WEIGHT && !u->state[TRI_STATE_WEIGHT];
}

/* Copies f32 `from` in host memory to flat element `at` of the unit's state of this kind, in the state's
 * type. */
static tri_status put(tri_params *p, unit *u, tri_state_kind kind, int64_t at, float *from, int64_t n,
                      tri_stream *s) {
  if (is_compute(u, kind) && p->opt.dtype != TRI_F32) {
    for (int64_t k = 0; k < n; k++) { /* a half never lies behind its f32, so the loop may overwrite */
      uint16_t half = tri_f32_to_half(p->opt.dtype, from[k]);
      memcpy((char *)from + (size_t)k * sizeof half, &half, sizeof half);
    }
    return p->device->ops->copy(s, tri_params_weight_at(p, u, at), from, (size_t)n * sizeof(uint16_t));
  }
  return p->device->ops->copy(s, tri_params_state_at(p, u, kind, at), from, (size_t)n * 4);
}

static tri_status fill_unit(tri_params *p, int index, tri_state_kind kind, tri_fill_fn fill, void *ctx,
                            float *scratch, tri_stream *s) {
  unit *u = &p->unit[index];

  for (int i = 0; i < u->spec->n_param; i++) {
    tri_range piece = tri_params_piece(p, index, i);
    for (int64_t done = 0; done < piece.count; done += FILL_ELEMENTS) {
      int64_t n = piece.count - done < FILL_ELEMENTS ? piece.count - done : FILL_ELEMENTS;
      TRI_TRY(fill(ctx, kind, index, i, piece.begin + done, n, scratch));
      TRI_TRY(put(p, u, kind, u->spec->param[i].offset + piece.begin + done, scratch, n, s));
      TRI_TRY(p->device->ops->stream_sync(s)); /* scratch is reused */
    }
  }
  return TRI_OK;
}

tri_status tri_params_fill(tri_params *p, tri_state_kind kind, tri_fill_fn fill, void *ctx, tri_stream *s) {
  tri_status st = TRI_OK;
  void      *scratch = NULL; /* page-locked, for fast copies to a GPU */

  TRI_ASSERT(kind == TRI_STATE_WEIGHT || p->opt.train);
  TRI_TRY(tri_shared_bind(p));
  TRI_TRY(tri_params_forget_unused(p, s));
  TRI_TRY(tri_shared_barrier(p));
  st = p->device->ops->alloc(p->device, TRI_MEM_PINNED, (size_t)FILL_ELEMENTS * sizeof(float), &scratch);
  for (int i = 0; i < p->opt.n_unit && st == TRI_OK; i++) st = fill_unit(p, i, kind, fill, ctx, scratch, s);
  p->device->ops->free(p->device, TRI_MEM_PINNED, &scratch);
  TRI_TRY(tri_agree(p->comm[TRI_WORLD], st));
  for (int i = 0; i < p->opt.n_unit; i++) {
    unit *u = &p->unit[i];
    if (is_compute(u, kind))
      TRI_TRY(tri_offload_spread(
          p, u, tri_params_weight_at(p, u, tri_params_share(p, u, 0, p->layout.plan.optim).begin),
          p->opt.dtype, p->residence->memory, s));
    else
      TRI_TRY(tri_offload_spread(p, u, u->state[kind], TRI_F32, p->optim_memory, s));
    if (kind == TRI_STATE_WEIGHT) TRI_TRY(cast_master(p, i, s));
    if (kind == TRI_STATE_WEIGHT) TRI_TRY(tri_params_publish(p, i, s));
  }
  return tri_params_publish_end(p, s);
}

tri_range tri_params_piece(const tri_params *p, int u, int i) {
  return tri_layout_piece(&p->layout, u, i, TRI_SHARD_WORLD);
}

tri_status tri_params_read(tri_params *p, tri_state_kind kind, int index, int i, int64_t begin, int64_t count,
                           float *host, tri_stream *s) {
  unit   *u = &p->unit[index];
  int64_t at = u->spec->param[i].offset + begin;

  if (!count) return TRI_OK;
  if (is_compute(u, kind) && p->opt.dtype != TRI_F32) {
    /* In a frozen 16-bit store, the halves go to the upper half of the buffer and are widened from the
     * front. */
    uint16_t *half = (uint16_t *)host + count;
    TRI_TRY(p->device->ops->copy(s, half, tri_params_weight_at(p, u, at), (size_t)count * 2));
    TRI_TRY(p->device->ops->stream_sync(s));
    for (int64_t k = 0; k < count; k++) {
      uint16_t h;
      memcpy(&h, half + k, sizeof h);
      host[k] = tri_half_to_f32(p->opt.dtype, h);
    }
    return TRI_OK;
  }
  TRI_TRY(p->device->ops->copy(s, host, tri_params_state_at(p, u, kind, at), (size_t)count * 4));
  return p->device->ops->stream_sync(s);
}

static tri_status average_part(void *beta, const tri_optim_view *v, tri_stream *s) {
  double     b = *(const double *)beta;
  tri_tensor average = tri_view1(v->average, TRI_F32, v->range.count),
             weight = tri_view1(v->weight, TRI_F32, v->range.count);

  return s->device->ops->kernels->axpby(s, &average, (float)(1 - b), &weight, (float)b);
}

tri_status tri_params_average(tri_params *p, bool start, tri_stream *s) {
  const unsigned average = 1u << TRI_STATE_AVERAGE;
  double         beta = start ? 0 : p->opt.ema_beta;

  for (int i = 0; i < p->opt.n_unit; i++)
    TRI_TRY(tri_params_optim_each(p, i, 1u << TRI_STATE_WEIGHT | average, average, average_part, &beta, s));
  return tri_offload_settle(p, s);
}
