/* decoder_norms.c - norms that only some families have in their blocks: of each head of q and k, and of
 * what attention and mlp give before it joins the residual stream. */
#include "decoder.h"

tri_status tri_heads_forward(tri_model *m, const tri_block_call *c, tri_out qkv, tri_stream *s) {
  int64_t    n = qkv->dim[0], heads = m->shape.H + m->shape.G;
  tri_tensor raw = tri_rows_act(m, c->acts->raw, n, heads * m->shape.D),
             rstd = tri_rows_f32(c->acts->heads_rstd, n, heads);
  bool keep = c->acts->raw != NULL;

  return m->k->head_norm_fwd(s, qkv, keep ? &raw : NULL, keep ? &rstd : NULL,
                             tri_weight_at(m, c, TRI_SLOT_Q_NORM), tri_weight_at(m, c, TRI_SLOT_K_NORM),
                             tri_heads_of(m), &m->rules.norm);
}

tri_status tri_heads_backward(tri_model *m, const tri_block_call *c, tri_out dqkv, tri_stream *s) {
  int64_t    n = dqkv->dim[0], heads = m->shape.H + m->shape.G;
  tri_tensor raw = tri_rows_act(m, c->acts->raw, n, heads * m->shape.D),
             rstd = tri_rows_f32(c->acts->heads_rstd, n, heads);
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
