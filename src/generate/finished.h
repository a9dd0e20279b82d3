/* finished.h - the answers of one generation, kept as they end. Private to its room. Not collective, all that
 * follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FINISHED_H
#define TRI_FINISHED_H

#include "sampler.h"

typedef struct tri_finished tri_finished;

/* Plans memory in the ledger for max_answers answers of up to max_new tokens. With max_answers 0 it takes any
 * number and allocates memory as answers come. */
TRI_CHECKED tri_status tri_finished_open(tri_ledger *ledger, int64_t max_answers, int64_t max_new,
                                         tri_finished **out);
void                   tri_finished_close(tri_finished **f);
/* Begins a generation of n answers. Fails with TRI_EINTERNAL if fewer were planned. */
TRI_CHECKED tri_status tri_finished_begin(tri_finished *f, int64_t n);
/* Keeps answer i, with n tokens and their log-probabilities. Sets *kept to the kept copy of the tokens. */
TRI_CHECKED tri_status tri_finished_add(tri_finished *f, int64_t i, const int32_t *token, const float *logp,
                                        int64_t n, tri_stop_reason why, const int32_t **kept);
/* Fills the empty *out with all answers behind their prompts, `group` answers per prompt. */
TRI_CHECKED tri_status tri_finished_collect(const tri_finished *f, const tri_prompt *prompt, int group,
                                            tri_rollout *out);
/* Ends a generation and drops its answers. */
void tri_finished_end(tri_finished *f);

#endif
