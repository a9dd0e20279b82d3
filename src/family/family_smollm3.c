/* family_smollm3.c - SmolLM3: the tensors of Llama, with every fourth layer without rotary positions.
 * Defaults are those of SmolLM3Config of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stddef.h>

#define IF(flag) offsetof(tri_model_shape, flag)

static const tri_config_key keys[] = {
    {"attention_bias", TRI_KEY_FLAG, IF(qkv_bias)}, {"attention_bias", TRI_KEY_FLAG, IF(o_bias)},
    {"mlp_bias", TRI_KEY_FLAG, IF(mlp_bias)},       {"no_rope_layers", TRI_KEY_NO_ROPE, 0},
    {"no_rope_layer_interval", TRI_KEY_NO_ROPE, 0}, {.key = NULL}};

const tri_family tri_family_smollm3 = {
    .model_type = "smollm3",
    .architecture = "SmolLM3ForCausalLM",
    .scored = "SmolLM3ForSequenceClassification",
    .silent = {.V = 128256,
               .C = 2048,
               .F = 11008,
               .L = 36,
               .H = 16,
               .G = 4,
               .max_pos = 32768,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .tied_head = true,
               .rope = {{.theta = 2000000}}},
    .bos = 128000,
    .eos = 128001,
    .pad = 128004,
    .key = keys,
    .window = TRI_WINDOW_NO_ROPE,
    .no_rope_interval = 4,
    .tensor = tri_tensors_llama,
};
