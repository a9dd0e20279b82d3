# trl_recurrent.py - times GRPO steps of a qwen3_5 model with TRL's GRPOTrainer on the CPU: seconds of a step.
# The model is random, in f32, with a byte-level tokenizer. Prompts are short sums of 8 bytes. The reward is the share of digits
# in the answer. bf16 is the Trainer's autocast. Sampling has temperature 1 and no top-k or top-p. The end token is suppressed,
# so every answer has --new tokens. Recurrent layers take transformers' own path in torch, attention is sdpa, and no activation
# is recomputed. The first step is a warm-up. With --steps 1 it is the only one, and its time is printed.
# usage: python tests/bench/trl_recurrent.py CONFIG.json --dtype f32 --completions 8 --steps 2 --threads 2
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import os
import statistics
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

a = argparse.ArgumentParser()
a.add_argument("config")
a.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
a.add_argument("--completions", type=int, default=8)
a.add_argument("--group", type=int, default=8)
a.add_argument("--new", type=int, default=64)
a.add_argument("--steps", type=int, default=2)
a.add_argument("--threads", type=int, default=2)
a = a.parse_args()
torch.set_num_threads(a.threads)
torch.manual_seed(0)

vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
vocab["<|end|>"], vocab["<|pad|>"] = 256, 257
bpe = Tokenizer(models.BPE(vocab=vocab, merges=[]))
bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>", pad_token="<|pad|>", padding_side="left")
config = AutoConfig.from_pretrained(a.config)
config.eos_token_id, config.pad_token_id = 256, 257
model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
model.generation_config.suppress_tokens = [256]
prompts = [{"prompt": f"{(i * 7919) % 1000:03d}+{(i * 104729) % 1000:03d}="} for i in range(4096)]

stamps = []  # a step's begin and end
took = {"generate": [], "learn": []}


class Clock(TrainerCallback):
    def on_step_begin(self, *x, **k):
        stamps.append([time.perf_counter()])

    def on_step_end(self, *x, **k):
        stamps[-1].append(time.perf_counter())


def digits(completions, **k):
    return [sum(c.isdigit() for c in text) / max(1, len(text)) for text in completions]


class Timed(GRPOTrainer):
    def _generate_and_score_completions(self, inputs):
        t = time.perf_counter()
        out = super()._generate_and_score_completions(inputs)
        took["generate"].append(time.perf_counter() - t)
        return out


with tempfile.TemporaryDirectory() as out:
    args = GRPOConfig(output_dir=out, per_device_train_batch_size=a.completions, gradient_accumulation_steps=1, num_generations=a.group,
                      max_completion_length=a.new, max_steps=a.steps, temperature=1.0, beta=0.0, learning_rate=1e-4,
                      bf16=a.dtype == "bf16", use_cpu=True, report_to=[], logging_steps=1, save_strategy="no",
                      gradient_checkpointing=False, disable_tqdm=True)
    trainer = Timed(model=model, processing_class=tokenizer, reward_funcs=digits, args=args, train_dataset=Dataset.from_list(prompts),
                    callbacks=[Clock()])
    t0 = time.perf_counter()
    trainer.train()
# A step lasts from the end of the step before it, so that its data loading counts.
ends = [end for _, end in stamps]
steps = [b - c for b, c in zip(ends[1:], ends)] or [ends[0] - t0]
step, generate = statistics.median(steps), statistics.median(took["generate"][1:] or took["generate"])
length = [e["completions/mean_length"] for e in trainer.state.log_history if "completions/mean_length" in e][-1]
print(f"trl {trl.__version__} torch {torch.__version__} transformers {transformers.__version__} "
      f"params {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M {a.dtype} threads={a.threads} completions={a.completions} "
      f"mean_length={length:.1f}: step {step:.3f} s (generate and score {generate:.3f}, learn {step - generate:.3f})", flush=True)
