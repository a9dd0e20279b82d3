#!/usr/bin/env bash
# symbols.sh - what built rooms show to the linker is called tri_... or main, and each name stands for one thing.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/symbols.sh LIBRARY...   archives or objects; prints each other name with its file and nm's letter, and each that two of
#                               them define, of which a linker silently takes the first: a kernel that src/cpu/kernels/kernel_names.h
#                               does not name would be that of another processor. Exits 1 if there was one. Compilers add
#                               names that begin with __ or have a dot, and weak ones of C++ templates.
# NM                            the program to use
set -uo pipefail
names=$("${NM:-nm}" -g --defined-only -A "$@") || exit 1
[[ -n $names ]] || { echo "symbols.sh: no names in $*" && exit 1; }
awk 'NF < 2 || $NF ~ /^__|[.]/ || $(NF - 1) ~ /[VW]/ && $NF ~ /^(_Z|DW)/ { next }
  /./ && $NF !~ /^tri_|^main$/ { print $1, $NF, "(" $(NF - 1) "): neither static nor called tri_..."; bad = 1; next }
  $NF in defined { print $1, $NF, "(" $(NF - 1) "): defined by", defined[$NF], "too"; bad = 1; next }
  { defined[$NF] = $1 }
  END { exit bad }' <<<"$names"
