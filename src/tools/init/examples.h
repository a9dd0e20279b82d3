/* examples.h - finds the algorithms that can learn from the lines of a data file, and the keys of their
 * fields. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXAMPLES_H
#define TRI_EXAMPLES_H

#include "algo/algo.h"

/* Fields of the lines. Keys are static strings. NULL: the lines have no such field. A key equal to the deck's
 * default, such as "prompt", is set too. */
typedef struct tri_examples {
  unsigned    needs; /* TRI_NEEDS_* of the algorithms that can learn from the lines */
  const char *prompt, *completion;
  const char *answer;       /* field to compare answers with. If there is none, the completion */
  const char *reward;       /* reward that compares with it. NULL: there is no answer */
  const char *label;        /* label of an answer. NULL: no line has one */
  bool        labelled;     /* all lines have a valid label */
  bool        conversation; /* prompts, completions or sides are lists of messages */
  bool        plain;        /* prompts are text without the marks of a chat template */
  bool        bare;         /* each line is a single text without the marks of a chat template */
  bool        text;         /* some fields are text or messages, which need a tokenizer */
  int64_t     n_line;       /* lines read */
} tri_examples;

/* Not collective. Reads the first lines of a JSON lines file. wanted: TRI_NEEDS_* of the algorithm asked for,
 * or 0. TRI_EINPUT: a line is not JSON or has the form of another program, or no algorithm can learn from the
 * fields that all lines have. The message names the missing fields or the way to convert the file. */
TRI_CHECKED tri_status tri_examples_look(const char *path, unsigned wanted, tri_examples *out);

#endif
