#!/bin/sh
# setup.sh - installs missing packages of jobs/packages.txt (Debian, as root or with sudo), then builds build/cpu-release.
# SPDX-License-Identifier: BSD-3-Clause
#
# jobs/setup.sh          for the program
# jobs/setup.sh tests    also for tests/run.sh
set -eu
cd "$(dirname "$0")/.."

uses=build
target=trireme
case "${1-}" in
'') ;;
tests) uses='build|tests' target=all ;;
*) echo "usage: jobs/setup.sh [tests]" >&2; exit 64 ;;
esac
strict=''
wanted=$(awk -v uses="^($uses)\$" '!/^#/ && $2 ~ uses { print $1 }' jobs/packages.txt)

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  missing=''
  for p in $wanted; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing="$missing $p"
  done
  if [ -n "$missing" ]; then
    as_root=''
    if [ "$(id -u)" != 0 ]; then
      command -v sudo >/dev/null || { echo "setup.sh: not root, and sudo is missing. Ask for the installation of$missing" >&2; exit 69; }
      as_root=sudo
    fi
    echo "setup.sh: installing$missing"
    # Keep the packages from starting munge and Slurm, because the tests start their own (Debian Policy, 9.3.3.2).
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
      trap '$as_root rm -f $policy' EXIT
      trap 'exit 130' INT TERM HUP # dash runs no EXIT trap when a signal ends it
      printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
      $as_root chmod 755 $policy
    fi
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
  fi
else
  echo "setup.sh: not a Debian system, so nothing is installed. These packages are needed (Debian names):"
  # shellcheck disable=SC2086
  echo $wanted
  echo "setup.sh: packaging/README.md has their names for dnf and conda-forge, and the installation without root"
  [ "$target" = all ] || strict=-DTRI_WERROR=OFF # other compilers have other warnings
fi

# Share the compiler cache with tests/run.sh, which builds the same first.
if [ "$target" = all ] && [ ! -e build/cpu-release/CMakeCache.txt ]; then
  CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-$(command -v ccache || true)}
  export CMAKE_C_COMPILER_LAUNCHER
fi
CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache}
export CCACHE_DIR
# shellcheck disable=SC2086
cmake --preset cpu-release $strict
cmake --build --preset cpu-release --target "$target" --parallel "$(nproc)"
