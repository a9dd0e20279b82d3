/* family_olmo2.c - OLMo 2: norms of the results of attention and mlp and none before them, and norms of all
 * heads of q as one row and of k. Defaults are those of Olmo2Config of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stddef.h>

#define IF(flag)    offsetof(tri_model_shape, flag)
#define LAYER(what) "model.layers.%d." what

const tri_tensor_row tri_tensors_olmo2[] = {
    {TRI_IN_EMBEDDING, "model.embed_tokens.weight", "VC", TRI_SLOT_EMBED, 0},
    {TRI_IN_LAYER, LAYER("self_attn.q_proj.weight"), "QC", TRI_SLOT_QKV, 0},
    {TRI_IN_LAYER, LAYER("self_attn.k_proj.weight"), "KC", TRI_SLOT_QKV, 0},
    {TRI_IN_LAYER, LAYER("self_attn.v_proj.weight"), "KC", TRI_SLOT_QKV, 0},
    {TRI_IN_LAYER, LAYER("self_attn.q_proj.bias"), "Q", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {TRI_IN_LAYER, LAYER("self_attn.k_proj.bias"), "K", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {TRI_IN_LAYER, LAYER("self_attn.v_proj.bias"), "K", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {TRI_IN_LAYER, LAYER("self_attn.q_norm.weight"), "Q", TRI_SLOT_Q_NORM, 0},
    {TRI_IN_LAYER, LAYER("self_attn.k_norm.weight"), "K", TRI_SLOT_K_NORM, 0},
    {TRI_IN_LAYER, LAYER("self_attn.o_proj.weight"), "CQ", TRI_SLOT_O, 0},
    {TRI_IN_LAYER, LAYER("self_attn.o_proj.bias"), "C", TRI_SLOT_O_BIAS, IF(o_bias)},
    {TRI_IN_LAYER, LAYER("post_attention_layernorm.weight"), "C", TRI_SLOT_POST_NORM1, 0},
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
                                      {.key = NULL}};

const tri_family tri_family_olmo2 = {
    .model_type = "olmo2",
    .architecture = "Olmo2ForCausalLM",
    .scored = "Olmo2ForSequenceClassification",
    .silent = {.V = 50304,
               .C = 4096,
               .F = 11008,
               .L = 32,
               .H = 32,
               .max_pos = 2048,
               .norm_eps = 1e-5f,
               .init_std = 0.02f,
               .rope = {{.theta = 10000}}},
    .bos = -1,
    .eos = 50279,
    .pad = 1,
    .key = keys,
    .tensor = tri_tensors_olmo2,
};
