#!/usr/bin/env bash
# seeds.sh - makes a harness's first inputs from tests/data, and its dictionary from the parser's string literals.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/fuzz/seeds.sh HARNESS FOLDER    writes FOLDER/seeds/* and FOLDER/dict. fuzz_HARNESS.c describes the inputs.
# The dictionary has the literals of the parser and of its tables.
set -euo pipefail
harness=$1 folder=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
data=tests/data
export LC_ALL=C.UTF-8
rm -rf "$folder/seeds"
mkdir -p "$folder/seeds"
shopt -s nullglob

# Standard input becomes the next seed.
seed() {
  local have=("$folder"/seeds/*)
  cat >"$folder/seeds/$(printf '%04d' ${#have[@]})"
}

# Numbers as bytes.
bytes() { printf '%b' "$(printf '\\x%02x' "$@")"; }

# The texts of a JSON list with one string per line.
texts() { sed -n 's/^"\(.*\)",\{0,1\}$/\1/p' "$1"; }

# No reader of a pipe may end before its writer, since pipefail would report a failure.
header() { head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | tail -c +9; }

# Prints the two bytes for the amount of data after a file's header.
data_bytes() {
  local n=$(($(wc -c <"$1") - 8 - $(od -An -tu8 -N8 "$1")))
  bytes $((n & 255)) $((n >> 8 & 255))
}

make_ckpt() { # the fuzzer finds the bytes to change
  bytes 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 | seed
  bytes 0 1 2 | seed
}

make_dataset() {
  local file kind
  for file in $data/*/*.jsonl; do
    for kind in 0 1 2 3; do
      { bytes $kind 0 0 $((kind * 5 % 32)) 80 160 && cat "$file"; } | seed
      { bytes $((kind | 72)) 5 9 2 0 255 && cat "$file"; } | seed
    done
  done
  { bytes 0 0 0 4 90 100 && printf '{"tokens": [1, 2, 256], "prompt_tokens": 2, "answer": "7"}\n\n{"tokens": [0]}'; } | seed
  { bytes 1 0 0 16 0 90 && printf '{"q": "a\\u0000b", "a": null, "text": "\\ud83d\\ude42"}\r\n'; } | seed
  for kind in 0 4 8 72; do # error, drop and truncate
    { bytes $kind 3 5 33 60 120 && printf '{"prompt": "2+3=", "chosen": "5", "rejected": "sixteen", "margin": 1.5}\n\n{"prompt": "", "chosen": "a", "rejected": "b"}'; } | seed
    { bytes $kind 3 5 32 60 120 && printf '{"chosen_tokens": [1, 2, 3], "rejected_tokens": [1, 2, 256, 7], "prompt_tokens": 2, "margin": -1e3}\n'; } | seed
    { bytes $((kind + 1)) 3 5 33 60 120 && printf '{"prompt": "2+3=", "completion": "5", "label": true}\n{"tokens": [1, 2, 3], "prompt_tokens": 2, "label": false}\n'; } | seed
  done
  local talk='[{"role": "system", "content": "s"}, {"role": "user", "content": "a\\n<|im_end|>"}, {"role": "assistant", "content": " <think>x</think> b "}]'
  for kind in 0 64 128 192; do # the four templates
    { bytes 2 0 64 $kind 80 160 && printf '{"messages": %s}\n{"prompt": %s, "completion": "c"}\n' "$talk" '[{"role": "user", "content": ""}]'; } | seed
    { bytes 128 0 0 $kind 80 160 && printf '{"prompt": "a", "answer": "1"}\n'; } | seed
    { bytes 0 0 0 $((kind | 32)) 80 160 && printf '{"chosen": %s, "rejected": %s}\n' "$talk" "${talk/ b / c}"; } | seed
    { bytes 1 0 0 $((kind | 32)) 80 160 && printf '{"messages": %s, "label": true}\n' "$talk"; } | seed
  done
  { bytes 2 0 0 3 80 160 && gzip -c $data/cli/sft.jsonl; } | seed
  { bytes 0 0 0 48 0 90 && printf '{"q": "x", "a": "y", "text": "z", "m": 0}\n'; } | seed
}

make_deck() {
  local file
  for file in inputs/*.yaml $data/*/*.yaml; do
    seed <"$file"
    { cat "$file" && printf '\1train.steps=3\1train.learning_rate=2e-6\1run.output=a b\1reward=[{name: exact}]'; } | seed
  done
  printf 'a: &x {b: [1, "\\u00e9", !!str 2]}\nc: *x\n--- |\n  d\n' | seed
}

# Numbers of eight and of four bytes, lowest first.
words() {
  local x
  for x; do bytes $((x & 255)) $((x >> 8 & 255)) $((x >> 16 & 255)) $((x >> 24 & 255)) 0 0 0 0; done
}
halves() {
  local x
  for x; do bytes $((x & 255)) $((x >> 8 & 255)) $((x >> 16 & 255)) $((x >> 24 & 255)); done
}

# Writes a whole object of 448 bytes in one segment. It has a header, two program headers, a dynamic section, two symbols, their
# names and the hash table. The hash table is System V's for 5 and GNU's for 0x6ffffef5. Last come trireme_reward_object of
# version 1 and a relocation of its `score`.
elf_object() {
  printf '\177ELF\2\1\1' && words 0 && bytes 0 3 0 62 0 && halves 1 && words 0 64 0 && halves 0 && bytes 64 0 56 0 2 0 0 0 0 0 0 0
  halves 1 4 && words 0 0 0 448 448 4096
  halves 2 4 && words 176 176 176 112 112 8
  words 6 288 5 336 10 23 "$1" 360 7 424 8 24 0 0
  words 0 0 0 && halves 1 && bytes 17 0 9 0 && words 392 32
  printf '\0trireme_reward_object\0\0'
  if [ "$1" = 5 ]; then halves 1 2 1 0 0 0 0 0; else halves 1 1 1 0 0 0 1 0x"$2"; fi
  halves 1 "$3" && words 0 0 0
  words 408 8 1
}

make_elf() {
  local table
  for table in 5 0x6ffffef5; do elf_object "$table" f5e23d7 96 | seed; done
  elf_object 5 f5e23d7 7 | seed
}

make_hfconfig() {
  local file
  for file in $data/*/config.json $data/model/*/config.json; do
    seed <"$file"
    { cat "$file" && printf '\1{"eos_token_id": [1, 2], "pad_token_id": 0}'; } | seed
  done
  # The cases hold a config.json as a JSON string.
  sed -n 's/.*"config": "\(\([^"\\]\|\\.\)*\)".*/\1/p' $data/hf_config/*.jsonl | sed 's/\\n/ /g; s/\\"/"/g' |
    while IFS= read -r line; do printf '%s' "$line" | seed; done
}

make_history() {
  local line='{"step": 1, "algo": "grpo", "loss": -1.5e-3, "kl": null, "alarms": "a"}\n'
  local log='{"v": 1, "event": "start", "steps": 40, "memory": []}\n{"v": 1, "event": "alarm", "code": "c", "step": 3, "text": "w,\\\\n more"}\n{"v": 2}\n{"v": 1, "event": "verdict", "cause": "died", "node": "n", "rank": 1, "text": "e", "tag": "t"}\n{"v": 1, "event": "state", "phase": "learn", "step": 1}\n{"v": 1, "event": "end", "state": "failed", "exit_code": 70, "text": "x"}\n'
  { printf "$line${line/1,/2,}${line/1,/2,}" && bytes 1 && printf "$log" && bytes 1 && cat inputs/quickstart.yaml; } | seed
  printf '{"st\\u0065p":3,"x":{"y":[1]},"z":true,"a":25E-1 , "a":-0.0}\r\n{"step":0}\nx\n\n[1]\n{"step": 4, "eval": "due"' | seed
  { printf '{"step": 99999999999999999999}\n{"step": 7, "h": 0x1p3}\n' && bytes 1 && printf 'no newline' && bytes 1 && printf 'a: [1, {b: c}]\n'; } | seed
}

make_jsonwalk() {
  local file
  for file in $data/*/config.json $data/lora/*/adapter_config.json; do seed <"$file"; done
  printf '{"prompt_id": 3, "answer": null, "tokens": [5, 6, -7e-2], "rewards": {"a\\u0000\\ud83d\\ude42": 1.5}, "stop": "eos"}\r\n' | seed
  printf ' [true, "\\ud800\\n\xc3\xab", {}, [[]], 12345678901234567890, 1e999, "\\\\"] ' | seed
}

make_lora() {
  local file
  for file in $data/lora/*/adapter_config.json; do
    { cat "$file" && printf '\1trireme base 1\npath /a b\npart critic\ntensor model.norm.weight 0123456789abcdef 1 24\n'; } | seed
  done
  printf '{}\1trireme base 1\nseed 42\npart main\ntensor a 1 0 2 3\ntensor b.weight ff 2 4 5 6\n' | seed
}

make_manifest() {
  local head='{\n"format": "trireme-checkpoint",\n"version": 1,\n"program": "trireme 0.1.0",\n"step": 2,\n"deck_hash": "",\n'
  local state='"state": {"file": "state.h5", "bytes": 9000, "metadata_hash": "33d6618491ef4859"},\n'
  local tensor='{"group": "/model", "name": "a.weight", "dtype": "f32", "shape": [7, 4], "offset": 4096}'
  local second=${tensor/a.weight/b}
  printf "$head$state"'"files": [\n],\n"tensors": [\n'"$tensor"'],\n' | seed
  printf "$head$state"'"record": {"version": "0.1.0", "commit": null, "build": {"compiler": "GNU 12", "flags": "-O3"}, "libraries": [{"name": "MPI", "built": "4.1.4", "loaded": "Open MPI v4.1.4"}], "products": {"f32": "avx512"}, "collectives": "shm", "hosts": [{"node": "n1", "nodes": 2, "cpu": "EPYC", "device": "cpu", "ranks": 4}], "ranks": 4, "environment": {"TRI_COMM": "shm"}},\n"files": [\n],\n"tensors": [\n'"$tensor"'],\n' | seed
  printf "$head$state"'"files": [\n{"name": "config.json", "bytes": 12, "hash": "0123456789abcdef"}\n],\n"tensors": [\n'"$tensor"',\n'"${second/4096/4208}"'],\n' | seed
}

make_math() { # every ninth pair of the golden
  awk 'NR % 9 == 1' $data/math/pairs.jsonl | sed -n 's/^\["\(.*\)","\(.*\)","[a-z0-9 =]*",[01]\]$/\1\n\2/p' |
    while IFS= read -r one && IFS= read -r other; do
      printf '%s\1%s' "${one//\\\\/\\}" "${other//\\\\/\\}" | seed
    done
  printf 'so 1,234.5e-3 \\times 10^{2}, 3 1/2 or \xe2\x88\x92\\dfrac{3}{4}\1#### 5' | seed
}

make_reply() {
  local line
  for line in '{"id": 7, "reward": 0.5}' '{"id": 7, "reward": NaN, "acc": -Infinity, "n": 1e999}' \
    '{"reward": "0.5", "id": 3.0, "note": "NaN \\"x", "list": [1, [nan, inf]], "ok": true, "none": null}' \
    '{"id": 1, "reward": 1, "extra_logs": {"acc": 0.25, "mean": 1, "a b": 2, "x-y.z_1": false}}'; do
    { bytes 0 && printf '%s' "$line"; } | seed
  done
  { bytes 6 && printf '%s' '{"rewards": [1, 2, 3], "scores": [0.5, null, 1], "time": 3, "extra_logs": {"half": [1, 2, 3]}}'; } | seed
  { bytes 7 && printf '%s' '{"rewards": [1, 2, 3, "4"], "extra_logs": {"half": [1, 2]}}'; } | seed
}

make_reward() {
  local pattern
  for pattern in '####' '^\\s*(\\d+)$' '(a|b)*c' '\\bx+?\\b' '(?<n>[^]])\\k<n>' '[[:alpha:]\\p{L}]{2,5}'; do
    { bytes 1 && printf "$pattern"'\1So the answer is #### 72 abbbc\n'; } | seed
  done
  { bytes 0 && printf '72\1The answer is 72.00.'; } | seed
  { bytes 0 && printf ' -1,234.50 \1(-1234.5)'; } | seed
}

make_rollout() {
  local one='{"prompt_id": 3, "sample": 0, "prompt": "3+0=", "response": "3", "prompt_tokens": 2, "tokens": [5, 6, 7, 256]'
  local rest='"logprobs": [-0.5, -1.25], "reward": 1, "rewards": {"exact": 1, "number": 0.5}, "advantage": 0.5, "stop": "eos"}\n'
  { bytes 0 0 0 && printf '{"tokens": [1, 2]}\n{"tokens": [1, 2, 3], "prompt_tokens": 2, "stop": "length"}\n'; } | seed
  { bytes 13 0 0 && printf "$one, $rest${one/\"sample\": 0/\"sample\": 1}, $rest"; } | seed
  { bytes 4 9 9 && printf "$one}\n\n${one/_id\": 3/_id\": 4}, $rest"; } | seed
}

make_safetensors() {
  local file shards=$data/safetensors/shards
  for file in $data/safetensors/*.safetensors $data/grpo/model.safetensors $data/model/qwen2/model.safetensors; do
    { bytes 0 && data_bytes "$file" && bytes 0 0 && header "$file"; } | seed
    { bytes 1 0 0 0 0 && head -c 4000 "$file"; } | seed
  done
  for what in 2 10; do
    { bytes $what && data_bytes $shards/model-00001-of-00002.safetensors && data_bytes $shards/model-00002-of-00002.safetensors &&
      header $shards/model-00001-of-00002.safetensors && bytes 1 && header $shards/model-00002-of-00002.safetensors && bytes 1 &&
      cat $shards/model.safetensors.index.json; } | seed
  done
}

make_tokload() {
  local file
  for file in $data/cli/tokenizer.json $data/train/tokenizer.json $data/tokenizer/*[a-z0-9].json; do
    case $file in *golden.json | */texts.json | */regexes.json | */folders.json | */unigram_t5.json) continue ;; esac
    { cat "$file" && printf '\1It'"'"'s 3.14  m\xc3\xa4h <|endoftext|>\r\n\t\xff'; } | seed
  done
  { cat $data/tokenizer/flags.json && printf '\1a <think>b Foo\1{"eos_token": {"__type": "AddedToken", "content": "<eos>", "lstrip": true}, "x_token": "b",
    "added_tokens_decoder": {"303": {"content": "Foo", "normalized": false}, "400": {"content": "<think>", "special": true}},
    "extra_special_tokens": ["a", {"content": "<b>"}], "split_special_tokens": false, "model_max_length": 1e30}'; } | seed
  { cat $data/cli/tokenizer.json && printf '\1a<think>\1{"additional_special_tokens": ["a"], "extra_special_tokens": null}\1{"pad_token": {"content": "<pad>"},
    "extra_special_tokens": {"image_token": "<i>"}}\1{"<think>": 300, "a": 3}'; } | seed
}

make_tokregex() {
  local pattern
  # A pattern is the string in front of a list.
  awk '$0 == "[" && before ~ /^"/ { gsub(/^"|",?$/, "", before); gsub(/\\\\/, "\\", before); gsub(/\\"/, "\"", before); print before }
    { before = $0 }' $data/tokenizer/regexes.json >"$folder/patterns"
  while IFS= read -r pattern; do
    { printf '%s\1' "$pattern" && printf 'aabab AB xAxB b1\n\tcab_C \xe4\xbd\xa0 12345 {$^}]'; } | seed
  done <"$folder/patterns"
}

make_toktext() {
  local text which=0
  texts $data/tokenizer/texts.json >"$folder/texts"
  while IFS= read -r text; do
    { bytes $((which++ % 18)) && printf '%b' "$text"; } | seed
    { bytes $((which++ % 18)) && printf '%b' "$text"; } | seed
  done <"$folder/texts"
}

make_visible() {
  { bytes 129 && printf 'a\tb\n\033[31m\177 \xc2\x9b\xe2\x80\xae\xef\xbf\xbd\xf0\x9f\x99\x82\xff\xc3'; } | seed
}

make_jinja() {
  local file line
  for file in $data/chat/templates/*.jinja; do
    seed <"$file"
  done
  for file in $data/jinja/*.json; do # each twentieth template
    sed -n '0~20s/^\["\(.*\)",.*/\1/p' "$file" | sed 's/\\"/"/g; s/\\u[0-9a-f]*//g' | while IFS= read -r line; do
      printf '%b' "$line" | seed
    done
  done
}

case $harness in
ckpt) sources='io/checkpoint/checkpoint_read.c io/checkpoint/checkpoint_verify.c io/checkpoint/checkpoint_h5.c' ;;
dataset) sources='io/text/lines.c io/text/jsonl.c io/text/file_kind.c io/data/dataset*.c io/chat/chat_write.c io/chat/chat_turns.c' ;;
deck) sources='io/text/deck.c src/config/config*.c src/algo/algo*.c src/reward/reward*.c' ;;
elf) sources='src/reward/elf_object.c' ;;
hfconfig) sources='io/hf/hf_config*.c src/family/family*.c' ;;
history) sources='src/tools/history/*.c io/text/deck.c' ;;
jinja) sources='io/jinja/*.c io/jinja/value/*.c' ;;
jsonwalk) sources='io/text/json_walk.c src/tools/show/show_answer.c' ;;
lora) sources='io/hf/peft.c io/model/base_note.c src/family/lora.c' ;;
manifest) sources='io/checkpoint/checkpoint_manifest.c' ;;
math) sources='src/reward/math/*.c' ;;
reply) sources='src/reward/reply_json.c src/reward/extras.c' ;;
reward) sources='src/reward/reward*.c' ;;
rollout) sources='io/data/rollout_file.c' ;;
safetensors) sources='io/model/safetensors.c io/text/file_kind.c' ;;
visible) sources='src/base/visible.c' ;;
tok*) sources='io/tokenizer/*.c' ;;
*) echo "seeds.sh: there is no harness $harness" >&2 && exit 64 ;;
esac
make_"$harness"
# shellcheck disable=SC2086
{
  echo "# $sources"
  LC_ALL=C grep -ohE '"[]!#-$&-[^-~]{2,24}"' $sources | grep -vF '.h"' | LC_ALL=C sort -u
} >"$folder/dict" || true
