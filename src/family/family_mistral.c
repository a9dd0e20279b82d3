/* family_mistral.c - Mistral: the tensors of Llama, a window in all layers, and the defaults of
 * MistralConfig of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

static const tri_config_key no_keys[] = {{.key = NULL}};

const tri_family tri_family_mistral = {
    .model_type = "mistral",
    .architecture = "MistralForCausalLM",
    .scored = "MistralForSequenceClassification",
    .silent = {.V = 32000,
               .C = 4096,
               .F = 14336,
               .L = 32,
               .H = 32,
               .G = 8,
               .max_pos = 131072,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .attn = {.window = 4096},
               .rope = {{.theta = 10000}}},
    .bos = 1,
    .eos = 2,
    .pad = -1,
    .key = no_keys,
    .window = TRI_WINDOW_ALL,
    .tensor = tri_tensors_llama,
};
