#!/bin/bash
# greedy.sh - ReMax learns from the difference between an answer and the greedy answer to its prompt.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/greedy.sh PROGRAM RANKS OTHER ...
#
# Judges: the answers of a run at temperature 0. Other numbers of ranks, and the uninterrupted run, bit for bit.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
fail() { cat "$dir/log"; echo "greedy: $*"; exit 1; }
more="model.dtype=f32 rollout.save_every=1 eval.steps=0 data.eval=null train.lr_scheduler=constant algo.ppo_epochs=1
  train.train_batch_size=null train.micro_batch_size=1 algo.kl_coef=0"
rewards='reward=[{name: regex, pattern: "[0-9a-f]", weight: 0.5}, {name: regex, pattern: "[a-z]", weight: 0.25}]'
first=rollouts/step-00000001.jsonl
columns() { # prints prompt_id, reward and advantage of a rollout's lines
  awk '{ for (k = 1; k <= 3; k++) { v = $0; sub(".*\"" (k == 1 ? "prompt_id" : k == 2 ? "reward" : "advantage") "\": ", "", v)
    sub(/[,}].*/, "", v); printf "%s%s", v, k < 3 ? " " : "\n" } }' "$1/$first"
}

# shellcheck disable=SC2086
launch "$ranks" "$dir/cold" $more "$rewards" algo.num_generations=2 rollout.temperature=0 train.steps=1 rollout.rollout_batch_size=24
columns "$dir/cold" > "$dir/greedy"
[ "$(awk '{ print $2 }' "$dir/greedy" | sort -u | wc -l)" -gt 1 ] || fail "all greedy answers earn the same"

check() { # answers to a prompt, ..., key=value ...
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/some" run.resume=never $more "$rewards" train.steps=1 "$@"
  columns "$dir/some" > "$dir/got"
  mean=$(sed -E 's/.*"greedy_reward_mean": ([-0-9.e]+).*/\1/' "$dir/some/metrics.jsonl")
  awk -v mean="$mean" 'NR == FNR { base[$1] = $2; next } { sum += base[$1]; if (!($1 in base) || $2 - base[$1] != $3) exit 1 }
    END { d = sum / FNR - mean; exit (!FNR || d > 1e-6 || d < -1e-6) }' "$dir/greedy" "$dir/got" ||
    fail "$*: the advantage is not the reward less that of the greedy answer, or greedy_reward_mean $mean"
  for n in $others; do
    # shellcheck disable=SC2086
    launch "$n" "$dir/on-$n" run.resume=never $more "$rewards" train.steps=1 "$@"
    cmp "$dir/some/$first" "$dir/on-$n/$first" || fail "$*: $n ranks have other answers or advantages"
  done
}
others="$*"
check algo.name=remax algo.num_generations=null rollout.rollout_batch_size=24
check algo.name=remax algo.num_generations=4 rollout.dynamic_sampling=true rollout.rollout_batch_size=8 rollout.max_extra_batches=2

# shellcheck disable=SC2086
launch "$ranks" "$dir/whole" $more "$rewards" algo.name=remax train.steps=4 checkpoint.save_steps=2
# shellcheck disable=SC2086
launch "$ranks" "$dir/again" $more "$rewards" algo.name=remax train.steps=4 run.resume="$dir/whole/checkpoints/step-00000002"
diff <(numbers "$dir/whole" | tail -2) <(numbers "$dir/again") || fail "a resumed run goes on in another way"
! launch "$ranks" "$dir/replayed" $more algo.name=remax train.steps=1 rollout.replay="$dir/some/rollouts" > /dev/null ||
  fail "a replay is taken"
grep -q '^trireme: .*rollout\.replay .*algo\.advantage ' "$dir/log" || fail "a replay is refused for another reason"
echo "greedy: on $ranks and $others ranks the same advantages, resumed"
