/* patience.h - how long, and when, a last checkpoint that could not be written is tried again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PATIENCE_H
#define TRI_PATIENCE_H

/* In seconds of one clock. */
typedef struct tri_patience {
  double until_s; /* no try begins later, but for the first */
  int    tries;   /* again, so far */
} tri_patience;

/* Pure, both. left_s: until the allocation ends, INFINITY where no end is known; save_s: what a save takes.
 * Without a known end, and where the run could have gone on (`bounded`), ten minutes at most. */
tri_patience tri_patience_begin(double now_s, double left_s, double save_s, int bounded);
/* Seconds until the next try: one, ten, thirty, then a minute each; -1: the time is over. */
double tri_patience_next_s(tri_patience *p, double now_s);

#endif
