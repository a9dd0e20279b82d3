/* test_advantage.c - rewards to advantages. Judges: numbers worked by hand in the comment above each case,
 * and TRL's, OpenRLHF's and RLOO's formulas in float64 (make_algo_golden.py). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo_case.h"
#include "base/error.h"
#include "refusal_case.h"

/* Advantage `want[q]` at every answer token of sequence q, 0 before them. */
static void check_advantage(const tri_advantage *a, const tri_algo_opt *o, tri_rollout *r,
                            const double *want) {
  for (int64_t i = 0; i < r->n_tok; i++) r->adv[i] = 99;
  assert_int_equal(a->fill(o, r), TRI_OK);
  for (int q = 0; q < r->n_seq; q++)
    for (int64_t i = r->start[q]; i < r->start[q + 1]; i++) {
      double x = i < tri_rollout_first_row(r, q) ? 0 : want[q];
      assert_true(fabs((double)r->adv[i] - x) <= 1e-6 * fabs(x)); /* one rounding to f32 */
    }
}

/* Rewards 1, 0, 1/2 have mean 1/2 and squares 1/4 + 1/4, over G - 1 = 2, so std 1/2. The second group is all
 * equal, so exactly 0. The whole batch 1 0 .5 2 2 2 has mean 1.25 and squares .0625 + 1.5625 + .5625 + 3 *
 * .5625 = 3.875, over 5, so variance 0.775. */
static void test_advantage(void **state) {
  const float  reward[] = {1, 0, 0.5f, 2, 2, 2};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 6, 3);
  check_advantage(&tri_advantage_group, &o, &r, (double[]){1, -1, 0, 0, 0, 0});
  o.advantage_eps = 0.5; /* 0.5 / (0.5 + 0.5) */
  check_advantage(&tri_advantage_group, &o, &r, (double[]){0.5, -0.5, 0, 0, 0, 0});
  o.scale_rewards = TRI_SCALE_NONE;
  check_advantage(&tri_advantage_group, &o, &r, (double[]){0.5, -0.5, 0, 0, 0, 0});
  o.scale_rewards = TRI_SCALE_BATCH;
  double a = 0.5 / (sqrt(0.775) + 0.5);
  check_advantage(&tri_advantage_group, &o, &r, (double[]){a, -a, 0, 0, 0, 0});
  tri_rollout_free(&r);
}

/* Equal rewards give exactly 0, with eps 0 too, and so do ten equal scores whose mean in f64 is none of
 * them. */
static void test_equal_rewards(void **state) {
  const float  reward[] = {0.1f, 0.1f, 0.1f, 0.7f, 0.7f, 0.7f};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 6, 3);
  for (int s = TRI_SCALE_GROUP; s <= TRI_SCALE_NONE; s++) {
    o.scale_rewards = (tri_scale_rewards)s;
    check_advantage(&tri_advantage_group, &o, &r, (double[]){0, 0, 0, 0, 0, 0});
  }
  tri_rollout_free(&r);
  rollout_make(&r, (float[10]){0}, NULL, 10, 10);
  o.kl_where = TRI_KL_IN_REWARD;
  o.kl_coef = 0.1;
  for (int i = 0; i < 30; i++) r.old_logp[i] = -1, r.ref_logp[i] = -1.3f;
  for (int s = TRI_SCALE_GROUP; s <= TRI_SCALE_NONE; s++) {
    o.scale_rewards = (tri_scale_rewards)s;
    check_advantage(&tri_advantage_group, &o, &r, (double[10]){0});
  }
  tri_rollout_free(&r);
}

/* Answers of 3, 0, 1 and 2 tokens, one without a prompt, so that nothing predicts its first token, and
 * none. */
static void test_advantage_rows(void **state) {
  static const int64_t length[] = {3, 0, 1, 2};
  const float          reward[] = {1, 0, 0, 1};
  tri_algo_opt         o = PLAIN;
  tri_rollout          r = {0};

  (void)state;
  o.scale_rewards = TRI_SCALE_NONE;
  rollout_make(&r, reward, length, 4, 2);
  check_advantage(&tri_advantage_group, &o, &r, (double[]){0.5, -0.5, -0.5, 0.5});
  r.prompt_len[3] = 0;
  check_advantage(&tri_advantage_group, &o, &r, (double[]){0.5, -0.5, -0.5, 0.5});
  assert_int_equal(tri_rollout_loss_tokens(&r, 0), 3);
  assert_int_equal(tri_rollout_loss_tokens(&r, 1), 0);
  assert_int_equal(tri_rollout_loss_tokens(&r, 3), 2);
  tri_rollout_free(&r);
  assert_int_equal(tri_rollout_make(0, 0, 3, 0, &r), TRI_OK);
  check_advantage(&tri_advantage_group, &o, &r, NULL);
  tri_rollout_free(&r);
}

/* Two answers, reward 1 each. old - ref is 0.5 at both tokens of the first, -0.5 and 0.25 in the second, and
 * kl_coef is 2. With k1, scores are 1 - 2 (0.5 + 0.5) = -1 and 1 - 2 (-0.25) = 1.5, their mean is 0.25, and
 * the differences are -1.25, 1.25. With k2, scores are 1 - 2 (0.125 + 0.125) = 0.5 and 1 - 2 (0.125 +
 * 0.03125) = 0.6875, their mean is 0.59375, and the differences are -+ 0.09375. The prompt token's difference
 * (8) must not count. Rewards stay as they are. */
static void test_kl_in_reward(void **state) {
  const float  reward[] = {1, 1};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 2, 2);
  memcpy(r.old_logp, (float[]){0, -1, -1, 0, -2, -1}, 6 * sizeof(float));
  memcpy(r.ref_logp, (float[]){-8, -1.5f, -1.5f, -8, -1.5f, -1.25f}, 6 * sizeof(float));
  o.kl_where = TRI_KL_IN_REWARD;
  o.kl_coef = 2;
  o.scale_rewards = TRI_SCALE_NONE;
  o.kl_estimator = TRI_KL_K1;
  check_advantage(&tri_advantage_group, &o, &r, (double[]){-1.25, 1.25});
  o.kl_estimator = TRI_KL_K2;
  check_advantage(&tri_advantage_group, &o, &r, (double[]){-0.09375, 0.09375});
  assert_true(r.reward[0] == 1 && r.reward[1] == 1);
  o.kl_where = TRI_KL_IN_LOSS;
  check_advantage(&tri_advantage_group, &o, &r, (double[]){0, 0});
  tri_rollout_free(&r);
}

static void test_advantage_refuses(void **state) {
  const float  reward[] = {1, NAN, 3, 4};
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 4, 2);
  assert_int_equal(tri_advantage_group.fill(&o, &r), TRI_ENUMERIC);
  expect_refusal("answer_score() 1 prompt_id 40 0");
  tri_error_clear();
  r.reward[1] = 0;
  o.kl_where = TRI_KL_IN_REWARD; /* the reference is unknown (NaN) */
  o.kl_coef = 0.1;
  assert_int_equal(tri_advantage_group.fill(&o, &r), TRI_ENUMERIC);
  tri_error_clear();
  tri_rollout_free(&r);
}

static void test_trl_groups(void **state) {
  json_t                  *file = open_goldens();
  static const char *const word[] = {"group", "batch", "none"};
  float                    reward[MAX_TOK];
  int                      n = get_floats(json_object_get(file, "rewards"), reward);
  tri_algo_opt             o = PLAIN;
  tri_rollout              r = {0};

  (void)state;
  o.advantage_eps = 1e-4;
  rollout_make(&r, reward, NULL, n, (int)number(file, "group"));
  for (int s = 0; s < 3; s++) {
    const json_t *want = json_object_get(json_object_get(file, "advantages"), word[s]);
    o.scale_rewards = (tri_scale_rewards)s;
    assert_int_equal(tri_advantage_group.fill(&o, &r), TRI_OK);
    for (int q = 0; q < n; q++) {
      double a = json_number_value(json_array_get(want, (size_t)q));
      assert_true(fabs((double)r.adv[3 * q + 1] - a) <= 1e-7 * fabs(a)); /* one rounding to f32 */
    }
  }
  tri_rollout_free(&r);
  json_decref(file);
}

/* The goldens' answers, each behind a prompt of one token. */
static void shaped_rollout(const json_t *file, tri_rollout *r) {
  float   reward[MAX_TOK], length_f[MAX_TOK], old[MAX_TOK], ref[MAX_TOK];
  int64_t length[MAX_SEQ], row = 0;
  int     n = get_floats(json_object_get(file, "lengths"), length_f);

  get_floats(json_object_get(file, "rewards"), reward);
  get_floats(json_object_get(file, "old_logp"), old);
  get_floats(json_object_get(file, "ref_logp"), ref);
  for (int q = 0; q < n; q++) length[q] = (int64_t)length_f[q];
  rollout_make(r, reward, length, n, (int)number(file, "group"));
  for (int q = 0; q < n; q++)
    for (int64_t i = tri_rollout_first_row(r, q); i < r->start[q + 1]; i++, row++) {
      r->old_logp[i] = old[row];
      r->ref_logp[i] = ref[row];
    }
}

/* return, group-return, leave-one-out with and without a KL in the reward, discounted or not, whitened or
 * not. */
static void test_shaped(void **state) {
  json_t       *file = open_goldens();
  const json_t *cases = json_object_get(file, "shaped");
  tri_rollout   r = {0};

  (void)state;
  shaped_rollout(file, &r);
  assert_int_equal(json_array_size(cases), 20);
  for (size_t k = 0; k < json_array_size(cases); k++) {
    const json_t *c = json_array_get(cases, k), *want = json_object_get(c, "adv");
    tri_algo_opt  o = PLAIN;
    tri_algo      a = {.advantage = tri_advantage_find(json_string_value(json_object_get(c, "name")))};
    size_t        row = 0;
    o.kl_estimator = TRI_KL_K1;
    o.kl_where = TRI_KL_IN_REWARD;
    o.kl_coef = number(c, "beta");
    o.gamma = number(c, "gamma");
    o.whiten_advantages = json_is_true(json_object_get(c, "whiten"));
    for (int64_t i = 0; i < r.n_tok; i++) r.adv[i] = 99;
    assert_int_equal(tri_algo_advantage(&a, &o, &r), TRI_OK);
    for (int q = 0; q < r.n_seq; q++)
      for (int64_t i = r.start[q]; i < r.start[q + 1]; i++) {
        double x = 0;
        if (i >= tri_rollout_first_row(&r, q)) x = json_number_value(json_array_get(want, row++));
        if (fabs((double)r.adv[i] - x) > 1e-6) /* rounded to f32 before and after the whitening */
          fail_msg("%s, case %zu, row %lld: %g, not %g", a.advantage->name, k, (long long)i, (double)r.adv[i],
                   x);
      }
    assert_int_equal(row, json_array_size(want));
  }
  tri_rollout_free(&r);
  json_decref(file);
}

/* Scores 1, 2, 6 of one prompt give 1 - 4, 2 - 3.5, 6 - 1.5. Equal ones give exactly 0. */
static void test_leave_one_out(void **state) {
  const float reward[] = {1, 2, 6, 0.1f, 0.1f, 0.1f};
  tri_rollout r = {0};

  (void)state;
  rollout_make(&r, reward, NULL, 6, 3);
  check_advantage(&tri_advantage_leave_one_out, &PLAIN, &r, (double[]){-3, -1.5, 4.5, 0, 0, 0});
  tri_rollout_free(&r);
}

/* One answer of three tokens, reward 8 and gamma 1/2 give 2, 4, 8. Without tokens there is nothing to fill.
 * Two equal answers less their mean give 0. */
static void test_return(void **state) {
  static const int64_t length[] = {3, 0};
  const float          reward[] = {8, 8};
  tri_algo_opt         o = PLAIN;
  tri_rollout          r = {0};

  (void)state;
  o.gamma = 0.5;
  rollout_make(&r, reward, length, 2, 2);
  assert_int_equal(tri_advantage_return.fill(&o, &r), TRI_OK);
  assert_memory_equal(r.adv, ((float[]){0, 2, 4, 8, 0}), 5 * sizeof(float));
  check_advantage(&tri_advantage_group_return, &o, &r, (double[]){0, 0});
  tri_rollout_free(&r);
}

/* Advantages 1 and -3 over two and one tokens have mean -1/3 and squares 16/9 + 16/9 + 64/9 over 3, so 32/9.
 * All equal ones are 0 over the root of 1e-8. */
static void test_whitening(void **state) {
  static const int64_t length[] = {2, 1};
  tri_algo             a = {.advantage = &tri_advantage_return};
  tri_algo_opt         o = PLAIN;
  tri_rollout          r = {0};

  (void)state;
  o.whiten_advantages = true;
  rollout_make(&r, (float[]){1, -3}, length, 2, 1);
  assert_int_equal(tri_algo_advantage(&a, &o, &r), TRI_OK);
  assert_true(fabs((double)r.adv[1] - 4.0 / 3 / sqrt(32.0 / 9)) < 1e-7 && r.adv[1] == r.adv[2] &&
              r.adv[0] == 0);
  assert_true(fabs((double)r.adv[4] + 8.0 / 3 / sqrt(32.0 / 9)) < 1e-7);
  r.reward[1] = 1;
  assert_int_equal(tri_algo_advantage(&a, &o, &r), TRI_OK);
  assert_true(r.adv[1] == 0 && r.adv[2] == 0 && r.adv[4] == 0);
  tri_rollout_free(&r);
}

/* Every advantage without answers, and with a reward that is NaN or infinite. */
static void test_every_advantage(void **state) {
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  for (int i = 0; tri_advantage_at(i); i++) {
    const tri_advantage *a = tri_advantage_at(i);
    assert_ptr_equal(tri_advantage_find(a->name), a);
    assert_int_equal(tri_rollout_make(0, 0, 2, 0, &r), TRI_OK);
    assert_int_equal(a->fill(&o, &r), TRI_OK);
    tri_rollout_free(&r);
    rollout_make(&r, (float[]){1, 2, 3, NAN}, NULL, 4, 2);
    assert_int_equal(a->fill(&o, &r), TRI_ENUMERIC);
    expect_refusal("answer_score() 1 prompt_id 41");
    tri_error_clear();
    tri_rollout_free(&r);
  }
  assert_null(tri_advantage_find("GAE"));
}

/* Dropped answers have no effect. Judge: the same groups without them. The last group is gone as a whole. */
static void test_dropped(void **state) {
  static const int left[] = {0, 2, 3, 4, 5, 7};
  const float      reward[] = {1, NAN, 0, 0.5f, 2, 0.25f, NAN, 1, NAN, 3, NAN, NAN};
  const float      some[] = {1, 0, 0.5f, 2, 0.25f, 1};
  tri_algo_opt     o = PLAIN;

  (void)state;
  o.scale_rewards = TRI_SCALE_BATCH;
  for (int i = 0; tri_advantage_at(i); i++) {
    const tri_advantage *a = tri_advantage_at(i);
    tri_algo             whole = {.advantage = a};
    tri_rollout          r = {0}, want = {0};
    rollout_make(&r, reward, NULL, 12, 4);
    rollout_make(&want, some, NULL, 6, 3);
    tri_rollout_drop(&r, 2, false);
    for (int q = 0; q < 12; q++) assert_int_equal(r.masked[q], isnan(reward[q]) || q > 8 ? TRI_DROPPED : 0);
    o.whiten_advantages = i % 2;
    assert_int_equal(tri_algo_advantage(&whole, &o, &want), TRI_OK);
    assert_int_equal(tri_algo_advantage(&whole, &o, &r), TRI_OK);
    for (int k = 0; k < 6; k++)
      for (int j = 0; j < 3; j++) assert_true(r.adv[r.start[left[k]] + j] == want.adv[want.start[k] + j]);
    for (int q = 0; q < 12; q++)
      if (r.masked[q]) assert_true(r.adv[r.start[q] + 2] == 0 && tri_rollout_loss_tokens(&r, q) == 0);
    tri_rollout_free(&r);
    tri_rollout_free(&want);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_advantage),
                                     cmocka_unit_test(test_equal_rewards),
                                     cmocka_unit_test(test_advantage_rows),
                                     cmocka_unit_test(test_kl_in_reward),
                                     cmocka_unit_test(test_advantage_refuses),
                                     cmocka_unit_test(test_trl_groups),
                                     cmocka_unit_test(test_shaped),
                                     cmocka_unit_test(test_leave_one_out),
                                     cmocka_unit_test(test_return),
                                     cmocka_unit_test(test_whitening),
                                     cmocka_unit_test(test_every_advantage),
                                     cmocka_unit_test(test_dropped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
