/* decoder_bwd.c - one decoder block backward. The two norms and the gated product are computed again from
 * what forward kept; with model.recompute: layer the caller has redone the rest before. */
#include "decoder.h"

#include <math.h>

/* The gradient of the residual stream in the compute type: itself in f32. */
static tri_status residual_grad(tri_model *m, int64_t n, tri_tensor *out, tri_stream *s) {
  tri_tensor dx = tri_rows_f32(m->dx, n, m->shape.C);

  if (m->opt.dtype == TRI_F32) {
    *out = dx;
    return TRI_OK;
  }
  *out = tri_rows_act(m, m->dxa, n, m->shape.C);
  return m->k->cast(s, out, &dx);
}

/* db += column sums of dy, when the family has this bias. */
static tri_status bias_grad(tri_model *m, const tri_weights *dw, int first, const tri_tensor *dy,
                            tri_stream *s) {
  tri_tensor db;

  if (first < 0) return TRI_OK;
  db = tri_view1(dw->t[first].data, TRI_F32, dy->dim[1]);
  return m->k->colsum(s, &db, dy);
}

/* dW (+)= dy^T x for the product whose first tensor is `first`. */
static tri_status weight_grad(tri_model *m, int lin, const tri_weights *dw, int first, const tri_tensor *dy,
                              const tri_tensor *x, tri_stream *s) {
  tri_tensor g = tri_view2(dw->t[first].data, TRI_F32, dy->dim[1], x->dim[1]);
  return m->k->linear_bwd_w(s, m->linear[lin], &g, dy, x, !dw->fresh);
}

/* dx += gradient through norm(from) of dh; h is the norm's output, made again for dW. */
static tri_status norm_again(tri_model *m, const tri_tensor *w, const tri_tensor *from, tri_tensor *h,
                             tri_tensor *rstd, tri_stream *s) {
  return m->k->rmsnorm_fwd(s, h, rstd, from, w, m->shape.norm_eps);
}

static tri_status mlp_backward(tri_model *m, const tri_weights *w, const tri_weights *dw,
                               const tri_layer_acts *a, int64_t n, tri_stream *s) {
  const tri_layer_index *ix = &m->index;
  int64_t                C = m->shape.C, F = m->shape.F;
  tri_tensor             dx = tri_rows_f32(m->dx, n, C), mid = tri_rows_f32(a->mid, n, C), dout;
  tri_tensor             y = tri_rows_act(m, m->y, n, F), dy = tri_rows_act(m, m->dy, n, F);
  tri_tensor             gu = tri_rows_act(m, a->gate_up, n, 2 * F), dgu = tri_rows_act(m, m->dgu, n, 2 * F);
  tri_tensor             h = tri_rows_act(m, m->h, n, C), dh = tri_rows_act(m, m->dh, n, C);
  tri_tensor             rstd = tri_view1(m->rstd, TRI_F32, n);

  TRI_TRY(residual_grad(m, n, &dout, s));
  TRI_TRY(bias_grad(m, dw, ix->down_bias, &dout, s));
  TRI_TRY(m->k->linear_bwd_x(s, m->linear[TRI_LIN_DOWN], w->packed_bwd[TRI_LIN_DOWN], &dy, &dout, false));
  TRI_TRY(m->k->swiglu_bwd(s, &dgu, &y, &dy, &gu));
  TRI_TRY(weight_grad(m, TRI_LIN_DOWN, dw, ix->down, &dout, &y, s));
  TRI_TRY(norm_again(m, &w->t[ix->norm2], &mid, &h, &rstd, s));
  TRI_TRY(bias_grad(m, dw, ix->gate_bias, &dgu, s));
  TRI_TRY(weight_grad(m, TRI_LIN_GATE_UP, dw, ix->gate, &dgu, &h, s));
  TRI_TRY(
      m->k->linear_bwd_x(s, m->linear[TRI_LIN_GATE_UP], w->packed_bwd[TRI_LIN_GATE_UP], &dh, &dgu, false));
  tri_tensor dnorm = tri_view1(dw->t[ix->norm2].data, TRI_F32, C);
  return m->k->rmsnorm_bwd(s, &dx, &dnorm, &dh, &mid, &w->t[ix->norm2], &rstd);
}

static tri_status attention_backward(tri_model *m, const tri_weights *w, const tri_weights *dw,
                                     const tri_batch *b, const tri_layer_acts *a, int64_t n, tri_stream *s) {
  const tri_layer_index *ix = &m->index;
  int64_t                C = m->shape.C, HD = (int64_t)m->shape.H * m->shape.D;
  tri_tensor             dx = tri_rows_f32(m->dx, n, C), x = tri_rows_f32(a->x, n, C), dout;
  tri_tensor             o = tri_rows_act(m, a->o, n, HD), dattn = tri_rows_act(m, m->dout, n, HD);
  tri_tensor             qkv = tri_rows_act(m, a->qkv, n, m->E), dqkv = tri_rows_act(m, m->dqkv, n, m->E);
  tri_tensor             lse = tri_rows_f32(a->lse, n, m->shape.H);
  tri_tensor             work = tri_view1(m->work, TRI_F32, tri_attn_work(&m->heads, n));
  tri_tensor             h = tri_rows_act(m, m->h, n, C), dh = tri_rows_act(m, m->dh, n, C);
  tri_tensor             rstd = tri_view1(m->rstd, TRI_F32, n),
             rope = tri_view2(m->rope, TRI_F32, m->opt.max_positions, m->shape.D);
  float scale = (float)(1.0 / sqrt((double)m->shape.D));

  TRI_TRY(residual_grad(m, n, &dout, s));
  TRI_TRY(bias_grad(m, dw, ix->o_bias, &dout, s));
  TRI_TRY(weight_grad(m, TRI_LIN_O, dw, ix->o, &dout, &o, s));
  TRI_TRY(m->k->linear_bwd_x(s, m->linear[TRI_LIN_O], w->packed_bwd[TRI_LIN_O], &dattn, &dout, false));
  TRI_TRY(m->k->attn_bwd(s, &dqkv, &work, &dattn, &o, &lse, &qkv, &b->cu, &m->heads, scale));
  TRI_TRY(m->k->rope(s, &dqkv, &b->pos, &rope, &m->heads, -1));
  TRI_TRY(norm_again(m, &w->t[ix->norm1], &x, &h, &rstd, s));
  TRI_TRY(bias_grad(m, dw, ix->q_bias, &dqkv, s));
  TRI_TRY(weight_grad(m, TRI_LIN_QKV, dw, ix->q, &dqkv, &h, s));
  TRI_TRY(m->k->linear_bwd_x(s, m->linear[TRI_LIN_QKV], w->packed_bwd[TRI_LIN_QKV], &dh, &dqkv, false));
  tri_tensor dnorm = tri_view1(dw->t[ix->norm1].data, TRI_F32, C);
  return m->k->rmsnorm_bwd(s, &dx, &dnorm, &dh, &x, &w->t[ix->norm1], &rstd);
}

tri_status tri_layer_backward(tri_model *m, const tri_weights *w, const tri_weights *dw, const tri_batch *b,
                              const tri_layer_acts *a, tri_stream *s) {
  int64_t n = b->token.dim[0];

  TRI_TRY(mlp_backward(m, w, dw, a, n, s));
  return attention_backward(m, w, dw, b, a, n, s);
}
