# make_preference_golden.py - writes TRL's numbers for given log-probs and scores of pairs and labelled answers, and the critic's
# numbers of verl and OpenRLHF, for test_preference.c and test_value.c.
# Made with trl 1.16, torch 2.15, Python 3.11. Run by hand: python tests/golden/make_preference_golden.py tests/data/algo/preference.json (from the root)
# The script calls DPOTrainer._compute_loss, KTOTrainer._compute_loss and RewardTrainer.compute_loss themselves, with stand-ins for
# trainer and model, in f64. There is one optimizer step in one batch. The rest are formulas in float64. Label smoothing and IPO on
# sums are by OpenRLHF 0.11 (loss.py, DPOLoss). The value loss is by OpenRLHF (loss.py, ValueLoss) and verl (core_algos.py,
# compute_value_loss). GAE and ReMax are by verl (core_algos.py, compute_gae_advantage_return, compute_remax_outcome_advantage).
# SPDX-License-Identifier: BSD-3-Clause
import json
import sys
from collections import defaultdict
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.kto_trainer import KTOTrainer
from trl.trainer.reward_trainer import RewardTrainer

LENGTHS = [3, 1, 5, 2, 4, 4]  # chosen, rejected, chosen, ...
LABELS = [1, 0, 0, 1, 1, 0]
MARGINS = [0.0, 0.5, -0.25]
REWARDS = [1.0, 0.0, 0.5, 2.0, 2.0, -1.5]
BASELINES = [0.5, 0.25, -1.0, 2.0, 0.0, 1.0]  # rewards of greedy answers
WIDTH = max(LENGTHS)
ORDER = [0, 2, 4, 1, 3, 5]  # TRL's order has the chosen first
ONE = SimpleNamespace(device="cpu", gather=lambda x: x, gather_for_metrics=lambda x: x)


def f32(t):
    """Values that f32 holds exactly, so both programs read the same numbers."""
    return t.to(torch.float32).to(torch.float64)


def grad_of(value, x, mask):
    (grad,) = torch.autograd.grad(value, x)
    return grad[mask].tolist()


def tokens(mask):
    """Puts a prompt token before each answer, since the trainers shift it away."""
    return torch.cat([torch.zeros(len(mask), 1, dtype=torch.long), mask.long()], 1)


def outputs(logp, ent, mask):
    zero = torch.zeros_like(logp)
    return SimpleNamespace(log_probs=logp * mask, entropy=ent * mask, mean_logits=zero, is_top1=zero.bool())


def numbers(trainer, names):
    metric = trainer._metrics["train"]
    return {ours: metric[theirs][0] for theirs, ours in names.items() if metric[theirs]}


REPORTED = {"rewards/chosen": "chosen", "rewards/rejected": "rejected", "rewards/accuracies": "accuracy",
            "rewards/margins": "margin", "entropy": "entropy"}


def stand_in(**members):
    return SimpleNamespace(accelerator=ONE, model=SimpleNamespace(training=True), aux_loss_enabled=False,
                           precompute_ref_logps=True, _total_train_tokens=0, _tp_size=1,
                           _metrics={"train": defaultdict(list)}, **members)


def dpo(logp, ref, ent, mask, beta, types, weights):
    trainer = stand_in(beta=beta, loss_types=types, loss_weights=weights, ld_alpha=None, use_weighting=False,
                       f_divergence_type="reverse_kl", label_smoothing=0.0)
    x = logp.clone().requires_grad_(True)
    full = tokens(mask[ORDER])
    sums = (ref * mask).sum(1)
    inputs = dict(input_ids=full, attention_mask=torch.ones_like(full), completion_mask=full,
                  ref_chosen_logps=sums[0::2], ref_rejected_logps=sums[1::2])
    model = lambda **k: outputs(x[ORDER], ent[ORDER], mask[ORDER])
    value = DPOTrainer._compute_loss(trainer, model, inputs, False)
    return dict(loss=value.item(), grad=grad_of(value, x, mask), **numbers(trainer, REPORTED))


def dpo_formula(logp, ref, mask, beta, loss, smoothing):
    x = logp.clone().requires_grad_(True)
    ratio = ((x - ref) * mask).sum(1)
    h = ratio[0::2] - ratio[1::2]
    if loss == "ipo":
        value = ((h - 1 / (2 * beta)) ** 2).mean()
    else:
        value = (-(1 - smoothing) * F.logsigmoid(beta * h) - smoothing * F.logsigmoid(-beta * h)).mean()
    return dict(loss=value.item(), grad=grad_of(value, x, mask))


def kto(logp, ref, ent, beside, beside_ref, mask, beta, good, bad):
    trainer = stand_in(beta=beta, loss_type="kto", calculate_KL=True, desirable_weight=good, undesirable_weight=bad)
    trainer._compute_kl_logps = lambda model, batch: (beside * mask).sum(1)
    x = logp.clone().requires_grad_(True)
    full = tokens(mask)
    inputs = dict(input_ids=full, attention_mask=torch.ones_like(full), completion_mask=full,
                  label=torch.tensor(LABELS), ref_logps=(ref * mask).sum(1), ref_KL_logps=(beside_ref * mask).sum(1))
    value = KTOTrainer._compute_loss(trainer, lambda **k: outputs(x, ent, mask), inputs, False)
    z = trainer._metrics["train"]["kl"][0]
    return dict(z=z, loss=value.item(), grad=grad_of(value, x, mask), **numbers(trainer, REPORTED))


def reward(score, margins, centering):
    trainer = stand_in(args=SimpleNamespace(center_rewards_coefficient=centering or None))
    x = score.clone().requires_grad_(True)
    inputs = dict(attention_mask=torch.ones(6, 2))
    if margins:
        inputs["margin"] = torch.tensor(MARGINS, dtype=torch.float64)
    model = lambda **k: SimpleNamespace(logits=x[ORDER].unsqueeze(1))
    value = RewardTrainer.compute_loss(trainer, model, inputs)
    return dict(loss=value.item(), grad=torch.autograd.grad(value, x)[0].tolist(),
                **numbers(trainer, {"accuracy": "accuracy", "margin": "margin"}))


def value_loss(v, old, ret, mask, clip):
    x = v.clone().requires_grad_(True)
    near = old + (x - old).clamp(-clip, clip)
    plain, bounded = (x - ret) ** 2, (near - ret) ** 2
    n = mask.sum()
    value = 0.5 * (torch.max(plain, bounded) * mask).sum() / n
    share = ((bounded > plain) * mask).sum() / n
    return dict(clip=clip, loss=value.item(), share=share.item(), ret=((ret * mask).sum() / n).item(),
                grad=grad_of(value, x, mask))


def token_rewards(old, ref, mask, beta):
    r = -beta * (old - ref) * mask
    for q, n in enumerate(LENGTHS):
        r[q, n - 1] += REWARDS[q]
    return r


def gae(r, v, mask, gamma, lam):
    adv, running, following = torch.zeros_like(r), torch.zeros(len(r), dtype=r.dtype), torch.zeros(len(r), dtype=r.dtype)
    m = mask.to(r.dtype)
    for t in reversed(range(WIDTH)):
        step = r[:, t] + gamma * following - v[:, t] + gamma * lam * running
        running = step * m[:, t] + running * (1 - m[:, t])
        following = v[:, t] * m[:, t] + following * (1 - m[:, t])
        adv[:, t] = running
    return adv, adv + v


def main():
    torch.manual_seed(7)
    torch.set_default_dtype(torch.float64)
    shape = (len(LENGTHS), WIDTH)
    mask = torch.arange(WIDTH).unsqueeze(0) < torch.tensor(LENGTHS).unsqueeze(1)
    draw = lambda base, spread: f32(base + spread * torch.randn(shape))
    logp = f32(-3 * torch.rand(shape) - 0.01)
    ref, old = draw(logp, 0.5), draw(logp, 0.3)
    beside = f32(-4 * torch.rand(shape) - 0.01)
    near, far = draw(beside, 0.4), f32(beside + torch.rand(shape))  # one gives z above 0, the other 0
    ent = f32(torch.rand(shape))
    v, v_old, ret = draw(0, 1), draw(0, 1), draw(0.5, 1)
    v_old = torch.where(torch.rand(shape) < 0.5, f32(v + 0.1 * v_old), v_old)
    score = f32(torch.randn(6))
    if ((beside - near) * mask).sum() < 0:
        near = f32(2 * beside - near)
    flat = lambda t: t[mask].tolist()
    out = dict(lengths=LENGTHS, labels=LABELS, margins=MARGINS, rewards=REWARDS, baselines=BASELINES, logp=flat(logp),
               ref=flat(ref), old=flat(old), ent=flat(ent), beside=flat(beside), near=flat(near), far=flat(far),
               value=flat(v), old_value=flat(v_old), ret=flat(ret), score=score.tolist(), dpo=[], kto=[], rm=[], values=[], gae=[], greedy=[])
    # our options, then TRL's loss types
    for beta in (0.1, 1.5):
        for loss, sft, normal, types, weights in (
                ("sigmoid", 0.0, False, ["sigmoid"], [1.0]), ("sigmoid", 0.0, True, ["sigmoid_norm"], [1.0]),
                ("ipo", 0.0, True, ["ipo"], [1.0]), ("sigmoid", 0.25, False, ["sigmoid", "sft"], [1.0, 0.25])):
            out["dpo"].append(dict(beta=beta, dpo_loss=loss, sft_coef=sft, length_normalize=normal, label_smoothing=0.0,
                                   **dpo(logp, ref, ent, mask, beta, types, weights)))
        for loss, smoothing in (("sigmoid", 0.1), ("ipo", 0.0)):
            out["dpo"].append(dict(beta=beta, dpo_loss=loss, sft_coef=0.0, length_normalize=False,
                                   label_smoothing=smoothing, **dpo_formula(logp, ref, mask, beta, loss, smoothing)))
        for name, other in (("near", near), ("far", far)):
            for good, bad in ((1.0, 1.0), (1.25, 0.5)):
                out["kto"].append(dict(beta=beta, beside_ref=name, desirable_weight=good, undesirable_weight=bad,
                                       **kto(logp, ref, ent, beside, other, mask, beta, good, bad)))
    for margins in (False, True):
        for centering in (0.0, 0.05):
            out["rm"].append(dict(margins=margins, centering_coef=centering, **reward(score, margins, centering)))
    for clip in (0.05, 0.2, 100.0):
        out["values"].append(value_loss(v, v_old, ret, mask, clip))
    for beta in (0.0, 0.1):
        r = token_rewards(old, ref, mask, beta)
        for gamma, lam in ((1.0, 1.0), (1.0, 0.95), (0.9, 0.8), (1.0, 0.0)):
            adv, returns = gae(r, v, mask, gamma, lam)
            out["gae"].append(dict(beta=beta, gamma=gamma, lam=lam, adv=flat(adv), ret=flat(returns)))
        to_go = r.flip(1).cumsum(1).flip(1) - torch.tensor(BASELINES).unsqueeze(1)
        out["greedy"].append(dict(beta=beta, adv=flat(to_go)))
    with open(sys.argv[1], "w") as f:
        lists = ("dpo", "kto", "rm", "values", "gae", "greedy")
        head = {k: v for k, v in out.items() if k not in lists}
        body = [f'"{k}": [\n' + ",\n".join(json.dumps(c) for c in out[k]) + "\n]" for k in lists]
        f.write(json.dumps(head)[:-1] + ",\n" + ",\n".join(body) + "}\n")


main()
