/* gemm_rows.h - kernels beside the products, for the trials and gemm_cublas.c. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_GEMM_ROWS_H
#define TRI_GPU_GEMM_ROWS_H

#include "gpu/base/cuda_impl.h"

/* All that follow queue their work in s. y f32 [M,n] = bias[n] of any type, plus base f32 [M,n]. base may be
 * y or NULL. */
TRI_CHECKED tri_status tri_cuda_bias_rows(tri_stream *s, tri_out y, tri_in bias, tri_in base);
/* Fills x f32, bf16 or f16 with numbers in (-1, 1), a function of seed and place. */
TRI_CHECKED tri_status tri_cuda_noise(tri_stream *s, tri_out x, uint32_t seed);
/* x f32, bf16 or f16 = -x. */
TRI_CHECKED tri_status tri_cuda_negate(tri_stream *s, tri_out x);
/* Columns [at, at + n) of y [M,..] are columns [from, from + n) of x [M,..], both f32, bf16 or f16. */
TRI_CHECKED tri_status tri_cuda_columns(tri_stream *s, tri_out y, int64_t at, tri_in x, int64_t from,
                                        int64_t n);
/* All three are device memory. *differ becomes 1 if the bytes, of whole elements t, are not the same, else 0.
 * With `negated` it compares a with -b. */
TRI_CHECKED tri_status tri_cuda_differ(tri_stream *s, int32_t *differ, const void *a, const void *b,
                                       size_t bytes, tri_dtype t, bool negated);

#endif
