# make_gsm8k_golden.py - writes GSM8K's first lines, a tokenizer trained on its text, and the prompts rendered by transformers.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/gsm8k: the first lines of GSM8K unchanged, a model folder without weights, and the prompts as tokens. The
folder has Qwen2's shape, pre-tokenizer, chat template and end tokens. Its tokenizer is a byte-level BPE of 1,200 tokens, trained
on the questions and answers.

Run by hand: python3 tests/golden/make_gsm8k_golden.py GSM8K_FOLDER   (train.jsonl, test.jsonl and LICENSE of openai/grade-school-math)
Made with: transformers 5.23.0, tokenizers 0.23.3, trl 1.16.0 (its chat_templates/qwen2_5.jinja, Apache-2.0)
"""
import importlib.util
import json
import os
import shutil
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SOURCE = sys.argv[1]
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "gsm8k")
N_TRAIN, N_EVAL, VOCAB = 24, 8, 1200
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

os.makedirs(OUT, exist_ok=True)
lines = open(os.path.join(SOURCE, "train.jsonl"), encoding="utf-8").read().splitlines()
held = open(os.path.join(SOURCE, "test.jsonl"), encoding="utf-8").read().splitlines()
for name, part in (("train.jsonl", lines[:N_TRAIN]), ("eval.jsonl", held[:N_EVAL])):
    open(os.path.join(OUT, name), "w", encoding="utf-8").write("\n".join(part) + "\n")
shutil.copyfile(os.path.join(SOURCE, "LICENSE"), os.path.join(OUT, "LICENSE"))

tok = Tokenizer(models.BPE())
tok.normalizer = normalizers.NFC()
tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
tok.decoder = decoders.ByteLevel()
tok.post_processor = processors.ByteLevel(trim_offsets=False)
trainer = trainers.BpeTrainer(vocab_size=VOCAB, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
tok.train_from_iterator((v for l in lines for v in json.loads(l).values()), trainer)
tok.add_special_tokens([AddedToken(t, special=True) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
tok.save(os.path.join(OUT, "tokenizer.json"), pretty=False)

template = open(os.path.join(os.path.dirname(importlib.util.find_spec("trl").origin), "chat_templates", "qwen2_5.jinja"),
                encoding="utf-8").read()
full = PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="<|im_end|>", pad_token="<|im_end|>")
full.chat_template = template
ids = {t: tok.token_to_id(t) for t in ("<|endoftext|>", "<|im_end|>")}


def write(name, value):
    json.dump(value, open(os.path.join(OUT, name), "w", encoding="utf-8"), indent=1)


write("tokenizer_config.json", {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|im_end|>", "chat_template": template,
                                "tokenizer_class": "Qwen2Tokenizer"})
write("generation_config.json", {"eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "pad_token_id": ids["<|im_end|>"]})
write("config.json", {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": (tok.get_vocab_size() + 15) // 16 * 16,
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": True,
    "hidden_act": "silu", "initializer_range": 0.1, "bos_token_id": None, "eos_token_id": ids["<|im_end|>"]})
with open(os.path.join(OUT, "prompts.jsonl"), "w", encoding="utf-8") as f:
    for l in lines[:N_TRAIN]:
        message = {"role": "user", "content": json.loads(l)["question"]}
        f.write(json.dumps({"tokens": full.apply_chat_template([message], add_generation_prompt=True, return_dict=False)},
                           separators=(",", ":")) + "\n")
