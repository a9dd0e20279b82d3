/* test_cli.c - the whole program: its commands on a tiny model, and one message for each kind of bad
 * input. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "cli_events.h"

#include <errno.h>
#include <jansson.h>
#include "algo/algo.h"
#include "device/device.h"
#include "io/model/export.h"
#include "io/model/safetensors.h"

/* ---- results of the commands. Judge: each other ---- */

static void pipeline_from_training_to_answers(void **state) {
  char answer[CLI_TEXT_BYTES];

  (void)state;
  cli_succeeds(ONE "inspect run --verify --tensors");
  cli_shows(cli_out, "tensors in /model\n  model.embed_tokens.weight");
  cli_shows(cli_out, "after step 2");
  cli_shows(cli_out, "verified");
  cli_succeeds(ONE "inspect model --json");
  cli_shows(cli_out,
            "{\"name\": \"model.norm.weight\", \"dtype\": \"f32\", \"shape\": [32], \"bytes\": 128}");
  cli_succeeds(ONE "generate run '3+4=' --max-new 8 --temperature 0 --json");
  memcpy(answer, cli_out, sizeof answer);
  cli_shows(answer, "\"prompt\"");
  cli_succeeds(ONE "generate model '3+4=' --max-new 8 --temperature 0 --json");
  assert_string_equal(cli_out, answer);
  cli_succeeds(TWO "generate model '3+4=' --max-new 8 --temperature 0 --json");
  assert_string_equal(cli_out, answer);
}

static void score_answers_the_same_bytes_on_two_ranks(void **state) {
  char one[CLI_TEXT_BYTES];

  (void)state;
  cli_succeeds(ONE "score model sft.jsonl --json");
  memcpy(one, cli_out, sizeof one);
  cli_succeeds(TWO "score model sft.jsonl --json");
  assert_string_equal(cli_out, one);
}

static void several_rewards_are_reported_by_name(void **state) {
  char text[CLI_TEXT_BYTES];

  (void)state;
  cli_succeeds(ONE GRPO
               "run.output=parts train.steps=1 'reward=[{name: regex, pattern: \"\\\\d\", weight: 2}, {name: "
               "regex, pattern: \"^\"}]'");
  cli_read("parts/metrics.jsonl", text);
  cli_shows(text, "\"reward_regex_2_mean\": 1,");
  cli_shows(text, "\"reward_regex_mean\": ");
}

/* The search for this pattern never ends on any text but the empty one, whatever the policy writes. */
static void an_answer_no_pattern_can_judge_counts_as_nothing(void **state) {
  char text[CLI_TEXT_BYTES];

  (void)state;
  cli_succeeds(TWO GRPO "run.output=endless train.steps=2 'reward=[{name: exact}, {name: regex, pattern: "
                        "\"^(?s:.?.?.?.?.?.?.?.?){40}(?!)\"}]'");
  assert_int_equal(cli_events("endless", "{\"code\": \"reward_failed\", \"of\": \"regex\"}"), 1);
  assert_int_equal(cli_events("endless", "{\"code\": \"reward_failed\"}"), 1); /* once, from one rank */
  cli_read("endless/metrics.jsonl", text);
  cli_shows(text, "\"reward_failures\": ");
  assert_null(strstr(text, "\"reward_failures\": 0"));
  cli_succeeds(ONE "eval model --data rl.jsonl --max-prompts 2 --max-new 8 --reward regex "
                   "--pattern '^(?s:.?.?.?.?.?.?.?.?){40}(?!)' --json");
  cli_shows(cli_out, "\"reward_failures\": 2");
}

/* The search of this decoder never ends on any token. */
static void an_answer_without_text_counts_as_nothing(void **state) {
  char text[CLI_TEXT_BYTES];

  (void)state;
  cli_sh("sed 's/\"decoder\": *{[^}]*}/\"decoder\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": "
         "\"^(?:|){30}(?!)\"}, \"content\": \"\"}/' tokenizer.json >endless.json && "
         "! cmp -s tokenizer.json endless.json");
  cli_succeeds(ONE GRPO "run.output=textless train.steps=1 model.tokenizer=endless.json rollout.save_every=1 "
                        "checkpoint.save_final=true");
  assert_int_equal(cli_events("textless", "{\"code\": \"reward_failed\"}"), 1);
  assert_int_equal(cli_events("textless", "{\"code\": \"answers_not_saved\"}"), 1);
  cli_read("textless/metrics.jsonl", text);
  cli_shows(text, "\"reward_failures\": ");
  assert_null(strstr(text, "\"reward_failures\": 0"));
  cli_succeeds(ONE "generate textless --max-new 3 a");
  cli_tells("warning: ", "answer 1 ", "tokenizer.json", "'^(?:|){30}(?!)'");
  assert_int_equal(strspn(cli_out, " 0123456789"), strlen(cli_out) - 1);
}

static void tokenize_there_and_back(void **state) {
  (void)state;
  cli_write(
      "text.jsonl",
      "\xef\xbb\xbf{\"text\": \"3+4=\"}\n\n{\"text\": \"\"}\n{\"text\": \"a\\u0000<|end|>\", \"x\": 1}\n");
  cli_succeeds(ONE "tokenize model text.jsonl");
  assert_string_equal(cli_out, "[18,10,19,28]\n[]\n[64,188,256]\n");
  cli_succeeds(ONE "tokenize run --json <text.jsonl");
  assert_string_equal(cli_out, "[18,10,19,28]\n[]\n[64,188,256]\n");
  cli_write("ids.jsonl", "{\"tokens\": [64,188,256]}\n{\"tokens\": [127]}\n");
  cli_succeeds(ONE "tokenize model ids.jsonl --decode");
  assert_string_equal(cli_out, "\"a\\u0000\"\n\"\xef\xbf\xbd\"\n");
  cli_succeeds(ONE "tokenize model ids.jsonl --decode --special");
  assert_string_equal(cli_out, "\"a\\u0000<|end|>\"\n\"\xef\xbf\xbd\"\n");
  cli_succeeds(ONE "tokenize model text.jsonl | " ONE "tokenize model --decode --special");
  assert_string_equal(cli_out, "\"3+4=\"\n\"\"\n\"a\\u0000<|end|>\"\n");
  cli_write("ids.jsonl", "{\"tokens\": [64]}\n [ 18,10 ]\n");
  cli_succeeds(ONE "tokenize model ids.jsonl --decode");
  assert_string_equal(cli_out, "\"a\"\n\"3+\"\n");
  cli_write("ids.jsonl", "[64]\n\n[64,257]\n");
  cli_fails(64, ONE "tokenize model ids.jsonl --decode >.ids", "ids.jsonl:3: ", " 257 ");
  cli_write("ids.jsonl", "[64,2.5]\n");
  cli_fails_in(64, ONE "tokenize model ids.jsonl --decode", "fail_entry", "ids.jsonl:1: ");
  cli_write("ids.jsonl", "[64]\n\n[64,257]\n");
  cli_fails_in(64, ONE "tokenize model ids.jsonl", "tri_jsonl_next", "ids.jsonl:1: ");
  cli_write("ids.jsonl", "[{\"tokens\": [64]}]\n");
  cli_fails(64, ONE "tokenize model ids.jsonl --decode", "ids.jsonl",
            "jq -c '.[]' ids.jsonl > ids.new.jsonl\n");
  cli_sh("mkdir -p bare && cp tokenizer.json bare");
  cli_succeeds(ONE "tokenize bare text.jsonl");
  cli_succeeds(TWO "tokenize bare text.jsonl");
  assert_string_equal(cli_out, "[18,10,19,28]\n[]\n[64,188,256]\n");
}

/* Judge: every value of the checkpoint. */
static void export_in_shards_is_the_checkpoint(void **state) {
  tri_ckpt_reader *r = NULL;
  tri_safetensors *shards = NULL;
  tri_export_opt   opt = {TRI_F32, 20000, TRI_PART_MAIN, false, NULL};
  tri_export_sum   sum;
  int              n_model = 0;
  float           *want = NULL, *got = NULL;
  char             answer[CLI_TEXT_BYTES];

  (void)state;
  assert_int_equal(tri_ckpt_open("run/checkpoints/step-00000002", NULL, true, &r), TRI_OK);
  assert_int_equal(tri_export(r, "shards/", &opt, &sum), TRI_OK);
  assert_true(sum.n_shard > 2);
  assert_true(cli_exists("shards/model.safetensors.index.json"));
  assert_false(cli_exists("shards.tmp"));
  assert_int_equal(tri_safetensors_open("shards", &shards), TRI_OK);
  assert_int_equal(TRI_ALLOC(want, sum.n_parameter), TRI_OK);
  assert_int_equal(TRI_ALLOC(got, sum.n_parameter), TRI_OK);
  for (int i = 0; i < tri_ckpt_tensor_count(r); i++) {
    const tri_ckpt_tensor      *t = tri_ckpt_tensor_at(r, i);
    const tri_safetensors_info *info;
    if (strcmp(t->group, "/model") != 0) continue;
    n_model++;
    info = tri_safetensors_find(shards, t->name);
    assert_non_null(info);
    assert_int_equal(info->ndim, t->ndim);
    assert_int_equal(tri_safetensors_read_f32(shards, info, 0, info->count, got), TRI_OK);
    assert_int_equal(tri_ckpt_read(r, i, 0, info->count, want), TRI_OK);
    assert_memory_equal(got, want, (size_t)info->count * sizeof *got);
  }
  assert_int_equal(tri_safetensors_count(shards), n_model);
  assert_null(tri_safetensors_find(shards, "lm_head.weight")); /* tied */
  TRI_FREE(want);
  TRI_FREE(got);
  tri_safetensors_close(&shards);
  tri_ckpt_close(&r);
  cli_succeeds(ONE "generate model 7+1= --temperature 0 --json");
  memcpy(answer, cli_out, sizeof answer);
  cli_succeeds(ONE "generate shards 7+1= --temperature 0 --json");
  assert_string_equal(cli_out, answer);
}

static void export_names_its_type(void **state) {
  char text[CLI_TEXT_BYTES];

  (void)state;
  cli_succeeds(ONE "export run/checkpoints half --dtype bf16");
  cli_read("half/config.json", text);
  cli_shows(text, "\"torch_dtype\": \"bfloat16\"");
  cli_succeeds(ONE "inspect half");
  cli_shows(cli_out, "bf16");
  assert_true(cli_exists("half/generation_config.json") && cli_exists("half/tokenizer_config.json"));
}

/* A field of a reward is a flag of eval, so it must not have the name of eval's own flags. */
static void each_flag_once(const char *help) {
  for (const char *at = help; (at = strstr(at, "\n  --")) != NULL; at++) {
    char flag[80];
    snprintf(flag, sizeof flag, "%.*s ", 3 + (int)strcspn(at + 3, " \n"), at);
    if (strstr(at + 1, flag)) fail_msg("the help has a flag twice: %s", flag + 3);
  }
}

static void every_command_has_help(void **state) {
  static const char *const name[] = {"train",    "generate", "score",  "eval",
                                     "tokenize", "inspect",  "export", "metrics"};
  char                     command[512];

  (void)state;
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    snprintf(command, sizeof command, ONE "%s --help", name[i]);
    cli_succeeds(command);
    cli_shows(cli_out, "usage: trireme ");
    assert_string_equal(cli_err, "");
    cli_fits(cli_out);
    each_flag_once(cli_out);
  }
  cli_succeeds(ONE "score --help");
  cli_shows(cli_out, "  --chat-template NAME   ");
  cli_shows(cli_out, " FILE.jinja");
  cli_succeeds(ONE "--help");
  cli_fits(cli_out);
  cli_shows(cli_out, "trireme train --options");
  cli_shows(cli_out, "trireme --version");
  cli_succeeds(ONE "train --options");
  cli_fits(cli_out);
  cli_succeeds(ONE "--version");
  assert_string_equal(cli_out, tri_device_find("cuda") ? "trireme " TRI_VERSION " (cpu, cuda)\n"
                                                       : "trireme " TRI_VERSION " (cpu)\n");
}

/* Programs get the names of algorithms and keys. Judge: a deck takes each algorithm, and the list for people
 * has as many keys. */
static void options_are_listed_for_programs(void **state) {
  json_t *all, *names, *keys, *key;
  size_t  i, n = 0;
  char    text[64];

  (void)state;
  cli_succeeds(ONE "train --options | grep -c '^  [a-z]*\\.[a-z0-9_]*: ' >.count");
  cli_succeeds(ONE "train --options --json >.options");
  assert_string_equal(cli_err, "");
  all = json_load_file(".options", JSON_REJECT_DUPLICATES, NULL);
  names = json_object_get(all, "algorithms");
  keys = json_object_get(all, "keys");
  for (; tri_algo_at((int)n); n++)
    assert_string_equal(json_string_value(json_array_get(names, n)), tri_algo_at((int)n)->name);
  assert_int_equal(json_array_size(names), n);
  snprintf(text, sizeof text, "test \"$(cat .count)\" = %zu", json_array_size(keys));
  cli_sh("%s", text);
  json_array_foreach(keys, i, key) {
    const char *name = json_string_value(json_object_get(key, "name"));
    assert_true(json_string_length(json_object_get(key, "help")) > 0);
    assert_true(json_string_length(json_object_get(key, "type")) > 0);
    if (!strcmp(name, "train.learning_rate"))
      assert_string_equal(json_string_value(json_array_get(json_object_get(key, "other_names"), 0)), "lr");
    if (!strcmp(name, "algo.beta")) assert_true(json_array_size(json_object_get(key, "algorithms")) < n);
    if (!strcmp(name, "model.dtype"))
      assert_string_equal(json_string_value(json_array_get(json_object_get(key, "values"), 0)), "f32");
  }
  json_decref(all);
  assert_int_equal(cli_run(ONE "train sft.yaml --json"), 64);
}

/* Names of metrics.jsonl and words of screens are found. Nothing is printed if one is unknown. */
static void metrics_are_explained(void **state) {
  json_t *all, *two;

  (void)state;
  cli_succeeds(ONE "metrics");
  cli_fits(cli_out);
  cli_shows(cli_out, "\n  eval_response_length_mean_tokens  ");
  cli_succeeds(ONE "metrics held tok/s eval_easy_pass_at_1");
  cli_fits(cli_out);
  assert_non_null(all = json_loads((cli_succeeds(ONE "metrics --json"), cli_out), 0, NULL));
  assert_true(json_array_size(all) > 80);
  assert_non_null(two =
                      json_loads((cli_succeeds(ONE "metrics held reward_x_mean --json"), cli_out), 0, NULL));
  assert_int_equal(json_array_size(two), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(two, 0), "name")), "eval_accuracy");
  assert_string_equal(json_string_value(json_object_get(json_array_get(two, 0), "unit")), "share");
  assert_string_equal(json_string_value(json_object_get(json_array_get(two, 1), "name")),
                      "reward_<name>_mean");
  assert_true(json_is_null(json_object_get(json_array_get(two, 1), "screen")));
  json_decref(two);
  json_decref(all);
  cli_fails(64, ONE "metrics loss rewrd_mean", " rewrd_mean", " reward_mean");
  cli_fails(64, ONE "metrics rewrd_mean --json", " rewrd_mean", " reward_mean");
}

/* ---- the command line and the deck ---- */

static void unknown_names_come_with_the_nearest(void **state) {
  (void)state;
  cli_fails_in(64, ONE "trian sft.yaml", "find", "'trian'");
  cli_shows(cli_err, " train?");
  cli_fails(64, ONE "sft sft.yaml", "'sft'", "algo.name: sft");
  cli_fails(64, ONE "train --config sft.yaml", "'--config'", "trireme train sft.yaml\n");
  cli_fails(64, ONE "train sft.yaml --learning_rate 1e-5", "'--learning_rate'", " learning_rate=1e-5");
  cli_fails(64, ONE "train sft.yaml --train.steps=3", "'--train.steps'", " train.steps=3");
  cli_fails(64, ONE "generate model a --max_new_tokens 3", "'--max_new_tokens'", " --max-new");
  cli_fails(64, ONE "inspect run --verfy", "'--verfy'", " --verify");
  cli_fails(64, ONE "generate model hi --temp 0", "'--temp'", " --temperature");
  cli_fails(64, ONE "generate model hi --temp=0", "'--temp=0'", " --temperature");
  cli_fails(64, ONE "export run x --dtype f16", " f16", "bf16|f32|fp16");
  cli_fails(64, ONE "generate model hi --temperature hot", "--temperature", " hot");
  cli_fails(64, ONE "generate model hi --seed", "--seed S", NULL);
  cli_fails(64, ONE SFT "train.learning_rat=1", "train.learning_rat", "'train.learning_rate'");
  cli_fails(64, TWO SFT "train.learning_rat=1", "train.learning_rat", "'train.learning_rate'");
  cli_write("bad.yaml", "run: {output: bad}\ntrain:\n  steps: 2\n  stps: 3\n");
  cli_fails(64, ONE "train bad.yaml", "bad.yaml:4", "train.steps");
  cli_write("bad.yaml", "run: {output: bad}\ntrain:\n  steps: 2\n  steps: 3\n");
  cli_fails(64, ONE "train bad.yaml", "bad.yaml:4", "train.steps");
  cli_write("bad.yaml", "run: &a {output: bad}\n");
  cli_fails(64, ONE "train bad.yaml", "bad.yaml:1", NULL);
  cli_fails(64, ONE SFT "train.steps=-1", "train.steps = -1", ">= 1");
  cli_fails(64, ONE SFT "train.epochs=1", "train.steps", "train.epochs");
  cli_fails(64, ONE "eval model --data rl.jsonl --reward exakt --max-new 4", "'exakt'", " exact\n");
  cli_tells("--reward");
}

static void batch_equation_is_shown_with_its_numbers(void **state) {
  (void)state;
  cli_fails(
      64, TWO SFT "train.train_batch_size=256 train.micro_batch_size=2 train.gradient_accumulation_steps=18",
      "256 = 2 x 18 x 2", "256 = 2 x 64 x 2");
  cli_fails(64, ONE GRPO "rollout.rollout_batch_size=3", "3 x 4", NULL);
}

static void illegal_plan_names_both_keys(void **state) {
  (void)state;
  cli_fails(64, ONE SFT "shard.params=world shard.grads=node", "shard.params: world", "shard.grads: node");
  cli_fails(64, TWO SFT "shard.params=world shard.grads=node", "shard.params: world", "shard.grads: node");
}

static void too_little_memory_shows_the_table(void **state) {
  (void)state;
  cli_sh("sed 's/\"hidden_size\": 32/\"hidden_size\": 40000/; s/\"intermediate_size\": "
         "48/\"intermediate_size\": 90000/;s/\"num_hidden_layers\": 2/\"num_hidden_layers\": 99/; "
         "s/\"num_attention_heads\": 4/\"num_attention_heads\": 400/' config.json >large.json");
  cli_fails(64, ONE SFT "model.config=large.json", "policy weights", "shard.plan=zero3");
  cli_fails(64, TWO SFT "model.config=large.json", "policy weights", "shard.plan=zero3");
}

/* A launcher kills the other ranks as soon as one has failed. The message must come even if rank 0 is the
 * last. */
static void late_rank_0_still_says_it(void **state) {
  (void)state;
  cli_fails(64,
            "'" TRI_MPIEXEC
            "' --allow-run-as-root --oversubscribe -n 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 0 && "
            "sleep 1; exec \"" TRI_PROGRAM "\" train nope.yaml'",
            "nope.yaml", NULL);
}

/* ---- files that are missing, cannot be read, or cannot be written ---- */

static void missing_files_are_named(void **state) {
  (void)state;
  cli_fails(64, ONE "train nope.yaml", "nope.yaml", strerror(ENOENT));
  cli_fails(64, ONE SFT "data.train=nope.jsonl", "nope.jsonl", strerror(ENOENT));
  cli_tells("(data.train)");
  cli_fails(64, TWO SFT "data.train=nope.jsonl", "nope.jsonl", strerror(ENOENT));
  cli_fails(64, ONE SFT "model.config=nope.json", "nope.json", "(model.config");
  cli_fails(64, ONE SFT "model.tokenizer=nope.json", "nope.json", strerror(ENOENT));
  cli_fails(64, ONE LOAD "model.path=nope", "nope", "(model.path)");
  cli_fails(64, ONE LOAD "model.path=Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B: ", " --local-dir");
  cli_fails(64, ONE "tokenize Qwen/Qwen2.5-0.5B sft.jsonl", "Qwen/Qwen2.5-0.5B: ", " --local-dir");
  cli_sh("mkdir -p lacking && cp model/model.safetensors lacking");
  cli_fails(64, ONE LOAD "model.path=lacking", "lacking: ", "config.json");
  cli_tells("MANIFEST.json", "checkpoints/LATEST", "model.path", "model.config", "model.tokenizer");
  cli_fails(64, ONE "tokenize lacking sft.jsonl", "lacking: ", "save_pretrained(\"lacking\")");
  cli_sh("cp model/config.json lacking");
  cli_fails(64, ONE "generate lacking hi --max-new 4", "lacking", "save_pretrained(\"lacking\")");
  cli_sh("for i in 1 2 3 4 5 6 7 8; do echo \"{\\\"tokens\\\": [$i, 2, 3]}\"; done >ids.jsonl");
  cli_succeeds(ONE LOAD "model.path=lacking data.train=ids.jsonl run.output=bare train.steps=1");
  cli_fails(64, ONE "generate bare hi --max-new 2", "bare/checkpoints/step-00000001", "trireme export ");
  cli_succeeds(ONE "plan sft.yaml model.config=null model.tokenizer=null model.path=bare");
  cli_tells("tokenizer.json", "bare/checkpoints/step-00000001", " MODEL"); /* as above */
  cli_succeeds(ONE "export bare/checkpoints/step-00000001 whole");         /* the cure, as it stands */
  cli_sh("cp model/tokenizer.json whole");
  cli_succeeds(ONE "generate whole hi --max-new 2");
  cli_fails(64, ONE GRPO "rollout.replay=nope", "nope", "(rollout.replay)");
  cli_fails_in(64, ONE SFT "run.resume=nope", "find_resume", "run.resume");
  cli_fails_in(64, ONE "generate nope hi", "tri_source_missing", "nope: ");
  cli_fails_in(64, TWO "generate nope hi", "tri_source_missing", "nope: ");
  cli_fails(64, ONE "generate model --prompts nope.jsonl --max-new 4", "nope.jsonl", strerror(ENOENT));
  cli_fails_in(64, ONE "score nope sft.jsonl", "tri_source_missing", "nope: ");
  cli_fails(64, ONE "score model nope.jsonl", "nope.jsonl", strerror(ENOENT));
  cli_fails(64, ONE "eval model --data nope.jsonl --reward exact --max-new 4", "nope.jsonl",
            strerror(ENOENT));
  cli_fails_in(64, ONE "tokenize nope", "tri_source_missing", "nope: ");
  cli_fails(64, ONE "tokenize model nope.jsonl", "nope.jsonl", strerror(ENOENT));
  cli_fails(64, ONE "inspect nope", "nope: ", strerror(ENOENT));
  cli_fails_in(64, ONE "export nope x", "work", "nope: ");
  cli_fails(64, ONE "export model x", "model: ", "MANIFEST.json");
  cli_tells("checkpoints/LATEST");
  cli_fails(64, ONE "inspect .", ".", NULL);
}

static void unreadable_files_are_named(void **state) {
  (void)state;
  cli_fails_in(64, ONE "train .", "check_regular", ".: ");
  cli_fails_in(64, ONE SFT "data.train=model", "check_regular", "model: ");
  cli_tells("data.train");
  cli_fails_in(64, ONE SFT "model.tokenizer=model", "check_regular", "model: ");
  cli_sh("mkdir -p odd && cp -r model/* odd && rm odd/model.safetensors && mkdir -p odd/model.safetensors");
  cli_fails_in(64, ONE LOAD "model.path=odd", "check_regular", "odd/model.safetensors");
  if (geteuid() == 0) return; /* root reads everything */
  cli_sh("cp sft.jsonl locked.jsonl && chmod 0 locked.jsonl");
  cli_fails(64, ONE SFT "data.train=locked.jsonl", "locked.jsonl", strerror(EACCES));
}

/* The same holds on several ranks, though only one reads the beginning of a file. */
static void data_of_other_formats_is_recognised(void **state) {
  (void)state;
  cli_sh("gzip -c sft.jsonl >packed.jsonl; head -c 60 packed.jsonl >cut.jsonl;"
         "{ echo '['; cat sft.jsonl; echo ']'; } >list.json");
  cli_fails_in(64, ONE SFT "data.train=cut.jsonl", "broken", "cut.jsonl");
  cli_tells("gzip", "data.train");
  cli_fails_in(64, TWO SFT "data.train=cut.jsonl", "broken", "cut.jsonl");
  cli_succeeds(TWO "score model packed.jsonl >b && " ONE "score model sft.jsonl >a && cmp a b");
  cli_fails(64, TWO SFT "data.train=[sft.jsonl,list.json]", "list.json",
            "jq -c '.[]' list.json > list.new.jsonl\n");
  cli_fails(64, ONE "score model list.json", "list.json", "jq -c '.[]' list.json > list.new.jsonl\n");
  cli_fails_in(64, ONE "tokenize model <cut.jsonl", "broken", "stdin: ");
}

/* Nothing waits for a writer, reads a device to its end or takes a folder for a file. */
static void data_is_read_from_files_only(void **state) {
  (void)state;
  cli_sh("mkfifo pipe.jsonl && mkdir -p waits && mkfifo waits/step-00000001.jsonl");
  cli_fails_in(64, ONE SFT "data.train=pipe.jsonl", "check_regular", " pipe.jsonl");
  cli_tells("data.train");
  cli_fails_in(64, TWO SFT "data.train=pipe.jsonl", "check_regular", " pipe.jsonl");
  cli_fails_in(64, ONE GRPO "rollout.replay=waits", "check_regular", "waits/step-00000001.jsonl: ");
  cli_tells("rollout.replay");
  cli_fails_in(64, ONE "score model pipe.jsonl", "check_regular", " pipe.jsonl");
  cli_fails_in(64, ONE "generate model --prompts pipe.jsonl --max-new 4", "check_regular", " pipe.jsonl");
  cli_fails_in(64, ONE "eval model --data /dev/zero --reward exact --max-new 4", "check_regular",
               "/dev/zero: ");
  cli_fails_in(64, ONE "tokenize model pipe.jsonl", "check_regular", " pipe.jsonl");
  cli_fails_in(64, ONE "tokenize model /", "check_regular", " /: ");
  cli_sh("rm pipe.jsonl waits/step-00000001.jsonl");
}

static void unwritable_output_is_named(void **state) {
  (void)state;
  cli_write("plain", "");
  cli_fails(74, ONE SFT "run.output=plain/x", "run.output: ", "plain/x");
  cli_fails_in(74, TWO SFT "run.output=plain/x", "check_folder", "run.output");
  cli_fails_in(74, ONE SFT "run.output=plain", "check_folder", "run.output");
  cli_tells(" plain ");
  cli_fails_in(74, TWO SFT "run.output=plain/", "check_folder", "run.output");
  cli_tells(" plain ");
  cli_fails(64, TWO SFT "run.output=model", "run.output: model ", "config.json");
  cli_succeeds(ONE "export run above/it//x/"); /* folders above it are made, as those of run.output are */
  assert_true(cli_exists("above/it/x/model.safetensors"));
  cli_fails_in(74, ONE "export run plain/x", "make_tmp", "plain/x");
  cli_fails_in(64, ONE "export run plain", "tri_folder_is_empty", "plain: ");
  cli_fails_in(64, ONE "export run model", "check_free", " model: ");
  cli_fails(74, ONE "inspect run >/dev/full", strerror(ENOSPC), NULL);
  cli_fails(74, ONE "tokenize model text.jsonl >/dev/full", strerror(ENOSPC), NULL);
  /* The weights of 70 kB meet a limit of 20 kB. A write fails or is short, as on a full disk. */
  cli_fails(74, "trap '' XFSZ; ulimit -f 40; " ONE "export run x", "x.tmp/model.safetensors", NULL);
  assert_false(cli_exists("x"));
}

/* ---- data ---- */

/* The message names missing and extra arguments before the usage, which names all. It does not name the
 * arguments given. */
static void usage_is_told(const char *command, const char *what, const char *given) {
  const char *name = command + strlen(ONE);
  char        usage[64];

  snprintf(usage, sizeof usage, ": trireme %.*s ", (int)strcspn(name, " "), name);
  cli_fails_in(64, command, "tri_flags_need", usage);
  *strstr(cli_err, usage) = 0;
  cli_shows(cli_err, what);
  if (given && strstr(cli_err, given)) fail_msg("%s\n%s", command, cli_err);
}

static void what_is_missing_is_said(void **state) {
  (void)state;
  usage_is_told(ONE "eval model --reward exact", "--data F.jsonl", "MODEL");
  assert_null(strstr(cli_err, "--reward"));
  usage_is_told(ONE "eval", "MODEL, --data F.jsonl, --reward R", NULL);
  usage_is_told(ONE "eval model rl.jsonl --data rl.jsonl --reward exact", "'rl.jsonl'", "MODEL");
  usage_is_told(ONE "generate model", "--prompts F.jsonl", "MODEL");
  cli_fails(64, ONE "generate model a --prompts rl.jsonl", "'a'", "--prompts rl.jsonl");
  usage_is_told(ONE "score model", "DATA.jsonl", "MODEL");
  usage_is_told(ONE "tokenize", "MODEL", "jsonl");
  usage_is_told(ONE "inspect --verify", "PATH", NULL);
  usage_is_told(ONE "export run", "FOLDER", "CHECKPOINT");
}

static void bad_lines_are_numbered(void **state) {
  (void)state;
  cli_write("bad.jsonl",
            "{\"prompt\": \"a\", \"completion\": \"b\"}\n\n{\"prompt\": \"a\", \"completion\"\n");
  cli_fails(64, ONE SFT "data.train=bad.jsonl", "bad.jsonl:3: ", " 28"); /* the column */
  cli_fails(64, TWO SFT "data.train=bad.jsonl", "bad.jsonl:3: ", NULL);
  cli_fails(64, ONE "score model bad.jsonl", "bad.jsonl:3: ", NULL);
  cli_fails(64, ONE "generate model --prompts bad.jsonl --max-new 4", "bad.jsonl:3: ", NULL);
  cli_fails(64, ONE "eval model --data bad.jsonl --reward exact --max-new 4", "bad.jsonl:", NULL);
  cli_write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 1}\n");
  cli_fails(64, ONE "tokenize model bad.jsonl >.ids", "bad.jsonl:2: ", "text");
  cli_write("bad.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n[1]\n");
  cli_fails(64, ONE SFT "data.train=bad.jsonl", "bad.jsonl:2: ", NULL);
  cli_write("bad.jsonl", "{\"prompt\": \"a\"}\n");
  cli_fails(64, ONE SFT "data.train=bad.jsonl", "bad.jsonl:1: ", "completion");
  cli_write("bad.jsonl", "{\"prompt\": \"a\"}\n");
  cli_fails(64, ONE GRPO "data.train=bad.jsonl", "bad.jsonl:1: ", "answer");
  cli_write("bad.jsonl", "{\"prompt\": \"\xff\", \"completion\": \"b\"}\n");
  cli_fails(64, ONE SFT "data.train=bad.jsonl", "bad.jsonl:1: ", NULL);
  cli_write("bad.jsonl", "{\"tokens\": [1, 2]}\n{\"tokens\": [1, 257]}\n");
  cli_fails(64, ONE SFT "data.train=bad.jsonl", "bad.jsonl:2: ", "257");
  cli_fails(64, ONE "tokenize model bad.jsonl --decode >.ids", "bad.jsonl:2: ", "257");
  cli_write("bad.jsonl", "{\"tokens\": []}\n");
  cli_fails_in(64, ONE SFT "data.train=bad.jsonl", "tri_jsonl_ids", "bad.jsonl:1: ");
  cli_tells("`tokens`");
  cli_write("bad.jsonl",
            "{\"prompt\": \"a\", \"answer\": \"7\"}\n{\"prompt\": \"a\", \"answer\": \"none\"}\n");
  cli_fails(64, ONE GRPO "data.train=bad.jsonl 'reward=[{name: number}]'",
            "bad.jsonl:2: ", "`answer` = \"none\"");
  cli_fails(64, TWO GRPO "data.train=bad.jsonl 'reward=[{name: number}]'",
            "bad.jsonl:2: ", "`answer` = \"none\"");
  cli_fails(64, ONE "eval model --data bad.jsonl --reward number --max-new 4",
            "bad.jsonl:2: ", "`answer` = \"none\"");
}

/* A right answer that no answer can equal, or an empty one, is reported with its line, in training and
 * evaluation. The jq command in the message removes the line. */
static void empty_answers_are_refused(void **state) {
  static const char *const last[] = {"\"\"", "\"\\\\boxed{5\"", "\"\\\\boxed{}\""};

  (void)state;
  for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
    char line[128];
    snprintf(line, sizeof line,
             "{\"prompt\": \"a\", \"answer\": \"7\"}\n{\"prompt\": \"a\", \"answer\": %s}\n", last[i]);
    cli_write("bad.jsonl", line);
    cli_fails(64, ONE GRPO "data.train=bad.jsonl 'reward=[{name: boxed}]'",
              "bad.jsonl:2: ", "data.answer_key");
    cli_fails(64, ONE "eval model --data bad.jsonl --reward boxed --max-new 4",
              "bad.jsonl:2: ", "--answer-key");
  }
}

static void long_lines_are_refused(void **state) {
  (void)state;
  cli_write(
      "wide.jsonl",
      "{\"prompt\": \"3+4=\", \"completion\": \"7\"}\n{\"prompt\": \"3+45=\", \"completion\": \"48\"}\n");
  cli_succeeds(ONE SFT "run.output=wide data.train=wide.jsonl data.max_line_bytes=39");
  cli_fails(64, ONE SFT "data.train=wide.jsonl data.max_line_bytes=38",
            "wide.jsonl:2: ", "data.max_line_bytes");
  cli_tells(" 39 bytes", " 38 ");
  cli_fails(64, TWO SFT "data.train=wide.jsonl data.max_line_bytes=38", "wide.jsonl:2: ", " 39 bytes");
  cli_sh("head -c 70000000 /dev/zero | tr '\\0' ' ' >>wide.jsonl");
  cli_fails(64, ONE "score model wide.jsonl", "wide.jsonl:3: ", " 67108864 ");
  cli_sh("tail -n 1 wide.jsonl >wider.jsonl");
  cli_fails(64, ONE "tokenize model <wider.jsonl", "stdin:1: ", " 67108864 ");
  cli_sh("rm wide.jsonl wider.jsonl");
}

static void fields_have_other_names(void **state) {
  (void)state;
  cli_write("named.jsonl", "{\"q\": \"3+4=\", \"a\": \"7\"}\n");
  cli_fails(64, ONE GRPO "data.train=named.jsonl", "named.jsonl:1: ", "`prompt`");
  cli_tells(" q, a", "data.prompt_key", "data.train");
  cli_fails(64, ONE "tokenize model named.jsonl", "named.jsonl:1: ", "`text`");
  cli_tells(" q, a", "{\"text\": ");
  cli_fails(64, ONE "eval model --data named.jsonl --reward exact --max-new 4",
            "named.jsonl:1: ", "`prompt`");
  cli_tells(" q, a", "--prompt-key");
  cli_fails(64, ONE "eval model --data named.jsonl --reward exact --max-new 4 --prompt-key q",
            "named.jsonl:1: ", "`answer`");
  cli_tells(" q, a", "--answer-key");
  cli_succeeds(ONE "eval model --data named.jsonl --reward exact --max-new 4 --prompt-key q --answer-key a");
  cli_succeeds(ONE "generate model --prompts named.jsonl --max-new 4 --prompt-key q");
  cli_fails(64, ONE "eval model --data named.jsonl --reward regex --max-new 4", "--pattern", " regex ");
  cli_fails(64, ONE "eval model --data named.jsonl --reward exact --pattern '[7]'", "--pattern [7]",
            " exact ");
  cli_fails(64, ONE "eval nomodel --data named.jsonl --reward regex --pattern 'a('", "--pattern a(",
            " 2"); /* the byte */
  cli_succeeds(ONE "eval model --data named.jsonl --reward exact --pattern '' --max-new 4 --prompt-key q "
                   "--answer-key a");
  cli_write("named.jsonl", "{\"q\": \"3+4=\", \"a\": \"7\"}\n");
  cli_write("nested.jsonl", "{\"extra\": {\"q\": \"a\", \"x\": NaN}, "
                            "\"reward_model\": {\"ground_truth\": 123456789012345678901}}\n");
  cli_fails(64, ONE "eval model --data nested.jsonl --reward exact --max-new 4 --prompt-key extra.q",
            "nested.jsonl:1: ", "`answer`");
  cli_tells(" extra, reward_model, extra.q", "`reward_model.ground_truth`", "--answer-key");
  cli_succeeds(ONE
               "eval model --data nested.jsonl --reward exact --max-new 4 --prompt-key extra.q --answer-key "
               "reward_model.ground_truth");
  cli_succeeds(ONE "generate model --prompts nested.jsonl --max-new 4 --prompt-key extra.q");
  cli_succeeds(ONE "score model nested.jsonl --prompt-key extra.q --completion-key extra.q --json");
  cli_fails(64, ONE "score model named.jsonl --prompt-key q", "named.jsonl:1: ", "completion");
  cli_succeeds(ONE "score model named.jsonl --prompt-key q --completion-key a --json");
  cli_shows(cli_out, "{\"tokens\": [18,");
}

static void empty_data_is_refused(void **state) {
  (void)state;
  cli_write("none.jsonl", "");
  cli_write("blank.jsonl", "\n  \n");
  cli_fails_in(64, ONE SFT "data.train=none.jsonl", "tri_dataset_finish", "none.jsonl");
  cli_fails_in(64, TWO SFT "data.train=none.jsonl", "tri_dataset_finish", "none.jsonl");
  cli_fails_in(64, ONE SFT "data.train=blank.jsonl", "tri_dataset_finish", "blank.jsonl");
  cli_fails_in(64, ONE GRPO "data.eval=none.jsonl eval.steps=1", "tri_dataset_finish", "(data.eval)");
  cli_fails_in(64, ONE "score model none.jsonl", "tri_dataset_finish", "none.jsonl");
  cli_fails_in(64, ONE "generate model --prompts none.jsonl --max-new 4", "tri_dataset_finish", "none.jsonl");
  cli_fails_in(64, ONE "eval model --data none.jsonl --reward exact --max-new 4", "tri_dataset_finish",
               "none.jsonl");
}

static void long_prompts_are_refused(void **state) {
  (void)state;
  cli_write("long.jsonl", "{\"prompt\": \"3+4=\", \"answer\": \"7\", \"completion\": \"7\"}\n"
                          "{\"prompt\": \"0123456789012345678901234567890123456789\", \"answer\": \"7\", "
                          "\"completion\": \"7\"}\n");
  cli_fails(64, ONE GRPO "data.train=long.jsonl", "long.jsonl:2: ", "40 tokens");
  cli_fails(64, TWO GRPO "data.train=long.jsonl", "long.jsonl:2: ", " 1 of 2 ");
  cli_tells(" 40 ", " 28 ", "rollout.max_response_length", "data.overlong_prompt");
  cli_fails(64, ONE SFT "data.train=long.jsonl", "long.jsonl:2: ", "42 tokens");
  cli_fails(64, ONE GRPO "rollout.max_response_length=100", "rollout.max_response_length", "32");
  cli_fails(64, ONE "score model long.jsonl", "long.jsonl:2: ", " 42 tokens");
  cli_tells(" 32 ");
  cli_fails(64, ONE "eval model --data long.jsonl --reward exact", "long.jsonl:2: ", " 31 ");
  cli_fails(64, ONE "generate model --prompts long.jsonl --max-new 4", "long.jsonl:2: ", " 31 ");
  cli_fails(64, ONE "generate model 3+4= --max-new 30", "4 tokens", "--max-new");
  cli_fails(64, TWO "generate model 0123456789012345678901234567890123456789", "40 tokens", "32");
}

/* ---- model files ---- */

/* "broken" is "model" with one piece of its safetensors header replaced by another. */
static void break_header(const char *piece, const char *by) {
  static char   all[1 << 20], header[CLI_TEXT_BYTES];
  unsigned char length[8];
  FILE         *f = fopen("model/model.safetensors", "rb");
  size_t        n, n_header = 0;
  char         *at;

  assert_non_null(f);
  n = fread(all, 1, sizeof all, f);
  fclose(f);
  for (int i = 7; i >= 0; i--) n_header = n_header << 8 | (unsigned char)all[i];
  assert_true(n_header < sizeof header && n < sizeof all);
  snprintf(header, sizeof header, "%.*s", (int)n_header, all + 8);
  at = strstr(header, piece);
  assert_non_null(at);
  cli_sh("rm -rf broken && cp -r model broken");
  f = fopen("broken/model.safetensors", "wb");
  assert_non_null(f);
  n_header = n_header - strlen(piece) + strlen(by);
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)n_header >> 8 * i);
  fwrite(length, 1, 8, f);
  fprintf(f, "%.*s%s%s", (int)(at - header), header, by, at + strlen(piece));
  n_header = n_header + strlen(piece) - strlen(by);
  fwrite(all + 8 + n_header, 1, n - 8 - n_header, f);
  assert_int_equal(fclose(f), 0);
}

static void refused_everywhere(const char *function, const char *fact, const char *other) {
  cli_fails_in(64, ONE LOAD "model.path=broken", function, fact);
  cli_tells(other);
  cli_fails_in(64, ONE "generate broken hi --max-new 4", function, fact);
  cli_tells(other);
}

#define BROKEN "broken/model.safetensors: "
#define LAST   "model.norm.weight"

static void malicious_headers_are_refused(void **state) {
  (void)state;
  /* model.norm.weight is the last tensor. Its 32 numbers are the last 128 bytes of 77824. */
  break_header("\"model.norm.weight\":{\"dtype\":\"F32\"", "\"model.norm.weight\":{\"dtype\":\"I32\"");
  refused_everywhere("check_tensor", BROKEN, LAST);
  break_header("\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[32]",
               "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[4,8]");
  refused_everywhere("check_shape", LAST, " [4, 8]");
  break_header("\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[32]",
               "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[33]");
  refused_everywhere("parse_tensor", BROKEN, LAST);
  break_header("\"model.norm.weight\"", "\"model.norm.wait\"");
  refused_everywhere("fail_absent", "broken: ", LAST);
  break_header("\"data_offsets\":[0,", "\"data_offsets\":[4,");
  refused_everywhere("parse_tensor", BROKEN, " 32892");
  break_header("\"data_offsets\":[0,", "\"data_offsets\":[-8,");
  refused_everywhere("parse_tensor", BROKEN, " -8 ");
  break_header("\"data_offsets\":[0,", "\"data_offsets\":[9223372036854775807,");
  refused_everywhere("parse_tensor", BROKEN, " 9223372036854775807 ");
  break_header("\"__metadata__\"", "__metadata__");
  refused_everywhere("read_header", BROKEN, "JSON");
}

static void overlapping_tensors_are_refused(void **state) {
  char                        entry[128], moved[128];
  tri_safetensors            *st = NULL;
  const tri_safetensors_info *a;
  static char                 text[1 << 20];
  const char                 *at;
  long long                   begin, end;
  FILE                       *f = fopen("model/model.safetensors", "rb");

  (void)state;
  assert_non_null(f);
  assert_true(fread(text, 1, sizeof text - 1, f) > 8);
  fclose(f);
  at = strstr(text + 8, "\"model.norm.weight\"");
  assert_non_null(at);
  assert_int_equal(sscanf(strstr(at, "[32]"), "[32],\"data_offsets\":[%lld,%lld]", &begin, &end), 2);
  snprintf(entry, sizeof entry, "[%lld,%lld]", begin, end);
  snprintf(moved, sizeof moved, "[%lld,%lld]", begin - 4, end - 4);
  break_header(entry, moved);
  refused_everywhere("check_cover", BROKEN, LAST);
  snprintf(moved, sizeof moved, "[%lld,%lld]", begin + (1LL << 40), end + (1LL << 40));
  break_header(entry, moved);
  refused_everywhere("parse_tensor", BROKEN, LAST);
  assert_int_equal(tri_safetensors_open("model", &st), TRI_OK);
  a = tri_safetensors_find(st, "model.norm.weight");
  assert_int_equal(a->bytes, end - begin);
  tri_safetensors_close(&st);
}

static void truncated_weights_are_refused(void **state) {
  static const char *const size[] = {"-1", "1000", "8", "3", "0"};

  (void)state;
  for (int i = 0; i < 5; i++) {
    cli_sh("rm -rf broken && cp -r model broken && truncate --size=%s broken/model.safetensors", size[i]);
    cli_fails(64, ONE LOAD "model.path=broken", "broken/model.safetensors", NULL);
    cli_fails(64, ONE "inspect broken", "broken/model.safetensors", NULL);
  }
  cli_sh("rm -rf broken && cp -r model broken && printf '\\0\\0\\0\\0\\0\\0\\0\\020' | "
         "dd of=broken/model.safetensors bs=1 conv=notrunc status=none");
  refused_everywhere("fail_length", BROKEN, " 1152921504606846976 ");
  cli_fails(64, TWO LOAD "model.path=broken", "broken/model.safetensors", "1152921504606846976");
}

static void broken_tokenizers_are_refused(void **state) {
  (void)state;
  cli_sh("head -c 1000 tokenizer.json >tk.json");
  cli_fails_in(64, ONE SFT "model.tokenizer=tk.json", "parse_json", "tk.json:1: ");
  cli_fails_in(64, TWO SFT "model.tokenizer=tk.json", "parse_json", "tk.json:1: ");
  cli_sh("sed 's/\"BPE\"/\"WordPiece\"/' tokenizer.json >tk.json");
  cli_fails(64, ONE SFT "model.tokenizer=tk.json", "tk.json", "WordPiece");
  cli_sh("sed 's/257/200/; s/256/100/' config.json >small.json");
  cli_fails(64, ONE SFT "model.config=small.json", "vocab_size", "200");
  cli_sh("rm -rf broken && cp -r model broken && echo '{}' >broken/tokenizer.json");
  cli_fails_in(64, ONE "tokenize broken text.jsonl", "load_model", "broken/tokenizer.json");
  cli_fails_in(64, ONE "generate broken hi --max-new 4", "load_model", "broken/tokenizer.json");
  cli_sh("rm broken/tokenizer.json");
  cli_fails_in(64, ONE "tokenize broken text.jsonl", "open_tokenizer", "tokenizer.json");
  cli_fails_in(64, ONE "generate broken hi --max-new 4", "read_texts", "tokenizer.json");
  cli_fails_in(64, ONE LOAD "model.path=broken run.output=bad", "need_tokenizer", "sft.jsonl:1: ");
  cli_tells(" broken ", "AutoTokenizer.from_pretrained(\"broken\").save_pretrained(\"broken\")", "`tokens`");
  cli_fails(64, ONE LOAD "model.path=broken run.output=bad --check", "sft.jsonl:1: ", " broken ");
  cli_tells("AutoTokenizer.from_pretrained(\"broken\").save_pretrained(\"broken\")");
}

static void broken_configs_are_refused(void **state) {
  (void)state;
  cli_sh("head -c 100 config.json >c.json");
  cli_fails_in(64, ONE SFT "model.config=c.json", "tri_hf_object", "c.json:7: ");
  cli_sh("sed 's/\"llama\"/\"mamba\"/' config.json >c.json");
  cli_fails(64, ONE SFT "model.config=c.json", "mamba", NULL);
  cli_sh("rm -rf broken && cp -r model broken && sed -i 's/\"hidden_size\": 32/\"hidden_size\": 40/' "
         "broken/config.json");
  refused_everywhere("check_shape", "model.embed_tokens.weight", "[257, 40]");
}

static void text_without_tokens_is_named_with_its_place(void **state) {
  static const char tokenizer[] =
      "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":null,\"post_"
      "processor\":null,"
      "\"decoder\":null,\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1},"
      "\"merges\":[]}}";

  (void)state;
  cli_sh("rm -rf few && cp -r model few");
  cli_write("few/tokenizer.json", tokenizer);
  cli_write("few.jsonl", "\n{\"text\":\"abx\",\"prompt\":\"abx\"}\n");
  cli_fails(64, ONE "tokenize few few.jsonl", "few.jsonl:2: few/tokenizer.json", NULL);
  cli_fails(64, ONE "score few few.jsonl --prompt-key q", "few.jsonl:2: few/tokenizer.json", NULL);
  cli_fails(64, ONE "generate few --prompts few.jsonl", "few.jsonl:2: few/tokenizer.json", NULL);
}

/* Judge: the same folder without the mark. */
static void a_byte_order_mark_changes_nothing(void **state) {
  (void)state;
  cli_sh(
      "rm -rf unmarked marked && cp -r model unmarked && "
      "sed -i 's/\"bfloat16\"/\"float32\"/' unmarked/config.json && grep -q float32 unmarked/config.json && "
      "cp -r unmarked marked && { printf '\\357\\273\\277'; cat unmarked/config.json; } > "
      "marked/config.json");
  cli_succeeds(ONE "score unmarked sft.jsonl --json");
  cli_sh("cp .out plain.out");
  cli_succeeds(ONE "score marked sft.jsonl --json");
  cli_sh("cmp .out plain.out");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pipeline_from_training_to_answers),
      cmocka_unit_test(score_answers_the_same_bytes_on_two_ranks),
      cmocka_unit_test(text_without_tokens_is_named_with_its_place),
      cmocka_unit_test(a_byte_order_mark_changes_nothing),
      cmocka_unit_test(several_rewards_are_reported_by_name),
      cmocka_unit_test(an_answer_no_pattern_can_judge_counts_as_nothing),
      cmocka_unit_test(an_answer_without_text_counts_as_nothing),
      cmocka_unit_test(tokenize_there_and_back),
      cmocka_unit_test(export_in_shards_is_the_checkpoint),
      cmocka_unit_test(export_names_its_type),
      cmocka_unit_test(every_command_has_help),
      cmocka_unit_test(options_are_listed_for_programs),
      cmocka_unit_test(metrics_are_explained),
      cmocka_unit_test(unknown_names_come_with_the_nearest),
      cmocka_unit_test(batch_equation_is_shown_with_its_numbers),
      cmocka_unit_test(illegal_plan_names_both_keys),
      cmocka_unit_test(too_little_memory_shows_the_table),
      cmocka_unit_test(late_rank_0_still_says_it),
      cmocka_unit_test(missing_files_are_named),
      cmocka_unit_test(unreadable_files_are_named),
      cmocka_unit_test(data_of_other_formats_is_recognised),
      cmocka_unit_test(data_is_read_from_files_only),
      cmocka_unit_test(unwritable_output_is_named),
      cmocka_unit_test(what_is_missing_is_said),
      cmocka_unit_test(bad_lines_are_numbered),
      cmocka_unit_test(empty_answers_are_refused),
      cmocka_unit_test(long_lines_are_refused),
      cmocka_unit_test(fields_have_other_names),
      cmocka_unit_test(empty_data_is_refused),
      cmocka_unit_test(long_prompts_are_refused),
      cmocka_unit_test(malicious_headers_are_refused),
      cmocka_unit_test(overlapping_tensors_are_refused),
      cmocka_unit_test(truncated_weights_are_refused),
      cmocka_unit_test(broken_tokenizers_are_refused),
      cmocka_unit_test(broken_configs_are_refused),
  };
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
