#!/bin/bash
# beside.sh - compares training and GRPO steps with PyTorch's and TRL's in five rounds, and prints the medians.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/bench/beside.sh PYTHON TORCH_TRAIN.py TRL_GRPO.py [ROUNDS]
#
# All programs take turns in each round. TORCH_TRAIN.py d L heads ff V T B f32|bf16 THREADS STEPS prints "... tokens/s N ...".
# TRL_GRPO.py --size s|m --dtype D --completions N --threads N --steps N prints "... step S s ...". The script prints every line of
# every round at once. ONLY=WORDS (an awk regular expression) selects rows by name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { sed -n '5,9s/^# \{0,1\}//p' "$0" >&2; exit 64; }
python=$1 torch=$2 trl=$3 rounds=${4:-5}
linear=${LINEAR:-$here/../../build/cpu-release/bench_linear}
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT

wanted() { echo "$row" | awk -v w="${ONLY:-.}" '$0 ~ w { yes = 1 } END { exit !yes }'; }
note() { # row, column, number
  echo "$1|$2|$3" | tee -a "$seen"
}
tokens_per_s() { sed -n 's/.*tokens\/s \([0-9]*\).*/\1/p'; }
step_s() { sed -n 's/.*step \([0-9.]*\) s.*/\1/p'; }

train() { # d L heads ff V T B dtype, steps
  row="$1 x $2, $5, $7 x $6, $8"
  wanted || return 0
  note "$row" torch "$("$python" "$torch" "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" 2 "$9" 2> /dev/null | tokens_per_s)"
  note "$row" one "$("$here/speed.sh" train "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" 1 2 "$9" | tokens_per_s)"
  [ "$7" -lt 2 ] || note "$row" two "$("$here/speed.sh" train "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" 2 1 "$9" | tokens_per_s)"
  note "$row" floor "$("$linear" floor "$1" "$2" "$4" "$5" "$8" 2 | tokens_per_s)"
}
grpo() { # size dtype completions steps
  row="$1, $3 answers, $2"
  wanted || return 0
  note "$row" trl "$("$python" "$trl" --size "$1" --dtype "$2" --completions "$3" --threads 2 --steps "$4" 2> /dev/null | step_s)"
  note "$row" one "$("$here/speed.sh" grpo "$1" "$2" "$3" 1 2 "$4" | step_s)"
  note "$row" two "$("$here/speed.sh" grpo "$1" "$2" "$3" 2 1 "$4" | step_s)"
}

for round in $(seq "$rounds"); do
  echo "== round $round of $rounds"
  for dtype in f32 bf16; do
    train 256 4 4 1024 512 128 32 $dtype 3
    train 512 8 8 1536 8192 256 8 $dtype 2
    train 512 8 8 1536 8192 2048 2 $dtype 2
    train 512 8 8 1536 8192 4096 1 $dtype 2
    grpo s $dtype 64 2
    grpo m $dtype 32 2
  done
done
echo "== medians of $rounds: torch, floor, one (1 rank x 2 threads), two (2 ranks x 1 thread) in tokens/s; trl, one, two in s"
sort -t '|' -k1,1 -k2,2 -k3,3g "$seen" | awk -F'|' '
  function flush() { if (n) printf "%-32s %-6s %10.5g   (%.5g to %.5g)\n", row, column, v[int((n + 1) / 2)], v[1], v[n]; n = 0 }
  $1 != row || $2 != column { flush(); row = $1; column = $2 }
  { v[++n] = $3 } END { flush() }'
