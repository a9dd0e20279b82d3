/* parts.h - the parts of the HTML report besides the charts. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_PARTS_H
#define TRI_PAGE_PARTS_H

#include "html_facts.h"

/* No function here is collective. Each appends one section, or nothing if there is nothing to show. */
TRI_CHECKED tri_status tri_html_cards(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_differences(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_phases(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_memory(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_samples(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_alarms(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_decks(const tri_html_report *p, tri_text *out);

/* Appends a heading such as "<h2 id="phases">Time by phase</h2>". Both texts are constants of this
 * program. */
TRI_CHECKED tri_status tri_html_title(tri_text *out, const char *id, const char *title);
/* Appends the colour key and the name of a run, or nothing if there is only one run. */
TRI_CHECKED tri_status tri_html_put_name(const tri_html_report *p, int run, tri_text *out);

#endif
