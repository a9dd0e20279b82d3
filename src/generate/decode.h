/* decode.h - decode steps: their arrays, the model, the draw; on a GPU, the next one given before the last
 * one's tokens are known to the host. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DECODE_H
#define TRI_DECODE_H

#include "model/model.h"

/* Of a step that is staged, in turns 0 and 1. The arrays are pinned host memory, borrowed until
 * tri_decode_step; at first every row is idle: it draws what nobody wants and leaves the cache as it is. */
typedef struct tri_decode_rows {
  int64_t *key;  /* [B,3] prompt, answer, position: keys the random number */
  int32_t *from; /* [B] the row's own in the step before, whose token it goes on with; -1: it takes `token` */
  int32_t *token, *pos, *slot, *len; /* [B] as in tri_batch; the page of pos is slot's from now on */
  int      turn;
} tri_decode_rows;

/* What a step drew; borrowed until as many steps are staged as may be under way. */
typedef struct tri_decode_drawn {
  const int32_t *token; /* [B] */
  const float   *logp;  /* [B] nats; NaN: the logits are no distribution */
  int            turn;  /* of the step */
} tri_decode_drawn;

typedef struct tri_decode tri_decode;
/* Not collective, nor are the others but tri_decode_step. Plans the arrays in the ledger, for steps of up to
 * max_rows rows (no more than the model's max_tokens and max_rows) and max_pages pages a row. Model and cache
 * are borrowed. */
TRI_CHECKED tri_status tri_decode_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_kv *kv,
                                       int64_t max_rows, int64_t max_pages, tri_decode **out);
void                   tri_decode_close(tri_decode **d);
/* Not collective. Before the first step of a generation. No row has pages. */
TRI_CHECKED tri_status tri_decode_begin(tri_decode *d, tri_stream *s);
/* Not collective. The first n pages of a row of the steps to come; page: pinned, and as it is until such a
 * step is taken. */
TRI_CHECKED tri_status tri_decode_seat(tri_decode *d, int64_t row, const int32_t *page, int64_t n,
                                       tri_stream *s);
/* Not collective. Row `to` of the steps to come has the n pages that row `from` has. */
TRI_CHECKED tri_status tri_decode_move(tri_decode *d, int64_t to, int64_t from, int64_t n, tri_stream *s);
/* Pure. Whether a step may be given, or one must be taken first: a GPU has one under way while the host looks
 * at what the one before drew, the host's own cores none. */
bool tri_decode_may_give(const tri_decode *d);
/* Not collective. Space for a step of B rows, 1 <= B <= max_rows. One may be given. */
void tri_decode_stage(tri_decode *d, int64_t B, tri_decode_rows *out);
/* Collective over the parameter scope unless the parameters are held. Gives the staged step to the stream. A
 * step recorded for one `rule` and one place of the weights serves these only: tri_decode_end comes before
 * others. */
TRI_CHECKED tri_status tri_decode_step(tri_decode *d, const tri_sample_rule *rule, tri_stream *s);
/* Not collective. The host waits for the first step that was given and not taken; there is one. */
TRI_CHECKED tri_status tri_decode_take(tri_decode *d, tri_decode_drawn *out);
/* Not collective. The end of a generation: waits for what is under way, gives it and recorded steps up. */
TRI_CHECKED tri_status tri_decode_end(tri_decode *d, tri_stream *s);

#endif
