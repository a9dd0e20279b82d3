#!/bin/sh
# quickstart_data.sh - tests the demonstration's data. Judges: all sums and differences, each once; held-out problems and their mirror
# images are nowhere else; the answers, worked out here. It uses several seeds and every installed awk.
# SPDX-License-Identifier: BSD-3-Clause
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-data.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { echo "quickstart_data: $*"; exit 1; }

# FILE: prints "A SIGN B ANSWER" for each line of the file, with the answer's digits in the usual order.
read_lines() {
  sed -E 's/^\{"prompt": "([0-9]+)([-+])([0-9]+)=", "(answer|completion)": "([0-9]+)"\}$/\1 \2 \3 \5/; t; s/.*/BAD &/' "$1" |
    awk '$1 == "BAD" { print; exit }
      { text = ""; for (i = length($4); i; i--) text = text substr($4, i, 1); print $1, $2, $3, text }'
}

# PROBLEMS PAIRS LABELLED: checks that all are of these problems, that only the chosen answer is right, and that true means right.
check_preferences() {
  cat "$@" | awk -F '"' '
    $6 == "answer" { right[$4] = $8 ""; n++; next } # compares texts, because the numbers -0 and 0 are equal
    !($4 in right) { bad = 1 }
    $6 == "chosen" { pairs++; if ($8 "" != right[$4] || $10 != "rejected" || $12 "" == right[$4] || length($12) > 5) bad = 1 }
    $6 == "completion" { labels++; if (($8 "" == right[$4]) != ($11 ~ /true/)) bad = 1; yes += $11 ~ /true/ }
    bad { print; exit }
    END { exit bad || pairs < n || labels < n || yes < labels * 0.4 || yes > labels * 0.6 }'
}

check() { # awk program, seed
  rm -f "$dir"/*
  "$1" -v seed="$2" -v lines=2000 -v dir="$dir" -f "$here/jobs/quickstart.awk" > "$dir/said"
  for name in heldout prompts demos; do
    read_lines "$dir/$name.jsonl" > "$dir/$name"
    ! grep '^BAD' "$dir/$name" || fail "$1, seed $2: a line of $name.jsonl"
  done
  [ "$(wc -l < "$dir/demos")" -eq 2000 ] || fail "$1, seed $2: demonstrations"
  held=$(wc -l < "$dir/heldout")
  [ "$held" -ge 600 ] && [ "$held" -le 601 ] || fail "$1, seed $2: $held held out"
  # 100 x 100 sums, 5050 differences >= 0
  [ "$(cat "$dir/heldout" "$dir/prompts" | cut -d ' ' -f 1-3 | sort -u | wc -l)" -eq 15050 ] &&
    [ "$(cat "$dir/heldout" "$dir/prompts" | wc -l)" -eq 15050 ] || fail "$1, seed $2: the problems are not 15050 different ones"
  awk '$1 > 99 || $3 > 99 || $4 + 0 != ($2 == "+" ? $1 + $3 : $1 - $3) { print; exit 1 }' "$dir/heldout" "$dir/prompts" ||
    fail "$1, seed $2: a wrong answer"
  awk 'FNR == NR { held[$1, $2, $3]; if ($2 == "+") held[$3, $2, $1]; next }
    ($1, $2, $3) in held { print; exit 1 }' "$dir/heldout" "$dir/prompts" "$dir/demos" ||
    fail "$1, seed $2: held out, yet in the training data"
  check_preferences "$dir/prompts.jsonl" "$dir/pairs.jsonl" "$dir/labelled.jsonl" || fail "$1, seed $2: preferences"
  check_preferences "$dir/heldout.jsonl" "$dir/heldout_pairs.jsonl" "$dir/heldout_labelled.jsonl" ||
    fail "$1, seed $2: held-out preferences"
}

n=0
for program in awk mawk gawk original-awk; do
  command -v "$program" > /dev/null || continue
  for seed in 1 2 3 17; do check "$program" $seed; done
  n=$((n + 1))
done
[ $n -gt 0 ] || fail "no awk"
echo "quickstart_data: as it should be, by $n names of awk"
