/* look_facts.h - what is known of a run from outside: its state, how fast it is, how long it will take. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOOK_FACTS_H
#define TRI_LOOK_FACTS_H

#include "tools/history/history.h"

typedef enum {
  TRI_LOOK_STARTING, /* no step since its start */
  TRI_LOOK_RUNNING,
  TRI_LOOK_FINISHED,
  TRI_LOOK_STOPPED, /* with a checkpoint or none, to be resumed */
  TRI_LOOK_FAILED,  /* with an error */
  TRI_LOOK_KILLED,  /* its process is gone, and said nothing */
  TRI_LOOK_SILENT,  /* whether it runs cannot be known */
  TRI_LOOK_STATES
} tri_look_state;

enum { TRI_LOOK_PHASE_BYTES = 96 };
typedef struct tri_look_facts {
  tri_look_state state;
  char           phase[TRI_LOOK_PHASE_BYTES]; /* of one that runs; "": not known */
  int64_t        step, steps;                 /* steps -1: not known */
  double tokens_per_s, step_s; /* of the last steps, with evaluations and checkpoints; NaN: not known */
  double left_s, trained_s;    /* left_s NaN: not known; trained_s: sum of all steps in the file */
  double since_s;              /* since the last step's end; NaN: not known */
  double silent_s;             /* since the last sign of life; NaN: there was none */
  bool   is_quiet;             /* it runs, but was not heard of for longer than its steps take */
} tri_look_facts;
/* Not collective, both. */
void tri_look_facts_make(const tri_history *h, double now_unix_s, tri_look_facts *out);
/* The state's word, as JSON has it: "running". */
const char *tri_look_state_word(tri_look_state s);

#endif
