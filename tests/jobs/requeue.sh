#!/bin/bash
# requeue.sh - which ends of a run jobs/train.sbatch puts back into the queue. Judge: the words, with srun and scontrol that
# only say what they would do.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-requeue.XXXXXX")
trap 'rm -rf "$dir"' EXIT
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "screen $*" >&2\n[ -z "$SAID" ] || echo "$SAID"\nexit $CODE\n' > "$dir/srun"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "scontrol $*"\n' > "$dir/scontrol"
chmod +x "$dir/srun" "$dir/scontrol"

ends() { # exit code, what the program says on stdout, what the job file is to say on stdout
  code=0
  CODE=$1 SAID=$2 PATH=$dir:$PATH SLURM_JOB_ID=7 SLURM_JOB_END_TIME=1 SLURM_CPUS_PER_TASK=2 TRIREME=trireme \
    bash "$here/jobs/train.sbatch" deck.yaml train.steps=5 > "$dir/out" 2> "$dir/err" || code=$?
  [ "$code" = "$1" ] && [ "$(cat "$dir/out")" = "$3" ] ||
    { echo "requeue: after $1 '$2': exit code $code and '$(cat "$dir/out")', not '$3'"; exit 1; }
  [ "$(cat "$dir/err")" = "screen --mpi=pmix --cpus-per-task=2 trireme train deck.yaml train.steps=5" ] ||
    { echo "requeue: $(cat "$dir/err")"; exit 1; }
}
ends 75 "" "scontrol requeue 7"
ends 75 "stopped by out/STOP" "stopped by out/STOP"
for code in 0 64 69 70 74 76 143; do ends $code "" ""; done
echo "requeue: after 75, but for OUTPUT/STOP"
