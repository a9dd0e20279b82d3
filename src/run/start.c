/* start.c - records in OUTPUT/.start to which start of a run the output folder belongs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "base/notice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *variable(const char *name) {
  const char *text = getenv(name);

  return text && text[0] ? text : "-";
}

/* Writes a text that differs for each start: a requeued job, a restart by a job file, a start by hand. */
static void describe(char *out, size_t n) {
  char host[64] = "";

  if (gethostname(host, sizeof host - 1)) host[0] = 0;
  snprintf(out, n, "Slurm job %.20s, restart %.20s, step %.20s; process %ld on %s, at %lld\n",
           variable("SLURM_JOB_ID"), variable("SLURM_RESTART_COUNT"), variable("SLURM_STEP_ID"),
           (long)getpid(), host, (long long)time(NULL));
}

static void path_of(const tri_run *r, char path[TRI_CKPT_PATH_BYTES + 16]) {
  snprintf(path, TRI_CKPT_PATH_BYTES + 16, "%s/.start", r->cfg->run.output);
}

tri_status tri_start_claim(tri_run *r) {
  char path[TRI_CKPT_PATH_BYTES + 16], text[256];

  if (r->claimed) return TRI_OK;
  describe(text, sizeof text);
  path_of(r, path);
  TRI_TRY(tri_file_write(path, text, strlen(text)));
  tri_ckpt_guard(path, text);
  r->claimed = true;
  return TRI_OK;
}

void tri_start_holder(const tri_run *r, char out[TRI_START_HOLDER_BYTES]) {
  char   path[TRI_CKPT_PATH_BYTES + 16], job[24], host[64], *text = NULL;
  long   pid;
  size_t n;

  out[0] = 0;
  path_of(r, path);
  if (tri_file_read(path, 256, &text, &n) != TRI_OK) {
    tri_error_clear();
    return;
  }
  if (sscanf(text, "Slurm job %20[^,], restart %*[^;]; process %ld on %63[^,]", job, &pid, host) == 3)
    snprintf(out, TRI_START_HOLDER_BYTES, " (process %ld on %s%s%s)", pid, host,
             strcmp(job, "-") ? ", Slurm job " : "", strcmp(job, "-") ? job : "");
  TRI_FREE(text);
}

void tri_start_release(tri_run *r) {
  char path[TRI_CKPT_PATH_BYTES + 16];

  if (!r->claimed) return;
  path_of(r, path);
  if (tri_ckpt_guard_holds()) unlink(path);
  tri_ckpt_guard("", "");
  r->claimed = false;
}

/* ---- why the previous start ended ---- */

static void outage_path(const tri_run *r, char path[TRI_CKPT_PATH_BYTES + 16]) {
  snprintf(path, TRI_CKPT_PATH_BYTES + 16, "%s/OUTAGE", r->cfg->run.output);
}

void tri_run_leave_outage(const tri_run *r, const char *reason) {
  char       path[TRI_CKPT_PATH_BYTES + 16];
  tri_text   text = {0};
  tri_status st =
      tri_text_printf(&text, "%lld\n%.*s\n", (long long)time(NULL), (int)strcspn(reason, "\n"), reason);

  outage_path(r, path);
  if (st == TRI_OK) st = tri_file_write(path, text.data, text.len);
  tri_text_free(&text);
  if (st == TRI_OK) {
    printf("reward outage: %s\n", path); /* for the program that started the run, because the log is on
                                          * stderr */
    fflush(stdout);                      /* at once, because a launcher ends all ranks as soon as one has
                                          * failed */
    return;
  }
  tri_warn("outage_not_written", "%s: cannot be written: %s", path, tri_error_message());
  tri_error_clear();
}

void tri_start_forget_outage(const tri_run *r) {
  char path[TRI_CKPT_PATH_BYTES + 16];

  outage_path(r, path);
  if (unlink(path) && errno != ENOENT && errno != ENOTDIR)
    tri_warn("outage_stays", "%s: from the previous start, cannot be removed: %s", path, strerror(errno));
}
