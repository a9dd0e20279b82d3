/* test_history.c - tests reading a run's output folder while lines are added, cut back and replaced. Judges
 * are exact values worked out by hand and a reading of the whole file against one in pieces. The lines of
 * src/report/metrics.c, src/report/runlog.c and src/run/start.c are spelled out here. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "base/text_buffer.h"
#include "tools/history/history.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "io/text/lines.h"
#include "refusal_case.h"

static char         folder[64];
static tri_history *h;

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_history_XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
  char command[128];

  (void)state;
  tri_history_close(&h);
  assert_int_equal(tri_host_bytes(), 0);
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

static const char *in(const char *name) {
  static char path[128];

  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void put(const char *name, const char *text) {
  assert_int_equal(tri_file_write(in(name), text, strlen(text)), TRI_OK);
}

static void append(const char *name, const char *text) {
  int fd = open(in(name), O_WRONLY | O_CREAT | O_APPEND, 0600);

  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
}

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_message());
}

static bool refresh(void) {
  bool changed;

  ok(tri_history_refresh(h, &changed));
  return changed;
}

static void expect_message(tri_status st, const char *part) {
  assert_int_equal(st, TRI_EINPUT);
  expect_refusal(part);
  tri_error_clear();
}

static double value(const char *name, int64_t row) {
  int i = tri_history_find(h, name);

  assert_true(i >= 0 && row < tri_history_rows(h));
  return tri_history_at(h, i, row);
}

static void expect_steps(int64_t n, const int64_t *step) {
  assert_int_equal(tri_history_rows(h), n);
  if (n) assert_memory_equal(tri_history_step(h), step, (size_t)n * sizeof *step);
}
#define STEPS(...) expect_steps(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static void reads_numbers_texts_and_nulls(void **state) {
  (void)state;
  put("metrics.jsonl", "{\"step\": 0, \"algo\": \"grpo\", \"eval_reward_mean\": 0.25}\n"
                       "{\"step\": 1, \"algo\": \"grpo\", \"loss\": -1.5e-3, \"kl\": null}\n"
                       "{\"step\": 3, \"loss\": 7, \"alarms\": \"kl_jump\", \"eval\": \"due\"}\n");
  ok(tri_history_open(folder, &h));
  STEPS(0, 1, 3);
  assert_int_equal(tri_history_n_series(h), 3);
  assert_string_equal(tri_history_name(h, 0), "eval_reward_mean");
  assert_string_equal(tri_history_name(h, 1), "loss");
  assert_true(value("eval_reward_mean", 0) == 0.25 && isnan(value("eval_reward_mean", 1)));
  assert_true(isnan(value("loss", 0)) && value("loss", 1) == -1.5e-3 && value("loss", 2) == 7);
  for (int i = 0; i < 3; i++) assert_true(isnan(value("kl", i)));
  assert_string_equal(tri_history_text(h, "algo"), "grpo");
  assert_int_equal(tri_history_text_step(h, "algo"), 1);
  assert_string_equal(tri_history_text(h, "eval"), "due");
  assert_null(tri_history_text(h, "loss"));
  assert_int_equal(tri_history_find(h, "step"), -1);
  assert_int_equal(tri_history_bad_lines(h), 0);
}

/* A line in any other spelling of the same JSON has the same fields. */
static void spelling_does_not_matter(void **state) {
  (void)state;
  put("metrics.jsonl",
      "\xef\xbb\xbf{}\n" /* no line of ours */
      "  {\"st\\u0065p\":1,\"lo\\u0073s\":2.5,\"t\":\"a\\\"b\",\"deep\":{\"x\":[1]},\"yes\":true}\r\n"
      "{ \"step\" : 2 , \"loss\" : 25E-1 , \"t\" : \"\xc3\xa9\" }\n"
      "{\"step\": 3, \"loss\": -0}\n\n");
  ok(tri_history_open(folder, &h));
  STEPS(1, 2, 3);
  assert_true(value("loss", 0) == 2.5 && value("loss", 1) == 2.5 && value("loss", 2) == 0);
  assert_int_equal(tri_history_n_series(h), 1);
  assert_string_equal(tri_history_text(h, "t"), "\xc3\xa9");
  assert_int_equal(tri_history_bad_lines(h), 1);
}

static void foreign_lines_are_counted(void **state) {
  static const char *const bad[] = {"garbage",
                                    "{\"loss\": 1}",
                                    "{\"step\": 1.5, \"loss\": 1}",
                                    "{\"step\": -1}",
                                    "{\"step\": \"1\"}",
                                    "{\"step\": null}",
                                    "[1, 2]",
                                    "{\"step\": 1, \"loss\": 01}",
                                    "{\"step\": 1, \"loss\": 1.}",
                                    "{\"step\": 1, \"loss\": +1}",
                                    "{\"step\": 1, \"loss\": 0x10}",
                                    "{\"step\": 1, \"loss\": 1e}",
                                    "{\"step\": 1, \"loss\": 1e999}",
                                    "{\"step\": 1, \"loss\": 99999999999999999999}",
                                    "{\"step\": 1, \"lo\\u0073s\": -99999999999999999999}",
                                    "{\"step\": 1, \"loss\": NaN}",
                                    "{\"step\": 1, \"loss\": nullnull}",
                                    "{\"step\": 1,}",
                                    "{\"step\": 1} x",
                                    "{\"step\": 1",
                                    "{\"step\": 1, \"\": 2}",
                                    "{\"step\": 1, \"a\": 2, \"a\": 2}",
                                    "{\"step\": 1, \"a\": 2, \"\\u0061\": \"x\"}",
                                    "{\"step\": 1, \"a\xff\": 2}",
                                    "{\"step\": 99999999999999999999}",
                                    "{\"step\": 9223372036854775807, \"loss\": 1}",
                                    "{\"step\": 1000000000000001, \"loss\": 1}",
                                    "\x01\x02\x7f\x1b[31m"};
  enum { N = sizeof bad / sizeof *bad };

  (void)state;
  for (int i = 0; i < N; i++) {
    append("metrics.jsonl", bad[i]);
    append("metrics.jsonl", "\n");
  }
  append("metrics.jsonl", "{\"step\": 5}\n");
  ok(tri_history_open(folder, &h));
  STEPS(5);
  assert_int_equal(tri_history_bad_lines(h), N);
  assert_int_equal(tri_history_n_series(h), 0);
}

static void a_nul_ends_no_line(void **state) {
  static const char text[] = "{\"step\": 1}\0{\"step\": 2}\n{\"step\": 3}\n\0\0\n";

  (void)state;
  assert_int_equal(tri_file_write(in("metrics.jsonl"), text, sizeof text - 1), TRI_OK);
  ok(tri_history_open(folder, &h));
  STEPS(3);
  assert_int_equal(tri_history_bad_lines(h), 2);
}

static void half_a_line_waits(void **state) {
  static const char line[] = "{\"step\": 2, \"loss\": 0.5}\n";

  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"loss\": 0.25}\n");
  ok(tri_history_open(folder, &h));
  assert_false(refresh());
  for (size_t i = 0; line[i]; i++) {
    char one[2] = {line[i], 0};
    append("metrics.jsonl", one);
    assert_true(refresh());
    assert_int_equal(tri_history_rows(h), line[i] == '\n' ? 2 : 1);
  }
  assert_true(value("loss", 0) == 0.25 && value("loss", 1) == 0.5);
  assert_int_equal(tri_history_bad_lines(h), 0);
}

/* The last MiB has the last lines. The line that begins before it is not foreign. */
static void only_the_end_is_read(void **state) {
  enum { LINES = 1000, BYTES = 3000 };
  char *text = NULL, line[64];

  (void)state;
  assert_int_equal(TRI_ALLOC(text, LINES * BYTES + 1), TRI_OK);
  for (int i = 0; i < LINES; i++) {
    char *at = text + (size_t)i * BYTES;
    int   n = snprintf(line, sizeof line, "{\"step\": %d, \"loss\": %d", i + 1, i);
    memset(at, ' ', BYTES);
    memcpy(at, line, (size_t)n);
    memcpy(at + BYTES - 2, "}\n", 2);
  }
  put("metrics.jsonl", text);
  tri_host_free((void **)&text);
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_rows(h), LINES);
  tri_history_close(&h);
  ok(tri_history_open_end(folder, &h));
  assert_int_equal(tri_history_rows(h), (1 << 20) / BYTES);
  assert_int_equal(tri_history_step(h)[tri_history_rows(h) - 1], LINES);
  assert_true(value("loss", tri_history_rows(h) - 1) == LINES - 1 && tri_history_bad_lines(h) == 0);
  append("metrics.jsonl", "{\"step\": 1001, \"loss\": 0.5}\n");
  assert_true(refresh());
  assert_true(value("loss", (1 << 20) / BYTES) == 0.5 && tri_history_bad_lines(h) == 0);
}

/* A resume replaces the file by a shorter one or cuts the file, and then goes on. */
static void a_resume_is_read_anew(void **state) {
  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"loss\": 1}\n{\"step\": 2, \"loss\": 2}\n{\"step\": 3, \"old\": 3}\n");
  ok(tri_history_open(folder, &h));
  put("metrics.jsonl", "{\"step\": 1, \"loss\": 1}\n");
  assert_true(refresh());
  STEPS(1);
  assert_int_equal(tri_history_find(h, "old"), -1);
  append("metrics.jsonl", "{\"step\": 2, \"loss\": 20}\n{\"step\": 3, \"loss\": 30}\n");
  assert_true(refresh());
  STEPS(1, 2, 3);
  assert_true(value("loss", 1) == 20);
  assert_int_equal(truncate(in("metrics.jsonl"), 23), 0);
  assert_true(refresh());
  STEPS(1);
  append("metrics.jsonl", "{\"step\": 2, \"loss\": 21}\n");
  assert_true(refresh());
  STEPS(1, 2);
  assert_true(value("loss", 1) == 21);
}

/* Between two refreshes the file was cut back and has grown beyond the part already read. */
static void a_resume_between_two_looks_is_seen(void **state) {
  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"loss\": 1}\n{\"step\": 2, \"loss\": 2}\n");
  ok(tri_history_open(folder, &h));
  assert_int_equal(truncate(in("metrics.jsonl"), 23), 0);
  append("metrics.jsonl", "{\"step\": 2, \"loss\": 5}\n{\"step\": 3, \"loss\": 6}\n");
  assert_true(refresh());
  STEPS(1, 2, 3);
  assert_true(value("loss", 1) == 5 && value("loss", 2) == 6);
}

/* The line of a delayed evaluation is completed in place. */
static void a_completed_line_is_seen(void **state) {
  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"loss\": 1, \"eval\": \"due\"}\n");
  ok(tri_history_open(folder, &h));
  assert_string_equal(tri_history_text(h, "eval"), "due");
  put("metrics.jsonl", "{\"step\": 1, \"loss\": 1, \"eval_reward_mean\": 0.5}\n");
  assert_true(refresh());
  assert_null(tri_history_text(h, "eval"));
  assert_true(value("eval_reward_mean", 0) == 0.5);
}

/* When steps go back, the later lines count. The replaced lines never come back. */
static void later_lines_take_the_place(void **state) {
  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"a\": 1}\n{\"step\": 2, \"a\": 2}\n{\"step\": 2, \"a\": 3}\n");
  ok(tri_history_open(folder, &h));
  STEPS(1, 2);
  assert_true(value("a", 1) == 3);
  append("metrics.jsonl", "{\"step\": 3, \"a\": 4}\n{\"step\": 4, \"b\": 5}\n{\"step\": 2}\n");
  assert_true(refresh());
  STEPS(1, 2);
  assert_true(isnan(value("a", 1)) && isnan(value("b", 0)) && isnan(value("b", 1)));
}

static void a_file_that_goes_has_no_lines(void **state) {
  (void)state;
  put("deck.yaml", "train:\n  steps: 3\n");
  put("metrics.jsonl", "{\"step\": 1, \"a\": 1}\n");
  ok(tri_history_open(folder, &h));
  unlink(in("metrics.jsonl"));
  assert_true(refresh());
  assert_int_equal(tri_history_rows(h), 0);
  assert_int_equal(tri_history_n_series(h), 0);
  assert_false(refresh());
  put("metrics.jsonl", "{\"step\": 1, \"a\": 2}\n");
  assert_true(refresh());
  assert_true(value("a", 0) == 2);
}

/* Reading a growing file in any pieces gives the same as reading it at once. */
static void pieces_do_not_matter(void **state) {
  enum { LINES = 3000 };
  static char  text[LINES * 128];
  tri_history *whole;
  size_t       n = 0, at = 0;

  (void)state;
  for (int i = 1; i <= LINES; i++)
    n += (size_t)sprintf(text + n, "{\"step\": %d, \"a\": %.17g%s}\n", i, sin(i), i % 7 ? ", \"b\": 1" : "");
  put("metrics.jsonl", "");
  ok(tri_history_open(folder, &h));
  for (size_t piece = 1; at < n; piece = piece * 3 + 1) {
    char   keep = 0;
    size_t end = at + piece < n ? at + piece : n;
    keep = text[end];
    text[end] = 0;
    append("metrics.jsonl", text + at);
    text[end] = keep;
    at = end;
    assert_true(refresh());
  }
  ok(tri_history_open(folder, &whole));
  assert_int_equal(tri_history_rows(h), LINES);
  assert_int_equal(tri_history_rows(whole), LINES);
  for (int i = 0; i < 2; i++) {
    tri_history_points a = tri_history_points_of(h, i), b = tri_history_points_of(whole, i);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.row, b.row, (size_t)a.n * sizeof *a.row);
    assert_memory_equal(a.value, b.value, (size_t)a.n * sizeof *a.value);
  }
  for (int i = 0; i < LINES; i++) assert_true(value("a", i) == sin(i + 1));
  tri_history_close(&whole);
}

/* A line of 10 MB is read, one of more than TRI_LINE_BYTES is skipped. Both leave the following lines
 * intact. */
static void long_lines(void **state) {
  const size_t n = 10 << 20;
  char        *text = malloc(n + 64);
  int          fd;

  (void)state;
  assert_non_null(text);
  memset(text, 'x', n + 64);
  memcpy(text, "{\"step\": 1, \"t\": \"", 18);
  strcpy(text + n, "\", \"a\": 4}\n");
  put("metrics.jsonl", text);
  free(text);
  ok(tri_history_open(folder, &h));
  assert_true(value("a", 0) == 4);
  fd = open(in("metrics.jsonl"), O_WRONLY | O_APPEND);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)n + TRI_LINE_BYTES + 4096), 0); /* zeroes, without a newline */
  assert_true(refresh());
  assert_int_equal(tri_history_rows(h), 1);
  assert_int_equal(tri_history_bad_lines(h), 1);
  close(fd);
  append("metrics.jsonl", "the rest\n{\"step\": 2, \"a\": 5}\n");
  assert_true(refresh());
  assert_true(value("a", 1) == 5);
  assert_int_equal(tri_history_bad_lines(h), 1);
}

/* The first line has many names, and many lines lack them. Memory stays in proportion to the file's bytes,
 * which are the judge. */
static void memory_is_of_what_is_there(void **state) {
  enum { NAMES = 1000, LINES = 20000 };
  tri_text text = {0};
  size_t   before;

  (void)state;
  ok(tri_text_printf(&text, "{\"step\":0"));
  for (int i = 0; i < NAMES; i++) ok(tri_text_printf(&text, ",\"n%d\":%d", i, i));
  ok(tri_text_printf(&text, "}\n"));
  for (int s = 1; s < LINES; s++)
    ok(tri_text_printf(&text, "{\"step\":%d%s}\n", s, s % 2 ? "" : ",\"n7\":1"));
  put("metrics.jsonl", text.data);
  before = tri_host_bytes();
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_rows(h), LINES);
  assert_int_equal(tri_history_n_series(h), NAMES);
  assert_true(tri_host_bytes() - before < 8 * text.len); /* 160 MB if each name had every line */
  assert_true(value("n999", 0) == 999 && isnan(value("n999", 1)) && value("n7", 2) == 1 &&
              isnan(value("n7", 3)));
  assert_int_equal(tri_history_points_of(h, 7).n, 1 + (LINES - 1) / 2);
  tri_text_free(&text);
}

/* Files of 1 TB made of holes are skipped quickly, and the lines behind the holes are read. */
static void holes_are_passed_over(void **state) {
  enum { GIB = 1 << 30 };

  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"a\": 4}\n");
  put("run.jsonl", "{\"v\": 1, \"event\": \"start\", \"steps\": 10}\n");
  ok(tri_history_open(folder, &h));
  for (int i = 0; i < 2; i++)
    assert_int_equal(truncate(in(i ? "metrics.jsonl" : "run.jsonl"), (off_t)GIB * 1024), 0);
  append("metrics.jsonl", "\n{\"step\": 2, \"a\": 5}\n");
  append("run.jsonl", "\n{\"v\": 1, \"event\": \"alarm\", \"code\": \"c\", \"text\": \"last\"}\n");
  for (int whole = 0; whole < 2; whole++) {
    if (whole) tri_history_close(&h);
    if (whole)
      ok(tri_history_open(folder, &h));
    else
      assert_true(refresh());
    assert_true(value("a", tri_history_rows(h) - 1) == 5);
    assert_int_equal(tri_history_rows(h), whole ? 1 : 2);
    assert_int_equal(tri_history_bad_lines(h), 1);
    assert_int_equal(tri_history_n_alarms(h), 1);
    assert_string_equal(tri_history_alarm(h, 0), "last");
  }
}

static void too_many_names_are_foreign(void **state) {
  tri_text text = {0};

  (void)state;
  for (int spelling = 0; spelling < 2; spelling++) { /* no series exists yet, 1024 numbers and a step are too
                                                      * many */
    ok(tri_text_printf(&text, "{\"%s\": 0", spelling ? "st\\u0065p" : "step"));
    for (int i = 0; i < 1024; i++) ok(tri_text_printf(&text, ", \"n%d\": 1", i));
    ok(tri_text_printf(&text, "}\n"));
  }
  ok(tri_text_printf(&text, "{\"step\": 1, \"a\": 1, \"b\": 1}\n{\"step\": 2"));
  for (int i = 0; i < 1023; i++) ok(tri_text_printf(&text, ", \"n%d\": 1", i));
  ok(tri_text_printf(&text, "}\n{\"step\": 3, \"%0200d\": 1, \"b\": 3}\n{\"step\": 4, \"a\": 2}\n", 0));
  put("metrics.jsonl", text.data);
  tri_text_free(&text);
  ok(tri_history_open(folder, &h));
  STEPS(1, 3, 4); /* only the name of excessive length is left out of its line */
  assert_int_equal(tri_history_n_series(h), 2);
  assert_true(value("b", 1) == 3);
  assert_int_equal(tri_history_bad_lines(h), 3);
}

static void what_is_no_run_is_refused(void **state) {
  (void)state;
  expect_message(tri_history_open(folder, &h), "check_folder() metrics.jsonl run.jsonl deck.yaml");
  expect_message(tri_history_open(in("nowhere"), &h), "check_folder() nowhere No such file run.output");
  put("file", "x");
  expect_message(tri_history_open(in("file"), &h), "check_folder() file run.output !such");
  assert_int_equal(mkfifo(in("metrics.jsonl"), 0600), 0);
  expect_message(tri_history_open(folder, &h), "check_regular() metrics.jsonl pipe");
  unlink(in("metrics.jsonl"));
  assert_int_equal(mkdir(in("metrics.jsonl"), 0700), 0);
  expect_message(tri_history_open(folder, &h), "check_regular() metrics.jsonl folder");
  rmdir(in("metrics.jsonl"));
  put("metrics.jsonl", "");
  assert_int_equal(mkfifo(in("run.jsonl"), 0600), 0);
  expect_message(tri_history_open(folder, &h), "check_regular() run.jsonl");
  assert_null(h);
}

/* An error while watching is reported, and the next refresh recovers. */
static void a_error_is_told_and_passes(void **state) {
  bool changed;

  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"a\": 1}\n");
  ok(tri_history_open(folder, &h));
  unlink(in("metrics.jsonl"));
  assert_int_equal(mkfifo(in("metrics.jsonl"), 0600), 0);
  expect_message(tri_history_refresh(h, &changed), "check_regular() pipe");
  unlink(in("metrics.jsonl"));
  put("metrics.jsonl", "{\"step\": 1, \"a\": 7}\n");
  assert_true(refresh());
  assert_true(value("a", 0) == 7);
}

static void flattens_the_deck(void **state) {
  static const char *const want[][2] = {{"run.output", "out/a b"},
                                        {"data.train", "[one.jsonl, two.jsonl]"},
                                        {"data.stop", "[]"},
                                        {"data.chat_template_kwargs.a", "true"},
                                        {"data.chat_template_kwargs.b c", "x"},
                                        {"data.other_kwargs", "{}"},
                                        {"reward[0].name", "number"},
                                        {"reward[0].weight", "1.50"},
                                        {"reward[1].command", "[python, x.py]"},
                                        {"train.learning_rate", "1e-6"},
                                        {"train.steps", "null"}};
  enum { N = sizeof want / sizeof *want };

  (void)state;
  put("deck.yaml",
      "# as used\nrun:\n  output: \"out/a b\"\ndata:\n  train: [one.jsonl, two.jsonl]\n  stop: []\n"
      "  chat_template_kwargs: {\"a\": true, \"b c\": \"x\"}\n  other_kwargs: {}\n"
      "reward:\n  - name: number\n    weight: 1.50\n  - command: [python, x.py]\n"
      "train:\n  learning_rate: 1e-6\n  steps: null\n");
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_rows(h), 0);
  assert_int_equal(tri_history_n_keys(h), N);
  for (int i = 0; i < N; i++) {
    assert_string_equal(tri_history_key(h, i), want[i][0]);
    assert_string_equal(tri_history_key_value(h, i), want[i][1]);
  }
  assert_string_equal(tri_history_deck(h, "train.steps"), "null");
  assert_null(tri_history_deck(h, "train.step"));
  put("deck.yaml",
      "reward:\n  - {name: http, url: \"http://user:hunter2@h/x?key=SEKRIT\"}\n"); /* from an older version */
  assert_true(refresh());
  assert_string_equal(tri_history_deck(h, "reward[0].url"), "http://***@h/x?key=***");
  put("deck.yaml", "run: [\n");
  assert_true(refresh());
  assert_int_equal(tri_history_n_keys(h), 0);
  assert_non_null(strstr(tri_history_deck_error(h), "deck.yaml:"));
  put("deck.yaml", "train: {steps: 12}\n");
  assert_true(refresh());
  assert_null(tri_history_deck_error(h));
  assert_string_equal(tri_history_deck(h, "train.steps"), "12");
}

/* The numbers can do without the deck. */
static void a_deck_that_cannot_be_opened_is_told(void **state) {
  (void)state;
  put("metrics.jsonl", "{\"step\": 1, \"a\": 1}\n");
  assert_int_equal(mkfifo(in("deck.yaml"), 0600), 0); /* root may open all else */
  ok(tri_history_open(folder, &h));
  assert_true(tells(tri_history_deck_error(h), "deck.yaml pipe"));
  assert_true(value("a", 0) == 1);
  unlink(in("deck.yaml"));
  put("deck.yaml", "train: {steps: 12}\n");
  if (geteuid() != 0) {
    assert_int_equal(chmod(in("deck.yaml"), 0), 0);
    assert_true(refresh());
    assert_true(tells(tri_history_deck_error(h), "deck.yaml"));
    assert_non_null(strstr(tri_history_deck_error(h), strerror(EACCES)));
    assert_int_equal(chmod(in("deck.yaml"), 0600), 0);
  }
  assert_true(refresh());
  assert_null(tri_history_deck_error(h));
  assert_string_equal(tri_history_deck(h, "train.steps"), "12");
  unlink(in("deck.yaml"));
  assert_true(refresh());
  assert_int_equal(tri_history_n_keys(h), 0);
  assert_null(tri_history_deck_error(h));
}

/* Builds a line as src/report/runlog.c writes it, {"v": 1, "time_unix_s": 1.5, "event": ...}. */
#define EVENT(event, members) "{\"v\": 1, \"time_unix_s\": 1.5, \"event\": \"" event "\", " members "}\n"
#define START(steps)          EVENT("start", "\"steps\": " steps ", \"hosts\": [{\"node\": \"n1\"}]")
#define ALARM(text)           EVENT("alarm", "\"code\": \"some\", \"step\": 3, \"text\": \"" text "\"")
#define END(state)                                                                                           \
  EVENT("end", "\"state\": \"" state "\", \"step\": 7, \"exit_code\": 75, \"cause\": \"file\"")

static void reads_alarms_and_ends(void **state) {
  tri_ending e;

  (void)state;
  put("metrics.jsonl", "");
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_starts(h), -1);
  assert_null(tri_history_start(h));
  put("run.jsonl",
      ALARM("before any start") START("40") ALARM("30 % were cut;\\n  raise it") ALARM("esc\\u001b[31m")
          EVENT("alarm", "\"code\": \"kl_jump\", \"step\": null, \"text\": \"\""));
  assert_true(refresh());
  assert_int_equal(tri_history_n_alarms(h), 4);
  assert_string_equal(tri_history_alarm(h, 1), "30 % were cut; raise it");
  assert_string_equal(tri_history_alarm(h, 2), "esc\\x1B[31m");
  assert_string_equal(tri_history_alarm_code(h, 2), "some");
  assert_int_equal(tri_history_alarm_step(h, 2), 3);
  assert_string_equal(tri_history_alarm_code(h, 3), "kl_jump");
  assert_int_equal(tri_history_alarm_step(h, 3), -1);
  assert_int_equal(tri_history_first_alarm(h), 1);
  assert_int_equal(tri_history_said_steps(h), 40);
  assert_int_equal(tri_history_starts(h), 1);
  assert_int_equal(tri_history_ending(h).state, TRI_ENDING_OPEN);
  append("run.jsonl",
         EVENT("state", "\"phase\": \"learn\", \"step\": 3")
             EVENT("end", "\"state\": \"failed\", \"exit_code\": 70, \"cause\": \"numeric\", \"text\": "
                          "\"loss is nan\\n  layer 0\", \"rank\": 2, \"node\": \"n1\""));
  assert_true(refresh());
  assert_string_equal(tri_history_phase(h), "learn");
  assert_int_equal(tri_history_phase_step(h), 3);
  assert_int_equal(tri_history_n_alarms(h), 5);
  assert_string_equal(tri_history_alarm(h, 4), "loss is nan layer 0");
  assert_string_equal(tri_history_alarm_code(h, 4), "numeric");
  assert_true(tri_history_alarm_is_error(h, 4) && !tri_history_alarm_is_error(h, 3));
  e = tri_history_ending(h);
  assert_true(e.state == TRI_ENDING_FAILED && e.exit_code == 70 && e.rank == 2 && e.step == -1);
  assert_string_equal(e.node, "n1");
  append("run.jsonl", START("41"));
  assert_true(refresh());
  assert_int_equal(tri_history_ending(h).state, TRI_ENDING_OPEN);
  assert_int_equal(tri_history_first_alarm(h), 5);
  assert_int_equal(tri_history_said_steps(h), 41);
  assert_int_equal(tri_history_starts(h), 2);
  assert_string_equal(tri_history_phase(h), "");
  append("run.jsonl", END("stopped"));
  assert_true(refresh());
  e = tri_history_ending(h);
  assert_true(e.state == TRI_ENDING_STOPPED && e.exit_code == 75 && e.step == 7 && e.rank == -1);
  assert_string_equal(e.cause, "file");
  append("run.jsonl", END("finished"));
  assert_true(refresh());
  assert_int_equal(tri_history_ending(h).state, TRI_ENDING_FINISHED);
  assert_int_equal(tri_history_bad_events(h), 0);
  unlink(in("run.jsonl"));
  assert_true(refresh());
  assert_int_equal(tri_history_starts(h), -1);
  assert_int_equal(tri_history_n_alarms(h), 0);
}

/* The line of the newest start is handed on with all its members. */
static void a_start_is_kept(void **state) {
  (void)state;
  put("metrics.jsonl", "");
  put("run.jsonl", START("1") START("2") "{\"v\": 1, \"eve");
  ok(tri_history_open(folder, &h));
  assert_int_equal(json_integer_value(json_object_get(tri_history_start(h), "steps")), 2);
  assert_int_equal(json_array_size(json_object_get(tri_history_start(h), "hosts")), 1);
}

/* Lines that are cut, of another type or of another version are skipped. So are additions of newer programs.
 * An unfinished last line waits. */
static void strange_events_are_passed_over(void **state) {
  static const char *const bad[] = {"garbage",
                                    "{\"v\": 1, \"time_unix_s\": 1.5, \"event\": \"al",
                                    "[1]",
                                    "{}",
                                    "{\"v\": \"1\", \"event\": \"start\"}",
                                    "{\"v\": 1.0, \"event\": \"start\"}",
                                    "{\"v\": -1, \"event\": \"start\"}",
                                    "{\"v\": 1}",
                                    "{\"v\": 1, \"event\": 3}",
                                    "{\"v\": 1, \"v\": 1, \"event\": \"start\"}",
                                    "{\"v\": 1, \"event\": \"alarm\", \"text\": \"no code\"}",
                                    "{\"v\": 1, \"event\": \"alarm\", \"code\": \"no_text\"}",
                                    "{\"v\": 1, \"event\": \"alarm\", \"code\": 7, \"text\": \"x\"}",
                                    "{\"v\": 1, \"event\": \"alarm\", \"code\": \"c\", \"text\": [\"x\"]}",
                                    "{\"v\": 1, \"event\": \"state\", \"step\": 1}",
                                    "{\"v\": 1, \"event\": \"end\", \"state\": \"over\"}",
                                    "{\"v\": 1, \"event\": \"end\", \"state\": null}",
                                    "{\"v\": 1, \"event\": \"verdict\", \"rank\": 1}"};
  enum { N = sizeof bad / sizeof *bad };

  (void)state;
  put("metrics.jsonl", "");
  put("run.jsonl", START("9"));
  for (int i = 0; i < N; i++) {
    append("run.jsonl", bad[i]);
    append("run.jsonl", i % 2 ? "\n\n" : "\n");
  }
  append("run.jsonl", EVENT("coffee", "\"cups\": 2"));
  append("run.jsonl",
         EVENT("end", "\"state\": \"stopped\", \"exit_code\": \"75\", \"step\": 1e3, \"cause\": {}, "
                      "\"rank\": -4, \"node\": 7, \"more\": [[[]]]"));
  append("run.jsonl", "{\"v\": 2, \"event\": \"end\", \"state\": \"failed\"}\n{\"v\": 77, \"event\": 5}\n");
  append("run.jsonl", "{\"v\": 1, \"event\": \"end\", \"state\": \"finished\"}");
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_bad_events(h), N);
  assert_int_equal(tri_history_starts(h), 1);
  tri_ending e = tri_history_ending(h);
  assert_true(e.state == TRI_ENDING_STOPPED && e.exit_code == -1 && e.step == -1 && e.rank == -1);
  assert_true(!e.cause[0] && !e.node[0]);
  assert_int_equal(tri_history_n_alarms(h), 1); /* one word of the other versions */
  assert_string_equal(tri_history_alarm_code(h, 0), "foreign_version");
  assert_non_null(strstr(tri_history_alarm(h, 0), "version 2"));
  append("run.jsonl", "\n");
  assert_true(refresh());
  assert_int_equal(tri_history_ending(h).state, TRI_ENDING_FINISHED);
}

/* A line longer than any event and one nested deeper than any event are dropped. The following lines are
 * read. */
static void huge_events_are_passed_over(void **state) {
  enum { BYTES = 9 << 20 };
  tri_text text = {0};
  int64_t  before;

  (void)state;
  put("metrics.jsonl", "");
  ok(tri_text_printf(&text, START("5") "{\"v\": 1, \"event\": \"alarm\", \"code\": \"c\", \"text\": \""));
  for (int i = 0; i < BYTES / 64; i++)
    ok(tri_text_put(&text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 64));
  ok(tri_text_printf(&text, "\"}\n{\"v\": 1, \"event\": "));
  for (int i = 0; i < 1 << 18; i++) ok(tri_text_put(&text, "[", 1));
  ok(tri_text_printf(&text, "\n" ALARM("%0*d") END("finished"), 1 << 16, 1));
  put("run.jsonl", text.data);
  tri_text_free(&text);
  before = tri_host_bytes();
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_bad_events(h), 2);
  assert_int_equal(tri_history_n_alarms(h), 1);
  assert_true(strlen(tri_history_alarm(h, 0)) < 4096 && tri_host_bytes() - before < 1 << 20);
  assert_int_equal(tri_history_ending(h).state, TRI_ENDING_FINISHED);
}

#define VERDICT(tag, node)                                                                                   \
  EVENT("verdict", "\"tag\": \"" tag "\", \"rank\": 3, \"node\": \"" node                                    \
                   "\", \"cause\": \"died\", \"text\": \"rank 3\"")

/* A verdict takes precedence over its consequences. The first of several verdicts counts. Verdicts of another
 * start do not count. */
static void a_verdict_goes_first(void **state) {
  tri_ending e;

  (void)state;
  ok(tri_ending_read(folder, NULL, &e));
  assert_int_equal(e.state, TRI_ENDING_OPEN);
  put("run.jsonl", VERDICT("a", "n1") VERDICT("a", "n2")
                       EVENT("end", "\"state\": \"failed\", \"cause\": \"comm\", \"tag\": \"a\""));
  ok(tri_ending_read(folder, NULL, &e));
  assert_true(e.state == TRI_ENDING_FAILED && e.exit_code == 76 && e.rank == 3);
  assert_string_equal(e.cause, "died");
  assert_string_equal(e.node, "n1");
  ok(tri_ending_read(folder, "b", &e));
  assert_int_equal(e.state, TRI_ENDING_OPEN);
  append("run.jsonl", VERDICT("b", "n3")); /* while it loads, before its start event */
  ok(tri_ending_read(folder, "b", &e));
  assert_string_equal(e.node, "n3");
  append("run.jsonl",
         START("9") EVENT("end", "\"state\": \"failed\", \"cause\": \"reward\", \"tag\": \"c\""));
  ok(tri_ending_read(folder, "b", &e));
  assert_int_equal(e.state, TRI_ENDING_OPEN);
  ok(tri_ending_read(folder, "c", &e));
  assert_string_equal(e.cause, "reward");
  append("run.jsonl", /* a tag is written up to 63 bytes */
         VERDICT("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "n4"));
  ok(tri_ending_read(folder, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", &e));
  assert_string_equal(e.node, "n4");
  ok(tri_history_open(folder, &h)); /* a run stopped this early has no other file */
  assert_int_equal(tri_history_n_alarms(h), 6);
  assert_true(tri_history_alarm_is_error(h, 0));
}

/* If a later start was refused before its start event, a finished run stays finished. A run that was to go on
 * has failed. */
static void a_refused_start_undoes_nothing(void **state) {
  static const char refused[] = EVENT(
      "end",
      "\"state\": \"failed\", \"exit_code\": 64, \"cause\": \"config\", \"text\": \"no\", \"tag\": \"t\"");
  tri_ending e;

  (void)state;
  for (int finished = 0; finished < 2; finished++) {
    put("run.jsonl", START("9"));
    append("run.jsonl", finished ? END("finished") : END("stopped"));
    append("run.jsonl", refused);
    ok(tri_history_open(folder, &h));
    assert_int_equal(tri_history_ending(h).state, finished ? TRI_ENDING_FINISHED : TRI_ENDING_FAILED);
    assert_int_equal(tri_history_n_alarms(h), 1);
    tri_history_close(&h);
    ok(tri_ending_read(folder, "t", &e));
    assert_true(e.state == TRI_ENDING_FAILED && e.exit_code == 64 && e.step == -1);
  }
  append("run.jsonl", START("10"));
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_ending(h).state, TRI_ENDING_OPEN);
}

/* The contents of log.txt, from any start or child, count for nothing. */
static void expect_why(const char *events, const char *line) {
  tri_ending e;
  tri_text   why = {0};

  put("run.jsonl", events);
  ok(tri_ending_read(folder, NULL, &e));
  ok(tri_ending_put(&e, &why));
  assert_string_equal(why.data ? why.data : "", line);
  tri_text_free(&why);
}

/* The cause, the way of a stop, rank, node, exit code, step and time. Unknown ones are left out. */
static void why_it_ended_is_a_line(void **state) {
  (void)state;
  expect_why(START("9"), "");
  expect_why(START("9") END("finished"),
             "why it ended: all steps are done, exit code 75, after step 7, 1970-01-01 00:00:01 UTC");
  expect_why(START("9") END("stopped"),
             "why it ended: stop file, exit code 75, after step 7, 1970-01-01 00:00:01 UTC");
  expect_why(START("9") EVENT("end", "\"state\": \"stopped\", \"cause\": \"signal\", \"text\": \"SIGUSR1\""),
             "why it ended: signal (SIGUSR1), 1970-01-01 00:00:01 UTC");
  expect_why(
      "{\"v\": 1, \"event\": \"end\", \"state\": \"stopped\", \"cause\": \"time\", \"text\": \"42 s\"}\n",
      "why it ended: time limit (42 s)");
  expect_why(VERDICT("a", "n1"),
             "why it ended: died, rank 3 on node n1, exit code 76, 1970-01-01 00:00:01 UTC");
  expect_why(EVENT("end",
                   "\"state\": \"failed\", \"exit_code\": 70, \"cause\": \"numeric\", \"text\": \"nan\", "
                   "\"node\": \"n2\\u001b[31m\""),
             "why it ended: numeric, node n2\\x1B[31m, exit code 70, 1970-01-01 00:00:01 UTC");
}

static void the_log_is_not_read(void **state) {
  (void)state;
  put("metrics.jsonl", "");
  put("log.txt",
      "trireme 0.1.0: grpo, 40 steps, output o\ntrireme: warning: w\ntrireme: e\ndone after 40 steps, 1s\n");
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_n_alarms(h), 0);
  assert_int_equal(tri_history_starts(h), -1);
  assert_int_equal(tri_history_ending(h).state, TRI_ENDING_OPEN);
}

static void keeps_the_last_alarms(void **state) {
  tri_text text = {0};

  (void)state;
  put("metrics.jsonl", "");
  for (int i = 0; i < 1500; i++) ok(tri_text_printf(&text, ALARM("number %d"), i));
  put("run.jsonl", text.data);
  tri_text_free(&text);
  ok(tri_history_open(folder, &h));
  assert_int_equal(tri_history_n_alarms(h), 1000);
  assert_string_equal(tri_history_alarm(h, 0), "number 500");
  assert_string_equal(tri_history_alarm(h, 999), "number 1499");
}

static void finds_checkpoints_and_starts(void **state) {
  const tri_history_life *life;

  (void)state;
  put("metrics.jsonl", "");
  ok(tri_history_open(folder, &h));
  life = tri_history_life_of(h);
  assert_true(life->checkpoint == -1 && !life->is_saving && !life->has_start && life->seen_unix_s > 0);
  assert_int_equal(mkdir(in("checkpoints"), 0700), 0);
  assert_int_equal(mkdir(in("checkpoints/step-00000020"), 0700), 0);
  assert_int_equal(symlink("step-00000020", in("checkpoints/LATEST")), 0);
  assert_true(refresh());
  assert_int_equal(tri_history_checkpoint(h), -1); /* not whole */
  put("checkpoints/step-00000020/MANIFEST.json", "{}\n");
  assert_int_equal(mkdir(in("checkpoints/step-00000040.tmp-2"), 0700), 0);
  put(".start", "Slurm job 7, restart -, step 0; process 4321 on node\x1b.1, at 1795823708\n");
  assert_true(refresh());
  assert_int_equal(tri_history_checkpoint(h), 20);
  assert_true(life->checkpoint_unix_s > 0 && life->is_saving && life->has_start);
  assert_int_equal(life->pid, 4321);
  assert_string_equal(life->host, "node\\x1B.1");
  assert_true(life->start_unix_s == 1795823708);
  put(".start", "something else\n");
  unlink(in("checkpoints/LATEST"));
  assert_int_equal(symlink("../../elsewhere", in("checkpoints/LATEST")), 0);
  assert_true(refresh());
  assert_true(life->has_start && life->pid == 0 && !life->host[0] && life->checkpoint == -1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest test[] = {TEST(reads_numbers_texts_and_nulls),
                                    TEST(spelling_does_not_matter),
                                    TEST(foreign_lines_are_counted),
                                    TEST(a_nul_ends_no_line),
                                    TEST(half_a_line_waits),
                                    TEST(only_the_end_is_read),
                                    TEST(a_resume_is_read_anew),
                                    TEST(a_resume_between_two_looks_is_seen),
                                    TEST(a_completed_line_is_seen),
                                    TEST(later_lines_take_the_place),
                                    TEST(a_file_that_goes_has_no_lines),
                                    TEST(pieces_do_not_matter),
                                    TEST(long_lines),
                                    TEST(memory_is_of_what_is_there),
                                    TEST(holes_are_passed_over),

                                    TEST(too_many_names_are_foreign),
                                    TEST(what_is_no_run_is_refused),
                                    TEST(a_error_is_told_and_passes),
                                    TEST(flattens_the_deck),
                                    TEST(a_deck_that_cannot_be_opened_is_told),
                                    TEST(reads_alarms_and_ends),
                                    TEST(a_start_is_kept),
                                    TEST(strange_events_are_passed_over),
                                    TEST(huge_events_are_passed_over),
                                    TEST(a_verdict_goes_first),
                                    TEST(why_it_ended_is_a_line),
                                    TEST(the_log_is_not_read),
                                    TEST(keeps_the_last_alarms),
                                    TEST(finds_checkpoints_and_starts),
                                    TEST(a_refused_start_undoes_nothing)};

  tri_log_open(1, TRI_LOG_ERROR);
  return cmocka_run_group_tests(test, NULL, NULL);
}
