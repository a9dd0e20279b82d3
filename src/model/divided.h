/* divided.h - a model that several ranks of a node generate with together. Private to its room.
 *
 * The ranks are those of TRI_TENSOR, t of them. In y = x W^T, rank i has rows i n / t to (i + 1) n / t of
 * each matrix W [n,k], and so the same columns of y. Each column is a whole dot product, so no sum crosses
 * ranks, and y has the bits of a model on one rank (tri_linear_spec.whole). A rank has H / t heads, with
 * their part of the cache. The ranks gather the input of the products O and DOWN and the results of O, DOWN
 * and HEAD.
 *
 * Only prefill and decode are divided, while the weights are held. Training, scoring and files do not know of
 * it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DIVIDED_H
#define TRI_DIVIDED_H

#include "device/memory.h"
#include "family/family.h"
#include "model.h"

struct tri_block_call;

typedef struct tri_divided {
  int            t, i;  /* ranks that hold the model, and this rank's number. t 1: undivided */
  tri_comm      *comm;  /* TRI_TENSOR, borrowed */
  tri_unit_spec *slice; /* [n_unit] the units with this rank's rows, or NULL */
  tri_linear    *linear[TRI_SLOT_PRODUCTS]; /* products with this rank's rows */
  tri_attn_rule  attn[TRI_KINDS];           /* with this rank's heads */
  void          *mine, *all; /* this rank's columns, and those of all ranks, one rank after the other */
} tri_divided;

/* Not collective. Opens the products and slices if the model generates and place.tensor is above 1, else does
 * nothing. The model's units must exist. TRI_ECONFIG: the model cannot be divided so, by name. */
TRI_CHECKED tri_status tri_divided_open(tri_model *m, tri_comm *const comm[TRI_SCOPE_COUNT]);
/* Not collective. Plans the memory of gathers, after the head's. */
TRI_CHECKED tri_status tri_divided_plan(tri_model *m, tri_ledger *l);
void                   tri_divided_close(tri_model *m);

/* Collective over TRI_TENSOR, in stream s. y [M,W] = the columns `mine` [M,w] of all ranks (join_cols). They
 * may begin at the same address. */
TRI_CHECKED tri_status tri_divided_whole(tri_model *m, tri_out y, tri_in mine, tri_stream *s);
/* Collective over TRI_TENSOR. y f32 [M,n] = base + the product in this slot of x [M,k], all of it on every
 * rank. base may be NULL or y. */
TRI_CHECKED tri_status tri_divided_product(tri_model *m, const struct tri_block_call *c, tri_slot slot,
                                           tri_out y, tri_in x, tri_in base, tri_stream *s);

#endif
