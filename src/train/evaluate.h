/* evaluate.h - evaluates the policy on held-out prompts and lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TRAIN_EVALUATE_H
#define TRI_TRAIN_EVALUATE_H

#include "train.h"

/* Sums of an evaluation over all lines or over a set, the same on every rank. Answers give figures and
 * failures. The loss gives loss and metric. */
typedef struct tri_eval_sum {
  tri_figures figures;
  int         failures;
  double      loss;
  tri_mean    metric[TRI_ALGO_METRICS];
} tri_eval_sum;

/* Not collective, once the data is open. Sets the evaluation sets of t->plan. TRI_EINPUT: a set has no lines.
 * TRI_ECONFIG: evaluations do not compute the metric of checkpoint.keep_best. */
TRI_CHECKED tri_status tri_evaluate_plan(tri_trainer *t);
/* Collective over world. Sums over held-out data the loss of lines, and rewards and lengths of answers to
 * prompts, into *all and of_set [t->plan.n_eval]. Ranks, batches and packing change no bit of the sums if
 * they change no number of a model. If the run is told to stop meanwhile, the sums are incomplete and
 * t->progress.eval_due is set. */
TRI_CHECKED tri_status tri_evaluate_sum(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set);
/* Not collective. Returns the name, without a prefix, of the i-th number of an evaluation, and its value.
 * NULL after the last one. */
const char *tri_evaluate_number(const tri_trainer *t, const tri_eval_sum *sum, int i, double *value);
/* Collective over world. Evaluates and adds the numbers to the metrics, for all lines and for each named set.
 * Adds nothing if t->progress.eval_due. */
TRI_CHECKED tri_status tri_evaluate(tri_trainer *t);
/* evaluate_lines.c. Not collective, once the sets are known. Plans the memory of t->eval. */
TRI_CHECKED tri_status tri_evaluate_lines_plan(tri_trainer *t);
/* evaluate_lines.c. Collective over world. Adds the loss and metrics of t->eval.lines to the sums of
 * tri_evaluate_sum. Stops early if the run is told to stop. */
TRI_CHECKED tri_status tri_evaluate_lines(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set);

#endif
