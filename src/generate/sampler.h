/* sampler.h - generation: continuous batching over the paged cache, one prefill per prompt. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SAMPLER_H
#define TRI_SAMPLER_H

#include "model/model.h"
#include "request.h"

/* Chosen. Most prompt tokens of one prefill, unless a single prompt is longer. Products reach their best
 * speed well below this. */
enum { TRI_SAMPLER_PREFILL = 2048 };

typedef struct tri_sampler_opt {
  int     max_sequences;       /* sequences decoded at once */
  int64_t max_prompt, max_new; /* most tokens of a prompt and of an answer */
  int64_t max_prefill;         /* prompt tokens in one prefill, at least max_prompt */
  int64_t max_answers;         /* answers per call with planned memory, 0 for any number, unplanned */
  /* Pages of the cache, or 0 for the full length of every row. With fewer than that, at least
   * tri_sampler_least_pages, an answer may give its pages up and is prefilled again later. max_prefill must
   * then hold the longest sequence. */
  int64_t max_pages;
} tri_sampler_opt;

typedef struct tri_generate_opt {
  tri_sample_rule rule;
  int64_t         max_new;
  int             group; /* answers per prompt */
  const int32_t  *eos;   /* end tokens. The one that ends an answer belongs to it */
  int             n_eos;
  /* Called after each token. If it returns true, the answer ends. NULL without stop strings. */
  bool (*stop)(void *ctx, const int32_t *answer, int64_t n);
  void *ctx;
  /* Called with each answer as it ends, if not NULL. Its number is place * group + sample. Its tokens are
   * borrowed until the call returns. A failure ends the generation. */
  tri_status (*finished)(void *finished_ctx, int number, const int32_t *answer, int64_t n,
                         tri_stop_reason why);
  void *finished_ctx;
  /* Called between decode steps, if not NULL. If it returns true, the generation drops all answers. */
  bool (*halt)(void *halt_ctx);
  void *halt_ctx;
  /* Called between decode steps with the number of finished answers of this rank, if not NULL. */
  void (*progress)(void *progress_ctx, int finished, int total);
  void *progress_ctx;
} tri_generate_opt;

typedef struct tri_sampler tri_sampler;
/* Pure. Returns the tokens of one prefill for prompts of up to max_prompt tokens, at most n prompts at
 * once. */
int64_t tri_sampler_prefill(int64_t n, int64_t max_prompt);
/* Pure. Returns the pages of a cache for the full length of every row. */
int64_t tri_sampler_full_pages(int64_t max_sequences, int64_t max_prompt, int64_t max_new);
/* Pure. Returns the fewest pages of a cache. They hold the longest sequence and its prompt, and one is
 * spare. */
int64_t tri_sampler_least_pages(int64_t max_prompt, int64_t max_new);
/* Pure. Returns the states of recurrent layers in the cache. There is one for each row, and one for a prompt
 * whose answers wait. Returns 0 for a model without recurrent layers. */
int tri_sampler_states(const tri_model_shape *shape, int64_t max_sequences);
/* Not collective. Plans the cache and the sampler's buffers in the ledger. The model is borrowed. */
TRI_CHECKED tri_status tri_sampler_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_dtype dtype,
                                        const tri_sampler_opt *opt, tri_sampler **out);
void                   tri_sampler_close(tri_sampler **s);
/* The state of a generation and what it did since tri_sampler_begin, on this rank. */
typedef struct tri_sampler_news {
  int64_t queued, running, done; /* answers that wait, run and have ended */
  int64_t want;                  /* further prompts whose answers could all start now, at least one if idle */
  int64_t pages_free;            /* free pages of the cache */
  int64_t preempted;             /* times that an answer gave up its pages and waited again */
  int64_t recomputed;            /* tokens prefilled a second time */
  int64_t row_steps, row_steps_all; /* rows decoded in all steps, and rows there could have been */
  bool    apart; /* this rank failed alone in a step of a model of several ranks. It must not wait for them */
} tri_sampler_news;

/* A generation runs from begin to end. Collective over the parameter scope, because it holds the weights. The
 * options are copied, and the stream is borrowed until end. If it fails there is nothing to end. */
TRI_CHECKED tri_status tri_sampler_begin(tri_sampler *s, const tri_generate_opt *opt, tri_stream *stream);
/* Not collective. Queues n requests behind those added before, each with its prompt, place, sample and n
 * tokens. Those to one prompt come together and name the same tri_prompt. Requests and prompts are borrowed
 * until end. The n tokens are borrowed until the answer starts, and must not lie in the sampler's memory. The
 * tokens of an answer then belong to the sampler, and stay until the next begin. */
TRI_CHECKED tri_status tri_sampler_add(tri_sampler *s, tri_request *const *r, int n);
/* Not collective. Runs at most so many decode steps, and ends when no answer is left. *news may be NULL. The
 * random number behind token t of an answer depends only on (seed, prompt id, sample, t), and rows never
 * depend on each other. So answers depend neither on the other answers nor on the size of the cache. */
TRI_CHECKED tri_status tri_sampler_run(tri_sampler *s, int steps, tri_sampler_news *news);
/* Collective over the parameter scope. Ends the generation, also after an error. Requests that are not DONE
 * keep their tokens. */
TRI_CHECKED tri_status tri_sampler_end(tri_sampler *s);
/* Not collective. The news of the generation in progress or, after its end, of the last one. */
void tri_sampler_tell(const tri_sampler *s, tri_sampler_news *out);

/* Collective over the parameter scope. A generation of `group` answers to each prompt. n_prompt may differ
 * between ranks and may be 0. Fills the empty *out with this rank's answers, ordered by prompt, then by
 * sample. The fields are tokens, old_logp of the answers, and stop. If `halt` ends the generation, *out stays
 * empty. */
TRI_CHECKED tri_status tri_sampler_generate(tri_sampler *s, const tri_prompt *prompt, int n_prompt,
                                            const tri_generate_opt *opt, tri_stream *stream,
                                            tri_rollout *out);

#endif
