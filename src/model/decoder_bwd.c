/* decoder_bwd.c - one decoder block backward. It recomputes the two norms and the gated products from the
 * kept activations. With `model.recompute: layer` the caller has recomputed everything else before. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decoder.h"
#include "product.h"
#include "recurrent.h"

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

/* A product, and the gradient of its result. */
typedef struct product_grad {
  tri_slot product;
  tri_in   dy;
} product_grad;

/* Backward of n products and of the norm before them, if the family has one. The norm reads the residual
 * stream `from` f32 [N,C]. It runs forward once more for the gradients of the matrices. Then all run backward
 * and add to m->back.dx. */
static tri_status norm_and_products(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in from,
                                    const product_grad *of, int n, tri_stream *s) {
  tri_tensor h, dh = tri_rows_act(m, m->back.dh, from->dim[0], m->shape.C);

  TRI_TRY(tri_pre_norm_forward(m, c, norm, from, &h, s));
  for (int i = 0; i < n; i++) {
    TRI_TRY(tri_product_bwd_w(m, c, of[i].product, of[i].dy, &h, s));
    TRI_TRY(tri_product_bwd_x(m, c, of[i].product, &dh, of[i].dy, i > 0, s));
  }
  return tri_pre_norm_backward(m, c, norm, from, &dh, s);
}

static tri_status mlp_backward(tri_model *m, const tri_block_call *c, int64_t n, tri_stream *s) {
  int64_t    C = m->shape.C, F = m->shape.F;
  tri_tensor mid = tri_rows_f32(c->acts->mid, n, C), dout;
  tri_tensor y = tri_rows_act(m, m->y, n, F), dy = tri_rows_act(m, m->back.dy, n, F);
  tri_tensor gu = tri_rows_act(m, c->acts->gate_up, n, 2 * F), dgu = tri_rows_act(m, m->back.dgu, n, 2 * F);

  TRI_TRY(residual_grad(m, n, &dout, s));
  if (tri_unit_has(m, c, TRI_SLOT_POST_NORM2))
    TRI_TRY(tri_post_norm_backward(m, c, TRI_SLOT_POST_NORM2, c->acts->mlp, &dout, s));
  TRI_TRY(tri_product_bwd_x(m, c, TRI_SLOT_DOWN, &dy, &dout, false, s));
  TRI_TRY(m->k->glu_bwd(s, &dgu, &y, &dy, &gu, tri_act_of(m)));
  TRI_TRY(tri_product_bwd_w(m, c, TRI_SLOT_DOWN, &dout, &y, s));
  return norm_and_products(m, c, TRI_SLOT_NORM2, &mid, &(product_grad){TRI_SLOT_GATE_UP, &dgu}, 1, s);
}

/* Backward of the product O and of the gate before it, if there is one. Sets dattn to the gradient of o and
 * dgate to that of the gate. */
static tri_status out_backward(tri_model *m, const tri_block_call *c, tri_in dout, tri_out dattn,
                               tri_out dgate, tri_stream *s) {
  int64_t    n = dout->dim[0], HD = (int64_t)m->shape.H * m->shape.D;
  tri_tensor o = tri_rows_act(m, c->acts->o, n, HD), gate = tri_rows_act(m, c->acts->gate, n, HD),
             y = tri_gated_rows(m, n, HD);

  TRI_TRY(tri_product_bwd_x(m, c, TRI_SLOT_O, dattn, dout, false, s));
  if (!m->shape.attn_gate) return tri_product_bwd_w(m, c, TRI_SLOT_O, dout, &o, s);
  TRI_TRY(m->k->gate_bwd(s, dattn, dgate, &y, dattn, &o, &gate));
  return tri_product_bwd_w(m, c, TRI_SLOT_O, dout, &y, s);
}

static tri_status attention_backward(tri_model *m, const tri_block_call *c, int64_t n, tri_stream *s) {
  const tri_batch *b = c->batch;
  tri_attn_rule    rule = *tri_rule_at(m, c);
  int64_t          HD = (int64_t)m->shape.H * m->shape.D;
  tri_tensor       x = tri_rows_f32(c->acts->x, n, m->shape.C), dout;
  tri_tensor       o = tri_rows_act(m, c->acts->o, n, HD), dattn = tri_rows_act(m, m->back.dattn, n, HD),
             dgate = tri_rows_act(m, m->back.dgu, n, HD), raw = tri_wide_rows(m, n, m->E + HD);
  tri_tensor qkv = tri_rows_act(m, c->acts->qkv, n, m->E), dqkv = tri_rows_act(m, m->back.dqkv, n, m->E);
  tri_tensor lse = tri_rows_f32(c->acts->lse, n, m->shape.H);
  tri_tensor work =
      tri_view1(m->back.work, TRI_F32, tri_attn_workspace(&m->advice, &rule.heads, m->opt.dtype, n));
  tri_tensor rope = tri_rope_at(m, c);

  rule.longest = b->longest;
  TRI_TRY(residual_grad(m, n, &dout, s));
  if (tri_unit_has(m, c, TRI_SLOT_POST_NORM1))
    TRI_TRY(tri_post_norm_backward(m, c, TRI_SLOT_POST_NORM1, c->acts->attn, &dout, s));
  TRI_TRY(out_backward(m, c, &dout, &dattn, &dgate, s));
  TRI_TRY(m->k->attn_bwd(s, &dqkv, &work, &dattn, &o, &lse, &qkv, &b->cu, &rule));
  TRI_TRY(m->k->rope(s, &dqkv, &b->pos, &rope, &rule.heads, -1));
  if (tri_unit_has(m, c, TRI_SLOT_Q_NORM)) TRI_TRY(tri_heads_backward(m, c, &dqkv, s));
  if (m->shape.attn_gate) TRI_TRY(m->k->join_gate(s, &raw, &dqkv, &dgate, &rule.heads));
  return norm_and_products(m, c, TRI_SLOT_NORM1, &x,
                           &(product_grad){TRI_SLOT_QKV, m->shape.attn_gate ? &raw : &dqkv}, 1, s);
}

static tri_status recurrent_backward(tri_model *m, const tri_block_call *c, int64_t n, tri_stream *s) {
  tri_tensor          x = tri_rows_f32(c->acts->x, n, m->shape.C), dout;
  tri_recurrent_grads d;
  const product_grad  of[] = {
       {TRI_SLOT_DELTA_QKV, &d.mix}, {TRI_SLOT_DELTA_Z, &d.z}, {TRI_SLOT_DELTA_BA, &d.ba}};

  TRI_TRY(residual_grad(m, n, &dout, s));
  if (tri_unit_has(m, c, TRI_SLOT_POST_NORM1))
    TRI_TRY(tri_post_norm_backward(m, c, TRI_SLOT_POST_NORM1, c->acts->attn, &dout, s));
  TRI_TRY(tri_recurrent_backward(m, c, &dout, &d, s));
  return norm_and_products(m, c, TRI_SLOT_NORM1, &x, of, 3, s);
}

tri_status tri_block_backward(tri_model *m, const tri_block_call *c, tri_stream *s) {
  int64_t n = c->batch->token.dim[0];

  TRI_TRY(mlp_backward(m, c, n, s));
  return tri_call_recurs(m, c) ? recurrent_backward(m, c, n, s) : attention_backward(m, c, n, s);
}
