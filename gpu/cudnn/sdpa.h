/* sdpa.h - the gradient of attention by NVIDIA's cuDNN, if it is asked for and can do it.
 *
 * TRI_CUDA_ATTN_BWD=cudnn asks for it. If the variable is unset or `own`, nothing of cuDNN is opened. The
 * choice is a rule and not a race of times, because the gradients of two kernels have different bits and a
 * run must repeat its bits. The log reports both times. `own` is the rule until a GPU has shown cuDNN to be
 * quicker (tests/gpu/check.sh decide). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_CUDNN_SDPA_H
#define TRI_GPU_CUDNN_SDPA_H

#include "gpu/base/cuda_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Not collective. Opens libcudnn.so.9 for this device as d->cudnn, if it is asked for. */
TRI_CHECKED tri_status tri_cudnn_open(tri_cuda_device *d);
void                   tri_cudnn_close(tri_cuda_device *d);
/* Returns a version like "9.19.0", or "" if it is not open. */
const char *tri_cudnn_version(const tri_cuda_device *d);

/* Pure. Returns a short reason if rows of type A are not for cuDNN, else NULL. N is the rows of the batch. */
const char *tri_cudnn_why_not(const tri_attn_rule *rule, tri_dtype A, int64_t N);
/* Pure. For sequences of at most `longest` rows, gives T and B. T is a power of two they fit in, at least
 * 128. B is the number of sequences at once in this many bytes, or 0 if not even one fits. */
void tri_cudnn_sizes(const tri_attn_rule *rule, int64_t longest, size_t bytes, int64_t *B, int64_t *T);

/* Queues work that leaves gradients in dqkv. */
typedef struct tri_cudnn_way {
  tri_status (*run)(void *ctx, tri_stream *s);
  void *ctx;
} tri_cudnn_way;

/* Runs attn_bwd and sets *done, if cuDNN is open and can do it. It works in the part of `work` behind
 * tri_attn_work. The first call of a shape waits. It compares cuDNN with the own kernel on the numbers of the
 * trial (cudnn_trial.h), and logs their difference and their times for this call. It leaves the shape to
 * `own` for good if the gradients differ too much, or if cuDNN fails or does not repeat its bits. */
TRI_CHECKED tri_status tri_cudnn_attn_bwd(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o,
                                          tri_in lse, tri_in qkv, tri_in cu, const tri_attn_rule *rule,
                                          tri_cudnn_way own, bool *done);

#ifdef __cplusplus
}
#endif

#endif
