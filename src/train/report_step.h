/* report_step.h - the metrics of a step, and its saved answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_REPORT_STEP_H
#define TRI_TRAIN_REPORT_STEP_H

#include "train.h"

struct tri_gap;

/* What one step adds up over its micro-batches, for each learner. */
typedef struct tri_tally {
  double   began_s; /* the step */
  int64_t  updates; /* of each learner; without those of mini-batches that have no token with loss */
  int64_t  lost;    /* updates skipped for want of answers, of all learners */
  tri_mean entropy; /* of the update that goes on, nats; where a coefficient follows it */
  struct {
    double   loss;
    tri_mean metric[TRI_ALGO_METRICS];
  } of[TRI_ROLE_COUNT];
} tri_tally;

/* Collective over world. Into the metrics: what the finished step learned, its rollout, time
 * and memory. The rollout becomes a file where rollout.save_every wants it. */
TRI_CHECKED tri_status tri_report_step(tri_trainer *t, tri_rollout *r, const tri_tally *sum,
                                       const struct tri_gap *gap);
/* Collective over world, all three; nothing without eval.save. The answers of an evaluation become a file:
 * all those put between begin and end, each set of prompts under its name (NULL: there is but one). Where the
 * evaluation is given up, tri_answers_file_drop(&t->eval.file). */
TRI_CHECKED tri_status tri_report_eval_begin(tri_trainer *t);
TRI_CHECKED tri_status tri_report_eval_put(tri_trainer *t, const tri_rollout *r, const char *set);
TRI_CHECKED tri_status tri_report_eval_end(tri_trainer *t);
/* Not collective. A step begins, for what the next call reports: waits, what communicators carry. */
void tri_report_begin(tri_trainer *t);
/* Not collective. Time since began_s, so many tokens, memory, what communicators carried. mem_gpu_used_bytes
 * is what the driver says: its own context and other programs' memory are in it. */
TRI_CHECKED tri_status tri_report_resources(tri_trainer *t, double began_s, int64_t tokens);
/* Collective over world. The step's metrics as its line and on the screen, with what warnings are due; again:
 * what was missing from the line. On a full disk it waits, and the run goes on. */
TRI_CHECKED tri_status tri_report_line(tri_trainer *t, int64_t step, bool again);
/* Not collective; rank 0. The output folder, as tri_run_check_folder; metrics follow it. */
TRI_CHECKED tri_status tri_report_folder(tri_trainer *t);
/* Not collective. Hands st back. Where a learner's loss of the loaded sequences `seq` of r is
 * TRI_ENUMERIC, right after its forward, its message begins with the layer and the sample. */
TRI_CHECKED tri_status tri_report_nonfinite(tri_trainer *t, const tri_learner *l, const tri_rollout *r,
                                            const int *seq, const tri_batch *b, tri_status st);
/* Not collective. Adds what a learner's loss gave to *sum. */
void tri_tally_add(const tri_trainer *t, tri_tally *sum, tri_role role, const tri_loss_out *out);
/* Collective over world. An update is done: it is counted, and moves coefficients of t->opt where the policy
 * learned. */
TRI_CHECKED tri_status tri_tally_update(tri_trainer *t, tri_tally *sum);
/* Collective over world. Means of the further numbers that rewards replied since the last call, as
 * reward_<name>_<field> under `prefix`. */
TRI_CHECKED tri_status tri_report_extras(tri_trainer *t, const char *prefix);

#endif
