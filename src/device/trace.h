/* trace.h - records when a rank's phases, layers and collectives run, step by step.
 *
 * A span is one piece of work in one lane. Spans on the device are timed by events of their stream, and
 * nobody waits for these events before the step's end. Spans on the host are timed by the host's clock.
 * Both give the same time, see tri_trace_start. One thread of a process records. Not collective, all that
 * follow. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRACE_H
#define TRI_TRACE_H

#include "device.h"

/* PHASES are timed on the host and may be nested. COMPUTE covers layers, head and optimizer. GATHER is
 * collectives that move data between ranks unchanged. REDUCE is sums over ranks. FETCH and FLUSH copy
 * offloaded data from host memory to the device and back. */
typedef enum {
  TRI_LANE_PHASES,
  TRI_LANE_COMPUTE,
  TRI_LANE_GATHER,
  TRI_LANE_REDUCE,
  TRI_LANE_FETCH,
  TRI_LANE_FLUSH,
  TRI_LANE_COUNT
} tri_lane;

/* The label of a span, such as "layer 3" "forward" of "policy". Texts are borrowed until the step's end. */
typedef struct tri_trace_note {
  const char *what, *how; /* how may be NULL */
  const char *owner;      /* the model it belongs to, or NULL */
  int64_t     bytes;      /* all ranks' pieces of a collective's result or input; else 0 */
} tri_trace_note;

typedef struct tri_trace_span {
  tri_trace_note note;
  tri_lane       lane;
  double         begin_s, end_s; /* by the clock of tri_now_s */
} tri_trace_span;

typedef struct tri_trace tri_trace;

/* Opens a trace and sets d->trace until close. Spans of a step beyond most_spans are counted and dropped.
 * Nothing is recorded outside start and stop. */
TRI_CHECKED tri_status tri_trace_open(tri_device *d, int most_spans, tri_trace **out);
void                   tri_trace_close(tri_trace **t);
/* Begins a step. The host waits for stream s and then reads an event and its own clock together. */
TRI_CHECKED tri_status tri_trace_start(tri_trace *t, tri_stream *s);
/* Ends the step after waiting for every recorded event. *span [*n], borrowed until the next start, is in the
 * order of beginnings on the host. Spans without an end are dropped and counted in *dropped. Returns the
 * first device error of the step. */
TRI_CHECKED tri_status tri_trace_stop(tri_trace *t, const tri_trace_span **span, int *n, int64_t *dropped);

/* The inline functions below call these if there is a trace. */
int            tri_trace_open_span(tri_trace *t, tri_lane lane, tri_trace_note note, tri_stream *s);
void           tri_trace_close_span(tri_trace *t, int span, tri_stream *s);
void           tri_trace_put_note(tri_trace *t, tri_trace_note note);
tri_trace_note tri_trace_take_note(tri_trace *t);

/* t is d->trace, or NULL in a run without traces. s is the stream of the span's work, or NULL for the host's
 * time. begin returns a number for end. Spans of one lane and stream do not overlap, but phases may be
 * nested. */
static inline int tri_trace_begin(tri_trace *t, tri_lane lane, tri_trace_note note, tri_stream *s) {
  return t ? tri_trace_open_span(t, lane, note, s) : -1;
}
static inline void tri_trace_end(tri_trace *t, int span, tri_stream *s) {
  if (t) tri_trace_close_span(t, span, s);
}
static inline int tri_trace_phase(tri_trace *t, const char *name) {
  return tri_trace_begin(t, TRI_LANE_PHASES, (tri_trace_note){.what = name}, NULL);
}
/* Labels the next collective. The code that starts it calls this. */
static inline void tri_trace_carry(tri_trace *t, const char *owner, const char *what, const char *how) {
  if (t) tri_trace_put_note(t, (tri_trace_note){.what = what, .how = how, .owner = owner});
}
/* Returns that label, or all NULL, and clears it. Every collective asks once. */
static inline tri_trace_note tri_trace_carried(tri_trace *t) {
  return t ? tri_trace_take_note(t) : (tri_trace_note){.what = NULL};
}

#endif
