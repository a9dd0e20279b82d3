#!/bin/bash
# bundle_case.sh - trains with a bundle of the program on two ranks, in a root with only the C run-time, bash and a few tools.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/gpu/bundle_case.sh PROGRAM
# The run is not root. Judge: the metrics of the same run outside. Exit code 77 (skipped) if the user may not change the root.
set -eu
. "$(dirname "$0")/../case/run_case.sh" "$1" 2
bare=$dir/bare
unshare --mount true 2>/dev/null || { echo "bundle_case: no right to a root of its own"; exit 77; }
write_deck
sed -i '/^eval:/d; s/, eval: [^}]*//' "$dir/deck.yaml"
options="run.ranks_per_node=0 train.steps=2 rollout.rollout_batch_size=4 checkpoint.save_steps=2"
# shellcheck disable=SC2086
launch 2 "$dir/outside" $options

mkdir -p "$bare"/{proc,sys,dev,tmp,bin,etc}
chmod 1777 "$bare/tmp"
"$here/tests/gpu/bundle.sh" "$bare/bundle" "$program"
tools=$(for tool in bash sh cat cut dirname env getconf head sort uname; do command -v $tool; done)
# shellcheck disable=SC2086
cp -L $tools "$bare/bin/"
# shellcheck disable=SC2086
for file in $(ldd $tools "$program" | grep -oE '/[^ ]*/(ld-linux|lib(c|m|dl|pthread|rt|resolv|util|tinfo|stdc\+\+|gcc_s))[-.][^ ]*' | sort -u); do
  mkdir -p "$bare$(dirname "$file")"
  cp -L "$file" "$bare$file"
done
cp "$dir/deck.yaml" "$dir/data.jsonl" "$here/inputs/quickstart/config.json" "$here/inputs/quickstart/tokenizer.json" "$bare/tmp/"
sed -i "s|$here/inputs/quickstart|/tmp|g; s|$dir|/tmp|g" "$bare/tmp/deck.yaml"
# shellcheck disable=SC2016,SC2086
unshare --mount sh -c 'for d in proc sys dev; do mount --rbind /$d "$0/$d" || exit; done; exec chroot --userspec=65534:65534 "$@"' "$bare" \
  "$bare" /bin/bash -ec '. /bundle/env.sh; cd /tmp; HOME=/tmp exec mpirun -n 2 trireme train deck.yaml run.output=inside "$@"' bash \
  $options > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
diff <(numbers "$dir/outside") <(numbers "$bare/tmp/inside") || { echo "bundle_case: other numbers than outside"; exit 1; }
[ -f "$bare/tmp/inside/checkpoints/step-00000002/state.h5" ] || { echo "bundle_case: no checkpoint"; exit 1; }
! grep -i 'warning\|help' "$dir/log" || { echo "bundle_case: complaints"; exit 1; }
echo "bundle_case: two ranks, as outside"
