/* norm.c - RMSNorm of rows and of heads, and column sums. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include <string.h>

enum { ROW_BLOCK = 32, COLUMNS = 256 }; /* rows of a partial sum; its columns, 1 KiB */

/* total[n_col] += the column sums of value(row, column) over N rows, in partial sums of ROW_BLOCK rows. The
 * values are dy if x is NULL, else dy * x * rstd. Rows have C columns. */
static TRI_CPU_EACH void sum_columns(const tri_dtype A, float *total, const void *dy, const float *x,
                                     const float *rstd, int64_t N, int64_t C, int64_t n_col) {
  float part[COLUMNS];
  for (int64_t first = 0; first < N; first += ROW_BLOCK) {
    int64_t end = first + ROW_BLOCK < N ? first + ROW_BLOCK : N;
    memset(part, 0, sizeof part);
    for (int64_t n = first; n < end; n++) {
      if (x) {
        float r = rstd[n];
#pragma omp simd
        for (int64_t c = 0; c < n_col; c++)
          part[c] = fmaf(tri_cpu_get(dy, A, n * C + c), x[n * C + c] * r, part[c]);
      } else {
#pragma omp simd
        for (int64_t c = 0; c < n_col; c++) part[c] += tri_cpu_get(dy, A, n * C + c);
      }
    }
#pragma omp simd
    for (int64_t c = 0; c < n_col; c++) total[c] += part[c];
  }
}

/* Computes columns c0..end of the sums over all rows (sum_columns). */
static void sum_stripe(float *total, tri_in dy, const float *x, const float *rstd, int64_t c0, int64_t end) {
  int64_t N = dy->dim[0], C = dy->dim[1];
  for (int64_t c = c0; c < end; c += COLUMNS) {
    int64_t n_col = end - c < COLUMNS ? end - c : COLUMNS;
    TRI_CPU_OF(dy->dtype, sum_columns, total + c, tri_cpu_at(dy->data, dy->dtype, c), x ? x + c : NULL, rstd,
               N, C, n_col);
  }
}

tri_status tri_cpu_colsum(tri_stream *s, tri_out db, tri_in dy) {
  int64_t C = dy->dim[1];
  int     threads = tri_cpu_threads(s, dy->dim[0] * C);
  int64_t stripe = tri_cpu_stripe(C, threads);

  TRI_ASSERT(db->dtype == TRI_F32 && db->dim[0] == C && tri_dtype_computes(dy->dtype));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t c = 0; c < C; c += stripe)
    sum_stripe(db->data, dy, NULL, NULL, c, c + stripe < C ? c + stripe : C);
  return TRI_OK;
}

/* Returns the sum over c of x[c]^2. */
static inline float row_square(const float *x, int64_t C) {
  float   lane[TRI_CPU_LANES] = {0};
  int64_t c = 0;
  for (; c + TRI_CPU_LANES <= C; c += TRI_CPU_LANES) {
#pragma omp simd
    for (int i = 0; i < TRI_CPU_LANES; i++) lane[i] = fmaf(x[c + i], x[c + i], lane[i]);
  }
  for (int i = 0; c + i < C; i++) lane[i] = fmaf(x[c + i], x[c + i], lane[i]);
  return tri_cpu_fold_sum(lane);
}

static inline float row_rstd(const float *x, int64_t C, float eps) {
  return 1.0f / sqrtf(row_square(x, C) / (float)C + eps);
}

/* RMSNorm of Zhang, Sennrich 2019, eq. 4. Gemma adds its weights to 1. */
static TRI_CPU_EACH float norm_row(const tri_dtype A, void *y, const float *x, const void *w, int64_t C,
                                   const tri_norm_rule *rule) {
  float rstd = row_rstd(x, C, rule->eps), plus = rule->plus, own[TRI_CPU_PIECE];
  for (int64_t at = 0; at < C; at += TRI_CPU_PIECE) {
    int64_t n = C - at < TRI_CPU_PIECE ? C - at : TRI_CPU_PIECE;
    float  *to = tri_cpu_piece(A, y, at, own);
#pragma omp simd
    for (int64_t c = 0; c < n; c++) to[c] = x[at + c] * rstd * (plus + tri_cpu_get(w, A, at + c));
    tri_cpu_put_piece(A, y, at, to, n);
  }
  return rstd;
}

static TRI_CPU_EACH float norm_row_add(const tri_dtype A, float *y, const float *base, const float *x,
                                       const void *w, int64_t C, const tri_norm_rule *rule) {
  float rstd = row_rstd(x, C, rule->eps), plus = rule->plus;
#pragma omp simd
  for (int64_t c = 0; c < C; c++) y[c] = fmaf(x[c] * rstd, plus + tri_cpu_get(w, A, c), base[c]);
  return rstd;
}

tri_status tri_cpu_rmsnorm_fwd(tri_stream *s, tri_out y, tri_out rstd, tri_in x, tri_in w, tri_in base,
                               const tri_norm_rule *rule) {
  int64_t   N = x->dim[0], C = x->dim[1];
  tri_dtype A = tri_cpu_type(w);

  TRI_ASSERT(x->dtype == TRI_F32 && w->dim[0] == C && y->dim[1] == C);
  TRI_ASSERT(y->dtype == (base ? TRI_F32 : w->dtype) && (!base || base->dtype == TRI_F32));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *C))
  for (int64_t n = 0; n < N; n++) {
    const float *from = (const float *)x->data + n * C;
    float       *r = (float *)rstd->data + n;
    const float *add = base ? (const float *)base->data + n * C : NULL;
    if (add)
      *r = TRI_CPU_OF(A, norm_row_add, (float *)y->data + n * C, add, from, w->data, C, rule);
    else
      *r = TRI_CPU_OF(A, norm_row, tri_cpu_at_out(y->data, A, n * C), from, w->data, C, rule);
  }
  return TRI_OK;
}

/* dx += rstd (w dy - x rstd^2 mean(w dy x)), the derivative of norm_row. w includes plus. */
static TRI_CPU_EACH void norm_row_bwd(const tri_dtype A, float *dx, const void *dy, const float *x,
                                      const void *w, int64_t C, float rstd, float plus) {
  float   lane[TRI_CPU_LANES] = {0}, mean;
  int64_t c = 0;
  for (; c + TRI_CPU_LANES <= C; c += TRI_CPU_LANES) {
#pragma omp simd
    for (int i = 0; i < TRI_CPU_LANES; i++)
      lane[i] = fmaf(tri_cpu_get(dy, A, c + i) * (plus + tri_cpu_get(w, A, c + i)), x[c + i], lane[i]);
  }
  for (int i = 0; c + i < C; i++)
    lane[i] = fmaf(tri_cpu_get(dy, A, c + i) * (plus + tri_cpu_get(w, A, c + i)), x[c + i], lane[i]);
  mean = tri_cpu_fold_sum(lane) / (float)C * rstd * rstd;
#pragma omp simd
  for (int64_t i = 0; i < C; i++)
    dx[i] = fmaf(rstd, fmaf(-x[i], mean, tri_cpu_get(dy, A, i) * (plus + tri_cpu_get(w, A, i))), dx[i]);
}

tri_status tri_cpu_rmsnorm_bwd(tri_stream *s, tri_out dx, tri_out dw, tri_in dy, tri_in x, tri_in w,
                               tri_in rstd, const tri_norm_rule *rule) {
  int64_t      N = x->dim[0], C = x->dim[1];
  const float *from = x->data, *r = rstd->data;
  tri_dtype    A = tri_cpu_type(dy);
  int          threads = tri_cpu_threads(s, N * C);
  int64_t      stripe = tri_cpu_stripe(C, threads);

  TRI_ASSERT(dx->dtype == TRI_F32 && x->dtype == TRI_F32 && w->dtype == dy->dtype);
  TRI_ASSERT(!dw || dw->dtype == TRI_F32);
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static) nowait
    for (int64_t n = 0; n < N; n++) {
      float *to = (float *)dx->data + n * C;
      TRI_CPU_OF(A, norm_row_bwd, to, tri_cpu_at(dy->data, A, n * C), from + n * C, w->data, C, r[n],
                 rule->plus);
    }
#pragma omp for schedule(static)
    for (int64_t c = 0; c < (dw ? C : 0); c += stripe)
      sum_stripe(dw->data, dy, from, r, c, c + stripe < C ? c + stripe : C);
  }
  return TRI_OK;
}

/* ---- heads of q and k ---- */

typedef struct head_call { /* the arguments of one head_norm_bwd */
  const void  *dqkv, *raw;
  const float *rstd;
  tri_dtype    A;
  int64_t      N, E;
  int          H, G, D;
} head_call;

static void check_heads(tri_in qkv, tri_in wq, tri_in wk, const tri_heads *h) {
  TRI_ASSERT(qkv->dim[1] == (int64_t)(h->H + 2 * h->G) * h->D && h->D > 0 && h->D <= TRI_CPU_MAX_D);
  TRI_ASSERT(wq->dtype == qkv->dtype && wk->dtype == qkv->dtype);
}

/* Normalizes all heads of q, or of k, in place as one row of n. Returns its rstd. */
static TRI_CPU_EACH float norm_whole(const tri_dtype A, void *x, const void *w, int64_t n,
                                     const tri_norm_rule *rule) {
  float   lane[TRI_CPU_LANES] = {0}, own[TRI_CPU_PIECE], rstd, plus = rule->plus;
  int64_t c = 0;
  for (; c + TRI_CPU_LANES <= n; c += TRI_CPU_LANES) {
#pragma omp simd
    for (int i = 0; i < TRI_CPU_LANES; i++)
      lane[i] = fmaf(tri_cpu_get(x, A, c + i), tri_cpu_get(x, A, c + i), lane[i]);
  }
  for (int i = 0; c + i < n; i++) lane[i] = fmaf(tri_cpu_get(x, A, c + i), tri_cpu_get(x, A, c + i), lane[i]);
  rstd = 1.0f / sqrtf(tri_cpu_fold_sum(lane) / (float)n + rule->eps);
  for (int64_t at = 0; at < n; at += TRI_CPU_PIECE) {
    int64_t m = n - at < TRI_CPU_PIECE ? n - at : TRI_CPU_PIECE;
    float  *to = tri_cpu_piece(A, x, at, own);
#pragma omp simd
    for (int64_t i = 0; i < m; i++)
      to[i] = tri_cpu_get(x, A, at + i) * rstd * (plus + tri_cpu_get(w, A, at + i));
    tri_cpu_put_piece(A, x, at, to, m);
  }
  return rstd;
}

/* The derivative of norm_whole, as in norm_row_bwd. dy [n] in place becomes dx. */
static TRI_CPU_EACH void norm_whole_bwd(const tri_dtype A, void *dy, const void *x, const void *w, int64_t n,
                                        float rstd, float plus) {
  float   lane[TRI_CPU_LANES] = {0}, own[TRI_CPU_PIECE], mean;
  int64_t c = 0;
  for (; c + TRI_CPU_LANES <= n; c += TRI_CPU_LANES) {
#pragma omp simd
    for (int i = 0; i < TRI_CPU_LANES; i++)
      lane[i] = fmaf(tri_cpu_get(dy, A, c + i) * (plus + tri_cpu_get(w, A, c + i)), tri_cpu_get(x, A, c + i),
                     lane[i]);
  }
  for (int i = 0; c + i < n; i++)
    lane[i] = fmaf(tri_cpu_get(dy, A, c + i) * (plus + tri_cpu_get(w, A, c + i)), tri_cpu_get(x, A, c + i),
                   lane[i]);
  mean = tri_cpu_fold_sum(lane) / (float)n * rstd * rstd;
  for (int64_t at = 0; at < n; at += TRI_CPU_PIECE) {
    int64_t m = n - at < TRI_CPU_PIECE ? n - at : TRI_CPU_PIECE;
    float  *to = tri_cpu_piece(A, dy, at, own);
#pragma omp simd
    for (int64_t i = 0; i < m; i++)
      to[i] = rstd * fmaf(-tri_cpu_get(x, A, at + i), mean,
                          tri_cpu_get(dy, A, at + i) * (plus + tri_cpu_get(w, A, at + i)));
    tri_cpu_put_piece(A, dy, at, to, m);
  }
}

tri_status tri_cpu_head_norm_fwd(tri_stream *s, tri_out qkv, tri_out raw, tri_out rstd, tri_in wq, tri_in wk,
                                 const tri_heads *h, const tri_norm_rule *rule) {
  int64_t   N = qkv->dim[0], E = qkv->dim[1], D = h->D, heads = h->H + h->G;
  tri_dtype A = tri_cpu_type(qkv);
  bool      whole = tri_norms_whole(h, wq->dim[0], wk->dim[0]);

  check_heads(qkv, wq, wk, h);
  TRI_ASSERT(!raw == !rstd && (!raw || (raw->dtype == qkv->dtype && rstd->dtype == TRI_F32)));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *E))
  for (int64_t n = 0; n < N; n++) {
    char *row = tri_cpu_at_out(qkv->data, A, n * E);
    if (raw)
      memcpy(tri_cpu_at_out(raw->data, A, n * heads * D), row,
             (size_t)(heads * D) * tri_dtype_bytes(qkv->dtype));
    for (int k = 0; whole && k < 2; k++) {
      void *x = tri_cpu_at_out(row, A, k ? h->H * D : 0);
      float r = TRI_CPU_OF(A, norm_whole, x, k ? wk->data : wq->data, (k ? h->G : h->H) * D, rule);
      if (rstd) ((float *)rstd->data)[2 * n + k] = r;
    }
    for (int64_t i = 0; !whole && i < heads; i++) {
      float       x[TRI_CPU_MAX_D], r;
      void       *y = tri_cpu_at_out(row, A, i * D);
      const void *w = i < h->H ? wq->data : wk->data;
      TRI_CPU_OF(A, tri_cpu_widen, x, y, D, 1.0f);
      r = TRI_CPU_OF(A, norm_row, y, x, w, D, rule);
      if (rstd) ((float *)rstd->data)[n * heads + i] = r;
    }
  }
  return TRI_OK;
}

/* Adds sums of dy x rstd to columns c0..end of dw [D], over the rows of n_head heads from `first` on. */
static void sum_heads(float *dw, const head_call *c, int first, int n_head, int64_t c0, int64_t end) {
  float   part[TRI_CPU_MAX_D];
  int64_t heads = c->H + c->G, rows = c->N * n_head;

  for (int64_t at = 0; at < rows; at += ROW_BLOCK) {
    memset(part, 0, sizeof part);
    for (int64_t i = at; i < at + ROW_BLOCK && i < rows; i++) {
      int64_t n = i / n_head, h = first + i % n_head, dy = n * c->E + h * c->D, x = (n * heads + h) * c->D;
      float   r = c->rstd[n * heads + h];
#pragma omp simd
      for (int64_t d = c0; d < end; d++)
        part[d] = fmaf(tri_cpu_get(c->dqkv, c->A, dy + d), tri_cpu_get(c->raw, c->A, x + d) * r, part[d]);
    }
#pragma omp simd
    for (int64_t d = c0; d < end; d++) dw[d] += part[d];
  }
}

/* The same for norms of all heads as one row, of q (k 0) or k (1), columns c0..end. */
static void sum_whole(float *dw, const head_call *c, int k, int64_t c0, int64_t end) {
  float   part[COLUMNS];
  int64_t from = k ? (int64_t)c->H * c->D : 0, width = (int64_t)(c->H + c->G) * c->D;

  for (int64_t first = c0, n_col; first < end; first += n_col) {
    n_col = end - first < COLUMNS ? end - first : COLUMNS;
    for (int64_t at = 0; at < c->N; at += ROW_BLOCK) {
      memset(part, 0, sizeof part);
      for (int64_t n = at; n < at + ROW_BLOCK && n < c->N; n++) {
        int64_t dy = n * c->E + from + first, x = n * width + from + first;
        float   r = c->rstd[2 * n + k];
#pragma omp simd
        for (int64_t i = 0; i < n_col; i++)
          part[i] = fmaf(tri_cpu_get(c->dqkv, c->A, dy + i), tri_cpu_get(c->raw, c->A, x + i) * r, part[i]);
      }
#pragma omp simd
      for (int64_t i = 0; i < n_col; i++) dw[first + i] += part[i];
    }
  }
}

/* Processes one row with norms of all heads as one row. dy in place becomes dx. */
static void whole_row_bwd(void *dy, const head_call *c, const void *wq, const void *wk, int64_t n,
                          float plus) {
  int64_t q = (int64_t)c->H * c->D, width = (int64_t)(c->H + c->G) * c->D;

  for (int k = 0; k < 2; k++) {
    int64_t from = k ? q : 0;
    TRI_CPU_OF(c->A, norm_whole_bwd, tri_cpu_at_out(dy, c->A, n * c->E + from),
               tri_cpu_at(c->raw, c->A, n * width + from), k ? wk : wq, k ? width - q : q, c->rstd[2 * n + k],
               plus);
  }
}

/* Processes the heads of one row. dy in place becomes dx. */
static void heads_row_bwd(void *dy, const head_call *c, const void *wq, const void *wk, int64_t n,
                          float plus) {
  int64_t D = c->D, heads = c->H + c->G;

  for (int64_t i = 0; i < heads; i++) {
    float       x[TRI_CPU_MAX_D], dx[TRI_CPU_MAX_D] = {0}, r = c->rstd[n * heads + i];
    void       *at = tri_cpu_at_out(dy, c->A, n * c->E + i * D);
    const void *w = i < c->H ? wq : wk;
    TRI_CPU_OF(c->A, tri_cpu_widen, x, tri_cpu_at(c->raw, c->A, (n * heads + i) * D), D, 1.0f);
    TRI_CPU_OF(c->A, norm_row_bwd, dx, at, x, w, D, r, plus);
    TRI_CPU_OF(c->A, tri_cpu_narrow, at, dx, D, 1.0f);
  }
}

tri_status tri_cpu_head_norm_bwd(tri_stream *s, tri_out dqkv, tri_out dwq, tri_out dwk, tri_in raw,
                                 tri_in rstd, tri_in wq, tri_in wk, const tri_heads *h,
                                 const tri_norm_rule *rule) {
  int64_t   N = dqkv->dim[0], E = dqkv->dim[1], D = wq->dim[0], K = wk->dim[0];
  head_call c = {dqkv->data, raw->data, rstd->data, tri_cpu_type(dqkv), N, E, h->H, h->G, h->D};
  int       threads = tri_cpu_threads(s, N * E);
  int64_t   stripe = tri_cpu_stripe(D, threads);
  bool      whole = tri_norms_whole(h, D, K);

  check_heads(dqkv, wq, wk, h);
  TRI_ASSERT(!dwq == !dwk && raw->dtype == dqkv->dtype && rstd->dtype == TRI_F32);
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static)
    for (int64_t d = 0; d < (dwq ? D : 0); d += stripe) {
      int64_t end = d + stripe < D ? d + stripe : D;
      if (whole) {
        sum_whole(dwq->data, &c, 0, d, end);
        sum_whole(dwk->data, &c, 1, d, end < K ? end : K);
        continue;
      }
      sum_heads(dwq->data, &c, 0, h->H, d, end);
      sum_heads(dwk->data, &c, h->H, h->G, d, end);
    }
#pragma omp for schedule(static)
    for (int64_t n = 0; n < N; n++) {
      if (whole)
        whole_row_bwd(dqkv->data, &c, wq->data, wk->data, n, rule->plus);
      else
        heads_row_bwd(dqkv->data, &c, wq->data, wk->data, n, rule->plus);
    }
  }
  return TRI_OK;
}
