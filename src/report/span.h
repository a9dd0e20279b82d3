/* span.h - marks a part of a step, for its time metric, its name on the screen, its place in the trace, and
 * the rank's phase in heartbeats (comm/peers/rank_status.h). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SPAN_H
#define TRI_SPAN_H

#include "device/device.h"
#include "metrics.h"
#include "usage.h"

/* Every span is a phase of the trace. TIMED spans also give the metric time_<name>_s and a phase of the run's
 * usage. SHOWN spans appear on the screen. */
enum { TRI_SPAN_TIMED = 1, TRI_SPAN_SHOWN = 2 };

/* Receivers of spans, all borrowed. */
typedef struct tri_spans {
  tri_metrics      *metrics;
  tri_usage        *usage;                   /* NULL for none */
  const tri_device *device;                  /* device with the trace, if it has one */
  void (*show)(void *ctx, const char *name); /* NULL to show nothing */
  void *ctx;
  int   n_open; /* spans begun and not ended, 0 when a step's metrics are reduced */
} tri_spans;

typedef struct tri_span {
  const char *name; /* a literal */
  unsigned    how;  /* TRI_SPAN_* */
  double      begun_s;
  int         traced; /* its number in the trace */
  const char *before; /* phase of this rank before the span, and again after it */
} tri_span;

/* Not collective, all of the functions below, but every rank ends the same timed spans in the same order.
 * Spans are nested. Times of spans with the same name add up within a step. */
tri_span tri_span_begin(tri_spans *s, const char *name, unsigned how);
/* Returns the seconds spent. */
double tri_span_end(tri_spans *s, const tri_span *span);
/* Ends a span whose work was abandoned. For a timed span, removes time_<name>_s with all earlier additions.
 * It must be the newest metric if it is present. */
void tri_span_give_up(tri_spans *s, const tri_span *span);

#endif
