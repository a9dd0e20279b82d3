#!/bin/bash
# beside_plan.sh - measures the host memory of ranks beside their plan in a control group, and compares it with the plan's figure.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/bench/beside_plan.sh PROGRAM [RANKS ...]    needs root and memory control groups (version 1 or 2), else exits with 77
# Prints MiB a rank for each number of ranks, as measured and as counted by trireme plan. Measured is the highest use of the group,
# with mpirun in it, less the plans.
# Judge: no rank takes more than the plan counts. The deck is SFT with a checkpoint each step, f32, 14 million parameters.
set -eu
program=$(readlink -f "$1")
shift
[ $# -gt 0 ] || set -- 1 2 4
here=$(cd "$(dirname "$0")/../.." && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
dir=$(mktemp -d)
one=/sys/fs/cgroup/memory$(awk -F: '$2 ~ /(^|,)memory(,|$)/ { print $3 }' /proc/self/cgroup) peak=memory.max_usage_in_bytes
[ -e "$one/$peak" ] || one=/sys/fs/cgroup$(awk -F: '$1 == 0 { print $3 }' /proc/self/cgroup) peak=memory.peak
trap 'rm -rf "$dir"' EXIT

for ((i = 0; i < 50; i++)); do echo "{\"prompt\": \"$((i % 9))+$((i / 9))=\", \"completion\": \"$((i % 9 + i / 9))\"}"; done > "$dir/data.jsonl"
sed -e 's/"hidden_size": *[0-9]*/"hidden_size": 512/; s/"intermediate_size": *[0-9]*/"intermediate_size": 1536/' \
  "$here/inputs/quickstart/config.json" > "$dir/config.json"
cat > "$dir/deck.yaml" << D
run: {output: $dir/out, threads: 1, resume: never}
model: {config: $dir/config.json, tokenizer: $here/inputs/quickstart/tokenizer.json, dtype: f32}
data: {train: $dir/data.jsonl}
algo: {name: sft}
train: {steps: 3, train_batch_size: 48, micro_batch_size: 12}
checkpoint: {save_steps: 1}
D
bad=0
printf 'ranks  measured  counted\n'
for n in "$@"; do
  group=$one/beside.$$.$n
  mkdir "$group" 2> /dev/null && [ -e "$group/$peak" ] || { echo "beside: no control group of memory can be made here"; exit 77; }
  launcher=(mpirun --oversubscribe -n "$n")
  [ "$n" != 1 ] || launcher=()
  (echo $BASHPID > "$group/cgroup.procs"; exec "${launcher[@]}" "$program" train "$dir/deck.yaml" run.ranks_per_node="$n") \
    > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
  used=$(cat "$group/$peak")
  until rmdir "$group" 2> /dev/null; do :; done # the kernel may still count the last process
  rm -rf "$dir/out"
  figures=$("$program" plan "$dir/deck.yaml" --gpus-per-node "$n" --device cpu run.ranks_per_node="$n" --json 2> "$dir/log")
  planned=$(sed 's/.*"host_bytes_per_node": \([0-9]*\).*/\1/' <<< "$figures")
  beside=$(sed 's/.*"host_beside_bytes": \([0-9]*\).*/\1/' <<< "$figures")
  awk -v n="$n" -v used="$used" -v planned="$planned" -v beside="$beside" 'BEGIN {
    printf "%5d %9.1f %8.1f\n", n, (used - planned) / n / 1048576, beside / n / 1048576; exit used - planned > beside }' || bad=1
done
exit $bad
