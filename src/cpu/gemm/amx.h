/* amx.h - linear_* of bf16 with AMX tiles (TDPBF16PS), on processors whose chosen pairs family is AMX
 * (cpu/pairs/pairs.h). Tiles are written and read here, so the bits of a row depend on its own x alone, and
 * rows go to memory in their own type.
 *
 * Left operands lie in strips of 32 rows, right ones in panels of 32 columns. Both are cut into steps of 32
 * along k, with TRI_AMX_STEP bytes each. A step of a strip is two tiles of 16 rows [16,32], rows 0-15 and
 * rows 16-31. A panel is two halves, columns 0-15 and 16-31, one behind the other. A step of a half is one
 * tile of 16 pairs [16,16,2]. Reading two places at once is 1.1 times as fast as reading one (measured).
 * Elements beyond an operand's end are 0. The sum of an element runs in the order of k in f32, in a tile or
 * in memory between two chunks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_AMX_H
#define TRI_CPU_AMX_H

#include "cpu/pairs/pairs.h"
#include "linear.h"

enum { TRI_AMX_SIDE = 32, TRI_AMX_TILE = 1024, TRI_AMX_STEP = 2 * TRI_AMX_TILE }; /* the last two in bytes */

/* ---- amx_tile.c; not collective, all that follow ---- */

/* Return whether this process multiplies `dtype` with AMX, and whether l does. */
#if TRI_PAIRS_X86
static inline bool tri_amx_chosen(tri_dtype dtype) {
  return dtype == TRI_BF16 && tri_pairs_find() == &tri_pairs_amx;
}
static inline bool tri_amx_in(const tri_linear *l) { return l->amx; }
#else
#define tri_amx_chosen(dtype) false
#define tri_amx_in(l)         false
#endif
/* A thread calls begin before its products and end after them. It calls begin again for another n_row, which
 * is 16 for tri_amx_mul and the n_row of tri_amx_mul_flat. */
void tri_amx_begin(int n_row);
void tri_amx_end(void);

/* Rows of a left operand. Rows 0-15 begin at `at`, and rows 16-31 begin `low` bytes behind. `row` and `step`
 * are the bytes between rows and between steps. */
typedef struct tri_amx_left {
  const char *at;
  int64_t     low, row, step;
} tri_amx_left;
static inline tri_amx_left tri_amx_strip(const char *at) {
  return (tri_amx_left){at, TRI_AMX_TILE, 64, TRI_AMX_STEP};
}

/* `steps` steps of a panel. The panel's other half lies `half` bytes behind. Prefetching continues at `after`
 * once these steps are fetched. */
typedef struct tri_amx_right {
  const char *at, *after;
  int64_t     half, steps;
} tri_amx_right;

/* c[32,32], row stride ldc elements, = or (add) += a b. Prefetches one step ahead. */
void tri_amx_mul(float *c, int64_t ldc, const tri_amx_left *a, const tri_amx_right *b, bool add);
/* c[n_row,32], row stride TRI_AMX_SIDE, for rows 0-15 alone, with n_row from tri_amx_begin. With `two`, the
 * next panel's result follows TRI_AMX_SIDE^2 elements behind, and all k of that panel must be in memory.
 * Prefetches `far` steps ahead. */
void tri_amx_mul_flat(float *c, const tri_amx_left *a, const tri_amx_right *b, int64_t far, bool two,
                      bool add);

/* These build strips and panels from bf16 [.., ld]. They write `steps` steps from step `first` on. `half` is
 * the byte distance of a panel's halves. */
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

/* Sets up the products of l and their share of the workspace. */
void tri_amx_open(tri_linear *l);
void tri_amx_gradient_open(tri_linear *l);
void tri_amx_pack(const tri_linear *l, char *packed_fwd, char *packed_bwd, const uint16_t *w, int part,
                  int n_part);
void tri_amx_run(const tri_linear *l, const tri_linear_call *c);
/* dy and x need at least one row. */
void tri_amx_bwd_w(const tri_linear *l, float *dw, tri_in dy, tri_in x, bool add);

/* A grid of threads that share strips x panels, rows along strips and cols along panels. */
typedef struct tri_amx_grid {
  int rows, cols;
} tri_amx_grid;
/* Chooses the cheapest grid. strip_cost and panel_cost are a thread's overhead for each of its strips and
 * panels, in units of one strip-panel product. */
tri_amx_grid tri_amx_share(int64_t strips, int64_t panels, int threads, int64_t strip_cost,
                           int64_t panel_cost);

#endif
