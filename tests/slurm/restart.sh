#!/bin/bash
# restart.sh - kills ranks and takes a node down. The job continues inside its allocation, on a spare node if there is one, else on fewer
# nodes. Judges: Slurm's record of the job; the nodes named by the starts; with the same number of ranks as before, the metrics and
# weights of a run by mpirun, bit for bit.
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/case.sh" "$@"
write_cluster_deck
out=$dir/job
job=$(TRIREME_SPARE=1 submit --nodes=3 jobs/train.sbatch "$dir/deck.yaml" run.output="$out" train.steps=100000 checkpoint.save_steps=2 shard.tensor_parallel_size=2)
nodes_of() { sed -nE 's/^  node [01] \((.*)\): .*/\1/p' "$dir/$job.out" 2> /dev/null | tail -n 2 | xargs; } # the last start's
kill_rank() { # node
  await "steps before a rank is killed on $1" has_steps "$out" $(($(steps_of "$out") + 3))
  on "$1" pkill -KILL -n -f "^$program train"
}
is_on() { [ "$(nodes_of)" = "$1" ]; }
await "a start" is_on "n1 n2"
kill_rank n2
await "a start without n2" is_on "n1 n3"
kill_rank n1
await "a start without n1" is_on "n2 n3"
await "steps after it" has_steps "$out" $(($(steps_of "$out") + 3))
touch "$out/STOP"
await_end "$job" 75
[ "$(field "$job" Restarts)" = 0 ] || fail "the job is put back"
grep -Eq 'ended with (76|137)\. .* 2 of 3 nodes without n2, try 1 of 3' "$dir/$job.out" || fail "the job file does not say what it does"
steps=$(readlink "$out/checkpoints/LATEST" | tr -dc 0-9 | sed 's/^0*//')
check_equal "$out" "$dir/mpirun" train.steps="$steps"

out=$dir/less
job=$(submit --nodelist=n1,n2 jobs/train.sbatch "$dir/deck.yaml" run.output="$out" train.steps=100000 checkpoint.save_steps=2 shard.tensor_parallel_size=2)
await "steps before a node goes down" has_steps "$out" 3
on head scontrol update nodename=n2 state=down reason=test
await "a start on one node" grep -q 'ranks: 2 on 1 node ' "$dir/$job.out"
await "steps on one node" has_steps "$out" $(($(steps_of "$out") + 3))
touch "$out/STOP"
await_end "$job" 75
is_field "$job" Restarts 0 || fail "the job is put back"
grep -q ' on 1 of 2 nodes without n2, try 1 of 3' "$dir/$job.out" || fail "the job file does not say that a node is left out"
echo "restart: killed on two nodes, after $steps steps the same metrics and weights by mpirun; a node that is down is left out"
