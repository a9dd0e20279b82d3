/* test_launch.c - tests the launcher's variables, read before MPI is up, and ranks that connect. Judge:
 * exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tools/doctor/doctor_facts.h"
#include "tools/doctor/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_hosts(const char *text, const char *joined) {
  tri_launch_name *name = NULL;
  char             got[512] = "";
  int              n = 0;

  assert_int_equal(tri_launch_hosts(text, 100, &name, &n), TRI_OK);
  for (int i = 0; i < n; i++) snprintf(got + strlen(got), sizeof got - strlen(got), "%s ", name[i]);
  assert_string_equal(got, joined);
  TRI_FREE(name);
}

static void hosts(void **state) {
  (void)state;
  expect_hosts("n1", "n1 ");
  expect_hosts("n[1-3]", "n1 n2 n3 ");
  expect_hosts("n[08-10,7],head", "n08 n09 n10 n7 head ");
  expect_hosts("r[1-2]n[1-2]x", "r1n1x r1n2x r2n1x r2n2x ");
}

static void bad_hosts(void **state) {
  static const char *const bad[] = {"n[1-",   "n[]", "n[1-x]",   "n[1-999999999]",
                                    "n[1;2]", ",",   "n[1-101]", "n[1"};
  tri_launch_name         *name;
  int                      n;

  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(tri_launch_hosts(bad[i], 100, &name, &n), TRI_EINPUT);
    assert_null(name);
    tri_error_clear();
  }
}

static void tasks(void **state) {
  int n[4];

  (void)state;
  assert_true(tri_launch_tasks("2(x3),1", 4, n));
  assert_int_equal(n[0] + 10 * n[1] + 100 * n[2] + 1000 * n[3], 1222);
  assert_false(tri_launch_tasks("2(x3)", 4, n));
  assert_false(tri_launch_tasks("2(x5)", 4, n));
  assert_false(tri_launch_tasks("2(x3,1", 4, n));
  assert_false(tri_launch_tasks("-1(x4)", 4, n));
}

static void slurm(void **state) {
  tri_launch l;

  (void)state;
  unsetenv("OMPI_COMM_WORLD_SIZE");
  setenv("SLURM_STEP_NODELIST", "n[2-3]", 1);
  setenv("SLURM_STEP_TASKS_PER_NODE", "2,3", 1);
  setenv("SLURM_NODEID", "1", 1);
  setenv("SLURM_LOCALID", "2", 1);
  setenv("SLURM_PROCID", "4", 1);
  assert_int_equal(tri_launch_read(4, 5, 2, &l), TRI_OK);
  assert_string_equal(l.kind, "srun");
  assert_string_equal(l.hub, "n2");
  assert_int_equal(l.locals, 3);
  assert_int_equal(l.local, 2);
  assert_int_equal(tri_launch_node_of(&l, 1), 0);
  assert_int_equal(tri_launch_node_of(&l, 2), 1);
  assert_int_equal(tri_launch_node_of(&l, 5), -1);
  assert_true(l.port > 1024 && l.port < 32768);
  tri_launch_free(&l);
}

static tri_facts of(const char *host, int task, int tasks) {
  tri_facts f = {.seat = {.task = task, .tasks = tasks, .locals = 1, .slurm_task = task},
                 .cores = {.online = 4, .mine = 4}};

  strcpy(f.seat.host, host);
  return f;
}

/* Numbers as runtime.h has them: local rank times nodes plus node. */
static void numbers(void **state) {
  tri_facts f[] = {of("b", 0, 4), of("a", 1, 4), of("b", 2, 4), of("a", 3, 4)};
  bool      even;
  int       nodes;

  (void)state;
  assert_int_equal(tri_facts_number(f, 4, 0, &even, &nodes), TRI_OK);
  assert_true(even);
  assert_int_equal(nodes, 2);
  for (int t = 0; t < 4; t++) assert_int_equal(f[t].seat.rank, t);
  strcpy(f[1].seat.host, "b");
  strcpy(f[2].seat.host, "a");
  assert_int_equal(tri_facts_number(f, 4, 0, &even, &nodes), TRI_OK);
  assert_int_equal(f[1].seat.rank, 2);
  assert_int_equal(f[2].seat.rank, 1);
  strcpy(f[2].seat.host, "b");
  assert_int_equal(tri_facts_number(f, 4, 0, &even, &nodes), TRI_OK);
  assert_false(even);
  assert_int_equal(tri_facts_number(f, 4, 2, &even, &nodes), TRI_OK); /* pretended */
  assert_true(even);
  assert_int_equal(nodes, 2);
}

static void foreign_facts(void **state) {
  tri_facts f = of("a\x1b[2J", 1, 4);

  (void)state;
  assert_true(tri_facts_check(&f, sizeof f, 4));
  assert_string_equal(f.seat.host, "a?[2J");
  assert_false(tri_facts_check(&f, sizeof f - 1, 4));
  assert_false(tri_facts_check(&f, sizeof f, 3));
  f.n_net = TRI_FACTS_NETS + 1;
  assert_false(tri_facts_check(&f, sizeof f, 4));
  f = of("a", 4, 4);
  assert_false(tri_facts_check(&f, sizeof f, 4));
  f = of("", 1, 4);
  assert_false(tri_facts_check(&f, sizeof f, 4));
  memset(&f, 'x', sizeof f);
  assert_false(tri_facts_check(&f, sizeof f, 4));
}

static void choices(void **state) {
  const tri_facts_net ib = {.name = "ib0", .address = "10.1.0.7"},
                      six = {.name = "eth0", .address = "fd00::7"};

  (void)state;
  assert_true(tri_facts_net_matches("ib", TRI_CHOICE_NCCL, &ib));
  assert_false(tri_facts_net_matches("=ib", TRI_CHOICE_NCCL, &ib));
  assert_true(tri_facts_net_matches("=ib0", TRI_CHOICE_NCCL, &ib));
  assert_false(tri_facts_net_matches("^ib", TRI_CHOICE_NCCL, &ib));
  assert_true(tri_facts_net_matches("^docker,lo", TRI_CHOICE_NCCL, &ib));
  assert_false(tri_facts_net_matches("ib", TRI_CHOICE_MPI, &ib));
  assert_true(tri_facts_net_matches("eth0,ib0", TRI_CHOICE_MPI, &ib));
  assert_true(tri_facts_net_matches("10.1.0.0/16", TRI_CHOICE_MPI, &ib));
  assert_false(tri_facts_net_matches("10.2.0.0/16", TRI_CHOICE_MPI, &ib));
  assert_true(tri_facts_net_matches("fd00::/8", TRI_CHOICE_MPI, &six));
  assert_false(tri_facts_net_matches("10.1.0.0/16", TRI_CHOICE_MPI, &six));
  assert_false(tri_facts_net_matches("10.1.0.0/99", TRI_CHOICE_MPI, &ib));
  assert_true(tri_facts_net_matches("ib0:1", TRI_CHOICE_UCX, &ib));
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(hosts),   cmocka_unit_test(bad_hosts),
                                    cmocka_unit_test(tasks),   cmocka_unit_test(slurm),
                                    cmocka_unit_test(numbers), cmocka_unit_test(foreign_facts),
                                    cmocka_unit_test(choices)};

  return cmocka_run_group_tests(test, NULL, NULL);
}
