/* cli_case.h - shared by the tests of the whole program: a folder with a tiny model, and commands run in
 * it.
 *
 * Judge of every test: the exit code, the text of stderr, and the files that exist afterwards. At the end,
 * the table of metrics must contain every number written by the runs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_CLI_CASE_H
#define TRI_TESTS_CLI_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "metric/metric_names.h"

#define ONE "'" TRI_PROGRAM "' "
#define TWO "'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 2 '" TRI_PROGRAM "' "
/* Runs two SFT steps of a 2-layer model from random weights, with a checkpoint after each. */
#define SFT  "train sft.yaml "
#define GRPO "train grpo.yaml "
#define LOAD "train sft.yaml model.config=null model.tokenizer=null "

enum { CLI_TEXT_BYTES = 1 << 16 };
static char cli_root[256], cli_out[CLI_TEXT_BYTES], cli_err[CLI_TEXT_BYTES]; /* the last command's */

static inline void cli_read(const char *path, char text[CLI_TEXT_BYTES]) {
  FILE  *f = fopen(path, "rb");
  size_t n = f ? fread(text, 1, CLI_TEXT_BYTES - 1, f) : 0;

  text[n] = 0;
  if (f) fclose(f);
}

static inline void cli_write(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");

  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
  assert_int_equal(fclose(f), 0);
}

/* Runs a shell command to prepare files. */
static inline void cli_sh(const char *fmt, ...) {
  char    command[4096];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(command, sizeof command, fmt, ap);
  va_end(ap);
  if (system(command) != 0) fail_msg("failed: %s", command);
}

/* Runs a shell command with its output in cli_out and cli_err. Returns its exit code, or 128 + the number of
 * the signal that ended it. */
static inline int cli_run(const char *command) {
  char all[4096];
  int  status;

  snprintf(all, sizeof all, "{ %s ; } >.out 2>.err </dev/null", command);
  status = system(all);
  cli_read(".out", cli_out);
  cli_read(".err", cli_err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline bool cli_exists(const char *path) { return access(path, F_OK) == 0; }

/* The program's error messages in cli_err. They begin the same way on every rank. */
static inline int cli_errors(void) {
  int n = 0;

  for (const char *p = cli_err; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
    n += !strncmp(p, "trireme: ", 9) && strncmp(p, "trireme: warning: ", 18) != 0;
  return n;
}

/* The end of stderr, because cmocka prints no more. */
static inline const char *cli_end(void) {
  size_t n = strlen(cli_err);

  return n > 700 ? cli_err + n - 700 : cli_err;
}

static inline void cli_succeeds(const char *command) {
  int code = cli_run(command);

  if (code != 0 || cli_errors()) fail_msg("%s\nexit code %d\n...%s", command, code, cli_end());
}

static inline void cli_shows(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is missing in\n%s", part, text);
}

/* Checks that a terminal of 80 columns wraps no line of this ASCII text. */
static inline void cli_fits(const char *text) {
  for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
    if (strcspn(at, "\n") > 79) fail_msg("a line of %zu columns: %.*s", strcspn(at, "\n"), 200, at);
}

/* Checks that the last command printed all of these facts for people. */
#define cli_tells(...) cli_tells_all((const char *const[]){__VA_ARGS__, NULL})
static inline void cli_tells_all(const char *const *fact) {
  for (; *fact; fact++) cli_shows(cli_err, *fact);
}

/* The command ends with this exit code and exactly one message. The message holds both parts (NULL: none
 * required). stdout is empty. No output folder named bad exists, and no partial file is left. */
static inline void cli_fails(int code, const char *command, const char *part, const char *other) {
  int got = cli_run(command);

  if (got != code || cli_errors() != 1)
    fail_msg("%s\nexit code %d, not %d\n...%s", command, got, code, cli_end());
  cli_shows(cli_err, part);
  if (other) cli_shows(cli_err, other);
  if (cli_out[0]) fail_msg("%s\nprints to stdout: %s", command, cli_out);
  if (cli_exists("bad")) fail_msg("%s\nleft its output folder behind", command);
  if (system("find . -name '*.tmp*' | grep . >.left") == 0) { /* the caller keeps cli_err */
    cli_read(".left", cli_out);
    fail_msg("%s\nleft behind: %s", command, cli_out);
  }
}

/* Returns the function in which the last command's error arose, or "". It reads the first line with a place
 * in the trace that --verbose prints after the message: " FILE:LINE FUNCTION: ...". The trace is removed from
 * cli_err, because its calls could pass for facts of the message. */
static inline const char *cli_take_place(void) {
  static char place[128];

  for (char *at = cli_err; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    int n = 0; /* stays 0 unless the colon after the function is found */
    if (strncmp(at, "  ", 2) != 0 || sscanf(at + 2, "%*[^ :\n]:%*d %127[A-Za-z0-9_]:%n", place, &n) != 1 ||
        !n)
      continue;
    *at = 0;
    return place;
  }
  return "";
}

/* As cli_fails, for an error without facts of its own in its message. The error must have arisen in this
 * function. --verbose is appended to the command. */
static inline void cli_fails_in(int code, const char *command, const char *function, const char *fact) {
  char        verbose[4096];
  const char *place;

  snprintf(verbose, sizeof verbose, "%s --verbose", command);
  cli_fails(code, verbose, fact, NULL);
  place = cli_take_place();
  cli_shows(cli_err, fact);
  if (strcmp(place, function) != 0)
    fail_msg("%s\narises in '%s', not in '%s'\n%s", command, place, function, cli_err);
}

/* Makes the folder, its data files, a finished run "run" (steps 1 and 2) and its export "model". */
static inline int cli_open(void **state) {
  const char *base = getenv("TMPDIR");

  (void)state;
  snprintf(cli_root, sizeof cli_root, "%s/trireme-cli-XXXXXX", base ? base : "/tmp");
  if (!mkdtemp(cli_root) || chdir(cli_root)) return -1;
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OMPI_MCA_orte_tmpdir_base", cli_root,
         1); /* two mpirun at once would collide in their folder in /tmp */
  cli_sh("cp '" TRI_TEST_DATA "/cli/'* .");
  cli_succeeds(ONE SFT "run.output=run");
  cli_succeeds(ONE "export run model");
  return 0;
}

/* Checks that every name written by a run is in the table of metrics. A line of a run has time_step_s. */
static inline bool cli_metrics_are_known(void) {
  FILE *f = popen("find . -type f -name metrics.jsonl -exec grep -ahs time_step_s {} + | "
                  "grep -o '\"[^\" ]*\": ' | sort -u",
                  "r");
  char  line[512];
  bool  known = f != NULL;

  while (f && fgets(line, sizeof line, f)) {
    char *end = strrchr(line, '"');
    if (!end || end == line) continue;
    *end = 0;
    if (tri_metric_row_find(line + 1)) continue;
    print_error("src/metric/metric_names.c does not know %s\n", line + 1);
    known = false;
  }
  return f && !pclose(f) && known;
}

static inline int cli_close(void **state) {
  char command[300];
  bool known = cli_metrics_are_known();

  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", cli_root);
  return chdir("/") || system(command) || !known;
}

#endif
