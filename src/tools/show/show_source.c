/* show_source.c - finds files of saved answers, the steps of an output folder or one file, and reads their
 * lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "show_source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/host_memory.h"
#include "base/log.h"
#include "io/text/lines.h"

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

  return (x > y) - (x < y);
}

/* Lists the saved steps of a folder. There are none if the folder does not exist. */
static tri_status list_steps(tri_show_source *s) {
  tri_status     st = TRI_OK;
  DIR           *dir = opendir(s->path);
  struct dirent *e;

  s->n = 0;
  if (!dir && (errno == ENOENT || errno == ENOTDIR)) return TRI_OK;
  if (!dir) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", s->path, strerror(errno));
  while ((errno = 0, e = readdir(dir)) != NULL) {
    if (tri_lines_step(e->d_name) < 0) continue;
    TRI_TRY_DONE(TRI_GROW(s->step, s->cap, s->n + 1));
    s->step[s->n++] = tri_lines_step(e->d_name);
  }
  if (errno) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be read: %s", s->path, strerror(errno));
  if (s->n) qsort(s->step, (size_t)s->n, sizeof *s->step, ascending);
done:
  closedir(dir);
  return st;
}

static tri_status set_path(tri_show_source *s, const char *folder, const char *name) {
  if ((size_t)snprintf(s->path, sizeof s->path, "%s%s%s", folder, name ? "/" : "", name ? name : "") >=
      sizeof s->path)
    TRI_FAIL(TRI_EINPUT, "%.100s...: the path is too long", folder);
  return TRI_OK;
}

static const char *name_of(bool evals) { return evals ? "eval" : "rollouts"; }

/* Fails because nothing is saved, and names the cause and the cure. */
static tri_status refuse(const char *path, bool evals, bool has_others) {
  if (!has_others && !tri_file_in(path, "deck.yaml") && !tri_file_in(path, "metrics.jsonl"))
    TRI_FAIL(TRI_EINPUT,
             "%s: this is not the output folder of a run (no deck.yaml, no metrics.jsonl), and has no "
             "step-NNNNNNNN.jsonl",
             path);
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
           "%s: has no %s/step-NNNNNNNN.jsonl, because this run saved no answers%s.", path, name_of(evals),
           evals ? " of evaluations" : "");
  tri_error_lines(
      evals ? "\n  Set eval.save=true in the deck or on the command line to save the answers of each "
              "evaluation (eval.steps)"
            : "\n  Set rollout.save_every=1 in the deck or on the command line to save the answers of each "
              "step");
  if (has_others)
    tri_error_lines(evals ? ".\n  Without --eval the answers of steps are shown"
                          : ".\n  --eval shows the answers of evaluations");
  return TRI_EINPUT;
}

static tri_status open_folder(const char *path, bool evals, tri_show_source *s) {
  bool has_others;

  TRI_TRY(set_path(s, path, name_of(evals)));
  TRI_TRY(list_steps(s));
  if (s->n) return TRI_OK;
  TRI_TRY(set_path(s, path, NULL)); /* path may be the folder of steps itself */
  TRI_TRY(list_steps(s));
  if (s->n) return TRI_OK;
  TRI_TRY(set_path(s, path, name_of(!evals)));
  TRI_TRY(list_steps(s));
  has_others = s->n > 0;
  return refuse(path, evals, has_others);
}

tri_status tri_show_source_open(const char *path, bool evals, tri_show_source *out) {
  struct stat sb;

  *out = (tri_show_source){0};
  if (stat(path, &sb)) TRI_FAIL(TRI_EINPUT, "%s: cannot be read: %s", path, strerror(errno));
  if (S_ISDIR(sb.st_mode)) return open_folder(path, evals, out);
  if (evals) TRI_FAIL(TRI_EARG, "--eval: %s is not the output folder of a run", path);
  return set_path(out, path, NULL);
}

void tri_show_source_close(tri_show_source *s) {
  TRI_FREE(s->step);
  *s = (tri_show_source){0};
}

enum { LISTED_STEPS = 8 }; /* chosen: most steps in a message */

/* Writes "step 20" or "steps 20, 40, 60". If there are many, it names only the first ones, the neighbours of
 * index `at`, and the last. */
static tri_status put_steps(const tri_show_source *s, int64_t at, tri_text *out) {
  bool    all = s->n <= LISTED_STEPS;
  int64_t before = -1;

  TRI_TRY(tri_text_printf(out, "step%s", s->n == 1 ? "" : "s"));
  for (int64_t i = 0; i < s->n; i++) {
    if (!all && i > 1 && i < s->n - 1 && i != at - 1 && i != at) continue;
    TRI_TRY(tri_text_printf(out, "%s%s%lld", i ? "," : "", i && i != before + 1 ? " ..., " : " ",
                            (long long)s->step[i]));
    before = i;
  }
  return TRI_OK;
}

tri_status tri_show_find_step(const tri_show_source *s, int64_t step, int64_t *at) {
  tri_text   steps = {0};
  tri_status st;

  if (!s->step) TRI_FAIL(TRI_EARG, "--step: %s is a file, not a folder of steps", s->path);
  for (*at = 0; *at < s->n && s->step[*at] < step;) ++*at;
  if (*at < s->n && s->step[*at] == step) return TRI_OK;
  st = put_steps(s, *at, &steps);
  if (st == TRI_OK)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s: step %lld was not saved. There %s %s",
                  s->path, (long long)step, s->n == 1 ? "is" : "are", steps.data);
  tri_text_free(&steps);
  return st;
}

tri_status tri_show_file(const tri_show_source *s, int64_t at, char out[TRI_FILE_PATH_BYTES]) {
  int n = s->step
              ? snprintf(out, TRI_FILE_PATH_BYTES, "%s/step-%08lld.jsonl", s->path, (long long)s->step[at])
              : snprintf(out, TRI_FILE_PATH_BYTES, "%s", s->path);

  if (n >= TRI_FILE_PATH_BYTES) TRI_FAIL(TRI_EINPUT, "%.100s...: the path is too long", s->path);
  return TRI_OK;
}

static void skip(tri_show_source *s, const char *file, tri_lines *lines) {
  if (!s->skipped.n++) {
    snprintf(s->skipped.where, sizeof s->skipped.where, "%s", file);
    s->skipped.line = tri_lines_number(lines);
  }
}

/* Reads the next line. A line that is too long is skipped like one without an answer, with *text NULL. *over
 * is set at the end of the file. */
static tri_status next_line(tri_lines *lines, const char **text, size_t *n, bool *over) {
  int64_t    before = tri_lines_taken(lines);
  tri_status st = tri_lines_next(lines, text, n);

  *over = st == TRI_OK && !*text;
  if (st != TRI_EINPUT || tri_lines_taken(lines) == before) return st;
  tri_error_clear();
  *text = NULL;
  return TRI_OK;
}

tri_status tri_show_lines(tri_show_source *s, int64_t at, bool counts, tri_show_each each, void *ctx) {
  char            file[TRI_FILE_PATH_BYTES];
  tri_lines      *lines = NULL;
  tri_status      st = TRI_OK;
  const char     *text;
  size_t          n;
  tri_show_answer a;

  TRI_TRY(tri_show_file(s, at, file));
  TRI_TRY_DONE(tri_lines_open(file, 0, INT64_MAX, &lines));
  for (bool stop = false, over = false; !stop;) {
    TRI_TRY_DONE(next_line(lines, &text, &n, &over));
    if (over) break;
    if (text && tri_show_read(text, n, &a))
      TRI_TRY_DONE(each(ctx, &a, &stop));
    else if (counts)
      skip(s, file, lines);
  }
done:
  if (lines) tri_lines_close(&lines);
  return st;
}

void tri_show_say_skipped(const tri_show_source *s) {
  bool one = s->skipped.n == 1;

  if (!s->skipped.n) return;
  tri_log_narrow(
      TRI_LOG_WARN,
      "%s:%lld: %s%lld line%s no answer%s and %s skipped. An answer is a JSON object in UTF-8 with "
      "`response` or `tokens`, of at most %d MiB",
      s->skipped.where, (long long)s->skipped.line, one ? "" : "the first of ", (long long)s->skipped.n,
      one ? " is" : "s that are", one ? "" : "s", one ? "was" : "were", TRI_LINE_BYTES >> 20);
}
