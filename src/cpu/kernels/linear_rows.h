/* linear_rows.h - what linear.c, linear_grad.c and linear_rows.c share. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_LINEAR_ROWS_H
#define TRI_CPU_LINEAR_ROWS_H

#include "kernels_cpu.h"

#include "cpu/gemm/amx.h"
#include "cpu/gemm/vec.h"

/* linear_rows.c. in: `rows` rows of n elements of l->dtype, `stride` elements apart. out: the same of
 * l->work, dense, then zeros up to row `padded`. Not collective. */
void tri_linear_copy(const tri_linear *l, char *out, const char *in, int64_t rows, int64_t padded, int64_t n,
                     int64_t stride);
/* TRI_EDEVICE: the library failed in `what`. */
TRI_CHECKED tri_status tri_linear_failed(const tri_linear *l, const char *what);

/* linear_grad.c: raises the sizes of the workspace. Not collective. */
TRI_CHECKED tri_status tri_gradient_open(tri_linear *l);
void                   tri_gradient_close(tri_gradient *g);

#endif
