#!/usr/bin/env bash
# planted.sh - plants faults in the CUDA back end, or in its users, and checks that the tests without a GPU name each of them.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/emulate/planted.sh [NAME...]    all plants, or those; a few minutes: run by hand, not by CI
# Each is planted in a copy of the tree, built by the preset cpu-emulated. Then the tests able to detect it must fail, and the others
# must pass. PLANTED_DIR keeps the copy and its build for the next time.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
work=${PLANTED_DIR:-$(mktemp -d)}
[[ -n ${PLANTED_DIR-} ]] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
tree=$work/tree wanted=" $* " planted=0 wrong=0
[[ -d $tree ]] || mkdir "$tree" || exit 1
# Puts a changed file back with a new time, so that it is built again.
put_back() {
  [[ ! -s $work/changed ]] || cp "$(cat "$work/changed")" "$tree/$(cat "$work/changed")"
  : >"$work/changed"
}
put_back
tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$tree" --keep-newer-files --warning=none || exit 1

complain() {
  wrong=$((wrong + 1))
  echo "planted: $*"
}

build() {
  (cd "$tree" && { [[ -d build/cpu-emulated ]] || cmake --preset cpu-emulated; } && cmake --build build/cpu-emulated --target $targets) >"$work/build.log" 2>&1
}

run() { # tests, a regular expression
  ctest --test-dir "$tree/build/cpu-emulated" --fixture-exclude-any launch_log --no-tests=error -R "^($1)\$" --output-on-failure
}

# The tests that must fail and those that must pass are regular expressions of ctest names. "" is none.
plant() { # name, file, what sed does to it, targets, must fail, must pass
  local name=$1 file=$2 change=$3 fails=$5 passes=$6
  [[ $wanted = "  " || $wanted = *" $name "* ]] || return 0
  targets=$4
  planted=$((planted + 1))
  echo "$file" >"$work/changed"
  sed -i "$change" "$tree/$file"
  if cmp -s "$file" "$tree/$file"; then
    complain "$name: changes nothing in $file"
  elif ! build; then
    complain "$name: does not build: $(grep -m 1 -i error "$work/build.log")"
  else
    if [[ -n $passes ]] && ! run "$passes" >"$work/pass.log" 2>&1; then complain "$name: $passes should not see it"; fi
    if run "$fails" >"$work/fail.log" 2>&1; then
      complain "$name: $fails does not see it"
    else
      echo "planted: $name: seen: $(grep -m 1 -E 'emulation: |other numbers|ERROR: |rank [0-9]+, |reference says|exceeds' "$work/fail.log" | cut -c 1-160)"
    fi
  fi
  put_back
}

# Faults in machine code. A file is compiled for sm_90, and sass.py must report one of its kernels. Not run without nvcc.
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
plant_code() { # name, file, what sed does to it, words
  [[ $wanted = "  " || $wanted = *" $1 "* ]] || return 0
  [[ -x $nvcc ]] || { echo "planted: $1: not run: no nvcc at $nvcc; set NVCC"; return 0; }
  planted=$((planted + 1))
  echo "$2" >"$work/changed"
  sed -i "$3" "$tree/$2"
  if ! (cd "$tree" && "$nvcc" -cubin -arch=sm_90 -O3 -std=c++17 --expt-relaxed-constexpr -Isrc -I. -DTRI_HAVE_CUDA=1 -DTRI_CUDA_EMULATED=0 \
    -o "$work/planted.cubin" "$2") >"$work/build.log" 2>&1; then
    complain "$1: does not build: $(grep -m 1 error "$work/build.log")"
  else
    python3 tests/gpu/sass.py "$work/planted.cubin" >"$work/said" # the kernels of other files are missing, which it says too
    if grep -q "$4" "$work/said"; then
      echo "planted: $1: seen: $(grep -m 1 "$4" "$work/said")"
    else
      complain "$1: sass.py does not say '$4'"
    fi
  fi
  put_back
}

# Waits of one stream for another. Streams that run late do the awaited work anyway.
plant gather-ready gpu/nccl/comm_nccl.c '/cudaStreamWaitEvent(tri_cuda_stream_of(s), p->ready, 0)/d' trireme nccl_eager.emulated.np2 nccl_step.emulated.np2
plant flush-used src/state/offload.c '/stream_wait(o->flush, r->event\[USED\])/d' test_params params_eager.emulated.np1 params.emulated.np1
# 32-bit indices. No small case shows them.
plant far-logits gpu/layers/logprob.cu 's/int64_t at = (int64_t)k \* V + i;/int at = k * V + i;/' 'test_far test_logprob' far.emulated.np1 logprob.emulated.np1
plant far-embed gpu/layers/layers.cu 's/const A \*from = table + id \* C;/const A *from = table + (int)(id * C);/' test_far far.emulated.np1 ''
plant far-attention gpu/attention/attention.cu 's/(int64_t)(at.start + at.row) \* c.E/(at.start + at.row) * c.E/' test_far far.emulated.np1 ''
plant far-delta gpu/recurrent/delta.cuh 's/(const A \*)c.c + n \* c.Er/(const A *)c.c + (int)(n * c.Er)/' 'test_far test_delta' far.emulated.np1 delta.emulated.np1
plant far-conv gpu/recurrent/conv.cu 's/tri_put(out + row \* Er, /tri_put(out + (int)(row * Er), /' test_far far.emulated.np1 ''
# The barrier between the rows of a stage and their sums over columns.
plant delta-rows gpu/recurrent/delta_bwd.cu '/^    delta_errors(at, dS)/{n;d}' test_delta delta.emulated.np1 ''
# Barriers that only a warp running ahead of the others misses.
plant delta-ahead gpu/recurrent/delta_bwd.cu '/^    delta_row_products<A>/{n;d}' test_delta delta.emulated.np1 ''
# References other than those of one block. They change bits and no result.
plant spread-reference gpu/attention/attention_spread.cu 's/reference\[2\] = {-INFINITY, -INFINITY}/reference[2] = {9, 9}/' test_attention_spread attention_spread.emulated.np1 ''
plant spread-f32 gpu/attention/attention_spread.cu 's/^  attn_f32_begin(a);/&\n  a.top[0] = a.top[1] = 9;/' test_attention_spread attention_spread.emulated.np1 ''
# Dynamic shared memory below 48 KiB that exceeds it together with the static part. A GPU starts such a kernel only if it is
# asked.
plant unasked gpu/base/cuda_util.cuh 's/most{0};/most{48 * 1024};/' test_attention_spread attention_spread.emulated.np1 ''
# Risks of the table in tests/gpu/README.md. 1 is a missing report of the price of equal bits. 4 is a shape without an algorithm
# that is accepted. 8 is all memory registered with the NIC. 9 is a late communicator written to a dead frame.
plant price-unsaid gpu/gemm/gemm_cost.c 's/WARN_PERCENT = 10 /WARN_PERCENT = 2147483647 /' test_linear_choice linear_choice.emulated.np1 ''
plant no-algorithm gpu/gemm/gemm_cublas.c 's/if (!f.n)/if (f.n < 0)/' test_linear_choice linear_choice.emulated.np1 ''
plant all-registered src/device/memory.c 's/e->gathered = l->gathered;/e->gathered = true;/' test_memory memory.emulated.np1 ''
plant late-split gpu/nccl/comm_nccl.c 's/ncclComm_t \*child = &h->made\[h->n_made\];/ncclComm_t place, *child = \&place;/; s/\*index = h->n_made++;/h->made[h->n_made] = place; *index = h->n_made++;/' test_comm comm_nccl.emulated.np2 ''
# An array indexed at run time, and shared memory that costs blocks.
plant_code spilled gpu/layers/logprob.cu 's/^  int64_t at = (int64_t)k/  volatile float kept[8]; kept[id \& 7] = 0; kept[k \& 7] = 1;\n&/' ' local reads and writes: .*logp bwd kernel'
plant_code crowded gpu/layers/logprob.cu 's/^  int     k = blockIdx.x/  TRI_SHARED(volatile float, planted, [11000]); planted[threadIdx.x] = 0;\n&/' ' blocks where .*logp bwd kernel'
echo "planted: $planted faults, $wrong not seen as they should"
exit $((wrong > 0))
