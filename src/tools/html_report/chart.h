/* chart.h - one metric of all runs as curves in an SVG. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_CHART_H
#define TRI_PAGE_CHART_H

#include "base/text_buffer.h"
#include "tools/history/history.h"

/* What all charts of a page share. */
typedef struct tri_html_span {
  const tri_history *const *run; /* [n_run], borrowed */
  int                       n_run;
  int                       columns; /* into which the steps of a curve are dealt */
  int64_t first, last;               /* steps of all runs, first <= last; one that has none is not counted */
} tri_html_span;

/* Not collective. Appends to charts a <figure> with the metric's curve of each run that has it, or, where
 * it is one number in all steps, to constants a <span>; nothing where no run has a number. */
TRI_CHECKED tri_status tri_html_chart(const tri_html_span *s, const char *name, tri_text *charts,
                                      tri_text *constants);
/* Not collective. The number as people read it, with its unit where that is one of bytes. */
TRI_CHECKED tri_status tri_html_put_number(tri_text *out, double x, bool bytes);

#endif
