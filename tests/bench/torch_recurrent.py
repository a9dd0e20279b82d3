# torch_recurrent.py - times training steps of a qwen3_5 model in transformers on the CPU: tokens/s of forward, loss, backward
# and AdamW.
# The model is random, in f32. bf16 is autocast. Recurrent layers take transformers' own path (its chunked rule in torch),
# attention is sdpa, and no activation is recomputed. AdamW is torch's fused one, the Trainer's default.
# usage: python tests/bench/torch_recurrent.py CONFIG.json T B f32|bf16 THREADS [STEPS [WARM_UP]]
# for example tests/bench/qwen3_5.json 256 2 f32 2 3
# SPDX-License-Identifier: BSD-3-Clause
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

config, T, B, dtype, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
steps = int(sys.argv[6]) if len(sys.argv) > 6 else 3
warm_up = int(sys.argv[7]) if len(sys.argv) > 7 else 1
torch.set_num_threads(threads)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config), dtype=torch.float32, attn_implementation="sdpa")
model.train()
V = model.config.vocab_size
count = sum(p.numel() for p in model.parameters())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)

forward, backward, adamw, losses = [], [], [], []
for i in range(warm_up + steps):
    tokens = torch.randint(0, V, (B, T))
    t0 = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
        logits = model(input_ids=tokens, use_cache=False).logits
    loss = F.cross_entropy(logits[:, :-1].float().reshape(-1, V), tokens[:, 1:].reshape(-1))
    t1 = time.perf_counter()
    loss.backward()
    t2 = time.perf_counter()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    t3 = time.perf_counter()
    losses.append(loss.item())
    forward.append(t1 - t0), backward.append(t2 - t1), adamw.append(t3 - t2)


def median(x):
    return statistics.median(x[warm_up:])


step = median([sum(x) for x in zip(forward, backward, adamw)])
print(f"torch {torch.__version__} transformers {transformers.__version__} params {count / 1e6:.2f} M T={T} B={B} {dtype} "
      f"threads={threads}: step {step:.3f} s (forward {median(forward):.3f} backward {median(backward):.3f} AdamW {median(adamw):.3f}), "
      f"tokens/s {B * T / step:.1f}, first loss {losses[0]:.4f}", flush=True)
