/* bench_setup.h - describes a case to time: a model's shape, its training and generation, and the sizes of
 * passes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_SETUP_H
#define TRI_BENCH_SETUP_H

#include "family/lora.h"
#include "model/model.h"
#include "state/optim.h"

enum { TRI_BENCH_MOST = 64 }; /* repetitions of a measurement, and timed decode steps. Chosen */

/* Sizes of the passes. */
typedef struct tri_bench_size {
  int64_t sequences, length, rows; /* training pass: sequences, tokens and learned tokens of each */
  int64_t prompts, group;          /* answers decoded at once by a model. 0: nothing is generated */
  int64_t prompt_tokens, answer_tokens;
} tri_bench_size;

typedef struct tri_bench_case {
  tri_model_shape shape;
  tri_dtype       dtype;
  tri_head_kind   head;
  tri_lora        lora; /* rank 0: the weights themselves learn */
  bool            recompute;
  bool            any_order; /* as in model.h, as is offload */
  tri_shard_plan  plan;
  int64_t         offload;
  double          ema_beta;
  tri_optim_opt   optim;
  tri_sample_rule rule;
  tri_bench_size  size;
  int64_t         passes; /* training passes per update */
  int             tensor; /* ranks of a node that generate as one model. 0: 1 */
} tri_bench_case;

/* Pure. Makes the case without a deck: a llama of 124 M weights, as large as GPT-2 small. It trains 4
 * sequences of 256 tokens per pass and answers prompts of 128. */
void tri_bench_case_default(tri_bench_case *out);
/* Collective over world. Sends rank 0's case to every rank. */
TRI_CHECKED tri_status tri_bench_case_share(tri_comm *world, tri_bench_case *c);

/* All functions below are pure. Return the tokens of a pass, and its rows for the head. */
int64_t tri_bench_tokens(const tri_bench_size *z);
int64_t tri_bench_rows(const tri_bench_size *z);
/* Return the timed decode steps, and the tokens of the prompt for them. Half of the steps are before the
 * middle of the answer. */
int64_t tri_bench_steps(const tri_bench_size *z);
int64_t tri_bench_prompt(const tri_bench_size *z);

#endif
