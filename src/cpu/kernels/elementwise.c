/* elementwise.c - operations on flat arrays (axpby, cast, soft cap, sum of squares, AdamW) and on columns of
 * a matrix. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include <string.h>

enum {
  CHUNK = 4096, /* elements of one loop iteration, and the block of sumsq */
  PARTS = 512,  /* partial sums of sumsq; a fixed number makes the order independent of the thread count */
  SQUARES = 16  /* lanes of a partial sum, chosen: two f64 each, in half of the registers of AVX2 */
};

static inline int64_t chunk_size(int64_t first, int64_t n) { return n - first < CHUNK ? n - first : CHUNK; }

tri_status tri_cpu_axpby(tri_stream *s, tri_out y, float a, tri_in x, float b) {
  int64_t n = tri_tensor_count(y);

  TRI_ASSERT(y->dtype == TRI_F32 && x->dtype == TRI_F32 && tri_tensor_count(x) == n);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, n))
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t      m = chunk_size(i, n);
    float       *to = (float *)y->data + i;
    const float *from = (const float *)x->data + i;
    if (b == 0) {
#pragma omp simd
      for (int64_t j = 0; j < m; j++) to[j] = a * from[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < m; j++) to[j] = fmaf(a, from[j], b * to[j]);
    }
  }
  return TRI_OK;
}

tri_status tri_cpu_cast(tri_stream *s, tri_out y, tri_in x) {
  int64_t   n = tri_tensor_count(y);
  tri_dtype to = tri_cpu_type(y), from = tri_cpu_type(x);

  TRI_ASSERT(tri_tensor_count(x) == n && (to == from || to == TRI_F32 || from == TRI_F32));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, n))
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t     m = chunk_size(i, n);
    void       *out = tri_cpu_at_out(y->data, to, i);
    const void *in = tri_cpu_at(x->data, from, i);
    if (to == from)
      memcpy(out, in, (size_t)m * tri_dtype_bytes(to));
    else if (from == TRI_F32)
      TRI_CPU_OF(to, tri_cpu_narrow, out, in, m, 1.0f);
    else
      TRI_CPU_OF(from, tri_cpu_widen, out, in, m, 1.0f);
  }
  return TRI_OK;
}

tri_status tri_cpu_softcap_fwd(tri_stream *s, tri_out x, float cap) {
  int64_t n = tri_tensor_count(x);
  float   inverse = 1.0f / cap;

  TRI_ASSERT(x->dtype == TRI_F32 && cap > 0);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * n))
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t m = chunk_size(i, n);
    float  *at = (float *)x->data + i;
#pragma omp simd
    for (int64_t j = 0; j < m; j++) at[j] = tri_softcap(at[j], cap, inverse);
  }
  return TRI_OK;
}

static TRI_CPU_EACH void softcap_slopes(const tri_dtype A, void *dx, const float *y, int64_t n,
                                        float inverse) {
#pragma omp              simd
  for (int64_t i = 0; i < n; i++)
    tri_cpu_set(dx, A, i, tri_cpu_get(dx, A, i) * tri_softcap_slope(y[i], inverse));
}

tri_status tri_cpu_softcap_bwd(tri_stream *s, tri_out dx, tri_in y, float cap) {
  int64_t   n = tri_tensor_count(dx);
  float     inverse = 1.0f / cap;
  tri_dtype A = tri_cpu_type(dx);

  TRI_ASSERT(y->dtype == TRI_F32 && tri_tensor_count(y) == n && cap > 0);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, n))
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t      m = chunk_size(i, n);
    const float *from = (const float *)y->data + i;
    TRI_CPU_OF(A, softcap_slopes, tri_cpu_at_out(dx->data, A, i), from, m, inverse);
  }
  return TRI_OK;
}

/* Adds the squares of n <= SQUARES elements to the lanes. A square of an f32 is exact in f64. */
static inline void add_squares(double *hi, double *lo, const float *x, int64_t n) {
#pragma omp        simd
  for (int64_t j = 0; j < n; j++) tri_dd_take(&hi[j], &lo[j], (double)x[j] * (double)x[j]);
}

/* Returns the sum of squares of n elements. */
static tri_dd part_sumsq(const float *x, int64_t n) {
  double  hi[SQUARES] = {0}, lo[SQUARES] = {0};
  double  last_hi[SQUARES] = {0}, last_lo[SQUARES] = {0}; /* apart, so that the others stay in registers */
  tri_dd  sum = {0, 0};
  int64_t i = 0;

  for (; i + SQUARES <= n; i += SQUARES) add_squares(hi, lo, x + i, SQUARES);
  add_squares(last_hi, last_lo, x + i, n - i);
  for (int j = 0; j < SQUARES; j++) sum = tri_dd_add(sum, (tri_dd){hi[j], lo[j]});
  for (int j = 0; j < SQUARES; j++) sum = tri_dd_add(sum, (tri_dd){last_hi[j], last_lo[j]});
  return sum;
}

tri_status tri_cpu_sumsq(tri_stream *s, tri_dd *sum, tri_in x) {
  tri_dd  part[PARTS], total = {0, 0};
  int64_t n = tri_tensor_count(x), blocks = (n + CHUNK - 1) / CHUNK;
  int64_t each = (blocks + PARTS - 1) / PARTS * CHUNK; /* elements of a part, in whole blocks */

  TRI_ASSERT(x->dtype == TRI_F32);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, n))
  for (int p = 0; p < PARTS; p++) {
    int64_t first = p * each, m = n - first < each ? n - first : each;
    part[p] = m > 0 ? part_sumsq((const float *)x->data + first, m) : (tri_dd){0, 0};
  }
  for (int p = 0; p < PARTS; p++) total = tri_dd_add(total, part[p]);
  *sum = tri_dd_add(*sum, total);
  return TRI_OK;
}

tri_status tri_cpu_adamw(tri_stream *s, tri_out w, tri_out m, tri_out v, tri_out half, tri_in g,
                         const tri_adamw_rule *rule) {
  int64_t n = tri_tensor_count(w);
  double  t = (double)rule->step;
  float   rate = (float)(rule->lr / (1 - pow(rule->beta1, t))),
        root = (float)(1 / sqrt(1 - pow(rule->beta2, t)));
  float shrink = 1.0f - rule->decay, scale = rule->scale, beta1 = rule->beta1, beta2 = rule->beta2,
        eps = rule->eps;

  TRI_ASSERT(w->dtype == TRI_F32 && m->dtype == TRI_F32 && v->dtype == TRI_F32 && g->dtype == TRI_F32);
  TRI_ASSERT(tri_tensor_count(m) == n && tri_tensor_count(v) == n && tri_tensor_count(g) == n &&
             rule->step > 0);
  TRI_ASSERT(!half || (tri_dtype_computes(half->dtype) && tri_tensor_count(half) == n));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 4 * n))
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t      size = chunk_size(i, n);
    float       *wi = (float *)w->data + i, *mi = (float *)m->data + i, *vi = (float *)v->data + i;
    const float *gi = (const float *)g->data + i;
#pragma omp simd
    for (int64_t j = 0; j < size; j++)
      tri_adamw(wi + j, mi + j, vi + j, scale * gi[j], beta1, beta2, eps, rate, root, shrink);
    if (half)
      TRI_CPU_OF(half->dtype, tri_cpu_narrow, tri_cpu_at_out(half->data, half->dtype, i), wi, size, 1.0f);
  }
  return TRI_OK;
}

tri_status tri_cpu_cols_put(tri_stream *s, tri_out y, int64_t first, float scale, tri_in x) {
  int64_t   M = x->dim[0], w = x->dim[1], W = y->dim[1];
  tri_dtype A = tri_cpu_type(x);

  TRI_ASSERT(y->dtype == x->dtype && y->dim[0] == M && first >= 0 && first + w <= W);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, M *w))
  for (int64_t i = 0; i < M; i++)
    for (int64_t c = 0; c < w; c++)
      tri_cpu_set(y->data, A, i * W + first + c, scale * tri_cpu_get(x->data, A, i * w + c));
  return TRI_OK;
}

tri_status tri_cpu_cols_get(tri_stream *s, tri_out x, tri_in y, int64_t first, float scale, bool add) {
  int64_t      M = x->dim[0], w = x->dim[1], W = y->dim[1];
  float       *to = x->data;
  const float *from = y->data;

  TRI_ASSERT(x->dtype == TRI_F32 && y->dtype == TRI_F32 && y->dim[0] == M && first >= 0 && first + w <= W);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, M *w))
  for (int64_t i = 0; i < M; i++)
    for (int64_t c = 0; c < w; c++)
      to[i * w + c] = fmaf(scale, from[i * W + first + c], add ? to[i * w + c] : 0.0f);
  return TRI_OK;
}

tri_status tri_cpu_join_cols(tri_stream *s, tri_out y, tri_in x) {
  int64_t n = x->dim[0], M = x->dim[1], w = x->dim[2];
  int64_t W = y->dim[1], twice = n * w - W; /* columns that the last two ranks both have */
  size_t  bytes = tri_dtype_bytes(tri_cpu_type(x));

  TRI_ASSERT(y->dtype == x->dtype && x->ndim == 3 && y->ndim == 2 && y->dim[0] == M && twice >= 0 &&
             twice < w);
#pragma omp parallel for collapse(2) schedule(static) num_threads(tri_cpu_threads(s, M *n *w))
  for (int64_t i = 0; i < M; i++)
    for (int64_t r = 0; r < n; r++) {
      int64_t skip = r == n - 1 ? twice : 0;
      memcpy((char *)y->data + (size_t)(i * W + r * w) * bytes,
             (const char *)x->data + (size_t)((r * M + i) * w + skip) * bytes, (size_t)(w - skip) * bytes);
    }
  return TRI_OK;
}
