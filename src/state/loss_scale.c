/* loss_scale.c - adapts the scale of a loss to overflows of the gradient. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "loss_scale.h"

#include <math.h>

void tri_loss_scale_begin(tri_loss_scale *s, const tri_loss_scale_opt *opt, tri_dtype dtype) {
  *s = (tri_loss_scale){.value = 1};
  if (dtype != TRI_F16) return;
  s->adapts = opt->fixed == 0;
  s->value = s->adapts ? fmax(ldexp(1, (int)opt->first_power), opt->min) : opt->fixed;
}

bool tri_loss_scale_yields(const tri_loss_scale *s, const tri_loss_scale_opt *opt) {
  return s->adapts && s->value > opt->min;
}

/* torch.amp.GradScaler.update, with a lower bound as in DeepSpeed's DynamicLossScaler. */
void tri_loss_scale_follow(tri_loss_scale *s, const tri_loss_scale_opt *opt, bool finite) {
  if (!s->adapts) return;
  s->n_finite = finite ? s->n_finite + 1 : 0;
  s->n_given += !finite && tri_loss_scale_yields(s, opt);
  if (!finite) s->value = fmax(s->value / 2, opt->min);
  if (s->n_finite < opt->window) return;
  s->n_finite = 0;
  s->value = fmin(2 * s->value, TRI_LOSS_SCALE_MOST);
}
