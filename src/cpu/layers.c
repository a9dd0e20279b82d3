/* layers.c - embedding, RMSNorm, rotary positions, SwiGLU, column sums, choosing rows. */
#include "cpu.h"

#include <string.h>

enum {
  ROW_BLOCK = 32,
  COLUMNS = 256
}; /* rows summed before they join the total; columns of a partial sum: 1 KiB */

tri_status tri_cpu_embed_fwd(tri_stream *s, tri_out x, tri_in table, tri_in token) {
  int64_t        N = token->dim[0], V = table->dim[0], C = table->dim[1];
  const int32_t *id = token->data;
  bool           bf16 = tri_cpu_is_bf16(table);

  TRI_ASSERT(x->dtype == TRI_F32 && x->dim[0] == N && x->dim[1] == C);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *C))
  for (int64_t n = 0; n < N; n++) {
    float *to = (float *)x->data + n * C;
    TRI_ASSERT(id[n] >= 0 && id[n] < V);
    if (bf16) {
      const uint16_t *from = (const uint16_t *)table->data + id[n] * C;
#pragma omp simd
      for (int64_t c = 0; c < C; c++) to[c] = tri_bf16_to_f32(from[c]);
    } else {
      memcpy(to, (const float *)table->data + id[n] * C, (size_t)C * sizeof *to);
    }
  }
  return TRI_OK;
}

/* Every thread owns a stripe of columns and adds all tokens in order. */
tri_status tri_cpu_embed_bwd(tri_stream *s, tri_out dtable, tri_in dx, tri_in token) {
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
      for (int64_t c = 0; c < n_col; c++) to[c] += from[c];
    }
  }
  return TRI_OK;
}

/* total[n_col] += the column sums of value(row, column) over N rows, ROW_BLOCK rows at a time. x NULL: the
 * values are dy, else dy * x * rstd. Rows have C columns. */
static inline void sum_columns(float *total, const void *dy, const bool bf16, const float *x,
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
          part[c] = fmaf(tri_cpu_get(dy, bf16, n * C + c), x[n * C + c] * r, part[c]);
      } else {
#pragma omp simd
        for (int64_t c = 0; c < n_col; c++) part[c] += tri_cpu_get(dy, bf16, n * C + c);
      }
    }
#pragma omp simd
    for (int64_t c = 0; c < n_col; c++) total[c] += part[c];
  }
}

/* The columns c0..end of the sums over all rows; see sum_columns. */
static void sum_stripe(float *total, tri_in dy, const float *x, const float *rstd, int64_t c0, int64_t end) {
  int64_t N = dy->dim[0], C = dy->dim[1];
  for (int64_t c = c0; c < end; c += COLUMNS) {
    int64_t n_col = end - c < COLUMNS ? end - c : COLUMNS;
    if (dy->dtype == TRI_BF16)
      sum_columns(total + c, (const uint16_t *)dy->data + c, true, x ? x + c : NULL, rstd, N, C, n_col);
    else
      sum_columns(total + c, (const float *)dy->data + c, false, x ? x + c : NULL, rstd, N, C, n_col);
  }
}

tri_status tri_cpu_colsum(tri_stream *s, tri_out db, tri_in dy) {
  int64_t C = dy->dim[1];
  int     threads = tri_cpu_threads(s, dy->dim[0] * C);
  int64_t stripe = tri_cpu_stripe(C, threads);

  TRI_ASSERT(db->dtype == TRI_F32 && db->dim[0] == C && (dy->dtype == TRI_F32 || dy->dtype == TRI_BF16));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t c = 0; c < C; c += stripe)
    sum_stripe(db->data, dy, NULL, NULL, c, c + stripe < C ? c + stripe : C);
  return TRI_OK;
}

/* Sum over c of x[c]^2. */
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

/* RMSNorm: Zhang, Sennrich 2019, eq. 4. */
static inline float norm_row(void *y, const float *x, const void *w, const bool bf16, int64_t C, float eps) {
  float rstd = 1.0f / sqrtf(row_square(x, C) / (float)C + eps);
#pragma omp simd
  for (int64_t c = 0; c < C; c++) tri_cpu_set(y, bf16, c, x[c] * rstd * tri_cpu_get(w, bf16, c));
  return rstd;
}

tri_status tri_cpu_rmsnorm_fwd(tri_stream *s, tri_out y, tri_out rstd, tri_in x, tri_in w, float eps) {
  int64_t N = x->dim[0], C = x->dim[1];
  bool    bf16 = tri_cpu_is_bf16(y);

  TRI_ASSERT(x->dtype == TRI_F32 && w->dtype == y->dtype && w->dim[0] == C && y->dim[1] == C);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *C))
  for (int64_t n = 0; n < N; n++) {
    const float *from = (const float *)x->data + n * C;
    float       *r = (float *)rstd->data + n;
    if (bf16)
      *r = norm_row((uint16_t *)y->data + n * C, from, w->data, true, C, eps);
    else
      *r = norm_row((float *)y->data + n * C, from, w->data, false, C, eps);
  }
  return TRI_OK;
}

/* dx += rstd (w dy - x rstd^2 mean(w dy x)), the derivative of norm_row. */
static inline void norm_row_bwd(float *dx, const void *dy, const float *x, const void *w, const bool bf16,
                                int64_t C, float rstd) {
  float   lane[TRI_CPU_LANES] = {0}, mean;
  int64_t c = 0;
  for (; c + TRI_CPU_LANES <= C; c += TRI_CPU_LANES) {
#pragma omp simd
    for (int i = 0; i < TRI_CPU_LANES; i++)
      lane[i] = fmaf(tri_cpu_get(dy, bf16, c + i) * tri_cpu_get(w, bf16, c + i), x[c + i], lane[i]);
  }
  for (int i = 0; c + i < C; i++)
    lane[i] = fmaf(tri_cpu_get(dy, bf16, c + i) * tri_cpu_get(w, bf16, c + i), x[c + i], lane[i]);
  mean = tri_cpu_fold_sum(lane) / (float)C * rstd * rstd;
#pragma omp simd
  for (int64_t i = 0; i < C; i++)
    dx[i] = fmaf(rstd, fmaf(-x[i], mean, tri_cpu_get(dy, bf16, i) * tri_cpu_get(w, bf16, i)), dx[i]);
}

tri_status tri_cpu_rmsnorm_bwd(tri_stream *s, tri_out dx, tri_out dw, tri_in dy, tri_in x, tri_in w,
                               tri_in rstd) {
  int64_t      N = x->dim[0], C = x->dim[1];
  const float *from = x->data, *r = rstd->data;
  bool         bf16 = tri_cpu_is_bf16(dy);
  int          threads = tri_cpu_threads(s, N * C);
  int64_t      stripe = tri_cpu_stripe(C, threads);

  TRI_ASSERT(dx->dtype == TRI_F32 && dw->dtype == TRI_F32 && x->dtype == TRI_F32 && w->dtype == dy->dtype);
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static) nowait
    for (int64_t n = 0; n < N; n++) {
      float *to = (float *)dx->data + n * C;
      if (bf16)
        norm_row_bwd(to, (const uint16_t *)dy->data + n * C, from + n * C, w->data, true, C, r[n]);
      else
        norm_row_bwd(to, (const float *)dy->data + n * C, from + n * C, w->data, false, C, r[n]);
    }
#pragma omp for schedule(static)
    for (int64_t c = 0; c < C; c += stripe)
      sum_stripe(dw->data, dy, from, r, c, c + stripe < C ? c + stripe : C);
  }
  return TRI_OK;
}

/* Rotary positions (Su et al. 2021) in the halves convention: (a, b) of one head of width D, a = x[0..D/2),
 * b = x[D/2..D), become (a cos - b sin, b cos + a sin). turn: D/2 cosines, D/2 sines. */
static inline void turn_head(void *x, const bool bf16, const float *turn, int half, float sign) {
#pragma omp        simd
  for (int j = 0; j < half; j++) {
           float a = tri_cpu_get(x, bf16, j), b = tri_cpu_get(x, bf16, half + j), cos = turn[j],
                 sin = sign * turn[half + j];
           tri_cpu_set(x, bf16, j, fmaf(-b, sin, a * cos));
           tri_cpu_set(x, bf16, half + j, fmaf(a, sin, b * cos));
  }
}

tri_status tri_cpu_rope(tri_stream *s, tri_out qkv, tri_in pos, tri_in table, const tri_heads *h, int sign) {
  int64_t        N = qkv->dim[0], E = qkv->dim[1], D = h->D;
  const int32_t *at = pos->data;
  bool           bf16 = tri_cpu_is_bf16(qkv);

  TRI_ASSERT(E == (h->H + 2 * h->G) * D && D % 2 == 0 && table->dim[1] == D && (sign == 1 || sign == -1));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, N *E))
  for (int64_t n = 0; n < N; n++) {
    const float *turn = (const float *)table->data + at[n] * D;
    TRI_ASSERT(at[n] >= 0 && at[n] < table->dim[0]);
    for (int64_t i = 0; i < h->H + h->G; i++) {
      if (bf16)
        turn_head((uint16_t *)qkv->data + n * E + i * D, true, turn, h->D / 2, (float)sign);
      else
        turn_head((float *)qkv->data + n * E + i * D, false, turn, h->D / 2, (float)sign);
    }
  }
  return TRI_OK;
}

static inline void swiglu_row(void *y, const void *g, const void *u, const bool bf16, int64_t F) {
#pragma omp        simd
  for (int64_t i = 0; i < F; i++)
    tri_cpu_set(y, bf16, i, tri_silu(tri_cpu_get(g, bf16, i)) * tri_cpu_get(u, bf16, i));
}

tri_status tri_cpu_swiglu_fwd(tri_stream *s, tri_out y, tri_in gu) {
  int64_t N = y->dim[0], F = y->dim[1];
  bool    bf16 = tri_cpu_is_bf16(y);

  TRI_ASSERT(gu->dtype == y->dtype && gu->dim[0] == N && gu->dim[1] == 2 * F);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * N * F))
  for (int64_t n = 0; n < N; n++) {
    if (bf16) {
      const uint16_t *g = (const uint16_t *)gu->data + n * 2 * F;
      swiglu_row((uint16_t *)y->data + n * F, g, g + F, true, F);
    } else {
      const float *g = (const float *)gu->data + n * 2 * F;
      swiglu_row((float *)y->data + n * F, g, g + F, false, F);
    }
  }
  return TRI_OK;
}

/* dgu = [dy u silu'(g) | dy silu(g)]; want_y: y again, with the bits of swiglu_row. */
static inline void swiglu_row_bwd(void *dgu, void *y, const void *dy, const void *gu, const bool bf16,
                                  const bool want_y, int64_t F) {
#pragma omp        simd
  for (int64_t i = 0; i < F; i++) {
           float g = tri_cpu_get(gu, bf16, i), u = tri_cpu_get(gu, bf16, F + i), d = tri_cpu_get(dy, bf16, i);
           float silu = tri_silu(g);
           tri_cpu_set(dgu, bf16, i, d * u * tri_silu_slope(g));
           tri_cpu_set(dgu, bf16, F + i, d * silu);
           if (want_y) tri_cpu_set(y, bf16, i, silu * u);
  }
}

tri_status tri_cpu_swiglu_bwd(tri_stream *s, tri_out dgu, tri_out y, tri_in dy, tri_in gu) {
  int64_t N = dy->dim[0], F = dy->dim[1];
  bool    bf16 = tri_cpu_is_bf16(dy);
  int64_t size = bf16 ? 2 : 4;

  TRI_ASSERT(gu->dtype == dy->dtype && dgu->dtype == dy->dtype && gu->dim[1] == 2 * F &&
             dgu->dim[1] == 2 * F);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * N * F))
  for (int64_t n = 0; n < N; n++) {
    char       *to = (char *)dgu->data + n * 2 * F * size, *again = y ? (char *)y->data + n * F * size : NULL;
    const char *d = (const char *)dy->data + n * F * size, *from = (const char *)gu->data + n * 2 * F * size;
    if (bf16 && y)
      swiglu_row_bwd(to, again, d, from, true, true, F);
    else if (bf16)
      swiglu_row_bwd(to, NULL, d, from, true, false, F);
    else if (y)
      swiglu_row_bwd(to, again, d, from, false, true, F);
    else
      swiglu_row_bwd(to, NULL, d, from, false, false, F);
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
