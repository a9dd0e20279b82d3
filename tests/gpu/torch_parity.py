# torch_parity.py - ten steps of training in PyTorch and in trireme on the same models and batches: losses and gradient norms.
# SPDX-License-Identifier: BSD-3-Clause
#
#   torch_parity.py PROGRAM FOLDER [--small]
# Makes a random Llama (grouped heads) and a random Qwen2 (grouped heads, biases, tied head) with transformers and saves them.
# Both programs load them. f32 is compared with f32 without TF32. bf16 is compared with autocast over f32 weights, as in trireme.
# Prints lines ROW|what|passed or FAILED|figure for check.sh. Judge: torch.optim.AdamW and clip_grad_norm_.
import json
import os
import subprocess
import sys

import torch
import transformers

STEPS, BATCH, LR, DECAY, CLIP = 10, 8, 1e-3, 0.1, 1.0
# Permitted relative differences of losses and of gradient norms. Chosen. The emulated GPU shows 1e-7 in f32, and 4e-5 and 1e-3 in
# bf16. A GPU adds in other orders.
BOUNDS = {"f32": (1e-4, 1e-3), "bf16": (1e-2, 5e-2)}


def make_model(kind, small):
    sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=112,
                 vocab_size=200) if small else dict(hidden_size=512, num_hidden_layers=4, num_attention_heads=8,
                                                    num_key_value_heads=2, intermediate_size=1376, vocab_size=4096)
    common = dict(max_position_embeddings=256, eos_token_id=None, bos_token_id=None, pad_token_id=None, **sizes)
    if kind == "qwen2":
        config = transformers.Qwen2Config(tie_word_embeddings=True, **common)
    else:
        config = transformers.LlamaConfig(tie_word_embeddings=False, **common)
    config._attn_implementation = "sdpa"
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():  # a start in which every bias and norm counts
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
    return model


def train_torch(model, lines, dtype, device):
    model = model.to(device).train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=LR, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step in range(STEPS):
        tokens = torch.tensor(lines[step * BATCH:(step + 1) * BATCH], device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bf16"):
            logits = model(tokens).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def train_trireme(program, folder, data, dtype, output):
    deck = os.path.join(output + ".yaml")
    with open(deck, "w") as f:
        f.write(f"""run: {{output: {output}, resume: never, device: cuda}}
model: {{path: {folder}, dtype: {dtype}}}
data: {{train: {data}, shuffle: false}}
algo: {{name: sft}}
train: {{steps: {STEPS}, train_batch_size: {BATCH}, micro_batch_size: 4, learning_rate: {LR}, weight_decay: {DECAY},
  max_grad_norm: {CLIP}, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1e-8}}
checkpoint: {{save_final: false}}
""")
    libraries = os.environ.get("CHECK_LIBRARY_PATH")  # libraries that the program needs and this Python may not have
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries) if libraries else None
    done = subprocess.run([program, "train", deck], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"trireme train: exit code {done.returncode}: {done.stdout[-300:]}")
    with open(os.path.join(output, "metrics.jsonl")) as f:
        steps = [json.loads(line) for line in f]
    return [s["loss"] for s in steps], [s["grad_norm"] for s in steps]


def worst(a, b):
    assert len(a) == len(b) == STEPS
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def main():
    program, folder, small = sys.argv[1], sys.argv[2], "--small" in sys.argv
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    print(f"torch {torch.__version__} on {device}, transformers {transformers.__version__}")
    for kind in ("llama", "qwen2"):
        model = make_model(kind, small)
        where = os.path.join(folder, kind)
        model.save_pretrained(where)
        torch.manual_seed(11)
        length = 24 if small else 128
        lines = torch.randint(model.config.vocab_size, (STEPS * BATCH, length)).tolist()
        data = where + ".jsonl"
        with open(data, "w") as f:
            f.writelines(json.dumps({"tokens": line}) + "\n" for line in lines)
        start = {name: p.clone() for name, p in model.state_dict().items()}
        for dtype, (of_loss, of_norm) in BOUNDS.items():
            what = f"{STEPS} steps of {kind} beside PyTorch, {dtype}"
            try:
                model.load_state_dict(start)
                losses, norms = train_torch(model, lines, dtype, device)
                ours, our_norms = train_trireme(program, where, data, dtype, f"{where}-{dtype}")
                for step in range(STEPS):
                    print(f"{kind} {dtype} step {step + 1}: loss {ours[step]:.7f} torch {losses[step]:.7f}, "
                          f"gradient norm {our_norms[step]:.6f} torch {norms[step]:.6f}")
                loss, norm = worst(ours, losses), worst(our_norms, norms)
                result = "passed" if loss <= of_loss and norm <= of_norm else "FAILED"
                print(f"ROW|{what}|{result}|losses differ by {loss:.2g} (bound {of_loss:g}), gradient norms by {norm:.2g} "
                      f"(bound {of_norm:g}), last loss {ours[-1]:.4f}")
            except Exception as e:  # the other cases still count
                print(f"ROW|{what}|FAILED|{type(e).__name__}: {str(e)[:200]}".replace("\n", " "))


main()
