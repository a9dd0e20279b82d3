/* evaluate.c - held-out prompts: reward, pass@1 and length of the policy's answers; or held-out lines: their
 * loss. */
#include "comm/halt.h"
#include "score.h"
#include "supply.h"
#include "train.h"

#include <math.h>

/* What an evaluation adds up; pass: pass@1, answers that get all there is to get. */
typedef struct eval_sum {
  double reward, pass, length, answers, failures;
} eval_sum;

/* Collective over world. Held-out prompts begin .. end - 1; none where the run is told to stop. */
static tri_status evaluate_some(tri_trainer *t, int64_t begin, int64_t end, eval_sum *sum) {
  int64_t     each = t->sampling.eval.group;
  tri_rollout r = {0};
  tri_status  st = TRI_OK;
  tri_ask     ask = {.data = t->eval_data,
                     .begin = begin,
                     .n = end - begin,
                     .how = &t->sampling.eval,
                     .phase = "eval",
                     .before = begin * each,
                     .all = t->plan.eval_prompts * each};

  TRI_TRY_DONE(tri_supply_ask(t, &ask, &r));
  if (tri_halt_decided(t->halt)) goto done;
  sum->failures += tri_answers_failed(&r, t->reward, tri_world_of(t)->rank == 0);
  for (int q = 0; q < r.n_seq; q++) {
    if (isnan(r.reward[q])) continue; /* dropped */
    sum->reward += (double)r.reward[q];
    sum->pass += tri_reward_set_is_full(t->reward, r.part + (int64_t)q * r.n_reward);
    sum->length += (double)(r.start[q + 1] - r.start[q] - r.prompt_len[q]);
    sum->answers++;
  }
done:
  tri_rollout_clear(&r);
  return st;
}

/* ---- by the loss ---- */

/* Collective over the parameter scope. One micro-batch as in learning, without it. */
static tri_status judge_micro(tri_trainer *t, const tri_rollout *r, const tri_split *sp, int i,
                              const double *weight, double survey, tri_tally *sum) {
  tri_learner *l = &t->learner[TRI_POLICY];
  tri_batch    b;
  tri_rows_out rows;
  tri_loss_in  in;
  tri_loss_out out;

  TRI_TRY(
      tri_batch_load(t->feed, r, sp->seq + sp->first[i], sp->first[i + 1] - sp->first[i], t->se->stream, &b));
  TRI_TRY(tri_model_forward(l->model, &b, false, t->sampling.inv_temperature, &rows, t->se->stream));
  TRI_TRY(tri_batch_fetch(t->feed, &rows, weight, t->se->stream, &in, &out));
  in.survey = survey;
  TRI_TRY(l->loss->compute(&t->opt, &in, &out));
  tri_tally_add(t, sum, TRI_POLICY, &out);
  return TRI_OK;
}

/* Collective over world. The next t->plan.samples held-out lines as one mini-batch; *loss: of this rank. */
static tri_status judge_lines(tri_trainer *t, int64_t begin, tri_tally *sum) {
  tri_rollout r = {0};
  tri_split   sp = {0};
  double     *weight = NULL, survey = 0;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_supply_lines(t, t->eval_data, begin, t->plan.samples, &r));
  TRI_TRY_DONE(tri_score_reference(t, &r));
  TRI_TRY_DONE(tri_learner_weigh(t, TRI_POLICY, &r, &weight));
  TRI_TRY_DONE(tri_score_survey(t, &r, 0, &survey));
  TRI_TRY_DONE(tri_step_split(t, &r, 0, &sp));
  for (int i = 0; i < sp.n_micro; i++) TRI_TRY_DONE(judge_micro(t, &r, &sp, i, weight, survey, sum));
done:
  tri_split_free(&sp);
  TRI_FREE(weight);
  tri_rollout_clear(&r);
  return st;
}

/* Collective over world. Lines begin .. end - 1: a step's plan, but for how many. */
static tri_status evaluate_lines(tri_trainer *t, int64_t begin, int64_t end, tri_tally *sum) {
  tri_step_plan of_step = t->plan;
  tri_tally     some = {0};
  tri_status    st;

  t->plan.samples = end - begin;
  t->plan.mini_batches = 1;
  t->plan.split.n = (int)tri_sequences(t, end - begin);
  st = judge_lines(t, begin, &some);
  t->plan = of_step;
  TRI_TRY(st);
  tri_tally_join(sum, TRI_POLICY, &some, (double)(end - begin) / (double)t->plan.eval_prompts);
  return TRI_OK;
}

/* ---- either ---- */

static void report_answers(tri_trainer *t, const eval_sum *sum) {
  tri_metric_add(t->metrics, "eval_reward_mean", TRI_METRIC_RANK0, sum->reward / sum->answers);
  if (tri_reward_set_is_bounded(t->reward))
    tri_metric_add(t->metrics, "eval_pass_at_1", TRI_METRIC_RANK0, sum->pass / sum->answers);
  tri_metric_add(t->metrics, "eval_response_length_mean_tokens", TRI_METRIC_RANK0,
                 sum->length / sum->answers);
  if (sum->failures > 0) tri_metric_add(t->metrics, "eval_reward_failures", TRI_METRIC_RANK0, sum->failures);
}

tri_status tri_evaluate(tri_trainer *t) {
  eval_sum       sum = {0};
  tri_tally      lines = {.updates = 1};
  tri_halt_cause halt;

  TRI_TRY(tri_halt_ask(t->halt, &halt));
  for (int64_t at = 0; at < t->plan.eval_prompts && !tri_halt_decided(t->halt); at += t->plan.eval_at_once) {
    int64_t end = at + t->plan.eval_at_once;
    if (end > t->plan.eval_prompts) end = t->plan.eval_prompts;
    if (tri_evaluates_by_loss(t))
      TRI_TRY(evaluate_lines(t, at, end, &lines));
    else
      TRI_TRY(evaluate_some(t, at, end, &sum));
  }
  t->progress.eval_due = tri_halt_decided(t->halt) != TRI_HALT_NOT;
  if (t->progress.eval_due) return TRI_OK;
  if (tri_evaluates_by_loss(t)) return tri_report_loss(t, &t->learner[TRI_POLICY], &lines, "eval_");
  report_answers(t, &sum);
  return TRI_OK;
}
