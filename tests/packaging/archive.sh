#!/bin/bash
# archive.sh - tests cpack's archives. The unpacked and moved program runs and reads a deck. The source archive has the files of git.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/packaging/archive.sh BUILD CMAKE    Judges: tar, git, the installed module tools.
set -eu
build=$1 cmake=$2
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-archive.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "archive: $*"; exit 1; }
version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\) .*/\1/p' "$here/CMakeLists.txt")
[ -n "$version" ] || fail "CMakeLists.txt has no version"
flavour=$(sed -n 's/^TRI_FLAVOUR:STRING=//p' "$build/CMakeCache.txt")
module=$version${flavour:+-$flavour}

pack() { # CPACK'S FILE, NAME. Sets $archive to the archive's path, and unpacks it in $dir/$2
  "$(dirname "$cmake")/cpack" --config "$build/$1" -B "$dir/packed" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "$1: cpack"; }
  ! grep -iE 'warning|error' "$dir/log" || fail "$1: cpack warns"
  archive=$(sed -n 's/^CPack: - package: \(.*\) generated\.$/\1/p' "$dir/log")
  (cd "$(dirname "$archive")" && sha256sum --quiet -c "$archive.sha256") || fail "$1: the checksum is not the archive's"
  mkdir "$dir/$2"
  tar -xzf "$archive" -C "$dir/$2"
}

# The program is one folder, works in any place, and no file in it names that place.
pack CPackConfig.cmake unpacked
name=$(basename "$archive" .tar.gz)
case $name in trireme-"$version"-*) ;; *) fail "an archive called $name" ;; esac
[ "$(ls "$dir/unpacked")" = "$name" ] || fail "it holds $(ls "$dir/unpacked")"
prefix="$dir/another place"
mv "$dir/unpacked/$name" "$prefix"
for file in bin/trireme include/trireme_reward.h share/man/man1/trireme.1 share/bash-completion/completions/trireme \
  share/modulefiles/trireme/"$module" share/lmod/trireme/"$module".lua share/trireme/MANIFEST share/doc/trireme/README.md share/doc/trireme/LICENSE \
  share/doc/trireme/CHANGELOG.md share/trireme/inputs/reference.yaml share/trireme/jobs/train.sbatch; do
  [ -s "$prefix/$file" ] || fail "it has no $file"
done
rm -rf "$dir/packed/_CPack_Packages"
! grep -rlF -e "$dir" -e "$build" -e "$here" "$prefix" || fail "these name folders of the build or of cpack"
"$prefix/bin/trireme" --version | grep -q "^trireme $version (" || fail "it says $("$prefix/bin/trireme" --version)"
cp -r "$here/tests/data/cli" "$dir/cli"
(cd "$dir/cli" && "$prefix/bin/trireme" train sft.yaml run.output=out --check) >"$dir/log" 2>&1 || { cat "$dir/log"; fail "--check"; }
[ ! -e "$dir/cli/out" ] || fail "--check wrote something"
grep -q "^## \[$version\]" "$prefix/share/doc/trireme/CHANGELOG.md" || fail "CHANGELOG.md has no $version"

# Its module files find it there.
check_module() { # name, folder of its files, a command to print shell code
  local name=$1 files=$2 said
  shift 2
  said=$(MODULEPATH="$prefix/share/$files" bash --norc -c 'eval "$("$@" load trireme)"; echo "$TRIREME"' sh "$@") ||
    fail "$name: loading fails"
  [ "$said" = "$prefix/bin/trireme" ] || fail "$name: TRIREME is '$said'"
  echo "archive: module by $name"
}
modules=$(ls /usr/lib/*/modulecmd.tcl /usr/share/modules/libexec/modulecmd.tcl 2>/dev/null | head -n 1 || true)
lmod=${LMOD_CMD:-$(ls /usr/share/lmod/*/libexec/lmod 2>/dev/null | head -n 1 || true)}
[ -z "$modules" ] || check_module "Environment Modules" modulefiles "$modules" bash
[ -z "$lmod" ] || check_module Lmod lmod "$lmod" bash

# Its list of files equals the archive, so it can be removed again.
(cd "$prefix" && find . -type f | sed 's|^\./||' | sort) | diff - <(sort "$prefix/share/trireme/MANIFEST") || fail "MANIFEST and the archive differ"
sh "$prefix/share/trireme/uninstall.sh" >"$dir/log" || { cat "$dir/log"; fail "uninstall.sh ends with $?"; }
[ ! -e "$prefix" ] || fail "uninstall.sh left $(find "$prefix")"

# The source archive builds the same commit, and has no built or ignored file.
pack CPackSourceConfig.cmake source
[ "$(ls "$dir/source")" = "trireme-$version" ] || fail "the source is $(ls "$dir/source")"
source=$dir/source/trireme-$version
(cd "$source" && find . -type f -o -type l) | sed 's|^\./||' | sort >"$dir/files"
! grep -E '^(build|out|\.git)[^/]*/' "$dir/files" || fail "the source has these"
for file in CMakeLists.txt CMakePresets.json LICENSE CHANGELOG.md src/main.c io/text/deck.c gpu/device_cuda.c tests/run.sh; do
  grep -qx "$file" "$dir/files" || fail "the source has no $file"
done
if top=$(git -C "$here" rev-parse --show-toplevel 2>/dev/null) && [ "$(realpath "$top")" = "$(realpath "$here")" ]; then
  (cd "$here" && { git ls-files --cached; echo COMMIT; } | sort) | while IFS= read -r file; do
    [ ! -e "$here/$file" ] && [ "$file" != COMMIT ] || echo "$file"
  done | diff - "$dir/files" || fail "the source is not what git tracks"
  grep -q "^$(git -C "$here" rev-parse HEAD | cut -c 1-12)" "$source/COMMIT" || fail "COMMIT says $(cat "$source/COMMIT")"
  "$cmake" -DROOT="$source" -DOUT="$dir/commit.c" -P "$source/packaging/commit.cmake"
  grep -qF "\"$(cat "$source/COMMIT")\"" "$dir/commit.c" || fail "a build of the source says: $(cat "$dir/commit.c")"
fi
for file in jobs/setup.sh tests/run.sh packaging/man.sh; do
  [ "$(stat -c %a "$source/$file")" = "$(stat -c %a "$here/$file")" ] || fail "$file has another mode"
done
echo "archive: $name and trireme-$version, unpacked"
