/* test_cli_terminal.c - results on a terminal: control characters of answers and files are shown, not obeyed.
 * Judge: the unchanged bytes of the same command in a pipe, and tri_visible (tests/base/test_file.c). */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* terminals, memmem */
#include "cli_case.h"

#include <fcntl.h>
#include <termios.h>

#include "base/visible.h"

enum { MOST = 1 << 14 };
static char piped[MOST], wanted[MOST * TRI_VISIBLE_MOST], shown[MOST * TRI_VISIBLE_MOST];

static size_t read_all(int fd, char *out, size_t cap) {
  size_t  have = 0;
  ssize_t n;

  while (have < cap && (n = read(fd, out + have, cap - have)) > 0) have += (size_t)n;
  return have;
}

/* Opens a raw terminal. Returns its other side, or -1 if the machine has none. */
static int open_terminal(int *slave) {
  int            master = posix_openpt(O_RDWR | O_NOCTTY);
  struct termios t;

  *slave = -1;
  if (master < 0 || grantpt(master) || unlockpt(master)) return -1;
  *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (*slave < 0 || tcgetattr(*slave, &t)) return -1;
  t.c_oflag &= ~(tcflag_t)OPOST;
  assert_int_equal(tcsetattr(*slave, TCSANOW, &t), 0);
  assert_int_equal(fcntl(master, F_SETFL, O_NONBLOCK), 0);
  return master;
}

/* The command's standard output in a pipe into `piped`, on a terminal into `shown`. */
static void run_both(const char *command, size_t *n_piped, size_t *n_shown) {
  char all[4096];
  int  slave, master = open_terminal(&slave), pipe;

  if (master < 0) skip();
  cli_succeeds(command);
  assert_true((pipe = open(".out", O_RDONLY)) >= 0);
  *n_piped = read_all(pipe, piped, sizeof piped);
  close(pipe);
  snprintf(all, sizeof all, "%s >%s 2>.err </dev/null", command, ptsname(master));
  assert_int_equal(system(all), 0);
  *n_shown = read_all(master, shown, sizeof shown);
  close(slave);
  close(master);
}

static void expect_visible(const char *command) {
  size_t n_piped, n_shown, n_wanted;

  run_both(command, &n_piped, &n_shown);
  n_wanted = tri_visible(piped, n_piped, "\n\t", wanted, sizeof wanted);
  assert_true(n_wanted > n_piped); /* the bytes in the pipe are not safe */
  assert_int_equal(n_shown, n_wanted);
  assert_memory_equal(shown, wanted, n_wanted);
}

static void tokenize_shows_control_characters(void **state) {
  size_t n_piped, n_shown;

  (void)state;
  cli_write("text.jsonl", "{\"text\": \"a\\u001b[31mb\\u009b2Jc\\u202ed\\u007f\\n\"}\n");
  cli_succeeds(ONE "tokenize model text.jsonl | sed 's/.*/{\"tokens\": &}/' >ids.jsonl; cat ids.jsonl");
  expect_visible(ONE "tokenize model ids.jsonl --decode");
  cli_shows(shown, "\"a\\u001B[31mb\\u009B2Jc\\u202Ed\\x7F\\n\"\n");
  run_both(ONE "tokenize model text.jsonl", &n_piped, &n_shown);
  assert_int_equal(n_shown, n_piped);
  assert_memory_equal(shown, piped, n_piped);
}

/* A model from random numbers writes bytes of every kind. Little enough for the buffer of a terminal. */
static void generate_shows_control_characters(void **state) {
  (void)state;
  expect_visible(ONE "generate model a --num 12 --max-new 24 --temperature 50");
  expect_visible(ONE "generate model \"$(printf 'a\\177b')\" --max-new 4 --json");
}

/* With several prompts, each stands above its answers on one line. A pipe gets answers only. */
static void answers_stand_below_their_prompts(void **state) {
  char   one[MOST];
  size_t n_one, n_piped, n_shown, n = 0;

  (void)state;
  run_both(ONE "generate model '3+4=' --max-new 4 --temperature 0 --num 2", &n_one, &n_shown);
  memcpy(one, piped, n_one);
  assert_null(memmem(shown, n_shown, "prompt", 6));
  run_both(ONE "generate model '3+4=' '5+5=\n' --max-new 4 --temperature 0 --num 2", &n_piped, &n_shown);
  assert_true(n_piped > n_one);
  assert_memory_equal(piped, one, n_one);
  n = (size_t)sprintf(wanted, "prompt 1: 3+4=\n");
  n += tri_visible(piped, n_one, "\n\t", wanted + n, sizeof wanted - n);
  n += (size_t)sprintf(wanted + n, "prompt 2: 5+5=\\n\n");
  n += tri_visible(piped + n_one, n_piped - n_one, "\n\t", wanted + n, sizeof wanted - n);
  assert_int_equal(n_shown, n);
  assert_memory_equal(shown, wanted, n);
}

static void inspect_shows_control_characters(void **state) {
  (void)state;
  cli_sh("sed 's/u001b/u009b/' '" TRI_TEST_DATA "/checkpoint/escape.safetensors' >c1.safetensors");
  expect_visible(ONE "inspect c1.safetensors --json");
  cli_shows(shown, "w\\u009B[31mred\\n");
}

/* JSON has the same content. */
static void show_shows_control_characters(void **state) {
  (void)state;
  cli_write("shown.jsonl", "{\"response\": \"a\xC2\x9B"
                           "2Jb\xE2\x80\xAE"
                           "c\", \"reward\": 1}\n");
  expect_visible(ONE "show shown.jsonl --json");
  cli_shows(shown, "\"a\\u009B2Jb\\u202Ec\"");
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(tokenize_shows_control_characters),
                                    cmocka_unit_test(generate_shows_control_characters),
                                    cmocka_unit_test(answers_stand_below_their_prompts),
                                    cmocka_unit_test(inspect_shows_control_characters),
                                    cmocka_unit_test(show_shows_control_characters)};

  return cmocka_run_group_tests(test, cli_open, cli_close);
}
