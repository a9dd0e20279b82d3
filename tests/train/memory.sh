#!/bin/bash
# memory.sh - uses the planned memory of a rank to the byte under every shard plan.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/memory.sh PROGRAM RANKS    DEVICE=cuda: on the GPU, in builds with one. PLANS="000 112 222-2": only these.
#                                          -2: two ranks generate as one model
#
# Judge: planned equals used in each plan, and equals the earlier output of trireme plan. params, grads and optimizer over all
# ranks hold 1/RANKS of the bytes under `none`, except for padding (at most 64 elements a rank for each of 16 bytes of state in
# each of the model's units).
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
number() { sed -n "\$s/.*\"$1\": \([0-9]*\).*/\1/p" "$dir/run/metrics.jsonl"; }
device=${DEVICE:-cpu}
per_node=1; [ $((ranks % 2)) != 0 ] || per_node=2

printf '%-8s %-8s %-10s %12s %12s %12s   (bytes of the fullest rank; %s ranks, %s a node)\n' params grads optimizer planned used \
  state "$ranks" "$per_node"
scope=(none node world)
all="000 001 002 011 012 022 111 112 122 222"              # each kind of state at least as widely spread as the one before
[ $((ranks % 2)) != 0 ] || all="$all 112-2 222-2"
[ $((ranks % 4)) != 0 ] || all="$all 112-4 222-4"
for plan in ${PLANS:-$all}; do
  tensor=1 node=$per_node
  [[ $plan != *-* ]] || tensor=${plan#*-}
  [ $tensor -le $node ] || node=$tensor
  params=${scope[${plan:0:1}]} grads=${scope[${plan:1:1}]} optim=${scope[${plan:2:1}]}
  rm -rf "$dir/run"
  before=$("$program" plan "$dir/deck.yaml" run.output="$dir/run" shard.params=$params shard.grads=$grads shard.optimizer=$optim \
    run.ranks_per_node=$node shard.tensor_parallel_size=$tensor algo.kl_coef=0 algo.ppo_epochs=1 train.steps=1 eval.steps=1 checkpoint.async=true --gpus-per-node "$ranks" --json \
    --device "$device" 2> "$dir/log" | sed 's/.*"mem_planned_bytes": \([0-9]*\),.*/\1/')
  launch "$ranks" "$dir/run" shard.params=$params shard.grads=$grads shard.optimizer=$optim run.device=$device run.ranks_per_node=$node shard.tensor_parallel_size=$tensor \
    algo.kl_coef=0 algo.ppo_epochs=1 train.steps=1 eval.steps=1 checkpoint.async=true checkpoint.save_final=false
  planned=$(number mem_planned_bytes) used=$(number mem_used_bytes) state=$(number mem_state_bytes)
  printf '%-8s %-8s %-10s %12d %12d %12d   %s\n' $params $grads $optim "$planned" "$used" "$state" "$plan"
  [ "$planned" = "$before" ] || { echo "memory: $plan: trireme plan said $before bytes"; exit 1; }
  [ "$planned" = "$used" ] || { echo "memory: $plan: planned is not used"; exit 1; }
  [ $plan != 000 ] || whole=$state
  [ $plan != 222 ] || share=$state
done
units=$(awk -F'[:,]' '/num_hidden_layers/ { print $2 + 2 }' "$here/inputs/quickstart/config.json")
echo "memory: all over $ranks ranks: $share bytes of state, a $ranks. part of none's $whole would be $((whole / ranks))"
[ "$share" -ge $((whole / ranks)) ] && [ $((share * ranks - whole)) -le $((units * ranks * 64 * 16 + units * ranks * 5 * 256)) ] || exit 1

# A control group's limit that leaves 4 MiB for libraries and buffers beside the plan of one rank is refused, and 64 MiB is not.
[ "$device" = cpu ] || exit 0
one=/sys/fs/cgroup/memory$(awk -F: '$2 ~ /(^|,)memory(,|$)/ { print $3 }' /proc/self/cgroup) limit=memory.limit_in_bytes
[ -e "$one/$limit" ] || one=/sys/fs/cgroup$(awk -F: '$1 == 0 { print $3 }' /proc/self/cgroup) limit=memory.max
group=$one/trireme-memory.$$
mkdir "$group" 2> /dev/null && [ -e "$group/$limit" ] || { rmdir "$group" 2> /dev/null || true; echo "memory: no control group can be made here"; exit 0; }
trap 'rmdir "$group"; rm -rf "$dir"' EXIT
checks() { # bytes: the exit code of --check in the group
  echo "$1" > "$group/$limit"
  (echo $BASHPID > "$group/cgroup.procs" && exec "$program" train "$dir/deck.yaml" run.output="$dir/none" --check) > "$dir/log" 2>&1 && code=0 || code=$?
  while [ -s "$group/cgroup.procs" ]; do :; done
}
whole=$("$program" plan "$dir/deck.yaml" run.output="$dir/none" --gpus-per-node 1 --device cpu --json 2> "$dir/log" |
  sed 's/.*"host_bytes_per_node": \([0-9]*\),.*/\1/')
checks $((whole + (4 << 20)))
[ "$code" = 64 ] && grep -qF "/$limit" "$dir/log" ||
  { cat "$dir/log"; echo "memory: the check ended with $code under a limit that leaves nothing beside the plan"; exit 1; }
checks $((whole + (64 << 20)))
[ "$code" = 0 ] || { cat "$dir/log"; echo "memory: the check ended with $code under a limit that is enough"; exit 1; }
