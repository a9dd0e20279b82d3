#!/bin/bash
# heads.sh - compares memory and batches in the heads of the decks in folders of inputs/ with trireme plan.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/jobs/heads.sh PROGRAM
# It runs each line "#   trireme plan ..." as it stands, with the config.json files of inputs/models and without data. The line before
# it has the figures. Judge: trireme plan --json. A deck fits with 1.5 GiB to spare, or its head says "too much".
set -eu
program=$(realpath "$1")
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-heads.XXXXXX")
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME="$dir" # no machine's own figures
fail() { echo "heads: $*"; exit 1; }

cd "$dir"
ln -s "$here/inputs" inputs
cp -r inputs/models models
decks=(inputs/*/*.yaml)

number() { grep -o "\"$1\": [0-9]*" <<< "$json" | sed 's/.* //;q'; } # prints a number of the plan, without its advice
size() { # bytes: as heads have them, with three digits
  awk -v n="$1" 'BEGIN { unit = n < 2 ^ 30 ? "MiB" : "GiB"; x = n / (n < 2 ^ 30 ? 2 ^ 20 : 2 ^ 30)
    printf "%.*f %s\n", (x < 9.995 ? 2 : x < 99.95 ? 1 : 0), x, unit }'
}
of_phase() { # rollout or learn: bytes of the device in it
  grep -o '{"name": [^}]*"where": "device"[^}]*}' <<< "$json" | awk -v phase="$1" '
    index($0, "\"phase\": \"" phase "\"") || /"phase": "always"/ { match($0, /"bytes": [0-9]*/); n += substr($0, RSTART + 9, RLENGTH - 9) }
    END { printf "%.0f\n", n }'
}
gib() { local text; text=$(size "$1") && echo "${text% GiB}"; }

plan() { # the command's arguments
  code=0
  # shellcheck disable=SC2086
  json=$("$program" plan $1 --json 2> log) || code=$?
  [[ $json = '{"ranks": '* ]] || { cat log; fail "trireme plan $1: exit code $code, no plan: $json"; }
  rollout=$(gib "$(of_phase rollout)") learn=$(gib "$(of_phase learn)")
  need=$(gib "$(number device_bytes)") room=$(gib "$(number device_room_bytes)") host=$(size "$(number host_bytes_per_node)")
}

check_memory() { # a deck, the line with the figures
  local is="$need GiB (learn $learn) of $room available" host_said
  ! grep -q '^rollout:' "$1" || is="$need GiB (rollout $rollout, learn $learn) of $room available"
  [[ $2 == *": $is:" || $2 == *": $is,"* ]] || fail "$1: says \"$2\"; a plan says \"$is\""
  host_said=$(sed -n "s/.*ith \([0-9.]* .iB\) of a node's own memory.*/\1/p" <<< "$2")
  [ -z "$host_said" ] || [ "$host_said" = "$host" ] || fail "$1: says $host_said of a node's own memory; a plan says $host"
  if [[ $2 == *'too much:' ]]; then
    [ $code = 64 ] || fail "$1: says that it is too much; it fits"
  else
    [ $code = 0 ] || fail "$1: $need GiB of $room do not fit"
    awk "BEGIN { exit !($room - $need >= 1.5) }" || fail "$1: $need GiB of $room, less than 1.5 to spare"
  fi
}

of_deck() { sed -n "s/^  $2: \([0-9]*\).*/\1/p" "$1"; } # a deck, the last name of a key: its value

check_batches() { # a deck, its head in one line
  local size passes ranks samples prompts group updates each
  size=$(number train_batch_size) passes=$(number max_tokens_per_gpu) ranks=$(number ranks)
  [[ $2 == *"micro-batches of at most $passes tokens"* ]] || fail "$1: micro-batches have at most $passes tokens"
  each=$(sed -En 's/.*([Ee]ach GPU has |update, )([0-9]+) (of an|on each GPU).*/\2/p' <<< "$2")
  [ -z "$each" ] || [ "$each" = $((size / ranks)) ] || fail "$1: each GPU has $((size / ranks)) of an update of $size"
  if ! grep -q '^rollout:' "$1"; then
    [[ $2 == *"Batch: $size "* ]] || fail "$1: an update has $size"
    return
  fi
  prompts=$(of_deck "$1" rollout_batch_size) group=$(of_deck "$1" num_generations)
  samples=$((prompts * group)) updates=$((prompts * group / size))
  [[ $2 == *"$samples answers a step = $prompts prompts x $group, learned in $updates update"* ]] ||
    fail "$1: a step is $samples answers = $prompts prompts x $group in $updates updates"
  each=$(sed -En 's/.*learned in [0-9]+ updates? of ([0-9]+).*/\1/p' <<< "$2")
  [ "${each:-$size}" = "$size" ] || fail "$1: an update has $size"
}

n=0
for deck in "${decks[@]}"; do
  head=$(sed -n '/^#/!q; p' "$deck") flat=$(sed -n '/^#/!q; s/^# *//p' "$deck" | tr '\n' ' ')
  before='' mine=0
  while IFS= read -r line; do
    if [[ $line == '#   trireme plan '* ]]; then
      plan "${line#*trireme plan }"
      check_memory "$deck" "$before"
      mine=$((mine + 1)) before=''
    else
      [[ $before != *GiB* ]] || fail "$deck: no command after \"$before\""
      before=$line
    fi
  done <<< "$head"
  [ $mine -gt 0 ] || fail "$deck: its head has no command"
  check_batches "$deck" "$flat"
  n=$((n + mine))
done
echo "heads: ${#decks[@]} decks, $n plans"
