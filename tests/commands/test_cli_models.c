/* test_cli_models.c - the whole program with critics, reward models and preferences: its refusals and its
 * files. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"

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
  cli_refuses(64, ONE PPO "critic.path=" OF("qwen2"), "check_family", "critic.path", "qwen2", "llama");
  cli_refuses(64, ONE PPO "critic.path=" OF("llama"), "check_vocabulary", "critic.path", "61", "257");
  cli_fails(64, TWO PPO "critic.path=gone", "critic.path", NULL);
  cli_refuses(64, ONE GRPO "algo.lam=1", "refuse_one", "algo.lam=1", "algo.name", "grpo");
  cli_refuses(64, ONE GRPO "critic.learning_rate=1", "refuse_one", "critic.learning_rate=1", "algo.name",
              "grpo");
}

static void a_reward_model_must_score(void **state) {
  (void)state;
  cli_refuses(64, ONE PPO "'reward=[{name: model, path: model}]'", "tri_source_fail_unscored", "score.weight",
              "reward.path");
  cli_refuses(64, ONE PPO "'reward=[{name: model}]'", "check_must", "'reward=[{name: model}]'", "path");
  cli_fails(64, ONE PPO "'reward=[{name: model, path: gone}]'", "reward.path", NULL);
  cli_refuses(64, ONE GRPO "'reward=[{name: model, path: " TRI_TEST_DATA "/model/llama_score}]'",
              "check_vocabulary", "reward.path", "61", "257");
  cli_refuses(64, ONE GRPO "'reward=[{name: model, path: a}, {name: exact}, {name: model, path: b}]'",
              "check_judge", "reward 3 (model)", "reward 1");
  cli_succeeds(ONE SFT "'reward=[{name: model, path: gone}]' run.output=unrewarded"); /* eval.steps is 0 */
  cli_refuses(64, ONE "eval run --data rl.jsonl --reward model --path model", "model_check", "--path model",
              "score");
}

static void pairs_are_checked(void **state) {
  (void)state;
  write_pairs();
  cli_write("sideless.jsonl", "{\"prompt\": \"1+1=\", \"chosen\": \"2\"}\n");
  cli_write("margin.jsonl",
            "{\"prompt\": \"1\", \"chosen\": \"2\", \"rejected\": \"3\", \"margin\": \"x\"}\n");
  cli_fails(64, ONE RM "data.train=sideless.jsonl", "sideless.jsonl:1: ", "rejected");
  cli_fails(64, TWO RM "data.train=margin.jsonl", "margin.jsonl:1: ", "margin");
  cli_refuses(64, ONE RM "data.train=pairs.jsonl algo.clip_eps=0.1", "refuse_one", "algo.clip_eps=0.1",
              "algo.name", "rm");
  cli_refuses(64, ONE RM "data.train=pairs.jsonl rollout.rollout_batch_size=1", "refuse_one",
              "rollout.rollout_batch_size=1", "algo.name", "rm");
  cli_fails(64, ONE KTO "data.train=sideless.jsonl", "sideless.jsonl:1: ", NULL);
  cli_write("labelled.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"2\", \"label\": true}\n");
  cli_refuses(64, ONE KTO "data.train=labelled.jsonl", "measure_labelled", "train.train_batch_size", "1",
              "2");
  cli_sh("for i in 1 2 3 4; do cat labelled.jsonl; done > alike.jsonl");
  cli_succeeds(TWO SFT "algo.name=kto data.train=alike.jsonl train.train_batch_size=4 "
                       "train.micro_batch_size=2 run.output=alike");
  cli_says(cli_err, "warning", "data.train", "true");
  assert_int_equal(cli_events("alike", ALARM("one_label")), 1); /* one rank gives it */
}

/* A reward model is trained, evaluated by its loss, exported with its head, and used as a reward and as the
 * start of a critic. */
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
  cli_refuses(64, ONE "export ppo x --ema", "tri_part_check", "ppo/checkpoints/step-00000001", "/ema/model",
              "algo.ema_beta");
  cli_fails(64, ONE "export ppo x --ema --critic", "--critic", "--ema");
}

/* A tokenizer of the same size, with some or only a few other tokens. */
static void a_reward_model_reads_what_was_written(void **state) {
  (void)state;
  cli_sh("cp -r judged other; cp -r judged renamed; "
         "sed -i 's/\"0\":15,\"1\":16,\"2\":17,\"3\":18/\"3\":15,\"2\":16,\"1\":17,\"0\":18/' "
         "other/tokenizer.json; "
         "sed -i 's/\"0\":15,\"1\":16/\"1\":15,\"0\":16/' renamed/tokenizer.json");
  cli_refuses(64, ONE PPO "'reward=[{name: model, path: other}]'", "check_tokenizer", "reward.path", "critic",
              "4", "15", "'3'", "'0'");
  cli_refuses(64, TWO GRPO "'reward=[{name: model, path: other}]'", "check_tokenizer", "reward.path", "4",
              "15", "'3'", "'0'");
  cli_succeeds(ONE PPO "'reward=[{name: model, path: renamed}]' critic.path=judged run.output=renamed_run");
  cli_says(cli_err, "warning", "reward.path", "2", "15", "'1'", "'0'");
  assert_int_equal(cli_events("renamed_run", ALARM("other_tokens")), 1);
  cli_sh("cp -r judged short; sed -i 's/\\(max_position_embeddings.*: *\\)[0-9]*/\\16/' short/config.json");
  cli_refuses(64, TWO GRPO "'reward=[{name: model, path: short}]'", "check_contexts", "reward.path", "8",
              "6");
}

/* A reward model may have an extra token of padding, or lack the policy's padding. */
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
            "model.ref_path: ", NULL); /* the model of probabilities */
  cli_write("padded.jsonl", "{\"tokens\": [5, 257, 6]}\n");
#define NARROW "model.config=wide.json data.train=padded.jsonl 'reward=[{name: model, path: judged}]' "
  cli_succeeds(TWO GRPO NARROW "run.output=narrow");
  cli_refuses(64, ONE PPO NARROW, "check_vocabulary", "reward.path", "257", "258", "critic.path");
}

/* Rows fit the width of a terminal with a critic, held-out rewards and a gap. Evaluated numbers are shown. */
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

/* The embedding of 7 is NaN, and the prompt of one rank has this token. */
static void one_ranks_answers_can_be_broken(void **state) {
  (void)state;
  cli_sh("for p in 1+1 1+7 1+2 2+2; do echo \"{\\\"prompt\\\": \\\"$p=\\\"}\"; done > seven.jsonl");
  cli_sh("cp -r judged nan_seven; printf '\\377\\177\\377\\177' | dd conv=notrunc bs=1 "
         "of=nan_seven/model.safetensors "
         "seek=$(($(od -An -t u8 -N 8 nan_seven/model.safetensors) + 8 + 22 * 32 * 4)) 2>.left");
  cli_refuses(70,
              TWO GRPO "data.train=seven.jsonl data.shuffle=false "
                       "'reward=[{name: model, path: nan_seven}]' run.output=nan",
              "check_scores", "nan", "prompt_id 1");
}

/* The last numbers of a model's file, those of its head, are NaN. */
static void broken_weights_are_found(void **state) {
  (void)state;
  cli_sh("for m in model judged; do cp -r $m nan_$m; printf '\\377\\177\\377\\177' | dd conv=notrunc bs=1 "
         "of=nan_$m/model.safetensors seek=$(($(stat -c %%s nan_$m/model.safetensors) - 4)) 2>.left; done");
  cli_refuses(70, ONE PPO "algo.kl_coef=0.1 model.ref_path=nan_model run.output=nan", "check_finite",
              "step 1", "nan", "token 0", "prompt_id");
  cli_refuses(70, TWO PPO "'reward=[{name: model, path: nan_judged}]' critic.path=judged run.output=nan",
              "check_scores", "nan", "prompt_id");
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
