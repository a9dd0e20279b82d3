/* loss_dpo.c - direct preference optimization, on the difference of a pair's log-ratios to the reference. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>
#include <string.h>

enum { ENTROPY = TRI_PREFERENCE_METRIC_COUNT };
static const char *const options[] = {"algo.beta",     "algo.dpo_loss",         "algo.label_smoothing",
                                      "algo.sft_coef", "algo.length_normalize", NULL};
static const char *const metrics[] = {TRI_PREFERENCE_METRICS, "entropy_mean_nats", NULL};

/* The weight of a chosen answer is the pair's share of the loss in a mean over all pairs. The weight of a
 * rejected answer is a chosen token's share of the SFT term in a mean over all chosen tokens. Pairs count
 * equally, whatever their answers' lengths. */
static void weigh_pairs(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer,
                        int n_seq, double *weight) {
  double n_chosen = 0;

  (void)o, (void)max_response_length;
  for (int q = 0; q < n_seq; q += 2) n_chosen += (double)n_answer[q];
  for (int q = 0; q < n_seq; q++) weight[q] = q % 2 == 0 ? 2.0 / n_seq : n_chosen > 0 ? 1 / n_chosen : 0;
}

/* h is the chosen log-ratio minus the rejected one, and a is label_smoothing.
 *
 * sigmoid: - (1 - a) log sigmoid(beta h) - a log sigmoid(- beta h) (Rafailov et al. 2023, eq. 7, for a
 * Mitchell 2023, cDPO, eq. 3; OpenRLHF, loss.py, DPOLoss).
 *
 * ipo: (h - 1 / (2 beta))^2 (Azar et al. 2023, eq. 17; trl, dpo_trainer.py, _compute_loss). */
static double loss_of(const tri_algo_opt *o, double h, double *slope) {
  const double a = o->label_smoothing, x = o->beta * h, off = h - 1 / (2 * o->beta);

  if (o->dpo_loss == TRI_DPO_IPO) {
    *slope = 2 * off;
    return off * off;
  }
  *slope = o->beta * (a * tri_logistic(x) - (1 - a) * tri_logistic(-x));
  return (1 - a) * tri_log_1_exp(-x) + a * tri_log_1_exp(x);
}

/* Returns the divisor of an answer's log-ratio. Without tokens the log-ratio is 0. */
static double length_of(const tri_algo_opt *o, const tri_loss_in *in, int q) {
  int64_t n = in->start[q + 1] - in->start[q];

  return o->length_normalize && n > 0 ? (double)n : 1;
}

/* Gives every token of sequence q the same derivative. */
static void spread(const tri_loss_in *in, int q, double slope, tri_loss_out *out) {
  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
    out->dlogp[i] = (float)slope;
    out->dent[i] = 0;
  }
}

/* Adds the pair in sequences q and q + 1. */
static tri_status add_pair(const tri_algo_opt *o, const tri_loss_in *in, int q, tri_loss_out *out) {
  double chosen, rejected, slope, loss, length = length_of(o, in, q), other = length_of(o, in, q + 1);
  double share = in->weight[q], imitate = o->sft_coef * in->weight[q + 1];

  TRI_TRY(tri_answer_log_ratio(in, q, &out->metric[ENTROPY], &chosen));
  TRI_TRY(tri_answer_log_ratio(in, q + 1, &out->metric[ENTROPY], &rejected));
  loss = share * loss_of(o, chosen / length - rejected / other, &slope);
  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) loss -= imitate * (double)in->logp[i];
  spread(in, q, share * slope / length - imitate, out);
  spread(in, q + 1, -share * slope / other, out);
  out->loss += loss;
  tri_pair_count(out->metric, o->beta * chosen, o->beta * rejected);
  if (isfinite(loss) && isfinite((float)(share * slope))) return TRI_OK;
  TRI_FAIL(TRI_ENUMERIC,
           "the pair in sequences %d and %d of a micro-batch has no finite loss. Its log-ratios to the "
           "reference are %g and %g nats. Lower train.learning_rate.",
           q, q + 1, chosen, rejected);
}

static tri_status dpo_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  TRI_ASSERT(in->n_seq % 2 == 0 && in->start[0] == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT(in->n == 0 || (in->logp && in->ref_logp));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  for (int q = 0; q < in->n_seq; q += 2) TRI_TRY(add_pair(o, in, q, out));
  return TRI_OK;
}

const tri_loss tri_loss_dpo = {.name = "dpo",
                               .reads = TRI_LOSS_REFERENCE,
                               .option = options,
                               .metric = metrics,
                               .weigh = weigh_pairs,
                               .compute = dpo_loss};
