/* amx.h - linear_* of bf16 by AMX tiles (TDPBF16PS), for a device whose family of instructions they are
 * (cpu/pairs/pairs.h): tiles written and read here, so that a row's bits depend on its own x alone and rows
 * go to memory in their type.
 *
 * Left operands lie in strips of 32 rows, right ones in panels of 32 columns; both are cut into steps of 32
 * along k, TRI_AMX_STEP bytes each. A strip's step is two tiles of 16 rows [16,32], of rows 0-15 and 16-31.
 * A panel is two halves, of columns 0-15 and 16-31, one behind the other, and a half's step one tile of 16
 * pairs [16,16,2]: memory gives two places at once 1.1 times as fast as one (measured). What is beyond an
 * operand's end is 0. An element's sum runs in the order of k through f32, whether in a tile or in memory
 * between two chunks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_AMX_H
#define TRI_CPU_AMX_H

#include "cpu/pairs/pairs.h"
#include "linear.h"

enum { TRI_AMX_SIDE = 32, TRI_AMX_TILE = 1024, TRI_AMX_STEP = 2 * TRI_AMX_TILE }; /* bytes, the last two */

/* ---- amx_tile.c; not collective, all that follow ---- */

/* Whether this process multiplies `dtype` so, and whether l does. */
#if TRI_PAIRS_X86
static inline bool tri_amx_chosen(tri_dtype dtype) {
  return dtype == TRI_BF16 && tri_pairs_find() == &tri_pairs_amx;
}
static inline bool tri_amx_in(const tri_linear *l) { return l->amx; }
#else
#define tri_amx_chosen(dtype) false
#define tri_amx_in(l)         false
#endif
/* Around the products of a thread; again for another n_row: that of tri_amx_mul_flat, 16 for tri_amx_mul. */
void tri_amx_begin(int n_row);
void tri_amx_end(void);

/* Rows of a left operand: 0-15 from `at` on, 16-31 from `low` bytes behind it; bytes from row to row and from
 * step to step. */
typedef struct tri_amx_left {
  const char *at;
  int64_t     low, row, step;
} tri_amx_left;
static inline tri_amx_left tri_amx_strip(const char *at) {
  return (tri_amx_left){at, TRI_AMX_TILE, 64, TRI_AMX_STEP};
}

/* `steps` steps of a panel, its other half `half` bytes behind. They are fetched ahead, and then those from
 * `after` on. */
typedef struct tri_amx_right {
  const char *at, *after;
  int64_t     half, steps;
} tri_amx_right;

/* c[32,32], row stride ldc elements, = or (add) += a b. Fetched one step ahead. */
void tri_amx_mul(float *c, int64_t ldc, const tri_amx_left *a, const tri_amx_right *b, bool add);
/* c[n_row,32], row stride TRI_AMX_SIDE, of rows 0-15 alone, as many as tri_amx_begin was told; and, if `two`,
 * TRI_AMX_SIDE^2 elements behind it the same of the next panel, of which all k is there. Fetched `far` steps
 * ahead. */
void tri_amx_mul_flat(float *c, const tri_amx_left *a, const tri_amx_right *b, int64_t far, bool two,
                      bool add);

/* Strips and panels, from bf16 [.., ld]; `steps` of them from step `first` on; half: of a panel. */
/* a = rows x[n_row,k], n_row <= 32. */
void tri_amx_rows(char *to, const uint16_t *x, int64_t ld, int64_t n_row, int64_t k, int64_t first,
                  int64_t steps);
/* b = columns [0, n_col) of x[k,ld], n_col <= 32. */
void tri_amx_cols(char *to, int64_t half, const uint16_t *x, int64_t ld, int64_t n_col, int64_t k,
                  int64_t first, int64_t steps);
/* b = rows w[n_row,k] as columns, n_row <= 32. */
void tri_amx_turn_rows(char *to, int64_t half, const uint16_t *w, int64_t ld, int64_t n_row, int64_t k,
                       int64_t first, int64_t steps);
/* a = columns [0, n_col) of x[k,ld] as rows, n_col <= 32. */
void tri_amx_turn_cols(char *to, const uint16_t *x, int64_t ld, int64_t n_col, int64_t k, int64_t first,
                       int64_t steps);

/* ---- amx_rows.c and amx_grad.c: linear_* as in device/kernels.h ---- */

/* The products of l and what they need of the workspace. */
void tri_amx_open(tri_linear *l);
void tri_amx_gradient_open(tri_linear *l);
void tri_amx_pack(const tri_linear *l, char *packed_fwd, char *packed_bwd, const uint16_t *w, int part,
                  int n_part);
void tri_amx_run(const tri_linear *l, const tri_linear_call *c);
/* At least one row. */
void tri_amx_bwd_w(const tri_linear *l, float *dw, tri_in dy, tri_in x, bool add);

/* How `threads` share strips x panels: so many rows of them, and columns. */
typedef struct tri_amx_grid {
  int rows, cols;
} tri_amx_grid;
/* strip_cost, panel_cost: what a thread pays for each of its strips and panels, in products of both. */
tri_amx_grid tri_amx_share(int64_t strips, int64_t panels, int threads, int64_t strip_cost,
                           int64_t panel_cost);

#endif
