/* decoder_norms.c - the norms that not all families have: before products, of heads of q and k, and of
 * results before they join the residual stream. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decoder.h"

tri_status tri_pre_norm_forward(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in x, tri_tensor *h,
                                tri_stream *s) {
  tri_tensor rstd = tri_view1(m->rstd, TRI_F32, x->dim[0]);

  *h = tri_rows_act(m, m->h, x->dim[0], m->shape.C);
  if (tri_unit_has(m, c, norm))
    return m->k->rmsnorm_fwd(s, h, &rstd, x, tri_weight_at(m, c, norm), NULL, &m->rules.norm);
  if (m->opt.dtype != TRI_F32) return m->k->cast(s, h, x);
  *h = *x;
  return TRI_OK;
}

tri_status tri_pre_norm_backward(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in x, tri_in dh,
                                 tri_stream *s) {
  int64_t    n = x->dim[0], C = m->shape.C;
  tri_tensor dx = tri_rows_f32(m->back.dx, n, C), rstd = tri_view1(m->rstd, TRI_F32, n), dw, more = *dh;

  if (tri_unit_has(m, c, norm))
    return m->k->rmsnorm_bwd(s, &dx, tri_grad_at(m, c, norm, &dw), dh, x, tri_weight_at(m, c, norm), &rstd,
                             &m->rules.norm);
  if (m->opt.dtype != TRI_F32) { /* such families have post-norms and so this buffer, free by now */
    more = tri_rows_f32(m->back.dpost, n, C);
    TRI_TRY(m->k->cast(s, &more, dh));
  }
  return m->k->axpby(s, &dx, 1.0f, &more, 1.0f);
}

int64_t tri_heads_normed(const tri_model *m) {
  int unit, q, k;

  if (!tri_layers_have(m, TRI_SLOT_Q_NORM)) return 0;
  unit = tri_unit_of_layer(m->layer_with[TRI_SLOT_Q_NORM]);
  q = m->slots[unit].param[TRI_SLOT_Q_NORM];
  k = m->slots[unit].param[TRI_SLOT_K_NORM];
  if (tri_norms_whole(tri_heads_of(m), m->unit[unit].param[q].dim[0], m->unit[unit].param[k].dim[0]))
    return 2;
  return m->shape.H + m->shape.G;
}

tri_status tri_heads_forward(tri_model *m, const tri_block_call *c, tri_out qkv, tri_stream *s) {
  int64_t    n = qkv->dim[0];
  tri_tensor raw = tri_rows_act(m, c->acts->raw, n, (int64_t)(m->shape.H + m->shape.G) * m->shape.D),
             rstd = tri_rows_f32(c->acts->heads_rstd, n, tri_heads_normed(m));
  bool keep = c->acts->raw != NULL;

  return m->k->head_norm_fwd(s, qkv, keep ? &raw : NULL, keep ? &rstd : NULL,
                             tri_weight_at(m, c, TRI_SLOT_Q_NORM), tri_weight_at(m, c, TRI_SLOT_K_NORM),
                             &tri_rule_at(m, c)->heads, &m->rules.norm);
}

tri_status tri_heads_backward(tri_model *m, const tri_block_call *c, tri_out dqkv, tri_stream *s) {
  int64_t    n = dqkv->dim[0];
  tri_tensor raw = tri_rows_act(m, c->acts->raw, n, (int64_t)(m->shape.H + m->shape.G) * m->shape.D),
             rstd = tri_rows_f32(c->acts->heads_rstd, n, tri_heads_normed(m));
  tri_tensor dwq, dwk;

  return m->k->head_norm_bwd(s, dqkv, tri_grad_at(m, c, TRI_SLOT_Q_NORM, &dwq),
                             tri_grad_at(m, c, TRI_SLOT_K_NORM, &dwk), &raw, &rstd,
                             tri_weight_at(m, c, TRI_SLOT_Q_NORM), tri_weight_at(m, c, TRI_SLOT_K_NORM),
                             tri_heads_of(m), &m->rules.norm);
}

tri_status tri_post_norm_forward(tri_model *m, const tri_block_call *c, tri_slot post, tri_in inner,
                                 tri_out y, tri_in base, tri_stream *s) {
  tri_tensor rstd = tri_view1(m->rstd, TRI_F32, inner->dim[0]);

  return m->k->rmsnorm_fwd(s, y, &rstd, inner, tri_weight_at(m, c, post), base, &m->rules.norm);
}

tri_status tri_post_norm_backward(tri_model *m, const tri_block_call *c, tri_slot post, void *inner,
                                  tri_tensor *d, tri_stream *s) {
  int64_t    n = d->dim[0], C = m->shape.C;
  tri_tensor z = tri_rows_f32(inner, n, C), dz = tri_rows_f32(m->back.dpost, n, C);
  tri_tensor h = tri_rows_act(m, m->h, n, C), rstd = tri_view1(m->rstd, TRI_F32, n), dw;

  TRI_TRY(
      m->k->rmsnorm_fwd(s, &h, &rstd, &z, tri_weight_at(m, c, post), NULL, &m->rules.norm)); /* for rstd */
  TRI_TRY(m->device->ops->fill(s, dz.data, 0, (size_t)(n * C) * 4));
  TRI_TRY(m->k->rmsnorm_bwd(s, &dz, tri_grad_at(m, c, post, &dw), d, &z, tri_weight_at(m, c, post), &rstd,
                            &m->rules.norm));
  if (m->opt.dtype != TRI_F32) return m->k->cast(s, d, &dz);
  *d = dz;
  return TRI_OK;
}
