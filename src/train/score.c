/* score.c - runs the forward passes before learning, for log-probabilities and values, and measures the
 * sampler's gap. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "score.h"

#include "batch_source.h"
#include "train.h"

#include <math.h>
#include <string.h>

/* ---- the sampler's gap ---- */

/* Raises the gap to this difference if it is larger. NaN counts as larger than any number. */
static void widen(tri_gap *gap, float sampler, float trainer) {
  double nats = fabs((double)sampler - (double)trainer);

  if (isnan(nats) || nats > gap->nats) gap->nats = nats;
}

/* Compares the sampler's log-probabilities of these rows with the trainer's, before any update. If the
 * sampler gave none (NaN), or with rescore, the trainer's number becomes the old one. */
void tri_gap_take(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap) {
  for (int64_t k = 0; k < in->n; k++) {
    float *old = &r->old_logp[in->origin[k]];
    if (r->roll_logp) r->roll_logp[in->origin[k]] = isnan(*old) ? in->logp[k] : *old;
    if (!isnan(*old)) widen(gap, *old, in->logp[k]);
    if (isnan(*old) || t->sampling.mode == TRI_CONFIG_RESCORE) *old = in->logp[k];
  }
}

void tri_gap_take_and_refresh(const tri_trainer *t, tri_rollout *r, tri_loss_in *in, tri_gap *gap) {
  if (!gap->open) return;
  tri_gap_take(t, r, in, gap);
  tri_batch_refresh(t->staging, in);
}

tri_status tri_gap_close(const tri_trainer *t, tri_gap *gap) {
  int64_t bits = 0;

  if (!gap->open) return TRI_OK;
  gap->open = false;
  /* Maximum over all ranks. Non-negative doubles have the same order as their bits, and NaN is above all. */
  memcpy(&bits, &gap->nats, sizeof bits);
  TRI_TRY(tri_host_max(tri_world_of(t), &bits, 1));
  memcpy(&gap->nats, &bits, sizeof bits);
  if (t->sampling.mode != TRI_CONFIG_EXACT || gap->nats == 0) return TRI_OK;
  TRI_FAIL(
      t->source->gap_advice ? TRI_ECONFIG : TRI_ENUMERIC,
      "step %lld: the gap between %s and trainer log-probabilities is %g nats, but must be 0 with "
      "run.sampler: exact. %s",
      (long long)t->progress.step + 1, t->source->gap_from, gap->nats,
      t->source->gap_advice
          ? t->source->gap_advice
          : "trireme doctor finds ranks with processors of other arithmetic. Or give run.sampler: rescore.");
}

/* ---- forward only ---- */

/* Stores the rows of one forward pass. Only the taker of the gap uses `gap`. */
typedef void (*taker)(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap);

static void take_reference(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap) {
  (void)t, (void)gap;
  for (int64_t k = 0; k < in->n; k++) r->ref_logp[in->origin[k]] = in->logp[k];
}

static void take_value(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap) {
  (void)t, (void)gap;
  for (int64_t k = 0; k < in->n; k++) r->critic.value[in->origin[k]] = in->value[k];
}

static void take_seen(const tri_trainer *t, tri_rollout *r, const tri_loss_in *in, tri_gap *gap) {
  const float *from = tri_score_has_statistic(t)->entropy ? in->ent : in->logp;

  (void)gap;
  for (int64_t k = 0; k < in->n; k++) r->seen[in->origin[k]] = from[k];
}

/* Checks a frozen model's numbers. A number that is not finite would count as 0 in a sum over ranks. For a
 * model that learns (frozen NULL), its loss reports more. */
static tri_status check_finite(const tri_trainer *t, const char *frozen, const tri_rollout *r,
                               const tri_loss_in *in) {
  const float *x = in->logp ? in->logp : in->value;
  int          q = 0;

  for (int64_t k = 0; k < in->n && frozen; k++) {
    if (isfinite(x[k])) continue;
    while (r->start[q + 1] <= in->origin[k]) q++;
    TRI_FAIL(
        TRI_ENUMERIC,
        "step %lld: the %s gives %g to token %lld of answer %d to prompt_id %lld, so its weights are damaged",
        (long long)t->progress.step + 1, frozen, (double)x[k],
        (long long)(in->origin[k] - r->start[q] - r->prompt_len[q]), (int)r->sample[q],
        (long long)r->prompt_id[q]);
  }
  return TRI_OK;
}

static tri_status score_micro(tri_trainer *t, tri_model *m, const char *frozen, tri_rollout *r,
                              const tri_split *sp, int i, tri_loss_in *in) {
  const int   *seq = sp->seq + sp->first[i];
  tri_batch    b;
  tri_rows_out rows;
  tri_loss_out unused;

  TRI_TRY(tri_batch_load(t->staging, r, seq, sp->first[i + 1] - sp->first[i], t->se->stream, &b));
  TRI_TRY(tri_model_forward(m, &b, false, t->sampling.inv_temperature, &rows, t->se->stream));
  TRI_TRY(tri_batch_fetch(t->staging, &rows, NULL, t->se->stream, in, &unused));
  return check_finite(t, frozen, r, in);
}

/* A range of a step's mini-batches. The sequences beside the step have the numbers after its own
 * (tri_step_split). */
typedef struct span_of {
  int64_t from, to;
} span_of;

static int64_t beside(const tri_trainer *t) { return t->source->beside ? t->plan.mini_batches : 0; }
static span_of all_of(const tri_trainer *t) { return (span_of){0, t->plan.mini_batches + beside(t)}; }

/* Collective over the parameter scope. Runs one split of the rollout through the model. `frozen` is the
 * model's name if it does not learn, else NULL. */
static tri_status score_split(tri_trainer *t, tri_model *m, const char *frozen, tri_rollout *r,
                              const tri_split *sp, taker take, tri_gap *gap) {
  for (int i = 0; i < sp->n_micro; i++) {
    tri_loss_in in;
    TRI_TRY(score_micro(t, m, frozen, r, sp, i, &in));
    take(t, r, &in, gap);
  }
  return TRI_OK;
}

/* Collective over world. Runs a range of mini-batches through the model, as score_split does. */
static tri_status score(tri_trainer *t, tri_model *m, const char *frozen, tri_rollout *r, span_of which,
                        taker take, tri_gap *gap) {
  tri_span span = tri_span_begin(&t->spans, "score", 0);

  for (int64_t batch = which.from; batch < which.to; batch++) {
    tri_split  sp;
    tri_status st;
    TRI_TRY(tri_step_split(t, r, batch, &sp));
    st = score_split(t, m, frozen, r, &sp, take, gap);
    tri_split_free(&sp);
    TRI_TRY(st);
  }
  tri_span_end(&t->spans, &span);
  return TRI_OK;
}

/* ---- on every rank ---- */

/* Spreads per-token numbers of whole sequences to all ranks by a sum. Each number comes from the rank that
 * has its sequence in its split, and is 0 on the other ranks, even if they hold the sampler's number. Numbers
 * of sequences outside the range become 0. A number that nobody computed (NaN) becomes 0, or stays NaN if
 * `unknown` is infinite. */
static tri_status share(tri_trainer *t, const tri_rollout *r, span_of which, double unknown, float *number) {
  tri_status st = TRI_OK;
  double    *x = t->token_sum;

  memset(x, 0, (size_t)r->n_tok * sizeof *x);
  for (int64_t m = which.from; m < which.to && st == TRI_OK; m++) {
    tri_split sp;
    st = tri_step_split(t, r, m, &sp);
    for (int k = 0; st == TRI_OK && k < sp.first[sp.n_micro]; k++)
      for (int64_t i = r->start[sp.seq[k]]; i < r->start[sp.seq[k] + 1]; i++)
        x[i] = isnan(number[i]) ? unknown : (double)number[i];
    if (st == TRI_OK) tri_split_free(&sp);
  }
  if (st == TRI_OK) st = tri_host_sum(tri_world_of(t), x, r->n_tok);
  for (int64_t i = 0; i < r->n_tok && st == TRI_OK; i++)
    number[i] = isinf(unknown) && x[i] == unknown ? NAN : (float)x[i];
  return st;
}

/* True if every rank holds every old log-probability, because they came with the answers and are kept. */
static bool knows_old(const tri_trainer *t, const tri_rollout *r) {
  return r->has_logp && t->sampling.mode != TRI_CONFIG_RESCORE;
}

tri_status tri_score_share_old(tri_trainer *t, tri_rollout *r) {
  return knows_old(t, r) ? TRI_OK : share(t, r, all_of(t), INFINITY, r->old_logp);
}

/* True if the reward includes KL. The reward of a whole sequence then needs log-probabilities before
 * advantages can be computed. */
static bool kl_in_reward(const tri_trainer *t) {
  return tri_has_answers(t) && tri_has_reference(t) && t->opt.kl_where == TRI_KL_IN_REWARD;
}

const tri_step_statistic *tri_score_has_statistic(const tri_trainer *t) {
  const tri_step_statistic *s = t->algo->loss->statistic;

  return s && s->wanted(&t->opt) ? s : NULL;
}

bool tri_score_shares(const tri_trainer *t) {
  return kl_in_reward(t) || tri_has_critic(t) || tri_score_has_statistic(t) || t->cfg->rollout.save_every > 0;
}

/* ---- before learning ---- */

/* Switches the reference on or off. It may be the policy without its adapters. */
static tri_model *begin_reference(tri_trainer *t, bool begins) {
  bool       is_base = !t->learner[TRI_REFERENCE].source;
  tri_model *m = t->learner[is_base ? TRI_POLICY : TRI_REFERENCE].model;

  if (is_base) tri_model_adapt(m, !begins);
  return m;
}

tri_status tri_score_reference_split(tri_trainer *t, tri_rollout *r, const tri_split *sp) {
  tri_model *m;

  if (!tri_has_reference(t)) return TRI_OK;
  m = begin_reference(t, true);
  TRI_TRY(score_split(t, m, t->learner[TRI_REFERENCE].name, r, sp, take_reference, NULL));
  (void)begin_reference(t, false);
  return TRI_OK;
}

tri_status tri_score_reference(tri_trainer *t, tri_rollout *r) {
  tri_model *m;
  tri_span   span;

  if (!tri_has_reference(t)) return TRI_OK;
  span = tri_span_begin(&t->spans, "reference", TRI_SPAN_TIMED);
  m = begin_reference(t, true);
  TRI_TRY(score(t, m, t->learner[TRI_REFERENCE].name, r, all_of(t), take_reference, NULL));
  (void)begin_reference(t, false);
  tri_span_end(&t->spans, &span);
  return kl_in_reward(t) || t->source->beside ? share(t, r, all_of(t), 0, r->ref_logp) : TRI_OK;
}

tri_status tri_score_values(tri_trainer *t, tri_rollout *r) {
  tri_span span;

  if (!tri_has_critic(t)) return TRI_OK;
  span = tri_span_begin(&t->spans, "critic", TRI_SPAN_TIMED);
  TRI_TRY(score(t, t->learner[TRI_CRITIC].model, NULL, r, all_of(t), take_value, NULL));
  tri_span_end(&t->spans, &span);
  return share(t, r, all_of(t), 0, r->critic.value);
}

tri_status tri_score_old(tri_trainer *t, tri_rollout *r, tri_gap *gap) {
  tri_model *m = t->learner[TRI_POLICY].model;

  *gap = (tri_gap){.open = tri_has_answers(t)};
  if (!gap->open) return TRI_OK;
  if (kl_in_reward(t) && !knows_old(t, r)) {
    TRI_TRY(score(t, m, NULL, r, all_of(t), tri_gap_take, gap));
    TRI_TRY(share(t, r, all_of(t), 0, r->old_logp));
    return tri_gap_close(t, gap);
  }
  return t->plan.mini_batches > 1
             ? score(t, m, NULL, r, (span_of){1, t->plan.mini_batches}, tri_gap_take, gap)
             : TRI_OK;
}

tri_status tri_score_statistic(tri_trainer *t, tri_rollout *r, int64_t m, double *number) {
  const tri_step_statistic *s = tri_score_has_statistic(t);
  int64_t                   at = s && s->beside ? m + t->plan.mini_batches : m, n = t->plan.split.n;

  *number = 0;
  if (!s) return TRI_OK;
  TRI_TRY(score(t, t->learner[TRI_POLICY].model, NULL, r, (span_of){at, at + 1}, take_seen, NULL));
  TRI_TRY(share(t, r, (span_of){at, at + 1}, 0, r->seen));
  *number = s->number(&t->opt, r, (int)(at * n), (int)((at + 1) * n));
  return TRI_OK;
}
