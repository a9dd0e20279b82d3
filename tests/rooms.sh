#!/usr/bin/env bash
# rooms.sh - the rooms of the house: who uses whom, by includes and by calls; an arrow that does not lead down is a finding.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/rooms.sh            the table of rooms: storey, sources, the rooms it uses; prints FILE:LINE: what, exits 1 for findings
# tests/rooms.sh --check    the findings alone
# tests/rooms.sh --dot      the same picture for graphviz: tests/rooms.sh --dot | dot -Tsvg > rooms.svg
#
# A room is a folder of src, io or gpu. It uses only rooms of lower storeys, so there is no circle of rooms. A header whose
# first comment says "Private to its room." is included there and by tests only. What a file calls is every tri_ name in
# it that a source of another room defines, with an include or without. A room shows at most 27 sources (X.c and X.h are one),
# and they do not call each other in a circle. A room's row in CMakeLists.txt names rooms that it uses, and what it uses it
# reaches through them. In the map of src/README.md a room stands above those it uses, or beside them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Storey and rooms. A new room gets a row here and, where it is compiled, one in CMakeLists.txt.
rooms='
18 src
17 src/commands
16 src/tools/tryout
15 src/tools/plan src/tools/init src/tools/infer
14 src/train
13 src/run
12 src/config src/tools/bench src/tools/inspect
11 src/feed src/generate src/reward io/model
10 src/algo src/model src/report io/data src/tools/doctor/exam
 9 src/state src/rollout io/checkpoint src/tools/version gpu/nccl
 8 gpu src/comm src/tools/doctor/gather
 7 src/cpu gpu/attention gpu/gemm gpu/layers
 6 src/cpu/kernels gpu/cudnn
 5 src/cpu/gemm src/tools/page gpu/base
 4 src/tools/cost src/cpu/pairs src/tools/doctor/meet src/tools/look io/chat
 3 src/record src/machine src/tools/doctor src/device src/tools/history src/tools/show io/tokenizer io/hf io/jinja
 2 io/text io/jinja/value src/family src/reward/math src/reward/desk src/comm/peers src/tools/flags src/metric
 1 src/base
'
# The one name that a lower room knows and a higher one fills: the back ends of a build (src/device/device.h).
filled_above='tri_backends src/registry.c src/device/device.h src/device/device.c'
# Rooms whose functions stand in a table by pasted names (TRI_KERNEL_LIST), which no search sees.
by_list='gpu:gpu/attention gpu:gpu/gemm gpu:gpu/layers'

what=${1:---table}
mapfile -t files < <(find src io gpu -regex '.*\.\([ch]\|cuh?\)' | sort)

awk -v rooms="$rooms" -v filled="$filled_above" -v by_list="$by_list" -v what="$what" "$(<tests/c_lines.awk)"'
function room_of(path) { sub(/\/[^\/]*$/, "", path); return path }
function bad(file, line, text) { printf "%s:%d: %s\n", file, line, text; found = 1 }
function arrow(from, line, to, how,   a, b) {
  a = room_of(from); b = room_of(to)
  if (a == b) return
  uses[a, b]++
  if (storey[b] < storey[a]) down[a, b] = 1
  else bad(from, line, how " of " b " (storey " storey[b] "); " a " is storey " storey[a] " and uses lower ones only")
}
# The sources that a source reaches by calls inside its room.
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
# A row of CMakeLists.txt, room(FOLDER USED...): the rooms that it names. Rows with a variable stand for many.
function read_row(   f, n, i) {
  if (!match($0, /^room\([a-z][^)]*\)/)) return
  n = split(substr($0, 6, RLENGTH - 6), f, " ")
  row_line[f[1]] = FNR
  for (i = 2; i <= n; i++) if (f[i] in storey) names[f[1]] = names[f[1]] " " f[i]
}
# The rooms that a room links by its row and the rows below it.
function link(room, at,   f, n, i) {
  n = split(names[at], f, " ")
  for (i = 1; i <= n; i++) if (!((room, f[i]) in links)) { links[room, f[i]] = 1; link(room, f[i]) }
}
function check_row(room,   f, n, i) {
  if (room == "src" || room ~ /^gpu/) return # the program; and what stands in a loop over the back end
  if (!(room in row_line)) { bad("CMakeLists.txt", 1, "no row room(" room " ...)"); return }
  n = split(names[room], f, " ")
  for (i = 1; i <= n; i++)
    if (!((room, f[i]) in uses)) bad("CMakeLists.txt", row_line[room], room " names " f[i] ", which it does not use")
  link(room, room)
  for (i = 1; i <= n_room; i++)
    if ((room, order[i]) in down && !((room, order[i]) in links))
      bad("CMakeLists.txt", row_line[room], room " uses " order[i] " and does not link it")
}
# A row of the map of src/README.md: the rooms of its first column.
function read_map(   column, f, n, i) {
  if (/^## /) in_map = /^## Map/
  if (!in_map || !/^\| `/) return
  split($0, column, "|")
  n = split(column[2], f, "`")
  for (i = 2; i <= n; i += 2) {
    if (sub(/\/$/, "", f[i]) || f[i] == "src/main.c") map_row[f[i] == "src/main.c" ? "src" : f[i]] = FNR
    if (f[i] ~ /^(src|io|gpu)(\/|$)/ && f[i] !~ /\.c$/ && !(f[i] in storey))
      bad("src/README.md", FNR, "the map has " f[i] ", which is no room")
  }
}
function check_map(room,   i) {
  if (!(room in map_row)) { bad("src/README.md", 1, "the map has no " room); return }
  for (i = 1; i <= n_room; i++)
    if ((room, order[i]) in down && order[i] in map_row && map_row[order[i]] < map_row[room])
      bad("src/README.md", map_row[room], "in the map " room " stands below " order[i] ", which it uses")
}
BEGIN {
  n_row = split(rooms, row, "\n")
  for (i = 1; i <= n_row; i++) {
    n = split(row[i], f, " ")
    for (k = 2; k <= n; k++) { storey[f[k]] = f[1] + 0; order[++n_room] = f[k] }
  }
  split(filled, exempt, " ")
  for (i = 1; i < ARGC; i++) is_file[ARGV[i]] = 1
}
FILENAME == "CMakeLists.txt" { read_row(); next }
FILENAME == "src/README.md" { read_map(); next }
FNR == 1 {
  in_comment = 0
  room = room_of(FILENAME)
  if (!(room in storey)) bad(FILENAME, 1, "no row in the table `rooms` of tests/rooms.sh has " room)
  name = FILENAME; sub(/\.[a-z]*$/, "", name)
  if (!(name in module)) { module[name] = 1; sources[room]++ }
  head = ""; in_head = 1
}
in_head {
  line = $0; sub(/^ \* ?/, "", line)
  head = head " " line
  if (line ~ /\*\//) { in_head = 0; if (FILENAME ~ /h$/ && head ~ /Private to its room\./) is_private[FILENAME] = 1 }
}
{
  name = included($0); to = name == "" ? "" : resolve(name, FILENAME)
  if (to != "") { n_include++; include_from[n_include] = FILENAME; include_line[n_include] = FNR; include_to[n_include] = to }
}
{
  line = bare($0)
  # A definition: at the margin, neither static nor only declared; its type may stand on a line before.
  if (FILENAME ~ /\.cu?$/ && line ~ /^[A-Za-z_]/ && line !~ /^(static|typedef|extern)[^a-z_]/ && match(" " line, /^[^({=;]*[ *]tri_[a-z0-9_]+( *\(|\[| =|;|,|$)/)) {
    name = substr(" " line, 1, RLENGTH); sub(/.*[ *]tri_/, "tri_", name); sub(/[^a-z0-9_].*/, "", name)
    if (line ~ /\{/ || line !~ /\) *;/) { defines[FILENAME, name] = 1; if (!(name in defined_in)) defined_in[name] = FILENAME }
  }
  # What a private header declares is for its room.
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
  n = split(by_list, row_of_list, " ")
  for (i = 1; i <= n; i++) { split(row_of_list[i], f, ":"); arrow(f[1] "/", 1, f[2] "/", "lists kernels") }
  find_circles()
  for (i = 1; i <= n_room; i++) { check_row(order[i]); check_map(order[i]) }
  for (room in sources) if (sources[room] > 27) bad(room, 1, sources[room] " sources in one room; 27 is the limit")
  if (what == "--dot") {
    print "digraph rooms {\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\"];"
    for (i = 1; i <= n_row; i++) {
      n = split(row[i], f, " ")
      if (n < 2) continue
      printf "  { rank=same;"
      for (k = 2; k <= n; k++) printf " \"%s\";", f[k]
      print " }"
    }
    for (pair in uses) { split(pair, f, SUBSEP); printf "  \"%s\" -> \"%s\";\n", f[1], f[2] | "sort" }
    close("sort")
    print "}"
  } else if (what == "--table")
    for (i = 1; i <= n_room; i++) {
      list = ""
      for (k = 1; k <= n_room; k++) if ((order[i], order[k]) in uses) list = list " " order[k]
      printf "%2d  %-14s %2d  ->%s\n", storey[order[i]], order[i], sources[order[i]], list
    }
  exit found
}' "${files[@]}" CMakeLists.txt src/README.md
