/* test_cli_eval.c - the whole program, eval: figures of k answers. Judge: also awk over the answers of
 * generate with the same seed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#define ASK "--num 5 --top-k 3 --max-new 1 --temperature 1 "

/* Prompts with the model's own second or fourth answer as their right answer, in turn. */
static void write_data(void) {
  cli_write("figures.awk",
            "{ match($0, /\"response\": \"([^\"\\\\]|\\\\.)*\"/); r = substr($0, RSTART + 13, RLENGTH - 14)\n"
            "  gsub(/^( |\\\\[tnr]|\\\\u000[bc])+|( |\\\\[tnr]|\\\\u000[bc])+$/, \"\", r)\n"
            "  p = int((NR - 1) / 5); q = (NR - 1) % 5; text[p, q] = r; n = p + 1 }\n"
            "END {\n"
            "  for (p = 0; p < n; p++) {\n"
            "    right = text[p, p % 2 ? 3 : 1]; any = 0; most = 0; first = text[p, 0] == right\n"
            "    line = \"{\\\"prompt\\\": \\\"\" p + 10 \"\\\", \\\"answer\\\": \\\"\" right \"\\\"}\"\n"
            "    if (make) { print line; continue }\n"
            "    for (q = 0; q < 5; q++) {\n"
            "      is = text[p, q] == right; all += is; any = any || is; votes = 0\n"
            "      for (i = 0; i < 5; i++) votes += text[p, i] == text[p, q]\n"
            "      if (text[p, q] != \"\" && votes > most) { most = votes; first = is }\n"
            "    }\n"
            "    pass += any; majority += first }\n"
            "  if (!make) printf \"%.6f %.6f %.6f\\n\", all / n / 5, pass / n, majority / n }\n");
  cli_sh("for i in $(seq 10 33); do echo \"{\\\"prompt\\\": \\\"$i\\\"}\"; done >asked.jsonl");
  cli_succeeds(ONE "generate model --prompts asked.jsonl " ASK "--json");
  cli_sh("awk -v make=1 -f figures.awk .out >figures.jsonl && awk -f figures.awk .out >want");
}

static void figures_are_those_of_the_answers(void **state) {
  char want[CLI_TEXT_BYTES], text[256];

  (void)state;
  write_data();
  cli_succeeds(ONE "eval model --data figures.jsonl --reward exact " ASK);
  cli_sh(
      "sed -n -e 's/^pass@1 *//p' -e 's/^pass@5 *//p' -e 's/^majority@5 *//p' .out | paste -s -d ' ' >got");
  cli_sh("diff want got");
  cli_sh(
      "[ \"$(sed -n 's/^best@5 *//p' .out)\" = \"$(sed -n 's/^pass@5 *//p' .out)\" ]"); /* rewards 1 or 0 */
  cli_fits(cli_out);
  cli_read("want", want);
  assert_non_null(strstr(want, "0."));
  assert_int_equal(sscanf(want, "%*s %*s %255s", text), 1);
  assert_string_not_equal(text, "0.000000");
  assert_string_not_equal(text, "1.000000");
}

static void ranks_say_the_same(void **state) {
  (void)state;
  cli_succeeds(ONE "eval model --data figures.jsonl --reward exact --json " ASK);
  cli_shows(cli_out, "\"best_at_k\": 1, \"majority_at_k\": 0.");
  cli_sh("cp .out one");
  cli_succeeds(TWO "eval model --data figures.jsonl --reward exact --json " ASK);
  cli_sh("cmp one .out");
}

#define FOUR   "'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe -n 4 '" TRI_PROGRAM "' "
#define AS_ONE " --tensor-parallel-size "

/* Under mpirun a terminal's output shows some characters in another way, so texts are left out. */
static const char *const divided_commands[] = {
    "generate wide --prompts asked.jsonl --num 3 --max-new 9 --json",
    "generate wide 1 2 3 --max-new 9 --dtype bf16 --json",
    ("eval wide --data figures.jsonl --reward exact --json --output answers.jsonl " ASK),
    "eval learned --json --num 3 --temperature 1 --output answers.jsonl",
    "score wide sft.jsonl --dtype bf16"};

/* Runs the command. Its stdout and answers become the file `to`. */
static void divided_run(const char *launch, const char *command, const char *size, const char *to) {
  char all[1024];

  cli_sh("rm -f answers.jsonl");
  snprintf(all, sizeof all, "%s%s%s%s", launch, command, size[0] ? AS_ONE : "", size);
  cli_succeeds(all);
  cli_sh("sed 's/\"response\": .*\"tokens\"/\"tokens\"/' .out >%s; "
         "if [ -f answers.jsonl ]; then cat answers.jsonl "
         ">>%s; fi; test -s %s",
         to, to, to);
}

/* The run's deck has 2 ranks, with adapters. */
static void ranks_generate_as_one(void **state) {
  (void)state;
  cli_sh("sed 's/\"num_key_value_heads\": 2/\"num_key_value_heads\": 4/' config.json >wide.json");
  cli_succeeds(ONE SFT "run.output=broad model.config=wide.json");
  cli_succeeds(ONE "export broad wide");
  cli_succeeds(TWO GRPO
               "run.output=learned model.config=null model.tokenizer=null model.path=wide lora.rank=4 "
               "train.learning_rate=1e-2 eval.steps=1 data.eval=rl.jsonl checkpoint.save_final=true "
               "shard.tensor_parallel_size=2");
  for (size_t i = 0; i < sizeof divided_commands / sizeof *divided_commands; i++) {
    divided_run(ONE, divided_commands[i], "", "one");
    divided_run(TWO, divided_commands[i], "2", "two");
    divided_run(FOUR, divided_commands[i], i % 2 ? "4" : "2", "four");
    cli_sh("cmp one two && cmp one four");
  }
}

/* In --help a long flag has a line of its own. */
static void a_long_flag_is_readable(void **state) {
  static const char *const command[] = {ONE "eval --help", ONE "generate --help", ONE "score --help"};

  (void)state;
  for (size_t i = 0; i < sizeof command / sizeof *command; i++) {
    cli_succeeds(command[i]);
    cli_shows(cli_out, "\n  --tensor-parallel-size N\n                         ");
    cli_fits(cli_out);
  }
}

/* The deck of a run has a size that may not fit here. A flag must fit. */
static void a_size_must_divide(void **state) {
  (void)state;
  divided_run(ONE, divided_commands[3], "1", "one");
  divided_run(TWO, divided_commands[3], "", "two");
  cli_sh("cmp one two");
  cli_refuses(64, ONE "eval learned --tensor-parallel-size 2", "set_tensor", "--tensor-parallel-size 2",
              "1 ");
  cli_refuses(64, ONE "score wide sft.jsonl --tensor-parallel-size 2", "set_tensor",
              "--tensor-parallel-size 2");
  cli_refuses(64, FOUR "generate wide 1 --tensor-parallel-size 3", "set_tensor", "--tensor-parallel-size 3",
              "4 ");
  cli_refuses(64, FOUR "generate model 1 --tensor-parallel-size 4", "check", "--tensor-parallel-size 4",
              "2 ");
  cli_refuses(64, TWO GRPO "shard.tensor_parallel_size=3", "set_tensor", "shard.tensor_parallel_size = 3",
              "2 ");
}

/* A pattern extracts no result from an answer. For one answer to a prompt, figures of k are not shown. */
static void what_is_not_had_is_left_out(void **state) {
  (void)state;
  cli_succeeds(ONE "eval model --data figures.jsonl --reward regex --pattern . " ASK);
  cli_shows(cli_out, "\nbest@5 ");
  assert_null(strstr(cli_out, "majority"));
  cli_succeeds(ONE "eval model --data figures.jsonl --reward regex --pattern . --json " ASK);
  cli_shows(cli_out, "\"majority_at_k\": null");
  cli_succeeds(ONE "eval model --data figures.jsonl --reward exact --max-new 1");
  assert_null(strstr(cli_out, "best@"));
}

/* Figures with a failed reward say so. */
static void failures_stand_beside_the_figures(void **state) {
  (void)state;
  cli_write("broken.sh", "exec sed -u -E 's/.*\"id\": *([0-9]+).*/{\"id\": \\1, \"reward\": 1e999}/'\n");
  cli_succeeds(ONE "eval model --data figures.jsonl --max-new 1 --reward process --command 'sh broken.sh' "
                   "--on-error zero");
  cli_shows(cli_out, "\nreward mean    0.000000\nfailures       24 of 24 answers\n");
  cli_says(cli_err, "warning", "reward", "process", "24", "0");
  cli_succeeds(ONE "eval model --data figures.jsonl --max-new 1 --reward process --command 'sh broken.sh' "
                   "--on-error drop");
  cli_shows(cli_out, "\nfailures       24 of 24 answers\n");
  cli_says(cli_err, "warning", "reward", "process", "24");
  assert_int_equal(cli_saying(cli_err, "warning", "reward", "process", "24", "0"),
                   0); /* they count as nothing */
  cli_succeeds(ONE "eval model --data figures.jsonl --max-new 1 --reward exact");
  assert_null(strstr(cli_out, "failures"));
}

/* The user's own files stay, whatever they are called. */
static void output_is_one_new_file(void **state) {
  (void)state;
  cli_write("kept.jsonl.tmp", "theirs");
  cli_succeeds(ONE "eval model --data figures.jsonl --reward exact --max-new 1 --output kept.jsonl");
  cli_sh("test \"$(cat kept.jsonl.tmp)\" = theirs && test \"$(echo kept.jsonl*)\" = "
         "'kept.jsonl kept.jsonl.tmp' && rm kept.jsonl.tmp && test $(wc -l <kept.jsonl) = 24");
  cli_refuses(64, ONE "eval model --data figures.jsonl --reward exact --max-new 1 --output kept.jsonl",
              "tri_eval_check_output", "--output kept.jsonl");
}

/* The evaluation of a run and trireme eval of its checkpoint agree, with the same length of answers. Both
 * show the share of cut answers beside pass@1. */
static void a_run_is_evaluated_at_its_own_length(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO "run.output=own run.resume=never train.steps=1 eval.steps=1 data.eval=rl.jsonl "
                        "rollout.max_response_length=3 eval.max_prompts=1 checkpoint.save_final=true");
  cli_sh(
      "sed -n '$s/.*\"eval_truncated_ratio\": \\([^,}]*\\).*/\\1/p' own/metrics.jsonl >want && test -s want");
  cli_sh("cp -r own young && rm -r young/checkpoints");
  cli_refuses(64, ONE "eval young", "tri_source_check_output", "young"); /* and not for want of --data */
  cli_succeeds(ONE "eval own --data rl.jsonl --reward exact --json");
  cli_says(cli_err, "3", "rollout.max_response_length");
  cli_says(cli_err, "1 of", "eval.max_prompts", "--max-prompts");
  cli_sh("sed -n 's/.*\"truncated_ratio\": \\([^,}]*\\).*/\\1/p' .out | diff - want");
  cli_succeeds(ONE "eval own --data rl.jsonl --reward exact --max-new 2");
  assert_null(strstr(cli_err, "rollout.max_response_length"));
  cli_shows(cli_out, "pass@1         0.000000\ntruncated      1.0000\n");
  cli_says(cli_err, "warning", "100.0 %", "2 tokens", "--max-new");
  cli_succeeds(ONE "eval own --data rl.jsonl --reward exact --max-new 2 --max-prompts 1");
  assert_null(strstr(cli_err, "eval.max_prompts"));
  cli_succeeds(ONE "report own");
  cli_shows(cli_out, " % of the newest evaluation's answers were cut off\n");
  cli_succeeds(ONE "report own own/checkpoints/.. --json");
  cli_shows(cli_out, "\"eval_truncated_ratio\": ");
}

/* The cure for other names of fields is a flag of eval, and following it works. */
static void a_cure_is_a_flag_of_eval(void **state) {
  (void)state;
  cli_write("asked.jsonl", "{\"question\": \"3+4=\", \"solution\": \"7\"}\n");
  cli_refuses(64, ONE "eval own --data asked.jsonl", "tri_foreign_refuse", "asked.jsonl:1",
              "--prompt-key question", "--answer-key solution");
  assert_null(strstr(cli_err, "data.prompt_key"));
  cli_succeeds(ONE "eval own --data asked.jsonl --prompt-key question --answer-key solution");
  cli_succeeds(ONE SFT "run.output=shown run.resume=never train.steps=1 eval.steps=1 data.eval=sft.jsonl "
                       "checkpoint.save_final=true");
  cli_refuses(64, ONE "eval shown --data asked.jsonl", "tri_foreign_refuse", "asked.jsonl:1", "question",
              "--data");
  assert_null(strstr(cli_err, "completion-key")); /* eval has no such flag, and no key of a deck either */
  assert_null(strstr(cli_err, "data.completion_key"));
  cli_sh("command -v jq >/dev/null || exit 0; grep '^  jq ' .err >rename.sh; sh rename.sh && "
         "grep -q '\"prompt\":.*\"completion\":' asked.new.jsonl");
}

/* A warning says once that greedy answers to a prompt are all alike, and only if they are. */
static void equal_answers_are_told(void **state) {
  (void)state;
  cli_succeeds(ONE "eval model --data figures.jsonl --reward exact --max-new 1 --num 3");
  assert_int_equal(cli_saying(cli_err, "warning", "3", "--temperature"), 1);
  cli_succeeds(TWO "generate model 1 --temperature 0 --num 2 --max-new 1");
  assert_int_equal(cli_saying(cli_err, "warning", "2", "--temperature"), 1);
  cli_succeeds(ONE "eval model --data figures.jsonl --reward exact --max-new 1 --num 3 --temperature 1");
  assert_null(strstr(cli_err, "--temperature"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(figures_are_those_of_the_answers),
                                     cmocka_unit_test(ranks_say_the_same),
                                     cmocka_unit_test(ranks_generate_as_one),
                                     cmocka_unit_test(a_size_must_divide),
                                     cmocka_unit_test(a_long_flag_is_readable),
                                     cmocka_unit_test(a_run_is_evaluated_at_its_own_length),
                                     cmocka_unit_test(a_cure_is_a_flag_of_eval),
                                     cmocka_unit_test(what_is_not_had_is_left_out),
                                     cmocka_unit_test(output_is_one_new_file),
                                     cmocka_unit_test(equal_answers_are_told),
                                     cmocka_unit_test(failures_stand_beside_the_figures)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
