/* batch_plan.h - the arithmetic of batches: samples, micro-batches, accumulation, ranks. Pure. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BATCH_PLAN_H
#define TRI_BATCH_PLAN_H

#include "base/error.h"

/* What the user gave; 0: not given. */
typedef struct tri_batch_request {
  int64_t ranks;                       /* every rank has its own data, >= 1 */
  int64_t train_batch_size;            /* samples of one optimizer step, over all ranks */
  int64_t micro_batch_size;            /* samples of one pass on one rank */
  int64_t gradient_accumulation_steps; /* passes of each rank before an optimizer step */
  int64_t max_tokens_per_gpu;          /* tokens of one pass: passes are packed by tokens */
  int64_t rollout_batch_size;          /* prompts of one rollout, over all ranks; 0: no rollouts */
  int64_t num_generations;             /* samples per prompt; 0: no rollouts */
  int64_t passes;                      /* algo.ppo_epochs: passes over a rollout; 0: one */
} tri_batch_request;

typedef struct tri_batch_plan {
  int64_t train_batch_size;            /* samples */
  int64_t micro_batch_size;            /* samples; 0: packed by tokens */
  int64_t gradient_accumulation_steps; /* passes; 0: packed by tokens */
  int64_t rollout_samples;             /* rollout_batch_size x num_generations; 0: no rollouts */
  int64_t steps_per_rollout;           /* optimizer steps of all passes over a rollout; 0: no rollouts */
  char    equation[640];               /* the lines for the start screen, separated by \n, none at the end */
} tri_batch_plan;

/* Pure. train_batch_size = micro_batch_size x gradient_accumulation_steps x ranks; any two give the third. Of
 * what is still open, train_batch_size is all samples of a rollout, and accumulation is 1. With
 * max_tokens_per_gpu nothing needs to divide. TRI_ECONFIG: the numbers disagree, with the equation and the
 * nearest choices that hold. */
TRI_CHECKED tri_status tri_batch_plan_make(const tri_batch_request *request, tri_batch_plan *out);

#endif
