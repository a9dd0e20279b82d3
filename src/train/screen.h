/* screen.h - what a training run shows on the terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_SCREEN_H
#define TRI_TRAIN_SCREEN_H

#include "train.h"

/* screen_start.c. Collective over world. Rank 0 prints, here and below, no line or row wider than
 * TRI_SCREEN_COLUMNS but where a path is longer. */
TRI_CHECKED tri_status tri_screen_start(tri_trainer *t);
/* Not collective. Its last part. */
TRI_CHECKED tri_status tri_screen_plan(const tri_trainer *t);
/* screen_start.c. Not collective. Appends what is minimised, in one line. */
TRI_CHECKED tri_status tri_screen_loss(const tri_trainer *t, tri_text *out);
/* screen_start.c. Not collective. Hands out back: the text visible, and at most `width` columns of it. */
const char *tri_screen_shown(const char *text, int width, char out[TRI_CKPT_PATH_BYTES]);
/* screen.c. Not collective, all that follow. The live line. */
void tri_screen_phase(tri_trainer *t, const char *phase);
/* The same with the answers finished, redrawn for each hundredth of all. On several ranks how many are
 * finished is estimated from rank 0's share of them, and marked with ~. */
void tri_screen_answers(tri_trainer *t, const char *phase, int64_t done, int64_t all);
void tri_screen_step(tri_trainer *t, int64_t step); /* a row, if one is due */
void tri_screen_halt(tri_trainer *t, int64_t step); /* why step is the last; its row, if not yet shown */
void tri_screen_idle(const tri_trainer *t, int64_t done); /* no step is left to take */
/* Collective over world. What became of the run, what it used and carried, where everything lies. */
TRI_CHECKED tri_status tri_screen_end(const tri_trainer *t, tri_train_end end);

#endif
