#!/bin/bash
# job_file.sh - what jobs/train.sbatch does after each end of a run. Judge: the words of Slurm's commands that it calls, with
# commands that only write down what they are told, and answer as a case says.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-job-file.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cat > "$dir/srun" << 'END'
#!/bin/bash
[[ $SLURM_JOB_NODELIST = n1,n2 || " $* " = *" --nodelist=$SLURM_JOB_NODELIST "* ]] || echo "of the job: $SLURM_JOB_NODELIST" >> "$DIR/said"
echo "srun $*" >> "$DIR/said"
case "$*" in *\ true) exit $ANSWERS ;; esac # does a node answer?
read -r code words < "$DIR/ends"
sed -i 1d "$DIR/ends"
[[ $words != stopped* ]] || echo "$words"
[[ $words = stopped* ]] || echo "$words" >&2
exit "$code"
END
cat > "$dir/scontrol" << 'END'
#!/bin/sh
case $1-$2 in
show-hostnames) [ "$3" = 'n[1-2]' ] && printf '%s\n' $HAS || echo "$3" | tr , '\n' ;;
show-job)
  echo "JobId=7 JobName=run TimeLimit=09:00:00"
  printf '   %s\n' "JobState=$STATE Reason=$REASON Dependency=(null)" "Requeue=$REQUEUE Restarts=0" "TimeLimit=01:00:00 TimeMin=N/A" \
    "$LISTS" 'NodeList=n[1-2]' 'WorkDir=/a folder Requeue=1' 'StdOut=/out/7.out' "$SHOWN" ;;
*) echo "scontrol $*" >> "$DIR/said" ;;
esac
END
printf '#!/bin/sh\nprintf "%%b" "$NODES"\n' > "$dir/sinfo"
printf '#!/bin/sh\necho "sbatch $*${SLURM_CONF+ by $SLURM_CONF}" >> "$DIR/said"\n' > "$dir/sbatch"
printf '#!/bin/sh\necho "check $*" >> "$DIR/said"\n[ "$6" -le "$ALLOWED" ]\n' > "$dir/trireme"
chmod +x "$dir"/s* "$dir/trireme"

# The ends of the steps, one after the other ("CODE WORDS"), the job's exit code, and what is called after the first step.
check() { # exit code, calls by their beginnings, ends
  local code=0 expected=$1 calls=$2
  shift 2
  printf '%s\n' "$@" > "$dir/ends"
  : > "$dir/said"
  env DIR="$dir" PATH="$dir:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NAME=run SLURM_JOB_PARTITION=p SLURM_JOB_NUM_NODES="${n-2}" \
    SLURM_JOB_NODELIST=n1,n2 SLURM_TASKS_PER_NODE="2(x${n-2})" SLURM_CPUS_PER_TASK=2 TRIREME=trireme \
    STATE=RUNNING REASON=None REQUEUE=1 ANSWERS=0 NODES='n1 alloc\nn1 alloc\nn2 mix\n' HAS='n1 n2' ALLOWED=99 LISTS='ReqNodeList=(null) ExcNodeList=(null)' \
    SHOWN=Features='(null)' "${with[@]}" \
    bash "$here/jobs/train.sbatch" deck.yaml train.steps=5 > "$dir/out" 2> "$dir/err" || code=$?
  [ "$code" = "$expected" ] && [ ! -s "$dir/ends" ] && [ "$(tail -n +2 "$dir/said")" = "$calls" ] || {
    cat "$dir/out" "$dir/err"
    echo "job_file: after '$*' with '${with[*]}': exit code $code, not $expected; or these calls are wrong:"
    diff <(echo "$calls") <(tail -n +2 "$dir/said")
    exit 1
  }
}
first() { [ "$(head -n 1 "$dir/said")" = "$1" ] || { echo "job_file: not '$1' but '$(head -n 1 "$dir/said")'"; exit 1; }; }
step() { echo "srun --mpi=pmix --cpus-per-task=2 --cpu-bind=cores ${1:+$1 }trireme train deck.yaml train.steps=5"; }
one="--nodes=1 --ntasks=2 --ntasks-per-node=2 --nodelist"
again() { step "--mem=0"; }
on_one() { step "$one=$1 --mem=0"; }
killed='137 srun: error: n2: task 3: Killed'
ask='srun --mpi=none --nodes=1 --ntasks=1 --mem=0 --nodelist=n2 true'
may='check train deck.yaml train.steps=5 --check --ranks 2'
lines() { printf '%s\n' "$@"; }

with=()
for code in 0 2 64 69 70 74 127 129 130 138 143; do check $code "" "$code"; done
first "$(step)"
check 75 "scontrol requeue 7" 75
check 75 "" "75 stopped by out/STOP"
[ "$(< "$dir/out")" = "stopped by out/STOP" ] || { echo "job_file: what stopped the run is not shown"; exit 1; }

# Slurm ends the job: only after its time there is something to do.
with=(STATE=COMPLETING) && check 75 "" 75 && check 137 "" "$killed"
with=(STATE=COMPLETING REASON=TimeLimit) && check 75 "scontrol requeue 7" 75 && check 137 "" "$killed"
with=(STATE='') && check 75 "scontrol requeue 7" 75
with=(SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3) && check 75 "scontrol requeue 7_3" 75

# Without requeues a job is chained: with what this one has.
common="--job-name=run --nodes=2 --ntasks-per-node=2 --time=01:00:00 --partition=p --no-requeue --no-kill --open-mode=append"
with=(REQUEUE=0)
check 75 "sbatch --dependency=afterany:7 $common --output=/out/7.out --cpus-per-task=2 $here/jobs/train.sbatch deck.yaml train.steps=5" 75
with=(REQUEUE=0 SLURM_GPUS_PER_NODE=4 SLURM_MEM_PER_NODE=0 SLURM_JOB_ACCOUNT=a SLURM_JOB_QOS=q SLURM_ARRAY_JOB_ID=7
  SLURM_ARRAY_TASK_ID=3)
check 75 "sbatch --dependency=afterany:7_3 $common --output=/out/7.out --cpus-per-task=2 --gpus-per-node=4 --mem=0 --account=a --qos=q \
--array=3 $here/jobs/train.sbatch deck.yaml train.steps=5" 75
# A GPU that was asked for by --gres is so again, in both spellings of Slurm; and by the same configuration.
for shown in gres:gpu:a100:4,gres:nvme:1 gres/gpu:a100:4,gres/nvme:1; do
  with=(REQUEUE=0 SLURM_CONF=/etc/s.conf SLURM_MEM_PER_CPU=8 SHOWN="Features=fast TresPerNode=$shown MailUser=(null)")
  check 75 "sbatch --dependency=afterany:7 $common --output=/out/7.out --cpus-per-task=2 --mem-per-cpu=8 --gres=gpu:a100:4,nvme:1 \
--constraint=fast $here/jobs/train.sbatch deck.yaml train.steps=5 by /etc/s.conf" 75
done

# As scontrol of Slurm 22.05 writes them. In a comment nothing is a field.
shown='Reservation=maintenance
   OverSubscribe=NO Contiguous=1 Licenses=abaqus:2,matlab Network=(null)
   Comment=for the paper, Requeue=1 OverSubscribe=YES TimeLimit=1 
   MailUser=ann@example.org MailType=END,FAIL,TIME_LIMIT_90'
with=(REQUEUE=0 LISTS='ReqNodeList=n[1-2] ExcNodeList=n[7,9]' SHOWN="$shown")
check 75 "sbatch --dependency=afterany:7 $common --output=/out/7.out --cpus-per-task=2 --reservation=maintenance \
--licenses=abaqus:2,matlab --nodelist=n[1-2] --exclude=n[7,9] --mail-user=ann@example.org --mail-type=END,FAIL,TIME_LIMIT_90 --exclusive \
--contiguous --comment=for the paper, Requeue=1 OverSubscribe=YES TimeLimit=1 $here/jobs/train.sbatch deck.yaml train.steps=5" 75
for shared in USER=--exclusive=user MCS=--exclusive=mcs YES=--oversubscribe; do
  with=(REQUEUE=0 SHOWN="OverSubscribe=${shared%%=*} Contiguous=0 Licenses=(null)")
  check 75 "sbatch --dependency=afterany:7 $common --output=/out/7.out --cpus-per-task=2 ${shared#*=} $here/jobs/train.sbatch deck.yaml \
train.steps=5" 75
done

with=(TRIREME_MPI=pmi2) && check 0 "" 0 && first "$(step | sed s/pmix/pmi2/)"

# Again in the allocation, three times.
with=()
check 0 "$(again)" 76 0
check 64 "$(lines "$ask" "$(again)")" "$killed" 64
check 75 "$(lines "$(again)" "scontrol requeue 7")" 1 75
check 139 "$(lines "$(again)" "$(again)" "$(again)")" 139 76 1 139
# On the nodes that are left: a spare one takes the failed one's place.
with=(TRIREME_SPARE=1) && check 0 "$(on_one n1)" "$killed" 0 && first "$(step "$one=n1")"
check 0 "$(lines "$(on_one n1)" "$(on_one n2)")" "$killed" "137 srun: error: n1: tasks 0-1: Killed" 0
check 0 "$(on_one n1)" "76 trireme: rank 2 (task 1) on n2, cpu: no sign of life for 30 s: stopped; it was in phase learn" 0
check 0 "$(on_one n1)" "76 trireme: rank 2 on n2.site.org, cpu: it died (process 7); it was in phase learn" 0
with=(TRIREME_SPARE=1 NODES='n1 alloc\nn2 down*\n') && check 0 "$(on_one n1)" 76 0
# Without one it is left out where it does not answer, if the deck allows so few ranks.
with=(ANSWERS=124) && check 0 "$(lines "$ask" "$may" "$(on_one n1)")" "$killed" 0
with=(NODES='n1 alloc\nn2 alloc*\n') && check 0 "$(lines "$may" "$(on_one n1)")" "$killed" 0
with=(HAS=n1) && check 0 "$(lines "$may" "$(on_one n1)")" 76 0
with=(NODES='n1 alloc\nn2 down\n' ALLOWED=1) && check 76 "$(lines "$may" "scontrol requeue 7")" 76
# A sweep outside an array says so, and nothing else.
code=0
env -u SLURM_ARRAY_TASK_ID bash "$here/jobs/sweep.sbatch" list.txt deck.yaml 2> "$dir/err" || code=$?
[ "$code" = 64 ] && [ "$(cat "$dir/err")" = "sweep.sbatch: is for an array: sbatch --array=1-LINES jobs/sweep.sbatch LIST DECK" ] ||
  { echo "job_file: a sweep outside an array: $code $(cat "$dir/err")"; exit 1; }
echo "job_file: as it should be after every end"
