/* loss_value.c - the critic's loss, a squared error with values clipped around the values before learning. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>
#include <string.h>

enum { CLIPPED, RETURN };
static const char *const options[] = {"critic.value_clip", NULL};
static const char *const metrics[] = {"value_clip_ratio", "return_mean", NULL};

static void mean_over_tokens(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer,
                             int n_seq, double *weight) {
  (void)o;
  tri_loss_weights(TRI_TOKEN_MEAN, max_response_length, n_answer, n_seq, weight);
}

/* A token's loss before its weight. */
typedef struct squared {
  double loss, by_value;
  bool   clipped;
} squared;

/* 1/2 max((V - R)^2, (V_old + clip(V - V_old) - R)^2) (OpenRLHF, loss.py, ValueLoss; verl, core_algos.py,
 * compute_value_loss). If the clipped error is larger, the loss does not depend on V. Inside the clip both
 * are equal. */
static squared of_value(const tri_algo_opt *o, double value, double old, double ret) {
  double moved = value - old, error = value - ret, bounded = error;

  if (o->value_clip > 0 && fabs(moved) > o->value_clip) bounded = old + copysign(o->value_clip, moved) - ret;
  squared s = {error * error / 2, error, bounded * bounded > error * error};
  if (s.clipped) {
    s.loss = bounded * bounded / 2;
    s.by_value = 0;
  }
  return s;
}

static tri_status add_row(const tri_loss_in *in, int q, int64_t i, const squared *s, tri_loss_out *out) {
  out->dvalue[i] = (float)(in->weight[q] * s->by_value);
  out->loss += in->weight[q] * s->loss;
  out->metric[CLIPPED].sum += s->clipped;
  out->metric[RETURN].sum += (double)in->ret[i];
  if (isfinite(s->loss) && isfinite(out->dvalue[i]) && isfinite(in->value[i])) return TRI_OK;
  TRI_FAIL(
      TRI_ENUMERIC,
      "answer token %lld of sequence %d of a micro-batch has no finite value loss. Its value is %g, before "
      "learning %g, and its return is %g. Check the rewards, or lower critic.learning_rate.",
      (long long)(i - in->start[q]), q, (double)in->value[i], (double)in->old_value[i], (double)in->ret[i]);
}

static tri_status value_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  TRI_ASSERT(in->start[0] == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT(in->n == 0 || (in->value && in->old_value && in->ret && out->dvalue));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  out->metric[CLIPPED].of = out->metric[RETURN].of = (double)in->n;
  for (int q = 0; q < in->n_seq; q++)
    for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
      squared s = of_value(o, (double)in->value[i], (double)in->old_value[i], (double)in->ret[i]);
      if (!isfinite(in->old_value[i])) s.loss = NAN; /* a missing or infinite clip must not hide it */
      TRI_TRY(add_row(in, q, i, &s, out));
    }
  return TRI_OK;
}

double tri_explained_variance(const tri_rollout *r) {
  double n = 0, mean_ret = 0, mean_left = 0, var_ret = 0, var_left = 0;

  for (int pass = 0; pass < 2; pass++) {
    for (int q = 0; q < r->n_seq; q++)
      for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++) {
        if (!tri_rollout_learns(r, q, i)) continue;
        double ret = (double)r->critic.ret[i], left = ret - (double)r->critic.value[i];
        if (pass == 0) {
          n++;
          mean_ret += ret;
          mean_left += left;
        } else {
          var_ret += (ret - mean_ret) * (ret - mean_ret);
          var_left += (left - mean_left) * (left - mean_left);
        }
      }
    if (pass == 0 && n > 0) {
      mean_ret /= n;
      mean_left /= n;
    }
  }
  return var_ret > 0 ? 1 - var_left / var_ret : NAN;
}

const tri_loss tri_loss_value = {.name = "value",
                                 .reads = TRI_LOSS_VALUE | TRI_LOSS_RETURN,
                                 .option = options,
                                 .metric = metrics,
                                 .weigh = mean_over_tokens,
                                 .compute = value_loss};
