#!/bin/sh
# where.sh - prints the function, file and line of each (PROGRAM+0xADDRESS) in a sanitizer's report.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/where.sh FILE   reads the output of a test, or build/cpu-asan/ctest.log.
set -eu
grep -hos '(/[^() ]*+0x[0-9a-f]*)' "$1" | sort -u | tr -d '()' | while IFS= read -r at; do
  printf '%s: %s\n' "$at" "$(addr2line -Cfpe "${at%+*}" "${at##*+}")"
done
