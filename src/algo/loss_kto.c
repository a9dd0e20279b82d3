/* loss_kto.c - Kahneman-Tversky optimization of answers labelled good or not, relative to answers to other
 * prompts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>
#include <string.h>

enum { ENTROPY = TRI_PREFERENCE_METRIC_COUNT };
static const char *const options[] = {"algo.beta", "algo.desirable_weight", "algo.undesirable_weight", NULL};
static const char *const metrics[] = {TRI_PREFERENCE_METRICS, "entropy_mean_nats", NULL};

static void mean_over_answers(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer,
                              int n_seq, double *weight) {
  (void)o, (void)max_response_length, (void)n_answer;
  for (int q = 0; q < n_seq; q++) weight[q] = 1.0 / n_seq;
}

/* r is the sum of log pi - log ref, and z is a constant. Desirable: w (1 - sigmoid(beta (r - z))),
 * undesirable: w (1 - sigmoid(beta (z - r))) (Ethayarajh et al. 2024, eq. 7; trl, kto_trainer.py,
 * _compute_loss). */
static tri_status add_answer(const tri_algo_opt *o, const tri_loss_in *in, int q, tri_loss_out *out) {
  bool      good = in->score[q] > 0.5f;
  double    ratio, side = good ? 1 : -1, weight = good ? o->desirable_weight : o->undesirable_weight;
  tri_mean *reward = &out->metric[good ? TRI_CHOSEN : TRI_REJECTED];

  TRI_TRY(tri_answer_log_ratio(in, q, &out->metric[ENTROPY], &ratio));
  double x = side * o->beta * (ratio - in->statistic), loss = in->weight[q] * weight * tri_logistic(-x);
  double slope = -in->weight[q] * weight * side * o->beta * tri_logistic(x) * tri_logistic(-x);
  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
    out->dlogp[i] = (float)slope;
    out->dent[i] = 0;
  }
  out->loss += loss;
  reward->sum += o->beta * ratio;
  reward->of++;
  if (isfinite(loss) && isfinite(in->statistic) && isfinite(in->score[q])) return TRI_OK;
  TRI_FAIL(TRI_ENUMERIC,
           "the answer in sequence %d of a micro-batch has no finite loss. Its label is %g, its log-ratio to "
           "the reference %g nats, and the mean for answers to other prompts %g. Lower train.learning_rate.",
           q, (double)in->score[q], ratio, in->statistic);
}

static tri_status kto_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  TRI_ASSERT(in->start[0] == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT((in->n_seq == 0 || in->score) && (in->n == 0 || (in->logp && in->ref_logp)));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  for (int q = 0; q < in->n_seq; q++) TRI_TRY(add_answer(o, in, q, out));
  return TRI_OK;
}

/* Compares the means of a step's desirable and undesirable answers as one pair. */
static void compare_means(tri_mean *metric) {
  const tri_mean chosen = metric[TRI_CHOSEN], rejected = metric[TRI_REJECTED];

  metric[TRI_ACCURACY] = metric[TRI_MARGIN] = (tri_mean){0, 0};
  if (chosen.of <= 0 || rejected.of <= 0) return;
  double margin = chosen.sum / chosen.of - rejected.sum / rejected.of;
  metric[TRI_ACCURACY] = (tri_mean){margin > 0, 1};
  metric[TRI_MARGIN] = (tri_mean){margin, 1};
}

static bool always(const tri_algo_opt *o) {
  (void)o;
  return true;
}

/* Returns z, the mean of the log-ratios of answers to other prompts, at least 0. Numbers that are not finite
 * stay so. */
static double mean_beside(const tri_algo_opt *o, const tri_rollout *r, int begin, int end) {
  double sum = 0;

  (void)o;
  for (int q = begin; q < end; q++)
    for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++)
      if (tri_rollout_learns(r, q, i)) sum += (double)r->seen[i] - (double)r->ref_logp[i];
  return sum <= 0 ? 0 : sum / (end - begin);
}

static double ratio_beside(const tri_loss_in *in, int q) {
  double sum = 0;

  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++)
    sum += (double)in->logp[i] - (double)in->ref_logp[i];
  return sum;
}

static double at_least_0(double sum, int64_t n) { return sum <= 0 ? 0 : sum / (double)n; }

static const tri_step_statistic beside = {
    .beside = true, .wanted = always, .number = mean_beside, .part = ratio_beside, .whole = at_least_0};

const tri_loss tri_loss_kto = {.name = "kto",
                               .reads = TRI_LOSS_REFERENCE | TRI_LOSS_SCORE,
                               .option = options,
                               .metric = metrics,
                               .weigh = mean_over_answers,
                               .compute = kto_loss,
                               .settle = compare_means,
                               .statistic = &beside};
