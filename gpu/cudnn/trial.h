/* trial.h - cuDNN's gradients beside the own kernel's, once for each shape. Private to its room. */
#ifndef TRI_GPU_CUDNN_TRIAL_H
#define TRI_GPU_CUDNN_TRIAL_H

#include "sdpa.h"

typedef struct tri_cudnn_verdict {
  double own_ms, ms; /* of the own kernel, of cuDNN */
  bool   repeats;    /* cuDNN gave the same bits twice */
  double apart;      /* the largest difference to the own, in units of the largest gradient; NaN: all are 0,
                        or some no number, and nothing can be said */
} tri_cudnn_verdict;

/* Not collective; waits. Both ways twice, into dqkv, which is cuDNN's at the end. */
TRI_CHECKED tri_status tri_cudnn_try(tri_stream *s, tri_out dqkv, const tri_heads *h, tri_cudnn_way own,
                                     tri_cudnn_way other, tri_cudnn_verdict *out);

#endif
