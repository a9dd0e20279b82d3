/* answers_file.h - answers kept as a file of JSON lines, with their texts and what would have been right. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ANSWERS_FILE_H
#define TRI_ANSWERS_FILE_H

#include "answers.h"
#include "io/data/rollout_file.h"

/* A file that is being written. Zeroed: none is. */
typedef struct tri_answers_file {
  tri_file_pieces file;
  tri_text        text, line; /* of the answer that is put */
} tri_answers_file;

/* All of it is borrowed. */
typedef struct tri_answers_form {
  const tri_tokenizer  *tokenizer; /* NULL: no texts */
  const tri_dataset    *data;      /* what was answered, and has the right answers; NULL: not known */
  const tri_reward_set *set;       /* whose names the rewards have; NULL: no rewards */
  bool                  advantages;
  const char           *name; /* of the set of prompts; NULL: there is but one */
} tri_answers_form;

/* Not collective, all that follow. Whole or not at all, a line at a time. TRI_EFILE where it cannot be
 * written; TRI_EINPUT where an answer cannot be decoded. */
TRI_CHECKED tri_status tri_answers_file_begin(const char *path, tri_answers_file *out);
/* Under a name that a user gave: nothing that is there is replaced (file.h, tri_pieces_begin_named). */
TRI_CHECKED tri_status tri_answers_file_begin_new(const char *path, tri_answers_file *out);
TRI_CHECKED tri_status tri_answers_file_put(tri_answers_file *f, const tri_rollout *r,
                                            const tri_answers_form *form);
/* Either ends it. */
TRI_CHECKED tri_status tri_answers_file_end(tri_answers_file *f);
void tri_answers_file_drop(tri_answers_file *f); /* nothing is left of it; zeroed is legal */

#endif
