/* examples.h - what the lines of a data file can be used for, and under which keys. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXAMPLES_H
#define TRI_EXAMPLES_H

#include "algo/algo.h"

/* Keys are words that never end. NULL: the lines have no such field. Where a key is its own default,
 * "prompt", it stands here too. */
typedef struct tri_examples {
  unsigned    needs; /* TRI_NEEDS_* of the algorithms that can learn from them */
  const char *prompt, *completion;
  const char *answer;   /* what an answer can be compared with: without a field of its own the completion */
  const char *reward;   /* the row of a deck that compares so; NULL where there is no answer */
  const char *label;    /* of an answer; NULL: no line has one */
  bool        labelled; /* all of them have one that can be read */
  bool        conversation; /* prompts, completions or sides are lists of messages */
  bool        plain;        /* prompts are text, and no chat template wrote it */
  bool        bare;         /* there is nothing but one text a line, and no chat template wrote it */
  bool        text;         /* some of it is text or messages, which a tokenizer reads */
  int64_t     n_line;       /* that were looked at */
} tri_examples;

/* Not collective. Reads the first lines of a file of JSON lines. wanted: TRI_NEEDS_* of the algorithm that is
 * asked for, or 0. TRI_EINPUT: a line of them is none, or in a form of another program, or no algorithm can
 * learn from what all of them have; the message says what is missing, or how the file is rewritten. */
TRI_CHECKED tri_status tri_examples_look(const char *path, unsigned wanted, tri_examples *out);

#endif
