#!/bin/bash
# processors.sh - runs the program on qemu's emulations of processors that this machine lacks. It works there or names the reason.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/device/processors.sh PROGRAM     77 without qemu-x86_64, or if the program is not for x86-64
# Judge: With AVX2 alone (Haswell, EPYC of Zen 1) a step has the bits of this processor's kernels and products for AVX2. If this
# processor has AVX-512, its f32 products have the same bits. Without AVX2 (Nehalem) a run ends with 69 and names the missing
# instructions, but commands without computation work. With less than the build needs (Conroe) the program itself ends with 69.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
[ "$(uname -m)" = x86_64 ] || { echo "processors: skipped, not x86-64"; exit 77; }
write_deck
as() { # processor, arguments of the program; output goes to $dir/log
  local cpu=$1
  shift
  qemu-x86_64 -cpu "$cpu" "$program" "$@" 2>&1 | grep -v '^qemu-x86_64: warning: TCG' > "$dir/log"
  return "${PIPESTATUS[0]}"
}
bad() {
  echo "processors: $1:"
  cat "$dir/log"
  exit 1
}
export GOMP_SPINCOUNT=1000 # otherwise the program restarts itself, without qemu (src/comm/cores.c)
short="model.dtype=f32 train.steps=1 algo.ppo_epochs=1 eval.steps=0 checkpoint.save_steps=0 checkpoint.save_final=false
  rollout.rollout_batch_size=4 train.train_batch_size=16"

# shellcheck disable=SC2086
ONEDNN_MAX_CPU_ISA=AVX2 TRI_CPU_KERNELS=avx2 TRI_CPU_F32=avx2 "$program" train "$dir/deck.yaml" run.output="$dir/own" $short > "$dir/log" 2>&1 || bad "here, by avx2"
if grep -m 1 '^flags' /proc/cpuinfo | grep -w avx512f | grep -w avx512bw | grep -w avx512vl | grep -qw avx512dq; then
  # shellcheck disable=SC2086
  ONEDNN_MAX_CPU_ISA=AVX2 TRI_CPU_KERNELS=avx2 TRI_CPU_F32=avx512 "$program" train "$dir/deck.yaml" run.output="$dir/wide" $short \
    > "$dir/log" 2>&1 || bad "here, f32 by avx512"
  want=$(numbers "$dir/own") have=$(numbers "$dir/wide")
  [ "$want" = "$have" ] || { echo "processors: f32 by avx512: $have"; echo "by avx2: $want"; exit 1; }
fi
command -v qemu-x86_64 > /dev/null || { echo "processors: skipped, no qemu-x86_64 here"; exit 77; }
for cpu in Haswell EPYC-v1; do
  # shellcheck disable=SC2086
  as $cpu train "$dir/deck.yaml" run.output="$dir/$cpu" $short || bad "$cpu: a run ends with $?"
  grep -q 'kernels avx2' "$dir/$cpu/log.txt" || bad "$cpu: not by avx2"
  want=$(numbers "$dir/own") have=$(numbers "$dir/$cpu")
  [ "$want" = "$have" ] || { echo "processors: $cpu: $have"; echo "here by avx2: $want"; exit 1; }
done

code=0
# shellcheck disable=SC2086
as Nehalem train "$dir/deck.yaml" run.output="$dir/old" $short || code=$?
[ $code = 69 ] && grep -q 'this processor lacks AVX2' "$dir/log" || bad "Nehalem: ends with $code"
as Nehalem --version || bad "Nehalem: --version ends with $?"
code=0
as Conroe --version || code=$?
[ $code = 69 ] && grep -q 'this processor lacks SSE4' "$dir/log" || bad "Conroe: ends with $code"
