/* test_cli_screen.c - the screen of a run on terminals of several sizes and in a pipe. Judge of the terminal:
 * log.txt. A small terminal emulator obeys the program's output. At the end it shows the lines of log.txt,
 * each whole, and nothing else. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "cli_events.h"
#include "cli_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

enum { RAW_BYTES = 1 << 19, ROW_BYTES = 512, WIDEST = 79 };

static char raw[RAW_BYTES], screen[RAW_BYTES]; /* received bytes, and the screen with a line per row */

/* ---- a terminal ---- */

/* A machine without pseudo terminals (a chroot without /dev/pts) skips the test. */
static int open_terminal(int columns, int rows, int *slave) {
  struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
  int            master = posix_openpt(O_RDWR | O_NOCTTY);

  if (master < 0 || grantpt(master) || unlockpt(master)) skip();
  *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (*slave < 0) skip();
  assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
  return master;
}

/* Finds the next text drawn and left with a single \r, a live line. Gives its end and its columns. Returns
 * NULL without one. */
static const char *next_live(const char *from, size_t *columns) {
  for (*columns = 0; *from; from++) {
    if (*from == '\r' && from[1] && from[1] != '\n' && *columns) return from;
    *columns = *from == '\r' || *from == '\n' || *from == '\033' ? 0 : *columns + 1;
    if (*from == '\033') from += strnlen(from + 1, 2);
  }
  return NULL;
}

/* Returns the part from the first live line of this width on, or NULL. */
static const char *live_of(const char *from, size_t columns) {
  size_t      n;
  const char *end;

  while ((end = next_live(from, &n)) && n != columns) from = end;
  return end ? from : NULL;
}

static size_t longest_live(const char *from) {
  size_t most = 0, n;

  while ((from = next_live(from, &n)) != NULL)
    if (n > most) most = n;
  return most;
}

static void set_columns(int terminal, int columns) {
  struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = 24};

  assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

/* Runs the command with stderr on a terminal. With `narrow` the terminal gets that narrow after the first
 * live line. After a live line for this width the run is told to stop. raw gets all bytes. */
static int run_on_terminal(const char *command, int columns, int narrow) {
  int    slave, status, master = open_terminal(columns, 24, &slave);
  bool   is_narrow = false;
  size_t n = 0, live;
  pid_t  child = fork();

  assert_true(child >= 0);
  if (child == 0) {
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(slave, 2);
    close(master);
    setenv("TERM", "xterm", 1);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  close(slave);
  for (;;) {
    ssize_t got = read(master, raw + n, sizeof raw - 1 - n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break; /* EIO, the last writer is gone */
    n += (size_t)got;
    raw[n] = 0;
    if (narrow && !is_narrow && next_live(raw, &live)) {
      set_columns(master, narrow);
      is_narrow = true;
    }
    if (is_narrow && live_of(raw, (size_t)narrow - 1)) {
      assert_int_equal(kill(child, SIGUSR1), 0);
      narrow = is_narrow = false;
    }
  }
  raw[n] = 0;
  close(master);
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Makes the screen of a terminal that obeys raw: \r, \n (sent as \r\n by the line discipline), erase below,
 * printable text. A row stays one row at any length, so that the caller sees its length. */
static void obey(void) {
  char   row[ROW_BYTES] = "";
  size_t column = 0, n = 0;

  for (const char *p = raw; *p; p++) {
    if (*p == '\r') {
      column = 0;
    } else if (*p == '\n') {
      n += (size_t)snprintf(screen + n, sizeof screen - n, "%s\n", row);
      memset(row, 0, sizeof row);
    } else if (!strncmp(p, "\033[J", 3) || !strncmp(p, "\033[K", 3)) {
      memset(row + column, 0, sizeof row - column);
      p += 2;
    } else {
      assert_true((unsigned char)*p >= 0x20 && column + 1 < sizeof row);
      row[column++] = *p;
    }
  }
  snprintf(screen + n, sizeof screen - n, "%s", row);
}

/* Cuts off the first line of *text. Returns NULL at the end. */
static char *next_line(char **text) {
  char *line = *text, *end;

  if (!line || !line[0]) return NULL;
  end = strchr(line, '\n');
  if (end) *end = 0;
  *text = end ? end + 1 : NULL;
  return line;
}

static bool is_table(const char *line) { /* the memory table, only in the file */
  return !strncmp(line, "memory per rank, MiB", 20) || !strncmp(line, "  planned ", 10) ||
         (line[0] == ' ' && line[1] == ' ' && strlen(line) == 54 && line[50] == '.');
}

/* Tells whether a line belongs to the record of the products, which only the file has. It is its head or an
 * indented line below. */
static bool is_record(const char *line, bool *within) {
  *within = !strcmp(line, "computed by") || (*within && line[0] == ' ');
  return *within;
}

/* Tells whether `row`, with the indented rows below it, is the line. */
static bool is_line(const char *line, const char *row, char **below) {
  char text[ROW_BYTES * 8];

  snprintf(text, sizeof text, "%s", row);
  while (strlen(text) < strlen(line) && *below && !strncmp(*below, "    ", 4)) {
    row = next_line(below);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s", row + 3);
  }
  return !strcmp(text, line);
}

/* The rows of the screen are the lines of the file in order, broken at words if they are too long. */
static void screen_is_log(const char *path, int columns) {
  static char log[CLI_TEXT_BYTES];
  char       *rows = screen, *lines = log, *row, *line;
  bool        record = false;

  for (const char *p = screen; *p; p += strcspn(p, "\n"), p += *p == '\n')
    if (strcspn(p, "\n") >= (size_t)columns) fail_msg("over %d columns: %.300s", columns - 1, p);
  cli_read(path, log);
  while ((line = next_line(&lines)) != NULL) {
    if (is_table(line) || is_record(line, &record)) continue;
    row = next_line(&rows);
    if (!row || !is_line(line, row, &rows))
      fail_msg("the terminal shows\n%s\nthe file has\n%s", row ? row : "", line);
  }
  if (rows && rows[0]) fail_msg("left over: %s", rows);
}

#define RUN SFT "run.output=seen run.resume=never checkpoint.save_steps=3 "

static void terminal_shows_what_the_log_has(void **state) {
  (void)state;
  assert_int_equal(run_on_terminal(ONE RUN "train.steps=7", 80, 0), 0);
  assert_true(longest_live(raw) > 30); /* there was a live line, and it left nothing */
  obey();
  cli_says(screen, "step 3", "seen/checkpoints");
  screen_is_log("seen/log.txt", 80);
  assert_int_equal(run_on_terminal(ONE GRPO
                                   "run.output=seen_rl train.steps=2 checkpoint.save_steps=1 eval.steps=1 "
                                   "data.eval=rl.jsonl",
                                   160, 0),
                   0);
  assert_true(longest_live(raw) > 30);
  obey();
  screen_is_log("seen_rl/log.txt", 160);
}

/* 256 answers are made at once. Two ranks write to the terminal themselves, not through mpirun. */
static void live_line_counts_answers(void **state) {
  static const char many[] = "run.resume=never rollout.rollout_batch_size=512 algo.num_generations=2 "
                             "train.train_batch_size=1024 eval.steps=1 data.eval=rl.jsonl run.output=";
  char              command[CLI_TEXT_BYTES / 16];

  (void)state;
  snprintf(command, sizeof command, ONE GRPO "%s%s", many, "seen_one");
  assert_int_equal(run_on_terminal(command, 80, 0), 0);
  cli_shows(raw, "step 1/1  eval 0/24  reward -  - tok/s  - left\r");
  cli_shows(raw, "step 1/1  rollout 256/1024  reward -  ");
  cli_shows(raw, "step 1/1  rollout 768/1024  reward ");
  assert_in_range(longest_live(raw), 50, 79);
  snprintf(command, sizeof command,
           "export T=$(readlink /proc/self/fd/2); '%s' --allow-run-as-root --oversubscribe -n 2 "
           "sh -c \"'%s' " GRPO "%s%s 2>\\$T\"",
           TRI_MPIEXEC, TRI_PROGRAM, many, "seen_two");
  assert_int_equal(run_on_terminal(command, 80, 0), 0);
  cli_shows(raw, "step 1/1  rollout ~0/1024  reward ");
  cli_shows(raw, "step 1/1  rollout ~256/1024  reward "); /* the 256 that this rank decodes at once */
}

static void narrow_terminals_get_a_narrow_line(void **state) {
  const char *narrow;

  (void)state;
  assert_int_equal(run_on_terminal(ONE RUN "train.steps=4", 30, 0), 0);
  assert_int_equal(longest_live(raw), 29);
  assert_int_equal(run_on_terminal("exec " ONE RUN "train.steps=20000", 80, 40), 75);
  assert_in_range(longest_live(raw), 41, 79);
  narrow = live_of(raw, 39);
  assert_non_null(narrow);
  assert_int_equal(longest_live(narrow), 39);
}

static void long_messages_break_at_words(void **state) {
  static const int columns[] = {80, 100};
  char             log[CLI_TEXT_BYTES];

  (void)state;
  for (int i = 0; i < 2; i++) {
    cli_sh("rm -rf seen_long");
    assert_int_equal(run_on_terminal(ONE GRPO "run.output=seen_long train.steps=4", columns[i], 0), 0);
    obey();
    screen_is_log("seen_long/log.txt", columns[i]);
    cli_read("seen_long/log.txt", log);
    cli_shows(log, "\ntrireme: warning: step 3: reward exact was 0 for every answer of 3 steps");
  }
  assert_int_equal(run_on_terminal(ONE SFT "run.output=bad train.learning_rat=1", 50, 0), 64);
  obey();
  assert_in_range(strcspn(screen, "\n"), 1, 49);
}

/* Judge: the output in a pipe. */
static void screen_is_pipe(const char *command, int columns, int code) {
  assert_int_equal(run_on_terminal(command, columns, 0), code);
  obey();
  assert_int_equal(cli_run(command), code);
  screen_is_log(".err", columns);
}

static void lists_break_at_words(void **state) {
  static const char faulty[] =
      ONE GRPO "data.train=nope.jsonl rollout.rollout_batch_size=3 run.threads=4096 run.output=bad --check";
  static const char changed[] = ONE SFT "run.output=seen_list data.train=more.jsonl train.steps=3 "
                                        "run.allow_changes=[data.train] --check";

  (void)state;
  screen_is_pipe(faulty, 80, 64);
  assert_int_equal(cli_count_facts(cli_err, "trireme: ", CLI_FACTS("grpo.yaml", "3")), 1);
  cli_succeeds(ONE SFT "run.output=seen_list");
  cli_sh("cat sft.jsonl sft.jsonl >more.jsonl");
  screen_is_pipe(changed, 60, 0);
  cli_says(cli_err, "seen_list/checkpoints/step-00000002", "data.train: ");
}

static void commands_to_be_typed_are_not_broken(void **state) {
  (void)state;
  cli_sh("rm -rf seen_typed && cp -r run seen_typed");
  assert_int_equal(
      run_on_terminal(
          ONE SFT "run.output=seen_typed run.resume=seen_typed/checkpoints/step-00000002 run.seed=7", 80, 0),
      64);
  cli_shows(raw, "    run.resume=never 'model.path=seen_typed/checkpoints/step-00000002' model.config=null "
                 "model.tokenizer=null run.output=OTHER\r\n");
}

static void messages_keep_their_line(void **state) {
  (void)state;
  assert_int_equal(
      run_on_terminal(ONE
                      "train grpo.yaml run.output=seen_bad run.resume=never run.sampler=exact train.steps=3 "
                      "rollout.replay=nothing",
                      80, 0),
      64);
  assert_null(strchr(raw, '\033'));
  assert_int_equal(run_on_terminal(ONE SFT "'run.output=a\x1b]0;mine\x07\x1b[2J' train.steps=1", 80, 0), 0);
  assert_null(strstr(raw, "\x1b]"));
  assert_null(strstr(raw, "\x1b[2J"));
  cli_shows(raw, "a\\x1B]0;mine");
}

/* ---- a pipe ---- */

/* Counts rows of steps in text, and *headers. Every line except warnings keeps to the width. */
static int count_rows(const char *text, int *headers) {
  static char copy[CLI_TEXT_BYTES];
  char       *at = copy, *line;
  int         n = 0;

  *headers = 0;
  snprintf(copy, sizeof copy, "%s", text);
  while ((line = next_line(&at)) != NULL) {
    const char *word = line + strspn(line, " ");
    if (strlen(line) > WIDEST && strncmp(line, "trireme: warning: ", 18) != 0)
      fail_msg("%d columns: %s", (int)strlen(line), line);
    if (!strncmp(word, "step ", 5) && strstr(line, " time ")) ++*headers;
    n += word != line && strspn(word, "0123456789") > 0 && word[strspn(word, "0123456789")] == '/';
  }
  return n;
}

static void pipe_gets_plain_rows_and_the_header_again(void **state) {
  int headers;

  (void)state;
  cli_succeeds(ONE RUN "train.steps=41");
  assert_null(strpbrk(cli_err, "\033\r"));
  assert_int_equal(count_rows(cli_err, &headers), 41);
  assert_int_equal(headers, 3);
  cli_shows(cli_err, "  41/41 ");
  cli_shows(cli_err, "step 1/41: learn ...\n"); /* before the first row, and then no more */
  assert_null(strstr(cli_err, "step 2/41: "));
  cli_succeeds(TWO RUN "train.steps=2");
  assert_null(strpbrk(cli_err, "\033\r"));
  assert_int_equal(count_rows(cli_err, &headers), 2);
}

static int count_lines(const char *path) {
  char text[CLI_TEXT_BYTES];
  int  n = 0;

  cli_read(path, text);
  for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) n++;
  return n;
}

static void rows_come_as_often_as_asked(void **state) {
  int headers;

  (void)state;
  cli_succeeds(ONE RUN "train.steps=10 run.log_every=4");
  assert_int_equal(count_rows(cli_err, &headers), 3);
  cli_shows(cli_err, " 4/10 ");
  cli_shows(cli_err, " 8/10 ");
  cli_shows(cli_err, " 10/10 ");
  assert_int_equal(count_lines("seen/metrics.jsonl"), 10);
  cli_fails(64, ONE SFT "run.log_every=0", "run.log_every = 0", ">= 1");
}

/* The last screen shows tokens in its line of resources. In parentheses it says that they belong to this
 * start alone. */
static void used_line(bool this_start) {
  const char *line = strstr(cli_err, "\n  used ");

  assert_non_null(line);
  line++;
  assert_true(cli_has_fact(line, strcspn(line, "\n"), "tokens"));
  assert_int_equal(memchr(line, '(', strcspn(line, "\n")) != NULL, this_start);
}

/* An allocation that is almost over ends the run after its first step. */
static void last_finished_step_has_its_row(void **state) {
  static const char near_end[] = "SLURM_JOB_ID=7 PATH=\"$PWD:$PATH\" ";
  char              command[CLI_TEXT_BYTES / 16];
  int               headers;

  (void)state;
  cli_sh("printf '#!/bin/sh\\necho $4 0:05 9:00\\n' > squeue && chmod +x squeue"); /* left, used */
  snprintf(command, sizeof command, "%s" ONE RUN "train.steps=1000 run.log_every=1000", near_end);
  assert_int_equal(cli_run(command), 75);
  assert_int_equal(count_rows(cli_err, &headers), 1);
  assert_int_equal(headers, 1);
  cli_shows(cli_err, " 1/1000 ");
  assert_int_equal(cli_events_now("seen", "{\"event\": \"end\", \"state\": \"stopped\", \"cause\": \"time\", "
                                          "\"step\": 1, \"exit_code\": 75}"),
                   1);
  used_line(false);
  cli_says(cli_err, TRI_PROGRAM " train", "seen/deck.yaml");
  snprintf(command, sizeof command, "%s" ONE "train seen/deck.yaml run.resume=auto run.log_every=1",
           near_end);
  assert_int_equal(cli_run(command), 75);
  cli_shows(cli_err, " 2/1000 ");
  used_line(true);
  assert_int_equal(count_rows(cli_err, &headers), 1); /* shown already */
}

static int count(const char *text, const char *part) {
  int n = 0;

  for (; (text = strstr(text, part)) != NULL; text++) n++;
  return n;
}

/* A requeue would not help if the next allocation is no longer. It may help if this run had only the end of
 * one. */
static void time_for_no_step_is_said(void **state) {
  static const char endless[] = "'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 2 env "
                                "SLURM_JOB_ID=7 PATH=\"$PWD:$PATH\" '" TRI_PROGRAM "' " GRPO
                                "run.output=vain run.resume=never rollout.rollout_batch_size=2048 "
                                "algo.num_generations=256 train.train_batch_size=524288";

  (void)state;
  cli_sh("printf '#!/bin/sh\\necho $4 0:01 0:00\\n' > squeue && chmod +x squeue");
  assert_int_equal(cli_run(endless), 69);
  cli_says(cli_err, "0 s", "step 1"); /* time of the allocation, and the work left */
  assert_int_equal(cli_saying(cli_err, "trireme", "vain", "1 s", "sbatch --time"), 1);
  cli_sh("printf '#!/bin/sh\\necho $4 0:01 0:02\\n' > squeue");
  assert_int_equal(cli_run(endless), 75);
  assert_int_equal(count(cli_err, "sbatch --time"), 0);
}

/* The reader of the output ends first, as tee does on Ctrl-C. The run ends as if told to stop. */
static void output_that_nobody_reads_stops_the_run(void **state) {
  char text[CLI_TEXT_BYTES];

  (void)state;
  cli_run("{ timeout 120 " ONE RUN
          "train.steps=1000000 train.learning_rate=1e-12; echo $? > rc; } 2>&1 | head -n 3");
  cli_read("rc", text);
  assert_string_equal(text, "75\n");
  cli_read("seen/log.txt", text);
  cli_says(text, "SIGPIPE", "step");
  assert_int_equal(cli_events_now("seen", "{\"event\": \"end\", \"state\": \"stopped\", \"exit_code\": 75}"),
                   1);
  assert_true(cli_exists("seen/checkpoints/LATEST"));
}

/* head ends after some rows, and its closed pipe ends the run. */
static void rows_of_long_runs_keep_to_the_width(void **state) {
  int headers;

  (void)state;
  cli_run("timeout 120 " ONE GRPO
          "run.output=seen_rl run.resume=never train.steps=1000000 train.learning_rate=1e-12 eval.steps=1 "
          "data.eval=rl.jsonl 2>&1 | head -n 22");
  assert_true(count_rows(cli_out, &headers) > 3);
  assert_int_equal(headers, 1);
  cli_shows(cli_out, " cut ");
  cli_shows(cli_out, " ecut  pass@1\n"); /* beside each other */
  assert_null(strstr(cli_out, " gap"));
}

static void a_gap_gets_a_column(void **state) {
  int headers;

  (void)state;
  cli_succeeds(ONE GRPO "run.output=seen_rl run.resume=never rollout.save_every=1");
  assert_null(strstr(cli_err, " gap"));
  cli_succeeds(
      ONE GRPO
      "run.output=seen_rl2 run.resume=never run.seed=7 run.sampler=trust eval.steps=1 data.eval=rl.jsonl "
      "rollout.replay=seen_rl/rollouts");
  cli_shows(cli_err, " gap ");
  assert_int_equal(count_rows(cli_err, &headers), 2);
  assert_int_equal(headers, 2); /* step 0, an evaluation, has none yet */
}

/* Every column at its narrowest, and a loss of -4e-10 from rounding. The answers of one step are as many
 * files as the run has steps. */
static void all_columns_keep_to_the_width(void **state) {
  static const char small[] = "algo.num_generations=2 rollout.rollout_batch_size=1 train.train_batch_size=2 "
                              "train.micro_batch_size=1 run.resume=never ";
  char              command[CLI_TEXT_BYTES / 16];
  int               headers;

  (void)state;
  snprintf(command, sizeof command, ONE GRPO "%s run.output=seen_rl rollout.save_every=1 train.steps=1",
           small);
  cli_succeeds(command);
  cli_sh("sed -i '1s/\"reward\": 0, \"rewards\": {\"exact\": 0}/"
         "\"reward\": 1e-8, \"rewards\": {\"exact\": 1e-8}/' "
         "seen_rl/rollouts/* && mkdir many && yes \"$(cat seen_rl/rollouts/*)\" | head -n 20000 | "
         "split -l 2 -a 8 --numeric-suffixes=1 --additional-suffix=.jsonl - many/step-");
  snprintf(command, sizeof command,
           ONE GRPO "%s run.output=seen_rl2 run.seed=7 run.sampler=trust eval.steps=1 data.eval=rl.jsonl "
                    "rollout.replay=many train.steps=10000 train.learning_rate=1e-12 algo.scale_rewards=none "
                    "algo.clip_eps=0.99 algo.clip_eps_high=100 2>&1 | head -n 20",
           small);
  cli_run(command);
  assert_true(count_rows(cli_out, &headers) > 1);
  cli_shows(cli_out, " gap  ecut  pass@1\n");
  cli_shows(cli_out, " 5.0e-9    -0  5e-8 ");
  assert_null(strchr(cli_out, '#'));
}

static void memory_is_one_line_and_a_table_for_those_who_ask(void **state) {
  char text[CLI_TEXT_BYTES];

  (void)state;
  cli_succeeds(ONE RUN "train.steps=1");
  cli_says(cli_err, "MiB", "learn");
  assert_null(strstr(cli_err, "policy moments"));
  cli_read("seen/log.txt", text);
  cli_shows(text, "  policy moments ");
  cli_succeeds(ONE RUN "train.steps=1 --verbose");
  cli_shows(cli_err, "  policy moments ");
}

/* The whole start screen and the first row with its header are on a screen of 24 rows. */
static void start_screen_fits_a_page(void **state) {
  int         rows = 0, headers;
  const char *end;

  (void)state;
  cli_succeeds(TWO GRPO
               "run.output=seen_a_long_way_from_home/and_further/and_further_still/and_yet_further/than/that "
               "run.resume=never train.steps=1 checkpoint.save_final=false");
  end = strstr(cli_err, " 1/1 ");
  assert_non_null(end);
  for (const char *p = cli_err; p < end; p++) rows += *p == '\n';
  assert_true(rows < 20);
  cli_err[end - cli_err] = 0;
  assert_int_equal(count_rows(cli_err, &headers), 0);
  cli_shows(cli_err, "...");
}

static void next_command_is_as_it_was_typed(void **state) {
  (void)state;
  cli_succeeds(ONE "train sft.yaml run.output=seen run.resume=never");
  cli_shows(cli_err, TRI_PROGRAM " generate ");
  cli_succeeds("'" TRI_PROGRAM "' train sft.yaml \"run.output=$(printf 'a\\nb')\" run.resume=never");
  cli_shows(cli_err, " generate 'a\\nb' ");
  cli_sh("mkdir -p 'in here' && ln -sf '" TRI_PROGRAM "' 'in here/trireme'");
  cli_succeeds("'in here/trireme' train sft.yaml \"run.output=it's seen\" run.resume=never");
  cli_shows(cli_err, "'in here/trireme' generate 'it'\\''s seen' \"...\"\n");
  cli_succeeds("PATH=\"$PWD/in here:$PATH\" trireme train sft.yaml run.output=seen run.resume=never");
  cli_says(cli_err, "trireme generate seen \"...\"", "trireme export seen FOLDER");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(terminal_shows_what_the_log_has),
      cmocka_unit_test(live_line_counts_answers),
      cmocka_unit_test(narrow_terminals_get_a_narrow_line),
      cmocka_unit_test(long_messages_break_at_words),
      cmocka_unit_test(lists_break_at_words),
      cmocka_unit_test(commands_to_be_typed_are_not_broken),
      cmocka_unit_test(messages_keep_their_line),
      cmocka_unit_test(pipe_gets_plain_rows_and_the_header_again),
      cmocka_unit_test(rows_come_as_often_as_asked),
      cmocka_unit_test(last_finished_step_has_its_row),
      cmocka_unit_test(time_for_no_step_is_said),
      cmocka_unit_test(output_that_nobody_reads_stops_the_run),
      cmocka_unit_test(rows_of_long_runs_keep_to_the_width),
      cmocka_unit_test(a_gap_gets_a_column),
      cmocka_unit_test(all_columns_keep_to_the_width),
      cmocka_unit_test(memory_is_one_line_and_a_table_for_those_who_ask),
      cmocka_unit_test(start_screen_fits_a_page),
      cmocka_unit_test(next_command_is_as_it_was_typed),
  };

  signal(SIGPIPE, SIG_DFL); /* a service manager may have it ignored */
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
