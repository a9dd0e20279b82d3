/* row_sums.cuh - sums of each column over rows, in a fixed order, for gradients of weights.
 *
 * Rows are divided into parts of neighbouring rows. The number of parts depends on the shape alone, and so
 * does the order of every sum. A single part adds its sums to the total. Several parts write theirs to the
 * scratch memory, and tri_add_row_parts adds these to the total, part by part. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_ROW_SUMS_CUH
#define TRI_GPU_ROW_SUMS_CUH

#include "gpu/base/cuda_util.cuh"

enum {
  TRI_SUM_COLUMNS = 32, /* of a block. One warp reads those of one row. Chosen. */
  TRI_SUM_LANES = 32,   /* rows that a block reads at a time. Chosen. */
  TRI_SUM_ROWS = 64,    /* least rows of a part. Chosen. */
  TRI_SUM_PARTS = 16    /* most parts. Chosen. */
};

struct tri_row_parts {
  int     n;    /* parts */
  int64_t rows; /* of a part */
};

/* Host. Divides N rows into parts of at least `least` rows. A part has n sums, and those of several parts fit
 * into the scratch memory. */
static inline tri_row_parts tri_row_parts_of(int64_t N, int64_t n, int64_t least) {
  int64_t parts = tri_blocks(N, least), most = TRI_CUDA_SCRATCH / (int64_t)sizeof(float) / n;

  most = most > TRI_SUM_PARTS ? (int64_t)TRI_SUM_PARTS : most;
  parts = parts > most ? most : parts;
  parts = parts < 1 ? 1 : parts;
  return {(int)parts, tri_blocks(N, parts)};
}
/* Host. Returns where the kernel of the parts writes: `total` or the scratch memory. */
static inline float *tri_row_parts_to(tri_stream *s, const tri_row_parts &p, void *total) {
  return (float *)(p.n > 1 ? tri_cuda_scratch(s) : total);
}
/* Host. Returns the grid of a kernel with tri_row_share_of, for N rows of C columns. Its blocks have
 * TRI_SUM_COLUMNS * TRI_SUM_LANES threads. */
static inline unsigned tri_row_grid(const tri_row_parts &p, int64_t N, int64_t C) {
  return N > 0 ? (unsigned)(tri_blocks(C, TRI_SUM_COLUMNS) * p.n) : 0;
}

/* The rows and the column of a thread. The rows are `first` and every TRI_SUM_LANES-th after it, before
 * `end`. A thread without a column has no rows. */
struct tri_row_share {
  int64_t first, end, column;
  int     part;
};
static __device__ __forceinline__ tri_row_share tri_row_share_of(const tri_row_parts &p, int64_t N,
                                                                 int64_t C) {
  int     part = (int)(blockIdx.x % (unsigned)p.n);
  int64_t column =
      (int64_t)(blockIdx.x / (unsigned)p.n) * TRI_SUM_COLUMNS + threadIdx.x % (unsigned)TRI_SUM_COLUMNS;
  int64_t first = part * p.rows, end = first + p.rows < N ? first + p.rows : N;

  return {first + threadIdx.x / (unsigned)TRI_SUM_COLUMNS, column < C ? end : 0, column, part};
}

/* total[C] += the sums of the block's threads, or with several parts total[part,C] = them. A thread has added
 * its rows in order. The threads of a column are added in order. Every thread of the block calls it. */
static __device__ __forceinline__ void tri_put_row_sum(float *total, float sum, const tri_row_share &at,
                                                       const tri_row_parts &p, int64_t C) {
  TRI_SHARED(float, lane, [TRI_SUM_LANES][TRI_SUM_COLUMNS]);
  int col = threadIdx.x % (unsigned)TRI_SUM_COLUMNS, row = threadIdx.x / (unsigned)TRI_SUM_COLUMNS;

  lane[row][col] = sum;
  __syncthreads();
  if (row != 0 || at.column >= C) return;
  sum = 0;
#pragma unroll
  for (int i = 0; i < TRI_SUM_LANES; i++) sum += lane[i][col];
  if (p.n == 1)
    total[at.column] += sum;
  else
    total[at.part * C + at.column] = sum;
}

/* total[n] += part[0,n] + part[1,n] + ..., in this order. The grid is n / THREADS. It is a template because
 * several files have it. */
template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    tri_row_parts_kernel(float *total, const float *part, int parts, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  float   sum = 0;

  if (i >= n) return;
  for (int p = 0; p < parts; p++) sum += part[p * n + i];
  total[i] += sum;
}
/* Host. Adds the n sums of every part to total, if there are several parts. */
static inline tri_status tri_add_row_parts(tri_stream *s, void *total, const tri_row_parts &p, int64_t n) {
  enum { EACH = 256 }; /* chosen */
  if (p.n == 1) return TRI_OK;
  return TRI_LAUNCH((tri_row_parts_kernel<EACH>), (unsigned)tri_blocks(n, EACH), EACH, 0, s, total,
                    tri_cuda_scratch(s), p.n, n);
}

#endif
