/* batch_source.h - the sources of a step's sequences. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BATCH_SOURCE_H
#define TRI_BATCH_SOURCE_H

#include "config/config.h"
#include "generate/sampler.h"
#include "io/data/dataset.h"
#include "rollout/rollout.h"

struct tri_trainer;

/* Tokens of the longest sequence for learning, and of the longest prompt to answer. */
typedef struct tri_longest {
  int64_t learn, prompt;
} tri_longest;

/* The deck counts in samples (train.train_batch_size, train.micro_batch_size). A sample is `together`
 * neighbouring sequences of the rollout. tri_sequences (inputs.h) converts samples to sequences. */
typedef struct tri_batch_source {
  bool        generates;    /* needs the sampler, and planned memory for answers */
  bool        own_memory;   /* allocates its sequences itself, in any size, without planned memory */
  bool        whole_groups; /* ranks learn from whole groups (tri_split_opt) */
  int         together;     /* sequences of one sample, such as 2 for a pair, else 1 */
  bool        beside;       /* as many sequences follow the step's samples, to be scored only */
  const char *gap_from;     /* origin of the compared log-probabilities, "sampler", or NULL */
  const char *gap_advice;   /* cure if run.sampler: exact finds a gap, or NULL for a bug of ours */
  /* Collective over world. Sets *l, which is {0, 1} before, to the largest lengths in the steps of this
   * run. */
  tri_status (*measure)(struct tri_trainer *t, tri_longest *l);
  /* Collective over world. Makes the sequences of a step, the same on every rank. *out is zeroed before.
   * *lines gets the number of data lines taken. If the run is told to stop meanwhile, there are no sequences,
   * and tri_halt_decided returns the cause. */
  tri_status (*next)(struct tri_trainer *t, int64_t step, tri_rollout *out, int64_t *lines);
} tri_batch_source;

/* batch_source.c. The next demonstrations of data.train. */
extern const tri_batch_source tri_batch_source_data;
/* batch_source.c. Pairs, each chosen answer followed by the rejected one. */
extern const tri_batch_source tri_batch_source_pairs;
/* batch_source.c. Labelled answers, and beside them each prompt with another line's answer. */
extern const tri_batch_source tri_batch_source_labelled;
/* batch_source_replay.c. Rollouts from files. */
extern const tri_batch_source tri_batch_source_replay;
/* batch_source_generate.c. Rewarded answers to the next prompts. */
extern const tri_batch_source tri_batch_source_generate;

struct tri_eval_range;
/* batch_source.c. Collective over world. Makes sequences on every rank, in t->whole, from a piece of a set of
 * t->eval.lines. These are the samples of the piece, or (beside) the sequences beside them, for which the
 * set's last line counts as the one before its first. *out is zeroed before, and the caller clears it. */
TRI_CHECKED tri_status tri_batch_source_held_out(struct tri_trainer *t, const struct tri_eval_range *set,
                                                 const struct tri_eval_range *piece, bool beside,
                                                 tri_rollout *out);
/* batch_source.c. Not collective. Returns the number of tokens with loss of the line at a position. `which` 1
 * selects the rejected side of a pair. */
int64_t tri_batch_source_held_out_tokens(const struct tri_trainer *t, int64_t position, int which);

/* batch_source.c. Not collective. Raises l->learn to the longest sequence in evaluations of the loss. */
void tri_batch_source_measure_held_out(const struct tri_trainer *t, tri_longest *l);

/* batch_source.c. Not collective, for a plan on paper, once the models are open. Stands in for lines that do
 * not exist, or that no tokenizer can read yet. They are as long as the deck and the models allow. Reports
 * the assumption. */
TRI_CHECKED tri_status tri_assume_lines(const struct tri_trainer *t, const tri_config_list *files,
                                        tri_data_kind kind, tri_dataset **out);

/* Prompts answered by all ranks together. */
typedef struct tri_ask {
  tri_dataset            *data;
  bool                    shuffle;  /* positions count in the shuffled epochs, else in the file */
  int64_t                 begin, n; /* positions of the prompts */
  const tri_generate_opt *how;
  const char             *phase;       /* phase for timing, such as "rollout" */
  int64_t                 before, all; /* answers made before this call, and in total, for the live line */
  bool                    greedy;      /* also makes a greedy answer to each prompt, as the baseline */
} tri_ask;
/* batch_source_generate.c. Collective over world. Makes rewarded answers on every rank, in t->whole, or none
 * if the run is told to stop meanwhile. *out is zeroed before, and the caller clears it. */
TRI_CHECKED tri_status tri_batch_source_ask(struct tri_trainer *t, const tri_ask *ask, tri_rollout *out);
/* batch_source_generate.c. True if steps of this run leave out groups of equal rewards. */
bool tri_batch_source_selects(const struct tri_trainer *t);

#endif
