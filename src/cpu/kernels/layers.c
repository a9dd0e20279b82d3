/* layers.c - embedding, rotary positions, gated products and selection of rows. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include <string.h>

tri_status tri_cpu_embed_fwd(tri_stream *s, tri_out x, tri_in table, tri_in token, float scale) {
  int64_t        N = token->dim[0], V = table->dim[0], C = table->dim[1];
  const int32_t *id = token->data;
  tri_dtype      A = tri_cpu_type(table);

  TRI_ASSERT(x->dtype == TRI_F32 && x->dim[0] == N && x->dim[1] == C);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *C))
  for (int64_t n = 0; n < N; n++) {
    float *to = (float *)x->data + n * C;
    TRI_ASSERT(id[n] >= 0 && id[n] < V);
    TRI_CPU_OF(A, tri_cpu_widen, to, tri_cpu_at(table->data, A, id[n] * C), C, scale);
  }
  return TRI_OK;
}

/* Every thread owns a stripe of columns and adds all tokens in order. */
tri_status tri_cpu_embed_bwd(tri_stream *s, tri_out dtable, tri_in dx, tri_in token, float scale) {
  int64_t        N = token->dim[0], V = dtable->dim[0], C = dtable->dim[1];
  int            threads = tri_cpu_threads(s, N * C);
  int64_t        stripe = tri_cpu_stripe(C, threads);
  const int32_t *id = token->data;

  TRI_ASSERT(dtable->dtype == TRI_F32 && dx->dtype == TRI_F32 && dx->dim[0] == N && dx->dim[1] == C);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t c0 = 0; c0 < C; c0 += stripe) {
    int64_t n_col = C - c0 < stripe ? C - c0 : stripe;
    for (int64_t n = 0; n < N; n++) {
      const float *from = (const float *)dx->data + n * C + c0;
      float       *to;
      TRI_ASSERT(id[n] >= 0 && id[n] < V);
      to = (float *)dtable->data + id[n] * C + c0;
#pragma omp simd
      for (int64_t c = 0; c < n_col; c++) to[c] = fmaf(from[c], scale, to[c]);
    }
  }
  return TRI_OK;
}

/* Rotary positions (Su et al. 2021) in the halves convention. The first R columns of a head are two halves, a
 * = x[0..R/2) and b = x[R/2..R). They become (a cos - b sin, b cos + a sin). `turn` holds R/2 cosines, then
 * R/2 sines. */
static TRI_CPU_EACH void turn_head(const tri_dtype A, void *x, const float *turn, int half, float sign) {
#pragma omp              simd
  for (int j = 0; j < half; j++) {
                 float a = tri_cpu_get(x, A, j), b = tri_cpu_get(x, A, half + j), cos = turn[j],
                       sin = sign * turn[half + j];
                 tri_cpu_set(x, A, j, fmaf(-b, sin, a * cos));
                 tri_cpu_set(x, A, half + j, fmaf(a, sin, b * cos));
  }
}

void tri_cpu_turn_heads(tri_dtype A, void *x, int64_t n, int D, const float *turn, int R, int sign) {
  for (int64_t i = 0; i < n; i++)
    TRI_CPU_OF(A, turn_head, tri_cpu_at_out(x, A, i * D), turn, R / 2, (float)sign);
}

tri_status tri_cpu_rope(tri_stream *s, tri_out qkv, tri_in pos, tri_in table, const tri_heads *h, int sign) {
  int64_t        N = qkv->dim[0], E = qkv->dim[1], R = table->dim[1];
  const int32_t *at = pos->data;
  tri_dtype      A = tri_cpu_type(qkv);

  TRI_ASSERT(E == (int64_t)(h->H + 2 * h->G) * h->D && R % 2 == 0 && R <= h->D && (sign == 1 || sign == -1));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *E))
  for (int64_t n = 0; n < N; n++) {
    const float *turn = (const float *)table->data + at[n] * R;
    TRI_ASSERT(at[n] >= 0 && at[n] < table->dim[0]);
    tri_cpu_turn_heads(A, tri_cpu_at_out(qkv->data, A, n * E), h->H + h->G, h->D, turn, (int)R, sign);
  }
  return TRI_OK;
}

static inline float gate_of(const tri_act act, float x) {
  return act == TRI_ACT_GELU ? tri_gelu_gate(x) : tri_sigmoid(x);
}
static inline float slope_of(const tri_act act, float x, float gate) {
  return act == TRI_ACT_GELU ? tri_gelu_slope(x, gate) : gate * fmaf(x, 1.0f - gate, 1.0f);
}

/* A, act and want_y are constants at every call. */
static TRI_CPU_EACH void glu_row(const tri_dtype A, void *y, const void *gu, const tri_act act, int64_t F) {
  const void *u = tri_cpu_at(gu, A, F);
  float       own[TRI_CPU_PIECE];

  for (int64_t at = 0; at < F; at += TRI_CPU_PIECE) {
    int64_t n = F - at < TRI_CPU_PIECE ? F - at : TRI_CPU_PIECE;
    float  *to = tri_cpu_piece(A, y, at, own);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float x = tri_cpu_get(gu, A, at + i);
      to[i] = x * gate_of(act, x) * tri_cpu_get(u, A, at + i);
    }
    tri_cpu_put_piece(A, y, at, to, n);
  }
}

/* dgu = [dy u act'(g) | dy act(g)]. With want_y, computes y again with the bits of glu_row. */
static TRI_CPU_EACH void glu_row_bwd(const tri_dtype A, void *dgu, void *y, const void *dy, const void *gu,
                                     const tri_act act, const bool want_y, int64_t F) {
  const void *u = tri_cpu_at(gu, A, F);
  void       *du = tri_cpu_at_out(dgu, A, F);
  float       own[3][TRI_CPU_PIECE];

  for (int64_t at = 0; at < F; at += TRI_CPU_PIECE) {
    int64_t n = F - at < TRI_CPU_PIECE ? F - at : TRI_CPU_PIECE;
    float  *to_g = tri_cpu_piece(A, dgu, at, own[0]), *to_u = tri_cpu_piece(A, du, at, own[1]);
    float  *to_y = want_y ? tri_cpu_piece(A, y, at, own[2]) : NULL;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float g = tri_cpu_get(gu, A, at + i), up = tri_cpu_get(u, A, at + i), d = tri_cpu_get(dy, A, at + i);
      float gate = gate_of(act, g);
      to_g[i] = d * up * slope_of(act, g, gate);
      to_u[i] = d * (g * gate);
      if (want_y) to_y[i] = g * gate * up;
    }
    tri_cpu_put_piece(A, dgu, at, to_g, n);
    tri_cpu_put_piece(A, du, at, to_u, n);
    if (want_y) tri_cpu_put_piece(A, y, at, to_y, n);
  }
}

static TRI_CPU_EACH void glu_row_bwd_of(const tri_dtype A, void *dgu, void *y, const void *dy, const void *gu,
                                        const tri_act act, int64_t F) {
  if (y)
    glu_row_bwd(A, dgu, y, dy, gu, act, true, F);
  else
    glu_row_bwd(A, dgu, NULL, dy, gu, act, false, F);
}

tri_status tri_cpu_glu_fwd(tri_stream *s, tri_out y, tri_in gu, tri_act act) {
  int64_t   N = y->dim[0], F = y->dim[1];
  tri_dtype A = tri_cpu_type(y);

  TRI_ASSERT(gu->dtype == y->dtype && gu->dim[0] == N && gu->dim[1] == 2 * F);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * N * F))
  for (int64_t n = 0; n < N; n++) {
    void       *to = tri_cpu_at_out(y->data, A, n * F);
    const void *from = tri_cpu_at(gu->data, A, n * 2 * F);
    if (act == TRI_ACT_GELU)
      TRI_CPU_OF(A, glu_row, to, from, TRI_ACT_GELU, F);
    else
      TRI_CPU_OF(A, glu_row, to, from, TRI_ACT_SILU, F);
  }
  return TRI_OK;
}

tri_status tri_cpu_glu_bwd(tri_stream *s, tri_out dgu, tri_out y, tri_in dy, tri_in gu, tri_act act) {
  int64_t   N = dy->dim[0], F = dy->dim[1];
  tri_dtype A = tri_cpu_type(dy);

  TRI_ASSERT(gu->dtype == dy->dtype && dgu->dtype == dy->dtype && gu->dim[1] == 2 * F &&
             dgu->dim[1] == 2 * F);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * N * F))
  for (int64_t n = 0; n < N; n++) {
    void       *to = tri_cpu_at_out(dgu->data, A, n * 2 * F);
    void       *again = y ? tri_cpu_at_out(y->data, A, n * F) : NULL;
    const void *d = tri_cpu_at(dy->data, A, n * F), *from = tri_cpu_at(gu->data, A, n * 2 * F);
    if (act == TRI_ACT_GELU)
      TRI_CPU_OF(A, glu_row_bwd_of, to, again, d, from, TRI_ACT_GELU, F);
    else
      TRI_CPU_OF(A, glu_row_bwd_of, to, again, d, from, TRI_ACT_SILU, F);
  }
  return TRI_OK;
}

tri_status tri_cpu_rows_get(tri_stream *s, tri_out y, tri_in x, tri_in row) {
  int64_t        K = row->dim[0], C = x->dim[1];
  const int32_t *from = row->data;

  TRI_ASSERT(y->dtype == TRI_F32 && x->dtype == TRI_F32 && y->dim[1] == C);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, K *C))
  for (int64_t k = 0; k < K; k++) {
    TRI_ASSERT(from[k] >= 0 && from[k] < x->dim[0]);
    memcpy((float *)y->data + k * C, (const float *)x->data + from[k] * C, (size_t)C * sizeof(float));
  }
  return TRI_OK;
}

tri_status tri_cpu_rows_add(tri_stream *s, tri_out dx, tri_in dy, tri_in row) {
  int64_t        K = row->dim[0], C = dx->dim[1];
  const int32_t *to = row->data;

  TRI_ASSERT(dx->dtype == TRI_F32 && dy->dtype == TRI_F32 && dy->dim[1] == C);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, K *C))
  for (int64_t k = 0; k < K; k++) {
    float       *sum = (float *)dx->data + to[k] * C;
    const float *from = (const float *)dy->data + k * C;
    TRI_ASSERT(to[k] >= 0 && to[k] < dx->dim[0]);
#pragma omp simd
    for (int64_t c = 0; c < C; c++) sum[c] += from[c];
  }
  return TRI_OK;
}
