/* screen.c - what a person sees: the start screen, the live line on a terminal, the rows of steps, the
 * end. */
#include "base/columns.h"
#include "base/live.h"
#include "base/visible.h"
#include "comm/halt.h"
#include "family/family.h"
#include "report/timeline.h"
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_ROWS = 20, NODES_SHOWN = 3, PATH_COLUMNS = 60 }; /* chosen: all of it on a screen of 80 x 24 */

static bool is_first(const tri_trainer *t) { return t->se->comm[TRI_WORLD]->rank == 0; }

/* Visible, and at most `width` columns of it. */
static const char *shown(const char *text, int width, char out[TRI_CKPT_PATH_BYTES]) {
  char all[TRI_CKPT_PATH_BYTES * TRI_VISIBLE_MOST];

  tri_visible(text, strlen(text), "", all, sizeof all);
  tri_text_shorten(all, width, out, TRI_CKPT_PATH_BYTES);
  return out;
}

/* Log what was gathered in `text`, in lines that keep to the width in pipes and in the file too, and free
 * it. */
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

/* ---- the start screen ---- */

typedef struct place {
  int  node, local, rank;
  char host[64];
} place;

/* One line per node: on which host, which ranks. all [n]. The screen shows the first nodes, the file every
 * one. */
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
                                        shown(all[i].host, PATH_COLUMNS, host), all[i].rank);
    if (level == TRI_LOG_INFO &&
        line.len > TRI_SCREEN_COLUMNS) { /* many ranks: the line as a whole in the file */
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

/* One line for people, the table for those who want it. */
static tri_status say_memory(const tri_trainer *t) {
  tri_ledger_sum sum = tri_ledger_total(t->se->ledger);
  bool           large = sum.planned >= (int64_t)10 << 30;
  double         unit = large ? 0x1p30 : 0x1p20;
  tri_text       table = {0};
  tri_status     st = tri_ledger_print(t->se->ledger, &table);
  char           rollout[40] = ""; /* of a run that generates */

  if (st == TRI_OK) table.data[table.len - 1] = 0; /* its last newline */
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

  SAY("model: %s, %.2f %s parameters, %d layers, width %d, vocabulary %d, %s",
      shown(sh->family->model_type, PATH_COLUMNS, type), n < 1e9 ? n / 1e6 : n / 1e9, n < 1e9 ? "M" : "G",
      sh->L, sh->C, sh->V, t->cfg->model.dtype == TRI_F32 ? "f32" : "bf16");
  return TRI_OK;
}

/* The other models of the run, each with its plan where that is not the policy's. */
static tri_status say_others(const tri_trainer *t) {
  for (int i = 0; i < TRI_ROLE_COUNT; i++) {
    const tri_learner     *l = &t->learner[i];
    const tri_model_shape *sh = l->model ? tri_source_shape(l->source) : NULL;
    double                 n = l->model ? (double)tri_learner_size(l) : 0;
    tri_shard_plan         plan = tri_learner_plan(l, t->cfg);
    char                   own[64] = "", from[TRI_CKPT_PATH_BYTES];
    if (!sh || i == TRI_POLICY) continue;
    if (!tri_learner_trains(l) && plan.params != t->cfg->shard.scope.params)
      snprintf(own, sizeof own, ", params %s", tri_shard_scope_name(plan.params));
    else if (tri_learner_trains(l) && memcmp(&plan, &t->cfg->shard.scope, sizeof plan) != 0)
      snprintf(own, sizeof own, ", params %s, grads %s, optimizer %s", tri_shard_scope_name(plan.params),
               tri_shard_scope_name(plan.grads), tri_shard_scope_name(plan.optim));
    SAY("%s: %.2f %s parameters, %d layer%s, width %d%s, from %s", l->name, n < 1e9 ? n / 1e6 : n / 1e9,
        n < 1e9 ? "M" : "G", sh->L, plural(sh->L), sh->C, own,
        shown(tri_source_name(l->source), PATH_COLUMNS, from));
    if (i == TRI_CRITIC && t->learner[TRI_POLICY].rest_steps)
      SAY("    learns alone in the first %lld step%s", (long long)t->learner[TRI_POLICY].rest_steps,
          plural(t->learner[TRI_POLICY].rest_steps));
  }
  return TRI_OK;
}

static tri_status say_plan(const tri_trainer *t) {
  tri_shard_plan p = t->cfg->shard.scope;

  SAY("shard plan: params %s, grads %s, optimizer %s", tri_shard_scope_name(p.params),
      tri_shard_scope_name(p.grads), tri_shard_scope_name(p.optim));
  SAY("%s", t->plan.batch.equation);
  if (t->health.trend.selected)
    SAY("dynamic sampling: up to %lld extra batches a step replace groups of equal rewards; reward is of "
        "the groups kept",
        (long long)t->cfg->rollout.max_extra_batches);
  return TRI_OK;
}

/* The constants of the loss. */
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

/* What is added to the loss or changes it, each with a comma before it. */
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
  if (o->adapt.kl_target > 0) ADD(" (towards %g nats)", o->adapt.kl_target);
  if (o->entropy_coef > 0 || o->adapt.entropy_target > 0) ADD(", entropy %g", o->entropy_coef);
  if (o->adapt.entropy_target > 0) ADD(" (towards %g nats)", o->adapt.entropy_target);
  if (o->mask.top_entropy < 1) ADD(", top %g of entropies", o->mask.top_entropy);
  tri_config_word("algo.is_mode", o->is.mode, word[0]);
  if (o->is.cap > 0) ADD(", sampler corrected (%s at %g)", word[0], o->is.cap);
  if (o->mask.truncated) ADD(", cut answers left out");
#undef ADD
}

/* Of lines that are given: its options. */
static tri_status say_given_loss(const tri_trainer *t) {
  tri_text   options = {0};
  tri_status st = tri_config_put_options(t->cfg, t->algo->loss->option, &options);
  tri_text   said = {0};

  if (st == TRI_OK && options.len)
    st = say(TRI_LOG_INFO, &said, tri_text_printf(&said, "loss: %s (%s)", t->algo->loss->name, options.data));
  tri_text_free(&options);
  return st;
}

/* What is minimised: of one name two programs mean several formulas. */
static tri_status say_loss(const tri_trainer *t) {
  const tri_algo_opt *o = &t->cfg->algo.opt;
  char                constants[96], terms[384], scale[TRI_CONFIG_WORD_BYTES], how[64] = "";

  if (!t->algo->advantage) return say_given_loss(t);
  name_constants(t, constants, sizeof constants);
  name_terms(t, terms, sizeof terms);
  tri_config_word("algo.scale_rewards", o->scale_rewards, scale);
  if (tri_algo_reads(t->algo, "algo.scale_rewards")) snprintf(how, sizeof how, " (std %s)", scale);
  if (tri_algo_reads(t->algo, "algo.gamma")) snprintf(how, sizeof how, " (gamma %g)", o->gamma);
  if (tri_has_critic(t)) snprintf(how, sizeof how, " (gamma %g, lam %g)", o->gamma, o->critic.lam);
  SAY("loss: %s%s of %s%s advantages%s%s", t->algo->loss->name, constants,
      o->whiten_advantages ? "whitened " : "", t->algo->advantage->name, how, terms);
  return TRI_OK;
}

tri_status tri_screen_plan(const tri_trainer *t) {
  TRI_TRY(say_loss(t));
  TRI_TRY(say_model(t));
  TRI_TRY(say_others(t));
  TRI_TRY(say_plan(t));
  return say_memory(t);
}

tri_status tri_screen_start(tri_trainer *t) {
  const tri_runtime *rt = &t->se->rt;
  const tri_device  *d = t->se->device;
  char               output[TRI_CKPT_PATH_BYTES];

  SAY("trireme " TRI_VERSION ": %s, %lld step%s, output %s", t->algo->name, (long long)t->plan.steps,
      t->plan.steps == 1 ? "" : "s", shown(t->cfg->run.output, PATH_COLUMNS, output));
  SAY("ranks: %d on %d node%s (%s), data_parallel_size = %d; collectives: %s", rt->world_size, rt->nodes,
      plural(rt->nodes), rt->launcher, rt->world_size, t->se->comm[TRI_WORLD]->ops->name);
  SAY("device: %s%s%s, %d thread%s each", d->ops->name, d->model[0] ? " " : "", d->model, t->se->threads,
      plural(t->se->threads));
  TRI_TRY(print_ranks(t));
  return tri_screen_plan(t);
}

/* ---- steps ---- */

/* How long the rest will take, as the steps so far; NaN: not known yet. */
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

/* Draws the live line, at most 79 columns; what: the phase and how far it is. */
static bool draw_live(const tri_trainer *t, const char *what) {
  int64_t step = t->progress.step < t->plan.steps ? t->progress.step + 1 : t->plan.steps;
  char    at[TRI_CELL_BYTES], score[TRI_CELL_BYTES] = "-", rate[TRI_CELL_BYTES] = "-", left[TRI_CELL_BYTES],
                           line[160];

  tri_cell_steps(step, t->plan.steps, 10, at);
  if (!isnan(t->screen.score)) tri_cell_number(t->screen.score, 6, score);
  if (!isnan(t->screen.rate)) tri_cell_count(t->screen.rate, 6, rate);
  snprintf(line, sizeof line, "step %s  %-8s  %s %s  %s tok/s  %s left", at, what,
           tri_has_answers(t) ? "reward" : "loss", score, rate, duration(left_s(t, t->progress.step), left));
  return tri_live_draw(line);
}

void tri_screen_phase(tri_trainer *t, const char *phase) {
  int64_t step = t->progress.step < t->plan.steps ? t->progress.step + 1 : t->plan.steps;

  t->screen.answers = -1;
  if (!is_first(t)) return;
  if (draw_live(t, phase) || t->progress.step > t->progress.first_step || t->screen.rows > 0) return;
  /* Without a live line a long first step would look like none. */
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

/* Columns in the order of the rows; what they like and what they need; whether they are of sequences that are
 * given, answered, or preferred to others. ev: of the critic; cut: share of answers that were cut off;
 * eval, held: of held-out lines. */
static const struct {
  tri_column  column;
  int         use;
  const char *metric;
  void (*cell)(double x, int width, char out[TRI_CELL_BYTES]);
} rows[] = {
    {{"step", 0, 0}, ALL, NULL, NULL}, /* as wide as the number of steps wants, at least STEP_LEAST */
    {{"time", 6, 6}, ALL, NULL, NULL},
    {{"left", 6, 6}, ALL, NULL, NULL},
    {{"reward", 8, 6}, ANSWERS, "reward_mean", tri_cell_number},
    {{"loss", 8, 5}, ALL, "loss", tri_cell_number},
    {{"grad", 7, 5}, ALL, "grad_norm", tri_cell_number},
    {{"lr", 8, 6}, GIVEN | PREFERRED, "learning_rate", tri_cell_digits},
    {{"acc", 7, 6}, PREFERRED, "accuracy", tri_cell_number},
    {{"margin", 7, 6}, PREFERRED, "margin_mean", tri_cell_number},
    {{"ev", 6, 5}, ANSWERS, "explained_variance", tri_cell_number},
    {{"kl", 7, 5}, ANSWERS, "kl_mean_nats", tri_cell_number},
    {{"len", 6, 5}, ANSWERS, "response_length_mean_tokens", tri_cell_count},
    {{"cut", 5, 4}, ANSWERS, "truncated_ratio", tri_cell_share},
    {{"tok/s", 7, 5}, ALL, "tokens_per_s", tri_cell_count},
    {{"gap", 7, 5}, ANSWERS, "sampler_gap_max_nats", tri_cell_number},
    {{"pass@1", 7, 6}, GIVEN | ANSWERS, "eval_pass_at_1", tri_cell_number},
    {{"eval", 7, 6}, ANSWERS, "eval_reward_mean", tri_cell_number},
    {{"held", 7, 6}, PREFERRED, "eval_accuracy", tri_cell_number},
};
enum { N_ROWS = sizeof rows / sizeof *rows, STEP_LEAST = 10 };

static bool has_column(const tri_trainer *t, int i) {
  int  use = tri_has_answers(t) ? ANSWERS : tri_evaluates_by_loss(t) ? PREFERRED : GIVEN;
  bool unbounded = t->reward && !tri_reward_set_is_bounded(t->reward); /* then no answer is right or wrong */

  if (!(rows[i].use & use)) return false;
  if (!rows[i].metric) return true;
  if (!strcmp(rows[i].metric, "sampler_gap_max_nats")) return t->screen.gap;
  if (!strcmp(rows[i].metric, "explained_variance")) return tri_has_critic(t);
  if (!strcmp(rows[i].metric, unbounded ? "eval_pass_at_1" : "eval_reward_mean")) return false;
  return t->cfg->eval.steps > 0 || strncmp(rows[i].metric, "eval_", 5) != 0;
}

/* The columns of this run as they fit; of[k]: the row of `rows` of column k. Returns how many. */
static int fit_columns(const tri_trainer *t, tri_column column[N_ROWS], int of[N_ROWS]) {
  char steps[TRI_CELL_BYTES];
  int  n = 0, wide;

  for (int i = 0; i < N_ROWS; i++)
    if (has_column(t, i)) {
      column[n] = rows[i].column;
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

/* Whether run.log_every wants a row of the step: an evaluated one has always one, so has the last. */
static bool is_due(const tri_trainer *t, int64_t step) {
  int64_t every = t->cfg->run.log_every;

  return every <= 1 || step % every == 0 || step == t->plan.steps ||
         tri_metric_has(t->metrics, "eval_reward_mean") || tri_metric_has(t->metrics, "eval_accuracy");
}

/* The row of a step, made at its end; it may be shown later, when the run stops there. */
static void make_row(tri_trainer *t, int64_t step) {
  tri_column column[N_ROWS];
  int        of[N_ROWS], n = fit_columns(t, column, of), at = 0;
  char       cell[TRI_CELL_BYTES], *row = t->screen.row;

  for (int k = 0; k < n; k++) {
    put_cell(t, step, of[k], column[k].width, cell);
    at += snprintf(row + at, sizeof t->screen.row - (size_t)at, "%s%*s", k ? " " : "", column[k].width, cell);
  }
}

/* The row that was made last, unless it was shown. */
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

void tri_screen_step(tri_trainer *t, int64_t step) {
  double gap = tri_metric_get(t->metrics, "sampler_gap_max_nats");

  if (!is_first(t)) return;
  t->screen.score = tri_metric_get(t->metrics, tri_has_answers(t) ? "reward_mean" : "loss");
  t->screen.rate = tri_metric_get(t->metrics, "tokens_per_s");
  if (!t->screen.gap && tri_metric_has(t->metrics, "sampler_gap_max_nats") && gap != 0) {
    t->screen.gap = true; /* a new column, so a new header */
    t->screen.rows = 0;
  }
  make_row(t, step);
  if (is_due(t, step)) show_row(t);
}

/* ---- the end ---- */

/* A command to be typed next; where it is long, in two lines that a shell reads as one. */
static void say_next(const char *lead, const char *command, const char *output, const char *rest) {
  char       word[TRI_CKPT_PATH_BYTES];
  tri_text   program = {0}, folder = {0}, line = {0};
  tri_status st = tri_text_put_word(&program, shown(tri_program(), TRI_CKPT_PATH_BYTES, word));

  if (st == TRI_OK) st = tri_text_put_word(&folder, shown(output, TRI_CKPT_PATH_BYTES, word));
  if (st == TRI_OK) {
    size_t columns = strlen(lead) + program.len + strlen(command) + folder.len + strlen(rest) + 3;
    st = tri_text_printf(&line, columns <= TRI_SCREEN_COLUMNS ? "%s%s %s %s %s" : "%s%s %s \\\n      %s %s",
                         lead, program.data, command, folder.data, rest);
  }
  if (st == TRI_OK) tri_log_table(TRI_LOG_INFO, line.data);
  tri_text_free(&program);
  tri_text_free(&folder);
  tri_text_free(&line);
}

void tri_screen_halt(tri_trainer *t, int64_t step) {
  if (!is_first(t)) return;
  show_row(t);
  tri_log(TRI_LOG_INFO,
          t->progress.eval_due ? "%s: the evaluation after step %lld is given up; the resumed run makes it"
          : t->progress.step < step ? "%s: step %lld is given up"
                                    : "%s: stopping after step %lld",
          tri_halt_words(t->halt), (long long)step);
}

void tri_screen_idle(const tri_trainer *t, int64_t done) {
  tri_log(TRI_LOG_INFO,
          "nothing to do: the checkpoint is after step %lld, train.steps is %lld; more steps go on, "
          "run.resume: never or another run.output starts anew",
          (long long)done, (long long)t->plan.steps);
}

void tri_screen_end(const tri_trainer *t, tri_train_end end) {
  char        latest[TRI_CKPT_PATH_BYTES + 16], spent[TRI_CELL_BYTES];
  const char *output = t->cfg->run.output;
  tri_text    trace = {0};

  if (!is_first(t)) return;
  tri_live_draw(NULL);
  tri_log(TRI_LOG_INFO, "%s after %lld step%s, %s%s", end == TRI_TRAIN_FINISHED ? "done" : "stopped",
          (long long)t->progress.step, plural(t->progress.step),
          duration(tri_now_s() - t->progress.start_s, spent),
          end == TRI_TRAIN_FINISHED ? "" : "; to be resumed");
  snprintf(latest, sizeof latest, "%s/LATEST", t->run.folder);
  if (!access(latest, F_OK)) tri_log(TRI_LOG_INFO, "  checkpoints  %s", latest);
  tri_log(TRI_LOG_INFO, "  metrics      %s/metrics.jsonl", output);
  if (t->timeline && tri_timeline_words(t->timeline, &trace) == TRI_OK && trace.len)
    tri_log(TRI_LOG_INFO, "  trace        %s", trace.data);
  tri_text_free(&trace);
  tri_log(TRI_LOG_INFO, "  deck as used %s/deck.yaml", output);
  if (end != TRI_TRAIN_FINISHED || access(latest, F_OK)) return;
  if (t->learner[TRI_POLICY].head == TRI_HEAD_TOKENS) {
    say_next("next: ", "generate", output, "\"...\"");
    say_next("  or: ", "export", output, tri_has_critic(t) ? "FOLDER [--critic]" : "FOLDER");
  } else {
    say_next("next: ", "export", output, "FOLDER");
  }
}
