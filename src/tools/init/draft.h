/* draft.h - writes a deck and a job file as text from the choices made. Not collective, all that follow,
 * unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DRAFT_H
#define TRI_DRAFT_H

#include "cluster.h"
#include "examples.h"

/* Memory settings of a run. */
typedef struct tri_draft_memory {
  bool        recompute;
  int64_t     max_tokens; /* in one pass on one rank */
  const char *plan;       /* value of shard.plan */
  const char *offload;    /* value of shard.offload */
  int         tensor;     /* value of shard.tensor_parallel_size */
} tri_draft_memory;

/* The choices for a deck. All text is borrowed. */
typedef struct tri_draft {
  const char         *deck, *output;       /* deck.yaml and run.output. All paths are absolute */
  const char         *model, *data, *eval; /* eval NULL: no evaluation */
  const tri_algo     *algo;
  const tri_examples *lines;         /* fields of data and eval */
  bool                chat;          /* prompts are text, and the model has a chat template */
  const char         *chat_template; /* for data.chat_template. NULL: the model's own */
  bool                cuda;
  int64_t             nodes, per_node; /* ranks of a node */
  struct {
    int64_t     generations, prompts;       /* per rollout. 0 if nothing is generated */
    int64_t     max_prompt, max_response;   /* tokens. max_prompt 0: limited by the context */
    bool        drop;                       /* drop lines that are too long, which are errors otherwise */
    int64_t     train_batch, steps, epochs; /* train_batch in samples. Either steps or epochs is 0 */
    const char *learning_rate;              /* NULL: the algorithm's default */
    double      usual_rate;                 /* that default */
  } size;
  tri_draft_memory memory;
  const char      *planned; /* a sentence on memory for the deck's head. NULL: none */
} tri_draft;

/* Appends deck.yaml. */
TRI_CHECKED tri_status tri_draft_deck(const tri_draft *d, tri_text *out);

/* Choices for the job file alone. */
typedef struct tri_draft_job {
  const char *name;                /* the job's */
  const char *partition, *account; /* NULL: Slurm's default */
  const char *time;                /* as sbatch reads it */
  const char *gpu;                 /* type of GPU to request. NULL: any */
  int64_t     cores;               /* per rank */
  int64_t     memory_mib;          /* per node. 0: whole nodes (--exclusive). -1: not known */
  bool        guessed;             /* cores and memory are guessed, because Slurm does not say what its nodes
                                    * have */
  const char *runner, *program;    /* absolute paths of train.sbatch and trireme */
} tri_draft_job;

/* Appends job.sbatch. */
TRI_CHECKED tri_status tri_draft_sbatch(const tri_draft *d, const tri_draft_job *j, tri_text *out);

#endif
