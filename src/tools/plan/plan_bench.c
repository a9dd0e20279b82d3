/* plan_bench.c - times one rank's compute on this machine's cores with a model of the policy's shape. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan_bench.h"

#include "tools/bench/passes.h"
#include "plan.h"

/* Chosen. Each pass runs once untimed, then at least once timed. Short passes vary most, so they repeat while
 * all together take less than part_s. The same holds for decode steps. */
static const tri_effort of_passes = {1, 9, 0.2, 0.2}, of_steps = {1, TRI_BENCH_MOST, 0.2, 0.2};
/* Chosen. A plan should not take more memory. */
static const int64_t most_bytes = (int64_t)1 << 30;

tri_bench_case tri_bench_policy(const tri_plan *p) {
  const tri_learner *l = &p->t.learner[TRI_POLICY];
  tri_bench_case     c = {.shape = *tri_source_shape(l->source),
                          .dtype = p->cfg.model.dtype,
                          .head = l->head,
                          .recompute = p->cfg.model.recompute == TRI_CONFIG_RECOMPUTE_LAYER,
                          .any_order = p->cfg.run.sampler != TRI_CONFIG_EXACT,
                          .optim = p->cfg.train.optim,
                          .rule = p->t.sampling.step.rule};

  if (tri_learner_has_adapters(&p->t, l)) c.lora = *tri_source_lora(l->source);
  return c;
}

static tri_status time_learning(tri_passes *b, tri_bench_times *t) {
  tri_learn_times learn;

  TRI_TRY(tri_passes_score(b, &of_passes, &t->forward));
  TRI_TRY(tri_passes_learn(b, &of_passes, &learn));
  t->numbers = (double)tri_passes_numbers(b);
  t->learn = learn.learn;
  t->update = learn.update;
  t->pack = learn.pack;
  return TRI_OK;
}

static tri_status time_generating(tri_passes *b, const tri_bench_size *z, tri_bench_times *t) {
  int n;

  TRI_TRY(tri_passes_decode(b, z->prompts, tri_bench_prompt(z), &of_steps, &t->decode, &n));
  return tri_passes_prefill(b, &of_passes, t->decode, &t->prefill);
}

tri_status tri_bench_model(const tri_plan *p, const tri_bench_size *z, int layers, bool generates,
                           tri_bench_times *out, bool *done) {
  tri_session_opt opt = {.device = tri_device_host(), .threads = p->se.threads};
  tri_session     se = {0};
  tri_bench_case  c = tri_bench_policy(p);
  tri_passes      b = {0};
  tri_status      st = TRI_OK;

  *done = false;
  c.size = *z;
  TRI_TRY_DONE(tri_session_pretend(&opt, 1, 1, &se));
  TRI_TRY_DONE(tri_passes_open(&se, &c, layers, generates ? TRI_PASS_GENERATE : TRI_PASS_LEARN, &b));
  *done = tri_ledger_total(se.ledger).planned <= most_bytes;
  if (!*done) goto done;
  TRI_TRY_DONE(tri_ledger_take(se.ledger, se.device));
  TRI_TRY_DONE(tri_passes_start(&b));
  TRI_TRY_DONE(generates ? time_generating(&b, z, out) : time_learning(&b, out));
done:
  tri_passes_close(&b);
  tri_session_leave(&se, TRI_OK);
  return st;
}
