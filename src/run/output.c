/* output.c - the output folder of a run. It is claimed and locked, an older run is set aside, and the decks
 * are written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/mask.h"
#include "io/model/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

tri_status tri_run_open(const tri_config *cfg, tri_comm *world, tri_errors *errors, tri_run *out) {
  *out = (tri_run){.cfg = cfg, .world = world, .errors = errors, .lock = -1};
  if ((size_t)snprintf(out->folder, sizeof out->folder, "%s/checkpoints", cfg->run.output) >=
      sizeof out->folder - 64)
    TRI_FAIL(TRI_ECONFIG, "run.output: the path is too long");
  return TRI_OK;
}

void tri_run_close(tri_run *r) {
  if (r->cfg) tri_start_release(r);
  if (r->cfg && r->lock >= 0) close(r->lock);
  tri_text_free(&r->deck);
  tri_text_free(&r->deck_before);
  tri_text_free(&r->inputs);
  *r = (tri_run){.lock = -1};
}

/* ---- decks of earlier steps ---- */

/* Returns the step in deck.step-NNNNNNNN.yaml, or -1. */
static int64_t step_of(const char *name) {
  static const char begin[] = "deck.step-";
  char             *end;
  long long         step;

  if (strncmp(name, begin, sizeof begin - 1) || !strspn(name + sizeof begin - 1, "0123456789")) return -1;
  errno = 0;
  step = strtoll(name + sizeof begin - 1, &end, 10);
  return !errno && !strcmp(end, ".yaml") ? step : -1;
}

static tri_status move_deck(const char *folder, const char *name, const char *suffix) {
  char from[TRI_CKPT_PATH_BYTES + 300], to[TRI_CKPT_PATH_BYTES + 400];

  snprintf(from, sizeof from, "%s/%s", folder, name);
  snprintf(to, sizeof to, "%s%s", from, suffix ? suffix : "");
  if (suffix) return tri_folder_set_aside(from, to);
  if (unlink(from)) TRI_FAIL(TRI_EFILE, "%s: cannot be removed: %s", from, strerror(errno));
  return TRI_OK;
}

/* Adds a suffix to each deck.step-NNNNNNNN.yaml of a step above `after`, or removes it if the suffix is
 * NULL. */
static tri_status move_decks(const char *folder, int64_t after, const char *suffix) {
  tri_status     st = TRI_OK;
  DIR           *dir = opendir(folder);
  struct dirent *e;

  if (!dir) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(errno));
  while ((errno = 0, e = readdir(dir)) != NULL)
    if (step_of(e->d_name) > after) TRI_TRY_DONE(move_deck(folder, e->d_name, suffix));
  if (errno) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(errno));
done:
  closedir(dir);
  return st;
}

/* Sets *has to whether there are such decks. A missing folder has none. */
static tri_status has_decks(const char *folder, bool *has) {
  tri_status     st = TRI_OK;
  DIR           *dir = opendir(folder);
  struct dirent *e;

  *has = false;
  if (!dir && (errno == ENOTDIR || !tri_file_exists(folder))) return TRI_OK;
  if (!dir) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(errno));
  while (!*has && (errno = 0, e = readdir(dir)) != NULL) *has = step_of(e->d_name) >= 0;
  if (!*has && errno) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(errno));
done:
  closedir(dir);
  return st;
}

/* ---- files set aside by a new start ---- */

/* Finds the first N without an entry ending in .before-N in the folder. */
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

static const char *const set_aside_names[] = {"checkpoints", "metrics.jsonl", "rollouts",  "eval",
                                              "tensorboard", "trace",         "deck.yaml", "run.jsonl"};
enum { N_SET_ASIDE = sizeof set_aside_names / sizeof *set_aside_names };

/* Rank 0. A new start uses nothing of an older run. The older files stay under other names. */
static tri_status set_aside(const tri_run *r) {
  char path[TRI_CKPT_PATH_BYTES + 32], aside[TRI_CKPT_PATH_BYTES + 64];
  int  number, moved = 0;

  TRI_TRY(find_number(r->cfg->run.output, &number));
  for (int i = 0; i < N_SET_ASIDE; i++) {
    snprintf(path, sizeof path, "%s/%s", r->cfg->run.output, set_aside_names[i]);
    snprintf(aside, sizeof aside, "%s.before-%d", path, number);
    if (access(path, F_OK)) continue;
    TRI_TRY(tri_folder_set_aside(path, aside));
    moved++;
  }
  snprintf(aside, sizeof aside, ".before-%d", number);
  TRI_TRY(move_decks(r->cfg->run.output, -1, aside));
  if (moved)
    tri_log(TRI_LOG_INFO, "run.resume: %s%s. The previous run is kept as %s/*.before-%d", r->cfg->run.resume,
            !strcmp(r->cfg->run.resume, "auto") ? " finds no checkpoint" : "", r->cfg->run.output, number);
  return TRI_OK;
}

/* Sets *has to whether a run took steps in the output folder. Such a folder holds more than a deck. */
static tri_status has_steps(const tri_run *r, bool *has) {
  static const char *const name[] = {"metrics.jsonl", "rollouts", "eval", "checkpoints"};
  char                     path[TRI_CKPT_PATH_BYTES + 32];
  struct stat              sb;

  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    bool empty = true;
    snprintf(path, sizeof path, "%s/%s", r->cfg->run.output, name[i]);
    if (stat(path, &sb)) continue;
    if (S_ISDIR(sb.st_mode))
      TRI_TRY(tri_folder_is_empty(path, &empty));
    else
      empty = sb.st_size == 0;
    *has = !empty;
    if (*has) return TRI_OK;
  }
  return has_decks(r->cfg->run.output, has);
}

static bool is_one_folder(const char *path, const char *other) {
  struct stat a, b;

  return !stat(path, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The checkpoint may be a link, so its real parent may differ from the folder of the link. */
bool tri_run_is_own(const tri_run *r) {
  char parent[TRI_CKPT_PATH_BYTES + 8], *end;

  snprintf(parent, sizeof parent, "%s/..", r->resume);
  if (!r->resume[0] || is_one_folder(parent, r->folder)) return r->resume[0];
  snprintf(parent, sizeof parent, "%s", r->resume);
  for (end = parent + strlen(parent); end > parent && end[-1] == '/';) *--end = 0;
  end = strrchr(parent, '/');
  if (end) *end = 0;
  return end && is_one_folder(parent, r->folder);
}

static tri_status sets_aside(const tri_run *r, bool *out) {
  *out = !strcmp(r->cfg->run.resume, "never");
  return *out || tri_run_is_own(r) ? TRI_OK : has_steps(r, out);
}

/* Returns the name of the entry with the path in it, among those to be set aside, or NULL. */
static const char *find_aside(const tri_config *c, const char *path) {
  char folder[TRI_CKPT_PATH_BYTES + 32];

  for (int i = 0; i < N_SET_ASIDE; i++) {
    snprintf(folder, sizeof folder, "%s/%s", c->run.output, set_aside_names[i]);
    if (tri_output_is_within(path, folder)) return set_aside_names[i];
  }
  return NULL;
}

bool tri_output_would_move(const tri_config *c, const char *path) { return find_aside(c, path) != NULL; }

static tri_status check_stays(const tri_run *r, const char *key, const char *path) {
  const char *name = path && path[0] ? find_aside(r->cfg, path) : NULL;

  if (!name) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: %s lies in %s/%s, but the run would set that aside (run.resume: %s). Give another run.output",
           key, path, r->cfg->run.output, name, r->cfg->run.resume);
}

/* Rank 0. */
static tri_status check_aside(const tri_run *r, const tri_run_input *input, int n) {
  const tri_config *c = r->cfg;
  bool              aside;

  TRI_TRY(sets_aside(r, &aside));
  if (!aside) return TRI_OK;
  for (int i = 0; i < n; i++) TRI_TRY(check_stays(r, input[i].key, input[i].path));
  TRI_TRY(check_stays(r, "rollout.replay", c->rollout.replay));
  for (int i = 0; i < c->data.train.n; i++) TRI_TRY(check_stays(r, "data.train", c->data.train.item[i]));
  for (int i = 0; i < c->data.eval.n; i++) TRI_TRY(check_stays(r, "data.eval", c->data.eval.item[i]));
  return TRI_OK;
}

tri_status tri_run_check_aside(const tri_run *r, const tri_run_input *input, int n) {
  return tri_agree(r->world, r->world->rank == 0 ? check_aside(r, input, n) : TRI_OK);
}

/* ---- claiming ---- */

/* Returns how long to wait for an older start of the same job. When Slurm requeues a job, or a job restarts
 * its ranks, older ranks may still live behind a broken link. They end themselves within half a minute
 * (comm/peers/). An NFS 4 server drops the lock of an unreachable client after its lease, usually 90 s (RFC
 * 8881, 8.3). */
static double older_start_s(void) { return getenv("SLURM_JOB_ID") ? 120 : 0; }

/* Rank 0, for an existing folder. Two runs in one folder would overwrite each other's files. A file system
 * without locks counts as locked. */
static tri_status lock_output(tri_run *r, double patience_s) {
  double end_s = tri_now_s() + patience_s;
  char   holder[TRI_START_HOLDER_BYTES];

  if (r->lock >= 0) return TRI_OK;
  r->lock = open(r->cfg->run.output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (r->lock < 0) return TRI_OK;
  for (bool said = false; flock(r->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; said = true) {
    if (tri_now_s() >= end_s) break;
    if (!said)
      tri_log(TRI_LOG_INFO,
              "%s: waiting for an older start of this job that still has the folder, at most %.0f s",
              r->cfg->run.output, patience_s);
    nanosleep(&(struct timespec){0, 100000000}, NULL);
  }
  if (!flock(r->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return TRI_OK;
  tri_start_holder(r, holder);
  close(r->lock);
  r->lock = -1;
  TRI_FAIL(TRI_ECONFIG, "run.output: another run is writing to %s%s. Wait for its end or give another folder",
           r->cfg->run.output, holder);
}

/* Checks whether another run is writing there. Keeps no lock. */
static tri_status check_lock(tri_run *r) {
  tri_status st = lock_output(r, 0);

  if (r->lock >= 0) close(r->lock);
  r->lock = -1;
  return st;
}

/* Writes the existing part of the output folder's path. */
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
    TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made, because the link %s points to nothing",
             output, path);
  if (stat(path, &sb))
    TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made: %s: %s", output, path, strerror(errno));
  if (!S_ISDIR(sb.st_mode))
    TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made, because %s is not a folder", output, path);
  return TRI_OK;
}

/* If a folder held both a model and a run, later commands could mean either. */
static tri_status check_no_model(const tri_run *r) {
  char path[TRI_CKPT_PATH_BYTES + 32];

  snprintf(path, sizeof path, "%s/config.json", r->cfg->run.output);
  if (access(path, F_OK)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "run.output: %s is the folder of a model (it holds config.json). Give another folder",
           r->cfg->run.output);
}

/* Checks a file before anything is changed. The run will append to it. The file need not exist. */
static tri_status check_file(const tri_run *r, const char *name) {
  char        path[TRI_CKPT_PATH_BYTES + 32];
  struct stat sb;

  snprintf(path, sizeof path, "%s/%s", r->cfg->run.output, name);
  if (lstat(path, &sb)) return TRI_OK;
  if (!S_ISREG(sb.st_mode))
    TRI_FAIL(TRI_EFILE, "run.output: %s is %s. Remove it or give another folder", path,
             S_ISLNK(sb.st_mode) ? "a link, and Trireme does not follow it" : "not a regular file");
  if (access(path, W_OK))
    TRI_FAIL(TRI_EFILE, "run.output: %s: cannot be written: %s. Permit writing or give another folder", path,
             strerror(errno));
  return TRI_OK;
}

/* Checks the folder of the event file in the same way. */
static tri_status check_board(const tri_run *r) {
  char path[TRI_CKPT_PATH_BYTES + 32];
  int  fd;

  snprintf(path, sizeof path, "%s/tensorboard", r->cfg->run.output);
  if (tri_folder_has_link(AT_FDCWD, path))
    TRI_FAIL(
        TRI_EFILE,
        "run.tensorboard: %s is a link, and Trireme does not follow it. Remove it. TensorBoard's --logdir "
        "accepts a folder with several outputs, or with links to them",
        path);
  TRI_TRY(tri_error_about(tri_folder_open(path, &fd), "run.tensorboard"));
  if (fd < 0) return TRI_OK;
  close(fd);
  if (access(path, W_OK | X_OK))
    TRI_FAIL(TRI_EFILE, "run.tensorboard: %s: cannot be written: %s", path, strerror(errno));
  return TRI_OK;
}

/* A new start sets both aside, so it needs no check. */
static tri_status check_metrics(const tri_run *r) {
  if (!tri_run_is_own(r)) return TRI_OK;
  TRI_TRY(check_file(r, "metrics.jsonl"));
  return r->cfg->run.tensorboard ? check_board(r) : TRI_OK;
}

/* Checks for permission to write to the folder, or to the existing part of its path. */
static tri_status check_writable(const char *output) {
  char path[TRI_CKPT_PATH_BYTES + 32];
  int  why;

  TRI_TRY(check_folder(output));
  find_standing(output, path);
  if (!access(path, W_OK | X_OK)) return TRI_OK;
  why = errno;
  TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be %s: %s: %s. Give another folder, or have %s",
           output, strcmp(path, output) ? "made" : "written", path, strerror(why),
           why == EROFS ? "it mounted for writing (mount -o remount,rw)" : "its owner permit writing");
}

/* Checks the files every start appends to. */
static tri_status check_logs(const tri_run *r) {
  TRI_TRY(check_file(r, "log.txt"));
  return check_file(r, "run.jsonl");
}

/* Rank 0. */
static tri_status check_output(tri_run *r) {
  TRI_TRY(check_writable(r->cfg->run.output));
  TRI_TRY(check_no_model(r));
  TRI_TRY(check_logs(r));
  if (!tri_file_exists(r->cfg->run.output)) return TRI_OK;
  TRI_TRY(lock_output(r, older_start_s()));
  if (tri_start_claim(r) != TRI_OK) tri_error_clear(); /* later writes report the error */
  return TRI_OK;
}

/* Collective over world. */
static tri_status share_claim(tri_run *r) {
  char path[TRI_CKPT_PATH_BYTES + 32];
  bool mine[2] = {r->claimed, false};

  snprintf(path, sizeof path, "%s/run.jsonl", r->cfg->run.output);
  if (r->world->rank == 0)
    mine[1] = r->claimed && (!strcmp(r->cfg->run.resume, "auto") || access(path, F_OK));
  TRI_TRY(tri_host_bcast(r->world, mine, sizeof mine, 0));
  r->is_held = mine[0];
  r->carries_on = mine[1];
  return TRI_OK;
}

tri_status tri_run_claim(tri_run *r) {
  TRI_TRY(tri_agree(r->world, r->world->rank == 0 ? check_output(r) : TRI_OK));
  TRI_TRY(share_claim(r));
  return tri_ckpt_clean(r->folder, r->world);
}

/* Collective over world. */
static tri_status find_resume(tri_run *r) {
  const char *resume = r->cfg->run.resume;
  tri_status  st;

  r->resume[0] = 0;
  if (!strcmp(resume, "never")) return TRI_OK;
  st = tri_source_find_checkpoint(!strcmp(resume, "auto") ? r->cfg->run.output : resume, r->world, true,
                                  r->resume);
  if (st == TRI_EFORMAT && !strcmp(resume, "auto"))
    tri_error_lines("\nnone of them is usable. run.resume: never or another run.output starts anew");
  if (st == TRI_OK && !r->resume[0] && strcmp(resume, "auto"))
    TRI_FAIL(TRI_EINPUT, "run.resume: there is no checkpoint at %s", resume);
  return st;
}

tri_status tri_run_find(tri_run *r) {
  TRI_TRY(find_resume(r));
  return tri_agree(r->world, r->world->rank == 0 ? check_metrics(r) : TRI_OK);
}

tri_status tri_run_look_on_paper(tri_run *r) {
  tri_status st = check_lock(r);

  if (st == TRI_OK) return tri_run_look(r);
  if (st != TRI_ECONFIG) return st;
  tri_error_clear();
  tri_log(TRI_LOG_INFO, "%s: a run is writing there. The plan is for a new run", r->cfg->run.output);
  return TRI_OK;
}

tri_status tri_run_look(tri_run *r) {
  int64_t before = r->errors ? r->errors->n : 0;

  TRI_TRY(tri_error_note(check_no_model(r), r->errors));
  TRI_TRY(tri_error_note(check_logs(r), r->errors));
  TRI_TRY(tri_error_note(check_lock(r), r->errors));
  TRI_TRY(tri_error_note(check_writable(r->cfg->run.output), r->errors));
  r->may_write = !r->errors || r->errors->n == before;
  TRI_TRY(tri_error_note(find_resume(r), r->errors));
  return tri_error_note(check_metrics(r), r->errors);
}

/* ---- the first files ---- */

/* Rank 0. Masks secrets, because an earlier version wrote them into its decks. */
static tri_status write_masked(const char *path, const tri_text *deck) {
  tri_text   masked = {0};
  tri_status st = tri_mask_text(deck->data, &masked);

  if (st == TRI_OK) st = tri_file_write(path, masked.data, masked.len);
  tri_text_free(&masked);
  return st;
}

/* Rank 0. Writes the deck as used, and beside it the deck in force before `step`, the step to resume from. */
static tri_status write_decks(const tri_run *r, int64_t step) {
  char path[TRI_CKPT_PATH_BYTES + 64];

  if (tri_run_is_own(r)) TRI_TRY(move_decks(r->cfg->run.output, step - 1, NULL));
  snprintf(path, sizeof path, "%s/deck.step-%08lld.yaml", r->cfg->run.output, (long long)step);
  if (r->deck_before.len) TRI_TRY(write_masked(path, &r->deck_before));
  snprintf(path, sizeof path, "%s/deck.yaml", r->cfg->run.output);
  return tri_file_write(path, r->deck.data, r->deck.len);
}

/* Rank 0. Clears away files of steps to be taken again, and keeps the files of another run. */
static tri_status make_ready(const tri_run *r, int64_t step) {
  bool moved = false, aside;

  if (tri_run_is_own(r)) TRI_TRY(tri_ckpt_wind_back(r->folder, step, &moved));
  if (moved)
    tri_log(TRI_LOG_INFO,
            "%s/LATEST now names step %lld. The run resumes there, and each save removes the checkpoints of "
            "later steps up to its own",
            r->folder, (long long)step);
  if (tri_run_is_own(r)) TRI_TRY(tri_output_cut(r, step));
  TRI_TRY(sets_aside(r, &aside));
  if (aside) TRI_TRY(set_aside(r));
  return write_decks(r, step);
}

/* Rank 0. */
static tri_status make_folder(const char *output) {
  char path[TRI_CKPT_PATH_BYTES + 32];

  snprintf(path, sizeof path, "%s/", output);
  for (char *at = path + 1; *at; at++) {
    if (*at != '/') continue;
    *at = 0;
    if (mkdir(path, 0777) && errno != EEXIST)
      TRI_FAIL(TRI_EFILE, "run.output: the folder %s cannot be made: %s", path, strerror(errno));
    *at = '/';
  }
  return TRI_OK;
}

/* Rank 0. */
static tri_status begin(tri_run *r, int64_t step, bool works) {
  TRI_TRY(make_folder(r->cfg->run.output));
  TRI_TRY(lock_output(r, older_start_s()));
  TRI_TRY(tri_start_claim(r));
  tri_start_forget_outage(r);
  return works ? make_ready(r, step) : TRI_OK;
}

tri_status tri_run_begin(tri_run *r, int64_t step, bool works) {
  TRI_TRY(tri_agree(r->world, r->world->rank == 0 ? begin(r, step, works) : TRI_OK));
  r->is_held = r->carries_on = true;
  return TRI_OK;
}
