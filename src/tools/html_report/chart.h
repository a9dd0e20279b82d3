/* chart.h - one metric of all runs as curves in an SVG. Private to its room. Not collective, all that follow,
 * unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_CHART_H
#define TRI_PAGE_CHART_H

#include "base/text_buffer.h"
#include "tools/history/history.h"

/* The settings shared by all charts of an HTML report. */
typedef struct tri_html_span {
  const tri_history *const *run; /* [n_run], borrowed */
  int                       n_run;
  int                       columns; /* number of columns for the steps of a curve */
  int64_t first, last;               /* range of steps over all runs, first <= last, runs without steps do not
                                      * count */
} tri_html_span;

/* Appends to `charts` a <figure> with the metric's curve of each run. If the metric is the same number in all
 * steps, it appends a <span> to `constants` instead. It appends nothing if no run has a number. */
TRI_CHECKED tri_status tri_html_chart(const tri_html_span *s, const char *name, tri_text *charts,
                                      tri_text *constants);
/* Appends the number in readable form, with its unit if `bytes`. */
TRI_CHECKED tri_status tri_html_put_number(tri_text *out, double x, bool bytes);

#endif
