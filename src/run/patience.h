/* patience.h - decides how long and when to retry the final checkpoint after it could not be written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PATIENCE_H
#define TRI_PATIENCE_H

/* In seconds of one clock. */
typedef struct tri_patience {
  double until_s; /* no retry but the first begins later */
  int    tries;   /* retries so far */
} tri_patience;

/* Both functions are pure. left_s is the time until the allocation ends, INFINITY without a known end. save_s
 * is the duration of a save. Retries last at most ten minutes without a known end, and if the run could have
 * continued (`bounded`). */
tri_patience tri_patience_begin(double now_s, double left_s, double save_s, int bounded);
/* Returns the seconds until the next retry: one, ten, thirty, then a minute each. -1 if the time is over. */
double tri_patience_next_s(tri_patience *p, double now_s);

#endif
