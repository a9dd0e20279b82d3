/* test_cli_reward.c - the whole program, reward: a deck's rewards tried on saved answers. Judge: also the
 * run's own rewards of the same answers, to the digit, and rewards worked by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#define TRY ONE "reward grpo.yaml "

/* A program that gives 1 if the response has the length in the line's field, and reports both. */
static void write_program(void) {
  cli_write("length.sh",
            "while read -r line; do\n"
            "  id=${line##*\\\"id\\\": }; id=${id%%,*}\n"
            "  n=${line##*\\\"wanted\\\": }; n=${n%%[,\\}]*}\n"
            "  r=${line##*\\\"response\\\": \\\"}; r=${r%\\\"\\}}\n"
            "  [ ${#r} = \"$n\" ] && x=1 || x=0\n"
            "  [ \"$r\" != bad ] || { echo cannot do bad >&2; x='\"1\"'; }\n"
            "  echo \"{\\\"id\\\": $id, \\\"reward\\\": $x, \\\"bytes\\\": ${#r}, \\\"wanted\\\": $n}\"\n"
            "done\n");
}

#define PROGRAM "{name: process, command: [sh, length.sh], timeout_s: 5}"

static void lines_with_a_response(void **state) {
  (void)state;
  write_program();
  cli_write("on.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\", \"wanted\": 1, \"response\": \"2\"}\n\n"
                        "{\"prompt\": \"1+2=\", \"answer\": 3, \"wanted\": 7, \"response\": \"it is 4\"}\n");
  cli_succeeds(TRY "\"reward=[{name: number}, " PROGRAM
                   ", {name: number, weight: 0.5}]\" --on on.jsonl --json");
  cli_sh("sed 's/\"seconds[a-z_]*\": [^,}]*/S/g' .out >got");
  cli_write(
      "want",
      "{\"line\": 1, \"prompt_id\": 0, \"reward\": 2.5, \"rewards\": {\"number\": {\"reward\": 1, S}, "
      "\"process\": "
      "{\"reward\": 1, S, \"extras\": {\"bytes\": 1, \"wanted\": 1}}, \"number_2\": {\"reward\": 1, S}}}\n"
      "{\"line\": 3, \"prompt_id\": 2, \"reward\": 1, \"rewards\": {\"number\": {\"reward\": 0, S}, "
      "\"process\": "
      "{\"reward\": 1, S, \"extras\": {\"bytes\": 7, \"wanted\": 7}}, \"number_2\": {\"reward\": 0, S}}}\n"
      "{\"answers\": 2, \"failed\": 0, \"reward_mean\": 1.75, \"rewards\": {\"number\": {\"failed\": 0, "
      "\"weight\": 1, "
      "\"mean\": 0.5, \"least\": 0, \"most\": 1, S, S, S}, \"process\": {\"failed\": 0, \"weight\": 1, "
      "\"mean\": 1, "
      "\"least\": 1, \"most\": 1, S, S, S, \"extras\": {\"bytes\": 4, \"wanted\": 4}}, \"number_2\": "
      "{\"failed\": 0, "
      "\"weight\": 0.5, \"mean\": 0.5, \"least\": 0, \"most\": 1, S, S, S}}}\n");
  cli_sh("diff want got");
  cli_succeeds(TRY "\"reward=[{name: number}, " PROGRAM "]\" --on on.jsonl");
  cli_fits(cli_out);
  assert_string_equal(cli_err, "");
}

/* Each failure is shown with its line, request, reply and the program's own words. The others count. */
static void failures_are_shown_in_full(void **state) {
  (void)state;
  write_program();
  cli_write("on.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\", \"wanted\": 1, \"response\": \"bad\"}\n"
                        "{\"prompt\": \"1+2=\", \"answer\": 3, \"wanted\": 1, \"response\": \"4\"}\n"
                        "{\"prompt\": \"1+3=\", \"answer\": 3, \"wanted\": 1, \"response\": \"bad\"}\n");
  assert_int_equal(cli_run(TRY "\"reward=[" PROGRAM "]\" --on on.jsonl --json"), 69);
  assert_int_equal(cli_errors(), 1);
  cli_sh("test $(grep -c '\"failure\": .*\"asked\": .*\"reply\": ' .out) = 2 && "
         "tail -n 1 .out | grep -q '^{\"answers\": 3, \"failed\": 2, \"reward_mean\": 1, '");
  cli_sh("test $(grep -c 'warning.*: cannot do bad' .err) = 2 && grep -q '^  asked:   {\"answer\": *\"2\", "
         "\"wanted\": *1, "
         "\"id\": 0, \"prompt\": \"1+1=\", \"response\": \"bad\"}$' .err && "
         "grep -q '^  replied: {\"id\": 2, \"reward\": \"1\", ' .err && grep -q 'warning: on.jsonl:3: reward "
         "process: ' .err");
}

/* The rewards of a run's rollouts equal those of the run, even for programs that read fields of the data
 * line. */
static void rollouts_get_what_the_run_gave(void **state) {
  (void)state;
  write_program();
  cli_sh("awk '{ sub(/}$/, \", \\\"wanted\\\": \" NR %% 9 \"}\"); print }' rl.jsonl >wanted.jsonl");
  cli_succeeds(ONE GRPO
               "run.output=tried run.resume=never train.steps=1 rollout.save_every=1 data.train=wanted.jsonl "
               "eval.steps=1 eval.save=true data.eval=wanted.jsonl "
               "\"reward=[{name: exact}, " PROGRAM "]\"");
  cli_sh("sed 's/.*\"prompt_id\": \\([0-9]*\\),.*\"rewards\": {\"exact\": \\([^,]*\\), \"process\": "
         "\\([^}]*\\)}.*/\\1 \\2 \\3/' "
         "tried/rollouts/step-00000001.jsonl >want && test $(wc -l <want) = 16 && grep -q '1$' want");
  cli_succeeds(TRY "data.train=wanted.jsonl \"reward=[{name: exact}, " PROGRAM "]\" --json --on "
                   "tried/rollouts/step-00000001.jsonl");
  cli_sh("sed -n 's/^{\"line.*\"prompt_id\": \\([0-9]*\\),.*\"exact\": {\"reward\": "
         "\\([^,]*\\),.*\"process\": {\"reward\": "
         "\\([^,]*\\),.*/\\1 \\2 \\3/p' .out | diff want -");
  assert_null(strstr(cli_err, "data.train")); /* each line finds its own there */
  cli_sh("cp .out want.out");
  cli_succeeds(ONE "reward tried --json --on tried/rollouts/step-00000001.jsonl"); /* its own deck */
  cli_sh("sed 's/\"seconds[a-z_]*\": [^,}]*//g' .out >got && "
         "sed 's/\"seconds[a-z_]*\": [^,}]*//g' want.out | diff - got "
         "&& cp want.out .out");
  /* the further numbers are the run's too */
  cli_sh("sed -n '$s/.*\"reward_process_wanted\": \\([^,}]*\\).*/\\1/p' tried/metrics.jsonl >want && test -s "
         "want && "
         "tail -n 1 .out | sed 's/.*\"wanted\": \\([^,}]*\\).*/\\1/' | diff want - && "
         "grep -q '\"eval_reward_process_wanted\": ' tried/metrics.jsonl");
  cli_write("one.sh", "exec sed -u -E 's/.*\"id\": *([0-9]+).*/{\"id\": \\1, \"reward\": 1}/'\n");
  cli_sh(
      "sed 's/\"prompt\": \"/&0/' rl.jsonl >other.jsonl"); /* lines of other data are not taken for these */
  cli_succeeds(
      TRY "data.train=other.jsonl \"reward=[{name: process, command: [sh, one.sh], timeout_s: 5}]\" --on "
          "tried/eval/step-00000001.jsonl");
  cli_says(cli_err, "warning", "24", "data.train", "data.eval");
}

static void what_is_wrong_is_said(void **state) {
  (void)state;
  cli_write("none.jsonl", "{\"prompt\": \"1+1=\", \"response\": \"2\"}\n");
  cli_write("bare.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  cli_write("mixed.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\", \"response\": \"2\"}\n"
                           "{\"prompt\": \"1+1=\", \"answer\": \"2\", \"response\": 2}\n");
  cli_refuses(64, TRY "--on none.jsonl", "tri_foreign_refuse", "none.jsonl:1", "answer", "data.answer_key");
  cli_refuses(64, TRY "--on bare.jsonl", "take_responses", "bare.jsonl:1", "response");
  cli_refuses(64, TRY "--on mixed.jsonl", "take_response", "mixed.jsonl:2", "response");
  cli_refuses(64, TRY "--on gone.jsonl", "open_to_read", "gone.jsonl");
  cli_refuses(64, TRY "data.prompt_key=question --on mixed.jsonl", "tri_foreign_refuse", "mixed.jsonl:1",
              "question", "data.prompt_key: prompt");
  cli_refuses(64, ONE "reward model --on mixed.jsonl", "check_regular", "model");
  cli_sh("mkdir -p adapted && echo '{}' >adapted/adapter_config.json");
  assert_int_equal(cli_run(TRY "model.config=null model.tokenizer=null model.path=adapted --on bare.jsonl"),
                   64);
  cli_says(cli_err, "warning", "adapted", "lora.path", "--base"); /* lines of a message stay lines */
  assert_null(strstr(cli_err, "\\n"));
  cli_refuses(64, TRY, "tri_flags_need", "--on F.jsonl");
  assert_int_equal(
      cli_run(TRY "\"reward=[{name: regex, pattern: 'a('}, {name: process, command: [sh, gone.sh]}]\" "
                  "--on bare.jsonl"),
      64);
  cli_says(cli_err, "reward 1", "regex", "reward.pattern", "a(");
  cli_says(cli_err, "reward 2", "process", "reward.command", "gone.sh");
}

/* Neither weights nor the model's folder are needed. Only conversations need its template. */
static void the_models_files_are_used_where_they_are(void **state) {
  (void)state;
  cli_write("on.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\", \"response\": \"2\"}\n");
  cli_write("talk.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"answer\": \"2\", \"response\": "
            "\"2\"}\n");
  cli_write("echo.sh",
            "while read -r line; do printf '%s\\n' \"$line\" >&2; echo '{\"id\": 0, \"reward\": 1}'; done\n");
  cli_succeeds(TRY "model.config=null model.tokenizer=null model.path=gone --on on.jsonl");
  cli_shows(cli_err, "gone");
  cli_shows(cli_out, "\nexact                   1      0          1 ");
  cli_succeeds(
      TRY "data.chat_template=chatml \"reward=[{name: process, command: [sh, echo.sh], timeout_s: 5}]\" --on "
          "talk.jsonl");
  cli_shows(
      cli_err,
      "\"prompt\": \"<|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n\", \"response\": \"2\"}");
  cli_fails(64, TRY "model.config=null model.tokenizer=null model.path=gone --on talk.jsonl",
            "talk.jsonl:1: ", NULL);
}

/* A reward model is loaded and gives the same scores as in the run, to the digit. */
static void a_reward_model_is_loaded(void **state) {
  (void)state;
  cli_write("pairs.jsonl", "{\"prompt\": \"1+1=\", \"chosen\": \"2\", \"rejected\": \"3\"}\n"
                           "{\"prompt\": \"1+2=\", \"chosen\": \"3\", \"rejected\": \"33\"}\n");
  cli_succeeds(ONE SFT "algo.name=rm data.train=pairs.jsonl train.steps=1 train.train_batch_size=2 "
                       "train.micro_batch_size=2 run.output=judge");
  cli_succeeds(ONE GRPO "run.output=judged run.resume=never rollout.save_every=1 "
                        "'reward=[{name: model, path: judge}, {name: exact}]'");
  cli_sh("sed 's/.*\"rewards\": {\"model\": \\([^,]*\\),.*/\\1/' judged/rollouts/step-00000001.jsonl "
         ">want && "
         "test $(sort -u want | wc -l) -gt 2");
  cli_succeeds(TRY "'reward=[{name: model, path: judge}, {name: exact}]' --json --on "
                   "judged/rollouts/step-00000001.jsonl");
  cli_sh("sed -n 's/^{\"line.*\"model\": {\"reward\": \\([^,]*\\),.*/\\1/p' .out | diff want -");
  cli_succeeds(TRY "'reward=[{name: model, path: judge}]' --on judged/rollouts/step-00000001.jsonl");
#define ROLLOUT " --on judged/rollouts/step-00000001.jsonl"
  cli_refuses(64, TRY "'reward=[{name: model, path: model}]'" ROLLOUT, "check_model", "model", "config.json",
              "reward.path");
  cli_refuses(64, TRY "'reward=[{name: model, path: gone}]'" ROLLOUT, "tri_source_missing", "gone");
  cli_refuses(64, TWO "reward grpo.yaml 'reward=[{name: model, path: judge}]'" ROLLOUT,
              "tri_tryout_model_open", "mpirun", "srun");
#undef ROLLOUT
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lines_with_a_response),
                                     cmocka_unit_test(failures_are_shown_in_full),
                                     cmocka_unit_test(rollouts_get_what_the_run_gave),
                                     cmocka_unit_test(a_reward_model_is_loaded),
                                     cmocka_unit_test(what_is_wrong_is_said),
                                     cmocka_unit_test(the_models_files_are_used_where_they_are)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
