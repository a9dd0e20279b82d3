/* test_reward_process.c - a program beside the ranks as a reward: its answers, their order, its failures and
 * its end. Judge: the bytes of each response, counted here. The program: tests/case/reward_child.c. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/child.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/notice.h"
#include "reward/reward.h"
#include "refusal_case.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 32 };

static char folder[64], pids[96], once[96];

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_process_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(pids, sizeof pids, "%s/pids", folder);
  snprintf(once, sizeof once, "%s/once", folder);
  return 0;
}

/* The process is gone, or is a zombie its new parent has not reaped. */
static bool is_alive(long pid) {
  char  path[64], state = 'Z';
  FILE *f;

  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  f = fopen(path, "r");
  if (!f) return false;
  if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
  fclose(f);
  return state != 'Z' && state != 'X';
}

/* Tells whether a process with this number exists, zombies included. */
static bool is_there(long pid) {
  char path[64];

  snprintf(path, sizeof path, "/proc/%ld", pid);
  return access(path, F_OK) == 0;
}

/* Checks that every process of this test is gone, at once or as soon as the system has killed it. */
static int check_gone(void) {
  FILE *f = fopen(pids, "r");
  long  pid;
  int   n = 0;

  while (f && fscanf(f, "%ld", &pid) == 1) {
    n++;
    for (int i = 0; is_alive(pid); i++) {
      if (i == 5000) fail_msg("process %ld is left behind", pid);
      usleep(1000);
    }
  }
  if (f) fclose(f);
  return n;
}

static int teardown(void **state) {
  (void)state;
  check_gone();
  unlink(pids);
  unlink(once);
  tri_error_clear();
  return tri_host_bytes() == 0 && !rmdir(folder) ? 0 : -1;
}

/* Makes "reward_child\0--pids\0FILE\0..." from `more`, with words separated by spaces. */
static tri_reward_set *open_set(const char *more, const char *timeout_s, const char *on_error) {
  static char     words[512];
  tri_reward_opt  o = {.name = "process", .weight = 1};
  tri_reward_set *set = NULL;
  size_t          n = (size_t)snprintf(words, sizeof words, "%s --pids %s%s%s", TRI_REWARD_CHILD, pids,
                              more[0] ? " " : "", more);

  o.field[0].name = "command";
  o.field[0].value = words;
  for (size_t i = 0; i < n; i++)
    if (words[i] == ' ') {
      words[i] = 0;
      o.field[0].n_more++;
    }
  o.n_field = 1;
  o.field[o.n_field].name = "timeout_s";
  o.field[o.n_field++].value = timeout_s;
  o.field[o.n_field].name = "on_error";
  o.field[o.n_field++].value = on_error;
  assert_int_equal(tri_reward_set_open(&o, 1, NULL, &set), TRI_OK);
  return set;
}

static tri_answer answer(const char *response, int i) {
  return (tri_answer){.prompt_id = 40 + i,
                      .prompt = "2+\"3\n",
                      .prompt_bytes = 5,
                      .response = response,
                      .response_bytes = strlen(response),
                      .fields = "\"extra\": {\"n\": 7}, ",
                      .fields_bytes = 19};
}

typedef struct outcome {
  tri_status st;
  int        n;
  float      total[MOST];
  int32_t    failed[MOST];
} outcome;

/* Submits responses, separated by spaces. */
static outcome ask(tri_reward_set *set, const char *responses) {
  static char copy[1024];
  outcome     x = {0};
  tri_answer  a[MOST];
  float       part[MOST];

  snprintf(copy, sizeof copy, "%s", responses);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
    a[x.n] = answer(word, x.n);
    x.n++;
  }
  x.st = tri_reward_set_score(set, a, x.n, part, x.total, x.failed);
  return x;
}

/* Checks "2 _ 5", the bytes of each response, with _ for a failure. */
static void check(const outcome *x, const char *want, float lost) {
  char copy[256], *word = strcpy(copy, want), *next;

  assert_int_equal(x->st, TRI_OK);
  for (int i = 0; i < x->n; i++, word = next) {
    bool fails = *word == '_';
    next = strchr(word, ' ') ? strchr(word, ' ') + 1 : word + strlen(word);
    if (x->failed[i] != fails || (fails ? memcmp(&x->total[i], &lost, 0) : x->total[i] != (float)atof(word)))
      fail_msg("answer %d of '%s': %g%s", i, want, (double)x->total[i], x->failed[i] ? " (failed)" : "");
    if (fails && (isnan(lost) ? !isnan(x->total[i]) : x->total[i] != lost))
      fail_msg("answer %d: %g", i, (double)x->total[i]);
  }
  assert_int_equal(*word, 0);
}

static void run(const char *more, const char *responses, const char *want) {
  tri_reward_set *set = open_set(more, "20", "drop");
  outcome         x = ask(set, responses);

  check(&x, want, NAN);
  tri_reward_set_close(&set);
  assert_true(check_gone() > 0);
}

static void answers(void **state) {
  tri_reward_set *set = open_set("", "20", "abort");
  outcome         x;

  (void)state;
  for (int step = 0; step < 3; step++) {
    x = ask(set, "a bc def field");
    check(&x, "1 2 3 7", 0);
    x = ask(set, "");
    assert_int_equal(x.st, TRI_OK);
  }
  tri_reward_set_close(&set);
  assert_int_equal(check_gone(), 1); /* one process answered all */
}

/* The program answers in reverse order after it has seen the last job, so all jobs arrive before the first
 * answer. */
static void answers_come_in_any_order(void **state) {
  (void)state;
  run("--after 4", "a bc def ghij", "1 2 3 4");
}

/* Checks the means since the last call, written as "name sum n" for each. */
static void check_extras(tri_reward_set *set, const char *want) {
  tri_reward_mean mean[TRI_EXTRAS_MOST];
  char            got[1024] = "";
  int             n, used = 0;

  assert_int_equal(tri_reward_set_extras(set, 0, NULL, mean, &n), TRI_OK);
  for (int i = 0; i < n; i++)
    used += snprintf(got + used, sizeof got - (size_t)used, "%s%s %g %g", i ? ", " : "", mean[i].name,
                     mean[i].sum, mean[i].n);
  assert_string_equal(got, want);
}

/* Extra numbers beside the reward. The mean of a name counts only replies that have it. */
static void further_numbers_are_kept(void **state) {
  static const char *const passed_over[] = {"more:\"a_b\":\"x\"",
                                            "more:\"x\":null",
                                            "more:\"x_y\":[1]",
                                            "more:\"1x\":1",
                                            "more:\"x/y\":1",
                                            "more:\"mean\":1",
                                            "more:\"extra_logs\":null",
                                            "more:\"extra_logs\":{\"x\":null}",
                                            "more:\"abcdefghijklmnopqrstuvwxyz_0123456\":1"};
  static const char *const refused[] = {"more:\"x\":NaN",
                                        "more:\"x\":-1e999",
                                        "more:\"x\":1e308", /* two of them have no mean */
                                        "more:\"extra_logs\":1",
                                        "more:\"extra_logs\":{\"x\":\"1\"}",
                                        "more:\"extra_logs\":{\"x\":[1]}",
                                        "more:\"extra_logs\":{\"x/y\":1}",
                                        "more:\"extra_logs\":{\"mean\":1}",
                                        "more:\"extra_logs\":{\"x\":Infinity}"};
  tri_reward_set          *set = open_set("", "20", "drop");
  char                     many[512] = "more:\"a00\":1", both[256];
  outcome                  x;

  (void)state;
  x = ask(set, "ab cdef g more:\"acc\":0.5,\"ok\":true,\"extra_logs\":{\"acc\":0.25,\"no\":false} null "
               "more:\"acc\":2");
  assert_true(x.st == TRI_OK && x.failed[4] && !x.failed[3]);
  check_extras(set, "acc 2.25 2, half 3 2, no 0 1, ok 1 1");
  check_extras(set, "");
  for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++) {
    x = ask(set, passed_over[i]);
    if (x.st != TRI_OK || x.failed[0]) fail_msg("%s", passed_over[i]);
    check_extras(set, "");
  }
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    snprintf(both, sizeof both, "ab %s", refused[i]);
    x = ask(set, both);
    if (x.st != TRI_OK || x.failed[0] || !x.failed[1]) fail_msg("%s", refused[i]);
    check_extras(set, "half 1 1"); /* the other answer's */
  }
  for (int i = 1; i <= TRI_EXTRAS_MOST; i++) {
    x = ask(set, many); /* i numbers */
    assert_false(x.failed[0]);
    snprintf(many + strlen(many), sizeof many - strlen(many), ",\"a%02d\":1", i);
  }
  x = ask(set, many);
  assert_true(x.failed[0]);
  tri_reward_set_close(&set);
}

/* The mean has the same bits in any order of the answers. Plain sums of these are 0.6 and
 * 0.6000000000000001. */
static void means_have_no_order(void **state) {
  static const char *const words[] = {"more:\"x\":0.3 more:\"x\":0.2 more:\"x\":0.1",
                                      "more:\"x\":0.1 more:\"x\":0.2 more:\"x\":0.3"};
  tri_reward_set          *set = open_set("", "20", "drop");
  tri_reward_mean          mean[TRI_EXTRAS_MOST];
  int                      n;

  (void)state;
  for (int k = 0; k < 2; k++) {
    (void)ask(set, words[k]);
    assert_int_equal(tri_reward_set_extras(set, 0, NULL, mean, &n), TRI_OK);
    assert_true(n == 1 && mean[0].n == 3 && mean[0].sum == 0.6);
  }
  tri_reward_set_close(&set);
}

/* With more names than space the first ones in sorted order stay, whatever the order of arrival. */
static void the_first_names_stay(void **state) {
  char            words[2][512] = {"", ""};
  tri_reward_set *set = open_set("", "20", "drop");
  tri_reward_mean mean[2][TRI_EXTRAS_MOST];
  int             n[2];

  (void)state;
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 20; i++)
      snprintf(words[k] + strlen(words[k]), sizeof words[k] - strlen(words[k]), "%smore:\"n%02d\":%d",
               i ? " " : "", k ? 19 - i : i, i);
    (void)ask(set, words[k]);
    assert_int_equal(tri_reward_set_extras(set, 0, NULL, mean[k], &n[k]), TRI_OK);
    assert_int_equal(n[k], TRI_EXTRAS_MOST);
    for (int i = 0; i < TRI_EXTRAS_MOST; i++) assert_int_equal(atoi(mean[k][i].name + 1), i);
  }
  tri_reward_set_close(&set);
}

/* The results that a trial hears for each answer. */
typedef struct heard {
  int    n, failed, replies;
  double seconds;
  char   last[256], asked[256];
} heard;

static void hear(void *ctx, int i, const tri_work_queue_result *r) {
  heard   *h = ctx;
  tri_text asked = {0};

  assert_int_equal(i, 0);
  assert_int_equal(r->number, h->n++); /* in their order */
  h->failed += r->why != NULL;
  h->replies += r->reply_bytes > 0;
  h->seconds += r->seconds;
  if (r->reply) snprintf(h->last, sizeof h->last, "%.*s", (int)r->reply_bytes, r->reply);
  assert_int_equal(tri_reward_find("process")->show(r->text, &asked), TRI_OK);
  snprintf(h->asked, sizeof h->asked, "%s", asked.data);
  tri_text_free(&asked);
}

/* In a trial no failure ends the call, even with on_error abort, and every answer is reported. */
static void a_trial_tells_of_all(void **state) {
  static const int number[] = {0, 1, 2, 3};
  char             words[512];
  tri_reward_opt   o = {.name = "process", .weight = 1, .n_field = 1, .field = {{"command", words, 2}}};
  tri_reward_env   env = {.trial = true};
  tri_reward_set  *set = NULL;
  tri_answer       a[4] = {answer("word", 0), answer("ab", 1), answer("nonsense", 2), answer("die", 3)};
  float            part[4], total[4];
  int32_t          failed[4];
  heard            h = {0};
  tri_reward_call  c = {.a = a,
                        .number = number,
                        .n = 4,
                        .part = part,
                        .total = total,
                        .failed = failed,
                        .told = hear,
                        .ctx = &h};

  (void)state;
  snprintf(words, sizeof words, "%s%c--pids%c%s", TRI_REWARD_CHILD, 0, 0, pids);
  assert_int_equal(tri_reward_set_open(&o, 1, &env, &set), TRI_OK);
  for (int q = 0; q < 4; q++) assert_int_equal(tri_reward_set_submit(set, &a[q], q), TRI_OK);
  assert_int_equal(tri_reward_set_call(set, &c), TRI_OK);
  assert_true(failed[0] && !failed[1] && failed[2] && failed[3]);
  assert_true(isnan(total[0]) && total[1] == 2 && isnan(total[2]) && isnan(total[3]));
  assert_true(h.n == 4 && h.failed == 3 && h.replies == 2 && h.seconds > 0 && h.seconds < 60);
  assert_string_equal(h.last, "hello");
  assert_non_null(strstr(h.asked, "\"response\": \"die\"}"));
  tri_reward_set_close(&set);
}

/* More than a pipe holds. */
static void much_is_asked_at_once(void **state) {
  static char     long_one[20000];
  tri_reward_set *set = open_set("--after 30", "20", "abort");
  tri_answer      a[30];
  float           part[30], total[30];
  int32_t         failed[30];

  (void)state;
  memset(long_one, 'z', sizeof long_one - 1);
  for (int i = 0; i < 30; i++) a[i] = answer(long_one + 255 - i, i);
  for (int i = 0; i < 30; i++)
    a[i].response = long_one + (sizeof long_one - 1 - (size_t)i), a[i].response_bytes = (size_t)i;
  for (int i = 0; i < 30; i++) a[i].prompt = long_one, a[i].prompt_bytes = sizeof long_one - 1;
  assert_int_equal(tri_reward_set_score(set, a, 30, part, total, failed), TRI_OK);
  for (int i = 0; i < 30; i++) assert_true(total[i] == (float)i && !failed[i]);
  tri_reward_set_close(&set);
}

/* After a death the open answers go to another child. An answer fails after three deaths. */
static void a_dead_child_is_started_again(void **state) {
  char more[128];

  (void)state;
  snprintf(more, sizeof more, "--once %s", once);
  run(more, "a die bc", "1 3 2");
  unlink(once);
  run(more, "a killed bc", "1 6 2");
  unlink(once);
  run(more, "a close bc", "1 5 2"); /* a child with a closed output is given up */
  run("", "a die bc", "1 _ 2");
  unlink(once);
  snprintf(more, sizeof more, "--fork --once %s", once);
  run(more, "a die bc", "1 3 2"); /* a process it started holds its output open */
}

typedef struct said {
  int  lines, more, counts; /* alarms with the line before its death, with other lines, with a count */
  char last[256];
} said;

static void hear_notice(void *ctx, const tri_notice *notice) {
  said *s = ctx;

  if (strcmp(notice->code, "reward_says") != 0) return;
  s->lines += strstr(notice->text, "this is the end") != NULL;
  s->more += strstr(notice->text, "xxxx") != NULL;
  s->counts += strstr(notice->text, " again ") != NULL;
  snprintf(s->last, sizeof s->last, "%s", notice->text);
}

/* Each of twelve programs says the same line before it dies. The log has it once, and counts eleven. The
 * lines a later program says first are not lost. */
static void repeated_lines_are_counted(void **state) {
  said            s = {0};
  tri_reward_set *set;
  outcome         x;
  char            more[128];

  (void)state;
  tri_notice_listen(hear_notice, &s);
  set = open_set("", "20", "drop");
  for (int i = 0; i < 4; i++) {
    x = ask(set, "a die bc");
    check(&x, "1 _ 2", NAN);
  }
  tri_reward_set_close(&set);
  assert_int_equal(s.lines, 1);
  assert_in_range(s.counts, 2, 5); /* at most 1, 2, 4, 8 and 11 */
  if (!strstr(s.last, " 11 ")) fail_msg("%s", s.last);
  s = (said){0};
  snprintf(more, sizeof more, "--once %s", once);
  set = open_set(more, "20", "drop");
  x = ask(set, "a die stderr");
  check(&x, "1 3 6", NAN);
  tri_reward_set_close(&set);
  assert_true(s.lines == 1 && s.more > 1); /* its own equal lines count as before */
  tri_notice_listen(NULL, NULL);
}

/* Six deaths in a row without an answer fail all open answers. All jobs arrive before the first death. */
static void children_that_die_at_once_have_an_end(void **state) {
  static const char *const response[] = {"die", "die", "die", "a"};
  float                    part[4], total[4];
  int32_t                  failed[4];
  int                      number[] = {0, 1, 2, 3};
  tri_answer               a[4];
  tri_reward_call c = {.a = a, .number = number, .n = 4, .part = part, .total = total, .failed = failed};
  tri_reward_set *set = open_set("", "20", "drop");
  long            pid = 0;

  (void)state;
  while (!pid) {
    FILE *f = fopen(pids, "r");
    if (f && fscanf(f, "%ld", &pid) != 1) pid = 0;
    if (f) fclose(f);
  }
  kill((pid_t)pid, SIGSTOP);
  for (int i = 0; i < 4; i++) {
    a[i] = answer(response[i], i);
    assert_int_equal(tri_reward_set_submit(set, &a[i], i), TRI_OK);
  }
  kill((pid_t)pid, SIGCONT);
  assert_int_equal(tri_reward_set_call(set, &c), TRI_OK);
  for (int i = 0; i < 4; i++) assert_true(isnan(total[i]) && failed[i]);
  tri_reward_set_close(&set);
  assert_int_equal(check_gone(), 6);
}

/* Twelve deaths in a row without an answer are not caused by the answers, so on_error does not matter. */
static void a_program_that_never_answers_ends_the_run(void **state) {
  char            more[160];
  tri_reward_set *set = open_set("", "20", "drop");
  outcome         x = {0};
  int64_t         n = 0, all = 0;
  int             steps = 0;

  (void)state;
  x = ask(set, "a bc die");
  check(&x, "1 2 _", NAN);
  assert_true(tri_reward_set_restarts(set, &n) &&
              n == 2); /* the third died with it, and no other child gets any job */
  for (; x.st == TRI_OK && steps < 20; steps++, all += n) {
    x = ask(set, "die");
    assert_true(tri_reward_set_restarts(set, &n));
  }
  assert_int_equal(x.st, TRI_EREWARD);
  if (!strstr(tri_error_message(), "reward process: ") || !strstr(tri_error_message(), "exit code 3 ") ||
      !strstr(tri_error_message(), " 11 before it") ||
      !strstr(tri_error_message(), "{\"id\": 1, \"prompt\": \"...\", \"response\": \"...\"}") ||
      !strstr(tri_error_message(), ": this is the end"))
    fail_msg("%s", tri_error_message());
  tri_error_clear();
  tri_reward_set_close(&set);
  snprintf(more, sizeof more, "--once %s", once); /* a child that dies once is started again, and counted */
  set = open_set(more, "20", "abort");
  x = ask(set, "a die bc");
  check(&x, "1 3 2", 0);
  assert_true(tri_reward_set_restarts(set, &n) && n == 1);
  assert_true(tri_reward_set_restarts(set, &n) && n == 0);
  tri_reward_set_close(&set);
}

/* One answer fails. The child is given up too if its line cannot be understood. */
static void nonsense(void **state) {
  static const char *const bad[] = {"nonsense", "list",   "unknown", "nan",   "null", "word",
                                    "large",    "beyond", "deep",    "latin", "long"};

  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char responses[64];
    snprintf(responses, sizeof responses, "a %s bc", bad[i]);
    run("", responses, "1 _ 2");
  }
  run("", "a twice bc def", "1 5 _ 3");
  run("--after 5", "a beyond bc digits def", "1 _ 2 _ 3");
  run("--after 5", "a deep bc double def", "1 _ 2 _ 3");
  run("--after 5", "a long bc latin def", "1 _ 2 _ 3");
  run("--after 4", "nul integer values def", "3 1e20 6 3"); /* its odd fields do no harm */
  run("", "a endless bc", "1 _ 2");
  run("--after 5", "a nan bc inf def", "1 _ 2 _ 3"); /* a line with the id of an answer fails no other one */
  run("", "a flood bc", "1 _ 2");
  run("", "a stderr bc", "1 6 2");
}

static void a_child_that_hangs_is_killed(void **state) {
  tri_reward_set *set = open_set("--fork", "5", "zero");
  outcome         x = ask(set, "a hang bc");

  (void)state;
  check(&x, "1 _ 2", 0);
  tri_reward_set_close(&set);
  assert_int_equal(check_gone(), 4); /* two failures, each with a new child */
}

static void on_error_is_obeyed(void **state) {
  tri_reward_set *set = open_set("", "20", "abort");
  outcome         x = ask(set, "a bc nonsense def");

  (void)state;
  assert_int_equal(x.st, TRI_EREWARD);
  assert_int_equal(tri_status_exit_code(x.st), 69);
  expect_refusal("judge_error() process prompt_id 42 hello on_error abort");
  tri_error_clear();
  x = ask(set, "a bc"); /* open jobs are forgotten */
  check(&x, "1 2", 0);
  x = ask(set, "die");
  assert_int_equal(x.st, TRI_EREWARD);
  expect_refusal("judge_error() process 3 this is the end");
  tri_error_clear();
  tri_reward_set_close(&set);
  set = open_set("", "20", "zero");
  x = ask(set, "a null bc");
  check(&x, "1 _ 2", 0);
  tri_reward_set_close(&set);
}

/* The program answers while nobody waits, so collect finds the answers ready. */
static void it_works_beside(void **state) {
  char                     more[128], log[96];
  static const char *const response[] = {"a", "bc", "def"};
  float                    part[3], total[3];
  int32_t                  failed[3], number[] = {0, 1, 2};
  tri_answer               a[3];
  tri_reward_call c = {.a = a, .number = number, .n = 3, .part = part, .total = total, .failed = failed};
  tri_reward_set *set;
  int             lines = 0;

  (void)state;
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(more, sizeof more, "--log %s", log);
  set = open_set(more, "20", "abort");
  for (int i = 0; i < 3; i++) {
    a[i] = answer(response[i], i);
    assert_int_equal(tri_reward_set_submit(set, &a[i], i), TRI_OK);
  }
  for (int i = 0; lines < 3 && i < 20000; i++) {
    FILE *f = fopen(log, "r");
    lines = 0;
    for (int byte; f && (byte = getc(f)) != EOF;) lines += byte == '\n';
    if (f) fclose(f);
    if (lines < 3) usleep(1000);
  }
  assert_int_equal(lines, 3);
  assert_int_equal(tri_reward_set_call(set, &c), TRI_OK);
  for (int i = 0; i < 3; i++) assert_true(total[i] == (float)(i + 1) && !failed[i]);
  tri_reward_set_close(&set);
  unlink(log);
}

/* Answers given up in one step do not appear in the next. */
static void what_is_forgotten_is_gone(void **state) {
  tri_reward_set *set = open_set("--after 3", "20", "abort");
  tri_answer      a = answer("given up", 0);
  outcome         x;

  (void)state;
  for (int i = 0; i < 2; i++) assert_int_equal(tri_reward_set_submit(set, &a, i), TRI_OK);
  tri_reward_set_forget(set);
  x = ask(set, "a bc def");
  check(&x, "1 2 3", 0);
  tri_reward_set_close(&set);
}

/* A program ended by a signal takes its child and grandchild with it. */
static void an_ended_run_leaves_none(void **state) {
  char  more[128], log[96];
  int   status;
  pid_t pid;

  (void)state;
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(more, sizeof more, "--fork --daemon --log %s", log);
  pid = fork();
  if (pid == 0) {
    tri_child_mind_signals();
    tri_reward_set *set = open_set(more, "20", "abort");
    (void)ask(set, "hang");
    _exit(0);
  }
  for (int i = 0; i < 20000 && access(log, F_OK); i++) usleep(1000); /* until its first job */
  kill(pid, SIGTERM);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  assert_int_equal(check_gone(), 4);
  unlink(log);
}

/* A worker may see the death of its program before this process ends. It must not start another one then,
 * because the system would not kill a child of that. */
static void when_all_are_killed_none_starts(void **state) {
  char *const argv[] = {(char[]){TRI_REWARD_CHILD}, (char[]){"--pids"}, pids, (char[]){"--fork"}, NULL};
  int         status;
  pid_t       pid = fork();

  (void)state;
  if (pid == 0) {
    tri_child c;
    tri_child_kill_all();
    _exit(tri_child_start(argv, &c) == TRI_EABSENT && tri_child_all_killed() ? 0 : 1);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(check_gone(), 0);
}

static int has_bytes(const char *path) {
  struct stat s;

  return !stat(path, &s) && s.st_size > 0;
}

/* A program that ignores the end of its input is killed, with its child and one that left its group and
 * session. An orphan that has ended is reaped while the program runs. */
static void nothing_stays(void **state) {
  tri_reward_set *set = open_set("--fork --daemon --stay", "20", "abort");
  outcome         x = ask(set, "a");
  long            pid[4] = {0};
  FILE           *f = fopen(pids, "r");

  (void)state;
  check(&x, "1", 0);
  for (int i = 0; i < 4; i++) assert_true(f && fscanf(f, "%ld", &pid[i]) == 1);
  fclose(f);
  for (int i = 0; is_there(pid[3]); i++) {
    if (i == 5000) fail_msg("process %ld is left as a zombie", pid[3]);
    usleep(1000);
  }
  assert_true(is_alive(pid[2]));
  tri_reward_set_close(&set);
  for (int i = 0; i < 4; i++)
    if (is_there(pid[i])) fail_msg("process %ld is left behind", pid[i]);
  assert_true(waitpid(-1, NULL, WNOHANG) < 0); /* no keeper either */
}

/* Processes left over by a program that ended belong to the keeper, and it kills them when the next program
 * starts. */
static void a_dead_childs_children_end(void **state) {
  char            more[160];
  tri_reward_set *set;
  outcome         x;

  (void)state;
  snprintf(more, sizeof more, "--daemon --once %s", once);
  set = open_set(more, "20", "abort");
  x = ask(set, "die a");
  check(&x, "3 1", 0);
  FILE *f = fopen(pids, "r");
  long  pid[3] = {0};
  for (int i = 0; i < 3; i++) assert_true(f && fscanf(f, "%ld", &pid[i]) == 1);
  fclose(f);
  for (int i = 0; i < 3; i++)
    if (is_there(pid[i])) fail_msg("process %ld is left behind", pid[i]);
  tri_reward_set_close(&set);
  assert_int_equal(check_gone(), 6);
}

/* A killed program takes its child with it, and all processes of that child. */
static void a_killed_run_leaves_none(void **state) {
  char  more[160], log[96];
  int   status;
  pid_t pid;

  (void)state;
  snprintf(log, sizeof log, "%s/log", folder);
  snprintf(more, sizeof more, "--fork --daemon --stay --log %s", log);
  pid = fork();
  if (pid == 0) {
    tri_reward_set *set = open_set(more, "20", "abort");
    (void)ask(set, "a hang");
    _exit(0);
  }
  for (int i = 0; i < 60000 && !has_bytes(log); i++) usleep(1000); /* until its first job */
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(check_gone(), 4);
  unlink(log);
}

static void refuses(void **state) {
  static const struct {
    const char *field, *value, *why;
  } c[] = {{"command", TRI_PROGRAM "/verify", "find_program() reward.command " TRI_PROGRAM "/verify"},
           {"command", "no-such-program-at-all", "find_program() reward.command no-such-program-at-all PATH"},
           {"command", "/tmp", "find_program() reward.command /tmp"},
           {"timeout_s", "0", "tri_reward_read_seconds() reward.timeout_s 0"},
           {"timeout_s", "soon", "tri_reward_read_seconds() reward.timeout_s soon 0"},
           {"on_error", "ignore", "tri_reward_read_on_error() reward.on_error ignore"}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    tri_reward_opt o = {.name = "process", .weight = 1, .n_field = 1, .field = {{"command", "/bin/true", 0}}};
    if (strcmp(c[i].field, "command")) {
      o.field[1].name = c[i].field;
      o.field[o.n_field++].value = c[i].value;
    } else {
      o.field[0].value = c[i].value;
    }
    assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
    expect_refusal(c[i].why);
    tri_error_clear();
  }
}

/* Makes words separated by spaces, with the test's folder in place of %. */
static tri_status check_words(const char *text) {
  char           words[512];
  size_t         n = 0;
  tri_reward_opt o = {.name = "process", .weight = 1, .n_field = 1, .field = {{"command", words, 0}}};

  for (const char *c = text; *c; c++) {
    if (*c == '%') n += (size_t)snprintf(words + n, sizeof words - n, "%s", folder);
    if (*c == ' ') o.field[0].n_more++;
    if (*c != '%') words[n++] = *c;
    if (*c == ' ') words[n - 1] = 0;
  }
  words[n] = 0;
  return tri_reward_check(&o, NULL);
}

static void put_script(const char *name, const char *text, int mode) {
  char  path[128];
  FILE *f;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  assert_int_equal(chmod(path, (mode_t)mode), 0);
}

/* Judge: the manuals of the interpreters, about the words they take for a script. None of it runs. */
static void scripts_are_looked_for(void **state) {
  static const char *const good[] = {"sh %/here",
                                     "sh -e %/here --option %/gone",
                                     "env X=1 sh %/here",
                                     "sh -c %/gone",
                                     "env sh -c %/gone",
                                     "sh -o errexit %/here",
                                     "sh -- %/here",
                                     "sh -",
                                     "sh",
                                     "perl -I %/gone %/here",
                                     "perl -e %/gone",
                                     "sh --posix %/gone",
                                     "true %/gone",
                                     "%/runs",
                                     "bash +x %/gone"};
  static const char *const bad[] = {"sh %/gone",
                                    "sh -e %/gone",
                                    "env X=1 sh %/gone",
                                    "env no-such-program-at-all %/here",
                                    "sh -o errexit %/gone",
                                    "sh -- %/gone",
                                    "perl -w %/gone",
                                    "sh gone.sh",
                                    "%/lost",
                                    "%/returns"};
  static const char *const name[] = {"here", "runs", "lost", "returns"};
  char                     path[128], ran[128], text[256];

  (void)state;
  snprintf(ran, sizeof ran, "%s/ran", folder);
  snprintf(text, sizeof text, "#! /bin/sh -e\ntouch %s\n", ran);
  put_script("here", text, 0600);
  put_script("runs", text, 0700);
  put_script("lost", "#!/no/such/interpreter\n", 0700);
  put_script("returns", "#!/bin/sh\r\n", 0700);
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (check_words(good[i]) != TRI_OK) fail_msg("%s: %s", good[i], tri_error_message());
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (check_words(bad[i]) != TRI_ECONFIG) fail_msg("%s is not refused", bad[i]);
    if (strncmp(tri_error_message(), "reward.command", strlen("reward.command")))
      fail_msg("%s", tri_error_message());
    tri_error_clear();
  }
  assert_int_not_equal(access(ran, F_OK), 0);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    unlink(path);
  }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {CASE(answers),
                                     CASE(answers_come_in_any_order),
                                     CASE(further_numbers_are_kept),
                                     CASE(means_have_no_order),
                                     CASE(the_first_names_stay),
                                     CASE(a_trial_tells_of_all),
                                     CASE(much_is_asked_at_once),
                                     CASE(a_dead_child_is_started_again),
                                     CASE(repeated_lines_are_counted),
                                     CASE(children_that_die_at_once_have_an_end),
                                     CASE(a_program_that_never_answers_ends_the_run),
                                     CASE(nonsense),
                                     CASE(a_child_that_hangs_is_killed),
                                     CASE(on_error_is_obeyed),
                                     CASE(it_works_beside),
                                     CASE(what_is_forgotten_is_gone),
                                     CASE(nothing_stays),
                                     CASE(a_dead_childs_children_end),
                                     CASE(an_ended_run_leaves_none),
                                     CASE(when_all_are_killed_none_starts),
                                     CASE(a_killed_run_leaves_none),
                                     CASE(refuses),
                                     CASE(scripts_are_looked_for)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
