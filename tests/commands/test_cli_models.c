/* test_cli_models.c - the whole program with critics, reward models and preferences: what it refuses, what it
 * leaves behind. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_case.h"

#define PPO     GRPO " algo.name=ppo algo.num_generations=4 "
#define RM      SFT "algo.name=rm train.train_batch_size=2 train.micro_batch_size=2 "
#define KTO     SFT "algo.name=kto train.train_batch_size=1 train.micro_batch_size=1 "
#define OF(dir) "'" TRI_TEST_DATA "/model/" dir "' "

static void write_pairs(void) {
  cli_write("pairs.jsonl",
            "{\"prompt\": \"1+1=\", \"chosen\": \"2\", \"rejected\": \"3\"}\n"
            "{\"prompt\": \"1+2=\", \"chosen\": \"3\", \"rejected\": \"33\", \"margin\": 0.5}\n");
}

static void a_critic_must_fit(void **state) {
  (void)state;
  cli_fails(64, ONE PPO "critic.path=" OF("qwen2"), "critic.path: the critic is a qwen2, the policy a llama",
            "must be of the policy's family");
  cli_fails(64, ONE PPO "critic.path=" OF("llama"), "critic.path: the critic has a vocabulary of ",
            "the policy one of ");
  cli_fails(64, TWO PPO "critic.path=gone", "critic.path", NULL);
  cli_fails(64, ONE GRPO "algo.lam=1", "algo.lam means nothing to algo.name grpo", NULL);
  cli_fails(64, ONE GRPO "critic.learning_rate=1", "critic.learning_rate means nothing to algo.name grpo",
            NULL);
}

static void a_reward_model_must_score(void **state) {
  (void)state;
  cli_fails(64, ONE PPO "'reward=[{name: model, path: model}]'", "has no scalar head", "score.weight");
  cli_fails(64, ONE PPO "'reward=[{name: model}]'", "reward model needs a path", NULL);
  cli_fails(64, ONE PPO "'reward=[{name: model, path: gone}]'", "reward.path", NULL);
  cli_fails(64, ONE GRPO "'reward=[{name: model, path: " TRI_TEST_DATA "/model/llama_score}]'",
            "the reward model has a vocabulary of ", NULL);
  cli_fails(64, ONE GRPO "'reward=[{name: model, path: a}, {name: exact}, {name: model, path: b}]'",
            "reward 3 (model)", "one reward model");
  cli_succeeds(ONE SFT "'reward=[{name: model, path: gone}]' run.output=unrewarded"); /* eval.steps is 0 */
  cli_fails(64, ONE "eval run --data rl.jsonl --reward model --path model", "in a training run only", NULL);
}

static void pairs_are_checked(void **state) {
  (void)state;
  write_pairs();
  cli_write("sideless.jsonl", "{\"prompt\": \"1+1=\", \"chosen\": \"2\"}\n");
  cli_write("margin.jsonl",
            "{\"prompt\": \"1\", \"chosen\": \"2\", \"rejected\": \"3\", \"margin\": \"x\"}\n");
  cli_fails(64, ONE RM "data.train=sideless.jsonl", "sideless.jsonl:1: ", "rejected");
  cli_fails(64, TWO RM "data.train=margin.jsonl", "margin.jsonl:1: ", "margin");
  cli_fails(64, ONE RM "data.train=pairs.jsonl algo.clip_eps=0.1",
            "algo.clip_eps means nothing to algo.name rm", NULL);
  cli_fails(64, ONE RM "data.train=pairs.jsonl rollout.rollout_batch_size=1", "means nothing to algo.name rm",
            NULL);
  cli_fails(64, ONE KTO "data.train=sideless.jsonl", "sideless.jsonl:1: ", NULL);
  cli_write("labelled.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"2\", \"label\": true}\n");
  cli_fails(64, ONE KTO "data.train=labelled.jsonl", "at least 2 are needed", NULL);
  cli_sh("for i in 1 2 3 4; do cat labelled.jsonl; done > alike.jsonl");
  cli_succeeds(TWO SFT "algo.name=kto data.train=alike.jsonl train.train_batch_size=4 "
                       "train.micro_batch_size=2 run.output=alike");
  cli_shows(cli_err, "every label is true");
  if (strstr(strstr(cli_err, "every label") + 1, "every label")) fail_msg("said by each rank: %s", cli_err);
}

/* Trained, evaluated by its loss, exported with its head, used as a reward and as where a critic starts. */
static void a_reward_model_is_made_and_used(void **state) {
  (void)state;
  write_pairs();
  cli_succeeds(ONE RM "run.output=judge data.train=pairs.jsonl data.eval=pairs.jsonl eval.steps=1 "
                      "checkpoint.save_final=true");
  cli_sh("grep -q eval_accuracy judge/metrics.jsonl");
  cli_shows(cli_err, "loss: rm (centering_coef 0)");
  cli_shows(cli_err, "next: ");
  assert_null(strstr(cli_err, "generate"));
  cli_succeeds(ONE "export judge judged");
  cli_sh("grep -q LlamaForSequenceClassification judged/config.json");
  cli_succeeds(ONE PPO "'reward=[{name: model, path: judged}]' run.output=ppo checkpoint.save_final=true");
  cli_sh("grep -q value_loss ppo/metrics.jsonl");
  cli_succeeds(ONE "export ppo critic --critic");
  cli_sh("grep -q LlamaForSequenceClassification critic/config.json");
  cli_succeeds(ONE PPO "critic.path=ppo run.output=ppo2 checkpoint.save_final=true train.learning_rate=1e-12 "
                       "critic.learning_rate=1e-12");
  cli_succeeds(ONE "export ppo2 critic2 --critic --dtype bf16"); /* the step is too small to be seen */
  cli_succeeds(ONE "export ppo critic1 --critic --dtype bf16");
  cli_sh("cmp critic1/model.safetensors critic2/model.safetensors");
  cli_succeeds(ONE "inspect ppo");
  cli_fails(64, ONE "export ppo x --ema", "the checkpoint has no average of weights", "algo.ema_beta");
  cli_fails(64, ONE "export ppo x --ema --critic", "--critic and --ema", NULL);
}

/* As many tokens, of which some, or just a few, are others. */
static void a_reward_model_reads_what_was_written(void **state) {
  (void)state;
  cli_sh("cp -r judged other; cp -r judged renamed; "
         "sed -i 's/\"0\":15,\"1\":16,\"2\":17,\"3\":18/\"3\":15,\"2\":16,\"1\":17,\"0\":18/' "
         "other/tokenizer.json; "
         "sed -i 's/\"0\":15,\"1\":16/\"1\":15,\"0\":16/' renamed/tokenizer.json");
  cli_fails(64, ONE PPO "'reward=[{name: model, path: other}]'", "reward.path: the critic has another ",
            NULL);
  cli_fails(
      64, TWO GRPO "'reward=[{name: model, path: other}]'",
      "the reward model has another tokenizer than the policy: 4 tokens differ, the first is 15: '3', the "
      "policy's '0'",
      "reward.path: ");
  cli_succeeds(ONE PPO "'reward=[{name: model, path: renamed}]' critic.path=judged run.output=renamed_run");
  cli_shows(cli_err, "reward.path: 2 tokens of the reward model are others than the policy's");
  cli_sh("cp -r judged short; sed -i 's/\\(max_position_embeddings.*: *\\)[0-9]*/\\16/' short/config.json");
  cli_fails(64, TWO GRPO "'reward=[{name: model, path: short}]'",
            "reward.path: the longest sequence here can have ", "the reward model's context is 6");
}

/* As one that was given a token of padding; or lacks what is padding to the policy. */
static void a_reward_model_may_know_more_tokens(void **state) {
  (void)state;
  cli_sh("sed 's/257/258/' config.json > wide.json");
  cli_succeeds(ONE RM "data.train=pairs.jsonl model.config=wide.json run.output=wide");
  cli_succeeds(TWO PPO "'reward=[{name: model, path: wide}]' shard.plan=zero3 run.output=wide_ppo "
                       "checkpoint.save_final=true");
  cli_succeeds(ONE PPO "'reward=[{name: model, path: wide}]' run.resume=auto train.steps=2 "
                       "run.output=wide_ppo");
  cli_succeeds(ONE "export wide_ppo wide_critic --critic");
  cli_sh("grep -q '\"vocab_size\": 258' wide_critic/config.json");
  cli_fails(64, ONE GRPO "algo.kl_coef=0.1 model.ref_path=wide_critic",
            "model.ref_path: ", NULL); /* what gives probabilities */
  cli_write("padded.jsonl", "{\"tokens\": [5, 257, 6]}\n");
#define NARROW "model.config=wide.json data.train=padded.jsonl 'reward=[{name: model, path: judged}]' "
  cli_succeeds(TWO GRPO NARROW "run.output=narrow");
  cli_fails(64, ONE PPO NARROW, "it must know each of the policy's tokens; critic.path can name another",
            "vocabulary of 257");
}

/* Rows stay within a terminal's width: with a critic, held-out rewards and a gap; what is evaluated is
 * shown. */
static void scores_of_a_model_have_a_column(void **state) {
  (void)state;
#define JUDGED_HERE                                                                                          \
  "'reward=[{name: model, path: judged}]' data.eval=rl.jsonl eval.steps=1 eval.max_prompts=4 "
  cli_succeeds(ONE PPO JUDGED_HERE "algo.kl_coef=0.1 rollout.save_every=1 run.output=seen");
  cli_sh("mkdir -p said; sed 's/\"logprobs\": .-5/\"logprobs\": [-6/' seen/rollouts/step-00000001.jsonl > "
         "said/step-00000001.jsonl");
  cli_succeeds(ONE PPO JUDGED_HERE
               "algo.kl_coef=0.1 rollout.replay=said run.sampler=trust run.output=replayed");
  cli_shows(cli_err, "   gap ");
  cli_shows(cli_err, "   ev ");
  cli_fits(cli_err);
  cli_succeeds(ONE SFT JUDGED_HERE "rollout.max_response_length=4 run.output=sft_judged");
  cli_shows(cli_err, "   eval\n");
}

/* The embedding of 7 is none, which the prompt of one rank has. */
static void one_ranks_answers_can_be_broken(void **state) {
  (void)state;
  cli_sh("for p in 1+1 1+7 1+2 2+2; do echo \"{\\\"prompt\\\": \\\"$p=\\\"}\"; done > seven.jsonl");
  cli_sh("cp -r judged nan_seven; printf '\\377\\177\\377\\177' | dd conv=notrunc bs=1 "
         "of=nan_seven/model.safetensors "
         "seek=$(($(od -An -t u8 -N 8 nan_seven/model.safetensors) + 8 + 22 * 32 * 4)) 2>.left");
  cli_fails(
      70,
      TWO GRPO
      "data.train=seven.jsonl data.shuffle=false 'reward=[{name: model, path: nan_seven}]' run.output=nan",
      "the reward model says nan of an answer to prompt_id 1: ", NULL);
}

/* The last numbers of a model's file are none: those of its head. */
static void broken_weights_are_found(void **state) {
  (void)state;
  cli_sh("for m in model judged; do cp -r $m nan_$m; printf '\\377\\177\\377\\177' | dd conv=notrunc bs=1 "
         "of=nan_$m/model.safetensors seek=$(($(stat -c %%s nan_$m/model.safetensors) - 4)) 2>.left; done");
  cli_fails(70, ONE PPO "algo.kl_coef=0.1 model.ref_path=nan_model run.output=nan",
            "step 1: the reference says nan of token 0 of answer ", NULL);
  cli_fails(70, TWO PPO "'reward=[{name: model, path: nan_judged}]' critic.path=judged run.output=nan",
            "the reward model says nan of an answer to prompt_id ", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_critic_must_fit),
                                     cmocka_unit_test(a_reward_model_must_score),
                                     cmocka_unit_test(pairs_are_checked),
                                     cmocka_unit_test(a_reward_model_is_made_and_used),
                                     cmocka_unit_test(a_reward_model_reads_what_was_written),
                                     cmocka_unit_test(a_reward_model_may_know_more_tokens),
                                     cmocka_unit_test(scores_of_a_model_have_a_column),
                                     cmocka_unit_test(one_ranks_answers_can_be_broken),
                                     cmocka_unit_test(broken_weights_are_found)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
