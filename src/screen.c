/* screen.c - what a person sees: the start screen, a live line on a terminal, one table row per step, the
 * end. */
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_first(const tri_trainer *t) { return t->se->comm[TRI_WORLD]->rank == 0; }

/* The terminal, or NULL. Open MPI gives ranks a pipe for stderr and always a terminal for stdout, so under
 * mpirun there is no way to tell that somebody watches: the rows must do. */
static FILE *terminal(const tri_trainer *t) { return is_first(t) && isatty(STDERR_FILENO) ? stderr : NULL; }

/* The live line is redrawn in place; a row first wipes it. */
static void wipe(const tri_trainer *t) {
  FILE *to = terminal(t);

  if (!to) return;
  fputs("\r\033[K", to);
  fflush(to);
}

static const char *duration(double s, char out[32]) {
  if (!isfinite(s) || s < 0) s = 0;
  int64_t n = (int64_t)s;
  if (n >= 3600)
    snprintf(out, 32, "%lldh%02lldm", (long long)(n / 3600), (long long)(n / 60 % 60));
  else if (n >= 60)
    snprintf(out, 32, "%lldm%02llds", (long long)(n / 60), (long long)(n % 60));
  else
    snprintf(out, 32, "%llds", (long long)n);
  return out;
}

/* Collective over world. One line per node: which ranks, on which host. */
static tri_status print_ranks(const tri_trainer *t) {
  typedef struct place {
    int  node, local, rank;
    char host[64];
  } place;
  tri_status st;
  place      mine = {t->se->rt.node, t->se->rt.local_rank, t->se->rt.world_rank, {0}}, *all;
  size_t    *counts = NULL;
  void      *got = NULL;

  snprintf(mine.host, sizeof mine.host, "%s", t->se->rt.host);
  TRI_TRY(TRI_ALLOC(counts, t->se->rt.world_size));
  st = tri_host_gather_all(t->se->comm[TRI_WORLD], &mine, sizeof mine, &got, counts);
  all = got;
  for (int node = 0; st == TRI_OK && node < t->se->rt.nodes; node++) {
    tri_text line = {0};
    for (int i = 0; i < t->se->rt.world_size && st == TRI_OK; i++)
      if (all[i].node == node)
        st = line.len ? tri_text_printf(&line, " %d", all[i].rank)
                      : tri_text_printf(&line, "  node %d (%s): ranks %d", node, all[i].host, all[i].rank);
    if (node < 64 && line.data) tri_log(TRI_LOG_INFO, "%s", line.data);
    tri_text_free(&line);
  }
  TRI_FREE(got);
  TRI_FREE(counts);
  return st;
}

static int64_t parameters(const tri_trainer *t) {
  const tri_params_opt *o = tri_params_options(tri_model_params(t->policy));
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) n += tri_param_count(&o->unit[u].param[i]);
  return n;
}

tri_status tri_screen_start(const tri_trainer *t) {
  const tri_config      *c = t->cfg;
  const tri_runtime     *rt = &t->se->rt;
  const tri_model_shape *sh = tri_source_shape(t->source);
  tri_shard_plan         p = c->shard.scope;
  tri_text               table = {0};

  tri_log(TRI_LOG_INFO, "trireme " TRI_VERSION ": %s, %lld steps, output %s", t->algo->name,
          (long long)t->steps, c->run.output);
  tri_log(TRI_LOG_INFO,
          "ranks: %d on %d node%s (%s), data_parallel_size = %d; device %s%s%s, %d thread%s each; "
          "collectives: %s",
          rt->world_size, rt->nodes, rt->nodes == 1 ? "" : "s", rt->launcher, rt->world_size,
          t->se->device->ops->name, t->se->device->model[0] ? " " : "", t->se->device->model, t->se->threads,
          t->se->threads == 1 ? "" : "s", t->se->comm[TRI_WORLD]->ops->name);
  TRI_TRY(print_ranks(t));
  tri_log(TRI_LOG_INFO, "model: %s, %.2f M parameters, %d layers, width %d, vocabulary %d, computes in %s",
          sh->model_type, (double)parameters(t) / 1e6, sh->L, sh->C, sh->V,
          c->model.dtype == TRI_CONFIG_F32 ? "f32" : "bf16");
  tri_log(TRI_LOG_INFO, "shard plan: params %s, grads %s, optimizer %s", tri_shard_scope_name(p.params),
          tri_shard_scope_name(p.grads), tri_shard_scope_name(p.optim));
  tri_log(TRI_LOG_INFO, "%s", t->batch.equation);
  TRI_TRY(tri_ledger_print(t->se->ledger, &table));
  if (table.len) table.data[table.len - 1] = 0;
  tri_log_lines(TRI_LOG_INFO, table.data);
  tri_text_free(&table);
  if (t->algo->generates)
    tri_log(TRI_LOG_INFO, "%8s %8s %8s %8s %8s %8s %9s %8s %8s", "step", "reward", "loss", "gradnorm", "kl",
            "length", "gap", "tok/s", "eval");
  else
    tri_log(TRI_LOG_INFO, "%8s %8s %8s %10s %8s %8s", "step", "loss", "gradnorm", "lr", "tok/s", "eval");
  return TRI_OK;
}

void tri_screen_phase(const tri_trainer *t, const char *phase) {
  double  spent_s = tri_now_s() - t->start_s;
  int64_t done = t->count.step - t->first_step;
  FILE   *to = terminal(t);
  char    left[32], score[32] = "-", rate[32] = "-";

  if (!to) return;
  if (!isnan(t->shown_score)) snprintf(score, sizeof score, "%.4f", t->shown_score);
  if (!isnan(t->shown_rate)) snprintf(rate, sizeof rate, "%.0f", t->shown_rate);
  fprintf(to, "\r\033[Kstep %lld/%lld  %-8s  %s %s  %s tokens/s  %s left",
          (long long)(t->count.step < t->steps ? t->count.step + 1 : t->steps), (long long)t->steps, phase,
          t->algo->generates ? "reward" : "loss", score, rate,
          done ? duration(spent_s / (double)done * (double)(t->steps - t->count.step), left) : "?");
  fflush(to);
}

static const char *cell(const tri_trainer *t, const char *name, const char *fmt, char out[32]) {
  double x = tri_metric_get(t->metrics, name);

  if (isnan(x)) return snprintf(out, 32, "-"), out;
  snprintf(out, 32, fmt, x);
  return out;
}

void tri_screen_step(tri_trainer *t, int64_t step) {
  char        c[9][32];
  const char *eval = "eval_pass_at_1";

  if (!is_first(t)) return;
  t->shown_score = tri_metric_get(t->metrics, t->algo->generates ? "reward_mean" : "loss");
  t->shown_rate = tri_metric_get(t->metrics, "tokens_per_s");
  wipe(t);
  if (t->algo->generates)
    tri_log(TRI_LOG_INFO, "%8lld %8s %8s %8s %8s %8s %9s %8s %8s", (long long)step,
            cell(t, "reward_mean", "%.4f", c[0]), cell(t, "loss", "%.4f", c[1]),
            cell(t, "grad_norm", "%.3f", c[2]), cell(t, "kl_mean_nats", "%.4f", c[3]),
            cell(t, "response_length_mean_tokens", "%.1f", c[4]), cell(t, "sampler_gap_max_nats", "%g", c[5]),
            cell(t, "tokens_per_s", "%.0f", c[6]), cell(t, eval, "%.4f", c[7]));
  else
    tri_log(TRI_LOG_INFO, "%8lld %8s %8s %10s %8s %8s", (long long)step, cell(t, "loss", "%.4f", c[0]),
            cell(t, "grad_norm", "%.3f", c[1]), cell(t, "learning_rate", "%.3g", c[2]),
            cell(t, "tokens_per_s", "%.0f", c[3]), cell(t, eval, "%.4f", c[4]));
}

void tri_screen_halt(const tri_trainer *t, int64_t step) {
  if (!is_first(t)) return;
  wipe(t);
  tri_log(TRI_LOG_INFO, t->count.step < step ? "%s: step %lld is given up" : "%s: stopping after step %lld",
          tri_halt_words(t->halt), (long long)step);
}

void tri_screen_end(const tri_trainer *t, tri_train_end end) {
  char     latest[TRI_CKPT_PATH_BYTES + 16];
  char     spent[32];
  tri_text trace = {0};

  if (!is_first(t)) return;
  wipe(t);
  tri_log(TRI_LOG_INFO, "%s after %lld steps, %s",
          end == TRI_TRAIN_FINISHED ? "done" : "stopped, to be resumed", (long long)t->count.step,
          duration(tri_now_s() - t->start_s, spent));
  snprintf(latest, sizeof latest, "%s/LATEST", t->folder);
  if (!access(latest, F_OK)) tri_log(TRI_LOG_INFO, "  checkpoints  %s (newest: %s)", t->folder, latest);
  tri_log(TRI_LOG_INFO, "  metrics      %s/metrics.jsonl", t->cfg->run.output);
  if (t->timeline && tri_timeline_words(t->timeline, &trace) == TRI_OK && trace.len)
    tri_log(TRI_LOG_INFO, "  trace        %s", trace.data);
  tri_text_free(&trace);
  tri_log(TRI_LOG_INFO, "  deck as used %s/deck.yaml", t->cfg->run.output);
  if (end == TRI_TRAIN_FINISHED && !access(latest, F_OK))
    tri_log(TRI_LOG_INFO, "next: trireme generate %s \"...\"    or: trireme export %s FOLDER",
            t->cfg->run.output, t->cfg->run.output);
}
