#!/bin/bash
# fp16.sh - float16 skips, counts and recovers from updates that overflow, and training follows f32.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/fp16.sh PROGRAM RANKS OTHER
#
# Judges: another number of ranks. The uninterrupted run, bit for bit. The same run in f32.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
other=$3
write_deck
fail() { cat "$dir/log"; echo "fp16: $*"; exit 1; }
value() { sed -nE "s/.*\"$1\": ([^,}]+).*/\1/p" "$2"; } # prints a metric, a line for each step

# A policy and a critic whose first scales are far too high, and double after two finite updates.
more="model.dtype=fp16 algo.name=ppo algo.num_generations=1 rollout.rollout_batch_size=16 train.train_batch_size=8
  train.lr_scheduler=constant train.learning_rate=1e-4 critic.learning_rate=1e-4 eval.steps=0 data.eval=null train.steps=6
  train.initial_scale_power=24 train.loss_scale_window=2 checkpoint.save_steps=2"
# shellcheck disable=SC2086
launch "$ranks" "$dir/whole" $more
metrics=$dir/whole/metrics.jsonl
[ "$(value overflow_steps "$metrics" | head -n 1)" -ge 1 ] && [ "$(value skipped_steps "$metrics" | head -n 1)" -ge 1 ] || fail "nothing overflows at first"
! grep -q non_finite "$metrics" || fail "an overflow that the scale gives way to is an alarm"
for who in "" critic_; do
  # 24 updates. Every second scale is halved at once, so some updates are skipped and the others learn.
  value "${who}loss_scale" "$metrics" | awk '$1 < low || NR == 1 { low = $1 } $1 > 2 * low { grown = 1 } { last = $1 }
    END { exit !(NR == 6 && (last < 16777216 || grown)) }' || fail "the ${who}scale does not follow: $(value "${who}loss_scale" "$metrics" | xargs)"
  value "${who}skipped_steps" "$metrics" | awk 'NR == 1 { first = $1 } END { exit !(NR == 6 && $1 < 20) }' ||
    fail "the ${who}updates skipped: $(value "${who}skipped_steps" "$metrics" | xargs)"
done
[ "$(value sampler_gap_max_nats "$metrics" | sort -u)" = 0 ] || fail "the sampler has other bits than the trainer"
# shellcheck disable=SC2086
launch "$ranks" "$dir/again" $more run.resume="$dir/whole/checkpoints/step-00000004"
diff <(numbers "$dir/whole" | tail -2) <(numbers "$dir/again") || fail "a resumed run goes on in another way"
# shellcheck disable=SC2086
launch "$other" "$dir/other" $more
for name in skipped_steps loss_scale; do
  [ "$(value $name "$metrics" | head -2)" = "$(value $name "$dir/other/metrics.jsonl" | head -2)" ] ||
    fail "$other ranks have another $name: $(value $name "$dir/other/metrics.jsonl" | xargs)"
done

# A constant scale with overflows raises an alarm, and no update changes a weight. shellcheck disable=SC2086
launch "$ranks" "$dir/fixed" ${more/train.steps=6/train.steps=1} train.loss_scale=4294967296
grep -q '"alarms": "[^"]*non_finite' "$dir/fixed/metrics.jsonl" || fail "updates that never succeed are no alarm"
! grep -q '"overflow_steps"' "$dir/fixed/metrics.jsonl" || fail "what nothing gives way to is counted so"

# Losses of 30 steps from one start. float16 rounds by 5e-4 of a number, and the steps are Adam's.
awk 'BEGIN { for (i = 0; i < 100; i++) printf "{\"prompt\": \"%d+%d=\", \"completion\": \"%d\"}\n", i / 10, i % 10, int(i / 10) + i % 10 }' > "$dir/data.jsonl"
for dtype in f32 fp16; do
  launch "$ranks" "$dir/$dtype" algo.name=sft algo.num_generations=null algo.kl_coef=null algo.ppo_epochs=null reward=null \
    rollout.rollout_batch_size=null rollout.max_response_length=null eval.steps=0 data.eval=null train.train_batch_size=32 \
    checkpoint.save_steps=0 train.steps=30 model.dtype=$dtype
done
paste <(value loss "$dir/f32/metrics.jsonl") <(value loss "$dir/fp16/metrics.jsonl") | awk '
  { d = $1 - $2; if (NR == 1) first = $1; if (d * d > 4e-4 * $1 * $1) { print "step " NR ": " $0; exit 1 } }
  END { exit !(NR == 30 && $1 < first / 2) }' || fail "training does not follow f32"
grep -q '"skipped_steps": 0, "overflow_steps": 0, "loss_scale": 65536' "$dir/fp16/metrics.jsonl" || fail "the first scale is not 65536"
echo "fp16: on $ranks and $other ranks what overflows is skipped and recovered from, resumed; training follows f32"
