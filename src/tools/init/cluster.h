/* cluster.h - what Slurm says of its partitions and their nodes, for a job that is to be written. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CLUSTER_H
#define TRI_CLUSTER_H

#include "base/text_buffer.h"

/* Chosen: names of partitions and GPUs are words; what is longer is not taken. */
enum { TRI_CLUSTER_NAME_BYTES = 64, TRI_CLUSTER_WHY_BYTES = 256 };

/* Nodes of one partition that are alike. */
typedef struct tri_cluster_nodes {
  char    partition[TRI_CLUSTER_NAME_BYTES];
  char    gpu[TRI_CLUSTER_NAME_BYTES]; /* the type as Slurm has it, "a100"; "": it has none */
  bool    is_default;                  /* the partition is */
  int64_t nodes, most_nodes;           /* of a job: 0, no limit */
  int64_t cores, memory_mib, gpus;     /* of each node; cores as Slurm counts CPUs; memory 0: not known */
  double  longest_s;                   /* of a job: 0, no limit */
} tri_cluster_nodes;

typedef struct tri_cluster {
  tri_cluster_nodes *kind; /* [n_kind] as Slurm lists them; 0: nothing is known */
  int64_t            n_kind, cap;
  char               why[TRI_CLUSTER_WHY_BYTES]; /* nothing is known: "there is no sinfo here" */
} tri_cluster;

/* Not collective. Asks sinfo, which is waited for at most patience_s. TRI_OK also where it does not answer.
 * What is not a partition's line in its answer is passed over. Close too after a failure. */
TRI_CHECKED tri_status tri_cluster_ask(double patience_s, tri_cluster *out);
void                   tri_cluster_close(tri_cluster *c);

/* What names of accounts are made of. */
#define TRI_CLUSTER_ACCOUNT_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+@"
/* Not collective. Appends the accounts that sacctmgr names for who runs this, "chem, phys"; nothing where it
 * names none or does not answer in time. */
TRI_CHECKED tri_status tri_cluster_accounts(double patience_s, tri_text *out);
/* Pure. Whether such a list has that name. */
bool tri_cluster_has_account(const char *names, const char *name);

/* Pure. The nodes for a job, of which there are most among those that are alike: of this partition (NULL: of
 * the default one, else of any), with GPUs or without asking. NULL: there are none. */
const tri_cluster_nodes *tri_cluster_find(const tri_cluster *c, const char *partition, bool gpus);
/* Pure. Has the partition nodes with GPUs of more than one type, so that a job must name one? */
bool tri_cluster_mixes_gpus(const tri_cluster *c, const char *partition);

#endif
