/* evaluate.c - held-out prompts: reward, pass@1 and length of the policy's answers; or held-out lines: their
 * loss; of all, and of each set. */
#include "comm/halt.h"
#include "reward/figures.h"
#include "score.h"
#include "supply.h"
#include "train.h"

#include <stdio.h>
#include <string.h>

/* What an evaluation adds up, of all lines or of a set; lines: where the loss judges. */
typedef struct eval_sum {
  tri_figures figures;
  int         failures;
  tri_tally   lines;
} eval_sum;

enum { PREFIX_BYTES = TRI_CONFIG_EVAL_NAME_BYTES + sizeof "eval__" };
/* Of the metrics of all lines (name NULL), of a set's. */
static void put_prefix(const char *name, char out[PREFIX_BYTES]) {
  snprintf(out, PREFIX_BYTES, "eval_%s%s", name ? name : "", name ? "_" : "");
}

/* ---- which lines ---- */

/* Set i's lines, all that there are. */
static tri_status find_set(const tri_trainer *t, int i, tri_eval_set *out) {
  const tri_config_list *names = &t->cfg->data.eval_names;
  int64_t                all = tri_dataset_count(t->eval_data), end;

  *out = (tri_eval_set){.n = all};
  if (!names->n) return TRI_OK;
  out->name = names->item[i];
  if (!tri_dataset_stats(t->eval_data)->n_line) { /* assumed ones */
    out->n = all / names->n;
    out->begin = i * out->n;
    return TRI_OK;
  }
  while (out->begin < all && tri_dataset_get(t->eval_data, out->begin)->file < i) out->begin++;
  for (end = out->begin; end < all && tri_dataset_get(t->eval_data, end)->file == i;) end++;
  out->n = end - out->begin;
  if (out->n) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: has no line to evaluate on, and data.eval_names calls it %s: remove both",
           t->cfg->data.eval.item[i], out->name);
}

/* ---- which numbers ---- */

/* Whether this run's evaluations have it: with one answer to a prompt those of k would say the same again. */
static bool has_figure(const tri_trainer *t, tri_figure which) {
  if (!tri_figure_is_had(which, t->reward)) return false;
  return t->sampling.eval.group > 1 || !tri_figure_is_of_k(which);
}

/* The i-th number by which a checkpoint may be the best, without its prefix; NULL: there are no more. */
static const char *number_at(const tri_trainer *t, int i) {
  const tri_learner *l = &t->learner[TRI_POLICY];

  if (tri_evaluates_by_loss(t)) return i ? l->loss->metric[i - 1] : l->loss_name;
  for (tri_figure f = 0; f < TRI_FIGURE_COUNT; f++)
    if (f != TRI_FIGURE_TRUNCATED && has_figure(t, f) && i-- == 0) return tri_figure_name(f);
  return NULL;
}

/* Is this number one of all lines (name NULL), or of a set? */
static bool is_number_of(const tri_trainer *t, const char *metric, const char *name) {
  char prefix[PREFIX_BYTES];

  put_prefix(name, prefix);
  if (strncmp(metric, prefix, strlen(prefix)) != 0) return false;
  for (int i = 0; number_at(t, i); i++)
    if (!strcmp(metric + strlen(prefix), number_at(t, i))) return true;
  return false;
}

/* A metric that never comes would have no checkpoint kept. */
static tri_status check_best(const tri_trainer *t) {
  const char *metric = t->cfg->checkpoint.keep_best, *name = t->plan.eval[0].name;
  tri_text    list = {0};
  tri_status  st = TRI_OK;

  if (!metric || is_number_of(t, metric, NULL)) return TRI_OK;
  for (int i = 0; i < t->plan.n_eval && name; i++)
    if (is_number_of(t, metric, t->plan.eval[i].name)) return TRI_OK;
  for (int i = 0; number_at(t, i) && st == TRI_OK; i++)
    st = tri_text_printf(&list, "%seval_%s", i ? ", " : "", number_at(t, i));
  if (st == TRI_OK && name)
    st = tri_text_printf(&list, " and, for example, eval_%s_%s", name, number_at(t, 0));
  if (st == TRI_OK)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG,
                  "checkpoint.keep_best = %s: this run's evaluations do not have it; they have %s", metric,
                  list.data);
  tri_text_free(&list);
  return st;
}

tri_status tri_evaluate_plan(tri_trainer *t) {
  int64_t most = t->cfg->eval.max_prompts;

  t->plan.n_eval = t->cfg->data.eval_names.n ? t->cfg->data.eval_names.n : 1;
  for (int i = 0; i < t->plan.n_eval; i++) {
    TRI_TRY(find_set(t, i, &t->plan.eval[i]));
    if (most && most < t->plan.eval[i].n) t->plan.eval[i].n = most;
  }
  return check_best(t);
}

/* ---- by answers ---- */

static tri_status add_answers(tri_trainer *t, const tri_rollout *r, eval_sum *all, eval_sum *of_set) {
  const tri_source     *source = t->learner[TRI_POLICY].source;
  const tri_answers_opt o = {.set = t->reward,
                             .tokenizer = tri_source_tokenizer(source),
                             .end = tri_source_eos(source)->id,
                             .n_end = tri_source_eos(source)->n};
  int                  *vote = NULL, failed = tri_answers_failed(r, t->reward, tri_world_of(t)->rank == 0);
  tri_status            st = TRI_OK;

  all->failures += failed;
  of_set->failures += failed;
  TRI_TRY_DONE(TRI_ALLOC(vote, r->n_seq));
  if (has_figure(t, TRI_FIGURE_MAJORITY_K)) /* it alone counts them */
    TRI_TRY_DONE(tri_figures_vote(r, &o, vote));
  tri_figures_add(r, t->reward, vote, &all->figures);
  tri_figures_add(r, t->reward, vote, &of_set->figures);
done:
  TRI_FREE(vote);
  return st;
}

/* Lines of a set that are evaluated together. */
typedef struct piece {
  const tri_eval_set *set;
  int64_t             begin, n, before; /* positions; before: lines of the evaluation that are done */
} piece;

/* Collective over world. Held-out prompts, into the sums of all and of their set; none where the run is told
 * to stop. */
static tri_status evaluate_answers(tri_trainer *t, const piece *p, eval_sum *all, eval_sum *of_set) {
  int64_t     each = t->sampling.eval.group;
  tri_rollout r = {0};
  tri_status  st = TRI_OK;
  tri_ask     ask = {.data = t->eval_data,
                     .begin = p->begin,
                     .n = p->n,
                     .how = &t->sampling.eval,
                     .phase = "eval",
                     .before = p->before * each,
                     .all = t->plan.eval_prompts * each};

  TRI_TRY_DONE(tri_supply_ask(t, &ask, &r));
  if (tri_halt_decided(t->halt)) goto done;
  TRI_TRY_DONE(tri_report_eval_put(t, &r, p->set->name));
  st = tri_agree(tri_world_of(t), add_answers(t, &r, all, of_set));
done:
  tri_rollout_clear(&r);
  return st;
}

/* ---- by the loss ---- */

/* Collective over the parameter scope. One micro-batch as in learning, without it. */
static tri_status judge_micro(tri_trainer *t, const tri_rollout *r, const tri_split *sp, int i,
                              const double *weight, double survey, tri_tally *sum) {
  tri_learner *l = &t->learner[TRI_POLICY];
  tri_batch    b;
  tri_rows_out rows;
  tri_loss_in  in;
  tri_loss_out out;

  TRI_TRY(
      tri_batch_load(t->feed, r, sp->seq + sp->first[i], sp->first[i + 1] - sp->first[i], t->se->stream, &b));
  TRI_TRY(tri_model_forward(l->model, &b, false, t->sampling.inv_temperature, &rows, t->se->stream));
  TRI_TRY(tri_batch_fetch(t->feed, &rows, weight, t->se->stream, &in, &out));
  in.survey = survey;
  TRI_TRY(l->loss->compute(&t->opt, &in, &out));
  tri_tally_add(t, sum, TRI_POLICY, &out);
  return TRI_OK;
}

/* Collective over world. The next t->plan.samples held-out lines as one mini-batch; *loss: of this rank. */
static tri_status judge_lines(tri_trainer *t, int64_t begin, tri_tally *sum) {
  tri_rollout r = {0};
  tri_split   sp = {0};
  double     *weight = NULL, survey = 0;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_supply_lines(t, t->eval_data, begin, t->plan.samples, &r));
  TRI_TRY_DONE(tri_score_reference(t, &r));
  TRI_TRY_DONE(tri_learner_weigh(t, TRI_POLICY, &r, &weight));
  TRI_TRY_DONE(tri_score_survey(t, &r, 0, &survey));
  TRI_TRY_DONE(tri_step_split(t, &r, 0, &sp));
  for (int i = 0; i < sp.n_micro; i++) TRI_TRY_DONE(judge_micro(t, &r, &sp, i, weight, survey, sum));
done:
  tri_split_free(&sp);
  TRI_FREE(weight);
  tri_rollout_clear(&r);
  return st;
}

/* Collective over world. Held-out lines, into the sums of all and of their set: a step's plan, but for how
 * many. */
static tri_status evaluate_lines(tri_trainer *t, const piece *p, eval_sum *all, eval_sum *of_set) {
  tri_step_plan of_step = t->plan;
  tri_tally     some = {0};
  tri_status    st;

  t->plan.samples = p->n;
  t->plan.mini_batches = 1;
  t->plan.split.n = (int)tri_sequences(t, p->n);
  st = judge_lines(t, p->begin, &some);
  t->plan = of_step;
  TRI_TRY(st);
  tri_tally_join(&all->lines, TRI_POLICY, &some, (double)p->n / (double)t->plan.eval_prompts);
  tri_tally_join(&of_set->lines, TRI_POLICY, &some, (double)p->n / (double)p->set->n);
  return TRI_OK;
}

/* ---- either ---- */

static void report(tri_trainer *t, const char *prefix, const char *what, double value) {
  char name[TRI_METRIC_NAME_BYTES];

  snprintf(name, sizeof name, "%s%s", prefix, what);
  tri_metric_add(t->metrics, name, TRI_METRIC_RANK0, value);
}

static void report_answers(tri_trainer *t, const eval_sum *sum, const char *prefix) {
  for (tri_figure i = 0; i < TRI_FIGURE_COUNT; i++)
    if (has_figure(t, i)) report(t, prefix, tri_figure_name(i), tri_figure_mean(&sum->figures, i));
  if (sum->failures > 0) report(t, prefix, "reward_failures", sum->failures);
}

/* Collective over world. Under eval_, or the set's eval_NAME_. */
static tri_status report_sum(tri_trainer *t, const eval_sum *sum, const char *name) {
  char prefix[PREFIX_BYTES];

  put_prefix(name, prefix);
  if (tri_evaluates_by_loss(t)) return tri_report_loss(t, &t->learner[TRI_POLICY], &sum->lines, prefix);
  report_answers(t, sum, prefix);
  return name ? TRI_OK : tri_report_extras(t, prefix);
}

/* Collective over world. All of a set; less where the run is told to stop. */
static tri_status evaluate_set(tri_trainer *t, const tri_eval_set *set, int64_t before, eval_sum *all,
                               eval_sum *of_set) {
  for (int64_t at = 0; at < set->n && !tri_halt_decided(t->halt); at += t->plan.eval_at_once) {
    piece p = {set, set->begin + at, t->plan.eval_at_once, before + at};
    if (p.n > set->n - at) p.n = set->n - at;
    TRI_TRY((tri_evaluates_by_loss(t) ? evaluate_lines : evaluate_answers)(t, &p, all, of_set));
  }
  return TRI_OK;
}

tri_status tri_evaluate(tri_trainer *t) {
  const tri_eval_set *set = t->plan.eval;
  eval_sum            all = {.lines.updates = 1}, of_set[TRI_CONFIG_EVAL_SETS] = {0};
  int64_t             before = 0;
  tri_halt_cause      halt;

  TRI_TRY(tri_halt_ask(t->halt, &halt));
  if (!tri_evaluates_by_loss(t)) TRI_TRY(tri_report_eval_begin(t));
  for (int i = 0; i < t->plan.n_eval; before += set[i++].n) {
    of_set[i].lines.updates = 1;
    TRI_TRY(evaluate_set(t, &set[i], before, &all, &of_set[i]));
  }
  t->progress.eval_due = tri_halt_decided(t->halt) != TRI_HALT_NOT;
  if (t->progress.eval_due) tri_answers_file_drop(&t->sampling.eval_file);
  if (t->progress.eval_due) return TRI_OK;
  TRI_TRY(report_sum(t, &all, NULL));
  for (int i = 0; i < t->plan.n_eval; i++)
    if (set[i].name) TRI_TRY(report_sum(t, &of_set[i], set[i].name));
  tri_save_see(t);
  return tri_evaluates_by_loss(t) ? TRI_OK : tri_report_eval_end(t);
}
