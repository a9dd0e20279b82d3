/* test_cli_carried.c - files beside a model's weights for other programs: chat template, vocabulary, merges.
 * Judge: the exported files equal those of the first folder byte for byte. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

static const char *const names[] = {"chat_template.jinja",
                                    "chat_template.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "tokenizer.model",
                                    "spiece.model",
                                    "vocab.txt",
                                    "LICENSE",
                                    "LICENSE.txt",
                                    "LICENSE.md",
                                    "USE_POLICY.md",
                                    "additional_chat_templates/tool_use.jinja"};
enum { N = sizeof names / sizeof *names };

/* Copies the exported model, with files of arbitrary bytes that no other test has. */
static void make_model(const char *folder) {
  cli_sh("rm -rf %s && cp -r model %s && mkdir %s/additional_chat_templates", folder, folder, folder);
  for (int i = 0; i < N; i++)
    cli_sh("printf 'file %d \\0 \\377 \\r\\n{{ no newline' >%s/%s", i, folder, names[i]);
  cli_sh("printf ' {\\r\\n}' >%s/special_tokens_map.json; printf '{ }' >%s/added_tokens.json", folder,
         folder);
}

static void are_equal(const char *a, const char *b) {
  for (int i = 0; i < N; i++) cli_sh("cmp %s/%s %s/%s", a, names[i], b, names[i]);
}

static void through_training_resume_and_export(void **state) {
  (void)state;
  make_model("hf");
  cli_sh("cp -r hf first");
  cli_succeeds(TWO LOAD "model.path=hf run.output=o train.steps=1");
  cli_sh("rm -r hf"); /* a checkpoint stands alone */
  cli_succeeds(TWO LOAD "model.path=hf run.output=o train.steps=2");
  cli_succeeds(ONE "export o e");
  are_equal("first", "e");
  cli_sh("cmp first/tokenizer.json e/tokenizer.json && cmp first/tokenizer_config.json "
         "e/tokenizer_config.json && cmp first/generation_config.json e/generation_config.json");
  cli_succeeds(ONE LOAD "model.path=o run.output=p train.steps=1"); /* from a run as from a folder */
  cli_succeeds(ONE "export p q");
  are_equal("first", "q");
}

/* Published files have these. transformers treats each as a missing field. */
static void a_null_in_a_config_goes_through(void **state) {
  static const char nulls[] =
      "\"sliding_window\": null,\\n  \"head_dim\": null,\\n  \"rope_scaling\": null,\\n  "
      "\"rope_parameters\": null,\\n  \"pad_token_id\": null,\\n  \"dtype\": null";

  (void)state;
  cli_sh("sed '/_dtype\"/d; s/^{/{\\n  %s,/' config.json >nulls.json && ! cmp -s config.json nulls.json",
         nulls);
  cli_succeeds(ONE SFT "model.config=nulls.json run.output=null_run train.steps=1");
  cli_succeeds(ONE "export null_run null_model");
  cli_sh("for key in sliding_window head_dim rope_scaling rope_parameters pad_token_id; do "
         "grep -q \"\\\"$key\\\": null\" null_model/config.json || exit 1; done; "
         "grep -q '\"dtype\": \"float32\"' null_model/config.json");
  cli_succeeds(ONE "generate null_model a --max-new 2");
}

static void random_weights_take_those_beside_the_tokenizer(void **state) {
  (void)state;
  make_model("tok");
  cli_succeeds(ONE SFT "model.tokenizer=tok/tokenizer.json run.output=r train.steps=1");
  cli_succeeds(ONE "export r s");
  are_equal("tok", "s");
}

/* The layout of Hugging Face's cache is snapshots/REVISION/NAME -> ../../blobs/HASH. */
static void a_cache_of_hugging_face_works(void **state) {
  (void)state;
  make_model("flat");
  cli_sh("rm -rf cache && mkdir -p cache/blobs cache/snapshots/1/additional_chat_templates && mv "
         "flat/additional_chat_templates/tool_use.jinja cache/blobs/b-tools && rmdir "
         "flat/additional_chat_templates && "
         "ln -s ../../../blobs/b-tools cache/snapshots/1/additional_chat_templates/tool_use.jinja && "
         "for f in flat/*; do n=$(basename $f);"
         " mv $f cache/blobs/b-$n && ln -s ../../blobs/b-$n cache/snapshots/1/$n; done && ln -s "
         "cache/snapshots/1 named");
  cli_succeeds(ONE LOAD "model.path=named run.output=c train.steps=1");
  cli_succeeds(ONE "export c d");
  are_equal("cache/snapshots/1", "d");
}

static void no_link_is_followed_out_of_the_folder(void **state) {
  (void)state;
  make_model("m");
  cli_sh("echo secret >secret; mkdir -p blobs; cd m && rm vocab.json merges.txt added_tokens.json "
         "tokenizer.model && ln -s ../secret vocab.json && ln -s \"$PWD/../secret\" merges.txt && ln -s "
         "special_tokens_map.json added_tokens.json && ln -s ../../blobs/../secret tokenizer.model && "
         "mv additional_chat_templates ../templates && ln -s ../templates additional_chat_templates");
  cli_succeeds(ONE LOAD "model.path=m run.output=n train.steps=1");
  cli_says(cli_err, "warning", "m/vocab.json", "link");
  cli_says(cli_err, "warning", "m/merges.txt", "link");
  cli_says(cli_err, "warning", "m/tokenizer.model", "link");
  cli_says(cli_err, "warning", "m/additional_chat_templates/tool_use.jinja", "link");
  cli_succeeds(ONE "export n x");
  assert_false(cli_exists("x/vocab.json") || cli_exists("x/merges.txt") || cli_exists("x/tokenizer.model") ||
               cli_exists("x/additional_chat_templates"));
  cli_sh("cmp m/special_tokens_map.json x/added_tokens.json");
}

static void large_files_are_refused_others_left_out(void **state) {
  (void)state;
  make_model("big");
  cli_sh("truncate --size=67108865 big/vocab.json");
  cli_fails(64, TWO LOAD "model.path=big train.steps=1", "big/vocab.json", "67108864");
  cli_sh("rm big/vocab.json big/merges.txt && mkfifo big/vocab.json && mkdir big/merges.txt");
  cli_succeeds(ONE LOAD "model.path=big run.output=small train.steps=1");
  cli_says(cli_err, "warning", "big/vocab.json");
  cli_says(cli_err, "warning", "big/merges.txt");
  assert_null(strstr(cli_err, "link"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(through_training_resume_and_export),
      cmocka_unit_test(a_null_in_a_config_goes_through),
      cmocka_unit_test(random_weights_take_those_beside_the_tokenizer),
      cmocka_unit_test(a_cache_of_hugging_face_works),
      cmocka_unit_test(no_link_is_followed_out_of_the_folder),
      cmocka_unit_test(large_files_are_refused_others_left_out),
  };

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
