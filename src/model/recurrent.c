/* recurrent.c - the recurrent part of a layer, forward and backward. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "recurrent.h"

#include "product.h"

/* The kept activations of the call's layer, and the buffer of the convolution's result. */
typedef struct recurrent_rows {
  int64_t    n, width; /* rows, Hv Dv */
  tri_tensor mix, z, ba, c, o, rstd;
} recurrent_rows;

static recurrent_rows rows_of(const tri_model *m, const tri_block_call *call) {
  const tri_delta_rule *r = &m->rules.delta;
  const tri_layer_acts *a = call->acts;
  int64_t n = call->batch->token.dim[0], width = (int64_t)r->Hv * r->Dv, Er = tri_delta_width(r);

  return (recurrent_rows){.n = n,
                          .width = width,
                          .mix = tri_rows_act(m, a->qkv, n, Er),
                          .z = tri_rows_act(m, a->gate, n, width),
                          .ba = tri_rows_act(m, a->ba, n, 2 * (int64_t)r->Hv),
                          .c = tri_wide_rows(m, n, Er),
                          .o = tri_rows_act(m, a->o, n, width),
                          .rstd = tri_rows_f32(a->lse, n, r->Hv)};
}

/* Returns the taps [Er,W] of conv1d.weight [Er,1,W]. */
static tri_tensor taps_of(const tri_tensor *w) { return tri_view2(w->data, w->dtype, w->dim[0], w->dim[2]); }

tri_status tri_recurrent_forward(tri_model *m, const tri_block_call *call, tri_in h, tri_tensor *y,
                                 tri_stream *s) {
  const tri_batch *b = call->batch;
  recurrent_rows   r = rows_of(m, call);
  tri_tensor       taps = taps_of(tri_weight_at(m, call, TRI_SLOT_CONV)), state, tail;
  bool             caches = call->mode == TRI_BLOCK_PREFILL || call->mode == TRI_BLOCK_DECODE;
  tri_delta_rows   rows = {&b->cu, caches ? &b->state : NULL, caches ? &b->fresh : NULL};

  *y = tri_gated_rows(m, r.n, r.width);
  if (caches) tri_kv_states(call->kv, tri_layer_of(call->unit), &state, &tail);
  TRI_TRY(tri_product_fwd(m, call, TRI_SLOT_DELTA_QKV, &r.mix, h, NULL, s));
  TRI_TRY(tri_product_fwd(m, call, TRI_SLOT_DELTA_Z, &r.z, h, NULL, s));
  TRI_TRY(tri_product_fwd(m, call, TRI_SLOT_DELTA_BA, &r.ba, h, NULL, s));
  TRI_TRY(m->k->conv_fwd(s, &r.c, &r.mix, &taps, caches ? &tail : NULL, &rows));
  TRI_TRY(m->k->delta_fwd(s, &r.o, &r.c, &r.ba, tri_weight_at(m, call, TRI_SLOT_A_LOG),
                          tri_weight_at(m, call, TRI_SLOT_DT_BIAS), caches ? &state : NULL, &rows,
                          &m->rules.delta));
  return m->k->gate_norm_fwd(s, y, &r.rstd, &r.o, &r.z, tri_weight_at(m, call, TRI_SLOT_GATE_NORM),
                             &m->rules.delta);
}

/* Backward of DELTA_OUT and of the gated norm before it. */
static tri_status out_backward(tri_model *m, const tri_block_call *call, const recurrent_rows *r, tri_in dout,
                               tri_out dnorm, tri_out dz, tri_stream *s) {
  tri_tensor y = tri_gated_rows(m, r->n, r->width), dw;

  TRI_TRY(tri_product_bwd_x(m, call, TRI_SLOT_DELTA_OUT, dnorm, dout, false, s));
  TRI_TRY(m->k->gate_norm_bwd(s, dnorm, dz, &y, tri_grad_at(m, call, TRI_SLOT_GATE_NORM, &dw), dnorm, &r->o,
                              &r->z, tri_weight_at(m, call, TRI_SLOT_GATE_NORM), &r->rstd, &m->rules.delta));
  return tri_product_bwd_w(m, call, TRI_SLOT_DELTA_OUT, dout, &y, s);
}

/* Backward of the delta rule and of the convolution before it, which runs forward once more. */
static tri_status rule_backward(tri_model *m, const tri_block_call *call, const recurrent_rows *r, tri_in d_o,
                                tri_recurrent_grads *d, tri_stream *s) {
  const tri_batch     *b = call->batch;
  tri_tensor           taps = taps_of(tri_weight_at(m, call, TRI_SLOT_CONV)), dtaps, dA_log, ddt_bias;
  tri_tensor           c = r->c;
  tri_tensor           dc = tri_rows_act(m, m->back.dqkv, r->n, tri_delta_width(&m->rules.delta));
  tri_tensor           work = tri_view1(m->back.work, TRI_F32, tri_delta_work(&m->rules.delta, r->n));
  const tri_delta_rows rows = {&b->cu, NULL, NULL};
  bool                 learns = tri_grad_at(m, call, TRI_SLOT_CONV, &dtaps) != NULL;

  if (learns) dtaps = taps_of(&dtaps);
  TRI_TRY(m->k->conv_fwd(s, &c, &r->mix, &taps, NULL, &rows));
  TRI_TRY(m->k->delta_bwd(s, &dc, &d->ba, tri_grad_at(m, call, TRI_SLOT_A_LOG, &dA_log),
                          tri_grad_at(m, call, TRI_SLOT_DT_BIAS, &ddt_bias), &work, d_o, &c, &r->ba,
                          tri_weight_at(m, call, TRI_SLOT_A_LOG), tri_weight_at(m, call, TRI_SLOT_DT_BIAS),
                          &b->cu, &m->rules.delta));
  d->mix = c; /* no longer needed */
  return m->k->conv_bwd(s, &d->mix, learns ? &dtaps : NULL, &dc, &r->mix, &taps, &b->cu);
}

tri_status tri_recurrent_backward(tri_model *m, const tri_block_call *call, tri_in dout,
                                  tri_recurrent_grads *d, tri_stream *s) {
  recurrent_rows r = rows_of(m, call);
  tri_tensor     d_o = tri_rows_act(m, m->back.dattn, r.n, r.width);

  d->z = tri_rows_act(m, m->back.dgu, r.n, r.width);
  d->ba = tri_rows_act(m, m->back.dy, r.n, r.ba.dim[1]);
  TRI_TRY(out_backward(m, call, &r, dout, &d_o, &d->z, s));
  return rule_backward(m, call, &r, &d_o, d, s);
}
