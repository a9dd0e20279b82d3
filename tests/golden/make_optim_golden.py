# make_optim_golden.py - writes AdamW steps of torch, for test_optim.c. Written with torch 2.15.0, safetensors 0.8.
# usage: python tests/golden/make_optim_golden.py   (from the repository's root)
# SPDX-License-Identifier: BSD-3-Clause
import os

import torch
from safetensors.torch import save_file

OUT = "tests/data/optim"
STEPS = 10
SHAPES = {"a.weight": (5, 13), "a.bias": (7,), "b.weight": (3, 70)}
# Step 4's gradient is far above the clipping threshold. The others are near it.
SIZE = [0.3, 0.1, 0.5, 30.0, 0.02, 0.2, 0.4, 0.1, 0.3, 0.05]


def main():
    torch.manual_seed(1)
    params = {k: torch.nn.Parameter(torch.randn(s)) for k, s in SHAPES.items()}
    out = {f"w0.{k}": p.detach().clone() for k, p in params.items()}
    groups = [{"params": [p for p in params.values() if p.ndim == 2], "weight_decay": 0.1},
              {"params": [p for p in params.values() if p.ndim < 2], "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95), eps=1e-8)
    rates = [0.01 * (t + 1) / 4 if t < 4 else 0.01 for t in range(STEPS)]
    norms = []
    for t in range(STEPS):
        for k, p in params.items():
            p.grad = SIZE[t] * torch.randn(p.shape)
            out[f"g{t + 1}.{k}"] = p.grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0))
        for g in opt.param_groups:
            g["lr"] = rates[t]
        opt.step()
    for k, p in params.items():
        out[f"w10.{k}"] = p.detach().clone()
        out[f"m10.{k}"] = opt.state[p]["exp_avg"].clone()
        out[f"v10.{k}"] = opt.state[p]["exp_avg_sq"].clone()
    out["norms"] = torch.stack(norms)
    out["rates"] = torch.tensor(rates)
    os.makedirs(OUT, exist_ok=True)
    save_file({k: v.contiguous() for k, v in out.items()}, f"{OUT}/golden.safetensors")


main()
