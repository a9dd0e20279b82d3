# make_algo_golden.py - writes TRL's GRPOTrainer numbers for given log-probs, for test_advantage.c and test_loss.c.
# Made with trl 1.16, torch 2.15, Python 3.11. Run by hand: python tests/golden/make_algo_golden.py tests/data/algo/grpo.json (from the root)
# The script calls GRPOTrainer._compute_loss itself, with a stand-in for the trainer, in f64. There is one optimizer step in one
# batch, without accumulation. A group's advantages use the lines of GRPOTrainer._generate_and_score_completions (nanstd is TRL's).
# Leave-one-out uses the lines of RLOOTrainer. Returns and whitening use the formulas of OpenRLHF 0.11 (experience_maker.py,
# get_cumulative_returns, compute_advantages_and_returns). The dual clip uses verl's (core_algos.py, compute_policy_loss). All are
# in float64.
# SPDX-License-Identifier: BSD-3-Clause
import json
import sys
from collections import defaultdict
from types import SimpleNamespace

import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import nanstd

LENGTHS = [3, 1, 5, 2, 4, 4]  # two groups of three answers
GROUP, MAX_LENGTH = 3, 6
REWARDS = [1.0, 0.0, 0.5, 2.0, 2.0, -1.5]


def f32(t):
    """Values that f32 holds exactly, so both programs read the same numbers."""
    return t.to(torch.float32).to(torch.float64)


def advantages(scale):
    r = torch.tensor(REWARDS, dtype=torch.float64)
    a = r - r.view(-1, GROUP).nanmean(dim=1).repeat_interleave(GROUP)
    if scale == "group":
        a = a / (nanstd(r.view(-1, GROUP), dim=1).repeat_interleave(GROUP) + 1e-4)
    if scale == "batch":
        a = a / (nanstd(r).expand_as(r) + 1e-4)
    return a


def token_rewards(kl, score, beta):
    """OpenRLHF, compute_reward: - beta k1 at every token, the score at the last."""
    r = -beta * kl
    for q, n in enumerate(LENGTHS):
        r[q, n - 1] += score[q]
    return r


def returns(r, gamma):
    """OpenRLHF, get_cumulative_returns."""
    out = torch.zeros_like(r)
    for q, n in enumerate(LENGTHS):
        sum = 0.0
        for t in reversed(range(n)):
            sum = gamma * sum + r[q, t]
            out[q, t] = sum
    return out


def whiten(a, mask):
    """OpenRLHF, compute_advantages_and_returns. The variance is biased, and at least 1e-8."""
    n = mask.sum()
    mean = (a * mask).sum() / n
    var = ((a - mean).pow(2) * mask).sum() / n
    return (a - mean) * var.clamp(min=1e-8).rsqrt()


def shaped(old, ref, mask):
    """Advantages per token as (name, gamma, beta of a k1 in the reward, whitened, numbers)."""
    score, kl, cases = torch.tensor(REWARDS, dtype=torch.float64), (old - ref) * mask, []
    for beta in (0.0, 0.1):
        total = score - beta * kl.sum(1)
        group = total.view(-1, GROUP)
        others = (group.sum(1, keepdim=True) - group) / (GROUP - 1)  # RLOOTrainer
        spread = (total - others.view(-1)).unsqueeze(1) * mask
        mean = group.mean(1).repeat_interleave(GROUP)
        for gamma in (1.0, 0.9):
            bare = returns(token_rewards(kl, score, beta), gamma)
            compared = returns(token_rewards(kl, score - mean, beta), gamma)
            rows = [("return", bare), ("group-return", compared)] + ([("leave-one-out", spread)] if gamma == 1 else [])
            for name, a in rows:
                for white in (False, True):
                    x = whiten(a, mask) if white else a
                    cases.append(dict(name=name, gamma=gamma, beta=beta, whiten=white, adv=x[mask.bool()].tolist()))
    return cases


def dual_clip(logp, old, mask, adv, low, high, c):
    """verl, compute_policy_loss, token-mean, without its clamp of the log ratio at 20."""
    ratio, a = torch.exp(logp - old), adv.unsqueeze(1)
    most = torch.maximum(-a * ratio, -a * torch.clamp(ratio, 1 - low, 1 + high))
    value = (torch.where(a < 0, torch.minimum(most, -a * c), most) * mask).sum() / mask.sum()
    (grad,) = torch.autograd.grad(value, logp)
    return dict(loss=value.item(), dlogp=grad[mask.bool()].tolist())


def correction(old, roll, mask, cap, mode):
    """GRPOTrainer, vllm_importance_sampling_ratio of token_truncate and token_mask."""
    w = torch.exp((old - roll) * mask)
    return torch.clamp(w, max=cap) if mode == "truncate" else w.masked_fill(w > cap, value=0.0)


def loss(logp, old, ref, ent, mask, adv, loss_type, beta, low, high, level="token", quantile=1.0, bias=False, w=None):
    n = int(mask.sum())
    identity = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x,
                               pad_across_processes=lambda x, dim, pad_index: x)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, ent, None), aux_loss_enabled=False,
        top_entropy_quantile=quantile, off_policy_mask_threshold=None, importance_sampling_level=level, beta=beta,
        args=SimpleNamespace(use_bias_correction_kl=bias, delta=None, steps_per_generation=1, sapo_temperature_pos=1.0,
                             sapo_temperature_neg=1.05, vespo_k_pos=2.0, vespo_lambda_pos=3.0, vespo_k_neg=3.0,
                             vespo_lambda_neg=2.0), loss_type=loss_type,
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        epsilon_low=low, epsilon_high=high, use_vllm=w is not None, vllm_importance_sampling_correction=True, current_gradient_accumulation_steps=1,
        model=SimpleNamespace(training=True), max_completion_length=MAX_LENGTH, accelerator=identity,
        _entropy_bonus_enabled=False, _metrics={"train": defaultdict(list)})
    trainer.get_high_entropy_mask = lambda e, m, t: GRPOTrainer.get_high_entropy_mask(trainer, e, m, t)
    ids = torch.zeros_like(mask)
    inputs = dict(prompt_ids=ids[:, :1], prompt_mask=mask[:, :1], completion_ids=ids, completion_mask=mask,
                  advantages=adv, old_per_token_logps=old, ref_per_token_logps=ref,
                  num_items_in_batch=torch.tensor(float(n)))
    if w is not None:
        inputs["importance_sampling_ratio"] = w
    value = GRPOTrainer._compute_loss(trainer, None, inputs)
    (grad,) = torch.autograd.grad(value, logp)
    metric = trainer._metrics["train"]
    clipped = metric["cispo_clip_ratio"] or metric["clip_ratio/region_mean"]
    return dict(loss=value.item(), dlogp=grad[mask.bool()].tolist(), clip_ratio=clipped[0] if clipped else None,
                kl=metric["kl"][0] if beta else None)


def main():
    torch.manual_seed(5)
    shape = (len(LENGTHS), max(LENGTHS))
    mask = torch.zeros(shape, dtype=torch.long)
    for q, n in enumerate(LENGTHS):
        mask[q, :n] = 1
    old = f32(-3 * torch.rand(shape) - 0.01)
    logp = f32(old + 0.3 * torch.randn(shape))
    ref = f32(old + 0.5 * torch.randn(shape))
    ent = f32(torch.rand(shape))
    roll = f32(old + 0.3 * torch.randn(shape))
    flat = lambda t: t[mask.bool()].tolist()
    out = dict(lengths=LENGTHS, group=GROUP, max_length=MAX_LENGTH, rewards=REWARDS, logp=flat(logp),
               old_logp=flat(old), ref_logp=flat(ref), ent=flat(ent), roll_logp=flat(roll),
               advantages={s: advantages(s).tolist() for s in ("group", "batch", "none")},
               cases=[], losses=[], options=[], shaped=shaped(old, ref, mask))
    adv = f32(advantages("group"))
    for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo"):
        for beta in (0.0, 0.04):
            for low, high in ((0.2, 0.2), (0.2, 0.28)):
                for off_policy in (False, True):
                    x = logp.clone().requires_grad_(True)
                    r = loss(x, old if off_policy else logp, ref, ent, mask, adv, loss_type, beta, low, high)
                    out["cases"].append(dict(loss_type=loss_type, beta=beta, low=low, high=high,
                                             off_policy=off_policy, **r))
    torch.set_default_dtype(torch.float64)  # TRL turns sapo's temperatures into a tensor, and f32 would round them
    # our policy loss, TRL's loss_type and level, and the clips. "grpo" averages the sequences' means over their tokens
    for policy_loss, loss_type, level, low, high in (
            ("sequence", "grpo", "sequence", 3e-4, 4e-4), ("sequence", "grpo", "sequence", 0.05, 0.1),
            ("luspo", "luspo", "sequence", 0.2, 0.2), ("luspo", "luspo", "sequence", 0.05, 0.1),
            ("cispo", "cispo", "token", 0.2, 5.0), ("cispo", "cispo", "token", 0.2, 1.1),
            ("sapo", "sapo", "token", 0.2, 0.2), ("vespo", "vespo", "token", 0.2, 0.2)):
        for beta in (0.0, 0.04):
            x = logp.clone().requires_grad_(True)
            r = loss(x, old, ref, ent, mask, adv, loss_type, beta, low, high, level)
            out["losses"].append(dict(policy_loss=policy_loss, dual_clip=0.0, beta=beta, low=low, high=high, **r))
    for c in (1.05, 3.0):
        x = logp.clone().requires_grad_(True)
        r = dual_clip(x, old, mask, adv, 0.2, 0.2, c)
        out["losses"].append(dict(policy_loss="clip", dual_clip=c, beta=0.0, low=0.2, high=0.2, clip_ratio=None, kl=None, **r))
    # each option alone, then all together: share of tokens, KL times the ratio, cap and mode of the correction, beta
    for policy_loss, loss_type, level, low, high in (
            ("clip", "grpo", "token", 0.2, 0.28), ("sequence", "grpo", "sequence", 0.05, 0.1),
            ("luspo", "luspo", "sequence", 0.2, 0.2), ("cispo", "cispo", "token", 0.2, 1.1),
            ("sapo", "sapo", "token", 0.2, 0.2), ("vespo", "vespo", "token", 0.2, 0.2)):
        for quantile, bias, cap, mode, beta in (
                (0.3, False, 0.0, "truncate", 0.0), (0.75, False, 0.0, "truncate", 0.04), (1.0, True, 0.0, "truncate", 0.04),
                (1.0, False, 1.1, "truncate", 0.04), (1.0, False, 1.1, "mask", 0.0), (0.5, True, 1.1, "mask", 0.04)):
            x = logp.clone().requires_grad_(True)
            w = correction(old, roll, mask, cap, mode) if cap else None
            r = loss(x, old, ref, ent, mask, adv, loss_type, beta, low, high, level, quantile, bias, w)
            out["options"].append(dict(policy_loss=policy_loss, beta=beta, low=low, high=high, quantile=quantile, bias=bias,
                                       cap=cap, mode=mode, **r))
    with open(sys.argv[1], "w") as f:
        lists = ("cases", "losses", "options", "shaped")
        head = {k: v for k, v in out.items() if k not in lists}
        body = [f'"{k}": [\n' + ",\n".join(json.dumps(c) for c in out[k]) + "\n]" for k in lists]
        f.write(json.dumps(head)[:-1] + ",\n" + ",\n".join(body) + "}\n")


main()
