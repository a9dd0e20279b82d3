/* device_cuda.h - the device named "cuda", for registry.c. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_DEVICE_CUDA_H
#define TRI_GPU_DEVICE_CUDA_H

#include "device/device.h"

/* Each process uses one GPU, chosen by the local rank. A call queues its work in its stream and returns.
 * Errors of queued work show at the next stream_sync. */
extern const tri_device_ops tri_cuda_device_ops;

#endif
