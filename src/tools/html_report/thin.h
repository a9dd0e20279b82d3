/* thin.h - which points of a long curve are drawn, so that no peak is lost, and its mean. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_THIN_H
#define TRI_PAGE_THIN_H

#include "base/error.h"

/* A curve: value [n] at step [n], ascending; NaN: nothing there. */
typedef struct tri_curve {
  const int64_t *step;  /* [n] */
  const double  *value; /* [n] */
  int64_t        n;
} tri_curve;

enum { TRI_THIN_GAP = -1 };

/* Not collective. The rows to draw, in order, TRI_THIN_GAP where the line is broken by a row without a
 * number (a joined one never is). Steps first .. last are dealt into `columns` of equal width; where they
 * hold more than two rows each, of each column the first row with its least and the first with its greatest
 * number stay. *row [*n] by tri_host_free. */
TRI_CHECKED tri_status tri_thin(const tri_curve *c, int64_t first, int64_t last, int columns, bool joined,
                                int64_t **row, int64_t *n);
/* Pure. Steps of one column, 1 where tri_thin leaves nothing out. */
int64_t tri_thin_width(int64_t first, int64_t last, int columns);

/* A mean over `width` rows, a thirtieth of all, around each of at most `most` rows. */
typedef struct tri_means {
  int64_t *row;  /* [n] the row it stands at */
  double  *mean; /* [n] */
  int64_t  n, width;
  int64_t
      apart; /* rows from one to the next at most, where no more than `width` without a number lie between */
} tri_means;
/* Not collective. Of rows that have a number; none where there are too few rows to need it. */
TRI_CHECKED tri_status tri_means_make(const tri_curve *c, int most, tri_means *out);
void                   tri_means_free(tri_means *m);

#endif
