/* test_sample.c - tests the exact token of `sample`, on every back end and for every filter.
 *
 * Judge: a full sort and running sums in f64 over the weights of formula.h. If a sum may round otherwise,
 * tokens for numbers SLACK to either side are right too. If all sums are exact, only one token is right. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "kernel_case.h"

#include "device/formula.h"

/* Derived: the CPU's plain draw uses f32 sums over 2048 / 32 logits, 40 eps apart. */
static const double SLACK = 40 * 0x1p-24;

typedef struct row { /* the judge's view of a row of logits */
  int64_t V;
  float  *x;
  double *e;     /* weights */
  int    *order; /* ids by logit, largest first, lowest id first among equals */
} row;

static const float *sort_x;
static int          by_logit(const void *a, const void *c) {
           int i = *(const int *)a, j = *(const int *)c;
           return sort_x[i] > sort_x[j] ? -1 : sort_x[i] < sort_x[j] ? 1 : i < j ? -1 : i > j;
}

/* Returns the token for the uniform number u and top-p p. kept has space for V flags. */
static int judge(const row *r, const tri_sample_rule *rule, double p, double u, bool *kept) {
  int64_t n = rule->top_k > 0 && rule->top_k < r->V ? rule->top_k : r->V, n_kept = 0;
  double  mass = 0, sum = 0;
  int     last = -1;

  memset(kept, 0, (size_t)r->V);
  for (int64_t i = 0; i < n; i++) mass += r->e[r->order[i]];
  while (n_kept < n && (n_kept == 0 || rule->top_p >= 1 || sum < p * mass)) {
    sum += r->e[r->order[n_kept]];
    kept[r->order[n_kept++]] = true;
  }
  mass = sum;
  sum = 0;
  for (int i = 0; i < r->V; i++) {
    if (!kept[i] || r->e[i] <= 0) continue;
    last = i;
    sum += r->e[i];
    if (sum > u * mass) break;
  }
  return last;
}

static bool right_token(const row *r, const tri_sample_rule *rule, double u, double slack, int token) {
  bool *kept = host((size_t)r->V, sizeof *kept), found = false;

  if (rule->temperature <= 0) found = token == r->order[0];
  for (int i = 0; i < 9 && !found; i++) {
    double p = rule->top_p * (1 + slack * (i % 3 - 1)), v = u * (1 + slack * (i / 3 - 1));
    found = rule->temperature > 0 && token == judge(r, rule, p, v, kept);
  }
  free(kept);
  return found;
}

/* Makes logits of a kind, by its name. */
enum { RANDOM, STEPS, EQUAL, HALF_FORBIDDEN, ONE_LEFT, PEAK, NEGATIVE, FLAT, STEEP, N_KINDS };
static float *logits(int kind, int64_t V) {
  double *z = numbers((uint64_t)(kind * 1000 + V), V, 6);
  float  *x = host((size_t)V, sizeof *x);
  for (int64_t i = 0; i < V; i++) {
    float y = (float)z[i];
    x[i] = kind == STEPS            ? roundf(y) /* many ties */
           : kind == EQUAL          ? 2.5f
           : kind == HALF_FORBIDDEN ? i % 2 ? y : -INFINITY
           : kind == ONE_LEFT       ? i == V / 2 ? -7 : -INFINITY
           : kind == PEAK           ? i == V / 3 ? 30 : y
           : kind == NEGATIVE       ? y - 80
           : kind == FLAT           ? y * 1e-3f
           : kind == STEEP          ? y * 40
                                    : y;
  }
  if (kind == HALF_FORBIDDEN) x[V - 1] = 1;
  free(z);
  return x;
}

static const tri_sample_rule rules[] = {
    {1, 1, 0, 7},
    {.7f, 1, 0, 7},
    {0, 1, 0, 7},
    {1, 1, 1, 7},
    {1, 1, 2, 7},
    {1.3f, 1, 50, 7},
    {1, .5f, 0, 7},
    {.6f, .9f, 0, 7},
    {1, 1e-6f, 0, 7},
    {1, .9999f, 0, 7},
    {1, .9f, 20, 7},
    {.8f, .5f, 300, 7},
    {1, 0x1.fffffep-1f, 0, 7}, /* the largest below 1 */
    {1, 0x1.fffffep-1f, 3, 7},
};
enum { N_RULES = sizeof rules / sizeof rules[0] };

/* Makes B draws with keys (i, 5, -1) by one rule from the logits of one kind. */
static void check_rule(bench *b, row *r, const tri_sample_rule *rule, int64_t B, double slack,
                       const char *what) {
  int        keep = b->n_arrays;
  int64_t    V = r->V, *key = host((size_t)(3 * B), sizeof *key);
  float      inv = rule->temperature > 0 ? 1.0f / rule->temperature : 1.0f, max = -INFINITY;
  float     *all = host((size_t)(B * V), sizeof *all);
  tri_tensor x = make(b, TRI_F32, B, V), keys = make(b, TRI_I64, B, 3), work = make(b, TRI_F32, B, 2 * V);
  tri_tensor token = make(b, TRI_I32, B, 0), logp = make(b, TRI_F32, B, 0), l = make(b, TRI_F32, B, 0);
  tri_tensor e = make(b, TRI_F32, B, 0), z = make(b, TRI_F32, B, 0);
  int32_t   *id = host((size_t)B, sizeof *id);

  for (int64_t i = 0; i < V; i++) max = fmaxf(max, r->x[i] * inv);
  for (int64_t i = 0; i < V; i++) r->e[i] = (double)tri_exp(fmaf(r->x[i], inv, -max));
  for (int64_t i = 0; i < B; i++) {
    memcpy(all + i * V, r->x, (size_t)V * sizeof *all);
    key[3 * i] = i, key[3 * i + 1] = 5, key[3 * i + 2] = -1;
  }
  put_raw(b, &x, all);
  put_raw(b, &keys, key);
  ok(b->k->sample(b->stream, &token, &logp, &work, &x, &keys, rule));
  get_raw(b, &token, id);
  for (int64_t i = 0; i < B; i++) {
    assert_in_range(id[i], 0, V - 1);
    if (!right_token(r, rule, tri_rng_draw(rule->seed, key + 3 * i), slack, id[i]))
      fail_msg("%s, V %lld, temperature %g, top-k %d, top-p %.9g: draw %lld gave token %d", what,
               (long long)V, (double)rule->temperature, rule->top_k, (double)rule->top_p, (long long)i,
               id[i]);
  }
  ok(b->k->logp_fwd(b->stream, &l, &e, &z, &x, &token, inv));
  expect_same_rows(b, "sample's logp", &l, 0, &logp, 0, B);
  free(key), free(all), free(id);
  drop_arrays(b, keep);
}

/* Makes B draws by every `every`-th rule, and begins with another rule for each kind. */
static void check_kind(bench *b, int kind, int64_t V, int64_t B, int every) {
  static const char *const name[N_KINDS] = {"random", "steps",    "equal", "half forbidden", "one left",
                                            "peak",   "negative", "flat",  "steep"};
  row r = {V, logits(kind, V), host((size_t)V, sizeof *r.e), host((size_t)V, sizeof *r.order)};

  for (int i = 0; i < V; i++) r.order[i] = i;
  sort_x = r.x;
  qsort(r.order, (size_t)V, sizeof *r.order, by_logit);
  for (int i = (kind + (int)V) % every; i < N_RULES; i += every)
    check_rule(b, &r, &rules[i], B, SLACK, name[kind]);
  free(r.x), free(r.e), free(r.order);
}

/* Sizes on both sides of the GPU's switch to larger blocks (512, 8192), with rows on 16 bytes and not. */
static void run_tokens(bench *b) {
  const int            every = test_step(3); /* each rule still meets several sizes and kinds */
  static const int64_t sizes[] = {1, 2, 3, 31, 128, 509, 512, 516, 1021, 4096};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int kind = 0; kind < N_KINDS; kind++) check_kind(b, kind, sizes[i], 4, every);
  for (int kind = 0; kind < N_KINDS; kind++) check_kind(b, kind, 8209, 2, every);
  check_kind(b, RANDOM, 151936, 2, 3);
  check_kind(b, FLAT, 151936, 1, 5);
}
static void test_tokens(void **state) {
  (void)state;
  for_each_device(run_tokens);
}

/* With equal logits and powers of 2 every sum is exact on every back end, so the filters' borders are too. */
static void run_exact(bench *b) {
  static const struct {
    int   V, top_k;
    float top_p;
  } cases[] = {{4096, 0, .5f},  {4096, 0, .25f}, {4096, 1000, 1}, {4096, 4095, .5f}, {512, 511, 1},
               {512, 0, .125f}, {8, 4, .5f},     {8, 4, .75f},    {8209, 8208, .5f}, {9000, 2048, .25f}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_sample_rule rule = {1, cases[i].top_p, cases[i].top_k, 19};
    row             r = {cases[i].V, logits(EQUAL, cases[i].V), host((size_t)cases[i].V, sizeof *r.e),
                         host((size_t)cases[i].V, sizeof *r.order)};
    for (int j = 0; j < r.V; j++) r.order[j] = j;
    check_rule(b, &r, &rule, 10, 0, "equal, exact");
    free(r.x), free(r.e), free(r.order);
  }
}
static void test_exact(void **state) {
  (void)state;
  for_each_device(run_exact);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokens), cmocka_unit_test(test_exact)};
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
