#!/bin/bash
# best.sh - keeps the checkpoint of the best evaluation, also in the background and after a resume, with the right content.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/best.sh PROGRAM RANKS
#
# Judges: awk over metrics.jsonl, and a run that ends at that step and must export the same bytes.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
fail() { cat "$dir/log"; echo "best: $*"; exit 1; }
sed -i -e 's/lr_scheduler: cosine/lr_scheduler: constant/' -e 's/^eval:.*/eval: {steps: 2, max_prompts: 16}/' \
  -e 's/^checkpoint:.*/checkpoint: {save_steps: 5}/' "$dir/deck.yaml"
by="checkpoint.keep_best=eval_reward_mean"

best_step() { # output folder, metric, 1 or -1: more or less is better; last step that counts: which step, by its lines
  sed -n "s/^{\"step\": \\([0-9]*\\),.*\"$2\": \\([^,}]*\\).*/\\1 \\2/p" "$1/metrics.jsonl" |
    awk -v sign="$3" -v last="$4" '$1 <= last && (NR == 1 || sign * $2 > most) { most = sign * $2; step = $1 } END { print step }'
}
folder_of() { printf 'step-%08d' "$1"; }
named() { readlink "$1/checkpoints/BEST" || true; }
check() { # output folder, step, the two newest others: BEST is of that step, and no more is kept
  [ "$(named "$1")" = "$(folder_of "$2")" ] || fail "BEST of ${1##*/} is $(named "$1"), not of step $2"
  kept=$(cd "$1/checkpoints" && echo *)
  [ "$kept" = "BEST LATEST $(for k in "$2" "$3" "$4"; do folder_of "$k"; echo; done | sort | paste -s -d ' ')" ] ||
    fail "${1##*/} keeps $kept"
}
export_of() { # path, name
  "$program" export "$1" "$dir/$2" --dtype f32 > "$dir/log" 2>&1 || fail "no export of $1"
}

launch "$ranks" "$dir/whole" train.steps=24 $by
best=$(best_step "$dir/whole" eval_reward_mean 1 24)
[ "$best" -gt 0 ] && [ "$best" -lt 20 ] || fail "the best evaluation is that of step $best, and shows nothing"
check "$dir/whole" "$best" 20 24
grep -q "^evaluation: data.eval (16), .*BEST.* eval_reward_mean$" "$dir/whole/log.txt" || fail "start"
grep -q "^  best  .*/checkpoints/BEST (step $best, eval_reward_mean [0-9.]*)$" "$dir/whole/log.txt" || fail "end"
"$program" inspect "$dir/whole/checkpoints/BEST" --verify > "$dir/log" 2>&1 || fail "BEST is not whole"
"$program" generate "$dir/whole/checkpoints/BEST" --max-new 2 --json 1+1= > "$dir/answer" 2> "$dir/log" || fail "no answer"
launch "$ranks" "$dir/so-far" train.steps="$best"
export_of "$dir/whole/checkpoints/BEST" best-model
export_of "$dir/so-far" so-far-model
cmp "$dir/best-model/model.safetensors" "$dir/so-far-model/model.safetensors" || fail "BEST holds other weights"

# In the background, in two parts. The second part begins after the best checkpoint.
launch "$ranks" "$dir/beside" train.steps=24 $by checkpoint.async=true
check "$dir/beside" "$best" 20 24
export_of "$dir/beside/checkpoints/BEST" beside-model
cmp "$dir/best-model/model.safetensors" "$dir/beside-model/model.safetensors" || fail "async: BEST holds other weights"
launch "$ranks" "$dir/parts" train.steps=$((best + 1)) $by
rm "$dir/parts/checkpoints/BEST" # as if killed before it was named
launch "$ranks" "$dir/parts" train.steps=24 $by
check "$dir/parts" "$best" 20 24
rm "$dir/parts/checkpoints/BEST" && mkdir -p "$dir/parts/checkpoints/BEST/mine" # set aside
launch "$ranks" "$dir/parts" train.steps=25 $by
[ "$(named "$dir/parts")" = "$(folder_of "$best")" ] || fail "a folder in its place: BEST is $(named "$dir/parts")"
[ -d "$dir/parts/checkpoints/BEST.before-1/mine" ] || fail "what stood in the place of BEST is gone"

# Resumed from before the best checkpoint. The best one up to there counts, and then the same one again.
launch "$ranks" "$dir/back" train.steps=24 $by checkpoint.save_total_limit=99
before=$((best <= 5 ? 0 : best <= 10 ? 5 : best <= 15 ? 10 : 15))
launch "$ranks" "$dir/back" train.steps=$((before + 1)) $by checkpoint.save_total_limit=99 \
  run.resume="$dir/back/checkpoints/$(folder_of $before)" eval.steps=100 eval.max_prompts=1
tr '\n' ' ' < "$dir/back/log.txt" |
  grep -q "eval_reward_mean[^0-9]* step $(best_step "$dir/back" eval_reward_mean 1 $before)," ||
  fail "wound back to $before, another best"
launch "$ranks" "$dir/again" train.steps=24 $by checkpoint.save_total_limit=99
launch "$ranks" "$dir/again" train.steps=24 $by run.resume="$dir/again/checkpoints/$(folder_of $before)"
check "$dir/again" "$best" 20 24

# The README's command keeps BEST alone, and without BEST it removes nothing.
keep() { # output folder
  sed -n '/^cd OUTPUT\/checkpoints/,/^```/{/^```/!p}' "$here/inputs/README.md" | sed "s|OUTPUT|$1|" > "$dir/keep.sh"
  grep -q BEST "$dir/keep.sh" || fail "inputs/README.md has no command that keeps BEST alone"
  bash "$dir/keep.sh" > "$dir/log" 2>&1
}
mv "$dir/again/checkpoints/BEST" "$dir/set-aside" && before_it=$(ls "$dir/again/checkpoints")
! keep "$dir/again" || fail "the README's command works without BEST"
[ "$(ls "$dir/again/checkpoints")" = "$before_it" ] || fail "without BEST the README's command removes checkpoints"
mv "$dir/set-aside" "$dir/again/checkpoints/BEST" && keep "$dir/again" || fail "the README's command"
[ "$(cd "$dir/again/checkpoints" && echo *) $(readlink "$dir/again/checkpoints/LATEST")" = \
  "BEST LATEST $(folder_of "$best") $(folder_of "$best")" ] || fail "the README's command keeps $(ls "$dir/again/checkpoints")"

# keep_best given in the middle of a run. Earlier evaluations count if their checkpoints exist. Less may be better.
launch "$ranks" "$dir/later" train.steps=10
launch "$ranks" "$dir/later" train.steps=12 checkpoint.keep_best=eval_response_length_mean_tokens
case $(named "$dir/later") in step-00000010 | step-00000012) ;; *) fail "begun later, BEST is $(named "$dir/later")" ;; esac
awk 'BEGIN { for (i = 0; i < 40; i++) printf "{\"prompt\": \"%d+%d=\", \"chosen\": \"%d\", \"rejected\": \"%d\"}\n",
  i % 9, i % 7, i % 9 + i % 7, i % 5 }' > "$dir/pairs.jsonl"
sed -e "s|train: [^,]*, eval: [^}]*|train: $dir/pairs.jsonl, eval: $dir/pairs.jsonl|" -e 's/^algo:.*/algo: {name: dpo}/' \
  -e '/^rollout:/d' -e '/^reward:/d' -e 's/^train:.*/train: {steps: 12, train_batch_size: 4, micro_batch_size: 1, learning_rate: 1e-2}/' \
  "$dir/deck.yaml" > "$dir/pairs.yaml"
mv "$dir/pairs.yaml" "$dir/deck.yaml"
launch "$ranks" "$dir/pairs" checkpoint.keep_best=eval_loss checkpoint.save_total_limit=1
least=$(best_step "$dir/pairs" eval_loss -1 12)
[ "$(named "$dir/pairs")" = "$(folder_of "$least")" ] || fail "the least loss is that of step $least, BEST is $(named "$dir/pairs")"

refused() { # words, key=value ...
  words=$1
  shift
  code=0
  "$program" train "$dir/deck.yaml" run.output="$dir/refused" "$@" > "$dir/log" 2>&1 || code=$?
  [ $code = 64 ] && tr '\n' ' ' < "$dir/log" | grep -q "$words" || fail "exit code $code, not '$words'"
}
refused "checkpoint.keep_best: 'loss' .*'eval_loss'" checkpoint.keep_best=loss
refused "checkpoint.keep_best = eval_reward_mean: .* eval_loss, eval_accuracy" \
  checkpoint.keep_best=eval_reward_mean
echo "best: step $best of 24, kept, beside the steps, resumed, wound back, on $ranks ranks"
