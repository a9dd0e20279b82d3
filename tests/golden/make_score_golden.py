# make_score_golden.py - writes small random models with a scalar head as saved by transformers, their scores, and the
# config.json of their language models. For test_scored.c.
# Written with torch 2.15.0, transformers 5.23.0 (from olmo2 on 5.24.0), safetensors 0.8.
# usage: python tests/golden/make_score_golden.py [NAME ...]     (all models, or only these)
# SPDX-License-Identifier: BSD-3-Clause
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import (GemmaConfig, GemmaForCausalLM, GemmaForSequenceClassification, Gemma2Config, Gemma2ForCausalLM, Gemma2ForSequenceClassification, Gemma3ForCausalLM,
                          Gemma3TextConfig, Gemma3TextForSequenceClassification, LlamaConfig, LlamaForCausalLM,
                          LlamaForSequenceClassification, MistralConfig, MistralForCausalLM, MistralForSequenceClassification,
                          Olmo2Config, Olmo2ForCausalLM, Olmo2ForSequenceClassification, Olmo3Config, Olmo3ForCausalLM,
                          Olmo3ForSequenceClassification, Phi3Config, Phi3ForCausalLM, Phi3ForSequenceClassification, Qwen2Config, Qwen2ForCausalLM,
                          Qwen2ForSequenceClassification, Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3ForSequenceClassification,
                          SmolLM3Config, SmolLM3ForCausalLM, SmolLM3ForSequenceClassification)
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextForSequenceClassification

OUT = "tests/data/model"
LENGTHS = [1, 2, 7, 37]
PAD, END = 0, 1

COMMON = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=128, vocab_size=61, bos_token_id=None, pad_token_id=PAD, eos_token_id=END)
SMALL = dict(COMMON, hidden_size=12, intermediate_size=10, num_attention_heads=2, num_key_value_heads=1, vocab_size=29)
MODELS = {
    "llama_score": (LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification,
                    dict(COMMON, tie_word_embeddings=False, rms_norm_eps=1e-5)),
    # from a tied language model, with nothing left to tie
    "qwen2_score": (Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification,
                    dict(COMMON, tie_word_embeddings=True, rms_norm_eps=1e-6, rope_theta=1000000.0)),
    "mistral_score": (MistralConfig, MistralForCausalLM, MistralForSequenceClassification, dict(SMALL, sliding_window=5)),
    "qwen3_score": (Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification, dict(SMALL, head_dim=8)),
    # caps of attention scores, none of the head's score
    "gemma2_score": (Gemma2Config, Gemma2ForCausalLM, Gemma2ForSequenceClassification,
                     dict(SMALL, head_dim=8, sliding_window=5, query_pre_attn_scalar=6, attn_logit_softcapping=2.0,
                          final_logit_softcapping=0.01)),
    "gemma3_score": (Gemma3TextConfig, Gemma3ForCausalLM, Gemma3TextForSequenceClassification,
                     dict(SMALL, head_dim=8, sliding_window=5, query_pre_attn_scalar=6)),
    "phi3_score": (Phi3Config, Phi3ForCausalLM, Phi3ForSequenceClassification, dict(SMALL, sliding_window=None)),
    "gemma_score": (GemmaConfig, GemmaForCausalLM, GemmaForSequenceClassification, dict(SMALL, head_dim=8)),
    "olmo2_score": (Olmo2Config, Olmo2ForCausalLM, Olmo2ForSequenceClassification, dict(SMALL)),
    "smollm3_score": (SmolLM3Config, SmolLM3ForCausalLM, SmolLM3ForSequenceClassification, dict(SMALL, no_rope_layer_interval=2)),
    "olmo3_score": (Olmo3Config, Olmo3ForCausalLM, Olmo3ForSequenceClassification, dict(SMALL, sliding_window=5, layer_types=["sliding_attention", "full_attention"])),
    "qwen3_5_score": (Qwen3_5TextConfig, Qwen3_5ForCausalLM, Qwen3_5TextForSequenceClassification,
                      dict(SMALL, head_dim=8, num_hidden_layers=3, tie_word_embeddings=False, linear_num_key_heads=2, linear_num_value_heads=4,
                           linear_key_head_dim=8, linear_value_head_dim=6, initializer_range=0.02,
                           layer_types=["linear_attention", "full_attention", "linear_attention"])),
}


def fill(model, gen):
    """Random bf16 values, large enough for every nonlinearity to matter."""
    for name, p in model.named_parameters():
        x = torch.randn(p.shape, generator=gen)
        if name.endswith("A_log"):
            x = 0.3 * x - 2
        elif "norm" in name:  # Gemma and Qwen3.5 add it to 1, Qwen3.5 not in recurrent layers
            plus = "gemma" in model.config.model_type or "qwen3_5" in model.config.model_type and "linear_attn" not in name
            x = (0 if plus else 1) + 0.3 * x
        elif p.ndim == 2:
            x = x * (0.5 if "embed" in name else 1.3 / p.shape[1] ** 0.5)
        else:
            x = 0.3 * x
        p.data.copy_(x.to(torch.bfloat16).float())


def save(model, folder):
    model.save_pretrained(folder)
    os.chmod(f"{folder}/model.safetensors", 0o644)


def main():
    torch.set_num_threads(1)
    for number, (name, (config, language, kind, options)) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        gen = torch.Generator().manual_seed(70 + number)
        folder = f"{OUT}/{name}"
        plain = config(**options)
        plain.architectures = [language.__name__]
        plain.dtype = "bfloat16"
        plain.save_pretrained(folder)
        os.replace(f"{folder}/config.json", f"{folder}/language.json")
        model = kind._from_config(config(**options, num_labels=1), attn_implementation="eager").float().eval()
        fill(model, gen)
        sequences = [torch.randint(2, model.config.vocab_size, (n,), generator=gen) for n in LENGTHS]
        for s in sequences[1:]:
            s[-1] = END
        with torch.no_grad():
            scores = torch.cat([model.double()(input_ids=s[None]).logits[0] for s in sequences])
        save(model.to(torch.bfloat16), folder)
        save_file({"tokens": torch.cat(sequences).float(), "lengths": torch.tensor(LENGTHS).float(),
                   "scores": scores.float()}, f"{folder}/golden.safetensors")
        os.chmod(f"{folder}/golden.safetensors", 0o644)


main()
