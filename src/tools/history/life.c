/* life.c - finds a run's signs of life (its start, its checkpoints, the last change of its files). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "history_impl.h"

#include "base/file.h"
#include "base/visible.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double time_of(const struct stat *sb) {
  return (double)sb->st_mtim.tv_sec + 1e-9 * (double)sb->st_mtim.tv_nsec;
}

/* Returns the time of FOLDER/NAME's last change, or 0 if it is missing. */
static double changed_at(const char *folder, const char *name) {
  char        path[TRI_HISTORY_PATH_BYTES];
  struct stat sb;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  return stat(path, &sb) ? 0 : time_of(&sb);
}

static double later(double a, double b) { return a > b ? a : b; }

/* Returns the step in a name such as step-00000040, or -1 for other names. *rest points behind the digits. */
static int64_t step_of(const char *name, const char **rest) {
  char *end;

  if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") < 8) return -1;
  errno = 0;
  long long step = strtoll(name + 5, &end, 10);
  *rest = end;
  return errno ? -1 : step;
}

/* LATEST is a link to the folder of a step. A checkpoint is whole if it has a manifest. */
static void look_latest(tri_history_life *life, const char *folder) {
  char        path[TRI_HISTORY_PATH_BYTES], target[64];
  const char *rest = "";
  ssize_t     n;

  snprintf(path, sizeof path, "%s/checkpoints/LATEST", folder);
  n = readlink(path, target, sizeof target - 1);
  if (n <= 0) return;
  target[n] = 0;
  life->checkpoint_unix_s = changed_at(path, "MANIFEST.json");
  if (life->checkpoint_unix_s > 0) life->checkpoint = step_of(target, &rest);
  if (*rest || life->checkpoint < 0) life->checkpoint = -1;
  if (life->checkpoint < 0) life->checkpoint_unix_s = 0;
}

/* Looks for a step's folder that is not yet whole. */
static void look_saving(tri_history_life *life, const char *folder) {
  char           path[TRI_HISTORY_PATH_BYTES];
  struct dirent *e;
  const char    *rest;
  DIR           *d;

  snprintf(path, sizeof path, "%s/checkpoints", folder);
  d = opendir(path);
  while (d && (e = readdir(d)) != NULL) {
    if (step_of(e->d_name, &rest) < 0 || strncmp(rest, ".tmp", 4) != 0) continue;
    life->is_saving = true;
    life->seen_unix_s = later(life->seen_unix_s, changed_at(path, e->d_name));
  }
  if (d) closedir(d);
}

/* Reads "...; process 123 on HOST, at 1795823708", as src/run/start.c writes it. */
static void look_start(tri_history_life *life, const char *folder) {
  char        path[TRI_HISTORY_PATH_BYTES], *text = NULL, host[TRI_HISTORY_HOST_BYTES];
  const char *at;
  long long   pid, when;
  size_t      n;

  snprintf(path, sizeof path, "%s/.start", folder);
  if (tri_file_read(path, 4096, &text, &n) != TRI_OK) {
    tri_error_clear();
    return;
  }
  life->has_start = true;
  at = strstr(text, "; process ");
  if (at && sscanf(at, "; process %18lld on %63[^,], at %18lld", &pid, host, &when) == 3 && pid > 0 &&
      when > 0) {
    life->pid = pid;
    life->start_unix_s = (double)when;
    tri_visible(host, strlen(host), "", life->host, sizeof life->host);
  }
  TRI_FREE(text);
}

void tri_history_life_look(tri_history_life *life, const char *folder, bool *changed) {
  static const char *const file[] = {"metrics.jsonl", "run.jsonl",   "log.txt",  ".start",
                                     "deck.yaml",     "checkpoints", "rollouts", "eval"};
  tri_history_life         now;

  memset(&now, 0, sizeof now); /* memset, because the structs are compared as bytes */
  now.checkpoint = -1;
  for (size_t i = 0; i < sizeof file / sizeof *file; i++)
    now.seen_unix_s = later(now.seen_unix_s, changed_at(folder, file[i]));
  look_latest(&now, folder);
  look_saving(&now, folder);
  look_start(&now, folder);
  *changed |= memcmp(&now, life, sizeof now) != 0;
  memcpy(life, &now, sizeof now);
}
