/* gap.h - log-probabilities before learning: the reference's, and the policy's own against the sampler's. */
#ifndef TRI_GAP_H
#define TRI_GAP_H

#include "algo/algo.h"

struct tri_trainer;

/* How far the trainer's log-probabilities of the answers were from the sampler's, before any update. */
typedef struct tri_gap {
  double nats; /* the largest; NaN counts as larger than anything */
  bool   open; /* those of mini-batch 0 are still to be met, by the forwards of the first update */
} tri_gap;

/* Collective over world. Fills r->ref_logp of the sequences this rank learns from, of all where KL belongs to
 * the reward. Without a reference: nothing. */
TRI_CHECKED tri_status tri_gap_score_reference(struct tri_trainer *t, tri_rollout *r);
/* Collective over world. Old log-probabilities as run.sampler says, wherever the policy must be asked before
 * the first update: of mini-batches 1 and on; of all sequences where KL belongs to the reward and they did
 * not come with the answers or are rescored. */
TRI_CHECKED tri_status tri_gap_score_old(struct tri_trainer *t, tri_rollout *r, tri_gap *gap);
/* Not collective. While the gap is open: what a training forward of the loaded rows says (in->logp) meets
 * what the sampler said of them, and *in has the outcome. */
void tri_gap_meet(const struct tri_trainer *t, tri_rollout *r, tri_loss_in *in, tri_gap *gap);
/* Collective over world. If it is open: the largest of all ranks, which run.sampler: exact wants to be 0.
 * TRI_ENUMERIC, or TRI_ECONFIG of a replay, where it is not. */
TRI_CHECKED tri_status tri_gap_close(const struct tri_trainer *t, tri_gap *gap);
/* Not collective. Whether steps spread log-probabilities over ranks, for which t->token_sum is; from when the
 * sources are open. */
bool tri_gap_shares(const struct tri_trainer *t);
/* Collective over world. r->old_logp of all sequences on every rank. */
TRI_CHECKED tri_status tri_gap_share(struct tri_trainer *t, tri_rollout *r);

#endif
