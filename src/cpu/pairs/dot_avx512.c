/* dot_avx512.c - products of bf16 tiles with AVX512-BF16, VDPBF16PS, a pair of the left operand per
 * vector. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#if TRI_PAIRS_X86
#include <immintrin.h>

#define INLINE TRI_PAIRS_TARGET __attribute__((always_inline)) inline

/* Returns a pair of the left operand in all lanes. */
static INLINE __m512bh spread(const uint16_t *a) {
  int32_t pair;
  __builtin_memcpy(&pair, a, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}
static INLINE __m512bh pairs_at(const uint32_t *b) { return (__m512bh)_mm512_loadu_si512(b); }

/* Accumulates R rows (a constant) and two vectors of columns, v apart, over n_pair pairs. */
static INLINE void step(const int R, __m512 sum[8][2], const uint16_t *a, int64_t lda, const uint32_t *b,
                        int64_t ldb, int64_t v, int n_pair) {
  for (int k = 0; k < n_pair; k++) {
    __m512bh b0 = pairs_at(b + k * ldb), b1 = pairs_at(b + k * ldb + v);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      __m512bh w = spread(a + r * lda + 2 * k);
      sum[r][0] = _mm512_dpbf16_ps(sum[r][0], w, b0);
      sum[r][1] = _mm512_dpbf16_ps(sum[r][1], w, b1);
    }
  }
}
static INLINE void load(const int R, __m512 sum[8][2], const float *c, int64_t ldc, int64_t v) {
#pragma GCC        unroll 8
  for (int r = 0; r < R; r++)
    sum[r][0] = _mm512_loadu_ps(c + r * ldc), sum[r][1] = _mm512_loadu_ps(c + r * ldc + v);
}
static INLINE void store(const int R, float *c, int64_t ldc, __m512 sum[8][2], int64_t v) {
#pragma GCC        unroll 8
  for (int r = 0; r < R; r++)
    _mm512_storeu_ps(c + r * ldc + v, sum[r][1]), _mm512_storeu_ps(c + r * ldc, sum[r][0]);
}

static INLINE void scores_rows(const int R, float *c, int64_t ldc, const uint16_t *a, int64_t lda,
                               const uint32_t *const *panel, int n_panel, int n_k) {
  for (int i = 0; i < n_panel; i++) {
    __m512 sum[8][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    step(R, sum, a, lda, panel[i], TRI_PAGE, 16, n_k / 2);
    store(R, c + i * TRI_PAGE, ldc, sum, 16);
  }
}

static INLINE void sums_rows(const int R, float *c, int64_t ldc, const uint16_t *a, int64_t lda,
                             const uint32_t *const *panel, int64_t ldb, int n_panel, int n_col) {
  for (int at = 0; at < n_col; at += 32) {
    int64_t v = at + 16 < n_col ? 16 : 0; /* a single last vector serves as both */
    __m512  sum[8][2];
    load(R, sum, c + at, ldc, v);
    for (int i = 0; i < n_panel; i++)
      step(R, sum, a + i * TRI_PAGE, lda, panel[i] + at, ldb, v, TRI_PAGE / 2);
    store(R, c + at, ldc, sum, v);
  }
}

/* Prefetches n_row rows of n pairs of each panel. */
static void fetch(const uint32_t *const *next, int n_panel, int64_t ld, int n_row, int n) {
  for (int i = 0; next && i < n_panel; i++)
    for (int r = 0; next[i] && r < n_row; r++)
      for (int j = 0; j < n; j += 16) __builtin_prefetch(next[i] + r * ld + j);
}

static TRI_PAIRS_TARGET void scores(float *c, int64_t ldc, const uint16_t *a, int64_t lda,
                                    const uint32_t *const *panel, const uint32_t *const *next, int n_panel,
                                    int n_row, int n_k) {
  fetch(next, n_panel, TRI_PAGE, n_k / 2, TRI_PAGE);
  for (; n_row >= 8; n_row -= 8, c += 8 * ldc, a += 8 * lda)
    scores_rows(8, c, ldc, a, lda, panel, n_panel, n_k);
  for (; n_row >= 4; n_row -= 4, c += 4 * ldc, a += 4 * lda)
    scores_rows(4, c, ldc, a, lda, panel, n_panel, n_k);
  for (; n_row >= 1; n_row -= 1, c += ldc, a += lda) scores_rows(1, c, ldc, a, lda, panel, n_panel, n_k);
}

static TRI_PAIRS_TARGET void sums(float *c, int64_t ldc, const uint16_t *a, int64_t lda,
                                  const uint32_t *const *panel, const uint32_t *const *next, int64_t ldb,
                                  int n_panel, int n_row, int n_col) {
  fetch(next, n_panel, ldb, TRI_PAGE / 2, n_col);
  for (; n_row >= 8; n_row -= 8, c += 8 * ldc, a += 8 * lda)
    sums_rows(8, c, ldc, a, lda, panel, ldb, n_panel, n_col);
  for (; n_row >= 4; n_row -= 4, c += 4 * ldc, a += 4 * lda)
    sums_rows(4, c, ldc, a, lda, panel, ldb, n_panel, n_col);
  for (; n_row >= 1; n_row -= 1, c += ldc, a += lda) sums_rows(1, c, ldc, a, lda, panel, ldb, n_panel, n_col);
}

static void begin(int n_row) { (void)n_row; }
static void end(void) {}

const tri_pairs tri_pairs_avx512 = {"avx512", begin, end, scores, sums};
#endif
