/* report_step.c - reports a step. Adds learning, rollout, time and memory to the metrics, saves answers,
 * writes the step's line, and locates a loss that is not finite. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/folder.h"
#include "base/notice.h"
#include "comm/peers/rank_status.h"
#include "inputs.h"
#include "report/links.h"
#include "report/runlog.h"
#include "report_step.h"
#include "base/clock.h"
#include "score.h"
#include "screen.h"
#include "batch_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_means(tri_mean *to, const tri_mean *from) {
  for (int k = 0; k < TRI_ALGO_METRICS; k++) {
    to[k].sum += from[k].sum;
    to[k].of += from[k].of;
  }
}

/* Returns a loss's metric by name, or a mean of nothing if the loss has no such metric. */
static tri_mean metric_of(const tri_loss *l, const tri_mean *metric, const char *name) {
  for (int k = 0; l->metric[k]; k++)
    if (!strcmp(l->metric[k], name)) return metric[k];
  return (tri_mean){0, 0};
}

void tri_tally_add(const tri_trainer *t, tri_tally *sum, tri_role role, const tri_loss_out *out) {
  if (role == TRI_POLICY && tri_adapts_entropy(&t->opt)) {
    tri_mean m = metric_of(t->learner[role].loss, out->metric, "entropy_mean_nats");
    sum->entropy.sum += m.sum;
    sum->entropy.of += m.of;
  }
  sum->of[role].loss += out->loss;
  add_means(sum->of[role].metric, out->metric);
}

tri_status tri_tally_update(tri_trainer *t, tri_tally *sum) {
  double all[2] = {sum->entropy.sum, sum->entropy.of};

  sum->updates++;
  if (!tri_adapts_entropy(&t->opt) || !tri_learner_learns(&t->learner[TRI_POLICY], t->progress.step + 1))
    return TRI_OK;
  TRI_TRY(tri_host_sum(tri_world_of(t), all, 2));
  if (all[1] > 0) tri_adapt_entropy(&t->opt, &t->progress.adapt, all[0] / all[1]);
  sum->entropy = (tri_mean){0, 0};
  return TRI_OK;
}

/* ---- metrics ---- */

static void add(tri_trainer *t, const char *name, double value) {
  tri_health_see(&t->health, name, value);
  tri_metric_add(t->metrics, name, TRI_METRIC_RANK0, value);
}

/* Adds a metric named prefix and what, such as "critic_" and "grad_norm". */
static void add_under(tri_trainer *t, const char *prefix, const char *what, double value) {
  char name[TRI_METRIC_NAME_BYTES];

  snprintf(name, sizeof name, "%s%s", prefix, what);
  add(t, name, value);
}

/* Reports the adaptive coefficients. The KL coefficient is reported as this step used it, and then adapts for
 * the next step if the policy learned. `metric` is the policy's, over all ranks. */
static void report_coefficients(tri_trainer *t, const tri_mean *metric) {
  tri_mean kl = metric_of(t->learner[TRI_POLICY].loss, metric, "kl_mean_nats");

  if (tri_adapts_entropy(&t->opt)) add(t, "entropy_coef", t->progress.adapt.entropy_coef);
  if (!tri_adapts_kl(&t->opt)) return;
  add(t, "kl_coef", t->opt.kl_coef);
  if (kl.of > 0 && tri_learner_learns(&t->learner[TRI_POLICY], t->progress.step))
    tri_adapt_kl(&t->opt, kl.sum / kl.of, tri_sequences(t, t->plan.samples));
}

/* Collective over world. Reports a learner's loss and its metrics, summed over all ranks in rank order. Adds
 * gradient norm and learning rate if it learned. */
static tri_status report_loss(tri_trainer *t, const tri_learner *l, const tri_tally *sum) {
  tri_mean metric[TRI_ALGO_METRICS];
  /* Followed by sum and `of` of each metric. */
  double all[1 + 2 * TRI_ALGO_METRICS] = {sum->of[l - t->learner].loss};

  memcpy(&all[1], sum->of[l - t->learner].metric, sizeof metric);
  TRI_TRY(tri_host_sum(tri_world_of(t), all, sizeof all / sizeof *all));
  memcpy(metric, &all[1], sizeof metric);
  if (l->loss->settle) l->loss->settle(metric);
  add(t, l->loss_name, sum->updates ? all[0] / (double)sum->updates : 0);
  if (tri_learner_learns(l, t->progress.step)) {
    add_under(t, l->prefix, "grad_norm", l->grad_norm);
    add_under(t, l->prefix, "learning_rate", l->learning_rate);
  }
  for (int k = 0; l->loss->metric[k]; k++)
    if (metric[k].of > 0) add(t, l->loss->metric[k], metric[k].sum / metric[k].of);
  if (l == &t->learner[TRI_POLICY]) report_coefficients(t, metric);
  return TRI_OK;
}

/* Reports skipped updates, the ones among them that only lowered the loss scale, and the next loss scale. */
static void report_counters(tri_trainer *t, const tri_learner *l) {
  add_under(t, l->prefix, "skipped_steps", (double)l->counters.skipped);
  if (!l->counters.scale.adapts) return;
  add_under(t, l->prefix, "overflow_steps", (double)l->counters.scale.n_given);
  add_under(t, l->prefix, "loss_scale", l->counters.scale.value);
}

/* Collective over world. */
static tri_status report_learning(tri_trainer *t, const tri_tally *sum, const tri_gap *gap) {
  const tri_learner *l, *end = t->learner + TRI_ROLE_COUNT;

  for (l = t->learner; l < end; l++)
    if (tri_learner_trains(l)) TRI_TRY(report_loss(t, l, sum));
  if (tri_has_answers(t)) add(t, "sampler_gap_max_nats", gap->nats);
  for (l = t->learner; l < end; l++)
    if (tri_learner_trains(l)) report_counters(t, l);
  add(t, "failed_saves", (double)t->progress.failed_saves);
  return TRI_OK;
}

/* chosen. A line has space for 512 numbers, and evaluations of 16 sets take 192. */
enum { EXTRAS_IN_ALL = 96 };

/* Reports the mean of each reward, as reward_<name>_mean, if there are several. */
static void report_parts(tri_trainer *t, const tri_rollout *r) {
  for (int i = 0; r->n_reward > 1 && i < r->n_reward; i++) {
    char   name[TRI_METRIC_NAME_BYTES];
    double mean = 0;
    int    n = 0;
    for (int q = 0; q < r->n_seq; q++) {
      if (!tri_rollout_counts(r, q)) continue;
      mean += (double)r->part[(int64_t)q * r->n_reward + i];
      n++;
    }
    snprintf(name, sizeof name, "reward_%s_mean", tri_reward_set_name(t->reward, i));
    add(t, name, mean / n);
  }
}

tri_status tri_report_extras(tri_trainer *t, const char *prefix) {
  tri_reward_mean mean[TRI_EXTRAS_MOST];
  int             n, in_all = 0;

  for (int i = 0; t->reward && i < tri_reward_set_count(t->reward); i++) {
    TRI_TRY(tri_reward_set_extras(t->reward, i, tri_world_of(t), mean, &n));
    for (int k = 0; k < n && in_all < EXTRAS_IN_ALL; k++, in_all++) {
      char what[TRI_METRIC_NAME_BYTES];
      snprintf(what, sizeof what, "reward_%s_%s", tri_reward_set_name(t->reward, i), mean[k].name);
      add_under(t, prefix, what, mean[k].sum / mean[k].n);
    }
  }
  return TRI_OK;
}

/* Reports rewards and lengths of the answers. */
static void report_answers(tri_trainer *t, const tri_rollout *r) {
  double  mean = 0, square = 0, length = 0, baseline = 0;
  int     n = 0, failed;
  int64_t restarts;

  for (int q = 0; q < r->n_seq; q++) {
    if (!tri_rollout_counts(r, q)) continue;
    n++;
    mean += (double)r->reward[q];
    baseline += (double)r->baseline[q];
    length += (double)tri_rollout_drawn_tokens(r, q);
  }
  mean /= n;
  for (int q = 0; q < r->n_seq; q++)
    if (tri_rollout_counts(r, q)) square += ((double)r->reward[q] - mean) * ((double)r->reward[q] - mean);
  add(t, "reward_mean", mean);
  add(t, "reward_std", n > 1 ? sqrt(square / (n - 1)) : 0);
  if (r->group > 1) add(t, "zero_variance_ratio", tri_health_zero_variance(r));
  if (t->algo->advantage->reads & TRI_READS_GREEDY) add(t, "greedy_reward_mean", baseline / n);
  report_parts(t, r);
  failed = tri_answers_failed(r, t->reward, tri_world_of(t)->rank == 0);
  add(t, "reward_failures", tri_batch_source_selects(t) ? (double)t->sampling.failed : failed);
  if (t->reward && tri_reward_set_restarts(t->reward, &restarts))
    tri_metric_add(t->metrics, "reward_restarts", TRI_METRIC_SUM, (double)restarts);
  add(t, "response_length_mean_tokens", length / n);
  add(t, "truncated_ratio", tri_health_truncated(r));
}

/* Adds the alarms of the observed step to its line, if any. */
static void report_alarms(tri_trainer *t) {
  char words[256];

  tri_health_words(&t->health, words, sizeof words);
  if (words[0]) tri_metric_text(t->metrics, "alarms", words);
}

/* Returns the policy's gradient norm, or during its warm-up the one of the model that learns. */
static double grad_norm_of(const tri_trainer *t) {
  const tri_learner *l = t->learner;

  while (l < t->learner + TRI_ROLE_COUNT - 1 && !tri_learner_learns(l, t->progress.step)) l++;
  return l->grad_norm;
}

/* Reports the explained variance of the values before learning. */
static void report_critic(tri_trainer *t, const tri_rollout *r) {
  double explained = tri_explained_variance(r);

  if (!isnan(explained)) add(t, "explained_variance", explained);
}

/* Returns the number of tokens learned from. */
static int64_t tokens_of(const tri_trainer *t, const tri_rollout *r) {
  int64_t tokens = 0;

  for (int q = 0; q < tri_sequences(t, t->plan.samples); q++) tokens += tri_rollout_loss_tokens(r, q);
  return tokens;
}

void tri_report_begin(tri_trainer *t) {
  t->progress.waited_s = tri_rank_status_waited_s();
  tri_links_begin(t->se->comm);
}

/* Reports waiting and working time. Leaves them out on a GPU, where a rank waits in its queue instead. */
static void report_waits(tri_trainer *t, double spent_s) {
  double waited_s = tri_rank_status_waited_s() - t->progress.waited_s;

  if (t->se->rt.world_size == 1 || tri_device_is_gpu(t->se->device)) return;
  tri_metric_add(t->metrics, "time_wait_s", TRI_METRIC_MAX, waited_s);
  tri_metric_add(t->metrics, "time_work_s", TRI_METRIC_MAX, spent_s > waited_s ? spent_s - waited_s : 0);
}

tri_status tri_report_resources(tri_trainer *t, double began_s, int64_t tokens) {
  tri_ledger_sum mem = tri_ledger_total(t->se->ledger);
  tri_device    *d = t->se->device;
  size_t         bytes_free, bytes_total;
  double         spent_s = tri_now_s() - began_s;

  add(t, "time_unix_s", tri_unix_s());
  tri_metric_add(t->metrics, "time_step_s", TRI_METRIC_MAX, spent_s);
  report_waits(t, spent_s);
  add(t, "tokens_per_s", (double)tokens / spent_s);
  tri_metric_add(t->metrics, "mem_planned_bytes", TRI_METRIC_MAX, (double)mem.planned);
  tri_metric_add(t->metrics, "mem_used_bytes", TRI_METRIC_MAX, (double)mem.used);
  tri_metric_add(t->metrics, "mem_state_bytes", TRI_METRIC_MAX, (double)mem.state);
  tri_usage_report(&t->usage, t->metrics, t->se->rt.world_size);
  tri_links_report(t->se->comm, t->metrics);
  if (!tri_device_is_gpu(d)) return TRI_OK;
  TRI_TRY(d->ops->mem_info(d, &bytes_free, &bytes_total));
  tri_metric_add(t->metrics, "mem_gpu_planned_bytes", TRI_METRIC_MAX, (double)mem.device);
  tri_metric_add(t->metrics, "mem_gpu_used_bytes", TRI_METRIC_MAX, (double)(bytes_total - bytes_free));
  return TRI_OK;
}

/* ---- files of answers ---- */

/* True if answers of evaluations are saved, at the user's path or in OUTPUT/eval. */
static bool keeps_evaluations(const tri_trainer *t) { return t->cfg->eval.save || t->eval.path; }

static tri_status begin_file(const tri_trainer *t, const char *name, tri_answers_file *out) {
  char folder[TRI_CKPT_PATH_BYTES + 16], path[TRI_FILE_PATH_BYTES];

  snprintf(folder, sizeof folder, "%s/%s", t->cfg->run.output, name);
  TRI_TRY(tri_folder_make(folder));
  TRI_TRY(tri_rollout_file_path(folder, t->progress.step, path));
  return tri_answers_file_begin(path, out);
}

/* Collective over world. Spreads rank 0's status of a file. A file that cannot be written causes only a
 * warning. */
static tri_status agree_kept(tri_trainer *t, const char *what, tri_status st, tri_answers_file *f) {
  bool first = tri_world_of(t)->rank == 0;

  st = tri_agree(tri_world_of(t), st);
  if (st != TRI_OK) tri_answers_file_drop(f);
  if (t->eval.path) return st;                        /* the user asked for this file by name */
  if (st != TRI_EFILE && st != TRI_EINPUT) return st; /* TRI_EINPUT means an answer that cannot be decoded */
  if (first)
    tri_warn("answers_not_saved", "step %lld: the run continues without saving the %s: %s",
             (long long)t->progress.step, what, tri_error_message());
  tri_error_clear();
  return TRI_OK;
}

static bool is_file_due(const tri_trainer *t, int64_t step) {
  int64_t every = t->cfg->rollout.save_every;

  return tri_has_answers(t) && every > 0 && step % every == 0;
}

/* Collective over world. Rank 0 writes the rollout to a file. */
static tri_status save_rollout(tri_trainer *t, const tri_rollout *r) {
  const tri_answers_form form = {tri_source_tokenizer(t->learner[TRI_POLICY].source), t->data, t->reward,
                                 true, NULL};
  tri_answers_file       f = {0};
  tri_status             st = TRI_OK;

  if (tri_world_of(t)->rank == 0) {
    st = begin_file(t, "rollouts", &f);
    if (st == TRI_OK) st = tri_answers_file_put(&f, r, &form);
    if (st == TRI_OK) st = tri_answers_file_end(&f);
  }
  return agree_kept(t, "rollout", st, &f);
}

tri_status tri_report_eval_begin(tri_trainer *t) {
  tri_answers_file *f = &t->eval.file;
  tri_status        st = TRI_OK;

  if (!keeps_evaluations(t)) return TRI_OK;
  if (tri_world_of(t)->rank == 0)
    st = t->eval.path ? tri_answers_file_begin_new(t->eval.path, f) : begin_file(t, "eval", f);
  return agree_kept(t, "evaluation", st, f);
}

tri_status tri_report_eval_put(tri_trainer *t, const tri_rollout *r, const char *set) {
  const tri_answers_form form = {tri_source_tokenizer(t->learner[TRI_POLICY].source), t->eval.data, t->reward,
                                 false, set};
  bool                   writes = t->eval.file.file.open; /* on rank 0, as long as no write has failed */

  if (!keeps_evaluations(t)) return TRI_OK;
  return agree_kept(t, "evaluation", writes ? tri_answers_file_put(&t->eval.file, r, &form) : TRI_OK,
                    &t->eval.file);
}

tri_status tri_report_eval_end(tri_trainer *t) {
  bool writes = t->eval.file.file.open;

  if (!keeps_evaluations(t)) return TRI_OK;
  return agree_kept(t, "evaluation", writes ? tri_answers_file_end(&t->eval.file) : TRI_OK, &t->eval.file);
}

/* ---- a step ---- */

/* Returns a view of the sequences that statistics count. It leaves out fillers, unless there is nothing
 * else. */
static tri_rollout counted(const tri_rollout *r) {
  tri_rollout view = *r;

  if (tri_rollout_counted(r))
    view.n_seq = tri_rollout_counted(r);
  else
    view.masked = NULL; /* counts every sequence */
  return view;
}

tri_status tri_report_step(tri_trainer *t, tri_rollout *r, const tri_tally *sum, const tri_gap *gap) {
  int64_t     step = t->progress.step, tokens = tokens_of(t, r);
  tri_rollout view = counted(r);

  TRI_TRY(report_learning(t, sum, gap));
  t->progress.tokens += tokens;
  t->usage.tokens += tokens;
  add(t, "tokens", (double)tokens);
  if (tri_has_answers(t)) report_answers(t, &view);
  if (tri_has_answers(t)) TRI_TRY(tri_report_extras(t, ""));
  if (tri_has_critic(t)) report_critic(t, r);
  t->health.trend.lost = sum->lost;
  tri_health_observe(&t->health, tri_has_answers(t) ? &view : NULL, grad_norm_of(t));
  report_alarms(t);
  TRI_TRY(tri_report_resources(t, sum->began_s, tokens));
  if (!is_file_due(t, step)) return TRI_OK;
  TRI_TRY(tri_score_share_old(t, r));
  return save_rollout(t, r);
}

tri_status tri_report_folder(tri_trainer *t) {
  bool anew;

  TRI_TRY(tri_run_check_folder(&t->run, &anew));
  if (anew) tri_metrics_follow(t->metrics);
  if (anew) tri_runlog_follow(t->runlog);
  return TRI_OK;
}

/* On rank 0, checks the output folder. A moved folder is reported once, and metrics follow it. */
static void look_at_folder(tri_trainer *t) {
  bool said = t->run.is_moved;

  if (tri_report_folder(t) == TRI_OK) return;
  if (!said) tri_warn("folder_moved", "%s", tri_error_message());
  tri_error_clear();
}

tri_status tri_report_line(tri_trainer *t, int64_t step, bool again) {
  tri_status st;

  TRI_ASSERT(t->spans.n_open == 0);
  TRI_TRY(tri_metrics_reduce(t->metrics, tri_world_of(t)));
  tri_usage_add(&t->usage, t->metrics, t->se->rt.world_size);
  tri_screen_step(t, step);
  tri_runlog_step(t->runlog, step);
  if (!t->progress.eval_due)
    tri_runlog_eval(t->runlog, step, tri_metric_get(t->metrics, "time_eval_s"), t->metrics);
  tri_health_warn(&t->health, step, tri_world_of(t)->rank == 0);
  if (tri_world_of(t)->rank == 0) look_at_folder(t);
  st = tri_agree(tri_world_of(t), again                  ? tri_metrics_complete(t->metrics)
                                  : t->progress.eval_due ? tri_metrics_put_off(t->metrics, step)
                                                         : tri_metrics_write(t->metrics, step));
  if (st != TRI_EFILE) return st;
  if (tri_world_of(t)->rank == 0)
    tri_warn("metrics_wait", "step %lld: the run continues, but its metrics wait in memory: %s",
             (long long)step, tri_error_message());
  tri_error_clear();
  return TRI_OK;
}

/* ---- a loss that is not finite ---- */

tri_status tri_report_nonfinite(tri_trainer *t, const tri_learner *l, const tri_rollout *r, const int *seq,
                                const tri_batch *b, tri_status st) {
  tri_model_nonfinite f;
  char                where[256];

  if (st != TRI_ENUMERIC || !tri_learner_learns(l, t->progress.step + 1)) return st;
  if (tri_model_find_nonfinite(l->model, b, t->se->stream, &f) != TRI_OK || !f.unit) return st;
  snprintf(
      where, sizeof where,
      "step %lld: %s%s numbers have NaN or Inf from %s on, first at token %lld of answer %d to prompt_id "
      "%lld",
      (long long)t->progress.step + 1, l->name,
      t->cfg->model.dtype == TRI_F16 ? " in fp16 (65504 at most):" : ":", f.unit, (long long)f.token,
      (int)r->sample[seq[f.seq]], (long long)r->prompt_id[seq[f.seq]]);
  return tri_error_at(st, where);
}
