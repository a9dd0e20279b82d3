/* trainer.c - opens all parts of a run (options, inputs, models, sampler, memory) and closes them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/notice.h"
#include "comm/halt.h"
#include "comm/slurm.h"
#include "evaluate.h"
#include "generate/fit.h"
#include "inputs.h"
#include "model/kv.h"
#include "report/runlog.h"
#include "report/timeline.h"
#include "save.h"
#include "score.h"
#include "screen.h"
#include "state.h"
#include "batch_source.h"
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* True if this run generates answers, for learning or in evaluations. */
static bool wants_sampler(const tri_trainer *t) {
  return t->source->generates || (t->cfg->eval.steps > 0 && tri_evaluates_answers(t));
}

static const tri_batch_source *choose_source(const tri_config *c, bool evaluates) {
  if (c->algo.row.needs & TRI_NEEDS_PAIRS) return &tri_batch_source_pairs;
  if (c->algo.row.needs & TRI_NEEDS_LABELLED) return &tri_batch_source_labelled;
  if (evaluates || !(c->algo.row.needs & TRI_NEEDS_ANSWERS)) return &tri_batch_source_data;
  return c->rollout.replay ? &tri_batch_source_replay : &tri_batch_source_generate;
}

/* ---- options ---- */

static void set_options(tri_trainer *t) {
  const tri_config *c = t->cfg;

  t->sampling.inv_temperature =
      tri_has_answers(t) && c->rollout.temperature > 0 ? 1.0f / (float)c->rollout.temperature : 1.0f;
  t->sampling.step = (tri_generate_opt){
      .rule = {(float)c->rollout.temperature, (float)c->rollout.top_p, (int)c->rollout.top_k, c->run.seed},
      .max_new = c->rollout.max_response_length,
      .group = (int)c->algo.num_generations};
  t->sampling.eval = t->sampling.step;
  t->sampling.eval.rule = (tri_sample_rule){(float)c->eval.temperature, 1.0f, 0, c->run.seed};
  t->sampling.eval.group = (int)c->eval.num_generations;
}

/* ---- models ---- */

static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

/* Chosen. Answers generated together, and lines evaluated together, unless a step has more. */
enum { EVAL_ANSWERS = 1024, EVAL_LINES = 1024 };

/* Returns the number of lines evaluated together. Every rank has one forward pass of them, or as many as a
 * step gives it. */
static int64_t lines_at_once(const tri_trainer *t, const tri_longest *l) {
  int64_t micro = t->plan.batch.micro_batch_size, each = tri_sequences(t, 1) * l->learn,
          pass = micro ? micro : at_least(t->plan.packed / each, 1), n = t->se->rt.world_size * pass;

  if (n > EVAL_LINES) n = EVAL_LINES;
  return at_least(n, t->plan.samples);
}

static tri_status plan_eval(tri_trainer *t, const tri_longest *l) {
  const tri_config *c = t->cfg;
  tri_step_plan    *p = &t->plan;
  int64_t           answers = at_least(tri_sequences(t, p->samples), EVAL_ANSWERS) / c->eval.num_generations,
          prompts = 0, lines = 0;

  if (!t->eval.data && !t->eval.lines) return TRI_OK;
  TRI_TRY(tri_evaluate_plan(t));
  p->eval_prompts = p->eval_lines = 0;
  for (int i = 0; i < p->n_eval; i++) {
    p->eval_prompts += p->eval[i].prompts.n;
    p->eval_lines += p->eval[i].lines.n;
    prompts = at_least(prompts, p->eval[i].prompts.n);
    lines = at_least(lines, p->eval[i].lines.n);
  }
  p->eval_at_once = answers < prompts ? at_least(answers, 1) : prompts;
  if (!lines) return TRI_OK;
  p->eval_lines_at_once = lines_at_once(t, l);
  if (p->eval_lines_at_once > lines) p->eval_lines_at_once = lines;
  return tri_evaluate_lines_plan(t);
}

/* Returns one rank's part of so many prompts, if each model of so many ranks may have `parts` even parts of
 * them. */
static int64_t part_of(const tri_trainer *t, int64_t prompts, int64_t parts) {
  int64_t R = t->se->rt.world_size / t->se->place.tensor, part = (prompts + R - 1) / R * parts;

  return part < prompts ? part : prompts;
}

/* Returns the larger number of one rank's answers in a step and in an evaluation. */
static int64_t answers_of(const tri_trainer *t, int64_t parts) {
  int64_t n = 0;

  if (t->source->generates)
    n = part_of(t, t->cfg->rollout.rollout_batch_size, parts) * t->cfg->algo.num_generations;
  if (!wants_sampler(t)) return n;
  return at_least(n, part_of(t, t->plan.eval_at_once, parts) * t->cfg->eval.num_generations);
}

/* An even part, and the most of a fast rank. Chosen: with twice its part, it makes up for a rank that stands
 * still. */
static int64_t answers_here(const tri_trainer *t) { return answers_of(t, 1); }
static int64_t most_answers_here(const tri_trainer *t) { return answers_of(t, 2); }

/* Returns the inputs of all losses as flags. */
static unsigned staging_reads(const tri_trainer *t) {
  unsigned reads = tri_has_reference(t) ? TRI_LOSS_REFERENCE : 0;

  if (t->opt.is_cap > 0) reads |= TRI_LOSS_ROLL_LOGP;
  for (const tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    if (l->source && l->loss) reads |= l->loss->reads;
  return reads;
}

/* True if the run learns from lines of this data set, and some lines have tokens without loss behind the
 * prompt. */
static bool learns_conversation(const tri_trainer *t, const tri_dataset *d) {
  return d && !t->source->generates && tri_dataset_stats(d)->n_conversation > 0;
}

/* Returns the optional arrays of this run's sequences, as flags. */
static unsigned rollout_columns(const tri_trainer *t) {
  unsigned columns = tri_score_has_statistic(t) ? TRI_COLUMN_SEEN : 0;

  if (staging_reads(t) & TRI_LOSS_RETURN) columns |= TRI_COLUMN_CRITIC;
  if (learns_conversation(t, t->data) || learns_conversation(t, t->eval.lines)) columns |= TRI_COLUMN_MARK;
  return staging_reads(t) & TRI_LOSS_ROLL_LOGP ? columns | TRI_COLUMN_ROLL_LOGP : columns;
}

/* Plans host memory for the sequences of a step or an evaluation, each of the largest possible length. A
 * replay allocates its sequences while reading. */
static tri_status plan_rollouts(tri_trainer *t, const tri_longest *l) {
  const tri_config *c = t->cfg;
  tri_ledger       *ledger = t->se->ledger;
  int64_t eval = wants_sampler(t) ? t->plan.eval_at_once * c->eval.num_generations : 0, most = l->learn,
          lines = tri_sequences(t, t->plan.eval_lines_at_once),
          answer = l->prompt + c->rollout.max_response_length;
  int64_t step = tri_sequences(t, t->plan.samples) * (t->source->beside ? 2 : 1), mine = most_answers_here(t),
          n = at_least(t->source->own_memory ? 0 : step, at_least(eval, lines));

  if (eval) most = at_least(most, answer);
  if (n > INT32_MAX / 2)
    TRI_FAIL(TRI_ECONFIG, "%lld samples at once are more than this program handles", (long long)n);
  bool             selects = tri_batch_source_selects(t);
  tri_rollout_size all = {(int)n, c->reward.n, t->se->rt.world_size, n * most,
                          selects ? 0 : rollout_columns(t)};
  tri_rollout_size kept = {(int)step, c->reward.n, 1, step * l->learn, rollout_columns(t)};
  tri_rollout_size own = {(int)mine, c->reward.n, 1, mine * answer, 0};
  if (n)
    TRI_TRY(tri_rollout_store_plan(ledger, selects ? TRI_PHASE_ROLLOUT : TRI_PHASE_ALWAYS,
                                   selects ? "answers to select from" : "sequences of a step", &all, mine > 0,
                                   &t->whole));
  if (selects)
    TRI_TRY(tri_rollout_store_plan(ledger, TRI_PHASE_ALWAYS, "sequences of a step", &kept, false,
                                   &t->sampling.kept));
  if (mine)
    TRI_TRY(tri_rollout_store_plan(ledger, TRI_PHASE_ROLLOUT, "answers of this rank", &own, true, &t->mine));
  if (!tri_score_shares(t)) return TRI_OK;
  return tri_ledger_add(ledger, TRI_MEM_HOST, TRI_PHASE_LEARN, false, "sequences of a step",
                        (size_t)(step * l->learn) * sizeof *t->token_sum, (void **)&t->token_sum);
}

/* Returns the most answers decoded at once by a rank. */
static int64_t plan_decode(const tri_trainer *t) {
  int64_t n = at_least(answers_here(t), 1), asked = t->cfg->rollout.max_sequences;

  if (asked) return asked < n ? asked : n;
  return tri_sampler_most(t->se->device, n);
}

/* Most tokens and rows of one batch in learning, decoding and prefill. */
typedef struct batch_space {
  int64_t learn, learn_rows, decode, prefill;
} batch_space;

static tri_status plan_batches(tri_trainer *t, const tri_longest *l, batch_space *b) {
  const tri_config *c = t->cfg;
  int64_t           micro = tri_sequences(t, t->plan.batch.micro_batch_size),
          least = tri_sequences(t, 1) * l->learn; /* tokens of the longest sample */

  *b = (batch_space){.learn = micro ? micro * l->learn : t->plan.packed};
  if (b->learn < least)
    TRI_FAIL(TRI_ECONFIG, "train.max_tokens_per_gpu = %lld: the longest sequence can have %lld tokens%s",
             (long long)b->learn, (long long)least,
             t->source->beside ? " (the longest prompt with the longest answer, possibly of another line)"
                               : "");
  b->learn_rows = b->learn;
  t->plan.pass_tokens = b->learn;
  if (t->source->generates && micro) b->learn_rows = micro * c->rollout.max_response_length;
  if (!wants_sampler(t)) return TRI_OK;
  b->decode = plan_decode(t);
  b->prefill = tri_sampler_prefill(b->decode, l->prompt);
  return TRI_OK;
}

/* Returns the tokens of a batch for the reward model. */
static int64_t judge_tokens(const tri_trainer *t, const batch_space *b, const tri_longest *l) {
  return at_least(b->learn, l->prompt + t->cfg->rollout.max_response_length);
}

/* Returns the elements that are on the device at once if the state stays in host memory, or 0 without
 * offload. */
static int64_t offload(const tri_config *c, const tri_learner *l) {
  tri_config_offload own = l->train ? TRI_CONFIG_OFFLOAD_OPTIMIZER : TRI_CONFIG_OFFLOAD_FROZEN;

  return c->shard.offload == TRI_CONFIG_OFFLOAD_ALL || c->shard.offload == own ? TRI_OFFLOAD_ELEMENTS : 0;
}

/* Returns the tokens of the longest sequence that any model of this run may read. */
static int64_t longest_sequence(const tri_trainer *t, const tri_longest *l) {
  return wants_sampler(t) ? at_least(l->learn, l->prompt + t->cfg->rollout.max_response_length) : l->learn;
}

/* On rank 0, warns if the policy's longrope factors differ from those of transformers or vLLM. */
static void say_factors(const tri_trainer *t, int64_t longest) {
  bool      is_long = t->plan.rope_factors == TRI_FACTORS_LONG;
  long long original =
      (long long)tri_source_shape(t->learner[TRI_POLICY].source)->rope[TRI_GLOBAL].original_max_pos;

  if (tri_world_of(t)->rank != 0) return;
  if (is_long && longest > original)
    tri_warn("rope_factors",
             "model.rope_factors: long: the longest sequence can have %lld tokens, more than "
             "original_max_position_embeddings = %lld. So every sequence gets the model's long_factor, as in "
             "vLLM with such a max_model_len. transformers gives short_factor to sequences of at most %lld "
             "tokens.",
             (long long)longest, original, original);
  else if (is_long)
    tri_warn("rope_factors",
             "model.rope_factors: long: every sequence gets the model's long_factor, although none has more "
             "than original_max_position_embeddings = %lld tokens. transformers, and vLLM with such a "
             "max_model_len, give short_factor.",
             original);
  else if (longest > original)
    tri_warn("rope_factors",
             "model.rope_factors: short: the longest sequence can have %lld tokens, more than "
             "original_max_position_embeddings = %lld, the limit of short_factor. transformers gives "
             "long_factor to sequences of more than %lld tokens.",
             (long long)longest, original, original);
}

/* Collective over world. Chooses the longrope factors for the whole run. So a sequence has the same positions
 * when it is sampled, scored and learned, beside other sequences of any length. */
static tri_status choose_factors(tri_trainer *t, const tri_longest *l) {
  const tri_source      *policy = t->learner[TRI_POLICY].source;
  const tri_model_shape *shape = tri_source_shape(policy);
  int64_t                longest = longest_sequence(t, l);

  t->plan.rope_factors = t->cfg->model.rope_factors;
  if (shape->rope[TRI_GLOBAL].type != TRI_ROPE_LONG) {
    if (t->plan.rope_factors == TRI_FACTORS_AUTO) return TRI_OK;
    TRI_FAIL(TRI_ECONFIG, "model.rope_factors: the model has no longrope. Leave the key out.");
  }
  TRI_TRY(tri_run_keep_factors(&t->run, tri_source_checkpoint(policy), &t->plan.rope_factors));
  if (t->plan.rope_factors == TRI_FACTORS_AUTO)
    t->plan.rope_factors =
        tri_rope_is_long(shape, TRI_FACTORS_AUTO, longest) ? TRI_FACTORS_LONG : TRI_FACTORS_SHORT;
  if (!t->plan.on_paper) say_factors(t, longest);
  return TRI_OK;
}

/* Returns the tokens of the longest answer with its prompt. */
static int64_t longest_answer(const tri_trainer *t, const tri_longest *l) {
  return l->prompt + t->cfg->rollout.max_response_length;
}

static tri_status open_model(tri_trainer *t, tri_learner *l, const batch_space *b,
                             const tri_longest *longest) {
  const tri_config *c = t->cfg;
  bool              rollout = l->generates && wants_sampler(t);
  tri_model_opt     mo = {.shape = tri_source_shape(l->source),
                          .dtype = c->model.dtype,
                          .plan = l->plan,
                          .place = t->se->place,
                          .tensor_name = t->se->tensor_name,
                          .head = l->head,
                          .train = l->train,
                          .offload = offload(c, l),
                          .ema_beta = l == &t->learner[TRI_POLICY] && l->train ? c->algo.ema_beta : 0,
                          .rollout = rollout,
                          .any_order = c->run.sampler != TRI_CONFIG_EXACT,
                          .recompute = c->model.recompute == TRI_CONFIG_RECOMPUTE_LAYER,
                          .max_tokens = b->learn,
                          .max_learn_tokens = b->learn,
                          .max_rows = b->learn_rows,
                          .max_positions =
                              at_least(longest->learn, longest->prompt + c->rollout.max_response_length),
                          .label = l->name,
                          .workspace = &t->workspace};
  tri_status        st;

  mo.rope_long = tri_rope_is_long(mo.shape, t->plan.rope_factors, longest_sequence(t, longest));
  if (tri_learner_has_adapters(t, l)) mo.lora = *tri_source_lora(l->source);
  if (rollout) {
    mo.max_tokens = at_least(at_least(b->learn, longest_answer(t, longest)), at_least(b->prefill, b->decode));
    mo.max_rows = at_least(b->learn_rows, b->decode);
    mo.max_held_tokens = at_least(at_least(b->prefill, longest_answer(t, longest)), b->decode);
  }
  if (l == &t->learner[TRI_REWARD_MODEL]) {
    mo.max_tokens = judge_tokens(t, b, longest);
    mo.max_rows = TRI_JUDGE_ROWS;
  }
  st = tri_model_open(t->se->device, t->se->comm, t->se->ledger, &mo, &l->model);
  if (st != TRI_OK) tri_model_close(&l->model); /* --check goes on without it */
  return st;
}

/* Collective over world. Chooses the answers decoded at once. The deck's number stays. Else the states of
 * recurrent layers may lower it. */
static tri_status plan_rows(tri_trainer *t, int64_t *rows) {
  const tri_model_shape sh = tri_model_cache_shape(t->learner[TRI_POLICY].model);
  const int64_t         bytes = (int64_t)tri_kv_state_bytes(&sh, t->cfg->model.dtype);

  return t->cfg->rollout.max_sequences ? TRI_OK : tri_sampler_fit_rows(t->se, bytes, rows);
}

/* Collective over world. Chooses the pages of the cache, as many as the rows can use, the deck allows and the
 * plan leaves memory for. */
static tri_status plan_pages(tri_trainer *t, const tri_longest *l, int64_t rows, int64_t *pages) {
  const tri_config     *c = t->cfg;
  const tri_model_shape sh = tri_model_cache_shape(t->learner[TRI_POLICY].model);
  int64_t               most = c->rollout.max_response_length, asked = c->rollout.max_cached_tokens;
  int64_t               full = tri_sampler_full_pages(rows, l->prompt, most);
  int64_t               least = tri_sampler_least_pages(l->prompt, most);
  int64_t               bytes = tri_sampler_page_bytes(&sh, c->model.dtype);

  t->plan.states = tri_sampler_states(&sh, rows);
  t->plan.state_bytes = (int64_t)tri_kv_state_bytes(&sh, c->model.dtype);
  *pages = full;
  if (least > full) least = full;
  if (asked && asked / TRI_PAGE < least)
    TRI_FAIL(
        TRI_ECONFIG,
        "rollout.max_cached_tokens = %lld is too small. The cache has pages of %d tokens, and needs %lld "
        "pages for an answer of full length with its prompt (%lld tokens) and for the next prompt. Set at "
        "least %lld, or leave the key out",
        (long long)asked, TRI_PAGE, (long long)least, (long long)longest_answer(t, l),
        (long long)(least * TRI_PAGE));
  if (asked && asked / TRI_PAGE < full) *pages = asked / TRI_PAGE;
  TRI_TRY(tri_sampler_fit_pages(t->se, t->plan.states * t->plan.state_bytes, bytes, pages));
  t->plan.cache_is_least = *pages < least;
  if (*pages < least) *pages = least;
  t->plan.cached = *pages * TRI_PAGE;
  t->plan.cache_spare_bytes = (*pages - least) * bytes;
  t->plan.decode_full = at_least(*pages * rows / full, 1);
  return TRI_OK;
}

/* Collective over world. Opens the sampler last, since its cache takes the memory that is left. */
static tri_status open_sampler(tri_trainer *t, const tri_longest *l, const batch_space *b) {
  const tri_config *c = t->cfg;
  int64_t           most = c->rollout.max_response_length, rows = b->decode, pages;
  tri_sampler_opt   so = {.max_prompt = l->prompt,
                          .max_new = most,
                          .max_prefill = b->prefill,
                          .max_answers = most_answers_here(t)};

  TRI_TRY(plan_rows(t, &rows));
  so.max_sequences = (int)rows;
  t->plan.decode = rows;
  TRI_TRY(plan_pages(t, l, rows, &pages));
  if (pages < tri_sampler_full_pages(rows, l->prompt, most)) {
    so.max_pages = pages;
    so.max_prefill = at_least(b->prefill, longest_answer(t, l));
  }
  return tri_sampler_open(t->se->device, t->se->ledger, t->learner[TRI_POLICY].model, c->model.dtype, &so,
                          &t->sampling.sampler);
}

/* Collective over world. Opens all parts that hold planned memory. */
static tri_status open_models(tri_trainer *t, const tri_longest *l) {
  tri_session *se = t->se;
  batch_space  b;

  TRI_TRY(plan_eval(t, l));
  TRI_TRY(plan_batches(t, l, &b));
  for (int i = 0; i < TRI_ROLE_COUNT; i++)
    if (t->learner[i].source) TRI_TRY(open_model(t, &t->learner[i], &b, l));
  TRI_TRY(tri_staging_open(se->device, se->ledger,
                           &(tri_staging_opt){b.learn, b.learn_rows, staging_reads(t), TRI_PHASE_LEARN},
                           &t->staging));
  TRI_TRY(tri_judge_open(t, judge_tokens(t, &b, l)));
  TRI_TRY(plan_rollouts(t, l));
  if (!t->plan.evaluates) TRI_TRY(tri_save_plan(t));
  if (!wants_sampler(t)) return TRI_OK;
  return open_sampler(t, l, &b);
}

/* Collective over world. Takes the planned memory. If it does not suffice even with a cache of one answer,
 * the message says so. */
static tri_status take_memory(tri_trainer *t) {
  tri_status st = tri_session_take_memory(t->se);

  if (st == TRI_ECONFIG && t->plan.cache_is_least)
    tri_error_lines("\nThis plan has the smallest key/value cache, for one answer of full length");
  return st;
}

/* Undoes open_models and the plan of its memory. */
static tri_status close_models(tri_trainer *t) {
  tri_sampler_close(&t->sampling.sampler);
  tri_staging_close(&t->staging);
  tri_judge_close(&t->judge);
  for (int i = TRI_ROLE_COUNT - 1; i >= 0; i--) tri_model_close(&t->learner[i].model);
  t->workspace = (tri_workspace){0};
  t->se->buffer_bytes = 0;
  tri_ledger_close(&t->se->ledger);
  return tri_ledger_open(&t->se->ledger);
}

enum { FINEST_TOKENS = 1024 }; /* chosen. Within this many tokens a pass takes about the same time */

/* Returns the tokens of a pass for a rank's whole share of an optimizer step, or for one sample if that is
 * more. */
static int64_t most_packed(const tri_trainer *t, const tri_longest *l) {
  int64_t ranks = t->se->rt.world_size, mine = (t->plan.batch.train_batch_size + ranks - 1) / ranks;

  return tri_sequences(t, mine) * l->learn;
}

/* Collective over world. Opens the models as open_models does. If the deck does not limit passes, they get as
 * many tokens as fit into memory. */
static tri_status open_packed(tri_trainer *t, const tri_longest *l) {
  int64_t least = tri_sequences(t, 1) * l->learn, most = most_packed(t, l), tokens = t->plan.packed;
  bool    fits = false;

  if (!t->plan.by_default || !tokens) return open_models(t, l);
  if (tokens > most && !t->run.resume[0]) tokens = most; /* a resumed run keeps its number */
  if (tokens < least) tokens = least;
  for (;;) {
    TRI_TRY(tri_inputs_pack(t, tokens));
    TRI_TRY(open_models(t, l));
    TRI_TRY(tri_session_fits(t->se, &fits));
    if (fits || tokens <= least) return TRI_OK; /* if nothing fits, tri_session_take_memory reports it */
    TRI_TRY(close_models(t));
    tokens = tokens > FINEST_TOKENS ? (tokens - 1) / FINEST_TOKENS * FINEST_TOKENS : tokens / 2;
    if (tokens < least) tokens = least;
  }
}

/* Collective over world. Completes the deck as used with numbers derived from others, if they do not depend
 * on the ranks. */
static tri_status settle_deck(tri_trainer *t) {
  tri_config       used = *t->cfg;
  tri_ckpt_reader *from = tri_source_checkpoint(t->learner[TRI_POLICY].source);

  used.train.steps = t->plan.steps;
  used.train.epochs = 0;
  used.train.train_batch_size = t->plan.batch.train_batch_size;
  used.train.max_tokens_per_gpu = t->plan.packed;
  used.model.rope_factors = t->plan.rope_factors;
  if (t->plan.like)
    used.data.chat_template_date = t->plan.like->conversation.date; /* borrowed, as is all of t->cfg */
  if (t->conversation.template) used.data.chat_template_date = t->conversation.date;
  TRI_TRY(tri_run_keep_rate(&t->run, from, &used.train.lr.peak));
  t->learner[TRI_POLICY].lr.peak = used.train.lr.peak;
  TRI_TRY(tri_config_print(&used, &t->run.deck));
  TRI_TRY(tri_run_compare(&t->run, from, &used));
  if (t->se->pretended) return TRI_OK;
  return tri_agree(tri_world_of(t),
                   tri_world_of(t)->rank == 0 ? tri_run_note_inputs(&t->run, from, &used) : TRI_OK);
}

/* Collective over world. Switches run.sampler from exact to rescore if the results of products depend on the
 * number of rows. Then the trainer recomputes the old log-probabilities. */
static tri_status check_sampler(tri_trainer *t) {
  tri_comm  *world = t->se->comm[TRI_WORLD];
  tri_status st;

  t->sampling.mode = t->cfg->run.sampler;
  if (!tri_has_answers(t) || t->sampling.mode != TRI_CONFIG_EXACT) return TRI_OK;
  st = tri_agree(world, tri_model_check(t->learner[TRI_POLICY].model, t->se->stream));
  if (st != TRI_EDEVICE) return st;
  /* A failed device gives the same status as varying rows. A failed device fails again here. */
  TRI_TRY(tri_agree(world, t->se->device->ops->stream_sync(t->se->stream)));
  if (world->rank == 0)
    tri_warn("sampler_rescores", "run.sampler: exact becomes rescore in this run: %s", tri_error_message());
  tri_error_clear();
  t->sampling.mode = TRI_CONFIG_RESCORE;
  return TRI_OK;
}

/* Chosen, about 2 MB of file for a step. 80 layers in 40 micro-batches have 13,000 spans. */
enum { TRACED_SPANS = 16384 };

static tri_status open_timeline(tri_trainer *t) {
  char             folder[TRI_CKPT_PATH_BYTES + 8];
  tri_timeline_opt opt = {t->se->rt.world_rank, t->se->rt.host, folder, t->cfg->run.trace_steps,
                          TRACED_SPANS};

  if (!opt.steps) return TRI_OK;
  snprintf(folder, sizeof folder, "%s/trace", t->cfg->run.output);
  return tri_timeline_open(t->se->device, &opt, &t->timeline);
}

enum { SLURM_PATIENCE_S = 10 }; /* chosen. Only a busy controller needs longer to answer */

/* Collective over world. */
static tri_status open_halt(tri_trainer *t) {
  tri_slurm_time job = {0};
  char           file[TRI_CKPT_PATH_BYTES + 8];
  tri_halt_opt   opt = {0, file};

  if (tri_world_of(t)->rank == 0) job = tri_slurm_ask(SLURM_PATIENCE_S);
  TRI_TRY(tri_host_bcast(tri_world_of(t), &job, sizeof job, 0));
  if (job.left_s > 0) opt.end_unix_s = (double)time(NULL) + job.left_s;
  t->pace = tri_pace_begin(job.used_s, job.left_s);
  snprintf(file, sizeof file, "%s/STOP", t->cfg->run.output);
  return tri_halt_open(tri_world_of(t), &opt, &t->halt);
}

/* Initializes the members that depend on the deck alone. */
static void begin_deck(const tri_config *cfg, tri_session *se, const tri_step_plan *plan, tri_trainer *t) {
  *t = (tri_trainer){.cfg = cfg,
                     .se = se,
                     .plan = *plan,
                     .progress = {.start_s = tri_now_s(),
                                  .last_save_s = tri_now_s(),
                                  .saved_step = -1,
                                  .best = {.step = -1},
                                  .seen = {.step = -1}},
                     .saving = {.best = {.step = -1}},
                     .screen = {.score = NAN, .rate = NAN}};
  t->algo = &cfg->algo.row;
  t->opt = cfg->algo.opt;
  tri_adapt_begin(&t->opt, &t->progress.adapt);
  t->source = choose_source(cfg, plan->evaluates);
  tri_learner_begin(t);
  for (int i = 0; i < TRI_ROLE_COUNT && plan->evaluates; i++) t->learner[i].train = false;
  set_options(t);
}

static tri_status begin(const tri_config *cfg, tri_session *se, tri_errors *errors, const tri_step_plan *plan,
                        tri_trainer *t) {
  begin_deck(cfg, se, plan, t);
  return tri_run_open(cfg, tri_world_of(t), errors, &t->run);
}

tri_status tri_trainer_look(const tri_config *cfg, tri_session *se, tri_errors *errors, tri_trainer *t) {
  TRI_ASSERT(se->pretended && errors);
  *t = (tri_trainer){.cfg = cfg, .se = se};
  if (!(errors->about & TRI_CONFIG_ABOUT_ALGO)) begin_deck(cfg, se, &(tri_step_plan){0}, t);
  t->run.errors = errors;
  return tri_inputs_look(t);
}

/* Checks that a run which starts anew does not move aside a folder with one of the deck's own models or
 * files. */
static tri_status check_aside(const tri_trainer *t) {
  const tri_config *c = t->cfg;
  bool              anew = !t->run.resume[0];
  bool              is_file = tri_chat_is_file(c->data.chat_template);
  tri_run_input     input[TRI_ROLE_COUNT + 5];

  for (int i = 0; i < TRI_ROLE_COUNT; i++) input[i] = (tri_run_input){t->learner[i].key, t->learner[i].path};
  input[TRI_ROLE_COUNT] = (tri_run_input){"model.config", anew ? c->model.config : NULL};
  input[TRI_ROLE_COUNT + 1] = (tri_run_input){"model.tokenizer", anew ? c->model.tokenizer : NULL};
  input[TRI_ROLE_COUNT + 2] = (tri_run_input){"lora.path", anew ? c->lora.path : NULL};
  input[TRI_ROLE_COUNT + 3] = (tri_run_input){"data.chat_template", is_file ? c->data.chat_template : NULL};
  input[TRI_ROLE_COUNT + 4] = (tri_run_input){"data.tools", c->data.tools};
  return tri_run_check_aside(&t->run, input, sizeof input / sizeof *input);
}

#define NOTE(call) TRI_TRY(tri_error_note(call, errors))

/* Collective over world. Takes possession of the output folder. From here on, errors are logged in the folder
 * if it exists. */
static tri_status claim(tri_trainer *t) {
  tri_status st = tri_run_claim(&t->run);

  if (t->runlog && t->run.is_held) tri_runlog_claim(t->runlog, t->run.carries_on);
  TRI_TRY(st);
  return tri_run_find(&t->run);
}

/* Makes the plan after `begin`. */
static tri_status make_plan(tri_trainer *t, tri_errors *errors) {
  tri_longest l = {0};
  int64_t     before;

  if (t->se->pretended) {
    TRI_TRY(t->plan.on_paper ? tri_run_look_on_paper(&t->run) : tri_run_look(&t->run));
  } else {
    TRI_TRY(claim(t));
    TRI_TRY(open_halt(t));
  }
  before = errors ? errors->n : 0;
  TRI_TRY(tri_inputs_open(t, &l));
  if (errors && errors->n > before)
    return t->run.resume[0] ? tri_errors_miss(errors, "the changes since the checkpoint") : TRI_OK;
  NOTE(check_aside(t));
  NOTE(choose_factors(t, &l));
  if (t->plan.by_default && t->plan.packed) { /* the deck as used records the size that fits memory */
    NOTE(open_packed(t, &l));
    NOTE(settle_deck(t));
    return TRI_OK;
  }
  NOTE(settle_deck(t));
  NOTE(open_models(t, &l));
  return TRI_OK;
}

tri_status tri_trainer_plan(const tri_config *cfg, tri_session *se, tri_errors *errors, tri_trainer *out) {
  TRI_TRY(begin(cfg, se, errors, &(tri_step_plan){0}, out));
  return make_plan(out, errors);
}

tri_status tri_trainer_plan_on_paper(const tri_config *cfg, tri_session *se, tri_errors *errors,
                                     const tri_trainer *like, tri_trainer *out) {
  TRI_ASSERT(se->pretended && errors);
  TRI_TRY(begin(cfg, se, errors, &(tri_step_plan){.on_paper = true, .like = like}, out));
  return make_plan(out, errors);
}

/* Estimates the seconds of a save, until a checkpoint is written. Assumes f32 weights and both moments of all
 * trained models, and a slow disk. */
static double guess_save(const tri_trainer *t) {
  static const double bytes_per_s = 2e8; /* chosen */
  double              bytes = 0;

  for (const tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    if (tri_learner_trains(l)) bytes += 12 * (double)tri_learner_trained_size(l);
  return bytes / bytes_per_s;
}

static void show_phase(void *trainer, const char *phase) { tri_screen_phase(trainer, phase); }

tri_status tri_trainer_open(const tri_config *cfg, tri_session *se, tri_runlog *runlog, tri_trainer *out) {
  tri_trainer *t = out;

  TRI_TRY(begin(cfg, se, NULL, &(tri_step_plan){0}, t));
  t->runlog = runlog;
  TRI_TRY(make_plan(t, NULL));
  TRI_TRY(take_memory(t));
  TRI_TRY(tri_save_rehearse(t));
  for (int i = 0; i < TRI_ROLE_COUNT; i++)
    if (t->learner[i].model) TRI_TRY(tri_model_start(t->learner[i].model, se->stream));
  TRI_TRY(tri_state_load(t));
  TRI_TRY(tri_save_find_best(t));
  t->pace.save_s = guess_save(t);
  tri_halt_keep(t->halt, tri_pace_ask_s(&t->pace), tri_pace_watch_s(&t->pace));
  TRI_TRY(tri_usage_open(&t->usage, se->device, se->comm[TRI_WORLD]));
  t->spans = (tri_spans){
      .metrics = t->metrics, .usage = &t->usage, .device = se->device, .show = show_phase, .ctx = t};
  TRI_TRY(open_timeline(t));
  return check_sampler(t);
}

tri_status tri_trainer_open_to_evaluate(const tri_config *cfg, tri_session *se, const char *checkpoint,
                                        tri_trainer *out) {
  tri_trainer *t = out;
  tri_longest  l = {0};

  TRI_ASSERT(cfg->eval.steps > 0 && strlen(checkpoint) < sizeof t->run.resume);
  TRI_TRY(begin(cfg, se, NULL, &(tri_step_plan){.evaluates = true}, t));
  strcpy(t->run.resume, checkpoint);
  TRI_TRY(tri_halt_open(tri_world_of(t), &(tri_halt_opt){0, ""}, &t->halt));
  TRI_TRY(tri_metrics_open(NULL, -1, se->rt.world_rank, &t->metrics));
  t->spans = (tri_spans){.metrics = t->metrics, .device = se->device};
  TRI_TRY(tri_inputs_open_to_evaluate(t, &l));
  TRI_TRY(choose_factors(t, &l));
  TRI_TRY(open_packed(t, &l));
  TRI_TRY(take_memory(t));
  for (int i = 0; i < TRI_ROLE_COUNT; i++)
    if (t->learner[i].model) TRI_TRY(tri_model_start(t->learner[i].model, se->stream));
  TRI_TRY(tri_state_load_weights(t));
  t->plan.steps = t->progress.step;
  return TRI_OK;
}

void tri_trainer_close(tri_trainer *t) {
  tri_ckpt_drop(&t->saving.w); /* only a run that ends with an error still has one */
  tri_save_end_sweep(t);
  tri_answers_file_drop(&t->eval.file);
  tri_usage_close(&t->usage);
  tri_timeline_close(&t->timeline);
  tri_metrics_close(&t->metrics);
  tri_sampler_close(&t->sampling.sampler);
  tri_staging_close(&t->staging);
  tri_judge_close(&t->judge);
  for (int i = TRI_ROLE_COUNT - 1; i >= 0; i--) tri_learner_close(&t->learner[i]);
  if (!t->plan.like) {
    tri_reward_set_close(&t->reward);
    tri_dataset_close(&t->eval.data);
    tri_dataset_close(&t->eval.lines);
    tri_dataset_close(&t->data);
  }
  tri_sidecar_free(&t->sidecar);
  tri_text_free(&t->multimodal);
  tri_source_conversation_free(&t->conversation);
  tri_halt_close(&t->halt);
  tri_run_close(&t->run);
}
