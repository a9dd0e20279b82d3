/* bench_setup.h - what is timed: a model's shape, how it learns and answers, and the sizes of its passes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_SETUP_H
#define TRI_BENCH_SETUP_H

#include "family/lora.h"
#include "model/model.h"
#include "state/optim.h"

/* What is passed. */
typedef struct tri_bench_size {
  int64_t sequences, length, rows; /* of a pass of learning: sequences, tokens and learned tokens of each */
  int64_t prompts, group;          /* of answers decoded at once; 0: nothing is generated */
  int64_t prompt_tokens, answer_tokens;
} tri_bench_size;

typedef struct tri_bench_case {
  tri_model_shape shape;
  tri_dtype       dtype;
  tri_head_kind   head;
  tri_lora        lora; /* rank 0: the weights learn */
  bool            recompute;
  bool            any_order; /* as in model.h, offload too */
  tri_shard_plan  plan;
  int64_t         offload;
  double          ema_beta;
  tri_optim_opt   optim;
  tri_sample_rule rule;
  tri_bench_size  size;
  int64_t         passes; /* of learning, to an update */
} tri_bench_case;

/* Pure. Without a deck: a llama of 124 M numbers, as GPT-2 small, that learns 4 sequences of 256 tokens a
 * pass and answers prompts of 128. */
void tri_bench_case_default(tri_bench_case *out);
/* Collective over world. Rank 0's, on every rank. */
TRI_CHECKED tri_status tri_bench_case_share(tri_comm *world, tri_bench_case *c);

/* Pure, all that follow. Tokens and head's rows of a pass. */
int64_t tri_bench_tokens(const tri_bench_size *z);
int64_t tri_bench_rows(const tri_bench_size *z);
/* Decode steps that are timed, and tokens of a prompt then: half of the steps lie before half of the
 * answer. */
int64_t tri_bench_steps(const tri_bench_size *z);
int64_t tri_bench_prompt(const tri_bench_size *z);

#endif
