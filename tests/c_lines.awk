# c_lines.awk - what lint.sh and rooms.sh ask of a line of C: its code, and the file an include means.
# SPDX-License-Identifier: BSD-3-Clause

# The line without comments and with "" for all that stands in quotes; in_comment goes on to the next line.
function bare(line,   out) {
  out = ""
  for (;;) {
    if (in_comment) {
      if (!match(line, /\*\//)) return out
      in_comment = 0
      line = substr(line, RSTART + 2)
    }
    if (!match(line, /\/\*|\/\/|["']/)) return out line
    out = out substr(line, 1, RSTART - 1)
    line = substr(line, RSTART)
    if (line ~ /^\/\//) return out
    if (line ~ /^\/\*/) { in_comment = 1; line = substr(line, 3) }
    else if (match(line, /^("([^"\\]|\\.)*"|'([^'\\]|\\.)*')/)) { out = out "\"\""; line = substr(line, RLENGTH + 1) }
    else { out = out substr(line, 1, 1); line = substr(line, 2) } # a digit separator
  }
}

# What a line includes, without its quotes or brackets; "" where it includes nothing.
function included(line) {
  if (!match(line, /^ *# *include *["<][^">]+[">]/)) return ""
  line = substr(line, RSTART, RLENGTH - 1)
  sub(/^[^"<]*["<]/, "", line)
  return line
}

# The file of the tree that an include of this name in `from` means: beside it, then in src, then at the root; or "".
# is_file: the files of the tree, as indices.
function resolve(name, from,   dir) {
  dir = from
  sub(/[^\/]*$/, "", dir)
  if ((dir name) in is_file) return dir name
  if (("src/" name) in is_file) return "src/" name
  return name in is_file ? name : ""
}
