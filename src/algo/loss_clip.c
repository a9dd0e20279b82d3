/* loss_clip.c - the clipped policy loss, by the ratio of each token or of the sequence. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>

#define OPTIONS "algo.clip_eps", "algo.clip_eps_high", "algo.dual_clip"
static const char *const clip_options[] = {OPTIONS, "algo.loss_agg_mode", NULL};
static const char *const luspo_options[] = {OPTIONS, NULL};
static const char *const metrics[] = {TRI_CLIP_METRICS, NULL};

/* - min(ratio A, clip(ratio) A) (Schulman et al. 2017, eq. 7; trl, grpo_trainer.py, _compute_loss). For A < 0
 * with dual_clip: - max(min(ratio A, clip(ratio) A), dual_clip A) (Ye et al. 2020, eq. 3; verl,
 * core_algos.py, compute_policy_loss). */
static tri_surrogate clipped(const tri_algo_opt *o, double ratio, double adv) {
  double        bound = 0;
  tri_surrogate s = {.clipped = true};

  if (adv > 0 && ratio > 1 + o->clip_eps_high)
    bound = 1 + o->clip_eps_high;
  else if (adv < 0 && ratio < 1 - o->clip_eps)
    bound = 1 - o->clip_eps;
  else if (adv < 0 && o->dual_clip > 0 && ratio > o->dual_clip)
    bound = o->dual_clip;
  else
    s.clipped = false;
  s.loss = s.clipped ? -bound * adv : -ratio * adv;
  s.by_logp = s.clipped ? 0 : s.loss;
  return s;
}

static tri_surrogate by_token(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                              double shared) {
  (void)shared;
  return clipped(o, ratio, (double)in->adv[i]);
}

/* The logarithm of the ratio is a mean over the T tokens. Each token has 1/T of its slope, and T equal losses
 * sum to the whole slope. If advantages differ between tokens, this is the gradient of GSPO-token (Zheng et
 * al. 2025, eq. 16). */
static tri_surrogate by_sequence(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                                 double shared) {
  (void)ratio;
  return clipped(o, exp(shared), (double)in->adv[i]);
}

/* Returns the mean of log pi - log old pi over the tokens of sequence q, or 0 without tokens (Zheng et al.
 * 2025, GSPO, eq. 7). */
static double sequence_log_ratio(const tri_algo_opt *o, const tri_loss_in *in, int q) {
  double sum = 0, n = (double)(in->start[q + 1] - in->start[q]);

  (void)o;
  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++)
    sum += (double)in->logp[i] - (double)in->old_logp[i];
  return n > 0 ? sum / n : 0;
}

static tri_status clip_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  return tri_policy_loss(o, in, &(tri_policy_rule){.token = by_token}, out);
}

static tri_status sequence_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  return tri_policy_loss(o, in, &(tri_policy_rule){sequence_log_ratio, by_sequence, .one_ratio = true}, out);
}

/* trl, grpo_trainer.py, loss_type luspo. The mean over sequences of their loss times their length. */
static void weigh_luspo(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer,
                        int n_seq, double *weight) {
  (void)o;
  tri_loss_weights(TRI_SEQ_MEAN_TOKEN_SUM, max_response_length, n_answer, n_seq, weight);
}

/* Zheng et al. 2025, 5.1. The bounds are narrow, because a mean moves little. */
static const tri_algo_default of_sequence[] = {{"algo.clip_eps", "3e-4"},
                                               {"algo.clip_eps_high", "4e-4"},
                                               {"algo.loss_agg_mode", "seq-mean-token-mean"},
                                               {NULL, NULL}};

const tri_loss tri_loss_clip = {.name = "clip",
                                .reads = TRI_POLICY_READS,
                                .option = clip_options,
                                .metric = metrics,
                                .weigh = tri_weigh_by_mode,
                                .compute = clip_loss,
                                .statistic = &tri_policy_statistic};
const tri_loss tri_loss_sequence = {.name = "sequence",
                                    .reads = TRI_POLICY_READS,
                                    .option = clip_options,
                                    .set = of_sequence,
                                    .metric = metrics,
                                    .weigh = tri_weigh_by_mode,
                                    .compute = sequence_loss,
                                    .statistic = &tri_policy_statistic};
const tri_loss tri_loss_luspo = {.name = "luspo",
                                 .reads = TRI_POLICY_READS,
                                 .option = luspo_options,
                                 .mean = "seq-mean-token-sum",
                                 .metric = metrics,
                                 .weigh = weigh_luspo,
                                 .compute = sequence_loss,
                                 .statistic = &tri_policy_statistic};
