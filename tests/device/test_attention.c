/* test_attention.c - tests attn_fwd, attn_bwd, kv_put and attn_decode of every back end.
 *
 * Judges: loops in f64, with the gradient loop judged by central differences, and exact bits for rows,
 * sequences, threads and decoding. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/pairs/pairs.h"
#include "device_case.h"
#include "filter_case.h"
#include "kernel_case.h"

typedef struct attn_case {
  int     H, G, D, S;
  int32_t len[6];
  int     window; /* 0 means none */
  double  cap;    /* 0 means none */
} attn_case;

/* Lengths are 0, 1, a tile +-1 and primes. Groups are 1, 2, 3, 7, 9. Widths are with and without whole
 * vectors. */
static const attn_case cases[] = {
    {1, 1, 2, 1, {1}, 0, 0},
    {2, 1, 6, 4, {31, 0, 33, 32}, 0, 0},
    {4, 4, 16, 5, {1, 2, 64, 65, 7}, 0, 0},
    {6, 2, 48, 3, {63, 97, 13}, 0, 0},
    {7, 1, 64, 2, {40, 101}, 0, 0},
    {9, 1, 80, 2, {37, 8}, 0, 0},
    {2, 2, 96, 2, {129, 9}, 0, 0},
    {4, 2, 128, 2, {70, 33}, 0, 0},
    {2, 1, 256, 2, {35, 66}, 0, 0},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* More cases for the gradient. They cover the borders of its tiles (16 to 128), groups of 1, 4 and 7 in
 * widths with a kernel of their own, and widths of no whole vectors. Some have empty sequences at either end,
 * one has no token at all. Then come groups divided into parts (tri_attn_parts). Parts are of 2 heads and a
 * last one of 1 (9 / 1, 7 / 2, 3 / 4, 5 / 3), of 4 and 3 (7 / 4), of 2 (12 / 1) and of 1 (6 / 1, 8 / 1). The
 * groups of 4 / 8 are not divided. */
static const attn_case bwd_cases[] = {
    {3, 3, 64, 2, {65, 130}, 0, 0},
    {4, 1, 64, 3, {64, 127, 1}, 0, 0},
    {7, 1, 96, 2, {63, 66}, 0, 0},
    {2, 2, 128, 1, {129}, 0, 0},
    {4, 1, 128, 2, {64, 65}, 0, 0},
    {7, 1, 128, 1, {63}, 0, 0},
    {1, 1, 256, 1, {128}, 0, 0},
    {4, 1, 256, 2, {33, 65}, 0, 0},
    {4, 1, 96, 1, {128}, 0, 0},
    {2, 1, 254, 1, {33}, 0, 0},
    {1, 1, 2, 6, {0, 1, 0, 70, 5, 0}, 0, 0},
    {2, 1, 64, 1, {250}, 0, 0},
    {2, 1, 64, 1, {0}, 0, 0},
    {9, 1, 64, 2, {67, 31}, 0, 0},
    {14, 2, 64, 1, {97}, 0, 0},
    {12, 4, 128, 1, {65}, 0, 0},
    {15, 3, 96, 2, {1, 33}, 0, 0},
    {28, 4, 64, 1, {37}, 0, 0},
    {12, 1, 64, 1, {41}, 0, 0},
    {6, 1, 256, 2, {31, 34}, 0, 0},
    {8, 1, 128, 1, {67}, 0, 0},
    {32, 8, 64, 1, {33}, 0, 0},
    /* Windows are of one key, inside a tile, across its borders, of a whole one and wider. Then caps, and
     * both, in widths with and without a kernel of their own. */
    {2, 1, 64, 2, {70, 33}, 1, 0},
    {2, 2, 16, 2, {40, 65}, 7, 0},
    {2, 1, 128, 1, {131}, 33, 3},
    {1, 1, 96, 1, {100}, 64, 5},
    {1, 1, 256, 1, {70}, 31, 3},
    {3, 1, 80, 1, {66}, 20, 4},
    {2, 1, 64, 1, {66}, 0, 2},
};
enum { N_BWD_CASES = N_CASES + sizeof bwd_cases / sizeof bwd_cases[0] };

static const attn_case *bwd_case(int i) { return i < N_CASES ? &cases[i] : &bwd_cases[i - N_CASES]; }

/* More cases for the forward pass and decoding. They cover the borders of their tiles (32, 64, 128) and
 * groups of 1, 4, 8 and more than 16. Widths have a kernel of their own or lie between two, with and without
 * whole vectors. */
static const attn_case fwd_cases[] = {
    {4, 1, 96, 2, {127, 63}, 0, 0},
    {8, 1, 64, 2, {128, 65}, 0, 0},
    {1, 1, 128, 1, {160}, 0, 0},
    {4, 1, 256, 2, {64, 31}, 0, 0},
    {4, 1, 100, 2, {33, 66}, 0, 0},
    {20, 1, 32, 2, {5, 70}, 0, 0},
    /* windows and caps, as for the gradient */
    {2, 1, 64, 2, {140, 33}, 1, 0},
    {2, 2, 16, 2, {40, 65}, 7, 0},
    {1, 1, 128, 1, {131}, 33, 3},
    {1, 1, 256, 2, {130, 9}, 31, 0},
    {4, 1, 4, 3, {1, 9, 37}, 11, 0},
    {3, 1, 100, 1, {70}, 64, 4},
    {2, 1, 64, 1, {66}, 0, 2},
    {1, 1, 64, 1, {40}, 1000, 0},
    {3, 1, 24, 2, {150, 17}, 0, 0},
    {8, 2, 40, 1, {131}, 70, 0},
};
enum { N_FWD_CASES = N_CASES + sizeof fwd_cases / sizeof fwd_cases[0] };

static const attn_case *fwd_case(int i) { return i < N_CASES ? &cases[i] : &fwd_cases[i - N_CASES]; }

typedef struct attn_data { /* host copies in f64, and the device's arrays */
  const attn_case *c;
  int64_t          N, E;
  int32_t          cu[7];
  double        scale, grown, *qkv, *dout, *o, *lse; /* grown: the largest factor of a key in run_growing */
  tri_tensor    d_qkv, d_dout, d_o, d_lse, d_cu;
  tri_attn_rule rule;
} attn_data;

/* Return the first key seen by row i of the sequence from `start` on, and a score, capped. */
static int64_t first_key(const attn_data *a, int64_t start, int64_t i) {
  return a->c->window > 0 && i - start >= a->c->window ? i + 1 - a->c->window : start;
}
static double capped(const attn_data *a, double score) {
  return a->c->cap > 0 ? a->c->cap * tanh(score / a->c->cap) : score;
}

static void naive_fwd(const attn_data *a, double *o, double *lse) {
  int D = a->c->D, H = a->c->H, group = H / a->c->G;
  for (int s = 0; s < a->c->S; s++)
    for (int64_t i = a->cu[s]; i < a->cu[s + 1]; i++)
      for (int h = 0; h < H; h++) {
        double  sum = 0, top = -INFINITY, p[256];
        double *out = o + (i * H + h) * D;
        memset(out, 0, (size_t)D * sizeof *out);
        int64_t first = first_key(a, a->cu[s], i);
        for (int64_t j = first; j <= i; j++) {
          double dot = 0;
          for (int d = 0; d < D; d++)
            dot += a->qkv[i * a->E + h * D + d] * a->qkv[j * a->E + (H + h / group) * D + d];
          p[j - a->cu[s]] = capped(a, dot * a->scale);
          top = fmax(top, p[j - a->cu[s]]);
        }
        for (int64_t j = first - a->cu[s]; j <= i - a->cu[s]; j++) sum += p[j] = exp(p[j] - top);
        for (int64_t j = first; j <= i; j++)
          for (int d = 0; d < D; d++)
            out[d] += p[j - a->cu[s]] / sum * a->qkv[j * a->E + (H + a->c->G + h / group) * D + d];
        lse[i * H + h] = top + log(sum);
      }
}

/* Computes dqkv from dout, o and lse by the textbook formulas. size gets the sum of the absolute values of
 * each element's terms, or is NULL. */
static void naive_bwd(const attn_data *a, double *dqkv, double *size) {
  int     D = a->c->D, H = a->c->H, G = a->c->G, group = H / G;
  int64_t E = a->E;
  memset(dqkv, 0, (size_t)(a->N * E) * sizeof *dqkv);
  if (size) memset(size, 0, (size_t)(a->N * E) * sizeof *size);
  for (int s = 0; s < a->c->S; s++)
    for (int64_t i = a->cu[s]; i < a->cu[s + 1]; i++)
      for (int h = 0; h < H; h++) {
        const double *q = a->qkv + i * E + h * D, *dout = a->dout + (i * H + h) * D,
                     *o = a->o + (i * H + h) * D;
        double delta = 0;
        for (int d = 0; d < D; d++) delta += dout[d] * o[d];
        for (int64_t j = first_key(a, a->cu[s], i); j <= i; j++) {
          int64_t       kk = j * E + (H + h / group) * D, vv = kk + G * D;
          const double *k = a->qkv + kk, *v = a->qkv + vv;
          double        dot = 0, dp = 0, p, ds, x;
          for (int d = 0; d < D; d++) dot += q[d] * k[d], dp += dout[d] * v[d];
          x = capped(a, dot * a->scale);
          p = exp(x - a->lse[i * H + h]);
          ds = p * (dp - delta) * a->scale;
          if (a->c->cap > 0) ds *= 1 - x / a->c->cap * (x / a->c->cap);
          for (int d = 0; d < D; d++) {
            dqkv[i * E + h * D + d] += ds * k[d];
            dqkv[kk + d] += ds * q[d];
            dqkv[vv + d] += p * dout[d];
            if (!size) continue;
            size[i * E + h * D + d] += fabs(ds * k[d]);
            size[kk + d] += fabs(ds * q[d]);
            size[vv + d] += fabs(p * dout[d]);
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
  a->rule.scale = 1.0f / sqrtf((float)c->D);
  a->scale = (double)a->rule.scale;
  a->grown = 1;
  a->rule.heads = (tri_heads){c->H, c->G, c->D};
  a->rule.softcap = (float)c->cap;
  a->rule.window = c->window;
  a->qkv = numbers(1, a->N * a->E, 2);
  a->dout = numbers(2, a->N * c->H * c->D, 1);
  a->o = host((size_t)(a->N * c->H * c->D), sizeof *a->o);
  a->lse = host((size_t)(a->N * c->H), sizeof *a->lse);
  a->d_qkv = put_real(b, type, a->N, a->E, a->qkv);
  a->d_dout = put_real(b, type, a->N, c->H * c->D, a->dout);
  a->d_o = make(b, type, a->N, c->H * c->D);
  a->d_lse = make(b, TRI_F32, a->N, c->H);
  a->d_cu = put_i32(b, c->S + 1, 0, a->cu);
}

static void forward(bench *b, attn_data *a) {
  ok(b->k->attn_fwd(b->stream, &a->d_o, &a->d_lse, &a->d_qkv, &a->d_cu, &a->rule));
}

/* Computes o and lse by the judge and rounds them as the device stores them. So every error in the results of
 * attn_bwd is its own. */
static void forward_by_judge(bench *b, attn_data *a) {
  naive_fwd(a, a->o, a->lse);
  a->d_o = put_real(b, a->d_qkv.dtype, a->N, a->c->H * a->c->D, a->o);
  a->d_lse = put_real(b, TRI_F32, a->N, a->c->H, a->lse);
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
  tri_tensor work = make(b, TRI_F32, tri_attn_work(&a->rule.heads, a->N), 0);
  ok(b->k->attn_bwd(b->stream, &dqkv, &work, &a->d_dout, &a->d_o, &a->d_lse, &a->d_qkv, &a->d_cu, &a->rule));
  return dqkv;
}

static bool on_cpu(const bench *b) { return !strcmp(b->device->ops->name, "cpu"); }
/* Returns whether the back end rounds weights and their gradient to the rows' type before it multiplies by
 * them. */
static bool rounds_weights(const bench *b, tri_dtype t) {
  return on_cpu(b) ? t == TRI_BF16 && tri_pairs_find() != NULL : t != TRI_F32;
}

/* Derived: |q|, |k|, |v| <= 2, so a score (scaled by 1 / sqrt(D)) is at most 4 sqrt(D). D roundings of its
 * running sum err by at most 4 sqrt(D) D eps. exp, its argument and the rescaling of tiles add some 16
 * roundings. The error reaches o through p and through its sum, each times |v|. See rounds_weights. */
static void expect_fwd(bench *b, attn_data *a) {
  double score_error = 4 * a->grown * (a->c->D + 16) * sqrt(a->c->D) * EPS_F32;
  double unit = half_unit(a->d_qkv.dtype);
  double weights = rounds_weights(b, a->d_qkv.dtype) ? 2 * unit : 0;
  naive_fwd(a, a->o, a->lse);
  expect_near(b, "attn_fwd o", &a->d_o, a->o, unit, 2 * 2 * score_error + weights);
  expect_near(b, "attn_fwd lse", &a->d_lse, a->lse, EPS_F32, score_error);
}
/* On a GPU float16 takes the same kernels as f32, so every third case suffices. */
static int last_type(const bench *b, int i) { return i % 3 == 0 || on_cpu(b) ? TRI_F16 : TRI_BF16; }
/* In brief runs the types take turns, but each of a GPU's kernels is launched and judged. */
static bool is_left_out(int i, int t) {
  if (getenv("TRI_CPU_BF16") && t != TRI_BF16) return true; /* isa.c: the other cases do not depend on it */
  return (i + t) % test_step(3);
}

static void run_fwd(bench *b) {
  for (int i = 0; i < N_FWD_CASES; i++)
    for (int t = TRI_F32; t <= last_type(b, i); t++) {
      attn_data a;
      if (on_cpu(b) && is_left_out(i, t)) continue;
      load(b, &a, fwd_case(i), (tri_dtype)t);
      forward(b, &a);
      expect_fwd(b, &a);
      unload(b, &a);
    }
}
static void test_fwd(void **state) {
  (void)state;
  for_each_device(run_fwd);
}

/* loss = sum of dout * o, for the central differences. */
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
  static const attn_case small[] = {{4, 2, 6, 3, {5, 0, 3}, 0, 0}, {4, 2, 6, 3, {5, 0, 3}, 2, 1.5}};
  for (int c = 0; c < 2; c++) {
    attn_data a;
    double   *grad;
    load(b, &a, &small[c], TRI_F32);
    naive_fwd(&a, a.o, a.lse);
    grad = host((size_t)(a.N * a.E), sizeof *grad);
    naive_bwd(&a, grad, NULL);
    for (int64_t i = 0; i < a.N * a.E; i++) {
      double want = slope(attn_loss, &a, a.qkv + i);
      if (!(fabs(grad[i] - want) < 1e-8))
        fail_msg("the loop's dqkv[%d] is %.12g, differences say %.12g", (int)i, grad[i], want);
    }
    free(grad);
    unload(b, &a);
  }
}
static void test_bwd_loop(void **state) {
  (void)state;
  for_each_device(run_bwd_loop);
}

/* Derived as for the forward pass. Terms of dk and dv sum to at most len * max |p| <= a few for each head of
 * the group, and the factor dp - delta is at most 4 sqrt(D) in size. If p and ds are rounded before they are
 * multiplied (rounds_weights), each term errs by its own size. */
static void expect_bwd(bench *b, const attn_data *a, const tri_tensor *dqkv) {
  double  half = half_unit(a->d_qkv.dtype), terms = rounds_weights(b, a->d_qkv.dtype) ? half : 0;
  double  error = 16 * (a->c->D + 16) * sqrt(a->c->D) * EPS_F32 * (a->c->H / a->c->G);
  double *want = host((size_t)(a->N * a->E), sizeof *want), *size = host((size_t)(a->N * a->E), sizeof *size);
  double *got = get_real(b, dqkv);
  naive_bwd(a, want, size);
  for (int64_t i = 0; i < a->N * a->E; i++) {
    double bound = error + terms * (1 + half) * size[i] + half * fabs(want[i]);
    if (!(fabs(got[i] - want[i]) <= bound))
      fail_msg("attn_bwd, %d heads of %d, width %d: row %d, column %d is %.9g, want %.9g within %.3g",
               a->c->H, a->c->G, a->c->D, (int)(i / a->E), (int)(i % a->E), got[i], want[i], bound);
  }
  free(want);
  free(size);
  free(got);
}
static void run_bwd(bench *b) {
  for (int i = 0; i < N_BWD_CASES; i++)
    for (int t = TRI_F32; t <= last_type(b, i); t++) {
      attn_data  a;
      tri_tensor dqkv;
      if (on_cpu(b) && is_left_out(i, t)) continue;
      load(b, &a, bwd_case(i), (tri_dtype)t);
      forward_by_judge(b, &a);
      dqkv = backward(b, &a);
      expect_bwd(b, &a, &dqkv);
      unload(b, &a);
    }
}
static void test_bwd(void **state) {
  (void)state;
  for_each_device(run_bwd);
}

/* Makes a batch of sequence s alone, with its rows of qkv and of the other arrays. */
typedef struct attn_alone {
  tri_tensor qkv, dout, o, lse, cu;
} attn_alone;
static attn_alone alone(bench *b, const attn_data *a, int s, int len) {
  int32_t    cu[2] = {0, len};
  attn_alone one = {tri_rows(&a->d_qkv, a->cu[s], len), tri_rows(&a->d_dout, a->cu[s], len),
                    tri_rows(&a->d_o, a->cu[s], len), tri_rows(&a->d_lse, a->cu[s], len),
                    put_i32(b, 2, 0, cu)};
  return one;
}

/* Checks that every sequence alone, and cut short, gives the bits it has in the batch. */
static void run_company(bench *b) {
  for (int i = 0; i < N_FWD_CASES; i++)
    for (int t = TRI_F32; t <= last_type(b, i); t++) {
      attn_data a;
      if (is_left_out(i, t)) continue;
      load(b, &a, fwd_case(i), (tri_dtype)t);
      forward(b, &a);
      for (int s = 0; s < a.c->S; s++)
        for (int cut = 0; cut <= 3; cut += 3) {
          int        keep = b->n_arrays, len = a.c->len[s] > cut ? a.c->len[s] - cut : a.c->len[s];
          attn_alone one = alone(b, &a, s, len);
          tri_tensor o = make(b, a.d_o.dtype, len, a.c->H * a.c->D), lse = make(b, TRI_F32, len, a.c->H);
          ok(b->k->attn_fwd(b->stream, &o, &lse, &one.qkv, &one.cu, &a.rule));
          expect_same_rows(b, "o of one sequence", &one.o, 0, &o, 0, len);
          expect_same_rows(b, "lse of one sequence", &one.lse, 0, &lse, 0, len);
          drop_arrays(b, keep);
        }
      unload(b, &a);
    }
}
static void test_company(void **state) {
  (void)state;
  for_each_device(run_company);
}

/* The same for the gradient, of whole sequences. */
static void run_bwd_company(bench *b) {
  for (int i = 0; i < N_BWD_CASES; i++)
    for (int t = TRI_F32; t <= last_type(b, i); t++) {
      attn_data  a;
      tri_tensor dqkv;
      if (bwd_case(i)->S == 1 || is_left_out(i, t)) continue; /* alone: nothing to compare */
      load(b, &a, bwd_case(i), (tri_dtype)t);
      forward_by_judge(b, &a);
      dqkv = backward(b, &a);
      for (int s = 0; s < a.c->S && a.c->S > 1; s++) {
        int        keep = b->n_arrays, len = a.c->len[s];
        attn_alone one = alone(b, &a, s, len);
        tri_tensor dq = make(b, a.d_o.dtype, len, a.E);
        tri_tensor work = make(b, TRI_F32, tri_attn_work(&a.rule.heads, len), 0);
        ok(b->k->attn_bwd(b->stream, &dq, &work, &one.dout, &one.o, &one.lse, &one.qkv, &one.cu, &a.rule));
        expect_same_rows(b, "dqkv of one sequence", &dqkv, a.cu[s], &dq, 0, len);
        drop_arrays(b, keep);
      }
      unload(b, &a);
    }
}
static void test_bwd_company(void **state) {
  (void)state;
  for_each_device(run_bwd_company);
}

/* A cache array of P pages, keys as [P,G,D,TRI_PAGE], values as [P,G,TRI_PAGE,D]. */
static tri_tensor as_pages(tri_tensor t, int64_t P, int64_t G, int64_t d2, int64_t d3) {
  tri_tensor v = {t.data, t.dtype, 4, {P, G, d2, d3}};
  return v;
}

/* Puts all tokens of the case into pages in scattered order. page_of[s * P + i] is page i of sequence s. */
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
  ok(b->k->kv_put(b->stream, k_page, v_page, &a->d_qkv, &d_slot, &a->rule.heads));
  free(slot);
}

/* Decodes every token of the batch, all at once, spread or not, and one by one. Each gives attn_fwd's rows.
 * The cache behind a row's length (NaN, later tokens) does not matter. */
static void expect_decode(bench *b, attn_data *a) {
  enum { P = 5 };
  tri_tensor k_page, v_page, o, work, d_table, d_len;
  int32_t    page_of[6 * P], *table = host((size_t)(a->N * P), 4), *len = host((size_t)a->N, 4);
  fill_cache(b, a, P, &k_page, &v_page, page_of);
  for (int s = 0; s < a->c->S; s++)
    for (int64_t n = a->cu[s]; n < a->cu[s + 1]; n++) {
      memcpy(table + n * P, page_of + s * P, (size_t)P * sizeof *table);
      len[n] = (int32_t)(n - a->cu[s] + 1);
    }
  d_table = put_i32(b, a->N, P, table);
  d_len = put_i32(b, a->N, 0, len);
  work = make(b, TRI_F32, tri_attn_spread_work(&a->rule.heads, a->N, P), 0);
  for (int spread = 0; spread < (on_cpu(b) ? 1 : 2); spread++) {
    o = make(b, a->d_o.dtype, a->N, a->c->H * a->c->D);
    ok(b->k->attn_decode(b->stream, &o, spread ? &work : NULL, &a->d_qkv, &k_page, &v_page, &d_table, &d_len,
                         &a->rule));
    expect_same_rows(b, spread ? "attn_decode, spread" : "attn_decode of all rows", &a->d_o, 0, &o, 0, a->N);
  }
  for (int64_t n = 0; n < a->N; n += 1 + a->N / 7) {
    tri_tensor one = tri_rows(&o, 0, 1), x = tri_rows(&a->d_qkv, n, 1);
    tri_tensor row = tri_rows(&d_table, n, 1), length = tri_rows(&d_len, n, 1);
    ok(b->k->attn_decode(b->stream, &one, NULL, &x, &k_page, &v_page, &row, &length, &a->rule));
    expect_same_rows(b, "attn_decode of one row", &a->d_o, n, &one, 0, 1);
  }
  free(table);
  free(len);
}
static void run_decode(bench *b) {
  for (int i = 0; i < N_FWD_CASES; i++)
    for (int t = TRI_F32; t <= last_type(b, i); t++) {
      attn_data a;
      bool own = !on_cpu(b) && (fwd_case(i)->window > 0 || fwd_case(i)->cap > 0); /* a kernel of its own */
      if (is_left_out(i, t) && !own) continue;
      load(b, &a, fwd_case(i), (tri_dtype)t);
      forward(b, &a);
      expect_decode(b, &a);
      unload(b, &a);
    }
}
static void test_decode(void **state) {
  (void)state;
  for_each_device(run_decode);
}

/* Later keys are longer. So the largest score rises by far more than a factor of 2^8 from tile to tile, and
 * the earlier sums are rescaled. */
static void run_growing(bench *b) {
  static const attn_case c[] = {{2, 1, 64, 2, {160, 100}, 0, 0}, {4, 2, 256, 1, {130}, 0, 0}};
  for (int i = 0; i < 2; i++)
    for (int t = TRI_F32; t <= last_type(b, i); t++) {
      attn_data a;
      load(b, &a, &c[i], (tri_dtype)t);
      a.grown = 1 + 160 / 8;
      for (int s = 0; s < c[i].S; s++)
        for (int64_t n = a.cu[s]; n < a.cu[s + 1]; n++)
          for (int64_t e = 0; e < c[i].G * c[i].D; e++)
            a.qkv[n * a.E + c[i].H * c[i].D + e] *= 1 + (double)(n - a.cu[s]) / 8;
      a.d_qkv = put_real(b, (tri_dtype)t, a.N, a.E, a.qkv);
      forward(b, &a);
      expect_fwd(b, &a);
      expect_decode(b, &a);
      unload(b, &a);
    }
}

/* Each of 300 sequences of 0 to 2 tokens is found. A row that sees only itself gives back its own v. */
static void run_many(bench *b) {
  enum { S = 300, H = 2, G = 1, D = 16, E = (H + 2 * G) * D, N = S };
  tri_attn_rule rule = {{H, G, D}, 0.25f, 0, 0, 0};
  int32_t      *cu = host(S + 1, sizeof *cu);
  double       *x = numbers(1, N * E, 2), *got;
  tri_tensor    qkv = put_real(b, TRI_BF16, N, E, x), out = make(b, TRI_BF16, N, H * D);
  tri_tensor    lse = make(b, TRI_F32, N, H), d_cu;
  for (int s = 0; s < S; s++) cu[s + 1] = cu[s] + (s + 1) % 3;
  d_cu = put_i32(b, S + 1, 0, cu);
  qkv.dim[0] = out.dim[0] = lse.dim[0] = cu[S];
  ok(b->k->attn_fwd(b->stream, &out, &lse, &qkv, &d_cu, &rule));
  got = get_real(b, &out);
  for (int s = 0; s < S; s++)
    for (int e = 0; e < H * D && cu[s + 1] > cu[s]; e++)
      if (got[cu[s] * H * D + e] != x[cu[s] * E + (H + G) * D + e % D])
        fail_msg("sequence %d: o[%d] is not the first token's v", s, e);
  free(cu);
  free(x);
  free(got);
  drop_arrays(b, 0);
}

/* Heads wider than a back end's kernels are refused, not computed wrong. */
static void run_wide(bench *b) {
  attn_case  c = {1, 1, 258, 1, {70}, 0, 0};
  attn_data  a;
  tri_status st;
  load(b, &a, &c, TRI_BF16);
  st = b->k->attn_fwd(b->stream, &a.d_o, &a.d_lse, &a.d_qkv, &a.d_cu, &a.rule);
  if (st == TRI_OK) {
    tri_tensor dqkv;
    expect_fwd(b, &a);
    forward_by_judge(b, &a);
    dqkv = backward(b, &a);
    expect_bwd(b, &a, &dqkv);
  } else {
    assert_int_equal(st, TRI_EDEVICE);
    assert_non_null(strstr(tri_error_trace(), "258"));
    tri_error_clear();
  }
  unload(b, &a);
}
static void test_extremes(void **state) {
  (void)state;
  for_each_device(run_growing);
  for_each_device(run_many);
  for_each_device(run_wide);
}

/* Checks each element of the cache, and slot -1. */
static void run_kv_put(bench *b) {
  for (int t = TRI_F32; t <= TRI_F16; t++) {
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
          int  head = (slot[n] / TRI_PAGE * G + g) * D * TRI_PAGE, place = slot[n] % TRI_PAGE;
          bool pairs = on_cpu(b) && rounds_weights(b, (tri_dtype)t); /* attention_pairs.c */
          int  k_at = pairs ? (d / 2 * TRI_PAGE + place) * 2 + d % 2 : d * TRI_PAGE + place;
          int  v_at = pairs ? (place / 2 * D + d) * 2 + place % 2 : place * D + d;
          k_want[head + k_at] = x[n * E + (H + g) * D + d];
          v_want[head + v_at] = x[n * E + (H + G + g) * D + d];
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
  for_each_device(run_kv_put);
}

/* A NaN or infinite token does not reach the rows that do not see it. These are the rows before it, and those
 * with a window past it. On a GPU this holds for f32. */
static void run_nan(bench *b) {
  static const attn_case cases_of[] = {{2, 1, 16, 1, {20}, 0, 0}, {3, 1, 64, 1, {150}, 9, 0}};
  for (int i = 0; i < 4; i++)
    for (int t = TRI_F32; t <= (on_cpu(b) ? TRI_F16 : TRI_F32); t++) {
      const attn_case *c = &cases_of[i / 2];
      attn_data        a;
      tri_tensor       first;
      int              behind = c->window > 0 ? 13 + c->window : c->len[0];
      load(b, &a, c, (tri_dtype)t);
      forward(b, &a);
      for (int64_t e = 0; e < a.E; e++) a.qkv[13 * a.E + e] = i % 2 ? INFINITY : NAN;
      a.d_qkv = put_real(b, (tri_dtype)t, a.N, a.E, a.qkv);
      first = a.d_o;
      a.d_o = make(b, (tri_dtype)t, a.N, c->H * c->D);
      forward(b, &a);
      expect_same_rows(b, "rows before a NaN", &first, 0, &a.d_o, 0, 13);
      expect_same_rows(b, "rows that have passed a NaN", &first, behind, &a.d_o, behind, c->len[0] - behind);
      if (on_cpu(b)) expect_decode(b, &a);
      unload(b, &a);
    }
}
/* A sequence of NaN does not reach its neighbours. */
static void run_sequence_nan(bench *b) {
  static const attn_case c = {2, 1, 64, 3, {20, 7, 90}, 0, 0};
  for (int t = TRI_F32; t <= TRI_F16; t++) {
    attn_data  a;
    tri_tensor first;
    load(b, &a, &c, (tri_dtype)t);
    forward(b, &a);
    for (int64_t e = a.cu[1] * a.E; e < a.cu[2] * a.E; e++) a.qkv[e] = NAN;
    a.d_qkv = put_real(b, (tri_dtype)t, a.N, a.E, a.qkv);
    first = a.d_o;
    a.d_o = make(b, (tri_dtype)t, a.N, c.H * c.D);
    forward(b, &a);
    expect_same_rows(b, "rows before a NaN's sequence", &first, 0, &a.d_o, 0, a.cu[1]);
    expect_same_rows(b, "rows behind a NaN's sequence", &first, a.cu[2], &a.d_o, a.cu[2], c.len[2]);
    unload(b, &a);
  }
}
/* A sequence of NaN does not reach its neighbours' gradients. */
static void run_bwd_nan(bench *b) {
  static const attn_case c[] = {{2, 1, 16, 3, {20, 7, 9}, 0, 0}, {2, 1, 64, 3, {20, 7, 9}, 0, 0}};
  for (int i = 0; i < 2; i++)
    for (int t = TRI_F32; t <= TRI_F16; t++) {
      attn_data  a;
      tri_tensor first, second;
      load(b, &a, &c[i], (tri_dtype)t);
      forward_by_judge(b, &a);
      first = backward(b, &a);
      for (int64_t e = a.cu[1] * a.E; e < a.cu[2] * a.E; e++) a.qkv[e] = NAN;
      for (int64_t e = a.cu[1]; e < a.cu[2]; e++) a.lse[e * c[i].H] = NAN;
      a.d_qkv = put_real(b, (tri_dtype)t, a.N, a.E, a.qkv);
      a.d_lse = put_real(b, TRI_F32, a.N, c[i].H, a.lse);
      second = backward(b, &a);
      expect_same_rows(b, "gradients before a NaN's sequence", &first, 0, &second, 0, a.cu[1]);
      expect_same_rows(b, "gradients behind a NaN's sequence", &first, a.cu[2], &second, a.cu[2],
                       c[i].len[2]);
      unload(b, &a);
    }
}
static void test_nan(void **state) {
  (void)state;
  for_each_device(run_nan);
  for_each_device(run_sequence_nan);
  for_each_device(run_bwd_nan);
}

static uint64_t seen[96]; /* hashes of the run with one thread */
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

/* Brief runs have one run on a GPU, and nothing to compare it with. */
static bool has_one_run(const bench *b) { return !on_cpu(b) && test_step(2) > 1; }

static void run_threads(bench *b) {
  if (has_one_run(b)) return;
  if (b->device->threads == 1) n_seen = 0;
  for (int i = 0; i < N_CASES; i++) {
    attn_data a;
    load(b, &a, &cases[i], i % 2 ? TRI_BF16 : TRI_F32);
    forward(b, &a);
    remember_or_compare(b, &a.d_o);
    unload(b, &a);
  }
}
static void run_bwd_threads(bench *b) {
  if (has_one_run(b)) return;
  if (b->device->threads == 1) n_seen = 0;
  for (int i = 0; i < N_BWD_CASES; i++) {
    attn_data  a;
    tri_tensor dqkv;
    if (on_cpu(b) && i % test_step(2)) continue; /* test_bwd runs the other cases too */
    load(b, &a, bwd_case(i), i % 2 || i >= N_CASES ? TRI_BF16 : TRI_F32);
    forward_by_judge(b, &a);
    dqkv = backward(b, &a);
    remember_or_compare(b, &dqkv);
    unload(b, &a);
  }
}
static void test_threads(void **state) {
  (void)state;
  for_each_device(run_threads);
  for_each_device(run_bwd_threads);
}

/* On a GPU with 99 KiB of shared memory per block, wide heads take the small forms of the kernels. They give
 * the bits of the others. */
static void run_forms(bench *b) {
  static const attn_case wide[] = {{2, 1, 256, 2, {35, 66}, 0, 0},  {1, 1, 254, 1, {130}, 0, 0},
                                   {1, 1, 256, 1, {98}, 31, 3},     {1, 1, 100, 1, {70}, 64, 4},
                                   {2, 1, 128, 2, {131, 33}, 0, 0}, {1, 1, 192, 1, {50}, 20, 0}};
  for (int i = 0; i < (int)(sizeof wide / sizeof *wide); i++)
    for (int t = TRI_F32; t <= last_type(b, i); t++) {
      attn_data  a;
      tri_tensor dqkv;
      load(b, &a, &wide[i], (tri_dtype)t);
      forward(b, &a);
      remember_or_compare(b, &a.d_o);
      remember_or_compare(b, &a.d_lse);
      expect_decode(b, &a);
      dqkv = backward(b, &a);
      remember_or_compare(b, &dqkv);
      unload(b, &a);
    }
}
static void test_forms(void **state) {
  tri_device *refused;
  bench       b;
  (void)state;
  if (!TRI_CUDA_EMULATED) return; /* a real GPU's shared memory cannot be changed */
  n_seen = 0;
  bench_open(&b, "cuda", 1);
  run_forms(&b);
  bench_close(&b);
  assert_int_equal(setenv("TRI_EMULATE_SHARED", "101376", 1), 0);
  bench_open(&b, "cuda", 2); /* compares */
  run_forms(&b);
  bench_close(&b);
  assert_int_equal(at_seen, n_seen);
  assert_int_equal(setenv("TRI_EMULATE_SHARED", "101375", 1), 0);
  assert_int_equal(tri_device_open("cuda", 0, 1, &refused), TRI_EDEVICE);
  assert_non_null(strstr(tri_error_trace(), "99 KiB"));
  tri_error_clear();
  assert_int_equal(unsetenv("TRI_EMULATE_SHARED"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fwd),      cmocka_unit_test(test_bwd_loop), cmocka_unit_test(test_bwd),
      cmocka_unit_test(test_company),  cmocka_unit_test(test_decode),   cmocka_unit_test(test_kv_put),
      cmocka_unit_test(test_nan),      cmocka_unit_test(test_threads),  cmocka_unit_test(test_bwd_company),
      cmocka_unit_test(test_extremes), cmocka_unit_test(test_forms),
  };
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
