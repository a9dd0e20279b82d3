/* tile.c - products and loads of tiles: the inner loops of attention. */
#include "cpu.h"

#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>

/* As tile_rows below, two vectors of 16 columns: each broadcast of an element of a serves both. */
static inline __attribute__((always_inline)) void tile_pair(const int R, const int ldb, const bool add,
                                                            float *restrict c, int64_t       ldc,
                                                            const float *restrict a, int64_t lda,
                                                            const float *restrict b, int     n_k) {
  __m512 s[8][2];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) {
    s[r][0] = add ? _mm512_loadu_ps(c + r * ldc) : _mm512_setzero_ps();
    s[r][1] = add ? _mm512_loadu_ps(c + r * ldc + 16) : _mm512_setzero_ps();
  }
  for (int k = 0; k < n_k; k++) {
    __m512 w0 = _mm512_loadu_ps(b + k * ldb), w1 = _mm512_loadu_ps(b + k * ldb + 16);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      __m512 x = _mm512_set1_ps(a[r * lda + k]);
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

/* R rows at once share each load of b. Lanes run over columns, so that the sum of every element is
 * sequential in k. R, ldb and add are constants at every call. */
static inline __attribute__((always_inline)) void tile_rows(const int R, const int ldb, const bool add,
                                                            float *restrict c, int64_t       ldc,
                                                            const float *restrict a, int64_t lda,
                                                            const float *restrict b, int n_k, int n_col) {
  int at = 0;
  for (; n_col - at >= PAIR; at += PAIR) tile_pair(R, ldb, add, c + at, ldc, a, lda, b + at, n_k);
  TRI_SIMD_OUTER
  for (int l = at; l < n_col; l++) {
    float s0 = add ? c[l] : 0, s1 = add && R > 1 ? c[ldc + l] : 0;
    float s2 = add && R > 2 ? c[2 * ldc + l] : 0, s3 = add && R > 3 ? c[3 * ldc + l] : 0;
    float s4 = add && R > 4 ? c[4 * ldc + l] : 0, s5 = add && R > 5 ? c[5 * ldc + l] : 0;
    float s6 = add && R > 6 ? c[6 * ldc + l] : 0, s7 = add && R > 7 ? c[7 * ldc + l] : 0;
    int   k = 0;
    do { /* a loop known to run at least once: without that gcc does not vectorise the outer loop */
      float w = b[k * ldb + l];
      s0 = fmaf(a[k], w, s0);
      if (R > 1) s1 = fmaf(a[lda + k], w, s1);
      if (R > 2) s2 = fmaf(a[2 * lda + k], w, s2);
      if (R > 3) s3 = fmaf(a[3 * lda + k], w, s3);
      if (R > 4) s4 = fmaf(a[4 * lda + k], w, s4);
      if (R > 5) s5 = fmaf(a[5 * lda + k], w, s5);
      if (R > 6) s6 = fmaf(a[6 * lda + k], w, s6);
      if (R > 7) s7 = fmaf(a[7 * lda + k], w, s7);
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

void tri_cpu_tile_mul(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int n_row, int n_k,
                      int n_col) {
  int r = 0;
  for (; r + 8 <= n_row; r += 8)
    tile_rows(8, TRI_PAGE, false, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col);
  if (r + 4 <= n_row)
    tile_rows(4, TRI_PAGE, false, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col), r += 4;
  if (r + 2 <= n_row)
    tile_rows(2, TRI_PAGE, false, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col), r += 2;
  if (r < n_row) tile_rows(1, TRI_PAGE, false, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col);
}

void tri_cpu_tile_add(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int n_row, int n_k,
                      int n_col) {
  int r = 0;
  if (n_k <= 0) return;
  for (; r + 8 <= n_row; r += 8)
    tile_rows(8, TRI_CPU_LD, true, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col);
  if (r + 4 <= n_row)
    tile_rows(4, TRI_CPU_LD, true, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col), r += 4;
  if (r + 2 <= n_row)
    tile_rows(2, TRI_CPU_LD, true, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col), r += 2;
  if (r < n_row) tile_rows(1, TRI_CPU_LD, true, c + r * ldc, ldc, a + r * lda, lda, b, n_k, n_col);
}

void tri_cpu_tile_rows(float *tile, int64_t ld_tile, const void *x, tri_dtype A, int64_t ld, int n, int D,
                       float scale) {
  for (int r = 0; r < n; r++)
    TRI_CPU_OF(A, tri_cpu_widen, tile + r * ld_tile, tri_cpu_at(x, A, r * ld), D, scale);
}

/* R rows (a constant) become columns. */
static TRI_CPU_EACH void turn_rows(const tri_dtype A, const int R, float *to, const void *from, int64_t ld,
                                   int D, float scale) {
  for (int d = 0; d < D; d++)
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) to[d * TRI_PAGE + r] = tri_cpu_get(from, A, r * ld + d) * scale;
}

void tri_cpu_tile_turn(float *tile, const void *x, tri_dtype A, int64_t ld, int n, int D, float scale) {
  int r = 0;
  for (; r + 8 <= n; r += 8) TRI_CPU_OF(A, turn_rows, 8, tile + r, tri_cpu_at(x, A, r * ld), ld, D, scale);
  for (; r < n; r++) TRI_CPU_OF(A, turn_rows, 1, tile + r, tri_cpu_at(x, A, r * ld), ld, D, scale);
  if (n < TRI_PAGE)
    for (int d = 0; d < D; d++) memset(tile + d * TRI_PAGE + n, 0, (size_t)(TRI_PAGE - n) * sizeof *tile);
}
