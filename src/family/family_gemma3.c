/* family_gemma3.c - the text models of Gemma 3: Gemma 2 with norms of each head's queries and keys in place
 * of caps. Local layers have a rotary embedding of their own. Defaults are those of Gemma3TextConfig of
 * transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stddef.h>

#define IF(member)  offsetof(tri_model_shape, member)
#define LAYER(what) "model.layers.%d." what

static const tri_tensor_row tensors[] = {
    {TRI_IN_EMBEDDING, "model.embed_tokens.weight", "VC", TRI_SLOT_EMBED, 0},
    {TRI_IN_LAYER, LAYER("input_layernorm.weight"), "C", TRI_SLOT_NORM1, 0},
    {TRI_IN_LAYER, LAYER("self_attn.q_proj.weight"), "QC", TRI_SLOT_QKV, 0},
    {TRI_IN_LAYER, LAYER("self_attn.k_proj.weight"), "KC", TRI_SLOT_QKV, 0},
    {TRI_IN_LAYER, LAYER("self_attn.v_proj.weight"), "KC", TRI_SLOT_QKV, 0},
    {TRI_IN_LAYER, LAYER("self_attn.q_proj.bias"), "Q", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {TRI_IN_LAYER, LAYER("self_attn.k_proj.bias"), "K", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {TRI_IN_LAYER, LAYER("self_attn.v_proj.bias"), "K", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {TRI_IN_LAYER, LAYER("self_attn.q_norm.weight"), "D", TRI_SLOT_Q_NORM, 0},
    {TRI_IN_LAYER, LAYER("self_attn.k_norm.weight"), "D", TRI_SLOT_K_NORM, 0},
    {TRI_IN_LAYER, LAYER("self_attn.o_proj.weight"), "CQ", TRI_SLOT_O, 0},
    {TRI_IN_LAYER, LAYER("self_attn.o_proj.bias"), "C", TRI_SLOT_O_BIAS, IF(o_bias)},
    {TRI_IN_LAYER, LAYER("post_attention_layernorm.weight"), "C", TRI_SLOT_POST_NORM1, 0},
    {TRI_IN_LAYER, LAYER("pre_feedforward_layernorm.weight"), "C", TRI_SLOT_NORM2, 0},
    {TRI_IN_LAYER, LAYER("mlp.gate_proj.weight"), "FC", TRI_SLOT_GATE_UP, 0},
    {TRI_IN_LAYER, LAYER("mlp.up_proj.weight"), "FC", TRI_SLOT_GATE_UP, 0},
    {TRI_IN_LAYER, LAYER("mlp.down_proj.weight"), "CF", TRI_SLOT_DOWN, 0},
    {TRI_IN_LAYER, LAYER("post_feedforward_layernorm.weight"), "C", TRI_SLOT_POST_NORM2, 0},
    {TRI_IN_HEAD, "model.norm.weight", "C", TRI_SLOT_FINAL_NORM, 0},
    {TRI_IN_HEAD, "lm_head.weight", "VC", TRI_SLOT_HEAD, 0},
    {.name = NULL},
};

/* Its config has attn_logit_softcapping, but transformers does not apply it. The key is refused if it is
 * set. */
static const tri_config_key keys[] = {{"attention_bias", TRI_KEY_FLAG, IF(qkv_bias)},
                                      {"attention_bias", TRI_KEY_FLAG, IF(o_bias)},
                                      {"query_pre_attn_scalar", TRI_KEY_NUMBER, IF(attn.query_scalar)},
                                      {"final_logit_softcapping", TRI_KEY_CAP, IF(logit_softcap)},
                                      {"sliding_window_pattern", TRI_KEY_PATTERN, 0},
                                      {"_sliding_window_pattern", TRI_KEY_IDLE, 0},
                                      {"rope_local_base_freq", TRI_KEY_THETA, 0},
                                      {"hidden_activation", TRI_KEY_IDLE, 0},
                                      {"cache_implementation", TRI_KEY_IDLE, 0},
                                      {.key = NULL}};

const tri_family tri_family_gemma3 = {
    .model_type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .scored = "Gemma3TextForSequenceClassification",
    .silent = {.V = 262208,
               .C = 2304,
               .F = 9216,
               .L = 26,
               .H = 8,
               .G = 4,
               .D = 256,
               .max_pos = 131072,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .tied_head = true,
               .attn = {.window = 4096, .query_scalar = 256},
               .rope = {[TRI_GLOBAL] = {.theta = 1000000}, [TRI_LOCAL] = {.theta = 10000}}},
    .bos = 2,
    .eos = 1,
    .pad = 0,
    .key = keys,
    .window = TRI_WINDOW_PATTERN,
    .pattern = 6,
    .rope_by_kind = true,
    .gelu = true,
    .embed_scaled = true,
    .norm_plus = 1,
    .tensor = tensors,
};
