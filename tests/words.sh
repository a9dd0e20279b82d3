#!/usr/bin/env bash
# words.sh - measures how plain the comments, messages and READMEs of the tree are.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/words.sh               prints a row for comments, one for messages and one for READMEs, and the ten worst sentences.
# tests/words.sh PATH...       measures these files and folders only.
#   --files, --folders         prints a row for each file or folder too.
#   --since REV                counts only sentences with a word on a line added since REV. The work tree is compared.
#   --worst N                  prints N sentences instead of ten.
# It prints and never fails.
#
# The columns are words, sentences, relative words (that, which, what, whose, whom, where) per 100 words, semicolons and
# colons per 100 words, words a sentence, and sentences beginning with Of or What, in either case.
#
# Comments are /* */ and // of C, C++ and CUDA, and # of shell, Python, awk, CMake, YAML and container recipes. Lines of SPDX,
# clang-format, shellcheck and #SBATCH are left out, and so is "NAME - " of a file's first line.
# Messages are the string literals of C in src, io and gpu, joined where they are adjacent (PRId64 and the like may stand
# between). A literal counts if three of its words consist of letters alone and it is not HTML, CSS, script, assembler or JSON.
# READMEs are all *.md without code blocks and headings, and CHANGELOG.md only up to its first released section, which is one
# with a date. Code in backticks is one word.
# tests/data and inputs/reference.yaml are left out. The second is written from the messages of config_keys.c.
#
# A sentence ends at . ! or ? before a space, at the end of a paragraph, list item, literal or comment, and at \n in a
# literal unless a small letter follows. In a comment a change of indentation ends a paragraph too. Tables are read cell by
# cell. A table is what Markdown says, or a comment line with three spaces between its words. A sentence of fewer than three
# words is not counted. A word is anything between spaces with a letter, a digit or a conversion (%s) in it.
# A semicolon or colon counts before a space. A colon does not count at the end of a paragraph, before { or [, behind a
# conversion, behind a word with another colon (FILE:LINE:, a URL), or behind the first word of a message.
# The worst sentences have the largest sum. It adds up words beyond 20, 5 for each relative word, 4 for each semicolon or
# colon, and 10 for a beginning with Of or What.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 0
export LC_ALL=C
since='' rows='' worst=10 paths=()
while (($#)); do
  case $1 in
  --since) since=${2-} && shift ;;
  --worst) worst=${2-} && shift ;;
  --files | --folders) rows=${1#--} ;;
  -h | --help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "${BASH_SOURCE[0]}" && exit 0 ;;
  *) paths+=("$1") ;;
  esac
  shift
done
added=$(mktemp) || exit 0
trap 'rm -f "$added"' EXIT
# FILE FIRST LAST of the added lines.
[[ -z $since ]] || git diff -U0 --no-color --no-ext-diff --dst-prefix=b/ "$since" -- . | awk '
  /^\+\+\+ / { file = substr($0, 7) }
  /^@@ / {
    split($3, at, ",")
    n = $3 ~ /,/ ? at[2] : 1
    if (n > 0) print file, substr(at[1], 2), substr(at[1], 2) + n - 1
  }' >"$added"

mapfile -t files < <(git ls-files --cached --others --exclude-standard -- ${paths[@]+"${paths[@]}"} |
  grep -E '\.([ch]|cuh?|cpp|sh|sbatch|bash|py|awk|cmake|ya?ml|def|eb|md)$|(^|/)CMakeLists\.txt$|^\.ci/run$' |
  grep -vE '^tests/data/|^inputs/reference\.yaml$' | while read -r f; do [[ -f $f ]] && echo "$f"; done)

awk -v since="$since" -v rows="$rows" -v worst="$worst" '
  # A sentence grows word by word and is counted at its end.
  function add_word(w, line,   bare) {
    if (words == 0) { begins_at = line; first = w }
    if (pending) { marks++; pending = 0 }
    text = text (text == "" ? "" : " ") w
    if (w ~ /;["\047)]*$/) marks++
    if (w ~ /:["\047)]*$/ && w !~ /^[{[]|:.*:|[%@][^ ]*:["\047)]*$/ && !(kind == "messages" && words == 0 && !inside)) pending = 1
    if (w ~ /^[\[{]/ && text ~ /: [\[{][^ ]*$/ && marks) marks--
    touched = touched || since == "" || ((file, line) in is_new)
    if (w !~ /[A-Za-z0-9%]/) return
    words++; inside = 1
    bare = tolower(w)
    gsub(/[^a-z]/, "", bare)
    if (bare in relative && w !~ /`/) relatives++
    if (words == 1) first = bare
    if (w ~ /[.!?]["\047)\]*_]*$/ && w !~ /\.\.\.["\047)]*$/ && !(tolower(w) in short)) end_sentence()
  }
  function end_sentence(   bad, i, key) {
    if (words >= 3 && touched) {
      key = rows == "files" ? file : folder
      bad = (first == "of" || first == "what")
      sum(kind); if (rows != "") { sum(kind SUBSEP key); seen[key] = 1 }
      score = (words > 20 ? words - 20 : 0) + 5 * relatives + 4 * marks + 10 * bad
      if (score > 0 && (n_worst < worst || score > worst_score[n_worst])) {
        if (n_worst < worst) n_worst++
        for (i = n_worst; i > 1 && worst_score[i - 1] < score; i--) {
          worst_score[i] = worst_score[i - 1]
          worst_text[i] = worst_text[i - 1]
        }
        worst_score[i] = score; worst_text[i] = file ":" begins_at ": " text
      }
    }
    words = relatives = marks = pending = touched = 0
    text = ""
  }
  function sum(key) {
    n_words[key] += words; n_sentences[key]++; n_relative[key] += relatives; n_marks[key] += marks
    n_begins[key] += (first == "of" || first == "what")
  }
  function end_block() { end_sentence(); inside = in_list = 0 }
  # Code in backticks is one word. Its spaces and marks are hidden, and shown again in print.
  function hide(code) { gsub(/ /, "\001", code); gsub(/:/, "\002", code); gsub(/;/, "\003", code); return "`" code "`" }
  function show(s) {
    gsub(/\001/, " ", s); gsub(/\002/, ":", s); gsub(/\003/, ";", s)
    return length(s) > 400 ? substr(s, 1, 400) "..." : s
  }
  function add_line(s, line,   n, w, i) {
    n = split(s, w, " ")
    for (i = 1; i <= n; i++) add_word(w[i], line)
  }
  # Takes a line of a comment, a row of a table by its cells and other lines as running text.
  function add_comment(s, line,   n, cell, i) {
    if (s ~ /SPDX-License|clang-format o|shellcheck (disable|source)|^[ *=#-]*$/) { end_block(); return }
    if (line <= 2 && match(s, /^ *[A-Za-z0-9_.\/-]+ - /)) s = substr(s, RLENGTH)
    match(s, /^ */)
    if (!in_list && (RLENGTH > indent + 1 || RLENGTH < indent - 1)) end_block()
    indent = RLENGTH
    sub(/^ +/, "", s); sub(/ +$/, "", s)
    if (s ~ /^([-*] |[0-9]+\. )/) { end_block(); sub(/^[^ ]+ +/, "", s); in_list = 1 }
    if (s !~ /[^ ]   +[^ ]/) { add_line(s, line); return }
    end_block()
    n = split(s, cell, /   +/)
    for (i = 1; i <= n; i++) { add_line(cell[i], line); end_block() }
  }

  # In C, comments are taken at once and literals by the statement.
  function end_message(   i, n, w, all, letters, part, p) {
    for (i = 1; i <= n_piece; i++) all = all piece[i]
    n = split(all, w, " ")
    for (i = 1; i <= n; i++) letters += w[i] ~ /^["\047(]*[A-Za-z][A-Za-z]+["\047),.;:!?]*$/
    if (letters >= 3 && all !~ /<\/|<[a-z!]+[ >]|[{;}][a-z.#-]+[:{(]|\\"[a-z_0-9]+\\":|\\t.*[;,]|=>|\$[({]|\|\|/) {
      kind = "messages"
      end_block()
      for (i = 1; i <= n_piece; i++) {
        p = piece[i]
        gsub(/\\[\\"]/, "\"", p); gsub(/\\t/, "   ", p)
        if (i > 1 && piece[i - 1] ~ /\\n$/ && p !~ /^[a-z]/) end_block()
        while (match(p, /\\n./)) {
          part = substr(p, 1, RSTART - 1)
          add_line(part, piece_line[i])
          if (substr(p, RSTART + 2, 1) !~ /[a-z]/) end_block()
          p = substr(p, RSTART + 2)
        }
        sub(/\\n$/, "", p)
        add_line(p, piece_line[i])
      }
      end_block()
    }
    n_piece = 0
  }
  function between(code) { # code between literals: does the next one go on with the last?
    if (n_piece && code !~ /^[ \t]*([A-Z][A-Z0-9_]*(d|u|x|i)?[0-9]*[ \t]*)*$/) end_message()
  }
  function read_c(line, number,   s) {
    if (!in_comment && line ~ /^ *# *include/) return
    s = line
    for (;;) {
      if (in_comment) {
        kind = "comments"
        if (match(s, /\*\//)) {
          add_comment(strip(substr(s, 1, RSTART - 1)), number); end_block()
          in_comment = 0; s = substr(s, RSTART + 2)
        } else { add_comment(strip(s), number); return }
      }
      if (!match(s, /\/\*|\/\/|["\047]/)) { between(s); if (s !~ /^ *$/) slashes = 0; return }
      between(substr(s, 1, RSTART - 1))
      if (substr(s, 1, RSTART - 1) !~ /^ *$/) slashes = 0
      s = substr(s, RSTART)
      if (s ~ /^\/\//) {
        kind = "comments"
        if (!slashes) end_block()
        add_comment(substr(s, 3), number); slashes = 1
        return
      }
      if (slashes) { kind = "comments"; end_block(); slashes = 0 }
      if (s ~ /^\/\*/) { if (n_piece) end_message(); in_comment = 1; kind = "comments"; end_block(); s = substr(s, 3) }
      else if (match(s, /^"([^"\\]|\\.)*"/)) {
        if (says) { piece[++n_piece] = substr(s, 2, RLENGTH - 2); piece_line[n_piece] = number }
        s = substr(s, RLENGTH + 1)
      } else if (match(s, /^\047([^\047\\]|\\.)*\047/)) s = substr(s, RLENGTH + 1)
      else s = substr(s, 2)
    }
  }
  function strip(s) { sub(/^[ \t]*\*+/, "", s); return s }

  # In scripts, a comment is # with a space behind it, on a line of its own or after code with all quotes closed.
  function read_script(line, number,   code, q) {
    kind = "comments"
    if (line ~ /^[ \t]*#/) {
      if (line ~ /^[ \t]*#[^ #]/) { end_block(); return }
      sub(/^[ \t]*#+/, "", line)
      add_comment(line, number)
      return
    }
    end_block()
    if (!match(line, /[ \t]# [^#]*$/)) return
    code = substr(line, 1, RSTART)
    q = code; if (gsub(/"/, "", q) % 2) return
    q = code; if (gsub(/\047/, "", q) % 2) return
    add_comment(substr(line, RSTART + 2), number)
    end_block()
  }

  function read_markdown(line, number,   n, cell, i, out, at) {
    kind = "READMEs"
    if (line ~ /^ *```/) { fenced = !fenced; end_block(); in_code = 0; return }
    if (fenced || released) return
    if (file ~ /CHANGELOG/ && line ~ /^## .*[0-9][0-9][0-9][0-9]-[0-9][0-9]/) { end_block(); released = 1; return }
    if (line ~ /^ *$|^#|^ *<!--|^ *\|[-|: ]*$/) { end_block(); in_code = 0; return }
    for (out = ""; (at = index(line, "`")) > 0; line = substr(line, at + 1)) { # code in backticks is one word
      out = out (in_code ? hide(substr(line, 1, at - 1)) : substr(line, 1, at - 1)); in_code = !in_code
    }
    line = out (in_code ? "" : line) # where code spans two lines, the second part stays
    gsub(/\]\([^)]*\)/, "", line); gsub(/[\[]|\*\*/, "", line)
    if (line ~ /^ *\|/) {
      end_block()
      n = split(line, cell, "|")
      for (i = 1; i <= n; i++) { add_line(cell[i], number); end_block() }
      in_code = 0
      return
    }
    if (line ~ /^ *([-*+]|[0-9]+\.) /) { end_block(); sub(/^ *[^ ]+ /, "", line) }
    add_line(line, number)
  }

  function end_of_file() { if (n_piece) end_message(); end_block() }
  function row(name, key,   w) {
    w = n_words[key]
    if (!w) return ""
    return sprintf("%-*s %8d %9d %8.2f %8.2f %8.1f %8d\n", width, name, w, n_sentences[key], 100 * n_relative[key] / w,
      100 * n_marks[key] / w, w / n_sentences[key], n_begins[key])
  }
  function head(name) {
    printf "%-*s %8s %9s %8s %8s %8s %8s\n", width, name, "words", "sentences", "rel/100", ";:/100", "w/sent", "Of,What"
  }
  BEGIN {
    n = split("that which what whose whom where", list, " "); for (i = 1; i <= n; i++) relative[list[i]] = 1
    n = split("e.g. (e.g. i.e. (i.e. vs. cf. (cf. no. fig.", list, " "); for (i = 1; i <= n; i++) short[list[i]] = 1
    split("comments messages READMEs", kinds, " ")
    # FILE FIRST LAST
    while ((getline line < ARGV[1]) > 0) { split(line, list, " "); for (i = list[2]; i <= list[3]; i++) is_new[list[1], i] = 1 }
    ARGV[1] = ""
  }
  FNR == 1 {
    end_of_file()
    file = folder = FILENAME
    if (!sub(/\/[^\/]*$/, "", folder)) folder = "."
    in_comment = fenced = released = in_code = slashes = 0
    says = file ~ /^(src|io|gpu)\//
    type = file ~ /\.([ch]|cuh?|cpp)$/ ? 1 : file ~ /\.md$/ ? 3 : 2
  }
  type == 1 { read_c($0, FNR) }
  type == 2 { read_script($0, FNR) }
  type == 3 { read_markdown($0, FNR) }
  END {
    end_of_file()
    width = 10
    if (rows != "") {
      for (key in seen) if (length(key) + 9 > width) width = length(key) + 9
      head(rows)
      fflush()
      for (i = 1; i <= 3; i++) {
        for (key in seen) printf "%s", row(kinds[i] " " key, kinds[i] SUBSEP key) | "sort"
        close("sort")
      }
      print ""
    }
    head("")
    for (i = 1; i <= 3; i++) printf "%s", row(kinds[i], kinds[i])
    if (n_worst) print "\nthe worst:"
    for (i = 1; i <= n_worst; i++) print show(worst_text[i])
  }' "$added" ${files[@]+"${files[@]}"} </dev/null
exit 0
