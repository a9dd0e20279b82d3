/* policy_factor.c - the factor of a token's policy loss. The sampler's correction, or 0 below an entropy
 * quantile of the step. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>
#include <string.h>

double tri_sampler_ratio(const tri_loss_in *in, int64_t i) {
  return exp((double)in->old_logp[i] - (double)in->roll_logp[i]);
}

double tri_sampler_correction(const tri_algo_opt *o, const tri_loss_in *in, int64_t i) {
  double w = o->is_cap > 0 ? tri_sampler_ratio(in, i) : 1;

  if (o->is_cap > 0 && w > o->is_cap) return o->is_mode == TRI_IS_MASK ? 0 : o->is_cap;
  return w;
}

double tri_policy_factor(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                         int64_t i) {
  if (o->top_entropy_quantile < 1 && (double)in->ent[i] < in->statistic) return 0;
  return rule->corrects_itself ? 1 : tri_sampler_correction(o, in, i);
}

/* ---- entropy threshold ---- */

static bool wants_threshold(const tri_algo_opt *o) { return o->top_entropy_quantile < 1; }

/* Returns a 32-bit number with the same order as x. */
static int64_t order_of(float x) {
  int32_t bits;

  memcpy(&bits, &x, sizeof bits);
  return bits >= 0 ? bits : INT32_MIN - (int64_t)bits;
}

static float of_order(int64_t order) {
  int32_t bits = (int32_t)(order >= 0 ? order : INT32_MIN - order);
  float   x;

  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Counts the tokens with loss of sequences begin .. end - 1 whose order is at most `most`. */
static int64_t count_up_to(const tri_rollout *r, int begin, int end, int64_t most) {
  int64_t n = 0;

  for (int q = begin; q < end; q++)
    for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++)
      n += tri_rollout_learns(r, q, i) && order_of(r->seen[i]) <= most;
  return n;
}

/* Returns the k-th smallest number, k from 0. It bisects the orders, so it moves and copies nothing. */
static float kth_smallest(const tri_rollout *r, int begin, int end, int64_t k) {
  int64_t low = -INT32_MAX, high = INT32_MAX;

  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (count_up_to(r, begin, end, middle) > k)
      high = middle;
    else
      low = middle + 1;
  }
  return of_order(low);
}

/* Returns the quantile 1 - top_entropy_quantile, linear between two entropies (trl, grpo_trainer.py,
 * get_high_entropy_mask; torch.quantile). It is rounded to f32 like the entropies, so that one of them can
 * equal it. */
static double threshold(const tri_algo_opt *o, const tri_rollout *r, int begin, int end) {
  int64_t n = count_up_to(r, begin, end, INT64_MAX), below;
  double  rank, low, high;

  if (n == 0) return 0;
  rank = (1 - o->top_entropy_quantile) * (double)(n - 1);
  below = (int64_t)rank;
  low = (double)kth_smallest(r, begin, end, below);
  high = below + 1 < n ? (double)kth_smallest(r, begin, end, below + 1) : low;
  return (double)(float)(low + (rank - (double)below) * (high - low));
}

const tri_step_statistic tri_policy_statistic = {
    .entropy = true, .wanted = wants_threshold, .number = threshold};
