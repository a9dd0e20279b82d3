/* ending.h - how the newest start of a run ended, as its run.jsonl says. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HISTORY_ENDING_H
#define TRI_HISTORY_ENDING_H

#include "base/error.h"

/* OPEN: nothing says so, as while it runs and when it was killed. */
typedef enum { TRI_ENDING_OPEN, TRI_ENDING_FINISHED, TRI_ENDING_STOPPED, TRI_ENDING_FAILED } tri_ending_state;

enum { TRI_ENDING_WORD_BYTES = 64 };
/* Texts are visible, of one line; "": not known. Numbers: -1, not known. */
typedef struct tri_ending {
  tri_ending_state state;
  int64_t          exit_code, step;
  char             cause[TRI_ENDING_WORD_BYTES]; /* src/report/README.md: of a verdict or an end */
  int64_t          rank;                         /* that died, hangs, or failed alone */
  char             node[TRI_ENDING_WORD_BYTES];  /* its host */
  char             tag[TRI_ENDING_WORD_BYTES];   /* TRI_START of that start */
  double           time_unix_s;                  /* when it was said; 0: not known */
} tri_ending;

/* Pure, all three. Zeroed is none too, but for the numbers. */
tri_ending       tri_ending_none(void);
const char      *tri_ending_word(tri_ending_state state); /* "open", "finished", "stopped", "failed" */
tri_ending_state tri_ending_state_of(const char *word);   /* OPEN: it is none of the others */
/* Not collective. Reads run.jsonl alone. A verdict on a rank goes before an end. tag: only of the start of
 * that name; NULL: of the newest. Where there is no such file the state is OPEN. */
TRI_CHECKED tri_status tri_ending_read(const char *folder, const char *tag, tri_ending *out);

#endif
