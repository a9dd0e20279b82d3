/* launch.h - reads tasks, nodes and a meeting point from the launcher's variables, before MPI is up. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LAUNCH_H
#define TRI_LAUNCH_H

#include "base/error.h"

enum { TRI_LAUNCH_NAME_BYTES = 256 };
typedef char tri_launch_name[TRI_LAUNCH_NAME_BYTES];

typedef struct tri_launch {
  int              task, tasks, local, locals;
  int              slurm_task; /* or -1 */
  const char      *kind;       /* "srun", "mpirun", "PMI", "alone" */
  int              n_node;     /* 0: the launcher gives no names */
  tri_launch_name *node;       /* [n_node], owned. The first has task 0 */
  int             *node_tasks; /* [n_node], owned */
  tri_launch_name  hub;        /* host or address of task 0. "": unknown, so ranks cannot connect */
  int              port;       /* port of the rendezvous, the same on every rank */
  uint64_t         key;        /* identifies this launch in every message */
} tri_launch;

/* Not collective. Reads the environment. task, tasks, locals: from tri_runtime_env_rank and
 * tri_runtime_env_ranks. The caller frees *out. */
TRI_CHECKED tri_status tri_launch_read(int task, int tasks, int locals, tri_launch *out);
void                   tri_launch_free(tri_launch *l);

/* Pure. Expands "n[1-3,07-09]x,head" to at most `most` names. Sets *n names in *out, freed with
 * tri_host_free. TRI_EINPUT: it is no list of hosts. */
TRI_CHECKED tri_status tri_launch_hosts(const char *text, int most, tri_launch_name **out, int *n);
/* Pure. Expands "2(x3),1" to the tasks of each of n nodes, out [n]. Returns false if it is no such list or
 * has another length. */
bool tri_launch_tasks(const char *text, int n, int *out);
/* Pure. Returns the node of a task if nodes are filled one after the other. -1: the launcher gives no
 * nodes. */
int tri_launch_node_of(const tri_launch *l, int task);

#endif
