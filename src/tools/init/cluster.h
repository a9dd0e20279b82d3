/* cluster.h - reads Slurm's partitions, nodes and accounts, for a job file. Not collective, all that follow,
 * unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CLUSTER_H
#define TRI_CLUSTER_H

#include "base/text_buffer.h"

/* Chosen. Names of partitions and GPUs are single words. Longer names are refused. */
enum { TRI_CLUSTER_NAME_BYTES = 64, TRI_CLUSTER_WHY_BYTES = 256 };

/* Identical nodes of one partition. */
typedef struct tri_cluster_nodes {
  char    partition[TRI_CLUSTER_NAME_BYTES];
  char    gpu[TRI_CLUSTER_NAME_BYTES]; /* type as Slurm names it, such as "a100". "": none */
  bool    is_default;                  /* it is the default partition */
  int64_t nodes, most_nodes;           /* most_nodes: of a job. 0: no limit */
  int64_t cores, memory_mib, gpus;     /* per node. Slurm's CPUs count as cores. memory 0: not known */
  double  longest_s;                   /* per job. 0: no limit */
} tri_cluster_nodes;

typedef struct tri_cluster {
  tri_cluster_nodes *kind; /* [n_kind] in Slurm's order. n_kind 0: nothing is known */
  int64_t            n_kind, cap;
  char               why[TRI_CLUSTER_WHY_BYTES]; /* why nothing is known, such as "there is no sinfo here" */
} tri_cluster;

/* Runs sinfo and waits for it at most patience_s. Returns TRI_OK even if sinfo does not answer. Skips lines
 * of the answer that describe no partition. Close *out after a failure too. */
TRI_CHECKED tri_status tri_cluster_ask(double patience_s, tri_cluster *out);
void                   tri_cluster_close(tri_cluster *c);

/* Characters of account names. */
#define TRI_CLUSTER_ACCOUNT_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+@"
/* Appends the accounts of the current user as sacctmgr lists them, "chem, phys". Appends nothing if it lists
 * none or does not answer in time. */
TRI_CHECKED tri_status tri_cluster_accounts(double patience_s, tri_text *out);
/* Pure. Returns whether such a list contains the name. */
bool tri_cluster_has_account(const char *names, const char *name);

/* Pure. Returns the largest group of identical nodes for a job. partition NULL prefers the default partition,
 * then takes any. gpus: the nodes must have GPUs. NULL: there is none. */
const tri_cluster_nodes *tri_cluster_find(const tri_cluster *c, const char *partition, bool gpus);
/* Pure. Returns whether the partition has GPUs of more than one type, so that a job must name one. */
bool tri_cluster_mixes_gpus(const tri_cluster *c, const char *partition);

#endif
