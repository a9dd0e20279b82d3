# make_lora_golden.py - writes gradients, a PEFT folder and the merged model's logits of low-rank adapters on some of the
# models of make_model_golden.py. For tests/model/test_lora.c.
# Written with torch 2.15.0, transformers 5.23.0 (from granite on 5.24.0), peft 0.21.2, safetensors 0.8.
# usage: python tests/golden/make_lora_golden.py [NAME ...]     (all cases, or only these)
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

OUT, MODELS = "tests/data/lora", "tests/data/model"
LENGTHS = [1, 2, 7, 37]
INV_TEMPERATURE = 1.25
CASES = {
    # every linear module, alpha / r
    "llama": ("llama", dict(r=4, lora_alpha=6, target_modules="all-linear")),
    # some of them (not k, not gate), alpha / sqrt(r), and biases at q, k, v
    "qwen2": ("qwen2", dict(r=3, lora_alpha=2, use_rslora=True,
                            target_modules=["q_proj", "v_proj", "o_proj", "up_proj"])),
    # one module for q, k and v, one for gate and up
    "phi3": ("phi3", dict(r=2, lora_alpha=3, target_modules="all-linear")),
    # norms after the products, soft caps, norms of q and k
    "gemma3": ("gemma3", dict(r=2, lora_alpha=3, target_modules=["k_proj", "gate_proj", "down_proj"])),
    # a scalar head, trained in full
    "score": ("llama_score", dict(r=4, lora_alpha=8, target_modules="all-linear", task_type="SEQ_CLS",
                                  modules_to_save=["score"])),
    # the residual multiplier scales the adapters' outputs, and the logits are scaled
    "granite": ("granite_bias", dict(r=2, lora_alpha=3, target_modules="all-linear")),
    # no norm before the products, norms after them
    "olmo2": ("olmo2", dict(r=2, lora_alpha=3, target_modules="all-linear")),
}


def tokens_of(lengths, vocab, gen):
    return [torch.randint(0, vocab, (n,), generator=gen) for n in lengths]


def rows_of(model, sequences, scored):
    """The logits of every row, or the values of a scalar head."""
    if not scored:
        return torch.cat([model(input_ids=s[None]).logits[0] for s in sequences])
    inner = model.base_model.model if hasattr(model, "base_model") and hasattr(model.base_model, "model") else model
    return torch.cat([inner.score(inner.model(input_ids=s[None]).last_hidden_state[0])[:, 0] for s in sequences])


def backward_of(rows, sequences, out, gen, scored):
    row, target, at = [], [], 0
    for s in sequences:
        row += range(at, at + len(s) - 1)
        target += s[1:].tolist()
        at += len(s)
    if scored:
        d = torch.randn(len(row), generator=gen)
        (d @ rows[row]).backward()
        out.update({"value": rows[row], "dvalue": d})
        return
    lp = torch.log_softmax(rows[row] * INV_TEMPERATURE, -1)
    logp, ent = lp[torch.arange(len(target)), target], -(lp.exp() * lp).sum(-1)
    dlogp, dent = torch.randn(len(row), generator=gen), 0.3 * torch.randn(len(row), generator=gen)
    (dlogp @ logp + dent @ ent).backward()
    out.update({"logp": logp, "ent": ent, "dlogp": dlogp, "dent": dent})


def main():
    torch.set_num_threads(1)
    for number, (name, (base, options)) in enumerate(CASES.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        gen = torch.Generator().manual_seed(70 + number)
        scored = options.get("task_type") == "SEQ_CLS"
        kind = AutoModelForSequenceClassification if scored else AutoModelForCausalLM
        model = kind.from_pretrained(f"{MODELS}/{base}", dtype=torch.float32, attn_implementation="eager")
        model = get_peft_model(model, LoraConfig(**options)).train()
        learned = [(k, p) for k, p in model.named_parameters() if p.requires_grad]
        for k, p in learned:
            p.data.copy_((torch.randn(p.shape, generator=gen) * (0.5 / p.shape[1] ** 0.5 if "lora_A" in k else 0.2))
                         .to(torch.bfloat16).float())
        folder, out = f"{OUT}/{name}", {}
        os.makedirs(folder, exist_ok=True)
        sequences = tokens_of(LENGTHS, model.config.vocab_size, gen)
        out.update({"tokens": torch.cat(sequences), "lengths": torch.tensor(LENGTHS)})
        backward_of(rows_of(model, sequences, scored), sequences, out, gen, scored)
        for k, p in learned:
            out["grad." + k.replace(".default", "").replace(".modules_to_save", "")] = p.grad
        model.save_pretrained(folder)
        with open(f"{folder}/adapter_config.json") as f: # PEFT writes sets in any order
            config = json.load(f)
        if isinstance(config["target_modules"], list):
            config["target_modules"].sort()
        config["base_model_name_or_path"] = "../../model/" + base
        with open(f"{folder}/adapter_config.json", "w") as f:
            json.dump(config, f, indent=2, sort_keys=True)
            f.write("\n")
        os.path.exists(f"{folder}/README.md") and os.remove(f"{folder}/README.md")
        with torch.no_grad():
            out["merged"] = rows_of(model.merge_and_unload(), sequences[2:3], scored)
        save_file({k: v.detach().float().contiguous() for k, v in out.items()}, f"{folder}/golden.safetensors")
        for f in ("adapter_model", "golden"):
            os.chmod(f"{folder}/{f}.safetensors", 0o644)


main()
