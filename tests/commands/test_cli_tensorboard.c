/* test_cli_tensorboard.c - event files of whole runs: at the end, after a resume, after a crash, in an older
 * run's folder. Judge, beside cli_case.h: the reader of events_case.h, against metrics.jsonl. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <errno.h>

#include "events_case.h"

#define BOARD "run.tensorboard=true "

/* Without it there is none, and the metrics are the same. */
static void both_say_the_same(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO "run.output=plain eval.steps=1 data.eval=rl.jsonl");
  assert_false(cli_exists("plain/tensorboard"));
  assert_null(strstr(cli_err, "tensorboard"));
  cli_succeeds(TWO GRPO BOARD "run.output=two eval.steps=1 data.eval=rl.jsonl");
  cli_says(cli_err, "--logdir two/tensorboard");
  assert_true(events_check("two/tensorboard", "two/metrics.jsonl") > 20);
  cli_succeeds(ONE GRPO BOARD "run.output=one eval.steps=1 data.eval=rl.jsonl");
  assert_true(events_check("one/tensorboard", "one/metrics.jsonl") > 20);
  cli_sh("for i in one plain; do sed -E 's/\"(time_[a-z_]*|mem_[a-z_]*|[a-z_]*_per_s)\": [^,}]*(, )?//g' "
         "$i/metrics.jsonl >$i.numbers; done; cmp one.numbers plain.numbers");
}

/* Resumes from an older checkpoint and repeats a step behind it, then with more steps, then with none. */
static void a_resume_leaves_no_step_twice(void **state) {
  int two, four;

  (void)state;
  cli_succeeds(ONE SFT BOARD "run.output=r");
  two = events_check("r/tensorboard", "r/metrics.jsonl");
  cli_sh("cp -r r again && rm -rf again/checkpoints/step-00000002 && "
         "ln -sfn step-00000001 again/checkpoints/LATEST && cp -r again back");
  cli_succeeds(ONE SFT BOARD "run.output=again");
  assert_int_equal(events_check("again/tensorboard", "again/metrics.jsonl"), two - 1); /* time_save_s */
  cli_succeeds(ONE SFT BOARD "run.output=again train.steps=4");
  four = events_check("again/tensorboard", "again/metrics.jsonl");
  assert_true(four > two);
  cli_sh("ls again/tensorboard >before");
  cli_succeeds(ONE SFT BOARD "run.output=again train.steps=4");
  cli_sh("ls again/tensorboard | cmp - before");
  cli_succeeds(ONE SFT "run.output=back"); /* without it, the events of step 2 are removed */
  cli_sh("grep -v '\"step\": 2,' back/metrics.jsonl >back.jsonl");
  assert_true(events_check("back/tensorboard", "back.jsonl") > 10);
  assert_int_equal(events_check("again/tensorboard", "again/metrics.jsonl"), four);
}

/* It begins when the key does, with all steps. */
static void a_run_may_begin_it_later(void **state) {
  (void)state;
  cli_sh("cp -r run later");
  cli_succeeds(ONE SFT BOARD "run.output=later train.steps=3");
  assert_true(events_check("later/tensorboard", "later/metrics.jsonl") > 20);
}

/* The files of a machine that failed in step 4: a checkpoint, and half a line and half a record behind it. */
static void halves_are_gone_after_a_resume(void **state) {
  int all;

  (void)state;
  cli_succeeds(ONE SFT BOARD
               "run.output=h train.steps=4 checkpoint.save_steps=2 checkpoint.save_final=false");
  all = events_check("h/tensorboard", "h/metrics.jsonl");
  cli_sh("rm -rf h/checkpoints/step-00000004 && ln -sfn step-00000002 h/checkpoints/LATEST");
  cli_sh("truncate -s -7 h/metrics.jsonl h/tensorboard/events.out.tfevents.*.trireme");
  cli_succeeds(ONE SFT BOARD
               "run.output=h train.steps=4 checkpoint.save_steps=2 checkpoint.save_final=false");
  assert_int_equal(events_check("h/tensorboard", "h/metrics.jsonl"), all - 1); /* time_save_s */
}

static void an_older_run_keeps_its_own(void **state) {
  (void)state;
  cli_succeeds(ONE SFT BOARD "run.output=o");
  cli_succeeds(ONE SFT BOARD "run.output=o run.resume=never");
  assert_true(events_check("o/tensorboard", "o/metrics.jsonl") ==
              events_check("o/tensorboard.before-1", "o/metrics.jsonl.before-1"));
}

/* Before anything is changed. */
static void a_file_in_its_place_is_refused(void **state) {
  static const char *const with[] = {"", " --check"};
  char                     command[512];

  (void)state;
  cli_sh("cp -r run f && : >f/tensorboard && cp f/metrics.jsonl kept");
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command, ONE SFT BOARD "run.output=f train.steps=3%s", with[i]);
    assert_int_equal(cli_run(command), 74);
    cli_says(cli_err, "f/tensorboard", strerror(ENOTDIR), "run.tensorboard");
    cli_sh("cmp f/metrics.jsonl kept");
  }
  cli_sh("rm f/tensorboard && mkdir other && ln -s ../other f/tensorboard");
  cli_refuses(74, ONE SFT BOARD "run.output=f train.steps=3", "check_board", "run.tensorboard",
              "f/tensorboard", "link");
  cli_sh("cmp f/metrics.jsonl kept");
  cli_succeeds(ONE SFT "run.output=f train.steps=3");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_say_the_same),          cmocka_unit_test(a_resume_leaves_no_step_twice),
      cmocka_unit_test(a_run_may_begin_it_later),   cmocka_unit_test(halves_are_gone_after_a_resume),
      cmocka_unit_test(an_older_run_keeps_its_own), cmocka_unit_test(a_file_in_its_place_is_refused)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
