/* show.h - selects saved answers and shows them to people or as JSON. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SHOW_H
#define TRI_SHOW_H

#include "base/error.h"

typedef enum { TRI_SHOW_PROMPTS, TRI_SHOW_BEST, TRI_SHOW_WORST, TRI_SHOW_CUT } tri_show_choice;

enum {
  TRI_SHOW_ANSWERS_MOST = 10000
}; /* chosen: the answers of a large step, in no more memory than it
                                         * takes */

typedef struct tri_show_opt {
  const char     *path;  /* a run's output, a folder of saved steps, or a file of lines */
  bool            evals; /* answers of evaluations instead of steps */
  bool            json;
  int64_t         step;   /* -1 for the newest, or with a prompt for all */
  int64_t         prompt; /* id of the prompt, -1 for any */
  tri_show_choice choice;
  int64_t         n; /* prompts (0 for all) with TRI_SHOW_PROMPTS, else answers, 1 .. TRI_SHOW_ANSWERS_MOST */
} tri_show_opt;

/* Not collective. Writes to standard output, on a terminal through a pager. Returns TRI_EINPUT if no such
 * answers are saved. */
TRI_CHECKED tri_status tri_show(const tri_show_opt *o);

#endif
