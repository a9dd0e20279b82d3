/* formula.h - the formulas every back end needs, once: C and CUDA compile the same lines. Layer 0.
 * exp is our own polynomial so that a row has the same bits in every kernel that uses it. */
#ifndef TRI_FORMULA_H
#define TRI_FORMULA_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TRI_INLINE static inline __host__ __device__
#else
#define TRI_INLINE static inline
#endif

/* e^x to about 1 ulp for |x| <= 87; below -87.3 it is 0, above 88.7 infinity. Branch-free so that loops
 * vectorise. Range reduction x = n ln 2 + r, |r| <= ln 2 / 2 (Cody, Waite 1980), then a polynomial of degree
 * 6 (Cephes expf). */
TRI_INLINE float tri_exp(float x) {
  float   t = x > 88.72283f ? 88.72283f : x >= -87.33654f ? x : -87.33654f; /* NaN too: it is no int */
  float   n = rintf(t * 1.44269504088896341f);
  float   r = fmaf(n, -0.693359375f, t);
  float   p = 1.9875691500e-4f, y;
  int32_t k;
  union {
    uint32_t u;
    float    f;
  } lo, hi;
  r = fmaf(n, 2.12194440e-4f, r);
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  y = fmaf(p, r * r, r) + 1.0f;
  /* 2^n in two factors: n reaches 128. */
  k = (int32_t)n;
  lo.u = (uint32_t)((k >> 1) + 127) << 23;
  hi.u = (uint32_t)(k - (k >> 1) + 127) << 23;
  y = y * lo.f * hi.f;
  y = x < -87.33654f ? 0.0f : y;
  y = x > 88.72283f ? INFINITY : y;
  return x != x ? x : y;
}

/* SiLU (Elfwing et al. 2018): x * sigmoid(x), and its derivative. */
TRI_INLINE float tri_sigmoid(float x) { return 1.0f / (1.0f + tri_exp(-x)); }
TRI_INLINE float tri_silu(float x) { return x * tri_sigmoid(x); }
TRI_INLINE float tri_silu_slope(float x) {
  float s = tri_sigmoid(x);
  return s * fmaf(x, 1.0f - s, 1.0f);
}

/* AdamW (Loshchilov, Hutter 2019, algorithm 2) for one element. rate = lr / (1 - beta1^t),
 * root = 1 / sqrt(1 - beta2^t), shrink = 1 - lr * weight_decay. */
TRI_INLINE void tri_adamw(float *w, float *m, float *v, float g, float beta1, float beta2, float eps,
                          float rate, float root, float shrink) {
  *m = fmaf(beta1, *m, (1.0f - beta1) * g);
  *v = fmaf(beta2, *v, (1.0f - beta2) * g * g);
  *w = *w * shrink - rate * *m / (sqrtf(*v) * root + eps);
}

#endif
