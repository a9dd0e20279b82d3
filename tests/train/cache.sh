#!/bin/bash
# cache.sh - learns the same with a key/value cache that is too small for all answers at once.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/cache.sh PROGRAM RANKS
#
# Judge: the run with a cache for all answers. Runs with a third of that cache, and with the least, have the same rollouts, and the same
# numbers of every step and evaluation but for the counts of preempted answers. Their memory is that of trireme plan, to the byte. A replay
# of the rollouts has the same numbers with either cache. A cache of less than one answer is refused by the run, by --check and by plan.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
fail() { cat "$dir/log"; echo "cache: $*"; exit 1; }
number() { sed -n "\$s/.*\"$1\": \([0-9.]*\).*/\1/p" "$2"; } # prints a number of the last line
cache_bytes() { event "$1" start | grep -o '{[^{}]*"key/value cache"[^{}]*}' | grep -o '"bytes": [0-9]*' | awk '{ n += $2 } END { print n + 0 }'; }
write_long
common="run.ranks_per_node=$ranks model.config=$dir/long.json rollout.max_response_length=90 rollout.save_every=1 train.steps=2 algo.ppo_epochs=1
  train.micro_batch_size=1 eval.steps=1 eval.num_generations=2 eval.temperature=1 checkpoint.save_steps=0 checkpoint.save_final=false"

# An answer has 3 pages of 32 tokens and its prompt 1. A rank decodes 16 answers, which may take 51 pages. 5 pages are the least.
# With 160-2 all ranks generate as one model.
for way in 0 544 160-2 160; do
  tokens=${way%-*} divided=
  [ "$way" = "$tokens" ] || divided=shard.tensor_parallel_size=$ranks
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/$way" $common rollout.max_cached_tokens=$tokens $divided
  # shellcheck disable=SC2086
  "$program" plan "$dir/deck.yaml" run.output="$dir/none" $common rollout.max_cached_tokens=$tokens $divided --gpus-per-node "$ranks" \
    --device cpu --json > "$dir/plan.json" 2> "$dir/log" || fail "$way: no plan"
  line=$dir/$way/metrics.jsonl
  [ "$(number mem_planned_bytes "$dir/plan.json")" = "$(number mem_used_bytes "$line")" ] || fail "$tokens: not the memory of the plan"
  again=$(sum recomputed_tokens "$line") gave=$(sum preempted_answers "$line") use=$(number rollout_use_ratio "$line")
  case $tokens in
  0) [ "$gave/$again" = 0/0 ] || fail "$gave answers gave up, $again tokens again, though the cache holds all" ;;
  *) [ "$gave" -gt 0 ] && [ "$again" -gt 0 ] || fail "$way: no answer gave up" ;;
  esac
  awk -v x="$use" 'BEGIN { exit !(x > 0 && x <= 1) }' || fail "$way: $use of the rows are in use"
  [ "$tokens" = 0 ] || awk -v x="$use" -v all="$most" 'BEGIN { exit !(x < all) }' || fail "$way: $use of the rows, $most with all pages"
  [ "$tokens" != 0 ] || most=$use
  diff <(numbers "$dir/0" | drop_preempted) <(numbers "$dir/$way" | drop_preempted) || fail "$way: other numbers"
  for step in 1 2; do
    cmp "$dir/0/rollouts/step-0000000$step.jsonl" "$dir/$way/rollouts/step-0000000$step.jsonl" || fail "$way: other answers"
  done
done
# The answers of a step are read, and only evaluations generate.
for tokens in 0 160; do
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/replay-$tokens" $common run.sampler=rescore rollout.replay="$dir/160/rollouts" rollout.max_cached_tokens=$tokens
done
diff <(numbers "$dir/replay-0") <(numbers "$dir/replay-160") || fail "replayed, other numbers"
[ "$(cache_bytes "$dir/replay-160")" -lt "$(cache_bytes "$dir/replay-0")" ] || fail "replayed, no smaller cache"
[ "$(cache_bytes "$dir/160")" -gt 0 ] && [ "$(cache_bytes "$dir/160")" -lt "$(cache_bytes "$dir/0")" ] || fail "no smaller cache"

# shellcheck disable=SC2086
for way in "plan --device cpu" "train --check"; do
  code=0
  "$program" ${way% --*} "$dir/deck.yaml" run.output="$dir/none" $common rollout.max_cached_tokens=159 --${way#*--} > "$dir/log" 2>&1 || code=$?
  [ "$code" = 64 ] && grep -q "rollout.max_cached_tokens = 159" "$dir/log" || fail "$way: exit code $code for a cache of less than one answer"
done
echo "cache: $ranks ranks: $again tokens again with the least cache, the same answers"
