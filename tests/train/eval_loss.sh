#!/bin/bash
# eval_loss.sh - evaluates held-out lines by the loss of each algorithm that learns from given answers.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/eval_loss.sh PROGRAM RANKS OTHER ...
#
# Judges: the same evaluation on other numbers of ranks, in other passes and with another batch, to the bit. TRL's evaluations.
# The tokens' log-probabilities of trireme score. exp. For trireme eval, the run's own last evaluation. The plan's bytes.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
fail() { cat "$dir/log"; echo "eval_loss: $*"; exit 1; }
value() { # output folder, metric, step; as written
  sed -n "/^{\"step\": $3,/s/.*\"$2\": \\([^,}]*\\).*/\\1/p" "$1/metrics.jsonl"
}
near() { # number, number, relative error
  [ -n "$1" ] && awk -v x="$1" -v y="$2" -v e="$3" 'BEGIN { d = x - y; exit !(d * d <= e * e * x * x) }'
}
awk 'BEGIN { for (i = 0; i < 67; i++) { a = i % 9; b = i % 7
  printf "{\"prompt\": \"%d+%d=\", \"completion\": \"%d\", \"answer\": \"%d\", \"chosen\": \"%d\", \"rejected\": \"%d%s\", \"label\": %s}\n",
    a, b, a + b, a + b, a + b, i % 5, i % 3 ? "" : "000", i % 2 ? "true" : "false" } }' > "$dir/all.jsonl"
lines() { # form
  case $1 in
  sft) sed 's/, "chosen".*/}/' ;;
  kto) sed -e 's/, "answer".*"label"/, "label"/' ;;
  *) sed -e 's/, "completion".*"chosen"/, "chosen"/' -e 's/, "label".*/}/' ;;
  esac < "$dir/all.jsonl" > "$dir/$1.jsonl"
}
cat > "$dir/deck.yaml" <<END
run: {output: $dir/none, seed: 5, ranks_per_node: 1, threads: 1}
model: {config: $here/inputs/quickstart/config.json, tokenizer: $here/inputs/quickstart/tokenizer.json, dtype: f32}
train: {steps: 2, learning_rate: 1e-3}
eval: {steps: 1}
checkpoint: {save_steps: 0}
END
one="train.train_batch_size=4 train.micro_batch_size=1" other="train.train_batch_size=12 train.max_tokens_per_gpu=64"
evals() { head -n 1 "$1/metrics.jsonl" | grep -o '"eval_[a-z0-9_]*": [^,}]*'; } # output folder: before step 1

for algo in sft rm dpo kto; do
  lines $algo
  of="algo.name=$algo data.train=$dir/$algo.jsonl data.eval=$dir/$algo.jsonl"
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/$algo" $of $one
  for step in 0 1 2; do [ -n "$(value "$dir/$algo" eval_loss $step)" ] || fail "$algo: no eval_loss in the line of step $step"; done
  [ $algo = sft ] && wanted=eval_perplexity || wanted='eval_accuracy eval_margin_mean'
  for m in $wanted; do [ -n "$(value "$dir/$algo" "$m" 0)" ] || fail "$algo: no $m"; done
  [ "$(grep '"event": "eval"' "$dir/$algo/run.jsonl" | grep -c "\"eval_loss\": ")" = 3 ] || fail "$algo: run.jsonl has not three evaluations"
  evals "$dir/$algo" > "$dir/want"
  # shellcheck disable=SC2086
  for k in "$ranks" "$@"; do
    launch "$k" "$dir/$algo-$k" $of $other
    evals "$dir/$algo-$k" | diff "$dir/want" - || fail "$algo: $k ranks, other batches and passes evaluate differently"
  done
done

# SFT takes the mean over all tokens of all lines, of each set over its own tokens, and its exponential.
near "$(value "$dir/sft" eval_perplexity 2)" "$(value "$dir/sft" eval_loss 2 | awk '{ printf "%.17g", exp($1) }')" 1e-12 ||
  fail "eval_perplexity is not exp(eval_loss)"
awk 'BEGIN { srand(3); for (i = 0; i < 30; i++) { n = 3 + i % 11; p = i % 3; printf "{\"tokens\": ["
  for (k = 0; k < n; k++) printf "%s%d", k ? ", " : "", 33 + int(rand() * 60)
  printf "], \"prompt_tokens\": %d}\n", p } }' > "$dir/ids.jsonl"
head -n 13 "$dir/ids.jsonl" > "$dir/a.jsonl"
tail -n 17 "$dir/ids.jsonl" > "$dir/b.jsonl"
of="algo.name=sft data.train=$dir/ids.jsonl"
# shellcheck disable=SC2086
launch "$ranks" "$dir/ids" $of $one "data.eval=[$dir/a.jsonl,$dir/b.jsonl]" 'data.eval_names=[a,b]' checkpoint.keep_best=eval_b_loss
mean() { # file. score prints as few digits as tell two f32 apart, so each number is rounded to f32 first
  "$program" score "$dir/ids" "$1" --dtype f32 --json 2> "$dir/log" | paste -d '\t' - "$1" | awk -F '\t' '
    function f32(v,  step) { # v > 0
      step = 1; while (v / step >= 2 ^ 24) step *= 2; while (v / step < 2 ^ 23) step /= 2
      return int(v / step + 0.5) * step }
    { lp = $1; sub(/.*"logprobs": \[/, "", lp); sub(/\].*/, "", lp); n = split(lp, x, ", ")
      p = $2; sub(/.*"prompt_tokens": /, "", p); p += 0
      for (k = (p > 1 ? p : 1) + 1; k <= n; k++) { sum += f32(-x[k]); of++ } } END { printf "%.12g", sum / of }'
}
near "$(value "$dir/ids" eval_loss 2)" "$(mean "$dir/ids.jsonl")" 1e-9 || fail "eval_loss is not the mean over tokens of score's: $(mean "$dir/ids.jsonl")"
near "$(value "$dir/ids" eval_b_loss 2)" "$(mean "$dir/b.jsonl")" 1e-9 || fail "eval_b_loss is not that of its set"
[ "$(readlink "$dir/ids/checkpoints/BEST")" = step-00000002 ] || fail "the least eval_b_loss is not kept"

# With rewards, lines with answers are evaluated by loss and by rewards, and prompts alone only by rewards.
both="rollout.max_response_length=4 eval.max_prompts=9"
of="algo.name=sft data.train=$dir/sft.jsonl"
# shellcheck disable=SC2086
{
  launch "$ranks" "$dir/both" $of $one $both "data.eval=$dir/sft.jsonl" 'reward=[{name: exact}]'
  launch "$ranks" "$dir/lines" $of $one eval.max_prompts=9 "data.eval=$dir/sft.jsonl"
  launch "$ranks" "$dir/prompts" $of $one $both "data.eval=$dir/data.jsonl" 'reward=[{name: exact}]'
}
for step in 0 2; do
  [ -n "$(value "$dir/both" eval_pass_at_1 $step)" ] && [ "$(value "$dir/both" eval_loss $step)" = "$(value "$dir/lines" eval_loss $step)" ] ||
    fail "answers and loss of step $step"
  [ -n "$(value "$dir/prompts" eval_pass_at_1 $step)" ] && [ -z "$(value "$dir/prompts" eval_loss $step)" ] || fail "prompts alone"
done
# trireme eval of a run repeats its last evaluation digit by digit, on any number of ranks.
again() { # run, the folder that is given, ranks
  # shellcheck disable=SC2086
  mpirun $root --oversubscribe -n "$3" "$program" eval "$2" --json > "$dir/said" 2> "$dir/log" || fail "trireme eval $2"
  tail -n 1 "$1/metrics.jsonl" | grep -o '"eval_[a-z0-9_]*": [^,}]*' | sed 's/"eval_/"/' > "$dir/want"
  [ "$(wc -l < "$dir/want")" -ge 3 ] || fail "$1 has no evaluation"
  while read -r one; do grep -qF "$one" "$dir/said" || fail "trireme eval $2 on $3 ranks has no $one but $(cat "$dir/said")"; done < "$dir/want"
}
echo 'exec sed -u -E "s/.*\"id\": *([0-9]+).*/{\"id\": \1, \"reward\": 0.25, \"words\": 3}/"' > "$dir/reply.sh"
of="data.train=$dir/data.jsonl data.eval=$dir/data.jsonl eval.max_prompts=11 rollout.max_response_length=4 rollout.rollout_batch_size=4 train.train_batch_size=16"
# shellcheck disable=SC2086
{
  launch "$ranks" "$dir/grpo" algo.name=grpo algo.num_generations=4 $of eval.num_generations=3 eval.temperature=0.7 run.seed=11 \
    "reward=[{name: regex, pattern: '[0-4]'}, {name: exact, weight: 0.5}, {name: process, command: [sh, $dir/reply.sh]}]" train.max_tokens_per_gpu=256 lora.rank=2
  launch "$ranks" "$dir/ppo" algo.name=ppo algo.num_generations=4 $of "reward=[{name: model, path: $dir/rm}, {name: number}]" \
    model.dtype=bf16 model.config=null model.tokenizer=null model.path="$dir/sft" train.micro_batch_size=4
  launch "$ranks" "$dir/dpo-lora" algo.name=dpo data.train="$dir/dpo.jsonl" data.eval="$dir/dpo.jsonl" $one model.config=null \
    model.tokenizer=null model.path="$dir/sft" lora.rank=2 model.dtype=bf16
}
again "$dir/grpo" "$dir/grpo" 1
grep -q '"reward_process_words": 3' "$dir/said" || fail "a further number of a reward's replies is left out"
again "$dir/grpo" "$dir/grpo/checkpoints/step-00000002" 3
again "$dir/ppo" "$dir/ppo" 2
for name in both sft rm dpo dpo-lora kto; do again "$dir/$name" "$dir/$name" 1; done
again "$dir/kto" "$dir/kto" 3
grep -q '"step": 2, "lines": 67, "loss": ' "$dir/said" || fail "no step, no lines"
[ -e "$dir/kto/log.txt" ] && ! grep -q 'trireme eval' "$dir/kto/log.txt" && [ "$(wc -l < "$dir/kto/metrics.jsonl")" = 3 ] || fail "the run's own files are written"

# Evaluations of TRL's trainers on the same lines and models (make_eval_golden.py). TRL takes all lines in one batch, this run
# two.
gold=$here/tests/data/eval
golden() { # algorithm, metric
  sed "s/.*\"$1\":{\([^}]*\)}.*/\1/" "$gold/golden.json" | tr , '\n' | sed -n "s/^\"$2\"://p"
}
close() { # numbers: f32 against f64, at most 1e-6 apart, of what is above 1 relatively
  [ -n "$1" ] && awk -v x="$1" -v y="$2" 'BEGIN { d = x - y; m = y * y > 1 ? y * y : 1; exit !(d * d <= 1e-12 * m) }'
}
for algo in sft rm dpo kto; do
  case $algo in sft) data=sft model=llama ;; rm) data=pairs model=llama_score ;; dpo) data=pairs model=llama ;; *) data=labelled model=llama ;; esac
  of="algo.name=$algo data.train=$gold/$data.jsonl data.eval=$gold/$data.jsonl model.config=null model.tokenizer=null model.path=$here/tests/data/model/$model"
  case $algo in dpo | kto) of="$of model.ref_path=$here/tests/data/model/qwen2" ;; esac
  # shellcheck disable=SC2086
  launch "$ranks" "$dir/gold-$algo" $of train.train_batch_size=2 train.micro_batch_size=1 train.steps=1 checkpoint.save_final=false
  names=$(sed "s/.*\"$algo\":{\([^}]*\)}.*/\1/" "$gold/golden.json" | grep -o 'eval_[a-z_]*')
  for m in $names; do
    close "$(value "$dir/gold-$algo" "$m" 0)" "$(golden $algo "$m")" || fail "$algo: $m is $(value "$dir/gold-$algo" "$m" 0), TRL's $(golden $algo "$m")"
  done
  [ "$(echo "$names" | wc -w)" -ge 2 ] || fail "no golden numbers of $algo"
done

# trireme score of completions, with the mean eval_loss, and of pairs, also by a reward model, with the margins' mean
# eval_margin_mean.
score() { "$program" score "$@" --dtype f32 > "$dir/said" 2> "$dir/log" || fail "trireme score $*"; } # arguments
mean_of() { # field, field that divides; or 1: lines
  awk -v a="\"$1\": " -v b="\"$2\": " -v by="$2" '{ x = $0; sub(".*" a, "", x); sum += x; if (by == 1) n++; else { x = $0; sub(".*" b, "", x); n += x } }
    END { printf "%.15g", sum / n }' "$dir/said"
}
score "$dir/sft" "$dir/sft.jsonl"
near "-$(value "$dir/sft" eval_loss 2)" "$(mean_of completion_logprob completion_tokens)" 1e-12 || fail "score of completions: $(mean_of completion_logprob completion_tokens)"
grep -q "67 .* perplexity $(value "$dir/sft" eval_perplexity 2 | cut -c 1-6)" "$dir/log" || fail "the perplexity of completions"
score "$dir/rm" "$dir/rm.jsonl"
near "$(value "$dir/rm" eval_margin_mean 2)" "$(mean_of margin 1)" 1e-9 || fail "score of pairs by a reward model: $(mean_of margin 1)"
grep -q "67 .* accuracy $(value "$dir/rm" eval_accuracy 2 | cut -c 1-6)" "$dir/log" || fail "the accuracy of pairs"
score "$dir/dpo" "$dir/dpo.jsonl"
margin=$(mean_of margin 1) both=
for side in chosen rejected; do
  score "$dir/dpo" "$dir/dpo.jsonl" --completion-key $side
  both="$both $(mean_of completion_logprob 1)"
done
near "$margin" "$(echo "$both" | awk '{ printf "%.15g", $1 - $2 }')" 1e-9 || fail "the margin of pairs is $margin, their sides $both"

# A flag replaces its key. A flag without effect is refused. Equal answers are reported.
"$program" eval "$dir/ids" --data "$dir/b.jsonl" --json > "$dir/said" 2> "$dir/log" || fail "eval --data"
grep -qF "\"loss\": $(value "$dir/ids" eval_b_loss 2)," "$dir/said" || fail "--data is not the set's"
"$program" eval "$dir/grpo" --temperature 0 --reward exact --output "$dir/answers.jsonl" > "$dir/said" 2> "$dir/log" || fail "eval --output"
[ "$(grep -c warning: "$dir/log")" -ge 1 ] && [ "$(wc -l < "$dir/answers.jsonl")" = 33 ] || fail "three equal answers each"
code=0
"$program" eval "$dir/dpo" --num 2 > "$dir/said" 2> "$dir/log" || code=$?
[ $code = 64 ] || fail "--num of a run that makes no answers: exit code $code"
code=0
"$program" eval "$dir/grpo" --pattern x > "$dir/said" 2> "$dir/log" || code=$?
[ $code = 64 ] || fail "--pattern without a reward: exit code $code"

for algo in sft rm dpo kto; do # the plan has the memory of evaluations
  of="algo.name=$algo data.train=$dir/$algo.jsonl data.eval=$dir/$algo.jsonl"
  # shellcheck disable=SC2086
  "$program" plan "$dir/deck.yaml" $of $other run.output="$dir/none" --nodes "$ranks" --gpus-per-node 1 --json > "$dir/plan" 2> "$dir/log" ||
    fail "no plan for $algo"
  want=$(sed 's/.*"mem_planned_bytes": \([0-9]*\).*/\1/' "$dir/plan")
  [ "$(value "$dir/$algo-$ranks" mem_planned_bytes 2)" = "$want" ] || fail "$algo: the plan says $want bytes, the run $(value "$dir/$algo-$ranks" mem_planned_bytes 2)"
done
echo "eval_loss: sft, rm, dpo, kto alike on $ranks and $* ranks, in any passes"
