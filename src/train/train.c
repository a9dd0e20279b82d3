/* train.c - the loop: collect, score, learn. Read train_step first. */
#include "train.h"

#include "comm/halt.h"
#include "gap.h"
#include "report/timeline.h"
#include "supply.h"

/* ---- one step ---- */

/* What a step has in hand. */
typedef struct work {
  tri_rollout r;      /* its sequences, on every rank */
  double     *weight; /* [r.n_seq] of each one's tokens in the loss of its mini-batch */
  tri_gap     gap;
  tri_tally   sum;
} work;

/* Collective over the parameter scope. What every learner that trains says of the chosen rows: each head its
 * own members of *rows. */
static tri_status forward(tri_trainer *t, const tri_batch *b, tri_rows_out *rows) {
  *rows = (tri_rows_out){.logp = {.data = NULL}};
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    tri_rows_out own;
    if (!tri_learner_trains(l)) continue;
    TRI_TRY(tri_model_forward(l->model, b, true, t->sampling.inv_temperature, &own, t->se->stream));
    if (own.logp.data) rows->logp = own.logp;
    if (own.ent.data) rows->ent = own.ent;
    if (own.value.data) rows->value = own.value;
  }
  return TRI_OK;
}

/* Collective over the parameter and gradient scopes. d: of all that forward gave. */
static tri_status backward(tri_trainer *t, const tri_batch *b, const tri_rows_out *d, bool last) {
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    if (tri_learner_trains(l))
      TRI_TRY(tri_model_backward(l->model, b, d, t->sampling.inv_temperature, last, t->se->stream));
  return TRI_OK;
}

/* Collective over the parameter and gradient scopes. Forward, one loss, backward of one micro-batch. */
static tri_status learn(tri_trainer *t, work *w, const tri_split *sp, int i) {
  tri_stream  *s = t->se->stream;
  const int   *seq = sp->seq + sp->first[i];
  tri_batch    b;
  tri_rows_out rows, d;
  tri_loss_in  in;
  tri_loss_out out;

  TRI_TRY(tri_batch_load(t->feed, &w->r, seq, sp->first[i + 1] - sp->first[i], s, &b));
  TRI_TRY(forward(t, &b, &rows));
  TRI_TRY(tri_batch_fetch(t->feed, &rows, w->weight, s, &in, &out));
  tri_gap_meet(t, &w->r, &in, &w->gap);
  TRI_TRY(t->algo->loss->compute(&t->cfg->algo.opt, &in, &out));
  TRI_TRY(tri_batch_send(t->feed, &out, s, &d));
  TRI_TRY(backward(t, &b, &d, i == sp->n_micro - 1));
  tri_tally_add(&w->sum, &out);
  return TRI_OK;
}

/* Collective over world. One optimizer step on mini-batch m: the gradient of its micro-batches, then the
 * update. */
static tri_status update(tri_trainer *t, work *w, int64_t m) {
  tri_status st = TRI_OK;
  tri_split  sp;
  tri_span   span;

  TRI_TRY(tri_step_split(t, &w->r, m, &sp));
  for (int i = 0; i < sp.n_micro; i++) TRI_TRY_DONE(learn(t, w, &sp, i));
  TRI_TRY_DONE(tri_gap_close(t, &w->gap));
  span = tri_span_begin(&t->spans, "update", 0);
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    if (tri_learner_trains(l)) TRI_TRY_DONE(tri_learner_update(l, t->progress.step + 1, t->se->stream));
  tri_span_end(&t->spans, &span);
  w->sum.updates++;
done:
  tri_split_free(&sp);
  return st;
}

/* Not collective. w->weight, from counts over each sequence's whole mini-batch, all ranks. */
static tri_status weigh(const tri_trainer *t, work *w) {
  const tri_rollout *r = &w->r;
  int64_t            n = t->plan.split.n, *answers = NULL;
  tri_status         st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(w->weight, r->n_seq));
  TRI_TRY_DONE(TRI_ALLOC(answers, r->n_seq));
  for (int q = 0; q < r->n_seq; q++) answers[q] = tri_rollout_loss_tokens(r, q);
  for (int64_t q = 0; q < t->plan.mini_batches * n; q += n)
    t->algo->loss->weigh(&t->cfg->algo.opt, t->cfg->rollout.max_response_length, answers + q, (int)n,
                         w->weight + q);
done:
  TRI_FREE(answers);
  return st;
}

/* Collective over world. One step; or none, where the run is told to stop while it collects: progress.step
 * tells. What ranks exchange happens inside: answers (rollout.h), weights and gradients (params.h). */
static tri_status train_step(tri_trainer *t, int64_t step) {
  tri_status st = TRI_OK;
  work       w = {.sum.began_s = tri_now_s()};
  tri_span   span;

  tri_metric_text(t->metrics, "algo", t->algo->name);
  TRI_TRY_DONE(t->supply->next(t, step, &w.r)); /* sequences: which follows from seed and cursor */
  if (tri_halt_decided(t->halt)) goto done;
  TRI_TRY_DONE(tri_gap_score_reference(t, &w.r)); /* log-probabilities before learning */
  TRI_TRY_DONE(tri_gap_score_old(t, &w.r, &w.gap));
  TRI_TRY_DONE(tri_algo_advantage(t->algo, &t->cfg->algo.opt, &w.r));
  TRI_TRY_DONE(weigh(t, &w));
  span = tri_span_begin(&t->spans, "learn", TRI_SPAN_TIMED | TRI_SPAN_SHOWN);
  for (int64_t epoch = 0; epoch < t->cfg->algo.ppo_epochs; epoch++)
    for (int64_t m = 0; m < t->plan.mini_batches; m++) TRI_TRY_DONE(update(t, &w, m));
  tri_span_end(&t->spans, &span);
  t->progress.step = step;
  t->progress.cursor += w.r.n_seq / w.r.group;
  TRI_TRY_DONE(tri_report_step(t, &w.r, &w.sum, &w.gap));
done:
  TRI_FREE(w.weight);
  tri_rollout_clear(&w.r);
  return st;
}

/* ---- around the steps ---- */

/* Collective over world. Due by count, by time (rank 0's clock), or because the run stops here. */
static tri_status checkpoint_if_due(tri_trainer *t, bool stop) {
  bool    last = t->progress.step == t->plan.steps, saved;
  int64_t every = t->cfg->checkpoint.save_steps, due = every > 0 && t->progress.step % every == 0;

  if (t->cfg->checkpoint.save_minutes > 0 &&
      tri_now_s() - t->progress.last_save_s >= 60 * t->cfg->checkpoint.save_minutes)
    due = 1;
  if (stop || (last && t->cfg->checkpoint.save_final)) due = 1;
  if (t->progress.saved_step == t->progress.step) due = 0;
  TRI_TRY(tri_host_bcast(tri_world_of(t), &due, sizeof due, 0));
  if (!due) return TRI_OK;
  TRI_TRY(tri_state_save(t, &saved));
  if (!saved && (stop || last))
    TRI_FAIL(TRI_EFILE, "%s: the last checkpoint could not be written", t->run.folder);
  return TRI_OK;
}

/* Collective over world. The line of a step, with its evaluation when one is due. */
static tri_status finish_step(tri_trainer *t, int64_t step) {
  bool due = t->cfg->eval.steps > 0 && (step % t->cfg->eval.steps == 0 || step == t->plan.steps);

  if (due) TRI_TRY(tri_evaluate(t));
  return tri_report_line(t, step, false);
}

/* Collective over world. Step 0: the evaluation before training. One that is given up leaves no line. */
static tri_status look_before(tri_trainer *t) {
  double began_s = tri_now_s();

  tri_metric_text(t->metrics, "algo", t->algo->name);
  TRI_TRY(tri_evaluate(t));
  if (t->progress.eval_due) return TRI_OK;
  TRI_TRY(tri_report_resources(t, began_s, 0));
  return tri_report_line(t, 0, false);
}

/* Collective over world. The evaluation that the run before gave up, into the line of its last step. */
static tri_status look_again(tri_trainer *t) {
  TRI_TRY(tri_evaluate(t));
  if (t->progress.eval_due) return TRI_OK;
  return tri_report_line(t, t->progress.step, true);
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
