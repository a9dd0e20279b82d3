/* checkpoint_dir.c - the checkpoints folder: publish, LATEST, retention, leftovers, the choice of one. */
#include "base/file.h"
#include "base/folder.h"
#include "checkpoint_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A step folder's states: step-N.tmp (being written) -> step-N -> step-N.trash (being deleted);
 * step-N -> step-N.old while another step-N takes its place. */
typedef enum { WHOLE, TMP, TRASH, OLD, OTHER } kind_of_name;
static const char *const suffix[] = {"", ".tmp", ".trash", ".old"};
static const char        link_tmp[] = ".LATEST.tmp";
static const char first_removed[] = "MANIFEST.json"; /* so that half of a folder is never a whole one */

typedef struct step_list {
  int64_t *step; /* [n] */
  int      n, room;
} step_list;

tri_status tri_ckpt_agree(tri_comm *world, tri_status mine) { return world ? tri_agree(world, mine) : mine; }

tri_status tri_ckpt_path(char out[TRI_CKPT_PATH_BYTES], const char *fmt, ...) {
  va_list ap;
  int     n;

  va_start(ap, fmt);
  n = vsnprintf(out, TRI_CKPT_PATH_BYTES, fmt, ap);
  va_end(ap);
  if (n < 0 || n >= TRI_CKPT_PATH_BYTES) {
    out[0] = 0;
    TRI_FAIL(TRI_EFILE, "a path of %d bytes is too long, at most %d are possible", n,
             TRI_CKPT_PATH_BYTES - 1);
  }
  return TRI_OK;
}

tri_status tri_ckpt_sync(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC), bad;

  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be opened to be made durable: %s", path, strerror(errno));
  bad = fsync(fd) && errno != EINVAL; /* EINVAL: a file system that has nothing to sync there */
  if (bad)
    tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: cannot be made durable: %s", path,
             strerror(errno));
  close(fd);
  return bad ? TRI_EFILE : TRI_OK;
}

tri_status tri_ckpt_remove(const char *folder) {
  return tri_folder_remove(AT_FDCWD, folder, folder, first_removed);
}

/* step-00000040, step-00000040.tmp and so on; *step is set unless OTHER. */
static kind_of_name parse_name(const char *name, int64_t *step) {
  char again[64], *end;
  int  k;

  if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") < 8) return OTHER;
  errno = 0;
  *step = strtoll(name + 5, &end, 10);
  for (k = WHOLE; k < OTHER && strcmp(end, suffix[k]) != 0; k++) continue;
  snprintf(again, sizeof again, "step-%08" PRId64 "%s", *step, k < OTHER ? suffix[k] : "");
  return errno == 0 && !strcmp(again, name) ? (kind_of_name)k : OTHER;
}

static tri_status step_path(char out[TRI_CKPT_PATH_BYTES], const char *dir, int64_t step, kind_of_name kind) {
  return tri_ckpt_path(out, "%s/step-%08" PRId64 "%s", dir, step, suffix[kind]);
}

static tri_status rename_folder(const char *from, const char *to) {
  if (rename(from, to)) TRI_FAIL(TRI_EFILE, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
  return TRI_OK;
}

/* The step that LATEST names in the folder `at`, AT_FDCWD where dir is its path; else that is for messages.
 * -1 without one. A LATEST that is no link to a step folder is TRI_EFORMAT. */
static tri_status read_latest(int at, const char *dir, int64_t *step) {
  char    path[TRI_CKPT_PATH_BYTES], target[64];
  ssize_t n;

  *step = -1;
  TRI_TRY(tri_ckpt_path(path, "%s/LATEST", dir));
  n = readlinkat(at, at == AT_FDCWD ? path : "LATEST", target, sizeof target);
  if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) return TRI_OK;
  if (n < 0) TRI_FAIL(TRI_EFORMAT, "%s: is not a symbolic link: %s", path, strerror(errno));
  target[n < (ssize_t)sizeof target ? n : (ssize_t)sizeof target - 1] = 0;
  if (parse_name(target, step) != WHOLE) {
    *step = -1;
    TRI_FAIL(TRI_EFORMAT, "%s: names '%s', which is no step folder", path, target);
  }
  return TRI_OK;
}

tri_status tri_ckpt_publish(const char *dir, int64_t step) {
  tri_status st = TRI_OK;
  char       tmp[TRI_CKPT_PATH_BYTES], whole[TRI_CKPT_PATH_BYTES], old[TRI_CKPT_PATH_BYTES];
  char       link_new[TRI_CKPT_PATH_BYTES], latest[TRI_CKPT_PATH_BYTES], target[64];
  bool       replaced = false, renamed = false;

  TRI_TRY(step_path(tmp, dir, step, TMP));
  TRI_TRY(step_path(whole, dir, step, WHOLE));
  TRI_TRY(step_path(old, dir, step, OLD));
  TRI_TRY(tri_ckpt_path(link_new, "%s/%s", dir, link_tmp));
  TRI_TRY(tri_ckpt_path(latest, "%s/LATEST", dir));
  snprintf(target, sizeof target, "step-%08" PRId64, step);
  /* Everything that takes space comes before the first rename. */
  if ((unlink(link_new) && errno != ENOENT) || symlink(target, link_new))
    TRI_FAIL(TRI_EFILE, "%s: cannot be made: %s", link_new, strerror(errno));
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
done: /* only failures come here: everything as it was */
  unlink(link_new);
  if (renamed) rename(whole, tmp);
  if (replaced && !tri_folder_has(AT_FDCWD, whole)) rename(old, whole);
  return st;
}

/* ---- the steps of a folder */

static tri_status step_list_add(step_list *l, int64_t step) {
  if (l->n == l->room) {
    int64_t *more;
    TRI_TRY(TRI_ALLOC(more, 2 * l->room + 64));
    if (l->n) memcpy(more, l->step, (size_t)l->n * sizeof *more);
    TRI_FREE(l->step);
    l->step = more;
    l->room = 2 * l->room + 64;
  }
  l->step[l->n++] = step;
  return TRI_OK;
}

static int newest_first(const void *a, const void *b) {
  const int64_t *x = a, *y = b;

  return (*x < *y) - (*x > *y);
}

/* Steps of the entries of this kind in the folder dir, a path from the open folder `at`, newest first.
 * l->step by tri_host_free. */
static tri_status list_steps(int at, const char *dir, kind_of_name kind, step_list *l) {
  tri_status     st = TRI_OK;
  struct dirent *entry;
  int64_t        step;
  int            fd = openat(at, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR           *d = fd < 0 ? NULL : fdopendir(fd);

  *l = (step_list){0};
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return TRI_OK;
  if (!d) {
    tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: cannot be read: %s", dir, strerror(errno));
    if (fd >= 0) close(fd);
    return TRI_EFILE;
  }
  while ((entry = readdir(d)))
    if (parse_name(entry->d_name, &step) == kind) TRI_TRY_DONE(step_list_add(l, step));
  if (l->n) qsort(l->step, (size_t)l->n, sizeof *l->step, newest_first);
done:
  closedir(d);
  if (st != TRI_OK) TRI_FREE(l->step);
  return st;
}

static tri_status point_latest(const char *dir, int64_t step) {
  char link_new[TRI_CKPT_PATH_BYTES], latest[TRI_CKPT_PATH_BYTES], target[64];

  TRI_TRY(tri_ckpt_path(link_new, "%s/%s", dir, link_tmp));
  TRI_TRY(tri_ckpt_path(latest, "%s/LATEST", dir));
  snprintf(target, sizeof target, "step-%08" PRId64, step);
  if ((unlink(link_new) && errno != ENOENT) || symlink(target, link_new))
    TRI_FAIL(TRI_EFILE, "%s: cannot be made: %s", link_new, strerror(errno));
  TRI_TRY(rename_folder(link_new, latest));
  return tri_ckpt_sync(dir);
}

tri_status tri_ckpt_wind_back(const char *dir, int64_t step, bool *moved) {
  int64_t latest;
  char    whole[TRI_CKPT_PATH_BYTES];

  *moved = false;
  TRI_TRY(step_path(whole, dir, step, WHOLE));
  if (read_latest(AT_FDCWD, dir, &latest) != TRI_OK) tri_error_clear(); /* what is wrong with it goes */
  if (latest == step || !tri_file_exists(whole)) return TRI_OK;
  TRI_TRY(point_latest(dir, step));
  *moved = true;
  return TRI_OK;
}

/* Newest first, but steps above LATEST's after all others: they are of a run that was wound back. */
static void wind_back(step_list *l, int64_t latest) {
  int64_t *s = l->step;
  int      above = 0;

  while (above < l->n && s[above] > latest) above++;
  if (latest < 0 || above == l->n) return;
  for (int k = 0; k < above; k++) { /* one rotation each; lists are short */
    int64_t first = s[0];
    memmove(s, s + 1, (size_t)(l->n - 1) * sizeof *s);
    s[l->n - 1] = first;
  }
}

/* ---- clean and retain: rank 0's work. Entries are named relative to the open folder, so that no link on the
 * way to it can change where they lie. */

/* The checkpoints folder. */
typedef struct place {
  const char *dir; /* borrowed */
  int         fd;
} place;

typedef struct entry_name {
  char name[64], path[TRI_CKPT_PATH_BYTES];
} entry_name;

static tri_status name_entry(const place *p, int64_t step, kind_of_name kind, entry_name *out) {
  snprintf(out->name, sizeof out->name, "step-%08" PRId64 "%s", step, suffix[kind]);
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

static tri_status clean_entry(const place *p, int64_t step, kind_of_name kind) {
  entry_name left, whole;

  TRI_TRY(name_entry(p, step, kind, &left));
  TRI_TRY(name_entry(p, step, WHOLE, &whole));
  if (kind != OLD || tri_folder_has(p->fd, whole.name) || tri_folder_has_link(p->fd, left.name))
    return remove_entry(p, &left);
  TRI_TRY(tri_folder_check_own(p->fd, left.name, left.path));
  return rename_entry(p, &left, &whole);
}

/* What cannot be removed is in nobody's way: a run starts all the same. */
static void warn_left(tri_status st) {
  if (st != TRI_OK) tri_log(TRI_LOG_WARN, "left over by an earlier run: %s", tri_error_message());
  if (st != TRI_OK) tri_error_clear();
}

static tri_status clean(const place *p) {
  step_list l = {0};

  for (kind_of_name kind = TMP; kind <= OLD; kind++) {
    TRI_TRY(list_steps(p->fd, ".", kind, &l));
    for (int i = 0; i < l.n; i++) warn_left(clean_entry(p, l.step[i], kind));
    TRI_FREE(l.step);
  }
  if (unlinkat(p->fd, link_tmp, 0) && errno != ENOENT)
    warn_left(tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s/%s: cannot be removed: %s", p->dir,
                       link_tmp, strerror(errno)));
  return TRI_OK;
}

static tri_status open_and_clean(const char *dir) {
  tri_status st;
  place      p = {dir, -1};

  TRI_TRY(tri_folder_open(dir, &p.fd));
  if (p.fd < 0) return TRI_OK;
  st = clean(&p);
  close(p.fd);
  return st;
}

tri_status tri_ckpt_clean(const char *dir, tri_comm *world) {
  TRI_TRY(tri_ckpt_agree(world, world->rank == 0 ? open_and_clean(dir) : TRI_OK));
  return TRI_OK;
}

/* By way of another name, so that no half of it is ever a checkpoint. */
static tri_status discard(const place *p, int64_t step) {
  entry_name whole, trash;

  TRI_TRY(name_entry(p, step, WHOLE, &whole));
  TRI_TRY(name_entry(p, step, TRASH, &trash));
  TRI_TRY(tri_folder_check_own(p->fd, whole.name, whole.path));
  TRI_TRY(remove_entry(p, &trash));
  TRI_TRY(rename_entry(p, &whole, &trash));
  return remove_entry(p, &trash);
}

/* Is there a manifest that is whole, and files of the right sizes? The error is not kept. */
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

/* What cannot be discarded is passed over; the first of it is the error. */
static tri_status retain(const place *p, int keep, int64_t in_use_step) {
  tri_status st = TRI_OK;
  step_list  l = {0};
  int64_t    latest;
  int        kept = 0;
  bool       stays = false;
  entry_name e;

  TRI_TRY(read_latest(p->fd, p->dir, &latest));
  TRI_TRY(list_steps(p->fd, ".", WHOLE, &l));
  wind_back(&l, latest);
  for (int i = 0; i < l.n; i++) {
    TRI_TRY_DONE(name_entry(p, l.step[i], WHOLE, &e));
    if (tri_folder_has_link(p->fd, e.name)) continue; /* a checkpoint that is kept elsewhere */
    if (kept < keep)
      kept += looks_whole(p, &e);
    else if (l.step[i] != latest && l.step[i] != in_use_step)
      stays |= discard(p, l.step[i]) != TRI_OK;
  }
  if (stays) st = TRI_EFILE;
done:
  TRI_FREE(l.step);
  return st;
}

/* What fails is a message, no more: the next save is what counts. */
static void discard_one(const place *p, int64_t step, int64_t latest) {
  entry_name e;
  tri_status st = name_entry(p, step, WHOLE, &e);

  if (st == TRI_OK && tri_folder_has_link(p->fd, e.name)) return;
  if (st == TRI_OK) st = discard(p, step);
  if (st == TRI_OK)
    tri_log(TRI_LOG_INFO, "%s/%s: removed, as the run went back to step %" PRId64 " and on from there",
            p->dir, e.name, latest);
  else
    tri_log(TRI_LOG_WARN, "%s/%s: stays, though the run went back to step %" PRId64 ": %s", p->dir, e.name,
            latest, tri_error_message());
  tri_error_clear();
}

/* Those between the checkpoint the run went on from, which LATEST names, and the one it saves now. */
static tri_status discard_abandoned(const place *p, int64_t next_step) {
  step_list  l = {0};
  int64_t    latest;
  entry_name e;

  if (read_latest(p->fd, p->dir, &latest) != TRI_OK) tri_error_clear(); /* of a damaged one nothing follows */
  if (latest < 0) return TRI_OK;
  TRI_TRY(name_entry(p, latest, WHOLE, &e));
  if (!tri_folder_has(p->fd, e.name)) return TRI_OK;
  TRI_TRY(list_steps(p->fd, ".", WHOLE, &l));
  for (int i = 0; i < l.n; i++)
    if (l.step[i] > latest && l.step[i] < next_step) discard_one(p, l.step[i], latest);
  TRI_FREE(l.step);
  return TRI_OK;
}

tri_status tri_ckpt_discard_abandoned(const char *dir, int64_t next_step) {
  tri_status st;
  place      p = {dir, -1};

  TRI_TRY(tri_folder_open(dir, &p.fd));
  if (p.fd < 0) return TRI_OK;
  st = discard_abandoned(&p, next_step);
  close(p.fd);
  return st;
}

static tri_status open_and_retain(const char *dir, int keep, int64_t in_use_step) {
  tri_status st;
  place      p = {dir, -1};

  TRI_TRY(tri_folder_open(dir, &p.fd));
  if (p.fd < 0) return TRI_OK;
  st = retain(&p, keep, in_use_step);
  close(p.fd);
  return st;
}

tri_status tri_ckpt_retain(const char *dir, int keep, int64_t in_use_step, tri_comm *world) {
  TRI_ASSERT(keep >= 1);
  TRI_TRY(tri_ckpt_agree(world, world->rank == 0 ? open_and_retain(dir, keep, in_use_step) : TRI_OK));
  return TRI_OK;
}

/* ---- the choice */

/* Is path itself a checkpoint, by its name or by what lies in it? */
static bool is_step_folder(const char *path) {
  const char *end = path + strlen(path), *name;
  char        last[64];
  int64_t     step;

  while (end > path && end[-1] == '/') end--;
  for (name = end; name > path && name[-1] != '/'; name--) continue;
  snprintf(last, sizeof last, "%.*s", (int)(end - name), name);
  return tri_file_exists(path) && (parse_name(last, &step) != OTHER || tri_file_in(path, "MANIFEST.json") ||
                                   tri_file_in(path, "state.h5"));
}

/* The folder whose step folders `path` means. */
static tri_status checkpoints_of(const char *path, char dir[TRI_CKPT_PATH_BYTES]) {
  return tri_ckpt_path(dir, "%s%s", path, tri_file_in(path, "checkpoints") ? "/checkpoints" : "");
}

tri_status tri_ckpt_find_latest(const char *path, char folder[TRI_CKPT_PATH_BYTES]) {
  char    dir[TRI_CKPT_PATH_BYTES];
  int64_t latest;

  folder[0] = 0;
  TRI_TRY(checkpoints_of(path, dir));
  if (read_latest(AT_FDCWD, dir, &latest) != TRI_OK)
    tri_error_clear(); /* tri_ckpt_find says what is wrong with it */
  if (latest < 0) return TRI_OK;
  TRI_TRY(step_path(folder, dir, latest, WHOLE));
  if (!tri_file_exists(folder)) folder[0] = 0;
  return TRI_OK;
}

/* Candidates in the order they are tried, each with its NUL; `notes` gets what is wrong with LATEST. */
static tri_status candidates(const char *path, tri_text *list, tri_text *notes) {
  tri_status st = TRI_OK;
  step_list  l = {0};
  int64_t    latest = -1;
  char       dir[TRI_CKPT_PATH_BYTES], folder[TRI_CKPT_PATH_BYTES];

  if (is_step_folder(path)) return tri_text_put(list, path, strlen(path) + 1);
  TRI_TRY(checkpoints_of(path, dir));
  TRI_TRY_DONE(list_steps(AT_FDCWD, dir, WHOLE, &l));
  if (read_latest(AT_FDCWD, dir, &latest) != TRI_OK) {
    TRI_TRY_DONE(tri_text_printf(notes, "%s\n", tri_error_message()));
    tri_error_clear();
  }
  if (latest >= 0) {
    TRI_TRY_DONE(step_path(folder, dir, latest, WHOLE));
    if (!tri_file_exists(folder))
      TRI_TRY_DONE(tri_text_printf(notes, "%s: LATEST names it, but it is not there\n", folder));
  }
  wind_back(&l, latest);
  for (int i = 0; i < l.n; i++) {
    TRI_TRY_DONE(step_path(folder, dir, l.step[i], WHOLE));
    TRI_TRY_DONE(tri_text_put(list, folder, strlen(folder) + 1));
  }
done:
  TRI_FREE(l.step);
  return st;
}

/* Rank 0's text on every rank. Collective over world. */
static tri_status share_text(tri_comm *world, tri_text *text) {
  tri_status st = TRI_OK;
  int64_t    n = (int64_t)text->len;
  char      *bytes = NULL;

  if (!world) return TRI_OK;
  TRI_TRY(tri_host_bcast(world, &n, sizeof n, 0));
  TRI_TRY(tri_ckpt_agree(world, tri_host_alloc((size_t)n + 1, 1, (void **)&bytes)));
  if (n && world->rank == 0) memcpy(bytes, text->data, (size_t)n);
  TRI_TRY_DONE(tri_host_bcast(world, bytes, (size_t)n, 0));
  if (world->rank != 0) st = tri_text_put(text, bytes, (size_t)n);
  TRI_TRY_DONE(tri_ckpt_agree(world, st));
done:
  tri_host_free((void **)&bytes);
  return st;
}

/* Each damaged one in a line, which a newline ends. */
static tri_status fail_all(char *notes) {
  size_t first = strcspn(notes, "\n"), all = strlen(notes);

  notes[first] = 0;
  tri_fail(__FILE__, __LINE__, __func__, TRI_EFORMAT, "%s", notes);
  if (first + 1 >= all) return TRI_EFORMAT;
  notes[first] = '\n';
  notes[all - 1] = 0;
  tri_error_lines(notes + first);
  return TRI_EFORMAT;
}

tri_status tri_ckpt_find(const char *path, tri_comm *world, bool verify, tri_text *skipped,
                         char folder[TRI_CKPT_PATH_BYTES]) {
  tri_status st;
  tri_text   list = {0}, notes = {0};
  bool       decides = !world || world->rank == 0;

  folder[0] = 0;
  TRI_TRY_DONE(tri_ckpt_agree(world, decides ? candidates(path, &list, &notes) : TRI_OK));
  TRI_TRY_DONE(share_text(world, &list));
  TRI_TRY_DONE(share_text(world, &notes));
  for (size_t at = 0; at < list.len; at += strlen(list.data + at) + 1) {
    tri_ckpt_reader *r = NULL;
    st = tri_ckpt_open(list.data + at, world, verify, &r);
    tri_ckpt_close(&r);
    if (st == TRI_OK) {
      TRI_TRY_DONE(tri_ckpt_path(folder, "%s", list.data + at));
      break;
    }
    if (st != TRI_EFORMAT && st != TRI_EFILE) goto done;
    TRI_TRY_DONE(tri_text_printf(&notes, "%s\n", tri_error_message()));
    tri_error_clear();
    st = TRI_OK;
  }
  if (!folder[0] && notes.len) {
    st = fail_all(notes.data);
    goto done;
  }
  if (skipped && notes.len) TRI_TRY_DONE(tri_text_put(skipped, notes.data, notes.len));
done:
  tri_text_free(&list);
  tri_text_free(&notes);
  return st;
}
