/* check_learned.h - prints lines of training data as the model gets them (trireme train --check --show). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECK_LEARNED_H
#define TRI_CHECK_LEARNED_H

#include "train/train.h"

enum { TRI_SHOW_LEARNED_MOST = 1000000 }; /* chosen, lines of a file */

typedef struct tri_show_learned {
  int64_t lines; /* per file. 0 prints none */
  bool    json;
} tri_show_learned;

/* Not collective. Prints the first examples of each file of data.train that training takes. It shows their
 * tokens as text and marks the learned ones. */
TRI_CHECKED tri_status tri_check_learned(const tri_trainer *t, const tri_show_learned *show);

#endif
