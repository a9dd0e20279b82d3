#!/bin/bash
# options.sh - runs the options of online algorithms in whole runs, on RANKS ranks and on one.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/options.sh PROGRAM RANKS
#
# Replays three saved steps, so that every run has the same tokens. The sampler's log-probabilities in the files are half a nat
# below the trainer's. Every other answer of steps 1 and 3 was cut, and all of step 2. Judges: one rank with another micro-batch,
# to 1e-5. Numbers worked by hand in the comment above a check. For a resumed run the uninterrupted one, bit for bit.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
steps=3
fail() { cat "$dir/log"; echo "options: $*"; exit 1; }
field() { # folder, step, field
  awk -v s="$2" -v f="\"$3\":" '{ step = ""; v = "none"; for (i = 1; i < NF; i++) { if ($i ~ /"step":$/) step = $(i + 1) + 0
    if ($i == f || $i == "{" f) v = $(i + 1) } if (step == s) { gsub(/[,}]/, "", v); print v } }' "$1/metrics.jsonl"
}
near() { # compares a and b to 1e-5, relative, for a row named what
  awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; m = b < 0 ? -b : b; exit !((d < 0 ? -d : d) <= 1e-5 * m + 1e-9) }' ||
    fail "$1: $2, not $3"
}

launch 1 "$dir/made" model.dtype=f32 train.steps=$steps rollout.save_every=1 eval.steps=0 data.eval=null checkpoint.save_steps=0
for step in $(seq $steps); do
  awk -v all="$((step == 2))" '{ head = $0; sub(/"logprobs": \[.*/, "", head); tail = $0; sub(/.*"logprobs": \[[^]]*\]/, "", tail)
    match($0, /"logprobs": \[[^]]*\]/); n = split(substr($0, RSTART + 13, RLENGTH - 14), x, ", "); list = ""
    for (i = 1; i <= n; i++) list = list (i > 1 ? ", " : "") sprintf("%.9g", x[i] - 0.5)
    sub(/"stop": "[a-z]*"/, "\"stop\": \"" (all || NR % 2 ? "length" : "eos") "\"", tail)
    print head "\"logprobs\": [" list "]" tail }' "$dir/made/rollouts/step-$(printf %08d "$step").jsonl" > "$dir/step"
  mkdir -p "$dir/rollouts"
  mv "$dir/step" "$dir/rollouts/step-$(printf %08d "$step").jsonl"
done

common="model.dtype=f32 train.steps=$steps rollout.replay=$dir/rollouts run.sampler=rescore eval.steps=0 data.eval=null
  checkpoint.save_steps=1 checkpoint.save_total_limit=9 algo.kl_bias_correction=true algo.top_entropy_quantile=0.4
  algo.is_cap=1.5 algo.mask_truncated=true algo.kl_target=1e-6 algo.kl_horizon=100"
bonus="algo.entropy_coef=0.0075 algo.adaptive_entropy_target=1000" # nats: above any
# shellcheck disable=SC2086
launch 1 "$dir/one" $common $bonus train.micro_batch_size=2
# shellcheck disable=SC2086
launch "$ranks" "$dir/many" $common $bonus train.micro_batch_size=4
for step in $(seq $steps); do
  for f in loss grad_norm tokens is_ratio_mean is_capped_ratio kl_mean_nats entropy_mean_nats kl_coef entropy_coef; do
    near "step $step, $f" "$(field "$dir/many" "$step" $f)" "$(field "$dir/one" "$step" $f)"
  done
done

# The correction is exp(0.5) before the cap of 1.5, so every token of step 1 is over the cap.
near is_ratio_mean "$(field "$dir/one" 1 is_ratio_mean)" 1.6487213
[ "$(field "$dir/one" 1 is_capped_ratio)" = 1 ] || fail "not every token is over the cap"
# Step 2 has no answers left, so no loss, no token, and no KL to move the coefficient.
[ "$(field "$dir/one" 2 tokens)/$(field "$dir/one" 2 loss)/$(field "$dir/one" 2 kl_mean_nats)" = 0/0/none ] ||
  fail "a step of which all is cut has a loss"
[ "$(field "$dir/one" 1 tokens)" -lt "$(field "$dir/made" 1 tokens)" ] || fail "cut answers are learned from"
# The schedule follows the plan. It is at its end after the last update, though step 2 had none.
near learning_rate "$(field "$dir/one" 3 learning_rate)" 0
# The KL of step 1 is far above its target after its first update, so kl_coef grows by 0.2 x 32 samples / 100.
near kl_coef "$(field "$dir/one" 1 kl_coef)" 0.01
near kl_coef "$(field "$dir/one" 2 kl_coef)" 0.01064
near kl_coef "$(field "$dir/one" 3 kl_coef)" 0.01064
# Four optimizer steps below the target raise it by 0.005 each. Steps without tokens leave it.
near entropy_coef "$(field "$dir/one" 1 entropy_coef)" 0.0275
near entropy_coef "$(field "$dir/one" 2 entropy_coef)" 0.0275
near entropy_coef "$(field "$dir/one" 3 entropy_coef)" 0.0475
# The first optimizer step has no bonus, and later ones have. Above the target there is no bonus, and the coefficient falls to 0.
# shellcheck disable=SC2086
launch 1 "$dir/above" $common algo.entropy_coef=0.0075 algo.adaptive_entropy_target=1e-9 train.micro_batch_size=2
near entropy_coef "$(field "$dir/above" 1 entropy_coef)" 0
[ "$(field "$dir/above" 1 grad_norm)" != "$(field "$dir/one" 1 grad_norm)" ] || fail "the bonus does not act"
# shellcheck disable=SC2086
launch 1 "$dir/never" $common train.micro_batch_size=2
[ "$(field "$dir/above" 3 grad_norm)" = "$(field "$dir/never" 3 grad_norm)" ] || fail "a bonus above the target"

# The mean over all ranks counts. A step has one update, with the target slightly above its mean, then slightly below.
once="${common/train.steps=$steps/train.steps=1} train.train_batch_size=32 algo.ppo_epochs=1 train.micro_batch_size=4"
# shellcheck disable=SC2086
launch "$ranks" "$dir/mean" $once
mean=$(field "$dir/mean" 1 entropy_mean_nats)
for side in 1 -1; do
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/side$side" $once algo.entropy_coef=0.0075 \
    algo.adaptive_entropy_target="$(awk -v m="$mean" -v s=$side 'BEGIN { printf "%.12g", m * (1 + s * 1e-7) }')"
  near entropy_coef "$(field "$dir/side$side" 1 entropy_coef)" "$(awk -v s=$side 'BEGIN { print 0.0075 + s * 0.005 }')"
done

# Nobody asks the policy for answers that are left out, and the step's file must not have 0 for them.
mkdir "$dir/bare"
sed -E 's/, "logprobs": \[[^]]*\]//' "$dir/rollouts/step-00000001.jsonl" > "$dir/bare/step-00000001.jsonl"
# shellcheck disable=SC2086
launch "$ranks" "$dir/asked" ${once/"$dir/rollouts"/"$dir/bare"} rollout.save_every=1
awk '/"logprobs"/ != /"stop": "eos"/ { bad = 1 } END { exit bad || NR != 32 }' "$dir/asked/rollouts/step-00000001.jsonl" ||
  fail "the rollout's file has log-probabilities of other answers than those learned from"

# shellcheck disable=SC2086
launch "$ranks" "$dir/resumed" run.resume="$dir/many/checkpoints/step-00000001" $common \
  $bonus train.micro_batch_size=4
diff <(numbers "$dir/many" | tail -n 2) <(numbers "$dir/resumed" | tail -n 2) || fail "the resumed run's metrics differ"
# A coefficient given by the resume counts, then adapts, and is resumed as before.
for at in 1 2; do
  # shellcheck disable=SC2086
  launch 1 "$dir/anew" run.resume="$dir/$([ $at = 1 ] && echo many || echo anew)/checkpoints/step-0000000$at" $common \
    ${bonus/0.0075/0.25} train.micro_batch_size=4 algo.kl_coef=0.5 "run.allow_changes=[algo.kl_coef, algo.entropy_coef]"
done
near kl_coef "$(field "$dir/anew" 2 kl_coef)" 0.5
near kl_coef "$(field "$dir/anew" 3 kl_coef)" 0.5
near entropy_coef "$(field "$dir/anew" 3 entropy_coef)" 0.27

# In four steps only the critic learns. Numbers that follow the policy's learning wait for it, and no warning reports a gradient
# of 0. The warm-up of the policy's learning rate is half of its remaining four updates.
rest="model.dtype=f32 algo.name=ppo train.steps=5 eval.steps=0 data.eval=null checkpoint.save_steps=0 algo.kl_target=0.5
  algo.kl_horizon=100 algo.entropy_coef=0.0075 algo.adaptive_entropy_target=1000 train.warmup_ratio=0.5 train.lr_scheduler=constant"
# shellcheck disable=SC2086
launch "$ranks" "$dir/rest" $rest critic.warmup_steps=4
near kl_coef "$(field "$dir/rest" 5 kl_coef)" 0.01
near entropy_coef "$(field "$dir/rest" 4 entropy_coef)" 0.0075
near entropy_coef "$(field "$dir/rest" 5 entropy_coef)" 0.0275
near learning_rate "$(field "$dir/rest" 5 learning_rate)" 1e-3
! grep -q no_gradient "$dir/rest/metrics.jsonl" || fail "a policy that rests is taken for one that does not move"
# shellcheck disable=SC2086
launch 1 "$dir/idle" $rest critic.warmup_steps=5
grep -q '"code": "policy_rests"' "$dir/idle/run.jsonl" || fail "a policy that never learns"
echo "options: $ranks ranks as one, resumed bit for bit"
