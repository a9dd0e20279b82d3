/* select.h - a step put together of groups in which some answer earns more than another. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SELECT_H
#define TRI_SELECT_H

#include "rollout.h"

/* The step so far. It takes from a store of its own. */
typedef struct tri_selection {
  tri_rollout *step;
  int          lacks;   /* groups */
  int64_t      dropped; /* groups of equal rewards among those seen */
} tri_selection;

/* Not collective. Puts the groups of `asked` whose rewards are not all equal behind those of the step, in
 * order, as many as it lacks: what an exchange brings of them; the rest is as tri_rollout_make leaves it. */
TRI_CHECKED tri_status tri_select_take(tri_selection *s, const tri_rollout *asked);
/* Not collective. Puts others of `asked`, which was taken from last, into the places left, as TRI_FILLER. */
TRI_CHECKED tri_status tri_select_fill(tri_selection *s, const tri_rollout *asked);

#endif
