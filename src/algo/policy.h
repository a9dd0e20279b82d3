/* policy.h - shared parts of advantages and losses. Scores less KL, token weights, the policy loss of a
 * token, preference losses. Private to its room. Not collective, all that follow, unless they say
 * Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_POLICY_H
#define TRI_POLICY_H

#include "algo.h"
#include "base/log.h"

/* Pure. Returns the estimator k1, k2 or k3 of delta = log pi - log ref, in nats (Schulman 2020,
 * "Approximating KL divergence"). *slope gets its derivative by log pi, unless slope is NULL. */
double tri_kl_value(tri_kl_estimator e, double delta, double *slope);

/* ---- advantages ---- */

/* Returns the KL cost of rollout row i in rewards, which is kl_coef times k of the old policy if KL belongs
 * to the reward, else 0. */
double tri_answer_cost(const tri_algo_opt *o, const tri_rollout *r, int64_t i);
/* Sets *score [n_seq] to the reward of each answer less the KL cost of its tokens, or 0 for an answer that
 * statistics do not count. The caller frees it with TRI_FREE. If a score is not finite, the result is
 * TRI_ENUMERIC with the prompt, and *score is NULL. */
TRI_CHECKED tri_status tri_answer_scores(const tri_algo_opt *o, const tri_rollout *r, double **score);
/* Copies the scores of sequence q's group into group [r->group], in order, without dropped answers. Returns
 * their number. */
int tri_answer_group(const tri_rollout *r, int q, const double *score, double *group);
/* Sets r->adv of sequence q to adv at every token with loss, and to 0 elsewhere. */
void tri_answer_advantage(tri_rollout *r, int q, double adv);

/* ---- losses ---- */

#define TRI_POLICY_READS (TRI_LOSS_OLD_LOGP | TRI_LOSS_ADV) /* inputs of every policy loss */

/* Pure. Sets weights as tri_loss.weigh does. max_response_length is the constant of
 * seq-mean-token-sum-norm. */
void tri_loss_weights(tri_loss_agg mode, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                      double *weight);

/* Pure. The same in the mode of the option algo.loss_agg_mode. */
void tri_weigh_by_mode(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                       double *weight);
/* A token's loss from its advantage, before its weight. */
typedef struct tri_surrogate {
  double loss, by_logp; /* by_logp is its derivative, including the part through shared numbers */
  bool   clipped;
} tri_surrogate;
/* The parts in which policy losses differ. */
typedef struct tri_policy_rule {
  /* Returns a number shared by the tokens of sequence q, such as the logarithm of its ratio. NULL for
   * none. */
  double (*sequence)(const tri_algo_opt *o, const tri_loss_in *in, int q);
  /* Returns the surrogate of row i. ratio is pi / old pi, finite or not. shared is the result of
   * `sequence`. */
  tri_surrogate (*token)(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio,
                         double shared);
  bool one_ratio; /* all tokens of the sequence have the ratio exp(shared) */
  /* `sequence` includes the sampler's corrections, so the surrogate is not multiplied by them. */
  bool corrects_itself;
} tri_policy_rule;
/* Computes surrogate + kl_coef k - entropy_coef H for each token, with the KL term only if KL belongs to the
 * loss. The surrogate is multiplied by the sampler's correction, and is 0 if the entropy is below the
 * statistic (algo.top_entropy_quantile). Writes all of *out, first the metrics of TRI_POLICY_METRICS, then
 * the share of clipped tokens. TRI_ENUMERIC, with the token, if a token's loss is not finite. */
TRI_CHECKED tri_status tri_policy_loss(const tri_algo_opt *o, const tri_loss_in *in,
                                       const tri_policy_rule *rule, tri_loss_out *out);
/* For tri_loss.metric. */
#define TRI_POLICY_METRICS "entropy_mean_nats", "kl_mean_nats", "is_ratio_mean", "is_capped_ratio"
#define TRI_CLIP_METRICS   TRI_POLICY_METRICS, "clip_ratio"
/* Their positions in tri_loss_out.metric. */
enum { TRI_POLICY_ENTROPY, TRI_POLICY_KL, TRI_POLICY_IS, TRI_POLICY_CAPPED, TRI_POLICY_CLIPPED };
/* Pure. The sampler's correction of row i is the old probability over the sampler's. The first function
 * returns it as it is. The second returns it capped, or 1 if algo.is_cap is 0 (trl, grpo_trainer.py,
 * vllm_importance_sampling_ratio, token_truncate and token_mask). */
double tri_sampler_ratio(const tri_loss_in *in, int64_t i);
double tri_sampler_correction(const tri_algo_opt *o, const tri_loss_in *in, int64_t i);
/* Pure. Returns the factor of the surrogate of row i. */
double tri_policy_factor(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                         int64_t i);
/* For every policy loss, the quantile of the entropies of the step's tokens. */
extern const tri_step_statistic tri_policy_statistic;

/* ---- losses of pairs and labelled answers ---- */

/* Pure. Return 1 / (1 + exp(-x)) and log(1 + exp(x)) = - log sigmoid(-x), without overflow. */
double tri_logistic(double x);
double tri_log_1_exp(double x);
/* Sets *out to the sum of log pi - log ref, in nats, over the rows of sequence q. Adds their entropies to
 * *entropy if in->ent is not NULL. TRI_ENUMERIC, with the row, if a row is not finite. */
TRI_CHECKED tri_status tri_answer_log_ratio(const tri_loss_in *in, int q, tri_mean *entropy, double *out);

/* For tri_loss.metric, in the first positions. */
#define TRI_PREFERENCE_METRICS "accuracy", "margin_mean", "chosen_reward_mean", "rejected_reward_mean"
enum { TRI_ACCURACY, TRI_MARGIN, TRI_CHOSEN, TRI_REJECTED, TRI_PREFERENCE_METRIC_COUNT };
/* Pure. Adds a pair's rewards to these metrics. */
void tri_pair_count(tri_mean *metric, double chosen, double rejected);

#endif
