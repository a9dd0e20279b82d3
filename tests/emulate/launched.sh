#!/usr/bin/env bash
# launched.sh - fails if no emulated test launched a kernel of gpu/, or if a launch used more shared memory than tests/gpu/sass.txt says.
# It also fails if a kernel above 99 KiB has no launched small form.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/emulate/launched.sh FOLDER
# FOLDER holds a file per test process with "ran NAME" or "has NAME" for every kernel, and every instance of a kernel template, in
# a launch. "most BYTES NAME" gives the dynamic shared memory of those that ran. tests/gpu/sass.txt has the bytes occupancy is
# computed with. All tests with the label emulated must have run before.
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
cat "$log"/* | sed -n 's/^most //p' | sed 's/short unsigned int/unsigned short/g; s/ /_/g; s/_/ /' | sort -u | awk '
  FNR == NR { if ($1 == "sm_90") most[$NF] = $(NF - 1); next }
  $2 in most && $1 + 0 > most[$2] + 0 {
    print "gpu: " $1 " bytes of dynamic shared memory where tests/gpu/sass.txt has " most[$2] ": " $2 "; write it anew (tests/gpu/sass.py)"
    bad = 1
  }
  END { exit bad }' tests/gpu/sass.txt - || bad=1
# A GPU of compute capability 8.6, 8.9 or 12.0 gives a block 99 KiB. So a kernel above that has a small form, NAME_small_kernel.
while read -r name; do
  grep -qE "^ran ${name/%_kernel/_small_kernel}\b" "$log"/* || { echo "gpu: $name asks for more than 98304 bytes, and no test launches a small form of it"; bad=1; }
done < <(sed -n 's/^most \([0-9]*\) \([a-z0-9_]*\).*/\1 \2/p' "$log"/* | awk '$1 + 0 > 98304 { print $2 }' | sort -u)
[[ $bad = 0 ]] && echo "launched: $(wc -w <<<"$names") kernels in $(cat "$log"/* | sed -n 's/^ran //p' | sort -u | wc -l) instances"
exit $bad
