#!/bin/bash
# literals.sh - how many sentences of screens and logs tests assert, by test: wording that a program's words cannot change without them.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/literals.sh            a row a test, most first, and the sum
#   tests/literals.sh --show F   those of one test
#
# Counted is each string with two words in it ("some words") that a test looks for in what the program says to people: in C behind
# cli_shows(cli_err, cli_fails(, cli_fails_in(, cli_says(, cli_saying(, cli_refuses(, ends(, expect_message(,
# strstr(tri_error_message() or strstr(cli_err; in shell in a grep, =~ or case of a log ($dir/log, log.txt, *.out, *.err). Counted
# too is each other string of a C test that has three words in a row of a string of the program: rows of a table, an argument of a
# helper. Codes, numbers, JSON members ("name": ...), words of commands and what a test says itself (fail_msg, CHECK's format) are
# none. It prints and never fails.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# FILE:LINE: literal
list() {
  awk '
  function has_words(s) { return s ~ /[a-z] [a-z]/ && s !~ /\\"[a-z_0-9]+\\": / }
  function take(s,   at, q) { # each "..." of s
    while (match(s, /"([^"\\]|\\.)*"/)) {
      q = substr(s, RSTART, RLENGTH)
      if (has_words(q)) printf "%s:%d: %s\n", FILENAME, FNR, q
      s = substr(s, RSTART + RLENGTH)
    }
  }
  function texts(s, keep,   at, q, w, n, i, three, hit) { # each "..." of s: its threes of words are kept, or looked for
    while (match(s, /"([^"\\]|\\.)*"/)) {
      q = substr(s, RSTART, RLENGTH)
      s = substr(s, RSTART + RLENGTH)
      hit = 0
      n = split(q, w, /[^A-Za-z\047 ]+/)
      for (i = 1; i <= n; i++) hit += threes(w[i], keep)
      if (hit) printf "%s:%d: %s\n", FILENAME, FNR, q
    }
  }
  function threes(s, keep,   w, n, i, hit) {
    n = split(s, w, / +/)
    for (i = 1; i + 2 <= n; i++)
      if (w[i] != "" && w[i + 2] != "") {
        if (keep) said[w[i], w[i + 1], w[i + 2]]
        else if ((w[i], w[i + 1], w[i + 2]) in said) hit = 1
      }
    return hit + 0
  }
  FILENAME ~ /^(src|io|gpu)\// { if (/"/ && !/^ *\/?\*/) texts($0, 1); next }
  FNR == 1 { on = 0 }
  FILENAME ~ /\.[ch]$/ {
    line = $0
    if (match(line, /(cli_shows\(cli_err|cli_fails(_in)?\(|cli_says\(|cli_saying\(|cli_refuses\(|expect_message\(|strstr\(tri_error_message\(\)|strstr\(cli_err|[^_a-z]ends\()/)) {
      on = 1
      line = substr(line, RSTART)
      command = line ~ /^(cli_fails(_in)?|cli_refuses|.?ends)\(/ # comes first, on this line or on those below
      if (command) sub(/^[^,]*, */, "", line)
    }
    if (on && command) {
      sub(/^ *(("([^"\\]|\\.)*"|[A-Z_0-9]+) *)+/, "", line)
      command = line ~ /^ *$/
    }
    if (on) take(line)
    else if (!/fail_msg|CHECK|print_|^#|tri_text_printf|snprintf\(name/) texts($0, 0)
    if (on && $0 ~ /;[^"]*$/) on = 0
    next
  }
  /(grep|=~|sed -n).*(\/log"?|log\.txt|\.out"?|\.err"?|"\$dir\/err")/ { # the pattern: the first that is quoted behind the command
    line = $0
    while (match(line, /(grep|=~|sed -n)[^"\047|;&]*["\047]/)) {
      quote = substr(line, RSTART + RLENGTH - 1, 1)
      line = substr(line, RSTART + RLENGTH)
      end = index(line, quote)
      q = end ? substr(line, 1, end - 1) : line
      if (q ~ /[a-z] [a-z]/ && q !~ /": /) printf "%s:%d: %s\n", FILENAME, FNR, q
      line = end ? substr(line, end + 1) : ""
    }
  }' $(git ls-files 'src/*.c' 'src/*.h' 'io/*.c' 'io/*.h' 'gpu/*.c' 'gpu/*.cu' 'gpu/*.h') $(git ls-files 'tests/*.c' 'tests/*.h' 'tests/*.sh' | grep -v -e tests/literals.sh -e tests/lint)
}

case ${1-} in
--show) list | grep -F "$2" ;;
*) list | cut -d : -f 1 | sort | uniq -c | sort -rn | awk '{ n += $1; print } END { print n, "in all" }' ;;
esac
