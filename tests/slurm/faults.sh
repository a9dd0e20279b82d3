#!/bin/bash
# faults.sh - breaks something in a run of two nodes with two ranks each, with default limits. Prints a table in Markdown: seconds to the
# message, the rank named, srun's exit code, the loss. It takes minutes and runs by name alone, tests/slurm/run_slurm.sh PROGRAM faults.
# Judges: the message names the right rank and node within 30 s; the exit code; only steps since the last checkpoint are lost; if the run
# continues, mpirun's metrics, bit for bit.
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/case.sh" "$@"
trap 'chattr -Rf -i "$dir" || true; rm -rf "$dir"' EXIT # in case it ends with a folder still immutable
write_cluster_deck
bad=0 nodes=n1,n2

ms() { date +%s%3N; }
seconds() { awk -v ms="$1" 'BEGIN { printf "%.1f", ms / 1000 }'; }

# Starts the deck by srun on n1 and n2. Its output goes to $dir/NAME.out, its exit code to $dir/NAME.code.
begin() { # name, key=value ... Uses the nodes of $nodes
  case=$1 out=${at:-$dir}/$1
  shift
  (code=0
    on head srun --mpi=pmix --nodelist="$nodes" --ntasks-per-node=2 --time=10 --job-name="$case" "$program" train "$dir/deck.yaml" \
      run.output="$out" checkpoint.save_steps=2 "$@" > "$dir/$case.out" 2>&1 || code=$?
    echo $code > "$dir/$case.code") &
  await "steps of $case" says '^ +5/'
}
says() { grep -aqE "$1" "$dir/$case.out"; }
has_code() { [ -s "$dir/$case.code" ]; }
# Tasks 0, 1, 2, 3 are ranks 0, 2, 1, 3 of the program. Task R is the (R % 2)th of its node. The processes of a node are in the
# order of their tasks.
pid_of() { on "n$(($1 / 2 + 1))" sh -c 'for p in $(pgrep -f "^'"$program"' train"); do
    tr "\0" "\n" < /proc/$p/environ | grep -qx SLURM_PROCID='"$1"' && echo $p; done; true'; }
hit() { # rank, signal
  on "n$(($1 / 2 + 1))" kill "-$2" "$(pid_of "$1")"
}
saved() { readlink "$out/checkpoints/LATEST" | sed 's/step-0*//'; }
lost() { echo "$(($(steps_of "$out") - $(saved))) steps, of 2 between checkpoints"; }
row() { echo "| $case | $1 | $2 | $3 | $4 |"; }

# Measures from the fault to the message about it, and to the end of srun. The limit is only for a hang.
message() { # an extended regular expression for the message, exit codes
  local from=$2 said code words
  await "the message of $case" eval 'says "^  .* exit code 76" || has_code'
  said=$(ms)
  await "the end of $case" has_code
  code=$(cat "$dir/$case.code")
  words=$(grep -aE '^trireme: rank .*(no sign of life|died|late)' "$dir/$case.out" | head -n 1)
  row "$(seconds $((said - from)))" "$(echo "$words" | sed -E 's/^trireme: //; s/\|/-/g')" "$code, $(seconds $(($(ms) - from))) s" "$(lost)"
  if ! grep -qE "$1" <<< "$words" || [ $((said - from)) -gt 30000 ] || [[ " $3 " != *" $code "* ]]; then
    bad=1
    echo "faults: $case: $1 expected within 30 s, code $3"
    tail -n 20 "$dir/$case.out"
  fi
}
# No process of the job is left on any node within 10 s of the run's end on the other side.
settled() { ! on "$1" pgrep -f "^$program train" > "$dir/left"; }
idle() { [ -z "$(on head squeue -h)" ] && [ "$(on head sinfo -h -p normal -t idle -o %D)" = 3 ]; }

echo '| fault | s to the message | named | srun ends with, after | lost |'
echo '|---|--:|---|---|---|'

begin sigkill train.steps=100000
from=$(ms); hit 3 KILL
message 'rank 3 .*on n2, cpu: it died' "$from" '76 137'
await "idle nodes" idle

begin sigkill-rank-0 train.steps=100000
from=$(ms); hit 0 KILL
message 'rank 0 .*on n1, cpu: it died' "$from" '76 137'
await "idle nodes" idle

begin sigstop train.steps=100000
from=$(ms); hit 2 STOP
message 'rank 1 \(task 2\) on n2, cpu: no sign of life' "$from" 76
await "idle nodes" idle

begin sigstop-rank-0 train.steps=100000
from=$(ms); hit 0 STOP
message 'rank 0 .*on n1, cpu: no sign of life' "$from" 76
await "idle nodes" idle

begin link-down train.steps=100000
from=$(ms); "$CLUSTER" cut n2
message 'rank 1 .*on n2, cpu; rank 3 .*on n2, cpu: no sign of life' "$from" '76 137 143'
await "the end of the ranks behind the cut" settled n2
echo "| (ranks of n2 behind the cut) | | | ended themselves, $(seconds $(($(ms) - from))) s after it | |"
"$CLUSTER" heal n2
on head scontrol update node=n2 state=resume 2> /dev/null || true
await "idle nodes" idle

begin slurmstepd-killed train.steps=100000 # all ranks of a node die, and Slurm tells nobody
from=$(ms); on n2 pkill -KILL -f 'slurmstepd: \[[0-9]*\.0\]'
message 'rank 1 .*on n2, cpu; rank 3 .*on n2, cpu: no sign of life' "$from" '76 137 143'
says 'warning: rank [13] .*on n2, cpu: its port is closed' || bad=1
on head scontrol update node=n2 state=resume 2> /dev/null || true
await "idle nodes" idle

begin slurmd-killed train.steps=40
"$CLUSTER" kill n2
await "the end of $case" has_code
"$CLUSTER" start n2
on head scontrol update node=n2 state=resume 2> /dev/null || true
row - "nobody: the run goes on" "$(cat "$dir/$case.code")" nothing
check_equal "$out" "$dir/mpirun" train.steps=40 checkpoint.save_steps=2
await "idle nodes" idle

begin late-8-s train.steps=40
hit 1 STOP; sleep 8; hit 1 CONT # shorter than silence may be
await "the end of $case" has_code
says 'exit code 76' && fail "a rank that is late by 8 s ends the run"
row - "nobody: the run goes on" "$(cat "$dir/$case.code")" nothing
diff <(numbers "$dir/mpirun") <(numbers "$out") || fail "other metrics after a rank was late"

begin unwritable-folder train.steps=40
on n1 chattr +i "$out/checkpoints"
from=$(ms)
await "the message of $case" says 'warning: .*no checkpoint could be written'
said=$(ms)
await "the end of $case" has_code
on n1 chattr -i "$out/checkpoints"
row "$(seconds $((said - from)))" "the folder: no checkpoint could be written, at each save; the last one ends the run" "$(cat "$dir/$case.code")" "what no folder took: $(($(steps_of "$out") - $(saved))) steps"
[ "$(cat "$dir/$case.code")" = 74 ] || bad=1

# Uses one node, because other nodes do not see a folder in its memory.
on n1 mkdir "$dir/small"
on n1 mount -t tmpfs -o size=9m tmpfs "$dir/small"
nodes=n1 at=$dir/small
begin full-disk train.steps=100000
await "the message of $case" says 'warning: .*no checkpoint could be written'
on n1 mount -o remount,size=900m "$dir/small"
await "a checkpoint when there is room" eval '[ "$(grep -aE "checkpoint (written|could)" "$dir/$case.out" | tail -n 1 | grep -c written)" = 1 ]'
on n1 touch "$out/STOP"
await "the end of $case" has_code
row - "the folder: no checkpoint could be written; the run goes on, and saves again when there is room" "$(cat "$dir/$case.code")" nothing
[ "$(cat "$dir/$case.code")" = 75 ] || bad=1
nodes=n1,n2 at=

for node in n1 n2; do # UDP from node to node is dropped, as a firewall does
  on $node ip rule add pref 10 table local && on $node ip rule del pref 0 && on $node ip route add blackhole default table 99 &&
    on $node ip rule add pref 20 ipproto udp table 99
done
begin firewall train.steps=100000
await "the message of $case" says 'warning: rank 1 .*on n2, cpu and the others of its machine: no heartbeat came'
touch "$out/STOP"
await "the end of $case" has_code
[ "$(grep -ac 'no heartbeat came' "$dir/$case.out")" = 1 ] || bad=1
row - "$(grep -aoE 'rank 1 .*no heartbeat came' "$dir/$case.out"): a warning; the run goes on" "$(cat "$dir/$case.code")" nothing
[ "$(cat "$dir/$case.code")" = 75 ] || bad=1

[ $bad = 0 ] || fail "see above"
