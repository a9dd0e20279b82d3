/* cuda_impl.h - what the files of the CUDA back end share: the structs behind device and stream, errors. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDA_IMPL_H
#define TRI_GPU_CUDA_IMPL_H

#include "kernels_cuda.h"

#include <cuda_runtime_api.h>

/* Bytes each stream holds for the partial sums of kernels that need two passes. Chosen: 16 parts of 16,384
 * f32. */
enum { TRI_CUDA_SCRATCH = 1 << 20 };

/* The shared memory a block may have, in bytes: 99 KiB on compute capability 8.6 (A10, A40), 8.9 (L4, L40S)
 * and 12.0 (RTX 5090), 163 KiB on 8.0 (A100), 227 KiB on 9.0 and 10.0 (H100, H200, B200). Specified: CUDA C++
 * Programming Guide, "Compute Capabilities". Kernels are written for 163 KiB. A kernel that needs more than
 * 99 KiB has a second form, its small one, with the same bits. */
enum { TRI_CUDA_SHARED = 163 * 1024, TRI_CUDA_SHARED_LEAST = 99 * 1024 };

typedef struct tri_cuda_device {
  tri_device              base;             /* index: the CUDA ordinal */
  int                     n_sm, capability; /* multiprocessors; 90 is compute capability 9.0 */
  size_t                  l2_bytes;
  size_t                  shared_bytes; /* the shared memory a block may have */
  int                     lane_sm;      /* multiprocessors that collectives hold beside gradients; 0: none */
  tri_device_advice       advice;
  struct cublasLtContext *blas;  /* owned; opened by the first product */
  struct tri_cudnn       *cudnn; /* owned; NULL: not asked for (gpu/cudnn) */
} tri_cuda_device;

typedef struct tri_cuda_stream {
  tri_stream   base;
  cudaStream_t stream;
  void *scratch; /* device memory, TRI_CUDA_SCRATCH bytes; one kernel's at a time, as work is in order */
} tri_cuda_stream;

static inline cudaStream_t tri_cuda_stream_of(tri_stream *s) { return ((tri_cuda_stream *)s)->stream; }
static inline void        *tri_cuda_scratch(tri_stream *s) { return ((tri_cuda_stream *)s)->scratch; }
static inline int          tri_cuda_n_sm(const tri_stream *s) { return ((tri_cuda_device *)s->device)->n_sm; }
/* Whether a block of the stream's device may have so much shared memory, static and dynamic together. */
static inline bool tri_cuda_has_shared(const tri_stream *s, size_t bytes) {
  return bytes <= ((tri_cuda_device *)s->device)->shared_bytes;
}

/* The status of a CUDA error: TRI_ENOMEM or TRI_EDEVICE, with a message saying what was done and where. */
static inline tri_status tri_cuda_failed(const char *file, int line, const char *func, cudaError_t e,
                                         const char *what) {
  (void)cudaGetLastError(); /* seen */
  return tri_fail(file, line, func, e == cudaErrorMemoryAllocation ? TRI_ENOMEM : TRI_EDEVICE, "%s: %s (%s)",
                  what, cudaGetErrorString(e), cudaGetErrorName(e));
}

/* As TRI_TRY and TRI_TRY_DONE, for calls of the CUDA runtime. */
#define TRI_CUDA_TRY(call)                                                                                   \
  do {                                                                                                       \
    cudaError_t try_ = (call);                                                                               \
    if (try_ != cudaSuccess) return tri_cuda_failed(__FILE__, __LINE__, __func__, try_, #call);              \
  } while (0)
#define TRI_CUDA_TRY_DONE(call)                                                                              \
  do {                                                                                                       \
    cudaError_t try_ = (call);                                                                               \
    if (try_ != cudaSuccess) {                                                                               \
      st = tri_cuda_failed(__FILE__, __LINE__, __func__, try_, #call);                                       \
      goto done;                                                                                             \
    }                                                                                                        \
  } while (0)

#endif
