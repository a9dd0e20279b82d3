/* product.h - the matrix products of the model's blocks and heads. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PRODUCT_H
#define TRI_PRODUCT_H

#include "decoder.h"

/* Not collective, all that follow. `slot` names the product of the call's unit. */

/* y = x W^T, plus the product's bias if the family has one, plus base if it is not NULL. base may be y
 * itself. y [N,n_out] is f32 or A, x is A [N,n_in], base has y's type. */
TRI_CHECKED tri_status tri_product_fwd(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out y,
                                       tri_in x, tri_in base, tri_stream *s);
/* dx = dy W, or with `add` dx += dy W. dx A [N,n_in], dy A [N,n_out]. */
TRI_CHECKED tri_status tri_product_bwd_x(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out dx,
                                         tri_in dy, bool add, tri_stream *s);
/* Adds to the gradients of W and its bias, from dy A [N,n_out] and x A [N,n_in]. If c->dw.fresh is set, W's
 * gradient is overwritten. */
TRI_CHECKED tri_status tri_product_bwd_w(tri_model *m, const tri_block_call *c, tri_slot slot, tri_in dy,
                                         tri_in x, tri_stream *s);

#endif
