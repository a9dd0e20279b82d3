#!/bin/bash
# decks.sh - checks every deck of inputs/. Its head tells how to start it. It has no error with its model's published shape, nor with a
# tiny shape, with which it takes a step. The variants in inputs/README.md do the same. Together they use every algorithm.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/jobs/decks.sh PROGRAM
# Every deck in the folder is tested. The lines of its data are made from the comment beside data.train, so the comment must be true.
# TRI_TEST_BRIEF=1 takes all steps. It checks one deck with its published shape, and none twice, because all run the same code.
set -eu
program=$1 brief=${TRI_TEST_BRIEF:-0}
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-decks.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "decks: $*"; exit 1; }
tokenizer=$here/tests/data/gsm8k/tokenizer.json # a Qwen2 tokenizer with its template's tokens
published=$here/tests/data/chat/templates       # as models bring them

cd "$here"
mapfile -t decks < <(printf '%s\n' inputs/8b/rm.yaml inputs/*.yaml inputs/*/*.yaml | grep -v '^inputs/reference.yaml$' | awk '!seen[$0]++')

# Makes eight lines as described by the comment beside data.train. `...` is a text, `[messages]` a conversation for that field.
make_lines() { # deck
  local form i user='{"role": "user", "content": "12+5"}'
  form=$(sed -n 's/^  train: [^#]*# \({.*}\).*/\1/p' "$1")
  [ -n "$form" ] || fail "$1: data.train has no comment that shows a line"
  form=$(sed -e "s/\"prompt\": \[messages\]/\"prompt\": [$user]/; s/\"completion\": \[messages\]/\"completion\": [{\"role\": \"assistant\", \"content\": \"17\"}]/" \
    -e "s/\"chosen\": \[messages\]/\"chosen\": [$user, {\"role\": \"assistant\", \"content\": \"17\"}]/" \
    -e "s/\"rejected\": \[messages\]/\"rejected\": [$user, {\"role\": \"assistant\", \"content\": \"7\"}]/; s/: \.\.\./: \"12+5\"/g" <<< "$form")
  for i in 1 2 3 4; do echo "$form"; sed 's/: true}/: false}/' <<< "$form"; done > "$dir/lines.jsonl"
}

has() { grep -q "^$2:" "$1"; }
run() { "$program" train "$@" "data.train=$dir/lines.jsonl" run.threads=1 > "$dir/log" 2>&1; }

# Uses the shape and chat template published with the deck's model, as the model's own if the deck names none. The only possible
# error is a lack of memory on this machine.
check_shape() { # deck
  local model template more=()
  model=$(sed -n 's|^  path: models/\([^ ]*\).*|\1|p' "$1" | head -n 1)
  [ -n "$model" ] || fail "$1 names no model of inputs/models"
  [ -f "inputs/models/$model/config.json" ] || fail "$1: inputs/models has no $model/config.json"
  case $model in
    Llama-3.1*) template=llama3_1 ;;
    Qwen2.5* | SmolLM2*) template=qwen2_5 ;; # both ChatML
    Qwen3.5*) template=qwen3_5_nothink ;;
    *) fail "$1: which template has $model?" ;;
  esac
  mkdir -p "$dir/$template" && cp "$tokenizer" "$dir/$template/" && cp "$published/$template.jinja" "$dir/$template/chat_template.jinja"
  ! has "$1" eval || more+=("data.eval=$dir/lines.jsonl")
  ! grep -q '^  tensor_parallel_size:' "$1" || more+=(--ranks 8) # a node has as many
  ! grep -q '^  - name: model' "$1" || more+=('reward=[{name: regex, pattern: "7"}]')
  run "$1" model.path=null model.config="inputs/models/$model/config.json" model.tokenizer="$dir/$template/tokenizer.json" \
    run.output="$dir/none" "${more[@]}" --check && return
  grep -q '^the memory plan does not fit' "$dir/log" || { cat "$dir/log"; fail "$1 --check"; }
  grep -q ': 1 error' "$dir/log" || { grep -q ': 2 errors' "$dir/log" && grep -q 'checkpoints.* at once need .* are free' "$dir/log"; } ||
    { cat "$dir/log"; fail "$1 --check"; }
}

tiny() { # deck, name of the run, further arguments
  local deck=$1 name=$2 more=()
  ! has "$deck" eval || more+=("data.eval=$dir/lines.jsonl" eval.max_prompts=2)
  ! has "$deck" rollout || more+=(rollout.rollout_batch_size=4 rollout.max_response_length=4)
  ! grep -q 'max_prompt_length' "$deck" || more+=(data.max_prompt_length=256)
  ! grep -q '^  - name: length' "$deck" || more+=("reward=[{name: number}, {name: length, buffer: 2}]")
  ! grep -q '^  - name: model' "$deck" || more+=("reward=[{name: model, path: $dir/inputs/8b/rm.yaml}]")
  [[ $* = *num_generations=* ]] || ! grep -qE 'num_generations: *([2-9]|1[0-9])' "$deck" || more+=(algo.num_generations=2)
  ! grep -q '^  path:' "$deck" || more+=(model.path=null)
  ! grep -q '^  tensor_parallel_size:' "$deck" || more+=(shard.tensor_parallel_size=1) # of one rank here
  shift 2
  run "$deck" model.config=tests/data/gsm8k/config.json model.tokenizer="$tokenizer" data.chat_template=qwen2.5 \
    run.output="$dir/$name" train.train_batch_size=4 "${more[@]}" "$@" || { cat "$dir/log"; fail "$deck $*"; }
}

step() { # deck, name, further arguments
  local length=train.steps=1
  ! grep -q '^  epochs:' "$1" || length=train.epochs=1
  [ "$brief" != 0 ] || tiny "$@" --check
  tiny "$@" $length
  grep -q '"step": 1' "$dir/$2/metrics.jsonl" || fail "$1 took no step"
}

for deck in "${decks[@]}"; do
  grep -q "^|.*\`${deck#inputs/}\`.*|" inputs/README.md || fail "$deck has no row in the table of decks at the top of inputs/README.md"
  sed -n '/^#/!q; p' "$deck" | grep -qE "^# .*(sbatch|srun|mpirun) .*$deck" || fail "$deck: its head does not say how it is started"
  make_lines "$deck"
  [ "$brief" != 0 ] && [ "$deck" != inputs/8b/grpo.yaml ] || case $deck in inputs/quickstart*) ;; *) check_shape "$deck" ;; esac
  mkdir -p "$dir/${deck%/*}"
  step "$deck" "$deck"
  sed -n 's/^  name: \([^ ]*\).*/\1/p' "$deck" | head -n 1 >> "$dir/algorithms"
done

# Tests the variants, inputs/8b/grpo.yaml with the arguments of inputs/README.md. Sizes are for real models and are left out.
n=0 deck=inputs/8b/grpo.yaml
make_lines "$deck"
while read -r args; do
  mapfile -t given < <(xargs -n 1 <<< "$args" | grep -v '_batch_size=')
  step "$deck" "variant$n" "${given[@]}"
  sed -n 's/^algo\.name=\([^ ]*\).*/\1/p' <<< "$args" >> "$dir/algorithms"
  n=$((n + 1))
done < <(sed -n 's/^|[^|]*| `\(algo\.name=[^`]*\)`.*/\1/p' inputs/README.md)

names=$("$program" train --options --json | sed -n '1s/.*"algorithms": \[\([^]]*\)\].*/\1/p' | tr -d ',"')
[ -n "$names" ] || fail "the program names no algorithms"
for name in $names; do
  grep -qx "$name" "$dir/algorithms" || fail "$name has neither a deck nor a row in the table \"On the 8B deck\" of inputs/README.md"
done
echo "decks: ${#decks[@]} decks and $n variants, each with a step of a tiny model"
