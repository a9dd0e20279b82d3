#!/bin/bash
# job_file.sh - tests the reaction of jobs/train.sbatch to each end of a run. Judge: the arguments of the Slurm commands it calls. Fake
# commands record them and answer as each case says. The program itself tells the end of a run from run.jsonl.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/jobs/job_file.sh PROGRAM
set -eu
program=$(realpath "$1")
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-job-file.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cat > "$dir/srun" << 'END'
#!/bin/bash
[[ $SLURM_JOB_NODELIST = n1,n2 || " $* " = *" --nodelist=$SLURM_JOB_NODELIST "* ]] || echo "of the job: $SLURM_JOB_NODELIST" >> "$DIR/said"
echo "srun $*" >> "$DIR/said"
case "$*" in *\ true) exit $ANSWERS ;; esac # does a node answer?
compgen -v | grep -E '^(SLURM|SRUN|PMI|OMPI|MPI)_?' | while read -r name; do echo "$name=${!name}"; done > "$DIR/environment"
read -r _ _ _ file _ < "/proc/$PPID/stat" # the job file's process, as this one's parent is its child
read -r code words < "$DIR/ends"
sed -i 1d "$DIR/ends"
event() { echo "{\"v\": 1, \"time_unix_s\": 1.5, \"tag\": \"$TRI_START\", $1}" >> "$DIR/out/run.jsonl"; }
case $words in
verdict\ *) # node and cause, as written by src/report/runlog.c
  read -r _ node cause <<< "$words"
  event "\"event\": \"verdict\", \"rank\": 2, \"node\": \"$node\", \"cause\": \"$cause\", \"text\": \"rank 2 on $node\\n  it was in phase learn\""
  ;;
end\ *) # state, cause
  read -r _ state cause <<< "$words"
  event "\"event\": \"end\", \"state\": \"$state\", \"step\": 3, \"exit_code\": $code, \"cause\": \"$cause\""
  ;;
signal\ *) # goes to the job file, and the ranks only get their end
  trap 'kill $!; exit "$code"' USR1
  sleep 60 &
  kill "-${words#signal }" "$file"
  wait
  exit 99 # nothing came in a minute
  ;;
lost\ *) trap "" USR1; kill "-${words#lost }" "$file" ;; # the same, but the ranks die of another reason
stopped* | reward*) echo "$words" ;;
*) echo -e "$words" >&2 ;;
esac
exit "$code"
END
cat > "$dir/scontrol" << 'END'
#!/bin/sh
case $1-$2 in
show-hostnames) [ "$3" = 'n[1-2]' ] && printf '%s\n' $HAS || echo "$3" | tr , '\n' ;;
show-job)
  [ "$3" = 7 ] || echo "show job $3" >> "$DIR/said"
  printf '%s\n' "JobId=8 ArrayJobId=7 ArrayTaskId=2 JobName=run" "   JobState=CANCELLED Restarts=5 Requeue=1" "" # here 7 is the number of an array
  echo "JobId=7 $ARRAY JobName=run TimeLimit=09:00:00"
  printf '   %s\n' "JobState=$STATE Reason=$REASON Dependency=(null)" "Requeue=$REQUEUE Restarts=0" "TimeLimit=01:00:00 TimeMin=N/A" \
    "NumNodes=2 NumCPUs=8 NumTasks=4 CPUs/Task=$CORES ReqB:S:C:T=0:0:*:*" "Socks/Node=* NtasksPerN:B:S:C=$PER_NODE:0:*:* CoreSpec=*" \
    "MinCPUsNode=4 $MEMORY MinTmpDiskNode=0" "$LISTS" 'NodeList=n[1-2]' 'WorkDir=/a folder Requeue=1' 'StdOut=/out/7.out' "$SHOWN" "Power=" "" ;;
*) echo "scontrol $*" >> "$DIR/said" ;;
esac
END
printf '#!/bin/sh\nprintf "%%b" "$NODES"\n' > "$dir/sinfo"
printf '#!/bin/sh\necho "sbatch $*${SLURM_CONF+ by $SLURM_CONF}" >> "$DIR/said"\n' > "$dir/sbatch"
printf '#!/bin/sh\n[ "$1" != watch ] || exec "%s" "$@"\necho "check $*" >> "$DIR/said"\n[ "$6" -le "$ALLOWED" ]\n' "$program" > "$dir/trireme"
mkdir "$dir/out"
cat > "$dir/deck.yaml" << END
run: {output: $dir/out}
model: {path: none}
data: {train: none.jsonl}
algo: {name: sft}
train: {steps: 9, train_batch_size: 8}
END
chmod +x "$dir"/s* "$dir/trireme"

# A shell cannot restore signals ignored by nohup. env of coreutils 8.31 or newer can.
plainly=(env)
! env --default-signal=HUP true 2> /dev/null || plainly+=(--default-signal=HUP,INT,QUIT,PIPE)

# Checks the job's exit code and the calls after the first step. The arguments are the code, the calls, and the ends of the steps
# ("CODE WORDS").
check() { # exit code, calls by their beginnings, ends
  local code=0 expected=$1 calls=$2
  shift 2
  printf '%s\n' "$@" > "$dir/ends"
  : > "$dir/said"
  rm -f "$dir/out/run.jsonl"
  cd "$dir"
  "${plainly[@]}" DIR="$dir" PATH="$dir:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NAME=run SLURM_JOB_PARTITION=p SLURM_JOB_NUM_NODES="${n-2}" \
    SLURM_JOB_NODELIST=n1,n2 SLURM_TASKS_PER_NODE="2(x${n-2})" SLURM_CPUS_PER_TASK=2 TRIREME=trireme \
    ARRAY='' CORES=2 PER_NODE=2 MEMORY=MinMemoryNode=100M STATE=RUNNING REASON=None REQUEUE=1 ANSWERS=0 NODES='n1 alloc\nn1 alloc\nn2 mix\n' HAS='n1 n2' ALLOWED=99 LISTS='ReqNodeList=(null) ExcNodeList=(null)' \
    SHOWN=Features='(null)' "${with[@]}" \
    bash "$here/jobs/train.sbatch" deck.yaml train.steps=5 > "$dir/stdout" 2> "$dir/err" || code=$?
  [ "$code" = "$expected" ] && [ ! -s "$dir/ends" ] && [ "$(tail -n +2 "$dir/said")" = "$calls" ] || {
    cat "$dir/stdout" "$dir/err"
    echo "job_file: after '$*' with '${with[*]}': exit code $code, not $expected; or these calls are wrong:"
    diff <(echo "$calls") <(tail -n +2 "$dir/said")
    exit 1
  }
}
kept() { # names. Checks these variables of the ranks
  [ "$(grep -E "^($1)=" "$dir/environment" | xargs)" = "${2-}" ] || { echo "job_file: not '${2-}' but '$(grep -E "^($1)=" "$dir/environment" | xargs)'"; exit 1; }
}
first() { [ "$(head -n 1 "$dir/said")" = "$1" ] || { echo "job_file: not '$1' but '$(head -n 1 "$dir/said")'"; exit 1; }; }
start() { echo "srun --mpi=pmix --nodes=$1 --ntasks=$(($1 * 2)) --ntasks-per-node=2 --cpus-per-task=2 --cpu-bind=cores ${2:+$2 }trireme train deck.yaml train.steps=5"; }
step() { start 2 "$@"; }
again() { step "--mem=0"; }
on_one() { start 1 "--nodelist=$1 --mem=0"; }
killed='137 srun: error: n2: task 3: Killed'
ask='srun --mpi=none --nodes=1 --ntasks=1 --mem=0 --nodelist=n2 true'
may='check train deck.yaml train.steps=5 --check --ranks 2'
lines() { printf '%s\n' "$@"; }

with=()
for code in 0 2 64 69 70 74 127 129 130 138 143; do check $code "" "$code"; done
first "$(step)"
check 75 "scontrol requeue 7" 75
check 75 "" "75 end stopped file"
check 75 "scontrol requeue 7" "75 end stopped signal"
# The run's output is shown but not interpreted, because a program of the run could have printed it.
check 75 "scontrol requeue 7" "75 stopped by out/STOP"
[ "$(< "$dir/stdout")" = "stopped by out/STOP" ] || { echo "job_file: what the run prints is not shown"; exit 1; }

# If Slurm ends the job, the script acts only after a time limit.
with=(STATE=COMPLETING) && check 75 "" 75 && check 137 "" "$killed"
with=(STATE=COMPLETING REASON=TimeLimit) && check 75 "scontrol requeue 7" 75 && check 137 "" "$killed"
with=(STATE='') && check 75 "scontrol requeue 7" 75
with=(ARRAY='ArrayJobId=7 ArrayTaskId=3' SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3) && check 75 "scontrol requeue 7_3" 75

# Without requeues it submits another job with the same resources.
common="--job-name=run --nodes=2 --ntasks-per-node=2 --time=01:00:00 --partition=p --no-requeue --no-kill --open-mode=append"
with=(REQUEUE=0)
options="--dependency=afterany:7 $common --output=/out/7.out --cpus-per-task=2"
check 75 "sbatch $options --mem=100M $here/jobs/train.sbatch deck.yaml train.steps=5" 75
with=(REQUEUE=0 SLURM_GPUS_PER_NODE=4 MEMORY=MinMemoryNode=0 SHOWN="Account=a QOS=q
   TresPerNode=gres:gpu:4" ARRAY='ArrayJobId=7 ArrayTaskId=3' SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3)
check 75 "sbatch ${options/:7/:7_3} --gpus-per-node=4 --array=3 --mem=0 --account=a --qos=q $here/jobs/train.sbatch deck.yaml train.steps=5" 75
# GPUs requested by --gres are requested by --gres again, in both spellings of Slurm, and with the same configuration.
for shown in gres:gpu:a100:4,gres:nvme:1 gres/gpu:a100:4,gres/nvme:1; do
  with=(REQUEUE=0 SLURM_CONF=/etc/s.conf MEMORY=MinMemoryCPU=8M SHOWN="Features=fast TresPerNode=$shown MailUser=(null)")
  check 75 "sbatch $options --gres=gpu:a100:4,nvme:1 --mem-per-cpu=8M --constraint=fast $here/jobs/train.sbatch deck.yaml train.steps=5 by /etc/s.conf" 75
done

# The fields as written by scontrol of Slurm 22.05. Nothing in a comment is a field.
shown='Reservation=maintenance
   OverSubscribe=NO Contiguous=1 Licenses=abaqus:2,matlab Network=(null)
   Comment=for the paper, Requeue=1 OverSubscribe=YES TimeLimit=1 
   MailUser=ann@example.org MailType=END,FAIL,TIME_LIMIT_90'
with=(REQUEUE=0 LISTS='ReqNodeList=n[1-2] ExcNodeList=n[7,9]' SHOWN="$shown")
check 75 "sbatch $options --mem=100M --reservation=maintenance \
--licenses=abaqus:2,matlab --nodelist=n[1-2] --exclude=n[7,9] --mail-user=ann@example.org --mail-type=END,FAIL,TIME_LIMIT_90 --exclusive \
--contiguous --comment=for the paper, Requeue=1 OverSubscribe=YES TimeLimit=1 $here/jobs/train.sbatch deck.yaml train.steps=5" 75
for shared in USER=--exclusive=user MCS=--exclusive=mcs YES=--oversubscribe; do
  with=(REQUEUE=0 SHOWN="OverSubscribe=${shared%%=*} Contiguous=0 Licenses=(null)")
  check 75 "sbatch $options --mem=100M ${shared#*=} $here/jobs/train.sbatch deck.yaml train.steps=5" 75
done


# Variables of the shell around sbatch are not this job's. It has other cores and no GPUs. srun gets all requests as options.
outer=(SLURM_ARRAY_JOB_ID=6 SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MAX=9 SLURM_RESTART_COUNT=2 SLURM_CPUS_PER_TASK=3 SLURM_NTASKS=1 SLURM_NPROCS=1
  SLURM_NTASKS_PER_NODE=1 SLURM_GPUS=2 SLURM_GPUS_PER_NODE=2 SLURM_GPUS_PER_TASK=1 SLURM_GPUS_PER_SOCKET=1 SLURM_CPUS_PER_GPU=4
  SLURM_NTASKS_PER_GPU=1 SLURM_GPU_BIND=closest SLURM_MEM_PER_CPU=50 SLURM_MEM_PER_GPU=50 SLURM_MEM_PER_NODE=0 SLURM_THREADS_PER_CORE=1
  SLURM_CPU_BIND=quiet,mask_cpu:0x1 SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_MEM_BIND=local SLURM_DISTRIBUTION=arbitrary SLURM_STEP_ID=4 SLURM_STEPID=4
  SLURM_STEP_NUM_TASKS=9 SLURM_STEP_GPUS=3 SLURM_SRUN_COMM_PORT=1 SLURM_EXPORT_ENV=NONE SRUN_EXPORT_ENV=NONE SLURM_HET_SIZE=2
  SLURM_JOB_ID_HET_GROUP_0=6 PMIX_RANK=3 PMIX_NAMESPACE=x PMI_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_MCA_ess=pmi MPI_LOCALRANKID=1)
foreign=$(printf '%s\n' "${outer[@]%%=*}" | grep -vx SLURM_CPUS_PER_TASK | paste -sd '|')
with=("${outer[@]}")
check 75 "scontrol requeue 7" 75
first "$(step)"
kept "$foreign"
kept SLURM_CPUS_PER_TASK SLURM_CPUS_PER_TASK=2
! grep -q 'start 3' "$dir/err" || { echo "job_file: it takes the restarts of another job for its own"; exit 1; }
with=("${outer[@]}" REQUEUE=0) && check 75 "sbatch $options --mem=100M $here/jobs/train.sbatch deck.yaml train.steps=5" 75
with=("${outer[@]}" MEMORY=MinMemoryNode=0 SHOWN='MemPerTres=gres:gpu:70') && check 0 "" 0 && kept "$foreign"
with=("${outer[@]}" CORES=1) && check 0 "" 0 && first "$(step | sed 's/--cpus-per-task=2 --cpu-bind=cores //')"
# The job keeps its own variables, in both spellings of Slurm.
for by in :gpu: /gpu=; do
  own=(SLURM_GPUS_PER_TASK=a100:1 SLURM_CPUS_PER_GPU=4 SLURM_MEM_PER_GPU=50 SLURM_GPU_BIND=closest)
  with=("${own[@]}" MEMORY=MinMemoryNode=0 SHOWN="CpusPerTres=gres${by}4
   MemPerTres=gres${by}50
   TresBind=${by:1}closest
   TresPerTask=cpu=2,gres${by}a100:1")
  check 0 "" 0 && kept "$foreign" "$(printf '%s\n' "${own[@]}" | sort | xargs)"
done
with=(SLURM_MEM_PER_CPU=2048 MEMORY=MinMemoryCPU=2G) && check 0 "" 0 && kept 'SLURM_MEM_PER_.*' SLURM_MEM_PER_CPU=2048
# Without a number for each node, NumTasks gives the tasks. The program itself refuses nodes with unequal numbers.
with=(PER_NODE=0) && check 0 "" 0 && first "$(step)"
with=(PER_NODE=0 SLURM_NTASKS_PER_GPU=1 SHOWN=NtasksPerTRES=1) && check 0 "" 0 && first "$(step | sed 's/ --ntasks-per-node=2//')"

with=(TRIREME_MPI=pmi2) && check 0 "" 0 && first "$(step | sed s/pmix/pmi2/)"

# It restarts in the allocation, three times.
with=()
check 0 "$(again)" 76 0
check 64 "$(lines "$ask" "$(again)")" "$killed" 64
check 75 "$(lines "$(again)" "scontrol requeue 7")" 1 75
check 139 "$(lines "$(again)" "$(again)" "$(again)")" 139 76 1 139
# It restarts on the remaining nodes, and a spare node replaces the failed one.
with=(TRIREME_SPARE=1) && check 0 "$(on_one n1)" "$killed" 0 && first "$(start 1 --nodelist=n1)"
check 0 "$(lines "$(on_one n1)" "$(on_one n2)")" "$killed" "137 srun: error: n1: tasks 0-1: Killed" 0
check 0 "$(on_one n1)" "76 verdict n2 silent" 0
check 0 "$(on_one n1)" "76 verdict n2.site.org died" 0
check 0 "$(lines "$(on_one n2)" "$(on_one n1)")" "76 verdict n1 late" 76 0 # the second start has no verdict of its own
with=(TRIREME_SPARE=1 NODES='n1 alloc\nn2 down*\n') && check 0 "$(on_one n1)" 76 0
# Neither the run's output nor srun's other messages are a verdict, so n1 is not left out.
for forged in "trireme: warning: reward process says: rank 0 on n1, cpu: it died (process 1)" "trireme: rank 0 on n1, cpu: it died (process 1)" \
  "trireme: rank 0 on n1: reward process says: rank 0 on n1, cpu: it died (process 1)" "says srun: error: n1: task 1: Killed"; do
  check 0 "$(on_one n1)" "76 $forged" 0
done
# A death by the memory limit is reported from each of its three sources. Messages of a child do not count.
with=()
for word in "76 verdict n9 out_of_memory" \
  "137 slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed." \
  "1 srun: error: n1: task 0: Out Of Memory"; do
  check 0 "$(again)" "$word" 0
  grep -q 'a rank was killed .*--mem-per-cpu' "$dir/err" || { echo "job_file: $word: $(cat "$dir/err")"; exit 1; }
done
check 0 "$(again)" "76 trireme: warning: reward process says: srun: error: n1: task 0: Out Of Memory" 0
! grep -q 'a rank was killed' "$dir/err" || { echo "job_file: a child's words were taken for Slurm's"; exit 1; }
with=(TRIREME_SPARE=1)
# Without a spare node, a node without an answer is left out if the deck allows fewer ranks.
with=(ANSWERS=124) && check 0 "$(lines "$ask" "$may" "$(on_one n1)")" "$killed" 0
with=(NODES='n1 alloc\nn2 alloc*\n') && check 0 "$(lines "$may" "$(on_one n1)")" "$killed" 0
with=(HAS=n1) && check 0 "$(lines "$may" "$(on_one n1)")" 76 0
with=(NODES='n1 alloc\nn2 down\n' ALLOWED=1) && check 76 "$(lines "$may" "scontrol requeue 7")" 76

# The job file passes signals on. If the ranks then die for another reason, the job is requeued too.
with=()
for signal in USR1 USR2 XCPU INT HUP; do check 75 "scontrol requeue 7" "75 signal $signal"; done
check 138 "scontrol requeue 7" "138 signal USR1"
check 76 "scontrol requeue 7" "76 lost USR1"
check 64 "" "64 signal USR1"
with=(STATE=COMPLETING) && check 75 "" "75 signal USR2"
with=() && check 0 "$(again)" "76 lost TERM" 0 # Slurm tells the ranks itself
# An outage of a reward leads to one restart, after a pause. A signal ends the pause.
outage="69 end failed reward"
with=(TRIREME_PAUSE=0) && check 0 "$(again)" "$outage" 0 && check 69 "$(again)" "$outage" "$outage" && check 75 "$(lines "$(again)" "scontrol requeue 7")" "$outage" 75
with=(TRIREME_PAUSE=0 STATE=COMPLETING) && check 69 "" "$outage"
with=(TRIREME_PAUSE=0) && check 69 "" "69 reward outage: $dir/out/OUTAGE" && check 69 "" "69 end failed device"
cat > "$dir/sleep" << 'END'
#!/bin/bash
[ "$1" = 60 ] && kill -USR1 $PPID && exec tail -f /dev/null
END
chmod +x "$dir/sleep"
with=() && check 69 "scontrol requeue 7" "$outage"
rm "$dir/sleep"
# A sweep outside of an array ends with code 64 and the right command.
for variable in "" SLURM_ARRAY_TASK_ID=3; do # 3 is the task of the array that submitted it
code=0
env -u SLURM_ARRAY_TASK_ID DIR="$dir" PATH="$dir:$PATH" ARRAY='' SLURM_JOB_ID=7 $variable \
  bash "$here/jobs/sweep.sbatch" list.txt deck.yaml 2> "$dir/err" || code=$?
[ "$code" = 64 ] && [ "$(grep -c . "$dir/err")" = 1 ] && grep -q "^sweep.sbatch: .*sbatch --array=1-LINES jobs/sweep.sbatch LIST DECK$" "$dir/err" ||
  { echo "job_file: a sweep outside an array: $code $(cat "$dir/err")"; exit 1; }
done
echo "job_file: as it should be after every end"
