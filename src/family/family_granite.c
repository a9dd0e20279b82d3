/* family_granite.c - Granite 3: Llama with four multipliers, of embeddings, attention scores, residuals and
 * logits. Defaults are those of GraniteConfig of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stddef.h>

#define IN(member) offsetof(tri_model_shape, member)

static const tri_config_key keys[] = {{"attention_bias", TRI_KEY_FLAG, IN(qkv_bias)},
                                      {"attention_bias", TRI_KEY_FLAG, IN(o_bias)},
                                      {"mlp_bias", TRI_KEY_FLAG, IN(mlp_bias)},
                                      {"embedding_multiplier", TRI_KEY_NUMBER, IN(embed_multiplier)},
                                      {"attention_multiplier", TRI_KEY_NUMBER, IN(attn.multiplier)},
                                      {"residual_multiplier", TRI_KEY_NUMBER, IN(residual_multiplier)},
                                      {"logits_scaling", TRI_KEY_NUMBER, IN(logit_divisor)},
                                      {.key = NULL}};

const tri_family tri_family_granite = {
    .model_type = "granite",
    .architecture = "GraniteForCausalLM",
    .scored = "GraniteForSequenceClassification",
    .silent = {.V = 32000,
               .C = 4096,
               .F = 11008,
               .L = 32,
               .H = 32,
               .max_pos = 2048,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .embed_multiplier = 1,
               .residual_multiplier = 1,
               .logit_divisor = 1,
               .attn = {.multiplier = 1},
               .rope = {{.theta = 10000}}},
    .bos = 1,
    .eos = 2,
    .pad = -1,
    .key = keys,
    .tensor = tri_tensors_llama,
};
