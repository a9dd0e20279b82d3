/* test_peft.c - tests adapter_config.json: which fields of PEFT are read, refused by name, or change nothing.
 * Judge: LoraConfig of peft 0.21 (tests/data/lora, written by it), and its meanings of target_modules. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/hf/peft.h"
#include "refusal_case.h"

static tri_model_shape shape = {.L = 2};

/* Makes the file with `fields` behind the required ones. */
static tri_status parse(const char *fields, tri_lora *out) {
  char text[2048];

  snprintf(text, sizeof text, "{%s\"r\": 8, \"lora_alpha\": 4%s%s}",
           strstr(fields, "peft_type") ? "" : "\"peft_type\": \"LORA\", ", *fields ? ", " : "", fields);
  tri_error_clear();
  return tri_peft_parse(&(tri_hf_text){"adapter_config.json", text, strlen(text)}, &shape, NULL, false, out);
}

/* Indices of rows in llama's table. */
static uint64_t rows(const char *a, const char *b) {
  return tri_lora_find(shape.family, a) | (b ? tri_lora_find(shape.family, b) : 0);
}

static void is_read(const char *fields, uint64_t target) {
  tri_lora l;

  if (parse(fields, &l) != TRI_OK) fail_msg("%s: %s", fields, tri_error_message());
  assert_int_equal(l.rank, 8);
  if (l.target != target) fail_msg("%s: targets %llx", fields, (unsigned long long)l.target);
}

static void is_refused(const char *fields, const char *part) {
  tri_lora l;

  if (parse(fields, &l) != TRI_EINPUT) fail_msg("%s: is taken", fields);
  expect_refusal(part);
}

#define QV "\"target_modules\": [\"q_proj\", \"v_proj\"]"

static void targets(void **state) {
  (void)state;
  is_read("\"target_modules\": \"all-linear\"", tri_lora_all(shape.family));
  is_read(QV, rows("q_proj", "v_proj"));
  is_read("\"target_modules\": [\"self_attn.q_proj\"]", rows("q_proj", NULL));
  is_read("\"target_modules\": [\"model.layers.0.mlp.up_proj\", \"layers.1.mlp.up_proj\"]",
          rows("up_proj", NULL));
  is_refused("\"target_modules\": [\"model.layers.0.mlp.up_proj\"]",
             "refuse() adapter_config.json target_modules PEFT");
  is_read("\"target_modules\": [\"q_proj\", \"lm_head\"]", rows("q_proj", NULL));
  is_read("\"target_modules\": [\"in_proj_qkv\", \"q_proj\", \"v_proj\"]", rows("q_proj", "v_proj"));
  is_refused("\"target_modules\": [\"lm_head\", \"embed_tokens\"]",
             "refuse() adapter_config.json target_modules [\"lm_head\",\"embed_tokens\"]");
  is_refused("\"target_modules\": [\"proj\"]", "refuse() adapter_config.json target_modules [\"proj\"]");
  is_refused("\"target_modules\": [\"\"]", "target_modules");
  is_refused("\"target_modules\": [7]", "refuse() adapter_config.json target_modules 7");
  is_refused("\"target_modules\": []", "target_modules");
  is_read("\"target_modules\": \".*_proj\"", tri_lora_all(shape.family));
  is_read("\"target_modules\": \".*\\\\.(q_proj|v_proj)\"", rows("q_proj", "v_proj"));
  is_read("\"target_modules\": \"^(model\\\\.layers)(?!.*(lm_head|k_proj)).*\\\\.(q_proj|k_proj|v_proj)$\"",
          rows("q_proj", "v_proj"));
  is_read(
      "\"target_modules\": "
      "\"(?:.*?(?:text).*?(?:attn|mlp).*?\\\\.(?:q_proj|v_proj))|(?:\\\\bmodel\\\\.layers\\\\.[\\\\d]{1,}\\\\"
      "..*?(?:attn|mlp).*?\\\\.(?:(?:q_proj|v_proj)))\"",
      rows("q_proj", "v_proj"));
  is_read("\"target_modules\": \".*_proj\", \"exclude_modules\": \".*\\\\.mlp\\\\..*\"",
          rows("q_proj", "k_proj") | rows("v_proj", "o_proj"));
  is_read(QV ", \"exclude_modules\": [\"lm_head\", \"k_proj\"]", rows("q_proj", "v_proj"));
  is_read(QV ", \"exclude_modules\": \"\"", rows("q_proj", "v_proj"));
  is_read(QV ", \"exclude_modules\": [\"self_attn.v_proj\"]", rows("q_proj", NULL));
  is_refused(QV ", \"exclude_modules\": [\"layers.1.self_attn.v_proj\"]",
             "refuse() adapter_config.json target_modules PEFT");
  is_refused(QV ", \"exclude_modules\": [\"q_proj\", \"v_proj\"]",
             "refuse() adapter_config.json target_modules [\"q_proj\",\"v_proj\"]");
  is_refused(QV ", \"exclude_modules\": 7", "refuse() adapter_config.json exclude_modules 7");
  is_refused("\"target_modules\": \"q_proj\"", "target_modules is \"q_proj\""); /* the whole name */
  is_refused("\"target_modules\": \".*layers.0.*\"", "refuse() adapter_config.json target_modules PEFT");
  /* re.fullmatch of Python has no POSIX classes, but reads their letters as sets */
  is_refused("\"target_modules\": \".*\\\\.[[:alpha:]]*q_proj\"",
             "refuse() adapter_config.json target_modules !PEFT");
  is_read("\"target_modules\": \".*[:alph:]_proj\"", rows("up_proj", NULL));
  is_read("\"target_modules\": \".*[[.q.]_proj\"", rows("q_proj", NULL));
  is_read("\"target_modules\": \".*[[=v=]_proj|.*[.]q_proj\"", rows("q_proj", "v_proj"));
  is_refused("\"target_modules\": \"(\"", "compile() adapter_config.json target_modules 1");
  is_refused("\"target_modules\": \".{,9}q_proj\"",
             "refuse() adapter_config.json target_modules .{,9}q_proj");
  is_refused("\"target_modules\": \"(.*)*(.*)*(.*)*(.*)*x\"",
             "refuse() adapter_config.json target_modules (.*)*(.*)*(.*)*(.*)*x");
  is_refused("\"target_modules\": \"\"", "target_modules is \"\"");
  is_refused("\"bias\": \"none\"", "refuse() target_modules not there");
}

/* Judge: golden of PEFT's check_target_module_exists, exact. */
static void targets_as_peft(void **state) {
  json_t *list = json_load_file(TRI_TEST_DATA "/lora/targets.json", 0, NULL), *row, *name;
  size_t  i, k;

  (void)state;
  assert_true(json_array_size(list) > 200);
  json_array_foreach(list, i, row) {
    json_t  *want = json_array_get(row, 1);
    char    *fields = json_dumps(json_array_get(row, 0), 0);
    uint64_t target = 0;
    fields[strlen(fields) - 1] = 0;
    json_array_foreach(want, k, name) target |= tri_lora_find(shape.family, json_string_value(name));
    if (target)
      is_read(fields + 1, target);
    else
      is_refused(fields + 1, json_is_string(want) ? "refuse() adapter_config.json target_modules PEFT"
                                                  : "refuse() adapter_config.json target_modules !PEFT");
    free(fields);
  }
  json_decref(list);
}

static void fields(void **state) {
  static const struct {
    const char *field, *name;
  } off[] = {
      {"\"use_dora\": true", "refuse() adapter_config.json use_dora true"},
      {"\"rank_pattern\": {\"q_proj\": 4}", "refuse() adapter_config.json rank_pattern {\"q_proj\":4}"},
      {"\"alpha_pattern\": {\"q_proj\": 4}", "refuse() adapter_config.json alpha_pattern {\"q_proj\":4}"},
      {"\"layers_to_transform\": [0]", "refuse() adapter_config.json layers_to_transform [0]"},
      {"\"layers_to_transform\": 0", "refuse() adapter_config.json layers_to_transform 0"},
      {"\"fan_in_fan_out\": true", "refuse() adapter_config.json fan_in_fan_out true"},
      {"\"bias\": \"all\"", "refuse() adapter_config.json bias all"},
      {"\"lora_bias\": true", "refuse() adapter_config.json lora_bias true"},
      {"\"layer_replication\": [[0, 1]]", "refuse() adapter_config.json layer_replication [[0,1]]"},
      {"\"trainable_token_indices\": [1]", "refuse() adapter_config.json trainable_token_indices [1]"},
      {"\"target_parameters\": [\"x\"]", "refuse() adapter_config.json target_parameters [\"x\"]"},
      {"\"megatron_config\": {\"x\": 1}", "refuse() adapter_config.json megatron_config {\"x\":1}"},
      {"\"init_lora_weights\": \"pissa\"", "refuse() adapter_config.json init_lora_weights pissa"},
      {"\"modules_to_save\": [\"lm_head\"]", "refuse() adapter_config.json modules_to_save [\"lm_head\"]"},
      {"\"modules_to_save\": [\"score\"]", "refuse() adapter_config.json modules_to_save [\"score\"]"},
      {"\"use_qalora\": true", "refuse() adapter_config.json use_qalora true"},
      {"\"alora_invocation_tokens\": [1]", "refuse() adapter_config.json alora_invocation_tokens [1]"},
      {"\"something_new\": 1", "refuse() adapter_config.json something_new 1"},
      {"\"use_rslora\": \"yes\"", "refuse() adapter_config.json use_rslora yes"}};
  char     text[512];
  tri_lora l;

  (void)state;
  for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
    snprintf(text, sizeof text, QV ", %s", off[i].field);
    is_refused(text, off[i].name);
    if (strncmp(off[i].field, "\"alora", 6) && strncmp(off[i].field, "\"use_rslora", 11))
      is_refused(text, "refuse() PEFT merge_and_unload().save_pretrained(\"MERGED\")");
  }
  is_refused("\"target_modules\": [\"layers.1.self_attn.v_proj\"]", "refuse() "
                                                                    "merge_and_unload().save_pretrained");
  is_refused("\"peft_type\": \"IA3\", " QV, "refuse() merge_and_unload().save_pretrained");
  is_read(QV ", \"something_new\": null, \"other\": false, \"more\": {}, \"use_dora\": false",
          rows("q_proj", "v_proj"));
  is_read(QV ", \"init_lora_weights\": \"eva\", \"eva_config\": {\"rho\": 1.0}", rows("q_proj", "v_proj"));
  is_read(QV ", \"lora_dropout\": 0.05, \"init_lora_weights\": \"gaussian\", \"inference_mode\": true",
          rows("q_proj", "v_proj"));
  assert_int_equal(parse(QV, &l), TRI_OK);
  assert_true(tri_lora_scale(&l) == 0.5f);
  assert_int_equal(parse(QV ", \"use_rslora\": true", &l), TRI_OK);
  assert_true(fabsf(tri_lora_scale(&l) - 4 / sqrtf(8)) < 1e-6f);
}

static void numbers(void **state) {
  static const char *const text[] = {"{\"peft_type\": \"LORA\", \"lora_alpha\": 4, " QV "}",
                                     "{\"peft_type\": \"LORA\", \"r\": 0, \"lora_alpha\": 4, " QV "}",
                                     "{\"peft_type\": \"LORA\", \"r\": 2.5, \"lora_alpha\": 4, " QV "}",
                                     "{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": -1, " QV "}",
                                     "{\"peft_type\": \"LORA\", \"r\": 8, \"lora_alpha\": 1e300, " QV "}",
                                     "{\"peft_type\": \"LORA\", \"r\": 8, " QV "}",
                                     "{\"peft_type\": \"IA3\", \"r\": 8, \"lora_alpha\": 4, " QV "}",
                                     "{\"r\": 8, \"lora_alpha\": 4, " QV "}",
                                     "[]",
                                     "{"};
  tri_lora                 l;

  (void)state;
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    assert_int_equal(
        tri_peft_parse(&(tri_hf_text){"a.json", text[i], strlen(text[i])}, &shape, NULL, false, &l),
        TRI_EINPUT);
}

/* A written file is read back as the same. */
static void written(void **state) {
  tri_lora before = {16, 24.5, true, 0}, after;
  tri_text text = {0};

  (void)state;
  before.target = rows("o_proj", "down_proj");
  assert_int_equal(tri_peft_print(&before, &shape, "some \"where\"", &text), TRI_OK);
  assert_int_equal(tri_peft_parse(&(tri_hf_text){"a.json", text.data, text.len}, &shape, NULL, false, &after),
                   TRI_OK);
  assert_true(after.rank == 16 && after.alpha == 24.5 && after.rs && after.target == before.target);
  tri_text_free(&text);
}

static int open(void **state) {
  (void)state;
  shape.family = tri_family_find("llama");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(targets), cmocka_unit_test(targets_as_peft),
                                     cmocka_unit_test(fields), cmocka_unit_test(numbers),
                                     cmocka_unit_test(written)};
  return cmocka_run_group_tests(tests, open, NULL);
}
