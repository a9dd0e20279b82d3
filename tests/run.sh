#!/bin/sh
# run.sh - every check of the project: source rules; gcc, clang, sanitizer and emulated builds with their tests; fuzzing; nvcc's build.
#
# All of them run even if one fails; the last lines say how each ended. Needs no network. Exit 0: everything passed.
set -u
cd "$(dirname "$0")/.." || exit 1
cores=$(nproc)
beside=$((2 * cores)) # tests: they wait for children, disks and each other, with one more than there are cores a seventh of the time
summary=''
failed=0

note() { # name, exit status, what it said last
  [ "$2" = 0 ] || failed=1
  summary="$summary
$1: $3"
}

# Three builds are gcc's, of nearly the same C: where ccache is, what one has compiled is not compiled again.
launch_by() { # the preset that is configured; what was configured without it would be compiled again
  [ ! -e "build/$1/CMakeCache.txt" ] || return
  case $1 in
  cpu-release | cpu-emulated | cuda-release) command -v ccache ;;
  esac
}
CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache}
export CCACHE_DIR

build() { # preset, further arguments of the build
  echo "== $1"
  CMAKE_C_COMPILER_LAUNCHER=$(launch_by "$1") cmake --preset "$1" && cmake --build --preset "$@" --parallel "$cores" && return
  note "$1" 1 "does not build"
  return 1
}

# Builds a preset, runs its tests in random order; further arguments go to ctest.
build_and_test() {
  preset=$1
  shift
  build "$preset" || return
  ctest --test-dir "build/$preset" --schedule-random --output-on-failure --parallel "$beside" --no-tests=error \
    --output-log "build/$preset/ctest.log" "$@"
  code=$?
  note "$preset" $code "$(grep -e 'tests passed' -e '(Skipped)' "build/$preset/ctest.log" || echo 'no test ran')"
  return $code
}

mkdir -p build
tests/lint_planted.sh >build/lint_planted.log 2>&1 & # each of the two keeps one core busy
planted=$!
tests/lint.sh >build/lint.log 2>&1
note lint $? "$(tail -n 1 build/lint.log)"
wait $planted
note lint_planted $? "$(tail -n 1 build/lint_planted.log)"
for script in lint lint_planted; do
  echo "== $script"
  cat build/$script.log
done

build_and_test cpu-release --label-exclude lint
# clang's fast code gives the right numbers; the whole program is clang's in the next build.
build_and_test cpu-clang --label-exclude 'lint|ranks|isa|program'
# Sanitizers look at the code, not at the numbers: slow tests leave out the cases that run the same code again.
TRI_TEST_BRIEF=1
export TRI_TEST_BRIEF
build_and_test cpu-asan --label-exclude 'lint|isa' || tests/where.sh build/cpu-asan/ctest.log
unset TRI_TEST_BRIEF

build_and_test cpu-emulated --label-regex emulated # every CUDA kernel, on the CPU

# The parsers of the sanitized build under libFuzzer, where clang has it: a fixed number of executions, the same every time.
if echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -x c -fsanitize=fuzzer -o /dev/null - 2>/dev/null; then
  echo "== fuzz"
  said=$(tests/fuzz/run.sh --check)
  code=$?
  echo "$said"
  note fuzz $code "$(echo "$said" | awk '/^harness / { on = 1; next } /^== / { on = 0 } on && NF == 5 { n++; done += $2; finds += $5; if ($5) where = where " " $1 }
    END { print n " harnesses, " done " executions, " finds " finds" (finds ? ":" where : "") }')"
else
  note fuzz 0 "not run: this machine has no clang with libFuzzer (Debian: libclang-rt-14-dev)"
fi

# CUDA's own compiler, where it is; the tests of real GPUs are another script's.
if command -v "${CUDACXX:-nvcc}" >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
  log=build/cuda-release.log
  NVCC_APPEND_FLAGS='-Xptxas=-v --no-compress' # sass.py reads the objects
  export NVCC_APPEND_FLAGS
  build cuda-release --target trireme bench_gpu bench_model >"$log" 2>&1
  code=$?
  grep -v '^ptxas info\|bytes stack frame' "$log"
  if [ $code = 0 ]; then
    said=$(JOBS=$cores tests/gpu/registers.sh --from "$log")
    code=$?
    echo "$said" | grep '^registers:' # not the table of all of them
    note cuda-release $code "builds; $(echo "$said" | tail -n 1)"
    if command -v python3 >/dev/null 2>&1; then
      said=$(find build/cuda-release -name '*.cu.o' -exec python3 tests/gpu/sass.py {} +)
      code=$?
      echo "$said"
      note sass $code "$(echo "$said" | tail -n 1)"
    else
      note sass 0 "not run: this machine has no python3"
    fi
  fi
else
  note cuda-release 0 "not built: this machine has no nvcc"
fi

echo "== summary$summary"
exit $failed
