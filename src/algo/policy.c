/* policy.c - what advantages and losses share: scores less their KL, weights of tokens, the loss of tokens
 * with KL and entropy. */
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

/* ---- advantages ---- */

static double answer_kl(const tri_algo_opt *o, const tri_rollout *r, int64_t i) {
  return tri_kl_value(o->kl_estimator, (double)r->old_logp[i] - (double)r->ref_logp[i], NULL);
}

static bool pays_kl(const tri_algo_opt *o) { return o->kl_where == TRI_KL_IN_REWARD && o->kl_coef != 0; }

double tri_answer_cost(const tri_algo_opt *o, const tri_rollout *r, int64_t i) {
  return pays_kl(o) ? o->kl_coef * answer_kl(o, r, i) : 0;
}

/* Reward of sequence q, less the KL part if it belongs to the reward: score - kl_coef sum_t k(old_logp -
 * ref_logp) (verl, core_algos.py, apply_kl_penalty). */
static tri_status answer_score(const tri_algo_opt *o, const tri_rollout *r, int q, double *score) {
  double kl = 0;

  for (int64_t i = tri_rollout_first_row(r, q); pays_kl(o) && i < r->start[q + 1]; i++)
    kl += answer_kl(o, r, i);
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
  for (int q = 0; q < r->n_seq; q++) TRI_TRY_DONE(answer_score(o, r, q, &(*score)[q]));
done:
  if (st != TRI_OK) TRI_FREE(*score);
  return st;
}

void tri_answer_advantage(tri_rollout *r, int q, double adv) {
  int64_t first = tri_rollout_first_row(r, q);

  for (int64_t i = r->start[q]; i < r->start[q + 1]; i++) r->adv[i] = i < first ? 0.0f : (float)adv;
}

/* ---- weights of tokens ---- */

/* The four normalisers of verl (core_algos.py, agg_loss), each counted over the whole optimizer step. */
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

double tri_sequence_log_ratio(const tri_algo_opt *o, const tri_loss_in *in, int q) {
  double sum = 0, n = (double)(in->start[q + 1] - in->start[q]);

  (void)o;
  for (int64_t i = in->start[q]; i < in->start[q + 1]; i++)
    sum += (double)in->logp[i] - (double)in->old_logp[i];
  return n > 0 ? sum / n : 0;
}

/* Token i's loss before its weight, with its derivatives by logp and by the entropy. */
typedef struct token_loss {
  double loss, by_logp, by_ent, kl;
  bool   clipped;
} token_loss;

static token_loss loss_of_token(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                                int64_t i, double shared) {
  double        log_ratio = (double)in->logp[i] - (double)in->old_logp[i], ratio = exp(log_ratio), slope;
  tri_surrogate s = rule->token(o, in, i, ratio, shared);
  token_loss t = {.loss = s.loss, .by_logp = s.by_logp, .by_ent = 0 - o->entropy_coef, .clipped = s.clipped};

  if (!isfinite(ratio) || !isfinite(log_ratio)) t.loss = NAN; /* a clip must not hide it, nor exp(-inf) = 0 */
  if (in->ref_logp) {
    t.kl = tri_kl_value(o->kl_estimator, (double)in->logp[i] - (double)in->ref_logp[i], &slope);
    if (o->kl_where == TRI_KL_IN_LOSS) {
      t.loss += o->kl_coef * t.kl;
      t.by_logp += o->kl_coef * slope;
    }
  }
  t.loss -= o->entropy_coef * (double)in->ent[i];
  return t;
}

/* The row of sequence q whose own numbers are at fault; i where all are fine but what the sequence shares. */
static int64_t find_fault(const tri_loss_in *in, int q, int64_t i) {
  for (int64_t k = in->start[q]; k < in->start[q + 1]; k++)
    if (!isfinite(exp((double)in->logp[k] - (double)in->old_logp[k])) || !isfinite(in->logp[k]) ||
        !isfinite(in->old_logp[k]) || !isfinite(in->ent[k]) || !isfinite(in->adv[k]) ||
        (in->ref_logp && !isfinite(in->ref_logp[k])))
      return k;
  return i;
}

/* Row i of sequence q, into *out. */
static tri_status add_token(const tri_loss_in *in, int q, int64_t i, const token_loss *t, tri_loss_out *out) {
  out->dlogp[i] = (float)(in->weight[q] * t->by_logp);
  out->dent[i] = (float)(in->weight[q] * t->by_ent);
  out->loss += in->weight[q] * t->loss;
  out->metric[TRI_POLICY_KL].sum += t->kl;
  out->metric[TRI_POLICY_ENTROPY].sum += (double)in->ent[i];
  out->metric[TRI_POLICY_CLIPPED].sum += t->clipped;
  if (isfinite(t->loss) && isfinite(t->kl) && isfinite(in->ent[i]) && isfinite(out->dlogp[i])) return TRI_OK;
  i = find_fault(in, q, i);
  TRI_FAIL(TRI_ENUMERIC,
           "answer token %lld of sequence %d of a micro-batch has no finite loss: log-probability %g, old "
           "%g, reference %g, entropy %g nats, advantage %g; look at the rewards, or lower "
           "train.learning_rate",
           (long long)(i - in->start[q]), q, (double)in->logp[i], (double)in->old_logp[i],
           in->ref_logp ? (double)in->ref_logp[i] : 0.0, (double)in->ent[i], (double)in->adv[i]);
}

tri_status tri_policy_loss(const tri_algo_opt *o, const tri_loss_in *in, const tri_policy_rule *rule,
                           tri_loss_out *out) {
  TRI_ASSERT(in->start[0] == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT(in->n == 0 || (in->old_logp && in->adv &&
                            (in->ref_logp || o->kl_where == TRI_KL_IN_REWARD || o->kl_coef == 0)));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  out->metric[TRI_POLICY_ENTROPY].of = out->metric[TRI_POLICY_CLIPPED].of = (double)in->n;
  out->metric[TRI_POLICY_KL].of = in->ref_logp ? (double)in->n : 0;
  for (int q = 0; q < in->n_seq; q++) {
    double shared = rule->sequence ? rule->sequence(o, in, q) : 0;
    for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
      token_loss t = loss_of_token(o, in, rule, i, shared);
      TRI_TRY(add_token(in, q, i, &t, out));
    }
  }
  return TRI_OK;
}
