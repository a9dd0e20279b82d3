#!/usr/bin/env bash
# symbols.sh - checks that all names a built room exports are tri_... or main, and that each is defined once.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/symbols.sh LIBRARY...   reads archives or objects. It prints each other name with its file and nm's letter, and each
#                               name defined by two of them. A linker silently takes the first of two. A kernel missing in
#                               src/cpu/kernels/kernel_names.h would thus be another processor's. It exits with 1 if it
#                               printed a name. Names from compilers are ignored. They begin with __, have a dot, or are
#                               weak names of C++ templates.
# NM                            the program to use
set -uo pipefail
names=$("${NM:-nm}" -g --defined-only -A "$@") || exit 1
[[ -n $names ]] || { echo "symbols.sh: no names in $*" && exit 1; }
awk 'NF < 2 || $NF ~ /^__|[.]/ || $(NF - 1) ~ /[VW]/ && $NF ~ /^(_Z|DW)/ { next }
  /./ && $NF !~ /^tri_|^main$/ { print $1, $NF, "(" $(NF - 1) "): neither static nor called tri_..."; bad = 1; next }
  $NF in defined { print $1, $NF, "(" $(NF - 1) "): defined by", defined[$NF], "too"; bad = 1; next }
  { defined[$NF] = $1 }
  END { exit bad }' <<<"$names"
