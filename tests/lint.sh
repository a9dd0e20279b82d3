#!/usr/bin/env bash
# lint.sh - the source rules no compiler checks: rooms (rooms.sh), sizes, first lines, comments, libraries, layout.
#
# tests/lint.sh            from anywhere in the tree; prints FILE:LINE: what, exits 1 if anything was printed.
# tests/lint.sh CHECK...   some of its checks: rooms, lines, texts, headers, layout, pairs, first_hour.
# TRI_CFLAGS               include flags of the libraries; asked from mpicc and pkg-config where it is not set.
# CC, CXX, CLANG_FORMAT    the programs to use; clang-format must be version 14, others lay out differently.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export LC_ALL=C # columns are bytes, sorting is the same everywhere
CC=${CC:-gcc} CXX=${CXX:-g++}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# Headers of libraries and where they may be included; TRI_HAVE_ switches and where they may be tested.
libraries='
mpi.h     src/comm/*|io/checkpoint/*|tests/emulate/*
hdf5.h    io/checkpoint/*|tests/io/test_checkpoint*
pmix.h    src/comm/runtime.c
cblas.h   src/cpu/gemm/*
dnnl*     src/cpu/gemm/*|tests/device/isa.c
yaml.h    io/text/deck.c
pcre2.h   io/tokenizer/*|src/reward/reward_rule.c
utf8proc.h io/tokenizer/*
cuda*.h   gpu/*|tests/emulate/*
cublas*   gpu/gemm/*|tests/emulate/*
nccl*     gpu/nccl/*|tests/emulate/*
'
switches='
TRI_HAVE_CUDA   src/registry.c
TRI_HAVE_NCCL   src/registry.c
TRI_HAVE_PMIX   src/comm/runtime.c
TRI_HAVE_ONEDNN src/cpu/gemm/*
'
# The hour of a newcomer: README.md and the files its section "A step, file by file" names, at most so many and so long together.
step_files=20
first_hour_lines=4000
# Headers the CUDA back end includes: they must be C++ too.
gpu_headers='src/base/base.h src/base/tensor.h src/base/rng.h src/device/formula.h src/device/device.h src/device/kernels.h
src/comm/comm.h gpu/device_cuda.h gpu/base/kernels_cuda.h gpu/base/cuda_impl.h gpu/gemm/gemm.h gpu/gemm/gemm_rows.h'

mapfile -t c_files < <(find src io tests gpu -regex '.*\.\([ch]\|cuh?\|cpp\)' -not -path 'tests/data/*' 2>/dev/null | sort)
mapfile -t h_files < <(printf '%s\n' "${c_files[@]}" | grep '\.h$')
mapfile -t texts < <(find CMakeLists.txt tests jobs inputs .ci -type f \
  \( -name CMakeLists.txt -o -name '*.sh' -o -name '*.sbatch' -o -name '*.yaml' -o -name '*.py' -o -path '.ci/run' \) \
  -not -path 'tests/data/*' 2>/dev/null | sort)

# Everything that needs only the lines of the C files. Tables come in as text; prints FILE:LINE: what.
check_lines() {
  awk -v libraries="$libraries" -v switches="$switches" '
  function to_regex(glob) { gsub(/\./, "\\.", glob); gsub(/\*/, ".*", glob); return "^(" glob ")$" }
  function bad(line, what) { printf "%s:%d: %s\n", FILENAME, line, what }
  function resolve(inc,   dir) { # as the compiler does: beside the file, then src, then the root
    dir = FILENAME; sub(/[^\/]*$/, "", dir)
    if ((dir inc) in is_file) return dir inc
    if (("src/" inc) in is_file) return "src/" inc
    return inc in is_file ? inc : ""
  }
  function check_include(inc, system_header,   path, i) {
    path = system_header ? "" : resolve(inc)
    for (i = 1; i <= n_library && path == ""; i++)
      if (inc ~ library_name[i] || inc ~ ("/" substr(library_name[i], 2)))
        if (FILENAME !~ library_glob[i]) bad(FNR, inc " belongs to other files (table `libraries` of tests/lint.sh)")
    if (system_header) return
    if (path == "" && !in_tests && !(FILENAME ~ /^gpu\// && inc ~ stand_in)) bad(FNR, inc " is not there, as seen from src and from the root")
    reaches[FILENAME] = reaches[FILENAME] " " path
  }
  # Braces outside strings, characters and comments; in_comment runs on from line to line. What lies between is counted:
  # a struct has a member for each ; and , outside parentheses, and is a table of functions if most of them are pointers to one.
  function depth_change(line,   i, c, d, n, quote) {
    n = length(line); d = 0; quote = ""
    in_macro = !in_comment && line ~ /^ *#/ || goes_on
    goes_on = in_macro && line ~ /\\$/
    for (i = 1; i <= n; i++) {
      c = substr(line, i, 1)
      if (in_comment) { if (c == "*" && substr(line, i + 1, 1) == "/") { in_comment = 0; i++ } continue }
      if (quote != "") { if (c == "\\") i++; else if (c == quote) quote = ""; continue }
      if (c == "/" && substr(line, i + 1, 1) == "*") { in_comment = 1; i++ }
      else if (c == "/" && substr(line, i + 1, 1) == "/") break
      else if (c == "\"" || c == "\047") quote = c
      else {
        if (c == "{") { d++; open_brace() }
        else if (c == "}") { d--; close_brace() }
        else if (c == "(") { round++; if (substr(line, i + 1, 1) == "*") points[level]++ }
        else if (c == ")") round--
        else if (round == 0 && is_struct[level] && (c == ";" || c == ",")) members[level] += c == ";" && nameless ? nameless : 1
        if (c != " " && c != "}") nameless = 0
        if (!in_macro) said = c == ";" || c == "{" || c == "}" ? "" : said c
      }
    }
    said = said " "
    return d
  }
  function open_brace() {
    gsub(/__attribute__ *\(\([^()]*(\([^()]*\))?\)\)/, "", said)
    is_struct[++level] = (" " said " ") ~ /[^a-z_0-9](struct|union)[^a-z_0-9]/ && said !~ /[(=]/
    members[level] = points[level] = 0; struct_at[level] = FNR
  }
  function close_brace() {
    if (level < 1) return
    if (is_struct[level] && members[level] > 24 && 2 * points[level] <= members[level] && !in_tests)
      bad(struct_at[level], "struct of " members[level] " members; 24 is the limit")
    nameless = is_struct[level] ? members[level] : 0 # of a struct without a name in a struct, if ; comes next
    level--
  }
  function end_of_file(   limit) {
    limit = last ~ /^tests\// ? 700 : 500
    if (last != "" && lines > limit) printf "%s:%d: file of %d lines; %d is the limit\n", last, lines, lines, limit
  }
  BEGIN {
    says_it = "[Cc]ollective|Pure"
    stand_in = "^(emulate\\.cuh|impl\\.cuh|cuda_runtime_api\\.h|cublasLt\\.h|nccl\\.h)$" # found in tests/emulate by the emulated build
    for (i = 1; i < ARGC; i++) is_file[ARGV[i]] = 1
    n = split(libraries, row, "\n")
    for (i = 1; i <= n; i++)
      if (split(row[i], f, " ") == 2) { library_name[++n_library] = to_regex(f[1]); library_glob[n_library] = to_regex(f[2]) }
    n = split(switches, row, "\n")
    for (i = 1; i <= n; i++) if (split(row[i], f, " ") == 2) switch_glob[f[1]] = to_regex(f[2])
  }
  FNR == 1 {
    end_of_file()
    last = FILENAME; depth = 0; level = 0; round = 0; said = ""; in_comment = 0; start = 0; signature = 0; note = ""; in_note = 0; alone = 0; section = 0
    in_tests = FILENAME ~ /^tests\//
    unformatted = 0
    name = FILENAME; sub(/.*\//, "", name)
    if (index($0, "/* " name " - ") != 1) bad(1, "the first line is not \"/* " name " - its one job. */\"")
    in_head = 1; head = ""
  }
  {
    lines = FNR
    if (in_head) { head = head $0; if ($0 ~ /\*\//) { in_head = 0; check_head() } }
    if ($0 ~ /clang-format off/) unformatted = 1
    if (length($0) > 110 && !unformatted && !in_tests) bad(FNR, "a line of " length($0) " columns; 110 is the limit")
    if ($0 ~ /clang-format on/) unformatted = 0
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
    if (FILENAME ~ /\.c$/ && !in_tests && $0 ~ /[^_a-z](exit|_exit|abort) *\(/ && FILENAME !~ /^src\/(main|base\/base|commands\/apart|comm\/runtime)\.c$/)
      bad(FNR, "only main() ends the process")
  }
  function check_head() {
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
  depth == 0 && !in_comment && /^[^ \t#\/{}].*\(/ { signature = FNR; call = $0 }
  {
    before = depth
    depth += depth_change($0)
    if (before == 0 && (depth > 0 || /\}$/) && signature) check_name(call, FNR)
    if (before == 0 && depth > 0) { start = signature; signature = 0 }
    if (before == 0 && depth == 0 && /;$/) signature = 0
    if (before > 0 && depth == 0 && start) {
      if (FNR - start + 1 > 100) bad(start, "function of " FNR - start + 1 " lines; 100 is the limit")
      start = 0
    }
  }
  # Functions that other files see are called tri_*: rooms.sh knows them by it.
  function check_name(call, line) {
    if (FILENAME !~ /^(src|io|gpu)\/.*\.c$/ || call ~ /^(static|typedef|struct|union|enum|TRI_|extern)[^a-z_]/) return
    sub(/ *\(.*/, "", call); sub(/.*[ *]/, "", call)
    if (call !~ /^tri_/ && call != "main") bad(line, "the function " call " is neither static nor called tri_...")
  }
  function sees_comm(h,   list, n, i) { # can a function of this header take a communicator?
    if (h == "src/comm/comm.h") return 1
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
  flags="-Isrc -I. -Itests/case -idirafter tests/emulate -fopenmp -fsyntax-only -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Wall -Wextra -Werror"
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
    compgen -G "tests/*/test_$module.c" >/dev/null || echo "tests/CMakeLists.txt:1: TRI_RANKS_$module, and there is no tests/*/test_$module.c"
  done
  second=$(awk '/^```/ { n++; next } n == 3' README.md)
  [[ -n $second && $second == "$(tail -n 1 .ci/run)" ]] ||
    echo ".ci/run:1: its last line is not the second block of README.md"
}

check_first_hour() {
  local list n
  # A name without a folder lies beside the one before it.
  list=$(awk '/^## /{ on = /A step, file by file/ } on && /^\| `/ { split($0, column, "|"); n = split(column[2], part, "`")
    for (i = 2; i <= n; i += 2) { if (part[i] ~ /\//) { dir = part[i]; sub(/[^\/]*$/, "", dir) } else part[i] = dir part[i]; print part[i] } }' README.md)
  n=$(wc -w <<<"$list")
  ((n > 0 && n <= step_files)) || echo "README.md:1: a step passes $n files; $step_files is the limit"
  # shellcheck disable=SC2086
  n=$(cat $list README.md | wc -l)
  ((n <= first_hour_lines)) || echo "README.md:1: with the files of a step $n lines; a newcomer's hour is $first_hour_lines"
}

check_rooms() {
  tests/rooms.sh --check
}

[[ $# -gt 0 ]] || set -- rooms lines texts headers layout pairs first_hour
for check; do
  "check_$check"
done >"$out/all" 2>&1
if [[ -s $out/all ]]; then
  cat "$out/all"
  echo "lint: $(grep -cE '^[^ :]+:[0-9]+: ' "$out/all") findings in ${#c_files[@]} C files and ${#texts[@]} others"
  exit 1
fi
echo "lint: ${#c_files[@]} C files and ${#texts[@]} others, nothing found"
