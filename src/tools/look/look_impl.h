/* look_impl.h - a run as it is seen, and the curves of several. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOOK_IMPL_H
#define TRI_LOOK_IMPL_H

#include "base/columns.h"
#include "look_facts.h"
#include "look.h"

/* lives.c. Whether the run's process is there: 1, or 0; -1: it is on another node, or not known. */
int tri_look_lives(const tri_history *h);

/* ---- curve.c: many numbers in few columns. */

enum { TRI_LOOK_CURVE_MOST = 512 };
/* Means of the finite values [n] in order, in at most `width` <= TRI_LOOK_CURVE_MOST parts of equal count.
 * Returns how many. */
int tri_look_compress(const double *value, int64_t n, int width, double *out);
/* Appends a mark for each of value [n], `low` the lowest and `high` the highest. */
TRI_CHECKED tri_status tri_look_spark(const double *value, int n, double low, double high, bool utf8,
                                      tri_text *out);
/* The last finite value of [n] and its place; NaN and -1: there is none. */
double tri_look_last(const double *value, int64_t n, int64_t *row);

/* ---- chosen.c: which curves. */

enum { TRI_LOOK_METRICS_MOST = 32 };
typedef struct tri_look_metric {
  const char *name, *label; /* borrowed */
  void (*cell)(double x, int width, char out[TRI_CELL_BYTES]);
} tri_look_metric;
/* Those that are asked for, else those of the table that one of the runs has. Returns how many. */
int tri_look_choose(const tri_look *l, const tri_look_how *how, tri_look_metric out[TRI_LOOK_METRICS_MOST]);

/* ---- look.c */

typedef struct tri_look_run {
  tri_history *h;
  char        *error; /* why it cannot be read now, or NULL */
} tri_look_run;
struct tri_look {
  tri_look_run *run;
  int           n, n_bad; /* n_bad: could not be read when they were opened */
};

/* ---- panel.c: one run. Lines, each of `columns` at most. */

typedef struct tri_look_line {
  tri_text text;
  int      columns;
} tri_look_line;
typedef struct tri_look_lines {
  tri_look_line *line;
  int64_t        n, cap;
} tri_look_lines;
void tri_look_lines_free(tri_look_lines *lines);

typedef struct tri_look_scale {
  double low, high; /* of one metric over all runs; NaN: none has it */
} tri_look_scale;
typedef struct tri_look_frame {
  const tri_look_how *how;
  double              now_unix_s;
  int                 columns; /* of a panel */
  int                 n_metric;
  tri_look_metric     metric[TRI_LOOK_METRICS_MOST];
  tri_look_scale      scale[TRI_LOOK_METRICS_MOST];
} tri_look_frame;
enum { TRI_LOOK_SCALE_COLUMNS = 60 }; /* from here on a row of a panel shows the scale of its curve */
/* Columns of a curve in a panel. */
int                    tri_look_curve_columns(const tri_look_frame *f);
TRI_CHECKED tri_status tri_look_panel(const tri_look_frame *f, const tri_look_run *run, tri_look_lines *out);

#endif
