/* later.c - removes files of answers for steps to be taken again by a resumed run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/folder.h"
#include "base/log.h"
#include "io/text/lines.h"
#include "output.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kept[] = {"rollouts", "eval"};

bool tri_output_is_within(const char *path, const char *folder) {
  char  *at = realpath(path, NULL), *top = realpath(folder, NULL);
  size_t n = top ? strlen(top) : 0;
  bool   within = at && top && !strncmp(at, top, n) && (at[n] == '/' || !at[n]);

  free(at);
  free(top);
  return within;
}

/* Returns whether the deck reads files in the folder. Such files are more than this run's output. */
static bool is_read(const tri_config *c, const char *folder) {
  bool read = c->rollout.replay && tri_output_is_within(c->rollout.replay, folder);

  for (int i = 0; i < c->data.train.n; i++) read |= tri_output_is_within(c->data.train.item[i], folder);
  for (int i = 0; i < c->data.eval.n; i++) read |= tri_output_is_within(c->data.eval.item[i], folder);
  return read;
}

/* Returns whether the file has answers of a step to be taken again, or is the unfinished file of a killed
 * start. */
static bool goes(const char *name, int64_t step) {
  char   whole[40]; /* as long as the longest valid name */
  size_t n = strlen(name), end = sizeof ".tmp" - 1;

  if (n < end || n >= sizeof whole + end || strcmp(name + n - end, ".tmp"))
    return tri_lines_step(name) > step;
  snprintf(whole, sizeof whole, "%.*s", (int)(n - end), name);
  return tri_lines_step(whole) >= 0;
}

/* Takes over the open folder `fd` and closes it. */
static tri_status cut_folder(const char *path, int fd, int64_t step, int *n) {
  tri_status     st = TRI_OK;
  DIR           *dir = fdopendir(fd);
  struct dirent *e;

  if (!dir) close(fd);
  if (!dir) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", path, strerror(errno));
  while ((errno = 0, e = readdir(dir)) != NULL) {
    if (!goes(e->d_name, step)) continue;
    if (unlinkat(fd, e->d_name, 0))
      TRI_FAIL_DONE(TRI_EFILE, "%s/%s: cannot be removed: %s", path, e->d_name, strerror(errno));
    ++*n;
  }
  if (errno) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be read: %s", path, strerror(errno));
done:
  closedir(dir);
  return st;
}

tri_status tri_output_cut(const tri_run *r, int64_t step) {
  char path[TRI_CKPT_PATH_BYTES + 32];
  int  fd, n;

  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    n = 0;
    snprintf(path, sizeof path, "%s/%s", r->cfg->run.output, kept[i]);
    if (is_read(r->cfg, path)) continue;
    if (tri_folder_open(path, &fd) != TRI_OK) tri_error_clear(); /* later writes report the error */
    if (fd < 0) continue;
    TRI_TRY(cut_folder(path, fd, step, &n));
    if (n)
      tri_log(TRI_LOG_INFO,
              "%s: removed %d file%s of steps after %lld, because the run takes these steps again", path, n,
              n == 1 ? "" : "s", (long long)step);
  }
  return TRI_OK;
}
