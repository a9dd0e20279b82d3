/* slurm.c - facts from Slurm about the job of this process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "slurm.h"
#include "base/child.h"
#include "base/host_memory.h"
#include "base/notice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ANSWER_BYTES = 1 << 16 }; /* chosen: fits all running tasks of an array */

/* Reads at most eight digits from *text and the byte behind them, and moves *text past both. -1: there are no
 * digits. */
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

/* Finds this job among lines such as "7 59:10 0:50": job number, time left, time used. Cuts the lines and
 * words apart in place. For a task of an array, the number may be the array's too, and squeue then lists all
 * tasks. */
static bool parse_answer(char *answer, const char *job, tri_slurm_time *out) {
  char *line, *rest = NULL, *word = NULL;

  for (line = strtok_r(answer, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    const char *number = strtok_r(line, " ", &word);
    const char *left = strtok_r(NULL, " ", &word), *used = strtok_r(NULL, " ", &word);
    if (!used || strcmp(number, job) != 0) continue;
    *out = (tri_slurm_time){.used_s = tri_slurm_seconds(used), .left_s = tri_slurm_seconds(left)};
    return out->left_s >= 0 && out->used_s >= 0;
  }
  return false;
}

static tri_slurm_time ask_squeue(char *job, double patience_s) {
  char          *argv[] = {"squeue", "--noheader", "--format=%A %L %M", "--jobs", job, NULL};
  char           answer[ANSWER_BYTES] = "", how[TRI_CHILD_HOW_BYTES] = "";
  bool           answers = false;
  tri_child      c = {0};
  tri_slurm_time t = {0};
  tri_status     st = tri_child_start(argv, &c);

  if (st == TRI_OK) {
    tri_child_close_input(&c);
    tri_child_close_error(&c);
    if (!tri_child_read(&c, patience_s, answer, sizeof answer)) answer[0] = '\0';
    answers = answer[0] != '\0';
    tri_child_kill(&c, how);
  }
  if (st == TRI_OK && parse_answer(answer, job, &t)) return t;
  tri_warn("walltime_unknown",
           "squeue does not say when job %s ends (%s). The run stops only at Slurm's SIGTERM. "
           "To stop earlier, set SLURM_JOB_END_TIME in seconds since 1970",
           job,
           st != TRI_OK ? tri_error_message()
           : how[0]     ? how
           : answers    ? "its answer has another form"
                        : "no answer");
  if (st != TRI_OK) tri_error_clear();
  return (tri_slurm_time){0};
}

tri_slurm_time tri_slurm_ask(double patience_s) {
  double now_s = (double)time(NULL), end_s = env_time("SLURM_JOB_END_TIME"),
         start_s = env_time("SLURM_JOB_START_TIME");
  const char *variable = getenv("SLURM_JOB_ID");
  char        job[32] = "";

  if (variable) snprintf(job, sizeof job, "%s", variable);
  if (end_s > now_s)
    return (tri_slurm_time){.used_s = start_s > 0 && start_s < now_s ? now_s - start_s : 0,
                            .left_s = end_s - now_s};
  return job[0] ? ask_squeue(job, patience_s) : (tri_slurm_time){0};
}

/* ---- how nodes wait for each other ---- */

enum { CONFIG_BYTES = 1 << 16 }; /* chosen: five times the output of Slurm 22.05 */

/* Finds the value of "PMIxCollFence = ring" in a listing. Leaves "" if it is not listed. */
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
