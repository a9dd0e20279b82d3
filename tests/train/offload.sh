#!/bin/bash
# offload.sh - runs PPO with a reference, with and without its state in host memory, for the same bits and less device memory.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/offload.sh PROGRAM RANKS PLAN:TYPE[:WORD,...] ...    WORD of shard.offload, by default all of them
#
# Judge: with each word of shard.offload the metrics of `none` bit for bit, memory used as planned, and less device memory than with
# `none`. trireme plan says the same device memory. All checkpoints are equal.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
# On one rank the embedding and the head have 4.3 million elements each, three pieces of TRI_OFFLOAD_ELEMENTS. On several ranks a share
# would need more to save memory, because each piece has two buffers.
vocabulary=257; [ "$ranks" != 1 ] || vocabulary=45000
sed -e 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 6/' -e 's/"vocab_size": *[0-9]*/"vocab_size": '$vocabulary/ "$here/inputs/quickstart/config.json" > "$dir/deep.json"
per_node=1; [ $((ranks % 2)) != 0 ] || per_node=2
number() { sed -n "\$s/.*\"$1\": \([0-9]*\).*/\1/p" "$dir/now/metrics.jsonl"; }

for way in "$@"; do
  IFS=: read -r plan type words <<< "$way"
  [ -n "$words" ] || words=optimizer,frozen,all
  for words in none ${words//,/ }; do
    rm -rf "$dir/now"
    of=(shard.offload=$words shard.plan="$plan" model.dtype="$type" run.ranks_per_node=$per_node
      model.config="$dir/deep.json" algo.name=ppo algo.ema_beta=0.9 train.steps=2 eval.steps=0 checkpoint.save_steps=0)
    launch "$ranks" "$dir/now" "${of[@]}"
    planned=$(number mem_planned_bytes) used=$(number mem_used_bytes) here_bytes=$(device_planned "$dir/now")
    [ "$planned" = "$used" ] || { echo "offload: $way, $words: $planned bytes planned, $used used"; exit 1; }
    said=$("$program" plan "$dir/deck.yaml" run.output="$dir/now" "${of[@]}" --gpus-per-node "$ranks" --device cpu --json 2> /dev/null |
      sed 's/.*"device_bytes": \([0-9]*\), "host_bytes_per_node".*/\1/')
    [ "$said" = "$here_bytes" ] || { echo "offload: $way, $words: trireme plan says $said bytes of the device, the run $here_bytes"; exit 1; }
    if [ $words = none ]; then
      none=$here_bytes
      rm -rf "$dir/none"
      mv "$dir/now" "$dir/none"
      continue
    fi
    [ "$here_bytes" -lt "$none" ] || { echo "offload: $way, $words: $here_bytes bytes of the device, $none without"; exit 1; }
    diff <(numbers "$dir/none") <(numbers "$dir/now") || { echo "offload: $way, $words: other numbers"; exit 1; }
    cmp "$dir"/none/checkpoints/step-*/state.h5 "$dir"/now/checkpoints/step-*/state.h5 || { echo "offload: $way, $words: other state"; exit 1; }
    echo "offload: $way, $words: $here_bytes bytes of the device for $none, the same bits"
  done
done
