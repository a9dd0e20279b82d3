/* where.c - checks whether the output folder was renamed or removed during the run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "output.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns whether this path is the open folder. */
static bool is_named(int fd, const char *path) {
  struct stat a, b;

  return fstat(fd, &a) || (!stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* Writes the present path of the open folder. Returns false if it has none. */
static bool find_folder(int fd, char path[TRI_CKPT_PATH_BYTES]) {
  char        link[64];
  struct stat sb;
  ssize_t     n;

  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  n = readlink(link, path, TRI_CKPT_PATH_BYTES - 1);
  path[n > 0 ? n : 0] = 0;
  return n > 0 && !fstat(fd, &sb) && sb.st_nlink > 0 && is_named(fd, path);
}

/* Makes the folder again, or takes an empty folder that someone has put there, and claims it for this run. */
static tri_status begin_anew(tri_run *r) {
  const char *output = r->cfg->run.output;
  char        path[TRI_CKPT_PATH_BYTES + 64];
  bool        empty;
  int         fd;

  if (mkdir(output, 0777) && errno != EEXIST)
    TRI_FAIL(TRI_EFILE, "run.output: %s was removed during the run and cannot be made again: %s", output,
             strerror(errno));
  fd = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)) {
    if (fd >= 0) close(fd);
    TRI_FAIL(
        TRI_EFILE,
        "run.output: %s was removed during the run, and another run has the folder that is there now. Move "
        "it away",
        output);
  }
  /* this run would remove another run's checkpoints from the folder */
  if (tri_folder_is_empty(output, &empty) != TRI_OK || !empty) {
    close(fd);
    TRI_FAIL(
        TRI_EFILE,
        "run.output: %s was removed during the run, and the folder that is there now is not empty. Move it "
        "away",
        output);
  }
  close(r->lock);
  r->lock = fd;
  r->claimed = false;
  TRI_TRY(tri_start_claim(r));
  snprintf(path, sizeof path, "%s/deck.yaml", output);
  TRI_TRY(tri_file_write(path, r->deck.data, r->deck.len));
  tri_warn("folder_removed",
           "run.output: %s was removed during the run and was made again. Checkpoints and metrics of "
           "further steps go there. Those of earlier steps are lost, and so is log.txt",
           output);
  return TRI_OK;
}

tri_status tri_run_check_folder(tri_run *r, bool *anew) {
  const char *output = r->cfg->run.output;
  char        now[TRI_CKPT_PATH_BYTES];
  tri_status  st;

  *anew = false;
  if (r->lock < 0 || is_named(r->lock, output)) {
    if (r->is_moved) tri_log(TRI_LOG_INFO, "run.output: %s is back in its place", output);
    r->is_moved = false;
    return TRI_OK;
  }
  if (!find_folder(r->lock, now)) {
    st = begin_anew(r);
    r->is_moved = st != TRI_OK; /* reported once */
    *anew = st == TRI_OK;
    return st;
  }
  r->is_moved = true;
  TRI_FAIL(TRI_EFILE,
           "run.output: %s was renamed to %s during the run. No checkpoint can be written until it has "
           "its name again: mv %s %s",
           output, now, now, output);
}
