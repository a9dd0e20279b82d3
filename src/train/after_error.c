/* after_error.c - saves the last whole step of a run that ends with an error, and records the reason. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "report_step.h"
#include "save.h"
#include "train.h"

#include "base/notice.h"
#include "comm/halt.h"
#include "comm/runtime.h"

#include <stdio.h>
#include <string.h>

/* True if the last step has no checkpoint and should have one. */
static bool has_more(const tri_trainer *t) {
  const tri_progress *p = &t->progress;

  return p->step > p->first_step && p->saved_step != p->step &&
         (p->step < t->plan.steps || t->cfg->checkpoint.save_final);
}

/* Collective over world. Writes the line of a step whose evaluation failed. The next start repeats the
 * evaluation. */
static tri_status put_off_evaluation(tri_trainer *t) {
  if (!t->progress.unwritten) return TRI_OK;
  t->progress.unwritten = false;
  t->progress.eval_due = true;
  tri_answers_file_drop(&t->eval.file);
  return tri_report_line(t, t->progress.step, false);
}

static void say_torn(const tri_trainer *t) {
  const tri_progress *p = &t->progress;
  char                newest[64] = "there is none";

  if (p->saved_step >= 0) snprintf(newest, sizeof newest, "that of step %lld", (long long)p->saved_step);
  if (tri_world_of(t)->rank == 0)
    tri_warn("step_torn",
             "step %lld failed between two of its updates. The weights belong to no finished step, so no "
             "checkpoint is written. The newest checkpoint: %s",
             (long long)p->step + 1, newest);
}

/* Collective over world. Saves the last whole step unless the weights are in doubt. Ranks may have failed
 * with different errors, and the doubt of one rank is enough. */
static tri_status keep_step(tri_trainer *t, bool trusted) {
  tri_progress *p = &t->progress;
  int64_t       torn = p->torn, more = has_more(t), doubtful = !trusted || t->saving.given_up;

  t->spans.n_open = 0; /* no span is running any more */
  TRI_TRY(tri_host_max(tri_world_of(t), &doubtful, 1));
  if (doubtful) return TRI_OK;
  TRI_TRY(tri_host_max(tri_world_of(t), &torn, 1));
  TRI_TRY(tri_host_max(tri_world_of(t), &more, 1));
  if (torn) TRI_TRY(tri_save_settle(t));
  if (torn && has_more(t)) say_torn(t);
  if (torn || !more) return TRI_OK;
  tri_log(TRI_LOG_INFO, "the run ends with an error. Step %lld, the last whole one, is saved first.",
          (long long)p->step);
  TRI_TRY(put_off_evaluation(t));
  return tri_save_if_due(t, true);
}

/* True if the error leaves the weights trusted. Other errors may mean wrong weights or a bug, so everything
 * since the last checkpoint is doubtful. */
static bool is_trusted(tri_status st) {
  return st != TRI_ECOMM && st != TRI_EDEVICE && st != TRI_ENUMERIC && st != TRI_EINTERNAL;
}

tri_status tri_save_after_error(tri_trainer *t, tri_status st) {
  bool           together = st != TRI_ECOMM && tri_runtime_all_failed();
  tri_error_kept error;

  tri_error_keep(&error);
  tri_error_clear(); /* a failure from here on has its own message */
  if (together && keep_step(t, is_trusted(st)) != TRI_OK && tri_world_of(t)->rank == 0)
    tri_warn("step_lost", "step %lld is lost: %s", (long long)t->progress.step, tri_error_message());
  if (st == TRI_EREWARD && (!together || tri_world_of(t)->rank == 0))
    tri_run_leave_outage(&t->run, error.message);
  tri_error_put_back(&error);
  return st;
}
