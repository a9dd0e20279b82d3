#!/bin/bash
# rewards.sh - runs a program as a reward, asks it once for each answer, obeys its failures, and ends it with the run.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/rewards.sh PROGRAM RANKS CHILD
#
# Judges: one rank, line for line. The number of requests to the program. The exit codes of the contract.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
child=$3
write_deck
fail() { cat "$dir/log"; echo "rewards: $*"; exit 1; }
more="model.dtype=f32 rollout.save_every=1 eval.steps=0 data.eval=null algo.ppo_epochs=1 algo.kl_coef=0 checkpoint.save_final=false
  checkpoint.save_steps=0 train.train_batch_size=null train.micro_batch_size=1"
first=rollouts/step-00000001.jsonl
reward() { # on_error, more words of the command
  printf 'reward=[{name: process, command: [%s, --pids, %s/pids, --log, %s/asked%s], on_error: %s}]' "$child" "$dir" "$dir" "$2" "$1"
}
none_left() {
  while read -r pid; do
    for _ in $(seq 100); do
      [ -d "/proc/$pid" ] && ! grep -q ') Z' "/proc/$pid/stat" 2>/dev/null || continue 2
      sleep 0.1
    done
    fail "process $pid is left behind"
  done < "$dir/pids"
  rm "$dir/pids"
}
metric() { sed -E "s/.*\"$2\": ([-0-9.e]+|null).*/\1/" "$1/metrics.jsonl" | head -1; }
ends_with() { # code, key=value ...
  code=$1
  shift
  # shellcheck disable=SC2086
  "$program" train "$dir/deck.yaml" run.output="$dir/refused" run.resume=never $more train.steps="${steps:-2}" "$@" > "$dir/log" 2>&1 && got=0 || got=$?
  [ "$got" = "$code" ] || fail "$*: exit code $got, not $code"
}

# Answers with a digit have no reward. They leave the step, and the run learns from the others, the same on any number of ranks.
for n in 1 "$ranks"; do
  # shellcheck disable=SC2086
  launch "$n" "$dir/on-$n" $more train.steps=2 "$(reward drop ', --null, "0123456789"')"
  [ "$(wc -l < "$dir/asked")" = 64 ] || fail "$n ranks: the program was asked $(wc -l < "$dir/asked") times, not 64"
  rm "$dir/asked"
  none_left
done
for name in reward_mean reward_std response_length_mean_tokens tokens zero_variance_ratio reward_process_half; do
  [ "$(metric "$dir/on-1" $name)" = "$(metric "$dir/on-$ranks" $name)" ] || fail "1 and $ranks ranks have another $name"
done
cmp "$dir/on-1/$first" "$dir/on-$ranks/$first" || fail "1 and $ranks ranks have other rewards"
lost=$(grep -c '"reward": null' "$dir/on-1/$first")
# Half of the replies, for an even number of bytes, have a further number. Its mean is over the answers that have it.
half=$(awk -F'"rewards": \\{"process": ' '{ x = $2 + 0 } /"reward": null/ || x % 2 { next } { s += x / 2; n++ } END { printf "%.9g", s / n }' "$dir/on-1/$first")
awk -v a="$half" -v b="$(metric "$dir/on-1" reward_process_half)" 'BEGIN { d = a - b; exit b == "" || d > 1e-6 || d < -1e-6 }' ||
  fail "reward_process_half is $(metric "$dir/on-1" reward_process_half), not $half"
[ "$lost" -gt 0 ] && [ "$lost" -lt 32 ] && [ "$(metric "$dir/on-1" reward_failures)" = "$lost" ] || fail "$lost answers without a reward"
awk -v n="$lost" -v tokens="$(metric "$dir/on-1" tokens)" -v mean="$(metric "$dir/on-1" response_length_mean_tokens)" \
  'BEGIN { d = (32 - n) * mean - tokens; exit d > 1e-6 || d < -1e-6 }' || fail "tokens are not those of the answers that are left"
! grep '"reward": null' "$dir/on-1/$first" | grep -q advantage || fail "an answer without a reward has an advantage"

# Without any reward there is no step.
# shellcheck disable=SC2086
launch "$ranks" "$dir/nothing" $more train.steps=1 "$(reward drop ', --null, "*"')"
rm "$dir/asked"
[ "$(metric "$dir/nothing" skipped_steps)" = 1 ] && [ "$(metric "$dir/nothing" reward_mean)" = null ] ||
  fail "a step of which nothing is left is not skipped"
! grep non_finite "$dir/nothing/metrics.jsonl" || fail "a step of which nothing is left is said to have a gradient"
none_left

# A replay asks once for each answer too, not once on each rank.
sed -E 's/"reward": [^,]*, "rewards": \{[^}]*\}, //' "$dir/on-1/$first" > "$dir/bare" && mkdir "$dir/bare.d" && mv "$dir/bare" "$dir/bare.d/step-00000001.jsonl"
# shellcheck disable=SC2086
launch "$ranks" "$dir/replayed" $more train.steps=1 rollout.replay="$dir/bare.d" run.sampler=trust "$(reward zero ', --null, "0123456789"')"
[ "$(wc -l < "$dir/asked")" = 32 ] || fail "a replay asked $(wc -l < "$dir/asked") times, not 32"
[ "$(metric "$dir/replayed" reward_process_half)" = "$(metric "$dir/on-1" reward_process_half)" ] || fail "a replay has another reward_process_half"
none_left

# A failure ends the run, with the reason.
ends_with 69 "$(reward abort ', --null, "0123456789"')"
grep -q 'reward process .*prompt_id [0-9].*`reward`.*{.*on_error: abort' "$dir/log" || fail "no reason"
says "$dir/refused" end '"state": "failed"' '"exit_code": 69' '"cause": "reward"' '"trace": ["src/reward/' || fail "another end in run.jsonl"
grep -q '^  src/reward/reward.c:[0-9]* ' "$dir/refused/log.txt" || fail "log.txt does not say where in the program it ended"
! grep '^  src/' "$dir/log" || fail "the terminal says where in the program it ended, unasked"
outage=$(sed -n 's/^reward outage: //p' "$dir/log") # the line that jobs/train.sbatch looks for
[ -s "$outage" ] || fail "no word of the outage for the job file: '$outage'"
none_left
# A program that never answers is out of service, whatever on_error is. The earlier steps are kept.
steps=50 ends_with 69 --verbose "reward=[{name: process, command: [sh, -c, 'echo x >> $dir/started; exit 3'], on_error: drop}]"
grep -q '^  src/reward/work_queue/work_queue.c:[0-9]* ' "$dir/log" || fail "--verbose does not say where in the program it ended"
grep -q 'reward process: .* 3 .* 11 ' "$dir/log" || fail "no word of a crash loop"
[ "$(wc -l < "$dir/started")" -le 24 ] && [ -s "$dir/refused/OUTAGE" ] && [ "$(sed '/"event": "end"/,$d' "$dir/refused/run.jsonl" | grep -c '"code": "reward_restarted"')" = 1 ] ||
  fail "a crash loop: $(wc -l < "$dir/started") starts"
# How trireme's own threads wait (src/comm/cores.c) is not in a program's environment.
env -u OMP_WAIT_POLICY "$program" train "$dir/deck.yaml" run.output="$dir/waits" "reward=[{name: process, command: [sh, -c, 'env >> $dir/environment; exit 3']}]" \
  > "$dir/log" 2>&1 && fail "a program that never answers"
grep -q '^PATH=' "$dir/environment" && ! grep -E '^(GOMP_SPINCOUNT|KMP_BLOCKTIME)=' "$dir/environment" || fail "another environment"
ends_with 64 "reward=[{name: process, command: ['$dir/deck.yaml/verify']}]"
grep -q "reward.command = $dir/deck.yaml/verify: " "$dir/log" || fail "a command that is not there"

# Secrets of an address or a command are in nothing written or printed by the run. Its checkpoint can be resumed, also with other
# secrets.
secrets="{name: process, command: [sh, -c, 'API_TOKEN=SEKRIT exec \"\$0\" \"\$@\"', $child]}"
"$program" --version --verbose | grep -qi curl &&
  secrets="$secrets, {name: http, url: 'http://user:hunter2@127.0.0.1:9/x?token=SEKRIT', timeout_s: 1, retries: 0, on_error: zero}"
# shellcheck disable=SC2086
secret_run() { "$program" "$@" "reward=[${secrets//SEKRIT/$word}]" run.output="$dir/secret" ${more/save_final=false/save_final=true}; }
with_secrets() {
  word=SEKRIT
  echo "check, plan, run" && secret_run train "$dir/deck.yaml" train.steps=1 --check && secret_run plan "$dir/deck.yaml" train.steps=1 &&
    secret_run train "$dir/deck.yaml" train.steps=1 run.resume=never || return 1
  word=SEKRIT2
  echo "resume" && secret_run train "$dir/deck.yaml" train.steps=2 || return 1
  echo "look" && cp -r "$dir/secret" "$dir/other" && sed -i 's/weight: 1/weight: 2/' "$dir/other/deck.yaml" &&
    "$program" report "$dir/secret" "$dir/other" --html "$dir/secret/page.html" && "$program" report "$dir/secret" "$dir/other" &&
    "$program" watch "$dir/secret" && "$program" inspect "$dir/secret" && "$program" show "$dir/secret" || return 1
  echo "refuse" && ! secret_run train "$dir/deck.yaml" train.steps=2 reward.x=1 &&
    ! "$program" train "$dir/secret/deck.yaml" run.output="$dir/again"
}
with_secrets > "$dir/log" 2>&1 || fail "a run with secrets"
grep -q 'reward.command = sh: .*\*\*\*' "$dir/log" || fail "a deck with masks: no reason"
! grep -rlE 'SEKRIT|:hunter2' "$dir/secret" "$dir/log" || fail "a secret is written"

# A resumed run has no file of its first checkpoint open, so removing the checkpoint frees its disk space.
list="[sh, -c, 'IFS= read -r line; ls -l /proc/[0-9]*/fd > $dir/open 2> $dir/none; (printf \"%s\\n\" \"\$line\"; cat) | \"\$0\"', $child]"
"$program" train "$dir/deck.yaml" run.output="$dir/secret" ${more/save_final=false/save_final=true} train.steps=3 run.allow_changes=reward \
  "reward=[{name: process, command: $list}]" > "$dir/log" 2>&1 || fail "a third step"
grep -q "$dir/secret/metrics.jsonl" "$dir/open" && ! grep "$dir/secret/checkpoints/.*state" "$dir/open" || fail "a checkpoint is open still"

# A run told to stop does not wait for a program that is still thinking.
rm "$dir/asked"
# shellcheck disable=SC2086
mpirun $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" run.output="$dir/stopped" $more train.steps=2 \
  "$(reward abort ', --mute')" > "$dir/log" 2>&1 &
job=$!
until [ "$(grep -c . "$dir/asked" 2>/dev/null)" = "$ranks" ]; do kill -0 $job || fail "it does not run"; sleep 0.1; done
kill -USR1 $job
wait $job && got=0 || got=$?
[ "$got" = 75 ] || fail "told to stop while a program thinks: exit code $got"
none_left

# The program ends when it is killed with its ranks. shellcheck disable=SC2086
mpirun $root --oversubscribe -n "$ranks" "$program" train "$dir/deck.yaml" run.output="$dir/killed" $more train.steps=100000 \
  "$(reward abort ', --stay')" > "$dir/log" 2>&1 &
job=$!
until [ "$(grep -c . "$dir/pids" 2>/dev/null)" = "$ranks" ]; do kill -0 $job || fail "it does not run"; sleep 0.1; done
kill -KILL $job
none_left
echo "rewards: on 1 and $ranks ranks the same, asked once, no process left"
