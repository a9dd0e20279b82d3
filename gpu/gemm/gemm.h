/* gemm.h - the products' part of the CUDA device. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_GEMM_H
#define TRI_GPU_GEMM_H

#include "gpu/base/cuda_impl.h"

/* Closes d->blas, which the first product opened. */
void tri_cuda_blas_close(tri_cuda_device *d);

#endif
