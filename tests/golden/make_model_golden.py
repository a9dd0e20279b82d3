# make_model_golden.py - writes small random models and the numbers of transformers for them: logits, log-probabilities,
# gradients, ten AdamW steps, greedy answers. For test_model.c and test_sampler.c.
# Written with torch 2.15.0, transformers 5.23.0 (from granite on 5.24.0), safetensors 0.8.
# usage: python tests/golden/make_model_golden.py [NAME ...]     (all models, or only these)
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import (Gemma3Config, Gemma3ForConditionalGeneration, Mistral3Config, Mistral3ForConditionalGeneration,
                          PixtralVisionConfig, SiglipVisionConfig, GemmaConfig, GemmaForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

OUT = "tests/data/model"
LENGTHS = [1, 2, 7, 37]  # packed sequences, and the last crosses a page of the cache
STEPS, STEP_LENGTHS = 10, [11, 30]
PROMPTS = [1, 2, 6, 31, 32, 33, 34, 70]  # lengths, with pages of 32 tokens
NEW = 40
INV_TEMPERATURE = 1.25

COMMON = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=128, vocab_size=61, bos_token_id=None, pad_token_id=None, eos_token_id=None)
# Their windows and caps affect every longer sequence.
SMALL = dict(COMMON, hidden_size=16, intermediate_size=20, vocab_size=41, num_key_value_heads=2)
FULL, LOCAL = "full_attention", "sliding_attention"
YARN = dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=32)
MODELS = {
    # untied, two query heads per key head
    "llama": (LlamaConfig, LlamaForCausalLM,
              dict(COMMON, num_key_value_heads=2, tie_word_embeddings=False, rope_theta=10000.0, rms_norm_eps=1e-5)),
    # tied, every bias, its own head width, Llama-3 scaling with frequencies in all three regions
    "llama_bias": (LlamaConfig, LlamaForCausalLM,
                   dict(COMMON, num_key_value_heads=1, head_dim=10, tie_word_embeddings=True, attention_bias=True,
                        mlp_bias=True, rms_norm_eps=1e-6, vocab_size=67,
                        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
                                             high_freq_factor=4.0, original_max_position_embeddings=48))),
    # linear scaling, as many key heads as query heads
    "llama_linear": (LlamaConfig, LlamaForCausalLM,
                     dict(COMMON, num_key_value_heads=4, tie_word_embeddings=False, rms_norm_eps=1e-5,
                          rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM,
              dict(COMMON, num_key_value_heads=2, tie_word_embeddings=False, rope_theta=1000000.0, rms_norm_eps=1e-6)),
    "qwen2_tied": (Qwen2Config, Qwen2ForCausalLM,
                   dict(COMMON, num_key_value_heads=1, tie_word_embeddings=True, rope_theta=10000.0,
                        num_hidden_layers=3, intermediate_size=24, rms_norm_eps=1e-6)),
    "llama_yarn": (LlamaConfig, LlamaForCausalLM, dict(SMALL, tie_word_embeddings=True, head_dim=12, rope_parameters=YARN)),
    # local layers after the first, YaRN with its own factors and range
    "qwen2_window": (Qwen2Config, Qwen2ForCausalLM,
                     dict(SMALL, tie_word_embeddings=True, use_sliding_window=True, sliding_window=9, max_window_layers=1,
                          rope_parameters=dict(YARN, beta_fast=4.0, beta_slow=0.5, mscale=1.2, mscale_all_dim=0.7, truncate=False))),
    "mistral": (MistralConfig, MistralForCausalLM, dict(SMALL, sliding_window=5, tie_word_embeddings=False)),
    # a window across the border of a page, its own head width
    "mistral_wide": (MistralConfig, MistralForCausalLM,
                     dict(SMALL, num_key_value_heads=1, head_dim=6, sliding_window=33, tie_word_embeddings=True,
                          rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, dict(SMALL, head_dim=10, tie_word_embeddings=True)),
    "qwen3_window": (Qwen3Config, Qwen3ForCausalLM,
                     dict(SMALL, head_dim=6, attention_bias=True, tie_word_embeddings=False, use_sliding_window=True,
                          sliding_window=7, layer_types=[LOCAL, FULL])),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM,
               dict(SMALL, head_dim=6, sliding_window=6, query_pre_attn_scalar=5, attn_logit_softcapping=2.0,
                    final_logit_softcapping=3.0)),
    # no caps, biases, an odd number of layers
    "gemma2_bias": (Gemma2Config, Gemma2ForCausalLM,
                    dict(SMALL, num_key_value_heads=1, num_hidden_layers=3, head_dim=4, sliding_window=34, query_pre_attn_scalar=4,
                         attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True,
                         tie_word_embeddings=False)),
    # both kinds of layers, with scaled positions in the global ones
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM,
               dict(SMALL, num_hidden_layers=3, head_dim=6, sliding_window=6, query_pre_attn_scalar=5, layer_types=[LOCAL, LOCAL, FULL],
                    rope_parameters={FULL: dict(rope_type="linear", rope_theta=1000.0, factor=8.0),
                                     LOCAL: dict(rope_type="default", rope_theta=20.0)})),
    "gemma3_cap": (Gemma3TextConfig, Gemma3ForCausalLM,
                   dict(SMALL, num_key_value_heads=4, head_dim=4, sliding_window=3, query_pre_attn_scalar=4, layer_types=[FULL, LOCAL],
                        final_logit_softcapping=2.5, tie_word_embeddings=False)),
    "phi3": (Phi3Config, Phi3ForCausalLM, dict(SMALL, tie_word_embeddings=False)),
    "phi3_window": (Phi3Config, Phi3ForCausalLM,
                    dict(SMALL, num_key_value_heads=1, sliding_window=11, num_hidden_layers=3, rope_theta=1000.0,
                         tie_word_embeddings=True)),
    "gemma": (GemmaConfig, GemmaForCausalLM, dict(SMALL, head_dim=6, num_key_value_heads=1)),
    "gemma_bias": (GemmaConfig, GemmaForCausalLM,
                   dict(SMALL, head_dim=4, num_hidden_layers=3, attention_bias=True, tie_word_embeddings=False, rope_theta=100.0)),
    # all four multipliers
    "granite": (GraniteConfig, GraniteForCausalLM,
                dict(SMALL, head_dim=6, tie_word_embeddings=True, rms_norm_eps=1e-5, embedding_multiplier=3.0,
                     attention_multiplier=0.6, residual_multiplier=0.35, logits_scaling=2.5)),
    # biases are scaled too
    "granite_bias": (GraniteConfig, GraniteForCausalLM,
                     dict(SMALL, num_key_value_heads=1, num_hidden_layers=3, attention_bias=True, mlp_bias=True,
                          tie_word_embeddings=False, embedding_multiplier=0.5, residual_multiplier=1.7, logits_scaling=0.4,
                          rope_parameters=dict(rope_type="default", rope_theta=500.0))),
    # two query heads per key head, so norms of two widths
    "olmo2": (Olmo2Config, Olmo2ForCausalLM, dict(SMALL, tie_word_embeddings=False, rope_theta=1000.0)),
    "olmo2_bias": (Olmo2Config, Olmo2ForCausalLM,
                   dict(SMALL, num_key_value_heads=4, head_dim=6, num_hidden_layers=3, attention_bias=True, tie_word_embeddings=True,
                        rms_norm_eps=1e-3)),
    # the second of three layers without rotary positions
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM,
                dict(SMALL, num_hidden_layers=3, no_rope_layers=[1, 0, 1], tie_word_embeddings=False, use_sliding_window=False,
                     rope_parameters=dict(rope_type="default", rope_theta=200.0))),
    # the same with a window in that layer, and no biases of k, since their gradient would be 0 there
    "smollm3_window": (SmolLM3Config, SmolLM3ForCausalLM,
                       dict(SMALL, num_key_value_heads=1, head_dim=6, no_rope_layer_interval=2, mlp_bias=True,
                            tie_word_embeddings=False, use_sliding_window=True, sliding_window=6,
                            rope_parameters=dict(rope_type="linear", rope_theta=50.0, factor=4.0))),
    # longrope where sequences may exceed its 16 tokens, so the long factors apply to all sequences (STORED)
    "phi3_long": (Phi3Config, Phi3ForCausalLM,
                  dict(SMALL, hidden_size=24, tie_word_embeddings=False, original_max_position_embeddings=16,
                       rope_parameters=dict(rope_type="longrope", rope_theta=300.0, short_factor=[1.5, 2.0, 6.0], long_factor=[1.5, 2.0, 6.0]))),
    # sequences never exceed it, so the short factors apply, and a part of each head is rotated
    "phi3_partial": (Phi3Config, Phi3ForCausalLM,
                     dict(SMALL, hidden_size=32, num_key_value_heads=1, sliding_window=11, tie_word_embeddings=True,
                          original_max_position_embeddings=128, partial_rotary_factor=0.75,
                          rope_parameters=dict(rope_type="longrope", rope_theta=100.0, factor=4.0, short_factor=[1.0, 1.25, 3.0],
                                               long_factor=[2.0, 4.0, 8.0]))),
    # three local layers, and a global one with the only scaled positions
    "olmo3": (Olmo3Config, Olmo3ForCausalLM,
              dict(SMALL, num_hidden_layers=4, sliding_window=6, tie_word_embeddings=False,
                   rope_parameters={FULL: YARN, LOCAL: dict(rope_type="default", rope_theta=500.0)})),
    "olmo3_bias": (Olmo3Config, Olmo3ForCausalLM,
                   dict(SMALL, num_key_value_heads=4, head_dim=6, sliding_window=34, layer_types=[FULL, LOCAL], attention_bias=True,
                        tie_word_embeddings=True)),
    # text halves of models for text and images, with published names and with those of transformers 5
    "gemma3_half": (Gemma3Config, Gemma3ForConditionalGeneration,
                    dict(text_config=dict(SMALL, model_type="gemma3_text", head_dim=6, sliding_window=6, query_pre_attn_scalar=5,
                                          layer_types=[LOCAL, FULL],
                                          rope_parameters={FULL: dict(rope_type="linear", rope_theta=1000.0, factor=8.0),
                                                           LOCAL: dict(rope_type="default", rope_theta=20.0)}),
                         vision_config=SiglipVisionConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
                                                          image_size=28, patch_size=14).to_dict(),
                         mm_tokens_per_image=4, boi_token_index=40, eoi_token_index=40, image_token_index=41)),
    "mistral3_half": (Mistral3Config, Mistral3ForConditionalGeneration,
                      dict(text_config=dict(SMALL, model_type="mistral", head_dim=6, sliding_window=None, tie_word_embeddings=False),
                           vision_config=PixtralVisionConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
                                                             image_size=28, patch_size=14, head_dim=4).to_dict(),
                           tie_word_embeddings=False, image_token_index=40)),
}
PUBLISHED = ["gemma3_half"]  # tensor names of transformers 4
# config.json has other factors. transformers chooses them per batch by its longest sequence, trireme once per run.
STORED = {"phi3_long": {"rope_parameters": {"short_factor": [1.0, 1.25, 3.0]}}}


def fill(model, gen):
    """Random bf16 values, large enough for every nonlinearity to matter."""
    for name, p in model.named_parameters():
        x = torch.randn(p.shape, generator=gen)
        if "norm" in name:  # Gemma adds it to 1
            x = (0 if "gemma" in model.config.model_type else 1) + 0.3 * x
        elif p.ndim == 2:
            x = x * (0.5 if "embed" in name else 1.3 / p.shape[1] ** 0.5)
        else:
            x = 0.3 * x
        p.data.copy_(x.to(torch.bfloat16).float())


def text_of(config):
    return config.get_text_config()


def text_name(name):
    """The text model's name for a tensor of a model for text and images. Other models keep their names."""
    return name.replace("model.language_model.", "model.")


def published_name(name):
    if name.startswith("model.language_model."):
        return "language_model.model." + name.removeprefix("model.language_model.")
    return "language_model." + name if name.startswith("lm_head") else name.removeprefix("model.")


def tokens_of(lengths, vocab, gen):
    return [torch.randint(0, vocab, (n,), generator=gen) for n in lengths]


def forward(model, sequences):
    """Logits of every row, sequence by sequence, without padding."""
    more = lambda s: dict(token_type_ids=torch.zeros_like(s[None])) if model.config.model_type == "gemma3" else {}
    return torch.cat([model(input_ids=s[None], **more(s)).logits[0] for s in sequences])


def targets_of(sequences):
    """Rows that predict a token, and the tokens."""
    row, target, at = [], [], 0
    for s in sequences:
        row += range(at, at + len(s) - 1)
        target += s[1:].tolist()
        at += len(s)
    return torch.tensor(row), torch.tensor(target)


def logp_and_entropy(logits, target, inv_temperature):
    lp = torch.log_softmax(logits * inv_temperature, -1)
    return lp[torch.arange(len(target)), target], -(lp.exp() * lp).sum(-1)


def gradients(model, out, gen):
    sequences = tokens_of(LENGTHS, text_of(model.config).vocab_size, gen)
    row, target = targets_of(sequences)
    logits = forward(model, sequences)
    logp, ent = logp_and_entropy(logits[row], target, INV_TEMPERATURE)
    dlogp, dent = torch.randn(len(row), generator=gen), 0.3 * torch.randn(len(row), generator=gen)
    model.zero_grad()
    (dlogp @ logp + dent @ ent).backward()
    out.update({"tokens": torch.cat(sequences), "lengths": torch.tensor(LENGTHS), "logits": logits, "logp": logp,
                "ent": ent, "dlogp": dlogp, "dent": dent})
    for name, p in model.named_parameters():
        if p.grad is not None:
            out["grad." + text_name(name)] = p.grad


def answer(model, prompt, **options):
    """One greedy answer, and the smallest gap between a chosen logit and the next."""
    r = model.generate(prompt[None], attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                       max_new_tokens=NEW, output_scores=True, return_dict_in_generate=True, pad_token_id=0, **options)
    top = torch.stack(r.scores)[:, 0].topk(2).values
    return r.sequences[0, len(prompt):], (top[:, 0] - top[:, 1]).min().item()


def greedy(model, out, gen):
    """Answers, and the same answers ended by the token found in most of them. Every choice has a gap beyond rounding."""
    prompts, answers = [], []
    for n in PROMPTS:
        lead = 0
        while lead < 5e-4:
            p = tokens_of([n], text_of(model.config).vocab_size, gen)[0]
            a, lead = answer(model, p)
        prompts.append(p)
        answers.append(a)
    count = [sum(t in a[3:-3].tolist() for a in answers) for t in range(text_of(model.config).vocab_size)]
    eos = count.index(max(count))
    ended = [answer(model, p, eos_token_id=eos)[0] for p in prompts]
    assert any(len(a) < NEW for a in ended)
    out.update({"greedy.prompts": torch.cat(prompts), "greedy.lengths": torch.tensor(PROMPTS),
                "greedy.answers": torch.stack(answers), "greedy.eos": torch.tensor([eos]),
                "greedy.ended": torch.cat(ended), "greedy.ended_lengths": torch.tensor([len(a) for a in ended])})


def adamw(model, out, gen):
    params = list(model.parameters())
    opt = torch.optim.AdamW([{"params": [p for p in params if p.ndim == 2], "weight_decay": 0.1},
                             {"params": [p for p in params if p.ndim < 2], "weight_decay": 0.0}],
                            lr=3e-3, betas=(0.9, 0.999), eps=1e-8)
    tokens, losses, norms = [], [], []
    for _ in range(STEPS):
        sequences = tokens_of(STEP_LENGTHS, text_of(model.config).vocab_size, gen)
        row, target = targets_of(sequences)
        logp, _ = logp_and_entropy(forward(model, sequences)[row], target, 1.0)
        loss = -logp.mean()
        opt.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(params, 1.0))
        opt.step()
        tokens.append(torch.cat(sequences))
        losses.append(loss.detach())
    out.update({"steps.tokens": torch.stack(tokens), "steps.lengths": torch.tensor(STEP_LENGTHS),
                "steps.losses": torch.stack(losses), "steps.norms": torch.stack(norms)})


def main():
    torch.set_num_threads(1)
    for number, (name, (config, kind, options)) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        gen = torch.Generator().manual_seed(7 + number)
        model = kind._from_config(config(**options), attn_implementation="eager").float().train()
        fill(model, gen)
        folder, out = f"{OUT}/{name}", {}
        os.makedirs(folder, exist_ok=True)
        named = published_name if name in PUBLISHED else lambda k: k
        weights = {named(k): p.detach().to(torch.bfloat16).contiguous() for k, p in model.named_parameters()}
        save_file(weights, f"{folder}/model.safetensors", metadata={"format": "pt"})
        kept = model.config.to_dict()
        kept.pop("transformers_version", None)
        for key, values in STORED.get(name, {}).items():
            kept[key].update(values)
        with open(f"{folder}/config.json", "w") as f:
            json.dump(kept, f, indent=1, sort_keys=True)
            f.write("\n")
        gradients(model, out, gen)
        with torch.no_grad():
            greedy(model, out, gen)
        adamw(model, out, gen)
        save_file({k: v.detach().float().contiguous() for k, v in out.items()}, f"{folder}/golden.safetensors")
        for f in ("model", "golden"):
            os.chmod(f"{folder}/{f}.safetensors", 0o644)


main()
