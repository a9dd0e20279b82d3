#!/usr/bin/env bash
# symbols.sh - what built rooms show to the linker is called tri_... or main.
#
# tests/symbols.sh LIBRARY...   archives or objects; prints each other name with its file and nm's letter, exits 1 if there
#                               was one. Compilers add names that begin with __ or have a dot, and weak ones of C++ templates.
# NM                            the program to use
set -uo pipefail
names=$("${NM:-nm}" -g --defined-only -A "$@") || exit 1
[[ -n $names ]] || { echo "symbols.sh: no names in $*" && exit 1; }
awk 'NF < 2 || $NF ~ /^(tri_|main$|__)|[.]/ || $(NF - 1) ~ /[VW]/ && $NF ~ /^(_Z|DW)/ { next }
  { print $1, $NF, "(" $(NF - 1) "): neither static nor called tri_..."; bad = 1 }
  END { exit bad }' <<<"$names"
