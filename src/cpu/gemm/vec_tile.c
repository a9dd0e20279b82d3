/* vec_tile.c - multiplies tiles of f32 and builds their operands, with AVX-512. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vec.h"

#if TRI_PAIRS_X86
#include <immintrin.h>

#define INLINE TRI_AVX512_TARGET __attribute__((always_inline)) inline
/* 38 bodies of constant sizes, unrolled. Debug builds use one body for all sizes, because clang needs minutes
 * for 38 bodies under ASan. */
#if TRI_DEBUG
#define TILE TRI_AVX512_TARGET __attribute__((noinline))
#define UNROLL(n)
#else
#define TILE      INLINE
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif

/* 28 sums, two columns of b and one element of a use 31 of 32 registers. */
enum { ROWS = TRI_VEC_ROWS, COLS = TRI_VEC_COLS, LANES = 16, PANELS = 4 };
/* Steps by which panels are prefetched ahead of their use. Measured on a Xeon with AMX. */
enum { FAR = 24 };
/* Pieces prefetched ahead in an operand with distant rows. Measured likewise. */
enum { AHEAD = 6 };

/* Mask of the first n of 16 lanes. */
static INLINE __mmask16 lanes(int64_t n) {
  return (__mmask16)(n >= LANES ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

/* Writes the sums to y with bias and base added. The mask m limits vector v to the columns of y. */
static TILE void put_sums(const int R, const int V, const tri_vec_tile *t, __m512 s[ROWS][2 * PANELS]) {
  UNROLL(8)
  for (int v = 0; v < V; v++) {
    const __mmask16 m = lanes(t->n_col - v * LANES);
    const int64_t   at = v * LANES;
    const __m512    bias = t->bias ? _mm512_maskz_loadu_ps(m, t->bias + at) : _mm512_setzero_ps();
    UNROLL(14)
    for (int r = 0; r < R; r++) {
      if (t->bias) s[r][v] = _mm512_add_ps(s[r][v], bias);
      if (t->base) s[r][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(m, t->base + r * t->ld + at), s[r][v]);
      _mm512_mask_storeu_ps(t->y + r * t->ld + at, m, s[r][v]);
    }
  }
}

/* Adds the partial sums of the earlier chunks of k. */
static TILE void add_waiting(const int R, const int V, const tri_vec_tile *t, __m512 s[ROWS][2 * PANELS]) {
  UNROLL(14)
  for (int r = 0; r < R; r++) {
    UNROLL(8)
    for (int v = 0; v < V; v++)
      s[r][v] =
          _mm512_add_ps(_mm512_loadu_ps(t->wait + v / 2 * R * COLS + r * COLS + v % 2 * LANES), s[r][v]);
  }
}

/* Multiplies R rows by P panels. Element [r,k] of a lies at r * by_row + k * by_k. All four are constants. */
static TILE void multiply(const int R, const int P, const int by_row, const int by_k, const tri_vec_tile *t) {
  const float *a = t->a, *b = t->b, *end = t->b + t->k * COLS;
  __m512       s[ROWS][2 * PANELS];
  UNROLL(14)
  for (int r = 0; r < R; r++) {
    UNROLL(8)
    for (int v = 0; v < 2 * P; v++) s[r][v] = _mm512_setzero_ps();
  }
  if (t->last)
    for (int r = 0; r < R; r++)
      for (int v = 0; v < 2 * P; v++) __builtin_prefetch(t->y + r * t->ld + v * LANES, 1);
  for (; b < end; b += COLS, a += by_k) {
    __m512 w[2 * PANELS];
    UNROLL(4)
    for (int p = 0; p < P; p++) {
      w[2 * p] = _mm512_loadu_ps(b + p * t->next);
      w[2 * p + 1] = _mm512_loadu_ps(b + p * t->next + LANES);
      _mm_prefetch(b + p * t->next + FAR * COLS, _MM_HINT_T0);
      _mm_prefetch(b + p * t->next + FAR * COLS + LANES, _MM_HINT_T0);
    }
    UNROLL(14)
    for (int r = 0; r < R; r++) {
      const __m512 x = _mm512_set1_ps(a[r * by_row]);
      UNROLL(8)
      for (int v = 0; v < 2 * P; v++) s[r][v] = _mm512_fmadd_ps(x, w[v], s[r][v]);
    }
  }
  if (!t->first) add_waiting(R, 2 * P, t, s);
  if (t->last) {
    put_sums(R, 2 * P, t, s);
    return;
  }
  UNROLL(14)
  for (int r = 0; r < R; r++) {
    UNROLL(8)
    for (int v = 0; v < 2 * P; v++)
      _mm512_storeu_ps(t->wait + v / 2 * R * COLS + r * COLS + v % 2 * LANES, s[r][v]);
  }
}

#define ROWS_1(X, P) X(1, P) X(2, P) X(3, P)
#define ROWS_4(X, P) X(4, P) X(5, P) X(6, P) X(7, P)
#define ROWS_8(X, P) X(8, P) X(9, P) X(10, P) X(11, P) X(12, P) X(13, P) X(14, P)
#define AS_ROWS(R, P)                                                                                        \
  case R:                                                                                                    \
    multiply(R, P, TRI_VEC_LD, 1, t);                                                                        \
    return;
#define TURNED(R, P)                                                                                         \
  case R:                                                                                                    \
    multiply(R, P, 1, TRI_VEC_TURNED, t);                                                                    \
    return;

/* clang-format off */
static TRI_AVX512_TARGET void mul_rows_1(const tri_vec_tile *t) {
  switch (t->n_row) { ROWS_1(AS_ROWS, 1) ROWS_4(AS_ROWS, 1) ROWS_8(AS_ROWS, 1) }
}
static TRI_AVX512_TARGET void mul_rows_2(const tri_vec_tile *t) {
  switch (t->n_row) { ROWS_1(AS_ROWS, 2) ROWS_4(AS_ROWS, 2) }
}
static TRI_AVX512_TARGET void mul_rows_4(const tri_vec_tile *t) {
  switch (t->n_row) { ROWS_1(AS_ROWS, 4) }
}
static TRI_AVX512_TARGET void mul_turned(const tri_vec_tile *t) {
  switch (t->n_row) { ROWS_1(TURNED, 1) ROWS_4(TURNED, 1) ROWS_8(TURNED, 1) }
}
/* clang-format on */

static void mul_rows(const tri_vec_tile *t) {
  TRI_ASSERT(t->n_row >= 1 && t->n_row <= ROWS && t->n_panel >= 1 && t->n_panel <= tri_vec_panels(t->n_row));
  if (t->n_panel == 1)
    mul_rows_1(t);
  else if (t->n_panel == 2)
    mul_rows_2(t);
  else
    mul_rows_4(t);
}

/* ---- operands ---- */

static TRI_AVX512_TARGET void pack_rows(float *to, const float *w, int64_t ld, int64_t n_col, int64_t k) {
  _Alignas(64) float step[LANES * COLS] = {0};
  for (int64_t at = 0; at < k; at += LANES, to += LANES * COLS) {
    for (int64_t r = 0; r < n_col; r++) _mm_prefetch(w + r * ld + at + AHEAD * LANES, _MM_HINT_T0);
    tri_pairs_turn((uint32_t *)(void *)step, COLS, (const uint32_t *)(const void *)(w + at), ld, (int)n_col,
                   (int)tri_min(LANES, k - at));
    for (int i = 0; i < LANES * COLS; i += LANES) _mm512_stream_ps(to + i, _mm512_load_ps(step + i));
  }
  _mm_sfence();
}

static TRI_AVX512_TARGET void pack_cols(float *to, int64_t next, const float *w, int64_t ld, int64_t n,
                                        int64_t k) {
  for (int64_t c = 0; c < n; c += COLS, to += next)
    for (int64_t i = 0; i < k; i++) {
      const float *from = w + i * ld + c;
      _mm_prefetch(from + 2 * COLS, _MM_HINT_T0);
      _mm_prefetch(from + 2 * COLS + LANES, _MM_HINT_T0);
      _mm512_stream_ps(to + i * COLS, _mm512_maskz_loadu_ps(lanes(n - c), from));
      _mm512_stream_ps(to + i * COLS + LANES, _mm512_maskz_loadu_ps(lanes(n - c - LANES), from + LANES));
    }
  _mm_sfence();
}

static TRI_AVX512_TARGET void cols(float *to, int64_t next, const float *x, int64_t ld, int64_t n,
                                   int64_t k) {
  for (int64_t i = 0; i < k; i++, x += ld, to += COLS)
    for (int64_t c = 0; c < n; c += COLS) {
      float *at = to + c / COLS * next;
      _mm512_storeu_ps(at, _mm512_maskz_loadu_ps(lanes(n - c), x + c));
      _mm512_storeu_ps(at + LANES, _mm512_maskz_loadu_ps(lanes(n - c - LANES), x + c + LANES));
    }
}

static TRI_AVX512_TARGET void strips(float *to, int64_t next, const float *dy, int64_t ld, int64_t n,
                                     int64_t k, int height) {
  for (int64_t i = 0; i < k; i++, dy += ld, to += TRI_VEC_TURNED) {
    float *at = to;
    for (int64_t c = 0; c < n; c += LANES) _mm_prefetch(dy + AHEAD * ld + c, _MM_HINT_T0);
    for (int64_t c = 0; c < n; c += height, at += next)
      _mm512_storeu_ps(at, _mm512_maskz_loadu_ps(lanes(tri_min(height, n - c)), dy + c));
  }
}

const tri_vec_code tri_vec_avx512 = {ROWS, COLS, 0, mul_rows, mul_turned, cols, pack_cols, pack_rows, strips};
#endif
