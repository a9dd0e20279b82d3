#!/usr/bin/env bash
# launched.sh - fails when a kernel of gpu/ was launched by no emulated test.
#
# tests/emulate/launched.sh FOLDER: FOLDER holds a file per test process, "ran NAME" or "has NAME" for every kernel and
# every instance of a kernel template a launch names. All tests with the label emulated must have run before.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
log=$1 bad=0
[[ -n $(ls "$log" 2>/dev/null) ]] || { echo "$log: no test has run yet; run all: ctest -L emulated"; exit 1; }
names=$(find gpu -name '*.cu' -exec cat {} + | tr '\n' ' ' | grep -oP '__global__\s+void\s+(__launch_bounds__\([^()]*\)\s+)?\K\w+')
while read -r name; do
  grep -qE "^ran .*\b$name\b" "$log"/* || { echo "gpu: no emulated test launches $name"; bad=1; }
done <<<"$names"
while read -r instance; do
  echo "gpu: no emulated test launches the instance $instance"
  bad=1
done < <(comm -13 <(cat "$log"/* | sed -n 's/^ran //p' | sort -u) <(cat "$log"/* | sed -n 's/^has //p' | sort -u))
[[ $bad = 0 ]] && echo "launched: $(wc -w <<<"$names") kernels in $(cat "$log"/* | sed -n 's/^ran //p' | sort -u | wc -l) instances"
exit $bad
