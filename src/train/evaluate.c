/* evaluate.c - held-out prompts: reward, pass@1 and length of the policy's answers. */
#include "comm/halt.h"
#include "supply.h"
#include "train.h"

/* What an evaluation adds up; pass: pass@1, answers that get all there is to get. */
typedef struct eval_sum {
  double reward, pass, length, answers;
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
  tri_answers_failed(&r, t->reward, tri_world_of(t)->rank == 0);
  for (int q = 0; q < r.n_seq; q++) {
    sum->reward += (double)r.reward[q];
    sum->pass += tri_reward_set_is_full(t->reward, r.part + (int64_t)q * r.n_reward);
    sum->length += (double)(r.start[q + 1] - r.start[q] - r.prompt_len[q]);
    sum->answers++;
  }
done:
  tri_rollout_clear(&r);
  return st;
}

tri_status tri_evaluate(tri_trainer *t) {
  eval_sum       sum = {0};
  tri_halt_cause halt;

  TRI_TRY(tri_halt_ask(t->halt, &halt));
  for (int64_t at = 0; at < t->plan.eval_prompts && !tri_halt_decided(t->halt); at += t->plan.eval_at_once) {
    int64_t end = at + t->plan.eval_at_once;
    TRI_TRY(evaluate_some(t, at, end < t->plan.eval_prompts ? end : t->plan.eval_prompts, &sum));
  }
  t->progress.eval_due = tri_halt_decided(t->halt) != TRI_HALT_NOT;
  if (t->progress.eval_due) return TRI_OK;
  tri_metric_add(t->metrics, "eval_reward_mean", TRI_METRIC_RANK0, sum.reward / sum.answers);
  tri_metric_add(t->metrics, "eval_pass_at_1", TRI_METRIC_RANK0, sum.pass / sum.answers);
  tri_metric_add(t->metrics, "eval_response_length_mean_tokens", TRI_METRIC_RANK0, sum.length / sum.answers);
  return TRI_OK;
}
