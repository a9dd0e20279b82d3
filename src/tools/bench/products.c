/* products.c - times the matrix products of a layer and of the head, as a training pass computes them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "products.h"

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

enum { LEAST_ROWS = 16 }; /* per chunk of logits, as in head_tokens.c */

/* Adds a product of this many layers, unless there are none. `again` is true if it runs forward once more. */
static void add(tri_products *p, tri_product_times *out, tri_slot slot, const char *name, int64_t n_out,
                int64_t n_in, int64_t rows, double layers, bool again) {
  if (layers == 0) return;
  out[p->n] = (tri_product_times){name, n_out, n_in, rows, layers, again ? layers : 0, 0, 0, 0};
  p->slot[p->n++] = slot;
}

/* Lists the products. The head's rows are divided into chunks whose logits fit the device. */
static void list(const tri_bench_case *c, tri_products *p, tri_product_times *t) {
  const tri_model_shape *s = &c->shape;
  const tri_delta_shape *d = &s->delta;
  int64_t                C = s->C, F = s->F, q = (int64_t)s->H * s->D, N = tri_bench_tokens(&c->size),
          K = tri_bench_rows(&c->size), z = (int64_t)d->Hv * d->Dv, chunk, chunks;
  double            L = s->L, recurrent = tri_recurrent_layers(s), attend = L - recurrent;
  bool              again = c->recompute;
  tri_device_advice advice;

  p->se->device->ops->advice(p->se->device, &advice);
  chunk = most((int64_t)advice.logit_bytes / (4 * (int64_t)s->V), LEAST_ROWS);
  chunks = (K + chunk - 1) / chunk;

  add(p, t, TRI_SLOT_QKV, s->attn_gate ? "q, gate, k, v" : "q, k, v",
      (s->attn_gate ? 2 : 1) * q + 2 * (int64_t)s->G * s->D, C, N, attend, again);
  add(p, t, TRI_SLOT_O, "attention out", C, q, N, attend, again);
  add(p, t, TRI_SLOT_DELTA_QKV, "delta q, k, v", 2 * (int64_t)d->Hk * d->Dk + z, C, N, recurrent, again);
  add(p, t, TRI_SLOT_DELTA_Z, "delta z", z, C, N, recurrent, again);
  add(p, t, TRI_SLOT_DELTA_BA, "delta b, a", 2 * (int64_t)d->Hv, C, N, recurrent, again);
  add(p, t, TRI_SLOT_DELTA_OUT, "delta out", C, z, N, recurrent, again);
  add(p, t, TRI_SLOT_GATE_UP, "gate, up", 2 * F, C, N, L, again);
  add(p, t, TRI_SLOT_DOWN, "down", C, F, N, L, false);
  if (c->head == TRI_HEAD_TOKENS)
    add(p, t, TRI_SLOT_HEAD, "head", s->V, C, (K + chunks - 1) / chunks, (double)chunks, false);
}

tri_status tri_products_open(tri_session *se, const tri_bench_case *c, tri_products *p,
                             tri_product_times *out) {
  *p = (tri_products){.se = se, .learns = !c->lora.rank};
  list(c, p, out);
  for (int i = 0; i < p->n; i++) {
    tri_linear_spec spec = {out[i].n_out, out[i].n_in, c->dtype, true, c->any_order, NULL};
    TRI_TRY(tri_timed_product_open(se->device, &spec, out[i].rows, &p->product[i]));
    if (p->product[i].memory_bytes > p->workspace) p->workspace = p->product[i].memory_bytes;
  }
  return TRI_OK;
}

void tri_products_close(tri_products *p) {
  for (int i = 0; i < TRI_SLOT_PRODUCTS; i++) tri_timed_product_close(&p->product[i]);
}

/* Returns the forward call of a model's product. The last products of attention, recurrent part and mlp add
 * to the f32 residual stream, and logits are f32. */
static tri_product_call forward_of(tri_slot slot) {
  bool adds = slot == TRI_SLOT_O || slot == TRI_SLOT_DELTA_OUT || slot == TRI_SLOT_DOWN;

  return adds ? TRI_PRODUCT_FWD_ADD : slot == TRI_SLOT_HEAD ? TRI_PRODUCT_FWD_F32 : TRI_PRODUCT_FWD;
}

static tri_status time_one(tri_products *p, int i, void *workspace, const tri_effort *e,
                           tri_product_times *t) {
  tri_timed_product *one = &p->product[i];
  tri_timer          timer = tri_timer_of(p->se);
  tri_timing         fwd, bwd_x, bwd_w = {0};

  TRI_TRY(tri_timed_product_start(one, workspace, p->se->stream));
  TRI_TRY(tri_timed_product_time(one, forward_of(p->slot[i]), t->rows, &timer, e, &fwd));
  TRI_TRY(tri_timed_product_time(one, TRI_PRODUCT_BWD_X, t->rows, &timer, e, &bwd_x));
  if (p->learns) TRI_TRY(tri_timed_product_time(one, TRI_PRODUCT_BWD_W, t->rows, &timer, e, &bwd_w));
  t->forward_s = fwd.median_s;
  t->grad_x_s = bwd_x.median_s;
  t->grad_w_s = bwd_w.median_s;
  return TRI_OK;
}

tri_status tri_products_time(tri_products *p, void *workspace, const tri_effort *e, tri_product_times *out) {
  for (int i = 0; i < p->n; i++) TRI_TRY(time_one(p, i, workspace, e, &out[i]));
  return TRI_OK;
}

double tri_product_flops(const tri_product_times *t) {
  return tri_timed_product_flops(t->rows, t->n_out, t->n_in);
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
