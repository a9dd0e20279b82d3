# make_safetensors_golden.py - writes small files with the reference library, for test_safetensors.c.
# Made with safetensors 0.8.0, torch 2.15, Python 3.11. Run by hand: python tests/golden/make_safetensors_golden.py tests/data/safetensors (from the root)
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import sys

import torch
from safetensors.torch import save_file

out = sys.argv[1]
os.makedirs(out + "/shards", exist_ok=True)


def ramp(*shape):
    n = 1
    for d in shape:
        n *= d
    return ((torch.arange(n, dtype=torch.float32) - 5) * 0.37).reshape(shape)


# Every supported dtype and some others, a scalar, five dimensions, an empty tensor.
save_file(
    {
        "b.f32": ramp(3, 4),
        "a.bf16": ramp(2, 3, 1, 2).to(torch.bfloat16),
        "c.f16": torch.tensor([0.0, -0.0, 1.0, -2.5, 65504.0, 2.0**-24, -(2.0**-14), 3.1415926, float("inf"), float("-inf")]).half(),
        "scalar": torch.tensor(7.5),
        "ids": torch.arange(4),
        "f64": ramp(2).double(),
        "five": ramp(1, 1, 2, 1, 1),
        "empty": torch.zeros(0, 3),
    },
    out + "/mixed.safetensors",
    metadata={"format": "pt"},
)
# trireme must write this file byte for byte. Its names are given in another order, and one needs JSON escapes.
save_file(
    {
        "model.z": ramp(3, 4),
        "model.a": ramp(5),
        "lm.bf16": ramp(2, 3).to(torch.bfloat16),
        "odd \"name\"\\é": ramp(1, 7).to(torch.bfloat16),
        "one": torch.tensor(1.25),
    },
    out + "/written.safetensors",
    metadata={"format": "pt"},
)
# A folder of two shards.
save_file({"w.0": ramp(2, 2), "w.1": ramp(3)}, out + "/shards/model-00001-of-00002.safetensors", metadata={"format": "pt"})
save_file({"w.2": ramp(4)}, out + "/shards/model-00002-of-00002.safetensors", metadata={"format": "pt"})
index = {
    "metadata": {"total_size": 44},
    "weight_map": {
        "w.0": "model-00001-of-00002.safetensors",
        "w.1": "model-00001-of-00002.safetensors",
        "w.2": "model-00002-of-00002.safetensors",
    },
}
with open(out + "/shards/model.safetensors.index.json", "w") as f:
    json.dump(index, f, indent=2, sort_keys=True)
    f.write("\n")
