/* marks.c - reads from the names in a run's folder when its deck changed and which checkpoint is the best. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "marks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NAME_BYTES = 64 };

/* Returns the step of a name of exactly the form `before`, eight digits or more, `behind`, or -1. */
static int64_t step_of(const char *name, const char *before, const char *behind) {
  char      again[NAME_BYTES];
  long long step;

  if (strncmp(name, before, strlen(before)) != 0 || strlen(name) >= NAME_BYTES) return -1;
  step = strtoll(name + strlen(before), NULL, 10);
  snprintf(again, sizeof again, "%s%08lld%s", before, step, behind);
  return step >= 0 && !strcmp(again, name) ? step : -1;
}

/* Inserts in ascending order. If there are too many, the earliest goes. */
static void add(tri_marks *m, int64_t step) {
  int at = m->n;

  if (m->n == TRI_MARKS_MOST) {
    if (step < m->until[0]) return;
    memmove(m->until, m->until + 1, sizeof m->until - sizeof *m->until);
    at = --m->n;
  }
  for (; at > 0 && m->until[at - 1] > step; at--) m->until[at] = m->until[at - 1];
  m->until[at] = step;
  m->n++;
}

void tri_marks_read(const char *folder, tri_marks *out) {
  char           path[PATH_BYTES], target[NAME_BYTES];
  struct dirent *e;
  DIR           *d = opendir(folder);
  ssize_t        n;

  *out = (tri_marks){.best = -1};
  while (d && (e = readdir(d)) != NULL) {
    int64_t step = step_of(e->d_name, "deck.step-", ".yaml");
    if (step >= 0) add(out, step);
  }
  if (d) closedir(d);
  snprintf(path, sizeof path, "%s/checkpoints/BEST", folder);
  n = readlink(path, target, sizeof target - 1);
  if (n <= 0) return;
  target[n] = 0;
  out->best = step_of(target, "step-", "");
}

tri_status tri_marks_list(const tri_marks *m, tri_text *out) {
  for (int i = 0; i < m->n; i++)
    TRI_TRY(tri_text_printf(out, "%s%lld", i ? ", " : "", (long long)m->until[i]));
  return TRI_OK;
}
