/* test_loss.c - losses and their gradients. Judges: numbers worked by hand in the comment above each case,
 * central differences, the loss of the whole batch against its parts, and TRL's own losses and verl's dual
 * clip (make_algo_golden.py). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo_case.h"
#include "base/error.h"
#include "refusal_case.h"

enum { ENTROPY = TRI_POLICY_ENTROPY, KL = TRI_POLICY_KL, CLIPPED = TRI_POLICY_CLIPPED };

/* One token each, weight 1, old = 0, clip 0.2 down and 0.28 up, ratio = exp(logp):
 *   ratio 2, A 1:    clipped at 1.28, loss -1.28, slope 0       ratio 2, A -1:   loss 2, slope 2
 *   ratio 1/2, A 1:  loss -1/2, slope -1/2                      ratio 1/2, A -1: clipped at 0.8, loss 0.8,
 * slope 0 ratio 1, A 3:    loss -3, slope -3                          ratio 1.25, A 1: inside, loss -1.25,
 * slope -1.25 */
static void test_clip(void **state) {
  static const double  ratio[] = {2, 2, 0.5, 0.5, 1, 1.25}, adv[] = {1, -1, 1, -1, 3, 1};
  static const double  loss[] = {-1.28, 2, -0.5, 0.8, -3, -1.25}, slope[] = {0, 2, -0.5, 0, -3, -1.25};
  static const double  clipped[] = {1, 0, 0, 1, 0, 0};
  static const int64_t one = 1;
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.clip_eps_high = 0.28;
  for (int k = 0; k < 6; k++) {
    micro_make(&m, &one, 1, false);
    m.weight[0] = 1;
    m.logp[0] = (float)log(ratio[k]);
    m.adv[0] = (float)adv[k];
    m.ent[0] = 0.5f;
    assert_int_equal(tri_loss_clip.compute(&o, &m.in, &m.out), TRI_OK);
    assert_true(fabs(m.out.loss - loss[k]) < 1e-6 &&
                fabs((double)m.dlogp[0] - slope[k]) < 1e-6); /* log in f32 */
    assert_true(m.out.metric[CLIPPED].sum == clipped[k]);
    assert_true(m.out.metric[ENTROPY].sum == 0.5 && m.out.metric[KL].sum == 0 && m.dent[0] == 0);
  }
}

/* Ratio 1, A 0, weight 1/2, kl_coef 0.1, entropy_coef 0.01, H = 3, logp - ref = 1/2. k1 = 0.5, slope 1. k2 =
 * 0.125, slope 0.5. k3 = exp(-0.5) - 1 + 0.5, slope 1 - exp(-0.5). loss = (0.1 k - 0.03) / 2, d/dlogp = 0.05
 * slope, d/dent = -0.005. With KL in the reward, it is reported but is no loss. */
static void test_kl_and_entropy(void **state) {
  const double         e = exp(-0.5);
  const double         kl[] = {0.5, 0.125, e - 0.5}, slope[] = {1, 0.5, 1 - e};
  static const int64_t one = 1;
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.kl_coef = 0.1;
  o.entropy_coef = 0.01;
  for (int k = 0; k < 6; k++) {
    double in_loss = k < 3;
    o.kl_estimator = (tri_kl_estimator)(k % 3);
    o.kl_where = k >= 3;
    micro_make(&m, &one, 1, true);
    m.weight[0] = 0.5;
    m.logp[0] = m.old[0] = -1;
    m.ref[0] = -1.5f;
    m.ent[0] = 3;
    assert_int_equal(tri_loss_clip.compute(&o, &m.in, &m.out), TRI_OK);
    assert_true(fabs(m.out.loss - (in_loss * 0.1 * kl[k % 3] - 0.03) / 2) < 1e-15);
    assert_true(fabs(m.out.metric[KL].sum - kl[k % 3]) < 1e-15);
    assert_true(fabs((double)m.dlogp[0] - in_loss * 0.05 * slope[k % 3]) < 1e-8); /* f32 */
    assert_true(fabs((double)m.dent[0] + 0.005) < 1e-9);
  }
}

/* k3 near 0 is delta^2 / 2 - delta^3 / 6. At 1e-6 exp(-delta) - 1 + delta by itself has no digit right. */
static void test_kl_small(void **state) {
  double slope;

  (void)state;
  assert_true(fabs(tri_kl_value(TRI_KL_K3, 1e-6, &slope) / 5e-13 - 1) < 1e-3);
  assert_true(fabs(slope / 1e-6 - 1) < 1e-5);
  assert_true(tri_kl_value(TRI_KL_K3, 0, NULL) == 0);
}

/* The words of algo.policy_loss, then sft's. */
static const tri_loss *a_loss(int i) {
  if (tri_policy_loss_at(i)) return tri_policy_loss_at(i);
  return i > 0 && tri_policy_loss_at(i - 1) ? &tri_loss_sft : NULL;
}

/* True if the tokens of a sequence share one ratio. If advantages differ, its gradient is GSPO-token's. */
static bool by_sequence(const tri_loss *a) { return a == &tri_loss_sequence || a == &tri_loss_luspo; }

/* True if the gradient is the derivative of the loss. The other losses have weights without gradient. */
static bool has_slope(const tri_loss *a) { return a != &tri_loss_cispo && a != &tri_loss_vespo; }

static double loss_of(const tri_loss *a, const tri_algo_opt *o, const micro *m) {
  float        dlogp[MAX_TOK], dent[MAX_TOK];
  tri_loss_out out = {.dlogp = dlogp, .dent = dent};

  assert_int_equal(a->compute(o, &m->in, &out), TRI_OK);
  return out.loss;
}

/* Central differences with step h = 2^-10, exact in f32. Their error is h^2 / 6 times the third derivative.
 * The third derivative is at most weight * ratio * |A| < 1/12 * 1.65 * 4 here (and less for the KL), so the
 * error is 1e-7. The gradient is rounded to f32. A loss with a steeper third derivative exceeds the limit
 * though it is right. Its options here must be gentler, or it needs a limit of its own (algo/README.md). */
static void check_differences(const tri_loss *a, const tri_algo_opt *o, micro *m) {
  const float h = 1.0f / 1024;
  float       adv[MAX_TOK];

  memcpy(adv, m->adv, sizeof adv);
  for (int q = 0; by_sequence(a) && q < m->in.n_seq; q++)
    for (int64_t i = m->start[q]; i < m->start[q + 1]; i++) m->adv[i] = adv[m->start[q]];
  assert_int_equal(a->compute(o, &m->in, &m->out), TRI_OK);
  for (int64_t i = 0; i < m->in.n; i++) {
    float *const x[] = {&m->logp[i], &m->ent[i]};
    const float  slope[] = {m->dlogp[i], m->dent[i]};
    for (int k = 0; k < 2; k++) {
      float  was = *x[k];
      double up, down;
      *x[k] = was + h;
      up = loss_of(a, o, m);
      *x[k] = was - h;
      down = loss_of(a, o, m);
      *x[k] = was;
      if (fabs((up - down) / (2 * (double)h) - (double)slope[k]) >= 2e-7)
        fail_msg("%s, row %lld: %g, not %g", a->name, (long long)i, (double)slope[k],
                 (up - down) / (2 * (double)h));
    }
  }
  memcpy(m->adv, adv, sizeof adv);
}

static void test_differences(void **state) {
  static const int64_t length[] = {3, 1, 5, 0, 4, 2};
  micro                m;

  (void)state;
  for (int mode = 0; mode < 4; mode++)
    for (int bits = 0; bits < 3 * 2 * 2 * 2 * 2; bits++) {
      tri_algo_opt o = PLAIN;
      o.kl_estimator = (tri_kl_estimator)(bits % 3);
      o.kl_where = bits / 3 & 1;
      o.kl_coef = bits / 6 & 1 ? 0.3 : 0;
      o.entropy_coef = bits / 12 & 1 ? 0.2 : 0;
      o.clip_eps_high = bits / 24 & 1 ? 0.28 : 0.2;
      micro_make(&m, length, 6, true);
      micro_fill(&m);
      tri_loss_weights((tri_loss_agg)mode, 7, length, 6, m.weight);
      if (mode == TRI_SEQ_MEAN_TOKEN_SUM) /* keeps to the weights of the bound above */
        for (int q = 0; q < 6; q++) m.weight[q] /= 4;
      for (int i = 0; a_loss(i); i++)
        if (has_slope(a_loss(i))) check_differences(a_loss(i), &o, &m);
    }
  assert_int_equal(tri_loss_clip.compute(&PLAIN, &m.in, &m.out), TRI_OK);
  assert_true(m.out.metric[CLIPPED].sum > 0 &&
              m.out.metric[CLIPPED].sum < (double)m.in.n); /* both sides of the clip were seen */
}

/* Sequences [first, end) of `all`. */
static void micro_cut(micro *part, const micro *all, const int64_t *length, int first, int end) {
  int64_t at = all->start[first];
  size_t  bytes;

  micro_make(part, length + first, end - first, true);
  bytes = (size_t)part->in.n * sizeof(float);
  memcpy(part->logp, all->logp + at, bytes);
  memcpy(part->ent, all->ent + at, bytes);
  memcpy(part->old, all->old + at, bytes);
  memcpy(part->ref, all->ref + at, bytes);
  memcpy(part->adv, all->adv + at, bytes);
  memcpy(part->weight, all->weight + first, (size_t)(end - first) * sizeof(double));
}

/* The whole micro-batch at once, then cut behind the sequences with a set bit, in each of 32 ways. */
static void check_split(const tri_loss *a, const tri_algo_opt *o, micro *all, const int64_t *length) {
  static micro part;

  assert_int_equal(a->compute(o, &all->in, &all->out), TRI_OK);
  for (unsigned cuts = 0; cuts < 32; cuts++) {
    double loss = 0, sum[TRI_ALGO_METRICS] = {0}, of[TRI_ALGO_METRICS] = {0};
    for (int first = 0, q = 0; q < 6; q++) {
      if (q < 5 && !(cuts >> q & 1)) continue;
      micro_cut(&part, all, length, first, q + 1);
      assert_int_equal(a->compute(o, &part.in, &part.out), TRI_OK);
      assert_memory_equal(part.dlogp, all->dlogp + all->start[first], (size_t)part.in.n * sizeof(float));
      assert_memory_equal(part.dent, all->dent + all->start[first], (size_t)part.in.n * sizeof(float));
      loss += part.out.loss;
      for (int k = 0; a->metric[k]; k++) {
        sum[k] += part.out.metric[k].sum;
        of[k] += part.out.metric[k].of;
      }
      first = q + 1;
    }
    assert_true(fabs(loss - all->out.loss) < 1e-13);
    for (int k = 0; a->metric[k]; k++)
      assert_true(fabs(sum[k] - all->out.metric[k].sum) < 1e-13 && of[k] == all->out.metric[k].of);
  }
}

/* Every way to cut the sequences into micro-batches gives the same bits of gradient. Loss and metrics are
 * equal up to the order of the sum. */
static void test_split(void **state) {
  static const int64_t length[] = {3, 1, 5, 0, 4, 2};
  static micro         all;
  tri_algo_opt         o = PLAIN;

  (void)state;
  o.kl_coef = 0.1;
  o.entropy_coef = 0.01;
  for (int mode = 0; mode < 4; mode++)
    for (int i = 0; a_loss(i); i++) {
      micro_make(&all, length, 6, true);
      micro_fill(&all);
      tri_loss_weights((tri_loss_agg)mode, 7, length, 6, all.weight);
      check_split(a_loss(i), &o, &all, length);
    }
}

/* A rank without work, without sequences and with two that have no token, has no loss. */
static void test_no_rows(void **state) {
  static const int64_t start[3];
  static const double  weight[2];

  (void)state;
  for (int i = 0; a_loss(i); i++)
    for (int n_seq = 0; n_seq <= 2; n_seq += 2) {
      const tri_loss *a = a_loss(i);
      tri_loss_in     in = {.n_seq = n_seq, .start = start, .weight = weight};
      tri_loss_out    out = {.loss = 9};
      tri_algo_opt    o = PLAIN;
      double          w[2] = {9, 9};
      o.kl_coef = 0.1;
      for (int k = 0; k < TRI_ALGO_METRICS; k++) out.metric[k] = (tri_mean){9, 9};
      assert_int_equal(a->compute(&o, &in, &out), TRI_OK);
      assert_true(out.loss == 0);
      for (int k = 0; a->metric[k]; k++) assert_true(out.metric[k].sum == 0 && out.metric[k].of == 0);
      a->weigh(&o, 7, (int64_t[]){0, 0}, n_seq, w);
      for (int q = 0; q < n_seq; q++) assert_true(w[q] == 0);
    }
}

/* Two answers of 2 and 1 tokens with token mean 1/3 give -(-1 - 2 - 3) / 3 = 2. */
static void test_sft(void **state) {
  static const int64_t length[] = {2, 1};
  micro                m;

  (void)state;
  micro_make(&m, length, 2, false);
  memcpy(m.logp, (float[]){-1, -2, -3}, 3 * sizeof(float));
  memcpy(m.ent, (float[]){1, 2, 4}, 3 * sizeof(float));
  tri_loss_weights(TRI_TOKEN_MEAN, 0, length, 2, m.weight);
  m.in.old_logp = m.in.adv = NULL;
  assert_int_equal(tri_loss_sft.compute(&PLAIN, &m.in, &m.out), TRI_OK);
  assert_true(fabs(m.out.loss - 2) < 1e-15);
  assert_string_equal(tri_loss_sft.metric[0], "entropy_mean_nats");
  assert_null(tri_loss_sft.metric[1]);
  assert_true(m.out.metric[0].sum == 7 && m.out.metric[0].of == 3);
  for (int i = 0; i < 3; i++) assert_true(m.dlogp[i] == (float)(-1.0 / 3) && m.dent[i] == 0);
  m.logp[2] = -INFINITY;
  assert_int_equal(tri_loss_sft.compute(&PLAIN, &m.in, &m.out), TRI_ENUMERIC);
  expect_refusal("sft_loss() 0 1 -inf");
  tri_error_clear();
}

static void micro_three(micro *m) {
  static const int64_t length[] = {1, 2, 3};

  micro_make(m, length, 3, true);
  micro_fill(m);
  tri_loss_weights(TRI_TOKEN_MEAN, 7, length, 3, m->weight);
}

/* Token 1 of sequence 2 (the third) has a number that is not finite in one array, or too large for exp. The
 * loss names the token. */
static void check_not_finite(const tri_loss *a, const tri_algo_opt *o, int array, float bad) {
  static micro m;
  float *const x[] = {m.logp, m.old, m.ref, m.ent, m.adv};

  micro_three(&m);
  x[array][4] = bad;
  assert_int_equal(a->compute(o, &m.in, &m.out), TRI_ENUMERIC);
  expect_refusal("add_token() 1 2 train.learning_rate");
  tri_error_clear();
}

static void test_not_finite(void **state) {
  static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
  tri_algo_opt       o = PLAIN;

  (void)state;
  o.kl_coef = 0.1;
  for (int i = 0; tri_policy_loss_at(i); i++)
    for (int array = 0; array < 5; array++)
      for (int k = 0; k < 4; k++) /* a large finite number is only too large for exp */
        if (k < 3 || array == 0) check_not_finite(tri_policy_loss_at(i), &o, array, bad[k]);
}

/* In one batch TRL's `bnpo` and `dapo` are the token mean, `grpo` the mean of means, and `dr_grpo` the
 * constant length. */
static tri_loss_agg trl_mode(const char *loss_type) {
  if (!strcmp(loss_type, "grpo")) return TRI_SEQ_MEAN_TOKEN_MEAN;
  if (!strcmp(loss_type, "dr_grpo")) return TRI_SEQ_MEAN_TOKEN_SUM_NORM;
  return TRI_TOKEN_MEAN;
}

static void check_trl_case(const json_t *file, const json_t *c, micro *m, const int64_t *length) {
  const json_t *grad = json_object_get(c, "dlogp");
  tri_algo_opt  o = PLAIN;

  o.kl_coef = number(c, "beta");
  o.clip_eps = number(c, "low");
  o.clip_eps_high = number(c, "high");
  tri_loss_weights(trl_mode(json_string_value(json_object_get(c, "loss_type"))),
                   (int64_t)number(file, "max_length"), length, m->in.n_seq, m->weight);
  m->in.old_logp = json_is_true(json_object_get(c, "off_policy")) ? m->old : m->logp;
  assert_int_equal(tri_loss_clip.compute(&o, &m->in, &m->out), TRI_OK);
  assert_true(fabs(m->out.loss - number(c, "loss")) < 1e-14); /* both sums in f64 */
  assert_true(fabs((double)m->out.metric[CLIPPED].sum / m->out.metric[CLIPPED].of - number(c, "clip_ratio")) <
              1e-7); /* TRL's in f32 */
  assert_int_equal(json_array_size(grad), m->in.n);
  for (int64_t i = 0; i < m->in.n; i++) {
    double want = json_number_value(json_array_get(grad, (size_t)i));
    assert_true(fabs((double)m->dlogp[i] - want) <= 1e-7 * fabs(want)); /* ours is rounded to f32 */
  }
  if (o.kl_coef > 0) assert_true(fabs(m->out.metric[KL].sum / m->out.metric[KL].of - number(c, "kl")) < 1e-7);
}

/* The goldens' answers with the advantages of their groups. */
static void golden_micro(const json_t *file, micro *m, int64_t *length) {
  float length_f[MAX_TOK], adv[MAX_TOK];
  int   n_seq = get_floats(json_object_get(file, "lengths"), length_f);

  for (int q = 0; q < n_seq; q++) length[q] = (int64_t)length_f[q];
  micro_make(m, length, n_seq, true);
  assert_int_equal(get_floats(json_object_get(file, "logp"), m->logp), m->in.n);
  get_floats(json_object_get(file, "old_logp"), m->old);
  get_floats(json_object_get(file, "ref_logp"), m->ref);
  get_floats(json_object_get(file, "ent"), m->ent);
  get_floats(json_object_get(json_object_get(file, "advantages"), "group"), adv);
  for (int q = 0; q < n_seq; q++)
    for (int64_t i = m->start[q]; i < m->start[q + 1]; i++) m->adv[i] = adv[q];
}

static void test_trl(void **state) {
  json_t       *file = open_goldens();
  const json_t *cases = json_object_get(file, "cases");
  int64_t       length[MAX_SEQ];
  micro         m;

  (void)state;
  golden_micro(file, &m, length);
  assert_int_equal(json_array_size(cases), 32);
  for (size_t k = 0; k < json_array_size(cases); k++)
    check_trl_case(file, json_array_get(cases, k), &m, length);
  json_decref(file);
}

/* TRL's normalizer of a loss type in one batch. `grpo` with a ratio per sequence and `sapo` have the mean of
 * means, and `luspo` its own. */
static void check_loss_case(const json_t *file, const json_t *c, micro *m, const int64_t *length) {
  const char     *name = json_string_value(json_object_get(c, "policy_loss"));
  const tri_loss *a = tri_policy_loss_find(name);
  const json_t   *grad = json_object_get(c, "dlogp"), *clipped = json_object_get(c, "clip_ratio");
  tri_algo_opt    o = PLAIN;

  assert_non_null(a);
  o.kl_coef = number(c, "beta");
  o.clip_eps = number(c, "low");
  o.clip_eps_high = number(c, "high");
  o.dual_clip = number(c, "dual_clip");
  if (!strcmp(name, "sequence") || !strcmp(name, "sapo")) o.loss_agg_mode = TRI_SEQ_MEAN_TOKEN_MEAN;
  a->weigh(&o, (int64_t)number(file, "max_length"), length, m->in.n_seq, m->weight);
  assert_int_equal(a->compute(&o, &m->in, &m->out), TRI_OK);
  if (fabs(m->out.loss - number(c, "loss")) > 1e-13) /* both sums in f64 */
    fail_msg("%s: loss %.17g, not %.17g", name, m->out.loss, number(c, "loss"));
  if (json_is_number(clipped) && !by_sequence(a)) /* TRL's in f32, and for shared ratios their mean */
    assert_true(fabs(m->out.metric[CLIPPED].sum / m->out.metric[CLIPPED].of - number(c, "clip_ratio")) <
                1e-7);
  assert_int_equal(json_array_size(grad), m->in.n);
  for (int64_t i = 0; i < m->in.n; i++) {
    double want = json_number_value(json_array_get(grad, (size_t)i));
    if (fabs((double)m->dlogp[i] - want) > 1e-7 * fabs(want) + 1e-16) /* ours is rounded to f32 */
      fail_msg("%s: gradient of row %lld %.9g, not %.9g", name, (long long)i, (double)m->dlogp[i], want);
  }
}

static void test_policy_losses(void **state) {
  json_t       *file = open_goldens();
  const json_t *cases = json_object_get(file, "losses");
  int64_t       length[MAX_SEQ];
  micro         m;

  (void)state;
  golden_micro(file, &m, length);
  assert_int_equal(json_array_size(cases), 18);
  for (size_t k = 0; k < json_array_size(cases); k++)
    check_loss_case(file, json_array_get(cases, k), &m, length);
  json_decref(file);
}

/* One token of ratio 4. A = -1 is bounded by 3, A = 1 is not. Within the bound nothing changes. */
static void test_dual_clip(void **state) {
  static const double  ratio[] = {4, 4, 2}, adv[] = {-1, 1, -1};
  static const double  loss[] = {3, -1.2, 2}, slope[] = {0, 0, 2}, clipped[] = {1, 1, 0};
  static const int64_t one = 1;
  tri_algo_opt         o = PLAIN;
  micro                m;

  (void)state;
  o.dual_clip = 3;
  for (int k = 0; k < 3; k++) {
    micro_make(&m, &one, 1, false);
    m.weight[0] = 1;
    m.logp[0] = (float)log(ratio[k]);
    m.adv[0] = (float)adv[k];
    assert_int_equal(tri_loss_clip.compute(&o, &m.in, &m.out), TRI_OK);
    assert_true(fabs(m.out.loss - loss[k]) < 1e-6 && fabs((double)m.dlogp[0] - slope[k]) < 1e-6);
    assert_true(m.out.metric[CLIPPED].sum == clipped[k]);
  }
}

/* A token with a ratio that is not finite is named, even if the whole sequence shares the ratio. */
static void test_error_of_sequence(void **state) {
  static const int64_t length[] = {2, 3};
  micro                m;

  (void)state;
  micro_make(&m, length, 2, false);
  micro_fill(&m);
  m.weight[0] = m.weight[1] = 1;
  m.old[4] = NAN;
  assert_int_equal(tri_loss_sequence.compute(&PLAIN, &m.in, &m.out), TRI_ENUMERIC);
  expect_refusal("add_token() 2 1 -0.644531");
  tri_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_clip),      cmocka_unit_test(test_kl_and_entropy),
      cmocka_unit_test(test_kl_small),  cmocka_unit_test(test_differences),
      cmocka_unit_test(test_split),     cmocka_unit_test(test_no_rows),
      cmocka_unit_test(test_sft),       cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_trl),       cmocka_unit_test(test_policy_losses),
      cmocka_unit_test(test_dual_clip), cmocka_unit_test(test_error_of_sequence)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
