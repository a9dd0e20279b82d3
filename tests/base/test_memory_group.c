/* test_memory_group.c - limits and counts of control groups. Judge: folders in the kernel's format
 * (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, proc(5)). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/memory_group.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tree_case.h"

static char root[64];

static void put(const char *name, const char *text) { tree_put(root, name, text); }

static int make_root(void **state) {
  (void)state;
  strcpy(root, "/tmp/test_group.XXXXXX");
  return !mkdtemp(root);
}

static int remove_root(void **state) {
  char command[96];

  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return system(command);
}

static void put_group(const char *folder, const char *limit, const char *used, const char *stat) {
  char name[256];

  snprintf(name, sizeof name, "%s/memory.max", folder), put(name, limit);
  snprintf(name, sizeof name, "%s/memory.current", folder), put(name, used);
  snprintf(name, sizeof name, "%s/memory.stat", folder), put(name, stat);
}

static void expect(int pid, size_t bytes, size_t bytes_free, const char *file) {
  tri_memory_limit l;
  char             path[256];

  assert_int_equal(tri_memory_limit_find(root, pid, &l), file != NULL);
  assert_int_equal(l.bytes, bytes);
  assert_int_equal(l.free, bytes_free);
  if (!file) return;
  snprintf(path, sizeof path, "%s/%s", root, file);
  assert_string_equal(l.file, path);
}

static void without_groups(void **state) {
  char file[TRI_GROUP_PATH_BYTES];

  (void)state;
  expect(0, 0, 0, NULL);
  assert_false(tri_memory_kills_find(root, 0, file));
  assert_int_equal(tri_memory_kills_count("/nonexistent"), -1);
}

/* Slurm's groups. The step's group has the limit, and a task's group has none of its own. The job's limit is
 * higher, but the job has less free. */
static void version_2_nested(void **state) {
  char file[TRI_GROUP_PATH_BYTES];

  (void)state;
  put("proc/self/cgroup", "0::/job_7/step_0/user/task_0\n");
  put("proc/12/cgroup", "0::/job_7\n");
  put_group("sys/fs/cgroup/job_7/step_0/user/task_0", "max\n", "1\n", "");
  put_group("sys/fs/cgroup/job_7/step_0", "1000000\n", "500000\n", "anon 5\ninactive_file 100000\n");
  expect(0, 1000000, 600000, "sys/fs/cgroup/job_7/step_0/memory.max");
  put_group("sys/fs/cgroup/job_7", "1200000\n", "1100000\n", "inactive_file 0\n");
  expect(0, 1000000, 100000, "sys/fs/cgroup/job_7/memory.max");
  expect(12, 1200000, 100000, "sys/fs/cgroup/job_7/memory.max");
  put_group("sys/fs/cgroup/job_7", "1200000\n", "1300000\n", "inactive_file 0\n"); /* already above it */
  expect(0, 1000000, 0, "sys/fs/cgroup/job_7/memory.max");
  put("sys/fs/cgroup/job_7/step_0/user/task_0/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 9\n");
  assert_true(tri_memory_kills_find(root, 0, file));
  assert_int_equal(tri_memory_kills_count(file), 2);
  assert_false(tri_memory_kills_find(root, 13, file));
}

/* Both versions are mounted in unusual places, in a container that sees a part of them. */
static void version_1_where_it_is_mounted(void **state) {
  char file[TRI_GROUP_PATH_BYTES];

  (void)state;
  put("proc/self/cgroup", "9:name=systemd:/x\n5:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/a b/sub\n0::/\n");
  put("proc/self/mountinfo",
      "30 24 0:26 / /cg/two rw,nosuid - cgroup2 cgroup2 rw\n"
      "31 24 0:27 / /cg/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
      "32 24 0:28 /docker/a\\040b /cg/mem rw shared:7 - cgroup cgroup rw,memory,hugetlb\n"
      "broken\n");
  put("cg/mem/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
  put("cg/mem/memory.usage_in_bytes", "5\n");
  expect(0, 0, 0, NULL);
  put("cg/mem/sub/memory.limit_in_bytes", "400\n");
  put("cg/mem/sub/memory.usage_in_bytes", "300\n");
  put("cg/mem/sub/memory.stat", "inactive_file 9\ntotal_inactive_file 50\n");
  put("cg/mem/sub/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  expect(0, 400, 150, "cg/mem/sub/memory.limit_in_bytes");
  assert_true(tri_memory_kills_find(root, 0, file));
  assert_int_equal(tri_memory_kills_count(file), 4);
}

static void address_space(void **state) {
  struct rlimit before, r;
  size_t        limit, space, more;

  (void)state;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  r = before;
  r.rlim_cur = (rlim_t)1 << 46; /* sanitizers map a lot */
  if (r.rlim_cur > before.rlim_max) skip();
  assert_int_equal(setrlimit(RLIMIT_AS, &r), 0);
  assert_true(tri_memory_address_space(&limit, &space));
  assert_true(limit == (size_t)1 << 46 && space < limit);
  r.rlim_cur -= 1 << 20;
  assert_int_equal(setrlimit(RLIMIT_AS, &r), 0);
  assert_true(tri_memory_address_space(&limit, &more) && more <= space);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur == RLIM_INFINITY) assert_false(tri_memory_address_space(&limit, &space));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_groups, make_root, remove_root),
      cmocka_unit_test_setup_teardown(version_2_nested, make_root, remove_root),
      cmocka_unit_test_setup_teardown(version_1_where_it_is_mounted, make_root, remove_root),
      cmocka_unit_test(address_space),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
