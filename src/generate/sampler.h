/* sampler.h - generation: continuous batching over the paged cache, one prefill per prompt. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SAMPLER_H
#define TRI_SAMPLER_H

#include "model/model.h"
#include "rollout/rollout.h"

typedef struct tri_prompt {
  int64_t        id;    /* line of the prompt file; keys the random numbers */
  const int32_t *token; /* [n_token], borrowed; at least one */
  int            n_token;
} tri_prompt;

/* Chosen: products are at their best well below. Most prompt tokens of one prefill, unless a single prompt is
 * longer. */
enum { TRI_SAMPLER_PREFILL = 2048 };

typedef struct tri_sampler_opt {
  int     max_sequences;       /* decoded at once */
  int64_t max_prompt, max_new; /* tokens, at most */
  int64_t max_prefill;         /* tokens of prompts in one prefill; at least max_prompt */
  int64_t max_answers; /* of one call, for which memory is planned; 0: any number, memory as they come */
} tri_sampler_opt;

typedef struct tri_generate_opt {
  tri_sample_rule rule;
  int64_t         max_new;
  int             group; /* answers per prompt */
  const int32_t  *eos;   /* end tokens; an answer ends with one, which belongs to it */
  int             n_eos;
  /* Asked after each token; true ends the answer. NULL: no stop strings. */
  bool (*stop)(void *ctx, const int32_t *answer, int64_t n);
  void *ctx;
  /* Told of each answer as it ends, number prompt * group + sample: its tokens, borrowed until it returns.
   * What fails ends the generation. NULL: nobody is. */
  tri_status (*finished)(void *finished_ctx, int number, const int32_t *answer, int64_t n,
                         tri_stop_reason why);
  void *finished_ctx;
  /* Asked between rounds; true gives all answers up. NULL: never. */
  bool (*halt)(void *halt_ctx);
  void *halt_ctx;
  /* Told between rounds how many of this rank's answers are finished. NULL: never. */
  void (*progress)(void *progress_ctx, int finished, int total);
  void *progress_ctx;
} tri_generate_opt;

typedef struct tri_sampler tri_sampler;
/* Pure. Tokens of one prefill for prompts of up to max_prompt tokens, of which at most n are taken at
 * once. */
int64_t tri_sampler_prefill(int64_t n, int64_t max_prompt);
/* Not collective. Plans the cache and its buffers in the ledger. The model is borrowed. */
TRI_CHECKED tri_status tri_sampler_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_dtype dtype,
                                        const tri_sampler_opt *opt, tri_sampler **out);
void                   tri_sampler_close(tri_sampler **s);
/* Collective over the parameter scope (it holds the weights; n_prompt may differ and be 0). Fills *out, empty
 * before, with this rank's answers in the order of prompts, then samples: tokens, old_logp of the answers,
 * stop; given up, it stays empty. The random number behind token t of answer k depends on (seed, prompt id,
 * k, t) only, and rows never depend on their company, so neither do answers. */
TRI_CHECKED tri_status tri_sampler_generate(tri_sampler *s, const tri_prompt *prompt, int n_prompt,
                                            const tri_generate_opt *opt, tri_stream *stream,
                                            tri_rollout *out);

#endif
