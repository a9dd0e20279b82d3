#!/usr/bin/env bash
# aarch64.sh - builds the program and its unit tests for 64-bit Arm on this machine and runs them in qemu.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/cross/aarch64.sh FOLDER [CTEST ARGUMENT...]    keeps packages, their files and the build in FOLDER, to continue there
#
# It needs Debian 12 with gcc-aarch64-linux-gnu, qemu-user and `dpkg --add-architecture arm64; apt-get update`. The kernel must start
# Arm programs through qemu, because test programs start others (binfmt_misc, registered by Debian's qemu-user-static). The libraries
# are Debian's own for arm64. They are unpacked and not installed, because they would replace this machine's. A qemu processor has
# SVE2 ("max"), so the kernels are those for neoverse_v2. `TRI_CPU_KERNELS=neon` in the environment selects the others. An emulator
# does not enforce a process's memory limit, shows its own /proc and runs extra processes. So the tests `apart`, `checkpoint_forged`,
# `memory_group`, `peers` and `reward_process` each skip one case with a message.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '5s/^# \{0,1\}//p' "$0" >&2; exit 64; }
mkdir -p "$1/debs" "$1/root"
to=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")/../.." && pwd)
shift
root=$to/root libraries=$to/root/usr/lib/aarch64-linux-gnu

if [[ ! -e $to/unpacked ]]; then
  : > "$to/debs/none" # pretends that nothing is installed, so apt lists all packages
  names=$(awk '/^(lib.*-dev|zlib1g-dev|ocl-icd-opencl-dev|libcmocka-dev) / && !/libclang|libomp/ { print $1 }' "$here/jobs/packages.txt")
  # shellcheck disable=SC2086
  (cd "$to/debs" && apt-get -y --no-install-recommends --print-uris -o Dir::State::status="$to/debs/none" \
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 install libgcc-12-dev libgomp1 $names |
    sed -n "s/^'\([^']*\)'.*/\1/p" | xargs -n 20 wget -q -nc)
  for package in "$to"/debs/*.deb; do dpkg -x "$package" "$root"; done
  find "$root" -type l | while read -r link; do # makes absolute links point into $root
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
# Whole runs are left out because they take hours.
ctest --test-dir "$to/build" -L cpu -LE program -R '\.np1$' "$@"
