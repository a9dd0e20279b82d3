/* head.c - final norm and logits of the chosen rows, a chunk at a time: log-probabilities, entropy, backward,
 * sampling. The logits of a long batch never exist at once; a batch of one chunk keeps them for backward. */
#include "decoder.h"

/* Chosen: at least 16 rows so that products stay efficient; 256 MiB of logits that tokens are drawn from. */
enum { LEAST_ROWS = 16, DRAW_BYTES = 256 << 20 };

static tri_status plan(tri_ledger *l, tri_phase phase, const char *name, size_t bytes, void *where) {
  return tri_ledger_add(l, TRI_MEM_DEVICE, phase, false, name, bytes, where);
}

static int64_t rows_of(size_t bytes, int64_t V) {
  int64_t rows = (int64_t)bytes / (4 * V);

  return rows < LEAST_ROWS ? LEAST_ROWS : rows;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

tri_status tri_head_plan(tri_model *m, tri_ledger *l) {
  int64_t K = m->opt.max_rows, C = m->shape.C, V = m->shape.V;
  size_t  a = tri_dtype_bytes(m->opt.dtype);

  m->chunk = least(rows_of(m->device->logit_bytes, V), K);
  m->draw_chunk = least(rows_of(DRAW_BYTES, V), m->chunk);
  TRI_TRY(plan(l, TRI_PHASE_ALWAYS, "head", (size_t)(K * C) * 4, &m->xs));
  TRI_TRY(plan(l, TRI_PHASE_ALWAYS, "head", (size_t)(K * C) * a, &m->hs));
  TRI_TRY(plan(l, TRI_PHASE_ALWAYS, "head", (size_t)K * 4, &m->rstd_s));
  TRI_TRY(plan(l, TRI_PHASE_ALWAYS, "head", (size_t)K * 4, &m->logp));
  TRI_TRY(plan(l, TRI_PHASE_ALWAYS, "head", (size_t)K * 4, &m->ent));
  TRI_TRY(plan(l, TRI_PHASE_ALWAYS, "head", (size_t)K * 4, &m->lse));
  TRI_TRY(plan(l, TRI_PHASE_LEARN, "logits", (size_t)(m->chunk * V) * 4, &m->logits));
  if (m->opt.rollout) {
    TRI_TRY(plan(l, TRI_PHASE_ROLLOUT, "logits", (size_t)(m->draw_chunk * V) * 4, &m->draw_logits));
    TRI_TRY(plan(l, TRI_PHASE_ROLLOUT, "head", (size_t)K * 4, &m->drawn));
    TRI_TRY(plan(l, TRI_PHASE_ROLLOUT, "logits", (size_t)(m->draw_chunk * V) * 8, &m->draw_work));
  }
  if (!m->opt.train) return TRI_OK;
  TRI_TRY(plan(l, TRI_PHASE_LEARN, "logits", (size_t)(m->chunk * V) * a, &m->dlogits));
  TRI_TRY(plan(l, TRI_PHASE_LEARN, "head", (size_t)(K * C) * a, &m->dhs));
  return plan(l, TRI_PHASE_LEARN, "head", (size_t)(K * C) * 4, &m->dxs);
}

/* Which tensor of its unit the output matrix is. */
static int table_param(const tri_model *m) { return m->shape.tied_head ? 0 : 1; }

/* Gathers the head (and the tied table); *w: norm at t[0], *table: the output matrix's unit. next:
 * prefetched. */
static tri_status acquire(tri_model *m, int use, int next, tri_weights *w, tri_weights *table,
                          tri_stream *s) {
  TRI_TRY(tri_params_acquire(m->params, tri_unit_of_head(m), use, m->shape.tied_head ? 0 : next, s, w));
  if (!m->shape.tied_head) {
    *table = *w;
    return TRI_OK;
  }
  return tri_params_acquire(m->params, 0, use, next, s, table);
}

static tri_status release(tri_model *m, tri_stream *s) {
  if (m->shape.tied_head) TRI_TRY(tri_params_release(m->params, 0, s));
  return tri_params_release(m->params, tri_unit_of_head(m), s);
}

/* hs = norm of the chosen rows of x. */
static tri_status choose_rows(tri_model *m, const tri_batch *b, const void *x, const tri_weights *w,
                              tri_stream *s) {
  int64_t    K = b->row.dim[0], C = m->shape.C;
  tri_tensor from = tri_rows_f32((void *)x, b->token.dim[0], C), xs = tri_rows_f32(m->xs, K, C);
  tri_tensor hs = tri_rows_act(m, m->hs, K, C), rstd = tri_view1(m->rstd_s, TRI_F32, K);

  TRI_ASSERT(K <= m->opt.max_rows);
  TRI_TRY(m->k->rows_get(s, &xs, &from, &b->row));
  return m->k->rmsnorm_fwd(s, &hs, &rstd, &xs, &w->t[0], m->shape.norm_eps);
}

/* Logits of chosen rows [first, first + n), to `to`. */
static tri_status logits_of(tri_model *m, const tri_weights *table, int64_t first, int64_t n, void *to,
                            tri_tensor *logits, tri_stream *s) {
  tri_tensor all = tri_rows_act(m, m->hs, m->opt.max_rows, m->shape.C), hs = tri_rows(&all, first, n);

  *logits = tri_rows_f32(to, n, m->shape.V);
  return m->k->linear_fwd(s, m->linear[TRI_LIN_HEAD], table->packed_fwd[0], logits, &hs, NULL, NULL);
}

/* K rows in as few chunks as there are, all of about one size. */
static int64_t chunk_rows(const tri_model *m, int64_t K) {
  int64_t n = (K + m->chunk - 1) / m->chunk;

  return n ? (K + n - 1) / n : 0;
}

static tri_tensor part(void *data, tri_dtype t, int64_t first, int64_t n) {
  tri_tensor v = tri_view1((char *)data + (size_t)first * tri_dtype_bytes(t), t, n);
  return v;
}

tri_status tri_head_forward(tri_model *m, const tri_batch *b, const void *x, float inv_temperature,
                            tri_rows_out *out, tri_stream *s) {
  int64_t     K = b->row.dim[0];
  tri_weights w, table;
  int         span;

  *out = (tri_rows_out){.logp = part(m->logp, TRI_F32, 0, K), .ent = part(m->ent, TRI_F32, 0, K)};
  m->kept_rows = 0;
  TRI_TRY(acquire(m, TRI_USE_FWD, -1, &w, &table, s));
  span = tri_unit_span(m, tri_unit_of_head(m), "forward", s);
  TRI_TRY(choose_rows(m, b, x, &w, s));
  for (int64_t first = 0, n; first < K; first += n) {
    n = least(K - first, chunk_rows(m, K));
    tri_tensor logits, lp = part(m->logp, TRI_F32, first, n), en = part(m->ent, TRI_F32, first, n);
    tri_tensor ls = part(m->lse, TRI_F32, first, n), target = part(b->target.data, TRI_I32, first, n);
    TRI_TRY(logits_of(m, &table, first, n, m->logits, &logits, s));
    TRI_TRY(m->k->logp_fwd(s, &lp, &en, &ls, &logits, &target, inv_temperature));
  }
  tri_trace_end(m->device->trace, span, s);
  if (K <= m->chunk) m->kept_rows = K;
  return release(m, s);
}

/* One chunk of rows: dlogits, then the output matrix's gradient (added to what is there, if add) and dhs. */
static tri_status chunk_backward(tri_model *m, const tri_batch *b, const tri_weights *table,
                                 tri_tensor *dtable, bool add, const tri_rows_out *d, float inv_temperature,
                                 int64_t first, int64_t n, tri_stream *s) {
  int64_t    C = m->shape.C;
  tri_tensor all = tri_rows_act(m, m->hs, m->opt.max_rows, C), hs = tri_rows(&all, first, n);
  tri_tensor dall = tri_rows_act(m, m->dhs, m->opt.max_rows, C), dhs = tri_rows(&dall, first, n);
  tri_tensor logits = tri_rows_f32(m->logits, n, m->shape.V),
             dlogits = tri_rows_act(m, m->dlogits, n, m->shape.V);
  tri_tensor lse = part(m->lse, TRI_F32, first, n), ent = part(m->ent, TRI_F32, first, n);
  tri_tensor target = part(b->target.data, TRI_I32, first, n);
  tri_tensor dl = part(d->logp.data, TRI_F32, first, n), de = part(d->ent.data, TRI_F32, first, n);

  if (m->kept_rows != b->row.dim[0]) TRI_TRY(logits_of(m, table, first, n, m->logits, &logits, s));
  TRI_TRY(m->k->logp_bwd(s, &dlogits, &logits, &target, &lse, &ent, &dl, &de, inv_temperature));
  TRI_TRY(m->k->linear_bwd_w(s, m->linear[TRI_LIN_HEAD], dtable, &dlogits, &hs, add));
  return m->k->linear_bwd_x(s, m->linear[TRI_LIN_HEAD], table->packed_bwd[0], &dhs, &dlogits, false);
}

tri_status tri_head_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d, float inv_temperature,
                             bool last, tri_stream *s) {
  int64_t     K = b->row.dim[0], C = m->shape.C, N = b->token.dim[0], first = 0;
  tri_weights w, table, dw, dtable;
  tri_tensor *dw_table;
  int         span;
  tri_tensor xs = tri_rows_f32(m->xs, K, C), dxs = tri_rows_f32(m->dxs, K, C), dx = tri_rows_f32(m->dx, N, C);
  tri_tensor dhs = tri_rows_act(m, m->dhs, K, C), rstd = tri_view1(m->rstd_s, TRI_F32, K);

  TRI_TRY(acquire(m, TRI_USE_FWD | TRI_USE_BWD, tri_unit_of_layer(m->shape.L - 1), &w, &table, s));
  TRI_TRY(tri_params_grad(m->params, tri_unit_of_head(m), s, &dw));
  dtable = dw;
  if (m->shape.tied_head) TRI_TRY(tri_params_grad(m->params, 0, s, &dtable));
  dw_table = &dtable.t[table_param(m)];
  span = tri_unit_span(m, tri_unit_of_head(m), "backward", s);
  do { /* no rows at all are a chunk too: its gradient is zero */
    int64_t n = least(K - first, chunk_rows(m, K));
    TRI_TRY(
        chunk_backward(m, b, &table, dw_table, first > 0 || !dtable.fresh, d, inv_temperature, first, n, s));
    first += n;
  } while (first < K);
  m->kept_rows = 0;
  TRI_TRY(m->device->ops->fill(s, m->dxs, 0, (size_t)(K * C) * 4));
  TRI_TRY(m->device->ops->fill(s, m->dx, 0, (size_t)(N * C) * 4));
  tri_tensor dnorm = tri_view1(dw.t[0].data, TRI_F32, C);
  TRI_TRY(m->k->rmsnorm_bwd(s, &dxs, &dnorm, &dhs, &xs, &w.t[0], &rstd));
  TRI_TRY(m->k->rows_add(s, &dx, &dxs, &b->row));
  tri_trace_end(m->device->trace, span, s);
  TRI_TRY(release(m, s));
  return tri_params_grad_done(m->params, tri_unit_of_head(m), s, last);
}

tri_status tri_head_sample(tri_model *m, const tri_batch *b, const void *x, const tri_tensor *key,
                           const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp, tri_stream *s) {
  int64_t     K = b->row.dim[0];
  tri_weights w, table;

  *token = part(m->drawn, TRI_I32, 0, K);
  *logp = part(m->logp, TRI_F32, 0, K);
  m->kept_rows = 0; /* their room is used */
  TRI_TRY(acquire(m, TRI_USE_FWD, -1, &w, &table, s));
  TRI_TRY(choose_rows(m, b, x, &w, s));
  for (int64_t first = 0; first < K; first += m->draw_chunk) {
    int64_t    n = least(K - first, m->draw_chunk);
    tri_tensor logits, tok = part(m->drawn, TRI_I32, first, n), lp = part(m->logp, TRI_F32, first, n);
    tri_tensor keys = tri_rows(key, first, n), work = tri_rows_f32(m->draw_work, n, 2 * m->shape.V);
    TRI_TRY(logits_of(m, &table, first, n, m->draw_logits, &logits, s));
    TRI_TRY(m->k->sample(s, &tok, &lp, &work, &logits, &keys, rule));
  }
  return release(m, s);
}
