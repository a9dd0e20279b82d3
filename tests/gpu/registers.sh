#!/usr/bin/env bash
# registers.sh - prints registers, stack and spills of every kernel of gpu/ for sm_80 and sm_90, and fails if a kernel spills.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/gpu/registers.sh           prints architecture, registers, bytes of stack, spill stores, spill loads and name of each kernel
#   tests/gpu/registers.sh --from F  takes nvcc's output from F, the output of a build with NVCC_APPEND_FLAGS=-Xptxas=-v
# NVCC names the compiler. JOBS files compile at once (2). It needs nvcc and no GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[[ -x $nvcc ]] || { echo "registers: no nvcc at $nvcc; set NVCC" >&2; exit 69; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export nvcc dir

compile() { # file, architecture: as CMakeLists.txt does
  "$nvcc" -cubin -arch="sm_$2" -O3 -std=c++17 --expt-relaxed-constexpr -lineinfo -Xptxas=-v -Isrc -I. -DTRI_HAVE_CUDA=1 \
    -DTRI_CUDA_EMULATED=0 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -o "$dir/$(basename "$1").$2.cubin" "$1" \
    >"$dir/$(basename "$1").$2.log" 2>&1 || { cat "$dir/$(basename "$1").$2.log" >&2; return 1; }
}
export -f compile
if [[ ${1-} = --from ]] && grep -q 'Compiling entry function' "$2"; then
  cp "$2" "$dir/build.log" # only what that build compiled: all, from a clean checkout
else
  for arch in 80 90; do find gpu -name '*.cu' | sort | sed "s/$/ $arch/"; done |
    xargs -P "${JOBS:-2}" -L 1 bash -c 'compile "$@"' _
fi

# One line per kernel with architecture, registers, bytes of stack, of spill stores, of spill loads, and name.
cat "$dir"/*.log | awk '
  /Compiling entry function/ { split($0, q, "\047"); name = q[2]; arch = q[4] }
  /bytes stack frame/ {
    n = split($0, w, /[ ,]+/)
    for (i = 2; i <= n; i++) if (w[i] == "bytes") { if (w[i + 1] == "stack") stack = w[i - 1]
      if (w[i + 2] == "stores") stores = w[i - 1]; if (w[i + 2] == "loads") loads = w[i - 1] }
  }
  /: Used [0-9]+ registers/ { match($0, /Used [0-9]+/); print arch, substr($0, RSTART + 5, RLENGTH - 5), stack, stores, loads, name }
' | c++filt -p | sort -t' ' -k6 -k1,1 >"$dir/now"
[[ -s $dir/now ]] || { echo "registers: the compiler told nothing" >&2; exit 1; }

cat "$dir/now"
awk '
  $3 + $4 + $5 > 0 { bad++; print "registers: spills: " $0 }
  END { printf "registers: %d kernels, %d with spills or a stack\n", NR, bad; exit bad > 0 }' "$dir/now"
