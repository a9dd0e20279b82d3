/* draft.h - a deck and a job file as text, from what was chosen. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DRAFT_H
#define TRI_DRAFT_H

#include "cluster.h"
#include "examples.h"

/* How much memory a run may spend, cheapest first: what is kept for backward, tokens of a pass, who holds
 * what. */
typedef struct tri_draft_memory {
  bool        recompute;
  int64_t     max_tokens; /* of one pass on one rank */
  const char *plan;       /* of shard.plan */
  const char *offload;    /* of shard.offload */
} tri_draft_memory;

/* All text is borrowed. */
typedef struct tri_draft {
  const char         *deck, *output;       /* absolute paths, as the next ones: of deck.yaml; run.output */
  const char         *model, *data, *eval; /* eval NULL: nothing is evaluated */
  const tri_algo     *algo;
  const tri_examples *lines;         /* of data and eval */
  bool                chat;          /* prompts are text, and the model has a chat template */
  const char         *chat_template; /* for data.chat_template; NULL: the model's own */
  bool                cuda;
  int64_t             nodes, per_node; /* ranks of a node */
  struct {
    int64_t     generations, prompts;       /* of a rollout; 0 where nothing is generated */
    int64_t     max_prompt, max_response;   /* tokens; max_prompt 0: as the context allows */
    bool        drop;                       /* leave out lines that are too long, else they are errors */
    int64_t     train_batch, steps, epochs; /* samples; one of steps and epochs is 0 */
    const char *learning_rate;              /* NULL: the algorithm's default */
    double      usual_rate;                 /* that default */
  } size;
  tri_draft_memory memory;
  const char      *planned; /* a sentence on memory, for the deck's head; NULL: none */
} tri_draft;

/* Not collective. Appends deck.yaml. */
TRI_CHECKED tri_status tri_draft_deck(const tri_draft *d, tri_text *out);

/* What only the job file says. */
typedef struct tri_draft_job {
  const char *name;                /* of the job */
  const char *partition, *account; /* NULL: as Slurm has it */
  const char *time;                /* as sbatch reads it */
  const char *gpu;                 /* type of GPU to ask for; NULL: any */
  int64_t     cores;               /* of each rank */
  int64_t     memory_mib;          /* of each node; 0: the node is the job's alone; -1: not known */
  bool        guessed;             /* cores and memory: nobody said what the nodes have */
  const char *runner, *program;    /* absolute: train.sbatch and trireme */
} tri_draft_job;

/* Not collective. Appends job.sbatch. */
TRI_CHECKED tri_status tri_draft_sbatch(const tri_draft *d, const tri_draft_job *j, tri_text *out);

#endif
