/* algo.h - declares advantages, losses and the algorithms that join them. They are plain C over host arrays,
 * without devices, models or files. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ALGO_H
#define TRI_ALGO_H

#include "rollout/rollout.h"

/* Choices of a deck. Each enum has the order of the words of its key (src/config/config_keys.c). */

/* algo.kl_estimator. */
typedef enum { TRI_KL_K1, TRI_KL_K2, TRI_KL_K3 } tri_kl_estimator;
/* algo.kl_where, the place of the KL term. */
typedef enum { TRI_KL_IN_LOSS, TRI_KL_IN_REWARD } tri_kl_where;
/* algo.scale_rewards, the sequences whose standard deviation divides the advantage. */
typedef enum { TRI_SCALE_GROUP, TRI_SCALE_BATCH, TRI_SCALE_NONE } tri_scale_rewards;
/* algo.loss_agg_mode, with verl's four words (core_algos.py, agg_loss). */
typedef enum {
  TRI_TOKEN_MEAN,
  TRI_SEQ_MEAN_TOKEN_SUM,
  TRI_SEQ_MEAN_TOKEN_MEAN,
  TRI_SEQ_MEAN_TOKEN_SUM_NORM
} tri_loss_agg;
/* algo.is_mode, the treatment of a correction above its cap. */
typedef enum { TRI_IS_TRUNCATE, TRI_IS_MASK } tri_is_mode;
/* algo.dpo_loss. */
typedef enum { TRI_DPO_SIGMOID, TRI_DPO_IPO } tri_dpo_loss;

/* Options of the deck for the functions below, with the names of their keys, such as algo.clip_eps. A deck
 * may not give a key that nothing in the run reads. Such a key keeps its default. So terms with a default
 * coefficient of 0 (KL, entropy) are off. */
typedef struct tri_algo_opt {
  /* Policy losses and advantages. */
  double            clip_eps, clip_eps_high, dual_clip, kl_coef, entropy_coef, advantage_eps, gamma;
  double            sapo_temperature_pos, sapo_temperature_neg;
  double            vespo_k_pos, vespo_lambda_pos, vespo_k_neg, vespo_lambda_neg;
  tri_kl_estimator  kl_estimator;
  tri_kl_where      kl_where;
  tri_scale_rewards scale_rewards;
  tri_loss_agg      loss_agg_mode;
  bool              whiten_advantages, kl_bias_correction, mask_truncated;
  double            top_entropy_quantile;
  double            is_cap; /* cap of the correction for the sampler, 0 for no correction */
  tri_is_mode       is_mode;
  /* The critic. value_clip is the key critic.value_clip. */
  double lam, value_clip;
  /* Losses of pairs and labelled answers. */
  double       beta, centering_coef, label_smoothing, sft_coef, desirable_weight, undesirable_weight;
  tri_dpo_loss dpo_loss;
  bool         length_normalize;
  /* Adaptive coefficients. kl_target and adaptive_entropy_target are nats, and 0 means no adaptation.
   * kl_horizon is samples. */
  double kl_target, kl_horizon, adaptive_entropy_target;
} tri_algo_opt;

/* Borrowed host arrays for the rows with loss (answer tokens) of one micro-batch. A micro-batch holds whole
 * sequences. If the algorithm needs several answers to one prompt together, such as a pair, they are
 * neighbours in one micro-batch. Arrays that this algorithm or these options do not need are NULL. */
typedef struct tri_loss_in {
  int64_t        n; /* may be 0 on a rank without work */
  int            n_seq;
  const int64_t *start;               /* [n_seq+1] sequence q has rows start[q] .. start[q+1] */
  const int64_t *origin;              /* [n] row of the rollout for each row here */
  const float   *logp, *ent;          /* [n] nats, of the current policy */
  const float   *old_logp, *ref_logp; /* [n] nats, of the policy that generated, and of the reference */
  const float   *roll_logp;           /* [n] nats, of the sampler, when old_logp is the trainer's */
  const float   *adv;                 /* [n] */
  const float   *value, *old_value;   /* [n] in rewards, of a scalar head now and before the first update */
  const float   *ret;                 /* [n] in rewards, target of value */
  const float   *score;               /* [n_seq] reward of a sequence, margin of a pair, or label */
  /* [n_seq] weight of each token of a sequence, among all micro-batches and ranks of the optimizer step. So
   * losses and gradients are only added. */
  const double *weight;
  double        statistic; /* for the whole optimizer step, or 0 if the loss has no statistic */
} tri_loss_in;

enum { TRI_ALGO_METRICS = 12 }; /* chosen, more than twice the metrics of any loss */
/* A metric. Micro-batches and ranks add to both numbers before the division. Not shown if `of` is 0. */
typedef struct tri_mean {
  double sum, of;
} tri_mean;
typedef struct tri_loss_out {
  /* [n] d loss / d logp and d loss / d ent. The caller's arrays, all elements are written. NULL if logp
   * is. */
  float   *dlogp, *dent;
  float   *dvalue;                   /* [n] d loss / d value, or NULL if value is */
  double   loss;                     /* sum of the weighted token losses of this micro-batch */
  tri_mean metric[TRI_ALGO_METRICS]; /* in the order of tri_loss.metric */
} tri_loss_out;

/* ---- advantages, the words of algo.advantage ---- */

/* Inputs of an advantage beside rewards, r->critic and r->baseline. */
enum { TRI_READS_CRITIC = 1, TRI_READS_GREEDY = 2 };

typedef struct tri_advantage {
  const char        *name;
  int                least_group; /* least number of answers to one prompt */
  unsigned           reads;       /* TRI_READS_* */
  const char *const *option;      /* keys of the deck it reads, such as "algo.gamma", ended by NULL */
  /* Fills r->adv at answer tokens and with 0 elsewhere, and r->critic.ret if it reads values. Every rank
   * holds the same whole rollout and computes the same numbers. TRI_ENUMERIC, with the prompt, if a reward is
   * unknown or not finite. */
  tri_status (*fill)(const tri_algo_opt *o, tri_rollout *r);
} tri_advantage;

/* clang-format off */
#define TRI_ADVANTAGE_LIST(ROW) /* the table. NAME is tri_advantage_NAME of an advantage_*.c */ \
  ROW(group)                                                                                    \
  ROW(leave_one_out)                                                                            \
  ROW(return)                                                                                   \
  ROW(group_return)                                                                             \
  ROW(greedy)                                                                                   \
  ROW(gae)
/* clang-format on */
#define TRI_ADVANTAGE_DECLARE(name) extern const tri_advantage tri_advantage_##name;
TRI_ADVANTAGE_LIST(TRI_ADVANTAGE_DECLARE)

const tri_advantage *tri_advantage_find(const char *name); /* NULL for an unknown name */
const tri_advantage *tri_advantage_at(int i);              /* NULL past the last */

/* ---- losses, the words of algo.policy_loss, and losses of algorithms without rewards ---- */

/* A key of the deck with the default that an algorithm or a loss gives it, as text. */
typedef struct tri_algo_default {
  const char *key, *value;
} tri_algo_default;

/* Inputs that a loss reads from tri_loss_in. Policy losses read log-probabilities and advantages of the
 * rollout. Losses of a scalar head (VALUE) read its values and their targets. LAST means that the rows are
 * the last token of each sequence, not the answer tokens. REFERENCE means always. If an option such as
 * algo.kl_coef decides, a loss reads the reference when it is present. */
enum {
  TRI_LOSS_OLD_LOGP = 1,
  TRI_LOSS_REFERENCE = 2,
  TRI_LOSS_ADV = 4,
  TRI_LOSS_VALUE = 8,
  TRI_LOSS_RETURN = 16, /* old_value and ret */
  TRI_LOSS_SCORE = 32,
  TRI_LOSS_ROLL_LOGP = 64,
  TRI_LOSS_LAST = 128
};

/* A number computed from a whole optimizer step, which a loss needs before the first token. */
typedef struct tri_step_statistic {
  bool beside;  /* computed from the sequences beside the samples (rollout.h), else from the samples */
  bool entropy; /* r->seen holds the policy's entropies, else its log-probabilities */
  bool (*wanted)(const tri_algo_opt *o);
  /* Pure. Computes the number from sequences begin .. end - 1. Every rank gets the same result. */
  double (*number)(const tri_algo_opt *o, const tri_rollout *r, int begin, int end);
  /* Pure, both. NULL unless `beside`. For more sequences than one rollout holds. `part` returns the term of
   * sequence q of a micro-batch, and `whole` returns the number from the sum of n terms. */
  double (*part)(const tri_loss_in *in, int q);
  double (*whole)(double sum, int64_t n);
} tri_step_statistic;

typedef struct tri_loss {
  const char        *name;
  unsigned           reads;  /* TRI_LOSS_* */
  const char *const *option; /* as tri_advantage.option */
  /* Mode of its mean over tokens, a word of algo.loss_agg_mode, or NULL if that key decides. */
  const char             *mean;
  const tri_algo_default *set;    /* ended by a NULL key. NULL if all keys have the table's default */
  const char *const      *metric; /* names of its metrics, with units, ended by NULL */
  /* Pure. Sets weight [n_seq], the share of each token of sequence q among all sequences of one optimizer
   * step, on all ranks. Sequence q has n_answer[q] tokens with loss. With 0 tokens it gets weight 0 and does
   * not count. A loss of whole answers or pairs defines the meaning of its weights itself. */
  void (*weigh)(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                double *weight);
  /* Writes all of *out. TRI_ENUMERIC, with the token, if a token's loss is not finite. */
  tri_status (*compute)(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out);
  /* Pure, or NULL for nothing to do. Computes metrics that follow from others, in metric [TRI_ALGO_METRICS]
   * summed over a step and all ranks. */
  void (*settle)(tri_mean *metric);
  const tri_step_statistic *statistic; /* NULL if the loss has none */
  bool is_nats; /* the loss is a mean of nats over tokens, so its exponential is a perplexity */
} tri_loss;

/* clang-format off */
#define TRI_POLICY_LOSS_LIST(ROW) /* the table. NAME is tri_loss_NAME of a loss_*.c */ \
  ROW(clip)                                                                            \
  ROW(sequence)                                                                        \
  ROW(cispo)                                                                           \
  ROW(sapo)                                                                            \
  ROW(vespo)                                                                           \
  ROW(luspo)
/* clang-format on */
#define TRI_LOSS_DECLARE(name) extern const tri_loss tri_loss_##name;
TRI_POLICY_LOSS_LIST(TRI_LOSS_DECLARE)
/* These are not words of algo.policy_loss. For pairs, in->score of the chosen answer is the pair's margin.
 * For labelled answers it is 1 if desirable, else 0. */
extern const tri_loss tri_loss_sft, tri_loss_rm, tri_loss_dpo, tri_loss_kto;
extern const tri_loss tri_loss_value; /* the critic's */
/* Pure. Returns the explained variance of the critic's values before learning, 1 - Var(R - V) / Var(R) over
 * the tokens with loss. NaN if all returns are equal. Every rank holds the same whole rollout. */
double tri_explained_variance(const tri_rollout *r);

const tri_loss *tri_policy_loss_find(const char *name); /* NULL for an unknown name */
const tri_loss *tri_policy_loss_at(int i);              /* NULL past the last */

/* ---- algorithms, the words of algo.name ---- */

/* Kinds of data that an algorithm learns from. Demonstrations are given sequences with loss on the
 * completion. Answers are generated or replayed, and rewarded. Pairs are two answers to a prompt, the chosen
 * one first. Labelled answers are good or not. */
enum {
  TRI_NEEDS_DEMONSTRATIONS = 1,
  TRI_NEEDS_ANSWERS = 2,
  TRI_NEEDS_PAIRS = 4,
  TRI_NEEDS_LABELLED = 8,
  TRI_NEEDS_PREFERENCES = TRI_NEEDS_PAIRS | TRI_NEEDS_LABELLED
};

/* A preset, chosen by algo.name. With answers, the deck may replace the advantage or the policy loss. The run
 * then has a copy with these. */
typedef struct tri_algo {
  const char             *name;
  unsigned                needs;     /* TRI_NEEDS_* */
  const tri_advantage    *advantage; /* NULL without answers */
  const tri_loss         *loss;
  const tri_algo_default *set; /* defaults, which precede the loss's (tri_algo_sets) */
} tri_algo;

const tri_algo *tri_algo_find(const char *name); /* in algo.c's table, or NULL for an unknown name */
const tri_algo *tri_algo_at(int i);              /* NULL past the last */
/* Pure. True if the advantage or the loss reads the key, such as "algo.gamma". */
bool tri_algo_reads(const tri_algo *a, const char *key);
/* Returns the key's default set by the algorithm, else by its loss, else NULL. For bounds of the ratio the
 * loss comes first. */
const char *tri_algo_sets(const tri_algo *a, const char *key);
/* Computes the advantages of a step. Then masks answers that were cut, if the options say so, and whitens the
 * others, if they say so. Whitening subtracts the mean over all answer tokens and divides by the root of the
 * biased variance, at least 1e-8 (OpenRLHF, experience_maker.py, compute_advantages_and_returns). Fails as
 * tri_advantage.fill does. */
TRI_CHECKED tri_status tri_algo_advantage(const tri_algo *a, const tri_algo_opt *o, tri_rollout *r);

/* ---- adaptive coefficients of the KL term and the entropy bonus ---- */

/* State of the adaptive coefficients, beside the options. Checkpoints keep it. */
typedef struct tri_adapt {
  double entropy_coef; /* used while the entropy is at or below its target */
  double entropy;      /* nats, mean of the last optimizer step, or inf before the first */
} tri_adapt;

static inline bool tri_adapts_kl(const tri_algo_opt *o) { return o->kl_target > 0; }
static inline bool tri_adapts_entropy(const tri_algo_opt *o) { return o->adaptive_entropy_target > 0; }

/* Initializes *a from the deck's options, and sets *o for the first optimizer step. */
void tri_adapt_begin(tri_algo_opt *o, tri_adapt *a);
/* Sets o->entropy_coef for the next optimizer step from *a. */
void tri_adapt_use(tri_algo_opt *o, const tri_adapt *a);
/* Updates *a, and *o for the next step, after an optimizer step with this mean entropy in nats. */
void tri_adapt_entropy(tri_algo_opt *o, tri_adapt *a, double entropy);
/* Updates o->kl_coef for the next step, after a step of this many samples with this mean KL in nats. */
void tri_adapt_kl(tri_algo_opt *o, double kl, int64_t samples);

#endif
