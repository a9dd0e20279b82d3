/* evaluate.c - evaluates held-out lines by the loss (evaluate_lines.c), and held-out prompts by reward,
 * pass@1 and length of the policy's answers, in all and for each set. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/halt.h"
#include "evaluate.h"
#include "base/host_memory.h"
#include "report_step.h"
#include "reward/figures.h"
#include "save.h"
#include "score.h"
#include "batch_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX_BYTES = TRI_CONFIG_EVAL_NAME_BYTES + sizeof "eval__" };
/* Writes the prefix of metrics, for all lines (name NULL) or for a set. */
static void put_prefix(const char *name, char out[PREFIX_BYTES]) {
  snprintf(out, PREFIX_BYTES, "eval_%s%s", name ? name : "", name ? "_" : "");
}

/* ---- lines of a set ---- */

/* Finds all lines of set i in a data set. */
static tri_status find_range(const tri_trainer *t, int i, const tri_dataset *d, tri_eval_range *out) {
  const tri_config_list *names = &t->cfg->data.eval_names;
  int64_t                all = tri_dataset_count(d), end;

  *out = (tri_eval_range){0, all};
  if (!names->n) return TRI_OK;
  if (!tri_dataset_stats(d)->n_line) { /* assumed lines of a plan on paper */
    out->n = all / names->n;
    out->begin = i * out->n;
    return TRI_OK;
  }
  while (out->begin < all && tri_dataset_get(d, out->begin)->file < i) out->begin++;
  for (end = out->begin; end < all && tri_dataset_get(d, end)->file == i;) end++;
  out->n = end - out->begin;
  if (out->n) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: has no line to evaluate on. Remove it, and its name %s from data.eval_names.",
           t->cfg->data.eval.item[i], names->item[i]);
}

/* Limits the lines of set i to eval.max_prompts. */
static tri_status take_range(const tri_trainer *t, int i, const tri_dataset *d, tri_eval_range *out) {
  int64_t most = t->cfg->eval.max_prompts;

  if (!d) return TRI_OK;
  TRI_TRY(find_range(t, i, d, out));
  if (most && most < out->n) out->n = most;
  return TRI_OK;
}

/* ---- numbers of an evaluation ---- */

/* True if this run's evaluations have the figure. With one answer to a prompt, figures of k answers would
 * repeat the others. */
static bool has_figure(const tri_trainer *t, tri_figure which) {
  if (!tri_figure_is_had(which, t->reward)) return false;
  return t->sampling.eval.group > 1 || !tri_figure_is_of_k(which);
}

/* Returns the name of the i-th figure of answers and its value, or NULL after the last one. */
static const char *figure_at(const tri_trainer *t, const tri_figures *f, int i, double *value) {
  for (tri_figure k = 0; k < TRI_FIGURE_COUNT; k++) {
    if (!has_figure(t, k) || i-- > 0) continue;
    *value = tri_figure_mean(f, k);
    return tri_figure_name(k);
  }
  return NULL;
}

/* The same for the i-th number of the loss. A mean of nothing is NaN. */
static const char *loss_at(const tri_learner *l, const tri_eval_sum *sum, int i, double *value) {
  *value = sum->loss;
  if (i == 0) return l->loss_name;
  *value = exp(sum->loss);
  if (l->loss->is_nats && i == 1) return "perplexity";
  i -= l->loss->is_nats ? 2 : 1;
  *value = sum->metric[i].of > 0 ? sum->metric[i].sum / sum->metric[i].of : (double)NAN;
  return l->loss->metric[i];
}

const char *tri_evaluate_number(const tri_trainer *t, const tri_eval_sum *sum, int i, double *value) {
  const tri_learner *l = &t->learner[TRI_POLICY];
  int                by_loss = 0;

  for (; t->eval.lines && i - by_loss >= 0; by_loss++) {
    const char *name = loss_at(l, sum, by_loss, value);
    if (!name) break;
    if (by_loss == i) return name;
  }
  return t->eval.data ? figure_at(t, &sum->figures, i - by_loss, value) : NULL;
}

/* Returns the i-th number that can decide the best checkpoint, without its prefix, or NULL after the last
 * one. */
static const char *number_at(const tri_trainer *t, int i) {
  static const tri_eval_sum none;
  double                    value;

  for (int k = 0;; k++) {
    const char *name = tri_evaluate_number(t, &none, k, &value);
    if (name && !strcmp(name, tri_figure_name(TRI_FIGURE_TRUNCATED))) continue;
    if (!name || i-- == 0) return name;
  }
}

/* True if the metric is a number of all lines (name NULL) or of this set. */
static bool is_number_of(const tri_trainer *t, const char *metric, const char *name) {
  char prefix[PREFIX_BYTES];

  put_prefix(name, prefix);
  if (strncmp(metric, prefix, strlen(prefix)) != 0) return false;
  for (int i = 0; number_at(t, i); i++)
    if (!strcmp(metric + strlen(prefix), number_at(t, i))) return true;
  return false;
}

/* Refuses a metric that never appears, because then no checkpoint would be kept as best. */
static tri_status check_best(const tri_trainer *t) {
  const char *metric = t->cfg->checkpoint.keep_best, *name = t->plan.eval[0].name;
  tri_text    list = {0};
  tri_status  st = TRI_OK;

  if (!metric || t->plan.evaluates || is_number_of(t, metric, NULL)) return TRI_OK;
  for (int i = 0; i < t->plan.n_eval && name; i++)
    if (is_number_of(t, metric, t->plan.eval[i].name)) return TRI_OK;
  for (int i = 0; number_at(t, i) && st == TRI_OK; i++)
    st = tri_text_printf(&list, "%seval_%s", i ? ", " : "", number_at(t, i));
  if (st == TRI_OK && name)
    st = tri_text_printf(&list, " and, for example, eval_%s_%s", name, number_at(t, 0));
  if (st == TRI_OK)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG,
                  "checkpoint.keep_best = %s: evaluations of this run do not compute it. They compute %s.",
                  metric, list.data);
  tri_text_free(&list);
  return st;
}

tri_status tri_evaluate_plan(tri_trainer *t) {
  const tri_config_list *names = &t->cfg->data.eval_names;

  t->plan.n_eval = names->n ? names->n : 1;
  for (int i = 0; i < t->plan.n_eval; i++) {
    t->plan.eval[i] = (tri_eval_set){.name = names->n ? names->item[i] : NULL};
    TRI_TRY(take_range(t, i, t->eval.data, &t->plan.eval[i].prompts));
    TRI_TRY(take_range(t, i, t->eval.lines, &t->plan.eval[i].lines));
  }
  return check_best(t);
}

/* ---- answers ---- */

static tri_status add_answers(tri_trainer *t, const tri_rollout *r, tri_eval_sum *all, tri_eval_sum *of_set) {
  const tri_source     *source = t->learner[TRI_POLICY].source;
  const tri_answers_opt o = {.set = t->reward,
                             .tokenizer = tri_source_tokenizer(source),
                             .model = tri_source_name(source),
                             .end = tri_source_eos(source)->id,
                             .n_end = tri_source_eos(source)->n};
  int                  *vote = NULL, failed = tri_answers_failed(r, t->reward, tri_world_of(t)->rank == 0);
  tri_status            st = TRI_OK;

  all->failures += failed;
  of_set->failures += failed;
  TRI_TRY_DONE(TRI_ALLOC(vote, r->n_seq));
  if (has_figure(t, TRI_FIGURE_MAJORITY_K)) /* only this figure counts votes */
    TRI_TRY_DONE(tri_figures_vote(r, &o, vote));
  tri_figures_add(r, t->reward, vote, &all->figures);
  tri_figures_add(r, t->reward, vote, &of_set->figures);
done:
  TRI_FREE(vote);
  return st;
}

/* Prompts of a set answered together. */
typedef struct piece {
  const tri_eval_set *set;
  int64_t             begin, n, before; /* positions. before: prompts of the evaluation already done */
} piece;

/* Collective over world. Answers these held-out prompts and adds them to the sums of all prompts and of their
 * set. Adds none if the run is told to stop. */
static tri_status evaluate_answers(tri_trainer *t, const piece *p, tri_eval_sum *all, tri_eval_sum *of_set) {
  int64_t     each = t->sampling.eval.group;
  tri_rollout r = {0};
  tri_status  st = TRI_OK;
  tri_ask     ask = {.data = t->eval.data,
                     .begin = p->begin,
                     .n = p->n,
                     .how = &t->sampling.eval,
                     .phase = "eval",
                     .before = p->before * each,
                     .all = t->plan.eval_prompts * each};

  TRI_TRY_DONE(tri_batch_source_ask(t, &ask, &r));
  if (tri_halt_decided(t->halt)) goto done;
  TRI_TRY_DONE(tri_report_eval_put(t, &r, p->set->name));
  st = tri_agree(tri_world_of(t), add_answers(t, &r, all, of_set));
done:
  tri_rollout_clear(&r);
  return st;
}

/* Collective over world. Answers all prompts of a set. Stops early if the run is told to stop. */
static tri_status answer_set(tri_trainer *t, const tri_eval_set *set, int64_t before, tri_eval_sum *all,
                             tri_eval_sum *of_set) {
  for (int64_t at = 0; at < set->prompts.n && !tri_halt_decided(t->halt); at += t->plan.eval_at_once) {
    piece p = {set, set->prompts.begin + at, t->plan.eval_at_once, before + at};
    if (p.n > set->prompts.n - at) p.n = set->prompts.n - at;
    TRI_TRY(evaluate_answers(t, &p, all, of_set));
  }
  return TRI_OK;
}

/* ---- the whole evaluation ---- */

tri_status tri_evaluate_sum(tri_trainer *t, tri_eval_sum *all, tri_eval_sum *of_set) {
  const tri_eval_set *set = t->plan.eval;
  int64_t             before = 0;
  tri_halt_cause      halt;

  *all = (tri_eval_sum){.failures = 0};
  for (int i = 0; i < t->plan.n_eval; i++) of_set[i] = *all;
  TRI_TRY(tri_halt_ask(t->halt, &halt));
  if (t->eval.data) TRI_TRY(tri_report_eval_begin(t));
  for (int i = 0; t->eval.data && i < t->plan.n_eval; before += set[i++].prompts.n)
    TRI_TRY(answer_set(t, &set[i], before, all, &of_set[i]));
  if (t->eval.lines && !tri_halt_decided(t->halt)) TRI_TRY(tri_evaluate_lines(t, all, of_set));
  t->progress.eval_due = tri_halt_decided(t->halt) != TRI_HALT_NOT;
  if (t->progress.eval_due) tri_answers_file_drop(&t->eval.file);
  return t->eval.data && !t->progress.eval_due ? tri_report_eval_end(t) : TRI_OK;
}

static void report(tri_trainer *t, const char *prefix, const char *what, double value) {
  char name[TRI_METRIC_NAME_BYTES];

  snprintf(name, sizeof name, "%s%s", prefix, what);
  tri_metric_add(t->metrics, name, TRI_METRIC_RANK0, value);
}

/* Collective over world. Adds the numbers to the metrics, under eval_ or the set's eval_NAME_. Leaves out
 * means of nothing, such as means over labels of one kind if all have the other. */
static tri_status report_sum(tri_trainer *t, const tri_eval_sum *sum, const char *name) {
  char        prefix[PREFIX_BYTES];
  const char *what;
  double      value;

  put_prefix(name, prefix);
  for (int i = 0; (what = tri_evaluate_number(t, sum, i, &value)) != NULL; i++)
    if (t->eval.data || !isnan(value)) report(t, prefix, what, value);
  if (sum->failures > 0) report(t, prefix, "reward_failures", sum->failures);
  return t->eval.data && !name ? tri_report_extras(t, prefix) : TRI_OK;
}

tri_status tri_evaluate(tri_trainer *t) {
  tri_eval_sum all, of_set[TRI_CONFIG_EVAL_SETS];

  TRI_TRY(tri_evaluate_sum(t, &all, of_set));
  if (t->progress.eval_due) return TRI_OK;
  TRI_TRY(report_sum(t, &all, NULL));
  for (int i = 0; i < t->plan.n_eval; i++)
    if (t->plan.eval[i].name) TRI_TRY(report_sum(t, &of_set[i], t->plan.eval[i].name));
  tri_save_note_evaluation(t);
  return TRI_OK;
}
