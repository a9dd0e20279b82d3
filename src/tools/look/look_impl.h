/* look_impl.h - one run as it is shown, and the curves of several. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOOK_IMPL_H
#define TRI_LOOK_IMPL_H

#include "base/columns.h"
#include "look_facts.h"
#include "look.h"

/* lives.c. Returns 1 if the run's process is alive, 0 if it is gone, and -1 if it is on another node or
 * unknown. */
int tri_look_lives(const tri_history *h);

/* ---- curve.c, many numbers in few columns */

enum { TRI_LOOK_CURVE_MOST = 512 };
/* Splits the finite values among [n], in order, into at most `width` <= TRI_LOOK_CURVE_MOST parts of equal
 * count. Writes each part's mean to out. Returns the number of parts. */
int tri_look_compress(const double *value, int64_t n, int width, double *out);
/* Appends a mark for each of value [n]. `low` and `high` are the values of the lowest and the highest
 * mark. */
TRI_CHECKED tri_status tri_look_spark(const double *value, int n, double low, double high, bool utf8,
                                      tri_text *out);
/* Returns the last finite value of [n], with its index in *row, or NaN and -1 if there is none. */
double tri_look_last(const double *value, int64_t n, int64_t *row);

/* ---- chosen.c, the choice of curves */

enum { TRI_LOOK_METRICS_MOST = 32 };
typedef struct tri_look_metric {
  const char *name, *label; /* borrowed */
  void (*cell)(double x, int width, char out[TRI_CELL_BYTES]);
} tri_look_metric;
/* Chooses the metrics asked for by name, or else each metric of the table that at least one run has. Returns
 * their number. */
int tri_look_choose(const tri_look *l, const tri_look_how *how, tri_look_metric out[TRI_LOOK_METRICS_MOST]);

/* ---- look.c */

typedef struct tri_look_run {
  tri_history *h;
  char        *error; /* why it is unreadable now, or NULL */
} tri_look_run;
struct tri_look {
  tri_look_run *run;
  int           n, n_bad; /* n_bad counts folders unreadable at opening */
};

/* ---- panel.c, one run as lines, each of at most `columns` */

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
  double low, high; /* range of one metric over all runs, NaN if no run has it */
} tri_look_scale;
typedef struct tri_look_frame {
  const tri_look_how *how;
  double              now_unix_s;
  int                 columns; /* width of a panel */
  int                 n_metric;
  tri_look_metric     metric[TRI_LOOK_METRICS_MOST];
  tri_look_scale      scale[TRI_LOOK_METRICS_MOST];
} tri_look_frame;
enum { TRI_LOOK_SCALE_COLUMNS = 60 }; /* a panel at least this wide shows the scale beside each curve */
/* Returns the columns of a curve in a panel. */
int                    tri_look_curve_columns(const tri_look_frame *f);
TRI_CHECKED tri_status tri_look_panel(const tri_look_frame *f, const tri_look_run *run, tri_look_lines *out);

#endif
