/* optim.c - clipping by the global norm, AdamW on the shard, and the learning-rate schedule. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim.h"
#include "base/log.h"
#include "device/trace.h"

#include <math.h>

/* Arguments for every part of a unit's update. */
typedef struct adamw_update {
  const tri_unit_spec *spec;
  tri_adamw_rule       rule;
  double               weight_decay;
  tri_dtype            half; /* the compute type, unless that is f32 */
} adamw_update;

static tri_status update_part(void *ctx, const tri_optim_view *v, tri_stream *s) {
  const adamw_update *u = ctx;

  for (int i = 0; i < u->spec->n_param; i++) {
    const tri_param_spec *f = &u->spec->param[i];
    tri_range             r = tri_range_meet((tri_range){f->offset, tri_param_count(f)}, v->range);
    int64_t               at = r.begin - v->range.begin;
    tri_adamw_rule        rule = u->rule;
    if (!r.count) continue;
    rule.decay = f->ndim == 2 ? (float)(rule.lr * u->weight_decay) : 0.0f;
    tri_tensor w = tri_view1(v->weight + at, TRI_F32, r.count), g = tri_view1(v->grad + at, TRI_F32, r.count);
    tri_tensor m = tri_view1(v->exp_avg + at, TRI_F32, r.count),
               q = tri_view1(v->exp_avg_sq + at, TRI_F32, r.count),
               half = v->half ? tri_view1(v->half + at, u->half, r.count) : (tri_tensor){0};
    TRI_TRY(s->device->ops->kernels->adamw(s, &w, &m, &q, v->half ? &half : NULL, &g, &rule));
  }
  return TRI_OK;
}

/* Collective over world. Updates all units. If params and optimizer have different scopes, a unit's new
 * weights travel while the next unit is updated. Otherwise each rank updates the share it keeps. */
static tri_status update_all(tri_params *p, const tri_optim_opt *opt, const tri_adamw_rule *rule,
                             tri_stream *s) {
  const tri_params_opt *o = tri_params_options(p);
  const unsigned        all = 1u << TRI_STATE_WEIGHT | 1u << TRI_STATE_EXP_AVG | 1u << TRI_STATE_EXP_AVG_SQ;

  for (int i = 0; i < o->n_unit; i++) {
    adamw_update   u = {&o->unit[i], *rule, opt->weight_decay, o->dtype};
    tri_trace_note note = {.what = o->unit[i].name, .how = "update", .owner = o->label};
    int            span = tri_trace_begin(s->device->trace, TRI_LANE_COMPUTE, note, s);
    TRI_TRY(tri_params_optim_each(p, i, all, all, update_part, &u, s));
    tri_trace_end(s->device->trace, span, s);
    TRI_TRY(tri_params_publish(p, i, s));
  }
  TRI_TRY(tri_params_publish_end(p, s));
  tri_params_grad_clear(p);
  return TRI_OK;
}

/* Collective over world. Reports the tensor, unless an overflow was expected, and clears the gradient. */
static tri_status give_up(tri_params *p, bool expected, tri_stream *s) {
  const char *name = NULL;

  if (!expected) TRI_TRY(tri_params_grad_nonfinite(p, s, &name));
  if (name)
    tri_log(TRI_LOG_INFO, "%s: the gradient of %s has NaN or Inf (first such tensor in backward order)",
            tri_params_options(p)->label, name);
  tri_params_grad_clear(p);
  return TRI_OK;
}

tri_status tri_optim_step(tri_params *p, const tri_optim_opt *opt, const tri_optim_now *now, tri_stream *s,
                          double *grad_norm, bool *applied) {
  double         factor = 1 / now->loss_scale;
  tri_adamw_rule rule = {
      (float)now->learning_rate, (float)opt->beta1, (float)opt->beta2, (float)opt->eps, 0, 0, now->update};
  tri_trace *trace = s->device->trace;
  double     sum;
  int        span;

  TRI_TRY(tri_params_grad_settle(p, s));
  span = tri_trace_begin(trace, TRI_LANE_COMPUTE, (tri_trace_note){.what = "gradient norm"}, s);
  TRI_TRY(tri_params_grad_sumsq(p, s, &sum));
  tri_trace_end(trace, span, s);
  *grad_norm = sqrt(sum) * factor;
  *applied = isfinite(sum);
  if (!*applied) return give_up(p, now->overflows, s);
  if (opt->max_grad_norm > 0 && *grad_norm > opt->max_grad_norm) factor *= opt->max_grad_norm / *grad_norm;
  rule.scale = (float)factor;
  return update_all(p, opt, &rule, s);
}

double tri_lr_at(const tri_lr_opt *o, int64_t update) {
  double floor_lr = o->peak * o->min_ratio, done;

  if (update <= o->warmup) return o->peak * (double)update / (double)o->warmup;
  if (o->scheduler == TRI_LR_CONSTANT || o->total <= o->warmup) return o->peak;
  done = (double)(update - o->warmup) / (double)(o->total - o->warmup);
  if (done > 1) done = 1;
  if (o->scheduler == TRI_LR_LINEAR) return o->peak + (floor_lr - o->peak) * done;
  return floor_lr + (o->peak - floor_lr) * 0.5 * (1.0 + cos(3.14159265358979323846 * done));
}
