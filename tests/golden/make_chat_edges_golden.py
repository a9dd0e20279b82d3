# make_chat_edges_golden.py - writes the tokens that transformers masks as learned in conversations, for test_dataset_chat.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/chat/edges.json: conversations with transformers' assistant masks ({% generation %}). Their learned
pieces begin and end inside text that a tokenizer would join.

Made with: transformers 5.24.0, tokenizers 0.23.3
Usage: python3 tests/golden/make_chat_edges_golden.py
"""
import json
import os

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "data", "chat", "edges.json")
WORDS = ["the answer is four\n\n", "assistant:\n\nwell, ", "user said so\n\n\n", "  and then  \n\n", "one two  three. "] * 20


def byte_level(trim):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    if trim:
        tok.post_processor = processors.ByteLevel(trim_offsets=True)
    tok.train_from_iterator(WORDS, trainers.BpeTrainer(vocab_size=310, special_tokens=["<s>", "</s>"], show_progress=False,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tok


def metaspace(prepend):
    """Tokenizers like those of Llama-2, which puts a mark before every text, and Gemma."""
    tok = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    replace = normalizers.Replace(" ", "\u2581")
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), replace]) if prepend else replace
    if not prepend:
        tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.train_from_iterator(WORDS, trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + [
        "<0x%02X>" % b for b in range(256)]))
    return tok


BEGIN, END = "{% generation %}", "{% endgeneration %}"
# the text before an answer, and the learned text after it
EDGES = [("assistant:\n\n", "</s>"), ("assistant: ", "</s>\n\n"), ("<s> assistant", "</s> "), ("assistant:  ", " </s>")]
TALKS = [
    [("user", "what?\n\n"), ("assistant", "four")],
    [("user", "a"), ("assistant", "\n\nfour\n\n"), ("user", " b "), ("assistant", " \n four\u00e9\u4f60 ")],
    [("user", "caf\u00e9"), ("assistant", "\n"), ("user", "x"), ("assistant", "  2  ")],
    [("assistant", "\n\n\n1"), ("user", "\n\n"), ("assistant", "well, ")],
]


def template(before, behind, marks):
    one = "{{ m['content'] + '%s' }}" % behind.replace("\n", "\\n")
    return ("{%% for m in messages %%}{%% if m['role'] == 'user' %%}{{ 'user:' + m['content'] + '\\n\\n' }}{%% else %%}{{ '%s' }}%s%s%s"
            "{{ '\\n' }}{%% endif %%}{%% endfor %%}{%% if add_generation_prompt %%}{{ '%s' }}{%% endif %%}") % (
        before.replace("\n", "\\n"), BEGIN if marks else "", one, END if marks else "", before.replace("\n", "\\n"))


kinds = []
for name, tok in (("bytes", byte_level(False)), ("trimmed", byte_level(True)), ("llama2", metaspace(True)), ("gemma", metaspace(False))):
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<s>", eos_token="</s>")
    rows = []
    for before, behind in EDGES:
        fast.chat_template = template(before, behind, True)
        row = {"marked": fast.chat_template, "cases": []}
        if behind.endswith("</s>"):  # a turn that ends without marks
            row["plain"] = template(before, behind, False)
        for talk in TALKS:
            out = fast.apply_chat_template([{"role": r, "content": c} for r, c in talk], return_dict=True, return_assistant_tokens_mask=True)
            row["cases"].append([out["input_ids"], "".join(map(str, out["assistant_masks"]))])
        rows.append(row)
    kinds.append({"name": name, "tokenizer": json.loads(tok.to_str()), "rows": rows})
with open(OUT, "w", encoding="utf-8") as f:
    f.write("{\"talks\": " + json.dumps([[{"role": r, "content": c} for r, c in talk] for talk in TALKS]) + ",\n\"kinds\": [\n")
    f.write(",\n".join(json.dumps(k, separators=(",", ":")) for k in kinds) + "\n]}\n")
