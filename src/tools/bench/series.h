/* series.h - how often something is timed, and the median of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_SERIES_H
#define TRI_BENCH_SERIES_H

#include "comm/comm.h"

enum { TRI_SERIES_MOST = 64 };

/* How often: `most` times at most; at least `least` times, unless that takes longer than most_s: then once at
 * least; and then until part_s are over. */
typedef struct tri_effort {
  int    least, most; /* 1 <= least <= most <= TRI_SERIES_MOST */
  double part_s, most_s;
} tri_effort;

/* Zero but for the effort at first. The first time is not counted: it finds cold caches, and what is made
 * once. */
typedef struct tri_series {
  tri_effort effort;
  double     x[TRI_SERIES_MOST]; /* seconds */
  int        n;
  bool       begun;
  double     from_s, began_s, spent_s; /* of the one under way; when the first ended, and since then */
} tri_series;

/* Pure, all of them. One that took from from_s until to_s. */
void   tri_series_put(tri_series *s, double from_s, double to_s);
bool   tri_series_enough(const tri_series *s);
double tri_series_median(const tri_series *s); /* 0: there is none */

/* By the clock. Not collective. */
void tri_series_begin(tri_series *s);
void tri_series_end(tri_series *s);
/* Collective over world. Whether rank 0 has enough, the same on every rank. */
TRI_CHECKED tri_status tri_series_ask(tri_comm *world, const tri_series *s, bool *enough);

#endif
