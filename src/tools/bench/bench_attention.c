/* bench_attention.c - times attention within sequences, as a training pass computes it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_attention.h"

#include "base/host_memory.h"
#include "tools/timer/timed.h"

/* Tensors of the kernels: N tokens in sequences of one length. */
typedef struct operands {
  const tri_kernels *k;
  tri_attn_rule      rule;
  tri_tensor         qkv, cu, o, lse, dout, dqkv, work;
} operands;

static void lay_out(const tri_device *d, const tri_bench_case *c, tri_carve *at, operands *a) {
  const tri_model_shape *s = &c->shape;
  tri_heads              h = {s->H, s->G, s->D};
  int64_t N = tri_bench_tokens(&c->size), q = (int64_t)s->H * s->D, E = q + 2 * (int64_t)s->G * s->D,
          S = c->size.sequences, work;
  tri_device_advice advice;
  size_t            A = tri_dtype_bytes(c->dtype), row = (size_t)N * A;

  d->ops->advice(d, &advice);
  work = tri_attn_workspace(&advice, &h, c->dtype, N);
  a->qkv = tri_view2(tri_carve_next(at, row * (size_t)E), c->dtype, N, E);
  a->dqkv = tri_view2(tri_carve_next(at, row * (size_t)E), c->dtype, N, E);
  a->o = tri_view2(tri_carve_next(at, row * (size_t)q), c->dtype, N, q);
  a->dout = tri_view2(tri_carve_next(at, row * (size_t)q), c->dtype, N, q);
  a->lse = tri_view2(tri_carve_next(at, (size_t)(N * s->H) * 4), TRI_F32, N, s->H);
  a->cu = tri_view1(tri_carve_next(at, (size_t)(S + 1) * 4), TRI_I32, S + 1);
  a->work = tri_view1(tri_carve_next(at, (size_t)work * 4), TRI_F32, work);
}

size_t tri_attention_workspace(const tri_device *d, const tri_bench_case *c) {
  tri_carve at = {0};
  operands  a;

  lay_out(d, c, &at, &a);
  return at.used;
}

static tri_status put_bounds(tri_session *se, const tri_bench_size *z, const tri_tensor *cu) {
  int32_t   *host = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(host, z->sequences + 1));
  for (int64_t i = 0; i <= z->sequences; i++) host[i] = (int32_t)(i * z->length);
  TRI_TRY_DONE(se->device->ops->copy(se->stream, cu->data, host, (size_t)(z->sequences + 1) * sizeof *host));
  TRI_TRY_DONE(se->device->ops->stream_sync(se->stream));
done:
  TRI_FREE(host);
  return st;
}

static tri_status forward(void *ctx, tri_stream *s) {
  operands *a = ctx;

  return a->k->attn_fwd(s, &a->o, &a->lse, &a->qkv, &a->cu, &a->rule);
}

/* Uses the o and lse that forward left. */
static tri_status backward(void *ctx, tri_stream *s) {
  operands *a = ctx;

  return a->k->attn_bwd(s, &a->dqkv, &a->work, &a->dout, &a->o, &a->lse, &a->qkv, &a->cu, &a->rule);
}

double tri_attention_pairs(int64_t length, int64_t window) {
  double T = (double)length, w = window > 0 && window < length ? (double)window : T;

  return w * (w + 1) / 2 + (T - w) * w;
}

double tri_attention_pass_s(const tri_attention_times t[TRI_KINDS]) {
  double s = 0;

  for (int k = 0; k < TRI_KINDS; k++) s += t[k].layers * (t[k].forward_s + t[k].backward_s);
  return s;
}

tri_status tri_attention_time(tri_session *se, const tri_bench_case *c, const tri_model *model,
                              void *workspace, const tri_effort *e, tri_attention_times out[TRI_KINDS]) {
  tri_carve  at = {workspace, 0};
  operands   a = {.k = se->device->ops->kernels};
  tri_timer  timer = tri_timer_of(se);
  tri_timing fwd, bwd;

  for (int k = 0; k < TRI_KINDS; k++) out[k] = (tri_attention_times){0};
  for (int l = 0; l < c->shape.L; l++)
    if (!tri_is_recurrent(&c->shape, l)) out[tri_kind_of(&c->shape, l)].layers++;
  lay_out(se->device, c, &at, &a);
  TRI_TRY(tri_noise_put(se->stream, a.qkv.data, c->dtype, tri_tensor_count(&a.qkv)));
  TRI_TRY(tri_noise_put(se->stream, a.dout.data, c->dtype, tri_tensor_count(&a.dout)));
  TRI_TRY(put_bounds(se, &c->size, &a.cu));
  for (int k = 0; k < TRI_KINDS; k++) {
    if (!out[k].layers) continue;
    a.rule = tri_model_attention(model, (tri_layer_kind)k);
    a.rule.heads = (tri_heads){c->shape.H, c->shape.G, c->shape.D}; /* generation may divide them */
    a.rule.longest = c->size.length;
    out[k].window = a.rule.window;
    out[k].flops = 4.0 * c->shape.H * c->shape.D * (double)c->size.sequences *
                   tri_attention_pairs(c->size.length, a.rule.window);
    TRI_TRY(tri_timed(&timer, forward, &a, e, &fwd));
    TRI_TRY(tri_timed(&timer, backward, &a, e, &bwd));
    out[k].forward_s = fwd.median_s;
    out[k].backward_s = bwd.median_s;
  }
  return TRI_OK;
}
