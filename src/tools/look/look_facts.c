/* look_facts.c - derives a run's state, speed and remaining time from its history. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "look_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  LAST_STEPS = 100,      /* steps for the mean step time, chosen so that they mostly include evaluations */
  LAST_RATES = 10,       /* steps for the shown tokens per second, chosen */
  PATIENCE_S = 60,       /* seconds of silence, at least, before a run's state is in doubt, chosen */
  PATIENCE_STEPS = 3,    /* the same in steps as long as the longest recent one, chosen */
  START_PATIENCE_S = 600 /* the same while it loads or writes a checkpoint, the default of run.timeout_s */
};

const char *tri_look_state_word(tri_look_state s) {
  static const char *const word[TRI_LOOK_STATES] = {"starting", "running", "finished", "stopped",
                                                    "failed",   "killed",  "silent"};

  return word[s];
}

static double value_at(const tri_history *h, const char *name, int64_t row) {
  int i = tri_history_find(h, name);

  return i < 0 || row < 0 || row >= tri_history_rows(h) ? NAN : tri_history_at(h, i, row);
}

/* Returns the sum of the finite values in the rows from `from` on. *highest is raised to the largest of
 * them. */
static double sum_of(const tri_history *h, const char *name, int64_t from, double *highest) {
  tri_history_points p = {NULL, NULL, 0};
  int                i = tri_history_find(h, name);
  double             sum = 0;

  if (i >= 0) p = tri_history_points_of(h, i);
  for (int64_t k = p.n - 1; k >= 0 && p.row[k] >= from; k--) {
    double x = p.value[k];
    if (!isfinite(x)) continue;
    sum += x;
    if (x > *highest) *highest = x;
  }
  return sum;
}

/* Finds the mean time of a recent step in seconds, with its evaluation and checkpoint. *longest_s adds up the
 * longest time of each part. */
static void find_pace(const tri_history *h, tri_look_facts *f, double *longest_s) {
  static const char *const part[] = {"time_step_s", "time_eval_s", "time_save_s"};
  int64_t                  n = tri_history_rows(h), from = n - LAST_STEPS, steps;
  double                   sum = 0, most, none = 0;

  if (from < 0) from = 0;
  while (from < n && tri_history_step(h)[from] == 0) from++; /* a row with an evaluation alone */
  steps = n - from;
  *longest_s = 0;
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    most = 0;
    sum += sum_of(h, part[i], from, &most);
    *longest_s += most;
  }
  f->step_s = steps > 0 && sum > 0 ? sum / (double)steps : NAN;
  f->trained_s = sum_of(h, "time_step_s", 0, &none);
}

static void find_rate(const tri_history *h, tri_look_facts *f) {
  int64_t n = tri_history_rows(h), row = n - LAST_RATES, rates = 0;
  double  sum = 0;

  for (row = row < 0 ? 0 : row; row < n; row++) {
    double x = value_at(h, "tokens_per_s", row);
    if (!isfinite(x)) continue;
    sum += x;
    rates++;
  }
  f->tokens_per_s = rates ? sum / (double)rates : NAN;
}

/* Returns the number of all steps, from the deck, or else from the run's start event. */
static int64_t steps_of(const tri_history *h) {
  const char *text = tri_history_deck(h, "train.steps");
  char       *end;
  long long   steps = text ? strtoll(text, &end, 10) : 0;

  return text && *text && !*end && steps > 0 ? steps : tri_history_said_steps(h);
}

static double timeout_of(const tri_history *h) {
  const char *text = tri_history_deck(h, "run.timeout_s");
  double      s = text ? strtod(text, NULL) : 0;

  return s > START_PATIENCE_S && s < 1e9 ? s : START_PATIENCE_S;
}

/* Returns true if a step has finished since the newest start. */
static bool has_begun(const tri_history *h) {
  const tri_history_life *life = tri_history_life_of(h);
  int64_t                 n = tri_history_rows(h);
  double                  last_s = value_at(h, "time_unix_s", n - 1);

  if (n == 0) return false;
  return !(life->start_unix_s > 0 && isfinite(last_s)) || last_s >= life->start_unix_s - 1;
}

static tri_look_state ended_state(const tri_history *h, const tri_look_facts *f, tri_look_state otherwise) {
  switch (tri_history_ending(h).state) {
  case TRI_ENDING_FINISHED:
    return TRI_LOOK_FINISHED;
  case TRI_ENDING_STOPPED:
    return TRI_LOOK_STOPPED;
  case TRI_ENDING_FAILED:
    return TRI_LOOK_FAILED;
  case TRI_ENDING_OPEN:
    break;
  }
  return f->steps > 0 && f->step >= f->steps && otherwise != TRI_LOOK_KILLED ? TRI_LOOK_FINISHED : otherwise;
}

/* Returns true if the present start has failed. Its processes may take seconds to exit, and on another node
 * nobody sees them. .start has whole seconds. */
static bool has_failed(const tri_history *h) {
  const tri_history_life *life = tri_history_life_of(h);
  tri_ending              e = tri_history_ending(h);

  return e.state == TRI_ENDING_FAILED && life->has_start && e.time_unix_s >= life->start_unix_s + 1;
}

static tri_look_state find_state(const tri_history *h, const tri_look_facts *f, double patience_s) {
  const tri_history_life *life = tri_history_life_of(h);
  bool                    heard = f->silent_s < patience_s; /* false if silent_s is NaN */
  int                     lives = life->has_start ? tri_look_lives(h) : -1;

  if (has_failed(h)) return TRI_LOOK_FAILED;
  if (lives == 0) return ended_state(h, f, TRI_LOOK_KILLED);
  if (lives < 0 && (!life->has_start || !heard)) {
    tri_look_state ended = ended_state(h, f, TRI_LOOK_SILENT);
    if (ended != TRI_LOOK_SILENT || !heard) return ended;
  }
  return has_begun(h) ? TRI_LOOK_RUNNING : TRI_LOOK_STARTING;
}

static void find_phase(const tri_history *h, tri_look_facts *f) {
  const char *phase = tri_history_phase(h);

  if (tri_history_life_of(h)->is_saving)
    snprintf(f->phase, sizeof f->phase, "writing a checkpoint");
  else if (f->state == TRI_LOOK_RUNNING && f->steps > 0 && f->step >= f->steps)
    snprintf(f->phase, sizeof f->phase, "after the last step");
  else if (f->state == TRI_LOOK_RUNNING)
    snprintf(f->phase, sizeof f->phase, "in step %lld", (long long)f->step + 1);
  else if (*phase)
    snprintf(f->phase, sizeof f->phase, "first step, %s", phase);
}

void tri_look_facts_make(const tri_history *h, double now_unix_s, tri_look_facts *f) {
  const tri_history_life *life = tri_history_life_of(h);
  int64_t                 n = tri_history_rows(h);
  double                  longest_s, patience_s, last_s = value_at(h, "time_unix_s", n - 1);
  bool                    is_up;

  *f = (tri_look_facts){.step = n ? tri_history_step(h)[n - 1] : 0, .steps = steps_of(h)};
  find_pace(h, f, &longest_s);
  find_rate(h, f);
  f->since_s = isfinite(last_s) ? fmax(now_unix_s - last_s, 0) : NAN;
  f->silent_s = life->seen_unix_s > 0 ? fmax(now_unix_s - life->seen_unix_s, 0) : NAN;
  patience_s = fmax(PATIENCE_S, PATIENCE_STEPS * longest_s);
  if (!has_begun(h) || life->is_saving) patience_s = fmax(patience_s, timeout_of(h));
  f->state = find_state(h, f, patience_s);
  is_up = f->state == TRI_LOOK_RUNNING || f->state == TRI_LOOK_STARTING;
  if (is_up) find_phase(h, f);
  f->is_quiet = is_up && f->silent_s > patience_s;
  f->left_s = is_up && f->steps > 0 ? (double)(f->steps - f->step) * f->step_s : NAN;
  if (f->state == TRI_LOOK_RUNNING && isfinite(f->since_s))
    f->left_s = fmax(f->left_s - fmin(f->since_s, f->step_s), 0); /* less the time spent in the current
                                                                   * step */
  if (isnan(f->step_s)) f->left_s = NAN;
}

tri_status tri_look_why(const tri_history *h, const tri_look_facts *f, tri_text *out) {
  tri_ending e = tri_history_ending(h);
  bool ended = f->state == TRI_LOOK_FINISHED || f->state == TRI_LOOK_STOPPED || f->state == TRI_LOOK_FAILED;

  return ended ? tri_ending_put(&e, out) : TRI_OK;
}
