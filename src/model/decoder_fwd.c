/* decoder_fwd.c - one decoder block forward: training, prefill and decode are the same lines. */
#include "decoder.h"

#include <math.h>

tri_tensor tri_rows_f32(void *data, int64_t n, int64_t width) { return tri_view2(data, TRI_F32, n, width); }

tri_tensor tri_rows_act(const tri_model *m, void *data, int64_t n, int64_t width) {
  return tri_view2(data, m->opt.dtype, n, width);
}

const tri_tensor *tri_bias_view(const tri_weights *w, int first, int64_t n, tri_tensor *view) {
  if (first < 0) return NULL;
  *view = tri_view1(w->t[first].data, w->t[first].dtype, n);
  return view;
}

/* out f32 = base f32 + product; out may be base. */
static tri_status add_product(tri_model *m, int lin, const tri_weights *w, int bias, const tri_tensor *in,
                              void *base, void *out, int64_t n, tri_stream *s) {
  tri_tensor y = tri_rows_f32(out, n, m->shape.C), from = tri_rows_f32(base, n, m->shape.C), b;

  return m->k->linear_fwd(s, m->linear[lin], w->packed_fwd[lin], &y, in,
                          tri_bias_view(w, bias, m->shape.C, &b), &from);
}

static tri_status attention(tri_model *m, int layer, const tri_batch *b, const tri_layer_acts *a, tri_kv *kv,
                            bool decode, tri_stream *s) {
  int64_t    n = b->token.dim[0];
  tri_tensor qkv = tri_rows_act(m, a->qkv, n, m->E),
             rope = tri_view2(m->rope, TRI_F32, m->opt.max_positions, m->shape.D);
  tri_tensor o = tri_rows_act(m, a->o, n, (int64_t)m->shape.H * m->shape.D),
             lse = tri_rows_f32(a->lse, n, m->shape.H);
  tri_tensor k_page, v_page;
  float      scale = (float)(1.0 / sqrt((double)m->shape.D));

  TRI_TRY(m->k->rope(s, &qkv, &b->pos, &rope, &m->heads, 1));
  if (kv) {
    tri_kv_layer(kv, layer, &k_page, &v_page);
    TRI_TRY(m->k->kv_put(s, &k_page, &v_page, &qkv, &b->slot, &m->heads));
  }
  if (decode) return m->k->attn_decode(s, &o, &qkv, &k_page, &v_page, &b->table, &b->len, &m->heads, scale);
  return m->k->attn_fwd(s, &o, &lse, &qkv, &b->cu, &m->heads, scale);
}

tri_status tri_layer_forward(tri_model *m, int layer, const tri_weights *w, const tri_batch *b,
                             const tri_layer_acts *a, void *out, tri_kv *kv, bool decode, bool upto_gate,
                             tri_stream *s) {
  const tri_layer_index *ix = &m->index;
  int64_t                n = b->token.dim[0], C = m->shape.C, F = m->shape.F;
  tri_tensor             x = tri_rows_f32(a->x, n, C), mid = tri_rows_f32(a->mid, n, C), bias;
  tri_tensor             h = tri_rows_act(m, m->h, n, C), rstd = tri_view1(m->rstd, TRI_F32, n);
  tri_tensor             qkv = tri_rows_act(m, a->qkv, n, m->E);
  tri_tensor             o = tri_rows_act(m, a->o, n, (int64_t)m->shape.H * m->shape.D);
  tri_tensor             gu = tri_rows_act(m, a->gate_up, n, 2 * F), y = tri_rows_act(m, m->y, n, F);

  TRI_TRY(m->k->rmsnorm_fwd(s, &h, &rstd, &x, &w->t[ix->norm1], m->shape.norm_eps));
  TRI_TRY(m->k->linear_fwd(s, m->linear[TRI_LIN_QKV], w->packed_fwd[TRI_LIN_QKV], &qkv, &h,
                           tri_bias_view(w, ix->q_bias, m->E, &bias), NULL));
  TRI_TRY(attention(m, layer, b, a, kv, decode, s));
  TRI_TRY(add_product(m, TRI_LIN_O, w, ix->o_bias, &o, a->x, a->mid, n, s));
  TRI_TRY(m->k->rmsnorm_fwd(s, &h, &rstd, &mid, &w->t[ix->norm2], m->shape.norm_eps));
  TRI_TRY(m->k->linear_fwd(s, m->linear[TRI_LIN_GATE_UP], w->packed_fwd[TRI_LIN_GATE_UP], &gu, &h,
                           tri_bias_view(w, ix->gate_bias, 2 * F, &bias), NULL));
  if (upto_gate) return TRI_OK;
  TRI_TRY(m->k->swiglu_fwd(s, &y, &gu));
  return add_product(m, TRI_LIN_DOWN, w, ix->down_bias, &y, a->mid, out, n, s);
}
