#!/usr/bin/env bash
# registers.sh - registers, stack and spills of every kernel of gpu/ for sm_80 and sm_90; more than was committed fails.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/gpu/registers.sh           prints the table and compares it with tests/gpu/registers.txt
#   tests/gpu/registers.sh --write   writes that file anew, for a commit that says why
#   tests/gpu/registers.sh --from F  takes what nvcc said from F, the output of a build with NVCC_APPEND_FLAGS=-Xptxas=-v
# NVCC names the compiler; JOBS files are compiled at once (2). Needs nvcc, no GPU. A kernel may use fewer of each than
# registers.txt says; one that is not in it fails too, so that every new kernel is looked at once.
set -euo pipefail
cd "$(dirname "$0")/../.."
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[[ -x $nvcc ]] || { echo "registers: no nvcc at $nvcc; set NVCC" >&2; exit 69; }
list=tests/gpu/registers.txt
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

# One line per kernel: architecture, registers, bytes of stack, of spill stores, of spill loads, name.
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

head='# registers.txt - what registers.sh allows each kernel: architecture, registers, bytes of stack, spill stores, spill loads, name.'
if [[ ${1-} = --write ]]; then
  { echo "$head"; cat "$dir/now"; } >"$list"
  echo "registers: $(wc -l <"$dir/now") kernels written to $list"
  exit
fi
cat "$dir/now"
awk '
  { name = $0; for (i = 0; i < 5; i++) sub(/^[^ ]+ /, "", name); key = $1 " " name }
  FNR == NR { if ($1 != "#") { known[key] = 1; for (i = 2; i <= 5; i++) most[key, i] = $i } next }
  {
    n++
    if (!(key in known)) { bad++; print "registers: not in the list: " $0; next }
    split("- registers stack spill-stores spill-loads", what, " ")
    for (i = 2; i <= 5; i++)
      if ($i + 0 > most[key, i] + 0) { bad++; print "registers: " what[i] " " $i " where " most[key, i] " is the most: " key }
  }
  END { printf "registers: %d kernels, %d above tests/gpu/registers.txt\n", n, bad; exit bad > 0 }' "$list" "$dir/now"
