/* request.h - a request: an answer on its way, and everything known about it, wherever it is. Host memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REQUEST_H
#define TRI_REQUEST_H

#include "rollout/rollout.h"

typedef struct tri_prompt {
  int64_t        id;    /* line of the prompt file, part of the key of the random numbers */
  const int32_t *token; /* [n_token], borrowed, at least one */
  int            n_token;
} tri_prompt;

/* QUEUED waits and has no pages of the cache. RUNS takes part in every decode step. PARKED has pages but
 * takes part in no step. DONE has ended. */
typedef enum { TRI_REQUEST_QUEUED, TRI_REQUEST_RUNS, TRI_REQUEST_PARKED, TRI_REQUEST_DONE } tri_request_state;

typedef struct tri_request {
  const tri_prompt *prompt; /* borrowed until the generation ends */
  int               place;  /* number of the prompt in the step */
  int               sample; /* number of the answer to its prompt. Prompt id, sample and n key the draws */
  /* The tokens so far, without the prompt, with their log-probabilities in nats (NaN if given) and marks. */
  int32_t          *token;
  float            *logp;
  uint8_t          *mark;
  int64_t           n;      /* tokens so far */
  int64_t           cached; /* tokens, the prompt's too, that have entered the cache in this generation */
  tri_request_state state;
  tri_stop_reason   stop; /* once DONE */
} tri_request;

#endif
