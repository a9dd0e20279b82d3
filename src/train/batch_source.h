/* batch_source.h - where a step's sequences come from. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BATCH_SOURCE_H
#define TRI_BATCH_SOURCE_H

#include "config/config.h"
#include "generate/sampler.h"
#include "io/data/dataset.h"
#include "rollout/rollout.h"

struct tri_trainer;

/* The longest sequence that is learned from and the longest prompt answered, in tokens. */
typedef struct tri_longest {
  int64_t learn, prompt;
} tri_longest;

/* Samples are what the deck counts: train.train_batch_size, train.micro_batch_size. One is `together`
 * sequences, side by side in the rollout, which tri_sequences (train.h) counts. */
typedef struct tri_batch_source {
  bool        generates;    /* wants the sampler, and planned memory for answers */
  bool        own_memory;   /* in memory of its own, of any size: none is planned */
  bool        whole_groups; /* ranks learn from whole groups (tri_split_opt) */
  int         together;     /* sequences of one sample, learned from together, such as a pair; else 1 */
  bool        beside;       /* behind the step's samples come as many sequences that are scored only */
  const char *gap_from;     /* whose log-probabilities the gap is from: "sampler"; NULL: they have none */
  const char *gap_advice;   /* what a user can do where run.sampler: exact finds one; NULL: it is our fault */
  /* Collective over world. What this run's steps will have at most, into *l, which is {0, 1}. */
  tri_status (*measure)(struct tri_trainer *t, tri_longest *l);
  /* Collective over world. Sequences of step `step` on every rank, alike; *out is zeroed before. *lines: of
   * data, that they took. Where the run is told to stop meanwhile: none, and tri_halt_decided says so. */
  tri_status (*next)(struct tri_trainer *t, int64_t step, tri_rollout *out, int64_t *lines);
} tri_batch_source;

extern const tri_batch_source
    tri_batch_source_data; /* batch_source.c: demonstrations, the next ones of data.train */
extern const tri_batch_source
    tri_batch_source_pairs; /* batch_source.c: the chosen answer, then the rejected one */
extern const tri_batch_source
    tri_batch_source_labelled; /* batch_source.c: beside them prompts with another's answer */
extern const tri_batch_source tri_batch_source_replay; /* batch_source_replay.c: written rollouts */
extern const tri_batch_source
    tri_batch_source_generate; /* batch_source_generate.c: answers to the next prompts, rewarded */

struct tri_eval_range;
/* batch_source.c. Collective over world. What a piece of a set of t->eval.lines becomes, on every rank, in
 * t->whole: its samples, or the sequences beside them, for which the set's last line stands before its first.
 * *out is zeroed before, and to be cleared. */
TRI_CHECKED tri_status tri_batch_source_held_out(struct tri_trainer *t, const struct tri_eval_range *set,
                                                 const struct tri_eval_range *piece, bool beside,
                                                 tri_rollout *out);
/* batch_source.c. Not collective. Tokens with loss of the line at a position; of the other side of a pair
 * with which 1. */
int64_t tri_batch_source_held_out_tokens(const struct tri_trainer *t, int64_t position, int which);

/* batch_source.c. Not collective. The longest sequence that evaluations by the loss read, if it is longer. */
void tri_batch_source_measure_held_out(const struct tri_trainer *t, tri_longest *l);

/* batch_source.c. Not collective, of a plan on paper, when the models are open. Lines that are not there, or
 * that no tokenizer can read yet: as long as the deck and the models allow. Says so. */
TRI_CHECKED tri_status tri_assume_lines(const struct tri_trainer *t, const tri_config_list *files,
                                        tri_data_kind kind, tri_dataset **out);

/* Prompts that all ranks answer together. */
typedef struct tri_ask {
  tri_dataset            *data;
  bool                    shuffle;  /* positions are of the shuffled passes, else of the file */
  int64_t                 begin, n; /* positions */
  const tri_generate_opt *how;
  const char             *phase;       /* what the time is spent on: "rollout" */
  int64_t                 before, all; /* answers of the whole piece of work: already made; in the end */
  bool                    greedy; /* each prompt gets a greedy answer too, whose reward is the baseline */
} tri_ask;
/* batch_source_generate.c. Collective over world. Answers, rewarded, on every rank, in t->whole. Where the
 * run is told to stop meanwhile: none. *out is zeroed before, and to be cleared. */
TRI_CHECKED tri_status tri_batch_source_ask(struct tri_trainer *t, const tri_ask *ask, tri_rollout *out);
/* batch_source_generate.c. Whether the steps of this run leave groups of equal rewards out. */
bool tri_batch_source_selects(const struct tri_trainer *t);

#endif
