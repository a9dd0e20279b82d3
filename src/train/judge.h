/* judge.h - the reward model of a run: scores of a rank's answers, in packed batches. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JUDGE_H
#define TRI_JUDGE_H

#include "staging/batch.h"
#include "reward/reward.h"

struct tri_trainer;

enum { TRI_JUDGE_ROWS = 1024 }; /* chosen: answers of a batch; products gain nothing from more */

typedef struct tri_judge {
  tri_staging *staging;    /* NULL: the run has no reward model */
  int64_t      max_tokens; /* of a batch */
} tri_judge;

/* Not collective. Plans memory for batches of max_tokens; without a reward model nothing. */
TRI_CHECKED tri_status tri_judge_open(struct tri_trainer *t, int64_t max_tokens);
/* The planned memory is the ledger's. A zeroed one is legal. */
void tri_judge_close(tri_judge *j);
/* Collective over world, for tri_reward_env.judge: score [n] of this rank's answers, read at their last
 * tokens, less the model's stored mean, over its stored deviation, where it has them. Any packing gives the
 * same bits. trainer: the tri_trainer. */
TRI_CHECKED tri_status tri_judge_score(void *trainer, const tri_answer *a, int n, float *score);

#endif
