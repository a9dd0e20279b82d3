# run_case.sh - shared by the scripts that start whole runs. Sourced with PROGRAM and RANKS as arguments.
# SPDX-License-Identifier: BSD-3-Clause
program=$1 ranks=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-run.XXXXXX")
trap 'rm -rf "$dir"' EXIT
root=; [ "$(id -u)" != 0 ] || root=--allow-run-as-root

# Writes $dir/deck.yaml: the quickstart's model on sums of two digits, by GRPO with every kind of term.
write_deck() {
  awk 'BEGIN { srand(1); for (i = 0; i < 512; i++) { a = int(rand() * 10); b = int(rand() * 10);
    printf "{\"prompt\": \"%d+%d=\", \"answer\": \"%d\"}\n", a, b, a + b } }' > "$dir/data.jsonl"
  cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/none, seed: 5, ranks_per_node: 1, threads: 1}
model: {config: $here/inputs/quickstart/config.json, tokenizer: $here/inputs/quickstart/tokenizer.json, dtype: bf16}
data: {train: $dir/data.jsonl, eval: $dir/data.jsonl}
algo: {name: grpo, num_generations: 4, kl_coef: 0.01, ppo_epochs: 2}
rollout: {rollout_batch_size: 8, max_response_length: 4}
reward: [{name: regex, pattern: "[0-4]"}]
train: {steps: 40, train_batch_size: 16, micro_batch_size: 4, learning_rate: 1e-3, lr_scheduler: cosine}
eval: {steps: 7, max_prompts: 16}
checkpoint: {save_steps: 2}
EOF
}

# Writes $dir/long.json: the quickstart's model with space for answers of several pages of the cache.
write_long() {
  sed 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 128/' "$here/inputs/quickstart/config.json" > "$dir/long.json"
}

# Writes $dir/recurrent.json: a small model of the family qwen3_5 with layers of both kinds.
# Rounding grows in recurrent layers with large random weights: from 0.1 on, micro-batches of 4, 2 and 1 on one rank differ by 1.4e-5.
write_recurrent() {
  cat > "$dir/recurrent.json" <<EOF
{"model_type": "qwen3_5_text", "vocab_size": 257, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
 "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "max_position_embeddings": 128, "initializer_range": 0.05,
 "eos_token_id": 256, "bos_token_id": null, "pad_token_id": null, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
 "linear_key_head_dim": 8, "linear_value_head_dim": 6, "layer_types": ["linear_attention", "full_attention", "linear_attention"]}
EOF
}

launch() { # ranks, output folder, further key=value ...
  n=$1 out=$2
  shift 2
  # shellcheck disable=SC2086
  mpirun $root --oversubscribe -n "$n" "$program" train "$dir/deck.yaml" run.output="$out" "$@" > "$dir/log" 2>&1 ||
    { cat "$dir/log"; return 1; }
}

# Prints the last event of this kind in a run's run.jsonl (src/report/runlog.c), and tests that it has these members.
event() { sed -n "/^{\"v\": 1, \"time_unix_s\": [0-9.]*, \"event\": \"$2\"/p" "$1/run.jsonl" | tail -n 1; } # output folder, event
says() { # output folder, event, pieces of JSON ...
  local line word
  line=$(event "$1" "$2")
  for word in "${@:3}"; do [[ $line = *"$word"* ]] || { echo "$1/run.jsonl: the last $2 has no $word: $line"; return 1; }; done
}

device_planned() { # output folder: bytes of the device that its newest start planned
  event "$1" start | grep -o '"memory": \[[^]]*\]' | grep -o '{[^}]*}' | awk '/"where": "device"/ {
    match($0, /"phase": "[a-z]*"/); phase = substr($0, RSTART + 10, RLENGTH - 11)
    match($0, /"bytes": [0-9]*/); bytes[phase] += substr($0, RSTART + 9, RLENGTH - 9) }
    END { for (p in bytes) if (p != "always" && bytes[p] > most) most = bytes[p]; printf "%.0f\n", bytes["always"] + most }'
}

# The share of rows in use depends on the number of ranks.
numbers() { # output folder: its metrics without what may differ between equal runs
  sed -E 's/"(time_[a-z_]*|mem_[a-z_]*|[a-z_]*_per_s|rollout_use_ratio)": [^,}]*(, )?//g' "$1/metrics.jsonl"
}

# Lines of numbers without these, which depend on the pages of the cache.
drop_preempted() { sed -E 's/"(preempted_answers|recomputed_tokens)": [^,}]*(, )?//g'; }

sum() { grep -o "\"$1\": [0-9]*" "$2" | awk '{ n += $2 } END { print n + 0 }'; } # name, file: adds a number of all lines
