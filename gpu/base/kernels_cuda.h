/* kernels_cuda.h - the kernels of the CUDA back end, declared from the list of kernels.h. It is in this
 * folder because all folders of this back end include it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_KERNELS_CUDA_H
#define TRI_GPU_KERNELS_CUDA_H

#include "device/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TRI_X(name) tri_##name##_fn tri_cuda_##name;
TRI_KERNEL_LIST(TRI_X)
TRI_RECURRENT_KERNELS(TRI_X)
#undef TRI_X
#ifdef __cplusplus
}
#endif
#endif
