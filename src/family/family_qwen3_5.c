/* family_qwen3_5.c - the text models of Qwen3.5 and 3.6: recurrent layers (gated delta nets) beside layers
 * with attention. Attention has norms of each head's queries and keys, a gate for each column of its result,
 * and positions that turn a part of each head. Defaults are those of Qwen3_5TextConfig of transformers 5. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stddef.h>

#define IF(member)  offsetof(tri_model_shape, member)
#define LAYER(what) "model.layers.%d." what
#define ATTENDS     TRI_IN_ATTENTION_LAYER
#define RECURS      TRI_IN_RECURRENT_LAYER

/* The norms are times 1 + w, except linear_attn.norm. */
static const tri_tensor_row tensors[] = {
    {TRI_IN_EMBEDDING, "model.embed_tokens.weight", "VC", TRI_SLOT_EMBED, 0},
    {TRI_IN_LAYER, LAYER("input_layernorm.weight"), "C", TRI_SLOT_NORM1, 0},
    {ATTENDS, LAYER("self_attn.q_proj.weight"), "PC", TRI_SLOT_QKV, 0},
    {ATTENDS, LAYER("self_attn.k_proj.weight"), "KC", TRI_SLOT_QKV, 0},
    {ATTENDS, LAYER("self_attn.v_proj.weight"), "KC", TRI_SLOT_QKV, 0},
    {ATTENDS, LAYER("self_attn.q_proj.bias"), "P", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {ATTENDS, LAYER("self_attn.k_proj.bias"), "K", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {ATTENDS, LAYER("self_attn.v_proj.bias"), "K", TRI_SLOT_QKV_BIAS, IF(qkv_bias)},
    {ATTENDS, LAYER("self_attn.q_norm.weight"), "D", TRI_SLOT_Q_NORM, 0},
    {ATTENDS, LAYER("self_attn.k_norm.weight"), "D", TRI_SLOT_K_NORM, 0},
    {ATTENDS, LAYER("self_attn.o_proj.weight"), "CQ", TRI_SLOT_O, 0},
    {ATTENDS, LAYER("self_attn.o_proj.bias"), "C", TRI_SLOT_O_BIAS, IF(o_bias)},
    {RECURS, LAYER("linear_attn.in_proj_qkv.weight"), "RC", TRI_SLOT_DELTA_QKV, 0},
    {RECURS, LAYER("linear_attn.in_proj_z.weight"), "ZC", TRI_SLOT_DELTA_Z, 0},
    {RECURS, LAYER("linear_attn.in_proj_b.weight"), "NC", TRI_SLOT_DELTA_BA, 0},
    {RECURS, LAYER("linear_attn.in_proj_a.weight"), "NC", TRI_SLOT_DELTA_BA, 0},
    {RECURS, LAYER("linear_attn.conv1d.weight"), "R1W", TRI_SLOT_CONV, 0},
    {RECURS, LAYER("linear_attn.A_log"), "N", TRI_SLOT_A_LOG, 0},
    {RECURS, LAYER("linear_attn.dt_bias"), "N", TRI_SLOT_DT_BIAS, 0},
    {RECURS, LAYER("linear_attn.norm.weight"), "Y", TRI_SLOT_GATE_NORM, 0},
    {RECURS, LAYER("linear_attn.out_proj.weight"), "CZ", TRI_SLOT_DELTA_OUT, 0},
    {TRI_IN_LAYER, LAYER("post_attention_layernorm.weight"), "C", TRI_SLOT_NORM2, 0},
    {TRI_IN_LAYER, LAYER("mlp.gate_proj.weight"), "FC", TRI_SLOT_GATE_UP, 0},
    {TRI_IN_LAYER, LAYER("mlp.up_proj.weight"), "FC", TRI_SLOT_GATE_UP, 0},
    {TRI_IN_LAYER, LAYER("mlp.down_proj.weight"), "CF", TRI_SLOT_DOWN, 0},
    {TRI_IN_HEAD, "model.norm.weight", "C", TRI_SLOT_FINAL_NORM, 0},
    {TRI_IN_HEAD, "lm_head.weight", "VC", TRI_SLOT_HEAD, 0},
    {.name = NULL},
};

/* The linear_ keys and the interval are read by hf_config_delta.c. The mrope_ keys stand in rope_parameters,
 * and concern images only. The layers of multi-token prediction (mtp) are not computed. */
static const tri_config_key keys[] = {{"attention_bias", TRI_KEY_FLAG, IF(qkv_bias)},
                                      {"attention_bias", TRI_KEY_FLAG, IF(o_bias)},
                                      {"attn_output_gate", TRI_KEY_FLAG, IF(attn_gate)},
                                      {"linear_num_key_heads", TRI_KEY_IDLE, 0},
                                      {"linear_num_value_heads", TRI_KEY_IDLE, 0},
                                      {"linear_key_head_dim", TRI_KEY_IDLE, 0},
                                      {"linear_value_head_dim", TRI_KEY_IDLE, 0},
                                      {"linear_conv_kernel_dim", TRI_KEY_IDLE, 0},
                                      {"full_attention_interval", TRI_KEY_IDLE, 0},
                                      {"mamba_ssm_dtype", TRI_KEY_IDLE, 0},
                                      {"output_gate_type", TRI_KEY_IDLE, 0},
                                      {"mlp_only_layers", TRI_KEY_IDLE, 0},
                                      {"mtp_num_hidden_layers", TRI_KEY_IDLE, 0},
                                      {"mtp_use_dedicated_embeddings", TRI_KEY_IDLE, 0},
                                      {"mrope_interleaved", TRI_KEY_IDLE, 0},
                                      {"mrope_section", TRI_KEY_IDLE, 0},
                                      {.key = NULL}};

const tri_family tri_family_qwen3_5 = {
    .model_type = "qwen3_5_text",
    .architecture = "Qwen3_5ForCausalLM",
    .scored = "Qwen3_5TextForSequenceClassification",
    .silent = {.V = 248320,
               .C = 4096,
               .F = 12288,
               .L = 32,
               .H = 16,
               .G = 4,
               .D = 256,
               .max_pos = 32768,
               .norm_eps = 1e-6f,
               .init_std = 0.02f,
               .attn_gate = true,
               .delta = {.Hk = 16, .Hv = 32, .Dk = 128, .Dv = 128, .conv = 4},
               .rope = {{.theta = 10000}}},
    .bos = -1,
    .eos = -1,
    .pad = -1,
    .key = keys,
    .window = TRI_WINDOW_NONE,
    .attention_interval = 4,
    .rope_partial = true,
    .rope_part = 0.25,
    .norm_plus = 1,
    .tensor = tensors,
};
