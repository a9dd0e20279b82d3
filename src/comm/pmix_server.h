/* pmix_server.h - queries to Slurm's PMIx server. They do nothing if PMIx is not built in. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PMIX_SERVER_H
#define TRI_PMIX_SERVER_H

#include "runtime.h"

/* Collective over MPI_COMM_WORLD. Checks that PMIx and MPI agree on local ranks and nodes, and sets
 * rt->launcher to "pmix". Does nothing if Slurm's PMIx server does not serve this process. */
TRI_CHECKED tri_status tri_pmix_compare(tri_runtime *rt);
/* Not collective, in a task of srun. Before MPI is up, Slurm does not end a step when one of its ranks exits.
 * This call asks Slurm through PMIx to end the step with this code. Returns if PMIx cannot be asked. */
void tri_pmix_abort(int code);

#endif
