#!/bin/bash
# kill_resume.sh - kills a run with SIGKILL at random moments, resumes it, and compares its metrics with an uninterrupted run's.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/kill_resume.sh PROGRAM RANKS KILLS [SEED [KEY=VALUE ...]]    replaces these keys of the deck
#
# Judge: the uninterrupted run, bit for bit, except for numbers that may differ between equal runs (time_*, mem_*, *_per_s). The
# moments differ from machine to machine. The result must not, because a kill must always leave a state that resumes to the same numbers.
# With rollout.max_cached_tokens=N the killed run alone has this smaller cache, and computes tokens again. Then the counts of these
# may differ too. model.config=recurrent is a model with recurrent layers. With shard.tensor_parallel_size=N runs that will be killed
# alone have models of N ranks.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
kills=$3 RANDOM=${4:-1} more=("${@:5}") parts='' steps=40 few=''
[[ "${more[*]}" != *ppo* ]] || parts=critic
[[ "${more[*]}" != *ema* ]] || parts="$parts ema"
for key in "${more[@]}"; do [[ $key != train.steps=* ]] || steps=${key#*=}; done
write_deck
[[ "${more[*]}" != *max_cached_tokens* ]] || few=1
if [[ "${more[*]}" = *model.config=recurrent* ]]; then
  write_recurrent && more=("${more[@]/#model.config=recurrent/model.config=$dir/recurrent.json}")
elif [ -n "$few" ]; then
  write_long && more+=("model.config=$dir/long.json")
fi
compared() { numbers "$1" | if [ -n "$few" ]; then drop_preempted; else cat; fi; } # output folder
# A killed process leaves files of Open MPI behind. They go with $session. The name is short, because sockets are made in it.
session=$(mktemp -d /dev/shm/kr.XXXXXX)
trap 'rm -rf "$dir" "$session"' EXIT
export OMPI_MCA_orte_tmpdir_base=$session

# Repeats until no process of the session is left, because mpirun may have just started one that pkill did not see. A rank holds
# the lock on its folder until its last thread has ended.
kill_session() { # its number, the run's output folder
  local code=0
  while [ $code = 0 ]; do pkill -KILL -r D,R,S -s "$1" || code=$?; done
  [ $code = 1 ] || { echo "pkill cannot kill: exit status $code (-r: procps 3.3.16 or newer)"; exit 1; }
  [ ! -d "$2" ] || flock "$2" true
}

began=$(date +%s%N)
whole=("${more[@]/checkpoint.async=true/checkpoint.async=false}")
whole=("${whole[@]/shard.tensor_parallel_size=*/shard.tensor_parallel_size=1}")
launch "$ranks" "$dir/whole" "${whole[@]/rollout.max_cached_tokens=*/rollout.max_cached_tokens=0}"
whole_ms=$((($(date +%s%N) - began) / 1000000))
lines=$(wc -l < "$dir/whole/metrics.jsonl")
[ "$lines" -gt "$steps" ] || { echo "the uninterrupted run wrote $lines lines"; exit 1; }

for k in $(seq "$kills"); do
  out=$dir/killed-$k
  tries=0 most_ms=$whole_ms
  until [ -s "$out/metrics.jsonl" ] && [ "$(wc -l < "$out/metrics.jsonl")" -ge "$lines" ] && [ -e "$out/done" ]; do
    tries=$((tries + 1))
    [ $tries -le 50 ] || { echo "kill $k: the run does not end"; cat "$dir/log"; exit 1; }
    if [ $tries = 1 ] || [ $((RANDOM % 3)) = 0 ]; then # some runs are killed more than once
      setsid bash -c 'exec mpirun "$@"' _ $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" \
        run.output="$out" "${more[@]}" > "$dir/log" 2>&1 &
      pid=$!
      ms=$((RANDOM % (most_ms + 1)))
      timeout "$((ms / 1000)).$(printf %03d $((ms % 1000)))" tail --pid=$pid -f /dev/null || true
      kill_session "$pid" "$out"
      code=0
      wait "$pid" 2> /dev/null || code=$?
      if [ $code = 0 ] && [ $tries = 1 ]; then # it ended before its moment came: anew, with an earlier one
        rm -rf "$out"
        tries=0 most_ms=$((most_ms / 2))
      elif [ $code = 0 ]; then
        touch "$out/done"
      fi
    else
      launch "$ranks" "$out" "${more[@]/shard.tensor_parallel_size=*/shard.tensor_parallel_size=1}" || { echo "kill $k: resuming failed"; exit 1; }
      touch "$out/done"
    fi
  done
  if [ -n "$few" ] && [ "$(sum recomputed_tokens "$out/metrics.jsonl")" = 0 ]; then
    echo "kill $k: no token was computed again"
    exit 1
  fi
  if ! diff <(compared "$dir/whole") <(compared "$out") > "$dir/diff"; then
    echo "kill $k: the resumed run's metrics differ"
    head -n 6 "$dir/diff"
    exit 1
  fi
  for part in $parts; do # parts of the state that no metric shows
    for run in "$dir/whole" "$out"; do
      "$program" export "$run" "$run-$part" --"$part" --dtype f32 2> /dev/null || { echo "kill $k: no $part in $run"; exit 1; }
    done
    cmp "$dir/whole-$part/model.safetensors" "$out-$part/model.safetensors" || { echo "kill $k: the $part differs"; exit 1; }
    rm -rf "$dir/whole-$part"
  done
  if [[ "${more[*]}" = *keep_best* ]]; then # BEST, and nothing else than what the uninterrupted run keeps
    [ "$(readlink "$out/checkpoints/BEST")" = "$(readlink "$dir/whole/checkpoints/BEST")" ] &&
      diff <(ls "$dir/whole/checkpoints") <(ls "$out/checkpoints") || { echo "kill $k: another best checkpoint"; exit 1; }
    "$program" inspect "$out/checkpoints/BEST" --verify > "$dir/log" 2>&1 || { echo "kill $k: BEST is not whole"; exit 1; }
  fi
  [ -z "$(find "$out/checkpoints" -name '*.tmp')" ] || { echo "kill $k: an unfinished checkpoint is left"; exit 1; }
done
echo "kill_resume: $kills runs killed and resumed on $ranks ranks, all metrics equal to the uninterrupted run's"
