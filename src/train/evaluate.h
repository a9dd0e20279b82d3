/* evaluate.h - evaluations on held-out prompts and lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_EVALUATE_H
#define TRI_TRAIN_EVALUATE_H

#include "train.h"

/* The sums of an evaluation, over all lines or a set's, the same on every rank. figures, failures: by
 * answers; loss, metric: by the loss, whose metrics they are. */
typedef struct tri_eval_sum {
  tri_figures figures;
  int         failures;
  double      loss;
  tri_mean    metric[TRI_ALGO_METRICS];
} tri_eval_sum;

/* Not collective, when the data is open. The sets of t->plan. TRI_EINPUT: one has no lines.
 * TRI_ECONFIG: checkpoint.keep_best names what evaluations here do not have. */
TRI_CHECKED tri_status tri_evaluate_plan(tri_trainer *t);
/* Collective over world. Sums over held-out lines: what the loss says of them, and the rewards
 * and lengths of answers to held-out prompts; *all, and of_set [t->plan.n_eval]. Neither ranks nor batches
 * nor packing change a bit of them where none changes a model's numbers. Where the run is told to stop
 * meanwhile they are not whole, and t->progress.eval_due says so. */
TRI_CHECKED tri_status tri_evaluate_sum(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set);
/* Not collective. The i-th number of an evaluation by its name, without a prefix; NULL: there are
 * no more. */
const char *tri_evaluate_number(const tri_trainer *t, const tri_eval_sum *sum, int i, double *value);
/* Collective over world. These numbers into the metrics, of all lines and of each set that has a
 * name; nothing where t->progress.eval_due. */
TRI_CHECKED tri_status tri_evaluate(tri_trainer *t);
/* evaluate_lines.c. Not collective, when the sets are known. Plans t->eval. */
TRI_CHECKED tri_status tri_evaluate_lines_plan(tri_trainer *t);
/* evaluate_lines.c. Collective over world. What the loss says of t->eval.lines, added to sums as of
 * tri_evaluate_sum; less where the run is told to stop. */
TRI_CHECKED tri_status tri_evaluate_lines(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set);

#endif
