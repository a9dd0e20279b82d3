/* test_algo.c - the tables of algorithms, and weights of tokens. Judges: the numbers in the comment above a
 * case, and interface names and defaults of each preset written out here. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo_case.h"

/* Lengths 2, 0, 6, 4, largest answer 10. 12 tokens give 1/12 each. 3 answers with tokens give 1/3 each, 1/3
 * over the own length, and 1 / (3 * 10). */
static void test_weights(void **state) {
  static const int64_t n[] = {2, 0, 6, 4}, none[] = {0, 0};
  double               w[4];

  (void)state;
  tri_loss_weights(TRI_TOKEN_MEAN, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 12 && w[1] == 0 && w[2] == 1.0 / 12 && w[3] == 1.0 / 12);
  tri_loss_weights(TRI_SEQ_MEAN_TOKEN_SUM, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 3 && w[1] == 0 && w[2] == 1.0 / 3 && w[3] == 1.0 / 3);
  tri_loss_weights(TRI_SEQ_MEAN_TOKEN_MEAN, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 6 && w[1] == 0 && w[2] == 1.0 / 18 && w[3] == 1.0 / 12);
  tri_loss_weights(TRI_SEQ_MEAN_TOKEN_SUM_NORM, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 30 && w[1] == 0 && w[2] == 1.0 / 30 && w[3] == 1.0 / 30);
  tri_algo_opt o = PLAIN;
  o.loss_agg_mode = TRI_SEQ_MEAN_TOKEN_SUM; /* the clip's is an option, those of SFT and LUSPO are not */
  tri_loss_clip.weigh(&o, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 3 && w[1] == 0 && w[3] == 1.0 / 3);
  tri_loss_sft.weigh(&o, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 12 && w[1] == 0 && w[3] == 1.0 / 12);
  o.loss_agg_mode = TRI_TOKEN_MEAN;
  tri_loss_luspo.weigh(&o, 10, n, 4, w);
  assert_true(w[0] == 1.0 / 3 && w[1] == 0 && w[3] == 1.0 / 3);
  for (int mode = 0; mode < 4; mode++) {
    w[0] = w[1] = 5;
    tri_loss_weights((tri_loss_agg)mode, 10, none, 2, w);
    assert_true(w[0] == 0 && w[1] == 0);
  }
}

static const struct {
  const char *name, *advantage, *loss;
} presets[] = {{"sft", NULL, "sft"},
               {"rm", NULL, "rm"},
               {"dpo", NULL, "dpo"},
               {"kto", NULL, "kto"},
               {"ppo", "gae", "clip"},
               {"grpo", "group", "clip"},
               {"dr_grpo", "group", "clip"},
               {"dapo", "group", "clip"},
               {"rloo", "leave-one-out", "clip"},
               {"reinforce++", "return", "clip"},
               {"reinforce++-baseline", "group-return", "clip"},
               {"remax", "greedy", "clip"},
               {"gspo", "group", "sequence"},
               {"cispo", "group", "cispo"},
               {"sapo", "group", "sapo"},
               {"vespo", "group", "vespo"},
               {"luspo", "group", "luspo"}};

static void test_presets(void **state) {
  int n = 0;

  (void)state;
  for (; tri_algo_at(n); n++) {
    const tri_algo *a = tri_algo_find(presets[n].name);
    assert_ptr_equal(a, tri_algo_at(n));
    assert_string_equal(a->loss->name, presets[n].loss);
    assert_true(!a->advantage == !presets[n].advantage && !a->advantage == !(a->needs & TRI_NEEDS_ANSWERS));
    if (a->advantage) assert_string_equal(a->advantage->name, presets[n].advantage);
  }
  assert_int_equal(n, sizeof presets / sizeof *presets);
  assert_null(tri_algo_find("GRPO"));
  assert_null(tri_algo_at(-1));
}

static void test_policy_loss_table(void **state) {
  (void)state;
  for (int i = 0; tri_policy_loss_at(i); i++) {
    const tri_loss *a = tri_policy_loss_at(i);
    assert_ptr_equal(tri_policy_loss_find(a->name), a);
    assert_true(a->compute && a->weigh);
    for (int n = 0; a->metric[n]; n++) assert_true(n < TRI_ALGO_METRICS && a->metric[n][0]);
  }
  assert_null(tri_policy_loss_find("sft"));
}

/* The keys of the advantage and of the loss are read, others are not. The defaults of a preset are found. */
static void test_reads_and_sets(void **state) {
  const tri_algo *gspo = tri_algo_find("gspo");

  (void)state;
  assert_true(tri_algo_reads(gspo, "algo.scale_rewards") && tri_algo_reads(gspo, "algo.clip_eps"));
  assert_false(tri_algo_reads(gspo, "algo.gamma"));
  assert_false(tri_algo_reads(tri_algo_find("sft"), "algo.clip_eps"));
  assert_string_equal(tri_algo_sets(gspo, "algo.clip_eps_high"), "4e-4");
  assert_null(tri_algo_sets(gspo, "algo.scale_rewards"));
  assert_null(tri_algo_sets(tri_algo_find("grpo"), "algo.clip_eps"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights), cmocka_unit_test(test_presets),
                                     cmocka_unit_test(test_policy_loss_table),
                                     cmocka_unit_test(test_reads_and_sets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
