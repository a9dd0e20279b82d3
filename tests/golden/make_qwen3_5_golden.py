# make_qwen3_5_golden.py - writes small models of the family qwen3_5 (layers with a gated delta rule beside layers with attention),
# and their numbers in float64: logits, log-probabilities, gradients, ten AdamW steps, greedy answers, low-rank adapters.
# The rule is written out here, one token after the other. Transformers only checks it. The script prints the float32 errors of its two
# forms (chunked and recurrent) against float64, and stops if they disagree. README.md here has these numbers, and the files' contents.
# Written with torch 2.15.0, transformers 5.24.0, peft 0.21.2, safetensors 0.8.
# usage: python tests/golden/make_qwen3_5_golden.py [NAME ...]     (from the root: all models, or only these)
# SPDX-License-Identifier: BSD-3-Clause
import json
import math
import os
import sys

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.qwen3_5 import modeling_qwen3_5 as theirs

OUT, LORA = "tests/data/model", "tests/data/lora/qwen3_5"
LENGTHS = [1, 3, 63, 64, 65, 130, 191]  # packed sequences, around the 64 rows of a chunk
LOOK = [0, 1, 2, 3, 61, 62, 63, 64, 65, 126, 127, 128, 129, 130]  # rows of the last sequence whose logits are kept
STEPS, STEP_LENGTHS = 10, [11, 70]
PROMPTS = [1, 2, 6, 31, 32, 33, 34, 70]  # lengths, with pages of 32 tokens
NEW = 40
INV_TEMPERATURE = 1.25
LORA_LENGTHS = [1, 2, 7, 37]
FULL, LINEAR = "full_attention", "linear_attention"

# Fields of all published files. Sizes are smaller here.
TEXT = dict(attention_bias=False, attention_dropout=0.0, eos_token_id=None, hidden_act="silu", hidden_size=48, initializer_range=0.02,
            linear_conv_kernel_dim=4, max_position_embeddings=256, model_type="qwen3_5_text", num_hidden_layers=4, rms_norm_eps=1e-06,
            use_cache=True)


def rope(theta, part, section):
    return dict(mrope_interleaved=True, mrope_section=section, partial_rotary_factor=part, rope_theta=theta, rope_type="default")


MODELS = {
    # As published: every fourth layer attends, a quarter of each head is rotated, two value heads per key head, two query heads per
    # key head. The text model lies inside a model for text and images, with one layer of multi-token prediction.
    "qwen3_5_half": dict(
        architectures=["Qwen3_5ForConditionalGeneration"], model_type="qwen3_5", tie_word_embeddings=False, image_token_id=140,
        video_token_id=141, vision_start_token_id=142, vision_end_token_id=143, transformers_version="4.57.0.dev0",
        text_config=dict(TEXT, attn_output_gate=True, dtype="bfloat16", full_attention_interval=4, head_dim=16, intermediate_size=32,
                         layer_types=[LINEAR, LINEAR, LINEAR, FULL], linear_key_head_dim=8, linear_num_key_heads=2,
                         linear_num_value_heads=4, linear_value_head_dim=8, mamba_ssm_dtype="float32", mlp_only_layers=[],
                         mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, num_attention_heads=4, num_key_value_heads=2,
                         rope_parameters=rope(10000000, 0.25, [1, 1, 0]), tie_word_embeddings=False, vocab_size=144),
        vision_config=dict(deepstack_visual_indexes=[], depth=1, hidden_act="gelu_pytorch_tanh", hidden_size=8, in_channels=3,
                           initializer_range=0.02, intermediate_size=12, model_type="qwen3_5", num_heads=2, num_position_embeddings=4,
                           out_hidden_size=48, patch_size=2, spatial_merge_size=2, temporal_patch_size=2)),
    # Every second layer attends, the head is the embedding, as many value heads as key heads, wider than 16 columns. The file has
    # the interval and no list of layers.
    "qwen3_5_tied": dict(
        TEXT, architectures=["Qwen3_5ForCausalLM"], full_attention_interval=2, head_dim=16, intermediate_size=28, linear_key_head_dim=24,
        linear_num_key_heads=2, linear_num_value_heads=2, linear_value_head_dim=24, num_attention_heads=3, num_key_value_heads=1,
        rope_parameters=rope(10000.0, 0.25, [1, 1, 0]), tie_word_embeddings=True, vocab_size=160),
    # Keys wider than values, half of each head is rotated, four value heads per key head. The list of layers follows no interval.
    "qwen3_5_wide": dict(
        TEXT, architectures=["Qwen3_5ForCausalLM"], head_dim=12, intermediate_size=24, layer_types=[LINEAR, FULL, LINEAR, LINEAR],
        linear_key_head_dim=12, linear_num_key_heads=2, linear_num_value_heads=8, linear_value_head_dim=6, num_attention_heads=4,
        num_key_value_heads=2, rope_parameters=rope(100.0, 0.5, [1, 1, 1]), rms_norm_eps=1e-05, tie_word_embeddings=False,
        vocab_size=144),
}
# Chosen: with others a row where o is almost 0 may multiply roundings, so that float32 loses another digit in ten steps.
SEEDS = {"qwen3_5_half": 502, "qwen3_5_tied": 503, "qwen3_5_wide": 501}
ADAPTED = ("qwen3_5_half", dict(r=2, lora_alpha=3, target_modules="all-linear"))


# ---- the model's tensors ----

def text_of(config):
    return config.get("text_config", config)


def kinds_of(c):
    """The kind of each layer."""
    each = c.get("full_attention_interval", 4)
    return c.get("layer_types") or [LINEAR if (i + 1) % each else FULL for i in range(c["num_hidden_layers"])]


def attention_shapes(c, at):
    C, D, q, k = c["hidden_size"], c["head_dim"], c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    return {f"{at}.self_attn.q_proj.weight": (2 * q, C), f"{at}.self_attn.k_proj.weight": (k, C), f"{at}.self_attn.v_proj.weight": (k, C),
            f"{at}.self_attn.o_proj.weight": (C, q), f"{at}.self_attn.q_norm.weight": (D,), f"{at}.self_attn.k_norm.weight": (D,)}


def delta_shapes(c, at):
    C, Hv, Dv = c["hidden_size"], c["linear_num_value_heads"], c["linear_value_head_dim"]
    M = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + Hv * Dv
    return {f"{at}.linear_attn.in_proj_qkv.weight": (M, C), f"{at}.linear_attn.in_proj_z.weight": (Hv * Dv, C),
            f"{at}.linear_attn.in_proj_b.weight": (Hv, C), f"{at}.linear_attn.in_proj_a.weight": (Hv, C),
            f"{at}.linear_attn.conv1d.weight": (M, 1, c["linear_conv_kernel_dim"]), f"{at}.linear_attn.A_log": (Hv,),
            f"{at}.linear_attn.dt_bias": (Hv,), f"{at}.linear_attn.norm.weight": (Dv,), f"{at}.linear_attn.out_proj.weight": (C, Hv * Dv)}


def block_shapes(c, at, kind):
    C, I = c["hidden_size"], c["intermediate_size"]
    return {f"{at}.input_layernorm.weight": (C,), **(attention_shapes if kind == FULL else delta_shapes)(c, at),
            f"{at}.post_attention_layernorm.weight": (C,), f"{at}.mlp.gate_proj.weight": (I, C), f"{at}.mlp.up_proj.weight": (I, C),
            f"{at}.mlp.down_proj.weight": (C, I)}


def shapes_of(c):
    """The tensors of the text model, with the names of Qwen3_5ForCausalLM."""
    C, V = c["hidden_size"], c["vocab_size"]
    out = {"model.embed_tokens.weight": (V, C)}
    for i, kind in enumerate(kinds_of(c)):
        out.update(block_shapes(c, f"model.layers.{i}", kind))
    out["model.norm.weight"] = (C,)
    return out if c["tie_word_embeddings"] else {**out, "lm_head.weight": (V, C)}


def other_shapes(config):
    """The tensors beside the text model: multi-token prediction and the tower for images. They are not computed."""
    if "vision_config" not in config:
        return {}
    c, v = text_of(config), config["vision_config"]
    C, W, I, P = c["hidden_size"], v["hidden_size"], v["intermediate_size"], v["patch_size"]
    four = W * v["spatial_merge_size"] ** 2
    out = {"mtp.fc.weight": (C, 2 * C), "mtp.norm.weight": (C,), "mtp.pre_fc_norm_embedding.weight": (C,),
           "mtp.pre_fc_norm_hidden.weight": (C,), **block_shapes(c, "mtp.layers.0", FULL)}
    tower = {"patch_embed.proj": (W, v["in_channels"], v["temporal_patch_size"], P, P), "merger.linear_fc1": (four, four),
             "merger.linear_fc2": (v["out_hidden_size"], four), "merger.norm": (W,)}
    for i in range(v["depth"]):
        tower.update({f"blocks.{i}.norm1": (W,), f"blocks.{i}.norm2": (W,), f"blocks.{i}.attn.qkv": (3 * W, W),
                      f"blocks.{i}.attn.proj": (W, W), f"blocks.{i}.mlp.linear_fc1": (I, W), f"blocks.{i}.mlp.linear_fc2": (W, I)})
    for name, shape in tower.items():
        out[f"model.visual.{name}.weight"], out[f"model.visual.{name}.bias"] = shape, shape[:1]
    out["model.visual.pos_embed.weight"] = (v["num_position_embeddings"], W)
    return out


def is_f32(config, name):
    """The published checkpoints of Qwen3.5 store these two in float32 and all else in bfloat16. Qwen3.6 has no float32."""
    return "text_config" in config and name.startswith("model.") and (name.endswith("A_log") or name.endswith("linear_attn.norm.weight"))


def gain_of(name):
    """A product's outputs are so many times its inputs."""
    return 0.8 if "in_proj_z" in name or "out_proj" in name else 1.0 if "in_proj_a" in name or "in_proj_b" in name else 1.3


def fill(config, shapes, gen):
    """Random values, large enough for every nonlinearity to matter. States of some heads last for 60 tokens, of others for one.
    Queries resemble keys, as in trained models. Otherwise q k of some token is almost 0, and the norm after it multiplies every
    rounding by 1000."""
    c, out = text_of(config), {}
    K = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    for name, shape in shapes.items():
        x = torch.randn(shape, generator=gen)
        if name.endswith("in_proj_qkv.weight") or name.endswith("conv1d.weight"):
            x[K:2 * K] = 0.95 * x[:K] + 0.31 * x[K:2 * K]
        if name.endswith("A_log"):
            x = torch.linspace(math.log(0.015), math.log(1.2), shape[0]) + 0.1 * x
        elif name.endswith("linear_attn.norm.weight"):  # the only norm whose weight is not added to 1
            x = 1 + 0.3 * x
        elif name.endswith("conv1d.weight"):
            x = 0.7 * x
        elif name.endswith("dt_bias"):
            x = 0.5 * x
        elif len(shape) == 2:
            x = x * ((0.3 if c["tie_word_embeddings"] else 0.5) if "embed" in name else gain_of(name) / shape[1] ** 0.5)
        else:
            x = 0.3 * x
        out[name] = x if is_f32(config, name) else x.to(torch.bfloat16).float()
    return out


def published(config, name):
    """The name of a text model's tensor in the files."""
    return name.replace("model.", "model.language_model.", 1) if "text_config" in config and name.startswith("model.") else name


# ---- the rule ----

def norm(x, w, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * (1 + w)


def turn(x, positions, c):
    """Rotates the first part of each head. x is [T,heads,D]. Text has one position a token, so the sections do not matter."""
    r = c["rope_parameters"]
    turned = int(c["head_dim"] * r["partial_rotary_factor"])
    frequency = r["rope_theta"] ** (-torch.arange(0, turned, 2, dtype=torch.float64) / turned)
    angle = positions[:, None, None] * frequency
    a, b, rest = x[..., :turned // 2], x[..., turned // 2:turned], x[..., turned:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(), rest], -1)


def attention(x, c, w, dot, at):
    T, H, G, D = len(x), c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    q, gate = dot(x, f"{at}.q_proj").view(T, H, 2, D).unbind(2)  # head by head
    k, v = dot(x, f"{at}.k_proj").view(T, G, D), dot(x, f"{at}.v_proj").view(T, G, D)
    positions = torch.arange(T, dtype=torch.float64)
    q = turn(norm(q, w[f"{at}.q_norm.weight"], c["rms_norm_eps"]), positions, c)
    k = turn(norm(k, w[f"{at}.k_norm.weight"], c["rms_norm_eps"]), positions, c)
    k, v = k.repeat_interleave(H // G, 1), v.repeat_interleave(H // G, 1)
    score = torch.einsum("thd,shd->hts", q, k) / D ** 0.5
    score = score.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
    o = torch.einsum("hts,shd->thd", score.softmax(-1), v) * gate.sigmoid()
    return dot(o.reshape(T, H * D), f"{at}.o_proj")


def delta(x, c, w, dot, at):
    """The gated delta rule, token by token, from a state of zeros and a convolution of zeros."""
    T, Hk, Hv, Dk, Dv = len(x), c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_key_head_dim"], c["linear_value_head_dim"]
    mix, z = dot(x, f"{at}.in_proj_qkv"), dot(x, f"{at}.in_proj_z").view(T, Hv, Dv)
    beta = dot(x, f"{at}.in_proj_b").sigmoid()
    decay = torch.exp(-w[f"{at}.A_log"].exp() * F.softplus(dot(x, f"{at}.in_proj_a") + w[f"{at}.dt_bias"]))
    taps = w[f"{at}.conv1d.weight"][:, 0]  # [M,width], the last one for the token itself
    width = taps.shape[1]
    padded = torch.cat([torch.zeros(width - 1, mix.shape[1], dtype=torch.float64), mix])
    mix = F.silu(sum(taps[:, j] * padded[j:j + T] for j in range(width)))
    q, k, v = mix.split([Hk * Dk, Hk * Dk, Hv * Dv], -1)
    unit = lambda y: y * torch.rsqrt((y * y).sum(-1, keepdim=True) + 1e-6)
    q, k = (unit(y.view(T, Hk, Dk)).repeat_interleave(Hv // Hk, 1) for y in (q, k))
    q, v = q / Dk ** 0.5, v.view(T, Hv, Dv)
    state, o = torch.zeros(Hv, Dk, Dv, dtype=torch.float64), []
    for t in range(T):
        state = decay[t][:, None, None] * state
        d = beta[t][:, None] * (v[t] - torch.einsum("hkv,hk->hv", state, k[t]))
        state = state + k[t][:, :, None] * d[:, None, :]
        o.append(torch.einsum("hkv,hk->hv", state, q[t]))
    o = torch.stack(o)
    o = o * torch.rsqrt((o * o).mean(-1, keepdim=True) + c["rms_norm_eps"]) * w[f"{at}.norm.weight"] * F.silu(z)
    return dot(o.reshape(T, Hv * Dv), f"{at}.out_proj")


def rule(tokens, c, w, adapters=None):
    """The logits [T,V] of one sequence. adapters: a function of x and a module's name, or None."""
    dot = lambda x, name: x @ w[name + ".weight"].T + (adapters(x, name) if adapters else 0)
    x = w["model.embed_tokens.weight"][tokens]
    for i, kind in enumerate(kinds_of(c)):
        at = f"model.layers.{i}"
        h = norm(x, w[f"{at}.input_layernorm.weight"], c["rms_norm_eps"])
        x = x + (attention(h, c, w, dot, f"{at}.self_attn") if kind == FULL else delta(h, c, w, dot, f"{at}.linear_attn"))
        h = norm(x, w[f"{at}.post_attention_layernorm.weight"], c["rms_norm_eps"])
        x = x + dot(F.silu(dot(h, f"{at}.mlp.gate_proj")) * dot(h, f"{at}.mlp.up_proj"), f"{at}.mlp.down_proj")
    x = norm(x, w["model.norm.weight"], c["rms_norm_eps"])
    return x @ w["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"].T


# ---- golden numbers ----

def tokens_of(lengths, vocab, gen):
    return [torch.randint(0, vocab, (n,), generator=gen) for n in lengths]


def targets_of(sequences):
    """Rows that predict a token, and the tokens."""
    row, target, at = [], [], 0
    for s in sequences:
        row += range(at, at + len(s) - 1)
        target += s[1:].tolist()
        at += len(s)
    return torch.tensor(row), torch.tensor(target)


def logp_and_entropy(logits, target, inv_temperature):
    lp = torch.log_softmax(logits * inv_temperature, -1)
    return lp[torch.arange(len(target)), target], -(lp.exp() * lp).sum(-1)


class Rule:
    """The rule as a model with float64 parameters."""

    def __init__(self, c, w):
        self.c, self.w = c, {k: v.double().requires_grad_() for k, v in w.items()}

    def logits(self, sequences):
        return torch.cat([rule(s, self.c, self.w) for s in sequences])

    def parameters(self):
        return self.w

    type = torch.float64


class Theirs:
    """The same interface over a model of transformers. Its parameters have the names of the text model."""

    def __init__(self, model, recurrent):
        self.model, self.recurrent = model, recurrent

    def logits(self, sequences):
        chunked = theirs.torch_chunk_gated_delta_rule
        if self.recurrent:
            theirs.torch_chunk_gated_delta_rule = theirs.torch_recurrent_gated_delta_rule
        out = torch.cat([self.model(input_ids=s[None]).logits[0] for s in sequences])
        theirs.torch_chunk_gated_delta_rule = chunked
        return out

    def parameters(self):
        named = {k.replace("model.language_model.", "model."): p for k, p in self.model.named_parameters()}
        return {k: p for k, p in named.items() if "visual" not in k}

    type = torch.float32


def gradients(m, sequences, dlogp, dent):
    """Logits, log-probabilities, entropies, and the gradient of every tensor."""
    row, target = targets_of(sequences)
    logits = m.logits(sequences)
    logp, ent = logp_and_entropy(logits[row], target, INV_TEMPERATURE)
    for p in m.parameters().values():
        p.grad = None
    (dlogp.to(m.type) @ logp + dent.to(m.type) @ ent).backward()
    return logits.detach(), logp.detach(), ent.detach(), {k: p.grad.clone() for k, p in m.parameters().items()}


def adamw(m, batches):
    """Ten steps. Matrices decay, the convolution (three dimensions) and all tensors of one dimension do not."""
    params = m.parameters()
    opt = torch.optim.AdamW([{"params": [p for p in params.values() if p.ndim == 2], "weight_decay": 0.1},
                             {"params": [p for p in params.values() if p.ndim != 2], "weight_decay": 0.0}],
                            lr=3e-3, betas=(0.9, 0.999), eps=1e-8)
    losses, norms = [], []
    for sequences in batches:
        row, target = targets_of(sequences)
        logp, _ = logp_and_entropy(m.logits(sequences)[row], target, 1.0)
        loss = -logp.mean()
        opt.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0))
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses), torch.stack(norms)


def answer(m, prompt, eos=None):
    """One greedy answer, and the smallest gap between a chosen logit and the next."""
    tokens, lead = prompt, math.inf
    for _ in range(NEW):
        top = m.logits([tokens])[-1].topk(2)
        lead = min(lead, (top.values[0] - top.values[1]).item())
        tokens = torch.cat([tokens, top.indices[:1]])
        if tokens[-1] == eos:
            break
    return tokens[len(prompt):], lead


def greedy(m, out, gen):
    """Answers, and the same answers ended by the token found in most of them. Every choice has a gap beyond rounding."""
    prompts, answers, V = [], [], m.c["vocab_size"]
    for n in PROMPTS:
        lead = 0
        while lead < 1e-3:
            p = tokens_of([n], V, gen)[0]
            a, lead = answer(m, p)
        prompts.append(p)
        answers.append(a)
    count = [sum(t in a[3:-3].tolist() for a in answers) for t in range(V)]
    eos = count.index(max(count))
    ended = [a[:a.tolist().index(eos) + 1] if eos in a.tolist() else a for a in answers]
    assert any(len(a) < NEW for a in ended)
    out.update({"greedy.prompts": torch.cat(prompts), "greedy.lengths": torch.tensor(PROMPTS),
                "greedy.answers": torch.stack(answers), "greedy.eos": torch.tensor([eos]),
                "greedy.ended": torch.cat(ended), "greedy.ended_lengths": torch.tensor([len(a) for a in ended])})
    return prompts, answers


# ---- transformers beside it ----

def distance(a, b):
    """The norm of the difference by the norm of b, as in the C tests."""
    return ((a.double() - b).norm() / b.norm()).item() if b.norm() > 0 else a.double().norm().item()


def far(a, b):
    return (a.double() - b).abs().max().item()


def say(name, form, numbers):
    print(f"{name:13} {form:9} " + " ".join(f"{k} {v if isinstance(v, str) else format(v, '.1e')}" for k, v in numbers.items()))


def compare(name, folder, sequences, batches, want, steps, prompts, answers):
    """How far transformers is in float32, in its two forms. It must be close, so that the rule above is the same model."""
    for form in ("chunked", "recurrent"):
        kind = AutoModelForImageTextToText if "ConditionalGeneration" in MODELS[name]["architectures"][0] else AutoModelForCausalLM
        model, info = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
        m = Theirs(model.train(), form == "recurrent")
        assert list(m.parameters()) != [] and set(m.parameters()) == set(want[3])
        got = gradients(m, sequences, want[4], want[5])
        worst = max((distance(got[3][k], want[3][k]), k) for k in want[3])
        with torch.no_grad():
            for p, a in zip(prompts, answers):
                assert torch.equal(answer(m, p)[0], a), "another greedy answer"
        losses, norms = adamw(m, batches)
        numbers = {"logits": distance(got[0], want[0]), "logp_max": far(got[1], want[1]), "entropy_max": far(got[2], want[2]),
                   "grad": worst[0], "of": worst[1], "loss": ((losses - steps[0]) / steps[0]).abs().max().item(),
                   "grad_norm": ((norms - steps[1]) / steps[1]).abs().max().item()}
        say(name, form, numbers)
        assert numbers["logits"] < 5e-6 and worst[0] < 1e-4 and numbers["loss"] < 1e-5, "transformers has another rule"


def save(path, tensors, **more):
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, path, **more)
    os.chmod(path, 0o644)


def save_golden(path, out):
    save(path, {k: v.detach().float() for k, v in out.items()})


def write_model(folder, config, text, gen):
    weights = {published(config, k): v for k, v in text.items()}
    weights.update(fill(config, other_shapes(config), gen))
    os.makedirs(folder, exist_ok=True)
    save(f"{folder}/model.safetensors", {k: v if is_f32(config, k) else v.to(torch.bfloat16) for k, v in weights.items()},
         metadata={"format": "pt"})
    with open(f"{folder}/config.json", "w") as f:
        json.dump(config, f, indent=1, sort_keys=True)
        f.write("\n")


def make(name, config):
    gen = torch.Generator().manual_seed(SEEDS[name])
    c, folder, out = text_of(config), f"{OUT}/{name}", {}
    text = fill(config, shapes_of(c), gen)
    write_model(folder, config, text, gen)
    m = Rule(c, text)
    sequences, n_row = tokens_of(LENGTHS, c["vocab_size"], gen), sum(LENGTHS) - len(LENGTHS)
    dlogp, dent = torch.randn(n_row, generator=gen), 0.3 * torch.randn(n_row, generator=gen)
    logits, logp, ent, grad = gradients(m, sequences, dlogp, dent)
    kept = sorted([sum(LENGTHS[:i + 1]) - 1 for i in range(len(LENGTHS))] + [sum(LENGTHS[:-1]) + i for i in LOOK])
    out.update({"tokens": torch.cat(sequences), "lengths": torch.tensor(LENGTHS), "logits": logits[kept],
                "logits.row": torch.tensor(kept), "logp": logp, "ent": ent, "dlogp": dlogp, "dent": dent})
    out.update({"grad." + k: g for k, g in grad.items()})
    with torch.no_grad():
        prompts, answers = greedy(m, out, gen)
    batches = [tokens_of(STEP_LENGTHS, c["vocab_size"], gen) for _ in range(STEPS)]
    losses, norms = adamw(m, batches)
    out.update({"steps.tokens": torch.stack([torch.cat(b) for b in batches]), "steps.lengths": torch.tensor(STEP_LENGTHS),
                "steps.losses": losses, "steps.norms": norms})
    save_golden(f"{folder}/golden.safetensors", out)
    print(f"{name}: loss {losses[0]:.6f} to {losses[-1]:.6f}, gradient norm {norms[0]:.4f} to {norms[-1]:.4f}")
    compare(name, folder, sequences, batches, (logits, logp, ent, grad, dlogp, dent), (losses, norms), prompts, answers)
    return text


# ---- low-rank adapters ----

def make_lora(text):
    base, options = ADAPTED
    gen, c, out = torch.Generator().manual_seed(600), text_of(MODELS[base]), {}
    model = AutoModelForCausalLM.from_pretrained(f"{OUT}/{base}", dtype=torch.float32, attn_implementation="eager")
    model = get_peft_model(model, LoraConfig(**options)).train()
    learned = [(k, p) for k, p in model.named_parameters() if p.requires_grad]
    for k, p in learned:
        p.data.copy_((torch.randn(p.shape, generator=gen) * (0.5 / p.shape[1] ** 0.5 if "lora_A" in k else 0.2))
                     .to(torch.bfloat16).float())
    ours = {k.replace(".default", ""): p.detach().double().requires_grad_() for k, p in learned}

    def adapters(x, name):
        a, b = (ours.get(f"base_model.model.{name}.lora_{s}.weight") for s in "AB")
        return x @ a.T @ b.T * (options["lora_alpha"] / options["r"]) if a is not None else 0

    w = {k: v.double() for k, v in text.items()}
    sequences = tokens_of(LORA_LENGTHS, c["vocab_size"], gen)
    row, target = targets_of(sequences)
    dlogp, dent = torch.randn(len(row), generator=gen), 0.3 * torch.randn(len(row), generator=gen)
    logits = torch.cat([rule(s, c, w, adapters) for s in sequences])
    logp, ent = logp_and_entropy(logits[row], target, INV_TEMPERATURE)
    (dlogp.double() @ logp + dent.double() @ ent).backward()
    out.update({"tokens": torch.cat(sequences), "lengths": torch.tensor(LORA_LENGTHS), "logp": logp, "ent": ent, "dlogp": dlogp,
                "dent": dent})
    out.update({"grad." + k: p.grad for k, p in ours.items()})
    at = sum(LORA_LENGTHS[:2])
    out["merged"] = logits[at:at + LORA_LENGTHS[2]]
    m = Theirs(model, False)
    got = m.logits(sequences)
    their_logp, their_ent = logp_and_entropy(got[row], target, INV_TEMPERATURE)
    (dlogp @ their_logp + dent @ their_ent).backward()
    worst = max((distance(p.grad, ours[k.replace(".default", "")].grad), k) for k, p in learned)
    say("lora/qwen3_5", "chunked", {"logits": distance(got, logits), "logp_max": far(their_logp, logp), "grad": worst[0], "of": worst[1]})
    assert distance(got, logits) < 1e-5 and worst[0] < 1e-3
    os.makedirs(LORA, exist_ok=True)
    model.save_pretrained(LORA)
    with open(f"{LORA}/adapter_config.json") as f:  # PEFT writes sets in any order
        config = json.load(f)
    config["target_modules"].sort()
    config["base_model_name_or_path"] = "../../model/" + base
    with open(f"{LORA}/adapter_config.json", "w") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")
    os.path.exists(f"{LORA}/README.md") and os.remove(f"{LORA}/README.md")
    os.chmod(f"{LORA}/adapter_model.safetensors", 0o644)
    save_golden(f"{LORA}/golden.safetensors", out)


def main():
    torch.set_num_threads(1)
    for name, config in MODELS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        text = make(name, config)
        if name == ADAPTED[0]:
            make_lora(text)


main()
