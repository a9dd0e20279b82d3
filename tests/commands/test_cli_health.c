/* test_cli_health.c - the whole program: what its metrics and warnings say of a run. */
#include "cli_case.h"

static int count(const char *text, const char *part) {
  int n = 0;

  for (; (text = strstr(text, part)); text++) n++;
  return n;
}

/* Random answers of 4 tokens are never the right one and never end: two causes, two warnings. */
static void a_run_that_learns_nothing_says_so_once(void **state) {
  static const char *const program[] = {ONE, TWO};
  char                     command[256];

  (void)state;
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command, "%s" GRPO "run.output=a%d train.steps=6", program[i], i);
    cli_succeeds(command);
    assert_int_equal(count(cli_err, "trireme: warning: step 3: reward exact was 0 for every answer"), 1);
    assert_int_equal(count(cli_err, "trireme: warning: step 3: over 20 % of the answers were cut"), 1);
    assert_int_equal(count(cli_err, "trireme: warning: step"), 2);
  }
  cli_read("a0/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"zero_variance_ratio\": 1,"), 6);
  assert_int_equal(count(cli_out, "\"alarms\": \"truncation no_variance reward_unearned\""), 4);
  assert_int_equal(count(cli_out, "\"alarms\""), 4);
}

/* What is counted over steps goes on after a stop. */
static void alarms_go_on_over_a_restart(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO "run.output=f run.resume=auto train.steps=2 checkpoint.save_final=true");
  cli_read("f/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"alarms\""), 0);
  cli_succeeds(ONE GRPO "run.output=f run.resume=auto train.steps=4 checkpoint.save_final=true");
  cli_read("f/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"alarms\": \"truncation no_variance reward_unearned\""), 2);
}

/* There is no KL without a reference. */
static void no_reference_no_kl(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO "run.output=b train.steps=1");
  cli_read("b/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "kl_mean_nats"), 0);
  cli_succeeds(ONE GRPO "run.output=c train.steps=1 algo.kl_coef=0.1");
  cli_read("c/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "kl_mean_nats"), 1);
}

/* Every line says when it was written; numbers are as short as can be. */
static void lines_have_their_time(void **state) {
  double first, last;

  (void)state;
  cli_succeeds(ONE SFT "run.output=e train.learning_rate=1e-6");
  cli_read("e/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"time_unix_s\": "), 2);
  first = strtod(strstr(cli_out, "\"time_unix_s\": ") + 15, NULL);
  last = strtod(strstr(strchr(cli_out, '\n'), "\"time_unix_s\": ") + 15, NULL);
  assert_true(first > 1.7e9 && last >= first);
  assert_int_equal(count(cli_out, "\"learning_rate\": 1e-06,"), 2);
}

/* Six steps of SFT. */
static void a_run_that_learns_is_left_alone(void **state) {
  (void)state;
  cli_succeeds(ONE SFT "run.output=d train.steps=6");
  assert_null(strstr(cli_err, "warning"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_that_learns_nothing_says_so_once), cmocka_unit_test(alarms_go_on_over_a_restart),
      cmocka_unit_test(no_reference_no_kl), cmocka_unit_test(lines_have_their_time),
      cmocka_unit_test(a_run_that_learns_is_left_alone)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
