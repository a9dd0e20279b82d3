/* eval_figures.h - writes the figures of trireme eval as text, as members of a JSON object, and as
 * warnings. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EVAL_FIGURES_H
#define TRI_EVAL_FIGURES_H

#include "reward/figures.h"

/* Sums over answers. `set` holds the rewards and is borrowed. */
typedef struct tri_eval_figures {
  const tri_reward_set *set;
  tri_figures           figures;
  int64_t               prompts;
  int                   num, reward_failures; /* answers to a prompt, and answers with a failed reward */
  const char           *failing;              /* name of the failed reward, NULL if it is one of several */
  bool                  drops;                /* failed answers are left out, else they count as 0 */
} tri_eval_figures;

/* Not collective, all that follow. This one prints on standard output. */
void tri_eval_print_figures(const tri_eval_figures *x);
/* Appends `"name": value`. A comma comes first unless *out is empty or ends with a brace. */
TRI_CHECKED tri_status tri_eval_put(tri_text *out, const char *name, double value);
TRI_CHECKED tri_status tri_eval_put_figures(const tri_eval_figures *x, tri_text *out);
/* Warns about answers cut at max_new tokens and about failed rewards. */
void tri_eval_warn(const tri_eval_figures *x, int64_t max_new);
/* Called on rank 0 before the work. Fails if the file exists already or cannot be written. The file itself is
 * created only when there are answers, so that an interrupted command leaves nothing behind. */
TRI_CHECKED tri_status tri_eval_check_output(const char *path);

#endif
