/* test_config_words.c - the words of choices and their enum values. Judges: the table below, the words of
 * --options. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_keys.h"
#include "config_case.h"

/* The number of a word in the key's range is the enum's value, so both must have the same order. */
static const struct {
  const char *key, *word;
  int         value;
} row[] = {
    {"run.device", "auto", 0},
    {"run.device", "cpu", 1},
    {"run.device", "cuda", 2},
    {"run.cpu_kernels", "auto", 0}, /* tri_config_choose passes the word on */
    {"run.cpu_kernels", "avx512", 1},
    {"run.cpu_kernels", "avx2", 2},
    {"run.cpu_kernels", "neoverse_v2", 3},
    {"run.cpu_kernels", "neon", 4},
    {"run.cpu_kernels", "generic", 5},
    {"run.cpu_f32", "auto", 0},
    {"run.cpu_f32", "library", 1},
    {"run.cpu_f32", "avx512", 2},
    {"run.cpu_f32", "avx2", 3},
    {"run.cpu_bf16", "auto", 0},
    {"run.cpu_bf16", "amx", 1},
    {"run.cpu_bf16", "avx512", 2},
    {"run.cpu_bf16", "f32", 3},
    {"run.collectives", "auto", 0},
    {"run.collectives", "shm", 1},
    {"run.collectives", "mpi", 2},
    {"run.collectives", "nccl", 3},
    {"run.collectives", "staged", 4},
    {"run.cuda_attention_backward", "auto", 0},
    {"run.cuda_attention_backward", "own", 1},
    {"run.cuda_attention_backward", "cudnn", 2},
    {"run.sampler", "exact", TRI_CONFIG_EXACT},
    {"run.sampler", "rescore", TRI_CONFIG_RESCORE},
    {"run.sampler", "trust", TRI_CONFIG_TRUST},
    {"model.dtype", "f32", TRI_F32},
    {"model.dtype", "bf16", TRI_BF16},
    {"model.dtype", "fp16", TRI_F16},
    {"model.recompute", "none", TRI_CONFIG_KEEP_ALL},
    {"model.recompute", "layer", TRI_CONFIG_RECOMPUTE_LAYER},
    {"model.rope_factors", "auto", TRI_FACTORS_AUTO},
    {"model.rope_factors", "short", TRI_FACTORS_SHORT},
    {"model.rope_factors", "long", TRI_FACTORS_LONG},
    {"shard.offload", "none", TRI_CONFIG_OFFLOAD_NONE},
    {"shard.offload", "optimizer", TRI_CONFIG_OFFLOAD_OPTIMIZER},
    {"shard.offload", "frozen", TRI_CONFIG_OFFLOAD_FROZEN},
    {"shard.offload", "all", TRI_CONFIG_OFFLOAD_ALL},
    {"data.train_on", "last", TRI_CONFIG_TRAIN_LAST},
    {"data.train_on", "all", TRI_CONFIG_TRAIN_ALL},
    {"data.overlong_prompt", "error", TRI_OVERLONG_ERROR},
    {"data.overlong_prompt", "drop", TRI_OVERLONG_DROP},
    {"data.overlong_prompt", "truncate", TRI_OVERLONG_TRUNCATE},
    {"data.overlong", "error", TRI_OVERLONG_ERROR},
    {"data.overlong", "drop", TRI_OVERLONG_DROP},
    {"data.overlong", "truncate", TRI_OVERLONG_TRUNCATE},
    {"data.overlong", "auto", TRI_OVERLONG_AS_PROMPT},
    {"algo.kl_estimator", "k1", TRI_KL_K1},
    {"algo.kl_estimator", "k2", TRI_KL_K2},
    {"algo.kl_estimator", "k3", TRI_KL_K3},
    {"algo.kl_where", "loss", TRI_KL_IN_LOSS},
    {"algo.kl_where", "reward", TRI_KL_IN_REWARD},
    {"algo.scale_rewards", "group", TRI_SCALE_GROUP},
    {"algo.scale_rewards", "batch", TRI_SCALE_BATCH},
    {"algo.scale_rewards", "none", TRI_SCALE_NONE},
    {"algo.loss_agg_mode", "token-mean", TRI_TOKEN_MEAN},
    {"algo.loss_agg_mode", "seq-mean-token-sum", TRI_SEQ_MEAN_TOKEN_SUM},
    {"algo.loss_agg_mode", "seq-mean-token-mean", TRI_SEQ_MEAN_TOKEN_MEAN},
    {"algo.loss_agg_mode", "seq-mean-token-sum-norm", TRI_SEQ_MEAN_TOKEN_SUM_NORM},
    {"algo.is_mode", "truncate", TRI_IS_TRUNCATE},
    {"algo.is_mode", "mask", TRI_IS_MASK},
    {"algo.dpo_loss", "sigmoid", TRI_DPO_SIGMOID},
    {"algo.dpo_loss", "ipo", TRI_DPO_IPO},
    {"train.lr_scheduler", "constant", TRI_LR_CONSTANT},
    {"train.lr_scheduler", "linear", TRI_LR_LINEAR},
    {"train.lr_scheduler", "cosine", TRI_LR_COSINE},
    {"shard.plan", "hybrid", 0}, /* test_plans of test_config.c has the scopes */
    {"shard.plan", "zero0", 1},
    {"shard.plan", "zero1", 2},
    {"shard.plan", "zero2", 3},
    {"shard.plan", "zero3", 4},
    {"critic.shard", "hybrid", 0},
    {"critic.shard", "zero0", 1},
    {"critic.shard", "zero1", 2},
    {"critic.shard", "zero2", 3},
    {"critic.shard", "zero3", 4},
    {"reference.shard", "hybrid", 0},
    {"reference.shard", "zero0", 1},
    {"reference.shard", "zero1", 2},
    {"reference.shard", "zero2", 3},
    {"reference.shard", "zero3", 4},
    {"shard.params", "none", TRI_SHARD_NONE},
    {"shard.params", "node", TRI_SHARD_NODE},
    {"shard.params", "world", TRI_SHARD_WORLD},
    {"shard.grads", "none", TRI_SHARD_NONE},
    {"shard.grads", "node", TRI_SHARD_NODE},
    {"shard.grads", "world", TRI_SHARD_WORLD},
    {"shard.optimizer", "none", TRI_SHARD_NONE},
    {"shard.optimizer", "node", TRI_SHARD_NODE},
    {"shard.optimizer", "world", TRI_SHARD_WORLD},
};
enum { N_ROW = sizeof row / sizeof *row };

static const tri_key *key_of(const char *name) {
  for (int i = 0; i < tri_n_keys; i++)
    if (!strcmp(tri_keys[i].name, name)) return &tri_keys[i];
  fail_msg("there is no key %s", name);
  return NULL;
}

/* Returns whether a deck can give the key, because some algorithm has a part with it. */
static bool is_read(const tri_key *k) {
  for (int a = 0; tri_algo_at(a); a++)
    if (tri_key_is_used(k, tri_algo_at(a))) return true;
  return false;
}

/* Returns a deck of an algorithm with the key. */
static tri_config with(const char *arg) {
  static char name[64];
  tri_config  c;

  for (int a = 0; tri_algo_at(a); a++) {
    const tri_algo *algo = tri_algo_at(a);
    snprintf(name, sizeof name, "algo.name=%s", algo->name);
    if (load(algo->needs & TRI_NEEDS_ANSWERS ? GRPO : SFT, &c, NULL, ARGS(name, arg)) == TRI_OK) return c;
    tri_config_free(&c);
  }
  fail_msg("no algorithm reads %s: %s", arg, tri_error_message());
  return c;
}

static void a_word_is_its_value(void **state) {
  (void)state;
  for (int i = 0; i < N_ROW; i++) {
    char       arg[128], word[TRI_CONFIG_WORD_BYTES];
    int        value;
    tri_config c;
    tri_config_word(row[i].key, row[i].value, word);
    assert_string_equal(word, row[i].word);
    if (!is_read(key_of(row[i].key))) continue;
    snprintf(arg, sizeof arg, "%s=%s", row[i].key, row[i].word);
    c = with(arg);
    memcpy(&value, (const char *)&c + key_of(row[i].key)->offset, sizeof value);
    if (value != row[i].value) fail_msg("%s is %d, not %d", arg, value, row[i].value);
    tri_config_free(&c);
  }
}

/* Each word of each choice stands in the table above, and as often as in the range. */
static void every_word_is_in_the_table(void **state) {
  (void)state;
  for (int i = 0; i < tri_n_keys; i++) {
    int n = 1, n_row = 0;
    if (tri_keys[i].type != TRI_KEY_CHOICE) continue;
    for (const char *at = tri_keys[i].range; (at = strchr(at, '|')) != NULL; at++) n++;
    for (int k = 0; k < N_ROW; k++) n_row += !strcmp(row[k].key, tri_keys[i].name);
    if (n != n_row) fail_msg("%s has %d words, and the table %d", tri_keys[i].name, n, n_row);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_word_is_its_value),
                                     cmocka_unit_test(every_word_is_in_the_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
