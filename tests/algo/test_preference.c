/* test_preference.c - losses of pairs and labelled answers. Judges: numbers worked by hand in the comment
 * above each case, central differences, the loss of a whole batch against its pairs, and TRL's own trainers
 * and OpenRLHF's formulas (make_preference_golden.py). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "algo_case.h"
#include "base/error.h"
#include "base/log.h"
#include "refusal_case.h"

enum { ENTROPY = TRI_PREFERENCE_METRIC_COUNT };

/* The members of micro, and scores. */
typedef struct answers {
  micro m;
  float score[MAX_SEQ], value[MAX_SEQ], dvalue[MAX_SEQ];
} answers;

static const tri_loss *const losses[] = {&tri_loss_rm, &tri_loss_dpo, &tri_loss_kto};

/* Answers to pairs or prompts. For a reward model each has one row. */
static void answers_make(answers *a, const tri_loss *loss, const tri_algo_opt *o, const int64_t *length,
                         int n_seq) {
  int64_t one[MAX_SEQ];

  memset(a, 0, sizeof *a);
  for (int q = 0; q < n_seq; q++) one[q] = 1;
  micro_make(&a->m, loss->reads & TRI_LOSS_LAST ? one : length, n_seq, true);
  loss->weigh(o, 0, length, n_seq, a->m.weight);
  a->m.in.score = a->score;
  a->m.in.adv = a->m.in.old_logp = NULL;
  if (!(loss->reads & TRI_LOSS_VALUE)) return;
  a->m.in.value = a->value;
  a->m.in.logp = a->m.in.ent = a->m.in.ref_logp = NULL;
  a->m.out = (tri_loss_out){.dvalue = a->dvalue};
}

static tri_algo_opt options(double beta) {
  tri_algo_opt o = PLAIN;

  o.beta = beta;
  o.desirable_weight = o.undesirable_weight = 1;
  return o;
}

static double mean(const answers *a, int metric) {
  return a->m.out.metric[metric].sum / a->m.out.metric[metric].of;
}

/* ---- by hand ---- */

/* sigmoid(log 3) = 3/4, softplus(log 3) = log 4. Far out neither overflows nor becomes 0 too early. */
static void test_logistic(void **state) {
  (void)state;
  check_near("sigmoid", tri_logistic(log(3)), 0.75, 1e-15);
  check_near("sigmoid", tri_logistic(-log(3)), 0.25, 1e-15);
  check_near("softplus", tri_log_1_exp(log(3)), log(4), 1e-15);
  assert_true(tri_log_1_exp(1000) == 1000 && tri_log_1_exp(-1000) == 0 && tri_logistic(1000) == 1);
  assert_true(tri_logistic(-1000) == 0 && fabs(tri_log_1_exp(-40) / exp(-40) - 1) < 1e-15);
}

/* Scores 2 and 1 with margin 1 are 0 ahead, so log 2, slopes -+ 1/2. Scores 0 and 3 without a margin are -3
 * ahead. Each pair counts 1/2, whatever its answers' tokens. Centring 0.1 adds 0.1 9 to each, slope 0.6. */
static void test_rm(void **state) {
  static const int64_t length[] = {2, 0, 3, 1};
  tri_algo_opt         o = options(0);
  answers              a;

  (void)state;
  for (int k = 0; k < 2; k++) {
    o.centering_coef = 0.1 * k;
    answers_make(&a, &tri_loss_rm, &o, length, 4);
    memcpy(a.value, (float[]){2, 1, 0, 3}, 4 * sizeof(float));
    memcpy(a.score, (float[]){1, 99, 0, 99}, 4 * sizeof(float));
    assert_int_equal(tri_loss_rm.compute(&o, &a.m.in, &a.m.out), TRI_OK);
    check_near("loss", a.m.out.loss, (log(2) + log(1 + exp(3))) / 2 + 0.9 * k, 1e-14);
    check_near("slope", (double)a.dvalue[0], -0.25 + 0.3 * k, 1e-7);
    check_near("slope", (double)a.dvalue[1], 0.25 + 0.3 * k, 1e-7);
    check_near("slope", (double)a.dvalue[3], 0.5 / (1 + exp(-3)) + 0.3 * k, 1e-7);
    assert_true(mean(&a, TRI_ACCURACY) == 0.5 && mean(&a, TRI_MARGIN) == -1 && mean(&a, TRI_CHOSEN) == 1 &&
                mean(&a, TRI_REJECTED) == 2);
  }
  a.value[1] = 1e30f; /* far beyond exp */
  o.centering_coef = 0;
  assert_int_equal(tri_loss_rm.compute(&o, &a.m.in, &a.m.out), TRI_OK);
  check_near("loss", a.m.out.loss, (double)1e30f / 2, 1e-6);
}

/* Log-ratios are 1/2 + 1/2 for the chosen's two tokens, and -1/4 for the rejected's one. So h = 5/4, and by
 * length 1/2 + 1/4. beta is 2. ipo is off 1/4 by 1, or by 1/2 if normalized. SFT 1/2 gives - (-1 - 2) / 2
 * over both chosen tokens. */
static void test_dpo(void **state) {
  static const int64_t length[] = {2, 1};
  tri_algo_opt         o = options(2);
  answers              a;

  (void)state;
  answers_make(&a, &tri_loss_dpo, &o, length, 2);
  memcpy(a.m.logp, (float[]){-1, -2, -3}, 3 * sizeof(float));
  memcpy(a.m.ref, (float[]){-1.5f, -2.5f, -2.75f}, 3 * sizeof(float));
  memcpy(a.m.ent, (float[]){1, 2, 6}, 3 * sizeof(float));
  assert_int_equal(tri_loss_dpo.compute(&o, &a.m.in, &a.m.out), TRI_OK);
  check_near("sigmoid", a.m.out.loss, log(1 + exp(-2.5)), 1e-15);
  check_near("slope", (double)a.m.dlogp[0], -2 / (1 + exp(2.5)), 1e-7);
  assert_true(a.m.dlogp[1] == a.m.dlogp[0] && a.m.dlogp[2] == -a.m.dlogp[0] && a.m.dent[0] == 0);
  assert_true(mean(&a, TRI_ACCURACY) == 1 && mean(&a, TRI_MARGIN) == 2.5 && mean(&a, TRI_CHOSEN) == 2 &&
              mean(&a, TRI_REJECTED) == -0.5 && mean(&a, ENTROPY) == 3);
  o.dpo_loss = TRI_DPO_IPO;
  assert_int_equal(tri_loss_dpo.compute(&o, &a.m.in, &a.m.out), TRI_OK);
  assert_true(a.m.out.loss == 1 && a.m.dlogp[0] == 2 && a.m.dlogp[2] == -2);
  o.length_normalize = true;
  assert_int_equal(tri_loss_dpo.compute(&o, &a.m.in, &a.m.out), TRI_OK);
  assert_true(a.m.out.loss == 0.25 && a.m.dlogp[0] == 0.5f && a.m.dlogp[2] == -1);
  assert_true(mean(&a, TRI_MARGIN) == 2.5); /* rewards stay sums */
  o.sft_coef = 0.5;
  assert_int_equal(tri_loss_dpo.compute(&o, &a.m.in, &a.m.out), TRI_OK);
  assert_true(a.m.out.loss == 1 && a.m.dlogp[0] == 0.25f && a.m.dlogp[2] == -1);
}

/* Three pairs, one with an empty answer, count a third each, with 2 + 5 chosen tokens. */
static void test_pair_weights(void **state) {
  static const int64_t length[] = {2, 0, 0, 4, 5, 3};
  double               w[6];

  (void)state;
  tri_loss_dpo.weigh(&PLAIN, 10, length, 6, w);
  for (int q = 0; q < 6; q += 2) assert_true(w[q] == 1.0 / 3 && w[q + 1] == 1.0 / 7);
  tri_loss_rm.weigh(&PLAIN, 10, length, 6, w);
  for (int q = 0; q < 6; q++) assert_true(w[q] == 1.0 / 3);
  tri_loss_kto.weigh(&PLAIN, 10, length, 6, w);
  for (int q = 0; q < 6; q++) assert_true(w[q] == 1.0 / 6);
  tri_loss_dpo.weigh(&PLAIN, 10, (int64_t[]){0, 3}, 2, w);
  assert_true(w[0] == 1 && w[1] == 0);
}

/* beta 1, z 1/2. Desirable, weight 2, log-ratio 1/2 gives 2 (1 - 1/2) = 1, slope -2/4. Undesirable, weight 4,
 * log-ratio 1/2 - log 3 gives 4 (1 - 3/4) = 1, slope 4 3/16. Each counts 1/2. */
static void test_kto(void **state) {
  static const int64_t length[] = {1, 2};
  tri_algo_opt         o = options(1);
  answers              a;

  (void)state;
  o.desirable_weight = 2;
  o.undesirable_weight = 4;
  answers_make(&a, &tri_loss_kto, &o, length, 2);
  memcpy(a.m.logp, (float[]){-1, -1, -1}, 3 * sizeof(float));
  memcpy(a.m.ref, (float[]){-1.5f, -1.5f, (float)(log(3) - 1)}, 3 * sizeof(float));
  a.score[0] = 1;
  a.m.in.statistic = 0.5;
  assert_int_equal(tri_loss_kto.compute(&o, &a.m.in, &a.m.out), TRI_OK);
  check_near("loss", a.m.out.loss, 1, 1e-7); /* log 3 in f32 */
  check_near("slope", (double)a.m.dlogp[0], -0.25, 1e-7);
  check_near("slope", (double)a.m.dlogp[1], 0.375, 1e-6);
  assert_true(a.m.dlogp[2] == a.m.dlogp[1] && a.m.dent[0] == 0);
  assert_true(mean(&a, TRI_CHOSEN) == 0.5);
  check_near("rejected", mean(&a, TRI_REJECTED), 0.5 - log(3), 1e-7);
}

/* The step's means are compared, once, wherever its answers were counted. */
static void test_kto_settle(void **state) {
  tri_mean metric[TRI_ALGO_METRICS] = {{0}};

  (void)state;
  metric[TRI_CHOSEN] = (tri_mean){6, 3};
  metric[TRI_REJECTED] = (tri_mean){5, 2};
  tri_loss_kto.settle(metric);
  assert_true(metric[TRI_MARGIN].sum == -0.5 && metric[TRI_MARGIN].of == 1);
  assert_true(metric[TRI_ACCURACY].sum == 0 && metric[TRI_ACCURACY].of == 1);
  metric[TRI_CHOSEN].sum = 9;
  tri_loss_kto.settle(metric);
  assert_true(metric[TRI_MARGIN].sum == 0.5 && metric[TRI_ACCURACY].sum == 1);
  assert_true(metric[TRI_CHOSEN].sum == 9 && metric[TRI_REJECTED].of == 2);
  metric[TRI_REJECTED] = (tri_mean){0, 0}; /* all are desirable, so not shown */
  tri_loss_kto.settle(metric);
  assert_true(metric[TRI_MARGIN].of == 0 && metric[TRI_ACCURACY].of == 0);
}

/* Sequences 1 and 2 of three, of two tokens each, have log-ratios 1 + 1 and 1/2, -1, so mean 3/4. A mean
 * below 0 becomes 0. An unknown number gives NaN. */
static void test_kto_statistic(void **state) {
  const tri_step_statistic *s = tri_loss_kto.statistic;
  tri_rollout               r = {0};

  (void)state;
  assert_true(s->beside && !s->entropy && s->wanted(&PLAIN));
  rollout_make(&r, (float[]){0, 0, 0}, NULL, 3, 1);
  memcpy(r.seen, (float[]){9, 9, 9, 9, -1, -1, 9, -1, -2}, 9 * sizeof(float));
  memcpy(r.ref_logp, (float[]){0, 0, 0, 0, -2, -2, 0, -1.5f, -1}, 9 * sizeof(float));
  assert_true(s->number(&PLAIN, &r, 1, 3) == 0.75);
  assert_true(s->number(&PLAIN, &r, 2, 3) == 0 && s->number(&PLAIN, &r, 1, 1) == 0);
  r.seen[4] = NAN;
  assert_true(isnan(s->number(&PLAIN, &r, 1, 3)));
  tri_rollout_free(&r);
}

/* ---- peers ---- */

static void golden_answers(const json_t *file, const tri_loss *loss, const tri_algo_opt *o, answers *a) {
  float   n[MAX_TOK];
  int64_t length[MAX_SEQ];
  int     n_seq = floats_of(file, "lengths", n);

  for (int q = 0; q < n_seq; q++) length[q] = (int64_t)n[q];
  answers_make(a, loss, o, length, n_seq);
  floats_of(file, "logp", a->m.logp);
  floats_of(file, "ref", a->m.ref);
  floats_of(file, "ent", a->m.ent);
  floats_of(file, "score", a->value);
  if (loss == &tri_loss_kto) floats_of(file, "labels", a->score);
}

/* A metric of TRL's, if the case has it. */
static void check_metric(const answers *a, const json_t *c, const char *name, int metric) {
  if (json_is_number(json_object_get(c, name))) check_near(name, mean(a, metric), number(c, name), 1e-7);
}

static void check_case(const tri_loss *loss, const tri_algo_opt *o, answers *a, const json_t *c) {
  const float *grad = loss->reads & TRI_LOSS_VALUE ? a->dvalue : a->m.dlogp;

  assert_int_equal(loss->compute(o, &a->m.in, &a->m.out), TRI_OK);
  if (loss->settle) loss->settle(a->m.out.metric);
  check_near("loss", a->m.out.loss, number(c, "loss"), 1e-13);
  check_array("gradient", grad, json_object_get(c, "grad"), a->m.in.n);
  check_metric(a, c, "accuracy", TRI_ACCURACY);
  check_metric(a, c, "margin", TRI_MARGIN);
  check_metric(a, c, "chosen", TRI_CHOSEN);
  check_metric(a, c, "rejected", TRI_REJECTED);
  check_metric(a, c, "entropy", ENTROPY);
}

static void test_rm_peers(void **state) {
  json_t       *file = open_preferences();
  const json_t *cases = json_object_get(file, "rm");
  answers       a;

  (void)state;
  assert_int_equal(json_array_size(cases), 4);
  for (size_t k = 0; k < json_array_size(cases); k++) {
    const json_t *c = json_array_get(cases, k);
    tri_algo_opt  o = options(0);
    float         margin[MAX_TOK] = {0};
    o.centering_coef = number(c, "centering_coef");
    golden_answers(file, &tri_loss_rm, &o, &a);
    if (json_is_true(json_object_get(c, "margins"))) floats_of(file, "margins", margin);
    for (int q = 0; q < a.m.in.n_seq; q += 2) a.score[q] = margin[q / 2];
    check_case(&tri_loss_rm, &o, &a, c);
  }
  json_decref(file);
}

static tri_algo_opt dpo_options(const json_t *c) {
  tri_algo_opt o = options(number(c, "beta"));

  o.dpo_loss =
      strcmp(json_string_value(json_object_get(c, "dpo_loss")), "ipo") ? TRI_DPO_SIGMOID : TRI_DPO_IPO;
  o.label_smoothing = number(c, "label_smoothing");
  o.sft_coef = number(c, "sft_coef");
  o.length_normalize = json_is_true(json_object_get(c, "length_normalize"));
  return o;
}

static void test_dpo_peers(void **state) {
  json_t       *file = open_preferences();
  const json_t *cases = json_object_get(file, "dpo");
  answers       a;

  (void)state;
  assert_int_equal(json_array_size(cases), 12);
  for (size_t k = 0; k < json_array_size(cases); k++) {
    const json_t *c = json_array_get(cases, k);
    tri_algo_opt  o = dpo_options(c);
    golden_answers(file, &tri_loss_dpo, &o, &a);
    check_case(&tri_loss_dpo, &o, &a, c);
  }
  json_decref(file);
}

/* z of the goldens, from their answers beside, each behind a prompt of one token. */
static double golden_statistic(const json_t *file, const char *ref_name) {
  float       seen[MAX_TOK], ref[MAX_TOK], n[MAX_TOK];
  int64_t     length[MAX_SEQ];
  int         n_seq = floats_of(file, "lengths", n);
  tri_rollout r = {0};
  double      z;

  for (int q = 0; q < n_seq; q++) length[q] = (int64_t)n[q];
  floats_of(file, "beside", seen);
  floats_of(file, ref_name, ref);
  rollout_make(&r, n, length, n_seq, 1);
  for (int64_t q = 0, i = 0; q < n_seq; q++)
    for (int64_t at = r.start[q] + 1; at < r.start[q + 1]; at++, i++) {
      r.seen[at] = seen[i];
      r.ref_logp[at] = ref[i];
    }
  z = tri_loss_kto.statistic->number(&PLAIN, &r, 0, n_seq);
  tri_rollout_free(&r);
  return z;
}

static void test_kto_peers(void **state) {
  json_t       *file = open_preferences();
  const json_t *cases = json_object_get(file, "kto");
  answers       a;

  (void)state;
  assert_int_equal(json_array_size(cases), 8);
  for (size_t k = 0; k < json_array_size(cases); k++) {
    const json_t *c = json_array_get(cases, k);
    tri_algo_opt  o = options(number(c, "beta"));
    o.desirable_weight = number(c, "desirable_weight");
    o.undesirable_weight = number(c, "undesirable_weight");
    golden_answers(file, &tri_loss_kto, &o, &a);
    a.m.in.statistic = golden_statistic(file, json_string_value(json_object_get(c, "beside_ref")));
    check_near("z", a.m.in.statistic, number(c, "z"), 1e-13);
    check_case(&tri_loss_kto, &o, &a, c);
  }
  json_decref(file);
}

/* ---- tests that hold for every loss ---- */

static tri_algo_opt rich(bool ipo) {
  tri_algo_opt o = options(0.5);

  o.dpo_loss = ipo ? TRI_DPO_IPO : TRI_DPO_SIGMOID;
  o.length_normalize = ipo;
  o.label_smoothing = 0.2;
  o.sft_coef = 0.3;
  o.centering_coef = 0.05;
  o.desirable_weight = 1.5;
  return o;
}

static void rich_answers(const json_t *file, const tri_loss *loss, const tri_algo_opt *o, answers *a) {
  golden_answers(file, loss, o, a);
  a->m.in.statistic = loss == &tri_loss_kto ? 0.25 : 0;
  for (int q = 0; loss == &tri_loss_rm && q < a->m.in.n_seq; q++) a->score[q] = 0.25f * (float)q;
}

/* Central differences with step 2^-8. Their error is h^2 / 6 = 2.6e-6 of a third derivative below 1, and x +-
 * h is rounded to f32. */
static void test_differences(void **state) {
  json_t      *file = open_preferences();
  const double h = 1.0 / 256;
  answers      a;

  (void)state;
  for (int i = 0; i < 3; i++)
    for (int ipo = 0; ipo < 2; ipo++) {
      tri_algo_opt o = rich(ipo);
      rich_answers(file, losses[i], &o, &a);
      float *x = a.m.in.value ? a.value : a.m.logp, slope[MAX_TOK];
      assert_int_equal(losses[i]->compute(&o, &a.m.in, &a.m.out), TRI_OK);
      memcpy(slope, a.m.in.value ? a.dvalue : a.m.dlogp, (size_t)a.m.in.n * sizeof *slope);
      for (int64_t k = 0; k < a.m.in.n; k++) {
        float  was = x[k];
        double loss[2];
        for (int side = 0; side < 2; side++) {
          x[k] = was + (float)(side ? -h : h);
          assert_int_equal(losses[i]->compute(&o, &a.m.in, &a.m.out), TRI_OK);
          loss[side] = a.m.out.loss;
        }
        x[k] = was;
        if (fabs((loss[0] - loss[1]) / (2 * h) - (double)slope[k]) > 1e-5)
          fail_msg("%s, row %lld: %g, not %g", losses[i]->name, (long long)k, (double)slope[k],
                   (loss[0] - loss[1]) / (2 * h));
      }
    }
  json_decref(file);
}

/* Sequences q, q + 1 of `all`. */
static void cut(answers *part, const answers *all, const tri_loss *loss, const tri_algo_opt *o, int q) {
  int64_t at = all->m.start[q],
          length[2] = {all->m.start[q + 1] - at, all->m.start[q + 2] - all->m.start[q + 1]};
  size_t bytes;

  answers_make(part, loss, o, length, 2);
  bytes = (size_t)part->m.in.n * sizeof(float);
  memcpy(part->m.logp, all->m.logp + at, bytes);
  memcpy(part->m.ref, all->m.ref + at, bytes);
  memcpy(part->m.ent, all->m.ent + at, bytes);
  memcpy(part->value, all->value + q, 2 * sizeof(float));
  memcpy(part->score, all->score + q, 2 * sizeof(float));
  memcpy(part->m.weight, all->m.weight + q, 2 * sizeof(double));
  part->m.in.statistic = all->m.in.statistic;
}

/* Pair by pair the same bits of gradient, and the same sums. */
static void test_split(void **state) {
  json_t *file = open_preferences();
  answers all, part;

  (void)state;
  for (int i = 0; i < 3; i++) {
    const tri_loss *loss = losses[i];
    tri_algo_opt    o = rich(false);
    double          sum[TRI_ALGO_METRICS] = {0}, of[TRI_ALGO_METRICS] = {0}, whole = 0;
    rich_answers(file, loss, &o, &all);
    assert_int_equal(loss->compute(&o, &all.m.in, &all.m.out), TRI_OK);
    for (int q = 0; q < all.m.in.n_seq; q += 2) {
      int64_t at = all.m.start[q];
      cut(&part, &all, loss, &o, q);
      assert_int_equal(loss->compute(&o, &part.m.in, &part.m.out), TRI_OK);
      assert_memory_equal(part.m.dlogp, all.m.dlogp + at, (size_t)part.m.in.n * sizeof(float));
      assert_memory_equal(part.dvalue, all.dvalue + q, 2 * sizeof(float));
      whole += part.m.out.loss;
      for (int k = 0; loss->metric[k]; k++) {
        sum[k] += part.m.out.metric[k].sum;
        of[k] += part.m.out.metric[k].of;
      }
    }
    check_near("loss", whole, all.m.out.loss, 1e-14);
    for (int k = 0; loss->metric[k]; k++)
      assert_true(fabs(sum[k] - all.m.out.metric[k].sum) < 1e-12 && of[k] == all.m.out.metric[k].of);
  }
  json_decref(file);
}

/* A rank without work. For a pair of empty answers h is 0 and the loss log 2, and both count in the
 * metrics. */
static void test_no_rows(void **state) {
  static const int64_t start[3];
  tri_algo_opt         o = options(1);
  answers              a;

  (void)state;
  for (int i = 0; i < 3; i++) {
    tri_loss_in  in = {.start = start};
    tri_loss_out out = {.loss = 9};
    for (int k = 0; k < TRI_ALGO_METRICS; k++) out.metric[k] = (tri_mean){9, 9};
    assert_int_equal(losses[i]->compute(&o, &in, &out), TRI_OK);
    assert_true(out.loss == 0);
    for (int k = 0; losses[i]->metric[k]; k++) assert_true(out.metric[k].sum == 0 && out.metric[k].of == 0);
  }
  for (int i = 1; i < 3; i++) {
    o.length_normalize = true;
    answers_make(&a, losses[i], &o, (int64_t[]){0, 0}, 2);
    a.score[0] = 1;
    assert_int_equal(losses[i]->compute(&o, &a.m.in, &a.m.out), TRI_OK);
    check_near("loss", a.m.out.loss, i == 1 ? log(2) : 0.5, 1e-15);
    assert_true(mean(&a, TRI_CHOSEN) == 0 && a.m.out.metric[ENTROPY].of == 0);
  }
}

static void check_error(const tri_loss *loss, const tri_algo_opt *o, answers *a, const char *named) {
  assert_int_equal(loss->compute(o, &a->m.in, &a->m.out), TRI_ENUMERIC);
  expect_refusal(named);
  tri_error_clear();
}

static void test_not_finite(void **state) {
  static const int64_t length[] = {1, 2, 2, 3};
  static const float   bad[] = {NAN, INFINITY, -INFINITY};
  tri_algo_opt         o = options(1);
  answers              a;

  (void)state;
  for (int k = 0; k < 3; k++) {
    for (int i = 1; i < 3; i++)
      for (int array = 0; array < 3; array++) {
        answers_make(&a, losses[i], &o, length, 4);
        (array == 0 ? a.m.logp : array == 1 ? a.m.ref : a.m.ent)[6] = bad[k];
        check_error(losses[i], &o, &a, "tri_answer_log_ratio() 1 3 0");
      }
    for (int array = 0; array < 2; array++)
      for (int q = 2; q < 4; q++) {
        if (array && q == 3) continue; /* the margin stands with the chosen one */
        answers_make(&a, &tri_loss_rm, &o, length, 4);
        (array ? a.score : a.value)[q] = bad[k];
        check_error(&tri_loss_rm, &o, &a, "add_pair() 2 3 0");
      }
    answers_make(&a, &tri_loss_kto, &o, length, 4);
    a.m.in.statistic = (double)bad[k];
    check_error(&tri_loss_kto, &o, &a, "add_answer() 0 train.learning_rate");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_logistic),      cmocka_unit_test(test_rm),
      cmocka_unit_test(test_dpo),           cmocka_unit_test(test_pair_weights),
      cmocka_unit_test(test_kto),           cmocka_unit_test(test_kto_settle),
      cmocka_unit_test(test_kto_statistic), cmocka_unit_test(test_rm_peers),
      cmocka_unit_test(test_dpo_peers),     cmocka_unit_test(test_kto_peers),
      cmocka_unit_test(test_differences),   cmocka_unit_test(test_split),
      cmocka_unit_test(test_no_rows),       cmocka_unit_test(test_not_finite)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
