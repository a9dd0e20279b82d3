/* trainer.c - opens what a run needs: options, inputs, models, sampler, memory; and closes it. */
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const tri_train_devices[] = {"auto", "cpu", "cuda"};

static bool is_rl(const tri_config *c) { return c->algo.row->needs & TRI_NEEDS_ANSWERS; }
static bool generates(const tri_trainer *t) {
  return (is_rl(t->cfg) && !t->cfg->rollout.replay) || t->cfg->eval.steps > 0;
}

/* ---- options ---- */

static void set_options(tri_trainer *t) {
  const tri_config *c = t->cfg;

  t->inv_temperature = is_rl(c) && c->rollout.temperature > 0 ? 1.0f / (float)c->rollout.temperature : 1.0f;
  t->gen = (tri_generate_opt){
      .rule = {(float)c->rollout.temperature, (float)c->rollout.top_p, (int)c->rollout.top_k, c->run.seed},
      .max_new = c->rollout.max_response_length,
      .group = (int)c->algo.num_generations};
  t->eval_gen = t->gen;
  t->eval_gen.rule = (tri_sample_rule){(float)c->eval.temperature, 1.0f, 0, c->run.seed};
  t->eval_gen.group = (int)c->eval.num_generations;
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
static tri_status plan_rollouts(tri_trainer *t, const tri_longest *l) {
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
    TRI_TRY(
        tri_rollout_store_plan(ledger, TRI_PHASE_ALWAYS, "sequences of a step", &all, mine > 0, &t->whole));
  if (mine)
    TRI_TRY(tri_rollout_store_plan(ledger, TRI_PHASE_ROLLOUT, "answers of this rank", &own, true, &t->mine));
  if ((c->algo.opt.kl_where == TRI_KL_IN_LOSS || !t->ref) && !c->rollout.save_every) return TRI_OK;
  return tri_ledger_add(ledger, TRI_MEM_HOST, TRI_PHASE_LEARN, false, "sequences of a step",
                        (size_t)(t->samples * l->learn) * sizeof *t->token_sum, (void **)&t->token_sum);
}

/* Collective over world. Answers decoded at once by a rank: what a step or an evaluation gives it, as far as
 * half of its memory goes. */
static tri_status plan_decode(const tri_trainer *t, const tri_longest *l, int64_t *out) {
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
         (c->model.dtype == TRI_F32 ? 8 : 4);
  if (n > TRI_SAMPLER_SEQUENCES) n = TRI_SAMPLER_SEQUENCES;
  TRI_TRY(tri_comm_sharers(&t->se->rt, t->se->comm[TRI_WORLD], t->se->device, &sharers));
  while (n > 1 && n * each > (int64_t)(bytes_total / (size_t)sharers / 2)) n /= 2;
  *out = n;
  return TRI_OK;
}

static tri_status open_models(tri_trainer *t, const tri_longest *l) {
  const tri_config *c = t->cfg;
  tri_session      *se = t->se;
  int64_t           learn = c->train.max_tokens_per_gpu, decode = 0, prefill = 0, rows;

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
                      .dtype = c->model.dtype,
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
  return tri_sampler_open(se->device, se->ledger, t->policy, c->model.dtype, &so, &t->sampler);
}

/* Collective over world. The deck as used: with the numbers that followed from others and do not depend on
 * the ranks. */
static tri_status settle_deck(tri_trainer *t) {
  tri_config used = *t->cfg;

  used.train.steps = t->steps;
  used.train.epochs = 0;
  used.train.train_batch_size = t->batch.train_batch_size;
  TRI_TRY(tri_config_print(&used, &t->deck));
  return tri_resume_compare(t, &used);
}

/* Collective over world. Where products depend on the number of rows, old log-probabilities are computed
 * again. */
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

#define NOTE(call) TRI_TRY(tri_error_note(call, t->faults))

tri_status tri_trainer_plan(const tri_config *cfg, tri_session *se, tri_faults *faults, tri_trainer *out) {
  tri_trainer *t = out;
  tri_longest  l = {0};
  int64_t      before;

  TRI_TRY(begin(cfg, se, t));
  t->faults = faults;
  if (se->pretended) {
    TRI_TRY(tri_state_look(t));
  } else {
    TRI_TRY(tri_state_find(t));
    TRI_TRY(open_halt(t));
  }
  before = faults ? faults->n : 0;
  TRI_TRY(tri_inputs_open(t, &l));
  if (faults && faults->n > before)
    return t->resume[0] ? tri_faults_miss(faults, "what changed since the checkpoint") : TRI_OK;
  NOTE(tri_state_check_aside(t));
  NOTE(settle_deck(t));
  NOTE(open_models(t, &l));
  return TRI_OK;
}

tri_status tri_trainer_open(const tri_config *cfg, tri_session *se, tri_trainer *out) {
  tri_trainer *t = out;

  TRI_TRY(tri_trainer_plan(cfg, se, NULL, t));
  TRI_TRY(tri_session_take_memory(se));
  TRI_TRY(tri_model_start(t->policy, se->stream));
  if (t->ref) TRI_TRY(tri_model_start(t->ref, se->stream));
  TRI_TRY(tri_state_load(t));
  TRI_TRY(open_timeline(t));
  return check_sampler(t);
}

void tri_trainer_close(tri_trainer *t) {
  if (t->lock >= 0) close(t->lock);
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
