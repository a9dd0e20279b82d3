/* save.c - writes checkpoints of a run when they are due, also in the background, and keeps track of the best
 * one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "base/notice.h"
#include "comm/halt.h"
#include "report/runlog.h"
#include "report_step.h"
#include "run/patience.h"
#include "save.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PIECE = TRI_CKPT_PIECE_BYTES / 4 };

/* ---- content of a checkpoint ---- */

/* A tensor of a checkpoint, and its place in the trainer. */
typedef struct entry {
  tri_ckpt_tensor tensor;
  tri_params     *params; /* borrowed */
  tri_state_kind  kind;
  int             unit, param;
} entry;

typedef struct listing {
  entry           *e;
  tri_ckpt_tensor *tensor;
  int              n;
} listing;

/* Lists one kind of a store's state. Without f32 master weights the checkpoint keeps the store's own type. */
static void list_group(listing *l, tri_params *p, const char *group, tri_state_kind kind) {
  const tri_params_opt *o = tri_params_options(p);
  tri_dtype             stored = o->train ? TRI_F32 : o->dtype;

  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec *s = &o->unit[u].param[i];
      tri_ckpt_tensor       t = {group, s->name, stored, s->ndim, {s->dim[0], s->dim[1], s->dim[2]}};
      l->e[l->n] = (entry){t, p, kind, u, i};
      l->tensor[l->n++] = t;
    }
}

static void list_store(listing *l, tri_params *p, const char *const *group) {
  for (int kind = 0; kind < TRI_STATE_COUNT; kind++)
    if (tri_state_keeps(p, group, kind)) list_group(l, p, group[kind], (tri_state_kind)kind);
}

static int64_t count_params(const tri_params *p) {
  const tri_params_opt *o = tri_params_options(p);
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++) n += o->unit[u].n_param;
  return n;
}

static tri_status make_listing(tri_trainer *t, listing *l) {
  int64_t n = 0;

  *l = (listing){0};
  for (int i = 0; i < TRI_ROLE_COUNT; i++)
    if (t->learner[i].model) n += TRI_STATE_COUNT * count_params(tri_learner_params(&t->learner[i]));
  TRI_TRY(TRI_ALLOC(l->e, n));
  TRI_TRY(TRI_ALLOC(l->tensor, n));
  for (int i = 0; i < TRI_ROLE_COUNT; i++)
    if (t->learner[i].model) list_store(l, tri_learner_params(&t->learner[i]), t->learner[i].group);
  return TRI_OK;
}

static void free_listing(listing *l) {
  TRI_FREE(l->e);
  TRI_FREE(l->tensor);
}

tri_status tri_save_bytes(tri_trainer *t, int64_t *bytes) {
  listing    l = {0};
  tri_status st = make_listing(t, &l);

  *bytes = tri_state_side_bytes(t);
  for (int i = 0; st == TRI_OK && i < l.n; i++) {
    const tri_ckpt_tensor *e = &l.tensor[i];
    int64_t                n = 1;
    for (int d = 0; d < e->ndim; d++) n *= e->dim[d];
    *bytes += n * (int64_t)tri_dtype_bytes(e->dtype);
  }
  free_listing(&l);
  return st;
}

/* Returns the number of checkpoints that will certainly be written after step `from`. */
static int64_t count_sure(const tri_trainer *t, int64_t from) {
  const tri_config *c = t->cfg;
  int64_t           every = c->checkpoint.save_steps, last = t->plan.steps;
  int64_t           n = every > 0 ? last / every - from / every : 0;

  return n + (c->checkpoint.save_final && !(every > 0 && last % every == 0));
}

static int at_most(int64_t n, int most) { return n < most ? (int)n : most; }

/* Returns the metric that decides the best checkpoint, or NULL if none does. */
static const char *best_metric(const tri_trainer *t) {
  return t->cfg->eval.steps > 0 ? t->cfg->checkpoint.keep_best : NULL;
}

/* True if the deck asks for any checkpoint after step `from`. */
static bool wants_some(const tri_trainer *t, int64_t from) {
  return count_sure(t, from) > 0 || t->cfg->checkpoint.save_minutes > 0 || best_metric(t);
}

/* Returns the checkpoints that come on top of the existing ones if `limit` are kept. The oldest goes only
 * after a new one is written. */
static int count_more(int64_t limit, int there) { return limit + 1 > there ? (int)limit + 1 - there : 1; }

/* On rank 0, computes the disk space needed in the folder on top of its present content. */
static tri_status reckon_need(tri_trainer *t, int64_t from, tri_ckpt_need *need) {
  int     there = 0, more, more_of_1;
  int64_t sure = count_sure(t, from);
  bool    some = wants_some(t, from), best = best_metric(t);

  TRI_TRY(tri_save_bytes(t, &need->bytes));
  if (tri_run_is_own(&t->run)) TRI_TRY(tri_ckpt_count(t->run.folder, &there));
  more = count_more(t->cfg->checkpoint.save_total_limit, there);
  more_of_1 = count_more(1, there);
  /* state.h5, manifest, deck, the folder itself and others. */
  need->files = TRI_SOURCE_FILES + TRI_SIDECAR_FILES + 8;
  need->sure = at_most(sure, more);
  need->sure_of_1 = at_most(sure, more_of_1);
  need->most = some ? more + best : 0;
  need->most_of_1 = some ? more_of_1 + best : 0;
  return TRI_OK;
}

tri_status tri_save_rehearse(tri_trainer *t) {
  tri_comm     *world = t->se->pretended ? NULL : tri_world_of(t);
  bool          first = !world || world->rank == 0;
  tri_ckpt_need need = {0};
  int64_t       from = 0, bytes;
  tri_status    st = TRI_OK;

  if (t->run.resume[0]) from = tri_ckpt_step(tri_source_checkpoint(t->learner[TRI_POLICY].source));
  if (from >= t->plan.steps) return TRI_OK;
  if (first) st = reckon_need(t, from, &need);
  if (first && st == TRI_OK) st = tri_ckpt_check_space(t->run.folder, &need);
  if (!world) TRI_TRY(st);
  if (world) TRI_TRY(tri_agree(world, st));
  bytes = need.sure > 0 ? need.bytes : 0;
  if (world) TRI_TRY(tri_host_bcast(world, &bytes, sizeof bytes, 0));
  st = tri_ckpt_rehearse(t->run.folder, world, bytes);
  if (st == TRI_EFILE && !wants_some(t, from))
    tri_error_lines(
        "\nThe deck asks for no checkpoint, but the run writes one when it is stopped (STOP, a signal, the "
        "time limit) or ends with an error.");
  return st;
}

/* Returns the bytes of this rank's part of every tensor, in its pieces. */
static int64_t copy_space(const listing *l) {
  int64_t bytes = 0;

  for (int i = 0; i < l->n; i++) {
    const entry *e = &l->e[i];
    int64_t      count = tri_params_piece(e->params, e->unit, e->param).count;
    for (int64_t done = 0; done < count; done += PIECE)
      bytes += tri_ckpt_copy_bytes((count - done < PIECE ? count - done : PIECE) *
                                   (int64_t)tri_dtype_bytes(e->tensor.dtype));
  }
  return bytes;
}

/* Returns the host memory used while this many bytes are written. It holds data that waits for the disk, and
 * one piece on its way there. */
static size_t buffer_bytes(size_t bytes) {
  size_t ring = (size_t)tri_ckpt_ring_bytes(), piece = PIECE * sizeof(float);

  return (bytes < ring ? bytes : ring) + (bytes < piece ? bytes : piece);
}

tri_status tri_save_plan(tri_trainer *t) {
  tri_saving *s = &t->saving;
  listing     l = {0};
  tri_status  st;

  st = make_listing(t, &l);
  if (st == TRI_OK) s->bytes = (size_t)copy_space(&l);
  free_listing(&l);
  TRI_TRY(st);
  t->se->buffer_bytes +=
      buffer_bytes(s->bytes); /* for the last checkpoint, which is not written in the background */
  if (!t->cfg->checkpoint.async) s->bytes = 0;
  if (!t->cfg->checkpoint.async) return TRI_OK;
  return tri_ledger_add(t->se->ledger, TRI_MEM_PINNED, TRI_PHASE_ALWAYS, false, "checkpoint copy", s->bytes,
                        &s->space);
}

/* ---- saving ---- */

/* Narrows f32 values that are exact values of the 16-bit type t, in place. */
static void narrow(float *x, int64_t n, tri_dtype t) {
  char *to = (char *)x;

  for (int64_t i = 0; i < n; i++) {
    uint16_t h = tri_f32_to_half(t, x[i]);
    memcpy(to + 2 * i, &h, 2);
  }
}

/* Not collective, like tri_ckpt_take, so a rank that fails may go to tri_ckpt_abandon at once. Writes one
 * tensor in pieces. */
static tri_status write_entry(tri_trainer *t, tri_ckpt_writer *w, const entry *e, int index, float *buf) {
  tri_range piece = tri_params_piece(e->params, e->unit, e->param);
  bool      narrows = e->tensor.dtype != TRI_F32;

  for (int64_t done = 0; done < piece.count; done += PIECE) {
    int64_t at = piece.begin + done, n = piece.count - done < PIECE ? piece.count - done : PIECE;
    void   *host = buf;
    if (!narrows) TRI_TRY(tri_ckpt_take(w, index, at, n, &host));
    TRI_TRY(tri_params_read(e->params, e->kind, e->unit, e->param, at, n, host, t->se->stream));
    if (narrows) {
      narrow(buf, n, e->tensor.dtype);
      TRI_TRY(tri_ckpt_write(w, index, at, n, buf));
    } else
      TRI_TRY(tri_ckpt_give(w));
  }
  return TRI_OK;
}

static tri_status write_tensors(tri_trainer *t, tri_ckpt_writer *w, const listing *l) {
  float     *buf = NULL;
  tri_status st = tri_pages_alloc(PIECE * sizeof *buf, (void **)&buf);

  for (int i = 0; i < l->n && st == TRI_OK; i++) st = write_entry(t, w, &l->e[i], i, buf);
  tri_pages_free((void **)&buf);
  return st;
}

/* Warns of old checkpoints that could not be removed. They disturb nothing, so the run continues. */
static void warn_of_old(const tri_trainer *t, tri_status st) {
  if (st == TRI_OK) return;
  if (tri_world_of(t)->rank == 0)
    tri_warn("old_checkpoints_stay", "%s: old checkpoints could not be removed: %s", t->run.folder,
             tri_error_message());
  tri_error_clear();
}

void tri_save_end_sweep(tri_trainer *t) { warn_of_old(t, tri_ckpt_sweep_end(&t->saving.sweep)); }

/* Collective over world. Hands the whole state to a writer. The writer writes it at once, or with `behind`
 * copies it to write it in the background. */
static tri_status hand_over(tri_trainer *t, bool behind, tri_ckpt_writer **w) {
  const tri_saving *s = &t->saving;
  tri_status        st = TRI_OK;
  listing           l = {0};

  *w = NULL;
  tri_save_end_sweep(t); /* the removal frees space for this checkpoint */
  st = make_listing(t, &l);
  if (st == TRI_OK && tri_world_of(t)->rank == 0) st = tri_report_folder(t);
  /* A resumed run needs every metrics line up to its step. */
  if (st == TRI_OK) st = tri_metrics_flush(t->metrics);
  TRI_TRY_DONE(tri_agree(tri_world_of(t), st));
  TRI_TRY_DONE(tri_ckpt_create(t->run.folder, t->progress.step, tri_world_of(t), l.tensor, l.n,
                               tri_state_side_bytes(t), w));
  if (behind) tri_ckpt_lend(*w, s->space, s->bytes);
  TRI_TRY_DONE(write_tensors(t, *w, &l));
  TRI_TRY_DONE(tri_state_put(t, *w));
  if (behind) TRI_TRY_DONE(tri_ckpt_begin(*w));
done:
  if (st != TRI_OK) tri_ckpt_abandon(w);
  free_listing(&l);
  return st;
}

/* Collective over world. */
static void keep_newest(tri_trainer *t, int64_t step) {
  warn_of_old(t, tri_ckpt_retain(t->run.folder, (int)t->cfg->checkpoint.save_total_limit, step,
                                 tri_world_of(t), &t->saving.sweep));
}

/* Logs an event for a checkpoint, or for the reason of a failed one. */
static void note_save(tri_trainer *t, int64_t step, double seconds, const char *why) {
  int64_t bytes;

  if (tri_world_of(t)->rank == 0 && tri_save_bytes(t, &bytes) == TRI_OK)
    tri_runlog_save(t->runlog, step, bytes, seconds, why);
}

/* Counts a failed save. Reports it if the run continues. If `why` is not NULL, *why gets the reason instead.
 * An error that is not about files ends the run. */
static tri_status count_failed(tri_trainer *t, int64_t step, double spent_s, tri_status st, tri_text *why) {
  note_save(t, step, spent_s, tri_error_message());
  if (st != TRI_EFILE && st != TRI_EFORMAT) return st;
  t->progress.failed_saves++;
  if (why) {
    why->len = 0;
    st = tri_text_printf(why, "%s", tri_error_message());
  } else if (tri_world_of(t)->rank == 0)
    tri_warn("save_failed", "step %lld: the run continues without a checkpoint in %s: %s (%lld failed saves)",
             (long long)step, t->run.folder, tri_error_message(), (long long)t->progress.failed_saves);
  tri_error_clear();
  return why ? st : TRI_OK;
}

/* ---- the best one ---- */

/* Warns that BEST could not be changed for the checkpoint of this step. The run continues. */
static void warn_of_best(int64_t step) {
  tri_warn("best_stays", "step %lld: checkpoints/BEST keeps pointing to the previous checkpoint: %s",
           (long long)step, tri_error_message());
}

/* Collective over world. Makes BEST point to the checkpoint of this evaluation. If that fails, BEST keeps
 * pointing to the previous checkpoint, and that one stays the best. */
static void link_best(tri_trainer *t, const tri_best *b) {
  bool       first = tri_world_of(t)->rank == 0;
  tri_status st = tri_agree(tri_world_of(t), first ? tri_ckpt_point_best(t->run.folder, b->step) : TRI_OK);

  if (st == TRI_OK) t->progress.best = *b;
  if (st != TRI_OK && first) warn_of_best(b->step);
  if (st != TRI_OK) tri_error_clear();
}

/* Reports the checkpoint of this step if it is the best one. */
static void say_best(const tri_trainer *t, int64_t step) {
  const tri_best *b = &t->progress.best;

  if (b->step == step)
    tri_log_narrow(TRI_LOG_INFO, "step %lld: the best %s of any checkpoint, %g: checkpoints/BEST",
                   (long long)step, best_metric(t), b->value);
}

void tri_save_note_evaluation(tri_trainer *t) {
  if (best_metric(t))
    t->progress.seen = (tri_best){t->progress.step, tri_metric_get(t->metrics, best_metric(t))};
}

/* True if the step's evaluation beats all checkpoints, including one being written. Rank 0's answer
 * counts. */
static bool is_best(const tri_trainer *t) {
  const tri_progress *p = &t->progress;
  bool                coming = t->saving.w && t->saving.best.step >= 0;

  return best_metric(t) && p->seen.step == p->step &&
         tri_best_beats(best_metric(t), p->seen.value, coming ? &t->saving.best : &p->best);
}

static bool has_step(const void *folder, int64_t step) { return tri_ckpt_has_step(folder, step); }

/* On rank 0, does the work of tri_save_find_best. */
static tri_status find_best(tri_trainer *t) {
  char     path[TRI_CKPT_PATH_BYTES + 32];
  tri_best b;

  snprintf(path, sizeof path, "%s/metrics.jsonl", t->cfg->run.output);
  TRI_TRY(tri_best_find(path, best_metric(t), t->progress.step, has_step, t->run.folder, &b));
  t->progress.best = b;
  if (b.step < 0 || b.step == tri_ckpt_best(t->run.folder)) return TRI_OK;
  tri_log_narrow(TRI_LOG_INFO, "the best %s of any checkpoint is that of step %lld, %g: checkpoints/BEST",
                 best_metric(t), (long long)b.step, b.value);
  if (tri_ckpt_point_best(t->run.folder, b.step) == TRI_OK) return TRI_OK;
  warn_of_best(b.step);
  tri_error_clear();
  return TRI_OK;
}

tri_status tri_save_find_best(tri_trainer *t) {
  if (!best_metric(t) || !t->run.resume[0] || !tri_run_is_own(&t->run)) return TRI_OK;
  return tri_agree(tri_world_of(t), tri_world_of(t)->rank == 0 ? find_best(t) : TRI_OK);
}

/* ---- writing a checkpoint ---- */

static tri_span begin_save(tri_trainer *t) {
  return tri_span_begin(&t->spans, "save", TRI_SPAN_TIMED | TRI_SPAN_SHOWN);
}

/* Collective over world. Saves a checkpoint of the present state before anything else happens. With `best` it
 * becomes BEST. `why` is used as in count_failed. */
static tri_status save_now(tri_trainer *t, bool best, tri_text *why, bool *saved) {
  int64_t          step = t->progress.step;
  tri_ckpt_writer *w;
  tri_span         span = begin_save(t);
  tri_status       st = hand_over(t, false, &w);
  double           spent_s;

  if (st == TRI_OK) st = tri_ckpt_commit(&w);
  *saved = st == TRI_OK;
  t->progress.last_save_s = tri_now_s();
  if (!*saved) {
    spent_s = tri_span_end(&t->spans, &span); /* a failed save took time too */
    return count_failed(t, step, spent_s, st, why);
  }
  t->progress.saved_step = step;
  if (best) link_best(t, &t->progress.seen);
  keep_newest(t, step);
  spent_s = tri_span_end(&t->spans, &span);
  tri_pace_save(&t->pace, spent_s);
  tri_log(TRI_LOG_INFO, "step %lld: checkpoint written to %s (%.2f s)", (long long)step, t->run.folder,
          spent_s);
  note_save(t, step, spent_s, NULL);
  if (best) say_best(t, step);
  return TRI_OK;
}

/* ---- checkpoints that must be written ---- */

static void sleep_s(double s) { nanosleep(&(struct timespec){(time_t)s, (long)(1e9 * fmod(s, 1))}, NULL); }
static void (*idle_s)(double) = sleep_s;

void tri_save_idle_by(void (*rest)(double s)) { idle_s = rest ? rest : sleep_s; }

/* On rank 0, reports the error, its cure and the time of the next try. */
static tri_status say_again(const tri_trainer *t, const tri_text *why, int64_t bytes, double wait_s,
                            double until_s) {
  char    wait[TRI_CELL_BYTES], until[TRI_CELL_BYTES], need[TRI_CELL_BYTES], space[TRI_CELL_BYTES] = "?";
  int64_t free_bytes = tri_ckpt_free_bytes(t->run.folder);

  tri_cell_duration(wait_s, wait);
  tri_cell_duration(until_s - tri_now_s(), until);
  tri_cell_bytes(bytes, need);
  if (free_bytes >= 0) tri_cell_bytes(free_bytes, space);
  tri_warn("save_waits",
           "step %lld: no checkpoint could be written to %s: %s\n"
           "  It needs %s of disk, and %s are free. Free space or remove the named cause. The next try is in "
           "%s, and tries end after %s. A signal or %s/STOP ends the waiting and the run.",
           (long long)t->progress.step, t->run.folder, why->data, need, space, wait, until,
           t->cfg->run.output);
  return TRI_OK;
}

/* Collective over world. Waits until the next try is due, in rounds short enough to keep ranks together.
 * *asked is true if the user wants to end the run now. */
static tri_status wait_for_try(tri_trainer *t, double wait_s, bool *asked) {
  static const double round_s = 0.5; /* chosen. A user who creates STOP waits no longer than this */

  for (*asked = false; wait_s > 0 && !*asked; wait_s -= round_s) {
    idle_s(wait_s < round_s ? wait_s : round_s);
    if (tri_world_of(t)->rank == 0) *asked = tri_halt_is_asked_again(t->halt);
    TRI_TRY(tri_host_bcast(tri_world_of(t), asked, sizeof *asked, 0));
  }
  return TRI_OK;
}

/* Collective over world. Pauses before the next try. *again is false if there is none. */
static tri_status pause_before(tri_trainer *t, tri_patience *p, const tri_text *why, bool *again) {
  double     wait_s = tri_patience_next_s(p, tri_now_s());
  int64_t    bytes;
  bool       asked;
  tri_status st = TRI_OK;

  TRI_TRY(tri_agree(tri_world_of(t), tri_save_bytes(t, &bytes)));
  TRI_TRY(tri_host_bcast(tri_world_of(t), &wait_s, sizeof wait_s, 0));
  *again = wait_s >= 0;
  if (!*again) return TRI_OK;
  if (tri_world_of(t)->rank == 0) st = say_again(t, why, bytes, wait_s, p->until_s);
  TRI_TRY(tri_agree(tri_world_of(t), st));
  TRI_TRY(wait_for_try(t, wait_s, &asked));
  if (asked) p->until_s = 0; /* allows one more try */
  return TRI_OK;
}

/* Collective over world. Tries again and again as long as the allocation lasts, because otherwise all
 * progress since the last checkpoint would be lost. With `end` nothing follows. Without it this is the run's
 * first checkpoint, and the run does not continue until it is written. */
static tri_status insist(tri_trainer *t, bool best, bool end) {
  tri_patience p = tri_patience_begin(tri_now_s(), tri_halt_left_s(t->halt), t->pace.save_s, !end);
  tri_text     why = {0};
  bool         saved = false, again = true;
  tri_status   st = TRI_OK;

  tri_halt_enter(TRI_HALT_LEAVING);
  tri_halt_mark(t->halt);
  TRI_TRY_DONE(save_now(t, best, &why, &saved));
  while (!saved) {
    TRI_TRY_DONE(pause_before(t, &p, &why, &again));
    if (!again) break;
    TRI_TRY_DONE(save_now(t, best, &why, &saved));
  }
  t->saving.given_up = !saved;
  if (saved && !end) tri_halt_enter(TRI_HALT_STEPS);
  if (!saved)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE,
                  "%s: could not write the %s checkpoint, of step %lld: %s", t->run.folder,
                  end ? "last" : "first", (long long)t->progress.step, why.data);
done:
  tri_text_free(&why);
  return st;
}

/* True if this process has written any checkpoint. */
static bool is_proven(const tri_trainer *t) { return t->pace.saved; }

/* ---- writing in the background ---- */

/* Collective over world. Copies the state, to be written while the run continues. */
static tri_status save_behind(tri_trainer *t, bool best) {
  tri_saving *s = &t->saving;
  tri_span    span = begin_save(t);
  tri_status  st = hand_over(t, true, &s->w);

  t->progress.last_save_s = tri_now_s();
  if (st != TRI_OK) {
    double spent_s = tri_span_end(&t->spans, &span); /* a failed save took time too */
    TRI_TRY(count_failed(t, t->progress.step, spent_s, st, NULL));
    return is_proven(t) ? TRI_OK : insist(t, best, false);
  }
  s->step = t->progress.step;
  s->best = best ? t->progress.seen : (tri_best){-1, NAN};
  s->copy_s = tri_span_end(&t->spans, &span);
  t->pace.behind = true;
  return TRI_OK;
}

/* Collective over world. Publishes the checkpoint once it is written. */
static tri_status publish(tri_trainer *t) {
  tri_saving *s = &t->saving;
  tri_span    span = begin_save(t);
  double      from_s = tri_now_s(), beside_s = tri_ckpt_wait_s(s->w), spent_s;
  tri_status  st;

  beside_s = fmax(0, beside_s - (tri_now_s() - from_s)); /* the span counts the time of waiting */
  st = tri_ckpt_commit(&s->w);
  t->pace.behind = false;
  if (st != TRI_OK) {
    spent_s = tri_span_end(&t->spans, &span); /* a failed save took time too */
    TRI_TRY(count_failed(t, s->step, spent_s, st, NULL));
    return is_proven(t) ? TRI_OK : insist(t, false, false);
  }
  t->progress.saved_step = s->step;
  if (s->best.step >= 0) link_best(t, &s->best);
  keep_newest(t, s->step);
  spent_s = s->copy_s + tri_span_end(&t->spans, &span);
  tri_metric_time(t->metrics, "save_behind", beside_s);
  tri_pace_save(&t->pace, spent_s + beside_s);
  tri_log(TRI_LOG_INFO, "step %lld: checkpoint written to %s (%.2f s, %.1f s beside steps)",
          (long long)s->step, t->run.folder, spent_s, beside_s);
  note_save(t, s->step, spent_s + beside_s, NULL);
  if (s->best.step >= 0) say_best(t, s->step);
  return TRI_OK;
}

/* Collective over world. Publishes the checkpoint if every rank has written its part. With `wait` it waits
 * for that. */
static tri_status settle(tri_trainer *t, bool wait) {
  int64_t writing = !tri_ckpt_is_written(t->saving.w);

  TRI_TRY(tri_host_max(tri_world_of(t), &writing, 1));
  return writing && !wait ? TRI_OK : publish(t);
}

tri_status tri_save_settle(tri_trainer *t) { return t->saving.w ? settle(t, true) : TRI_OK; }

/* ---- due checkpoints ---- */

/* True if a checkpoint is due. Rank 0's clock counts. */
static bool is_due(const tri_trainer *t, bool stop, bool last) {
  const tri_progress *p = &t->progress;
  int64_t             every = t->cfg->checkpoint.save_steps;
  double              minutes = t->cfg->checkpoint.save_minutes;

  if (p->saved_step == p->step) return false;
  if (stop || (last && t->cfg->checkpoint.save_final)) return true;
  if (t->saving.w && t->saving.step == p->step) return false;
  return (every > 0 && p->step % every == 0) || (minutes > 0 && tri_now_s() - p->last_save_s >= 60 * minutes);
}

/* Collective over world. Makes BEST point to the checkpoint of this step, which was written before its
 * evaluation. */
static void link_best_again(tri_trainer *t) {
  link_best(t, &t->progress.seen);
  say_best(t, t->progress.step);
}

/* Collective over world. With `end` nothing follows, so the save is not in the background. */
static tri_status save(tri_trainer *t, bool best, bool end) {
  bool saved;

  if (t->cfg->checkpoint.async && !end) return save_behind(t, best);
  return end || !is_proven(t) ? insist(t, best, end) : save_now(t, best, NULL, &saved);
}

tri_status tri_save_if_due(tri_trainer *t, bool stop) {
  tri_progress *p = &t->progress;
  bool          last = p->step == t->plan.steps, end = stop || last;
  int64_t       due[2] = {is_due(t, stop, last), is_best(t)};

  TRI_TRY(tri_host_bcast(tri_world_of(t), due, sizeof due, 0));
  if (t->saving.w) TRI_TRY(settle(t, due[0] || due[1] || end));
  if (p->saved_step != p->step && (due[0] || due[1])) return save(t, due[1], end);
  if (due[1]) link_best_again(t);
  return TRI_OK;
}

tri_status tri_save_if_best(tri_trainer *t) {
  int64_t best = is_best(t);

  TRI_TRY(tri_host_bcast(tri_world_of(t), &best, sizeof best, 0));
  if (!best) return TRI_OK;
  if (t->progress.saved_step != t->progress.step) return save(t, true, false);
  link_best_again(t);
  return TRI_OK;
}
