/* amx_tile.c - multiplies and fills AMX tiles. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "amx.h"

#include <string.h>

#if TRI_PAIRS_X86
#include <immintrin.h>

#define TILES_OF __attribute__((target("amx-tile,amx-bf16")))
#define TILES    TILES_OF __attribute__((noinline))
#define INLINE   TRI_PAIRS_TARGET __attribute__((always_inline)) inline
/* gcc 12 does not know that a tile load reads memory. Earlier stores must be in memory by then. */
#define STORED() __asm__ volatile("" ::: "memory")

enum { SIDE = TRI_AMX_SIDE, STEP = TRI_AMX_STEP, TILE = TRI_AMX_TILE, ROWS = 16, ROW_BYTES = 64 };
void tri_amx_begin(int n_row) { tri_pairs_amx.begin(n_row); }
void tri_amx_end(void) { tri_pairs_amx.end(); }

/* Prefetches half a tile. */
static inline __attribute__((always_inline)) void ahead(const char *p) {
#pragma GCC                                       unroll 8
  for (int i = 0; i < TILE / 2 / ROW_BYTES; i++) _mm_prefetch(p + i * ROW_BYTES, _MM_HINT_T0);
}

/* Loads tiles 0 and 1 from c [.,32] and tiles 2 and 3 from d, row stride ld elements, or sets all to 0. */
static inline __attribute__((always_inline)) TILES_OF void take_sums(const float *c, const float *d,
                                                                     int64_t ld, bool add) {
  if (add) {
    _tile_loadd(0, c, ld * 4);
    _tile_loadd(1, c + ROWS, ld * 4);
    _tile_loadd(2, d, ld * 4);
    _tile_loadd(3, d + ROWS, ld * 4);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
}

/* Prefetches come in small pieces between the products. Measured, with panels from memory. */
TILES void tri_amx_mul(float *c, int64_t ldc, const tri_amx_left *a, const tri_amx_right *b, bool add) {
  float        *low = c + ROWS * ldc;
  const char   *left = a->at, *at = b->at;
  const int64_t half = b->half;
  STORED();
  take_sums(c, low, ldc, add);
  for (int64_t i = 1; i <= b->steps; i++, left += a->step, at += TILE) {
    const char *next = i < b->steps ? at + TILE : b->after;
    _tile_loadd(4, left, a->row);
    ahead(next);
    _tile_loadd(6, at, ROW_BYTES);
    _tile_dpbf16ps(0, 4, 6);
    ahead(next + half);
    _tile_loadd(7, at + half, ROW_BYTES);
    _tile_dpbf16ps(1, 4, 7);
    ahead(next + TILE / 2);
    _tile_loadd(5, left + a->low, a->row);
    _tile_dpbf16ps(2, 5, 6);
    ahead(next + half + TILE / 2);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, ldc * 4);
  _tile_stored(1, c + ROWS, ldc * 4);
  _tile_stored(2, low, ldc * 4);
  _tile_stored(3, low + ROWS, ldc * 4);
}

TILES void tri_amx_mul_flat(float *c, const tri_amx_left *a, const tri_amx_right *b, int64_t far, bool two,
                            bool add) {
  float        *right = c + SIDE * SIDE;
  const char   *left = a->at, *at = b->at;
  const int64_t half = b->half;
  STORED();
  take_sums(c, right, SIDE, add);
  for (int64_t i = far; i < b->steps + far; i++, left += a->step, at += TILE) {
    const char *next = i < b->steps ? at + far * TILE : b->after + (i - b->steps) * TILE;
    _tile_loadd(4, left, a->row);
    ahead(next);
    ahead(next + TILE / 2);
    _tile_loadd(5, at, ROW_BYTES);
    _tile_dpbf16ps(0, 4, 5);
    ahead(next + half);
    ahead(next + half + TILE / 2);
    _tile_loadd(6, at + half, ROW_BYTES);
    _tile_dpbf16ps(1, 4, 6);
    if (!two) continue;
    ahead(next + 2 * half);
    ahead(next + 2 * half + TILE / 2);
    _tile_loadd(7, at + 2 * half, ROW_BYTES);
    _tile_dpbf16ps(2, 4, 7);
    ahead(next + 3 * half);
    ahead(next + 3 * half + TILE / 2);
    _tile_loadd(5, at + 3 * half, ROW_BYTES);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, c, SIDE * 4);
  _tile_stored(1, c + ROWS, SIDE * 4);
  if (!two) return;
  _tile_stored(2, right, SIDE * 4);
  _tile_stored(3, right + ROWS, SIDE * 4);
}

/* Mask of the first n of 16 or 32 lanes. */
static INLINE __mmask16 lanes16(int64_t n) {
  return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}
static INLINE __mmask32 lanes32(int64_t n) {
  return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : ((__mmask32)1 << n) - 1;
}

TRI_PAIRS_TARGET void tri_amx_rows(char *to, const uint16_t *x, int64_t ld, int64_t n_row, int64_t k,
                                   int64_t first, int64_t steps) {
  for (int64_t r = 0; r < SIDE; r++) {
    const uint16_t *row = x + r * ld;
    char           *at = to + r * ROW_BYTES;
    for (int64_t i = 0; i < steps; i++) {
      const int64_t   done = (first + i) * SIDE;
      const __mmask32 m = r < n_row ? lanes32(k - done) : 0;
      _mm512_storeu_si512(at + i * STEP,
                          m ? _mm512_maskz_loadu_epi16(m, row + done) : _mm512_setzero_si512());
    }
  }
}

/* Returns 16 columns of rows 2i and 2i + 1, interleaved. `left` rows remain from 2i on. */
static INLINE __m512i zip(const uint16_t *x, int64_t ld, __mmask16 m, int64_t left) {
  __m512i a = _mm512_setzero_si512(), b = a;
  if (left > 0 && m) a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, x));
  if (left > 1 && m) b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, x + ld));
  return _mm512_or_si512(a, _mm512_slli_epi32(b, 16));
}

TRI_PAIRS_TARGET void tri_amx_cols(char *to, int64_t half, const uint16_t *x, int64_t ld, int64_t n_col,
                                   int64_t k, int64_t first, int64_t steps) {
  const __mmask16 m0 = lanes16(n_col), m1 = lanes16(n_col - ROWS);
  for (int64_t i = 0; i < steps; i++, to += TILE)
    for (int64_t p = 0; p < ROWS; p++) {
      const int64_t   row = (first + i) * SIDE + 2 * p;
      const uint16_t *from = x + row * ld;
      _mm512_storeu_si512(to + p * ROW_BYTES, zip(from, ld, m0, k - row));
      _mm512_storeu_si512(to + half + p * ROW_BYTES, zip(from + ROWS, ld, m1, k - row));
    }
}

void tri_amx_turn_rows(char *to, int64_t half, const uint16_t *w, int64_t ld, int64_t n_row, int64_t k,
                       int64_t first, int64_t steps) {
  _Alignas(64) uint32_t own[ROWS * ROWS];
  for (int64_t i = 0; i < steps; i++, to += TILE)
    for (int h = 0; h < 2; h++) {
      const int64_t   done = (first + i) * SIDE, n = tri_min(ROWS, n_row - h * ROWS);
      const uint16_t *from = w + h * ROWS * ld + done;
      uint32_t       *tile = (uint32_t *)(void *)(to + h * half);
      if (n < ROWS || k - done < SIDE) { /* not a whole tile */
        memset(own, 0, sizeof own);
        for (int64_t r = 0; r < n; r++)
          memcpy(own + r * ROWS, from + r * ld, (size_t)tri_min(SIDE, k - done) * sizeof *from);
        tri_pairs_turn(tile, ROWS, own, ROWS, ROWS, ROWS);
      } else if (ld % 2 == 0) {
        tri_pairs_turn(tile, ROWS, (const uint32_t *)(const void *)from, ld / 2, ROWS, ROWS);
      } else {
        for (int r = 0; r < ROWS; r++) memcpy(own + r * ROWS, from + r * ld, ROW_BYTES);
        tri_pairs_turn(tile, ROWS, own, ROWS, ROWS, ROWS);
      }
    }
}

/* Loads 8 columns of rows r, r + 8, r + 16 and r + 24. x points to row r. */
static INLINE __m512i quad(const uint16_t *x, int64_t ld) {
  __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)x));
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(x + 8 * ld)), 1);
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(x + 16 * ld)), 2);
  return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(x + 24 * ld)), 3);
}

/* Writes four rows of a tile. p[q] holds the pairs q, q + 4, q + 8 and q + 12 in its four 128-bit lanes, four
 * columns in each. */
static INLINE void turn_four(char *to, const __m512i p[4]) {
  const __m512i a = _mm512_unpacklo_epi32(p[0], p[1]), b = _mm512_unpackhi_epi32(p[0], p[1]);
  const __m512i c = _mm512_unpacklo_epi32(p[2], p[3]), d = _mm512_unpackhi_epi32(p[2], p[3]);
  _mm512_storeu_si512(to, _mm512_unpacklo_epi64(a, c));
  _mm512_storeu_si512(to + ROW_BYTES, _mm512_unpackhi_epi64(a, c));
  _mm512_storeu_si512(to + 2 * ROW_BYTES, _mm512_unpacklo_epi64(b, d));
  _mm512_storeu_si512(to + 3 * ROW_BYTES, _mm512_unpackhi_epi64(b, d));
}

/* Transposes a whole step of 32 rows and 32 columns. */
static INLINE void turn_step(char *to, const uint16_t *x, int64_t ld) {
  for (int col = 0; col < SIDE; col += 8, to += 8 * ROW_BYTES) {
    __m512i low[4], high[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
      const __m512i even = quad(x + col + 2 * q * ld, ld), odd = quad(x + col + (2 * q + 1) * ld, ld);
      low[q] = _mm512_unpacklo_epi16(even, odd);
      high[q] = _mm512_unpackhi_epi16(even, odd);
    }
    turn_four(to, low);
    turn_four(to + 4 * ROW_BYTES, high);
  }
}

TRI_PAIRS_TARGET void tri_amx_turn_cols(char *to, const uint16_t *x, int64_t ld, int64_t n_col, int64_t k,
                                        int64_t first, int64_t steps) {
  _Alignas(64) char pair[STEP];
  for (int64_t i = 0; i < steps; i++, to += STEP) {
    if (n_col == SIDE && k - (first + i) * SIDE >= SIDE) {
      turn_step(to, x + (first + i) * SIDE * ld, ld);
      continue;
    }
    tri_amx_cols(pair, TILE, x, ld, n_col, k, first + i, 1);
    for (int half = 0; half < STEP; half += TILE)
      tri_pairs_turn((uint32_t *)(void *)(to + half), ROWS, (const uint32_t *)(const void *)(pair + half),
                     ROWS, ROWS, ROWS);
  }
}

tri_amx_grid tri_amx_share(int64_t strips, int64_t panels, int threads, int64_t strip_cost,
                           int64_t panel_cost) {
  tri_amx_grid best = {1, threads};
  int64_t      least = INT64_MAX;
  for (int rows = 1; rows <= threads; rows++) {
    if (threads % rows) continue;
    const int64_t s = tri_ceil_div(strips, rows), p = tri_ceil_div(panels, threads / rows);
    const int64_t cost = s * p + s * strip_cost + p * panel_cost;
    if (cost >= least) continue;
    least = cost;
    best = (tri_amx_grid){rows, threads / rows};
  }
  return best;
}
#endif
