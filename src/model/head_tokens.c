/* head_tokens.c - logits of the chosen rows over the vocabulary, chunk by chunk: log-probabilities, entropy,
 * backward, sampling. The logits of a long batch never exist at once. The last chunk's are kept for backward
 * if one chunk holds the batch. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decoder.h"
#include "product.h"

/* Chosen. At least 16 rows, to keep products efficient. At most 256 MiB of logits when drawing tokens, and at
 * most a quarter of the advised bytes, since drawing needs three times the memory of its logits. 1 GiB if the
 * model does not learn, because no chunk then adds to the gradient of the matrix. */
enum { LEAST_ROWS = 16, DRAW_BYTES = 256 << 20, SCORE_BYTES = 1 << 30 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t rows_of(const tri_model *m, int64_t most_bytes) {
  int64_t rows = least((int64_t)m->advice.logit_bytes, most_bytes) / (4 * m->shape.V);

  return rows < LEAST_ROWS ? LEAST_ROWS : rows;
}

static int64_t vocabulary(const tri_model *m) { return m->shape.V; }

static tri_status plan(tri_model *m, tri_ledger *l) {
  tri_head *h = &m->head;
  int64_t   V = m->shape.V;
  size_t    K = (size_t)m->opt.max_rows;

  h->chunk = least(rows_of(m, m->opt.train ? INT64_MAX : SCORE_BYTES), m->opt.max_rows);
  h->draw_chunk = least(rows_of(m, least(DRAW_BYTES, (int64_t)m->advice.logit_bytes / 4)), h->chunk);
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_ALWAYS, "head", K * 4, &h->logp));
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_ALWAYS, "head", K * 4, &h->ent));
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_ALWAYS, "head", K * 4, &h->lse));
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_LEARN, "logits", (size_t)(h->chunk * V) * 4, &h->logits));
  if (m->opt.rollout) {
    TRI_TRY(
        tri_head_workspace(l, TRI_PHASE_ROLLOUT, "logits", (size_t)(h->draw_chunk * V) * 4, &h->draw_logits));
    TRI_TRY(tri_head_workspace(l, TRI_PHASE_ROLLOUT, "head", K * 4, &h->drawn));
    TRI_TRY(
        tri_head_workspace(l, TRI_PHASE_ROLLOUT, "logits", (size_t)(h->draw_chunk * V) * 8, &h->draw_work));
  }
  if (!m->opt.train) return TRI_OK;
  TRI_TRY(tri_head_workspace(l, TRI_PHASE_LEARN, "head", m->rules.logits != 1.0f ? K * 8 : 0, &h->dscaled));
  return tri_head_workspace(l, TRI_PHASE_LEARN, "logits",
                            (size_t)(h->chunk * V) * tri_dtype_bytes(m->opt.dtype), &h->dlogits);
}

/* Elements [first, first + n) of one of the head's buffers. */
static tri_tensor part(void *data, tri_dtype t, int64_t first, int64_t n) {
  return tri_view1((char *)data + (size_t)first * tri_dtype_bytes(t), t, n);
}

/* Writes the logits of chosen rows [first, first + n) to `to`, scaled and capped if the model does so. */
static tri_status logits_of(tri_model *m, const tri_block_call *c, int64_t first, int64_t n, void *to,
                            tri_tensor *logits, tri_stream *s) {
  tri_tensor all = tri_rows_act(m, m->head.hs, m->opt.max_rows, m->shape.C), hs = tri_rows(&all, first, n);

  *logits = tri_rows_f32(to, n, m->shape.V);
  TRI_TRY(tri_is_divided(m, c) ? tri_divided_product(m, c, TRI_SLOT_HEAD, logits, &hs, NULL, s)
                               : tri_product_fwd(m, c, TRI_SLOT_HEAD, logits, &hs, NULL, s));
  if (m->rules.logits != 1.0f) TRI_TRY(m->k->axpby(s, logits, m->rules.logits, logits, 0));
  return m->shape.logit_softcap > 0 ? m->k->softcap_fwd(s, logits, (float)m->shape.logit_softcap) : TRI_OK;
}

/* Returns the rows of a chunk. K rows take as few chunks as possible, all of about one size. */
static int64_t chunk_rows(const tri_model *m, int64_t K) {
  int64_t n = (K + m->head.chunk - 1) / m->head.chunk;

  return n ? (K + n - 1) / n : 0;
}

static tri_status forward(tri_model *m, const tri_block_call *c, float inv_temperature, tri_rows_out *out,
                          tri_stream *s) {
  tri_head *h = &m->head;
  int64_t   K = c->batch->row.dim[0];

  h->kept_rows = 0;
  *out = (tri_rows_out){.logp = part(h->logp, TRI_F32, 0, K), .ent = part(h->ent, TRI_F32, 0, K)};
  for (int64_t first = 0, n; first < K; first += n) {
    n = least(K - first, chunk_rows(m, K));
    tri_tensor logits, logp = tri_rows(&out->logp, first, n), ent = tri_rows(&out->ent, first, n);
    tri_tensor lse = part(h->lse, TRI_F32, first, n), target = tri_rows(&c->batch->target, first, n);
    TRI_TRY(logits_of(m, c, first, n, h->logits, &logits, s));
    TRI_TRY(m->k->logp_fwd(s, &logp, &ent, &lse, &logits, &target, inv_temperature));
  }
  h->kept_rows = K <= h->chunk ? K : 0;
  return TRI_OK;
}

/* Backward of one chunk of rows. Computes dlogits, then the gradient of the matrix and dhs. */
static tri_status chunk_backward(tri_model *m, const tri_block_call *c, const tri_rows_out *d,
                                 float inv_temperature, int64_t first, int64_t n, tri_stream *s) {
  tri_head  *h = &m->head;
  int64_t    C = m->shape.C;
  tri_tensor all = tri_rows_act(m, h->hs, m->opt.max_rows, C), hs = tri_rows(&all, first, n);
  tri_tensor dall = tri_rows_act(m, h->dhs, m->opt.max_rows, C), dhs = tri_rows(&dall, first, n);
  tri_tensor logits = tri_rows_f32(h->logits, n, m->shape.V),
             dlogits = tri_rows_act(m, h->dlogits, n, m->shape.V);
  tri_tensor lse = part(h->lse, TRI_F32, first, n), ent = part(h->ent, TRI_F32, first, n);
  tri_tensor target = tri_rows(&c->batch->target, first, n);
  tri_tensor dlogp = tri_rows(&d->logp, first, n), dent = tri_rows(&d->ent, first, n);

  if (h->kept_rows != c->batch->row.dim[0]) TRI_TRY(logits_of(m, c, first, n, h->logits, &logits, s));
  TRI_TRY(m->k->logp_bwd(s, &dlogits, &logits, &target, &lse, &ent, &dlogp, &dent, inv_temperature));
  if (m->shape.logit_softcap > 0)
    TRI_TRY(m->k->softcap_bwd(s, &dlogits, &logits, (float)m->shape.logit_softcap));
  TRI_TRY(tri_product_bwd_w(m, c, TRI_SLOT_HEAD, &dlogits, &hs, s));
  return tri_product_bwd_x(m, c, TRI_SLOT_HEAD, &dhs, &dlogits, false, s);
}

/* For scaled logits, multiplies the derivatives by the scale. logp_bwd is linear in them, so it then gives
 * the derivatives by the product's own logits. */
static tri_status scale_derivatives(tri_model *m, const tri_rows_out *d, int64_t K, tri_rows_out *out,
                                    tri_stream *s) {
  *out = *d;
  if (m->rules.logits == 1.0f) return TRI_OK;
  out->logp = part(m->head.dscaled, TRI_F32, 0, K);
  out->ent = part(m->head.dscaled, TRI_F32, K, K);
  TRI_TRY(m->k->axpby(s, &out->logp, m->rules.logits, &d->logp, 0));
  return m->k->axpby(s, &out->ent, m->rules.logits, &d->ent, 0);
}

static tri_status backward(tri_model *m, tri_block_call *c, const tri_rows_out *d, float inv_temperature,
                           tri_stream *s) {
  int64_t      K = c->batch->row.dim[0], first = 0;
  tri_rows_out scaled;

  TRI_TRY(scale_derivatives(m, d, K, &scaled, s));
  do { /* no rows are a chunk too, with gradient zero */
    int64_t n = least(K - first, chunk_rows(m, K));
    TRI_TRY(chunk_backward(m, c, &scaled, inv_temperature, first, n, s));
    c->dw.fresh = false;
    first += n;
  } while (first < K);
  m->head.kept_rows = 0;
  return TRI_OK;
}

static tri_status sample(tri_model *m, const tri_block_call *c, const tri_tensor *key,
                         const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp, tri_stream *s) {
  tri_head *h = &m->head;
  int64_t   K = c->batch->row.dim[0];

  *token = part(h->drawn, TRI_I32, 0, K);
  *logp = part(h->logp, TRI_F32, 0, K);
  h->kept_rows = 0; /* sampling reuses the memory of the head */
  for (int64_t first = 0; first < K; first += h->draw_chunk) {
    int64_t    n = least(K - first, h->draw_chunk);
    tri_tensor logits, tok = tri_rows(token, first, n), lp = tri_rows(logp, first, n);
    tri_tensor keys = tri_rows(key, first, n), work = tri_rows_f32(h->draw_work, n, 2 * m->shape.V);
    TRI_TRY(logits_of(m, c, first, n, h->draw_logits, &logits, s));
    TRI_TRY(m->k->sample(s, &tok, &lp, &work, &logits, &keys, rule));
  }
  return TRI_OK;
}

const tri_head_ops tri_head_tokens = {vocabulary, plan, forward, backward, sample};
