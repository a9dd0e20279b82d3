#!/bin/sh
# uninstall.sh - removes an installation: the files cmake --install put into this prefix, then folders left empty.
# SPDX-License-Identifier: BSD-3-Clause
#
# sh PREFIX/share/trireme/uninstall.sh    touches nothing else; MANIFEST beside this script lists the files
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
prefix=${here%/share/trireme}
[ "$prefix" != "$here" ] || { echo "uninstall.sh: $here is no PREFIX/share/trireme" >&2; exit 64; }
[ -f "$here/MANIFEST" ] || { echo "uninstall.sh: $here/MANIFEST is missing, so the installed files are unknown" >&2; exit 74; }
cd "$prefix"
while IFS= read -r path; do
  case /$path/ in
  //* | */../* | */./*) echo "uninstall.sh: nothing was removed: MANIFEST names '$path' outside of $prefix" >&2; exit 64 ;;
  esac
  folder=$(dirname "$path")
  [ ! -d "$folder" ] || [ -w "$folder" ] || {
    echo "uninstall.sh: nothing was removed: $prefix/$folder cannot be written. Run this script as the user who installed it" >&2
    exit 74
  }
done <share/trireme/MANIFEST

failed=0
list=$(cat share/trireme/MANIFEST)
while IFS= read -r path; do
  [ ! -e "$path" ] && [ ! -L "$path" ] || rm -f "$path" || failed=1
done <<END
$list
END
[ $failed = 0 ] || { echo "uninstall.sh: not all files of $prefix could be removed. Run this script as the user who installed them" >&2; exit 74; }
while IFS= read -r path; do
  while path=$(dirname "$path") && [ "$path" != . ]; do rmdir "$path" 2>/dev/null || break; done
done <<END
$list
END
cd /
rmdir "$prefix" 2>/dev/null || true
echo "uninstall.sh: removed trireme from $prefix"
