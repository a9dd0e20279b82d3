/* test_runlog.c - OUTPUT/run.jsonl with its events, fields and order, after a cut, on a full disk, and on
 * ranks other than 0. Judge: jansson reads each line back, against values written down here. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "report/runlog.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "refusal_case.h"

static char        folder[64], path[128];
static tri_runlog *l;

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  unsetenv("TRI_START");
  snprintf(folder, sizeof folder, "/tmp/tri_runlog_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/run.jsonl", folder);
  return 0;
}

static int teardown(void **state) {
  char command[128];

  (void)state;
  tri_runlog_close(&l);
  assert_int_equal(tri_host_bytes(), 0);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_message());
}

static void put(const char *text) { ok(tri_file_write(path, text, strlen(text))); }

/* Returns line i of the file as an object, to be freed, or NULL if there is no such line or object. */
static json_t *line(int i) {
  char   *text, *at;
  size_t  n;
  json_t *object;

  ok(tri_file_read(path, 1 << 24, &text, &n));
  for (at = text; i > 0 && at; i--) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
  object = at ? json_loadb(at, strcspn(at, "\n"), JSON_REJECT_DUPLICATES, NULL) : NULL;
  TRI_FREE(text);
  return object;
}

static int n_lines(void) {
  char  *text;
  size_t n;
  int    lines = 0;

  ok(tri_file_read(path, 1 << 24, &text, &n));
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
  assert_true(n == 0 || text[n - 1] == '\n');
  TRI_FREE(text);
  return lines;
}

/* Checks the event of line i and its members. `want` must be a part of the object. */
static void expect(int i, const char *want) {
  json_t     *have = line(i), *part = json_loads(want, 0, NULL), *value;
  const char *name;
  double      now = tri_unix_s(), then = json_number_value(json_object_get(have, "time_unix_s"));

  assert_true(json_is_object(have) && json_is_object(part));
  assert_int_equal(json_integer_value(json_object_get(have, "v")), 1);
  assert_true(then > now - 60 && then <= now + 0.001);
  json_object_foreach(part, name, value) if (!json_equal(json_object_get(have, name), value))
      fail_msg("line %d: %s is not as in %s", i, name, want);
  json_decref(have);
  json_decref(part);
}

static const tri_ledger_row memory[] = {{"policy weights", TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, 5, false},
                                        {"rows", TRI_MEM_HOST, TRI_PHASE_ROLLOUT, 7, false},
                                        {"copy", TRI_MEM_PINNED, TRI_PHASE_LEARN, 9, false}};
static const char record[] = "{\"version\": \"9.9\", \"ranks\": 2, \"environment\": {\"TRI_A\": \"***\"}}";

static tri_runlog_begin a_start(void) {
  return (tri_runlog_begin){.record = record,
                            .algo = "grpo",
                            .loss = "policy_clip of grpo advantages",
                            .model_type = "qwen2",
                            .dtype = "bf16",
                            .parameters = 5000000000,
                            .layers = 2,
                            .width = 64,
                            .vocabulary = 258,
                            .nodes = 1,
                            .step = 3,
                            .steps = 10,
                            .params = "node",
                            .grads = "world",
                            .optimizer = "none",
                            .memory = memory,
                            .n_memory = 3,
                            .deck = "a: 1\n",
                            .resumed_from = ""};
}

static void start(int rank) {
  tri_runlog_begin b = a_start();

  ok(tri_runlog_open(folder, rank, &l));
  ok(tri_runlog_start(l, &b));
}

static void every_event_has_its_fields(void **state) {
  tri_metrics *m;

  (void)state;
  ok(tri_metrics_open(NULL, -1, 0, &m));
  start(0);
  tri_runlog_state(l, "rollout", 4, NULL, NULL);
  tri_runlog_state(l, "rollout", 4, NULL, NULL);
  tri_runlog_state(l, "stopping", 4, "signal", "SIGUSR1");
  tri_runlog_save(l, 4, 1000, 0.5, NULL);
  tri_runlog_save(l, 5, -1, 0.25, "no \"space\"");
  tri_metric_add(m, "loss", TRI_METRIC_RANK0, 1);
  tri_runlog_eval(l, 5, 2, m); /* nothing was evaluated */
  tri_metric_add(m, "eval_loss", TRI_METRIC_RANK0, 0.125);
  tri_metric_add(m, "eval_accuracy", TRI_METRIC_RANK0, (double)NAN);
  tri_metric_text(m, "eval", "due");
  tri_runlog_eval(l, 5, (double)NAN, m);
  tri_runlog_end(l, &(tri_runlog_ending){.state = TRI_RUNLOG_STOPPED,
                                         .step = 5,
                                         .exit_code = 75,
                                         .cause = "file",
                                         .text = "out/STOP",
                                         .open_alarms = "truncation kl_jump",
                                         .rank = -1});
  assert_int_equal(n_lines(), 7);
  expect(
      0,
      "{\"event\": \"start\", \"algo\": \"grpo\", \"step\": 3, \"steps\": 10, \"resumed_from\": null, "
      "\"nodes\": 1, \"loss\": \"policy_clip of grpo advantages\", \"model\": {\"type\": \"qwen2\", "
      "\"parameters\": 5000000000, \"layers\": 2, \"width\": 64, \"vocabulary\": 258, \"dtype\": \"bf16\"}, "
      "\"version\": \"9.9\", \"ranks\": 2, \"environment\": {\"TRI_A\": \"***\"}, "
      "\"plan\": {\"params\": \"node\", \"grads\": \"world\", \"optimizer\": \"none\"}, \"memory\": ["
      "{\"name\": \"policy weights\", \"phase\": \"always\", \"where\": \"device\", \"bytes\": 5}, "
      "{\"name\": \"rows\", \"phase\": \"rollout\", \"where\": \"host\", \"bytes\": 7}, "
      "{\"name\": \"copy\", \"phase\": \"learn\", \"where\": \"pinned\", \"bytes\": 9}]}");
  expect(1, "{\"event\": \"state\", \"phase\": \"rollout\", \"step\": 4}");
  expect(2, "{\"event\": \"state\", \"phase\": \"stopping\", \"step\": 4, \"cause\": \"signal\", \"text\": "
            "\"SIGUSR1\"}");
  expect(
      3,
      "{\"event\": \"save\", \"step\": 4, \"bytes\": 1000, \"seconds\": 0.5, \"ok\": true, \"why\": null}");
  expect(
      4,
      "{\"event\": \"save\", \"step\": 5, \"bytes\": null, \"seconds\": 0.25, \"ok\": false, \"why\": \"no "
      "\\\"space\\\"\"}");
  expect(5, "{\"event\": \"eval\", \"step\": 5, \"seconds\": null, \"numbers\": {\"eval_loss\": 0.125, "
            "\"eval_accuracy\": null}}");
  expect(6, "{\"event\": \"end\", \"state\": \"stopped\", \"step\": 5, \"exit_code\": 75, \"open_alarms\": "
            "[\"truncation\", \"kl_jump\"], \"cause\": \"file\", \"text\": \"out/STOP\"}");
  tri_metrics_close(&m);
}

static void the_deck_has_a_hash(void **state) {
  tri_runlog_begin b = a_start();
  json_t          *one, *two, *three;

  (void)state;
  ok(tri_runlog_open(folder, 0, &l));
  b.resumed_from = "out/checkpoints/step-00000003";
  ok(tri_runlog_start(l, &b));
  ok(tri_runlog_start(l, &b));
  b.deck = "a: 2\n";
  ok(tri_runlog_start(l, &b));
  one = line(0), two = line(1), three = line(2);
  assert_int_equal(json_string_length(json_object_get(one, "deck_hash")), 16);
  assert_true(json_equal(json_object_get(one, "deck_hash"), json_object_get(two, "deck_hash")));
  assert_false(json_equal(json_object_get(one, "deck_hash"), json_object_get(three, "deck_hash")));
  expect(0, "{\"resumed_from\": \"out/checkpoints/step-00000003\"}");
  json_decref(one);
  json_decref(two);
  json_decref(three);
}

/* Warnings from any file of the program are alarms. Alarms before the start follow it. The present error
 * stays as it is. */
static void warnings_are_alarms(void **state) {
  tri_runlog_begin b = a_start();

  (void)state;
  ok(tri_runlog_open(folder, 0, &l));
  tri_warn("early", "%d of them\nin \x1b two", 2);
  assert_int_equal(tri_fail("f", 1, "g", TRI_EINPUT, "mine"), TRI_EINPUT);
  ok(tri_runlog_start(l, &b));
  tri_log(TRI_LOG_WARN, "plain");
  tri_log(TRI_LOG_INFO, "no alarm");
  tri_runlog_step(l, 8);
  tri_warn_notice(&(tri_notice){.code = "kl_jump",
                                .of = "exact",
                                .text = "jumped",
                                .step = -1,
                                .number = {{"value", 2.5}, {"mean", (double)INFINITY}},
                                .n_number = 2});
  tri_warn_notice(&(tri_notice){.code = "x", .text = "", .step = 7});
  assert_int_equal(n_lines(), 5);
  expect(1, "{\"event\": \"alarm\", \"code\": \"early\", \"step\": null, \"numbers\": {}, "
            "\"text\": \"2 of them\\nin \\\\x1B two\"}");
  expect(2, "{\"event\": \"alarm\", \"code\": \"warning\", \"step\": 3, \"text\": \"plain\"}");
  expect(3, "{\"event\": \"alarm\", \"code\": \"kl_jump\", \"of\": \"exact\", \"step\": 8, "
            "\"numbers\": {\"value\": 2.5, \"mean\": null}, \"text\": \"jumped\"}");
  expect(4, "{\"event\": \"alarm\", \"code\": \"x\", \"step\": 7, \"text\": \"\"}");
  assert_string_equal(tri_error_message(), "mine");
  tri_runlog_close(&l);
  tri_warn("late", "to nobody");
  assert_int_equal(n_lines(), 5);
}

static void alarms_have_an_end(void **state) {
  (void)state;
  start(0);
  for (int i = 0; i < 1200; i++) tri_notice_give(&(tri_notice){.code = "again", .text = "same", .step = i});
  assert_int_equal(n_lines(), 1001);
  expect(999, "{\"code\": \"again\", \"step\": 998}");
  expect(1000, "{\"code\": \"too_many_alarms\", \"step\": 999}");
}

static const char failed[] =
    "{\"event\": \"end\", \"state\": \"failed\", \"step\": 2, \"exit_code\": 69, \"cause\": "
    "\"reward\", \"text\": \"it broke\", \"open_alarms\": []";

static void an_end_has_its_way(void **state) {
  char want[512];

  (void)state;
  start(0);
  tri_runlog_end(l, &(tri_runlog_ending){.state = TRI_RUNLOG_FAILED,
                                         .step = 2,
                                         .exit_code = 69,
                                         .cause = tri_status_word(TRI_EREWARD),
                                         .text = "it broke",
                                         .trace = "  a.c:1 f: it broke (reward failed)\n  b.c:2 g: f() (x)\n",
                                         .rank = -1});
  snprintf(want, sizeof want, "%s, \"trace\": [\"a.c:1 f: it broke (reward failed)\", \"b.c:2 g: f() (x)\"]}",
           failed);
  expect(1, want);
}

/* A rank that fails alone, or that gives a verdict, writes even if rank 0 is gone, and into a half line of
 * rank 0. */
static void other_ranks_write_what_rank_0_cannot(void **state) {
  tri_notice verdict = {.kind = TRI_NOTICE_VERDICT,
                        .code = "died",
                        .text = "rank 1 on n2",
                        .number = {{"since_s", 0.5}},
                        .n_number = 1,
                        .urgent = true,
                        .rank = 1,
                        .node = "n2"};
  char       want[512];

  (void)state;
  setenv("TRI_START", "7.2", 1);
  ok(tri_runlog_open(folder, 5, &l));
  assert_int_equal(access(path, F_OK), -1);
  tri_notice_give(&verdict); /* before anything was started */
  expect(0, "{\"event\": \"verdict\", \"rank\": 1, \"node\": \"n2\", \"cause\": \"died\", "
            "\"numbers\": {\"since_s\": 0.5}, \"text\": \"rank 1 on n2\", \"tag\": \"7.2\"}");
  put("{\"v\": 1, \"ev");
  verdict.rank = -1;
  verdict.node = NULL;
  tri_notice_give(&verdict);
  assert_int_equal(n_lines(), 2);
  expect(1, "{\"event\": \"verdict\", \"rank\": null, \"node\": null}");
  tri_runlog_close(&l);
  start(5);
  tri_log(TRI_LOG_WARN, "one rank's own");
  tri_runlog_state(l, "learn", 1, NULL, NULL);
  tri_runlog_save(l, 1, 1, 1, NULL);
  assert_int_equal(n_lines(), 2);
  tri_runlog_end(l, &(tri_runlog_ending){.state = TRI_RUNLOG_FAILED,
                                         .step = 2,
                                         .exit_code = 69,
                                         .cause = "reward",
                                         .text = "it broke",
                                         .rank = 5,
                                         .node = "n3"});
  snprintf(want, sizeof want, "%s, \"rank\": 5, \"node\": \"n3\", \"tag\": \"7.2\"}", failed);
  expect(2, want);
}

/* The run's folder need not be there when a rank dies while others load. */
static void a_verdict_makes_the_folder(void **state) {
  char deep[100];

  (void)state;
  snprintf(deep, sizeof deep, "%s/new", folder);
  ok(tri_runlog_open(deep, 1, &l));
  tri_notice_give(
      &(tri_notice){.kind = TRI_NOTICE_VERDICT, .code = "late", .text = "", .urgent = true, .rank = 0});
  snprintf(path, sizeof path, "%s/run.jsonl", deep);
  expect(0, "{\"event\": \"verdict\", \"cause\": \"late\", \"rank\": 0}");
}

/* A verdict before the claim goes into no folder held by a run. After it, the folder is this run's own. */
static void a_verdict_goes_into_no_other_runs_folder(void **state) {
  tri_notice verdict = {.kind = TRI_NOTICE_VERDICT, .code = "died", .text = "", .urgent = true, .rank = 1};
  int        held = open(folder, O_RDONLY | O_DIRECTORY);

  (void)state;
  assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
  ok(tri_runlog_open(folder, 2, &l));
  tri_notice_give(&verdict);
  assert_int_equal(access(path, F_OK), -1);
  tri_runlog_claim(l, false);
  tri_notice_give(&verdict);
  expect(0, "{\"event\": \"verdict\", \"rank\": 1}");
  close(held);
}

/* A start that fails while loading writes its alarms, then its end, and nothing into another run's file. */
static void an_end_may_come_without_a_start(void **state) {
  tri_runlog_ending end = {
      .state = TRI_RUNLOG_FAILED, .step = 7, .exit_code = 64, .cause = "input", .text = "gone", .rank = -1};

  (void)state;
  for (int carries_on = 0; carries_on < 2; carries_on++) {
    put("{\"v\": 1, \"time_unix_s\": 1, \"event\": \"start\"}\n");
    ok(tri_runlog_open(folder, 0, &l));
    tri_warn("early", "while it loads");
    tri_runlog_claim(l, carries_on);
    tri_runlog_end(l, &end);
    tri_runlog_close(&l);
    assert_int_equal(n_lines(), carries_on ? 3 : 1);
  }
  expect(1, "{\"event\": \"alarm\", \"code\": \"early\"}");
  expect(
      2,
      "{\"event\": \"end\", \"state\": \"failed\", \"step\": null, \"exit_code\": 64, \"cause\": \"input\"}");
  end.rank = 3;
  end.node = "n3";
  ok(tri_runlog_open(folder, 3, &l));
  tri_runlog_end(l, &end);
  assert_int_equal(n_lines(), 3);
  tri_runlog_claim(l, true);
  tri_runlog_end(l, &end);
  expect(3, "{\"event\": \"end\", \"step\": null, \"rank\": 3, \"node\": \"n3\"}");
}

/* A resume appends. A line cut by a crash is ended, not removed. */
static void a_start_appends(void **state) {
  (void)state;
  put("{\"v\": 1, \"event\": \"start\"}\n{\"v\": 1, \"eve");
  start(0);
  assert_int_equal(n_lines(), 3);
  assert_null(line(1));
  expect(2, "{\"event\": \"start\", \"steps\": 10}");
  tri_runlog_close(&l);
  start(0);
  assert_int_equal(n_lines(), 4);
}

/* The same holds for a line cut during the run by another rank or a full disk. The next event has a line of
 * its own. */
static void a_cut_line_costs_no_other(void **state) {
  int fd;

  (void)state;
  start(0);
  ok(tri_file_append(path, &fd));
  assert_int_equal(write(fd, "{\"v\": 1, \"eve", 13), 13);
  close(fd);
  tri_runlog_save(l, 1, 1, 1, NULL);
  assert_int_equal(n_lines(), 3);
  expect(2, "{\"event\": \"save\", \"step\": 1}");
}

/* A start on many different nodes is longer than the limit of waiting lines. */
static void a_start_may_be_long(void **state) {
  enum { BYTES = 3 << 20 };
  tri_runlog_begin b = a_start();
  tri_text         text = {0};

  (void)state;
  ok(tri_text_printf(&text, "{\"version\": \"%0*d\"}", BYTES, 1));
  b.record = text.data;
  ok(tri_runlog_open(folder, 0, &l));
  tri_warn("early", "follows it");
  ok(tri_runlog_start(l, &b));
  tri_text_free(&text);
  assert_int_equal(n_lines(), 2);
  expect(0, "{\"event\": \"start\", \"algo\": \"grpo\"}");
  expect(1, "{\"event\": \"alarm\", \"code\": \"early\"}");
}

/* A tag of any bytes and length is written as readers compare it, visible and cut. */
static void a_tag_is_visible_and_cut(void **state) {
  char want[128];

  (void)state;
  snprintf(want, sizeof want, "{\"tag\": \"\\\\x1B%.59s\"}",
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  setenv("TRI_START",
         "\x1b"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         1);
  start(0);
  expect(0, want);
}

static void what_cannot_be_had_is_said(void **state) {
  tri_runlog_begin b = a_start();

  (void)state;
  ok(tri_runlog_open(folder, 0, &l));
  assert_int_equal(symlink("/dev/null", path), 0);
  assert_int_equal(tri_runlog_start(l, &b), TRI_EFILE);
  expect_refusal("open_to_append() run.jsonl");
}

/* On a full disk, here a limit of the file's size, lines wait as a whole and come in order. */
static void lines_wait_on_a_full_disk(void **state) {
  struct rlimit before, full;
  struct stat   sb;

  (void)state;
  start(0);
  assert_int_equal(stat(path, &sb), 0);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  full = (struct rlimit){(rlim_t)sb.st_size + 20, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
  tri_runlog_save(l, 1, 1, 1, NULL);
  tri_runlog_save(l, 2, 1, 1, NULL);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(n_lines(), 1);
  tri_runlog_save(l, 3, 1, 1, NULL);
  assert_int_equal(n_lines(), 4);
  for (int i = 1; i < 4; i++) {
    char want[64];
    snprintf(want, sizeof want, "{\"event\": \"save\", \"step\": %d}", i);
    expect(i, want);
  }
}

/* Lines beyond the limit are dropped, newest first, but not once the disk has space again. */
static void an_end_comes_behind_all_that_waited(void **state) {
  struct rlimit before, full;
  struct stat   sb;
  char          why[4000];
  int           n;

  (void)state;
  memset(why, 'w', sizeof why - 1);
  why[sizeof why - 1] = 0;
  start(0);
  assert_int_equal(stat(path, &sb), 0);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  full = (struct rlimit){(rlim_t)sb.st_size, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int i = 0; i < 400; i++) tri_runlog_save(l, i, 1, 1, i < 300 ? why : NULL); /* to the last byte */
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  tri_runlog_end(l, &(tri_runlog_ending){.state = TRI_RUNLOG_STOPPED, .exit_code = 75, .rank = -1});
  n = n_lines();
  assert_in_range(n, 200, 350);
  expect(n - 2, "{\"event\": \"save\"}");
  expect(n - 1, "{\"event\": \"end\", \"state\": \"stopped\"}");
}

/* The descriptor of the file in this process, or -1 for none. */
static int number_of_file(void) {
  struct stat a, b;

  assert_int_equal(stat(path, &a), 0);
  for (int fd = 3; fd < 256; fd++)
    if (!fstat(fd, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) return fd;
  return -1;
}

/* The folder was removed and made again. The start and later events are in the new one. The descriptor's
 * number stays, because the thread that watches the ranks may be writing with it. */
static void a_new_folder_is_followed(void **state) {
  int number;

  (void)state;
  start(0);
  number = number_of_file();
  assert_int_equal(unlink(path), 0);
  tri_runlog_follow(l);
  assert_int_equal(number_of_file(), number);
  assert_true(fcntl(number, F_GETFD) & FD_CLOEXEC);
  tri_runlog_follow(l);
  tri_runlog_save(l, 1, 1, 1, NULL);
  assert_int_equal(n_lines(), 2);
  expect(0, "{\"event\": \"start\", \"algo\": \"grpo\"}");
  expect(1, "{\"event\": \"save\"}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_event_has_its_fields, setup, teardown),
      cmocka_unit_test_setup_teardown(the_deck_has_a_hash, setup, teardown),
      cmocka_unit_test_setup_teardown(warnings_are_alarms, setup, teardown),
      cmocka_unit_test_setup_teardown(alarms_have_an_end, setup, teardown),
      cmocka_unit_test_setup_teardown(an_end_has_its_way, setup, teardown),
      cmocka_unit_test_setup_teardown(other_ranks_write_what_rank_0_cannot, setup, teardown),
      cmocka_unit_test_setup_teardown(a_verdict_makes_the_folder, setup, teardown),
      cmocka_unit_test_setup_teardown(a_start_appends, setup, teardown),
      cmocka_unit_test_setup_teardown(a_cut_line_costs_no_other, setup, teardown),
      cmocka_unit_test_setup_teardown(a_start_may_be_long, setup, teardown),
      cmocka_unit_test_setup_teardown(a_tag_is_visible_and_cut, setup, teardown),
      cmocka_unit_test_setup_teardown(what_cannot_be_had_is_said, setup, teardown),
      cmocka_unit_test_setup_teardown(lines_wait_on_a_full_disk, setup, teardown),
      cmocka_unit_test_setup_teardown(an_end_comes_behind_all_that_waited, setup, teardown),
      cmocka_unit_test_setup_teardown(a_new_folder_is_followed, setup, teardown),
      cmocka_unit_test_setup_teardown(a_verdict_goes_into_no_other_runs_folder, setup, teardown),
      cmocka_unit_test_setup_teardown(an_end_may_come_without_a_start, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
