/* recurrent.h - the recurrent part of a layer, a gated delta net, in place of attention. Private to its
 * room.
 *
 * Training, prefill and decode call the same kernels, row by row in the order of a sequence. Prefill and
 * decode go on from the states of the cache and leave new ones there. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RECURRENT_H
#define TRI_RECURRENT_H

#include "decoder.h"

static inline bool tri_call_recurs(const tri_model *m, const tri_block_call *c) {
  return tri_is_recurrent(&m->shape, tri_layer_of(c->unit));
}

/* Not collective. Makes *y, a view A [N,Hv*Dv], the input of the layer's product DELTA_OUT, from the
 * layer's normed input h A [N,C]. It is valid until the mlp begins. */
TRI_CHECKED tri_status tri_recurrent_forward(tri_model *m, const tri_block_call *c, tri_in h, tri_tensor *y,
                                             tri_stream *s);
/* The gradients of the results of DELTA_QKV, DELTA_Z and DELTA_BA. */
typedef struct tri_recurrent_grads {
  tri_tensor mix, z, ba;
} tri_recurrent_grads;
/* Not collective. Makes *d views of these gradients from dout A [N,C], the gradient of DELTA_OUT's
 * result. Adds to the gradients of DELTA_OUT and of the layer's other recurrent tensors. */
TRI_CHECKED tri_status tri_recurrent_backward(tri_model *m, const tri_block_call *c, tri_in dout,
                                              tri_recurrent_grads *d, tri_stream *s);

#endif
