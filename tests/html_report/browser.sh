#!/usr/bin/env bash
# browser.sh - opens a page of trireme report in a real browser. All charts must be there, and text of a run must stay text.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/html_report/browser.sh PROGRAM    exits 77 (skipped) if there is no chromium or it does not start.
# Judge: the browser's own document after all scripts have run, and the violations of the page's policy it reports.
set -uo pipefail
program=$(readlink -f "$1")
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "browser: skipped: no chromium"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/trireme-browser-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
fail() { echo "browser: $*"; exit 1; }

# Prints the document of FILE after all scripts have run.
open_page() {
  timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
    --user-data-dir="$dir/profile" --enable-logging=stderr --dump-dom "file://$dir/$1" 2>"$dir/log"
}
echo '<!DOCTYPE html><title>a</title><script>document.title="b"</script>' >plain.html
open_page plain.html >plain.dom || true
grep -q '<title>b</title>' plain.dom || { echo "browser: skipped: $browser does not start here"; exit 77; }

evil='\"><script>document.title=\"owned\"</script><img src=\"x\" onerror=\"document.title=1\"><svg/onload=document.title=2>'
for run in 'a<script>document.title=3' b; do
  mkdir -p "$run/rollouts"
  for step in 1 2 3 4 5 6; do
    echo "{\"step\": $step, \"algo\": \"$evil\", \"loss\": 0.$step, \"reward_mean\": $((step % 4)), \"\\\"><img src=x onerror=document.title=6>\": $step}"
  done >"$run/metrics.jsonl"
  echo "model: {path: '</title><script>document.title=4</script>'}" >"$run/deck.yaml"
  printf '{"v": 1, "event": "start", "loss": "<script>document.title=7</script>", "memory": [{"name": "</pre><script>"}]}\n%s\n' \
    '{"v": 1, "event": "alarm", "code": "c", "text": "<script>document.title=5</script>"}' >"$run/run.jsonl"
  echo "{\"prompt\": \"$evil\", \"response\": \"</pre></main>$evil\", \"reward\": 1}" >"$run/rollouts/step-00000006.jsonl"
done
"$program" report 'a<script>document.title=3' b --html page.html || fail "no page was written"
open_page page.html >page.dom || fail "the browser failed: $(tail -n 3 log)"

grep -q '<title>a&lt;script&gt;document.title=3, b</title>' page.dom || fail "another title: $(grep -m 1 '<title>' page.dom)"
[[ $(grep -o '<svg class="plot"' page.dom | wc -l) == 3 ]] || fail "not three charts"
[[ $(grep -o '<script' page.dom | wc -l) == 1 ]] || fail "not one script"
! grep -qE '<img|<svg[^>]*onload=' page.dom || fail "text of a run became an element"
grep -q '<div class="tip" hidden="">' page.dom || fail "the page's own script did not run"
! grep -iE 'content security policy|refused to' log || fail "its policy refuses a part of the page"
echo "browser: a page of two hostile runs, three charts, one script"
