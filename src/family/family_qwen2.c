/* family_qwen2.c - Qwen2 and Qwen2.5: the tensors of Llama with biases at q, k and v. Defaults are those of
 * Qwen2Config of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

static const tri_config_key no_keys[] = {{.key = NULL}};

const tri_family tri_family_qwen2 = {
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .scored = "Qwen2ForSequenceClassification",
    .silent = {.V = 151936,
               .C = 4096,
               .F = 22016,
               .L = 32,
               .H = 32,
               .G = 32,
               .max_pos = 32768,
               .qkv_bias = true,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .attn = {.window = 4096},
               .rope = {{.theta = 10000}}},
    .bos = -1,
    .eos = -1,
    .pad = -1,
    .key = no_keys,
    .window = TRI_WINDOW_SWITCHED,
    .window_layers = 28,
    .tensor = tri_tensors_llama,
};
