/* gap.c - log-probabilities before learning: the reference's, and the policy's own against the sampler's. */
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
static void meet(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap) {
  for (int64_t k = 0; k < in->n; k++) {
    float *old = &r->old_logp[in->origin[k]];
    if (!isnan(*old)) widen(gap, *old, in->logp[k]);
    if (isnan(*old) || t->sampling.mode == TRI_CONFIG_RESCORE) *old = in->logp[k];
  }
}

void tri_gap_meet(const tri_trainer *t, tri_rollout *r, tri_loss_in *in, tri_gap *gap) {
  if (!gap->open) return;
  meet(t, r, in, gap);
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

/* ---- forward only ---- */

/* What becomes of one forward's rows. */
typedef void (*taker)(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap);

static void take_reference(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap) {
  (void)t, (void)gap;
  for (int64_t k = 0; k < in->n; k++) r->ref_logp[in->origin[k]] = in->logp[k];
}

static tri_status score_micro(tri_trainer *t, tri_model *m, tri_rollout *r, const tri_split *sp, int i,
                              tri_loss_in *in) {
  const int   *seq = sp->seq + sp->first[i];
  tri_batch    b;
  tri_rows_out rows;
  tri_loss_out unused;

  TRI_TRY(tri_batch_load(t->feed, r, seq, sp->first[i + 1] - sp->first[i], t->se->stream, &b));
  TRI_TRY(tri_model_forward(m, &b, false, t->sampling.inv_temperature, &rows, t->se->stream));
  return tri_batch_fetch(t->feed, &rows, NULL, t->se->stream, in, &unused);
}

/* Collective over world. Mini-batches from, from + 1, ... of the rollout through the model. */
static tri_status score(tri_trainer *t, tri_model *m, tri_rollout *r, int64_t from, taker take,
                        tri_gap *gap) {
  tri_span span = tri_span_begin(&t->spans, "score", 0);

  for (int64_t batch = from; batch < t->plan.mini_batches; batch++) {
    tri_split   sp;
    tri_loss_in in;
    tri_status  st = TRI_OK;
    TRI_TRY(tri_step_split(t, r, batch, &sp));
    for (int i = 0; i < sp.n_micro && st == TRI_OK; i++) {
      st = score_micro(t, m, r, &sp, i, &in);
      if (st == TRI_OK) take(t, r, &in, gap);
    }
    tri_split_free(&sp);
    TRI_TRY(st);
  }
  tri_span_end(&t->spans, &span);
  return TRI_OK;
}

/* ---- on every rank ---- */

/* Numbers of whole sequences everywhere: each comes from the rank that scored it, which is the one that has
 * it in its split, and is 0 on the others (they may hold the sampler's number), so that a sum spreads it. */
static tri_status share(tri_trainer *t, const tri_rollout *r, float *logp) {
  tri_status st = TRI_OK;
  double    *x = t->token_sum;

  memset(x, 0, (size_t)r->n_tok * sizeof *x);
  for (int64_t m = 0; m < t->plan.mini_batches && st == TRI_OK; m++) {
    tri_split sp;
    st = tri_step_split(t, r, m, &sp);
    for (int k = 0; st == TRI_OK && k < sp.first[sp.n_micro]; k++)
      for (int64_t i = r->start[sp.seq[k]]; i < r->start[sp.seq[k] + 1]; i++)
        x[i] = isnan(logp[i]) ? 0.0 : (double)logp[i];
    if (st == TRI_OK) tri_split_free(&sp);
  }
  if (st == TRI_OK) st = tri_host_sum(tri_world_of(t), x, r->n_tok);
  for (int64_t i = 0; i < r->n_tok && st == TRI_OK; i++) logp[i] = (float)x[i];
  return st;
}

/* Every rank holds every old log-probability: they came with the answers and are kept. */
static bool knows_old(const tri_trainer *t, const tri_rollout *r) {
  return r->has_logp && t->sampling.mode != TRI_CONFIG_RESCORE;
}

tri_status tri_gap_share(tri_trainer *t, tri_rollout *r) {
  return knows_old(t, r) ? TRI_OK : share(t, r, r->old_logp);
}

/* The reward of a whole sequence wants log-probabilities before there is an advantage to learn from. */
static bool kl_in_reward(const tri_trainer *t) {
  return tri_has_reference(t) && t->cfg->algo.opt.kl_where == TRI_KL_IN_REWARD;
}

bool tri_gap_shares(const tri_trainer *t) { return kl_in_reward(t) || t->cfg->rollout.save_every > 0; }

/* ---- before learning ---- */

tri_status tri_gap_score_reference(tri_trainer *t, tri_rollout *r) {
  tri_model *m = t->learner[TRI_REFERENCE].model;
  tri_span   span;

  if (!tri_has_reference(t)) return TRI_OK;
  span = tri_span_begin(&t->spans, "reference", TRI_SPAN_TIMED);
  TRI_TRY(score(t, m, r, 0, take_reference, NULL));
  tri_span_end(&t->spans, &span);
  return kl_in_reward(t) ? share(t, r, r->ref_logp) : TRI_OK;
}

tri_status tri_gap_score_old(tri_trainer *t, tri_rollout *r, tri_gap *gap) {
  tri_model *m = t->learner[TRI_POLICY].model;

  *gap = (tri_gap){.open = tri_has_answers(t)};
  if (!gap->open) return TRI_OK;
  if (kl_in_reward(t) && !knows_old(t, r)) {
    TRI_TRY(score(t, m, r, 0, meet, gap));
    TRI_TRY(share(t, r, r->old_logp));
    return tri_gap_close(t, gap);
  }
  return t->plan.mini_batches > 1 ? score(t, m, r, 1, meet, gap) : TRI_OK;
}
