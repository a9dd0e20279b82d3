/* figures.h - figures of k answers to each prompt: mean, pass@1, pass@k, best@k, majority@k, length. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FIGURES_H
#define TRI_FIGURES_H

#include "answers.h"

/* The figures, in the order of reports.
 *
 * Means over answers are REWARD, PASS_1 (1 if the reward is the largest possible), LENGTH and TRUNCATED.
 *
 * Means over prompts are PASS_K, BEST_K and MAJORITY_K. PASS_K is 1 if any answer gets the largest possible
 * reward. BEST_K is the largest reward. MAJORITY_K is the reward of the first answer with the most frequent
 * result. If several results are equally frequent, the earliest wins. Answers without a result do not vote.
 * If none has one, MAJORITY_K takes the first answer's reward.
 *
 * Answers without a reward (dropped) do not count, nor do prompts without any other.
 *
 * After verl, trainer/ppo/metric_utils.py, process_validation_metrics (best@N, maj@N by calc_maj_val). verl
 * draws N of the answers many times, and here all k are used once. In verl, having no result is a result
 * too. */
typedef enum {
  TRI_FIGURE_REWARD,
  TRI_FIGURE_PASS_1,
  TRI_FIGURE_PASS_K,
  TRI_FIGURE_BEST_K,
  TRI_FIGURE_MAJORITY_K,
  TRI_FIGURE_LENGTH,
  TRI_FIGURE_TRUNCATED,
  TRI_FIGURE_COUNT
} tri_figure;

/* Sums of the figures. Zero-initialise it. */
typedef struct tri_figures {
  int64_t answers, prompts;
  double  sum[TRI_FIGURE_COUNT];
} tri_figures;

/* Fills vote [r->n_seq] with the first answer to the same prompt with the same result, by the set's voter
 * (reward.h). It is -1 for an answer without a result or a reward. Reads set, tokenizer and end of o. */
TRI_CHECKED tri_status tri_figures_vote(const tri_rollout *r, const tri_answers_opt *o, int *vote);
/* Adds the rewarded answers of r in their order. */
void tri_figures_add(const tri_rollout *r, const tri_reward_set *set, const int *vote, tri_figures *to);

/* Pure. "reward_mean", "pass_at_1", ... */
const char *tri_figure_name(tri_figure which);
/* Pure. Tells whether the figure combines k answers, and for k = 1 repeats another figure. */
bool tri_figure_is_of_k(tri_figure which);
/* Tells whether the figure exists for these rewards. PASS_1 and PASS_K need a largest reward, and MAJORITY_K
 * a reward with results. */
bool tri_figure_is_had(tri_figure which, const tri_reward_set *set);
/* Pure. Returns NaN if nothing was added. */
double tri_figure_mean(const tri_figures *f, tri_figure which);

#endif
