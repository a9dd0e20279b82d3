/* marks.h - what the names in a run's folder tell: until which steps its deck was another, which checkpoint
 * is the best. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HISTORY_MARKS_H
#define TRI_HISTORY_MARKS_H

#include "base/text_buffer.h"

enum { TRI_MARKS_MOST = 8 }; /* chosen: a run that was changed more often is shown by its last changes */

typedef struct tri_marks {
  int64_t best;                  /* step of checkpoints/BEST; -1: there is none */
  int64_t until[TRI_MARKS_MOST]; /* [n] ascending: deck.step-*.yaml held until that step */
  int     n;
} tri_marks;

/* Not collective. What cannot be read is as if it were not there. */
void tri_marks_read(const char *folder, tri_marks *out);
/* Not collective. Appends "25", or "25, 40". */
TRI_CHECKED tri_status tri_marks_list(const tri_marks *m, tri_text *out);

#endif
