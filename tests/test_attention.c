/* test_attention.c - attn_fwd, attn_bwd, kv_put and attn_decode of every back end.
 * Judges: loops in f64, the gradient loop itself judged by central differences; exact bits for rows,
 * sequences, threads, and decoding. */
#include "kernel_case.h"

typedef struct attn_case {
  int     H, G, D, S;
  int32_t len[6];
} attn_case;

/* Lengths 1, tile +-1, primes, 0; groups 1, 2, 3, 7, 9; widths with and without whole vectors. */
static const attn_case cases[] = {
    {1, 1, 2, 1, {1}},           {2, 1, 6, 4, {31, 0, 33, 32}}, {4, 4, 16, 5, {1, 2, 64, 65, 7}},
    {6, 2, 48, 3, {63, 97, 13}}, {7, 1, 64, 2, {40, 101}},      {9, 1, 80, 2, {37, 8}},
    {2, 2, 96, 2, {129, 9}},     {4, 2, 128, 2, {70, 33}},      {2, 1, 256, 2, {35, 66}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

typedef struct attn_data { /* host copies in f64, and the device's arrays */
  const attn_case *c;
  int64_t          N, E;
  int32_t          cu[7];
  double           scale, *qkv, *dout, *o, *lse;
  tri_tensor       d_qkv, d_dout, d_o, d_lse, d_cu;
  tri_heads        heads;
} attn_data;

static void naive_fwd(const attn_data *a, double *o, double *lse) {
  int D = a->c->D, H = a->c->H, group = H / a->c->G;
  for (int s = 0; s < a->c->S; s++)
    for (int64_t i = a->cu[s]; i < a->cu[s + 1]; i++)
      for (int h = 0; h < H; h++) {
        double  sum = 0, top = -INFINITY, p[256];
        double *out = o + (i * H + h) * D;
        memset(out, 0, (size_t)D * sizeof *out);
        for (int64_t j = a->cu[s]; j <= i; j++) {
          double dot = 0;
          for (int d = 0; d < D; d++)
            dot += a->qkv[i * a->E + h * D + d] * a->qkv[j * a->E + (H + h / group) * D + d];
          p[j - a->cu[s]] = dot * a->scale;
          top = fmax(top, dot * a->scale);
        }
        for (int64_t j = 0; j <= i - a->cu[s]; j++) sum += p[j] = exp(p[j] - top);
        for (int64_t j = a->cu[s]; j <= i; j++)
          for (int d = 0; d < D; d++)
            out[d] += p[j - a->cu[s]] / sum * a->qkv[j * a->E + (H + a->c->G + h / group) * D + d];
        lse[i * H + h] = top + log(sum);
      }
}

/* dqkv from dout, o and lse by the textbook formulas. */
static void naive_bwd(const attn_data *a, double *dqkv) {
  int     D = a->c->D, H = a->c->H, G = a->c->G, group = H / G;
  int64_t E = a->E;
  memset(dqkv, 0, (size_t)(a->N * E) * sizeof *dqkv);
  for (int s = 0; s < a->c->S; s++)
    for (int64_t i = a->cu[s]; i < a->cu[s + 1]; i++)
      for (int h = 0; h < H; h++) {
        const double *q = a->qkv + i * E + h * D, *dout = a->dout + (i * H + h) * D,
                     *o = a->o + (i * H + h) * D;
        double delta = 0;
        for (int d = 0; d < D; d++) delta += dout[d] * o[d];
        for (int64_t j = a->cu[s]; j <= i; j++) {
          int64_t       kk = j * E + (H + h / group) * D, vv = kk + G * D;
          const double *k = a->qkv + kk, *v = a->qkv + vv;
          double        dot = 0, dp = 0, p, ds;
          for (int d = 0; d < D; d++) dot += q[d] * k[d], dp += dout[d] * v[d];
          p = exp(dot * a->scale - a->lse[i * H + h]);
          ds = p * (dp - delta) * a->scale;
          for (int d = 0; d < D; d++) {
            dqkv[i * E + h * D + d] += ds * k[d];
            dqkv[kk + d] += ds * q[d];
            dqkv[vv + d] += p * dout[d];
          }
        }
      }
}

static void load(bench *b, attn_data *a, const attn_case *c, tri_dtype type) {
  memset(a, 0, sizeof *a);
  a->c = c;
  a->E = (c->H + 2 * c->G) * c->D;
  for (int s = 0; s < c->S; s++) a->cu[s + 1] = a->cu[s] + c->len[s];
  a->N = a->cu[c->S];
  a->scale = (double)(1.0f / sqrtf((float)c->D));
  a->heads = (tri_heads){c->H, c->G, c->D};
  a->qkv = numbers(1, a->N * a->E, 2);
  a->dout = numbers(2, a->N * c->H * c->D, 1);
  a->o = host((size_t)(a->N * c->H * c->D), sizeof *a->o);
  a->lse = host((size_t)(a->N * c->H), sizeof *a->lse);
  a->d_qkv = put_real(b, type, a->N, a->E, a->qkv);
  a->d_dout = put_real(b, type, a->N, c->H * c->D, a->dout);
  a->d_o = make(b, type, a->N, c->H * c->D);
  a->d_lse = make(b, TRI_F32, a->N, c->H);
  a->d_cu = put_i32(b, c->S + 1, 0, a->cu);
  ok(b->k->attn_fwd(b->stream, &a->d_o, &a->d_lse, &a->d_qkv, &a->d_cu, &a->heads, (float)a->scale));
}

static void unload(bench *b, attn_data *a) {
  free(a->qkv);
  free(a->dout);
  free(a->o);
  free(a->lse);
  drop_arrays(b, 0);
}

static tri_tensor backward(bench *b, attn_data *a) {
  tri_tensor dqkv = make(b, a->d_qkv.dtype, a->N, a->E);
  tri_tensor work = make(b, TRI_F32, a->N * (2 * a->c->G * a->c->D + a->c->H), 0);
  ok(b->k->attn_bwd(b->stream, &dqkv, &work, &a->d_dout, &a->d_o, &a->d_lse, &a->d_qkv, &a->d_cu, &a->heads,
                    (float)a->scale));
  return dqkv;
}

/* Derived: |q|, |k|, |v| <= 2, so a score (scaled by 1 / sqrt(D)) is at most 4 sqrt(D), and D roundings of
 * its running sum err by at most 4 sqrt(D) D eps. exp, its argument and the rescaling of tiles add some 16
 * roundings. The error reaches o through p and through its sum, each times |v|. */
static void run_fwd(bench *b) {
  for (int i = 0; i < N_CASES; i++)
    for (int t = TRI_F32; t <= TRI_BF16; t++) {
      attn_data a;
      double    score_error, half;
      load(b, &a, &cases[i], (tri_dtype)t);
      naive_fwd(&a, a.o, a.lse);
      score_error =
          4 * (a.c->D + 16) * sqrt(a.c->D) * EPS_F32; /* + 16: exp, its argument, the running rescales */
      half = t == TRI_BF16 ? EPS_BF16 : EPS_F32;
      expect_near(b, "attn_fwd o", &a.d_o, a.o, half, 2 * 2 * score_error);
      expect_near(b, "attn_fwd lse", &a.d_lse, a.lse, EPS_F32, score_error);
      unload(b, &a);
    }
}
static void test_fwd(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, attn_fwd), run_fwd);
}

/* loss = sum of dout * o, for the differences. */
static double attn_loss(const void *arguments) {
  const attn_data *a = arguments;
  int64_t          n = a->N * a->c->H * a->c->D;
  double *o = host((size_t)n, sizeof *o), *lse = host((size_t)(a->N * a->c->H), sizeof *lse), loss = 0;
  naive_fwd(a, o, lse);
  for (int64_t i = 0; i < n; i++) loss += o[i] * a->dout[i];
  free(o);
  free(lse);
  return loss;
}

static void run_bwd_loop(bench *b) {
  static const attn_case small = {4, 2, 6, 3, {5, 0, 3}};
  attn_data              a;
  double                *grad;
  load(b, &a, &small, TRI_F32);
  naive_fwd(&a, a.o, a.lse);
  grad = host((size_t)(a.N * a.E), sizeof *grad);
  naive_bwd(&a, grad);
  for (int64_t i = 0; i < a.N * a.E; i++) {
    double want = slope(attn_loss, &a, a.qkv + i);
    if (!(fabs(grad[i] - want) < 1e-8))
      fail_msg("the loop's dqkv[%d] is %.12g, differences say %.12g", (int)i, grad[i], want);
  }
  free(grad);
  unload(b, &a);
}
static void test_bwd_loop(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, attn_bwd), run_bwd_loop);
}

/* Derived as for the forward; terms of dk and dv sum to at most len * max |p| <= a few for each head of
 * the group, and the factor dp - delta is at most 4 sqrt(D) in size. */
static void run_bwd(bench *b) {
  for (int i = 0; i < N_CASES; i++)
    for (int t = TRI_F32; t <= TRI_BF16; t++) {
      attn_data  a;
      tri_tensor dqkv;
      double    *want, error, half, *stored;
      load(b, &a, &cases[i], (tri_dtype)t);
      naive_fwd(&a, a.o, a.lse);
      stored = get_real(b, &a.d_o); /* delta is made of the stored output: judge the gradient alone */
      memcpy(a.o, stored, (size_t)tri_tensor_count(&a.d_o) * sizeof *stored);
      dqkv = backward(b, &a);
      want = host((size_t)(a.N * a.E), sizeof *want);
      naive_bwd(&a, want);
      error = 16 * (a.c->D + 16) * sqrt(a.c->D) * EPS_F32 * (a.c->H / a.c->G);
      half = t == TRI_BF16 ? EPS_BF16 : EPS_F32;
      expect_near(b, "attn_bwd", &dqkv, want, half, error);
      free(want);
      free(stored);
      unload(b, &a);
    }
}
static void test_bwd(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, attn_bwd), run_bwd);
}

/* Every sequence alone, and cut short, gives the bits it has in the batch. */
static void run_company(bench *b) {
  for (int i = 0; i < N_CASES; i++)
    for (int t = TRI_F32; t <= TRI_BF16; t++) {
      attn_data  a;
      tri_tensor dqkv;
      load(b, &a, &cases[i], (tri_dtype)t);
      dqkv = backward(b, &a);
      for (int s = 0; s < a.c->S; s++) {
        int        keep = b->n_arrays, len = a.c->len[s];
        int32_t    cu[2] = {0, len}, one[2] = {0, len > 3 ? len - 3 : len};
        tri_tensor d_cu = put_i32(b, 2, 0, cu), d_one = put_i32(b, 2, 0, one);
        tri_tensor x = tri_rows(&a.d_qkv, a.cu[s], len), dx = tri_rows(&a.d_dout, a.cu[s], len);
        tri_tensor o = make(b, a.d_o.dtype, len, a.c->H * a.c->D), lse = make(b, TRI_F32, len, a.c->H);
        tri_tensor dq = make(b, a.d_o.dtype, len, a.E);
        tri_tensor work = make(b, TRI_F32, len * (2 * a.c->G * a.c->D + a.c->H), 0);
        ok(b->k->attn_fwd(b->stream, &o, &lse, &x, &d_cu, &a.heads, (float)a.scale));
        expect_same_rows(b, "o of a sequence alone", &a.d_o, a.cu[s], &o, 0, len);
        expect_same_rows(b, "lse of a sequence alone", &a.d_lse, a.cu[s], &lse, 0, len);
        ok(b->k->attn_bwd(b->stream, &dq, &work, &dx, &o, &lse, &x, &d_cu, &a.heads, (float)a.scale));
        expect_same_rows(b, "dqkv of a sequence alone", &dqkv, a.cu[s], &dq, 0, len);
        x.dim[0] = o.dim[0] = lse.dim[0] = one[1];
        ok(b->k->attn_fwd(b->stream, &o, &lse, &x, &d_one, &a.heads, (float)a.scale));
        expect_same_rows(b, "o of a sequence cut short", &a.d_o, a.cu[s], &o, 0, one[1]);
        drop_arrays(b, keep);
      }
      unload(b, &a);
    }
}
static void test_company(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, attn_bwd), run_company);
}

/* A cache array of P pages: keys [P,G,D,TRI_PAGE], values [P,G,TRI_PAGE,D]. */
static tri_tensor as_pages(tri_tensor t, int64_t P, int64_t G, int64_t d2, int64_t d3) {
  tri_tensor v = {t.data, t.dtype, 4, {P, G, d2, d3}};
  return v;
}

/* Put all tokens of the case into pages in scattered order. page_of[s * P + i]: page i of sequence s. */
static void fill_cache(bench *b, attn_data *a, int P, tri_tensor *k_page, tri_tensor *v_page,
                       int32_t *page_of) {
  int32_t   *slot = host((size_t)a->N, sizeof *slot);
  int        n_pages = a->c->S * P + 1;
  tri_tensor d_slot;
  *k_page = make(b, a->d_qkv.dtype, n_pages * a->c->G, a->c->D * TRI_PAGE);
  *v_page = make(b, a->d_qkv.dtype, n_pages * a->c->G, a->c->D * TRI_PAGE);
  *k_page = as_pages(*k_page, n_pages, a->c->G, a->c->D, TRI_PAGE);
  *v_page = as_pages(*v_page, n_pages, a->c->G, TRI_PAGE, a->c->D);
  for (int i = 0; i < a->c->S * P; i++) page_of[i] = n_pages - 1 - i;
  for (int s = 0; s < a->c->S; s++)
    for (int i = 0; i < a->c->len[s]; i++)
      slot[a->cu[s] + i] = page_of[s * P + i / TRI_PAGE] * TRI_PAGE + i % TRI_PAGE;
  d_slot = put_i32(b, a->N, 0, slot);
  ok(b->k->kv_put(b->stream, k_page, v_page, &a->d_qkv, &d_slot, &a->heads));
  free(slot);
}

/* Decoding every token of the batch, all at once and one by one, gives attn_fwd's rows; what lies in the
 * cache behind a row's length (NaN, later tokens) does not matter. */
static void run_decode(bench *b) {
  for (int i = 0; i < N_CASES; i++)
    for (int t = TRI_F32; t <= TRI_BF16; t++) {
      attn_data  a;
      tri_tensor k_page, v_page, o, d_table, d_len;
      int        P = 5;
      int32_t    page_of[6 * 5], *table, *len;
      load(b, &a, &cases[i], (tri_dtype)t);
      fill_cache(b, &a, P, &k_page, &v_page, page_of);
      table = host((size_t)(a.N * P), sizeof *table);
      len = host((size_t)a.N, sizeof *len);
      for (int s = 0; s < a.c->S; s++)
        for (int64_t n = a.cu[s]; n < a.cu[s + 1]; n++) {
          memcpy(table + n * P, page_of + s * P, (size_t)P * sizeof *table);
          len[n] = (int32_t)(n - a.cu[s] + 1);
        }
      d_table = put_i32(b, a.N, P, table);
      d_len = put_i32(b, a.N, 0, len);
      o = make(b, a.d_o.dtype, a.N, a.c->H * a.c->D);
      ok(b->k->attn_decode(b->stream, &o, &a.d_qkv, &k_page, &v_page, &d_table, &d_len, &a.heads,
                           (float)a.scale));
      expect_same_rows(b, "attn_decode of all rows", &a.d_o, 0, &o, 0, a.N);
      for (int64_t n = 0; n < a.N; n += 1 + a.N / 7) {
        tri_tensor one = tri_rows(&o, 0, 1), x = tri_rows(&a.d_qkv, n, 1);
        tri_tensor row = tri_rows(&d_table, n, 1), length = tri_rows(&d_len, n, 1);
        ok(b->k->attn_decode(b->stream, &one, &x, &k_page, &v_page, &row, &length, &a.heads, (float)a.scale));
        expect_same_rows(b, "attn_decode of one row", &a.d_o, n, &one, 0, 1);
      }
      free(table);
      free(len);
      unload(b, &a);
    }
}
static void test_decode(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, attn_decode), run_decode);
}

/* Each element of the cache, and slot -1. */
static void run_kv_put(bench *b) {
  for (int t = TRI_F32; t <= TRI_BF16; t++) {
    enum { N = 3, H = 2, G = 2, D = 6, E = (H + 2 * G) * D, P = 2, SIZE = P * G * D * TRI_PAGE };
    static const int32_t slot[N] = {33, -1, 5};
    tri_heads            h = {H, G, D};
    double              *x = numbers(3, N * E, 1), k_want[SIZE], v_want[SIZE];
    tri_tensor           qkv = put_real(b, (tri_dtype)t, N, E, x), d_slot = put_i32(b, N, 0, slot);
    tri_tensor           k_page, v_page;
    memset(k_want, 0, sizeof k_want);
    memset(v_want, 0, sizeof v_want);
    k_page = put_real(b, (tri_dtype)t, P * G, D * TRI_PAGE, k_want);
    v_page = put_real(b, (tri_dtype)t, P * G, D * TRI_PAGE, v_want);
    k_page = as_pages(k_page, P, G, D, TRI_PAGE);
    v_page = as_pages(v_page, P, G, TRI_PAGE, D);
    for (int n = 0; n < N; n++)
      for (int g = 0; g < G && slot[n] >= 0; g++)
        for (int d = 0; d < D; d++) {
          int head = (slot[n] / TRI_PAGE * G + g) * D * TRI_PAGE, place = slot[n] % TRI_PAGE;
          k_want[head + d * TRI_PAGE + place] = x[n * E + (H + g) * D + d];
          v_want[head + place * D + d] = x[n * E + (H + G + g) * D + d];
        }
    ok(b->k->kv_put(b->stream, &k_page, &v_page, &qkv, &d_slot, &h));
    expect_near(b, "k_page", &k_page, k_want, 0, 0);
    expect_near(b, "v_page", &v_page, v_want, 0, 0);
    free(x);
    drop_arrays(b, 0);
  }
}
static void test_kv_put(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, kv_put), run_kv_put);
}

/* A later token of the same tile that is not a number does not reach the rows before it. */
static void run_nan(bench *b) {
  attn_case  c = {2, 1, 16, 1, {20}};
  attn_data  a;
  tri_tensor o, lse;
  load(b, &a, &c, TRI_F32);
  for (int64_t e = 0; e < a.E; e++) a.qkv[13 * a.E + e] = NAN;
  a.d_qkv = put_real(b, TRI_F32, a.N, a.E, a.qkv);
  o = make(b, TRI_F32, a.N, c.H * c.D);
  lse = make(b, TRI_F32, a.N, c.H);
  ok(b->k->attn_fwd(b->stream, &o, &lse, &a.d_qkv, &a.d_cu, &a.heads, (float)a.scale));
  expect_same_rows(b, "rows before a NaN", &a.d_o, 0, &o, 0, 13);
  unload(b, &a);
}
static void test_nan(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, attn_bwd), run_nan);
}

static uint64_t seen[64]; /* hashes of the run with one thread */
static int      n_seen, at_seen;

static void remember_or_compare(bench *b, const tri_tensor *t) {
  uint64_t h = hash_of(b, t);
  if (b->device->threads == 1) {
    seen[n_seen++] = h;
    at_seen = 0;
  } else {
    assert_true(seen[at_seen++] == h);
  }
}

static void run_threads(bench *b) {
  if (b->device->threads == 1) n_seen = 0;
  for (int i = 0; i < N_CASES; i++) {
    attn_data  a;
    tri_tensor dqkv;
    load(b, &a, &cases[i], i % 2 ? TRI_BF16 : TRI_F32);
    dqkv = backward(b, &a);
    remember_or_compare(b, &a.d_o);
    remember_or_compare(b, &dqkv);
    unload(b, &a);
  }
}
static void test_threads(void **state) {
  (void)state;
  for_each_device_with(offsetof(tri_kernels, attn_bwd), run_threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fwd),     cmocka_unit_test(test_bwd_loop), cmocka_unit_test(test_bwd),
      cmocka_unit_test(test_company), cmocka_unit_test(test_decode),   cmocka_unit_test(test_kv_put),
      cmocka_unit_test(test_nan),     cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
