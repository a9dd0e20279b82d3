/* registry.c - lists the back ends of this build. No other file names them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/device_cpu.h"
#if TRI_HAVE_CUDA
#include "gpu/device_cuda.h"
#endif
#if TRI_HAVE_NCCL
#include "gpu/nccl/comm_nccl.h"
#endif

const tri_backend tri_backends[] = {
    {&tri_cpu_device_ops, NULL},
#if TRI_HAVE_CUDA && TRI_HAVE_NCCL
    {&tri_cuda_device_ops, &tri_nccl_maker},
#elif TRI_HAVE_CUDA
    {&tri_cuda_device_ops, NULL},
#endif
    {NULL, NULL},
};
