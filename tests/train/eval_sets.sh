#!/bin/bash
# eval_sets.sh - evaluates several named sets, each as if it were alone, and all as if they had no names.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/eval_sets.sh PROGRAM RANKS OTHER ...
#
# Judges: runs that evaluate on the files of one set only, and on all without names. The run itself on other numbers of ranks.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
shift 2
write_deck
fail() { cat "$dir/log"; echo "eval_sets: $*"; exit 1; }
head -n 9 "$dir/data.jsonl" > "$dir/a.jsonl"
sed -n '100,130p' "$dir/data.jsonl" > "$dir/b.jsonl"
value() { # output folder, metric, step; as written
  sed -n "/^{\"step\": $3,/s/.*\"$2\": \\([^,}]*\\).*/\\1/p" "$1/metrics.jsonl"
}
same() { # output folder, metric, output folder, metric: of the evaluation before step 1
  x=$(value "$1" "$2" 0) y=$(value "$3" "$4" 0)
  [ -n "$x" ] && [ "$x" = "$y" ] || fail "$2 of ${1##*/} is '$x', $4 of ${3##*/} '$y'"
}
near() {
  x=$(value "$1" "$2" 0) y=$(value "$3" "$4" 0)
  [ -n "$x" ] && awk -v x="$x" -v y="$y" 'BEGIN { d = x - y; exit !(d * d <= 1e-10 * x * x) }' ||
    fail "$2 of ${1##*/} is '$x', $4 of ${3##*/} '$y'"
}

# Several answers to a prompt at a temperature. Random numbers are keyed by the lines' places in the concatenated files.
both="data.eval=[$dir/a.jsonl,$dir/b.jsonl]" names='data.eval_names=[sum_a,b2]'
more="train.steps=1 checkpoint.save_final=false checkpoint.save_steps=0 model.dtype=f32 eval.steps=1"
three="eval.num_generations=3 eval.temperature=1"
# shellcheck disable=SC2086
{
  launch "$ranks" "$dir/named" "$both" "$names" eval.max_prompts=8 $more $three
  launch "$ranks" "$dir/a" "data.eval=$dir/a.jsonl" eval.max_prompts=8 $more $three
  launch "$ranks" "$dir/named-all" "$both" "$names" eval.max_prompts=0 $more $three
  launch "$ranks" "$dir/all" "$both" eval.max_prompts=0 $more $three
  launch "$ranks" "$dir/greedy" "$both" "$names" eval.max_prompts=0 $more
  launch "$ranks" "$dir/greedy-b" "data.eval=$dir/b.jsonl" eval.max_prompts=0 $more
}
for m in reward_mean pass_at_1 response_length_mean_tokens pass_at_k best_at_k; do
  same "$dir/named" eval_sum_a_$m "$dir/a" eval_$m
  same "$dir/named-all" eval_$m "$dir/all" eval_$m
done
for m in reward_mean pass_at_1 response_length_mean_tokens; do same "$dir/greedy" eval_b2_$m "$dir/greedy-b" eval_$m; done
awk -v n="$(value "$dir/named" eval_reward_mean 0)" -v a="$(value "$dir/named" eval_sum_a_reward_mean 0)" \
  -v b="$(value "$dir/named" eval_b2_reward_mean 0)" 'BEGIN { d = n - (a + b) / 2; exit !(d * d < 1e-12) }' ||
  fail "eval.max_prompts is not of each set"
! grep -q 'eval_sum_a' "$dir/all/metrics.jsonl" || fail "sets without names"

# Figures of k answers. With rewards of 1 or 0 the best is pass@k. A reward by pattern has no result to vote on, a number has one.
same "$dir/named" eval_best_at_k "$dir/named" eval_pass_at_k
! grep -q majority "$dir/named/metrics.jsonl" || fail "a majority of patterns"
votes='reward=[{name: regex, pattern: "[0-4]"}, {name: number, weight: 0.5}]'
# shellcheck disable=SC2086
for n in "$ranks" "$@"; do
  launch "$n" "$dir/votes-$n" "$both" "$names" eval.max_prompts=8 $more $three "$votes"
  for m in best_at_k majority_at_k; do same "$dir/votes-$n" eval_b2_$m "$dir/votes-$ranks" eval_b2_$m; done
done
# shellcheck disable=SC2086
launch "$ranks" "$dir/one" "$both" $more "$votes"
! grep -q '_at_k' "$dir/one/metrics.jsonl" || fail "one answer is called k"
grep -q '^evaluation: sum_a (8), b2 (8), ' "$dir/named/log.txt" || fail "the start screen"
[ "$(grep -c '^  eval_\*_pass_at_1: sum_a [0-9.]* (cut [0-9.]*%), b2 [0-9.]* (cut [0-9.]*%)$' "$dir/named/log.txt")" = 2 ] || fail "the line of sets"
for n in "$@"; do
  # shellcheck disable=SC2086
  launch "$n" "$dir/on-$n" "$both" "$names" eval.max_prompts=8 $more $three
  diff <(numbers "$dir/named" | head -n 1) <(numbers "$dir/on-$n" | head -n 1) || fail "$n ranks evaluate differently"
done

# The figures of the saved answers of a step, set by set, counted by awk. Votes go by the trimmed text, as in reward exact.
# shellcheck disable=SC2086
launch "$ranks" "$dir/kept" "$both" "$names" checkpoint.save_final=false checkpoint.save_steps=0 train.steps=6 eval.steps=6 \
  eval.save=true rollout.max_response_length=1 eval.num_generations=5 eval.temperature=1 eval.max_prompts=0 \
  'reward=[{name: regex, pattern: "[0-4]"}, {name: exact, weight: 0.5}]'
for set in sum_a b2; do
  grep "\"set\": \"$set\"" "$dir/kept/eval/step-00000006.jsonl" | awk '
    { match($0, /"response": "([^"\\]|\\.)*"/); t = substr($0, RSTART + 13, RLENGTH - 14)
      gsub(/^( |\\[tnr]|\\u000[bc])+|( |\\[tnr]|\\u000[bc])+$/, "", t)
      r = $0; sub(/.*"reward": /, "", r); sub(/,.*/, "", r); q = (NR - 1) % 5; text[q] = t; got[q] = r
      if (q < 4) next
      most = 0; first = got[0]; best = got[0]
      for (i = 0; i < 5; i++) {
        if (got[i] > best) best = got[i]
        votes = 0; for (k = 0; k < 5; k++) votes += text[k] == text[i]
        if (text[i] != "" && votes > most) { most = votes; first = got[i] } }
      n++; all += best; majority += first; differ += first != best }
    END { printf "%.9f %.9f\n", all / n, majority / n; exit n > 20 && !differ }' > "$dir/want" || fail "$set: majority and best are one: $(cat "$dir/want")"
  { value "$dir/kept" eval_${set}_best_at_k 6; value "$dir/kept" eval_${set}_majority_at_k 6; } | paste -s -d ' ' |
    awk -v want="$(cat "$dir/want")" '{ split(want, w); for (i = 1; i <= 2; i++) if (($i - w[i]) ^ 2 > 1e-14) exit 1 }' ||
    fail "$set: best@k and majority@k are not $(cat "$dir/want")"
done

# By the loss of pairs, with no batch across two sets.
awk 'BEGIN { for (i = 0; i < 40; i++) printf "{\"prompt\": \"%d+%d=\", \"chosen\": \"%d\", \"rejected\": \"%d\"}\n",
  i % 9, i % 7, i % 9 + i % 7, i % 5 }' > "$dir/pairs.jsonl"
head -n 7 "$dir/pairs.jsonl" > "$dir/p.jsonl"
tail -n 10 "$dir/pairs.jsonl" > "$dir/q.jsonl"
sed -i -e "s|train: [^,]*|train: $dir/pairs.jsonl|" -e 's/^algo:.*/algo: {name: dpo}/' -e '/^rollout:/d' -e '/^reward:/d' \
  -e 's/^eval:.*/eval: {steps: 1}/' -e 's/^train:.*/train: {steps: 1, train_batch_size: 4, micro_batch_size: 1}/' "$dir/deck.yaml"
more="checkpoint.save_final=false checkpoint.save_steps=0 model.dtype=f32"
# shellcheck disable=SC2086
{
  launch "$ranks" "$dir/pairs" "data.eval=[$dir/p.jsonl,$dir/q.jsonl]" 'data.eval_names=[p,q]' $more
  launch "$ranks" "$dir/p" "data.eval=$dir/p.jsonl" $more
  launch "$ranks" "$dir/q" "data.eval=$dir/q.jsonl" $more
  launch "$ranks" "$dir/p-and-q" "data.eval=[$dir/p.jsonl,$dir/q.jsonl]" $more
}
for m in loss accuracy entropy_mean_nats; do
  near "$dir/pairs" eval_p_$m "$dir/p" eval_$m
  near "$dir/pairs" eval_q_$m "$dir/q" eval_$m
  near "$dir/pairs" eval_$m "$dir/p-and-q" eval_$m
done

# Invalid names, and sets without lines.
: > "$dir/none.jsonl"
refused() { # words, key=value ...
  words=$1
  shift
  code=0
  "$program" train "$dir/deck.yaml" run.output="$dir/refused" "$@" > "$dir/log" 2>&1 || code=$?
  [ $code = 64 ] && grep -q "$words" "$dir/log" || fail "exit code $code, not '$words'"
}
two="data.eval=[$dir/p.jsonl,$dir/q.jsonl]"
refused 'data.eval_names .*1 .* 2 ' "$two" 'data.eval_names=[p]'
refused "data.eval_names: 'P' .*32" "$two" 'data.eval_names=[q,P]'
refused 'data.eval_names: p ' "$two" 'data.eval_names=[p,p]'
refused 'none.jsonl: .* q .*data.eval_names' "data.eval=[$dir/p.jsonl,$dir/none.jsonl]" \
  'data.eval_names=[p,q]'
echo "eval_sets: each set as alone, all as without names, on $ranks and $* ranks"
