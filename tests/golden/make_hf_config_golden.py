# make_hf_config_golden.py - writes the values that transformers reads from config.json files, for test_hf_config.c.
# Made with transformers 5.24, torch 2.15, Python 3.11. Run by hand: python tests/golden/make_hf_config_golden.py tests/data/hf_config (from the root)
# It writes cases.jsonl, families.jsonl and recurrent.jsonl anew. The second has the families after Qwen2, with the keys only they
# have. The third has qwen3_5, with layers that keep a state, alone or as the text half of a model for images.
# Each case is one JSON line: the texts of the files, and the values of the loaded config and of the module built from it.
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import sys
import tempfile
from types import SimpleNamespace

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

transformers.logging.set_verbosity_error()
TINY = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 500}
LLAMA = {"model_type": "llama", **TINY}
QWEN = {"model_type": "qwen2", **TINY, "num_key_value_heads": 2}
LLAMA3 = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}

CASES = {
    "llama defaults": ({"model_type": "llama"}, None),
    "qwen2 defaults": ({"model_type": "qwen2"}, None),
    "llama tiny": (LLAMA, None),
    "llama 3.2 as published": (
        {**LLAMA, "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
         "bos_token_id": 3, "eos_token_id": [4, 5, 6], "head_dim": 32, "hidden_act": "silu", "initializer_range": 0.03,
         "max_position_embeddings": 131072, "mlp_bias": False, "num_key_value_heads": 2, "pretraining_tp": 1,
         "rms_norm_eps": 1e-05, "rope_scaling": {**LLAMA3, "rope_type": "llama3"}, "rope_theta": 500000.0,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.45.0", "use_cache": True},
        {"bos_token_id": 3, "do_sample": True, "eos_token_id": [4, 7], "temperature": 0.6, "top_p": 0.9}),
    "llama 3.2 in the new spelling": (
        {**LLAMA, "dtype": "bfloat16", "max_position_embeddings": 131072, "num_key_value_heads": 4,
         "rope_parameters": {**LLAMA3, "rope_type": "llama3", "rope_theta": 500000.0}}, {"eos_token_id": 9}),
    "qwen2.5 as published": (
        {**QWEN, "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 10, "eos_token_id": 12,
         "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 32768, "max_window_layers": 21,
         "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": True,
         "torch_dtype": "bfloat16", "use_sliding_window": False},
        {"bos_token_id": 10, "pad_token_id": 10, "do_sample": True, "eos_token_id": [12, 10]}),
    "qwen2 in the new spelling": (
        {**QWEN, "dtype": "float32", "layer_types": ["full_attention", "full_attention"], "sliding_window": None,
         "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "pad_token_id": None}, None),
    "qwen2 with head_dim": ({**QWEN, "head_dim": 48}, None),
    "qwen2 heads null": ({**QWEN, "num_key_value_heads": None}, None),
    "llama heads null": ({**LLAMA, "num_key_value_heads": None, "head_dim": None}, None),
    "llama biases": ({**LLAMA, "attention_bias": True, "mlp_bias": True}, None),
    "qwen2 ignores bias keys": ({**QWEN, "attention_bias": False, "mlp_bias": True}, None),
    "linear, old key": ({**LLAMA, "rope_theta": 5000.0, "rope_scaling": {"type": "linear", "factor": 2.5}}, None),
    "rope_type before type": ({**LLAMA, "rope_scaling": {"type": "linear", "rope_type": "default", "factor": 2.0}}, None),
    "rope_scaling null": ({**LLAMA, "rope_theta": 20000.0, "rope_scaling": None}, None),
    "rope_scaling empty": (
        {**LLAMA, "rope_theta": 20000.0, "rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 3.0}},
        None),
    "both spellings": (
        {**LLAMA, "rope_theta": 20000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0},
         "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, None),
    "theta twice": ({**LLAMA, "rope_theta": 20000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, None),
    "llama3 without its length": (
        {**LLAMA, "max_position_embeddings": 4096,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}, None),
    "integer theta": ({**LLAMA, "rope_theta": 500000}, None),
    "eos only in config": ({**LLAMA, "eos_token_id": 33}, {"do_sample": True, "temperature": 0.5}),
    "eos twice": ({**LLAMA, "eos_token_id": [8, 8, 9]}, None),
}

GEMMA = {**TINY, "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 7}
GEMMA2, GEMMA3 = {"model_type": "gemma2", **GEMMA}, {"model_type": "gemma3_text", **GEMMA}
MISTRAL, PHI3 = {"model_type": "mistral", **TINY, "num_key_value_heads": 2}, {"model_type": "phi3", **TINY, "pad_token_id": 3}
QWEN3 = {"model_type": "qwen3", **TINY, "num_key_value_heads": 2}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
FULL, LOCAL = "full_attention", "sliding_attention"

SHORT = [1.0 + 0.125 * i for i in range(8)]
LONG = [1.0 + i * i for i in range(8)]
FAMILIES = {
    "mistral defaults": ({"model_type": "mistral"}, None),
    "mistral without a window": ({**MISTRAL, "sliding_window": None, "max_position_embeddings": 32768}, None),
    "mistral nemo as published": (
        {**MISTRAL, "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
         "head_dim": 32, "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
         "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
         "transformers_version": "4.43.0.dev0", "use_cache": True}, None),
    "qwen2 with a window": (
        {**QWEN, "num_hidden_layers": 5, "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 3}, None),
    "qwen2 with a window that is null": (
        {**QWEN, "num_hidden_layers": 5, "use_sliding_window": True, "sliding_window": None, "max_window_layers": 3}, None),
    "qwen2 with named layers": (
        {**QWEN, "use_sliding_window": True, "sliding_window": 64, "layer_types": [LOCAL, FULL]}, None),
    "qwen2 default window layers": ({**QWEN, "num_hidden_layers": 30, "use_sliding_window": True}, None),
    "qwen3 defaults": ({"model_type": "qwen3"}, None),
    "qwen3 as published": (
        {**QWEN3, "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 11,
         "eos_token_id": 12, "head_dim": 128, "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 40960,
         "max_window_layers": 28, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True,
         "use_sliding_window": False}, {"bos_token_id": 11, "do_sample": True, "eos_token_id": [12, 11], "pad_token_id": 11}),
    "qwen3 with biases": ({**QWEN3, "attention_bias": True}, None),
    "qwen3 yarn": ({**QWEN3, "max_position_embeddings": 4096, "rope_theta": 1000000.0, "rope_scaling": YARN}, None),
    "yarn by its numbers": (
        {**LLAMA, "rope_parameters": {**YARN, "rope_theta": 5e5, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5}}, None),
    "yarn by mscale": (
        {**LLAMA, "rope_parameters": {**YARN, "rope_theta": 5e5, "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False}}, None),
    "yarn without its length": (
        {**LLAMA, "max_position_embeddings": 4096, "rope_scaling": {"type": "yarn", "factor": 2.0}}, None),
    "gemma2 defaults": ({"model_type": "gemma2"}, None),
    "gemma2 as published": (
        {**GEMMA2, "architectures": ["Gemma2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
         "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
         "final_logit_softcapping": 30.0, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
         "initializer_range": 0.02, "max_position_embeddings": 8192, "pad_token_id": 0, "query_pre_attn_scalar": 224,
         "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "sliding_window_size": None,
         "torch_dtype": "float32", "transformers_version": "4.42.4", "use_cache": True}, {"bos_token_id": 2, "eos_token_id": [1, 107]}),
    "gemma2 without caps": ({**GEMMA2, "attn_logit_softcapping": None, "final_logit_softcapping": None}, None),
    "gemma2 with named layers": (
        {**GEMMA2, "layer_types": [FULL, FULL, LOCAL, LOCAL, FULL, FULL, LOCAL], "sliding_window": 33}, None),
    "gemma3 defaults": ({"model_type": "gemma3_text"}, None),
    "gemma3 as published": (
        {**GEMMA3, "architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "attn_logit_softcapping": None,
         "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": [1, 106], "final_logit_softcapping": None,
         "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 32768, "query_pre_attn_scalar": 256,
         "rope_local_base_freq": 10000, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": 512,
         "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0"}, None),
    "gemma3 scaled, of old": (
        {**GEMMA3, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_local_base_freq": 5000.0, "sliding_window_pattern": 3},
        None),
    "gemma3 in the new spelling": (
        {**GEMMA3, "layer_types": [LOCAL] * 5 + [FULL, LOCAL], "_sliding_window_pattern": 6, "final_logit_softcapping": 20.0,
         "rope_parameters": {FULL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                             LOCAL: {"rope_type": "default", "rope_theta": 10000.0}}}, None),
    "gemma defaults": ({"model_type": "gemma"}, None),
    "gemma as published": (
        {"model_type": "gemma", **GEMMA, "architectures": ["GemmaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
         "bos_token_id": 2, "eos_token_id": 1, "hidden_act": "gelu", "hidden_activation": None, "initializer_range": 0.02,
         "max_position_embeddings": 8192, "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000.0,
         "torch_dtype": "bfloat16", "transformers_version": "4.38.0.dev0", "use_cache": True}, None),
    "phi3 defaults": ({"model_type": "phi3"}, None),
    "phi3 mini as published": (
        {**PHI3, "architectures": ["Phi3ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0,
         "eos_token_id": 5, "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 4096,
         "num_key_value_heads": 4, "original_max_position_embeddings": 4096, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
         "rope_scaling": None, "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16", "transformers_version": "4.40.2", "use_cache": True, "attention_bias": False},
        {"bos_token_id": 1, "eos_token_id": [5, 7], "pad_token_id": 5}),
    "granite defaults": ({"model_type": "granite"}, None),
    "granite 3.1 as published": (
        {"model_type": "granite", **TINY, "architectures": ["GraniteForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
         "attention_multiplier": 0.0078125, "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_act": "silu",
         "initializer_range": 0.02, "logits_scaling": 16.0, "max_position_embeddings": 131072, "mlp_bias": False,
         "num_key_value_heads": 2, "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": None,
         "rope_theta": 10000000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.47.0",
         "use_cache": True}, {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}),
    "olmo2 defaults": ({"model_type": "olmo2"}, None),
    "olmo2 as published": (
        {"model_type": "olmo2", **TINY, "architectures": ["Olmo2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
         "eos_token_id": 257, "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 4096,
         "num_key_value_heads": 4, "pad_token_id": 277, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 500000,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.47.0", "use_cache": False},
        {"eos_token_id": 257, "pad_token_id": 277}),
    "smollm3 defaults": ({"model_type": "smollm3"}, None),
    "smollm3 as published": (
        {"model_type": "smollm3", **TINY, "num_hidden_layers": 8, "num_key_value_heads": 2, "architectures": ["SmolLM3ForCausalLM"],
         "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": None, "eos_token_id": 12, "hidden_act": "silu",
         "initializer_range": 0.02, "layer_types": [FULL] * 8, "max_position_embeddings": 65536, "max_window_layers": 28,
         "mlp_bias": False, "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "pad_token_id": 4,
         "pretraining_tp": 2, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 5000000.0, "sliding_window": None,
         "torch_dtype": "bfloat16", "transformers_version": "4.54.0.dev0", "use_cache": False, "use_sliding_window": False},
        {"bos_token_id": 0, "do_sample": True, "eos_token_id": 12, "pad_token_id": 4, "temperature": 0.6, "top_p": 0.95}),
    "smollm3 with windows": (
        {"model_type": "smollm3", **TINY, "num_hidden_layers": 5, "no_rope_layer_interval": 2, "use_sliding_window": True,
         "sliding_window": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}, None),
    "smollm3 with named windows": (
        {"model_type": "smollm3", **TINY, "no_rope_layers": [0, 1], "use_sliding_window": True, "sliding_window": 64, "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 9,
         "layer_types": [FULL, LOCAL]}, None),
    "phi3.5 mini as published": (
        {**PHI3, "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
         "embd_pdrop": 0.0, "eos_token_id": 5, "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 131072,
         "num_key_value_heads": 4, "original_max_position_embeddings": 4096, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
         "rope_scaling": {"long_factor": LONG, "short_factor": SHORT, "type": "longrope"}, "rope_theta": 10000.0,
         "sliding_window": 262144, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True},
        {"bos_token_id": 1, "eos_token_id": [5, 7], "pad_token_id": 5}),
    "phi4 mini as published": (
        {**PHI3, "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 9,
         "embd_pdrop": 0.0, "eos_token_id": 9, "full_attn_mod": 1, "hidden_act": "silu", "initializer_range": 0.02,
         "interpolate_factor": 1, "lm_head_bias": False, "max_position_embeddings": 131072, "mlp_bias": False,
         "num_key_value_heads": 2, "original_max_position_embeddings": 4096, "pad_token_id": 9, "partial_rotary_factor": 0.75,
         "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": True,
         "rope_scaling": {"long_factor": LONG[:6], "short_factor": SHORT[:6], "type": "longrope"}, "torch_dtype": "bfloat16"}, None),
    "phi3 longrope in the new spelling": (
        {**PHI3, "max_position_embeddings": 64, "original_max_position_embeddings": 64, "eos_token_id": 5, "pad_token_id": 5,
         "rope_parameters": {"rope_type": "longrope", "rope_theta": 5000.0, "long_factor": LONG, "short_factor": SHORT, "factor": 2.0,
                             "original_max_position_embeddings": 64, "partial_rotary_factor": 1.0}}, None),
    "phi3 longrope by its factor": (
        {**PHI3, "max_position_embeddings": 8192, "eos_token_id": 5, "pad_token_id": 5,
         "rope_scaling": {"rope_type": "longrope", "long_factor": LONG, "short_factor": SHORT, "attention_factor": 1.25}}, None),
    "olmo3 defaults": ({"model_type": "olmo3"}, None),
    "olmo3 as published": (
        {"model_type": "olmo3", **TINY, "num_hidden_layers": 4, "architectures": ["Olmo3ForCausalLM"], "attention_bias": False,
         "attention_dropout": 0.0, "bos_token_id": None, "eos_token_id": 257, "hidden_act": "silu", "initializer_range": 0.02,
         "layer_types": [LOCAL, LOCAL, LOCAL, FULL], "max_position_embeddings": 65536, "num_key_value_heads": 4, "pad_token_id": 277,
         "rms_norm_eps": 1e-06, "rope_theta": 500000, "sliding_window": 4096, "tie_word_embeddings": False,
         "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
                          "original_max_position_embeddings": 8192, "rope_type": "yarn"},
         "torch_dtype": "bfloat16", "transformers_version": "4.57.1", "use_cache": False}, {"eos_token_id": 257, "pad_token_id": 277}),
    "olmo3 in the new spelling": (
        {"model_type": "olmo3", **TINY, "num_hidden_layers": 5, "eos_token_id": 2,
         "rope_parameters": {FULL: {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6},
                             LOCAL: {"rope_type": "default", "rope_theta": 20000.0}}}, None),
    "phi3 with a part of each head": ({**PHI3, "eos_token_id": 5, "pad_token_id": 5, "partial_rotary_factor": 0.5}, None),
}

LINEAR = "linear_attention"
MROPE = {"mrope_interleaved": True, "mrope_section": [11, 11, 10], "rope_type": "default", "rope_theta": 10000000,
         "partial_rotary_factor": 0.25}
# The order and the values of the published text_config, where sizes are given beside it.
QWEN3_5 = {"attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True, "dtype": "bfloat16", "eos_token_id": 44,
           "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "initializer_range": 0.02, "linear_conv_kernel_dim": 4,
           "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
           "mlp_only_layers": [], "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
           "rms_norm_eps": 1e-06, "use_cache": True, "vocab_size": 500, "mamba_ssm_dtype": "float32", "rope_parameters": MROPE}
IMAGES = {"architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 56, "model_type": "qwen3_5",
          "transformers_version": "4.57.0.dev0", "video_token_id": 57, "vision_end_token_id": 54, "vision_start_token_id": 53,
          "vision_config": {"deepstack_visual_indexes": [], "depth": 1, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 32,
                            "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 48, "model_type": "qwen3_5", "num_heads": 2,
                            "num_position_embeddings": 16, "out_hidden_size": 64, "patch_size": 4, "spatial_merge_size": 2,
                            "temporal_patch_size": 2}}
SMALL_DELTA = {"model_type": "qwen3_5_text", **TINY, "num_key_value_heads": 2, "head_dim": 16, "linear_key_head_dim": 8,
               "linear_value_head_dim": 12, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
GENERATION = {"bos_token_id": 44, "do_sample": True, "eos_token_id": [46, 44], "pad_token_id": 44, "temperature": 0.6, "top_k": 20,
              "top_p": 0.95, "transformers_version": "4.57.0.dev0"}


def layers(n, each=4):
    return [LINEAR if (i + 1) % each else FULL for i in range(n)]


RECURRENT = {
    "qwen3_5_text defaults": ({"model_type": "qwen3_5_text"}, None),
    "qwen3_5 defaults": ({"model_type": "qwen3_5"}, None),
    # the sizes of 0.8B, whose folder has no generation_config.json. Its tokenizer ends turns with another token (46 here)
    "qwen3.5 0.8B as published": (
        {**IMAGES, "tie_word_embeddings": True,
         "text_config": {**QWEN3_5, "hidden_size": 1024, "intermediate_size": 3584, "layer_types": layers(24), "linear_num_value_heads": 16,
                         "num_attention_heads": 8, "num_hidden_layers": 24, "num_key_value_heads": 2, "tie_word_embeddings": True}}, None),
    # the sizes of 9B, with the generation_config.json of the largest models
    "qwen3.5 with two end tokens": (
        {**IMAGES, "tie_word_embeddings": False,
         "text_config": {**QWEN3_5, "hidden_size": 4096, "intermediate_size": 12288, "layer_types": layers(32), "linear_num_value_heads": 32,
                         "num_attention_heads": 16, "num_hidden_layers": 32, "num_key_value_heads": 4, "tie_word_embeddings": False}},
        GENERATION),
    # the sizes of 27B, with the fields that later files have
    "qwen3.6 27B as published": (
        {**IMAGES, "tie_word_embeddings": False, "language_model_only": False,
         "text_config": {**QWEN3_5, "bos_token_id": 44, "hidden_size": 5120, "intermediate_size": 17408, "layer_types": layers(64),
                         "linear_num_value_heads": 48, "num_attention_heads": 24, "num_hidden_layers": 64, "num_key_value_heads": 4,
                         "output_gate_type": "swish", "pad_token_id": None, "partial_rotary_factor": 0.25, "tie_word_embeddings": False}},
        {**GENERATION, "temperature": 1.0}),
    # as trainers save it: end tokens of the whole
    "qwen3.5 saved after training": (
        {**IMAGES, "dtype": "bfloat16", "eos_token_id": 46, "hidden_size": 4096, "pad_token_id": 44, "tie_word_embeddings": False,
         "text_config": {**QWEN3_5, "bos_token_id": None, "hidden_size": 4096, "intermediate_size": 12288, "layer_types": layers(32),
                         "linear_num_value_heads": 32, "num_attention_heads": 16, "num_hidden_layers": 32, "num_key_value_heads": 4,
                         "pad_token_id": None, "partial_rotary_factor": 0.25, "tie_word_embeddings": False}}, None),
    "qwen3.5 text saved alone": (
        {**QWEN3_5, "architectures": ["Qwen3_5ForCausalLM"], "bos_token_id": None, "eos_token_id": 46, "hidden_size": 2560,
         "intermediate_size": 9216, "layer_types": layers(32), "linear_num_value_heads": 32, "num_attention_heads": 16,
         "num_hidden_layers": 32, "num_key_value_heads": 4, "pad_token_id": None, "partial_rotary_factor": 0.25,
         "tie_word_embeddings": True}, None),
    "qwen3_5_text by its interval": ({**SMALL_DELTA, "num_hidden_layers": 7, "full_attention_interval": 3}, None),
    "qwen3_5_text without an interval": ({**SMALL_DELTA, "num_hidden_layers": 9, "eos_token_id": [7, 8]}, None),
    "qwen3_5_text by its list": (
        {**SMALL_DELTA, "num_hidden_layers": 4, "full_attention_interval": 2, "layer_types": [FULL, LINEAR, LINEAR, LINEAR]}, None),
    "qwen3_5_text that attends in every layer": ({**SMALL_DELTA, "full_attention_interval": 1}, None),
    "qwen3_5_text that attends in none": ({**SMALL_DELTA, "layer_types": [LINEAR, LINEAR]}, None),
    "qwen3_5_text with half of each head": (
        {**SMALL_DELTA, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}}, None),
    "qwen3_5_text with its part beside": ({**SMALL_DELTA, "rope_theta": 5000.0, "partial_rotary_factor": 0.5}, None),
    "qwen3_5_text with two parts": (
        {**SMALL_DELTA, "partial_rotary_factor": 0.5, "rope_parameters": {"rope_theta": 5000.0, "partial_rotary_factor": 1.0}}, None),
    "qwen3_5_text with a theta alone": ({**SMALL_DELTA, "rope_theta": 5000.0}, None),
    "qwen3_5_text yarn": ({**SMALL_DELTA, "max_position_embeddings": 4096, "rope_parameters": {**MROPE, **YARN}}, None),
    "qwen3_5_text with a wider convolution": ({**SMALL_DELTA, "linear_conv_kernel_dim": 6, "rms_norm_eps": 1e-5}, None),
    "qwen3_5_text with biases": ({**SMALL_DELTA, "attention_bias": True, "full_attention_interval": 1}, None),
}


def rope_of(config, kind):
    """Parameters of one kind of layers, and the factor of the cosines."""
    r = config.rope_parameters
    nested = kind in r
    own = r[kind] if nested else r
    size = 1.0
    if own["rope_type"] in ("yarn", "longrope"):
        size = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[own["rope_type"]](config, layer_type=kind if nested else None)[1]
    return own, size


def tokens_of(folder, c):
    g, own = c, {}
    if os.path.exists(folder + "/generation_config.json"):
        g = GenerationConfig.from_pretrained(folder)
        with open(folder + "/generation_config.json") as f:
            own = json.load(f)
    eos = (g if "eos_token_id" in own else c).eos_token_id
    bos = (g if "bos_token_id" in own else c).bos_token_id
    pad = (g if "pad_token_id" in own else c).pad_token_id
    eos = [] if eos is None else [eos] if isinstance(eos, int) else list(dict.fromkeys(eos))
    return {"eos": eos, "bos": -1 if bos is None else bos, "pad": -1 if pad is None else pad}


def of_families(folder):
    c = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        m = AutoModelForCausalLM.from_config(c)
    kinds = getattr(c, "layer_types", None) or [LOCAL if getattr(c, "sliding_window", None) else FULL] * c.num_hidden_layers
    a = m.model.layers[0].self_attn
    out = {"model_type": c.model_type, "local": [i for i, k in enumerate(kinds) if k == LOCAL],
           "no_rope": [i for i, l in enumerate(m.model.layers) if not getattr(l.self_attn, "use_rope", True)],
           "window": c.sliding_window if LOCAL in kinds else 0, "scaling": a.scaling, "D": a.head_dim,
           "cap": getattr(a, "attn_logit_softcapping", None) or 0.0, "final_cap": getattr(c, "final_logit_softcapping", None) or 0.0,
           "embed": getattr(c, "embedding_multiplier", 0.0), "residual": getattr(c, "residual_multiplier", 0.0),
           "logits": getattr(c, "logits_scaling", 0.0), "qkv_bias": hasattr(a, "q_proj") and a.q_proj.bias is not None, "o_bias": a.o_proj.bias is not None,
           "tied_head": c.tie_word_embeddings, "V": m.lm_head.out_features, "C": m.model.embed_tokens.embedding_dim,
           "L": len(m.model.layers), "H": c.num_attention_heads, "G": c.num_key_value_heads, "F": m.model.layers[0].mlp.down_proj.in_features,
           "max_pos": c.max_position_embeddings, "norm_eps": c.rms_norm_eps, "init_std": c.initializer_range, **tokens_of(folder, c)}
    for kind in (FULL, LOCAL):
        r, size = rope_of(c, kind)
        yarn, long = r["rope_type"] == "yarn", r["rope_type"] == "longrope"
        own = c.max_position_embeddings / r["original_max_position_embeddings"] if long else 1.0
        out[kind] = {"type": r["rope_type"], "theta": float(r["rope_theta"]), "factor": float(r.get("factor", own)), "size": size,
                     "slow": float(r.get("beta_slow", 1)) if yarn else 0.0, "fast": float(r.get("beta_fast", 32)) if yarn else 0.0,
                     "length": r["original_max_position_embeddings"] if yarn or long else 0,
                     "turned": int(a.head_dim * r.get("partial_rotary_factor", 1.0)),
                     "short": r["short_factor"] if long else [], "long": r["long_factor"] if long else []}
    return out


def expected(folder):
    c = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        m = AutoModelForCausalLM.from_config(c)
    a, mlp = m.model.layers[0].self_attn, m.model.layers[0].mlp
    r = c.rope_parameters
    llama3 = r["rope_type"] == "llama3"
    return {
        "L": len(m.model.layers), "H": a.q_proj.out_features // a.head_dim, "G": a.k_proj.out_features // a.head_dim,
        "D": a.head_dim, "C": m.model.embed_tokens.embedding_dim, "F": mlp.gate_proj.out_features, "V": m.lm_head.out_features,
        "max_pos": c.max_position_embeddings, "norm_eps": m.model.norm.variance_epsilon, "tied_head": c.tie_word_embeddings,
        "qkv_bias": a.q_proj.bias is not None and a.k_proj.bias is not None and a.v_proj.bias is not None,
        "o_bias": a.o_proj.bias is not None, "mlp_bias": mlp.gate_proj.bias is not None,
        "rope_theta": float(r["rope_theta"]), "rope_type": r["rope_type"],
        "rope_factor": float(r["factor"]) if r["rope_type"] != "default" else 1.0,
        "rope_low_freq": r["low_freq_factor"] if llama3 else 0.0, "rope_high_freq": r["high_freq_factor"] if llama3 else 0.0,
        "rope_original_max_pos": r["original_max_position_embeddings"] if llama3 else 0,
        "model_type": c.model_type, "init_std": c.initializer_range, **tokens_of(folder, c),
    }


def of_recurrent(folder):
    """The text half. Layers are read from the modules, as are all sizes."""
    whole = AutoConfig.from_pretrained(folder)
    c = whole.get_text_config()
    with torch.device("meta"):
        m = AutoModelForCausalLM.from_config(c)
    full = [i for i, l in enumerate(m.model.layers) if hasattr(l, "self_attn")]
    own, size = rope_of(c, "default")
    out = {"model_type": c.model_type, "full": full, "tied_head": c.tie_word_embeddings, "V": m.lm_head.out_features,
           "C": m.model.embed_tokens.embedding_dim, "L": len(m.model.layers), "F": m.model.layers[0].mlp.down_proj.in_features,
           "H": c.num_attention_heads, "G": c.num_key_value_heads, "D": c.head_dim, "Hk": c.linear_num_key_heads,
           "Hv": c.linear_num_value_heads, "Dk": c.linear_key_head_dim, "Dv": c.linear_value_head_dim, "conv": c.linear_conv_kernel_dim,
           "max_pos": c.max_position_embeddings, "norm_eps": c.rms_norm_eps, "init_std": c.initializer_range,
           "qkv_bias": c.attention_bias, "o_bias": c.attention_bias, "type": own["rope_type"], "theta": float(own["rope_theta"]),
           "factor": float(own.get("factor", 1.0)), "size": size, "turned": 2 * len(m.model.rotary_emb.original_inv_freq),
           **tokens_of(folder, c)}
    if whole is not c and getattr(whole, "eos_token_id", None) is not None:  # the whole model's tokens come before its text half's
        beside = {"bos_token_id": c.bos_token_id, "pad_token_id": c.pad_token_id, **whole.to_dict()}
        out.update(tokens_of(folder, SimpleNamespace(**beside)))
    for i in full[:1]:
        a = m.model.layers[i].self_attn
        assert a.scaling == a.head_dim ** -0.5 and a.q_proj.out_features == 2 * out["H"] * out["D"] == 2 * a.o_proj.in_features
    for d in [l.linear_attn for l in m.model.layers if hasattr(l, "linear_attn")][:1]:
        assert d.conv1d.weight.shape == (2 * out["Hk"] * out["Dk"] + out["Hv"] * out["Dv"], 1, out["conv"])
    return out


def write(path, cases, want):
    with open(path, "w") as out:
        for name, (config, generation) in cases.items():
            with tempfile.TemporaryDirectory() as folder:
                texts = {"config": json.dumps(config, indent=2), "generation": json.dumps(generation) if generation else None}
                with open(folder + "/config.json", "w") as f:
                    f.write(texts["config"])
                if generation:
                    with open(folder + "/generation_config.json", "w") as f:
                        f.write(texts["generation"])
                out.write(json.dumps({"name": name, **texts, "want": want(folder)}) + "\n")


os.makedirs(sys.argv[1], exist_ok=True)
write(sys.argv[1] + "/cases.jsonl", CASES, expected)
write(sys.argv[1] + "/families.jsonl", FAMILIES, of_families)
write(sys.argv[1] + "/recurrent.jsonl", RECURRENT, of_recurrent)
