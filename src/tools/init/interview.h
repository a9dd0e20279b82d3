/* interview.h - collects the choices for a deck and its job from flags, Slurm, the files and a person. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INTERVIEW_H
#define TRI_INTERVIEW_H

#include "cluster.h"
#include "examples.h"
#include "io/model/source_chat.h"

/* In the order of the questions. Each is a flag of trireme init. */
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
  const char *given[TRI_QUESTIONS];  /* set by the caller: values of flags, borrowed. NULL: not given */
  const char *chat_template;         /* set by the caller: --chat-template. NULL: the model's own */
  bool        yes;                   /* set by the caller: take the suggestion for missing flags */
  char       *answer[TRI_QUESTIONS]; /* the answers, owned, with absolute paths. NULL or "": none */
  tri_cluster cluster;
  tri_text    accounts;          /* "chem, phys". Empty: not known */
  const tri_cluster_nodes *kind; /* the job's nodes. NULL: not known */
  bool                     cuda;
  int64_t                  nodes, per_node;
  double                   gpu_bytes; /* memory of a GPU. 0: no GPUs */
  tri_source              *source;    /* the model's small files */
  bool                     chat;      /* there is a chat template, the model's or a given one */
  bool                     broken;    /* the model's own template cannot be used */
  tri_examples             lines;
  const tri_algo          *algo;
} tri_interview;

/* Asks Slurm and reads the files. Asks at the terminal for everything else, until the answer is usable.
 * TRI_EARG, TRI_EINPUT: flags are not usable, flags are missing with `yes` set (the message names all of
 * them), or the input has ended. Close *v after a failure too. */
TRI_CHECKED tri_status tri_interview_hold(tri_interview *v);
void                   tri_interview_close(tri_interview *v);

/* Returns the flag of a question, such as "--nodes". */
const char *tri_interview_flag(tri_asked q);
/* Appends the path as an absolute one, without needless ".." and with its links as they are. TRI_EINPUT: it
 * has characters that no terminal shows. */
TRI_CHECKED tri_status tri_interview_path(const char *path, tri_text *out);

#endif
