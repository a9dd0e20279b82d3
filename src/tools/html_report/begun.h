/* begun.h - the facts a run wrote about itself in its start event. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_BEGUN_H
#define TRI_PAGE_BEGUN_H

#include "tools/history/history.h"

/* Facts of the newest start. All pointers are owned, NULL if unknown. Texts are visible. */
typedef struct tri_html_begun {
  char   *model, *ranks, *loss; /* one line each */
  char   *memory;               /* the table of planned memory, one line an entry */
  int64_t n_ranks;              /* 0 if unknown */
} tri_html_begun;

/* Not collective. *out stays zero without a start event, and so do members of another type. */
TRI_CHECKED tri_status tri_html_begun_read(const tri_history *h, tri_html_begun *out);
void                   tri_html_begun_free(tri_html_begun *b);

#endif
