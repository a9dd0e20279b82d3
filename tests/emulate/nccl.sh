#!/bin/bash
# nccl.sh - runs GRPO steps of the whole program over the emulated NCCL: a plain one, one with a stopped rank, traced, with early streams.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/emulate/nccl.sh PROGRAM RANKS step|stop|overlap|eager
# Judge of step: The numbers agree with a run over staged collectives to 1e-6. With all ranks as one model
# they are the same, and over NCCL the decode steps are recorded with their collectives. Before the first step it reports the memory of the
# communicators, 10 MiB each here. The run ends before that step if they take more memory than there is.
# Judge of stop: The last rank is killed, or hangs, in its 20th collective. Rank 0 ends with exit code 76 and a message.
# Judge of overlap: In the trace of two nodes each unit's reductions run beside a backward, inside the node and over nodes, except
# the last unit's. New weights are gathered beside an update.
# Judge of eager: Streams run early by chance, with the seeds $EAGER_SEEDS, and host memory holds everything it can. The numbers equal
# those of streams that all run late, to the bit.
set -eu
. "$(dirname "$0")/../case/run_case.sh"
write_deck
sed -i '/^eval:/d; s/, eval: [^}]*//' "$dir/deck.yaml"
options="run.device=cuda run.ranks_per_node=0 train.steps=1 rollout.rollout_batch_size=4
  checkpoint.save_steps=0 checkpoint.save_final=false shard.optimizer=world"
apart="shard.params=world shard.grads=world"
numbers() { # output folder: name and value of what must not depend on the way of collectives
  tail -n 1 "$dir/$1/metrics.jsonl" | grep -oE '"(loss|grad_norm|kl_mean_nats|entropy_mean_nats|sampler_gap_max_nats|reward_mean)": [^,}]*'
}

compare() {
  for by in staged nccl; do
    # shellcheck disable=SC2086
    TRI_EMULATE_NCCL_BYTES=$((10 << 20)) TRI_COMM=$by launch "$ranks" "$dir/$by" $options $apart
  done
  [ "$(numbers nccl | wc -l)" = 6 ] || { echo "nccl: $(numbers nccl | wc -l) numbers of 6"; exit 1; }
  paste -d ' ' <(numbers staged) <(numbers nccl) | awk '
    function size(x) { return x < 0 ? -x : x }
    { if (!(size($2 - $4) <= 1e-6 * (1 + size($2)))) { print "nccl: staged " $1, $2 ", nccl " $4; bad = 1 } }
    END { exit bad }'
  grep -q '^NCCL: .*\b2 communicators .*\b20 MiB .*\b1024 MiB' "$dir/log" ||
    { grep NCCL "$dir/log"; echo "nccl: 2 communicators of 10 MiB are not said to be connected"; exit 1; }
  # shellcheck disable=SC2086
  ! TRI_EMULATE_NCCL_BYTES=$((4000 << 20)) TRI_COMM=nccl launch "$ranks" "$dir/full" $options $apart > "$dir/full.log" 2>&1
  grep -q 'NCCL .*\b8000 MiB .*\b2 communicators .*\b1024 MiB' "$dir/full.log" && [ ! -s "$dir/full/metrics.jsonl" ] ||
    { cat "$dir/full.log"; echo "nccl: communicators that take all memory are not refused before the first step"; exit 1; }
  # shellcheck disable=SC2086
  for by in staged nccl; do
    TRI_COMM=$by launch "$ranks" "$dir/$by-one" $options $apart shard.tensor_parallel_size="$ranks"
    diff <(numbers $by) <(numbers $by-one) || { echo "nccl: $by: other numbers with all ranks as one model"; exit 1; }
  done
  ! grep '"code": "decode_not_recorded"' "$dir/nccl-one/run.jsonl" || exit 1
  echo "nccl: $ranks ranks as staged, also as one model"
}

# A launcher that ends the other ranks itself would hide their behaviour, so it must not (orte_enable_recovery).
stop() { # signal, seconds of run.timeout_s, what must be said
  rm -f "$dir"/code.*
  # shellcheck disable=SC2016,SC2086
  OMPI_MCA_orte_enable_recovery=1 TRI_COMM=nccl TRI_EMULATE_NCCL_STOP=$((ranks - 1)):20:$1 \
    mpirun $root --oversubscribe -n "$ranks" sh -c 'trap "" TERM; d=$0; "$@" & wait $!
      echo $? >"$d/code.${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}"' "$dir" \
    "$program" train "$dir/deck.yaml" run.output="$dir/stop.$1" run.timeout_s="$2" $options $apart > "$dir/log" 2>&1 || true
  grep -q "$3" "$dir/log" && [ "$(cat "$dir/code.0")" = 76 ] ||
    { cat "$dir/log"; echo "nccl: signal $1: rank 0 ended with $(cat "$dir/code.0"), 76 expected, and should say: $3"; exit 1; }
}
# The times are those of the emulated device's clock, on which streams run side by side. The timeline has an event per line.
overlap() {
  sed 's/"num_hidden_layers": 2/"num_hidden_layers": 5/' "$here/inputs/quickstart/config.json" > "$dir/config.json"
  # shellcheck disable=SC2086
  TRI_COMM=nccl launch "$ranks" "$dir/traced" ${options//ranks_per_node=0/ranks_per_node=$((ranks / 2))} \
    model.config="$dir/config.json" algo.ppo_epochs=1 algo.kl_coef=0 \
    shard.params=node shard.grads=node run.trace_steps=1
  sed -n 's/.*"ts":\([0-9.]*\),"dur":\([0-9.]*\),"name":"\([^"]*\)".*/\1 \2 \3/p' "$dir/traced/trace/rank-0.json" | awk '
    / (backward|update)$/ && NF > 3 { n++; from[n] = $1; to[n] = $1 + $2; how[n] = $NF }
    / gradients$/ && $4 > 0 || / new weights$/ { m++; begin[m] = $1; took[m] = $2; kind[m] = $NF; name[m] = $0 }
    function beside(i, what,  k, t, a, b) {
      for (k = 1; k <= n; k++) {
        a = from[k] > begin[i] ? from[k] : begin[i]
        b = to[k] < begin[i] + took[i] ? to[k] : begin[i] + took[i]
        if (how[k] == what && b > a) t += b - a
      }
      return t
    }
    END {
      for (i = 1; i <= m; i++) {
        what = kind[i] == "gradients" ? "backward" : "update"
        count[what]++
        if (beside(i, what) > 0) good[what]++
        else print "nccl: beside no " what ": " name[i]
      }
      printf "nccl: %d of %d reductions beside backward, %d of %d new weights beside updates\n",
        good["backward"], count["backward"], good["update"], count["update"]
      exit count["backward"] != 12 || good["backward"] < 10 || count["update"] != 7 || good["update"] < 5
    }'
}

eager() {
  local seed
  # shellcheck disable=SC2086
  TRI_COMM=nccl launch "$ranks" "$dir/late" $options $apart shard.offload=all
  for seed in ${EAGER_SEEDS:-1}; do
    # shellcheck disable=SC2086
    TRI_EMULATE_EAGER=$seed TRI_COMM=nccl launch "$ranks" "$dir/early" $options $apart shard.offload=all
    [ "$(numbers early | wc -l)" = 6 ] && diff <(numbers late) <(numbers early) ||
      { echo "nccl: with TRI_EMULATE_EAGER=$seed, where streams run early by chance, other numbers: an event is not waited for"; exit 1; }
    rm -r "$dir/early"
  done
  echo "nccl: $ranks ranks, streams early by chance (seeds ${EAGER_SEEDS:-1}) as late"
}

case $3 in
step) compare ;;
eager) eager ;;
overlap) overlap ;;
stop)
  stop 9 600 "rank $((ranks - 1)) .*\(is gone .*rank 0 \|it died\)"
  stop 19 10 "rank 0 .* waited 10 s .*run\.timeout_s\|rank $((ranks - 1)) .*no sign of life"
  echo "nccl: rank 0 ends with 76 where rank $((ranks - 1)) is killed or hangs"
  ;;
*) echo "nccl.sh: $3 is neither step, stop, overlap nor eager"; exit 64 ;;
esac
