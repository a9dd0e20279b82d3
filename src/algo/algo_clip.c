/* algo_clip.c - what algorithms on rewarded answers share: scores, advantages, the policy's loss. */
#include "algo.h"

#include <math.h>
#include <string.h>

/* Reward of sequence q, less the KL part if it belongs to the reward: score - kl_coef sum_t k(old_logp -
 * ref_logp) (verl, core_algos.py, apply_kl_penalty). */
static tri_status answer_score(const tri_algo_opt *o, const tri_rollout *r, int q, double *score) {
  double kl = 0;

  if (o->kl_where == TRI_KL_IN_REWARD && o->kl_coef != 0)
    for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++)
      kl += tri_kl_value(o->kl_estimator, (double)r->old_logp[i] - (double)r->ref_logp[i], NULL);
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

/* - min(ratio A, clip(ratio) A) (Schulman et al. 2017, eq. 7; trl, grpo_trainer.py, _compute_loss). */
static tri_surrogate clipped_surrogate(const tri_algo_opt *o, const tri_loss_in *in, int64_t i,
                                       double ratio) {
  double        adv = (double)in->adv[i];
  tri_surrogate s = {.clipped =
                         (adv > 0 && ratio > 1 + o->clip_eps_high) || (adv < 0 && ratio < 1 - o->clip_eps)};

  if (s.clipped) {
    s.loss = -(adv > 0 ? 1 + o->clip_eps_high : 1 - o->clip_eps) * adv;
  } else {
    s.loss = -ratio * adv;
    s.by_logp = -ratio * adv;
  }
  return s;
}

/* Token i's loss before its weight, with its derivatives by logp and by the entropy. */
typedef struct token_loss {
  double loss, by_logp, by_ent, kl;
  bool   clipped;
} token_loss;

static token_loss loss_of_token(const tri_algo_opt *o, const tri_loss_in *in, tri_surrogate_of surrogate,
                                int64_t i) {
  double        log_ratio = (double)in->logp[i] - (double)in->old_logp[i], ratio = exp(log_ratio), slope;
  tri_surrogate s = surrogate(o, in, i, ratio);
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

tri_status tri_policy_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_surrogate_of surrogate,
                           tri_loss_out *out) {
  TRI_ASSERT(in->start[0] == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT(in->n == 0 || (in->old_logp && in->adv &&
                            (in->ref_logp || o->kl_where == TRI_KL_IN_REWARD || o->kl_coef == 0)));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  out->metric[TRI_CLIP_ENTROPY].of = out->metric[TRI_CLIP_CLIPPED].of = (double)in->n;
  out->metric[TRI_CLIP_KL].of = in->ref_logp ? (double)in->n : 0;
  for (int q = 0; q < in->n_seq; q++) {
    for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
      token_loss t = loss_of_token(o, in, surrogate, i);
      out->dlogp[i] = (float)(in->weight[q] * t.by_logp);
      out->dent[i] = (float)(in->weight[q] * t.by_ent);
      out->loss += in->weight[q] * t.loss;
      out->metric[TRI_CLIP_KL].sum += t.kl;
      out->metric[TRI_CLIP_ENTROPY].sum += (double)in->ent[i];
      out->metric[TRI_CLIP_CLIPPED].sum += t.clipped;
      if (!isfinite(t.loss) || !isfinite(t.kl) || !isfinite(in->ent[i]) || !isfinite(out->dlogp[i]))
        TRI_FAIL(
            TRI_ENUMERIC,
            "answer token %lld of sequence %d of a micro-batch has no finite loss: log-probability %g, old "
            "%g, reference %g, entropy %g nats, advantage %g; look at the rewards, or lower "
            "train.learning_rate",
            (long long)(i - in->start[q]), q, (double)in->logp[i], (double)in->old_logp[i],
            in->ref_logp ? (double)in->ref_logp[i] : 0.0, (double)in->ent[i], (double)in->adv[i]);
    }
  }
  return TRI_OK;
}

tri_status tri_clip_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  return tri_policy_loss(o, in, clipped_surrogate, out);
}
