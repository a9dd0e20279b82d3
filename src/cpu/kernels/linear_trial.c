/* linear_trial.c - tries the library's products with noise: do rows have the same bits in every tile, and
 * columns in every place of a block. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "linear_rows.h"

#include <string.h>

void tri_linear_noise(tri_dtype dtype, void *out, int64_t n, uint32_t *state) {
  for (int64_t i = 0; i < n; i++) {
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes, 7.1, fast and good enough here */
    const float f = (float)(int32_t)*state * 0x1p-31f;
    if (dtype == TRI_F32)
      ((float *)out)[i] = f;
    else
      ((uint16_t *)out)[i] = tri_f32_to_half(dtype, f);
  }
}

/* Tiles are tried with a ring of rows of noise, times a block of noise. */
enum { RING = TRI_TILE_ROWS, RING_STEP = 29 };
/* Results to compare for each place of a row in a tile. Two different orders of summation give the same bits
 * in up to four results of five. Measured: oneDNN 2.6.3. */
enum { N_TRIED = 256 };
typedef struct trial {
  int64_t n, k;
  char   *a, *b, *packed, *scratch; /* a: [2 * RING, k], the ring twice */
  float  *c, *want;                 /* [TRI_TILE_ROWS, n], [RING, n] */
} trial;

static void trial_close(trial *t) {
  TRI_FREE(t->a);
  TRI_FREE(t->b);
  TRI_FREE(t->packed);
  TRI_FREE(t->scratch);
  TRI_FREE(t->c);
  TRI_FREE(t->want);
}

/* Opens a trial. The caller closes it, also after an error. */
static tri_status trial_open(const tri_linear *l, tri_gemm *first, int64_t n, int64_t k, trial *t) {
  const size_t size = tri_dtype_bytes(l->work), ring = (size_t)(RING * k) * size;
  uint32_t     noise = 1;
  *t = (trial){.n = n, .k = k};
  TRI_TRY(TRI_ALLOC(t->a, 2 * ring));
  TRI_TRY(TRI_ALLOC(t->b, (size_t)(k * n) * size));
  TRI_TRY(TRI_ALLOC(t->packed, tri_gemm_packed_bytes(first)));
  TRI_TRY(TRI_ALLOC(t->scratch, l->scratch_bytes));
  TRI_TRY(TRI_ALLOC(t->c, TRI_TILE_ROWS * n));
  TRI_TRY(TRI_ALLOC(t->want, RING * n));
  tri_linear_noise(l->work, t->a, RING * k, &noise);
  memcpy(t->a + ring, t->a, ring);
  tri_linear_noise(l->work, t->b, k * n, &noise);
  return tri_gemm_pack(first, 0, t->packed, t->b, t->scratch) ? TRI_OK : tri_linear_failed(l, "packing");
}

/* c = the product of `g` with the rows of the ring from `row` on. */
static tri_status trial_run(const tri_linear *l, const trial *t, tri_gemm *g, int64_t row, float *c) {
  const char *a = t->a + (size_t)(row * t->k) * tri_dtype_bytes(l->work);
  return tri_gemm_run(g, 0, c, a, t->packed, t->scratch) ? TRI_OK : tri_linear_failed(l, "the product");
}

/* Sets *equal if each row, in several places of a tile of `height` rows, has the bits of t->want. */
static tri_status trial_equal(const tri_linear *l, const trial *t, tri_gemm *g, int64_t height, bool *equal) {
  const int64_t runs = tri_min(RING, 1 + tri_ceil_div(N_TRIED, t->n));
  *equal = true;
  for (int64_t i = 0; i < runs && *equal; i++) {
    const int64_t row = i * RING_STEP % RING;
    TRI_TRY(trial_run(l, t, g, row, t->c));
    for (int64_t r = 0; r < height; r++)
      if (memcmp(t->c + r * t->n, t->want + (row + r) % RING * t->n, (size_t)t->n * sizeof *t->c) != 0)
        *equal = false;
  }
  return TRI_OK;
}

tri_status tri_linear_choose_tiles(tri_linear *l, tri_linear_product *p, int kind) {
  const int  before = omp_get_max_threads();
  tri_gemm **tile = p->tile[kind];
  tri_status st = TRI_OK;
  trial      t = {0};
  bool       chosen = false;
  omp_set_num_threads(1); /* as in real calls, because some libraries give other bits with more threads */
  TRI_TRY_DONE(trial_open(l, tile[0], kind ? p->n % p->width : p->width, p->k, &t));
  for (int i = 0; i < TRI_N_TILES; i++) {
    const int64_t height = tri_tile_rows[i];
    if (!p->use[kind][i]) continue;
    for (int64_t row = 0; row < RING && !chosen; row += height)
      TRI_TRY_DONE(trial_run(l, &t, tile[i], row, t.want + row * t.n));
    TRI_TRY_DONE(trial_equal(l, &t, tile[i], height, &p->use[kind][i]));
    chosen |= p->use[kind][i];
  }
  if (!chosen) p->use[kind][0] = true; /* linear_check will report it */
done:
  omp_set_num_threads(before);
  trial_close(&t);
  return st;
}

/* ---- columns ---- */

/* Returns the first tile in use. */
static int first_tile(const tri_linear_product *p, int kind) {
  int t = 0;
  while (t < TRI_N_TILES - 1 && !p->use[kind][t]) t++;
  return t;
}

/* c [RING,n] = the rows of the ring times the n columns at b, with the blocks of this kind. */
static tri_status run_ring(const tri_linear *l, const trial *t, const tri_linear_product *p, int kind,
                           const char *b, float *c) {
  const int     tile = first_tile(p, kind);
  const int64_t n = kind ? p->n % p->width : p->width;
  if (!tri_gemm_pack(p->tile[kind][0], 0, t->packed, b, t->scratch)) return tri_linear_failed(l, "packing");
  for (int64_t row = 0; row < RING; row += tri_tile_rows[tile])
    TRI_TRY(trial_run(l, t, p->tile[kind][tile], row, c + row * n));
  return TRI_OK;
}

/* Sets l->unlike if n columns of t->want are not those of t->c [RING,n], `shift` further around its end. */
static void compare_columns(tri_linear *l, const trial *t, int64_t n, int64_t shift) {
  for (int64_t r = 0; r < RING; r++)
    for (int64_t j = 0; j < n; j++)
      if (memcmp(&t->want[r * t->n + j], &t->c[r * n + (j + shift) % n], sizeof *t->c) != 0) l->unlike = true;
}

/* The columns of a wide block are tried again further on, then those of the whole's narrower last block. */
tri_status tri_linear_try_columns(tri_linear *l, const tri_linear_product *whole) {
  const tri_linear_product *p = &l->fwd;
  const int64_t             W = p->width, narrow = whole->tile[1][0] ? whole->n % whole->width : 0;
  const int64_t             shift[] = {1, W / 3, W / 2};
  const size_t              col = (size_t)p->k * tri_dtype_bytes(l->work);
  const int                 before = omp_get_max_threads();
  size_t                    packed = p->block_bytes;
  tri_status                st = TRI_OK;
  trial                     t = {0};
  char                     *b = NULL; /* a block twice */
  for (int i = 0; i < TRI_N_TILES; i++)
    if (whole->tile[1][i]) tri_raise(&l->scratch_bytes, tri_gemm_scratch_bytes(whole->tile[1][i]));
  if (narrow) tri_raise(&packed, tri_gemm_packed_bytes(whole->tile[1][0]));
  omp_set_num_threads(1); /* as in choose_tiles */
  TRI_TRY_DONE(trial_open(l, p->tile[0][0], W, p->k, &t));
  TRI_FREE(t.packed);
  TRI_TRY_DONE(TRI_ALLOC(t.packed, packed));
  TRI_TRY_DONE(TRI_ALLOC(b, 2 * (size_t)W * col));
  for (int i = 0; i < 2; i++) memcpy(b + (size_t)(i * W) * col, t.b, (size_t)W * col);
  TRI_TRY_DONE(run_ring(l, &t, p, 0, b, t.want));
  for (size_t i = 0; i < sizeof shift / sizeof *shift; i++) {
    TRI_TRY_DONE(run_ring(l, &t, p, 0, b + (size_t)(W - shift[i]) * col, t.c));
    compare_columns(l, &t, W, shift[i]);
  }
  if (narrow) TRI_TRY_DONE(run_ring(l, &t, whole, 1, b, t.c));
  if (narrow) compare_columns(l, &t, narrow, 0);
done:
  omp_set_num_threads(before);
  TRI_FREE(b);
  trial_close(&t);
  return st;
}
