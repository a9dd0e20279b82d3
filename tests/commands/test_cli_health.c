/* test_cli_health.c - the whole program: metrics and warnings about the health of a run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"

#include <inttypes.h>
#include <math.h>

static int count(const char *text, const char *part) {
  int n = 0;

  for (; (text = strstr(text, part)); text++) n++;
  return n;
}

/* Random answers of 4 tokens are never right and never end. Two causes give two warnings. */
static void a_run_that_learns_nothing_says_so_once(void **state) {
  static const char *const program[] = {ONE, TWO};
  char                     command[256], folder[8];

  (void)state;
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command, "%s" GRPO "run.output=a%d train.steps=6", program[i], i);
    cli_succeeds(command);
    snprintf(folder, sizeof folder, "a%d", i);
    assert_int_equal(cli_events(folder,
                                "{\"event\": \"alarm\", \"code\": \"no_variance\", \"step\": 3, \"numbers\": "
                                "{\"reward\": 0}}"),
                     1);
    assert_int_equal(cli_events(folder,
                                "{\"event\": \"alarm\", \"code\": \"truncation\", \"step\": 3, \"numbers\": "
                                "{\"truncated_ratio\": 1}}"),
                     1);
    assert_int_equal(cli_events(folder, "{\"event\": \"alarm\", \"step\": 3}"), 2);
    assert_int_equal(cli_events(folder,
                                "{\"event\": \"end\", \"state\": \"finished\", \"step\": 6, \"open_alarms\": "
                                "[\"truncation\", \"no_variance\", \"reward_unearned\"]}"),
                     1);
    assert_int_equal(count(cli_err, "\nstill so"), 2);
    assert_int_equal(count(cli_err, "algo.mask_truncated"), 2); /* a cure of it, both times */
  }
  cli_read("a0/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"zero_variance_ratio\": 1,"), 6);
  assert_int_equal(count(cli_out, "\"alarms\": \"truncation no_variance reward_unearned\""), 4);
  assert_int_equal(count(cli_out, "\"alarms\""), 4);
}

/* Counts over steps continue after a stop. */
static void alarms_go_on_over_a_restart(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO "run.output=f run.resume=auto train.steps=2 checkpoint.save_final=true");
  cli_read("f/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"alarms\""), 0);
  cli_succeeds(ONE GRPO "run.output=f run.resume=auto train.steps=4 checkpoint.save_final=true");
  cli_read("f/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"alarms\": \"truncation no_variance reward_unearned\""), 2);
}

/* A program gives no number to any answer. Steps are empty, or all 0 without a fault of the prompts. */
static void a_reward_that_fails_is_said_to_the_end(void **state) {
  static const char *const row[][2] = {{"grpo", "drop"}, {"grpo", "zero"}, {"dapo", "zero"}};
  char                     command[256], folder[8];

  (void)state;
  cli_write("broken.sh", "exec sed -u -E 's/.*\"id\": *([0-9]+).*/{\"id\": \\1, \"reward\": 1e999}/'\n");
  for (int i = 0; i < 3; i++) {
    snprintf(command, sizeof command,
             ONE GRPO "run.output=i%d train.steps=4 algo.name=%s "
                      "'reward=[{name: process, command: [sh, broken.sh], on_error: %s}]'",
             i, row[i][0], row[i][1]);
    cli_succeeds(command);
    snprintf(folder, sizeof folder, "i%d", i);
    assert_int_equal(cli_events(folder,
                                "{\"event\": \"alarm\", \"code\": \"reward_failing\", \"of\": \"process\", "
                                "\"step\": 3, \"numbers\": {\"failed_ratio\": 1}}"),
                     1);
    assert_int_equal(cli_events(folder, ALARM("reward_failed")), 1);
    assert_int_equal(cli_events(folder, ALARM("reward_unearned")) + cli_events(folder, ALARM("no_variance")),
                     0);
    cli_sh("grep -q '\"event\": \"end\".*\"open_alarms\": \\[\"reward_failing\"' %s/run.jsonl", folder);
  }
  cli_read("i0/metrics.jsonl", cli_out);
  assert_int_equal(count(cli_out, "\"alarms\": \"reward_failing\""), 2);
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

/* Every line has the time of its writing, and numbers are as short as possible. */
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
  assert_int_equal(cli_events("d", "{\"event\": \"alarm\"}"), 0);
}

/* A vocabulary of one token leaves nothing to learn, and the rewards of evaluations have no part in it. */
static void given_lines_are_looked_at_themselves(void **state) {
  (void)state;
  cli_sh("sed -E 's/(\"vocab_size\": )[0-9]+/\\11/; s/(\"eos_token_id\": )[0-9]+/\\1null/' "
         "config.json > one.json");
  cli_write("ones.jsonl", "{\"tokens\": [0, 0, 0]}\n{\"tokens\": [0, 0]}\n");
  cli_succeeds(ONE SFT
               "run.output=g model.config=one.json model.tokenizer=null data.train=ones.jsonl train.steps=4 "
               "data.eval=ones.jsonl eval.steps=4 rollout.max_response_length=2 "
               "'reward=[{name: length, buffer: 1}]'");
  assert_int_equal(cli_events("g", "{\"event\": \"alarm\", \"code\": \"no_gradient\", \"step\": 3}"), 1);
  assert_int_equal(cli_events("g", "{\"event\": \"end\", \"open_alarms\": [\"no_gradient\"]}"), 1);
}

/* ---- damaged models ---- */

/* A copy of the exported model as FOLDER, all elements of one f32 tensor set to x. */
static void plant(const char *folder, const char *tensor, float x) {
  static char header[CLI_TEXT_BYTES];
  char        path[64], name[96];
  uint64_t    bytes = 0, begin = 0, end = 0;
  const char *at;
  FILE       *f;

  cli_sh("rm -rf %s && cp -r model %s", folder, folder);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  snprintf(name, sizeof name, "\"%s\":", tensor);
  f = fopen(path, "r+b");
  assert_non_null(f);
  assert_int_equal(fread(&bytes, sizeof bytes, 1, f), 1);
  assert_true(bytes < sizeof header);
  assert_int_equal(fread(header, 1, bytes, f), bytes);
  header[bytes] = 0;
  at = strstr(header, name);
  if (!at || !strstr(at, "\"F32\"")) fail_msg("no f32 %s in %s", tensor, header);
  assert_int_equal(sscanf(strchr(strstr(at, "data_offsets"), '['), "[%" SCNu64 ",%" SCNu64, &begin, &end), 2);
  assert_int_equal(fseek(f, (long)(8 + bytes + begin), SEEK_SET), 0);
  for (; begin < end; begin += sizeof x) assert_int_equal(fwrite(&x, sizeof x, 1, f), 1);
  assert_int_equal(fclose(f), 0);
}

/* The output of attention passes through zeros, and at this rate it always will. Its inputs get no gradient,
 * which is reported once. */
static void a_tensor_without_gradient_is_named(void **state) {
  static const char *const program[] = {ONE, TWO};
  char                     command[256], folder[8];

  (void)state;
  plant("cut", "model.layers.1.self_attn.o_proj.weight", 0);
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command,
             "%s" LOAD "model.path=cut run.output=g%d train.steps=4 train.learning_rate=1e-60", program[i],
             i);
    cli_succeeds(command);
    snprintf(folder, sizeof folder, "g%d", i);
    assert_int_equal(cli_events(folder,
                                "{\"event\": \"alarm\", \"code\": \"tensors_without_gradient\", \"of\": "
                                "\"model.layers.1.input_layernorm.weight\"}"),
                     1);
    assert_int_equal(cli_events(folder, "{\"event\": \"alarm\"}"), 1);
    assert_int_equal(count(cli_err, "trireme: warning"), 1);
  }
}

/* A weight is not finite. The message names the first layer behind it and a sample. */
static void a_model_that_is_not_finite_is_located(void **state) {
  static const char *const program[] = {ONE, TWO};
  static const struct {
    const char *tensor, *unit;
  } row[] = {
      {"model.embed_tokens.weight", "from embedding on, first at token 0 of answer 0 to prompt_id "},
      {"model.layers.0.self_attn.v_proj.weight",
       "from layer 0 on, first at token 0 of answer 0 to prompt_id "},
      {"model.layers.1.mlp.down_proj.weight", "from layer 1 on, first at token 0 of answer 0 to prompt_id "},
      {"model.norm.weight", "from head on, first at token "}};
  char command[256], folder[8];

  (void)state;
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    plant("nan", row[k].tensor, k % 2 ? NAN : INFINITY);
    snprintf(command, sizeof command, "%s" LOAD "model.path=nan run.output=h%zu", program[k % 2], k);
    assert_int_equal(cli_run(command), 70);
    cli_shows(cli_err, row[k].unit);
    snprintf(folder, sizeof folder, "h%zu", k);
    assert_int_equal(cli_events(folder, "{\"event\": \"end\", \"state\": \"failed\", \"cause\": \"numeric\", "
                                        "\"exit_code\": 70, \"step\": 0}"),
                     1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_that_learns_nothing_says_so_once),
                                     cmocka_unit_test(alarms_go_on_over_a_restart),
                                     cmocka_unit_test(a_reward_that_fails_is_said_to_the_end),
                                     cmocka_unit_test(no_reference_no_kl),
                                     cmocka_unit_test(lines_have_their_time),
                                     cmocka_unit_test(a_tensor_without_gradient_is_named),
                                     cmocka_unit_test(a_model_that_is_not_finite_is_located),
                                     cmocka_unit_test(a_run_that_learns_is_left_alone),
                                     cmocka_unit_test(given_lines_are_looked_at_themselves)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
