/* test_logprob.c - tests logp_fwd, logp_bwd and sample of every back end.
 *
 * Judges: loops in f64, with the gradient loop judged by central differences, chi-square for draws, cases
 * worked by hand for top-k and top-p, and exact bits for rows, threads, and between sample and logp_fwd. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "kernel_case.h"

static const int64_t shapes[][2] = {{1, 1},    {3, 2}, {2, 31},  {5, 33},  {4, 2047}, {3, 2049}, {2, 5003},
                                    {9, 4096}, {0, 8}, {2, 512}, {2, 513}, {2, 8209}, {2, 8212}, {1, 151936}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* Draws of the tests of frequencies. Emulated and sanitized builds are slow, so they draw fewer. */
enum {
  SLOW = TRI_CUDA_EMULATED || TRI_SANITIZED,
  DRAWS = SLOW ? 1500 : 20000,
  LARGE_DRAWS = SLOW ? 500 : 3000
};

typedef struct logp_data {
  int64_t V;
  int32_t target;
  double *x, dlogp, dent, inv;
} logp_data; /* one row */

static void logp_loop(const logp_data *a, double *logp, double *ent, double *lse) {
  double top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < a->V; i++) top = fmax(top, a->x[i] * a->inv);
  for (int64_t i = 0; i < a->V; i++) sum += exp(a->x[i] * a->inv - top);
  *lse = top + log(sum);
  *logp = a->x[a->target] * a->inv - *lse;
  *ent = 0;
  for (int64_t i = 0; i < a->V; i++) {
    double l = a->x[i] * a->inv - *lse;
    if (l > -INFINITY) *ent -= exp(l) * l;
  }
}
static double logp_loss(const void *arguments) {
  const logp_data *a = arguments;
  double           logp, ent, lse;
  logp_loop(a, &logp, &ent, &lse);
  return a->dlogp * logp + a->dent * ent;
}
static void logp_grad(const logp_data *a, double *dx) {
  double logp, ent, lse;
  logp_loop(a, &logp, &ent, &lse);
  for (int64_t i = 0; i < a->V; i++) {
    double l = a->x[i] * a->inv - lse, p = exp(l);
    dx[i] = a->inv * (a->dlogp * ((i == a->target) - p) - (p > 0 ? a->dent * p * (l + ent) : 0));
  }
}
static void test_loop(void **state) {
  logp_data a = {7, 3, numbers(1, 7, 3), 0.7, -1.3, 0.8};
  double    dx[7];
  (void)state;
  logp_grad(&a, dx);
  for (int i = 0; i < 7; i++) assert_true(fabs(dx[i] - slope(logp_loss, &a, a.x + i)) < 1e-8);
  free(a.x);
}

static uint64_t seen[256];
static int      n_seen, at_seen;
static void     same_for_threads(bench *b, const tri_tensor *t) {
      uint64_t h = hash_of(b, t);
      if (b->device->threads == 1)
    seen[n_seen++] = h;
  else
    assert_true(seen[at_seen++] == h);
}

/* Kinds of rows. These are any numbers with one forbidden token, equal logits, and all tokens but the target
 * forbidden. */
enum { ANY, EQUAL, ONE_LEFT, N_KINDS };
static double *logits(int kind, int64_t K, int64_t V, const int32_t *target) {
  double *x = numbers(1, K * V, 14);
  for (int64_t k = 0; k < K; k++) {
    for (int64_t i = 0; i < V && kind != ANY; i++)
      x[k * V + i] = kind == EQUAL || i == target[k] ? 3.25 : -INFINITY;
    if (kind == ANY && V > 40) x[k * V + (target[k] + 3) % V] = -INFINITY;
  }
  return x;
}

/* Derived: lse is below 2^5 (logits below 16, V below 2^18), so its f32 value errs by 2^5 eps. d = x - max
 * errs by the rounding of max, 2^4 eps. Sums of one lane or thread err by 2048 / 32 + 40 eps relative, or by
 * 262144 / 1024 + 40. entropy <= 12 has the same relative error, with moments up to 12 + log. The gradient
 * gets lse's error through p <= 1. */
static void check_shape(bench *b, int kind, int64_t K, int64_t V, double inv) {
  double    *dlogp = numbers(2, K, 1), *dent = numbers(3, K, 1), error = 600 * EPS_F32;
  double    *logp = host((size_t)K, 8), *ent = host((size_t)K, 8), *lse = host((size_t)K, 8);
  double    *dx = host((size_t)(K * V), 8);
  int32_t   *target = indices(4, K, (int32_t)V);
  double    *x = logits(kind, K, V, target);
  tri_tensor d_x, d_t = put_i32(b, K, 0, target), l = make(b, TRI_F32, K, 0), e = make(b, TRI_F32, K, 0);
  tri_tensor z = make(b, TRI_F32, K, 0), dl, de, g = make(b, TRI_F32, K, V), g16 = make(b, TRI_BF16, K, V);

  if (K > 2) dlogp[2] = dent[2] = 0;
  if (K > 3) dlogp[3] = 0;
  if (K > 4) dent[4] = 0;
  d_x = put_real(b, TRI_F32, K, V, x);
  dl = put_real(b, TRI_F32, K, 0, dlogp);
  de = put_real(b, TRI_F32, K, 0, dent);
  for (int64_t k = 0; k < K; k++) {
    logp_data a = {V, target[k], x + k * V, dlogp[k], dent[k], (double)(float)inv};
    logp_loop(&a, logp + k, ent + k, lse + k);
    logp_grad(&a, dx + k * V);
  }
  ok(b->k->logp_fwd(b->stream, &l, &e, &z, &d_x, &d_t, (float)inv));
  expect_near(b, "logp", &l, logp, EPS_F32, error);
  expect_near(b, "entropy", &e, ent, EPS_F32, 20 * error);
  expect_near(b, "lse", &z, lse, EPS_F32, error);
  ok(b->k->logp_bwd(b->stream, &g, &d_x, &d_t, &z, &e, &dl, &de, (float)inv));
  expect_near(b, "logp_bwd f32", &g, dx, EPS_F32, 40 * error);
  ok(b->k->logp_bwd(b->stream, &g16, &d_x, &d_t, &z, &e, &dl, &de, (float)inv));
  expect_near(b, "logp_bwd bf16", &g16, dx, EPS_BF16, 40 * error);
  g16 = make(b, TRI_F16, K, V);
  ok(b->k->logp_bwd(b->stream, &g16, &d_x, &d_t, &z, &e, &dl, &de, (float)inv));
  expect_near(b, "logp_bwd with another type", &g16, dx, half_unit(TRI_F16), 40 * error);
  for (int64_t k = 0; k < K; k++) { /* each row alone */
    int        keep = b->n_arrays;
    tri_tensor x1 = tri_rows(&d_x, k, 1), t1 = tri_rows(&d_t, k, 1), l1 = make(b, TRI_F32, 1, 0);
    tri_tensor e1 = make(b, TRI_F32, 1, 0), z1 = make(b, TRI_F32, 1, 0), g1 = make(b, TRI_F32, 1, V);
    tri_tensor dl1 = tri_rows(&dl, k, 1), de1 = tri_rows(&de, k, 1);
    ok(b->k->logp_fwd(b->stream, &l1, &e1, &z1, &x1, &t1, (float)inv));
    ok(b->k->logp_bwd(b->stream, &g1, &x1, &t1, &z1, &e1, &dl1, &de1, (float)inv));
    expect_same_rows(b, "logp of one row", &l, k, &l1, 0, 1);
    expect_same_rows(b, "entropy of one row", &e, k, &e1, 0, 1);
    expect_same_rows(b, "lse of one row", &z, k, &z1, 0, 1);
    expect_same_rows(b, "logp_bwd of one row", &g, k, &g1, 0, 1);
    drop_arrays(b, keep);
  }
  same_for_threads(b, &l), same_for_threads(b, &e), same_for_threads(b, &g);
  free(x), free(dlogp), free(dent), free(logp), free(ent), free(lse), free(dx), free(target);
  drop_arrays(b, 0);
}
static void run_logp(bench *b) {
  if (b->device->threads == 1) n_seen = 0;
  at_seen = 0;
  for (int i = 0; i < N_SHAPES; i++) {
    check_shape(b, ANY, shapes[i][0], shapes[i][1], 1);
    check_shape(b, ANY, shapes[i][0], shapes[i][1], 1 / 0.7);
  }
  for (int kind = EQUAL; kind < N_KINDS; kind++) {
    check_shape(b, kind, 3, 31, 1);
    check_shape(b, kind, 2, 5003, 1 / 0.7);
    check_shape(b, kind, 2, 8209, 1);
  }
}
/* NaN or infinity in a row shows in all three numbers of this row and in no other row. */
static void run_not_numbers(bench *b) {
  static const int64_t sizes[] = {70, 2048, 8209};
  for (int i = 0; i < 6; i++) {
    int64_t    V = sizes[i / 2];
    double    *x = numbers(3, 3 * V, 5);
    int32_t   *target = indices(4, 3, (int32_t)V);
    tri_tensor d_x, t = put_i32(b, 3, 0, target), out[3];
    x[V + 66] = i % 2 ? NAN : INFINITY;
    d_x = put_real(b, TRI_F32, 3, V, x);
    for (int j = 0; j < 3; j++) out[j] = make(b, TRI_F32, 3, 0);
    ok(b->k->logp_fwd(b->stream, &out[0], &out[1], &out[2], &d_x, &t, 0.9f));
    for (int j = 0; j < 3; j++) {
      double *y = get_real(b, &out[j]);
      assert_true(isfinite(y[0]) && !isfinite(y[1]) && isfinite(y[2]));
      free(y);
    }
    free(x), free(target);
    drop_arrays(b, 0);
  }
}
static void test_not_numbers(void **state) {
  (void)state;
  for_each_device(run_not_numbers);
}
static void test_logp(void **state) {
  (void)state;
  for_each_device(run_logp);
}

typedef struct draw { /* device arrays of B draws from V logits */
  tri_tensor x, key, work, token, logp;
} draw;

/* B rows with the same logits x [V]. Row b has key (b + first, 1, 2). */
static draw set_up(bench *b, int64_t B, int64_t V, const double *x, int64_t first) {
  draw     d;
  double  *all = host((size_t)(B * V), sizeof *all);
  int64_t *key = host((size_t)(3 * B), sizeof *key);
  for (int64_t i = 0; i < B; i++) {
    memcpy(all + i * V, x, (size_t)V * sizeof *x);
    key[3 * i] = i + first, key[3 * i + 1] = 1, key[3 * i + 2] = 2;
  }
  d.x = put_real(b, TRI_F32, B, V, all);
  d.key = make(b, TRI_I64, B, 3);
  put_raw(b, &d.key, key);
  d.work = make(b, TRI_F32, B, 2 * V);
  d.token = make(b, TRI_I32, B, 0);
  d.logp = make(b, TRI_F32, B, 0);
  free(all), free(key);
  return d;
}
static int32_t *tokens(bench *b, draw *d, const tri_sample_rule *rule) {
  int32_t *id = host((size_t)d->token.dim[0], sizeof *id);
  ok(b->k->sample(b->stream, &d->token, &d->logp, &d->work, &d->x, &d->key, rule));
  get_raw(b, &d->token, id);
  return id;
}

/* Compares draws with probabilities p. chi-square must be below its 0.9999 quantile for the number of kinds,
 * and tokens with p = 0 may not occur. The seed is fixed, so the result does not vary. quantile comes from
 * tables, by degrees of freedom. */
static void expect_draws(const char *what, const int32_t *id, int64_t B, const double *p, int V) {
  static const double quantile[8] = {0, 15.14, 18.42, 21.11, 23.51, 25.74, 27.86, 29.88};
  double              chi = 0;
  int                 kinds = 0, count[8] = {0};
  for (int64_t i = 0; i < B; i++) {
    assert_in_range(id[i], 0, V - 1);
    count[id[i]]++;
  }
  for (int v = 0; v < V; v++) {
    double want = p[v] * (double)B;
    if (p[v] > 0) {
      kinds++;
      chi += (count[v] - want) * (count[v] - want) / want;
    } else if (count[v] > 0) {
      fail_msg("%s: token %d has probability 0 but was drawn %d times", what, v, count[v]);
    }
  }
  if (!(chi <= quantile[kinds - 1])) fail_msg("%s: chi-square %.2f with %d kinds", what, chi, kinds);
}

typedef struct filter_case {
  const char *what;
  double      p[5]; /* probabilities of the logits log(p) at temperature 1 */
  float       temperature, top_p;
  int         top_k;
  double      want[5]; /* after the filters */
} filter_case;

static const filter_case filters[] = {
    {"plain", {.1, .4, .2, .05, .25}, 1, 1, 0, {.1, .4, .2, .05, .25}},
    {"forbidden token", {.5, 0, .25, .25, 0}, 1, 1, 0, {.5, 0, .25, .25, 0}},
    {"temperature 1/2 squares",
     {.1, .4, .2, .05, .25},
     .5f,
     1,
     0,
     {1 / 27.5, 16 / 27.5, 4 / 27.5, .25 / 27.5, 6.25 / 27.5}},
    {"top-k 2", {.1, .4, .2, .05, .25}, 1, 1, 2, {0, .4 / .65, 0, 0, .25 / .65}},
    {"top-k 1", {.1, .4, .2, .05, .25}, 1.3f, 1, 1, {0, 1, 0, 0, 0}},
    {"top-k more than V", {.1, .4, .2, .05, .25}, 1, 1, 9, {.1, .4, .2, .05, .25}},
    {"top-k, tie at the cut: lowest id", {.2, .3, .2, .1, .2}, 1, 1, 3, {.2 / .7, .3 / .7, .2 / .7, 0, 0}},
    {"top-p .6: crossing token kept", {.1, .4, .2, .05, .25}, 1, .6f, 0, {0, .4 / .65, 0, 0, .25 / .65}},
    {"top-p .7: third kept", {.1, .4, .2, .05, .25}, 1, .7f, 0, {0, .4 / .85, .2 / .85, 0, .25 / .85}},
    {"top-p tiny: the largest alone", {.1, .4, .2, .05, .25}, 1, 1e-6f, 0, {0, 1, 0, 0, 0}},
    {"top-p, tie at the cut: lowest id", {.25, .25, .25, .125, .125}, 1, .4f, 0, {.5, .5, 0, 0, 0}},
    {"top-p after top-k", {.1, .4, .2, .05, .25}, 1, .6f, 2, {0, 1, 0, 0, 0}},
    {"temperature before top-p", {.1, .4, .2, .05, .25}, .5f, .57f, 0, {0, 1, 0, 0, 0}},
    {"greedy", {.1, .4, .2, .05, .25}, 0, .5f, 0, {0, 1, 0, 0, 0}},
    {"greedy tie: lowest id", {.1, .3, .3, .3, 0}, 0, 1, 0, {0, 1, 0, 0, 0}},
};

static void run_filters(bench *b) {
  enum { B = DRAWS, V = 5 };
  for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
    const filter_case *f = &filters[i];
    tri_sample_rule    rule = {f->temperature, f->top_p, f->top_k, 11};
    double             x[V];
    draw               d;
    int32_t           *id;
    for (int v = 0; v < V; v++) x[v] = log(f->p[v]);
    d = set_up(b, B, V, x, 0);
    id = tokens(b, &d, &rule);
    expect_draws(f->what, id, B, f->want, V);
    free(id);
    drop_arrays(b, 0);
  }
}
static void test_filters(void **state) {
  (void)state;
  for_each_device(run_filters);
}

/* Compares the filters on a large vocabulary with a full sort. Every draw must lie in the kept set, whose
 * size the sort gives. With many draws, the rarest kept tokens occur too. */
static int by_size(const void *a, const void *c) {
  double x = ((const double *)a)[0], y = ((const double *)c)[0], i = ((const double *)a)[1],
         j = ((const double *)c)[1];
  return x > y ? -1 : x < y ? 1 : i < j ? -1 : i > j;
}
static void run_large_filters(bench *b) {
  enum { B = LARGE_DRAWS, V = 5003 };
  static const struct {
    float top_p;
    int   top_k;
  } rule_of[] = {{1, 7}, {.5f, 0}, {.9f, 20}};
  double *x = numbers(9, V, 6), (*sorted)[2] = host(V, sizeof *sorted);
  for (int v = 0; v < V; v++) x[v] = round(x[v] * 4) / 4; /* many ties */
  for (size_t i = 0; i < sizeof rule_of / sizeof rule_of[0]; i++) {
    tri_sample_rule rule = {1, rule_of[i].top_p, rule_of[i].top_k, 5};
    draw            d = set_up(b, B, V, x, 0);
    int32_t        *id = tokens(b, &d, &rule);
    int             n_kept = 0, n = rule.top_k > 0 ? rule.top_k : V;
    double          total = 0, mass = 0;
    bool           *kept = host(V, sizeof *kept);
    for (int v = 0; v < V; v++) sorted[v][0] = x[v], sorted[v][1] = v;
    qsort(sorted, V, sizeof *sorted, by_size);
    for (int v = 0; v < n; v++) total += exp(sorted[v][0]);
    while (n_kept < n && (n_kept == 0 || mass < rule.top_p * total)) {
      mass += exp(sorted[n_kept][0]);
      kept[(int)sorted[n_kept++][1]] = true;
    }
    for (int j = 0; j < B; j++) assert_true(kept[id[j]]);
    /* every kept token is drawn; the odds of missing one of 30 nearly equal tokens are below 1e-5 */
    if (n_kept < 30)
      for (int j = 0; j < n_kept; j++) {
        bool found = false;
        for (int m = 0; m < B; m++) found |= id[m] == (int)sorted[j][1];
        assert_true(found);
      }
    free(id), free(kept);
    drop_arrays(b, 0);
  }
  free(x), free(sorted);
}
static void test_large_filters(void **state) {
  (void)state;
  for_each_device(run_large_filters);
}

/* The draw is a function of (seed, key) alone, and each part of the key matters. The log-probability is
 * logp_fwd's. */
static void run_keys(bench *b) {
  enum { B = 64, V = 4099 };
  static const tri_sample_rule rules[] = {{1, 1, 0, 3}, {.7f, 1, 0, 3}, {.7f, .8f, 50, 3}, {0, 1, 0, 3}};
  double                      *x = numbers(21, V, 2);
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    tri_sample_rule rule = rules[i];
    draw            d = set_up(b, B, V, x, 0), late = set_up(b, B / 2, V, x, B / 2);
    int32_t        *all = tokens(b, &d, &rule), *half = tokens(b, &late, &rule), *again;
    tri_tensor      l = make(b, TRI_F32, B, 0), e = make(b, TRI_F32, B, 0), z = make(b, TRI_F32, B, 0);
    float           inv = rule.temperature > 0 ? 1.0f / rule.temperature : 1.0f;
    assert_memory_equal(all + B / 2, half, B / 2 * sizeof *all);
    ok(b->k->logp_fwd(b->stream, &l, &e, &z, &d.x, &d.token, inv));
    expect_same_rows(b, "sample's logp", &l, 0, &d.logp, 0, B);
    expect_same_rows(b, "sample's logp in other company", &d.logp, B / 2, &late.logp, 0, B / 2);
    same_for_threads(b, &d.token);
    rule.seed = 4;
    again = tokens(b, &d, &rule);
    if (rule.temperature > 0) assert_memory_not_equal(all, again, B * sizeof *all);
    free(all), free(half), free(again);
    drop_arrays(b, 0);
  }
  free(x);
}
static void test_keys(void **state) {
  (void)state;
  n_seen = at_seen = 0;
  for_each_device(run_keys);
}

/* Prompt, answer and position each change the draw. With 4096 equal tokens two equal draws are unlikely. */
static void run_key_parts(bench *b) {
  enum { V = 4096 };
  static const int64_t key[4][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
  tri_sample_rule      rule = {1, 1, 0, 3};
  double              *x = host(V, sizeof *x);
  draw                 d = set_up(b, 4, V, x, 0);
  int32_t             *id;
  put_raw(b, &d.key, key);
  id = tokens(b, &d, &rule);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < i; j++) assert_int_not_equal(id[i], id[j]);
  free(x), free(id);
}
static void test_key_parts(void **state) {
  (void)state;
  for_each_device(run_key_parts);
}

/* NaN, all -infinity and +infinity give token 0 and NaN for their row. The other rows are unchanged. */
static void run_no_distribution(bench *b) {
  static const double          bad[3] = {NAN, -INFINITY, INFINITY};
  static const tri_sample_rule rules[] = {{1, 1, 0, 3}, {.7f, .8f, 50, 3}, {0, 1, 0, 3}};
  enum { V = 70 };
  for (int i = 0; i < 9; i++) {
    double  *x = numbers(1, 3 * V, 1);
    draw     d = set_up(b, 3, V, x, 0);
    int32_t *good, *got;
    float    good_logp[3], logp[3];
    d.x = put_real(b, TRI_F32, 3, V, x);
    good = tokens(b, &d, &rules[i / 3]);
    get_raw(b, &d.logp, good_logp);
    if (i % 3 == 1)
      for (int v = 0; v < V; v++) x[V + v] = bad[1];
    else
      x[V + 66] = bad[i % 3];
    d.x = put_real(b, TRI_F32, 3, V, x);
    got = tokens(b, &d, &rules[i / 3]);
    get_raw(b, &d.logp, logp);
    assert_true(got[1] == 0 && isnan(logp[1]));
    for (int r = 0; r < 3; r += 2)
      assert_true(got[r] == good[r] && logp[r] == good_logp[r] && isfinite(logp[r]));
    free(x), free(good), free(got);
    drop_arrays(b, 0);
  }
}
static void test_no_distribution(void **state) {
  (void)state;
  for_each_device(run_no_distribution);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loop),
      cmocka_unit_test(test_logp),
      cmocka_unit_test(test_filters),
      cmocka_unit_test(test_large_filters),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_key_parts),
      cmocka_unit_test(test_no_distribution),
      cmocka_unit_test(test_not_numbers),
  };
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
