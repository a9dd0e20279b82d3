#!/bin/bash
# bundle.sh - packs programs for a machine with a GPU, its driver and CUDA, but without Open MPI, PMIx or HDF5.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/gpu/bundle.sh DEST PROGRAM...     there: source DEST/env.sh && mpirun -n 2 DEST/bin/PROGRAM ...
#
# DEST gets every shared library except those of the C and C++ run-time and of CUDA, Open MPI's launcher and plug-ins, and env.sh.
# env.sh needs no root and writes nothing. It asks Python for NVIDIA's libraries installed by pip. DEST must not exist yet.
set -euo pipefail
(($# >= 2)) || { sed -n '4,7s/^# \{0,1\}//p' "$0" >&2; exit 64; }
dest=$1
shift
[[ ! -e $dest ]] || { echo "bundle: $dest is there; name a folder that is not" >&2; exit 64; }
mkdir -p "$dest/bin" "$dest/lib" "$dest/share"
cp -L "$@" "$dest/bin/"

# The folders of Open MPI and PMIx for plug-ins and texts on this machine. env.sh names those on the other machine.
mpi_place() { ompi_info --path "$1" --parsable | sed 's/^path:[a-z]*://'; }
for tool in orterun orted; do cp -L "$(command -v $tool)" "$dest/bin/$tool"; done
ln -s orterun "$dest/bin/mpirun"
cp -rL "$(mpi_place pkglibdir)" "$dest/openmpi"
cp -rL "$(mpi_place pkgdatadir)" "$dest/share/openmpi"
mkdir "$dest/etc"
pmix=$(ldd "$dest/bin/orterun" "$dest"/openmpi/*.so "$@" | awk '/libpmix\.so/ && $3 ~ /^\// && !n++ { print $3 }')
pmix=$(dirname "$(readlink -f "$pmix")")
mkdir "$dest/pmix"
if [[ -d $pmix/pmix ]]; then cp -rL "$pmix/pmix/." "$dest/pmix/"; fi
if [[ -d $pmix/../share/pmix ]]; then cp -rL "$pmix/../share/pmix" "$dest/share/pmix"; fi
# The bundle is for one machine. Networks other than TCP, OpenSHMEM and files for debuggers are left out.
find "$dest" -regextype posix-extended -type f -regex \
  '.*(\.la|\.a|/mca_(.*_(ofi|ucx|uct|usnic|openib|psm|psm2|cm|portals4|monitoring)|(spml|scoll|memheap|sshmem|atomic)_.*)\.so)' -delete

# Shared libraries of the programs and of every plug-in.
theirs='^(linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|resolv|util)\.|libstdc\+\+|libgcc_s|libcuda|libcudart|libcublas|libnccl|libcudnn|libnv|libcurand|libcusparse|libcusolver|libcufft)'
find "$dest/bin" "$dest/openmpi" "$dest/pmix" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec ldd {} + 2>/dev/null |
  awk '$3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
  if ! [[ $name =~ $theirs || -e $dest/lib/$name ]]; then cp -L "$path" "$dest/lib/$name"; fi
done
find "$dest" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true
least=$(find "$dest" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec objdump -T {} + 2>/dev/null |
  grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)

{
  echo "needs_glibc=${least#GLIBC_}"
  cat <<'ENV'
# Source this.
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
has_glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2)
if [[ -n $has_glibc && $(printf '%s\n' "$needs_glibc" "$has_glibc" | sort -V | head -n 1) != "$needs_glibc" ]]; then
  echo "env.sh: the programs need glibc $needs_glibc, this machine has $has_glibc: build them on a system as old as it" >&2
fi
export OPAL_PREFIX=$bundle OPAL_BINDIR=$bundle/bin OPAL_LIBDIR=$bundle/lib OPAL_PKGLIBDIR=$bundle/openmpi
export OPAL_DATADIR=$bundle/share OPAL_PKGDATADIR=$bundle/share/openmpi OPAL_SYSCONFDIR=$bundle/etc
export PMIX_INSTALL_PREFIX=$bundle PMIX_LIBDIR=$bundle/lib PMIX_PKGLIBDIR=$bundle/pmix
export PMIX_DATADIR=$bundle/share PMIX_PKGDATADIR=$bundle/share/pmix PMIX_SYSCONFDIR=$bundle/etc
cuda=
for folder in /usr/local/cuda/lib64 $("${PYTHON:-python3}" - 2>/dev/null <<'P'
import glob, importlib.util, os
found = importlib.util.find_spec("nvidia")
for root in found.submodule_search_locations if found else []:
    print(*(d for d in sorted(glob.glob(os.path.join(root, "*", "lib"))) if " " not in d), sep="\n")
P
); do
  if [[ -d $folder ]]; then cuda=$cuda:$folder; fi
done
export LD_LIBRARY_PATH=$bundle/lib$cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PATH=$bundle/bin:$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_plm=isolated
ENV
} >"$dest/env.sh"
echo "bundle: $(du -sm "$dest" | cut -f 1) MiB, glibc ${least#GLIBC_}"
