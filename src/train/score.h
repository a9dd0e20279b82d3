/* score.h - forward passes before learning, for log-probabilities and values, and the sampler's gap. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SCORE_H
#define TRI_SCORE_H

#include "algo/algo.h"

struct tri_trainer;
struct tri_split;

/* ---- the sampler's gap ---- */

/* The difference between the trainer's and the sampler's log-probabilities of the answers, before any
 * update. */
typedef struct tri_gap {
  double nats; /* largest difference. NaN counts as larger than any number */
  bool   open; /* mini-batch 0 is still to be compared, by the forward passes of the first update */
} tri_gap;

/* Not collective. Compares the policy's log-probabilities of these rows (in->logp), before any update, with
 * the sampler's (r->old_logp). If the sampler gave none, or with run.sampler: rescore, the policy's replace
 * them there. */
void tri_gap_take(const struct tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap);
/* Not collective. While the gap is open, does the same with a training forward of the loaded rows, and then
 * copies the old log-probabilities into *in again. Does nothing once the gap is closed. */
void tri_gap_take_and_refresh(const struct tri_trainer *t, tri_rollout *r, tri_loss_in *in, tri_gap *gap);
/* Collective over world. If the gap is open, closes it and takes the maximum over all ranks. With
 * run.sampler: exact it must be 0. Else the result is TRI_ENUMERIC, or TRI_ECONFIG for a replay. */
TRI_CHECKED tri_status tri_gap_close(const struct tri_trainer *t, tri_gap *gap);

/* ---- before learning ---- */

/* Collective over world. Fills r->ref_logp for the sequences of this rank, or for all sequences if every rank
 * needs them. Does nothing without a reference. */
TRI_CHECKED tri_status tri_score_reference(struct tri_trainer *t, tri_rollout *r);
/* Collective over world. Fills r->ref_logp only for the sequences of this rank's split. Does nothing without
 * a reference. */
TRI_CHECKED tri_status tri_score_reference_split(struct tri_trainer *t, tri_rollout *r,
                                                 const struct tri_split *sp);
/* Collective over world. Computes the old log-probabilities that must come from the policy before the first
 * update, as run.sampler says. These are the ones of mini-batches from 1 on. If KL is part of the reward,
 * they are the ones of all sequences, unless the sampler gave them and run.sampler is not rescore. */
TRI_CHECKED tri_status tri_score_old(struct tri_trainer *t, tri_rollout *r, tri_gap *gap);
/* Collective over world. Fills r->critic.value for all sequences on every rank. Does nothing without a
 * critic. */
TRI_CHECKED tri_status tri_score_values(struct tri_trainer *t, tri_rollout *r);
/* Collective over world. Computes the statistic of mini-batch m for the policy's loss before the update
 * (tri_step_statistic, algo.h). This costs a forward pass of the policy. With KTO the pass runs over the
 * sequences beside the mini-batch. For policy losses it runs over the mini-batch, and the statistic is the
 * quantile of the entropies that algo.top_entropy_quantile asks for. Without a statistic the result is 0, at
 * no cost. */
TRI_CHECKED tri_status tri_score_statistic(struct tri_trainer *t, tri_rollout *r, int64_t m, double *number);
/* Not collective. True if steps spread per-token numbers over ranks and so need t->token_sum. Valid once the
 * sources are open. */
bool tri_score_shares(const struct tri_trainer *t);
/* Not collective. Returns the statistic of the policy's loss if these options need it, else NULL. */
const tri_step_statistic *tri_score_has_statistic(const struct tri_trainer *t);
/* Collective over world. Completes r->old_logp for all sequences on every rank. A value stays NaN if no rank
 * computed it, as for masked answers that were cut. */
TRI_CHECKED tri_status tri_score_share_old(struct tri_trainer *t, tri_rollout *r);

#endif
