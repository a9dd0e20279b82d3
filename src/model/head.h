/* head.h - the head's buffers and its kinds, for the work behind the last block on the K chosen rows. Private
 * to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HEAD_H
#define TRI_HEAD_H

#include "device/memory.h"
#include "model.h"

struct tri_block_call;
struct tri_head_ops;

typedef struct tri_head {
  const struct tri_head_ops *ops;
  void                      *xs;        /* f32 [K,C], the chosen rows of the last block's result */
  void                      *hs, *rstd; /* A [K,C] normed, f32 [K] */
  void                      *dxs, *dhs; /* f32 [K,C], A [K,C] */
  /* A head of tokens holds logits of `chunk` rows at once, and of `draw_chunk` rows when it draws tokens. */
  int64_t chunk, draw_chunk;
  int64_t kept_rows;                       /* rows with logits still in `logits`, or 0 */
  void   *logits, *dlogits;                /* f32, A [chunk,V] */
  void   *logp, *ent, *lse;                /* f32 [K] */
  void   *drawn, *draw_logits, *draw_work; /* i32 [K], f32 [draw_chunk,V], f32 [draw_chunk,2V] */
  void   *dscaled; /* f32 [2,K], if logits are scaled, the gradients of logp and ent by the unscaled logits */
  void   *value, *dvalue; /* f32 [K], A [K], of a scalar head */
} tri_head;

/* The functions of a kind of head. Not collective, all of them. c is the acquired unit of TRI_SLOT_HEAD. */
typedef struct tri_head_ops {
  int64_t (*n_out)(const tri_model *m); /* rows of its matrix */
  tri_status (*plan)(tri_model *m, tri_ledger *l);
  /* Computes *out from the normed rows head.hs. */
  tri_status (*forward)(tri_model *m, const struct tri_block_call *c, float inv_temperature,
                        tri_rows_out *out, tri_stream *s);
  /* Overwrites head.dhs and computes the gradient of the matrix. */
  tri_status (*backward)(tri_model *m, struct tri_block_call *c, const tri_rows_out *d, float inv_temperature,
                         tri_stream *s);
  /* Draws tokens from the normed rows. NULL if this head has no tokens. */
  tri_status (*sample)(tri_model *m, const struct tri_block_call *c, const tri_tensor *key,
                       const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp, tri_stream *s);
} tri_head_ops;
extern const tri_head_ops tri_head_tokens, tri_head_scalar; /* head_tokens.c, head_scalar.c */

/* head.c. Not collective. Plans the buffers of every head and those of its kind, head.ops, in the ledger. */
TRI_CHECKED tri_status tri_head_plan(tri_model *m, tri_ledger *l);
/* Collective over the parameter scope. Reads m->x, the last block's result. Otherwise as
 * tri_model_forward. */
TRI_CHECKED tri_status tri_head_forward(tri_model *m, const tri_batch *b, float inv_temperature,
                                        tri_rows_out *out, tri_stream *s);
/* Collective over the parameter and gradient scopes, with `last` over world. Leaves the gradient of m->x in
 * m->back.dx. */
TRI_CHECKED tri_status tri_head_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d,
                                         float inv_temperature, bool last, tri_stream *s);
/* Collective over the parameter scope. As tri_model_decode. */
TRI_CHECKED tri_status tri_head_sample(tri_model *m, const tri_batch *b, const tri_tensor *key,
                                       const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp,
                                       tri_stream *s);
/* Not collective. Plans one more buffer of the head. The kinds call it. */
TRI_CHECKED tri_status tri_head_workspace(tri_ledger *l, tri_phase phase, const char *name, size_t bytes,
                                          void **where);

#endif
