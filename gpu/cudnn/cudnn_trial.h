/* cudnn_trial.h - cuDNN's gradients beside the own kernel's, once for each shape. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CUDNN_TRIAL_H
#define TRI_CUDNN_TRIAL_H

#include "sdpa.h"

/* What attn_bwd is given, but for its work. */
typedef struct tri_cudnn_arrays {
  tri_tensor    dqkv, dout, o, lse, qkv, cu;
  tri_attn_rule rule;
} tri_cudnn_arrays;

typedef struct tri_cudnn_verdict {
  bool   repeats;     /* cuDNN gave the same bits twice */
  bool   behind;      /* and wrote behind the last row */
  double apart;       /* the largest difference to the own, of each part by its largest; NaN: not all are
                         numbers */
  char   failed[256]; /* the message of a call that cuDNN failed; "": none */
} tri_cudnn_verdict;

/* Pure, these three. Of a trial for sequences of at most T rows: the bytes it cannot do without; how many
 * rows its longest sequence has in so many, at most T; and what the own kernel's work takes at most. */
size_t  tri_cudnn_trial_bytes(const tri_heads *h, int64_t T);
int64_t tri_cudnn_trial_longest(const tri_heads *h, int64_t T, size_t bytes);
size_t  tri_cudnn_trial_work_bytes(const tri_heads *h, int64_t T);

/* Not collective; waits. A few sequences, the longest of so many rows, whose numbers follow from the shape
 * alone; behind the last row of each array is NaN. at: device memory, as many bytes as it was asked for. */
TRI_CHECKED tri_status tri_cudnn_trial_put(tri_stream *s, const tri_attn_rule *rule, int64_t longest,
                                           char *at, tri_cudnn_arrays *out);
/* Not collective; waits. The own kernel once, with `work`, and cuDNN twice, each into a->dqkv. That cuDNN
 * fails is a verdict, and no error unless the device fails too; one is that the own kernel's gradients are 0
 * or no numbers. */
TRI_CHECKED tri_status tri_cudnn_try(tri_stream *s, const tri_cudnn_arrays *a, void *work, tri_cudnn_way way,
                                     tri_cudnn_verdict *out);
/* Not collective; waits. Milliseconds of a way's second run. */
TRI_CHECKED tri_status tri_cudnn_time(tri_stream *s, tri_cudnn_way way, double *ms);

#endif
