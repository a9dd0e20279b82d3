# case.sh - functions for the cases on the cluster. Sourced with PROGRAM as argument, in run_slurm.sh's cluster.
# SPDX-License-Identifier: BSD-3-Clause
set -eu
name=$(basename "$0" .sh)
. "$(dirname "${BASH_SOURCE[0]}")/../case/run_case.sh" "$1" 4
cd "$here"
export TRIREME=$program

fail() {
  local f
  on head scontrol show jobs | grep -E "JobId|JobState|StartTime"
  for f in "$dir"/*.out; do [ ! -e "$f" ] || tail -n 12 "$f"; done
  echo "$name: $*"
  exit 1
}
on() { "$CLUSTER" on "$@"; }

# Waits until a command succeeds. The limit is only for a hang and far above the needs of a busy machine, so no verdict depends on
# time.
await() { # the name of an event, a command that succeeds after it
  local end=$((SECONDS + 120))
  until "${@:2}"; do
    [ $SECONDS -lt $end ] || fail "waited in vain: $1"
    sleep 0.05
  done
}

# Writes the deck of run_case.sh for the nodes given by Slurm. Any number of its steps gives the same numbers.
write_cluster_deck() {
  write_deck
  sed -i -e 's/ranks_per_node: 1/ranks_per_node: 0/' -e 's/, eval: [^}]*//' -e '/^eval:/d' -e 's/lr_scheduler: cosine/lr_scheduler: constant/' \
    -e 's/save_steps: 2/save_steps: 0/' "$dir/deck.yaml"
}
# Submits a job of two nodes with two ranks each. Its output goes to $dir/NUMBER.out. Prints the number.
submit() { # options, script, its arguments
  on head sbatch --parsable --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --time=10 --output="$dir/%j.out" "$@"
}
field() { on head scontrol --oneliner show job "$1" | sed -E "s|(.* )?$2=([^ ]*).*|\2|"; } # prints a field of a job, such as JobState or ExitCode
is_field() { [ "$(field "$1" "$2")" = "$3" ]; }
has_ended() { case $(field "$1" JobState) in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) ;; *) false ;; esac; }
# Prints the end of a job, its exit code or a word in place of one.
await_end() { # job, exit code
  await "the end of job $1" has_ended "$1"
  is_field "$1" ExitCode "$2:0" || fail "job $1 ends with $(field "$1" ExitCode) as $(field "$1" JobState)"
}
steps_of() { [ ! -e "$1/metrics.jsonl" ] || wc -l < "$1/metrics.jsonl"; } # counts steps of an output folder without evaluations
has_steps() { [ "$(($(steps_of "$1") + 0))" -ge "$2" ]; }
# Compares the numbers with those of a run by mpirun with the same number of steps.
check_equal() { # output folder, mpirun's folder, further key=value of mpirun's run
  launch 4 "$2" run.ranks_per_node=2 "${@:3}" || fail "the run by mpirun fails"
  diff <(numbers "$2") <(numbers "$1") || fail "other metrics than by mpirun"
  "$program" export "$1" "$1-model" 2> /dev/null && "$program" export "$2" "$2-model" 2> /dev/null || fail "a model is not exported"
  cmp "$1-model/model.safetensors" "$2-model/model.safetensors" || fail "other weights than by mpirun"
}
