/* timeline.h - writes a run's first steps to a file for chrome://tracing or ui.perfetto.dev, and computes how
 * much of the communication overlaps compute. Not collective, all of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TIMELINE_H
#define TRI_TIMELINE_H

#include "base/text_buffer.h"
#include "device/trace.h"

/* Total seconds of a lane's spans, and the part during which a span of TRI_LANE_COMPUTE ran too. */
typedef struct tri_timeline_share {
  double beside_s, total_s;
} tri_timeline_share;
/* Adds to *sum. span has n elements. Overlapping spans of a lane count once. */
TRI_CHECKED tri_status tri_timeline_share_add(const tri_trace_span *span, int n, tri_lane lane,
                                              tri_timeline_share *sum);

typedef struct tri_timeline_opt {
  int         rank;
  const char *host;       /* UTF-8, copied */
  const char *folder;     /* copied, and made once there is something to write */
  int64_t     steps;      /* number of steps to trace, above 0 */
  int         most_spans; /* most spans of one step */
} tri_timeline_opt;

typedef struct tri_timeline tri_timeline;

/* Sets d->trace, until all steps are traced or until close. */
TRI_CHECKED tri_status tri_timeline_open(tri_device *d, const tri_timeline_opt *opt, tri_timeline **out);
void                   tri_timeline_close(tri_timeline **t);
/* Call these around each step, numbered as the user counts. t may be NULL. After the last traced step both do
 * nothing. The host waits for s and for the events of the step. `last` means that the run takes no further
 * step. After the last traced step the file FOLDER/rank-N.json is written. If that fails, a warning reports
 * it and the run continues. */
TRI_CHECKED tri_status tri_timeline_begin(tri_timeline *t, int64_t step, tri_stream *s);
TRI_CHECKED tri_status tri_timeline_end(tri_timeline *t, bool last);
/* Appends text such as "92 % of gathers and 88 % of reductions ran beside compute, FOLDER/rank-0.json", or
 * nothing if no file was written. */
TRI_CHECKED tri_status tri_timeline_words(const tri_timeline *t, tri_text *out);
#endif
