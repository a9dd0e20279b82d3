#!/bin/bash
# every_algo.sh - runs every algorithm on several numbers of ranks, plans and micro-batches, and resumes it, for equal numbers.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/every_algo.sh PROGRAM 4 all|ways|pages|NAME ...    judged: PPO on a reward model's scores, with a smaller critic
#                                                                  lora-NAME: with low-rank adapters and their average
#                                                                  recurrent-NAME: of the family qwen3_5
#
#   all: every algorithm. ways: algorithms with a path of their own through the code on ranks and plans. The others only run
#   --check. They differ from GRPO in formulas, and tests/algo/ and test_steps have goldens for these. remax also differs in
#   its greedy answers (greedy.sh). pages: only the runs with few pages below, of every algorithm.
#   ALL=1: each of 1, 2, 4 ranks x two plans x two micro-batch sizes, else four of them.
#
# Then log.txt is emptied, so that watch, report and show have only run.jsonl, and the run is resumed in that folder.
# Judge: every number of each step, except times, memory and rates, within 1e-5 of a run on one rank, or within 1e-6 near 0. The
# sampler's gap is 0. Memory is used as planned, to the byte of trireme plan. A run resumed from its second step, with its state
# in host memory, has the rest of the lines bit for bit.
#
# The last way of algorithms that generate runs again with models of two ranks (shard.tensor_parallel_size), and so does the
# resumed run. Judge: the numbers, the answers and the state of the run without, bit for bit.
#
# Recurrent layers are not divided: there the judge is that trireme plan refuses it.
#
# Then the algorithms that generate answers run with long ones, with a key/value cache for all of them and with a third of its pages.
# The second run computes tokens again. Judge: it has the answers, the checkpoint and the numbers of the first one bit for bit, except
# for the counts of preempted answers and recomputed tokens. Of the ways only some do this, because cache.sh does so with GRPO.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2

known=$("$program" train --options --json | sed -n '1s/.*"algorithms": \[\([^]]*\)\].*/\1/p' | tr -d ',"')
[ -n "$known" ] || { echo "every_algo: the program names no algorithms"; exit 1; }
checked='' pages='' ways="1:zero0:4:1 2:zero3:2:1 4:hybrid:4:2"
[ -z "${ALL-}" ] || ways="1:zero0:4:1 1:zero3:2:1 2:zero0:2:1 2:zero0:4:1 2:zero3:2:1 2:zero3:4:1 4:zero0:2:1 4:zero0:4:1 4:hybrid:2:2 4:hybrid:4:2"
case $1 in
all) set -- $known judged lora-ppo lora-dpo lora-rm && pages=$* ;;
ways) checked=$known pages='judged lora-ppo' && set -- sft rm dpo kto grpo judged lora-ppo recurrent-dpo recurrent-judged recurrent-lora-ppo ;;
pages) set -- $known judged lora-ppo && pages=$* ways='' ;;
*) pages=$* ;;
esac

awk -v dir="$dir" 'BEGIN { srand(1); for (i = 0; i < 512; i++) { a = int(rand() * 10); b = int(rand() * 10); c = rand() < 0.5
  prompt = sprintf("\"prompt\": \"%d+%d=\"", a, b)
  printf "{%s, \"answer\": \"%d\"}\n", prompt, a + b > (dir "/data.jsonl")
  printf "{%s, \"chosen\": \"%d\", \"rejected\": \"%d\", \"margin\": %.2f}\n", prompt, a + b, a + b + 1 + c, c / 4 > (dir "/pairs.jsonl")
  printf "{%s, \"completion\": \"%d\", \"label\": %s}\n", prompt, c ? a + b : a * b, c ? "true" : "false" > (dir "/labelled.jsonl") } }'
write_long
write_recurrent
cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/none, seed: 5, threads: 1}
model: {config: $dir/long.json, tokenizer: $here/inputs/quickstart/tokenizer.json, dtype: f32}
train: {steps: 4, train_batch_size: 16, learning_rate: 1e-2, adam_eps: 1e-3} # so large that rounding near 0 does not grow
checkpoint: {save_steps: 2, save_total_limit: 4}
EOF

numbers_differ() { # folder, folder: says which number of which step
  paste -d '\n' <(numbers "$1") <(numbers "$2") | awk '
    function abs(x) { return x < 0 ? -x : x }
    NR % 2 { before = $0; next }
    { n = split(before, a, /, "|: /); m = split($0, b, /, "|: /)
      if (n != m) { print "other metrics: " before " and " $0; exit }
      for (i = 1; i <= n; i++) if (a[i] + 0 != b[i] + 0 || (a[i] + 0 == 0 && a[i] != b[i])) {
        x = a[i] + 0; y = b[i] + 0
        if (abs(x - y) > 1e-5 * (abs(x) > abs(y) ? abs(x) : abs(y)) + 1e-6) { print "line " NR / 2 ": " a[i - 1] ": " a[i] " and " b[i]; exit } }
      lines++ }
    END { if (!lines) print "no lines" }'
}

planned() { # ranks, key=value ...: bytes of a rank, as trireme plan says before the run
  n=$1
  shift
  "$program" plan "$dir/deck.yaml" run.output="$dir/now" "$@" --gpus-per-node "$n" --device cpu --json 2> "$dir/log" |
    sed 's/.*"mem_planned_bytes": \([0-9]*\),.*/\1/'
}

# A reward model, and a critic of another size than the policy, whose config.json is given.
make_models() {
  launch 1 "$dir/judge" algo.name=rm model.config="$1" data.train="$dir/pairs.jsonl" train.micro_batch_size=4
  sed -E 's/("num_hidden_layers": *)[0-9]*/\11/; s/("layer_types": \["linear_attention")[^]]*/\1/' "$1" > "$dir/small.json"
  launch 1 "$dir/small" algo.name=rm data.train="$dir/pairs.jsonl" model.config="$dir/small.json" train.steps=1 train.micro_batch_size=4
}

of_name() { # name: sets as and of, its key=value
  as=${1#recurrent-}
  as=${as#lora-}
  case $as in
  judged)
    rm -rf "$dir/judge" "$dir/small"
    case $1 in recurrent-*) make_models "$dir/recurrent.json" ;; *) make_models "$dir/long.json" ;; esac
    as=ppo of=("data.train=$dir/data.jsonl" rollout.rollout_batch_size=16 rollout.max_response_length=4 rollout.save_every=4
      critic.warmup_steps=1
      run.collectives=mpi # so that ranks of a node share no weights, and models of two ranks gather their slices
      "reward=[{name: model, path: $dir/judge}, {name: regex, pattern: '[0-4]'}]" critic.path="$dir/small" critic.shard=zero1
      "data.eval=$dir/data.jsonl" eval.steps=2 eval.max_prompts=8)
    ;;
  sft) of=("data.train=$dir/data.jsonl" data.completion_key=answer "data.eval=$dir/data.jsonl" eval.steps=2 eval.max_prompts=24) ;;
  rm | dpo) of=("data.train=$dir/pairs.jsonl" "data.eval=$dir/pairs.jsonl" eval.steps=2 eval.max_prompts=24) ;;
  kto) of=("data.train=$dir/labelled.jsonl" "data.eval=$dir/labelled.jsonl" eval.steps=2 eval.max_prompts=24) ;;
  *) of=("data.train=$dir/data.jsonl" algo.num_generations=4 rollout.rollout_batch_size=8 rollout.max_response_length=4 rollout.save_every=4
    "data.eval=$dir/data.jsonl" eval.steps=2 eval.max_prompts=8 "reward=[{name: regex, pattern: '[0-4]'}]" algo.kl_coef=0.01) ;;
  esac
  [[ $1 != *lora-* ]] || of+=(lora.rank=4 lora.alpha=8 algo.ema_beta=0.5)
  [[ $1 != recurrent-* ]] || of+=(model.config="$dir/recurrent.json")
}

# Programs report a run with an empty log.txt: its end, its start, its evaluations, its answers.
look() { # output folder, algorithm, step, starts
  local shown
  : > "$1/log.txt"
  shown=$("$program" watch "$1" --json) || return 1
  for word in '"state": "finished"' "\"algo\": \"$2\"" "\"step\": $3, " "\"starts\": $4, " '"bad_events": 0, "end": {"state": "finished", "exit_code": 0, '; do
    [[ $shown = *"$word"* ]] || { echo "watch does not say $word: $shown"; return 1; }
  done
  shown=$("$program" report "$1" --json) || return 1
  [[ $shown = *"\"state\": \"finished\""*"\"ranks\": $n,"* ]] || { echo "report does not say finished on $n ranks: $shown"; return 1; }
  "$program" report "$1" --html "$1/page.html" > /dev/null 2>&1 && grep -q 'policy weights' "$1/page.html" || { echo "the page has no memory plan"; return 1; }
  [ "$(grep -c '"eval_' "$1/metrics.jsonl")" = 3 ] || { echo "it has not evaluated before, between and after its steps"; return 1; }
  [ "$(grep '"event": "eval"' "$1/run.jsonl" | grep -o '"step": [0-9]*' | tr -dc '0-9\n' | paste -sd ' ')" = "$5" ] ||
    { echo "run.jsonl has other evaluations than of the steps $5"; return 1; }
  if [ -d "$1/rollouts" ]; then "$program" show "$1" --json | grep -q '"response"' || { echo "show has no answers"; return 1; }; fi
}

# Compares a run with a third of the pages with one with all.
check_few_pages() { # name
  local third again long=("${of[@]/max_response_length=4/max_response_length=90}")
  long=(algo.name="$as" "${long[@]/save_every=4/save_every=1}" train.steps=2 train.micro_batch_size=4 run.ranks_per_node=2 shard.plan=hybrid)
  [[ "${of[*]}" = *rollout.max_response_length=* ]] || { echo "every_algo: $1: generates nothing"; return 0; }
  rm -rf "$dir/pages" "$dir/few"
  "$program" plan "$dir/deck.yaml" run.output="$dir/few" "${long[@]}" --gpus-per-node "$ranks" --device cpu --json > "$dir/plan" 2> "$dir/log" ||
    { cat "$dir/log"; echo "$1: no plan"; return 1; }
  third=$(sed -n 's/.*"cached_tokens": \([0-9]*\).*/\1/p' "$dir/plan")
  third=$((third / 96 * 32)) # whole pages
  launch "$ranks" "$dir/pages" "${long[@]}"
  launch "$ranks" "$dir/few" "${long[@]}" rollout.max_cached_tokens="$third"
  [ "$(sum recomputed_tokens "$dir/pages/metrics.jsonl")" = 0 ] || { echo "$1: tokens are computed again with all pages"; return 1; }
  again=$(sum recomputed_tokens "$dir/few/metrics.jsonl")
  [ "$again" -gt 0 ] || { echo "$1: no token is computed again with $third tokens cached"; return 1; }
  diff <(numbers "$dir/pages" | drop_preempted) <(numbers "$dir/few" | drop_preempted) || { echo "$1: few pages, other numbers"; return 1; }
  for file in rollouts/step-00000001.jsonl rollouts/step-00000002.jsonl checkpoints/step-00000002/state.h5; do
    cmp "$dir/pages/$file" "$dir/few/$file" || { echo "$1: few pages, another $file"; return 1; }
  done
  echo "every_algo: $1: equal with $third tokens cached, $again computed again"
}

tells_memory() { # way: planned memory is that of trireme plan, and is used
  grep -q "\"mem_planned_bytes\": $planned," "$dir/now/metrics.jsonl" || { echo "$name: $1: trireme plan says $planned bytes, the run took others"; return 1; }
  ! sed -E 's/.*"mem_planned_bytes": ([0-9]*), "mem_used_bytes": ([0-9]*).*/\1 \2/' "$dir/now/metrics.jsonl" |
    awk '$1 != $2 { bad = 1 } END { exit !bad }' || { echo "$name: $1: planned memory is not used"; return 1; }
}

# Compares the state of two runs in step 4. In models of two ranks a rank stores other pieces of the matrices, so the files list other
# pieces with their hashes. Therefore one rank goes on from each file, and what it writes is compared.
same_state() { # folder, folder, key=value ...
  local runs=("$1" "$2") k n
  shift 2
  for k in 0 1; do
    rm -rf "$dir/on" && cp -r "${runs[k]}" "$dir/on"
    launch 1 "$dir/on" "$@" train.steps=5 checkpoint.save_steps=1 || return 1
    mv "$dir/on/checkpoints/step-00000005/state.h5" "$dir/state.$k"
  done
  cmp "$dir/state.0" "$dir/state.1"
}

# Compares a run of models of two ranks with the run before.
check_divided() { # key=value ...
  local file=rollouts/step-00000004.jsonl
  rm -rf "$dir/whole" && mv "$dir/now" "$dir/whole"
  planned=$(planned "$ranks" "$@" shard.tensor_parallel_size=2)
  launch "$ranks" "$dir/now" "$@" shard.tensor_parallel_size=2
  tells_memory "models of two ranks" || return 1
  diff <(numbers "$dir/whole") <(numbers "$dir/now") || { echo "$name: models of two ranks, other numbers"; return 1; }
  cmp "$dir/whole/$file" "$dir/now/$file" || { echo "$name: models of two ranks, another $file"; return 1; }
  same_state "$dir/whole" "$dir/now" "$@" || { echo "$name: models of two ranks, another state"; return 1; }
  rm -rf "$dir/now" && mv "$dir/whole" "$dir/now"
}

for name in $checked; do
  of_name "$name"
  "$program" train "$dir/deck.yaml" algo.name="$as" "${of[@]}" --check > "$dir/log" 2>&1 ||
    { cat "$dir/log"; echo "every_algo: $name: --check refuses it"; exit 1; }
done
[ -z "$checked" ] || echo "every_algo: $(echo "$checked" | wc -w) names pass --check"

for name in "$@"; do
  of_name "$name"
  [[ " $pages " != *" $name "* ]] || check_few_pages "$name" || exit 1
  [ -n "$ways" ] || continue
  for way in $ways; do
    IFS=: read -r ranks plan micro node <<< "$way"
    rm -rf "$dir/now"
    planned=$(planned "$ranks" algo.name="$as" "${of[@]}" shard.plan="$plan" train.micro_batch_size="$micro" run.ranks_per_node="$node")
    launch "$ranks" "$dir/now" algo.name="$as" "${of[@]}" shard.plan="$plan" train.micro_batch_size="$micro" run.ranks_per_node="$node"
    ! grep -q '"sampler_gap_max_nats": [^0]' "$dir/now/metrics.jsonl" || { echo "$name: $way: the sampler's gap is not 0"; exit 1; }
    tells_memory "$way" || exit 1
    if [ "$way" = "${ways%% *}" ]; then rm -rf "$dir/first"; cp -r "$dir/now" "$dir/first"; fi
    differs=$(numbers_differ "$dir/first" "$dir/now")
    [ -z "$differs" ] || { echo "$name: $way: not as on one rank: $differs"; exit 1; }
  done
  divided=()
  if [[ $name = recurrent-* && "${of[*]}" = *rollout.max_response_length=* ]]; then
    "$program" plan "$dir/deck.yaml" run.output="$dir/none" algo.name="$as" "${of[@]}" shard.tensor_parallel_size=2 --gpus-per-node 4 \
      --device cpu > "$dir/log" 2>&1 && { echo "$name: models of two ranks are not refused"; exit 1; }
    grep -q 'shard.tensor_parallel_size = 2: .*recurrent layers' "$dir/log" || { cat "$dir/log"; echo "$name: another refusal"; exit 1; }
  elif [[ "${of[*]}" = *rollout.max_response_length=* ]]; then
    check_divided algo.name="$as" "${of[@]}" shard.plan="$plan" train.micro_batch_size="$micro" run.ranks_per_node="$node" || exit 1
    divided=(shard.tensor_parallel_size=2)
  fi
  if [ "$as" = ppo ] && [[ $name = *judged ]]; then # the critic and held-out scores, which are neither right nor wrong, have a column
    grep -q '"step": 1,.*"critic_learning_rate": [^0]' "$dir/now/metrics.jsonl" && [ "$(grep -c ' "learning_rate": ' "$dir/now/metrics.jsonl")" = 3 ] ||
      { echo "$name: the critic does not learn alone in step 1 of 4"; exit 1; }
    for word in ' ev ' ' eval$' 'small/checkpoints'; do
      grep -q -- "$word" "$dir/now/log.txt" || { echo "$name: the screen has no '$word'"; exit 1; }
    done
  fi
  says=$(look "$dir/now" "$as" 4 1 "0 2 4") || { echo "$name: with an empty log.txt $says"; exit 1; }
  cp -r "$dir/now" "$dir/again" && rm -r "$dir/again/checkpoints/step-00000004" && ln -sfn step-00000002 "$dir/again/checkpoints/LATEST"
  launch "$ranks" "$dir/again" algo.name="$as" "${of[@]}" shard.plan="$plan" train.micro_batch_size="$micro" run.ranks_per_node="$node" shard.offload=all "${divided[@]}"
  diff <(numbers "$dir/now" | sed -n '/"step": [34],/p') <(numbers "$dir/again" | sed -n '/"step": [34],/p') ||
    { echo "$name: resumed, other numbers"; exit 1; }
  says=$(look "$dir/again" "$as" 4 2 "0 2 4 4" && says "$dir/again" start "\"algo\": \"$as\"" '"step": 2, "steps": 4' "/again/checkpoints/step-00000002\"") ||
    { echo "$name: resumed, with an empty log.txt $says"; exit 1; }
  if [[ $name = *lora-* ]] && "$program" inspect "$dir/again" --tensors | grep 'tensors in' | grep -v /adapter/; then
    echo "$name: a checkpoint of adapters holds more than them"; exit 1
  fi
  if [ "${divided[0]:-}" ]; then
    same_state "$dir/now" "$dir/again" algo.name="$as" "${of[@]}" train.micro_batch_size="$micro" || { echo "$name: resumed, another state"; exit 1; }
  else
    cmp "$dir/now/checkpoints/step-00000004/state.h5" "$dir/again/checkpoints/step-00000004/state.h5" || { echo "$name: resumed, another state.h5"; exit 1; }
  fi
  rm -rf "$dir/again"
  echo "every_algo: $name: $(echo "$ways" | wc -w) ways equal, resumed bit for bit${divided[0]:+, also with models of two ranks}"
done
