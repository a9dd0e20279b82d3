#!/bin/bash
# stop.sh - stops runs, which end with 75 and a checkpoint, give up a step that generates, and are resumed.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/stop.sh PROGRAM RANKS
#
# Stops by OUTPUT/STOP and by SIGUSR1 to mpirun. One stop comes when step 0 or 1 is in the metrics, in a run that would last for
# hours, so any moment will do. Another comes during a rollout that would last for minutes. The run is resumed for two more steps.
# Judges: the metrics of a run of as many steps at once, bit for bit except for numbers that may differ between equal runs. The
# exit code. The printed facts. The last runs generate with all ranks as one model. They are compared with runs that do not.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
length=80 # three pages of the cache
sed -e 's/"max_position_embeddings": 32/"max_position_embeddings": 8192/; s/"eos_token_id": 256/"eos_token_id": null/' \
  "$here/inputs/quickstart/config.json" > "$dir/config.json"
sed -i -e "s|config: [^,]*|config: $dir/config.json|" -e 's/^algo:.*/algo: {name: grpo, num_generations: 2}/' \
  -e 's/^rollout:.*/rollout: {rollout_batch_size: 2, max_response_length: '$length'}/' \
  -e 's/^reward:.*/reward: [{name: regex, pattern: "[0-4].{4}[0-4]"}]/' -e 's/^eval:.*/eval: {steps: 2, max_prompts: 1}/' \
  -e 's/^train:.*/train: {steps: 100000, train_batch_size: 4, learning_rate: 1e-3, max_tokens_per_gpu: 640}/' "$dir/deck.yaml"
fail() { cat "$dir/log"; echo "stop: $*"; exit 1; }
answer=$(sed -n 's/.*\[TRI_HALT_STEPS\] = "\(.*\)\\n".*/\1/p' "$here/src/comm/halt.c") # to a signal, on stderr
[ -n "$answer" ] || { echo "stop: src/comm/halt.c has no answer to a signal"; exit 1; }

# Starts a run and stops it once one of its files has this many such lines. mpirun's exit code comes into $code.
tell() { # how, output folder, file, lines, of what pattern, further key=value ...
  how=$1 out=$2 file=$3 lines=$4 pattern=$5
  shift 5
  rm -rf "$out"
  # shellcheck disable=SC2086
  mpirun $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" run.output="$out" "$@" > "$dir/out" 2> "$dir/log" &
  pid=$!
  until [ -e "$out/$file" ] && [ "$(grep -c "$pattern" "$out/$file")" -ge "$lines" ]; do
    kill -0 $pid 2> /dev/null || fail "$out ends before it is told to stop"
  done
  if [ "$how" = STOP ]; then ln -s "$dir/deck.yaml" "$out/STOP"; else kill -USR1 $pid; fi
  code=0
  wait $pid || code=$?
  [ $code = 75 ] || fail "$how: exit code $code"
  last=$(readlink "$out/checkpoints/LATEST" | tr -dc 0-9 | sed 's/^0*\(.\)/\1/')
  answers=$(grep -cF "$answer" "$dir/log" || true)
  cause='"cause": "signal", "text": "SIGUSR1'
  [ "$how" != STOP ] || cause="\"cause\": \"file\", \"text\": \"$out/STOP\""
  grep -qF '"event": "state", "phase": "stopping", "step": '"$last, $cause" "$out/run.jsonl" && says "$out" save "\"step\": $last, " '"ok": true' &&
    says "$out" end '"state": "stopped"' "\"step\": $last, \"exit_code\": 75" "$cause" || fail "$how: another end in run.jsonl"
  if [ "$how" = STOP ]; then
    [ ! -L "$out/STOP" ] && [ -s "$dir/deck.yaml" ] || fail "STOP is left, or followed"
    [ "$(cat "$dir/out")" = "stopped by $out/STOP" ] && [ "$answers" = 0 ] || fail "STOP: says $(cat "$dir/out")"
  else
    [ ! -s "$dir/out" ] && [ "$answers" = 1 ] || fail "$how: $answers answers to the signal"
  fi
}

resume() { # further key=value ...
  launch "$ranks" "$out" train.steps=$((last + 2)) "$@"
  launch "$ranks" "$dir/whole-$how" train.steps=$((last + 2)) run.resume=never "${@/#shard.tensor_parallel_size=*/shard.tensor_parallel_size=1}"
  diff <(numbers "$dir/whole-$how") <(numbers "$out") || fail "$how: the resumed run's metrics differ"
}

check() { # how, after how many lines
  tell "$1" "$dir/$1" metrics.jsonl "$2" .
  sed -nE "s,^($out/STOP|SIGUSR1): ,,p" "$out/log.txt" | grep -Eqw "step ($last|$((last + 1)))" ||
    fail "$1: log.txt does not say where it ends, after step $last"
  [ "$(wc -l < "$out/metrics.jsonl")" = $((last + 1)) ] || fail "$1: metrics of a step that was given up"
  resume
}

give_up() { # how, further key=value ...; the resumed run's answers are short
  how=$1
  shift
  tell "$how" "$dir/$how-up" log.txt 1 'step 1/.*: rollout' eval.steps=0 rollout.max_response_length=8000 \
    train.max_tokens_per_gpu=8192 "$@"
  [ "$last" = 0 ] || fail "$1: step 1 is not given up"
  [ ! -s "$out/metrics.jsonl" ] || fail "$1: metrics of a step that was given up"
  resume eval.steps=0 "run.allow_changes=[rollout.max_response_length]" "$@"
}

one=(run.ranks_per_node="$ranks" shard.tensor_parallel_size="$ranks")
check STOP 1
check USR1 2
give_up STOP
give_up USR1
give_up STOP algo.advantage=greedy
give_up STOP "${one[@]}"
give_up USR1 "${one[@]}"
echo "stop: stopped and resumed on $ranks ranks, all metrics equal to the uninterrupted run's"
