/* test_cli_kept.c - answers kept as files: the lines of rollouts and evaluations, and their fate. Judge,
 * beside cli_case.h: the answered data, the figures of metrics.jsonl and of eval's output. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"

#include <errno.h>

#define EVAL                                                                                                 \
  "data.eval=rl.jsonl eval.steps=1 eval.max_prompts=3 eval.num_generations=2 eval.temperature=1 "            \
  "eval.save=true "

/* Checks that every line has the right answer of its prompt_id in rl.jsonl. */
static void answers_are_the_data_s(const char *file) {
  cli_sh("awk 'NR == FNR { sub(/.*\"answer\": /, \"\"); sub(/}$/, \"\"); want[NR - 1] = $0; next } "
         "{ id = got = $0; sub(/.*\"prompt_id\": /, \"\", id); sub(/,.*/, \"\", id); "
         "sub(/.*\"answer\": /, \"\", got); sub(/, \"tokens\".*/, \"\", got); bad += got != want[id] } "
         "END { exit bad || NR == FNR }' rl.jsonl %s",
         file);
}

/* Checks that the mean reward of the file's lines stands under this name in the other file. */
static void mean_is(const char *file, const char *where, const char *name) {
  cli_sh("mean=$(sed 's/.*\"reward\": //; s/,.*//' %s | "
         "awk '{ sum += $1 } END { printf \"%%.6f\", sum / NR }'); "
         "awk -v mean=\"$mean\" '{ x = $0; sub(/.*\"%s\": */, \"\", x); sub(/[,}].*/, \"\", x); "
         "found += x - mean < 2e-6 && mean - x < 2e-6 } END { exit !found }' %s",
         file, name, where);
}

static void lines_have_the_right_answers(void **state) {
  (void)state;
  cli_succeeds(TWO GRPO EVAL
               "run.output=a train.steps=2 rollout.save_every=2 'reward=[{name: length, buffer: 3}]'");
  assert_false(cli_exists("a/rollouts/step-00000001.jsonl"));
  answers_are_the_data_s("a/rollouts/step-00000002.jsonl");
  for (int step = 0; step < 3; step++) {
    char file[64];
    snprintf(file, sizeof file, "a/eval/step-%08d.jsonl", step);
    answers_are_the_data_s(file);
    cli_sh("test $(wc -l <%s) = 6 && ! grep -q advantage %s && sed -n %dp a/metrics.jsonl >line", file, file,
           step + 1);
    mean_is(file, "line", "eval_reward_mean");
  }
  cli_succeeds(
      ONE "eval model --data rl.jsonl --reward length --buffer 3 --max-new 4 --num 2 --temperature 1 --json "
          "--output e.jsonl >said");
  answers_are_the_data_s("e.jsonl");
  mean_is("e.jsonl", "said", "reward_mean");
  cli_succeeds(TWO
               "eval model --data rl.jsonl --reward length --buffer 3 --max-new 4 --num 2 --temperature 1 "
               "--output f.jsonl");
  cli_sh("cmp e.jsonl f.jsonl");
}

/* A number stays a number. A replay has the right answers of its data if the lines belong to it. */
static void answers_are_as_the_data_spells_them(void **state) {
  (void)state;
  cli_sh("sed 's/\"answer\": \"\\(.*\\)\"/\"answer\": \\1.0/' rl.jsonl >n.jsonl; "
         "sed 's/=\"/=?\"/' rl.jsonl >o.jsonl");
  cli_succeeds(ONE GRPO "run.output=b data.train=n.jsonl rollout.save_every=1");
  cli_sh("test $(grep -c '\"answer\": [0-9]*[.]0, ' b/rollouts/step-00000001.jsonl) = 16");
  cli_succeeds(ONE GRPO "run.output=c data.train=n.jsonl rollout.save_every=1 rollout.replay=b/rollouts");
  cli_sh("cmp b/rollouts/step-00000001.jsonl c/rollouts/step-00000001.jsonl");
  cli_succeeds(ONE GRPO "run.output=d data.train=o.jsonl rollout.save_every=1 rollout.replay=b/rollouts");
  cli_sh("test $(grep -c . d/rollouts/step-00000001.jsonl) = 16 && "
         "! grep '\"answer\"' d/rollouts/step-00000001.jsonl");
  cli_succeeds(ONE "generate model --prompts n.jsonl --max-new 2 --json >g.jsonl");
  cli_sh("grep -q '\"answer\": [0-9]*[.]0, ' g.jsonl");
}

/* A resumed run writes repeated steps again. Files in that folder read by the deck stay. */
static void later_steps_are_cut(void **state) {
  (void)state;
  cli_succeeds(ONE GRPO EVAL
               "run.output=h run.resume=auto train.steps=3 rollout.save_every=1 checkpoint.save_steps=1 "
               "checkpoint.save_total_limit=9");
  cli_sh("mkdir was && cp -r h/eval h/rollouts was; cp -r h i; touch h/rollouts/step-00000002.jsonl.tmp");
  cli_sh(
      "cd i/rollouts && touch step-9.jsonl step-000000009.jsonl step-9.jsonl.tmp step-00000009.jsonl.old && "
      "ls | grep -v 'step-0000000[123].jsonl$' >../mine"); /* laid there by hand */
  cli_succeeds(ONE GRPO "run.output=h run.resume=h/checkpoints/step-00000001 train.steps=2");
  cli_says(cli_err, "h/rollouts", "3", "1"); /* files removed, of steps after this one */
  cli_sh("test $(ls h/rollouts) = step-00000001.jsonl && test $(ls h/eval | wc -l) = 2 && "
         "cmp h/eval/step-00000001.jsonl was/eval/step-00000001.jsonl");
  cli_succeeds(ONE GRPO "run.output=i run.resume=i/checkpoints/step-00000001 train.steps=2 "
                        "data.eval=i/eval/step-00000003.jsonl "
                        "eval.steps=1 eval.save=true run.allow_changes=data.eval");
  cli_sh("test -e i/eval/step-00000003.jsonl && ls i/rollouts | grep -vx step-00000001.jsonl | "
         "cmp - i/mine && rm i/rollouts/*.tmp");
  cli_succeeds(ONE GRPO "run.output=h run.resume=never");
  cli_sh("test -e h/eval.before-1/step-00000000.jsonl && test ! -e h/eval");
}

static void lines_name_their_set(void **state) {
  (void)state;
  cli_sh("tail -n 5 rl.jsonl >hard.jsonl");
  cli_succeeds(ONE GRPO
               "run.output=l data.eval=[rl.jsonl,hard.jsonl] data.eval_names=[easy,hard] eval.steps=1 "
               "eval.max_prompts=3 eval.save=true");
  cli_sh("sed 's/, \"response.*answer/, \"answer/; s/, \"tokens.*//' l/eval/step-00000001.jsonl >got");
  cli_sh("{ head -n 3 rl.jsonl; head -n 3 hard.jsonl; } | awk -v all=$(wc -l <rl.jsonl) '{ "
         "id = NR < 4 ? NR - 1 : all + NR - 4; gsub(/^{|}$/, \"\"); "
         "print \"{\\\"set\\\": \\\"\" (NR < 4 ? \"easy\" : \"hard\") \"\\\", \\\"prompt_id\\\": \" "
         "id \", \\\"sample\\\": 0, \" $0 }' >want; diff want got");
}

static void an_evaluation_that_cannot_be_kept_is_said(void **state) {
  (void)state;
  cli_sh("mkdir j && ln -s nowhere/else j/eval");
  cli_succeeds(ONE GRPO EVAL "run.output=j");
  assert_true(cli_events("j", ALARM("answers_not_saved")) >= 1);
  cli_sh("grep -q eval_reward_mean j/metrics.jsonl");
}

static void no_file_is_overwritten(void **state) {
  (void)state;
  cli_sh("echo mine >there; mkfifo pipe; ln -s nowhere link");
  cli_refuses(64, ONE "eval model --data rl.jsonl --reward exact --output there", "tri_eval_check_output",
              "--output there");
  cli_refuses(64, ONE "eval model --data rl.jsonl --reward exact --output pipe", "tri_eval_check_output",
              "--output pipe");
  cli_refuses(64, ONE "eval model --data rl.jsonl --reward exact --output link", "tri_eval_check_output",
              "--output link");
  cli_refuses(74, TWO "eval model --data rl.jsonl --reward exact --output no/such", "tri_pieces_begin_named",
              "no/such", strerror(ENOENT));
  cli_fails(64, ONE "eval model --data none.jsonl --reward exact --output kept", "none.jsonl",
            strerror(ENOENT));
  assert_false(cli_exists("kept"));
  cli_sh("test $(cat there) = mine && test -p pipe && test ! -e nowhere");
}

static void without_answers_it_has_no_effect(void **state) {
  (void)state;
  cli_succeeds(ONE SFT "run.output=k eval.save=true");
  cli_says(cli_err, "eval.save", "eval.steps", "0");
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(lines_have_the_right_answers),
                                    cmocka_unit_test(answers_are_as_the_data_spells_them),
                                    cmocka_unit_test(later_steps_are_cut),
                                    cmocka_unit_test(lines_name_their_set),
                                    cmocka_unit_test(an_evaluation_that_cannot_be_kept_is_said),
                                    cmocka_unit_test(no_file_is_overwritten),
                                    cmocka_unit_test(without_answers_it_has_no_effect)};

  return cmocka_run_group_tests(test, cli_open, cli_close);
}
