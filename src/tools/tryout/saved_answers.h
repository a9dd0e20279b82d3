/* saved_answers.h - saved answers as a deck's rewards get them: rollout lines, or lines with a response. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SAVED_ANSWERS_H
#define TRI_SAVED_ANSWERS_H

#include "config/config.h"

/* Answers in the order of their lines; zero-initialise. */
typedef struct tri_saved {
  tri_answer *answer; /* [n] */
  int64_t    *line;   /* [n] numbers, from 1 on */
  int         n;
  /* what the answers lie in */
  int64_t                  cap_answer, cap_line;
  struct tri_saved_source *source;
  char                   **text; /* [n_text] */
  int64_t                  n_text, cap_text;
} tri_saved;

/* Not collective. Reads the file of JSON lines for these rewards. A line with `tokens` is one of a rollout:
 * where data.train (data.eval) still has the line that it answers, prompt, right answer and fields are that
 * line's, as in the run, else those of the rollout line, which is said. Any other line has `response` beside
 * what the deck's keys name, and is read as the run reads its prompts. The model's tokenizer and chat
 * template are used where the deck's model is there; no weights are read. TRI_EINPUT, with FILE:LINE. */
TRI_CHECKED tri_status tri_saved_read(const tri_config *c, const char *path, const tri_reward_set *set,
                                      tri_saved *out);
void                   tri_saved_free(tri_saved *s);

#endif
