/* test_hf_config.c - tests config.json of Llama and Qwen2 models.
 *
 * Judges: transformers (make_hf_config_golden.py), and for settings that cannot be computed the rule that
 * they are refused by name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "family/family.h"
#include "io/hf/hf_config.h"
#include "refusal_case.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static tri_status parse(const char *config, const char *generation, tri_model_shape *shape, tri_eos *eos) {
  tri_hf_text c = {"config.json", config, strlen(config)};
  tri_hf_text g = {"generation_config.json", generation, generation ? strlen(generation) : 0};

  tri_error_clear();
  return tri_hf_config_parse(&c, generation ? &g : NULL, shape, eos);
}

static double number(const json_t *want, const char *key) {
  const json_t *v = json_object_get(want, key);
  assert_non_null(v);
  return json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
}

static void check_case(const json_t *want, const tri_model_shape *s, const tri_eos *eos) {
  static const char *const rope[] = {"default", "linear", "llama3"};
  const json_t            *ids = json_object_get(want, "eos");

#define SAME(name, value) assert_true(number(want, name) == (double)(value))
  SAME("L", s->L);
  SAME("H", s->H);
  SAME("G", s->G);
  SAME("D", s->D);
  SAME("C", s->C);
  SAME("F", s->F);
  SAME("V", s->V);
  SAME("max_pos", s->max_pos);
  SAME("tied_head", s->tied_head);
  SAME("qkv_bias", s->qkv_bias);
  SAME("o_bias", s->o_bias);
  SAME("mlp_bias", s->mlp_bias);
  SAME("rope_theta", s->rope[TRI_GLOBAL].theta);
  SAME("rope_factor", s->rope[TRI_GLOBAL].factor);
  SAME("rope_low_freq", s->rope[TRI_GLOBAL].low_freq);
  SAME("rope_high_freq", s->rope[TRI_GLOBAL].high_freq);
  SAME("rope_original_max_pos", s->rope[TRI_GLOBAL].original_max_pos);
  SAME("bos", eos->bos);
  SAME("pad", eos->pad);
  assert_true((float)number(want, "norm_eps") == s->norm_eps);
  assert_true((float)number(want, "init_std") == s->init_std);
  assert_string_equal(json_string_value(json_object_get(want, "rope_type")), rope[s->rope[TRI_GLOBAL].type]);
  assert_string_equal(json_string_value(json_object_get(want, "model_type")), s->family->model_type);
  assert_int_equal(json_array_size(ids), eos->n);
  for (int i = 0; i < eos->n; i++)
    assert_int_equal(json_integer_value(json_array_get(ids, (size_t)i)), eos->id[i]);
}

/* Judge: transformers. */
static void agrees_with_transformers(void **state) {
  FILE  *f = fopen(TRI_TEST_DATA "/hf_config/cases.jsonl", "rb");
  char  *line = NULL;
  size_t cap = 0;
  int    n = 0;

  (void)state;
  assert_non_null(f);
  for (; getline(&line, &cap, f) > 0; n++) {
    json_t         *c = json_loads(line, 0, NULL);
    tri_model_shape shape;
    tri_eos         eos;
    assert_non_null(c);
    if (parse(json_string_value(json_object_get(c, "config")),
              json_string_value(json_object_get(c, "generation")), &shape, &eos) != TRI_OK)
      fail_msg("%s: %s", json_string_value(json_object_get(c, "name")), tri_error_message());
    check_case(json_object_get(c, "want"), &shape, &eos);
    json_decref(c);
  }
  assert_int_equal(n, 22);
  free(line);
  fclose(f);
}

#define BASE  "\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":100"
#define LLAMA "{\"model_type\":\"llama\"," BASE
#define QWEN  "{\"model_type\":\"qwen2\",\"num_key_value_heads\":2," BASE

/* Judge: values by hand. generation_config.json counts before config.json. */
static void finds_end_tokens(void **state) {
  static const struct {
    const char *config, *generation;
    int         n, first, last;
  } row[] = {
      {LLAMA "}", NULL, 1, 2, 2},
      {LLAMA ",\"eos_token_id\":null}", NULL, 0, 0, 0},
      {LLAMA ",\"eos_token_id\":[]}", NULL, 0, 0, 0},
      {LLAMA ",\"eos_token_id\":-1}", NULL, 0, 0, 0},
      {LLAMA ",\"eos_token_id\":5}", "{}", 1, 5, 5},
      {LLAMA ",\"eos_token_id\":5}", "{\"eos_token_id\":null}", 0, 0, 0},
      {LLAMA ",\"eos_token_id\":5}", "{\"eos_token_id\":7}", 1, 7, 7},
      {LLAMA ",\"eos_token_id\":5}", "{\"eos_token_id\":[7,9,7,0]}", 3, 7, 0},
      {QWEN "}", NULL, 0, 0, 0},
      {LLAMA ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", NULL, 16, 1, 16},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_model_shape shape;
    tri_eos         eos;
    assert_int_equal(parse(row[i].config, row[i].generation, &shape, &eos), TRI_OK);
    assert_int_equal(eos.n, row[i].n);
    if (!eos.n) continue;
    assert_int_equal(eos.id[0], row[i].first);
    assert_int_equal(eos.id[eos.n - 1], row[i].last);
  }
}

static void check_refused(const char *config, const char *generation, const char *part) {
  tri_model_shape shape;
  tri_eos         eos;

  assert_int_equal(parse(config, generation, &shape, &eos), TRI_EINPUT);
  expect_refusal(part);
}

#define SCORED ",\"architectures\":[\"LlamaForSequenceClassification\"]"
#define ONE    ",\"id2label\":{\"0\":\"LABEL_0\"},\"label2id\":{\"LABEL_0\":0}"

/* Judge: PreTrainedConfig of transformers 5 for labels, openrlhf/models/model.py for its classes. */
static void reads_scalar_heads(void **state) {
  static const struct {
    const char *config, *head;
    bool        scored;
    double      mean, std; /* 0 for none */
  } row[] = {
      {LLAMA SCORED ONE "}", "score.weight", true, 0, 0},
      {LLAMA SCORED ",\"num_labels\":1,\"problem_type\":\"regression\",\"torch_dtype\":\"float32\"}",
       "score.weight", true, 0, 0},
      {LLAMA SCORED ",\"num_labels\":3,\"id2label\":{\"0\":\"good\"}}", "score.weight", true, 0, 0},
      {LLAMA SCORED ONE ",\"mean\":-1.5,\"std\":2,\"normalize_reward\":true,\"value_head_prefix\":\"score\"}",
       "score.weight", true, -1.5, 2},
      {QWEN ",\"architectures\":[\"Qwen2ForSequenceClassification\"]" ONE ",\"mean\":null}", "score.weight",
       true, 0, 0},
      {QWEN ",\"architectures\":[\"RewardModel\"],\"value_head_prefix\":\"value_head\"}", "value_head.weight",
       true, 0, 0},
      {LLAMA ",\"architectures\":[\"CriticModel\"],\"mean\":0,\"std\":1}", "score.weight", true, 0, 1},
      {LLAMA ",\"architectures\":[\"LlamaForCausalLM\"],\"num_labels\":3}", "score.weight", false, 0, 0},
      {LLAMA "}", "score.weight", false, 0, 0},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_hf_text     text = {"config.json", row[i].config, strlen(row[i].config)};
    tri_model_shape s;
    tri_eos         eos;
    char            head[TRI_HEAD_NAME_BYTES];
    if (parse(row[i].config, NULL, &s, &eos) != TRI_OK) fail_msg("%zu: %s", i, tri_error_message());
    assert_int_equal(s.scored, row[i].scored);
    assert_int_equal(isnan(s.score_mean), row[i].std == 0);
    if (row[i].std != 0) assert_true(s.score_mean == row[i].mean && s.score_std == row[i].std);
    assert_int_equal(tri_hf_config_head_name(&text, head), TRI_OK);
    assert_string_equal(head, row[i].head);
  }
}

/* Judge: GenericForSequenceClassification of transformers 5 reads a score at the last token different from
 * pad_token_id. If that is null it takes one text at a time. */
static void gives_a_head(void **state) {
  static const struct {
    const char *config, *generation;
    int         pad;
  } row[] = {
      {LLAMA ",\"pad_token_id\":7,\"eos_token_id\":2}", NULL, 7},
      {LLAMA ",\"pad_token_id\":2,\"eos_token_id\":2}", NULL, -1},
      {LLAMA ",\"eos_token_id\":2}", NULL, -1},
      {LLAMA ",\"eos_token_id\":2}", "{\"pad_token_id\":9,\"eos_token_id\":3}", 9},
      {LLAMA ",\"eos_token_id\":2}", "{\"pad_token_id\":2,\"eos_token_id\":3}", 2},
      {LLAMA ",\"eos_token_id\":200}", "{\"pad_token_id\":6,\"eos_token_id\":[5,6]}", 6},
      {LLAMA ",\"eos_token_id\":2,\"pad_token_id\":3}", "{\"pad_token_id\":9,\"eos_token_id\":3}", 9},
      {LLAMA SCORED ONE ",\"pad_token_id\":7,\"mean\":1,\"std\":2,\"value_head_prefix\":\"v\"}",
       "{\"pad_token_id\":9}", 7},
      {QWEN ",\"architectures\":[\"Qwen2ForCausalLM\"],\"num_labels\":3,\"problem_type\":\"single_label_"
            "classification\",\"id2label\":{\"0\":\"A\",\"1\":\"B\"},\"_name_or_path\":\"a\\u0000b\"}",
       NULL, -1},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char     *g = row[i].generation;
    tri_hf_text     config = {"config.json", row[i].config, strlen(row[i].config)};
    tri_hf_text     generation = {"generation_config.json", g, g ? strlen(g) : 0}, made;
    tri_text        out = {0};
    tri_model_shape s;
    tri_eos         eos;
    char            head[TRI_HEAD_NAME_BYTES];
    assert_int_equal(tri_hf_config_with_head(&config, g ? &generation : NULL, -1, &out), TRI_OK);
    made = (tri_hf_text){"made", out.data, out.len};
    if (parse(out.data, g, &s, &eos) != TRI_OK) fail_msg("%zu: %s", i, tri_error_message());
    assert_true(s.scored && isnan(s.score_mean) && s.C == 64);
    assert_int_equal(eos.pad, row[i].pad);
    assert_int_equal(tri_hf_config_head_name(&made, head), TRI_OK);
    assert_string_equal(head, "score.weight");
    assert_null(strstr(out.data, "problem_type"));
    tri_text_free(&out);
  }
}

static void refuses(void **state) {
  static const struct {
    const char *config, *generation, *part;
  } row[] = {
      {"", NULL, "tri_hf_object() config.json:1 [ {"},
      {"{\n\"a\":\n}", NULL, "tri_hf_object() config.json:3 }"},
      {"[1]", NULL, "tri_hf_object() config.json !config.json:1"},
      {"{}", NULL, "find_family() model_type qwen2 !gpt2"},
      {"{\"model_type\":1}", NULL, "tri_hf_get_text() model_type"},
      {"{\"model_type\":\"gpt2\"}", NULL, "`gpt2`"},
      {LLAMA ",\"architectures\":[\"LlamaForTokenClassification\"]}", NULL,
       "tri_hf_check_architecture() LlamaForCausalLM LlamaForSequenceClassification"},
      {QWEN ",\"architectures\":[\"LlamaForSequenceClassification\"]}", NULL,
       "tri_hf_check_architecture() architectures Qwen2ForCausalLM"},
      {LLAMA ",\"architectures\":\"LlamaForCausalLM\"}", NULL,
       "tri_hf_check_architecture() architectures LlamaForCausalLM"},
      {QWEN ",\"architectures\":[\"Qwen2Model\"]}", NULL,
       "tri_hf_check_architecture() architectures Qwen2ForCausalLM"},
      {LLAMA ",\"vocab_size\":100}", NULL, "duplicate"},
      {LLAMA ",\"hidden_act\":\"gelu\"}", NULL, "`gelu`"},
      {LLAMA ",\"hidden_act\":1}", NULL, "tri_hf_get_text() hidden_act"},
      {LLAMA ",\"use_sliding_window\":true}", NULL, "`use_sliding_window`"},
      {QWEN ",\"use_sliding_window\":1}", NULL, "tri_hf_get_bool() use_sliding_window"},
      {QWEN ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", NULL,
       "tri_hf_read_window() 1 sliding_attention"},
      {QWEN ",\"layer_types\":[1]}", NULL, "`layer_types`"},
      {QWEN ",\"layer_types\":\"full_attention\"}", NULL, "check_types() layer_types !1"},
      {LLAMA ",\"quantization_config\":{}}", NULL, "quantized"},
      {LLAMA ",\"attention_dropout\":0.1}", NULL, "`attention_dropout`"},
      {LLAMA ",\"attention_dropout\":\"0\"}", NULL, "`attention_dropout`"},
      {LLAMA ",\"partial_rotary_factor\":0.5}", NULL, "`partial_rotary_factor`"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"partial_rotary_factor\":0.5}}", NULL,
       "`partial_rotary_factor`"},
      {LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\"}}", NULL, "has no `factor`"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}", NULL,
       "find_type() rope_scaling dynamic"},
      {QWEN ",\"rope_parameters\":{\"rope_type\":\"longrope\"}}", NULL,
       "find_type() rope_parameters longrope"},
      {QWEN ",\"rope_parameters\":{\"rope_type\":1}}", NULL, "tri_hf_get_text() rope_parameters rope_type"},
      {QWEN ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}}", NULL,
       "`full_attention`"},
      {LLAMA ",\"rope_scaling\":\"linear\"}", NULL, "get_object() rope_scaling"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", NULL, "`rope_scaling`: has no `factor`"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":-2}}", NULL, "tri_hf_get_number() factor -2"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}}", NULL, "tri_hf_get_number() factor"},
      {LLAMA
       ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,\"high_freq_factor\":4}}",
       NULL, "read_llama3() rope_scaling low_freq_factor"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4}}", NULL,
       "tri_hf_get_number() rope_scaling high_freq_factor"},
      {LLAMA
       ",\"rope_parameters\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":1,\"high_freq_factor\":4,"
       "\"original_max_position_embeddings\":0}}",
       NULL, "tri_hf_get_int() original_max_position_embeddings 0"},
      {LLAMA ",\"rope_theta\":0}", NULL, "tri_hf_get_number() rope_theta 0"},
      {LLAMA ",\"rope_theta\":\"1\"}", NULL, "tri_hf_get_number() rope_theta !0"},
      {LLAMA ",\"num_key_value_heads\":3}", NULL, "read_heads() num_key_value_heads 3"},
      {LLAMA ",\"num_key_value_heads\":0}", NULL, "tri_hf_get_int() num_key_value_heads 0"},
      {LLAMA ",\"num_key_value_heads\":8}", NULL, "read_heads() num_attention_heads 4"},
      {"{\"model_type\":\"qwen2\"," BASE "}", NULL, "read_heads() num_key_value_heads 32"},
      {LLAMA ",\"head_dim\":15}", NULL, "read_heads() 15"},
      {LLAMA ",\"head_dim\":-16}", NULL, "tri_hf_get_int() head_dim -16 1"},
      {"{\"model_type\":\"llama\",\"hidden_size\":66,\"num_attention_heads\":4}", NULL,
       "read_heads() hidden_size 66"},
      {"{\"model_type\":\"llama\",\"hidden_size\":64.0}", NULL, "tri_hf_get_int() hidden_size"},
      {"{\"model_type\":\"llama\",\"hidden_size\":null}", NULL, "get_size() hidden_size"},
      {"{\"model_type\":\"llama\",\"hidden_size\":9223372036854775807}", NULL,
       "tri_hf_get_int() hidden_size 9223372036854775807"},
      {"{\"model_type\":\"llama\",\"num_hidden_layers\":0}", NULL, "tri_hf_get_int() num_hidden_layers 0"},
      {"{\"model_type\":\"llama\",\"vocab_size\":-5}", NULL, "tri_hf_get_int() vocab_size -5"},
      {"{\"model_type\":\"llama\",\"intermediate_size\":true}", NULL, "tri_hf_get_int() intermediate_size"},
      {"{\"model_type\":\"llama\",\"num_attention_heads\":4096,\"hidden_size\":65536,\"head_dim\":512}", NULL,
       "read_heads() 4096 512"},
      {"{\"model_type\":\"llama\",\"hidden_size\":4194304}", NULL, "tri_hf_get_int() hidden_size 4194304 1"},
      {"{\"model_type\":\"llama\",\"num_hidden_layers\":16384}", NULL,
       "tri_hf_get_int() num_hidden_layers 16384 1"},
      {"{\"model_type\":\"llama\",\"vocab_size\":268435456}", NULL, "tri_hf_get_int() vocab_size 268435456"},
      {"{\"model_type\":\"llama\",\"hidden_size\":131072,\"num_hidden_layers\":4096,\"head_dim\":128}", NULL,
       "check_size() 26534106628096 4398046511104"},
      {LLAMA ",\"max_position_embeddings\":0}", NULL, "tri_hf_get_int() max_position_embeddings 0"},
      {LLAMA ",\"rms_norm_eps\":0}", NULL, "tri_hf_get_number() rms_norm_eps 0"},
      {LLAMA ",\"rms_norm_eps\":\"1e-6\"}", NULL, "tri_hf_get_number() rms_norm_eps !0"},
      {LLAMA ",\"initializer_range\":-0.02}", NULL, "tri_hf_get_number() initializer_range -0.02 0"},
      {LLAMA ",\"tie_word_embeddings\":0}", NULL, "tri_hf_get_bool() tie_word_embeddings"},
      {LLAMA ",\"attention_bias\":0}", NULL, "tri_hf_get_bool() attention_bias"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    check_refused(row[i].config, row[i].generation, row[i].part);
}

static void refuses_bad_marks(void **state) {
  static const struct {
    const char *config, *generation, *part;
  } row[] = {
      {LLAMA ",\"eos_token_id\":100}", NULL, "add_eos() eos_token_id 100"},
      {LLAMA ",\"eos_token_id\":-2}", NULL, "add_eos() eos_token_id -2"},
      {LLAMA ",\"eos_token_id\":\"2\"}", NULL, "add_eos() eos_token_id !100 !16"},
      {LLAMA ",\"eos_token_id\":true}", NULL, "add_eos() eos_token_id !100 !16"},
      {LLAMA ",\"eos_token_id\":[2,2.5]}", NULL, "add_eos() eos_token_id !100 !16"},
      {LLAMA ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", NULL,
       "add_eos() eos_token_id 16"},
      {LLAMA ",\"bos_token_id\":\"<s>\"}", NULL, "read_mark() bos_token_id"},
      {LLAMA "}", "{\"eos_token_id\":100}", "add_eos() generation_config.json eos_token_id 100"},
      {LLAMA "}", "{\"eos_token_id\"}", "tri_hf_object() generation_config.json:1 }"},
      {LLAMA "}", "[]", "tri_hf_object() generation_config.json !generation_config.json:1"},
      {LLAMA "}", "{\"pad_token_id\":[1]}", "read_mark() generation_config.json pad_token_id"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    check_refused(row[i].config, row[i].generation, row[i].part);
}

static void refuses_other_heads(void **state) {
  static const struct {
    const char *config, *part;
  } row[] = {
      {LLAMA SCORED "}", "check_labels() num_labels 2 its default"},
      {LLAMA SCORED ",\"num_labels\":3}", "check_labels() num_labels 3"},
      {LLAMA SCORED ",\"num_labels\":1,\"id2label\":{\"0\":\"A\",\"1\":\"B\"}}",
       "check_labels() num_labels 2 id2label"},
      {LLAMA SCORED ",\"id2label\":[]}", "check_labels() id2label !2"},
      {LLAMA SCORED ",\"num_labels\":\"1\"}", "check_labels() num_labels !2 !3"},
      {LLAMA SCORED ONE ",\"mean\":1}", "read_norm() mean std"},
      {LLAMA SCORED ONE ",\"mean\":1,\"std\":0}", "read_norm() std 0"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) check_refused(row[i].config, NULL, row[i].part);
}

/* Judge: transformers' Llama and Qwen2 compute none of this. */
static void refuses_what_it_does_not_compute(void **state) {
  static const struct {
    const char *config, *part;
  } row[] = {
      {LLAMA ",\"attn_logit_softcapping\":50.0}", "tri_hf_check_fields() attn_logit_softcapping llama"},
      {LLAMA ",\"final_logit_softcapping\":30}", "tri_hf_check_fields() final_logit_softcapping"},
      {QWEN ",\"final_logit_softcapping\":true}", "tri_hf_check_fields() final_logit_softcapping"},
      {LLAMA ",\"resid_pdrop\":0.1}", "tri_hf_check_fields() resid_pdrop dropout"},
      {LLAMA ",\"logit_scale\":0.0625}", "`logit_scale`"},
      {LLAMA ",\"is_causal\":false}", "`is_causal`"},
      {QWEN ",\"dual_chunk_attention_config\":{\"chunk_size\":8}}",
       "tri_hf_check_fields() dual_chunk_attention_config qwen2"},
      {LLAMA ",\"rope_interleaved\":true}", "`rope_interleaved`"},
      {LLAMA ",\"pruned_heads\":{\"0\":[1]}}", "`pruned_heads`"},
      {LLAMA ",\"original_max_position_embeddings\":64}",
       "tri_hf_check_fields() original_max_position_embeddings rope_scaling"},
      {LLAMA ",\"sliding_window\":8}", "`sliding_window`"},
      {LLAMA ",\"zzz_a\":1,\"zzz_b\":false}", "fail_unknown() zzz_a zzz_b"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"mscale\":1}}", "`mscale`"},
      {LLAMA ",\"auto_map\":{\"AutoModelForCausalLM\":\"modeling_x.X\"}}", "`auto_map`"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) check_refused(row[i].config, NULL, row[i].part);
}

static void accepts_what_changes_nothing(void **state) {
  static const char *const config[] = {
      "\xef\xbb\xbf" LLAMA "}",
      LLAMA ",\"hidden_act\":\"silu\",\"attention_dropout\":null,\"quantization_config\":null}",
      LLAMA ",\"partial_rotary_factor\":1.0,\"sliding_window\":4096,\"architectures\":null,\"_name_or_path\":"
            "\"a\\u0000b\"}",
      LLAMA ",\"attn_logit_softcapping\":null,\"final_logit_softcapping\":false,\"never_heard_of\":null}",
      LLAMA
      ",\"resid_pdrop\":0.0,\"logit_scale\":1.0,\"is_causal\":true,\"pruned_heads\":{},\"prefix\":\"\"}",
      LLAMA ",\"sliding_window\":8,\"use_sliding_window\":false}",
      QWEN ",\"sliding_window\":8,\"max_window_layers\":1}",
      LLAMA ",\"auto_map\":{\"AutoTokenizer\":[\"tokenization_x.X\",null]}}",
      LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"attention_factor\":null}}",
      LLAMA ",\"tie_word_embeddings\":null,\"rope_theta\":null,\"hidden_act\":null,\"attention_bias\":null}",
      QWEN ",\"use_sliding_window\":null,\"dual_chunk_attention_config\":null,\"rms_norm_eps\":null}",
      LLAMA ",\"sliding_window\":null,\"rope_scaling\":null,\"head_dim\":null,\"pad_token_id\":null}",
      LLAMA ",\"num_key_value_heads\":null,\"max_position_embeddings\":null,\"layer_types\":null,\"sliding_"
            "window\":null}",
      LLAMA
      ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
      "\"original_max_position_embeddings\":null}}",
      LLAMA ",\"bos_token_id\":1000,\"pad_token_id\":-1}",
  };
  tri_model_shape shape;
  tri_eos         eos;

  (void)state;
  for (size_t i = 0; i < sizeof config / sizeof *config; i++)
    assert_int_equal(parse(config[i], NULL, &shape, &eos), TRI_OK);
  assert_int_equal(eos.bos, -1);
  assert_int_equal(eos.pad, -1);
}

/* The configs on Hugging Face's pages of these models, except for sizes. Judge: the models are plain ones. */
static void accepts_published_files(void **state) {
  static const char *const config[] = {
      /* Llama 1 */
      LLAMA ",\"architectures\":[\"LlamaForCausalLM\"],\"bos_token_id\":1,\"eos_token_id\":2"
            ",\"hidden_act\":\"silu\",\"initializer_range\":0.02,\"intermediate_size\":96"
            ",\"max_position_embeddings\":2048,\"max_sequence_length\":2048,\"pad_token_id\":0"
            ",\"rms_norm_eps\":1e-06,\"tie_word_embeddings\":false,\"torch_dtype\":\"float16\""
            ",\"transformers_version\":\"4.28.0.dev0\",\"use_cache\":true}",
      /* Llama 2, TinyLlama, Yi */
      LLAMA
      ",\"_name_or_path\":\"meta-llama/Llama-2-7b-hf\",\"architectures\":[\"LlamaForCausalLM\"]"
      ",\"attention_bias\":false,\"attention_dropout\":0.0,\"num_key_value_heads\":4,\"pretraining_tp\":1"
      ",\"rope_scaling\":null,\"rope_theta\":5000000.0,\"torch_dtype\":\"bfloat16\",\"use_cache\":false}",
      /* Llama 3.2, saved again by the author of an adapter */
      LLAMA
      ",\"_attn_implementation_autoset\":true,\"_commit_hash\":\"4e20\",\"mlp_bias\":false,\"head_dim\":32"
      ",\"eos_token_id\":[3,4,5],\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0"
      ",\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"}"
      ",\"unsloth_version\":\"2025.3\"}",
      /* SmolLM, SmolLM2 */
      LLAMA ",\"is_llama_config\":true,\"rope_interleaved\":false,\"rope_theta\":100000"
            ",\"tie_word_embeddings\":true"
            ",\"transformers.js_config\":{\"kv_cache_dtype\":{\"q4f16\":\"float16\"}}}",
      /* DeepSeek-R1-Distill-Qwen, Qwen2 */
      QWEN ",\"architectures\":[\"Qwen2ForCausalLM\"],\"attention_dropout\":0.0,\"bos_token_id\":50"
           ",\"eos_token_id\":50,\"max_window_layers\":21,\"rope_theta\":10000,\"sliding_window\":4096"
           ",\"use_mrope\":false,\"use_sliding_window\":false,\"torch_dtype\":\"bfloat16\""
           ",\"transformers_version\":\"4.44.0\"}",
      /* transformers 5, leftovers of a classifier, old generation parameters */
      QWEN
      ",\"dtype\":\"bfloat16\",\"layer_types\":[\"full_attention\",\"full_attention\"]"
      ",\"sliding_window\":null,\"rope_parameters\":{\"rope_theta\":1000000.0,\"rope_type\":\"default\"}"
      ",\"id2label\":{\"0\":\"A\"},\"label2id\":{\"A\":0},\"num_labels\":1,\"problem_type\":\"regression\""
      ",\"torchscript\":false,\"do_sample\":true,\"temperature\":0.7,\"top_p\":0.8"
      ",\"repetition_penalty\":1.1,\"max_length\":20}",
  };
  tri_model_shape shape;
  tri_eos         eos;

  (void)state;
  for (size_t i = 0; i < sizeof config / sizeof *config; i++)
    if (parse(config[i], NULL, &shape, &eos) != TRI_OK) fail_msg("%zu: %s", i, tri_error_message());
}

/* The text may come from a folder's file or from a checkpoint's. */
static void refuses_endless_text(void **state) {
  enum { N = (1 << 20) + 1 };
  char           *text = malloc(N);
  tri_hf_text     config = {"c", text, N};
  tri_model_shape shape;
  tri_eos         eos;

  (void)state;
  assert_non_null(text);
  memset(text, ' ', N);
  memcpy(text, "{}", 2);
  assert_int_equal(tri_hf_config_parse(&config, NULL, &shape, &eos), TRI_EINPUT);
  expect_refusal("tri_hf_object() c 1048577 1048576");
  tri_error_clear();
  free(text);
}

static void refuses_endless_lists(void **state) {
  tri_text text = {0};

  (void)state;
  assert_int_equal(tri_text_printf(&text, "{\"id2label\":[[]"), TRI_OK);
  for (int i = 0; i < 4096; i++) assert_int_equal(tri_text_put(&text, ",{}", 3), TRI_OK);
  assert_int_equal(tri_text_printf(&text, "]}"), TRI_OK);
  check_refused(text.data, NULL, "tri_hf_object() 4096");
  tri_error_clear();
  tri_text_free(&text);
}

static void put_file(const char *path, const char *text) {
  assert_int_equal(tri_file_write(path, text, strlen(text)), TRI_OK);
}

static void reads_folders_and_files(void **state) {
  char            folder[] = "/tmp/tri_hf_config_XXXXXX", path[256], generation[256], before[4096];
  tri_model_shape shape;
  tri_eos         eos;

  (void)state;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/config.json", folder);
  snprintf(generation, sizeof generation, "%s/generation_config.json", folder);
  tri_error_clear();
  assert_int_equal(tri_hf_config_read(folder, &shape, &eos), TRI_EINPUT);
  expect_refusal("open_to_read() config.json");
  assert_int_equal(tri_hf_config_read(path, &shape, &eos), TRI_EINPUT);
  put_file(path, LLAMA "}");
  assert_int_equal(tri_hf_config_read(folder, &shape, &eos), TRI_OK);
  assert_int_equal(shape.C, 64);
  assert_int_equal(eos.id[0], 2);
  put_file(generation, "{\"eos_token_id\":11}");
  assert_int_equal(tri_hf_config_read(folder, &shape, &eos), TRI_OK);
  assert_int_equal(eos.id[0], 11);
  assert_int_equal(tri_hf_config_read(path, &shape, &eos), TRI_OK);
  assert_int_equal(eos.id[0], 11);
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(folder), 0); /* a path without a folder */
  assert_int_equal(tri_hf_config_read("config.json", &shape, &eos), TRI_OK);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(eos.id[0], 11);
  unlink(path);
  unlink(generation);
  assert_int_equal(rmdir(folder), 0);
  assert_int_equal(tri_host_bytes(), 0);
}

int main(void) {
  const struct CMUnitTest test[] = {
      cmocka_unit_test(agrees_with_transformers),
      cmocka_unit_test(finds_end_tokens),
      cmocka_unit_test(reads_scalar_heads),
      cmocka_unit_test(gives_a_head),
      cmocka_unit_test(refuses),
      cmocka_unit_test(refuses_bad_marks),
      cmocka_unit_test(refuses_other_heads),
      cmocka_unit_test(refuses_what_it_does_not_compute),
      cmocka_unit_test(accepts_what_changes_nothing),
      cmocka_unit_test(accepts_published_files),
      cmocka_unit_test(refuses_endless_text),
      cmocka_unit_test(refuses_endless_lists),
      cmocka_unit_test(reads_folders_and_files),
  };
  return cmocka_run_group_tests(test, NULL, NULL);
}
