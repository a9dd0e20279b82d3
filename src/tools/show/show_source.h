/* show_source.h - finds files of saved answers, the steps of an output folder or one file, and reads their
 * lines. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_SOURCE_H
#define TRI_SHOW_SOURCE_H

#include "show_answer.h"
#include "base/file.h"

/* The files, one for each step, or a single file without a step. */
typedef struct tri_show_source {
  char     path[TRI_FILE_PATH_BYTES]; /* path of the steps' folder or of the file */
  int64_t *step;                      /* [n] ascending, NULL if path is a file */
  int64_t  n, cap;
  struct {
    int64_t n;                               /* lines without an answer, of all files read */
    int64_t line;                            /* number of the first such line */
    char    where[TRI_FILE_PATH_BYTES + 32]; /* its file */
  } skipped;
} tri_show_source;

/* Not collective, all that follow. `path` is the output of a run, a folder of step-NNNNNNNN.jsonl, or a file
 * of lines. `evals` selects answers of evaluations instead of rollouts. TRI_EINPUT says what to do if there
 * are none. */
TRI_CHECKED tri_status tri_show_source_open(const char *path, bool evals, tri_show_source *out);
void                   tri_show_source_close(tri_show_source *s); /* a zeroed struct is legal */
/* Sets *at to the index of the step. If it was not saved, TRI_EINPUT names the nearest steps. */
TRI_CHECKED tri_status tri_show_find_step(const tri_show_source *s, int64_t step, int64_t *at);
/* Writes the path of the file of step[at], or of the only file. */
TRI_CHECKED tri_status tri_show_file(const tri_show_source *s, int64_t at, char out[TRI_FILE_PATH_BYTES]);

/* Calls `each` for every answer of the file in order, until it sets *stop. With `counts`, lines without an
 * answer are counted. */
typedef tri_status (*tri_show_each)(void *ctx, const tri_show_answer *a, bool *stop);
TRI_CHECKED tri_status tri_show_lines(tri_show_source *s, int64_t at, bool counts, tri_show_each each,
                                      void *ctx);
/* Warns if lines were counted. */
void tri_show_say_skipped(const tri_show_source *s);

#endif
