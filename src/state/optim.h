/* optim.h - clipping by the global norm, AdamW on the shard, and the learning-rate schedule. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_OPTIM_H
#define TRI_OPTIM_H

#include "loss_scale.h"
#include "params.h"

typedef struct tri_optim_opt {
  double             beta1, beta2, eps, weight_decay; /* only tensors of two dimensions decay */
  double             max_grad_norm;                   /* 0 for no clipping */
  tri_loss_scale_opt scaling;
} tri_optim_opt;

/* Numbers of one update. */
typedef struct tri_optim_now {
  double  learning_rate;
  int64_t update;     /* count of updates, from 1 */
  double  loss_scale; /* factor of the loss in these gradients */
  bool    overflows;  /* an overflow is expected, so no tensor is reported for it */
} tri_optim_now;

/* Collective over world. Clips the reduced gradients by their global norm. Runs AdamW (Loshchilov, Hutter
 * 2019) on the optimizer share. Sends new weights to every holder, and clears the gradients.
 *
 * *grad_norm is the norm of the unscaled loss's gradient before clipping, equal on all ranks. If it is not
 * finite, nothing is updated, and the gradients are cleared. Rank 0 reports the tensor, and *applied is
 * false. */
TRI_CHECKED tri_status tri_optim_step(tri_params *p, const tri_optim_opt *opt, const tri_optim_now *now,
                                      tri_stream *s, double *grad_norm, bool *applied);

/* In the order of the words of train.lr_scheduler. */
typedef enum { TRI_LR_CONSTANT, TRI_LR_LINEAR, TRI_LR_COSINE } tri_lr_scheduler;
typedef struct tri_lr_opt {
  tri_lr_scheduler scheduler;
  double           peak, min_ratio; /* as a share of the peak, reached at the last update */
  int64_t          warmup, total;   /* updates */
} tri_lr_opt;
/* Pure. Returns the learning rate of one update, counted from 1. The warm-up is linear from 0, and update w
 * of w has the peak. Then the schedule falls to min_ratio * peak at `total`. */
double tri_lr_at(const tri_lr_opt *o, int64_t update);

#endif
