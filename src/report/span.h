/* span.h - a piece of a step, in one call: its time in the metrics, its name on the screen, its place in the
 * trace; and the phase that this rank is in, for others (comm/peers/rank_status.h). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SPAN_H
#define TRI_SPAN_H

#include "device/device.h"
#include "metrics.h"
#include "usage.h"

/* Every span is a phase of the trace; TIMED: the metric time_<name>_s and a phase of the run's usage too;
 * SHOWN: what a person is told is under way. */
enum { TRI_SPAN_TIMED = 1, TRI_SPAN_SHOWN = 2 };

/* Where spans are written; all borrowed. */
typedef struct tri_spans {
  tri_metrics      *metrics;
  tri_usage        *usage;                   /* NULL: it is kept nowhere */
  const tri_device *device;                  /* whose trace; it may have none */
  void (*show)(void *ctx, const char *name); /* NULL: to nobody */
  void *ctx;
  int   n_open; /* begun and not ended; 0 where a step's metrics are reduced */
} tri_spans;

typedef struct tri_span {
  const char *name; /* a literal */
  unsigned    how;  /* TRI_SPAN_* */
  double      begun_s;
  int         traced; /* the trace's number of it */
  const char *before; /* the phase that this rank was in, and is in again after it */
} tri_span;

/* Not collective, all that follow, but every rank ends the same timed ones in the same order. Spans lie
 * inside one another; those of one name in a step are added up. */
tri_span tri_span_begin(tri_spans *s, const char *name, unsigned how);
/* Returns the seconds it took. */
double tri_span_end(tri_spans *s, const tri_span *span);
/* Ends one whose work came to nothing: of a timed one time_<name>_s is left out, also what was added to it
 * before, and must be the newest metric if it is there. */
void tri_span_give_up(tri_spans *s, const tri_span *span);

#endif
