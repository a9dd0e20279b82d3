#!/bin/bash
# check.sh - checks the GPU back end on a machine with one GPU, in calls of under five minutes, and writes a table of results.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/gpu/check.sh correctness|speed|decide BIN OUT [--small] [--only WORD[,WORD...]] [--plan]
#
# correctness: the machine, columns of divided weights, sampler and trainer, kernels, parity, checkpoints, then ranks that share the GPU
# speed:       kernels, training, generation, PyTorch for comparison
# decide:      attention, recurrent layers, training of one shape, decode at 1, 32 and 256 sequences, to judge a change for speed
# BIN    the folder of the programs in the list of tests/gpu/programs.sh. Nothing is built here
# OUT    gets table.txt (what | result | figure | seconds) and log.txt with the output of every program
# --small  tiny shapes and few cases, to try the script without a GPU, with programs of the preset cpu-emulated
# --only   runs jobs with one of the words in their name, as printed by --plan
# --plan   prints the jobs with their seconds, and runs nothing
# PYTHON (python3) makes the comparisons with torch and transformers. Without these they are "not run". MPIRUN (mpirun) starts
# ranks. CHECK_SECONDS (290, with --small 3000) limits the whole call. MFU is a share of PEAK_TFLOPS. CHECK_COMMIT names the
# commit if git cannot. A job that exceeds its time, or finds no time left, is "not run".
# Exit code: 1 if a row says FAILED, else 0.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
usage() { sed -n '4,18s/^# \{0,1\}//p' "$0" >&2; exit 64; }

small=0 plan=0 only='' part='' places=()
while (($#)); do
  case $1 in
  --small) small=1 ;;
  --plan) plan=1 ;;
  --only) only=${2-}; shift ;;
  -*) usage ;;
  correctness | speed | decide) [[ -z $part && ${#places[@]} = 0 ]] && part=${1:0:1} || places+=("$1") ;;
  *) places+=("$1") ;;
  esac
  shift
done

# A job has these columns: its calls (c correctness, s speed, d decide), phase, lane, expected seconds on an H200, most seconds,
# function and arguments. Phases run one after another. In a phase the lanes run side by side, each with its jobs in this order.
# Speed is measured in a lane of its own. Jobs with ranks that share a GPU come last, since they are slow and least certain.
jobs='
csd 0 1   8  40 machine
cs  0 2  15  60 python
c   0 3  45 120 columns
c   1 1  15  40 exact
c   1 1  15  40 parity f32
c   1 1  15  40 parity bf16
c   1 2  45  90 modules
c   1 3  40  80 torch_parity
c   1 3  28  70 checkpoint
c   1 4  10  40 sanitizer memcheck kernels *
c   1 4  10  40 sanitizer memcheck norm *
c   1 4  15  40 sanitizer memcheck logprob test_logp
c   1 4  15  40 sanitizer racecheck norm test_rmsnorm*
c   1 5  15  40 sanitizer memcheck delta test_slots
c   1 5  20  40 sanitizer memcheck attention test_decode
c   1 5  25  40 sanitizer memcheck attention test_bwd
c   1 6  15  40 sanitizer racecheck delta test_limits
c   1 6  15  40 sanitizer racecheck attention test_fwd
c   1 6  20  40 sanitizer racecheck attention test_bwd
c   2 1  15  40 comm staged 1
c   2 1  12  40 comm staged 2
c   2 1  10  40 store staged 2
c   2 2  25  60 plans staged 2
c   3 1  15  40 comm nccl 2
c   3 1   8  40 refusals
c   3 1  20  50 plans nccl 2
c   4 1  25  60 comm nccl 4
c   4 1  25  60 plans nccl 4
c   4 1  15  60 comm nccl 1
c   4 2  15  40 comm staged 4
c   4 2  12  60 store staged 4
c   4 2  15  60 plans staged 4
s   1 1  40  90 kernels
s   1 1  15  40 kernels_cudnn
s   1 1   8  40 train 0.5B 2048
s   1 1  10  40 train 1.5B 2048
s   1 1  10  40 train 1.5B 4096
s   1 1  14  40 train 3B 4096
s   1 1  28  60 train 8B 4096
s   1 1  15  50 decode 1.5B
s   1 1  38  80 decode 8B
s   1 1  20  60 grpo 1.5B
s   1 1  75 120 torch_speed
d   1 1  10  40 kernels attention
d   1 1   6  40 kernels delta
d   1 1  15  40 kernels_cudnn
d   1 1  10  40 train 1.5B 4096
d   1 1  30  80 decode 8B
'
[[ -n $part ]] || usage
jobs=$(awk -v p="$part" 'index($1, p) { $1 = ""; print }' <<<"$jobs")
# shellcheck source=gpu_speed.sh
. "$here/gpu_speed.sh"
# shellcheck source=stages.sh
. "$here/stages.sh"

wanted() { # name
  local word words
  [[ -z $only ]] && return 0
  IFS=, read -ra words <<<"$only"
  for word in "${words[@]}"; do [[ $1 = *"$word"* || $1 = machine || $1 = python ]] && return 0; done
  return 1
}

# Seconds of a phase are those of its longest lane.
print_plan() {
  awk '{ s = 0; name = $5; for (i = 6; i <= NF; i++) name = name " " $i
      printf "%-8s %-6s %5s s   at most %4s s   %s\n", $1, $2, $3, $4, name; lane[$1 " " $2] += $3; phase[$1] }
    END { for (p in phase) { most = 0; for (l in lane) { split(l, q, " "); if (q[1] == p && lane[l] > most) most = lane[l] }
        printf "phase %s: %d s\n", p, most | "sort"; total += most }
      close("sort"); printf "all phases: %d s\n", total }' < <(grep . <<<"$jobs")
}
if ((plan)); then
  echo "phase    lane   should   may            job"
  print_plan
  exit 0
fi

((${#places[@]} == 2)) || usage
if [[ -n $only ]] && ! awk 'NF { $1 = $2 = $3 = $4 = ""; print }' <<<"$jobs" | grep -qF "$(tr , '\n' <<<"$only")"; then
  echo "check.sh: --only $only: no job is called so; --plan names them" >&2
  exit 64
fi
[[ -x ${places[0]}/trireme ]] || { echo "check.sh: no program ${places[0]}/trireme; give the folder that holds it" >&2; exit 69; }
bin=$(cd "${places[0]}" && pwd)
mkdir -p "${places[1]}" || exit 74
out=$(cd "${places[1]}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-check.XXXXXX") || exit 74
mkdir "$work/rows" "$work/logs" "$work/jobs"
rm -f "$out/table.txt" "$out/log.txt"
most=${CHECK_SECONDS:-$((small ? 3000 : 290))}
# shellcheck disable=SC2034 # used by the jobs
python=${PYTHON:-python3} mpirun=${MPIRUN:-mpirun}
began=$(date +%s.%N)

# Every process may be a rank beside others, and root in a container. Other launchers ignore the OMPI_ names.
export TRI_TEST_DATA=$root/tests/data TRI_TEST_PROGRAM=$bin/trireme TRI_TEST_DEVICE=cuda PYTHONUNBUFFERED=1
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
export TRI_EMULATE_DEVICES=1
((small)) && export TRI_TEST_BRIEF=1

elapsed() { awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }

# Writes the results so far, in the order of the jobs.
write_table() {
  (
    flock 9
    {
      echo "# what | result | figure | seconds"
      cat "$work"/rows/* 2>/dev/null
    } >"$out/table.tmp" && mv "$out/table.tmp" "$out/table.txt"
  ) 9>"$work/lock"
}

# Ends a process and its children.
end_tree() {
  local child
  for child in $(pgrep -P "$1"); do end_tree "$child"; done
  kill "$1" 2>/dev/null
}
finish() {
  local left f
  for left in $(jobs -p); do end_tree "$left"; done
  write_table
  for f in "$work"/logs/*; do
    [[ -s $f ]] || continue
    printf '\n======== %s\n' "$(basename "$f")"
    if (($(stat -c %s "$f") > 400000)); then head -c 200000 "$f"; printf '\n[...]\n'; tail -c 200000 "$f"; else cat "$f"; fi
  done >"$out/log.txt"
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' TERM INT

# ---- functions of the jobs ----

row() { # prints what was checked, its result and figure, and the seconds since the row before it in this job
  local line s
  s=$(awk -v a="$row_began" -v b="$(elapsed)" 'BEGIN { printf "%.1f", b - a }')
  line=$(printf '%-40s | %s | %s | %s' "$1" "$2" "${3-}" "$s")
  row_began=$(elapsed)
  echo "$line" | tee -a "$rows" >&3
}
# Result of an exit code. Those of timeout are no result.
verdict() {
  case $1 in
  0) echo passed ;;
  124 | 137) echo "not run: over its time" ;;
  *) echo FAILED ;;
  esac
}

# Runs a command within the time left to the job. Its output goes to $said and to the job's log.
said=/dev/null
run() {
  local left code since=$SECONDS
  left=$(awk -v e="$job_end" -v n="$(elapsed)" 'BEGIN { l = int(e - n); print (l < 1 ? 1 : l) }')
  said=$(mktemp "$dir/said.XXXXXX")
  echo "-- $*"
  timeout -k 5 "$left" "$@" >"$said" 2>&1 </dev/null 3>&-
  code=$?
  cat "$said"
  if ((code == 137 && SECONDS - since < left)); then code=9; fi # not by timeout: out of memory, say
  ((code == 0)) || echo "-- exit code $code after $(elapsed) s of the whole check"
  return $code
}
# Runs a Python script of ours with the libraries chosen by job_python, or returns 69 without them. Its child processes get the
# old library path back.
run_python() {
  local prefix
  read -ra prefix <"$work/python" || return 69
  run env "${prefix[@]}" CHECK_LIBRARY_PATH="${LD_LIBRARY_PATH-}" "$python" "$@"
}
ranks() { # number, program ...: with a host name of its own for each rank, or NCCL would refuse ranks that share a GPU
  local n=$1
  shift
  # shellcheck disable=SC2016
  run env NCCL_NET=Socket NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-lo}" NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 \
    NCCL_MAX_NCHANNELS=2 OMP_NUM_THREADS=1 "$mpirun" -n "$n" \
    sh -c 'NCCL_HOSTID=rank${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}; export NCCL_HOSTID; exec "$@"' sh "$@"
}
# Tells briefly why the last command failed: its exit code and the first line with a reason.
why() { # exit code
  local line
  (($1 == 124 || $1 == 137)) && { echo "over its time"; return; }
  line=$(grep -m 1 -aE 'Failure!|: error: Failure|error:|^trireme: |rank [0-9]+, .*:[0-9]+: |Error|\[  FAILED  \]' "$said" ||
    grep -a . "$said" | tail -n 1)
  echo "exit code $1: ${line:0:200}" | tr '|' '/'
}
# Prints the same, or the output of a command if it did not fail.
tell() { # exit code, command ...
  if (($1)); then why "$1"; else "${@:2}"; fi
}
fell() { # prints that a check fell with this exit code
  row "$1" "$(verdict "$2")" "$(why "$2")"
}
# All numbers of a field of metrics.jsonl, one per line.
numbers() { # file, field
  sed -n "s/.*\"$2\": \([^,}]*\).*/\1/p" "$1"
}
# The largest |a - b| / max(|b|, scale) of a field in two files, or nothing if lines are missing or not numbers.
worst() { # file, file, field, scale
  paste <(numbers "$1" "$3") <(numbers "$2" "$3") | awk -v scale="$4" '
    $1 !~ /^-?[0-9.]+(e[-+][0-9]+)?$/ || $2 !~ /^-?[0-9.]+(e[-+][0-9]+)?$/ { bad = 1 }
    { d = $1 - $2; if (d < 0) d = -d; m = $2 < 0 ? -$2 : $2; if (m < scale) m = scale; if (d > 0 && d / m > w) w = d / m }
    END { if (NR && !bad) printf "%.2g", w }'
}
at_most() { # number (or nothing), bound
  [[ -n $1 ]] && awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 <= b + 0) }'
}
median() { # numbers on stdin, the first $1 of them left out
  tail -n "+$(($1 + 1))" | sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# ---- running the jobs ----

run_job() { # index, estimate, limit, function, arguments
  local index=$1 should=$2 may=$3 now name
  shift 3
  name="$*"
  rows=$work/rows/$index job_log=$work/logs/$index-${name//[ *\/]/_} dir=$work/jobs/$index
  now=$(elapsed) row_began=$now
  mkdir "$dir"
  export TMPDIR=$dir OMPI_MCA_orte_tmpdir_base=$dir # two mpirun at once trip over each other's folder
  ((small)) && may=$((may * 20)) # emulated, on few cores
  job_end=$(awk -v n="$now" -v m="$may" -v d="$most" 'BEGIN { e = n + m; print (e > d ? d : e) }')
  if awk -v n="$now" -v s="$should" -v d="$most" 'BEGIN { exit !(n + s > d) }'; then
    row "$name" "not run: time" "${now} s of $most s gone, ${should} s needed"
  else
    "job_$1" "${@:2}" >"$job_log" 2>&1
    [[ -s $rows ]] || row "$name" FAILED "the job ended without a result"
  fi
  [[ -n ${CHECK_KEEP-} ]] || rm -rf "$dir"
  write_table
}
run_lane() { # phase, lane
  local index=0 phase lane should may words args
  while read -r phase lane should may words; do
    [[ -n $phase ]] || continue
    index=$((index + 1))
    [[ $phase = "$1" && $lane = "$2" ]] || continue
    wanted "$words" || continue
    read -ra args <<<"$words"
    run_job "$(printf %03d $index)" "$should" "$may" "${args[@]}"
  done <<<"$jobs"
}

exec 3>&1
# shellcheck disable=SC2013 # words are wanted
for phase in $(awk 'NF { print $1 }' <<<"$jobs" | sort -un); do
  lanes=()
  for lane in $(awk -v p="$phase" 'NF && $1 == p { print $2 }' <<<"$jobs" | sort -un); do
    run_lane "$phase" "$lane" 3>&3 &
    lanes+=($!)
    (($(nproc) >= 8)) || wait $! # few cores: one after the other
  done
  wait "${lanes[@]}"
done
write_table
echo "check.sh: $(elapsed) s; $(grep -c '| passed |' "$out/table.txt") passed, $(grep -c '| FAILED |' "$out/table.txt") FAILED, $(grep -c '| not run' "$out/table.txt") not run"
echo "# $(elapsed) s in all" >"$work/rows/999"
# No passed row, or no table, is a failure too.
grep -q '| passed |' "$out/table.txt" && ! grep -q '| FAILED |' "$out/table.txt"
