/* test_value.c - the critic's loss, advantages from its values, and ReMax. Judges: numbers worked by hand in
 * the comment above each case, central differences, the loss of the whole batch against its parts, and verl's
 * and OpenRLHF's formulas in float64 (make_preference_golden.py). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo_case.h"
#include "base/error.h"
#include "refusal_case.h"

enum { CLIPPED, RETURN };

/* A micro-batch of a scalar head, with the members of micro and values. */
typedef struct values {
  micro m;
  float value[MAX_TOK], old[MAX_TOK], ret[MAX_TOK], dvalue[MAX_TOK];
} values;

static void values_make(values *v, const int64_t *length, int n_seq) {
  memset(v, 0, sizeof *v);
  micro_make(&v->m, length, n_seq, false);
  tri_loss_value.weigh(&PLAIN, 0, length, n_seq, v->m.weight);
  v->m.in.logp = v->m.in.ent = v->m.in.old_logp = v->m.in.adv = NULL;
  v->m.out = (tri_loss_out){.dvalue = v->dvalue};
  v->m.in.value = v->value;
  v->m.in.old_value = v->old;
  v->m.in.ret = v->ret;
}

static tri_algo_opt clipped_at(double clip) {
  tri_algo_opt o = PLAIN;

  o.value_clip = clip;
  return o;
}

/* One token, clip 0.25:
 *   V 1, old 1.125, R 3: inside, 1/2 4 = 2, slope -2
 *   V 1, old 0, R 3: clipped 0.25, error -2.75 is larger, 3.78125, slope 0
 *   V 1, old 0, R 0: clipped 0.25 is nearer: 1/2, slope 1
 *   V -1, old 0, R -3: clipped -0.25, error 2.75: 3.78125, slope 0
 *   V 1, old 0, R 0.625: both errors 0.375: 0.0703125, slope of V's own
 * Without a clip (0) the second is 2, slope -2. */
static void test_by_hand(void **state) {
  static const double value[] = {1, 1, 1, -1, 1, 1}, old[] = {1.125, 0, 0, 0, 0, 0},
                      ret[] = {3, 3, 0, -3, 0.625, 3}, loss[] = {2, 3.78125, 0.5, 3.78125, 0.0703125, 2},
                      slope[] = {-2, 0, 1, 0, 0.375, -2}, clipped[] = {0, 1, 0, 1, 0, 0};
  static const int64_t one = 1;
  values               v;

  (void)state;
  for (int k = 0; k < 6; k++) {
    tri_algo_opt o = clipped_at(k < 5 ? 0.25 : 0);
    values_make(&v, &one, 1);
    v.value[0] = (float)value[k];
    v.old[0] = (float)old[k];
    v.ret[0] = (float)ret[k];
    assert_int_equal(tri_loss_value.compute(&o, &v.m.in, &v.m.out), TRI_OK);
    assert_true(v.m.out.loss == loss[k] && (double)v.dvalue[0] == slope[k]);
    assert_true(v.m.out.metric[CLIPPED].sum == clipped[k] && v.m.out.metric[CLIPPED].of == 1);
    assert_true(v.m.out.metric[RETURN].sum == ret[k] && v.m.out.metric[RETURN].of == 1);
  }
}

static void golden_values(const json_t *file, values *v, int64_t *length, int *n_seq) {
  float n[MAX_TOK];

  *n_seq = floats_of(file, "lengths", n);
  for (int q = 0; q < *n_seq; q++) length[q] = (int64_t)n[q];
  values_make(v, length, *n_seq);
  assert_int_equal(floats_of(file, "value", v->value), v->m.in.n);
  floats_of(file, "old_value", v->old);
  floats_of(file, "ret", v->ret);
}

static void test_goldens(void **state) {
  json_t       *file = open_preferences();
  const json_t *cases = json_object_get(file, "values");
  int64_t       length[MAX_SEQ];
  int           n_seq;
  values        v;

  (void)state;
  golden_values(file, &v, length, &n_seq);
  assert_int_equal(json_array_size(cases), 3);
  for (size_t k = 0; k < json_array_size(cases); k++) {
    const json_t *c = json_array_get(cases, k);
    tri_algo_opt  o = clipped_at(number(c, "clip"));
    assert_int_equal(tri_loss_value.compute(&o, &v.m.in, &v.m.out), TRI_OK);
    check_near("loss", v.m.out.loss, number(c, "loss"), 1e-13);
    check_near("share", v.m.out.metric[CLIPPED].sum / v.m.out.metric[CLIPPED].of, number(c, "share"), 1e-13);
    check_near("return", v.m.out.metric[RETURN].sum / v.m.out.metric[RETURN].of, number(c, "ret"), 1e-13);
    check_array("gradient", v.dvalue, json_object_get(c, "grad"), v.m.in.n);
  }
  json_decref(file);
}

/* A quadratic's central difference is exact except for f32's rounding of the value. Steps of 2^-10 cross no
 * clip here. */
static void test_differences(void **state) {
  json_t      *file = open_preferences();
  const double h = 1.0 / 1024;
  int64_t      length[MAX_SEQ];
  int          n_seq;
  values       v;

  (void)state;
  golden_values(file, &v, length, &n_seq);
  for (int k = 0; k < 3; k++) {
    tri_algo_opt o = clipped_at((double[]){0.2, 100, 0}[k]);
    float        slope[MAX_TOK];
    assert_int_equal(tri_loss_value.compute(&o, &v.m.in, &v.m.out), TRI_OK);
    memcpy(slope, v.dvalue, sizeof slope);
    for (int64_t i = 0; i < v.m.in.n; i++) {
      float  was = v.value[i];
      double loss[2];
      for (int side = 0; side < 2; side++) {
        v.value[i] = was + (float)(side ? -h : h);
        assert_int_equal(tri_loss_value.compute(&o, &v.m.in, &v.m.out), TRI_OK);
        loss[side] = v.m.out.loss;
      }
      v.value[i] = was;
      assert_true(fabs((loss[0] - loss[1]) / (2 * h) - (double)slope[i]) < 1e-5);
    }
  }
  json_decref(file);
}

/* Sequence by sequence the same bits of gradient, and the same sums. */
static void test_split(void **state) {
  json_t      *file = open_preferences();
  tri_algo_opt o = clipped_at(0.2);
  int64_t      length[MAX_SEQ];
  int          n_seq;
  double       loss = 0, clipped = 0;
  values       v;

  (void)state;
  golden_values(file, &v, length, &n_seq);
  assert_int_equal(tri_loss_value.compute(&o, &v.m.in, &v.m.out), TRI_OK);
  for (int q = 0; q < n_seq; q++) {
    values  part;
    int64_t at = v.m.start[q];
    values_make(&part, &length[q], 1);
    part.m.weight[0] = v.m.weight[q];
    memcpy(part.value, v.value + at, (size_t)length[q] * 4);
    memcpy(part.old, v.old + at, (size_t)length[q] * 4);
    memcpy(part.ret, v.ret + at, (size_t)length[q] * 4);
    assert_int_equal(tri_loss_value.compute(&o, &part.m.in, &part.m.out), TRI_OK);
    assert_memory_equal(part.dvalue, v.dvalue + at, (size_t)length[q] * 4);
    loss += part.m.out.loss;
    clipped += part.m.out.metric[CLIPPED].sum;
  }
  assert_true(fabs(loss - v.m.out.loss) < 1e-13 && clipped == v.m.out.metric[CLIPPED].sum);
  json_decref(file);
}

static void test_no_rows(void **state) {
  static const int64_t start[3];
  tri_loss_in          in = {.n_seq = 2, .start = start};
  tri_loss_out         out = {.loss = 9, .metric = {{9, 9}, {9, 9}}};

  (void)state;
  assert_int_equal(tri_loss_value.compute(&PLAIN, &in, &out), TRI_OK);
  assert_true(out.loss == 0 && out.metric[CLIPPED].of == 0 && out.metric[RETURN].of == 0);
}

static void test_not_finite(void **state) {
  static const int64_t length[] = {1, 2};
  static const float   bad[] = {NAN, INFINITY, -INFINITY};
  values               v;

  (void)state;
  for (int array = 0; array < 3; array++)
    for (int k = 0; k < 3; k++)
      for (int clip = 0; clip < 2; clip++) {
        tri_algo_opt o = clipped_at(0.2 * clip);
        values_make(&v, length, 2);
        (array == 0 ? v.value : array == 1 ? v.old : v.ret)[2] = bad[k];
        assert_int_equal(tri_loss_value.compute(&o, &v.m.in, &v.m.out), TRI_ENUMERIC);
        expect_refusal("add_row() 1 0 critic.learning_rate");
        tri_error_clear();
      }
}

/* A prompt of 1 token, an answer of 3, reward 2, gamma 1/2, lam 1/2, values 1, 2, 4 (and 99 in the prompt's
 * row). delta_3 = 2 - 4 = -2, delta_2 = 4/2 - 2 = 0, delta_1 = 2/2 - 1 = 0. A_3 = -2, A_2 = -2/4 = -0.5, A_1
 * = -0.125. R = A + V gives 0.875, 1.5, 2. With kl_coef 1 in the reward and k1 = 1 at the second token alone,
 * delta_2 = -1, A_2 = -1.5, A_1 = -0.375. */
static void test_gae(void **state) {
  static const int64_t length[] = {3};
  tri_algo_opt         o = PLAIN;
  tri_rollout          r = {0};

  (void)state;
  o.gamma = o.lam = 0.5;
  rollout_make(&r, (float[]){2}, length, 1, 1);
  memcpy(r.critic.value, (float[]){99, 1, 2, 4}, 4 * sizeof(float));
  r.adv[0] = r.critic.ret[0] = 7;
  assert_int_equal(tri_advantage_gae.fill(&o, &r), TRI_OK);
  assert_memory_equal(r.adv, ((float[]){0, -0.125f, -0.5f, -2}), 4 * sizeof(float));
  assert_memory_equal(r.critic.ret, ((float[]){0, 0.875f, 1.5f, 2}), 4 * sizeof(float));
  memcpy(r.old_logp, (float[]){0, -1, -1, -1}, 4 * sizeof(float));
  memcpy(r.ref_logp, (float[]){0, -1, -2, -1}, 4 * sizeof(float));
  o.kl_where = TRI_KL_IN_REWARD;
  o.kl_coef = 1;
  o.kl_estimator = TRI_KL_K1;
  assert_int_equal(tri_advantage_gae.fill(&o, &r), TRI_OK);
  assert_memory_equal(r.adv, ((float[]){0, -0.375f, -1.5f, -2}), 4 * sizeof(float));
  r.critic.value[2] = INFINITY;
  assert_int_equal(tri_advantage_gae.fill(&o, &r), TRI_ENUMERIC);
  expect_refusal("check_values() 0 prompt_id 40 1 inf");
  tri_error_clear();
  r.reward[0] = NAN;
  assert_int_equal(tri_advantage_gae.fill(&o, &r), TRI_ENUMERIC);
  tri_error_clear();
  tri_rollout_free(&r);
}

/* Two answers to each of two prompts with baselines 1/2 and 2. A = reward - baseline at each token. */
static void test_greedy(void **state) {
  tri_algo_opt o = PLAIN;
  tri_rollout  r = {0};

  (void)state;
  o.gamma = 0.5; /* is not read */
  rollout_make(&r, (float[]){1, 0, 2, 2}, NULL, 4, 2);
  memcpy(r.baseline, (float[]){0.5f, 0.5f, 2, 2}, 4 * sizeof(float));
  assert_int_equal(tri_advantage_greedy.fill(&o, &r), TRI_OK);
  assert_memory_equal(r.adv, ((float[]){0, 0.5f, 0.5f, 0, -0.5f, -0.5f, 0, 0, 0, 0, 0, 0}),
                      12 * sizeof(float));
  r.baseline[2] = NAN;
  assert_int_equal(tri_advantage_greedy.fill(&o, &r), TRI_ENUMERIC);
  expect_refusal("fill_greedy() prompt_id 41 nan");
  tri_error_clear();
  tri_rollout_free(&r);
}

/* Row i of the goldens, which have answers only, in a rollout with prompts of one token. */
static void golden_rows(const json_t *file, const char *key, const tri_rollout *r, float *out) {
  float row[MAX_TOK];

  floats_of(file, key, row);
  for (int64_t q = 0, i = 0; q < r->n_seq; q++)
    for (int64_t at = r->start[q] + 1; at < r->start[q + 1]; at++) out[at] = row[i++];
}

static void check_rows(const char *what, const tri_rollout *r, const float *got, const json_t *want) {
  float row[MAX_TOK];
  int   n = 0;

  for (int q = 0; q < r->n_seq; q++)
    for (int64_t at = r->start[q] + 1; at < r->start[q + 1]; at++) row[n++] = got[at];
  check_array(what, row, want, n);
}

static tri_algo_opt paying(double beta) {
  tri_algo_opt o = PLAIN;

  o.kl_where = TRI_KL_IN_REWARD;
  o.kl_estimator = TRI_KL_K1;
  o.kl_coef = beta;
  return o;
}

static void test_peers(void **state) {
  json_t *file = open_preferences(), *gae = json_object_get(file, "gae"),
         *greedy = json_object_get(file, "greedy");
  float       reward[MAX_TOK], n[MAX_TOK];
  int64_t     length[MAX_SEQ];
  int         n_seq = floats_of(file, "lengths", n);
  tri_rollout r = {0};

  (void)state;
  for (int q = 0; q < n_seq; q++) length[q] = (int64_t)n[q];
  floats_of(file, "rewards", reward);
  rollout_make(&r, reward, length, n_seq, 1);
  golden_rows(file, "old", &r, r.old_logp);
  golden_rows(file, "ref", &r, r.ref_logp);
  golden_rows(file, "value", &r, r.critic.value);
  floats_of(file, "baselines", r.baseline);
  assert_true(json_array_size(gae) == 8 && json_array_size(greedy) == 2);
  for (size_t k = 0; k < 8; k++) {
    const json_t *c = json_array_get(gae, k);
    tri_algo_opt  o = paying(number(c, "beta"));
    o.gamma = number(c, "gamma");
    o.lam = number(c, "lam");
    assert_int_equal(tri_advantage_gae.fill(&o, &r), TRI_OK);
    check_rows("advantage", &r, r.adv, json_object_get(c, "adv"));
    check_rows("return", &r, r.critic.ret, json_object_get(c, "ret"));
  }
  for (size_t k = 0; k < 2; k++) {
    const json_t *c = json_array_get(greedy, k);
    tri_algo_opt  o = paying(number(c, "beta"));
    assert_int_equal(tri_advantage_greedy.fill(&o, &r), TRI_OK);
    check_rows("ReMax", &r, r.adv, json_object_get(c, "adv"));
  }
  tri_rollout_free(&r);
  json_decref(file);
}

/* Returns 1, 3 and 5, 7 have mean 4 and squares 9 + 1 + 1 + 9 = 20. Values 1, 2 and 4, 5 leave 0, 1, 1, 2,
 * with mean 1 and squares 2, so 1 - 2/20 = 0.9. The prompt's rows and a masked answer's do not count. Equal
 * returns, and none, give NaN. */
static void test_explained_variance(void **state) {
  tri_rollout r = {0};

  (void)state;
  rollout_make(&r, (float[]){0, 0, 0}, NULL, 3, 1);
  memcpy(r.critic.ret, (float[]){50, 1, 3, 60, 5, 7, 0, 80, 90}, 9 * sizeof(float));
  memcpy(r.critic.value, (float[]){70, 1, 2, 80, 4, 5, 0, 1, 1}, 9 * sizeof(float));
  r.masked[2] = 1;
  assert_true(fabs(tri_explained_variance(&r) - 0.9) < 1e-15);
  for (int i = 0; i < 9; i++) r.critic.ret[i] = 2;
  assert_true(isnan(tri_explained_variance(&r)));
  tri_rollout_free(&r);
  assert_int_equal(tri_rollout_make(0, 0, 1, 0, &r), TRI_OK);
  assert_true(isnan(tri_explained_variance(&r)));
  tri_rollout_free(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_goldens),
      cmocka_unit_test(test_differences), cmocka_unit_test(test_split),
      cmocka_unit_test(test_no_rows),     cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_gae),         cmocka_unit_test(test_greedy),
      cmocka_unit_test(test_peers),       cmocka_unit_test(test_explained_variance)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
