#!/bin/bash
# speed.sh - times training and GRPO steps for models of given sizes, as medians over the steps of one run.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/bench/speed.sh train d L heads ff V T B f32|bf16 RANKS THREADS [STEPS]   tokens/s of forward, loss, backward, AdamW
#   tests/bench/speed.sh train CONFIG.json T B f32|bf16 RANKS THREADS [STEPS]        the same, of a model of that config.json
#   tests/bench/speed.sh grpo s|m|CONFIG.json f32|bf16 COMPLETIONS RANKS THREADS [STEPS]   seconds of a GRPO step with prompts of
#                                                                                 8 bytes, groups of 8, 64 new tokens each
# WARM_UP steps (2 unless set) come before the timed ones. Weights are random, and the script makes random or numeric data. There is no
# end token, so every answer has its full length.
set -eu
warm_up=${WARM_UP:-2}
here=$(cd "$(dirname "$0")/../.." && pwd)
trireme=${TRIREME:-$here/build/cpu-release/trireme}
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-speed.XXXXXX")
trap 'rm -rf "$dir"' EXIT
root=; [ "$(id -u)" != 0 ] || root=--allow-run-as-root

config() { # d L heads kv ff V positions
  printf '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": %d, "num_hidden_layers": %d,
 "num_attention_heads": %d, "num_key_value_heads": %d, "intermediate_size": %d, "vocab_size": %d,
 "max_position_embeddings": %d, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "eos_token_id": null, "hidden_act": "silu"}\n' "$@" > "$dir/config.json"
}

run() { # ranks threads deck
  mpirun $root --bind-to none -n "$1" "$trireme" train "$3" run.threads="$2" > "$dir/out" 2>&1 || { cat "$dir/out" >&2; exit 1; }
}

median() { # field, without the warm-up steps
  awk -v skip="$warm_up" -v f="\"$1\":" '{ for (i = 1; i <= NF; i++) if ($i == f && ++n > skip) { gsub(",", "", $(i + 1)); print $(i + 1) } }' \
    "$dir/run/metrics.jsonl" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

case ${1:-} in
train)
  shift
  case $1 in
  *.json)
    what=$(basename "$1" .json) T=$2 B=$3 dtype=$4 ranks=$5 threads=$6 steps=${7:-7}
    cp "$1" "$dir/config.json"
    V=$(sed -n 's/.*"vocab_size": *\([0-9]*\).*/\1/p' "$1")
    ;;
  *)
    d=$1 L=$2 h=$3 ff=$4 V=$5 T=$6 B=$7 dtype=$8 ranks=$9 threads=${10} steps=${11:-7}
    what="d=$d L=$L ff=$ff V=$V"
    config "$d" "$L" "$h" "$h" "$ff" "$V" "$((T > 1024 ? T : 1024))"
    ;;
  esac
  awk -v n="$B" -v t="$T" -v v="$V" 'BEGIN { srand(1); for (i = 0; i < n * 4; i++) { printf "{\"tokens\": [";
    for (k = 0; k < t; k++) printf "%s%d", k ? "," : "", int(rand() * v); print "]}" } }' > "$dir/data.jsonl"
  cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/run, resume: never}
model: {config: $dir/config.json, dtype: $dtype}
data: {train: $dir/data.jsonl}
algo: {name: sft}
train: {steps: $((steps + warm_up)), train_batch_size: $B, gradient_accumulation_steps: 1, learning_rate: 1e-3, weight_decay: 0.1, max_grad_norm: 0}
checkpoint: {save_final: false}
EOF
  run "$ranks" "$threads" "$dir/deck.yaml"
  s=$(median time_step_s)
  echo "trireme train $what T=$T B=$B $dtype ranks=$ranks threads=$threads: step $s s, tokens/s $(awk -v s="$s" -v n="$((B * T))" 'BEGIN { printf "%.4g", n / s }')"
  ;;
grpo)
  shift
  size=$1 dtype=$2 n=$3 ranks=$4 threads=$5 steps=${6:-6}
  case $size in
  s) config 256 4 4 2 1024 512 1024 ;;
  m) config 512 8 8 4 1536 512 1024 ;;
  *.json) cp "$size" "$dir/config.json"; size=$(basename "$size" .json) ;;
  *) echo "size: s, m or a config.json" >&2; exit 64 ;;
  esac
  cp "$here/inputs/quickstart/tokenizer.json" "$dir/tokenizer.json"
  awk 'BEGIN { for (i = 0; i < 4096; i++) printf "{\"prompt\": \"%03d+%03d=\", \"answer\": \"\"}\n", (i * 7919) % 1000, (i * 104729) % 1000 }' > "$dir/data.jsonl"
  cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/run, resume: never}
model: {config: $dir/config.json, tokenizer: $dir/tokenizer.json, dtype: $dtype}
data: {train: $dir/data.jsonl}
algo: {name: grpo, num_generations: 8}
rollout: {rollout_batch_size: $((n / 8)), max_response_length: 64}
reward: [{name: regex, pattern: "[0-4]"}]
train: {steps: $((steps + warm_up)), micro_batch_size: $((n / ranks)), learning_rate: 1e-4}
checkpoint: {save_final: false}
EOF
  run "$ranks" "$threads" "$dir/deck.yaml"
  s=$(median time_step_s)
  echo "trireme grpo size=$size $dtype completions=$n ranks=$ranks threads=$threads: step $s s (rollout $(median time_rollout_s), learn $(median time_learn_s)), generated tokens/s $(awk -v s="$s" -v n="$((n * 64))" 'BEGIN { printf "%.0f", n / s }')"
  ;;
*)
  sed -n '5,8s/^# \{0,1\}//p' "$0" >&2
  exit 64
  ;;
esac
