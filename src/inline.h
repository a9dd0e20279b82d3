/* inline.h - TRI_INLINE: small functions for the host and, under nvcc, for the device too. Layer 0. */
#ifndef TRI_INLINE_H
#define TRI_INLINE_H

#ifdef __CUDACC__
#define TRI_INLINE static inline __host__ __device__
#else
#define TRI_INLINE static inline
#endif

#endif
