#!/bin/bash
# literals.sh - counts for each test the program's sentences (screens, logs) it asserts, which cannot be reworded without it.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/literals.sh            prints a row a test, most first, and the sum.
#   tests/literals.sh --show F   prints the sentences of one test.
#
# A string of a test counts if three of its words in a row are in one string of the program (src, io, gpu). A word has letters only,
# so a name, number, path, key, flag or conversion ends a row. Adjacent strings of C are one string. A test's own messages
# (fail_msg, CHECK, print_error, printf) do not count. In shell, the strings are the patterns of grep, =~ and sed that read
# a log (log, log.txt, *.out, *.err).
# It prints and never fails.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# FILE:LINE: literal
list() {
  awk '
  function rows(s, keep,   tok, n, i, w, a, b) { # keeps the rows of a string of the program, or says if a row is one of them
    gsub(/\\[nrt]/, " ", s)
    gsub(/\\./, "~", s)
    n = split(s, tok, / +/)
    a = b = ""
    for (i = 1; i <= n; i++) {
      w = tok[i]
      gsub(/^[(\047]+|[,;:.!?)\047]+$/, "", w)
      if (w == "") continue
      if (w !~ /^[A-Za-z][A-Za-z\047-]*$/) { a = b = ""; continue }
      if (a != "" && keep) said[a, b, w]
      if (!keep && a != "" && ((a, b, w) in said)) return 1
      a = b; b = w
    }
    return 0
  }
  function ended(   own) { # text is a whole string of C, begun in line `at`, in the arguments of call
    if (text == "") return
    if (product) rows(text, 1)
    else if (call !~ /^(fail_msg|fail_early|CHECK|print_error|print_message|f?printf)$/ && rows(text, 0)) printf "%s:%d: \"%s\"\n", file, at, text
    text = ""
  }
  function c(line,   t) {
    while (line != "") {
      if (comment) {
        if (!match(line, /\*\//)) return
        line = substr(line, RSTART + 2)
        comment = 0
      } else if (match(line, /^[ \t]+/)) line = substr(line, RLENGTH + 1)
      else if (match(line, /^"([^"\\]|\\.)*"/)) {
        if (text == "") { at = FNR; file = FILENAME; call = name[depth] }
        text = text substr(line, 2, RLENGTH - 2)
        line = substr(line, RLENGTH + 1)
      } else if (line ~ /^\/\*/) { comment = 1; line = substr(line, 3) }
      else if (line ~ /^\/\// || line ~ /^#/ || line ~ /^\\$/) return
      else {
        ended()
        if (match(line, /^[A-Za-z_0-9]+/)) last = substr(line, 1, RLENGTH)
        else if (match(line, /^\047([^\047\\]|\\.[^\047]*)\047/)) last = ""
        else {
          match(line, /^./)
          t = substr(line, 1, 1)
          if (t == "(") name[++depth] = last
          else if (t == ")" && depth) depth--
          else if (t == ";") depth = 0
          else if (t == "{") name[depth] = "" # a table in a call is no text of that call
          last = ""
        }
        line = substr(line, RLENGTH + 1)
      }
    }
  }
  FNR == 1 { ended(); comment = depth = 0; name[0] = last = ""; product = FILENAME ~ /^(src|io|gpu)\// }
  FILENAME ~ /\.(c|h|cu)$/ { c($0); next }
  /(grep|=~|sed -n).*(\/log"?|log\.txt|\.out"?|\.err"?|"\$dir\/err")/ { # the pattern is the first quoted string after the command
    line = $0
    while (match(line, /(grep|=~|sed -n)[^"\047|;&]*["\047]/)) {
      quote = substr(line, RSTART + RLENGTH - 1, 1)
      line = substr(line, RSTART + RLENGTH)
      end = index(line, quote)
      q = end ? substr(line, 1, end - 1) : line
      s = q
      gsub(/[|^$]/, " ~ ", s)
      if (rows(s, 0)) printf "%s:%d: %s\n", FILENAME, FNR, q
      line = end ? substr(line, end + 1) : ""
    }
  }
  END { ended() }' $(git ls-files 'src/*.c' 'src/*.h' 'io/*.c' 'io/*.h' 'gpu/*.c' 'gpu/*.cu' 'gpu/*.h') $(git ls-files 'tests/*.c' 'tests/*.h' 'tests/*.sh' | grep -v -e tests/literals.sh -e tests/lint)
}

case ${1-} in
--show) list | grep -F "$2" ;;
*) list | cut -d : -f 1 | sort | uniq -c | sort -rn | awk '{ n += $1; print } END { print n, "in all" }' ;;
esac
