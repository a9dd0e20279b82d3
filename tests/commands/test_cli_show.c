/* test_cli_show.c - trireme show: selection, output in a pipe and on terminals, pagers, files of other
 * programs. Judge, beside cli_case.h: screens written out, and awk over the same lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* terminals */
#include "cli_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#define SHOW ONE "show "

enum { MOST = 1 << 15 };
static char screen[MOST];

/* Two steps of two prompts with two answers each. */
static int open_show(void **state) {
  int st = cli_open(state);

  cli_sh("mkdir -p o/rollouts o/eval && touch o/deck.yaml");
  cli_write(
      "o/rollouts/step-00000002.jsonl",
      "{\"prompt_id\": 7, \"sample\": 0, \"prompt\": \"3+4=\", \"response\": \"7\", \"answer\": \"7\", "
      "\"tokens\": [1, "
      "2, 3, 4, 5], \"prompt_tokens\": 3, \"reward\": 1, \"rewards\": {\"exact\": 1}, \"advantage\": 0.7, "
      "\"stop\": \"eos\"}\n"
      "{\"prompt_id\": 7, \"sample\": 1, \"prompt\": \"3+4=\", \"response\": \"\", \"answer\": \"7\", "
      "\"tokens\": [1, "
      "2, 3, 4], \"prompt_tokens\": 3, \"reward\": 0, \"rewards\": {\"exact\": 0}, \"advantage\": -0.7, "
      "\"stop\": \"length\"}\n"
      "{\"prompt_id\": 9, \"sample\": 0, \"prompt\": \"say\\nit\", \"response\": \"it\\n\\n  is said\", "
      "\"answer\": 4.0, "
      "\"reward\": 0.5, \"rewards\": {\"exact\": 1, \"length\": -0.5}, \"stop\": \"stop\"}\n"
      "{\"prompt_id\": 9, \"sample\": 1, \"prompt\": \"say\\nit\", \"response\": \"no\", \"answer\": 4.0, "
      "\"reward\": null, \"rewards\": {\"exact\": 1, \"length\": null}, \"stop\": \"eos\"}\n");
  cli_sh("sed 's/\"reward\": 0.5/\"reward\": 2/' o/rollouts/step-00000002.jsonl "
         ">o/rollouts/step-00000010.jsonl; "
         "sed 's/, \"advantage\": [-0-9.]*//; s/{/{\"set\": \"easy\", /' o/rollouts/step-00000002.jsonl "
         ">o/eval/step-00000000.jsonl; touch o/rollouts/step-00000011.jsonl.gz "
         "o/rollouts/step-500.jsonl o/rollouts/step-x.jsonl");
  return st;
}

static void expect(const char *command, const char *want) {
  cli_succeeds(command);
  if (strcmp(cli_out, want) != 0) fail_msg("%s\nshows\n%s\nnot\n%s", command, cli_out, want);
}

/* ---- selection ---- */

static void a_step_is_shown_whole(void **state) {
  (void)state;
  expect(SHOW "o --step 2",
         "o/rollouts/step-00000002.jsonl: step 2, 4 answers to 2 prompts,\n"
         "    reward 0.5 in the mean, 0 to 1, 1.5 tokens in the mean, 1 cut at the length\n"
         "\n"
         "prompt 7\n"
         "| 3+4=\n"
         "right answer: 7\n"
         "answer 0: reward 1, advantage 0.7, 2 tokens, ended\n"
         "| 7\n"
         "answer 1: reward 0, advantage -0.7, 1 token, cut at the length\n"
         "  (empty)\n"
         "\n"
         "prompt 9\n"
         "| say\n"
         "| it\n"
         "right answer: 4.0\n"
         "answer 0: reward 0.5 (exact 1, length -0.5), ended by a stop string\n"
         "| it\n"
         "| \n"
         "|   is said\n"
         "answer 1: no reward (exact 1, length none), ended\n"
         "| no\n");
  cli_sh("cp .out whole");
  cli_succeeds(SHOW "o/rollouts --step 2 && cmp .out whole || true");
  cli_succeeds(SHOW "o");
  cli_shows(cli_out, "step-00000010.jsonl: step 10, 4 answers");
  cli_succeeds(SHOW "o --max-prompts 1");
  cli_shows(cli_out, "\n1 more prompt. --max-prompts 0 ");
  assert_null(strstr(cli_out, "prompt 9"));
  cli_succeeds(SHOW "o/rollouts/step-00000002.jsonl --max-prompts 0");
  cli_shows(cli_out, "o/rollouts/step-00000002.jsonl: 4 answers to 2 prompts");
}

static void best_and_worst_are_by_reward(void **state) {
  (void)state;
  cli_succeeds(SHOW "o --best 2 --json | grep -o '\"step.*\"sample\": .\\|\"reward\": [^,]*'");
  expect(SHOW "o --best 2 --json | grep -o '\"step.*\"sample\": .\\|\"reward\": [^,]*'",
         "\"step\": 10, \"prompt_id\": 9, \"sample\": 0\n\"reward\": 2\n"
         "\"step\": 10, \"prompt_id\": 7, \"sample\": 0\n\"reward\": 1\n");
  expect(SHOW "o --worst 9 --step 2 --json | grep -o '\"reward\": [^,]*'",
         "\"reward\": 0\n\"reward\": 0.5\n\"reward\": 1\n");
  expect(SHOW "o --worst 1 | tail -n 5",
         "prompt 7\n| 3+4=\nright answer: 7\n"
         "answer 1: reward 0, advantage -0.7, 1 token, cut at the length\n  (empty)\n");
  expect(SHOW "o --cut 5 --json",
         "{\"step\": 10, \"prompt_id\": 7, \"sample\": 1, \"prompt\": \"3+4=\", \"response\": \"\", "
         "\"answer\": \"7\", \"tokens\": [1, 2, 3, 4], \"prompt_tokens\": 3, \"reward\": 0, "
         "\"rewards\": {\"exact\": 0}, \"advantage\": -0.7, \"stop\": \"length\"}\n");
  cli_sh("grep -v '\"length\"}' o/rollouts/step-00000002.jsonl >uncut.jsonl");
  cli_succeeds(SHOW "uncut.jsonl --cut 1");
  cli_shows(cli_out, "\nno answer was cut at the length\n");
  /* Many answers with equal rewards come in the order of a stable sort. */
  cli_sh(
      "awk 'BEGIN { for (i = 0; i < 500; i++) printf \"{\\\"response\\\": \\\"%%d\\\", \\\"reward\\\": "
      "%%d}\\n\", i, "
      "i * 7919 %% 37 }' >many.jsonl; sed 's/.*reward\": //; s/}//' many.jsonl | paste - many.jsonl >ranks; "
      "sort -s -k1,1nr ranks | cut -f2 | head -n 60 >best; sort -s -k1,1n ranks | cut -f2 | head -n 60 "
      ">worst");
  cli_succeeds(SHOW "many.jsonl --best 60 --json | cmp - best && " SHOW
                    "many.jsonl --worst 60 --json | cmp - worst");
}

static void a_prompt_is_followed_over_the_steps(void **state) {
  (void)state;
  expect(SHOW "o --prompt 9",
         "step 2, prompt 9\n| say\n| it\nright answer: 4.0\n"
         "answer 0: reward 0.5 (exact 1, length -0.5), ended by a stop string\n"
         "| it\n| \n|   is said\nanswer 1: no reward (exact 1, length none), ended\n| no\n"
         "\nstep 10, prompt 9\n"
         "answer 0: reward 2 (exact 1, length -0.5), ended by a stop string\n"
         "| it\n| \n|   is said\nanswer 1: no reward (exact 1, length none), ended\n| no\n");
  expect(SHOW "o --prompt 9 --best 1 --json | cut -c 1-29", "{\"step\": 10, \"prompt_id\": 9, \n");
  expect(SHOW "o --prompt 7 --step 2 --json | wc -l | tr -d ' '", "2\n");
  cli_refuses(64, SHOW "o --prompt 8", "refuse", "o/rollouts", "prompt 8");
  cli_refuses(64, SHOW "o --prompt 8 --step 2 --json", "refuse", "o/rollouts/step-00000002.jsonl",
              "prompt 8");
}

static void evaluations_are_shown(void **state) {
  (void)state;
  cli_succeeds(SHOW "o --eval");
  cli_shows(cli_out, "o/eval/step-00000000.jsonl: step 0, 4 answers to 2 prompts");
  cli_shows(cli_out,
            "\nprompt 7 of easy\n| 3+4=\nright answer: 7\nanswer 0: reward 1, 2 tokens, ended\n| 7\n");
}

/* Files written by the program itself: rollouts and evaluations of a run, generate --json, eval --output. */
static void what_the_program_writes_is_read(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO
               "run.output=run_a rollout.save_every=1 data.eval=rl.jsonl eval.steps=1 eval.save=true "
               "eval.max_prompts=3");
  cli_succeeds(SHOW "run_a --max-prompts 0 --json | sed 's/\"step\": 1, //' | cmp - "
                    "run_a/rollouts/step-00000001.jsonl && " SHOW
                    "run_a --eval --max-prompts 0 --json --step 0 | "
                    "sed 's/\"step\": 0, //' | cmp - run_a/eval/step-00000000.jsonl");
  cli_succeeds(SHOW "run_a --max-prompts 0");
  cli_sh("test $(grep -c '^answer [0-3]: reward ' .out) = 16 && test $(grep -c '^right answer: ' .out) = 4");
  cli_succeeds(ONE "generate model '3+4=' '1+1=' --num 2 --max-new 2 --json >g.jsonl && " SHOW "g.jsonl");
  cli_shows(cli_out, "g.jsonl: 4 answers to 2 prompts");
  cli_shows(cli_out, "\nprompt 1\n| 1+1=\nanswer 0: no reward, ");
  cli_succeeds(ONE
               "eval model --data rl.jsonl --reward number --max-new 2 --output v.jsonl >/dev/null && " SHOW
               "v.jsonl --worst 1");
  cli_shows(cli_out, "right answer: ");
  cli_sh("sed 's/\"prompt\": [^,]*, //; s/\"response\": .*\"answer/\"answer/' v.jsonl "
         ">t.jsonl"); /* tokens alone */
  cli_succeeds(SHOW "t.jsonl --max-prompts 1");
  cli_shows(cli_out, "\nprompt 0\n  tokens:\n| ");
  cli_refuses(64, SHOW "g.jsonl --best 1", "refuse", "g.jsonl", "reward");
}

static void what_is_not_there_is_said(void **state) {
  (void)state;
  cli_sh("mkdir -p none half/eval && touch none/deck.yaml half/deck.yaml && cp o/eval/* half/eval && mkfifo "
         "pipe; "
         ": >empty.jsonl");
  cli_refuses(64, SHOW "none", "refuse", "none", "rollouts/step-NNNNNNNN.jsonl", "rollout.save_every=1");
  assert_null(strstr(cli_err, "--eval"));
  cli_refuses(64, SHOW "half", "refuse", "half", "rollout.save_every=1", "--eval");
  cli_refuses(64, SHOW "none --eval", "refuse", "none", "eval/step-NNNNNNNN.jsonl", "eval.save=true");
  cli_sh("! grep -F '\\\\n' .err"); /* lines are lines */
  cli_refuses(64, SHOW "half/eval/none", "tri_show_source_open", "half/eval/none", strerror(ENOENT));
  cli_fails(64, SHOW "bin", "bin: ", NULL);
  cli_refuses(64, SHOW "model", "refuse", "model", "deck.yaml", "metrics.jsonl");
  cli_refuses(64, SHOW "o --step 3", "tri_show_find_step", "o/rollouts", "step 3", "2, 10");
  cli_refuses(64, SHOW "o --step 99 --eval", "tri_show_find_step", "o/eval", "step 99", "0");
  cli_sh("mkdir -p far/rollouts; for i in 10 20 30 40 50 60 70 80 90; do "
         ": >far/rollouts/step-000000$i.jsonl; done");
  cli_refuses(64, SHOW "far --step 55", "tri_show_find_step", "far/rollouts", "step 55",
              "10, 20, ..., 50, 60, ..., 90");
  cli_refuses(64, SHOW "uncut.jsonl --step 3", "tri_show_find_step", "--step", "uncut.jsonl");
  cli_refuses(64, SHOW "uncut.jsonl --eval", "tri_show_source_open", "--eval", "uncut.jsonl");
  cli_refuses(64, SHOW "pipe", "check_regular", "pipe");
  cli_refuses(64, SHOW "empty.jsonl --json", "refuse", "empty.jsonl");
  assert_null(strstr(cli_err, "response"));
  cli_refuses(64, SHOW "rl.jsonl --json", "refuse", "rl.jsonl", "response", "tokens");
  cli_refuses(64, SHOW "o --best 1 --cut 1", "choose", "--best", "--cut");
  cli_refuses(64, SHOW "o --best 1 --max-prompts 1", "choose", "--best", "--max-prompts");
  cli_fails(64, SHOW "o --best 0", "--best", NULL);
  cli_fails(64, SHOW, "OUTPUT", NULL);
  cli_succeeds(SHOW "o --json 2>&1 >&- | cat >said || true; " SHOW "o | head -n 1");
  cli_refuses(74, SHOW "o >/dev/full", "main", strerror(ENOSPC));
}

/* ---- on a terminal ---- */

/* Runs with standard output on a raw terminal, captured in `screen`. Returns the exit code. */
static int run_on_terminal(const char *command, int columns) {
  struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = 24};
  struct termios t;
  int            slave, master = posix_openpt(O_RDWR | O_NOCTTY), status;
  size_t         have = 0;
  ssize_t        n;
  char           all[4096];

  if (master < 0 || grantpt(master) || unlockpt(master)) skip();
  slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (slave < 0 || tcgetattr(slave, &t)) skip();
  t.c_oflag &= ~(tcflag_t)OPOST;
  assert_int_equal(tcsetattr(slave, TCSANOW, &t), 0);
  assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
  assert_int_equal(fcntl(master, F_SETFL, O_NONBLOCK), 0);
  snprintf(all, sizeof all, "{ %s ; } >%s 2>.err </dev/null", command, ptsname(master));
  status = system(all);
  cli_read(".err", cli_err);
  while (have < sizeof screen - 1 && (n = read(master, screen + have, sizeof screen - 1 - have)) > 0)
    have += (size_t)n;
  screen[have] = 0;
  close(slave);
  close(master);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Removes the program's colours from `screen`, which then has no other control character. Returns their
 * number. */
static int take_colours(void) {
  char *to = screen;
  int   n = 0;

  for (const char *at = screen; *at;) {
    size_t bytes = at[0] == '\033' && at[1] == '[' ? 2 + strspn(at + 2, "0123456789") : 0;
    if (bytes && at[bytes] == 'm') {
      n++;
      at += bytes + 1;
    } else {
      if ((unsigned char)*at < 0x20 && *at != '\n') fail_msg("a control character in %s", at);
      *to++ = *at++;
    }
  }
  *to = 0;
  return n;
}

/* Columns of the longest line. A character of three or more bytes takes two. */
static int widest(void) {
  int most = 0, columns = 0;

  for (const char *at = screen; *at; at++) {
    columns =
        *at == '\n' ? 0 : columns + ((unsigned char)*at >= 0xE0 ? 2 : ((unsigned char)*at & 0xC0) != 0x80);
    if (columns > most) most = columns;
  }
  return most;
}

static void lines_keep_to_the_terminal(void **state) {
  static const char evil[] =
      "{\"prompt_id\": 1, \"prompt\": \"\\u001b[31mred\\u202e\\r \\u009b2J <b>&\", \"answer\": "
      "{\"a\": [1]}, \"response\": \"one two three four five six seven eight nine ten eleven "
      "twelve\\n\\tx\\u0000"
      "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5"
      "\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc"
      "\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\", \"reward\": 1, "
      "\"rewards\": {\"\\u001b]0;x\\u0007\": 1, \"b\": 0}, \"stop\": \"\\u001b[H\"}\n";

  (void)state;
  cli_write("evil.jsonl", evil);
  for (int columns = 40; columns <= 80; columns += 40) {
    assert_int_equal(run_on_terminal("export PAGER= TERM=xterm; unset NO_COLOR; " SHOW
                                     "evil.jsonl o/eval/x || " SHOW "evil.jsonl",
                                     columns),
                     0);
    assert_true(take_colours() > 0);
    assert_true(widest() < columns);
    cli_shows(screen, "| \\x1B[31mred\\u202E\\r \\u009B2J <b>&\n");
    cli_shows(screen, "(\\x1B]0;x\\x07 1, b 0)");
    cli_shows(screen, "right answer: {\"a\": [1]}\n");
    cli_shows(screen, "\\x1B[H\n");
  }
  assert_int_equal(run_on_terminal("export PAGER= TERM=xterm; unset NO_COLOR; " SHOW "evil.jsonl", 40), 0);
  assert_int_equal(take_colours() % 2, 0);
  cli_shows(screen, "| one two three four five six seven\n  eight nine ten eleven twelve\n|         x\\x00"
                    "\xe6\xbc\xa2\xe5\xad\x97");
  assert_int_equal(run_on_terminal("PAGER= TERM=xterm NO_COLOR=1 " SHOW "o --step 2", 80), 0);
  assert_null(strchr(screen, '\033'));
  cli_read("whole", cli_out);
  assert_string_equal(screen, cli_out); /* 79 columns there too */
  assert_int_equal(run_on_terminal("PAGER= TERM=dumb " SHOW "o --step 2", 80), 0);
  assert_string_equal(screen, cli_out);
  assert_int_equal(run_on_terminal("env -u NO_COLOR PAGER= TERM=xterm " SHOW "o --step 2", 80), 0);
  cli_shows(screen, "\033[32manswer 0: reward 1, ");
  cli_shows(screen, "\033[31manswer 1: reward 0, ");
  assert_int_equal(run_on_terminal("PAGER=false TERM=xterm " SHOW "o --step 2 --best 1 --json", 80), 0);
  assert_int_equal(strncmp(screen, "{\"step\": 2, ", 12), 0); /* no pager, no colour */
}

static void a_pager_is_used(void **state) {
  (void)state;
  assert_int_equal(run_on_terminal("NO_COLOR=1 PAGER='cat >paged' " SHOW "o --step 2", 80), 0);
  assert_string_equal(screen, "");
  cli_sh("cmp paged whole");
  assert_int_equal(run_on_terminal("PAGER=true " SHOW "many.jsonl --best 500", 80), 0); /* quits at once */
  assert_string_equal(cli_err, "");
  assert_int_equal(run_on_terminal("PAGER='head -n 2; exit 3' " SHOW "many.jsonl --max-prompts 0", 80), 0);
  assert_string_equal(cli_err, "");
  assert_int_equal(run_on_terminal("PAGER=no-such-pager " SHOW "o", 80), 64);
  cli_says(cli_err, "PAGER='no-such-pager'", "PAGER=''");
  /* The default is less, if there is one. */
  cli_sh("mkdir -p path && printf '#!/bin/sh\\necho \"$0 $* LESS=$LESS\"; exec cat\\n' >path/less && chmod "
         "+x path/less");
  assert_int_equal(
      run_on_terminal("unset PAGER LESS; NO_COLOR=1 PATH=$PWD/path:$PATH " SHOW "o --step 2", 80), 0);
  cli_shows(screen, "/path/less -R LESS=FRX\no/rollouts/step-00000002.jsonl: step 2");
  assert_int_equal(run_on_terminal("unset PAGER; PATH=o/deck.yaml " SHOW "o --step 2 --best 1", 80), 0);
  cli_shows(screen, "prompt 7");
  /* Colours are used only if less shows them. */
  assert_int_equal(
      run_on_terminal("unset NO_COLOR; PATH=$PWD/path:$PATH; export TERM=xterm LESS=iM; PAGER=less " SHOW "o",
                      80),
      0);
  assert_null(strchr(screen, '\033'));
}

/* ---- files of other programs ---- */

static void hostile_lines_do_no_harm(void **state) {
  (void)state;
  cli_sh("{ printf '\\377 {}\\n{\"response\": \"\\377\"}\\n{\"response\": 1, \"reward\": \"7\", \"prompt\": "
         "[\"a\"], "
         "\"sample\": {}, \"prompt_id\": 1.5, \"tokens\": \"no\", \"rewards\": [], \"stop\": "
         "3}\\n[1]\\n{}\\nnull\\n\\n'; "
         "awk 'BEGIN { for (i = 0; i < 200000; i++) printf \"{\\\"a\\\":\"; print \"\"; printf "
         "\"{\\\"response\\\": \\\"\"; "
         "for (i = 0; i < 1000000; i++) printf \"0123456789\"; print \"\\\", \\\"reward\\\": 3}\"; "
         "printf \"{\\\"response\\\": \\\"d\\\", \\\"deep\\\": \"; for (i = 0; i < 2000; i++) printf \"[\"; "
         "for (i = 0; i < 2000; i++) printf \"]\"; print \"}\" }'; printf '{\"response\": \"cut o'; } "
         ">hostile.jsonl");
  cli_succeeds(SHOW "hostile.jsonl --max-prompts 0 >shown");
  cli_says(cli_err, "warning", "hostile.jsonl:1", "7");
  cli_sh("test \"$(head -n 7 shown)\" = \"$(printf '%%s\\n' 'hostile.jsonl: 3 answers to 2 prompts, every "
         "reward 3' '' "
         "'prompt' '| [\"a\"]' 'answer: no reward, 3' '| 1' '')\" || { head -n 7 shown; false; }");
  cli_sh("test $(tr -dc 0-9 <shown | wc -c) -gt 10000000 && ! grep -q '.\\{80\\}' shown && "
         "! LC_ALL=C tr -d '\\n -~' <shown | grep -q .");
  cli_succeeds("grep -q __asan_init '" TRI_PROGRAM "' || ulimit -v 800000; " SHOW
               "hostile.jsonl --best 2 --json 2>/dev/null | wc -c");
  assert_int_equal(atoi(cli_out), 10000000 + (int)strlen("{\"response\": \"\", \"reward\": 3}\n"));
  cli_sh("gzip -k hostile.jsonl && head -c 20000 hostile.jsonl.gz >half.gz");
  cli_succeeds(SHOW "hostile.jsonl.gz --best 1 >shown");
  cli_fails(64, SHOW "half.gz --best 1 --json", "half.gz: ", NULL); /* damaged, not endless */
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(a_step_is_shown_whole),
                                    cmocka_unit_test(best_and_worst_are_by_reward),
                                    cmocka_unit_test(a_prompt_is_followed_over_the_steps),
                                    cmocka_unit_test(evaluations_are_shown),
                                    cmocka_unit_test(what_the_program_writes_is_read),
                                    cmocka_unit_test(what_is_not_there_is_said),
                                    cmocka_unit_test(lines_keep_to_the_terminal),
                                    cmocka_unit_test(a_pager_is_used),
                                    cmocka_unit_test(hostile_lines_do_no_harm)};

  return cmocka_run_group_tests(test, open_show, cli_close);
}
