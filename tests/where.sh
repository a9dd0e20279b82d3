#!/bin/sh
# where.sh - the functions, files and lines of a sanitizer's report: one for each (PROGRAM+0xADDRESS) that stands in it.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/where.sh FILE   what a test printed, or build/cpu-asan/ctest.log
set -eu
grep -hos '(/[^() ]*+0x[0-9a-f]*)' "$1" | sort -u | tr -d '()' | while IFS= read -r at; do
  printf '%s: %s\n' "$at" "$(addr2line -Cfpe "${at%+*}" "${at##*+}")"
done
