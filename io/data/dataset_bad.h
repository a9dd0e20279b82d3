/* dataset_bad.h - bad lines on their way to the errors. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_BAD_H
#define TRI_DATASET_BAD_H

#include "base/error_list.h"

enum { TRI_BAD_KINDS = 20 }; /* chosen: shown at most; more say the same again */

/* Lines of one file that are bad in one way. */
typedef struct tri_bad_line {
  char    *what; /* owned; without the place */
  int64_t  line; /* the first; 0: it is not known */
  int64_t  n_others;
  tri_text others; /* numbers of the next ones */
} tri_bad_line;

/* Of one file. Zero-initialise. */
typedef struct tri_bad_lines {
  tri_bad_line kind[TRI_BAD_KINDS];
  int          n_kind;
  int64_t      n, n_more; /* lines; those of them whose kind has no space */
} tri_bad_lines;

/* Not collective, all that follow. The error that is set, of a line, is taken, and cleared. */
TRI_CHECKED tri_status tri_bad_lines_put(tri_bad_lines *b, const char *path);
/* A message for each kind, with the numbers of its lines, to the errors, each line as one; b is empty
 * then. */
TRI_CHECKED tri_status tri_bad_lines_tell(tri_bad_lines *b, const char *path, tri_errors *errors);
void                   tri_bad_lines_forget(tri_bad_lines *b);

#endif
