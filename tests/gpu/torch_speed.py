# torch_speed.py - measures in PyTorch the same work as trireme's figures, for check.sh: training, generation, products, attention.
# SPDX-License-Identifier: BSD-3-Clause
#
#   torch_speed.py FIGURES SHAPES
# FIGURES holds lines label|unit|number. The labels say what to measure. SHAPES is a folder with the config.json of each model.
# Training uses transformers, sdpa attention, no recompute and fused AdamW, with weights, gradients and moments all in bf16. This
# is PyTorch's smallest state (8 bytes per weight) and its fastest. trireme holds f32 masters, moments and gradients (18 bytes).
# The first model also runs with f32 weights under autocast, labelled "f32 masters", the same computation as trireme. Generation
# uses model.generate with sampling, timed from the second new token on. Prints FIGURE|label|unit|number, or words for the number.
import os
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import transformers

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STEPS, NEW_TOKENS, RUNS = 6, 33, 5
transformers.logging.set_verbosity_error()


def wait():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def load(shapes, name, dtype):
    config = transformers.AutoConfig.from_pretrained(os.path.join(shapes, name + ".json"))
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(dtype)
    try:
        with DEVICE:
            return transformers.AutoModelForCausalLM.from_config(config)
    finally:
        torch.set_default_dtype(torch.float32)


def train(shapes, name, batch, length, at_once, masters):
    model = load(shapes, name, torch.float32 if masters else torch.bfloat16).train()
    model.config.use_cache = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1, betas=(0.9, 0.95),
                                  fused=DEVICE.type == "cuda")
    tokens = torch.randint(model.config.vocab_size, (batch, length), device=DEVICE)
    passes = tokens.split(max(1, at_once // length))
    seconds = []
    for _ in range(STEPS):
        wait()
        began = time.perf_counter()
        for part in passes:
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=masters):
                loss = model(input_ids=part, labels=part).loss / len(passes)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        seconds.append(time.perf_counter() - began)
    return batch * length / statistics.median(seconds[1:])


class Clock(transformers.LogitsProcessor):
    """Notes when each new token's logits are there."""

    def __init__(self):
        self.at = []

    def __call__(self, input_ids, scores):
        wait()
        self.at.append(time.perf_counter())
        return scores


models = {}


@torch.no_grad()
def decode(shapes, name, prompt, sequences):
    if name not in models:
        models.clear()
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()
        models[name] = load(shapes, name, torch.bfloat16).eval()
    tokens = torch.randint(models[name].config.vocab_size, (sequences, prompt), device=DEVICE)
    clock = Clock()
    models[name].generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=True, max_new_tokens=NEW_TOKENS,
                          min_new_tokens=NEW_TOKENS, pad_token_id=0,
                          logits_processor=transformers.LogitsProcessorList([clock]))
    return sequences * (len(clock.at) - 2) / (clock.at[-1] - clock.at[1])


def timed(run, amount):
    """amount per second, the median of RUNS after two, each of about a millisecond."""
    def once(calls):
        if DEVICE.type == "cuda":
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            for _ in range(calls):
                run()
            b.record()
            torch.cuda.synchronize()
            return a.elapsed_time(b) * 1e-3 / calls
        began = time.perf_counter()
        for _ in range(calls):
            run()
        return (time.perf_counter() - began) / calls
    once(1)
    calls = min(1000, int(1e-3 / max(once(1), 1e-6)) + 1)
    return amount / statistics.median(once(calls) for _ in range(RUNS))


def noise(*sizes):
    return (torch.rand(*sizes, device=DEVICE) - 0.5).bfloat16()


def product(n_out, n_in, rows, gradient):
    w, x, y = noise(n_out, n_in), noise(rows, n_in), noise(rows, n_out)
    run = {None: lambda: F.linear(x, w), "x": lambda: y @ w, "W": lambda: y.T @ x}[gradient]
    return timed(run, 2.0 * rows * n_out * n_in / 1e12)


def attention(backward, heads, groups, size, length, tokens):
    s = max(1, tokens // length)
    q = noise(s, heads, length, size).requires_grad_(backward)
    k, v = (noise(s, groups, length, size).requires_grad_(backward) for _ in range(2))
    flop = 2.0 * length * length * heads * size * s / 1e12
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    if not backward:
        return timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), flop)
    grad = noise(*out.shape)
    return timed(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True), 2.5 * flop)


def measure(label, shapes, longest):
    """The figure of a label and what else to say about it, or None where PyTorch has nothing like it."""
    m = re.fullmatch(r"training (.+), (\d+) x (\d+) tokens in passes of (\d+)(, f32 masters)?", label)
    if m:
        return train(shapes, m[1], int(m[2]), int(m[3]), int(m[4]), m[5] is not None)
    m = re.fullmatch(r"(.+) after (\d+) tokens, decode, (\d+) sequences", label)
    if m:
        return decode(shapes, m[1], int(m[2]), int(m[3]))
    m = re.fullmatch(r"product \[(\d+),(\d+)\], (\d+) rows(?:, gradient of (x|W))?", label)
    if m:
        return product(int(m[1]), int(m[2]), int(m[3]), m[4])
    m = re.fullmatch(r"attention (forward|backward), (\d+)/(\d+) heads of (\d+), (\d+) tokens", label)
    if m:
        return attention(m[1] == "backward", int(m[2]), int(m[3]), int(m[4]), int(m[5]), longest)
    return None


def main():
    with open(sys.argv[1]) as f:
        figures = [line.rstrip("\n").split("|") for line in f]
    lengths = [int(x[1]) for x in (re.search(r"attention forward.* (\d+) tokens", fields[0]) for fields in figures) if x]
    rank = {"training": 0, "product": 2, "attention": 2}  # the rest, generation, between
    figures.sort(key=lambda fields: rank.get(fields[0].split()[0], 1))
    trained = [i for i, fields in enumerate(figures) if fields[0].startswith("training 1.5B")][:1]
    for i in trained:
        figures.insert(i + 1, [figures[i][0] + ", f32 masters", figures[i][1]])
    print(f"torch {torch.__version__} on {DEVICE}, transformers {transformers.__version__}")
    for label, unit, *_ in figures:
        try:
            number = measure(label, sys.argv[2], max(lengths, default=0))
        except torch.cuda.OutOfMemoryError:
            number = "out of memory"
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()
        if number is not None:
            print(f"FIGURE|{label}|{unit}|{number if isinstance(number, str) else format(number, '.5g')}", flush=True)


main()
