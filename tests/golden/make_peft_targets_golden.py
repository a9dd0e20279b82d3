# make_peft_targets_golden.py - writes the modules that PEFT finds by target_modules and exclude_modules, for test_peft.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/lora/targets.json: adapter configs, and the modules that PEFT adapts in a llama of two layers.

Run by hand: python3 tests/golden/make_peft_targets_golden.py
Made with: peft 0.21.2
"""
import json
import os
import random
import re

from peft import LoraConfig
from peft.tuners.tuners_utils import _ExcludedModule, check_target_module_exists

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "lora", "targets.json")
PARTS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
KEYS = ["model.layers.%d.%s" % (layer, part) for layer in range(2) for part in PARTS]
SHORT = [part.split(".")[1] for part in PARTS]
NAMES = SHORT + PARTS + ["lm_head", "embed_tokens", "linear_fc1", "in_proj_qkv", "proj", "q_pro", "attn.q_proj", "layers.0.self_attn.q_proj", "layers.1.self_attn.q_proj",
                         "model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj", "q_proj.weight", "self_attn", ""]


def pattern(r):
    some = "|".join(r.sample(SHORT, r.randint(1, 4)))
    kinds = [
        r".*\.(%s)" % some,
        r".*(%s)$" % some,
        r"(%s)" % some,
        r"^(model)(?!.*(lm_head|output|emb|proj_out|%s)).*" % r.choice(SHORT),
        r"^(model\.layers)(?!.*(lm_head)).*\.(%s)$" % some,
        r"(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense).*?(?:%s).*?)|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|attention|attn|mlp|"
        r"feed_forward|ffn|dense)\.(?:(?:%s)))" % (some, some),
        r"model\.layers\.(?P<layer>\d+)\.(?:self_attn|mlp)\.(?:%s)" % some,
        r"model\.layers\.0\..*",
        r"(?i)MODEL\..*\.(%s)" % some.upper(),
        r"model\.layers\.[0-9]+\.mlp\.\w+",
        r".*layers\.(0|1)\.self_attn\.[qkvo]_proj",
        r".*\.(?=[qk]_)\w+_proj",
        r"(?:(?<=x)|model).*_(?:proj)\Z",
        r".*self_attn.*|.*\.%s" % r.choice(SHORT),
    ]
    return r.choice(kinds)


def case(r):
    fields = {"target_modules": pattern(r) if r.random() < 0.55 else r.sample(NAMES, r.randint(1, 5))}
    if r.random() < 0.4:
        fields["exclude_modules"] = pattern(r) if r.random() < 0.4 else r.sample(NAMES, r.randint(0, 3))
    return fields


def rows(fields):
    config = LoraConfig(**fields)
    found = set()
    for key in KEYS:
        hit = check_target_module_exists(config, key)
        if hit and not isinstance(hit, _ExcludedModule):
            found.add(key)
    whole = [part for part in PARTS if all("model.layers.%d.%s" % (layer, part) in found for layer in range(2))]
    return "some layers" if len(found) != 2 * len(whole) else whole


def main():
    r = random.Random(8)
    cases = [case(r) for _ in range(240)]
    seen = {json.dumps(c, sort_keys=True): c for c in cases}
    out = [[c, rows(c)] for c in seen.values()]
    assert all(re.compile(c["target_modules"]) for c, _ in out if isinstance(c["target_modules"], str))
    with open(OUT, "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in out) + "]\n")
    print(len(out), "cases;", sum(row[1] == [] for row in out), "of none;", sum(row[1] == "some layers" for row in out), "of some layers")


if __name__ == "__main__":
    main()
