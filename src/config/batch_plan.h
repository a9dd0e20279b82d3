/* batch_plan.h - computes batch sizes from samples, micro-batches, accumulation and ranks. Pure. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BATCH_PLAN_H
#define TRI_BATCH_PLAN_H

#include "base/error.h"

/* The numbers the user gave. 0 means not given. */
typedef struct tri_batch_request {
  int64_t ranks;                       /* every rank has its own data, >= 1 */
  int64_t train_batch_size;            /* samples of one optimizer step, over all ranks */
  int64_t micro_batch_size;            /* samples of one micro-batch on one rank */
  int64_t gradient_accumulation_steps; /* micro-batches of each rank before an optimizer step */
  int64_t max_tokens_per_gpu;          /* most tokens of a micro-batch, which is then packed by tokens */
  int64_t rollout_batch_size;          /* prompts of one rollout, over all ranks. 0 without rollouts */
  int64_t num_generations;             /* samples per prompt. 0 without rollouts */
  int64_t passes;                      /* algo.ppo_epochs, the passes over a rollout. 0 means one */
} tri_batch_request;

typedef struct tri_batch_plan {
  int64_t train_batch_size;            /* samples */
  int64_t micro_batch_size;            /* samples. 0 if packed by tokens */
  int64_t gradient_accumulation_steps; /* micro-batches. 0 if packed by tokens */
  int64_t rollout_samples;             /* rollout_batch_size x num_generations. 0 without rollouts */
  int64_t steps_per_rollout;           /* optimizer steps of all passes over a rollout. 0 without rollouts */
  char    equation[640];               /* the lines for the start screen, separated by \n, without one at the
                                        * end */
} tri_batch_plan;

/* Pure. Solves train_batch_size = micro_batch_size x gradient_accumulation_steps x ranks. Any two of the
 * three give the third. If more is open, train_batch_size is all samples of a rollout and accumulation is 1.
 * With max_tokens_per_gpu nothing needs to divide. Returns TRI_ECONFIG if the numbers disagree. The message
 * has the equation and the nearest choices that hold. */
TRI_CHECKED tri_status tri_batch_plan_make(const tri_batch_request *request, tri_batch_plan *out);

#endif
