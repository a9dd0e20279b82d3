/* inputs.c - what a deck names: rewards, model, reference, data; and the steps and lengths that follow from
 * them. */
#include "base/file.h"
#include "io/data/rollout_file.h"
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_rl(const tri_config *c) { return c->algo.row->needs & TRI_NEEDS_ANSWERS; }

/* ---- rewards ---- */

/* What warnings about rewards and lengths say. */
static void set_health(tri_trainer *t) {
  t->health.max_response_length = t->cfg->rollout.max_response_length;
  t->health.n_reward = t->cfg->reward.n;
  for (int i = 0; i < t->cfg->reward.n; i++) {
    t->health.name[i] = tri_reward_set_name(t->reward, i);
    t->health.weight[i] = t->cfg->reward.item[i].weight;
  }
}

static tri_status open_rewards(tri_trainer *t) {
  tri_reward_opt opt[TRI_CONFIG_REWARDS] = {0};

  for (int i = 0; i < t->cfg->reward.n; i++) {
    const tri_config_reward *r = &t->cfg->reward.item[i];
    snprintf(opt[i].name, sizeof opt[i].name, "%s", r->name);
    opt[i].weight = r->weight;
    if (r->pattern && strlen(r->pattern) >= sizeof opt[i].pattern)
      TRI_FAIL(TRI_ECONFIG, "reward %d: the pattern is longer than %zu bytes", i, sizeof opt[i].pattern - 1);
    if (r->pattern) snprintf(opt[i].pattern, sizeof opt[i].pattern, "%s", r->pattern);
  }
  if (t->cfg->reward.n) TRI_TRY(tri_reward_set_open(opt, t->cfg->reward.n, &t->reward));
  set_health(t);
  return TRI_OK;
}

/* ---- models ---- */

/* Whether a folder is there, but not what every model has. */
static bool lacks_model(const char *folder) {
  bool weights =
      tri_file_in(folder, "model.safetensors") || tri_file_in(folder, "model.safetensors.index.json");

  return tri_file_exists(folder) && !(weights && tri_file_in(folder, "config.json"));
}

/* The model the deck names, from files or from random numbers. */
static tri_status open_deck_model(const tri_trainer *t, bool weights, tri_source **out) {
  const tri_config *c = t->cfg;

  if (c->model.path)
    return tri_error_about(tri_source_open(t->model[0] ? t->model : c->model.path, NULL, weights, out),
                           lacks_model(c->model.path)
                               ? "model.path; model.config and model.tokenizer start from random weights"
                               : "model.path");
  return tri_error_about(tri_source_open_random(c->model.config, c->model.tokenizer, c->run.seed, out),
                         c->model.tokenizer ? "model.config, model.tokenizer" : "model.config");
}

/* What config.json calls the first thing in which two models differ, or NULL. */
static const char *difference(const tri_model_shape *a, const tri_model_shape *b) {
  const struct {
    const char *name;
    bool        same;
  } row[] = {{"model_type", !strcmp(a->model_type, b->model_type)},
             {"num_hidden_layers", a->L == b->L},
             {"num_attention_heads", a->H == b->H},
             {"num_key_value_heads", a->G == b->G},
             {"head_dim", a->D == b->D},
             {"hidden_size", a->C == b->C},
             {"intermediate_size", a->F == b->F},
             {"vocab_size", a->V == b->V},
             {"tie_word_embeddings", a->tied_head == b->tied_head},
             {"attention_bias", a->qkv_bias == b->qkv_bias && a->o_bias == b->o_bias},
             {"mlp_bias", a->mlp_bias == b->mlp_bias},
             {"rms_norm_eps", a->norm_eps == b->norm_eps},
             {"rope_theta", a->rope_theta == b->rope_theta},
             {"rope_scaling", a->rope_type == b->rope_type && a->rope_factor == b->rope_factor &&
                                  a->rope_low_freq == b->rope_low_freq &&
                                  a->rope_high_freq == b->rope_high_freq &&
                                  a->rope_original_max_pos == b->rope_original_max_pos}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!row[i].same) return row[i].name;
  return NULL;
}

static tri_status check_same_model(const tri_source *from, const tri_source *deck) {
  const tri_model_shape *a = tri_source_shape(from), *b = tri_source_shape(deck);
  const char            *other = difference(a, b);

  if (!other) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s holds another model than the deck's, %s differs: %s, %d layers of width %d, vocabulary %d, "
           "against %s, %d layers of width %d, vocabulary %d; give run.resume: never, another run.output, "
           "or the model the run was started with",
           tri_source_name(from), other, a->model_type, a->L, a->C, a->V, b->model_type, b->L, b->C, b->V);
}

/* A checkpoint stands alone; the first model's folder is compared with it where it is still there. */
static tri_status open_resumed(tri_trainer *t) {
  const char *path = t->cfg->model.path ? t->cfg->model.path : t->cfg->model.config;
  tri_source *deck = NULL;
  tri_status  st;

  TRI_TRY(tri_source_open(t->resume, NULL, true, &t->source));
  if (access(path, R_OK)) return TRI_OK;
  st = open_deck_model(t, false, &deck);
  if (st == TRI_OK) {
    st = check_same_model(t->source, deck);
  } else if (st == TRI_EINPUT || st == TRI_EFORMAT || st == TRI_EFILE) {
    if (t->se->rt.world_rank == 0)
      tri_log(TRI_LOG_WARN,
              "the checkpoint cannot be compared with the model it began from, and stands alone: %s",
              tri_error_message());
    tri_error_clear();
    st = TRI_OK;
  }
  tri_source_close(&deck);
  return st;
}

/* model.ref_path, unless it is gone; then, or without it, the checkpoint's own; else the starting policy. */
static tri_status open_reference(tri_trainer *t) {
  tri_ckpt_reader *r = t->resume[0] ? tri_source_checkpoint(t->source) : NULL;

  if (t->ref_model[0])
    return tri_error_about(tri_source_open(t->ref_model, NULL, true, &t->ref_source), "model.ref_path");
  t->ref_resumed = r && tri_ckpt_find_tensor(r, "/reference", "model.norm.weight") >= 0;
  if (t->ref_resumed) return tri_source_open(t->resume, NULL, true, &t->ref_source);
  if (t->cfg->model.ref_path)
    return tri_error_about(tri_source_missing(t->cfg->model.ref_path),
                           "model.ref_path; the checkpoint holds no reference");
  return open_deck_model(t, true, &t->ref_source);
}

/* The starting policy and, where a KL term wants one, the reference. */
static tri_status open_sources(tri_trainer *t) {
  TRI_TRY(t->resume[0] ? open_resumed(t) : open_deck_model(t, true, &t->source));
  if (!is_rl(t->cfg) || t->cfg->algo.opt.kl_coef <= 0) return TRI_OK;
  TRI_TRY(open_reference(t));
  if (tri_source_shape(t->ref_source)->V != tri_source_shape(t->source)->V)
    TRI_FAIL(TRI_ECONFIG, "model.ref_path: the reference has a vocabulary of %d, the policy one of %d",
             tri_source_shape(t->ref_source)->V, tri_source_shape(t->source)->V);
  return TRI_OK;
}

/* Generation options that need the tokenizer and the end tokens. */
static tri_status set_endings(tri_trainer *t) {
  const tri_eos *eos = tri_source_eos(t->source);

  t->gen.eos = t->eval_gen.eos = eos->id;
  t->gen.n_eos = t->eval_gen.n_eos = eos->n;
  if (!t->cfg->rollout.stop.n) return TRI_OK;
  if (!tri_source_tokenizer(t->source))
    TRI_FAIL(TRI_ECONFIG, "rollout.stop needs a tokenizer, and the model brings none");
  t->stop_rule =
      (tri_stop_rule){tri_source_tokenizer(t->source), t->cfg->rollout.stop.item, t->cfg->rollout.stop.n};
  t->gen.stop = t->eval_gen.stop = tri_answers_stop;
  t->gen.ctx = t->eval_gen.ctx = &t->stop_rule;
  return TRI_OK;
}

static tri_status open_policy(tri_trainer *t) {
  TRI_TRY(open_sources(t));
  return set_endings(t);
}

/* ---- data ---- */

static bool answers_needed(const tri_config *c) {
  for (int i = 0; i < c->reward.n; i++)
    if (strcmp(c->reward.item[i].name, "regex")) return true;
  return false;
}

static const char *refuse_answer(const void *rewards, const char *answer, size_t n) {
  return tri_reward_set_refuse(rewards, answer, n);
}

/* Rank 0 says what became of lines that are too long. */
static void say_overlong(const tri_data_stats *s, const tri_config_list *files) {
  const char *more = files->n > 1 ? " ..." : "";

  if (s->n_dropped)
    tri_log(TRI_LOG_INFO, "%s%s: %lld of %lld lines are too long and dropped (data.overlong_prompt: drop)",
            files->item[0], more, (long long)s->n_dropped, (long long)s->n_line);
  if (s->n_truncated)
    tri_log(TRI_LOG_INFO, "%s%s: %lld of %lld lines are too long and cut (data.overlong_prompt: truncate)",
            files->item[0], more, (long long)s->n_truncated, (long long)s->n_line);
}

/* Collective over world. */
static tri_status open_data(tri_trainer *t, const tri_config_list *files, tri_data_kind kind,
                            tri_dataset **out) {
  const tri_config *c = t->cfg;
  int64_t           context = tri_source_shape(t->source)->max_pos;
  bool    room = kind != TRI_DATA_SFT && c->rollout.max_response_length < context; /* else it is said */
  int64_t answer = room ? c->rollout.max_response_length : 0;
  const tri_eos *eos = tri_source_eos(t->source);
  tri_encoder    encoder = {tri_source_tokenizer(t->source), {0}};
  tri_status     st;
  tri_data_opt   opt = {.kind = kind,
                        .prompt_key = c->data.prompt_key,
                        .answer_key = c->data.answer_key,
                        .completion_key = c->data.completion_key,
                        .overlong = c->data.overlong_prompt,
                        .max_prompt_tokens = c->data.max_prompt_length,
                        .from_deck = true,
                        .max_total_tokens = kind == TRI_DATA_SFT ? context : 0,
                        .max_total_name = "the model's max_position_embeddings",
                        .max_line_bytes = c->data.max_line_bytes,
                        .vocab = tri_source_shape(t->source)->V,
                        .completion_end = eos->n ? eos->id[0] : -1,
                        .text_end = eos->n ? eos->id[0] : -1,
                        .encode = encoder.tokenizer ? tri_encoder_run : NULL,
                        .ctx = &encoder,
                        .refuse = t->reward ? refuse_answer : NULL,
                        .refuse_ctx = t->reward,
                        .faults = t->faults};

  if (!opt.max_prompt_tokens || opt.max_prompt_tokens > context - answer) {
    opt.max_prompt_tokens = context - answer;
    opt.max_prompt_name = "the model's max_position_embeddings less rollout.max_response_length";
    if (!answer) opt.max_prompt_name = opt.max_total_name;
  }
  st = tri_dataset_open_shared((const char *const *)files->item, files->n, &opt, t->se->comm[TRI_WORLD], out);
  tri_tokens_free(&encoder.tokens);
  if (*out) say_overlong(tri_dataset_stats(*out), files);
  return st;
}

/* The longest line of every size-th replayed step this run will take, from its own first + rank on. */
static tri_status measure_replay(const tri_trainer *t, int rank, int size, int64_t *out) {
  tri_replay_opt opt = {.group = (int)t->cfg->algo.num_generations,
                        .max_answers = (int)t->samples,
                        .max_line_bytes = t->cfg->data.max_line_bytes,
                        .vocab = tri_source_shape(t->source)->V,
                        .max_response = t->cfg->rollout.max_response_length};

  int64_t done = t->resume[0] ? tri_ckpt_step(tri_source_checkpoint(t->source)) : 0;

  for (int64_t step = done + 1 + rank; step <= t->steps; step += size) {
    tri_rollout r = {0};
    TRI_TRY(tri_rollout_file_read(t->cfg->rollout.replay, step, &opt, 0, 1, &r));
    for (int q = 0; q < r.n_seq; q++)
      if (r.start[q + 1] - r.start[q] > *out) *out = r.start[q + 1] - r.start[q];
    tri_rollout_free(&r);
  }
  return TRI_OK;
}

/* Collective over world. */
static tri_status measure(tri_trainer *t, tri_longest *l) {
  const tri_config *c = t->cfg;
  tri_comm         *world = t->se->comm[TRI_WORLD];
  int               sharers = t->se->pretended ? 1 : world->size;

  *l = (tri_longest){0, 1};
  if (c->rollout.replay) { /* every rank reads its share of the files */
    TRI_TRY(tri_error_about(tri_agree(world, measure_replay(t, world->rank, sharers, &l->learn)),
                            "rollout.replay"));
    TRI_TRY(tri_host_max(world, &l->learn, 1));
  } else if (is_rl(c)) {
    l->prompt = tri_dataset_stats(t->data)->longest_prompt;
    l->learn = l->prompt + c->rollout.max_response_length;
  } else {
    l->learn = tri_dataset_stats(t->data)->longest;
  }
  if (t->eval_data && tri_dataset_stats(t->eval_data)->longest_prompt > l->prompt)
    l->prompt = tri_dataset_stats(t->eval_data)->longest_prompt;
  if (l->learn > tri_source_shape(t->source)->max_pos)
    TRI_FAIL(TRI_EINPUT, "the longest sequence has %lld tokens, the model's context is %lld",
             (long long)l->learn, (long long)tri_source_shape(t->source)->max_pos);
  t->max_tokens = l->learn;
  return TRI_OK;
}

/* ---- how long, how many ---- */

/* Rank 0 names the ranks to which a step of n pieces gives none: pieces are dealt one to a rank, from rank 0
 * on. */
static void say_idle_in(const tri_trainer *t, const char *key, int64_t n, const char *what) {
  int  ranks = t->se->rt.world_size;
  char idle[64];

  if (n >= ranks || t->se->rt.world_rank != 0) return;
  if (n == ranks - 1)
    snprintf(idle, sizeof idle, "rank %d of %d has", ranks - 1, ranks);
  else
    snprintf(idle, sizeof idle, "ranks %d to %d of %d have", (int)n, ranks - 1, ranks);
  tri_log(TRI_LOG_WARN,
          "%s no %s in any step, waiting for the others: %s = %lld; make it larger or start %lld ranks", idle,
          what, key, (long long)n, (long long)n);
}

static void say_idle(const tri_trainer *t) {
  const tri_config *c = t->cfg;

  if (is_rl(c) && !c->rollout.replay)
    say_idle_in(t, "rollout.rollout_batch_size", c->rollout.rollout_batch_size, "prompt to answer");
  if (c->rollout.replay) /* whose groups stay together */
    say_idle_in(t, "train.train_batch_size / algo.num_generations",
                t->batch.train_batch_size / c->algo.num_generations, "group to learn from");
  else
    say_idle_in(t, "train.train_batch_size", t->batch.train_batch_size, "sequence to learn from");
}

/* Rank 0. */
static void say_repeats(const tri_trainer *t) {
  const tri_config *c = t->cfg;

  if (t->se->rt.world_rank != 0 || !t->data || !is_rl(c) ||
      c->rollout.rollout_batch_size <= tri_dataset_count(t->data))
    return;
  tri_log(TRI_LOG_WARN,
          "data.train has %lld prompts, fewer than rollout.rollout_batch_size = %lld: a prompt that comes "
          "twice in one rollout brings the same answers twice (random numbers are keyed by line, answer and "
          "position)",
          (long long)tri_dataset_count(t->data), (long long)c->rollout.rollout_batch_size);
}

static tri_status plan_steps(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_batch_request q = {.ranks = t->se->rt.world_size,
                         .train_batch_size = c->train.train_batch_size,
                         .micro_batch_size = c->train.micro_batch_size,
                         .gradient_accumulation_steps = c->train.gradient_accumulation_steps,
                         .max_tokens_per_gpu = c->train.max_tokens_per_gpu,
                         .rollout_batch_size = is_rl(c) ? c->rollout.rollout_batch_size : 0,
                         .num_generations = is_rl(c) ? c->algo.num_generations : 0};
  int64_t           per_step, updates;

  TRI_TRY(tri_batch_plan_make(&q, &t->batch));
  per_step = is_rl(c) ? c->rollout.rollout_batch_size : t->batch.train_batch_size;
  t->samples = is_rl(c) ? t->batch.rollout_samples : t->batch.train_batch_size;
  t->mini_batches = t->samples / t->batch.train_batch_size;
  if (t->samples > INT32_MAX / 2)
    TRI_FAIL(TRI_ECONFIG, "%lld samples in one step are more than this program handles",
             (long long)t->samples);
  t->steps = c->train.steps;
  if (!t->steps && !t->data)
    TRI_FAIL(TRI_ECONFIG,
             "train.epochs with rollout.replay: a replay has no passes over data; give train.steps");
  if (!t->steps) t->steps = (c->train.epochs * tri_dataset_count(t->data) + per_step - 1) / per_step;
  updates = t->steps * t->mini_batches * c->algo.ppo_epochs;
  t->lr = c->train.lr;
  t->lr.total = updates;
  if (c->train.warmup_ratio > 0) t->lr.warmup = (int64_t)ceil(c->train.warmup_ratio * (double)updates);
  say_idle(t);
  say_repeats(t);
  return TRI_OK;
}

/* ---- all of it ---- */

/* What a checkpoint says of data.train. */
static void remember_data(tri_trainer *t) {
  if (t->data) {
    t->data_lines = tri_dataset_stats(t->data)->n_line;
    t->data_hash = tri_dataset_hash(t->data);
  }
}

/* What a fault of an input would say twice is not looked at; a run ends with the first one. */
#define NOTE(call) TRI_TRY(tri_error_note(call, t->faults))
static int64_t faults(const tri_trainer *t) { return t->faults ? t->faults->n : 0; }

/* Collective over world. A resumed run goes on without model.ref_path where that is gone. */
static tri_status find_models(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_comm         *world = t->se->comm[TRI_WORLD];
  bool              gone = c->model.ref_path && t->resume[0] && access(c->model.ref_path, F_OK);

  if (c->model.path && !t->resume[0])
    NOTE(tri_error_about(tri_source_resolve(c->model.path, world, t->model), "model.path"));
  TRI_TRY(tri_host_bcast(world, &gone, sizeof gone, 0));
  if (c->model.ref_path && !gone)
    NOTE(tri_error_about(tri_source_resolve(c->model.ref_path, world, t->ref_model), "model.ref_path"));
  return TRI_OK;
}

/* Whether answers leave room for prompts, where there are any. */
static tri_status check_room(const tri_trainer *t) {
  const tri_config *c = t->cfg;
  int64_t           context = tri_source_shape(t->source)->max_pos, answer = c->rollout.max_response_length;
  bool              prompts = (is_rl(c) && c->data.train.n) || c->eval.steps > 0;

  if (!prompts || answer < context) return TRI_OK;
  TRI_TRY(tri_faults_miss(t->faults, "the length of prompts"));
  TRI_FAIL(
      TRI_ECONFIG,
      "rollout.max_response_length = %lld leaves no room for a prompt: the model's context is %lld tokens",
      (long long)answer, (long long)context);
}

/* Collective over world. */
static tri_status open_all_data(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_data_kind     asked = answers_needed(c) ? TRI_DATA_RL : TRI_DATA_PROMPTS;

  NOTE(check_room(t));
  if (c->data.train.n)
    NOTE(tri_error_about(open_data(t, &c->data.train, is_rl(c) ? asked : TRI_DATA_SFT, &t->data),
                         "data.train"));
  remember_data(t);
  if (c->eval.steps > 0)
    NOTE(tri_error_about(open_data(t, &c->data.eval, asked, &t->eval_data), "data.eval"));
  return TRI_OK;
}

/* What needs no model is looked at first, and what needs one only if it has no fault. */
tri_status tri_inputs_open(tri_trainer *t, tri_longest *l) {
  const tri_config *c = t->cfg;
  tri_comm         *world = t->se->comm[TRI_WORLD];
  int64_t           first = faults(t), before;

  t->algo = c->algo.row;
  NOTE(tri_agree(world, open_rewards(t)));
  NOTE(tri_agree(world, tri_shard_plan_check(c->shard.scope)));
  before = faults(t);
  TRI_TRY(find_models(t));
  if (faults(t) == before) NOTE(tri_agree(world, open_policy(t)));
  if (faults(t) == before)
    TRI_TRY(open_all_data(t));
  else
    TRI_TRY(tri_faults_miss(t->faults, "data"));
  if (t->data || c->train.steps || faults(t) == first)
    NOTE(tri_agree(world, plan_steps(t)));
  else
    TRI_TRY(tri_faults_miss(t->faults, "batches"));
  if (faults(t) > first) return TRI_OK;
  NOTE(measure(t, l));
  return TRI_OK;
}
