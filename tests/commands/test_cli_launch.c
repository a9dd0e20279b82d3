/* test_cli_launch.c - the program with the variables of launchers in its environment, beside a launcher and
 * without. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"

#include <errno.h>

/* Output of a command for one rank, variables or not. */
static void same_as_plain(const char *variables, const char *command) {
  char plain[CLI_TEXT_BYTES], all[4096];

  cli_succeeds(command);
  assert_true(cli_out[0]);
  memcpy(plain, cli_out, sizeof plain);
  snprintf(all, sizeof all, "%s; %s", variables, command);
  cli_succeeds(all);
  if (strcmp(plain, cli_out) != 0) fail_msg("%s\nprints\n%snot\n%s", all, cli_out, plain);
}

/* Commands for one rank print. A run is refused if it would be one of several. */
static void all_as_plain(const char *variables, const char *refused_for) {
  char command[4096];

  cli_write("texts.jsonl", "{\"text\": \"1+2=3\"}\n");
  same_as_plain(variables, ONE "inspect run");
  same_as_plain(variables, ONE "tokenize model texts.jsonl");
  same_as_plain(variables, ONE "generate model a --max-new 3 --temperature 0");
  snprintf(command, sizeof command, "%s; rm -rf model2 && %sexport run model2 && test -e model2/config.json",
           variables, ONE);
  cli_succeeds(command);
  snprintf(command, sizeof command, "%s; %s", variables, ONE SFT "run.output=bad");
  if (refused_for)
    cli_refuses(69, command, "tri_runtime_check_launcher", refused_for,
                "unset PMIX_RANK OMPI_COMM_WORLD_SIZE");
  snprintf(command, sizeof command, "%s; %s rm -rf run2; %s", variables,
           refused_for ? "unset PMIX_RANK OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS;" : "",
           ONE SFT "run.output=run2");
  cli_succeeds(command);
  assert_int_equal(cli_events("run2", "{\"event\": \"start\", \"ranks\": 1, \"nodes\": 1}"), 1);
  assert_int_equal(cli_events("run2", "{\"event\": \"end\", \"state\": \"finished\", \"step\": 2}"), 1);
}

/* Left in a shell, or handed on one by one. */
static void test_stray_variables(void **state) {
  (void)state;
  all_as_plain("export OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1", NULL);
  all_as_plain("export PMIX_RANK=1 PMIX_NAMESPACE=1234 PMIX_SERVER_TMPDIR=" TRI_PROGRAM "/pmix PMI_RANK=3",
               "PMIX_NAMESPACE=1234");
  all_as_plain("export SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_TASK_PID=999999999 "
               "SLURM_JOB_END_TIME=1000000000",
               NULL);
}

/* All variables mpirun gives a rank, after mpirun has ended. */
static void test_launcher_that_is_gone(void **state) {
  (void)state;
  cli_sh("'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 2 sh -c 'test $PMIX_RANK = 0 || export "
         "-p > gone.sh'");
  all_as_plain(". ./gone.sh", "PMIX_NAMESPACE");
}

/* The run in this folder had two ranks of one node. */
static void is_of_two(const char *folder) {
  assert_int_equal(cli_events(folder, "{\"event\": \"start\", \"ranks\": 2, \"nodes\": 1}"), 1);
}

/* In a container with its own /tmp the folder of mpirun is out of sight, though mpirun runs. */
static void test_launcher_behind_a_wall(void **state) {
  (void)state;
  cli_succeeds("'" TRI_MPIEXEC
               "' --allow-run-as-root --oversubscribe -n 2 env PMIX_SERVER_TMPDIR=" TRI_PROGRAM
               "/none '" TRI_PROGRAM "' " SFT "run.output=run3");
  is_of_two("run3");
}

static int count(const char *text, const char *part) {
  int n = 0;

  for (const char *p = text; (p = strstr(p, part)) != NULL; p++) n++;
  return n;
}

/* Under mpirun only rank 0 prints, even with a shell between. */
static void test_rank_0_prints(void **state) {
  (void)state;
  cli_succeeds(TWO "inspect run");
  assert_int_equal(count(cli_out, "after step 2"), 1);
  cli_succeeds("'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 2 sh -c '" TRI_PROGRAM
               " inspect run; :'");
  assert_int_equal(count(cli_out, "after step 2"), 1);
}

/* The deck is missing on rank 1. Rank 0 waits for it in MPI, and rank 1 gives the reason. */
static void test_failure_of_another_rank(void **state) {
  (void)state;
  cli_fails(64,
            "'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 2 sh -c 'export "
            "OMPI_COMM_WORLD_LOCAL_RANK=0; test $PMIX_RANK = 0 || deck=gone.yaml; exec " TRI_PROGRAM
            " train ${deck:-sft.yaml} run.output=bad'",
            "trireme: rank 1 on ", strerror(ENOENT));
  cli_says(cli_err, "rank 1", "gone.yaml", strerror(ENOENT));
}

static int idle_ranks(void) { return cli_events("idle", ALARM("idle_ranks")); }

/* A message names once the ranks without work in any step. */
static void test_idle_ranks(void **state) {
  static const char three[] =
      "'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 3 '" TRI_PROGRAM "' " GRPO
      "run.output=idle run.resume=never train.micro_batch_size=null train.max_tokens_per_gpu=512 ";
  char command[1024];

  (void)state;
  snprintf(command, sizeof command, "%srollout.rollout_batch_size=1 train.train_batch_size=4", three);
  cli_succeeds(command);
  assert_int_equal(cli_saying(cli_err, "warning", "1", "2", "3", "rollout.rollout_batch_size"), 1);
  assert_int_equal(idle_ranks(), 1);
  snprintf(command, sizeof command,
           "%srollout.rollout_batch_size=1 train.train_batch_size=2 algo.num_generations=2", three);
  cli_succeeds(command);
  assert_int_equal(cli_saying(cli_err, "warning", "2", "3", "train.train_batch_size"), 1);
  snprintf(command, sizeof command, "%srollout.rollout_batch_size=4", three);
  cli_succeeds(command);
  assert_int_equal(idle_ranks(), 0);
}

/* The launcher of another MPI does not serve this program's MPI. One rank names both in one message. */
static void test_launcher_of_another_mpi(void **state) {
  (void)state;
  cli_refuses(69, "export PMI_RANK=0 PMI_SIZE=2 PMI_FD=1; " ONE SFT "run.output=bad", "check_size",
              "PMI_SIZE=2", "1", "PMI", "Open MPI", "unset PMI_SIZE");
  cli_sh("export PMI_RANK=1 PMI_SIZE=2 PMI_FD=1; " ONE SFT
         "run.output=bad 2> err; test $? = 69 && test ! -s err");
  cli_refuses(69, "export PMI_RANK=0 PMI_SIZE=2 PMI_FD=1; " ONE "generate model a --max-new 3", "check_size",
              "PMI_SIZE=2", "1", "unset PMI_SIZE");
}

/* Ranks of a node use TCP if they cannot share memory because /dev/shm is full. */
static void test_no_shared_memory(void **state) {
  (void)state;
  cli_succeeds("export OMPI_MCA_btl_vader_backing_directory=\"$PWD/sft.yaml/none\" "
               "OMPI_MCA_btl_tcp_if_include=lo; " TWO SFT "run.output=apart");
  is_of_two("apart");
}

/* A word no build knows is an error of the user, and the message lists the known words. */
static void test_unknown_choices(void **state) {
  (void)state;
#define BAD SFT "run.device=cpu run.output=bad"
  cli_refuses(64, "TRI_COMM=pigeon " ONE BAD, "find_way", "TRI_COMM=pigeon", "shm", "mpi", "staged");
  cli_refuses(64, "TRI_CPU_F32=avx9 " ONE BAD, "choose_f32", "TRI_CPU_F32=avx9", "library");
  cli_refuses(64, "TRI_CPU_BF16=avx9 " ONE BAD, "tri_pairs_choose", "TRI_CPU_BF16=avx9", "f32");
  cli_refuses(64, "TRI_CUDA_ATTN_BWD=flash " ONE BAD, "tri_gpu_attn_asked", "TRI_CUDA_ATTN_BWD=flash", "own",
              "cudnn");
  cli_refuses(64, ONE SFT "run.cpu_f32=avx9", "refuse_value", "run.cpu_f32", "avx9", "auto", "library",
              "avx512");
  cli_refuses(64, ONE SFT "run.cpu_bf16=avx9", "refuse_value", "run.cpu_bf16", "avx9", "auto", "amx",
              "avx512", "f32");
  cli_refuses(64, ONE BAD " run.collectives=nccl", "find_way", "run.collectives", "nccl", "run.device", "cpu",
              "shm", "mpi", "staged", "auto");
  cli_refuses(64, ONE SFT "run.cuda_attention_backward=flash", "refuse_value", "run.cuda_attention_backward",
              "flash", "auto", "own", "cudnn");
  /* the variable overrides the key, in a run and in commands about one */
  cli_refuses(64, "TRI_COMM=pigeon " ONE BAD " run.collectives=mpi", "find_way", "TRI_COMM=pigeon");
#undef BAD
}

/* They are not an error of the build if the user asks for them. */
static void test_staged_on_wish(void **state) {
  (void)state;
  cli_succeeds("TRI_COMM=staged " TWO SFT "run.device=cpu run.output=staged");
  cli_says(cli_err, "MPI", "TRI_COMM=staged");
  cli_succeeds("TRI_COMM= " TWO SFT "run.device=cpu run.output=staged2 run.collectives=staged");
  cli_says(cli_err, "MPI", "run.collectives: staged");
  assert_null(strstr(cli_err, "NCCL"));
}

/* Ranks with different instruction sets are named once. On a processor with one family of kernels nothing can
 * differ. */
static void test_unlike_ranks(void **state) {
  (void)state;
  cli_succeeds("TRI_CPU_KERNELS= " ONE "--version --verbose");
  if (!strstr(cli_out, "kernels by avx512")) skip();
  cli_succeeds("TRI_CPU_KERNELS= '" TRI_MPIEXEC
               "' --allow-run-as-root --oversubscribe -n 1 -x TRI_CPU_KERNELS=avx2 " ONE SFT
               "run.output=unlike : -n 1 " ONE SFT "run.output=unlike");
  assert_int_equal(cli_events("unlike", ALARM("unlike_ranks")), 1);
  assert_int_equal(cli_events("unlike", "{\"event\": \"start\", \"ranks\": 2, \"resumed_from\": null}"), 1);
  cli_succeeds(TWO SFT "run.output=alike");
  assert_int_equal(cli_events("alike", ALARM("unlike_ranks")), 0);
}

/* Waiting threads spin only briefly, unless the user sets another policy. Judge: the OpenMP library's own
 * report. The program restarts itself with the policy, so the library reports twice. */
static void test_wait_policy(void **state) {
  static const char ask[] = "OMP_DISPLAY_ENV=verbose " ONE "train --help";
  char              command[1024];

  (void)state;
  snprintf(command, sizeof command, "unset OMP_WAIT_POLICY GOMP_SPINCOUNT; %s", ask);
  cli_succeeds(command);
  if (!strstr(cli_err, "GOMP_SPINCOUNT")) skip(); /* another OpenMP library */
  assert_int_equal(count(cli_err, "GOMP_SPINCOUNT = '"), 2);
  cli_shows(cli_err, "GOMP_SPINCOUNT = '1000'");
  snprintf(command, sizeof command, "unset OMP_WAIT_POLICY; export GOMP_SPINCOUNT=77; %s", ask);
  cli_succeeds(command);
  cli_shows(cli_err, "GOMP_SPINCOUNT = '77'");
  assert_int_equal(count(cli_err, "GOMP_SPINCOUNT = '"), 1);
  snprintf(command, sizeof command, "export OMP_WAIT_POLICY=active; %s", ask);
  cli_succeeds(command);
  assert_int_equal(count(cli_err, "GOMP_SPINCOUNT = '"), 1);
}

/* Thread binding leaves the first thread a single core before main(). The rank still uses all of its
 * cores. */
static void test_bound_threads(void **state) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  char       command[1024], shown[64];

  (void)state;
#ifdef __clang__
  skip(); /* oneDNN loads gcc's OpenMP library, and it binds the first thread before clang's library reads the
           * cores */
#endif
  snprintf(shown, sizeof shown, "%ld thread%s", cores, cores == 1 ? "" : "s");
  for (int again = 0; again < 2; again++) {
    snprintf(command, sizeof command,
             "unset OMP_NUM_THREADS; %s export OMP_PROC_BIND=%s OMP_PLACES=cores; " ONE SFT
             "run.device=cpu run.threads=0 run.output=bound run.resume=never",
             again ? "unset OMP_WAIT_POLICY;" : "", again ? "close" : "true");
    cli_succeeds(command);
    cli_says(cli_err, "cpu", shown);
  }
}

/* The start names the source of the number of threads. --threads overrides it, up to the cores. */
static void test_threads(void **state) {
  static const char *const with[] = {"generate model a --max-new 3", "score model texts.jsonl",
                                     "eval model --data prompts.jsonl --reward exact --max-new 3", "bench"};
  const long               cores = sysconf(_SC_NPROCESSORS_ONLN);
  char                     command[1024], most[64];

  (void)state;
  cli_write("texts.jsonl", "{\"text\": \"1+2=3\"}\n");
  cli_write("prompts.jsonl", "{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n");
  cli_succeeds("export OMP_NUM_THREADS=1; " ONE SFT
               "run.device=cpu run.threads=0 run.output=threads run.resume=never");
  cli_says(cli_err, "1 thread", cores > 1 ? "OMP_NUM_THREADS=1" : "1 core");
  cli_succeeds(ONE SFT "run.device=cpu run.threads=1 run.output=threads run.resume=never");
  cli_says(cli_err, "1 thread", "run.threads");
  for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
    snprintf(command, sizeof command, ONE "%s --threads %ld", with[i], cores + 1);
    snprintf(most, sizeof most, "--threads %ld", cores);
    cli_refuses(64, command, "check_threads", most);
    snprintf(command, sizeof command, ONE "%s --threads 0", with[i]);
    cli_refuses(64, command, "set", "--threads 0", "1", "4096");
    if (i == sizeof with / sizeof *with - 1) continue; /* bench takes longer than all others */
    snprintf(command, sizeof command, ONE "%s --threads %ld", with[i], cores);
    cli_succeeds(command);
    assert_int_equal(count(cli_err, "OMP_NUM_THREADS"), 0);
  }
  cli_succeeds(ONE "generate model a --max-new 3");
  assert_int_equal(cli_saying(cli_err, "1 thread", "OMP_NUM_THREADS=1"), cores > 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_launcher_of_another_mpi),
      cmocka_unit_test(test_no_shared_memory),
      cmocka_unit_test(test_unknown_choices),
      cmocka_unit_test(test_staged_on_wish),
      cmocka_unit_test(test_unlike_ranks),
      cmocka_unit_test(test_stray_variables),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_launcher_that_is_gone),
      cmocka_unit_test(test_launcher_behind_a_wall),
      cmocka_unit_test(test_rank_0_prints),
      cmocka_unit_test(test_failure_of_another_rank),
      cmocka_unit_test(test_idle_ranks),
      cmocka_unit_test(test_wait_policy),
      cmocka_unit_test(test_bound_threads),
  };

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
