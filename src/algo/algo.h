/* algo.h - the algorithm plug-in: plain C over host arrays, no device, no model, no file. */
#ifndef TRI_ALGO_H
#define TRI_ALGO_H

#include "rollout/rollout.h"

typedef enum { TRI_KL_K1, TRI_KL_K2, TRI_KL_K3 } tri_kl_estimator;
typedef enum { TRI_SCALE_GROUP, TRI_SCALE_BATCH, TRI_SCALE_NONE } tri_scale_rewards;
/* verl's four words; peers.md 3.1. */
typedef enum {
  TRI_TOKEN_MEAN,
  TRI_SEQ_MEAN_TOKEN_SUM,
  TRI_SEQ_MEAN_TOKEN_MEAN,
  TRI_SEQ_MEAN_TOKEN_SUM_NORM
} tri_loss_agg;

typedef struct tri_algo_opt {
  double            clip_eps, clip_eps_high, kl_coef, entropy_coef, advantage_eps;
  tri_kl_estimator  kl_estimator;
  bool              kl_in_reward;
  tri_scale_rewards scale_rewards;
  tri_loss_agg      loss_agg_mode;
  int64_t           max_response_length; /* tokens; the constant of seq-mean-token-sum-norm */
} tri_algo_opt;

/* Host arrays, borrowed: the answer tokens of one micro-batch. Sequences are never cut. weight is each
 * token's share of the loss, counted over all ranks and micro-batches of the optimizer step before backward,
 * so that losses and gradients only ever add up. "grpo" wants old_logp and adv, and ref_logp with kl_coef >
 * 0; "sft" wants logp and ent only. */
typedef struct tri_loss_in {
  int64_t        n;
  int            n_seq;
  const int64_t *start; /* [n_seq+1] sequence q is rows start[q] .. start[q+1] */
  const float   *logp, *ent, *old_logp, *ref_logp, *adv; /* [n] nats; old_logp, ref_logp NULL if unused */
  const double  *weight;                                 /* [n_seq] */
} tri_loss_in;
typedef struct tri_loss_out {
  float  *dlogp, *dent;    /* [n], the caller's; every element is written: d loss / d logp, d loss / d ent */
  double  loss;            /* sum of this micro-batch's weighted token losses */
  double  kl_sum, ent_sum; /* over tokens, nats; kl by the chosen estimator, 0 without a reference */
  int64_t clipped;         /* tokens whose gradient the clip removed */
} tri_loss_out;

/* The algorithm plug-in. advantage: fills r->adv at answer tokens, 0 elsewhere; every rank holds the same
 * whole rollout and computes the same numbers; Not collective; NULL when there are none. A reward that is
 * unknown or not finite is TRI_ENUMERIC, naming the prompt. loss: Not collective. A token whose loss is not
 * finite is TRI_ENUMERIC, naming it. */
typedef struct tri_algo {
  const char *name;
  bool generates; /* answers are generated (or replayed) and rewarded; else the data are demonstrations */
  tri_status (*advantage)(const tri_algo_opt *o, tri_rollout *r);
  tri_status (*loss)(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out);
} tri_algo;

extern const tri_algo tri_algo_sft, tri_algo_grpo; /* algo_sft.c, algo_group.c */

const tri_algo *tri_algo_find(const char *name); /* NULL if there is none */
const tri_algo *tri_algo_at(int i);              /* NULL past the last */

/* Pure. weight [n_seq]: the share of each token of sequence q, which has n_answer[q] tokens with loss (0
 * tokens: weight 0, and the sequence is not counted). All sequences of one optimizer step, of all ranks. */
void tri_loss_weights(tri_loss_agg mode, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                      double *weight);
/* Pure. k1, k2, k3 of delta = log pi - log ref, nats (Schulman 2020, "Approximating KL divergence"); slope:
 * its derivative by log pi, NULL if not wanted. */
double tri_kl_value(tri_kl_estimator e, double delta, double *slope);

#endif
