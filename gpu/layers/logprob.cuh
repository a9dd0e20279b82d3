/* logprob.cuh - the softmax of a row of logits by one block: logp_fwd and sample get the same bits from
 * it. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_LOGPROB_CUH
#define TRI_GPU_LOGPROB_CUH

#include "gpu/base/cuda_util.cuh"

/* Threads of a row's block, by V alone, so that a row's bits depend on V alone. Chosen: one block fills a
 * multiprocessor where the vocabulary is a real one, as a chunk has about as many rows as there are of
 * those. */
enum {
  TRI_ROW_FEW = 32,
  TRI_ROW_SOME = 256,
  TRI_ROW_MANY = 1024,
  TRI_ROW_FEW_V = 512, /* the largest V they are for */
  TRI_ROW_SOME_V = 8192
};

/* TRI_LAUNCH of template <int THREADS, bool VEC> kernels, one block for each of n rows of V logits. */
#define TRI_LAUNCH_ROWS(kernel, n, V, vec, s, ...)                                                           \
  ((V) <= TRI_ROW_FEW_V    ? TRI_LAUNCH_ROWS_BY(kernel, TRI_ROW_FEW, n, vec, s, __VA_ARGS__)                 \
   : (V) <= TRI_ROW_SOME_V ? TRI_LAUNCH_ROWS_BY(kernel, TRI_ROW_SOME, n, vec, s, __VA_ARGS__)                \
                           : TRI_LAUNCH_ROWS_BY(kernel, TRI_ROW_MANY, n, vec, s, __VA_ARGS__))
#define TRI_LAUNCH_ROWS_BY(kernel, threads, n, vec, s, ...)                                                  \
  ((vec) ? TRI_LAUNCH((kernel<threads, true>), (unsigned)(n), threads, 0, s, __VA_ARGS__)                    \
         : TRI_LAUNCH((kernel<threads, false>), (unsigned)(n), threads, 0, s, __VA_ARGS__))

/* Host. Whether rows of V elements of 4 bytes that begin at all these pointers may be loaded with VEC. */
template <class... P> static inline bool tri_vec4(int64_t V, P... pointers) {
  const void *all[] = {pointers...};
  bool        ok = V % 4 == 0;
  for (const void *p : all) ok = ok && (uintptr_t)p % 16 == 0;
  return ok;
}

/* Four logits from p on, `left` before the end of the row: -infinity behind it. VEC: p is on 16 bytes, and
 * the memory reaches to the next multiple of 4; what lies behind `left` in it is given as it is. */
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

/* The larger one; NaN if one is NaN. */
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
  float  top, max;    /* largest logit; the same times inv_temperature */
  double sum, moment; /* of exp(d) and exp(d) d, d = inv_temperature * logit - max; sum: NaN
                       * with a NaN, an infinity, or logits beyond 10^9 whose rounding is all there is left */
} tri_row_softmax;

/* Of x [V] f32; every thread of the block calls it and gets the result. One pass: a thread keeps its own
 * maximum and its sums relative to that (Milakov, Gimelshein 2018), 16 logits at a time. Sums in f32, over
 * threads in f64. What is 87 below the maximum counts as e^-87, not as 0: the sum is at least 1. Judge:
 * tri_cpu_softmax_row. */
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
    shift = fmaxf(tri_minus(shift, max), TRI_FAR); /* NaN, of two infinities: nothing was summed */
    factor = tri_exp(shift);
    moment = factor * fmaf(shift, sum, moment);
    base = max == -INFINITY ? 0.0f : max;
    most = fmaxf(most, fmaf(top, inv_temperature, -base)); /* the largest d: by how much `max` is rounded */
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
