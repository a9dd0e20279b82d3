#!/bin/bash
# decks.sh - the decks of inputs/8b and inputs/lora: each without a fault, of the algorithm of its name, and takes a step with a tiny model.
#
#   tests/jobs/decks.sh PROGRAM
set -eu
program=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-decks.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "decks: $*"; exit 1; }

names=$("$program" train "$here/inputs/quickstart.yaml" algo.name=none 2>&1 |
  sed -n 's/.*algo.name = none: must be one of \([^;]*\).*/\1/p' | tr -d ,)
[ -n "$names" ] || fail "the program names no algorithms"
decks=$(cd "$here/inputs/8b" && printf '%s\n' *.yaml | sed 's/\.yaml$//')
for name in $decks; do
  grep -qx "$name" <(echo "$names" | xargs -n 1) || fail "$name.yaml: there is no such algorithm"
  grep -q "^  name: $name\( \|\$\)" "$here/inputs/8b/$name.yaml" || fail "$name.yaml is of another algorithm"
done
for name in $names; do
  grep -qx "$name" <(echo "$decks") || echo "decks: note: $name has none"
done

for i in $(seq 8); do
  prompt="\"prompt\": \"$i+$i=\""
  echo "{$prompt, \"answer\": \"$((2 * i))\", \"completion\": \"$((2 * i))\"}" >> "$dir/lines.jsonl"
  echo "{$prompt, \"chosen\": \"$((2 * i))\", \"rejected\": \"$((2 * i + 1))\"}" >> "$dir/pairs.jsonl"
  echo "{$prompt, \"completion\": \"$((2 * i))\", \"label\": $([ $((i % 2)) = 0 ] && echo true || echo false)}" >> "$dir/labelled.jsonl"
done

tiny() { # name of a deck, further arguments
  deck=$here/inputs/$in/$1.yaml data=$dir/lines.jsonl more=()
  case $1 in rm | dpo) data=$dir/pairs.jsonl ;; kto) data=$dir/labelled.jsonl ;; esac
  ! grep -q '^eval:' "$deck" || more=("data.eval=$data" eval.max_prompts=2)
  ! grep -q '^rollout:' "$deck" || more+=(rollout.rollout_batch_size=4 rollout.max_response_length=4)
  case $1 in
  ppo) more+=("reward=[{name: model, path: $dir/rm}]") ;; # made by rm.yaml's run
  dapo) more+=("reward=[{name: number}, {name: length, buffer: 2}]") ;;
  esac
  ! grep -q 'num_generations: *[2-9]' "$deck" || more+=(algo.num_generations=2)
  [ "$1" != dapo ] || more+=(algo.num_generations=2)
  "$program" train "$deck" model.path=null model.config="$here/inputs/quickstart/config.json" \
    model.tokenizer="$here/inputs/quickstart/tokenizer.json" data.train="$data" run.output="$dir/$1" run.threads=1 \
    train.train_batch_size=4 "${more[@]}" "${@:2}" > "$dir/log" 2>&1 || { cat "$dir/log"; fail "$1.yaml"; }
}

in=8b
for name in rm $decks; do
  [ ! -d "$dir/$name" ] || continue
  tiny "$name" --check
  grep -q 'no fault found' "$dir/log" || fail "$name.yaml: --check"
  length=train.steps=1
  ! grep -q 'epochs:' "$here/inputs/8b/$name.yaml" || length=train.epochs=1
  tiny "$name" $length
  grep -q '"step": 1' "$dir/$name/metrics.jsonl" || fail "$name.yaml took no step"
done
in=lora
rm -rf "$dir/grpo"
tiny grpo --check
grep -q 'no fault found' "$dir/log" || fail "lora/grpo.yaml: --check"
tiny grpo train.steps=1 lora.rank=2
grep -q 'rank 2, alpha 32' "$dir/log" || fail "lora/grpo.yaml has no adapters"
echo "decks: $(echo "$decks" | wc -w) decks and lora/grpo.yaml, each with a step of a tiny model"
