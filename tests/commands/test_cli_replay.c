/* test_cli_replay.c - the whole program on saved rollouts. Judge, beside cli_case.h: the lines of the run
 * that wrote them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#define HARD "reward='[{name: regex, pattern: \"[0-4]\"}]' " /* some answers have it, some have not */

/* A replay of two ranks, each started in its own folder. */
#define APART(folder)                                                                                        \
  "-n 1 --wdir " folder " '" TRI_PROGRAM "' " GRPO HARD                                                      \
  "run.output=../p rollout.replay=lines rollout.max_response_length=5 algo.kl_coef=0.1 algo.kl_where=reward"
#define BESIDE(folder) "'" TRI_MPIEXEC "' --allow-run-as-root --oversubscribe " APART(folder)

/* Writes the rollout of one step of two ranks to lines/step-00000001.jsonl. `poor` has the same lines without
 * their rewards. */
static void write_lines(void) {
  if (cli_exists("lines")) return;
  cli_succeeds(TWO GRPO HARD "run.output=wrote rollout.save_every=1 algo.kl_coef=0.1");
  cli_sh("cp -r wrote/rollouts lines; mkdir poor; "
         "sed 's/, \"reward\": [^,}]*//; s/, \"rewards\": {[^}]*}//' lines/step-00000001.jsonl "
         ">poor/step-00000001.jsonl");
  cli_sh("cd lines && grep -q '\"reward\": 0,' step-00000001.jsonl && "
         "grep -q '\"reward\": 1,' step-00000001.jsonl && "
         "cd ../poor && ! grep -q '\"reward' step-00000001.jsonl");
}

/* A replay reads the files of its steps. Its first step has the original's log-probabilities. */
static void goes_on_from_a_checkpoint(void **state) {
  (void)state;
  cli_succeeds(TWO GRPO "run.output=h train.steps=2 rollout.save_every=2 checkpoint.save_steps=1");
  assert_false(cli_exists("h/rollouts/step-00000001.jsonl"));
  cli_succeeds(TWO GRPO "run.output=i run.resume=h/checkpoints/step-00000001 rollout.replay=h/rollouts "
                        "run.allow_changes=rollout.replay train.steps=2");
  cli_fails(64, TWO GRPO "run.output=j rollout.replay=h/rollouts train.steps=2", "step-00000001.jsonl",
            "rollout.replay");
  cli_sh("mkdir k && cp h/rollouts/step-00000002.jsonl k/step-00000001.jsonl");
  cli_refuses(64, ONE GRPO "run.output=l rollout.replay=k train.steps=1 run.seed=7", "tri_gap_close",
              "run.sampler: trust");
  cli_sh("cat h/rollouts/step-00000002.jsonl >>k/step-00000001.jsonl");
  cli_refuses(64, TWO GRPO "run.output=bad rollout.replay=k train.steps=1", "take_line",
              "k/step-00000001.jsonl", "16", "rollout.rollout_batch_size", "algo.num_generations",
              "rollout.replay");
}

/* Lines without rewards get them from data.train, on one rank and on two. Lines with a reward keep it. */
static void lines_without_rewards_are_judged(void **state) {
  static const char *const program[] = {ONE, TWO};
  char                     command[512];

  (void)state;
  write_lines();
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command,
             "%s" GRPO HARD "run.output=poor%d rollout.replay=poor rollout.save_every=1 run.sampler=trust",
             program[i], i);
    cli_succeeds(command);
    cli_sh("for f in lines poor%d/rollouts; do grep -o '\"reward\": [^,]*' $f/step-00000001.jsonl "
           ">$(dirname $f)/seen; done; cmp seen poor%d/seen",
           i, i);
  }
  cli_sh("mkdir mixed; sed '1s/\"reward\": [01],/\"reward\": 7,/; 2,$s/, \"reward\": [^,}]*//; "
         "2,$s/, \"rewards\": {[^}]*}//' lines/step-00000001.jsonl >mixed/step-00000001.jsonl");
  cli_succeeds(ONE GRPO HARD "run.output=mix rollout.replay=mixed rollout.save_every=1 run.sampler=trust");
  cli_sh("grep -o '\"reward\": [^,]*' mix/rollouts/step-00000001.jsonl >mix/seen; "
         "head -n 1 mix/seen | grep -q 7 && sed 1d seen >rest && sed 1d mix/seen | cmp - rest");
}

/* The source of their rewards is missing. */
static void lines_that_cannot_be_judged_are_refused(void **state) {
  (void)state;
  write_lines();
  cli_refuses(64, TWO GRPO HARD "run.output=n rollout.replay=poor data.train=null", "read_step", "poor",
              "data.train", "prompt_id");
  cli_sh("mkdir far; sed 's/\"prompt_id\": [0-9]*/\"prompt_id\": 99/' poor/step-00000001.jsonl "
         ">far/step-00000001.jsonl");
  cli_refuses(64, TWO GRPO HARD "run.output=o rollout.replay=far", "find_examples", "far", "step 1",
              "group 0", "prompt_id 99", "data.train");
}

/* Each rank reads for itself. A message says if they find different lines, and no rank waits for another. */
static void ranks_that_read_other_lines_are_told(void **state) {
  static const char *const other[] = {"s/, \"reward\": [^,}]*//; s/, \"rewards\": {[^}]*}//",
                                      "s/, \"logprobs\": \\[[^]]*\\]//",
                                      "1s/\"reward\": [01],/\"reward\": 7,/",
                                      "1s/\"tokens\": \\[[0-9]*/\"tokens\": [9/",
                                      "1,4s/\"prompt_id\": [0-9]*/\"prompt_id\": 19/",
                                      "1s/\"logprobs\": \\[-[0-9]*/\"logprobs\": [-9/",
                                      "1s/\"prompt_tokens\": [0-9]*/\"prompt_tokens\": 3/"};
  size_t                   n = sizeof other / sizeof *other;

  (void)state;
  write_lines();
  cli_sh("for r in 0 1; do mkdir -p rank$r/lines; "
         "ln -s ../config.json ../tokenizer.json ../grpo.yaml ../rl.jsonl rank$r; "
         "cp lines/* rank$r/lines; done");
  for (size_t i = 0; i < n; i++) {
    if (i == n - 1) /* log-probabilities would tell the length of the answer */
      cli_sh("sed -i '%s' rank0/lines/step-00000001.jsonl", other[1]);
    cli_sh("cd rank1/lines; sed '%s' ../../rank0/lines/step-00000001.jsonl >step-00000001.jsonl; "
           "! cmp -s ../../rank0/lines/step-00000001.jsonl step-00000001.jsonl",
           other[i]);
    cli_fails(64, BESIDE("rank0") " : " APART("rank1"), "lines", "step 1");
    cli_says(cli_err, "trireme", "lines", "step 1", "rank 1", "rank 0");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on_from_a_checkpoint),
                                     cmocka_unit_test(lines_without_rewards_are_judged),
                                     cmocka_unit_test(lines_that_cannot_be_judged_are_refused),
                                     cmocka_unit_test(ranks_that_read_other_lines_are_told)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
