# make_grpo_golden.py - writes loss and gradients of TRL's GRPOTrainer on given tokens, through a model. For test_grpo.c.
# The trainer is a real one. The script calls compute_loss with its own inputs, in f64. Made with trl 1.16.0, torch 2.15.0,
# transformers 5.23.0. usage: python tests/golden/make_grpo_golden.py   (from the repository's root)
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import tempfile

import torch
from datasets import Dataset
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import nanstd

OUT = "tests/data/grpo"
PROMPTS, GROUP = [3, 7], 3
ANSWERS = [9, 1, 5, 2, 7, 4]
REWARDS = [1.0, 0.0, 0.25, 2.0, 2.0, -1.5]
MAX_LENGTH, TEMPERATURE = 12, 0.9
LOW, HIGH = 0.2, 0.28
CASES = [("grpo", 0.0), ("grpo", 0.05), ("bnpo", 0.0), ("bnpo", 0.05), ("dapo", 0.05), ("dr_grpo", 0.0),
         ("dr_grpo", 0.05)]
WHOLE = ["grpo.0.0", "grpo.0.05", "bnpo.0.05", "dr_grpo.0.0", "dr_grpo.0.05"]  # every gradient, for the others only its norm
SHAPE = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
             max_position_embeddings=32, vocab_size=24, tie_word_embeddings=True, rope_theta=10000.0, rms_norm_eps=1e-6,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)


def make_model(folder, gen, near=None):
    model = Qwen2ForCausalLM._from_config(Qwen2Config(**SHAPE), attn_implementation="sdpa")
    for name, p in model.named_parameters():
        x = torch.randn(p.shape, generator=gen)
        x = 1 + 0.3 * x if "norm" in name else x * (1.3 / p.shape[1] ** 0.5) if p.ndim == 2 else 0.3 * x
        if near is not None:
            x = dict(near.named_parameters())[name].float() + 0.1 * (x - 1 if "norm" in name else x)
        p.data.copy_(x.to(torch.bfloat16).float())
    os.makedirs(folder, exist_ok=True)
    save_file({k: p.detach().to(torch.bfloat16).contiguous() for k, p in model.named_parameters()},
              f"{folder}/model.safetensors", metadata={"format": "pt"})
    os.chmod(f"{folder}/model.safetensors", 0o644)
    kept = model.config.to_dict()
    kept.pop("transformers_version", None)
    with open(f"{folder}/config.json", "w") as f:
        json.dump(kept, f, indent=1, sort_keys=True)
        f.write("\n")
    return model.double()


def batch(prompts, answers):
    """Left-padded prompts and right-padded answers, as in the trainer."""
    width, long = max(PROMPTS), max(ANSWERS)
    ids, mask = torch.zeros(len(answers), width, dtype=torch.long), torch.zeros(len(answers), width, dtype=torch.long)
    out, out_mask = torch.zeros(len(answers), long, dtype=torch.long), torch.zeros(len(answers), long, dtype=torch.long)
    for q, a in enumerate(answers):
        p = prompts[q // GROUP]
        ids[q, width - len(p):], mask[q, width - len(p):] = p, 1
        out[q, :len(a)], out_mask[q, :len(a)] = a, 1
    return dict(prompt_ids=ids, prompt_mask=mask, completion_ids=out, completion_mask=out_mask,
                num_items_in_batch=out_mask.sum())


def logp_of(model, prompts, answers):
    """Padded [B, T] log-probabilities at TEMPERATURE, one sequence at a time."""
    rows = torch.zeros(len(answers), max(ANSWERS), dtype=torch.float64)
    for q, a in enumerate(answers):
        p = prompts[q // GROUP]
        with torch.no_grad():
            lp = torch.log_softmax(model(input_ids=torch.cat([p, a])[None]).logits[0].double() / TEMPERATURE, -1)
        rows[q, :len(a)] = lp[len(p) - 1:-1][torch.arange(len(a)), a]
    return rows


def make_trainer(model, folder, loss_type, beta):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file="tests/data/train/tokenizer.json", pad_token="a", eos_token="b")
    args = GRPOConfig(output_dir=folder, loss_type=loss_type, beta=0.0, epsilon=LOW, epsilon_high=HIGH,
                      temperature=TEMPERATURE, max_completion_length=MAX_LENGTH, num_generations=GROUP,
                      per_device_train_batch_size=len(ANSWERS), gradient_accumulation_steps=1, use_cpu=True, bf16=False,
                      report_to=[], gradient_checkpointing=False,
                      use_bias_correction_kl=False)  # kl_coef times the estimator, as in GRPO's paper
    trainer = GRPOTrainer(model=model, reward_funcs=lambda completions, **k: [0.0] * len(completions), args=args,
                          train_dataset=Dataset.from_list([{"prompt": "a"}] * 4), processing_class=tokenizer)
    trainer.current_gradient_accumulation_steps = 1
    trainer.beta = beta  # set late, so TRL loads no reference (its log-probabilities are inputs)
    return trainer


def main():
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(3)
    policy = make_model(OUT, gen)
    ref = make_model(f"{OUT}/ref", gen, near=policy)
    prompts = [torch.randint(0, SHAPE["vocab_size"], (n,), generator=gen) for n in PROMPTS]
    answers = [torch.randint(0, SHAPE["vocab_size"], (n,), generator=gen) for n in ANSWERS]
    inputs = batch(prompts, answers)
    flat = lambda x: x[inputs["completion_mask"].bool()]
    old = (logp_of(policy, prompts, answers) + 0.6 * torch.randn(len(ANSWERS), max(ANSWERS), generator=gen)).clamp(max=-1e-3)
    old = old.float().double()
    ratio = torch.exp(flat(logp_of(policy, prompts, answers) - old))
    assert min((ratio - 1 + LOW).abs().min(), (ratio - 1 - HIGH).abs().min()) > 1e-4
    assert (ratio > 1 + HIGH).any() and (ratio < 1 - LOW).any()
    r = torch.tensor(REWARDS, dtype=torch.float64).view(-1, GROUP)
    adv = ((r - r.mean(1, keepdim=True)) / (nanstd(r, dim=1, keepdim=True) + 1e-4)).flatten()
    inputs |= dict(old_per_token_logps=old, advantages=adv, ref_per_token_logps=logp_of(ref, prompts, answers))
    out = {"prompts": torch.cat(prompts), "prompt_lengths": torch.tensor(PROMPTS), "answers": torch.cat(answers),
           "answer_lengths": torch.tensor(ANSWERS), "rewards": r.flatten(), "old": flat(old),
           "ref": flat(inputs["ref_per_token_logps"]), "advantages": adv}
    for loss_type, beta in CASES:
        with tempfile.TemporaryDirectory() as folder:
            trainer = make_trainer(policy, folder, loss_type, beta)
            model = trainer.model.train().double()
            model.zero_grad()
            loss = trainer.compute_loss(model, dict(inputs))
            loss.backward()
            case = f"{loss_type}.{beta}"
            grads = {k: p.grad for k, p in model.named_parameters()}
            out[f"{case}.loss"] = loss.detach()[None]
            out[f"{case}.norm"] = torch.stack([g.norm() for g in grads.values()]).norm()[None]
            for k, g in grads.items() if case in WHOLE else ():
                out[f"{case}.grad.{k}"] = g
            print(case, loss.item(), out[f"{case}.norm"].item(), loss.dtype)
    save_file({k: v.detach().float().contiguous() for k, v in out.items()}, f"{OUT}/golden.safetensors")
    os.chmod(f"{OUT}/golden.safetensors", 0o644)


main()
