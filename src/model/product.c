/* product.c - the matrix products of the model's blocks and heads. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "product.h"

static int which(const tri_model *m, const tri_block_call *c, tri_slot slot) {
  return m->slots[c->unit].product[slot];
}

/* Returns whether the weights are the adapters' own. A head trained beside adapters is in their store. */
static bool is_theirs(const tri_block_call *c, tri_slot slot) { return slot == TRI_SLOT_HEAD && c->a.t; }

/* Returns the fused bias of a product, [n], or NULL. Recurrent products and the head have none. */
static const tri_tensor *bias_of(const tri_model *m, const tri_block_call *c, const tri_weights *w,
                                 tri_slot slot, int64_t n, tri_tensor *view) {
  int first = slot > TRI_SLOT_DOWN ? -1 : m->slots[c->unit].param[slot + TRI_SLOT_PRODUCTS];

  if (first < 0) return NULL;
  *view = tri_view1(w->t[first].data, w->t[first].dtype, n);
  return view;
}

tri_status tri_product_fwd(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out y, tri_in x,
                           tri_in base, tri_stream *s) {
  const void *w = is_theirs(c, slot) ? c->a.packed_fwd[0] : c->w.packed_fwd[which(m, c, slot)];
  tri_tensor  view;

  TRI_TRY(m->k->linear_fwd(s, (tri_is_divided(m, c) ? m->divided.linear : m->linear)[slot], w, y, x,
                           bias_of(m, c, &c->w, slot, y->dim[1], &view), base));
  return tri_adapter_fwd(m, c, slot, y, x, s);
}

tri_status tri_product_bwd_x(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out dx, tri_in dy,
                             bool add, tri_stream *s) {
  const void *w = is_theirs(c, slot) ? c->a.packed_bwd[0] : c->w.packed_bwd[which(m, c, slot)];

  TRI_TRY(m->k->linear_bwd_x(s, m->linear[slot], w, dx, dy, add));
  return tri_adapter_bwd_x(m, c, slot, dx, dy, s);
}

tri_status tri_product_bwd_w(tri_model *m, const tri_block_call *c, tri_slot slot, tri_in dy, tri_in x,
                             tri_stream *s) {
  const tri_weights *to = is_theirs(c, slot) ? &c->da : &c->dw;
  tri_tensor         view, dw;

  if (!to->t) return tri_adapter_bwd_w(m, c, slot, dy, x, s); /* the weights are frozen */
  dw =
      tri_view2(to->t[to == &c->da ? 0 : m->slots[c->unit].param[slot]].data, TRI_F32, dy->dim[1], x->dim[1]);
  if (to == &c->dw && bias_of(m, c, to, slot, dy->dim[1], &view)) TRI_TRY(m->k->colsum(s, &view, dy));
  return m->k->linear_bwd_w(s, m->linear[slot], &dw, dy, x, !to->fresh);
}
