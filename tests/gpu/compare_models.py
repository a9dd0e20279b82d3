# compare_models.py - compares the weights of exported models two by two and loads one with transformers, for check.sh.
# SPDX-License-Identifier: BSD-3-Clause
#
#   compare_models.py FOLDER JUDGE [FOLDER JUDGE ...]
# Bound: |a - b| over all weights relative to JUDGE's, as norms, is at most 1e-4. Exit code 69 without the Python packages.
import os
import sys

BOUND = 1e-4

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as e:
    print(f"{sys.executable}: {e}")
    sys.exit(69)
transformers.logging.set_verbosity_error()


def main(folders):
    worst = 0.0
    for folder, judge in zip(folders[::2], folders[1::2]):
        a, b = (load_file(os.path.join(f, "model.safetensors")) for f in (folder, judge))
        assert a.keys() == b.keys() and a, "the folders hold different tensors"
        difference = sum(((a[k].double() - b[k].double()) ** 2).sum().item() for k in a)
        whole = sum((b[k].double() ** 2).sum().item() for k in b)
        worst = max(worst, (difference / whole) ** 0.5)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folders[0], output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    logits = model(torch.tensor([[1, 2, 3]])).logits
    assert torch.isfinite(logits).all()
    print(f"weights differ by {worst:.2g} (bound {BOUND:g}); transformers {transformers.__version__} loads the export")
    return 0 if worst <= BOUND else 1


sys.exit(main(sys.argv[1:]))
