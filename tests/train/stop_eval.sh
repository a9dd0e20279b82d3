#!/bin/bash
# stop_eval.sh - stops runs while they evaluate. The evaluation is given up, and the resumed run repeats it.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/stop_eval.sh PROGRAM RANKS
#
# The first stop comes before the evaluation of step 0, from an allocation that is nearly over. The second comes after a step, by
# SIGUSR1. SFT does not generate in its steps, so after step 0 a signal at any time gives up the next evaluation. The run would last
# for hours, and is resumed for two more steps. Judges: the metrics of a run of as many steps at once, bit for bit except for
# numbers that may differ between equal runs. Exit code, checkpoint, printed facts.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
awk 'BEGIN { for (i = 0; i < 64; i++) printf "{\"text\": \"%d+%d\"}\n", i % 9, i % 7 }' > "$dir/sft.jsonl"
sed -i -e "s|train: [^,]*|train: $dir/sft.jsonl|" -e 's/^algo:.*/algo: {name: sft}/' \
  -e 's/^rollout:.*/rollout: {max_response_length: 20}/' -e 's/^eval:.*/eval: {steps: 1, max_prompts: 8}/' \
  -e 's/^train:.*/train: {steps: 100000, train_batch_size: 4, learning_rate: 1e-3, micro_batch_size: 1}/' "$dir/deck.yaml"
sed -i 's/^checkpoint:.*/checkpoint: {keep_best: eval_response_length_mean_tokens, save_total_limit: 1}/' "$dir/deck.yaml"
fail() { cat "$dir/log"; echo "stop_eval: $*"; exit 1; }

start() { # output folder; $pid is mpirun
  # shellcheck disable=SC2086
  mpirun $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" run.output="$1" > "$dir/out" 2> "$dir/log" &
  pid=$!
}

check() { # output folder, cause: it stopped after the step of LATEST
  code=0
  wait $pid || code=$?
  [ $code = 75 ] || fail "exit code $code"
  step=$(readlink "$1/checkpoints/LATEST" | tr -dc 0-9 | sed 's/^0*\(.\)/\1/')
  says "$1" end '"state": "stopped"' "\"step\": $step, \"exit_code\": 75" "\"cause\": \"$2\"" || fail "$1: another end in run.jsonl"
}

printf '#!/bin/sh\necho 7 0:05 9:00\n' > "$dir/squeue" # number, left, used
chmod +x "$dir/squeue"
SLURM_JOB_ID=7 PATH=$dir:$PATH start "$dir/time"
check "$dir/time" time
[ "$step" = 0 ] && [ ! -s "$dir/time/metrics.jsonl" ] || fail "the evaluation of step 0 is not given up"
start "$dir/time"
until [ -s "$dir/time/metrics.jsonl" ]; do kill -0 $pid || fail "ends before it is told to stop"; done
kill -USR1 $pid
check "$dir/time" signal
tail -n 1 "$dir/time/metrics.jsonl" | grep -q "^{\"step\": $step,.*\"eval\": \"due\"}" || fail "the line is not marked"
launch "$ranks" "$dir/time" train.steps=$((step + 2))
launch "$ranks" "$dir/whole" train.steps=$((step + 2))
diff <(numbers "$dir/whole") <(numbers "$dir/time") || fail "the resumed run's metrics differ"
[ "$(readlink "$dir/time/checkpoints/BEST")" = "$(readlink "$dir/whole/checkpoints/BEST")" ] ||
  fail "the best evaluation is another: $(ls -l "$dir/time/checkpoints" "$dir/whole/checkpoints")"
echo "stop_eval: given up and resumed on $ranks ranks, all metrics equal to the uninterrupted run's"
