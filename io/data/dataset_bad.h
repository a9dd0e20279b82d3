/* dataset_bad.h - groups bad lines of a file into messages. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_BAD_H
#define TRI_DATASET_BAD_H

#include "base/error_list.h"

enum { TRI_BAD_KINDS = 20 }; /* chosen: more messages would only repeat themselves */

/* Lines of one file with the same mistake. */
typedef struct tri_bad_line {
  char    *what; /* owned message without its place */
  int64_t  line; /* number of the first line, 0 if unknown */
  int64_t  n_others;
  tri_text others; /* numbers of the following lines */
} tri_bad_line;

/* The bad lines of one file. Zero-initialise. */
typedef struct tri_bad_lines {
  tri_bad_line kind[TRI_BAD_KINDS];
  int          n_kind;
  int64_t      n, n_more; /* all lines, and those beyond TRI_BAD_KINDS */
} tri_bad_lines;

/* Not collective, all that follow. Takes the current error, about a line, and clears it. */
TRI_CHECKED tri_status tri_bad_lines_put(tri_bad_lines *b, const char *path);
/* Adds a message for each kind of mistake, with its line numbers, to the errors. Each line counts as one
 * error. b is empty afterwards. */
TRI_CHECKED tri_status tri_bad_lines_tell(tri_bad_lines *b, const char *path, tri_errors *errors);
void                   tri_bad_lines_forget(tri_bad_lines *b);

#endif
