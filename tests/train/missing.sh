#!/bin/bash
# missing.sh - stops or kills a rank of a whole run. The run names the rank, and ends with 76.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/missing.sh PROGRAM RANKS SIGNAL:RANK[:TENSOR] ... [told:RANK]    TENSOR: ranks that generate as one model. The run
#                                                                                is then in a rollout that would last for minutes
#
# Judges: exit code 76 of mpirun. One message on stderr, and in log.txt unless rank 0 is missing, because log.txt is its file. The
# message has rank, phase, collective and the ranks that have come. One verdict in run.jsonl, even if rank 0 is missing. A shorter
# run.timeout_s is also the limit of silence.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
sed -e 's/"max_position_embeddings": 32/"max_position_embeddings": 8192/; s/"eos_token_id": 256/"eos_token_id": null/' \
  "$here/inputs/quickstart/config.json" > "$dir/long.json"

# Ends a rank of a running run. Its launcher must not notice, because within a second or two it would end the other ranks first.
# So the launcher has started a shell, which stays.
lose() { # signal, rank, further key=value ...
  rm -rf "$dir/o" "$dir/victim"
  # shellcheck disable=SC2016,SC2086
  mpirun $root --oversubscribe -n "$ranks" sh -c 'victim=$0 d=$1; shift
      [ "$OMPI_COMM_WORLD_RANK" = "$victim" ] || exec "$@"
      "$@" & echo $! >"$d/victim"; wait $!; exec tail -f /dev/null' "$2" "$dir" \
    "$program" train "$dir/deck.yaml" run.output="$dir/o" run.ranks_per_node=0 run.timeout_s=10 train.steps=1000000 \
    eval.steps=0 checkpoint.save_steps=0 "${@:3}" > "$dir/log" 2>&1 &
  pid=$!
  until [ -s "$dir/o/metrics.jsonl" ] || { [ $# -gt 2 ] && grep -qs 'step 1/.*: rollout' "$dir/o/log.txt"; }; do
    kill -0 $pid 2> /dev/null || { cat "$dir/log"; echo "missing: the run did not begin"; exit 1; }
    sleep 0.05
  done
  kill -"$1" "$(cat "$dir/victim")"
  code=0
  wait $pid || code=$?
  kill -KILL "$(cat "$dir/victim")" 2> /dev/null || true # a launcher may leave one that is stopped
}

# Kills a rank so that its launcher notices. The launcher ends the other ranks a second later, and nothing follows the message.
tell() { # rank
  local pid
  rm -rf "$dir/o" "$dir/victim"
  # shellcheck disable=SC2016,SC2086
  OMPI_MCA_odls_base_sigkill_timeout=1 mpirun $root --oversubscribe -n "$ranks" sh -c '[ "$OMPI_COMM_WORLD_RANK" != "$0" ] || echo $$ > "$1"; shift; exec "$@"' "$1" \
    "$dir/victim" "$program" train "$dir/deck.yaml" run.output="$dir/o" train.steps=1000000 eval.steps=0 \
    checkpoint.save_steps=0 > "$dir/log" 2>&1 &
  pid=$!
  until [ -s "$dir/o/metrics.jsonl" ]; do
    kill -0 $pid 2> /dev/null || { cat "$dir/log"; echo "missing: the run did not begin"; exit 1; }
    sleep 0.05
  done
  kill -KILL "$(cat "$dir/victim")"
  ! wait $pid || { echo "missing: mpirun ended with 0"; exit 1; }
  ! sed -n "/^trireme: rank $1 on /,\$p" "$dir/log" | grep -q 'OUTPUT/STOP' ||
    { cat "$dir/log"; echo "missing: mpirun's signal is answered after the message"; exit 1; }
}

for case in "$@"; do
  if [[ $case = told:* ]]; then
    tell "${case#*:}"
    continue
  fi
  IFS=: read -r signal rank tensor <<< "$case"
  long=()
  [ -z "$tensor" ] || long=(shard.tensor_parallel_size="$tensor" model.config="$dir/long.json" rollout.max_response_length=8000
    rollout.rollout_batch_size=2 algo.num_generations=2 train.train_batch_size=4 train.micro_batch_size=1)
  lose "$signal" "$rank" "${long[@]}"
  what='[^@]* [0-9]+ s'
  [ "$signal" = STOP ] || what="[^@]*[^0-9]$(cat "$dir/victim")[^0-9@]*"
  waits='rank [0-9]+ waits in phase [a-z]+, [^@]*,@  number [0-9]+ of scope [a-z]+[^@]*'
  [ "$signal" = STOP ] || waits="($waits|no rank waits for it yet)"
  message="@trireme: rank $rank on [^ ]*, cpu: $what@(  [^@]*@)*  $waits@  [^@]* exit code 76"
  files=$dir/log
  [ "$rank" = 0 ] || files="$files $dir/o/log.txt"
  for file in $files; do
    said=@$(tr '\n' '@' < "$file") # its lines together
    [[ $said =~ $message && ${said#*"${BASH_REMATCH[0]}"} != *"@trireme: rank "* ]] ||
      { cat "$file"; echo "missing: $case: ${file##*/} does not say once: $message"; exit 1; }
  done
  [ "$code" = 76 ] || { cat "$dir/log"; echo "missing: $case: mpirun ended with $code, 76 expected"; exit 1; }
  cause=died
  [ "$signal" != STOP ] || cause=silent
  says "$dir/o" verdict "\"rank\": $rank, \"node\": \"$(hostname)\", \"cause\": \"$cause\"" '"since_s": ' &&
    [ "$(grep -c '"event": "verdict"' "$dir/o/run.jsonl")" = 1 ] && [ "$(tail -n 1 "$dir/o/run.jsonl")" = "$(event "$dir/o" verdict)" ] ||
    { cat "$dir/o/run.jsonl"; echo "missing: $case: run.jsonl has no verdict, or another one"; exit 1; }
done
echo "missing: $ranks ranks: $*: named, exit code 76"
