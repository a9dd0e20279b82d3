/* select.h - builds a step of groups whose answers have different rewards. Not collective, all that follow,
 * unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SELECT_H
#define TRI_SELECT_H

#include "rollout.h"

/* The step so far. It needs a store of its own. */
typedef struct tri_selection {
  tri_rollout *step;
  int          lacks;   /* groups still missing */
  int64_t      dropped; /* groups of equal rewards seen so far */
} tri_selection;

/* Appends to the step, in order, groups of `asked` whose rewards differ, until the step is full. Copies the
 * arrays that an exchange carries. The others keep their initial values. */
TRI_CHECKED tri_status tri_select_take(tri_selection *s, const tri_rollout *asked);
/* Fills the rest of the step with other groups of `asked`, as TRI_FILLER. `asked` must be the rollout of the
 * last tri_select_take. */
TRI_CHECKED tri_status tri_select_fill(tri_selection *s, const tri_rollout *asked);

#endif
