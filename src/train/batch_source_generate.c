/* batch_source_generate.c - makes a step's sequences with the policy. All ranks answer prompts and reward the
 * answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "batch_source.h"

#include "base/notice.h"
#include "comm/halt.h"
#include "generate/by_need.h"
#include "rollout/select.h"
#include "screen.h"
#include "train.h"

/* The prompts of a step, the same on every rank. */
typedef struct prompts {
  tri_prompt         *prompt;  /* [n] by place, like the data lines */
  const tri_example **example; /* [n] */
  tri_answers        *answers; /* this rank's answers that wait for their rewards */
  int                 n;
} prompts;

static void free_prompts(prompts *s) {
  tri_answers_close(&s->answers);
  TRI_FREE(s->prompt);
  TRI_FREE(s->example);
}

/* Collective over world. */
static tri_status make_prompts(const tri_trainer *t, const tri_ask *ask, prompts *s) {
  tri_status st;

  *s = (prompts){.n = (int)ask->n};
  st = TRI_ALLOC(s->prompt, ask->n);
  if (st == TRI_OK) st = TRI_ALLOC(s->example, ask->n);
  TRI_TRY(tri_agree(tri_world_of(t), st));
  for (int k = 0; k < s->n; k++) {
    int64_t            i = tri_dataset_at(ask->data, t->cfg->run.seed, ask->shuffle, ask->begin + k);
    const tri_example *e = tri_dataset_get(ask->data, i);
    s->example[k] = e;
    s->prompt[k] = (tri_prompt){e->id, e->token, e->n_token};
  }
  return TRI_OK;
}

/* Context of the progress callback, for the live line. */
typedef struct work {
  tri_trainer   *t;
  const tri_ask *ask;
} work;

static void show_progress(void *ctx, int finished, int total) {
  const work    *w = ctx;
  const tri_ask *ask = w->ask;

  tri_screen_answers(w->t, ask->phase, ask->before + ask->n * ask->how->group * finished / total, ask->all);
}

/* Collective over world. Opens the answers. Rewards that run beside generation get each answer as it ends. */
static tri_status open_answers(tri_trainer *t, prompts *s, int group) {
  const tri_source     *source = t->learner[TRI_POLICY].source;
  const tri_answers_opt o = {.set = t->reward,
                             .tokenizer = tri_source_tokenizer(source),
                             .model = tri_source_name(source),
                             .example = s->example,
                             .n = s->n * group,
                             .group = group,
                             .end = tri_source_eos(source)->id,
                             .n_end = tri_source_eos(source)->n};

  return tri_agree(tri_world_of(t), tri_answers_open(&o, &s->answers));
}

/* Adds the counts of the last generation to those of the step. */
static void count_generation(tri_trainer *t) {
  tri_sampler_news now, *sum = &t->sampling.did;
  const tri_comm  *tensor = tri_model_tensor(t->learner[TRI_POLICY].model);

  if (tensor && tensor->rank > 0) return; /* the model's first rank counts */
  tri_sampler_tell(t->sampling.sampler, &now);
  sum->done += now.done;
  sum->preempted += now.preempted;
  sum->recomputed += now.recomputed;
  sum->row_steps += now.row_steps;
  sum->row_steps_all += now.row_steps_all;
}

/* Collective over world. Reports the counts of the step's generations on all ranks. */
static tri_status report_generations(tri_trainer *t) {
  const tri_sampler_news *did = &t->sampling.did;
  double                  x[] = {(double)did->preempted, (double)did->recomputed, (double)did->row_steps,
                                 (double)did->row_steps_all};

  TRI_TRY(tri_host_sum(tri_world_of(t), x, 4));
  tri_metric_add(t->metrics, "preempted_answers", TRI_METRIC_RANK0, x[0]);
  tri_metric_add(t->metrics, "recomputed_tokens", TRI_METRIC_RANK0, x[1]);
  tri_metric_add(t->metrics, "rollout_use_ratio", TRI_METRIC_RANK0, x[3] > 0 ? x[2] / x[3] : 1);
  return TRI_OK;
}

/* Collective over world. Generates answers to the prompts, which the ranks take by need. *mine receives this
 * rank's answers. If the run is told to stop, *halted is true and there are none. */
static tri_status sample(tri_trainer *t, prompts *s, const tri_ask *ask, tri_rollout *mine, bool *halted) {
  work             w = {t, ask};
  tri_generate_opt how = *ask->how;
  tri_halt_cause   cause = TRI_HALT_NOT;
  tri_sampler_news did;
  tri_status       st;

  how.halt = tri_halt_watch;
  how.halt_ctx = t->halt;
  how.progress = show_progress;
  how.progress_ctx = &w;
  TRI_TRY(open_answers(t, s, how.group));
  how.finished = tri_answers_put;
  how.finished_ctx = s->answers;
  tri_halt_watch_begin(t->halt);
  st = tri_generate_by_need(t->sampling.sampler, tri_world_of(t), s->prompt, s->n, &how, t->se->stream, mine);
  if (st == TRI_OK) count_generation(t);
  tri_sampler_tell(t->sampling.sampler, &did);
  if (st != TRI_OK && did.apart) return st;
  tri_span wait = tri_span_begin(&t->spans, "wait for rewards", 0);
  if (st == TRI_OK) /* A reward program may take long. */
    tri_reward_set_await(t->reward, tri_halt_watch, t->halt);
  tri_span_end(&t->spans, &wait);
  st = tri_halt_watch_end(t->halt, st, &cause);
  *halted = cause != TRI_HALT_NOT;
  return st;
}

/* Collective over world. Completes the rewards of this rank's answers. */
static tri_status reward(tri_trainer *t, prompts *s, tri_rollout *mine) {
  tri_span span = tri_span_begin(&t->spans, "reward", 0);

  TRI_TRY(tri_answers_collect(s->answers, mine, tri_world_of(t)));
  tri_answers_close(&s->answers);
  tri_span_end(&t->spans, &span);
  return TRI_OK;
}

/* The reward of a greedy answer, and whether a reward failed to judge it. */
typedef struct greedy_answer {
  float earned;
  bool  failed;
} greedy_answer;

/* Collective over world. Gives every rank the greedy answers in r of all ranks, by place. Each place is on
 * one rank, so the sums are exact. */
static tri_status spread(tri_trainer *t, const tri_rollout *r, greedy_answer *out, int n) {
  double    *x = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_agree(tri_world_of(t), TRI_ALLOC(x, 2 * (int64_t)n)));
  for (int q = 0; q < r->n_seq; q++) {
    x[2 * r->place[q]] = r->reward[q];
    x[2 * r->place[q] + 1] = r->failed[q] != 0;
  }
  TRI_TRY_DONE(tri_host_sum(tri_world_of(t), x, 2 * (int64_t)n));
  for (int k = 0; k < n; k++) out[k] = (greedy_answer){(float)x[2 * k], x[2 * k + 1] > 0};
done:
  TRI_FREE(x);
  return st;
}

/* Collective over world. Makes and rewards a greedy answer to each prompt, into out [s->n] on every rank. If
 * *halted, there are none. */
static tri_status answer_greedily(tri_trainer *t, prompts *s, const tri_ask *ask, greedy_answer *out,
                                  bool *halted) {
  tri_rollout      r = {.store = &t->mine};
  tri_generate_opt how = *ask->how;
  tri_ask          greedy = *ask;
  tri_status       st = TRI_OK;

  how.rule = (tri_sample_rule){0, 1.0f, 0, t->cfg->run.seed};
  how.group = 1;
  greedy.how = &how;
  TRI_TRY_DONE(sample(t, s, &greedy, &r, halted));
  if (*halted) goto done;
  TRI_TRY_DONE(reward(t, s, &r));
  TRI_TRY_DONE(spread(t, &r, out, s->n));
done:
  tri_rollout_clear(&r);
  return st;
}

/* Collective over world. Makes and rewards all answers to the prompts. *mine receives those of this rank. If
 * *halted, there are none. */
static tri_status answer(tri_trainer *t, prompts *s, const tri_ask *ask, tri_rollout *mine, bool *halted) {
  tri_ask        sampled = *ask;
  greedy_answer *greedy = NULL;
  tri_status     st = TRI_OK;

  *halted = false;
  TRI_TRY_DONE(tri_agree(tri_world_of(t), TRI_ALLOC(greedy, s->n)));
  if (ask->greedy) TRI_TRY_DONE(answer_greedily(t, s, ask, greedy, halted));
  if (ask->greedy) sampled.before += ask->n;
  if (!*halted) TRI_TRY_DONE(sample(t, s, &sampled, mine, halted));
  if (*halted) goto done;
  TRI_TRY_DONE(reward(t, s, mine));
  for (int q = 0; ask->greedy && q < mine->n_seq; q++) {
    const greedy_answer *g = &greedy[mine->place[q]];
    mine->baseline[q] = g->earned;
    if (g->failed && q % mine->group == 0) mine->failed[q] |= TRI_FAILED_GREEDY;
  }
done:
  TRI_FREE(greedy);
  return st;
}

tri_status tri_batch_source_ask(tri_trainer *t, const tri_ask *ask, tri_rollout *out) {
  tri_rollout mine = {.store = &t->mine};
  prompts     s;
  tri_span    span;
  bool        halted;
  tri_status  st = make_prompts(t, ask, &s);

  out->store = &t->whole;
  TRI_TRY_DONE(st);
  span = tri_span_begin(&t->spans, ask->phase, TRI_SPAN_TIMED | (ask->before ? 0 : TRI_SPAN_SHOWN));
  TRI_TRY_DONE(answer(t, &s, ask, &mine, &halted));
  if (halted) {
    tri_span_give_up(&t->spans, &span);
    goto done;
  }
  TRI_TRY_DONE(tri_rollout_exchange(&mine, tri_world_of(t), out));
  tri_span_end(&t->spans, &span);
done:
  tri_rollout_clear(&mine);
  free_prompts(&s);
  return st;
}

/* ---- groups with different rewards ---- */

bool tri_batch_source_selects(const tri_trainer *t) {
  return t->source->generates && t->cfg->rollout.dynamic_sampling;
}

static void report(tri_trainer *t, const tri_selection *s, int64_t asked, int64_t asks) {
  int64_t wanted = t->cfg->rollout.rollout_batch_size;
  bool    fails = 2 * t->sampling.failed > asked * t->sampling.step.group; /* chosen, as in report/health.c */

  tri_metric_add(t->metrics, "dropped_groups", TRI_METRIC_RANK0, (double)s->dropped);
  tri_metric_add(t->metrics, "extra_batches", TRI_METRIC_RANK0, (double)(asks - 1));
  if (!s->lacks || t->sampling.said_filled) return;
  t->sampling.said_filled = true;
  if (tri_world_of(t)->rank == 0)
    tri_warn(
        "batch_not_filled",
        "step %lld: of %lld prompts only %lld have answers with different rewards, fewer than "
        "rollout.rollout_batch_size = %lld.\n"
        "  The step learns from these alone. This is reported once, and dropped_groups counts the other "
        "prompts.\n  %s",
        (long long)t->progress.step + 1, (long long)asked, (long long)(wanted - s->lacks), (long long)wanted,
        fails ? "Most answers got no reward (reward_failures). The warning of the first failure gives the "
                "reason."
              : "Give prompts of medium difficulty, or raise rollout.max_extra_batches, rollout.temperature "
                "or algo.num_generations.");
}

/* Collective over world. Answers the prompts of the first ask and then further ones, until the step has
 * enough groups or rollout.max_extra_batches is reached. In the second case, other groups of the last ask
 * fill the step. The last ask always has enough. */
static tri_status collect(tri_trainer *t, const tri_ask *first, tri_rollout *out, int64_t *lines) {
  tri_selection s = {.step = out, .lacks = (int)first->n};
  tri_rollout   asked = {0};
  tri_ask       ask = *first;
  int64_t       asks = 0;
  tri_status    st = TRI_OK;

  *lines = 0;
  t->sampling.failed = 0;
  out->store = &t->sampling.kept;
  for (; s.lacks && asks <= t->cfg->rollout.max_extra_batches; asks++) {
    tri_rollout_clear(&asked);
    ask.begin = first->begin + *lines;
    ask.before = *lines * (ask.how->group + ask.greedy);
    ask.all = ask.before + first->all;
    TRI_TRY_DONE(tri_batch_source_ask(t, &ask, &asked));
    if (tri_halt_decided(t->halt)) goto done;
    *lines += ask.n;
    t->sampling.failed += tri_answers_failed(&asked, t->reward, tri_world_of(t)->rank == 0);
    TRI_TRY_DONE(tri_select_take(&s, &asked));
  }
  report(t, &s, *lines, asks);
  if (s.lacks) TRI_TRY_DONE(tri_select_fill(&s, &asked));
done:
  tri_rollout_clear(&asked);
  return st;
}

static tri_status next(tri_trainer *t, int64_t step, tri_rollout *out, int64_t *lines) {
  const tri_config *c = t->cfg;
  tri_ask           ask = {.data = t->data,
                           .shuffle = c->data.shuffle,
                           .begin = t->progress.cursor,
                           .n = c->rollout.rollout_batch_size,
                           .how = &t->sampling.step,
                           .phase = "rollout",
                           .all = t->plan.samples,
                           .greedy = t->algo->advantage->reads & TRI_READS_GREEDY};

  if (ask.greedy) ask.all += ask.n;
  (void)step; /* the cursor chooses the prompts */
  t->sampling.did = (tri_sampler_news){0};
  *lines = ask.n;
  if (tri_batch_source_selects(t))
    TRI_TRY(collect(t, &ask, out, lines));
  else
    TRI_TRY(tri_batch_source_ask(t, &ask, out));
  return tri_halt_decided(t->halt) ? TRI_OK : report_generations(t);
}

static tri_status measure(tri_trainer *t, tri_longest *l) {
  l->prompt = tri_dataset_stats(t->data)->longest_prompt;
  l->learn = l->prompt + t->cfg->rollout.max_response_length;
  return TRI_OK;
}

const tri_batch_source tri_batch_source_generate = {
    .generates = true, .together = 1, .gap_from = "sampler", .measure = measure, .next = next};
