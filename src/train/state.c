/* state.c - writes a run's counters and files to a checkpoint, and loads the whole state from a model or a
 * checkpoint. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/runlog.h"
#include "state.h"

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/notice.h"
#include "io/model/part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- saving ---- */

/* Untrained models have weights only. */
bool tri_state_keeps(const tri_params *p, const char *const *group, int kind) {
  const tri_params_opt *o = tri_params_options(p);

  if (!group[kind] || (kind != TRI_STATE_WEIGHT && !o->train)) return false;
  return kind != TRI_STATE_AVERAGE || o->ema_beta > 0;
}

/* Stores rank 0's working directory. Relative paths of the deck refer to it. */
static tri_status put_start_folder(tri_trainer *t, tri_ckpt_writer *w) {
  char folder[TRI_CKPT_PATH_BYTES] = "";

  if (tri_world_of(t)->rank == 0 && !getcwd(folder, sizeof folder))
    folder[0] = 0; /* too long or deleted, so not stored */
  TRI_TRY(tri_host_bcast(tri_world_of(t), folder, sizeof folder, 0));
  return folder[0] ? tri_ckpt_put_text(w, "start_folder", folder) : TRI_OK;
}

enum { COUNTER_BYTES = 64 }; /* chosen. Longer than any role's prefix with a counter's name */
/* Returns the name of a learner's counter in a checkpoint. */
static const char *counter(const tri_learner *l, const char *what, char name[COUNTER_BYTES]) {
  snprintf(name, COUNTER_BYTES, "%s%s", l->prefix, what);
  return name;
}

/* Names of the deck's initial coefficients in a checkpoint. */
static const char kl_given[] = "kl_coef_given", entropy_given[] = "entropy_coef_given";

/* Stores the adaptive coefficients. */
static tri_status put_adapted(tri_trainer *t, tri_ckpt_writer *w) {
  const tri_algo_opt *given = &t->cfg->algo.opt;
  const tri_adapt    *a = &t->progress.adapt;

  if (tri_adapts_kl(&t->opt)) {
    TRI_TRY(tri_ckpt_put_f64(w, "kl_coef", t->opt.kl_coef));
    TRI_TRY(tri_ckpt_put_f64(w, kl_given, given->kl_coef));
  }
  if (!tri_adapts_entropy(&t->opt)) return TRI_OK;
  TRI_TRY(tri_ckpt_put_f64(w, "entropy_coef", a->entropy_coef));
  TRI_TRY(tri_ckpt_put_f64(w, entropy_given, given->entropy_coef));
  return isfinite(a->entropy) ? tri_ckpt_put_f64(w, "entropy_mean_nats", a->entropy) : TRI_OK;
}

/* Stores the loss scale if it adapts. */
static tri_status put_scale(const tri_learner *l, tri_ckpt_writer *w) {
  const tri_loss_scale *s = &l->counters.scale;
  char                  name[COUNTER_BYTES];

  if (!s->adapts) return TRI_OK;
  TRI_TRY(tri_ckpt_put_f64(w, counter(l, "loss_scale", name), s->value));
  TRI_TRY(tri_ckpt_put_i64(w, counter(l, "overflow_steps", name), s->n_given));
  return tri_ckpt_put_i64(w, counter(l, "loss_scale_finite", name), s->n_finite);
}

static tri_status put_counters(tri_trainer *t, tri_ckpt_writer *w) {
  TRI_TRY(tri_ckpt_put_i64(w, "step", t->progress.step));
  for (const tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    char name[COUNTER_BYTES];
    if (!tri_learner_trains(l)) continue;
    TRI_TRY(tri_ckpt_put_i64(w, counter(l, "update", name), l->counters.update));
    TRI_TRY(tri_ckpt_put_i64(w, counter(l, "skipped_steps", name), l->counters.skipped));
    TRI_TRY(put_scale(l, w));
  }
  TRI_TRY(tri_ckpt_put_i64(w, "failed_saves", t->progress.failed_saves));
  TRI_TRY(tri_ckpt_put_i64(w, "tokens", t->progress.tokens));
  TRI_TRY(tri_ckpt_put_i64(w, "prompt_cursor", t->progress.cursor));
  TRI_TRY(tri_ckpt_put_i64(w, "ranks", tri_world_of(t)->size));
  TRI_TRY(put_adapted(t, w));
  if (t->data) {
    TRI_TRY(tri_ckpt_put_i64(w, "data_lines", t->run.data_lines));
    TRI_TRY(tri_ckpt_put_i64(w, "data_hash", t->run.data_hash));
  }
  TRI_TRY(put_start_folder(t, w));
  TRI_TRY(tri_ckpt_put_text(w, "algo", t->algo->name));
  return tri_ckpt_put_text(w, "random_numbers", "philox4x32-10, keyed by run.seed");
}

/* Stores the options of a learner's adapters and the name of their base model. */
static tri_status put_adapters(tri_trainer *t, const tri_learner *l, tri_ckpt_writer *w) {
  tri_model_part part = l == &t->learner[TRI_CRITIC] ? TRI_PART_CRITIC : TRI_PART_MAIN;
  tri_text       config = {0}, base = {0};
  tri_status     st = TRI_OK;

  if (!l->model || !tri_learner_has_adapters(t, l)) return TRI_OK;
  TRI_TRY_DONE(tri_source_print_lora(l->source, &config, &base));
  TRI_TRY_DONE(tri_ckpt_put_file(w, tri_part_adapter_config(part), config.data, config.len));
  TRI_TRY_DONE(tri_ckpt_put_file(w, tri_part_base(part), base.data, base.len));
done:
  tri_text_free(&config);
  tri_text_free(&base);
  return st;
}

/* State of the health checks, needed by alarms of the next steps. */
static const char health_file[] = "health.txt";

/* Collective over world. Stores rank 0's text as a file, unless it is empty. */
static tri_status put_text(tri_trainer *t, const char *name, const tri_text *text, tri_ckpt_writer *w) {
  size_t n = text->len;

  TRI_TRY(tri_host_bcast(tri_world_of(t), &n, sizeof n, 0));
  return n ? tri_ckpt_put_file(w, name, text->data, n) : TRI_OK;
}

/* Stores the files that the deck names for conversations. They are the same on every rank. */
static tri_status put_conversation(const tri_source_conversation *k, tri_ckpt_writer *w) {
  if (k->text) TRI_TRY(tri_ckpt_put_file(w, TRI_SOURCE_TEMPLATE_FILE, k->text, k->n_text));
  return k->tools_text ? tri_ckpt_put_file(w, TRI_SOURCE_TOOLS_FILE, k->tools_text, k->n_tools) : TRI_OK;
}

static tri_status put_files(tri_trainer *t, tri_ckpt_writer *w) {
  char health[TRI_HEALTH_TEXT];

  for (int i = 0; i < TRI_SOURCE_FILES; i++) {
    const tri_source_file *f = tri_source_file_at(t->learner[TRI_POLICY].source, i);
    if (f->bytes) TRI_TRY(tri_ckpt_put_file(w, f->name, f->bytes, f->n));
  }
  if (t->learner[TRI_CRITIC].model) {
    const tri_source_file *f = tri_source_file_at(t->learner[TRI_CRITIC].source, TRI_SOURCE_CONFIG);
    TRI_TRY(tri_ckpt_put_file(w, tri_part_config(TRI_PART_CRITIC), f->bytes, f->n));
  }
  for (const tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    TRI_TRY(put_adapters(t, l, w));
  TRI_TRY(tri_sidecar_put(&t->sidecar, w));
  TRI_TRY(put_conversation(&t->conversation, w));
  tri_health_keep(&t->health, health);
  TRI_TRY(tri_ckpt_put_file(w, health_file, health, strlen(health)));
  if (t->run.record) TRI_TRY(tri_ckpt_put_record(w, t->run.record));
  TRI_TRY(put_text(t, TRI_SOURCE_MULTIMODAL_FILE, &t->multimodal, w));
  /* the identity of the deck's models for a resumed run; a deck of random weights may name no model */
  TRI_TRY(put_text(t, TRI_RUN_INPUTS_FILE, &t->run.inputs, w));
  return tri_ckpt_put_file(w, "deck.yaml", t->run.deck.data, t->run.deck.len);
}

tri_status tri_state_put(tri_trainer *t, tri_ckpt_writer *w) {
  TRI_TRY(put_counters(t, w));
  return put_files(t, w);
}

int64_t tri_state_side_bytes(const tri_trainer *t) {
  size_t n = t->run.deck.len + t->multimodal.len + TRI_HEALTH_TEXT;

  for (int i = 0; i < TRI_SOURCE_FILES; i++) n += tri_source_file_at(t->learner[TRI_POLICY].source, i)->n;
  for (int i = 0; i < TRI_SIDECAR_FILES; i++) n += t->sidecar.n[i];
  n += t->conversation.n_text + t->conversation.n_tools;
  if (t->learner[TRI_CRITIC].model)
    n += tri_source_file_at(t->learner[TRI_CRITIC].source, TRI_SOURCE_CONFIG)->n;
  return (int64_t)n;
}

/* ---- loading ---- */

static tri_status refuse_counters(const tri_trainer *t) {
  const tri_progress *p = &t->progress;

  TRI_FAIL(TRI_EFORMAT,
           "%s: its counters are impossible: step %lld, update %lld, prompt_cursor %lld, tokens %lld",
           t->run.resume, (long long)p->step, (long long)t->learner[TRI_POLICY].counters.update,
           (long long)p->cursor, (long long)p->tokens);
}

/* Sets *anew if the deck gives another initial value than before. Then the deck's value counts. */
static tri_status is_given_anew(tri_ckpt_reader *r, const char *given, double now, bool *anew) {
  double before = now;

  *anew = false;
  if (given && tri_ckpt_has_value(r, given)) TRI_TRY(tri_ckpt_get_f64(r, given, &before));
  *anew = before != now;
  return TRI_OK;
}

/* Loads adaptive coefficients. Coefficients keep the deck's value if the checkpoint lacks them or began with
 * another value. */
static tri_status get_adapted(tri_trainer *t, tri_ckpt_reader *r) {
  const tri_algo_opt *now = &t->cfg->algo.opt;
  tri_adapt          *a = &t->progress.adapt;
  const struct {
    const char *name, *given;
    double      now;
    bool        adapts;
    double     *to;
  } row[] = {{"kl_coef", kl_given, now->kl_coef, tri_adapts_kl(now), &t->opt.kl_coef},
             {"entropy_coef", entropy_given, now->entropy_coef, tri_adapts_entropy(now), &a->entropy_coef},
             {"entropy_mean_nats", NULL, 0, tri_adapts_entropy(now), &a->entropy}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    bool anew;
    if (!row[i].adapts || !tri_ckpt_has_value(r, row[i].name)) continue;
    TRI_TRY(is_given_anew(r, row[i].given, row[i].now, &anew));
    if (anew) continue;
    TRI_TRY(tri_ckpt_get_f64(r, row[i].name, row[i].to));
    if (!isfinite(*row[i].to)) TRI_FAIL(TRI_EFORMAT, "%s: its %s is not finite", t->run.resume, row[i].name);
  }
  tri_adapt_use(&t->opt, a);
  return TRI_OK;
}

/* Loads the loss scale. A checkpoint of a run in another type has none. Then the scale begins as the deck
 * says. */
static tri_status get_scale(tri_trainer *t, tri_learner *l, tri_ckpt_reader *r) {
  tri_loss_scale *s = &l->counters.scale;
  char            name[COUNTER_BYTES];

  if (!s->adapts || !tri_ckpt_has_value(r, counter(l, "loss_scale", name))) return TRI_OK;
  TRI_TRY(tri_ckpt_get_f64(r, name, &s->value));
  TRI_TRY(tri_ckpt_get_i64(r, counter(l, "overflow_steps", name), &s->n_given));
  TRI_TRY(tri_ckpt_get_i64(r, counter(l, "loss_scale_finite", name), &s->n_finite));
  if (!(s->value > 0 && s->value <= TRI_LOSS_SCALE_MOST) || s->n_finite < 0 || s->n_given < 0)
    TRI_FAIL(TRI_EFORMAT, "%s: its %sloss_scale is impossible: %g after %lld updates", t->run.resume,
             l->prefix, s->value, (long long)s->n_finite);
  s->value = fmax(s->value, l->optim.scaling.min);
  return TRI_OK;
}

static tri_status get_counters(tri_trainer *t, tri_ckpt_reader *r) {
  tri_progress *p = &t->progress;

  TRI_TRY(tri_ckpt_get_i64(r, "step", &p->step));
  TRI_TRY(tri_ckpt_get_i64(r, "failed_saves", &p->failed_saves));
  TRI_TRY(tri_ckpt_get_i64(r, "prompt_cursor", &p->cursor));
  TRI_TRY(tri_ckpt_get_i64(r, "tokens", &p->tokens));
  TRI_TRY(get_adapted(t, r));
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    char name[COUNTER_BYTES];
    if (!tri_learner_trains(l)) continue;
    TRI_TRY(tri_ckpt_get_i64(r, counter(l, "update", name), &l->counters.update));
    TRI_TRY(tri_ckpt_get_i64(r, counter(l, "skipped_steps", name), &l->counters.skipped));
    if (l->counters.update < 0 || l->counters.skipped < 0) return refuse_counters(t);
    TRI_TRY(get_scale(t, l, r));
  }
  if (p->step != tri_ckpt_step(r) || p->failed_saves < 0 || p->cursor < 0 || p->tokens < 0)
    return refuse_counters(t);
  return TRI_OK;
}

/* Loads the state of the health checks. Older checkpoints lack it. Another version's state, with other
 * alarms, is no error. Then the alarms begin anew. */
static tri_status get_health(tri_trainer *t, tri_ckpt_reader *r) {
  tri_status st = TRI_OK;
  char      *text = NULL;
  size_t     n;

  if (!tri_ckpt_has_file(r, health_file)) return TRI_OK;
  TRI_TRY_DONE(tri_ckpt_get_file(r, health_file, &text, &n));
  if (tri_health_restore(&t->health, text) == TRI_OK) goto done;
  tri_error_clear();
  if (tri_world_of(t)->rank == 0)
    tri_warn("health_forgotten", "%s: its %s is of another version, so alarms begin anew", t->run.resume,
             health_file);
done:
  TRI_FREE(text);
  return st;
}

/* Starts the average of the weights from the checkpoint, or as a copy of the weights if the checkpoint has
 * none. */
static tri_status start_average(tri_trainer *t, tri_learner *l) {
  const tri_ckpt_reader *r = tri_source_checkpoint(l->source);

  if (t->run.resume[0] && tri_ckpt_has_group(r, l->group[TRI_STATE_AVERAGE]))
    return tri_source_load_moments(l->source, TRI_STATE_AVERAGE, l->group[TRI_STATE_AVERAGE],
                                   tri_learner_params(l), tri_world_of(t), t->se->stream);
  return tri_params_average(tri_learner_params(l), true, t->se->stream);
}

/* Collective over world. Loads one kind of every learner's state. Moments only come from a checkpoint. */
static tri_status load_kind(tri_trainer *t, tri_state_kind kind) {
  tri_comm *world = tri_world_of(t);

  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    if (!l->model) continue;
    if (kind == TRI_STATE_WEIGHT && tri_learner_has_adapters(t, l))
      TRI_TRY(tri_source_load_lora(l->source, l->from, tri_model_params(l->model), tri_learner_params(l),
                                   world, t->se->stream));
    else if (kind == TRI_STATE_WEIGHT)
      TRI_TRY(tri_source_load(l->source, l->from, tri_learner_params(l), world, t->se->stream));
    else if (kind == TRI_STATE_AVERAGE && tri_learner_averages(l))
      TRI_TRY(start_average(t, l));
    else if (t->run.resume[0] && tri_state_keeps(tri_learner_params(l), l->group, kind))
      TRI_TRY(tri_source_load_moments(l->source, kind, l->group[kind], tri_learner_params(l), world,
                                      t->se->stream));
  }
  return TRI_OK;
}

/* On rank 0, opens or cuts the files for TensorBoard. */
static tri_status open_board(tri_trainer *t, bool works) {
  char              folder[TRI_CKPT_PATH_BYTES + 32];
  tri_metrics_board opt = {folder, t->run.deck.data, t->progress.step, tri_unix_s(), !works};

  snprintf(folder, sizeof folder, "%s/tensorboard", t->cfg->run.output);
  if (!t->cfg->run.tensorboard) {
    tri_metrics_cut_board(t->metrics, &opt);
    return TRI_OK;
  }
  return tri_metrics_open_board(t->metrics, &opt);
}

/* Collective over world. Opens metrics.jsonl and cuts off lines of steps that will be repeated. */
static tri_status open_metrics(tri_trainer *t, bool works) {
  char       path[TRI_CKPT_PATH_BYTES + 32];
  int        rank = tri_world_of(t)->rank;
  int64_t    keep_step = tri_run_is_own(&t->run) ? t->progress.step : -1;
  tri_status st;

  snprintf(path, sizeof path, "%s/metrics.jsonl", t->cfg->run.output);
  st = tri_metrics_open(path, works ? keep_step : INT64_MAX, rank, &t->metrics);
  if (st == TRI_OK && rank == 0) st = open_board(t, works);
  return tri_agree(tri_world_of(t), st);
}

tri_status tri_state_load_weights(tri_trainer *t) {
  TRI_TRY(load_kind(t, TRI_STATE_WEIGHT));
  t->progress.step = t->progress.first_step =
      tri_ckpt_step(tri_source_checkpoint(t->learner[TRI_POLICY].source));
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    if (l->source) tri_source_release(l->source);
  return TRI_OK;
}

tri_status tri_state_load(tri_trainer *t) {
  tri_comm   *world = tri_world_of(t);
  tri_source *source = t->learner[TRI_POLICY].source;
  bool        works;

  TRI_TRY(tri_agree(world, world->rank == 0 ? tri_source_read_sidecar(source, &t->sidecar) : TRI_OK));
  TRI_TRY(tri_sidecar_share(&t->sidecar, world));
  TRI_TRY(tri_agree(world, world->rank == 0 ? tri_source_multimodal(source, &t->multimodal) : TRI_OK));
  for (int kind = 0; kind < TRI_STATE_COUNT; kind++) TRI_TRY(load_kind(t, (tri_state_kind)kind));
  if (t->run.resume[0]) {
    TRI_TRY(tri_agree(world, get_counters(t, tri_source_checkpoint(source))));
    TRI_TRY(tri_agree(world, get_health(t, tri_source_checkpoint(source))));
    tri_log(TRI_LOG_INFO, "resumed from %s, after step %lld", t->run.resume, (long long)t->progress.step);
  }
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++)
    if (l->source) tri_source_release(l->source);
  t->progress.first_step = t->progress.step;
  if (t->run.resume[0] && !strcmp(t->cfg->run.resume, "auto")) t->progress.saved_step = t->progress.step;
  /* Without a step to take, all files in the folder stay as they are. */
  works = t->progress.step < t->plan.steps;
  TRI_TRY(tri_run_begin(&t->run, t->progress.step, works));
  if (t->runlog) tri_runlog_claim(t->runlog, true);
  return open_metrics(t, works);
}
