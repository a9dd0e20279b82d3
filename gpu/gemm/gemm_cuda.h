/* gemm_cuda.h - the matrix products of the CUDA device. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GEMM_CUDA_H
#define TRI_GEMM_CUDA_H

#include "gpu/base/cuda_impl.h"

/* Closes d->blas, opened by the first product. */
void tri_cuda_blas_close(tri_cuda_device *d);

#endif
