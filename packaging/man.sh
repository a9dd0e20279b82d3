#!/bin/sh
# man.sh - the man page, from what the program says of itself: so it cannot say anything else.
# SPDX-License-Identifier: BSD-3-Clause
#
# packaging/man.sh PROGRAM >trireme.1    with every command's --help; run by cmake --install
set -eu
program=$1
version=$("$program" --version | sed 's/trireme \([^ ]*\).*/\1/')
[ -n "$version" ] || { echo "man.sh: $program does not say its version" >&2; exit 1; }
help=$("$program" --help)
if [ -n "${SOURCE_DATE_EPOCH-}" ]; then day=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d); else day=$(date -u -r "$program" +%Y-%m-%d); fi

# Text as roff: no line begins with a dot or a quote, backslashes and hyphens stand for themselves.
plain='{ gsub(/\\/, "\\e"); gsub(/-/, "\\-"); if (/^[.\x27]/) $0 = "\\&" $0 }'
# Rows of --help, "  left   text" and lines that go on: the left parts in bold. Their text begins at column `at`.
rows='function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.\x27]/) s = "\\&" s; return s }
  /^  [^ ]/ { left = substr($0, 3, at - 2); sub(/ +$/, "", left); print ".TP\n.B " roff(left); print roff(substr($0, at + 1)); next }
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
data is JSON lines, a run is described by a deck in YAML. Any command that is started plainly is a run of one rank.
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
prints every key of a deck with its range, default and unit; the same, as a deck, is inputs/reference.yaml. A key on the
command line, section.key=value, goes over that of the deck.
.SH EXIT STATUS
END
# "0 done, 64 bad deck or input, ...": each code with its words.
echo "$help" | awk '/^exit codes:/ { on = 1; sub(/^exit codes: */, "") } on' | tr '\n' ' ' | tr ',' '\n' |
  awk '{ code = $1; sub(/^ *[0-9]+ */, ""); sub(/ +$/, ""); print ".TP\n.B " code "\n" $0 }'
# Variables: NAME, then its sentence.
echo ".SH ENVIRONMENT"
while read -r name said; do
  printf '.TP\n.B %s\n' "$name"
  echo "$said" | awk "$plain { print }"
done <<END
TRIREME The program that the job files start. Without it trireme is looked for in PATH.
TRIREME_JOBS The folder of the job files. The module sets it; without it the job files look in ./jobs.
TRIREME_MPI What the job files give to srun --mpi. Default pmix.
TRIREME_SPARE So many nodes of the job wait until another one fails. Default 0, of many_nodes.sbatch 1.
TRIREME_PAUSE Seconds between an outage of a reward and the next start. Default 60.
TRI_START A name for this start of a run, in its events in OUTPUT/run.jsonl, up to 63 bytes: whoever starts a run several times tells the starts apart by it. The job files set it.
TRI_CPU_KERNELS Overrides run.cpu_kernels, the instructions of the CPU's kernels.
TRI_CPU_F32 Overrides run.cpu_f32, who multiplies float32 matrices on CPUs.
TRI_CPU_BF16 Overrides run.cpu_bf16, who multiplies bfloat16 matrices on CPUs.
TRI_COMM Overrides run.collectives, how ranks exchange data: shm, mpi, nccl or staged.
TRI_CUDA_ATTN_BWD Overrides run.cuda_attention_backward, who computes attention's gradient on GPUs.
CUDA_VISIBLE_DEVICES The GPUs that a rank may use. Empty: the program uses the CPU.
NCCL_ALGO How NCCL sums. Where it is not set, sums by switches are off, so that results repeat. NCCL_LAUNCH_ORDER_IMPLICIT is set to 1 where it is not set. Other NCCL_ variables are NCCL's own and are kept in the log.
NCCL_SOCKET_IFNAME The interface of NCCL. doctor checks it, and OMPI_MCA_btl_tcp_if_include, OMPI_MCA_btl_tcp_if_exclude, GLOO_SOCKET_IFNAME and UCX_NET_DEVICES for MPI.
OMP_NUM_THREADS The most threads of a rank, where neither run.threads nor --threads is given. OMP_THREAD_LIMIT does the same.
OMP_WAIT_POLICY How threads wait for each other. Where neither it nor GOMP_SPINCOUNT nor KMP_BLOCKTIME is set, they wait for a short time and then sleep.
HF_HOME The folder of the Hugging Face Hub's cache is hub/ in it. HF_HUB_CACHE and HUGGINGFACE_HUB_CACHE name the cache itself. Where a model is given by its name of the Hub, the message says where the cache has it.
http_proxy The proxy for reward servers by http; https_proxy or HTTPS_PROXY by https; else all_proxy or ALL_PROXY. no_proxy or NO_PROXY lists the hosts that are asked directly.
HDF5_DISABLE_VERSION_CHECK Of HDF5. The program refuses another HDF5 than it was built with, unless this is 1 or more.
HOME Where no other variable names a cache, ~/.cache is used.
XDG_CACHE_HOME The folder trireme/ in it keeps what doctor measured, for plan. Default ~/.cache.
TMPDIR Where ranks of one machine meet for doctor. Default /tmp.
PATH Where reward programs, sinfo, scontrol, munge and the pager are looked for.
PWD The current folder as init writes it into a deck, where it names that folder.
NO_COLOR Set and not empty: show and watch print no colours.
TERM The terminal's type. Where it is dumb or not set, nothing is redrawn in place.
LC_ALL The character set of watch, from LC_ALL, LC_CTYPE or LANG, the first that is set: UTF-8 or ASCII.
PAGER The program that shows the long output of show on a terminal. Empty: none. Default less. LESS is set to FRX where it is not set.
SLURM_* PMI_* PMIX_* OMPI_* What srun and mpirun set for ranks: number, node, job, time. OMPI_MCA_sharedfp and OMPI_MCA_mpi_yield_when_idle are set where they are not.
SLURM_PMIX_FENCE How Slurm's PMIx synchronizes nodes. The job files set it to ring where it is not set.
END
cat <<END
.SH FILES
.TP
.I OUTPUT/deck.yaml
every key with the value that was used
.TP
.I OUTPUT/metrics.jsonl
one object per step
.TP
.I OUTPUT/run.jsonl
what happened, one event a line, for programs
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
