/* command_report.c - trireme report OUTPUT ...: writes the results of runs as a page of curves, as text or as
 * JSON. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/log.h"
#include "base/columns.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/print.h"
#include "comm/runtime.h"
#include "commands.h"
#include "tools/html_report/html_report.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct request {
  const char *html;
  bool        json;
} request;

/* Refuses to overwrite a file unless it is a page of this command too, so that a typing error cannot destroy
 * metrics. */
static tri_status check_page(const char *path, bool *replaces) {
  char    text[TRI_HTML_BEGINS_BYTES];
  ssize_t n;
  int     fd;

  *replaces = tri_folder_has(AT_FDCWD, path);
  if (!*replaces) return TRI_OK;
  if (tri_folder_has_link(AT_FDCWD, path))
    TRI_FAIL(
        TRI_EARG,
        "--html %s: this is a symbolic link, and links are not followed. Name another file or remove the "
        "link",
        path);
  TRI_TRY(tri_file_open(path, &fd));
  n = read(fd, text, sizeof text);
  close(fd);
  if (n == 0 || (n > 0 && tri_html_report_is_one(text, (size_t)n))) return TRI_OK;
  TRI_FAIL(TRI_EARG,
           "--html %s: the file exists and is no page of this command. Name another file or remove it", path);
}

static tri_status write_page(const tri_html_report *p, const char *path, bool replaces) {
  char       size[TRI_CELL_BYTES];
  tri_text   text = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_html_report_write(p, &text));
  TRI_TRY_DONE(tri_file_write_named(path, replaces, text.data, text.len));
  tri_cell_bytes((int64_t)text.len, size);
  tri_log(TRI_LOG_INFO, "%s: %s, for any browser", path, size);
done:
  tri_text_free(&text);
  return st;
}

static tri_status report(const request *q, const char *const *folder, int n) {
  tri_html_report *p = NULL;
  tri_text         out = {0};
  tri_status       st = TRI_OK;
  bool             replaces = false;

  if (q->html) TRI_TRY_DONE(check_page(q->html, &replaces));
  TRI_TRY_DONE(tri_html_report_open(folder, n, tri_unix_s(), &p));
  if (q->html) TRI_TRY_DONE(write_page(p, q->html, replaces));
  if (q->json)
    TRI_TRY_DONE(tri_html_report_json(p, &out));
  else if (!q->html)
    TRI_TRY_DONE(tri_html_report_text(p, &out));
  if (out.len) TRI_TRY_DONE(tri_print(out.data, out.len));
  if (tri_html_report_left_out(p))
    TRI_FAIL_DONE(TRI_EINPUT, "folders left out: %d of %d. The warnings above give the reasons",
                  tri_html_report_left_out(p), n);
done:
  tri_text_free(&out);
  tri_html_report_close(&p);
  return st;
}

static tri_status run(int argc, char **argv, int *code) {
  request  q = {0};
  bool     help;
  int      n;
  tri_flag flag[] = {
      {"--html", TRI_FLAG_TEXT, &q.html, 0, 0, "F", "write one HTML page, which needs no network"},
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL, "print one JSON value"},
  };

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_report, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) {
    printf("\nThe page draws every number of metrics.jsonl as a curve, with several runs in\n"
           "the same charts. It shows the differences between their decks, the time by\n"
           "phase, and memory. It shows the best and the worst answers of the newest saved\n"
           "rollouts (rollout.save_every), warnings, and the decks. It takes at most %d\n"
           "runs, and they may still be going on.\n",
           tri_html_report_most());
    return TRI_OK;
  }
  const tri_need need[] = {{"OUTPUT", n > 0}};
  TRI_TRY(tri_flags_need(&tri_command_report, need, 1, NULL));
  if (n > tri_html_report_most())
    TRI_FAIL(TRI_EARG, "%d runs are too many for one page, which shows up to %d. Name fewer folders", n,
             tri_html_report_most());
  if (q.html && (!q.html[0] || !strcmp(q.html, "-")))
    TRI_FAIL(TRI_EARG, "--html needs the name of a file. Standard output gets text, or JSON with --json");
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  return report(&q, (const char *const *)argv, n);
}

const tri_command tri_command_report = {
    "report", "OUTPUT [OUTPUT ...] [--html F] [--json]",
    "write the results of runs as a page of curves, one screen of text or JSON", run};
