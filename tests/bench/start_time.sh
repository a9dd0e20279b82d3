#!/bin/sh
# start_time.sh - times five starts of a deck, from launch to the end of the first step, and prints the median.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/bench/start_time.sh RANKS DECK [key=value ...]
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
trireme=${TRIREME:-$here/build/cpu-release/trireme}
[ $# -ge 2 ] || { sed -n '5s/^# *//p' "$0" >&2; exit 64; }
ranks=$1 deck=$2
shift 2
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-start.XXXXXX")
trap 'rm -rf "$dir"' EXIT
root=; [ "$(id -u)" != 0 ] || root=--allow-run-as-root

for i in 1 2 3 4 5; do
  from=$(date +%s.%N)
  # shellcheck disable=SC2086
  mpirun $root --oversubscribe -n "$ranks" "$trireme" train "$deck" "$@" train.steps=1 checkpoint.save_final=false \
    run.resume=never run.output="$dir/$i" > "$dir/said" 2>&1 || { cat "$dir/said" >&2; exit 1; }
  to=$(date +%s.%N -r "$dir/$i/metrics.jsonl") # its last line is step 1's
  awk -v from="$from" -v to="$to" 'BEGIN { printf "%.2f\n", to - from }'
done | tee "$dir/all"
sort -g "$dir/all" | awk '{ v[NR] = $1 } END { printf "median %.2f s to the end of step 1, %d starts\n", v[int((NR + 1) / 2)], NR }'
