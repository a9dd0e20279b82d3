/* pace.c - tracks how long steps and checkpoints take, and how much time to keep for them at an allocation's
 * end. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pace.h"

#include <math.h>

static const double spare_s = 10, short_s = 600,
                    slow_fades = 0.9; /* chosen, see interface.md. 0.35 remains after ten steps */

tri_pace tri_pace_begin(double used_s, double left_s) {
  return (tri_pace){.most_s = left_s > 0 && used_s + left_s < short_s ? (used_s + left_s) / 2 : INFINITY,
                    .used_s = used_s,
                    .left_s = left_s};
}

static double slower(double before_s, double now_s) { return fmax(now_s, slow_fades * before_s); }

void tri_pace_step(tri_pace *p, double step_s, double learn_s) {
  p->step_s = slower(p->step_s, step_s);
  p->learn_s = slower(p->learn_s, learn_s);
}

/* The first measured save replaces the guess. */
void tri_pace_save(tri_pace *p, double save_s) {
  p->save_s = p->saved ? slower(p->save_s, save_s) : save_s;
  p->saved = true;
}

static double saves_s(const tri_pace *p) { return (p->behind ? 2 : 1) * p->save_s; }

double tri_pace_ask_s(const tri_pace *p) { return fmin(p->most_s, saves_s(p) + p->step_s + spare_s); }
double tri_pace_watch_s(const tri_pace *p) { return fmin(p->most_s, saves_s(p) + p->learn_s + spare_s); }
bool   tri_pace_had_most(const tri_pace *p) { return p->left_s > 0 && p->left_s >= p->used_s; }
