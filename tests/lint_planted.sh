#!/usr/bin/env bash
# lint_planted.sh - plants one fault at a time in a copy of the tree and insists that lint names it, and nothing else.
#
# tests/lint_planted.sh    from anywhere; prints what lint missed or named wrongly, exits 1 if anything was printed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
copy=$work/copy
mkdir "$work/tree" && tar -c --exclude=tests/data src io gpu tests CMakeLists.txt README.md | tar -x -C "$work/tree" || exit 1
planted=0 missed=0

# An unspoilt tree in $copy.
renew() {
  rm -rf "$copy"
  cp -r "$work/tree" "$copy"
}

# Appends lines to a file of an unspoilt tree, a new file where it is not there; $line is where they begin.
plant() { # file, text
  renew
  [[ -f $copy/$1 ]] || echo "/* ${1##*/} - planted. */" >"$copy/$1"
  line=$(($(wc -l <"$copy/$1") + 1))
  printf '%s\n' "$2" >>"$copy/$1"
}

# Lines of text with a number in place of every %.
repeat() { # text, times
  local i
  for ((i = 0; i < $2; i++)); do echo "${1//%/$i}"; done
}

# What a check of the spoilt tree says, but for its sum.
said() {
  "$copy/tests/lint.sh" "$1" | grep -v '^lint: '
}

names() { # check, how its only finding begins
  local found
  found=$(said "$1")
  planted=$((planted + 1))
  if [[ $found != "$2"* || $found == *$'\n'* ]]; then
    missed=$((missed + 1))
    echo "lint.sh $1 says \"$found\", not \"$2\""
  fi
}

passes() { # check
  local found
  found=$(said "$1")
  planted=$((planted + 1))
  if [[ -n $found ]]; then
    missed=$((missed + 1))
    echo "lint.sh $1 says \"$found\" of what is right"
  fi
}

renew
passes rooms
passes lines

plant src/base/hash.c '#include "commands/flags.h"'
names rooms "src/base/hash.c:$line: includes a header of src/commands "

plant src/base/hash.c 'static void planted(void) { tri_runtime_open(0, 0, 0); }'
names rooms "src/base/hash.c:$line: uses tri_runtime_open of src/comm "

# io/text uses src/base: now each uses the other.
plant src/base/hash.c '#include "io/text/deck.h"'
names rooms "src/base/hash.c:$line: includes a header of io/text "

plant src/main.c '#include "io/tokenizer/tokenizer_impl.h"'
names rooms "src/main.c:$line: io/tokenizer/tokenizer_impl.h is private to its room"

plant src/model/model.h '#include "decoder.h"'
names rooms "src/model/model.h:$line: src/model/decoder.h is private to its room"

plant src/main.c 'static void planted(void) { tri_tok_reset(0); }'
names rooms "src/main.c:$line: tri_tok_reset is declared in io/tokenizer/tokenizer_impl.h"

plant src/base/hash.c '#include <commands/flags.h>'
names rooms "src/base/hash.c:$line: includes a header of src/commands "

# A definition whose type stands on a line of its own; a variable; both used from below.
plant src/train/train.c "$(printf 'int\ntri_planted(void) { return 1; }\nint tri_planted_too;')"
echo 'static int planted(void) { return tri_planted(); }' >>"$copy/src/base/hash.c"
names rooms "src/base/hash.c:$(wc -l <"$copy/src/base/hash.c"): uses tri_planted of src/train "
sed -i '$d' "$copy/src/base/hash.c"
echo 'static int planted(void) { return tri_planted_too; }' >>"$copy/src/base/hash.c"
names rooms "src/base/hash.c:$(wc -l <"$copy/src/base/hash.c"): uses tri_planted_too of src/train "

plant src/comm/comm.c 'static const tri_backend *planted(void) { return tri_backends; }'
names rooms "src/comm/comm.c:$line: uses tri_backends of src "

renew
for ((n = $(find "$copy/src/rollout" -name '*.[ch]' | sed 's/\.[ch]$//' | sort -u | wc -l); n < 15; n++)); do
  echo "/* planted_$n.c - planted. */" >"$copy/src/rollout/planted_$n.c"
done
passes rooms
echo '/* planted_15.c - planted. */' >"$copy/src/rollout/planted_15.c"
names rooms 'src/rollout:1: 16 sources in one room'

plant src/rollout/planted_a.c 'int tri_planted_a(void) { return tri_planted_b(); }'
echo '/* planted_b.c - planted. */
int tri_planted_b(void) { return tri_planted_a(); }' >"$copy/src/rollout/planted_b.c"
names rooms 'src/rollout/planted_a.c:1: calls in a circle: src/rollout/planted_a.c src/rollout/planted_b.c'

plant src/rollout/planted.c "$(repeat 'int planted_%;' 499)"
passes lines
plant src/rollout/planted.c "$(repeat 'int planted_%;' 500)"
names lines 'src/rollout/planted.c:501: file of 501 lines'

plant src/base/hash.c "$(echo 'static void planted(void) {'; repeat '  planted();' 98; echo '}')"
passes lines
plant src/base/hash.c "$(echo 'static void planted(void) {'; repeat '  planted();' 99; echo '}')"
names lines "src/base/hash.c:$line: function of 101 lines"

plant src/base/hash.h "$(echo 'struct planted {'; repeat '  int *a%, b%[2];' 12; echo '};')"
passes lines
plant src/base/hash.h "$(echo 'struct planted {'; repeat '  int *a%, b%[2];' 12; echo '  int c;'; echo '};')"
names lines "src/base/hash.h:$line: struct of 25 members"
plant src/base/hash.h "$(echo 'struct planted {'; repeat '  int (*call_%)(int a, int b);' 25; echo '};')"
passes lines

plant src/base/hash.h "$(echo 'struct __attribute__((aligned(8))) planted {'; repeat '  int *a%, b%[2];' 12; echo '  int c;'; echo '};')"
names lines "src/base/hash.h:$line: struct of 25 members"
plant src/base/hash.h "$(echo 'struct planted {'; echo '  struct {'; repeat '    int a%;' 24; echo '  };'; echo '  int c;'; echo '};')"
names lines "src/base/hash.h:$line: struct of 25 members"

plant src/base/hash.c 'void planted(void) {}'
names lines "src/base/hash.c:$line: the function planted is neither static nor called tri_"
plant src/state/params.h "$(echo '/* Planted. */'; echo 'TRI_CHECKED tri_status tri_planted(tri_comm *c);')"
names lines "src/state/params.h:$((line + 1)): its comment does not say Collective"

if ((missed)); then
  echo "lint_planted: $missed of $planted planted trees judged wrongly"
  exit 1
fi
echo "lint_planted: $planted planted trees, each judged right"
