/* test_config.c - decks to settings and back, refusals with places. Judge: exact; inputs/reference.yaml. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_case.h"

#include "base/file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_defaults(void **state) {
  (void)state;
  tri_config c = good(GRPO, NULL);

  assert_string_equal(c.run.output, "out");
  assert_int_equal(c.run.seed, 42);
  assert_int_equal(c.run.sampler, TRI_CONFIG_EXACT);
  assert_string_equal(c.run.resume, "auto");
  assert_null(c.model.config);
  assert_int_equal(c.model.dtype, TRI_BF16);
  assert_int_equal(c.data.train.n, 1);
  assert_string_equal(c.data.train.item[0], "t.jsonl");
  assert_string_equal(c.data.prompt_key, "prompt");
  assert_true(c.data.shuffle);
  assert_string_equal(c.algo.row.name, "grpo");
  assert_int_equal(c.algo.num_generations, 8);
  assert_true(c.algo.opt.clip_eps == 0.2 && c.algo.opt.clip_eps_high == 0.2 && c.algo.opt.kl_coef == 0);
  assert_int_equal(c.algo.opt.kl_estimator, TRI_KL_K3);
  assert_true(c.algo.opt.advantage_eps == 1e-4);
  assert_int_equal(c.rollout.rollout_batch_size, 4);
  assert_int_equal(c.rollout.stop.n, 0);
  assert_int_equal(c.reward.n, 1);
  assert_true(c.reward.item[0].weight == 1);
  assert_int_equal(c.train.steps, 10);
  assert_int_equal(c.train.train_batch_size, 0);
  assert_true(c.train.lr.peak == 1e-6 && c.train.optim.beta2 == 0.95);
  assert_int_equal(c.shard.plan, 0);
  assert_int_equal(c.shard.scope.params, TRI_SHARD_NODE);
  assert_int_equal(c.shard.scope.grads, TRI_SHARD_NODE);
  assert_int_equal(c.shard.scope.optim, TRI_SHARD_WORLD);
  assert_int_equal(c.checkpoint.save_total_limit, 2);
  assert_true(c.checkpoint.save_final);
  assert_true(c.checkpoint.save_steps == 0 && c.checkpoint.save_minutes == 30);
  assert_true(c.eval.temperature == 0 && c.eval.num_generations == 1);
  tri_config_free(&c);
  assert_int_equal(tri_host_bytes(), 0);
}

static void test_arguments_win(void **state) {
  (void)state;
  tri_config c = good(GRPO "  clip_eps: 0.1\n",
                      ARGS("algo.eps_clip=0.3", "train.steps=null", "train.epochs=2", "data.train=[a, b]",
                           "reward=[{pattern: 'x+', name: regex, weight: -2e-1}, {name: number}]",
                           "rollout.stop=\n", "shard.params=world", "run.seed=18446744073709551615"));

  assert_true(c.algo.opt.clip_eps == 0.3 && c.algo.opt.clip_eps_high == 0.3);
  assert_int_equal(c.train.steps, 0);
  assert_int_equal(c.train.epochs, 2);
  assert_int_equal(c.data.train.n, 2);
  assert_string_equal(c.data.train.item[1], "b");
  assert_int_equal(c.reward.n, 2);
  assert_string_equal(tri_reward_get(&c.reward.item[0], "pattern"), "x+");
  assert_true(c.reward.item[0].weight == -0.2 && c.reward.item[1].weight == 1);
  assert_string_equal(c.rollout.stop.item[0], "\n");
  assert_int_equal(c.shard.plan, TRI_CONFIG_OWN_PLAN);
  assert_int_equal(c.shard.scope.params, TRI_SHARD_WORLD);
  assert_true(c.run.seed == UINT64_MAX);
  tri_config_free(&c);
}

/* bad, of a sentence that ends with the keys of a section. */
static void bad_keys(const char *text, const char *const *args, const char *sentence, const char *section) {
  char   want[1024];
  size_t n = strlen(section);

  snprintf(want, sizeof want, "%s", sentence);
  for (int i = 0, k = 0; i < tri_n_keys; i++) {
    const char *name = tri_keys[i].name;
    size_t      used = strlen(want);
    if (strncmp(name, section, n) != 0 || name[n] != '.') continue;
    snprintf(want + used, sizeof want - used, "%s%s", k++ ? ", " : "", name + n + 1);
  }
  bad(text, args, want);
}

/* bad, of a sentence that ends with the fields a reward may have, each once. */
static void bad_fields(const char *text, const char *const *args, const char *sentence) {
  char              want[1024], list[1024] = ", name, weight,";
  const tri_reward *kind;

  for (int i = 0; (kind = tri_reward_at(i)) != NULL; i++)
    for (const tri_reward_field *f = kind->field; f && f->name; f++) {
      char   word[64];
      size_t used = strlen(list);
      snprintf(word, sizeof word, " %s,", f->name);
      if (!strstr(list, word)) snprintf(list + used, sizeof list - used, "%s", word);
    }
  list[strlen(list) - 1] = 0;
  snprintf(want, sizeof want, "%s%s", sentence, list + 2);
  bad(text, args, want);
}

static void test_unknown(void **state) {
  (void)state;
  bad(SFT "  learning_rat: 1\n", NULL,
      "d.yaml:12: unknown key 'train.learning_rat'; the nearest known key is 'train.learning_rate'");
  bad(SFT "  clip_eps: 0.1\n", NULL,
      "d.yaml:12: unknown key 'train.clip_eps'; the nearest known key is 'algo.clip_eps'");
  bad(SFT "  epsilon: 0.1\n", NULL,
      "d.yaml:12: unknown key 'train.epsilon'; the nearest known key is 'algo.clip_eps'");
  bad(SFT, ARGS("train.stps=3"),
      "argument 'train.stps=3': unknown key 'train.stps'; the nearest known key is 'train.steps'");
  bad(SFT, ARGS("x=1"),
      "argument 'x=1': unknown key 'x'; known sections: run, model, lora, data, algo, rollout, "
      "train, critic, reference, shard, checkpoint, eval, reward");
  bad(SFT, ARGS("foo.bar=1"),
      "argument 'foo.bar=1': unknown key 'foo.bar'; known sections: run, model, lora, data, algo, rollout, "
      "train, critic, reference, shard, checkpoint, eval, reward");
  bad(SFT, ARGS("trian.steps=3"),
      "argument 'trian.steps=3': unknown key 'trian.steps'; the nearest known key is 'train.steps'");
  bad_keys(SFT, ARGS("eval.qqqqqqqqqq=3"),
           "argument 'eval.qqqqqqqqqq=3': unknown key 'eval.qqqqqqqqqq'; known here: ", "eval");
  bad_keys(SFT, ARGS("algo.qq=3"), "argument 'algo.qq=3': unknown key 'algo.qq'; known here: ", "algo");
  bad(SFT, ARGS("zzzzz.qqqqqqqqqqqq=3"),
      "argument 'zzzzz.qqqqqqqqqqqq=3': unknown key 'zzzzz.qqqqqqqqqqqq'; known sections: run, model, lora, "
      "data, algo, rollout, train, critic, reference, shard, checkpoint, eval, reward");
  bad(SFT "trian:\n", NULL, "d.yaml:12: unknown section 'trian'; the nearest known section is 'train'");
  bad(SFT "eps_clip: 0.1\n", NULL,
      "d.yaml:12: 'eps_clip' stands outside of a section: write it as 'clip_eps' below 'algo:'");
  bad_keys("run: x\n", NULL, "d.yaml:1: 'run' is a section, with keys below it: ", "run");
  bad_keys(SFT, ARGS("run=x"), "argument 'run=x': 'run' is a section, with keys below it: ", "run");
  bad_keys(SFT "eval: 5\n", NULL, "d.yaml:12: 'eval' is a section, with keys below it: ", "eval");
  bad_keys(SFT, ARGS("train={steps: 3}"),
           "argument 'train={steps: 3}': 'train' is a section, with keys below it: ",
           "train"); /* not data.train */
  bad(SFT "eval:\n  - a\n", NULL, "d.yaml:13: section 'eval' holds keys, not a list");
  bad(SFT "actor:\n  ppo_mini_batch_size: 3\n", NULL,
      "d.yaml:13: unknown key 'actor.ppo_mini_batch_size': it counts prompts; train.train_batch_size counts "
      "samples: prompts x algo.num_generations");
}

/* A deck without sections: one line for each key, the fault that says where it belongs. Judge: no
 * note of it. */
static void test_flat_deck(void **state) {
  static const char flat[] =
      "output_dir: out\nbf16: true\nper_device_train_batch_size: 1\ngradient_checkpointing: true\n"
      "beta: 0.1\nnum_generations: 4\n";
  tri_text   notes = {0};
  tri_faults faults = {.n = 0};
  tri_config c;
  int        lines = 0;

  (void)state;
  assert_int_equal(tri_config_load_text("d.yaml", flat, strlen(flat), &c, &notes, &faults), TRI_OK);
  assert_true(faults.n >= 6);
  assert_null(notes.data);
  for (const char *at = faults.text.data; (at = strstr(at, "gradient_checkpointing")) != NULL; at++) lines++;
  assert_int_equal(lines, 1);
  tri_text_free(&notes);
  tri_text_free(&faults.text);
  tri_config_free(&c);
}

static void test_values(void **state) {
  (void)state;
  bad(SFT "  learning_rate: -1\n", NULL, "d.yaml:12: train.learning_rate = -1: must be a number > 0");
  bad(SFT "  learning_rate: .inf\n", NULL, "d.yaml:12: train.learning_rate = .inf: must be a number > 0");
  bad(SFT "  learning_rate: nan\n", NULL, "d.yaml:12: train.learning_rate = nan: must be a number > 0");
  bad(SFT "  learning_rate: 1e999\n", NULL, "d.yaml:12: train.learning_rate = 1e999: must be a number > 0");
  bad(SFT "  learning_rate: 1e-999\n", NULL, "d.yaml:12: train.learning_rate = 1e-999: must be a number > 0");
  bad(SFT "  learning_rate: 1e-6x\n", NULL, "d.yaml:12: train.learning_rate = 1e-6x: must be a number > 0");
  bad(SFT "  learning_rate: 0x1p3\n", NULL, "d.yaml:12: train.learning_rate = 0x1p3: must be a number > 0");
  for (const char *const *v = ARGS("1e-3", "9.99", "5"); *v; v++) { /* would end healthy runs */
    char arg[64], message[256];
    snprintf(arg, sizeof arg, "run.timeout_s=%s", *v);
    snprintf(message, sizeof message,
             "argument '%s': run.timeout_s = %g: must be 0 (ranks wait for ever) or at least 10 s: a healthy "
             "rank may pause for some seconds",
             arg, strtod(*v, NULL));
    bad(SFT, ARGS(arg), message);
  }
  bad(SFT "  adam_beta1: 1\n", NULL, "d.yaml:12: train.adam_beta1 = 1: must be a number >= 0 and < 1");
  bad(SFT "  micro_batch_size: 0x2\n", NULL,
      "d.yaml:12: train.micro_batch_size = 0x2: must be a whole number >= 1 and <= 1000000000");
  for (const char *const *v = ARGS("1_000", "1e3", "2.0", "010", "0", "-1", "99999999999999999999"); *v;
       v++) {
    char arg[64], message[256];
    snprintf(arg, sizeof arg, "train.micro_batch_size=%s", *v);
    snprintf(message, sizeof message,
             "argument '%s': train.micro_batch_size = %s: must be a whole number >= 1 and <= 1000000000", arg,
             *v);
    bad(SFT, ARGS(arg), message);
  }
  bad(SFT, ARGS("run.seed=-1"),
      "argument 'run.seed=-1': run.seed = -1: must be a whole number >= 0 and <= 18446744073709551615");
  bad(SFT "  steps2: 1\n  micro_batch_size:\n", NULL,
      "d.yaml:12: unknown key 'train.steps2'; the nearest known key is 'train.steps'");
  bad(SFT "  micro_batch_size:\n", NULL,
      "d.yaml:12: train.micro_batch_size has no value; null leaves it at its default");
  bad(SFT "  micro_batch_size: [1]\n", NULL, "d.yaml:12: train.micro_batch_size takes one value, not a list");
  bad(SFT "checkpoint:\n  save_final: yes\n", NULL,
      "d.yaml:13: checkpoint.save_final = yes: must be true or false (yes, no, on, off are not read)");
  bad(SFT, ARGS("model.dtype=bf6"),
      "argument 'model.dtype=bf6': model.dtype = bf6: must be one of f32, bf16, fp16; nearest: bf16");
  bad(SFT, ARGS("data.train=[{a: 1}]"),
      "argument 'data.train=[{a: 1}]': data.train is a list of texts: 'a:' does not belong in it");
  bad(SFT, ARGS("data.train=[a, '']"), "argument 'data.train=[a, '']': an item of data.train is empty");
}

static tri_status load_typed(const char *argument) {
  char      *arg = strdup(argument);
  tri_config c;
  tri_status st;

  tri_error_clear();
  st = tri_config_load("d.yaml", &arg, 1, &c, NULL);
  tri_config_free(&c);
  free(arg);
  return st;
}

/* What a shell would expand is refused in what a user typed, unless there are files of that name; what a
 * checkpoint has is what its files were called. */
static void test_words_of_a_shell(void **state) {
  static const char *const bad[][2] = {
      {"run.output=~/x", "run.output = ~/x: ~ is not expanded here; write the path out"},
      {"run.output=$RUN", "run.output = $RUN: $ is not expanded here; write the path out"},
      {"run.output=we$ird/$RUN", "run.output = we$ird/$RUN: $ is not"},
      {"model.path=a/${HOME}", "model.path = a/${HOME}: $ is not expanded here; write the path out"},
      {"data.train=[e, $$HOME/e]", "data.train = $$HOME/e: $ is not expanded here; write the path out"}};
  static const char *const good_too[] = {"run.output=we$ird", "run.output=we$ird/new", "data.train=we$ird/a",
                                         "run.output=./~x/a~$1$", "data.prompt_key=$x"};
  char                     folder[] = "/tmp/trireme-config-XXXXXX", *before = getcwd(NULL, 0);

  (void)state;
  assert_true(before && mkdtemp(folder) && !chdir(folder) && !mkdir("we$ird", 0700));
  assert_int_equal(tri_file_write("d.yaml", SFT, strlen(SFT)), TRI_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(load_typed(bad[i][0]), TRI_ECONFIG);
    assert_non_null(strstr(tri_error_message(), bad[i][1]));
    tri_config c = good(SFT, ARGS(bad[i][0]));
    tri_config_free(&c);
  }
  for (size_t i = 0; i < sizeof good_too / sizeof *good_too; i++)
    if (load_typed(good_too[i]) != TRI_OK) fail_msg("%s", tri_error_message());
  assert_true(!unlink("d.yaml") && !rmdir("we$ird") && !chdir(before) && !rmdir(folder));
  free(before);
}

/* A list of words, as it was given, and again from the deck as used. */
static void test_reward_list(void **state) {
  tri_config c = good(
      GRPO, ARGS("reward=[{name: process, command: [python3, 'a b', \"\\\"c: d]\", -u], timeout_s: 5}]"));
  tri_text    out = {0};
  int         n;
  const char *word = tri_reward_get_list(&c.reward.item[0], "command", &n);

  (void)state;
  assert_int_equal(n, 4);
  assert_string_equal(word, "python3");
  assert_string_equal(tri_reward_next(word), "a b");
  assert_string_equal(tri_reward_next(tri_reward_next(word)), "\"c: d]");
  assert_string_equal(tri_reward_next(tri_reward_next(tri_reward_next(word))), "-u");
  assert_string_equal(tri_reward_get(&c.reward.item[0], "timeout_s"), "5");
  assert_int_equal(tri_config_print(&c, &out), TRI_OK);
  assert_non_null(
      strstr(out.data, "    command: [\"python3\", \"a b\", \"\\\"c: d]\", \"-u\"]\n    timeout_s: \"5\"\n"));
  tri_text_free(&out);
  tri_config_free(&c);
  bad(GRPO, ARGS("reward=[{name: process, command: verify}]"),
      "argument 'reward=[{name: process, command: verify}]': command of a reward is a list of words: "
      "[verify]");
  bad(GRPO, ARGS("reward=[{name: process, command: broken.py}]"),
      "argument 'reward=[{name: process, command: broken.py}]': command of a reward is a list of words: "
      "[python3, broken.py]");
  bad(GRPO, ARGS("reward=[{name: process, command: python3  a.py -u}]"),
      "argument 'reward=[{name: process, command: python3  a.py -u}]': command of a reward is a list of "
      "words: "
      "[python3, a.py, -u]");
  bad(GRPO, ARGS("reward=[{name: verify.py}]"),
      "argument 'reward=[{name: verify.py}]': there is no reward 'verify.py'; a program of yours is reward "
      "process: {name: process, command: [python3, verify.py]}");
  bad(GRPO, ARGS("reward=[{name: process, command: []}]"),
      "argument 'reward=[{name: process, command: []}]': command of a reward is a list of words: "
      "[python3, verify.py]");
  bad(GRPO, ARGS("reward=[{name: process, command: [a, '']}]"),
      "argument 'reward=[{name: process, command: [a, '']}]': command of a reward has an empty word");
  bad(GRPO, ARGS("reward=[{name: process}]"),
      "argument 'reward=[{name: process}]': reward process needs a command");
}

static void test_rewards(void **state) {
  char names[TRI_REWARD_NAMES_BYTES], lacks[TRI_REWARD_NAMES_BYTES + 80];

  (void)state;
  tri_reward_names(" or ", names);
  snprintf(lacks, sizeof lacks, "argument 'reward=[{weight: 1}]': a reward needs a name: %s", names);
  bad(GRPO, ARGS("reward=[{name: numbr}]"),
      "argument 'reward=[{name: numbr}]': there is no reward 'numbr'; the nearest known is number");
  bad(GRPO, ARGS("reward=[{weight: 1}]"), lacks);
  bad(GRPO, ARGS("reward=[{name: regex}]"),
      "argument 'reward=[{name: regex}]': reward regex needs a pattern");
  bad(GRPO, ARGS("reward=[{name: regex, pattern: ''}]"),
      "argument 'reward=[{name: regex, pattern: ''}]': pattern has no value");
  bad(GRPO, ARGS("reward=[{name: exact, pattern: x}]"),
      "argument 'reward=[{name: exact, pattern: x}]': reward exact has no use for a pattern");
  bad(GRPO, ARGS("reward=[{name: exact, wieght: 1}]"),
      "argument 'reward=[{name: exact, wieght: 1}]': unknown field 'wieght' of a reward; the nearest known "
      "field is weight");
  bad(GRPO, ARGS("reward=[{name: exact, weight: .nan}]"),
      "argument 'reward=[{name: exact, weight: .nan}]': reward weight = .nan: must be a number");
  bad(GRPO, ARGS("reward=[{name: exact, weight: [1, 2]}]"),
      "argument 'reward=[{name: exact, weight: [1, 2]}]': weight of a reward takes one value, not a list");
  bad(GRPO, ARGS("reward=[{name: exact, pattern: []}]"),
      "argument 'reward=[{name: exact, pattern: []}]': pattern of a reward takes one value, not a list");
  bad_fields(
      GRPO, ARGS("reward=[{name: exact, colour: [a, b]}]"),
      "argument 'reward=[{name: exact, colour: [a, b]}]': unknown field 'colour' of a reward; known: ");
  bad(GRPO, ARGS("reward=exact"),
      "argument 'reward=exact': reward is a list: write '- name: exact' or '- {name: model, path: FOLDER}' "
      "below 'reward:', or 'reward=[{name: exact}]'");
  bad(SFT "reward:\n  name: exact\n", NULL,
      "d.yaml:13: reward is a list: write '- name: exact' or '- {name: model, path: FOLDER}' below "
      "'reward:'");
  bad(SFT, ARGS("eval.steps=5", "data.eval=e.jsonl", "reward=[{name: exact}]"),
      "argument 'eval.steps=5': eval.steps = 5 needs rollout.max_response_length: evaluation generates "
      "answers and rewards them");
  bad(SFT, ARGS("algo.name=dpo", "reward=[{name: exact}]"),
      "argument 'reward=[{name: exact}]': reward means nothing to algo.name dpo: remove it");
  bad(GRPO, ARGS("reward=[]"),
      "d.yaml: reward is missing: grpo needs at least one, such as '- name: exact' or '- {name: model, path: "
      "FOLDER}'");
}

static void test_contradictions(void **state) {
  (void)state;
  bad(SFT "  epochs: 2\n", NULL,
      "d.yaml:12: train.epochs and train.steps (d.yaml:10) contradict each other: keep one (train.steps=null "
      "takes the other back)");
  bad(SFT "  micro_batch_size: 2\n", ARGS("train.max_tokens_per_gpu=64"),
      "argument 'train.max_tokens_per_gpu=64': train.max_tokens_per_gpu and train.micro_batch_size "
      "(d.yaml:12) contradict each other: keep one (train.micro_batch_size=null takes the other back)");
  bad(SFT "  max_tokens_per_gpu: 64\n", ARGS("train.micro_batch_size=2"),
      "argument 'train.micro_batch_size=2': train.micro_batch_size and train.max_tokens_per_gpu (d.yaml:12) "
      "contradict each other: keep one (train.max_tokens_per_gpu=null takes the other back)");
  bad(SFT "  warmup_steps: 1\n  warmup_ratio: 0.1\n", NULL,
      "d.yaml:13: train.warmup_ratio and train.warmup_steps (d.yaml:12) contradict each other: keep one "
      "(train.warmup_steps=null takes the other back)");
  bad(SFT "shard:\n  plan: zero3\n  grads: none\n", NULL,
      "d.yaml:14: shard.grads and shard.plan (d.yaml:13) contradict each other: keep one (shard.plan=null "
      "takes the other back)");
  bad(SFT, ARGS("model.config=c.json"),
      "argument 'model.config=c.json': model.config and model.path (d.yaml:4) contradict each other: keep "
      "one (model.path=null takes the other back)");
  bad(GRPO "  clip_eps: 0.2\n  eps_clip: 0.2\n", NULL,
      "d.yaml:17: algo.eps_clip and algo.clip_eps (d.yaml:16) contradict each other: both mean "
      "algo.clip_eps, keep one");
  bad(GRPO, ARGS("algo.clip_eps=0.2", "clip_ratio=0.2"),
      "argument 'clip_ratio=0.2': clip_ratio and algo.clip_eps (argument 'algo.clip_eps=0.2') contradict "
      "each other: both mean algo.clip_eps, keep one");
  bad(SFT "  min_lr_ratio: 0.1\n", NULL,
      "d.yaml:12: train.min_lr_ratio means nothing to train.lr_scheduler constant: remove it");
  bad(SFT, ARGS("algo.clip_eps=0.2"),
      "argument 'algo.clip_eps=0.2': algo.clip_eps means nothing to algo.name sft: remove it");
  bad(SFT, ARGS("rollout.temperature=1"),
      "argument 'rollout.temperature=1': rollout.temperature means nothing to algo.name sft: remove it");
  bad(GRPO, ARGS("data.completion_key=c"),
      "argument 'data.completion_key=c': data.completion_key means nothing to algo.name grpo: remove it");
  bad(GRPO "  num_generations: 1\n", NULL,
      "d.yaml:16: algo.num_generations = 1: algo.advantage group compares the answers of a group, at least "
      "2 are needed; ppo, reinforce++ and remax take one answer to a prompt");
}

static void test_missing(void **state) {
  (void)state;
  bad(SFT, ARGS("run.output=null"), "d.yaml: run.output is missing: the folder the run writes to");
  bad(SFT, ARGS("model.path=null"),
      "d.yaml: model.path is missing: a model folder, or give model.config to start from random weights");
  bad(SFT, ARGS("model.path=null", "model.tokenizer=t"),
      "d.yaml: model.path is missing: a model folder, or give model.config to start from random weights");
  bad(SFT, ARGS("data.train=[]"), "d.yaml: data.train is missing: the JSON lines file to train on");
  bad(SFT, ARGS("train.steps=null"),
      "d.yaml: train.steps is missing: the length of the run, or give train.epochs");
  bad(GRPO, ARGS("rollout.rollout_batch_size=null"),
      "d.yaml: rollout.rollout_batch_size is missing: the prompts of one rollout");
  bad(GRPO, ARGS("rollout.max_response_length=null"),
      "d.yaml: rollout.max_response_length is missing: the longest answer, in tokens");
  bad(GRPO, ARGS("eval.steps=2"),
      "argument 'eval.steps=2': eval.steps = 2 needs data.eval: the JSON lines file to evaluate on");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=e.jsonl", "checkpoint.keep_best=reward_mean"),
      "argument 'checkpoint.keep_best=reward_mean': checkpoint.keep_best: 'reward_mean' is no metric of "
      "evaluations, such as eval_reward_mean");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=e.jsonl", "data.eval_names=[a,b]"),
      "argument 'data.eval_names=[a,b]': data.eval_names has 2 names, data.eval 1 file: each has one");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=[e.jsonl,f.jsonl]", "data.eval_names=[a,b-c]"),
      "argument 'data.eval_names=[a,b-c]': data.eval_names: 'b-c' must be 1 to 32 of a-z, 0-9 and _");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=[e.jsonl,f.jsonl]", "data.eval_names=[a,a]"),
      "argument 'data.eval_names=[a,a]': data.eval_names: a is there twice: each set has a name of its own");
  bad(GRPO, ARGS("rollout.dynamic_sampling=true", "algo.advantage=return", "algo.num_generations=1"),
      "argument 'rollout.dynamic_sampling=true': rollout.dynamic_sampling compares the answers to a prompt: "
      "algo.num_generations = 1 must be at least 2");
  tri_config c = good(GRPO, ARGS("reward=[]", "data.train=null", "rollout.replay=r"));
  tri_config_free(&c);
  c = good(SFT, ARGS("model.path=null", "model.config=c"));
  tri_config_free(&c);
}

/* A key that another one puts to sleep: said once, where it is given with another value than its default. */
static void test_idle_keys(void **state) {
  tri_text   notes = {0};
  tri_config c;

  (void)state;
  assert_int_equal(
      load(GRPO, &c, &notes, ARGS("rollout.temperature=0", "rollout.top_k=5", "rollout.top_p=1")), TRI_OK);
  assert_string_equal(notes.data,
                      "argument 'rollout.top_k=5': rollout.top_k has no effect: rollout.temperature is 0\n"
                      "argument 'rollout.temperature=0': rollout.temperature is 0: the answers to a prompt "
                      "are all alike, and a group of equal rewards teaches nothing\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(
      load(GRPO, &c, &notes, ARGS("rollout.top_k=5", "algo.kl_coef=0.1", "algo.kl_estimator=k1")), TRI_OK);
  assert_null(notes.data);
  tri_config_free(&c);
  assert_int_equal(
      load(GRPO, &c, &notes, ARGS("algo.name=dr_grpo", "algo.advantage_eps=0.0001", "algo.kl_horizon=1e4")),
      TRI_OK);
  assert_null(notes.data);
  tri_config_free(&c);
  assert_int_equal(load(GRPO, &c, &notes, ARGS("algo.name=dr_grpo", "algo.advantage_eps=0")), TRI_OK);
  assert_string_equal(notes.data, "argument 'algo.advantage_eps=0': algo.advantage_eps has no effect: "
                                  "algo.scale_rewards is none\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(GRPO, &c, &notes, ARGS("rollout.max_extra_batches=1")), TRI_OK);
  assert_string_equal(notes.data, "argument 'rollout.max_extra_batches=1': rollout.max_extra_batches has no "
                                  "effect: rollout.dynamic_sampling is off\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(
      load(GRPO, &c, &notes, ARGS("rollout.dynamic_sampling=true", "train.steps=null", "train.epochs=1")),
      TRI_OK);
  assert_non_null(
      strstr(notes.data, "argument 'train.epochs=1': train.epochs gives the number of steps as if"));
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(GRPO, &c, &notes, ARGS("rollout.dynamic_sampling=true", "rollout.replay=r")), TRI_OK);
  assert_string_equal(notes.data, "argument 'rollout.dynamic_sampling=true': rollout.dynamic_sampling has no "
                                  "effect: rollout.replay is given\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(SFT, &c, &notes,
                        ARGS("rollout.max_response_length=4", "data.answer_key=a", "reward=[{name: exact}]")),
                   TRI_OK);
  assert_string_equal(notes.data,
                      "argument 'data.answer_key=a': data.answer_key has no effect: eval.steps is 0\n"
                      "argument 'rollout.max_response_length=4': rollout.max_response_length has "
                      "no effect: eval.steps is 0\n"
                      "argument 'reward=[{name: exact}]': reward has no effect: eval.steps is 0\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(
      load(SFT, &c, &notes, ARGS("algo.name=kto", "eval.steps=1", "data.eval=x.jsonl", "rollout.stop=x")),
      TRI_OK);
  assert_string_equal(notes.data,
                      "argument 'rollout.stop=x': rollout.stop has no effect: no answer is generated\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(SFT, &c, &notes, ARGS("data.eval=x.jsonl")), TRI_OK);
  assert_string_equal(notes.data, "argument 'data.eval=x.jsonl': data.eval has no effect: eval.steps is 0\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(
      load(SFT, &c, &notes, ARGS("model.dtype=fp16", "train.loss_scale=8", "train.min_loss_scale=2")),
      TRI_OK);
  assert_string_equal(notes.data, "argument 'train.min_loss_scale=2': train.min_loss_scale has no effect: "
                                  "train.loss_scale is given\n");
  tri_text_free(&notes);
  tri_config_free(&c);
}

static void test_plans(void **state) {
  (void)state;
  static const tri_shard_plan want[] = {{TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_NONE},
                                        {TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_WORLD},
                                        {TRI_SHARD_NONE, TRI_SHARD_WORLD, TRI_SHARD_WORLD},
                                        {TRI_SHARD_WORLD, TRI_SHARD_WORLD, TRI_SHARD_WORLD}};

  for (int i = 0; i < 4; i++) {
    char arg[32];
    snprintf(arg, sizeof arg, "shard.plan=zero%d", i);
    tri_config c = good(SFT, ARGS(arg));
    assert_memory_equal(&c.shard.scope, &want[i], sizeof want[i]);
    tri_config_free(&c);
  }
}

/* Print, load the print, print again: the same text and, row by row, the same values. */
static void round_trip(const char *text, const char *const *args) {
  tri_config a = good(text, args), b;
  tri_text   first = {0}, second = {0};

  assert_int_equal(tri_config_print(&a, &first), TRI_OK);
  if (load(first.data, &b, NULL, NULL) != TRI_OK) fail_msg("%s\n%s", tri_error_message(), first.data);
  assert_int_equal(tri_config_print(&b, &second), TRI_OK);
  assert_string_equal(first.data, second.data);
  for (int i = 0; i < tri_n_keys; i++) {
    const char *x = (const char *)&a + tri_keys[i].offset, *y = (const char *)&b + tri_keys[i].offset;
    same_value(tri_keys[i].type, x, y);
    assert_non_null(strstr(first.data, strchr(tri_keys[i].name, '.') + 1));
  }
  for (int i = 0; i < a.reward.n; i++)
    assert_memory_equal(&a.reward.item[i].weight, &b.reward.item[i].weight, 8);
  tri_text_free(&first);
  tri_text_free(&second);
  tri_config_free(&a);
  tri_config_free(&b);
}

static void test_round_trip(void **state) {
  (void)state;
  round_trip(SFT, NULL);
  round_trip(SFT, ARGS("train.steps=null", "train.epochs=3", "train.warmup_steps=0", "zero.stage=1",
                       "train.micro_batch_size=2"));
  round_trip(GRPO, NULL);
  round_trip(GRPO,
             ARGS("train.learning_rate=0.1234567890123456789", "algo.kl_coef=5e-324",
                  "train.adam_eps=1.7976931348623157e308", "shard.optimizer=none",
                  "train.max_tokens_per_gpu=77", "algo.clip_eps_high=0.28", "run.seed=18446744073709551615"));
  round_trip(
      GRPO,
      ARGS("rollout.stop=[\"a\\\"b\\\\\\n\\t\\e\\x85\\u2028\\uFEFF\\U0001F600\\xE9\", 'null', '- x: #']",
           "run.output=null # not", "run.resume=./~/a b", "model.ref_path=\x7F", "algo.kl_coef=0.1",
           "reward=[{name: regex, pattern: '\\d+\"', weight: 0.1}, {name: number, weight: -3}]"));
}

/* A mapping's values keep their types, whatever they hold, and an alias of another program names it too. */
static void test_mapping(void **state) {
  (void)state;
  tri_config c = good(
      GRPO, ARGS("data.apply_chat_template_kwargs={a: false, b: 'false', c: 1, d: 1.0, e: .5e-3, f: 007, "
                 "g: null, \"h i\": \"x\\\"\\n\\u2028\\x7f\xC3\xA9\", j: 1e20, k: ''}"));

  assert_string_equal(
      c.data.chat_template_kwargs,
      "{\"a\": false, \"b\": \"false\", \"c\": 1, \"d\": 1.0, \"e\": 0.0005, \"f\": 7, \"g\": null, "
      "\"h i\": \"x\\\"\\n\xE2\x80\xA8\x7F\xC3\xA9\", \"j\": 1e+20, \"k\": \"\"}");
  tri_config_free(&c);
  round_trip(
      GRPO,
      ARGS("data.chat_template_kwargs={a: false, b: 'false', d: 1.0, h: \"x\\\"\\n\\u2028\\x7f\\uFEFF\"}",
           "data.chat_template=x/y.jinja", "data.chat_template_date=2024-02-29"));
  round_trip(GRPO, ARGS("data.chat_template_kwargs={}"));
  bad(GRPO, ARGS("data.chat_template_kwargs={a: 1, a: 2}"),
      "argument 'data.chat_template_kwargs={a: 1, a: 2}': 'a' is "
      "given twice in chat_template_kwargs");
  bad(GRPO, ARGS("data.chat_template_kwargs=[a]"),
      "argument 'data.chat_template_kwargs=[a]': data.chat_template_kwargs = [...]: must be a "
      "mapping, such as 'data.chat_template_kwargs={enable_thinking: false}'");
  bad(GRPO, ARGS("data.chat_template=quen3"),
      "argument 'data.chat_template=quen3': data.chat_template = quen3: must be one of auto, none, "
      "chatml, llama2, llama3, "
      "mistral, qwen2.5, qwen3, gemma, zephyr, FILE.jinja; nearest: qwen3");
  bad(GRPO, ARGS("data.chat_template_date=29.11.2026"),
      "argument 'data.chat_template_date=29.11.2026': data.chat_template_date = 29.11.2026: must be "
      "a day, YYYY-MM-DD");
}

/* The words of one line of the print. */
static void test_print(void **state) {
  (void)state;
  tri_config c = good(SFT, ARGS("train.learning_rate=1e-5"));
  tri_text   t = {0};

  assert_int_equal(tri_config_print(&c, &t), TRI_OK);
  assert_non_null(strstr(t.data, "\nrun:\n  output: \"out\"\n  seed: 42\n  device: auto\n"));
  assert_non_null(strstr(t.data, "\n  train: [\"t.jsonl\"]\n  train_weights: null\n  eval: null\n"));
  assert_non_null(strstr(t.data, "\n  clip_eps: null\n"));
  assert_non_null(
      strstr(t.data, "\nreward: []\ntrain:\n  steps: 10\n  epochs: null\n  train_batch_size: 8\n"));
  assert_non_null(strstr(t.data, "\n  learning_rate: 1e-05\n"));
  assert_non_null(strstr(t.data, "\nshard:\n  plan: hybrid\n  params: null\n"));
  tri_text_free(&t);
  tri_config_free(&c);
}

static const char *program; /* as it was called */

/* Fails with the first line that differs. */
static void same_lines(const char *have, const char *want) {
  for (int line = 1;; line++) {
    int n = (int)strcspn(have, "\n"), m = (int)strcspn(want, "\n");
    if (n != m || strncmp(have, want, (size_t)n))
      fail_msg("inputs/reference.yaml:%d: '%.*s' is not '%.*s': TRI_WRITE_REFERENCE=1 %s writes it from the "
               "table",
               line, n, have, m, want, program);
    if (!have[n] && !want[m]) return;
    have += n + (have[n] != 0);
    want += m + (want[m] != 0);
  }
}

/* With TRI_WRITE_REFERENCE=1 in the environment the file is written instead of compared. */
static void test_reference(void **state) {
  (void)state;
  const char *path = TRI_SOURCE_DIR "/inputs/reference.yaml", *wish = getenv("TRI_WRITE_REFERENCE");
  tri_text    want = {0};
  char       *have = NULL;
  size_t      n;

  assert_int_equal(tri_config_reference(&want), TRI_OK);
  if (wish && !strcmp(wish, "1")) assert_int_equal(tri_file_write(path, want.data, want.len), TRI_OK);
  assert_int_equal(tri_file_read(path, 1 << 20, &have, &n), TRI_OK);
  same_lines(have, want.data);
  assert_int_equal(n, want.len);
  TRI_FREE(have);
  tri_text_free(&want);
}

/* The reference deck, with what must be given, is a deck of nothing but defaults. */
static void test_reference_is_defaults(void **state) {
  (void)state;
  char *const args[] = {"run.output=out",
                        "model.path=m",
                        "data.train=t.jsonl",
                        "algo.name=grpo",
                        "train.steps=10",
                        "rollout.rollout_batch_size=4",
                        "rollout.max_response_length=16",
                        "reward=[{name: exact}]"};
  tri_config  a, b = good(GRPO, NULL);
  tri_text    print_a = {0}, print_b = {0}, notes = {0};

  tri_error_clear();
  if (tri_config_load(TRI_SOURCE_DIR "/inputs/reference.yaml", args, 8, &a, &notes) != TRI_OK)
    fail_msg("%s", tri_error_message());
  assert_null(notes.data);
  assert_int_equal(tri_config_print(&a, &print_a), TRI_OK);
  assert_int_equal(tri_config_print(&b, &print_b), TRI_OK);
  assert_string_equal(print_a.data, print_b.data);
  tri_text_free(&print_a);
  tri_text_free(&print_b);
  tri_config_free(&a);
  tri_config_free(&b);
  assert_int_equal(tri_config_load(TRI_PROGRAM "/none.yaml", NULL, 0, &a, NULL), TRI_EINPUT);
  tri_config_free(&a);
}

static void test_help(void **state) {
  (void)state;
  tri_text t = {0};

  assert_int_equal(tri_config_help(&t), TRI_OK);
  for (int i = 0; i < tri_n_keys; i++) {
    assert_non_null(strstr(t.data, tri_keys[i].name));
    assert_true(tri_keys[i].unit[0] && tri_keys[i].help[0]);
  }
  assert_non_null(strstr(t.data, "; of the experiment\n"));
  assert_non_null(
      strstr(t.data, "\n  What is of the experiment, and the rewards, a resume may change only "));
  tri_text_free(&t);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),    cmocka_unit_test(test_arguments_win),
      cmocka_unit_test(test_unknown),     cmocka_unit_test(test_words_of_a_shell),
      cmocka_unit_test(test_flat_deck),   cmocka_unit_test(test_rewards),
      cmocka_unit_test(test_values),      cmocka_unit_test(test_rewards),
      cmocka_unit_test(test_reward_list), cmocka_unit_test(test_contradictions),
      cmocka_unit_test(test_missing),     cmocka_unit_test(test_idle_keys),
      cmocka_unit_test(test_plans),       cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_mapping),     cmocka_unit_test(test_print),
      cmocka_unit_test(test_reference),   cmocka_unit_test(test_reference_is_defaults),
      cmocka_unit_test(test_help)};
  program = argc ? argv[0] : "test_config";
  return cmocka_run_group_tests(tests, NULL, NULL);
}
