/* eval_figures.h - what trireme eval says of answers: as text, as members of a JSON object, in warnings. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EVAL_FIGURES_H
#define TRI_EVAL_FIGURES_H

#include "reward/figures.h"

/* Sums over answers. set: what rewarded them, borrowed. */
typedef struct tri_eval_figures {
  const tri_reward_set *set;
  tri_figures           figures;
  int64_t               prompts;
  int                   num, reward_failures; /* answers to a prompt; answers that a reward could not judge */
  const char           *failing;              /* the name of that reward; NULL: one of several */
  bool                  drops;                /* such answers are left out, else they count as 0 */
} tri_eval_figures;

/* Not collective, all that follow. On standard output. */
void tri_eval_print_figures(const tri_eval_figures *x);
/* Appends `"name": value`, after a comma where *out is not empty and does not end with a bracket. */
TRI_CHECKED tri_status tri_eval_put(tri_text *out, const char *name, double value);
TRI_CHECKED tri_status tri_eval_put_figures(const tri_eval_figures *x, tri_text *out);
/* Of answers that were cut at max_new tokens, or not judged. */
void tri_eval_warn(const tri_eval_figures *x, int64_t max_new);
/* Rank 0's, before the work: a file that is there stays as it is, and one can be written. It is begun when
 * there are answers: nothing is left behind where the work is broken off. */
TRI_CHECKED tri_status tri_eval_check_output(const char *path);

#endif
