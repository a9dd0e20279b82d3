#!/bin/bash
# gsm8k.sh - learns from lines of GSM8K with a Qwen2 model of random weights and a real tokenizer, by GRPO with a chat template, and
# by SFT, DPO and KTO from the same lines as conversations, packed, and drawn from two files by weights.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/train/gsm8k.sh PROGRAM RANKS [brief]    brief: only KTO among the algorithms that learn from lines, and no resume
#
# Judges: the prompts' tokens by transformers (tests/golden/make_gsm8k_golden.py). The same conversations rendered by hand into
# text. The unpacked file. The uninterrupted run, bit for bit.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
data=$here/tests/data/gsm8k
fail() { cat "$dir/log"; echo "gsm8k: $*"; exit 1; }
cat > "$dir/deck.yaml" <<END
run: {output: $dir/none, threads: 1}
model: {config: $data/config.json, tokenizer: $data/tokenizer.json}
data: {train: $data/train.jsonl, eval: $data/eval.jsonl, prompt_key: question, answer_key: answer, apply_chat_template: true}
algo: {name: grpo, num_generations: 4}
rollout: {rollout_batch_size: 8, max_response_length: 12, save_every: 1}
reward: [{name: gsm8k}, {name: regex, pattern: "[0-9]", weight: 0.1}]
train: {steps: 10, max_tokens_per_gpu: 2048, learning_rate: 1e-3}
eval: {steps: 5}
END

launch "$ranks" "$dir/grpo"
[ "$(grep -c '"step":' "$dir/grpo/metrics.jsonl")" = 11 ] || fail "not ten steps and the evaluation before them"
[ "$(grep -c '"eval_reward_mean": [0-9]' "$dir/grpo/metrics.jsonl")" = 3 ] || fail "not three evaluations"
! grep -q '"sampler_gap_max_nats": 0[^,]' "$dir/grpo/metrics.jsonl" || fail "the sampler's gap is not 0"
! grep -q '"code": "turn_end_no_' "$dir/grpo/run.jsonl" || fail "the template's end token is taken for another"
# Each answer's tokens begin with its line's prompt, as in transformers.
awk 'NR == FNR { gsub(/^.*\[|\].*$/, ""); want[FNR - 1] = $0 ","; next }
  { id = $0; sub(/.*"prompt_id": /, "", id); sub(/,.*/, "", id)
    got = $0; sub(/.*"tokens": \[/, "", got); sub(/\].*/, "", got); gsub(/ /, "", got)
    if (substr(got, 1, length(want[id])) != want[id]) { print "line " id ": " got; bad = 1 } n++ }
  END { exit bad || n != 320 }' "$data/prompts.jsonl" "$dir"/grpo/rollouts/step-*.jsonl || fail "prompts have other tokens"
"$program" eval "$dir/grpo" --data "$data/eval.jsonl" --prompt-key question --answer-key answer --apply-chat-template --reward gsm8k \
  --max-new 4 --json > "$dir/eval.json" 2> "$dir/log" || fail "eval"
grep -q '"prompts": 8' "$dir/eval.json" || fail "eval: $(cat "$dir/eval.json")"

# The same lines as conversations, and rendered by hand (chatml), for the algorithms that learn from lines. KTO gives a prompt the
# answer of another line, cut if no line is as long. So the longest lines are left out, and both parts of the last line are
# longer.
words() { printf 'word %.0s' $(seq "$1"); }
{ awk "length < 700" "$data/train.jsonl"
  head -n 1 "$data/train.jsonl" | sed "s/\"question\": \"/&$(words 60)/; s/\"answer\": \"/&$(words 120)/"; } > "$dir/train"
line='^{"question": "\(.*\)", "answer": "\(.*\)"}$'
user='{"role": "user", "content": "\1"}' said='{"role": "assistant", "content": "\2"}' other='{"role": "assistant", "content": "No."}'
text='<|im_start|>user\\n\1<|im_end|>\\n<|im_start|>assistant\\n'
sed "s/$line/{\"messages\": [$user, $said]}/" "$dir/train" > "$dir/sft.talk"
sed "s/$line/{\"prompt\": \"$text\", \"completion\": \"\2\"}/" "$dir/train" > "$dir/sft.text"
sed "s/$line/{\"prompt\": [$user], \"chosen\": [$said], \"rejected\": [$other]}/" "$dir/train" > "$dir/dpo.talk"
sed "s/$line/{\"prompt\": \"$text\", \"chosen\": \"\2\", \"rejected\": \"No.\"}/" "$dir/train" > "$dir/dpo.text"
sed "s/$line/{\"messages\": [$user, $said], \"label\": true}/; 2~2s/true}/false}/" "$dir/train" > "$dir/kto.talk"
sed "s/$line/{\"prompt\": \"$text\", \"completion\": \"\2\", \"label\": true}/; 2~2s/true}/false}/" "$dir/train" > "$dir/kto.text"
cat > "$dir/deck.yaml" <<END
run: {output: $dir/none, threads: 1}
model: {config: $data/config.json, tokenizer: $data/tokenizer.json, dtype: f32}
data: {train: none, chat_template: chatml}
algo: {name: sft}
train: {steps: 2, train_batch_size: 8, max_tokens_per_gpu: 2048, learning_rate: 1e-2}
checkpoint: {save_final: false}
END
alone() { # output, file, further key=value ...
  out=$1 file=$2
  shift 2
  "$program" train "$dir/deck.yaml" run.output="$dir/$out" data.train="$file" "$@" > "$dir/log" 2>&1 || { cat "$dir/log"; return 1; }
}
loss() { sed -E 's/.*"loss": ([-0-9.e]+),.*"tokens": ([0-9]+),.*/\1 \2/' "$dir/$1/metrics.jsonl"; }
algos="sft dpo kto"
[ "${3-}" != brief ] || algos=kto
for algo in $algos; do
  launch "$ranks" "$dir/$algo" algo.name="$algo" data.train="$dir/$algo.talk"
  alone "$algo-text" "$dir/$algo.text" algo.name="$algo"
  paste <(loss "$algo") <(loss "$algo-text") | awk '{ d = $1 - $3; if (d < 0) d = -d; bad += !(d <= 1e-5 * $1) || $2 != $4 }
    END { exit bad || NR != 2 }' || fail "$algo: $(loss "$algo") is not $(loss "$algo-text"): conversations are learned otherwise than their text"
done

[ "${3-}" != brief ] || { echo "gsm8k: ten steps of GRPO, and conversations as their text for KTO, on $ranks ranks"; exit 0; }

# Packed. Then two files by weights, resumed.
gzip -c "$dir/sft.talk" > "$dir/sft.gz"
launch "$ranks" "$dir/packed" data.train="$dir/sft.gz"
cmp <(numbers "$dir/sft") <(numbers "$dir/packed") || fail "a packed file is learned otherwise"
head -n 5 "$dir/sft.talk" > "$dir/few"
mixed="train.steps=4 data.train_on=all"
# shellcheck disable=SC2086
alone mixed "[$dir/sft.talk,$dir/few]" $mixed data.train_weights=[1,3] checkpoint.save_steps=3
from=$dir/mixed/checkpoints/step-00000003
# shellcheck disable=SC2086
alone again "[$dir/sft.talk,$dir/few]" $mixed data.train_weights=[1,3] run.resume="$from"
cmp <(numbers "$dir/mixed" | tail -n 1) <(numbers "$dir/again" | tail -n 1) || fail "files by weights: a resumed run goes on in another way"
# shellcheck disable=SC2086
! alone other "[$dir/sft.talk,$dir/few]" $mixed data.train_weights=[1,2] run.resume="$from" > /dev/null || fail "other weights are taken at a resume"
grep -q 'data.train_weights: \["1", "3"\] -> \["1", "2"\]' "$dir/log" || fail "other weights are refused for another reason"
echo "gsm8k: ten steps of GRPO, and conversations as their text, on $ranks ranks"
