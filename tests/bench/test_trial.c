/* test_trial.c - checks that a trial's folder is removed at its end, also if a signal ends the process.
 * Judge: the content of the folder above it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/folder.h"
#include "tools/bench/bench_trial.h"
#include "comm/session.h"
#include "refusal_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static tri_session se;
static char        above[64];

static int open_all(void **state) {
  (void)state;
  strcpy(above, "/tmp/trireme-trial-XXXXXX");
  if (!mkdtemp(above)) return -1;
  return tri_session_pretend(&(tri_session_opt){.device = "cpu", .threads = 1}, 1, 1, &se) != TRI_OK;
}

static int close_all(void **state) {
  (void)state;
  tri_session_leave(&se, TRI_OK);
  return rmdir(above);
}

static void put(const char *folder, const char *name) {
  char path[TRI_CKPT_PATH_BYTES + 64];
  int  fd;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  assert_true(fd >= 0);
  close(fd);
}

/* Makes the files left by an unfinished checkpoint, and the plain file. */
static void fill(const char *folder) {
  char path[TRI_CKPT_PATH_BYTES + 64];

  put(folder, "plain");
  snprintf(path, sizeof path, "%s/step-00000001.tmp", folder);
  assert_int_equal(mkdir(path, 0700), 0);
  put(path, "state.h5");
  put(path, "MANIFEST.json");
  put(path, "state.h5-1-28224.lock");
}

static void is_empty(void) {
  bool empty = false;

  assert_int_equal(tri_folder_is_empty(above, &empty), TRI_OK);
  assert_true(empty);
}

static void it_is_removed_at_the_end(void **state) {
  char path[TRI_CKPT_PATH_BYTES];
  bool empty = false;

  (void)state;
  assert_int_equal(tri_trial_begin(se.comm[TRI_WORLD], above, path), TRI_OK);
  fill(path);
  assert_int_equal(tri_trial_clear(), TRI_OK);
  assert_int_equal(tri_folder_is_empty(path, &empty), TRI_OK);
  assert_true(empty);
  fill(path);
  assert_int_equal(tri_trial_end(se.comm[TRI_WORLD], TRI_OK), TRI_OK);
  is_empty();
}

static void it_is_removed_after_a_failure(void **state) {
  char path[TRI_CKPT_PATH_BYTES];

  (void)state;
  assert_int_equal(tri_trial_begin(se.comm[TRI_WORLD], above, path), TRI_OK);
  fill(path);
  assert_int_equal(tri_trial_end(se.comm[TRI_WORLD], TRI_EFILE), TRI_EFILE);
  is_empty();
}

/* Makes more files than one listing holds, such as MPI's lock files, and a link. The link must not be
 * followed. */
static void whatever_lies_in_it_goes_too(void **state) {
  char path[TRI_CKPT_PATH_BYTES], link[TRI_CKPT_PATH_BYTES + 64], name[96];

  (void)state;
  put(above, "kept");
  assert_int_equal(tri_trial_begin(se.comm[TRI_WORLD], above, path), TRI_OK);
  fill(path);
  for (int i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "step-00000001.tmp/state.h5-1-%d.lock", i);
    put(path, name);
  }
  snprintf(link, sizeof link, "%s/LATEST", path);
  assert_int_equal(symlink("..", link), 0);
  assert_int_equal(tri_trial_end(se.comm[TRI_WORLD], TRI_OK), TRI_OK);
  snprintf(link, sizeof link, "%s/kept", above);
  assert_int_equal(unlink(link), 0);
  is_empty();
}

static void what_is_too_deep_stays_and_is_told(void **state) {
  static const char *const deep[] = {"/a", "/a/b", "/a/b/c", "/a/b/c/d"};
  char                     path[TRI_CKPT_PATH_BYTES], folder[TRI_CKPT_PATH_BYTES + 64];

  (void)state;
  assert_int_equal(tri_trial_begin(se.comm[TRI_WORLD], above, path), TRI_OK);
  for (int i = 0; i < 4; i++) {
    snprintf(folder, sizeof folder, "%s%s", path, deep[i]);
    assert_int_equal(mkdir(folder, 0700), 0);
  }
  assert_int_equal(tri_trial_end(se.comm[TRI_WORLD], TRI_OK), TRI_EFILE);
  expect_refusal("tri_trial_clear()");
  tri_error_clear();
  for (int i = 3; i >= 0; i--) {
    snprintf(folder, sizeof folder, "%s%s", path, deep[i]);
    assert_int_equal(rmdir(folder), 0);
  }
  assert_int_equal(rmdir(path), 0);
}

/* Runs in a process of its own. It ends as if nobody had caught the signal. */
static void a_signal_removes_it_and_ends_the_process(void **state) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

  (void)state;
  for (int i = 0; i < 3; i++) {
    int status, pid = fork();
    if (pid == 0) {
      char path[TRI_CKPT_PATH_BYTES];
      if (tri_trial_begin(se.comm[TRI_WORLD], above, path) != TRI_OK) _exit(1);
      fill(path);
      raise(signals[i]);
      _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signals[i]);
    is_empty();
  }
}

/* After the end, signals have their default effect again. */
static void signals_are_as_they_were(void **state) {
  char             path[TRI_CKPT_PATH_BYTES];
  struct sigaction now;

  (void)state;
  signal(SIGHUP, SIG_IGN);
  assert_int_equal(tri_trial_begin(se.comm[TRI_WORLD], above, path), TRI_OK);
  assert_int_equal(sigaction(SIGHUP, NULL, &now), 0);
  assert_true(now.sa_handler == SIG_IGN);
  assert_int_equal(tri_trial_end(se.comm[TRI_WORLD], TRI_OK), TRI_OK);
  assert_int_equal(sigaction(SIGINT, NULL, &now), 0);
  assert_true(now.sa_handler == SIG_DFL);
  signal(SIGHUP, SIG_DFL);
}

static void a_folder_that_is_none(void **state) {
  char path[TRI_CKPT_PATH_BYTES];

  (void)state;
  assert_int_equal(tri_trial_begin(se.comm[TRI_WORLD], "/dev/null", path), TRI_EFILE);
  expect_refusal("make() /dev/null");
  tri_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_removed_at_the_end),
                                     cmocka_unit_test(it_is_removed_after_a_failure),
                                     cmocka_unit_test(whatever_lies_in_it_goes_too),
                                     cmocka_unit_test(what_is_too_deep_stays_and_is_told),
                                     cmocka_unit_test(a_signal_removes_it_and_ends_the_process),
                                     cmocka_unit_test(signals_are_as_they_were),
                                     cmocka_unit_test(a_folder_that_is_none)};

  return cmocka_run_group_tests(tests, open_all, close_all);
}
