#!/usr/bin/env bash
# rooms.sh - checks the dependencies between the rooms of the tree, by includes and by calls, against CMakeLists.txt.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/rooms.sh            prints a table of the rooms with their sources and used rooms, then findings as FILE:LINE: TEXT.
#                           It exits with 1 if there are findings.
# tests/rooms.sh --check    prints the findings alone.
# tests/rooms.sh --dot      prints the same graph for graphviz. Draw it by tests/rooms.sh --dot | dot -Tsvg > rooms.svg
# tests/rooms.sh --map      prints the map of src/README.md, made from the rows of CMakeLists.txt.
# tests/rooms.sh --write    writes that map into src/README.md.
#
# A room is a folder of src, io or gpu with a row in CMakeLists.txt, room(FOLDER "Its job." USED ...). There is no other list.
# A row names only rooms of rows above it, so there is no circle of rooms. A room uses only rooms reachable by its row,
# and it uses all rooms its row names. The rooms needed by a training step (all reachable from src/train) use nothing of
# src/tools. A room of src that no step needs is in src/tools. src/commands uses both. src itself, the program, may use all rooms.
#
# A header with "Private to its room." in its first comment is included only in its room and by tests. A file calls every
# tri_ name in it that a source of another room defines, with an include or without. The sources of a room do not call each
# other in a circle. X.c and X.h count as one source.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# The one name known to a lower room and defined by a higher one, the back ends of a build (src/device/device.h).
filled_above='tri_backends src/registry.c src/device/device.h src/device/device.c'
map_begins='<!-- made by tests/rooms.sh --write -->' map_ends='<!-- end of the map -->'

what=${1:---table}
if [[ $what == --write ]]; then
  map=$("$0" --map) || exit 1
  MAP=$map awk -v begins="$map_begins" -v ends="$map_ends" '$0 == ends { inside = 0 } !inside { print }
    $0 == begins { print ENVIRON["MAP"]; inside = 1 }' src/README.md >src/README.md.tmp && mv src/README.md.tmp src/README.md
  exit
fi
mapfile -t files < <(find src io gpu -regex '.*\.\([ch]\|cuh?\)' | sort)

awk -v filled="$filled_above" -v map_begins="$map_begins" -v map_ends="$map_ends" -v what="$what" "$(<tests/c_lines.awk)"'
function room_of(path) { sub(/\/[^\/]*$/, "", path); return path }
function bad(file, line, text) { if (what != "--map") printf "%s:%d: %s\n", file, line, text; found = 1 }
function is_tool(room) { return room ~ /^src\/tools\// }
function sees_all(room) { return room == "src" || room == "src/commands" }
function arrow(from, line, to, how,   a, b) {
  a = room_of(from); b = room_of(to)
  if (a == b || !(a in place) || !(b in place)) return
  uses[a, b]++
  if (a == "src") return
  if (is_tool(b) && !is_tool(a) && !sees_all(a)) bad(from, line, how " of " b ", which is a tool; only tools and src/commands use tools")
  else if (!((a, b) in links)) bad(from, line, how " of " b " (the row of " a " in CMakeLists.txt does not lead there)")
}
# Finds the sources reachable from a source by calls inside its room.
function reach(start, at,   i, n, f) {
  n = split(calls[at], f, " ")
  for (i = 1; i <= n; i++)
    if (!((start, f[i]) in reached)) { reached[start, f[i]] = 1; reach(start, f[i]) }
}
function find_circles(   a, b, list, told, i, n) {
  for (i = 1; i < ARGC; i++) if (ARGV[i] in calls) reach(ARGV[i], ARGV[i])
  for (i = 1; i < ARGC; i++) {
    a = ARGV[i]
    if (!((a, a) in reached) || a in told) continue
    list = ""
    for (n = 1; n < ARGC; n++) { b = ARGV[n]; if ((a, b) in reached && (b, a) in reached) { told[b] = 1; list = list (list ? " " : "") b } }
    bad(a, 1, "calls in a circle: " list)
  }
}
# Reads the rows of CMakeLists.txt, room(FOLDER "Its job." USED ...). A row may span lines. All rows come before any source.
function read_rows(   text, line, at) {
  order[n_room = 1] = "src"; place["src"] = 1
  for (at = 1; (getline line <"CMakeLists.txt") > 0; at++) {
    if (line ~ /^ *room\([a-z]/) { text = ""; row_at = at }
    else if (text == "") continue
    text = text " " line
    if (line ~ /\)$/) { read_row(text, row_at); text = "" }
  }
  close("CMakeLists.txt")
}
function read_row(text, line,   f, n, i, room, job) {
  if (!match(text, /"[^"]*"/)) { bad("CMakeLists.txt", line, "a room without a job: room(FOLDER \"Its job.\" USED ...)"); return }
  job = substr(text, RSTART + 1, RLENGTH - 2)
  text = substr(text, 1, RSTART - 1) " " substr(text, RSTART + RLENGTH)
  gsub(/^ *room\(|\) *$/, "", text)
  n = split(text, f, " ")
  room = f[1]
  if (job !~ /^[A-Z].*\.$/) bad("CMakeLists.txt", line, "the job of " room " is not a sentence: \"" job "\"")
  order[++n_room] = room; place[room] = n_room; row_line[room] = line; says[room] = job
  for (i = 2; i <= n; i++) {
    if (f[i] in place) { names[room] = names[room] " " f[i]; link(room, f[i]) }
    else later[room] = later[room] " " f[i]
  }
}
# A room reaches the rooms of its row, and the rooms these reach.
function link(room, used,   i) {
  links[room, used] = 1
  for (i = 1; i <= n_room; i++) if ((used, order[i]) in links) links[room, order[i]] = 1
}
function check_row(room,   f, n, i) {
  if (room == "src") return
  if (!(room in sources)) bad("CMakeLists.txt", row_line[room], room " has no sources")
  n = split(later[room], f, " ")
  for (i = 1; i <= n; i++) if (f[i] in place) bad("CMakeLists.txt", row_line[room], room " names " f[i] ", whose row does not stand above")
  n = split(names[room], f, " ")
  for (i = 1; i <= n; i++)
    if (!((room, f[i]) in uses)) { if (room in pastes) uses[room, f[i]]++; else bad("CMakeLists.txt", row_line[room], room " names " f[i] ", which it does not use") }
  if (room ~ /^src\// && !is_tool(room) && !sees_all(room) && room != "src/train" && !(("src/train", room) in links))
    bad("CMakeLists.txt", row_line[room], "no training step needs " room ": src/train does not reach it, so it belongs in src/tools")
}
# Prints the map of src/README.md in two lists, with each room below its users.
function map_of(tools,   i, text) {
  text = "| room | job |\n|---|---|\n"
  for (i = n_room; i > 1; i--) if (is_tool(order[i]) == tools) text = text "| `" order[i] "/` | " says[order[i]] " |\n"
  return text
}
function make_map() {
  return "### Needed by a training step\n\n" map_of(0) "\n### Tools beside it\n\n" map_of(1)
}
function check_map(   line, at, text, inside, begins_at) {
  for (at = 1; (getline line <"src/README.md") > 0; at++) {
    if (line == map_ends) inside = 0
    if (inside) text = text line "\n"
    if (line == map_begins) { inside = 1; begins_at = at }
  }
  if (text != make_map()) bad("src/README.md", begins_at ? begins_at : 1, "the map is not what the rows of CMakeLists.txt say: tests/rooms.sh --write")
}
BEGIN {
  read_rows()
  if (what == "--map") { printf "%s", make_map(); exit }
  split(filled, exempt, " ")
  for (i = 1; i < ARGC; i++) is_file[ARGV[i]] = 1
}
FNR == 1 {
  in_comment = 0
  room = room_of(FILENAME)
  if (!(room in place) && !(room in told)) { told[room] = 1; bad(FILENAME, 1, "CMakeLists.txt has no row room(" room " \"Its job.\" ...)") }
  name = FILENAME; sub(/\.[a-z]*$/, "", name)
  if (!(name in module)) { module[name] = 1; sources[room]++ }
  head = ""; in_head = 1
}
in_head {
  line = $0; sub(/^ \* ?/, "", line)
  head = head " " line
  if (line ~ /\*\//) {
    in_head = 0
    if (FILENAME ~ /h$/ && head ~ /Private to its room\./) is_private[FILENAME] = 1
    else if (FILENAME ~ /h$/ && head ~ /Private to/) bad(FILENAME, 1, "a private header has the words \"Private to its room.\"")
  }
}
{
  name = included($0); to = name == "" ? "" : resolve(name, FILENAME)
  if (to != "") { n_include++; include_from[n_include] = FILENAME; include_line[n_include] = FNR; include_to[n_include] = to }
}
/TRI_KERNEL_LIST\(/ && FILENAME ~ /\.c$/ { pastes[room_of(FILENAME)] = 1 } # uses functions by pasted names, invisible to a search
{
  line = bare($0)
  # A definition begins at the margin and is neither static nor only declared. Its type may be on a line before.
  if (FILENAME ~ /\.cu?$/ && line ~ /^[A-Za-z_]/ && line !~ /^(static|typedef|extern)[^a-z_]/ && match(" " line, /^[^({=;]*[ *]tri_[a-z0-9_]+( *\(|\[| =|;|,|$)/)) {
    name = substr(" " line, 1, RLENGTH); sub(/.*[ *]tri_/, "tri_", name); sub(/[^a-z0-9_].*/, "", name)
    if (line ~ /\{/ || line !~ /\) *;/) { defines[FILENAME, name] = 1; if (!(name in defined_in)) defined_in[name] = FILENAME }
  }
  # Declarations in a private header are for its room.
  if (FILENAME in is_private && match(line, /^([A-Za-z][^({=;]*[ *]tri_[a-z0-9_]+\(|extern [^({=;]*[ *]tri_[a-z0-9_]+[[;])/)) {
    name = substr(line, 1, RLENGTH - 1); sub(/.*[ *]tri_/, "tri_", name)
    own[name] = FILENAME
  }
  while (match(line, /tri_[a-z0-9_]+/)) {
    name = substr(line, RSTART, RLENGTH)
    if (RSTART == 1 || substr(line, RSTART - 1, 1) !~ /[A-Za-z0-9_]/)
      if (!((FILENAME, name) in use_line)) { use_line[FILENAME, name] = FNR; n_use++; use_from[n_use] = FILENAME; use_name[n_use] = name }
    line = substr(line, RSTART + RLENGTH)
  }
}
END {
  if (what == "--map") exit found
  for (i = 1; i <= n_include; i++) {
    if (include_to[i] in is_private && room_of(include_to[i]) != room_of(include_from[i]))
      bad(include_from[i], include_line[i], include_to[i] " is private to its room")
    else if (include_to[i] in is_private && include_from[i] ~ /h$/ && !(include_from[i] in is_private))
      bad(include_from[i], include_line[i], include_to[i] " is private to its room, and this header is not")
    arrow(include_from[i], include_line[i], include_to[i], "includes a header")
  }
  for (i = 1; i <= n_use; i++) {
    name = use_name[i]
    if (name in own && room_of(own[name]) != room_of(use_from[i]))
      bad(use_from[i], use_line[use_from[i], name], name " is declared in " own[name] ", which is private to its room")
    if (!(name in defined_in) || (use_from[i], name) in defines) continue
    if (name == exempt[1] && defined_in[name] == exempt[2] && (use_from[i] == exempt[3] || use_from[i] == exempt[4])) continue
    if (room_of(use_from[i]) == room_of(defined_in[name]) && use_from[i] ~ /\.cu?$/ && use_from[i] != defined_in[name])
      calls[use_from[i]] = calls[use_from[i]] " " defined_in[name]
    arrow(use_from[i], use_line[use_from[i], name], defined_in[name], "uses " name)
  }
  find_circles()
  for (i = 1; i <= n_room; i++) check_row(order[i])
  check_map()
  if (what == "--dot") {
    print "digraph rooms {\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\"];"
    for (pair in uses) { split(pair, f, SUBSEP); printf "  \"%s\" -> \"%s\";\n", f[1], f[2] | "sort" }
    close("sort")
    print "}"
  } else if (what == "--table")
    for (i = n_room; i >= 1; i--) {
      list = ""
      for (k = n_room; k >= 1; k--) if ((order[i], order[k]) in uses) list = list " " order[k]
      printf "%-22s %2d  ->%s\n", order[i], sources[order[i]], list
    }
  exit found
}' "${files[@]}"
