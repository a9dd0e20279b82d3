#!/bin/bash
# first_model_steps.sh - runs jobs/first_model.sh from data to exported model. Judges: the sums, each once, worked out here; held-out sums
# are not in the training data; pass@1 counted in the saved answers; the run's own evaluations; a second start finds everything done.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/jobs/first_model_steps.sh PROGRAM              a tiny model of random weights, three steps
#   tests/jobs/first_model_steps.sh PROGRAM published    the model in the folder TRI_FIRST_MODEL and the unchanged script. pass@1 is
#                                                        below 0.1 before and above 0.6 after. Exits 77 without such a folder
# ctest runs the second by name alone: TRI_FIRST_MODEL=FOLDER ctest --test-dir build/cpu-release -C nightly -R first_model_published -V
set -eu
program=$(realpath "$1")
here=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# -gt 1 ] && [ ! -f "${TRI_FIRST_MODEL:-}/config.json" ]; then
  echo "first_model: skipped: TRI_FIRST_MODEL names no folder with a model: '${TRI_FIRST_MODEL:-}'"
  exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-first.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { [ ! -f "$dir/log" ] || tail -n 40 "$dir/log"; echo "first_model: $*"; exit 1; }
export TRIREME=$program
out=$dir/out
code() { "$here/jobs/first_model.sh" "$@" > "$dir/refused" 2>&1 && echo 0 || echo $?; }
[ "$(code)" = 64 ] && [ "$(code "$dir" "$out")" = 64 ] && [ "$(TRIREME=$dir/none code "$here/inputs/models/Qwen2.5-0.5B" "$out")" = 69 ] &&
  [ ! -e "$out" ] || fail "no model, an empty folder (64) or no program (69) is not refused"

if [ $# -gt 1 ]; then
  model=$TRI_FIRST_MODEL keys=()
else
  echo '{"text": "1 + 2 = 3"}' > "$dir/lines.jsonl"
  cat > "$dir/deck.yaml" <<EOF
run: {output: $dir/made, threads: 1}
model: {config: $here/tests/data/gsm8k/config.json, tokenizer: $here/tests/data/gsm8k/tokenizer.json}
data: {train: $dir/lines.jsonl}
algo: {name: sft}
train: {steps: 1, train_batch_size: 1}
EOF
  "$program" train "$dir/deck.yaml" > "$dir/log" 2>&1 && "$program" export "$dir/made" "$dir/model" > "$dir/log" 2>&1 || fail "no tiny model"
  model=$dir/model keys=(train.steps=3 eval.steps=2 rollout.max_extra_batches=0 run.threads=1)
fi
began=$(date +%s)
"$here/jobs/first_model.sh" "$model" "$out" "${keys[@]}" > "$dir/said" 2> "$dir/log" || fail "it ends with $?"
took=$(($(date +%s) - began))

sums() { # file. Prints "A B ANSWER" for each line
  sed -E 's/^\{"prompt": \[\{"role": "system", "content": "[^"]*"\}, \{"role": "user", "content": "([0-9]+) \+ ([0-9]+) = \?"\}\], "answer": "([0-9]+)"\}$/\1 \2 \3/' "$out/data/$1.jsonl"
}
sums heldout > "$dir/heldout"
sums train > "$dir/train"
awk 'NF != 3 || $1 < 10 || $1 > 99 || $2 < 10 || $2 > 99 || $3 != $1 + $2 || ($1, $2) in seen { print; exit 1 } { seen[$1, $2]; n++ }
  END { exit n != 8100 }' "$dir/heldout" "$dir/train" || fail "the data are not the 8100 sums, each once and right"
awk 'FNR == NR { held[$1, $2]; held[$2, $1]; n++; next } ($1, $2) in held { print; exit 1 } END { exit n < 200 || n > 201 }' "$dir/heldout" "$dir/train" ||
  fail "the held-out sums are not 200, or are trained on"

# Compares pass@1 as printed, as given by eval, and as counted here from the last number of each saved answer.
read -r before after < <(sed -En 's/^pass@1 .*: ([0-9.e-]+) before GRPO, ([0-9.e-]+) after$/\1 \2/p' "$dir/said")
[ -n "$after" ] || fail "no line with pass@1: $(cat "$dir/said")"
check_answers() { # name, pass@1
  grep -q "\"pass_at_1\": $2," "$out/$1.json" || fail "$1: pass@1 is not what eval says"
  sed -E 's/.*"response": "(([^"\\]|\\.)*)", "answer": "([0-9]+)".*/\3 \1/' "$out/$1.jsonl" |
    awk -v said="$2" '{ right = $1; $1 = ""; n = split($0, part, /[^0-9]+/); last = ""; for (i = 1; i <= n; i++) if (part[i] != "") last = part[i]
      all++; good += last != "" && last + 0 == right } END { x = good / all; exit all < 200 || x - said > 0.011 || said - x > 0.011 }' ||
    fail "$1: pass@1 is $2; the saved answers do not say so"
}
check_answers before "$before"
check_answers after "$after"
steps=$(grep -c '"reward_mean"' "$out/grpo/metrics.jsonl")
last=$(sed -n 's/.*"eval_pass_at_1": \([0-9.e-]*\).*/\1/p' "$out/grpo/metrics.jsonl" | tail -n 1)
[ -n "$last" ] || fail "the run did not evaluate"
[ -s "$out/report.html" ] && [ -f "$out/model/model.safetensors" ] || fail "no page or no exported model"
"$program" show "$out/grpo" --eval --worst 2 --json > "$dir/shown" 2> "$dir/log" && [ "$(wc -l < "$dir/shown")" = 2 ] || fail "show"

# Starts again. No step is left, and the numbers are the same.
"$here/jobs/first_model.sh" "$model" "$out" "${keys[@]}" > "$dir/again" 2> "$dir/log" || fail "the second start ends with $?"
cmp <(sed 1d "$dir/said" | grep '^pass@1\|before:\|after:') <(sed 1d "$dir/again" | grep '^pass@1\|before:\|after:') || fail "a second start comes to something else"
[ "$(grep -c '"reward_mean"' "$out/grpo/metrics.jsonl")" = "$steps" ] || fail "the second start took steps"

if [ $# -gt 1 ]; then
  awk -v before="$before" -v after="$after" 'BEGIN { exit !(before < 0.1 && after > 0.6) }' || fail "pass@1 is $before before and $after after, $steps steps, $took s"
fi
echo "first_model: pass@1 $before before, $after after; the run's own at its end $last; $steps steps, $took s on $(nproc) cores"
