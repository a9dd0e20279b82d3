#!/bin/bash
# reward_examples.sh - runs the examples of jobs/rewards (program, shared object, server). Without Python or libcurl it skips theirs.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/jobs/reward_examples.sh PROGRAM RANKS CC
# Judges: the built-in reward number; a search for the right answer in each line; a count of its digits.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
cc=$3
write_deck
fail() { cat "$dir/log"; echo "reward_examples: $*"; exit 1; }
rollout=rollouts/step-00000001.jsonl
try() { # folder, reward
  launch "$ranks" "$dir/$1" model.dtype=f32 rollout.save_every=1 rollout.max_response_length=12 eval.steps=0 data.eval=null algo.kl_coef=0 \
    algo.ppo_epochs=1 checkpoint.save_final=false checkpoint.save_steps=0 train.steps=1 "$2" || fail "$1 fails"
}
rewards() { sed -E 's/.*"reward": ([-0-9.e]+|null),.*/\1/' "$dir/$1/$rollout"; }

"$cc" -O2 -Wall -Wextra -Werror -shared -fPIC -I "$here/src/reward" "$here/jobs/rewards/verify.c" -o "$dir/verify.so"
try library "reward=[{name: library, path: $dir/verify.so}]"
answers() { awk -F'"' 'NR == FNR { right[NR - 1] = $8; next } { match($0, /"prompt_id": [0-9]+/); print right[substr($0, RSTART + 13, RLENGTH - 13)] }' \
  "$dir/data.jsonl" "$dir/library/$rollout"; }
paste <(answers) <(rewards library) <(sed -E 's/.*"response": "(([^"\\]|\\.)*)".*/\1/' "$dir/library/$rollout") |
  awk -F'\t' '{ n++; if (($3 != "" && index($3, $1) == 1) != $2) exit 1 } END { exit n != 32 }' || fail "the shared object rewards something else"

if ! command -v python3 > /dev/null; then
  echo "reward_examples: the shared object; without Python not the others"
  exit 0
fi
try process "reward=[{name: process, command: [python3, $here/jobs/rewards/verify.py]}]"
try number "reward=[{name: number}]"
cmp <(rewards process) <(rewards number) || fail "the program rewards something else"

python3 "$here/jobs/rewards/server.py" 0 > "$dir/port" &
server=$!
trap 'kill $server; rm -rf "$dir"' EXIT
until [ -s "$dir/port" ]; do kill -0 $server || fail "the server does not start"; done
if "$program" train "$dir/deck.yaml" --check 'reward=[{name: http, url: "http://h/"}]' 2>&1 | grep -q 'no libcurl'; then
  echo "reward_examples: the shared object, the program; without libcurl not the server"
  exit 0
fi
no_proxy='*' try server "reward=[{name: http, url: 'http://127.0.0.1:$(cat "$dir/port")/get_reward'}]"
paste <(rewards server) <(sed -E 's/.*"response": "(([^"\\]|\\.)*)".*/\1/; s/\\u[0-9A-Fa-f]{4}//g' "$dir/server/$rollout") |
  awk -F'\t' '{ n++; d = gsub(/[0-9]/, "", $2) / 10; if (d - $1 > 1e-6 || $1 - d > 1e-6) exit 1; sum += d } END { exit n != 32 || sum == 0 }' ||
  fail "the server rewards something else"
echo "reward_examples: each rewards as it says"
