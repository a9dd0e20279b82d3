/* timed.h - times a kernel call by the device's events, on one rank or on all ranks at once, and makes random
 * data for it.
 *
 * Two calls warm up. The second one gives the number of calls that take about a millisecond. Then come runs
 * of so many calls, each run between two events on the stream. The first run is not counted. Nothing is
 * flushed between calls. Arrays that fit the caches are read from there. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TIMER_TIMED_H
#define TRI_TIMER_TIMED_H

#include "comm/session.h"
#include "series.h"

typedef tri_status (*tri_timed_work)(void *ctx, tri_stream *s);

/* The place of a measurement, all borrowed. With world, all ranks time the same call at once. With NULL this
 * rank times by itself. */
typedef struct tri_timer {
  tri_device *device;
  tri_stream *stream;
  tri_comm   *world;
} tri_timer;

/* Seconds of one call, the median and the fastest run. With world, those of the slowest rank. */
typedef struct tri_timing {
  double median_s, best_s;
  int    runs, calls; /* counted runs, and calls in each */
} tri_timing;

/* Pure. Returns the timer of all ranks, on the session's stream. */
tri_timer tri_timer_of(const tri_session *se);

/* Collective over t->world, if there is one. Times a call as often as e says. */
TRI_CHECKED tri_status tri_timed(const tri_timer *t, tri_timed_work work, void *ctx, const tri_effort *e,
                                 tri_timing *out);
/* Not collective. These are the parts of tri_timed, for callers that take turns between several calls. The
 * first warms up and sets the calls per run. The second makes one run and sets the seconds of a call. */
TRI_CHECKED tri_status tri_timed_warm_up(const tri_timer *t, tri_timed_work work, void *ctx, int *calls);
TRI_CHECKED tri_status tri_timed_run(const tri_timer *t, tri_timed_work work, void *ctx, int calls,
                                     double *call_s);

/* Collective over world. Replaces each x [n], seconds, by the largest of all ranks. */
TRI_CHECKED tri_status tri_slowest(tri_comm *world, double *x, int n);

/* Pure. Returns numbers like the weights of a new model, because products of zeros may be faster. */
float tri_noise(uint64_t i);
/* Not collective. Writes n of these numbers to device memory. */
TRI_CHECKED tri_status tri_noise_put(tri_stream *s, void *where, tri_dtype t, int64_t n);

/* Divides one block into parts. Returns the next n bytes, 256-byte aligned. Without a block it returns NULL
 * and counts the bytes. */
typedef struct tri_carve {
  char  *base;
  size_t used;
} tri_carve;
void *tri_carve_next(tri_carve *c, size_t n);

#endif
