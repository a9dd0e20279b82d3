/* logprob.cuh - the softmax of a row of logits by one block. logp_fwd and sample get the same bits from it.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_LOGPROB_CUH
#define TRI_GPU_LOGPROB_CUH

#include "gpu/base/cuda_util.cuh"

/* Threads of a row's block. They depend on V alone, so a row's bits do too. Chosen. With a real vocabulary
 * one block fills a multiprocessor, because a chunk has about as many rows as the GPU has multiprocessors. */
enum {
  TRI_ROW_FEW = 32,
  TRI_ROW_SOME = 256,
  TRI_ROW_MANY = 1024,
  TRI_ROW_FEW_V = 512, /* largest V for them */
  TRI_ROW_SOME_V = 8192
};

/* TRI_LAUNCH of kernels of the form template <int THREADS, bool VEC>, with one block for each of n rows of V
 * logits. */
#define TRI_LAUNCH_ROWS(kernel, n, V, vec, s, ...)                                                           \
  ((V) <= TRI_ROW_FEW_V    ? TRI_LAUNCH_ROWS_BY(kernel, TRI_ROW_FEW, n, vec, s, __VA_ARGS__)                 \
   : (V) <= TRI_ROW_SOME_V ? TRI_LAUNCH_ROWS_BY(kernel, TRI_ROW_SOME, n, vec, s, __VA_ARGS__)                \
                           : TRI_LAUNCH_ROWS_BY(kernel, TRI_ROW_MANY, n, vec, s, __VA_ARGS__))
#define TRI_LAUNCH_ROWS_BY(kernel, threads, n, vec, s, ...)                                                  \
  ((vec) ? TRI_LAUNCH((kernel<threads, true>), (unsigned)(n), threads, 0, s, __VA_ARGS__)                    \
         : TRI_LAUNCH((kernel<threads, false>), (unsigned)(n), threads, 0, s, __VA_ARGS__))

/* Host. Returns whether rows of V elements of 4 bytes that begin at all these pointers may be loaded with
 * VEC. */
template <class... P> static inline bool tri_vec4(int64_t V, P... pointers) {
  const void *all[] = {pointers...};
  bool        ok = V % 4 == 0;
  for (const void *p : all) ok = ok && (uintptr_t)p % 16 == 0;
  return ok;
}

/* Loads four logits from p on, with `left` before the end of the row and -infinity behind it. VEC needs p
 * 16-byte aligned and memory up to the next multiple of 4. It then gives the elements behind `left` as they
 * are. */
template <bool VEC>
static __device__ __forceinline__ void tri_logits4(float (&v)[4], const float *p, int left) {
  if (VEC) {
    float4 a = left > 0 ? *(const float4 *)p : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = j < left ? p[j] : -INFINITY;
  }
}

/* Returns the larger one, or NaN if one is NaN. */
static __device__ __forceinline__ float tri_max_or_nan(float a, float b) {
#if TRI_CUDA_EMULATED
  return a != a || a > b ? a : b;
#else
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#endif
}

typedef struct tri_row_softmax {
  float  top, max;    /* largest logit, and the same times inv_temperature */
  double sum, moment; /* sums of exp(d) and exp(d) d, d = inv_temperature * logit - max. sum is NaN with a
                       * NaN, an infinity, or logits beyond 10^9, of which only rounding is left */
} tri_row_softmax;

/* Softmax of x [V] f32. Every thread of the block calls it and gets the result. It makes one pass. A thread
 * keeps its own maximum and its sums relative to that maximum (Milakov, Gimelshein 2018), 16 logits at a
 * time. Sums are f32, and over threads f64. A logit 87 or more below the maximum counts as e^-87, not as 0.
 * The sum is at least 1. Tested against tri_cpu_softmax_row. */
template <int THREADS, bool VEC>
static __device__ __forceinline__ tri_row_softmax tri_softmax_row(const float *x, int V,
                                                                  float inv_temperature) {
  enum { WARPS = THREADS / 32, LOADS = 4 };
  tri_row_softmax r;
  float           top = -INFINITY, max = -INFINITY, sum = 0, moment = 0, most = 0, shift, factor;

  for (int i = threadIdx.x * 4; i < V; i += THREADS * 4 * LOADS) {
    float v[LOADS][4], base;
#pragma unroll
    for (int u = 0; u < LOADS; u++) tri_logits4<VEC>(v[u], x + i + u * THREADS * 4, V - i - u * THREADS * 4);
#pragma unroll
    for (int u = 0; u < LOADS; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) top = tri_max_or_nan(top, v[u][j]);
    shift = max;
    max = top * inv_temperature;
    shift = fmaxf(tri_minus(shift, max), TRI_FAR); /* NaN of two infinities, nothing was summed */
    factor = tri_exp(shift);
    moment = factor * fmaf(shift, sum, moment);
    base = max == -INFINITY ? 0.0f : max;
    most = fmaxf(most, fmaf(top, inv_temperature, -base)); /* the largest d is the rounding error of `max` */
#pragma unroll
    for (int u = 0; u < LOADS; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float d = fmaxf(fmaf(v[u][j], inv_temperature, -base), TRI_EXP_LOW), e = tri_exp_near(d);
        sum = u + j == 0 ? fmaf(sum, factor, e) : sum + e;
        moment = fmaf(e, d, moment);
      }
  }
  r.top = tri_block_max<WARPS>(top);
  r.max = r.top * inv_temperature;
  shift = fmaxf(tri_minus(max, r.max), TRI_FAR);
  factor = tri_exp(shift);
  r.sum = tri_block_sum<WARPS>(top < INFINITY && most < 64 ? (double)factor * (double)sum : (double)NAN);
  r.moment = tri_block_sum<WARPS>((double)factor * fma((double)shift, (double)sum, (double)moment));
  return r;
}

#endif
