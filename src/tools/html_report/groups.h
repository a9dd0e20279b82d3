/* groups.h - a metric's section in the HTML report, its unit and its axis, found by its name. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_GROUPS_H
#define TRI_PAGE_GROUPS_H

#include <stdbool.h>

#include "metric/metric_names.h"
#include "ticks.h"

/* All functions here are pure. */
tri_metric_group tri_html_group_of(const char *name);
/* Compares two names of one group, known to the table or not. Returns less than 0 if the first comes before
 * the second. */
int tri_html_group_order(const char *a, const char *b);
/* Returns the meaning in words, or NULL if only the name is known. */
const char *tri_html_metric_words(const char *name);
/* Returns "nats", "tokens", "s" or "per s". Returns "" for a plain number, and for bytes, since their axis
 * writes the unit. */
const char   *tri_html_metric_unit(const char *name);
tri_axis_kind tri_html_metric_kind(const char *name);
bool          tri_html_metric_may_be_log(const char *name); /* a log scale is clearer over a wide range */
bool          tri_html_metric_is_eval(const char *name); /* present in some lines only, each a measurement */
bool          tri_html_metric_is_hidden(const char *name); /* has no curve */
/* Returns true for the time of one phase of a step. *phase [*n] is the phase's name inside `name`. */
bool tri_html_metric_is_phase(const char *name, const char **phase, int *n);

#endif
