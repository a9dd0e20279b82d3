/* gap.h - the policy's log-probabilities before learning against the sampler's. */
#ifndef TRI_GAP_H
#define TRI_GAP_H

#include "algo/algo.h"

struct tri_trainer;

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

#endif
