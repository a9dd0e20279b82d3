/* test_options.c - options of every policy loss, namely the share of tokens by entropy, the KL times the
 * ratio, the sampler's correction, and cut answers. Judges: numbers worked by hand in the comment above each
 * case, central differences, and TRL's own losses (make_algo_golden.py). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo_case.h"
#include "base/error.h"
#include "refusal_case.h"

static bool by_sequence(const tri_loss *a) { return a == &tri_loss_sequence || a == &tri_loss_luspo; }

/* ---- the threshold ---- */

/* Prompts of 1 token, one answer each. seen is number[i] in the answers and far above elsewhere. */
static double threshold_of(double share, const int64_t *length, int n_seq, int begin, int end,
                           const float *number) {
  static const float reward[MAX_SEQ];
  tri_algo_opt       o = PLAIN;
  tri_rollout        r = {0};
  double             found;
  int                at = 0;

  o.top_entropy_quantile = share;
  rollout_make(&r, reward, length, n_seq, 1);
  for (int q = 0; q < n_seq; q++) {
    r.seen[r.start[q]] = 1e6f;
    for (int64_t i = tri_rollout_first_row(&r, q); i < r.start[q + 1]; i++) r.seen[i] = number[at++];
  }
  assert_true(tri_policy_statistic.entropy && !tri_policy_statistic.beside &&
              tri_policy_statistic.wanted(&o));
  found = tri_policy_statistic.number(&o, &r, begin, end);
  tri_rollout_free(&r);
  return found;
}

/* For 0, 1, 2, 3, 5 the upper half begins at rank 0.5 (5 - 1) = 2, so at 2. The upper 0.2 begins at rank 3.2,
 * so at 3.4, and the upper 0.125 at rank 3.5, so at 4. For the middle answer, 3 and 0, half way is 1.5. One
 * number gives itself, and none gives 0. A number below 0, from rounding, is in order. */
static void test_threshold(void **state) {
  static const int64_t length[] = {2, 2, 1};
  static const float   number[] = {5, 1, 3, 0, 2}, below[] = {1, -1e-7f, -2e-7f, 0, 0};

  (void)state;
  assert_true(threshold_of(0.5, length, 3, 0, 3, number) == 2);
  assert_true(fabs(threshold_of(0.2, length, 3, 0, 3, number) - 3.4) < 1e-6); /* f32 */
  assert_true(threshold_of(0.125, length, 3, 0, 3, number) == 4);
  assert_true(threshold_of(0.5, length, 3, 1, 2, number) == 1.5);
  assert_true(threshold_of(0.5, length, 3, 2, 3, number) == 2);
  assert_true(threshold_of(0.5, (int64_t[]){0, 0}, 2, 0, 2, number) == 0);
  assert_true(threshold_of(0.25, length, 3, 0, 2, below) == 0.25);
  assert_true(threshold_of(0.5, (int64_t[]){3}, 1, 0, 1, below) == (double)-1e-7f);
  assert_false(tri_policy_statistic.wanted(&PLAIN));
}

/* Cut answers have no influence. */
static void test_threshold_masked(void **state) {
  static const float reward[] = {1, 0}, number[] = {9, 9, 4, 2};
  tri_algo_opt       o = PLAIN;
  tri_rollout        r = {0};

  (void)state;
  o.top_entropy_quantile = 0.5;
  rollout_make(&r, reward, NULL, 2, 2);
  for (int k = 0; k < 4; k++) r.seen[r.start[k / 2] + 1 + k % 2] = number[k];
  r.masked[0] = 1;
  assert_true(tri_policy_statistic.number(&o, &r, 0, 2) == 3);
  tri_rollout_free(&r);
}

/* ---- the losses ---- */

/* Three tokens of ratio 1, A 2, weight 1. The lowest entropy is below the threshold, so the loss is -4 and
 * the slopes are 0, -2, -2. A token at the threshold counts. KL and entropy bonus stay, 0.5 of k1 0.25 each,
 * and 0.1 of 1 + 2 + 3. */
static void test_top_entropy(void **state) {
  static const int64_t length = 3;
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.top_entropy_quantile = 0.5;
  o.kl_coef = 0.5;
  o.kl_estimator = TRI_KL_K1;
  o.entropy_coef = 0.1;
  micro_make(&m, &length, 1, true);
  m.weight[0] = 1;
  for (int i = 0; i < 3; i++) {
    m.logp[i] = m.old[i] = -1;
    m.ref[i] = -1.25f;
    m.adv[i] = 2;
    m.ent[i] = 1 + (float)i;
  }
  m.in.statistic = 2;
  assert_int_equal(tri_loss_clip.compute(&o, &m.in, &m.out), TRI_OK);
  assert_true(fabs(m.out.loss - (-4 + 3 * 0.5 * 0.25 - 0.1 * 6)) < 1e-14);
  assert_true(m.dlogp[0] == 0.5f && m.dlogp[1] == -1.5f && m.dlogp[2] == -1.5f);
  assert_true(m.dent[0] == -0.1f && m.out.metric[TRI_POLICY_ENTROPY].sum == 6);
}

/* One token of ratio 2. k2 of delta 1 is 1/2 with slope 1. Times the ratio it is 1, with slope 2 (1 + 1/2) =
 * 3. A is 0. */
static void test_kl_correction(void **state) {
  static const int64_t one = 1;
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.kl_coef = 0.5;
  o.kl_estimator = TRI_KL_K2;
  o.kl_bias_correction = true;
  micro_make(&m, &one, 1, true);
  m.weight[0] = 1;
  m.logp[0] = (float)log(2) - 1;
  m.old[0] = -1;
  m.ref[0] = m.logp[0] - 1;
  assert_int_equal(tri_loss_clip.compute(&o, &m.in, &m.out), TRI_OK);
  assert_true(fabs(m.out.loss - 0.5) < 1e-6 && fabs((double)m.dlogp[0] - 1.5) < 1e-6); /* log in f32 */
  assert_true(fabs(m.out.metric[TRI_POLICY_KL].sum - 1) < 1e-6);
}

/* Ratio 1, A 1, three tokens with corrections 1/2, 2 and 8, capped at 4. The last gets 4 or 0. Their mean is
 * 3.5 before the cap, and one of three is over it. */
static void test_correction(void **state) {
  static const int64_t length = 3;
  static const double  w[] = {0.5, 2, 8}, want[2][3] = {{0.5, 2, 4}, {0.5, 2, 0}};
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.is_cap = 4;
  micro_make(&m, &length, 1, false);
  m.in.roll_logp = m.roll;
  m.weight[0] = 1;
  for (int i = 0; i < 3; i++) {
    m.logp[i] = m.old[i] = -4;
    m.roll[i] = -4 - (float)log(w[i]);
    m.adv[i] = 1;
  }
  for (int mode = 0; mode < 2; mode++) {
    const double *x = want[mode];
    o.is_mode = (tri_is_mode)mode;
    assert_int_equal(tri_loss_clip.compute(&o, &m.in, &m.out), TRI_OK);
    assert_true(fabs(m.out.loss + x[0] + x[1] + x[2]) < 1e-5); /* log in f32 */
    for (int i = 0; i < 3; i++) assert_true(fabs((double)m.dlogp[i] + x[i]) < 1e-5);
    assert_true(fabs(m.out.metric[TRI_POLICY_IS].sum - 10.5) < 1e-5 && m.out.metric[TRI_POLICY_IS].of == 3 &&
                m.out.metric[TRI_POLICY_CAPPED].sum == 1);
  }
  m.roll[1] = -INFINITY;
  assert_int_equal(tri_loss_clip.compute(&o, &m.in, &m.out), TRI_ENUMERIC);
  expect_refusal("add_token() 1 0 -4");
  tri_error_clear();
}

static tri_algo_opt all_options(const tri_loss *a) {
  tri_algo_opt o = PLAIN;

  o.top_entropy_quantile = 0.5;
  o.kl_coef = 0.3;
  o.kl_bias_correction = true;
  o.is_cap = 1.25;
  o.is_mode = a == &tri_loss_sapo ? TRI_IS_MASK : TRI_IS_TRUNCATE;
  return o;
}

static double loss_of(const tri_loss *a, const tri_algo_opt *o, const micro *m) {
  float        dlogp[MAX_TOK], dent[MAX_TOK];
  tri_loss_out out = {.dlogp = dlogp, .dent = dent};

  assert_int_equal(a->compute(o, &m->in, &out), TRI_OK);
  return out.loss;
}

/* Central differences by the log-probability, as in test_loss.c. The KL times the ratio has a third
 * derivative of 0.3 * 1.65 * 8 at most, times a weight of 1/15, so their error is below 5e-8. No gradient
 * goes through the weights of cispo and vespo. */
static void test_differences(void **state) {
  static const int64_t length[] = {3, 1, 5, 0, 4, 2};
  const float          h = 1.0f / 1024;
  micro                m;

  (void)state;
  for (int k = 0; tri_policy_loss_at(k); k++) {
    const tri_loss *a = tri_policy_loss_at(k);
    if (a == &tri_loss_cispo || a == &tri_loss_vespo) continue;
    for (int e = 0; e < 3; e++) {
      tri_algo_opt o = all_options(a);
      o.kl_estimator = (tri_kl_estimator)e;
      micro_make(&m, length, 6, true);
      micro_fill(&m);
      m.in.roll_logp = m.roll;
      m.in.statistic = 1;
      for (int64_t i = 0; i < m.in.n; i++) m.roll[i] = m.old[i] + (float)(i % 5 - 2) / 8;
      for (int q = 0; by_sequence(a) && q < 6;
           q++) /* one advantage each, otherwise the gradient is GSPO-token's */
        for (int64_t i = m.start[q]; i < m.start[q + 1]; i++) m.adv[i] = m.adv[m.start[q]];
      tri_loss_weights(TRI_TOKEN_MEAN, 7, length, 6, m.weight);
      assert_int_equal(a->compute(&o, &m.in, &m.out), TRI_OK);
      for (int64_t i = 0; i < m.in.n; i++) {
        float  was = m.logp[i];
        double up, down;
        m.logp[i] = was + h;
        up = loss_of(a, &o, &m);
        m.logp[i] = was - h;
        down = loss_of(a, &o, &m);
        m.logp[i] = was;
        if (fabs((up - down) / (2 * (double)h) - (double)m.dlogp[i]) >= 4e-7)
          fail_msg("%s, row %lld: %.9g, not %.9g", a->name, (long long)i, (double)m.dlogp[i],
                   (up - down) / (2 * (double)h));
      }
    }
  }
}

/* ---- TRL ---- */

/* The goldens' answers with the advantages of their groups, one row per token in every answer. */
static void golden_micro(const json_t *file, micro *m, int64_t *length) {
  float length_f[MAX_TOK], adv[MAX_TOK];
  int   n_seq = get_floats(json_object_get(file, "lengths"), length_f);

  for (int q = 0; q < n_seq; q++) length[q] = (int64_t)length_f[q];
  micro_make(m, length, n_seq, true);
  get_floats(json_object_get(file, "logp"), m->logp);
  get_floats(json_object_get(file, "old_logp"), m->old);
  get_floats(json_object_get(file, "ref_logp"), m->ref);
  get_floats(json_object_get(file, "ent"), m->ent);
  get_floats(json_object_get(file, "roll_logp"), m->roll);
  m->in.roll_logp = m->roll;
  get_floats(json_object_get(json_object_get(file, "advantages"), "group"), adv);
  for (int q = 0; q < n_seq; q++)
    for (int64_t i = m->start[q]; i < m->start[q + 1]; i++) m->adv[i] = adv[q];
}

static tri_algo_opt golden_options(const json_t *c, const char *name) {
  tri_algo_opt o = PLAIN;

  o.kl_coef = number(c, "beta");
  o.clip_eps = number(c, "low");
  o.clip_eps_high = number(c, "high");
  o.top_entropy_quantile = number(c, "quantile");
  o.kl_bias_correction = json_is_true(json_object_get(c, "bias"));
  o.is_cap = number(c, "cap");
  o.is_mode = strcmp(json_string_value(json_object_get(c, "mode")), "mask") ? TRI_IS_TRUNCATE : TRI_IS_MASK;
  if (strcmp(name, "cispo") != 0 && strcmp(name, "vespo") != 0) o.loss_agg_mode = TRI_SEQ_MEAN_TOKEN_MEAN;
  return o;
}

static void check_case(const json_t *file, const json_t *c, micro *m, const int64_t *length) {
  const char     *name = json_string_value(json_object_get(c, "policy_loss"));
  const tri_loss *a = tri_policy_loss_find(name);
  const json_t   *grad = json_object_get(c, "dlogp");
  tri_algo_opt    o = golden_options(c, name);

  assert_non_null(a);
  m->in.statistic = 0;
  if (o.top_entropy_quantile < 1)
    m->in.statistic = threshold_of(o.top_entropy_quantile, length, m->in.n_seq, 0, m->in.n_seq, m->ent);
  a->weigh(&o, (int64_t)number(file, "max_length"), length, m->in.n_seq, m->weight);
  assert_int_equal(a->compute(&o, &m->in, &m->out), TRI_OK);
  if (fabs(m->out.loss - number(c, "loss")) > 1e-13) /* both sums in f64 */
    fail_msg("%s: loss %.17g, not %.17g", name, m->out.loss, number(c, "loss"));
  for (int64_t i = 0; i < m->in.n; i++) {
    double want = json_number_value(json_array_get(grad, (size_t)i));
    if (fabs((double)m->dlogp[i] - want) > 1e-7 * fabs(want) + 1e-16) /* ours is rounded to f32 */
      fail_msg("%s: gradient of row %lld %.9g, not %.9g", name, (long long)i, (double)m->dlogp[i], want);
  }
  if (o.kl_coef > 0)
    assert_true(fabs(m->out.metric[TRI_POLICY_KL].sum / m->out.metric[TRI_POLICY_KL].of - number(c, "kl")) <
                1e-7);
}

static void test_trl(void **state) {
  json_t       *file = open_goldens();
  const json_t *cases = json_object_get(file, "options");
  int64_t       length[MAX_SEQ];
  micro         m;

  (void)state;
  golden_micro(file, &m, length);
  assert_int_equal(json_array_size(cases), 36);
  for (size_t k = 0; k < json_array_size(cases); k++) check_case(file, json_array_get(cases, k), &m, length);
  json_decref(file);
}

/* ---- cut answers ---- */

/* Rewards 1, 3 of one group, the second answer cut. Advantages are -1, 1 by the whole group's mean, and only
 * the first has tokens with loss. Whitened over the first's two tokens alone they are 0. */
static void test_mask_truncated(void **state) {
  static const float reward[] = {1, 3};
  tri_algo_opt       o = PLAIN;
  tri_rollout        r = {0};

  (void)state;
  o.scale_rewards = TRI_SCALE_NONE;
  rollout_make(&r, reward, NULL, 2, 2);
  r.stop[1] = TRI_STOP_LENGTH;
  assert_int_equal(tri_algo_advantage(tri_algo_find("grpo"), &o, &r), TRI_OK);
  assert_true(tri_rollout_loss_tokens(&r, 1) == 2);
  o.mask_truncated = true;
  assert_int_equal(tri_algo_advantage(tri_algo_find("grpo"), &o, &r), TRI_OK);
  assert_true(r.adv[1] == -1 && r.adv[2] == -1);
  assert_true(tri_rollout_loss_tokens(&r, 0) == 2 && tri_rollout_loss_tokens(&r, 1) == 0);
  o.whiten_advantages = true;
  assert_int_equal(tri_algo_advantage(tri_algo_find("grpo"), &o, &r), TRI_OK);
  assert_true(r.adv[1] == 0 && r.adv[2] == 0);
  tri_rollout_free(&r);
}

/* ---- adaptive coefficients ---- */

/* 0.5, target 2, 50 samples over a horizon of 100. KL 2.2 is 0.1 above, 5 is limited to 0.2, and 1 to -0.2,
 * so the factors are 1.05, 1.1, 0.9. */
static void test_adapt_kl(void **state) {
  static const double kl[] = {2, 2.2, 5, 1}, times[] = {1, 1.05, 1.1, 0.9};

  (void)state;
  for (int k = 0; k < 4; k++) {
    tri_algo_opt o = PLAIN;
    o.kl_coef = 0.5;
    o.kl_target = 2;
    o.kl_horizon = 100;
    assert_true(tri_adapts_kl(&o));
    tri_adapt_kl(&o, kl[k], 50);
    assert_true(fabs(o.kl_coef - 0.5 * times[k]) < 1e-15);
  }
}

/* From 0.004 with target 1. No bonus in the first step. After entropies 1, 0.5, 2, 2, 2, 0.9 the coefficient
 * is 0.009, 0.014, 0.009, 0.004, 0, 0.005. It is used after 1, 0.5 and 0.9 only. From 0.998 it stops at 1. */
static void test_adapt_entropy(void **state) {
  static const double entropy[] = {1, 0.5, 2, 2, 2, 0.9}, coef[] = {0.009, 0.014, 0.009, 0.004, 0, 0.005};
  tri_algo_opt        o = PLAIN;
  tri_adapt           a;

  (void)state;
  o.entropy_coef = 0.004;
  tri_adapt_begin(&o, &a);
  assert_true(o.entropy_coef == 0.004 && !tri_adapts_entropy(&o));
  o.adaptive_entropy_target = 1;
  tri_adapt_begin(&o, &a);
  assert_true(o.entropy_coef == 0 && a.entropy_coef == 0.004 && isinf(a.entropy));
  for (int k = 0; k < 6; k++) {
    tri_adapt_entropy(&o, &a, entropy[k]);
    assert_true(fabs(a.entropy_coef - coef[k]) < 1e-15);
    assert_true(o.entropy_coef == (entropy[k] <= 1 ? a.entropy_coef : 0));
  }
  a.entropy_coef = 0.998;
  tri_adapt_entropy(&o, &a, 0);
  assert_true(a.entropy_coef == 1 && o.entropy_coef == 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threshold),   cmocka_unit_test(test_threshold_masked),
      cmocka_unit_test(test_top_entropy), cmocka_unit_test(test_kl_correction),
      cmocka_unit_test(test_correction),  cmocka_unit_test(test_differences),
      cmocka_unit_test(test_trl),         cmocka_unit_test(test_mask_truncated),
      cmocka_unit_test(test_adapt_kl),    cmocka_unit_test(test_adapt_entropy)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
