#!/bin/bash
# jobs.sh - runs the other job files in smaller allocations than they request, srun from a terminal, and a job without requeues.
# Judges: Slurm's record of their jobs; the ranks, GPUs and cores seen by their tasks; the successor of a job without requeues.
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/case.sh" "$@"
write_cluster_deck
sed -i 's/steps: 40/steps: 1/' "$dir/deck.yaml"
# Records the view of a task: its number on its node, its GPUs, its cores.
cat > "$dir/trireme" << EOF
#!/bin/bash
echo "\$SLURM_LOCALID gpus=\${CUDA_VISIBLE_DEVICES-} cores=\$SLURM_CPUS_PER_TASK" > "$dir/seen.\$SLURM_JOB_NAME.\$SLURM_NODEID.\$SLURM_LOCALID"
exec "$program" "\$@"
EOF
chmod +x "$dir/trireme"
export TRIREME=$dir/trireme TRIREME_JOBS=$here/jobs

start() { # name of the job, options ..., job file, its arguments
  on head sbatch --parsable --partition=normal --time=5 --output="$dir/%x.%j.out" --job-name="$1" "${@:2}" run.output="$dir/$1"
}
# Prints the tasks of a job with their number on the node, number of GPUs, and cores.
check_tasks() { # name of a job, its tasks
  diff <(printf '%s\n' "${@:2}") <(awk -F '[ =]' '{ print $1, split($3, gpus, ","), $5 }' "$dir/seen.$1".*) || fail "$1: not these tasks"
}
gpus() { sed -E 's/.*gpus=([^ ]*) .*/\1/' "$dir/seen.$1".* | sort -u; } # prints the GPUs seen by its tasks

on head scontrol create reservation reservationname=kept starttime=now duration=30 users=root nodes=n3 > /dev/null
chain=$(start chain --reservation=kept --exclusive --mail-user=nobody --mail-type=INVALID_DEPEND --comment="a run, Requeue=1" \
  --no-requeue --nodes=1 --gres=gpu:1 --ntasks-per-node=1 --cpus-per-task=1 jobs/train.sbatch "$dir/deck.yaml" \
  train.steps=100000)
own=$(start own --nodes=1 --gpus-per-task=1 --ntasks-per-node=2 --cpus-per-task=1 jobs/train.sbatch "$dir/deck.yaml")
gres=$(start gres --nodes=1 --gres=gpu:2 --ntasks-per-node=2 --cpus-per-task=1 jobs/train.sbatch "$dir/deck.yaml")
low=$(start low --partition=preemptible --gpus-per-node=1 --ntasks-per-node=1 --cpus-per-task=1 jobs/preemptible.sbatch "$dir/deck.yaml")
cat > "$dir/list.txt" << EOF
run.seed=1
run.seed=2 "reward=[{name: regex, pattern: '[0 4]'}]"
EOF
sweep=$(cd "$dir" && on head sbatch --parsable --partition=normal --time=5 --output="$dir/sweep.%a.out" --job-name=sweep --array=1-3 \
  --cpus-per-task=1 "$here/jobs/sweep.sbatch" list.txt "$dir/deck.yaml")
on head srun --job-name=srun --mpi=pmix --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 "$TRIREME" train "$dir/deck.yaml" \
  run.output="$dir/srun" > "$dir/srun.out" 2>&1 || fail "srun fails"

await "steps of the job without requeues" has_steps "$dir/chain" 2
on head scancel --signal=USR1 "$chain"
await_end "$chain" 75
steps=$(steps_of "$dir/chain")
next=$(on head squeue --noheader --name=chain --format=%i)
await "steps of the job that follows" has_steps "$dir/chain" $((steps + 1))
for what in TimeLimit Partition NumNodes NumTasks CPUs/Task TresPerNode MinMemoryCPU Requeue Reservation OverSubscribe \
  MailUser MailType; do
  [ "$(field "$next" $what)" = "$(field "$chain" $what)" ] || fail "the job that follows has another $what: $(field "$next" $what)"
done
[ "$(on head scontrol show job "$next" | sed -nE 's/^ *Comment=(.*[^ ]) *$/\1/p')" = "a run, Requeue=1" ] || fail "another comment"
[ "$(field "$chain" Reservation)/$(field "$chain" OverSubscribe)/$(field "$chain" MailType)" = kept/NO/INVALID_DEPEND ] ||
  fail "the job itself has not what its options say"
touch "$dir/chain/STOP"
await_end "$next" 75
on head scontrol delete reservation=kept

one=$(start one --gpus-per-node=4 --ntasks-per-node=2 --cpus-per-task=1 jobs/one_node.sbatch "$dir/deck.yaml")
cpu=$(start cpu --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 jobs/cpu.sbatch "$dir/deck.yaml")
many=$(start many --nodes=3 --gpus-per-node=2 --ntasks-per-node=1 --cpus-per-task=2 jobs/many_nodes.sbatch "$dir/deck.yaml")
for job in "$one" "$many" "$cpu" "$low" "$own" "$gres" "${sweep}_1" "${sweep}_2"; do await_end "$job" 0; done
await_end "${sweep}_3" 64
check_tasks one "0 4 1" "1 4 1"
check_tasks many "0 2 2" "0 2 2"
check_tasks cpu "0 0 1" "0 0 1"
check_tasks low "0 1 1"
check_tasks own "0 1 1" "1 1 1"
[ "$(gpus own | wc -l)" = 2 ] || fail "own: two tasks see one GPU"
check_tasks gres "0 2 1" "1 2 1"
[ "$(gpus gres | wc -l)" = 1 ] || fail "gres: the tasks see different GPUs"
check_tasks sweep "0 1 1"
check_tasks srun "0 0 1" "0 0 1"
for line in 1 2; do grep -q "^  seed: $line\$" "$dir/out/list/$line/deck.yaml" || fail "sweep: not the seed of line $line"; done
grep -q "\[0 4\]" "$dir/out/list/2/deck.yaml" || fail "sweep: a value with a space is torn"
! grep -l squeue "$dir"/*.out || fail "a run does not know when its job ends"
echo "jobs: each with the ranks, GPUs and cores of its file; one that may not be put back is followed by another"
