/* score.h - what models say of a step's sequences before it is learned: log-probabilities, values; the
 * policy's against the sampler's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SCORE_H
#define TRI_SCORE_H

#include "algo/algo.h"

struct tri_trainer;
struct tri_split;

/* ---- the sampler's gap ---- */

/* How far the trainer's log-probabilities of the answers were from the sampler's, before any update. */
typedef struct tri_gap {
  double nats; /* the largest; NaN counts as larger than anything */
  bool   open; /* those of mini-batch 0 are still to be met, by the forwards of the first update */
} tri_gap;

/* Not collective. What the policy says of these rows (in->logp) before any update meets what the sampler said
 * of them; r->old_logp is the outcome. */
void tri_gap_take(const struct tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap);
/* Not collective. The same by a training forward of the loaded rows, while the gap is open; *in has the
 * outcome. */
void tri_gap_meet(const struct tri_trainer *t, tri_rollout *r, tri_loss_in *in, tri_gap *gap);
/* Collective over world. If it is open: the largest of all ranks, which run.sampler: exact wants to be 0.
 * TRI_ENUMERIC, or TRI_ECONFIG of a replay, where it is not. */
TRI_CHECKED tri_status tri_gap_close(const struct tri_trainer *t, tri_gap *gap);

/* ---- before learning ---- */

/* Collective over world. Fills r->ref_logp of the sequences this rank learns from, of all where every rank
 * needs them. Without a reference: nothing. */
TRI_CHECKED tri_status tri_score_reference(struct tri_trainer *t, tri_rollout *r);
/* Collective over world. Fills r->ref_logp of the sequences of this rank's split, and of no others. Without a
 * reference: nothing. */
TRI_CHECKED tri_status tri_score_reference_split(struct tri_trainer *t, tri_rollout *r,
                                                 const struct tri_split *sp);
/* Collective over world. Old log-probabilities as run.sampler says, wherever the policy must be asked before
 * the first update: of mini-batches 1 and on; of all sequences where KL belongs to the reward and they did
 * not come with the answers or are rescored. */
TRI_CHECKED tri_status tri_score_old(struct tri_trainer *t, tri_rollout *r, tri_gap *gap);
/* Collective over world. Fills r->critic.value of all sequences on every rank. Without a critic: nothing. */
TRI_CHECKED tri_status tri_score_values(struct tri_trainer *t, tri_rollout *r);
/* Collective over world. What the loss of the policy must know of mini-batch m before its update
 * (tri_step_statistic, algo.h); 0 where it has no statistic. */
TRI_CHECKED tri_status tri_score_statistic(struct tri_trainer *t, tri_rollout *r, int64_t m, double *number);
/* Not collective. Whether steps spread numbers of tokens over ranks, for which t->token_sum is; from when the
 * sources are open. */
bool tri_score_shares(const struct tri_trainer *t);
/* Not collective. The statistic of the policy's loss, if these options want it; else NULL. */
const tri_step_statistic *tri_score_has_statistic(const struct tri_trainer *t);
/* Collective over world. r->old_logp of all sequences on every rank; NaN where nobody asked, as of answers
 * that were cut and are masked. */
TRI_CHECKED tri_status tri_score_share_old(struct tri_trainer *t, tri_rollout *r);

#endif
