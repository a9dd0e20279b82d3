/* groups.h - what is known of a metric by its name: where it stands on the page, its unit, its axis.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_GROUPS_H
#define TRI_PAGE_GROUPS_H

#include <stdbool.h>

#include "metric/metric_names.h"
#include "ticks.h"

/* Pure, all that follow. */
tri_metric_group tri_html_group_of(const char *name);
/* Of two names of one group: below 0 where the first stands before the second, which the table knows or
 * not. */
int tri_html_group_order(const char *a, const char *b);
/* In words; NULL: the name is all that is known. */
const char *tri_html_metric_words(const char *name);
/* "nats", "tokens", "s", "per s"; "" for a number, and for bytes, whose unit the axis writes. */
const char   *tri_html_metric_unit(const char *name);
tri_axis_kind tri_html_metric_kind(const char *name);
bool tri_html_metric_may_be_log(const char *name); /* a scale of powers shows more where it spans many */
bool tri_html_metric_is_eval(const char *name);    /* stands in some lines only, each a measurement */
bool tri_html_metric_is_hidden(const char *name);  /* is no curve */
/* Whether it is the time of a phase of the steps, one beside the others; *phase [*n]: its name in it. */
bool tri_html_metric_is_phase(const char *name, const char **phase, int *n);

#endif
