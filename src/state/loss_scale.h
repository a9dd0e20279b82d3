/* loss_scale.h - what a loss is taken times before the backward pass, so that gradients in float16 neither
 * vanish nor overflow; the gradient is divided by it again where it is read, in f32. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOSS_SCALE_H
#define TRI_LOSS_SCALE_H

#include "base/tensor.h"

#define TRI_LOSS_SCALE_MOST 0x1p32 /* chosen: f32 sums of gradients of float16 have space above it */

/* Names and numbers are DeepSpeed's; a gradient that overflows costs an update, so each one halves the scale,
 * as torch.amp.GradScaler does (DeepSpeed's hysteresis: 1). */
typedef struct tri_loss_scale_opt {
  double  fixed;       /* not 0: the scale, and it stays */
  int64_t first_power; /* it begins at 2 to this */
  int64_t window;      /* updates in a row whose gradient was finite, after which it doubles */
  double  min;         /* it never gets smaller */
} tri_loss_scale_opt;

typedef struct tri_loss_scale {
  double  value;    /* 1: the loss as it is */
  bool    adapts;   /* float16 without a fixed one */
  int64_t n_finite; /* updates in a row, since it last changed */
  int64_t n_given;  /* overflows it gave way to, over all of a resumed run */
} tri_loss_scale;

/* Not collective, all three. Of a model that computes in `dtype`: only float16's is not 1. */
void tri_loss_scale_begin(tri_loss_scale *s, const tri_loss_scale_opt *opt, tri_dtype dtype);
/* Can it still give way to a gradient that overflows? */
bool tri_loss_scale_yields(const tri_loss_scale *s, const tri_loss_scale_opt *opt);
/* An update's gradient was finite, or not: the scale of the next. */
void tri_loss_scale_follow(tri_loss_scale *s, const tri_loss_scale_opt *opt, bool finite);

#endif
