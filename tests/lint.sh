#!/usr/bin/env bash
# lint.sh - the source rules no compiler checks: layers, header owners, sizes, first lines, comments, layout.
#
# tests/lint.sh            from anywhere in the tree; prints FILE:LINE: what, exits 1 if anything was printed.
# TRI_CFLAGS               include flags of the libraries; asked from mpicc and pkg-config where it is not set.
# CC, CXX, CLANG_FORMAT    the programs to use; clang-format must be version 14, others lay out differently.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
CC=${CC:-gcc} CXX=${CXX:-g++}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# Header, its layer, and where a private header may be included (patterns with |; "-": in its own layer and above).
# Tests include what they test.
headers='
src/base.h           0 -
src/apart.h          0 -
src/columns.h        0 -
src/file.h           0 -
src/folder.h         0 -
src/live.h           0 -
src/print.h          0 -
src/visible.h        0 -
src/number.h         0 -
src/tensor.h         0 -
src/rng.h            0 -
src/place.h          0 -
src/formula.h        0 -
src/inline.h         0 -
src/model_shape.h    0 -
src/batch_plan.h     0 -
io/deck.h            0 -
io/hash.h            0 -
io/file_kind.h       0 -
src/device.h         1 -
src/kernels.h        1 -
src/trace.h          1 -
src/cpu/cpu.h        1 src/cpu/*
src/cpu/device_cpu.h 1 src/cpu/*|src/registry.c|src/comm*.c
src/cpu/gemm.h       1 src/cpu/*
src/cpu/linear.h     1 src/cpu/*
gpu/gpu.h            1 gpu/*
gpu/device_cuda.h    1 src/registry.c|gpu/device_cuda.c
gpu/gemm.h           1 gpu/*
gpu/gemm_rows.h      1 gpu/gemm_*
gpu/cuda_impl.h      1 gpu/*
gpu/gemm_impl.h      1 gpu/gemm_*.c
gpu/cuda_util.cuh    1 gpu/*
gpu/logprob.cuh      1 gpu/*
gpu/attention_tile.cuh 1 gpu/attention*.cu
gpu/attention_bwd_tile.cuh 1 gpu/attention_bwd.cu|gpu/attention_bwd_mma.cuh
gpu/attention_bwd_mma.cuh 1 gpu/attention_bwd.cu
gpu/comm_nccl.h      2 src/registry.c|gpu/*
gpu/nccl_impl.h      2 gpu/*nccl*.c
io/model_kind.h      1 -
io/hf_config.h       1 -
io/hf_config_impl.h  1 io/hf_config*.c
io/json_text.h       1 -
io/jsonl.h           1 -
io/lines.h           1 -
io/safetensors.h     1 -
io/tokenizer.h       1 -
io/tokenizer_impl.h  1 io/tokenizer*.c
src/comm.h           2 -
src/comm_host.h      2 src/comm*.c|src/runtime.c|src/halt.c|gpu/*nccl*.[ch]
src/runtime.h        2 -
src/halt.h           2 -
src/memory.h         3 -
src/shard.h          3 -
src/params.h         3 -
src/params_impl.h    3 src/params*.c
src/optim.h          3 -
io/checkpoint.h      3 -
io/checkpoint_impl.h 3 io/checkpoint*.c
src/model.h          4 -
src/decoder.h        4 src/model.c|src/decoder_*.c|src/head.c
src/kv.h             4 -
src/rollout.h        5 -
src/decode.h         5 -
src/sampler.h        5 -
src/batch.h          5 -
src/algo.h           5 -
src/reward.h         5 -
src/answers.h        5 -
src/metrics.h        5 -
src/timeline.h       5 -
src/session.h        5 -
src/source.h         5 -
src/carried.h        5 -
src/export.h         5 -
src/flags.h          5 -
io/dataset.h         5 -
io/dataset_parts.h   5 io/dataset*.c
io/rollout_file.h    5 -
src/health.h         5 -
src/config.h         6 src/config*.[ch]|src/train.h|src/commands/train.c
src/config_keys.h    6 src/config*.c
src/check.h          6 -
src/infer.h          6 -
src/train.h          6 -
'
# Layers of .c files that implement no header of their own name: pattern, layer.
sources='
src/cpu/*           1
gpu/nccl_*.c        2
gpu/*               1
io/hf_config_*.c    1
io/safetensors_*.c  1
io/tokenizer_*.c    1
src/comm_*.c        2
io/checkpoint_*.c   3
src/params_*.c      3
src/decoder_*.c     4
src/head.c          4
io/dataset_*.c       5
src/algo_*.c        5
src/reward_*.c      5
src/config_*.c      6
src/collect.c       6
src/screen.c        6
src/state.c         6
src/resume.c        6
src/report.c        6
src/inputs.c        6
src/trainer.c       6
src/commands/*      7
src/main.c          7
src/registry.c      7
tests/*             9
'
# Headers of libraries and where they may be included; TRI_HAVE_ switches and where they may be tested.
libraries='
mpi.h     src/comm.c|src/comm_mpi.c|src/comm_shm.c|src/runtime.c|src/halt.c|src/session.c|io/checkpoint*|tests/emulate/nccl.cpp|tests/test_emulate_nccl.cpp
hdf5.h    io/checkpoint*|tests/test_checkpoint*
pmix.h    src/runtime.c
cblas.h   src/cpu/gemm_*.c
dnnl*     src/cpu/gemm_*.c|tests/family.c
yaml.h    io/deck.c
pcre2.h   io/tokenizer*|src/reward_rule.c
utf8proc.h io/tokenizer*
cuda*.h   gpu/*|tests/emulate/*|tests/test_emulate_nccl.cpp
cublas*   gpu/*|tests/emulate/*|tests/test_emulate.cpp
nccl*     gpu/*|tests/emulate/*|tests/test_emulate_nccl.cpp
'
switches='
TRI_HAVE_CUDA   src/registry.c
TRI_HAVE_NCCL   src/registry.c
TRI_HAVE_PMIX   src/runtime.c
TRI_HAVE_ONEDNN src/cpu/gemm_*.c
'
# The hour of a newcomer: what is read first stays this short together.
first_hour='src/main.c src/train.c src/algo.h src/algo_group.c src/model.h src/model.c src/shard.h src/params.h
src/device.h src/kernels.h src/comm.h'
first_hour_lines=2010
# Headers the CUDA back end includes: they must be C++ too.
gpu_headers='src/base.h src/tensor.h src/rng.h src/formula.h src/device.h src/kernels.h src/comm.h'

mapfile -t c_files < <(find src io tests gpu -regex '.*\.\([ch]\|cuh?\|cpp\)' -not -path 'tests/data/*' 2>/dev/null | sort)
mapfile -t h_files < <(printf '%s\n' "${c_files[@]}" | grep '\.h$')
mapfile -t texts < <(find CMakeLists.txt tests jobs inputs .ci -type f \
  \( -name CMakeLists.txt -o -name '*.sh' -o -name '*.sbatch' -o -name '*.yaml' -o -name '*.py' -o -path '.ci/run' \) \
  -not -path 'tests/data/*' 2>/dev/null | sort)

# Everything that needs only the lines of the C files. Tables come in as text; prints FILE:LINE: what.
check_lines() {
  awk -v headers="$headers" -v sources="$sources" -v libraries="$libraries" -v switches="$switches" '
  function to_regex(glob) { gsub(/\./, "\\.", glob); gsub(/\*/, ".*", glob); return "^(" glob ")$" }
  function bad(line, what) { printf "%s:%d: %s\n", FILENAME, line, what }
  function layer_of(path,   i, h) {
    h = path; sub(/\.c$/, ".h", h)
    if (h in layer) return layer[h]
    for (i = 1; i <= n_source; i++) if (path ~ source_glob[i] && (path ~ /\.cu?$/ || source_layer[i] == 9)) return source_layer[i]
    return -1
  }
  function resolve(inc,   dir, try) { # as the compiler does: beside the file, then src, then the root
    dir = FILENAME; sub(/[^\/]*$/, "", dir)
    if ((dir inc) in layer) return dir inc
    if (("src/" inc) in layer) return "src/" inc
    if (inc in layer) return inc
    return ""
  }
  function check_include(inc, system_header,   path, i) {
    for (i = 1; i <= n_library; i++)
      if (inc ~ library_name[i] || inc ~ ("/" substr(library_name[i], 2)))
        if (FILENAME !~ library_glob[i]) bad(FNR, inc " belongs to other files (table `libraries` of tests/lint.sh)")
    if (system_header) return
    path = resolve(inc)
    if (path == "" && (mine == 9 && inc ~ /_case\.h$/ || FILENAME ~ /^(gpu|tests\/emulate)\// && inc ~ stand_in)) return
    if (path == "") { bad(FNR, inc " has no row in the table `headers` of tests/lint.sh"); return }
    if (layer[path] > mine) bad(FNR, inc " is of layer " layer[path] ", this file of layer " mine)
    if (owner[path] != "-" && mine < 9 && FILENAME !~ to_regex(owner[path])) bad(FNR, inc " is private to " owner[path])
    reaches[FILENAME] = reaches[FILENAME] " " path
  }
  # Braces outside strings, characters and comments; in_comment runs on from line to line.
  function depth_change(line,   i, c, d, n, quote) {
    n = length(line); d = 0; quote = ""
    for (i = 1; i <= n; i++) {
      c = substr(line, i, 1)
      if (in_comment) { if (c == "*" && substr(line, i + 1, 1) == "/") { in_comment = 0; i++ } continue }
      if (quote != "") { if (c == "\\") i++; else if (c == quote) quote = ""; continue }
      if (c == "/" && substr(line, i + 1, 1) == "*") { in_comment = 1; i++ }
      else if (c == "/" && substr(line, i + 1, 1) == "/") return d
      else if (c == "\"" || c == "\047") quote = c
      else if (c == "{") d++
      else if (c == "}") d--
    }
    return d
  }
  function end_of_file() {
    if (last != "" && lines > 700) printf "%s:%d: file of %d lines; 700 is the limit\n", last, lines, lines
  }
  BEGIN {
    says_it = "[Cc]ollective|Pure"
    stand_in = "^(emulate\\.cuh|impl\\.cuh|cuda_runtime_api\\.h|cublasLt\\.h|nccl\\.h)$" # found in tests/emulate by the emulated build
    n = split(headers, row, "\n")
    for (i = 1; i <= n; i++) if (split(row[i], f, " ") == 3) { layer[f[1]] = f[2] + 0; owner[f[1]] = f[3] }
    n = split(sources, row, "\n")
    for (i = 1; i <= n; i++)
      if (split(row[i], f, " ") == 2) { source_glob[++n_source] = to_regex(f[1]); source_layer[n_source] = f[2] + 0 }
    n = split(libraries, row, "\n")
    for (i = 1; i <= n; i++)
      if (split(row[i], f, " ") == 2) { library_name[++n_library] = to_regex(f[1]); library_glob[n_library] = to_regex(f[2]) }
    n = split(switches, row, "\n")
    for (i = 1; i <= n; i++) if (split(row[i], f, " ") == 2) switch_glob[f[1]] = to_regex(f[2])
  }
  FNR == 1 {
    end_of_file()
    last = FILENAME; depth = 0; in_comment = 0; start = 0; signature = 0; note = ""; in_note = 0; alone = 0; section = 0
    mine = layer_of(FILENAME)
    if (mine < 0) bad(1, "no row in the tables `headers` and `sources` of tests/lint.sh says its layer")
    if (FILENAME ~ /\.h$/ && mine < 9 && !(FILENAME in layer)) bad(1, "no row in the table `headers` of tests/lint.sh")
    name = FILENAME; sub(/.*\//, "", name)
    if (index($0, "/* " name " - ") != 1) bad(1, "the first line is not \"/* " name " - its one job. */\"")
    in_head = 1; head = ""
  }
  {
    lines = FNR
    if (in_head) { head = head $0; if ($0 ~ /\*\//) { in_head = 0; check_head() } }
    if ($0 ~ /TODO|FIXME/ && $0 !~ /#[0-9]+/) bad(FNR, "TODO without an issue number")
    if ($0 ~ /^ *# *ifn?def +TRI_/ && !(FILENAME ~ /\.(h|cuh)$/ && $0 ~ /_(H|CUH)$/)) bad(FNR, "macros are 0 or 1 and tested with #if")
    if ($0 ~ /^ *# *if/) {
      rest = $0
      while (match(rest, /TRI_HAVE_[A-Z0-9_]+/)) {
        s = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
        if (!(s in switch_glob) || FILENAME !~ switch_glob[s]) bad(FNR, s " is tested in another file (table `switches` of tests/lint.sh)")
      }
    }
    if (match($0, /^ *# *include +"[^"]+"/)) { split($0, f, "\""); check_include(f[2], 0) }
    else if (match($0, /^ *# *include +<[^>]+>/)) { inc = $0; sub(/^[^<]*</, "", inc); sub(/>.*/, "", inc); check_include(inc, 1) }
    if (FILENAME ~ /\.c$/ && mine < 9 && $0 ~ /[^_a-z](exit|_exit|abort) *\(/ && FILENAME !~ /src\/(base|apart|runtime|main)\.c$/)
      bad(FNR, "only main() ends the process")
  }
  function check_head() {
    if (match(head, /Layer [0-9]/) && FILENAME in layer && substr(head, RSTART + 6, 1) + 0 != layer[FILENAME])
      bad(1, "says " substr(head, RSTART, RLENGTH) "; the table of tests/lint.sh says " layer[FILENAME])
    says[FILENAME] = head ~ says_it
  }
  # The comment above a declaration holds for the declarations below it up to the next blank line or comment; one with
  # a blank line behind it, or "all that follow" in it, holds for its section.
  FILENAME ~ /\.h$/ {
    if ($0 ~ /^ *$/) { if (alone) section = note ~ says_it; note = "" }
    if ($0 ~ /^\/\*/) { note = ""; in_note = 1 }
    if (in_note || $0 ~ /\/\*/) note = note " " $0
    if (in_note && note ~ /all that follow/) section = note ~ says_it
    alone = in_note && $0 ~ /\*\//
    if ($0 ~ /\*\//) in_note = 0
    if ($0 ~ /^TRI_CHECKED/ && note !~ says_it && !section) { silent[++n_silent] = FILENAME; silent_line[n_silent] = FNR }
  }
  # A function is a line at the margin with a ( and, there or below, the { that leaves depth 0.
  depth == 0 && !in_comment && /^[^ \t#\/{}].*\(/ { signature = FNR }
  {
    before = depth
    depth += depth_change($0)
    if (before == 0 && depth > 0) { start = signature; signature = 0 }
    if (before == 0 && depth == 0 && /;$/) signature = 0
    if (before > 0 && depth == 0 && start) {
      if (FNR - start + 1 > 100) bad(start, "function of " FNR - start + 1 " lines; 100 is the limit")
      start = 0
    }
  }
  function sees_comm(h,   list, n, i) { # can a function of this header take a communicator?
    if (h == "src/comm.h") return 1
    if (h in seen) return seen[h]
    seen[h] = 0
    n = split(reaches[h], list, " ")
    for (i = 1; i <= n; i++) if (sees_comm(list[i])) seen[h] = 1
    return seen[h]
  }
  END {
    end_of_file()
    for (i = 1; i <= n_silent; i++)
      if (sees_comm(silent[i]) && !says[silent[i]])
        printf "%s:%d: its comment does not say Collective or Not collective\n", silent[i], silent_line[i]
  }' "${c_files[@]}"
}

# Scripts, decks, build files: second line where the first is #!, as "# name - job".
check_texts() {
  local f
  for f in "${texts[@]}"; do
    awk -v name="${f##*/}" -v path="$f" '
      NR == 1 && /^#!/ { next }
      { if (index($0, "# " name " - ") != 1 && index($0, "# " path " - ") != 1)
          printf "%s:%d: the first line is not \"# %s - its one job\"\n", path, NR, name
        exit }' "$f"
    [[ $f == tests/lint.sh ]] || awk -v path="$f" '/TODO|FIXME/ && !/#[0-9]+/ {
      printf "%s:%d: TODO without an issue number\n", path, NR }' "$f"
  done
}

# Every header compiles alone, as C and, where the GPU sees it, as C++.
check_headers() {
  local flags strict h
  if [[ -z ${TRI_CFLAGS+set} ]]; then
    TRI_CFLAGS="$(mpicc --showme:compile 2>/dev/null || mpicc -compile_info 2>/dev/null | sed 's/^[^ ]* //')"
    for h in hdf5-openmpi hdf5 jansson libpcre2-8 libutf8proc yaml-0.1 cmocka openblas; do
      pkg-config --exists $h && TRI_CFLAGS+=" $(pkg-config --cflags $h)"
    done
  fi
  flags="-Isrc -I. -idirafter tests/emulate -fopenmp -fsyntax-only -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Wall -Wextra -Werror"
  for h in "${h_files[@]}"; do
    case $h in tests/*) strict='-DTRI_TEST_DATA="" -DTRI_SOURCE_DIR="" -DTRI_PROGRAM=""' ;; *) strict=-pedantic ;; esac
    # shellcheck disable=SC2086
    printf '#include "%s"\ntypedef int not_empty;\n' "$h" | $CC -x c -std=c11 $flags $strict $TRI_CFLAGS - >"$out/log" 2>&1 || {
      echo "$h:1: does not compile alone as C11:"
      grep -m 5 'error:' "$out/log" || head -n 5 "$out/log"
    }
  done
  for h in $gpu_headers; do
    # shellcheck disable=SC2086
    printf '#include "%s"\n' "$h" | $CXX -x c++ -std=c++17 -pedantic $flags $TRI_CFLAGS - >"$out/log" 2>&1 || {
      echo "$h:1: does not compile as C++17:"
      grep -m 5 'error:' "$out/log" || head -n 5 "$out/log"
    }
  done
}

check_layout() {
  local program=${CLANG_FORMAT:-$(command -v clang-format-14 || command -v clang-format)}
  if ! "${program:-false}" --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "tests/lint.sh:1: clang-format 14 not found (Debian: clang-format); set CLANG_FORMAT"
    return
  fi
  "$program" --dry-run -Werror "${c_files[@]}" 2>&1 | awk -F: '/error:/ && !n[$1]++ { first[$1] = $2 }
    { if (/error:/) count[$1]++ }
    END { for (f in first) printf "%s:%d: layout: %d places differ; run clang-format -i\n", f, first[f], count[f] }' | sort
}

# What two files must say alike: rank counts and test programs; the second block of README.md and .ci/run.
check_pairs() {
  local module second
  sed -n 's/^set(TRI_RANKS_\([a-z0-9_]*\) .*/\1/p' tests/CMakeLists.txt | while read -r module; do
    [[ -e tests/test_$module.c ]] || echo "tests/CMakeLists.txt:1: TRI_RANKS_$module, and there is no tests/test_$module.c"
  done
  second=$(awk '/^```/ { n++; next } n == 3' README.md)
  [[ -n $second && $second == "$(tail -n 1 .ci/run)" ]] ||
    echo ".ci/run:1: its last line is not the second block of README.md"
}

check_first_hour() {
  local n
  # shellcheck disable=SC2086
  n=$(cat $first_hour README.md | wc -l)
  ((n <= first_hour_lines)) || echo "README.md:1: with the files of \$first_hour $n lines; a newcomer's hour is $first_hour_lines"
}

{
  check_lines
  check_texts
  check_headers
  check_layout
  check_pairs
  check_first_hour
} >"$out/all" 2>&1
if [[ -s $out/all ]]; then
  cat "$out/all"
  echo "lint: $(grep -cE '^[^ :]+:[0-9]+: ' "$out/all") findings in ${#c_files[@]} C files and ${#texts[@]} others"
  exit 1
fi
echo "lint: ${#c_files[@]} C files and ${#texts[@]} others, nothing found"
