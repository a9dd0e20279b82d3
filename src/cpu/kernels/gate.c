/* gate.c - gates of recurrent models: the gated norm behind the delta rule, and the gate of attention. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include <string.h>

enum {
  PARTS = 64,    /* partial sums of dw. A fixed number makes the order independent of the thread count */
  ROW_BLOCK = 32 /* heads of a sum within a part */
};

/* Returns the sum over i of o[i]^2. */
static TRI_CPU_EACH float square_of(const tri_dtype A, const void *o, int64_t n) {
  float   lane[TRI_CPU_LANES] = {0};
  int64_t i = 0;
  for (; i + TRI_CPU_LANES <= n; i += TRI_CPU_LANES) {
#pragma omp simd
    for (int j = 0; j < TRI_CPU_LANES; j++)
      lane[j] = fmaf(tri_cpu_get(o, A, i + j), tri_cpu_get(o, A, i + j), lane[j]);
  }
  for (int j = 0; i + j < n; j++) lane[j] = fmaf(tri_cpu_get(o, A, i + j), tri_cpu_get(o, A, i + j), lane[j]);
  return tri_cpu_fold_sum(lane);
}

/* y = w o rstd silu(z) for one head. Returns rstd. */
static TRI_CPU_EACH float gate_head(const tri_dtype A, void *y, const void *o, const void *z, const void *w,
                                    int64_t n, float eps) {
  float rstd = 1.0f / sqrtf(square_of(A, o, n) / (float)n + eps), own[TRI_DELTA_MOST];
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    own[i] = tri_cpu_get(o, A, i) * rstd * tri_cpu_get(w, A, i) * tri_silu(tri_cpu_get(z, A, i));
  tri_cpu_narrow(A, y, own, n, 1.0f);
  return rstd;
}

static void check_gated(tri_in o, tri_in z, tri_in w, const tri_delta_rule *rule) {
  TRI_ASSERT(rule->Dv > 0 && rule->Dv <= TRI_DELTA_MOST && w->dim[0] == rule->Dv);
  TRI_ASSERT(o->dim[1] == (int64_t)rule->Hv * rule->Dv && tri_cpu_same_rows(z, o) && w->dtype == o->dtype);
}

tri_status tri_cpu_gate_norm_fwd(tri_stream *s, tri_out y, tri_out rstd, tri_in o, tri_in z, tri_in w,
                                 const tri_delta_rule *rule) {
  int64_t   D = rule->Dv, heads = o->dim[0] * rule->Hv;
  tri_dtype A = tri_cpu_type(o);

  check_gated(o, z, w, rule);
  TRI_ASSERT(tri_cpu_same_rows(y, o));
  TRI_ASSERT(!rstd || (rstd->dtype == TRI_F32 && tri_tensor_count(rstd) == heads));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 10 * heads * D))
  for (int64_t i = 0; i < heads; i++) {
    float r = TRI_CPU_OF(A, gate_head, tri_cpu_at_out(y->data, A, i * D), tri_cpu_at(o->data, A, i * D),
                         tri_cpu_at(z->data, A, i * D), w->data, D, rule->eps);
    if (rstd) ((float *)rstd->data)[i] = r;
  }
  return TRI_OK;
}

/* The gradients of one head. With h = dy w silu(z), dout = rstd (h - o rstd^2 mean(h o)), dz = dy w o rstd
 * silu'(z), and dy o rstd silu(z) is added to dw. y may be NULL. */
static TRI_CPU_EACH void gate_head_bwd(const tri_dtype A, void *dout, void *dz, void *y, float *dw,
                                       const void *dy, const void *o, const void *z, const void *w, int64_t n,
                                       float rstd) {
  float   h[TRI_DELTA_MOST], slope[TRI_DELTA_MOST], out[TRI_DELTA_MOST], lane[TRI_CPU_LANES] = {0}, mean;
  int64_t i = 0;

#pragma omp simd
  for (int64_t c = 0; c < n; c++) {
    float x = tri_cpu_get(z, A, c), gate = tri_sigmoid(x), d = tri_cpu_get(dy, A, c);
    float weight = tri_cpu_get(w, A, c), unit = tri_cpu_get(o, A, c) * rstd, open = x * gate;
    h[c] = d * weight * open;
    slope[c] = d * weight * unit * (gate * fmaf(x, 1.0f - gate, 1.0f));
    out[c] = unit * weight * open;
    dw[c] = fmaf(d * unit, open, dw[c]);
  }
  for (; i + TRI_CPU_LANES <= n; i += TRI_CPU_LANES) {
#pragma omp simd
    for (int j = 0; j < TRI_CPU_LANES; j++) lane[j] = fmaf(h[i + j], tri_cpu_get(o, A, i + j), lane[j]);
  }
  for (int j = 0; i + j < n; j++) lane[j] = fmaf(h[i + j], tri_cpu_get(o, A, i + j), lane[j]);
  mean = tri_cpu_fold_sum(lane) / (float)n * rstd * rstd;
#pragma omp simd
  for (int64_t c = 0; c < n; c++) h[c] = rstd * fmaf(-tri_cpu_get(o, A, c), mean, h[c]);
  if (y) tri_cpu_narrow(A, y, out, n, 1.0f);
  tri_cpu_narrow(A, dz, slope, n, 1.0f);
  tri_cpu_narrow(A, dout, h, n, 1.0f);
}

typedef struct gate_call { /* the arguments of one gate_norm_bwd */
  void        *dout, *dz, *y;
  const void  *dy, *o, *z, *w;
  const float *rstd;
  tri_dtype    A;
  int64_t      D;
} gate_call;

/* Processes heads first .. end - 1 and sets dw [D] to their sums. */
static void gate_part(float *dw, const gate_call *c, int64_t first, int64_t end) {
  float block[TRI_DELTA_MOST];

  memset(dw, 0, (size_t)c->D * sizeof *dw);
  for (int64_t at = first; at < end; at += ROW_BLOCK) {
    memset(block, 0, sizeof block);
    for (int64_t i = at; i < end && i < at + ROW_BLOCK; i++) {
      int64_t e = i * c->D;
      TRI_CPU_OF(c->A, gate_head_bwd, tri_cpu_at_out(c->dout, c->A, e), tri_cpu_at_out(c->dz, c->A, e),
                 c->y ? tri_cpu_at_out(c->y, c->A, e) : NULL, block, tri_cpu_at(c->dy, c->A, e),
                 tri_cpu_at(c->o, c->A, e), tri_cpu_at(c->z, c->A, e), c->w, c->D, c->rstd[i]);
    }
#pragma omp simd
    for (int64_t i = 0; i < c->D; i++) dw[i] += block[i];
  }
}

tri_status tri_cpu_gate_norm_bwd(tri_stream *s, tri_out dout, tri_out dz, tri_out y, tri_out dw, tri_in dy,
                                 tri_in o, tri_in z, tri_in w, tri_in rstd, const tri_delta_rule *rule) {
  float     part[PARTS][TRI_DELTA_MOST];
  int64_t   D = rule->Dv, heads = o->dim[0] * rule->Hv, each = (heads + PARTS - 1) / PARTS;
  gate_call c = {dout->data, dz->data, y ? y->data : NULL, dy->data, o->data,
                 z->data,    w->data,  rstd->data,         o->dtype, D};

  check_gated(o, z, w, rule);
  TRI_ASSERT(tri_dtype_computes(o->dtype) && tri_cpu_same_rows(dy, o) && tri_cpu_same_rows(dout, o));
  TRI_ASSERT(tri_cpu_same_rows(dz, o) && (!y || tri_cpu_same_rows(y, o)));
  TRI_ASSERT(rstd->dtype == TRI_F32 && tri_tensor_count(rstd) == heads);
  TRI_ASSERT(!dw || (dw->dtype == TRI_F32 && dw->dim[0] == D));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 20 * heads * D))
  for (int p = 0; p < PARTS; p++)
    gate_part(part[p], &c, p * each < heads ? p * each : heads,
              (p + 1) * each < heads ? (p + 1) * each : heads);
  for (int p = 0; dw && p < PARTS; p++) {
#pragma omp simd
    for (int64_t i = 0; i < D; i++) ((float *)dw->data)[i] += part[p][i];
  }
  return TRI_OK;
}

/* ---- the gate of attention ---- */

static void check_split(tri_in qkv, tri_in gate, tri_in raw, const tri_heads *h) {
  TRI_ASSERT(qkv->dim[1] == (int64_t)(h->H + 2 * h->G) * h->D && gate->dim[1] == (int64_t)h->H * h->D);
  TRI_ASSERT(raw->dim[1] == qkv->dim[1] + gate->dim[1] && raw->dim[0] == qkv->dim[0]);
  TRI_ASSERT(gate->dim[0] == qkv->dim[0] && gate->dtype == qkv->dtype && raw->dtype == qkv->dtype);
}

tri_status tri_cpu_split_gate(tri_stream *s, tri_out qkv, tri_out gate, tri_in raw, const tri_heads *h) {
  int64_t N = raw->dim[0], E = qkv->dim[1], H = h->H, D = h->D;
  size_t  size = tri_dtype_bytes(tri_cpu_type(raw));

  check_split(qkv, gate, raw, h);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *(E + H * D)))
  for (int64_t n = 0; n < N; n++) {
    const char *from = (const char *)raw->data + (size_t)(n * (E + H * D)) * size;
    char       *q = (char *)qkv->data + (size_t)(n * E) * size;
    char       *g = (char *)gate->data + (size_t)(n * H * D) * size;
    size_t      head = (size_t)D * size;
    for (int64_t i = 0; i < H; i++) {
      memcpy(q + (size_t)i * head, from + (size_t)(2 * i) * head, head);
      memcpy(g + (size_t)i * head, from + (size_t)(2 * i + 1) * head, head);
    }
    memcpy(q + (size_t)H * head, from + (size_t)(2 * H) * head, (size_t)(2 * h->G) * head);
  }
  return TRI_OK;
}

tri_status tri_cpu_join_gate(tri_stream *s, tri_out raw, tri_in qkv, tri_in gate, const tri_heads *h) {
  int64_t N = raw->dim[0], E = qkv->dim[1], H = h->H, D = h->D;
  size_t  size = tri_dtype_bytes(tri_cpu_type(raw));

  check_split(qkv, gate, raw, h);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *(E + H * D)))
  for (int64_t n = 0; n < N; n++) {
    char       *to = (char *)raw->data + (size_t)(n * (E + H * D)) * size;
    const char *q = (const char *)qkv->data + (size_t)(n * E) * size;
    const char *g = (const char *)gate->data + (size_t)(n * H * D) * size;
    size_t      head = (size_t)D * size;
    for (int64_t i = 0; i < H; i++) {
      memcpy(to + (size_t)(2 * i) * head, q + (size_t)i * head, head);
      memcpy(to + (size_t)(2 * i + 1) * head, g + (size_t)i * head, head);
    }
    memcpy(to + (size_t)(2 * H) * head, q + (size_t)H * head, (size_t)(2 * h->G) * head);
  }
  return TRI_OK;
}

static TRI_CPU_EACH void gate_row(const tri_dtype A, void *y, const void *o, const void *gate, int64_t n) {
  float own[TRI_CPU_PIECE];

  for (int64_t at = 0; at < n; at += TRI_CPU_PIECE) {
    int64_t m = n - at < TRI_CPU_PIECE ? n - at : TRI_CPU_PIECE;
#pragma omp simd
    for (int64_t i = 0; i < m; i++)
      own[i] = tri_cpu_get(o, A, at + i) * tri_sigmoid(tri_cpu_get(gate, A, at + i));
    tri_cpu_narrow(A, tri_cpu_at_out(y, A, at), own, m, 1.0f);
  }
}

/* dout = dy sigmoid(gate), dgate = dy o sigmoid'(gate), and y has the bits of gate_row. y may be NULL. */
static TRI_CPU_EACH void gate_row_bwd(const tri_dtype A, void *dout, void *dgate, void *y, const void *dy,
                                      const void *o, const void *gate, int64_t n) {
  float own[3][TRI_CPU_PIECE];

  for (int64_t at = 0; at < n; at += TRI_CPU_PIECE) {
    int64_t m = n - at < TRI_CPU_PIECE ? n - at : TRI_CPU_PIECE;
#pragma omp simd
    for (int64_t i = 0; i < m; i++) {
      float open = tri_sigmoid(tri_cpu_get(gate, A, at + i)), x = tri_cpu_get(o, A, at + i);
      float d = tri_cpu_get(dy, A, at + i);
      own[0][i] = d * open;
      own[1][i] = d * x * (open * (1.0f - open));
      own[2][i] = x * open;
    }
    tri_cpu_narrow(A, tri_cpu_at_out(dout, A, at), own[0], m, 1.0f);
    tri_cpu_narrow(A, tri_cpu_at_out(dgate, A, at), own[1], m, 1.0f);
    if (y) tri_cpu_narrow(A, tri_cpu_at_out(y, A, at), own[2], m, 1.0f);
  }
}

tri_status tri_cpu_gate_fwd(tri_stream *s, tri_out y, tri_in o, tri_in gate) {
  int64_t   N = o->dim[0], W = o->dim[1];
  tri_dtype A = tri_cpu_type(o);

  TRI_ASSERT(tri_cpu_same_rows(y, o) && tri_cpu_same_rows(gate, o));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * N * W))
  for (int64_t n = 0; n < N; n++)
    TRI_CPU_OF(A, gate_row, tri_cpu_at_out(y->data, A, n * W), tri_cpu_at(o->data, A, n * W),
               tri_cpu_at(gate->data, A, n * W), W);
  return TRI_OK;
}

tri_status tri_cpu_gate_bwd(tri_stream *s, tri_out dout, tri_out dgate, tri_out y, tri_in dy, tri_in o,
                            tri_in gate) {
  int64_t   N = o->dim[0], W = o->dim[1];
  tri_dtype A = tri_cpu_type(o);

  TRI_ASSERT(tri_cpu_same_rows(dout, o) && tri_cpu_same_rows(dgate, o) && (!y || tri_cpu_same_rows(y, o)));
  TRI_ASSERT(tri_cpu_same_rows(dy, o) && tri_cpu_same_rows(gate, o));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * N * W))
  for (int64_t n = 0; n < N; n++)
    TRI_CPU_OF(A, gate_row_bwd, tri_cpu_at_out(dout->data, A, n * W), tri_cpu_at_out(dgate->data, A, n * W),
               y ? tri_cpu_at_out(y->data, A, n * W) : NULL, tri_cpu_at(dy->data, A, n * W),
               tri_cpu_at(o->data, A, n * W), tri_cpu_at(gate->data, A, n * W), W);
  return TRI_OK;
}
