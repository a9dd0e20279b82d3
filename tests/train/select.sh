#!/bin/bash
# select.sh - runs steps with rollout.dynamic_sampling, and checks kept groups and fillers, on other ranks, resumed and stopped.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/select.sh PROGRAM RANKS OTHER ...
#
# Judges: the answers of a run that asks for all prompts at once, with a selection by awk. The run itself on other numbers of
# ranks, bit for bit. The uninterrupted run, bit for bit.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
fail() { cat "$dir/log"; echo "select: $*"; exit 1; }
more="model.dtype=f32 rollout.save_every=1 eval.steps=0 data.eval=null train.lr_scheduler=constant algo.ppo_epochs=1"
one="train.train_batch_size=null train.steps=1 $more"
first=rollouts/step-00000001.jsonl

# From the lines of n prompts at once in groups of 4, prints the kept lines, with "- " before fillers.
select_lines() { # prompts of a step, asks; prints tokens and reward, then how many groups were dropped and asks made
  awk -v n="$1" -v asks="$2" '
    { t = $0; sub(/.*"tokens": /, "", t); sub(/\].*/, "]", t); r = $0; sub(/.*"reward": /, "", r); sub(/,.*/, "", r)
      g = int((NR - 1) / 4); line[NR - 1] = t " " r; if (NR % 4 == 1) base = r; if (r != base) differs[g] = 1 }
    END {
      for (k = 0; k < asks && kept < n; k++)
        for (g = k * n; g < (k + 1) * n; g++) {
          if (!differs[g]) dropped++
          else if (kept < n) { kept++; for (i = 0; i < 4; i++) print line[4 * g + i] }
        }
      for (g = (k - 1) * n; kept < n; g++)
        if (!differs[g]) { kept++; for (i = 0; i < 4; i++) print "- " line[4 * g + i] }
      print dropped, k - 1 }'
}
# The same for a step that was selected.
read_lines() { # output folder
  awk '{ t = $0; sub(/.*"tokens": /, "", t); sub(/\].*/, "]", t); r = $0; sub(/.*"reward": /, "", r); sub(/,.*/, "", r)
    print (/"advantage":/ ? "" : "- ") t " " r }' "$1/$first"
  sed -E 's/.*"dropped_groups": ([0-9]+).*"extra_batches": ([0-9]+).*/\1 \2/' "$1/metrics.jsonl"
}
# The mean reward of lines that are not fillers.
mean_reward() {
  awk '/^\[/ { kept++; split($0, z, "] "); sum += z[2] } END { printf "%.6f\n", sum / kept }'
}

check() { # pattern, asks, fillers wanted
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/all" run.resume=never "reward=[{name: regex, pattern: \"$1\"}]" rollout.rollout_batch_size=$((8 * $2)) $one
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/some" run.resume=never "reward=[{name: regex, pattern: \"$1\"}]" rollout.dynamic_sampling=true \
    rollout.max_extra_batches=$(($2 - 1)) $one
  select_lines 8 "$2" < "$dir/all/$first" > "$dir/want"
  read_lines "$dir/some" > "$dir/got"
  diff "$dir/want" "$dir/got" || fail "$1: other answers are kept"
  [ "$(grep -c '^-' "$dir/got" || true)" = "$3" ] || fail "$1: not $3 answers fill the step up"
  [ "$(grep -c '"code": "batch_not_filled"' "$dir/some/run.jsonl" || true)" = $(($3 ? 1 : 0)) ] || fail "$1: the warning"
  mean=$(sed -E 's/.*"reward_mean": ([-0-9.e]+).*/\1/' "$dir/some/metrics.jsonl")
  mean_reward < "$dir/got" | awk -v m="$mean" '{ exit ($1 - m > 1e-5 || m - $1 > 1e-5) }' || fail "$1: reward_mean $mean"
  for n in $others; do
    # shellcheck disable=SC2086
    launch "$n" "$dir/on-$n" run.resume=never "reward=[{name: regex, pattern: \"$1\"}]" rollout.dynamic_sampling=true \
      rollout.max_extra_batches=$(($2 - 1)) $one
    cmp "$dir/some/$first" "$dir/on-$n/$first" || fail "$1: $n ranks keep other answers"
  done
}
# A replay of a saved step keeps its fillers as fillers.
check_replay() { # pattern
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/replayed" run.resume=never "reward=[{name: regex, pattern: \"$1\"}]" rollout.dynamic_sampling=true \
    rollout.replay="$dir/some/rollouts" $one
  for f in loss grad_norm tokens reward_mean kl_mean_nats zero_variance_ratio; do
    paste -d ' ' <(sed -E "s/.*\"$f\": ([-0-9.e]+).*/\1/" "$dir/some/metrics.jsonl") \
      <(sed -E "s/.*\"$f\": ([-0-9.e]+).*/\1/" "$dir/replayed/metrics.jsonl") |
      awk '{ d = $1 - $2; exit !(d * d <= 1e-10 * $1 * $1) }' || fail "$1: replayed, another $f"
  done
}
# If an optimizer step's share of a step is all fillers, it moves no weight, as if the step had ended before.
check_empty() {
  mkdir -p "$dir/half" "$dir/filled"
  head -n 16 "$dir/some/$first" > "$dir/half/step-00000001.jsonl"
  sed -e '17,$s/}$/, "filler": true}/' -e 's/, "filler": true, "filler"/, "filler"/' "$dir/some/$first" > "$dir/filled/step-00000001.jsonl"
  for name in half filled; do
    # shellcheck disable=SC2086
    launch 1 "$dir/$name-run" rollout.replay="$dir/$name" train.steps=1 $more train.train_batch_size=16 \
      rollout.rollout_batch_size="$([ $name = half ] && echo 4 || echo 8)"
    "$program" export "$dir/$name-run" "$dir/$name-model" --dtype f32 > "$dir/log" 2>&1 || fail "no export of $name"
  done
  cmp "$dir/half-model/model.safetensors" "$dir/filled-model/model.safetensors" || fail "fillers move the weights"
  diff <(numbers "$dir/half-run") <(numbers "$dir/filled-run") || fail "fillers count in the metrics"
}
others="$*"
check "[0-4]" 3 4
check_replay "[0-4]"
check_empty
check '[0-9a-zA-Z]' 3 0

# A step begins after all prompts of the previous one, so no prompt comes twice in one epoch. A resumed run does so too.
six="reward=[{name: regex, pattern: \"[0-9a-zA-Z]\"}]"
# shellcheck disable=SC2086
launch "$ranks" "$dir/whole" rollout.dynamic_sampling=true train.steps=6 checkpoint.save_steps=3 "$six" $more
twice=$(cat "$dir"/whole/rollouts/*.jsonl | grep -o '"prompt_id": [0-9]*' | sort | uniq -c | awk '$1 != 4' | wc -l)
[ "$twice" = 0 ] || fail "$twice prompts come in two steps"
# shellcheck disable=SC2086
launch "$ranks" "$dir/again" rollout.dynamic_sampling=true train.steps=6 "$six" $more \
  run.resume="$dir/whole/checkpoints/step-00000003"
diff <(numbers "$dir/whole" | tail -3) <(numbers "$dir/again") || fail "a resumed run goes on in another way"

# Steps of fillers alone report their rewards, and the reason that nothing is learned. shellcheck disable=SC2086
launch "$ranks" "$dir/none-differ" rollout.dynamic_sampling=true rollout.max_extra_batches=0 train.steps=3 $more \
  'reward=[{name: regex, pattern: "(?!)"}]'
[ "$(grep -c '"tokens": 0, "reward_mean": 0, "reward_std": 0, "zero_variance_ratio": 1,' "$dir/none-differ/metrics.jsonl")" = 3 ] ||
  fail "steps of fillers alone have other metrics"
grep -q '"alarms": "[a-z_ ]*no_variance' "$dir/none-differ/metrics.jsonl" || fail "no word of groups without variance"
! grep no_gradient "$dir/none-differ/metrics.jsonl" || fail "a clip is blamed"

# Stopped while it asks for more answers again and again and none earns a reward.
mpirun $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" run.output="$dir/stopped" rollout.dynamic_sampling=true \
  rollout.max_extra_batches=1000 rollout.rollout_batch_size=64 'reward=[{name: regex, pattern: "(?!)"}]' $one > "$dir/log" 2>&1 &
pid=$!
until grep -q 'step 1/1: rollout' "$dir/stopped/log.txt" 2> /dev/null; do kill -0 $pid || fail "it ends by itself"; done
sleep 0.5
ln -s "$dir/deck.yaml" "$dir/stopped/STOP"
code=0
wait $pid || code=$?
[ $code = 75 ] || fail "stopped: exit code $code"
says "$dir/stopped" end '"state": "stopped"' '"step": 0,' '"cause": "file"' && [ ! -s "$dir/stopped/metrics.jsonl" ] || fail "the step is not given up"
echo "select: on $ranks and $others ranks the same groups, resumed and stopped"
