/* view.h - prints answers for people. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_VIEW_H
#define TRI_SHOW_VIEW_H

#include "show_answer.h"
#include "pager.h"

/* The state of the output. Zero-initialise it except p. */
typedef struct tri_show_view {
  tri_pager *p;        /* borrowed */
  double     mean;     /* rewards above it are good, NaN if unknown */
  int64_t    step;     /* step of the next answers, -1 without one */
  bool       by_steps; /* the answers come from several steps */
  /* Private to view.c, the last answer's line and step. */
  char   *last;
  int64_t cap, n_last, last_step;
  bool    begun;
} tri_show_view;
void tri_show_view_free(tri_show_view *v);

/* Not collective, all that follow. Prints the answer, and above it the prompt unless the previous answer had
 * the same one. */
TRI_CHECKED tri_status tri_show_answer_put(tri_show_view *v, const tri_show_answer *a);

/* Totals of a file's answers. Zero-initialise it. */
typedef struct tri_show_sum {
  int64_t answers, prompts, cut;
  int64_t rewarded, measured; /* answers with a reward, and with a known length */
  double  reward, least, most, length;
} tri_show_sum;
/* `before` is the previous answer or NULL. */
void tri_show_sum_add(tri_show_sum *s, const tri_show_answer *a, const tri_show_answer *before);
/* Prints the name of the file and its totals. */
TRI_CHECKED tri_status tri_show_sum_put(tri_pager *p, const char *file, int64_t step, const tri_show_sum *s);

#endif
