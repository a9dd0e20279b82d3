/* elementwise.c - operations on flat arrays: axpby, cast, sum of squares, AdamW. */
#include "cpu.h"

#include <string.h>

enum {
  CHUNK = 4096, /* elements one turn of a loop takes; also the block of sumsq */
  PARTS =
      512 /* partial sums of sumsq: a fixed number, so that the order does not depend on the thread count */
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
  int64_t n = tri_tensor_count(y);
  bool    to_bf16 = tri_cpu_is_bf16(y), from_bf16 = tri_cpu_is_bf16(x);

  TRI_ASSERT(tri_tensor_count(x) == n);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, n))
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t m = chunk_size(i, n);
    if (to_bf16 == from_bf16) {
      memcpy(tri_cpu_at_out(y->data, to_bf16, i), tri_cpu_at(x->data, from_bf16, i),
             (size_t)m * tri_dtype_bytes(y->dtype));
    } else if (to_bf16) {
      uint16_t    *to = (uint16_t *)y->data + i;
      const float *from = (const float *)x->data + i;
#pragma omp simd
      for (int64_t j = 0; j < m; j++) to[j] = tri_f32_to_bf16(from[j]);
    } else {
      float          *to = (float *)y->data + i;
      const uint16_t *from = (const uint16_t *)x->data + i;
#pragma omp simd
      for (int64_t j = 0; j < m; j++) to[j] = tri_bf16_to_f32(from[j]);
    }
  }
  return TRI_OK;
}

/* Sum of squares of n elements, in f64 lanes. */
static double part_sumsq(const float *x, int64_t n) {
  double  lane[TRI_CPU_LANES] = {0};
  int64_t i = 0;
  for (; i + TRI_CPU_LANES <= n; i += TRI_CPU_LANES) {
#pragma omp simd
    for (int j = 0; j < TRI_CPU_LANES; j++) lane[j] = fma((double)x[i + j], (double)x[i + j], lane[j]);
  }
  for (int j = 0; i + j < n; j++) lane[j] = fma((double)x[i + j], (double)x[i + j], lane[j]);
  for (int width = TRI_CPU_LANES / 2; width > 0; width /= 2)
    for (int j = 0; j < width; j++) lane[j] += lane[j + width];
  return lane[0];
}

tri_status tri_cpu_sumsq(tri_stream *s, double *sum, tri_in x) {
  double  part[PARTS];
  int64_t n = tri_tensor_count(x), blocks = (n + CHUNK - 1) / CHUNK;
  int64_t each = (blocks + PARTS - 1) / PARTS * CHUNK; /* elements per part: whole blocks */
  double  total = 0;

  TRI_ASSERT(x->dtype == TRI_F32);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, n))
  for (int p = 0; p < PARTS; p++) {
    int64_t first = p * each, m = n - first < each ? n - first : each;
    part[p] = m > 0 ? part_sumsq((const float *)x->data + first, m) : 0;
  }
  for (int p = 0; p < PARTS; p++) total += part[p];
  *sum += total;
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
  TRI_ASSERT(!half || (half->dtype == TRI_BF16 && tri_tensor_count(half) == n));
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 4 * n))
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t      size = chunk_size(i, n);
    float       *wi = (float *)w->data + i, *mi = (float *)m->data + i, *vi = (float *)v->data + i;
    const float *gi = (const float *)g->data + i;
#pragma omp simd
    for (int64_t j = 0; j < size; j++)
      tri_adamw(wi + j, mi + j, vi + j, scale * gi[j], beta1, beta2, eps, rate, root, shrink);
    if (!half) continue;
    uint16_t *restrict hi = (uint16_t *)half->data + i;
#pragma omp simd
    for (int64_t j = 0; j < size; j++) hi[j] = tri_f32_to_bf16(wi[j]);
  }
  return TRI_OK;
}
