/* advantage_leave_one_out.c - scores less the mean of the other answers to the prompt. */
#include "policy.h"

static const char *const options[] = {NULL};

/* A = score - mean of the group's others = G / (G - 1) (score - mean) (Ahmadian et al. 2024, RLOO, eq. 9),
 * the same at every token of the answer. */
static tri_status fill(const tri_algo_opt *o, tri_rollout *r) {
  double *score;

  TRI_TRY(tri_answer_scores(o, r, &score));
  for (int q = 0; q < r->n_seq; q++) {
    const double *group = score + q / r->group * r->group;
    double        others = 0;
    for (int i = 0; i < r->group; i++) others += group + i == score + q ? 0 : score[q] - group[i];
    tri_answer_advantage(r, q, others / (r->group - 1));
  }
  TRI_FREE(score);
  return TRI_OK;
}

const tri_advantage tri_advantage_leave_one_out = {"leave-one-out", 2, 0, options, fill};
