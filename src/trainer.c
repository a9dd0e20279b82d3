/* trainer.c - opens everything a deck asks for: data, models, sampler, memory; and closes it. */
#include "train.h"
#include "io/rollout_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_rl(const tri_config *c) { return c->algo.row->use == TRI_USE_RL; }
static bool generates(const tri_trainer *t) {
  return (is_rl(t->cfg) && !t->cfg->rollout.replay) || t->cfg->eval.steps > 0;
}

/* ---- options ---- */

static void set_options(tri_trainer *t) {
  const tri_config *c = t->cfg;

  t->algo_opt = (tri_algo_opt){.clip_eps = c->algo.clip_eps,
                               .clip_eps_high = c->algo.clip_eps_high,
                               .kl_coef = c->algo.kl_coef,
                               .entropy_coef = c->algo.entropy_coef,
                               .advantage_eps = c->algo.advantage_eps,
                               .kl_estimator = (tri_kl_estimator)c->algo.kl_estimator,
                               .kl_in_reward = c->algo.kl_where == TRI_CONFIG_KL_IN_REWARD,
                               .scale_rewards = (tri_scale_rewards)c->algo.scale_rewards,
                               .loss_agg_mode = (tri_loss_agg)c->algo.loss_agg_mode,
                               .max_response_length = c->rollout.max_response_length};
  t->optim = (tri_optim_opt){c->train.adam_beta1, c->train.adam_beta2, c->train.adam_eps,
                             c->train.weight_decay, c->train.max_grad_norm};
  t->inv_temperature = is_rl(c) && c->rollout.temperature > 0 ? 1.0f / (float)c->rollout.temperature : 1.0f;
  t->gen = (tri_generate_opt){
      .rule = {(float)c->rollout.temperature, (float)c->rollout.top_p, (int)c->rollout.top_k, c->run.seed},
      .max_new = c->rollout.max_response_length,
      .group = (int)c->algo.num_generations};
  t->eval_gen = t->gen;
  t->eval_gen.rule = (tri_sample_rule){(float)c->eval.temperature, 1.0f, 0, c->run.seed};
  t->eval_gen.group = (int)c->eval.num_generations;
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
  return t->cfg->reward.n ? tri_reward_set_open(opt, t->cfg->reward.n, &t->reward) : TRI_OK;
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
  int64_t           answer = kind == TRI_DATA_SFT ? 0 : c->rollout.max_response_length;
  const tri_eos    *eos = tri_source_eos(t->source);
  tri_encoder       encoder = {tri_source_tokenizer(t->source), {0}};
  tri_status        st;
  tri_data_opt      opt = {.kind = kind,
                           .prompt_key = c->data.prompt_key,
                           .answer_key = c->data.answer_key,
                           .completion_key = c->data.completion_key,
                           .overlong = (tri_overlong)c->data.overlong_prompt,
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

  if (kind != TRI_DATA_SFT && answer >= context)
    TRI_FAIL(
        TRI_ECONFIG,
        "rollout.max_response_length = %lld leaves no room for a prompt: the model's context is %lld tokens",
        (long long)answer, (long long)context);
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

/* The longest sequence and prompt that will occur. */
typedef struct longest {
  int64_t learn, prompt;
} longest;

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
static tri_status measure(tri_trainer *t, longest *l) {
  const tri_config *c = t->cfg;
  tri_comm         *world = t->se->comm[TRI_WORLD];

  *l = (longest){0, 1};
  if (c->rollout.replay) { /* every rank reads its share of the files */
    TRI_TRY(tri_error_about(tri_agree(world, measure_replay(t, world->rank, world->size, &l->learn)),
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
  t->lr = (tri_lr_opt){.scheduler = (tri_lr_scheduler)c->train.lr_scheduler,
                       .peak = c->train.learning_rate,
                       .min_ratio = c->train.min_lr_ratio,
                       .warmup = c->train.warmup_steps,
                       .total = updates};
  if (c->train.warmup_ratio > 0) t->lr.warmup = (int64_t)ceil(c->train.warmup_ratio * (double)updates);
  return TRI_OK;
}

/* Rank 0 names the ranks to which a step of n pieces gives none: pieces are dealt one to a rank, from rank 0 on. */
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
  say_idle_in(t, "train.train_batch_size", t->batch.train_batch_size, "sequence to learn from");
}

/* ---- models ---- */

static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

enum { EVAL_ANSWERS = 1024 }; /* chosen: generated together in an evaluation, if a step has not more */

static void plan_eval(tri_trainer *t) {
  const tri_config *c = t->cfg;
  int64_t           most = at_least(t->samples, EVAL_ANSWERS) / c->eval.num_generations;

  if (!t->eval_data) return;
  t->eval_prompts = tri_dataset_count(t->eval_data);
  if (c->eval.max_prompts && c->eval.max_prompts < t->eval_prompts) t->eval_prompts = c->eval.max_prompts;
  t->eval_at_once = most < t->eval_prompts ? at_least(most, 1) : t->eval_prompts;
}

/* Answers of one rank in a step or an evaluation, whichever has more. */
static int64_t answers_here(const tri_trainer *t) {
  int64_t R = t->se->rt.world_size, n = 0;

  if (is_rl(t->cfg) && !t->cfg->rollout.replay)
    n = (t->cfg->rollout.rollout_batch_size + R - 1) / R * t->cfg->algo.num_generations;
  return at_least(n, (t->eval_at_once + R - 1) / R * t->cfg->eval.num_generations);
}

/* Host memory for the sequences of a step or an evaluation, each as long as can be. A replay's come with its
 * files. */
static tri_status plan_rollouts(tri_trainer *t, const longest *l) {
  const tri_config *c = t->cfg;
  tri_ledger       *ledger = t->se->ledger;
  int64_t           eval = t->eval_at_once * c->eval.num_generations, most = l->learn,
          answer = l->prompt + c->rollout.max_response_length;
  int64_t samples = at_least(c->rollout.replay ? 0 : t->samples, eval), mine = answers_here(t);

  if (t->eval_data) most = at_least(most, answer);
  if (samples > INT32_MAX / 2)
    TRI_FAIL(TRI_ECONFIG, "%lld samples at once are more than this program handles", (long long)samples);
  tri_rollout_size all = {(int)samples, c->reward.n, t->se->rt.world_size, samples * most};
  tri_rollout_size own = {(int)mine, c->reward.n, 1, mine * answer};
  if (samples)
    TRI_TRY(tri_rollout_plan(ledger, TRI_PHASE_ALWAYS, "sequences of a step", &all, mine > 0, &t->rollout));
  if (mine)
    TRI_TRY(tri_rollout_plan(ledger, TRI_PHASE_ROLLOUT, "answers of this rank", &own, true, &t->mine));
  if ((!t->algo_opt.kl_in_reward || !t->ref) && !c->rollout.save_every) return TRI_OK;
  return tri_ledger_add(ledger, TRI_MEM_HOST, TRI_PHASE_LEARN, false, "sequences of a step",
                        (size_t)(t->samples * l->learn) * sizeof *t->token_sum, (void **)&t->token_sum);
}

/* Collective over world. Answers decoded at once by a rank: what a step or an evaluation gives it, as far as half of its memory
 * goes. */
static tri_status plan_decode(const tri_trainer *t, const longest *l, int64_t *out) {
  const tri_config      *c = t->cfg;
  const tri_model_shape *sh = tri_source_shape(t->source);
  int64_t                n = at_least(answers_here(t), 1), each;
  size_t                 bytes_free, bytes_total;
  int                    sharers;

  if (c->rollout.max_sequences) {
    *out = c->rollout.max_sequences < n ? c->rollout.max_sequences : n;
    return TRI_OK;
  }
  TRI_TRY(t->se->device->ops->mem_info(t->se->device, &bytes_free, &bytes_total));
  each = (l->prompt + c->rollout.max_response_length + TRI_PAGE) * sh->L * sh->G * sh->D *
         (c->model.dtype == TRI_CONFIG_F32 ? 8 : 4);
  if (n > TRI_SAMPLER_SEQUENCES) n = TRI_SAMPLER_SEQUENCES;
  TRI_TRY(tri_comm_sharers(&t->se->rt, t->se->comm[TRI_WORLD], t->se->device, &sharers));
  while (n > 1 && n * each > (int64_t)(bytes_total / (size_t)sharers / 2)) n /= 2;
  *out = n;
  return TRI_OK;
}

static tri_status open_models(tri_trainer *t, const longest *l) {
  const tri_config *c = t->cfg;
  tri_session      *se = t->se;
  int64_t           learn = c->train.max_tokens_per_gpu, decode = 0, prefill = 0, rows;
  tri_dtype         dtype = c->model.dtype == TRI_CONFIG_F32 ? TRI_F32 : TRI_BF16;

  if (t->batch.micro_batch_size) learn = t->batch.micro_batch_size * l->learn;
  if (learn < l->learn)
    TRI_FAIL(TRI_ECONFIG, "train.max_tokens_per_gpu = %lld: the longest sequence here can have %lld tokens",
             (long long)learn, (long long)l->learn);
  plan_eval(t);
  if (generates(t)) {
    TRI_TRY(plan_decode(t, l, &decode));
    TRI_TRY(tri_host_bcast(se->comm[TRI_WORLD], &decode, sizeof decode, 0)); /* memory differs by node */
    prefill = tri_sampler_prefill(decode, l->prompt);
  }
  rows = learn;
  if (is_rl(c) && t->batch.micro_batch_size && !c->rollout.replay)
    rows = t->batch.micro_batch_size * c->rollout.max_response_length;
  tri_model_opt mo = {.shape = tri_source_shape(t->source),
                      .dtype = dtype,
                      .plan = c->shard.scope,
                      .place = se->place,
                      .train = true,
                      .rollout = generates(t),
                      .recompute = c->model.recompute == TRI_CONFIG_RECOMPUTE_LAYER,
                      .max_tokens = at_least(learn, at_least(prefill, decode)),
                      .max_learn_tokens = learn,
                      .max_rows = at_least(rows, decode),
                      .max_positions = at_least(l->learn, l->prompt + c->rollout.max_response_length),
                      .label = "policy"};
  TRI_TRY(tri_model_open(se->device, se->comm, se->ledger, &mo, &t->policy));
  if (t->ref_source) {
    mo.shape = tri_source_shape(t->ref_source);
    mo.train = mo.rollout = false;
    mo.max_tokens = learn;
    mo.max_rows = rows;
    mo.label = "reference";
    TRI_TRY(tri_model_open(se->device, se->comm, se->ledger, &mo, &t->ref));
  }
  TRI_TRY(tri_feed_open(se->device, se->ledger, learn, rows, &t->feed));
  TRI_TRY(plan_rollouts(t, l));
  if (!generates(t)) return TRI_OK;
  tri_sampler_opt so = {(int)decode, l->prompt, c->rollout.max_response_length, prefill, answers_here(t)};
  return tri_sampler_open(se->device, se->ledger, t->policy, dtype, &so, &t->sampler);
}

/* The model the deck names, from files or from random numbers. */
static tri_status open_deck_model(const tri_trainer *t, bool weights, tri_source **out) {
  const tri_config *c = t->cfg;

  if (c->model.path)
    return tri_error_about(tri_source_open(t->model[0] ? t->model : c->model.path, NULL, weights, out),
                           "model.path");
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
           "against %s, "
           "%d layers of width %d, vocabulary %d; give run.resume: never, another run.output, or the model "
           "the run was "
           "started with",
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
    TRI_FAIL(TRI_EINPUT, "model.ref_path: %s is not there, and %s holds no reference", t->cfg->model.ref_path,
             t->resume);
  return open_deck_model(t, true, &t->ref_source);
}

/* The starting policy and, where a KL term wants one, the reference. */
static tri_status open_sources(tri_trainer *t) {
  TRI_TRY(t->resume[0] ? open_resumed(t) : open_deck_model(t, true, &t->source));
  if (!is_rl(t->cfg) || t->cfg->algo.kl_coef <= 0) return TRI_OK;
  TRI_TRY(open_reference(t));
  if (tri_source_shape(t->ref_source)->V != tri_source_shape(t->source)->V)
    TRI_FAIL(TRI_ECONFIG, "model.ref_path: the reference has a vocabulary of %d, the policy one of %d",
             tri_source_shape(t->ref_source)->V, tri_source_shape(t->source)->V);
  return TRI_OK;
}

static tri_status open_sources_and_rewards(tri_trainer *t) {
  TRI_TRY(open_sources(t));
  TRI_TRY(set_endings(t));
  TRI_TRY(open_rewards(t));
  set_health(t);
  return TRI_OK;
}

/* What a checkpoint says of data.train. */
static void remember_data(tri_trainer *t) {
  if (t->data) {
    t->data_lines = tri_dataset_stats(t->data)->n_line;
    t->data_hash = tri_dataset_hash(t->data);
  }
}

/* Collective over world. */
static tri_status open_inputs(tri_trainer *t, longest *l) {
  const tri_config *c = t->cfg;
  tri_comm         *world = t->se->comm[TRI_WORLD];
  tri_data_kind     asked = answers_needed(c) ? TRI_DATA_RL : TRI_DATA_PROMPTS;
  bool              gone;

  t->algo = tri_algo_find(c->algo.name);
  TRI_ASSERT(t->algo);
  if (c->model.path && !t->resume[0])
    TRI_TRY(tri_error_about(tri_source_resolve(c->model.path, world, t->model), "model.path"));
  gone = c->model.ref_path && t->resume[0] && access(c->model.ref_path, F_OK);
  TRI_TRY(tri_host_bcast(world, &gone, sizeof gone, 0));
  if (c->model.ref_path && !gone)
    TRI_TRY(tri_error_about(tri_source_resolve(c->model.ref_path, world, t->ref_model), "model.ref_path"));
  TRI_TRY(tri_agree(world, open_sources_and_rewards(t)));
  if (c->data.train.n)
    TRI_TRY(tri_error_about(open_data(t, &c->data.train, is_rl(c) ? asked : TRI_DATA_SFT, &t->data),
                            "data.train"));
  remember_data(t);
  if (c->eval.steps > 0)
    TRI_TRY(tri_error_about(open_data(t, &c->data.eval, asked, &t->eval_data), "data.eval"));
  TRI_TRY(tri_agree(world, plan_steps(t)));
  say_idle(t);
  if (t->data && is_rl(c) && c->rollout.rollout_batch_size > tri_dataset_count(t->data) && world->rank == 0)
    tri_log(TRI_LOG_WARN,
            "data.train has %lld prompts, fewer than rollout.rollout_batch_size = %lld: a prompt that comes "
            "twice in one "
            "rollout brings the same answers twice (random numbers are keyed by line, answer and position)",
            (long long)tri_dataset_count(t->data), (long long)c->rollout.rollout_batch_size);
  return measure(t, l);
}

/* Collective over world. The deck as used: with the numbers that followed from others and do not depend on the ranks. */
static tri_status settle_deck(tri_trainer *t) {
  tri_config used = *t->cfg;

  used.train.steps = t->steps;
  used.train.epochs = 0;
  used.train.train_batch_size = t->batch.train_batch_size;
  TRI_TRY(tri_config_print(&used, &t->deck));
  return tri_resume_compare(t, &used);
}

/* Collective over world. Where products depend on the number of rows, old log-probabilities are computed again. */
static tri_status check_sampler(tri_trainer *t) {
  tri_comm  *world = t->se->comm[TRI_WORLD];
  tri_status st;

  t->sampler_mode = t->cfg->run.sampler;
  if (!is_rl(t->cfg) || t->sampler_mode != TRI_CONFIG_EXACT) return TRI_OK;
  st = tri_agree(world, tri_model_check(t->policy, t->se->stream));
  if (st != TRI_EDEVICE) return st;
  /* A device that failed is not one whose rows vary: it fails again here. */
  TRI_TRY(tri_agree(world, t->se->device->ops->stream_sync(t->se->stream)));
  if (world->rank == 0)
    tri_log(TRI_LOG_WARN, "run.sampler: exact becomes rescore in this run: %s", tri_error_message());
  tri_error_clear();
  t->sampler_mode = TRI_CONFIG_RESCORE;
  return TRI_OK;
}

enum {
  TRACED_SPANS = 16384
}; /* chosen: 2 MB of file for a step; 80 layers in 40 micro-batches have 13,000 */

static tri_status open_timeline(tri_trainer *t) {
  char             folder[TRI_CKPT_PATH_BYTES + 8];
  tri_timeline_opt opt = {t->se->rt.world_rank, t->se->rt.host, folder, t->cfg->run.trace_steps,
                          TRACED_SPANS};

  if (!opt.steps) return TRI_OK;
  snprintf(folder, sizeof folder, "%s/trace", t->cfg->run.output);
  tri_metrics_trace(t->metrics, t->se->device);
  return tri_timeline_open(t->se->device, &opt, &t->timeline);
}

enum { HALT_MARGIN_S = 60 }; /* chosen: a step and a save of a small model */

/* Collective over world. */
static tri_status open_halt(tri_trainer *t) {
  char         file[TRI_CKPT_PATH_BYTES + 8];
  tri_halt_opt opt = {t->se->rt.end_unix_s, HALT_MARGIN_S, file};

  snprintf(file, sizeof file, "%s/STOP", t->cfg->run.output);
  return tri_halt_open(t->se->comm[TRI_WORLD], &opt, &t->halt);
}

static tri_status begin(const tri_config *cfg, tri_session *se, tri_trainer *t) {
  *t = (tri_trainer){.cfg = cfg,
                     .se = se,
                     .start_s = tri_now_s(),
                     .last_save_s = tri_now_s(),
                     .saved_step = -1,
                     .lock = -1,
                     .screen = {.score = NAN, .rate = NAN}};
  if ((size_t)snprintf(t->folder, sizeof t->folder, "%s/checkpoints", cfg->run.output) >=
      sizeof t->folder - 64)
    TRI_FAIL(TRI_ECONFIG, "run.output: the path is too long");
  set_options(t);
  return TRI_OK;
}

tri_status tri_trainer_open(const tri_config *cfg, tri_session *se, tri_trainer *out) {
  tri_trainer *t = out;
  longest      l = {0};

  TRI_TRY(begin(cfg, se, t));
  TRI_TRY(tri_state_find(t));
  TRI_TRY(open_halt(t));
  TRI_TRY(open_inputs(t, &l));
  TRI_TRY(settle_deck(t));
  TRI_TRY(open_models(t, &l));
  TRI_TRY(tri_session_take_memory(se));
  TRI_TRY(tri_model_start(t->policy, se->stream));
  if (t->ref) TRI_TRY(tri_model_start(t->ref, se->stream));
  TRI_TRY(tri_state_load(t));
  TRI_TRY(open_timeline(t));
  return check_sampler(t);
}

#define NOTE(call) TRI_TRY(tri_error_note(call, faults))

/* What needs the model, and what needs nothing. */
static tri_status check_inputs(tri_trainer *t, tri_faults *faults) {
  const tri_config *c = t->cfg;
  tri_data_kind     asked = answers_needed(c) ? TRI_DATA_RL : TRI_DATA_PROMPTS;
  int64_t           before;
  bool              has_model;

  NOTE(open_rewards(t));
  NOTE(tri_shard_plan_check(c->shard.scope));
  before = faults->n;
  if (c->model.path && !t->resume[0])
    NOTE(tri_error_about(tri_source_resolve(c->model.path, t->se->comm[TRI_WORLD], t->model), "model.path"));
  if (c->model.ref_path)
    NOTE(tri_error_about(tri_source_resolve(c->model.ref_path, t->se->comm[TRI_WORLD], t->ref_model),
                         "model.ref_path"));
  if (faults->n == before) NOTE(open_sources(t));
  if (faults->n == before) NOTE(set_endings(t));
  has_model = faults->n == before;
  if (has_model && c->data.train.n)
    NOTE(tri_error_about(open_data(t, &c->data.train, is_rl(c) ? asked : TRI_DATA_SFT, &t->data),
                         "data.train"));
  remember_data(t);
  if (has_model && c->eval.steps > 0)
    NOTE(tri_error_about(open_data(t, &c->data.eval, asked, &t->eval_data), "data.eval"));
  if (t->data || c->train.steps) NOTE(plan_steps(t));
  return TRI_OK;
}

tri_status tri_trainer_check(const tri_config *cfg, tri_session *se, tri_trainer *out, tri_faults *faults) {
  tri_trainer *t = out;
  longest      l = {0};

  TRI_TRY(begin(cfg, se, t));
  t->faults = faults;
  t->algo = tri_algo_find(cfg->algo.name);
  NOTE(tri_state_look(t));
  TRI_TRY(check_inputs(t, faults));
  if (faults->n) return TRI_OK;
  NOTE(measure(t, &l));
  if (faults->n) return TRI_OK;
  NOTE(settle_deck(t));
  NOTE(open_models(t, &l));
  if (faults->n) return TRI_OK;
  NOTE(tri_source_check(t->source, "/model", tri_model_params(t->policy)));
  if (t->ref)
    NOTE(tri_source_check(t->ref_source, t->ref_resumed ? "/reference" : "/model", tri_model_params(t->ref)));
  return tri_error_note(tri_session_check_memory(se), faults);
}

void tri_trainer_close(tri_trainer *t) {
  if (t->lock > 0) close(t->lock);
  tri_timeline_close(&t->timeline);
  tri_metrics_close(&t->metrics);
  tri_sampler_close(&t->sampler);
  tri_feed_close(&t->feed);
  tri_model_close(&t->ref);
  tri_model_close(&t->policy);
  tri_reward_set_close(&t->reward);
  tri_dataset_close(&t->eval_data);
  tri_dataset_close(&t->data);
  tri_source_close(&t->ref_source);
  tri_source_close(&t->source);
  tri_carried_free(&t->carried);
  tri_text_free(&t->deck);
  tri_text_free(&t->deck_before);
  tri_halt_close(&t->halt);
}
