/* library.h - the library itself, found when the program runs. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDNN_LIBRARY_H
#define TRI_GPU_CUDNN_LIBRARY_H

#include "backend.h"
#include "base/error.h"

/* Not collective. The functions of libcudnn.so.9, and its version: 91900 is 9.19.0. What the process has
 * loaded already comes first. The library stays loaded: kernels that it has registered with the driver go
 * with the process. */
TRI_CHECKED tri_status tri_cudnn_load(cudnn_api *out, size_t *version);

#endif
