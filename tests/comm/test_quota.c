/* test_quota.c - CPU limits of control groups, read from simulated folders, and each rank's share of them.
 * Judge: exact values. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tree_case.h"
#include <sys/stat.h>
#include <unistd.h>

#include "comm/quota.h"
#include "comm/session.h"
#include "refusal_case.h"

static char root[64], membership[80];

static int set_up(void **state) {
  (void)state;
  snprintf(root, sizeof root, "/tmp/test_quota.XXXXXX");
  if (!mkdtemp(root)) return -1;
  snprintf(membership, sizeof membership, "%s/membership", root);
  return 0;
}

static int tear_down(void **state) {
  char command[128];

  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return system(command);
}

static void put(const char *name, const char *text) { tree_put(root, name, text); }

static double read_quota(tri_quota *q) {
  tri_quota_read(root, membership, q);
  return tri_quota_share(q, q, 1);
}

static void test_none(void **state) {
  tri_quota q;

  (void)state;
  assert_true(isinf(read_quota(&q)) && q.n == 0); /* not even the membership file */
  put("membership", "0::/a\n1:name=systemd:/a\n3:cpuset:/a\n4:memory,cpuacct:/a\nnonsense\n9:\n");
  put("cpuset/a/cpu.cfs_quota_us", "100000\n"); /* for other controllers */
  put("cpuset/a/cpu.cfs_period_us", "100000\n");
  assert_true(isinf(read_quota(&q)));
  put("a/cpu.max", "max 100000\n");
  assert_true(isinf(read_quota(&q)));
  for (const char *const *bad = (const char *const[]){"", "\n", "100000\n", "x 100000\n", "100000 0\n",
                                                      "-5 100000\n", "1e999 100000\n", "0 100000\n", NULL};
       *bad; bad++) {
    put("a/cpu.max", *bad);
    assert_true(isinf(read_quota(&q)));
  }
}

static void test_v2(void **state) {
  tri_quota q;

  (void)state;
  put("membership", "0::/job/step/task\n");
  put("job/step/task/cpu.max", "max 100000\n");
  put("job/step/cpu.max", "150000 100000\n");
  put("job/cpu.max", "400000 100000\n");
  put("cpu.max", "800000 100000\n");
  assert_true(read_quota(&q) == 1.5 && q.n == 3); /* the tightest of all groups above */
  put("job/step/task/cpu.max", "50000 100000\n");
  assert_true(read_quota(&q) == 0.5);
  put("membership", "0::/../other\n"); /* outside this process's view, so only the mount's root counts */
  assert_true(read_quota(&q) == 8);
  put("membership", "0::/not/here\n");
  assert_true(read_quota(&q) == 8);
}

static void test_v1(void **state) {
  tri_quota q;

  (void)state;
  put("membership", "5:cpu,cpuacct:/docker/7\n4:memory:/docker/7\n0::/\n");
  put("cpu,cpuacct/cpu.cfs_quota_us", "250000\n"); /* in a container, its group is the root of the mount */
  put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  assert_true(read_quota(&q) == 2.5 && q.n == 1);
  char from[160], to[96];
  snprintf(to, sizeof to, "%s/cpu", root);
  snprintf(from, sizeof from, "%s/cpu,cpuacct", root);
  assert_false(symlink(from, to)); /* the same group under its second name */
  assert_true(read_quota(&q) == 2.5 && q.n == 1);
  put("cpu,cpuacct/docker/7/cpu.cfs_quota_us", "-1\n");
  put("cpu,cpuacct/docker/7/cpu.cfs_period_us", "100000\n");
  put("cpu,cpuacct/docker/cpu.cfs_quota_us", "25000\n");
  put("cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
  assert_true(read_quota(&q) == 0.5);
}

/* Two ranks share a container of 3 cores, and one of them is in a group of 2. Each rank gets its share of the
 * tightest limit. */
static void test_share(void **state) {
  const tri_quota all[] = {{2, {{1, 10, 2}, {1, 1, 3}}}, {1, {{1, 1, 3}}}, {1, {{1, 11, 1}}}};

  (void)state;
  assert_true(tri_quota_share(&all[0], all, 3) == 1.5 && tri_quota_share(&all[1], all, 3) == 1.5);
  assert_true(tri_quota_share(&all[2], all, 3) == 1);
}

static int threads(double quota, int ranks, char why[64]) {
  const tri_runtime rt = {.machine_ranks = ranks, .cores = 8, .machine_cores = 8, .quota_cores = quota};

  return tri_session_threads(&rt, why);
}

/* The tightest limit decides and is named. */
static void test_threads(void **state) {
  char why[64];

  (void)state;
  unsetenv("OMP_NUM_THREADS"), unsetenv("OMP_THREAD_LIMIT");
  assert_int_equal(threads(INFINITY, 2, why), 4);
  assert_string_equal(why, "of 8 cores");
  assert_int_equal(threads(4, 2, why), 4);
  assert_string_equal(why, "of 8 cores");
  assert_int_equal(threads(3.5, 1, why), 3);
  assert_true(tells(why, "CPU 3.5"));
  assert_int_equal(threads(0.25, 2, why), 1);
  assert_true(tells(why, "CPU 0.25 rank"));
  setenv("OMP_NUM_THREADS", "2,4", 1);
  assert_int_equal(threads(3.5, 1, why), 2);
  assert_string_equal(why, "OMP_NUM_THREADS=2");
  assert_int_equal(threads(1, 1, why), 1);
  assert_true(tells(why, "CPU 1 !rank"));
  setenv("OMP_THREAD_LIMIT", "1", 1);
  assert_int_equal(threads(INFINITY, 1, why), 1);
  assert_string_equal(why, "OMP_THREAD_LIMIT=1");
  unsetenv("OMP_THREAD_LIMIT");
  for (const char *const *bad = (const char *const[]){"", "0", "-3", "many", "2x", "99999999999", NULL}; *bad;
       bad++) {
    setenv("OMP_NUM_THREADS", *bad, 1);
    assert_int_equal(threads(INFINITY, 1, why), 8);
  }
  setenv("OMP_NUM_THREADS", "64", 1); /* no more than the number of cores */
  assert_int_equal(threads(INFINITY, 1, why), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_none, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_v2, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_v1, set_up, tear_down),
      cmocka_unit_test(test_share),
      cmocka_unit_test(test_threads),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
