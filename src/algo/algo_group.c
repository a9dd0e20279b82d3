/* algo_group.c - GRPO: rewards compared within the answers to one prompt, and the clipped loss. */
#include "algo.h"

#include <math.h>
#include <string.h>

enum { ENTROPY, KL, CLIPPED };
static const char *const options[] = {"algo.num_generations", "algo.clip_eps",      "algo.clip_eps_high",
                                      "algo.kl_coef",         "algo.kl_estimator",  "algo.kl_where",
                                      "algo.scale_rewards",   "algo.advantage_eps", "algo.loss_agg_mode",
                                      "algo.ppo_epochs",      "algo.entropy_coef",  NULL};
static const char *const metrics[] = {"entropy_mean_nats", "kl_mean_nats", "clip_ratio", NULL};

/* Reward of sequence q, less the KL part if it belongs to the reward: score - kl_coef sum_t k(old_logp -
 * ref_logp) (verl, core_algos.py, apply_kl_penalty). */
static tri_status answer_score(const tri_algo_opt *o, const tri_rollout *r, int q, double *score) {
  double kl = 0;

  if (o->kl_where == TRI_KL_IN_REWARD && o->kl_coef != 0)
    for (int64_t i = r->start[q] + r->prompt_len[q]; i < r->start[q + 1]; i++)
      kl += tri_kl_value(o->kl_estimator, (double)r->old_logp[i] - (double)r->ref_logp[i], NULL);
  *score = (double)r->reward[q] - o->kl_coef * kl;
  if (!isfinite(*score))
    TRI_FAIL(TRI_ENUMERIC,
             "answer %d to prompt_id %lld has no finite score: reward %g, KL against the reference %g nats",
             (int)r->sample[q], (long long)r->prompt_id[q], (double)r->reward[q], kl);
  return TRI_OK;
}

static double mean_of(const double *x, int n) {
  double sum = 0;

  for (int i = 0; i < n; i++) sum += x[i];
  return sum / n;
}

/* Unbiased; exactly 0 when all are equal, whatever the mean rounds to, and for one number. */
static double std_of(const double *x, int n) {
  double mean = mean_of(x, n), sum = 0;
  bool   differ = false;

  for (int i = 0; i < n; i++) {
    differ = differ || x[i] != x[0];
    sum += (x[i] - mean) * (x[i] - mean);
  }
  return differ ? sqrt(sum / (n - 1)) : 0;
}

/* A = (score - mean of the group) / (std + advantage_eps), the same at every token of the answer (Shao et al.
 * 2024, DeepSeekMath, 4.1.2; trl, grpo_trainer.py, scale_rewards). */
static tri_status group_advantage(const tri_algo_opt *o, tri_rollout *r) {
  tri_status st = TRI_OK;
  double    *score = NULL, batch_std;

  TRI_ASSERT(r->n_seq == 0 || (r->group > 0 && r->n_seq % r->group == 0));
  TRI_TRY_DONE(TRI_ALLOC(score, r->n_seq));
  for (int q = 0; q < r->n_seq; q++) TRI_TRY_DONE(answer_score(o, r, q, &score[q]));
  batch_std = std_of(score, r->n_seq);
  for (int q = 0; q < r->n_seq; q++) {
    const double *group = score + q / r->group * r->group;
    double        own_std = std_of(group, r->group), adv = 0;
    if (own_std > 0) adv = score[q] - mean_of(group, r->group);
    if (own_std > 0 && o->scale_rewards == TRI_SCALE_GROUP) adv /= own_std + o->advantage_eps;
    if (own_std > 0 && o->scale_rewards == TRI_SCALE_BATCH) adv /= batch_std + o->advantage_eps;
    for (int64_t i = r->start[q]; i < r->start[q + 1]; i++)
      r->adv[i] = i < r->start[q] + r->prompt_len[q] ? 0.0f : (float)adv;
  }
done:
  TRI_FREE(score);
  return st;
}

static void weigh(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                  double *weight) {
  tri_loss_weights(o->loss_agg_mode, max_response_length, n_answer, n_seq, weight);
}

/* Token i's loss before its weight, with its derivatives by logp and by the entropy. */
typedef struct token_loss {
  double loss, by_logp, by_ent, kl;
  bool   clipped;
} token_loss;

/* - min(ratio A, clip(ratio) A) + kl_coef k - entropy_coef H (Schulman et al. 2017, eq. 7; trl,
 * grpo_trainer.py, _compute_loss). */
static token_loss loss_of_token(const tri_algo_opt *o, const tri_loss_in *in, int64_t i) {
  double     log_ratio = (double)in->logp[i] - (double)in->old_logp[i], adv = (double)in->adv[i], slope;
  double     ratio = exp(log_ratio);
  token_loss t = {.by_ent = 0 - o->entropy_coef};

  t.clipped = (adv > 0 && ratio > 1 + o->clip_eps_high) || (adv < 0 && ratio < 1 - o->clip_eps);
  if (t.clipped) {
    t.loss = -(adv > 0 ? 1 + o->clip_eps_high : 1 - o->clip_eps) * adv;
  } else {
    t.loss = -ratio * adv;
    t.by_logp = -ratio * adv;
  }
  if (!isfinite(ratio) || !isfinite(log_ratio))
    t.loss = NAN; /* the clip must not hide it, nor exp(-inf) = 0 */
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

static tri_status group_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  TRI_ASSERT(in->start[0] == 0 && in->start[in->n_seq] == in->n);
  TRI_ASSERT(in->n == 0 || (in->old_logp && in->adv &&
                            (in->ref_logp || o->kl_where == TRI_KL_IN_REWARD || o->kl_coef == 0)));
  out->loss = 0;
  memset(out->metric, 0, sizeof out->metric);
  out->metric[ENTROPY].of = out->metric[CLIPPED].of = (double)in->n;
  out->metric[KL].of = in->ref_logp ? (double)in->n : 0;
  for (int q = 0; q < in->n_seq; q++) {
    for (int64_t i = in->start[q]; i < in->start[q + 1]; i++) {
      token_loss t = loss_of_token(o, in, i);
      out->dlogp[i] = (float)(in->weight[q] * t.by_logp);
      out->dent[i] = (float)(in->weight[q] * t.by_ent);
      out->loss += in->weight[q] * t.loss;
      out->metric[KL].sum += t.kl;
      out->metric[ENTROPY].sum += (double)in->ent[i];
      out->metric[CLIPPED].sum += t.clipped;
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

const tri_algo tri_algo_grpo = {.name = "grpo",
                                .needs = TRI_NEEDS_ANSWERS,
                                .least_group = 2,
                                .option = options,
                                .metric = metrics,
                                .weigh = weigh,
                                .advantage = group_advantage,
                                .loss = group_loss};
