/* gemm_rows.cu - kernels beside the products, for the trials and gemm_cublas.c: noise, negation, columns, a
 * comparison of bits, and a bias of another type. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/cuda_util.cuh"

extern "C" {
#include "gemm_rows.h"
}

enum { THREADS = 256 }; /* chosen */

/* y[M,n] f32 = bias[n], plus base[M,n] if ADD. base may be y. bias has type B. The grid is tri_grid over the
 * elements. Tested against tri_cpu_linear_fwd. */
template <class B, bool ADD>
__global__ void __launch_bounds__(THREADS)
    bias_kernel(float *y, const B *bias, const float *base, int64_t M, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < M * n;
       i += (int64_t)gridDim.x * THREADS) {
    float b = tri_get(bias[i % n]);
    y[i] = ADD ? base[i] + b : b;
  }
}

tri_status tri_cuda_bias_rows(tri_stream *s, tri_out y, tri_in bias, tri_in base) {
  int64_t     M = y->dim[0], n = y->dim[1];
  unsigned    grid = tri_grid(s, M * n, THREADS);
  const void *from = base ? base->data : NULL;

  TRI_ASSERT(y->dtype == TRI_F32 && bias->dim[0] == n && (!base || base->dtype == TRI_F32));
#define LAUNCH(B, ADD) TRI_LAUNCH((bias_kernel<B, ADD>), grid, THREADS, 0, s, y->data, bias->data, from, M, n)
#define ADD(B)         (base ? LAUNCH(B, true) : LAUNCH(B, false))
  return TRI_BY_TYPE(tri_type(bias), ADD);
#undef ADD
#undef LAUNCH
}

/* Fills x[n] A with numbers of either sign between 2^-8 and 1, equally many in each octave, so that sums are
 * not exact. They are a function of seed and place by the hash "lowbias32" (Wellons 2018). The grid is
 * tri_grid. */
template <class A> __global__ void __launch_bounds__(THREADS) noise_kernel(A *x, int64_t n, uint32_t seed) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS) {
    uint32_t h = (uint32_t)i ^ (uint32_t)(i >> 32) * 0x9e3779b9u ^ seed * 0x85ebca6bu;
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    h ^= h >> 16;
    /* sign and mantissa are bits of h, the exponent is -8 .. -1 */
    tri_put(x + i, __uint_as_float((h & 0x807fffffu) | (119u + (h >> 23 & 7u)) << 23));
  }
}

tri_status tri_cuda_noise(tri_stream *s, tri_out x, uint32_t seed) {
  int64_t  n = tri_tensor_count(x);
  unsigned grid = tri_grid(s, n, THREADS);

#define LAUNCH(A) TRI_LAUNCH((noise_kernel<A>), grid, THREADS, 0, s, x->data, n, seed)
  return TRI_BY_TYPE(tri_type(x), LAUNCH);
#undef LAUNCH
}

/* Returns the sign bit of each element of t in 64 bits. */
static uint64_t signs(tri_dtype t) { return t == TRI_F32 ? 0x8000000080000000u : 0x8000800080008000u; }

/* x[n] = -x. The sign is the first bit of f32, bf16 and f16. The grid is tri_grid. */
template <class U> __global__ void __launch_bounds__(THREADS) negate_kernel(U *x, int64_t n, uint64_t sign) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
    x[i] ^= (U)sign;
}

tri_status tri_cuda_negate(tri_stream *s, tri_out x) {
  int64_t n = tri_tensor_count(x);

  if (x->dtype == TRI_F32)
    return TRI_LAUNCH((negate_kernel<uint32_t>), tri_grid(s, n, THREADS), THREADS, 0, s, x->data, n,
                      signs(x->dtype));
  return TRI_LAUNCH((negate_kernel<uint16_t>), tri_grid(s, n, THREADS), THREADS, 0, s, x->data, n,
                    signs(x->dtype));
}

/* y[M,n] = x[M,n], with rows ny and nx elements apart. The grid is tri_grid over the elements. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    columns_kernel(U *y, int64_t ny, const U *x, int64_t nx, int64_t M, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < M * n; i += (int64_t)gridDim.x * THREADS)
    y[i / n * ny + i % n] = x[i / n * nx + i % n];
}

tri_status tri_cuda_columns(tri_stream *s, tri_out y, int64_t at, tri_in x, int64_t from, int64_t n) {
  int64_t  M = y->dim[0], ny = y->dim[1], nx = x->dim[1];
  size_t   size = tri_dtype_bytes(y->dtype);
  unsigned grid = tri_grid(s, M * n, THREADS);
  void    *to = (char *)y->data + (size_t)at * size, *of = (char *)x->data + (size_t)from * size;

  TRI_ASSERT(x->dim[0] == M && x->dtype == y->dtype && at >= 0 && at + n <= ny && from >= 0 &&
             from + n <= nx);
  if (size == 4) return TRI_LAUNCH((columns_kernel<uint32_t>), grid, THREADS, 0, s, to, ny, of, nx, M, n);
  return TRI_LAUNCH((columns_kernel<uint16_t>), grid, THREADS, 0, s, to, ny, of, nx, M, n);
}

/* Sets *differ to 1 if one of n units of a is not that of b with these bits flipped. The grid is tri_grid. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    differ_kernel(int32_t *differ, const U *a, const U *b, int64_t n, uint64_t turned) {
  bool found = false;

  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
    found |= a[i] != (U)(b[i] ^ (U)turned);
  if (found) *differ = 1;
}

tri_status tri_cuda_differ(tri_stream *s, int32_t *differ, const void *a, const void *b, size_t bytes,
                           tri_dtype t, bool negated) {
  bool     wide = ((uintptr_t)a | (uintptr_t)b | bytes) % sizeof(uint64_t) == 0;
  size_t   unit = wide ? sizeof(uint64_t) : tri_dtype_bytes(t);
  int64_t  n = (int64_t)(bytes / unit);
  uint64_t turned = negated ? signs(t) : 0;

  TRI_ASSERT(bytes % tri_dtype_bytes(t) == 0);
  TRI_TRY(s->device->ops->fill(s, differ, 0, sizeof *differ));
#define LAUNCH(U)                                                                                            \
  TRI_LAUNCH((differ_kernel<U>), tri_grid(s, n, THREADS), THREADS, 0, s, differ, a, b, n, turned)
  return unit == 8 ? LAUNCH(uint64_t) : unit == 4 ? LAUNCH(uint32_t) : LAUNCH(uint16_t);
#undef LAUNCH
}
