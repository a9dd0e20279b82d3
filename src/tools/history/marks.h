/* marks.h - when a run's deck changed and which checkpoint is the best, from the names in its folder. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HISTORY_MARKS_H
#define TRI_HISTORY_MARKS_H

#include "base/text_buffer.h"

enum { TRI_MARKS_MOST = 8 }; /* chosen, after more changes only the last ones are shown */

typedef struct tri_marks {
  int64_t best;                  /* step of checkpoints/BEST, or -1 */
  int64_t until[TRI_MARKS_MOST]; /* [n] ascending, a deck.step-*.yaml was in force until that step */
  int     n;
} tri_marks;

/* Unreadable entries count as missing. */
void tri_marks_read(const char *folder, tri_marks *out);
/* Appends the steps in `until`, such as "25" or "25, 40". */
TRI_CHECKED tri_status tri_marks_list(const tri_marks *m, tri_text *out);

#endif
