/* linear_grad.c - the linear_bwd_w kernel, the gradient of a weight, chunk by chunk of rows. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "linear_rows.h"

#include <string.h>

/* SMALL is the rows of a small chunk. BYTES is the size of one column of a large one. Its rows are many
 * enough to pay for reading and writing dw, and its transposed columns of dy stay near the core. Measured:
 * oneDNN 2.6.3. */
enum { CHUNK_SMALL = 64, CHUNK_BYTES = 1024 };
/* The fewest chunks packed at a time, if there are fewer threads. They are few, so they stay in a near cache.
 * Measured. */
enum { SLOTS_MIN = 4 };
/* Heights of a tile. The library is fastest with 64 and far slower below 16. Measured: oneDNN 2.6.3. */
enum { HEIGHT_MAX = 64, HEIGHT_MIN = 16 };
/* Tiles whose columns of dy are transposed together. A row's part is then long enough for the hardware
 * prefetcher. Measured on AMX, bf16: 16 tiles are 1.5 times as fast as one, 4 tiles 1.35 times. */
enum { GROUP_MAX = 16 };

void tri_gradient_close(tri_gradient *g) {
  for (int low = 1; low >= 0; low--)
    for (int kind = 0; kind < TRI_N_CHUNKS; kind++) tri_gemm_close(&g->tile[low][kind]);
}

/* Opens tiles of `height` rows. *ok is false if the library has no product for the rows below the last whole
 * tile. */
static tri_status open_tiles(tri_linear *l, int64_t height, bool *ok) {
  tri_gradient *g = &l->grad;
  tri_gemm_spec spec = {.n = l->n_in, .dtype = l->work, .add = true, .b_row = l->n_in, .b_col = 1};
  *ok = true;
  g->height = height;
  for (int kind = 0; kind < TRI_N_CHUNKS; kind++) {
    spec.k = g->chunk_rows[kind];
    spec.m = height;
    TRI_TRY(tri_gemm_open(&spec, NULL, l->threads, &g->tile[0][kind]));
    tri_raise(&l->scratch_bytes, tri_gemm_scratch_bytes(g->tile[0][kind]));
    spec.m = l->n_out % height;
    if (spec.m == 0) continue;
    TRI_TRY(tri_gemm_open(&spec, g->tile[0][kind], l->threads, &g->tile[1][kind]));
    if (g->tile[1][kind])
      tri_raise(&l->scratch_bytes, tri_gemm_scratch_bytes(g->tile[1][kind]));
    else
      *ok = false;
  }
  return TRI_OK;
}

tri_status tri_gradient_open(tri_linear *l) {
  tri_gradient *g = &l->grad;
  bool          ok = false;
  g->chunk_rows[0] = CHUNK_BYTES / (int64_t)tri_dtype_bytes(l->work);
  g->chunk_rows[1] = CHUNK_SMALL;
  /* Every thread gets the same number of tiles, of nearly equal height. */
  const int64_t each = tri_ceil_div(l->n_out, (int64_t)HEIGHT_MAX * l->threads);
  int64_t       height = tri_ceil_div(l->n_out, each * l->threads);
  height = tri_min(l->n_out, height < HEIGHT_MIN ? HEIGHT_MIN : height);
  TRI_TRY(open_tiles(l, height, &ok));
  if (!ok) { /* then all tiles need the same height */
    tri_gradient_close(g);
    while (l->n_out % height) height--;
    TRI_TRY(open_tiles(l, height, &ok));
  }
  /* Every thread gets the same number of groups, with nearly as many tiles in each. */
  const int64_t tiles = tri_ceil_div(tri_ceil_div(l->n_out, height), l->threads);
  g->group = tri_ceil_div(tiles, tri_ceil_div(tiles, GROUP_MAX));
  g->slot_bytes = tri_gemm_packed_bytes(g->tile[0][0]);
  tri_raise(&g->slot_bytes, tri_gemm_packed_bytes(g->tile[0][1]));
  g->n_slots = l->threads < SLOTS_MIN ? SLOTS_MIN : l->threads;
  const size_t  chunk = (size_t)g->chunk_rows[0] * tri_dtype_bytes(l->work);
  const int64_t turned = g->group * height;
  tri_raise(&l->stage_bytes, tri_round64(chunk * (size_t)(turned > l->n_in ? turned : l->n_in)));
  tri_raise(&l->shared_bytes, (size_t)g->n_slots * g->slot_bytes);
  return TRI_OK;
}

/* Transposing works on squares of 32-bit words, f32 or pairs of bf16 from two rows. */
enum { SQUARE = 16 };

/* Interleaves rows i and i + 8 of a[16,16], word by word, into rows 2i and 2i + 1 of b. Four such steps
 * transpose the square, and compilers know the instruction for it. */
static inline void interleave(uint32_t *restrict b, const uint32_t *restrict a) {
  for (int i = 0; i < SQUARE / 2; i++) {
    const uint32_t *x = a + i * SQUARE, *y = x + SQUARE * SQUARE / 2;
#pragma omp simd
    for (int j = 0; j < SQUARE; j++) {
      b[2 * (i * SQUARE + j)] = x[j];
      b[2 * (i * SQUARE + j) + 1] = y[j];
    }
  }
}

/* How elements of dy become words. f32 stays as it is. bf16 or f16 becomes f32, or two rows of bf16 share one
 * word, the first one in the low half. */
typedef enum { WORD_F32, WORD_WIDE, WORD_WIDE_F16, WORD_PAIR } word;

static inline uint32_t wide_f16(uint16_t h) {
  union {
    float    f;
    uint32_t u;
  } c = {tri_f16_to_f32(h)};
  return c.u;
}

/* Loads w[16,16] from a whole square of dy. */
static inline void load_square(uint32_t *restrict w, const char *dy, size_t stride_bytes, word kind) {
  for (int i = 0; i < SQUARE; i++, w += SQUARE) {
    const char     *from = dy + (size_t)(kind == WORD_PAIR ? 2 * i : i) * stride_bytes;
    const uint16_t *low = (const uint16_t *)(const void *)from;
    const uint16_t *high = (const uint16_t *)(const void *)(from + stride_bytes);
    if (kind == WORD_F32) {
      memcpy(w, from, SQUARE * sizeof *w);
    } else if (kind == WORD_WIDE) {
#pragma omp simd
      for (int j = 0; j < SQUARE; j++) w[j] = (uint32_t)low[j] << 16;
    } else if (kind == WORD_WIDE_F16) {
#pragma omp simd
      for (int j = 0; j < SQUARE; j++) w[j] = wide_f16(low[j]);
    } else {
#pragma omp simd
      for (int j = 0; j < SQUARE; j++) w[j] = low[j] | (uint32_t)high[j] << 16;
    }
  }
}

/* The same with only `rows` and `cols` left, and zeros beyond them. */
static void load_corner(uint32_t *w, const char *dy, size_t stride_bytes, word kind, int64_t rows,
                        int64_t cols) {
  memset(w, 0, SQUARE * SQUARE * sizeof *w);
  rows = tri_min(rows, kind == WORD_PAIR ? 2 * SQUARE : SQUARE);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < tri_min(cols, SQUARE); j++) {
      const char *from = dy + (size_t)i * stride_bytes;
      if (kind == WORD_F32)
        memcpy(&w[i * SQUARE + j], from + j * 4, 4);
      else if (kind == WORD_WIDE)
        w[i * SQUARE + j] = (uint32_t)((const uint16_t *)(const void *)from)[j] << 16;
      else if (kind == WORD_WIDE_F16)
        w[i * SQUARE + j] = wide_f16(((const uint16_t *)(const void *)from)[j]);
      else
        w[i / 2 * SQUARE + j] |= (uint32_t)((const uint16_t *)(const void *)from)[j] << i % 2 * 16;
    }
}

/* Transposes p[16,16] of words in place. */
static inline void turn_square(uint32_t *p) {
  _Alignas(64) uint32_t q[SQUARE * SQUARE];
  interleave(q, p);
  interleave(p, q);
  interleave(q, p);
  interleave(p, q);
}

/* Fills a[cols, chunk] of l->work from dy, rows [0, rows) of `cols` columns, `stride` bytes apart. The rest
 * up to `chunk` (a multiple of 32) becomes zeros. */
static inline void transpose_kind(char *a, const char *dy, size_t stride, int64_t rows, int64_t chunk,
                                  int64_t cols, word kind) {
  const int64_t         height = kind == WORD_PAIR ? 2 * SQUARE : SQUARE;
  const size_t          width = SQUARE * (kind == WORD_F32 ? sizeof(float) : sizeof(uint16_t));
  const size_t          a_stride = (size_t)chunk * (kind == WORD_PAIR ? sizeof(uint16_t) : sizeof(float));
  _Alignas(64) uint32_t p[SQUARE * SQUARE];
  for (int64_t row = 0; row < chunk; row += height, a += SQUARE * sizeof *p)
    for (int64_t col = 0; col < cols; col += SQUARE) {
      const char *from = dy + (size_t)row * stride + (size_t)(col / SQUARE) * width;
      char       *out = a + (size_t)col * a_stride;
      if (rows - row >= height && cols - col >= SQUARE)
        load_square(p, from, stride, kind);
      else
        load_corner(p, from, stride, kind, rows - row, cols - col);
      turn_square(p);
      for (int64_t i = 0; i < tri_min(SQUARE, cols - col); i++)
        memcpy(out + (size_t)i * a_stride, p + i * SQUARE, SQUARE * sizeof *p);
    }
}

static void transpose(const tri_linear *l, char *a, const char *dy, int64_t rows, int64_t chunk,
                      int64_t cols) {
  const size_t stride = (size_t)l->n_out * tri_dtype_bytes(l->dtype);
  if (l->dtype == TRI_F32)
    transpose_kind(a, dy, stride, rows, chunk, cols, WORD_F32);
  else if (l->dtype == TRI_F16)
    transpose_kind(a, dy, stride, rows, chunk, cols, WORD_WIDE_F16);
  else if (l->work == TRI_F32)
    transpose_kind(a, dy, stride, rows, chunk, cols, WORD_WIDE);
  else
    transpose_kind(a, dy, stride, rows, chunk, cols, WORD_PAIR);
}

/* M rows are cut into large chunks, then small ones. A rest that fills most of a large chunk becomes one. */
typedef struct chunks {
  int64_t rows, n_large, n_all;
} chunks;
typedef struct chunk {
  int64_t row, rows;
  int     kind;
} chunk;

static chunks cut_rows(const tri_gradient *g, int64_t rows) {
  const int64_t large = g->chunk_rows[0], rest = rows % large, n = rows / large + (4 * rest > 3 * large);
  return (chunks){rows, n, n + (rows > n * large ? tri_ceil_div(rest, CHUNK_SMALL) : 0)};
}

static chunk chunk_at(const tri_gradient *g, const chunks *c, int64_t i) {
  const int     kind = i >= c->n_large;
  const int64_t size = g->chunk_rows[kind];
  const int64_t row = kind ? c->n_large * g->chunk_rows[0] + (i - c->n_large) * size : i * size;
  return (chunk){row, tri_min(size, c->rows - row), kind};
}

static bool pack_chunk(const tri_linear *l, int thread, char *slot, const char *x, const chunk *c) {
  const tri_gradient *g = &l->grad;
  const int64_t       size = g->chunk_rows[c->kind];
  x += (size_t)(c->row * l->n_in) * tri_dtype_bytes(l->dtype);
  if (c->rows < size || l->work != l->dtype) {
    tri_linear_copy(l, tri_linear_stage(l, thread), x, c->rows, size, l->n_in, l->n_in);
    x = tri_linear_stage(l, thread);
  }
  return tri_gemm_pack(g->tile[0][c->kind], thread, slot, x, tri_linear_scratch(l, thread));
}

/* dw[col.., n_in] += the packed chunk's part, for the group of tiles from col on. */
static bool run_group(const tri_linear *l, int thread, float *dw, const char *slot, const char *dy,
                      const chunk *c, int64_t col) {
  const tri_gradient *g = &l->grad;
  const int64_t       size = g->chunk_rows[c->kind], end = tri_min(col + g->group * g->height, l->n_out);
  char               *a = tri_linear_stage(l, thread);
  bool                ok = true;
  dy += (size_t)(c->row * l->n_out + col) * tri_dtype_bytes(l->dtype);
  transpose(l, a, dy, c->rows, size, end - col);
  for (int64_t at = col; at < end && ok; at += g->height)
    ok = tri_gemm_run(g->tile[end - at < g->height][c->kind], thread, dw + at * l->n_in,
                      a + (size_t)((at - col) * size) * tri_dtype_bytes(l->work), slot,
                      tri_linear_scratch(l, thread));
  return ok;
}

/* dw += dy^T x with the library, for any number of rows. */
static tri_status run_library(const tri_linear *l, float *dw, const char *dy, tri_in x) {
  const tri_gradient *g = &l->grad;
  const chunks        all = cut_rows(g, x->dim[0]);
  const int64_t       cols = g->group * g->height, n_groups = tri_ceil_div(l->n_out, cols);
  bool                ok = true;
#pragma omp parallel num_threads(l->threads) reduction(&& : ok)
  {
    const int thread = tri_linear_begin();
    for (int64_t first = 0; first < all.n_all; first += g->n_slots) {
      const int64_t n = tri_min(g->n_slots, all.n_all - first);
#pragma omp for schedule(static)
      for (int64_t i = 0; i < n; i++) {
        const chunk c = chunk_at(g, &all, first + i);
        ok = pack_chunk(l, thread, tri_linear_shared(l) + (size_t)i * g->slot_bytes, x->data, &c) && ok;
      }
#pragma omp for schedule(static)
      for (int64_t t = 0; t < n_groups; t++)
        for (int64_t i = 0; i < n; i++) {
          const chunk c = chunk_at(g, &all, first + i);
          const char *slot = tri_linear_shared(l) + (size_t)i * g->slot_bytes;
          ok = run_group(l, thread, dw, slot, dy, &c, t * cols) && ok;
        }
    }
  }
  return ok ? TRI_OK : tri_linear_failed(l, "the weight gradient");
}

tri_status tri_cpu_linear_bwd_w(tri_stream *s, tri_linear *l, tri_out dw, tri_in dy, tri_in x, bool add) {
  TRI_ASSERT(l->backward && l->workspace);
  TRI_ASSERT(x->dtype == l->dtype && dy->dtype == l->dtype && dw->dtype == TRI_F32);
  TRI_ASSERT(x->ndim == 2 && x->dim[1] == l->n_in && dy->ndim == 2 && dy->dim[0] == x->dim[0]);
  TRI_ASSERT(dy->dim[1] == l->n_out && dw->ndim == 2 && dw->dim[0] == l->n_out && dw->dim[1] == l->n_in);
  if (tri_amx_in(l) && x->dim[0] > 0) {
    tri_amx_bwd_w(l, dw->data, dy, x, add);
    return TRI_OK;
  }
  if (tri_vec_in(l) && x->dim[0] > 0) {
    tri_vec_bwd_w(l, dw->data, dy, x, add);
    return TRI_OK;
  }
  if (!add) TRI_TRY(s->device->ops->fill(s, dw->data, 0, (size_t)(l->n_out * l->n_in) * sizeof(float)));
  return x->dim[0] ? run_library(l, dw->data, dy->data, x) : TRI_OK;
}
