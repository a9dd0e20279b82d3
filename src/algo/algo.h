/* algo.h - the algorithm plug-ins: advantages, losses and the presets that join them; plain C over host
 * arrays, no device, no model, no file. */
/* SPDX-License-Identifier: BSD-3-Clause */
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
/* algo.is_mode: what becomes of a correction above its cap. */
typedef enum { TRI_IS_TRUNCATE, TRI_IS_MASK } tri_is_mode;
/* algo.dpo_loss. */
typedef enum { TRI_DPO_SIGMOID, TRI_DPO_IPO } tri_dpo_loss;

/* What the functions below read of the deck, by the names of its keys: algo.clip_eps. A key that nothing of
 * the run reads cannot be given and is at its default, so that a term whose coefficient is 0 by default (KL,
 * entropy) is off. */
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
  double            is_cap; /* 0: no correction for the sampler */
  tri_is_mode       is_mode;
  /* The critic. value_clip is the deck's critic.value_clip. */
  double lam, value_clip;
  /* Losses of pairs and labelled answers. */
  double       beta, centering_coef, label_smoothing, sft_coef, desirable_weight, undesirable_weight;
  tri_dpo_loss dpo_loss;
  bool         length_normalize;
  /* Coefficients that adapt: nats, samples, nats. A target of 0 means none. */
  double kl_target, kl_horizon, adaptive_entropy_target;
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
  const float   *roll_logp;           /* [n] nats, the sampler's own, where old_logp is the trainer's */
  const float   *adv;                 /* [n] */
  const float   *value, *old_value;   /* [n] in rewards: of a scalar head now, and before the first update */
  const float   *ret;                 /* [n] in rewards: what value is to become */
  const float   *score;     /* [n_seq] of the whole sequence: its reward, a pair's margin, a label */
  const double  *weight;    /* [n_seq] of each token of a sequence, in the loss of all micro-batches
                                       * and ranks of the optimizer step: losses and gradients only add up */
  double         statistic; /* of the optimizer step, where the loss has a statistic; else 0 */
} tri_loss_in;

enum { TRI_ALGO_METRICS = 12 }; /* chosen: of one loss; over twice the most that one gives */
/* A metric, summed over micro-batches and ranks before it is divided; not shown where `of` is 0. */
typedef struct tri_mean {
  double sum, of;
} tri_mean;
typedef struct tri_loss_out {
  float   *dlogp, *dent; /* [n], the caller's; every element is written: d loss / d logp, .. / d ent; NULL
                        * where logp is */
  float   *dvalue;       /* [n] d loss / d value; NULL where value is */
  double   loss;         /* sum of this micro-batch's weighted token losses */
  tri_mean metric[TRI_ALGO_METRICS]; /* of the names in tri_loss.metric */
} tri_loss_out;

/* ---- advantages: the words of algo.advantage ---- */

/* What an advantage reads beside rewards: r->critic, r->baseline. */
enum { TRI_READS_CRITIC = 1, TRI_READS_GREEDY = 2 };

typedef struct tri_advantage {
  const char        *name;
  int                least_group; /* answers to one prompt */
  unsigned           reads;       /* TRI_READS_* */
  const char *const *option;      /* keys of the deck it reads, "algo.gamma", NULL at the end */
  /* Not collective. Fills r->adv at answer tokens, 0 elsewhere, and r->critic.ret where it reads values;
   * every rank holds the same whole rollout and computes the same numbers. A reward that is unknown or not
   * finite is TRI_ENUMERIC, naming the prompt. */
  tri_status (*fill)(const tri_algo_opt *o, tri_rollout *r);
} tri_advantage;

/* clang-format off */
#define TRI_ADVANTAGE_LIST(ROW) /* the table: NAME is tri_advantage_NAME of an advantage_*.c */ \
  ROW(group)                                                                                    \
  ROW(leave_one_out)                                                                            \
  ROW(return)                                                                                   \
  ROW(group_return)                                                                             \
  ROW(greedy)                                                                                   \
  ROW(gae)
/* clang-format on */
#define TRI_ADVANTAGE_DECLARE(name) extern const tri_advantage tri_advantage_##name;
TRI_ADVANTAGE_LIST(TRI_ADVANTAGE_DECLARE)

const tri_advantage *tri_advantage_find(const char *name); /* NULL if there is none */
const tri_advantage *tri_advantage_at(int i);              /* NULL past the last */

/* ---- losses: the words of algo.policy_loss, and those of algorithms without answers ---- */

/* A key of the deck and the default that an algorithm or a loss sets for it, as text. */
typedef struct tri_algo_default {
  const char *key, *value;
} tri_algo_default;

/* What a loss reads of tri_loss_in: of policies, log-probabilities and advantages of the rollout; of a
 * scalar head, its values and what they are compared with; LAST: its rows are the last token of each
 * sequence, not those that predict the answers. REFERENCE: always; where it is a matter of an option
 * (algo.kl_coef) it is read where it is there. */
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

/* A number that a loss must know of a whole optimizer step before its first token. */
typedef struct tri_step_statistic {
  bool beside;  /* it is about the sequences beside the samples (rollout.h), else about the samples */
  bool entropy; /* r->seen is to hold the policy's entropies, else its log-probabilities */
  bool (*wanted)(const tri_algo_opt *o);
  /* Pure. Of sequences begin .. end - 1, on every rank alike. */
  double (*number)(const tri_algo_opt *o, const tri_rollout *r, int begin, int end);
  /* Pure, both; NULL unless `beside`. The number of more sequences than one rollout holds: what sequence q of
   * a micro-batch adds, and the number that n of them come to, added up. */
  double (*part)(const tri_loss_in *in, int q);
  double (*whole)(double sum, int64_t n);
} tri_step_statistic;

typedef struct tri_loss {
  const char             *name;
  unsigned                reads;  /* TRI_LOSS_* */
  const char *const      *option; /* as tri_advantage.option */
  const char             *mean;   /* how its tokens become one number, in a word of algo.loss_agg_mode; NULL:
                                   * as that says */
  const tri_algo_default *set;    /* ended by key NULL; NULL: all keys are at the table's default */
  const char *const      *metric; /* that it gives, units in the name, NULL at the end */
  /* Pure. weight [n_seq]: the share of each token of sequence q, which has n_answer[q] tokens with loss (0
   * tokens: weight 0, and the sequence is not counted), of all sequences of one optimizer step, all ranks. A
   * loss of whole answers or pairs says itself whose share it is. */
  void (*weigh)(const tri_algo_opt *o, int64_t max_response_length, const int64_t *n_answer, int n_seq,
                double *weight);
  /* Not collective; writes all of *out. A token whose loss is not finite is TRI_ENUMERIC, naming it. */
  tri_status (*compute)(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out);
  /* Pure; NULL: nothing to do. metric [TRI_ALGO_METRICS], summed over a step and all ranks: sets those that
   * follow from others. */
  void (*settle)(tri_mean *metric);
  const tri_step_statistic *statistic; /* NULL: none */
  bool is_nats; /* the loss is a mean of nats over tokens: its exponential is a perplexity */
} tri_loss;

/* clang-format off */
#define TRI_POLICY_LOSS_LIST(ROW) /* the table: NAME is tri_loss_NAME of a loss_*.c */ \
  ROW(clip)                                                                            \
  ROW(sequence)                                                                        \
  ROW(cispo)                                                                           \
  ROW(sapo)                                                                            \
  ROW(vespo)                                                                           \
  ROW(luspo)
/* clang-format on */
#define TRI_LOSS_DECLARE(name) extern const tri_loss tri_loss_##name;
TRI_POLICY_LOSS_LIST(TRI_LOSS_DECLARE)
/* No words of algo.policy_loss. Of pairs and labelled answers: in->score is the pair's margin (with the
 * chosen one), or 1 for a desirable answer and 0 for another. */
extern const tri_loss tri_loss_sft, tri_loss_rm, tri_loss_dpo, tri_loss_kto;
extern const tri_loss tri_loss_value; /* the critic's */
/* Pure. How much of the returns the critic's values before learning explain: 1 - Var(R - V) / Var(R) over the
 * tokens with loss; NaN where returns do not differ. Every rank holds the same whole rollout. */
double tri_explained_variance(const tri_rollout *r);

const tri_loss *tri_policy_loss_find(const char *name); /* NULL if there is none */
const tri_loss *tri_policy_loss_at(int i);              /* NULL past the last */

/* ---- algorithms: the words of algo.name ---- */

/* What an algorithm lives on: given sequences of which the completion is learned; sequences that are
 * generated or replayed, and rewarded; two answers to a prompt, the chosen one first; answers with a label,
 * good or not. */
enum {
  TRI_NEEDS_DEMONSTRATIONS = 1,
  TRI_NEEDS_ANSWERS = 2,
  TRI_NEEDS_PAIRS = 4,
  TRI_NEEDS_LABELLED = 8,
  TRI_NEEDS_PREFERENCES = TRI_NEEDS_PAIRS | TRI_NEEDS_LABELLED
};

/* A preset: what a deck that names it learns by. The deck may name another advantage or policy loss where
 * there are answers; a run has a copy with those. */
typedef struct tri_algo {
  const char             *name;
  unsigned                needs;     /* TRI_NEEDS_* */
  const tri_advantage    *advantage; /* NULL: there are none */
  const tri_loss         *loss;
  const tri_algo_default *set; /* as the loss's, before which they come (tri_algo_sets) */
} tri_algo;

const tri_algo *tri_algo_find(const char *name); /* of algo.c's table; NULL if there is none */
const tri_algo *tri_algo_at(int i);              /* NULL past the last */
/* Pure. Whether the advantage or the loss reads the key, "algo.gamma". */
bool tri_algo_reads(const tri_algo *a, const char *key);
/* The default that the algorithm sets for the key, or else its loss, whose bounds of the ratio come first;
 * NULL: none. */
const char *tri_algo_sets(const tri_algo *a, const char *key);
/* Not collective. The advantages of a step. Answers that were cut are then masked where the options say so.
 * The others are whitened where they say so: less their mean over all answer tokens, over the root of their
 * biased variance, at least 1e-8 (OpenRLHF, experience_maker.py, compute_advantages_and_returns). Fails as
 * tri_advantage.fill. */
TRI_CHECKED tri_status tri_algo_advantage(const tri_algo *a, const tri_algo_opt *o, tri_rollout *r);

/* ---- coefficients that follow what was learned: of the KL term, of the entropy bonus ---- */

/* What the options do not say of a run that goes on. */
typedef struct tri_adapt {
  double entropy_coef; /* in use while the entropy is at or below its target */
  double entropy;      /* nats, mean of the last optimizer step; inf before the first */
} tri_adapt;

static inline bool tri_adapts_kl(const tri_algo_opt *o) { return o->kl_target > 0; }
static inline bool tri_adapts_entropy(const tri_algo_opt *o) { return o->adaptive_entropy_target > 0; }

/* Not collective. *a as the deck's options have it, and *o as the first optimizer step is to have them. */
void tri_adapt_begin(tri_algo_opt *o, tri_adapt *a);
/* Not collective. o->entropy_coef as *a wants it for the next optimizer step. */
void tri_adapt_use(tri_algo_opt *o, const tri_adapt *a);
/* Not collective. After an optimizer step whose tokens have this mean entropy, nats: *a, and *o for the
 * next. */
void tri_adapt_entropy(tri_algo_opt *o, tri_adapt *a, double entropy);
/* Not collective. o->kl_coef for the next step, after one of so many samples and this mean KL, nats. */
void tri_adapt_kl(tri_algo_opt *o, double kl, int64_t samples);

#endif
