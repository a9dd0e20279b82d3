/* inputs.c - opens the inputs named by a deck (rewards, models by learner.c, data), and plans steps and
 * lengths from them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/notice.h"
#include "inputs.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "inputs_chat.h"
#include "batch_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- rewards ---- */

/* Gives the health checks their knowledge of rewards and lengths. */
static void set_health(tri_trainer *t) {
  t->health.max_response_length = t->cfg->rollout.max_response_length;
  /* Without answers to learn from, rewards belong to evaluations only. */
  t->health.n_reward = tri_has_answers(t) ? t->cfg->reward.n : 0;
  t->health.trend.given = t->cfg->rollout.replay != NULL;
  t->health.trend.selected = tri_batch_source_selects(t);
  t->health.unclipped = !tri_algo_reads(t->algo, "algo.clip_eps");
  if (t->algo->advantage && t->algo->advantage->least_group == 1)
    t->health.compared = t->cfg->algo.opt.whiten_advantages             ? TRI_COMPARED_IN_STEP
                         : t->algo->advantage->reads & TRI_READS_GREEDY ? TRI_COMPARED_WITH_GREEDY
                                                                        : TRI_COMPARED_WITH_0;
  for (int i = 0; i < t->health.n_reward; i++) {
    t->health.name[i] = tri_reward_set_name(t->reward, i);
    t->health.most[i] = tri_reward_set_most(t->reward, i);
  }
}

static tri_reward_env reward_env(tri_trainer *t) {
  return (tri_reward_env){.se = t->se,
                          .longest = t->cfg->rollout.max_response_length,
                          .longest_key = "rollout.max_response_length",
                          .judge = tri_judge_score,
                          .judge_ctx = t};
}

/* Checks that the deck has only one reward model. */
static tri_status check_judge(const tri_config *c, int i) {
  for (int j = 0; j < i && !strcmp(c->reward.item[i].name, "model"); j++)
    if (!strcmp(c->reward.item[j].name, "model"))
      TRI_FAIL(TRI_ECONFIG,
               "a run has only one reward model, and reward %d is one already. Remove one of them.",
               c->reward.item[j].row + 1);
  return TRI_OK;
}

/* Checks the values of every reward row. */
static tri_status check_rewards(tri_trainer *t) {
  for (int i = 0; i < t->cfg->reward.n; i++) {
    const tri_reward_opt *o = &t->cfg->reward.item[i];
    tri_reward_env        env = reward_env(t);
    char                  row[80];
    snprintf(row, sizeof row, "reward %d (%s)", o->row + 1, o->name);
    TRI_TRY(tri_error_note(tri_error_at(tri_reward_check(o, &env), row), t->run.errors));
    TRI_TRY(tri_error_note(tri_error_at(check_judge(t->cfg, i), row), t->run.errors));
  }
  return TRI_OK;
}

static tri_status open_rewards(tri_trainer *t) {
  const tri_config *c = t->cfg;
  int64_t           before = t->run.errors ? t->run.errors->n : 0;
  tri_reward_env    env = reward_env(t);

  if (t->plan.like) {
    t->reward = t->plan.like->reward;
    return TRI_OK;
  }
  TRI_TRY(check_rewards(t));
  if (t->run.errors && t->run.errors->n > before) return TRI_OK;
  if (c->reward.n) TRI_TRY(tri_reward_set_open(c->reward.item, c->reward.n, &env, &t->reward));
  set_health(t);
  return TRI_OK;
}

/* ---- endings ---- */

/* Sets the generation options that need the tokenizer and the end tokens. */
static tri_status set_endings(tri_trainer *t) {
  const tri_eos *eos = tri_source_eos(t->learner[TRI_POLICY].source);
  char           cure[TRI_TOKENIZER_CURE_BYTES];

  t->sampling.step.eos = t->sampling.eval.eos = eos->id;
  t->sampling.step.n_eos = t->sampling.eval.n_eos = eos->n;
  if (!t->cfg->rollout.stop.n) return TRI_OK;
  if (t->plan.on_paper && !tri_source_tokenizer(t->learner[TRI_POLICY].source)) return TRI_OK;
  if (!tri_source_tokenizer(t->learner[TRI_POLICY].source))
    TRI_FAIL(TRI_ECONFIG, "rollout.stop needs a tokenizer, and the model brings no tokenizer.json.\n  %s",
             t->cfg->model.config ? "Give model.tokenizer."
                                  : tri_tokenizer_cure(tri_source_name(t->learner[TRI_POLICY].source), cure));
  t->sampling.stop_rule = (tri_stop_rule){tri_source_tokenizer(t->learner[TRI_POLICY].source),
                                          t->cfg->rollout.stop.item, t->cfg->rollout.stop.n};
  t->sampling.step.stop = t->sampling.eval.stop = tri_answers_stop;
  t->sampling.step.ctx = t->sampling.eval.ctx = &t->sampling.stop_rule;
  return TRI_OK;
}

static tri_status open_models(tri_trainer *t) {
  TRI_TRY(tri_learner_open_sources(t));
  return set_endings(t);
}

/* ---- data ---- */

static const char *refuse_answer(const void *rewards, const char *answer, size_t n) {
  return tri_reward_set_refuse(rewards, answer, n);
}

static bool keeps_fields(const tri_trainer *t) {
  return t->reward && tri_reward_set_needs(t->reward) & TRI_REWARD_FIELDS_OF_LINE;
}

/* Returns the deck's key that treats long lines this way. */
static const char *overlong_key(const tri_config *c, tri_overlong how) {
  return c->data.overlong == how ? "data.overlong" : "data.overlong_prompt";
}

/* On rank 0, reports lines that were too long. */
static void say_overlong(const tri_config *c, const tri_data_stats *s, const tri_config_list *files) {
  const char *more = files->n > 1 ? " ..." : "";
  int64_t     dropped = s->n_dropped - s->n_emptied;

  if (dropped)
    tri_log(TRI_LOG_INFO, "%s%s: lines that are too long and dropped: %lld of %lld (%s: drop)",
            files->item[0], more, (long long)dropped, (long long)s->n_line,
            overlong_key(c, TRI_OVERLONG_DROP));
  if (s->n_truncated)
    tri_log(TRI_LOG_INFO, "%s%s: lines that are too long and cut: %lld of %lld (%s: truncate)",
            files->item[0], more, (long long)s->n_truncated, (long long)s->n_line,
            overlong_key(c, TRI_OVERLONG_TRUNCATE));
  if (s->n_emptied)
    tri_log(
        TRI_LOG_INFO,
        "%s%s: lines that are too long and dropped, because after a cut they would have no token to learn: "
        "%lld of %lld (%s: truncate)",
        files->item[0], more, (long long)s->n_emptied, (long long)s->n_line,
        overlong_key(c, TRI_OVERLONG_TRUNCATE));
}

/* On rank 0, reports prompts whose last token changes when the answer follows, as TRL does. */
static void say_joined(const tri_data_stats *s, const char *file) {
  if (s->n_joined)
    tri_log(
        TRI_LOG_INFO,
        "%s: in %lld of %lld lines the last tokens of the prompt change when the answer follows. The loss "
        "begins at the first changed token, but generation begins after the unchanged prompt. End prompts "
        "at the end of a token.",
        file, (long long)s->n_joined, (long long)s->n_line);
}

/* Applies data.train_weights to the training lines. */
static tri_status weigh(const tri_config *c, tri_dataset *d) {
  const tri_config_list *files = &c->data.train;
  double                *weight = NULL;
  tri_status             st = TRI_OK;

  TRI_TRY(TRI_ALLOC(weight, files->n));
  for (int i = 0; i < files->n; i++) weight[i] = tri_config_train_weight(c, i);
  st = tri_dataset_weigh(d, (const char *const *)files->item, weight, files->n);
  TRI_FREE(weight);
  return st;
}

/* Collective over world. no_tokenizer has the meaning of its namesake in tri_data_opt. */
static tri_status read_data(tri_trainer *t, const tri_config_list *files, tri_data_kind kind,
                            const tri_chat *chat, bool *no_tokenizer, tri_dataset **out) {
  static const char *const flags_of_eval[] = {"--prompt-key", "--answer-key", NULL};
  const tri_config        *c = t->cfg;
  /* Keys of fields hold for both. */
  const tri_config_list *beside = files == &c->data.eval ? &c->data.train : &c->data.eval;
  int64_t                context = tri_source_shape(t->learner[TRI_POLICY].source)->max_pos;
  /* Without space, check_space reports the error. */
  bool         space = tri_data_is_prompts(kind) && c->rollout.max_response_length < context;
  int64_t      answer = space ? c->rollout.max_response_length : 0;
  tri_encoder  encoder = {.tokenizer = tri_source_tokenizer(t->learner[TRI_POLICY].source),
                          .vocab = tri_source_shape(t->learner[TRI_POLICY].source)->V};
  tri_status   st;
  tri_data_opt opt = {
      .kind = kind,
      .prompt_key = c->data.prompt_key,
      .answer_key = c->data.answer_key,
      .completion_key = c->data.completion_key,
      .chosen_key = c->data.chosen_key,
      .rejected_key = c->data.rejected_key,
      .label_key = c->data.label_key,
      .overlong_prompt = c->data.overlong_prompt,
      .overlong = c->data.overlong,
      .max_prompt_tokens = c->data.max_prompt_length,
      .from_deck = !t->plan.evaluates,
      .flags = t->plan.evaluates ? flags_of_eval : NULL,
      .file_key = t->plan.evaluates        ? NULL
                  : files == &c->data.eval ? "data.eval"
                                           : "data.train",
      .beside = (const char *const *)beside->item,
      .n_beside = t->plan.evaluates ? 0 : beside->n, /* a command's flags name the fields of its own files */
      .model = c->model.config ? NULL : tri_source_name(t->learner[TRI_POLICY].source),
      .tokenizer_cure = c->model.config ? "Give model.tokenizer." : NULL,
      .max_total_tokens = tri_data_is_prompts(kind) ? 0 : context,
      .max_total_name = "the model's max_position_embeddings",
      .max_line_bytes = c->data.max_line_bytes,
      .vocab = tri_source_shape(t->learner[TRI_POLICY].source)->V,
      .end.completion = tri_source_text_end(t->learner[TRI_POLICY].source),
      .end.text = tri_source_text_end(t->learner[TRI_POLICY].source),
      .end.spells = tri_encoder_spells,
      .encode = encoder.tokenizer ? tri_encoder_run : NULL,
      .encode_places = encoder.tokenizer ? tri_encoder_run_places : NULL,
      .ctx = &encoder,
      .chat = {chat, c->data.train_on == TRI_CONFIG_TRAIN_ALL, c->data.apply_chat_template,
               c->data.tools_key},
      .refuse = t->reward ? refuse_answer : NULL,
      .refuse_ctx = t->reward,
      .keep_fields = keeps_fields(t),
      .note = {t->run.errors, no_tokenizer}};

  if (!tri_data_is_prompts(kind) && c->data.max_length && c->data.max_length < context) {
    opt.max_total_tokens = c->data.max_length;
    opt.max_total_name = "data.max_length";
  }
  if (tri_data_is_prompts(kind) && (!opt.max_prompt_tokens || opt.max_prompt_tokens > context - answer)) {
    opt.max_prompt_tokens = context - answer;
    opt.max_prompt_name = "the model's max_position_embeddings less rollout.max_response_length";
    if (!answer) opt.max_prompt_name = opt.max_total_name;
  }
  st = tri_dataset_open_shared((const char *const *)files->item, files->n, &opt, t->se->comm[TRI_WORLD], out);
  if (*out) say_overlong(c, tri_dataset_stats(*out), files);
  if (*out) say_joined(tri_dataset_stats(*out), files->item[0]);
  if (*out && files == &c->data.train) tri_inputs_say_other(t, *out, chat);
  /* If the prompts of this file were read before, this was reported then. */
  if (*out && !(files == &c->data.eval && t->eval.data))
    st = tri_inputs_say_chat(t, *out, files->item[0], &encoder, chat);
  tri_encoder_free(&encoder);
  return st;
}

static bool all_there(const tri_config_list *files) {
  for (int i = 0; i < files->n; i++)
    if (!tri_file_exists(files->item[i])) return false;
  return true;
}

/* True if the files are read. A plan on paper assumes lines for missing files. */
static bool is_read(const tri_trainer *t, const tri_config_list *files) {
  return files->n && !t->plan.like && (!t->plan.on_paper || all_there(files));
}

/* Collective over world. chat is NULL if no file is read. */
static tri_status open_data(tri_trainer *t, const tri_config_list *files, tri_data_kind kind,
                            const tri_chat *chat, tri_dataset **out) {
  bool untold = false;

  if (!is_read(t, files)) return tri_assume_lines(t, files, kind, out);
  TRI_TRY(read_data(t, files, kind, chat, t->plan.on_paper ? &untold : NULL, out));
  if (untold) TRI_TRY(tri_assume_lines(t, files, kind, out));
  if (*out && files == &t->cfg->data.train && t->cfg->data.train_weights.n)
    TRI_TRY(weigh(t->cfg, *out)); /* the same on every rank */
  return TRI_OK;
}

/* Checks that all sequences of the other models, also in evaluations, fit their contexts. Positions beyond a
 * model's context mean nothing to it. */
static tri_status check_contexts(const tri_trainer *t, const tri_longest *l) {
  int64_t answers = t->reward ? l->prompt + t->cfg->rollout.max_response_length : 0;

  for (const tri_learner *m = t->learner; m < t->learner + TRI_ROLE_COUNT; m++) {
    int64_t n = m == &t->learner[TRI_REWARD_MODEL] && answers > l->learn ? answers : l->learn;
    if (!m->source || n <= tri_source_shape(m->source)->max_pos) continue;
    TRI_FAIL(TRI_ECONFIG, "%s: the longest sequence can have %lld tokens, but the %s's context is %lld",
             m->key, (long long)n, m->name, (long long)tri_source_shape(m->source)->max_pos);
  }
  return TRI_OK;
}

/* Collective over world. */
static tri_status measure(tri_trainer *t, tri_longest *l) {
  *l = (tri_longest){t->plan.evaluates, 1};
  if (t->plan.evaluates)
    tri_batch_source_measure_held_out(t, l);
  else
    TRI_TRY(t->source->measure(t, l));
  if (t->eval.data && tri_dataset_stats(t->eval.data)->longest_prompt > l->prompt)
    l->prompt = tri_dataset_stats(t->eval.data)->longest_prompt;
  if (l->learn > tri_source_shape(t->learner[TRI_POLICY].source)->max_pos)
    TRI_FAIL(TRI_EINPUT, "the longest sequence has %lld tokens, but the model's context is %lld",
             (long long)l->learn, (long long)tri_source_shape(t->learner[TRI_POLICY].source)->max_pos);
  t->plan.max_tokens = l->learn;
  return check_contexts(t, l);
}

/* ---- lengths and counts ---- */

/* On rank 0, warns of ranks without work in a step of n pieces. Pieces are dealt one to a rank, from rank 0
 * on. */
static void say_idle_in(const tri_trainer *t, const char *key, int64_t n, const char *what) {
  int  ranks = t->se->rt.world_size;
  char idle[64];

  if (n >= ranks || t->se->rt.world_rank != 0) return;
  if (n == ranks - 1)
    snprintf(idle, sizeof idle, "rank %d of %d has", ranks - 1, ranks);
  else
    snprintf(idle, sizeof idle, "ranks %d to %d of %d have", (int)n, ranks - 1, ranks);
  tri_warn_narrow(
      "idle_ranks",
      "%s no %s in any step and must wait for the others: %s = %lld. Raise it or start %lld rank%s.", idle,
      what, key, (long long)n, (long long)n, n == 1 ? "" : "s");
}

static void say_idle(const tri_trainer *t) {
  const tri_config *c = t->cfg;

  if (t->source->generates)
    say_idle_in(t, "rollout.rollout_batch_size", c->rollout.rollout_batch_size, "prompt to answer");
  if (t->source->whole_groups)
    say_idle_in(t, "train.train_batch_size / algo.num_generations",
                t->plan.batch.train_batch_size / c->algo.num_generations, "group to learn from");
  else
    say_idle_in(t, "train.train_batch_size", t->plan.batch.train_batch_size, "sequence to learn from");
}

/* Rank 0. */
static void say_repeats(const tri_trainer *t) {
  const tri_config *c = t->cfg;
  int64_t           asks = tri_batch_source_selects(t) ? 1 + c->rollout.max_extra_batches : 1;
  char              extra[64] = "";

  if (t->se->rt.world_rank != 0 || !t->data || !tri_dataset_stats(t->data)->n_line || !tri_has_answers(t) ||
      asks * c->rollout.rollout_batch_size <= tri_dataset_count(t->data))
    return;
  if (asks > 1)
    snprintf(extra, sizeof extra, " x (1 + rollout.max_extra_batches = %lld)", (long long)(asks - 1));
  tri_warn("few_prompts",
           "data.train has %lld prompt%s, fewer than rollout.rollout_batch_size = %lld%s.\n"
           "  A prompt repeated within one rollout gets the same answers again, because random numbers are "
           "keyed by line, answer and position.",
           (long long)tri_dataset_count(t->data), tri_dataset_count(t->data) == 1 ? "" : "s",
           (long long)c->rollout.rollout_batch_size, extra);
}

/* Rank 0. */
static void say_rest(const tri_trainer *t) {
  int64_t rest = t->learner[TRI_POLICY].warmup_steps;

  if (t->se->rt.world_rank != 0 || !t->plan.steps || rest < t->plan.steps) return;
  tri_warn("policy_rests",
           "critic.warmup_steps = %lld: in all %lld steps of this run only the critic learns, and the policy "
           "does not",
           (long long)rest, (long long)t->plan.steps);
}

int64_t tri_sequences(const tri_trainer *t, int64_t samples) { return samples * t->source->together; }

static void plan_split(tri_trainer *t) {
  t->plan.split = (tri_split_opt){.n = (int)tri_sequences(t, t->plan.batch.train_batch_size),
                                  .together = t->source->together,
                                  .whole_groups = t->source->whole_groups,
                                  .rank = tri_world_of(t)->rank,
                                  .size = tri_world_of(t)->size,
                                  .micro_batch_size = (int)tri_sequences(t, t->plan.batch.micro_batch_size),
                                  .max_tokens = t->plan.packed};
}

enum { PACKED_MOST = 16384 }; /* specified: interface. Longer passes hardly speed up products */

/* Sets the size of micro-batches in tokens. If the deck gives neither samples nor tokens of a pass, the size
 * is the largest that fits into memory (trainer.c). A resumed run of an earlier version without this number
 * continues with one pass. */
static tri_status choose_packing(tri_trainer *t) {
  const tri_config *c = t->cfg;
  const tri_source *policy = t->learner[TRI_POLICY].source; /* NULL if an error kept it from being opened */

  t->plan.packed = c->train.max_tokens_per_gpu;
  t->plan.by_default =
      !c->train.max_tokens_per_gpu && !c->train.micro_batch_size && !c->train.gradient_accumulation_steps;
  if (!t->plan.by_default) return TRI_OK;
  t->plan.packed = PACKED_MOST;
  return policy ? tri_run_keep_packed(&t->run, tri_source_checkpoint(policy), &t->plan.packed) : TRI_OK;
}

/* Plans the batches once the tokens of a pass are known. */
static tri_status plan_batch(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_batch_request q = {.ranks = t->se->rt.world_size,
                         .train_batch_size = c->train.train_batch_size,
                         .micro_batch_size = c->train.micro_batch_size,
                         .gradient_accumulation_steps = c->train.gradient_accumulation_steps,
                         .max_tokens_per_gpu = t->plan.packed,
                         .rollout_batch_size = tri_has_answers(t) ? c->rollout.rollout_batch_size : 0,
                         .num_generations = tri_has_answers(t) ? c->algo.num_generations : 0,
                         .passes = tri_has_answers(t) ? c->algo.ppo_epochs : 0};
  size_t            used;

  TRI_TRY(tri_batch_plan_make(&q, &t->plan.batch));
  used = strcspn(t->plan.batch.equation, "\n");
  if (t->plan.by_default && t->plan.packed && used + 40 < sizeof t->plan.batch.equation) {
    char rest[sizeof t->plan.batch.equation];
    snprintf(rest, sizeof rest, "%s", t->plan.batch.equation + used);
    snprintf(t->plan.batch.equation + used, sizeof rest - used, " (default: what fits)%s", rest);
  }
  return TRI_OK;
}

tri_status tri_inputs_pack(tri_trainer *t, int64_t tokens) {
  t->plan.packed = tokens;
  if (!t->plan.evaluates) TRI_TRY(plan_batch(t));
  plan_split(t);
  return TRI_OK;
}

static tri_status plan_steps(tri_trainer *t) {
  const tri_config *c = t->cfg;
  int64_t           per_step, updates;

  TRI_TRY(choose_packing(t));
  TRI_TRY(plan_batch(t));
  per_step = tri_has_answers(t) ? c->rollout.rollout_batch_size : t->plan.batch.train_batch_size;
  t->plan.samples = tri_has_answers(t) ? t->plan.batch.rollout_samples : t->plan.batch.train_batch_size;
  t->plan.mini_batches = t->plan.samples / t->plan.batch.train_batch_size;
  if (tri_sequences(t, t->plan.samples) > INT32_MAX / 2)
    TRI_FAIL(TRI_ECONFIG, "%lld samples in one step are more than this program handles",
             (long long)t->plan.samples);
  t->plan.steps = c->train.steps;
  if (!t->plan.steps && !t->data)
    TRI_FAIL(
        TRI_ECONFIG,
        "train.epochs does not work with rollout.replay, because a replay has no epochs. Give train.steps.");
  if (!t->plan.steps && (!t->plan.on_paper || tri_dataset_stats(t->data)->n_line))
    t->plan.steps = (c->train.epochs * tri_dataset_count(t->data) + per_step - 1) / per_step;
  updates = t->plan.steps * t->plan.mini_batches * c->algo.ppo_epochs;
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    if (!l->train) continue;
    l->optim = c->train.optim;
    tri_loss_scale_begin(&l->counters.scale, &l->optim.scaling, c->model.dtype);
    l->lr.total = updates - l->warmup_steps * t->plan.mini_batches * c->algo.ppo_epochs;
    if (c->train.warmup_ratio > 0) l->lr.warmup = (int64_t)ceil(c->train.warmup_ratio * (double)l->lr.total);
  }
  plan_split(t);
  say_idle(t);
  say_repeats(t);
  say_rest(t);
  return TRI_OK;
}

/* ---- all of it ---- */

/* Records the properties of data.train for checkpoints. */
static void remember_data(tri_trainer *t) {
  if (t->data && tri_dataset_stats(t->data)->n_line && !t->plan.like) {
    t->run.data_lines = tri_dataset_stats(t->data)->n_line;
    t->run.data_hash = tri_dataset_hash(t->data);
  }
}

/* Adds an error to the list and continues. Inputs that would repeat an earlier error are not examined.
 * Without a list the run ends with the first error. */
#define NOTE(call) TRI_TRY(tri_error_note(call, t->run.errors))
static int64_t errors(const tri_trainer *t) { return t->run.errors ? t->run.errors->n : 0; }

/* Checks that answers leave space for prompts, if the run has prompts. */
static tri_status check_space(const tri_trainer *t) {
  const tri_config *c = t->cfg;
  int64_t           context = tri_source_shape(t->learner[TRI_POLICY].source)->max_pos,
          answer = c->rollout.max_response_length;
  bool prompts = (tri_has_answers(t) && c->data.train.n) || (c->eval.steps > 0 && tri_evaluates_answers(t));

  if (!prompts || answer < context) return TRI_OK;
  TRI_TRY(tri_errors_miss(t->run.errors, "the length of prompts"));
  TRI_FAIL(
      TRI_ECONFIG,
      "rollout.max_response_length = %lld leaves no space for a prompt in the model's context of %lld tokens",
      (long long)answer, (long long)context);
}

/* Returns the kind of training lines. */
static tri_data_kind kind_of(unsigned needs) {
  if (needs & TRI_NEEDS_PAIRS) return TRI_DATA_PAIRS;
  return needs & TRI_NEEDS_LABELLED ? TRI_DATA_LABELLED : TRI_DATA_SFT;
}

/* Collective over world. Sets *out if the held-out lines suit the loss. With rewards they may be prompts
 * alone. The first line decides for all. */
static tri_status has_lines(tri_trainer *t, bool *out) {
  const tri_config *c = t->cfg;
  tri_status        st = TRI_OK;

  *out = !tri_has_answers(t);
  if (!*out || !tri_evaluates_answers(t) || !is_read(t, &c->data.eval)) return TRI_OK;
  if (t->se->rt.world_rank == 0)
    st = tri_dataset_is_answered(c->data.eval.item[0], c->data.completion_key, c->data.max_line_bytes, out);
  TRI_TRY(tri_agree(tri_world_of(t), st));
  TRI_TRY(tri_host_bcast(tri_world_of(t), out, sizeof *out, 0));
  if (!*out)
    tri_log(TRI_LOG_INFO,
            "%s: its lines have no `%s`, so they are evaluated by answers alone, without eval_loss",
            c->data.eval.item[0], c->data.completion_key);
  return TRI_OK;
}

/* True if every file of data.eval is also in data.train. Then errors of its lines were already reported. */
static bool is_eval_of_train(const tri_config *c) {
  for (int i = 0; i < c->data.eval.n; i++) {
    int k = 0;
    while (k < c->data.train.n && strcmp(c->data.eval.item[i], c->data.train.item[k]) != 0) k++;
    if (k == c->data.train.n) return false;
  }
  return true;
}

/* Collective over world. Opens data.eval as prompts, as lines for the loss, or as both. */
static tri_status open_eval(tri_trainer *t, tri_data_kind asked, tri_data_kind learned,
                            const tri_chat *chat) {
  const tri_config *c = t->cfg;
  bool              lines;

  if (tri_evaluates_answers(t)) TRI_TRY(open_data(t, &c->data.eval, asked, chat, &t->eval.data));
  TRI_TRY(has_lines(t, &lines));
  return lines ? open_data(t, &c->data.eval, learned, chat, &t->eval.lines) : TRI_OK;
}

/* Collective over world. */
static tri_status open_both(tri_trainer *t, const tri_chat *chat) {
  const tri_config *c = t->cfg;
  /* asks the deck, not the opened set, so that a reward that failed to open hides no error of the data */
  bool          truths = tri_reward_needs(c->reward.item, c->reward.n) & TRI_REWARD_TRUTH;
  tri_data_kind asked = truths ? TRI_DATA_RL : TRI_DATA_PROMPTS, learned = kind_of(t->algo->needs);
  int64_t       before = errors(t);

  if (t->plan.like) {
    t->data = t->plan.like->data;
    t->eval.data = t->plan.like->eval.data;
    t->eval.lines = t->plan.like->eval.lines;
    return TRI_OK;
  }
  if (c->data.train.n && !t->plan.evaluates)
    NOTE(tri_error_about(open_data(t, &c->data.train, tri_has_answers(t) ? asked : learned, chat, &t->data),
                         "data.train"));
  remember_data(t);
  if (errors(t) > before && is_eval_of_train(c)) return TRI_OK;
  if (c->eval.steps > 0 && c->data.eval.n)
    NOTE(tri_error_about(open_eval(t, asked, learned, chat),
                         t->plan.evaluates ? "--data or data.eval" : "data.eval"));
  return TRI_OK;
}

/* Collective over world. Opens all data. One chat template formats the conversations of all files, so its
 * error appears once. */
static tri_status open_all_data(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_chat         *chat = NULL;
  int64_t           before;
  tri_status        st = TRI_OK;

  NOTE(check_space(t));
  before = errors(t);
  if (is_read(t, &c->data.train) || (c->eval.steps > 0 && is_read(t, &c->data.eval)))
    TRI_TRY_DONE(tri_error_note(tri_inputs_open_chat(t, &chat), t->run.errors));
  st = errors(t) > before ? tri_errors_miss(t->run.errors, "data") : open_both(t, chat);
done:
  tri_chat_close(&chat);
  return st;
}

/* ---- inputs of a deck that cannot run ---- */

/* Collective over world. Adds errors of the lines themselves. The run ends afterwards. */
static tri_status look_at_data(tri_trainer *t) {
  const tri_config *c = t->cfg;
  bool              rewards = tri_reward_needs(c->reward.item, c->reward.n) & TRI_REWARD_TRUTH;
  tri_data_kind     asked = rewards ? TRI_DATA_RL : TRI_DATA_PROMPTS, learned = kind_of(t->algo->needs);
  tri_data_kind     eval = tri_evaluates_answers(t) ? asked : learned;
  int64_t           before = errors(t);

  if (is_read(t, &c->data.train))
    NOTE(tri_error_about(tri_inputs_look_at_lines(t, &c->data.train, tri_has_answers(t) ? asked : learned),
                         "data.train"));
  if (c->eval.steps > 0 && is_read(t, &c->data.eval) && !(errors(t) > before && is_eval_of_train(c)))
    NOTE(tri_error_about(tri_inputs_look_at_lines(t, &c->data.eval, eval), "data.eval"));
  return tri_errors_miss(t->run.errors, "the length of the data's lines");
}

/* Reads the small files of the model's folder. */
static tri_status look_at_folder(const char *path) {
  tri_source *s = NULL;
  tri_status  st = tri_error_about(tri_source_open(path, NULL, false, &s), "model.path");

  tri_source_close(&s);
  return st;
}

tri_status tri_inputs_look(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_errors       *f = t->run.errors;
  bool              algo = !(f->about & TRI_CONFIG_ABOUT_ALGO),
       model = algo && !(f->about & TRI_CONFIG_ABOUT_MODEL) && !c->model.path != !c->model.config;
  int64_t before = f->n;

  if (!algo || f->about & TRI_CONFIG_ABOUT_REWARD)
    TRI_TRY(check_rewards(t));
  else
    NOTE(open_rewards(t));
  if (f->about & TRI_CONFIG_ABOUT_REWARD) TRI_TRY(tri_errors_miss(f, "further errors of the wrong rewards"));
  if (model) {
    before = f->n;
    TRI_TRY(tri_learner_resolve(t));
    if (f->n == before) NOTE(open_models(t));
  } else if (!algo && c->model.path && !(f->about & TRI_CONFIG_ABOUT_MODEL)) {
    NOTE(look_at_folder(c->model.path));
  } else {
    TRI_TRY(tri_errors_miss(f, "model"));
  }
  model = model && f->n == before;
  if (!algo || f->about & TRI_CONFIG_ABOUT_DATA) return tri_errors_miss(f, "data");
  if (!model) return look_at_data(t);
  return open_all_data(t);
}

/* First opens inputs that need no model. Inputs that need a model follow only if the model has no error.
 * Otherwise only the lines of data themselves are examined. */
tri_status tri_inputs_open(tri_trainer *t, tri_longest *l) {
  const tri_config *c = t->cfg;
  tri_comm         *world = t->se->comm[TRI_WORLD];
  int64_t           first = errors(t), before;

  NOTE(tri_agree(world, open_rewards(t)));
  NOTE(tri_agree(world, tri_shard_plan_check(c->shard.scope)));
  before = errors(t);
  TRI_TRY(tri_learner_resolve(t));
  if (errors(t) == before) NOTE(tri_agree(world, open_models(t)));
  if (errors(t) == before)
    TRI_TRY(open_all_data(t));
  else
    TRI_TRY(look_at_data(t));
  if (t->data || c->train.steps || errors(t) == first)
    NOTE(tri_agree(world, plan_steps(t)));
  else
    TRI_TRY(tri_errors_miss(t->run.errors, "batches"));
  if (errors(t) > first) return TRI_OK;
  NOTE(measure(t, l));
  return TRI_OK;
}

/* Chosen. Tokens of a reward model's pass if nothing is learned. Products are fastest from here on. */
enum { JUDGED_TOKENS = 4096 };

/* Plans passes for evaluations without steps. They are as long as memory allows, but not longer than all
 * lines together. */
static tri_status plan_passes(tri_trainer *t) {
  int64_t lines = t->eval.lines ? tri_dataset_stats(t->eval.lines)->n_token : 1;

  t->plan.samples = t->plan.batch.train_batch_size = t->plan.mini_batches = 1;
  t->plan.by_default = true;
  t->plan.packed = lines < PACKED_MOST ? lines : PACKED_MOST;
  if (t->learner[TRI_REWARD_MODEL].source && t->plan.packed < JUDGED_TOKENS) t->plan.packed = JUDGED_TOKENS;
  plan_split(t);
  return TRI_OK;
}

tri_status tri_inputs_open_to_evaluate(tri_trainer *t, tri_longest *l) {
  const tri_config *c = t->cfg;
  tri_comm         *world = t->se->comm[TRI_WORLD];

  TRI_TRY(tri_agree(world, open_rewards(t)));
  TRI_TRY(tri_agree(world, tri_shard_plan_check(c->shard.scope)));
  TRI_TRY(tri_learner_resolve(t));
  TRI_TRY(tri_agree(world, open_models(t)));
  TRI_TRY(open_all_data(t));
  TRI_TRY(plan_passes(t));
  return measure(t, l);
}
