#!/bin/bash
# configure.sh - tests how a build is configured. The caller's flags are kept, BUILD_TESTING=OFF leaves the tests out, and warnings are
# errors for developers alone.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/packaging/configure.sh CMAKE CC    Judges: the compilers' command lines in compile_commands.json; ctest; cmake -N.
set -eu
cmake=$1 cc=$2
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-configure.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "configure: $*"; exit 1; }
cd "$here"

"$cmake" --preset cpu -B "$dir/user" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS=-DFROM_FLAGS -DCMAKE_C_FLAGS_RELEASE='-O2 -DFROM_RELEASE' \
  >"$dir/log" 2>&1 || { tail -n 20 "$dir/log"; fail "the preset cpu does not configure"; }
grep '"command":' "$dir/user/compile_commands.json" >"$dir/commands"
for flag in -DFROM_FLAGS '-O2 -DFROM_RELEASE'; do
  ! grep -vqF -- "$flag" "$dir/commands" || fail "a file is compiled without $flag: $(grep -vF -- "$flag" "$dir/commands" | head -n 1)"
done
for flag in -O3 -Werror; do
  ! grep -F -- " $flag" "$dir/commands" | head -n 1 | grep . || fail "a file is compiled with $flag, which nobody asked for"
done
! grep -qF "$here/tests/" "$dir/commands" || fail "BUILD_TESTING is OFF in the preset cpu, and tests are compiled"
"$(dirname "$cmake")/ctest" --test-dir "$dir/user" -N >"$dir/log" 2>&1 || true
grep -qE 'Total Tests: 0|No tests were found' "$dir/log" || fail "BUILD_TESTING is OFF in the preset cpu, and there are tests"

# Checks for every preset by name if warnings are errors.
presets=$("$cmake" --list-presets | sed -n 's/^ *"\([^"]*\)".*/\1/p')
for name in cpu cuda ci-release ci-cuda cpu-release cuda-release; do
  grep -qx "$name" <<<"$presets" || fail "there is no preset $name"
done
for name in $presets; do
  said=$("$cmake" --preset "$name" -N -B "$dir/none" 2>&1) || fail "$name: $said"
  strict=no
  ! grep -q 'TRI_WERROR.*="*ON' <<<"$said" || strict=yes
  case $name in cpu | cuda) [ $strict = no ] || fail "$name has warnings as errors" ;; *) [ $strict = yes ] || fail "$name has no warnings as errors" ;; esac
done
echo "configure: flags, tests, $(wc -w <<<"$presets") presets"
