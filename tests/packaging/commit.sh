#!/bin/bash
# commit.sh - tests the commit recorded by a build of a clean tree, a changed tree, a source package, and a tree without any. Judge: git.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/packaging/commit.sh CMAKE    exits 77 without git
set -eu
cmake=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
command -v git >/dev/null || exit 77
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-commit.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "commit: $*"; exit 1; }
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE

says() { # tree, the commit in its build
  "$cmake" -DROOT="$1" -DOUT="$dir/commit.c" -P "$here/packaging/commit.cmake" || fail "$1: an error"
  got=$(sed -n 's/^const char tri_about_commit\[\] = "\(.*\)";$/\1/p' "$dir/commit.c")
  grep -q '^const char tri_about_commit' "$dir/commit.c" && [ "$got" = "$2" ] || fail "$1: '$got', not '$2'"
}

mkdir -p "$dir/tree/sub" "$dir/plain"
cd "$dir/tree"
git init -q
echo one >file
echo two >sub/file
git add .
git -c user.name=n -c user.email=e@e commit -q -m first
git tag v9
hash=$(git rev-parse HEAD | cut -c 1-12)
says "$dir/tree" "$hash"
before=$(stat -c %Y.%i "$dir/commit.c") && touch -d '2001-01-01' "$dir/commit.c" && before=$(stat -c %Y "$dir/commit.c")
says "$dir/tree" "$hash"
[ "$(stat -c %Y "$dir/commit.c")" = "$before" ] || fail "the same commit is written again"
echo three >file
says "$dir/tree" "$hash+"
says "$dir/tree/sub" "" # a folder in another's repository
echo "$hash" >"$dir/tree/sub/COMMIT"
says "$dir/tree/sub" "$hash" # as for a source package unpacked there
says "$dir/plain" ""
echo "\"; system(\"x" >"$dir/plain/COMMIT"
says "$dir/plain" ""
echo "commit: clean, changed, unpacked, none"
