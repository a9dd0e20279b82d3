/* optim.h - clipping by the global norm, AdamW on the shard, the learning-rate schedule. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_OPTIM_H
#define TRI_OPTIM_H

#include "loss_scale.h"
#include "params.h"

typedef struct tri_optim_opt {
  double             beta1, beta2, eps, weight_decay; /* decay touches tensors of two dimensions only */
  double             max_grad_norm;                   /* 0: no clipping */
  tri_loss_scale_opt scaling;
} tri_optim_opt;

/* Of one update. */
typedef struct tri_optim_now {
  double  learning_rate;
  int64_t update;     /* 1-based count of updates */
  double  loss_scale; /* the gradients are of the loss times this */
  bool    overflows;  /* a gradient that is not finite is to be expected, and no tensor is named for it */
} tri_optim_now;

/* Collective over world. Clips the reduced gradients by their global norm, AdamW (Loshchilov, Hutter 2019) on
 * the optimizer share, new weights to every holder, gradients zero. *grad_norm is the norm of the loss's own
 * gradient before clipping, equal on all ranks; when it is not finite nothing is updated, the gradients are
 * cleared, rank 0 names the tensor, and *applied is false. */
TRI_CHECKED tri_status tri_optim_step(tri_params *p, const tri_optim_opt *opt, const tri_optim_now *now,
                                      tri_stream *s, double *grad_norm, bool *applied);

/* In the order of the words of train.lr_scheduler. */
typedef enum { TRI_LR_CONSTANT, TRI_LR_LINEAR, TRI_LR_COSINE } tri_lr_scheduler;
typedef struct tri_lr_opt {
  tri_lr_scheduler scheduler;
  double           peak, min_ratio; /* min_ratio: of the peak, reached at the last update */
  int64_t          warmup, total;   /* updates */
} tri_lr_opt;
/* Learning rate of one update, 1-based: linear warm-up from 0 (update w of w has the peak), then the schedule
 * down to min_ratio * peak at `total`. Pure. */
double tri_lr_at(const tri_lr_opt *o, int64_t update);

#endif
