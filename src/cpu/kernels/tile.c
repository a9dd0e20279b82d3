/* tile.c - products and loads of tiles, the inner loops of attention. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"
#include "cpu/pairs/pairs.h"

#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>

/* Does the work of tile_rows below for two vectors of 16 columns. Both share each broadcast of an element of
 * a. */
static inline __attribute__((always_inline)) void tile_pair(const int R, const bool add, const bool turned,
                                                            float *restrict c, int64_t       ldc,
                                                            const float *restrict a, int64_t lda,
                                                            const float *restrict b, int64_t ldb, int n_k) {
  const int64_t by_row = turned ? 1 : lda, by_k = turned ? lda : 1;
  __m512        s[8][2];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) {
    s[r][0] = add ? _mm512_loadu_ps(c + r * ldc) : _mm512_setzero_ps();
    s[r][1] = add ? _mm512_loadu_ps(c + r * ldc + 16) : _mm512_setzero_ps();
  }
  for (int k = 0; k < n_k; k++, a += by_k, b += ldb) {
    __m512 w0 = _mm512_loadu_ps(b), w1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      __m512 x = _mm512_set1_ps(a[r * by_row]);
      s[r][0] = _mm512_fmadd_ps(x, w0, s[r][0]);
      s[r][1] = _mm512_fmadd_ps(x, w1, s[r][1]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
    _mm512_storeu_ps(c + r * ldc, s[r][0]), _mm512_storeu_ps(c + r * ldc + 16, s[r][1]);
}
enum { PAIR = 32 }; /* columns */
#else
#define tile_pair(...) (void)0
enum { PAIR = INT32_MAX };
#endif

/* R rows at once share each load of b. Lanes run over columns, so the sum of every element is sequential in
 * k. If turned, element [r,k] of a is a[k * lda + r], else a[r * lda + k]. R, add and turned are constants at
 * every call. */
static inline __attribute__((always_inline)) void
tile_rows(const int R, const bool add, const bool turned, float *restrict c, int64_t ldc,
          const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb, int n_k, int n_col) {
  const int64_t one = turned ? 1 : lda, by_k = turned ? lda : 1;
  int           at = 0;
  for (; n_col - at >= PAIR; at += PAIR) tile_pair(R, add, turned, c + at, ldc, a, lda, b + at, ldb, n_k);
  TRI_SIMD_OUTER
  for (int l = at; l < n_col; l++) {
    float s0 = add ? c[l] : 0, s1 = add && R > 1 ? c[ldc + l] : 0;
    float s2 = add && R > 2 ? c[2 * ldc + l] : 0, s3 = add && R > 3 ? c[3 * ldc + l] : 0;
    float s4 = add && R > 4 ? c[4 * ldc + l] : 0, s5 = add && R > 5 ? c[5 * ldc + l] : 0;
    float s6 = add && R > 6 ? c[6 * ldc + l] : 0, s7 = add && R > 7 ? c[7 * ldc + l] : 0;
    int   k = 0;
    do { /* gcc vectorises the outer loop only if this loop is known to run at least once */
      float w = b[k * ldb + l];
      s0 = fmaf(a[k * by_k], w, s0);
      if (R > 1) s1 = fmaf(a[k * by_k + one], w, s1);
      if (R > 2) s2 = fmaf(a[k * by_k + 2 * one], w, s2);
      if (R > 3) s3 = fmaf(a[k * by_k + 3 * one], w, s3);
      if (R > 4) s4 = fmaf(a[k * by_k + 4 * one], w, s4);
      if (R > 5) s5 = fmaf(a[k * by_k + 5 * one], w, s5);
      if (R > 6) s6 = fmaf(a[k * by_k + 6 * one], w, s6);
      if (R > 7) s7 = fmaf(a[k * by_k + 7 * one], w, s7);
    } while (++k < n_k);
    c[l] = s0;
    if (R > 1) c[ldc + l] = s1;
    if (R > 2) c[2 * ldc + l] = s2;
    if (R > 3) c[3 * ldc + l] = s3;
    if (R > 4) c[4 * ldc + l] = s4;
    if (R > 5) c[5 * ldc + l] = s5;
    if (R > 6) c[6 * ldc + l] = s6;
    if (R > 7) c[7 * ldc + l] = s7;
  }
}

/* Handles any number of rows. n_k >= 1. */
static inline __attribute__((always_inline)) void tile_all(const bool add, const bool turned, float *c,
                                                           int64_t ldc, const float *a, int64_t lda,
                                                           const float *b, int64_t ldb, int n_row, int n_k,
                                                           int n_col) {
  const int64_t one = turned ? 1 : lda;
  int           r = 0;
  for (; r + 8 <= n_row; r += 8)
    tile_rows(8, add, turned, c + r * ldc, ldc, a + r * one, lda, b, ldb, n_k, n_col);
  if (r + 4 <= n_row)
    tile_rows(4, add, turned, c + r * ldc, ldc, a + r * one, lda, b, ldb, n_k, n_col), r += 4;
  if (r + 2 <= n_row)
    tile_rows(2, add, turned, c + r * ldc, ldc, a + r * one, lda, b, ldb, n_k, n_col), r += 2;
  if (r < n_row) tile_rows(1, add, turned, c + r * ldc, ldc, a + r * one, lda, b, ldb, n_k, n_col);
}

void tri_cpu_tile_mul(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
                      int n_row, int n_k, int n_col) {
  tile_all(false, false, c, ldc, a, lda, b, ldb, n_row, n_k, n_col);
}

void tri_cpu_tile_add(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
                      int n_row, int n_k, int n_col) {
  if (n_k > 0) tile_all(true, false, c, ldc, a, lda, b, ldb, n_row, n_k, n_col);
}

void tri_cpu_tile_add_turned(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
                             int n_row, int n_k, int n_col) {
  if (n_k > 0) tile_all(true, true, c, ldc, a, lda, b, ldb, n_row, n_k, n_col);
}

/* ---- rows of scores, n a multiple of TRI_PAGE ---- */

#if defined(__AVX512F__)
/* tri_exp for x up to TRI_EXP_HIGH with the same error, and the power of two by one instruction. */
static inline __attribute__((always_inline)) __m512 exp_16(__m512 x) {
  const __mmask16 near = _mm512_cmp_ps_mask(x, _mm512_set1_ps(TRI_EXP_LOW), _CMP_NLT_UQ); /* NaN too */
  const __m512    t = _mm512_max_ps(_mm512_set1_ps(TRI_EXP_LOW), x);                      /* keeps a NaN */
  const __m512    n = _mm512_roundscale_ps(_mm512_mul_ps(t, _mm512_set1_ps(1.44269504088896341f)), 8);
  __m512          r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693359375f), t), p;
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), r);
  p = _mm512_fmadd_ps(_mm512_set1_ps(1.9875691500e-4f), r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  return _mm512_maskz_scalef_ps(near, p, n);
}

/* Mask of lanes with first <= at + i < end. */
static inline __mmask16 lanes_of(int at, int first, int end) {
  const uint32_t from = first <= at ? 0xffffu : first >= at + 16 ? 0 : 0xffffu << (first - at);
  const uint32_t to = end >= at + 16 ? 0xffffu : end <= at ? 0 : (1u << (end - at)) - 1;
  return (__mmask16)(from & to);
}

float tri_cpu_tile_top(const float *s, int n) {
  __m512 a = _mm512_set1_ps(-INFINITY), b = a;
  for (int i = 0; i < n; i += TRI_PAGE) {
    a = _mm512_max_ps(_mm512_loadu_ps(s + i), a); /* skips NaN, exp will show it */
    b = _mm512_max_ps(_mm512_loadu_ps(s + i + 16), b);
  }
  return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}

float tri_cpu_tile_weigh(float *s, int n, float top) {
  const __m512 less = _mm512_set1_ps(top);
  __m512       a = _mm512_setzero_ps(), b = a;
  for (int i = 0; i < n; i += TRI_PAGE) {
    const __m512 e = exp_16(_mm512_sub_ps(_mm512_loadu_ps(s + i), less)),
                 f = exp_16(_mm512_sub_ps(_mm512_loadu_ps(s + i + 16), less));
    _mm512_storeu_ps(s + i, e), _mm512_storeu_ps(s + i + 16, f);
    a = _mm512_add_ps(a, e), b = _mm512_add_ps(b, f);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(a, b));
}

void tri_cpu_tile_grad(float *p, float *ds, const float *lse, const float *delta, int n, int first, int end) {
  for (int i = 0; i < n; i += 16) {
    const __mmask16 m = lanes_of(i, first, end);
    const __m512    e =
        _mm512_maskz_mov_ps(m, exp_16(_mm512_sub_ps(_mm512_loadu_ps(p + i), _mm512_loadu_ps(lse + i))));
    const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(ds + i), _mm512_loadu_ps(delta + i));
    _mm512_storeu_ps(p + i, e);
    _mm512_storeu_ps(ds + i, _mm512_mul_ps(e, d));
  }
}
#else
float tri_cpu_tile_top(const float *s, int n) {
  float lane[TRI_CPU_LANES];
  for (int i = 0; i < TRI_CPU_LANES; i++) lane[i] = -INFINITY;
  for (int at = 0; at < n; at += TRI_CPU_LANES) {
#pragma omp simd
    for (int i = 0; i < TRI_CPU_LANES; i++) lane[i] = tri_cpu_max(s[at + i], lane[i]);
  }
  return tri_cpu_fold_max(lane);
}

float tri_cpu_tile_weigh(float *s, int n, float top) {
  float lane[TRI_CPU_LANES] = {0};
  for (int at = 0; at < n; at += TRI_CPU_LANES) {
#pragma omp simd
    for (int i = 0; i < TRI_CPU_LANES; i++) {
      float e = tri_exp(s[at + i] - top);
      s[at + i] = e;
      lane[i] += e;
    }
  }
  return tri_cpu_fold_sum(lane);
}
_Static_assert((int)TRI_CPU_LANES == (int)TRI_PAGE, "a panel's keys are the lanes of sums");

void tri_cpu_tile_grad(float *p, float *ds, const float *lse, const float *delta, int n, int first, int end) {
#pragma omp simd
  for (int i = 0; i < n; i++) {
    float e = i < first || i >= end ? 0.0f : tri_exp(p[i] - lse[i]);
    p[i] = e;
    ds[i] = e * (ds[i] - delta[i]);
  }
}
#endif

/* ---- loads ---- */

void tri_cpu_tile_rows(float *tile, int64_t ld_tile, const void *x, tri_dtype A, int64_t ld, int n, int D,
                       float scale) {
  for (int r = 0; r < n; r++)
    TRI_CPU_OF(A, tri_cpu_widen, tile + r * ld_tile, tri_cpu_at(x, A, r * ld), D, scale);
}

/* Transposes R rows (a constant) into columns. */
static TRI_CPU_EACH void turn_rows(const tri_dtype A, const int R, float *to, const void *from, int64_t ld,
                                   int D, float scale) {
  for (int d = 0; d < D; d++)
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) to[d * TRI_PAGE + r] = tri_cpu_get(from, A, r * ld + d) * scale;
}

void tri_cpu_tile_turn(float *tile, const void *x, tri_dtype A, int64_t ld, int n, int D, float scale) {
  int r = 0;
#if TRI_PAIRS_X86
  /* tri_pairs_turn writes whole vectors */
  if (A == TRI_F32 && scale == 1.0f && D % 16 == 0 && tri_pairs_f32_avx512()) {
    tri_pairs_turn((uint32_t *)(void *)tile, TRI_PAGE, x, ld, n, D);
    r = n;
  }
#endif
  for (; r + 8 <= n; r += 8) TRI_CPU_OF(A, turn_rows, 8, tile + r, tri_cpu_at(x, A, r * ld), ld, D, scale);
  for (; r < n; r++) TRI_CPU_OF(A, turn_rows, 1, tile + r, tri_cpu_at(x, A, r * ld), ld, D, scale);
  if (n < TRI_PAGE)
    for (int d = 0; d < D; d++) memset(tile + d * TRI_PAGE + n, 0, (size_t)(TRI_PAGE - n) * sizeof *tile);
}
