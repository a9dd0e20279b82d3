/* tryout.h - tries a deck's rewards on saved answers, as in a run. Not collective, all that follow, unless
 * they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRYOUT_H
#define TRI_TRYOUT_H

#include "saved_answers.h"
#include "tryout_model.h"

/* The result of one reward for one answer. */
typedef struct tri_verdict {
  float       score; /* NAN if the reward failed */
  double      seconds;
  bool        is_first;            /* `seconds` includes the start of a program */
  char       *why, *asked, *reply; /* about a failure, else NULL */
  tri_extras *extras;              /* NULL without extras */
} tri_verdict;

/* All results of one reward. */
typedef struct tri_tried {
  char            name[48]; /* its name in the reward set */
  double          weight;
  tri_verdict    *verdict; /* [answers] */
  int             n, failed;
  double          mean, least, most; /* over answers with a score, NAN without any */
  double          seconds, start_s;  /* seconds of all answers, and of the one that started a program */
  tri_reward_mean extra[TRI_EXTRAS_MOST];
  int             n_extra;
} tri_tried;

/* Zero-initialise it. */
typedef struct tri_tryout {
  const char      *path; /* file of the answers, borrowed */
  tri_saved        saved;
  tri_reward_opt   row[TRI_REWARDS_MAX]; /* [n], with strings borrowed from the deck */
  int              n;
  tri_reward_set  *set;
  tri_tried        tried[TRI_REWARDS_MAX]; /* [n] */
  tri_tryout_model model;                  /* open while answers are scored */
  float           *total;                  /* [saved.n] weighted sums, NAN if a reward failed */
  int              failed;                 /* answers with a NAN total */
} tri_tryout;

/* Computes the deck's rewards for each answer of the file, and loads a reward model if one is named. A failed
 * reward is no error. Returns TRI_ECONFIG after logging all errors of the deck's rewards, or if it has none.
 * It may not return if a model was loaded (tri_infer_leave). */
TRI_CHECKED tri_status tri_tryout_run(const tri_config *c, const char *path, tri_tryout *out);
void                   tri_tryout_free(tri_tryout *t);

/* Prints a row for each reward on stdout. As JSON it prints a line for each answer and a last line for
 * all. */
TRI_CHECKED tri_status tri_tryout_print(const tri_tryout *t, bool json);
/* Logs the first failures of each reward in full, then the number of the others. */
void tri_tryout_say_failures(const tri_tryout *t);

#endif
