/* state.c - the run's state: started from a model, saved as a checkpoint, resumed from one. */
#include "train.h"

#include "base/file.h"
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 }; /* chosen: 4 MiB of host memory while saving */

static tri_comm *world_of(const tri_trainer *t) { return t->se->comm[TRI_WORLD]; }

/* ---- saving ---- */

/* Every tensor of a checkpoint, with where it lives. */
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

static void list_group(listing *l, tri_params *p, const char *group, tri_state_kind kind, tri_dtype stored) {
  const tri_params_opt *o = tri_params_options(p);

  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec *s = &o->unit[u].param[i];
      tri_ckpt_tensor       t = {group, s->name, stored, s->ndim, {s->dim[0], s->dim[1]}};
      l->e[l->n] = (entry){t, p, kind, u, i};
      l->tensor[l->n++] = t;
    }
}

static tri_status make_listing(tri_trainer *t, listing *l) {
  tri_params *p = tri_model_params(t->policy), *r = t->ref ? tri_model_params(t->ref) : NULL;
  int         n = 3 * tri_params_options(p)->n_unit + (r ? tri_params_options(r)->n_unit : 0);

  *l = (listing){0};
  TRI_TRY(TRI_ALLOC(l->e, n * TRI_UNIT_PARAMS));
  TRI_TRY(TRI_ALLOC(l->tensor, n * TRI_UNIT_PARAMS));
  list_group(l, p, "/model", TRI_STATE_WEIGHT, TRI_F32);
  list_group(l, p, "/optimizer/exp_avg", TRI_STATE_EXP_AVG, TRI_F32);
  list_group(l, p, "/optimizer/exp_avg_sq", TRI_STATE_EXP_AVG_SQ, TRI_F32);
  /* A resumed run needs the same reference without the first model's folder. */
  if (r) list_group(l, r, "/reference", TRI_STATE_WEIGHT, tri_params_options(r)->dtype);
  return TRI_OK;
}

static void free_listing(listing *l) {
  TRI_FREE(l->e);
  TRI_FREE(l->tensor);
}

/* Narrow f32 values that are exactly bf16 values. */
static void to_bf16(float *x, int64_t n) {
  char *to = (char *)x;

  for (int64_t i = 0; i < n; i++) {
    uint16_t h = tri_f32_to_bf16(x[i]);
    memcpy(to + 2 * i, &h, 2);
  }
}

/* Not collective, like tri_ckpt_write: a rank that fails may leave for abandon at once. One tensor, in pieces
 * that fit buf. */
static tri_status write_entry(tri_trainer *t, tri_ckpt_writer *w, const entry *e, int index, float *buf) {
  tri_range piece = tri_params_piece(e->params, e->unit, e->param);

  for (int64_t done = 0; done < piece.count; done += PIECE) {
    int64_t n = piece.count - done < PIECE ? piece.count - done : PIECE;
    TRI_TRY(
        tri_params_read(e->params, e->kind, e->unit, e->param, piece.begin + done, n, buf, t->se->stream));
    if (e->tensor.dtype == TRI_BF16) to_bf16(buf, n);
    TRI_TRY(tri_ckpt_write(w, index, piece.begin + done, n, buf));
  }
  return TRI_OK;
}

/* Rank 0's: relative paths of the deck are meant from there. */
static tri_status put_start_folder(tri_trainer *t, tri_ckpt_writer *w) {
  char folder[TRI_CKPT_PATH_BYTES] = "";

  if (world_of(t)->rank == 0 && !getcwd(folder, sizeof folder))
    folder[0] = 0; /* too long, or gone: not kept */
  TRI_TRY(tri_host_bcast(world_of(t), folder, sizeof folder, 0));
  return folder[0] ? tri_ckpt_put_text(w, "start_folder", folder) : TRI_OK;
}

static tri_status put_counters(tri_trainer *t, tri_ckpt_writer *w) {
  TRI_TRY(tri_ckpt_put_i64(w, "step", t->count.step));
  TRI_TRY(tri_ckpt_put_i64(w, "update", t->count.update));
  TRI_TRY(tri_ckpt_put_i64(w, "skipped_steps", t->count.skipped_steps));
  TRI_TRY(tri_ckpt_put_i64(w, "failed_saves", t->count.failed_saves));
  TRI_TRY(tri_ckpt_put_i64(w, "tokens", t->count.tokens));
  TRI_TRY(tri_ckpt_put_i64(w, "prompt_cursor", t->count.cursor));
  TRI_TRY(tri_ckpt_put_i64(w, "ranks", world_of(t)->size));
  if (t->data) {
    TRI_TRY(tri_ckpt_put_i64(w, "data_lines", t->data_lines));
    TRI_TRY(tri_ckpt_put_i64(w, "data_hash", t->data_hash));
  }
  TRI_TRY(put_start_folder(t, w));
  TRI_TRY(tri_ckpt_put_text(w, "algo", t->algo->name));
  return tri_ckpt_put_text(w, "random_numbers", "philox4x32-10, keyed by run.seed");
}

static tri_status put_files(tri_trainer *t, tri_ckpt_writer *w) {
  for (int i = 0; i < TRI_SOURCE_FILES; i++) {
    const tri_source_file *f = tri_source_file_at(t->source, i);
    if (f->bytes) TRI_TRY(tri_ckpt_put_file(w, f->name, f->bytes, f->n));
  }
  TRI_TRY(tri_carried_put(&t->carried, w));
  return tri_ckpt_put_file(w, "deck.yaml", t->deck.data, t->deck.len);
}

/* Of what put_files writes; rank 0 knows. */
static int64_t side_bytes(const tri_trainer *t) {
  size_t n = t->deck.len;

  for (int i = 0; i < TRI_SOURCE_FILES; i++) n += tri_source_file_at(t->source, i)->n;
  for (int i = 0; i < TRI_CARRIED_FILES; i++) n += t->carried.n[i];
  return (int64_t)n;
}

static tri_status write_all(tri_trainer *t, const listing *l, float *buf) {
  tri_ckpt_writer *w = NULL;
  tri_status       st = TRI_OK;

  TRI_TRY_DONE(tri_ckpt_create(t->folder, t->count.step, world_of(t), l->tensor, l->n, side_bytes(t), &w));
  for (int i = 0; i < l->n; i++) TRI_TRY_DONE(write_entry(t, w, &l->e[i], i, buf));
  TRI_TRY_DONE(put_counters(t, w));
  TRI_TRY_DONE(put_files(t, w));
  TRI_TRY_DONE(tri_ckpt_commit(&w));
  if (tri_ckpt_retain(t->folder, (int)t->cfg->checkpoint.save_total_limit, t->count.step, world_of(t)) !=
      TRI_OK) {
    if (world_of(t)->rank == 0)
      tri_log(TRI_LOG_WARN, "%s: old checkpoints could not be removed: %s", t->folder, tri_error_message());
    tri_error_clear();
  }
  return TRI_OK;
done:
  tri_ckpt_abandon(&w);
  return st;
}

tri_status tri_state_save(tri_trainer *t, bool *saved) {
  listing    l = {0};
  float     *buf = NULL;
  double     began_s = tri_now_s();
  tri_status st = make_listing(t, &l);

  if (st == TRI_OK) st = tri_metrics_flush(t->metrics); /* a resumed run keeps every line up to its step */
  if (st == TRI_OK) st = TRI_ALLOC(buf, PIECE);
  st = tri_agree(world_of(t), st);
  if (st == TRI_OK) st = write_all(t, &l, buf);
  TRI_FREE(buf);
  free_listing(&l);
  *saved = st == TRI_OK;
  if (*saved) t->saved_step = t->count.step;
  t->last_save_s = tri_now_s();
  if (*saved) {
    tri_metric_add(t->metrics, "time_save_s", TRI_METRIC_MAX, t->last_save_s - began_s);
    tri_log(TRI_LOG_INFO, "step %lld: checkpoint written to %s (%.2f s)", (long long)t->count.step, t->folder,
            t->last_save_s - began_s);
    return TRI_OK;
  }
  if (st != TRI_EFILE && st != TRI_EFORMAT) return st;
  t->count.failed_saves++;
  if (world_of(t)->rank == 0)
    tri_log(TRI_LOG_WARN,
            "step %lld: no checkpoint could be written to %s: %s; the run goes on (%lld failed saves)",
            (long long)t->count.step, t->folder, tri_error_message(), (long long)t->count.failed_saves);
  tri_error_clear();
  return TRI_OK;
}

/* ---- loading ---- */

static tri_status get_counters(tri_trainer *t, tri_ckpt_reader *r) {
  TRI_TRY(tri_ckpt_get_i64(r, "step", &t->count.step));
  TRI_TRY(tri_ckpt_get_i64(r, "update", &t->count.update));
  TRI_TRY(tri_ckpt_get_i64(r, "skipped_steps", &t->count.skipped_steps));
  TRI_TRY(tri_ckpt_get_i64(r, "failed_saves", &t->count.failed_saves));
  TRI_TRY(tri_ckpt_get_i64(r, "prompt_cursor", &t->count.cursor));
  TRI_TRY(tri_ckpt_get_i64(r, "tokens", &t->count.tokens));
  const tri_counters *c = &t->count;
  if (c->step != tri_ckpt_step(r) || c->update < 0 || c->skipped_steps < 0 || c->failed_saves < 0 ||
      c->cursor < 0 || c->tokens < 0)
    TRI_FAIL(TRI_EFORMAT,
             "%s: its counters cannot be: step %lld, update %lld, prompt_cursor %lld, tokens %lld", t->resume,
             (long long)c->step, (long long)c->update, (long long)c->cursor, (long long)c->tokens);
  return TRI_OK;
}

/* The first N that no entry of the folder has as its .before-N. */
static tri_status find_number(const char *folder, int *number) {
  DIR           *d = opendir(folder);
  struct dirent *e;
  int            n, why;

  *number = 1;
  if (!d) TRI_FAIL(TRI_EFILE, "run.output: %s cannot be read: %s", folder, strerror(errno));
  while ((errno = 0, e = readdir(d)) != NULL) {
    const char *end = strstr(e->d_name, ".before-");
    if (end && sscanf(end, ".before-%9d", &n) == 1 && n >= *number) *number = n + 1;
  }
  why = errno;
  closedir(d);
  if (why) TRI_FAIL(TRI_EFILE, "run.output: %s cannot be read: %s", folder, strerror(why));
  return TRI_OK;
}

static const char *const set_aside_names[] = {"checkpoints", "metrics.jsonl", "rollouts", "trace",
                                              "deck.yaml"};
enum { N_SET_ASIDE = sizeof set_aside_names / sizeof *set_aside_names };

/* Rank 0. A run that starts anew takes nothing of an older one for its own: what that wrote stays, under
 * other names. */
static tri_status set_aside(const tri_trainer *t) {
  char path[TRI_CKPT_PATH_BYTES + 32], aside[TRI_CKPT_PATH_BYTES + 64];
  int  number, moved = 0;

  TRI_TRY(find_number(t->cfg->run.output, &number));
  for (int i = 0; i < N_SET_ASIDE; i++) {
    snprintf(path, sizeof path, "%s/%s", t->cfg->run.output, set_aside_names[i]);
    snprintf(aside, sizeof aside, "%s.before-%d", path, number);
    if (access(path, F_OK)) continue;
    TRI_TRY(tri_folder_set_aside(path, aside));
    moved++;
  }
  snprintf(aside, sizeof aside, ".before-%d", number);
  TRI_TRY(tri_resume_move_decks(t->cfg->run.output, -1, aside));
  if (moved)
    tri_log(TRI_LOG_INFO, "run.resume: %s%s: the run before is kept as %s/*.before-%d", t->cfg->run.resume,
            !strcmp(t->cfg->run.resume, "auto") ? " finds no checkpoint" : "", t->cfg->run.output, number);
  return TRI_OK;
}

/* Whether a run took steps in the output folder: then there is more to lose than its deck. */
static tri_status has_steps(const tri_trainer *t, bool *has) {
  static const char *const name[] = {"metrics.jsonl", "rollouts", "checkpoints"};
  char                     path[TRI_CKPT_PATH_BYTES + 32];
  struct stat              sb;

  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    bool empty = true;
    snprintf(path, sizeof path, "%s/%s", t->cfg->run.output, name[i]);
    if (stat(path, &sb)) continue;
    if (S_ISDIR(sb.st_mode))
      TRI_TRY(tri_folder_is_empty(path, &empty));
    else
      empty = sb.st_size == 0;
    *has = !empty;
    if (*has) return TRI_OK;
  }
  return tri_resume_has_decks(t->cfg->run.output, has);
}

static bool is_one_folder(const char *path, const char *other) {
  struct stat a, b;

  return !stat(path, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Does the checkpoint lie in the run's own folder, however it is spelled, or is it linked there? */
static bool is_own(const tri_trainer *t) {
  char parent[TRI_CKPT_PATH_BYTES + 8], *end;

  snprintf(parent, sizeof parent, "%s/..", t->resume);
  if (!t->resume[0] || is_one_folder(parent, t->folder)) return t->resume[0];
  snprintf(parent, sizeof parent, "%s", t->resume);
  for (end = parent + strlen(parent); end > parent && end[-1] == '/';) *--end = 0;
  end = strrchr(parent, '/');
  if (end) *end = 0;
  return end && is_one_folder(parent, t->folder);
}

static tri_status sets_aside(const tri_trainer *t, bool *out) {
  *out = !strcmp(t->cfg->run.resume, "never");
  return *out || is_own(t) ? TRI_OK : has_steps(t, out);
}

static bool is_within(const char *path, const char *folder) {
  char  *at = realpath(path, NULL), *top = realpath(folder, NULL);
  size_t n = top ? strlen(top) : 0;
  bool   within = at && top && !strncmp(at, top, n) && (at[n] == '/' || !at[n]);

  free(at);
  free(top);
  return within;
}

/* Of what is set aside: the name of what the path lies in, or NULL. */
static const char *find_aside(const tri_config *c, const char *path) {
  char folder[TRI_CKPT_PATH_BYTES + 32];

  for (int i = 0; i < N_SET_ASIDE; i++) {
    snprintf(folder, sizeof folder, "%s/%s", c->run.output, set_aside_names[i]);
    if (is_within(path, folder)) return set_aside_names[i];
  }
  return NULL;
}

bool tri_state_would_move(const tri_config *c, const char *path) { return find_aside(c, path) != NULL; }

static tri_status check_stays(const tri_trainer *t, const char *key, const char *path) {
  const char *name = path ? find_aside(t->cfg, path) : NULL;

  if (!name) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: %s lies in %s/%s, which is about to be set aside (run.resume: %s); give another run.output",
           key, path, t->cfg->run.output, name, t->cfg->run.resume);
}

/* Rank 0. */
static tri_status check_aside(const tri_trainer *t) {
  const tri_config *c = t->cfg;
  bool              aside;

  TRI_TRY(sets_aside(t, &aside));
  if (!aside) return TRI_OK;
  if (!t->resume[0]) { /* else they are the checkpoint's */
    TRI_TRY(check_stays(t, "model.path", t->model));
    TRI_TRY(check_stays(t, "model.config", c->model.config));
    TRI_TRY(check_stays(t, "model.tokenizer", c->model.tokenizer));
  }
  TRI_TRY(check_stays(t, "model.ref_path", t->ref_model));
  TRI_TRY(check_stays(t, "rollout.replay", c->rollout.replay));
  for (int i = 0; i < c->data.train.n; i++) TRI_TRY(check_stays(t, "data.train", c->data.train.item[i]));
  for (int i = 0; i < c->data.eval.n; i++) TRI_TRY(check_stays(t, "data.eval", c->data.eval.item[i]));
  return TRI_OK;
}

tri_status tri_state_check_aside(tri_trainer *t) {
  return tri_agree(world_of(t), world_of(t)->rank == 0 ? check_aside(t) : TRI_OK);
}

/* Rank 0, when the folder is there. Two runs in one folder would spoil each other's files. A file system
 * without locks is no obstacle. */
static tri_status lock_output(tri_trainer *t) {
  if (t->lock >= 0) return TRI_OK;
  t->lock = open(t->cfg->run.output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (t->lock < 0 || !flock(t->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "run.output: another run is writing to %s; wait for its end or give another folder",
           t->cfg->run.output);
}

/* Is another run writing there? The lock is not kept. */
static tri_status check_lock(tri_trainer *t) {
  tri_status st = lock_output(t);

  if (t->lock >= 0) close(t->lock);
  t->lock = -1;
  return st;
}

/* What of the output folder's path is there. */
static void find_standing(const char *output, char path[TRI_CKPT_PATH_BYTES + 32]) {
  char *slash;

  snprintf(path, TRI_CKPT_PATH_BYTES + 32, "%s", output);
  while (!tri_folder_has(AT_FDCWD, path) && (slash = strrchr(path, '/')) != NULL && slash != path) *slash = 0;
  if (!tri_folder_has(AT_FDCWD, path))
    snprintf(path, TRI_CKPT_PATH_BYTES + 32, "%s", output[0] == '/' ? "/" : ".");
}

static tri_status check_folder(const char *output) {
  char        path[TRI_CKPT_PATH_BYTES + 32];
  struct stat sb;

  find_standing(output, path);
  if (stat(path, &sb) && errno == ENOENT)
    TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made: the link %s leads nowhere", output, path);
  if (stat(path, &sb))
    TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made: %s: %s", output, path, strerror(errno));
  if (!S_ISDIR(sb.st_mode))
    TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made: %s is there and no folder", output, path);
  return TRI_OK;
}

/* In a folder that is a model and a run, later commands could mean either. */
static tri_status check_no_model(const tri_trainer *t) {
  char path[TRI_CKPT_PATH_BYTES + 32];

  snprintf(path, sizeof path, "%s/config.json", t->cfg->run.output);
  if (access(path, F_OK)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "run.output: %s is the folder of a model (it holds config.json); give another folder",
           t->cfg->run.output);
}

/* Before anything is changed: the run will write at the end of this file of its output, if it is there. */
static tri_status check_file(const tri_trainer *t, const char *name) {
  char        path[TRI_CKPT_PATH_BYTES + 32];
  struct stat sb;

  snprintf(path, sizeof path, "%s/%s", t->cfg->run.output, name);
  if (lstat(path, &sb)) return TRI_OK;
  if (!S_ISREG(sb.st_mode))
    TRI_FAIL(TRI_EFILE, "run.output: %s: is %s; remove it or give another folder", path,
             S_ISLNK(sb.st_mode) ? "a link, which is not followed" : "no regular file");
  if (access(path, W_OK))
    TRI_FAIL(TRI_EFILE, "run.output: %s: cannot be written: %s; let it be written or give another folder",
             path, strerror(errno));
  return TRI_OK;
}

/* One that starts anew sets it aside. */
static tri_status check_metrics(const tri_trainer *t) {
  return is_own(t) ? check_file(t, "metrics.jsonl") : TRI_OK;
}

/* Rank 0. */
static tri_status check_output(tri_trainer *t) {
  TRI_TRY(check_folder(t->cfg->run.output));
  TRI_TRY(check_no_model(t));
  TRI_TRY(check_file(t, "log.txt"));
  return tri_file_exists(t->cfg->run.output) ? lock_output(t) : TRI_OK;
}

/* Collective over world. */
static tri_status find_resume(tri_trainer *t) {
  const char *resume = t->cfg->run.resume;
  tri_status  st;

  t->resume[0] = 0;
  if (!strcmp(resume, "never")) return TRI_OK;
  st = tri_source_find_checkpoint(!strcmp(resume, "auto") ? t->cfg->run.output : resume, world_of(t), true,
                                  t->resume);
  if (st == TRI_EFORMAT && !strcmp(resume, "auto"))
    tri_error_lines(
        "\nnone that could be taken is there; run.resume: never or another run.output starts anew");
  if (st == TRI_OK && !t->resume[0] && strcmp(resume, "auto"))
    TRI_FAIL(TRI_EINPUT, "run.resume: %s: there is no checkpoint", resume);
  return st;
}

tri_status tri_state_find(tri_trainer *t) {
  TRI_TRY(tri_agree(world_of(t), world_of(t)->rank == 0 ? check_output(t) : TRI_OK));
  TRI_TRY(tri_ckpt_clean(t->folder, world_of(t)));
  TRI_TRY(find_resume(t));
  return tri_agree(world_of(t), world_of(t)->rank == 0 ? check_metrics(t) : TRI_OK);
}

/* Whether the folder, or what of its path is there, lets us write. */
static tri_status check_writable(const char *output) {
  char path[TRI_CKPT_PATH_BYTES + 32];

  TRI_TRY(check_folder(output));
  find_standing(output, path);
  if (access(path, W_OK | X_OK))
    TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made: %s: %s", output, path, strerror(errno));
  return TRI_OK;
}

tri_status tri_state_look(tri_trainer *t) {
  TRI_TRY(tri_error_note(check_no_model(t), t->faults));
  TRI_TRY(tri_error_note(check_file(t, "log.txt"), t->faults));
  TRI_TRY(tri_error_note(check_lock(t), t->faults));
  TRI_TRY(tri_error_note(check_writable(t->cfg->run.output), t->faults));
  TRI_TRY(tri_error_note(find_resume(t), t->faults));
  return tri_error_note(check_metrics(t), t->faults);
}

/* Rank 0. The deck as used, and beside it what held until the step the run goes on from. */
static tri_status write_decks(const tri_trainer *t) {
  char path[TRI_CKPT_PATH_BYTES + 64];

  if (is_own(t)) TRI_TRY(tri_resume_move_decks(t->cfg->run.output, t->count.step - 1, NULL));
  snprintf(path, sizeof path, "%s/deck.step-%08lld.yaml", t->cfg->run.output, (long long)t->count.step);
  if (t->deck_before.len) TRI_TRY(tri_file_write(path, t->deck_before.data, t->deck_before.len));
  snprintf(path, sizeof path, "%s/deck.yaml", t->cfg->run.output);
  return tri_file_write(path, t->deck.data, t->deck.len);
}

/* Rank 0. Nothing of the steps that are not to be taken again stays in the way, and nothing of another run is
 * lost. */
static tri_status begin_outputs(tri_trainer *t) {
  bool moved = false, aside;

  if (is_own(t)) TRI_TRY(tri_ckpt_wind_back(t->folder, t->count.step, &moved));
  if (moved)
    tri_log(
        TRI_LOG_INFO,
        "%s/LATEST names step %lld now: the run goes on from there, and each save removes the checkpoints of "
        "later steps up to its own",
        t->folder, (long long)t->count.step);
  TRI_TRY(sets_aside(t, &aside));
  if (aside) TRI_TRY(set_aside(t));
  return write_decks(t);
}

/* The output folder, the deck as used, the metrics cut back; where no step will be taken, all stays as it
 * is. */
static tri_status open_outputs(tri_trainer *t) {
  char    path[TRI_CKPT_PATH_BYTES + 32], *at;
  bool    works = t->count.step < t->steps;
  int64_t keep_step = is_own(t) ? t->count.step : -1;

  if (world_of(t)->rank == 0) {
    snprintf(path, sizeof path, "%s/", t->cfg->run.output);
    for (at = path + 1; *at; at++) {
      if (*at != '/') continue;
      *at = 0;
      if (mkdir(path, 0777) && errno != EEXIST)
        TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made: %s", path, strerror(errno));
      *at = '/';
    }
    TRI_TRY(lock_output(t));
    if (works) TRI_TRY(begin_outputs(t));
  }
  snprintf(path, sizeof path, "%s/metrics.jsonl", t->cfg->run.output);
  return tri_metrics_open(path, works ? keep_step : INT64_MAX, world_of(t)->rank, &t->metrics);
}

tri_status tri_state_load(tri_trainer *t) {
  tri_comm *world = world_of(t);

  TRI_TRY(tri_agree(world, world->rank == 0 ? tri_source_read_carried(t->source, &t->carried) : TRI_OK));
  TRI_TRY(tri_carried_share(&t->carried, world));
  TRI_TRY(tri_source_load(t->source, "/model", tri_model_params(t->policy), world, t->se->stream));
  if (t->ref)
    TRI_TRY(tri_source_load(t->ref_source, t->ref_resumed ? "/reference" : "/model", tri_model_params(t->ref),
                            world, t->se->stream));
  if (t->resume[0]) {
    TRI_TRY(tri_source_load_moments(t->source, tri_model_params(t->policy), world, t->se->stream));
    TRI_TRY(tri_agree(world, get_counters(t, tri_source_checkpoint(t->source))));
    tri_log(TRI_LOG_INFO, "resumed from %s, after step %lld", t->resume, (long long)t->count.step);
  }
  t->first_step = t->count.step;
  if (t->resume[0] && !strcmp(t->cfg->run.resume, "auto")) t->saved_step = t->count.step;
  return tri_agree(world, open_outputs(t));
}
