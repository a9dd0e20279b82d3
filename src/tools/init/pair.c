/* pair.c - two files of a folder that belong together: both of them or none, and over no other's unasked. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 2, NAME_BYTES = 256, NAMES_TRIED = 100 /* chosen: of processes that were killed here */ };

/* One of them on its way to its place. */
typedef struct part {
  const tri_pair_file *file;
  char                 made[NAME_BYTES], old[NAME_BYTES]; /* ours; what stood in the place; "": nothing */
  struct stat          sb;                                /* of what we made */
} part;

typedef struct work {
  const char *folder;
  int         at; /* the folder, open */
  bool        force;
  part        part[FILES];
} work;

/* A name beside the file's that nobody has yet: number is changed until it is one. */
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
  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: no file can be made there: %s", w->folder, strerror(errno));
  memcpy(p->made, name, sizeof name);
  st = write_all(w, p, fd);
  if (st == TRI_OK && fstat(fd, &p->sb))
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s/%s: %s", w->folder, p->file->name,
                  strerror(errno));
  if (close(fd) && st == TRI_OK)
    TRI_FAIL(TRI_EFILE, "%s/%s: closing failed: %s", w->folder, p->file->name, strerror(errno));
  return st;
}

/* Does it stand in its place? */
static bool is_ours(const work *w, const part *p) {
  struct stat here;

  return p->made[0] && !fstatat(w->at, p->file->name, &here, AT_SYMLINK_NOFOLLOW) &&
         here.st_dev == p->sb.st_dev && here.st_ino == p->sb.st_ino;
}

/* Another name for what stands in the place, so that it can have it again. */
static tri_status keep_old(const work *w, part *p) {
  struct stat sb;
  char        name[NAME_BYTES];
  int         i = 0;

  if (fstatat(w->at, p->file->name, &sb, AT_SYMLINK_NOFOLLOW)) return TRI_OK; /* nothing */
  if (S_ISDIR(sb.st_mode)) TRI_FAIL(TRI_EFILE, "%s/%s: is a folder", w->folder, p->file->name);
  do name_beside(p, i, "old", name);
  while (!fstatat(w->at, name, &sb, AT_SYMLINK_NOFOLLOW) && ++i < NAMES_TRIED);
  if (linkat(w->at, p->file->name, w->at, name, 0) && renameat(w->at, p->file->name, w->at, name))
    TRI_FAIL(TRI_EFILE, "%s/%s: cannot be written over: %s", w->folder, p->file->name, strerror(errno));
  memcpy(p->old, name, sizeof name);
  return TRI_OK;
}

static tri_status take_over(const work *w, part *p) {
  TRI_TRY(keep_old(w, p));
  if (renameat(w->at, p->made, w->at, p->file->name))
    TRI_FAIL(TRI_EFILE, "%s/%s: cannot be written: %s", w->folder, p->file->name, strerror(errno));
  return TRI_OK;
}

/* Of two that come at once the file system lets one have the place. A server that lost its own answer may say
 * that it is taken, by us. */
static tri_status take(const work *w, part *p) {
  int error = linkat(w->at, p->made, w->at, p->file->name, 0) ? errno : 0;

  if (error == EEXIST && !is_ours(w, p))
    TRI_FAIL(TRI_EARG, "%s/%s is there already: another folder, or --force to write over it", w->folder,
             p->file->name);
  if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS)
    TRI_FAIL(TRI_EFILE,
             "%s: its file system has no hard links, without which two that write at once cannot be kept "
             "apart: --force, where no other does",
             w->folder);
  if (error && error != EEXIST)
    TRI_FAIL(TRI_EFILE, "%s/%s: cannot be written: %s", w->folder, p->file->name, strerror(error));
  return TRI_OK;
}

/* Its place is as it was before. */
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
