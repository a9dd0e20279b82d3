#!/bin/sh
# first_model.sh - a first run with published weights, without a GPU. GRPO teaches a small chat model sums of two-digit numbers.
# SPDX-License-Identifier: BSD-3-Clause
#
# jobs/first_model.sh MODEL [FOLDER] [key=value ...]
#
# MODEL is a Hugging Face folder with a chat template, such as SmolLM2-135M-Instruct. All results go to FOLDER (out/first_model).
# The same command resumes a stopped run. Keys such as train.steps=50 override those of inputs/first_model.yaml. TRIREME names the
# program, by default build/cpu-release/trireme, or else trireme in PATH.
set -eu
usage() { echo "usage: jobs/first_model.sh MODEL [FOLDER] [key=value ...]   (MODEL is a Hugging Face folder)" >&2; exit 64; }
case ${1:-} in '' | -* | *=*) usage ;; esac
model=$1 out=out/first_model
shift
case ${1:-} in '' | *=*) ;; -*) usage ;; *) out=$1; shift ;; esac
[ -f "$model/config.json" ] || { echo "first_model.sh: $model has no config.json. Give a Hugging Face folder" >&2; exit 64; }
root=$(cd "$(dirname "$0")/.." && pwd)
trireme=${TRIREME:-$root/build/cpu-release/trireme}
[ -x "$trireme" ] || [ -n "${TRIREME:-}" ] || trireme=$(command -v trireme || echo "$trireme")
[ -x "$trireme" ] || { echo "first_model.sh: $trireme does not exist. Run jobs/setup.sh first" >&2; exit 69; }
tokens=16 # the longest answer, as in the deck
for key; do case $key in rollout.max_response_length=*) tokens=${key#*=} ;; esac; done

ask() { # model, name. Writes greedy answers to the held-out sums to $out/NAME.jsonl and prints pass@1
  rm -f "$out/$2.jsonl"
  "$trireme" eval "$1" --data "$out/data/heldout.jsonl" --reward number --max-new "$tokens" --output "$out/$2.jsonl" --json \
    > "$out/$2.json" || exit
  sed 's/.*"pass_at_1": \([0-9.e-]*\).*/\1/' "$out/$2.json"
}
response() { # name, line. Prints an answer as JSON spells it
  sed -n "$2s/.*\"response\": \"\\(\\([^\"\\\\]\\|\\\\\\\\.\\)*\\)\".*/\\1/p" "$out/$1.jsonl"
}
show() { # line of the held-out sums. Prints the question and the answers before and after
  question=$(sed -n "$1s/.*\"content\": \"\\([^\"]*\\)\"}\\].*/\\1/p" "$out/data/heldout.jsonl")
  printf '  %s\n    before: "%s"\n    after:  "%s"\n' "$question" "$(response before "$1")" "$(response after "$1")"
}

began=$(date +%s)
echo "== data"
mkdir -p "$out/data"
awk -v seed=1 -v dir="$out/data" -f "$root/jobs/first_model.awk"
echo "== before training: greedy answers of $model to the held-out sums"
before=$(ask "$model" before)
echo "== GRPO: pass@1 is $before. To watch the run in another terminal: $trireme watch $out/grpo"
"$trireme" train "$root/inputs/first_model.yaml" model.path="$model" run.output="$out/grpo" data.train="$out/data/train.jsonl" \
  data.eval="$out/data/heldout.jsonl" "$@"
rm -rf "$out/model"
"$trireme" export "$out/grpo" "$out/model"
after=$(ask "$out/model" after)
"$trireme" report "$out/grpo" --html "$out/report.html"
cat <<EOF
== done in $((($(date +%s) - began + 30) / 60)) minutes on $(nproc) cores
pass@1 on held-out sums (greedy): $before before GRPO, $after after
$(show 3)
$(show 5)
curves          $out/report.html
its answers     $trireme show $out/grpo --eval --worst 5
exported model  $out/model (a Hugging Face folder)
ask it          $trireme generate $out/model "58 + 67 = ?" --apply-chat-template --temperature 0
EOF
