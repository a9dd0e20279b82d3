#!/bin/sh
# run.sh - every check of the project: source rules, gcc, clang and sanitizer builds, each with its tests.
#
# All of them run even if one fails; the last lines say how each ended. Needs no network. Exit 0: everything passed.
set -u
cd "$(dirname "$0")/.." || exit 1
cores=$(nproc)
summary=''
failed=0

note() { # name, exit status, what it said last
  [ "$2" = 0 ] || failed=1
  summary="$summary
$1: $3"
}

# Builds a preset, runs its tests in random order; further arguments go to ctest.
build_and_test() {
  preset=$1
  shift
  echo "== $preset"
  if ! { cmake --preset "$preset" && cmake --build --preset "$preset" --parallel "$cores"; }; then
    note "$preset" 1 "does not build"
    return
  fi
  ctest --test-dir "build/$preset" --schedule-random --output-on-failure --parallel "$cores" --no-tests=error \
    --output-log "build/$preset/ctest.log" "$@"
  note "$preset" $? "$(grep 'tests passed' "build/$preset/ctest.log" || echo 'no test ran')"
}

echo "== lint"
said=$(tests/lint.sh)
code=$?
echo "$said"
note lint $code "$(echo "$said" | tail -n 1)"

build_and_test cpu-release --label-exclude lint
build_and_test cpu-clang --label-exclude 'lint|ranks'
build_and_test cpu-asan --label-exclude lint

echo "== cuda"
if ls gpu/*.cu >/dev/null 2>&1; then
  echo "run.sh: gpu/ has sources, and this script does not build them" && note cuda 1 "not built"
else
  note cuda 0 "gpu/ holds no CUDA sources in this version; nothing to compile"
fi

echo "== summary$summary"
exit $failed
