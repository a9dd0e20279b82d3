/* test_halt.c - early stops of a run, and how every rank learns of them. Run with 1, 2 and 4 ranks. Judge:
 * exact values. */
/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/clock.h"
#include "comm/halt.h"
#include "ranks_case.h"
#include "refusal_case.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[256], stop_file[300]; /* rank 0's folder, known to every rank */

static bool is_first(void) { return world->rank == 0; }

static tri_halt *open_halt(double end_unix_s) {
  tri_halt_opt opt = {end_unix_s, stop_file};
  tri_halt    *h = NULL;

  CHECK(tri_halt_open(world, &opt, &h) == TRI_OK);
  tri_halt_keep(h, 60, 30);
  return h;
}

static tri_halt_cause ask(tri_halt *h) {
  tri_halt_cause cause = TRI_HALT_FAILED;

  CHECK(tri_halt_ask(h, &cause) == TRI_OK);
  return cause;
}

/* Rank 0 creates the file. All ranks continue once it exists. */
static void make_file(void) {
  FILE *f = is_first() ? fopen(stop_file, "w") : NULL;

  CHECK(!is_first() || f);
  if (f) fclose(f);
  CHECK(tri_host_barrier(world) == TRI_OK);
}

static bool is_gone(void) {
  struct stat sb;

  return lstat(stop_file, &sb) && errno == ENOENT;
}

static void test_time(void **state) {
  double    now_s = (double)time(NULL);
  tri_halt *h = open_halt(is_first() ? now_s + 3600 : 1); /* only rank 0's clock counts */

  (void)state;
  CHECK(ask(h) == TRI_HALT_NOT);
  tri_halt_close(&h);
  h = open_halt(is_first() ? now_s + 50 : 0);
  CHECK(ask(h) == TRI_HALT_TIME && tri_halt_decided(h) == TRI_HALT_TIME);
  CHECK(!is_first() || strstr(tri_halt_words(h), "the allocation ends in"));
  tri_halt_close(&h);
  CHECK(h == NULL);
}

static void test_file(void **state) {
  tri_halt *h = open_halt(0);

  (void)state;
  make_file();
  CHECK(ask(h) == TRI_HALT_FILE && ask(h) == TRI_HALT_FILE);
  CHECK(!is_first() || (is_gone() && !strcmp(tri_halt_words(h), stop_file)));
  tri_halt_close(&h);
}

/* The file is from an earlier run, so this run goes on. */
static void test_old_file(void **state) {
  tri_halt *h;

  (void)state;
  make_file();
  h = open_halt(0);
  CHECK(!is_first() || is_gone());
  CHECK(ask(h) == TRI_HALT_NOT);
  tri_halt_close(&h);
}

/* The target of a link stays, whether it exists or not. A folder is no request. */
static void test_link_and_folder(void **state) {
  char      kept[300];
  tri_halt *h = open_halt(0);
  FILE     *f;

  (void)state;
  snprintf(kept, sizeof kept, "%s/kept", folder);
  if (is_first()) {
    CHECK((f = fopen(kept, "w")) && !fclose(f) && !symlink(kept, stop_file));
  }
  CHECK(ask(h) == TRI_HALT_FILE);
  CHECK(!is_first() || (is_gone() && !access(kept, F_OK) && !unlink(kept)));
  tri_halt_close(&h);
  CHECK(!is_first() || !symlink(kept, stop_file));
  h = open_halt(0);
  CHECK(!is_first() || (is_gone() && !mkdir(stop_file, 0700)));
  CHECK(ask(h) == TRI_HALT_NOT);
  tri_halt_close(&h);
  CHECK(!is_first() || !rmdir(stop_file));
}

/* Runs rounds until the watch ends them, at most n. */
static int64_t work(tri_halt *h, int64_t n) {
  int64_t i = 0;

  while (i < n && !tri_halt_watch(h)) i++;
  return i;
}

static const int64_t endless = INT64_MAX;

/* Every rank has its own number of rounds, some have none, and nothing ends them early. */
static void test_watch_of_nothing(void **state) {
  tri_halt      *h = open_halt(0);
  tri_halt_cause cause = TRI_HALT_FAILED;

  (void)state;
  for (int turn = 0; turn < 20; turn++) {
    int64_t n = (world->rank + turn) % world->size * 37;
    tri_halt_watch_begin(h);
    CHECK(work(h, n) == n);
    CHECK(tri_halt_watch_end(h, TRI_OK, &cause) == TRI_OK && cause == TRI_HALT_NOT);
  }
  CHECK(ask(h) == TRI_HALT_NOT);
  tri_halt_close(&h);
}

/* Endless work ends on every rank, whether rank 0 works too or not. */
static void test_watch_ends_work(void **state) {
  (void)state;
  for (int idle = 0; idle < 2; idle++) {
    tri_halt      *h = open_halt(0);
    tri_halt_cause cause = TRI_HALT_NOT;
    bool           works = !is_first() || !idle;
    make_file();
    tri_halt_watch_begin(h);
    CHECK(!works || work(h, endless) < endless);
    CHECK(tri_halt_watch_end(h, TRI_OK, &cause) == TRI_OK && cause == TRI_HALT_FILE);
    CHECK(tri_halt_decided(h) == TRI_HALT_FILE && ask(h) == TRI_HALT_FILE);
    tri_halt_close(&h);
  }
}

/* A step in progress continues with less time left than a new one would need. */
static void test_time_in_a_watch(void **state) {
  tri_halt      *h = open_halt(is_first() ? (double)time(NULL) + 45 : 0);
  tri_halt_cause cause = TRI_HALT_FAILED;

  (void)state;
  tri_halt_watch_begin(h);
  CHECK(work(h, 100) == 100);
  CHECK(tri_halt_watch_end(h, TRI_OK, &cause) == TRI_OK && cause == TRI_HALT_NOT);
  tri_halt_keep(h, 60, 50);
  tri_halt_watch_begin(h);
  CHECK(work(h, endless) < endless);
  CHECK(tri_halt_watch_end(h, TRI_OK, &cause) == TRI_OK && cause == TRI_HALT_TIME);
  tri_halt_close(&h);
}

/* A failed rank ends the others' work, and all ranks get its message. */
static void test_watch_of_failure(void **state) {
  tri_halt      *h = open_halt(0);
  tri_halt_cause cause;
  tri_status     st = TRI_OK;

  (void)state;
  tri_halt_watch_begin(h);
  if (world->rank == world->size - 1) {
    work(h, 5);
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ENUMERIC, "test_watch_of_failure()");
  } else {
    CHECK(work(h, endless) < endless);
  }
  CHECK(tri_halt_watch_end(h, st, &cause) == TRI_ENUMERIC);
  CHECK(refusal_is("test_watch_of_failure()"));
  tri_error_clear();
  tri_halt_close(&h);
}

/* If asked so, stdout is a pipe without a reader. */
static void check_words(bool unread, const char *want) {
  int       end[2], out = dup(STDOUT_FILENO);
  tri_halt *h = open_halt(0);

  fflush(stdout);
  if (unread) CHECK(!pipe(end) && !close(end[0]) && dup2(end[1], STDOUT_FILENO) >= 0 && !close(end[1]));
  CHECK(ask(h) == TRI_HALT_SIGNAL);
  CHECK(dup2(out, STDOUT_FILENO) >= 0 && !close(out));
  CHECK(!is_first() || !strcmp(tri_halt_words(h), want));
  tri_halt_close(&h);
}

/* This test must be the last, because the signal stays recorded. A signal to another rank decides nothing,
 * and one to rank 0 decides for all. */
static void test_signal(void **state) {
  tri_halt      *h = open_halt(0);
  tri_halt_cause cause = TRI_HALT_NOT;

  (void)state;
  tri_halt_catch_signals(false, tri_now_s);
  if (world->rank == world->size - 1 && !is_first()) CHECK(!raise(SIGTERM));
  CHECK(ask(h) == TRI_HALT_NOT);
  tri_halt_watch_begin(h);
  if (is_first()) CHECK(work(h, 3) == 3 && !raise(SIGPIPE));
  CHECK(work(h, endless) < endless);
  CHECK(tri_halt_watch_end(h, TRI_OK, &cause) == TRI_OK && cause == TRI_HALT_SIGNAL);
  CHECK(ask(h) == TRI_HALT_SIGNAL);
  tri_halt_close(&h);
  check_words(false, "SIGPIPE: a connection broke");
  check_words(true, "SIGPIPE: nobody reads the output any more");
  if (is_first()) CHECK(!raise(SIGUSR1));
  check_words(false, "SIGUSR1");
  tri_halt_mark(h = open_halt(0));
  CHECK(!is_first() || !tri_halt_is_asked_again(h)); /* rank 0 alone asks */
  make_file();
  CHECK(!is_first() || (tri_halt_is_asked_again(h) && is_gone() && !tri_halt_is_asked_again(h)));
  tri_halt_close(&h);
}

static void fail_early(const char *what) {
  fprintf(stderr, "signals: %s\n", what);
  exit(1);
}

static volatile double at_s; /* the child's clock, read in its handlers */
static double          clock_s(void) { return at_s; }

/* The child survives the first signal and its immediate repetition, and a later one ends it. A child survives
 * ignored signals, and signals that the system repeats. An earlier SIGPIPE, SIGHUP or SIGXCPU (`before`)
 * changes nothing. */
static void get_signals(int before, int number, bool answers, tri_halt_phase phase, bool ignored) {
  if (ignored) signal(number, SIG_IGN);
  tri_halt_catch_signals(answers, clock_s);
  tri_halt_enter(phase);
  raise(before);
  at_s = 5;
  raise(number);
  at_s = 5.9;
  raise(number);
  if (write(STDERR_FILENO, "alive\n", 6) != 6) _exit(1);
  at_s = 6.1;
  raise(number);
  _exit(7);
}

enum { SAID_BYTES = 256 };

static int lines_of(const char *text) {
  int n = 0;

  for (; *text; text++) n += *text == '\n';
  return n;
}

/* Before MPI is up, in a child with a pipe as stderr. It answers the first signals with `want` lines, kept in
 * said, and one that ends it with a line in `last`. */
static void check_signals(int before, int number, tri_halt_phase phase, bool ignored, int want,
                          char said[SAID_BYTES], char last[SAID_BYTES]) {
  char    all[2 * SAID_BYTES] = "", *alive;
  size_t  n = 0;
  ssize_t got;
  bool    survives = ignored || number == SIGHUP || number == SIGPIPE || number == SIGXCPU,
       answers = want || number != SIGINT || ignored;
  int   end[2], status = 0;
  pid_t pid;

  if (pipe(end)) fail_early("no pipe");
  if ((pid = fork()) == 0) {
    if (dup2(end[1], STDERR_FILENO) < 0) _exit(1);
    close(end[0]);
    close(end[1]);
    get_signals(before, number, answers, phase, ignored);
  }
  close(end[1]);
  while (n + 1 < sizeof all && (got = read(end[0], all + n, sizeof all - 1 - n)) > 0) n += (size_t)got;
  all[n] = 0;
  close(end[0]);
  if (waitpid(pid, &status, 0) != pid || (survives ? !WIFEXITED(status) || WEXITSTATUS(status) != 7
                                                   : !WIFSIGNALED(status) || WTERMSIG(status) != number))
    fail_early("the process ends when it should not, or does not when it should");
  alive = strstr(all, "alive\n");
  if (!alive) fail_early(all);
  *alive = 0;
  snprintf(said, SAID_BYTES, "%.*s", SAID_BYTES - 1, all);
  snprintf(last, SAID_BYTES, "%.*s", SAID_BYTES - 1, alive + strlen("alive\n"));
  if (lines_of(said) != want || lines_of(last) != (answers && !survives)) fail_early(all);
}

/* Each phase has its own answer to a signal. An answer to a signal that comes again is repeated. */
static void check_all_signals(void) {
  static const struct {
    int            before, number;
    tri_halt_phase phase;
    bool           ignored;
    int            want; /* lines */
  } cases[] = {
      {SIGPIPE, SIGUSR1, TRI_HALT_STEPS, false, 1},
      {SIGPIPE, SIGUSR1, TRI_HALT_LOADING, false, 1},
      {SIGPIPE, SIGUSR1, TRI_HALT_LEAVING, false, 1},
      {SIGPIPE, SIGUSR2, TRI_HALT_STEPS, false, 1}, /* the warning of queues other than Slurm */
      {SIGPIPE, SIGXCPU, TRI_HALT_STEPS, false, 1}, /* sent each second once the limit is reached */
      {SIGPIPE, SIGHUP, TRI_HALT_STEPS, false, 1},
      {SIGXCPU, SIGUSR1, TRI_HALT_STEPS, false, 2},
      {SIGHUP, SIGUSR1, TRI_HALT_STEPS, false, 2}, /* also the SIGTERM at the end of a login */
      {SIGPIPE, SIGINT, TRI_HALT_STEPS, false, 0},
      {SIGPIPE, SIGINT, TRI_HALT_STEPS, true, 0},
      {SIGPIPE, SIGHUP, TRI_HALT_STEPS, true, 0},
      {SIGPIPE, SIGPIPE, TRI_HALT_STEPS, false, 0},
  };
  char said[3][SAID_BYTES], last[3][SAID_BYTES], now[SAID_BYTES], end[SAID_BYTES];

  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
    bool phases = i < 3;
    check_signals(cases[i].before, cases[i].number, cases[i].phase, cases[i].ignored, cases[i].want,
                  phases ? said[i] : now, phases ? last[i] : end);
    if (!phases && cases[i].want == 1 && strcmp(now, said[0]) != 0) fail_early(now);
    if (!phases && cases[i].want == 2 && strcmp(now + strlen(said[0]), said[0]) != 0) fail_early(now);
  }
  if (!strcmp(said[0], said[1]) || !strcmp(said[0], said[2]) || !strcmp(said[1], said[2]))
    fail_early("two phases give the same answer");
  if (strcmp(last[0], last[1]) != 0 || !strcmp(last[0], last[2]))
    fail_early("the end of a run with unsaved work is told as another");
  /* mpirun's SIGTERM is answered only if there is a run */
  check_signals(SIGPIPE, SIGTERM, TRI_HALT_STEPS, false, !tri_runtime_by_mpirun(), now, end);
}

/* A failed rank may leave before the others join its sum. MPI writes into the sum later. */
static void test_close_in_a_sum(void **state) {
  tri_halt *h = open_halt(0);

  (void)state;
  CHECK(is_first() || tri_host_barrier(world) == TRI_OK);
  tri_halt_watch_begin(h);
  CHECK(!tri_halt_watch(h));
  tri_halt_close(&h);
  CHECK(h == NULL);
  CHECK(!is_first() || tri_host_barrier(world) == TRI_OK);
  CHECK(tri_host_barrier(world) == TRI_OK);
}

static int open_all(void **state) {
  CHECK(!ranks_open(state));
  snprintf(folder, sizeof folder, "%s/trireme-halt-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  CHECK(!is_first() || mkdtemp(folder));
  CHECK(tri_host_bcast(world, folder, sizeof folder, 0) == TRI_OK);
  snprintf(stop_file, sizeof stop_file, "%s/STOP", folder);
  return 0;
}

static int close_all(void **state) {
  CHECK(!is_first() || !rmdir(folder));
  return ranks_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_time),
      cmocka_unit_test(test_file),
      cmocka_unit_test(test_old_file),
      cmocka_unit_test(test_link_and_folder),
      cmocka_unit_test(test_watch_of_nothing),
      cmocka_unit_test(test_watch_ends_work),
      cmocka_unit_test(test_time_in_a_watch),
      cmocka_unit_test(test_watch_of_failure),
      cmocka_unit_test(test_close_in_a_sum),
      cmocka_unit_test(test_signal),
  };

  signal(SIGPIPE, SIG_DFL); /* a service manager may have set it to be ignored */
  if (tri_runtime_env_rank() == 0) check_all_signals();
  return cmocka_run_group_tests(tests, open_all, close_all);
}
