/* gap.c - the policy's log-probabilities before learning against the sampler's. */
#include "gap.h"

#include "supply.h"
#include "train.h"

#include <math.h>
#include <string.h>

/* The largest; NaN counts as larger than anything. */
static void widen(tri_gap *gap, float sampler, float trainer) {
  double nats = fabs((double)sampler - (double)trainer);

  if (isnan(nats) || nats > gap->nats) gap->nats = nats;
}

/* What the sampler said of these rows against what the trainer says, before any update. Said nothing (NaN),
 * or not to be trusted: the trainer's number is the old one. */
void tri_gap_take(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap) {
  for (int64_t k = 0; k < in->n; k++) {
    float *old = &r->old_logp[in->origin[k]];
    if (r->roll_logp) r->roll_logp[in->origin[k]] = isnan(*old) ? in->logp[k] : *old;
    if (!isnan(*old)) widen(gap, *old, in->logp[k]);
    if (isnan(*old) || t->sampling.mode == TRI_CONFIG_RESCORE) *old = in->logp[k];
  }
}

void tri_gap_meet(const tri_trainer *t, tri_rollout *r, tri_loss_in *in, tri_gap *gap) {
  if (!gap->open) return;
  tri_gap_take(t, r, in, gap);
  tri_batch_refresh(t->feed, in);
}

tri_status tri_gap_close(const tri_trainer *t, tri_gap *gap) {
  int64_t bits = 0;

  if (!gap->open) return TRI_OK;
  gap->open = false;
  /* The largest of all ranks: non-negative doubles order like their bits. NaN is above all. */
  memcpy(&bits, &gap->nats, sizeof bits);
  TRI_TRY(tri_host_max(tri_world_of(t), &bits, 1));
  memcpy(&gap->nats, &bits, sizeof bits);
  if (t->sampling.mode != TRI_CONFIG_EXACT || gap->nats == 0) return TRI_OK;
  TRI_FAIL(t->supply->gap_advice ? TRI_ECONFIG : TRI_ENUMERIC,
           "step %lld: the gap between %s and trainer log-probabilities is %g nats, and run.sampler: exact "
           "promises 0%s%s",
           (long long)t->progress.step + 1, t->supply->gap_from, gap->nats, t->supply->gap_advice ? "; " : "",
           t->supply->gap_advice ? t->supply->gap_advice : "");
}
