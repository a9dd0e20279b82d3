# demo.sh - functions for quickstart.sh and algorithms.sh: program, ranks, training, evaluation. Sourced in the repository's root.
# SPDX-License-Identifier: BSD-3-Clause
trireme=${TRIREME:-build/cpu-release/trireme}
[ -x "$trireme" ] || { echo "$0: $trireme does not exist. Run jobs/setup.sh first" >&2; exit 69; }

# Four ranks make two nodes of two. With fewer than four hardware threads, two ranks make two nodes of one.
if [ "$(nproc)" -ge 4 ]; then ranks=4 per_node=2; else ranks=2 per_node=1; fi
flags="-n $ranks"
[ "$(nproc)" -ge "$ranks" ] || flags="$flags --oversubscribe"
[ "$(id -u)" != 0 ] || flags="$flags --allow-run-as-root"

is_seed() { case $1 in *[!0-9]* | '') return 1 ;; esac; }
make_data() { # seed, folder
  mkdir -p "$2"
  awk -v seed="$1" -v lines=100000 -v dir="$2" -f jobs/quickstart.awk
}
train() { # seed, deck, further key=value ...
  seed_=$1 deck_=$2
  shift 2
  # shellcheck disable=SC2086
  mpirun $flags "$trireme" train "$deck_" run.seed="$seed_" run.ranks_per_node=$per_node run.resume=never "$@"
}
accuracy() { # model, held-out problems. Prints the share of right greedy answers in percent
  "$trireme" eval "$1" --data "$2" --reward exact --max-new 6 --json |
    sed 's/.*"pass_at_1": \([0-9.e-]*\).*/\1/' | awk '{ printf "%.1f", 100 * $1 }'
}
