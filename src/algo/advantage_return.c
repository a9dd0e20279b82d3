/* advantage_return.c - advantages from the return from each token on. The return is used as it is, less the
 * mean of the prompt's answers, less a greedy answer's reward, or with a critic's values. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "policy.h"

#include <math.h>

static const char *const options[] = {"algo.gamma", NULL};
static const char *const gae_options[] = {"algo.gamma", "algo.lam", NULL};
static const char *const no_options[] = {NULL};

/* A_t = r_t + gamma A_(t+1). r_t = - the token's cost, and at the last token plus reward - baseline (Hu et
 * al. 2025, REINFORCE++, eq. 5 and 6; OpenRLHF, experience_maker.py, get_cumulative_returns). Here t counts
 * the tokens with loss. Tokens between them neither cost nor discount. */
static void fill_answer(const tri_algo_opt *o, tri_rollout *r, int q, double gamma, double baseline) {
  double sum = (double)r->reward[q] - baseline;
  bool   last = true;

  tri_answer_advantage(r, q, 0);
  if (!tri_rollout_counts(r, q)) return;
  for (int64_t i = r->start[q + 1] - 1; i >= tri_rollout_first_row(r, q); i--) {
    if (!tri_rollout_has_loss(r, i)) continue;
    sum = (last ? sum : gamma * sum) - tri_answer_cost(o, r, i);
    r->adv[i] = (float)sum;
    last = false;
  }
}

static tri_status fill(const tri_algo_opt *o, tri_rollout *r, bool compared) {
  double    *score = NULL, *group = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_answer_scores(o, r, &score));
  TRI_TRY_DONE(TRI_ALLOC(group, r->group));
  for (int q = 0; q < r->n_seq; q++) {
    int    n = tri_answer_group(r, q, score, group);
    double mean = 0;
    for (int i = 0; compared && i < n; i++) mean += group[i] / n;
    fill_answer(o, r, q, o->gamma, mean);
  }
done:
  TRI_FREE(score);
  TRI_FREE(group);
  return st;
}

static tri_status fill_bare(const tri_algo_opt *o, tri_rollout *r) { return fill(o, r, false); }
static tri_status fill_compared(const tri_algo_opt *o, tri_rollout *r) { return fill(o, r, true); }

/* A_t = sum of r_u from u = t on, less the greedy answer's reward, without discount (Li et al. 2024, ReMax,
 * algorithm 1; verl, core_algos.py, compute_remax_outcome_advantage). */
static tri_status fill_greedy(const tri_algo_opt *o, tri_rollout *r) {
  double *score;

  TRI_TRY(tri_answer_scores(o, r, &score)); /* checks that all are finite */
  TRI_FREE(score);
  for (int q = 0; q < r->n_seq; q++) {
    if (tri_rollout_counts(r, q) && !isfinite(r->baseline[q]))
      TRI_FAIL(TRI_ENUMERIC,
               "the greedy answer to prompt_id %lld has no finite reward: %g. Check the rewards.",
               (long long)r->prompt_id[q], (double)r->baseline[q]);
    fill_answer(o, r, q, 1, (double)r->baseline[q]);
  }
  return TRI_OK;
}

static tri_status check_values(const tri_rollout *r, int q) {
  for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++)
    if (tri_rollout_has_loss(r, i) && !isfinite(r->critic.value[i]))
      TRI_FAIL(TRI_ENUMERIC,
               "answer %d to prompt_id %lld: the critic's value of token %lld is %g. Check the critic's "
               "weights, or lower critic.learning_rate.",
               (int)r->sample[q], (long long)r->prompt_id[q], (long long)(i - tri_rollout_first_row(r, q)),
               (double)r->critic.value[i]);
  return TRI_OK;
}

/* delta_t = r_t + gamma V_(t+1) - V_t, A_t = delta_t + gamma lam A_(t+1), R_t = A_t + V_t. r_t = - the
 * token's cost, and at the last token plus the reward. After the last token V is 0, even if the answer was
 * cut (Schulman et al. 2016, eq. 16; verl, core_algos.py, compute_gae_advantage_return; OpenRLHF, the
 * same).
 *
 * Here t counts the tokens with loss. If tokens without loss follow token t, V_(t+1) is the value at the next
 * token with loss, whose state includes them. They have no delta, and A_(t+1) passes over them unchanged
 * (verl, compute_gae_advantage_return, nextvalues and lastgaelam with response_mask 0). */
static void fill_estimates(const tri_algo_opt *o, tri_rollout *r, int q) {
  double paid = (double)r->reward[q], next = 0, adv = 0;

  tri_answer_advantage(r, q, 0);
  for (int64_t i = r->start[q]; i < r->start[q + 1]; i++) r->critic.ret[i] = 0;
  if (!tri_rollout_counts(r, q)) return;
  for (int64_t i = r->start[q + 1] - 1; i >= tri_rollout_first_row(r, q); i--) {
    if (!tri_rollout_has_loss(r, i)) continue;
    double value = (double)r->critic.value[i];
    adv = paid - tri_answer_cost(o, r, i) + o->gamma * next - value + o->gamma * o->lam * adv;
    r->adv[i] = (float)adv;
    r->critic.ret[i] = (float)(adv + value);
    next = value;
    paid = 0;
  }
}

static tri_status fill_gae(const tri_algo_opt *o, tri_rollout *r) {
  double *score;

  TRI_TRY(tri_answer_scores(o, r, &score)); /* checks that all are finite */
  TRI_FREE(score);
  for (int q = 0; q < r->n_seq; q++) {
    TRI_TRY(check_values(r, q));
    fill_estimates(o, r, q);
  }
  return TRI_OK;
}

const tri_advantage tri_advantage_return = {"return", 1, 0, options, fill_bare};
const tri_advantage tri_advantage_group_return = {"group-return", 2, 0, options, fill_compared};
const tri_advantage tri_advantage_greedy = {"greedy", 1, TRI_READS_GREEDY, no_options, fill_greedy};
const tri_advantage tri_advantage_gae = {"gae", 1, TRI_READS_CRITIC, gae_options, fill_gae};
