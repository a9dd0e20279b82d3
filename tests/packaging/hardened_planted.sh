#!/bin/bash
# hardened_planted.sh - checks that hardened.sh refuses each fault planted in a small program, and accepts the program without it.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/packaging/hardened_planted.sh CC BUILD    Judges: the planted faults; the loader, for the current folder.
set -eu
cc=$1 build=$2 here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-hardened.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "hardened_planted: $*"; exit 1; }
mkdir "$dir/open" "$dir/own" "$dir/run"
chmod 777 "$dir/open"
printf '#include <stdio.h>\n#include <string.h>\nint main(int n, char **v) { char b[64]; strcpy(b, v[n - 1]); return puts(b) < 0; }\n' >"$dir/c.c"

plant() { # "" or words of the fault's message, further options of the compiler
  local words=$1
  shift
  rm -f "$dir/run/trireme"
  # shellcheck disable=SC2086
  $cc -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE -pie -Wl,-z,relro,-z,now,-z,noexecstack \
    -Wl,-rpath,"$dir/own" "$@" -o "$dir/run/trireme" "$dir/c.c" 2>"$dir/log" || { cat "$dir/log"; fail "$*: not compiled"; }
  if bash "$here/hardened.sh" "$dir/run" "pie stack fortify" trireme >"$dir/out" 2>&1; then
    [ -z "$words" ] || fail "$*: taken"
  else
    [ -n "$words" ] || { cat "$dir/out"; fail "a program without a fault is refused"; }
    grep -qF -- "$words" "$dir/out" || { cat "$dir/out"; fail "$*: refused, but not as '$words'"; }
  fi
}
plant ""
plant "has an empty element" -Wl,-rpath,/usr/lib:
plant "has an empty element" -Wl,-rpath,/usr/lib::/lib
plant "depends on the current folder" -Wl,-rpath,lib
plant "depends on the current folder" -Wl,-rpath,.
plant "is not plain" -Wl,-rpath,"$dir/own/../open"
plant "other users can put files" -Wl,-rpath,"$dir/open"
plant "other users can put files" -Wl,-rpath,"$dir/open/later"
plant "other users can put files" -Wl,-rpath,/tmp/trireme-nobody-made-this
plant "has an empty element" -Wl,--disable-new-dtags,-rpath,/usr/lib: # DT_RPATH
plant "no RELRO" -Wl,-z,norelro
plant "no BIND_NOW" -Wl,-z,lazy
plant "its stack can be run" -Wl,-z,execstack
plant "no PIE" -fno-pie -no-pie
plant "not protected" -fno-stack-protector
plant "_FORTIFY_SOURCE" -U_FORTIFY_SOURCE
READELF=no-such-readelf bash "$here/hardened.sh" "$dir/run" "" trireme >"$dir/out" && fail "taken without readelf"
grep -q 'no-such-readelf is missing' "$dir/out" || fail "without readelf: $(cat "$dir/out")"

# Tests the loader itself. In a folder with a library of each name needed by the program, none of these libraries runs.
printf '#include <unistd.h>\n__attribute__((constructor)) static void f(void) { _exit(42); }\n' >"$dir/own/e.c"
$cc -shared -fPIC -o "$dir/own/e.so" "$dir/own/e.c"
mkdir "$dir/folder"
for name in $("${READELF:-readelf}" -d "$build/trireme" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'); do
  cp "$dir/own/e.so" "$dir/folder/$name"
done
(cd "$dir/folder" && env -u LD_LIBRARY_PATH "$build/trireme" --version >"$dir/out" 2>&1) ||
  fail "in a folder of planted libraries the program ends with $?: $(head -n 1 "$dir/out")"
echo "hardened_planted: each planted fault was refused"
