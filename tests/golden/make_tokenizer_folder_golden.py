# make_tokenizer_folder_golden.py - writes the tokens of folders as AutoTokenizer loads them, for test_tokenizer_beside.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/tokenizer/folders.json: folders with tokens in tokenizer_config.json, special_tokens_map.json or
added_tokens.json, and AutoTokenizer's tokens of texts with each. The tokenizer.json files are those of make_tokenizer_golden.py.

Run by hand: python3 tests/golden/make_tokenizer_folder_golden.py
Made with: transformers 5.24.0, tokenizers 0.23.3
"""
import json
import os
import random
import tempfile

from transformers import AutoTokenizer

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "tokenizer")
NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
# New tokens, tokens of the vocabularies, and added tokens of the files.
WORDS = ["<think>", "</think>", "<|eot|>", "<tool call>", " <pad>", "The", "ing", "<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_end|>",
         "Été", "e\u0301nd", "ALL CAPS", "好", "[MASK]", "foo", "<a>", "<a><b>"]
TEXTS = ["", "<think>hello</think>", "a <think> b  </think>\n<|eot|> c <tool call>d", " <pad> x<s>The thing </s><unk> ing",
         "<|endoftext|>  <|im_end|>Été e\u0301nd \u00e9nd ALL CAPS all caps 好好", "[MASK] foo foobar <a><b><a> <b>", "the<think>\t\n </think>The",
         "▁<s>▁ <s> <|eot|><|eot|>"]
BASES = ["gpt2", "llama2", "flags", "qwen2", "metaspace", "llama3"]


def added(r, content, typed):
    out = {"content": content}
    for flag in ["lstrip", "rstrip", "single_word", "normalized", "special"]:
        if r.random() < 0.7:
            out[flag] = r.random() < (0.25 if flag != "special" else 0.6)
    if typed:
        out["__type"] = "AddedToken"
    return out


def text_or_added(r, typed):
    word = r.choice(WORDS)
    return word if r.random() < 0.6 else added(r, word, typed)


def names(r, typed):
    out = {name: text_or_added(r, typed) for name in NAMES if r.random() < 0.35}
    if r.random() < 0.2:
        out["image_token"] = r.choice(WORDS)
    if r.random() < 0.1:
        out["eos_token"] = None
    return out


def decoder(r, base):
    own = {t["content"]: t for t in base["added_tokens"]}
    n = len(base["model"]["vocab"])
    out = {}
    for token in r.sample(WORDS, r.randint(1, 6)):
        out[str(n + r.randint(0, 12))] = added(r, token, False)
    for token in own.values():
        if r.random() < 0.7:
            out[str(token["id"])] = {k: v for k, v in token.items() if k != "id"}
            if r.random() < 0.3:
                out[str(token["id"])]["normalized"] ^= True
            if r.random() < 0.2:
                out[str(token["id"])]["special"] ^= True
    keys = list(out)
    r.shuffle(keys)
    return {k: out[k] for k in keys}


def extras(r, typed):
    kind = r.random()
    if kind < 0.2:
        return {f"{name}_token" if r.random() < 0.7 else name: r.choice(WORDS) for name in ["image", "audio", "boi"]}
    return [text_or_added(r, typed) for _ in range(r.randint(0, 4))]


def folder(r, base):
    files = {}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000000000000000019884624838656}
    if r.random() < 0.9:
        config.update(names(r, True))
        if r.random() < 0.5:
            config["added_tokens_decoder"] = decoder(r, base)
        if r.random() < 0.5:
            config["extra_special_tokens"] = extras(r, True)
        if r.random() < 0.3:
            config["additional_special_tokens"] = [r.choice(WORDS) for _ in range(r.randint(0, 3))]
        if r.random() < 0.1:
            config["split_special_tokens"] = True
        files["tokenizer_config.json"] = config
    if r.random() < 0.5:
        files["special_tokens_map.json"] = names(r, False)
        if r.random() < 0.3:
            files["special_tokens_map.json"]["extra_special_tokens"] = extras(r, False)
        if r.random() < 0.3:
            files["special_tokens_map.json"]["additional_special_tokens"] = [r.choice(WORDS) for _ in range(2)]
    if r.random() < 0.5:
        n = len(base["model"]["vocab"])
        files["added_tokens.json"] = {token: n + r.randint(0, 12) for token in r.sample(WORDS, r.randint(1, 5))}
    return files


def answer(tok):
    back = tok.backend_tokenizer
    rows = []
    for text in TEXTS:
        ids = tok.encode(text, add_special_tokens=False)
        rows.append([ids, back.decode(ids, skip_special_tokens=False), back.decode(ids, skip_special_tokens=True)])
    named = {key: tok.convert_tokens_to_ids(str(value)) for key, value in tok._special_tokens_map.items() if value is not None and str(value)}
    return {"rows": rows, "named": named, "size": max(tok.get_vocab().values()) + 1}


def main():
    rows = []
    raised = 0
    for seed in range(150):
        r = random.Random(seed)
        name = BASES[seed % len(BASES)]
        with open(os.path.join(DATA, name + ".json"), encoding="utf-8") as f:
            base = json.load(f)
        files = folder(r, base)
        with tempfile.TemporaryDirectory() as path:
            with open(os.path.join(path, "config.json"), "w") as f:
                json.dump({"model_type": "llama", "tokenizer_class": "PreTrainedTokenizerFast"}, f)
            for file, value in {**files, "tokenizer.json": base}.items():
                with open(os.path.join(path, file), "w", encoding="utf-8") as f:
                    json.dump(value, f)
            try:
                toks = [AutoTokenizer.from_pretrained(path) for _ in range(6)]
                assert type(toks[0]).__name__ == "TokenizersBackend"
                answers = [answer(tok) for tok in toks]
                # The order of the library's hash table decides between tokens with one normalized form.
                if any(a != answers[0] for a in answers):
                    print(seed, "differs from itself")
                    continue
                rows.append({"base": name, "files": {k: json.dumps(v, ensure_ascii=False) for k, v in files.items()}, **answers[0]})
            except TypeError as e:
                raised += 1
                print(seed, type(e), str(e)[:100])
    with open(os.path.join(DATA, "folders.json"), "w", encoding="utf-8") as f:
        json.dump({"texts": TEXTS, "folders": rows}, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    print(len(rows), "folders;", raised, "raised")


if __name__ == "__main__":
    main()
