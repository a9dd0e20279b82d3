/* test_config_peers.c - the spellings of other programs, read or refused with what does it here. Judge:
 * exact. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_keys.h"
#include "config_case.h"

/* Keys of other programs that mean nothing here: a sentence says what does. */
static void test_peers_keys(void **state) {
  static const char *const row[][2] = {
      {"report_to=wandb", "'report_to': metrics.jsonl"},
      {"use_tensorboard=logs", "'use_tensorboard': run.tensorboard: true"},
      {"trainer.logger=[console]", "'trainer.logger': metrics.jsonl"},
      {"train.logging_steps=10", "'train.logging_steps': metrics.jsonl has a line"},
      {"lora_dropout=0.05", "'lora_dropout': adapters are trained without dropout here"},
      {"load_in_4bit=true", "'load_in_4bit': weights are bf16 or f32"},
      {"use_peft=true", "'use_peft': lora.rank above 0"},
      {"train.bf16=true", "'train.bf16': give model.dtype"},
      {"vf_coef=0.1", "'vf_coef': the critic has an optimizer of its own: critic.learning_rate"},
      {"reward_model.path=x", "'reward_model.path': a reward model stands in the list"},
      {"training_args.optim=adamw_torch", "'training_args.optim': the optimizer is AdamW"},
      {"critic.params=node", "'critic.params': its plan is one word: critic.shard"},
      {"data.dataset_name=x", "'data.dataset_name': data.train and data.eval take files of JSON lines"},
      {"reward.path=x", "reward is a list: write 'reward=[{name: exact}]' or 'reward=[{name: model, path: "},
      {"deepspeed=ds.json", "'deepspeed': shard.plan"},
      {"train.max_length=1024", "'train.max_length': data.max_prompt_length"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_config c;
    assert_int_equal(load(GRPO, &c, NULL, ARGS(row[i][0])), TRI_ECONFIG);
    tri_config_free(&c);
    if (!strstr(tri_error_message(), row[i][1]))
      fail_msg("'%s' is not in '%s'", row[i][1], tri_error_message());
  }
  bad(GRPO "critic:\n  path: x\n", NULL, "d.yaml:17: critic.path means nothing to algo.name grpo: remove it");
  bad(GRPO "wandb:\n", NULL,
      "d.yaml:16: unknown key 'wandb': metrics.jsonl and log.txt in run.output hold what is known of a run; "
      "nothing is sent anywhere");
}

/* A name that is not read leads to the key that is meant by it, whatever its section. */
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

/* A variable of a mapping that is given as a key is shown in the form that is read. */
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
    if (!strstr(tri_error_message(), "'data.chat_template_kwargs={enable_thinking: false}'"))
      fail_msg("%s: '%s'", row[i], tri_error_message());
  }
  assert_int_equal(load(GRPO "chat_template_kwargs:\n  a: 1\n", &c, NULL, NULL), TRI_ECONFIG);
  tri_config_free(&c);
  assert_non_null(strstr(tri_error_message(), "`chat_template_kwargs: {a: 1}` below 'data:'"));
  assert_int_equal(load(GRPO "chat_template_kwargs:\n  a: 'it''s: {1}'\n", &c, NULL, NULL), TRI_ECONFIG);
  tri_config_free(&c);
  assert_non_null(strstr(tri_error_message(), "{a: \"it\\u0027s: {1}\"}"));
  assert_int_equal(load(GRPO, &c, NULL, ARGS("data.chat_template_kwargs.a=b, c")), TRI_ECONFIG);
  tri_config_free(&c);
  assert_non_null(strstr(tri_error_message(), "'data.chat_template_kwargs={a: \"b, c\"}'"));
  assert_int_equal(load(GRPO, &c, NULL, ARGS("data.chat_template_kwargs={enable_thinking: false}")), TRI_OK);
  tri_config_free(&c);
}

/* One spelling of another program, the note it leaves and what it set. */
static void alias_in(const char *deck, const char *arg, const char *note, const char *canonical) {
  tri_config a, b;
  tri_text   notes = {0}, print_a = {0}, print_b = {0};

  if (load(deck, &a, &notes, ARGS(arg)) != TRI_OK) fail_msg("%s", tri_error_message());
  assert_non_null(notes.data);
  assert_string_equal(notes.data, note);
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

/* Where lines are learned a whole line has a limit; where answers are generated there are two instead. */
static void test_lengths_of_lines(void **state) {
  static const char *const name[] = {"max_seq_length", "cutoff_len", "max_len", "data.max_len",
                                     "args.cutoff_len"};

  (void)state;
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char arg[64], note[256];
    snprintf(arg, sizeof arg, "%s=64", name[i]);
    snprintf(note, sizeof note, "argument '%s': %s is read as data.max_length\n", arg, name[i]);
    alias_in(SFT, arg, note, "data.max_length=64");
  }
  bad(GRPO, ARGS("data.max_length=64"),
      "argument 'data.max_length=64': data.max_length means nothing to algo.name grpo: "
      "data.max_prompt_length and rollout.max_response_length are its limits");
  bad(GRPO, ARGS("data.overlong=drop"),
      "argument 'data.overlong=drop': data.overlong means nothing to algo.name grpo: remove it");
  bad(SFT, ARGS("data.overlong=left"),
      "argument 'data.overlong=left': data.overlong = left: must be one of error, drop, truncate, auto");
}

static void test_scaling(void **state) {
  (void)state;
  alias(
      "fp16.loss_scale_window=4",
      "argument 'fp16.loss_scale_window=4': fp16.loss_scale_window is read as train.loss_scale_window\n"
      "argument 'fp16.loss_scale_window=4': train.loss_scale_window has no effect: model.dtype is not fp16\n",
      "train.loss_scale_window=4");
}

/* Below the section where TRL has them. */
static void test_aliases_below_train(void **state) {
  (void)state;
  alias("train.gradient_checkpointing=true",
        "argument 'train.gradient_checkpointing=true': train.gradient_checkpointing is read as "
        "model.recompute\n"
        "argument 'train.gradient_checkpointing=true': true is read as model.recompute: layer\n",
        "model.recompute=layer");
  alias("train.zero_stage=3",
        "argument 'train.zero_stage=3': train.zero_stage is read as shard.plan\n"
        "argument 'train.zero_stage=3': 3 is read as shard.plan: zero3\n",
        "shard.plan=zero3");
}

static void test_aliases(void **state) {
  (void)state;
  alias("lora_r=16", "argument 'lora_r=16': lora_r is read as lora.rank\n", "lora.rank=16");
  alias("eps_clip=0.3", "argument 'eps_clip=0.3': eps_clip is read as algo.clip_eps\n", "algo.clip_eps=0.3");
  alias("actor.eps_clip=0.3", "argument 'actor.eps_clip=0.3': actor.eps_clip is read as algo.clip_eps\n",
        "algo.clip_eps=0.3");
  alias("algo.clip_ratio=0.3", "argument 'algo.clip_ratio=0.3': algo.clip_ratio is read as algo.clip_eps\n",
        "algo.clip_eps=0.3");
  alias("epsilon=0.3", "argument 'epsilon=0.3': epsilon is read as algo.clip_eps\n", "algo.clip_eps=0.3");
  alias("beta=0.1", "argument 'beta=0.1': beta is read as algo.kl_coef\n", "algo.kl_coef=0.1");
  alias("algo.kl.init_coef=0.1",
        "argument 'algo.kl.init_coef=0.1': algo.kl.init_coef is read as algo.kl_coef\n", "algo.kl_coef=0.1");
  alias("algo.n=4", "argument 'algo.n=4': algo.n is read as algo.num_generations\n",
        "algo.num_generations=4");
  alias("rollout.n=4", "argument 'rollout.n=4': rollout.n is read as algo.num_generations\n",
        "algo.num_generations=4");
  alias("actor_rollout_ref.rollout.n=4",
        "argument 'actor_rollout_ref.rollout.n=4': actor_rollout_ref.rollout.n is read as "
        "algo.num_generations\n",
        "algo.num_generations=4");
  alias("num_generations=4",
        "argument 'num_generations=4': num_generations is read as algo.num_generations\n",
        "algo.num_generations=4");
  alias("num_iterations=4", "argument 'num_iterations=4': num_iterations is read as algo.ppo_epochs\n",
        "algo.ppo_epochs=4");
  alias("max_completion_length=4",
        "argument 'max_completion_length=4': max_completion_length is read as rollout.max_response_length\n",
        "rollout.max_response_length=4");
  alias("data.max_response_length=4",
        "argument 'data.max_response_length=4': data.max_response_length is read as "
        "rollout.max_response_length\n",
        "rollout.max_response_length=4");
  alias("per_device_train_batch_size=4",
        "argument 'per_device_train_batch_size=4': per_device_train_batch_size is read as "
        "train.micro_batch_size\n",
        "train.micro_batch_size=4");
  alias("data.train_batch_size=4",
        "argument 'data.train_batch_size=4': data.train_batch_size is read as rollout.rollout_batch_size\n",
        "rollout.rollout_batch_size=4");
  alias("gradient_clipping=4",
        "argument 'gradient_clipping=4': gradient_clipping is read as train.max_grad_norm\n",
        "train.max_grad_norm=4");
  alias("trainer.save_freq=4",
        "argument 'trainer.save_freq=4': trainer.save_freq is read as checkpoint.save_steps\n",
        "checkpoint.save_steps=4");
  alias("resume_from_checkpoint=ck",
        "argument 'resume_from_checkpoint=ck': resume_from_checkpoint is read as run.resume\n",
        "run.resume=ck");
  alias("run.resume=true", "argument 'run.resume=true': true is read as run.resume: auto\n",
        "run.resume=auto");
  alias("run.resume=False", "argument 'run.resume=False': False is read as run.resume: never\n",
        "run.resume=never");
  alias("run.resume=no", "argument 'run.resume=no': no is read as run.resume: never\n", "run.resume=never");
  alias("run.resume=Auto", "argument 'run.resume=Auto': Auto is read as run.resume: auto\n",
        "run.resume=auto");
  alias("resume_from_checkpoint=true",
        "argument 'resume_from_checkpoint=true': resume_from_checkpoint is read as run.resume\n"
        "argument 'resume_from_checkpoint=true': true is read as run.resume: auto\n",
        "run.resume=auto");
  alias("data.prompt_max_len=64",
        "argument 'data.prompt_max_len=64': data.prompt_max_len is read as data.max_prompt_length\n",
        "data.max_prompt_length=64");
  alias("algo.advantage_estimator=group_norm",
        "argument 'algo.advantage_estimator=group_norm': algo.advantage_estimator is read as algo.name\n"
        "argument 'algo.advantage_estimator=group_norm': group_norm is read as algo.name: grpo\n",
        "algo.name=grpo");
  alias("rollout.top_k=-1", "argument 'rollout.top_k=-1': -1 is read as rollout.top_k: 0\n",
        "rollout.top_k=0");
  alias("zero.stage=2",
        "argument 'zero.stage=2': zero.stage is read as shard.plan\nargument 'zero.stage=2': 2 is read as "
        "shard.plan: zero2\n",
        "shard.plan=zero2");
  alias("zero_optimization.stage=0",
        "argument 'zero_optimization.stage=0': zero_optimization.stage is read as shard.plan\n"
        "argument 'zero_optimization.stage=0': 0 is read as shard.plan: zero0\n",
        "shard.plan=zero0");
  alias("fsdp_size=-1",
        "argument 'fsdp_size=-1': fsdp_size is read as shard.plan\nargument 'fsdp_size=-1': -1 is read as "
        "shard.plan: zero3\n",
        "shard.plan=zero3");
  alias("actor.kl_loss_type=low_var_kl",
        "argument 'actor.kl_loss_type=low_var_kl': actor.kl_loss_type is read as algo.kl_estimator\n"
        "argument 'actor.kl_loss_type=low_var_kl': low_var_kl is read as algo.kl_estimator: k3\n"
        "argument 'actor.kl_loss_type=low_var_kl': algo.kl_estimator has no effect: algo.kl_coef is 0\n",
        "algo.kl_estimator=k3");
  alias("algo.scale_rewards=false",
        "argument 'algo.scale_rewards=false': false is read as algo.scale_rewards: none\n",
        "algo.scale_rewards=none");
  bad(GRPO, ARGS("fsdp_size=4"),
      "argument 'fsdp_size=4': shard.plan = 4: must be one of hybrid, zero0, zero1, zero2, zero3; a group "
      "of ranks is a node here: give run.ranks_per_node, and node to shard.params, .grads and .optimizer");
  bad(SFT "shard:\n  plan: zero1\nzero:\n  stage: 1\n", NULL,
      "d.yaml:15: zero.stage and shard.plan (d.yaml:13) contradict each other: both mean shard.plan, keep "
      "one");
  bad(SFT "shard:\n  params: none\n", ARGS("zero.stage=4"),
      "argument 'zero.stage=4': shard.plan = 4: must be one of hybrid, zero0, zero1, zero2, zero3");
}

/* What an entry's name is to an algorithm: "KEY" or "KEY (as ALIAS)"; "" where it has one meaning. */
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

/* beta is the algorithm's own to those that read algo.beta, TRL's word for algo.kl_coef to those with a KL
 * term; to SFT it is what it was. What null takes back in a deck as used stays where it stands. */
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
  alias("algo.beta=0.1", "argument 'algo.beta=0.1': algo.beta is read as algo.kl_coef\n", "algo.kl_coef=0.1");
  bad(GRPO, ARGS("beta=0.1", "algo.kl_coef=0.2"),
      "argument 'algo.kl_coef=0.2': algo.kl_coef and beta (argument 'beta=0.1') contradict each other: both "
      "mean algo.kl_coef, keep one");
  bad(SFT, ARGS("algo.beta=0.1"),
      "argument 'algo.beta=0.1': algo.beta means nothing to algo.name sft: remove it");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_peers_keys),   cmocka_unit_test(test_guesses),
      cmocka_unit_test(test_given_whole),  cmocka_unit_test(test_scaling),
      cmocka_unit_test(test_aliases),      cmocka_unit_test(test_aliases_below_train),
      cmocka_unit_test(test_two_meanings), cmocka_unit_test(test_lengths_of_lines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
