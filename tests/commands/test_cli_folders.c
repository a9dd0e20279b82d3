/* test_cli_folders.c - model folders from other tools: tokens beside tokenizer.json, several end tokens,
 * indexes with missing tensors, the Hub's cache. Judge: transformers 5.24 on the same files, in ids and
 * messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_facts.h"

#include <errno.h>
#include <jansson.h>

#define LARGE "\"model_max_length\": 1000000000000000019884624838656}"
#define ADDED(id, content)                                                                                   \
  "\"" id "\": {\"content\": \"" content                                                                     \
  "\", \"lstrip\": false, \"rstrip\": false, \"single_word\": false, "                                       \
  "\"normalized\": false, \"special\": true}"

static void write_in(const char *folder, const char *file, const char *text) {
  char path[512];

  snprintf(path, sizeof path, "%s/%s", folder, file);
  cli_write(path, text);
}

static void tokens_beside_tokenizer_json(void **state) {
  (void)state;
  cli_sh("cp -r model beside");
  cli_write("think.jsonl", "{\"text\": \"<think>a</think>\"}\n");
  write_in("beside", "tokenizer_config.json",
           "{\"eos_token\": \"<|end|>\", \"added_tokens_decoder\": {" ADDED(
               "257", "<think>") "}, "
                                 "\"extra_special_tokens\": [\"</think>\"], " LARGE);
  cli_succeeds(ONE "tokenize beside think.jsonl");
  cli_shows(cli_out, "[257,64,258]");
  /* new tokens have no row in this model of 257 */
  cli_refuses(64, ONE "score beside think.jsonl", "put_encoded", "think.jsonl:1", "'<think>'", "257",
              "resize_token_embeddings");
  cli_refuses(64, ONE "generate beside '<think>'", "check_rows", "'<think>'", "257",
              "resize_token_embeddings");
  cli_succeeds(ONE "score beside sft.jsonl");
  write_in("beside", "tokenizer_config.json", "{}");
  write_in("beside", "special_tokens_map.json",
           "{\"pad_token\": {\"content\": \"<think>\", \"lstrip\": true}}");
  write_in("beside", "added_tokens.json", "{\"</think>\": 257}");
  cli_succeeds(ONE "tokenize beside think.jsonl");
  cli_shows(cli_out, "[258,64,257]");
  write_in("beside", "special_tokens_map.json", "{\"pad_token\": 7}");
  cli_refuses(64, ONE "tokenize beside think.jsonl", "read_spec", "beside/special_tokens_map.json",
              "pad_token", "content");
}

/* They are in checkpoints, and a checkpoint reads the same with them. */
static void tokens_beside_it_travel(void **state) {
  (void)state;
  cli_sh("cp -r model travel");
  write_in("travel", "tokenizer_config.json", "{\"eos_token\": \"<|end|>\"}");
  write_in("travel", "special_tokens_map.json", "{\"pad_token\": \"3+\"}");
  write_in("travel", "added_tokens.json", "{\"=7\": 300}");
  cli_write("sum.jsonl", "{\"text\": \"3+4=7\"}\n");
  cli_succeeds(ONE "tokenize travel sum.jsonl");
  cli_shows(cli_out, "[258,19,257]"); /* =7, then 3+, behind the 257 of the model */
  cli_says(cli_err, "warning", "travel/tokenizer.json", "=7", "300", "257");
  cli_sh(
      "sed 's/\"vocab_size\": 257/\"vocab_size\": 259/' config.json >wide.json && cp tokenizer.json travel/");
  cli_succeeds(ONE SFT
               "model.config=wide.json model.tokenizer=travel/tokenizer.json run.output=wide train.steps=1");
  cli_succeeds(ONE "tokenize wide sum.jsonl");
  cli_shows(cli_out, "[258,19,257]");
  cli_succeeds(ONE "export wide wide_model");
  cli_succeeds(ONE "tokenize wide_model sum.jsonl");
  cli_shows(cli_out, "[258,19,257]");
}

/* added_tokens.json is a link here. It is neither read nor saved, so a run and the commands on its
 * checkpoint have the same tokens. */
static void no_token_comes_by_a_link_out_of_the_folder(void **state) {
  (void)state;
  cli_sh("cp -r model linked && echo '{\"=7\": 257}' >outside.json && ln -s ../outside.json "
         "linked/added_tokens.json");
  cli_succeeds(ONE LOAD "model.path=linked run.output=linked_run train.steps=1");
  assert_int_equal(cli_saying(cli_err, "warning", "linked/added_tokens.json"), 2); /* read nor carried on */
  cli_succeeds(ONE "tokenize linked_run sum.jsonl");
  cli_sh("cp .out carried.ids");
  cli_succeeds(ONE "tokenize linked sum.jsonl");
  assert_int_equal(cli_saying(cli_err, "warning", "linked/added_tokens.json"), 1);
  cli_sh("cmp .out carried.ids");
  cli_write("learn.jsonl", "{\"prompt\": \"3+4=7\", \"completion\": \"7\"}\n");
  cli_succeeds(ONE "score linked learn.jsonl");
}

/* TRL 1.16, sft_trainer.py, add_eos, appends the tokenizer's end token. The model's end tokens are a list. */
static void the_end_of_a_text_is_the_tokenizers(void **state) {
  (void)state;
  cli_sh("cp -r model ends");
  write_in("ends", "generation_config.json", "{\"eos_token_id\": [65, 33, 256]}");
  write_in("ends", "tokenizer_config.json", "{\"eos_token\": \"<|end|>\"}");
  cli_succeeds(ONE "score ends sft.jsonl --json");
  cli_shows(cli_out, "{\"tokens\": [18, 10, 15, 28, 18, 256]");
  write_in("ends", "tokenizer_config.json",
           "{\"eos_token\": {\"__type\": \"AddedToken\", \"content\": \"B\"}}");
  cli_succeeds(ONE "score ends sft.jsonl --json");
  cli_shows(cli_out, "{\"tokens\": [18, 10, 15, 28, 18, 33]");
  write_in("ends", "tokenizer_config.json", "{\"eos_token\": \"C\"}"); /* does not end an answer */
  cli_succeeds(ONE "score ends sft.jsonl --json");
  cli_shows(cli_out, "{\"tokens\": [18, 10, 15, 28, 18, 65]");
  cli_succeeds(ONE LOAD "model.path=ends run.output=ends_run train.steps=1");
}

static void an_index_may_name_what_was_left_out(void **state) {
  (void)state;
  cli_sh("cp -r model sharded && mv sharded/model.safetensors sharded/model-00001-of-00001.safetensors");
  write_in("sharded", "model.safetensors.index.json",
           "{\"weight_map\": {\"lm_head.weight\": \"model-00001-of-00001.safetensors\", "
           "\"model.norm.weight\": \"model-00001-of-00001.safetensors\"}}");
  cli_succeeds(ONE "score sharded sft.jsonl");
  cli_says(cli_err, "model.safetensors.index.json", "1 tensor", "lm_head.weight");
  cli_sh("sed -i 's/\"tie_word_embeddings\": true/\"tie_word_embeddings\": false/' sharded/config.json && "
         "grep -q 'embeddings\": false' sharded/config.json");
  cli_refuses(64, ONE "score sharded sft.jsonl", "fail_absent", "sharded", "lm_head.weight",
              "tie_word_embeddings: true", "model.safetensors.index.json",
              "model-00001-of-00001.safetensors");
}

/* Returns the base named in an export of adapters of a model at `path`. */
static void names_base(const char *path, const char *base, const char *revision) {
  char    command[512];
  json_t *root;

  snprintf(command, sizeof command,
           ONE LOAD "model.path=%s run.output=adapted lora.rank=2 train.steps=1 && " ONE
                    "export adapted alone --adapter",
           path);
  cli_sh("rm -rf adapted alone");
  cli_succeeds(command);
  assert_non_null(root = json_load_file("alone/adapter_config.json", 0, NULL));
  assert_string_equal(json_string_value(json_object_get(root, "base_model_name_or_path")), base);
  if (revision) assert_string_equal(json_string_value(json_object_get(root, "revision")), revision);
  if (!revision) assert_true(json_is_null(json_object_get(root, "revision")));
  assert_int_equal(json_integer_value(json_object_get(root, "r")), 2);
  json_decref(root);
}

/* The base is named by its Hub name if that is certain, from a cache or from a folder with that name. */
static void an_exported_adapter_names_its_base(void **state) {
  char path[300];

  (void)state;
  cli_sh("mkdir -p owned/it && cp -r model/. owned/it && sed -i 's/^{/{\"_name_or_path\": \"me\\/it\",/' "
         "owned/it/config.json && cp -r owned/it owned/mine");
  names_base("owned/it", "me/it", NULL);
  snprintf(path, sizeof path, "%s/owned/mine", cli_root);
  names_base("owned/mine", path, NULL); /* made from me/it */
  cli_sh("mkdir -p store/models--me--its--own/snapshots && "
         "cp -r model store/models--me--its--own/snapshots/abc");
  names_base("store/models--me--its--own/snapshots/abc/", "me/its--own", "abc");
}

static void a_cache_of_the_hub(void **state) {
  (void)state;
  cli_sh("mkdir -p hub/models--me--it/refs hub/models--me--it/blobs hub/models--me--it/snapshots/abc && "
         "cd hub/models--me--it && for f in ../../model/*; do n=$(basename $f); cp $f blobs/b-$n; "
         "ln -s ../../blobs/b-$n snapshots/abc/$n; done; printf abc >refs/main");
  cli_succeeds(TWO LOAD "model.path=hub/models--me--it run.output=cached train.steps=1");
  assert_int_equal(cli_saying(cli_err, "abc", "refs/main"), 1); /* not by each rank */
  cli_succeeds(ONE "score hub/models--me--it/snapshots sft.jsonl");
  cli_succeeds(ONE "inspect hub/models--me--it/");
  cli_succeeds(ONE "tokenize hub/models--me--it sft.jsonl --help");
  cli_refuses(64, ONE "score hub sft.jsonl", "check_cache", "hub", "models--me--it");
  cli_refuses(64, "HF_HUB_CACHE=hub " ONE "score me/it sft.jsonl", "tri_source_missing", "me/it",
              "hub/models--me--it");
  cli_sh("mkdir -p inputs/models/far && cp model/config.json inputs/models/far/");
  cli_fails_in(64, ONE "plan sft.yaml model.config=null model.tokenizer=null model.path=models/far",
               "tri_source_missing", "models/far: ");
  cli_shows(cli_err, "model.path=inputs/models/far");
  cli_sh("cp -r hub paper && rm paper/models--me--it/snapshots/abc/*.safetensors");
  cli_succeeds(ONE "plan sft.yaml model.config=null model.tokenizer=null model.path=paper/models--me--it");
  cli_sh("printf gone >hub/models--me--it/refs/main");
  cli_refuses(64, ONE "score hub/models--me--it sft.jsonl", "refuse", "hub/models--me--it", "refs/main",
              "gone", "abc", "hf download me/it");
  cli_sh("printf ../abc >hub/models--me--it/refs/main");
  cli_refuses(64, TWO LOAD "model.path=hub/models--me--it", "read_main", "hub/models--me--it/refs/main",
              "hf download", "model.path");
  cli_sh("rm hub/models--me--it/refs/main");
  cli_succeeds(ONE "score hub/models--me--it sft.jsonl");
  cli_sh("mkdir hub/models--me--it/snapshots/def");
  cli_refuses(64, ONE "score hub/models--me--it sft.jsonl", "refuse", "hub/models--me--it", "refs/main",
              "abc", "def", "hf download me/it");
}

/* The folder "odd" is the model after a shell command in it. The facts of its message follow. */
#define odd_says(change, function, ...)                                                                      \
  do {                                                                                                       \
    cli_sh("rm -rf odd && cp -r model odd && cd odd && %s", change);                                         \
    cli_refuses(64, ONE "score odd sft.jsonl", function, __VA_ARGS__);                                       \
  } while (0)

static void folders_of_other_tools_say_what_to_do(void **state) {
  (void)state;
  odd_says("mv model.safetensors pytorch_model.bin", "add_folder", "odd", "pytorch_model.bin",
           "safe_serialization=True");
  odd_says("mv model.safetensors model-00001-of-00002.safetensors", "fail_folder", "odd",
           "model-00001-of-00002.safetensors", "model.safetensors.index.json");
  odd_says("mv model.safetensors consolidated.safetensors", "fail_folder", "odd", "consolidated.safetensors");
  odd_says("mv model.safetensors m.Q4.gguf", "fail_folder", "odd", "m.Q4.gguf", "bf16", "f32");
  odd_says("mv model.safetensors adapter_model.safetensors", "fail_folder", "odd", "lora.path");
  odd_says("rm model.safetensors && mkdir global_step9 global_step20", "fail_folder", "odd", "global_step20",
           "zero_to_fp32.py");
  odd_says("mkdir w && mv model.safetensors w/", "fail_folder", "odd", "odd/w");
  odd_says(
      "rm model.safetensors && for n in 9 20; do mkdir checkpoint-$n && cp ../model/* checkpoint-$n/; done",
      "fail_folder", "odd", "odd/checkpoint-20");
  odd_says("rm model.safetensors && ln -s gone model.safetensors", "fail_folder", "odd", "model.safetensors",
           "link");
  odd_says("rm config.json && ln -s gone config.json", "fail_unknown", "odd", "config.json", "link");
  odd_says("rm model.safetensors && echo '{\"weight_map\": {\"a\": \"b.safetensors\"}}' "
           ">model.safetensors.index.json",
           "open_to_read", "odd/b.safetensors", strerror(ENOENT), "index");
  odd_says("mkdir checkpoint-9 && mv *.* checkpoint-9/", "fail_unknown", "odd", "config.json",
           "odd/checkpoint-9");
  cli_refuses(64, ONE "score model/config.json sft.jsonl", "fail_unknown", "model/config.json", "model");
  cli_refuses(64, ONE "tokenize model/tokenizer.json sft.jsonl", "open_tokenizer", "model/tokenizer.json");
  cli_sh("rm -rf odd && cp -r model odd && mv odd/tokenizer.json odd/tokenizer.model");
  cli_refuses(64, ONE "tokenize odd sft.jsonl", "open_tokenizer", "odd", "tokenizer.json", "save_pretrained");
  assert_int_equal(cli_run(ONE "score odd sft.jsonl"), 64);
  cli_says(cli_err, "warning", "odd", "tokenizer.model", "tokenizer.json", "save_pretrained");
  /* names without a meaning here */
  cli_sh("rm -rf odd && cp -r model odd && sed -i 's/\"LlamaForCausalLM\"//' odd/config.json");
  write_in("odd", "tokenizer_config.json", "{\"tokenizer_class\": \"SomeTokenizer\"}");
  cli_succeeds(ONE "score odd sft.jsonl");
  cli_sh("tr -d '\\n' <model/config.json | sed 's/\"architectures\": *\\[[^]]*\\]/\"architectures\": null/' "
         ">odd/config.json && grep -q 'architectures\": null' odd/config.json");
  cli_succeeds(ONE "score odd sft.jsonl");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_beside_tokenizer_json),
      cmocka_unit_test(tokens_beside_it_travel),
      cmocka_unit_test(no_token_comes_by_a_link_out_of_the_folder),
      cmocka_unit_test(the_end_of_a_text_is_the_tokenizers),
      cmocka_unit_test(an_index_may_name_what_was_left_out),
      cmocka_unit_test(an_exported_adapter_names_its_base),
      cmocka_unit_test(a_cache_of_the_hub),
      cmocka_unit_test(folders_of_other_tools_say_what_to_do),
  };

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
