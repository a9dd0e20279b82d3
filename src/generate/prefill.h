/* prefill.h - brings known tokens into the cache, many sequences in one forward pass. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PREFILL_H
#define TRI_PREFILL_H

#include "model/model.h"
#include "request.h"

typedef struct tri_prefill tri_prefill;

/* Not collective. Plans the arrays of passes of up to max_tokens tokens in up to
 * max_sequences sequences. Model and cache are borrowed. */
TRI_CHECKED tri_status tri_prefill_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_kv *kv,
                                        int64_t max_tokens, int max_sequences, tri_prefill **out);
void                   tri_prefill_close(tri_prefill **p);
/* Not collective. Call it before the first tokens of a generation. */
TRI_CHECKED tri_status tri_prefill_begin(tri_prefill *p);
/* Collective over the parameter scope unless the parameters are held. Stages the first
 * n tokens of the request, its prompt and then its answer. Token i goes to page[i / TRI_PAGE]. The pages
 * before `written` hold theirs already, so those tokens are computed and written nowhere. Recurrent layers
 * begin at zero and leave their state after the n tokens in state `state`. It is -1 in a model without such
 * layers. A full pass is launched first. */
TRI_CHECKED tri_status tri_prefill_add(tri_prefill *p, const tri_request *r, int64_t n, const int32_t *page,
                                       int64_t written, int32_t state, tri_stream *s);
/* Collective over the parameter scope unless the parameters are held. Launches a pass over the staged tokens,
 * if there are any. */
TRI_CHECKED tri_status tri_prefill_run(tri_prefill *p, tri_stream *s);

#endif
