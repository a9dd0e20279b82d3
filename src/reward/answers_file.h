/* answers_file.h - writes answers to a file of JSON lines, with their texts and right answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ANSWERS_FILE_H
#define TRI_ANSWERS_FILE_H

#include "answers.h"
#include "io/data/rollout_file.h"

/* A file being written. A zeroed struct has no file. */
typedef struct tri_answers_file {
  tri_file_pieces file;
  tri_text        text, line; /* text and line of the current answer */
} tri_answers_file;

/* All pointers are borrowed. */
typedef struct tri_answers_form {
  const tri_tokenizer  *tokenizer; /* NULL leaves out texts */
  const tri_dataset    *data;      /* the answered lines with right answers, NULL if unknown */
  const tri_reward_set *set;       /* for the names of rewards, NULL leaves rewards out */
  bool                  advantages;
  const char           *name; /* name of the set of prompts, NULL if there is only one */
} tri_answers_form;

/* Not collective, all that follow. The file appears as a whole or not at all, with one line for each answer.
 * Returns TRI_EFILE if it cannot be written, and TRI_EINPUT if an answer cannot be decoded. */
TRI_CHECKED tri_status tri_answers_file_begin(const char *path, tri_answers_file *out);
/* Begins a file with a name from the user, and never overwrites (file.h, tri_pieces_begin_named). */
TRI_CHECKED tri_status tri_answers_file_begin_new(const char *path, tri_answers_file *out);
TRI_CHECKED tri_status tri_answers_file_put(tri_answers_file *f, const tri_rollout *r,
                                            const tri_answers_form *form);
/* Finishes the file, or drops it. */
TRI_CHECKED tri_status tri_answers_file_end(tri_answers_file *f);
void tri_answers_file_drop(tri_answers_file *f); /* leaves nothing behind, and accepts a zeroed struct */

#endif
