/* plan_print.c - prints a plan on one screen of 80 x 24. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "base/host_memory.h"
#include "base/visible.h"
#include "family/family.h"
#include "plan.h"
#include "train/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCREEN_LINES = 23 };        /* a terminal has 24. The last one is the shell's */
enum { MOST_ROWS = 7, LEAST = 4 }; /* chosen. Rows of the memory table, as many as there is space for */

static const char *const where_word[] = {
    [TRI_MEM_DEVICE] = "device", [TRI_MEM_PINNED] = "pinned", [TRI_MEM_HOST] = "host"};

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

static tri_status put_rollout(const tri_plan *p, tri_text *out) {
  const tri_step_plan *plan = &p->t.plan;
  int                  models = p->se.rt.world_size / tri_ranks_of_model(&p->t);
  bool                 is_divided = tri_ranks_of_model(&p->t) > 1;
  char                 full[80] = "", who[48] = "a rank decodes", states[64] = "", each[TRI_CELL_BYTES];

  if (is_divided)
    snprintf(who, sizeof who, "%d model%s decode%s", models, plural(models), models > 1 ? "" : "s");
  if (plan->decode_full < plan->decode)
    snprintf(full, sizeof full, " %lld of full length (%lld tokens):", (long long)plan->decode_full,
             (long long)plan->max_tokens);
  tri_cell_bytes(plan->state_bytes, each);
  if (plan->states)
    snprintf(states, sizeof states, ", %lld state%s of %s", (long long)plan->states, plural(plan->states),
             each);
  TRI_LINE(out,
           "rollout: %lld sample%s = %lld prompt%s x %lld, %lld update%s; %s %lld at once,%s %lld "
           "tokens cached%s%s%s",
           (long long)plan->batch.rollout_samples, plural(plan->batch.rollout_samples),
           (long long)p->cfg.rollout.rollout_batch_size, plural(p->cfg.rollout.rollout_batch_size),
           (long long)p->cfg.algo.num_generations, (long long)plan->batch.steps_per_rollout,
           plural(plan->batch.steps_per_rollout), who, (long long)plan->decode, full, (long long)plan->cached,
           states, is_divided && models > 1 ? " each" : "", models > 1 ? ", prompts from a queue" : "");
  return TRI_OK;
}

static tri_status put_batch(const tri_plan *p, tri_text *out) {
  const tri_batch_plan *b = &p->t.plan.batch;
  int                   ranks = p->se.rt.world_size;

  if (b->micro_batch_size)
    TRI_LINE(out, "batch: train_batch_size %lld = micro_batch_size %lld x accumulation %lld x %d rank%s",
             (long long)b->train_batch_size, (long long)b->micro_batch_size,
             (long long)b->gradient_accumulation_steps, ranks, plural(ranks));
  else
    TRI_LINE(out, "batch: train_batch_size %lld, micro-batches of at most %lld tokens, on %d rank%s",
             (long long)b->train_batch_size, (long long)p->t.plan.packed, ranks, plural(ranks));
  if (p->t.plan.by_default && p->t.plan.packed)
    TRI_LINE(out, "  (default, as many tokens as fit. train.max_tokens_per_gpu sets another number)");
  return b->rollout_samples ? put_rollout(p, out) : TRI_OK;
}

static tri_status put_head(const tri_plan *p, tri_text *out) {
  const tri_model_shape *sh = tri_source_shape(p->t.learner[TRI_POLICY].source);
  double                 n = (double)tri_learner_size(&p->t.learner[TRI_POLICY]);
  const tri_plan_job    *j = &p->job;

  TRI_LINE(out, "%s on %d node%s x %d %s%s: %d rank%s; times from %s", p->t.algo->name, j->nodes,
           plural(j->nodes), j->per_node, j->gpu ? j->machine.name : "CPU rank",
           j->gpu ? "" : plural(j->per_node), p->se.rt.world_size, plural(p->se.rt.world_size), j->figures);
  TRI_LINE(out, "model: %s, %.2f %s parameters, %d layer%s of %d, vocabulary %d, %s", sh->family->model_type,
           n < 1e9 ? n / 1e6 : n / 1e9, n < 1e9 ? "M" : "G", sh->L, plural(sh->L), sh->C, sh->V,
           tri_dtype_word(p->cfg.model.dtype));
  TRI_LINE(out, "sharded: %s", p->spread);
  return put_batch(p, out);
}

/* ---- memory ---- */

/* A name with its bytes in each phase. */
typedef struct named {
  const char *name;
  tri_mem     kind;
  int64_t     phase[4], most;
  bool        shared;
} named;

static int by_most(const void *a, const void *b) {
  int64_t x = ((const named *)a)->most, y = ((const named *)b)->most;

  return (x < y) - (x > y);
}

static tri_status gather_lines(const tri_plan *p, named **out, int *n) {
  TRI_TRY(TRI_ALLOC(*out, p->n_row + 1));
  *n = 0;
  for (int i = 0; i < p->n_row; i++) {
    int k = 0;
    while (k < *n && ((*out)[k].kind != p->row[i].kind || strcmp((*out)[k].name, p->row[i].name))) k++;
    if (k == *n) (*out)[(*n)++] = (named){.name = p->row[i].name, .kind = p->row[i].kind};
    (*out)[k].phase[p->row[i].phase] += p->row[i].bytes;
    (*out)[k].shared |= p->row[i].shared;
  }
  for (int k = 0; k < *n; k++) {
    int64_t *b = (*out)[k].phase;
    (*out)[k].most = b[TRI_PHASE_ALWAYS] +
                     (b[TRI_PHASE_ROLLOUT] > b[TRI_PHASE_LEARN] ? b[TRI_PHASE_ROLLOUT] : b[TRI_PHASE_LEARN]);
  }
  qsort(*out, (size_t)*n, sizeof **out, by_most);
  return TRI_OK;
}

static tri_status put_bytes(tri_text *out, int64_t n) {
  char cell[TRI_CELL_BYTES];

  if (!n) return tri_text_printf(out, " %10s", "");
  tri_cell_bytes(n, cell);
  return tri_text_printf(out, " %10s", cell);
}

static tri_status put_line(tri_text *out, const char *name, const int64_t phase[4], const char *where) {
  TRI_TRY(tri_text_printf(out, "  %-31.31s", name));
  TRI_TRY(put_bytes(out, phase[TRI_PHASE_ALWAYS]));
  TRI_TRY(put_bytes(out, phase[TRI_PHASE_ROLLOUT]));
  TRI_TRY(put_bytes(out, phase[TRI_PHASE_LEARN]));
  return tri_text_printf(out, "%s%s\n", where[0] ? "  " : "", where);
}

/* Prints the total of a kind of memory. Each phase includes the memory that is always allocated. Totals that
 * are small beside the device's are left out. */
static tri_status put_total(const tri_plan *p, tri_mem kind, const char *name, tri_text *out) {
  int64_t always = tri_plan_bytes(p, kind, TRI_PHASE_ALWAYS),
          least = kind == TRI_MEM_DEVICE ? 0 : p->sum.device / 20;
  int64_t all[4] = {[TRI_PHASE_ROLLOUT] = always + tri_plan_bytes(p, kind, TRI_PHASE_ROLLOUT),
                    [TRI_PHASE_LEARN] = always + tri_plan_bytes(p, kind, TRI_PHASE_LEARN)};

  return all[TRI_PHASE_ROLLOUT] > least || all[TRI_PHASE_LEARN] > least
             ? put_line(out, name, all, where_word[kind])
             : TRI_OK;
}

static int lines_of(const tri_text *t) {
  int n = 0;

  for (size_t i = 0; i < t->len; i++) n += t->data[i] == '\n';
  return n;
}

static tri_status put_totals(const tri_plan *p, tri_text *out) {
  TRI_TRY(put_total(p, TRI_MEM_DEVICE, "total, with always", out));
  TRI_TRY(put_total(p, TRI_MEM_PINNED, "", out));
  TRI_TRY(put_total(p, TRI_MEM_HOST, "", out));
  return p->sum.overlaid ? tri_text_printf(out, "%s\n", TRI_LEDGER_TURNS) : TRI_OK;
}

/* Prints the memory table in so many lines. */
static tri_status put_memory(const tri_plan *p, int lines, tri_text *out) {
  named     *l = NULL;
  int        n = 0, shown;
  int64_t    rest[4] = {0};
  char       name[40];
  tri_text   totals = {0};
  tri_status st;

  TRI_TRY_DONE(gather_lines(p, &l, &n));
  TRI_TRY_DONE(put_totals(p, &totals));
  TRI_TRY_DONE(
      tri_text_printf(out, "memory of a rank %16s %10s %10s %10s\n", "", "always", "rollout", "learn"));
  shown = lines - 2 - lines_of(&totals);
  shown = shown < LEAST ? LEAST : shown > MOST_ROWS ? MOST_ROWS : shown;
  for (int i = 0; i < n && i < shown; i++) {
    snprintf(name, sizeof name, "%.28s%s", l[i].name, l[i].shared ? " *" : "");
    TRI_TRY_DONE(put_line(out, name, l[i].phase, where_word[l[i].kind]));
  }
  for (int i = shown; i < n; i++)
    for (int k = 0; k < 4; k++) rest[k] += l[i].phase[k];
  snprintf(name, sizeof name, "%d more row%s (--json)", n - shown, plural(n - shown));
  if (n > shown) TRI_TRY_DONE(put_line(out, name, rest, ""));
  if (totals.len) TRI_TRY_DONE(tri_text_put(out, totals.data, totals.len));
done:
  tri_text_free(&totals);
  TRI_FREE(l);
  return st;
}

/* ---- results ---- */

/* Returns how many checkpoints exist at once: those kept, the best one, and one being written. */
static int64_t checkpoints_kept(const tri_plan *p) {
  bool best = p->cfg.checkpoint.keep_best && p->cfg.eval.steps > 0;

  return p->cfg.checkpoint.save_total_limit + best + 1;
}

static bool disk_is_little(const tri_plan *p) {
  int64_t kept = p->checkpoint_bytes * checkpoints_kept(p);

  return (p->disk.free >= 0 && p->disk.free < kept) || (p->disk.quota >= 0 && p->disk.quota < kept);
}

static tri_status put_disk(const tri_plan *p, tri_text *out) {
  char bytes[TRI_CELL_BYTES], space[TRI_CELL_BYTES], quota[TRI_CELL_BYTES], folder[TRI_CKPT_PATH_BYTES];

  tri_cell_bytes(p->checkpoint_bytes, bytes);
  tri_cell_bytes(p->disk.free > 0 ? p->disk.free : 0, space);
  tri_cell_bytes(p->disk.quota > 0 ? p->disk.quota : 0, quota);
  TRI_LINE(out, "checkpoint: %s each, up to %lld; %s has %s free%s%s%s", bytes,
           (long long)checkpoints_kept(p), tri_screen_shown(p->cfg.run.output, 30, folder),
           p->disk.free < 0 ? "an unknown number" : space, p->disk.quota >= 0 ? ", quota leaves " : "",
           p->disk.quota >= 0 ? quota : "", disk_is_little(p) ? ": TOO LITTLE" : "");
  return TRI_OK;
}

static void seconds(double s, char out[TRI_CELL_BYTES]) {
  char cell[TRI_CELL_BYTES];

  if (s >= 600) {
    tri_cell_duration(s, out);
    return;
  }
  tri_cell_digits(s, 6, cell);
  snprintf(out, TRI_CELL_BYTES, "%.20s s", cell);
}

/* Prints "all 500 steps: about 12h30m, 100 GPU hours", as far as it is known. */
static tri_status put_whole(const tri_plan *p, const char *before, tri_text *out) {
  char   time[TRI_CELL_BYTES], hours[TRI_CELL_BYTES];
  double s = tri_plan_whole_s(p), gpu_hours = s / 3600 * p->se.rt.world_size;

  seconds(s, time);
  if (gpu_hours >= 1000)
    snprintf(hours, sizeof hours, "%.0f", gpu_hours);
  else
    tri_cell_digits(gpu_hours, 6, hours);
  return tri_text_printf(out, "%sall %lld step%s: about %s%s%s%s", before, (long long)p->t.plan.steps,
                         plural(p->t.plan.steps), time, p->job.gpu ? ", " : "", p->job.gpu ? hours : "",
                         p->job.gpu ? " GPU hours" : "");
}

/* Prints the steps in the walltime and the time of the whole run. */
static tri_status put_run(const tri_plan *p, tri_text *out) {
  int64_t    steps = p->t.plan.steps;
  tri_text   line = {0};
  tri_status st = TRI_OK;

  if (p->job.walltime_s > 0)
    TRI_TRY_DONE(tri_text_printf(&line, "steps in the walltime: about %lld", (long long)tri_plan_steps(p)));
  if (p->job.walltime_s > 0 && steps) TRI_TRY_DONE(tri_text_printf(&line, " of %lld", (long long)steps));
  if (steps) TRI_TRY_DONE(put_whole(p, line.len ? "; " : "", &line));
  if (line.len) TRI_TRY_DONE(tri_text_line(line.data, out));
done:
  tri_text_free(&line);
  return st;
}

static tri_status put_times(const tri_plan *p, tri_text *out) {
  char all[TRI_CELL_BYTES], rollout[TRI_CELL_BYTES], learn[TRI_CELL_BYTES], update[TRI_CELL_BYTES];

  seconds(p->time.all, all);
  seconds(p->time.rollout, rollout);
  seconds(p->time.learn, learn);
  seconds(p->time.update, update);
  TRI_LINE(out, "a step: about %s (rollout %s, learn %s, update %s)%s", all, rollout, learn, update,
           p->t.source->generates ? ", answers of full length" : "");
  return put_run(p, out);
}

/* Returns the host memory of a node: the plans of its ranks, and the memory they take beside them. */
static int64_t host_need(const tri_plan *p) { return p->host_bytes_per_node + p->host_beside_bytes; }

/* Prints the phase that needs too much, and its largest row. */
static tri_status put_excess(const tri_plan *p, tri_text *out) {
  tri_mem kind = TRI_MEM_DEVICE;
  int64_t rollout = tri_plan_bytes(p, kind, TRI_PHASE_ROLLOUT),
          learn = tri_plan_bytes(p, kind, TRI_PHASE_LEARN);
  tri_phase             worst = rollout > learn ? TRI_PHASE_ROLLOUT : TRI_PHASE_LEARN;
  const tri_ledger_row *most = NULL;
  char                  need[TRI_CELL_BYTES], space[TRI_CELL_BYTES], row[TRI_CELL_BYTES];
  bool                  device = p->job.gpu && p->sum.device > p->space_bytes;

  for (int i = 0; i < p->n_row; i++)
    if ((p->row[i].phase == worst || p->row[i].phase == TRI_PHASE_ALWAYS) &&
        (!device || p->row[i].kind == kind) && (!most || p->row[i].bytes > most->bytes))
      most = &p->row[i];
  tri_cell_bytes(device ? p->sum.device : host_need(p), need);
  tri_cell_bytes(device ? p->space_bytes : p->host_space_bytes, space);
  tri_cell_bytes(most ? most->bytes : 0, row);
  TRI_LINE(out, "DOES NOT FIT: %s needs %s of a %s, which has space for %s. Largest row: %s, %s",
           worst == TRI_PHASE_ROLLOUT ? "generating" : "learning", need, device ? "GPU" : "node's memory",
           space, most ? most->name : "", row);
  return TRI_OK;
}

static tri_status put_advice(const tri_advice *advice, int n, tri_text *out) {
  char cell[TRI_CELL_BYTES], step[TRI_CELL_BYTES];

  if (!n) {
    TRI_LINE(out, "no change of deck, nodes or GPUs was found with which the run fits");
    return TRI_OK;
  }
  TRI_LINE(out, "changes that fit, cheapest first (memory of a rank%s):",
           advice[0].step_s > 0 ? ", time of a step" : "");
  for (int i = 0; i < n; i++) {
    tri_text   line = {0};
    tri_status st = TRI_OK;
    tri_cell_bytes(advice[i].device_bytes, cell);
    for (int k = 0; k < advice[i].n && st == TRI_OK; k++)
      st = tri_text_printf(&line, "%s%s", k ? " " : "  ", advice[i].change[k]);
    seconds(advice[i].step_s, step);
    if (st == TRI_OK) st = tri_text_printf(&line, advice[i].step_s > 0 ? "  (%s, %s)" : "  (%s)", cell, step);
    if (st == TRI_OK) st = tri_text_line(line.data, out);
    tri_text_free(&line);
    TRI_TRY(st);
  }
  return TRI_OK;
}

/* Returns the reason why a run may fail although its memory fits, or NULL. */
static const char *obstacle(const tri_plan *p) {
  bool disk = disk_is_little(p), time = p->job.walltime_s > 0 && !tri_plan_steps(p);

  return disk && time ? "the checkpoints do not fit on the disk, and no step ends in the walltime"
         : disk       ? "the checkpoints do not fit on the disk"
         : time       ? "no step ends in the walltime"
                      : NULL;
}

static tri_status put_verdict(const tri_plan *p, tri_text *out) {
  char        need[TRI_CELL_BYTES], space[TRI_CELL_BYTES], host[TRI_CELL_BYTES], host_space[TRI_CELL_BYTES];
  const char *but = obstacle(p), *fits = but ? "MEMORY FITS" : "FITS";

  if (!p->fits) return put_excess(p, out);
  tri_cell_bytes(p->sum.device, need);
  tri_cell_bytes(p->space_bytes, space);
  tri_cell_bytes(p->host_bytes_per_node, host);
  tri_cell_bytes(p->host_space_bytes, host_space);
  if (!p->job.gpu)
    TRI_LINE(out, "%s: %s of the %s of a node", fits, host, host_space);
  else if (p->host_space_bytes)
    TRI_LINE(out, "%s: %s of %s of each GPU, and %s of the %s of a node", fits, need, space, host,
             host_space);
  else
    TRI_LINE(out, "%s: %s of %s of each GPU; a node must have %s of its own", fits, need, space, host);
  if (!but) return TRI_OK;
  TRI_LINE(out, "BUT %s", but);
  TRI_LINE(out, "exit code 0 nevertheless, because it covers memory only");
  return TRI_OK;
}

tri_status tri_plan_print(const tri_plan *p, const tri_advice *advice, int n, tri_text *out) {
  tri_text   rest = {0};
  tri_status st;

  TRI_TRY_DONE(put_head(p, out));
  TRI_TRY_DONE(put_disk(p, &rest));
  TRI_TRY_DONE(put_times(p, &rest));
  TRI_TRY_DONE(put_verdict(p, &rest));
  if (!p->fits) TRI_TRY_DONE(put_advice(advice, n, &rest));
  TRI_TRY_DONE(put_memory(p, SCREEN_LINES - lines_of(out) - lines_of(&rest), out));
  TRI_TRY_DONE(tri_text_put(out, rest.data, rest.len));
done:
  tri_text_free(&rest);
  return st;
}
