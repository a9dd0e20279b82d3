/* loss_rm.c - trains a reward model from pairs, to score the chosen answer above the rejected one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>
#include <string.h>

static const char *const options[] = {"algo.centering_coef", NULL};
static const char *const metrics[] = {TRI_PREFERENCE_METRICS, NULL};

/* All pairs count equally. The score is at the last token, even if the answer has no tokens. */
static void mean_over_pairs(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer,
                            int n_seq, double *weight) {
  (void)o, (void)max_response_length, (void)n_answer;
  for (int q = 0; q < n_seq; q++) weight[q] = 2.0 / n_seq;
}

/* - log sigmoid(r_w - r_l - margin) + centering_coef (r_w + r_l)^2 for the pair in sequences q and q + 1
 * (Ouyang et al. 2022, eq. 1; trl, reward_trainer.py, compute_loss). */
static tri_status add_pair(const tri_algo_opt *o, const tri_loss_in *in, int q, tri_loss_out *out) {
  int64_t w = in->start[q], l = in->start[q + 1];
  double  chosen = (double)in->value[w], rejected = (double)in->value[l], margin = (double)in->score[q];
  double  ahead = chosen - rejected - margin, both = chosen + rejected;
  double  loss = tri_log_1_exp(-ahead) + o->centering_coef * both * both;
  double  push = tri_logistic(-ahead), pull = 2 * o->centering_coef * both;

  out->dvalue[w] = (float)(in->weight[q] * (pull - push));
  out->dvalue[l] = (float)(in->weight[q] * (pull + push));
  out->loss += in->weight[q] * loss;
  tri_pair_count(out->metric, chosen, rejected);
  if (isfinite(loss) && isfinite(margin) && isfinite(out->dvalue[w]) && isfinite(out->dvalue[l]))
    return TRI_OK;
  TRI_FAIL(
      TRI_ENUMERIC,
      "the pair in sequences %d and %d of a micro-batch has no finite loss. Its scores are %g and %g, and "
      "its margin is %g. Check the model's weights and the margins, or lower train.learning_rate.",
      q, q + 1, chosen, rejected, margin);
}

static tri_status rm_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  TRI_ASSERT(in->n == in->n_seq && in->n_seq % 2 == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT(in->n == 0 || (in->value && in->score && out->dvalue));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  for (int q = 0; q < in->n_seq; q += 2) TRI_TRY(add_pair(o, in, q, out));
  return TRI_OK;
}

const tri_loss tri_loss_rm = {.name = "rm",
                              .reads = TRI_LOSS_VALUE | TRI_LOSS_SCORE | TRI_LOSS_LAST,
                              .option = options,
                              .metric = metrics,
                              .weigh = mean_over_pairs,
                              .compute = rm_loss};
