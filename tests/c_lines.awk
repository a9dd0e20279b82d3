# c_lines.awk - reads a line of C for lint.sh and rooms.sh, giving its code and the file an include means.
# SPDX-License-Identifier: BSD-3-Clause

# Returns the line without comments and with "" for each string. in_comment carries over to the next line.
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

# Returns the name a line includes, without its quotes or brackets, or "" if it includes nothing.
function included(line) {
  if (!match(line, /^ *# *include *["<][^">]+[">]/)) return ""
  line = substr(line, RSTART, RLENGTH - 1)
  sub(/^[^"<]*["<]/, "", line)
  return line
}

# Returns the file of the tree meant by an include of this name in `from`, or "". It looks beside `from`, then in src, then at the
# root. is_file has the files of the tree as indices.
function resolve(name, from,   dir) {
  dir = from
  sub(/[^\/]*$/, "", dir)
  if ((dir name) in is_file) return dir name
  if (("src/" name) in is_file) return "src/" name
  return name in is_file ? name : ""
}
