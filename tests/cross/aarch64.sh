#!/usr/bin/env bash
# aarch64.sh - the program and its unit tests built for 64-bit Arm on this machine, and run by qemu's emulation.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/cross/aarch64.sh FOLDER [CTEST ARGUMENT...]    FOLDER gets packages, their files and the build; kept, to go on from
#
# Needs Debian 12's gcc-aarch64-linux-gnu and qemu-user, `dpkg --add-architecture arm64; apt-get update`, and a kernel that starts
# Arm's programs by qemu (binfmt_misc: Debian's qemu-user-static registers it; test programs start others). The libraries are
# Debian's own for arm64, unpacked and not installed, because they would take the place of this machine's. A qemu processor has SVE2
# ("max"), so the kernels are those for neoverse_v2; `TRI_CPU_KERNELS=neon` in the environment takes the others. An emulator holds no
# memory limit of a process, shows a /proc of its own and has processes beside it: `apart`, `checkpoint_forged`, `memory_group`,
# `peers` and `reward_process` each say so in a case.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 64; }
mkdir -p "$1/debs" "$1/root"
to=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")/../.." && pwd)
shift
root=$to/root libraries=$to/root/usr/lib/aarch64-linux-gnu

if [[ ! -e $to/unpacked ]]; then
  : > "$to/debs/none" # as if nothing were installed: all that is needed is named
  names=$(awk '/^(lib.*-dev|zlib1g-dev|ocl-icd-opencl-dev|libcmocka-dev) / && !/libclang|libomp/ { print $1 }' "$here/jobs/packages.txt")
  # shellcheck disable=SC2086
  (cd "$to/debs" && apt-get -y --no-install-recommends --print-uris -o Dir::State::status="$to/debs/none" \
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 install libgcc-12-dev libgomp1 $names |
    sed -n "s/^'\([^']*\)'.*/\1/p" | xargs -n 20 wget -q -nc)
  for package in "$to"/debs/*.deb; do dpkg -x "$package" "$root"; done
  find "$root" -type l | while read -r link; do # links from the root: from this one
    at=$(readlink "$link")
    [[ $at != /* || ! -e $root$at ]] || ln -sfn "$root$at" "$link"
  done
  touch "$to/unpacked"
fi

cat > "$to/toolchain.cmake" <<EOF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT $root)
set(CMAKE_FIND_ROOT_PATH $root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
EOF
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$root/usr/share/pkgconfig
cmake -S "$here" -B "$to/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$to/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release -DTRI_WERROR=ON \
  -DHDF5_ROOT="$libraries/hdf5/openmpi" -DMPI_C_HEADER_DIR="$libraries/openmpi/include" -DMPI_C_LIB_NAMES=mpi \
  -DMPI_mpi_LIBRARY="$libraries/libmpi.so.40"
cmake --build "$to/build"
export QEMU_LD_PREFIX=$root
"$to/build/trireme" --version --verbose
# Without whole runs, which take hours.
ctest --test-dir "$to/build" -L cpu -LE program -R '\.np1$' "$@"
