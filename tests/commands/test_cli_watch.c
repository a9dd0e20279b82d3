/* test_cli_watch.c - trireme watch: one output in a pipe, JSON, and a terminal that is resized, typed at,
 * taken away. Judge: the program's output obeyed by a terminal emulator, and the terminal's settings before
 * and after. Nothing is timed, since a key starts each refresh. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "cli_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <termios.h>

static const char watch[] = ONE "watch ";

static void add(const char *path, const char *text) {
  FILE *f = fopen(path, "ab");

  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

/* ---- in a pipe ---- */

static void one_look_in_a_pipe(void **state) {
  char command[256];

  (void)state;
  snprintf(command, sizeof command, "LC_ALL=C %s run", watch);
  cli_succeeds(command);
  cli_fits(cli_out);
  cli_shows(cli_out, "run  sft\nfinished\nwhy it ended: ");
  cli_shows(cli_out, "\nstep 2/2 ######################################## 100%\n");
  cli_shows(cli_out, "\nloss ");
  cli_shows(cli_out, "\ncheckpoint after step 2, ");
  assert_null(strchr(cli_out, '\033'));
  snprintf(command, sizeof command, "LC_ALL=xx.UTF-8 %s run run run", watch);
  cli_succeeds(command);
  cli_shows(cli_out, "\xe2\x96\x88");
  cli_shows(cli_out, "run  sft                                run  sft\n");
}

static json_t *object_of(const char *line) {
  json_error_t error;
  json_t      *o = json_loads(line, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);

  if (!o) fail_msg("%s in %s", error.text, line);
  return o;
}

static double number(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);

  if (!json_is_number(v)) fail_msg("%s is no number", key);
  return json_number_value(v);
}

static void json_has_an_object_for_each(void **state) {
  json_t *o, *loss;
  char   *second;

  (void)state;
  cli_sh("mkdir -p empty; cp run/deck.yaml empty");
  cli_succeeds(ONE "watch run empty --json --metric loss --metric nothing");
  second = strchr(cli_out, '\n');
  assert_non_null(second);
  assert_ptr_equal(strchr(second + 1, '\n') + 1, cli_out + strlen(cli_out));
  o = object_of(cli_out);
  assert_string_equal(json_string_value(json_object_get(o, "output")), "run");
  assert_string_equal(json_string_value(json_object_get(o, "state")), "finished");
  assert_true(number(o, "step") == 2 && number(o, "steps") == 2 && number(o, "checkpoint_step") == 2);
  assert_true(number(o, "step_s") > 0 && number(o, "tokens_per_s") > 0);
  loss = json_object_get(json_object_get(o, "metrics"), "loss");
  assert_int_equal(json_array_size(json_object_get(loss, "curve")), 2);
  assert_true(number(loss, "value") == json_number_value(json_array_get(json_object_get(loss, "curve"), 1)));
  assert_true(json_is_null(json_object_get(json_object_get(o, "metrics"), "nothing")));
  json_decref(o);
  o = object_of(second + 1);
  assert_true(number(o, "step") == 0 && number(o, "steps") == 2);
  assert_true(json_is_null(json_object_get(o, "left_s")) &&
              json_is_null(json_object_get(o, "checkpoint_step")));
  json_decref(o);
}

static void what_is_no_run_is_refused(void **state) {
  char command[1024] = ONE "watch run";

  (void)state;
  for (int i = 0; i <= 32; i++) strcat(command, " --metric loss");
  cli_refuses(64, command, "set", "--metric loss", "32");
  cli_refuses(64, ONE "watch nowhere", "check_folder", "nowhere", strerror(ENOENT), "run.output");
  cli_refuses(64, ONE "watch model", "check_folder", "model", "metrics.jsonl", "run.jsonl", "deck.yaml");
  cli_refuses(64, ONE "watch", "tri_flags_need", "OUTPUT", "trireme watch OUTPUT");
  cli_refuses(64, ONE "watch run --every 0", "set", "--every 0", "0.1", "3600");
  cli_refuses(64, ONE "watch run --every 5", "show", "--every 5", "TERM=dumb");
  cli_refuses(64, ONE "watch run --every 5 --json", "show", "--every 5", "--json");
  cli_sh("mkdir -p fifo; rm -f fifo/*; mkfifo fifo/metrics.jsonl");
  cli_refuses(64, ONE "watch fifo", "check_regular", "fifo/metrics.jsonl");
  cli_sh("mkdir -p folder/metrics.jsonl"); /* only the good ones of several are shown */
  assert_int_equal(cli_run(ONE "watch nowhere run fifo folder"), 64);
  cli_says(cli_err, "trireme", "3", "4", "nowhere", strerror(ENOENT));
  cli_shows(cli_out, "step 2/2 ");
  cli_shows(cli_out, "fifo/metrics.jsonl: ");
  assert_int_equal(cli_run(ONE "watch nowhere run --json"), 64);
  cli_says(cli_err, "trireme", "1", "2", "nowhere", strerror(ENOENT));
  cli_shows(cli_out, "{\"output\": \"nowhere\", \"fault\": \"nowhere: ");
  cli_shows(cli_out, "\n{\"output\": \"run\", \"fault\": null, \"state\": \"finished\"");
}

/* Names and texts of others are shown, not obeyed. */
static void nothing_is_obeyed(void **state) {
  (void)state;
  cli_sh("mkdir 'odd\033[2J'");
  cli_write("odd\033[2J/metrics.jsonl", "{\"step\": 1, \"loss\": 1, \"eval_\\u001b[2J_accuracy\": 1}\n");
  cli_write("odd\033[2J/run.jsonl", "{\"v\": 1, \"event\": \"alarm\", \"code\": \"\\u001b\", \"text\": "
                                    "\"\\u001b[2J\"}\n\033[2J\xff\n");
  cli_write("odd\033[2J/deck.yaml", "algo: {name: \"\\e[2J\"}\n");
  cli_succeeds(ONE "watch odd*");
  assert_null(strchr(cli_out, '\033'));
  cli_shows(cli_out, "odd\\x1B[2J  \\x1B[2J\n");
  cli_shows(cli_out, "warning: \\x1B[2J\n");
  cli_succeeds(ONE "watch odd* --json");
  assert_null(strchr(cli_out, '\033'));
  json_decref(object_of(cli_out));
}

/* ---- for job files ---- */

#define EVENT(tag, rest) "{\"v\": 1, \"tag\": \"" tag "\", " rest "}\n"

/* A word and a value in a line for the requested start, whatever a run's texts contain. */
static void an_end_is_told_to_scripts(void **state) {
  (void)state;
  cli_succeeds(ONE "watch run --end");
  assert_string_equal(cli_out, "state finished\nexit_code 0\nstep 2\n");
  cli_succeeds(ONE "watch run/deck.yaml run.output=run train.steps=7 --end");
  assert_string_equal(cli_out, "state finished\nexit_code 0\nstep 2\n");
  cli_succeeds(ONE "watch run --end --tag 7.0.1");
  assert_string_equal(cli_out, "state open\n");
  cli_succeeds(ONE "watch nowhere --end"); /* a start that failed at once */
  assert_string_equal(cli_out, "state open\n");
  cli_sh("mkdir -p told");
  cli_write(
      "told/run.jsonl",
      EVENT("7.0.1", "\"event\": \"verdict\", \"rank\": 3, \"node\": \"n2\\nnode n1\", \"cause\": \"died\"")
          EVENT("7.0.1",
                "\"event\": \"end\", \"state\": \"failed\", \"exit_code\": 69, \"cause\": \"comm\""));
  cli_succeeds(ONE "watch told --end --tag 7.0.1");
  assert_string_equal(cli_out, "state failed\nexit_code 76\ncause died\nrank 3\nnode n2 node n1\n");
  cli_succeeds(ONE "watch run told --json");
  cli_shows(cli_out,
            "\"end\": {\"state\": \"finished\", \"exit_code\": 0, \"cause\": null, \"rank\": null, \"node\": "
            "null, \"step\": 2, \"time_unix_s\": 1");
  cli_refuses(64, ONE "watch run told --end", "check_end", "--end", "2");
  cli_refuses(64, ONE "watch run --tag x", "check_end", "--tag", "--end");
  cli_refuses(64, ONE "watch run --end --json", "check_end", "--end", "--tag", "--json");
  cli_refuses(64, ONE "watch run/deck.yaml train.stepss=7 --end", "refuse_unknown", "train.stepss=7",
              "train.steps");
}

/* Checks that watch, report and show tell people why the folder `stopped` ended, and that JSON has the same
 * fields. */
static void expect_end(const char *members, const char *cause, const char *text) {
  static const char *const command[] = {ONE "watch stopped --json", ONE "report stopped --json"};
  static const char *const screen[] = {"LC_ALL=C " ONE "watch stopped", ONE "report stopped",
                                       ONE "show stopped"};
  json_t                  *o, *e;

  cli_sh("rm -rf stopped; mkdir -p stopped/rollouts; cp run/deck.yaml stopped");
  cli_write("stopped/rollouts/step-00000003.jsonl",
            "{\"prompt_id\": 0, \"prompt\": \"a\", \"response\": \"b\"}\n");
  cli_write("stopped/run.jsonl", "{\"v\": 1, \"event\": \"start\", \"steps\": 9}\n");
  add("stopped/run.jsonl", members);
  for (int i = 0; i < 3; i++) {
    cli_succeeds(screen[i]);
    cli_fits(cli_out);
    cli_shows(cli_out, "why it ended: ");
    cli_sh("tr '\\n' ' ' < .out | tr -s ' ' > flat");
    cli_read("flat", cli_out);
    cli_says(cli_out, "why", text, "exit code 75", "step 3", "2001-09-09 01:46:40 UTC");
  }
  for (int i = 0; i < 2; i++) {
    cli_succeeds(command[i]);
    o = object_of(cli_out);
    e = json_object_get(i ? json_array_get(json_object_get(o, "runs"), 0) : o, "end");
    assert_string_equal(json_string_value(json_object_get(e, "state")), "stopped");
    assert_string_equal(json_string_value(json_object_get(e, "cause")), cause);
    assert_string_equal(json_string_value(json_object_get(e, "text")), text);
    assert_true(number(e, "exit_code") == 75 && number(e, "step") == 3 && number(e, "time_unix_s") == 1e9);
    assert_true(json_is_null(json_object_get(e, "rank")) && json_is_null(json_object_get(e, "node")));
    json_decref(o);
  }
}

#define STOPPED(cause, text)                                                                                 \
  "{\"v\": 1, \"time_unix_s\": 1000000000, \"event\": \"end\", \"state\": \"stopped\", "                     \
  "\"step\": 3, \"exit_code\": 75, \"cause\": \"" cause "\", \"text\": \"" text "\"}\n"

/* One command tells why a run ended, also one that the user stopped. */
static void why_a_run_ended_is_told(void **state) {
  (void)state;
  expect_end(STOPPED("signal", "SIGUSR1"), "signal", "SIGUSR1");
  expect_end(STOPPED("time", "the allocation ends in 42 s"), "time", "the allocation ends in 42 s");
  expect_end(STOPPED("file", "stopped/STOP"), "file", "stopped/STOP");
  cli_sh("rm -rf began; cp -r stopped began");
  add("began/run.jsonl", "{\"v\": 1, \"event\": \"start\", \"steps\": 9}\n");
  cli_succeeds(ONE "watch began"); /* a later start has no end yet */
  assert_null(strstr(cli_out, "why it ended"));
  cli_succeeds(ONE "show began");
  assert_null(strstr(cli_out, "why it ended"));
  cli_succeeds(ONE "report told"); /* a rank died */
  cli_says(cli_out, "why it ended", "died", "rank 3", "exit code 76");
}

/* A deck stands for its run. */
static void a_deck_names_its_run(void **state) {
  (void)state;
  cli_succeeds(ONE "watch run/deck.yaml run.output=run");
  cli_shows(cli_out, "step 2/2 ");
}

/* ---- on a terminal ---- */

enum { RAW_BYTES = 1 << 20 };
static char           raw[RAW_BYTES], screen[RAW_BYTES];
static size_t         n_raw;
static int            master, slave;
static struct termios before;
static pid_t          child;

/* Finds the last whole picture, from its beginning (cursor home) to its end (erase the rest). */
static bool find_screen(void) {
  const char *end = NULL, *begin = NULL;
  size_t      n = 0;

  for (const char *at = raw; (at = strstr(at, "\033[J")) != NULL; at++) end = at;
  for (const char *at = raw; end && (at = strstr(at, "\033[H")) != NULL && at < end; at++) begin = at;
  if (!begin) return false;
  for (const char *at = begin; at < end; at++) {
    if (*at == '\033') {
      at += strcspn(at, "HKmJ");
      continue;
    }
    if (*at != '\r') screen[n++] = *at;
  }
  screen[n] = 0;
  return true;
}

/* Reads the program's output. Returns false when there will be no more. */
static bool take(void) {
  struct pollfd p = {master, POLLIN, 0};
  ssize_t       n;

  if (poll(&p, 1, 60000) <= 0) fail_msg("the program says nothing; it said\n%s", screen);
  n = read(master, raw + n_raw, RAW_BYTES - 1 - n_raw);
  if (n <= 0) return false;
  n_raw += (size_t)n;
  raw[n_raw] = 0;
  return true;
}

/* Waits until the picture has one part and lacks the other. NULL matches anything. */
static void await(const char *part, const char * not ) {
  while (!find_screen() || !strstr(screen, part) || (not &&strstr(screen, not )))
    if (!take()) fail_msg("'%s' never came; the last was\n%s", part, screen);
}

static void type(const char *keys) { assert_int_equal(write(master, keys, strlen(keys)), strlen(keys)); }

static void resize(int columns, int lines) {
  struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)lines};

  assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
}

/* Starts the program as a shell does, on its own terminal, with refreshes on demand only. */
static void begin(int columns, int lines, const char *one, const char *other) {
  master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) skip();
  slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (slave < 0) skip();
  resize(columns, lines);
  assert_int_equal(tcgetattr(slave, &before), 0);
  n_raw = 0;
  raw[0] = screen[0] = 0;
  child = fork();
  assert_true(child >= 0);
  if (child > 0) return;
  setsid();
  ioctl(slave, TIOCSCTTY, 0);
  for (int fd = 0; fd < 3; fd++) dup2(slave, fd);
  close(master);
  close(slave);
  setenv("TERM", "xterm", 1);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  setenv("LC_ALL", "C", 1);
  execl(TRI_PROGRAM, TRI_PROGRAM, "watch", "--every", "3600", one, other, (char *)NULL);
  _exit(127);
}

/* Returns the exit code, or the negative number of the signal that ended it. */
static int wait_for_end(void) {
  int status;

  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Checks that it ended with this code, and that the terminal has its settings and its screen back. */
static void expect_left(int code) {
  static const char leave[] = "\033[?7h\033[?25h\033[?1049l";
  struct termios    after;
  const char       *at;

  close(slave);
  while (take()) continue;
  assert_int_equal(wait_for_end(), code);
  at = strstr(raw, leave);
  if (!at || at[sizeof leave - 1])
    fail_msg("the screen is not left: %s", n_raw > 40 ? raw + n_raw - 40 : raw);
  assert_ptr_equal(strstr(raw, "\033[?1049h"), raw); /* nothing was written on the screen before */
  slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  assert_true(slave >= 0 && tcgetattr(slave, &after) == 0);
  assert_int_equal(after.c_lflag, before.c_lflag);
  assert_int_equal(after.c_iflag, before.c_iflag);
  assert_int_equal(after.c_oflag, before.c_oflag);
  close(slave);
  close(master);
}

static void copy_run(const char *to) {
  cli_sh("rm -rf '%s' && mkdir '%s' && cp run/deck.yaml run/run.jsonl run/metrics.jsonl '%s'", to, to, to);
}

static void follows_a_run_until_q(void **state) {
  (void)state;
  copy_run("live");
  begin(80, 24, "live", NULL);
  await("step 2/2 ", NULL);
  await("q: end", NULL);
  assert_null(strstr(screen, "warning"));
  add("live/run.jsonl", "{\"v\": 1, \"event\": \"alarm\", \"code\": \"gap\", \"text\": \"mind the gap\"}\n");
  add("live/metrics.jsonl", "{\"step\": 3, \"loss\": 123.5}\n{\"step\": 4, \"lo");
  type("r");
  await("step 3/2 ", NULL);
  await("123.5", NULL);
  await("warning: mind the gap", NULL);
  cli_sh("head -n 1 run/metrics.jsonl >live/new && mv live/new live/metrics.jsonl"); /* a resume */
  type("r");
  await("step 1/2 ", NULL);
  type("xyzq"); /* q counts, whatever is typed before */
  expect_left(0);
}

static void is_drawn_anew_for_another_size(void **state) {
  (void)state;
  copy_run("live");
  begin(80, 24, "live", "run");
  await("live  sft                               run  sft", NULL);
  resize(40, 24);
  await("\n\nrun  sft\n", "live  sft     ");
  resize(40, 8); /* space for seven lines and the foot */
  await("lines 1-7 of ", NULL);
  assert_null(strstr(screen, "\n\nrun  sft\n"));
  type("jj");
  await("lines 3-9 of ", NULL);
  type("\033[A"); /* up */
  await("lines 2-8 of ", NULL);
  type("G");
  await("scales: ", "live  sft");
  type("\033[5~g"); /* page up, home */
  await("lines 1-7 of ", NULL);
  resize(200, 50);
  await("live  sft  ", "lines ");
  type("q");
  expect_left(0);
}

static void signals_leave_the_screen(void **state) {
  (void)state;
  begin(80, 24, "run", NULL);
  await("q: end", NULL);
  type("\003"); /* Ctrl-C */
  expect_left(128 + SIGINT);
  begin(80, 24, "run", NULL);
  await("q: end", NULL);
  type("\034"); /* Ctrl-backslash */
  expect_left(128 + SIGQUIT);
  begin(80, 24, "run", NULL);
  await("q: end", NULL);
  assert_int_equal(kill(child, SIGTERM), 0);
  expect_left(128 + SIGTERM);
  for (int i = 0; i < 2; i++) {
    const int error = i ? SIGSEGV : SIGABRT;
    begin(80, 24, "run", NULL);
    await("q: end", NULL);
    assert_int_equal(kill(child, error), 0);
    expect_left(-error);
  }
}

/* The terminal goes away, so nobody is left to draw for. */
static void a_lost_terminal_ends_it(void **state) {
  (void)state;
  begin(80, 24, "run", NULL);
  await("q: end", NULL);
  close(slave);
  close(master);
  assert_int_equal(wait_for_end(), 128 + SIGHUP);
}

/* The program is stopped by force, and the shell writes on its screen. It takes the screen again and redraws
 * it. */
static void stops_and_goes_on(void **state) {
  int status;

  (void)state;
  begin(80, 24, "run", NULL);
  await("q: end", NULL);
  assert_int_equal(kill(child, SIGSTOP), 0);
  assert_int_equal(waitpid(child, &status, WUNTRACED), child);
  assert_true(WIFSTOPPED(status));
  n_raw = 0;
  raw[0] = screen[0] = 0;
  assert_int_equal(kill(child, SIGCONT), 0);
  await("q: end", NULL);
  type("q");
  expect_left(0);
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(one_look_in_a_pipe),
                                    cmocka_unit_test(json_has_an_object_for_each),
                                    cmocka_unit_test(what_is_no_run_is_refused),
                                    cmocka_unit_test(nothing_is_obeyed),
                                    cmocka_unit_test(an_end_is_told_to_scripts),
                                    cmocka_unit_test(why_a_run_ended_is_told),
                                    cmocka_unit_test(a_deck_names_its_run),
                                    cmocka_unit_test(follows_a_run_until_q),
                                    cmocka_unit_test(is_drawn_anew_for_another_size),
                                    cmocka_unit_test(signals_leave_the_screen),
                                    cmocka_unit_test(a_lost_terminal_ends_it),
                                    cmocka_unit_test(stops_and_goes_on)};

  return cmocka_run_group_tests(test, cli_open, cli_close);
}
