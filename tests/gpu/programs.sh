#!/bin/bash
# programs.sh - prints the programs of tests/gpu/check.sh as paths in a build folder, to carry them to a machine that cannot build.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/gpu/programs.sh BUILD      for example build/cuda-release, after cmake --build
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 1 && -d $1 ]] || { sed -n '4s/^# *//p' "$0" >&2; exit 64; }
list() { sed -n "s/^set($1 \(.*\))$/\1/p" "$here/../CMakeLists.txt"; }
for program in trireme bench_gpu bench_model $(list TRI_DEVICE_MODULES) $(list TRI_ANY_DEVICE_MODULES) $(list TRI_CHECK_MODULES) \
  $(list TRI_CUDA_MODULES); do
  [[ $program = trireme || $program = bench_* ]] || program=test_$program
  [[ -x $1/$program ]] || { echo "programs: $1/$program is not there; build the preset cuda-release" >&2; exit 69; }
  echo "$1/$program"
done
