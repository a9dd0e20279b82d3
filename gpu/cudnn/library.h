/* library.h - the library itself, found when the program runs. Private to its room. */
#ifndef TRI_GPU_CUDNN_LIBRARY_H
#define TRI_GPU_CUDNN_LIBRARY_H

#include "backend.h"
#include "base/base.h"

/* Not collective, both. The functions of libcudnn.so.9, and its version: 91900 is 9.19.0. What the process
 * has loaded already comes first. */
TRI_CHECKED tri_status tri_cudnn_load(cudnn_api *out, void **library, size_t *version);
void                   tri_cudnn_unload(void **library);

#endif
