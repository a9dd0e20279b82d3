/* cpu.h - elements, sums in fixed order, threads and tile products, shared by the CPU kernels. Private to its
 * room.
 *
 * Row invariance rests on two habits. An element is computed by explicit fmaf in one order, for every block
 * around it. A sum over a row runs in TRI_CPU_LANES partial sums (element i goes to lane i % TRI_CPU_LANES)
 * folded by halves, so neither the compiler nor the vector width chooses the order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_H
#define TRI_CPU_H

#include "kernels_cpu.h"
#include "cpu/pairs/pairs.h"
#include "device/formula.h"

enum {
  TRI_CPU_LANES = 32, /* chosen: two AVX-512 registers hide the latency of one addition */
  TRI_CPU_SERIAL =
      6144,            /* element operations worth a parallel region, some 2 us against its 1 us; measured */
  TRI_CPU_PIECE = 512, /* chosen: elements of a row that stay in the first-level cache between two loops */
  TRI_CPU_MAX_D = 512  /* chosen: the widest attention head in use is 256 */
};

/* gcc vectorises a loop with a sequential loop in its body. clang does not, and warns if asked to. */
#if defined(__clang__)
#define TRI_SIMD_OUTER
#else
#define TRI_SIMD_OUTER _Pragma("omp simd")
#endif

static inline tri_dtype tri_cpu_type(tri_in t) {
  TRI_ASSERT(tri_dtype_computes(t->dtype));
  return t->dtype;
}
/* Tells whether t has the type and the dimensions of `of`, both [N,C]. */
static inline bool tri_cpu_same_rows(tri_in t, tri_in of) {
  return t->dtype == of->dtype && t->dim[0] == of->dim[0] && t->dim[1] == of->dim[1];
}

/* Marks functions with one copy for each type A, so A is a constant in them. Otherwise gcc would test A in
 * the loop. */
#define TRI_CPU_EACH inline __attribute__((always_inline))
/* Calls the copy of f for A. */
#define TRI_CPU_OF(A, f, ...)                                                                                \
  ((A) == TRI_F32    ? f(TRI_F32, __VA_ARGS__)                                                               \
   : (A) == TRI_BF16 ? f(TRI_BF16, __VA_ARGS__)                                                              \
                     : f(TRI_F16, __VA_ARGS__))

/* Get and set element i of an array of type A. A is a constant wherever speed matters. */
static inline float tri_cpu_get(const void *p, tri_dtype A, int64_t i) {
  return A == TRI_F32 ? ((const float *)p)[i] : tri_half_to_f32(A, ((const uint16_t *)p)[i]);
}
static inline void tri_cpu_set(void *p, tri_dtype A, int64_t i, float value) {
  if (A == TRI_F32)
    ((float *)p)[i] = value;
  else
    ((uint16_t *)p)[i] = tri_f32_to_half(A, value);
}
/* Returns the address of element i of an array of type A. */
static inline const void *tri_cpu_at(const void *p, tri_dtype A, int64_t i) {
  return (const char *)p + i * (A == TRI_F32 ? 4 : 2);
}
static inline void *tri_cpu_at_out(void *p, tri_dtype A, int64_t i) {
  return (char *)p + i * (A == TRI_F32 ? 4 : 2);
}
/* Convert n elements of type A, times scale, to f32, and f32, times scale, to elements of type A. */
static TRI_CPU_EACH void tri_cpu_widen(const tri_dtype A, float *to, const void *from, int64_t n,
                                       float scale) {
#pragma omp              simd
  for (int64_t i = 0; i < n; i++) to[i] = tri_cpu_get(from, A, i) * scale;
}
static TRI_CPU_EACH void tri_cpu_narrow(const tri_dtype A, void *to, const float *from, int64_t n,
                                        float scale) {
  int64_t done = A == TRI_BF16 && tri_pairs_narrows() ? tri_pairs_narrow(to, from, n, scale) : 0;
#pragma omp simd
  for (int64_t i = done; i < n; i++) tri_cpu_set(to, A, i, from[i] * scale);
}
/* A row of type A is computed in f32 pieces of TRI_CPU_PIECE elements. This returns the place for a piece. It
 * is the row itself for f32, else `own`, and tri_cpu_put_piece then converts it. */
static TRI_CPU_EACH float *tri_cpu_piece(const tri_dtype A, void *to, int64_t i, float own[TRI_CPU_PIECE]) {
  return A == TRI_F32 ? (float *)to + i : own;
}
static TRI_CPU_EACH void tri_cpu_put_piece(const tri_dtype A, void *to, int64_t i, const float *piece,
                                           int64_t n) {
  if (A != TRI_F32) tri_cpu_narrow(A, tri_cpu_at_out(to, A, i), piece, n, 1.0f);
}

/* Returns the number of threads for `work` element operations. */
static inline int tri_cpu_threads(const tri_stream *s, int64_t work) {
  return work < TRI_CPU_SERIAL ? 1 : s->device->threads;
}

/* Largest size of a thread's own arrays on its stack in a kernel. Such kernels call tri_cpu_check_stack
 * first. */
enum { TRI_CPU_FRAME_BYTES = 1344 << 10 };
/* stack.c. Not collective, for the main thread only. Checks once that this thread and its OpenMP team,
 * `threads` in all, have stacks large enough for these arrays. Returns TRI_EDEVICE if not, because a stack
 * overflow would end the process. */
TRI_CHECKED tri_status tri_cpu_check_stack(int threads);

/* Returns the element operations of attention in a decode step. Every row's keys must have pages in its
 * table. */
static inline int64_t tri_cpu_decode_work(const tri_heads *h, tri_in table, tri_in len) {
  const int32_t *n_key = len->data;
  int64_t        work = 0;
  for (int64_t b = 0; b < len->dim[0]; b++) {
    TRI_ASSERT(n_key[b] > 0 && n_key[b] <= table->dim[1] * TRI_PAGE);
    work += n_key[b] * h->H * h->D;
  }
  return work;
}

/* Returns the first key of the first tile of TRI_PAGE keys seen by a row at position `row` of its
 * sequence. */
static inline int64_t tri_cpu_first_tile(int64_t row, int64_t window) {
  return window > 0 && row >= window ? (row + 1 - window) / TRI_PAGE * TRI_PAGE : 0;
}

/* Returns the sequence of row n, the last s with cu[s] <= n (sequences may be empty). */
static inline int64_t tri_cpu_find_sequence(const int32_t *cu, int64_t S, int64_t n) {
  int64_t lo = 0, hi = S;
  while (hi - lo > 1) {
    int64_t mid = lo + (hi - lo) / 2;
    if (cu[mid] <= n)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

/* Returns the row stride of tiles of D columns. An odd number of cache lines spreads rows over the sets of a
 * cache. */
static inline int64_t tri_cpu_tile_ld(int D) { return ((D + 15) / 16 | 1) * 16; }

/* Returns the columns of one thread if `threads` share C columns, in whole cache lines. */
static inline int64_t tri_cpu_stripe(int64_t C, int threads) {
  int64_t per = (C + threads - 1) / threads;
  return (per + 15) / 16 * 16;
}

/* Fold the lanes by halves. This destroys `lane`. */
static inline float tri_cpu_fold_sum(float lane[TRI_CPU_LANES]) {
#pragma omp         simd
  for (int i = 0; i < 16; i++) lane[i] += lane[i + 16];
#pragma omp simd
  for (int i = 0; i < 8; i++) lane[i] += lane[i + 8];
#pragma omp simd
  for (int i = 0; i < 4; i++) lane[i] += lane[i + 4];
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}
static inline float tri_cpu_max(float a, float b) { return a > b ? a : b; }
static inline float tri_cpu_fold_max(float lane[TRI_CPU_LANES]) {
#pragma omp         simd
  for (int i = 0; i < 16; i++) lane[i] = tri_cpu_max(lane[i], lane[i + 16]);
#pragma omp simd
  for (int i = 0; i < 8; i++) lane[i] = tri_cpu_max(lane[i], lane[i + 8]);
#pragma omp simd
  for (int i = 0; i < 4; i++) lane[i] = tri_cpu_max(lane[i], lane[i + 4]);
  return tri_cpu_max(tri_cpu_max(lane[0], lane[2]), tri_cpu_max(lane[1], lane[3]));
}

/* tile.c has products of attention tiles. Every element is summed by fmaf in the order of k, for every block.
 * c[n_row,n_col] = a[n_row,n_k] b[n_k,n_col], row strides ldc, lda, ldb, n_k >= 1. */
void tri_cpu_tile_mul(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
                      int n_row, int n_k, int n_col);
/* c += a b. n_k = 0 is legal. */
void tri_cpu_tile_add(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
                      int n_row, int n_k, int n_col);
/* The same with a transposed, [n_k,lda]. */
void tri_cpu_tile_add_turned(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
                             int n_row, int n_k, int n_col);
/* These work on rows of scores, n a multiple of TRI_PAGE. top returns the largest score. */
float tri_cpu_tile_top(const float *s, int n);
/* Replaces scores by exp(score - top) and returns their sum. No score may be above top. */
float tri_cpu_tile_weigh(float *s, int n, float top);
/* Takes scores p of one key with n queries and products ds. p becomes exp(p - lse) and ds becomes p (ds -
 * delta) for queries first .. end - 1. Both become 0 elsewhere. */
void tri_cpu_tile_grad(float *p, float *ds, const float *lse, const float *delta, int n, int first, int end);
/* Converts n rows of type A, with row stride `ld` elements, to tile[n,ld_tile] f32 times `scale`, D
 * columns. */
void tri_cpu_tile_rows(float *tile, int64_t ld_tile, const void *x, tri_dtype A, int64_t ld, int n, int D,
                       float scale);
/* The same, transposed to tile[D,TRI_PAGE]. Places n..TRI_PAGE-1 become 0. n <= TRI_PAGE. */
void tri_cpu_tile_turn(float *tile, const void *x, tri_dtype A, int64_t ld, int n, int D, float scale);

/* layers.c. Applies rope to n heads of width D, one behind the other. `turn` holds R/2 cosines, then R/2
 * sines. */
void tri_cpu_turn_heads(tri_dtype A, void *x, int64_t n, int D, const float *turn, int R, int sign);

/* Logits per step of the online softmax. 8 KiB stay in the first-level cache for the second read. */
enum { TRI_CPU_LOGITS = 2048 };
/* logprob.c. Computes the softmax statistics of inv_temperature * row in one pass. Unless mass is NULL,
 * mass[i] gets the sum of exp(scaled - max) over the i-th TRI_CPU_LOGITS logits. mass has space for twice as
 * many sums. */
typedef struct tri_cpu_softmax {
  float  max;     /* largest scaled logit */
  double log_sum; /* log of the sum of exp(scaled - max) */
  double excess;  /* mean of (scaled - max) under the distribution, in nats; entropy = log_sum - excess */
} tri_cpu_softmax;
void tri_cpu_softmax_row(const float *x, int64_t V, float inv_temperature, tri_cpu_softmax *out,
                         double *mass);

#endif
