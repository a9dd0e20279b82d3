/* collect.c - one step's sequences on every rank: generated and rewarded, replayed, or SFT's; and evaluation.
 */
#include "io/data/rollout_file.h"
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The prompts of positions begin + k, begin + k + size, ... of a list of n that this rank answers. */
typedef struct share {
  tri_prompt         *prompt;
  const tri_example **example;
  int                 n;
} share;

static void free_share(share *s) {
  TRI_FREE(s->prompt);
  TRI_FREE(s->example);
}

static tri_status make_share(const tri_trainer *t, int64_t n, share *s) {
  int64_t room = n / tri_world_of(t)->size + 1;

  *s = (share){0};
  TRI_TRY(TRI_ALLOC(s->prompt, room));
  TRI_TRY(TRI_ALLOC(s->example, room));
  return TRI_OK;
}

static void add_to_share(share *s, const tri_example *e) {
  s->example[s->n] = e;
  s->prompt[s->n++] = (tri_prompt){e->id, e->token, e->n_token};
}

/* Answers being made, of all ranks, and what is shown of them. */
typedef struct work {
  tri_trainer *t;
  const char  *phase;             /* what the time is spent on */
  int64_t      before, here, all; /* of the rollout or the evaluation: made before, now, and in the end */
} work;

static void show_progress(void *ctx, int finished, int total) {
  const work *w = ctx;

  tri_screen_answers(w->t, w->phase, w->before + w->here * finished / total, w->all);
}

/* Collective over world. Answers to this rank's prompts; *halted: none, the run is told to stop. */
static tri_status sample(tri_trainer *t, const share *s, const tri_generate_opt *how, work *w,
                         tri_rollout *mine, bool *halted) {
  tri_generate_opt gen = *how;
  tri_halt_cause   cause = TRI_HALT_NOT;
  tri_status       st;

  gen.halt = tri_halt_watch;
  gen.halt_ctx = t->halt;
  gen.progress = show_progress;
  gen.progress_ctx = w;
  tri_halt_watch_begin(t->halt);
  st = tri_sampler_generate(t->sampling.sampler, s->prompt, s->n, &gen, t->se->stream, mine);
  st = tri_halt_watch_end(t->halt, st, &cause);
  *halted = cause != TRI_HALT_NOT;
  return st;
}

/* Collective over world. Answers to this rank's prompts, rewarded, then the whole step everywhere; none where
 * the run is told to stop. */
static tri_status answer(tri_trainer *t, const share *s, const tri_generate_opt *gen, work w,
                         tri_rollout *out) {
  tri_rollout mine = {.store = &t->mine};
  tri_status  st = TRI_OK;
  bool        halted;
  int         reward;

  tri_screen_phase(t, w.phase);
  tri_metric_begin(t->metrics, w.phase);
  TRI_TRY_DONE(sample(t, s, gen, &w, &mine, &halted));
  if (halted) {
    tri_metric_end(t->metrics, w.phase);
    tri_metric_forget(t->metrics, w.phase);
    goto done;
  }
  reward = tri_trace_phase(t->se->device->trace, "reward");
  TRI_TRY_DONE(tri_answers_reward(&mine, s->example, tri_source_tokenizer(t->learner[TRI_POLICY].source),
                                  t->reward, tri_world_of(t)));
  tri_trace_end(t->se->device->trace, reward, NULL);
  TRI_TRY_DONE(tri_rollout_exchange(&mine, tri_world_of(t), out));
  tri_metric_end(t->metrics, w.phase);
done:
  tri_rollout_free(&mine);
  return st;
}

static tri_status generate(tri_trainer *t, tri_rollout *out) {
  const tri_config *c = t->cfg;
  int64_t           n = c->rollout.rollout_batch_size;
  share             s;
  tri_status        st = make_share(t, n, &s);

  for (int64_t k = tri_world_of(t)->rank; st == TRI_OK && k < n; k += tri_world_of(t)->size) {
    int64_t i = tri_dataset_at(t->data, c->run.seed, c->data.shuffle, t->progress.cursor + k);
    add_to_share(&s, tri_dataset_get(t->data, i));
  }
  if (st == TRI_OK)
    st = answer(t, &s, &t->sampling.step, (work){t, "rollout", 0, t->plan.samples, t->plan.samples}, out);
  free_share(&s);
  return st;
}

/* The example a replayed group answers; ids ascend. NULL: none. */
static const tri_example *example_of(const tri_dataset *d, int64_t id) {
  int64_t low = 0, high = tri_dataset_count(d);

  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (tri_dataset_get(d, middle)->id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low < tri_dataset_count(d) && tri_dataset_get(d, low)->id == id ? tri_dataset_get(d, low) : NULL;
}

/* What a replay without rewards is judged by. */
typedef struct unjudged {
  const tri_example **example; /* [groups] the line of data.train each answers */
  float              *brought; /* [n_seq] rewards of some lines, else NaN */
} unjudged;

static tri_status find_examples(const tri_trainer *t, int64_t step, const tri_rollout *r, unjudged *u) {
  TRI_TRY(TRI_ALLOC(u->example, r->n_seq / r->group));
  TRI_TRY(TRI_ALLOC(u->brought, r->n_seq));
  memcpy(u->brought, r->reward, (size_t)r->n_seq * sizeof *u->brought);
  for (int g = 0; g < r->n_seq / r->group; g++) {
    u->example[g] = example_of(t->data, r->prompt_id[g * r->group]);
    if (!u->example[g])
      TRI_FAIL(TRI_EINPUT,
               "%s: step %lld, group %d has no reward and prompt_id %lld, which is no line of data.train "
               "(counted from 0)",
               t->cfg->rollout.replay, (long long)step, g, (long long)r->prompt_id[g * r->group]);
  }
  return TRI_OK;
}

/* Collective over world. Rewards the lines do not bring, from the truths of data.train; those they bring
 * stay. */
static tri_status reward_replay(tri_trainer *t, int64_t step, tri_rollout *r) {
  unjudged   u = {0};
  tri_status st = TRI_OK;

  if (r->has_reward) return TRI_OK;
  if (!t->data || !t->reward)
    TRI_FAIL(TRI_EINPUT,
             "%s: lines without a reward need data.train (prompt_id is its line) and a reward in the deck",
             t->cfg->rollout.replay);
  TRI_TRY_DONE(tri_agree(tri_world_of(t), find_examples(t, step, r, &u)));
  TRI_TRY_DONE(tri_answers_reward(r, u.example, tri_source_tokenizer(t->learner[TRI_POLICY].source),
                                  t->reward, tri_world_of(t)));
  for (int q = 0; q < r->n_seq; q++) {
    if (isnan(u.brought[q])) continue;
    r->reward[q] = u.brought[q];
    r->failed[q] = 0;
  }
done:
  TRI_FREE(u.example);
  TRI_FREE(u.brought);
  return st;
}

/* Replayed lines: every rank reads them all. */
static tri_status replay(tri_trainer *t, int64_t step, tri_rollout *out) {
  const tri_config *c = t->cfg;
  const char       *name[TRI_REWARDS_MAX];
  tri_replay_opt    opt = {.group = (int)c->algo.num_generations,
                           .max_answers = (int)t->plan.samples,
                           .max_line_bytes = c->data.max_line_bytes,
                           .vocab = tri_source_shape(t->learner[TRI_POLICY].source)->V,
                           .max_response = c->rollout.max_response_length,
                           .n_reward = c->reward.n,
                           .reward_name = name};

  for (int i = 0; i < c->reward.n; i++) name[i] = tri_reward_set_name(t->reward, i);
  TRI_TRY(tri_rollout_file_read(c->rollout.replay, step, &opt, 0, 1, out));
  if (out->n_seq != t->plan.samples)
    TRI_FAIL(TRI_EINPUT, "%s: step %lld has %d lines, the deck says %lld = %lld prompts x %lld generations",
             c->rollout.replay, (long long)step, out->n_seq, (long long)t->plan.samples,
             (long long)c->rollout.rollout_batch_size, (long long)c->algo.num_generations);
  for (int q = 0; q < out->n_seq; q++)
    if (out->start[q + 1] - out->start[q] > t->plan.max_tokens)
      TRI_FAIL(TRI_EINPUT,
               "%s: step %lld, answer %d has %lld tokens, more than any line had at the start (%lld)",
               c->rollout.replay, (long long)step, q, (long long)(out->start[q + 1] - out->start[q]),
               (long long)t->plan.max_tokens);
  return TRI_OK;
}

/* The next train_batch_size examples. */
static tri_status demonstrations(tri_trainer *t, tri_rollout *out) {
  int64_t n = t->plan.samples, n_tok = 0;

  for (int64_t k = 0; k < n; k++)
    n_tok += tri_dataset_get(t->data, tri_dataset_at(t->data, t->cfg->run.seed, t->cfg->data.shuffle,
                                                     t->progress.cursor + k))
                 ->n_token;
  TRI_TRY(tri_rollout_make((int)n, n_tok, 1, 0, out));
  for (int64_t k = 0; k < n; k++) {
    const tri_example *e = tri_dataset_get(
        t->data, tri_dataset_at(t->data, t->cfg->run.seed, t->cfg->data.shuffle, t->progress.cursor + k));
    out->prompt_id[k] = e->id;
    out->prompt_len[k] = e->n_prompt;
    out->start[k + 1] = out->start[k] + e->n_token;
    memcpy(out->token + out->start[k], e->token, (size_t)e->n_token * 4);
  }
  return TRI_OK;
}

tri_status tri_collect(tri_trainer *t, int64_t step, tri_rollout *out) {
  if (!(t->algo->needs & TRI_NEEDS_ANSWERS)) return tri_agree(tri_world_of(t), demonstrations(t, out));
  if (!t->cfg->rollout.replay) return generate(t, out);
  TRI_TRY(tri_agree(tri_world_of(t), replay(t, step, out)));
  return reward_replay(t, step, out);
}

/* ---- writing rollouts ---- */

/* Rank 0. Prompts and answers as text beside the tokens, where there is a tokenizer. */
static tri_status write_rollout(tri_trainer *t, int64_t step, const tri_rollout *r, tri_rollout_text *text,
                                tri_text *buf, int64_t *at) {
  const tri_tokenizer *tok = tri_source_tokenizer(t->learner[TRI_POLICY].source);
  const char          *name[TRI_REWARDS_MAX];
  char                 folder[TRI_CKPT_PATH_BYTES + 16];

  for (int i = 0; i < r->n_reward; i++) name[i] = t->reward ? tri_reward_set_name(t->reward, i) : "";
  for (int q = 0; tok && q < r->n_seq; q++) {
    const int32_t *token = r->token + r->start[q];
    int64_t        n = r->start[q + 1] - r->start[q];
    at[2 * q] = (int64_t)buf->len;
    TRI_TRY(tri_answers_decode(tok, token, r->prompt_len[q], false, buf));
    at[2 * q + 1] = (int64_t)buf->len;
    TRI_TRY(tri_answers_decode(tok, token + r->prompt_len[q], n - r->prompt_len[q], true, buf));
    at[2 * q + 2] = (int64_t)buf->len;
  }
  for (int q = 0; tok && q < r->n_seq; q++)
    text[q] =
        (tri_rollout_text){buf->data + at[2 * q], buf->data + at[2 * q + 1],
                           (size_t)(at[2 * q + 1] - at[2 * q]), (size_t)(at[2 * q + 2] - at[2 * q + 1])};
  snprintf(folder, sizeof folder, "%s/rollouts", t->cfg->run.output);
  return tri_rollout_file_write(folder, step, r, name, tok && buf->data ? text : NULL);
}

bool tri_collect_due(const tri_trainer *t, int64_t step) {
  int64_t every = t->cfg->rollout.save_every;

  return (t->algo->needs & TRI_NEEDS_ANSWERS) && every > 0 && step % every == 0;
}

tri_status tri_collect_save(tri_trainer *t, int64_t step, const tri_rollout *r) {
  tri_rollout_text *text = NULL;
  int64_t          *at = NULL;
  tri_text          buf = {0};
  tri_status        st = TRI_OK;

  if (tri_world_of(t)->rank == 0) {
    st = TRI_ALLOC(text, r->n_seq);
    if (st == TRI_OK) st = TRI_ALLOC(at, 2 * (int64_t)r->n_seq + 1);
    if (st == TRI_OK) st = write_rollout(t, step, r, text, &buf, at);
  }
  TRI_FREE(text);
  TRI_FREE(at);
  tri_text_free(&buf);
  st = tri_agree(tri_world_of(t), st);
  if (st != TRI_EFILE && st != TRI_EINPUT) return st; /* TRI_EINPUT: an answer that cannot be decoded */
  if (tri_world_of(t)->rank == 0)
    tri_log(TRI_LOG_WARN, "step %lld: the rollout is not saved: %s; the run goes on", (long long)step,
            tri_error_message());
  tri_error_clear();
  return TRI_OK;
}

/* ---- evaluation ---- */

/* pass@1: the share of answers that get the best possible reward, all weights summed. */
static float full_reward(const tri_config *c) {
  double sum = 0;

  for (int i = 0; i < c->reward.n; i++)
    if (c->reward.item[i].weight > 0) sum += c->reward.item[i].weight;
  return (float)(sum * (1 - 1e-6)); /* rewards are sums rounded to f32 */
}

/* What an evaluation adds up. */
typedef struct eval_sum {
  double reward, pass, length, answers;
} eval_sum;

/* Collective over world. Held-out prompts begin .. end - 1; none where the run is told to stop. */
static tri_status evaluate_some(tri_trainer *t, int64_t begin, int64_t end, eval_sum *sum) {
  tri_rollout all = {.store = &t->whole}, *r = &all;
  float       full = full_reward(t->cfg);
  int64_t     each = t->sampling.eval.group;
  work        w = {t, "eval", begin * each, (end - begin) * each, t->plan.eval_prompts * each};
  share       s;
  tri_status  st;

  TRI_TRY(make_share(t, end - begin, &s));
  for (int64_t k = begin + tri_world_of(t)->rank; k < end; k += tri_world_of(t)->size)
    add_to_share(&s, tri_dataset_get(t->eval_data, k));
  TRI_TRY_DONE(answer(t, &s, &t->sampling.eval, w, r));
  if (tri_halt_decided(t->halt)) goto done;
  tri_answers_failed(r, t->reward, tri_world_of(t)->rank == 0);
  for (int q = 0; q < r->n_seq; q++) {
    sum->reward += (double)r->reward[q];
    sum->pass += r->reward[q] >= full;
    sum->length += (double)(r->start[q + 1] - r->start[q] - r->prompt_len[q]);
    sum->answers++;
  }
done:
  tri_rollout_free(r);
  free_share(&s);
  return st;
}

tri_status tri_evaluate(tri_trainer *t) {
  eval_sum       sum = {0};
  tri_halt_cause halt;

  TRI_TRY(tri_halt_ask(t->halt, &halt));
  for (int64_t at = 0; at < t->plan.eval_prompts && !tri_halt_decided(t->halt); at += t->plan.eval_at_once) {
    int64_t end =
        at + t->plan.eval_at_once < t->plan.eval_prompts ? at + t->plan.eval_at_once : t->plan.eval_prompts;
    TRI_TRY(evaluate_some(t, at, end, &sum));
  }
  t->progress.eval_due = tri_halt_decided(t->halt) != TRI_HALT_NOT;
  if (t->progress.eval_due) return TRI_OK;
  tri_metric_add(t->metrics, "eval_reward_mean", TRI_METRIC_RANK0, sum.reward / sum.answers);
  tri_metric_add(t->metrics, "eval_pass_at_1", TRI_METRIC_RANK0, sum.pass / sum.answers);
  tri_metric_add(t->metrics, "eval_response_length_mean_tokens", TRI_METRIC_RANK0, sum.length / sum.answers);
  return TRI_OK;
}
