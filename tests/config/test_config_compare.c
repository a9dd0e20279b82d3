/* test_config_compare.c - changes of a deck in a resume: listed, refused, allowed. Judge: exact texts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/host_memory.h"
#include "config/config.h"
#include "refusal_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRPO                                                                                                 \
  "run:\n  output: out\nmodel:\n  path: m\ndata:\n  train: t.jsonl\nalgo:\n  name: grpo\n"                   \
  "rollout:\n  rollout_batch_size: 4\n  max_response_length: 16\nreward:\n  - name: exact\n"                 \
  "train:\n  steps: 10\n"
enum { MOST_ARGS = 16 };
#define ARGS(...) ((const char *const[MOST_ARGS + 1]){__VA_ARGS__})

static tri_config load(const char *const *args) {
  tri_config c;
  tri_deck  *d = NULL;

  tri_error_clear();
  assert_int_equal(tri_deck_open_text("d.yaml", GRPO, strlen(GRPO), &d), TRI_OK);
  for (int i = 0; args && args[i]; i++) assert_int_equal(tri_deck_set(d, args[i]), TRI_OK);
  if (tri_config_from_deck(d, &c, NULL) != TRI_OK) fail_msg("%s", tri_error_message());
  tri_deck_close(&d);
  return c;
}

static const char *text_of(const tri_text *t) { return t->data ? t->data : ""; }

/* Removes remarks in parentheses at the ends of lines, because they are sentences, not facts. */
static void cut_remarks(tri_text *t) {
  char *from, *to;

  while (t->data && (from = strstr(t->data, " (")) != NULL && (to = strchr(from, ')')) != NULL)
    memmove(from, to + 1, strlen(to + 1) + 1);
}

/* Compares two decks and checks the changes listed, those refused, and the keys of the refused ones. */
static void changes(const char *const *before, const char *const *now, const char *listed,
                    const char *refused, const char *keys) {
  tri_config         a = load(before), b = load(now);
  tri_config_past    past = {.deck = &a};
  tri_config_changes c = {0};

  assert_int_equal(tri_config_compare(&past, &b, &c), TRI_OK);
  cut_remarks(&c.listed);
  assert_string_equal(text_of(&c.listed), listed);
  assert_string_equal(text_of(&c.refused), refused);
  assert_string_equal(text_of(&c.keys), keys);
  tri_config_changes_free(&c);
  tri_config_free(&a);
  tri_config_free(&b);
  assert_int_equal(tri_host_bytes(), 0);
}

static void files_are_known_by_their_bytes(void **state) {
  static const char one[] = "model.path\tconfig.json\t5 01\nmodel.path\tmodel.safetensors\t9 02\n"
                            "reward 1 path\tMANIFEST.json\t7 03\n";
  static const char two[] = "model.path\tconfig.json\t5 01\nmodel.path\tmodel.safetensors\t9 12\n"
                            "reward 1 path\tMANIFEST.json\t7 13\n";
  tri_config        a = load(ARGS("reward=[{name: model, weight: 1, path: r}]")),
             b = load(ARGS("reward=[{name: model, weight: 1, path: s}]", "model.path=n"));
#define REWARD(x) "[{name: model, weight: 1, path: \"" x "\"}]"
  const struct {
    const tri_config *now;
    const char       *before, *then, *listed, *refused;
  } row[] = {
      {&a, one, one, "", ""},
      {&b, one, one,
       "\n  model.path: \"m\" -> \"n\" (the same bytes)"
       "\n  reward: " REWARD("r") " -> " REWARD("s") " (the same bytes)",
       ""},
      {&a, one, two, "",
       "\n  model.path: \"m\" -> \"m\" (other bytes: model.safetensors)"
       "\n  reward: " REWARD("r") " -> " REWARD("r") " (other bytes: reward 1 path: MANIFEST.json)"},
      {&a, "", two, "", ""}, /* an older checkpoint */
      {&a, one, "", "", ""}, /* files that no longer exist */
      {&b, "", two, "", "\n  model.path: \"m\" -> \"n\"\n  reward: " REWARD("r") " -> " REWARD("s")},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_config_past    past = {.deck = &a, .inputs = row[i].before, .inputs_now = row[i].then};
    tri_config_changes c = {0};
    assert_int_equal(tri_config_compare(&past, row[i].now, &c), TRI_OK);
    assert_string_equal(text_of(&c.listed), row[i].listed);
    assert_string_equal(text_of(&c.refused), row[i].refused);
    tri_config_changes_free(&c);
  }
  tri_config_free(&a);
  tri_config_free(&b);
}

static void equal_decks_have_no_changes(void **state) {
  (void)state;
  changes(NULL, NULL, "", "", "");
  changes(ARGS("algo.clip_eps=0.1"), ARGS("eps_clip=1e-1"), "", "", "");
}

/* The output folder and the manner of the start do not belong to the experiment. */
/* Mappings and sets of names are the same in any order. */
static void order_alone_is_no_change(void **state) {
#define KWARGS(x) "data.chat_template_kwargs={" x "}"
  (void)state;
  changes(ARGS(KWARGS("a: false, b: 2")), ARGS(KWARGS("b: 2, a: false")), "", "", "");
  changes(ARGS(KWARGS("a: false")), ARGS(KWARGS("a: 'false'")), "",
          "\n  data.chat_template_kwargs: {\"a\": false} -> {\"a\": \"false\"}", "data.chat_template_kwargs");
  changes(ARGS(KWARGS("a: 1")), ARGS(KWARGS("a: 1, b: 2")), "",
          "\n  data.chat_template_kwargs: {\"a\": 1} -> {\"a\": 1, \"b\": 2}", "data.chat_template_kwargs");
  changes(NULL, ARGS(KWARGS("a: 1")), "", "\n  data.chat_template_kwargs: null -> {\"a\": 1}",
          "data.chat_template_kwargs");
  changes(ARGS("lora.rank=4", "lora.targets=[q_proj, v_proj]"),
          ARGS("lora.rank=4", "lora.targets=[v_proj, q_proj]"), "", "", "");
  changes(ARGS("lora.rank=4", "lora.targets=[q_proj]"), ARGS("lora.rank=4", "lora.targets=[v_proj, q_proj]"),
          "", "\n  lora.targets: [\"q_proj\"] -> [\"v_proj\", \"q_proj\"]", "lora.targets");
  changes(ARGS("reward=[{name: regex, pattern: x, weight: 2}]"),
          ARGS("reward=[{name: regex, weight: 2, pattern: x}]"), "", "", "");
  changes(ARGS("reward=[{name: length, buffer: 4, factor: 2}]"),
          ARGS("reward=[{name: length, factor: 2, buffer: 4}]"), "", "", "");
}

static void this_start_alone_is_not_compared(void **state) {
  (void)state;
  changes(ARGS("run.output=a"), ARGS("run.output=b", "run.resume=a", "run.allow_changes=reward"), "", "", "");
}

static void rate_length_and_reports_go_on(void **state) {
  (void)state;
  changes(NULL,
          ARGS("train.learning_rate=5e-5", "train.steps=20", "train.lr_scheduler=cosine",
               "checkpoint.save_steps=5", "shard.plan=zero3", "run.threads=2", "data.eval=e.jsonl",
               "train.max_tokens_per_gpu=99"),
          "\n  run.threads: 0 -> 2\n  data.eval: null -> [\"e.jsonl\"]\n  train.steps: 10 -> 20"
          "\n  train.max_tokens_per_gpu: null -> 99\n  train.learning_rate: 1e-06 -> 5e-05"
          "\n  train.lr_scheduler: constant -> cosine\n  shard.plan: hybrid -> zero3"
          "\n  checkpoint.save_steps: 0 -> 5",
          "", "");
  changes(NULL, ARGS("shard.tensor_parallel_size=2"), "\n  shard.tensor_parallel_size: 1 -> 2", "", "");
}

static void the_experiment_is_refused_as_a_whole(void **state) {
  (void)state;
  changes(NULL,
          ARGS("run.seed=7", "data.train=[t.jsonl, u.jsonl]", "algo.num_generations=4", "model.path=n",
               "rollout.rollout_batch_size=8", "train.train_batch_size=16", "train.steps=11",
               "reward=[{name: exact, weight: 0.5}, {name: regex, pattern: x}]"),
          "\n  train.steps: 10 -> 11",
          "\n  run.seed: 42 -> 7\n  model.path: \"m\" -> \"n\""
          "\n  data.train: [\"t.jsonl\"] -> [\"t.jsonl\", \"u.jsonl\"]\n  algo.num_generations: 8 -> 4"
          "\n  rollout.rollout_batch_size: 4 -> 8\n  train.train_batch_size: null -> 16"
          "\n  reward: [{name: exact, weight: 1}] -> [{name: exact, weight: 0.5}, {name: regex, weight: 1, "
          "pattern: \"x\"}]",
          "run.seed, model.path, data.train, algo.num_generations, rollout.rollout_batch_size, "
          "train.train_batch_size, reward");
}

static void what_is_allowed_is_listed(void **state) {
  (void)state;
  changes(NULL,
          ARGS("run.seed=7", "algo.kl_coef=0.1", "reward=[{name: number}]",
               "run.allow_changes=[run.seed, reward]"),
          "\n  run.seed: 42 -> 7\n  reward: [{name: exact, weight: 1}] -> [{name: number, weight: 1}]",
          "\n  algo.kl_coef: 0 -> 0.1", "algo.kl_coef");
}

/* Adapters recognize their models wherever these lie. Full weights are read only at the first start. */
static void models_of_adapters_may_move(void **state) {
  (void)state;
  changes(ARGS("algo.name=ppo", "lora.rank=2", "critic.path=a"),
          ARGS("algo.name=ppo", "lora.rank=2", "critic.path=b"), "\n  critic.path: \"a\" -> \"b\"", "", "");
  changes(ARGS("algo.name=ppo", "lora.rank=2", "critic.path=a", "critic.lora=false"),
          ARGS("algo.name=ppo", "lora.rank=2", "critic.path=b", "critic.lora=false"), "",
          "\n  critic.path: \"a\" -> \"b\"", "critic.path");
}

/* Keys of adapters are no change without adapters, and keys of a critic are none if one of the two runs has
 * no critic. */
static void keys_of_adapters_without_any_are_no_change(void **state) {
  (void)state;
  changes(ARGS("lora.alpha=8", "lora.targets=q_proj"), NULL, "", "", "");
  changes(ARGS("algo.name=ppo", "critic.lora=false"), ARGS("algo.name=ppo"), "", "", "");
  changes(
      ARGS("algo.advantage=gae", "lora.rank=2"), ARGS("algo.advantage=return", "lora.rank=2"),
      "\n  critic.learning_rate: 5e-06 -> null",
      "\n  algo.advantage: \"gae\" -> \"return\"\n  algo.lam: 0.95 -> null\n  critic.warmup_steps: 0 -> null"
      "\n  critic.value_clip: 0.2 -> null",
      "algo.advantage, algo.lam, critic.warmup_steps, critic.value_clip");
}

/* A dynamic loss scale continues from the checkpoint. */
static void a_scales_start_is_over(void **state) {
  (void)state;
  changes(ARGS("model.dtype=fp16"), ARGS("model.dtype=fp16", "train.initial_scale_power=20"),
          "\n  train.initial_scale_power: 16 -> 20", "", "");
}

/* A critic continues with its own weights. */
static void a_critics_start_is_over(void **state) {
  (void)state;
  changes(ARGS("algo.name=ppo"), ARGS("algo.name=ppo", "critic.path=c", "run.allow_changes=critic.path"),
          "\n  critic.path: null -> \"c\"", "", "");
}

/* In sft, rewards and answers belong to evaluations, and these are only reports. */
static void evaluation_of_sft_is_listed(void **state) {
  (void)state;
#define SFT "algo.name=sft", "rollout.rollout_batch_size=null"
  changes(ARGS(SFT), ARGS(SFT, "reward=[]", "rollout.max_response_length=8", "rollout.stop=x"),
          "\n  rollout.max_response_length: 16 -> 8\n  rollout.stop: null -> [\"x\"]"
          "\n  reward: [{name: exact, weight: 1}] -> []",
          "", "");
}

/* An existing file is the same under every name. */
static void one_file_has_many_names(void **state) {
  char  dir[] = "/tmp/test_compare_XXXXXX", a[64], b[96], c[96];
  FILE *f;

  (void)state;
  assert_non_null(mkdtemp(dir));
  snprintf(a, sizeof a, "%s/t.jsonl", dir);
  f = fopen(a, "w");
  assert_non_null(f);
  fclose(f);
  snprintf(a, sizeof a, "data.train=%s/t.jsonl", dir);
  snprintf(b, sizeof b, "data.train=%s/../%s/./t.jsonl", dir, strrchr(dir, '/') + 1);
  snprintf(c, sizeof c, "\n  data.train: [\"%s/t.jsonl\"] -> [\"%s/u.jsonl\"]", dir, dir);
  changes(ARGS(a), ARGS(b), "", "", "");
  snprintf(b, sizeof b, "data.train=%s/u.jsonl", dir);
  changes(ARGS(a), ARGS(b), "", c, "data.train");
  snprintf(a, sizeof a, "%s/t.jsonl", dir);
  unlink(a);
  rmdir(dir);
}

/* This holds for a reward's file too. */
static void a_rewards_folder_has_many_names(void **state) {
  (void)state;
#define JUDGED(path, weight) ARGS("reward=[{name: exact}, {name: model, path: " path ", weight: " weight "}]")
  changes(JUDGED("/tmp", "1"), JUDGED("/tmp/../tmp/.", "1"), "", "", "");
  changes(JUDGED("/tmp", "1"), JUDGED("/tmp/.", "2"), "",
          "\n  reward: [{name: exact, weight: 1}, {name: model, weight: 1, path: \"/tmp\"}] -> "
          "[{name: exact, weight: 1}, {name: model, weight: 2, path: \"/tmp/.\"}]",
          "reward");
  changes(ARGS("reward=[{name: regex, pattern: /tmp}]"), ARGS("reward=[{name: regex, pattern: /tmp/.}]"), "",
          "\n  reward: [{name: regex, weight: 1, pattern: \"/tmp\"}] -> "
          "[{name: regex, weight: 1, pattern: \"/tmp/.\"}]",
          "reward");
}

/* A written deck has masks. Another secret, or another place for it, is no change of the experiment. Another
 * host, model or program is. */
static void secrets_are_no_part_of_it(void **state) {
  static const char *const same[] = {"url: 'http://other:pw2@h/x?key=B&model=m'",
                                     "url: 'http://***@h/x?key=***&model=m'", "url_file: f", "url_env: V"};
#define HTTP(where) ARGS("reward=[{name: http, " where "}]")
  (void)state;
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    char text[96];
    snprintf(text, sizeof text, "reward=[{name: http, %s}]", same[i]);
    changes(HTTP("url: 'http://user:pw1@h/x?key=A&model=m'"), ARGS(text), "", "", "");
    changes(ARGS(text), HTTP("url: 'http://user:pw1@h/x?key=A&model=m'"), "", "", "");
  }
  changes(HTTP("url: 'http://u:p@h/x?key=A'"), HTTP("url: 'http://u:p@g/x?key=A'"), "",
          "\n  reward: [{name: http, weight: 1, url: \"http://***@h/x?key=***\"}] -> "
          "[{name: http, weight: 1, url: \"http://***@g/x?key=***\"}]",
          "reward");
  changes(HTTP("url_env: V"), HTTP("url_env: V, timeout_s: 9"), "",
          "\n  reward: [{name: http, weight: 1, url_env: \"V\"}] -> "
          "[{name: http, weight: 1, url_env: \"V\", timeout_s: \"9\"}]",
          "reward");
#define CHILD(words) ARGS("reward=[{name: process, command: [" words "]}]")
  changes(CHILD("v, --token, A, -c, 'KEY=1 API_KEY=B x'"), CHILD("v, --token, C, -c, 'KEY=1 API_KEY=D x'"),
          "", "", "");
  changes(CHILD("v, --token, A"), CHILD("w, --token, A"), "",
          "\n  reward: [{name: process, weight: 1, command: [\"v\", \"--token\", \"***\"]}] -> "
          "[{name: process, weight: 1, command: [\"w\", \"--token\", \"***\"]}]",
          "reward");
}

static void names_that_are_none_are_refused(void **state) {
  tri_config c;
  tri_deck  *d = NULL;

  (void)state;
  tri_error_clear();
  assert_int_equal(tri_deck_open_text("d.yaml", GRPO, strlen(GRPO), &d), TRI_OK);
  assert_int_equal(tri_deck_set(d, "run.allow_changes=[run.seed, data.trian]"), TRI_OK);
  assert_int_equal(tri_config_from_deck(d, &c, NULL), TRI_ECONFIG);
  expect_refusal(
      "check_allowed() run.allow_changes=[run.seed, data.trian] run.allow_changes data.trian data.train");
  tri_config_free(&c);
  tri_deck_close(&d);
}

static void every_row_has_decided(void **state) {
  (void)state;
  for (int i = 0; i < tri_n_keys; i++)
    assert_true(tri_keys[i].change >= TRI_CHANGE_REFUSED && tri_keys[i].change <= TRI_CHANGE_HERE);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_known_by_their_bytes),
                                     cmocka_unit_test(equal_decks_have_no_changes),
                                     cmocka_unit_test(order_alone_is_no_change),
                                     cmocka_unit_test(this_start_alone_is_not_compared),
                                     cmocka_unit_test(rate_length_and_reports_go_on),
                                     cmocka_unit_test(the_experiment_is_refused_as_a_whole),
                                     cmocka_unit_test(what_is_allowed_is_listed),
                                     cmocka_unit_test(evaluation_of_sft_is_listed),
                                     cmocka_unit_test(one_file_has_many_names),
                                     cmocka_unit_test(a_rewards_folder_has_many_names),
                                     cmocka_unit_test(secrets_are_no_part_of_it),
                                     cmocka_unit_test(names_that_are_none_are_refused),
                                     cmocka_unit_test(every_row_has_decided),
                                     cmocka_unit_test(a_critics_start_is_over),
                                     cmocka_unit_test(keys_of_adapters_without_any_are_no_change),
                                     cmocka_unit_test(models_of_adapters_may_move),
                                     cmocka_unit_test(a_scales_start_is_over)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
