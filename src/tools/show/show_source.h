/* show_source.h - where answers lie: the steps that an output folder has saved, or a file; and their lines.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_SOURCE_H
#define TRI_SHOW_SOURCE_H

#include "show_answer.h"
#include "base/file.h"

/* The files, each of a step; one file that is of none. */
typedef struct tri_show_source {
  char     path[TRI_FILE_PATH_BYTES]; /* of the folder with the steps, or of the file */
  int64_t *step;                      /* [n] ascending; NULL: path is a file */
  int64_t  n, cap;
  struct {
    int64_t n;                               /* lines that are no answers, of all files read */
    int64_t line;                            /* the first of them, */
    char    where[TRI_FILE_PATH_BYTES + 32]; /* and its file */
  } skipped;
} tri_show_source;

/* Not collective, all that follow. path: a run's output, a folder of step-NNNNNNNN.jsonl, or a file of
 * lines. evals: the answers of its evaluations, not its rollouts. TRI_EINPUT says what to do where there are
 * none. */
TRI_CHECKED tri_status tri_show_source_open(const char *path, bool evals, tri_show_source *out);
void                   tri_show_source_close(tri_show_source *s); /* zeroed is legal */
/* *at: the step's place among those there are. TRI_EINPUT names the nearest where it was not saved. */
TRI_CHECKED tri_status tri_show_find_step(const tri_show_source *s, int64_t step, int64_t *at);
/* The file of step[at], or the only one. */
TRI_CHECKED tri_status tri_show_file(const tri_show_source *s, int64_t at, char out[TRI_FILE_PATH_BYTES]);

/* Every answer of that file in its order, while `each` sets no *stop. Other lines are counted, if
 * `counts`. */
typedef tri_status (*tri_show_each)(void *ctx, const tri_show_answer *a, bool *stop);
TRI_CHECKED tri_status tri_show_lines(tri_show_source *s, int64_t at, bool counts, tri_show_each each,
                                      void *ctx);
/* A warning, where lines were counted. */
void tri_show_say_skipped(const tri_show_source *s);

#endif
