/* request_memory.h - memory for the tokens of requests. Each answer on its way has space for its full length,
 * and answers that have ended are packed. Private to its room. Not collective, all that follow, unless they
 * say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REQUEST_MEMORY_H
#define TRI_REQUEST_MEMORY_H

#include "device/memory.h"
#include "request.h"

typedef struct tri_request_memory tri_request_memory;

/* Plans memory in the ledger for max_open answers on their way and max_answers in all, each of up to max_new
 * tokens. With max_answers 0 it takes any number, and allocates memory as answers end. */
TRI_CHECKED tri_status tri_request_memory_open(tri_ledger *ledger, int max_open, int64_t max_answers,
                                               int64_t max_new, tri_request_memory **out);
void                   tri_request_memory_close(tri_request_memory **m);
/* Forgets all tokens and begins anew. */
void tri_request_memory_begin(tri_request_memory *m);
/* Returns whether the request has space for its full length. */
bool tri_request_memory_has(const tri_request_memory *m, const tri_request *r);
/* Gives the request space for its full length and moves its tokens there, if it has none yet. At most
 * max_open requests may have such space. */
void tri_request_memory_take(tri_request_memory *m, tri_request *r);
/* Moves the tokens of an answer that has ended to packed memory, and takes its space back. */
TRI_CHECKED tri_status tri_request_memory_pack(tri_request_memory *m, tri_request *r);
/* Planned memory for a list of requests: requests and pointers to them [max_answers]. NULL if max_answers is
 * 0. */
tri_request  *tri_request_memory_list(const tri_request_memory *m);
tri_request **tri_request_memory_queue(const tri_request_memory *m);

/* Fills the empty *out with n answers behind their prompts, in this order, `group` answers per prompt. */
TRI_CHECKED tri_status tri_request_collect(const tri_request *r, int n, int group, tri_rollout *out);

#endif
