/* pmix_server.h - what Slurm's PMIx server is asked; nothing where PMIx is not built in. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PMIX_SERVER_H
#define TRI_PMIX_SERVER_H

#include "runtime.h"

/* Collective over MPI_COMM_WORLD. Whether it says of local ranks and nodes what MPI says; then rt->launcher
 * is "pmix". Nothing where another one, or none, serves this process. */
TRI_CHECKED tri_status tri_pmix_compare(tri_runtime *rt);
/* Not collective, of a task of srun. Before MPI is up Slurm does not end a step because one of its ranks has
 * ended: asked by PMIx it does, with this code. Returns where it is not asked. */
void tri_pmix_abort(int code);

#endif
