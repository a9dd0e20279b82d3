#!/bin/bash
# doctor.sh - plants faults on the cluster and checks that trireme doctor finds each with its level, place and cure. Judges: the findings
# as JSON; the exit code; the exit code of a launch without faults; nothing waits beyond its limit.
# SPDX-License-Identifier: BSD-3-Clause
. "$(dirname "$0")/case.sh" "$@"
export XDG_CACHE_HOME=$dir/cache OMP_NUM_THREADS=1 # keeps its measurements there
mkdir "$dir/folder"
cc=${CC:-cc}
$cc -shared -fPIC -o "$dir/fault.so" "$here/tests/slurm/fault.c" -ldl || fail "no fault.so"
$cc -shared -fPIC -DNVML -o "$dir/libnvidia-ml.so.1" "$here/tests/slurm/fault.c" || fail "no libnvidia-ml.so.1"
printf 'run: {output: %s/folder/run, device: cpu}\nmodel: {config: c.json, tokenizer: t.json}\ndata: {train: d.jsonl}\nalgo: {name: sft}\ntrain: {steps: 1, train_batch_size: 4}\n' \
  "$dir" > "$dir/deck.yaml"
touch "$dir"/{c.json,t.json,d.jsonl} # the deck's files, relative to this folder

# Prints the first N nodes by name, because Slurm would choose others while one of them still completes a job.
on_nodes() { echo "--nodelist=n[1-$1] --nodes=$1"; }
# Runs doctor on them with two ranks each. The ranks of n2 run $plant before.
doctor() { # expected exit code, nodes, further arguments
  local due=$1 nodes=$2 code=0
  shift 2
  on head env ${fence:+SLURM_PMIX_FENCE="$fence"} ${exclude:+OMPI_MCA_btl_tcp_if_exclude="$exclude"} srun $(on_nodes "$nodes") --ntasks-per-node=2 --overcommit bash -c "ulimit -c 0; cd '$dir'; if [ \$SLURMD_NODENAME = n2 ]; then ${plant:-:}; fi
    exec '$program' doctor '$dir/deck.yaml' --json $*" > "$dir/json.out" 2> "$dir/err.out" || code=$?
  [ "$code" = "$due" ] || fail "exit code $code, not $due"
  [ "$(wc -l < "$dir/json.out")" = 1 ] || fail "not one JSON value"
}
has() { # check, level, place, text, cure (expressions). Succeeds if there is such a finding
  grep -o '{"check": "[^}]*}' "$dir/json.out" |
    grep -Eq "\"check\": \"$1\", \"level\": \"$2\", \"where\": \"[^\"]*$3[^\"]*\", \"what\": \"[^\"]*$4[^\"]*\", \"cure\": \"[^\"]*$5" ||
    fail "no $2 $1 of $3 that says $4 and cures by $5"
}
has_no() { ! grep -q "\"check\": \"$1\"" "$dir/json.out" || fail "finds $1 where nothing is"; }

plant=''
doctor 0 3
for check in ranks reach interface fence versions device shm clock folder locks hdf5 inputs hang; do has_no $check; done
[ "$(grep -o '"rank": [0-9]*' "$dir/json.out" | wc -l)" = 6 ] || fail "not six ranks"
for scope in world node cross 'n1 - n2' 'n1 - n3' 'n2 - n3' 'disk write' 'disk read'; do
  grep -Eq "\"scope\": \"$scope\", \"bytes\": [0-9]+, \"bytes_per_s\": [0-9]" "$dir/json.out" || fail "nothing measured of $scope"
done
[ -z "$(ls -A "$dir/folder")" ] || fail "left in the folder: $(ls -A "$dir/folder")"

# Without a common folder of the nodes, munge seals the secret of the launch. Without munge doctor names the checks it cannot
# make.
local_only='export XDG_CACHE_HOME=/tmp/none HOME=/tmp; mkdir -p /tmp/here; cd /tmp/here'
alone() { # due code, before it
  local code=0
  on head srun $(on_nodes 2) --ntasks-per-node=2 --overcommit bash -c "ulimit -c 0; $local_only; $2
    exec '$program' doctor --json" > "$dir/json.out" 2> "$dir/err.out" || code=$?
  [ "$code" = "$1" ] || fail "exit code $code, not $1"
}
alone 69 : # for the folder is not one
has_no secret
has_no ranks
mkdir "$dir/bin" && for tool in bash sh env; do ln -s "$(command -v $tool)" "$dir/bin/$tool"; done
alone 69 "export PATH=$dir/bin"
has secret warning 'task 2' '2 of 4 .*secret' munged

# Warnings end with code 0: memlock on CPUs, a clock, a slow link.
"$CLUSTER" rate n2 600mbit
plant="ulimit -l 64; export LD_PRELOAD=$dir/fault.so FAULT_CLOCK=7"
doctor 0 2
"$CLUSTER" rate n2 100gbit
has memlock warning 'on n2' '64.0 KiB' 'ulimit -l unlimited'
has clock warning n2 '(6.9|7.0)[0-9]+ s ahead of n1' chronyd
has link warning 'n1 - n2' 'MB/s.*eth0.* 1.25e.03 MB/s' 'tc qdisc show'

# Errors before MPI starts: other versions, one GPU for two ranks, no locks, and a folder not writable on n3.
plant="export LD_PRELOAD=$dir/fault.so LD_LIBRARY_PATH=$dir FAULT_HDF5=1 FAULT_LOCKS=1"
on n3 mount --bind "$dir/folder" "$dir/folder" && on n3 mount -o remount,ro,bind "$dir/folder"
doctor 69 3 run.device=auto
on n3 umount "$dir/folder"
has versions error 'HDF5 on n1 and n2' ' 1[0-9.]* .*rank 0' modules
has device error 'ranks 1 [(]task 2[)] and 4 [(]task 3[)] on n2' GPU-the-same 'gpus-per-node=2'
has locks error 'folder/run on n2' 'flock: No locks available' 'flock'
has folder error 'folder/run on n3' 'Read-only file system' 'run.output'

# Files of the run are missing on n2.
plant='cd /'
doctor 69 2
has inputs error 'c.json on n2' 'No such file or directory.* 2 ' nodes

# Faults that MPI would not survive are reported before it starts.
on n2 mount -o remount,size=1m /dev/shm
doctor 69 2
on n2 mount -o remount,size=50% /dev/shm
has shm error n2 '/dev/shm .*iB.* 2 ranks' 'mount -o remount'
plant='export OMPI_MCA_btl_tcp_if_include=ib0'
fence=tree
doctor 69 2
fence=
has fence warning PMIxCollFence tree 'export SLURM_PMIX_FENCE=ring'
has interface error 'OMPI_MCA_btl_tcp_if_include=ib0 on n2' 'lo 127.0.0.1, eth0 10' 'export OMPI_MCA_btl_tcp_if_include=eth0'
plant='export NCCL_SOCKET_IFNAME=lo'
doctor 69 2
has interface error 'NCCL_SOCKET_IFNAME=lo on n2' 'lo [a-z]' 'unset NCCL_SOCKET_IFNAME'

# Nodes cannot reach each other: first two other nodes, then a node and the node of rank 0.
to() { on n1 getent hosts "$1" | cut -d ' ' -f 1; }
plant=''
for from in n2 n1; do
  on $from ip route add unreachable "$(to n3)"
  doctor 69 3 --timeout 2
  on $from ip route del unreachable "$(to n3)"
  has reach error "$from - n3" " $from .* n3 .*eth0" 'set NCCL_SOCKET_IFNAME'
  [ "$(grep -o '"check": "reach"' "$dir/json.out" | wc -l)" = 1 ] || fail "more than one pair"
done

# A second interface is up on both nodes in one network, but leads nowhere. Doctor names it before MPI would hang in it. With the
# cure everything works.
for node in n1 n2; do
  on $node ip link add ib0 type veth peer name nowhere && on $node ip link set nowhere up && on $node ip link set ib0 up &&
    on $node ip addr add "10.99.0.${node#n}/24" dev ib0 || fail "no second interface"
done
plant=''
doctor 69 2 --timeout 4
has interface error 'ib0 on n1 and n2' '10.99.0.2 .*n2 .*n1 .*ib0' 'export OMPI_MCA_btl_tcp_if_exclude=lo,docker0,ib0 '
has_no reach
has_no hang
code=0 # a run that hangs there reports the same and ends
on head srun $(on_nodes 2) --ntasks-per-node=2 --overcommit "$program" train "$dir/deck.yaml" run.timeout_s=10 > "$dir/err.out" 2>&1 || code=$?
[ $code = 76 ] || fail "the run that hangs ends with $code"
grep -q 'rank 0 on n1 waits in the start of MPI: 10.99.0.2 does not answer on ib0: .*export OMPI_MCA_btl_tcp_if_exclude=lo,docker0,ib0' "$dir/err.out" ||
  fail "the run does not say where it hangs"
exclude=lo,docker0,ib0
doctor 0 2
exclude=
has_no interface
for node in n1 n2; do on $node ip link del ib0; done

# With a link of 20 Mbit/s, the measurements end by time.
"$CLUSTER" rate n2 20mbit
began=$SECONDS
doctor 0 2
[ $((SECONDS - began)) -le 30 ] || fail "it takes $((SECONDS - began)) s on a link of 20 Mbit/s"
"$CLUSTER" rate n2 100gbit

# One rank never comes, and one stops while its memory is shared.
plant='if [ $SLURM_LOCALID = 1 ]; then exec sleep 600; fi'
doctor 69 2 --timeout 4
has ranks error 'task 3 on n2' '1 of 4 .* 4 s' 'exclude=n2'
plant='if [ $SLURM_LOCALID = 1 ]; then (until grep -q shm/trireme- /proc/$$/maps; do sleep 0.01; done; kill -STOP $$) & fi'
doctor 69 2 --timeout 4
has hang error 'rank 3 on n2' "'[a-zA-Z_ ]+': .*stopped" 'exclude'
echo "doctor: each fault is found, and its cure named"
