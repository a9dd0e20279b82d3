/* pair.c - writes two files of a folder together or not at all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 2, NAME_BYTES = 256, NAMES_TRIED = 100 /* chosen. Killed processes may have left names */ };

/* One of the files on its way into place. */
typedef struct part {
  const tri_pair_file *file;
  char                 made[NAME_BYTES], old[NAME_BYTES]; /* name of our temporary file, and of the file
                                                           * replaced. "": none */
  struct stat          sb;                                /* the temporary file */
} part;

typedef struct work {
  const char *folder;
  int         at; /* descriptor of the folder */
  bool        force;
  part        part[FILES];
} work;

/* Makes a temporary name beside the file's. The caller tries other numbers until it is free. */
static void name_beside(const part *p, int number, const char *end, char out[NAME_BYTES]) {
  snprintf(out, NAME_BYTES, ".%.100s.%ld-%d.%s", p->file->name, (long)getpid(), number, end);
}

static tri_status write_all(const work *w, const part *p, int fd) {
  for (size_t have = 0; have < p->file->n_bytes;) {
    ssize_t n = write(fd, p->file->text + have, p->file->n_bytes - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) TRI_FAIL(TRI_EFILE, "%s/%s: writing failed: %s", w->folder, p->file->name, strerror(errno));
    have += (size_t)n;
  }
  if (fsync(fd)) TRI_FAIL(TRI_EFILE, "%s/%s: writing failed: %s", w->folder, p->file->name, strerror(errno));
  return TRI_OK;
}

static tri_status make(const work *w, part *p) {
  char       name[NAME_BYTES];
  int        fd = -1;
  tri_status st;

  for (int i = 0; i < NAMES_TRIED && fd < 0; i++) {
    name_beside(p, i, "tmp", name);
    fd = openat(w->at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot create a file: %s", w->folder, strerror(errno));
  memcpy(p->made, name, sizeof name);
  st = write_all(w, p, fd);
  if (st == TRI_OK && fstat(fd, &p->sb))
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s/%s: %s", w->folder, p->file->name,
                  strerror(errno));
  if (close(fd) && st == TRI_OK)
    TRI_FAIL(TRI_EFILE, "%s/%s: closing failed: %s", w->folder, p->file->name, strerror(errno));
  return st;
}

/* Returns whether the file in place is ours. */
static bool is_ours(const work *w, const part *p) {
  struct stat here;

  return p->made[0] && !fstatat(w->at, p->file->name, &here, AT_SYMLINK_NOFOLLOW) &&
         here.st_dev == p->sb.st_dev && here.st_ino == p->sb.st_ino;
}

/* Gives the existing file another name, so that it can be put back. */
static tri_status keep_old(const work *w, part *p) {
  struct stat sb;
  char        name[NAME_BYTES];
  int         i = 0;

  if (fstatat(w->at, p->file->name, &sb, AT_SYMLINK_NOFOLLOW)) return TRI_OK; /* nothing there */
  if (S_ISDIR(sb.st_mode)) TRI_FAIL(TRI_EFILE, "%s/%s: is a folder", w->folder, p->file->name);
  do name_beside(p, i, "old", name);
  while (!fstatat(w->at, name, &sb, AT_SYMLINK_NOFOLLOW) && ++i < NAMES_TRIED);
  if (linkat(w->at, p->file->name, w->at, name, 0) && renameat(w->at, p->file->name, w->at, name))
    TRI_FAIL(TRI_EFILE, "%s/%s: cannot be replaced: %s", w->folder, p->file->name, strerror(errno));
  memcpy(p->old, name, sizeof name);
  return TRI_OK;
}

static tri_status take_over(const work *w, part *p) {
  TRI_TRY(keep_old(w, p));
  if (renameat(w->at, p->made, w->at, p->file->name))
    TRI_FAIL(TRI_EFILE, "%s/%s: cannot be written: %s", w->folder, p->file->name, strerror(errno));
  return TRI_OK;
}

/* Puts a file in place without replacing another one. If two processes come at once, link lets one succeed. A
 * file server that lost its own reply may report EEXIST for our own file. */
static tri_status take(const work *w, part *p) {
  int error = linkat(w->at, p->made, w->at, p->file->name, 0) ? errno : 0;

  if (error == EEXIST && !is_ours(w, p))
    TRI_FAIL(TRI_EARG, "%s/%s exists. Use another folder, or --force to replace it", w->folder,
             p->file->name);
  if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS)
    TRI_FAIL(TRI_EFILE,
             "%s: its file system has no hard links, which are needed to keep two writers "
             "apart. Use --force if no other process writes there",
             w->folder);
  if (error && error != EEXIST)
    TRI_FAIL(TRI_EFILE, "%s/%s: cannot be written: %s", w->folder, p->file->name, strerror(error));
  return TRI_OK;
}

/* Puts the earlier state back in place. */
static void give_back(const work *w, part *p) {
  if (p->old[0])
    renameat(w->at, p->old, w->at, p->file->name);
  else if (is_ours(w, p))
    unlinkat(w->at, p->file->name, 0);
}

tri_status tri_pair_write(const char *folder, const tri_pair_file file[2], bool force) {
  work w = {.folder = folder, .at = -1, .force = force, .part = {{.file = &file[0]}, {.file = &file[1]}}};
  tri_status st = TRI_OK;

  w.at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (w.at < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be opened: %s", folder, strerror(errno));
  for (int i = 0; i < FILES; i++) TRI_TRY_DONE(make(&w, &w.part[i]));
  for (int i = 0; i < FILES; i++) TRI_TRY_DONE(force ? take_over(&w, &w.part[i]) : take(&w, &w.part[i]));
done:
  for (int i = FILES - 1; i >= 0; i--) {
    if (st != TRI_OK) give_back(&w, &w.part[i]);
    if (w.part[i].old[0]) unlinkat(w.at, w.part[i].old, 0);
    if (w.part[i].made[0]) unlinkat(w.at, w.part[i].made, 0);
  }
  close(w.at);
  return st;
}
