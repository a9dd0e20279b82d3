/* test_config_peers.c - spellings of other programs, read here or refused with advice. Judge: exact
 * results. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_keys.h"
#include "config_case.h"
#include "refusal_case.h"

/* Keys of other programs without a key here get a sentence of advice. */
static void test_peers_keys(void **state) {
  static const char *const row[][2] = {
      {"report_to=wandb", "refuse_unknown() report_to=wandb report_to metrics.jsonl"},
      {"use_tensorboard=logs", "refuse_unknown() use_tensorboard=logs use_tensorboard run.tensorboard"},
      {"trainer.logger=[console]", "refuse_unknown() trainer.logger=[console] trainer.logger metrics.jsonl"},
      {"train.logging_steps=10", "refuse_unknown() train.logging_steps=10 train.logging_steps metrics.jsonl"},
      {"lora_dropout=0.05", "refuse_unknown() lora_dropout=0.05 lora_dropout"},
      {"load_in_4bit=true", "refuse_unknown() load_in_4bit bf16 f32"},
      {"use_peft=true", "refuse_unknown() use_peft lora.rank 0"},
      {"train.bf16=true", "refuse_unknown() train.bf16 model.dtype bf16"},
      {"vf_coef=0.1", "refuse_unknown() vf_coef=0.1 vf_coef critic.learning_rate"},
      {"reward_model.path=x", "refuse_unknown() reward_model.path=x reward_model.path reward"},
      {"training_args.optim=adamw_torch",
       "refuse_unknown() training_args.optim=adamw_torch training_args.optim AdamW"},
      {"pipeline_parallel_size=2",
       "refuse_unknown() pipeline_parallel_size=2 pipeline_parallel_size shard.plan"},
      {"critic.params=node", "refuse_unknown() critic.params=node critic.params critic.shard"},
      {"data.dataset_name=x", "refuse_unknown() data.dataset_name data.train data.eval"},
      {"reward.path=x", "tri_key_match_entry() reward.path=x"},
      {"deepspeed=ds.json", "refuse_unknown() deepspeed=ds.json deepspeed shard.plan"},
      {"train.max_length=1024",
       "refuse_unknown() train.max_length=1024 train.max_length data.max_prompt_length"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_config c;
    assert_int_equal(load(GRPO, &c, NULL, ARGS(row[i][0])), TRI_ECONFIG);
    tri_config_free(&c);
    expect_refusal(row[i][1]);
  }
  bad(GRPO "critic:\n  path: x\n", NULL, "refuse_one() d.yaml:17 critic.path algo.name grpo");
  bad(GRPO "wandb:\n", NULL, "refuse_unknown() d.yaml:16 wandb metrics.jsonl log.txt run.output");
}

/* An unread name leads to the key meant by it, whatever its section. */
static void test_guesses(void **state) {
  static const char *const row[][2] = {
      {"algo.dpo_beta", "algo.beta"},
      {"dpo.beta", "algo.beta"},
      {"kl_beta", "algo.kl_coef"},
      {"algo.kl", "algo.kl_coef"},
      {"num_train_epoch", "train.epochs"},
      {"per_device_train_batchsize", "train.micro_batch_size"},
      {"train.lr_sched", "train.lr_scheduler"},
      {"algo.lr", "train.learning_rate"},
      {"train.warm", "train.warmup_steps"},
      {"data.path", "data.train"},
      {"data.val", "data.eval"},
      {"data.promptkey", "data.prompt_key"},
      {"model.name", "model.path"},
      {"rollout.temp", "rollout.temperature"},
      {"rollout.n_samples", "algo.num_generations"},
      {"algo.clip", "algo.clip_eps"},
      {"algo.lambda", "algo.lam"},
      {"grad_clip", "train.max_grad_norm"},
      {"checkpoint.steps", "checkpoint.save_steps"},
      {"eval.step", "eval.steps"},
      {"evaluation.steps", "eval.steps"},
      {"evl.temperature", "eval.temperature"},
      {"training.steps", "train.steps"},
      {"other.steps", "train.steps"},
      {"shard.stage", "shard.plan"},
      {"keep_checkpoints", "checkpoint.save_total_limit"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char *near = tri_key_nearest(row[i][0]);
    if (!near || strcmp(near, row[i][1])) fail_msg("%s: %s", row[i][0], near ? near : "nothing");
  }
  for (int i = 0; i < tri_n_key_guesses; i++) {
    const char *name = tri_key_guesses[i].name;
    assert_non_null(tri_key_find(tri_key_guesses[i].key));
    if (tri_key_find(name) || tri_key_hint_find(name)) fail_msg("%s is no guess", name);
    for (int k = 0; k < tri_n_key_aliases; k++)
      if (!strcmp(tri_key_aliases[k].name, name)) fail_msg("%s is read", name);
    for (int k = 0; k < i; k++)
      if (!strcmp(tri_key_guesses[k].name, name)) fail_msg("%s stands twice", name);
  }
}

/* A variable of a mapping given as a key is shown in the right form. */
static void test_given_whole(void **state) {
  static const char *const row[] = {
      "data.chat_template_kwargs.enable_thinking=false", "chat_template_kwargs.enable_thinking=false",
      "data.chat_template_kwarg.enable_thinking=false", "apply_chat_template_kwargs.enable_thinking=false",
      "data.chat_template_kwargs.x.enable_thinking=false"};
  tri_config c;

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    assert_int_equal(load(GRPO, &c, NULL, ARGS(row[i])), TRI_ECONFIG);
    tri_config_free(&c);
    expect_refusal(
        "refuse_in_map() data.chat_template_kwargs data.chat_template_kwargs={enable_thinking false}");
  }
  assert_int_equal(load(GRPO "chat_template_kwargs:\n  a: 1\n", &c, NULL, NULL), TRI_ECONFIG);
  tri_config_free(&c);
  expect_refusal("`chat_template_kwargs: {a: 1}` below 'data:'");
  assert_int_equal(load(GRPO "chat_template_kwargs:\n  a: 'it''s: {1}'\n", &c, NULL, NULL), TRI_ECONFIG);
  tri_config_free(&c);
  expect_refusal("refuse_in_map() {a it\\u0027s {1}\"}");
  assert_int_equal(load(GRPO, &c, NULL, ARGS("data.chat_template_kwargs.a=b, c")), TRI_ECONFIG);
  tri_config_free(&c);
  expect_refusal("refuse_in_map() data.chat_template_kwargs data.chat_template_kwargs={a c\"}");
  assert_int_equal(load(GRPO, &c, NULL, ARGS("data.chat_template_kwargs={enable_thinking: false}")), TRI_OK);
  tri_config_free(&c);
}

/* Checks one spelling of another program, its note and the value it sets. */
static void alias_in(const char *deck, const char *arg, const char *note, const char *canonical) {
  tri_config a, b;
  tri_text   notes = {0}, print_a = {0}, print_b = {0};

  if (load(deck, &a, &notes, ARGS(arg)) != TRI_OK) fail_msg("%s", tri_error_message());
  assert_non_null(notes.data);
  expect_lines(notes.data, note);
  if (load(deck, &b, NULL, ARGS(canonical)) != TRI_OK) fail_msg("%s", tri_error_message());
  assert_int_equal(tri_config_print(&a, &print_a), TRI_OK);
  assert_int_equal(tri_config_print(&b, &print_b), TRI_OK);
  assert_string_equal(print_a.data, print_b.data);
  tri_text_free(&notes);
  tri_text_free(&print_a);
  tri_text_free(&print_b);
  tri_config_free(&a);
  tri_config_free(&b);
}

static void alias(const char *arg, const char *note, const char *canonical) {
  alias_in(GRPO, arg, note, canonical);
}

/* Learned lines have one limit for the whole line. Generated answers have two limits instead. */
static void test_lengths_of_lines(void **state) {
  static const char *const name[] = {"max_seq_length", "cutoff_len", "max_len", "data.max_len",
                                     "args.cutoff_len"};

  (void)state;
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char arg[64], note[256];
    snprintf(arg, sizeof arg, "%s=64", name[i]);
    snprintf(note, sizeof note, "%s %s data.max_length\n", arg, name[i]);
    alias_in(SFT, arg, note, "data.max_length=64");
  }
  bad(GRPO, ARGS("data.max_length=64"),
      "refuse_key() data.max_length=64 data.max_length algo.name grpo data.max_prompt_length "
      "rollout.max_response_length");
  bad(GRPO, ARGS("data.overlong=drop"), "refuse_one() data.overlong=drop data.overlong algo.name grpo");
  bad(SFT, ARGS("data.overlong=left"), "refuse_value() data.overlong=left data.overlong left");
}

static void test_scaling(void **state) {
  (void)state;
  alias("fp16.loss_scale_window=4",
        "fp16.loss_scale_window=4 fp16.loss_scale_window train.loss_scale_window\nfp16.loss_scale_window=4 "
        "train.loss_scale_window model.dtype fp16\n",
        "train.loss_scale_window=4");
}

/* In the same section as in TRL. */
static void test_aliases_below_train(void **state) {
  (void)state;
  alias("train.gradient_checkpointing=true",
        "train.gradient_checkpointing=true train.gradient_checkpointing "
        "model.recompute\ntrain.gradient_checkpointing=true model.recompute true layer\n",
        "model.recompute=layer");
  alias("train.zero_stage=3",
        "train.zero_stage=3 train.zero_stage shard.plan\ntrain.zero_stage=3 3 shard.plan zero3\n",
        "shard.plan=zero3");
}

static void test_aliases(void **state) {
  (void)state;
  alias("lora_r=16", "lora_r=16 lora_r lora.rank\n", "lora.rank=16");
  alias("eps_clip=0.3", "eps_clip=0.3 eps_clip algo.clip_eps\n", "algo.clip_eps=0.3");
  alias("actor.eps_clip=0.3", "actor.eps_clip=0.3 actor.eps_clip algo.clip_eps\n", "algo.clip_eps=0.3");
  alias("algo.clip_ratio=0.3", "algo.clip_ratio=0.3 algo.clip_ratio algo.clip_eps\n", "algo.clip_eps=0.3");
  alias("epsilon=0.3", "epsilon=0.3 algo.clip_eps\n", "algo.clip_eps=0.3");
  alias("beta=0.1", "beta=0.1 algo.kl_coef\n", "algo.kl_coef=0.1");
  alias("algo.kl.init_coef=0.1", "algo.kl.init_coef=0.1 algo.kl.init_coef algo.kl_coef\n",
        "algo.kl_coef=0.1");
  alias("algo.n=4", "algo.n=4 algo.n algo.num_generations\n", "algo.num_generations=4");
  alias("rollout.n=4", "rollout.n=4 rollout.n algo.num_generations\n", "algo.num_generations=4");
  alias("actor_rollout_ref.rollout.n=4",
        "actor_rollout_ref.rollout.n=4 actor_rollout_ref.rollout.n algo.num_generations\n",
        "algo.num_generations=4");
  alias("num_generations=4", "num_generations=4 num_generations algo.num_generations\n",
        "algo.num_generations=4");
  alias("num_iterations=4", "num_iterations=4 num_iterations algo.ppo_epochs\n", "algo.ppo_epochs=4");
  alias("max_completion_length=4",
        "max_completion_length=4 max_completion_length rollout.max_response_length\n",
        "rollout.max_response_length=4");
  alias("data.max_response_length=4",
        "data.max_response_length=4 data.max_response_length rollout.max_response_length\n",
        "rollout.max_response_length=4");
  alias("per_device_train_batch_size=4",
        "per_device_train_batch_size=4 per_device_train_batch_size train.micro_batch_size\n",
        "train.micro_batch_size=4");
  alias("data.train_batch_size=4",
        "data.train_batch_size=4 data.train_batch_size rollout.rollout_batch_size\n",
        "rollout.rollout_batch_size=4");
  alias("gradient_clipping=4", "gradient_clipping=4 gradient_clipping train.max_grad_norm\n",
        "train.max_grad_norm=4");
  alias("trainer.save_freq=4", "trainer.save_freq=4 trainer.save_freq checkpoint.save_steps\n",
        "checkpoint.save_steps=4");
  alias("resume_from_checkpoint=ck", "resume_from_checkpoint=ck resume_from_checkpoint run.resume\n",
        "run.resume=ck");
  alias("run.resume=true", "run.resume=true run.resume true auto\n", "run.resume=auto");
  alias("run.resume=False", "run.resume=False run.resume False never\n", "run.resume=never");
  alias("run.resume=no", "run.resume=no run.resume no never\n", "run.resume=never");
  alias("run.resume=Auto", "run.resume=Auto run.resume Auto auto\n", "run.resume=auto");
  alias(
      "resume_from_checkpoint=true",
      "resume_from_checkpoint=true resume_from_checkpoint run.resume\nresume_from_checkpoint=true run.resume "
      "true auto\n",
      "run.resume=auto");
  alias("data.prompt_max_len=64", "data.prompt_max_len=64 data.prompt_max_len data.max_prompt_length\n",
        "data.max_prompt_length=64");
  alias("algo.advantage_estimator=group_norm",
        "algo.advantage_estimator=group_norm algo.advantage_estimator "
        "algo.name\nalgo.advantage_estimator=group_norm group_norm algo.name grpo\n",
        "algo.name=grpo");
  alias("rollout.top_k=-1", "rollout.top_k=-1 -1 rollout.top_k 0\n", "rollout.top_k=0");
  alias("zero.stage=2", "zero.stage=2 zero.stage shard.plan\nzero.stage=2 2 shard.plan zero2\n",
        "shard.plan=zero2");
  alias(
      "zero_optimization.stage=0",
      "zero_optimization.stage=0 zero_optimization.stage shard.plan\nzero_optimization.stage=0 0 shard.plan "
      "zero0\n",
      "shard.plan=zero0");
  alias("tensor_parallel_size=2", "tensor_parallel_size=2 tensor_parallel_size shard.tensor_parallel_size\n",
        "shard.tensor_parallel_size=2");
  alias("tensor_model_parallel_size=2",
        "tensor_model_parallel_size=2 tensor_model_parallel_size shard.tensor_parallel_size\n",
        "shard.tensor_parallel_size=2");
  alias("actor_rollout_ref.rollout.tensor_model_parallel_size=2",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=2 "
        "actor_rollout_ref.rollout.tensor_model_parallel_size shard.tensor_parallel_size\n",
        "shard.tensor_parallel_size=2");
  alias("vllm_tensor_parallel_size=4",
        "vllm_tensor_parallel_size=4 vllm_tensor_parallel_size shard.tensor_parallel_size\n",
        "shard.tensor_parallel_size=4");
  alias("tp_size=8", "tp_size=8 tp_size shard.tensor_parallel_size\n", "shard.tensor_parallel_size=8");
  alias("fsdp_size=-1", "fsdp_size=-1 fsdp_size shard.plan\nfsdp_size=-1 -1 shard.plan zero3\n",
        "shard.plan=zero3");
  alias("actor.kl_loss_type=low_var_kl",
        "actor.kl_loss_type=low_var_kl actor.kl_loss_type algo.kl_estimator\nactor.kl_loss_type=low_var_kl "
        "low_var_kl algo.kl_estimator k3\nactor.kl_loss_type=low_var_kl algo.kl_estimator algo.kl_coef 0\n",
        "algo.kl_estimator=k3");
  alias("algo.scale_rewards=false", "algo.scale_rewards=false algo.scale_rewards false none\n",
        "algo.scale_rewards=none");
  bad(GRPO, ARGS("fsdp_size=4"),
      "refuse_value() fsdp_size=4 shard.plan 4 zero0 zero1 zero2 zero3 run.ranks_per_node shard.params");
  bad(SFT "shard:\n  plan: zero1\nzero:\n  stage: 1\n", NULL,
      "refuse_twice() d.yaml:15 zero.stage shard.plan d.yaml:13");
  bad(SFT "shard:\n  params: none\n", ARGS("zero.stage=4"),
      "refuse_value() zero.stage=4 shard.plan 4 zero0 zero1 zero2 zero3");
}

/* Returns the meaning of an entry's name to an algorithm, "KEY" or "KEY (as ALIAS)", or "" for a name with
 * one meaning. */
static const char *meaning(const char *section, const char *key, const char *value, int line,
                           const tri_algo *a) {
  static char    text[256];
  tri_deck_entry e = {.section = (char *)section,
                      .key = (char *)key,
                      .value = (char *)value,
                      .line = line,
                      .unquoted = true,
                      .index = TRI_DECK_PLAIN,
                      .first = true};
  tri_key_match  m;

  text[0] = 0;
  if (tri_key_match_double(&e, a, &m))
    snprintf(text, sizeof text, m.alias ? "%s (as %s)" : "%s", tri_keys[m.key].name, m.alias);
  return text;
}

/* beta means algo.beta to algorithms with that key, and TRL's name for algo.kl_coef to those with a KL term.
 * To SFT it keeps its meaning. A null in a deck as used stays at its own key. */
static void test_two_meanings(void **state) {
  const tri_algo  dpo = {.name = "dpo", .needs = TRI_NEEDS_PAIRS, .loss = &tri_loss_dpo};
  const tri_algo *grpo = tri_algo_find("grpo"), *sft = tri_algo_find("sft");

  (void)state;
  assert_string_equal(meaning("algo", "beta", "0.1", 3, &dpo), "algo.beta");
  assert_string_equal(meaning("", "beta", "0.1", 0, &dpo), "algo.beta (as beta)");
  assert_string_equal(meaning("actor", "beta", "0.1", 3, &dpo), "algo.beta (as beta)");
  assert_string_equal(meaning("algo", "beta", "0.1", 3, grpo), "algo.kl_coef (as beta)");
  assert_string_equal(meaning("", "beta", "0.1", 0, grpo), "algo.kl_coef (as beta)");
  assert_string_equal(meaning("algo", "beta", "null", 3, grpo), "algo.beta");
  assert_string_equal(meaning("algo", "beta", "null", 0, grpo), "algo.kl_coef (as beta)");
  assert_string_equal(meaning("algo", "beta", "0.1", 3, sft), "algo.beta");
  assert_string_equal(meaning("", "loss_type", "ipo", 0, &dpo), "algo.dpo_loss (as loss_type)");
  assert_string_equal(meaning("", "loss_type", "grpo", 0, grpo), "algo.loss_agg_mode (as loss_type)");
  assert_string_equal(meaning("algo", "kl_coef", "0.1", 3, &dpo), "");
  assert_string_equal(meaning("algo", "dpo_loss", "ipo", 3, grpo), "");
  alias("algo.beta=0.1", "algo.beta=0.1 algo.beta algo.kl_coef\n", "algo.kl_coef=0.1");
  bad(GRPO, ARGS("beta=0.1", "algo.kl_coef=0.2"),
      "refuse_twice() algo.kl_coef=0.2 algo.kl_coef beta beta=0.1");
  bad(SFT, ARGS("algo.beta=0.1"), "refuse_one() algo.beta=0.1 algo.beta algo.name sft");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_peers_keys),   cmocka_unit_test(test_guesses),
      cmocka_unit_test(test_given_whole),  cmocka_unit_test(test_scaling),
      cmocka_unit_test(test_aliases),      cmocka_unit_test(test_aliases_below_train),
      cmocka_unit_test(test_two_meanings), cmocka_unit_test(test_lengths_of_lines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
