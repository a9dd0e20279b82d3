/* vec.h - linear_* with FMA instructions of AVX-512 or AVX2 (cpu/pairs/pairs.h, tri_pairs_f32).
 *
 * A tile of the result stays in registers while k runs. It has the columns of a panel and the rows of a
 * strip, whose numbers depend on the instructions (tri_vec_code). Right operands lie in panels [k,width],
 * with 0 beyond an operand's end. Left operands lie in strips of rows, plain (TRI_VEC_LD apart) or
 * transposed (TRI_VEC_TURNED elements for each step of k). The sum of an element over a chunk of k begins
 * with 0 and runs by FMA in the order of k. The chunks' sums are added in order. Chunks depend on k alone.
 * One sum over all k would lose digits if k is a vocabulary. So a row's bits depend on its own x alone,
 * whatever is computed beside it.
 *
 * Packed weights have the type of the weights. 16-bit operands are converted to f32 for the tiles. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_VEC_H
#define TRI_CPU_VEC_H

#include "amx.h"

enum {
  TRI_VEC_ROWS = 14, /* the most of all instructions */
  TRI_VEC_COLS = 32, /* likewise */
  /* Most steps of k in a chunk. A strip of this length stays in the first-level cache. Measured. */
  TRI_VEC_CHUNK = 512,
  TRI_VEC_LD = TRI_VEC_CHUNK + 16, /* an odd number of cache lines spreads rows over the sets */
  TRI_VEC_TURNED = 16              /* a cache line */
};

/* Return whether this process multiplies `dtype` with this code, and whether l does. For a type that the
 * library would convert to f32, ask for TRI_F32. */
#if TRI_PAIRS_X86
static inline bool tri_vec_chosen(tri_dtype dtype) { return dtype == TRI_F32 && tri_pairs_f32(); }
static inline bool tri_vec_in(const tri_linear *l) { return l->vec; }
#else
#define tri_vec_chosen(dtype) false
#define tri_vec_in(l)         false
#endif

/* ---- vec_tile.c, vec_tile_avx2.c; not collective, all that follow ---- */

/* c = a b for n_row rows and the columns of n_panel panels. */
typedef struct tri_vec_tile {
  const float *a, *b;
  /* NULL, or 16-bit b [k,width] that `widen` converts. Only for up to tri_vec_code.few rows and one panel. */
  const uint16_t *half;
  void (*widen)(float *to, const uint16_t *from, int64_t n);
  int64_t      next, k; /* elements from one panel to the next; steps */
  int          n_row, n_panel;
  float       *wait; /* [n_panel,n_row,width], partial sums between two chunks of k; NULL if k is one chunk */
  bool         first, last; /* chunk: the first has no earlier sums, the last writes y */
  float       *y;           /* [n_row,n_col], row stride ld */
  int64_t      ld, n_col;   /* columns of y from there on */
  const float *base, *bias; /* added last; base like y, bias [n_col]; each may be NULL */
  /* NULL, or k / 4 cache lines of the next panel, which a tile of AVX2 fetches into the second-level cache.
   * Four tiles fetch a panel of f32, and two one of 16 bits. Tiles of AVX-512 fetch none. */
  const float *ahead;
} tri_vec_tile;
/* Returns how many panels n_row rows process at once. Few rows alone have too few independent sums to hide
 * the latency of an FMA. */
static inline int tri_vec_panels(int n_row) { return n_row <= 3 ? 4 : n_row <= 7 ? 2 : 1; }

/* The code of one family of instructions. Both add in the same order, which processors.sh compares. */
typedef struct tri_vec_code {
  int rows, width; /* the most rows of a tile, and the columns of a panel */
  int few;         /* the most rows of a tile that converts 16-bit b itself */
  /* a holds strips of rows. n_panel is at most tri_vec_panels(n_row). */
  void (*mul_rows)(const tri_vec_tile *t);
  /* a holds transposed strips. There is one panel. */
  void (*mul_turned)(const tri_vec_tile *t);
  /* Builds the panels for columns [0, n) of x[k,n], row stride ld. Panels are `next` elements apart. */
  void (*cols)(float *to, int64_t next, const float *x, int64_t ld, int64_t n, int64_t k);
  /* Pack weights into panels, for any width. Stores bypass the caches, because the weights would be evicted
   * before use. pack_cols takes w[k,n]. pack_rows makes one panel from rows of w[n_col,k] as columns, and
   * pads its steps to the next multiple of 16. */
  void (*pack_cols)(float *to, int64_t next, const float *w, int64_t ld, int64_t n, int64_t k);
  void (*pack_rows)(float *to, const float *w, int64_t ld, int64_t n_col, int64_t k);
  /* Builds transposed strips [k,TRI_VEC_TURNED] of `height` rows each from columns of dy[k,n], row stride ld.
   * Strips are `next` elements apart. */
  void (*strips)(float *to, int64_t next, const float *dy, int64_t ld, int64_t n, int64_t k, int height);
} tri_vec_code;
extern const tri_vec_code tri_vec_avx512, tri_vec_avx2;
/* The code of this process, after tri_pairs_choose. */
static inline const tri_vec_code *tri_vec_find(void) {
  return tri_pairs_f32_avx512() ? &tri_vec_avx512 : &tri_vec_avx2;
}

/* ---- vec_rows.c and vec_grad.c: linear_* as in device/kernels.h ---- */

/* Sets up the products of l and their share of the workspace. */
void tri_vec_open(tri_linear *l);
void tri_vec_gradient_open(tri_linear *l);
void tri_vec_pack(const tri_linear *l, void *packed_fwd, void *packed_bwd, const void *w, int part,
                  int n_part);
void tri_vec_run(const tri_linear *l, const tri_linear_call *c);
/* dy and x need at least one row. */
void tri_vec_bwd_w(const tri_linear *l, float *dw, tri_in dy, tri_in x, bool add);

#endif
