# check_qwen3_5_export.py - trains the small models of the family qwen3_5, exports them, and compares log-probabilities with transformers.
# usage: python tests/golden/check_qwen3_5_export.py PROGRAM    (by hand, from the root)
# Each model is trained whole and with low-rank adapters. These are exported merged, and by themselves, which PEFT reads.
# Also judged: transformers loads each folder without a missing tensor, and training has changed what it computes.
# Tried with torch 2.15.0, transformers 5.24.0, peft 0.21.2.
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import subprocess
import sys
import tempfile

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

NEAR = 4e-5  # of a log-probability, as in the goldens
LENGTHS = [3, 64, 65, 130]


def load(folder):
    config = json.load(open(folder + "/config.json"))
    kind = AutoModelForImageTextToText if "text_config" in config else AutoModelForCausalLM
    model, about = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not about["missing_keys"], about["missing_keys"]
    return model.eval()


@torch.no_grad()
def theirs(model, lines):
    out = []
    for ids in lines:
        logp = model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        out += logp[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
    return out


def main():
    program = os.path.abspath(sys.argv[1])
    torch.manual_seed(1)
    lines = [torch.randint(1, 140, (n,)).tolist() for n in LENGTHS]
    worst = 0.0
    with tempfile.TemporaryDirectory() as work:
        def call(*words):
            return subprocess.run([program, *words], cwd=work, check=True, capture_output=True, text=True).stdout

        def ours(folder):
            scored = [json.loads(line) for line in call("score", folder, "data.jsonl").splitlines() if line.startswith("{")]
            return [x for line in scored for x in line["logprobs"][1:]]

        with open(work + "/data.jsonl", "w") as f:
            f.writelines(json.dumps({"tokens": ids, "prompt_tokens": 1}) + "\n" for ids in lines)
        open(work + "/deck.yaml", "w").write("run: {seed: 5}\n")
        for name in ["qwen3_5_half", "qwen3_5_tied", "qwen3_5_wide"]:
            folder = os.path.abspath("tests/data/model/" + name)
            before = theirs(load(folder), lines)
            deck = ["deck.yaml", "algo.name=sft", "data.train=data.jsonl", f"model.path={folder}", "model.dtype=f32",
                    "train.steps=3", "train.train_batch_size=4", "train.micro_batch_size=2", "train.learning_rate=1e-2"]
            call("train", *deck, f"run.output={name}")
            call("train", *deck, f"run.output={name}-lora", "lora.rank=4")
            call("export", name, name + "-out")
            call("export", name + "-lora", name + "-merged")
            call("export", "--adapter", name + "-lora", name + "-adapter")
            adapted = PeftModel.from_pretrained(load(folder), work + f"/{name}-adapter").eval()
            for what, model, scored in [("export", load(f"{work}/{name}-out"), ours(name + "-out")),
                                        ("merged", load(f"{work}/{name}-merged"), ours(name + "-merged")),
                                        ("adapter", adapted, ours(name + "-merged"))]:
                got = theirs(model, lines)
                assert len(got) == len(scored) == sum(LENGTHS) - len(LENGTHS)
                error = max(abs(a - b) for a, b in zip(got, scored))
                moved = max(abs(a - b) for a, b in zip(got, before))
                print(f"{name} {what}: largest difference {error:.1e}, moved by training {moved:.2f}")
                assert moved > 0.1, "training changed nothing"
                worst = max(worst, error)
    if worst > NEAR:
        sys.exit(f"log-probabilities differ by {worst:.1e}, more than {NEAR}")


if __name__ == "__main__":
    main()
