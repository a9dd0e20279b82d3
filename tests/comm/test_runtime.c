/* test_runtime.c - the place of each rank, and the launcher. Run with 1, 2 and 4 ranks on one machine. Judge:
 * exact values. */
/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/error.h"
#include "comm/session.h"
#include "ranks_case.h"
#include "refusal_case.h"

#include <sys/wait.h>
#include <unistd.h>

static void check_facts(const tri_runtime *r) {
  CHECK(r->world_size >= 1 && r->world_size == r->nodes * r->local_size);
  CHECK(r->local_rank >= 0 && r->local_rank < r->local_size && r->node >= 0 && r->node < r->nodes);
  CHECK(r->world_rank == r->local_rank * r->nodes + r->node);
  CHECK(r->machine_ranks == rt.world_size && r->machine_rank >= 0 && r->machine_rank < r->machine_ranks);
  CHECK(r->cores >= 1 && r->host[0]);
  CHECK(r->mpi_world && r->mpi_machine);
}

static void test_real_node(void **state) {
  (void)state;
  check_facts(&rt);
  CHECK(rt.nodes == 1 && rt.local_size == rt.world_size && rt.local_rank == tri_runtime_env_rank());
  CHECK(!strcmp(rt.launcher, getenv("OMPI_COMM_WORLD_SIZE") ? "mpi" : "single") || getenv("SLURM_STEP_ID"));
}

static void test_pretended_nodes(void **state) {
  (void)state;
  for (int n = 1; n <= rt.world_size; n++) {
    tri_runtime r;
    tri_status  st = tri_runtime_open(n, &r);
    if (rt.world_size % n) {
      CHECK(st == TRI_EARG && refusal_is("does not divide"));
      tri_error_clear();
      continue;
    }
    CHECK(st == TRI_OK);
    check_facts(&r);
    CHECK(r.local_size == n && r.node == tri_runtime_env_rank() / n &&
          r.local_rank == tri_runtime_env_rank() % n);
    tri_runtime_close(&r);
    tri_runtime_close(&r);
  }
}

/* A model is divided only among a number of ranks that divides its node's. */
static void test_tensor(void **state) {
  (void)state;
  for (int t = -1; t <= 5; t++) {
    tri_session     se;
    tri_session_opt opt = {.device = "cpu", .ranks_per_node = 4, .threads = 1, .tensor = t};
    tri_status      st = tri_session_pretend(&opt, 8, 1, &se);
    CHECK((st == TRI_OK) == (t == 0 || t == 1 || t == 2 || t == 4), "%d", t);
    if (st == TRI_OK) {
      int size = t ? t : 1;
      CHECK(se.place.tensor == size && se.comm[TRI_TENSOR]->size == size &&
            se.comm[TRI_MATES]->size == 4 / size);
      tri_session_close(&se);
      continue;
    }
    CHECK(st == TRI_ECONFIG && refusal_is("4"));
    tri_error_clear();
  }
}

/* These run before MPI is up. */
static void check_abort_without_mpi(void) {
  int   status = 0;
  pid_t pid = fork();

  if (pid == 0) tri_runtime_abort(76);
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 76) {
    fprintf(stderr, "tri_runtime_abort without MPI: wrong exit code\n");
    exit(1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_real_node),
      cmocka_unit_test(test_pretended_nodes),
      cmocka_unit_test(test_tensor),
  };

  check_abort_without_mpi();
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
