/* begun.h - what a run said of itself when it started, as run.jsonl keeps it. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_BEGUN_H
#define TRI_PAGE_BEGUN_H

#include "tools/history/history.h"

/* The newest start. All owned; NULL: not known. Texts are visible. */
typedef struct tri_html_begun {
  char   *model, *ranks, *loss; /* a line each */
  char   *memory;               /* the table of planned memory, a line each */
  int64_t n_ranks;              /* 0: not known */
} tri_html_begun;

/* Not collective. Zeros where there is no start, or members of other types. */
TRI_CHECKED tri_status tri_html_begun_read(const tri_history *h, tri_html_begun *out);
void                   tri_html_begun_free(tri_html_begun *b);

#endif
