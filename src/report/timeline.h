/* timeline.h - a run's first steps as a file for chrome://tracing or ui.perfetto.dev, and how far
 * communication ran beside compute. Not collective, all that follow. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TIMELINE_H
#define TRI_TIMELINE_H

#include "base/text_buffer.h"
#include "device/trace.h"

/* Seconds of a lane's spans together, and of them those during which a span of TRI_LANE_COMPUTE ran too. */
typedef struct tri_timeline_share {
  double beside_s, total_s;
} tri_timeline_share;
/* Adds to *sum. span [n]; spans of a lane that overlap count once. */
TRI_CHECKED tri_status tri_timeline_share_add(const tri_trace_span *span, int n, tri_lane lane,
                                              tri_timeline_share *sum);

typedef struct tri_timeline_opt {
  int         rank;
  const char *host;       /* UTF-8, copied */
  const char *folder;     /* copied; made when there is something to write */
  int64_t     steps;      /* > 0: so many are traced */
  int         most_spans; /* of one step */
} tri_timeline_opt;

typedef struct tri_timeline tri_timeline;

/* From here d->trace is set, until all steps are traced or close. */
TRI_CHECKED tri_status tri_timeline_open(tri_device *d, const tri_timeline_opt *opt, tri_timeline **out);
void                   tri_timeline_close(tri_timeline **t);
/* Around each step, numbered as the user counts; t may be NULL, and after the last traced step both do
 * nothing. The host waits for s and for the events of the step. last: the run takes no further step. After
 * the last traced one the file is written, FOLDER/rank-N.json; where that fails a warning says so and the run
 * goes on. */
TRI_CHECKED tri_status tri_timeline_begin(tri_timeline *t, int64_t step, tri_stream *s);
TRI_CHECKED tri_status tri_timeline_end(tri_timeline *t, bool last);
/* Appends "92 % of gathers and 88 % of reductions ran beside compute; FOLDER/rank-0.json"; nothing if no file
 * was written. */
TRI_CHECKED tri_status tri_timeline_words(const tri_timeline *t, tri_text *out);
#endif
