/* amx_rows.c - linear_pack, linear_fwd and linear_bwd_x with AMX tiles. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "amx.h"

#include <string.h>

#if TRI_PAIRS_X86
#include <immintrin.h>

enum { SIDE = TRI_AMX_SIDE, STEP = TRI_AMX_STEP, TILE = TRI_AMX_TILE, HALF = 16, LINE = 64 };
/* If k is longer than WHOLE steps, it is cut into chunks of CHUNK steps, so a strip stays in the first-level
 * cache. The panels of a block (BLOCK bytes, or WAIT panels) stay in the second-level cache. So do the
 * partial results of GROUP strips until the next chunk. With FEW rows or less, each weight is used once or
 * twice and comes from memory, so chunks are LONG steps, or FLAT steps for one tile of rows. Measured on a
 * Xeon with AMX. */
enum { WHOLE = 16, CHUNK = 8, BLOCK = 768 << 10, GROUP = 8, WAIT = 16, FEW = 64, LONG = 128, FLAT = 256 };
/* Elements of a partial result, [SIDE,SIDE] f32. */
enum { SQUARE = SIDE * SIDE };
/* Chosen. Below some 4 us of one thread, waking other threads costs more than it saves. */
static const double alone_macs = 4e6;

typedef struct cut { /* how k and the columns are cut */
  /* Counts of steps of k, steps of a chunk, chunks, panels, and panels of a block. */
  int64_t steps, chunk, n_chunk, panels, block;
} cut;

static cut cut_of(int64_t n, int64_t k, int64_t rows) {
  const int64_t whole = rows <= HALF ? FLAT : rows <= FEW ? LONG : WHOLE;
  cut           c = {.steps = tri_ceil_div(k, SIDE), .panels = tri_ceil_div(n, SIDE)};
  c.n_chunk = c.steps <= whole ? 1 : tri_ceil_div(c.steps, rows <= FEW ? whole : CHUNK);
  c.chunk = tri_ceil_div(c.steps, c.n_chunk);
  c.block = c.n_chunk > 1 ? WAIT : rows <= HALF ? c.panels : tri_ceil_div(BLOCK, c.chunk * STEP);
  c.block = tri_min(c.panels, c.block);
  return c;
}

/* Sets the sizes of y[M,n] = x[M,k] b. */
static void product_open(tri_linear *l, tri_linear_product *p, int64_t n, int64_t k) {
  const cut c = cut_of(n, k, INT64_MAX), few = cut_of(n, k, FEW), flat = cut_of(n, k, 1);
  p->n = n;
  p->k = k;
  p->width = tri_min(n, 4 * SIDE); /* columns that linear_check computes at once */
  p->n_blocks = tri_ceil_div(n, p->width);
  p->block_bytes = (size_t)(tri_ceil_div(p->width, SIDE) * c.steps) * STEP;
  p->all_bytes = (size_t)(c.panels * c.steps) * STEP;
  tri_raise(&l->stage_bytes, (size_t)c.chunk * STEP);
  tri_raise(&l->stage_bytes, (size_t)few.chunk * STEP);
  tri_raise(&l->stage_bytes, (size_t)flat.chunk * TILE);
  tri_raise(&l->c_bytes, (size_t)((c.n_chunk > 1 ? GROUP * c.block + 1 : 2) * SQUARE) * sizeof(float));
}

void tri_amx_open(tri_linear *l) {
  l->work = l->dtype;
  product_open(l, &l->fwd, l->n_out, l->n_in);
  if (!l->backward) return;
  product_open(l, &l->bwd, l->n_in, l->n_out);
  tri_amx_gradient_open(l);
}

void tri_amx_pack(const tri_linear *l, char *packed_fwd, char *packed_bwd, const uint16_t *w, int part,
                  int n_part) {
  const int64_t steps_fwd = tri_ceil_div(l->n_in, SIDE), steps_bwd = tri_ceil_div(l->n_out, SIDE);
  const int64_t n_fwd = packed_fwd ? steps_bwd : 0, n_all = n_fwd + (packed_bwd ? steps_fwd : 0);
#pragma omp parallel for schedule(static) num_threads(l->threads)
  for (int64_t i = n_all * part / n_part; i < n_all * (part + 1) / n_part; i++) {
    const int64_t j = i < n_fwd ? i : i - n_fwd;
    if (i < n_fwd)
      tri_amx_turn_rows(packed_fwd + (size_t)(j * steps_fwd) * STEP, steps_fwd * TILE, w + j * SIDE * l->n_in,
                        l->n_in, tri_min(SIDE, l->n_out - j * SIDE), l->n_in, 0, steps_fwd);
    else
      tri_amx_cols(packed_bwd + (size_t)(j * steps_bwd) * STEP, steps_bwd * TILE, w + j * SIDE, l->n_in,
                   tri_min(SIDE, l->n_in - j * SIDE), l->n_out, 0, steps_bwd);
  }
}

/* ---- y = x b ---- */

static TRI_PAIRS_TARGET inline __m512 load16(tri_in t, int64_t at, __mmask16 m) {
  if (t->dtype == TRI_F32) return _mm512_maskz_loadu_ps(m, (const float *)t->data + at);
  const __m256i h = _mm256_maskz_loadu_epi16(m, (const uint16_t *)t->data + at);
  if (t->dtype == TRI_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Stores 32 columns as bf16 without bias or base. With `past`, whole cache lines bypass the caches. */
static TRI_PAIRS_TARGET void store_whole(uint16_t *y, int64_t ld, const float *t, int64_t n_row, bool past) {
  for (int64_t r = 0; r < n_row; r++, t += SIDE) {
    const __m512i v = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(t + HALF), _mm512_loadu_ps(t));
    if (past)
      _mm512_stream_si512((void *)(y + r * ld), v);
    else
      _mm512_storeu_si512(y + r * ld, v);
  }
}

/* Returns whether stores bypass the caches. With 17 to 32 rows, storing a cache line costs the caches as much
 * time as loading a line of weights, and more if another thread read the line last. With fewer rows it does
 * not matter. Measured. */
static inline bool is_past(const tri_linear_call *c) { return c->rows > HALF && c->rows <= SIDE; }

/* Stores t[n_row,32] to columns [col, col + 32) of y's rows [row, row + n_row), as far as y has these
 * columns. */
static TRI_PAIRS_TARGET void store(const tri_linear_call *c, const float *t, int64_t row, int64_t n_row,
                                   int64_t col) {
  const int64_t n = c->p->n;
  if (!c->bias && !c->base && c->y->dtype == TRI_BF16 && n - col >= SIDE) {
    uint16_t *y = (uint16_t *)c->y->data + row * n + col;
    store_whole(y, n, t, n_row, is_past(c) && (uintptr_t)y % LINE == 0 && n * 2 % LINE == 0);
    return;
  }
  for (int64_t half = 0; half < 2 && col < n; half++, col += HALF, t += HALF) {
    const __mmask16 m = (__mmask16)(n - col >= HALF ? 0xffff : (1 << (n - col)) - 1);
    const __m512    bias = c->bias ? load16(c->bias, col, m) : _mm512_setzero_ps();
    for (int64_t r = 0; r < n_row; r++) {
      const int64_t at = (row + r) * n + col;
      __m512        v = _mm512_loadu_ps(t + r * SIDE);
      if (c->bias) v = _mm512_add_ps(v, bias);
      if (c->base) v = _mm512_add_ps(v, load16(c->base, at, m));
      if (c->y->dtype == TRI_F32)
        _mm512_mask_storeu_ps((float *)c->y->data + at, m, v);
      else
        _mm256_mask_storeu_epi16((uint16_t *)c->y->data + at, m, (__m256i)_mm512_cvtneps_pbh(v));
    }
  }
}

typedef struct part { /* a thread's part of a call, in strips and panels, ends excluded */
  int64_t strip, strip_end, panel, panel_end;
} part;

/* Copies n_row rows of x, row stride k, to dense rows of `steps` steps, with zeros behind the end of k. */
static void copy_flat(char *to, const uint16_t *x, int64_t k, int64_t n_row, int64_t first, int64_t steps) {
  const int64_t from = first * SIDE, n = tri_min(k - from, steps * SIDE);
  for (int64_t r = 0; r < n_row; r++) {
    uint16_t *row = (uint16_t *)(void *)to + r * steps * SIDE;
    memcpy(row, x + r * k + from, (size_t)n * sizeof *row);
    memset(row + n, 0, (size_t)(steps * SIDE - n) * sizeof *row);
  }
}

/* Returns `steps` steps of panel j from step `first` on. Prefetching continues n panels further. */
static tri_amx_right right_of(const tri_linear_call *c, const cut *u, int64_t j, int64_t n, int64_t first,
                              int64_t steps) {
  const char *at = c->packed + (size_t)(j * u->steps * STEP + first * TILE);
  return (tri_amx_right){at, at + n * u->steps * STEP, u->steps * TILE, steps};
}

/* Multiplies rows [row, row + n_row), n_row <= 16, by the panels of a block. t holds their partial results
 * until the next chunk, or has space for two results if there is one chunk. a has space for rows that are not
 * whole steps long. */
static void run_flat(const tri_linear_call *c, const cut *u, const part *p, int64_t row, int64_t n_row,
                     int64_t first, char *a, float *t) {
  const int64_t   k = c->p->k, steps = tri_min(u->chunk, u->steps - first);
  const uint16_t *x = (const uint16_t *)(const void *)c->x + row * k;
  const int64_t   far = n_row <= 8 ? 2 : 1; /* measured with 1, 4 and 16 rows */
  const bool      whole = (first + steps) * SIDE <= k;
  tri_amx_left    left = {(const char *)(x + first * SIDE), 0, 2 * k, 2 * SIDE};
  if (!whole) {
    copy_flat(a, x, k, n_row, first, steps);
    left.at = a, left.row = 2 * steps * SIDE;
  }
  tri_amx_begin((int)n_row);
  for (int64_t j = p->panel; j < p->panel_end; j += 2) {
    const tri_amx_right b = right_of(c, u, j, 2, first, steps);
    const bool          two = j + 1 < p->panel_end;
    float              *to = t + (u->n_chunk > 1 ? (j - p->panel) * SQUARE : 0);
    tri_amx_mul_flat(to, &left, &b, far, two, first > 0);
    if (first + steps < u->steps) continue;
    store(c, to, row, n_row, j * SIDE);
    if (two) store(c, to + SQUARE, row, n_row, (j + 1) * SIDE);
  }
}

/* Does the same for 17 to 32 rows. If these are all rows and k is whole steps, they are read in place, with
 * the last 16 rows as the lower tile. Rows in both tiles are stored once. Otherwise the rows become a strip
 * in a. */
static void run_strip(const tri_linear_call *c, const cut *u, const part *p, int64_t row, int64_t n_row,
                      int64_t first, char *a, float *t) {
  const int64_t   k = c->p->k, steps = tri_min(u->chunk, u->steps - first);
  const uint16_t *x = (const uint16_t *)(const void *)c->x + row * k;
  const bool      flat = c->rows <= SIDE && k % SIDE == 0;
  tri_amx_left    left = {(const char *)(x + first * SIDE), 2 * k * (n_row - HALF), 2 * k, 2 * SIDE};
  if (!flat) {
    tri_amx_rows(a, x, k, n_row, k, first, steps);
    left = tri_amx_strip(a);
  }
  tri_amx_begin(HALF);
  for (int64_t j = p->panel; j < p->panel_end; j++) {
    const tri_amx_right b = right_of(c, u, j, 1, first, steps);
    float              *to = t + (u->n_chunk > 1 ? (j - p->panel) * SQUARE : 0);
    tri_amx_mul(to, SIDE, &left, &b, first > 0);
    if (first + steps < u->steps) continue;
    store(c, to, row, flat ? HALF : n_row, j * SIDE);
    if (flat) store(c, to + (2 * HALF - (n_row - HALF)) * SIDE, row + HALF, n_row - HALF, j * SIDE);
  }
}

/* Multiplies the strips of a group by the panels of a block, chunk by chunk of k. */
static void run_block(const tri_linear_call *c, const cut *u, const part *p, char *a, float *t) {
  for (int64_t first = 0; first < u->steps; first += u->chunk)
    for (int64_t i = p->strip; i < p->strip_end; i++) {
      const int64_t row = i * SIDE, rows = tri_min(SIDE, c->rows - row);
      float        *to = t + (u->n_chunk > 1 ? (i - p->strip) * u->block * SQUARE : 0);
      if (rows <= HALF)
        run_flat(c, u, p, row, rows, first, a, to);
      else
        run_strip(c, u, p, row, rows, first, a, to);
    }
}

static void run_part(const tri_linear *l, const tri_linear_call *c, const part *p, int thread) {
  const cut     u = cut_of(c->p->n, c->p->k, c->rows);
  const int64_t group = u.n_chunk > 1 ? GROUP : p->strip_end;
  for (int64_t i = p->strip; i < p->strip_end; i += group)
    for (int64_t j = p->panel; j < p->panel_end; j += u.block) {
      const part one = {i, tri_min(i + group, p->strip_end), j, tri_min(j + u.block, p->panel_end)};
      run_block(c, &u, &one, tri_linear_stage(l, thread), (float *)(void *)tri_linear_own(l, thread));
    }
  tri_amx_end();
  _mm_sfence(); /* non-temporal stores must be visible before other threads continue */
}

void tri_amx_run(const tri_linear *l, const tri_linear_call *c) {
  const int64_t strips = tri_ceil_div(c->rows, SIDE), panels = tri_ceil_div(c->p->n, SIDE);
  const bool    alone = (double)strips * SIDE * (double)c->p->n * (double)c->p->k < alone_macs;
#pragma omp parallel num_threads(alone ? 1 : l->threads)
  {
    const int          thread = omp_get_thread_num();
    const tri_amx_grid g = tri_amx_share(strips, panels, omp_get_num_threads(), 1, 2);
    const int64_t      i = thread / g.cols, j = thread % g.cols;
    const part         p = {strips * i / g.rows, strips * (i + 1) / g.rows, panels * j / g.cols,
                            panels * (j + 1) / g.cols};
    run_part(l, c, &p, thread);
  }
}
#endif
