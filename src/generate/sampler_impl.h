/* sampler_impl.h - the sampler's state: its queue, its decode rows and the prompts in its cache. Private to
 * its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SAMPLER_IMPL_H
#define TRI_SAMPLER_IMPL_H

#include "decode.h"
#include "model/kv.h"
#include "prefill.h"
#include "request_memory.h"
#include "sampler.h"
#include "schedule.h"

/* A prompt in the cache, shared by answers to it. */
typedef struct tri_prefix {
  const tri_prompt *prompt; /* NULL if unused */
  int32_t          *page;   /* [pages_each] the prompt's full pages, then the last one while it is kept */
  int               n_row;  /* rows that hold the full pages */
  bool              kept;   /* the prefix itself holds all its pages and a state, for answers that wait */
  int32_t           state;  /* of recurrent layers after all tokens but the last, -1 if there is none */
  int64_t           order;  /* queue index of the newest answer that started with it */
} tri_prefix;

/* One decode row, an answer that runs. */
typedef struct tri_row {
  tri_request *request;
  int64_t      order;     /* its index in the queue */
  int64_t      given;     /* tokens so far plus those of steps in flight */
  int32_t      next;      /* first token to enter the cache */
  int          at[2];     /* its row in the last step of each turn, -1 if it had none */
  int32_t     *page;      /* [pages_each] pinned */
  int          n_page;    /* pages it holds */
  int32_t      copy_from; /* page to copy to its last page when it starts, or -1 */
  int32_t      state;     /* its state of recurrent layers, -1 in a model without */
  int32_t      begins_as; /* state to copy to its own when it starts, or -1 */
  tri_prefix  *prefix;    /* the prompt whose full pages it shares, or NULL */
} tri_row;

struct tri_sampler {
  tri_device         *device; /* borrowed */
  tri_model          *model;  /* borrowed */
  tri_kv             *kv;
  tri_decode         *decode;
  tri_prefill        *prefill;
  tri_request_memory *memory;
  tri_sampler_opt     opt;
  int64_t             pages_each, pages; /* pages of the longest sequence, and of the cache */
  int                 states;            /* states of recurrent layers in the cache */
  int32_t            *page_space;        /* [2 * max_sequences + 1,pages_each] pinned */
  tri_seat           *seat;              /* [2 * max_sequences + 2] for a choice */
  /* the generation in progress */
  tri_stream      *stream; /* borrowed */
  tri_generate_opt gen;
  tri_request    **queue; /* [n_queue] all requests in the order in which they were added */
  int64_t          queue_cap, n_queue, n_done;
  int64_t          waits; /* index of the oldest one that waits, or n_queue */
  int              n_row;
  tri_row         *row;    /* [max_sequences] */
  tri_prefix      *prefix; /* [max_sequences+1] */
  tri_event       *seated; /* the page lists of rows that gave up have reached the device */
  bool             gave_up;
  bool             apart;                                           /* as in tri_sampler_news */
  int64_t          preempted, recomputed, row_steps, row_steps_all; /* as in tri_sampler_news */
};

/* sampler.c. tri_sampler_begin in two parts. Collective over the parameter scope. Gets the weights. A
 * rank that fails ends the generation only if all ranks do. */
TRI_CHECKED tri_status tri_sampler_hold(tri_sampler *s, const tri_generate_opt *gen, tri_stream *stream);
/* Not collective. Prepares a generation while the weights are held. The caller ends it, also after an
 * error. */
TRI_CHECKED tri_status tri_sampler_prepare(tri_sampler *s);

#endif
