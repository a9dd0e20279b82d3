#!/bin/bash
# predict.sh - compares the seconds of a step predicted by trireme plan with those of a run, on 1, 2 and 4 ranks.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/bench/predict.sh PROGRAM [DECK ...] [key=value ...]    runs the named decks, or all
#     TYPES="f32 bf16"        types to run
#     RANKS="1 2 4"           numbers of ranks to run
#     STEPS=6                 timed steps, after two warm-up steps
#     ROUNDS=1                rounds in which plans and runs take turns, for medians
#     XDG_CACHE_HOME=         plans without doctor's file
#     BEFORE="chrt -r 1"      starts plans and runs with this command
#     BIND=1                  binds ranks to cores. RANKS=4 with chrt needs it, because chrt leaves three ranks on one core
# Decks, on a model of width 256 and 4 layers:
#     grpo      64 answers of 48 tokens
#     sft       32 sequences of 128
#     ppo       64 such answers with critic and reference
#     dpo       16 pairs of 128
#     lora      grpo with adapters
#     zero3     sft with all state shared
#     long      16 answers of 256
#     wide      grpo of width 512 and 8 layers, 16 answers of 32
#     deep      sft of width 512 and 8 layers, 16 sequences of 256, with recomputation
# Prints a row for each, and how many are within 25 %. Exits with 1 unless all are. Use a machine without other work, because
# medians of a busy machine say nothing about the prediction.
set -eu
program=$1
shift
. "$(dirname "$0")/../case/run_case.sh" "$program" 4
steps=${STEPS:-6} rounds=${ROUNDS:-1} before=${BEFORE-} decks=()
while [ $# -gt 0 ] && [[ $1 != *=* ]]; do decks+=("$1") && shift; done
[ ${#decks[@]} -gt 0 ] || decks=(grpo sft ppo dpo lora zero3 long wide deep)
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
[ -z "${BIND-}" ] || export OMPI_MCA_hwloc_base_binding_policy=core:overload-allowed OMPI_MCA_rmaps_base_mapping_policy=core:oversubscribe

awk -v dir="$dir" 'function list(n,  k, s) { for (k = 0; k < n; k++) s = s (k ? ", " : "") 1 + int(rand() * 250); return "[" s "]" }
  BEGIN { srand(1); for (i = 0; i < 512; i++) {
    printf "{\"prompt\": \"%d+%d=\", \"answer\": \"%d\"}\n", i, 2 * i, 3 * i > (dir "/data.jsonl")
    printf "{\"tokens\": %s, \"prompt_tokens\": 64}\n", list(128) > (dir "/lines.jsonl")
    printf "{\"tokens\": %s, \"prompt_tokens\": 64}\n", list(256) > (dir "/long.jsonl")
    head = list(64); sub(/]/, "", head); one = list(64); other = list(64); sub(/\[/, "", one); sub(/\[/, "", other)
    printf "{\"chosen_tokens\": %s, %s, \"rejected_tokens\": %s, %s, \"prompt_tokens\": 64}\n", head, one, head, other > (dir "/pairs.jsonl") } }'
model() { # width, mlp, layers
  sed -e "s/\"hidden_size\": *[0-9]*/\"hidden_size\": $1/; s/\"intermediate_size\": *[0-9]*/\"intermediate_size\": $2/" \
    -e "s/\"num_hidden_layers\": *[0-9]*/\"num_hidden_layers\": $3/; s/\"eos_token_id\": *[0-9]*/\"eos_token_id\": null/" \
    -e 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 512/' "$here/inputs/quickstart/config.json"
}
model 256 768 4 > "$dir/small.json"
model 512 1536 8 > "$dir/large.json"
cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/none, device: cpu}
model: {config: $dir/small.json, tokenizer: $here/inputs/quickstart/tokenizer.json}
train: {steps: $((steps + 2)), learning_rate: 1e-5}
checkpoint: {save_final: false}
EOF

of=()
generating() { # prompts, answers a prompt, tokens an answer, answers a pass on all ranks, algorithm
  of=(algo.name="${5:-grpo}" data.train="$dir/data.jsonl" algo.num_generations="$2" rollout.rollout_batch_size="$1"
    rollout.max_response_length="$3" "reward=[{name: regex, pattern: '[0-4]'}]" train.micro_batch_size=$(($4 / n)))
}
reading() { # file, lines a step, lines a pass on all ranks, algorithm
  of=(algo.name="${4:-sft}" data.train="$dir/$1.jsonl" train.train_batch_size="$2" train.micro_batch_size=$(($3 / n)))
}
grpo() { generating 8 8 48 8; }
sft() { reading lines 32 8; }
ppo() { generating 64 1 48 8 ppo && of+=(algo.kl_coef=0.01); }
dpo() { reading pairs 16 4 dpo; }
lora() { grpo && of+=(lora.rank=16); }
zero3() { sft && of+=(shard.plan=zero3); }
long() { generating 4 4 256 4; }
wide() { generating 4 4 32 8 && of+=(model.config="$dir/large.json"); }
deep() { reading long 16 4 && of+=(model.config="$dir/large.json" model.recompute=layer); }

median() { sort -n | awk '{ x[NR] = $1 } END { print !NR ? 0 : NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }
planned() { sed "s/.*\"time_step_s\": {\(.*\)}, \"machine.*/\1/; s/.*\"$1\": \([^,]*\).*/\1/" "$dir"/plan.*.json | median; }
timed() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" "$dir"/lines.*.jsonl | median; }

one_round() { # number of the round; uses set_
  local started=($before "$program")
  rm -rf "$dir/run"
  "${started[@]}" plan "$dir/deck.yaml" run.output="$dir/run" "${set_[@]}" --gpus-per-node "$n" --json > "$dir/plan.$1.json" 2> "$dir/log" ||
    { cat "$dir/log"; exit 1; }
  # shellcheck disable=SC2086
  $before mpirun $root --oversubscribe -n "$n" "$program" train "$dir/deck.yaml" run.output="$dir/run" "${set_[@]}" > "$dir/log" 2>&1 ||
    { cat "$dir/log"; exit 1; }
  sed 1,2d "$dir/run/metrics.jsonl" > "$dir/lines.$1.jsonl"
}

printf '%-6s %-5s %5s %12s %12s %8s %26s\n' deck type ranks predicted measured off 'rollout, learn predicted/measured'
for name in "${decks[@]}"; do
  for dtype in ${TYPES:-f32 bf16}; do
    for n in ${RANKS:-1 2 4}; do
      $name
      set_=("${of[@]}" model.dtype="$dtype" "$@" run.threads=$((n > 1 ? 1 : 2)))
      rm -f "$dir"/plan.*.json "$dir"/lines.*.jsonl
      for ((k = 0; k < rounds; k++)); do one_round "$k"; done
      awk -v d="$name" -v t="$dtype" -v n="$n" -v p="$(planned all)" -v m="$(timed time_step_s)" -v pr="$(planned rollout)" \
        -v mr="$(timed time_rollout_s)" -v pl="$(planned learn)" -v ml="$(timed time_learn_s)" \
        'BEGIN { off = 100 * (p - m) / m
          printf "%-6s %-5s %5d %10.3f s %10.3f s %+6.0f %% %12.3f/%.3f %8.3f/%.3f\n", d, t, n, p, m, off, pr, mr, pl, ml }' | tee -a "$dir/rows"
    done
  done
done
awk '{ off = $8 < 0 ? -$8 : $8; n += off <= 25; worst = off > worst ? off : worst }
  END { printf "predict: %d of %d rows within 25 %%, the worst %d %% off\n", n, NR, worst; exit n < NR }' "$dir/rows"
