#!/bin/sh
# quickstart.sh - the demonstration, a warm start from a sloppy teacher and then GRPO, which finds out that carrying pays.
# SPDX-License-Identifier: BSD-3-Clause
#
# jobs/quickstart.sh [SEED]    replaces out/quickstart; TRIREME names the program (build/cpu-release/trireme)
set -eu
cd "$(dirname "$0")/.."
. jobs/demo.sh
seed=${1:-1}
is_seed "$seed" || { echo "usage: jobs/quickstart.sh [SEED]   (a whole number)" >&2; exit 64; }
out=out/quickstart
began=$(date +%s)

rm -rf $out
echo "== data, seed $seed"
make_data "$seed" $out/data
echo "== warm start: $ranks ranks imitate the sloppy teacher"
train "$seed" inputs/quickstart_sft.yaml
before=$(accuracy $out/sft $out/data/heldout.jsonl)
echo "== GRPO: held-out accuracy is $before %"
train "$seed" inputs/quickstart.yaml
"$trireme" export $out/grpo $out/model
after=$(accuracy $out/model $out/data/heldout.jsonl)
cat <<EOF
== done in $(($(date +%s) - began)) s on $ranks ranks
held-out problems answered right (greedy): $before % before GRPO, $after % after
checkpoint      $out/grpo/checkpoints/LATEST
metrics         $out/grpo/metrics.jsonl
exported model  $out/model (a Hugging Face folder)
its answers     $trireme show $out/grpo --worst 5
ask it          $trireme generate $out/model "58+67=" --temperature 0     (lowest digit first: 521)
EOF
