#!/bin/bash
# stop.sh - a run told to stop ends with 75 and a checkpoint, gives up a step that generates, and is resumed.
#
#   tests/stop.sh PROGRAM RANKS
# Told by OUTPUT/STOP when step 0 stands in the metrics, and by SIGUSR1 to mpirun when step 1 does; most of the time is spent
# generating, but any moment will do: the run would last for hours. It is resumed for two more steps. Judges: the metrics of
# a run that takes as many at once, bit for bit but for what may differ between equal runs; the exit code; what is said.
set -eu
. "$(dirname "$0")/run_case.sh"
write_deck
sed -e 's/"max_position_embeddings": 32/"max_position_embeddings": 320/; s/"eos_token_id": 256/"eos_token_id": null/' \
  "$here/inputs/quickstart/config.json" > "$dir/config.json"
sed -i -e "s|config: [^,]*|config: $dir/config.json|" -e 's/^algo:.*/algo: {name: grpo, num_generations: 2}/' \
  -e 's/^rollout:.*/rollout: {rollout_batch_size: 2, max_response_length: 300}/' \
  -e 's/^reward:.*/reward: [{name: regex, pattern: "[0-4].{4}[0-4]"}]/' -e 's/^eval:.*/eval: {steps: 2, max_prompts: 1}/' \
  -e 's/^train:.*/train: {steps: 100000, train_batch_size: 4, learning_rate: 1e-3, max_tokens_per_gpu: 640}/' "$dir/deck.yaml"
fail() { cat "$dir/log"; echo "stop: $*"; exit 1; }

# Starts a run and makes the wish when it has written so many lines; mpirun's exit code comes into $code.
tell() { # how, output folder, lines of metrics
  rm -rf "$2"
  # shellcheck disable=SC2086
  mpirun $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" run.output="$2" > "$dir/out" 2> "$dir/log" &
  pid=$!
  until [ -e "$2/metrics.jsonl" ] && [ "$(wc -l < "$2/metrics.jsonl")" -ge "$3" ]; do
    kill -0 $pid 2> /dev/null || fail "$2 ends before it is told to stop"
  done
  if [ "$1" = STOP ]; then ln -s "$dir/deck.yaml" "$2/STOP"; else kill -USR1 $pid; fi
  code=0
  wait $pid || code=$?
}

check() { # how, after how many lines
  out=$dir/$1
  tell "$1" "$out" "$2"
  [ $code = 75 ] || fail "$1: exit code $code"
  last=$(readlink "$out/checkpoints/LATEST" | tr -dc 0-9 | sed 's/^0*\(.\)/\1/')
  grep -Eq "step $((last + 1)) is given up|evaluation after step $last is given up|stopping after step $last" "$out/log.txt" ||
    fail "$1: log.txt does not say where it ends, after step $last"
  [ "$(wc -l < "$out/metrics.jsonl")" = $((last + 1)) ] || fail "$1: metrics of a step that was given up"
  answers=$(grep -c 'stopping after this step, again to end now' "$dir/log" || true)
  if [ "$1" = STOP ]; then
    [ ! -L "$out/STOP" ] && [ -s "$dir/deck.yaml" ] || fail "STOP is left, or followed"
    [ "$(cat "$dir/out")" = "stopped by $out/STOP" ] && [ "$answers" = 0 ] || fail "STOP: says $(cat "$dir/out")"
  else
    [ ! -s "$dir/out" ] && [ "$answers" = 1 ] || fail "$1: $answers answers to the signal"
  fi
  launch "$ranks" "$out" train.steps=$((last + 2))
  launch "$ranks" "$dir/whole-$1" train.steps=$((last + 2))
  diff <(numbers "$dir/whole-$1") <(numbers "$out") || fail "$1: the resumed run's metrics differ"
}

check STOP 1
check USR1 2
echo "stop: stopped and resumed on $ranks ranks, all metrics equal to the uninterrupted run's"
