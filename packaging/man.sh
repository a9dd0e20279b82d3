#!/bin/sh
# man.sh - writes the man page from the program's own help, so that they always agree.
# SPDX-License-Identifier: BSD-3-Clause
#
# packaging/man.sh PROGRAM >trireme.1    includes every command's --help, run by cmake --install
set -eu
program=$1
version=$("$program" --version | sed 's/trireme \([^ ]*\).*/\1/')
[ -n "$version" ] || { echo "man.sh: $program --version prints no version" >&2; exit 1; }
help=$("$program" --help)
if [ -n "${SOURCE_DATE_EPOCH-}" ]; then day=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d); else day=$(date -u -r "$program" +%Y-%m-%d); fi

# Escapes text for roff. A line must not begin with a dot or a quote, and backslashes and hyphens stand for themselves.
plain='{ gsub(/\\/, "\\e"); gsub(/-/, "\\-"); if (/^[.\x27]/) $0 = "\\&" $0 }'
# Prints rows of --help, " left text" with continued lines. The left parts are bold. The text begins at column `at`. A long left part
# has a line of its own.
rows='function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.\x27]/) s = "\\&" s; return s }
  /^  [^ ]/ { alone = length($0) < at + 2; left = substr($0, 3, alone ? at : at - 2); sub(/ +$/, "", left); print ".TP\n.B " roff(left)
    if (!alone) print roff(substr($0, at + 1)); next }
  /^ / { sub(/^ +/, ""); print roff($0) }'

cat <<END
.\" trireme.1 - made by packaging/man.sh from trireme $version
.TH TRIREME 1 "$day" "Trireme $version" "User Commands"
.SH NAME
trireme \\- reinforcement learning of language models
.SH SYNOPSIS
.B trireme
.I COMMAND
\\&...
.br
.B srun trireme train
.I DECK
[\\fIkey\\fB=\\fIvalue\\fR ...]
.SH DESCRIPTION
Trireme trains language models by reinforcement learning, from preferences and from demonstrations, on clusters run by
Slurm: one MPI rank per GPU, or per share of the cores of a node. Models come in and go out as Hugging Face folders,
data is JSON lines, and a YAML deck describes a run. A command started without srun or mpirun uses one rank.
.SH COMMANDS
END
for command in $(echo "$help" | awk '/^commands:/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }') --version; do
  said=$("$program" "$command" --help)
  echo ".SS trireme $command" | sed 's/-/\\-/g'
  echo ".B"
  echo "$said" | awk 'NR == 1 { sub(/^usage: /, ""); print }' | awk "$plain { print }"
  echo ".PP"
  echo "$said" | awk 'NR > 1 && /^$/ { exit } NR > 1' | awk "$plain { print }"
  echo "$said" | awk '/^flags:/ { on = 1; next } on' | awk -v at=25 "$rows"
done
cat <<END
.SH DECKS
.B trireme train \\-\\-options
prints every key of a deck with its meaning, range and default. inputs/reference.yaml has the same as a deck. A key on the
command line, section.key=value, overrides the deck.
.SH EXIT STATUS
END
# Splits "0 done, 64 bad deck or input, ..." into codes and their texts.
echo "$help" | awk '/^exit codes:/ { on = 1; sub(/^exit codes: */, "") } on' | tr '\n' ' ' | tr ',' '\n' |
  awk '{ code = $1; sub(/^ *[0-9]+ */, ""); sub(/ +$/, ""); print ".TP\n.B " code "\n" $0 }'
# Prints variables, each a NAME and its sentence.
echo ".SH ENVIRONMENT"
while read -r name said; do
  printf '.TP\n.B %s\n' "$name"
  echo "$said" | awk "$plain { print }"
done <<END
TRIREME The program for the job files. By default trireme is searched in PATH.
TRIREME_JOBS The folder of the job files. The module sets it. By default the job files use ./jobs.
TRIREME_MPI The value of srun --mpi in the job files. Default pmix.
TRIREME_SPARE Number of spare nodes of a job. They wait until another node fails. Default 0, in many_nodes.sbatch 1.
TRIREME_PAUSE Seconds from an outage of a reward to the next start. Default 60.
TRI_START A name for this start of a run, up to 63 bytes. The events in OUTPUT/run.jsonl have it, so that several starts of a run can be told apart. The job files set it.
TRI_CPU_KERNELS Overrides run.cpu_kernels, the instruction set of the CPU's kernels.
TRI_CPU_F32 Overrides run.cpu_f32, the code for float32 matrix products on CPUs.
TRI_CPU_BF16 Overrides run.cpu_bf16, the code for bfloat16 matrix products on CPUs.
TRI_COMM Overrides run.collectives, the communication between ranks (shm, mpi, nccl or staged).
TRI_CUDA_ATTN_BWD Overrides run.cuda_attention_backward, the code for attention's gradient on GPUs.
CUDA_VISIBLE_DEVICES The GPUs a rank may use. If it is empty, the program uses the CPU.
NCCL_ALGO The algorithms of NCCL. If it is not set, Trireme turns off sums by switches, so that results repeat. It also sets NCCL_LAUNCH_ORDER_IMPLICIT to 1 if that is not set. The log records other NCCL_ variables.
NCCL_SOCKET_IFNAME The network interface of NCCL. doctor checks it. For MPI it checks OMPI_MCA_btl_tcp_if_include, OMPI_MCA_btl_tcp_if_exclude, GLOO_SOCKET_IFNAME and UCX_NET_DEVICES.
OMP_NUM_THREADS The most threads of a rank if neither run.threads nor --threads is given. OMP_THREAD_LIMIT does the same.
OMP_WAIT_POLICY The way threads wait for each other. If neither it nor GOMP_SPINCOUNT nor KMP_BLOCKTIME is set, they spin for a short time and then sleep.
HF_HOME The folder hub/ in it is the cache of the Hugging Face Hub. HF_HUB_CACHE and HUGGINGFACE_HUB_CACHE name the cache itself. If a model is given by its name on the Hub, the message has its folder in the cache.
http_proxy The proxy for reward servers by http. For https it is https_proxy or HTTPS_PROXY, otherwise all_proxy or ALL_PROXY. no_proxy or NO_PROXY lists hosts to ask directly.
HDF5_DISABLE_VERSION_CHECK A variable of HDF5. The program accepts only the HDF5 version it was built with, unless this is 1 or more.
HOME If no other variable names a cache, it is ~/.cache.
XDG_CACHE_HOME The folder trireme/ in it keeps doctor's measurements for plan. Default ~/.cache.
TMPDIR The folder for the rendezvous of doctor's ranks on one machine. Default /tmp.
PATH The folders to search for reward programs, sinfo, scontrol, munge and the pager.
PWD The name of the current folder, as init writes it into a deck, if it is right.
NO_COLOR If it is set and not empty, show and watch print no colours.
TERM The terminal's type. If it is dumb or not set, nothing is redrawn in place.
LC_ALL The character set of watch, UTF-8 or ASCII, from the first set one of LC_ALL, LC_CTYPE and LANG.
PAGER The pager for long output of show on a terminal. Default less, and none if it is empty. LESS is set to FRX if it is not set.
SLURM_* PMI_* PMIX_* OMPI_* Variables of srun and mpirun with the rank's number, node, job and time. OMPI_MCA_sharedfp and OMPI_MCA_mpi_yield_when_idle are set if they are not.
SLURM_PMIX_FENCE The way Slurm's PMIx synchronizes nodes. The job files set it to ring if it is not set.
END
cat <<END
.SH FILES
.TP
.I OUTPUT/deck.yaml
every key with the value used
.TP
.I OUTPUT/metrics.jsonl
one object per step
.TP
.I OUTPUT/run.jsonl
events of the run, one per line, for programs
.TP
.I OUTPUT/checkpoints/LATEST
the newest checkpoint
.TP
.I PREFIX/share/trireme
job files and decks to begin with
.SH SEE ALSO
.BR srun (1),
.BR sbatch (1),
.BR mpirun (1);
README.md in PREFIX/share/doc/trireme
END
