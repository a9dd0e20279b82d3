/* screen.c - prints the steps of a run, with a live line on a terminal, a row for each step, and the end. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "base/live.h"
#include "base/notice.h"
#include "comm/halt.h"
#include "metric/metric_names.h"
#include "report/links.h"
#include "report/runlog.h"
#include "report/timeline.h"
#include "screen.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/program.h"
#include "train_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_ROWS = 20 }; /* chosen to fit a screen of 80 x 24 */

static bool is_first(const tri_trainer *t) { return t->se->comm[TRI_WORLD]->rank == 0; }

/* ---- steps ---- */

/* Estimates the remaining seconds from the steps so far. NaN before the first one. */
static double left_s(const tri_trainer *t, int64_t step) {
  int64_t done = step - t->progress.first_step;
  double  began_s = t->screen.loop_s > 0 ? t->screen.loop_s : t->progress.start_s;

  return done > 0 ? (tri_now_s() - began_s) / (double)done * (double)(t->plan.steps - step) : NAN;
}

static const char *duration(double s, char out[TRI_CELL_BYTES]) {
  if (isnan(s)) return "-";
  tri_cell_duration(s, out);
  return out;
}

/* Draws the live line with at most 79 columns. `what` is the phase and its progress. */
static bool draw_live(const tri_trainer *t, const char *what) {
  int64_t step = t->progress.step < t->plan.steps ? t->progress.step + 1 : t->plan.steps;
  char    at[TRI_CELL_BYTES], score[TRI_CELL_BYTES] = "-", rate[TRI_CELL_BYTES] = "-", left[TRI_CELL_BYTES],
                           line[160];

  tri_cell_steps(step, t->plan.steps, 10, at);
  if (!isnan(t->screen.score)) tri_cell_number(t->screen.score, 6, score);
  if (!isnan(t->screen.rate)) tri_cell_count(t->screen.rate, 6, rate);
  snprintf(line, sizeof line, "step %s  %-8s  %s %s  %s %s  %s %s", at, what,
           tri_metric_word(tri_has_answers(t) ? "reward_mean" : "loss"), score, rate,
           tri_metric_word("tokens_per_s"), duration(left_s(t, t->progress.step), left),
           tri_metric_word("left_s"));
  return tri_live_draw(line);
}

void tri_screen_phase(tri_trainer *t, const char *phase) {
  int64_t step = t->progress.step < t->plan.steps ? t->progress.step + 1 : t->plan.steps;

  t->screen.answers = -1;
  if (!is_first(t)) return;
  if (t->progress.step == t->progress.first_step || t->progress.step == t->plan.steps)
    tri_runlog_state(t->runlog, phase, step, NULL, NULL); /* later steps have their lines instead */
  if (draw_live(t, phase) || t->progress.step > t->progress.first_step || t->screen.rows > 0) return;
  /* Without a live line nothing else would show during a long first step. */
  tri_log(TRI_LOG_INFO, "step %lld/%lld: %s ...", (long long)step, (long long)t->plan.steps, phase);
}

void tri_screen_answers(tri_trainer *t, const char *phase, int64_t done, int64_t all) {
  char count[TRI_CELL_BYTES], what[2 * TRI_CELL_BYTES];

  if (!is_first(t) || (t->screen.answers >= 0 && (done - t->screen.answers) * 100 < all)) return;
  t->screen.answers = done;
  tri_cell_steps(done, all, 11, count);
  snprintf(what, sizeof what, "%s %s%s", phase, t->se->rt.world_size > 1 ? "~" : "", count);
  (void)draw_live(t, what);
}

enum { GIVEN = 1, ANSWERS = 2, PREFERRED = 4, ALL = 7, STEP = 0, TIME = 1, LEFT = 2 };

/* Columns in the order of the rows, with width, least width, and the kinds of runs they belong to. Runs learn
 * from given sequences, from answers, or from preferences. The table of metrics gives the word above a
 * metric's column. */
static const struct {
  tri_column  column;
  int         use;
  const char *metric;
  void (*cell)(double x, int width, char out[TRI_CELL_BYTES]);
} rows[] = {
    {{"step", 0, 0}, ALL, NULL, NULL}, /* width follows the number of steps, from STEP_LEAST on */
    {{"time", 6, 6}, ALL, NULL, NULL},
    {{"left", 6, 6}, ALL, NULL, NULL},
    {{NULL, 8, 6}, ANSWERS, "reward_mean", tri_cell_number},
    {{NULL, 8, 5}, ALL, "loss", tri_cell_number},
    {{NULL, 7, 5}, ALL, "grad_norm", tri_cell_number},
    {{NULL, 8, 6}, GIVEN | PREFERRED, "learning_rate", tri_cell_digits},
    {{NULL, 7, 6}, PREFERRED, "accuracy", tri_cell_number},
    {{NULL, 7, 6}, PREFERRED, "margin_mean", tri_cell_number},
    {{NULL, 6, 5}, ANSWERS, "explained_variance", tri_cell_number},
    {{NULL, 7, 5}, ANSWERS, "kl_mean_nats", tri_cell_number},
    {{NULL, 6, 5}, ANSWERS, "response_length_mean_tokens", tri_cell_count},
    {{NULL, 5, 4}, ANSWERS, "truncated_ratio", tri_cell_share},
    {{NULL, 7, 5}, ALL, "tokens_per_s", tri_cell_count},
    {{NULL, 7, 5}, ANSWERS, "sampler_gap_max_nats", tri_cell_number},
    {{NULL, 5, 4}, GIVEN | ANSWERS, "eval_truncated_ratio", tri_cell_share},
    {{NULL, 7, 6}, GIVEN | ANSWERS, "eval_pass_at_1", tri_cell_number},
    {{NULL, 7, 6}, GIVEN | ANSWERS, "eval_reward_mean", tri_cell_number},
    {{NULL, 7, 6}, PREFERRED, "eval_accuracy", tri_cell_number},
    {{NULL, 7, 6}, GIVEN, "eval_loss", tri_cell_number},
};
enum { N_ROWS = sizeof rows / sizeof *rows, STEP_LEAST = 10 };

static bool has_column(const tri_trainer *t, int i) {
  int use = tri_has_answers(t) ? ANSWERS : t->algo->needs & TRI_NEEDS_PREFERENCES ? PREFERRED : GIVEN;
  /* Such rewards make no answer right or wrong. */
  bool unbounded = t->reward && !tri_reward_set_is_bounded(t->reward);

  if (i == LEFT && t->cfg->eval.steps > 0 && (t->screen.gap || tri_has_critic(t)))
    return false; /* too many columns otherwise, and the live line shows it too */
  if (!(rows[i].use & use) || !rows[i].metric) return rows[i].use & use;
  /* Too many columns otherwise. */
  if (!strcmp(rows[i].metric, "loss")) return !t->screen.gap || !tri_has_critic(t);
  if (!strcmp(rows[i].metric, "sampler_gap_max_nats")) return t->screen.gap;
  if (!strcmp(rows[i].metric, "explained_variance")) return tri_has_critic(t);
  if (!strcmp(rows[i].metric, unbounded ? "eval_pass_at_1" : "eval_reward_mean")) return false;
  if (!strcmp(rows[i].metric, "eval_loss")) return t->eval.lines;
  if (use == GIVEN && !strncmp(rows[i].metric, "eval_", 5)) return t->eval.data;
  return t->cfg->eval.steps > 0 || strncmp(rows[i].metric, "eval_", 5) != 0;
}

/* Sets the columns of this run as they fit, and their rows in `rows` in of[]. Returns their number. */
static int fit_columns(const tri_trainer *t, tri_column column[N_ROWS], int of[N_ROWS]) {
  char steps[TRI_CELL_BYTES];
  int  n = 0, wide;

  for (int i = 0; i < N_ROWS; i++)
    if (has_column(t, i)) {
      column[n] = rows[i].column;
      if (rows[i].metric) column[n].name = tri_metric_word(rows[i].metric);
      of[n++] = i;
    }
  wide = snprintf(steps, sizeof steps, "%lld/%lld", (long long)t->plan.steps, (long long)t->plan.steps);
  column[STEP].width = wide > 7 ? wide : 7;
  column[STEP].least = column[STEP].width < STEP_LEAST ? column[STEP].width : STEP_LEAST;
  tri_columns_fit(column, n, TRI_SCREEN_COLUMNS);
  return n;
}

static void put_cell(const tri_trainer *t, int64_t step, int row, int width, char out[TRI_CELL_BYTES]) {
  if (row == STEP)
    tri_cell_steps(step, t->plan.steps, width, out);
  else if (row == TIME)
    tri_cell_duration(tri_now_s() - t->progress.start_s, out);
  else if (row == LEFT && step > t->progress.first_step)
    tri_cell_duration(left_s(t, step), out);
  else if (rows[row].metric && tri_metric_has(t->metrics, rows[row].metric))
    rows[row].cell(tri_metric_get(t->metrics, rows[row].metric), width, out);
  else
    snprintf(out, TRI_CELL_BYTES, "-");
}

static bool was_evaluated(const tri_trainer *t) {
  return tri_metric_has(t->metrics, "eval_reward_mean") || tri_metric_has(t->metrics, "eval_loss");
}

/* True if the step gets a row by run.log_every. Evaluated steps and the last one always do. */
static bool is_due(const tri_trainer *t, int64_t step) {
  int64_t every = t->cfg->run.log_every;

  return every <= 1 || step % every == 0 || step == t->plan.steps || was_evaluated(t);
}

/* Makes the row of a step at its end. It may be shown later, if the run stops there. */
static void make_row(tri_trainer *t, int64_t step) {
  tri_column column[N_ROWS];
  int        of[N_ROWS], n = fit_columns(t, column, of), at = 0;
  char       cell[TRI_CELL_BYTES], *row = t->screen.row;

  for (int k = 0; k < n; k++) {
    put_cell(t, step, of[k], column[k].width, cell);
    at += snprintf(row + at, sizeof t->screen.row - (size_t)at, "%s%*s", k ? " " : "", column[k].width, cell);
  }
}

/* Shows the last row, unless it was shown already. */
static void show_row(tri_trainer *t) {
  tri_column column[N_ROWS];
  int        of[N_ROWS], n = fit_columns(t, column, of), at = 0;
  char       header[2 * TRI_SCREEN_COLUMNS];

  if (!t->screen.row[0]) return;
  for (int k = 0; k < n; k++)
    at += snprintf(header + at, sizeof header - (size_t)at, "%s%*s", k ? " " : "", column[k].width,
                   column[k].name);
  if (t->screen.rows++ % HEADER_ROWS == 0) tri_log(TRI_LOG_INFO, "%s", header);
  tri_log(TRI_LOG_INFO, "%s", t->screen.row);
  t->screen.row[0] = 0;
}

/* Prints for each evaluation set the number that the step's row shows for all of them. */
static void say_sets(const tri_trainer *t) {
  const char *what = t->algo->needs & TRI_NEEDS_PREFERENCES ? "accuracy"
                     : !t->eval.data                        ? "loss"
                     : tri_reward_set_is_bounded(t->reward) ? "pass_at_1"
                                                            : "reward_mean";
  tri_text    said = {0}, lines = {0};
  tri_status  st = tri_text_printf(&said, "  eval_*_%s:", what);

  for (int i = 0; i < t->plan.n_eval && st == TRI_OK; i++) {
    char name[TRI_METRIC_NAME_BYTES], cell[TRI_CELL_BYTES];
    snprintf(name, sizeof name, "eval_%s_%s", t->plan.eval[i].name, what);
    tri_cell_number(tri_metric_get(t->metrics, name), 8, cell);
    st = tri_text_printf(&said, " %s %s", t->plan.eval[i].name, cell);
    snprintf(name, sizeof name, "eval_%s_truncated_ratio", t->plan.eval[i].name);
    tri_cell_share(tri_metric_get(t->metrics, name), 5, cell);
    if (st == TRI_OK && tri_metric_has(t->metrics, name)) st = tri_text_printf(&said, " (cut %s)", cell);
    if (st == TRI_OK && i < t->plan.n_eval - 1) st = tri_text_put(&said, ",", 1);
  }
  if (st == TRI_OK) st = tri_text_wrap(said.data, TRI_SCREEN_COLUMNS, &lines);
  if (st == TRI_OK) tri_log_lines(TRI_LOG_INFO, lines.data);
  if (st != TRI_OK) tri_error_clear(); /* the metrics line has these numbers */
  tri_text_free(&said);
  tri_text_free(&lines);
}

void tri_screen_step(tri_trainer *t, int64_t step) {
  double gap = tri_metric_get(t->metrics, "sampler_gap_max_nats");

  if (!is_first(t)) return;
  t->screen.score = tri_metric_get(t->metrics, tri_has_answers(t) ? "reward_mean" : "loss");
  t->screen.rate = tri_metric_get(t->metrics, "tokens_per_s");
  if (!t->screen.gap && tri_metric_has(t->metrics, "sampler_gap_max_nats") && gap != 0) {
    t->screen.gap = true; /* a new column needs a new header */
    t->screen.rows = 0;
  }
  make_row(t, step);
  if (is_due(t, step)) show_row(t);
  if (t->plan.n_eval && t->plan.eval[0].name && was_evaluated(t)) say_sets(t);
}

/* ---- the end ---- */

/* Prints a command to type next. A long one is split into two lines that a shell reads as one. */
static void say_next(const char *lead, const char *command, const char *output, const char *rest) {
  char       word[TRI_CKPT_PATH_BYTES];
  tri_text   program = {0}, folder = {0}, line = {0};
  tri_status st = tri_text_put_word(&program, tri_screen_shown(tri_program(), TRI_CKPT_PATH_BYTES, word));

  if (st == TRI_OK) st = tri_text_put_word(&folder, tri_screen_shown(output, TRI_CKPT_PATH_BYTES, word));
  if (st == TRI_OK) {
    size_t columns = strlen(lead) + program.len + strlen(command) + folder.len + strlen(rest) + 3;
    st = tri_text_printf(&line, columns <= TRI_SCREEN_COLUMNS ? "%s%s %s %s%s%s" : "%s%s %s \\\n      %s%s%s",
                         lead, program.data, command, folder.data, *rest ? " " : "", rest);
  }
  if (st == TRI_OK) tri_log_table(TRI_LOG_INFO, line.data);
  tri_text_free(&program);
  tri_text_free(&folder);
  tri_text_free(&line);
}

void tri_screen_halt(tri_trainer *t, int64_t step) {
  if (!is_first(t)) return;
  show_row(t);
  tri_train_note_halt(t);
  tri_log(TRI_LOG_INFO,
          t->progress.eval_due
              ? "%s: the evaluation after step %lld is given up, and the resumed run repeats it"
          : t->progress.step < step ? "%s: step %lld is given up"
                                    : "%s: stopping after step %lld",
          tri_halt_words(t->halt), (long long)step);
}

void tri_screen_idle(const tri_trainer *t, int64_t done) {
  tri_log(TRI_LOG_INFO,
          "nothing to do: the checkpoint is after step %lld, and train.steps is %lld. Raise train.steps to "
          "continue. Give run.resume: never or another run.output to start anew.",
          (long long)done, (long long)t->plan.steps);
}

/* Prints the hours and energy of the run, and their phases. */
static void say_usage(const tri_trainer *t) {
  const tri_usage *u = &t->usage;
  int              ranks = t->se->rt.world_size, gpus = tri_device_is_gpu(t->se->device) ? ranks : 0;
  tri_text         used = {0}, time = {0};
  double           now_s = tri_now_s();

  if (tri_usage_words(u, now_s, gpus, ranks * t->se->threads, &used) == TRI_OK &&
      tri_usage_time_words(u, now_s, &time) == TRI_OK) {
    tri_log(TRI_LOG_INFO, "  used         %s, %lld tokens learned%s", used.data, (long long)u->tokens,
            t->run.resume[0] ? " (since this start)" : "");
    tri_log(TRI_LOG_INFO, "  time         %s", time.data);
  }
  tri_text_free(&used);
  tri_text_free(&time);
}

/* Prints the traffic of the communicators, from all [ranks * TRI_SCOPE_COUNT]. */
static tri_status say_links(const tri_trainer *t, const tri_link_seen *all) {
  tri_link_row        row[TRI_SCOPE_COUNT];
  const tri_link_row *slow;
  tri_machine         m;
  bool                measured;
  tri_text            table = {0}, warning = {0};
  tri_status          st = TRI_OK;
  int                 n;

  TRI_TRY(tri_links_machine(t->se->device, t->se->threads, &m, &measured));
  n = tri_links_rows(all, t->se->rt.world_size, t->se->rt.nodes, t->se->place.tensor, &m, row);
  if (n == 0) return TRI_OK;
  TRI_TRY_DONE(tri_text_printf(&table, "  traffic      "));
  TRI_TRY_DONE(tri_links_words(row, n, measured, &table));
  tri_log_table(TRI_LOG_INFO, table.data);
  /* Without a step, the communicators only loaded weights once, and their speed says little. */
  slow = t->progress.step > t->progress.first_step ? tri_links_slow(row, n) : NULL;
  if (slow) TRI_TRY_DONE(tri_links_warning(slow, measured, &warning));
  if (slow) tri_warn("slow_link", "%s", warning.data);
done:
  tri_text_free(&table);
  tri_text_free(&warning);
  return st;
}

/* Repeats warnings whose cause the last steps still had. Their first report may be screens away. */
static void say_open(const tri_trainer *t) {
  tri_health open = t->health;
  char       text[TRI_HEALTH_WARNING];

  if (t->progress.step <= t->progress.first_step) return;
  for (open.said = 0; tri_health_next(&open, text, sizeof text);)
    tri_log_narrow(TRI_LOG_INFO, "still so at the end: %s", text);
}

static void say_end(const tri_trainer *t, tri_train_end end, const tri_link_seen *all) {
  char        latest[TRI_CKPT_PATH_BYTES + 16], spent[TRI_CELL_BYTES];
  const char *output = t->cfg->run.output;
  tri_text    trace = {0};

  /* tri_screen_idle has already printed the end of a start without a step */
  bool idle = end == TRI_TRAIN_FINISHED && t->progress.first_step >= t->plan.steps;

  tri_live_draw(NULL);
  if (!idle)
    tri_log(TRI_LOG_INFO, "%s after %lld step%s, %s%s", end == TRI_TRAIN_FINISHED ? "done" : "stopped",
            (long long)t->progress.step, t->progress.step == 1 ? "" : "s",
            duration(tri_now_s() - t->progress.start_s, spent),
            end == TRI_TRAIN_FINISHED ? "" : ", to be resumed");
  say_open(t);
  snprintf(latest, sizeof latest, "%s/LATEST", t->run.folder);
  if (!access(latest, F_OK)) tri_log(TRI_LOG_INFO, "  checkpoints  %s", latest);
  if (t->progress.best.step >= 0 && tri_ckpt_best(t->run.folder) == t->progress.best.step)
    tri_log(TRI_LOG_INFO, "  best         %s/BEST (step %lld, %s %g)", t->run.folder,
            (long long)t->progress.best.step, t->cfg->checkpoint.keep_best, t->progress.best.value);
  if (t->progress.failed_saves)
    tri_warn("failed_saves", "%lld checkpoint%s could not be written", (long long)t->progress.failed_saves,
             t->progress.failed_saves == 1 ? "" : "s");
  tri_log(TRI_LOG_INFO, "  metrics      %s/metrics.jsonl", output);
  if (t->cfg->run.tensorboard) tri_log(TRI_LOG_INFO, "  tensorboard  --logdir %s/tensorboard", output);
  if (t->timeline && tri_timeline_words(t->timeline, &trace) == TRI_OK && trace.len)
    tri_log(TRI_LOG_INFO, "  trace        %s", trace.data);
  tri_text_free(&trace);
  say_usage(t);
  if (say_links(t, all) != TRI_OK) { /* the run still counts as done */
    tri_log(TRI_LOG_WARN, "%s", tri_error_message());
    tri_error_clear();
  }
  tri_log(TRI_LOG_INFO, "  deck as used %s/deck.yaml", output);
  if (access(latest, F_OK)) return;
  if (end == TRI_TRAIN_IN_VAIN) return;
  if (end != TRI_TRAIN_FINISHED) {
    snprintf(latest, sizeof latest, "%s/deck.yaml", output);
    say_next("next: as it was started, or ", "train", latest, "");
  } else if (t->learner[TRI_POLICY].head == TRI_HEAD_TOKENS) {
    say_next("next: ", "generate", output, "\"...\"");
    say_next("  or: ", "export", output, tri_has_critic(t) ? "FOLDER [--critic]" : "FOLDER");
  } else {
    say_next("next: ", "export", output, "FOLDER");
  }
}

tri_status tri_screen_end(const tri_trainer *t, tri_train_end end) {
  tri_link_seen *all = NULL;
  tri_status     st = tri_links_gather(t->se->comm, &all);

  if (st == TRI_OK && is_first(t)) say_end(t, end, all);
  TRI_FREE(all);
  return st;
}
