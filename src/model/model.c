/* model.c - the decoder-only transformer: the order of its blocks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "model.h"
#include "decoder.h"

static tri_status embed(tri_model *m, const tri_batch *b, void *to, tri_block_mode mode, tri_stream *s) {
  tri_block_call c = {.mode = mode, .unit = 0, .batch = b};
  tri_tensor     x = tri_rows_f32(to, b->token.dim[0], m->shape.C);
  int            span;

  TRI_TRY(tri_unit_acquire(m, &c, 0, tri_unit_of_layer(0), s));
  span = tri_unit_span(m, &c, s);
  TRI_TRY(m->k->embed_fwd(s, &x, tri_weight_at(m, &c, TRI_SLOT_EMBED), &b->token, m->rules.embed_scale));
  tri_trace_end(m->device->trace, span, s);
  return tri_unit_release(m, &c, s);
}

static tri_status embed_backward(tri_model *m, const tri_batch *b, bool last, tri_stream *s) {
  tri_block_call c = {.mode = TRI_BLOCK_BACKWARD, .unit = 0, .batch = b};
  tri_tensor     dx = tri_rows_f32(m->back.dx, b->token.dim[0], m->shape.C), dtable;
  int            span;

  if (m->adapters.params) return TRI_OK; /* the table is frozen */
  TRI_TRY(tri_params_grad(m->params, 0, s, &c.dw));
  span = tri_unit_span(m, &c, s);
  TRI_TRY(
      m->k->embed_bwd(s, tri_grad_at(m, &c, TRI_SLOT_EMBED, &dtable), &dx, &b->token, m->rules.embed_scale));
  tri_trace_end(m->device->trace, span, s);
  return tri_unit_learned(m, &c, last, s);
}

/* Returns the buffers of a layer, and in *out the buffer of its output. */
static tri_layer_acts acts_of(const tri_model *m, int layer, bool keep, void **out) {
  tri_layer_acts a = m->scratch;

  *out = m->x;
  if (!keep) {
    a.x = a.mid = m->x;
    a.mlp = a.attn;
    a.raw = a.heads_rstd = NULL;
    return a;
  }
  if (layer + 1 < m->shape.L) *out = m->acts[layer + 1].x;
  if (!m->opt.recompute) return m->acts[layer];
  a.x = m->acts[layer].x;
  return a;
}

static tri_status run_layers(tri_model *m, const tri_batch *b, bool keep, tri_kv *kv, tri_block_mode mode,
                             tri_stream *s) {
  TRI_ASSERT(b->token.dim[0] <= (keep ? m->opt.max_learn_tokens : m->opt.max_tokens));
  TRI_TRY(tri_workspace_take(m, s));
  TRI_TRY(embed(m, b, keep ? m->acts[0].x : m->x, mode, s));
  for (int layer = 0; layer < m->shape.L; layer++) {
    tri_block_call c = {.mode = mode, .unit = tri_unit_of_layer(layer), .batch = b, .kv = kv};
    tri_layer_acts a = acts_of(m, layer, keep, &c.out);
    int            span;
    c.acts = &a;
    TRI_TRY(tri_unit_acquire(m, &c, TRI_USE_FWD, c.unit + 1, s));
    span = tri_unit_span(m, &c, s);
    TRI_TRY(tri_block_forward(m, &c, s));
    tri_trace_end(m->device->trace, span, s);
    TRI_TRY(tri_unit_release(m, &c, s));
  }
  return TRI_OK;
}

tri_status tri_model_forward(tri_model *m, const tri_batch *b, bool keep, float inv_temperature,
                             tri_rows_out *out, tri_stream *s) {
  TRI_TRY(run_layers(m, b, keep, NULL, TRI_BLOCK_FORWARD, s));
  return tri_head_forward(m, b, inv_temperature, out, s);
}

tri_status tri_model_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d, float inv_temperature,
                              bool last, tri_stream *s) {
  TRI_ASSERT(m->opt.train && (!m->opt.workspace || m->opt.workspace->user == m));
  TRI_TRY(tri_head_backward(m, b, d, inv_temperature, last, s));
  for (int layer = m->shape.L - 1; layer >= 0; layer--) {
    tri_block_call c = {.mode = TRI_BLOCK_BACKWARD, .unit = tri_unit_of_layer(layer), .batch = b}, again;
    tri_layer_acts a = acts_of(m, layer, true, &c.out);
    int            span;
    c.acts = &a;
    TRI_TRY(tri_unit_acquire(m, &c, TRI_USE_FWD | TRI_USE_BWD, layer > 0 ? c.unit - 1 : -1, s));
    span = tri_unit_span(m, &c, s);
    again = c;
    again.mode = TRI_BLOCK_AGAIN;
    if (m->opt.recompute) TRI_TRY(tri_block_forward(m, &again, s));
    TRI_TRY(tri_block_backward(m, &c, s));
    tri_trace_end(m->device->trace, span, s);
    TRI_TRY(tri_unit_release(m, &c, s));
    TRI_TRY(tri_unit_learned(m, &c, last, s));
  }
  return embed_backward(m, b, last, s);
}

tri_status tri_model_prefill(tri_model *m, const tri_batch *b, tri_kv *kv, tri_stream *s) {
  return run_layers(m, b, false, kv, TRI_BLOCK_PREFILL, s);
}

tri_status tri_model_decode(tri_model *m, const tri_batch *b, tri_kv *kv, const tri_tensor *key,
                            const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp, tri_stream *s) {
  TRI_TRY(run_layers(m, b, false, kv, TRI_BLOCK_DECODE, s));
  return tri_head_sample(m, b, key, rule, token, logp, s);
}
