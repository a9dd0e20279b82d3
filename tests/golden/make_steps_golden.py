# make_steps_golden.py - writes ten steps of every algorithm through a model, for test_steps.c. Each has the losses, and every
# parameter's gradient of the first step. All are in f64. TRL's own code gives GRPO's family (GRPOTrainer.compute_loss), DPO, KTO
# and the reward model (DPOTrainer and KTOTrainer._compute_loss, RewardTrainer.compute_loss). Their trainer is a stand-in as in
# make_preference_golden.py. Formulas give SFT (mean cross-entropy), and verl's and OpenRLHF's GAE, value loss, returns and
# clipped loss.
# Made with trl 1.16.0, torch 2.15.0, transformers 5.23.0. usage: python tests/golden/make_steps_golden.py   (from the root)
# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import tempfile
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import Qwen2ForCausalLM, Qwen2ForSequenceClassification

exec(open("tests/golden/make_grpo_golden.py").read().rsplit("main()", 1)[0])  # its trainer, batch and constants
peer = {}  # stand-ins for trainers, and TRL's
exec(open("tests/golden/make_preference_golden.py").read().rsplit("main()", 1)[0], peer)
GRPO, OUT = "tests/data/grpo", "tests/data/steps"
STEPS, LR, EPS, KL = 10, 1e-3, 1e-4, 0.05
num = load_file(f"{GRPO}/golden.safetensors")
N = len(ANSWERS)
prompts = torch.split(num["prompts"].long(), PROMPTS)
answers = torch.split(num["answers"].long(), ANSWERS)
old = [x.double() for x in torch.split(num["old"], ANSWERS)]
SEQ = [torch.cat([prompts[q // GROUP], answers[q]]) for q in range(N)]
SKIP = [len(prompts[q // GROUP]) for q in range(N)]
R = torch.tensor(REWARDS, dtype=torch.float64)


def lm(path=GRPO):
    return Qwen2ForCausalLM.from_pretrained(path, dtype=torch.float32).double()


def logp(model, q, seq=None, skip=None, temperature=1.0):
    seq, skip = (SEQ[q], SKIP[q]) if seq is None else (seq, skip)
    l = torch.log_softmax(model(input_ids=seq[None]).logits[0].double() / temperature, -1)
    return l[skip - 1:-1][torch.arange(len(seq) - skip), seq[skip:]]


def score(model, seq):
    """The head at every position."""
    return model.score(model.model(input_ids=seq[None]).last_hidden_state)[0, :, 0]


def run(name, model, loss_of, out, prefix="", critic=None, critic_loss=None):
    """Adam's steps, and the values for the golden file."""
    params = dict(model.named_parameters())
    adam = torch.optim.AdamW(params.values(), lr=LR, betas=(0.9, 0.95), eps=EPS, weight_decay=0)
    losses, norms = [], []
    for step in range(STEPS):
        adam.zero_grad()
        loss = loss_of()
        loss.backward()
        if step == 0:
            for k, p in params.items():
                out[f"{name}.{prefix}grad.{k}"] = p.grad.clone()
        losses.append(loss.detach()), norms.append(torch.stack([p.grad.norm() for p in params.values()]).norm())
        adam.step()
        yield
    out[f"{name}.{prefix}loss"], out[f"{name}.{prefix}norm"] = torch.stack(losses), torch.stack(norms)
    print(name, prefix, [round(float(x), 6) for x in (losses[0], losses[-1], norms[0], norms[-1])])


def drain(*gens):
    for _ in zip(*gens):
        pass
    for g in gens:
        for _ in g:
            pass


def group_advantages(kind):
    r = R.view(-1, GROUP)
    if kind == "loo":
        return (r - (r.sum(1, keepdim=True) - r) / (GROUP - 1)).flatten()
    a = r - r.mean(1, keepdim=True)
    return (a / (nanstd(r, dim=1, keepdim=True) + 1e-4) if kind == "group" else a).flatten()


def trl_family(name, out, loss_type, adv, level="token", low=LOW, high=HIGH):
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file="tests/data/train/tokenizer.json", pad_token="a", eos_token="b")
        args = GRPOConfig(output_dir=folder, loss_type=loss_type, beta=0.0, epsilon=low, epsilon_high=high,
                          temperature=TEMPERATURE, max_completion_length=MAX_LENGTH, num_generations=GROUP,
                          per_device_train_batch_size=N, gradient_accumulation_steps=1, use_cpu=True, bf16=False,
                          report_to=[], gradient_checkpointing=False, importance_sampling_level=level)
        trainer = GRPOTrainer(model=lm(), reward_funcs=lambda completions, **k: [0.0] * len(completions), args=args,
                              train_dataset=Dataset.from_list([{"prompt": "a"}] * 4), processing_class=tokenizer)
        trainer.current_gradient_accumulation_steps = 1
        inputs = batch(prompts, answers)
        rows = torch.zeros(N, max(ANSWERS), dtype=torch.float64)
        for q in range(N):
            rows[q, :ANSWERS[q]] = old[q]
        inputs |= dict(old_per_token_logps=rows, advantages=adv)
        model = trainer.model.train().double()
        drain(run(name, model, lambda: trainer.compute_loss(model, dict(inputs)), out))


def whiten(a):
    x = torch.cat(a)
    return [(y - x.mean()) / x.var(unbiased=False).clamp(min=1e-8).sqrt() for y in a]


def clip_loss(model, adv, low=LOW, high=HIGH):
    """Token mean of PPO's clipped loss."""
    total = 0
    for q in range(N):
        ratio = torch.exp(logp(model, q, temperature=TEMPERATURE) - old[q])
        total = total + torch.max(-ratio * adv[q], -ratio.clamp(1 - low, 1 + high) * adv[q]).sum()
    return total / sum(ANSWERS)


def token_rewards(ref, reward):
    """OpenRLHF, compute_reward: - beta k1 at each token, the reward at the last."""
    out = []
    for q in range(N):
        with torch.no_grad():
            r = -KL * (old[q] - logp(ref, q, temperature=TEMPERATURE))
        r[-1] += reward[q]
        out.append(r)
    return out


def returns(r):
    return [x.flip(0).cumsum(0).flip(0) for x in r]


def ppo(out, ref):
    policy, critic = lm(), Qwen2ForSequenceClassification.from_pretrained(f"{OUT}/scored", dtype=torch.float32).double()
    state = {}

    def values():
        return [score(critic, SEQ[q])[SKIP[q] - 1:-1] for q in range(N)]

    def actor():
        """GAE with gamma 1, lam 0.95 on the values before the update. V after the last token is 0."""
        with torch.no_grad():
            v = values()
        adv = []
        for q, r in enumerate(token_rewards(ref, R)):
            a, last, nxt = torch.zeros_like(r), 0.0, 0.0
            for t in reversed(range(len(r))):
                last = r[t] + nxt - v[q][t] + 0.95 * last
                a[t], nxt = last, v[q][t]
            adv.append(a)
        state["ret"] = [a + x for a, x in zip(adv, v)]
        return clip_loss(policy, whiten(adv))

    def value_loss():
        return sum(((v - r) ** 2).sum() / 2 for v, r in zip(values(), state["ret"])) / sum(ANSWERS)

    drain(run("ppo", policy, actor, out), run("ppo", critic, value_loss, out, "critic_"))


PAIRS = [(0, 1, 0.25), (3, 5, 0.0)]  # chosen, rejected and margin for one prompt each
LABELS = [(0, 1), (1, 0), (3, 1), (5, 0)]


def padded(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def answers_of(model, which):
    """The inputs of TRL's losses: the answers' log-probs [B, T], a mask, and the model that computed them."""
    x, mask = padded([logp(model, q) for q in which]), padded([torch.ones(ANSWERS[q], dtype=torch.bool) for q in which])
    full = peer["tokens"](mask)
    inputs = dict(input_ids=full, attention_mask=torch.ones_like(full), completion_mask=full)
    return lambda **k: peer["outputs"](x, torch.zeros_like(x), mask), inputs


def given(out, ref):
    model = lm()
    drain(run("sft", model, lambda: -sum(logp(model, q).sum() for q, _ in LABELS) / sum(ANSWERS[q] for q, _ in LABELS), out))
    beside = lambda m: torch.stack([logp(m, 0, torch.cat([prompts[q // GROUP], answers[LABELS[i - 1][0]]]), SKIP[q]).sum()
                                    for i, (q, _) in enumerate(LABELS)])
    chosen, rejected = [w for w, _, _ in PAIRS], [l for _, l, _ in PAIRS]
    with torch.no_grad():
        base = torch.stack([logp(ref, q).sum() for q in range(N)])
        kl_ref = beside(ref)
    dpo, kto = lm(), lm()
    rm = Qwen2ForSequenceClassification.from_pretrained(f"{OUT}/scored", dtype=torch.float32).double()

    def dpo_loss():
        trainer = peer["stand_in"](beta=0.1, loss_types=["sigmoid"], loss_weights=[1.0], ld_alpha=None, use_weighting=False,
                                   f_divergence_type="reverse_kl", label_smoothing=0.0)
        made, inputs = answers_of(dpo, chosen + rejected)
        return peer["DPOTrainer"]._compute_loss(
            trainer, made, inputs | dict(ref_chosen_logps=base[chosen], ref_rejected_logps=base[rejected]), False)

    def kto_loss():
        trainer = peer["stand_in"](beta=0.1, loss_type="kto", calculate_KL=True, desirable_weight=1.0, undesirable_weight=1.0)
        with torch.no_grad():
            trainer._compute_kl_logps = lambda model, batch, kl=beside(kto): kl
        which = [q for q, _ in LABELS]
        made, inputs = answers_of(kto, which)
        inputs |= dict(label=torch.tensor([good for _, good in LABELS]), ref_logps=base[which], ref_KL_logps=kl_ref)
        return peer["KTOTrainer"]._compute_loss(trainer, made, inputs, False)

    def rm_loss():
        trainer = peer["stand_in"](args=SimpleNamespace(center_rewards_coefficient=0.01))
        scores = torch.stack([score(rm, SEQ[q])[-1] for q in chosen + rejected])
        inputs = dict(attention_mask=torch.ones(len(scores), 2), margin=torch.tensor([m for _, _, m in PAIRS], dtype=torch.float64))
        return peer["RewardTrainer"].compute_loss(trainer, lambda **k: SimpleNamespace(logits=scores.unsqueeze(1)), inputs)

    drain(run("dpo", dpo, dpo_loss, out))
    drain(run("kto", kto, kto_loss, out))
    drain(run("rm", rm, rm_loss, out))


# Tokens of the prompt, tokens of the answer, label. Line 1's prompt meets line 0's answer: 20 tokens, though no line has more
# than 13.
UNEVEN = [(2, 11, True), (9, 2, False), (3, 9, True), (10, 1, False)]


def uneven(out, ref):
    """KTO with prompts and answers of different lengths, paired as in trl's kto_trainer.py: completions[-1:] + completions[:-1]."""
    gen = torch.Generator().manual_seed(11)
    token = lambda n: torch.randint(0, SHAPE["vocab_size"], (n,), generator=gen)
    line = [(token(p), token(a), good) for p, a, good in UNEVEN]
    with open(f"{OUT}/uneven.jsonl", "w") as f:
        for p, a, good in line:
            f.write(json.dumps(dict(tokens=p.tolist() + a.tolist(), prompt_tokens=len(p), label=good)) + "\n")
    own = lambda m: [logp(m, 0, torch.cat([p, a]), len(p)) for p, a, _ in line]
    beside = lambda m: torch.stack([logp(m, 0, torch.cat([line[i][0], line[i - 1][1]]), len(line[i][0])).sum() for i in range(len(line))])
    kto = lm()
    with torch.no_grad():
        base, kl_ref = torch.stack([x.sum() for x in own(ref)]), beside(ref)

    def loss():
        trainer = peer["stand_in"](beta=0.1, loss_type="kto", calculate_KL=True, desirable_weight=1.0, undesirable_weight=1.0)
        with torch.no_grad():
            trainer._compute_kl_logps = lambda model, batch, kl=beside(kto): kl
        x = own(kto)
        mask = padded([torch.ones(len(r), dtype=torch.bool) for r in x])
        full, rows = peer["tokens"](mask), padded(x)
        inputs = dict(input_ids=full, attention_mask=torch.ones_like(full), completion_mask=full, ref_logps=base, ref_KL_logps=kl_ref,
                      label=torch.tensor([good for _, _, good in line]))
        return peer["KTOTrainer"]._compute_loss(trainer, lambda **k: peer["outputs"](rows, torch.zeros_like(rows), mask), inputs, False)

    drain(run("kto_uneven", kto, loss, out))


def make_scored(gen):
    model = Qwen2ForSequenceClassification(Qwen2Config(**SHAPE, num_labels=1))
    for name, p in model.named_parameters():
        x = torch.randn(p.shape, generator=gen)
        p.data.copy_((1 + 0.3 * x if "norm" in name else x * (1.3 / p.shape[1] ** 0.5) if p.ndim == 2 else 0.3 * x).to(torch.bfloat16).float())
    os.makedirs(f"{OUT}/scored", exist_ok=True)
    save_file({k: p.detach().to(torch.bfloat16).contiguous() for k, p in model.named_parameters()},
              f"{OUT}/scored/model.safetensors", metadata={"format": "pt"})
    os.chmod(f"{OUT}/scored/model.safetensors", 0o644)
    kept = model.config.to_dict()
    kept.pop("transformers_version", None)
    kept["architectures"] = ["Qwen2ForSequenceClassification"]
    with open(f"{OUT}/scored/config.json", "w") as f:
        json.dump(kept, f, indent=1, sort_keys=True)
        f.write("\n")


def write_lines():
    line = lambda q: SEQ[q].tolist()
    with open(f"{OUT}/pairs.jsonl", "w") as f:
        for w, l, m in PAIRS:
            f.write(json.dumps(dict(chosen_tokens=line(w), rejected_tokens=line(l), prompt_tokens=SKIP[w], margin=m)) + "\n")
    with open(f"{OUT}/labelled.jsonl", "w") as f:
        for q, good in LABELS:
            f.write(json.dumps(dict(tokens=line(q), prompt_tokens=SKIP[q], label=bool(good))) + "\n")


def steps():
    torch.set_num_threads(1)
    make_scored(torch.Generator().manual_seed(5))
    write_lines()
    out, ref = {}, lm(f"{GRPO}/ref")
    group = group_advantages("group")
    trl_family("grpo", out, "dapo", group)
    trl_family("dr_grpo", out, "dr_grpo", group_advantages("mean"))
    trl_family("rloo", out, "dapo", group_advantages("loo"))
    trl_family("gspo", out, "grpo", group, "sequence", 3e-4, 4e-4)
    trl_family("cispo", out, "cispo", group, high=5.0)
    trl_family("sapo", out, "sapo", group)
    trl_family("vespo", out, "vespo", group)
    trl_family("luspo", out, "luspo", group, "sequence", 0.2, 0.2)
    for name, reward in (("reinforce++", R), ("reinforce++-baseline", None)):
        model = lm()
        if reward is None:  # minus the group's mean score, with KL (subtracted before any baseline)
            score_ = torch.stack([x.sum() for x in token_rewards(ref, R)]).view(-1, GROUP)
            reward = R - score_.mean(1, keepdim=True).expand_as(score_).flatten()
        adv = whiten(returns(token_rewards(ref, reward)))
        drain(run(name, model, lambda: clip_loss(model, adv), out))
    model = lm()  # ReMax: verl's clipped loss, with the reward as every token's advantage
    drain(run("remax", model, lambda: clip_loss(model, R), out))
    ppo(out, ref)
    given(out, ref)
    uneven(out, ref)
    save_file({k: v.detach().float().contiguous() for k, v in out.items()}, f"{OUT}/golden.safetensors")
    os.chmod(f"{OUT}/golden.safetensors", 0o644)


steps()
