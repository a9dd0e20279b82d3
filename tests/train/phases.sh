#!/bin/bash
# phases.sh - runs PPO with a critic and a reward model that gather their weights in the memory of generation, without effect.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/phases.sh PROGRAM RANKS
#
# Judge: the same run without shared parameters, every loss, value and reward within 1e-5. The policy has enough layers for
# generation to use the memory of both models. Steps in which no answer counts leave the critic as it was.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
for i in $(seq 0 9); do
  echo "{\"prompt\": \"$i+$i=\", \"answer\": \"$((2 * i))\"}" >> "$dir/data.jsonl"
  echo "{\"prompt\": \"$i+$i=\", \"chosen\": \"$((2 * i))\", \"rejected\": \"1\"}" >> "$dir/pairs.jsonl"
done
sed 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 13/' "$here/inputs/quickstart/config.json" > "$dir/deep.json"
cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/none, seed: 5, threads: 1}
model: {config: $here/inputs/quickstart/config.json, tokenizer: $here/inputs/quickstart/tokenizer.json, dtype: f32}
train: {steps: 8, train_batch_size: 2, micro_batch_size: 1, learning_rate: 1e-9}
EOF
launch 1 "$dir/judge" algo.name=rm data.train="$dir/pairs.jsonl" train.steps=1

for plan in zero0 zero3; do
  launch "$ranks" "$dir/$plan" algo.name=ppo algo.mask_truncated=true model.config="$dir/deep.json" data.train="$dir/data.jsonl" \
    rollout.rollout_batch_size=2 rollout.max_response_length=10 'rollout.stop=[1,2,3,4,5,6,7]' critic.learning_rate=1e-4 \
    "reward=[{name: model, path: $dir/judge}]" data.eval="$dir/data.jsonl" eval.steps=1 eval.num_generations=16 \
    shard.plan=$plan
done
grep -q '"tokens": 0,' "$dir/zero0/metrics.jsonl" || { echo "phases: every step has tokens to learn from"; exit 1; }
paste -d '\n' <(numbers "$dir/zero0") <(numbers "$dir/zero3") | awk '
  NR % 2 { before = $0; next }
  { n = split(before, a, /, "|: /); m = split($0, b, /, "|: /)
    for (i = 1; i <= n; i++) { d = a[i] - b[i]
      if (n != m || d * d > 1e-10 * a[i] * a[i] + 1e-12) { print "line " NR / 2 ": " a[i - 1] ": " a[i] " and " b[i]; exit 1 } } }' ||
  { echo "phases: other numbers where parameters are shared"; exit 1; }
echo "phases: on $ranks ranks the same numbers where parameters are shared"
