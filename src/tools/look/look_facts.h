/* look_facts.h - a run's state, speed and remaining time, seen from outside. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOOK_FACTS_H
#define TRI_LOOK_FACTS_H

#include "tools/history/history.h"

typedef enum {
  TRI_LOOK_STARTING, /* no step has finished since its start */
  TRI_LOOK_RUNNING,
  TRI_LOOK_FINISHED,
  TRI_LOOK_STOPPED, /* can be resumed, with or without a checkpoint */
  TRI_LOOK_FAILED,  /* it ended with an error */
  TRI_LOOK_KILLED,  /* its process is gone without a last word */
  TRI_LOOK_SILENT,  /* unknown if it still runs */
  TRI_LOOK_STATES
} tri_look_state;

enum { TRI_LOOK_PHASE_BYTES = 96 };
typedef struct tri_look_facts {
  tri_look_state state;
  char           phase[TRI_LOOK_PHASE_BYTES]; /* for a live run, "" if unknown */
  int64_t        step, steps;                 /* steps is -1 if unknown */
  double tokens_per_s, step_s; /* mean of the last steps, step_s with evaluations and checkpoints, NaN if
                                * unknown */
  double left_s, trained_s;    /* left_s is NaN if unknown, trained_s sums all steps in the file */
  double since_s;              /* since the last step's end, NaN if unknown */
  double silent_s;             /* since the last sign of life, NaN if there was none */
  bool   is_quiet;             /* it is alive, but has been silent for longer than its steps take */
} tri_look_facts;
/* None of these functions is collective. */
void tri_look_facts_make(const tri_history *h, double now_unix_s, tri_look_facts *out);
/* Returns the state's word as JSON has it, such as "running". */
const char *tri_look_state_word(tri_look_state s);
/* Adds the line of tri_ending_put if the run has ended, with success, by a stop or with an error. */
TRI_CHECKED tri_status tri_look_why(const tri_history *h, const tri_look_facts *f, tri_text *out);

#endif
