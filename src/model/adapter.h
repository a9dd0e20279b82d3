/* adapter.h - the low-rank adapters of a model (family/lora.h): their parameter store and their share of the
 * products. Private to its room.
 *
 * Targets of one product read the same input (q, k, v share one, gate and up another), so they are multiplied
 * together. Their n matrices A are joined to one of [n r,n_in]. Their matrices B are blocks of one matrix
 * [n_out,n r], multiplied by the scale, with 0 beside the blocks. So each product gets two more products of
 * whole rows, in training, prefill and decode alike. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ADAPTER_H
#define TRI_ADAPTER_H

#include "device/memory.h"
#include "family/family.h"
#include "model.h"

struct tri_block_call;

/* The adapters of one product. n is 0 if none of the product's modules is a target. All layers with the
 * product have the same. */
typedef struct tri_adapter_slot {
  int         n;            /* number of targets */
  int64_t     width, n_out; /* n r, and the rows of the product's matrix */
  tri_linear *down, *up;    /* x A^T, t B^T */
  tri_linear *up_part;      /* t B^T with this rank's rows, or NULL (divided.h) */
} tri_adapter_slot;

/* The place of a product's adapters in a layer's unit. */
typedef struct tri_adapter_place {
  int a, b;    /* the first param of A and of B, -1 if the layer has no such adapters */
  int product; /* index of A's product, B's is the next */
} tri_adapter_place;

typedef struct tri_adapters {
  tri_params      *params; /* NULL without adapters */
  tri_unit_spec   *unit;   /* [n_unit] layers, then the scalar head, trained in full */
  int              n_unit;
  tri_unit_spec   *slice; /* [n_unit] with this rank's rows of each B, or NULL (divided.h) */
  tri_adapter_slot slot[TRI_SLOT_HEAD];
  tri_adapter_place (*place)[TRI_SLOT_HEAD]; /* [n_unit] */
  char   label[48];
  void  *t, *dt; /* A [N,width], x A^T and its gradient */
  float *dwide;  /* f32 [n_out,width], gradient of the matrix of blocks */
  int    dt_of;  /* the slot whose dt is computed and needed once more, or -1 */
  bool   off;    /* products are the base model's own */
} tri_adapters;

/* Not collective. Opens the products, units and store of the adapters if the model's options ask for
 * adapters, else does nothing. The model's units must exist. Raises m->workspace_bytes to the need of the
 * products. */
TRI_CHECKED tri_status tri_adapters_open(tri_model *m, tri_comm *const comm[TRI_SCOPE_COUNT],
                                         tri_ledger *ledger);
void                   tri_adapters_close(tri_adapters *a, const tri_kernels *k);
/* Not collective. The products may be used from here on. */
TRI_CHECKED tri_status tri_adapters_start(tri_model *m);
/* Not collective. Runs linear_check on the adapter products of an acquired layer. In a divided call it checks
 * those of this rank's rows. */
TRI_CHECKED tri_status tri_adapters_check(tri_model *m, const struct tri_block_call *c, tri_stream *s);

/* Collective over the parameter scope (the first two) or the gradient scope (the last, with `last` over
 * world). They do for the adapters of c->unit the work of tri_unit_acquire, tri_unit_release and
 * tri_unit_learned. They do nothing if the unit has no adapters. */
TRI_CHECKED tri_status tri_adapter_acquire(tri_model *m, struct tri_block_call *c, int use, int next,
                                           tri_stream *s);
TRI_CHECKED tri_status tri_adapter_release(tri_model *m, const struct tri_block_call *c, tri_stream *s);
TRI_CHECKED tri_status tri_adapter_learned(tri_model *m, const struct tri_block_call *c, bool last,
                                           tri_stream *s);

/* Not collective, all that follow. They do nothing if the slot has no adapter. This one adds the adapters'
 * result for x to y. */
TRI_CHECKED tri_status tri_adapter_fwd(tri_model *m, const struct tri_block_call *c, tri_slot slot, tri_out y,
                                       tri_in x, tri_stream *s);
/* Adds the gradient through the adapters to dx. Call this and the next function once each per product, one
 * after the other. */
TRI_CHECKED tri_status tri_adapter_bwd_x(tri_model *m, const struct tri_block_call *c, tri_slot slot,
                                         tri_out dx, tri_in dy, tri_stream *s);
/* Computes the gradients of A and B, in the manner of tri_product_bwd_w. */
TRI_CHECKED tri_status tri_adapter_bwd_w(tri_model *m, const struct tri_block_call *c, tri_slot slot,
                                         tri_in dy, tri_in x, tri_stream *s);

#endif
