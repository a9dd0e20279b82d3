/* test_config.c - decks to settings and back, refusals with places. Judges: exact values,
 * inputs/reference.yaml. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error_list.h"
#include "base/host_memory.h"
#include "config_case.h"

#include "base/file.h"
#include "refusal_case.h"

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

/* As bad, for facts followed by the keys of a section. */
static void bad_keys(const char *text, const char *const *args, const char *facts, const char *section) {
  char   want[1024];
  size_t n = strlen(section);

  snprintf(want, sizeof want, "%s", facts);
  for (int i = 0, k = 0; i < tri_n_keys; i++) {
    const char *name = tri_keys[i].name;
    size_t      used = strlen(want);
    if (strncmp(name, section, n) != 0 || name[n] != '.') continue;
    snprintf(want + used, sizeof want - used, "%s%s", k++ ? ", " : "", name + n + 1);
  }
  bad(text, args, want);
}

/* As bad, for facts followed by the possible fields of a reward, each once. */
static void bad_fields(const char *text, const char *const *args, const char *facts) {
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
  snprintf(want, sizeof want, "%s%s", facts, list + 2);
  bad(text, args, want);
}

static void test_unknown(void **state) {
  (void)state;
  bad(SFT "  learning_rat: 1\n", NULL, "refuse_unknown() d.yaml:12 train.learning_rat train.learning_rate");
  bad(SFT "  clip_eps: 0.1\n", NULL, "refuse_unknown() d.yaml:12 train.clip_eps algo.clip_eps");
  bad(SFT "  epsilon: 0.1\n", NULL, "refuse_unknown() d.yaml:12 train.epsilon algo.clip_eps");
  bad(SFT, ARGS("train.stps=3"), "refuse_unknown() train.stps=3 train.stps train.steps");
  bad(SFT, ARGS("x=1"),
      "refuse_unknown() x=1 x run model lora data algo rollout train critic reference shard checkpoint eval "
      "reward");
  bad(SFT, ARGS("foo.bar=1"),
      "refuse_unknown() foo.bar=1 foo.bar run model lora data algo rollout train critic reference shard "
      "checkpoint eval reward");
  bad(SFT, ARGS("trian.steps=3"), "refuse_unknown() trian.steps=3 trian.steps train.steps");
  bad_keys(SFT, ARGS("eval.qqqqqqqqqq=3"), "refuse_unknown() eval.qqqqqqqqqq=3 eval.qqqqqqqqqq ", "eval");
  bad_keys(SFT, ARGS("algo.qq=3"), "refuse_unknown() algo.qq=3 algo.qq ", "algo");
  bad(SFT, ARGS("zzzzz.qqqqqqqqqqqq=3"),
      "refuse_unknown() zzzzz.qqqqqqqqqqqq=3 zzzzz.qqqqqqqqqqqq run model lora data algo rollout train "
      "critic reference shard checkpoint eval reward");
  bad(SFT "trian:\n", NULL, "refuse_unknown() d.yaml:12 trian train");
  bad(SFT "eps_clip: 0.1\n", NULL, "tri_key_match_entry() d.yaml:12 eps_clip clip_eps algo");
  bad_keys("run: x\n", NULL, "refuse_section() d.yaml:1 run ", "run");
  bad_keys(SFT, ARGS("run=x"), "refuse_section() run=x run ", "run");
  bad_keys(SFT "eval: 5\n", NULL, "refuse_section() d.yaml:12 eval ", "eval");
  bad_keys(SFT, ARGS("train={steps: 3}"), "refuse_section() train={steps: 3} train ",
           "train"); /* not data.train */
  bad(SFT "eval:\n  - a\n", NULL, "tri_key_match_entry() d.yaml:13 eval");
  bad(SFT "actor:\n  ppo_mini_batch_size: 3\n", NULL,
      "refuse_unknown() d.yaml:13 actor.ppo_mini_batch_size train.train_batch_size algo.num_generations");
}

/* A deck without sections has one line of error for each key, with the key's right place. Judge: no note
 * about it. */
static void test_flat_deck(void **state) {
  static const char flat[] =
      "output_dir: out\nbf16: true\nper_device_train_batch_size: 1\ngradient_checkpointing: true\n"
      "beta: 0.1\nnum_generations: 4\n";
  tri_text   notes = {0};
  tri_errors errors = {.n = 0};
  tri_config c;
  int        lines = 0;

  (void)state;
  assert_int_equal(tri_config_load_text("d.yaml", flat, strlen(flat), &c, &notes, &errors), TRI_OK);
  assert_true(errors.n >= 6);
  assert_null(notes.data);
  for (const char *at = errors.text.data; (at = strstr(at, "gradient_checkpointing")) != NULL; at++) lines++;
  assert_int_equal(lines, 1);
  tri_text_free(&notes);
  tri_errors_free(&errors);
  tri_config_free(&c);
}

static void test_values(void **state) {
  (void)state;
  bad(SFT "  learning_rate: -1\n", NULL, "refuse_value() d.yaml:12 train.learning_rate -1 0");
  bad(SFT "  learning_rate: .inf\n", NULL, "refuse_value() d.yaml:12 train.learning_rate .inf 0");
  bad(SFT "  learning_rate: nan\n", NULL, "refuse_value() d.yaml:12 train.learning_rate nan 0");
  bad(SFT "  learning_rate: 1e999\n", NULL, "refuse_value() d.yaml:12 train.learning_rate 1e999 0");
  bad(SFT "  learning_rate: 1e-999\n", NULL, "refuse_value() d.yaml:12 train.learning_rate 1e-999 0");
  bad(SFT "  learning_rate: 1e-6x\n", NULL, "refuse_value() d.yaml:12 train.learning_rate 1e-6x 0");
  bad(SFT "  learning_rate: 0x1p3\n", NULL, "refuse_value() d.yaml:12 train.learning_rate 0x1p3 0");
  for (const char *const *v = ARGS("1e-3", "9.99", "5"); *v; v++) { /* would end healthy runs */
    char arg[64], message[256];
    snprintf(arg, sizeof arg, "run.timeout_s=%s", *v);
    snprintf(message, sizeof message, "check_timeout() %s run.timeout_s %g 0 10 s", arg, strtod(*v, NULL));
    bad(SFT, ARGS(arg), message);
  }
  bad(SFT "  adam_beta1: 1\n", NULL, "refuse_value() d.yaml:12 train.adam_beta1 1 >= 0");
  bad(SFT "  micro_batch_size: 0x2\n", NULL,
      "refuse_value() d.yaml:12 train.micro_batch_size 0x2 >= 1 <= 1000000000");
  for (const char *const *v = ARGS("1_000", "1e3", "2.0", "010", "0", "-1", "99999999999999999999"); *v;
       v++) {
    char arg[64], message[256];
    snprintf(arg, sizeof arg, "train.micro_batch_size=%s", *v);
    snprintf(message, sizeof message, "refuse_value() %s train.micro_batch_size %s 1 1000000000", arg, *v);
    bad(SFT, ARGS(arg), message);
  }
  bad(SFT, ARGS("run.seed=-1"), "refuse_value() run.seed=-1 run.seed -1 >= 0 <= 18446744073709551615");
  bad(SFT "  steps2: 1\n  micro_batch_size:\n", NULL, "refuse_unknown() d.yaml:12 train.steps2 train.steps");
  bad(SFT "  micro_batch_size:\n", NULL, "tri_config_read_key() d.yaml:12 train.micro_batch_size null");
  bad(SFT "  micro_batch_size: [1]\n", NULL, "tri_config_read_key() d.yaml:12 train.micro_batch_size !null");
  bad(SFT "checkpoint:\n  save_final: yes\n", NULL, "refuse_value() d.yaml:13 checkpoint.save_final yes");
  bad(SFT, ARGS("model.dtype=bf6"), "refuse_value() model.dtype=bf6 model.dtype bf6 f32 bf16 fp16");
  bad(SFT, ARGS("data.train=[{a: 1}]"), "read_list() data.train=[{a: 1}] data.train");
  bad(SFT, ARGS("data.train=[a, '']"), "read_list() data.train=[a, ''] data.train");
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

/* A user's path with ~ or $ is refused unless a file of that name exists. A path in a checkpoint is taken
 * literally. */
static void test_words_of_a_shell(void **state) {
  static const char *const bad[][2] = {{"run.output=~/x", "check_path() run.output ~/x ~"},
                                       {"run.output=$RUN", "check_path() run.output $RUN $ run.output=$RUN"},
                                       {"run.output=we$ird/$RUN", "check_path() run.output we$ird/$RUN $"},
                                       {"model.path=a/${HOME}", "check_path() model.path a/${HOME} $"},
                                       {"data.train=[e, $$HOME/e]", "check_path() data.train $$HOME/e $"}};
  static const char *const good_too[] = {"run.output=we$ird", "run.output=we$ird/new", "data.train=we$ird/a",
                                         "run.output=./~x/a~$1$", "data.prompt_key=$x"};
  char                     folder[] = "/tmp/trireme-config-XXXXXX", *before = getcwd(NULL, 0);

  (void)state;
  assert_true(before && mkdtemp(folder) && !chdir(folder) && !mkdir("we$ird", 0700));
  assert_int_equal(tri_file_write("d.yaml", SFT, strlen(SFT)), TRI_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(load_typed(bad[i][0]), TRI_ECONFIG);
    expect_refusal(bad[i][1]);
    tri_config c = good(SFT, ARGS(bad[i][0]));
    tri_config_free(&c);
  }
  for (size_t i = 0; i < sizeof good_too / sizeof *good_too; i++)
    if (load_typed(good_too[i]) != TRI_OK) fail_msg("%s", tri_error_message());
  assert_true(!unlink("d.yaml") && !rmdir("we$ird") && !chdir(before) && !rmdir(folder));
  free(before);
}

/* A list of words is the same as given, and again from the deck as used. */
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
      "refuse_no_list() reward=[{name: process, command: verify}] command [verify]");
  bad(GRPO, ARGS("reward=[{name: process, command: broken.py}]"),
      "refuse_no_list() reward=[{name: process, command: broken.py}] command [python3 broken.py] python3 "
      "broken.py");
  bad(GRPO, ARGS("reward=[{name: process, command: python3  a.py -u}]"),
      "refuse_no_list() reward=[{name: process, command: python3  a.py -u}] command [python3 a.py -u] "
      "python3 -u");
  bad(GRPO, ARGS("reward=[{name: verify.py}]"),
      "tri_reward_check_name() reward=[{name: verify.py}] verify.py {name [python3 verify.py]}");
  bad(GRPO, ARGS("reward=[{name: process, command: []}]"),
      "refuse_no_list() reward=[{name: process, command: []}] command [python3 verify.py] python3 verify.py");
  bad(GRPO, ARGS("reward=[{name: process, command: [a, '']}]"),
      "put_list() reward=[{name: process, command: [a, '']}] command");
  bad(GRPO, ARGS("reward=[{name: process}]"), "check_must() reward=[{name: process}] process command");
}

static void test_rewards(void **state) {
  char names[TRI_REWARD_NAMES_BYTES], lacks[TRI_REWARD_NAMES_BYTES + 80];

  (void)state;
  tri_reward_names(" ", names);
  snprintf(lacks, sizeof lacks, "check_reward() reward=[{weight: 1}] %s", names);
  bad(GRPO, ARGS("reward=[{name: numbr}]"), "tri_reward_check_name() reward=[{name: numbr}] numbr number");
  bad(GRPO, ARGS("reward=[{weight: 1}]"), lacks);
  bad(GRPO, ARGS("reward=[{name: regex}]"), "check_must() reward=[{name: regex}] regex pattern");
  bad(GRPO, ARGS("reward=[{name: regex, pattern: ''}]"),
      "check_one() reward=[{name: regex, pattern: ''}] pattern");
  bad(GRPO, ARGS("reward=[{name: exact, pattern: x}]"),
      "tri_reward_check_fields() reward=[{name: exact, pattern: x}] exact pattern");
  bad(GRPO, ARGS("reward=[{name: exact, wieght: 1}]"),
      "refuse_field() reward=[{name: exact, wieght: 1}] wieght weight");
  bad(GRPO, ARGS("reward=[{name: exact, weight: .nan}]"),
      "set_weight() reward=[{name: exact, weight: .nan}] .nan");
  bad(GRPO, ARGS("reward=[{name: exact, weight: [1, 2]}]"),
      "check_one() reward=[{name: exact, weight: [1, 2]}] weight");
  bad(GRPO, ARGS("reward=[{name: exact, pattern: []}]"),
      "check_one() reward=[{name: exact, pattern: []}] pattern");
  bad_fields(GRPO, ARGS("reward=[{name: exact, colour: [a, b]}]"),
             "refuse_field() reward=[{name: exact, colour: [a, b]}] colour ");
  bad(GRPO, ARGS("reward=exact"), "read_reward() reward=exact reward");
  bad(SFT "reward:\n  name: exact\n", NULL, "tri_key_match_entry() d.yaml:13 reward");
  bad(SFT, ARGS("eval.steps=5", "data.eval=e.jsonl", "reward=[{name: exact}]"),
      "check_eval_answers() eval.steps=5 eval.steps 5 rollout.max_response_length");
  bad(SFT, ARGS("algo.name=dpo", "reward=[{name: exact}]"),
      "refuse_one() reward=[{name: exact}] reward algo.name dpo");
  bad(GRPO, ARGS("reward=[]"), "refuse_missing() d.yaml reward");
}

static void test_contradictions(void **state) {
  (void)state;
  bad(SFT "  epochs: 2\n", NULL,
      "refuse_both() d.yaml:12 train.epochs train.steps d.yaml:10 train.steps=null");
  bad(SFT "  micro_batch_size: 2\n", ARGS("train.max_tokens_per_gpu=64"),
      "refuse_both() train.max_tokens_per_gpu=64 train.max_tokens_per_gpu train.micro_batch_size d.yaml:12 "
      "train.micro_batch_size=null");
  bad(SFT "  max_tokens_per_gpu: 64\n", ARGS("train.micro_batch_size=2"),
      "refuse_both() train.micro_batch_size=2 train.micro_batch_size train.max_tokens_per_gpu d.yaml:12 "
      "train.max_tokens_per_gpu=null");
  bad(SFT "  warmup_steps: 1\n  warmup_ratio: 0.1\n", NULL,
      "refuse_both() d.yaml:13 train.warmup_ratio train.warmup_steps d.yaml:12 train.warmup_steps=null");
  bad(GRPO "shard:\n  plan: zero2\n  tensor_parallel_size: 2\n", NULL,
      "check_tensor() d.yaml:18 shard.tensor_parallel_size 2 shard.params node world");
  bad(SFT, ARGS("shard.params=none", "tp_size=4"), "check_tensor() tp_size=4 shard.tensor_parallel_size 4");
  bad(SFT "shard:\n  plan: zero3\n  grads: none\n", NULL,
      "refuse_both() d.yaml:14 shard.grads shard.plan d.yaml:13 shard.plan=null");
  bad(SFT, ARGS("model.config=c.json"),
      "refuse_both() model.config=c.json model.config model.path d.yaml:4 model.path=null");
  bad(GRPO "  clip_eps: 0.2\n  eps_clip: 0.2\n", NULL,
      "refuse_twice() d.yaml:17 algo.eps_clip algo.clip_eps d.yaml:16");
  bad(GRPO, ARGS("algo.clip_eps=0.2", "clip_ratio=0.2"),
      "refuse_twice() clip_ratio=0.2 clip_ratio algo.clip_eps algo.clip_eps=0.2");
  bad(SFT "  min_lr_ratio: 0.1\n", NULL, "check_schedule() d.yaml:12 train.min_lr_ratio train.lr_scheduler");
  bad(SFT, ARGS("algo.clip_eps=0.2"), "refuse_one() algo.clip_eps=0.2 algo.clip_eps algo.name sft");
  bad(SFT, ARGS("rollout.temperature=1"),
      "refuse_one() rollout.temperature=1 rollout.temperature algo.name sft");
  bad(GRPO, ARGS("data.completion_key=c"),
      "refuse_one() data.completion_key=c data.completion_key algo.name grpo");
  bad(GRPO "  num_generations: 1\n", NULL,
      "check_group() d.yaml:16 algo.num_generations 1 algo.advantage group 2");
}

static void test_missing(void **state) {
  (void)state;
  bad(SFT, ARGS("run.output=null"), "refuse_missing() d.yaml run.output");
  bad(SFT, ARGS("model.path=null"), "refuse_missing() d.yaml model.path model.config");
  bad(SFT, ARGS("model.path=null", "model.tokenizer=t"), "refuse_missing() d.yaml model.path model.config");
  bad(SFT, ARGS("data.train=[]"), "refuse_missing() d.yaml data.train");
  bad(SFT, ARGS("train.steps=null"), "refuse_missing() d.yaml train.steps train.epochs");
  bad(GRPO, ARGS("rollout.rollout_batch_size=null"), "refuse_missing() d.yaml rollout.rollout_batch_size");
  bad(GRPO, ARGS("rollout.max_response_length=null"), "refuse_missing() d.yaml rollout.max_response_length");
  bad(GRPO, ARGS("eval.steps=2"), "check_eval_data() eval.steps=2 eval.steps 2 data.eval");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=e.jsonl", "checkpoint.keep_best=reward_mean"),
      "check_keep_best() checkpoint.keep_best=reward_mean checkpoint.keep_best reward_mean eval_reward_mean");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=e.jsonl", "checkpoint.keep_best=pass_at_1"),
      "check_keep_best() checkpoint.keep_best=pass_at_1 eval_pass_at_1 !eval_reward_mean");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=e.jsonl", "checkpoint.keep_best=accuracy_of_everything"),
      "check_keep_best() checkpoint.keep_best eval_reward_mean");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=e.jsonl", "data.eval_names=[a,b]"),
      "check_eval_names() data.eval_names=[a,b] data.eval_names 2 data.eval 1");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=[e.jsonl,f.jsonl]", "data.eval_names=[a,b-c]"),
      "check_eval_names() data.eval_names=[a,b-c] data.eval_names b-c 1 32 0-9 _");
  bad(GRPO, ARGS("eval.steps=2", "data.eval=[e.jsonl,f.jsonl]", "data.eval_names=[a,a]"),
      "check_eval_names() data.eval_names=[a,a] data.eval_names");
  bad(GRPO, ARGS("rollout.dynamic_sampling=true", "algo.advantage=return", "algo.num_generations=1"),
      "check_selection() rollout.dynamic_sampling=true rollout.dynamic_sampling algo.num_generations 1 2");
  tri_config c = good(GRPO, ARGS("reward=[]", "data.train=null", "rollout.replay=r"));
  tri_config_free(&c);
  c = good(SFT, ARGS("model.path=null", "model.config=c"));
  tri_config_free(&c);
}

/* A key without effect because of another key is reported once, if its value is not the default. */
static void test_idle_keys(void **state) {
  tri_text   notes = {0};
  tri_config c;

  (void)state;
  assert_int_equal(
      load(GRPO, &c, &notes, ARGS("rollout.temperature=0", "rollout.top_k=5", "rollout.top_p=1")), TRI_OK);
  expect_lines(
      notes.data,
      "rollout.top_k=5 rollout.top_k rollout.temperature 0\nrollout.temperature=0 rollout.temperature 0\n");
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
  expect_lines(notes.data, "algo.advantage_eps=0 algo.advantage_eps algo.scale_rewards\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(SFT, &c, &notes, ARGS("shard.tensor_parallel_size=2")), TRI_OK);
  expect_lines(notes.data, "shard.tensor_parallel_size=2 shard.tensor_parallel_size no answer\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(GRPO, &c, &notes, ARGS("rollout.max_extra_batches=1")), TRI_OK);
  expect_lines(notes.data,
               "rollout.max_extra_batches=1 rollout.max_extra_batches rollout.dynamic_sampling\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(
      load(GRPO, &c, &notes, ARGS("rollout.dynamic_sampling=true", "train.steps=null", "train.epochs=1")),
      TRI_OK);
  assert_non_null(tells(notes.data, "train.epochs=1 train.epochs rollout.dynamic_sampling"));
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(GRPO, &c, &notes, ARGS("rollout.dynamic_sampling=true", "rollout.replay=r")), TRI_OK);
  expect_lines(notes.data, "rollout.dynamic_sampling=true rollout.dynamic_sampling rollout.replay\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(SFT, &c, &notes,
                        ARGS("rollout.max_response_length=4", "data.answer_key=a", "reward=[{name: exact}]")),
                   TRI_OK);
  expect_lines(notes.data, "data.answer_key=a data.answer_key eval.steps 0\nrollout.max_response_length=4 "
                           "rollout.max_response_length eval.steps 0\nreward=[{name: exact}] eval.steps 0\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(
      load(SFT, &c, &notes, ARGS("algo.name=kto", "eval.steps=1", "data.eval=x.jsonl", "rollout.stop=x")),
      TRI_OK);
  expect_lines(notes.data, "rollout.stop=x rollout.stop\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(load(SFT, &c, &notes, ARGS("data.eval=x.jsonl")), TRI_OK);
  expect_lines(notes.data, "data.eval=x.jsonl data.eval eval.steps 0\n");
  tri_text_free(&notes);
  tri_config_free(&c);
  assert_int_equal(
      load(SFT, &c, &notes, ARGS("model.dtype=fp16", "train.loss_scale=8", "train.min_loss_scale=2")),
      TRI_OK);
  expect_lines(notes.data, "train.min_loss_scale=2 train.min_loss_scale train.loss_scale\n");
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

/* Prints a deck, loads it and prints it again. The text and every value are the same. */
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

/* A mapping's values keep their types, and an alias of another program names the mapping too. */
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
      "tri_deck_put_json() data.chat_template_kwargs={a: 1, a: 2} chat_template_kwargs");
  bad(GRPO, ARGS("data.chat_template_kwargs=[a]"),
      "read_map() data.chat_template_kwargs=[a] data.chat_template_kwargs "
      "data.chat_template_kwargs={enable_thinking false}");
  bad(GRPO, ARGS("data.chat_template=quen3"),
      "refuse_value() data.chat_template=quen3 data.chat_template quen3 llama2 llama3 qwen2.5 qwen3 "
      "FILE.jinja");
  bad(GRPO, ARGS("data.chat_template_date=29.11.2026"),
      "check_template() data.chat_template_date=29.11.2026 data.chat_template_date 29.11.2026 YYYY-MM-DD");
}

/* Returns the words of one line of the print. */
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

static const char *program; /* the name as given */

/* Fails with the first different line. */
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

/* With TRI_WRITE_REFERENCE=1 in the environment the test writes the file instead of comparing it. */
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

/* The reference deck with the required keys added has only default values. */
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
    assert_true(tri_keys[i].unit && tri_keys[i].help[0]);
  }
  assert_non_null(strstr(t.data, "; fixed on resume\n"));
  assert_non_null(strstr(t.data, "run.allow_changes names the key.\n"));
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
