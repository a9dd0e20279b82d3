#!/bin/bash
# resume_ranks.sh - resumes one run's checkpoint on other numbers of ranks and compares the losses with those of the run itself.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/resume_ranks.sh PROGRAM RANKS [recurrent] OTHER[:TENSOR] ...    recurrent: a model with recurrent layers
#                                                                             TENSOR: ranks that generate as one model
#
# Judge: the uninterrupted run on RANKS ranks, with loss and gradient norm of every later step within 1e-5, relative. If rounding
# flips a token, a step's rollout differs. This ends a comparison, is counted, and must be rare.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
steps=8 saved=4
more="model.dtype=f32 train.steps=$steps rollout.rollout_batch_size=12 train.train_batch_size=24 train.micro_batch_size=2
  checkpoint.save_steps=$saved rollout.save_every=1 eval.steps=0 data.eval=null train.lr_scheduler=constant"
if [ "$1" = recurrent ]; then
  shift
  write_recurrent
  more="$more model.config=$dir/recurrent.json"
fi
# shellcheck disable=SC2086
launch "$ranks" "$dir/whole" $more

field() { # folder, step, field
  awk -v s="$2" -v f="\"$3\":" '{ step = ""; v = ""; for (i = 1; i < NF; i++) { if ($i ~ /"step":$/) step = $(i + 1) + 0
    if ($i ~ f "$") v = $(i + 1) } if (step == s) { gsub(/[,}]/, "", v); print v } }' "$1/metrics.jsonl"
}
tokens() { sed 's/.*"tokens": \(\[[^]]*\]\).*/\1/' "$1/rollouts/step-$(printf %08d "$2").jsonl"; }

flips=0
for way in "$@"; do
  n=${way%:*} divided=
  [ "$way" = "$n" ] || divided="run.ranks_per_node=0 shard.tensor_parallel_size=${way#*:}"
  # shellcheck disable=SC2086
  launch "$n" "$dir/on-$n" run.resume="$dir/whole/checkpoints/step-$(printf %08d $saved)" $more $divided
  worst=0
  for step in $(seq $((saved + 1)) $steps); do
    if ! cmp -s <(tokens "$dir/whole" "$step") <(tokens "$dir/on-$n" "$step"); then
      flips=$((flips + 1))
      echo "resume_ranks: $n ranks: a token differs at step $step"
      break
    fi
    for f in loss grad_norm; do
      worst=$(awk -v a="$(field "$dir/whole" "$step" $f)" -v b="$(field "$dir/on-$n" "$step" $f)" -v w="$worst" -v what="$n ranks, step $step, $f" '
        BEGIN { if (a == "" || b == "") { print what ": no number" > "/dev/stderr"; exit 1 }
          d = a - b; if (d < 0) d = -d; m = a < 0 ? -a : a; r = d / (m > 1e-30 ? m : 1e-30); if (d == 0) r = 0
          if (r > 1e-5) { print what ": " a " and " b > "/dev/stderr"; exit 1 } print (r > w ? r : w) }')
    done
  done
  echo "resume_ranks: $ranks -> $n ranks, steps $((saved + 1)) to $step: largest relative difference $worst"
done
[ "$flips" -le 1 ] || { echo "resume_ranks: $flips of $# runs differ by a token"; exit 1; }
