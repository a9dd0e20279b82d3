#!/bin/bash
# beside.sh - compares training and GRPO steps with PyTorch's and TRL's in five rounds, and prints the medians.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/bench/beside.sh PYTHON TORCH_TRAIN.py TRL_GRPO.py [ROUNDS]   llama models of 5 M to 90 M parameters
#   tests/bench/beside.sh PYTHON recurrent [ROUNDS]                    the qwen3_5 model of 0.3 G parameters of qwen3_5.json
#
# All programs take turns in each round. TORCH_TRAIN.py d L heads ff V T B f32|bf16 THREADS STEPS prints "... tokens/s N ...".
# TRL_GRPO.py --size s|m --dtype D --completions N --threads N --steps N prints "... step S s ...". The script prints every line of
# every round at once. ONLY=WORDS (an awk regular expression) selects rows by name. ALONE=COMMAND runs each program, for example to
# wait until the machine is idle. The qwen3_5 model is timed with torch_recurrent.py and trl_recurrent.py.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '5,12s/^# \{0,1\}//p' "$0" >&2; exit 64; }
recurrent=
[ $# -ge 2 ] || usage
python=$1
if [ "$2" = recurrent ]; then
  recurrent=$here/qwen3_5.json rounds=${3:-5}
else
  [ $# -ge 3 ] || usage
  torch=$2 trl=$3 rounds=${4:-5}
fi
linear=${LINEAR:-$here/../../build/cpu-release/bench_linear}
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT

wanted() { echo "$row" | awk -v w="${ONLY:-.}" '$0 ~ w { yes = 1 } END { exit !yes }'; }
note() { # row, column, number
  echo "$1|$2|$3" | tee -a "$seen"
}
tokens_per_s() { sed -n 's/.*tokens\/s \([0-9.]*\).*/\1/p'; }
step_s() { sed -n 's/.*step \([0-9.]*\) s.*/\1/p'; }

train() { # d L heads ff V T B dtype, steps
  row="$1 x $2, $5, $7 x $6, $8"
  wanted || return 0
  note "$row" torch "$(${ALONE:-} "$python" "$torch" "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" 2 "$9" 2> /dev/null | tokens_per_s)"
  note "$row" one "$(${ALONE:-} "$here/speed.sh" train "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" 1 2 "$9" | tokens_per_s)"
  [ "$7" -lt 2 ] || note "$row" two "$(${ALONE:-} "$here/speed.sh" train "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" 2 1 "$9" | tokens_per_s)"
  note "$row" floor "$(${ALONE:-} "$linear" floor "$1" "$2" "$4" "$5" "$8" 2 | tokens_per_s)"
}
grpo() { # size dtype completions steps
  row="$1, $3 answers, $2"
  wanted || return 0
  note "$row" trl "$(${ALONE:-} "$python" "$trl" --size "$1" --dtype "$2" --completions "$3" --threads 2 --steps "$4" 2> /dev/null | step_s)"
  note "$row" one "$(${ALONE:-} "$here/speed.sh" grpo "$1" "$2" "$3" 1 2 "$4" | step_s)"
  note "$row" two "$(${ALONE:-} "$here/speed.sh" grpo "$1" "$2" "$3" 2 1 "$4" | step_s)"
}

# Steps of the recurrent model last seconds to minutes, so one is timed, after one step of warm-up, and in bf16 after none.
recurrent_train() { # T B dtype warm-up
  row="qwen3_5, $2 x $1, $3"
  wanted || return 0
  note "$row" torch "$(${ALONE:-} "$python" "$here/torch_recurrent.py" "$recurrent" "$1" "$2" "$3" 2 1 "$4" 2> /dev/null | tokens_per_s)"
  note "$row" one "$(WARM_UP=$4 ${ALONE:-} "$here/speed.sh" train "$recurrent" "$1" "$2" "$3" 1 2 1 | tokens_per_s)"
  [ "$2" -lt 2 ] || note "$row" two "$(WARM_UP=$4 ${ALONE:-} "$here/speed.sh" train "$recurrent" "$1" "$2" "$3" 2 1 1 | tokens_per_s)"
}
recurrent_grpo() { # dtype completions warm-up
  row="qwen3_5, $2 answers, $1"
  wanted || return 0
  note "$row" trl "$(${ALONE:-} "$python" "$here/trl_recurrent.py" "$recurrent" --dtype "$1" --completions "$2" --threads 2 \
    --steps $((1 + $3)) 2> /dev/null | step_s)"
  note "$row" one "$(WARM_UP=$3 ${ALONE:-} "$here/speed.sh" grpo "$recurrent" "$1" "$2" 1 2 1 | step_s)"
}

recurrent_rows() {
  recurrent_train 256 2 f32 1
  recurrent_train 256 2 bf16 0
  recurrent_train 2048 1 f32 0
  recurrent_train 2048 1 bf16 0
  recurrent_grpo f32 8 0
  recurrent_grpo bf16 8 0
}

for round in $(seq "$rounds"); do
  echo "== round $round of $rounds"
  [ -z "$recurrent" ] || { recurrent_rows; continue; }
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
