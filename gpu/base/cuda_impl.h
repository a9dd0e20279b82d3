/* cuda_impl.h - the common base of the CUDA back end: the structs behind device and stream, and errors. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDA_IMPL_H
#define TRI_GPU_CUDA_IMPL_H

#include "kernels_cuda.h"

#include <cuda_runtime_api.h>

/* Bytes of each stream's scratch memory for the partial sums of two-pass kernels. Chosen as 16 parts of
 * 16,384 f32. */
enum { TRI_CUDA_SCRATCH = 1 << 20 };

/* Shared memory a block may have, in bytes. It is 99 KiB on compute capability 8.6 (A10, A40), 8.9 (L4, L40S)
 * and 12.0 (RTX 5090), 163 KiB on 8.0 (A100), and 227 KiB on 9.0 and 10.0 (H100, H200, B200). Specified in
 * the CUDA C++ Programming Guide, "Compute Capabilities". Kernels are written for 163 KiB. A kernel that
 * needs more than 99 KiB has a second, small form with the same bits. */
enum { TRI_CUDA_SHARED = 163 * 1024, TRI_CUDA_SHARED_LEAST = 99 * 1024 };

typedef struct tri_cuda_device {
  tri_device              base;             /* index is the CUDA ordinal */
  int                     n_sm, capability; /* number of multiprocessors, and 90 for capability 9.0 */
  size_t                  l2_bytes;
  size_t                  shared_bytes; /* the shared memory a block may have */
  int                     lane_sm;      /* multiprocessors held by collectives beside gradients, or 0 */
  tri_device_advice       advice;
  struct cublasLtContext *blas;  /* owned, opened by the first product */
  struct tri_cudnn       *cudnn; /* owned, NULL if cuDNN is not asked for (gpu/cudnn) */
} tri_cuda_device;

typedef struct tri_cuda_stream {
  tri_stream   base;
  cudaStream_t stream;
  void        *scratch; /* device memory, TRI_CUDA_SCRATCH bytes, used by one kernel at a time */
} tri_cuda_stream;

static inline cudaStream_t tri_cuda_stream_of(tri_stream *s) { return ((tri_cuda_stream *)s)->stream; }
static inline void        *tri_cuda_scratch(tri_stream *s) { return ((tri_cuda_stream *)s)->scratch; }
static inline int          tri_cuda_n_sm(const tri_stream *s) { return ((tri_cuda_device *)s->device)->n_sm; }
/* Returns whether a block on the stream's device may have this much shared memory, static and dynamic
 * together. */
static inline bool tri_cuda_has_shared(const tri_stream *s, size_t bytes) {
  return bytes <= ((tri_cuda_device *)s->device)->shared_bytes;
}

/* Turns a CUDA error into TRI_ENOMEM or TRI_EDEVICE, with a message naming the call and its place. */
static inline tri_status tri_cuda_failed(const char *file, int line, const char *func, cudaError_t e,
                                         const char *what) {
  (void)cudaGetLastError(); /* clears the error */
  return tri_fail(file, line, func, e == cudaErrorMemoryAllocation ? TRI_ENOMEM : TRI_EDEVICE, "%s: %s (%s)",
                  what, cudaGetErrorString(e), cudaGetErrorName(e));
}

/* Like TRI_TRY and TRI_TRY_DONE, for calls of the CUDA runtime. */
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
