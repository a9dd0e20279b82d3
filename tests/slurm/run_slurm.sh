#!/bin/bash
# run_slurm.sh - runs every case for a Slurm cluster, one after the other, on a cluster of three nodes. Exits 77 with the reason without one.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/slurm/run_slurm.sh PROGRAM [CASE...]
# A case is a file of this folder. Its argument is the program. It begins with case.sh, and leaves no job and all nodes idle. faults takes
# minutes and runs by name alone.
set -eu
program=$(readlink -f "$1")
here=$(cd "$(dirname "$0")" && pwd)
shift
[ $# -gt 0 ] || set -- $(cd "$here" && for name in *.sh; do case $name in run_slurm.sh | case.sh | cluster.sh | faults.sh) ;; *) echo "${name%.sh}" ;; esac; done)
if [ -z "${CLUSTER-}" ]; then
  cd "$here/../.."
  CLUSTER_SHARE="$PWD ${program%/*}" exec "$here/cluster.sh" 3 "$0" "$program" "$@"
fi

is_idle() { [ -z "$("$CLUSTER" on head squeue -h)" ] && [ "$("$CLUSTER" on head sinfo -h -p normal -t idle -o %D)" = 3 ]; }

export TMPDIR=$CLUSTER_DIR/shared # all nodes see it
mkdir "$TMPDIR"
failed=0
for name; do
  began=$(date +%s%N) waited=0 ended=passed
  "$here/$name.sh" "$program" || ended=FAILED
  until is_idle; do
    sleep 0.1
    ((waited++ < 300)) || { "$CLUSTER" on head squeue; "$CLUSTER" on head sinfo; echo "slurm: after $name the nodes are not idle"; exit 1; }
  done
  echo "slurm: $name $ended in $((($(date +%s%N) - began) / 1000000)) ms"
  [ $ended = passed ] || failed=1
done
exit $failed
