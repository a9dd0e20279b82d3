/* test_look.c - tests the state, speed and curves of runs on show, and the width of their lines. Judges are
 * values worked out by hand, file times and clocks set by the test, and columns counted by code points. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "tools/look/look_impl.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "refusal_case.h"

static char   folder[64];
static double now; /* every file was written then */

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_look_XXXXXX");
  now = floor(tri_unix_s());
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
  char command[128];

  (void)state;
  assert_int_equal(tri_host_bytes(), 0);
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

static const char *in(const char *run, const char *name) {
  static char path[256];

  snprintf(path, sizeof path, "%s/%s%s%s", folder, run, *name ? "/" : "", name);
  return path;
}

static void put(const char *run, const char *name, const char *fmt, ...) {
  const struct timespec t[2] = {{.tv_sec = (time_t)now}, {.tv_sec = (time_t)now}};
  tri_text              text = {0};
  char                  part[4096];
  va_list               ap;

  va_start(ap, fmt);
  vsnprintf(part, sizeof part, fmt, ap);
  va_end(ap);
  if (mkdir(in(run, ""), 0700)) assert_true(access(in(run, ""), F_OK) == 0);
  assert_int_equal(tri_text_put(&text, part, strlen(part)), TRI_OK);
  assert_int_equal(tri_file_write(in(run, name), text.data, text.len), TRI_OK);
  assert_int_equal(utimensat(AT_FDCWD, in(run, name), t, 0), 0);
  tri_text_free(&text);
}

/* As src/report/runlog.c writes it, as far as it is read here. */
#define START(steps) "{\"v\": 1, \"event\": \"start\", \"steps\": " #steps "}\n"

/* A run of four steps of 10 s, one of them evaluated for 8 s, one saved for 4 s, of ten. */
static void put_run(const char *run) {
  put(run, "deck.yaml", "run: {timeout_s: 600}\nalgo: {name: grpo}\ntrain: {steps: 10}\n");
  put(run, "metrics.jsonl",
      "{\"step\": 0, \"time_eval_s\": 100, \"eval_reward_mean\": 0.5}\n"
      "{\"step\": 1, \"reward_mean\": 0, \"time_step_s\": 10, \"tokens_per_s\": 100, \"time_unix_s\": %.0f}\n"
      "{\"step\": 2, \"reward_mean\": 1, \"time_step_s\": 10, \"tokens_per_s\": 300, \"time_unix_s\": %.0f, "
      "\"time_eval_s\": 8}\n"
      "{\"step\": 3, \"reward_mean\": 2, \"time_step_s\": 10, \"time_unix_s\": %.0f}\n"
      "{\"step\": 4, \"reward_mean\": 1, \"time_step_s\": 10, \"time_save_s\": 4, \"time_unix_s\": %.0f}\n",
      now - 40, now - 30, now - 15, now);
  put(run, "run.jsonl", START(10));
}

static void put_start(const char *run, const char *host, long pid, double at) {
  put(run, ".start", "Slurm job -, restart -, step -; process %ld on %s, at %.0f\n", pid, host, at);
}

static tri_look_facts facts_after(const char *run, double seconds) {
  tri_history   *h;
  tri_look_facts f;

  if (tri_history_open(in(run, ""), &h) != TRI_OK) fail_msg("%s", tri_error_message());
  tri_look_facts_make(h, now + seconds, &f);
  tri_history_close(&h);
  return f;
}

static void expect_state(const char *run, double seconds, tri_look_state state) {
  tri_look_facts f = facts_after(run, seconds);

  if (f.state != state) fail_msg("%s, not %s", tri_look_state_word(f.state), tri_look_state_word(state));
}

static void pace_and_time_left(void **state) {
  tri_look_facts f;

  (void)state;
  put_run("a");
  put_start("a", "elsewhere", 1, now - 60);
  f = facts_after("a", 0);
  assert_int_equal(f.step, 4);
  assert_int_equal(f.steps, 10);
  assert_true(f.step_s == (40 + 8 + 4) / 4.0);
  assert_true(f.tokens_per_s == 200);
  assert_true(f.left_s == 6 * 13.0);
  assert_true(f.trained_s == 40);
  assert_true(f.silent_s == 0 && f.since_s == 0);
  assert_true(facts_after("a", 7).since_s == 7);
  assert_true(facts_after("a", 5).left_s == 6 * 13.0 - 5);
  assert_true(facts_after("a", 50).left_s == 5 * 13.0); /* only the current step takes longer */
}

/* On the run's own node its process decides, however long the run is silent. */
static void a_process_that_lives_runs(void **state) {
  char      host[64] = "";
  siginfo_t info;
  pid_t     child;
  int       status;

  (void)state;
  gethostname(host, sizeof host - 1);
  put_run("a");
  put_start("a", host, (long)getpid(), now);
  expect_state("a", 0, TRI_LOOK_RUNNING);
  assert_string_equal(facts_after("a", 0).phase, "in step 5");
  expect_state("a", 86400, TRI_LOOK_RUNNING);
  assert_true(facts_after("a", 86400).is_quiet && !facts_after("a", 59).is_quiet);
  put_start("a", host, (long)getpid(), now - 1e6); /* this process began later, so the number was reused */
  expect_state("a", 0, TRI_LOOK_KILLED);
  child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(0);
  assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0); /* it stays, as a zombie */
  put_start("a", host, (long)child, now);
  expect_state("a", 0, TRI_LOOK_KILLED);
  assert_int_equal(waitpid(child, &status, 0), child);
  expect_state("a", 0, TRI_LOOK_KILLED);
  put("a", "run.jsonl", START(10) "{\"v\": 1, \"event\": \"end\", \"state\": \"failed\"}\n");
  expect_state("a", 0, TRI_LOOK_FAILED);
  /* the end of an earlier start does not count for a start that was killed while loading */
  put("a", "run.jsonl",
      START(10) "{\"v\": 1, \"time_unix_s\": %.0f, \"event\": \"end\", \"state\": \"stopped\"}\n", now - 60);
  expect_state("a", 0, TRI_LOOK_KILLED);
  put_start("a", host, (long)child, now - 80);
  expect_state("a", 0, TRI_LOOK_STOPPED);
}

/* A run has failed once run.jsonl says so, though its processes live on for seconds, here or elsewhere. The
 * failure of an earlier start says nothing about a start that still loads. */
static void a_failure_counts_before_the_exit(void **state) {
  char host[64] = "";

  (void)state;
  gethostname(host, sizeof host - 1);
  for (int here = 0; here < 2; here++) {
    const char *node = here ? host : "elsewhere";
    put_run("a");
    put_start("a", node, (long)getpid(), now);
    expect_state("a", 3, TRI_LOOK_RUNNING);
    put("a", "run.jsonl",
        START(10) "{\"v\": 1, \"time_unix_s\": %.0f, \"event\": \"verdict\", \"rank\": 1, \"node\": \"n\", "
                  "\"cause\": \"died\"}\n",
        now + 2);
    expect_state("a", 3, TRI_LOOK_FAILED);
    put_start("a", node, (long)getpid(), now + 4);
    expect_state("a", 4, TRI_LOOK_STARTING);
  }
}

/* If the process number is of no use, as in a container, the lock of the folder decides. */
static void a_lock_that_is_held_runs(void **state) {
  char        host[64] = "", command[128];
  struct stat sb;
  int         fd;

  (void)state;
  gethostname(host, sizeof host - 1);
  put_run("a");
  put_start("a", host, (long)getpid(), now - 1e6);
  fd = open(in("a", ""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(fd >= 0 && fstat(fd, &sb) == 0);
  expect_state("a", 0, TRI_LOOK_KILLED);
  assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
  snprintf(command, sizeof command, "grep -q ':%llu ' /proc/locks 2>/dev/null",
           (unsigned long long)sb.st_ino);
  if (system(command) == 0) expect_state("a", 0, TRI_LOOK_RUNNING); /* not every system lists them */
  close(fd);
  expect_state("a", 0, TRI_LOOK_KILLED);
}

static void elsewhere_silence_tells(void **state) {
  (void)state;
  put_run("a");
  put_start("a", "elsewhere", 1, now - 60);
  expect_state("a", 59, TRI_LOOK_RUNNING);
  expect_state("a", 67, TRI_LOOK_SILENT); /* 3 x (10 + 8 + 4) s */
  assert_true(facts_after("a", 3600).silent_s == 3600);
  put_start("a", "elsewhere", 1, now + 30); /* a start without a known step has 600 s */
  expect_state("a", 599, TRI_LOOK_STARTING);
  expect_state("a", 601, TRI_LOOK_SILENT);
}

static void what_a_run_says_of_its_end(void **state) {
  (void)state;
  put_run("a");
  expect_state("a", 10, TRI_LOOK_RUNNING); /* there is no .start, not copied or not yet made */
  expect_state("a", 1e4, TRI_LOOK_SILENT);
  put("a", "run.jsonl", START(9) "{\"v\": 1, \"event\": \"end\", \"state\": \"stopped\"}\n");
  expect_state("a", 10, TRI_LOOK_STOPPED);
  put("a", "run.jsonl", START(9) "{\"v\": 1, \"event\": \"end\", \"state\": \"finished\"}\n");
  expect_state("a", 10, TRI_LOOK_FINISHED);
  put("a", "run.jsonl", "");
  put("a", "deck.yaml", "train: {steps: 4}\n");
  expect_state("a", 10, TRI_LOOK_FINISHED);
}

static void a_run_without_a_step(void **state) {
  tri_look_facts f;

  (void)state;
  put("a", "deck.yaml", "train: {steps: 4}\n");
  put("a", "run.jsonl", START(4) "{\"v\": 1, \"event\": \"state\", \"phase\": \"rollout\", \"step\": 1}\n");
  put_start("a", "elsewhere", 1, now);
  f = facts_after("a", 1);
  assert_int_equal(f.state, TRI_LOOK_STARTING);
  assert_string_equal(f.phase, "first step, rollout");
  assert_true(f.step == 0 && f.steps == 4 && isnan(f.left_s) && isnan(f.step_s) && isnan(f.tokens_per_s));
}

static void compresses_to_means(void **state) {
  static double value[100000], out[TRI_LOOK_CURVE_MOST];
  const double  few[] = {NAN, 3, NAN, INFINITY, 5, 1};
  int64_t       row;

  (void)state;
  assert_int_equal(tri_look_compress(few, 6, 40, out), 3);
  assert_true(out[0] == 3 && out[1] == 5 && out[2] == 1);
  assert_int_equal(tri_look_compress(few, 1, 40, out), 0);
  assert_int_equal(tri_look_compress(few, 6, 0, out), 0);
  assert_true(tri_look_last(few, 5, &row) == 5 && row == 4);
  assert_true(isnan(tri_look_last(few, 1, &row)) && row == -1);
  for (int i = 0; i < 100000; i++) value[i] = i;
  assert_int_equal(tri_look_compress(value, 100000, 40, out), 40);
  for (int i = 0; i < 40; i++) assert_true(fabs(out[i] - (2500.0 * i + 1249.5)) < 1e-6);
  value[0] = value[1] = 1.7e308; /* their sum overflows */
  assert_int_equal(tri_look_compress(value, 2, 1, out), 1);
  assert_true(out[0] == 1.7e308);
}

static void marks_have_eight_heights(void **state) {
  const double value[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  tri_text     text = {0};

  (void)state;
  assert_int_equal(tri_look_spark(value, 9, 0, 8, false, &text), TRI_OK);
  assert_string_equal(text.data, "_.-:=+*##");
  text.len = 0;
  assert_int_equal(tri_look_spark(value, 1, 0, 0, false, &text), TRI_OK); /* a curve without a rise */
  assert_string_equal(text.data, "=");
  text.len = 0;
  assert_int_equal(tri_look_spark((double[]){-1.7e308, 0, 1.7e308}, 3, -1.7e308, 1.7e308, true, &text),
                   TRI_OK);
  assert_string_equal(text.data, "\xe2\x96\x81\xe2\x96\x85\xe2\x96\x88");
  tri_text_free(&text);
}

static char *draw(const char *const *path, int n, const tri_look_how *how) {
  tri_look *l;
  tri_text  text = {0};
  char     *copy;

  if (tri_look_open(path, n, &l) != TRI_OK) fail_msg("%s", tri_error_message());
  assert_int_equal(tri_look_refresh(l), TRI_OK);
  assert_int_equal(tri_look_draw(l, how, now + 100, &text), TRI_OK);
  copy = strdup(text.data);
  tri_text_free(&text);
  tri_look_close(&l);
  return copy;
}

/* Counts the code points of the line without escape sequences. Returns the end of the line. */
static int columns_of(const char **at) {
  int n = 0;

  for (; **at && **at != '\n'; ++*at) {
    if (**at == '\033') {
      assert_true((*at)[1] == '[');
      *at += strcspn(*at, "m");
      continue;
    }
    assert_true((unsigned char)**at >= ' ' && **at != 127);
    n += ((unsigned char)**at & 0xC0) != 0x80;
  }
  if (**at) ++*at;
  return n;
}

static void every_line_fits(void **state) {
  static char path[4][256];
  const char *run[4];

  (void)state;
  put_run("a");
  put_run("b with one name of more letters than forty columns have, and \033[31m between");
  put("c", "deck.yaml", "train: {steps: 888888888888888888}");
  put("c", "metrics.jsonl", "garbage\n{\"step\": 777777777777777777}\n");
  put("d", "metrics.jsonl",
      "{\"step\": 999999999999999999, \"grad_norm\": -1.2345e-300, \"kl_mean_nats\": null}\n");
  put("d", "deck.yaml", "x: [");
  put("d", "run.jsonl",
      "{\"v\": 1, \"event\": \"alarm\", \"code\": \"c\", \"text\": \"%0300d and words that go on and on and "
      "on, so that it must break\"}\n",
      1);
  snprintf(path[0], sizeof path[0], "%s", in("a", ""));
  snprintf(path[1], sizeof path[1],
           "%s/b with one name of more letters than forty columns have, and \033[31m between", folder);
  snprintf(path[2], sizeof path[2], "%s", in("c", ""));
  snprintf(path[3], sizeof path[3], "%s", in("d", ""));
  for (int i = 0; i < 4; i++) run[i] = path[i];
  for (int columns = TRI_LOOK_LEAST_COLUMNS; columns < 700; columns += columns < 130 ? 1 : 97)
    for (int n = 1; n <= 4; n++)
      for (int way = 0; way < 4; way++) {
        tri_look_how how = {.columns = columns, .utf8 = way & 1, .colour = way & 2};
        char        *text = draw(run + 4 - n, n, &how);
        for (const char *at = text; *at;) {
          const char *line = at;
          int         have = columns_of(&at);
          if (have > columns) fail_msg("%d of %d columns: %.200s", have, columns, line);
        }
        if (!how.colour) assert_null(strchr(text, '\033'));
        for (const char *c = text; *c && !how.utf8; c++) assert_true((unsigned char)*c < 0x80);
        free(text);
      }
}

/* A traceback of a reward program is one warning. The judge is a count by hand of five warnings, three of
 * them shown. */
static void lines_of_a_program_are_one_warning(void **state) {
#define SAYS(code, text) "{\"v\": 1, \"event\": \"alarm\", \"code\": \"" code "\", \"text\": \"" text "\"}\n"
  const tri_look_how how = {.columns = 79};
  char              *text;
  const char        *run[1];

  (void)state;
  put_run("a");
  put("a", "run.jsonl", "%s",
      START(10) SAYS("gap", "one") SAYS("reward_says", "Traceback") SAYS("reward_says", "KeyError")
          SAYS("gap", "three") SAYS("reward_says", "Traceback") SAYS("reward_says", "line 1")
              SAYS("reward_says", "ValueError") SAYS("gap", "five"));
  run[0] = in("a", "");
  text = draw(run, 1, &how);
  assert_non_null(strstr(text, "warning: three\n"));
  assert_non_null(strstr(text, "warning: ValueError\n"));
  assert_non_null(strstr(text, "warning: five\n"));
  assert_null(strstr(text, "Traceback"));
  assert_non_null(strstr(text, "2 earlier warnings or errors"));
  free(text);
}

static void curves_of_a_metric_have_one_scale(void **state) {
  const tri_look_how how = {.columns = 79};
  static char        path[2][256];
  const char        *run[2] = {path[0], path[1]};
  char              *text;

  (void)state;
  put("a", "metrics.jsonl", "{\"step\": 1, \"loss\": 0}\n{\"step\": 2, \"loss\": 4}\n");
  put("b", "metrics.jsonl", "{\"step\": 1, \"loss\": 8}\n{\"step\": 2, \"loss\": 4}\n");
  snprintf(path[0], sizeof path[0], "%s", in("a", ""));
  snprintf(path[1], sizeof path[1], "%s", in("b", ""));
  text = draw(run, 2, &how);
  assert_non_null(strstr(text, "loss  4.0000 _=                         loss  4.0000 #=\n"));
  assert_non_null(strstr(text, "scales: loss 0.0000 to 8.0000\n"));
  free(text);
  text = draw(run, 1, &how);
  assert_non_null(strstr(text, "loss  4.0000 _#"));
  assert_non_null(strstr(text, "0.0000 to 4.0000\n"));
  free(text);
}

static void pass_at_1_stands_beside_the_reward(void **state) {
  const tri_look_how how = {.columns = 79};
  const char        *path;
  char              *text, *at;

  (void)state;
  put("a", "metrics.jsonl", "{\"step\": 0, \"eval_reward_mean\": 1.1, \"eval_pass_at_1\": 0.75}\n");
  path = in("a", "");
  text = draw(&path, 1, &how);
  at = strstr(text, "\npass@1  0.7500 ");
  assert_non_null(at);
  assert_non_null(strstr(at, "\neval    1.1000 "));
  free(text);
}

static void asked_metrics_come_in_their_order(void **state) {
  const char *const  name[] = {"loss", "kl_mean_nat", "nothing like it"};
  const tri_look_how how = {.columns = 79, .metric = name, .n_metric = 3};
  const char        *path;
  char              *text, *at;

  (void)state;
  put("a", "metrics.jsonl", "{\"step\": 1, \"kl_mean_nats\": 0.5, \"loss\": 2, \"reward_mean\": 1}\n");
  path = in("a", "");
  text = draw(&path, 1, &how);
  at = strstr(text, "loss");
  assert_non_null(at);
  at = strstr(at, "kl_mean_nat ");
  assert_non_null(at);
  assert_true(tells(at, "kl_mean_nats?"));
  assert_non_null(strstr(at, "\nnothing like it"));
  assert_null(strstr(text, "reward"));
  free(text);
}

static void a_error_is_shown_in_its_place(void **state) {
  const tri_look_how how = {.columns = 79};
  const char        *path;
  tri_look          *l;
  tri_text           text = {0};

  (void)state;
  put_run("a");
  path = in("a", "");
  assert_int_equal(tri_look_open(&path, 1, &l), TRI_OK);
  unlink(in("a", "metrics.jsonl"));
  assert_int_equal(mkfifo(in("a", "metrics.jsonl"), 0600), 0);
  assert_int_equal(tri_look_refresh(l), TRI_OK);
  assert_int_equal(tri_look_draw(l, &how, now, &text), TRI_OK);
  assert_true(tells(text.data, "metrics.jsonl pipe"));
  text.len = 0;
  unlink(in("a", "metrics.jsonl"));
  put_run("a");
  assert_int_equal(tri_look_refresh(l), TRI_OK);
  assert_int_equal(tri_look_draw(l, &how, now, &text), TRI_OK);
  assert_true(tells(text.data, "!metrics.jsonl !pipe"));
  assert_non_null(strstr(text.data, "step 4/10"));
  tri_text_free(&text);
  tri_look_close(&l);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest test[] = {TEST(pace_and_time_left),
                                    TEST(a_process_that_lives_runs),
                                    TEST(a_failure_counts_before_the_exit),
                                    TEST(a_lock_that_is_held_runs),
                                    TEST(elsewhere_silence_tells),
                                    TEST(what_a_run_says_of_its_end),
                                    TEST(a_run_without_a_step),
                                    TEST(compresses_to_means),
                                    TEST(marks_have_eight_heights),
                                    TEST(every_line_fits),
                                    TEST(lines_of_a_program_are_one_warning),
                                    TEST(curves_of_a_metric_have_one_scale),
                                    TEST(pass_at_1_stands_beside_the_reward),
                                    TEST(asked_metrics_come_in_their_order),
                                    TEST(a_error_is_shown_in_its_place)};

  tri_log_open(1, TRI_LOG_ERROR);
  return cmocka_run_group_tests(test, NULL, NULL);
}
