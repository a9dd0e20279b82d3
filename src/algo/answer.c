/* answer.c - numbers of whole answers. Scores less KL, advantages of all tokens, log-ratios to the reference,
 * and rewards of a pair. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "policy.h"

#include <math.h>

static double answer_kl(const tri_algo_opt *o, const tri_rollout *r, int64_t i) {
  return tri_kl_value(o->kl_estimator, (double)r->old_logp[i] - (double)r->ref_logp[i], NULL);
}

static bool pays_kl(const tri_algo_opt *o) { return o->kl_where == TRI_KL_IN_REWARD && o->kl_coef != 0; }

double tri_answer_cost(const tri_algo_opt *o, const tri_rollout *r, int64_t i) {
  return pays_kl(o) ? o->kl_coef * answer_kl(o, r, i) : 0;
}

/* Returns the reward of sequence q, less KL if it belongs to the reward. score - kl_coef sum_t k(old_logp -
 * ref_logp) (verl, core_algos.py, apply_kl_penalty). */
static tri_status answer_score(const tri_algo_opt *o, const tri_rollout *r, int q, double *score) {
  double kl = 0;

  for (int64_t i = tri_rollout_first_row(r, q); pays_kl(o) && i < r->start[q + 1]; i++)
    if (tri_rollout_has_loss(r, i)) kl += answer_kl(o, r, i);
  *score = (double)r->reward[q] - o->kl_coef * kl;
  if (!isfinite(*score))
    TRI_FAIL(TRI_ENUMERIC,
             "answer %d to prompt_id %lld has no finite score: reward %g, KL against the reference %g nats",
             (int)r->sample[q], (long long)r->prompt_id[q], (double)r->reward[q], kl);
  return TRI_OK;
}

tri_status tri_answer_scores(const tri_algo_opt *o, const tri_rollout *r, double **score) {
  tri_status st = TRI_OK;

  TRI_ASSERT(r->n_seq == 0 || (r->group > 0 && r->n_seq % r->group == 0));
  *score = NULL;
  TRI_TRY_DONE(TRI_ALLOC(*score, r->n_seq));
  for (int q = 0; q < r->n_seq; q++)
    if (tri_rollout_counts(r, q)) TRI_TRY_DONE(answer_score(o, r, q, &(*score)[q]));
done:
  if (st != TRI_OK) TRI_FREE(*score);
  return st;
}

int tri_answer_group(const tri_rollout *r, int q, const double *score, double *group) {
  int first = q / r->group * r->group, n = 0;

  for (int i = first; i < first + r->group; i++)
    if (r->masked[i] != TRI_DROPPED) group[n++] = score[i];
  return n;
}

void tri_answer_advantage(tri_rollout *r, int q, double adv) {
  int64_t first = tri_rollout_first_row(r, q);

  for (int64_t i = r->start[q]; i < r->start[q + 1]; i++)
    r->adv[i] = i < first || !tri_rollout_has_loss(r, i) ? 0.0f : (float)adv;
}

/* ---- losses of pairs and labelled answers ---- */

double tri_logistic(double x) {
  double e = exp(-fabs(x));

  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

double tri_log_1_exp(double x) { return log1p(exp(-fabs(x))) + (x < 0 ? 0 : x); }

tri_status tri_answer_log_ratio(const tri_loss_in *in, int q, tri_mean *entropy, double *out) {
  *out = 0;
  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
    double logp = (double)in->logp[i], ref = (double)in->ref_logp[i], ent = in->ent ? (double)in->ent[i] : 0;
    if (!isfinite(logp) || !isfinite(ref) || !isfinite(ent))
      TRI_FAIL(
          TRI_ENUMERIC,
          "answer token %lld of sequence %d of a micro-batch: log-probability %g, reference %g, entropy %g "
          "nats are not all finite. Check the model's weights, or lower train.learning_rate.",
          (long long)(i - in->start[q]), q, logp, ref, ent);
    *out += logp - ref;
    entropy->sum += ent;
    entropy->of += in->ent != NULL;
  }
  return TRI_OK;
}

void tri_pair_count(tri_mean *metric, double chosen, double rejected) {
  const double sum[] = {chosen > rejected, chosen - rejected, chosen, rejected};

  for (int k = 0; k < TRI_PREFERENCE_METRIC_COUNT; k++) {
    metric[k].sum += sum[k];
    metric[k].of++;
  }
}
