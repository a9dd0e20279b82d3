/* linear_rows.h - functions shared by linear.c, linear_grad.c, linear_trial.c and linear_rows.c. Private to
 * its room. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_LINEAR_ROWS_H
#define TRI_CPU_LINEAR_ROWS_H

#include "kernels_cpu.h"

#include "cpu/gemm/amx.h"
#include "cpu/gemm/vec.h"

/* linear_rows.c. Convert n elements to f32. */
void tri_linear_widen_bf16(float *restrict to, const uint16_t *restrict from, int64_t n);
void tri_linear_widen_f16(float *restrict to, const uint16_t *restrict from, int64_t n);
/* linear_rows.c. Converts `rows` rows of n elements of l->dtype, `stride` elements apart, to dense rows of
 * l->work, and adds zero rows up to row `padded`. */
void tri_linear_copy(const tri_linear *l, char *out, const char *in, int64_t rows, int64_t padded, int64_t n,
                     int64_t stride);
/* Returns TRI_EDEVICE with the message that the library failed in `what`. */
TRI_CHECKED tri_status tri_linear_failed(const tri_linear *l, const char *what);

/* Rows of the tiles of a tri_linear_product. */
static const int tri_tile_rows[TRI_N_TILES] = {TRI_TILE_ROWS, 16, 8, 4, 1};

/* linear_trial.c. Fills n numbers in [-1, 1) at `out`, and continues at *state. */
void tri_linear_noise(tri_dtype dtype, void *out, int64_t n, uint32_t *state);
/* Finds the first tile in use whose rows have the same bits in every place. Keeps only tiles with the same
 * bits as this one. */
TRI_CHECKED tri_status tri_linear_choose_tiles(tri_linear *l, tri_linear_product *p, int kind);
/* Sets l->unlike if a column of l->fwd has other bits in another place, or in another block of `whole`. */
TRI_CHECKED tri_status tri_linear_try_columns(tri_linear *l, const tri_linear_product *whole);

/* linear_grad.c. Opens the gradient's products and raises the sizes of the workspace. */
TRI_CHECKED tri_status tri_gradient_open(tri_linear *l);
void                   tri_gradient_close(tri_gradient *g);

#endif
