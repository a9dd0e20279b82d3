/* rows.h - the lengths and offsets of sequences in a call of cuDNN. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDNN_ROWS_H
#define TRI_GPU_CUDNN_ROWS_H

#include "gpu/base/cuda_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tri_cudnn_rows {
  int32_t       *len, *at_qkv, *at_o, *at_stats; /* [B], [B+1], [B+1], [B+1] on the device */
  const int32_t *cu;                             /* [S+1] */
  int            first, n, B; /* sequences first .. first + n - 1, then empty ones up to B */
  int            E, HD, H;    /* elements of a row of qkv, o and lse */
} tri_cudnn_rows;

TRI_CHECKED tri_status tri_cudnn_put_rows(tri_stream *s, const tri_cudnn_rows *r);

#ifdef __cplusplus
}
#endif
#endif
