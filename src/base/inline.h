/* inline.h - TRI_INLINE: small functions for the host and, under nvcc, for the device too. TRI_ON_GPU is 1
 * when nvcc compiles them for the device. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INLINE_H
#define TRI_INLINE_H

#ifdef __CUDACC__
#define TRI_INLINE static inline __host__ __device__
#else
#define TRI_INLINE static inline
#endif

#ifdef __CUDA_ARCH__
#define TRI_ON_GPU 1
#else
#define TRI_ON_GPU 0
#endif

#endif
