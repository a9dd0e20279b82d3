/* eval_run.c - trireme eval of a run: runs the evaluation of its deck, with flags in place of keys. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "eval_run.h"

#include "base/child.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/mask.h"
#include "eval_figures.h"
#include "train/evaluate.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the deck ---- */

static tri_status read_deck(const char *folder, tri_config *out) {
  tri_ckpt_reader *r = NULL;
  tri_deck        *deck = NULL;
  char            *bytes = NULL, name[TRI_CKPT_PATH_BYTES + 16];
  size_t           n = 0;
  tri_status       st = TRI_OK;

  snprintf(name, sizeof name, "%s/deck.yaml", folder);
  TRI_TRY_DONE(tri_ckpt_open(folder, NULL, false, &r));
  TRI_TRY_DONE(tri_ckpt_get_file(r, "deck.yaml", &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text(name, bytes, n, &deck));
  TRI_TRY_DONE(tri_config_from_deck(deck, out, NULL));
done:
  tri_deck_close(&deck);
  TRI_FREE(bytes);
  tri_ckpt_close(&r);
  return st;
}

/* Tells whether evaluations of this deck generate answers for rewards. */
static bool makes_answers(const tri_config *c) {
  return c->algo.row.needs & TRI_NEEDS_ANSWERS || (c->reward.n > 0 && c->rollout.max_response_length > 0);
}

tri_status tri_eval_find_run(const char *model, const tri_eval_request *q, tri_eval_run *out) {
  bool       without = q->data && q->reward; /* the model alone is enough */
  tri_status st = tri_ckpt_find(model, NULL, false, NULL, out->folder);

  if (st != TRI_OK || !out->folder[0]) { /* opening the model reports its fault */
    tri_error_clear();
    return TRI_OK;
  }
  st = read_deck(out->folder, &out->cfg);
  out->found = st == TRI_OK && (!q->reward || makes_answers(&out->cfg));
  if (!without) return st;
  tri_error_clear();
  return TRI_OK;
}

/* ---- flags in place of keys ---- */

static tri_status put_text(const char *given, char **key) {
  if (!given) return TRI_OK;
  TRI_FREE(*key);
  return tri_copy_text(given, key);
}

static tri_status put_data(const char *file, tri_config *c) {
  tri_config_list *lists[] = {&c->data.eval, &c->data.eval_names};

  if (!file) return TRI_OK;
  for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
    for (int i = 0; i < lists[k]->n; i++) TRI_FREE(lists[k]->item[i]);
    TRI_FREE(lists[k]->item);
    lists[k]->n = 0;
  }
  TRI_TRY(TRI_ALLOC(c->data.eval.item, 1));
  c->data.eval.n = 1;
  return tri_copy_text(file, &c->data.eval.item[0]);
}

static tri_status put_conversation(const tri_infer_conversation *conversation, tri_config *c) {
  tri_text   kwargs = {0};
  tri_status st = TRI_OK;

  if (conversation->template && !tri_chat_is_word(conversation->template) &&
      !(tri_chat_is_file(conversation->template) && tri_file_exists(conversation->template)))
    TRI_FAIL(TRI_EARG, "--chat-template %s: must be one of " TRI_CHAT_WORDS " or a FILE.jinja that is there",
             conversation->template);
  TRI_TRY(put_text(conversation->template, &c->data.chat_template));
  TRI_TRY(put_text(conversation->system, &c->data.system_prompt));
  if (conversation->tools &&
      !tri_file_exists(conversation->tools)) /* check it here, for the checkpoint's copy would be used if the
                                              * file is missing */
    TRI_FAIL(TRI_EARG, "--tools %s: there is no such file", conversation->tools);
  TRI_TRY(put_text(conversation->tools, &c->data.tools));
  if (conversation->texts) c->data.apply_chat_template = true;
  if (!conversation->kwargs.n) return TRI_OK;
  st = tri_chat_put_kwargs(c->data.chat_template_kwargs, conversation->kwargs.item, conversation->kwargs.n,
                           "--template-kwarg", &kwargs);
  if (st == TRI_OK) st = put_text(kwargs.data, &c->data.chat_template_kwargs);
  tri_text_free(&kwargs);
  return st;
}

static tri_status check_base(const char *base, const char *model, const tri_config *c) {
  if (!base || tri_config_has_lora(c)) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: has no adapters, so --base %s has no use. Leave it out", model, base);
}

static void put_numbers(const tri_eval_request *q, tri_config *c) {
  if (q->max_new) c->rollout.max_response_length = q->max_new;
  if (q->num != TRI_EVAL_NOT_GIVEN) c->eval.num_generations = q->num;
  if (q->seed != TRI_EVAL_NOT_GIVEN) c->run.seed = (uint64_t)q->seed;
  if (q->max_prompts != TRI_EVAL_NOT_GIVEN) c->eval.max_prompts = q->max_prompts;
  if (q->temperature >= 0) c->eval.temperature = q->temperature;
  if (q->dtype) c->model.dtype = tri_dtype_named(q->dtype);
  if (!c->eval.steps) c->eval.steps = 1;
  c->eval.save = false;
}

/* Ranks that generate as one model share the weights. An evaluation has no other state. */
static void put_tensor(const tri_eval_request *q, tri_config *c) {
  tri_shard_plan *plan = &c->shard.scope;

  if (q->tensor) c->shard.tensor_parallel_size = q->tensor;
  if (q->tensor > 1 && plan->params == TRI_SHARD_NONE)
    *plan = (tri_shard_plan){TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_NODE};
}

/* Refuses flags about answers if the run's evaluations generate none. */
static tri_status refuse_idle(const char *model, const tri_eval_request *q, const tri_config *c) {
  const struct {
    const char *name;
    bool        given;
  } row[] = {{"--max-new", q->max_new},  {"--temperature", q->temperature >= 0},
             {"--top-k", q->top_k >= 0}, {"--top-p", q->top_p >= 0},
             {"--num", q->num >= 0},     {"--answer-key", q->answer_key},
             {"--output", q->output}};

  for (size_t i = 0; i < sizeof row / sizeof *row && !makes_answers(c); i++)
    if (row[i].given)
      TRI_FAIL(TRI_EARG, "%s has no use here: evaluations of %s (algo.name %s) generate no answers%s",
               row[i].name, model, c->algo.name,
               c->algo.row.needs & TRI_NEEDS_DEMONSTRATIONS ? ". Give --data and --reward to generate some"
                                                            : "");
  return TRI_OK;
}

/* Fails if the deck in the checkpoint has a masked secret. Secrets are never saved. */
static tri_status check_secrets(const char *model, const tri_config *c) {
  for (int i = 0; i < c->reward.n && makes_answers(c); i++)
    for (int f = 0; f < c->reward.item[i].n_field; f++) {
      const char *word = c->reward.item[i].field[f].value;
      for (int k = 0; k <= c->reward.item[i].field[f].n_more; k++, word += strlen(word) + 1)
        if (strstr(word, TRI_MASK))
          TRI_FAIL(
              TRI_EINPUT,
              "%s: its deck has a masked secret of reward %s (%s). Give --reward %s --%s ... with the secret",
              model, c->reward.item[i].name, word, c->reward.item[i].name, c->reward.item[i].field[f].name);
    }
  return TRI_OK;
}

static tri_status apply(const char *model, const tri_eval_request *q, tri_config *c) {
  TRI_TRY(refuse_idle(model, q, c));
  TRI_TRY(put_data(q->data, c));
  if (!c->data.eval.n)
    TRI_FAIL(TRI_EARG, "%s: the deck of its run has no data.eval. Give --data F.jsonl", model);
  TRI_TRY(put_text(q->prompt_key, &c->data.prompt_key));
  TRI_TRY(put_text(q->answer_key, &c->data.answer_key));
  TRI_TRY(put_conversation(&q->conversation, c));
  TRI_TRY(check_base(q->base, model, c));
  put_numbers(q, c);
  put_tensor(q, c);
  return q->reward ? TRI_OK : check_secrets(model, c);
}

/* ---- the results ---- */

static tri_eval_figures figures_of(const tri_trainer *t, const tri_eval_sum *sum, const tri_eval_range *of) {
  const tri_config *c = t->cfg;
  tri_on_error      on_error = TRI_ON_ERROR_ZERO;

  if (c->reward.n == 1 && tri_reward_read_on_error(&c->reward.item[0], &on_error) != TRI_OK)
    tri_error_clear();
  return (tri_eval_figures){.set = t->reward,
                            .figures = sum->figures,
                            .prompts = of->n,
                            .num = (int)c->eval.num_generations,
                            .reward_failures = sum->failures,
                            .failing = c->reward.n == 1 ? c->reward.item[0].name : NULL,
                            .drops = on_error == TRI_ON_ERROR_DROP};
}

/* Returns the name of the loss's i-th number, or NULL after the last one. */
static const char *loss_at(const tri_trainer *t, const tri_eval_sum *sum, int i, double *value) {
  const char *name = t->eval.lines ? tri_evaluate_number(t, sum, i, value) : NULL;

  for (tri_figure k = 0; k < TRI_FIGURE_COUNT && name; k++)
    if (!strcmp(name, tri_figure_name(k))) return NULL;
  return name;
}

/* Appends the figures of all lines, or of the one set with the ranges `prompts` and `lines`. */
static tri_status put_sum(const tri_trainer *t, const tri_eval_sum *sum, const tri_eval_range *prompts,
                          const tri_eval_range *lines, tri_text *out) {
  const char *name;
  double      value;

  if (t->eval.data) {
    tri_eval_figures x = figures_of(t, sum, prompts);
    TRI_TRY(tri_eval_put_figures(&x, out));
  }
  if (t->eval.lines) TRI_TRY(tri_eval_put(out, "lines", (double)lines->n));
  for (int i = 0; (name = loss_at(t, sum, i, &value)) != NULL; i++) TRI_TRY(tri_eval_put(out, name, value));
  return TRI_OK;
}

static void print_sum(const tri_trainer *t, const tri_eval_sum *sum, const tri_eval_range *prompts,
                      const tri_eval_range *lines) {
  const char *name;
  double      value;

  if (t->eval.data) {
    tri_eval_figures x = figures_of(t, sum, prompts);
    tri_eval_print_figures(&x);
  }
  if (t->eval.lines) printf("lines %lld\n", (long long)lines->n);
  for (int i = 0; (name = loss_at(t, sum, i, &value)) != NULL; i++) {
    char label[TRI_METRIC_NAME_BYTES];
    snprintf(label, sizeof label, "%s", name);
    for (char *c = label; *c; c++) *c = *c == '_' ? ' ' : *c;
    if (!isnan(value)) printf("%-20s %.6f\n", label, value);
  }
}

/* Further numbers in the replies of rewards, named as the metrics of a run. */
typedef struct extras {
  int    n;
  char   name[TRI_REWARDS_MAX * TRI_EXTRAS_MOST][TRI_METRIC_NAME_BYTES];
  double mean[TRI_REWARDS_MAX * TRI_EXTRAS_MOST];
} extras;

/* Collective over world. */
static tri_status take_extras(tri_trainer *t, extras *x) {
  tri_reward_mean mean[TRI_EXTRAS_MOST];
  int             n;

  x->n = 0;
  for (int i = 0; t->eval.data && i < tri_reward_set_count(t->reward); i++) {
    TRI_TRY(tri_reward_set_extras(t->reward, i, tri_world_of(t), mean, &n));
    for (int k = 0; k < n; k++) {
      snprintf(x->name[x->n], TRI_METRIC_NAME_BYTES, "reward_%s_%s", tri_reward_set_name(t->reward, i),
               mean[k].name);
      x->mean[x->n++] = mean[k].sum / mean[k].n;
    }
  }
  return TRI_OK;
}

static tri_status put_sets(const tri_trainer *t, const tri_eval_sum *of_set, tri_text *out) {
  for (int i = 0; i < t->plan.n_eval; i++) {
    const tri_eval_set *s = &t->plan.eval[i];
    TRI_TRY(tri_text_printf(out, "%s\"%s\": {", i ? ", " : ", \"sets\": {", s->name));
    TRI_TRY(put_sum(t, &of_set[i], &s->prompts, &s->lines, out));
    TRI_TRY(tri_text_printf(out, "}"));
  }
  return tri_text_printf(out, "}");
}

/* Called on rank 0. */
static tri_status show(const tri_trainer *t, const tri_eval_sum *all, const tri_eval_sum *of_set,
                       const extras *more, bool json) {
  const tri_eval_range prompts = {0, t->plan.eval_prompts}, lines = {0, t->plan.eval_lines};
  bool                 named = t->plan.eval[0].name;
  tri_text             out = {0};
  tri_status           st = TRI_OK;

  if (json) {
    TRI_TRY_DONE(tri_text_printf(&out, "{"));
    TRI_TRY_DONE(tri_eval_put(&out, "step", (double)t->progress.step));
    TRI_TRY_DONE(put_sum(t, all, &prompts, &lines, &out));
    for (int i = 0; i < more->n; i++) TRI_TRY_DONE(tri_eval_put(&out, more->name[i], more->mean[i]));
    if (named) TRI_TRY_DONE(put_sets(t, of_set, &out));
    printf("%s}\n", out.data);
  } else {
    print_sum(t, all, &prompts, &lines);
    for (int i = 0; i < more->n; i++) printf("%s %.6f\n", more->name[i], more->mean[i]);
    for (int i = 0; i < t->plan.n_eval && named; i++) {
      printf("\nset %s\n", t->plan.eval[i].name);
      print_sum(t, &of_set[i], &t->plan.eval[i].prompts, &t->plan.eval[i].lines);
    }
  }
  fflush(stdout);
done:
  tri_text_free(&out);
  return st;
}

/* ---- the command ---- */

/* Called on rank 0 before the work. */
static void say_how(const tri_eval_request *q, const tri_trainer *t) {
  const tri_config *c = t->cfg;

  if (!t->eval.data) return;
  if (!q->max_new)
    tri_log(TRI_LOG_INFO,
            "answers have up to %lld token%s, as in the run (rollout.max_response_length). --max-new sets "
            "another length",
            (long long)c->rollout.max_response_length, c->rollout.max_response_length == 1 ? "" : "s");
  if (q->max_prompts == TRI_EVAL_NOT_GIVEN && t->plan.eval_prompts < tri_dataset_count(t->eval.data))
    tri_log(TRI_LOG_INFO,
            "%lld of %lld prompts are taken, as in the run (eval.max_prompts). --max-prompts sets another "
            "number, 0 for all",
            (long long)t->plan.eval_prompts, (long long)tri_dataset_count(t->eval.data));
  tri_infer_warn_greedy(c->eval.num_generations, c->eval.temperature);
}

/* Fails if the checkpoint of the deck is damaged, so that an older one was found. A newer one is right, since
 * a run in progress may have saved it after the deck was read. The names of checkpoints sort by step. */
static tri_status check_folder(const char *found, const char *read) {
  if (strcmp(found, read) >= 0) return TRI_OK;
  TRI_FAIL(TRI_EFORMAT, "%s is damaged. `trireme eval %s` evaluates the newest undamaged checkpoint", read,
           found);
}

/* Collective over world. Sets the place of the adapters' base model: a model folder, a checkpoint or a
 * run. */
static tri_status put_base(const char *base, tri_comm *world, tri_config *c) {
  char        path[TRI_CKPT_PATH_BYTES];
  tri_source *s = NULL;
  tri_status  st;

  if (!base) return TRI_OK;
  TRI_TRY(tri_source_resolve(base, world, path));
  st = tri_source_open(path, NULL, false, &s); /* without this check a wrong path would be ignored */
  tri_source_close(&s);
  TRI_TRY(tri_agree(world, st));
  return put_text(path, &c->model.path);
}

/* Chosen, as in infer.c: models share no step, and may work for hours after others are done. */
static const double late_s = 86400;

static tri_status evaluate(const char *model, const tri_eval_request *q, tri_eval_run *run) {
  tri_session     se = {0};
  tri_session_opt opt = {.device = "auto",
                         .threads = (int)q->threads,
                         .timeout_s = late_s,
                         .threads_name = "--threads",
                         .tensor = (int)run->cfg.shard.tensor_parallel_size,
                         .tensor_name = q->tensor ? TRI_INFER_TENSOR_NAME : NULL,
                         .tensor_fits = !q->tensor};
  tri_trainer     t = {0};
  tri_eval_sum    all, of_set[TRI_CONFIG_EVAL_SETS];
  char            path[TRI_CKPT_PATH_BYTES];
  extras         *more = NULL;
  bool            first;
  tri_status      st = TRI_OK;

  tri_config_choose(&run->cfg);
  TRI_TRY_DONE(tri_session_open(&opt, &se));
  tri_session_say_threads(&se);
  first = se.rt.world_rank == 0;
  TRI_TRY_DONE(tri_source_resolve(model, se.comm[TRI_WORLD], path));
  TRI_TRY_DONE(tri_agree(se.comm[TRI_WORLD], check_folder(path, run->folder)));
  TRI_TRY_DONE(put_base(q->base, se.comm[TRI_WORLD], &run->cfg));
  if (q->output)
    TRI_TRY_DONE(tri_agree(se.comm[TRI_WORLD], first ? tri_eval_check_output(q->output) : TRI_OK));
  tri_child_mind_signals();
  TRI_TRY_DONE(tri_trainer_open_to_evaluate(&run->cfg, &se, path, &t));
  if (q->top_k >= 0) t.sampling.eval.rule.top_k = (int)q->top_k;
  if (q->top_p >= 0) t.sampling.eval.rule.top_p = (float)q->top_p;
  t.eval.path = q->output;
  if (first) say_how(q, &t);
  TRI_TRY_DONE(tri_evaluate_sum(&t, &all, of_set));
  TRI_TRY_DONE(TRI_ALLOC(more, 1));
  TRI_TRY_DONE(take_extras(&t, more));
  if (first) TRI_TRY_DONE(show(&t, &all, of_set, more, q->json));
  if (first && t.eval.data) {
    const tri_eval_figures x = figures_of(&t, &all, &(tri_eval_range){0, t.plan.eval_prompts});
    tri_eval_warn(&x, run->cfg.rollout.max_response_length);
  }
done:
  TRI_FREE(more);
  tri_trainer_close(&t);
  tri_session_leave(&se, st);
  return st;
}

tri_status tri_eval_of_run(const char *model, const tri_eval_request *q, const tri_reward_opt *reward,
                           tri_eval_run *run) {
  tri_reward_opt own = run->cfg.reward.item[0];
  int            n = run->cfg.reward.n;
  tri_status     st;

  TRI_TRY(apply(model, q, &run->cfg));
  if (reward) { /* borrowed until the end of this function */
    run->cfg.reward.item[0] = *reward;
    run->cfg.reward.n = 1;
  }
  st = evaluate(model, q, run);
  run->cfg.reward.item[0] = own;
  run->cfg.reward.n = n;
  return st;
}
