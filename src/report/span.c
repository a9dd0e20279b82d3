/* span.c - marks a part of a step in metrics, screen and trace. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "span.h"

#include "base/clock.h"
#include "comm/peers/rank_status.h"
#include "device/trace.h"

tri_span tri_span_begin(tri_spans *s, const char *name, unsigned how) {
  if (how & TRI_SPAN_SHOWN && s->show) s->show(s->ctx, name);
  s->n_open++;
  return (tri_span){name, how, tri_now_s(), tri_trace_phase(s->device->trace, name),
                    tri_rank_status_phase(name)};
}

/* Closes the newest span. */
static void close_span(tri_spans *s, const tri_span *span) {
  TRI_ASSERT(s->n_open > 0);
  s->n_open--;
  tri_trace_end(s->device->trace, span->traced, NULL);
  (void)tri_rank_status_phase(span->before);
}

double tri_span_end(tri_spans *s, const tri_span *span) {
  double spent_s = tri_now_s() - span->begun_s;

  if (span->how & TRI_SPAN_TIMED) tri_metric_time(s->metrics, span->name, spent_s);
  if (span->how & TRI_SPAN_TIMED && s->usage) tri_usage_spend(s->usage, span->name, spent_s);
  close_span(s, span);
  return spent_s;
}

void tri_span_give_up(tri_spans *s, const tri_span *span) {
  close_span(s, span);
  if (span->how & TRI_SPAN_TIMED) tri_metric_forget_time(s->metrics, span->name);
}
