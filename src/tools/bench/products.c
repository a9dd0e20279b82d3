/* products.c - times the matrix products of a layer and of the head, as a training pass computes them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "products.h"

#include "timed.h"

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

enum { LEAST_ROWS = 16 }; /* per chunk of logits, as in head_tokens.c */

/* Lists the products. The head's rows are divided into chunks whose logits fit the device. */
static void list(const tri_session *se, const tri_bench_case *c, tri_product_times *t) {
  const tri_model_shape *s = &c->shape;
  int64_t                C = s->C, F = s->F, q = (int64_t)s->H * s->D, N = tri_bench_tokens(&c->size),
          K = tri_bench_rows(&c->size), chunk, chunks;
  tri_device_advice advice;
  double            L = s->L, again = c->recompute ? L : 0;

  se->device->ops->advice(se->device, &advice);
  chunk = most((int64_t)advice.logit_bytes / (4 * (int64_t)s->V), LEAST_ROWS);
  chunks = (K + chunk - 1) / chunk;

  t[TRI_SLOT_QKV] = (tri_product_times){"q, k, v", q + 2 * (int64_t)s->G * s->D, C, N, L, again, 0, 0, 0};
  t[TRI_SLOT_O] = (tri_product_times){"attention out", C, q, N, L, again, 0, 0, 0};
  t[TRI_SLOT_GATE_UP] = (tri_product_times){"gate, up", 2 * F, C, N, L, again, 0, 0, 0};
  t[TRI_SLOT_DOWN] = (tri_product_times){"down", C, F, N, L, 0, 0, 0, 0};
  t[TRI_SLOT_HEAD] =
      (tri_product_times){"head", s->V, C, (K + chunks - 1) / chunks, (double)chunks, 0, 0, 0, 0};
}

/* Operands of one product. */
typedef struct operands {
  const tri_kernels *k;
  tri_linear        *l;
  const void        *fwd, *bwd; /* packed, or W itself */
  bool               joins;     /* y is the f32 residual stream, and the product is added to it */
  tri_tensor         w, x, y, dy, dx, dw;
} operands;

/* Lays out the operands in the block of *at. Without a block, only counts their bytes. */
static void lay_out(const tri_products *p, int i, const tri_product_times *t, tri_carve *at, operands *o,
                    void **work) {
  const tri_linear_bytes *b = &p->bytes[i];
  size_t                  A = tri_dtype_bytes(p->dtype), weights = (size_t)(t->n_out * t->n_in);
  tri_dtype               y = i == TRI_SLOT_QKV || i == TRI_SLOT_GATE_UP ? p->dtype : TRI_F32;

  *o = (operands){
      .k = p->se->device->ops->kernels, .l = p->linear[i], .joins = i == TRI_SLOT_O || i == TRI_SLOT_DOWN};
  o->w = tri_view2(tri_carve_next(at, weights * A), p->dtype, t->n_out, t->n_in);
  o->fwd = tri_carve_next(at, b->fwd);
  o->bwd = tri_carve_next(at, b->bwd);
  if (!b->fwd) o->fwd = o->w.data;
  if (!b->bwd) o->bwd = o->w.data;
  o->x = tri_view2(tri_carve_next(at, (size_t)(t->rows * t->n_in) * A), p->dtype, t->rows, t->n_in);
  o->y = tri_view2(tri_carve_next(at, (size_t)(t->rows * t->n_out) * 4), y, t->rows, t->n_out);
  o->dy = tri_view2(tri_carve_next(at, (size_t)(t->rows * t->n_out) * A), p->dtype, t->rows, t->n_out);
  o->dx = tri_view2(tri_carve_next(at, (size_t)(t->rows * t->n_in) * A), p->dtype, t->rows, t->n_in);
  o->dw = tri_view2(tri_carve_next(at, weights * 4), TRI_F32, t->n_out, t->n_in);
  *work = tri_carve_next(at, b->workspace);
}

tri_status tri_products_open(tri_session *se, const tri_bench_case *c, tri_products *p,
                             tri_product_times *out) {
  const tri_kernels *k = se->device->ops->kernels;

  *p = (tri_products){.se = se,
                      .dtype = c->dtype,
                      .learns = !c->lora.rank,
                      .n = c->head == TRI_HEAD_TOKENS ? TRI_SLOT_PRODUCTS : TRI_SLOT_HEAD};
  list(se, c, out);
  for (int i = 0; i < p->n; i++) {
    tri_linear_spec spec = {out[i].n_out, out[i].n_in, c->dtype, true, c->any_order};
    tri_carve       at = {0};
    operands        o;
    void           *work;
    TRI_TRY(k->linear_open(se->device, &spec, &p->linear[i]));
    TRI_TRY(k->linear_size(p->linear[i], &p->bytes[i]));
    lay_out(p, i, &out[i], &at, &o, &work);
    if (at.used > p->workspace) p->workspace = at.used;
  }
  return TRI_OK;
}

void tri_products_close(tri_products *p) {
  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++)
    if (p->linear[i] && p->se->device->ops->kernels->linear_close(&p->linear[i]) != TRI_OK) tri_error_clear();
}

static tri_status forward(void *ctx, tri_stream *s) {
  operands *o = ctx;

  return o->k->linear_fwd(s, o->l, o->fwd, &o->y, &o->x, NULL, o->joins ? &o->y : NULL);
}

static tri_status grad_x(void *ctx, tri_stream *s) {
  operands *o = ctx;

  return o->k->linear_bwd_x(s, o->l, o->bwd, &o->dx, &o->dy, false);
}

static tri_status grad_w(void *ctx, tri_stream *s) {
  operands *o = ctx;

  return o->k->linear_bwd_w(s, o->l, &o->dw, &o->dy, &o->x, false);
}

static tri_status fill(tri_products *p, operands *o, const tri_linear_bytes *b, void *fwd, void *bwd) {
  const tri_tensor *noisy[] = {&o->w, &o->x, &o->dy};

  for (int i = 0; i < 3; i++)
    TRI_TRY(tri_noise_put(p->se, noisy[i]->data, noisy[i]->dtype, tri_tensor_count(noisy[i])));
  if (!b->fwd && !b->bwd) return TRI_OK;
  return o->k->linear_pack(p->se->stream, o->l, b->fwd ? fwd : NULL, b->bwd ? bwd : NULL, &o->w, 0, 1);
}

static tri_status time_one(tri_products *p, int i, void *workspace, const tri_effort *e,
                           tri_product_times *t) {
  tri_carve at = {workspace, 0};
  operands  o;
  void     *work;

  lay_out(p, i, t, &at, &o, &work);
  TRI_TRY(o.k->linear_bind(o.l, work, p->bytes[i].workspace));
  TRI_TRY(fill(p, &o, &p->bytes[i], (void *)o.fwd, (void *)o.bwd));
  TRI_TRY(tri_timed(p->se, forward, &o, e, &t->forward_s));
  TRI_TRY(tri_timed(p->se, grad_x, &o, e, &t->grad_x_s));
  return p->learns ? tri_timed(p->se, grad_w, &o, e, &t->grad_w_s) : TRI_OK;
}

tri_status tri_products_time(tri_products *p, void *workspace, const tri_effort *e, tri_product_times *out) {
  for (int i = 0; i < p->n; i++) TRI_TRY(time_one(p, i, workspace, e, &out[i]));
  return TRI_OK;
}

double tri_product_flops(const tri_product_times *t) {
  return 2 * (double)t->rows * (double)t->n_out * (double)t->n_in;
}

double tri_products_forward_s(const tri_product_times *t, int n) {
  double s = 0;

  for (int i = 0; i < n; i++) s += t[i].in_pass * t[i].forward_s;
  return s;
}

double tri_products_backward_s(const tri_product_times *t, int n) {
  double s = 0;

  for (int i = 0; i < n; i++)
    s += t[i].in_pass * (t[i].grad_x_s + t[i].grad_w_s) + t[i].again * t[i].forward_s;
  return s;
}
