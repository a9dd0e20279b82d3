/* vec_tile_avx2.c - tiles of f32 and their operands with AVX2, on processors without AVX-512.
 *
 * A tile of vec.h is cut into pieces of up to 6 rows. Their sums fill 12 of the 16 registers. A panel has
 * only 16 columns. So a chunk of k mostly stays in a first-level cache of 32 KiB. The sum of each
 * element runs in the order of vec_tile.c and has the same bits. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vec.h"

#if TRI_PAIRS_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#if TRI_DEBUG
#define PIECE TARGET __attribute__((noinline))
#define UNROLL(n)
#else
#define PIECE     TARGET __attribute__((always_inline)) inline
#define PRAGMA(x) _Pragma(#x)
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif

enum { COLS = 16, LANES = 8, PIECE_ROWS = 6 };
/* Steps of the loop that are written out. With fewer, the loop's own instructions cost time if another thread
 * runs on the same core. Measured on a Zen 3 processor. */
enum { UNROLLED = 4, LINE = 16 /* elements of a cache line */ };
/* A tile of up to FEW rows is mostly alone and reads its panels from memory. So pieces of up to FEW_ROWS rows
 * take FAR steps at a time, and fetch the next FAR. The steps stay in the first-level cache until all pieces
 * have used them. Steps of a 16-bit panel are converted just before. Measured on a Zen 3 processor. */
enum { FEW = 7, FEW_ROWS = 4, FAR = 32 };

/* The first n of 8 lanes. */
static TARGET __m256i lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > LANES ? LANES
                                              : n < 0   ? 0
                                                        : (int)n),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

typedef struct piece { /* one piece of a tile: a panel, some rows */
  const float *a, *b, *bias, *base;
  float       *y, *wait; /* wait [rows,COLS] */
  const float *sum;      /* [rows,COLS], sums of earlier steps of the tile, or NULL */
  const float *ahead;    /* lines to fetch, as in tri_vec_tile */
  int64_t      n_col;    /* columns of y from there on */
  int64_t      steps;
} piece;

/* Writes the sums s to y with bias and base added. */
static PIECE void put_sums(const int R, const piece *p, int64_t ld, __m256 s[PIECE_ROWS][2]) {
  UNROLL(2)
  for (int v = 0; v < 2; v++) {
    const __m256i m = lanes(p->n_col - v * LANES);
    const __m256  bias = p->bias ? _mm256_maskload_ps(p->bias + v * LANES, m) : _mm256_setzero_ps();
    UNROLL(6)
    for (int r = 0; r < R; r++) {
      if (p->bias) s[r][v] = _mm256_add_ps(s[r][v], bias);
      if (p->base) s[r][v] = _mm256_add_ps(_mm256_maskload_ps(p->base + r * ld + v * LANES, m), s[r][v]);
      if (p->n_col - v * LANES >= LANES)
        _mm256_storeu_ps(p->y + r * ld + v * LANES, s[r][v]);
      else /* slow on Zen 1 to 3 */
        _mm256_maskstore_ps(p->y + r * ld + v * LANES, m, s[r][v]);
    }
  }
}

/* Adds the partial sums of the earlier chunks of k. */
static PIECE void add_waiting(const int R, const piece *p, __m256 s[PIECE_ROWS][2]) {
  UNROLL(6)
  for (int r = 0; r < R; r++) {
    UNROLL(2)
    for (int v = 0; v < 2; v++)
      s[r][v] = _mm256_add_ps(_mm256_loadu_ps(p->wait + r * COLS + v * LANES), s[r][v]);
  }
}

/* Adds the products of one step: 16 columns in b and an element of each row, by_row apart. */
static PIECE void add_step(const int R, const float *a, const int by_row, const float *b,
                           __m256 s[PIECE_ROWS][2]) {
  const __m256 w0 = _mm256_loadu_ps(b), w1 = _mm256_loadu_ps(b + LANES);
  UNROLL(6)
  for (int r = 0; r < R; r++) {
    const __m256 x = _mm256_broadcast_ss(a + r * by_row);
    s[r][0] = _mm256_fmadd_ps(x, w0, s[r][0]);
    s[r][1] = _mm256_fmadd_ps(x, w1, s[r][1]);
  }
}

static PIECE void load_sums(const int R, const float *from, __m256 s[PIECE_ROWS][2]) {
  UNROLL(6)
  for (int r = 0; r < R; r++) {
    UNROLL(2)
    for (int v = 0; v < 2; v++) s[r][v] = _mm256_loadu_ps(from + r * COLS + v * LANES);
  }
}

static PIECE void store_sums(const int R, float *to, __m256 s[PIECE_ROWS][2]) {
  UNROLL(6)
  for (int r = 0; r < R; r++) {
    UNROLL(2)
    for (int v = 0; v < 2; v++) _mm256_storeu_ps(to + r * COLS + v * LANES, s[r][v]);
  }
}

/* Multiplies R rows by 16 columns. Element [r,k] of a lies at r * by_row + k * by_k. All three are
 * constants. Meanwhile the lines of y and some of the next panel come from memory. */
static PIECE void multiply(const int R, const int by_row, const int by_k, const tri_vec_tile *t,
                           const piece *p) {
  const float *a = p->a, *b = p->b, *end = b + p->steps * COLS,
              *unrolled = b + p->steps / UNROLLED * UNROLLED * COLS, *ahead = p->ahead ? p->ahead : b;
  const int by_line = p->ahead ? LINE : 0;
  __m256    s[PIECE_ROWS][2];
  if (p->sum) {
    load_sums(R, p->sum, s);
  } else {
    UNROLL(6)
    for (int r = 0; r < R; r++) s[r][0] = s[r][1] = _mm256_setzero_ps();
  }
  if (t->last)
    for (int r = 0; r < R; r++) _mm_prefetch(p->y + r * t->ld, _MM_HINT_T0);
  for (; b < unrolled; b += UNROLLED * COLS, a += UNROLLED * by_k, ahead += by_line) {
    _mm_prefetch(ahead, _MM_HINT_T1);
    UNROLL(4)
    for (int i = 0; i < UNROLLED; i++) add_step(R, a + i * by_k, by_row, b + i * COLS, s);
  }
  for (; b < end; b += COLS, a += by_k) add_step(R, a, by_row, b, s);
  if (!t->first) add_waiting(R, p, s);
  if (t->last)
    put_sums(R, p, t->ld, s);
  else
    store_sums(R, p->wait, s);
}

/* Adds the products of R rows in the next steps to their sums [R,COLS]. The first piece of a tile fetches the
 * steps of the next call. */
static PIECE void add_steps(const int R, const float *a, const float *b, int64_t steps, bool fetch,
                            float *sum) {
  __m256 s[PIECE_ROWS][2];
  load_sums(R, sum, s);
  for (int64_t k = 0; k < steps; k++, b += COLS) {
    if (fetch) _mm_prefetch(b + FAR * COLS, _MM_HINT_T0);
    add_step(R, a + k, TRI_VEC_LD, b, s);
  }
  store_sums(R, sum, s);
}

#define CASE(R, BY_ROW, BY_K)                                                                                \
  case R:                                                                                                    \
    multiply(R, BY_ROW, BY_K, t, p);                                                                         \
    return;
#define CASES(BY_ROW, BY_K)                                                                                  \
  CASE(1, BY_ROW, BY_K)                                                                                      \
  CASE(2, BY_ROW, BY_K)                                                                                      \
  CASE(3, BY_ROW, BY_K)                                                                                      \
  CASE(4, BY_ROW, BY_K)                                                                                      \
  CASE(5, BY_ROW, BY_K)                                                                                      \
  CASE(6, BY_ROW, BY_K)

static TARGET void mul_rows(int n, const tri_vec_tile *t, const piece *p) {
  switch (n) { CASES(TRI_VEC_LD, 1) }
}
static TARGET void mul_turned(int n, const tri_vec_tile *t, const piece *p) {
  switch (n) { CASES(1, TRI_VEC_TURNED) }
}

/* Multiplies the rows of a tile by one of its panels, in pieces of nearly equal height. With sum[n_row,COLS]
 * it only adds the rest to these sums. */
static void mul_panel(const tri_vec_tile *t, bool turned, int panel, const float *sum) {
  const int     parts = (t->n_row + PIECE_ROWS - 1) / PIECE_ROWS;
  const int64_t at = panel * COLS;
  for (int i = 0; i < parts; i++) {
    const int   row = t->n_row * i / parts, n = t->n_row * (i + 1) / parts - row;
    const piece p = {.a = t->a + row * (turned ? 1 : TRI_VEC_LD),
                     .b = t->b + panel * t->next,
                     .bias = t->bias ? t->bias + at : NULL,
                     .base = t->base ? t->base + row * t->ld + at : NULL,
                     .y = t->y ? t->y + row * t->ld + at : NULL,
                     .wait = t->wait ? t->wait + (panel * t->n_row + row) * COLS : NULL,
                     .sum = sum ? sum + row * COLS : NULL,
                     .ahead = i == 0 ? t->ahead : NULL,
                     .n_col = t->n_col - at,
                     .steps = sum ? 0 : t->k};
    if (turned)
      mul_turned(n, t, &p);
    else
      mul_rows(n, t, &p);
  }
}

static TARGET void add_steps_any(int n, const float *a, const float *b, int64_t steps, bool fetch,
                                 float *sum) {
  switch (n) {
  case 1:
    add_steps(1, a, b, steps, fetch, sum);
    return;
  case 2:
    add_steps(2, a, b, steps, fetch, sum);
    return;
  case 3:
    add_steps(3, a, b, steps, fetch, sum);
    return;
  case 4:
    add_steps(4, a, b, steps, fetch, sum);
    return;
  }
}

/* Converts steps [k, k + n) of a 16-bit panel to f32, and fetches the next ones. */
static TARGET const float *widen_steps(const tri_vec_tile *t, int64_t k, int64_t n, float *to) {
  const uint16_t *from = t->half + k * COLS;
  for (int64_t i = FAR * COLS; i < 2 * FAR * COLS; i += 2 * LINE) _mm_prefetch(from + i, _MM_HINT_T0);
  t->widen(to, from, n * COLS);
  return to;
}

/* Multiplies the rows of a tile by one of its panels. All pieces take a few steps in turns. */
static void mul_few(const tri_vec_tile *t, int panel) {
  const int          parts = (t->n_row + FEW_ROWS - 1) / FEW_ROWS;
  const float       *b = t->b + panel * t->next;
  _Alignas(64) float sum[FEW * COLS] = {0}, wide[FAR * COLS];
  for (int64_t k = 0; k < t->k; k += FAR) {
    const int64_t steps = tri_min(FAR, t->k - k);
    const float  *at = t->half ? widen_steps(t, k, steps, wide) : b + k * COLS;
    for (int i = 0; i < parts; i++) {
      const int row = t->n_row * i / parts, n = t->n_row * (i + 1) / parts - row;
      add_steps_any(n, t->a + row * TRI_VEC_LD + k, at, steps, i == 0 && !t->half, sum + row * COLS);
    }
  }
  mul_panel(t, false, panel, sum);
}

static void mul_tile(const tri_vec_tile *t, bool turned) {
  TRI_ASSERT(t->n_row >= 1 && t->n_row <= TRI_VEC_ROWS && t->n_panel >= 1);
  TRI_ASSERT(!t->half || (t->n_row <= FEW && t->n_panel == 1));
  for (int panel = 0; panel < t->n_panel; panel++)
    if (!turned && t->n_row <= FEW)
      mul_few(t, panel);
    else
      mul_panel(t, turned, panel, NULL);
}

static void mul_tile_rows(const tri_vec_tile *t) { mul_tile(t, false); }
static void mul_tile_turned(const tri_vec_tile *t) { mul_tile(t, true); }

/* ---- operands ---- */

/* to[8,COLS] = from[8,8] transposed. Row strides COLS, ld. */
static TARGET void turn8(float *to, const float *from, int64_t ld) {
  __m256 r[8], t[8];
  UNROLL(8)
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * ld);
  UNROLL(4)
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  UNROLL(2)
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  UNROLL(4)
  for (int i = 0; i < 4; i++) {
    _mm256_store_ps(to + i * COLS, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_store_ps(to + (i + 4) * COLS, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

static TARGET void pack_rows(float *to, const float *w, int64_t ld, int64_t n_col, int64_t k) {
  _Alignas(64) float step[LANES * COLS] = {0};
  for (int64_t at = 0; at < tri_ceil_div(k, 16) * 16; at += LANES, to += LANES * COLS) {
    const int64_t n = k - at < 0 ? 0 : tri_min(LANES, k - at), whole = n == LANES ? n_col / LANES * LANES : 0;
    for (int64_t r = 0; r < whole; r += LANES) turn8(step + r, w + r * ld + at, ld);
    for (int64_t i = 0; i < LANES; i++)
      for (int64_t r = whole; r < n_col; r++) step[i * COLS + r] = i < n ? w[r * ld + at + i] : 0;
    for (int i = 0; i < LANES * COLS; i += LANES) _mm256_stream_ps(to + i, _mm256_load_ps(step + i));
  }
  _mm_sfence();
}

/* Copies n <= COLS elements and fills up with zeros. */
static TARGET void copy_row(float *to, const float *from, int64_t n, bool stream) {
  for (int v = 0; v < COLS; v += LANES) {
    const __m256 x = n - v >= LANES ? _mm256_loadu_ps(from + v)
                     : n > v        ? _mm256_maskload_ps(from + v, lanes(n - v))
                                    : _mm256_setzero_ps();
    if (stream)
      _mm256_stream_ps(to + v, x);
    else
      _mm256_storeu_ps(to + v, x);
  }
}

static TARGET void pack_cols(float *to, int64_t next, const float *w, int64_t ld, int64_t n, int64_t k) {
  for (int64_t c = 0; c < n; c += COLS, to += next)
    for (int64_t i = 0; i < k; i++) copy_row(to + i * COLS, w + i * ld + c, n - c, true);
  _mm_sfence();
}

static TARGET void cols(float *to, int64_t next, const float *x, int64_t ld, int64_t n, int64_t k) {
  for (int64_t i = 0; i < k; i++, x += ld, to += COLS)
    for (int64_t c = 0; c < n; c += COLS) copy_row(to + c / COLS * next, x + c, n - c, false);
}

static TARGET void strips(float *to, int64_t next, const float *dy, int64_t ld, int64_t n, int64_t k,
                          int height) {
  for (int64_t i = 0; i < k; i++, dy += ld, to += TRI_VEC_TURNED) {
    float *at = to;
    for (int64_t c = 0; c < n; c += height, at += next) {
      const int64_t m = tri_min(height, n - c);
      _mm256_storeu_ps(at, _mm256_maskload_ps(dy + c, lanes(m)));
      _mm256_storeu_ps(at + LANES, _mm256_maskload_ps(dy + c + LANES, lanes(m - LANES)));
    }
  }
}

const tri_vec_code tri_vec_avx2 = {2 * PIECE_ROWS, COLS,      FEW,       mul_tile_rows, mul_tile_turned,
                                   cols,           pack_cols, pack_rows, strips};
#endif
