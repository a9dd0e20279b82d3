/* report_step.h - reports the metrics of a step and saves its answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_REPORT_STEP_H
#define TRI_TRAIN_REPORT_STEP_H

#include "train.h"

struct tri_gap;

/* Sums over the micro-batches of one step, for each learner. */
typedef struct tri_tally {
  double   began_s; /* start time of the step */
  int64_t  updates; /* updates per learner, without mini-batches that have no token with loss */
  int64_t  lost;    /* updates of all learners skipped for lack of answers */
  tri_mean entropy; /* nats, for the current update, if a coefficient follows the entropy */
  struct {
    double   loss;
    tri_mean metric[TRI_ALGO_METRICS];
  } of[TRI_ROLE_COUNT];
} tri_tally;

/* Collective over world. Adds to the metrics the learning, rollout, time and memory of the finished step.
 * Saves the rollout as a file if rollout.save_every asks for it. */
TRI_CHECKED tri_status tri_report_step(tri_trainer *t, tri_rollout *r, const tri_tally *sum,
                                       const struct tri_gap *gap);
/* Collective over world, all three. They do nothing without eval.save. The answers put between begin and end
 * become one file, each set of prompts under its name, or NULL if there is only one. An interrupted
 * evaluation calls tri_answers_file_drop(&t->eval.file). */
TRI_CHECKED tri_status tri_report_eval_begin(tri_trainer *t);
TRI_CHECKED tri_status tri_report_eval_put(tri_trainer *t, const tri_rollout *r, const char *set);
TRI_CHECKED tri_status tri_report_eval_end(tri_trainer *t);
/* Not collective. Starts the counts of a step for the next call, namely waits and traffic of
 * communicators. */
void tri_report_begin(tri_trainer *t);
/* Not collective. Reports time since began_s, rate for this many tokens, memory, and traffic of
 * communicators. mem_gpu_used_bytes comes from the driver, so it includes the driver's context and other
 * programs. */
TRI_CHECKED tri_status tri_report_resources(tri_trainer *t, double began_s, int64_t tokens);
/* Collective over world. Writes the step's metrics as a line and on the screen, with due warnings. `again`
 * only adds missing numbers to an existing line. On a full disk the line waits, and the run continues. */
TRI_CHECKED tri_status tri_report_line(tri_trainer *t, int64_t step, bool again);
/* Not collective, on rank 0. Checks the output folder as tri_run_check_folder does. Metrics follow a moved
 * folder. */
TRI_CHECKED tri_status tri_report_folder(tri_trainer *t);
/* Not collective. Returns st. Call it right after a learner's forward of the loaded sequences `seq` of r. If
 * st is TRI_ENUMERIC, the message then begins with the layer and the sample. */
TRI_CHECKED tri_status tri_report_nonfinite(tri_trainer *t, const tri_learner *l, const tri_rollout *r,
                                            const int *seq, const tri_batch *b, tri_status st);
/* Not collective. Adds the outputs of a learner's loss to *sum. */
void tri_tally_add(const tri_trainer *t, tri_tally *sum, tri_role role, const tri_loss_out *out);
/* Collective over world. Counts a finished update. If the policy learned, adjusts adaptive coefficients of
 * t->opt. */
TRI_CHECKED tri_status tri_tally_update(tri_trainer *t, tri_tally *sum);
/* Collective over world. Reports means of the extra numbers in replies of rewards since the last call, as
 * reward_<name>_<field> under `prefix`. */
TRI_CHECKED tri_status tri_report_extras(tri_trainer *t, const char *prefix);

#endif
