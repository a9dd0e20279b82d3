/* advantage_group.c - advantages from a comparison with the other answers to the prompt: the score less their
 * mean, over their standard deviation, or the score less the mean of the others. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "policy.h"

#include <math.h>

static const char *const options[] = {"algo.scale_rewards", "algo.advantage_eps", NULL};
static const char *const no_options[] = {NULL};

static double mean_of(const double *x, int n) {
  double sum = 0;

  for (int i = 0; i < n; i++) sum += x[i];
  return sum / n;
}

/* Returns the unbiased standard deviation. It is exactly 0 for equal numbers, even if their mean is rounded,
 * and for one number. */
static double std_of(const double *x, int n) {
  double mean = mean_of(x, n), sum = 0;
  bool   differ = false;

  for (int i = 0; i < n; i++) {
    differ = differ || x[i] != x[0];
    sum += (x[i] - mean) * (x[i] - mean);
  }
  return differ ? sqrt(sum / (n - 1)) : 0;
}

/* A = (score - mean of the group) / (std + advantage_eps), the same at every token of the answer (Shao et al.
 * 2024, DeepSeekMath, 4.1.2; trl, grpo_trainer.py, scale_rewards). */
static tri_status group_advantage(const tri_algo_opt *o, tri_rollout *r) {
  double    *score = NULL, *some = NULL, batch_std;
  int        n = 0;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_answer_scores(o, r, &score));
  TRI_TRY_DONE(TRI_ALLOC(some, r->n_seq)); /* remaining answers of the step, later of a group */
  for (int q = 0; q < r->n_seq; q++)
    if (tri_rollout_counts(r, q)) some[n++] = score[q];
  batch_std = std_of(some, n);
  for (int q = 0; q < r->n_seq; q++) {
    double own_std, adv = 0;
    n = tri_answer_group(r, q, score, some);
    own_std = r->masked[q] == TRI_DROPPED ? 0 : std_of(some, n);
    if (own_std > 0) adv = score[q] - mean_of(some, n);
    if (own_std > 0 && o->scale_rewards == TRI_SCALE_GROUP) adv /= own_std + o->advantage_eps;
    if (own_std > 0 && o->scale_rewards == TRI_SCALE_BATCH) adv /= batch_std + o->advantage_eps;
    tri_answer_advantage(r, q, adv);
  }
done:
  TRI_FREE(score);
  TRI_FREE(some);
  return st;
}

/* A = score - mean of the other answers of the group = G / (G - 1) (score - mean) (Ahmadian et al. 2024,
 * RLOO, eq. 9), the same at every token of the answer. */
static tri_status leave_one_out(const tri_algo_opt *o, tri_rollout *r) {
  double *score;

  TRI_TRY(tri_answer_scores(o, r, &score));
  for (int q = 0; q < r->n_seq; q++) {
    int    first = q / r->group * r->group, n = 0;
    double others = 0;
    for (int i = first; i < first + r->group; i++) {
      bool other = i != q && r->masked[i] != TRI_DROPPED;
      others += other ? score[q] - score[i] : 0;
      n += other;
    }
    tri_answer_advantage(r, q, n && r->masked[q] != TRI_DROPPED ? others / n : 0);
  }
  TRI_FREE(score);
  return TRI_OK;
}

const tri_advantage tri_advantage_group = {"group", 2, 0, options, group_advantage};
const tri_advantage tri_advantage_leave_one_out = {"leave-one-out", 2, 0, no_options, leave_one_out};
