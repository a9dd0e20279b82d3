/* policy.h - what advantages and losses share: scores less their KL, weights of tokens, the loss of tokens
 * with KL and entropy, those of preferences. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_POLICY_H
#define TRI_POLICY_H

#include "algo.h"
#include "base/log.h"

/* Pure. k1, k2, k3 of delta = log pi - log ref, nats (Schulman 2020, "Approximating KL divergence"); slope:
 * its derivative by log pi, NULL if not wanted. */
double tri_kl_value(tri_kl_estimator e, double delta, double *slope);

/* ---- advantages ---- */

/* Not collective. What row i of the rollout pays in rewards: kl_coef k of the old policy where the KL belongs
 * to the reward, else 0. */
double tri_answer_cost(const tri_algo_opt *o, const tri_rollout *r, int64_t i);
/* Not collective. *score [n_seq], the caller's to TRI_FREE: what each answer earned, in rewards, less the
 * cost of its tokens; 0 of those that no statistic counts. One that is not finite is TRI_ENUMERIC, naming the
 * prompt; *score is then NULL. */
TRI_CHECKED tri_status tri_answer_scores(const tri_algo_opt *o, const tri_rollout *r, double **score);
/* Not collective. Of score [n_seq] those of sequence q's group that were not dropped, in order, into
 * group [r->group]; how many. */
int tri_answer_group(const tri_rollout *r, int q, const double *score, double *group);
/* Not collective. r->adv of sequence q: adv at every token with loss, 0 before them. */
void tri_answer_advantage(tri_rollout *r, int q, double adv);

/* ---- losses ---- */

#define TRI_POLICY_READS (TRI_LOSS_OLD_LOGP | TRI_LOSS_ADV) /* of every policy loss */

/* Pure. As tri_loss.weigh. max_response_length: the constant of seq-mean-token-sum-norm. */
void tri_loss_weights(tri_loss_agg mode, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                      double *weight);

/* weigh in the mode of the option algo.loss_agg_mode. Pure. */
void tri_weigh_by_mode(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                       double *weight);
/* What of a token's loss its advantage makes, before its weight. */
typedef struct tri_surrogate {
  double loss, by_logp; /* by_logp: its derivative, what the sequence shares counted in */
  bool   clipped;
} tri_surrogate;
/* How a policy loss differs from another. */
typedef struct tri_policy_rule {
  /* A number that the tokens of sequence q share, such as the logarithm of its ratio; NULL: none. */
  double (*sequence)(const tri_algo_opt *o, const tri_loss_in *in, int q);
  /* Of row i, where ratio = pi / old pi, finite or not; shared: what `sequence` gave. */
  tri_surrogate (*token)(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                         double shared);
  bool one_ratio;       /* exp(shared) is the ratio of all tokens of the sequence */
  bool corrects_itself; /* `sequence` counts the sampler's corrections in; the surrogate is not multiplied */
} tri_policy_rule;
/* Not collective. The surrogate + kl_coef k - entropy_coef H of each token, the KL where it belongs to the
 * loss. The surrogate is multiplied by the sampler's correction, and is 0 where the entropy is below the
 * statistic's (algo.top_entropy_quantile). Writes all of *out, the metrics of TRI_POLICY_METRICS first, then
 * the share of clipped tokens. A token whose loss is not finite is TRI_ENUMERIC, naming it. */
TRI_CHECKED tri_status tri_policy_loss(const tri_algo_opt *o, const tri_loss_in *in,
                                       const tri_policy_rule *rule, tri_loss_out *out);
/* For tri_loss.metric. */
#define TRI_POLICY_METRICS "entropy_mean_nats", "kl_mean_nats", "is_ratio_mean", "is_capped_ratio"
#define TRI_CLIP_METRICS   TRI_POLICY_METRICS, "clip_ratio"
/* Their places in tri_loss_out.metric. */
enum { TRI_POLICY_ENTROPY, TRI_POLICY_KL, TRI_POLICY_IS, TRI_POLICY_CAPPED, TRI_POLICY_CLIPPED };
/* Pure. The sampler's correction of row i: old pi over what the sampler said; and capped, 1 where algo.is_cap
 * is 0 (trl, grpo_trainer.py, vllm_importance_sampling_ratio, token_truncate and token_mask). */
double tri_sampler_ratio(const tri_loss_in *in, int64_t i);
double tri_sampler_correction(const tri_algo_opt *o, const tri_loss_in *in, int64_t i);
/* Pure. What the surrogate of row i is multiplied by. */
double tri_policy_factor(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                         int64_t i);
/* Of every policy loss: the entropy that a quantile of the step's tokens is below. */
extern const tri_step_statistic tri_policy_statistic;

/* ---- losses of pairs and labelled answers ---- */

/* Pure; neither overflows. 1 / (1 + exp(-x)); log(1 + exp(x)) = - log sigmoid(-x). */
double tri_logistic(double x);
double tri_log_1_exp(double x);
/* Not collective. *out: the sum of log pi - log ref, nats, over the rows of sequence q. Their entropies are
 * added to *entropy, where in->ent is. A row that is not finite is TRI_ENUMERIC, naming it. */
TRI_CHECKED tri_status tri_answer_log_ratio(const tri_loss_in *in, int q, tri_mean *entropy, double *out);

/* For tri_loss.metric, first. */
#define TRI_PREFERENCE_METRICS "accuracy", "margin_mean", "chosen_reward_mean", "rejected_reward_mean"
enum { TRI_ACCURACY, TRI_MARGIN, TRI_CHOSEN, TRI_REJECTED, TRI_PREFERENCE_METRIC_COUNT };
/* Pure. Counts a pair's rewards in these metrics. */
void tri_pair_count(tri_mean *metric, double chosen, double rejected);

#endif
