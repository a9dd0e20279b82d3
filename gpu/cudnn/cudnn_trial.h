/* cudnn_trial.h - compares cuDNN's gradients with the own kernel's, once per shape. Private to its room. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CUDNN_TRIAL_H
#define TRI_CUDNN_TRIAL_H

#include "sdpa.h"

/* The arguments of attn_bwd, except its work. */
typedef struct tri_cudnn_arrays {
  tri_tensor    dqkv, dout, o, lse, qkv, cu;
  tri_attn_rule rule;
} tri_cudnn_arrays;

typedef struct tri_cudnn_verdict {
  bool   repeats;     /* cuDNN gave the same bits twice */
  bool   behind;      /* it wrote behind the last row */
  double apart;       /* largest difference to the own kernel, per part by its largest, may be NaN */
  char   failed[256]; /* message of a failed call of cuDNN, else "" */
} tri_cudnn_verdict;

/* Pure, these three. They are for a trial of sequences of at most T rows. The first returns the bytes it
 * needs at least. The second returns the rows of its longest sequence in this many bytes, at most T. The
 * third returns the bytes of the own kernel's work at most. */
size_t  tri_cudnn_trial_bytes(const tri_heads *h, int64_t T);
int64_t tri_cudnn_trial_longest(const tri_heads *h, int64_t T, size_t bytes);
size_t  tri_cudnn_trial_work_bytes(const tri_heads *h, int64_t T);

/* Makes a few sequences, the longest with `longest` rows, and waits. Their numbers follow from the shape
 * alone. Behind the last row of each array there is NaN. `at` is device memory of the bytes the trial was
 * asked for. */
TRI_CHECKED tri_status tri_cudnn_trial_put(tri_stream *s, const tri_attn_rule *rule, int64_t longest,
                                           char *at, tri_cudnn_arrays *out);
/* Runs the own kernel once, with `work`, and cuDNN twice, each into a->dqkv, and waits. A failure of cuDNN is
 * a verdict and no error, unless the device fails too. It is an error if the own kernel's gradients are 0 or
 * not numbers. */
TRI_CHECKED tri_status tri_cudnn_try(tri_stream *s, const tri_cudnn_arrays *a, void *work, tri_cudnn_way way,
                                     tri_cudnn_verdict *out);
/* Measures the milliseconds of a way's second run, and waits. */
TRI_CHECKED tri_status tri_cudnn_time(tri_stream *s, tri_cudnn_way way, double *ms);

#endif
