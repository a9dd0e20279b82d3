/* sdpa.h - the gradient of attention by NVIDIA's cuDNN, where it is asked for and can do it.
 *
 * Asked for by TRI_CUDA_ATTN_BWD=cudnn; unset or `own`, nothing of it is opened. It is a rule and not a race
 * of times: gradients of two kernels have other bits, and a run has to give its bits twice; the log says both
 * times. `own` is the rule until a GPU has shown that the other is quicker (tests/gpu/check.sh decide). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDNN_SDPA_H
#define TRI_GPU_CUDNN_SDPA_H

#include "gpu/base/cuda_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Not collective. Opens libcudnn.so.9 for this device, if it is asked for: d->cudnn. */
TRI_CHECKED tri_status tri_cudnn_open(tri_cuda_device *d);
void                   tri_cudnn_close(tri_cuda_device *d);
/* "9.19.0"; "": it is not open. */
const char *tri_cudnn_version(const tri_cuda_device *d);

/* Pure. What of rows in type A is not for cuDNN, in a few words; NULL: nothing. N: rows of the batch. */
const char *tri_cudnn_why_not(const tri_attn_rule *rule, tri_dtype A, int64_t N);
/* Pure. For sequences of at most `longest` rows: T, a power of two that they fit in, at least 128, and B, how
 * many go at once in so many bytes; 0: not even one. */
void tri_cudnn_sizes(const tri_attn_rule *rule, int64_t longest, size_t bytes, int64_t *B, int64_t *T);

/* Queues work that leaves gradients in dqkv. */
typedef struct tri_cudnn_way {
  tri_status (*run)(void *ctx, tri_stream *s);
  void *ctx;
} tri_cudnn_way;

/* attn_bwd, if cuDNN is open and does this: *done. What work has behind tri_attn_work is its room. The
 * first call of a shape waits: it tries cuDNN beside the own kernel on numbers of the trial's
 * (cudnn_trial.h), says how far apart they are and what each takes for the call's, and leaves the shape to
 * `own` for good if they are not alike, cuDNN does not repeat its bits, or fails. */
TRI_CHECKED tri_status tri_cudnn_attn_bwd(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o,
                                          tri_in lse, tri_in qkv, tri_in cu, const tri_attn_rule *rule,
                                          tri_cudnn_way own, bool *done);

#ifdef __cplusplus
}
#endif

#endif
