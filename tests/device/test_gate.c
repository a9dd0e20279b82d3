/* test_gate.c - tests the gated norm of recurrent layers and the gate of attention, for back ends with them.
 *
 * Judges: loops in f64, with gradient loops judged by central differences, and exact bits for rows and
 * threads. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "shapes_case.h"

enum { HEADS = 3, MOST_D = TRI_DELTA_MOST };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double silu_slope(double x) { return sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)); }

static bool lacks(bench *b) { return !b->k->gate_norm_fwd; }

/* ---- the norm with a gate ---- */

typedef struct norm_data { /* rows of D, one for each token and head */
  int64_t rows, D;
  double *o, *z, *w, *dy;
} norm_data;
static const double eps = 1e-6f;

static double rstd_of(const norm_data *a, int64_t r) {
  double sum = 0;
  for (int64_t i = 0; i < a->D; i++) sum += a->o[r * a->D + i] * a->o[r * a->D + i];
  return 1 / sqrt(sum / (double)a->D + eps);
}
static void norm_forward(const norm_data *a, double *y, double *rstd) {
  for (int64_t r = 0; r < a->rows; r++) {
    rstd[r] = rstd_of(a, r);
    for (int64_t i = r * a->D; i < (r + 1) * a->D; i++)
      y[i] = a->o[i] * rstd[r] * a->w[i % a->D] * silu(a->z[i]);
  }
}
static void norm_backward(const norm_data *a, double *dout, double *dz, double *dw) { /* adds to dw */
  for (int64_t r = 0; r < a->rows; r++) {
    double rstd = rstd_of(a, r), dot = 0;
    for (int64_t i = r * a->D; i < (r + 1) * a->D; i++)
      dot += a->dy[i] * a->w[i % a->D] * silu(a->z[i]) * a->o[i];
    for (int64_t i = r * a->D; i < (r + 1) * a->D; i++) {
      double d = a->dy[i] * a->w[i % a->D];
      dout[i] = rstd * (d * silu(a->z[i]) - a->o[i] * rstd * rstd * dot / (double)a->D);
      dz[i] = d * a->o[i] * rstd * silu_slope(a->z[i]);
      dw[i % a->D] += a->dy[i] * a->o[i] * rstd * silu(a->z[i]);
    }
  }
}
static norm_data make_norm(int64_t rows, int64_t D) {
  norm_data a = {
      rows, D, numbers(1, rows * D, 2), numbers(2, rows * D, 3), numbers(3, D, 1), numbers(4, rows * D, 1)};
  for (int64_t i = 0; i < D && rows > 2; i++) a.o[D + i] = 0; /* a row of zeros */
  return a;
}
static void   free_norm(norm_data *a) { free(a->o), free(a->z), free(a->w), free(a->dy); }
static double norm_loss(const void *arguments) {
  const norm_data *a = arguments;
  double          *y = host((size_t)(a->rows * a->D), 8), *rstd = host((size_t)a->rows, 8), sum = 0;
  norm_forward(a, y, rstd);
  for (int64_t i = 0; i < a->rows * a->D; i++) sum += y[i] * a->dy[i];
  free(y), free(rstd);
  return sum;
}
static void test_norm_loop(void **state) {
  norm_data a = {2, 5, numbers(1, 10, 2), numbers(2, 10, 3), numbers(3, 5, 1), numbers(4, 10, 1)};
  double    dout[10], dz[10], dw[5] = {0};
  (void)state;
  norm_backward(&a, dout, dz, dw);
  for (int i = 0; i < 10; i++) {
    assert_true(fabs(dout[i] - slope(norm_loss, &a, a.o + i)) < 1e-8);
    assert_true(fabs(dz[i] - slope(norm_loss, &a, a.z + i)) < 1e-8);
  }
  for (int i = 0; i < 5; i++) assert_true(fabs(dw[i] - slope(norm_loss, &a, a.w + i)) < 1e-8);
  free_norm(&a);
}

/* Derived: rstd errs by (D / 32 + 16) eps relative as in test_norm.c, silu by some eps. A row of zeros has
 * rstd 1000, so its gradient is that of |dy w silu| <= 3 times 1000. */
static void gate_norm(bench *b, tri_dtype A, int64_t N, int64_t D) {
  int64_t        rows = N * HEADS, one = N / 2;
  tri_delta_rule rule = {.Hk = 1, .Hv = HEADS, .Dk = 4, .Dv = (int)D, .eps = 1e-6f};
  norm_data      a;
  double        *y, *rstd, *dout, *dz, *dw, error = ((double)D / 32 + 16) * EPS_F32;
  tri_tensor     o, z, w, dy, to, r, d_o, d_z, d_w, again;

  if (lacks(b) || D > MOST_D) return;
  a = make_norm(rows, D);
  y = host((size_t)(rows * D), 8), rstd = host((size_t)rows, 8), dout = host((size_t)(rows * D), 8);
  dz = host((size_t)(rows * D), 8), dw = numbers(5, D, 1);
  o = put_real(b, A, N, HEADS * D, a.o), z = put_real(b, A, N, HEADS * D, a.z), w = put_real(b, A, D, 0, a.w);
  dy = put_real(b, A, N, HEADS * D, a.dy), to = make(b, A, N, HEADS * D), r = make(b, TRI_F32, N, HEADS);
  d_o = make(b, A, N, HEADS * D), d_z = make(b, A, N, HEADS * D), again = make(b, A, N, HEADS * D);
  d_w = put_real(b, TRI_F32, D, 0, dw);
  norm_forward(&a, y, rstd), norm_backward(&a, dout, dz, dw);
  ok(b->k->gate_norm_fwd(b->stream, &to, &r, &o, &z, &w, &rule));
  expect_near(b, "gate_norm_fwd y", &to, y, half_unit(A) + 2 * error, 1e-30);
  expect_near(b, "gate_norm_fwd rstd", &r, rstd, error, 0);
  ok(b->k->gate_norm_bwd(b->stream, &d_o, &d_z, &again, &d_w, &dy, &o, &z, &w, &r, &rule));
  expect_near(b, "gate_norm_bwd dout", &d_o, dout, half_unit(A) + error, 200 * sqrt((double)D) * error);
  expect_near(b, "gate_norm_bwd dz", &d_z, dz, half_unit(A), 4 * sqrt((double)D) * error);
  expect_near(b, "gate_norm_bwd dw", &d_w, dw, EPS_F32,
              3 * (double)rows * sqrt((double)D) * (error + (double)rows * EPS_F32));
  expect_same_rows(b, "gate_norm_bwd y", &to, 0, &again, 0, N);
  same_for_threads(b, &to), same_for_threads(b, &d_o), same_for_threads(b, &d_z), same_for_threads(b, &d_w);
  { /* a row alone, without rstd, and its gradients in place */
    tri_tensor o1 = tri_rows(&o, one, N > 0), z1 = tri_rows(&z, one, N > 0), dy1 = tri_rows(&dy, one, N > 0);
    tri_tensor r1 = tri_rows(&r, one, N > 0), y1 = make(b, A, N > 0, HEADS * D);
    ok(b->k->gate_norm_fwd(b->stream, &y1, NULL, &o1, &z1, &w, &rule));
    expect_same_rows(b, "gate_norm_fwd of one row", &to, one, &y1, 0, N > 0);
    ok(b->k->gate_norm_bwd(b->stream, &dy1, &z1, NULL, NULL, &dy1, &o1, &z1, &w, &r1, &rule));
    expect_same_rows(b, "gate_norm_bwd dout in place", &d_o, one, &dy1, 0, N > 0);
    expect_same_rows(b, "gate_norm_bwd dz in place", &d_z, one, &z1, 0, N > 0);
  }
  free_norm(&a), free(y), free(rstd), free(dout), free(dz), free(dw);
}
static void test_gate_norm(void **state) {
  (void)state;
  all_shapes(gate_norm);
}

/* ---- the gate of attention ---- */

/* split_gate and join_gate copy. Element i of the raw row is i, so each place shows where it came from. */
static void split(bench *b, tri_dtype A, int64_t N, int64_t D) {
  enum { H = 4, G = 2 };
  tri_heads  h = {H, G, (int)D};
  int64_t    E = (H + 2 * G) * D, R = E + H * D;
  double    *raw, *qkv, *gate;
  tri_tensor from, d_qkv, d_gate, back;

  if (lacks(b)) return;
  raw = numbers(1, N * R, 1), qkv = host((size_t)(N * E), 8), gate = host((size_t)(N * H * D), 8);
  from = put_real(b, A, N, R, raw), d_qkv = make(b, A, N, E), d_gate = make(b, A, N, H * D),
  back = make(b, A, N, R);
  for (int64_t n = 0; n < N; n++) {
    for (int64_t i = 0; i < H * D; i++) {
      qkv[n * E + i] = raw[n * R + i / D * 2 * D + i % D];
      gate[n * H * D + i] = raw[n * R + i / D * 2 * D + D + i % D];
    }
    for (int64_t i = 0; i < 2 * G * D; i++) qkv[n * E + H * D + i] = raw[n * R + 2 * H * D + i];
  }
  ok(b->k->split_gate(b->stream, &d_qkv, &d_gate, &from, &h));
  expect_near(b, "split_gate qkv", &d_qkv, qkv, 0, 0);
  expect_near(b, "split_gate gate", &d_gate, gate, 0, 0);
  ok(b->k->join_gate(b->stream, &back, &d_qkv, &d_gate, &h));
  expect_same_rows(b, "join_gate", &from, 0, &back, 0, N);
  free(raw), free(qkv), free(gate);
}
static void test_split_gate(void **state) {
  (void)state;
  all_shapes(split);
}

typedef struct gate_data {
  int64_t n;
  double *o, *gate, *dy;
} gate_data;
static double gate_loss(const void *arguments) {
  const gate_data *a = arguments;
  double           sum = 0;
  for (int64_t i = 0; i < a->n; i++) sum += a->dy[i] * a->o[i] * sigmoid(a->gate[i]);
  return sum;
}
static void gate_grad(const gate_data *a, double *dout, double *dgate) {
  for (int64_t i = 0; i < a->n; i++) {
    double p = sigmoid(a->gate[i]);
    dout[i] = a->dy[i] * p;
    dgate[i] = a->dy[i] * a->o[i] * p * (1 - p);
  }
}
/* Derived: a few products and a sigmoid of some eps, numbers below 2. */
static void gate(bench *b, tri_dtype A, int64_t N, int64_t W) {
  gate_data a = {N * W, numbers(1, N * W, 1), numbers(2, N * W, 8), numbers(3, N * W, 1)};
  double   *y = host((size_t)(N * W), 8), *dout = host((size_t)(N * W), 8), *dgate = host((size_t)(N * W), 8);
  tri_tensor o, g, dy, to, d_o, d_g, again;

  if (!lacks(b)) {
    o = put_real(b, A, N, W, a.o), g = put_real(b, A, N, W, a.gate), dy = put_real(b, A, N, W, a.dy);
    to = make(b, A, N, W), d_o = make(b, A, N, W), d_g = make(b, A, N, W), again = make(b, A, N, W);
    for (int64_t i = 0; i < a.n; i++) y[i] = a.o[i] * sigmoid(a.gate[i]);
    gate_grad(&a, dout, dgate);
    ok(b->k->gate_fwd(b->stream, &to, &o, &g));
    expect_near(b, "gate_fwd", &to, y, half_unit(A) + 4 * EPS_F32, 1e-30);
    ok(b->k->gate_bwd(b->stream, &d_o, &d_g, &again, &dy, &o, &g));
    expect_near(b, "gate_bwd dout", &d_o, dout, half_unit(A) + 4 * EPS_F32, 1e-30);
    expect_near(b, "gate_bwd dgate", &d_g, dgate, half_unit(A), 8 * EPS_F32);
    expect_same_rows(b, "gate_bwd y", &to, 0, &again, 0, N);
    same_for_threads(b, &to), same_for_threads(b, &d_o), same_for_threads(b, &d_g);
    ok(b->k->gate_bwd(b->stream, &dy, &g, NULL, &dy, &o, &g));
    expect_same_rows(b, "gate_bwd dout in place", &d_o, 0, &dy, 0, N);
    expect_same_rows(b, "gate_bwd dgate in place", &d_g, 0, &g, 0, N);
    g = put_real(b, A, N, W, a.gate);
    ok(b->k->gate_fwd(b->stream, &o, &o, &g));
    expect_same_rows(b, "gate_fwd in place", &to, 0, &o, 0, N);
  }
  free(a.o), free(a.gate), free(a.dy), free(y), free(dout), free(dgate);
}
static void test_gate(void **state) {
  (void)state;
  all_shapes(gate);
}
static void test_gate_loop(void **state) {
  gate_data a = {7, numbers(1, 7, 1), numbers(2, 7, 3), numbers(3, 7, 1)};
  double    dout[7], dgate[7];
  (void)state;
  gate_grad(&a, dout, dgate);
  for (int i = 0; i < 7; i++) {
    assert_true(fabs(dout[i] - slope(gate_loss, &a, a.o + i)) < 1e-8);
    assert_true(fabs(dgate[i] - slope(gate_loss, &a, a.gate + i)) < 1e-8);
  }
  free(a.o), free(a.gate), free(a.dy);
}

/* NaN and infinity in one row show there, and change no bit elsewhere. */
static void gate_not_finite(bench *b) {
  enum { N = 3, D = 40 };
  tri_delta_rule rule = {.Hk = 1, .Hv = HEADS, .Dk = 4, .Dv = D, .eps = 1e-6f};
  if (lacks(b)) return;
  for (int i = 0; i < 4; i++) {
    norm_data  a = make_norm(N * HEADS, D);
    int64_t    at = (HEADS + 1) * D; /* head 1 of row 1 */
    tri_tensor o, z, w = put_real(b, TRI_F32, D, 0, a.w),
                     y[2] = {make(b, TRI_F32, N, HEADS * D), make(b, TRI_F32, N, HEADS * D)};
    double *got, *clean;
    o = put_real(b, TRI_F32, N, HEADS * D, a.o), z = put_real(b, TRI_F32, N, HEADS * D, a.z);
    ok(b->k->gate_norm_fwd(b->stream, &y[0], NULL, &o, &z, &w, &rule));
    (i < 2 ? a.o : a.z)[at] = i % 2 ? INFINITY : NAN;
    o = put_real(b, TRI_F32, N, HEADS * D, a.o), z = put_real(b, TRI_F32, N, HEADS * D, a.z);
    ok(b->k->gate_norm_fwd(b->stream, &y[1], NULL, &o, &z, &w, &rule));
    clean = get_real(b, &y[0]), got = get_real(b, &y[1]);
    assert_false(isfinite(got[at]));
    for (int64_t e = 0; e < N * HEADS * D; e++)
      if (e < at || e >= at + D) assert_true(got[e] == clean[e]);
    free_norm(&a), free(got), free(clean), drop_arrays(b, 0);
  }
}
static void test_not_finite(void **state) {
  (void)state;
  for_each_device(gate_not_finite);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_norm_loop),  cmocka_unit_test(test_gate_norm),
                                     cmocka_unit_test(test_split_gate), cmocka_unit_test(test_gate_loop),
                                     cmocka_unit_test(test_gate),       cmocka_unit_test(test_not_finite)};
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
