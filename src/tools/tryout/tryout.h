/* tryout.h - a deck's rewards tried on saved answers, as a run asks them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRYOUT_H
#define TRI_TRYOUT_H

#include "saved_answers.h"
#include "tryout_model.h"

/* What one reward said of one answer. */
typedef struct tri_verdict {
  float       score; /* NAN: none */
  double      seconds;
  bool        is_first;            /* its seconds have the start of a program */
  char       *why, *asked, *reply; /* of a failure; NULL: there is none */
  tri_extras *extras;              /* NULL: none */
} tri_verdict;

/* All of a reward's. */
typedef struct tri_tried {
  char            name[48]; /* as the set has it */
  double          weight;
  tri_verdict    *verdict; /* [answers] */
  int             n, failed;
  double          mean, least, most; /* of those that got one; NAN: none did */
  double          seconds, start_s;  /* of all answers; of the first, which has the start of a program */
  tri_reward_mean extra[TRI_EXTRAS_MOST];
  int             n_extra;
} tri_tried;

/* Zero-initialise. */
typedef struct tri_tryout {
  const char      *path; /* of the answers, borrowed */
  tri_saved        saved;
  tri_reward_opt   row[TRI_REWARDS_MAX]; /* [n] texts borrowed of the deck */
  int              n;
  tri_reward_set  *set;
  tri_tried        tried[TRI_REWARDS_MAX]; /* [n] */
  tri_tryout_model model;                  /* while it is needed */
  float           *total;                  /* [saved.n] weighted sums; NAN: a reward gave none */
  int              failed;                 /* answers of those */
} tri_tryout;

/* Not collective. Asks the deck's rewards for each answer in the file; loads a reward model for it. A failure
 * of a reward is no error. TRI_ECONFIG: all that is wrong with the deck's rewards was said, or it has none.
 * May not return where a model was loaded (tri_infer_leave). */
TRI_CHECKED tri_status tri_tryout_run(const tri_config *c, const char *path, tri_tryout *out);
void                   tri_tryout_free(tri_tryout *t);

/* Not collective. On stdout: a row for each reward; or JSON, a line for each answer and one of all. */
TRI_CHECKED tri_status tri_tryout_print(const tri_tryout *t, bool json);
/* Not collective. On stderr: the first failures of each reward in full, then how many more there are. */
void tri_tryout_say_failures(const tri_tryout *t);

#endif
