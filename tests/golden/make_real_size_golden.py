# make_real_size_golden.py - writes numbers of transformers in float64 for a model with the widths of SmolLM2-135M and two layers.
# They are the loss, the log-probabilities, and norms and samples of the gradient. Each has the error of transformers in f32 and
# bf16, with its default attention. For test_real_size.c, which makes the same weights, so that no large file is kept. Every
# parameter has samples. Half of the embeddings' samples are in rows of tokens that occur.
# Written with torch 2.15.0, transformers 5.24.0, safetensors 0.8. Takes half a minute.
# usage: python tests/golden/make_real_size_golden.py
# SPDX-License-Identifier: BSD-3-Clause
import json
import os

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = "tests/data/real_size"
LENGTHS = [83, 44]  # tokens in each sequence
SAMPLES = 1024      # at most, for one parameter
CONFIG = dict(hidden_size=576, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=9, num_key_value_heads=3,
              vocab_size=49152, max_position_embeddings=128, rope_theta=100000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
              bos_token_id=None, pad_token_id=None, eos_token_id=None)


def mixed(name, i):
    """64 random bits for each element i of a named tensor: FNV-1a of the name, then tri_rng_mix of src/base/rng.h."""
    seed = 0xcbf29ce484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001b3 % 2**64
    z = np.asarray(i, dtype=np.uint64) + np.uint64(seed) + np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def top(name, n, bits):
    return (mixed(name, np.arange(n)) >> np.uint64(64 - bits)).astype(np.float32)


def fill(model):
    """Values of at most 8 bits, so exact in bf16. Norms are near 1 and matrices near 0. Embeddings have much in common, as published
    ones do, so sums over the vocabulary nearly cancel."""
    for name, p in model.named_parameters():
        n = p.numel()
        if "norm" in name:
            x = 1 + (top(name, n, 6) - 32) / 128
        elif "embed" in name:
            x = ((2 * top(name, n, 4) - 15).reshape(p.shape) + 16 * top("columns of " + name, p.shape[1], 3) - 56) / 64
        else:
            x = (2 * top(name, n, 8) - 255) / 2048
        p.data.copy_(torch.from_numpy(x.reshape(p.shape)))


def samples_of(name, p, tokens):
    i = np.arange(min(SAMPLES, p.numel()))
    if p.numel() <= SAMPLES:
        return i
    z = mixed("samples of " + name, i)
    row, col = z // np.uint64(2**32) % np.uint64(p.shape[0]), z % np.uint64(2**32) % np.uint64(p.shape[1])
    if "embed" in name:
        row = np.where(i % 2 == 1, tokens[(row % np.uint64(len(tokens))).astype(np.int64)].astype(np.uint64), row)
    return (row * np.uint64(p.shape[1]) + col).astype(np.int64)


def run(dtype, tokens, attention):
    model = LlamaForCausalLM._from_config(LlamaConfig(**CONFIG), attn_implementation=attention).float()
    fill(model)
    model = model.to(dtype).train()
    logp = []
    for s in torch.split(torch.from_numpy(tokens.astype(np.int64)), LENGTHS):
        lp = torch.log_softmax(model(input_ids=s[None]).logits[0, :-1].to(torch.promote_types(dtype, torch.float32)), -1)
        logp.append(lp[torch.arange(len(s) - 1), s[1:]])
    logp = torch.cat(logp)
    (-logp.mean()).backward()
    out = {"logp": logp.detach().double().numpy(), "loss": np.array([-logp.detach().double().mean().item()])}
    for name, p in model.named_parameters():
        g = p.grad.double().numpy().reshape(-1)
        out["norm." + name] = np.array([np.linalg.norm(g)])
        out["grad." + name] = g[samples_of(name, p, tokens)]
    return model, out


def main():
    torch.set_num_threads(1)
    tokens = (mixed("tokens", np.arange(sum(LENGTHS))) % np.uint64(CONFIG["vocab_size"])).astype(np.int32)
    model, want = run(torch.float64, tokens, "eager")
    out = {k: torch.from_numpy(v).float() for k, v in want.items()}
    out.update({"tokens": torch.from_numpy(tokens).float(), "lengths": torch.tensor(LENGTHS).float()})
    for dtype, word in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        got = run(dtype, tokens, "sdpa")[1]
        error = {k: np.linalg.norm(got[k] - want[k]) / np.linalg.norm(want[k]) for k in want}
        out.update({f"{word}.{k}": torch.tensor([e], dtype=torch.float32) for k, e in error.items()})
        grads = [e for k, e in error.items() if k.startswith("grad.")]
        print(f"{word}: loss {error['loss']:.1e} logp {error['logp']:.1e} gradient: median {np.median(grads):.1e}, worst {max(grads):.1e}")
    os.makedirs(OUT, exist_ok=True)
    kept = model.config.to_dict()
    kept.pop("transformers_version", None)
    with open(f"{OUT}/config.json", "w") as f:
        json.dump(kept, f, indent=1, sort_keys=True)
        f.write("\n")
    save_file({k: v.contiguous() for k, v in out.items()}, f"{OUT}/golden.safetensors")
    os.chmod(f"{OUT}/golden.safetensors", 0o644)


main()
