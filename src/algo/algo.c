/* algo.c - the table of algorithms, with look-ups of their options, the advantages of a step, and adaptive
 * coefficients. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo.h"

#include <math.h>
#include <string.h>

#define ADVANTAGE(name) &tri_advantage_##name,
static const tri_advantage *const advantages[] = {TRI_ADVANTAGE_LIST(ADVANTAGE)};
enum { N_ADVANTAGE = sizeof advantages / sizeof *advantages };

#define LOSS(name) &tri_loss_##name,
static const tri_loss *const policy_losses[] = {TRI_POLICY_LOSS_LIST(LOSS)};
enum { N_POLICY_LOSS = sizeof policy_losses / sizeof *policy_losses };

#define SET(...)                                                                                             \
  (const tri_algo_default[]) {                                                                               \
    __VA_ARGS__, { NULL, NULL }                                                                              \
  }
#define RATE "train.learning_rate" /* chosen. The defaults of TRL and OpenRLHF for each algorithm */
/* clang-format off */
static const tri_algo algos[] = {
  {"sft", TRI_NEEDS_DEMONSTRATIONS, NULL, &tri_loss_sft, SET({RATE, "2e-5"})},
  {"rm", TRI_NEEDS_PAIRS, NULL, &tri_loss_rm, SET({RATE, "1e-5"})},      /* Ouyang et al. 2022 */
  {"dpo", TRI_NEEDS_PAIRS, NULL, &tri_loss_dpo, SET({RATE, "5e-7"})},    /* Rafailov et al. 2023 */
  {"kto", TRI_NEEDS_LABELLED, NULL, &tri_loss_kto, SET({RATE, "5e-7"})}, /* Ethayarajh et al. 2024 */
  /* Schulman et al. 2017, Ouyang et al. 2022. */
  {"ppo", TRI_NEEDS_ANSWERS, &tri_advantage_gae, &tri_loss_clip,
   SET({"algo.num_generations", "1"}, {"algo.gamma", "1"}, {"algo.lam", "0.95"},
       {"algo.whiten_advantages", "true"}, {"algo.kl_coef", "0.01"}, {"algo.kl_where", "reward"},
       {"algo.kl_estimator", "k1"})},
  {"grpo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_clip, NULL}, /* Shao et al. 2024 */
  {"dr_grpo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_clip,     /* Liu et al. 2025, R1-Zero-like */
   SET({"algo.scale_rewards", "none"}, {"algo.loss_agg_mode", "seq-mean-token-sum-norm"})},
  {"dapo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_clip, /* Yu et al. 2025, DAPO */
   SET({"algo.clip_eps_high", "0.28"}, {"rollout.dynamic_sampling", "true"})},
  {"rloo", TRI_NEEDS_ANSWERS, &tri_advantage_leave_one_out, &tri_loss_clip, NULL}, /* Ahmadian et al. 2024 */
  {"reinforce++", TRI_NEEDS_ANSWERS, &tri_advantage_return, &tri_loss_clip,        /* Hu et al. 2025 */
   SET({"algo.num_generations", "1"}, {"algo.whiten_advantages", "true"}, {"algo.kl_where", "reward"})},
  {"reinforce++-baseline", TRI_NEEDS_ANSWERS, &tri_advantage_group_return, &tri_loss_clip, /* the same */
   SET({"algo.whiten_advantages", "true"})},
  {"remax", TRI_NEEDS_ANSWERS, &tri_advantage_greedy, &tri_loss_clip, /* Li et al. 2024, ReMax */
   SET({"algo.num_generations", "1"})},
  {"gspo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_sequence, NULL}, /* Zheng et al. 2025 */
  {"cispo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_cispo, NULL},   /* MiniMax 2025, MiniMax-M1 */
  {"sapo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_sapo, NULL},     /* Gao et al. 2025 */
  {"vespo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_vespo, NULL},   /* trl 1.16 */
  {"luspo", TRI_NEEDS_ANSWERS, &tri_advantage_group, &tri_loss_luspo, NULL},   /* trl 1.16 */
};
/* clang-format on */
enum { N_ALGO = sizeof algos / sizeof *algos };

const tri_advantage *tri_advantage_at(int i) { return i >= 0 && i < N_ADVANTAGE ? advantages[i] : NULL; }
const tri_loss *tri_policy_loss_at(int i) { return i >= 0 && i < N_POLICY_LOSS ? policy_losses[i] : NULL; }
const tri_algo *tri_algo_at(int i) { return i >= 0 && i < N_ALGO ? &algos[i] : NULL; }

const tri_advantage *tri_advantage_find(const char *name) {
  for (int i = 0; i < N_ADVANTAGE; i++)
    if (!strcmp(advantages[i]->name, name)) return advantages[i];
  return NULL;
}

const tri_loss *tri_policy_loss_find(const char *name) {
  for (int i = 0; i < N_POLICY_LOSS; i++)
    if (!strcmp(policy_losses[i]->name, name)) return policy_losses[i];
  return NULL;
}

const tri_algo *tri_algo_find(const char *name) {
  for (int i = 0; i < N_ALGO; i++)
    if (!strcmp(algos[i].name, name)) return &algos[i];
  return NULL;
}

static bool lists(const char *const *option, const char *key) {
  for (; *option; option++)
    if (!strcmp(*option, key)) return true;
  return false;
}

bool tri_algo_reads(const tri_algo *a, const char *key) {
  return (a->advantage && lists(a->advantage->option, key)) || lists(a->loss->option, key);
}

static const char *find_default(const tri_algo_default *d, const char *key) {
  for (; d && d->key; d++)
    if (!strcmp(d->key, key)) return d->value;
  return NULL;
}

const char *tri_algo_sets(const tri_algo *a, const char *key) {
  const char *own = find_default(a->set, key), *of_loss = find_default(a->loss->set, key);
  /* Bounds of a ratio, with another meaning in another loss. */
  bool bound = !strncmp(key, "algo.clip_eps", 13);

  return own && !(of_loss && bound) ? own : of_loss;
}

/* ---- advantages of a step ---- */

static void whiten(tri_rollout *r) {
  static const double LEAST_VARIANCE = 1e-8;
  double              n = 0, mean = 0, variance = 0;

  for (int q = 0; q < r->n_seq; q++)
    for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++) {
      if (!tri_rollout_learns(r, q, i)) continue;
      mean += (double)r->adv[i];
      n++;
    }
  if (n == 0) return;
  mean /= n;
  for (int q = 0; q < r->n_seq; q++)
    for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++)
      if (tri_rollout_learns(r, q, i)) variance += ((double)r->adv[i] - mean) * ((double)r->adv[i] - mean);
  variance = fmax(variance / n, LEAST_VARIANCE);
  for (int q = 0; q < r->n_seq; q++)
    for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++)
      if (tri_rollout_learns(r, q, i)) r->adv[i] = (float)(((double)r->adv[i] - mean) / sqrt(variance));
}

/* trl, grpo_trainer.py, mask_truncated_completions. */
static void mask_cut(tri_rollout *r) {
  for (int q = 0; q < r->n_seq; q++)
    if (r->stop[q] == TRI_STOP_LENGTH && !r->masked[q]) r->masked[q] = 1; /* TRI_FILLER stays */
}

tri_status tri_algo_advantage(const tri_algo *a, const tri_algo_opt *o, tri_rollout *r) {
  if (!a->advantage) return TRI_OK;
  TRI_TRY(a->advantage->fill(o, r));
  if (o->mask_truncated) mask_cut(r);
  if (o->whiten_advantages) whiten(r);
  return TRI_OK;
}

/* ---- adaptive coefficients ---- */

void tri_adapt_use(tri_algo_opt *o, const tri_adapt *a) {
  if (!tri_adapts_entropy(o)) return;
  o->entropy_coef = a->entropy <= o->adaptive_entropy_target ? a->entropy_coef : 0;
}

void tri_adapt_begin(tri_algo_opt *o, tri_adapt *a) {
  *a = (tri_adapt){.entropy_coef = o->entropy_coef, .entropy = INFINITY};
  tri_adapt_use(o, a);
}

/* trl, grpo_trainer.py, use_adaptive_entropy, with GRPOConfig's defaults (He et al. 2025, Skywork-OR1). */
void tri_adapt_entropy(tri_algo_opt *o, tri_adapt *a, double entropy) {
  static const double DELTA = 0.005, LEAST = 0, MOST = 1;

  a->entropy = entropy;
  if (entropy <= o->adaptive_entropy_target)
    a->entropy_coef = fmin(a->entropy_coef + DELTA, MOST);
  else
    a->entropy_coef = fmax(a->entropy_coef - DELTA, LEAST);
  tri_adapt_use(o, a);
}

/* verl, core_algos.py, AdaptiveKLController (Ziegler et al. 2019, 2.2). */
void tri_adapt_kl(tri_algo_opt *o, double kl, int64_t samples) {
  static const double MOST = 0.2;
  double              error = fmin(fmax(kl / o->kl_target - 1, -MOST), MOST);

  o->kl_coef *= 1 + error * (double)samples / o->kl_horizon;
}
