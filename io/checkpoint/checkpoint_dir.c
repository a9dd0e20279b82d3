/* checkpoint_dir.c - changes the checkpoints folder: publishes, moves LATEST, removes old checkpoints and
 * leftovers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/folder.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "checkpoint_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char        latest_link[] = "LATEST", best_link[] = "BEST";
static const char *const link_tmp[] = {".LATEST.tmp", ".BEST.tmp", ".TRIAL.tmp", ".TRIAL"};
enum { N_LINK_TMP = sizeof link_tmp / sizeof *link_tmp };
static const char first_removed[] = "MANIFEST.json"; /* so that half a folder never looks whole */

tri_status tri_ckpt_remove(const char *folder) {
  return tri_folder_remove(AT_FDCWD, folder, folder, first_removed);
}

static tri_status rename_folder(const char *from, const char *to) {
  if (rename(from, to)) TRI_FAIL(TRI_EFILE, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
  return TRI_OK;
}

/* Makes dir/.LATEST.tmp, a link to the step's folder. *link is dir/LATEST, its final name. */
static tri_status make_link(const char *dir, const char *name, int64_t step,
                            char link_new[TRI_CKPT_PATH_BYTES], char link[TRI_CKPT_PATH_BYTES]) {
  char target[TRI_CKPT_FILE_NAME_BYTES];

  TRI_TRY(tri_ckpt_path(link_new, "%s/.%s.tmp", dir, name));
  TRI_TRY(tri_ckpt_path(link, "%s/%s", dir, name));
  tri_ckpt_step_name(target, step, TRI_CKPT_WHOLE);
  if ((unlink(link_new) && errno != ENOENT) || symlink(target, link_new))
    TRI_FAIL(TRI_EFILE, "%s: cannot be made: %s", link_new, strerror(errno));
  return TRI_OK;
}

/* Renames a file or folder that has the link's name but is no link. `cp -rL` and object stores turn links
 * into folders. */
static tri_status make_way(const char *link) {
  char aside[TRI_CKPT_PATH_BYTES];
  int  n = 1;

  if (!tri_folder_has(AT_FDCWD, link) || tri_folder_has_link(AT_FDCWD, link)) return TRI_OK;
  do TRI_TRY(tri_ckpt_path(aside, "%s.before-%d", link, n++));
  while (tri_folder_has(AT_FDCWD, aside));
  TRI_TRY(tri_folder_set_aside(link, aside));
  tri_log(TRI_LOG_WARN, "%s: is no symbolic link, perhaps because a copy followed it. It is kept as %s.",
          link, aside);
  return TRI_OK;
}

tri_status tri_ckpt_publish(const char *dir, int64_t step) {
  tri_status st = TRI_OK;
  char       tmp[TRI_CKPT_PATH_BYTES], whole[TRI_CKPT_PATH_BYTES], old[TRI_CKPT_PATH_BYTES];
  char       link_new[TRI_CKPT_PATH_BYTES], latest[TRI_CKPT_PATH_BYTES];
  bool       replaced = false, renamed = false;

  TRI_TRY(tri_ckpt_step_path(tmp, dir, step, TRI_CKPT_TMP));
  TRI_TRY(tri_ckpt_step_path(whole, dir, step, TRI_CKPT_WHOLE));
  TRI_TRY(tri_ckpt_step_path(old, dir, step, TRI_CKPT_OLD));
  /* Everything that takes disk space comes before the first rename. */
  TRI_TRY(make_link(dir, latest_link, step, link_new, latest));
  TRI_TRY_DONE(make_way(latest));
  TRI_TRY_DONE(tri_ckpt_remove(old));
  replaced = tri_folder_has(AT_FDCWD, whole);
  if (replaced) TRI_TRY_DONE(rename_folder(whole, old));
  TRI_TRY_DONE(rename_folder(tmp, whole));
  renamed = true;
  TRI_TRY_DONE(tri_ckpt_sync(dir));
  TRI_TRY_DONE(rename_folder(link_new, latest));
  if (tri_ckpt_sync(dir) != TRI_OK || (replaced && tri_ckpt_remove(old) != TRI_OK))
    tri_log(TRI_LOG_WARN, "%s: saved, but: %s", whole, tri_error_message());
  tri_error_clear();
  return TRI_OK;
done: /* only after a failure: restore the old state */
  unlink(link_new);
  if (renamed) rename(whole, tmp);
  if (replaced && !tri_folder_has(AT_FDCWD, whole)) rename(old, whole);
  return st;
}

static tri_status point(const char *dir, const char *name, int64_t step) {
  char link_new[TRI_CKPT_PATH_BYTES], link[TRI_CKPT_PATH_BYTES];

  TRI_TRY(make_link(dir, name, step, link_new, link));
  if (make_way(link) != TRI_OK || rename_folder(link_new, link) != TRI_OK) {
    unlink(link_new);
    return TRI_EFILE;
  }
  return tri_ckpt_sync(dir);
}

tri_status tri_ckpt_point_best(const char *dir, int64_t step) {
  TRI_TRY(tri_ckpt_check_guard());
  return point(dir, best_link, step);
}

/* Removes BEST, because the step it names will be removed soon. */
static tri_status forget_best(const char *dir) {
  char path[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_ckpt_path(path, "%s/%s", dir, best_link));
  if (unlink(path) && errno != ENOENT)
    TRI_FAIL(TRI_EFILE, "%s: cannot be removed: %s", path, strerror(errno));
  return TRI_OK;
}

tri_status tri_ckpt_wind_back(const char *dir, int64_t step, bool *moved) {
  int64_t latest;
  char    whole[TRI_CKPT_PATH_BYTES];

  *moved = false;
  TRI_TRY(tri_ckpt_step_path(whole, dir, step, TRI_CKPT_WHOLE));
  if (tri_ckpt_latest(AT_FDCWD, dir, &latest) != TRI_OK) tri_error_clear(); /* a bad LATEST is replaced */
  if (tri_ckpt_named_best(AT_FDCWD, dir) > step) TRI_TRY(forget_best(dir));
  if (latest == step || !tri_file_exists(whole)) return TRI_OK;
  TRI_TRY(point(dir, latest_link, step));
  *moved = true;
  return TRI_OK;
}

/* ---- clean and retain, rank 0's work. Entries are named relative to the open folder, so that no link on the
 * way to it can change their place. */

/* The checkpoints folder. */
typedef struct place {
  const char *dir; /* borrowed */
  int         fd;
} place;

/* Calls `work` with the open folder, if the folder exists. */
static tri_status in_folder(const char *dir, tri_status (*work)(const place *p, const void *what),
                            const void *what) {
  tri_status st;
  place      p = {dir, -1};

  TRI_TRY(tri_folder_open(dir, &p.fd));
  if (p.fd < 0) return TRI_OK;
  st = work(&p, what);
  close(p.fd);
  return st;
}

typedef struct entry_name {
  char name[TRI_CKPT_FILE_NAME_BYTES], path[TRI_CKPT_PATH_BYTES];
} entry_name;

static tri_status name_entry(const place *p, int64_t step, tri_ckpt_kind kind, entry_name *out) {
  tri_ckpt_step_name(out->name, step, kind);
  return tri_ckpt_path(out->path, "%s/%s", p->dir, out->name);
}

static tri_status rename_entry(const place *p, const entry_name *from, const entry_name *to) {
  if (renameat(p->fd, from->name, p->fd, to->name))
    TRI_FAIL(TRI_EFILE, "%s: cannot be renamed to %s: %s", from->path, to->name, strerror(errno));
  return TRI_OK;
}

static tri_status remove_entry(const place *p, const entry_name *e) {
  return tri_folder_remove(p->fd, e->name, e->path, first_removed);
}

static tri_status clean_entry(const place *p, int64_t step, tri_ckpt_kind kind) {
  entry_name left, whole;

  TRI_TRY(name_entry(p, step, kind, &left));
  TRI_TRY(name_entry(p, step, TRI_CKPT_WHOLE, &whole));
  if (kind != TRI_CKPT_OLD || tri_folder_has(p->fd, whole.name) || tri_folder_has_link(p->fd, left.name))
    return remove_entry(p, &left);
  TRI_TRY(tri_folder_check_own(p->fd, left.name, left.path));
  return rename_entry(p, &left, &whole);
}

/* A failed removal only causes a warning, because leftovers harm nobody and the run can start. */
static void warn_left(tri_status st) {
  if (st != TRI_OK) tri_log(TRI_LOG_WARN, "left by an earlier run: %s", tri_error_message());
  if (st != TRI_OK) tri_error_clear();
}

/* Removes the unfinished checkpoints of all earlier starts of the run. */
static tri_status clean_unfinished(const place *p) {
  tri_status     st = TRI_OK;
  struct dirent *e;
  int64_t        step;
  int            fd = openat(p->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR           *d = fd < 0 ? NULL : fdopendir(fd);

  if (!d && fd >= 0) close(fd);
  if (!d) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", p->dir, strerror(errno));
  while ((e = readdir(d)) != NULL) {
    entry_name left;
    if (tri_ckpt_parse_name(e->d_name, &step) != TRI_CKPT_TMP) continue;
    snprintf(left.name, sizeof left.name, "%s", e->d_name);
    TRI_TRY_DONE(tri_ckpt_path(left.path, "%s/%s", p->dir, left.name));
    warn_left(remove_entry(p, &left));
  }
done:
  closedir(d);
  return st;
}

static tri_status clean(const place *p, const void *what) {
  tri_ckpt_steps l = {0};

  (void)what;
  TRI_TRY(clean_unfinished(p));
  for (tri_ckpt_kind kind = TRI_CKPT_TRASH; kind <= TRI_CKPT_OLD; kind++) {
    TRI_TRY(tri_ckpt_list(p->fd, ".", kind, &l));
    for (int i = 0; i < l.n; i++) warn_left(clean_entry(p, l.step[i], kind));
    TRI_FREE(l.step);
  }
  for (int i = 0; i < N_LINK_TMP; i++)
    if (unlinkat(p->fd, link_tmp[i], 0) && errno != ENOENT)
      warn_left(tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s/%s: cannot be removed: %s", p->dir,
                         link_tmp[i], strerror(errno)));
  return TRI_OK;
}

/* Returns the step of the checkpoint in this folder, judged whole by its file sizes, or -1 if it holds
 * none. */
static int64_t step_in(const char *folder) {
  tri_ckpt_manifest m = {0};
  char             *bytes = NULL;
  size_t            n = 0;
  int64_t           step = -1;
  tri_status        st = tri_ckpt_manifest_read(AT_FDCWD, folder, &bytes, &n);

  if (st == TRI_OK) st = tri_ckpt_manifest_parse(folder, bytes, n, &m);
  if (st == TRI_OK) st = tri_ckpt_manifest_check_sizes(&m, AT_FDCWD, folder);
  if (st == TRI_OK) step = m.step;
  if (st != TRI_OK) tri_error_clear();
  tri_ckpt_manifest_free(&m);
  tri_host_free((void **)&bytes);
  return step;
}

/* Gives a copied checkpoint in the place of the link the name of its step, if this name is free. */
static tri_status settle_link(const char *dir, const char *name) {
  char    link[TRI_CKPT_PATH_BYTES], whole[TRI_CKPT_PATH_BYTES];
  int64_t step;

  TRI_TRY(tri_ckpt_path(link, "%s/%s", dir, name));
  if (!tri_folder_has(AT_FDCWD, link) || tri_folder_has_link(AT_FDCWD, link)) return TRI_OK;
  step = step_in(link);
  if (step < 0) return make_way(link);
  TRI_TRY(tri_ckpt_step_path(whole, dir, step, TRI_CKPT_WHOLE));
  if (tri_folder_has(AT_FDCWD, whole)) return make_way(link);
  TRI_TRY(tri_folder_set_aside(link, whole));
  tri_log(TRI_LOG_WARN, "%s: is no symbolic link but a checkpoint. It is now %s.", link, whole);
  return TRI_OK;
}

static tri_status clean_all(const char *dir) {
  TRI_TRY(in_folder(dir, clean, NULL));
  warn_left(settle_link(dir, latest_link));
  warn_left(settle_link(dir, best_link));
  return TRI_OK;
}

tri_status tri_ckpt_clean(const char *dir, tri_comm *world) {
  return tri_ckpt_agree(world, world->rank == 0 ? clean_all(dir) : TRI_OK);
}

/* Renames a checkpoint to .trash first, so that a half removed one is never taken for a checkpoint. */
static tri_status put_aside(const place *p, int64_t step, entry_name *trash) {
  entry_name whole;

  TRI_TRY(name_entry(p, step, TRI_CKPT_WHOLE, &whole));
  TRI_TRY(name_entry(p, step, TRI_CKPT_TRASH, trash));
  TRI_TRY(tri_folder_check_own(p->fd, whole.name, whole.path));
  TRI_TRY(remove_entry(p, trash));
  return rename_entry(p, &whole, trash);
}

static tri_status remove_trash(const place *p, const void *what) {
  tri_status     st = TRI_OK;
  tri_ckpt_steps l = {0};
  bool           stays = false;

  (void)what;
  TRI_TRY(tri_ckpt_list(p->fd, ".", TRI_CKPT_TRASH, &l));
  for (int i = 0; i < l.n; i++) {
    entry_name trash;
    TRI_TRY_DONE(name_entry(p, l.step[i], TRI_CKPT_TRASH, &trash));
    stays |= remove_entry(p, &trash) != TRI_OK;
  }
  if (stays) st = TRI_EFILE;
done:
  TRI_FREE(l.step);
  return st;
}

/* Tells whether the manifest is whole and the files have the right sizes. Clears the error. */
static bool looks_whole(const place *p, const entry_name *e) {
  tri_ckpt_manifest m = {0};
  char             *bytes = NULL;
  size_t            n = 0;
  int               fd = openat(p->fd, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  tri_status        st = fd < 0 ? TRI_EFILE : tri_ckpt_manifest_read(fd, e->path, &bytes, &n);

  if (st == TRI_OK) st = tri_ckpt_manifest_parse(e->path, bytes, n, &m);
  if (st == TRI_OK) st = tri_ckpt_manifest_check_sizes(&m, fd, e->path);
  tri_ckpt_manifest_free(&m);
  tri_host_free((void **)&bytes);
  if (fd >= 0) close(fd);
  if (st != TRI_OK) tri_error_clear();
  return st == TRI_OK;
}

/* Selects the checkpoints to keep (tri_ckpt_retain). */
typedef struct retention {
  int     keep;
  int64_t in_use_step;
  int    *n_aside; /* counts those renamed to .trash */
} retention;

/* Renames the checkpoints to be removed. Goes on after a failure and returns the first error. */
static tri_status retain(const place *p, const void *what) {
  const retention *r = what;
  tri_status       st = TRI_OK;
  tri_ckpt_steps   l = {0};
  int64_t          latest, best = tri_ckpt_named_best(p->fd, p->dir);
  int              kept = 0;
  bool             stays = false;
  entry_name       e, trash;

  TRI_TRY(tri_ckpt_latest(p->fd, p->dir, &latest));
  TRI_TRY(tri_ckpt_list(p->fd, ".", TRI_CKPT_WHOLE, &l));
  tri_ckpt_order(&l, latest);
  for (int i = 0; i < l.n; i++) {
    TRI_TRY_DONE(name_entry(p, l.step[i], TRI_CKPT_WHOLE, &e));
    if (tri_folder_has_link(p->fd, e.name)) continue; /* a checkpoint kept elsewhere */
    if (l.step[i] == best) continue;
    if (kept < r->keep)
      kept += looks_whole(p, &e);
    else if (l.step[i] != latest && l.step[i] != r->in_use_step) {
      bool aside = put_aside(p, l.step[i], &trash) == TRI_OK;
      *r->n_aside += aside;
      stays |= !aside;
    }
  }
  if (stays) st = TRI_EFILE;
done:
  TRI_FREE(l.step);
  return st;
}

/* A failure is only logged, because the next save matters more. */
static void discard_one(const place *p, int64_t step, int64_t latest) {
  entry_name e, trash;
  tri_status st = name_entry(p, step, TRI_CKPT_WHOLE, &e);

  if (st == TRI_OK && tri_folder_has_link(p->fd, e.name)) return;
  if (st == TRI_OK) st = put_aside(p, step, &trash);
  if (st == TRI_OK) st = remove_entry(p, &trash);
  if (st == TRI_OK)
    tri_log(TRI_LOG_INFO,
            "%s/%s: removed, because the run went back to step %" PRId64 " and continued from there", p->dir,
            e.name, latest);
  else
    tri_log(TRI_LOG_WARN, "%s/%s: not removed, although the run went back to step %" PRId64 " (%s)", p->dir,
            e.name, latest, tri_error_message());
  tri_error_clear();
}

/* Removes the steps between LATEST, where the run went on from, and the step it saves now. */
static tri_status discard_abandoned(const place *p, const void *what) {
  const int64_t *next_step = what;
  tri_ckpt_steps l = {0};
  int64_t        latest;
  entry_name     e;

  if (tri_ckpt_latest(p->fd, p->dir, &latest) != TRI_OK)
    tri_error_clear(); /* with a damaged LATEST nothing is removed */
  if (latest < 0) return TRI_OK;
  TRI_TRY(name_entry(p, latest, TRI_CKPT_WHOLE, &e));
  if (!tri_folder_has(p->fd, e.name)) return TRI_OK;
  TRI_TRY(tri_ckpt_list(p->fd, ".", TRI_CKPT_WHOLE, &l));
  for (int i = 0; i < l.n; i++)
    if (l.step[i] > latest && l.step[i] < *next_step) discard_one(p, l.step[i], latest);
  TRI_FREE(l.step);
  return TRI_OK;
}

tri_status tri_ckpt_discard_abandoned(const char *dir, int64_t next_step) {
  return in_folder(dir, discard_abandoned, &next_step);
}

/* ---- Old checkpoints are removed on a thread, because a gigabyte takes a sixth of a second. */

struct tri_ckpt_sweep {
  char       dir[TRI_CKPT_PATH_BYTES];
  pthread_t  thread;
  bool       runs;
  tri_status st; /* it and message: the thread's, until it is joined */
  char       message[512];
};

static void *sweep_trash(void *sweep) {
  tri_ckpt_sweep *s = sweep;

  s->st = in_folder(s->dir, remove_trash, NULL);
  if (s->st != TRI_OK) snprintf(s->message, sizeof s->message, "%s", tri_error_message());
  return NULL;
}

static tri_status begin_sweep(const char *dir, tri_ckpt_sweep **out) {
  sigset_t        all, before;
  tri_ckpt_sweep *s;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(s, 1));
  snprintf(s->dir, sizeof s->dir, "%s", dir);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
  s->runs = !pthread_create(&s->thread, NULL, sweep_trash, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!s->runs) sweep_trash(s);
  *out = s;
  return TRI_OK;
}

tri_status tri_ckpt_retain(const char *dir, int keep, int64_t in_use_step, tri_comm *world,
                           tri_ckpt_sweep **sweep) {
  int             n_aside = 0;
  const retention r = {keep, in_use_step, &n_aside};
  tri_status      st = TRI_OK;

  TRI_ASSERT(keep >= 1);
  *sweep = NULL;
  if (world->rank == 0) {
    st = in_folder(dir, retain, &r);
    if (n_aside && begin_sweep(dir, sweep) != TRI_OK && st == TRI_OK) st = TRI_ENOMEM;
  }
  return tri_ckpt_agree(world, st);
}

tri_status tri_ckpt_sweep_end(tri_ckpt_sweep **s) {
  tri_status st;

  if (!*s) return TRI_OK;
  if ((*s)->runs) pthread_join((*s)->thread, NULL);
  st = (*s)->st;
  if (st != TRI_OK) tri_error_set(st, (*s)->message);
  TRI_FREE(*s);
  return st;
}
