/* library.h - the cuDNN library, found at run time. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDNN_LIBRARY_H
#define TRI_GPU_CUDNN_LIBRARY_H

#include "backend.h"
#include "base/error.h"

/* Not collective. Gives the functions of libcudnn.so.9 and its version, 91900 for 9.19.0. A library already
 * loaded by the process comes first. The library stays loaded, because its kernels registered with the driver
 * go with the process. */
TRI_CHECKED tri_status tri_cudnn_load(cudnn_api *out, size_t *version);

#endif
