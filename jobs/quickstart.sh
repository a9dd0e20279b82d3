#!/bin/sh
# quickstart.sh - the demonstration: a warm start from a sloppy teacher, then GRPO, which finds out that carrying pays.
#
# jobs/quickstart.sh [SEED]    everything goes to out/quickstart; TRIREME names the program if it is not build/cpu-release/trireme
set -eu
cd "$(dirname "$0")/.."
seed=${1:-1}
case $seed in *[!0-9]* | '') echo "usage: jobs/quickstart.sh [SEED]   (a whole number)" >&2; exit 64 ;; esac
trireme=${TRIREME:-build/cpu-release/trireme}
[ -x "$trireme" ] || { echo "quickstart.sh: $trireme is not there; run jobs/setup.sh first" >&2; exit 69; }
out=out/quickstart
began=$(date +%s)

# Four ranks are two nodes of two; with fewer hardware threads than that, two ranks are two nodes of one.
if [ "$(nproc)" -ge 4 ]; then ranks=4 per_node=2; else ranks=2 per_node=1; fi
flags="-n $ranks"
[ "$(nproc)" -ge "$ranks" ] || flags="$flags --oversubscribe"
[ "$(id -u)" != 0 ] || flags="$flags --allow-run-as-root"

train() { # deck
  # shellcheck disable=SC2086
  mpirun $flags "$trireme" train "$1" run.seed="$seed" run.ranks_per_node=$per_node run.resume=never
}
accuracy() { # model: greedy, on held-out problems, in percent
  "$trireme" eval "$1" --data $out/data/heldout.jsonl --reward exact --max-new 6 --json |
    sed 's/.*"pass_at_1": \([0-9.e-]*\).*/\1/' | awk '{ printf "%.1f", 100 * $1 }'
}

rm -rf $out
mkdir -p $out/data
echo "== data, seed $seed"
awk -v seed="$seed" -v lines=100000 -v dir=$out/data -f jobs/quickstart.awk
echo "== warm start: $ranks ranks imitate the sloppy teacher"
train inputs/quickstart_sft.yaml
before=$(accuracy $out/sft)
echo "== GRPO: held-out accuracy is $before %"
train inputs/quickstart.yaml
"$trireme" export $out/grpo $out/model
after=$(accuracy $out/model)
cat <<EOF
== done in $(($(date +%s) - began)) s on $ranks ranks
held-out problems answered right (greedy): $before % before GRPO, $after % after
checkpoint      $out/grpo/checkpoints/LATEST
metrics         $out/grpo/metrics.jsonl
exported model  $out/model (a Hugging Face folder)
ask it          $trireme generate $out/model "58+67=" --temperature 0     (lowest digit first: 521)
EOF
