#!/bin/sh
# algorithms.sh - trains every algorithm on the demonstration's task from one warm start and prints a table.
# SPDX-License-Identifier: BSD-3-Clause
#
# jobs/algorithms.sh [SEED ...]    default seeds 1 and 2; replaces out/algorithms, the folder of all results
# ONLY="ppo rm" selects algorithms. TRIREME names the program, by default build/cpu-release/trireme.
set -eu
cd "$(dirname "$0")/.."
. jobs/demo.sh
[ $# -gt 0 ] || set -- 1 2
for seed in "$@"; do is_seed "$seed" || { echo "usage: jobs/algorithms.sh [SEED ...]   (whole numbers)" >&2; exit 64; }; done
all=out/algorithms
names=$("$trireme" train --options --json | sed -n '1s/.*"algorithms": \[\([^]]*\)\].*/\1/p' | tr -d ',"')
[ -n "$names" ] || { echo "algorithms.sh: $trireme train --options --json lists no algorithms" >&2; exit 70; }
names=${ONLY:-$(echo "$names" | sed 's/\<sft\>//; s/\<rm\>/rm ppo-on-rm/')}

last() { # metrics.jsonl, metric. Prints its last value
  sed -n "s/.*\"$2\": \([0-9.e+-]*\).*/\1/p" "$1" | tail -n 1
}
percent() { awk -v x="$1" 'BEGIN { printf "%.1f", 100 * x }'; }
learn() { # name, further key=value ... Trains $at/$name from the warm start, with the deck of this kind
  name_=$1 deck=inputs/quickstart.yaml
  shift
  [ ! -f "inputs/quickstart_$name_.yaml" ] || deck=inputs/quickstart_$name_.yaml
  train "$seed" "$deck" model.path="$at/sft" run.output="$at/$name_" "$@" >> "$at/log" 2>&1 || { tail -n 5 "$at/log"; exit 1; }
}
online() { # name, further key=value ...
  learn "$@" data.train="$at/data/prompts.jsonl" data.eval="$at/data/heldout.jsonl" eval.steps=0
}
given() { # name, the data's name
  learn "$1" data.train="$at/data/$2.jsonl" data.eval="$at/data/heldout_$2.jsonl"
}
# The same number of samples per step as with eight answers to a prompt.
one_answer="algo.num_generations=1 rollout.rollout_batch_size=768"

# Prints the result of one algorithm as a cell of the table.
cell() { # name
  case $1 in
  rm)
    given rm pairs
    echo "$(percent "$(last "$at/rm/metrics.jsonl" eval_accuracy)") % of pairs"
    return
    ;;
  dpo) given dpo pairs ;;
  kto) given kto labelled ;;
  ppo-on-rm) # shellcheck disable=SC2086
    online ppo-on-rm algo.name=ppo $one_answer "reward=[{name: model, path: $at/rm}]" algo.kl_coef=0.05 \
      critic.learning_rate=1e-3 critic.warmup_steps=10
    ;;
  ppo) # shellcheck disable=SC2086
    online ppo algo.name=ppo $one_answer critic.learning_rate=1e-3
    ;;
  reinforce++ | remax) # shellcheck disable=SC2086
    online "$1" algo.name="$1" $one_answer
    ;;
  *) online "$1" algo.name="$1" ;;
  esac
  right="$(accuracy "$at/$1" "$at/data/heldout.jsonl") %"
  case $1 in dpo) right="$right, $(percent "$(last "$at/dpo/metrics.jsonl" eval_accuracy)") % of pairs" ;; esac
  case $1 in dpo | kto) right="$right, margin $(last "$at/$1/metrics.jsonl" eval_margin_mean | cut -c 1-4)" ;; esac
  echo "$right"
}

rm -rf $all
for seed in "$@"; do
  at=$all/$seed
  make_data "$seed" "$at/data" > /dev/null
  train "$seed" inputs/quickstart_sft.yaml data.train="$at/data/demos.jsonl" run.output="$at/sft" >> "$at/log" 2>&1
  echo "seed $seed: warm start $(accuracy "$at/sft" "$at/data/heldout.jsonl") %" | tee "$at/before" >&2
  for name in $names; do
    began=$(date +%s)
    cell "$name" > "$at/$name.cell"
    echo "$(($(date +%s) - began))" > "$at/$name.s"
    echo "seed $seed: $name $(cat "$at/$name.cell"), $(cat "$at/$name.s") s" >&2
  done
done

head="| algorithm |" rule="|---|"
for seed in "$@"; do head="$head seed $seed |" rule="$rule---|"; done
echo "$head seconds |"
echo "$rule--:|"
row="| (warm start) |"
for seed in "$@"; do row="$row $(sed 's/.* warm start //' "$all/$seed/before") |"; done
echo "$row |"
for name in $names; do
  row="| \`$name\` |"
  for seed in "$@"; do row="$row $(cat "$all/$seed/$name.cell") |" spent=$(cat "$all/$seed/$name.s"); done
  echo "$row $spent |"
done
