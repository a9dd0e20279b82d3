/* hf_config_fields.c - lists the fields of a config.json: those read, those without effect, those refused. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config_impl.h"

#include <string.h>

/* Values without an effect for a field. */
typedef enum { ANY, OFF, ONE } rule; /* OFF is false, 0 or empty; ONE is true or 1 */

typedef struct field {
  const char *name;
  rule        rule;
  const char *why; /* the meaning of another value, NULL with ANY */
} field;

/* Keys of no single family. They come from LlamaConfig, Qwen2Config and PreTrainedConfig of transformers 4.45
 * and 5.23, the generation parameters of both, and other published files. */
/* clang-format off */
static const field known[] = {
    /* read by hf_config.c with a check of their values */
    {"model_type", ANY, NULL}, {"architectures", ANY, NULL}, {"vocab_size", ANY, NULL}, {"hidden_size", ANY, NULL},
    {"intermediate_size", ANY, NULL}, {"num_hidden_layers", ANY, NULL}, {"num_attention_heads", ANY, NULL},
    {"num_key_value_heads", ANY, NULL}, {"head_dim", ANY, NULL}, {"max_position_embeddings", ANY, NULL},
    {"rms_norm_eps", ANY, NULL}, {"initializer_range", ANY, NULL}, {"tie_word_embeddings", ANY, NULL},
    {"attention_bias", ANY, NULL}, {"mlp_bias", ANY, NULL}, {"hidden_act", ANY, NULL}, {"use_sliding_window", ANY, NULL},
    {"sliding_window", ANY, NULL}, {"layer_types", ANY, NULL}, {"quantization_config", ANY, NULL},
    {"attention_dropout", ANY, NULL}, {"partial_rotary_factor", ANY, NULL}, {"rope_theta", ANY, NULL},
    {"rope_scaling", ANY, NULL}, {"rope_parameters", ANY, NULL}, {"bos_token_id", ANY, NULL},
    {"eos_token_id", ANY, NULL}, {"pad_token_id", ANY, NULL}, {"dtype", ANY, NULL}, {"torch_dtype", ANY, NULL},
    {"auto_map", ANY, NULL},
    /* origin and users of the model */
    {"transformers_version", ANY, NULL}, {"_name_or_path", ANY, NULL}, {"name_or_path", ANY, NULL},
    {"_commit_hash", ANY, NULL}, {"_diffusers_version", ANY, NULL}, {"transformers.js_config", ANY, NULL},
    {"unsloth_version", ANY, NULL}, {"unsloth_fixed", ANY, NULL}, {"is_llama_config", ANY, NULL},
    {"custom_pipelines", ANY, NULL}, {"trust_remote_code", ANY, NULL}, {"model_name", ANY, NULL},
    /* settings for running it, with the same result up to rounding */
    {"use_cache", ANY, NULL}, {"pretraining_tp", ANY, NULL}, {"chunk_size_feed_forward", ANY, NULL},
    {"gradient_checkpointing", ANY, NULL}, {"attn_implementation", ANY, NULL}, {"_attn_implementation", ANY, NULL},
    {"_attn_implementation_internal", ANY, NULL}, {"_attn_implementation_autoset", ANY, NULL},
    {"_flash_attn_2_enabled", ANY, NULL}, {"use_flash_attn", ANY, NULL}, {"use_flash_attention", ANY, NULL},
    {"use_flash_attention_2", ANY, NULL}, {"experts_implementation", ANY, NULL}, {"_experts_implementation", ANY, NULL},
    {"_experts_implementation_internal", ANY, NULL}, {"_pre_quantization_dtype", ANY, NULL}, {"torchscript", ANY, NULL},
    {"use_bfloat16", ANY, NULL}, {"tf_legacy_loss", ANY, NULL}, {"xla_device", ANY, NULL},
    {"output_hidden_states", ANY, NULL}, {"output_attentions", ANY, NULL}, {"return_dict", ANY, NULL},
    {"use_return_dict", ANY, NULL}, {"tie_last_hidden_states", ANY, NULL}, {"is_decoder", ANY, NULL},
    {"max_window_layers", ANY, NULL}, {"max_sequence_length", ANY, NULL}, {"model_max_length", ANY, NULL},
    {"seq_length", ANY, NULL}, {"max_seq_len", ANY, NULL}, {"max_seq_length", ANY, NULL},
    /* heads and losses for other tasks */
    {"num_labels", ANY, NULL}, {"id2label", ANY, NULL}, {"label2id", ANY, NULL}, {"problem_type", ANY, NULL},
    {"finetuning_task", ANY, NULL}, {"mean", ANY, NULL}, {"std", ANY, NULL}, {"normalize_reward", ANY, NULL},
    {"value_head_prefix", ANY, NULL}, {"task_specific_params", ANY, NULL}, {"router_aux_loss_coef", ANY, NULL},
    {"keys_to_ignore_at_inference", ANY, NULL},
    /* settings of the tokenizer, which has its own files */
    {"tokenizer_class", ANY, NULL}, {"prefix", ANY, NULL}, {"sep_token_id", ANY, NULL}, {"cls_token_id", ANY, NULL},
    {"mask_token_id", ANY, NULL}, {"unk_token_id", ANY, NULL}, {"decoder_start_token_id", ANY, NULL},
    {"bos_token", ANY, NULL}, {"eos_token", ANY, NULL}, {"pad_token", ANY, NULL}, {"unk_token", ANY, NULL},
    /* settings for generation, decided by the deck and the command line */
    {"max_length", ANY, NULL}, {"min_length", ANY, NULL}, {"max_new_tokens", ANY, NULL}, {"do_sample", ANY, NULL},
    {"early_stopping", ANY, NULL}, {"num_beams", ANY, NULL}, {"num_beam_groups", ANY, NULL},
    {"diversity_penalty", ANY, NULL}, {"temperature", ANY, NULL}, {"top_k", ANY, NULL}, {"top_p", ANY, NULL},
    {"min_p", ANY, NULL}, {"typical_p", ANY, NULL}, {"repetition_penalty", ANY, NULL}, {"length_penalty", ANY, NULL},
    {"no_repeat_ngram_size", ANY, NULL}, {"encoder_no_repeat_ngram_size", ANY, NULL},
    {"encoder_repetition_penalty", ANY, NULL}, {"bad_words_ids", ANY, NULL}, {"num_return_sequences", ANY, NULL},
    {"output_scores", ANY, NULL}, {"return_dict_in_generate", ANY, NULL}, {"forced_bos_token_id", ANY, NULL},
    {"forced_eos_token_id", ANY, NULL}, {"remove_invalid_values", ANY, NULL},
    {"exponential_decay_length_penalty", ANY, NULL}, {"suppress_tokens", ANY, NULL},
    {"begin_suppress_tokens", ANY, NULL}, {"epsilon_cutoff", ANY, NULL}, {"eta_cutoff", ANY, NULL},
    {"num_assistant_tokens", ANY, NULL}, {"num_assistant_tokens_schedule", ANY, NULL},
    {"assistant_confidence_threshold", ANY, NULL}, {"assistant_lookbehind", ANY, NULL}, {"target_lookbehind", ANY, NULL},
    {"generation_config", ANY, NULL},
    /* other computations */
    {"attn_logit_softcapping", OFF, "attention scores with a soft cap"},
    {"final_logit_softcapping", OFF, "logits with a soft cap"},
    {"query_pre_attn_scalar", OFF, "another scale of attention scores"},
    {"attention_multiplier", OFF, "another scale of attention scores"},
    {"logits_scaling", ONE, "scaled logits"}, {"logit_scale", ONE, "scaled logits"},
    {"embedding_multiplier", ONE, "scaled embeddings"}, {"scale_emb", ONE, "scaled embeddings"},
    {"residual_multiplier", ONE, "scaled residuals"}, {"scale_depth", OFF, "scaled residuals"},
    {"dim_model_base", OFF, "scaled logits"}, {"mup_base_width", OFF, "scaled layers"},
    {"rope_interleaved", OFF, "rotary embedding of neighbouring pairs"},
    {"rope_local_base_freq", OFF, "a rotary embedding for each kind of layer"},
    {"original_max_position_embeddings", OFF, "a length to be put inside rope_scaling"},
    {"use_mrope", OFF, "a rotary embedding in several dimensions"},
    {"no_rope_layers", OFF, "layers without rotary embedding"},
    {"no_rope_layer_interval", OFF, "layers without rotary embedding"},
    {"use_dynamic_ntk", OFF, "a rotary embedding depending on the length"},
    {"use_logn_attn", OFF, "attention scores depending on the length"}, {"log_scale", OFF, "attention scores depending on the length"},
    {"dual_chunk_attention_config", OFF, "attention in chunks"}, {"attention_chunk_size", OFF, "attention in chunks"},
    {"use_qk_norm", OFF, "normalized queries and keys"}, {"qk_norm", OFF, "normalized queries and keys"},
    {"qk_layernorm", OFF, "normalized queries and keys"}, {"clip_qkv", OFF, "clipped queries, keys and values"},
    {"lm_head_bias", OFF, "a bias in the head"}, {"full_attn_mod", ONE, "attention of several kinds"},
    {"interpolate_factor", ONE, "a stretched rotary embedding"},
    {"is_causal", ONE, "attention to later tokens"}, {"causal", ONE, "attention to later tokens"},
    {"use_bidirectional_attention", OFF, "attention to later tokens"},
    {"resid_pdrop", OFF, "dropout"}, {"embd_pdrop", OFF, "dropout"}, {"attn_pdrop", OFF, "dropout"},
    {"hidden_dropout", OFF, "dropout"}, {"hidden_dropout_prob", OFF, "dropout"}, {"residual_dropout", OFF, "dropout"},
    {"embedding_dropout", OFF, "dropout"}, {"mlp_dropout", OFF, "dropout"}, {"dropout", OFF, "dropout"},
    {"attention_probs_dropout_prob", OFF, "dropout"},
    {"num_experts", OFF, "a mixture of experts"}, {"num_local_experts", OFF, "a mixture of experts"},
    {"n_routed_experts", OFF, "a mixture of experts"}, {"num_experts_per_tok", OFF, "a mixture of experts"},
    {"moe_intermediate_size", OFF, "a mixture of experts"},
    {"is_encoder_decoder", OFF, "an encoder"}, {"add_cross_attention", OFF, "an encoder"},
    {"cross_attention_hidden_size", OFF, "an encoder"}, {"tie_encoder_decoder", OFF, "an encoder"},
    {"pruned_heads", OFF, "pruned heads"}, {"per_layer_config", OFF, "layers of several shapes"},
    {"adapters", OFF, "adapters"}, {"compression_config", OFF, "compressed weights"},
    {"quantization", OFF, "quantized weights"},
};

static const char *const rope_known[] = {
    "rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings", "partial_rotary_factor",
    /* for longrope and YaRN */
    "attention_factor",
    /* for YaRN */
    "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate",
    /* for longrope */
    "short_factor", "long_factor"};
enum { ROPE_KNOWN = sizeof rope_known / sizeof *rope_known, PLAIN_KNOWN = 8, YARN_KNOWN = 5 };
/* clang-format on */

/* Models of plain attention (Qwen2.5-1M) are published with this field, and transformers runs them with plain
 * attention. */
static const char chunks[] = "dual_chunk_attention_config";

static const field *find(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, name)) return &known[i];
  return NULL;
}

/* Tells whether the key is one of the family's own. */
static bool is_own(const tri_family *f, const char *name) {
  const tri_config_key *k = f->key;

  while (k->key && strcmp(k->key, name)) k++;
  return k->key != NULL;
}

static bool changes_nothing(rule r, const json_t *v) {
  bool number = json_is_number(v);

  if (r == ANY || json_is_null(v)) return true;
  if (r == ONE) return json_is_true(v) || (number && json_number_value(v) == 1);
  return json_is_false(v) || (number && json_number_value(v) == 0) ||
         (json_is_string(v) && !json_string_length(v)) || (json_is_array(v) && !json_array_size(v)) ||
         (json_is_object(v) && !json_object_size(v));
}

static bool is_of_model(const char *auto_class) {
  return !strncmp(auto_class, "AutoModel", 9) || !strcmp(auto_class, "AutoConfig");
}

/* Tells whether "FILE.CLASS" names a class with the family's own name. transformers then runs its built-in
 * class, unless told to trust the folder's code. Old folders of Phi-3 still name such a class. */
static bool is_own_class(const tri_family *f, const char *code) {
  const char *dot = code ? strrchr(code, '.') : NULL, *end = strstr(f->architecture, "For");
  size_t      n = end ? (size_t)(end - f->architecture) : 0;

  if (!dot) return false;
  if (!strcmp(dot + 1, f->architecture) || !strcmp(dot + 1, f->scored)) return true;
  return n && !strncmp(dot + 1, f->architecture, n) &&
         (!strcmp(dot + 1 + n, "Config") || !strcmp(dot + 1 + n, "Model"));
}

/* Refuses a model's own code. transformers runs it instead of its built-in class if told to trust it. */
static tri_status check_auto_map(const char *name, const json_t *map, const tri_family *f) {
  const char *key;
  json_t     *v;

  json_object_foreach((json_t *)map, key, v) {
    if (!is_of_model(key) || is_own_class(f, json_string_value(v))) continue;
    TRI_FAIL(TRI_EINPUT,
             "%s: `auto_map` names the model's own code (%s), which is not run here. Remove `auto_map` "
             "from the file if the model computes the same without it.",
             name, key);
  }
  return TRI_OK;
}

static tri_status fail_unknown(const char *name, const tri_text *unknown) {
  TRI_FAIL(TRI_EINPUT,
           "%s: has fields unknown to this version: %s. Remove a field from the file, or set it to "
           "null, if it does not change the model's results.",
           name, unknown->data);
}

/* Adds the key, with the field of the family, if one is given, that it may be a misspelling of. */
static tri_status add_unknown(const tri_family *f, const char *key, tri_text *unknown) {
  const char *near = NULL;

  for (const tri_config_key *k = f ? f->key : NULL; k && k->key && !near; k++)
    near = tri_nearest_within(2, key, &k->key, 1);
  TRI_TRY(tri_text_printf(unknown, "%s`%s`", unknown->len ? ", " : "", key));
  return near ? tri_text_printf(unknown, " (did you mean `%s`?)", near) : TRI_OK;
}

tri_status tri_hf_check_fields(const char *name, const json_t *config, const tri_family *family) {
  tri_status  st = TRI_OK;
  tri_text    unknown = {0};
  const char *key;
  json_t     *v;

  json_object_foreach((json_t *)config, key, v) {
    const field *f = find(key);
    if (is_own(family, key)) continue;
    if (!f && !json_is_null(v)) TRI_TRY_DONE(add_unknown(family, key, &unknown));
    if (f && !changes_nothing(f->rule, v))
      TRI_FAIL_DONE(TRI_EINPUT, "%s: `%s` asks for %s, but this version cannot compute this for a %s model%s",
                    name, key, f->why, family->model_type,
                    strcmp(key, chunks) ? "" : "; set it to null for plain attention");
  }
  TRI_TRY_DONE(check_auto_map(name, json_object_get(config, "auto_map"), family));
  if (unknown.len) TRI_TRY_DONE(fail_unknown(name, &unknown));
done:
  tri_text_free(&unknown);
  return st;
}

tri_status tri_hf_check_beside(const char *name, const char *key, const json_t *value) {
  const field *f = find(key);
  tri_status   st = TRI_OK;
  tri_text     unknown = {0};

  if (f && changes_nothing(f->rule, value)) return TRI_OK;
  if (f)
    TRI_FAIL(TRI_EINPUT, "%s: `%s` beside `text_config` asks for %s, but this version cannot compute this",
             name, key, f->why);
  TRI_TRY_DONE(add_unknown(NULL, key, &unknown));
  TRI_TRY_DONE(fail_unknown(name, &unknown));
done:
  tri_text_free(&unknown);
  return st;
}

void tri_hf_drop_code(json_t *config) {
  json_t     *map = json_object_get(config, "auto_map"), *v;
  const char *key;
  void       *next;

  json_object_foreach_safe(map, next, key, v) {
    if (is_of_model(key)) json_object_del(map, key);
  }
  if (map && !json_object_size(map)) json_object_del(config, "auto_map");
}

/* Tells whether embeddings of this type have the field rope_known[i]. */
static bool has_field(tri_rope_type type, int i) {
  if (i < PLAIN_KNOWN) return true;
  if (i == PLAIN_KNOWN) return type == TRI_ROPE_YARN || type == TRI_ROPE_LONG;
  if (i <= PLAIN_KNOWN + YARN_KNOWN) return type == TRI_ROPE_YARN;
  return i < ROPE_KNOWN && type == TRI_ROPE_LONG;
}

tri_status tri_hf_check_rope_fields(const char *name, const json_t *rope, const tri_family *f,
                                    tri_rope_type type) {
  tri_status  st = TRI_OK;
  tri_text    unknown = {0};
  const char *key;
  json_t     *v;

  json_object_foreach((json_t *)rope, key, v) {
    int i = 0;
    while (i < ROPE_KNOWN && strcmp(key, rope_known[i])) i++;
    if (!strncmp(key, "mrope_", 6) && is_own(f, key)) continue; /* a text has one position a token */
    if (!has_field(type, i) && !json_is_null(v)) TRI_TRY_DONE(add_unknown(NULL, key, &unknown));
  }
  if (unknown.len) TRI_TRY_DONE(fail_unknown(name, &unknown));
done:
  tri_text_free(&unknown);
  return st;
}
