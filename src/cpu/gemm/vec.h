/* vec.h - linear_* of f32 by AVX-512's own FMA, for a device that has it (cpu/pairs/pairs.h, tri_pairs_f32).
 *
 * A tile of the result, up to TRI_VEC_ROWS rows x TRI_VEC_COLS columns, stays in registers while k runs.
 * Right operands lie in panels of TRI_VEC_COLS columns, [k,TRI_VEC_COLS], 0 beyond an operand's end; left
 * ones in strips of rows, as they come (TRI_VEC_LD apart) or turned (step k: TRI_VEC_TURNED elements). An
 * element's sum of a chunk of k begins with 0 and runs by FMA in the order of k; the chunks, which k alone
 * cuts, are added in their order. One sum over all k would lose digits where k is a vocabulary. Whatever is
 * computed beside it, a row's bits depend on its own x alone. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_VEC_H
#define TRI_CPU_VEC_H

#include "amx.h"

enum {
  TRI_VEC_ROWS = 14, /* 28 sums, two columns of b and an element of a: 31 of 32 registers */
  TRI_VEC_COLS = 32,
  TRI_VEC_CHUNK = 512,             /* steps of k at most: a strip stays in the first-level cache; measured */
  TRI_VEC_LD = TRI_VEC_CHUNK + 16, /* an odd number of cache lines spreads rows over the sets */
  TRI_VEC_TURNED = 16              /* a cache line */
};

/* Whether this process multiplies `dtype` so, and whether l does. */
#if TRI_PAIRS_X86
static inline bool tri_vec_chosen(tri_dtype dtype) { return dtype == TRI_F32 && tri_pairs_f32(); }
static inline bool tri_vec_in(const tri_linear *l) { return l->vec; }
#else
#define tri_vec_chosen(dtype) false
#define tri_vec_in(l)         false
#endif

/* ---- vec_tile.c; not collective, all that follow ---- */

/* c = a b of n_row rows and up to 32 columns of each of n_panel panels. */
typedef struct tri_vec_tile {
  const float *a, *b;
  int64_t      next, k; /* elements from a panel to the one after it; steps */
  int          n_row, n_panel;
  float       *wait; /* [n_panel,n_row,32]: where sums wait between two chunks of k; NULL: k is whole */
  bool         first, last; /* chunk: before the first nothing waits, the last goes to y */
  float       *y;           /* [n_row,n_col], row stride ld */
  int64_t      ld, n_col;   /* columns that y has from there on */
  const float *base, *bias; /* added at last; base as y, bias [n_col]; each may be NULL */
} tri_vec_tile;
/* a: strips of rows. n_panel > 1 only as tri_vec_panels says. */
void tri_vec_mul_rows(const tri_vec_tile *t);
/* a: strips turned; one panel. */
void tri_vec_mul_turned(const tri_vec_tile *t);
/* Panels that n_row rows meet at once: few rows have few sums, and additions take their time. */
static inline int tri_vec_panels(int n_row) { return n_row <= 3 ? 4 : n_row <= 7 ? 2 : 1; }

/* Panels from x[k,n], row stride ld: all that hold columns [0, n); panels `next` elements apart. */
void tri_vec_cols(float *to, int64_t next, const float *x, int64_t ld, int64_t n, int64_t k);
/* The same of weights, of any width, past the caches, which they would leave before they are read: from
 * w[k,n], and one panel from rows of w[n_col,k] as columns, of which steps up to the next 16 are written. */
void tri_vec_pack_cols(float *to, int64_t next, const float *w, int64_t ld, int64_t n, int64_t k);
void tri_vec_pack_rows(float *to, const float *w, int64_t ld, int64_t n_col, int64_t k);
/* Strips turned, [k,TRI_VEC_TURNED], of `height` rows each, from columns of dy[k,n], row stride ld; strips
 * `next` elements apart. */
void tri_vec_strips(float *to, int64_t next, const float *dy, int64_t ld, int64_t n, int64_t k, int height);

/* ---- vec_rows.c and vec_grad.c: linear_* as in device/kernels.h ---- */

/* The products of l and what they need of the workspace. */
void tri_vec_open(tri_linear *l);
void tri_vec_gradient_open(tri_linear *l);
void tri_vec_pack(const tri_linear *l, float *packed_fwd, float *packed_bwd, const float *w, int part,
                  int n_part);
void tri_vec_run(const tri_linear *l, const tri_linear_call *c);
/* At least one row. */
void tri_vec_bwd_w(const tri_linear *l, float *dw, tri_in dy, tri_in x, bool add);

#endif
