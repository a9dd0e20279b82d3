/* slurm.c - what Slurm knows of the job this process is part of. */
#include "slurm.h"
#include "base/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ANSWER_BYTES = 256 };

/* Digits of *text, at most eight, and the byte behind them, which *text then passes; -1: there are none. */
static double take_number(const char **text, char *behind) {
  size_t n = strspn(*text, "0123456789");
  double v = n && n <= 8 ? strtod(*text, NULL) : -1;

  *behind = (*text)[n];
  *text += n + (*behind != '\0');
  return v;
}

double tri_slurm_seconds(const char *text) {
  static const double unit[] = {1, 60, 3600};
  double              part[3], days = 0, sum = 0;
  char                behind;
  bool                dash;
  int                 n;

  if (!strcmp(text, "infinite") || !strcmp(text, "UNLIMITED")) return 0;
  part[0] = take_number(&text, &behind);
  dash = behind == '-';
  if (dash) {
    days = part[0];
    part[0] = take_number(&text, &behind);
  }
  for (n = 1; behind == ':' && n < 3; n++) part[n] = take_number(&text, &behind);
  if (behind || days < 0) return -1;
  for (int i = 0; i < n; i++) {
    if (part[i] < 0) return -1;
    sum += part[i] * unit[dash ? 2 - i : n > 1 ? n - 1 - i : 1];
  }
  return days * 86400 + sum;
}

/* Seconds since 1970, or 0. */
static double env_time(const char *name) {
  const char *text = getenv(name);
  char       *end;
  double      v = text ? strtod(text, &end) : 0;

  return text && end != text && v > 0 && v < 1e12 ? v : 0;
}

/* "59:10 0:50": left, used. */
static bool parse_answer(char *answer, tri_slurm_time *out) {
  char *space = strchr(answer, ' ');

  if (!space) return false;
  *space = '\0';
  *out = (tri_slurm_time){.used_s = tri_slurm_seconds(space + 1), .left_s = tri_slurm_seconds(answer)};
  return out->left_s >= 0 && out->used_s >= 0;
}

static tri_slurm_time ask_squeue(char *job, double patience_s) {
  char          *argv[] = {"squeue", "--noheader", "--format=%L %M", "--jobs", job, NULL};
  char           answer[ANSWER_BYTES] = "", how[TRI_CHILD_HOW_BYTES] = "";
  tri_child      c = {0};
  tri_slurm_time t = {0};
  tri_status     st = tri_child_start(argv, &c);

  if (st == TRI_OK) {
    tri_child_close_input(&c);
    tri_child_close_error(&c);
    if (!tri_child_read(&c, patience_s, answer, sizeof answer)) answer[0] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    tri_child_kill(&c, how);
  }
  if (st == TRI_OK && parse_answer(answer, &t)) return t;
  tri_log(TRI_LOG_WARN,
          "squeue does not say when job %s ends (%s): the run stops at Slurm's SIGTERM only; "
          "SLURM_JOB_END_TIME, in seconds since 1970, would tell it",
          job,
          st != TRI_OK ? tri_error_message()
          : how[0]     ? how
          : answer[0]  ? "it says something else"
                       : "no answer");
  if (st != TRI_OK) tri_error_clear();
  return (tri_slurm_time){0};
}

/* This job, as squeue finds it alone: the number of an array's task may be the array's too. */
static void name_job(char out[ANSWER_BYTES]) {
  const char *job = getenv("SLURM_JOB_ID"), *array = getenv("SLURM_ARRAY_JOB_ID"),
             *task = getenv("SLURM_ARRAY_TASK_ID");

  if (job && job[0] && array && task)
    snprintf(out, ANSWER_BYTES, "%s_%s", array, task);
  else
    snprintf(out, ANSWER_BYTES, "%s", job ? job : "");
}

tri_slurm_time tri_slurm_ask(double patience_s) {
  double now_s = (double)time(NULL), end_s = env_time("SLURM_JOB_END_TIME"),
         start_s = env_time("SLURM_JOB_START_TIME");
  char job[ANSWER_BYTES];

  name_job(job);
  if (end_s > now_s)
    return (tri_slurm_time){.used_s = start_s > 0 && start_s < now_s ? now_s - start_s : 0,
                            .left_s = end_s - now_s};
  return job[0] ? ask_squeue(job, patience_s) : (tri_slurm_time){0};
}

/* ---- how nodes wait for each other ---- */

enum { CONFIG_BYTES = 1 << 16 }; /* chosen: five times what 22.05 prints */

/* The value of "PMIxCollFence           = ring" in a listing; "": it has none. */
static void find_fence(const char *text, char out[TRI_SLURM_WORD_BYTES]) {
  static const char key[] = "PMIxCollFence";
  const char       *at = strstr(text, key);
  size_t            n;

  if (!at) return;
  at += sizeof key - 1;
  at += strspn(at, " ");
  if (*at++ != '=') return;
  at += strspn(at, " ");
  n = strcspn(at, " \n");
  if (n < TRI_SLURM_WORD_BYTES) snprintf(out, TRI_SLURM_WORD_BYTES, "%.*s", (int)n, at);
  if (!n || !strcmp(out, "(null)")) snprintf(out, TRI_SLURM_WORD_BYTES, "unset");
}

void tri_slurm_fence(double patience_s, char out[TRI_SLURM_WORD_BYTES]) {
  char       *argv[] = {"scontrol", "show", "config", NULL}, *answer = NULL;
  const char *type = getenv("SLURM_MPI_TYPE"), *own = getenv("SLURM_PMIX_FENCE");
  tri_child   c = {0};

  out[0] = '\0';
  if (!type || strncmp(type, "pmix", 4) || !getenv("SLURM_PROCID")) return;
  if (own && own[0]) {
    snprintf(out, TRI_SLURM_WORD_BYTES, "%.15s", own);
    return;
  }
  if (TRI_ALLOC(answer, CONFIG_BYTES) == TRI_OK && tri_child_start(argv, &c) == TRI_OK) {
    tri_child_close_input(&c);
    tri_child_close_error(&c);
    if (tri_child_read(&c, patience_s, answer, CONFIG_BYTES)) find_fence(answer, out);
    tri_child_kill(&c, NULL);
  }
  tri_error_clear();
  TRI_FREE(answer);
}
