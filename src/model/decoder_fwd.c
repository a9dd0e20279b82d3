/* decoder_fwd.c - one decoder block forward, with the same lines for training, prefill and decode. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decoder.h"
#include "product.h"
#include "recurrent.h"

static tri_status attention(tri_model *m, const tri_block_call *c, tri_stream *s) {
  const tri_batch     *b = c->batch;
  const tri_attn_rule *rule = tri_rule_at(m, c);
  int64_t              n = b->token.dim[0];
  tri_tensor qkv = tri_rows_act(m, c->acts->qkv, n, tri_rank_part(m, c, m->E)), rope = tri_rope_at(m, c);
  tri_tensor o = tri_rows_act(m, c->acts->o, n, (int64_t)rule->heads.H * m->shape.D),
             lse = tri_rows_f32(c->acts->lse, n, rule->heads.H);
  tri_tensor k_page, v_page, work = b->work;
  bool       is_long = rule->window <= 0 || rule->window > m->advice.spread_tokens;

  if (tri_unit_has(m, c, TRI_SLOT_Q_NORM)) TRI_TRY(tri_heads_forward(m, c, &qkv, s));
  if (c->mode == TRI_BLOCK_PREFILL || c->mode == TRI_BLOCK_DECODE)
    tri_kv_layer(c->kv, tri_layer_of(c->unit), &k_page, &v_page);
  if (c->mode == TRI_BLOCK_DECODE) {
    const tri_step_at at = {&b->pos,   &rope,   &b->slot,
                            &b->table, &b->len, work.data && is_long ? &work : NULL};
    return m->k->attn_step(s, &o, &qkv, &k_page, &v_page, &at, rule);
  }
  TRI_TRY(m->k->rope(s, &qkv, &b->pos, &rope, &rule->heads, 1));
  if (c->mode == TRI_BLOCK_PREFILL) TRI_TRY(m->k->kv_put(s, &k_page, &v_page, &qkv, &b->slot, &rule->heads));
  return m->k->attn_fwd(s, &o, &lse, &qkv, &b->cu, rule);
}

/* Computes attention from the layer's normed input h A [N,C]. Makes *y the product O's input, of this rank's
 * columns if it is divided. */
static tri_status attend(tri_model *m, const tri_block_call *c, tri_in h, tri_tensor *y, tri_stream *s) {
  int64_t    n = h->dim[0], HD = (int64_t)m->shape.H * m->shape.D;
  tri_tensor qkv = tri_rows_act(m, c->acts->qkv, n, tri_rank_part(m, c, m->E)),
             gate = tri_rows_act(m, c->acts->gate, n, HD), raw = tri_wide_rows(m, n, m->E + HD),
             o = tri_rows_act(m, c->acts->o, n, tri_rank_part(m, c, HD));

  *y = o;
  if (!m->shape.attn_gate) {
    TRI_TRY(tri_product_fwd(m, c, TRI_SLOT_QKV, &qkv, h, NULL, s));
    return attention(m, c, s);
  }
  TRI_TRY(tri_product_fwd(m, c, TRI_SLOT_QKV, &raw, h, NULL, s));
  TRI_TRY(m->k->split_gate(s, &qkv, &gate, &raw, tri_heads_of(m)));
  TRI_TRY(attention(m, c, s));
  *y = tri_gated_rows(m, n, HD);
  return m->k->gate_fwd(s, y, &o, &gate);
}

/* y f32 [N,C] = base + a product of x. base may be NULL. */
static tri_status add_product(tri_model *m, const tri_block_call *c, tri_slot product, tri_out y, tri_in x,
                              tri_in base, tri_stream *s) {
  return tri_is_divided(m, c) ? tri_divided_product(m, c, product, y, x, base, s)
                              : tri_product_fwd(m, c, product, y, x, base, s);
}

/* Makes x, whose columns the ranks computed in parts, whole on every rank. */
static tri_status make_whole(tri_model *m, const tri_block_call *c, tri_tensor *x, int64_t width,
                             tri_stream *s) {
  tri_tensor mine = *x;

  if (!tri_is_divided(m, c)) return TRI_OK;
  x->dim[1] = width;
  return tri_divided_whole(m, x, &mine, s);
}

/* y = base + the residual multiplier times a product of x. */
static tri_status join_scaled(tri_model *m, const tri_block_call *c, tri_slot product, tri_out y, tri_in x,
                              tri_in base, tri_stream *s) {
  tri_tensor z = tri_rows_f32(m->scratch.attn, x->dim[0], m->shape.C);

  TRI_TRY(add_product(m, c, product, &z, x, NULL, s));
  if (y->data != base->data)
    TRI_TRY(m->device->ops->copy(s, y->data, base->data, (size_t)tri_tensor_count(y) * sizeof(float)));
  return m->k->axpby(s, y, m->rules.residual, &z, 1.0f);
}

/* y = base + product of x. If the family has the norm in slot `post`, the product passes through it and
 * `inner` receives the norm's input, f32 [N,C]. */
static tri_status join(tri_model *m, const tri_block_call *c, tri_slot product, tri_slot post, void *inner,
                       tri_out y, tri_in x, tri_in base, tri_stream *s) {
  tri_tensor z = tri_rows_f32(inner, x->dim[0], m->shape.C);

  if (tri_scales_residual(m)) return join_scaled(m, c, product, y, x, base, s);
  if (!tri_unit_has(m, c, post)) return add_product(m, c, product, y, x, base, s);
  TRI_TRY(add_product(m, c, product, &z, x, NULL, s));
  return tri_post_norm_forward(m, c, post, &z, y, base, s);
}

tri_status tri_block_forward(tri_model *m, const tri_block_call *c, tri_stream *s) {
  const tri_layer_acts *a = c->acts;
  int64_t               n = c->batch->token.dim[0], C = m->shape.C, F = m->shape.F;
  bool                  again = c->mode == TRI_BLOCK_AGAIN;
  tri_tensor x = tri_rows_f32(a->x, n, C), mid = tri_rows_f32(a->mid, n, C), out = tri_rows_f32(c->out, n, C);
  tri_tensor h, o;
  bool       recurs = tri_call_recurs(m, c);
  int64_t    HD = (int64_t)m->shape.H * m->shape.D, mine = tri_rank_part(m, c, F);
  tri_tensor gu = tri_rows_act(m, a->gate_up, n, 2 * mine), y = tri_rows_act(m, m->y, n, mine),
             mlp = tri_rows_f32(a->mlp, n, C);

  TRI_TRY(tri_pre_norm_forward(m, c, TRI_SLOT_NORM1, &x, &h, s));
  TRI_TRY(recurs ? tri_recurrent_forward(m, c, &h, &o, s) : attend(m, c, &h, &o, s));
  TRI_TRY(make_whole(m, c, &o, HD, s)); /* a model with recurrent layers is never divided */
  TRI_TRY(
      join(m, c, recurs ? TRI_SLOT_DELTA_OUT : TRI_SLOT_O, TRI_SLOT_POST_NORM1, a->attn, &mid, &o, &x, s));
  TRI_TRY(tri_pre_norm_forward(m, c, TRI_SLOT_NORM2, &mid, &h, s));
  TRI_TRY(tri_product_fwd(m, c, TRI_SLOT_GATE_UP, &gu, &h, NULL, s));
  if (again && !tri_unit_has(m, c, TRI_SLOT_POST_NORM2)) return TRI_OK;
  TRI_TRY(m->k->glu_fwd(s, &y, &gu, tri_act_of(m)));
  if (again) return tri_product_fwd(m, c, TRI_SLOT_DOWN, &mlp, &y, NULL, s);
  TRI_TRY(make_whole(m, c, &y, F, s));
  return join(m, c, TRI_SLOT_DOWN, TRI_SLOT_POST_NORM2, a->mlp, &out, &y, &mid, s);
}
