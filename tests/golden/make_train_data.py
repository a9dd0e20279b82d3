# make_train_data.py - writes a model too small to be useful, its tokenizer of single characters, and prompts for it. For
# test_train.c. It needs only Python. usage: python tests/golden/make_train_data.py
# SPDX-License-Identifier: BSD-3-Clause
import json
import os

OUT = "tests/data/train"
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz+-=?"


def main():
    os.makedirs(OUT, exist_ok=True)
    end = len(ALPHABET)
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": end, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {c: i for i, c in enumerate(ALPHABET)} | {"<|end|>": end}, "merges": []}}
    config = {"model_type": "llama", "vocab_size": end + 1, "hidden_size": 32, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
              "initializer_range": 0.15, "eos_token_id": end, "bos_token_id": None, "hidden_act": "silu"}
    for name, what in (("tokenizer", tokenizer), ("config", config)):
        with open(f"{OUT}/{name}.json", "w") as f:
            json.dump(what, f, indent=1)
            f.write("\n")
    with open(f"{OUT}/prompts.jsonl", "w") as f:
        for i in range(48):
            text = f"{i * i}{'+-'[i % 2]}{(7 * i) % (10 ** (1 + i % 4))}" + "abc" * (i % 5 == 0) + "="
            f.write(json.dumps({"prompt": text}) + "\n")


main()
