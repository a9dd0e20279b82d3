#!/bin/bash
# requeue.sh - ends one run early in every way that permits resuming: the end of its walltime, scancel --signal=USR1, scontrol requeue,
# preemption, OUTPUT/STOP. Each time the run writes a checkpoint. After all but the last its job is requeued and resumes. Judges: Slurm's
# record of the job; the metrics and weights of an uninterrupted run by mpirun, bit for bit.
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/case.sh" "$@"
write_cluster_deck
out=$dir/job
# The first time, the allocation pretends to end in ten seconds, because Slurm's own least is a minute. The run uses at least half
# of it.
cat > "$dir/short" << EOF
#!/bin/bash
[ -n "\${SLURM_RESTART_COUNT-}" ] || export SLURM_JOB_END_TIME=\$((\$(date +%s) + 10))
exec "$program" "\$@"
EOF
chmod +x "$dir/short"

job=$(TRIREME=$dir/short submit --partition=preemptible jobs/train.sbatch "$dir/deck.yaml" run.output="$out" train.steps=100000)
is_put_back() { is_field "$job" JobState PENDING && is_field "$job" Restarts "$1"; }
check_end() { # manner of the end, number of the ended start
  await "job $job put back after $1" is_put_back "$2"
  steps=$(steps_of "$out")
  [ "$(readlink "$out/checkpoints/LATEST")" = "step-$(printf %08d "$steps")" ] || fail "$1: no checkpoint of the last step"
  await "two steps after $1" has_steps "$out" $((steps + 2))
}

check_end "the walltime" 1
grep -q 'the allocation ends in [0-5] s' "$dir/$job.out" || fail "it is not the walltime that ends the run"
on head scancel --signal=USR1 "$job"
check_end USR1 2
on head scontrol requeue "$job"
check_end "scontrol requeue" 3
first=$(on head sbatch --parsable --partition=normal --nodes=3 --exclusive --output=/dev/null --wrap=true)
await "the job that comes first" has_ended "$first"
check_end preemption 4
touch "$out/STOP"
await_end "$job" 75
is_field "$job" Restarts 4 || fail "the job is put back after STOP"

steps=$(($(steps_of "$out") + 2))
job=$(submit jobs/train.sbatch "$dir/deck.yaml" run.output="$out" train.steps=$steps)
await_end "$job" 0
check_equal "$out" "$dir/mpirun" train.steps=$steps
echo "requeue: five times ended and resumed, after $steps steps the same metrics and weights by mpirun"
