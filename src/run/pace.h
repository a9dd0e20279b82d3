/* pace.h - tracks how long steps and checkpoints take, and how much time to keep for them at an allocation's
 * end. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PACE_H
#define TRI_PACE_H

#include <stdbool.h>

/* In seconds. Each of the first three follows the slow steps or saves. It is the larger of the newest
 * duration and nine tenths of its previous value. */
typedef struct tri_pace {
  double step_s, learn_s; /* learn_s is the later part, during which the step cannot be abandoned */
  double save_s;          /* the caller's guess until the first save is measured */
  double most_s;          /* most time to keep */
  double used_s, left_s;  /* allocation at the run's start. left_s is 0 without a known end */
  bool   saved;           /* save_s is measured */
  bool   behind;          /* a checkpoint is being written, and the next one waits for it, at most save_s */
} tri_pace;

/* All functions are pure. An allocation of less than ten minutes is used for at least one half. */
tri_pace tri_pace_begin(double used_s, double left_s);
void     tri_pace_step(tri_pace *p, double step_s, double learn_s);
void     tri_pace_save(tri_pace *p, double save_s);
/* Returns the least remaining time for a further step, for tri_halt_ask between steps. With less, the step, a
 * checkpoint and ten seconds would not fit. */
double tri_pace_ask_s(const tri_pace *p);
/* Returns the least remaining time for a step that is still generating its sequences, for tri_halt_watch.
 * With less, the step is abandoned. */
double tri_pace_watch_s(const tri_pace *p);
/* Returns whether the larger part of the allocation was still to come when the run began. Another allocation
 * is then no longer than this one. */
bool tri_pace_had_most(const tri_pace *p);

#endif
