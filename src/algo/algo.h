/* algo.h - the algorithm plug-in: plain C over host arrays, no device, no model, no file. */
#ifndef TRI_ALGO_H
#define TRI_ALGO_H

#include "rollout/rollout.h"

/* Choices of a deck: each enum in the order of the words of its key (src/config/config_keys.c). */

/* algo.kl_estimator. */
typedef enum { TRI_KL_K1, TRI_KL_K2, TRI_KL_K3 } tri_kl_estimator;
/* algo.kl_where: where the KL term is added. */
typedef enum { TRI_KL_IN_LOSS, TRI_KL_IN_REWARD } tri_kl_where;
/* algo.scale_rewards: whose standard deviation divides the advantage. */
typedef enum { TRI_SCALE_GROUP, TRI_SCALE_BATCH, TRI_SCALE_NONE } tri_scale_rewards;
/* algo.loss_agg_mode: verl's four words (core_algos.py, agg_loss). */
typedef enum {
  TRI_TOKEN_MEAN,
  TRI_SEQ_MEAN_TOKEN_SUM,
  TRI_SEQ_MEAN_TOKEN_MEAN,
  TRI_SEQ_MEAN_TOKEN_SUM_NORM
} tri_loss_agg;

/* What the functions below read of the deck, by the names of its keys: algo.clip_eps. A key that the
 * algorithm does not list cannot be given and is at its default, so that a term whose coefficient is 0 by
 * default (KL, entropy) is off. */
typedef struct tri_algo_opt {
  double            clip_eps, clip_eps_high, kl_coef, entropy_coef, advantage_eps;
  tri_kl_estimator  kl_estimator;
  tri_kl_where      kl_where;
  tri_scale_rewards scale_rewards;
  tri_loss_agg      loss_agg_mode;
} tri_algo_opt;

/* Host arrays, borrowed: the rows with loss (answer tokens) of one micro-batch. A sequence is never cut, and
 * the answers to one prompt, such as the two of a pair, are neighbours in one micro-batch where the algorithm
 * needs them together. What no one computed for this algorithm or these options is NULL. */
typedef struct tri_loss_in {
  int64_t        n; /* 0 is legal: a rank with nothing to do */
  int            n_seq;
  const int64_t *start;               /* [n_seq+1] sequence q is rows start[q] .. start[q+1] */
  const int64_t *origin;              /* [n] the row of the rollout each one is */
  const float   *logp, *ent;          /* [n] nats, of the policy as it is */
  const float   *old_logp, *ref_logp; /* [n] nats, of the policy that generated, of the reference */
  const float   *adv;                 /* [n] */
  const float   *value, *old_value;   /* [n] in rewards: of a scalar head now, and before the first update */
  const float   *ret;                 /* [n] in rewards: what value is to become */
  const float   *score;               /* [n_seq] of the whole sequence: its reward. No algorithm of the table
                                       * has a critic or a scalar head yet: value, old_value, ret, score and
                                       * tri_loss_out.dvalue are NULL */
  const double  *weight;              /* [n_seq] of each token of a sequence, in the loss of all micro-batches
                                       * and ranks of the optimizer step: losses and gradients only add up */
} tri_loss_in;

enum { TRI_ALGO_METRICS = 8 }; /* chosen: of one algorithm; over twice the most that one gives */
/* A metric, summed over micro-batches and ranks before it is divided; not shown where `of` is 0. */
typedef struct tri_mean {
  double sum, of;
} tri_mean;
typedef struct tri_loss_out {
  float   *dlogp, *dent; /* [n], the caller's; every element is written: d loss / d logp, .. / d ent */
  float   *dvalue;       /* [n] d loss / d value; NULL where value is */
  double   loss;         /* sum of this micro-batch's weighted token losses */
  tri_mean metric[TRI_ALGO_METRICS]; /* of the names in tri_algo.metric */
} tri_loss_out;

/* What an algorithm lives on: given sequences of which the completion is learned; sequences that are
 * generated or replayed, and rewarded. */
enum { TRI_NEEDS_DEMONSTRATIONS = 1, TRI_NEEDS_ANSWERS = 2 };

/* The algorithm plug-in; the one table that the deck and the trainer read (the screen: what it needs).
 * weigh: as tri_loss_weights, in the mode that the algorithm or its options have. advantage: fills r->adv
 * at answer tokens, 0 elsewhere; every rank holds the same whole rollout and computes the same numbers;
 * Not collective; NULL when there are none. A reward that is unknown or not finite is TRI_ENUMERIC, naming
 * the prompt. loss: Not collective; writes all of *out. A token whose loss is not finite is TRI_ENUMERIC,
 * naming it. */
typedef struct tri_algo {
  const char        *name;
  unsigned           needs;       /* TRI_NEEDS_* */
  int                least_group; /* answers to one prompt */
  const char *const *option;      /* keys of the deck it reads, "algo.clip_eps", NULL at the end */
  const char *const *metric;      /* metrics its loss gives, units in the name, NULL at the end */
  void (*weigh)(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                double *weight);
  tri_status (*advantage)(const tri_algo_opt *o, tri_rollout *r);
  tri_status (*loss)(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out);
} tri_algo;

/* clang-format off */
#define TRI_ALGO_LIST(ROW) /* the table: NAME is tri_algo_NAME of algo_NAME.c */ \
  ROW(sft)                                                                       \
  ROW(grpo)
/* clang-format on */
#define TRI_ALGO_DECLARE(name) extern const tri_algo tri_algo_##name;
TRI_ALGO_LIST(TRI_ALGO_DECLARE)

const tri_algo *tri_algo_find(const char *name); /* NULL if there is none */
const tri_algo *tri_algo_at(int i);              /* NULL past the last */

/* Pure. weight [n_seq]: the share of each token of sequence q, which has n_answer[q] tokens with loss (0
 * tokens: weight 0, and the sequence is not counted). max_response_length: the constant of
 * seq-mean-token-sum-norm. All sequences of one optimizer step, of all ranks. */
void tri_loss_weights(tri_loss_agg mode, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                      double *weight);
/* Pure. k1, k2, k3 of delta = log pi - log ref, nats (Schulman 2020, "Approximating KL divergence"); slope:
 * its derivative by log pi, NULL if not wanted. */
double tri_kl_value(tri_kl_estimator e, double delta, double *slope);

/* Not collective, all that follow: what algorithms share that learn from rewarded answers. Who differs in the
 * advantage alone writes a function for that, takes tri_weigh_by_mode and tri_clip_loss, and lists the keys
 * it lets a deck give; who differs in what the advantage makes of a token's loss takes tri_policy_loss. */

/* weigh in the mode of the option algo.loss_agg_mode. */
void tri_weigh_by_mode(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                       double *weight);
/* What of a token's loss its advantage makes, before its weight. */
typedef struct tri_surrogate {
  double loss, by_logp; /* by_logp: its derivative */
  bool   clipped;
} tri_surrogate;
/* Of row i; ratio = pi / old pi there. One that is not finite is refused by the caller. */
typedef tri_surrogate (*tri_surrogate_of)(const tri_algo_opt *o, const tri_loss_in *in, int64_t i,
                                          double ratio);
/* The surrogate + kl_coef k - entropy_coef H of each token, the KL where it belongs to the loss. Writes all
 * of *out. Reads TRI_POLICY_OPTIONS besides what the surrogate reads, for tri_algo.option;
 * gives TRI_POLICY_METRICS first, for tri_algo.metric, and then the clip ratio. */
TRI_CHECKED tri_status tri_policy_loss(const tri_algo_opt *o, const tri_loss_in *in,
                                       tri_surrogate_of surrogate, tri_loss_out *out);
/* tri_algo.loss: the same of - min(ratio A, clip(ratio) A). Reads TRI_CLIP_OPTIONS too. */
TRI_CHECKED tri_status tri_clip_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out);
#define TRI_KL_OPTIONS     "algo.kl_coef", "algo.kl_estimator", "algo.kl_where"
#define TRI_POLICY_OPTIONS TRI_KL_OPTIONS, "algo.entropy_coef"
#define TRI_CLIP_OPTIONS   "algo.clip_eps", "algo.clip_eps_high"
#define TRI_POLICY_METRICS "entropy_mean_nats", "kl_mean_nats"
#define TRI_CLIP_METRICS   TRI_POLICY_METRICS, "clip_ratio"
enum { TRI_CLIP_ENTROPY, TRI_CLIP_KL, TRI_CLIP_CLIPPED }; /* their places in tri_loss_out.metric */
/* *score [n_seq], the caller's to TRI_FREE: what each answer earned, in rewards, less kl_coef times the sum
 * of its tokens' KL where that belongs to the reward. Reads TRI_KL_OPTIONS. One that is not finite is
 * TRI_ENUMERIC, naming the prompt; *score is then NULL. */
TRI_CHECKED tri_status tri_answer_scores(const tri_algo_opt *o, const tri_rollout *r, double **score);
/* r->adv of sequence q: adv at every token with loss, 0 before them. */
void tri_answer_advantage(tri_rollout *r, int q, double adv);

#endif
