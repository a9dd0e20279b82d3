/* adapter.h - the low-rank adapters of a model (family/lora.h): their own store of parameters, and what they
 * add to its products. Private to its room.
 *
 * The targets of one product that read the same input (q, k, v; gate, up) are multiplied together: n matrices
 * A joined to [n r,n_in], their B as blocks of one matrix [n_out,n r] times the scale, 0 beside them. So each
 * product has two more, of whole rows, in training, prefill and decode alike. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ADAPTER_H
#define TRI_ADAPTER_H

#include "device/memory.h"
#include "family/family.h"
#include "model.h"

struct tri_block_call;

/* What the adapters of one product are; n 0: none of its modules is a target. */
typedef struct tri_adapter_slot {
  int         n;            /* targets */
  int         a, b;         /* the first param of A, of B, in a layer's unit */
  int         product;      /* which of the unit's products A is; B is the next */
  int64_t     width, n_out; /* n r; rows of the product's matrix */
  tri_linear *down, *up;    /* x A^T, t B^T */
} tri_adapter_slot;

typedef struct tri_adapters {
  tri_params      *params; /* NULL: there are none */
  tri_unit_spec   *unit;   /* [n_unit]: layers; then a scalar head, which is trained in full */
  int              n_unit;
  tri_adapter_slot slot[TRI_SLOT_HEAD];
  char             label[48];
  void            *t, *dt; /* A [N,width]: x A^T, and its gradient */
  float           *dwide;  /* f32 [n_out,width]: of the matrix of blocks */
  int              dt_of;  /* the slot whose dt is there and wanted once more; -1: none */
  bool             off;    /* products are the base's own */
} tri_adapters;

/* Not collective. Opens products, units and store, of a model whose units are made, where its options ask for
 * adapters; else nothing. workspace_bytes: raised to what the products need. */
TRI_CHECKED tri_status tri_adapters_open(tri_model *m, tri_comm *const comm[TRI_SCOPE_COUNT],
                                         tri_ledger *ledger);
void                   tri_adapters_close(tri_adapters *a, const tri_kernels *k);
/* Not collective. The products may be used from here on. */
TRI_CHECKED tri_status tri_adapters_start(tri_model *m);
/* Not collective. As linear_check, of the products of an acquired layer. */
TRI_CHECKED tri_status tri_adapters_check(tri_model *m, const struct tri_block_call *c, tri_stream *s);

/* Collective over the parameter scope, these two; the gradient scope, the last. What the adapters have of
 * c->unit, beside what the model has (tri_unit_acquire, ...); nothing where they have none of it. */
TRI_CHECKED tri_status tri_adapter_acquire(tri_model *m, struct tri_block_call *c, int use, int next,
                                           tri_stream *s);
TRI_CHECKED tri_status tri_adapter_release(tri_model *m, const struct tri_block_call *c, tri_stream *s);
TRI_CHECKED tri_status tri_adapter_learned(tri_model *m, const struct tri_block_call *c, bool last,
                                           tri_stream *s);

/* Not collective, all that follow; nothing where the slot has no adapter. y += what they make of x. */
TRI_CHECKED tri_status tri_adapter_fwd(tri_model *m, const struct tri_block_call *c, tri_slot slot, tri_out y,
                                       tri_in x, tri_stream *s);
/* dx += through them. This and the next are called once each for a product, one after the other. */
TRI_CHECKED tri_status tri_adapter_bwd_x(tri_model *m, const struct tri_block_call *c, tri_slot slot,
                                         tri_out dx, tri_in dy, tri_stream *s);
/* The gradients of A and B, as tri_product_bwd_w. */
TRI_CHECKED tri_status tri_adapter_bwd_w(tri_model *m, const struct tri_block_call *c, tri_slot slot,
                                         tri_in dy, tri_in x, tri_stream *s);

#endif
