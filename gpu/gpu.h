/* gpu.h - the CUDA back end as src/ sees it: its table and its kernels. Layer 1. */
#ifndef TRI_GPU_GPU_H
#define TRI_GPU_GPU_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device called "cuda": one GPU per process, the local rank's. A call queues its work in its stream and returns;
 * errors of queued work show at the next stream_sync. */
extern const tri_device_ops tri_cuda_device_ops;

#define TRI_X(name, args) tri_status tri_cuda_##name args;
TRI_KERNEL_LIST(TRI_X)
#undef TRI_X

#ifdef __cplusplus
}
#endif
#endif
