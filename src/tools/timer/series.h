/* series.h - decides how often to repeat a measurement, and returns its median and its best. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TIMER_SERIES_H
#define TRI_TIMER_SERIES_H

#include "comm/comm.h"

enum { TRI_SERIES_MOST = 256 };

/* Number of repetitions. At most `most`, and until part_s are over. At least `least`, unless that takes
 * longer than most_s. Then at least one. */
typedef struct tri_effort {
  int    least, most; /* 1 <= least <= most <= TRI_SERIES_MOST */
  double part_s, most_s;
} tri_effort;

/* Initialise with zero and the effort. The first run is not counted, because of cold caches and one-time
 * setup. */
typedef struct tri_series {
  tri_effort effort;
  double     x[TRI_SERIES_MOST]; /* seconds */
  int        n;
  bool       begun;
  double     from_s, began_s, spent_s; /* start of the current run, end of the first, and time since that */
} tri_series;

/* Pure, all that follow. The first adds a run from from_s to to_s. The second adds a run of took_s, by
 * another clock, that ended at to_s. */
void   tri_series_put(tri_series *s, double from_s, double to_s);
void   tri_series_add(tri_series *s, double took_s, double to_s);
bool   tri_series_enough(const tri_series *s);
double tri_series_median(const tri_series *s); /* 0: there is no run, as below */
double tri_series_best(const tri_series *s);   /* the shortest run */

/* Begin and end a run by the clock. Not collective. */
void tri_series_begin(tri_series *s);
void tri_series_end(tri_series *s);
/* Collective over world. *enough, the same on every rank: rank 0 has enough runs. */
TRI_CHECKED tri_status tri_series_ask(tri_comm *world, const tri_series *s, bool *enough);

#endif
