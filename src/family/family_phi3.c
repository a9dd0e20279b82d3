/* family_phi3.c - Phi-3: Llama with q, k, v in one tensor and gate, up in another. Defaults are those of
 * Phi3Config of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#define LAYER(what) "model.layers.%d." what

static const tri_tensor_row tensors[] = {
    {TRI_IN_EMBEDDING, "model.embed_tokens.weight", "VC", TRI_SLOT_EMBED, 0},
    {TRI_IN_LAYER, LAYER("input_layernorm.weight"), "C", TRI_SLOT_NORM1, 0},
    {TRI_IN_LAYER, LAYER("self_attn.qkv_proj.weight"), "EC", TRI_SLOT_QKV, 0},
    {TRI_IN_LAYER, LAYER("self_attn.o_proj.weight"), "CQ", TRI_SLOT_O, 0},
    {TRI_IN_LAYER, LAYER("post_attention_layernorm.weight"), "C", TRI_SLOT_NORM2, 0},
    {TRI_IN_LAYER, LAYER("mlp.gate_up_proj.weight"), "UC", TRI_SLOT_GATE_UP, 0},
    {TRI_IN_LAYER, LAYER("mlp.down_proj.weight"), "CF", TRI_SLOT_DOWN, 0},
    {TRI_IN_HEAD, "model.norm.weight", "C", TRI_SLOT_FINAL_NORM, 0},
    {TRI_IN_HEAD, "lm_head.weight", "VC", TRI_SLOT_HEAD, 0},
    {.name = NULL},
};

/* The context length before scaling, read by longrope (hf_config_rope.c). */
static const tri_config_key keys[] = {{"original_max_position_embeddings", TRI_KEY_IDLE, 0}, {.key = NULL}};

const tri_family tri_family_phi3 = {
    .model_type = "phi3",
    .architecture = "Phi3ForCausalLM",
    .scored = "Phi3ForSequenceClassification",
    .silent = {.V = 32064,
               .C = 3072,
               .F = 8192,
               .L = 32,
               .H = 32,
               .max_pos = 4096,
               .norm_eps = 1e-5f,
               .init_std = 0.02f,
               .rope = {{.theta = 10000, .original_max_pos = 4096}}},
    .bos = 1,
    .eos = 32000,
    .pad = 32000,
    .key = keys,
    .window = TRI_WINDOW_ALL,
    .rope_long = true,
    .rope_partial = true,
    .tensor = tensors,
};
