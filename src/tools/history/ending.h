/* ending.h - how the newest start of a run ended, read from its run.jsonl. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HISTORY_ENDING_H
#define TRI_HISTORY_ENDING_H

#include "base/error.h"
#include "base/text_buffer.h"

/* OPEN means run.jsonl has no ending, because the run still works or was killed. */
typedef enum { TRI_ENDING_OPEN, TRI_ENDING_FINISHED, TRI_ENDING_STOPPED, TRI_ENDING_FAILED } tri_ending_state;

enum { TRI_ENDING_WORD_BYTES = 64, TRI_ENDING_TEXT_BYTES = 512 };
/* Texts are visible and of one line, "" if unknown. Numbers are -1 if unknown. */
typedef struct tri_ending {
  tri_ending_state state;
  int64_t          exit_code, step;
  char    cause[TRI_ENDING_WORD_BYTES]; /* cause of a verdict or an end, listed in src/report/README.md */
  int64_t rank;                         /* the rank that died, hung or failed alone */
  char    node[TRI_ENDING_WORD_BYTES];  /* host name of that rank */
  char    tag[TRI_ENDING_WORD_BYTES];   /* TRI_START of that start */
  char    text[TRI_ENDING_TEXT_BYTES];  /* text of the event for people, cut if longer */
  double  time_unix_s;                  /* time of the event, 0 if unknown */
} tri_ending;

/* These three functions are pure. tri_ending_none has -1 in its numbers, unlike a zeroed struct. */
tri_ending       tri_ending_none(void);
const char      *tri_ending_word(tri_ending_state state); /* "open", "finished", "stopped", "failed" */
tri_ending_state tri_ending_state_of(const char *word);   /* OPEN for any other word */
/* Not collective. Adds one line without a newline that tells people why, when and with what exit code a run
 * ended, and which rank failed. Adds nothing if the state is OPEN. The text of an error is left out. */
TRI_CHECKED tri_status tri_ending_put(const tri_ending *e, tri_text *out);
/* Not collective. Reads only run.jsonl. A verdict on a rank takes precedence over an end. `tag` selects the
 * events of the start of that name, NULL selects the newest start. The state is OPEN if there is no
 * run.jsonl. */
TRI_CHECKED tri_status tri_ending_read(const char *folder, const char *tag, tri_ending *out);

#endif
