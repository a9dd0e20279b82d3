/* test_pause.c - when a waiting rank yields its core, when it sleeps, and that it is woken. Judge: exact
 * values. An alarm ends a process that sleeps for ever. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/pause.h"

static void test_policy(void **state) {
  (void)state;
  assert_false(tri_pause_sleeps(0, 0));
  assert_false(tri_pause_sleeps(0.0009, 1e-6)); /* idle cores and a short wait */
  assert_true(tri_pause_sleeps(0.001, 1e-6));
  assert_true(tri_pause_sleeps(1e-4, 1e-4)); /* another process had the core */
  assert_true(tri_pause_nap_s(0) == 50e-6);
  assert_true(tri_pause_nap_s(0.01) == 0.05 * 0.01);
  assert_true(tri_pause_nap_s(10) == 1e-3);
}

/* A wait that yields its core ends in sleep. */
static void test_yield_ends(void **state) {
  tri_pause p = {0};

  (void)state;
  assert_true(tri_pause_yield(&p));
  while (tri_pause_yield(&p)) continue;
  assert_true(p.sleeps && p.from_s > 0);
  tri_pause_idle(&p);
  assert_false(tri_pause_yield(&p));
}

enum { ROUNDS = 500, PATIENCE_S = 60 };

/* Returns the state letter of /proc/PID/stat. 0: the process is gone. */
static char state_of(pid_t pid) {
  char  path[64], line[512] = "", *end;
  FILE *f;

  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  f = fopen(path, "r");
  if (!f) return 0;
  end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
  fclose(f);
  return end && end[1] == ' ' ? end[2] : 0;
}

/* Two processes take turns. Each writes its own flag and maps the other's read-only. In every tenth round the
 * first one waits until the second sleeps. */
static void test_woken(void **state) {
  const size_t      page = (size_t)sysconf(_SC_PAGESIZE);
  FILE             *file = tmpfile();
  int               fd = file ? fileno(file) : -1, status = 0;
  _Atomic uint64_t *flag[2];
  pid_t             pid;

  (void)state;
  assert_true(fd >= 0 && !ftruncate(fd, (off_t)(2 * page)));
  pid = fork();
  assert_true(pid >= 0);
  for (int i = 0; i < 2; i++) {
    int may = i == (pid == 0) ? PROT_READ | PROT_WRITE : PROT_READ;
    flag[i] = mmap(NULL, page, may, MAP_SHARED, fd, (off_t)((size_t)i * page));
    assert_true(flag[i] != MAP_FAILED);
  }
  alarm(PATIENCE_S);
  for (uint64_t n = 1; n <= ROUNDS; n++) {
    _Atomic uint64_t *mine = flag[pid == 0], *its = flag[pid != 0];
    while (pid != 0 && n % 10 == 0 && state_of(pid) != 'S') assert_true(state_of(pid));
    if (pid == 0)
      while (atomic_load(its) < n) tri_pause_sleep(its, n, 10 * PATIENCE_S);
    atomic_store(mine, n);
    tri_pause_wake(mine);
    if (pid != 0)
      while (atomic_load(its) < n) tri_pause_sleep(its, n, 10 * PATIENCE_S);
  }
  if (pid == 0) _exit(0);
  assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  alarm(0);
  for (int i = 0; i < 2; i++) munmap(flag[i], page);
  fclose(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_policy),
      cmocka_unit_test(test_yield_ends),
      cmocka_unit_test(test_woken),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
