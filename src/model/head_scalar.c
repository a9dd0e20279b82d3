/* head_scalar.c - a head with one number per chosen row: a critic's value or a reward model's score. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decoder.h"
#include "product.h"

static int64_t one(const tri_model *m) {
  (void)m;
  return 1;
}

static tri_status plan(tri_model *m, tri_ledger *l) {
  tri_head *h = &m->head;
  size_t    K = (size_t)m->opt.max_rows;

  TRI_TRY(tri_head_workspace(l, TRI_PHASE_ALWAYS, "head", K * 4, &h->value));
  if (!m->opt.train || m->opt.dtype == TRI_F32) return TRI_OK;
  return tri_head_workspace(l, TRI_PHASE_LEARN, "head", K * tri_dtype_bytes(m->opt.dtype), &h->dvalue);
}

static tri_status forward(tri_model *m, const tri_block_call *c, float inv_temperature, tri_rows_out *out,
                          tri_stream *s) {
  int64_t    K = c->batch->row.dim[0];
  tri_tensor hs = tri_rows_act(m, m->head.hs, K, m->shape.C), value = tri_rows_f32(m->head.value, K, 1);

  (void)inv_temperature;
  *out = (tri_rows_out){.value = tri_view1(m->head.value, TRI_F32, K)};
  return tri_product_fwd(m, c, TRI_SLOT_HEAD, &value, &hs, NULL, s);
}

static tri_status backward(tri_model *m, tri_block_call *c, const tri_rows_out *d, float inv_temperature,
                           tri_stream *s) {
  int64_t    K = c->batch->row.dim[0], C = m->shape.C;
  tri_tensor hs = tri_rows_act(m, m->head.hs, K, C), dhs = tri_rows_act(m, m->head.dhs, K, C);
  tri_tensor from = tri_rows_f32(d->value.data, K, 1), dvalue = from;

  (void)inv_temperature;
  if (m->opt.dtype != TRI_F32) {
    dvalue = tri_rows_act(m, m->head.dvalue, K, 1);
    TRI_TRY(m->k->cast(s, &dvalue, &from));
  }
  TRI_TRY(tri_product_bwd_w(m, c, TRI_SLOT_HEAD, &dvalue, &hs, s));
  return tri_product_bwd_x(m, c, TRI_SLOT_HEAD, &dhs, &dvalue, false, s);
}

const tri_head_ops tri_head_scalar = {one, plan, forward, backward, NULL};
