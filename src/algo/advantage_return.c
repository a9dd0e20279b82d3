/* advantage_return.c - the discounted return from each token on, bare or less the mean of the prompt's
 * answers. */
#include "policy.h"

static const char *const options[] = {"algo.gamma", NULL};

/* A_t = r_t + gamma A_(t+1), r_t = - the token's cost, and at the last one the reward less `baseline` (Hu et
 * al. 2025, REINFORCE++, eq. 5 and 6; OpenRLHF, experience_maker.py, get_cumulative_returns). */
static void fill_answer(const tri_algo_opt *o, tri_rollout *r, int q, double baseline) {
  double sum = (double)r->reward[q] - baseline;

  tri_answer_advantage(r, q, 0);
  for (int64_t i = r->start[q + 1] - 1; i >= tri_rollout_first_row(r, q); i--) {
    sum = (i == r->start[q + 1] - 1 ? sum : o->gamma * sum) - tri_answer_cost(o, r, i);
    r->adv[i] = (float)sum;
  }
}

static tri_status fill(const tri_algo_opt *o, tri_rollout *r, bool compared) {
  double *score;

  TRI_TRY(tri_answer_scores(o, r, &score));
  for (int q = 0; q < r->n_seq; q++) {
    const double *group = score + q / r->group * r->group;
    double        mean = 0;
    for (int i = 0; compared && i < r->group; i++) mean += group[i] / r->group;
    fill_answer(o, r, q, mean);
  }
  TRI_FREE(score);
  return TRI_OK;
}

static tri_status fill_bare(const tri_algo_opt *o, tri_rollout *r) { return fill(o, r, false); }
static tri_status fill_compared(const tri_algo_opt *o, tri_rollout *r) { return fill(o, r, true); }

const tri_advantage tri_advantage_return = {"return", 1, 0, options, fill_bare};
const tri_advantage tri_advantage_group_return = {"group-return", 2, 0, options, fill_compared};
