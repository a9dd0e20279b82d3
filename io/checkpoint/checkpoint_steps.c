/* checkpoint_steps.c - names and lists the step folders of a checkpoints folder, and reads its links. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const suffix[] = {"", ".tmp", ".trash", ".old"};

/* Returns how often Slurm has requeued this job. */
static int count_restarts(void) {
  const char *text = getenv("SLURM_RESTART_COUNT");
  long        n = text ? strtol(text, NULL, 10) : 0;

  return n > 0 && n < 1000000 ? (int)n : 0;
}

void tri_ckpt_step_name(char out[TRI_CKPT_FILE_NAME_BYTES], int64_t step, tri_ckpt_kind kind) {
  int n = snprintf(out, TRI_CKPT_FILE_NAME_BYTES, "step-%08" PRId64 "%s", step, suffix[kind]), restarts;

  if (kind == TRI_CKPT_TMP && (restarts = count_restarts()) > 0)
    snprintf(out + n, (size_t)(TRI_CKPT_FILE_NAME_BYTES - n), "-%d", restarts);
}

/* Tells whether the name ends in ".tmp-R", as ".tmp-3" after the third requeue. */
static bool is_restarts_tmp(const char *end) {
  size_t n = strlen(suffix[TRI_CKPT_TMP]);

  return !strncmp(end, suffix[TRI_CKPT_TMP], n) && end[n] == '-' && end[n + 1] >= '1' && end[n + 1] <= '9' &&
         strspn(end + n + 1, "0123456789") <= 6 && !end[n + 1 + strspn(end + n + 1, "0123456789")];
}

tri_ckpt_kind tri_ckpt_parse_name(const char *name, int64_t *step) {
  char again[TRI_CKPT_FILE_NAME_BYTES], *end;
  int  k;

  if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") < 8) return TRI_CKPT_OTHER;
  errno = 0;
  *step = strtoll(name + 5, &end, 10);
  for (k = TRI_CKPT_WHOLE; k < TRI_CKPT_OTHER && strcmp(end, suffix[k]) != 0; k++) continue;
  if (k == TRI_CKPT_OTHER && is_restarts_tmp(end)) k = TRI_CKPT_TMP;
  tri_ckpt_step_name(again, *step, TRI_CKPT_WHOLE); /* the number must be written like this */
  return errno == 0 && (size_t)(end - name) == strlen(again) && !strncmp(again, name, strlen(again))
             ? (tri_ckpt_kind)k
             : TRI_CKPT_OTHER;
}

tri_status tri_ckpt_step_path(char out[TRI_CKPT_PATH_BYTES], const char *dir, int64_t step,
                              tri_ckpt_kind kind) {
  char name[TRI_CKPT_FILE_NAME_BYTES];

  tri_ckpt_step_name(name, step, kind);
  return tri_ckpt_path(out, "%s/%s", dir, name);
}

static tri_status named_by(int at, const char *dir, const char *link, int64_t *step) {
  char    path[TRI_CKPT_PATH_BYTES], target[64];
  ssize_t n;

  *step = -1;
  TRI_TRY(tri_ckpt_path(path, "%s/%s", dir, link));
  n = readlinkat(at, at == AT_FDCWD ? path : link, target, sizeof target);
  if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) return TRI_OK;
  if (n < 0) TRI_FAIL(TRI_EFORMAT, "%s: is not a symbolic link: %s", path, strerror(errno));
  target[n < (ssize_t)sizeof target ? n : (ssize_t)sizeof target - 1] = 0;
  if (tri_ckpt_parse_name(target, step) != TRI_CKPT_WHOLE) {
    *step = -1;
    TRI_FAIL(TRI_EFORMAT, "%s: names '%s', but this is no step folder", path, target);
  }
  return TRI_OK;
}

tri_status tri_ckpt_latest(int at, const char *dir, int64_t *step) {
  return named_by(at, dir, "LATEST", step);
}

int64_t tri_ckpt_named_best(int at, const char *dir) {
  int64_t step;

  if (named_by(at, dir, "BEST", &step) != TRI_OK)
    tri_error_clear(); /* another program's BEST is not our concern */
  return step;
}

int64_t tri_ckpt_best(const char *dir) {
  int64_t step = tri_ckpt_named_best(AT_FDCWD, dir);

  return tri_ckpt_has_step(dir, step) ? step : -1;
}

bool tri_ckpt_has_step(const char *dir, int64_t step) {
  char path[TRI_CKPT_PATH_BYTES];

  if (step < 0) return false;
  if (tri_ckpt_step_path(path, dir, step, TRI_CKPT_WHOLE) == TRI_OK) return tri_file_exists(path);
  tri_error_clear();
  return false;
}

static int newest_first(const void *a, const void *b) {
  const int64_t *x = a, *y = b;

  return (*x < *y) - (*x > *y);
}

tri_status tri_ckpt_list(int at, const char *dir, tri_ckpt_kind kind, tri_ckpt_steps *l) {
  tri_status     st = TRI_OK;
  struct dirent *entry;
  int64_t        step;
  int            fd = openat(at, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR           *d = fd < 0 ? NULL : fdopendir(fd);

  *l = (tri_ckpt_steps){0};
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return TRI_OK;
  if (!d) {
    tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: cannot be read: %s", dir, strerror(errno));
    if (fd >= 0) close(fd);
    return TRI_EFILE;
  }
  while ((entry = readdir(d)))
    if (tri_ckpt_parse_name(entry->d_name, &step) == kind) {
      TRI_TRY_DONE(TRI_GROW(l->step, l->space, l->n + 1));
      l->step[l->n++] = step;
    }
  if (l->n) qsort(l->step, (size_t)l->n, sizeof *l->step, newest_first);
done:
  closedir(d);
  if (st != TRI_OK) TRI_FREE(l->step);
  return st;
}

void tri_ckpt_order(tri_ckpt_steps *l, int64_t latest) {
  int64_t *s = l->step;
  int      above = 0;

  while (above < l->n && s[above] > latest) above++;
  if (latest < 0 || above == l->n) return;
  for (int k = 0; k < above; k++) { /* rotates by one each time; lists are short */
    int64_t first = s[0];
    memmove(s, s + 1, (size_t)(l->n - 1) * sizeof *s);
    s[l->n - 1] = first;
  }
}

tri_status tri_ckpt_count(const char *dir, int *n) {
  tri_ckpt_steps l;

  TRI_TRY(tri_ckpt_list(AT_FDCWD, dir, TRI_CKPT_WHOLE, &l));
  *n = l.n;
  TRI_FREE(l.step);
  return TRI_OK;
}
