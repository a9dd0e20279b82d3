/* parts.h - what stands on the page beside the charts. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_PARTS_H
#define TRI_PAGE_PARTS_H

#include "facts.h"

/* Not collective, all that follow. Each appends one section, or nothing where there is nothing to show. */
TRI_CHECKED tri_status tri_page_cards(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_differences(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_phases(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_memory(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_samples(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_alarms(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_decks(const tri_page *p, tri_text *out);

/* "<h2 id="phases">Time by phase</h2>"; words of this program. */
TRI_CHECKED tri_status tri_page_title(tri_text *out, const char *id, const char *title);
/* The key of a run's colour and its name, nothing where there is only one run. */
TRI_CHECKED tri_status tri_page_put_name(const tri_page *p, int run, tri_text *out);

#endif
