#!/usr/bin/env bash
# lint_planted.sh - plants faults in a copy of the tree and checks that lint names each of them, and nothing else.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/lint_planted.sh    runs from anywhere, prints the faults lint missed or named wrongly, and exits with 1 if there are any.
#
# Faults of one check share one tree. The order is plant and expect for each, then judge. A planted line without an expect
# must cause no finding.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tree=$work/tree copy=$work/copy
mkdir "$tree" || exit 1
tar -c --exclude=tests/data src io gpu tests jobs inputs .ci .clang-format CMakeLists.txt README.md | tar -x -C "$tree" &&
  cp -r "$tree" "$copy" || exit 1
touched=() expected=() planted=0 wrong=0

# Appends lines to a file of the copy, or makes a new file. $line is the first appended line.
plant() { # file, text
  touched+=("$1")
  mkdir -p "$copy/${1%/*}"
  [[ -f $copy/$1 ]] || printf '/* %s - planted. */\n/* SPDX-License-Identifier: BSD-3-Clause */\n' "${1##*/}" >"$copy/$1"
  line=$(($(wc -l <"$copy/$1") + 1))
  printf '%s\n' "$2" >>"$copy/$1"
  planted=$((planted + 1))
}

# Changes a file of the copy. $line is then the first changed line.
edit() { # file, sed commands
  touched+=("$1")
  sed -i "$2" "$copy/$1"
  line=$(cmp "$tree/$1" "$copy/$1" | awk '{ print $NF }')
  planted=$((planted + 1))
}

# Sets the beginning of a required finding at $line of the file of the last plant or edit.
expect() { # text
  expected+=("${touched[-1]}:$line: $1")
}

# Lines of text with a number in place of every %.
repeat() { # text, times
  local i
  for ((i = 0; i < $2; i++)); do echo "${1//%/$i}"; done
}

# A text of several lines.
lines() {
  printf '%s\n' "$@"
}

complain() {
  wrong=$((wrong + 1))
  echo "lint_planted: $*"
}

# Compares the findings of a check on the copy with the expected ones, and clears the copy.
judge() { # check
  local found want f i
  mapfile -t found < <("$copy/tests/lint.sh" "$1" | grep -v -e '^lint: ' -e '^ ')
  for want in "${expected[@]}"; do
    for i in "${!found[@]}"; do
      [[ ${found[i]} == "$want"* ]] && unset "found[$i]" && continue 2
    done
    complain "lint.sh $1 does not say \"$want\""
  done
  for f in "${found[@]}"; do complain "lint.sh $1 says \"$f\""; done
  for f in "${touched[@]}"; do
    cp "$tree/$f" "$copy/$f" 2>/dev/null || rm -f "$copy/$f"
  done
  touched=() expected=()
}

# ---- rooms, their arrows and private headers ----
up() { # a definition in a high room, a use of the name in a low one
  plant src/commands/command_plan.c "$1"
  plant src/base/hash.c "$2"
  expect 'uses tri_planted'
}
plant src/base/hash.c '#include "commands/commands.h"'
expect 'includes a header of src/commands '
plant src/base/hash.c '#include <run/run.h>'
expect 'includes a header of src/run '
plant src/base/hash.c '#include "io/text/deck.h"' # io/text uses src/base: now each uses the other
expect 'includes a header of io/text '
plant src/train/train.c '#include "tools/plan/plan.h"'
expect 'includes a header of src/tools/plan, which is a tool'
plant io/model/hint.c 'static bool planted(void) { return tri_history_open(0, 0); }'
expect 'uses tri_history_open of src/tools/history, which is a tool'
plant src/tools/look/look.c '#include "machine/machine.h"'
expect 'includes a header of src/machine (the row of src/tools/look '
plant src/base/hash.c 'static void planted(void) { tri_runtime_open(0, 0, 0); }'
expect 'uses tri_runtime_open of src/comm '
up "$(lines int 'tri_planted(void) { return 1; }')" 'static int planted(void) { return tri_planted(); }'
up 'int tri_planted_1;' 'static int planted_1(void) { return tri_planted_1; }'
up 'FILE *tri_planted_2(void) { return 0; }' 'static void *planted_2(void) { return tri_planted_2(); }'
up 'TRI_WEAK int tri_planted_3(void) { return 0; }' 'static int planted_3(void) { return (tri_planted_3)(); }'
plant src/comm/comm.c 'static const tri_backend *planted(void) { return tri_backends; }'
expect 'uses tri_backends of src '
plant src/main.c '#include "io/tokenizer/tokenizer_impl.h"'
expect 'io/tokenizer/tokenizer_impl.h is private to its room'
plant src/model/model.h '#include "decoder.h"'
expect 'src/model/decoder.h is private to its room, and this header is not'
plant src/main.c 'static void planted(void) { tri_tok_reset(0); }'
expect 'tri_tok_reset is declared in io/tokenizer/tokenizer_impl.h'
plant io/tokenizer/tokenizer_impl.h 'extern int tri_tok_planted;'
plant src/main.c 'static int *planted(void) { return &tri_tok_planted; }'
expect 'tri_tok_planted is declared in io/tokenizer/tokenizer_impl.h'
edit src/tools/look/terminal.h 's/Private to its room/Private to its folder/'
expect 'a private header has the words "Private to its room."'
judge rooms

# ---- rooms, the rows of CMakeLists.txt, circles and the map ----
plant src/run/planted_b.c 'int tri_planted_b(void) { return (tri_planted_a)(); }'
plant src/run/planted_a.c 'int tri_planted_a(void) { return tri_planted_b(); }'
line=1
expect 'calls in a circle: src/run/planted_a.c src/run/planted_b.c'
plant src/attic/attic.c ''
line=1
expect 'CMakeLists.txt has no row room(src/attic '
row() { # room, sed commands for CMakeLists.txt. $line is then the line of the room's row.
  edit CMakeLists.txt "$2"
  line=$(grep -n "^room($1 " "$copy/CMakeLists.txt" | cut -d: -f1)
}
edit CMakeLists.txt '/^room(src.family /d'
expected+=('src/family/family.c:1: CMakeLists.txt has no row room(src/family ')
plant src/planted/planted.c '#include "base/error.h"'
row src/planted '/^room(src.staging /i room(src/planted "Holds what is planted." src/base)'
expect 'no training step needs src/planted'
row io/data '/^room(io.data /s|)$| src/machine)|'
expect 'io/data names src/machine, which it does not use'
row src/staging '/^room(src.staging /s|)$| src/train)|'
expect 'src/staging names src/train, whose row does not stand above'
row src/metric '/^room(src.metric /s|Lists|lists|'
expect 'the job of src/metric is not a sentence'
edit CMakeLists.txt '/^room(src.report /{n;s|src/rollout ||}'
expected+=("src/report/trend.h:$(grep -n rollout.h src/report/trend.h | cut -d: -f1): includes a header of src/rollout (the row of src/report ")
edit src/README.md 's/| Runs the training loop/& planted/'
line=$(grep -n '^<!-- made by' src/README.md | cut -d: -f1)
expect 'the map is not what'
judge rooms

# ---- lines ----
wide=$(printf 'x%.0s' {1..111})
plant tests/base/test_base.c "/* ${wide:6} */"
expect 'a line of 111 columns'
plant src/base/hash.c "int $wide;"
expect 'a line of 116 columns'
plant src/base/hash.c "$(lines '/* clang-format off */' "int $wide;" '/* clang-format on */')"
plant src/base/hash.c '/* TODO: planted */'
expect 'TODO without an issue number'
plant src/base/hash.c '/* TODO (#12): planted */'
plant src/base/hash.c "$(lines '/* Planted.' ' */')"
line=$((line + 1))
expect 'the comment ends on a line of its own'
for text in '#ifdef TRI_DEBUG' '#ifndef TRI_DEBUG' '#if defined(TRI_DEBUG)' '#if !defined TRI_DEBUG' '#elif defined(TRI_DEBUG)' \
  '#ifndef TRI_PLANTED_H'; do
  plant src/base/hash.c "$text"
  expect 'macros are 0 or 1'
done
plant src/base/planted.h '#ifndef TRI_PLANTED_H'
for text in '#if TRI_HAVE_CUDA' '#elif TRI_HAVE_PMIX' '  TRI_HAVE_NCCL' 'int tri_planted(void) { return TRI_HAVE_ONEDNN; }' \
  '#if TRI_HAVE_PLANTED'; do
  plant src/base/hash.c "$text"
  expect TRI_HAVE_
done
plant src/base/hash.c '/* as TRI_HAVE_CUDA says */'
for text in '<mpi.h>' '<openmpi/mpi.h>' '<jansson.h>' '<hdf5.h>' '<yaml.h>' '<cuda_runtime_api.h>'; do
  plant src/base/hash.c "#include $text"
  expect "${text:1:-1} belongs to other files"
done
plant src/base/hash.c '#include "../base/text.h"'
expect '../base/text.h has .. in it'
plant src/base/hash.c '#include "planted_nowhere.h"'
expect 'planted_nowhere.h is not there'
for text in 'exit(1);' '_Exit(1);' 'quick_exit(1);' '  abort();'; do
  plant src/base/hash.c "$text"
  expect 'only main() ends the process'
  plant gpu/layers/layers.cu "$text"
  expect 'only main() ends the process'
  plant tests/base/test_base.c "$text"
done
plant src/base/hash.c '#define QUOTED "exit(1); TRI_HAVE_CUDA" /* exit(1) */'
edit src/base/live.c '1s/.*/int planted;/'
expect 'the first line is not'
plant src/base/planted_empty.c ''
: >"$copy/src/base/planted_empty.c"
line=1
expect 'an empty file'
edit src/base/hash.h '/SPDX-License/d'
line=1
expect 'no line "/* SPDX-License-Identifier: BSD-3-Clause */"'
plant src/base/planted_licence.c ''
sed -i 2d "$copy/src/base/planted_licence.c"
line=1
expect 'no line'
judge lines

# ---- sizes, figures without findings ----
plant src/base/planted.c "$(lines 'static void' 'planted(int a,' '             int b) {' && repeat '  planted();' 996 && lines '}')"
plant src/base/planted.h "$(lines 'typedef struct planted {' && repeat '  int *a%, b%[2]; /* of x, y; z */' 500 &&
  lines '  int (*call)(int a, int b);' '} planted;')"
sizes=$("$copy/tests/lint.sh" --sizes)
for want in "lines of a file	1002	src/base/planted.c" "lines of a function	1000	src/base/planted.c:3" \
  "members of a struct	1001	src/base/planted.h:3"; do
  [[ $sizes == *"$want"* ]] || complain "lint.sh --sizes does not say \"$want\""
done
judge lines

# ---- comments ----
declare() { # header, lines. The declaration begins in the last but one.
  plant "$1" "$(lines '' "${@:2}")"
  line=$((line + $# - 1))
}
silent='its comment has no sentence that begins with'
for header in src/comm/comm.h src/comm/comm_host.h src/report/span.h src/state/params.h; do
  declare $header '/* Planted. */' 'TRI_CHECKED tri_status tri_planted(int a);'
  expect "$silent"
done
# A head with "all that follow" does not speak for a function that takes a communicator.
declare src/comm/comm_maker.h '/* Planted. */' 'void tri_planted(tri_comm *c);'
expect "$silent"
for text in 'void tri_planted(tri_comm *c);' 'tri_status tri_planted(int a, const tri_comm *c);' \
  'extern TRI_CHECKED tri_status tri_planted(tri_comm *c);' 'static inline int tri_planted(tri_comm *c) { return 1; }'; do
  declare src/state/params.h '/* The collective wisdom, not collective. */' "$text"
  expect "$silent"
  for says in 'Collective over c.' 'Planted. Not collective.' 'Pure.'; do
    declare src/state/params.h "/* $says */" "$text"
  done
done
declare src/state/params.h '/* Planted. */' 'TRI_CHECKED tri_status tri_planted(int a,' '                    int b);'
line=$((line - 1))
expect "$silent"
declare src/state/params.h '/* Not collective, all that follow. */' '' '/* Planted. */' 'void tri_planted(tri_comm *c);'
declare src/state/params.h '/* Planted. */' 'void tri_planted(tri_comm *c);'
expect "$silent"
declare src/base/hash.h '/* Planted. */' 'TRI_CHECKED tri_status tri_planted(int a);' # sees no communicator
plant src/base/planted.h "$(lines '#include <comm/comm.h>' 'TRI_CHECKED tri_status tri_planted(int a);')"
line=$((line + 1))
expect "$silent"
judge comments

# ---- the rest ----
for text in jobs/planted.sh jobs/planted.awk tests/base/CMakeLists.txt inputs/planted.yaml; do
  plant $text '# TODO: planted'
  expect 'TODO without an issue number'
  line=1
  expect 'the first line is not'
  [[ $text == *.yaml ]] || expect 'no line "# SPDX-License-Identifier: BSD-3-Clause"'
done
judge texts

plant src/base/planted.h 'planted_type planted;'
line=1
expect 'does not compile alone as C11'
plant gpu/gemm/gemm_rows.h 'static inline int tri_planted(int class) { return class; }'
line=1
expect 'does not compile as C++17'
judge headers

plant src/base/hash.c 'int  tri_planted;'
expect 'layout: 1 places differ'
judge layout

line=1
for text in 'set(TRI_RANKS_planted 1)' 'set(TRI_EMULATED_RANKS_planted 1)' 'set(TRI_DEVICE_MODULES comm planted)' \
  "$(lines 'set(TRI_ANY_DEVICE_MODULES comm' '  planted)')"; do
  plant tests/CMakeLists.txt "$text"
  line=1
  expect 'a list names planted, and there is no tests/*/test_planted.c'
done
edit tests/fuzz/seeds.sh 's|io/text/deck\.c src|io/text/planted*.c src|'
line=1
expect 'io/text/planted*.c is not there'
edit .ci/run '$s/$/ planted/'
line=1
expect 'its last line is not the second block of README.md'
edit src/README.md "/^| .src\/model\/decoder_bwd.c/i | \`src/base/planted.c\` | | |"
line=1
expect 'a step passes src/base/planted.c, which is not there'
judge pairs

# ---- symbols.sh, on the compiled objects of a room ----
echo 'struct stat *planted(void); struct stat *planted(void) { return 0; } int planted_too; int tri_planted; static int own = 1;
  int *tri_own(void); int *tri_own(void) { return &own; }' | "${CC:-cc}" -x c -c -o "$work/planted.o" - || exit 1
said=$(tests/symbols.sh "$work/planted.o")
[[ $(wc -l <<<"$said") == 2 && $said == *' planted ('*' planted_too ('* ]] || complain "symbols.sh says \"$said\""
planted=$((planted + 2))

if ((wrong)); then
  echo "lint_planted: $wrong wrong of $planted plants"
  exit 1
fi
echo "lint_planted: $planted plants, each judged right"
