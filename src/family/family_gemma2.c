/* family_gemma2.c - Gemma 2: norms after attention and mlp too, capped scores and logits, and every other
 * layer local. Defaults are those of Gemma2Config of transformers 5. */
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

static const tri_config_key keys[] = {{"attention_bias", TRI_KEY_FLAG, IF(qkv_bias)},
                                      {"attention_bias", TRI_KEY_FLAG, IF(o_bias)},
                                      {"query_pre_attn_scalar", TRI_KEY_NUMBER, IF(attn.query_scalar)},
                                      {"attn_logit_softcapping", TRI_KEY_CAP, IF(attn.softcap)},
                                      {"final_logit_softcapping", TRI_KEY_CAP, IF(logit_softcap)},
                                      {"hidden_activation", TRI_KEY_IDLE, 0},
                                      {"sliding_window_size", TRI_KEY_IDLE, 0},
                                      {"cache_implementation", TRI_KEY_IDLE, 0},
                                      {.key = NULL}};

const tri_family tri_family_gemma2 = {
    .model_type = "gemma2",
    .architecture = "Gemma2ForCausalLM",
    .scored = "Gemma2ForSequenceClassification",
    .silent = {.V = 256000,
               .C = 2304,
               .F = 9216,
               .L = 26,
               .H = 8,
               .G = 4,
               .D = 256,
               .max_pos = 8192,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .tied_head = true,
               .logit_softcap = 30,
               .attn = {.window = 4096, .query_scalar = 256, .softcap = 50},
               .rope = {{.theta = 10000}}},
    .bos = 2,
    .eos = 1,
    .pad = 0,
    .key = keys,
    .window = TRI_WINDOW_PATTERN,
    .pattern = 2,
    .gelu = true,
    .embed_scaled = true,
    .norm_plus = 1,
    .tensor = tensors,
};
