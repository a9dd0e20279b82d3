/* show.h - saved answers, chosen and shown: to people, or as JSON. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_H
#define TRI_SHOW_H

#include "base/error.h"

typedef enum { TRI_SHOW_PROMPTS, TRI_SHOW_BEST, TRI_SHOW_WORST, TRI_SHOW_CUT } tri_show_choice;

enum { TRI_SHOW_ANSWERS_MOST = 10000 }; /* chosen: those of a large step, and no more memory than it */

typedef struct tri_show_opt {
  const char     *path;  /* a run's output, a folder of saved steps, or a file of lines */
  bool            evals; /* of evaluations */
  bool            json;
  int64_t         step;   /* -1: the newest one; of one prompt, all */
  int64_t         prompt; /* its id; -1: any */
  tri_show_choice choice;
  int64_t         n; /* PROMPTS: prompts, 0: all; else answers, 1 .. TRI_SHOW_ANSWERS_MOST */
} tri_show_opt;

/* Not collective. Writes to standard output, through a pager where that is a terminal. TRI_EINPUT where no
 * such answers are saved. */
TRI_CHECKED tri_status tri_show(const tri_show_opt *o);

#endif
