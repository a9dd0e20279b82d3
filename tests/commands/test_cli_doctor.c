/* test_cli_doctor.c - trireme doctor on one machine: alone, under mpirun, with a deck, with an error. Judge:
 * exit code, JSON read back, lines of the screen. tests/slurm/doctor.sh tests several nodes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <errno.h>

#include <jansson.h>

#define FOUR "'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 4 '" TRI_PROGRAM "' "

/* Reads one JSON value with this number of ranks, and returns the number of findings of this check. */
static int read_json(size_t ranks, const char *check) {
  json_t *all = json_loads(cli_out, 0, NULL), *one;
  size_t  i;
  int     n = 0;

  if (!all) fail_msg("no JSON: %s", cli_out);
  assert_int_equal(json_object_size(all), 3);
  assert_int_equal(json_array_size(json_object_get(all, "ranks")), ranks);
  assert_true(json_array_size(json_object_get(all, "bandwidth")) > 0);
  json_array_foreach(json_object_get(all, "ranks"), i, one) {
    assert_int_equal(json_integer_value(json_object_get(one, "rank")), i);
    assert_int_equal(json_integer_value(json_object_get(one, "local_rank")), i);
    assert_string_equal(json_string_value(json_object_get(one, "device")), "cpu");
    assert_true(json_integer_value(json_object_get(one, "cores")) > 0);
  }
  json_array_foreach(json_object_get(all, "findings"), i, one) n +=
      !strcmp(json_string_value(json_object_get(one, "check")), check);
  json_decref(all);
  return n;
}

static void alone(void **state) {
  (void)state;
  cli_succeeds(ONE "doctor");
  cli_fits(cli_out);
  cli_shows(cli_out, "1 of 1 rank on 1 node (alone)");
  cli_shows(cli_out, "disk write");
  cli_shows(cli_out, "\n0 errors, ");
  cli_shows(cli_err, "/cache/trireme/machine-cpu-");
  assert_int_equal(system("ls -a | grep trireme-doctor"), 256); /* nothing is left */
}

static void together(void **state) {
  (void)state;
  cli_succeeds(TWO "doctor sft.yaml --json");
  assert_int_equal(read_json(2, "versions"), 0);
  cli_shows(cli_out, "{\"scope\": \"world\", \"bytes\": ");
  cli_shows(cli_out, "{\"scope\": \"disk read\", \"bytes\": ");
  /* the next call measures less, and keeps it */
  cli_sh("sed -i 's/\"flops_bf16\": .*/\"flops_bf16\": 1e18,/' cache/trireme/machine-cpu-1.json");
  /* On several machines without Slurm nothing tells the place of rank 0, so facts travel by MPI. This
   * imitates it. */
  cli_succeeds("'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 2 env OMPI_COMM_WORLD_LOCAL_SIZE=1 "
               "'" TRI_PROGRAM "' doctor --json");
  assert_int_equal(read_json(2, "versions"), 0);
  cli_says(cli_err, "trireme plan", "flops_bf16", "cache/trireme/machine-cpu-1.json");
  cli_fits(cli_err);
  cli_sh("grep -q '\"flops_bf16\": 1e+18,' cache/trireme/machine-cpu-1.json");
}

/* The ranks of a model, and those with the same part of their models, are communicators of their own. */
static void ranks_of_a_model(void **state) {
  (void)state;
  cli_succeeds(FOUR "doctor grpo.yaml shard.tensor_parallel_size=2 --json");
  cli_shows(cli_out, "{\"scope\": \"tensor\", \"bytes\": ");
  cli_shows(cli_out, "{\"scope\": \"mates\", \"bytes\": ");
  cli_succeeds(TWO "doctor grpo.yaml --json");
  assert_null(strstr(cli_out, "\"tensor\""));
  assert_int_equal(cli_run(TWO "doctor grpo.yaml shard.tensor_parallel_size=3 --json"), 69);
  cli_shows(cli_out, "tensor_parallel_size");
}

/* A folder on a full or foreign file system. /proc accepts no file. */
static void folder(void **state) {
  (void)state;
  assert_int_equal(cli_run(TWO "doctor sft.yaml run.output=/proc/none --json"), 69);
  assert_int_equal(read_json(2, "folder"), 1);
  cli_shows(cli_out, "\"where\": \"/proc/none on ");
  assert_int_equal(cli_run(TWO "doctor sft.yaml data.eval=[sft.jsonl,gone.jsonl] --json"), 69);
  assert_int_equal(read_json(2, "inputs"), 1);
  cli_shows(cli_out, "\"where\": \"gone.jsonl on ");
  cli_shows(cli_out, strerror(ENOENT));
}

static void refused(void **state) {
  (void)state;
  cli_succeeds(ONE "--version");
  if (!strstr(cli_out, "cuda")) {
    assert_int_equal(cli_run(TWO "doctor sft.yaml run.device=cuda"), 69);
    cli_shows(cli_out, "error: device: ");
    cli_says(cli_out, "error", "device", "run.device: cuda");
    assert_null(strstr(cli_out, "MPI_Init"));
  }
  cli_refuses(64, ONE "doctor absent.yaml", "open_to_read", "absent.yaml", strerror(ENOENT));
  cli_refuses(64, ONE "doctor run.device=cpu", "doctor", "run.device=cpu", "trireme doctor");
  cli_refuses(64, ONE "doctor --timeout 61", "set", "--timeout 61", "1", "60");
}

static int open_here(void **state) {
  const char *base = getenv("TMPDIR");
  char        cache[300];

  (void)state;
  snprintf(cli_root, sizeof cli_root, "%s/trireme-cli-XXXXXX", base ? base : "/tmp");
  if (!mkdtemp(cli_root) || chdir(cli_root)) return -1;
  snprintf(cache, sizeof cache, "%s/cache", cli_root);
  setenv("XDG_CACHE_HOME", cache, 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OMPI_MCA_orte_tmpdir_base", cli_root, 1);
  cli_sh("cp '" TRI_TEST_DATA "/cli/'* .");
  return 0;
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(alone), cmocka_unit_test(together),
                                    cmocka_unit_test(ranks_of_a_model), cmocka_unit_test(folder),
                                    cmocka_unit_test(refused)};

  return cmocka_run_group_tests(test, open_here, cli_close);
}
