/* train.c - the loop: generate, score, learn. Read train_step from top to bottom. */
#include "train.h"

#include <math.h>
#include <string.h>

/* What one step adds up over its micro-batches. */
typedef struct tally {
  double   loss, gap; /* sum over tokens; largest */
  tri_mean metric[TRI_ALGO_METRICS];
  int64_t  updates;
} tally;

static tri_trace *trace_of(const tri_trainer *t) { return t->se->device->trace; } /* mostly NULL */

/* Which sequences this rank handles in mini-batch m of the step. A replay keeps its groups together. */
static tri_status split_of(const tri_trainer *t, const tri_rollout *r, int64_t m, tri_split *out) {
  int           n = (int)t->plan.batch.train_batch_size;
  tri_split_opt opt = {(int)m * n,
                       n,
                       tri_world_of(t)->rank,
                       tri_world_of(t)->size,
                       (int)t->plan.batch.micro_batch_size,
                       t->cfg->train.max_tokens_per_gpu,
                       t->cfg->rollout.replay != NULL};

  return tri_split_make(r, &opt, out);
}

/* ---- log-probabilities without learning ---- */

enum { SCORE_REF, SCORE_OLD };

/* The largest; NaN counts as larger than anything. */
static void add_gap(tally *sum, float sampler, float trainer) {
  double gap = fabs((double)sampler - (double)trainer);

  if (isnan(gap) || gap > sum->gap) sum->gap = gap;
}

/* What the sampler said of a token against what the trainer says, before any update. Said nothing (NaN), or
 * not to be trusted: the trainer's number is the old one. */
static void meet_old(const tri_trainer *t, float *old, float logp, tally *sum) {
  if (!isnan(*old)) add_gap(sum, *old, logp);
  if (isnan(*old) || t->sampling.mode == TRI_CONFIG_RESCORE) *old = logp;
}

static tri_status score_micro(tri_trainer *t, tri_rollout *r, const tri_split *sp, int i, int what,
                              tally *sum) {
  tri_model    *m = what == SCORE_REF ? t->learner[TRI_REFERENCE].model : t->learner[TRI_POLICY].model;
  tri_batch     b;
  tri_rows_out  given;
  tri_feed_rows rows;

  TRI_TRY(
      tri_batch_load(t->feed, r, sp->seq + sp->first[i], sp->first[i + 1] - sp->first[i], t->se->stream, &b));
  TRI_TRY(tri_model_forward(m, &b, false, t->sampling.inv_temperature, &given, t->se->stream));
  TRI_TRY(tri_batch_fetch(t->feed, &given, t->se->stream, &rows));
  for (int64_t k = 0; k < rows.n; k++) {
    if (what == SCORE_REF)
      r->ref_logp[rows.origin[k]] = rows.logp[k];
    else
      meet_old(t, &r->old_logp[rows.origin[k]], rows.logp[k], sum);
  }
  return TRI_OK;
}

/* Collective over world. One forward over mini-batches [from, mini_batches): the reference's
 * log-probabilities, or the policy's met with the sampler's. */
static tri_status score(tri_trainer *t, tri_rollout *r, int64_t from, int what, tally *sum) {
  int span = tri_trace_phase(trace_of(t), "score");

  for (int64_t m = from; m < t->plan.mini_batches; m++) {
    tri_split  sp;
    tri_status st = TRI_OK;
    TRI_TRY(split_of(t, r, m, &sp));
    for (int i = 0; i < sp.n_micro && st == TRI_OK; i++) st = score_micro(t, r, &sp, i, what, sum);
    tri_split_free(&sp);
    TRI_TRY(st);
  }
  tri_trace_end(trace_of(t), span, NULL);
  return TRI_OK;
}

/* Every rank holds every old log-probability: they came with the answers and are kept. */
static bool knows_old(const tri_trainer *t, const tri_rollout *r) {
  return r->has_logp && t->sampling.mode != TRI_CONFIG_RESCORE;
}

/* KL in the reward needs whole sequences everywhere: each comes from the rank that scored it, which is the
 * one that has it in its split, and is 0 on the others (they may hold the sampler's number), so that a sum
 * spreads it. */
static tri_status share_logp(tri_trainer *t, const tri_rollout *r, float *logp) {
  tri_status st = TRI_OK;
  double    *x = t->token_sum;

  memset(x, 0, (size_t)r->n_tok * sizeof *x);
  for (int64_t m = 0; m < t->plan.mini_batches && st == TRI_OK; m++) {
    tri_split sp;
    st = split_of(t, r, m, &sp);
    for (int k = 0; st == TRI_OK && k < sp.first[sp.n_micro]; k++)
      for (int64_t i = r->start[sp.seq[k]]; i < r->start[sp.seq[k] + 1]; i++)
        x[i] = isnan(logp[i]) ? 0.0 : (double)logp[i];
    if (st == TRI_OK) tri_split_free(&sp);
  }
  if (st == TRI_OK) st = tri_host_sum(tri_world_of(t), x, r->n_tok);
  for (int64_t i = 0; i < r->n_tok && st == TRI_OK; i++) logp[i] = (float)x[i];
  return st;
}

static tri_status check_gap(tri_trainer *t, tally *sum) {
  int64_t bits = 0;

  /* The largest gap of all ranks: non-negative doubles order like their bits. NaN is above all. */
  memcpy(&bits, &sum->gap, sizeof bits);
  TRI_TRY(tri_host_max(tri_world_of(t), &bits, 1));
  memcpy(&sum->gap, &bits, sizeof bits);
  if (t->sampling.mode != TRI_CONFIG_EXACT || sum->gap == 0) return TRI_OK;
  if (t->cfg->rollout.replay)
    TRI_FAIL(TRI_ECONFIG,
             "step %lld: the gap between replayed and trainer log-probabilities is %g nats, and run.sampler: "
             "exact promises 0; those of another policy, or of a run whose sums had another order, want "
             "run.sampler: trust or rescore",
             (long long)t->progress.step + 1, sum->gap);
  TRI_FAIL(
      TRI_ENUMERIC,
      "step %lld: the gap between sampler and trainer log-probabilities is %g nats, and run.sampler: exact "
      "promises 0",
      (long long)t->progress.step + 1, sum->gap);
}

/* Collective over world. Old log-probabilities as run.sampler says, and the reference's. True *at_first:
 * those of mini-batch 0 are met by the first training forward. */
static tri_status annotate(tri_trainer *t, tri_rollout *r, bool *at_first, tally *sum) {
  *at_first = t->algo->needs & TRI_NEEDS_ANSWERS;
  if (!*at_first) return TRI_OK;
  if (t->learner[TRI_REFERENCE].model) {
    tri_metric_begin(t->metrics, "reference");
    TRI_TRY(score(t, r, 0, SCORE_REF, sum));
    tri_metric_end(t->metrics, "reference");
  }
  if (t->learner[TRI_REFERENCE].model && t->cfg->algo.opt.kl_where == TRI_KL_IN_REWARD) {
    TRI_TRY(share_logp(t, r, r->ref_logp));
    if (!knows_old(t, r)) { /* the reward needs them before the first training forward */
      TRI_TRY(score(t, r, 0, SCORE_OLD, sum));
      TRI_TRY(share_logp(t, r, r->old_logp));
      *at_first = false;
      return check_gap(t, sum);
    }
  }
  if (t->plan.mini_batches * t->cfg->algo.ppo_epochs > 1) TRI_TRY(score(t, r, 1, SCORE_OLD, sum));
  return TRI_OK;
}

/* ---- learning ---- */

/* What the rollout knows of the rows of a micro-batch, beside them. weight: of all sequences. */
static void add_rollout_rows(const tri_rollout *r, const int *seq, const double *weight,
                             const tri_feed_rows *rows) {
  for (int64_t k = 0; k < rows->n; k++) {
    rows->old_logp[k] = r->old_logp[rows->origin[k]];
    rows->ref_logp[k] = r->ref_logp[rows->origin[k]];
    rows->adv[k] = r->adv[rows->origin[k]];
  }
  for (int q = 0; q < rows->n_seq; q++) rows->weight[q] = weight[seq[q]];
}

/* Collective over the parameter and gradient scopes. One micro-batch: forward, loss, backward. */
static tri_status learn_micro(tri_trainer *t, tri_rollout *r, const tri_split *sp, int i,
                              const double *weight, bool first, tally *sum) {
  const int    *seq = sp->seq + sp->first[i];
  tri_stream   *s = t->se->stream;
  tri_batch     b;
  tri_rows_out  given, d;
  tri_feed_rows rows;
  tri_loss_out  out = {0};

  TRI_TRY(tri_batch_load(t->feed, r, seq, sp->first[i + 1] - sp->first[i], s, &b));
  TRI_TRY(tri_model_forward(t->learner[TRI_POLICY].model, &b, true, t->sampling.inv_temperature, &given, s));
  TRI_TRY(tri_batch_fetch(t->feed, &given, s, &rows));
  for (int64_t k = 0; first && k < rows.n; k++) meet_old(t, &r->old_logp[rows.origin[k]], rows.logp[k], sum);
  add_rollout_rows(r, seq, weight, &rows);
  tri_loss_in in = {.n = rows.n,
                    .n_seq = rows.n_seq,
                    .start = rows.start,
                    .origin = rows.origin,
                    .logp = rows.logp,
                    .ent = rows.ent,
                    .old_logp = t->algo->needs & TRI_NEEDS_ANSWERS ? rows.old_logp : NULL,
                    .ref_logp = t->learner[TRI_REFERENCE].model ? rows.ref_logp : NULL,
                    .adv = rows.adv,
                    .weight = rows.weight};
  out.dlogp = rows.dlogp;
  out.dent = rows.dent;
  TRI_TRY(t->algo->loss(&t->cfg->algo.opt, &in, &out));
  TRI_TRY(tri_batch_send(t->feed, s, &d));
  TRI_TRY(tri_model_backward(t->learner[TRI_POLICY].model, &b, &d, t->sampling.inv_temperature,
                             i == sp->n_micro - 1, s));
  sum->loss += out.loss;
  for (int k = 0; k < TRI_ALGO_METRICS; k++) {
    sum->metric[k].sum += out.metric[k].sum;
    sum->metric[k].of += out.metric[k].of;
  }
  return TRI_OK;
}

/* Each sequence's share of the loss, from counts over the whole mini-batch, all ranks. weight [n_seq]. */
static tri_status weigh(const tri_trainer *t, const tri_rollout *r, int64_t m, double *weight) {
  int64_t n = t->plan.batch.train_batch_size, *answers = NULL;

  TRI_TRY(TRI_ALLOC(answers, n));
  for (int64_t q = 0; q < n; q++) {
    int all = (int)(m * n + q);
    answers[q] = r->start[all + 1] - tri_rollout_first_row(r, all);
  }
  tri_loss_weights(t->cfg->algo.opt.loss_agg_mode, t->cfg->rollout.max_response_length, answers, (int)n,
                   weight + m * n);
  TRI_FREE(answers);
  return TRI_OK;
}

/* Collective over world. One optimizer step on mini-batch m. */
static tri_status learn(tri_trainer *t, tri_rollout *r, int64_t m, double *weight, bool first, tally *sum) {
  tri_status st = TRI_OK;
  tri_split  sp;
  int        span;

  TRI_TRY(weigh(t, r, m, weight));
  TRI_TRY(split_of(t, r, m, &sp));
  for (int i = 0; i < sp.n_micro; i++) TRI_TRY_DONE(learn_micro(t, r, &sp, i, weight, first, sum));
  if (first) TRI_TRY_DONE(check_gap(t, sum));
  sum->updates++;
  span = tri_trace_phase(trace_of(t), "update");
  TRI_TRY_DONE(tri_learner_update(&t->learner[TRI_POLICY], t->progress.step + 1, t->se->stream));
  tri_trace_end(trace_of(t), span, NULL);
done:
  tri_split_free(&sp);
  return st;
}

/* ---- one step ---- */

/* Collective over world. Sums of all ranks, in rank order, into the metrics. */
static tri_status report_learning(tri_trainer *t, const tally *sum) {
  struct {
    double   loss;
    tri_mean metric[TRI_ALGO_METRICS];
  } all = {.loss = sum->loss};

  memcpy(all.metric, sum->metric, sizeof all.metric);
  TRI_TRY(tri_host_sum(tri_world_of(t), &all.loss, sizeof all / sizeof(double)));
  tri_metric_add(t->metrics, "loss", TRI_METRIC_RANK0, all.loss / (double)sum->updates);
  tri_metric_add(t->metrics, "grad_norm", TRI_METRIC_RANK0, t->learner[TRI_POLICY].grad_norm);
  tri_metric_add(t->metrics, "learning_rate", TRI_METRIC_RANK0, t->learner[TRI_POLICY].learning_rate);
  for (int k = 0; t->algo->metric[k]; k++)
    if (all.metric[k].of > 0)
      tri_metric_add(t->metrics, t->algo->metric[k], TRI_METRIC_RANK0, all.metric[k].sum / all.metric[k].of);
  if (t->algo->needs & TRI_NEEDS_ANSWERS)
    tri_metric_add(t->metrics, "sampler_gap_max_nats", TRI_METRIC_RANK0, sum->gap);
  tri_metric_add(t->metrics, "skipped_steps", TRI_METRIC_RANK0, (double)t->learner[TRI_POLICY].skipped);
  tri_metric_add(t->metrics, "failed_saves", TRI_METRIC_RANK0, (double)t->progress.failed_saves);
  return TRI_OK;
}

/* Collective over world. Every pass over the rollout, mini-batch by mini-batch. */
static tri_status learn_all(tri_trainer *t, tri_rollout *r, tally *sum) {
  tri_status st = TRI_OK;
  double    *weight = NULL;
  bool       at_first;

  TRI_TRY(annotate(t, r, &at_first, sum));
  if (t->algo->advantage) TRI_TRY(t->algo->advantage(&t->cfg->algo.opt, r));
  TRI_TRY(TRI_ALLOC(weight, r->n_seq));
  tri_metric_begin(t->metrics, "learn");
  tri_screen_phase(t, "learn");
  for (int64_t epoch = 0; epoch < t->cfg->algo.ppo_epochs; epoch++)
    for (int64_t m = 0; m < t->plan.mini_batches; m++)
      TRI_TRY_DONE(learn(t, r, m, weight, at_first && epoch == 0 && m == 0, sum));
  tri_metric_end(t->metrics, "learn");
done:
  TRI_FREE(weight);
  return st;
}

/* Collective over world. One step: generate, score, learn; or none, where the run is told to stop while it
 * generates: count.step tells. The one thing that happens out of sight is the gathering of parameters
 * (params.h, tri_params_acquire). */
static tri_status train_step(tri_trainer *t, int64_t step) {
  tri_status  st = TRI_OK;
  tri_rollout all = {.store = t->cfg->rollout.replay ? NULL : &t->whole}, *r = &all;
  tally       sum = {0};
  double      began_s = tri_now_s();
  int64_t     tokens_before = t->progress.tokens;

  tri_metric_text(t->metrics, "algo", t->algo->name);
  /* 1. this step's sequences on every rank: prompts are a function of (seed, step); answers and rewards */
  TRI_TRY_DONE(tri_collect(t, step, r));
  if (tri_halt_decided(t->halt)) goto done;
  /* 2. old and reference log-probabilities, advantages, then updates */
  TRI_TRY_DONE(learn_all(t, r, &sum));
  t->progress.step = step;
  t->progress.cursor += r->n_seq / r->group;
  /* 3. what came of it */
  TRI_TRY_DONE(report_learning(t, &sum));
  tri_report_rollout(t, r);
  tri_health_observe(&t->health, t->algo->needs & TRI_NEEDS_ANSWERS ? r : NULL,
                     t->learner[TRI_POLICY].grad_norm);
  TRI_TRY_DONE(tri_report_resources(t, began_s, t->progress.tokens - tokens_before));
  if (tri_collect_due(t, step)) {
    if (!knows_old(t, r)) TRI_TRY_DONE(share_logp(t, r, r->old_logp));
    TRI_TRY_DONE(tri_collect_save(t, step, r));
  }
done:
  tri_rollout_free(r);
  return st;
}

/* Collective over world. Due by count, by time (rank 0's clock), or because the run stops here. */
static tri_status checkpoint_if_due(tri_trainer *t, bool stop) {
  bool    last = t->progress.step == t->plan.steps, saved;
  int     span;
  int64_t every = t->cfg->checkpoint.save_steps, due = every > 0 && t->progress.step % every == 0;

  if (t->cfg->checkpoint.save_minutes > 0 &&
      tri_now_s() - t->progress.last_save_s >= 60 * t->cfg->checkpoint.save_minutes)
    due = 1;
  if (stop || (last && t->cfg->checkpoint.save_final)) due = 1;
  if (t->progress.saved_step == t->progress.step) due = 0;
  TRI_TRY(tri_host_bcast(tri_world_of(t), &due, sizeof due, 0));
  if (!due) return TRI_OK;
  tri_screen_phase(t, "save");
  span = tri_trace_phase(trace_of(t), "save");
  TRI_TRY(tri_state_save(t, &saved));
  tri_trace_end(trace_of(t), span, NULL);
  if (!saved && (stop || last))
    TRI_FAIL(TRI_EFILE, "%s: the last checkpoint could not be written", t->run.folder);
  return TRI_OK;
}

/* Collective over world. The line of a step; or, again, what is missing from it. On a full disk it waits, and
 * the run goes on. */
static tri_status write_metrics(tri_trainer *t, int64_t step, bool again) {
  tri_status st = tri_agree(tri_world_of(t), again                  ? tri_metrics_complete(t->metrics)
                                             : t->progress.eval_due ? tri_metrics_put_off(t->metrics, step)
                                                                    : tri_metrics_write(t->metrics, step));

  if (st != TRI_EFILE) return st;
  if (tri_world_of(t)->rank == 0)
    tri_log(TRI_LOG_WARN, "step %lld: its metrics wait: %s; the run goes on", (long long)step,
            tri_error_message());
  tri_error_clear();
  return TRI_OK;
}

/* Collective over world. The line of a step, with its evaluation when one is due. */
static tri_status finish_step(tri_trainer *t, int64_t step) {
  bool due = t->cfg->eval.steps > 0 && (step % t->cfg->eval.steps == 0 || step == t->plan.steps);

  if (due) TRI_TRY(tri_evaluate(t));
  TRI_TRY(tri_metrics_reduce(t->metrics, tri_world_of(t)));
  tri_screen_step(t, step);
  tri_health_warn(&t->health, step, tri_world_of(t)->rank == 0);
  return write_metrics(t, step, false);
}

/* Collective over world. Step 0: the evaluation before training. One that is given up leaves no line. */
static tri_status look_before(tri_trainer *t) {
  double began_s = tri_now_s();

  tri_metric_text(t->metrics, "algo", t->algo->name);
  TRI_TRY(tri_evaluate(t));
  if (t->progress.eval_due) return TRI_OK;
  TRI_TRY(tri_report_resources(t, began_s, 0));
  TRI_TRY(tri_metrics_reduce(t->metrics, tri_world_of(t)));
  tri_screen_step(t, 0);
  return write_metrics(t, 0, false);
}

/* Collective over world. The evaluation that the run before gave up, into the line of its last step. */
static tri_status look_again(tri_trainer *t) {
  TRI_TRY(tri_evaluate(t));
  if (t->progress.eval_due) return TRI_OK;
  TRI_TRY(tri_metrics_reduce(t->metrics, tri_world_of(t)));
  tri_screen_step(t, t->progress.step);
  return write_metrics(t, t->progress.step, true);
}

/* Collective over world. Is the step the last one here? Then it is said, and saved; else saved if due. */
static tri_status rest(tri_trainer *t, int64_t step, bool *stop) {
  tri_halt_cause halt;

  TRI_TRY(tri_halt_ask(t->halt, &halt));
  *stop = halt != TRI_HALT_NOT;
  if (*stop) tri_screen_halt(t, step);
  return checkpoint_if_due(t, *stop && (t->progress.step < t->plan.steps || t->progress.eval_due));
}

/* Collective over world. The evaluation that is missing before the first step of this run. */
static tri_status begin(tri_trainer *t, bool *stop) {
  bool is_new = tri_metrics_is_new(t->metrics), is_due = tri_metrics_is_due(t->metrics);

  TRI_TRY(tri_host_bcast(tri_world_of(t), &is_new, sizeof is_new, 0));
  TRI_TRY(tri_host_bcast(tri_world_of(t), &is_due, sizeof is_due, 0));
  if (t->cfg->eval.steps > 0 && t->progress.step == 0 && is_new) TRI_TRY(look_before(t));
  if (t->cfg->eval.steps > 0 && is_due) TRI_TRY(look_again(t));
  return t->progress.eval_due ? rest(t, t->progress.step, stop) : TRI_OK;
}

tri_status tri_train(tri_trainer *t, tri_train_end *end) {
  bool stop = false;

  TRI_TRY(begin(t, &stop));
  if (t->progress.first_step >= t->plan.steps) tri_screen_idle(t, t->progress.step);
  t->screen.loop_s = tri_now_s();
  tri_halt_enter(TRI_HALT_STEPS);
  for (int64_t step = t->progress.step + 1; step <= t->plan.steps && !stop; step++) {
    TRI_TRY(tri_timeline_begin(t->timeline, step, t->se->stream));
    TRI_TRY(train_step(t, step));
    if (t->progress.step == step) TRI_TRY(finish_step(t, step));
    TRI_TRY(rest(t, step, &stop));
    TRI_TRY(tri_timeline_end(t->timeline, stop || step == t->plan.steps));
  }
  tri_halt_enter(TRI_HALT_LEAVING);
  *end = TRI_TRAIN_FINISHED;
  if (t->progress.step < t->plan.steps || t->progress.eval_due)
    *end = tri_halt_decided(t->halt) == TRI_HALT_FILE ? TRI_TRAIN_STOPPED_BY_FILE : TRI_TRAIN_STOPPED;
  return tri_agree(tri_world_of(t), tri_metrics_flush(t->metrics));
}
