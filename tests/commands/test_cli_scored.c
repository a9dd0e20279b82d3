/* test_cli_scored.c - the whole program on models with a scalar head. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#define SCORED "'" TRI_TEST_DATA "/model/llama_score' "

static void commands_that_want_tokens_refuse(void **state) {
  static const char *const command[] = {ONE "generate " SCORED "hi",
                                        TWO "generate " SCORED "hi",
                                        ONE "eval " SCORED "--data rl.jsonl --reward exact",
                                        ONE LOAD "run.output=bad data.train=ids.jsonl model.path=" SCORED,
                                        TWO LOAD "run.output=bad data.train=ids.jsonl model.path=" SCORED,
                                        ONE LOAD
                                        "--check run.output=bad data.train=ids.jsonl model.path=" SCORED};

  (void)state;
  cli_write("ids.jsonl", "{\"tokens\": [5, 6, 7], \"prompt_tokens\": 1}\n");
  for (size_t i = 0; i < sizeof command / sizeof *command; i++)
    if (strstr(command[i], "--check")) {
      cli_fails(64, command[i], "/llama_score", "LlamaForSequenceClassification");
      cli_says(cli_err, "/llama_score", "LlamaForSequenceClassification", "LlamaForCausalLM", "model.path");
    } else {
      cli_refuses(64, command[i], "tri_source_check_tokens", "/llama_score", "LlamaForSequenceClassification",
                  "LlamaForCausalLM");
    }
}

static void a_text_has_a_score(void **state) {
  (void)state;
  cli_write("ids.jsonl", "{\"tokens\": [5, 6, 7, 8]}\n{\"tokens\": [9, 3]}\n");
  cli_succeeds(ONE "score " SCORED "ids.jsonl --dtype f32");
  cli_shows(cli_out, "{\"tokens\": [5, 6, 7, 8], \"score\": 0.90433"); /* transformers 5 gives 0.90433628 */
  cli_shows(cli_out, "{\"tokens\": [9, 3], \"score\": 1.33403");       /* 1.33403442 */
  cli_sh("cp .out one");
  cli_succeeds(TWO "score " SCORED "ids.jsonl --dtype f32");
  cli_sh("cmp .out one");
}

/* Both sides are scored as separate texts, with their margin, on any number of ranks. */
static void a_pair_has_two_scores(void **state) {
  (void)state;
  cli_write("pair.jsonl",
            "{\"chosen_tokens\": [9, 3], \"rejected_tokens\": [9, 6, 7, 8], \"prompt_tokens\": 1}\n"
            "{\"chosen_tokens\": [9, 6, 7, 8], \"rejected_tokens\": [9, 3], \"prompt_tokens\": 1}\n");
  cli_write("sides.jsonl", "{\"tokens\": [9, 3]}\n{\"tokens\": [9, 6, 7, 8]}\n");
  cli_succeeds(ONE "score " SCORED "sides.jsonl --dtype f32");
  cli_sh("paste -s -d ' ' .out | "
         "sed 's/^\\(.*}\\) \\(.*\\)$/{\"chosen\": \\1, \"rejected\": \\2, \"margin\": /' >want");
  cli_succeeds(TWO "score " SCORED "pair.jsonl --dtype f32");
  cli_sh("head -n 1 .out | grep -qF \"$(cat want)\"");
  cli_sh("sed 's/.*\"margin\": //; s/}//' .out | "
         "awk '{ x[NR] = $1 } END { exit !(NR == 2 && x[1] + x[2] == 0 && x[1] != 0) }'");
  cli_says(cli_err, "2", "0.5", "0"); /* accuracy, mean of margins */
}

static void inspect_names_the_head(void **state) {
  (void)state;
  cli_succeeds(ONE "inspect " SCORED);
  cli_shows(cli_out, "feed-forward 40, scalar head");
  cli_succeeds(ONE "inspect " SCORED "--json");
  cli_shows(cli_out, "\"scalar_head\": true");
  cli_succeeds(ONE "inspect model --json");
  cli_shows(cli_out, "\"scalar_head\": false");
}

static void a_run_without_a_critic_has_none_to_export(void **state) {
  (void)state;
  cli_refuses(64, ONE "export run x --critic", "tri_part_check", "run/checkpoints/step-00000002",
              "algo.name: ppo");
  assert_false(cli_exists("x"));
  cli_succeeds(ONE "export --help");
  cli_shows(cli_out, "--critic");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(commands_that_want_tokens_refuse), cmocka_unit_test(a_text_has_a_score),
      cmocka_unit_test(a_pair_has_two_scores), cmocka_unit_test(inspect_names_the_head),
      cmocka_unit_test(a_run_without_a_critic_has_none_to_export)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
