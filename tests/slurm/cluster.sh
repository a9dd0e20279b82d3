#!/bin/bash
# cluster.sh - a real Slurm cluster on one machine, as root. It has a head and N nodes, each a set of namespaces, while a command runs.
# SPDX-License-Identifier: BSD-3-Clause
#
#   tests/slurm/cluster.sh N CMD...         starts it, runs CMD, stops it. The exit code is CMD's, or 77 with the reason if it cannot start
# and in CMD, where $CLUSTER is this script:
#   $CLUSTER on NODE CMD...                 runs CMD on n1 ... nN or head (srun, sbatch, ...)
#   $CLUSTER cut NODE | heal NODE           disconnects, connects a node's network
#   $CLUSTER rate NODE RATE                 limits a node's link in both directions, such as 200mbit
#   $CLUSTER kill NODE | start NODE         kills, starts a node's slurmd
#
# A node has its own hostname, address, /tmp, /run, /dev/shm, processes, munged and slurmd, 4 CPUs and 4 fake GPUs. Pairs of veth devices
# join the nodes to a bridge in a namespace of its own. All nodes see the machine's files, but below /tmp only those of $CLUSTER_DIR and
# $CLUSTER_SHARE. The script adds nothing to the machine's network, mounts, /etc or /run, and everything ends with CMD or this script.
# CLUSTER_SLURM holds lines for slurm.conf.
set -u
CLUSTER=$(readlink -f "$0") prefix=10.80.0 gpus=4
export CLUSTER PATH=$PATH:/usr/sbin:/sbin
ulimit -c 0 # for the daemons and their jobs, so that killed ranks leave no core in the source's folder
for v in ${!SLURM@} ${!PMIX@} ${!MUNGE@}; do unset "$v"; done # a stray SLURM_CONF would win over the cluster's
fail() { echo "cluster: $*" >&2; exit 1; }
skip() { echo "cluster: skipped: $*"; exit 77; }

address() { case $1 in head) echo $prefix.1 ;; *) echo $prefix.$((10 + ${1#n})) ;; esac; }
process() { cat "$CLUSTER_DIR/$1/process" 2> /dev/null || fail "$1 is no node"; } # the first of a node
on() { # node, command
  local p
  p=$(process "$1") || exit 1
  shift
  nsenter -t "$p" -m -u -i -n -p -r --wdns="$PWD" -- "$@" # -r, because this may be a chroot
}
net() { nsenter -t "$(process "$1")" -n "${@:2}"; } # node, a command that needs only its network

# Runs as process 1 of a node's namespaces. bash reaps the orphans.
be_node() { # node
  local dir=$CLUSTER_DIR/$1 g
  hostname "$1" && mkdir -p "$dir/cgroup" && mount --rbind /sys/fs/cgroup "$dir/cgroup" && mount -t sysfs sysfs /sys &&
    mount --rbind "$dir/cgroup" /sys/fs/cgroup || exit 1 # a /sys for this network
  if [ "$1" != switch ]; then
    for g in slurm munge hosts; do mount --bind "$CLUSTER_DIR/etc/$g" /etc/$g || exit 1; done
    [ ! -e /etc/resolv.conf ] || mount --bind "$CLUSTER_DIR/etc/resolv.conf" "$(readlink -f /etc/resolv.conf)" || exit 1
    for g in slurm munge; do mount --bind "$dir/$g" /var/lib/$g || exit 1; done
    for g in $CLUSTER_SHARE "$CLUSTER_DIR"; do
      case $g in /tmp/*) mkdir -p "$dir$g" && mount --bind "$g" "$dir$g" || exit 1 ;; esac
    done
    chmod 1777 "$dir/tmp" && mount --rbind "$dir/tmp" /tmp && mount -t tmpfs -o size=50% tmpfs /dev/shm && chmod 1777 /dev/shm &&
      mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/munge /run/lock /run/slurm /run/gpu || exit 1
    # character devices, because otherwise Slurm sets no CUDA_VISIBLE_DEVICES. Their number has no driver
    for ((g = 0; g < gpus; g++)); do mknod /run/gpu/nvidia$g c 241 $g || exit 1; done
  fi
  ip link set lo up || exit 1
  : > "$dir/ready"
  trap : TERM INT HUP
  while :; do sleep 3600 & wait $!; done
}

starters=()
# Its first process dies with this one.
start_node() { # node
  local dir=$CLUSTER_DIR/$1 starter waited=0
  mkdir -p "$dir"/{slurm/slurmd,slurm/slurmctld,munge,tmp}
  chmod 711 "$dir/munge"
  setsid setpriv --pdeathsig KILL unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc \
    -- bash "$CLUSTER" be_node "$1" < /dev/null > "$dir/log" 2>&1 &
  starter=$!
  disown $starter # else bash tells of its end
  starters+=($starter)
  until [ -e "$dir/ready" ]; do
    kill -0 $starter 2> /dev/null && ((waited++ < 2000)) || { cat "$dir/log" >&2; fail "$1 does not come up"; }
    sleep 0.01
  done
  tr -d ' ' < /proc/$starter/task/$starter/children > "$dir/process"
  [ "$1" != switch ] || return 0
  net switch ip link add "p-$1" type veth peer name eth0 netns "$(process "$1")" && net switch ip link set "p-$1" master br0 up &&
    net "$1" ip addr add "$(address "$1")/24" dev eth0 && net "$1" ip link set eth0 up || fail "no cable for $1"
  on "$1" munged --key-file=/etc/munge/munge.key --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \
    --log-file="$dir/munged.log" --seed-file=/var/lib/munge/seed || fail "no munged on $1"
  if [ "$1" = head ]; then on head slurmctld; else on "$1" slurmd -N "$1"; fi || fail "no daemon of Slurm on $1"
}

# The configuration has gres by character devices, no accounting, and no limits by cgroups. A job's steps end 5 s after their
# SIGTERM. A requeued job waits as long as a credential lasts, 10 s instead of 120.
write_configuration() { # nodes
  local etc=$CLUSTER_DIR/etc n
  mkdir -p "$etc/slurm" && mkdir -m 700 "$etc/munge"
  (umask 077 && head -c 1024 /dev/urandom > "$etc/munge/munge.key")
  { echo "127.0.0.1 localhost"; for n in head $(seq -f n%g "$1"); do echo "$(address "$n") $n"; done; } > "$etc/hosts"
  : > "$etc/resolv.conf"
  cat > "$etc/slurm/slurm.conf" << END
ClusterName=tests
SlurmctldHost=head($(address head))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=10
CredType=cred/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=64
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=$CLUSTER_DIR/slurmctld.log
SlurmdLogFile=$CLUSTER_DIR/slurmd.%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
SlurmctldTimeout=60
SlurmdTimeout=15
InactiveLimit=0
KillWait=5
MinJobAge=300
MessageTimeout=10
BatchStartTimeout=10
SchedulerParameters=sched_interval=2,sched_min_interval=100000,bf_interval=2
SchedulerType=sched/backfill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName=n[1-$1] NodeAddr=$prefix.[11-$((10 + $1))] CPUs=4 RealMemory=2048 Gres=gpu:none:$gpus State=UNKNOWN
PartitionName=normal Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=10 State=UP PriorityTier=2 PreemptMode=OFF
PartitionName=preemptible Nodes=ALL MaxTime=INFINITE DefaultTime=10 State=UP PriorityTier=1 PreemptMode=REQUEUE
${CLUSTER_SLURM-}
END
  echo "AutoDetect=off
Name=gpu Type=none Flags=nvidia_gpu_env File=/run/gpu/nvidia[0-$((gpus - 1))]" > "$etc/slurm/gres.conf"
  # "tree", and the default "mixed" with it, let ranks pass before those of other nodes arrive, and sometimes one dies in
  # MPI_Init. Ranks yield, because there are more ranks than CPUs.
  printf 'PMIxCollFence=ring\nPMIxEnv=OMPI_MCA_mpi_yield_when_idle=1\n' > "$etc/slurm/mpi.conf"
  echo 'CgroupPlugin=cgroup/v1' > "$etc/slurm/cgroup.conf" # keeps slurmd from asking systemd
}

check_machine() {
  local p
  [ "$(id -u)" = 0 ] || skip "not root"
  for p in slurmctld slurmd munged srun ip unshare nsenter setpriv; do
    command -v $p > /dev/null || skip "there is no $p: sh jobs/setup.sh tests installs it on Debian"
  done
  unshare --net --uts --ipc --mount --pid --fork --mount-proc sh -c 'mount -t sysfs sysfs /sys && ip link add type veth' \
    2> /dev/null || skip "no namespaces here (a container without CAP_SYS_ADMIN?)"
}

run() { # nodes, command
  local waited=0 code=0 own='' n
  check_machine
  [ -n "${CLUSTER_DIR-}" ] || own=$(mktemp -d "${TMPDIR:-/tmp}/trireme-cluster.XXXXXX")
  export CLUSTER_DIR=${CLUSTER_DIR:-$own} CLUSTER_SHARE=${CLUSTER_SHARE-$PWD}
  trap 'kill -KILL "${starters[@]}"; while kill -0 "${starters[@]}"; do :; done 2> /dev/null; [ -z "$own" ] || rm -rf "$own"' EXIT
  write_configuration "$1"
  start_node switch
  net switch ip link add br0 type bridge && net switch ip link set br0 up || fail "no bridge"
  for n in head $(seq -f n%g "$1"); do start_node "$n"; done
  until [ "$(on head sinfo -h -t idle -o %D 2> /dev/null)" = "$1" ]; do
    ((waited++ < 600)) || { tail -n 20 "$CLUSTER_DIR"/slurm*.log >&2; fail "not all nodes are idle"; }
    sleep 0.05
  done
  on head srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
  "${@:2}" || code=$?
  exit $code
}

case ${1-} in
be_node) be_node "$2" ;;
on) on "${@:2}" ;;
cut) net switch ip link set "p-$2" down ;;
heal) net switch ip link set "p-$2" up ;;
rate)
  net switch tc qdisc replace dev "p-$2" root tbf rate "$3" burst 256kb latency 50ms &&
    net "$2" tc qdisc replace dev eth0 root tbf rate "$3" burst 256kb latency 50ms
  ;;
kill) on "$2" bash -c 'kill -KILL "$(cat /run/slurm/slurmd.pid)"' ;;
start) on "$2" slurmd -N "$2" ;;
[1-9]*) [ $# -ge 2 ] || fail "usage: cluster.sh N CMD..."; run "$@" ;;
*) fail "usage: see the head of $CLUSTER" ;;
esac
