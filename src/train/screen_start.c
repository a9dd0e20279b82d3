/* screen_start.c - prints the start of a run with its ranks, models, loss and memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/visible.h"
#include "family/family.h"
#include "screen.h"
#include "train.h"

#include <stdio.h>
#include <string.h>

enum { NODES_SHOWN = 3, PATH_COLUMNS = 60 }; /* chosen to fit a screen of 80 x 24 */

static bool is_first(const tri_trainer *t) { return t->se->comm[TRI_WORLD]->rank == 0; }

const char *tri_screen_shown(const char *text, int width, char out[TRI_CKPT_PATH_BYTES]) {
  char all[TRI_CKPT_PATH_BYTES * TRI_VISIBLE_MOST];

  tri_visible(text, strlen(text), "", all, sizeof all);
  tri_text_shorten(all, width, out, TRI_CKPT_PATH_BYTES);
  return out;
}

/* Logs the text in lines that keep to the screen's width, also in pipes and in the file. Frees the text. */
static tri_status say(tri_log_level level, tri_text *text, tri_status st) {
  tri_text lines = {0};

  if (st == TRI_OK) st = tri_text_wrap(text->data, TRI_SCREEN_COLUMNS, &lines);
  if (st == TRI_OK) tri_log_lines(level, lines.data);
  tri_text_free(&lines);
  tri_text_free(text);
  return st;
}
#define SAY(...)                                                                                             \
  do {                                                                                                       \
    tri_text said_ = {0};                                                                                    \
    TRI_TRY(say(TRI_LOG_INFO, &said_, tri_text_printf(&said_, __VA_ARGS__)));                                \
  } while (0)

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

typedef struct place {
  int  node, local, rank;
  char host[64];
} place;

/* Prints one line for each node with its host and ranks. all has n elements. The screen shows the first
 * nodes, and the file shows all. */
static tri_status say_nodes(const place *all, int n, int nodes) {
  char host[TRI_CKPT_PATH_BYTES];

  for (int node = 0; node < nodes; node++) {
    tri_text      line = {0};
    tri_status    st = TRI_OK;
    tri_log_level level = nodes <= NODES_SHOWN + 1 || node < NODES_SHOWN ? TRI_LOG_INFO : TRI_LOG_DETAIL;
    for (int i = 0; i < n && st == TRI_OK; i++)
      if (all[i].node == node)
        st = line.len ? tri_text_printf(&line, " %d", all[i].rank)
                      : tri_text_printf(&line, "  node %d (%s): ranks %d", node,
                                        tri_screen_shown(all[i].host, PATH_COLUMNS, host), all[i].rank);
    if (level == TRI_LOG_INFO &&
        line.len > TRI_SCREEN_COLUMNS) { /* with many ranks only the file has the whole line */
      char brief[TRI_SCREEN_COLUMNS + 8];
      tri_text_shorten(line.data, TRI_SCREEN_COLUMNS, brief, sizeof brief);
      tri_log(TRI_LOG_INFO, "%s", brief);
      level = TRI_LOG_DETAIL;
    }
    if (line.data) TRI_TRY(say(level, &line, st));
    TRI_TRY(st);
  }
  if (nodes > NODES_SHOWN + 1)
    tri_log(TRI_LOG_INFO, "  ... and %d more (log.txt, --verbose)", nodes - NODES_SHOWN);
  return TRI_OK;
}

/* Collective over world. */
static tri_status print_ranks(const tri_trainer *t) {
  const tri_runtime *rt = &t->se->rt;
  tri_status         st;
  place              mine = {rt->node, rt->local_rank, rt->world_rank, {0}};
  size_t            *counts = NULL;
  void              *got = NULL;

  snprintf(mine.host, sizeof mine.host, "%s", rt->host);
  TRI_TRY(TRI_ALLOC(counts, rt->world_size));
  st = tri_host_gather_all(t->se->comm[TRI_WORLD], &mine, sizeof mine, &got, counts);
  if (st == TRI_OK && is_first(t)) st = say_nodes(got, rt->world_size, rt->nodes);
  TRI_FREE(got);
  TRI_FREE(counts);
  return st;
}

/* Prints one line about memory, and writes the whole table to the file. */
static tri_status say_memory(const tri_trainer *t) {
  tri_ledger_sum sum = tri_ledger_total(t->se->ledger);
  bool           large = sum.planned >= (int64_t)10 << 30;
  double         unit = large ? 0x1p30 : 0x1p20;
  tri_text       table = {0};
  tri_status     st = tri_ledger_print(t->se->ledger, &table);
  char           rollout[40] = ""; /* only for a run that generates */

  if (st == TRI_OK) table.data[table.len - 1] = 0; /* removes its last newline */
  if (st == TRI_OK) tri_log_table(TRI_LOG_DETAIL, table.data);
  tri_text_free(&table);
  TRI_TRY(st);
  if (t->sampling.sampler) snprintf(rollout, sizeof rollout, "rollout %.1f, ", (double)sum.rollout / unit);
  if (t->cfg->shard.offload != TRI_CONFIG_OFFLOAD_NONE)
    tri_log(TRI_LOG_INFO, "offload: %.1f %s on the device instead of %.1f, %.1f in host memory",
            (double)sum.device / unit, large ? "GiB" : "MiB", (double)sum.resident / unit,
            (double)sum.pinned / unit);
  tri_log(TRI_LOG_INFO, "memory per rank: %.1f %s (%slearn %.1f, state %.1f)", (double)sum.planned / unit,
          large ? "GiB" : "MiB", rollout, (double)sum.learn / unit, (double)sum.state / unit);
  return TRI_OK;
}

static tri_status say_model(const tri_trainer *t) {
  const tri_model_shape *sh = tri_source_shape(t->learner[TRI_POLICY].source);
  double                 n = (double)tri_learner_size(&t->learner[TRI_POLICY]);
  char                   type[TRI_CKPT_PATH_BYTES];

  SAY("model: %s, %.2f %s parameters, %d layer%s, width %d, vocabulary %d, %s",
      tri_screen_shown(sh->family->model_type, PATH_COLUMNS, type), n < 1e9 ? n / 1e6 : n / 1e9,
      n < 1e9 ? "M" : "G", sh->L, plural(sh->L), sh->C, sh->V, tri_dtype_word(t->cfg->model.dtype));
  return TRI_OK;
}

/* Prints the adapters that learn instead of the weights. */
static tri_status say_adapters(const tri_trainer *t, const tri_learner *l) {
  const tri_lora *a = tri_source_lora(l->source);
  double          n = (double)tri_learner_trained_size(l), all = (double)tri_learner_size(l),
         unit = n < 1e9 ? 1e6 : 1e9;
  char       module[TRI_LORA_MODULE_BYTES];
  tri_text   names = {0}, said = {0};
  tri_status st = TRI_OK;

  if (!tri_learner_has_adapters(t, l)) return TRI_OK;
  for (int i = 0; i < 64 && st == TRI_OK; i++) {
    if (!tri_lora_has(a, i)) continue;
    tri_lora_module(tri_source_shape(l->source)->family, i, module);
    st = tri_text_printf(&names, "%s%s", names.len ? ", " : "", module);
  }
  if (st == TRI_OK)
    st = say(TRI_LOG_INFO, &said,
             tri_text_printf(
                 &said, "lora: %s%.4g %s parameters learn (%.3g %%), rank %d, alpha %g%s, of %s%s",
                 l == &t->learner[TRI_POLICY] ? "" : "the critic's ", n / unit, n < 1e9 ? "M" : "G",
                 100 * n / all, a->rank, a->alpha, a->rs ? " (over the root of the rank)" : "", names.data,
                 tri_config_reference_is_base(t->cfg) && l == &t->learner[TRI_POLICY]
                     ? ". The reference is the model without them."
                     : ""));
  tri_text_free(&names);
  return st;
}

/* Prints the other models of the run, each with its shard plan if it differs from the policy's. */
static tri_status say_others(const tri_trainer *t) {
  for (int i = 0; i < TRI_ROLE_COUNT; i++) {
    const tri_learner     *l = &t->learner[i];
    const tri_model_shape *sh = l->model ? tri_source_shape(l->source) : NULL;
    double                 n = l->model ? (double)tri_learner_size(l) : 0;
    tri_shard_plan         plan = l->plan;
    char                   own[64] = "", from[TRI_CKPT_PATH_BYTES];
    if (!sh || i == TRI_POLICY) continue;
    if (!tri_learner_trains(l) && plan.params != t->cfg->shard.scope.params)
      snprintf(own, sizeof own, ", params %s", tri_shard_scope_name(plan.params));
    else if (tri_learner_trains(l) && memcmp(&plan, &t->cfg->shard.scope, sizeof plan) != 0)
      snprintf(own, sizeof own, ", params %s, grads %s, optimizer %s", tri_shard_scope_name(plan.params),
               tri_shard_scope_name(plan.grads), tri_shard_scope_name(plan.optim));
    SAY("%s: %.2f %s parameters, %d layer%s, width %d%s, from %s", l->name, n < 1e9 ? n / 1e6 : n / 1e9,
        n < 1e9 ? "M" : "G", sh->L, plural(sh->L), sh->C, own,
        tri_screen_shown(tri_source_name(l->source), PATH_COLUMNS, from));
    TRI_TRY(say_adapters(t, l));
    if (i == TRI_CRITIC && t->learner[TRI_POLICY].warmup_steps)
      SAY("    learns alone in the first %lld step%s", (long long)t->learner[TRI_POLICY].warmup_steps,
          plural(t->learner[TRI_POLICY].warmup_steps));
  }
  return TRI_OK;
}

/* Prints how many answers each model decodes and caches, where several ranks generate as one model. */
static tri_status say_models(const tri_trainer *t, int models, const char *need) {
  char full[80] = "";

  if (t->plan.decode_full < t->plan.decode)
    snprintf(full, sizeof full, ", %lld of full length (%lld tokens)", (long long)t->plan.decode_full,
             (long long)t->plan.max_tokens);
  SAY("    %d model%s decode%s %lld answer%s at once%s:\n    %lld tokens cached%s%s", models, plural(models),
      models == 1 ? "s" : "", (long long)t->plan.decode, plural(t->plan.decode), full,
      (long long)t->plan.cached, models == 1 ? "" : " each", need);
  return TRI_OK;
}

/* Prints how many answers a rank decodes and caches. Several ranks take prompts from a queue. One rank that
 * caches all its answers needs no line. */
static tri_status say_rollout(const tri_trainer *t) {
  int         models = t->se->rt.world_size / tri_ranks_of_model(t);
  const char *need = models > 1 ? ", prompts from a queue" : "";

  if (tri_ranks_of_model(t) > 1) return say_models(t, models, need);
  if (t->plan.decode_full < t->plan.decode)
    SAY("    at most %lld answers at once on a rank, %lld of full length (%lld tokens):\n    %lld tokens "
        "cached%s",
        (long long)t->plan.decode, (long long)t->plan.decode_full, (long long)t->plan.max_tokens,
        (long long)t->plan.cached, need);
  else if (t->se->rt.world_size > 1)
    SAY("    %lld answer%s at once on a rank: %lld tokens cached%s", (long long)t->plan.decode,
        plural(t->plan.decode), (long long)t->plan.cached, need);
  return TRI_OK;
}

/* Prints the states of recurrent layers in a rank's cache. */
static tri_status say_states(const tri_trainer *t) {
  char each[TRI_CELL_BYTES];

  if (!t->plan.states) return TRI_OK;
  tri_cell_bytes(t->plan.state_bytes, each);
  SAY("    %lld state%s of %s for the recurrent layers", (long long)t->plan.states, plural(t->plan.states),
      each);
  return TRI_OK;
}

static tri_status say_plan(const tri_trainer *t) {
  tri_shard_plan p = t->cfg->shard.scope;
  char           generation[48] = "";

  if (t->plan.batch.rollout_samples && tri_ranks_of_model(t) > 1)
    snprintf(generation, sizeof generation, "; generation: %d ranks a model", tri_ranks_of_model(t));
  SAY("shard plan: params %s, grads %s, optimizer %s%s", tri_shard_scope_name(p.params),
      tri_shard_scope_name(p.grads), tri_shard_scope_name(p.optim), generation);
  SAY("%s", t->plan.batch.equation);
  if (t->plan.batch.rollout_samples) TRI_TRY(say_rollout(t));
  TRI_TRY(say_states(t));
  if (t->health.trend.selected)
    SAY("dynamic sampling: up to %lld extra batches per step replace groups of equal rewards. The reward "
        "column counts only the groups kept.",
        (long long)t->cfg->rollout.max_extra_batches);
  return TRI_OK;
}

/* Prints learning rate and checkpoint times, whether set by keys or defaults. */
static tri_status say_pace(const tri_trainer *t) {
  const tri_config *c = t->cfg;
  double            rate = t->learner[TRI_POLICY].lr.peak;
  long long         warmup = t->learner[TRI_POLICY].lr.warmup;
  char              word[TRI_CONFIG_WORD_BYTES], of[64] = "", rise[64] = "", steps[48] = "", minutes[48] = "";
  bool              by_steps = c->checkpoint.save_steps > 0, by_time = c->checkpoint.save_minutes > 0;

  tri_config_word("train.lr_scheduler", (int)c->train.lr.scheduler, word);
  if (c->train.rate_is_default && rate == c->train.lr.peak)
    snprintf(of, sizeof of, " (default of %s%s)", t->algo->name, tri_config_has_lora(c) ? " with lora" : "");
  if (warmup)
    snprintf(rise, sizeof rise, ", after a warm-up of %lld update%s", warmup, warmup > 1 ? "s" : "");
  SAY("learning rate: %g%s, %s%s", rate, of, word, rise);
  if (by_steps)
    snprintf(steps, sizeof steps, "every %lld step%s", (long long)c->checkpoint.save_steps,
             plural(c->checkpoint.save_steps));
  if (by_time)
    snprintf(minutes, sizeof minutes, "%severy %g minutes", by_steps ? ", " : "", c->checkpoint.save_minutes);
  SAY("checkpoints: %s%s%s, %lld kept", steps, minutes,
      by_steps || by_time        ? ""
      : c->checkpoint.save_final ? "after the last step alone"
                                 : "none unless the run is stopped",
      (long long)c->checkpoint.save_total_limit);
  return TRI_OK;
}

/* Writes the constants of the loss. */
static void name_constants(const tri_trainer *t, char *out, size_t bytes) {
  const tri_algo_opt *o = &t->cfg->algo.opt;
  const tri_algo     *a = t->algo;

  out[0] = 0;
  if (tri_algo_reads(a, "algo.clip_eps"))
    snprintf(out, bytes, " (1 - %g to 1 + %g)", o->clip_eps, o->clip_eps_high);
  else if (tri_algo_reads(a, "algo.clip_eps_high"))
    snprintf(out, bytes, " (to %g)", o->clip_eps_high);
  else if (tri_algo_reads(a, "algo.sapo_temperature_pos"))
    snprintf(out, bytes, " (%g, %g)", o->sapo_temperature_pos, o->sapo_temperature_neg);
  else if (tri_algo_reads(a, "algo.vespo_k_pos"))
    snprintf(out, bytes, " (%g, %g; %g, %g)", o->vespo_k_pos, o->vespo_lambda_pos, o->vespo_k_neg,
             o->vespo_lambda_neg);
}

/* Writes the terms that are added to the loss or change it, each after a comma. */
static void name_terms(const tri_trainer *t, char *out, size_t bytes) {
  const tri_algo_opt *o = &t->cfg->algo.opt;
  char                word[2][TRI_CONFIG_WORD_BYTES];
  size_t              used = 0;

#define ADD(...) used += (size_t)snprintf(out + used, used < bytes ? bytes - used : 0, __VA_ARGS__)
  tri_config_word("algo.loss_agg_mode", o->loss_agg_mode, word[0]);
  ADD(", %s", t->algo->loss->mean ? t->algo->loss->mean : word[0]);
  if (o->dual_clip > 0) ADD(", dual clip %g", o->dual_clip);
  tri_config_word("algo.kl_estimator", o->kl_estimator, word[0]);
  tri_config_word("algo.kl_where", o->kl_where, word[1]);
  if (o->kl_coef > 0) ADD(", %g %s in the %s", o->kl_coef, word[0], word[1]);
  if (o->kl_coef > 0 && o->kl_bias_correction) ADD(" times the ratio");
  if (o->kl_target > 0) ADD(" (towards %g nats)", o->kl_target);
  if (o->entropy_coef > 0 || o->adaptive_entropy_target > 0) ADD(", entropy %g", o->entropy_coef);
  if (o->adaptive_entropy_target > 0) ADD(" (towards %g nats)", o->adaptive_entropy_target);
  if (o->top_entropy_quantile < 1) ADD(", top %g of entropies", o->top_entropy_quantile);
  tri_config_word("algo.is_mode", o->is_mode, word[0]);
  if (o->is_cap > 0) ADD(", sampler corrected (%s at %g)", word[0], o->is_cap);
  if (o->mask_truncated) ADD(", cut answers left out");
#undef ADD
}

/* Keys of policy losses that name_constants and name_terms write in words of their own. */
static const char *const worded[] = {"algo.clip_eps",
                                     "algo.clip_eps_high",
                                     "algo.dual_clip",
                                     "algo.loss_agg_mode",
                                     "algo.sapo_temperature_pos",
                                     "algo.sapo_temperature_neg",
                                     "algo.vespo_k_pos",
                                     "algo.vespo_lambda_pos",
                                     "algo.vespo_k_neg",
                                     "algo.vespo_lambda_neg",
                                     NULL};

/* Appends the other options of a policy loss by the key table, each after a comma. A loss with a new option
 * needs no words here. */
static tri_status put_other_options(const tri_trainer *t, tri_text *out) {
  for (const char *const *key = t->algo->loss->option; *key; key++) {
    const char *const one[] = {*key, NULL};
    int               i = 0;
    while (worded[i] && strcmp(worded[i], *key) != 0) i++;
    if (worded[i]) continue;
    TRI_TRY(tri_text_put(out, ", ", 2));
    TRI_TRY(tri_config_put_options(t->cfg, one, out));
  }
  return TRI_OK;
}

/* Writes the loss of given lines, with its options if it has any. */
static tri_status put_given_loss(const tri_trainer *t, tri_text *out) {
  tri_text   options = {0};
  tri_status st = tri_config_put_options(t->cfg, t->algo->loss->option, &options);

  if (st == TRI_OK && options.len) st = tri_text_printf(out, "%s (%s)", t->algo->loss->name, options.data);
  tri_text_free(&options);
  return st;
}

tri_status tri_screen_loss(const tri_trainer *t, tri_text *out) {
  const tri_algo_opt *o = &t->cfg->algo.opt;
  char                constants[96], terms[384], scale[TRI_CONFIG_WORD_BYTES], how[64] = "";

  if (!t->algo->advantage) return put_given_loss(t, out);
  name_constants(t, constants, sizeof constants);
  name_terms(t, terms, sizeof terms);
  tri_config_word("algo.scale_rewards", o->scale_rewards, scale);
  if (tri_algo_reads(t->algo, "algo.scale_rewards")) snprintf(how, sizeof how, " (std %s)", scale);
  if (tri_algo_reads(t->algo, "algo.gamma")) snprintf(how, sizeof how, " (gamma %g)", o->gamma);
  if (tri_has_critic(t)) snprintf(how, sizeof how, " (gamma %g, lam %g)", o->gamma, o->lam);
  TRI_TRY(tri_text_printf(out, "%s%s of %s%s advantages%s%s", t->algo->loss->name, constants,
                          o->whiten_advantages ? "whitened " : "", t->algo->advantage->name, how, terms));
  return put_other_options(t, out);
}

/* Prints the minimized loss in words, because programs use the same name for different formulas. */
static tri_status say_loss(const tri_trainer *t) {
  tri_text   loss = {0}, said = {0};
  tri_status st = tri_screen_loss(t, &loss);

  if (st == TRI_OK && loss.len) st = say(TRI_LOG_INFO, &said, tri_text_printf(&said, "loss: %s", loss.data));
  tri_text_free(&loss);
  return st;
}

/* Prints named evaluation sets, and the number that decides the best checkpoint. */
static tri_status say_evaluation(const tri_trainer *t) {
  const char *best = t->cfg->checkpoint.keep_best;
  tri_text    sets = {0}, said = {0};
  tri_status  st = TRI_OK;

  if (!t->plan.n_eval || (!t->plan.eval[0].name && !best)) return TRI_OK;
  for (int i = 0; i < t->plan.n_eval && st == TRI_OK; i++)
    st = tri_text_printf(&sets, "%s%s (%lld)", i ? ", " : "",
                         t->plan.eval[i].name ? t->plan.eval[i].name : "data.eval",
                         (long long)(t->eval.data ? t->plan.eval[i].prompts.n : t->plan.eval[i].lines.n));
  if (st == TRI_OK)
    st = say(TRI_LOG_INFO, &said,
             tri_text_printf(&said, "evaluation: %s, every %lld step%s%s%s", sets.data,
                             (long long)t->cfg->eval.steps, plural(t->cfg->eval.steps),
                             !best                     ? ""
                             : tri_best_is_least(best) ? ", BEST by least "
                                                       : ", BEST by largest ",
                             best ? best : ""));
  tri_text_free(&sets);
  return st;
}

tri_status tri_screen_plan(const tri_trainer *t) {
  TRI_TRY(say_loss(t));
  TRI_TRY(say_model(t));
  TRI_TRY(say_adapters(t, &t->learner[TRI_POLICY]));
  TRI_TRY(say_others(t));
  TRI_TRY(say_plan(t));
  TRI_TRY(say_pace(t));
  TRI_TRY(say_evaluation(t));
  return say_memory(t);
}

tri_status tri_screen_start(tri_trainer *t) {
  const tri_runtime *rt = &t->se->rt;
  const tri_device  *d = t->se->device;
  char               output[TRI_CKPT_PATH_BYTES];

  SAY("trireme " TRI_VERSION ": %s, %lld step%s, output %s", t->algo->name, (long long)t->plan.steps,
      t->plan.steps == 1 ? "" : "s", tri_screen_shown(t->cfg->run.output, PATH_COLUMNS, output));
  SAY("ranks: %d on %d node%s (%s), data_parallel_size = %d, collectives: %s", rt->world_size, rt->nodes,
      plural(rt->nodes), rt->launcher, rt->world_size, tri_comm_way_text(t->se->comm[TRI_WORLD]->way));
  SAY("device: %s%s%s, %d thread%s each (%s)", d->ops->name, d->model[0] ? " " : "", d->model, t->se->threads,
      plural(t->se->threads), t->se->threads_why);
  TRI_TRY(print_ranks(t));
  return tri_screen_plan(t);
}
