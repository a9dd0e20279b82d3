#!/bin/bash
# eval_loss.sh - held-out lines judged by the loss of each algorithm that learns from given answers.
#
#   tests/train/eval_loss.sh PROGRAM RANKS OTHER ...
# Judges: the same evaluation on other numbers of ranks, in other passes and with another batch, to the bit; the tokens'
# log-probabilities of trireme score; exp; the words of metrics.
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
  evals "$dir/$algo" > "$dir/want"
  # shellcheck disable=SC2086
  for k in "$ranks" "$@"; do
    launch "$k" "$dir/$algo-$k" $of $other
    evals "$dir/$algo-$k" | diff "$dir/want" - || fail "$algo: $k ranks, other batches and passes evaluate differently"
  done
done

# Of supervised lines the mean over all tokens of all lines, and of each set over its own; its exponential.
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
mean() { # file
  "$program" score "$dir/ids" "$1" --dtype f32 --json 2> "$dir/log" | paste -d '\t' - "$1" | awk -F '\t' '
    { lp = $1; sub(/.*"logprobs": \[/, "", lp); sub(/\].*/, "", lp); n = split(lp, x, ", ")
      p = $2; sub(/.*"prompt_tokens": /, "", p); p += 0
      for (k = (p > 1 ? p : 1) + 1; k <= n; k++) { sum -= x[k]; of++ } } END { printf "%.12g", sum / of }'
}
near "$(value "$dir/ids" eval_loss 2)" "$(mean "$dir/ids.jsonl")" 1e-9 || fail "eval_loss is not the mean over tokens of score's: $(mean "$dir/ids.jsonl")"
near "$(value "$dir/ids" eval_b_loss 2)" "$(mean "$dir/b.jsonl")" 1e-9 || fail "eval_b_loss is not that of its set"
[ "$(readlink "$dir/ids/checkpoints/BEST")" = step-00000002 ] || fail "the least eval_b_loss is not kept"

# With rewards lines with answers are judged both ways, prompts alone by their answers.
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
for algo in sft rm dpo kto; do # the plan has the memory of evaluations
  of="algo.name=$algo data.train=$dir/$algo.jsonl data.eval=$dir/$algo.jsonl"
  # shellcheck disable=SC2086
  "$program" plan "$dir/deck.yaml" $of $other run.output="$dir/none" --nodes "$ranks" --gpus-per-node 1 --json > "$dir/plan" 2> "$dir/log" ||
    fail "no plan for $algo"
  want=$(sed 's/.*"mem_planned_bytes": \([0-9]*\).*/\1/' "$dir/plan")
  [ "$(value "$dir/$algo-$ranks" mem_planned_bytes 2)" = "$want" ] || fail "$algo: the plan says $want bytes, the run $(value "$dir/$algo-$ranks" mem_planned_bytes 2)"
done
echo "eval_loss: sft, rm, dpo, kto alike on $ranks and $* ranks, in any passes"
