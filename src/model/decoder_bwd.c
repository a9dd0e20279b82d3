/* decoder_bwd.c - one decoder block backward. It recomputes the two norms and the gated product from the kept
 * activations. With `model.recompute: layer` the caller has recomputed everything else before. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decoder.h"
#include "product.h"

/* Returns the gradient of a result that joins the residual stream, in the compute type. In f32 this is the
 * stream's own gradient, unless the result is scaled. */
static tri_status residual_grad(tri_model *m, int64_t n, tri_tensor *out, tri_stream *s) {
  tri_tensor dx = tri_rows_f32(m->back.dx, n, m->shape.C);

  if (tri_scales_residual(m)) {
    tri_tensor scaled = tri_rows_f32(m->back.dpost, n, m->shape.C);
    TRI_TRY(m->k->axpby(s, &scaled, m->rules.residual, &dx, 0));
    dx = scaled;
  }
  if (m->opt.dtype == TRI_F32) {
    *out = dx;
    return TRI_OK;
  }
  *out = tri_rows_act(m, m->back.dxa, n, m->shape.C);
  return m->k->cast(s, out, &dx);
}

/* Backward of a product and of the norm before it, if the family has one. The norm reads the residual stream
 * `from` f32 [N,C]. dy is the gradient of the product's result. The norm runs forward once more for the
 * gradient of the matrix. Then both run backward and add to m->back.dx. */
static tri_status norm_and_product(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in from,
                                   tri_slot product, tri_in dy, tri_stream *s) {
  tri_tensor h, dh = tri_rows_act(m, m->back.dh, from->dim[0], m->shape.C);

  TRI_TRY(tri_pre_norm_forward(m, c, norm, from, &h, s));
  TRI_TRY(tri_product_bwd_w(m, c, product, dy, &h, s));
  TRI_TRY(tri_product_bwd_x(m, c, product, &dh, dy, s));
  return tri_pre_norm_backward(m, c, norm, from, &dh, s);
}

static tri_status mlp_backward(tri_model *m, const tri_block_call *c, int64_t n, tri_stream *s) {
  int64_t    C = m->shape.C, F = m->shape.F;
  tri_tensor mid = tri_rows_f32(c->acts->mid, n, C), dout;
  tri_tensor y = tri_rows_act(m, m->y, n, F), dy = tri_rows_act(m, m->back.dy, n, F);
  tri_tensor gu = tri_rows_act(m, c->acts->gate_up, n, 2 * F), dgu = tri_rows_act(m, m->back.dgu, n, 2 * F);

  TRI_TRY(residual_grad(m, n, &dout, s));
  if (tri_layers_have(m, TRI_SLOT_POST_NORM2))
    TRI_TRY(tri_post_norm_backward(m, c, TRI_SLOT_POST_NORM2, c->acts->mlp, &dout, s));
  TRI_TRY(tri_product_bwd_x(m, c, TRI_SLOT_DOWN, &dy, &dout, s));
  TRI_TRY(m->k->glu_bwd(s, &dgu, &y, &dy, &gu, tri_act_of(m)));
  TRI_TRY(tri_product_bwd_w(m, c, TRI_SLOT_DOWN, &dout, &y, s));
  return norm_and_product(m, c, TRI_SLOT_NORM2, &mid, TRI_SLOT_GATE_UP, &dgu, s);
}

static tri_status attention_backward(tri_model *m, const tri_block_call *c, int64_t n, tri_stream *s) {
  const tri_batch *b = c->batch;
  tri_attn_rule    rule = *tri_rule_at(m, c);
  int64_t          HD = (int64_t)m->shape.H * m->shape.D;
  tri_tensor       x = tri_rows_f32(c->acts->x, n, m->shape.C), dout;
  tri_tensor       o = tri_rows_act(m, c->acts->o, n, HD), dattn = tri_rows_act(m, m->back.dattn, n, HD);
  tri_tensor qkv = tri_rows_act(m, c->acts->qkv, n, m->E), dqkv = tri_rows_act(m, m->back.dqkv, n, m->E);
  tri_tensor lse = tri_rows_f32(c->acts->lse, n, m->shape.H);
  tri_tensor work =
      tri_view1(m->back.work, TRI_F32, tri_attn_workspace(&m->advice, &rule.heads, m->opt.dtype, n));
  tri_tensor rope = tri_rope_at(m, c);

  rule.longest = b->longest;
  TRI_TRY(residual_grad(m, n, &dout, s));
  if (tri_layers_have(m, TRI_SLOT_POST_NORM1))
    TRI_TRY(tri_post_norm_backward(m, c, TRI_SLOT_POST_NORM1, c->acts->attn, &dout, s));
  TRI_TRY(tri_product_bwd_w(m, c, TRI_SLOT_O, &dout, &o, s));
  TRI_TRY(tri_product_bwd_x(m, c, TRI_SLOT_O, &dattn, &dout, s));
  TRI_TRY(m->k->attn_bwd(s, &dqkv, &work, &dattn, &o, &lse, &qkv, &b->cu, &rule));
  TRI_TRY(m->k->rope(s, &dqkv, &b->pos, &rope, &rule.heads, -1));
  if (tri_layers_have(m, TRI_SLOT_Q_NORM)) TRI_TRY(tri_heads_backward(m, c, &dqkv, s));
  return norm_and_product(m, c, TRI_SLOT_NORM1, &x, TRI_SLOT_QKV, &dqkv, s);
}

tri_status tri_block_backward(tri_model *m, const tri_block_call *c, tri_stream *s) {
  int64_t n = c->batch->token.dim[0];

  TRI_TRY(mlp_backward(m, c, n, s));
  return attention_backward(m, c, n, s);
}
