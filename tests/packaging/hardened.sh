#!/bin/bash
# hardened.sh - checks built programs and shared objects. No library may come from a folder writable for another user, and they must have
# the protections of compiler and linker.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/packaging/hardened.sh PATH "WISHES" MAIN   every ELF program and shared object in PATH (a folder or a file), also of tests
#   WISHES   a list of pie, stack, fortify, as far as this build's compiler has them. pie applies to every program, the others to
#            the programs called MAIN, because these are large enough to show them.
# Judges: readelf, the folders' modes. Prints each fault with its file and exits 1.
set -uo pipefail
readelf=${READELF:-readelf}
command -v "$readelf" >/dev/null || { echo "hardened: $readelf is missing (Debian: binutils)" && exit 1; }
wish=" ${2-} " main=${3-trireme} bad=0 seen=0
fault() { echo "$file: $*"; bad=1; }

# Succeeds if another user could put a file there. This is so if others can write to a folder on the way, unless the folder has
# the sticky bit and the next part of the path exists and belongs to root or this user.
open_to_others() { # FOLDER
  local at=/ next rest=${1#/} mode owner sticky=0
  while :; do
    if [ ! -d "$at" ]; then
      [ $sticky = 1 ] # missing in a folder writable for everybody
      return
    fi
    read -r mode owner < <(stat -L -c '%a %u' "$at")
    [ $sticky = 0 ] || [ "$owner" = 0 ] || [ "$owner" = "$(id -u)" ] || return 0
    sticky=0
    if [ $((8#$mode & 2)) != 0 ]; then
      [ $((8#$mode & 01000)) != 0 ] && [ -n "$rest" ] || return 0
      sticky=1
    fi
    [ -n "$rest" ] || return 1
    next=${rest%%/*} rest=${rest#"$next"} rest=${rest#/}
    at=${at%/}/$next
  done
}

declare -A open_of # a folder of a run path -> 1 if another user could put a file there, else 0. Many programs have the same ones.
check_path() { # a run path's text
  local element left=$1:
  while [ -n "$left" ]; do
    element=${left%%:*} left=${left#*:}
    case $element in
    '') fault "its run path '$1' has an empty element, which is the current folder" ;;
    /*/../* | /*/./* | /*/.. | /*/.) fault "its run path has '$element', which is not plain" ;;
    /*)
      [ -n "${open_of[$element]-}" ] || if open_to_others "$element"; then open_of[$element]=1; else open_of[$element]=0; fi
      [ "${open_of[$element]}" = 0 ] || fault "its run path has '$element', where other users can put files"
      ;;
    *) fault "its run path has '$element', which depends on the current folder" ;;
    esac
  done
}

check() {
  local text path name=${file##*/}
  text=$("$readelf" -W -h -l -d --dyn-syms "$file" 2>&1) || { fault "$readelf cannot read it"; return; }
  grep -qE '^ *Type: +(EXEC|DYN)' <<<"$text" || return 0 # an object of the compiler
  grep -q '^ *DYNAMIC ' <<<"$text" || { fault "it is not linked dynamically, so nothing here can be read from it"; return; }
  seen=$((seen + 1))
  while read -r path; do check_path "$path"; done < <(sed -nE 's/.*\((RUNPATH|RPATH)\).*\[(.*)\]$/\2/p' <<<"$text")
  grep -q '^ *GNU_RELRO ' <<<"$text" || fault "it has no RELRO"
  grep -qE '\(BIND_NOW\)|\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW' <<<"$text" || fault "its symbols are bound while it runs (no BIND_NOW)"
  grep -q '^ *GNU_STACK .* RW ' <<<"$text" || fault "its stack can be run"
  ! grep -q '(TEXTREL)' <<<"$text" || fault "its code is changed when it is loaded (TEXTREL)"
  if grep -q '^ *INTERP ' <<<"$text" && [[ $wish == *" pie "* ]]; then
    grep -qE '^ *Type: +DYN' <<<"$text" || fault "it stands at a fixed address (no PIE)"
  fi
  [ "$name" = "$main" ] || return 0
  [[ $wish != *" stack "* ]] || grep -q ' UND __stack_chk_fail' <<<"$text" || fault "its stack is not protected"
  [[ $wish != *" fortify "* ]] || grep -qE ' UND __[a-z]+_chk\b' <<<"$text" || fault "its copies are not checked (_FORTIFY_SOURCE)"
}

[ -e "$1" ] || { echo "hardened: there is no $1" && exit 1; }
while IFS= read -r -d '' file; do
  magic=''
  LC_ALL=C IFS= read -r -d '' -N 4 magic 2>/dev/null <"$file" || true
  [ "$magic" = $'\177ELF' ] && check
done < <(find -L "$1" \( -name CMakeFiles -o -path "*/work/*/seeds" \) -prune -o -name '*.o' -o -name '*.a' -o -type f -size +0 -print0)
[ $seen -gt 0 ] || { echo "hardened: no program in $1" && exit 1; }
[ $bad = 1 ] || echo "hardened: $seen programs and shared objects"
exit $bad
