#!/bin/bash
# install.sh - tests cmake --install in a temporary prefix: program, job files, module, man page, completion, pkg-config. Two versions
# stand side by side, another user uses them, and one is removed.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/packaging/install.sh BUILD CMAKE CC HARDENED    HARDENED are the arguments of hardened.sh. Judges: the tools for such files;
# for the man page, every --help; the file system.
set -eu
build=$1 cmake=$2 cc=$3 hardened=$4
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-install.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "install: $*"; exit 1; }
has() { command -v "$1" >/dev/null; }
prefix="$dir/a prefix" # Modules, pkg-config and Slurm's files must bear a space

# Only the installer may write. Others must be able to read, whatever the installer's umask.
umask 077
DESTDIR=$dir/stage "$cmake" --install "$build" --prefix /opt/trireme >"$dir/log" 2>&1 || { cat "$dir/log"; fail "with DESTDIR"; }
"$cmake" --install "$build" --prefix "$prefix" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "into a prefix"; }
umask 022
chmod 755 "$dir"
[ -z "$(find "$prefix" ! -perm -o=r -o -type d ! -perm -o=x -o -perm /go=w)" ] ||
  fail "others cannot read, or can write, $(find "$prefix" ! -perm -o=r -o -type d ! -perm -o=x -o -perm /go=w | head -n 3)"
# A checkout that its group may write gives the same modes.
cp -r "$here/jobs" "$dir/jobs"
chmod -R g+w "$dir/jobs"
sed "s|\"$here/jobs\"|\"$dir/jobs\"|" "$build/packaging/cmake_install.cmake" >"$dir/rules.cmake"
grep -qF "\"$dir/jobs\"" "$dir/rules.cmake" || fail "cmake_install.cmake does not install $here/jobs"
"$cmake" -D CMAKE_INSTALL_PREFIX="$dir/group" -P "$dir/rules.cmake" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "from a checkout for a group"; }
modes() { (cd "$1/share/trireme/jobs" && find . -printf '%m %p\n' | sort); }
diff <(modes "$prefix") <(modes "$dir/group") || fail "the modes of jobs follow the checkout's"
[ "$(find "$prefix/share/trireme/jobs" -name '*.s*' -perm 755 | wc -l)" -ge 5 ] || fail "$(modes "$prefix")"
version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\) .*/\1/p' "$here/CMakeLists.txt")
flavour=$(sed -n 's/^TRI_FLAVOUR:STRING=//p' "$build/CMakeCache.txt")
module=$version${flavour:+-$flavour}
! grep -i warning "$dir/log" || fail "warnings"

# DESTDIR installs the same files. They name the prefix, without DESTDIR.
diff <(cd "$dir/stage/opt/trireme" && find . | sort) <(cd "$prefix" && find . | sort) || fail "DESTDIR has other files"
[ "$(ls "$dir/stage")" = opt ] || fail "DESTDIR: $(ls "$dir/stage")"
grep -q '/opt/trireme' "$dir"/stage/opt/trireme/share/modulefiles/trireme/* || fail "the module names no /opt/trireme"
! grep -rlF -e "$dir" -e "$build" "$dir/stage" || fail "these hold paths of the build or of DESTDIR"
! grep -rlF "$build" "$prefix" || fail "these hold paths of the build folder"

# Every README of the source is installed, so that the links between them work.
for readme in $(cd "$here" && find README.md src io gpu inputs jobs packaging -name README.md); do
  [ -f "$prefix/share/doc/trireme/$readme" ] || fail "share/doc/trireme lacks $readme"
done

# Tests the program, and a job file with the installed runner's name in it.
program=$prefix/bin/trireme
"$program" --version >/dev/null || fail "the program does not run"
bash "$here/tests/packaging/hardened.sh" "$prefix/bin" "$hardened" trireme || fail "the installed program"
for i in 1 2 3 4; do echo '{"tokens": [5, 6, 7, 8], "prompt_tokens": 2}'; done >"$dir/lines.jsonl"
printf '#!/bin/sh\necho "p*|up|infinite|1|1|4|4000|"\n' >"$dir/sinfo"
chmod +x "$dir/sinfo"
PATH=$dir:$PATH "$program" init "$dir/job" --yes --model "$here/tests/data/model/llama" --data "$dir/lines.jsonl" \
  --device cpu >"$dir/log" 2>&1 || { cat "$dir/log"; fail "init"; }
grep -qF "exec bash '$prefix/share/trireme/jobs/train.sbatch' " "$dir/job/job.sbatch" || fail "$(cat "$dir/job/job.sbatch")"
[ -f "$prefix/share/trireme/jobs/rewards/verify.py" ] && [ -f "$prefix/share/trireme/inputs/reference.yaml" ] ||
  fail "share/trireme lacks rewards or decks"

# pkg-config
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
[ -d "$PKG_CONFIG_PATH" ] || PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name trireme-reward.pc)")
eval "$cc -shared -fPIC $(pkg-config --cflags trireme-reward) -o '$dir/verify.so' '$here/jobs/rewards/verify.c'" ||
  fail "a reward does not compile with pkg-config --cflags trireme-reward"
[ "$("$program" --version | cut -d ' ' -f 2)" = "$(pkg-config --modversion trireme-reward)" ] || fail "versions differ"

# The man page causes no warning, and has every command with every flag.
page=$prefix/share/man/man1/trireme.1
commands=$("$program" --help | awk '/^commands:/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }')
[ -n "$commands" ] || fail "--help names no command"
# Reads roff as plain words. A bold text on a line of its own is a flag.
for command in $commands; do
  grep -qx ".SS trireme $command" "$page" || fail "the man page has no $command"
  for flag in $("$program" "$command" --help | awk '/^flags:/ { on = 1 } on && /^  --/ { print $1 }'); do
    awk -v command="$command" -v flag="$(sed 's/-/\\\\-/g' <<<"$flag")" '
      /^\.S[SH] / { on = $0 == ".SS trireme " command } on && $1 == ".B" && $2 == flag { found = 1 } END { exit !found }' "$page" ||
      fail "the man page lacks $command $flag"
  done
done
if has groff; then
  groff -man -Tutf8 -ww "$page" 2>&1 >"$dir/page" | { ! grep .; } || fail "groff warns of the man page"
  grep -q 'Hugging' "$dir/page" || fail "the man page is empty"
fi
! has mandoc || { mandoc -T lint -W warning "$page" | { ! grep .; } || fail "mandoc warns of the man page"; }

for name in $(sed -n 's/^    {"\(TRI_[A-Z0-9_]*\)", .*/\1/p' "$here/src/base/choice.c") $(grep -ohE 'TRIREME(_[A-Z]+)?' "$here"/jobs/*.sbatch | sort -u); do
  grep -qx ".B $name" <(sed -n '/^\.SH ENVIRONMENT/,/^\.SH FILES/p' "$page") || fail "the man page's environment lacks $name"
done

grep -qx '\.B \\-\\-tensor\\-parallel\\-size N' "$page" || fail "the man page cuts a long flag"

# Tests completion in a bash without any other configuration.
completes() { # words of the command line, --, the offered completions
  local words=() expected
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  expected=$*
  got=$(cd "$dir" && bash --norc --noprofile -c 'set -u; . "$0/share/bash-completion/completions/trireme"
    COMP_WORDS=("$0/bin/trireme" "$@") COMP_CWORD=$#; _trireme; echo "${COMPREPLY[*]}"' "$prefix" "${words[@]}" 2>&1)
  [ "$got" = "$expected" ] || fail "completion of ${words[*]}: '$got', not '$expected'"
}
bash -n "$prefix/share/bash-completion/completions/trireme"
completes tok -- tokenize
completes train --ch -- --check
completes generate --dtype b -- bf16
completes generate --chat-template qwen -- qwen2.5 qwen3
completes init --gpu lin -- lines.jsonl
completes train deck.yaml run.dev -- run.device=
completes train deck.yaml run.device = c -- cpu cuda
completes train deck.yaml data.shuffle = -- true false
completes bench deck.yaml run.dev -- run.device=
completes train deck.yaml data.train = li -- lines.jsonl
completes score lin -- lines.jsonl
mkdir "$dir/line_run"
echo '{"step": 1, "algo": "sft", "loss": 5.9, "kl": null, "grad_norm": 1}' >"$dir/line_run/metrics.jsonl"
completes watch lin -- line_run
completes watch --met -- --metric
completes watch line_run --metric '' -- loss kl grad_norm
completes watch line_run --metric lo -- loss

# Loading a module sets its variables, and unloading removes all of them.
check_module() { # name, folder of its files, a command to print shell code for load trireme, unload trireme
  local name=$1 files=$2 code
  shift 2
  code='set -eu; unset XDG_DATA_DIRS TRIREME
    eval "$("$@" load trireme)"; [ "$TRIREME" = "$0/bin/trireme" ] && [ "$(command -v trireme)" = "$TRIREME" ] || exit 2
    [ "$XDG_DATA_DIRS" = "$0/share:/usr/local/share:/usr/share" ] || exit 3
    case $PKG_CONFIG_PATH in "$0"/*) ;; *) exit 4 ;; esac
    eval "$("$@" unload trireme)"; case $PATH in *"$0"*) exit 5 ;; esac; [ -z "${TRIREME-}" ] || exit 6'
  env -u MANPATH -u PKG_CONFIG_PATH MODULEPATH="$prefix/share/$files" bash --norc -c "$code" "$prefix" "$@" ||
    fail "$name: exit code $?"
  echo "install: module by $name"
}
modules=$(ls /usr/lib/*/modulecmd.tcl /usr/share/modules/libexec/modulecmd.tcl 2>/dev/null | head -n 1 || true)
lmod=${LMOD_CMD:-$(ls /usr/share/lmod/*/libexec/lmod 2>/dev/null | head -n 1 || true)}
[ -z "$modules" ] || check_module "Environment Modules" modulefiles "$modules" bash # its first line names its own Tcl
[ -z "$lmod" ] || check_module Lmod lmod "$lmod" bash

# Puts an older version beside it, as a centre does, with its own files and its own module name.
older="$dir/older" old=0.0.9-cpu
cp -a "$prefix" "$older"
for tree in lmod modulefiles; do
  suffix=$([ $tree = modulefiles ] || echo .lua)
  sed "s|$prefix|$older|; s|$module|$old|" "$prefix/share/$tree/trireme/$module$suffix" >"$older/share/$tree/trireme/$old$suffix"
  rm "$older/share/$tree/trireme/$module$suffix"
done
sed -i "s|/$module|/$old|" "$older/share/trireme/MANIFEST"
# Another user finds both, loads one, then the other, and plans a run. This writes nothing to the prefixes.
as_other=()
if [ "$(id -u)" = 0 ] && has setpriv; then as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
mkdir "$dir/home"
cp -r "$here/tests/data/cli" "$dir/home/cli"
[ ${#as_other[@]} = 0 ] || chown -R 65534:65534 "$dir/home"
check_both() { # name, folder of the module files, a command to print shell code
  local name=$1 files=$2 code
  shift 2
  code='set -eu; cd "$HOME/cli"; run() { eval "$("$tool" bash "$@")"; }
    listed=$("$tool" bash avail -t trireme 2>&1); for v in "$new" "$old"; do case $listed in *"trireme/$v"*) ;; *) echo "$listed"; exit 2 ;; esac; done
    run load "trireme/$new"; [ "$TRIREME" = "$prefix/bin/trireme" ] || exit 3
    run switch "trireme/$new" "trireme/$old"; [ "$TRIREME" = "$older/bin/trireme" ] && [ "$(command -v trireme)" = "$TRIREME" ] || exit 4
    case $PATH in *"$prefix"*) exit 5 ;; esac
    trireme --version >/dev/null; trireme train sft.yaml run.output=out --check >/dev/null; [ -r "$TRIREME_JOBS/train.sbatch" ] || exit 6
    [ -z "$other" ] || ! touch "$older/bin/mine" 2>/dev/null || exit 7'
  env -u MANPATH -u PKG_CONFIG_PATH -u TRIREME HOME="$dir/home" other="${as_other[0]-}" tool="$1" prefix="$prefix" older="$older" new="$module" old="$old" \
    MODULEPATH="$prefix/share/$files:$older/share/$files" "${as_other[@]}" bash --norc -c "$code" >"$dir/log" 2>&1 ||
    { local code=$?; cat "$dir/log"; fail "two versions by $name: exit code $code"; }
  echo "install: two versions by $name${as_other[0]+, as another user}"
}
[ -z "$modules" ] || check_both "Environment Modules" modulefiles "$modules"
[ -z "$lmod" ] || check_both Lmod lmod "$lmod"

# Removing one version removes its files, but no file of the other version and no other file in its folders.
(cd "$prefix" && find . -type f | sed 's|^\./||' | sort) | diff - <(sort "$prefix/share/trireme/MANIFEST") || fail "MANIFEST is not what is there"
(cd "$older" && find . | sort) >"$dir/files"
if [ -n "${as_other[0]-}" ]; then # a user without permission gets one message, and nothing changes
  "${as_other[@]}" sh "$older/share/trireme/uninstall.sh" >"$dir/log" 2>&1 && fail "another user removed the installation"
  [ "$(wc -l <"$dir/log")" = 1 ] && (cd "$older" && find . | sort) | diff "$dir/files" - || fail "uninstall.sh by another user: $(head -n 3 "$dir/log")"
fi
echo theirs >"$prefix/share/doc/theirs"
sh "$prefix/share/trireme/uninstall.sh" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "uninstall.sh ends with $?"; }
[ "$(cd "$prefix" && find . -type f)" = ./share/doc/theirs ] || fail "uninstall.sh left $(find "$prefix" -type f)"
[ "$(cd "$prefix" && find . -type d | sort | tr '\n' ' ')" = ". ./share ./share/doc " ] || fail "uninstall.sh left $(find "$prefix" -type d)"
(cd "$older" && find . | sort) | diff "$dir/files" - || fail "uninstall.sh of one version changed the other"
echo ../../stage/opt >>"$older/share/trireme/MANIFEST"
sh "$older/share/trireme/uninstall.sh" >"$dir/log" 2>&1 && fail "a MANIFEST that leads out of the prefix is taken"
grep -q 'nothing was removed' "$dir/log" && [ -x "$older/bin/trireme" ] || fail "$(cat "$dir/log")"
sed -i '$d' "$older/share/trireme/MANIFEST"
sh "$older/share/trireme/uninstall.sh" >"$dir/log" 2>&1 && [ ! -e "$older" ] || { cat "$dir/log"; fail "uninstall.sh left $(find "$older")"; }

# The recipes of Spack, EasyBuild and Apptainer name existing options and files. The table of options is complete.
spack=$here/packaging/spack/spack_repo/trireme/packages/trireme/package.py
for option in $(grep -ohE 'TRI_[A-Z_]+' "$spack" "$here"/packaging/easybuild/Trireme*.eb "$here"/packaging/apptainer/*.def | sort -u); do
  grep -qE "(set|option)\($option " "$here/CMakeLists.txt" "$here/packaging/CMakeLists.txt" || fail "a recipe sets $option, which is no option"
done
for option in $(sed -nE 's/^(set\((TRI_[A-Z_]+) .* CACHE STRING .*|option\(([A-Z_]+) .*)/\2\3/p' "$here/CMakeLists.txt" "$here/packaging/CMakeLists.txt"); do
  grep -qF "| \`$option\` |" "$here/packaging/README.md" || fail "the table of packaging/README.md lacks $option"
done
for def in "$here"/packaging/apptainer/*.def; do
  copied=$(awk '/^%files/ { on = 1; next } /^%/ { on = 0 } on { print $1 }' "$def")
  for file in $copied; do
    [ -e "$here/$file" ] || fail "${def##*/} copies $file, which is not there"
  done
  for file in $(grep -oE '(add_subdirectory|room)\([a-z]+' "$here/CMakeLists.txt" | sed 's/.*(//' | sort -u); do
    grep -qx "$file" <<<"$copied" || fail "${def##*/} does not copy $file, which the build reads"
  done
done
for file in "$here"/packaging/easybuild/Trireme-*.eb; do
  grep -qx "version = '$version'" "$file" || fail "${file##*/} is not of version $version"
done
grep -qx "version: $version" "$here/CITATION.cff" || fail "CITATION.cff is not of version $version"
echo "install: program, job file, pkg-config, man page, completion, DESTDIR"
