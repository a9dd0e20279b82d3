/* loss_scale.h - scales the loss before the backward pass, so that float16 gradients neither vanish nor
 * overflow. Readers of the gradient divide it by the scale again, in f32. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOSS_SCALE_H
#define TRI_LOSS_SCALE_H

#include "base/tensor.h"

#define TRI_LOSS_SCALE_MOST 0x1p32 /* chosen. Leaves space for f32 sums of float16 gradients */

/* Names and numbers are DeepSpeed's. An overflowing gradient costs an update, so each overflow halves the
 * scale, as in torch.amp.GradScaler (DeepSpeed's hysteresis of 1). */
typedef struct tri_loss_scale_opt {
  double  fixed;       /* constant scale, or 0 to adapt */
  int64_t first_power; /* the scale begins at 2 to this power */
  int64_t window;      /* consecutive updates with finite gradients before the scale doubles */
  double  min;         /* lower bound of the scale */
} tri_loss_scale_opt;

typedef struct tri_loss_scale {
  double  value;    /* 1 for an unscaled loss */
  bool    adapts;   /* true for float16 without a constant scale */
  int64_t n_finite; /* consecutive updates since the last change */
  int64_t n_given;  /* overflows that halved the scale, over all starts of a resumed run */
} tri_loss_scale;

/* Not collective, all three. `dtype` is the model's compute type. Only float16 has a scale other than 1. */
void tri_loss_scale_begin(tri_loss_scale *s, const tri_loss_scale_opt *opt, tri_dtype dtype);
/* True if the scale can still be lowered after an overflow. */
bool tri_loss_scale_yields(const tri_loss_scale *s, const tri_loss_scale_opt *opt);
/* Sets the scale of the next update. `finite`: this update's gradient had no NaN or Inf. */
void tri_loss_scale_follow(tri_loss_scale *s, const tri_loss_scale_opt *opt, bool finite);

#endif
