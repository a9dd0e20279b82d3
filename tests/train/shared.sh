#!/bin/bash
# shared.sh - shares weights and packed forms among the ranks of a machine, for the same bits in less memory.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/shared.sh PROGRAM RANKS PLAN:TYPE:ALGORITHM ...     nodes of two ranks if RANKS is even
#
# Judge: TRI_COMM=mpi, with weights of its own on each rank. Metrics (including the gap between sampler and trainer, which is
# 0) and checkpoint are the same bit for bit, and memory is as planned in both. A rank holds its part of the packed weights, to a
# few pages. If the weights are divided within a node, nothing is gathered. With two ranks, the first plan also runs with too little
# shared memory, for the same numbers and a message. A killed rank leaves nothing in /dev/shm.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
per_node=1; [ $((ranks % 2)) != 0 ] || per_node=2
fail() { echo "shared: $way: $1"; cat "$dir/log"; exit 1; }
number() { sed -n "\$s/.*\"$2\": \([0-9.]*\).*/\1/p" "$dir/$1/metrics.jsonl"; }
held() { awk -v name="$2" '$1 == "policy" && index($0, name) { print $(NF - 1), $NF }' "$dir/$1/log.txt" | head -n 1; } # MiB: rollout, learn
run() { # folder, words of the deck
  local folder=$1
  shift
  rm -rf "${dir:?}/$folder"
  launch "$ranks" "$dir/$folder" run.ranks_per_node=$per_node shard.plan="$plan" model.dtype="$type" algo.name="$algo" train.steps=3 \
    eval.steps=2 checkpoint.save_steps=0 checkpoint.save_final=true "$@"
  [ "$(number "$folder" mem_planned_bytes)" = "$(number "$folder" mem_used_bytes)" ] || fail "$folder: planned is not used"
}
same() { # folder
  diff <(numbers "$dir/own") <(numbers "$dir/$1") || fail "$1: other numbers"
  cmp "$dir"/own/checkpoints/step-*/state.h5 "$dir/$1"/checkpoints/step-*/state.h5 || fail "$1: another state"
}

for way in "$@"; do
  IFS=: read -r plan type algo words <<< "$way"
  TRI_COMM=mpi run own $words
  run shared $words
  same shared
  [ "$(number shared sampler_gap_max_nats)" = 0 ] || [ "$algo" = sft ] || fail "a gap between sampler and trainer"
  [ -n "$words" ] || awk -v own="$(held own 'packed weights')" -v now="$(held shared 'packed weights')" -v n=$per_node 'BEGIN {
    split(own, a); split(now, b); exit !(a[2] > 0 && b[1] * n <= a[1] + n * 0.02 && b[2] * n <= a[2] + n * 0.02) }' ||
    fail "packed weights, MiB: $(held own 'packed weights'), then $(held shared 'packed weights')"
  [ "$(number shared mem_used_bytes)" -lt "$(number own mem_used_bytes)" ] || fail "no less memory"
  [ "$plan" != hybrid ] || ! grep -q 'policy gathered' "$dir/shared/log.txt" || fail "weights are gathered"
  echo "shared: $way, $ranks ranks: $(number shared mem_used_bytes) bytes of a rank for $(number own mem_used_bytes), the same bits"
  [ "$way" = "$1" ] && [ "$ranks" = 2 ] || continue # with more ranks, a rank's memory is smaller than the checkpoint
  (trap '' XFSZ; ulimit -f 8192; run small $words) # 8 MiB: a checkpoint is smaller
  same small
  grep -q '[0-9] GiB .* run.collectives: mpi' "$dir/log" || fail "no word of copies"
done

names() { # process numbers
  local p
  for p in "$@"; do compgen -G "/dev/shm/trireme-*-$p-*" || true; done
}
way="a rank is killed"
# shellcheck disable=SC2086
mpirun $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" run.output="$dir/killed" train.steps=100000 > "$dir/log" 2>&1 &
job=$! limit=$((SECONDS + 120))
until [ -s "$dir/killed/metrics.jsonl" ]; do
  kill -0 $job 2> /dev/null || fail "it ended"
  [ $SECONDS -lt $limit ] || { kill -KILL $job; fail "no step in two minutes"; }
  sleep 0.05
done
mapfile -t pids < <(pgrep -P $job)
kill -KILL "${pids[-1]}"
! wait $job || fail "it went on without a rank"
[ -z "$(names "${pids[@]}")" ] || fail "left behind: $(names "${pids[@]}")"
