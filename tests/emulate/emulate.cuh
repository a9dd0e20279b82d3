/* emulate.cuh - CUDA's execution model for the host's C++ compiler, as far as gpu/base/cuda_util.cuh needs
 * it. Test code.
 *
 * The threads of a block are fibres of one OS thread. They meet at barriers, shuffles, votes and warp
 * products. The program ends with a message in three cases: some threads of a block or mask miss a barrier,
 * shared memory beyond the launch's is touched, or device memory is touched from outside. Shared memory is
 * filled with NaN before every block. Blocks, and the threads between two barriers, run in an order that
 * changes from launch to launch. In every second block by chance a warp runs ahead of the others, until it
 * waits for them at a barrier. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_EMULATE_EMULATE_CUH
#define TRI_TESTS_EMULATE_EMULATE_CUH

#include "cuda_runtime_api.h"

#include <functional>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__ static /* makes a kernel nobody launches an unused function */
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct __align__(8) float2 {
  float x, y;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
struct __align__(8) int2 {
  int x, y;
};
struct __align__(16) int4 {
  int x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2  make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4  make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

/* ---- the running thread ---- */

struct emu_place { /* the running thread's */
  uint3 thread, block;
  dim3  block_dim, grid_dim;
};
extern emu_place emu_here;
#define threadIdx (emu_here.thread)
#define blockIdx  (emu_here.block)
#define blockDim  (emu_here.block_dim)
#define gridDim   (emu_here.grid_dim)
enum { warpSize = 32 };

/* Ends the program with the message, and the running kernel, block and thread. */
[[noreturn]] void emu_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- meeting points ---- */

#define EMU_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* Meets at named barrier `id`, 0 for all threads of the block. n threads meet, a multiple of 32. Returns the
 * number of threads with `vote`. */
int emu_block_meet(int id, int n, bool vote, const char *file, int line);
/* The lanes of mask bring `own`. The last to come runs apply on all of them. NULL means that there is no such
 * lane. */
typedef void (*emu_apply)(void **lane, uint32_t mask);
void emu_warp_meet(uint32_t mask, void *own, emu_apply apply, const char *file, int line);
int  emu_lane(void);

static inline void __syncthreads(EMU_WHERE) { emu_block_meet(0, 0, false, file, line); }
static inline int  __syncthreads_count(int vote, EMU_WHERE) {
   return emu_block_meet(0, 0, vote != 0, file, line);
}
static inline int __syncthreads_or(int vote, EMU_WHERE) {
  return emu_block_meet(0, 0, vote != 0, file, line) > 0;
}
static inline int __syncthreads_and(int vote, EMU_WHERE) {
  return emu_block_meet(0, 0, vote == 0, file, line) == 0;
}
static inline void __syncwarp(uint32_t mask = ~0u, EMU_WHERE) {
  emu_warp_meet(
      mask, NULL, [](void **, uint32_t) {}, file, line);
}

template <class T> struct emu_shuffle {
  T        value, got;
  int      from, width; /* from counts within its part of `width` lanes, outside gives the own value */
  unsigned lane;
};
template <class T> void emu_shuffle_apply(void **lane, uint32_t mask) {
  for (int i = 0; i < 32; i++) {
    if (!(mask >> i & 1) || !lane[i]) continue;
    emu_shuffle<T> *s = (emu_shuffle<T> *)lane[i];
    int             part = i & ~(s->width - 1);
    if (s->from < 0 || s->from >= s->width) {
      s->got = s->value;
    } else {
      if (!(mask >> (part + s->from) & 1) || !lane[part + s->from])
        emu_fail("a shuffle reads lane %d, which takes no part in it", part + s->from);
      s->got = ((emu_shuffle<T> *)lane[part + s->from])->value;
    }
  }
}
template <class T>
static inline T emu_shuffle_run(uint32_t mask, T value, int from, int width, const char *file, int line) {
  emu_shuffle<T> s = {value, value, from, width, 0};
  emu_warp_meet(mask, &s, emu_shuffle_apply<T>, file, line);
  return s.got;
}
template <class T> static inline T __shfl_sync(uint32_t mask, T v, int from, int width = 32, EMU_WHERE) {
  return emu_shuffle_run(mask, v, from & (width - 1), width, file, line);
}
template <class T> static inline T __shfl_xor_sync(uint32_t mask, T v, int with, int width = 32, EMU_WHERE) {
  return emu_shuffle_run(mask, v, (emu_lane() & (width - 1)) ^ with, width, file, line);
}
template <class T>
static inline T __shfl_down_sync(uint32_t mask, T v, unsigned by, int width = 32, EMU_WHERE) {
  return emu_shuffle_run(mask, v, (emu_lane() & (width - 1)) + (int)by, width, file, line);
}
template <class T>
static inline T __shfl_up_sync(uint32_t mask, T v, unsigned by, int width = 32, EMU_WHERE) {
  return emu_shuffle_run(mask, v, (emu_lane() & (width - 1)) - (int)by, width, file, line);
}
uint32_t               emu_ballot(uint32_t mask, bool vote, const char *file, int line);
static inline uint32_t __ballot_sync(uint32_t mask, int vote, EMU_WHERE) {
  return emu_ballot(mask, vote != 0, file, line);
}
static inline int __any_sync(uint32_t mask, int vote, EMU_WHERE) {
  return emu_ballot(mask, vote != 0, file, line) != 0;
}
static inline int __all_sync(uint32_t mask, int vote, EMU_WHERE) {
  return emu_ballot(mask, vote == 0, file, line) == 0;
}

/* ---- warp products and asynchronous copies, for the wrappers in gpu/base/cuda_util.cuh ---- */

void emu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file, int line);
void emu_ldmatrix(uint32_t *r, int n, bool turn, const void *row, const char *file, int line);
void emu_cp_async16(void *shared, const void *global, bool valid, const char *file, int line);
void emu_cp_commit(void);
void emu_cp_wait(int groups_left);

/* ---- shared memory ---- */

struct emu_site { /* one declaration of shared memory */
  uint64_t block; /* the block with this array */
  void    *data;
};
void *emu_shared(emu_site *site, size_t bytes, size_t align, const char *name);
void *emu_shared_dynamic(void);

/* ---- small things ---- */

static inline uint32_t __float_as_uint(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}
static inline float __uint_as_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
static inline int                  __float_as_int(float f) { return (int)__float_as_uint(f); }
static inline float                __int_as_float(int i) { return __uint_as_float((uint32_t)i); }
static inline int                  __popc(uint32_t x) { return __builtin_popcount(x); }
static inline int                  __ffs(int x) { return __builtin_ffs(x); }
static inline int                  __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T atomicAdd(T *p, T v) {
  static_assert(!std::is_floating_point<T>::value, "sums by atomics have no fixed order");
  T old = *p;
  *p = old + v;
  return old;
}
template <class T> static inline T atomicMax(T *p, T v) {
  T old = *p;
  *p = v > old ? v : old;
  return old;
}
template <class T> static inline T atomicMin(T *p, T v) {
  T old = *p;
  *p = v < old ? v : old;
  return old;
}
template <class T> static inline T atomicExch(T *p, T v) {
  T old = *p;
  *p = v;
  return old;
}
template <class T> static inline T atomicCAS(T *p, T is, T v) {
  T old = *p;
  if (old == is) *p = v;
  return old;
}
static inline void                 __threadfence() {}
static inline void                 __threadfence_block() {}
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
[[noreturn]] void                  emu_trap(EMU_WHERE);
#define __trap() emu_trap()

/* ---- launches ---- */

/* One kernel, one instance of a template. The launch that names it registers it before main. */
struct emu_kernel {
  const char *name;
  bool        launched;
  size_t      most_shared, asked; /* dynamic bytes, the most launched and the permitted */
  emu_kernel *next;
  explicit emu_kernel(const char *pretty);
};
/* Queues a grid in s. */
cudaError_t emu_launch(emu_kernel *k, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t s,
                       std::function<void()> thread);

template <auto Kernel> struct emu_entry {
  static const char *pretty() { return __PRETTY_FUNCTION__; }
  static emu_kernel  kernel;
};
template <auto Kernel> emu_kernel emu_entry<Kernel>::kernel(emu_entry<Kernel>::pretty());

/* Does cudaFuncSetAttribute for cudaFuncAttributeMaxDynamicSharedMemorySize. */
template <auto Kernel> static cudaError_t emu_ask_shared(size_t bytes) {
  emu_entry<Kernel>::kernel.asked = bytes;
  return cudaSuccess;
}

template <auto Kernel, class... P, class... A>
static cudaError_t emu_call(void (*)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t s,
                            A... args) {
  std::tuple<P...> given(static_cast<P>(args)...);
  return emu_launch(&emu_entry<Kernel>::kernel, grid, block, shared_bytes, s,
                    [given] { std::apply(Kernel, given); });
}

#endif
