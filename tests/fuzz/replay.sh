#!/usr/bin/env bash
# replay.sh - runs a harness once on each of its seeds and of its earlier finds. Arguments are PROGRAM HARNESS.
# SPDX-License-Identifier: BSD-3-Clause
set -euo pipefail
shopt -s nullglob
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(dirname "${BASH_SOURCE[0]}")
"$here/seeds.sh" "$2" "$work"
# A sanitizer has a limit of its own (ASAN_OPTIONS), and takes terabytes of addresses.
grep -q __asan_init "$1" || ulimit -v $((512 << 10))
"$1" "$work"/seeds/* "$here/repro/$2"/*
