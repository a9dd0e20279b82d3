/* evaluate_lines.c - evaluates held-out lines by the loss. Each line's numbers come from one rank. Every rank
 * adds them in the order of the lines, so that ranks, batches and packing do not change a sum. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/halt.h"
#include "evaluate.h"
#include "inputs.h"
#include "score.h"
#include "screen.h"
#include "batch_source.h"
#include "train.h"

#include <stdio.h>
#include <string.h>

/* Numbers of a line. They are its loss among all lines, its loss in its set, and the sum and count of each
 * metric. A line beside the others has only its part of the statistic. */
enum { OF_ALL, OF_SET, METRICS, NUMBERS = METRICS + 2 * TRI_ALGO_METRICS, TOGETHER = 2 };

tri_status tri_evaluate_lines_plan(tri_trainer *t) {
  int64_t         n = tri_sequences(t, t->plan.eval_lines);
  tri_evaluation *e = &t->eval;
  const struct {
    size_t bytes;
    void  *where;
  } row[] = {{(size_t)t->plan.eval_lines_at_once * NUMBERS * sizeof *e->row, &e->row},
             {(size_t)n * sizeof *e->count, &e->count},
             {(size_t)n * sizeof *e->of_all, &e->of_all},
             {(size_t)n * sizeof *e->of_set, &e->of_set}};

  if (n > INT32_MAX / 2)
    TRI_FAIL(TRI_ECONFIG, "data.eval: %lld sequences in one evaluation are more than this program handles",
             (long long)n);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    TRI_TRY(tri_ledger_add(t->se->ledger, TRI_MEM_HOST, TRI_PHASE_LEARN, false, "evaluation", row[i].bytes,
                           row[i].where));
  return TRI_OK;
}

/* ---- weights ---- */

/* Computes the share of each token in the loss, among all lines and in its set. */
static void weigh(tri_trainer *t) {
  const tri_evaluation *e = &t->eval;
  const tri_loss       *loss = t->learner[TRI_POLICY].loss;
  int64_t               longest = t->cfg->rollout.max_response_length, at = 0;
  int                   each = (int)tri_sequences(t, 1);

  for (int i = 0; i < t->plan.n_eval; i++) {
    const tri_eval_range *set = &t->plan.eval[i].lines;
    int64_t               begin = at;
    for (int64_t k = 0; k < set->n; k++)
      for (int q = 0; q < each; q++) e->count[at++] = tri_batch_source_held_out_tokens(t, set->begin + k, q);
    loss->weigh(&t->opt, longest, e->count + begin, (int)(at - begin), e->of_set + begin);
  }
  loss->weigh(&t->opt, longest, e->count, (int)at, e->of_all);
}

/* ---- one micro-batch ---- */

/* Lines of a set evaluated together. `first` is the number of the first one among all lines of the
 * evaluation. */
typedef struct piece {
  tri_eval_range lines;
  int64_t        first;
  bool           beside; /* evaluates the sequences beside these lines instead */
  double         statistic;
} piece;

/* Makes *one and *buffers views of `in` and `out` for one line. The line's `each` sequences begin with number
 * k of the micro-batch. */
static void view(const tri_loss_in *in, const tri_loss_out *out, int k, int each, int64_t start[TOGETHER + 1],
                 tri_loss_in *one, tri_loss_out *buffers) {
  int64_t       at = in->start[k];
  const float  *from[] = {in->logp, in->ent,   in->old_logp,  in->ref_logp, in->roll_logp,
                          in->adv,  in->value, in->old_value, in->ret};
  const float **to[] = {&one->logp, &one->ent,   &one->old_logp,  &one->ref_logp, &one->roll_logp,
                        &one->adv,  &one->value, &one->old_value, &one->ret};

  *one = *in;
  for (int q = 0; q <= each; q++) start[q] = in->start[k + q] - at;
  for (size_t i = 0; i < sizeof to / sizeof *to; i++) *to[i] = from[i] ? from[i] + at : NULL;
  one->n = start[each];
  one->n_seq = each;
  one->start = start;
  one->origin = in->origin + at;
  one->score = in->score ? in->score + k : NULL;
  buffers->dlogp = out->dlogp ? out->dlogp + at : NULL;
  buffers->dent = out->dent ? out->dent + at : NULL;
  buffers->dvalue = out->dvalue ? out->dvalue + at : NULL;
}

/* Computes the line's numbers into x [NUMBERS]. `at` is the number of its first sequence in the
 * evaluation. */
static tri_status judge_line(const tri_trainer *t, const piece *p, tri_loss_in *one, tri_loss_out *buffers,
                             int64_t at, double *x) {
  const tri_loss *loss = t->learner[TRI_POLICY].loss;

  if (p->beside) {
    x[OF_ALL] = loss->statistic->part(one, 0);
    return TRI_OK;
  }
  one->statistic = p->statistic;
  one->weight = t->eval.of_all + at;
  TRI_TRY(loss->compute(&t->opt, one, buffers));
  x[OF_ALL] = buffers->loss;
  one->weight = t->eval.of_set + at;
  TRI_TRY(loss->compute(&t->opt, one, buffers));
  x[OF_SET] = buffers->loss;
  memcpy(x + METRICS, buffers->metric, sizeof buffers->metric);
  return TRI_OK;
}

/* Collective over the parameter scope. Evaluates one micro-batch by the same calls as learning, but without
 * learning. */
static tri_status judge_micro(tri_trainer *t, const piece *p, const tri_rollout *r, const int *seq, int n) {
  int          each = (int)tri_sequences(t, 1);
  tri_batch    b;
  tri_rows_out rows;
  tri_loss_in  in, one;
  tri_loss_out out, buffers;
  int64_t      start[TOGETHER + 1];
  char         where[128];

  TRI_ASSERT(each <= TOGETHER && sizeof buffers.metric == 2 * TRI_ALGO_METRICS * sizeof(double));
  TRI_TRY(tri_batch_load(t->staging, r, seq, n, t->se->stream, &b));
  TRI_TRY(tri_model_forward(t->learner[TRI_POLICY].model, &b, false, t->sampling.inv_temperature, &rows,
                            t->se->stream));
  TRI_TRY(tri_batch_fetch(t->staging, &rows, NULL, t->se->stream, &in, &out));
  for (int k = 0; k < n; k += each) {
    int64_t    line = seq[k] / each;
    tri_status st;
    view(&in, &out, k, each, start, &one, &buffers);
    st = judge_line(t, p, &one, &buffers, (p->first + line) * each, t->eval.row + line * NUMBERS);
    if (st == TRI_OK) continue;
    snprintf(where, sizeof where, "the evaluation after step %lld, line %lld of data.eval",
             (long long)t->progress.step, (long long)r->prompt_id[seq[k]] + 1);
    return tri_error_at(st, where);
  }
  return TRI_OK;
}

/* ---- all lines of a set ---- */

/* Collective over world. Computes the numbers of a piece into t->eval.row on every rank. */
static tri_status judge_piece(tri_trainer *t, const tri_eval_range *set, const piece *p) {
  int64_t       n = p->lines.n * NUMBERS;
  tri_rollout   r = {0};
  tri_split     sp = {0};
  tri_split_opt o = t->plan.split;
  tri_status    st = TRI_OK;

  o.begin = 0;
  o.n = (int)tri_sequences(t, p->lines.n);
  memset(t->eval.row, 0, (size_t)n * sizeof *t->eval.row);
  TRI_TRY_DONE(tri_batch_source_held_out(t, set, &p->lines, p->beside, &r));
  TRI_TRY_DONE(tri_split_make(&r, &o, &sp));
  TRI_TRY_DONE(tri_score_reference_split(t, &r, &sp));
  for (int i = 0; i < sp.n_micro; i++)
    TRI_TRY_DONE(judge_micro(t, p, &r, sp.seq + sp.first[i], sp.first[i + 1] - sp.first[i]));
  /* One rank evaluated each line. Adding zeros keeps its bits. */
  TRI_TRY_DONE(tri_host_sum(tri_world_of(t), t->eval.row, n));
done:
  tri_split_free(&sp);
  tri_rollout_clear(&r);
  return st;
}

static void add_line(const double *x, double loss, tri_eval_sum *to) {
  to->loss += loss;
  for (int k = 0; k < TRI_ALGO_METRICS; k++) {
    to->metric[k].sum += x[METRICS + 2 * k];
    to->metric[k].of += x[METRICS + 2 * k + 1];
  }
}

/* Collective over world. Evaluates a set's lines piece by piece. If `all` is NULL, evaluates the sequences
 * beside them instead, and sets *statistic from them. Stops early if the run is told to stop. */
static tri_status judge_set(tri_trainer *t, const tri_eval_range *set, int64_t first, double *statistic,
                            tri_eval_sum *all, tri_eval_sum *of_set) {
  double beside = 0;

  for (int64_t at = 0; at < set->n; at += t->plan.eval_lines_at_once) {
    piece          p = {{set->begin + at, t->plan.eval_lines_at_once}, first + at, !all, *statistic};
    tri_halt_cause halt;
    TRI_TRY(tri_halt_ask(t->halt, &halt));
    if (halt != TRI_HALT_NOT) return TRI_OK;
    if (p.lines.n > set->n - at) p.lines.n = set->n - at;
    tri_screen_answers(t, "eval", first + at, t->plan.eval_lines);
    TRI_TRY(judge_piece(t, set, &p));
    for (int64_t k = 0; k < p.lines.n; k++) {
      const double *x = t->eval.row + k * NUMBERS;
      beside += x[OF_ALL];
      if (!all) continue;
      add_line(x, x[OF_ALL], all);
      add_line(x, x[OF_SET], of_set);
    }
  }
  if (!all) *statistic = t->learner[TRI_POLICY].loss->statistic->whole(beside, set->n);
  return TRI_OK;
}

tri_status tri_evaluate_lines(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set) {
  const tri_loss *loss = t->learner[TRI_POLICY].loss;
  int64_t         first = 0;
  tri_span        span = tri_span_begin(&t->spans, "eval", TRI_SPAN_TIMED | TRI_SPAN_SHOWN);

  weigh(t);
  for (int i = 0; i < t->plan.n_eval; i++) {
    const tri_eval_range *set = &t->plan.eval[i].lines;
    double                statistic = 0;
    if (loss->statistic && loss->statistic->part && loss->statistic->wanted(&t->opt))
      TRI_TRY(judge_set(t, set, first, &statistic, NULL, NULL));
    TRI_TRY(judge_set(t, set, first, &statistic, all, &of_set[i]));
    if (loss->settle) loss->settle(of_set[i].metric);
    first += set->n;
  }
  if (loss->settle) loss->settle(all->metric);
  tri_span_end(&t->spans, &span);
  return TRI_OK;
}
