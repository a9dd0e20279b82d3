# make_algo_golden.py - what TRL's GRPOTrainer makes of given log-probs, for test_algo.c.
# Made with trl 1.16, torch 2.15, Python 3.11. Run by hand: python tests/golden/make_algo_golden.py tests/data/algo/grpo.json (from the root)
# GRPOTrainer._compute_loss itself is called, on a stand-in for the trainer, in f64; one optimizer step in one batch, no
# accumulation. The advantages are by the lines of GRPOTrainer._generate_and_score_completions (nanstd is TRL's).
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
    """Values that an f32 holds exactly, so that both programs see the same numbers."""
    return t.to(torch.float32).to(torch.float64)


def advantages(scale):
    r = torch.tensor(REWARDS, dtype=torch.float64)
    a = r - r.view(-1, GROUP).nanmean(dim=1).repeat_interleave(GROUP)
    if scale == "group":
        a = a / (nanstd(r.view(-1, GROUP), dim=1).repeat_interleave(GROUP) + 1e-4)
    if scale == "batch":
        a = a / (nanstd(r).expand_as(r) + 1e-4)
    return a


def loss(logp, old, ref, ent, mask, adv, loss_type, beta, low, high):
    n = int(mask.sum())
    identity = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, ent, None), aux_loss_enabled=False,
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, importance_sampling_level="token", beta=beta,
        args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1), loss_type=loss_type,
        epsilon_low=low, epsilon_high=high, use_vllm=False, current_gradient_accumulation_steps=1,
        model=SimpleNamespace(training=True), max_completion_length=MAX_LENGTH, accelerator=identity,
        _entropy_bonus_enabled=False, _metrics={"train": defaultdict(list)})
    ids = torch.zeros_like(mask)
    inputs = dict(prompt_ids=ids[:, :1], prompt_mask=mask[:, :1], completion_ids=ids, completion_mask=mask,
                  advantages=adv, old_per_token_logps=old, ref_per_token_logps=ref,
                  num_items_in_batch=torch.tensor(float(n)))
    value = GRPOTrainer._compute_loss(trainer, None, inputs)
    (grad,) = torch.autograd.grad(value, logp)
    metric = trainer._metrics["train"]
    return dict(loss=value.item(), dlogp=grad[mask.bool()].tolist(), clip_ratio=metric["clip_ratio/region_mean"][0],
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
    flat = lambda t: t[mask.bool()].tolist()
    out = dict(lengths=LENGTHS, group=GROUP, max_length=MAX_LENGTH, rewards=REWARDS, logp=flat(logp),
               old_logp=flat(old), ref_logp=flat(ref), ent=flat(ent),
               advantages={s: advantages(s).tolist() for s in ("group", "batch", "none")},
               cases=[])
    adv = f32(advantages("group"))
    for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo"):
        for beta in (0.0, 0.04):
            for low, high in ((0.2, 0.2), (0.2, 0.28)):
                for off_policy in (False, True):
                    x = logp.clone().requires_grad_(True)
                    r = loss(x, old if off_policy else logp, ref, ent, mask, adv, loss_type, beta, low, high)
                    out["cases"].append(dict(loss_type=loss_type, beta=beta, low=low, high=high,
                                             off_policy=off_policy, **r))
    with open(sys.argv[1], "w") as f:
        head = {k: v for k, v in out.items() if k != "cases"}
        f.write(json.dumps(head)[:-1] + ',\n"cases": [\n' + ",\n".join(json.dumps(c) for c in out["cases"]) + "\n]}\n")


main()
