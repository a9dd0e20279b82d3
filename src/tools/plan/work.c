/* work.c - computes one rank's work in a step of the deck, and its seconds by the cost model. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"
#include "train/inputs.h"

#include "plan_bench.h"
#include "measure.h"
#include "train/score.h"

#include <stdio.h>
#include <string.h>

/* Lengths of a step's sequences: the mean of the data, or the longest if there is no data yet. Answers count
 * with their largest length. */
typedef struct lengths {
  double prompt, sequence, rows; /* tokens of a prompt and of a sequence, and learned tokens of a sequence */
} lengths;

static tri_cost_model model_of(const tri_trainer *t, const tri_learner *l) {
  const tri_model_shape *s = tri_source_shape(l->source);
  tri_cost_model         m = tri_cost_of_shape(s);

  m.head = l->head == TRI_HEAD_TOKENS ? s->V : 1;
  m.n = tri_learner_size(l);
  m.bytes = (int)tri_dtype_bytes(t->cfg->model.dtype);
  return m;
}

static tri_cost_share share_of(const tri_plan *p, const tri_learner *l) {
  const tri_runtime *rt = &p->se.rt;
  tri_shard_plan     s = l->plan;
  bool               together = p->se.comm[TRI_NODE]->near && s.params != TRI_SHARD_NONE;

  return (tri_cost_share){.ranks = rt->world_size,
                          .per_node = rt->local_size,
                          .params = (int)s.params,
                          .grads = (int)s.grads,
                          .optim = (int)s.optim,
                          .overlap = p->job.gpu,
                          .together = together,
                          .in_place = together && (s.params == TRI_SHARD_NODE || rt->nodes == 1)};
}

static lengths measure(const tri_trainer *t) {
  const tri_data_stats *s = t->data ? tri_dataset_stats(t->data) : NULL;
  double  n = t->data ? (double)tri_dataset_count(t->data) * t->source->together : 1, answer = 0;
  lengths l = {.sequence = (double)t->plan.max_tokens};

  if (tri_has_answers(t)) answer = (double)t->cfg->rollout.max_response_length;
  if (!s) return (lengths){l.sequence - answer, l.sequence, answer};
  if (!s->n_line && !tri_has_answers(t)) return (lengths){0, (double)s->longest, (double)s->longest};
  if (tri_has_answers(t)) {
    l.prompt = s->n_line ? (double)s->n_token / n : s->longest_prompt;
    return (lengths){l.prompt, l.prompt + answer, answer};
  }
  return (lengths){0, (double)s->n_token / n, (double)s->n_loss / n};
}

static double ceil_share(double n, int ranks) {
  int64_t whole = (int64_t)n;

  return (double)((whole + ranks - 1) / ranks);
}

/* Returns one rank's forward passes over so many sequences, summed over the mini-batches. */
static double batches_of(const tri_trainer *t, double sequences, double tokens) {
  double mini = (double)t->plan.mini_batches,
         micro = (double)tri_sequences(t, t->plan.batch.micro_batch_size);
  double each = micro > 0 ? sequences / mini / micro : tokens / mini / (double)t->plan.packed;

  return mini * (double)(int64_t)(each + 0.999999);
}

/* One run of all the step's sequences through a learner's model. */
static tri_cost_pass pass_of(const tri_plan *p, const tri_learner *l, bool learns) {
  const tri_trainer *t = &p->t;
  lengths            at = measure(t);
  double             sequences = ceil_share((double)tri_sequences(t, t->plan.samples), p->se.rt.world_size);
  tri_cost_pass      c = {.model = model_of(t, l),
                          .share = share_of(p, l),
                          .tokens = sequences * at.sequence,
                          .rows = sequences * at.rows,
                          .context = at.sequence / 2,
                          .times = 1};

  c.batches = batches_of(t, sequences, c.tokens);
  if (!learns) return c;
  c.times = (double)t->cfg->algo.ppo_epochs;
  c.trained = (double)tri_learner_trained_size(l);
  c.updates = (double)t->plan.mini_batches * c.times;
  c.frozen = tri_learner_has_adapters(t, l);
  c.recompute = p->cfg.model.recompute == TRI_CONFIG_RECOMPUTE_LAYER;
  c.offload =
      p->cfg.shard.offload == TRI_CONFIG_OFFLOAD_OPTIMIZER || p->cfg.shard.offload == TRI_CONFIG_OFFLOAD_ALL;
  return c;
}

/* Returns how often the policy scores all sequences before it learns. That is from the second mini-batch on.
 * It is for all mini-batches if the KL is part of the reward and the sampler's log-probabilities are
 * recomputed. A loss with a step statistic adds one more time. */
static double scored(const tri_trainer *t) {
  double n = (double)t->plan.mini_batches, times = tri_score_has_statistic(t) ? 1 : 0;
  bool   all = tri_has_reference(t) && t->opt.kl_where == TRI_KL_IN_REWARD &&
             t->cfg->run.sampler == TRI_CONFIG_RESCORE;

  if (!tri_has_answers(t)) return times;
  return times + (all ? 1 : (n - 1) / n);
}

static tri_cost_rollout rollout_of(const tri_plan *p) {
  const tri_trainer *t = &p->t;
  const tri_learner *l = &t->learner[TRI_POLICY];
  int                tensor = tri_ranks_of_model(t);
  double prompts = ceil_share((double)p->cfg.rollout.rollout_batch_size, p->se.rt.world_size / tensor),
         greedy = t->algo->advantage->reads & TRI_READS_GREEDY ? 1 : 0;

  return (tri_cost_rollout){.model = model_of(t, l),
                            .share = share_of(p, l),
                            .tensor = tensor,
                            .prompts = prompts,
                            .prompt_tokens = measure(t).prompt,
                            .answers = prompts * ((double)p->cfg.algo.num_generations + greedy),
                            .answer_tokens = (double)p->cfg.rollout.max_response_length,
                            .at_once = (double)t->plan.decode_full};
}

/* Sums of seconds. They use the machine's figures, scaled by the measured speed of the policy if there is
 * one. */
typedef struct sum {
  const tri_plan  *p;
  tri_cost_time    time;
  bool             measured;
  tri_cost_compute policy, by_figures; /* the policy's training pass, as measured and by the figures */
} sum;

static double factor(double measured, double figured) { return figured > 0 ? measured / figured : 1; }

static tri_cost_compute compute_of(const sum *s, const tri_cost_pass *c) {
  tri_cost_compute by = tri_cost_compute_of(&s->p->job.machine, c, NULL);

  if (!s->measured) return by;
  by.forward.each_s *= factor(s->policy.forward.each_s, s->by_figures.forward.each_s);
  by.backward.each_s *= factor(s->policy.backward.each_s, s->by_figures.backward.each_s);
  by.update_s = s->policy.update_s;
  by.pack_s = s->policy.pack_s;
  return by;
}

static void add(sum *s, const tri_cost_pass *c) {
  const tri_machine *m = &s->p->job.machine;
  tri_cost_compute   by = compute_of(s, c);

  s->time.learn += tri_cost_of_learn(m, &by, c);
  s->time.update += tri_cost_of_update(m, &by, c);
}

static void add_scores(sum *s, const tri_learner *l, double times) {
  tri_cost_pass c = pass_of(s->p, l, false);

  c.times = times;
  if (times > 0) add(s, &c);
}

/* Starts the sums with generation, and measures the speed of the policy. */
static tri_status begin(tri_plan *p, sum *s) {
  const tri_machine *m = &p->job.machine;
  bool               generates = p->t.source->generates;
  tri_cost_pass      learn = pass_of(p, &p->t.learner[TRI_POLICY], true);
  tri_cost_rollout   r = {.at_once = 0};

  if (generates) r = rollout_of(p);
  *s = (sum){.p = p, .by_figures = tri_cost_compute_of(m, &learn, generates ? &r : NULL)};
  s->policy = s->by_figures;
  if (!p->t.plan.like) /* advice needs the figures alone */
    TRI_TRY(tri_plan_measure(p, &learn, generates ? &r : NULL, &s->policy, &s->measured));
  if (s->measured)
    snprintf(p->job.figures, sizeof p->job.figures, "these cores%s",
             strstr(p->job.figures, "doctor") ? " and doctor's links" : ", measured now");
  if (generates) s->time.rollout = tri_cost_of_rollout(m, &s->policy, &r);
  return TRI_OK;
}

tri_status tri_plan_time(tri_plan *p) {
  const tri_trainer *t = &p->t;
  const tri_learner *policy = &t->learner[TRI_POLICY];
  double             beside = t->source->beside ? 2 : 1;
  sum                s;

  TRI_TRY(begin(p, &s));
  if (tri_has_reference(t))
    add_scores(&s, t->learner[TRI_REFERENCE].source ? &t->learner[TRI_REFERENCE] : policy, beside);
  if (t->learner[TRI_REWARD_MODEL].source) add_scores(&s, &t->learner[TRI_REWARD_MODEL], 1);
  add_scores(&s, policy, scored(t));
  for (const tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    if (!tri_learner_trains(l)) continue;
    tri_cost_pass c = pass_of(p, l, true);
    if (l == &t->learner[TRI_CRITIC]) add_scores(&s, l, 1);
    add(&s, &c);
  }
  s.time.all = s.time.rollout + s.time.learn + s.time.update;
  p->time = s.time;
  return TRI_OK;
}

void tri_plan_case(const tri_plan *p, tri_bench_case *out) {
  const tri_learner *policy = &p->t.learner[TRI_POLICY];
  tri_cost_pass      learn = pass_of(p, policy, true);
  tri_cost_rollout   r = {.at_once = 0};
  bool               generates = p->t.source->generates;
  double             passes = learn.batches / (double)p->t.plan.mini_batches;

  if (generates) r = rollout_of(p);
  *out = tri_bench_policy(p);
  out->plan = policy->plan;
  out->offload = learn.offload ? TRI_OFFLOAD_ELEMENTS : 0;
  out->ema_beta = p->cfg.algo.ema_beta;
  out->size = tri_plan_sizes(&learn, generates ? &r : NULL);
  out->passes = passes > 1 ? (int64_t)(passes + 0.5) : 1;
}

enum { START_S = 60 }; /* chosen. Launch, reading and distributing weights */

int64_t tri_plan_steps(const tri_plan *p) {
  double  save_s = (double)p->checkpoint_bytes / p->job.machine.disk_bytes_per_s;
  int64_t n = tri_cost_steps(p->job.walltime_s, p->time.all, START_S + save_s);

  return n < p->t.plan.steps || !p->t.plan.steps ? n : p->t.plan.steps;
}

double tri_plan_whole_s(const tri_plan *p) { return p->time.all * (double)p->t.plan.steps; }
