/* rows.cu - lengths and offsets of sequences for cuDNN, from cu. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/cuda_util.cuh"
#include "rows.h"

enum { ROWS_THREADS = 128 };

/* A thread writes one sequence's numbers. The grid is blocks of ROWS_THREADS of [B+1]. Tested by cuDNN's
 * results (test_cudnn.c). */
__global__ void __launch_bounds__(ROWS_THREADS) cudnn_rows_kernel(const tri_cudnn_rows r) {
  int i = blockIdx.x * ROWS_THREADS + threadIdx.x, at = i < r.n ? i : r.n;

  if (i <= r.B) {
    int32_t row = r.cu[r.first + at];
    if (i < r.B) r.len[i] = i < r.n ? r.cu[r.first + i + 1] - row : 0;
    r.at_qkv[i] = row * r.E;
    r.at_o[i] = row * r.HD;
    r.at_stats[i] = row * r.H;
  }
}

tri_status tri_cudnn_put_rows(tri_stream *s, const tri_cudnn_rows *r) {
  return TRI_LAUNCH(cudnn_rows_kernel, (unsigned)tri_blocks(r->B + 1, ROWS_THREADS), ROWS_THREADS, 0, s, *r);
}
