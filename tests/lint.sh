#!/usr/bin/env bash
# lint.sh - checks source rules no compiler checks (rooms.sh, first lines, licences, comments, libraries, layout) and prints sizes.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/lint.sh            runs from anywhere in the tree, prints each finding as FILE:LINE: TEXT, and exits with 1 if there is one.
#                          It also prints the largest files, functions, structs and so on. No size is a failure.
# tests/lint.sh --sizes    prints all sizes, largest first, as kind, size and place.
# tests/lint.sh CHECK...   runs some of its checks (rooms, lines, comments, texts, headers, layout, pairs).
# TRI_CFLAGS               include flags of the libraries. Without it, mpicc and pkg-config give them.
# CC, CXX, CLANG_FORMAT    the programs to use. clang-format must be version 14, as others lay out differently.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export LC_ALL=C # columns are bytes, sorting is the same everywhere
CC=${CC:-gcc} CXX=${CXX:-g++}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# Headers of libraries with the files that may include them. TRI_HAVE_ switches with the files that may test them.
libraries='
mpi.h     src/comm/*|io/checkpoint/*|tests/emulate/*|tests/case/keep_loaded.c|tests/comm/test_rounds.c
hdf5.h    io/checkpoint/*|tests/io/test_checkpoint*
pmix.h    src/comm/pmix_server.c
cblas.h   src/cpu/gemm/*
dnnl*     src/cpu/gemm/*|tests/device/isa.c
yaml.h    io/text/deck.c
curl/*    src/reward/work_queue/http.c
pcre2.h   io/tokenizer/*|io/hf/peft.c|src/reward/reward_rule.c
utf8proc.h io/tokenizer/*
jansson.h src/reward/reward_process.c|src/reward/reward_http.c|src/reward/extras.[ch]|src/reward/reply_json.[ch]|io/hf/*|io/model/*|io/data/*|io/chat/*|io/jinja/*|io/text/*|io/tokenizer/*|io/checkpoint/*|src/record/record.c|src/report/metrics.c|src/report/best.c|src/report/tensorboard.c|src/tools/history/*|src/machine/machine_file.c|src/commands/command_tokenize.c|src/commands/command_generate.c|src/tools/html_report/samples.c|src/tools/html_report/begun.c|src/tools/tryout/saved_answers.c|tests/*
zlib.h    io/text/unpack.c|tests/io/test_unpack.c
zstd.h    io/text/unpack.c|tests/io/test_unpack.c
cuda*.h   gpu/*|tests/emulate/*
cublas*   gpu/gemm/*|tests/emulate/*
nccl*     gpu/nccl/*|tests/emulate/*
'
switches='
TRI_HAVE_CUDA   src/registry.c
TRI_HAVE_NCCL   src/registry.c
TRI_HAVE_PMIX   src/comm/pmix_server.c
TRI_HAVE_CURL   src/reward/work_queue/http.c
TRI_HAVE_ONEDNN src/cpu/gemm/*
'
# The files permitted to end the process.
enders='src/main.c|src/base/error.c|src/base/child.c|src/base/keeper.c|src/base/apart.c|src/comm/runtime.c'
license='SPDX-License-Identifier: BSD-3-Clause'
# Headers included by the CUDA back end, so they must be C++ too.
gpu_headers='src/base/clock.h src/base/error.h src/base/host_memory.h src/base/log.h src/base/text_buffer.h
src/base/tensor.h src/base/rng.h src/device/formula.h src/device/device.h src/device/kernels.h
src/comm/comm.h gpu/device_cuda.h gpu/base/kernels_cuda.h gpu/base/cuda_impl.h gpu/gemm/gemm_cuda.h gpu/gemm/gemm_rows.h'

c_lines=$(<tests/c_lines.awk)
mapfile -t c_files < <(find src io tests gpu -regex '.*\.\([ch]\|cuh?\|cpp\)' -not -path 'tests/data/*' 2>/dev/null | sort)
mapfile -t h_files < <(printf '%s\n' "${c_files[@]}" | grep '\.h$')
mapfile -t texts < <(find CMakeLists.txt tests jobs inputs packaging .ci -type f \
  \( -name CMakeLists.txt -o -name '*.sh' -o -name '*.sbatch' -o -name '*.yaml' -o -name '*.py' -o -name '*.awk' -o -name '*.bash' -o -name '*.def' -o -path '.ci/run' \) \
  -not -path 'tests/data/*' 2>/dev/null | sort)

# Checks single lines of C for first lines, licences, columns, macros, includes and calls that end the process. Tables come in as
# text.
check_lines() {
  awk -v license="/* $license */" -v libraries="$libraries" -v switches="$switches" -v enders="$enders" "$c_lines"'
  function bad(line, what) { printf "%s:%d: %s\n", FILENAME, line, what }
  function to_regex(glob) { gsub(/\./, "\\.", glob); gsub(/\*/, ".*", glob); return "^(" glob ")$" }
  function first_line(   name) {
    name = FILENAME; sub(/.*\//, "", name)
    if (index($0, "/* " name " - ") != 1) bad(1, "the first line is not \"/* " name " - its one job. */\"")
  }
  function is_guard() { return FILENAME ~ /\.(h|cuh)$/ && $0 ~ /^#ifndef TRI_[A-Z0-9_]+_(H|CUH)$/ }
  function check_include(name,   i) {
    if (name ~ /(^|\/)\.\.\//) { bad(FNR, name " has .. in it; folders are named from src and from the root"); return }
    if (resolve(name, FILENAME) != "") return
    for (i = 1; i <= n_library; i++)
      if (name ~ library_name[i] && FILENAME !~ library_glob[i])
        bad(FNR, name " belongs to other files (table `libraries` of tests/lint.sh)")
    if ($0 !~ /</ && !in_tests && !(FILENAME ~ /^gpu\// && name ~ stand_in))
      bad(FNR, name " is not there, as seen from src and from the root")
  }
  function check_switches(code,   s) {
    while (match(code, /TRI_HAVE_[A-Z0-9_]+/)) {
      s = substr(code, RSTART, RLENGTH); code = substr(code, RSTART + RLENGTH)
      if (!(s in switch_glob) || FILENAME !~ switch_glob[s])
        bad(FNR, s " is asked in another file (table `switches` of tests/lint.sh)")
    }
  }
  BEGIN {
    # found in tests/emulate by the emulated build
    stand_in = "^(emulate\\.cuh|impl\\.cuh|cuda_runtime_api\\.h|cublasLt\\.h|nccl\\.h)$"
    for (i = 1; i < ARGC; i++) is_file[ARGV[i]] = 1
    n = split(libraries, row, "\n")
    for (i = 1; i <= n; i++)
      if (split(row[i], f, " ") == 2) {
        library_name[++n_library] = "(^|/)" substr(to_regex(f[1]), 2)
        library_glob[n_library] = to_regex(f[2])
      }
    n = split(switches, row, "\n")
    for (i = 1; i <= n; i++) if (split(row[i], f, " ") == 2) switch_glob[f[1]] = to_regex(f[2])
    may_end = to_regex(enders)
  }
  FNR == 1 { in_comment = unformatted = 0; in_tests = FILENAME ~ /^tests\//; has_line[FILENAME] = 1; first_line() }
  $0 == license { licensed[FILENAME] = 1 }
  /clang-format off/ { unformatted = 1 }
  length($0) > 110 && !unformatted { bad(FNR, "a line of " length($0) " columns; 110 is the limit") }
  /clang-format on/ { unformatted = 0 }
  /TODO|FIXME/ && !/#[0-9]+/ { bad(FNR, "TODO without an issue number") }
  /^[ *]*\*\/ *$/ { bad(FNR, "the comment ends on a line of its own, not beside its last word") }
  { code = bare($0); name = included($0) }
  code ~ /^ *# *(el)?ifn?def +TRI_/ && !is_guard() || code ~ /(^|[^A-Za-z0-9_])defined *\(? *TRI_/ {
    bad(FNR, "macros are 0 or 1 and tested with #if")
  }
  code ~ /TRI_HAVE_/ { check_switches(code) }
  name != "" { check_include(name) }
  code ~ /(^|[^A-Za-z0-9_])(exit|_exit|_Exit|quick_exit|abort) *\(/ && !in_tests && FILENAME !~ may_end {
    bad(FNR, "only main() ends the process")
  }
  END {
    for (i = 1; i < ARGC; i++)
      if (!(ARGV[i] in has_line)) printf "%s:1: an empty file\n", ARGV[i]
      else if (!(ARGV[i] in licensed)) printf "%s:1: no line \"%s\"\n", ARGV[i], license
  }' "${c_files[@]}"
}

# Checks that comments tell if a function is collective. This holds for each function in a header that takes a communicator, or
# that may fail and could have one. Its comment needs a sentence beginning with Collective, Not collective or Pure. A comment
# holds for the declarations below it up to the next blank line or comment. A comment with "all that follow" holds for the
# paragraph below it, and at the head of a file for all functions of the file that take no communicator.
check_comments() {
  awk "$c_lines"'
  function says_it(text) { return text ~ /(^|[.:;!?)] +)(Collective|Not collective|Pure)([^a-z]|$)/ }
  function read_note(text) {
    if (text ~ /^\/\*/) { note = ""; in_note = 1 }
    if (!in_note) return
    in_note = text !~ /\*\//
    gsub(/^(\/\*| \*)? *|\*\/.*/, "", text)
    note = note (note == "" ? "" : " ") text
    if (!in_note && note ~ /all that follow/) { section = says_it(note); declared = 0; if (FNR == head) whole = section }
  }
  function judge(text) {
    if (text !~ /\(/ || text ~ /^ *typedef /) return
    declared = 1
    if ((whole && text !~ /\((.*[^A-Za-z0-9_])?tri_comm *\*/) || section || says_it(note)) return
    if (text ~ /\((.*[^A-Za-z0-9_])?tri_comm *\*/) at_once[++n_silent] = 1
    else if (text !~ /(^|[^A-Za-z0-9_])TRI_CHECKED[^A-Za-z0-9_]/) return
    else n_silent++
    silent[n_silent] = FILENAME; silent_line[n_silent] = said_at
  }
  function read_code(code,   c) {
    for (;;) {
      if (said ~ /^ *$/) said_at = FNR
      if (!match(code, /[{};]/)) break
      c = substr(code, RSTART, 1); said = said substr(code, 1, RSTART - 1); code = substr(code, RSTART + 1)
      if (depth == 0 && c != "}") judge(said)
      if (c == "{" && said !~ /extern *"" *$/) depth++
      if (c == "}" && depth) depth--
      said = ""
    }
    said = said code " "
  }
  function sees_comm(h,   list, n, i) { # can a function of this header take a communicator?
    if (h == "src/comm/comm.h") return 1
    if (h in seen) return seen[h]
    seen[h] = 0
    n = split(reaches[h], list, " ")
    for (i = 1; i <= n; i++) if (sees_comm(list[i])) seen[h] = 1
    return seen[h]
  }
  BEGIN { for (i = 1; i < ARGC; i++) is_file[ARGV[i]] = 1 }
  FNR == 1 { note = said = ""; head = 1; whole = section = depth = in_note = in_comment = goes_on = 0 }
  { read_note($0); code = bare($0); name = included($0) }
  in_note { head += FNR == head }
  /^ *$/ { note = ""; if (declared) section = 0 }
  name != "" { reaches[FILENAME] = reaches[FILENAME] " " resolve(name, FILENAME) }
  code !~ /^ *#/ && !goes_on { read_code(code) }
  { goes_on = (goes_on || code ~ /^ *#/) && code ~ /\\$/ }
  END {
    for (i = 1; i <= n_silent; i++)
      if (i in at_once || sees_comm(silent[i]))
        printf "%s:%d: its comment has no sentence that begins with Collective, Not collective or Pure\n",
          silent[i], silent_line[i]
  }' "${h_files[@]}"
}

# Checks scripts, decks and build files for "# name - job" in the first line, or the second after #!, and for the licence (not in
# decks).
check_texts() {
  local f
  for f in "${texts[@]}"; do
    awk -v name="${f##*/}" -v path="$f" '
      NR == 1 && /^#!/ { next }
      { if (index($0, "# " name " - ") != 1 && index($0, "# " path " - ") != 1)
          printf "%s:%d: the first line is not \"# %s - its one job\"\n", path, NR, name
        exit }' "$f"
    [[ $f == *.yaml || $f == *.def ]] || grep -qxF "# $license" "$f" || echo "$f:1: no line \"# $license\""
    [[ $f == tests/lint*.sh ]] || awk -v path="$f" '/TODO|FIXME/ && !/#[0-9]+/ {
      printf "%s:%d: TODO without an issue number\n", path, NR }' "$f"
  done
}

# Checks that every header compiles alone, as C and, if the GPU code includes it, as C++.
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
      reason
    }
  done
  for h in $gpu_headers; do
    # shellcheck disable=SC2086
    printf '#include "%s"\n' "$h" | $CXX -x c++ -std=c++17 -pedantic $flags $TRI_CFLAGS - >"$out/log" 2>&1 || {
      echo "$h:1: does not compile as C++17:"
      reason
    }
  done
}

# Prints the compiler's output below the finding.
reason() {
  { grep -m 5 'error:' "$out/log" || head -n 5 "$out/log"; } | sed 's/^/  /'
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

# The files of the section "A step, file by file" of src/README.md. A name without a folder lies beside the one before it.
step_files() {
  awk '/^## /{ on = /A step, file by file/ } on && /^\| `/ { split($0, column, "|"); n = split(column[2], part, "`")
    for (i = 2; i <= n; i += 2) { if (part[i] ~ /\//) { dir = part[i]; sub(/[^\/]*$/, "", dir) } else part[i] = dir part[i]; print part[i] } }' src/README.md
}

# Checks that pairs of files agree. These are lists of test programs and the programs, sources read by a script and existing
# sources, the second block of README.md and .ci/run, and the files of a step in src/README.md and the sources.
check_pairs() {
  local module path second
  step_files | while read -r path; do
    [[ -f $path ]] || echo "src/README.md:1: a step passes $path, which is not there"
  done
  tr '\n' ' ' <tests/CMakeLists.txt | grep -oE 'set\(TRI_([A-Z]+_)*(RANKS_[a-z0-9_]+|MODULES [^)]*)' |
    sed 's/.*RANKS_//; s/.*MODULES //' | tr -s ' ' '\n' | while read -r module; do
    compgen -G "tests/*/test_$module.c" >/dev/null ||
      echo "tests/CMakeLists.txt:1: a list names $module, and there is no tests/*/test_$module.c"
  done
  sed -n "s/.*sources='\([^']*\)'.*/\1/p" tests/fuzz/seeds.sh | tr ' ' '\n' | while read -r path; do
    compgen -G "$path" >/dev/null || echo "tests/fuzz/seeds.sh:1: $path is not there"
  done
  second=$(awk '/^```/ { n++; next } n == 3' README.md)
  [[ -n $second && $second == "$(tail -n 1 .ci/run)" ]] ||
    echo ".ci/run:1: its last line is not the second block of README.md"
}

# Prints sizes as rows of kind, size and place, largest first of each kind. They are only for information and have no limit. The
# reader relies on clang-format's layout, with the closing brace at the margin. Members of a nested struct count for the outer
# one.
list_sizes() {
  {
    awk "$c_lines"'
    function row(kind, size, place) { printf "%s\t%d\t%s\n", kind, size, place }
    function end_of_file(   kind) {
      if (last == "") return
      kind = last ~ /^tests\// ? "lines of a test" : "lines of a file"
      row(kind, lines, last)
      if (kind == "lines of a test") return
      sub(/\.[a-z]+$/, "", last); if (last in counted) return
      counted[last] = 1; sub(/\/[^\/]*$/, "", last); sources[last]++
    }
    FNR == 1 { end_of_file(); last = FILENAME; inside = head = in_comment = 0 }
    { lines = FNR; code = bare($0); sub(/ +$/, "", code) }
    code ~ /^(extern ""|namespace.*) *\{$/ { next }
    !inside && (code ~ /^$|^ *#|[;}\\]$/ && code !~ /^\}/) { head = 0; next }
    !inside { if (!head) { head = FNR; text = "" } text = text " " code }
    !inside && head && code ~ /\{$/ {
      inside = "other"
      if (text ~ /\(/ && text !~ /= *\{$/) inside = "function"
      if (text ~ /^ *(typedef )?(struct|union)[^A-Za-z0-9_]/ && text !~ /\) *\{$/) inside = "struct"
      members = 0; next
    }
    code ~ /^\}/ {
      if (inside == "function") row("lines of a function", FNR - head + 1, FILENAME ":" head)
      if (inside == "struct") row("members of a struct", members, FILENAME ":" head)
      inside = head = 0
    }
    inside == "struct" && code !~ /^ *\}/ { while (gsub(/\([^()]*\)|\[[^\[\]]*\]/, "", code)); members += gsub(/[,;]/, "", code) }
    END { end_of_file(); for (room in sources) row("sources of a folder", sources[room], room) }' "${c_files[@]}"
    find ./*.md src io gpu jobs inputs packaging tests -name '*.md' -not -path 'tests/data/*' -exec wc -l {} + 2>/dev/null |
      awk '$2 != "total" { sub(/^\.\//, "", $2); printf "lines of a text\t%d\t%s\n", $1, $2 }'
    step_files | xargs cat README.md src/README.md 2>/dev/null | wc -l |
      awk '{ printf "lines of the first hour\t%d\tREADME.md, src/README.md and the files of a step in it\n", $1 }'
  } | sort -t$'\t' -k1,1 -k2,2nr -k3
}

check_rooms() {
  tests/rooms.sh --check
}

if [[ ${1-} == --sizes ]]; then
  list_sizes
  exit
fi
if [[ $# == 0 ]]; then
  set -- rooms lines comments texts headers layout pairs
  echo "sizes, the largest of each kind (tests/lint.sh --sizes lists all):"
  list_sizes | awk -F'\t' '{ if ($1 != kind) { if (kind != "") print ""; printf "  %-24s", $1; kind = $1; n = 0 }
    if (n++ < 3) printf "%6d %s", $2, $3 } END { print "" }'
fi
for check; do
  "check_$check"
done >"$out/all" 2>&1
if [[ -s $out/all ]]; then
  cat "$out/all"
  echo "lint: $(grep -cE '^[^ :]+:[0-9]+: ' "$out/all") findings in ${#c_files[@]} C files and ${#texts[@]} others"
  exit 1
fi
echo "lint: ${#c_files[@]} C files and ${#texts[@]} others, nothing found"
