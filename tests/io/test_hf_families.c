/* test_hf_families.c - tests config.json of the families after Llama and Qwen2, with windows and YaRN.
 * Judges: transformers (make_hf_config_golden.py), and for settings that cannot be computed the rule that
 * they are refused by name. */
/* SPDX-License-Identifier: BSD-3-Clause */
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
#include <cmocka.h>

static tri_eos marks; /* from the last parse */

static tri_status parse(const char *config, const char *generation, tri_model_shape *shape) {
  tri_hf_text c = {"config.json", config, strlen(config)};
  tri_hf_text g = {"generation_config.json", generation, generation ? strlen(generation) : 0};

  tri_error_clear();
  return tri_hf_config_parse(&c, generation ? &g : NULL, shape, &marks);
}

static const char *of; /* the running case */

static void same(const json_t *want, const char *key, double got) {
  const json_t *v = json_object_get(want, key);
  double        x = json_is_boolean(v) ? json_is_true(v) : json_number_value(v);

  assert_non_null(v);
  if (fabs(x - got) > 1e-12 * fabs(x)) fail_msg("%s: `%s` is %.17g, want %.17g", of, key, got, x);
}

static void same_float(const json_t *want, const char *key, float got) {
  float x = (float)json_number_value(json_object_get(want, key));

  if (x != got) fail_msg("%s: `%s` is %.9g, want %.9g", of, key, (double)got, (double)x);
}

static void same_ends(const json_t *want) {
  if (json_array_size(want) != (size_t)marks.n) fail_msg("%s: %d end tokens", of, marks.n);
  for (int i = 0; i < marks.n; i++)
    if (json_integer_value(json_array_get(want, (size_t)i)) != marks.id[i])
      fail_msg("%s: the end token %d", of, marks.id[i]);
}

static void same_factors(const json_t *want, const float *got) {
  for (size_t i = 0; i < json_array_size(want); i++)
    if ((float)json_number_value(json_array_get(want, i)) != got[i])
      fail_msg("%s: factor %zu is %.9g", of, i, (double)got[i]);
}

static void same_rope(const json_t *want, const tri_model_shape *s, tri_layer_kind kind) {
  static const char *const type[] = {"default", "linear", "llama3", "yarn", "longrope"};
  const tri_rope_shape    *r = &s->rope[kind];

  assert_string_equal(json_string_value(json_object_get(want, "type")), type[r->type]);
  same(want, "theta", r->theta);
  same(want, "factor", r->factor);
  same(want, "size", r->attention_factor);
  same(want, "slow", r->low_freq);
  same(want, "fast", r->high_freq);
  same(want, "length", (double)r->original_max_pos);
  same(want, "turned", tri_turned(s, kind));
  same_factors(json_object_get(want, "short"), r->by_pair[0]);
  same_factors(json_object_get(want, "long"), r->by_pair[1]);
}

static void same_model(const json_t *want, const tri_model_shape *s) {
  const json_t *local = json_object_get(want, "local");
  size_t        n = 0;

  assert_string_equal(json_string_value(json_object_get(want, "model_type")), s->family->model_type);
  same(want, "window", (double)s->attn.window);
  for (int l = 0; l < s->L; l++)
    if (tri_kind_of(s, l) == TRI_LOCAL && json_integer_value(json_array_get(local, n++)) != l)
      fail_msg("%s: layer %d is local", of, l);
  if (n != json_array_size(local)) fail_msg("%s: %zu local layers, want %zu", of, n, json_array_size(local));
  n = 0;
  local = json_object_get(want, "no_rope");
  for (int l = 0; l < s->L; l++)
    if (!tri_has_rope(s, l) && json_integer_value(json_array_get(local, n++)) != l)
      fail_msg("%s: layer %d has no rotary positions", of, l);
  if (n != json_array_size(local)) fail_msg("%s: %zu layers have no rotary positions", of, n);
  same(want, "scaling",
       s->attn.multiplier > 0 ? s->attn.multiplier
                              : 1 / sqrt(s->attn.query_scalar > 0 ? s->attn.query_scalar : s->D));
  same(want, "embed", s->embed_multiplier);
  same(want, "residual", s->residual_multiplier);
  same(want, "logits", s->logit_divisor);
  same(want, "cap", s->attn.softcap);
  same(want, "final_cap", s->logit_softcap);
  same(want, "D", s->D);
  same(want, "C", s->C);
  same(want, "V", s->V);
  same(want, "qkv_bias", s->qkv_bias && strcmp(s->family->model_type, "phi3") != 0);
  same(want, "o_bias", s->o_bias);
  same(want, "tied_head", s->tied_head);
  same(want, "L", s->L);
  same(want, "H", s->H);
  same(want, "G", s->G);
  same(want, "F", s->F);
  same(want, "max_pos", (double)s->max_pos);
  same_float(want, "norm_eps", s->norm_eps);
  same_float(want, "init_std", s->init_std);
  same(want, "bos", marks.bos);
  same(want, "pad", marks.pad);
  same_ends(json_object_get(want, "eos"));
  same_rope(json_object_get(want, "full_attention"), s, TRI_GLOBAL);
  same_rope(json_object_get(want, "sliding_attention"), s, TRI_LOCAL);
}

static void agrees_with_transformers(void **state) {
  FILE  *f = fopen(TRI_TEST_DATA "/hf_config/families.jsonl", "rb");
  char  *line = NULL;
  size_t cap = 0;
  int    n = 0;

  (void)state;
  assert_non_null(f);
  for (; getline(&line, &cap, f) > 0; n++) {
    json_t         *c = json_loads(line, 0, NULL);
    tri_model_shape shape;
    assert_non_null(c);
    of = json_string_value(json_object_get(c, "name"));
    if (parse(json_string_value(json_object_get(c, "config")),
              json_string_value(json_object_get(c, "generation")), &shape) != TRI_OK)
      fail_msg("%s: %s", of, tri_error_message());
    same_model(json_object_get(c, "want"), &shape);
    json_decref(c);
  }
  assert_true(n >= 42); /* a line for each case of the script */
  free(line);
  fclose(f);
}

/* Models with recurrent layers. `full` names the layers that attend. */
static void same_recurrent(const json_t *want, const tri_model_shape *s) {
  static const char *const type[] = {"default", "linear", "llama3", "yarn", "longrope"};
  const tri_rope_shape    *r = &s->rope[TRI_GLOBAL];
  const json_t            *full = json_object_get(want, "full");
  bool                     some = tri_recurrent_layers(s) > 0;
  size_t                   n = 0;

  assert_string_equal(json_string_value(json_object_get(want, "model_type")), s->family->model_type);
  for (int l = 0; l < s->L; l++)
    if (!tri_is_recurrent(s, l) && json_integer_value(json_array_get(full, n++)) != l)
      fail_msg("%s: layer %d attends", of, l);
  if (n != json_array_size(full)) fail_msg("%s: %zu layers attend", of, n);
  same(want, "L", s->L), same(want, "C", s->C), same(want, "F", s->F), same(want, "V", s->V);
  same(want, "H", s->H), same(want, "G", s->G), same(want, "D", s->D);
  if (some) same(want, "Hk", s->delta.Hk), same(want, "Hv", s->delta.Hv), same(want, "conv", s->delta.conv);
  if (some) same(want, "Dk", s->delta.Dk), same(want, "Dv", s->delta.Dv);
  assert_true(some || !s->delta.Hv);
  assert_true(s->attn_gate);
  same(want, "qkv_bias", s->qkv_bias), same(want, "o_bias", s->o_bias);
  same(want, "tied_head", s->tied_head);
  same(want, "max_pos", (double)s->max_pos);
  same_float(want, "norm_eps", s->norm_eps);
  same_float(want, "init_std", s->init_std);
  assert_string_equal(json_string_value(json_object_get(want, "type")), type[r->type]);
  same(want, "theta", r->theta), same(want, "factor", r->factor), same(want, "size", r->attention_factor);
  same(want, "turned", tri_turned(s, TRI_GLOBAL));
  same(want, "bos", marks.bos), same(want, "pad", marks.pad);
  same_ends(json_object_get(want, "eos"));
}

static void recurrent_agrees_with_transformers(void **state) {
  FILE  *f = fopen(TRI_TEST_DATA "/hf_config/recurrent.jsonl", "rb");
  char  *line = NULL;
  size_t cap = 0;
  int    n = 0;

  (void)state;
  assert_non_null(f);
  for (; getline(&line, &cap, f) > 0; n++) {
    json_t         *c = json_loads(line, 0, NULL);
    tri_model_shape shape;
    assert_non_null(c);
    of = json_string_value(json_object_get(c, "name"));
    if (parse(json_string_value(json_object_get(c, "config")),
              json_string_value(json_object_get(c, "generation")), &shape) != TRI_OK)
      fail_msg("%s: %s", of, tri_error_message());
    same_recurrent(json_object_get(c, "want"), &shape);
    json_decref(c);
  }
  assert_int_equal(n, 19);
  free(line);
  fclose(f);
}

#define BASE     "\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":100"
#define LLAMA    "{\"model_type\":\"llama\"," BASE
#define MISTRAL  "{\"model_type\":\"mistral\",\"num_key_value_heads\":2," BASE
#define QWEN2    "{\"model_type\":\"qwen2\",\"num_key_value_heads\":2," BASE
#define QWEN3    "{\"model_type\":\"qwen3\",\"num_key_value_heads\":2," BASE
#define GEMMA    "{\"model_type\":\"gemma\",\"num_key_value_heads\":4," BASE
#define GEMMA2   "{\"model_type\":\"gemma2\"," BASE
#define QWEN3_5  "{\"model_type\":\"qwen3_5_text\"," BASE
#define GEMMA3   "{\"model_type\":\"gemma3_text\"," BASE
#define PHI3     "{\"model_type\":\"phi3\"," BASE
#define GRANITE  "{\"model_type\":\"granite\"," BASE
#define OLMO2    "{\"model_type\":\"olmo2\"," BASE
#define OLMO3    "{\"model_type\":\"olmo3\"," BASE
#define SMOLLM3  "{\"model_type\":\"smollm3\"," BASE
#define EIGHT    "[1,1,1,1,1,1,1,1]"
#define LONGROPE ",\"rope_scaling\":{\"type\":\"longrope\""
#define YARN     ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2"

typedef struct refusal {
  const char *config, *part; /* part of the message */
} refusal;

static void all_refused(const refusal *row, size_t n) {
  for (size_t i = 0; i < n; i++) {
    tri_model_shape shape;
    if (parse(row[i].config, NULL, &shape) != TRI_EINPUT) fail_msg("%s: is taken", row[i].config);
    expect_refusal(row[i].part);
  }
}

/* Fields that would change the model's results. Some program runs each such file in another way. */
static void refuses_what_it_does_not_compute(void **state) {
  static const refusal row[] = {
      {GEMMA2 ",\"use_bidirectional_attention\":true}",
       "tri_hf_check_fields() config.json use_bidirectional_attention gemma2"},
      {GEMMA3 ",\"attn_logit_softcapping\":50.0}",
       "tri_hf_check_fields() config.json attn_logit_softcapping"},
      {GEMMA2 ",\"hidden_activation\":\"gelu\"}", "check_act() config.json hidden_activation gelu"},
      {GEMMA ",\"hidden_activation\":\"gelu\"}", "check_act() config.json hidden_activation gelu"},
      {GEMMA3 ",\"hidden_act\":\"silu\"}", "check_act() config.json hidden_act silu gemma3_text"},
      {MISTRAL ",\"hidden_act\":\"gelu_pytorch_tanh\"}",
       "check_act() config.json hidden_act gelu_pytorch_tanh mistral"},
      {QWEN3 ",\"layer_types\":[\"full_attention\",\"chunked_attention\"]}",
       "kind_by_name() config.json layer_types chunked_attention"},
      {GEMMA3 ",\"layer_types\":[\"full_attention\"]}", "check_types() layer_types 1 num_hidden_layers 2"},
      {MISTRAL ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "kind_by_name() config.json layer_types full_attention 0"},
      {MISTRAL ",\"sliding_window\":null,\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "kind_by_name() layer_types sliding_attention 1"},
      {LLAMA ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "kind_by_name() config.json layer_types sliding_attention 1"},
      {LLAMA ",\"sliding_window\":8}", "refuse_window() config.json sliding_window max_position_embeddings"},
      {MISTRAL ",\"sliding_window\":0}", "tri_hf_get_int() config.json sliding_window 0"},
      {MISTRAL ",\"sliding_window\":4096.5}", "tri_hf_get_int() config.json sliding_window !0"},
      {MISTRAL ",\"use_sliding_window\":false}", "read_switch() config.json use_sliding_window mistral"},
      {QWEN2 ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "tri_hf_read_window() config.json 1 use_sliding_window"},
      {QWEN2 ",\"use_sliding_window\":true,\"max_window_layers\":-1}",
       "tri_hf_get_int() config.json max_window_layers -1"},
      {GEMMA2 ",\"sliding_window\":null}", "tri_hf_read_window() config.json 0 sliding_window"},
      {GEMMA3 ",\"sliding_window_pattern\":0}", "tri_hf_get_int() config.json sliding_window_pattern 0"},
      {GEMMA2 ",\"sliding_window_pattern\":3}", "fail_unknown() config.json sliding_window_pattern"},
      {GEMMA2 ",\"query_pre_attn_scalar\":0}", "tri_hf_get_number() config.json query_pre_attn_scalar 0"},
      {MISTRAL ",\"query_pre_attn_scalar\":8}",
       "tri_hf_check_fields() config.json query_pre_attn_scalar mistral"},
      {GEMMA2 ",\"final_logit_softcapping\":-30}",
       "tri_hf_get_number() config.json final_logit_softcapping -30"},
      {GEMMA2 ",\"attn_logit_softcapping\":\"50\"}",
       "tri_hf_get_number() config.json attn_logit_softcapping"},
      {QWEN3 ",\"attn_logit_softcapping\":50.0}", "tri_hf_check_fields() config.json attn_logit_softcapping"},
      {QWEN3 ",\"num_experts\":128}", "tri_hf_check_fields() config.json num_experts qwen3"},
      {QWEN3 ",\"clip_qkv\":8}", "tri_hf_check_fields() config.json clip_qkv"},
      {PHI3 ",\"embd_pdrop\":0.1}", "tri_hf_check_fields() config.json embd_pdrop dropout"},
      {PHI3 ",\"auto_map\":{\"AutoModelForCausalLM\":\"modeling_phi3.Phi3MoEForCausalLM\"}}",
       "check_auto_map() config.json auto_map (AutoModelForCausalLM)"},
      {PHI3 ",\"auto_map\":{\"AutoConfig\":7}}", "check_auto_map() config.json auto_map (AutoConfig)"},
      {PHI3 ",\"lm_head_bias\":true}", "tri_hf_check_fields() config.json lm_head_bias phi3"},
      {PHI3 YARN "}}", "find_type() config.json yarn phi3"},
      {MISTRAL ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}",
       "find_type() config.json rope_scaling dynamic"},
      {LLAMA YARN ",\"short_factor\":[1]}}", "fail_unknown() config.json rope_scaling short_factor"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"beta_fast\":8}}",
       "fail_unknown() config.json rope_scaling beta_fast"},
      {LLAMA ",\"rope_theta\":1" YARN "}}", "read_yarn() config.json rope_theta 1"},
      {LLAMA YARN ",\"truncate\":0}}", "tri_hf_get_bool() config.json rope_scaling truncate"},
      {LLAMA YARN ",\"attention_factor\":-1}}", "tri_hf_get_number() config.json attention_factor -1"},
      {LLAMA ",\"rope_local_base_freq\":10000}",
       "tri_hf_check_fields() config.json rope_local_base_freq llama"},
      {GEMMA3 ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e6}}",
       "read_by_kind() config.json rope_parameters rope_type"},
      {GEMMA3 ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}"
              ",\"rope_parameters\":{\"full_attention\":{}}}",
       "read_by_kind() config.json rope_scaling rope_parameters"},
      {GEMMA3 YARN ",\"truncate\":false}}", "read_by_kind() config.json truncate full_attention"},
      {GEMMA3 ",\"rope_local_base_freq\":0}", "tri_hf_get_number() config.json rope_local_base_freq 0"},
      {"{\"model_type\":\"gemma3\"," BASE "}", "find_family() model_type gemma3 gemma"},
      {QWEN3 ",\"architectures\":[\"Qwen3ForTokenClassification\"]}",
       "tri_hf_check_architecture() config.json architectures Qwen3ForCausalLM"},
      {GEMMA3 ",\"architectures\":[\"Gemma3ForConditionalGeneration\"]}",
       "tri_hf_check_architecture() config.json Gemma3ForCausalLM Gemma3TextForSequenceClassification"},
  };

  (void)state;
  all_refused(row, sizeof row / sizeof *row);
}

/* The same for multipliers, layers without rotary positions, and longrope. */
static void refuses_values_without_meaning(void **state) {
  static const refusal row[] = {
      {GRANITE ",\"residual_multiplier\":0}", "tri_hf_get_number() config.json residual_multiplier 0"},
      {GRANITE ",\"logits_scaling\":\"8\"}", "tri_hf_get_number() config.json logits_scaling"},
      {LLAMA ",\"attention_multiplier\":0.5}",
       "tri_hf_check_fields() config.json attention_multiplier llama"},
      {OLMO2 ",\"clip_qkv\":8.0}", "tri_hf_check_fields() config.json clip_qkv"},
      {SMOLLM3 ",\"no_rope_layers\":[]}", "tri_hf_read_no_rope() no_rope_layers 0 num_hidden_layers 2"},
      {SMOLLM3 ",\"no_rope_layers\":[1,2]}", "read_has_rope() config.json no_rope_layers 1"},
      {SMOLLM3 ",\"no_rope_layers\":4}", "tri_hf_read_no_rope() config.json no_rope_layers !0"},
      {SMOLLM3 ",\"no_rope_layer_interval\":0}", "tri_hf_get_int() config.json no_rope_layer_interval 0"},
      {SMOLLM3 ",\"layer_types\":[\"full_attention\",\"sliding_attention\"],\"sliding_window\":8}",
       "tri_hf_read_window() config.json 1 use_sliding_window"},
      {LLAMA ",\"no_rope_layers\":[1,0]}", "tri_hf_check_fields() config.json no_rope_layers llama"},
      {OLMO3 ",\"rope_theta\":10000}", "read_by_kind() rope_theta 10000 4"},
      {OLMO3 ",\"use_sliding_window\":false}", "read_switch() config.json use_sliding_window olmo3"},
      {OLMO3 ",\"layer_types\":[\"full_attention\",\"chunked_attention\"]}",
       "kind_by_name() config.json layer_types chunked_attention"},
      {OLMO2 ",\"norm_after\":false}", "fail_unknown() config.json norm_after"},
      {OLMO2 ",\"sliding_window\":16}", "refuse_window() config.json sliding_window max_position_embeddings"},
      {GRANITE ",\"num_local_experts\":8}", "tri_hf_check_fields() config.json num_local_experts granite"},
      {PHI3 ",\"partial_rotary_factor\":0.7}", "read_partial() partial_rotary_factor 0.7 1 0"},
      {PHI3 ",\"partial_rotary_factor\":1.5}", "read_partial() partial_rotary_factor 1.5 1"},
      {LLAMA ",\"partial_rotary_factor\":0.75}", "read_partial() config.json partial_rotary_factor 1 !0"},
      {PHI3 LONGROPE ",\"short_factor\":[1],\"long_factor\":[2]}}",
       "read_factors() config.json short_factor 8"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT "}}",
       "read_factors() config.json rope_scaling long_factor !0"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":[1,1,1,1,1,1,0,1]}}",
       "read_factors() long_factor 0 6"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":" EIGHT ",\"short_mscale\":1.1}}",
       "fail_unknown() config.json rope_scaling short_mscale"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":" EIGHT
                     ",\"original_max_position_embeddings\":64}}",
       "read_longrope() original_max_position_embeddings 64 4096 its default"},
      {PHI3 ",\"original_max_position_embeddings\":1" LONGROPE ",\"short_factor\":" EIGHT
            ",\"long_factor\":" EIGHT "}}",
       "tri_hf_get_int() config.json original_max_position_embeddings 1"},
      {LLAMA LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":" EIGHT "}}",
       "find_type() config.json longrope llama"},
      {QWEN3_5 ",\"attn_output_gate\":false}", "tri_hf_read_recurrent() attn_output_gate qwen3_5_text"},
      {QWEN3_5 ",\"linear_num_key_head\":2}",
       "fail_unknown() config.json `linear_num_key_head` `linear_num_key_heads`"},
      {QWEN3_5 ",\"linear_num_key_heads\":3,\"linear_num_value_heads\":4}",
       "tri_hf_read_recurrent() linear_num_value_heads 4 linear_num_key_heads 3"},
      {QWEN3_5 ",\"layer_types\":[\"mamba\",\"full_attention\"]}",
       "read_types() mamba 0 linear_attention full_attention"},
  };

  (void)state;
  all_refused(row, sizeof row / sizeof *row);
}

/* Published multimodal models, without fields of no effect here. Each gives its text model, with the end
 * tokens and the tied embeddings of the whole. */
static void finds_the_text_half(void **state) {
#define IMAGES                                                                                               \
  ",\"image_token_index\":262144,\"initializer_range\":0.02,\"vision_config\":{\"hidden_size\":1152}"
  static const struct {
    const char *config, *type;
    int         L, H, G, D, C, V, window, n_end;
    double      scalar;
    bool        tied;
  } row[] = {
      /* gemma-3-4b-it, gemma-3-27b-it */
      {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"boi_token_index\":255999"
       ",\"eoi_token_index\":256000"
       ",\"eos_token_id\":[1,106],\"mm_tokens_per_image\":256,\"model_type\":\"gemma3\""
       ",\"torch_dtype\":\"bfloat16\""
       ",\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":10240,\"model_type\":\"gemma3_text\""
       ",\"num_hidden_layers\":34,\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}"
       ",\"sliding_window\":1024}"
       ",\"transformers_version\":\"4.50.0.dev0\"" IMAGES "}",
       "gemma3_text", 34, 8, 4, 256, 2560, 262208, 1024, 2, 256, true},
      {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"eos_token_id\":[1,106]"
       ",\"model_type\":\"gemma3\""
       ",\"text_config\":{\"head_dim\":128,\"hidden_size\":5376,\"intermediate_size\":21504"
       ",\"num_attention_heads\":32"
       ",\"num_hidden_layers\":62,\"num_key_value_heads\":16,\"query_pre_attn_scalar\":168"
       ",\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024}" IMAGES "}",
       "gemma3_text", 62, 32, 16, 128, 5376, 262208, 1024, 2, 168, true},
      /* Mistral-Small-3.1-24B-Instruct-2503 */
      {"{\"architectures\":[\"Mistral3ForConditionalGeneration\"],\"model_type\":\"mistral3\""
       ",\"spatial_merge_size\":2"
       ",\"multimodal_projector_bias\":false,\"projector_hidden_act\":\"gelu\",\"vision_feature_layer\":-1"
       ",\"text_config\":{\"attention_dropout\":0.0,\"head_dim\":128,\"hidden_act\":\"silu\""
       ",\"hidden_size\":5120"
       ",\"intermediate_size\":32768,\"model_type\":\"mistral\",\"num_attention_heads\":32"
       ",\"num_hidden_layers\":40"
       ",\"num_key_value_heads\":8,\"rms_norm_eps\":1e-5,\"rope_theta\":1e9,\"sliding_window\":null"
       ",\"vocab_size\":131072}" IMAGES "}",
       "mistral", 40, 32, 8, 128, 5120, 131072, 0, 1, 0, false},
      /* llava-1.5 */
      {"{\"architectures\":[\"LlavaForConditionalGeneration\"],\"ignore_index\":-100,\"model_type\":\"llava\""
       ",\"pad_token_id\":32001,\"tie_word_embeddings\":false,\"vision_feature_select_strategy\":\"default\""
       ",\"text_config\":{\"_name_or_path\":\"lmsys/vicuna-7b-v1.5\",\"architectures\":[\"LlamaForCausalLM\"]"
       ",\"max_position_embeddings\":4096,\"model_type\":\"llama\",\"vocab_size\":32064}" IMAGES "}",
       "llama", 32, 32, 32, 128, 4096, 32064, 0, 1, 0, false},
  };

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_hf_text     whole = {"whole", row[i].config, strlen(row[i].config)};
    tri_model_shape s, t;
    tri_text        half = {0};
    bool            is_half;
    if (parse(row[i].config, NULL, &s) != TRI_OK) fail_msg("%s", tri_error_message());
    assert_string_equal(s.family->model_type, row[i].type);
    assert_true(s.L == row[i].L && s.H == row[i].H && s.G == row[i].G && s.D == row[i].D && s.C == row[i].C);
    assert_true(s.V == row[i].V && s.attn.window == row[i].window && s.tied_head == row[i].tied);
    assert_true(marks.n == row[i].n_end && s.attn.query_scalar == row[i].scalar && !s.scored);
    assert_int_equal(tri_hf_config_half(&whole, &half, &is_half), TRI_OK);
    assert_true(is_half && !strstr(half.data, "vision_config"));
    if (parse(half.data, NULL, &t) != TRI_OK) fail_msg("%s", tri_error_message());
    assert_true(t.family == s.family && t.L == s.L && t.tied_head == s.tied_head && marks.n == row[i].n_end);
    tri_text_free(&half);
    half = (tri_text){0};
    assert_int_equal(tri_hf_config_half(&(tri_hf_text){"text", PHI3 "}", strlen(PHI3 "}")}, &half, &is_half),
                     TRI_OK);
    assert_true(!is_half && !half.len);
  }
#undef IMAGES
}

/* The config.json of an export that stays multimodal. Only the type of the weights changes. */
static void keeps_the_multimodal_config(void **state) {
  static const char text[] =
      "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\",\"torch_dtype\":"
      "\"bfloat16\",\"video_token_id\":9,\"text_config\":{\"model_type\":\"gemma3_text\",\"torch_dtype\":"
      "\"bfloat16\"},\"vision_config\":{\"hidden_size\":1152,\"torch_dtype\":\"bfloat16\"}}";
  static const char bare[] = "{\"model_type\":\"gemma3\",\"text_config\":{\"rope_parameters\":{}}}";
  static const char inner[] = "{\"model_type\":\"qwen3_5\",\"text_config\":{\"dtype\":\"bfloat16\"}}";
  tri_hf_text       config = {"whole", text, strlen(text)};
  json_t           *root, *was = json_loads(text, 0, NULL);
  bool              changed = true;

  (void)state;
  assert_int_equal(tri_hf_config_whole_with_dtype(&config, TRI_BF16, &root, &changed), TRI_OK);
  assert_true(!changed && json_equal(root, was));
  json_decref(root);
  assert_int_equal(tri_hf_config_whole_with_dtype(&config, TRI_F32, &root, &changed), TRI_OK);
  assert_true(changed);
  json_object_set_new(was, "torch_dtype", json_string("float32"));
  json_object_set_new(json_object_get(was, "text_config"), "torch_dtype", json_string("float32"));
  assert_true(json_equal(root, was));
  json_decref(root);
  json_decref(was);
  config = (tri_hf_text){"bare", bare, strlen(bare)};
  assert_int_equal(tri_hf_config_whole_with_dtype(&config, TRI_F16, &root, &changed), TRI_OK);
  assert_true(changed);
  assert_string_equal(json_string_value(json_object_get(root, "dtype")), "float16");
  assert_string_equal(json_string_value(json_array_get(json_object_get(root, "architectures"), 0)),
                      "Gemma3ForConditionalGeneration");
  json_decref(root);
  config = (tri_hf_text){"inner", inner, strlen(inner)}; /* as published: only the text model has a type */
  assert_int_equal(tri_hf_config_whole_with_dtype(&config, TRI_F16, &root, &changed), TRI_OK);
  assert_null(json_object_get(root, "dtype"));
  assert_null(json_object_get(root, "torch_dtype"));
  assert_string_equal(json_string_value(json_object_get(json_object_get(root, "text_config"), "dtype")),
                      "float16");
  json_decref(root);
  config = (tri_hf_text){"text", PHI3 "}", strlen(PHI3 "}")};
  assert_int_equal(tri_hf_config_whole_with_dtype(&config, TRI_F16, &root, &changed), TRI_EINPUT);
  assert_null(root);
}

static void refuses_other_halves(void **state) {
#define HALF(type, text) "{\"model_type\":\"" type "\",\"text_config\":" text
  static const refusal row[] = {
      {HALF("qwen2_5_vl", "{\"model_type\":\"qwen2_5_vl_text\"}") "}",
       "find_whole() model_type qwen2_5_vl gemma3"},
      {HALF("paligemma", "{\"model_type\":\"gemma\"}") "}", "find_whole() config.json model_type paligemma"},
      {HALF("gemma3", "7") "}", "tri_hf_take_half() config.json text_config"},
      {HALF("gemma3", "{\"model_type\":\"gemma3n_text\"}") "}",
       "find_family() model_type gemma3n_text gemma"},
      {HALF("gemma3", "{\"model_type\":7}") "}", "tri_hf_get_text() config.json model_type"},
      {HALF("gemma3", "{}") ",\"architectures\":[\"Gemma3ForSequenceClassification\"]}",
       "find_whole() config.json architectures Gemma3ForConditionalGeneration"},
      {HALF("gemma3", "{\"tie_word_embeddings\":true}") ",\"tie_word_embeddings\":false}",
       "take_shared() config.json tie_word_embeddings text_config"},
      {HALF("gemma3", "{}") ",\"quantization_config\":{\"bits\":4}}",
       "refuse_unknown() config.json quantization_config bf16"},
      {HALF("gemma3", "{}") ",\"audio_config\":{}}", "fail_unknown() config.json audio_config"},
      {HALF("gemma3", "{}") ",\"use_mrope\":true}",
       "tri_hf_check_beside() config.json use_mrope text_config"},
      {HALF("llava", LLAMA ",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[2,3,3]}}") "}",
       "find_type() config.json rope_scaling mrope"},
      {HALF("llava", LLAMA ",\"rope_scaling\":{\"rope_type\":\"default\",\"mrope_section\":[2,3,3]}}") "}",
       "fail_unknown() config.json rope_scaling mrope_section"},
      {HALF("llava", LLAMA ",\"norm_after\":true}") "}", "fail_unknown() config.json norm_after"},
  };
#undef HALF

  (void)state;
  all_refused(row, sizeof row / sizeof *row);
}

/* Fields of published files, except for sizes, beside those of the golden files, and fields refused with
 * their message. */
static void knows_published_files(void **state) {
#define CODE                                                                                                 \
  ",\"architectures\":[\"Phi3ForCausalLM\"],\"auto_map\":{\"AutoConfig\":\"configuration_phi3.Phi3Config\"," \
  "\"AutoModelForCausalLM\":\"modeling_phi3.Phi3ForCausalLM\"}"
  static const struct {
    const char *config, *refusal;
  } row[] = {
      /* Phi-3-mini-4k-instruct */
      {PHI3 CODE ",\"attention_bias\":false,\"attention_dropout\":0.0,\"embd_pdrop\":0.0,\"resid_pdrop\":0.0"
                 ",\"original_max_position_embeddings\":4096,\"rope_scaling\":null,\"sliding_window\":2047}",
       NULL},
      /* the same, saved by a program that loaded it from the Hub */
      {PHI3
       ",\"auto_map\":{\"AutoConfig\":\"microsoft/Phi-3-mini-4k-instruct--configuration_phi3.Phi3Config\"}}",
       NULL},
      /* Phi-3.5-mini-instruct, Phi-4-mini-instruct */
      {PHI3 CODE
       ",\"max_position_embeddings\":131072,\"original_max_position_embeddings\":4096,\"rope_scaling\":{"
       "\"long_factor\":" EIGHT ",\"short_factor\":" EIGHT ",\"type\":\"longrope\"}}",
       NULL},
      {PHI3 CODE ",\"full_attn_mod\":1,\"interpolate_factor\":1,\"lm_head_bias\":false,\"mlp_bias\":false"
                 ",\"partial_rotary_factor\":0.75,\"rope_scaling\":{\"long_factor\":[1,1,1,1,1,1],"
                 "\"short_factor\":[1,1,1,1,1,1],\"type\":\"longrope\"}}",
       NULL},
      /* Phi-3-mini-128k-instruct, as first published */
      {PHI3 CODE ",\"max_position_embeddings\":131072,\"original_max_position_embeddings\":4096"
                 ",\"rope_scaling\":{\"long_factor\":" EIGHT ",\"short_factor\":" EIGHT ",\"type\":\"su\"}}",
       NULL},
      /* the scaling of Phi-3-small and Phi-3.5-MoE has more fields */
      {PHI3 CODE ",\"rope_scaling\":{\"long_factor\":" EIGHT ",\"short_factor\":" EIGHT
                 ",\"long_mscale\":1.24,\"short_mscale\":1.24,\"type\":\"longrope\"}}",
       "fail_unknown() config.json long_mscale short_mscale"},
      /* gemma-2-9b */
      {GEMMA2
       ",\"cache_implementation\":\"hybrid\",\"hidden_act\":\"gelu_pytorch_tanh\",\"sliding_window\":4096"
       ",\"sliding_window_size\":4096}",
       NULL},
      /* gemma-7b */
      {GEMMA ",\"hidden_act\":\"gelu\",\"hidden_activation\":null,\"rope_scaling\":null}", NULL},
      /* gemma-3-270m */
      {GEMMA3 ",\"_sliding_window_pattern\":6,\"layer_types\":[\"sliding_attention\",\"full_attention\"]"
              ",\"sliding_window\":512,\"use_bidirectional_attention\":false}",
       NULL},
  };
#undef CODE
  tri_model_shape shape;

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    bool taken = parse(row[i].config, NULL, &shape) == TRI_OK;
    if (taken != !row[i].refusal || (!taken && !refusal_is(row[i].refusal)))
      fail_msg("%s: %s", row[i].config, taken ? "is taken" : tri_error_message());
  }
}

static void accepts_what_changes_nothing(void **state) {
  static const char *const config[] = {
      MISTRAL ",\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\",\"sliding_attention\"]}",
      MISTRAL ",\"sliding_window\":null,\"use_sliding_window\":false,\"max_window_layers\":1"
              ",\"attention_bias\":true}",
      LLAMA ",\"layer_types\":[\"full_attention\",\"full_attention\"],\"use_sliding_window\":false"
            ",\"sliding_window\":9}",
      QWEN2 ",\"use_sliding_window\":false,\"sliding_window\":8,\"layer_types\":[\"full_attention\""
            ",\"full_attention\"]}",
      GEMMA2 ",\"attention_bias\":null,\"hidden_act\":null,\"query_pre_attn_scalar\":null}",
      GEMMA3 ",\"attn_logit_softcapping\":null,\"rope_scaling\":null,\"rope_parameters\":{}"
             ",\"_sliding_window_pattern\":4}",
      PHI3 ",\"original_max_position_embeddings\":4096,\"embd_pdrop\":0,\"attention_bias\":false}",
      LLAMA YARN ",\"attention_factor\":null,\"beta_fast\":null,\"beta_slow\":0,\"mscale\":0}}",
  };
  tri_model_shape shape;

  (void)state;
  for (size_t i = 0; i < sizeof config / sizeof *config; i++)
    if (parse(config[i], NULL, &shape) != TRI_OK) fail_msg("%s: %s", config[i], tri_error_message());
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(agrees_with_transformers),
                                    cmocka_unit_test(recurrent_agrees_with_transformers),
                                    cmocka_unit_test(refuses_what_it_does_not_compute),
                                    cmocka_unit_test(refuses_values_without_meaning),
                                    cmocka_unit_test(finds_the_text_half),
                                    cmocka_unit_test(keeps_the_multimodal_config),
                                    cmocka_unit_test(refuses_other_halves),
                                    cmocka_unit_test(knows_published_files),
                                    cmocka_unit_test(accepts_what_changes_nothing)};
  return cmocka_run_group_tests(test, NULL, NULL);
}
