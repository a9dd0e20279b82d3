/* family_olmo3.c - OLMo 3: OLMo 2 with a window in three of four layers, without scaled rotary positions
 * there. Defaults are those of Olmo3Config of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stddef.h>

#define IF(flag) offsetof(tri_model_shape, flag)

static const tri_config_key keys[] = {{"attention_bias", TRI_KEY_FLAG, IF(qkv_bias)},
                                      {"attention_bias", TRI_KEY_FLAG, IF(o_bias)},
                                      {.key = NULL}};

const tri_family tri_family_olmo3 = {
    .model_type = "olmo3",
    .architecture = "Olmo3ForCausalLM",
    .scored = "Olmo3ForSequenceClassification",
    .silent = {.V = 50304,
               .C = 4096,
               .F = 11008,
               .L = 32,
               .H = 32,
               .max_pos = 2048,
               .norm_eps = 1e-5f,
               .init_std = 0.02f,
               .attn = {.window = 4096},
               .rope = {[TRI_GLOBAL] = {.theta = 500000}, [TRI_LOCAL] = {.theta = 500000}}},
    .bos = -1,
    .eos = 50279,
    .pad = 1,
    .key = keys,
    .window = TRI_WINDOW_PATTERN,
    .pattern = 4,
    .rope_by_kind = true,
    .rope_one_theta = true,
    .tensor = tri_tensors_olmo2,
};
