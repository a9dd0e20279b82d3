/* saved_answers.h - reads saved answers for a deck's rewards, from rollout lines or lines with a response. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SAVED_ANSWERS_H
#define TRI_SAVED_ANSWERS_H

#include "config/config.h"

/* Answers in the order of their lines. Zero-initialise it. */
typedef struct tri_saved {
  tri_answer *answer; /* [n] */
  int64_t    *line;   /* [n] line numbers, from 1 */
  int         n;
  /* memory of the answers */
  int64_t                  cap_answer, cap_line;
  struct tri_saved_source *source;
  char                   **text; /* [n_text] */
  int64_t                  n_text, cap_text;
} tri_saved;

/* Not collective. Reads a file of JSON lines for the rewards `set`. A line with `tokens` is a rollout line.
 * Its prompt, right answer and fields come from the answered line of data.train or data.eval, as in the run.
 * If that line is gone they come from the rollout line, with a warning. Any other line has `response` and the
 * fields named by the deck's keys, and its prompt is read as in a run. The tokenizer and chat template of the
 * deck's model are used if they can be read. No weights are read. Returns TRI_EINPUT with FILE:LINE. */
TRI_CHECKED tri_status tri_saved_read(const tri_config *c, const char *path, const tri_reward_set *set,
                                      tri_saved *out);
void                   tri_saved_free(tri_saved *s);

#endif
