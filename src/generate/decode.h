/* decode.h - decode steps: their arrays, the model's forward pass and the draw of tokens. On a GPU the next
 * step is launched before the host knows the tokens of the last one. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DECODE_H
#define TRI_DECODE_H

#include "model/model.h"

/* The arrays of a staged step, in turns 0 and 1. They are pinned host memory, borrowed until tri_decode_step.
 * At first every row is idle: its drawn token is unused and it leaves the cache with its states as it is. */
typedef struct tri_decode_rows {
  int64_t *key;  /* [B,3] prompt, answer and position, the key of the random number */
  int32_t *from; /* [B] index in the step before of the row to continue, or -1 to take `token` */
  int32_t *token, *pos, *slot, *len; /* [B] as in tri_batch. slot's page becomes the page of pos */
  int32_t *state, *fresh; /* [B] as in tri_batch. Models without recurrent layers do not read them */
  int      turn;
} tri_decode_rows;

/* The result of a step. It is borrowed until as many steps are staged as may be in flight. */
typedef struct tri_decode_drawn {
  const int32_t *token; /* [B] */
  const float   *logp;  /* [B] nats, NaN if the logits are no distribution */
  int            turn;  /* the step's turn */
} tri_decode_drawn;

typedef struct tri_decode tri_decode;
/* Not collective, nor are the others except tri_decode_step. Plans the arrays in the ledger, for steps of up
 * to max_rows rows and max_pages pages per row. max_rows must not exceed the model's max_tokens and max_rows.
 * Model and cache are borrowed. */
TRI_CHECKED tri_status tri_decode_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_kv *kv,
                                       int64_t max_rows, int64_t max_pages, tri_decode **out);
void                   tri_decode_close(tri_decode **d);
/* Not collective. Call it before the first step of a generation. It leaves all rows without pages. */
TRI_CHECKED tri_status tri_decode_begin(tri_decode *d, tri_stream *s);
/* Not collective. Sets the first n pages of a row for the steps to come. `page` is pinned memory and must not
 * change until such a step is taken. */
TRI_CHECKED tri_status tri_decode_seat(tri_decode *d, int64_t row, const int32_t *page, int64_t n,
                                       tri_stream *s);
/* Not collective. Gives row `to` of the steps to come the n pages of row `from`. */
TRI_CHECKED tri_status tri_decode_move(tri_decode *d, int64_t to, int64_t from, int64_t n, tri_stream *s);
/* Pure. Returns whether a step may be launched before one is taken. A GPU runs one step while the host reads
 * the results of the step before. The host's own cores run none ahead. */
bool tri_decode_may_give(const tri_decode *d);
/* Not collective. Prepares the arrays of a step of B rows, 1 <= B <= max_rows. tri_decode_may_give must be
 * true. */
void tri_decode_stage(tri_decode *d, int64_t B, tri_decode_rows *out);
/* Collective over the parameter scope unless the parameters are held. Launches the staged step in the stream.
 * A recorded step serves only its own `rule` and weights at the same addresses. Call tri_decode_end before
 * using others. */
TRI_CHECKED tri_status tri_decode_step(tri_decode *d, const tri_sample_rule *rule, tri_stream *s);
/* Not collective. The host waits for the oldest step launched and not taken. There must be one. */
TRI_CHECKED tri_status tri_decode_take(tri_decode *d, tri_decode_drawn *out);
/* Not collective. Ends a generation. Waits for steps in flight and drops them and all recorded steps. */
TRI_CHECKED tri_status tri_decode_end(tri_decode *d, tri_stream *s);

#endif
