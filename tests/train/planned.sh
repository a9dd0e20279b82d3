#!/bin/bash
# planned.sh - compares trireme plan with runs to the byte, for algorithms, shard plans, ranks and nodes in combination.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/planned.sh PROGRAM 4 [COUNT]    COUNT rows of a list, by default one for each algorithm of the program
#
# Row k has algorithm k, plan k and layout k of three lists. While no two of their lengths have a common factor, as many rows as the
# product of the lengths have every algorithm with every plan and layout. Its other settings are the mix that
# combines most pairs of values not yet combined by an earlier row, and it is always the same.
# Judge: mem_planned_bytes and device_bytes of the plan are the run's, and mem_used_bytes is all of it.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
names=$("$program" train --options --json | sed -n '1s/.*"algorithms": \[\([^]]*\)\].*/\1/p' | tr -d ',"')
[ -n "$names" ] || { echo "planned: the program names no algorithms"; exit 1; }
count=${3:-$(wc -w <<< "$names")}

awk -v dir="$dir" 'BEGIN { srand(1); for (i = 0; i < 64; i++) { a = int(rand() * 10); b = int(rand() * 10); c = rand() < 0.5
  prompt = sprintf("\"prompt\": \"%d+%d=\"", a, b)
  printf "{%s, \"answer\": \"%d\"}\n", prompt, a + b > (dir "/data.jsonl")
  printf "{%s, \"chosen\": \"%d\", \"rejected\": \"%d\"}\n", prompt, a + b, a + b + 1 + c > (dir "/pairs.jsonl")
  printf "{%s, \"completion\": \"%d\", \"label\": %s}\n", prompt, c ? a + b : a * b, c ? "true" : "false" > (dir "/labelled.jsonl") } }'
cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/none, seed: 5, threads: 1, device: cpu}
model: {config: $here/inputs/quickstart/config.json, tokenizer: $here/inputs/quickstart/tokenizer.json}
train: {steps: 1, learning_rate: 1e-3}
checkpoint: {save_final: false}
EOF
sed 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 1/' "$here/inputs/quickstart/config.json" > "$dir/small.json"
cat > "$dir/recurrent.json" <<EOF
{"model_type": "qwen3_5_text", "vocab_size": 257, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
 "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 24, "max_position_embeddings": 32, "initializer_range": 0.1,
 "eos_token_id": 256, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12}
EOF
launch 1 "$dir/judge" algo.name=rm data.train="$dir/pairs.jsonl" model.config="$dir/small.json" train.train_batch_size=8 \
  train.micro_batch_size=8 checkpoint.save_final=true

# A row has a word of each list. It is the best of 60 drawn mixes of the later words, by their pairs with all words before them.
rows() {
  awk -v count="$count" -v names="$names" '
    function draw(n) { seed = (seed * 1103515245 + 12345) % 2147483648; return int(seed / 65536) % n + 1 }
    function words(text) { lists++; size[lists] = split(text, w, " "); for (i in w) word[lists, i] = w[i] }
    function fresh(a,  i, j, n) { for (i in a) for (j in a) n += i + 0 < j + 0 && !((i, a[i], j, a[j]) in seen); return n }
    BEGIN {
      words(names)
      words("000 001 002 011 012 022 111 112 122 222")   # params, grads, optimizer
      words("1:1 2:1 2:2 4:1 4:2 4:4 3:1")               # ranks, of a node
      words("f32 bf16 fp16"); words("none layer"); words("none optimizer frozen all"); words("full lora"); words("0 0.5")
      words("exact rescore trust"); words("free held"); words("rule judge"); words("same small"); words("micro tokens"); words("0 96") # cached tokens
      words("1 2 all") # ranks of a model, where a node has as many and weights are sharded
      words("dense recurrent") # layers of the policy. Ranks cannot divide recurrent ones
      for (k = 0; k < count; k++) {
        best = -1
        for (try = 0; try < 60; try++) {
          for (f = 1; f <= lists; f++) a[f] = f <= 3 ? k % size[f] + 1 : draw(size[f])
          n = fresh(a)
          if (n > best) { best = n; for (f in a) top[f] = a[f] }
        }
        line = ""
        for (f = 1; f <= lists; f++) { line = line word[f, top[f]] " "; for (g = f + 1; g <= lists; g++) if (!((f, top[f], g, top[g]) in seen)) {
          seen[f, top[f], g, top[g]]; pairs++ } }
        print line
      }
      for (f = 1; f <= lists; f++) for (g = f + 1; g <= lists; g++) all += size[f] * size[g]
      printf "planned: %d of the %d pairs of values are in %d rows\n", pairs, all, count > "/dev/stderr"
    }'
}

scope=(none node world)
deck_of() { # a row's words: of=
  local as=$1 plan=$2 node=${3#*:} type=$4 recompute=$5 offload=$6 lora=$7 ema=$8
  shift 8
  local sampler=$1 ref=$2 judge=$3 critic=$4 batch=$5 cached=$6 tensor=$7 layers=$8 rewards="{name: regex, pattern: '[0-4]'}" frozen=0
  of=(algo.name="$as" shard.params="${scope[${plan:0:1}]}" shard.grads="${scope[${plan:1:1}]}" shard.optimizer="${scope[${plan:2:1}]}"
    run.ranks_per_node="$node" model.dtype="$type" model.recompute="$recompute" algo.ema_beta="$ema")
  [ "$tensor" != all ] || tensor=$node
  [ "$layers" = dense ] || { tensor=1 && of+=(model.config="$dir/recurrent.json"); }
  [ "${plan:0:1}" = 0 ] || [ "$tensor" -gt "$node" ] || of+=(shard.tensor_parallel_size="$tensor")
  [ "$lora" = full ] || of+=(lora.rank=4)
  if [ "$batch" = micro ]; then of+=(train.micro_batch_size=2); else of+=(train.max_tokens_per_gpu=40); fi
  case $as in
  sft) of+=(data.train="$dir/data.jsonl" data.completion_key=answer train.train_batch_size=24) ;;
  rm) of+=(data.train="$dir/pairs.jsonl" train.train_batch_size=24) ;;
  dpo | kto) frozen=1 && of+=(data.train="$dir/$([ "$as" = dpo ] && echo pairs || echo labelled).jsonl" train.train_batch_size=24) ;;
  *)
    of+=(data.train="$dir/data.jsonl" algo.num_generations=2 rollout.rollout_batch_size=12 rollout.max_response_length=4 run.sampler="$sampler"
      rollout.max_cached_tokens="$cached")
    [ "$ref" = free ] || { frozen=1 && of+=(algo.kl_coef=0.01); }
    [ "$judge" = rule ] || { frozen=1 && rewards+=", {name: model, path: $dir/judge}"; }
    [ "$as:$critic" != ppo:small ] || of+=(critic.path="$dir/judge")
    of+=("reward=[$rewards]")
    ;;
  esac
  [ "$lora" = full ] || [ "$frozen:$judge" != 1:rule ] || frozen=0 # the reference is the model without its adapters
  case $offload:$frozen:$as in frozen:0:* | frozen:*:rm | frozen:*:sft) ;; *) of+=(shard.offload="$offload") ;; esac
}

number() { sed -n "\$s/.*\"$1\": \([0-9]*\).*/\1/p" "$2"; }
done_=0
while read -r -u 3 -a row; do
  n=${row[2]%:*}
  deck_of "${row[@]}"
  rm -rf "$dir/now"
  "$program" plan "$dir/deck.yaml" run.output="$dir/now" "${of[@]}" --gpus-per-node "$n" --json > "$dir/plan.json" 2> "$dir/log" ||
    { cat "$dir/log"; echo "planned: ${row[*]}: no plan"; exit 1; }
  launch "$n" "$dir/now" "${of[@]}"
  said=$(number mem_planned_bytes "$dir/plan.json") took=$(number mem_planned_bytes "$dir/now/metrics.jsonl")
  used=$(number mem_used_bytes "$dir/now/metrics.jsonl") device=$(number device_bytes "$dir/plan.json")
  here_bytes=$(device_planned "$dir/now")
  [ -n "$said" ] && [ "$said:$said:$device" = "$took:$used:$here_bytes" ] || {
    echo "planned: ${row[*]}: $said bytes, $device of the device, are planned; the run planned $took and $here_bytes, and used $used"; exit 1; }
  done_=$((done_ + 1))
done 3< <(rows)
[ "$done_" = "$count" ] || { echo "planned: $done_ of $count rows"; exit 1; }
echo "planned: $count runs take what was planned"
