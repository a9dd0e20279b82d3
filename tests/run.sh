#!/bin/sh
# run.sh - runs every check of the project: source rules, the builds by gcc, clang and nvcc with their tests, and fuzzing.
# SPDX-License-Identifier: BSD-3-Clause
#
# All checks run even if one fails. The last lines give the result of each, and before them stands the end of what each failed test
# printed. It needs no network. Exit 0 means that everything passed.
set -u
cd "$(dirname "$0")/.." || exit 1
cores=$(nproc)
slots=$((2 * cores)) # tests at a time. With only cores + 1, a seventh of the time is idle.
summary=''
failures=''
failed=0

note() { # name, exit status, its last line, and for the end what a failed check printed
  if [ "$2" != 0 ]; then
    failed=1
    [ -z "${4:-}" ] || failures="$failures
== $1
$(printf '%s\n' "$4" | tail -n 40)"
  fi
  summary="$summary
$1: $3"
}

# CUDA's own compiler builds if it is installed. tests/gpu has the tests on real GPUs.
cuda=''
if command -v "${CUDACXX:-nvcc}" >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then cuda="cuda-release"; fi

# Three builds use gcc on nearly the same C. With ccache, each file is compiled only once.
launch_by() { # the preset to configure. A build configured without ccache keeps its setting, or all would be compiled again.
  [ ! -e "build/$1/CMakeCache.txt" ] || return
  case $1 in
  cpu-release | cpu-emulated | cuda-release) command -v ccache ;;
  esac
}
CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache}
export CCACHE_DIR

niceness=0 # of builds
# Configures and builds presets, one after another. The output goes to build/PRESET.log and the exit code to build/PRESET.code.
build() {
  for preset; do
    set --
    if [ "$preset" = cuda-release ]; then
      set -- --target trireme bench_gpu bench_model
      NVCC_APPEND_FLAGS='-Xptxas=-v --no-compress' # registers.sh reads the log, sass.py the objects
      export NVCC_APPEND_FLAGS
    fi
    (CMAKE_C_COMPILER_LAUNCHER=$(launch_by "$preset") nice -n $niceness cmake --preset "$preset" &&
      nice -n $niceness cmake --build --preset "$preset" --parallel "$cores" "$@") >"build/$preset.log" 2>&1
    echo $? >"build/$preset.code"
  done
}

# Does the same in the background of the next tests. These leave cores idle, since they wait for children, disks and each other.
build_beside() {
  (niceness=10 && build "$@") &
  beside_pid=$!
}

is_built() { # preset
  echo "== $1"
  if [ "$(cat "build/$1.code")" = 0 ]; then
    echo "built: $(grep -c '^\[' "build/$1.log") steps, in build/$1.log"
    return
  fi
  note "$1" 1 "does not build" "$(grep -v '^ptxas info\|bytes stack frame' "build/$1.log")"
  return 1
}

# Prints the end of what each failed test of a preset printed, from the logs of ctest. A line of the first is NUMBER:NAME.
last_words() { # preset
  log=build/$1/Testing/Temporary
  [ -s "$log/LastTestsFailed.log" ] || return 0 # no test failed, or none ran
  awk -v preset="$1" 'FNR == NR { failed[substr($0, index($0, ":") + 1)]; next }
    /^[0-9]+\/[0-9]+ Testing: / { n = 0; name = $3 }
    { line[n++] = $0 }
    /^".*" end time: / && name in failed {
      print "== " preset ": " name
      for (i = n > 40 ? n - 40 : 0; i < n; i++) print line[i]
    }' "$log/LastTestsFailed.log" "$log/LastTest.log"
}

# Runs a preset's tests in random order. Further arguments go to ctest.
run_tests() {
  preset=$1
  shift
  is_built "$preset" || return
  rm -f "build/$preset/Testing/Temporary/LastTestsFailed.log"
  ctest --test-dir "build/$preset" --schedule-random --output-on-failure --parallel "$slots" --no-tests=error \
    --output-log "build/$preset/ctest.log" "$@"
  code=$?
  # ctest's last lines list the skipped and the failed tests. Each has the reason in brackets.
  note "$preset" $code "$(grep -e 'tests passed' -e '^[[:space:]]*[0-9][0-9]* - .* ([A-Z][A-Za-z ]*)$' "build/$preset/ctest.log" || echo 'no test ran')"
  [ $code = 0 ] || failures="$failures
$(last_words "$preset")"
  return $code
}

mkdir -p build
tests/lint_planted.sh >build/lint_planted.log 2>&1 & # each of the two keeps one core busy
planted=$!
tests/lint.sh >build/lint.log 2>&1
lint=$?
wait $planted
planted=$?
for script in lint lint_planted; do
  echo "== $script"
  cat build/$script.log
  code=$lint
  [ $script = lint ] || code=$planted
  note $script $code "$(tail -n 1 build/$script.log)" "$(cat build/$script.log)"
done

trap 'trap - INT; kill 0' INT # or the build in the background would go on
echo "building cpu-release; what it says goes to build/cpu-release.log"
build cpu-release
build_beside cpu-asan # by clang, whose warnings are errors too
run_tests cpu-release --label-exclude lint
wait $beside_pid
build_beside cpu-emulated $cuda
# Sanitizers check the code and not the numbers. Slow tests therefore leave out the cases that run the same code again.
TRI_TEST_BRIEF=1
export TRI_TEST_BRIEF
run_tests cpu-asan --label-exclude 'lint|isa' || tests/where.sh build/cpu-asan/ctest.log
unset TRI_TEST_BRIEF

wait $beside_pid
run_tests cpu-emulated --label-regex emulated # every CUDA kernel, on the CPU

# Fuzzes the parsers of the sanitized build if clang has libFuzzer, with a fixed number of executions, the same every time.
if echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -x c -fsanitize=fuzzer -o /dev/null - 2>/dev/null; then
  echo "== fuzz"
  said=$(tests/fuzz/run_fuzz.sh --check)
  code=$?
  echo "$said"
  note fuzz $code "$(echo "$said" | awk '/^harness / { on = 1; next } /^== / { on = 0 } on && NF == 5 { n++; done += $2; finds += $5; if ($5) where = where " " $1 }
    END { print n " harnesses, " done " executions, " finds " finds" (finds ? ":" where : "") }')" "$said"
else
  note fuzz 0 "not run: this machine has no clang with libFuzzer (Debian: libclang-rt-14-dev)"
fi

if [ -z "$cuda" ]; then
  note cuda-release 0 "not built: this machine has no nvcc"
elif is_built cuda-release; then
  said=$(JOBS=$cores tests/gpu/registers.sh --from build/cuda-release.log)
  code=$?
  echo "$said" | grep '^registers:' # not the table of all of them
  note cuda-release $code "builds; $(echo "$said" | tail -n 1)" "$said"
  if command -v python3 >/dev/null 2>&1; then
    said=$(find build/cuda-release -name '*.cu.o' -exec python3 tests/gpu/sass.py {} +)
    code=$?
    echo "$said"
    note sass $code "$(echo "$said" | tail -n 1)" "$said"
  else
    note sass 0 "not run: this machine has no python3"
  fi
fi

[ -z "$failures" ] || printf '== what failed%s\n' "$failures"
printf '== summary%s\n' "$summary"
exit $failed
