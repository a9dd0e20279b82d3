/* test_slurm.c - facts from Slurm about the job. Judge: exact values, with a fake squeue that prints the
 * test's text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/slurm.h"
#include "slurm_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The formats of squeue's output and of sbatch(1), --time. */
static void test_durations(void **state) {
  static const struct {
    const char *text;
    double      want;
  } c[] = {{"0:59", 59},
           {"1:00", 60},
           {"59:59", 3599},
           {"02:01:00", 7260},
           {"3-02:01:00", 266460},
           {"365-0:00:01", 31536001},
           {"", -1},
           {"INVALID", -1},
           {"NOT_SET", -1},
           {"UNLIMITED", 0},
           {"infinite", 0},
           {"90", 5400},
           {"1-12", 129600},
           {"1-12:30", 131400},
           {"1-12:30:05", 131405},
           {"4h", -1},
           {"-1", -1},
           {"1-2:3:4:5", -1},
           {"1: 2", -1},
           {"1-1-1", -1},
           {"1:", -1},
           {":1", -1},
           {"1:2:3:4", -1},
           {"1-", -1},
           {"-1:00", -1},
           {"1:00 ", -1},
           {"1:-1", -1},
           {"123456789:00", -1}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++)
    if (tri_slurm_seconds(c[i].text) != c[i].want)
      fail_msg("'%s': %g, not %g", c[i].text, tri_slurm_seconds(c[i].text), c[i].want);
}

static void set_time(const char *name, long long at) {
  char text[32];

  snprintf(text, sizeof text, "%lld", at);
  setenv(name, text, 1);
}

/* If the environment has the times, squeue is not asked. */
static void test_environment(void **state) {
  long long      now = (long long)time(NULL);
  tri_slurm_time t;

  (void)state;
  slurm_say("squeue", "echo 7 1:00 1:00");
  setenv("SLURM_JOB_ID", "7", 1);
  set_time("SLURM_JOB_END_TIME", now + 3600);
  t = tri_slurm_ask(5);
  assert_true(t.left_s <= 3600 && t.left_s > 3500 && t.used_s == 0);
  set_time("SLURM_JOB_START_TIME", now - 100);
  t = tri_slurm_ask(5);
  assert_true(t.used_s >= 100 && t.used_s < 200);
  set_time("SLURM_JOB_END_TIME", now - 1); /* another job's */
  t = tri_slurm_ask(5);
  assert_true(t.left_s == 60 && t.used_s == 60);
  unsetenv("SLURM_JOB_START_TIME");
  unsetenv("SLURM_JOB_END_TIME");
  unsetenv("SLURM_JOB_ID");
}

static tri_slurm_time answer_of(const char *script, double patience_s) {
  slurm_say("squeue", script);
  return tri_slurm_ask(patience_s);
}

static void test_squeue(void **state) {
  tri_slurm_time t = answer_of("echo 7 1:00 1:00", 5);

  (void)state;
  assert_true(t.left_s == 0); /* no job */
  setenv("SLURM_JOB_ID", "7", 1);
  t = answer_of("[ \"$*\" = '--noheader --format=%A %L %M --jobs 7' ] && echo '7 1-00:00:30 59:58'", 5);
  assert_true(t.left_s == 86430 && t.used_s == 3598);
  t = answer_of("echo '7 UNLIMITED 0:10'", 5);
  assert_true(t.left_s == 0 && t.used_s == 10);
  t = answer_of("printf '7 2:00 0:00'", 5); /* no line end */
  assert_true(t.left_s == 120 && t.used_s == 0);
  unsetenv("SLURM_JOB_ID");
}

/* A task's number may be its array's, and squeue then lists all tasks. The array of a task that submitted
 * this job does not count. */
static void test_arrays(void **state) {
  static const char all[] = "[ \"$4\" = 7 ] && for i in 8 9 7 17; do echo $i $i:00 $i:00; done";
  tri_slurm_time    t;

  (void)state;
  setenv("SLURM_JOB_ID", "7", 1);
  setenv("SLURM_ARRAY_JOB_ID", "7", 1);
  setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  t = answer_of(all, 5);
  assert_true(t.left_s == 420 && t.used_s == 420);
  setenv("SLURM_ARRAY_JOB_ID", "4", 1);
  t = answer_of(all, 5);
  assert_true(t.left_s == 420 && t.used_s == 420);
  t = answer_of("for i in $(seq 1000); do echo 1$i 5:00 5:00; done; echo 7 1:00 1:00", 5);
  assert_true(t.left_s == 60);
  unsetenv("SLURM_ARRAY_JOB_ID");
  unsetenv("SLURM_ARRAY_TASK_ID");
  unsetenv("SLURM_JOB_ID");
}

/* Each case warns, and the run goes on without the time. */
static void test_squeue_that_does_not_answer(void **state) {
  static const char *const script[] = {"exit 1",
                                       "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1",
                                       "echo",
                                       "echo 5:00",
                                       "echo 7 5:00",
                                       "echo 7",
                                       "echo 7 INVALID 0:00",
                                       "echo 7 5:00 soon",
                                       "echo 8 5:00 5:00",
                                       "yes 5:00",
                                       "exec tail -f /dev/null"};
  tri_slurm_time           t;

  (void)state;
  setenv("SLURM_JOB_ID", "7", 1);
  for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
    t = answer_of(script[i], 0.3);
    if (t.left_s != 0 || t.used_s != 0) fail_msg("'%s': %g left", script[i], t.left_s);
  }
  slurm_silence("squeue");
  setenv("PATH", slurm_folder, 1); /* there is no squeue */
  t = tri_slurm_ask(5);
  assert_true(t.left_s == 0);
  setenv("PATH", slurm_path, 1);
  unsetenv("SLURM_JOB_ID");
}

/* The output of Slurm 22.05. Any other output counts as unknown. */
static void test_fence(void **state) {
  static const struct {
    const char *script, *fence;
  } row[] = {
      {"[ \"$*\" = 'show config' ] && printf 'A = b\\nPMIxCollFence           = ring\\nC = d\\n'", "ring"},
      {"echo 'PMIxCollFence           = (null)'", "unset"},
      {"echo 'PMIxCollFence           = '", "unset"},
      {"echo 'PMIxCollFence = a-word-that-is-no-kind'", ""},
      {"echo 'MpiDefault = pmix'", ""},
      {"exit 1", ""},
      {"yes PMIxCollFence = tree", ""},
      {"exec tail -f /dev/null", ""}};
  char fence[TRI_SLURM_WORD_BYTES];

  (void)state;
  slurm_say("scontrol", "echo 'PMIxCollFence = tree'");
  tri_slurm_fence(5, fence); /* no step of srun */
  assert_string_equal(fence, "");
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_MPI_TYPE", "pmix_v4", 1);
  setenv("SLURM_PMIX_FENCE", "mixed", 1);
  tri_slurm_fence(5, fence);
  assert_string_equal(fence, "mixed");
  unsetenv("SLURM_PMIX_FENCE");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    slurm_say("scontrol", row[i].script);
    tri_slurm_fence(0.3 + 4.7 * (row[i].fence[0] != 0), fence);
    assert_string_equal(fence, row[i].fence);
  }
  slurm_silence("scontrol");
  setenv("PATH", slurm_folder, 1); /* there is no scontrol */
  tri_slurm_fence(5, fence);
  assert_string_equal(fence, "");
  setenv("PATH", slurm_path, 1);
  unsetenv("SLURM_PROCID");
  unsetenv("SLURM_MPI_TYPE");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_durations),
                                     cmocka_unit_test(test_environment),
                                     cmocka_unit_test(test_squeue),
                                     cmocka_unit_test(test_arrays),
                                     cmocka_unit_test(test_squeue_that_does_not_answer),
                                     cmocka_unit_test(test_fence)};
  return cmocka_run_group_tests(tests, slurm_open, slurm_close);
}
