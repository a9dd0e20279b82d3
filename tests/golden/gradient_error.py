# gradient_error.py - prints the error of one SFT step's gradient. For each parameter it is |g - g64| / |g64| in Euclidean norms.
# g64 is from transformers in float64. g is from this program, and from transformers in f32 or bf16. The gradient is Adam's first
# moment after one step from zero. Tried with torch 2.15, transformers 5.23, h5py.
# usage: python tests/golden/gradient_error.py PROGRAM MODEL [LINES.jsonl] [--bf16] [--all] [--sdpa] [--env NAME=VALUE ...]
#   LINES   the first line's question and answer are the prompt and the completion. Without it the line is 120 random tokens,
#           70 of them a prompt.
#   --sdpa  also runs PyTorch's other attention, the default of transformers.
#   --all   prints a row for each parameter, besides the median, the worst and the kinds.
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import json
import os
import re
import subprocess
import tempfile

import h5py
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BETA1 = 0.5


def line_of(model, lines):
    """Tokens, and the number of those in the prompt."""
    if not lines:
        with open(f"{model}/config.json") as f:
            vocab = json.load(f)["vocab_size"]
        return torch.randint(0, vocab, (120,), generator=torch.Generator().manual_seed(3)).tolist(), 70
    tokenizer = AutoTokenizer.from_pretrained(model)
    with open(lines) as f:
        line = json.loads(f.readline())
    prompt, answer = (tokenizer(line[k], add_special_tokens=False)["input_ids"] for k in ("question", "answer"))
    return prompt + answer + [tokenizer.eos_token_id], len(prompt)


def by_program(program, model, tokens, n_prompt, dtype, env):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/line.jsonl", "w") as f:
            f.write(json.dumps(dict(tokens=tokens, prompt_tokens=n_prompt)) + "\n")
        with open(f"{folder}/deck.yaml", "w") as f:
            f.write("algo: {name: sft}\nrun: {resume: never}\n")
        subprocess.run([program, "train", f"{folder}/deck.yaml", f"run.output={folder}/out", f"model.path={model}", f"model.dtype={dtype}",
                        f"data.train={folder}/line.jsonl", "train.steps=1", "train.train_batch_size=1",
                        f"train.max_tokens_per_gpu={len(tokens)}", "train.learning_rate=1e-12", "train.max_grad_norm=0",
                        "train.weight_decay=0", f"train.adam_beta1={BETA1}", "checkpoint.save_final=true"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=os.environ | dict(e.split("=", 1) for e in env))
        with h5py.File(f"{folder}/out/checkpoints/LATEST/state.h5") as f:
            group = f["optimizer/exp_avg"]
            grad = {k: np.asarray(group[k], dtype=np.float64) / (1 - BETA1) for k in group}
        with open(f"{folder}/out/metrics.jsonl") as f:
            return json.loads(f.readline())["loss"], grad


def by_torch(path, tokens, n_prompt, dtype, attention):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=attention).to(dtype).train()
    logits = model(input_ids=torch.tensor([tokens])).logits[0]
    lp = torch.log_softmax(logits.to(torch.promote_types(dtype, torch.float32))[n_prompt - 1:-1], -1)
    loss = -lp[torch.arange(len(tokens) - n_prompt), torch.tensor(tokens[n_prompt:])].mean()
    loss.backward()
    return loss.item(), {k: p.grad.double().numpy() for k, p in model.named_parameters()}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("program")
    args.add_argument("model")
    args.add_argument("lines", nargs="?")
    args.add_argument("--bf16", action="store_true")
    args.add_argument("--all", action="store_true")
    args.add_argument("--sdpa", action="store_true")
    args.add_argument("--env", action="append", default=[])
    args = args.parse_args()
    torch.set_num_threads(1)
    tokens, n_prompt = line_of(args.model, args.lines)
    loss64, want = by_torch(args.model, tokens, n_prompt, torch.float64, "eager")
    word, dtype = ("bf16", torch.bfloat16) if args.bf16 else ("f32", torch.float32)
    got = {"trireme": by_program(args.program, args.model, tokens, n_prompt, word, args.env)}
    for attention in ("eager", "sdpa") if args.sdpa else ("eager",):
        got[f"torch {attention}"] = by_torch(args.model, tokens, n_prompt, dtype, attention)
    error = {name: {k: np.linalg.norm(g[k] - w) / np.linalg.norm(w) for k, w in want.items()} for name, (_, g) in got.items()}
    print(f"{args.model}: {len(tokens)} tokens, {n_prompt} of them the prompt; {len(want)} parameters")
    for name, e in error.items():
        x = np.array(list(e.values()))
        print(f"{name:12s} loss {got[name][0] / loss64 - 1:+.1e}  median {np.median(x):.2e}  worst {x.max():.2e} ({max(e, key=e.get)})")
    kinds = {}
    for k in want:
        kinds.setdefault(re.sub(r"\.\d+\.", ".", k), []).append(k)
    print(f"{'median of the kind':48s}" + "".join(f"{n:>14s}" for n in error))
    for kind, names in kinds.items():
        print(f"{kind:48s}" + "".join(f"{np.median([e[k] for k in names]):14.2e}" for e in error.values()))
    for k in want if args.all else ():
        print(f"{k:48s}" + "".join(f"{e[k]:14.2e}" for e in error.values()))


main()
