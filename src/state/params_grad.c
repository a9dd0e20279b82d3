/* params_grad.c - reduces the parameter store's gradients as the plan says, for the update.
 *
 * If gradients are divided, a unit's gradient of one micro-batch is reduced while the next unit runs
 * backward. The first micro-batch is reduced into the accumulator. Later ones are reduced in place and then
 * added to it.
 *
 * After the last micro-batch, accumulators go through up to two more stages of the plan, each during the
 * backward of one more unit. The gradient norm for clipping needs all of them. So the reduction of the last
 * unit and the second stage of the one before it are not hidden, unless another model learns next.
 *
 * Then units are updated one by one. New weights travel during the next unit's update, and the step waits for
 * the last unit's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "residence.h"

#include <math.h>

typedef tri_grad_slot  slot;
typedef tri_param_unit unit;

/* True if gradients go straight to the accumulator. */
static bool is_direct(const tri_params *p) { return !tri_params_splits(p, p->layout.plan.grads); }

static tri_status plan_slot(tri_params *p, tri_ledger *l, slot *g, int64_t flat) {
  g->unit = -1;
  if (!p->opt.train || is_direct(p)) return TRI_OK;
  return tri_params_plan_work(p, l, TRI_PHASE_LEARN, "unreduced gradients", (size_t)flat * sizeof *g->grad,
                              &g->grad);
}

tri_status tri_grads_plan(tri_params *p, tri_ledger *l) {
  for (unit *u = p->unit; u < p->unit + p->opt.n_unit; u++)
    if (!u->spec->in_ring && !u->spec->apart) TRI_TRY(plan_slot(p, l, &u->grad, tri_params_padded(p, u)));
  TRI_TRY(plan_slot(p, l, &p->grad_apart, p->apart_elements));
  for (int k = 0; k < TRI_PARAM_RING; k++) TRI_TRY(plan_slot(p, l, &p->grad_ring[k], p->ring_elements));
  return TRI_OK;
}

static slot *grad_slot(tri_params *p, int index) {
  if (p->unit[index].spec->apart) return &p->grad_apart;
  if (!p->unit[index].spec->in_ring) return &p->unit[index].grad;
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (p->grad_ring[k].unit == index) return &p->grad_ring[k];
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (p->grad_ring[k].unit < 0) return &p->grad_ring[k];
  return NULL;
}

static tri_status start_stage(tri_params *p, int k, unit *u, tri_stream *s) {
  tri_param_flight *f = &p->last[k];
  tri_shard_plan    plan = p->layout.plan;

  f->unit = u;
  if (k == 0)
    return tri_params_exchange(
        p, u, &(tri_exchange){"gradients", TRI_REDUCE_SCATTER, plan.grads, plan.optim, u->acc, NULL, TRI_F32},
        s, &f->req);
  tri_params_carry(p, u, "gradients"); /* its fields lie one behind the other here */
  return tri_all_reduce(tri_params_stage(p, k),
                        tri_params_acc_at(p, u, tri_params_share(p, u, 0, plan.optim).begin),
                        tri_params_count(p, u, plan.optim), TRI_F32, TRI_SUM, s, &f->req);
}

/* Collective. The accumulator of u is complete, or u is NULL and no more units come. Waits for running
 * reductions and moves each to its next stage. */
static tri_status reduce_last(tri_params *p, unit *u, tri_stream *s) {
  for (int k = 0; k < TRI_PARAM_STAGES; k++) {
    tri_comm *c = tri_params_stage(p, k);
    unit     *before = p->last[k].unit;
    if (!c) continue;
    p->last[k].unit = NULL;
    if (before) TRI_TRY(tri_comm_wait(c, &p->last[k].req, s));
    if (u) TRI_TRY(start_stage(p, k, u, s));
    u = before;
  }
  return TRI_OK;
}

/* Collective over the gradient scope. Waits for the running reduction of a micro-batch, and adds it to the
 * accumulator unless that is fresh. */
static tri_status finish_reduce(tri_params *p, tri_stream *s) {
  slot *sl = p->pending;
  unit *u;

  if (!sl) return TRI_OK;
  p->pending = NULL;
  u = &p->unit[sl->unit];
  sl->unit = -1;
  TRI_TRY(tri_comm_wait(tri_params_comm(p, p->layout.plan.grads), &sl->req, s));
  for (int f = 0; f < tri_params_fields(p, u) && !u->fresh; f++) {
    tri_range  r = tri_params_share(p, u, f, p->layout.plan.grads);
    tri_tensor acc = tri_view1(tri_params_acc_at(p, u, r.begin), TRI_F32, r.count),
               part = tri_view1(sl->grad + r.begin, TRI_F32, r.count);
    TRI_TRY(tri_params_kernels(p)->axpby(s, &acc, 1.0f, &part, 1.0f));
  }
  u->fresh = false;
  return sl->last ? reduce_last(p, u, s) : TRI_OK;
}

/* Clears a gradient except the matrices of products, which are written instead. */
static tri_status clear_rest(tri_params *p, const unit *u, float *grad, tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  int64_t               at = 0;

  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    const tri_param_spec *first = &u->spec->param[l->first], *last = first + l->n - 1;
    TRI_ASSERT(first->offset >= at);
    TRI_TRY(ops->fill(s, grad + at, 0, (size_t)(first->offset - at) * sizeof *grad));
    at = last->offset + tri_param_count(last);
#if TRI_DEBUG /* an addition to it shows as NaN */
    TRI_TRY(ops->fill(s, grad + first->offset, 0xff, (size_t)(at - first->offset) * sizeof *grad));
#endif
  }
  return grad ? ops->fill(s, grad + at, 0, (size_t)(tri_params_padded(p, u) - at) * sizeof *grad) : TRI_OK;
}

tri_status tri_params_grad(tri_params *p, int index, tri_stream *s, tri_weights *out) {
  unit  *u = &p->unit[index];
  float *base = u->acc;
  bool   direct = is_direct(p);

  *out = (tri_weights){.t = u->grad_view, .fresh = direct ? u->fresh : !u->grad_open};
  if (!direct) {
    slot *sl = grad_slot(p, index);
    if (!sl || (p->pending && sl == p->pending)) {
      TRI_TRY(finish_reduce(p, s));
      sl = grad_slot(p, index);
    }
    TRI_ASSERT(sl);
    sl->unit = index;
    base = sl->grad;
  }
  if (out->fresh) TRI_TRY(clear_rest(p, u, base, s));
  if (direct) u->fresh = false;
  u->grad_open = true;
  for (int i = 0; i < u->spec->n_param; i++)
    u->grad_view[i] = tri_param_view(&u->spec->param[i], base, TRI_F32);
  return TRI_OK;
}

tri_status tri_params_grad_done(tri_params *p, int index, tri_stream *s, bool last) {
  unit *u = &p->unit[index];
  slot *before = p->pending, *sl;

  TRI_ASSERT(u->grad_open);
  u->grad_open = false;
  if (is_direct(p)) return last ? reduce_last(p, u, s) : TRI_OK;
  sl = grad_slot(p, index);
  TRI_ASSERT(sl && sl->unit == index && sl != before);
  TRI_TRY(finish_reduce(p, s));
  TRI_TRY(
      tri_params_exchange(p, u,
                          &(tri_exchange){"gradients", TRI_REDUCE_SCATTER, TRI_SHARD_NONE,
                                          p->layout.plan.grads, sl->grad, u->fresh ? u->acc : NULL, TRI_F32},
                          s, &sl->req));
  sl->last = last;
  p->pending = sl;
  return TRI_OK;
}

tri_status tri_params_forget_all(tri_params *p, tri_stream *s) {
  TRI_TRY(finish_reduce(p, s));
  if (p->residence->forget) TRI_TRY(p->residence->forget(p, true, s));
  return tri_shared_barrier(p);
}

tri_status tri_params_grad_settle(tri_params *p, tri_stream *s) {
  TRI_TRY(finish_reduce(p, s));
  for (int k = 0; k < TRI_PARAM_STAGES; k++) TRI_TRY(reduce_last(p, NULL, s));
  TRI_TRY(tri_params_forget_unused(p, s)); /* the update writes weights next */
  return tri_shared_barrier(p);
}

/* ---- the update ---- */

tri_grad_view tri_params_grad_view(tri_params *p, int index, int field) {
  unit     *u = &p->unit[index];
  tri_range r = tri_params_share(p, u, field, p->layout.plan.optim);

  TRI_ASSERT(!p->pending && !p->last[0].unit && !p->last[1].unit && !u->fresh && p->opt.train);
  return (tri_grad_view){r, tri_params_acc_at(p, u, r.begin)};
}

/* Copies the sum on the device to *sum. The host waits. */
static tri_status get_sum(tri_params *p, tri_stream *s, tri_dd *sum) {
  TRI_TRY(p->device->ops->copy(s, p->host_sum, p->sum, sizeof *p->sum));
  TRI_TRY(p->device->ops->stream_sync(s));
  *sum = *p->host_sum;
  return TRI_OK;
}

tri_status tri_params_grad_sumsq(tri_params *p, tri_stream *s, double *sum) {
  tri_comm *c = tri_params_comm(p, p->layout.plan.optim);
  tri_dd    total;

  TRI_TRY(p->device->ops->fill(s, p->sum, 0, sizeof *p->sum));
  for (int i = 0; i < p->opt.n_unit; i++)
    for (int f = 0; f < tri_params_fields(p, &p->unit[i]); f++) {
      tri_grad_view v = tri_params_grad_view(p, i, f);
      tri_tensor    g = tri_view1(v.grad, TRI_F32, v.range.count);
      TRI_TRY(tri_params_kernels(p)->sumsq(s, p->sum, &g));
    }
  TRI_TRY(get_sum(p, s, &total));
  if (c) TRI_TRY(tri_host_sum_dd(c, &total));
  *sum = total.hi;
  return TRI_OK;
}

void tri_params_grad_clear(tri_params *p) {
  for (int i = 0; i < p->opt.n_unit; i++) p->unit[i].fresh = true;
}

/* ---- gradients that are not finite ---- */

/* Sets *faulty if this rank's share of the gradient of unit[u].param[i] has a number that is not finite. */
static tri_status is_faulty(tri_params *p, int u, int i, tri_stream *s, bool *faulty) {
  tri_range  r = tri_layout_piece(&p->layout, u, i, p->layout.plan.optim);
  tri_tensor g;
  tri_dd     sum;

  *faulty = false;
  if (!r.count) return TRI_OK;
  g = tri_view1(tri_params_acc_at(p, &p->unit[u], p->opt.unit[u].param[i].offset + r.begin), TRI_F32,
                r.count);
  TRI_TRY(p->device->ops->fill(s, p->sum, 0, sizeof *p->sum));
  TRI_TRY(tri_params_kernels(p)->sumsq(s, p->sum, &g));
  TRI_TRY(get_sum(p, s, &sum));
  *faulty = !isfinite(sum.hi);
  return TRI_OK;
}

/* Sets *rank to a number that is higher for tensors earlier in the backward pass, or to 0 for none. */
static tri_status find_here(tri_params *p, tri_stream *s, int64_t *rank) {
  for (int u = p->opt.n_unit - 1; u >= 0; u--)
    for (int i = 0; i < p->opt.unit[u].n_param; i++) {
      bool faulty;
      TRI_TRY(is_faulty(p, u, i, s, &faulty));
      *rank = ((int64_t)u << 32) + (p->opt.unit[u].n_param - i);
      if (faulty) return TRI_OK;
    }
  *rank = 0;
  return TRI_OK;
}

tri_status tri_params_grad_nonfinite(tri_params *p, tri_stream *s, const char **name) {
  tri_comm  *world = p->comm[TRI_WORLD];
  int64_t    rank = 0;
  tri_status st = find_here(p, s, &rank);

  *name = NULL;
  TRI_TRY(tri_agree(world, st));
  TRI_TRY(tri_host_max(world, &rank, 1));
  if (rank) {
    const tri_unit_spec *u = &p->opt.unit[rank >> 32];
    *name = u->param[u->n_param - (rank & UINT32_MAX)].name;
  }
  return TRI_OK;
}
