/* view.h - answers as people read them. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_VIEW_H
#define TRI_SHOW_VIEW_H

#include "show_answer.h"
#include "pager.h"

/* What is under way. Zero-initialise but for p. */
typedef struct tri_show_view {
  tri_pager *p;        /* borrowed */
  double     mean;     /* rewards above it are good ones; NaN: not known */
  int64_t    step;     /* of the answers that follow; -1: of none */
  bool       by_steps; /* they are of several steps */
  /* The view's own: the last answer's line and step. */
  char   *last;
  int64_t cap, n_last, last_step;
  bool    begun;
} tri_show_view;
void tri_show_view_free(tri_show_view *v);

/* Not collective, all that follow. The answer below its prompt, which stands once above those that follow
 * each other. */
TRI_CHECKED tri_status tri_show_answer_put(tri_show_view *v, const tri_show_answer *a);

/* What a file's answers come to. Zero-initialise. */
typedef struct tri_show_sum {
  int64_t answers, prompts, cut;
  int64_t rewarded, measured; /* those with a reward; of a known length */
  double  reward, least, most, length;
} tri_show_sum;
/* before: the answer that stands before it, or NULL. */
void tri_show_sum_add(tri_show_sum *s, const tri_show_answer *a, const tri_show_answer *before);
/* file, and what it came to. */
TRI_CHECKED tri_status tri_show_sum_put(tri_pager *p, const char *file, int64_t step, const tri_show_sum *s);

#endif
