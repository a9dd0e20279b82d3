/* interview.h - what a deck and its job are to be: from flags, from Slurm and the files, or asked. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INTERVIEW_H
#define TRI_INTERVIEW_H

#include "cluster.h"
#include "examples.h"
#include "io/model/source_chat.h"

/* In the order in which they are asked; each is a flag of trireme init. */
typedef enum {
  TRI_ASK_DEVICE,
  TRI_ASK_PARTITION,
  TRI_ASK_NODES,
  TRI_ASK_PER_NODE,
  TRI_ASK_GPU,
  TRI_ASK_WALLTIME,
  TRI_ASK_ACCOUNT,
  TRI_ASK_MODEL,
  TRI_ASK_DATA,
  TRI_ASK_EVAL,
  TRI_ASK_ALGO,
  TRI_QUESTIONS
} tri_asked;

typedef struct tri_interview {
  const char *given[TRI_QUESTIONS];  /* by the caller: values of flags, borrowed; NULL: not given */
  const char *chat_template;         /* by the caller: of --chat-template; NULL: the model's own */
  bool        yes;                   /* by the caller: what is not given is what would be suggested */
  char       *answer[TRI_QUESTIONS]; /* what holds, owned; paths absolute; NULL or "": none */
  tri_cluster cluster;
  tri_text    accounts;          /* "chem, phys"; empty: not known */
  const tri_cluster_nodes *kind; /* of the job's nodes; NULL: nothing is known of them */
  bool                     cuda;
  int64_t                  nodes, per_node;
  double                   gpu_bytes; /* memory of a GPU; 0: no GPUs */
  tri_source              *source;    /* the model's small files */
  bool                     chat;      /* there is a chat template: the model's, or the one that was given */
  bool                     broken;    /* the model's own template cannot be used */
  tri_examples             lines;
  const tri_algo          *algo;
} tri_interview;

/* Not collective. Asks Slurm and looks at the files; what neither flags nor they say is asked at the terminal
 * until it can be used. TRI_EARG, TRI_EINPUT: flags cannot be used, some are missing where nobody is asked
 * (all of them are named), or the answers end. Close too after a failure. */
TRI_CHECKED tri_status tri_interview_hold(tri_interview *v);
void                   tri_interview_close(tri_interview *v);

/* The flag of a question, "--nodes". */
const char *tri_interview_flag(tri_asked q);
/* Not collective. Appends the path as one that begins at the root, without needless "..", its links as they
 * are. TRI_EINPUT: it
 * holds what no terminal shows. */
TRI_CHECKED tri_status tri_interview_path(const char *path, tri_text *out);

#endif
