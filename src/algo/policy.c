/* policy.c - shared parts of policy losses. KL estimators, token weights, and the token loss with KL and
 * entropy. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <math.h>
#include <string.h>

double tri_kl_value(tri_kl_estimator e, double delta, double *slope) {
  double value = delta, by_delta = 1;

  if (e == TRI_KL_K2) {
    value = delta * delta / 2;
    by_delta = delta;
  }
  if (e == TRI_KL_K3) { /* exp(-delta) - 1 + delta, without cancellation near 0 */
    double m = expm1(-delta);
    value = m + delta;
    by_delta = -m;
  }
  if (slope) *slope = by_delta;
  return value;
}

/* ---- weights of tokens ---- */

/* The four normalizations of verl (core_algos.py, agg_loss), each counted over the whole optimizer step. */
void tri_loss_weights(tri_loss_agg mode, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                      double *weight) {
  double n_token = 0, n_counted = 0;

  for (int q = 0; q < n_seq; q++) {
    n_token += (double)n_answer[q];
    n_counted += n_answer[q] > 0;
  }
  for (int q = 0; q < n_seq; q++) {
    double n = (double)n_answer[q];
    weight[q] = 0;
    if (n_answer[q] <= 0) continue;
    switch (mode) {
    case TRI_TOKEN_MEAN:
      weight[q] = 1 / n_token;
      break;
    case TRI_SEQ_MEAN_TOKEN_SUM:
      weight[q] = 1 / n_counted;
      break;
    case TRI_SEQ_MEAN_TOKEN_MEAN:
      weight[q] = 1 / (n_counted * n);
      break;
    case TRI_SEQ_MEAN_TOKEN_SUM_NORM:
      weight[q] = 1 / (n_counted * (double)max_response_length);
      break;
    }
  }
}

/* ---- policy losses ---- */

void tri_weigh_by_mode(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                       double *weight) {
  tri_loss_weights(o->loss_agg_mode, max_response_length, n_answer, n_seq, weight);
}

static double kl_of(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double *slope) {
  return tri_kl_value(o->kl_estimator, (double)in->logp[i] - (double)in->ref_logp[i], slope);
}

/* Numbers shared by the tokens of one sequence. */
typedef struct sequence_part {
  double shared;     /* result of the rule's `sequence` */
  double factor, kl; /* means over the tokens if they have one ratio, which each token moves by 1/T */
} sequence_part;

static sequence_part part_of(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                             int q) {
  sequence_part p = {.shared = rule->sequence ? rule->sequence(o, in, q) : 0};
  double        n = (double)(in->start[q + 1] - in->start[q]);

  if (!rule->one_ratio || n == 0) return p;
  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
    p.factor += tri_policy_factor(o, in, rule, i);
    if (in->ref_logp) p.kl += kl_of(o, in, i, NULL);
  }
  p.factor /= n;
  p.kl /= n;
  return p;
}

/* Token i's loss before its weight, with its derivatives by logp and by the entropy. */
typedef struct token_loss {
  double loss, by_logp, by_ent, kl, correction;
  bool   clipped;
} token_loss;

/* Adds the KL term. With algo.kl_bias_correction it is multiplied by the ratio, with a gradient through the
 * ratio (trl, grpo_trainer.py, use_bias_correction_kl). */
static void add_kl(const tri_algo_opt *o, const tri_loss_in *in, int64_t i, double ratio, double moved_kl,
                   token_loss *t) {
  double slope;

  t->kl = kl_of(o, in, i, &slope);
  if (o->kl_where != TRI_KL_IN_LOSS) return;
  if (o->kl_bias_correction) {
    t->kl *= ratio;
    slope = ratio * (slope + moved_kl);
  }
  t->loss += o->kl_coef * t->kl;
  t->by_logp += o->kl_coef * slope;
}

static token_loss loss_of_token(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                                int64_t i, const sequence_part *p) {
  double        log_ratio = (double)in->logp[i] - (double)in->old_logp[i], ratio = exp(log_ratio);
  double        factor = tri_policy_factor(o, in, rule, i);
  tri_surrogate s = rule->token(o, in, i, ratio, p->shared);
  token_loss    t = {.loss = factor * s.loss,
                     .by_logp = (rule->one_ratio ? p->factor : factor) * s.by_logp,
                     .by_ent = 0 - o->entropy_coef,
                     .clipped = s.clipped};

  /* A clip, a cap or exp(-inf) = 0 must not hide a number that is not finite. */
  if (!isfinite(ratio) || !isfinite(log_ratio)) t.loss = NAN;
  if (o->is_cap > 0) t.correction = tri_sampler_ratio(in, i);
  if (!isfinite(t.correction)) t.loss = NAN;
  if (in->ref_logp && rule->one_ratio)
    add_kl(o, in, i, exp(p->shared), p->kl, &t);
  else if (in->ref_logp)
    add_kl(o, in, i, ratio, kl_of(o, in, i, NULL), &t);
  t.loss -= o->entropy_coef * (double)in->ent[i];
  return t;
}

/* Returns the row of sequence q with a number that is not finite, or i if only the shared number is not
 * finite. */
static int64_t find_nonfinite(const tri_loss_in *in, int q, int64_t i) {
  for (int64_t k = in->start[q]; k < in->start[q + 1]; k++)
    if (!isfinite(exp((double)in->logp[k] - (double)in->old_logp[k])) || !isfinite(in->logp[k]) ||
        !isfinite(in->old_logp[k]) || !isfinite(in->ent[k]) || !isfinite(in->adv[k]) ||
        (in->ref_logp && !isfinite(in->ref_logp[k])) || (in->roll_logp && !isfinite(in->roll_logp[k])))
      return k;
  return i;
}

/* Adds row i of sequence q to *out. */
static tri_status add_token(const tri_algo_opt *o, const tri_loss_in *in, int q, int64_t i,
                            const token_loss *t, tri_loss_out *out) {
  out->dlogp[i] = (float)(in->weight[q] * t->by_logp);
  out->dent[i] = (float)(in->weight[q] * t->by_ent);
  out->loss += in->weight[q] * t->loss;
  out->metric[TRI_POLICY_KL].sum += t->kl;
  out->metric[TRI_POLICY_ENTROPY].sum += (double)in->ent[i];
  out->metric[TRI_POLICY_IS].sum += t->correction;
  out->metric[TRI_POLICY_CAPPED].sum += o->is_cap > 0 && t->correction > o->is_cap;
  out->metric[TRI_POLICY_CLIPPED].sum += t->clipped;
  if (isfinite(t->loss) && isfinite(t->kl) && isfinite(in->ent[i]) && isfinite(out->dlogp[i])) return TRI_OK;
  i = find_nonfinite(in, q, i);
  TRI_FAIL(
      TRI_ENUMERIC,
      "answer token %lld of sequence %d of a micro-batch has no finite loss: log-probability %g, old %g, "
      "reference %g, sampler's %g, entropy %g nats, advantage %g. Check the rewards, or lower "
      "train.learning_rate.",
      (long long)(i - in->start[q]), q, (double)in->logp[i], (double)in->old_logp[i],
      in->ref_logp ? (double)in->ref_logp[i] : 0.0,
      in->roll_logp ? (double)in->roll_logp[i] : (double)in->old_logp[i], (double)in->ent[i],
      (double)in->adv[i]);
}

tri_status tri_policy_loss(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                           tri_loss_out *out) {
  TRI_ASSERT(in->start[0] == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT(in->n == 0 || (in->old_logp && in->adv &&
                            (in->ref_logp || o->kl_where == TRI_KL_IN_REWARD || o->kl_coef == 0) &&
                            (in->roll_logp || o->is_cap == 0)));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  out->metric[TRI_POLICY_ENTROPY].of = out->metric[TRI_POLICY_CLIPPED].of = (double)in->n;
  out->metric[TRI_POLICY_KL].of = in->ref_logp ? (double)in->n : 0;
  out->metric[TRI_POLICY_IS].of = out->metric[TRI_POLICY_CAPPED].of = o->is_cap > 0 ? (double)in->n : 0;
  for (int q = 0; q < in->n_seq; q++) {
    sequence_part p = part_of(o, in, rule, q);
    for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
      token_loss t = loss_of_token(o, in, rule, i, &p);
      TRI_TRY(add_token(o, in, q, i, &t, out));
    }
  }
  return TRI_OK;
}
