/* cuda_util.cuh - the common tools of all .cu files: launches, sums in a fixed order, 16-byte loads, bf16,
 * mma, cp.async.
 *
 * nvcc compiles it, or the host's compiler over tests/emulate if TRI_CUDA_EMULATED is set. A kernel runs on
 * both if it uses only this file, threadIdx and its like, __syncthreads, shuffles and votes.
 *
 * Rules. Declare shared memory by TRI_SHARED and TRI_SHARED_DYNAMIC. Launch kernels by TRI_LAUNCH only. Every
 * thread of a block reaches every barrier and none returns before one. The columns of a row's sum are
 * assigned to threads by column only, the same for vector and single loads and for every number of rows. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDA_UTIL_CUH
#define TRI_GPU_CUDA_UTIL_CUH

#if TRI_CUDA_EMULATED
#include "emulate.cuh"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif

#include <atomic>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "cuda_impl.h"
}
#include "base/dd.h"
#include "device/formula.h"

typedef uint16_t tri_bf16; /* an element of a bf16 array */
struct tri_f16 {           /* an element of an f16 array */
  uint16_t bits;
};

/* ---- launches ---- */

/* TRI_LAUNCH(kernel, grid, block, shared_bytes, s, arguments...) queues the kernel in the tri_stream s and
 * gives a tri_status. kernel is a name, or an instance of a template in parentheses, as in TRI_LAUNCH((k<T,
 * true>), ...). Arguments are converted to the kernel's types, and void * to any pointer. An empty grid
 * launches nothing. For more than 48 KiB of dynamic shared memory it asks the driver itself. */
#define TRI_LAUNCH(kernel, grid, block, shared_bytes, s, ...)                                                \
  TRI_LAUNCH_AS(kernel, __FILE__, __LINE__, #kernel, grid, block, shared_bytes, s, __VA_ARGS__)

/* The same for template <class A, bool VEC> kernels. `type` is the tri_dtype of A. */
#define TRI_LAUNCH_TYPED(kernel, type, vec, ...)                                                             \
  ((type) == TRI_BF16  ? TRI_LAUNCH_VEC(kernel, tri_bf16, vec, __VA_ARGS__)                                  \
   : (type) == TRI_F16 ? TRI_LAUNCH_VEC(kernel, tri_f16, vec, __VA_ARGS__)                                   \
                       : TRI_LAUNCH_VEC(kernel, float, vec, __VA_ARGS__))
#define TRI_LAUNCH_VEC(kernel, A, vec, ...)                                                                  \
  ((vec) ? TRI_LAUNCH((kernel<A, true>), __VA_ARGS__) : TRI_LAUNCH((kernel<A, false>), __VA_ARGS__))
/* CALL(A) with the element type A of `type`. */
#define TRI_BY_TYPE(type, CALL)                                                                              \
  ((type) == TRI_BF16 ? CALL(tri_bf16) : (type) == TRI_F16 ? CALL(tri_f16) : CALL(float))

/* Asks for dynamic shared memory, unless a launch of this kernel already asked for as much. Without asking
 * a kernel has 48 KiB minus its static shared memory (specified). This function does not count the static
 * part. */
template <auto Kernel> static cudaError_t tri_ask_shared(size_t bytes) {
  static std::atomic<size_t> most{0};
  cudaError_t                e = cudaSuccess;
  if (bytes > most) {
#if TRI_CUDA_EMULATED
    e = emu_ask_shared<Kernel>(bytes);
#else
    e = cudaFuncSetAttribute((const void *)Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
#endif
    if (e == cudaSuccess) most = bytes;
  }
  return e;
}

#if TRI_CUDA_EMULATED
#define TRI_LAUNCH_AS(kernel, ...) tri_launch<kernel>(__VA_ARGS__)
template <auto Kernel, class... A>
static tri_status tri_launch(const char *file, int line, const char *name, dim3 grid, dim3 block,
                             size_t shared_bytes, tri_stream *s, A... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return TRI_OK;
  TRI_ASSERT(tri_cuda_has_shared(s, shared_bytes));
  cudaError_t e = tri_ask_shared<Kernel>(shared_bytes);
  if (e == cudaSuccess)
    e = emu_call<Kernel>(Kernel, grid, block, shared_bytes, tri_cuda_stream_of(s), args...);
  return e == cudaSuccess ? TRI_OK : tri_cuda_failed(file, line, name, e, "the launch");
}
#else
#define TRI_LAUNCH_AS(kernel, ...) tri_launch<kernel>(kernel, __VA_ARGS__)
template <auto Kernel, class... P, class... A>
static tri_status tri_launch(void (*kernel)(P...), const char *file, int line, const char *name, dim3 grid,
                             dim3 block, size_t shared_bytes, tri_stream *s, A... args) {
  cudaError_t e;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return TRI_OK;
  TRI_ASSERT(tri_cuda_has_shared(s, shared_bytes));
  e = tri_ask_shared<Kernel>(shared_bytes);
  if (e == cudaSuccess) {
    kernel<<<grid, block, shared_bytes, tri_cuda_stream_of(s)>>>(static_cast<P>(args)...);
    e = cudaGetLastError();
  }
  return e == cudaSuccess ? TRI_OK : tri_cuda_failed(file, line, name, e, "the launch");
}
#endif

/* ---- shared memory ---- */

/* TRI_SHARED(float, tile, [32][33]) means __shared__ float tile[32][33]. TRI_SHARED_DYNAMIC(float, all)
 * declares float *all, the launch's shared_bytes, 16-byte aligned. */
#if TRI_CUDA_EMULATED
#define TRI_SHARED(type, name, dims)                                                                         \
  typedef type name##_array dims;                                                                            \
  static emu_site           name##_site;                                                                     \
  name##_array             &name = *(name##_array *)emu_shared(&name##_site, sizeof(name##_array), 16, #name)
#define TRI_SHARED_DYNAMIC(type, name) type *name = (type *)emu_shared_dynamic()
#else
#define TRI_SHARED(type, name, dims)   __shared__ __align__(16) type name dims
extern __shared__ __align__(16) unsigned char tri_shared_dynamic[];
#define TRI_SHARED_DYNAMIC(type, name) type *name = (type *)tri_shared_dynamic
#endif

/* Checks for mistakes of our own that only the device can see. A failure ends the program at the next
 * synchronisation. */
#define TRI_KERNEL_ASSERT(x)                                                                                 \
  do {                                                                                                       \
    if (!(x)) __trap();                                                                                      \
  } while (0)

/* ---- bf16 and f16, with the bits of tensor.h. A NaN stays a NaN, its payload may differ ---- */

static __device__ __forceinline__ float    tri_get(float x) { return x; }
static __device__ __forceinline__ float    tri_get(tri_bf16 x) { return __uint_as_float((uint32_t)x << 16); }
static __device__ __forceinline__ tri_bf16 tri_round(float x) {
#if TRI_CUDA_EMULATED
  return tri_f32_to_bf16(x);
#else
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#endif
}
static __device__ __forceinline__ void  tri_put(float *to, float x) { *to = x; }
static __device__ __forceinline__ void  tri_put(tri_bf16 *to, float x) { *to = tri_round(x); }
static __device__ __forceinline__ float tri_get(tri_f16 x) {
#if TRI_CUDA_EMULATED
  return tri_f16_to_f32(x.bits);
#else
  return __half2float(__ushort_as_half(x.bits));
#endif
}
static __device__ __forceinline__ uint16_t tri_round_f16(float x) {
#if TRI_CUDA_EMULATED
  return tri_f32_to_f16(x);
#else
  return __half_as_ushort(__float2half_rn(x));
#endif
}
static __device__ __forceinline__ void tri_put(tri_f16 *to, float x) { to->bits = tri_round_f16(x); }
/* low goes into the lower half, the order of two elements in memory. */
static __device__ __forceinline__ uint32_t tri_round2(float low, float high) {
#if TRI_CUDA_EMULATED
  return tri_f32_to_bf16(low) | (uint32_t)tri_f32_to_bf16(high) << 16;
#else
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#endif
}
static __device__ __forceinline__ float tri_low(uint32_t pair) { return __uint_as_float(pair << 16); }
static __device__ __forceinline__ float tri_high(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

/* a - b of the two rounded numbers. If b is a product, a compiler may fuse a - b into one FMA, and it may do
 * so in some kernels only. Kernels that must agree use this function, which is never fused. */
static __device__ __forceinline__ float tri_minus(float a, float b) {
#if TRI_CUDA_EMULATED
  volatile float rounded = b;
  return a - rounded;
#else
  return __fadd_rn(a, -b);
#endif
}

/* ---- eight elements at a time ----
 * `left` counts the elements from p to the end of the row. Elements behind the end read as 0 and are not
 * written. VEC needs left >= 8 or left <= 0, and p 16-byte aligned (tri_vec8 checks both on the host). The
 * values are the same with and without VEC. */

enum { TRI_UNIT = 8 };

template <bool VEC>
static __device__ __forceinline__ void tri_load8(float (&v)[8], const float *p, int64_t left) {
  if (VEC) {
    if (left <= 0) {
      for (int i = 0; i < 8; i++) v[i] = 0;
      return;
    }
    float4 a = ((const float4 *)p)[0], b = ((const float4 *)p)[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = i < left ? p[i] : 0.0f;
  }
}
template <bool VEC>
static __device__ __forceinline__ void tri_load8(float (&v)[8], const tri_bf16 *p, int64_t left) {
  if (VEC) {
    uint4 a = left > 0 ? *(const uint4 *)p : make_uint4(0, 0, 0, 0);
    v[0] = tri_low(a.x), v[1] = tri_high(a.x), v[2] = tri_low(a.y), v[3] = tri_high(a.y);
    v[4] = tri_low(a.z), v[5] = tri_high(a.z), v[6] = tri_low(a.w), v[7] = tri_high(a.w);
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = i < left ? tri_get(p[i]) : 0.0f;
  }
}
template <bool VEC>
static __device__ __forceinline__ void tri_load8(float (&v)[8], const tri_f16 *p, int64_t left) {
  if (VEC) {
    uint4    a = left > 0 ? *(const uint4 *)p : make_uint4(0, 0, 0, 0);
    uint32_t w[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = tri_get(tri_f16{(uint16_t)(w[i / 2] >> i % 2 * 16)});
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = i < left ? tri_get(p[i]) : 0.0f;
  }
}
template <bool VEC>
static __device__ __forceinline__ void tri_store8(float *p, const float (&v)[8], int64_t left) {
  if (VEC) {
    if (left <= 0) return;
    ((float4 *)p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    ((float4 *)p)[1] = make_float4(v[4], v[5], v[6], v[7]);
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < left) p[i] = v[i];
  }
}
template <bool VEC>
static __device__ __forceinline__ void tri_store8(tri_bf16 *p, const float (&v)[8], int64_t left) {
  if (VEC) {
    if (left <= 0) return;
    *(uint4 *)p = make_uint4(tri_round2(v[0], v[1]), tri_round2(v[2], v[3]), tri_round2(v[4], v[5]),
                             tri_round2(v[6], v[7]));
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < left) p[i] = tri_round(v[i]);
  }
}

template <bool VEC>
static __device__ __forceinline__ void tri_store8(tri_f16 *p, const float (&v)[8], int64_t left) {
  if (VEC) {
    uint32_t w[4];
    if (left <= 0) return;
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = tri_round_f16(v[2 * i]) | (uint32_t)tri_round_f16(v[2 * i + 1]) << 16;
    *(uint4 *)p = make_uint4(w[0], w[1], w[2], w[3]);
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < left) tri_put(p + i, v[i]);
  }
}

/* Host. Returns whether rows of n elements that begin at all these pointers may be loaded with VEC. A NULL
 * pointer is ignored. */
template <class... P> static inline bool tri_vec8(int64_t n, P... pointers) {
  const void *all[] = {pointers...};
  bool        ok = n % TRI_UNIT == 0;
  for (const void *p : all) ok = ok && (uintptr_t)p % 16 == 0;
  return ok;
}
/* Host. Asserts that t has a compute type A. */
static inline tri_dtype tri_type(tri_in t) {
  TRI_ASSERT(tri_dtype_computes(t->dtype));
  return t->dtype;
}
/* Host. Tells whether t has the type and the dimensions of `of`, both [N,C]. */
static inline bool tri_same_rows(tri_in t, tri_in of) {
  return t->dtype == of->dtype && t->dim[0] == of->dim[0] && t->dim[1] == of->dim[1];
}
static inline int64_t tri_blocks(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* Host. Returns this number of blocks as a grid, which has fewer than 2^31. */
static inline unsigned tri_whole_grid(int64_t blocks) {
  TRI_ASSERT(blocks >= 0 && blocks <= INT32_MAX);
  return (unsigned)blocks;
}
/* Host. Returns the grid of a loop over n items, one item per thread and turn. It has as many blocks as run
 * at once. Use it only for kernels whose results do not depend on the grid. */
static inline unsigned tri_grid(const tri_stream *s, int64_t n, int threads) {
  int64_t want = tri_blocks(n, threads), most = (int64_t)tri_cuda_n_sm(s) * (2048 / threads);
  return (unsigned)(want < most ? want : most);
}

/* ---- sums and maxima in one fixed order, with the result in every thread ---- */

template <class T> static __device__ __forceinline__ T tri_warp_sum(T v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}
static __device__ __forceinline__ tri_dd &operator+=(tri_dd &a, tri_dd b) { return a = tri_dd_add(a, b); }
static __device__ __forceinline__ tri_dd  tri_warp_sum(tri_dd v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    tri_dd other = {__shfl_xor_sync(~0u, v.hi, d), __shfl_xor_sync(~0u, v.lo, d)};
    v += other;
  }
  return v;
}
static __device__ __forceinline__ float tri_warp_max(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}
/* Over a block of WARPS whole warps in threadIdx.x only. Every thread calls it. */
template <int WARPS, class T> static __device__ __forceinline__ T tri_block_sum(T v) {
  TRI_SHARED(T, part, [WARPS]);
  v = tri_warp_sum(v);
  if (WARPS == 1) return v;
  __syncthreads(); /* a thread may still read part from the previous call */
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
#pragma unroll
  for (int i = 1; i < WARPS; i++) v += part[i];
  return v;
}
template <int WARPS> static __device__ __forceinline__ float tri_block_max(float v) {
  TRI_SHARED(float, part, [WARPS]);
  v = tri_warp_max(v);
  if (WARPS == 1) return v;
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
#pragma unroll
  for (int i = 1; i < WARPS; i++) v = fmaxf(v, part[i]);
  return v;
}

/* n threads (whole warps) meet at barrier id, 1..15. */
static __device__ __forceinline__ void tri_barrier(int id, int n) {
#if TRI_CUDA_EMULATED
  emu_block_meet(id, n, false, __FILE__, __LINE__);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory");
#endif
}

/* ---- warp products by mma.m16n8k16 and ldmatrix (PTX ISA), for whole warps only ---- */

/* d[16,8] += a[16,16] b[16,8]. Lane 4 g + t holds these elements. a has rows g, g + 8, g, g + 8 at columns
 * 2t, 2t, 2t + 8, 2t + 8 (two elements each). b has rows 2t, 2t + 8 of column g (two elements each). d has
 * row g, columns 2t, 2t + 1, then the same of row g + 8. */
static __device__ __forceinline__ void tri_mma_bf16(float (&d)[4], const uint32_t (&a)[4],
                                                    const uint32_t (&b)[2]) {
#if TRI_CUDA_EMULATED
  emu_mma_bf16(d, a, b, __FILE__, __LINE__);
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Loads N (1, 2, 4) matrices of 8 rows of 8 bf16 from shared memory. Lanes 8 i .. 8 i + 7 give the addresses
 * of the rows of matrix i, 16-byte aligned. A lane gets columns 2 (lane % 4) and the next of row lane / 4,
 * with TURN of the transposed matrix. */
template <int N, bool TURN>
static __device__ __forceinline__ void tri_ldmatrix(uint32_t (&r)[N], const void *row) {
#if TRI_CUDA_EMULATED
  emu_ldmatrix(r, N, TURN, row, __FILE__, __LINE__);
#else
  unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if constexpr (N == 1 && !TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at) : "memory");
  if constexpr (N == 1 && TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(at)
                 : "memory");
  if constexpr (N == 2 && !TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(at)
                 : "memory");
  if constexpr (N == 2 && TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(at)
                 : "memory");
  if constexpr (N == 4 && !TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  if constexpr (N == 4 && TURN)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#endif
}

/* ---- asynchronous copies of 16 bytes from global to shared memory, both 16-byte aligned ---- */

/* With `valid` false it writes 16 bytes of zero and does not read `global`. */
static __device__ __forceinline__ void tri_cp_async16(void *shared, const void *global, bool valid = true) {
#if TRI_CUDA_EMULATED
  emu_cp_async16(shared, global, valid, __FILE__, __LINE__);
#else
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
      "l"(global), "r"(valid ? 16 : 0)
      : "memory");
#endif
}
/* Makes the copies since the last commit a group. */
static __device__ __forceinline__ void tri_cp_commit() {
#if TRI_CUDA_EMULATED
  emu_cp_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until at most LEFT of this thread's groups are in flight. A barrier then shows them to the other
 * threads. */
template <int LEFT> static __device__ __forceinline__ void tri_cp_wait() {
#if TRI_CUDA_EMULATED
  emu_cp_wait(LEFT);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

/* 2^x, 0 below 2^-126. It takes one instruction, tri_exp takes 20. */
static __device__ __forceinline__ float tri_exp2(float x) {
#if TRI_CUDA_EMULATED
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

#endif
