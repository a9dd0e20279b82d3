/* launch.h - what the launcher tells before MPI is up: tasks, nodes, where rank 0 is, and a meeting point. */
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
  int              n_node;     /* 0: the launcher does not tell names */
  tri_launch_name *node;       /* [n_node], owned; the first has task 0 */
  int             *node_tasks; /* [n_node], owned */
  tri_launch_name  hub;        /* host or address of task 0; "": unknown, so ranks cannot meet */
  int              port;       /* where they meet; the same on every rank of the launch */
  uint64_t         key;        /* of this launch, in every message */
} tri_launch;

/* Not collective, from the environment. task, tasks, locals: as tri_runtime_env_rank and
 * tri_runtime_env_ranks say. The caller frees. */
TRI_CHECKED tri_status tri_launch_read(int task, int tasks, int locals, tri_launch *out);
void                   tri_launch_free(tri_launch *l);

/* Pure. "n[1-3,07-09]x,head": at most `most` names; *n of them in *out, by tri_host_free. TRI_EINPUT: it is
 * no list of hosts. */
TRI_CHECKED tri_status tri_launch_hosts(const char *text, int most, tri_launch_name **out, int *n);
/* Pure. "2(x3),1": tasks of each of n nodes into out [n]; false: it is no such list, or of other length. */
bool tri_launch_tasks(const char *text, int n, int *out);
/* Pure. The node of a task where nodes are filled one after the other; -1 where the launcher tells no
 * nodes. */
int tri_launch_node_of(const tri_launch *l, int task);

#endif
