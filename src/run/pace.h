/* pace.h - how long steps and checkpoints take, and how much of an allocation's end is kept for them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PACE_H
#define TRI_PACE_H

#include <stdbool.h>

/* In seconds. Each of the first three is that of the slower ones of late: the larger of the newest and nine
 * tenths of what it was. */
typedef struct tri_pace {
  double step_s, learn_s; /* learn_s: of a step, from where it cannot be given up any more */
  double save_s;          /* until one is saved whatever was guessed */
  double most_s;          /* that is kept at most */
  double used_s, left_s;  /* of the allocation when the run began; left_s 0: no end is known */
  bool   saved;           /* save_s is measured */
  bool   behind;          /* a checkpoint is being written: the next one waits for it, as long at most */
} tri_pace;

/* Pure, all that follow. Of an allocation of less than ten minutes half is used at least. */
tri_pace tri_pace_begin(double used_s, double left_s);
void     tri_pace_step(tri_pace *p, double step_s, double learn_s);
void     tri_pace_save(tri_pace *p, double save_s);
/* No further step is begun where no more than this is left: it, a checkpoint and ten seconds would not
 * fit. */
double tri_pace_idle_s(const tri_pace *p);
/* A step that still makes its sequences is given up where no more than this is left. */
double tri_pace_work_s(const tri_pace *p);
/* Was the larger part of the allocation still to come? Then another one is no longer. */
bool tri_pace_had_most(const tri_pace *p);

#endif
