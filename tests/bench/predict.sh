#!/bin/bash
# predict.sh - seconds of a step as trireme plan predicts them, beside those that a run takes, on 1, 2 and 4 ranks.
#
#   tests/bench/predict.sh PROGRAM [key=value ...]     STEPS=8: timed ones, after two that are not; XDG_CACHE_HOME=: no doctor's file
# Two decks: GRPO (64 answers of 48 tokens) and SFT (sequences of 128), on a model of width 256 and 4 layers; f32 and bf16. On a
# machine that does nothing else: the medians of a busy one say nothing of the prediction.
set -eu
program=$1
shift
. "$(dirname "$0")/../case/run_case.sh" "$program" 4
steps=${STEPS:-8}
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
awk 'BEGIN { srand(1); for (i = 0; i < 512; i++) { printf "{\"prompt\": \"%d+%d=\", \"answer\": \"%d\"}\n", i, 2 * i, 3 * i > "'"$dir"'/data.jsonl"
  printf "{\"tokens\": [" > "'"$dir"'/lines.jsonl"
  for (k = 0; k < 128; k++) printf "%s%d", k ? ", " : "", 1 + int(rand() * 250) > "'"$dir"'/lines.jsonl"
  print "], \"prompt_tokens\": 64}" > "'"$dir"'/lines.jsonl" } }'
sed -e 's/"hidden_size": *[0-9]*/"hidden_size": 256/; s/"intermediate_size": *[0-9]*/"intermediate_size": 768/' \
  -e 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 4/; s/"eos_token_id": *[0-9]*/"eos_token_id": null/' \
  -e 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 512/' "$here/inputs/quickstart/config.json" > "$dir/config.json"
cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/none, device: cpu}
model: {config: $dir/config.json, tokenizer: $here/inputs/quickstart/tokenizer.json}
train: {steps: $((steps + 2)), learning_rate: 1e-5}
checkpoint: {save_final: false}
EOF
grpo() { of=(algo.name=grpo data.train="$dir/data.jsonl" algo.num_generations=8 rollout.rollout_batch_size=8 rollout.max_response_length=48
  "reward=[{name: regex, pattern: '[0-4]'}]" train.micro_batch_size="$1"); }
sft() { of=(algo.name=sft data.train="$dir/lines.jsonl" train.train_batch_size=32 train.micro_batch_size="$1"); }

median() { sort -n | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }
planned() { sed "s/.*\"time_step_s\": {\(.*\)}, \"machine.*/\1/; s/.*\"$1\": \([^,]*\).*/\1/" "$dir/plan.json"; }
timed() { sed -n "3,\$s/.*\"$1\": \([^,}]*\).*/\1/p" "$dir/run/metrics.jsonl" | median; }

printf '%-6s %-5s %5s %12s %12s %8s %26s\n' deck type ranks predicted measured off 'rollout, learn predicted/measured'
for name in grpo sft; do
  for dtype in f32 bf16; do
    for n in 1 2 4; do
      $name $((8 / n))
      set_=("${of[@]}" model.dtype=$dtype "$@")
      set_+=(run.threads=$((n > 1 ? 1 : 2)))
      rm -rf "$dir/run"
      "$program" plan "$dir/deck.yaml" run.output="$dir/run" "${set_[@]}" --gpus-per-node $n --json > "$dir/plan.json" 2> "$dir/log" || { cat "$dir/log"; exit 1; }
      launch $n "$dir/run" "${set_[@]}"
      awk -v d=$name -v t=$dtype -v n=$n -v p="$(planned all)" -v m="$(timed time_step_s)" -v pr="$(planned rollout)" \
        -v mr="$(timed time_rollout_s)" -v pl="$(planned learn)" -v ml="$(timed time_learn_s)" \
        'BEGIN { printf "%-6s %-5s %5d %10.3f s %10.3f s %+6.0f %% %12.3f/%.3f %8.3f/%.3f\n", d, t, n, p, m, 100 * (p - m) / m, pr, mr, pl, ml }'
    done
  done
done
