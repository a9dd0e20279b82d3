/* judge.h - scores a rank's answers with the run's reward model, in packed batches. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JUDGE_H
#define TRI_JUDGE_H

#include "staging/batch.h"
#include "reward/reward.h"

struct tri_trainer;

enum { TRI_JUDGE_ROWS = 1024 }; /* chosen. Most answers of a batch, as products gain nothing from more */

typedef struct tri_judge {
  tri_staging *staging;    /* NULL if the run has no reward model */
  int64_t      max_tokens; /* most tokens of a batch */
} tri_judge;

/* Not collective. Plans memory for batches of max_tokens. Does nothing without a reward model. */
TRI_CHECKED tri_status tri_judge_open(struct tri_trainer *t, int64_t max_tokens);
/* Does not free the planned memory, as the ledger owns it. A zeroed tri_judge is legal. */
void tri_judge_close(tri_judge *j);
/* Collective over world, for tri_reward_env.judge. Scores this rank's answers at their last tokens into score
 * [n]. If the model stores a mean and a deviation of scores, subtracts the mean and divides by the deviation.
 * Packing does not change any bit. `trainer` is the tri_trainer. */
TRI_CHECKED tri_status tri_judge_score(void *trainer, const tri_answer *a, int n, float *score);

#endif
