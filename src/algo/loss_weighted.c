/* loss_weighted.c - CISPO and VESPO, the log-probability of a token weighted by a function of a ratio without
 * gradient. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>

/* ---- cispo, by the token's capped ratio ---- */

static const char *const cispo_options[] = {"algo.clip_eps_high", "algo.loss_agg_mode", NULL};
static const char *const cispo_metrics[] = {TRI_CLIP_METRICS, NULL};

/* - min(ratio, clip_eps_high) A log pi (MiniMax 2025, MiniMax-M1, eq. 4 without its lower bound; trl,
 * grpo_trainer.py, loss_type cispo). */
static tri_surrogate cispo_token(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                                 double shared) {
  double        adv = (double)in->adv[i];
  tri_surrogate s = {.clipped = adv > 0 && ratio > o->clip_eps_high};

  (void)shared;
  s.by_logp = -(ratio > o->clip_eps_high ? o->clip_eps_high : ratio) * adv;
  s.loss = s.by_logp * (double)in->logp[i];
  return s;
}

static tri_status cispo_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  return tri_policy_loss(o, in, &(tri_policy_rule){.token = cispo_token}, out);
}

static const tri_algo_default cispo_set[] = {{"algo.clip_eps_high", "5"}, {NULL, NULL}};

const tri_loss tri_loss_cispo = {.name = "cispo",
                                 .reads = TRI_POLICY_READS,
                                 .option = cispo_options,
                                 .set = cispo_set,
                                 .metric = cispo_metrics,
                                 .weigh = tri_weigh_by_mode,
                                 .compute = cispo_loss,
                                 .statistic = &tri_policy_statistic};

/* ---- vespo, by a gamma density of the sequence's ratio ---- */

static const char *const vespo_options[] = {"algo.vespo_k_pos",   "algo.vespo_lambda_pos",
                                            "algo.vespo_k_neg",   "algo.vespo_lambda_neg",
                                            "algo.loss_agg_mode", NULL};
static const char *const vespo_metrics[] = {TRI_POLICY_METRICS, NULL};

static double between(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* Returns log w, the sum of the tokens' log ratios and the sampler's corrections, within bounds that keep its
 * exponential finite. */
static double log_ratio(const tri_algo_opt *o, const tri_loss_in *in, int q) {
  static const double LOWEST = 1e-8;
  double              sum = 0, correction = 0;

  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++)
    sum += between((double)in->logp[i] - (double)in->old_logp[i], -20, 20);
  for (int64_t i = in->start[q]; o->is_cap > 0 && i < in->start[q + 1]; i++)
    correction += between(log(tri_sampler_correction(o, in, i)), log(LOWEST), 20);
  return between(sum + correction, log(LOWEST), 20);
}

/* - e^lambda w^k e^(-lambda w) A log pi, with k and lambda by the sign of A, and no gradient through w (trl,
 * grpo_trainer.py, get_gamma_weights and loss_type vespo). */
static tri_surrogate vespo_token(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                                 double log_w) {
  double adv = (double)in->adv[i], k = adv >= 0 ? o->vespo_k_pos : o->vespo_k_neg;
  double lambda = fmax(adv >= 0 ? o->vespo_lambda_pos : o->vespo_lambda_neg, 1e-4);
  double by_logp = -exp(lambda + k * log_w - lambda * exp(log_w)) * adv;

  (void)ratio;
  return (tri_surrogate){.loss = by_logp * (double)in->logp[i], .by_logp = by_logp};
}

static tri_status vespo_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  return tri_policy_loss(o, in, &(tri_policy_rule){log_ratio, vespo_token, .corrects_itself = true}, out);
}

const tri_loss tri_loss_vespo = {.name = "vespo",
                                 .reads = TRI_POLICY_READS,
                                 .option = vespo_options,
                                 .metric = vespo_metrics,
                                 .weigh = tri_weigh_by_mode,
                                 .compute = vespo_loss,
                                 .statistic = &tri_policy_statistic};
