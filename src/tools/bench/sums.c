/* sums.c - computes steps, floors and rates from the figures of a bench. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_run.h"

#include "tools/cost/cost.h"

static double passes_of(const tri_bench_case *c) { return (double)c->passes; }

double tri_bench_step_s(const tri_bench_case *c, const tri_bench_result *r) {
  return passes_of(c) * (r->learn.forward + r->learn.backward) + r->learn.pack + r->learn.update;
}

double tri_bench_update_floor_s(const tri_bench_result *r) { return r->update_bytes / r->read_bytes_per_s; }

double tri_bench_floor_s(const tri_bench_case *c, const tri_bench_result *r) {
  return passes_of(c) * (tri_products_forward_s(r->product, r->n_product) +
                         tri_products_backward_s(r->product, r->n_product)) +
         tri_bench_update_floor_s(r);
}

double tri_bench_tokens_per_s(const tri_bench_case *c, const tri_bench_result *r) {
  return passes_of(c) * (double)tri_bench_tokens(&c->size) * r->who.ranks / tri_bench_step_s(c, r);
}

double tri_bench_decode_floor_s(const tri_decode_times *d) { return d->bytes / d->read_bytes_per_s; }

/* Returns the ranks that generate as one model. */
static int ranks_of_model(const tri_bench_case *c) { return c->tensor ? c->tensor : 1; }

double tri_bench_decode_tokens_per_s(const tri_bench_case *c, const tri_bench_result *r,
                                     const tri_decode_times *d) {
  return (double)d->sequences * (r->who.ranks / ranks_of_model(c)) / d->step_s;
}

/* Returns the keys that the next token sees in a layer. */
static double seen(const tri_model_shape *s, int layer, int64_t tokens) {
  bool local = tri_kind_of(s, layer) == TRI_LOCAL;

  return (double)(local && s->attn.window < tokens ? s->attn.window : tokens);
}

double tri_bench_decode_bytes(const tri_bench_case *c, int64_t n, int64_t tokens) {
  const tri_model_shape *s = &c->shape;
  tri_cost_model         m = tri_cost_of_shape(s);
  double                 weights = tri_cost_layer_weights(&m) + tri_cost_head_weights(&m), keys = 0,
         states = 2 * sizeof(float) * (double)(m.recurrent.layers * m.recurrent.state);

  for (int l = 0; l < s->L; l++)
    if (!tri_is_recurrent(s, l)) keys += 2 * (double)m.kv * seen(s, l, tokens);
  return ((double)tri_dtype_bytes(c->dtype) * (weights + (double)n * keys) + (double)n * states) /
         ranks_of_model(c);
}
