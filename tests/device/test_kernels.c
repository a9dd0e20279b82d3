/* test_kernels.c - embedding, RMSNorm, rope, SwiGLU, sums, rows and flat arrays of every back end.
 * Judges: loops in f64, gradient loops themselves judged by central differences; exact bits for rows and
 * threads. */
#include "filter_case.h"
#include "kernel_case.h"

/* Rows and columns: 1, primes, multiples of the vector widths and their neighbours; the last ones are
 * large enough for two threads. */
static const int64_t shapes[][2] = {{1, 1},  {3, 7},   {2, 31},    {5, 32},   {33, 33},
                                    {4, 64}, {1, 257}, {37, 1031}, {201, 35}, {0, 8}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static uint64_t seen[1024]; /* hashes of the run with one thread */
static int      n_seen, at_seen;

/* The bits of two threads are those of one. Every case calls this equally often. */
static void same_for_threads(bench *b, const tri_tensor *t) {
  uint64_t h = hash_of(b, t);
  if (b->device->threads == 1) {
    assert_true(n_seen < (int)(sizeof seen / sizeof seen[0]));
    seen[n_seen++] = h;
  } else if (seen[at_seen++] != h) {
    fail_msg("two threads give other bits than one (array %d of the case)", at_seen - 1);
  }
}

static void (*current)(bench *, tri_dtype, int64_t, int64_t);
static void run_shapes(bench *b) {
  if (b->device->threads == 1) n_seen = 0;
  at_seen = 0;
  for (int t = TRI_F32; t <= TRI_BF16; t++)
    for (int i = 0; i < N_SHAPES; i++) {
      current(b, (tri_dtype)t, shapes[i][0], shapes[i][1]);
      drop_arrays(b, 0);
    }
}
static void all_shapes(void (*run)(bench *, tri_dtype, int64_t, int64_t)) {
  current = run;
  for_each_device(run_shapes);
}

static double half_unit(tri_dtype t) { return t == TRI_BF16 ? EPS_BF16 : EPS_F32; }

/* Embedding: forward copies; backward sums what a token got, N terms at most. */
static void embed(bench *b, tri_dtype type, int64_t N, int64_t C) {
  enum { V = 13 };
  double    *table = numbers(1, V * C, 1), *dx = numbers(2, N * C, 1), *dtable = numbers(3, V * C, 1);
  int32_t   *id = indices(4, N, V);
  double    *want = host((size_t)(N * C), sizeof *want);
  tri_tensor d_table = put_real(b, type, V, C, table), d_id = put_i32(b, N, 0, id),
             x = make(b, TRI_F32, N, C);
  tri_tensor d_dx = put_real(b, TRI_F32, N, C, dx), d_dtable = put_real(b, TRI_F32, V, C, dtable);

  for (int64_t n = 0; n < N; n++)
    for (int64_t c = 0; c < C; c++) {
      want[n * C + c] = table[id[n] * C + c];
      dtable[id[n] * C + c] += dx[n * C + c];
    }
  ok(b->k->embed_fwd(b->stream, &x, &d_table, &d_id));
  expect_near(b, "embed_fwd", &x, want, 0, 0);
  ok(b->k->embed_bwd(b->stream, &d_dtable, &d_dx, &d_id));
  expect_near(b, "embed_bwd", &d_dtable, dtable, 0, (double)((N + 1) * (N + 1)) * EPS_F32);
  same_for_threads(b, &d_dtable);
  free(table), free(dx), free(dtable), free(id), free(want);
}
static void test_embed(void **state) {
  (void)state;
  all_shapes(embed);
}

typedef struct norm_data {
  int64_t N, C;
  double *x, *w, *dy;
} norm_data;
static const double norm_eps = 1e-5f;

static double norm_rstd(const norm_data *a, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < a->C; c++) sum += a->x[n * a->C + c] * a->x[n * a->C + c];
  return 1 / sqrt(sum / (double)a->C + norm_eps);
}
static double norm_loss(const void *arguments) {
  const norm_data *a = arguments;
  double           loss = 0;
  for (int64_t n = 0; n < a->N; n++)
    for (int64_t c = 0; c < a->C; c++)
      loss += a->dy[n * a->C + c] * a->x[n * a->C + c] * norm_rstd(a, n) * a->w[c];
  return loss;
}
static void norm_grad(const norm_data *a, double *dx, double *dw) { /* added */
  for (int64_t n = 0; n < a->N; n++) {
    const double *x = a->x + n * a->C, *dy = a->dy + n * a->C;
    double        r = norm_rstd(a, n), dot = 0;
    for (int64_t c = 0; c < a->C; c++) dot += x[c] * dy[c] * a->w[c];
    for (int64_t c = 0; c < a->C; c++) {
      dx[n * a->C + c] += r * (a->w[c] * dy[c] - x[c] * r * r * dot / (double)a->C);
      dw[c] += dy[c] * x[c] * r;
    }
  }
}

/* Derived: a mean of squares of positive terms errs by (C / lanes + 8) eps relative, at most C / 32 + 8;
 * |x|, |w|, |dy| <= 2, 1, 1 and the normalised row has entries of at most sqrt(C), its sums with dy at
 * most C. */
static void rmsnorm(bench *b, tri_dtype type, int64_t N, int64_t C) {
  norm_data  a = {N, C, numbers(1, N * C, 2), numbers(2, C, 1), numbers(3, N * C, 1)};
  double    *y = host((size_t)(N * C), sizeof *y), *rstd = host((size_t)N, sizeof *rstd);
  double    *dx = numbers(4, N * C, 1), *dw = numbers(5, C, 1), error = ((double)C / 32 + 16) * EPS_F32;
  tri_tensor d_x = put_real(b, TRI_F32, N, C, a.x), d_w = put_real(b, type, C, 0, a.w);
  tri_tensor d_dy = put_real(b, type, N, C, a.dy), d_y = make(b, type, N, C), d_r = make(b, TRI_F32, N, 0);
  tri_tensor d_dx = put_real(b, TRI_F32, N, C, dx), d_dw = put_real(b, TRI_F32, C, 0, dw);

  for (int64_t n = 0; n < N; n++) {
    rstd[n] = norm_rstd(&a, n);
    for (int64_t c = 0; c < C; c++) y[n * C + c] = a.x[n * C + c] * rstd[n] * a.w[c];
  }
  ok(b->k->rmsnorm_fwd(b->stream, &d_y, &d_r, &d_x, &d_w, (float)norm_eps));
  expect_near(b, "rmsnorm_fwd y", &d_y, y, half_unit(type) + error, 1e-30);
  expect_near(b, "rmsnorm_fwd rstd", &d_r, rstd, error, 0);
  for (int64_t n = 0; n < N; n += 1 + N / 3) { /* a row alone */
    int        keep = b->n_arrays;
    tri_tensor x1 = tri_rows(&d_x, n, 1), y1 = make(b, type, 1, C), r1 = make(b, TRI_F32, 1, 0);
    ok(b->k->rmsnorm_fwd(b->stream, &y1, &r1, &x1, &d_w, (float)norm_eps));
    expect_same_rows(b, "rmsnorm_fwd of one row", &d_y, n, &y1, 0, 1);
    expect_same_rows(b, "rstd of one row", &d_r, n, &r1, 0, 1);
    drop_arrays(b, keep);
  }
  norm_grad(&a, dx, dw);
  {
    tri_tensor x1 = tri_rows(&d_x, N / 2, N > 0), dy1 = tri_rows(&d_dy, N / 2, N > 0),
               r1 = tri_rows(&d_r, N / 2, N > 0);
    tri_tensor dx1 = make(b, TRI_F32, N > 0, C), dw1 = make(b, TRI_F32, C, 0),
               one = tri_rows(&d_dx, N / 2, N > 0);
    if (N > 0) ok(b->device->ops->copy(b->stream, dx1.data, one.data, bytes_of(&dx1)));
    ok(b->k->rmsnorm_bwd(b->stream, &d_dx, &d_dw, &d_dy, &d_x, &d_w, &d_r));
    ok(b->k->rmsnorm_bwd(b->stream, &dx1, &dw1, &dy1, &x1, &d_w, &r1));
    expect_same_rows(b, "rmsnorm_bwd of one row", &d_dx, N / 2, &dx1, 0, N > 0);
  }
  expect_near(b, "rmsnorm_bwd dx", &d_dx, dx, EPS_F32, 200 * sqrt((double)C) * error);
  expect_near(b, "rmsnorm_bwd dw", &d_dw, dw, EPS_F32,
              (double)N * sqrt((double)C) * (error + (double)N * EPS_F32));
  same_for_threads(b, &d_y), same_for_threads(b, &d_dx), same_for_threads(b, &d_dw);
  free(a.x), free(a.w), free(a.dy), free(y), free(rstd), free(dx), free(dw);
}
static void test_rmsnorm(void **state) {
  (void)state;
  all_shapes(rmsnorm);
}
static void test_rmsnorm_loop(void **state) {
  norm_data a = {3, 5, numbers(1, 15, 2), numbers(2, 5, 1), numbers(3, 15, 1)};
  double    dx[15] = {0}, dw[5] = {0};
  (void)state;
  norm_grad(&a, dx, dw);
  for (int i = 0; i < 15; i++) assert_true(fabs(dx[i] - slope(norm_loss, &a, a.x + i)) < 1e-8);
  for (int i = 0; i < 5; i++) assert_true(fabs(dw[i] - slope(norm_loss, &a, a.w + i)) < 1e-8);
  free(a.x), free(a.w), free(a.dy);
}

/* Three products and roundings of numbers <= 2. The gradient's turn undoes the turn. C stands for the
 * head's half. */
static void rope(bench *b, tri_dtype type, int64_t N, int64_t half) {
  enum { H = 3, G = 1, POSITIONS = 50 };
  int64_t    D = 2 * half, E = (H + 2 * G) * D;
  tri_heads  h = {H, G, (int)D};
  double    *x = numbers(1, N * E, 1), *angle = numbers(2, POSITIONS * half, 3), *table, *want;
  int32_t   *pos = indices(3, N, POSITIONS);
  double     step = half_unit(type);
  tri_tensor qkv = put_real(b, type, N, E, x), d_pos = put_i32(b, N, 0, pos), d_table;

  table = host((size_t)(POSITIONS * D), sizeof *table);
  want = host((size_t)(N * E), sizeof *want);
  for (int p = 0; p < POSITIONS; p++)
    for (int64_t j = 0; j < half; j++) {
      table[p * D + j] = cos(angle[p * half + j]);
      table[p * D + half + j] = sin(angle[p * half + j]);
    }
  d_table = put_real(b, TRI_F32, POSITIONS, D, table);
  memcpy(want, x, (size_t)(N * E) * sizeof *want);
  for (int64_t n = 0; n < N; n++)
    for (int64_t i = 0; i < (H + G) * D; i++) {
      int64_t at = n * E + i, j = i % D;
      double  cosine = table[pos[n] * D + j % half], sine = table[pos[n] * D + half + j % half];
      want[at] = j < half ? x[at] * cosine - x[at + half] * sine : x[at] * cosine + x[at - half] * sine;
    }
  ok(b->k->rope(b->stream, &qkv, &d_pos, &d_table, &h, 1));
  expect_near(b, "rope", &qkv, want, step, 4 * EPS_F32);
  same_for_threads(b, &qkv);
  for (int64_t n = 0; n < N; n += 1 + N / 3) {
    double    *row = host((size_t)E, sizeof *row);
    tri_tensor one, p1 = tri_rows(&d_pos, n, 1);
    memcpy(row, x + n * E, (size_t)E * sizeof *row);
    one = put_real(b, type, 1, E, row);
    ok(b->k->rope(b->stream, &one, &p1, &d_table, &h, 1));
    expect_same_rows(b, "rope of one row", &qkv, n, &one, 0, 1);
    free(row);
  }
  ok(b->k->rope(b->stream, &qkv, &d_pos, &d_table, &h, -1));
  expect_near(b, "rope and back", &qkv, x, step, 3 * step + 8 * EPS_F32);
  free(x), free(angle), free(table), free(want), free(pos);
}
static void test_rope(void **state) {
  (void)state;
  all_shapes(rope);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double swiglu_loss(const void *arguments) { /* [0] g, [1] u */
  const double *gu = arguments;
  return gu[0] * sigmoid(gu[0]) * gu[1];
}
static void swiglu_grad(const double *gu, double dy, double *dg, double *du) {
  double s = sigmoid(gu[0]);
  *dg = dy * gu[1] * s * (1 + gu[0] * (1 - s));
  *du = dy * gu[0] * s;
}
static void test_swiglu_loop(void **state) {
  (void)state;
  for (int i = 0; i < 40; i++) {
    double gu[2] = {-6 + 0.3 * i, 1.5 - 0.1 * i}, dg, du;
    swiglu_grad(gu, 1, &dg, &du);
    assert_true(fabs(dg - slope(swiglu_loss, gu, gu)) < 1e-8 &&
                fabs(du - slope(swiglu_loss, gu, gu + 1)) < 1e-8);
  }
}

/* exp to about 2 eps, then some ten roundings; 1 - s cancels near s = 1, where its error is eps absolute
 * times g <= 12. */
static void swiglu(bench *b, tri_dtype type, int64_t N, int64_t F) {
  double    *gu = numbers(1, N * 2 * F, 12), *dy = numbers(2, N * F, 1), step = half_unit(type);
  double    *y = host((size_t)(N * F), sizeof *y), *dgu = host((size_t)(N * 2 * F), sizeof *dgu);
  tri_tensor d_gu = put_real(b, type, N, 2 * F, gu), d_dy = put_real(b, type, N, F, dy),
             d_y = make(b, type, N, F);
  tri_tensor d_dgu = make(b, type, N, 2 * F), again = make(b, type, N, F), dgu2 = make(b, type, N, 2 * F);

  for (int64_t n = 0; n < N; n++)
    for (int64_t f = 0; f < F; f++) {
      double x[2] = {gu[n * 2 * F + f], gu[n * 2 * F + F + f]};
      y[n * F + f] = swiglu_loss(x);
      swiglu_grad(x, dy[n * F + f], dgu + n * 2 * F + f, dgu + n * 2 * F + F + f);
    }
  ok(b->k->swiglu_fwd(b->stream, &d_y, &d_gu));
  expect_near(b, "swiglu_fwd", &d_y, y, step + 16 * EPS_F32, 1e-30);
  ok(b->k->swiglu_bwd(b->stream, &d_dgu, &again, &d_dy, &d_gu));
  expect_near(b, "swiglu_bwd", &d_dgu, dgu, step + 16 * EPS_F32, 12 * 12 * 8 * EPS_F32);
  expect_same_rows(b, "swiglu_bwd's y", &d_y, 0, &again, 0, N);
  ok(b->k->swiglu_bwd(b->stream, &dgu2, NULL, &d_dy, &d_gu));
  expect_same_rows(b, "swiglu_bwd without y", &d_dgu, 0, &dgu2, 0, N);
  for (int64_t n = 0; n < N; n += 1 + N / 3) {
    tri_tensor x1 = tri_rows(&d_gu, n, 1), dy1 = tri_rows(&d_dy, n, 1), y1 = tri_rows(&again, 0, 1);
    tri_tensor g1 = tri_rows(&dgu2, 0, 1);
    ok(b->k->swiglu_fwd(b->stream, &y1, &x1));
    expect_same_rows(b, "swiglu_fwd of one row", &d_y, n, &y1, 0, 1);
    ok(b->k->swiglu_bwd(b->stream, &g1, &y1, &dy1, &x1));
    expect_same_rows(b, "swiglu_bwd of one row", &d_dgu, n, &g1, 0, 1);
  }
  same_for_threads(b, &d_y), same_for_threads(b, &d_dgu);
  free(gu), free(dy), free(y), free(dgu);
}
static void test_swiglu(void **state) {
  (void)state;
  all_shapes(swiglu);
}

static void colsum(bench *b, tri_dtype type, int64_t N, int64_t C) {
  double    *dy = numbers(1, N * C, 1), *db = numbers(2, C, 1);
  tri_tensor d_dy = put_real(b, type, N, C, dy), d_db = put_real(b, TRI_F32, C, 0, db);
  for (int64_t n = 0; n < N; n++)
    for (int64_t c = 0; c < C; c++) db[c] += dy[n * C + c];
  ok(b->k->colsum(b->stream, &d_db, &d_dy));
  expect_near(b, "colsum", &d_db, db, EPS_F32, (double)((N + 1) * (N + 1)) * EPS_F32);
  same_for_threads(b, &d_db);
  free(dy), free(db);
}
static void test_colsum(void **state) {
  (void)state;
  all_shapes(colsum);
}

/* rows_get and rows_add of every second row, backwards: exact copies, one rounding. */
static void rows(bench *b, tri_dtype type, int64_t N, int64_t C) {
  int64_t  K = (N + 1) / 2;
  double  *x = numbers(1, N * C, 1), *dy = numbers(2, K * C, 1), *want = host((size_t)(K * C), sizeof *want);
  int32_t *row = host((size_t)K, sizeof *row);
  tri_tensor d_x = put_real(b, TRI_F32, N, C, x), d_dy = put_real(b, TRI_F32, K, C, dy), d_row;
  tri_tensor y = make(b, TRI_F32, K, C);
  (void)type;
  for (int64_t k = 0; k < K; k++) {
    row[k] = (int32_t)(2 * (K - 1 - k));
    memcpy(want + k * C, x + row[k] * C, (size_t)C * sizeof *x);
  }
  d_row = put_i32(b, K, 0, row);
  ok(b->k->rows_get(b->stream, &y, &d_x, &d_row));
  expect_near(b, "rows_get", &y, want, 0, 0);
  for (int64_t k = 0; k < K; k++)
    for (int64_t c = 0; c < C; c++) x[row[k] * C + c] += dy[k * C + c];
  ok(b->k->rows_add(b->stream, &d_x, &d_dy, &d_row));
  expect_near(b, "rows_add", &d_x, x, EPS_F32, 0);
  free(x), free(dy), free(want), free(row);
}
static void test_rows(void **state) {
  (void)state;
  all_shapes(rows);
}

/* One or two roundings; b = 0 does not read y, which holds NaN. */
static void axpby(bench *b, tri_dtype type, int64_t N, int64_t C) {
  int64_t    n = N * C;
  double    *x = numbers(1, n, 1), *y = numbers(2, n, 1), *want = host((size_t)n, sizeof *want);
  tri_tensor d_x = put_real(b, TRI_F32, n, 0, x), d_y = put_real(b, TRI_F32, n, 0, y),
             fresh = make(b, TRI_F32, n, 0);
  (void)type;
  for (int64_t i = 0; i < n; i++) want[i] = 1.5 * x[i] - 0.25 * y[i];
  ok(b->k->axpby(b->stream, &d_y, 1.5f, &d_x, -0.25f));
  expect_near(b, "axpby", &d_y, want, EPS_F32, EPS_F32);
  for (int64_t i = 0; i < n; i++) want[i] = -2 * x[i];
  ok(b->k->axpby(b->stream, &fresh, -2, &d_x, 0));
  expect_near(b, "axpby onto NaN", &fresh, want, 0, 0);
  same_for_threads(b, &d_y);
  free(x), free(y), free(want);
}
static void test_axpby(void **state) {
  (void)state;
  all_shapes(axpby);
}

static void cast(bench *b, tri_dtype type, int64_t N, int64_t C) {
  int64_t    n = N * C;
  double    *x = numbers(1, n, 1e3), *want = host((size_t)n, sizeof *want);
  tri_tensor from, to = make(b, type == TRI_F32 ? TRI_BF16 : TRI_F32, n, 0), same = make(b, type, n, 0);
  if (n > 3) x[0] = INFINITY, x[1] = -0.0, x[2] = 1.00390625; /* the last: half way, to even */
  from = put_real(b, type, n, 0, x);
  for (int64_t i = 0; i < n; i++) want[i] = rounded(to.dtype, x[i]);
  ok(b->k->cast(b->stream, &to, &from));
  ok(b->k->cast(b->stream, &same, &from));
  if (n > 3) { /* infinity has no distance */
    tri_tensor tail = tri_rows(&to, 1, n - 1);
    expect_near(b, "cast", &tail, want + 1, 0, 0);
  } else {
    expect_near(b, "cast", &to, want, 0, 0);
  }
  expect_same_rows(b, "cast to the same type", &from, 0, &same, 0, n);
  same_for_threads(b, &to);
  free(x), free(want);
}
static void test_cast(void **state) {
  (void)state;
  all_shapes(cast);
}
static void run_cast_nan(bench *b) {
  double     x[1] = {NAN}, *got;
  tri_tensor from = put_real(b, TRI_F32, 1, 0, x), to = make(b, TRI_BF16, 1, 0);
  ok(b->k->cast(b->stream, &to, &from));
  got = get_real(b, &to);
  assert_true(isnan(got[0]));
  free(got);
}
static void test_cast_nan(void **state) {
  (void)state;
  for_each_device(run_cast_nan);
}

/* f64 sums: n eps64; added to what is there; the same bits for both thread counts (the static). */
static void run_sumsq(bench *b) {
  static double        first[6];
  static const int64_t sizes[6] = {0, 1, 4097, 70001, 65536, 4096 * 513 + 5};
  for (int i = 0; i < 6; i++) {
    int64_t    n = sizes[i];
    double    *x = numbers(1, n, 3), want = 0.5, sum = 0.5;
    tri_tensor d_x = put_real(b, TRI_F32, n, 0, x), d_sum = make(b, TRI_F32, 2, 0); /* 8 bytes: one f64 */
    for (int64_t j = 0; j < n; j++) want += x[j] * x[j];
    put_raw(b, &d_sum, &sum);
    ok(b->k->sumsq(b->stream, d_sum.data, &d_x));
    get_raw(b, &d_sum, &sum);
    assert_true(fabs(sum - want) <= 1e-12 * want);
    if (b->device->threads == 1)
      first[i] = sum;
    else
      assert_memory_equal(&first[i], &sum, sizeof sum);
    free(x);
    drop_arrays(b, 0);
  }
}
static void test_sumsq(void **state) {
  (void)state;
  for_each_device(run_sumsq);
}

/* Three steps against the f64 loop. m and v err by 3 eps a step, the update by some ten; |update| <= lr *
 * 10. An element's bits do not depend on its place in the array. */
static void adamw(bench *b, tri_dtype type, int64_t N, int64_t C) {
  int64_t        n = N * C;
  double        *w = numbers(1, n, 1), *m = host((size_t)n, sizeof *m), *v = host((size_t)n, sizeof *v);
  tri_adamw_rule r = {1e-2f, 0.9f, 0.95f, 1e-8f, 1e-3f, 0.5f, 0};
  tri_tensor     d_w = put_real(b, TRI_F32, n, 0, w), d_m = put_real(b, TRI_F32, n, 0, m);
  tri_tensor     d_v = put_real(b, TRI_F32, n, 0, v), tail_w, tail_m, tail_v, tail_g;
  tri_tensor     d_half = make(b, TRI_BF16, n, 0), half = make(b, TRI_BF16, n, 0);
  (void)type;
  tail_w = put_real(b, TRI_F32, n, 0, w);
  tail_m = put_real(b, TRI_F32, n, 0, m);
  tail_v = put_real(b, TRI_F32, n, 0, v);
  for (r.step = 1; r.step <= 3; r.step++) {
    double    *g = numbers((uint64_t)(10 + r.step), n, 1), t = (double)r.step;
    tri_tensor d_g = put_real(b, TRI_F32, n, 0, g);
    for (int64_t i = 0; i < n; i++) {
      double s = (double)r.scale * g[i];
      m[i] = (double)r.beta1 * m[i] + (1 - (double)r.beta1) * s;
      v[i] = (double)r.beta2 * v[i] + (1 - (double)r.beta2) * s * s;
      w[i] = w[i] * (1 - (double)r.decay) - (double)r.lr * (m[i] / (1 - pow((double)r.beta1, t))) /
                                                (sqrt(v[i] / (1 - pow((double)r.beta2, t))) + (double)r.eps);
    }
    ok(b->k->adamw(b->stream, &d_w, &d_m, &d_v, &d_half, &d_g, &r));
    for (int64_t at = 0; at < n; at += 1 + n / 2) { /* the same in pieces that start elsewhere */
      int64_t size = n - at < 1 + n / 2 ? n - at : 1 + n / 2;
      tail_g = tri_rows(&d_g, at, size);
      {
        tri_tensor pw = tri_rows(&tail_w, at, size), pm = tri_rows(&tail_m, at, size),
                   pv = tri_rows(&tail_v, at, size);
        ok(b->k->adamw(b->stream, &pw, &pm, &pv, NULL, &tail_g, &r));
      }
    }
    free(g);
  }
  expect_near(b, "adamw m", &d_m, m, 0, 12 * EPS_F32);
  expect_near(b, "adamw v", &d_v, v, 12 * EPS_F32, 1e-30);
  expect_near(b, "adamw w", &d_w, w, 4 * EPS_F32, 3 * 0.1 * 32 * EPS_F32);
  expect_same_rows(b, "adamw in pieces", &d_w, 0, &tail_w, 0, n);
  ok(b->k->cast(b->stream, &half, &d_w));
  expect_same_rows(b, "adamw's bf16", &d_half, 0, &half, 0, n);
  expect_same_rows(b, "adamw v in pieces", &d_v, 0, &tail_v, 0, n);
  same_for_threads(b, &d_w);
  free(w), free(m), free(v);
}
static void test_adamw(void **state) {
  (void)state;
  all_shapes(adamw);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_embed),  cmocka_unit_test(test_rmsnorm),  cmocka_unit_test(test_rmsnorm_loop),
      cmocka_unit_test(test_rope),   cmocka_unit_test(test_swiglu),   cmocka_unit_test(test_swiglu_loop),
      cmocka_unit_test(test_colsum), cmocka_unit_test(test_rows),     cmocka_unit_test(test_axpby),
      cmocka_unit_test(test_cast),   cmocka_unit_test(test_cast_nan), cmocka_unit_test(test_sumsq),
      cmocka_unit_test(test_adamw),
  };
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
