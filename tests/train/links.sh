#!/bin/bash
# links.sh - reports the traffic of communicators in the metrics and at the end of a run, on pretended nodes.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/links.sh PROGRAM RANKS
#
# Judge: the bytes of each step are exactly those of sharding's formulas (sharding.md 1.2). With N numbers, b = 2 bytes of a weight,
# r = 4 of a gradient and k micro-batches, a ring of X bytes over S ranks gives X (S - 1) / S. There are no bytes of weights if the
# ranks of a node share them. Every rate is above 0. The table has all communicators of several ranks with traffic, and no others,
# with these bytes and the bytes of the start. A plan that no link can keep is warned of by name.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
layers=2 width=256 # every tensor is a multiple of 4 x 64 numbers: nothing is padded
own=$((2 * width * width + width)) layer=$((7 * width * width + 2 * width))
numbers=$((own + layers * layer)) # own counts the embedding and the head, which are gathered once a micro-batch

cat > "$dir/config.json" <<EOF
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": $width, "hidden_size": $width, "num_hidden_layers": $layers,
 "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": $width, "hidden_act": "silu", "max_position_embeddings": 32,
 "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false, "bos_token_id": null, "eos_token_id": 0}
EOF
for i in $(seq 32); do echo "{\"tokens\": [1, 2, $i, 4]}"; done > "$dir/data.jsonl"
cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/none, threads: 1, device: cpu}
model: {config: $dir/config.json, dtype: bf16}
data: {train: $dir/data.jsonl}
algo: {name: sft}
train: {steps: 2, train_batch_size: 16, micro_batch_size: 2, learning_rate: 1e-3}
checkpoint: {save_steps: 0, save_final: false}
EOF
# Pretended measurements of doctor, with impossible links inside nodes and ordinary links between them.
export XDG_CACHE_HOME="$dir/cache"
mkdir -p "$dir/cache/trireme"
cat > "$dir/cache/trireme/machine-cpu-1.json" <<EOF
{"format": "trireme-machine", "version": 1, "name": "measured", "device_bytes": 1, "flops_bf16": 1, "flops_f32": 1, "mem_bytes_per_s": 1,
 "node": {"alpha_s": 1e-15, "bytes_per_s": 1e13}, "cross": {"alpha_s": 1e-15, "bytes_per_s": 1}, "host_bytes_per_s": 1, "disk_bytes_per_s": 1}
EOF

fail() { echo "links: $1"; cat "$dir/log"; exit 1; }

# Runs with these settings, and checks a step for each further argument SCOPE:RANKS:BYTES. Other scopes must not show.
carried() {
  local settings=$1 scope size bytes n rates
  shift
  # shellcheck disable=SC2086
  rm -rf "$dir/now" && launch "$ranks" "$dir/now" $settings
  for row; do
    IFS=: read -r scope size bytes <<< "$row"
    n=$(grep -c "\"mem_moved_${scope}_bytes\": $bytes[,}]" "$dir/now/metrics.jsonl") || true
    [ "$n" = 2 ] || fail "$settings: not $bytes bytes in $scope: $(cat "$dir/now/metrics.jsonl")"
    rates=$(sed -n "s/.*\"comm_${scope}_bytes_per_s\": \([0-9.e+]*\).*/\1/p" "$dir/now/metrics.jsonl" | awk '$1 > 0' | wc -l)
    [ "$rates" = 2 ] || fail "$settings: no rate above 0 in $scope: $(cat "$dir/now/metrics.jsonl")"
    awk -v scope="$scope" -v size="$size" -v moved="$((2 * bytes))" -v start="$((4 * numbers))" '
      $1 == scope && $2 == size { found = $6 ~ /^(ok|slow|-)$/ && $4 > 0 && $3 * 1e9 > 0.99 * moved && $3 * 1e9 < 1.01 * (moved + start) } END { exit !found }' "$dir/now/log.txt" ||
      fail "$settings: the table has no row of $scope with its numbers"
  done
  n=$(grep -o '"mem_moved_[a-z]*_bytes"' "$dir/now/metrics.jsonl" | wc -l)
  [ "$n" = $((2 * $#)) ] || fail "$settings: another communicator has metrics: $(cat "$dir/now/metrics.jsonl")"
  echo "links: $ranks ranks, $settings: $* bytes a step"
}
slow_links() { grep -c '"code": "slow_link"' "$dir/now/run.jsonl"; }
warned() { # scope, its place
  [ "$(slow_links)" = 1 ] && says "$dir/now" alarm '"code": "slow_link"' " $1 " "$2" || fail "no warning of $1 alone"
  grep -Eq "^ +$1 .* slow\$" "$dir/now/log.txt" || fail "the table does not call $1 slow"
}

k=$((16 / ranks / 2))
if [ "$ranks" = 2 ]; then
  carried "shard.plan=zero2 run.ranks_per_node=2" "world:2:$((numbers * (k * 4 + 2) / 2))"
  warned world ''
  carried "shard.plan=hybrid run.ranks_per_node=1" "cross:2:$((numbers * (4 + 2) / 2))"
  [ "$(slow_links)" = 0 ] || fail "a warning, and the link is faster than planned"
  grep -Eq '^ +cross .* ok$' "$dir/now/log.txt" || fail "the link is faster than planned, and not ok"
else
  carried "shard.plan=hybrid run.ranks_per_node=2" "node:2:$((numbers * k * 4 / 2))" "cross:2:$((numbers / 2 * (4 + 2) / 2))"
  warned node ' of node '
  export TRI_COMM=mpi
  carried "shard.plan=hybrid run.ranks_per_node=2" \
    "node:2:$(((numbers * k * 4 + layers * layer * 2 * k * 2 + own * 2 * k) / 2))" "cross:2:$((numbers / 2 * (4 + 2) / 2))"
  carried "shard.params=world shard.grads=world shard.optimizer=world run.ranks_per_node=2" \
    "world:4:$(((numbers * k * 4 + layers * layer * 2 * k * 2 + own * 2 * k) * 3 / 4))"
  carried "shard.params=none shard.grads=none shard.optimizer=none run.ranks_per_node=2" "world:4:$((2 * numbers * 4 * 3 / 4))"
fi
