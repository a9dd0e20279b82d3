#!/bin/bash
# step.sh - GRPO steps of the whole program on emulated GPUs: sampler and trainer agree to the bit, on one rank and on two.
#
#   tests/emulate/step.sh PROGRAM RANKS
# Judge: a largest gap of 0 nats and no warning; the same numbers with what can rest in host memory there; with a library whose rows never agree, a warning that run.sampler becomes
# rescore, a gap that is not 0, and a run that ends well.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
sed -i '/^eval:/d; s/, eval: [^}]*//' "$dir/deck.yaml"
run() { # output folder, further key=value ...
  out=$1
  shift
  launch "$ranks" "$dir/$out" run.device=cuda run.ranks_per_node=0 train.steps=2 \
    rollout.rollout_batch_size=4 checkpoint.save_steps=0 checkpoint.save_final=false "$@"
}
gap() { sed -n '$s/.*"sampler_gap_max_nats": \([0-9.e+-]*\).*/\1/p' "$dir/$1/metrics.jsonl"; }

run exact shard.params=world shard.grads=world shard.optimizer=world
if grep 'exact becomes rescore' "$dir/log"; then exit 1; fi
[ "$(gap exact)" = 0 ] || { echo "step: a gap of $(gap exact) nats"; exit 1; }
run resting shard.params=world shard.grads=world shard.optimizer=world shard.offload=all
diff <(numbers "$dir/exact") <(numbers "$dir/resting") || { echo "step: other numbers with shard.offload"; exit 1; }
TRI_EMULATE_LT=vary run rescore
grep 'run.sampler: exact becomes rescore in this run: cuBLASLt' "$dir/log"
[ "$(gap rescore)" != 0 ] || { echo "step: no gap, though rows never agree"; exit 1; }
echo "step: gap 0 exact, $(gap rescore) nats rescored, $ranks ranks"
