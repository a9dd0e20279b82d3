/* device_cuda.h - the device called "cuda", as registry.c sees it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_DEVICE_CUDA_H
#define TRI_GPU_DEVICE_CUDA_H

#include "device/device.h"

/* One GPU per process, the local rank's. A call queues its work in its stream and returns; errors of queued
 * work show at the next stream_sync. */
extern const tri_device_ops tri_cuda_device_ops;

#endif
