/* test_hf_families.c - config.json of the families after Llama and Qwen2, of windows and of YaRN. Judges:
 * transformers (make_hf_config_golden.py), and for what cannot be computed the rule that it is refused by
 * name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family/family.h"
#include "io/hf/hf_config.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static tri_eos marks; /* of what was parsed last */

static tri_status parse(const char *config, const char *generation, tri_model_shape *shape) {
  tri_hf_text c = {"config.json", config, strlen(config)};
  tri_hf_text g = {"generation_config.json", generation, generation ? strlen(generation) : 0};

  tri_error_clear();
  return tri_hf_config_parse(&c, generation ? &g : NULL, shape, &marks);
}

static const char *of; /* the case that runs */

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

#define BASE     "\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":100"
#define LLAMA    "{\"model_type\":\"llama\"," BASE
#define MISTRAL  "{\"model_type\":\"mistral\",\"num_key_value_heads\":2," BASE
#define QWEN2    "{\"model_type\":\"qwen2\",\"num_key_value_heads\":2," BASE
#define QWEN3    "{\"model_type\":\"qwen3\",\"num_key_value_heads\":2," BASE
#define GEMMA    "{\"model_type\":\"gemma\",\"num_key_value_heads\":4," BASE
#define GEMMA2   "{\"model_type\":\"gemma2\"," BASE
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
  const char *config, *part; /* of the message */
} refusal;

static void all_refused(const refusal *row, size_t n) {
  for (size_t i = 0; i < n; i++) {
    tri_model_shape shape;
    if (parse(row[i].config, NULL, &shape) != TRI_EINPUT) fail_msg("%s: is taken", row[i].config);
    if (!strstr(tri_error_message(), row[i].part))
      fail_msg("`%s` does not say `%s`", tri_error_message(), row[i].part);
  }
}

/* Fields that would change what the model computes, each a file that some program runs in another way. */
static void refuses_what_it_does_not_compute(void **state) {
  static const refusal row[] = {
      {GEMMA2 ",\"use_bidirectional_attention\":true}", "`use_bidirectional_attention` asks for"},
      {GEMMA3 ",\"attn_logit_softcapping\":50.0}", "`attn_logit_softcapping` asks for"},
      {GEMMA2 ",\"hidden_activation\":\"gelu\"}", "`hidden_activation` is `gelu`"},
      {GEMMA ",\"hidden_activation\":\"gelu\"}", "`hidden_activation` is `gelu`"},
      {GEMMA3 ",\"hidden_act\":\"silu\"}", "`hidden_act` is `silu`"},
      {MISTRAL ",\"hidden_act\":\"gelu_pytorch_tanh\"}", "`hidden_act` is `gelu_pytorch_tanh`"},
      {QWEN3 ",\"layer_types\":[\"full_attention\",\"chunked_attention\"]}",
       "`layer_types` names `chunked_attention`"},
      {GEMMA3 ",\"layer_types\":[\"full_attention\"]}",
       "`layer_types` names 1 layers, `num_hidden_layers` is 2"},
      {MISTRAL ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "`layer_types` names `full_attention`"},
      {MISTRAL ",\"sliding_window\":null,\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "`layer_types` names `sliding_attention` for layer 1"},
      {LLAMA ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "`layer_types` names `sliding_attention`"},
      {LLAMA ",\"sliding_window\":8}", "`sliding_window` is not null"},
      {MISTRAL ",\"sliding_window\":0}", "`sliding_window` = 0"},
      {MISTRAL ",\"sliding_window\":4096.5}", "`sliding_window` must be a whole number"},
      {MISTRAL ",\"use_sliding_window\":false}", "a mistral model has its window whatever it says"},
      {QWEN2 ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "`use_sliding_window` is not true"},
      {QWEN2 ",\"use_sliding_window\":true,\"max_window_layers\":-1}", "`max_window_layers` = -1"},
      {GEMMA2 ",\"sliding_window\":null}", "`sliding_window` is null"},
      {GEMMA3 ",\"sliding_window_pattern\":0}", "`sliding_window_pattern` = 0"},
      {GEMMA2 ",\"sliding_window_pattern\":3}", "does not know: `sliding_window_pattern`"},
      {GEMMA2 ",\"query_pre_attn_scalar\":0}", "`query_pre_attn_scalar` = 0"},
      {MISTRAL ",\"query_pre_attn_scalar\":8}", "`query_pre_attn_scalar` asks for"},
      {GEMMA2 ",\"final_logit_softcapping\":-30}", "`final_logit_softcapping` = -30"},
      {GEMMA2 ",\"attn_logit_softcapping\":\"50\"}", "`attn_logit_softcapping` must be a number"},
      {QWEN3 ",\"attn_logit_softcapping\":50.0}", "`attn_logit_softcapping` asks for"},
      {QWEN3 ",\"num_experts\":128}", "`num_experts` asks for a mixture of experts"},
      {QWEN3 ",\"clip_qkv\":8}", "`clip_qkv` asks for"},
      {PHI3 ",\"embd_pdrop\":0.1}", "`embd_pdrop` asks for dropout"},
      {PHI3 ",\"auto_map\":{\"AutoModelForCausalLM\":\"modeling_phi3.Phi3MoEForCausalLM\"}}",
       "`auto_map` names code of the model's own (AutoModelForCausalLM)"},
      {PHI3 ",\"auto_map\":{\"AutoConfig\":7}}", "`auto_map` names code of the model's own (AutoConfig)"},
      {PHI3 ",\"lm_head_bias\":true}", "`lm_head_bias` asks for a bias in the head"},
      {PHI3 YARN "}}", "rope type `yarn`; of a phi3 model"},
      {MISTRAL ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}", "rope type `dynamic`"},
      {LLAMA YARN ",\"short_factor\":[1]}}", "does not know: `short_factor`"},
      {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"beta_fast\":8}}", "`beta_fast`"},
      {LLAMA ",\"rope_theta\":1" YARN "}}", "`rope_theta` = 1: with yarn it must be > 1"},
      {LLAMA YARN ",\"truncate\":0}}", "`truncate` must be true or false"},
      {LLAMA YARN ",\"attention_factor\":-1}}", "`attention_factor` = -1"},
      {LLAMA ",\"rope_local_base_freq\":10000}", "`rope_local_base_freq` asks for"},
      {GEMMA3 ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e6}}",
       "`rope_parameters` has `rope_type`"},
      {GEMMA3 ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}"
              ",\"rope_parameters\":{\"full_attention\":{}}}",
       "both `rope_scaling` and `rope_parameters`"},
      {GEMMA3 YARN ",\"truncate\":false}}", "`truncate` of `full_attention` must be true"},
      {GEMMA3 ",\"rope_local_base_freq\":0}", "`rope_local_base_freq` = 0"},
      {"{\"model_type\":\"gemma3\"," BASE "}", "`model_type` is `gemma3`; this version knows"},
      {QWEN3 ",\"architectures\":[\"Qwen3ForTokenClassification\"]}", "does not name Qwen3ForCausalLM"},
      {GEMMA3 ",\"architectures\":[\"Gemma3ForConditionalGeneration\"]}",
       "does not name Gemma3ForCausalLM or Gemma3TextForSequenceClassification"},
  };

  (void)state;
  all_refused(row, sizeof row / sizeof *row);
}

/* The same of multipliers, of layers without rotary positions, of longrope. */
static void refuses_values_without_meaning(void **state) {
  static const refusal row[] = {
      {GRANITE ",\"residual_multiplier\":0}", "`residual_multiplier` = 0"},
      {GRANITE ",\"logits_scaling\":\"8\"}", "`logits_scaling` must be a number"},
      {LLAMA ",\"attention_multiplier\":0.5}", "`attention_multiplier` asks for"},
      {OLMO2 ",\"clip_qkv\":8.0}", "`clip_qkv` asks for"},
      {SMOLLM3 ",\"no_rope_layers\":[]}", "`no_rope_layers` names 0 layers, `num_hidden_layers` is 2"},
      {SMOLLM3 ",\"no_rope_layers\":[1,2]}", "`no_rope_layers` must hold 1"},
      {SMOLLM3 ",\"no_rope_layers\":4}", "`no_rope_layers` must be a list"},
      {SMOLLM3 ",\"no_rope_layer_interval\":0}", "`no_rope_layer_interval` = 0"},
      {SMOLLM3 ",\"layer_types\":[\"full_attention\",\"sliding_attention\"],\"sliding_window\":8}",
       "`use_sliding_window` is not true"},
      {LLAMA ",\"no_rope_layers\":[1,0]}", "`no_rope_layers` asks for layers without rotary embedding"},
      {OLMO3 ",\"rope_theta\":10000}", "`rope_theta` = 10000: transformers 4 gives it to all layers"},
      {OLMO3 ",\"use_sliding_window\":false}", "a olmo3 model has its window whatever it says"},
      {OLMO3 ",\"layer_types\":[\"full_attention\",\"chunked_attention\"]}",
       "`layer_types` names `chunked_attention`"},
      {OLMO2 ",\"norm_after\":false}", "does not know: `norm_after`"},
      {OLMO2 ",\"sliding_window\":16}", "`sliding_window` is not null"},
      {GRANITE ",\"num_local_experts\":8}", "`num_local_experts` asks for a mixture of experts"},
      {PHI3 ",\"partial_rotary_factor\":0.7}", "`partial_rotary_factor` = 0.7: must be at most 1 and turn"},
      {PHI3 ",\"partial_rotary_factor\":1.5}", "`partial_rotary_factor` = 1.5"},
      {LLAMA ",\"partial_rotary_factor\":0.75}", "`partial_rotary_factor` must be 1"},
      {PHI3 LONGROPE ",\"short_factor\":[1],\"long_factor\":[2]}}",
       "`short_factor` must be a list of 8 numbers"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT "}}", "has no `long_factor`"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":[1,1,1,1,1,1,0,1]}}",
       "`long_factor` must hold numbers above 0; number 6 is none"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":" EIGHT ",\"short_mscale\":1.1}}",
       "does not know: `short_mscale`"},
      {PHI3 LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":" EIGHT
                     ",\"original_max_position_embeddings\":64}}",
       "`original_max_position_embeddings` = 64, and outside of it 4096 counts (its default)"},
      {PHI3 ",\"original_max_position_embeddings\":1" LONGROPE ",\"short_factor\":" EIGHT
            ",\"long_factor\":" EIGHT "}}",
       "`original_max_position_embeddings` = 1"},
      {LLAMA LONGROPE ",\"short_factor\":" EIGHT ",\"long_factor\":" EIGHT "}}",
       "rope type `longrope`; of a llama"},
  };

  (void)state;
  all_refused(row, sizeof row / sizeof *row);
}

/* Models of text and more, as published but for what says nothing here: their text half, with the end tokens
 * and the tie that the whole says. */
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

static void refuses_other_halves(void **state) {
#define HALF(type, text) "{\"model_type\":\"" type "\",\"text_config\":" text
  static const refusal row[] = {
      {HALF("qwen2_5_vl", "{\"model_type\":\"qwen2_5_vl_text\"}") "}",
       "`model_type` is `qwen2_5_vl`; of models of text and more this version knows the text half of gemma3"},
      {HALF("paligemma", "{\"model_type\":\"gemma\"}") "}", "`model_type` is `paligemma`"},
      {HALF("gemma3", "7") "}", "`text_config` must be an object"},
      {HALF("gemma3", "{\"model_type\":\"gemma3n_text\"}") "}",
       "`model_type` is `gemma3n_text`; this version knows"},
      {HALF("gemma3", "{\"model_type\":7}") "}", "`model_type` must be text"},
      {HALF("gemma3", "{}") ",\"architectures\":[\"Gemma3ForSequenceClassification\"]}",
       "does not name Gemma3ForConditionalGeneration"},
      {HALF("gemma3", "{\"tie_word_embeddings\":true}") ",\"tie_word_embeddings\":false}",
       "`tie_word_embeddings` differs from that of `text_config`"},
      {HALF("gemma3", "{}") ",\"quantization_config\":{\"bits\":4}}", "quantized weights are not read"},
      {HALF("gemma3", "{}") ",\"audio_config\":{}}", "does not know: `audio_config`"},
      {HALF("gemma3", "{}") ",\"use_mrope\":true}", "`use_mrope` beside `text_config` asks for"},
      {HALF("llava", LLAMA ",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[2,3,3]}}") "}",
       "rope type `mrope`"},
      {HALF("llava", LLAMA ",\"rope_scaling\":{\"rope_type\":\"default\",\"mrope_section\":[2,3,3]}}") "}",
       "does not know: `mrope_section`"},
      {HALF("llava", LLAMA ",\"norm_after\":true}") "}", "does not know: `norm_after`"},
  };
#undef HALF

  (void)state;
  all_refused(row, sizeof row / sizeof *row);
}

/* What stands in published files, sizes apart, beside what the golden ones have; or what of theirs is
 * refused, and as that. */
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
      /* the same, saved by a program that took it from the Hub */
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
      /* Phi-3-mini-128k-instruct, as it was published first */
      {PHI3 CODE ",\"max_position_embeddings\":131072,\"original_max_position_embeddings\":4096"
                 ",\"rope_scaling\":{\"long_factor\":" EIGHT ",\"short_factor\":" EIGHT ",\"type\":\"su\"}}",
       NULL},
      /* Phi-3-small's and Phi-3.5-MoE's scaling has more */
      {PHI3 CODE ",\"rope_scaling\":{\"long_factor\":" EIGHT ",\"short_factor\":" EIGHT
                 ",\"long_mscale\":1.24,\"short_mscale\":1.24,\"type\":\"longrope\"}}",
       "does not know: `long_mscale`, `short_mscale`"},
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
    if (taken != !row[i].refusal || (!taken && !strstr(tri_error_message(), row[i].refusal)))
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
  const struct CMUnitTest test[] = {
      cmocka_unit_test(agrees_with_transformers),       cmocka_unit_test(refuses_what_it_does_not_compute),
      cmocka_unit_test(refuses_values_without_meaning), cmocka_unit_test(finds_the_text_half),
      cmocka_unit_test(refuses_other_halves),           cmocka_unit_test(knows_published_files),
      cmocka_unit_test(accepts_what_changes_nothing)};
  return cmocka_run_group_tests(test, NULL, NULL);
}
