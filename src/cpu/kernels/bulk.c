/* bulk.c - copies and ordered sums of long arrays, for collectives. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include <string.h>

enum {
  COPY_PIECE = 1 << 18, /* bytes; chosen: some pieces per thread, each far above the cost of starting it */
  SUM_PIECE = 1024 /* elements; chosen: the f32 accumulator and one source stay in the first-level cache */
};

void tri_cpu_bulk_copy(void *dst, const void *src, size_t bytes, int threads) {
  int64_t n_pieces = (int64_t)((bytes + COPY_PIECE - 1) / COPY_PIECE);

  if (threads <= 1 || n_pieces <= 1) {
    if (bytes) memcpy(dst, src, bytes);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < n_pieces; i++) {
    size_t begin = (size_t)i * COPY_PIECE, n = bytes - begin < COPY_PIECE ? bytes - begin : COPY_PIECE;
    memcpy((char *)dst + begin, (const char *)src + begin, n);
  }
}

/* One line per element type, X(name, storage type, accumulator type, load, store, sum). */
#define SAME(x)      (x)
#define ADD(a, b)    ((a) + (b))
#define WRAP32(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define WRAP64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define WRAP8(a, b)  ((uint8_t)((a) + (b)))
#define TYPE_LIST(X)                                                                                         \
  X(f32, float, float, SAME, SAME, ADD)                                                                      \
  X(bf16, uint16_t, float, tri_bf16_to_f32, tri_f32_to_bf16, ADD)                                            \
  X(f16, uint16_t, float, tri_f16_to_f32, tri_f32_to_f16, ADD)                                               \
  X(i32, int32_t, int32_t, SAME, SAME, WRAP32)                                                               \
  X(i64, int64_t, int64_t, SAME, SAME, WRAP64)                                                               \
  X(u8, uint8_t, uint8_t, SAME, SAME, WRAP8)

/* Reduces elements [begin, begin + n), n <= SUM_PIECE. (x != x) is true for NaN only. */
#define TRI_X(name, type, wide, load, store, sum)                                                            \
  static void reduce_##name(void *dst, const void *const *src, int n_src, int64_t begin, int n,              \
                            tri_cpu_redop op) {                                                              \
    wide        acc[SUM_PIECE];                                                                              \
    const type *x = (const type *)src[0] + begin;                                                            \
    type       *y = (type *)dst + begin;                                                                     \
    _Pragma("omp simd") for (int i = 0; i < n; i++) acc[i] = load(x[i]);                                     \
    for (int k = 1; k < n_src; k++) {                                                                        \
      x = (const type *)src[k] + begin;                                                                      \
      if (op == TRI_CPU_SUM) {                                                                               \
        _Pragma("omp simd") for (int i = 0; i < n; i++) acc[i] = sum(acc[i], load(x[i]));                    \
      } else {                                                                                               \
        _Pragma("omp simd") for (int i = 0; i < n; i++) {                                                    \
          wide v = load(x[i]);                                                                               \
          acc[i] = ((v > acc[i]) | (v != v)) ? v : acc[i];                                                   \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
    _Pragma("omp simd") for (int i = 0; i < n; i++) y[i] = store(acc[i]);                                    \
  }
TYPE_LIST(TRI_X)
#undef TRI_X

void tri_cpu_bulk_reduce(void *dst, const void *const *src, int n_src, int64_t n, tri_dtype t,
                         tri_cpu_redop op, int threads) {
  static void (*const piece[TRI_DTYPE_COUNT])(void *, const void *const *, int, int64_t, int,
                                              tri_cpu_redop) = {
      [TRI_F32] = reduce_f32, [TRI_BF16] = reduce_bf16, [TRI_F16] = reduce_f16,
      [TRI_I32] = reduce_i32, [TRI_I64] = reduce_i64,   [TRI_U8] = reduce_u8};
  int64_t n_pieces = (n + SUM_PIECE - 1) / SUM_PIECE;

  TRI_ASSERT((unsigned)t < TRI_DTYPE_COUNT && n_src > 0);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && n_pieces > 16)
  for (int64_t i = 0; i < n_pieces; i++) {
    int64_t begin = i * SUM_PIECE;
    piece[t](dst, src, n_src, begin, (int)(n - begin < SUM_PIECE ? n - begin : SUM_PIECE), op);
  }
}
