/* runtime.h - the place of this process among all ranks, from MPI, PMIx and Slurm. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RUNTIME_H
#define TRI_RUNTIME_H

#include "base/error.h"
#include "comm.h"

enum { TRI_RUNTIME_MOST_RANKS = 1 << 20 }; /* chosen: the most ranks a plan is made for */

/* The place of this process. main() fills it once, and everyone reads it. */
typedef struct tri_runtime {
  int         world_rank, world_size, local_rank, local_size, node, nodes;
  int         machine_ranks; /* ranks on this real machine, even with pretended nodes */
  int         machine_rank;  /* my number among them */
  int         cores;         /* hardware threads this process may run on */
  int         machine_cores; /* hardware threads the ranks of this real machine may run on together */
  double      quota_cores;   /* cores that control groups leave to each rank (quota.h). INFINITY: all */
  char        host[64];
  const char *launcher;    /* the source of these facts: "pmix", "slurm", "mpi", "single". Printed at start */
  int         tensor;      /* tri_place.tensor. 1, until the caller sets another before communicators open */
  void       *mpi_world;   /* MPI_Comm *, owned: every rank, renumbered local_rank * nodes + node */
  void       *mpi_machine; /* MPI_Comm *, owned: the ranks of this real machine */
} tri_runtime;

/* Collective over MPI_COMM_WORLD. Starts MPI at thread level serialized. Uses PMIx if it is built in and a
 * server answers. With ranks_per_node > 0 it pretends that a node has this many ranks, so that one machine
 * can test several nodes. The number must divide world_size. TRI_EARG: ranks cannot be dealt to nodes evenly.
 * Every rank fails so, and everything is closed again. Any other failure may concern this rank alone. Leave
 * with tri_runtime_abort then. */
TRI_CHECKED tri_status tri_runtime_open(int ranks_per_node, tri_runtime *out);
void                   tri_runtime_close(tri_runtime *rt);
/* Pure. */
tri_place tri_runtime_place(const tri_runtime *rt);
/* Not collective. The rank given by a live launcher's environment. 0: there is no launcher. Variables left in
 * a shell do not count. Used for messages before MPI is up, and by commands for one rank. */
int tri_runtime_env_rank(void);
/* Pure. The name and version of MPI from the mpi.h of the build, in the form its library reports: "Open MPI
 * v4.1.4". "": unknown. */
const char *tri_runtime_mpi_built(void);
/* Not collective, before MPI is up. TRI_EDEVICE: the environment says that this is one rank of several, but
 * their launcher is gone. Each rank would become a run of its own. */
TRI_CHECKED tri_status tri_runtime_check_launcher(void);
/* Not collective. The number of ranks of a command started like this process, and the number on one machine.
 * Launchers are tested for life in the same way. Both are 1 without a launcher. */
void tri_runtime_env_ranks(int *ranks, int *machine_ranks);
/* Not collective, without MPI. Makes rank 0 of `ranks` ranks for plans. The other ranks do not exist.
 * machine_ranks of them are on this machine, and nodes are as in tri_runtime_open. Cores are counted as if
 * each rank were bound like this process. Do not close it. */
TRI_CHECKED tri_status tri_runtime_pretend(int ranks, int machine_ranks, int ranks_per_node,
                                           tri_runtime *out);
/* Not collective. True if Open MPI's mpirun started this process and is still there. */
bool tri_runtime_by_mpirun(void);
/* Not collective. True if this rank may report a failure before MPI was up, in addition to rank 0. The first
 * rank of each node may. */
bool tri_runtime_speaks_alone(void);
/* Called by a rank that has failed and has nothing else to tell the others. True: all ranks of the job have
 * called this, or MPI is not up. False: some are elsewhere, and only tri_runtime_abort remains. Waits a few
 * seconds. */
bool tri_runtime_all_failed(void);
/* Ends every rank with this code. In a step of srun with PMIx this works even before MPI is up. It is the
 * only way out while ranks may be in different states. If MPI cannot reach the others, this process alone
 * ends, within 10 s. */
_Noreturn void tri_runtime_abort(int code);
/* Not collective. Ends the process with this code after `seconds` seconds, in case the following work hangs.
 * 0 cancels it. */
void tri_runtime_abort_within(int seconds, int code);

#endif
