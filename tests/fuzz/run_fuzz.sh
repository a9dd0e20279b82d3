#!/usr/bin/env bash
# run_fuzz.sh - fuzzes the parsers, with as many harnesses at a time as there are cores.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/fuzz/run_fuzz.sh MINUTES [HARNESS ...]    runs each harness for MINUTES, from the corpus of earlier runs.
# tests/fuzz/run_fuzz.sh --check [HARNESS ...]    runs a fixed number of executions each from the seeds, the same every time.
# tests/fuzz/run_fuzz.sh --coverage [HARNESS ...] prints the lines and branches of the parsers reached by seeds and corpora.
#
# The harnesses are those of build/cpu-fuzz, with --check those of build/cpu-asan. That folder keeps corpus/HARNESS.
# Its finds/HARNESS has the inputs that broke something in the last run. Run fuzz_HARNESS FILE to see one again.
# Its log/HARNESS is libFuzzer's output. The script exits with 1 if anything was found.
set -uo pipefail
shopt -s nullglob
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=build/cpu-fuzz
cores=$(nproc) # here, because nproc obeys OMP_NUM_THREADS, set below
# Chosen, since an input takes milliseconds and megabytes. An input beyond these limits is a find.
limits='-timeout=10 -rss_limit_mb=512 -malloc_limit_mb=512'
export OMP_NUM_THREADS=1 ASAN_OPTIONS=quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/case/lsan.supp:print_suppressions=0

usage() {
  sed -n 's/^# \(tests.fuzz.run_fuzz.sh .*\)/\1/p' tests/fuzz/run_fuzz.sh >&2
  exit 64
}

want() { # a line of the build's cache, the reason, targets to build
  grep -qs "^$1\$" $build/CMakeCache.txt && return
  echo "run_fuzz.sh: $build will not do: $2: cmake --preset ${3%% *} && cmake --build --preset $3" >&2
  exit 64
}

# Runs libFuzzer on one harness. Further arguments go to libFuzzer.
fuzz() {
  local harness=$1
  shift
  # shellcheck disable=SC2086
  "$build/fuzz_$harness" $limits -print_final_stats=1 -dict="$build/work/$harness/dict" \
    -artifact_prefix="$build/finds/$harness/" "$@" >>"$build/log/$harness" 2>&1
}

# Runs earlier finds once. They are slow and are not used as seeds.
check() {
  local harness=$1 runs=10000 list=$build/work/$1/list found=(tests/fuzz/repro/"$1"/*)
  case $harness in # these take milliseconds for an input
  ckpt | deck | history | tokload) runs=2500 ;;
  esac
  printf '%s\n' "$build/work/$harness"/seeds/* | paste -sd, >"$list"
  ((${#found[@]} == 0)) || fuzz "$harness" "${found[@]}" || return
  # Compared values are not used, because some are addresses and differ from run to run.
  fuzz "$harness" -seed=1 -use_cmp=0 -runs=$runs -seed_inputs=@"$list"
}

# Goes on behind a find, up to ten of them.
explore() {
  local harness=$1 end=$((SECONDS + seconds)) n=0
  mkdir -p "$build/corpus/$harness"
  until ((SECONDS >= end || n++ >= 10)); do
    fuzz "$harness" -max_total_time=$((end - SECONDS)) "$build/corpus/$harness" "$build/work/$harness/seeds"
  done
}

one() {
  local harness=$1
  rm -rf "$build/finds/$harness" "$build/log/$harness"
  mkdir -p "$build/finds/$harness" "$build/log"
  tests/fuzz/seeds.sh "$harness" "$build/work/$harness" && $job "$harness"
  echo $? >"$build/work/$harness/code"
}

each() {
  local harness
  for harness in $harnesses; do
    while (($(jobs -rp | wc -l) >= cores)); do wait -n; done
    one "$harness" &
  done
  wait
}

# Prints a row per harness from the end of its log.
table() {
  local harness code n
  printf '%-12s %11s %8s %7s %5s\n' harness executions per_s edges finds
  for harness in $harnesses; do
    code=$(cat "$build/work/$harness/code")
    n=$(find "$build/finds/$harness" -type f | wc -l)
    awk -v harness="$harness" -v n="$n" '/^stat::number_of_executed_units/ { done += $2 }
      /^stat::average_exec_per_sec/ { rate = $2 } / cov: / { sub(/.* cov: /, ""); edges = $1 }
      END { printf "%-12s %11d %8d %7d %5d\n", harness, done, rate, edges, n }' "$build/log/$harness"
    ((code == 0 && n == 0)) || failed="$failed $harness"
  done
}

coverage() {
  local dir=build/fuzz-coverage harness objects=''
  cmake --preset cpu-debug -B $dir -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS='-fprofile-instr-generate -fcoverage-mapping' >$dir.log &&
    cmake --build $dir --parallel "$cores" --target fuzz >>$dir.log || return
  rm -f $dir/*.profraw
  for harness in $harnesses; do
    tests/fuzz/seeds.sh "$harness" "$dir/work/$harness"
    find "$dir/work/$harness/seeds" "$build/corpus/$harness" -type f -print0 2>/dev/null |
      LLVM_PROFILE_FILE=$dir/$harness-%p.profraw xargs -0 -n 1000 "$dir/fuzz_$harness" >>$dir.log 2>&1 ||
      echo "fuzz_$harness: ended badly ($dir.log)"
    objects="$objects -object $dir/fuzz_$harness"
  done
  llvm-profdata merge -o $dir/profile $dir/*.profraw || return
  # shellcheck disable=SC2086
  llvm-cov report -instr-profile=$dir/profile ${objects# -object} "$PWD"/io "$PWD"/src/{config,reward,reward/math}/*.c "$PWD"/src/base/visible.c |
    awk '/^Filename/ { printf "%-28s %7s %8s\n", "file", "lines", "branches" }
      /\.[ch] / && $10 != "0.00%" { printf "%-28s %7s %8s\n", $1, $10, $13 }'
}

[[ $# -ge 1 ]] || usage
what=$1
shift
harnesses=${*:-$(sed -n 's/^set(TRI_FUZZ_HARNESSES \(.*\))/\1/p' tests/fuzz/CMakeLists.txt)}
[[ -n $harnesses ]] || { echo "run_fuzz.sh: no harness is found in tests/fuzz/CMakeLists.txt, in one line" >&2; exit 1; }
failed=''
case $what in
--coverage)
  coverage
  exit
  ;;
--check)
  job=check build=build/cpu-asan
  want TRI_HAVE_FUZZER:INTERNAL=1 "the check is by clang's libFuzzer (Debian: libclang-rt-14-dev)" "cpu-asan --target fuzz"
  ;;
*[!0-9]* | '') usage ;;
*)
  job=explore seconds=$((what * 60))
  want 'TRI_FUZZ:[A-Z]*=GUIDED' "minutes are for a build that is guided by the values compared" cpu-fuzz
  ;;
esac
each
table
for harness in $failed; do
  echo "== $harness: the end of $build/log/$harness"
  tail -n 40 "$build/log/$harness"
done
[[ -z $failed ]]
