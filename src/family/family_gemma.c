/* family_gemma.c - the first Gemma: Llama with GELU, norm weights added to 1 and scaled embeddings. Defaults
 * are those of GemmaConfig of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stddef.h>

/* Llama's biases. */
static const tri_config_key keys[] = {{"attention_bias", TRI_KEY_FLAG, offsetof(tri_model_shape, qkv_bias)},
                                      {"attention_bias", TRI_KEY_FLAG, offsetof(tri_model_shape, o_bias)},
                                      {"hidden_activation", TRI_KEY_IDLE, 0},
                                      {.key = NULL}};

const tri_family tri_family_gemma = {
    .model_type = "gemma",
    .architecture = "GemmaForCausalLM",
    .scored = "GemmaForSequenceClassification",
    .silent = {.V = 256000,
               .C = 3072,
               .F = 24576,
               .L = 28,
               .H = 16,
               .G = 16,
               .D = 256,
               .max_pos = 8192,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .tied_head = true,
               .rope = {{.theta = 10000}}},
    .bos = 2,
    .eos = 1,
    .pad = 0,
    .key = keys,
    .gelu = true,
    .gelu_alias = "gelu",
    .embed_scaled = true,
    .norm_plus = 1,
    .tensor = tri_tensors_llama,
};
