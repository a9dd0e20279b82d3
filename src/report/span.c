/* span.c - a piece of a step, in one call: metrics, screen, trace. */
#include "span.h"

#include "device/trace.h"

tri_span tri_span_begin(const tri_spans *s, const char *name, unsigned how) {
  if (how & TRI_SPAN_SHOWN && s->show) s->show(s->ctx, name);
  return (tri_span){name, how, tri_now_s(), tri_trace_phase(s->device->trace, name)};
}

double tri_span_end(const tri_spans *s, const tri_span *span) {
  double spent_s = tri_now_s() - span->begun_s;

  if (span->how & TRI_SPAN_TIMED) tri_metric_time(s->metrics, span->name, spent_s);
  tri_trace_end(s->device->trace, span->traced, NULL);
  return spent_s;
}

void tri_span_give_up(const tri_spans *s, const tri_span *span) {
  tri_trace_end(s->device->trace, span->traced, NULL);
  tri_metric_forget_time(s->metrics, span->name);
}
