/* softmax.c - turns scores into weights and computes their gradient, for bf16 attention. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#include "device/formula.h"

#if TRI_PAIRS_X86
#include <immintrin.h>

#define INLINE TRI_PAIRS_TARGET __attribute__((always_inline)) inline

/* tri_exp for results up to e^88, by the same steps but with 2^n by one instruction. A NaN stays a NaN. */
static INLINE __m512 exp_16(__m512 x) {
  /* max returns its second operand if one is a NaN. */
  __m512 t = _mm512_max_ps(_mm512_set1_ps(TRI_EXP_LOW), x), n, r, p;
  n = _mm512_roundscale_ps(_mm512_mul_ps(t, _mm512_set1_ps(1.44269504088896341f)), 8);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693359375f), t);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), r);
  p = _mm512_fmadd_ps(_mm512_set1_ps(1.9875691500e-4f), r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  p = _mm512_scalef_ps(p, n);
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(TRI_EXP_LOW), _CMP_NLT_UQ), p);
}

/* Stores two vectors, one behind the other, as bf16. */
static INLINE void put_32(uint16_t *to, __m512 a, __m512 b) {
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

static inline int clamp_16(int n) { return n < 0 ? 0 : n > 16 ? 16 : n; }
/* Mask of the lanes i with first <= at + i < end. `at` is the vector's first element. */
static INLINE __mmask16 seen_lanes(int at, int first, int end) {
  return (__mmask16)(((1u << clamp_16(end - at)) - 1) & ~((1u << clamp_16(first - at)) - 1));
}

/* Scales and caps n scores in place. n is a multiple of 32. */
static TRI_PAIRS_TARGET void cap_scores(float *s, int n, float scale, float cap) {
  float inverse = 1.0f / cap;
#pragma omp simd
  for (int i = 0; i < n; i++) s[i] = tri_softcap(s[i] * scale, cap, inverse);
}

/* Returns the largest score of elements from .. to - 1 seen by the row. */
static INLINE float largest(const float *s, int from, int to, int first, int end) {
  __m512 most = _mm512_set1_ps(-INFINITY);

  for (int i = from; i < to; i += 16)
    most = _mm512_mask_max_ps(most, seen_lanes(i, first, end), most, _mm512_loadu_ps(s + i));
  return _mm512_reduce_max_ps(most);
}

/* Computes the weights of elements from .. to - 1 relative to `top`. Returns their sum, from two chains of 16
 * parts. */
static INLINE __m512 weigh(const float *s, uint16_t *p, int from, int to, int first, int end, float scale,
                           float top) {
  const __m512 by = _mm512_set1_ps(scale), less = _mm512_set1_ps(top);
  __m512       even = _mm512_setzero_ps(), odd = even;

  for (int i = from; i < to; i += 32) {
    __m512 a = exp_16(_mm512_fmsub_ps(_mm512_loadu_ps(s + i), by, less));
    __m512 b = exp_16(_mm512_fmsub_ps(_mm512_loadu_ps(s + i + 16), by, less));
    if (i < first || i + 32 > end) {
      a = _mm512_maskz_mov_ps(seen_lanes(i, first, end), a);
      b = _mm512_maskz_mov_ps(seen_lanes(i + 16, first, end), b);
    }
    even = _mm512_add_ps(even, a), odd = _mm512_add_ps(odd, b);
    put_32(p + i, a, b);
  }
  return _mm512_add_ps(even, odd);
}

TRI_PAIRS_TARGET bool tri_pairs_softmax(tri_pairs_rows16 *r, float *s, uint16_t *p, int n_row,
                                        const tri_pairs_seen *seen, float scale, float cap) {
  int    from = seen->panel * TRI_PAGE, to = seen->panel_end * TRI_PAGE;
  float  by = cap > 0 ? 1.0f : scale;
  __m512 before = _mm512_loadu_ps(r->max), factor;

  for (int i = 0; i < n_row; i++) {
    float *row = s + i * TRI_PAIRS_BLOCK, top;
    if (cap > 0) cap_scores(row + from, to - from, scale, cap);
    top = largest(row, from, to, seen->first[i], seen->end[i]) * by;
    if (seen->first[i] < seen->end[i] && !(top <= r->max[i])) r->max[i] = top;
  }
  factor = exp_16(_mm512_sub_ps(before, _mm512_loadu_ps(r->max)));
  _mm512_storeu_ps(r->factor, factor);
  for (int i = 0; i < n_row; i++) {
    uint16_t *row = p + i * TRI_PAIRS_BLOCK;
    __m512    sum;
    if (seen->first[i] >= seen->end[i]) { /* sees nothing of this block, so its sums stay */
      r->factor[i] = 1.0f;
      for (int k = from; k < to; k += 32) _mm512_storeu_si512(row + k, _mm512_setzero_si512());
      continue;
    }
    sum = weigh(s + i * TRI_PAIRS_BLOCK, row, from, to, seen->first[i], seen->end[i], by, r->max[i]);
    _mm512_storeu_ps(r->sum[i],
                     _mm512_fmadd_ps(_mm512_loadu_ps(r->sum[i]), _mm512_set1_ps(r->factor[i]), sum));
  }
  return _mm512_cmp_ps_mask(_mm512_loadu_ps(r->factor), _mm512_set1_ps(1.0f), _CMP_NEQ_UQ) &
         ((1u << n_row) - 1);
}

TRI_PAIRS_TARGET float tri_pairs_sum(const tri_pairs_rows16 *r, int row) {
  return _mm512_reduce_add_ps(_mm512_loadu_ps(r->sum[row]));
}

/* Processes one vector of queries from `at` on and one key. With a cap, s is already capped. */
static INLINE void slope_16(const tri_pairs_slope *a, const float *s, const float *dp, int at, __mmask16 m,
                            __m512 *p, __m512 *ds) {
  __m512 x = _mm512_loadu_ps(s), d = _mm512_sub_ps(_mm512_loadu_ps(dp), _mm512_loadu_ps(a->delta + at)), t;
  __m512 by = _mm512_set1_ps(a->cap > 0 ? 1.0f : a->scale);

  *p = _mm512_maskz_mov_ps(m, exp_16(_mm512_fmsub_ps(x, by, _mm512_loadu_ps(a->lse + at))));
  if (a->cap > 0) {
    t = _mm512_mul_ps(x, _mm512_set1_ps(1.0f / a->cap));
    d = _mm512_mul_ps(d, _mm512_fnmadd_ps(t, t, _mm512_set1_ps(1.0f)));
  }
  *ds = _mm512_maskz_mul_ps(m, *p, d);
}

TRI_PAIRS_TARGET void tri_pairs_grad(const tri_pairs_slope *a, float *s, const float *dp, uint16_t *p,
                                     uint16_t *ds, uint32_t *ds_pair, int panel, int panel_end,
                                     const int first[2], const int end[2]) {
  enum { LD = TRI_PAIRS_BLOCK };
  int from = panel * TRI_PAGE, to = panel_end * TRI_PAGE;

  for (int i = 0; a->cap > 0 && i < 2; i++) cap_scores(s + i * LD + from, to - from, a->scale, a->cap);
  for (int k = from; k < to; k += 32) {
    __m512i both[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      __m512 w[2], d[2];
#pragma GCC unroll 2
      for (int h = 0; h < 2; h++) {
        int at = k + 16 * h;
        slope_16(a, s + i * LD + at, dp + i * LD + at, at, seen_lanes(at, first[i], end[i]), w + h, d + h);
      }
      put_32(p + i * LD + k, w[0], w[1]);
      both[i] = (__m512i)_mm512_cvtne2ps_pbh(d[1], d[0]);
      _mm512_storeu_si512(ds + i * LD + k, both[i]);
    }
    _mm512_storeu_si512(ds_pair + k, _mm512_unpacklo_epi16(both[0], both[1]));
    _mm512_storeu_si512(ds_pair + k + 16, _mm512_unpackhi_epi16(both[0], both[1]));
  }
}
#endif
