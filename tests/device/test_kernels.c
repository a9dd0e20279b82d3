/* test_kernels.c - tests embedding, rope, gated products, soft caps, sums, rows, flat arrays and decode_in of
 * every back end.
 *
 * Judges: loops in f64, with gradient loops judged by central differences, and exact bits for rows and
 * threads. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_case.h"
#include "shapes_case.h"

/* Embedding. Forward copies rows, times a power of 2 or another number. Backward sums the gradients of each
 * token, at most N terms. */
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
      dtable[id[n] * C + c] += 1.5 * dx[n * C + c];
    }
  ok(b->k->embed_fwd(b->stream, &x, &d_table, &d_id, 1));
  expect_near(b, "embed_fwd", &x, want, 0, 0);
  for (int64_t i = 0; i < N * C; i++) want[i] *= 45.25;
  ok(b->k->embed_fwd(b->stream, &x, &d_table, &d_id, 45.25f));
  expect_near(b, "embed_fwd, scaled", &x, want, EPS_F32, 0);
  ok(b->k->embed_bwd(b->stream, &d_dtable, &d_dx, &d_id, 1.5f));
  expect_near(b, "embed_bwd", &d_dtable, dtable, 0, 1.5 * (double)((N + 1) * (N + 1)) * EPS_F32);
  same_for_threads(b, &d_dtable);
  free(table), free(dx), free(dtable), free(id), free(want);
}
static void test_embed(void **state) {
  (void)state;
  all_shapes(embed);
}

static int rest; /* columns of a head without rotation, in the current case */

/* Three products and roundings of numbers <= 2. The rotation of the gradient undoes the rotation. C is half
 * of the rotated columns of a head. */
static void rope(bench *b, tri_dtype type, int64_t N, int64_t half) {
  enum { H = 3, G = 1, POSITIONS = 50 };
  int64_t    R = 2 * half, D = R + rest, E = (H + 2 * G) * D;
  tri_heads  h = {H, G, (int)D};
  double    *x = numbers(1, N * E, 1), *angle = numbers(2, POSITIONS * half, 3), *table, *want;
  int32_t   *pos = indices(3, N, POSITIONS);
  double     step = half_unit(type);
  tri_tensor qkv = put_real(b, type, N, E, x), d_pos = put_i32(b, N, 0, pos), d_table;

  table = host((size_t)(POSITIONS * R), sizeof *table);
  want = host((size_t)(N * E), sizeof *want);
  for (int p = 0; p < POSITIONS; p++)
    for (int64_t j = 0; j < half; j++) {
      table[p * R + j] = cos(angle[p * half + j]);
      table[p * R + half + j] = sin(angle[p * half + j]);
    }
  d_table = put_real(b, TRI_F32, POSITIONS, R, table);
  memcpy(want, x, (size_t)(N * E) * sizeof *want);
  for (int64_t n = 0; n < N; n++)
    for (int64_t i = 0; i < (H + G) * D; i++) {
      int64_t at = n * E + i, j = i % D;
      double  cosine = table[pos[n] * R + j % half], sine = table[pos[n] * R + half + j % half];
      if (j >= R) continue;
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
  for (int i = 0; i < 3; i++) {
    rest = (const int[]){0, 6, 16}[i];
    all_shapes(rope);
  }
}

/* Compares rope_put with the two separate kernels in every byte of rows and pages, in widths with and without
 * whole vectors. */
static void rope_put(bench *b, tri_dtype t, int D, int R) {
  enum { N = 5, H = 4, G = 2, P = 3, POSITIONS = 90 };
  static const int32_t slot[N] = {33, -1, 5, 95, 64}, pos[N] = {1, 2, 89, 0, 40};
  int                  E = (H + 2 * G) * D, page = G * D * TRI_PAGE;
  tri_heads            h = {H, G, D};
  double              *x = numbers(3, N * E, 1), *angle = numbers(4, POSITIONS * D, 1);
  tri_tensor           table = put_real(b, TRI_F32, POSITIONS, D, angle), d_slot = put_i32(b, N, 0, slot),
             d_pos = put_i32(b, N, 0, pos), qkv[2], k[2], v[2];
  table.dim[1] = R;
  for (int i = 0; i < 2; i++) {
    qkv[i] = put_real(b, t, N, E, x), k[i] = make(b, t, P, page), v[i] = make(b, t, P, page);
    tri_tensor k_page = {k[i].data, t, 4, {P, G, D, TRI_PAGE}},
               v_page = {v[i].data, t, 4, {P, G, TRI_PAGE, D}};
    if (i) {
      ok(b->k->rope_put(b->stream, &qkv[i], &k_page, &v_page, &d_pos, &table, &d_slot, &h));
    } else {
      ok(b->k->rope(b->stream, &qkv[i], &d_pos, &table, &h, 1));
      ok(b->k->kv_put(b->stream, &k_page, &v_page, &qkv[i], &d_slot, &h));
    }
  }
  expect_same_rows(b, "rope_put's rows", &qkv[0], 0, &qkv[1], 0, N);
  expect_same_rows(b, "rope_put's keys", &k[0], 0, &k[1], 0, P);
  expect_same_rows(b, "rope_put's values", &v[0], 0, &v[1], 0, P);
  free(x), free(angle);
  drop_arrays(b, 0);
}
static void run_rope_put(bench *b) {
  for (int t = TRI_F32; t <= TRI_F16; t++)
    for (int i = 0; i < 8; i++)
      rope_put(b, (tri_dtype)t, (const int[]){6, 64, 80, 256, 6, 64, 128, 64}[i],
               (const int[]){6, 64, 80, 256, 4, 48, 96, 0}[i]);
}
static void test_rope_put(void **state) {
  (void)state;
  for_each_device(run_rope_put);
}

/* Compares attn_step with the separate kernels in every byte of o and of the pages seen by rows. Widths are
 * with and without whole vectors, heads with one query and with more than a tile. One row has no place. */
static void attn_step(bench *b, tri_dtype t, int D, int R, int group, int64_t window) {
  enum { N = 5, G = 3, PAGES = 5, P = N * PAGES };
  static const int32_t length[N] = {1, 64, 65, 150, 31};
  const int            H = G * group, E = (H + 2 * G) * D, page = G * D * TRI_PAGE;
  tri_attn_rule        rule = {{H, G, D}, 1.0f / sqrtf((float)D), 0, window, 0};
  double    *x = numbers(3, N * E, 1), *angle = numbers(4, 200 * D, 1), *old = numbers(5, P * page, 1);
  int32_t    pos[N], slot[N], pages[P];
  tri_tensor o[2], qkv[2], k[2], v[2], turn = put_real(b, TRI_F32, 200, D, angle);
  turn.dim[1] = R;
  for (int n = 0; n < N; n++) {
    for (int i = 0; i < PAGES; i++) pages[n * PAGES + i] = (n * PAGES + i) * 7 % P;
    pos[n] = length[n] - 1;
    slot[n] = n == 4 ? -1 : pages[n * PAGES + pos[n] / TRI_PAGE] * TRI_PAGE + pos[n] % TRI_PAGE;
  }
  tri_tensor d_pos = put_i32(b, N, 0, pos), d_slot = put_i32(b, N, 0, slot), d_len = put_i32(b, N, 0, length),
             d_table = put_i32(b, N, PAGES, pages);
  tri_step_at at = {&d_pos, &turn, &d_slot, &d_table, &d_len, NULL};
  for (int i = 0; i < 2; i++) {
    qkv[i] = put_real(b, t, N, E, x), k[i] = put_real(b, t, P, page, old),
    v[i] = put_real(b, t, P, page, old);
    o[i] = make(b, t, N, H * D);
    tri_tensor k_page = {k[i].data, t, 4, {P, G, D, TRI_PAGE}},
               v_page = {v[i].data, t, 4, {P, G, TRI_PAGE, D}};
    if (i) {
      ok(b->k->attn_step(b->stream, &o[i], &qkv[i], &k_page, &v_page, &at, &rule));
    } else {
      ok(b->k->rope(b->stream, &qkv[i], &d_pos, &turn, &rule.heads, 1));
      ok(b->k->kv_put(b->stream, &k_page, &v_page, &qkv[i], &d_slot, &rule.heads));
      ok(b->k->attn_decode(b->stream, &o[i], NULL, &qkv[i], &k_page, &v_page, &d_table, &d_len, &rule));
    }
  }
  expect_same_rows(b, "attn_step's rows", &o[0], 0, &o[1], 0, N);
  expect_same_rows(b, "attn_step's keys", &k[0], 0, &k[1], 0, P);
  expect_same_rows(b, "attn_step's values", &v[0], 0, &v[1], 0, P);
  free(x), free(angle), free(old);
  drop_arrays(b, 0);
}
static void run_attn_step(bench *b) {
  for (int t = TRI_F32; t <= TRI_F16; t++)
    for (int i = 0; i < 4; i++) {
      const int D = (const int[]){6, 64, 80, 256}[i];
      attn_step(b, (tri_dtype)t, D, D, (const int[]){1, 2, 5, 1}[i], i == 1 ? 40 : 0);
      if (i < 2) attn_step(b, (tri_dtype)t, 32, (const int[]){0, 24}[i], (const int[]){17, 16}[i], 0);
    }
}
static void test_attn_step(void **state) {
  (void)state;
  for_each_device(run_attn_step);
}

static double  sigmoid(double x) { return 1 / (1 + exp(-x)); }
static tri_act act_now; /* set for the current case */
static double  gate(double x) {
   return act_now == TRI_ACT_GELU
              ? 0.5 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)))
              : sigmoid(x);
}
static double glu_loss(const void *arguments) { /* [0] g, [1] u */
  const double *gu = arguments;
  return gu[0] * gate(gu[0]) * gu[1];
}
static void glu_grad(const double *gu, double dy, double *dg, double *du) {
  double x = gu[0], s = gate(x), inner = 1;
  if (act_now == TRI_ACT_GELU) inner = 2 * sqrt(2 / 3.14159265358979323846) * (1 + 3 * 0.044715 * x * x);
  *dg = dy * gu[1] * s * (1 + x * (1 - s) * inner);
  *du = dy * x * s;
}
static void test_glu_loop(void **state) {
  (void)state;
  for (act_now = TRI_ACT_SILU; act_now <= TRI_ACT_GELU; act_now++)
    for (int i = 0; i < 40; i++) {
      double gu[2] = {-6 + 0.3 * i, 1.5 - 0.1 * i}, dg, du;
      glu_grad(gu, 1, &dg, &du);
      assert_true(fabs(dg - slope(glu_loss, gu, gu)) < 1e-8 && fabs(du - slope(glu_loss, gu, gu + 1)) < 1e-8);
    }
}

/* exp errs by about 2 eps, then come some ten roundings. 1 - s cancels near s = 1. Its error there is eps
 * absolute, times g <= 12. For GELU's slope it is also multiplied by the inner slope, at most 8 where s is
 * not near 1 (|g| < 4). The argument of GELU's exp is up to 90 in size before its gate is 0. It errs by as
 * many eps, times a result of at most 12. */
static void glu(bench *b, tri_dtype type, int64_t N, int64_t F) {
  double    *gu = numbers(1, N * 2 * F, 12), *dy = numbers(2, N * F, 1), step = half_unit(type);
  double    *y = host((size_t)(N * F), sizeof *y), *dgu = host((size_t)(N * 2 * F), sizeof *dgu);
  double     most = act_now == TRI_ACT_GELU ? 64 : 1; /* factor of the error */
  tri_tensor d_gu = put_real(b, type, N, 2 * F, gu), d_dy = put_real(b, type, N, F, dy),
             d_y = make(b, type, N, F);
  tri_tensor d_dgu = make(b, type, N, 2 * F), again = make(b, type, N, F), dgu2 = make(b, type, N, 2 * F);

  for (int64_t n = 0; n < N; n++)
    for (int64_t f = 0; f < F; f++) {
      double x[2] = {gu[n * 2 * F + f], gu[n * 2 * F + F + f]};
      y[n * F + f] = glu_loss(x);
      glu_grad(x, dy[n * F + f], dgu + n * 2 * F + f, dgu + n * 2 * F + F + f);
    }
  ok(b->k->glu_fwd(b->stream, &d_y, &d_gu, act_now));
  expect_near(b, "glu_fwd", &d_y, y, step + 16 * EPS_F32, most > 1 ? 12 * 12 * EPS_F32 : 1e-30);
  ok(b->k->glu_bwd(b->stream, &d_dgu, &again, &d_dy, &d_gu, act_now));
  expect_near(b, "glu_bwd", &d_dgu, dgu, step + 16 * EPS_F32, 12 * 12 * 8 * EPS_F32 * (most > 1 ? 8 : 1));
  expect_same_rows(b, "glu_bwd's y", &d_y, 0, &again, 0, N);
  ok(b->k->glu_bwd(b->stream, &dgu2, NULL, &d_dy, &d_gu, act_now));
  expect_same_rows(b, "glu_bwd without y", &d_dgu, 0, &dgu2, 0, N);
  for (int64_t n = 0; n < N; n += 1 + N / 3) {
    tri_tensor x1 = tri_rows(&d_gu, n, 1), dy1 = tri_rows(&d_dy, n, 1), y1 = tri_rows(&again, 0, 1);
    tri_tensor g1 = tri_rows(&dgu2, 0, 1);
    ok(b->k->glu_fwd(b->stream, &y1, &x1, act_now));
    expect_same_rows(b, "glu_fwd of one row", &d_y, n, &y1, 0, 1);
    ok(b->k->glu_bwd(b->stream, &g1, &y1, &dy1, &x1, act_now));
    expect_same_rows(b, "glu_bwd of one row", &d_dgu, n, &g1, 0, 1);
  }
  same_for_threads(b, &d_y), same_for_threads(b, &d_dgu);
  free(gu), free(dy), free(y), free(dgu);
}
static void test_glu(void **state) {
  (void)state;
  for (act_now = TRI_ACT_SILU; act_now <= TRI_ACT_GELU; act_now++) all_shapes(glu);
}

/* tanh errs by 4 eps and three roundings more. The slope uses a capped value with this error. */
static void softcap(bench *b, tri_dtype type, int64_t N, int64_t V) {
  const double cap = 3;
  double      *x = numbers(1, N * V, 12), *dx = numbers(2, N * V, 1), step = half_unit(type);
  tri_tensor   d_x = put_real(b, TRI_F32, N, V, x), d_dx = put_real(b, type, N, V, dx);

  for (int64_t i = 0; i < N * V; i++) {
    x[i] = cap * tanh(x[i] / cap);
    dx[i] *= 1 - x[i] / cap * (x[i] / cap);
  }
  ok(b->k->softcap_fwd(b->stream, &d_x, (float)cap));
  expect_near(b, "softcap_fwd", &d_x, x, 8 * EPS_F32, 1e-30);
  ok(b->k->softcap_bwd(b->stream, &d_dx, &d_x, (float)cap));
  expect_near(b, "softcap_bwd", &d_dx, dx, step, 24 * EPS_F32);
  same_for_threads(b, &d_x), same_for_threads(b, &d_dx);
  free(x), free(dx);
}
static void test_softcap(void **state) {
  (void)state;
  all_shapes(softcap);
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

/* rows_get and rows_add of every second row, backwards. Copies are exact, sums have one rounding. */
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

/* Copies x [N,C] into columns 2 .. of a wider y, and back. The other columns stay. Each way has one
 * rounding. */
static void cols(bench *b, tri_dtype type, int64_t N, int64_t C) {
  int64_t    W = C + 5;
  double    *x = numbers(1, N * C, 1), *y = numbers(2, N * W, 1), *back = numbers(3, N * C, 1);
  tri_tensor d_x = put_real(b, type, N, C, x), d_y = put_real(b, type, N, W, y), wide, d_back;
  for (int64_t i = 0; i < N * W; i++) y[i] = rounded(type, y[i]);
  for (int64_t i = 0; i < N * C; i++) y[i / C * W + 2 + i % C] = rounded(type, 0.75 * rounded(type, x[i]));
  ok(b->k->cols_put(b->stream, &d_y, 2, 0.75f, &d_x));
  expect_near(b, "cols_put", &d_y, y, 0, 0);
  same_for_threads(b, &d_y);
  wide = put_real(b, TRI_F32, N, W, y), d_back = put_real(b, TRI_F32, N, C, back);
  for (int64_t i = 0; i < N * C; i++) back[i] += 1.5 * y[i / C * W + 2 + i % C];
  ok(b->k->cols_get(b->stream, &d_back, &wide, 2, 1.5f, true));
  expect_near(b, "cols_get added", &d_back, back, EPS_F32, EPS_F32);
  for (int64_t i = 0; i < N * C; i++) back[i] = 1.5 * y[i / C * W + 2 + i % C];
  d_back = make(b, TRI_F32, N, C); /* NaN */
  ok(b->k->cols_get(b->stream, &d_back, &wide, 2, 1.5f, false));
  expect_near(b, "cols_get", &d_back, back, EPS_F32, 0);
  free(x), free(y), free(back);
}
static void test_cols(void **state) {
  (void)state;
  all_shapes(cols);
}

/* Joins the columns of 1, 4 and 7 ranks. The bits are copies. */
static void join_cols(bench *b, tri_dtype type, int64_t N, int64_t C) {
  for (int64_t n = 1; n <= 7; n += 3) {
    double    *x = numbers(1, n * N * C, 1), *want = host((size_t)(n * N * C), sizeof *want);
    tri_tensor d_x = put_real(b, type, n * N, C, x), y = make(b, type, N, n * C), d_want,
               parts = {d_x.data, type, 3, {n, N, C}};
    for (int64_t i = 0; i < n * N * C; i++) want[(i / C % N * n + i / C / N) * C + i % C] = x[i];
    d_want = put_real(b, type, N, n * C, want);
    ok(b->k->join_cols(b->stream, &y, &parts));
    expect_same_rows(b, "join_cols", &d_want, 0, &y, 0, N);
    free(x), free(want);
  }
}
static void test_join_cols(void **state) {
  (void)state;
  all_shapes(join_cols);
}

/* One or two roundings. b = 0 does not read y, although y holds NaN. */
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
  tri_tensor last = make(b, TRI_F16, n, 0);
  if (n > 3) x[0] = INFINITY, x[1] = -0.0, x[2] = 1.00390625; /* the last is half way, rounds to even */
  from = put_real(b, type, n, 0, x);
  for (int64_t i = 0; i < n; i++) want[i] = rounded(to.dtype, x[i]);
  ok(b->k->cast(b->stream, &to, &from));
  ok(b->k->cast(b->stream, &same, &from));
  if (n > 3) { /* infinity has no distance to compare */
    tri_tensor tail = tri_rows(&to, 1, n - 1);
    expect_near(b, "cast", &tail, want + 1, 0, 0);
  } else {
    expect_near(b, "cast", &to, want, 0, 0);
  }
  expect_same_rows(b, "cast to its own type", &from, 0, &same, 0, n);
  same_for_threads(b, &to);
  if (type == TRI_F32) { /* at most 1000, so all fit float16 */
    for (int64_t i = 0; i < n; i++) want[i] = rounded(last.dtype, x[i]);
    ok(b->k->cast(b->stream, &last, &from));
    tri_tensor tail = tri_rows(&last, n > 3, n - (n > 3));
    expect_near(b, "cast to the last type", &tail, want + (n > 3), 0, 0);
  }
  free(x), free(want);
}
static void test_cast(void **state) {
  (void)state;
  all_shapes(cast);
}
/* NaN stays NaN, and subnormal numbers keep their bits, also in the middle of vectors. */
static void run_cast_nan(bench *b) {
  enum { N = 40, NAN_AT = 7 };
  double     x[N], *got;
  tri_tensor from, to = make(b, TRI_BF16, N, 0), last = make(b, TRI_F16, N, 0);
  for (int i = 0; i < N; i++) x[i] = i % 9 == 4 ? 1.1e-39 * i : 1.7 * i;
  x[NAN_AT] = NAN;
  from = put_real(b, TRI_F32, N, 0, x);
  ok(b->k->cast(b->stream, &to, &from));
  got = get_real(b, &to);
  for (int i = 0; i < N; i++) assert_true(i == NAN_AT ? isnan(got[i]) : got[i] == rounded(TRI_BF16, x[i]));
  free(got);
  ok(b->k->cast(b->stream, &last, &from));
  got = get_real(b, &last);
  assert_true(isnan(got[NAN_AT]));
  free(got);
}
static void test_cast_nan(void **state) {
  (void)state;
  for_each_device(run_cast_nan);
}

/* The sum is added to the previous content, with the same bits for both thread counts (the static). Cut into
 * two calls in either order, it has the same f64. So has the sum of a loop in twice the precision. */
static void run_sumsq(bench *b) {
  static tri_dd        first[6];
  static const int64_t sizes[6] = {0, 1, 4097, 70001, 65536, 4096 * 513 + 5};
  for (int i = 0; i < 6; i++) {
    int64_t    n = sizes[i], cut = n / 3 / 64 * 64;
    double    *x = numbers(1, n, 3);
    tri_dd     want = {0.5, 0}, sum = want, start = want;
    tri_tensor d_x = put_real(b, TRI_F32, n, 0, x), d_sum = make(b, TRI_F32, 4, 0); /* 16 bytes, one tri_dd */
    tri_tensor part[2] = {tri_view1((float *)d_x.data + cut, TRI_F32, n - cut),
                          tri_view1(d_x.data, TRI_F32, cut)};
    for (int64_t j = 0; j < n; j++) want = tri_dd_add(want, (tri_dd){x[j] * x[j], 0});
    put_raw(b, &d_sum, &start);
    ok(b->k->sumsq(b->stream, d_sum.data, &d_x));
    get_raw(b, &d_sum, &sum);
    assert_memory_equal(&sum.hi, &want.hi, sizeof sum.hi);
    assert_true(fabs(sum.lo - want.lo) <= 1e-25 * want.hi);
    if (b->device->threads == 1)
      first[i] = sum;
    else
      assert_memory_equal(&first[i], &sum, sizeof sum);
    put_raw(b, &d_sum, &start);
    for (int k = 0; k < 2; k++) ok(b->k->sumsq(b->stream, d_sum.data, &part[k]));
    get_raw(b, &d_sum, &sum);
    assert_memory_equal(&sum.hi, &want.hi, sizeof sum.hi);
    free(x);
    drop_arrays(b, 0);
  }
}
/* A NaN makes the sum NaN, and an Inf makes it Inf. */
static void run_sumsq_nan(bench *b) {
  for (int i = 0; i < 2; i++) {
    double     x[40] = {1, 2, 3};
    tri_dd     sum = {0, 0};
    tri_tensor d_x, d_sum = make(b, TRI_F32, 4, 0);
    x[i ? 7 : 37] = i ? -INFINITY : NAN;
    d_x = put_real(b, TRI_F32, 40, 0, x);
    put_raw(b, &d_sum, &sum);
    ok(b->k->sumsq(b->stream, d_sum.data, &d_x));
    get_raw(b, &d_sum, &sum);
    assert_true(i ? isinf(sum.hi) : isnan(sum.hi));
    drop_arrays(b, 0);
  }
}
static void test_sumsq(void **state) {
  (void)state;
  for_each_device(run_sumsq);
  for_each_device(run_sumsq_nan);
}

/* Three steps against the f64 loop. m and v err by 3 eps a step, the update by some ten eps, with |update| <=
 * lr * 10. An element's bits do not depend on its place in the array. */
static void adamw(bench *b, tri_dtype type, int64_t N, int64_t C) {
  int64_t        n = N * C;
  double        *w = numbers(1, n, 1), *m = host((size_t)n, sizeof *m), *v = host((size_t)n, sizeof *v);
  tri_adamw_rule r = {1e-2f, 0.9f, 0.95f, 1e-8f, 1e-3f, 0.5f, 0};
  tri_tensor     d_w = put_real(b, TRI_F32, n, 0, w), d_m = put_real(b, TRI_F32, n, 0, m);
  tri_tensor     d_v = put_real(b, TRI_F32, n, 0, v), tail_w, tail_m, tail_v, tail_g;
  tri_dtype      narrow = type == TRI_F32 ? TRI_BF16 : type; /* the new weights in another type */
  tri_tensor     d_half = make(b, narrow, n, 0), half = make(b, narrow, n, 0);
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
    for (int64_t at = 0; at < n; at += 1 + n / 2) { /* the same in pieces with other starts */
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
  expect_same_rows(b, "adamw's 16 bits", &d_half, 0, &half, 0, n);
  expect_same_rows(b, "adamw v in pieces", &d_v, 0, &tail_v, 0, n);
  same_for_threads(b, &d_w);
  free(w), free(m), free(v);
}
static void test_adamw(void **state) {
  (void)state;
  all_shapes(adamw);
}

/* Some rows continue, some begin, some do nothing. Neighbours in the table stay. */
static void run_decode_in(bench *b) {
  enum { MOST = 300, P = 5, K = 7 };
  for (int B = 1; B <= MOST; B += 299) {
    int32_t token[MOST], from[MOST], pos[MOST], slot[MOST], table[MOST * P], drawn[K], got[MOST * P];
    for (int i = 0; i < K; i++) drawn[i] = 1000 + i;
    for (int i = 0; i < B; i++) {
      token[i] = i;
      from[i] = i % 3 ? -1 : i * 5 % K;
      pos[i] = i * 7 % (P * TRI_PAGE);
      slot[i] = i % 4 == 1 ? -1 : (50 + i) * TRI_PAGE + pos[i] % TRI_PAGE;
    }
    for (int i = 0; i < B * P; i++) table[i] = i;
    tri_tensor d_token = put_i32(b, B, 0, token), d_table = put_i32(b, B, P, table),
               d_drawn = put_i32(b, K, 0, drawn), d_from = put_i32(b, B, 0, from),
               d_pos = put_i32(b, B, 0, pos), d_slot = put_i32(b, B, 0, slot);
    ok(b->k->decode_in(b->stream, &d_token, &d_table, &d_drawn, &d_from, &d_pos, &d_slot));
    get_raw(b, &d_token, got);
    for (int i = 0; i < B; i++) assert_int_equal(got[i], i % 3 ? i : 1000 + i * 5 % K);
    get_raw(b, &d_table, got);
    for (int i = 0; i < B * P; i++)
      assert_int_equal(got[i], i % P == pos[i / P] / TRI_PAGE && slot[i / P] >= 0 ? 50 + i / P : i);
    drop_arrays(b, 0);
  }
}
static void test_decode_in(void **state) {
  (void)state;
  for_each_device(run_decode_in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_embed),    cmocka_unit_test(test_rope),      cmocka_unit_test(test_glu),
      cmocka_unit_test(test_glu_loop), cmocka_unit_test(test_softcap),   cmocka_unit_test(test_colsum),
      cmocka_unit_test(test_rows),     cmocka_unit_test(test_axpby),     cmocka_unit_test(test_cast),
      cmocka_unit_test(test_cast_nan), cmocka_unit_test(test_sumsq),     cmocka_unit_test(test_adamw),
      cmocka_unit_test(test_cols),     cmocka_unit_test(test_join_cols), cmocka_unit_test(test_decode_in),
      cmocka_unit_test(test_rope_put), cmocka_unit_test(test_attn_step),
  };
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
