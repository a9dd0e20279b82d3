/* head.c - the work common to all heads: choosing rows, their norm, and the way back into the residual
 * stream. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decoder.h"

tri_status tri_head_workspace(tri_ledger *l, tri_phase phase, const char *name, size_t bytes, void **where) {
  return tri_ledger_add(l, TRI_MEM_DEVICE, phase, false, name, bytes, where);
}

static tri_status plan(tri_model *m, tri_ledger *l) {
  tri_head *h = &m->head;
  size_t    K = (size_t)m->opt.max_rows, n = K * (size_t)m->shape.C, a = tri_dtype_bytes(m->opt.dtype);

  TRI_TRY(tri_head_workspace(l, TRI_PHASE_ALWAYS, "head", n * 4, &h->xs));
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_ALWAYS, "head", n * a, &h->hs));
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_ALWAYS, "head", K * 4, &h->rstd));
  TRI_TRY(h->ops->plan(m, l));
  if (!m->opt.train) return TRI_OK;
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_LEARN, "head", n * a, &h->dhs));
  return tri_head_workspace(l, TRI_PHASE_LEARN, "head", n * 4, &h->dxs);
}

tri_status tri_head_plan(tri_model *m, tri_ledger *l) {
  tri_ledger_set_member(l, m->member);
  TRI_TRY(plan(m, l));
  tri_ledger_set_member(l, 0);
  return TRI_OK;
}

/* Gathers the head, and the embedding's table if the head is tied to it. Prefetches unit `next`. */
static tri_status acquire(tri_model *m, tri_block_call *head, tri_block_call *table, int next,
                          tri_stream *s) {
  int use = head->mode == TRI_BLOCK_BACKWARD ? TRI_USE_FWD | TRI_USE_BWD : TRI_USE_FWD;

  head->unit = tri_unit_of_head(m);
  TRI_TRY(tri_unit_acquire(m, head, use, m->tied ? 0 : next, s));
  *table = *head;
  if (!m->tied) return TRI_OK;
  table->unit = 0;
  return tri_unit_acquire(m, table, use, next, s);
}

static tri_status release(tri_model *m, const tri_block_call *head, const tri_block_call *table,
                          tri_stream *s) {
  if (m->tied) TRI_TRY(tri_unit_release(m, table, s));
  return tri_unit_release(m, head, s);
}

/* head.hs = norm of the chosen rows of m->x. */
static tri_status choose_rows(tri_model *m, const tri_block_call *c, tri_stream *s) {
  const tri_batch *b = c->batch;
  int64_t          K = b->row.dim[0], C = m->shape.C;
  tri_tensor       from = tri_rows_f32(m->x, b->token.dim[0], C), xs = tri_rows_f32(m->head.xs, K, C);
  tri_tensor       hs = tri_rows_act(m, m->head.hs, K, C), rstd = tri_view1(m->head.rstd, TRI_F32, K);

  TRI_ASSERT(K <= m->opt.max_rows);
  TRI_TRY(m->k->rows_get(s, &xs, &from, &b->row));
  return m->k->rmsnorm_fwd(s, &hs, &rstd, &xs, tri_weight_at(m, c, TRI_SLOT_FINAL_NORM), NULL,
                           &m->rules.norm);
}

/* m->back.dx = gradient of m->x, from head.dhs. */
static tri_status rows_backward(tri_model *m, const tri_block_call *c, tri_stream *s) {
  const tri_batch *b = c->batch;
  int64_t          K = b->row.dim[0], N = b->token.dim[0], C = m->shape.C;
  tri_tensor       xs = tri_rows_f32(m->head.xs, K, C), dxs = tri_rows_f32(m->head.dxs, K, C);
  tri_tensor       dhs = tri_rows_act(m, m->head.dhs, K, C), rstd = tri_view1(m->head.rstd, TRI_F32, K);
  tri_tensor       dx = tri_rows_f32(m->back.dx, N, C), view,
             *dnorm = tri_grad_at(m, c, TRI_SLOT_FINAL_NORM, &view);

  TRI_TRY(m->device->ops->fill(s, dxs.data, 0, (size_t)(K * C) * 4));
  TRI_TRY(m->device->ops->fill(s, dx.data, 0, (size_t)(N * C) * 4));
  TRI_TRY(m->k->rmsnorm_bwd(s, &dxs, dnorm, &dhs, &xs, tri_weight_at(m, c, TRI_SLOT_FINAL_NORM), &rstd,
                            &m->rules.norm));
  return m->k->rows_add(s, &dx, &dxs, &b->row);
}

tri_status tri_head_forward(tri_model *m, const tri_batch *b, float inv_temperature, tri_rows_out *out,
                            tri_stream *s) {
  tri_block_call c = {.mode = TRI_BLOCK_FORWARD, .batch = b}, table;
  int            span;

  TRI_TRY(acquire(m, &c, &table, -1, s));
  span = tri_unit_span(m, &c, s);
  TRI_TRY(choose_rows(m, &c, s));
  TRI_TRY(m->head.ops->forward(m, &table, inv_temperature, out, s));
  tri_trace_end(m->device->trace, span, s);
  return release(m, &c, &table, s);
}

tri_status tri_head_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d, float inv_temperature,
                             bool last, tri_stream *s) {
  tri_block_call c = {.mode = TRI_BLOCK_BACKWARD, .batch = b}, table;
  int            span;

  TRI_TRY(acquire(m, &c, &table, tri_unit_of_layer(m->shape.L - 1), s));
  span = tri_unit_span(m, &c, s);
  TRI_TRY(m->head.ops->backward(m, &table, d, inv_temperature, s));
  TRI_TRY(rows_backward(m, &c, s));
  tri_trace_end(m->device->trace, span, s);
  TRI_TRY(release(m, &c, &table, s));
  return tri_unit_learned(m, &c, last, s);
}

tri_status tri_head_sample(tri_model *m, const tri_batch *b, const tri_tensor *key,
                           const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp, tri_stream *s) {
  tri_block_call c = {.mode = TRI_BLOCK_DECODE, .batch = b}, table;

  TRI_ASSERT(m->head.ops->sample);
  TRI_TRY(acquire(m, &c, &table, -1, s));
  TRI_TRY(choose_rows(m, &c, s));
  TRI_TRY(m->head.ops->sample(m, &table, key, rule, token, logp, s));
  return release(m, &c, &table, s);
}
