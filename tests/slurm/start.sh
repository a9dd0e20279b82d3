#!/bin/bash
# start.sh - runs jobs/train.sbatch on two nodes with two ranks each. Judges: mpirun's metrics and exported weights, bit for bit, with every
# two ranks pretending to be a node; the bytes of state, as they depend on the ranks of a node; the nodes named by Slurm.
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/case.sh" "$@"
write_cluster_deck
job=$(submit jobs/train.sbatch "$dir/deck.yaml" run.output="$dir/job" train.steps=3 shard.tensor_parallel_size=2)
await_end "$job" 0
grep -q 'ranks: 4 on 2 nodes (pmix)' "$dir/$job.out" || fail "not two nodes"
for node in $(on head scontrol show hostnames "$(field "$job" NodeList)"); do
  grep -Eq "node [01] \($node\): ranks [0-3] [0-3]\$" "$dir/$job.out" || fail "not two ranks on $node"
done
check_equal "$dir/job" "$dir/mpirun" train.steps=3
bytes() { grep -o '"mem_state_bytes": [0-9]*' "$1/metrics.jsonl"; }
diff <(bytes "$dir/mpirun") <(bytes "$dir/job") || fail "the state is shared among others than by mpirun"
echo "start: the same metrics and weights by sbatch and by mpirun"
