# gpu_speed.sh - the jobs of check.sh that measure speed and memory and compare with PyTorch and transformers. Sourced by it.
# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause

# Peak of one GPU in dense bf16 products, TFLOP/s (NVIDIA's data sheets, SXM). PEAK_TFLOPS overrides it.
peak() {
  case ${PEAK_TFLOPS-}${gpu_name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)} in
  [0-9]*) echo "${PEAK_TFLOPS}" ;;
  *H100\ NVL* | *H100\ PCIe*) echo 756 ;;
  *H100* | *H200*) echo 989 ;;
  *A100*) echo 312 ;;
  *) echo 0 ;;
  esac
}

# C L H G F V tied, and tokens of one pass, for Qwen2 0.5B, 1.5B, 3B, and Llama 3 8B.
shape() {
  ((small)) && { echo "64 2 2 1 128 300 true 64"; return; }
  case $1 in
  0.5B) echo "896 24 14 2 4864 151936 true 8192" ;;
  1.5B) echo "1536 28 12 2 8960 151936 true 8192" ;;
  3B) echo "2048 36 16 2 11008 151936 true 4096" ;;
  8B) echo "4096 32 32 8 14336 128256 false 4096" ;;
  esac
}
# Writes $work/shapes/LABEL.json. The head size is C / H in all of them.
write_shape() { # name, layers or 0, label
  local c l h g f v tied
  read -r c l h g f v tied _ <<<"$(shape "$1")"
  (($2)) && l=$2
  mkdir -p "$work/shapes"
  write_config "$work/shapes/$3.json" "$c" "$l" "$h" "$g" "$f" "$v" 8192 "$tied"
  [[ $1 = 8B ]] && sed -i 's/Qwen2ForCausalLM/LlamaForCausalLM/; s/"qwen2"/"llama"/' "$work/shapes/$3.json"
}
# Operations of one trained token. Each weight in a product counts 6 (an input table counts only if it is also the head).
# Attention counts 6 L H D T, half of 12 L H D T as it is causal. Both programs use the same count.
operations() { # name, layers or 0, T
  # shellcheck disable=SC2046
  awk -v layers="$2" -v T="$3" -v g="$(shape "$1")" 'BEGIN { split(g, q, " "); C = q[1]; L = layers ? layers : q[2]; D = C / q[3]
    n = q[6] * C + L * (2 * C * C + 2 * C * q[4] * D + 3 * C * q[5]); printf "%.0f", 6 * n + 6 * L * C * T }'
}

# Keeps the FIGURE lines of a command's output for the comparison, and writes a row for each.
take_figures() { # file
  local label unit number
  while IFS='|' read -r _ label unit number; do
    echo "$label|$unit|$number" >>"$work/figures"
    row "$label" passed "$number $unit"
  done < <(grep '^FIGURE|' "$1")
}

job_kernels() { # word of the labels, or all
  local code size=()
  ((small)) && size=(small)
  run "$bin/bench_gpu" cuda "${size[@]}" "$@"
  code=$?
  take_figures "$said"
  ((code == 0)) || fell "bench_gpu" $code
}

# Measures the gradient of attention once more, by cuDNN if it can. The lines before are those of the own kernel.
job_kernels_cudnn() {
  local code size=()
  ((small)) && size=(small)
  run env TRI_CUDA_ATTN_BWD=cudnn "$bin/bench_gpu" cuda "${size[@]}" "attention backward"
  code=$?
  if ((code)) && grep -qE 'tri_cudnn_(open|load):' "$said"; then
    row "attention backward by cuDNN" "not run: $(sed -n 's/.*tri_cudnn_[a-z]*: //p' "$said" | head -n 1 | cut -c 1-100 | tr '|' '/')"
    return
  fi
  take_figures "$said"
  ((code == 0)) || fell "bench_gpu, cuDNN" $code
}

# ---- training ----

# Layers of the 8B shape that fit. Each weight takes 18 bytes, and one pass of 4096 tokens keeps about 200 kB per token and layer.
# 12 GB remain for logits, workspace and the driver.
layers_that_fit() {
  local mib
  ((small)) && { echo 2; return; }
  mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1 | tr -dc 0-9)
  awk -v b="${mib:-81559}" 'BEGIN { l = int((b * 1048576 - 12e9 - 18 * 2 * 128256 * 4096) / (18 * 218.1e6 + 0.8e9))
    print (l > 32 ? 32 : l < 1 ? 1 : l) }'
}
# MiB a GPU may hold beside the plan, for the driver's context, kernels, libraries and decode graphs. Chosen, to be corrected by
# measurements.
beside_mib=1536
memory_row() { # row's name, metrics.jsonl
  local planned used
  planned=$(numbers "$2" mem_gpu_planned_bytes | tail -n 1) used=$(numbers "$2" mem_gpu_used_bytes | sort -g | tail -n 1)
  awk -v p="${planned:-x}" -v u="${used:-x}" -v i="${gpu_idle:-0}" -v most="$beside_mib" 'BEGIN {
    d = (u - p) / 1048576 - i; exit !(p + 0 > 0 && d >= -16 && d <= most) }'
  row "  memory of that" "$(verdict $?)" "$(awk -v p="$planned" -v u="$used" -v i="${gpu_idle:-0}" -v most="$beside_mib" 'BEGIN {
    printf "planned %.0f MiB, the GPU holds %.0f MiB: %.0f MiB are the driver and its libraries (bound %d; %.0f MiB were held before)",
    p / 1048576, u / 1048576, (u - p) / 1048576 - i, most, i }')"
}
# True if trireme plan finds that the run needs more memory than this machine has.
is_too_large() { # deck
  "$bin/trireme" plan "$1" --json 2>/dev/null | grep -q '"fits": false'
}
job_train() { # name, tokens of a sequence
  local name=$1 T=$2 pass code layers=0 steps=6 batch label speed
  ((small)) && T=$((T / 64)) steps=3
  pass=$(shape "$name" | awk '{ print $8 }')
  batch=$((small ? 4 : 16384 / T))
  gpu_idle=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -n 1 | tr -dc 0-9)
  if [[ $name = 8B ]]; then layers=$(layers_that_fit); fi
  while :; do
    label=$name
    ((layers)) && label="$name shape of $layers layers"
    write_shape "$name" "$layers" "$label"
    write_tokens "$dir/tokens.jsonl" $((batch * steps)) "$T" "$(shape "$name" | awk '{ print $6 }')"
    cat >"$dir/deck.yaml" <<D
run: {output: "$dir/out", resume: never, device: cuda}
model: {config: "$work/shapes/$label.json", dtype: bf16}
data: {train: $dir/tokens.jsonl, shuffle: false}
algo: {name: sft}
train: {steps: $steps, train_batch_size: $batch, max_tokens_per_gpu: $pass, learning_rate: 1e-5, weight_decay: 0.1}
checkpoint: {save_final: false}
D
    run "$bin/trireme" train "$dir/deck.yaml"
    code=$?
    # Memory refused it before the first step, so it tries again with fewer layers.
    if ((code != 64 || layers < 5)) || ! is_too_large "$dir/deck.yaml"; then break; fi
    layers=$((layers - 3))
  done
  label="training $label, $batch x $T tokens in passes of $pass"
  if ((code == 64)) && is_too_large "$dir/deck.yaml"; then row "$label" "not run: it does not fit this GPU" "$(why $code)"; return; fi
  ((code == 0)) || { fell "$label" $code; return; }
  speed=$(numbers "$dir/out/metrics.jsonl" time_step_s | median 1 | awk -v n=$((batch * T)) '{ printf "%.6g", n / $1 }')
  echo "$label|tokens/s|$speed|$(operations "$name" "$layers" "$T")" >>"$work/figures"
  row "$label" passed "$speed tokens/s$(mfu "$speed" "$(operations "$name" "$layers" "$T")"), median of $((steps - 1)) steps"
  memory_row "$label" "$dir/out/metrics.jsonl"
}
mfu() { # tokens/s, operations a token
  awk -v s="$1" -v f="$2" -v p="$(peak)" 'BEGIN { if (p && f) printf ", MFU %.1f %% of %d TFLOP/s", 100 * s * f / (p * 1e12), p }'
}

# ---- generation ----

job_decode() { # name
  local code label="$1 after 512 tokens" sizes=(512 256 1 32 128 256)
  ((small)) && label="$1 after 16 tokens" sizes=(16 6 1 3 5)
  write_shape "$1" 0 "$1"
  run "$bin/bench_model" cuda "$label" "$work/shapes/$1.json" "${sizes[@]}"
  code=$?
  take_figures "$said"
  ((code == 0)) || fell "decode $1" $code
}

# One step end to end, with 64 prompts of 64 tokens, 8 answers each and 256 tokens per answer. It is the second of two steps.
job_grpo() { # name
  local code prompts=64 answer=256 label
  ((small)) && prompts=4 answer=6
  label="GRPO step, $1, $prompts prompts x 8 answers x $answer tokens"
  write_shape "$1" 0 "$1"
  write_tokens "$dir/prompts.jsonl" $prompts $((small ? 8 : 64)) "$(shape "$1" | awk '{ print $6 }')"
  cat >"$dir/deck.yaml" <<D
run: {output: $dir/out, resume: never, device: cuda}
model: {config: "$work/shapes/$1.json", tokenizer: $root/inputs/quickstart/tokenizer.json, dtype: bf16}
data: {train: $dir/prompts.jsonl}
algo: {name: grpo, num_generations: 8}
rollout: {rollout_batch_size: $prompts, max_response_length: $answer}
reward: [{name: regex, pattern: "[a-m]"}]
train: {steps: 2, max_tokens_per_gpu: $((small ? 128 : 8192)), learning_rate: 1e-6}
checkpoint: {save_final: false}
D
  run "$bin/trireme" train "$dir/deck.yaml"
  code=$?
  ((code == 0)) || { fell "$label" $code; return; }
  row "$label" passed "$(tail -n 1 "$dir/out/metrics.jsonl" | tr -d '{}"' | tr ',' '\n' | awk -F': ' '
    { sub(/^ */, "", $1) } $1 == "time_step_s" { all = $2 }
    $1 ~ /^time_/ && $1 != "time_step_s" { name = $1; gsub(/^time_|_s$/, "", name); s[++n] = $2; what[n] = name }
    $1 == "tokens" { t = $2 } $1 == "sampler_gap_max_nats" { gap = $2 }
    END { printf "%.2f s, %.0f answer tokens/s, gap %s", all, t / all, gap; left = all
      for (i = 1; i <= n; i++) { printf ", %s %.0f %%", what[i], 100 * s[i] / all; left -= s[i] }
      printf ", other %.0f %%", 100 * left / all }')"
  memory_row "$label" "$dir/out/metrics.jsonl"
}

# ---- comparison with PyTorch ----

# Measures with torch_speed.py everything measured so far that PyTorch can do too, and compares the two.
job_torch_speed() {
  local code label unit number ours operations
  [[ -s $work/figures ]] || { row "beside PyTorch" "not run: nothing was measured"; return; }
  [[ -s $work/python ]] || { row "beside PyTorch" "not run: no PyTorch"; return; }
  run_python "$here/torch_speed.py" "$work/figures" "$work/shapes"
  code=$?
  while IFS='|' read -r _ label unit number; do
    IFS='|' read -r _ _ ours operations < <(grep -F "${label%, f32 masters}|$unit|" "$work/figures")
    case $number in
    [0-9]*) row "$label, beside PyTorch" passed "trireme $ours, PyTorch $number $unit: $(awk -v a="$ours" -v b="$number" 'BEGIN { printf "%.2f", a / b }') times$(mfu "$number" "${operations:-0}" | sed 's/MFU/PyTorch has an MFU of/')" ;;
    *) row "$label, beside PyTorch" "not run: PyTorch: $number" ;;
    esac
  done < <(grep '^FIGURE|' "$said")
  if ((code == 124 || code == 137)); then
    row "the rest beside PyTorch" "not run: time"
  elif ((code)); then
    fell "the rest beside PyTorch" $code
  fi
}
