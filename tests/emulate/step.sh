#!/bin/bash
# step.sh - runs GRPO steps of the whole program on emulated GPUs: sampler and trainer agree to the bit, on one rank and on two.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/emulate/step.sh PROGRAM RANKS
# The largest gap must be 0 nats, without a warning, also with contexts long enough to be spread over the GPU's blocks. trireme plan
# gives the bytes of these beforehand. With everything possible in host memory the numbers are the same. With a library whose rows
# never agree, a warning says that run.sampler becomes rescore, the gap is not 0, and the run ends well.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
sed -i '/^eval:/d; s/, eval: [^}]*//' "$dir/deck.yaml"
run() { # output folder, steps, further key=value ...
  out=$1 steps=$2
  shift 2
  launch "$ranks" "$dir/$out" run.device=cuda run.ranks_per_node=0 train.steps="$steps" \
    rollout.rollout_batch_size=4 checkpoint.save_steps=0 checkpoint.save_final=false "$@"
}
gap() { sed -n '$s/.*"sampler_gap_max_nats": \([0-9.e+-]*\).*/\1/p' "$dir/$1/metrics.jsonl"; }

run exact 2 shard.params=world shard.grads=world shard.optimizer=world
if grep '"code": "sampler_rescores"' "$dir/exact/run.jsonl"; then exit 1; fi
[ "$(gap exact)" = 0 ] || { echo "step: a gap of $(gap exact) nats"; exit 1; }
run resting 2 shard.params=world shard.grads=world shard.optimizer=world shard.offload=all
diff <(numbers "$dir/exact") <(numbers "$dir/resting") || { echo "step: other numbers with shard.offload"; exit 1; }
write_recurrent
mkdir "$dir/delta"
TRI_EMULATE_LOG=$dir/delta run recurrent 2 model.config="$dir/recurrent.json" shard.params=world shard.grads=world shard.optimizer=world
[ "$(gap recurrent)" = 0 ] || { echo "step: a gap of $(gap recurrent) nats with recurrent layers"; exit 1; }
for kernel in conv_fwd delta_fwd gate_norm_fwd conv_bwd delta_bwd gate_norm_bwd; do
  cat "$dir/delta"/* | grep -q "^ran .*$kernel" || { echo "step: $kernel did not run"; exit 1; }
done
# Prompts of 1029 tokens on a GPU of 8 multiprocessors. Two rows of its one key/value head are spread. One layer
# and no reference model, as kernels take such contexts long.
awk 'BEGIN { for (i = 0; i < 4; i++) { printf "{\"prompt\": \""; for (j = 0; j < 1024; j++) printf "%d", (i + j * j) % 7; printf "%d+%d=\", \"answer\": \"%d\"}\n", i + 10, i, 2 * i + 10 } }' \
  > "$dir/long.jsonl"
sed 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 2048/; s/"num_key_value_heads": *[0-9]*/"num_key_value_heads": 1/; s/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 1/' \
  "$here/inputs/quickstart/config.json" > "$dir/long.json"
long=(model.config="$dir/long.json" data.train="$dir/long.jsonl" run.device=cuda run.ranks_per_node=0 algo.num_generations=2 algo.ppo_epochs=1 algo.kl_coef=0 rollout.rollout_batch_size="$ranks" train.train_batch_size=$((2 * ranks))
  train.micro_batch_size=1 train.steps=1 checkpoint.save_steps=0)
mkdir "$dir/ran"
planned=$("$program" plan "$dir/deck.yaml" run.output="$dir/long" "${long[@]}" checkpoint.save_final=false --gpus-per-node "$ranks" --json 2> "$dir/log" |
  sed 's/.*"mem_planned_bytes": \([0-9]*\),.*/\1/')
TRI_EMULATE_SM=8 TRI_EMULATE_LOG=$dir/ran launch "$ranks" "$dir/long" "${long[@]}" checkpoint.save_final=false
cat "$dir/ran"/* | grep -q '^ran .*attn_spread_values_kernel' || { echo "step: long contexts are not spread"; exit 1; }
[ "$(gap long)" = 0 ] || { echo "step: a gap of $(gap long) nats over long contexts"; exit 1; }
grep -q "\"mem_planned_bytes\": $planned, \"mem_used_bytes\": $planned[,}]" "$dir/long/metrics.jsonl" || { echo "step: $planned bytes were planned for long contexts"; exit 1; }
TRI_EMULATE_LT=vary run rescore 1
grep '"code": "sampler_rescores".*cuBLASLt' "$dir/rescore/run.jsonl"
[ "$(gap rescore)" != 0 ] || { echo "step: no gap, though rows never agree"; exit 1; }
echo "step: gap 0 exact, $(gap rescore) nats rescored, $ranks ranks"
