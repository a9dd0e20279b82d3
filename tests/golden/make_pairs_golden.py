# make_pairs_golden.py - writes TRL's tokens of text pairs, and the lines dropped by its max_length, for test_dataset_pairs.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/pairs: golden.json, and tokenizers of kinds missing in tests/data/tokenizer.

Run by hand: python3 tests/golden/make_pairs_golden.py
Made with: trl 1.16.0, transformers 5.24.0, tokenizers 0.23.3, datasets 5.2.0
The reference is the code of TRL's trainers: SFTTrainer, DPOTrainer, KTOTrainer and RewardTrainer._prepare_dataset.
"""
import json
import os
import random
from types import SimpleNamespace

import datasets
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from trl import DPOTrainer, KTOTrainer, RewardTrainer, SFTTrainer

from make_tokenizer_golden import CORPUS, TEXTS

datasets.disable_progress_bars()
HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZERS = os.path.join(HERE, "..", "data", "tokenizer")
OUT = os.path.join(HERE, "..", "data", "pairs")
MAX_LENGTH = 24
N = 200


def pieces(normalizer, pre, size, special, corpus=CORPUS):
    """SentencePiece's BPE in tokenizer.json, with bytes as pieces and unknown characters as bytes."""
    tok = Tokenizer(models.BPE(unk_token=special[0], fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizer
    if pre:
        tok.pre_tokenizer = pre
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)],
                                  show_progress=False)
    tok.train_from_iterator(corpus, trainer)
    bare = json.loads(tok.to_str())
    bare["added_tokens"] = [t for t in bare["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(bare))


def template(tok, single):
    names = {part for part in single.split() if part != "$A"}
    tok.post_processor = processors.TemplateProcessing(
        single=single, pair=f"{single} {single.replace('$A', '$B')}",
        special_tokens=[(name, tok.token_to_id(name)) for name in sorted(names)])
    return tok


def prepended():
    return normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


def gemma():
    """Spaces are their own pieces, and nothing comes before the text."""
    tok = pieces(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), 560,
                 ["<unk>", "<bos>", "<eos>", "<end_of_turn>"])
    return template(tok, "<bos> $A")


def phi3():
    """Like Llama 2, with an end token that takes the space after it, and one that takes the space before it."""
    tok = pieces(prepended(), None, 480, ["<unk>", "<s>", "</s>"])
    tok.add_special_tokens([AddedToken("<|end|>", lstrip=True, rstrip=True, special=True)])
    return tok


def ending():
    """A post-processor that adds a begin and an end token."""
    tok = pieces(prepended(), None, 480, ["<unk>", "<s>", "</s>"])
    return template(tok, "<s> $A </s>")


KINDS = {"gpt2": ("<|endoftext|>", None), "llama3": ("<|end_of_text|>", None), "qwen2": ("<|im_end|>", None),
         "llama2": ("</s>", None), "mistral": ("</s>", None), "gemma": ("<eos>", gemma), "phi3": ("<|end|>", phi3),
         "ending": ("</s>", ending)}


def cut(rng, text):
    """A text cut in two anywhere, also within words, numbers and characters of several code points."""
    at = rng.randint(0, len(text))
    return text[:at], text[at:]


def line(rng, end, tok):
    source = [t for t in TEXTS if 0 < len(t) < 60 and "\x00" not in t and not t.startswith("<s>")]
    source += [t[:40] for t in CORPUS] + ["12345 67890", "a b  c   d", "x\n\n\ny", "e\u0301e\u0301", "don't we'll", "Yes. No.\n"]
    prompt, chosen = cut(rng, rng.choice(source))
    rejected = rng.choice([cut(rng, rng.choice(source))[1], chosen[: rng.randint(0, len(chosen))], ""])
    kind = rng.randrange(12)
    if kind == 0:
        chosen = ""
    elif kind == 1:
        prompt = ""
    elif kind == 2:
        chosen += end
    elif kind == 3:
        rejected += end
    elif kind == 4:
        prompt += end
    elif kind == 5:
        prompt += rng.choice([" ", "\n", "  ", "\t", " \n"])
    elif kind == 6:
        chosen = rng.choice([" ", "\n", "  ", "\t"]) + chosen
    elif kind == 7:
        chosen += rng.choice([" ", "\n", "  ", "<"])
    elif kind == 8:
        chosen = end + chosen
    if min(len(tok(prompt + answer + end)["input_ids"]) for answer in (chosen, rejected)) < 3:
        return line(rng, end, tok)  # trireme refuses a line with only an end token
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected}


def args(max_length):
    return SimpleNamespace(dataset_num_proc=None, dataset_text_field="text", assistant_only_loss=False, seed=0,
                           max_length=max_length, truncation_mode="keep_start", shuffle_dataset=False,
                           per_device_train_batch_size=1, loss_type="apo_zero_unpaired", precompute_ref_log_probs=False)


def prepared(trainer, rows, tok, max_length):
    """The lines after the trainer's own _prepare_dataset. `row` tells which lines remain."""
    data = Dataset.from_list([dict(r, row=i) for i, r in enumerate(rows)])
    me = SimpleNamespace(_tokenizer=tok, chat_template=None, completion_only_loss=True, calculate_KL=False, desirable_weight=1.0, undesirable_weight=1.0,
                         _is_vision_dataset=False, _signature_columns=None)
    if trainer is SFTTrainer:
        return trainer._prepare_dataset(me, data, tok, args(max_length), False, None, "train")
    return trainer._prepare_dataset(me, data, tok, args(max_length), "train")


def left(trainer, rows, tok):
    kept = set(prepared(trainer, rows, tok, MAX_LENGTH)["row"])
    return [i for i in range(len(rows)) if i not in kept]


def golden(name, end, make):
    folder = OUT if make else TOKENIZERS
    if make:
        make().save(os.path.join(OUT, f"{name}.json"), pretty=False)
    tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, f"{name}.json"), eos_token=end)
    rng = random.Random(name)
    pairs = [line(rng, end, tok) for _ in range(N)]
    single = [{"prompt": p["prompt"], "completion": p["chosen"]} for p in pairs]
    labelled = [dict(s, label=True) for s in single]
    texts = [{"text": p["prompt"] + p["rejected"]} for p in pairs]

    sft, kto = prepared(SFTTrainer, single, tok, None), prepared(KTOTrainer, labelled, tok, None)
    dpo, rm = prepared(DPOTrainer, pairs, tok, None), prepared(RewardTrainer, pairs, tok, None)
    whole = prepared(SFTTrainer, texts, tok, None)
    rows = []
    for i, p in enumerate(pairs):
        n = sum(label == -100 for label in sft[i]["labels"])
        assert sft[i]["labels"][n:] == sft[i]["input_ids"][n:]
        assert kto[i]["prompt_ids"] == sft[i]["input_ids"][:n] and kto[i]["completion_ids"] == sft[i]["input_ids"][n:]
        both = [dpo[i]["prompt_ids"] + dpo[i][side] for side in ("chosen_ids", "rejected_ids")]
        assert both == [rm[i]["chosen_ids"], rm[i]["rejected_ids"]] and both[0] == sft[i]["input_ids"]
        n_pair = len(dpo[i]["prompt_ids"])
        row = {**p, "n": n, "n_pair": n_pair, "ids": both[0], "rejected_ids": both[1][n_pair:]}
        rows.append(dict(row, text_ids=whole[i]["input_ids"]) if i % 4 == 0 else row)
    joined = sum(len(tok(r["prompt"])["input_ids"]) > r["n_pair"] for r in rows)
    return {"name": name, "joined": joined, "own": make is not None, "end": end, "end_id": tok.eos_token_id, "vocab": len(tok), "line": rows,
            "dropped": {"sft": left(SFTTrainer, single, tok), "kto": left(KTOTrainer, labelled, tok),
                        "dpo": left(DPOTrainer, pairs, tok), "rm": left(RewardTrainer, pairs, tok)}}


def main():
    os.makedirs(OUT, exist_ok=True)
    kinds = [golden(name, *row) for name, row in KINDS.items()]
    with open(os.path.join(OUT, "golden.json"), "w") as f:
        json.dump({"max_length": MAX_LENGTH, "kind": kinds}, f, separators=(",", ":"))


if __name__ == "__main__":
    main()
