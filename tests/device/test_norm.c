/* test_norm.c - tests RMSNorm of rows and of heads, for every back end.
 *
 * Judges: loops in f64, with the gradient loop judged by central differences, and exact bits for rows and
 * threads. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "shapes_case.h"

typedef struct norm_data {
  int64_t N, C;
  double *x, *w, *dy;
} norm_data;
static const double         norm_eps = 1e-5f;
static double               plus; /* set for the current case, as in `rule` */
static tri_norm_rule        with_plus;
static const tri_norm_rule *rule(void) {
  with_plus = (tri_norm_rule){1e-5f, (float)plus};
  return &with_plus;
}

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
      loss += a->dy[n * a->C + c] * a->x[n * a->C + c] * norm_rstd(a, n) * (plus + a->w[c]);
  return loss;
}
static void norm_grad(const norm_data *a, double *dx, double *dw) { /* base is added */
  for (int64_t n = 0; n < a->N; n++) {
    const double *x = a->x + n * a->C, *dy = a->dy + n * a->C;
    double        r = norm_rstd(a, n), dot = 0;
    for (int64_t c = 0; c < a->C; c++) dot += x[c] * dy[c] * (plus + a->w[c]);
    for (int64_t c = 0; c < a->C; c++) {
      dx[n * a->C + c] += r * ((plus + a->w[c]) * dy[c] - x[c] * r * r * dot / (double)a->C);
      dw[c] += dy[c] * x[c] * r;
    }
  }
}

/* The same y f32 added to base, in an array of its own and in base's array. Each row has the same bits
 * alone. */
static void added(bench *b, const tri_tensor *x, const tri_tensor *w, double *y, double error) {
  int64_t    N = x->dim[0], C = x->dim[1], one = N / 2;
  double    *base = numbers(6, N * C, 1);
  tri_tensor d_base = put_real(b, TRI_F32, N, C, base), d_y = make(b, TRI_F32, N, C),
             r = make(b, TRI_F32, N, 0);
  tri_tensor x1 = tri_rows(x, one, N > 0), base1 = tri_rows(&d_base, one, N > 0),
             r1 = make(b, TRI_F32, N > 0, 0);

  for (int64_t i = 0; i < N * C; i++) base[i] += y[i];
  ok(b->k->rmsnorm_fwd(b->stream, &d_y, &r, x, w, &d_base, rule()));
  expect_near(b, "rmsnorm_fwd with base", &d_y, base, EPS_F32, 2 * sqrt((double)C) * error);
  ok(b->k->rmsnorm_fwd(b->stream, &base1, &r1, &x1, w, &base1, rule()));
  expect_same_rows(b, "rmsnorm_fwd with base, of one row in place", &d_y, one, &base1, 0, N > 0);
  same_for_threads(b, &d_y);
  free(base);
}

/* Derived: a mean of squares of positive terms errs by (C / lanes + 8) eps relative, at most C / 32 + 8. |x|,
 * |w|, |dy| <= 2, 1, 1 (with plus |w| <= 2). The normalised row has entries of at most sqrt(C), its sums with
 * dy at most C. */
static void rmsnorm(bench *b, tri_dtype type, int64_t N, int64_t C) {
  norm_data  a = {N, C, numbers(1, N * C, 2), numbers(2, C, 1), numbers(3, N * C, 1)};
  double    *y = host((size_t)(N * C), sizeof *y), *rstd = host((size_t)N, sizeof *rstd);
  double    *dx = numbers(4, N * C, 1), *dw = numbers(5, C, 1), error = ((double)C / 32 + 16) * EPS_F32;
  tri_tensor d_x = put_real(b, TRI_F32, N, C, a.x), d_w = put_real(b, type, C, 0, a.w);
  tri_tensor d_dy = put_real(b, type, N, C, a.dy), d_y = make(b, type, N, C), d_r = make(b, TRI_F32, N, 0);
  tri_tensor d_dx = put_real(b, TRI_F32, N, C, dx), d_dw = put_real(b, TRI_F32, C, 0, dw);

  for (int64_t n = 0; n < N; n++) {
    rstd[n] = norm_rstd(&a, n);
    for (int64_t c = 0; c < C; c++) y[n * C + c] = a.x[n * C + c] * rstd[n] * (plus + a.w[c]);
  }
  ok(b->k->rmsnorm_fwd(b->stream, &d_y, &d_r, &d_x, &d_w, NULL, rule()));
  expect_near(b, "rmsnorm_fwd y", &d_y, y, half_unit(type) + error,
              plus != 0 ? 2 * sqrt((double)C) * EPS_F32 : 1e-30);
  expect_near(b, "rmsnorm_fwd rstd", &d_r, rstd, error, 0);
  added(b, &d_x, &d_w, y, error);
  for (int64_t n = 0; n < N; n += 1 + N / 3) { /* a row alone */
    int        keep = b->n_arrays;
    tri_tensor x1 = tri_rows(&d_x, n, 1), y1 = make(b, type, 1, C), r1 = make(b, TRI_F32, 1, 0);
    ok(b->k->rmsnorm_fwd(b->stream, &y1, &r1, &x1, &d_w, NULL, rule()));
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
    tri_tensor frozen = make(b, TRI_F32, N > 0, C);
    if (N > 0) ok(b->device->ops->copy(b->stream, dx1.data, one.data, bytes_of(&dx1)));
    if (N > 0) ok(b->device->ops->copy(b->stream, frozen.data, one.data, bytes_of(&dx1)));
    ok(b->k->rmsnorm_bwd(b->stream, &d_dx, &d_dw, &d_dy, &d_x, &d_w, &d_r, rule()));
    ok(b->k->rmsnorm_bwd(b->stream, &dx1, &dw1, &dy1, &x1, &d_w, &r1, rule()));
    expect_same_rows(b, "rmsnorm_bwd of one row", &d_dx, N / 2, &dx1, 0, N > 0);
    ok(b->k->rmsnorm_bwd(b->stream, &frozen, NULL, &dy1, &x1, &d_w, &r1, rule()));
    expect_same_rows(b, "rmsnorm_bwd without dw", &d_dx, N / 2, &frozen, 0, N > 0);
  }
  expect_near(b, "rmsnorm_bwd dx", &d_dx, dx, EPS_F32, 200 * sqrt((double)C) * error);
  expect_near(b, "rmsnorm_bwd dw", &d_dw, dw, EPS_F32,
              (double)N * sqrt((double)C) * (error + (double)N * EPS_F32));
  same_for_threads(b, &d_y), same_for_threads(b, &d_dx), same_for_threads(b, &d_dw);
  free(a.x), free(a.w), free(a.dy), free(y), free(rstd), free(dx), free(dw);
}
static void test_rmsnorm(void **state) {
  (void)state;
  for (plus = 0; plus <= 1; plus++) all_shapes(rmsnorm);
}
static void test_rmsnorm_loop(void **state) {
  norm_data a = {3, 5, numbers(1, 15, 2), numbers(2, 5, 1), numbers(3, 15, 1)};
  double    dx[15] = {0}, dw[5] = {0};
  (void)state;
  plus = 1;
  norm_grad(&a, dx, dw);
  for (int i = 0; i < 15; i++) assert_true(fabs(dx[i] - slope(norm_loss, &a, a.x + i)) < 1e-8);
  for (int i = 0; i < 5; i++) assert_true(fabs(dw[i] - slope(norm_loss, &a, a.w + i)) < 1e-8);
  free(a.x), free(a.w), free(a.dy);
}

/* ---- heads of q and k, each a row of RMSNorm ---- */

enum { H = 3, G = 2, HEADS = H + G };

typedef struct head_data {
  int64_t   N, D, E;
  norm_data q, k; /* rows of all tokens' heads */
} head_data;

/* Returns row i of q or k in a row of qkv, or of raw with stride HEADS D. */
static int64_t at_head(int64_t stride, int64_t D, int64_t i, int first, int n) {
  return i / n * stride + (first + i % n) * D;
}
/* Copy the heads of an array into rows of their own, and back. */
static void take_heads(const double *from, int64_t stride, int64_t D, int first, int n, int64_t rows,
                       double *to) {
  for (int64_t i = 0; i < rows; i++)
    memcpy(to + i * D, from + at_head(stride, D, i, first, n), (size_t)D * sizeof *to);
}
static void give_heads(double *to, int64_t stride, int64_t D, int first, int n, int64_t rows,
                       const double *from) {
  for (int64_t i = 0; i < rows; i++)
    memcpy(to + at_head(stride, D, i, first, n), from + i * D, (size_t)D * sizeof *to);
}

typedef struct head_bench { /* the device's arrays */
  tri_tensor qkv, dqkv, raw, rstd, wq, wk, dwq, dwk;
  tri_heads  h;
} head_bench;

/* Forward and backward of one row alone, and forward without the outputs for backward, give the bits of the
 * full call. */
static void one_row(bench *b, const head_bench *d, const double *qkv, const double *dqkv, tri_dtype type) {
  int64_t    E = d->qkv.dim[1], n = d->qkv.dim[0] / 2;
  double    *x = host((size_t)E, sizeof *x), *dx = host((size_t)E, sizeof *dx);
  tri_tensor one, again, done, raw = make(b, type, 1, d->raw.dim[1]),
                               rstd = make(b, TRI_F32, 1, d->rstd.dim[1]);

  memcpy(x, qkv + n * E, (size_t)E * sizeof *x);
  memcpy(dx, dqkv + n * E, (size_t)E * sizeof *dx);
  one = put_real(b, type, 1, E, x), again = put_real(b, type, 1, E, x), done = put_real(b, type, 1, E, dx);
  ok(b->k->head_norm_fwd(b->stream, &one, &raw, &rstd, &d->wq, &d->wk, &d->h, rule()));
  ok(b->k->head_norm_fwd(b->stream, &again, NULL, NULL, &d->wq, &d->wk, &d->h, rule()));
  ok(b->k->head_norm_bwd(b->stream, &done, NULL, NULL, &raw, &rstd, &d->wq, &d->wk, &d->h, rule()));
  expect_same_rows(b, "head_norm_fwd of one row", &d->qkv, n, &one, 0, 1);
  expect_same_rows(b, "head_norm_fwd without raw", &d->qkv, n, &again, 0, 1);
  expect_same_rows(b, "head_norm_bwd of one row, without dw", &d->dqkv, n, &done, 0, 1);
  free(x), free(dx);
}

/* qkv [N,E] becomes the expected forward result, dqkv the expected backward result. dwq, dwk [D] are added
 * to. */
static void judge(const head_data *a, double *qkv, double *dqkv, double *dwq, double *dwk) {
  for (int k = 0; k < 2; k++) {
    norm_data x = k ? a->k : a->q;
    int       first = k ? H : 0, n = k ? G : H;
    int64_t   rows = x.N;
    double   *y = host((size_t)(rows * a->D), sizeof *y);
    take_heads(dqkv, a->E, a->D, first, n, rows, x.dy);
    for (int64_t i = 0; i < rows * a->D; i++)
      y[i] = x.x[i] * norm_rstd(&x, i / a->D) * (plus + x.w[i % a->D]);
    give_heads(qkv, a->E, a->D, first, n, rows, y);
    memset(y, 0, (size_t)(rows * a->D) * sizeof *y);
    norm_grad(&x, y, k ? dwk : dwq);
    give_heads(dqkv, a->E, a->D, first, n, rows, y);
    free(y);
  }
}

/* Bounds as for rmsnorm, with N H rows of heads for N rows. */
static void head_norm(bench *b, tri_dtype type, int64_t N, int64_t D) {
  head_data  a = {N,
                  D,
                  (H + 2 * G) * D,
                  {N * H, D, NULL, numbers(2, D, 1), NULL},
                  {N * G, D, NULL, numbers(3, D, 1), NULL}};
  double    *qkv, *dqkv, *dwq = numbers(6, D, 1), *dwk = numbers(7, D, 1), *x, *dx;
  double     error = ((double)D / 32 + 16) * EPS_F32, step = half_unit(type), root = sqrt((double)D);
  head_bench d = {.h = {H, G, (int)D}};

  if (D > 512) { /* no such heads */
    free(dwq), free(dwk), free(a.q.w), free(a.k.w);
    return;
  }
  qkv = numbers(4, N * a.E, 2), dqkv = numbers(5, N * a.E, 1);
  d.qkv = put_real(b, type, N, a.E, qkv), d.dqkv = put_real(b, type, N, a.E, dqkv);
  d.wq = put_real(b, type, D, 0, a.q.w), d.wk = put_real(b, type, D, 0, a.k.w);
  d.dwq = put_real(b, TRI_F32, D, 0, dwq), d.dwk = put_real(b, TRI_F32, D, 0, dwk);
  d.raw = make(b, type, N, HEADS * D), d.rstd = make(b, TRI_F32, N, HEADS);
  a.q.x = host((size_t)(N * H * D), sizeof(double)), a.q.dy = host((size_t)(N * H * D), sizeof(double));
  a.k.x = host((size_t)(N * G * D), sizeof(double)), a.k.dy = host((size_t)(N * G * D), sizeof(double));
  take_heads(qkv, a.E, D, 0, H, N * H, a.q.x), take_heads(qkv, a.E, D, H, G, N * G, a.k.x);
  x = host((size_t)(N * a.E), sizeof *x), dx = host((size_t)(N * a.E), sizeof *dx);
  memcpy(x, qkv, (size_t)(N * a.E) * sizeof *x), memcpy(dx, dqkv, (size_t)(N * a.E) * sizeof *dx);
  judge(&a, qkv, dqkv, dwq, dwk);
  ok(b->k->head_norm_fwd(b->stream, &d.qkv, &d.raw, &d.rstd, &d.wq, &d.wk, &d.h, rule()));
  expect_near(b, "head_norm_fwd", &d.qkv, qkv, step + error, 2 * root * EPS_F32);
  ok(b->k->head_norm_bwd(b->stream, &d.dqkv, &d.dwq, &d.dwk, &d.raw, &d.rstd, &d.wq, &d.wk, &d.h, rule()));
  expect_near(b, "head_norm_bwd", &d.dqkv, dqkv, step, 200 * root * error);
  expect_near(b, "head_norm_bwd dwq", &d.dwq, dwq, EPS_F32,
              (double)(N * H) * root * (error + (double)(N * H) * EPS_F32));
  expect_near(b, "head_norm_bwd dwk", &d.dwk, dwk, EPS_F32,
              (double)(N * G) * root * (error + (double)(N * G) * EPS_F32));
  if (N > 0) one_row(b, &d, x, dx, type);
  same_for_threads(b, &d.qkv), same_for_threads(b, &d.dqkv), same_for_threads(b, &d.dwq);
  free(a.q.x), free(a.q.dy), free(a.k.x), free(a.k.dy), free(qkv), free(dqkv), free(x), free(dx);
  free(dwq), free(dwk), free(a.q.w), free(a.k.w);
}
static void test_head_norm(void **state) {
  (void)state;
  for (plus = 0; plus <= 1; plus++) all_shapes(head_norm);
}

/* Copy columns first .. first + C - 1 of rows of `stride` numbers into rows of their own, and back. */
static void take_columns(const double *from, int64_t N, int64_t stride, int64_t first, int64_t C,
                         double *to) {
  for (int64_t n = 0; n < N; n++) memcpy(to + n * C, from + n * stride + first, (size_t)C * sizeof *to);
}
static void give_columns(double *to, int64_t N, int64_t stride, int64_t first, int64_t C,
                         const double *from) {
  for (int64_t n = 0; n < N; n++) memcpy(to + n * stride + first, from + n * C, (size_t)C * sizeof *to);
}

/* Computes the norm of columns first .. first + C - 1 of qkv [N,E] and its derivative in dqkv, in place. dw
 * [C] is added to. */
static void judge_whole(double *qkv, double *dqkv, int64_t N, int64_t E, int64_t first, int64_t C,
                        const double *w, double *dw) {
  norm_data a = {N, C, host((size_t)(N * C), sizeof(double)), host((size_t)C, sizeof(double)),
                 host((size_t)(N * C), sizeof(double))};
  double   *out = host((size_t)(N * C), sizeof *out);

  memcpy(a.w, w, (size_t)C * sizeof *w);
  take_columns(qkv, N, E, first, C, a.x), take_columns(dqkv, N, E, first, C, a.dy);
  norm_grad(&a, out, dw);
  give_columns(dqkv, N, E, first, C, out);
  for (int64_t i = 0; i < N * C; i++) out[i] = a.x[i] * norm_rstd(&a, i / C) * (plus + a.w[i % C]);
  give_columns(qkv, N, E, first, C, out);
  free(a.x), free(a.w), free(a.dy), free(out);
}

/* Norms of all heads of q as one row, and of k. Bounds as for rmsnorm. */
static void whole_norm(bench *b, tri_dtype type, int64_t N, int64_t D) {
  int64_t    E = (H + 2 * G) * D, Q = H * D, K = G * D;
  double    *wq = numbers(2, Q, 1), *wk = numbers(3, K, 1), *dwq = numbers(6, Q, 1), *dwk = numbers(7, K, 1);
  double    *qkv = numbers(4, N * E, 2), *dqkv = numbers(5, N * E, 1), *x, *dx;
  double     error = ((double)Q / 32 + 16) * EPS_F32, step = half_unit(type), root = sqrt((double)Q);
  head_bench d = {.h = {H, G, (int)D}};

  if (D > 512) { /* no such heads */
    free(wq), free(wk), free(dwq), free(dwk), free(qkv), free(dqkv);
    return;
  }
  d.qkv = put_real(b, type, N, E, qkv), d.dqkv = put_real(b, type, N, E, dqkv);
  d.wq = put_real(b, type, Q, 0, wq), d.wk = put_real(b, type, K, 0, wk);
  d.dwq = put_real(b, TRI_F32, Q, 0, dwq), d.dwk = put_real(b, TRI_F32, K, 0, dwk);
  d.raw = make(b, type, N, HEADS * D), d.rstd = make(b, TRI_F32, N, 2);
  x = host((size_t)(N * E), sizeof *x), dx = host((size_t)(N * E), sizeof *dx);
  memcpy(x, qkv, (size_t)(N * E) * sizeof *x), memcpy(dx, dqkv, (size_t)(N * E) * sizeof *dx);
  judge_whole(qkv, dqkv, N, E, 0, Q, wq, dwq), judge_whole(qkv, dqkv, N, E, Q, K, wk, dwk);
  ok(b->k->head_norm_fwd(b->stream, &d.qkv, &d.raw, &d.rstd, &d.wq, &d.wk, &d.h, rule()));
  expect_near(b, "head_norm_fwd of all heads", &d.qkv, qkv, step + error, 2 * root * EPS_F32);
  ok(b->k->head_norm_bwd(b->stream, &d.dqkv, &d.dwq, &d.dwk, &d.raw, &d.rstd, &d.wq, &d.wk, &d.h, rule()));
  expect_near(b, "head_norm_bwd of all heads", &d.dqkv, dqkv, step, 200 * root * error);
  expect_near(b, "its dwq", &d.dwq, dwq, EPS_F32, (double)N * root * (error + (double)N * EPS_F32));
  expect_near(b, "its dwk", &d.dwk, dwk, EPS_F32, (double)N * root * (error + (double)N * EPS_F32));
  if (N > 0) one_row(b, &d, x, dx, type);
  same_for_threads(b, &d.qkv), same_for_threads(b, &d.dqkv), same_for_threads(b, &d.dwq);
  same_for_threads(b, &d.dwk);
  free(wq), free(wk), free(dwq), free(dwk), free(qkv), free(dqkv), free(x), free(dx);
}
static void test_whole_norm(void **state) {
  (void)state;
  for (plus = 0; plus <= 1; plus++) all_shapes(whole_norm);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rmsnorm), cmocka_unit_test(test_rmsnorm_loop),
                                     cmocka_unit_test(test_head_norm), cmocka_unit_test(test_whole_norm)};
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
