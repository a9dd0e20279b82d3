/* runtime.h - who and where: MPI, PMIx, Slurm. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RUNTIME_H
#define TRI_RUNTIME_H

#include "base/error.h"
#include "comm.h"

enum { TRI_RUNTIME_MOST_RANKS = 1 << 20 }; /* chosen: that a plan is made for */

/* Who and where this process is; filled once in main(), read everywhere. */
typedef struct tri_runtime {
  int         world_rank, world_size, local_rank, local_size, node, nodes;
  int         machine_ranks; /* ranks on this real machine, pretended nodes or not */
  int         machine_rank;  /* my number among them */
  int         cores;         /* hardware threads this process may run on */
  int         machine_cores; /* hardware threads the ranks of this real machine may run on together */
  double      quota_cores;   /* of them, what control groups leave to each rank (quota.h); INFINITY: all */
  char        host[64];
  const char *launcher;    /* "pmix", "slurm", "mpi", "single": where the facts came from; printed at start */
  void       *mpi_world;   /* MPI_Comm *: every rank, renumbered local_rank * nodes + node; owned */
  void       *mpi_machine; /* MPI_Comm *: the ranks of this real machine; owned */
} tri_runtime;

/* Collective over MPI_COMM_WORLD. Starts MPI (thread level serialized), and PMIx if it is built in and a
 * server answers. ranks_per_node > 0 pretends a node has that many ranks (world_size must be a multiple of
 * it), so that one machine can test it. TRI_EARG: ranks cannot be dealt to nodes evenly; every rank fails so,
 * and everything is closed again. Any other failure may be this rank's alone: tri_runtime_abort is then the
 * way out. */
TRI_CHECKED tri_status tri_runtime_open(int ranks_per_node, tri_runtime *out);
void                   tri_runtime_close(tri_runtime *rt);
/* Not collective. Rank as the environment of a launcher says it that is there; 0: none, whatever variables a
 * shell has kept. For messages before MPI is up, and commands for one rank. */
int tri_runtime_env_rank(void);
/* Pure. What the mpi.h of the build calls itself, as its library does: "Open MPI v4.1.4"; "": not known. */
const char *tri_runtime_mpi_built(void);
/* Not collective, before MPI is up. TRI_EDEVICE: by its environment this is one rank of several, and their
 * launcher is not there: opened, each rank would be a run of its own. */
TRI_CHECKED tri_status tri_runtime_check_launcher(void);
/* Not collective. By the same tests of life: the ranks a command would have that is started as this process
 * was, and those on one machine; 1 and 1 without a launcher. */
void tri_runtime_env_ranks(int *ranks, int *machine_ranks);
/* Not collective, without MPI. Rank 0 of so many ranks that are not there, machine_ranks of them on this
 * machine, with nodes as in tri_runtime_open; for plans, and not to be closed. Cores: as if each rank were
 * bound like this process. */
TRI_CHECKED tri_status tri_runtime_pretend(int ranks, int machine_ranks, int ranks_per_node,
                                           tri_runtime *out);
/* Not collective. Was this process started by Open MPI's mpirun, which is there? */
bool tri_runtime_by_mpirun(void);
/* Not collective. May this rank, which failed before MPI was up, say so beside rank 0? The first one of each
 * node. */
bool tri_runtime_speaks_alone(void);
/* Called by a rank that has failed and has nothing else to say to the others: have all ranks of the job come
 * here (true), or are some elsewhere, so that only tri_runtime_abort remains? Waits a few seconds. True where
 * MPI is not up. */
bool tri_runtime_all_failed(void);
/* Ends every rank with this code, in a step of srun with PMIx also before MPI is up. The only way out while
 * ranks may be in different states. Where MPI cannot reach the others, this process alone ends, within
 * 10 s. */
_Noreturn void tri_runtime_abort(int code);
/* Not collective. The process ends with this code in so many seconds, should what comes hang; 0: it does not
 * any more. */
void tri_runtime_abort_within(int seconds, int code);

#endif
