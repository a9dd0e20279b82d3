# check_chats.py - compares prompts, ids and greedy answers of 50 conversations with transformers, with published weights.
# usage: python tests/golden/check_chats.py PROGRAM FOLDER [TEMPLATE]    (by hand, since this repository has no weights)
# TEMPLATE: a word of data.chat_template, or a file, for a folder without one. The program renders it. transformers renders only its own.
# Tried with transformers 5.24.0, torch 2.15.0. Greedy, in float32. Two tokens with nearly equal logits may be drawn differently.
# Each such place is printed with the gap between its two best logits. It is correct only if that gap is below 1e-4.
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NEW = 24
NEAR = 1e-4


def conversations():
    """50 prompts of several kinds: one or more turns, with and without a system message, Unicode, empty texts, a started answer."""
    asked = ["What is the capital of France?", "Write a haiku about the sea.", "2 + 2 =", "Explain photosynthesis to a child.",
             "Übersetze ins Englische: Guten Morgen, schöne Welt!", "日本の首都はどこですか?", "List three primes.\n\nOne a line.",
             "  spaces around  ", "Who are you? 🙂", "def f(x):\n\treturn x"]
    said = ["Paris.", "It is 4.", "I am a model.", "Morning light on waves", "東京です。"]
    out = []
    for i, q in enumerate(asked):
        out.append([{"role": "user", "content": q}])
        out.append([{"role": "system", "content": "You answer in one sentence."}, {"role": "user", "content": q}])
        out.append([{"role": "user", "content": asked[(i + 3) % 10]}, {"role": "assistant", "content": said[i % 5]},
                    {"role": "user", "content": q}])
        out.append([{"role": "system", "content": ["", "Be brief."][i % 2]}, {"role": "user", "content": q},
                    {"role": "assistant", "content": said[(i + 1) % 5]}, {"role": "user", "content": "And why?"},
                    {"role": "assistant", "content": said[(i + 2) % 5]}, {"role": "user", "content": asked[(i + 7) % 10]}])
        out.append([{"role": "user", "content": q}, {"role": "assistant", "content": "Let me see: " + said[i % 5]}])
    return out


def ours(program, folder, talks, template):
    with tempfile.TemporaryDirectory() as work:
        lines = os.path.join(work, "prompts.jsonl")
        with open(lines, "w") as f:
            f.writelines(json.dumps({"prompt": t}) + "\n" for t in talks)
        more = ["--chat-template", template] if template else []
        got = subprocess.run([program, "generate", folder, "--prompts", lines, "--max-new", str(NEW), "--temperature", "0", "--dtype", "f32", "--json"] + more,
                             stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in got.splitlines()]


def theirs(model, tokenizer, talk, prompt):
    """The prompt's text and ids in transformers, and its greedy answer. A folder without a template takes trireme's text."""
    ended = talk[-1]["role"] == "assistant"
    text = prompt
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=not ended, continue_final_message=ended)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=NEW, do_sample=False, attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    return text, ids, out[0, len(ids):].tolist()


def gap(model, ids):
    with torch.no_grad():
        best = model(torch.tensor([ids])).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


def main():
    program, folder = sys.argv[1], sys.argv[2]
    template = sys.argv[3] if len(sys.argv) > 3 else None
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    talks = conversations()
    rows = ours(program, folder, talks, template)
    bad = near = 0
    assert len(rows) == len(talks)
    for talk, row in zip(talks, rows):
        n = row["prompt_tokens"]
        text, ids, answer = theirs(model, tokenizer, talk, row["prompt"])
        mine = row["tokens"][n:]
        if row["prompt"] != text or row["tokens"][:n] != ids:
            bad += 1
            print(f"prompt of {talk}: {row['prompt']!r}, {row['tokens'][:n]}\n  transformers: {text!r}, {ids}")
        elif mine != answer:
            i = next((k for k, (a, b) in enumerate(zip(mine, answer)) if a != b), min(len(mine), len(answer)))
            apart = gap(model, ids + answer[:i])
            near += apart < NEAR
            bad += apart >= NEAR
            print(f"answer of {talk}: token {i} differs, its two best logits {apart:.2g} apart")
    print(f"{len(talks)} conversations: {len(talks) - bad - near} equal, {near} differ at nearly equal logits, {bad} wrong")
    sys.exit(bad > 0)


main()
