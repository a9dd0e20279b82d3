#!/bin/bash
# init.sh - trireme init as a new user's first command on the head node. Its files are submitted unchanged. Judges: Slurm's nodes and
# partition; the end of the job; the run's own messages.
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/case.sh" "$@"
for i in $(seq 8 39); do echo "{\"tokens\": [5, 6, $i, 7, $i], \"prompt_tokens\": 2}"; done > "$dir/lines.jsonl"
on head "$program" init "$dir/new" --yes --model "$here/tests/data/model/llama" --data "$dir/lines.jsonl" --device cpu --nodes 2 \
  --gpus-per-node 2 --walltime 10 > "$dir/init.out" 2>&1 || fail "init fails"
for line in --nodes=2 --ntasks-per-node=2 --cpus-per-task=2 --mem=0 --time=10 --partition=normal; do
  grep -qx "#SBATCH $line" "$dir/new/job.sbatch" || { cat "$dir/new/job.sbatch"; fail "the job file lacks $line"; }
done
if on head "$program" init "$dir/many" --yes --model "$here/tests/data/model/llama" --data "$dir/lines.jsonl" --device cpu --nodes 4 \
  2> "$dir/many.out"; then fail "there are three nodes"; fi
grep -q -- '--nodes 4: .* 3[ ,].* normal' "$dir/many.out" || fail "four nodes are not refused with the number there is"

job=$(on head sbatch --parsable --output="$dir/%j.out" "$dir/new/job.sbatch")
await_end "$job" 0
grep -q 'ranks: 4 on 2 nodes (pmix)' "$dir/$job.out" || fail "not two ranks on two nodes"
[ "$(wc -l < "$dir/new/out/metrics.jsonl")" = 2 ] || fail "not two passes of one update over 32 lines"
[ -e "$dir/new/out/checkpoints/LATEST/state.h5" ] || fail "no checkpoint is left"
echo "init: what it writes runs as it stands, over two nodes"
