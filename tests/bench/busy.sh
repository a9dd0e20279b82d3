#!/bin/bash
# busy.sh - times a training step on two idle cores and beside four busy loops on them (load 4), in rounds, and prints the medians.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/bench/busy.sh NEW [OLD]        times program NEW, and OLD beside it if given. ROUNDS=5 rounds
#
# There are two ways to use the two cores, two ranks of one thread and one rank of two threads. All processes have the priority of
# this shell. Six runnable threads on two cores have a third of a core each, so a step's fair share at load 4 is three idle steps.
# It passes with exit code 0 if a step takes at most three times the fair share, and on idle cores at most 1.02 times OLD's step.
# Idle figures need a machine without other work.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '5s/^# *//p' "$0" >&2; exit 64; }
rounds=${ROUNDS:-5}
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-busy.XXXXXX")
loops=()
end() { [ ${#loops[@]} = 0 ] || kill "${loops[@]}"; rm -rf "$dir"; }
trap end EXIT
trap 'exit 1' INT TERM
cores=$(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= ($2 ? $2 : $1) && n < 2; i++) printf n++ ? "," i : i }')
[ "${cores#*,}" != "$cores" ] || { echo "busy.sh: needs two cores" >&2; exit 69; }
root=; [ "$(id -u)" != 0 ] || root=--allow-run-as-root

cat > "$dir/config.json" <<E2
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 257, "hidden_size": 512, "num_hidden_layers": 4,
 "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 1536, "hidden_act": "silu",
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "initializer_range": 0.02, "bos_token_id": null, "eos_token_id": 256}
E2
for i in $(seq 64); do echo "{\"prompt\": \"$((i % 10))+$((i / 7))=\", \"completion\": \"$((i % 10 + i / 7))\"}"; done > "$dir/sft.jsonl"
cat > "$dir/deck.yaml" <<E2
run: {output: $dir/none, seed: 5}
model: {config: $dir/config.json, tokenizer: $here/inputs/quickstart/tokenizer.json, dtype: f32}
data: {train: $dir/sft.jsonl}
algo: {name: sft}
train: {steps: 1, train_batch_size: 16, micro_batch_size: 4, learning_rate: 1e-3, lr_scheduler: constant}
checkpoint: {save_steps: 0, save_minutes: 0, save_final: false}
E2

# Takes PROGRAM RANKS THREADS STEPS. Prints milliseconds a step, the median of all steps but the first three.
step_ms() {
  local launch=()
  # shellcheck disable=SC2086
  [ "$2" = 1 ] || launch=(mpirun $root --oversubscribe --bind-to none -n "$2")
  rm -rf "$dir/out"
  taskset -c "$cores" "${launch[@]}" "$1" train "$dir/deck.yaml" run.threads="$3" train.steps="$4" run.output="$dir/out" \
    > "$dir/said" 2>&1 < /dev/null || { cat "$dir/said" >&2; exit 1; }
  sed -n 's/.*"time_step_s": \([0-9.e-]*\).*/\1/p' "$dir/out/metrics.jsonl" | tail -n +4 | sort -g |
    awk '{ v[NR] = $1 } END { printf "%.2f", 1e3 * v[int((NR + 1) / 2)] }'
}

# Runs everything of one round under a load. Prints lines "binary|way|load|ms".
measure() { # load, steps
  local way n=0 program
  for program in "$@"; do
    n=$((n + 1))
    [ $n -gt 2 ] || continue
    for way in "2 1" "1 2"; do
      # shellcheck disable=SC2086
      echo "$((n - 2))|$way|$1|$(step_ms "$program" $way "$2")" | tee -a "$dir/all"
    done
  done
}

echo "binary (1: $1${2:+, 2: $2})|ranks threads|load|milliseconds a step"
for round in $(seq "$rounds"); do
  measure 0 60 "$@"
  loops=()
  for i in 1 2 3 4; do
    taskset -c "$cores" sh -c 'while :; do :; done' &
    loops+=($!)
  done
  measure 4 20 "$@"
  kill "${loops[@]}"
  wait "${loops[@]}" 2> /dev/null || true
  loops=()
done

awk -F'|' '
function median(k,   v, m, i, j, x) {
  m = split(seen[k], v, " ")
  for (i = 2; i <= m; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { x = v[j]; v[j] = v[j - 1]; v[j - 1] = x }
  return v[int((m + 1) / 2)]
}
{ seen[$1 "|" $2 "|" $3] = seen[$1 "|" $2 "|" $3] " " $4; if ($1 > binaries) binaries = $1 }
END {
  bad = 0
  for (w = 1; w <= 2; w++) for (b = 1; b <= binaries; b++) {
    way = w == 1 ? "2 1" : "1 2"
    idle = median(b "|" way "|0"); busy = median(b "|" way "|4"); old = binaries > 1 ? median("2|" way "|0") : idle
    printf "%s, binary %d: idle %.2f ms a step (%.3f of binary %d), load 4 %.1f ms: %.2f times the fair share\n",
      w == 1 ? "2 ranks x 1 thread" : "1 rank x 2 threads", b, idle, idle / old, binaries, busy, busy / (3 * idle)
    if (b == 1 && (busy > 9 * idle || idle > 1.02 * old)) bad = 1
  }
  exit bad
}' "$dir/all"
