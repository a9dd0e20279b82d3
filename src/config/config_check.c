/* config_check.c - checks which keys of a deck must and must not stand together. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_keys.h"
#include "config_entry.h"
#include "metric/metric_names.h"

#include <stdio.h>
#include <string.h>

/* Returns the place of the key. For the error of a default it returns the deck's name. */
static const char *where_of(const tri_loader *l, const char *name) {
  const tri_deck_entry *e = tri_loader_given(l, name);

  return e ? e->where : tri_deck_name(l->deck);
}

/* Appends ", only with " and the advantages, policy losses or else algorithms that use the key. Appends
 * nothing if most algorithms do. */
static tri_status put_users(const tri_key *k, const tri_algo *a, tri_text *out) {
  int n_user = 0, n_algo = 0, n = 0;

  TRI_TRY(tri_key_put_parts(k, a, ", only with ", out));
  for (; tri_algo_at(n_algo); n_algo++) n_user += tri_key_is_used(k, tri_algo_at(n_algo));
  if (out->len || 2 * n_user > n_algo) return TRI_OK;
  for (int i = 0; i < n_algo; i++)
    if (tri_key_is_used(k, tri_algo_at(i)))
      TRI_TRY(tri_text_printf(out, "%s%s", n++ ? ", " : ", only with algo.name ", tri_algo_at(i)->name));
  return TRI_OK;
}

static tri_status refuse_one(const tri_loader *l, const tri_deck_entry *e, const char *key, const char *by,
                             const char *value) {
  const tri_key *k = tri_key_find(key); /* NULL for the reward list */
  tri_text       users = {0};
  tri_status     st = k ? put_users(k, &l->cfg->algo.row, &users) : TRI_OK;

  if (st == TRI_OK)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG, "%s: %s has no use with %s %s%s. Remove it",
                  e->where, key, by, value, users.len ? users.data : "");
  tri_text_free(&users);
  return st;
}

/* Refuses a key that nothing reads. The message blames the deck's own advantage or policy loss if the
 * algorithm's own would read the key. */
static tri_status refuse_key(const tri_loader *l, const tri_deck_entry *e, const char *key) {
  const tri_algo *a = &l->cfg->algo.row, *preset = l->preset;
  tri_algo        other = *preset;

  if (!strcmp(key, "data.max_length"))
    TRI_FAIL(TRI_ECONFIG,
             "%s: %s has no use with algo.name %s. Limit lengths by data.max_prompt_length and "
             "rollout.max_response_length",
             e->where, key, a->name);
  other.advantage = a->advantage;
  if (tri_algo_reads(preset, key) && !tri_algo_reads(&other, key))
    return refuse_one(l, e, key, "algo.advantage", a->advantage->name);
  if (tri_algo_reads(preset, key)) return refuse_one(l, e, key, "algo.policy_loss", a->loss->name);
  return refuse_one(l, e, key, "algo.name", a->name);
}

static tri_status refuse_unused(const tri_loader *l) {
  const tri_algo *a = &l->cfg->algo.row;

  for (int i = 0; i < tri_n_keys; i++) {
    const tri_deck_entry *e = tri_loader_given(l, tri_keys[i].name);
    if (e && !tri_key_is_used(&tri_keys[i], a))
      TRI_TRY(tri_error_note(refuse_key(l, e, tri_keys[i].name), l->errors));
  }
  return TRI_OK;
}

/* The message names the later key, and arguments count as last. */
static tri_status refuse_both(const tri_loader *l, const char *name_a, const char *name_b) {
  const tri_deck_entry *a = tri_loader_given(l, name_a), *b = tri_loader_given(l, name_b);

  if (!a || !b) return TRI_OK;
  if (a->line == 0 || (b->line && a->line > b->line)) {
    const tri_deck_entry *swap = a;
    const char           *swap_name = name_a;
    a = b;
    b = swap;
    name_a = name_b;
    name_b = swap_name;
  }
  TRI_FAIL(TRI_ECONFIG, "%s: %s and %s (%s) contradict each other. Keep one (%s=null removes the other)",
           b->where, name_b, name_a, a->where, name_a);
}

static tri_status refuse_contradictions(const tri_loader *l) {
  static const char *const pair[][2] = {
      {"train.steps", "train.epochs"},
      {"train.micro_batch_size", "train.max_tokens_per_gpu"},
      {"train.gradient_accumulation_steps", "train.max_tokens_per_gpu"},
      {"train.warmup_steps", "train.warmup_ratio"},
      {"shard.plan", "shard.params"},
      {"shard.plan", "shard.grads"},
      {"shard.plan", "shard.optimizer"},
      {"model.path", "model.config"},
      {"model.path", "model.tokenizer"},
  };

  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
    TRI_TRY(tri_error_note(refuse_both(l, pair[i][0], pair[i][1]), l->errors));
  return TRI_OK;
}

static tri_status refuse_missing(const tri_loader *l, const char *name, const char *what) {
  TRI_FAIL(TRI_ECONFIG, "%s: %s is missing: %s", tri_deck_name(l->deck), name, what);
}

static tri_status check_required(const tri_loader *l) {
  const tri_config *c = l->cfg;
  bool              answers = c->algo.row.needs & TRI_NEEDS_ANSWERS;
  char              rewards[160];
  const struct {
    bool        missing;
    const char *name, *what;
  } row[] = {
      {!tri_loader_given(l, "run.output"), "run.output", "give the folder the run writes to"},
      {!c->model.path && !c->model.config, "model.path",
       "give a model folder, or model.config to start from random weights"},
      {!c->data.train.n && !c->rollout.replay, "data.train", "give the JSON lines file to train on"},
      {!c->train.steps && !c->train.epochs, "train.steps", "give the length of the run, or train.epochs"},
      {answers && !tri_loader_given(l, "rollout.rollout_batch_size"), "rollout.rollout_batch_size",
       "give the number of prompts of one rollout"},
      {answers && !tri_loader_given(l, "rollout.max_response_length"), "rollout.max_response_length",
       "give the length of the longest answer in tokens"},
      {answers && !c->reward.n && !c->rollout.replay, "reward", rewards},
  };

  snprintf(rewards, sizeof rewards,
           "%s needs at least one, such as '- name: exact' or '- {name: model, path: FOLDER}'", c->algo.name);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].missing) TRI_TRY(tri_error_note(refuse_missing(l, row[i].name, row[i].what), l->errors));
  return TRI_OK;
}

static tri_status check_group(const tri_loader *l) {
  const tri_config *c = l->cfg;
  int               least = c->algo.row.advantage ? c->algo.row.advantage->least_group : 0;

  if (least <= c->algo.num_generations) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: algo.num_generations = %lld: algo.advantage %s compares the answers of a group and needs at "
           "least %d. ppo, reinforce++ and remax work with one answer to a prompt",
           where_of(l, "algo.num_generations"), (long long)c->algo.num_generations, c->algo.advantage, least);
}

static tri_status check_selection(const tri_loader *l) {
  const tri_config *c = l->cfg;

  if (!c->rollout.dynamic_sampling || c->rollout.replay || c->algo.num_generations > 1) return TRI_OK;
  TRI_FAIL(
      TRI_ECONFIG,
      "%s: rollout.dynamic_sampling compares the answers to a prompt, so algo.num_generations = %lld must "
      "be at least 2",
      where_of(l, "rollout.dynamic_sampling"), (long long)c->algo.num_generations);
}

static tri_status check_greedy(const tri_loader *l) {
  const tri_config *c = l->cfg;

  if (!c->rollout.replay || !c->algo.row.advantage || !(c->algo.row.advantage->reads & TRI_READS_GREEDY))
    return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: rollout.replay has no greedy answers, but algo.advantage %s needs them. Remove it, or give "
           "another algo.advantage",
           where_of(l, "rollout.replay"), c->algo.advantage);
}

static tri_status check_weights(const tri_loader *l) {
  const tri_config_list *w = &l->cfg->data.train_weights;
  double                 x;

  if (w->n && w->n != l->cfg->data.train.n)
    TRI_FAIL(TRI_ECONFIG,
             "%s: numbers in data.train_weights: %d, files in data.train: %d. Give one number per file",
             where_of(l, "data.train_weights"), w->n, l->cfg->data.train.n);
  for (int i = 0; i < w->n; i++)
    if (!tri_config_parse_f64(w->item[i], &x) || !(x > 0))
      TRI_FAIL(TRI_ECONFIG, "%s: data.train_weights: '%s' must be a number > 0",
               where_of(l, "data.train_weights"), w->item[i]);
  return TRI_OK;
}

/* Returns whether the text is an existing date, such as "2026-11-29". */
static bool is_day(const char *text) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int              y, m, d, n = 0;

  if (strlen(text) != 10 || strspn(text, "0123456789-") != 10) return false;
  if (sscanf(text, "%4d-%2d-%2d%n", &y, &m, &d, &n) != 3 || n != 10 || y < 1 || m < 1 || m > 12) return false;
  bool leaps = m == 2 && (y % 4 == 0 && (y % 100 != 0 || y % 400 == 0));
  return d >= 1 && d <= days[m - 1] + leaps;
}

/* The deck cannot set variables that each conversation gives to the template itself. */
static tri_status check_template(const tri_loader *l) {
  static const char *const taken[] = {"messages", "tools", "add_generation_prompt"};
  const tri_config        *c = l->cfg;
  char                     name[64];

  for (size_t i = 0; c->data.chat_template_kwargs && i < sizeof taken / sizeof *taken; i++) {
    snprintf(name, sizeof name, "\"%s\": ", taken[i]);
    if (strstr(c->data.chat_template_kwargs, name))
      TRI_FAIL(TRI_ECONFIG, "%s: data.chat_template_kwargs: each conversation gives '%s' itself. Remove it",
               where_of(l, "data.chat_template_kwargs"), taken[i]);
  }
  if (c->data.chat_template_date && !is_day(c->data.chat_template_date))
    TRI_FAIL(TRI_ECONFIG, "%s: data.chat_template_date = %.40s: must be a date, YYYY-MM-DD",
             where_of(l, "data.chat_template_date"), c->data.chat_template_date);
  return TRI_OK;
}

static tri_status check_tensor(const tri_loader *l) {
  const tri_config *c = l->cfg;

  if (c->shard.tensor_parallel_size == 1 || c->shard.scope.params != TRI_SHARD_NONE) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: shard.tensor_parallel_size = %lld: every rank has all weights in this plan (shard.params is "
           "none), so nothing is gained. Give shard.params: node or world, or leave the key out",
           where_of(l, "shard.tensor_parallel_size"), (long long)c->shard.tensor_parallel_size);
}

static tri_status check_dual_clip(const tri_loader *l) {
  double x = l->cfg->algo.opt.dual_clip;

  if (x == 0 || x > 1) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: algo.dual_clip = %g: must be > 1, or 0 for no bound",
           where_of(l, "algo.dual_clip"), x);
}

/* The policy ratio is known in the loss, but not when rewards are computed. */
static tri_status check_kl_correction(const tri_loader *l) {
  const tri_algo_opt *o = &l->cfg->algo.opt;

  if (!o->kl_bias_correction || o->kl_where == TRI_KL_IN_LOSS) return TRI_OK;
  TRI_FAIL(
      TRI_ECONFIG,
      "%s: algo.kl_bias_correction multiplies the KL term of the loss by the policy ratio, but algo.kl_where "
      "is reward. Give algo.kl_where: loss, or remove the key",
      where_of(l, "algo.kl_bias_correction"));
}

static tri_status check_kl_target(const tri_loader *l) {
  const tri_config *c = l->cfg;
  double            most = 0.2 * (double)c->rollout.rollout_batch_size * (double)c->algo.num_generations;

  if (c->algo.opt.kl_target == 0) return TRI_OK;
  if (c->algo.opt.kl_coef == 0)
    TRI_FAIL(
        TRI_ECONFIG,
        "%s: algo.kl_target adapts algo.kl_coef, but that is 0. Give algo.kl_coef a value to start from, or "
        "remove algo.kl_target",
        where_of(l, "algo.kl_target"));
  if (c->algo.opt.kl_horizon > most) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: algo.kl_horizon = %g: a step of %g samples would reduce algo.kl_coef to 0. Give more than %g",
           where_of(l, "algo.kl_horizon"), c->algo.opt.kl_horizon, 5 * most, most);
}

/* Only rescore has both log-probabilities of a token. */
static tri_status check_is_cap(const tri_loader *l) {
  const tri_config *c = l->cfg;

  if (c->algo.opt.is_cap == 0 || c->run.sampler == TRI_CONFIG_RESCORE) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: algo.is_cap = %g needs the log-probabilities of sampler and trainer, and only run.sampler: "
           "rescore computes both. Give run.sampler: rescore, or remove algo.is_cap",
           where_of(l, "algo.is_cap"), c->algo.opt.is_cap);
}

static tri_status check_label_smoothing(const tri_loader *l) {
  const tri_algo_opt *o = &l->cfg->algo.opt;

  if (o->dpo_loss != TRI_DPO_IPO || o->label_smoothing == 0) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: algo.label_smoothing has no use with algo.dpo_loss ipo. Remove it",
           where_of(l, "algo.label_smoothing"));
}

static tri_status check_schedule(const tri_loader *l) {
  if (l->cfg->train.lr.min_ratio <= 0 || l->cfg->train.lr.scheduler != TRI_LR_CONSTANT) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: train.min_lr_ratio has no use with train.lr_scheduler constant. Remove it",
           where_of(l, "train.min_lr_ratio"));
}

/* Chosen, because a healthy rank may be silent for seconds while its pages are swapped in or a file system
 * pauses. With run.timeout_s under 15 s, silence counts as failure after run.timeout_s (comm/peers). */
static tri_status check_timeout(const tri_loader *l) {
  static const double least_s = 10;
  double              x = l->cfg->run.timeout_s;

  if (x == 0 || x >= least_s) return TRI_OK;
  TRI_FAIL(
      TRI_ECONFIG,
      "%s: run.timeout_s = %g: must be 0 (ranks wait for ever) or at least %g s, because a healthy rank may "
      "pause for some seconds",
      where_of(l, "run.timeout_s"), x, least_s);
}

static tri_status check_temperature(const tri_loader *l, const char *name, double x) {
  if (x <= 0 || x >= 1e-4) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: %s = %g: must be 0 (greedy) or at least 1e-4", where_of(l, name), name, x);
}

static tri_status check_reference(const tri_loader *l) {
  const tri_config     *c = l->cfg;
  const tri_deck_entry *e = c->model.ref_path ? tri_loader_given(l, "model.ref_path") : NULL;

  if (!e || tri_config_wants_reference(c) || !tri_key_is_used(tri_key_find("model.ref_path"), &c->algo.row))
    return TRI_OK;
  if (!tri_key_is_used(tri_key_find("algo.kl_coef"), &c->algo.row))
    return refuse_one(l, e, "model.ref_path", "algo.name", c->algo.name);
  TRI_FAIL(TRI_ECONFIG, "%s: model.ref_path has no use with algo.kl_coef 0. Remove it or give kl_coef",
           e->where);
}

static tri_status check_eval_data(const tri_loader *l) {
  const tri_config *c = l->cfg;

  if (c->eval.steps <= 0 || c->data.eval.n) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: eval.steps = %lld needs data.eval, the JSON lines file to evaluate on",
           where_of(l, "eval.steps"), (long long)c->eval.steps);
}

/* The names become parts of metric names. */
static tri_status check_eval_names(const tri_loader *l) {
  const tri_config_list *names = &l->cfg->data.eval_names;
  const char            *where = where_of(l, "data.eval_names");

  if (names->n && names->n != l->cfg->data.eval.n)
    TRI_FAIL(TRI_ECONFIG,
             "%s: data.eval_names has %d name%s but data.eval has %d file%s. Give one name per file", where,
             names->n, names->n == 1 ? "" : "s", l->cfg->data.eval.n, l->cfg->data.eval.n == 1 ? "" : "s");
  if (names->n > TRI_CONFIG_EVAL_SETS)
    TRI_FAIL(TRI_ECONFIG, "%s: data.eval_names has %d names, more than the maximum of %d", where, names->n,
             TRI_CONFIG_EVAL_SETS);
  for (int i = 0; i < names->n; i++) {
    const char *name = names->item[i];
    size_t      n = strlen(name);
    if (!n || n >= TRI_CONFIG_EVAL_NAME_BYTES || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != n)
      TRI_FAIL(TRI_ECONFIG, "%s: data.eval_names: '%.200s' must be 1 to %d of a-z, 0-9 and _%s", where, name,
               TRI_CONFIG_EVAL_NAME_BYTES - 1,
               strchr(name, ',') ? ". Write several names as a list, [a,b]" : "");
    for (int j = 0; j < i; j++)
      if (!strcmp(names->item[j], name))
        TRI_FAIL(TRI_ECONFIG, "%s: data.eval_names: %s stands twice. Give each set its own name", where,
                 name);
  }
  return TRI_OK;
}

/* The metrics of an evaluation are known only after its rewards are open (evaluate.c). */
static tri_status check_keep_best(const tri_loader *l) {
  const char *metric = l->cfg->checkpoint.keep_best, *near;
  char        meant[64];

  if (!metric || !strncmp(metric, "eval_", 5)) return TRI_OK;
  snprintf(meant, sizeof meant, "eval_%s", metric);
  near = tri_metric_nearest(meant);
  if (near && !strncmp(near, "eval_", 5))
    TRI_FAIL(TRI_ECONFIG,
             "%s: checkpoint.keep_best: '%.200s' is no metric of evaluations. The nearest one is '%s'",
             where_of(l, "checkpoint.keep_best"), metric, near);
  TRI_FAIL(TRI_ECONFIG, "%s: checkpoint.keep_best: '%.200s' is no metric of evaluations, such as %s",
           where_of(l, "checkpoint.keep_best"), metric,
           l->cfg->algo.row.needs & TRI_NEEDS_ANSWERS ? "eval_reward_mean" : "eval_loss");
}

/* Algorithms that evaluate by the loss have no rewards. */
static tri_status check_reward_use(const tri_loader *l) {
  if (!l->cfg->reward.n || !(l->cfg->algo.row.needs & TRI_NEEDS_PREFERENCES)) return TRI_OK;
  return refuse_one(l, tri_loader_given(l, "reward"), "reward", "algo.name", l->cfg->algo.name);
}

static tri_status check_eval_answers(const tri_loader *l) {
  const tri_config *c = l->cfg;

  if (!(c->algo.row.needs & TRI_NEEDS_ANSWERS) && !c->reward.n)
    return TRI_OK; /* the evaluation uses the loss
                                                                                * alone */
  if (c->eval.steps <= 0 || (c->reward.n && c->rollout.max_response_length)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: eval.steps = %lld needs %s, because the evaluation generates answers and rewards them",
           where_of(l, "eval.steps"), (long long)c->eval.steps,
           c->reward.n ? "rollout.max_response_length" : "reward");
}

static tri_status check_together(const tri_loader *l) {
  const tri_config *c = l->cfg;

  TRI_TRY(tri_error_note(check_group(l), l->errors));
  TRI_TRY(tri_error_note(check_tensor(l), l->errors));
  TRI_TRY(tri_error_note(check_selection(l), l->errors));
  TRI_TRY(tri_error_note(check_greedy(l), l->errors));
  TRI_TRY(tri_error_note(check_weights(l), l->errors));
  TRI_TRY(tri_error_note(check_template(l), l->errors));
  TRI_TRY(tri_error_note(check_dual_clip(l), l->errors));
  TRI_TRY(tri_error_note(check_label_smoothing(l), l->errors));
  TRI_TRY(tri_error_note(check_kl_correction(l), l->errors));
  TRI_TRY(tri_error_note(check_kl_target(l), l->errors));
  TRI_TRY(tri_error_note(check_is_cap(l), l->errors));
  TRI_TRY(tri_error_note(check_schedule(l), l->errors));
  TRI_TRY(tri_error_note(check_timeout(l), l->errors));
  TRI_TRY(tri_error_note(check_temperature(l, "rollout.temperature", c->rollout.temperature), l->errors));
  TRI_TRY(tri_error_note(check_temperature(l, "eval.temperature", c->eval.temperature), l->errors));
  TRI_TRY(tri_error_note(check_reference(l), l->errors));
  TRI_TRY(tri_error_note(check_reward_use(l), l->errors));
  TRI_TRY(tri_error_note(check_eval_data(l), l->errors));
  TRI_TRY(tri_error_note(check_eval_names(l), l->errors));
  TRI_TRY(tri_error_note(check_keep_best(l), l->errors));
  return tri_error_note(check_eval_answers(l), l->errors);
}

/* run.allow_changes must hold known key names. */
static tri_status check_allowed(const tri_loader *l) {
  const tri_config_list *list = &l->cfg->run.allow_changes;

  for (int i = 0; i < list->n; i++) {
    const char *name = list->item[i], *near = tri_key_nearest(name);
    if (!strcmp(name, "algo.name"))
      TRI_FAIL(
          TRI_ECONFIG,
          "%s: run.allow_changes: algo.name cannot change in a resume, because moments and data positions "
          "of one algorithm have no use in another. Start a new run with the checkpoint as model.path",
          where_of(l, "run.allow_changes"));
    if (tri_key_is_adapters(name))
      TRI_FAIL(TRI_ECONFIG,
               "%s: run.allow_changes: %s cannot change in a resume, because the checkpoint's adapters have "
               "their shape. Export them by `trireme export --adapter` and start another run.output from "
               "that folder by lora.path",
               where_of(l, "run.allow_changes"), name);
    if (tri_key_find(name) || !strcmp(name, "reward") || !strcmp(name, "deck")) continue;
    TRI_FAIL(TRI_ECONFIG, "%s: run.allow_changes: unknown key '%.200s'. %s%s",
             where_of(l, "run.allow_changes"), name,
             near ? "The nearest known key is " : "Write it as section.key", near ? near : "");
  }
  return TRI_OK;
}

/* Returns whether an entry gives the value that would hold without it. */
static bool is_default(const tri_loader *l, const tri_deck_entry *e, const char *name) {
  const char *set = tri_algo_sets(&l->cfg->algo.row, name), *def = set ? set : tri_key_find(name)->def;
  double      x, y;

  if (!def) return false;
  if (tri_config_parse_f64(e->value, &x) && tri_config_parse_f64(def, &y)) return x == y;
  return !strcmp(e->value, def);
}

#define WARNING "warning: " /* begins a note that tri_config_say_notes logs as a warning */

/* Writes a line for each given key without effect. Another key, perhaps turned off for a while, is the
 * reason. */
static tri_status note_idle(const tri_loader *l) {
  for (int i = 0; i < tri_n_keys; i++) {
    const tri_key        *k = &tri_keys[i];
    const tri_deck_entry *e = tri_loader_given(l, k->name);
    const char           *why = e && k->idle_if ? k->idle_if(l->cfg) : NULL;

    if (why && !is_default(l, e, k->name))
      TRI_TRY(tri_text_printf(l->notes, WARNING "%s: %s has no effect: %s\n", e->where, k->name, why));
  }
  const char *why = l->cfg->reward.n ? tri_config_no_answers(l->cfg) : NULL;
  if (!why) return TRI_OK;
  return tri_text_printf(l->notes, WARNING "%s: reward has no effect: %s\n", where_of(l, "reward"), why);
}

/* Writes a line for each value with a surprising effect. */
static tri_status note_surprises(const tri_loader *l) {
  const tri_config *c = l->cfg;
  const bool        answers = (c->algo.row.needs & TRI_NEEDS_ANSWERS) || c->reward.n;

  if (c->rollout.dynamic_sampling && !c->rollout.replay && c->train.epochs > 0)
    TRI_TRY(tri_text_printf(
        l->notes,
        WARNING "%s: train.epochs sets the number of steps as if each took "
                "rollout.rollout_batch_size prompts. With rollout.dynamic_sampling some take more, so "
                "the run reads the data more often\n",
        where_of(l, "train.epochs")));
  if (c->eval.steps != 0 && answers && c->eval.temperature == 0 && c->eval.num_generations > 1)
    TRI_TRY(tri_text_printf(
        l->notes,
        WARNING
        "%s: eval.num_generations is %lld, but eval.temperature is 0, so the answers to a prompt are all "
        "alike\n",
        where_of(l, "eval.num_generations"), (long long)c->eval.num_generations));
  if (c->rollout.temperature == 0 && !c->rollout.replay)
    TRI_TRY(tri_text_printf(
        l->notes,
        WARNING "%s: rollout.temperature is 0, so the answers to a prompt are all alike, and a group "
                "of equal rewards teaches nothing\n",
        where_of(l, "rollout.temperature")));
  return TRI_OK;
}

tri_status tri_config_check(const tri_loader *l) {
  TRI_TRY(tri_error_note(refuse_unused(l), l->errors));
  TRI_TRY(tri_error_note(refuse_contradictions(l), l->errors));
  TRI_TRY(tri_error_note(check_required(l), l->errors));
  TRI_TRY(tri_error_note(check_together(l), l->errors));
  TRI_TRY(tri_error_note(check_allowed(l), l->errors));
  if (!l->notes) return TRI_OK;
  TRI_TRY(note_idle(l));
  return note_surprises(l);
}
