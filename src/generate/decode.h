/* decode.h - one decode step: its arrays in one block, the model, the draw; on a GPU, steps recorded and run
 * again. Private to its room. */
#ifndef TRI_DECODE_H
#define TRI_DECODE_H

#include "model/model.h"

/* The B rows of one step, pinned host memory, borrowed until the next tri_decode_stage. Those below `drawn`
 * are to be filled; drawn and logp are there after tri_decode_step. */
typedef struct tri_decode_rows {
  int64_t       *key;                      /* [B,3] prompt, answer, position: keys the random number */
  int32_t       *token, *pos, *slot, *len; /* [B] as in tri_batch */
  int32_t       *table;                    /* [B,P] pages of the row in order; behind its last page 0 */
  int64_t        P;
  const int32_t *drawn; /* [B] */
  const float   *logp;  /* [B] nats; NaN: the logits are no distribution */
} tri_decode_rows;

typedef struct tri_decode tri_decode;
/* Not collective, nor are the others but tri_decode_step. Plans the arrays in the ledger, for steps of up to
 * max_rows rows (no more than the model's max_tokens and max_rows) and max_pages pages a row. Model and cache
 * are borrowed. */
TRI_CHECKED tri_status tri_decode_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_kv *kv,
                                       int64_t max_rows, int64_t max_pages, tri_decode **out);
void                   tri_decode_close(tri_decode **d);
/* Room for a step of B rows, 1 <= B <= max_rows, that have at most P pages each. out->P may be more than
 * P. */
void tri_decode_stage(tri_decode *d, int64_t B, int64_t P, tri_decode_rows *out);
/* Collective over the parameter scope unless the parameters are held. Decodes the staged rows; the host
 * waits. A step recorded for one `rule` and one place of the weights serves these only: tri_decode_forget
 * comes before others. */
TRI_CHECKED tri_status tri_decode_step(tri_decode *d, const tri_sample_rule *rule, tri_stream *s);
/* Gives recorded steps up. */
void tri_decode_forget(tri_decode *d);

#endif
