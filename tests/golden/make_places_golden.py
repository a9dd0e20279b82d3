# make_places_golden.py - writes the positions of tokens in their texts, for test_tokenizer.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/tokenizer/places.json: positions of tokens in characters. They are
encode(text, add_special_tokens=False).offsets of the tokenizers library, for the tokenizers of tests/data/tokenizer, and
for some of them with other steps.

Made with: tokenizers 0.23.3
Usage: python3 tests/golden/make_places_golden.py
"""
import json
import os

from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "data", "tokenizer")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}

# (name, tokenizer, steps that differ from its own)
KINDS = [(name, name, {}) for name in ("gpt2", "llama3", "qwen2", "deepseek2", "digits", "flags", "kimi", "llama2", "metaspace",
                                       "mistral", "unigram_albert", "unigram_llmjp", "unigram_t5")] + [
    ("trimmed", "qwen2", {"post_processor": BYTES}),
    ("prefixed", "gpt2", {"pre_tokenizer": dict(BYTES, add_prefix_space=True), "post_processor": dict(BYTES, add_prefix_space=True)}),
    ("gemma", "llama2", {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, "pre_tokenizer": SPLIT}),
    ("lines", "llama2", {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"Regex": "\\r\\n|\\t+"}, "content": "\n"}, {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Lowercase"}, {"type": "Prepend", "prepend": "\u2581\u2581"}]}}),
    ("marks", "llama2", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Nmt"}]}}),
]
TEXTS = [
    "", " ", "a", "Hello, world!", "  leading and trailing  ", "x\n\ny\n\n\nz\n", "tabs\t\tand\r\nlines\r\n\r\nend\n",
    "The quick brown fox doesn't jump; it's asleep.", "1 12 123 1234 3.14", "Gr\u00f6\u00dfe na\u00efve caf\u00e9 \u4f60\u597d, \u4e16 x",
    "cafe\u0301 au lait", "\u0130stanbul A\u0301B", "emoji \U0001f600\U0001f601 \u00a0x\u3000y", "\u2581a \u2581 b", "no-such \u0e01\u0e02 \u16a0\u16a1 end",
    "<s>a</s> b<s> </s>\n", "<|im_start|>user\nhi <|im_end|>\n\n<|begin_of_text|> q  ", "aaa bbb aaa bbb  aaa",
]
# Texts by kind. NARROW: the library's positions of changed characters (e + U+0301, CR LF) are narrower. NONE: trireme gives no
# positions.
NARROW = {"qwen2": (10, 11), "trimmed": (10, 11), "metaspace": (10,), "unigram_t5": (10,), "unigram_albert": (6,)}
NONE = {"flags": (5, 12, 13, 14, 15, 16)}  # characters in no token


def tokenizer(base, steps):
    spec = json.load(open(os.path.join(FOLDER, base + ".json"), encoding="utf-8"))
    spec.update(steps)
    return Tokenizer.from_str(json.dumps(spec))


kinds = []
for name, base, steps in KINDS:
    tok = tokenizer(base, steps)
    encoded = [tok.encode(text, add_special_tokens=False) for text in TEXTS]
    kinds.append({"name": name, "base": base, "steps": steps, "ids": [e.ids for e in encoded],
                  "places": [0 if i in NONE.get(name, ()) else None if i in NARROW.get(name, ()) else [x for place in e.offsets for x in place]
                             for i, e in enumerate(encoded)]})
with open(os.path.join(FOLDER, "places.json"), "w", encoding="utf-8") as f:
    f.write("{\"texts\": " + json.dumps(TEXTS) + ",\n\"kinds\": [\n")
    f.write(",\n".join(json.dumps(k, separators=(",", ":")) for k in kinds) + "\n]}\n")
