/* product.h - the one door from the model's blocks to its products. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PRODUCT_H
#define TRI_PRODUCT_H

#include "decoder.h"

/* Not collective, all that follow. `slot`: which product of the call's unit. */

/* y = x W^T, plus its bias where the family has one, plus base where that is not NULL (and maybe y itself).
 * y [N,n_out] f32 or A, x A [N,n_in], base of y's type. */
TRI_CHECKED tri_status tri_product_fwd(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out y,
                                       tri_in x, tri_in base, tri_stream *s);
/* dx = dy W. dx A [N,n_in], dy A [N,n_out]. */
TRI_CHECKED tri_status tri_product_bwd_x(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out dx,
                                         tri_in dy, tri_stream *s);
/* The gradients of W and its bias += those of dy A [N,n_out] and x A [N,n_in]; W's is overwritten where
 * c->dw.fresh. */
TRI_CHECKED tri_status tri_product_bwd_w(tri_model *m, const tri_block_call *c, tri_slot slot, tri_in dy,
                                         tri_in x, tri_stream *s);

#endif
