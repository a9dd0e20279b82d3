/* figures.h - what k answers to each prompt come to: mean, pass@1, pass@k, best@k, majority@k, length. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FIGURES_H
#define TRI_FIGURES_H

#include "answers.h"

/* In the order they are reported in. Means over answers: the reward; PASS_1: whether it is all there is to
 * get; LENGTH; TRUNCATED. Means over prompts: PASS_K: whether any answer gets all there is to get; BEST_K:
 * the largest reward; MAJORITY_K: the reward of the first answer with the result that most of them come to,
 * of results that are equally many the earliest. Answers that come to no result do not vote; where none does,
 * it is the first answer's reward. What has no reward (dropped) does not count, nor does a prompt of such
 * alone. After verl, trainer/ppo/metric_utils.py, process_validation_metrics (best@N, maj@N by calc_maj_val),
 * which draws N of the answers again and again; here it is all k once. There answers without a result are one
 * more result. */
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

/* Sums. Zero-initialise. */
typedef struct tri_figures {
  int64_t answers, prompts;
  double  sum[TRI_FIGURE_COUNT];
} tri_figures;

/* Not collective. vote [r->n_seq]: the first answer to the same prompt that comes to the same result, by the
 * set's voter (reward.h); -1: it comes to none, or has no reward. Of o count set, tokenizer and end. */
TRI_CHECKED tri_status tri_figures_vote(const tri_rollout *r, const tri_answers_opt *o, int *vote);
/* Not collective. Adds the answers of r, which are rewarded, in their order. */
void tri_figures_add(const tri_rollout *r, const tri_reward_set *set, const int *vote, tri_figures *to);

/* Pure. "reward_mean", "pass_at_1", ... */
const char *tri_figure_name(tri_figure which);
/* Pure. Whether it is of k answers together, and with k = 1 says what another figure does. */
bool tri_figure_is_of_k(tri_figure which);
/* Not collective. Whether there is such a thing with these rewards: a most that makes an answer right; a
 * result to vote by. */
bool tri_figure_is_had(tri_figure which, const tri_reward_set *set);
/* Pure. NaN where nothing was added. */
double tri_figure_mean(const tri_figures *f, tri_figure which);

#endif
