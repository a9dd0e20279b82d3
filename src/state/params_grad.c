/* params_grad.c - reduces the parameter store's gradients as the plan says, for the update.
 *
 * If gradients are divided, a unit's gradient of one micro-batch is reduced while the next unit runs
 * backward. The first micro-batch is reduced into the accumulator. Later ones are reduced in place and then
 * added to it.
 *
 * After the last micro-batch, accumulators go through up to two more stages of the plan, each during the
 * backward of one more unit. The gradient norm for clipping needs all of them. So the reduction of the last
 * unit and the second stage of the one before it are not hidden, unless another model learns beside.
 *
 * Then units are updated one by one. New weights travel during the next unit's update, and the step waits for
 * the last unit's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "params_impl.h"

typedef tri_param_slot slot;
typedef tri_param_unit unit;

static slot *grad_slot(tri_params *p, int index) {
  if (!p->unit[index].spec->in_ring) return p->unit[index].own;
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (p->ring[k].grad_unit == index) return &p->ring[k];
  for (int k = 0; k < TRI_PARAM_RING; k++)
    if (p->ring[k].grad_unit < 0) return &p->ring[k];
  return NULL;
}

static tri_status start_stage(tri_params *p, int k, unit *u, tri_stream *s) {
  tri_param_flight *f = &p->last[k];
  float            *mine = u->acc + (u->ro.begin - u->rg.begin);

  f->unit = u;
  tri_params_carry(p, u, "gradients");
  if (k == 0)
    return tri_reduce_scatter(tri_params_stage(p, k), mine, u->acc, u->ro.count, TRI_F32, TRI_SUM, s,
                              &f->req);
  return tri_all_reduce(tri_params_stage(p, k), mine, u->ro.count, TRI_F32, TRI_SUM, s, &f->req);
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

/* Collective. Waits for the running reduction of a micro-batch, and adds it to the accumulator unless that is
 * fresh. */
static tri_status finish_reduce(tri_params *p, tri_stream *s) {
  slot      *sl = p->pending;
  tri_comm  *c = tri_params_comm(p, p->opt.plan.grads);
  unit      *u;
  tri_tensor acc, part;

  if (!sl) return TRI_OK;
  p->pending = NULL;
  u = &p->unit[sl->grad_unit];
  sl->grad_unit = -1;
  TRI_TRY(tri_comm_wait(c, &sl->grad_req, s));
  acc = tri_view1(u->acc, TRI_F32, u->rg.count);
  part = tri_view1(sl->grad + u->rg.begin, TRI_F32, u->rg.count);
  if (!u->fresh) TRI_TRY(tri_params_kernels(p)->axpby(s, &acc, 1.0f, &part, 1.0f));
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
  return ops->fill(s, grad + at, 0, (size_t)(u->padded - at) * sizeof *grad);
}

tri_status tri_params_grad(tri_params *p, int index, tri_stream *s, tri_weights *out) {
  unit  *u = &p->unit[index];
  float *base = u->acc;

  *out = (tri_weights){.t = u->grad_view, .fresh = p->grad_direct ? u->fresh : !u->grad_open};
  if (!p->grad_direct) {
    slot *sl = grad_slot(p, index);
    if (!sl || (p->pending && sl == p->pending)) {
      TRI_TRY(finish_reduce(p, s));
      sl = grad_slot(p, index);
    }
    TRI_ASSERT(sl);
    sl->grad_unit = index;
    base = sl->grad;
  }
  if (out->fresh) TRI_TRY(clear_rest(p, u, base, s));
  if (p->grad_direct) u->fresh = false;
  u->grad_open = true;
  for (int i = 0; i < u->spec->n_param; i++)
    u->grad_view[i] = tri_param_view(&u->spec->param[i], base, TRI_F32);
  return TRI_OK;
}

tri_status tri_params_grad_done(tri_params *p, int index, tri_stream *s, bool last) {
  unit     *u = &p->unit[index];
  tri_comm *c = tri_params_comm(p, p->opt.plan.grads);
  slot     *before = p->pending, *sl;

  TRI_ASSERT(u->grad_open);
  u->grad_open = false;
  if (p->grad_direct) return last ? reduce_last(p, u, s) : TRI_OK;
  sl = grad_slot(p, index);
  TRI_ASSERT(sl && sl->grad_unit == index && sl != before);
  TRI_TRY(finish_reduce(p, s));
  tri_params_carry(p, u, "gradients");
  TRI_TRY(tri_reduce_scatter(c, u->fresh ? u->acc : sl->grad + u->rg.begin, sl->grad, u->rg.count, TRI_F32,
                             TRI_SUM, s, &sl->grad_req));
  sl->last = last;
  p->pending = sl;
  return TRI_OK;
}

tri_status tri_params_grad_settle(tri_params *p, tri_stream *s) {
  TRI_TRY(finish_reduce(p, s));
  for (int k = 0; k < TRI_PARAM_STAGES; k++) TRI_TRY(reduce_last(p, NULL, s));
  TRI_TRY(tri_params_forget_unused(p, s)); /* the update writes weights next */
  return tri_params_barrier(p);
}

/* ---- the update ---- */

tri_grad_view tri_params_grad_view(tri_params *p, int index) {
  unit *u = &p->unit[index];

  TRI_ASSERT(!p->pending && !p->last[0].unit && !p->last[1].unit && !u->fresh && p->opt.train);
  return (tri_grad_view){u->ro, u->acc + (u->ro.begin - u->rg.begin)};
}

tri_status tri_params_grad_sumsq(tri_params *p, tri_stream *s, double *sum) {
  const tri_device_ops *ops = p->device->ops;

  TRI_TRY(ops->fill(s, p->sum, 0, sizeof *p->sum));
  for (int i = 0; i < p->opt.n_unit; i++) {
    tri_grad_view v = tri_params_grad_view(p, i);
    tri_tensor    g = tri_view1(v.grad, TRI_F32, v.range.count);
    TRI_TRY(tri_params_kernels(p)->sumsq(s, p->sum, &g));
  }
  TRI_TRY(ops->copy(s, p->host_sum, p->sum, sizeof *p->sum));
  TRI_TRY(ops->stream_sync(s));
  *sum = *p->host_sum;
  return TRI_OK;
}

tri_comm *tri_params_optim_comm(tri_params *p) { return tri_params_comm(p, p->opt.plan.optim); }

void tri_params_grad_clear(tri_params *p) {
  for (int i = 0; i < p->opt.n_unit; i++) p->unit[i].fresh = true;
}
