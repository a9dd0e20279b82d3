/* decoder_fwd.c - one decoder block forward: training, prefill and decode are the same lines. */
#include "decoder.h"
#include "product.h"

static tri_status attention(tri_model *m, const tri_block_call *c, tri_stream *s) {
  const tri_batch *b = c->batch;
  int64_t          n = b->token.dim[0];
  tri_tensor       qkv = tri_rows_act(m, c->acts->qkv, n, m->E),
             rope = tri_view2(m->rope, TRI_F32, m->opt.max_positions, m->shape.D);
  tri_tensor o = tri_rows_act(m, c->acts->o, n, (int64_t)m->shape.H * m->shape.D),
             lse = tri_rows_f32(c->acts->lse, n, m->shape.H);
  tri_tensor k_page, v_page;

  TRI_TRY(m->k->rope(s, &qkv, &b->pos, &rope, &m->rule.heads, 1));
  if (c->mode == TRI_BLOCK_PREFILL || c->mode == TRI_BLOCK_DECODE) {
    tri_kv_layer(c->kv, tri_layer_of(c->unit), &k_page, &v_page);
    TRI_TRY(m->k->kv_put(s, &k_page, &v_page, &qkv, &b->slot, &m->rule.heads));
  }
  if (c->mode == TRI_BLOCK_DECODE)
    return m->k->attn_decode(s, &o, &qkv, &k_page, &v_page, &b->table, &b->len, &m->rule);
  return m->k->attn_fwd(s, &o, &lse, &qkv, &b->cu, &m->rule);
}

tri_status tri_block_forward(tri_model *m, const tri_block_call *c, tri_stream *s) {
  const tri_layer_acts *a = c->acts;
  int64_t               n = c->batch->token.dim[0], C = m->shape.C, F = m->shape.F;
  tri_tensor x = tri_rows_f32(a->x, n, C), mid = tri_rows_f32(a->mid, n, C), out = tri_rows_f32(c->out, n, C);
  tri_tensor h = tri_rows_act(m, m->h, n, C), rstd = tri_view1(m->rstd, TRI_F32, n);
  tri_tensor qkv = tri_rows_act(m, a->qkv, n, m->E),
             o = tri_rows_act(m, a->o, n, (int64_t)m->shape.H * m->shape.D);
  tri_tensor gu = tri_rows_act(m, a->gate_up, n, 2 * F), y = tri_rows_act(m, m->y, n, F);

  TRI_TRY(m->k->rmsnorm_fwd(s, &h, &rstd, &x, tri_weight_at(m, c, TRI_SLOT_NORM1), m->shape.norm_eps));
  TRI_TRY(tri_product_fwd(m, c, TRI_SLOT_QKV, &qkv, &h, NULL, s));
  TRI_TRY(attention(m, c, s));
  TRI_TRY(tri_product_fwd(m, c, TRI_SLOT_O, &mid, &o, &x, s));
  TRI_TRY(m->k->rmsnorm_fwd(s, &h, &rstd, &mid, tri_weight_at(m, c, TRI_SLOT_NORM2), m->shape.norm_eps));
  TRI_TRY(tri_product_fwd(m, c, TRI_SLOT_GATE_UP, &gu, &h, NULL, s));
  if (c->mode == TRI_BLOCK_AGAIN) return TRI_OK;
  TRI_TRY(m->k->swiglu_fwd(s, &y, &gu));
  return tri_product_fwd(m, c, TRI_SLOT_DOWN, &out, &y, &mid, s);
}
