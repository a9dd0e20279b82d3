/* screen.h - prints a training run on the terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_SCREEN_H
#define TRI_TRAIN_SCREEN_H

#include "train.h"

/* screen_start.c. Collective over world. Prints the start of the run. Here and below only rank 0 prints. No
 * line or row is wider than TRI_SCREEN_COLUMNS, unless a path is longer. */
TRI_CHECKED tri_status tri_screen_start(tri_trainer *t);
/* Not collective. Prints the last part of tri_screen_start. */
TRI_CHECKED tri_status tri_screen_plan(const tri_trainer *t);
/* screen_start.c. Not collective. Appends a one-line description of the minimized loss. */
TRI_CHECKED tri_status tri_screen_loss(const tri_trainer *t, tri_text *out);
/* screen_start.c. Not collective. Returns out with at most `width` columns of the text, control characters
 * made visible. */
const char *tri_screen_shown(const char *text, int width, char out[TRI_CKPT_PATH_BYTES]);
/* screen.c. The rest is not collective unless it says so. Draws the live line. */
void tri_screen_phase(tri_trainer *t, const char *phase);
/* Draws the live line with the number of finished answers, at most once per hundredth of all. On several
 * ranks it estimates the number from rank 0's share and marks it with ~. */
void tri_screen_answers(tri_trainer *t, const char *phase, int64_t done, int64_t all);
void tri_screen_step(tri_trainer *t, int64_t step); /* prints a row if one is due */
/* Says why this step is the last, and prints its row if it was not shown yet. */
void tri_screen_halt(tri_trainer *t, int64_t step);
void tri_screen_idle(const tri_trainer *t, int64_t done); /* says that no step is left to take */
/* Collective over world. Prints the outcome of the run, its resources and traffic, and the paths of its
 * files. */
TRI_CHECKED tri_status tri_screen_end(const tri_trainer *t, tri_train_end end);

#endif
