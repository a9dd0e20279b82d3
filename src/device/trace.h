/* trace.h - records when a rank's phases, layers and collectives run, step by step.
 *
 * A span is one piece of work in one lane. Spans on the device are timed by events of their stream, which
 * nobody waits for before the step's end; spans on the host by the host's clock. Both tell one time: see
 * tri_trace_start. One thread of a process records. Not collective, all that follow. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRACE_H
#define TRI_TRACE_H

#include "device.h"

/* PHASES: the host's, one inside another where they are. COMPUTE: layers, head, optimizer. GATHER: pieces
 * that go from ranks to ranks as they are. REDUCE: sums over ranks. FETCH, FLUSH: copies of what rests in
 * host memory, to the device and back. */
typedef enum {
  TRI_LANE_PHASES,
  TRI_LANE_COMPUTE,
  TRI_LANE_GATHER,
  TRI_LANE_REDUCE,
  TRI_LANE_FETCH,
  TRI_LANE_FLUSH,
  TRI_LANE_COUNT
} tri_lane;

/* What a span is: "layer 3" "forward" of "policy". Texts are borrowed until the step's end. */
typedef struct tri_trace_note {
  const char *what, *how; /* how may be NULL */
  const char *owner;      /* the model it belongs to, or NULL */
  int64_t     bytes;      /* of a collective: all ranks' pieces of its result or its input; else 0 */
} tri_trace_note;

typedef struct tri_trace_span {
  tri_trace_note note;
  tri_lane       lane;
  double         begin_s, end_s; /* as tri_now_s */
} tri_trace_span;

typedef struct tri_trace tri_trace;

/* most_spans: further ones of a step are counted and dropped. d has the trace from here until close:
 * d->trace. Nothing is recorded outside start and stop. */
TRI_CHECKED tri_status tri_trace_open(tri_device *d, int most_spans, tri_trace **out);
void                   tri_trace_close(tri_trace **t);
/* A step begins, in stream s, which the host waits for: an event and the host's clock are read together. */
TRI_CHECKED tri_status tri_trace_start(tri_trace *t, tri_stream *s);
/* The step ends; the host waits for every recorded event. *span [*n], borrowed until the next start, in the
 * order in which they began on the host; one that was not ended is dropped. An error of the device in the
 * step comes back here. */
TRI_CHECKED tri_status tri_trace_stop(tri_trace *t, const tri_trace_span **span, int *n, int64_t *dropped);

/* What the calls below do while there is a trace. */
int            tri_trace_open_span(tri_trace *t, tri_lane lane, tri_trace_note note, tri_stream *s);
void           tri_trace_close_span(tri_trace *t, int span, tri_stream *s);
void           tri_trace_put_note(tri_trace *t, tri_trace_note note);
tri_trace_note tri_trace_take_note(tri_trace *t);

/* t is d->trace, NULL in a run without. s: the stream whose work the span is, or NULL for the host's time.
 * Hands back what end wants. Spans of one lane and stream do not overlap, phases lie inside one another. */
static inline int tri_trace_begin(tri_trace *t, tri_lane lane, tri_trace_note note, tri_stream *s) {
  return t ? tri_trace_open_span(t, lane, note, s) : -1;
}
static inline void tri_trace_end(tri_trace *t, int span, tri_stream *s) {
  if (t) tri_trace_close_span(t, span, s);
}
static inline int tri_trace_phase(tri_trace *t, const char *name) {
  return tri_trace_begin(t, TRI_LANE_PHASES, (tri_trace_note){.what = name}, NULL);
}
/* What the next collective carries; said by who starts it. */
static inline void tri_trace_carry(tri_trace *t, const char *owner, const char *what, const char *how) {
  if (t) tri_trace_put_note(t, (tri_trace_note){.what = what, .how = how, .owner = owner});
}
/* That, or all NULL; asked once by every collective. */
static inline tri_trace_note tri_trace_carried(tri_trace *t) {
  return t ? tri_trace_take_note(t) : (tri_trace_note){.what = NULL};
}

#endif
