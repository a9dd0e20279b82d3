/* train.c - the training loop, which collects, scores and learns. Read train_step first. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "evaluate.h"
#include "report_step.h"
#include "save.h"
#include "screen.h"
#include "train.h"

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/notice.h"
#include "comm/halt.h"
#include "comm/peers/rank_status.h"
#include "report/runlog.h"
#include "report/timeline.h"
#include "score.h"
#include "state/first_update.h"
#include "batch_source.h"

#include <stdio.h>

/* ---- one step ---- */

/* Data of the current step. */
typedef struct work {
  tri_rollout r; /* the step's sequences, on every rank */
  int64_t     step;
  int64_t     lines;                  /* data lines taken */
  int64_t     at;                     /* number of the update within the step, from 0 */
  double     *weight[TRI_ROLE_COUNT]; /* [r.n_seq] weight of each sequence's tokens in a learner's loss */
  double      statistic; /* the policy's loss needs it for this mini-batch (tri_step_statistic) */
  tri_gap     gap;
  tri_tally   sum;
} work;

/* Collective over the parameter and gradient scopes, with `last` over world. Runs forward, loss and backward
 * of one learner on the loaded micro-batch. A learner in its warm-up only computes the loss. */
static tri_status learn_by(tri_trainer *t, work *w, tri_role role, const tri_batch *b, bool last) {
  tri_learner *l = &t->learner[role];
  tri_stream  *s = t->se->stream;
  bool         learns = tri_learner_learns(l, w->step);
  tri_rows_out rows, d;
  tri_loss_in  in;
  tri_loss_out out;

  TRI_TRY(tri_model_forward(l->model, b, learns, t->sampling.inv_temperature, &rows, s));
  TRI_TRY(tri_batch_fetch(t->staging, &rows, w->weight[role], s, &in, &out));
  in.statistic = w->statistic;
  /* The first update compares this forward with the sampler. It may become the old log-probabilities. */
  if (role == TRI_POLICY) tri_gap_take_and_refresh(t, &w->r, &in, &w->gap);
  TRI_TRY(l->loss->compute(&t->opt, &in, &out));
  tri_tally_add(t, &w->sum, role, &out);
  if (!learns) return TRI_OK;
  TRI_TRY(tri_batch_send(t->staging, &out, l->counters.scale.value, s, &d));
  return tri_model_backward(l->model, b, &d, t->sampling.inv_temperature, last, s);
}

/* Collective over world. Trains one learner on all micro-batches. The learners take turns, because their
 * activations share memory (tri_workspace). */
static tri_status learn(tri_trainer *t, work *w, tri_role role, const tri_split *sp) {
  for (int i = 0; i < sp->n_micro; i++) {
    const int *seq = sp->seq + sp->first[i];
    tri_batch  b;
    TRI_TRY(tri_batch_load(t->staging, &w->r, seq, sp->first[i + 1] - sp->first[i], t->se->stream, &b));
    TRI_TRY(tri_report_nonfinite(t, &t->learner[role], &w->r, seq, &b,
                                 learn_by(t, w, role, &b, i == sp->n_micro - 1)));
  }
  return TRI_OK;
}

/* Reports a skipped optimizer step of the learner. Every rank calls it, and tri_log shows INFO on rank 0
 * only. */
static void say_skipped(const tri_learner *l, int64_t step, const tri_optim_now *now) {
  char at[80] = "", next[48] = "";

  if (now->loss_scale != 1) snprintf(at, sizeof at, " with the %s's loss times %g", l->name, now->loss_scale);
  if (now->overflows) snprintf(next, sizeof next, ", the next takes it times %g", l->counters.scale.value);
  tri_log(TRI_LOG_INFO, "step %lld: the gradient %s%s, so this optimizer step is skipped (%lld so far)%s",
          (long long)step, now->overflows ? "overflows" : "is not finite", at, (long long)l->counters.skipped,
          next);
}

/* Collective over world. Takes one optimizer step with the accumulated gradient. Skips and reports the step
 * if the gradient is not finite. The learning rate follows the planned number of updates, so skipped updates
 * count too. */
static tri_status step_learner(tri_trainer *t, tri_learner *l, const work *w) {
  int64_t rested = w->step - 1 - l->warmup_steps, each = t->cfg->algo.ppo_epochs * t->plan.mini_batches;
  tri_loss_scale *scale = &l->counters.scale;
  bool            applied;

  l->counters.update++;
  l->learning_rate = tri_lr_at(&l->lr, rested * each + w->at + 1);
  tri_optim_now now = {l->learning_rate, l->counters.update - l->counters.skipped, scale->value,
                       tri_loss_scale_yields(scale, &l->optim.scaling)};
  TRI_TRY((l->first_update_seen ? tri_optim_step : tri_first_update_check)(
      tri_learner_params(l), &l->optim, &now, t->se->stream, &l->grad_norm, &applied));
  tri_loss_scale_follow(scale, &l->optim.scaling, applied);
  l->first_update_seen |= applied && l->grad_norm > 0;
  if (applied)
    return tri_learner_averages(l) ? tri_params_average(tri_learner_params(l), false, t->se->stream) : TRI_OK;
  l->counters.skipped++;
  say_skipped(l, w->step, &now);
  return TRI_OK;
}

/* True if any sequence of mini-batch m has a token with loss. Every rank holds all sequences of the step, so
 * all ranks answer alike without asking each other. */
static bool teaches(const tri_trainer *t, const work *w, int64_t m) {
  int n = t->plan.split.n, begin = (int)m * n;

  for (int q = begin; q < begin + n; q++)
    if (tri_rollout_loss_tokens(&w->r, q) > 0) return true;
  return false;
}

/* True if mini-batch m lost answers because nothing rewarded them. */
static bool lost(const tri_trainer *t, const work *w, int64_t m) {
  int n = t->plan.split.n, begin = (int)m * n;

  for (int q = begin; q < begin + n; q++)
    if (w->r.masked[q] == TRI_DROPPED) return true;
  return false;
}

/* Counts an update without any rewarded answer as skipped, like one with a gradient that is not finite. Only
 * rank 0 warns, because every rank calls this and tri_warn prints on any rank. */
static void skip(tri_trainer *t, work *w) {
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    if (!tri_learner_learns(l, w->step)) continue;
    l->counters.update++;
    l->counters.skipped++;
    w->sum.lost++;
  }
  if (tri_world_of(t)->rank == 0)
    tri_warn("step_without_rewards",
             "step %lld: no answer with a reward is left, so this optimizer step is skipped (%lld so far)",
             (long long)w->step, (long long)t->learner[TRI_POLICY].counters.skipped);
}

/* Collective over world. Takes one optimizer step on mini-batch m. Every micro-batch adds to the gradient,
 * then the weights are updated. Without a token to learn from there is no optimizer step, because the moments
 * alone must not move the weights. */
static tri_status update(tri_trainer *t, work *w, int64_t m) {
  tri_status st = TRI_OK;
  tri_split  sp;
  tri_span   span;

  if (!teaches(t, w, m)) {
    t->progress.torn |= lost(t, w, m); /* no weight moves, but skip moves counters that a checkpoint keeps */
    if (lost(t, w, m)) skip(t, w);
    return tri_gap_close(t, &w->gap);
  }
  TRI_TRY(tri_score_statistic(t, &w->r, m, &w->statistic));
  TRI_TRY(tri_step_split(t, &w->r, m, &sp));
  for (int role = 0; role < TRI_ROLE_COUNT; role++)
    if (tri_learner_trains(&t->learner[role])) TRI_TRY_DONE(learn(t, w, (tri_role)role, &sp));
  TRI_TRY_DONE(tri_gap_close(t, &w->gap));
  span = tri_span_begin(&t->spans, "update", 0);
  t->progress.torn = true;
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    if (tri_learner_learns(l, w->step)) TRI_TRY_DONE(step_learner(t, l, w));
  tri_span_end(&t->spans, &span);
  TRI_TRY_DONE(tri_tally_update(t, &w->sum));
done:
  tri_split_free(&sp);
  return st;
}

/* Collective over world. Runs one step. If the run is told to stop while it collects sequences, progress.step
 * stays as it was. The exchanges between ranks happen inside, of answers in rollout.h, of weights and
 * gradients in params.h. */
static tri_status train_step(tri_trainer *t, int64_t step) {
  tri_status st = TRI_OK;
  work       w = {.step = step, .sum.began_s = tri_now_s()};
  double     made_s; /* time at which the step had its sequences */
  tri_span   span;

  tri_report_begin(t);
  tri_metric_text(t->metrics, "algo", t->algo->name);
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) l->grad_norm = l->learning_rate = 0;
  TRI_TRY_DONE(t->source->next(t, step, &w.r, &w.lines)); /* seed and cursor choose the lines */
  if (tri_halt_decided(t->halt)) goto done;
  made_s = tri_now_s();
  if (tri_has_answers(t))
    tri_rollout_drop(&w.r, t->algo->advantage->least_group, t->algo->advantage->reads & TRI_READS_GREEDY);
  TRI_TRY_DONE(tri_score_reference(t, &w.r)); /* the models score before the weights change */
  TRI_TRY_DONE(tri_score_old(t, &w.r, &w.gap));
  TRI_TRY_DONE(tri_score_values(t, &w.r));
  TRI_TRY_DONE(tri_algo_advantage(t->algo, &t->opt, &w.r));
  for (int role = 0; role < TRI_ROLE_COUNT; role++)
    if (tri_learner_trains(&t->learner[role]))
      TRI_TRY_DONE(tri_learner_weigh(t, (tri_role)role, &w.r, &w.weight[role]));
  span = tri_span_begin(&t->spans, "learn", TRI_SPAN_TIMED | TRI_SPAN_SHOWN);
  for (int64_t epoch = 0; epoch < t->cfg->algo.ppo_epochs; epoch++)
    for (int64_t m = 0; m < t->plan.mini_batches; m++, w.at++) TRI_TRY_DONE(update(t, &w, m));
  tri_span_end(&t->spans, &span);
  t->progress.step = step;
  t->progress.cursor += w.lines;
  t->progress.torn = false;
  TRI_TRY_DONE(tri_report_step(t, &w.r, &w.sum, &w.gap));
  tri_pace_step(&t->pace, tri_now_s() - w.sum.began_s, tri_now_s() - made_s);
done:
  for (int role = 0; role < TRI_ROLE_COUNT; role++) TRI_FREE(w.weight[role]);
  tri_rollout_clear(&w.r);
  return st;
}

/* ---- around the steps ---- */

/* Collective over world. Writes the metrics line of a step, with an evaluation when one is due. If the run is
 * told to stop during the evaluation, the line ends with "eval": "due", and the next start repeats the
 * evaluation (look_again). */
static tri_status finish_step(tri_trainer *t, int64_t step) {
  bool due = t->cfg->eval.steps > 0 && (step % t->cfg->eval.steps == 0 || step == t->plan.steps);

  t->progress.unwritten = due;
  if (due) TRI_TRY(tri_evaluate(t));
  t->progress.unwritten = false;
  return tri_report_line(t, step, false);
}

/* Collective over world. Evaluates before training, as step 0. An interrupted evaluation leaves no line. */
static tri_status look_before(tri_trainer *t) {
  double began_s = tri_now_s();

  tri_report_begin(t);
  tri_metric_text(t->metrics, "algo", t->algo->name);
  TRI_TRY(tri_evaluate(t));
  if (t->progress.eval_due) return TRI_OK;
  TRI_TRY(tri_report_resources(t, began_s, 0));
  return tri_report_line(t, 0, false);
}

/* Collective over world. Repeats the evaluation that the previous run interrupted, and adds it to the line of
 * its last step. */
static tri_status look_again(tri_trainer *t) {
  TRI_TRY(tri_evaluate(t));
  if (t->progress.eval_due) return TRI_OK;
  return tri_report_line(t, t->progress.step, true);
}

/* Collective over world. Decides whether the run stops after this step. Reports a stop and saves a
 * checkpoint, or saves one that is due. */
static tri_status rest(tri_trainer *t, int64_t step, bool *stop) {
  tri_halt_cause halt;

  tri_halt_keep(t->halt, tri_pace_ask_s(&t->pace), tri_pace_watch_s(&t->pace));
  TRI_TRY(tri_halt_ask(t->halt, &halt));
  *stop = halt != TRI_HALT_NOT;
  if (*stop) tri_screen_halt(t, step);
  return tri_save_if_due(t, *stop && (t->progress.step < t->plan.steps || t->progress.eval_due));
}

/* Collective over world. Makes evaluations that are missing before the first step of this process. */
static tri_status begin(tri_trainer *t, bool *stop) {
  bool is_new = tri_metrics_is_new(t->metrics), is_due = tri_metrics_is_due(t->metrics);

  TRI_TRY(tri_host_bcast(tri_world_of(t), &is_new, sizeof is_new, 0));
  TRI_TRY(tri_host_bcast(tri_world_of(t), &is_due, sizeof is_due, 0));
  if (t->cfg->eval.steps > 0 && t->progress.step == 0 && is_new) TRI_TRY(look_before(t));
  if (t->cfg->eval.steps > 0 && is_due) TRI_TRY(look_again(t));
  return t->progress.eval_due ? rest(t, t->progress.step, stop) : tri_save_if_best(t);
}

/* Not collective. Every rank returns the same. All ranks know rank 0's decision to stop (tri_halt_ask), and
 * open_halt of trainer.c broadcast the job's times from rank 0. */
static tri_train_end how_it_ends(const tri_trainer *t) {
  const tri_progress *p = &t->progress;
  tri_halt_cause      cause = tri_halt_decided(t->halt);
  bool in_vain = cause == TRI_HALT_TIME && p->step == p->first_step && tri_pace_had_most(&t->pace);

  if (p->step >= t->plan.steps && !p->eval_due) return TRI_TRAIN_FINISHED;
  if (cause == TRI_HALT_FILE) return TRI_TRAIN_STOPPED_BY_FILE;
  return in_vain ? TRI_TRAIN_IN_VAIN : TRI_TRAIN_STOPPED;
}

/* Collective over world. The whole of tri_train as long as nothing fails. */
static tri_status run_steps(tri_trainer *t, tri_train_end *end) {
  bool stop = false;

  TRI_TRY(begin(t, &stop));
  if (t->progress.first_step >= t->plan.steps) tri_screen_idle(t, t->progress.step);
  t->screen.loop_s = tri_now_s();
  tri_halt_enter(TRI_HALT_STEPS);
  (void)tri_rank_status_phase("step");
  for (int64_t step = t->progress.step + 1; step <= t->plan.steps && !stop; step++) {
    TRI_TRY(tri_timeline_begin(t->timeline, step, t->se->stream));
    TRI_TRY(train_step(t, step));
    if (t->progress.step == step) TRI_TRY(finish_step(t, step));
    if (t->progress.step == t->progress.first_step + 1 && step < t->plan.steps)
      tri_runlog_state(t->runlog, "steps", step + 1, NULL, NULL);
    TRI_TRY(rest(t, step, &stop));
    TRI_TRY(tri_timeline_end(t->timeline, stop || step == t->plan.steps));
  }
  tri_halt_enter(TRI_HALT_LEAVING);
  *end = how_it_ends(t);
  return tri_agree(tri_world_of(t), tri_metrics_flush(t->metrics));
}

tri_status tri_train(tri_trainer *t, tri_train_end *end) {
  tri_status st = run_steps(t, end);

  return st == TRI_OK ? TRI_OK : tri_save_after_error(t, st);
}
