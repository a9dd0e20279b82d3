/* move.c - transposes and interleaves tiles for multiplication. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#include <string.h>

#if TRI_PAIRS_X86
#include <immintrin.h>

#define INLINE TRI_AVX512_TARGET __attribute__((always_inline)) inline

static inline int least(int a, int b) { return a < b ? a : b; }

/* Mask of the first n of 16 lanes. */
static INLINE __mmask16 lanes(int n) { return (__mmask16)(n >= 16 ? 0xffff : (1 << n) - 1); }

/* Transposes rows r[0] to r[3] inside lanes of 128 bits. */
static INLINE void turn_quad(__m512i r[4]) {
  __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
  __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
  r[0] = _mm512_unpacklo_epi64(a, c), r[1] = _mm512_unpackhi_epi64(a, c);
  r[2] = _mm512_unpacklo_epi64(b, d), r[3] = _mm512_unpackhi_epi64(b, d);
}

/* Transposes 16 x 16 elements, with n_row of the rows and n_col of the columns from memory. */
static INLINE void turn_16(uint32_t *to, int64_t ldt, const uint32_t *from, int64_t ldf, int n_row,
                           int n_col) {
  __m512i   r[16];
  __mmask16 m = lanes(n_col);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++)
    r[i] = i < n_row ? _mm512_maskz_loadu_epi32(m, from + i * ldf) : _mm512_setzero_si512();
  turn_quad(r), turn_quad(r + 4), turn_quad(r + 8), turn_quad(r + 12);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) { /* 4 x 4 lanes of 128 bits */
    __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88), b = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    __m512i c = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88),
            d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    _mm512_storeu_si512(to + i * ldt, _mm512_shuffle_i32x4(a, c, 0x88));
    _mm512_storeu_si512(to + (i + 4) * ldt, _mm512_shuffle_i32x4(b, d, 0x88));
    _mm512_storeu_si512(to + (i + 8) * ldt, _mm512_shuffle_i32x4(a, c, 0xdd));
    _mm512_storeu_si512(to + (i + 12) * ldt, _mm512_shuffle_i32x4(b, d, 0xdd));
  }
}

TRI_AVX512_TARGET void tri_pairs_turn(uint32_t *to, int64_t ldt, const uint32_t *from, int64_t ldf, int n_row,
                                      int n_col) {
  for (int r = 0; r < n_row; r += 16)
    for (int c = 0; c < n_col; c += 16)
      turn_16(to + c * ldt + r, ldt, from + r * ldf + c, ldf, least(n_row - r, 16), least(n_col - c, 16));
}

TRI_AVX512_TARGET bool tri_pairs_zip(uint32_t *to, int64_t ldt, const uint16_t *from, int64_t ldf, int n_row,
                                     int n_col, int n_pair) {
  const __m512i top = _mm512_set1_epi16(0x7f80); /* all ones in the exponent, so infinity or NaN */
  __mmask32     odd = 0;

  for (int p = 0; p < n_pair; p++)
    for (int c = 0; c < n_col; c += 16) {
      __mmask16       m = lanes(n_col - c);
      __m512i         a = _mm512_setzero_si512(), b = a, both;
      const uint16_t *row = from + 2 * p * ldf + c;
      if (2 * p < n_row) a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, row));
      if (2 * p + 1 < n_row) b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, row + ldf));
      both = _mm512_or_si512(a, _mm512_slli_epi32(b, 16));
      odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(both, top), top);
      _mm512_storeu_si512(to + p * ldt + c, both);
    }
  return !odd;
}

void tri_pairs_rows(uint16_t *to, int64_t ldt, const uint16_t *from, int64_t ldf, int n_row, int n_pad,
                    int n_col) {
  for (int r = 0; r < n_pad; r++) {
    int n = r < n_row ? n_col : 0;
    if (n) memcpy(to + r * ldt, from + r * ldf, (size_t)n * sizeof *to);
    memset(to + r * ldt + n, 0, (size_t)(ldt - n) * sizeof *to);
  }
}
#endif
