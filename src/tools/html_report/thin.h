/* thin.h - the points of a long curve to draw, without losing a peak, and its mean. Private to its room. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_THIN_H
#define TRI_PAGE_THIN_H

#include "base/error.h"

/* A curve has value [n] at step [n], ascending. NaN stands for no number. */
typedef struct tri_curve {
  const int64_t *step;  /* [n] */
  const double  *value; /* [n] */
  int64_t        n;
} tri_curve;

enum { TRI_THIN_GAP = -1 };

/* Finds the rows to draw, in order. TRI_THIN_GAP marks a break in the line, at a row without a number. A
 * joined line has no breaks. The steps first .. last are divided into `columns` of equal width. If columns
 * have more than two rows, each keeps the first row with its least number and the first with its greatest.
 * Free *row [*n] with tri_host_free. */
TRI_CHECKED tri_status tri_thin(const tri_curve *c, int64_t first, int64_t last, int columns, bool joined,
                                int64_t **row, int64_t *n);
/* Pure. Returns the steps of one column, 1 if tri_thin leaves nothing out. */
int64_t tri_thin_width(int64_t first, int64_t last, int columns);

/* Means over `width` rows, a thirtieth of all, around each of at most `most` rows. */
typedef struct tri_means {
  int64_t *row;  /* [n] row of each mean */
  double  *mean; /* [n] */
  int64_t  n, width;
  int64_t
      apart; /* most rows from one mean to the next, unless more than `width` rows between lack a number */
} tri_means;
/* Uses the rows with a number. Returns no means if there are too few rows to need one. */
TRI_CHECKED tri_status tri_means_make(const tri_curve *c, int most, tri_means *out);
void                   tri_means_free(tri_means *m);

#endif
