# make_eval_golden.py - writes evaluations of held-out lines by TRL's trainers, for tests/train/eval_loss.sh.
# It runs evaluate() of SFTTrainer, RewardTrainer, DPOTrainer and KTOTrainer on the lines of tests/data/eval. The models are in f64:
# the policy tests/data/model/llama, the reference tests/data/model/qwen2, the reward model tests/data/model/llama_score. All lines
# are one batch. The trainers average over batches, and trireme over all tokens (sft), pairs (rm, dpo) or answers (kto). With one
# batch the two are equal. The lines are tokens, and the trainers get them unchanged.
# Made with trl 1.16.0, torch 2.15.0, transformers 5.24.0. usage: python tests/golden/make_eval_golden.py   (from the root)
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import random
import tempfile

import torch
from datasets import Dataset
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedTokenizerFast)
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

OUT, MODELS, VOCAB, N = "tests/data/eval", "tests/data/model", 61, 7
random.seed(10)  # gives KTO a z above 0


def ids(least, most):
    # ids above 10 and 11, which are the padding and end token of the tokenizer that TRL needs
    return [random.randrange(12, VOCAB) for _ in range(random.randint(least, most))]


def lm(name):
    return AutoModelForCausalLM.from_pretrained(f"{MODELS}/{name}", dtype=torch.float32).double()


def common(cls, folder, **more):
    return cls(output_dir=folder, per_device_eval_batch_size=N, per_device_train_batch_size=N, use_cpu=True, bf16=False,
               report_to=[], gradient_checkpointing=False, max_length=None, disable_tqdm=True, **more)


def as_it_stands(cls):
    """The trainer, with lines that are tokens already. SFTTrainer takes those itself, and turns masks into labels."""
    return cls if cls is SFTTrainer else type(cls.__name__, (cls,), {"_prepare_dataset": lambda self, dataset, *a, **k: dataset})


def evaluate(cls, config, rows, model, **more):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file="tests/data/train/tokenizer.json", pad_token="a", eos_token="b")
    data = Dataset.from_list(rows)
    with tempfile.TemporaryDirectory() as folder:
        trainer = as_it_stands(cls)(model=model, args=config(folder), train_dataset=data, eval_dataset=data,
                                    processing_class=tokenizer, **more)
        trainer.model.double()
        return trainer.evaluate()


def write(name, rows):
    with open(f"{OUT}/{name}.jsonl", "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)


def main():
    os.makedirs(OUT, exist_ok=True)
    prompts, chosen, rejected = ([ids(*n) for _ in range(N)] for n in ((2, 6), (1, 9), (1, 9)))
    label = [random.random() < 0.5 for _ in range(N)]
    write("sft", [dict(tokens=p + c, prompt_tokens=len(p)) for p, c in zip(prompts, chosen)])
    write("pairs", [dict(chosen_tokens=p + c, rejected_tokens=p + r, prompt_tokens=len(p)) for p, c, r in zip(prompts, chosen, rejected)])
    write("labelled", [dict(tokens=p + c, prompt_tokens=len(p), label=l) for p, c, l in zip(prompts, chosen, label)])
    golden = {}

    def keep(name, said, names):
        print(name, said)
        golden[name] = {ours: said[theirs] for ours, theirs in names.items()}

    keep("sft", evaluate(SFTTrainer, lambda f: common(SFTConfig, f, completion_only_loss=True),
                         [dict(input_ids=p + c, completion_mask=[0] * len(p) + [1] * len(c)) for p, c in zip(prompts, chosen)],
                         lm("llama")), dict(eval_loss="eval_loss", eval_entropy_mean_nats="eval_entropy"))
    rewards = dict(eval_loss="eval_loss", eval_accuracy="eval_rewards/accuracies", eval_margin_mean="eval_rewards/margins",
                   eval_chosen_reward_mean="eval_rewards/chosen", eval_rejected_reward_mean="eval_rewards/rejected")
    keep("dpo", evaluate(DPOTrainer, lambda f: common(DPOConfig, f, beta=0.1),
                         [dict(prompt_ids=p, chosen_ids=c, rejected_ids=r) for p, c, r in zip(prompts, chosen, rejected)],
                         lm("llama"), ref_model=lm("qwen2")), rewards)
    keep("kto", evaluate(KTOTrainer, lambda f: common(KTOConfig, f, beta=0.1, train_sampling_strategy="sequential"),
                         [dict(prompt_ids=p, completion_ids=c, label=l, KL_completion_ids=chosen[i - 1])
                          for i, (p, c, l) in enumerate(zip(prompts, chosen, label))],
                         lm("llama"), ref_model=lm("qwen2")),
         dict(eval_loss="eval_loss", eval_margin_mean="eval_rewards/margins", eval_chosen_reward_mean="eval_rewards/chosen",
              eval_rejected_reward_mean="eval_rewards/rejected"))
    scored = AutoModelForSequenceClassification.from_pretrained(f"{MODELS}/llama_score", dtype=torch.float32).double()
    keep("rm", evaluate(RewardTrainer, lambda f: common(RewardConfig, f),
                        [dict(chosen_ids=p + c, rejected_ids=p + r) for p, c, r in zip(prompts, chosen, rejected)], scored),
         dict(eval_loss="eval_loss", eval_accuracy="eval_accuracy", eval_margin_mean="eval_margin"))
    with open(f"{OUT}/golden.json", "w") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")


main()
