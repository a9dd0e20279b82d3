/* formula.h - the formulas every back end needs, once, so that C and CUDA compile the same lines. exp is our
 * own polynomial, so a row has the same bits in every kernel. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FORMULA_H
#define TRI_FORMULA_H

#include "base/inline.h"

#include <math.h>
#include <stdint.h>

/* The middle of tri_exp, e^t for TRI_EXP_LOW <= t <= TRI_EXP_HIGH. tri_exp keeps all its bits in this range.
 * The range reduction is t = n ln 2 + r with |r| <= ln 2 / 2 (Cody, Waite 1980). A polynomial of degree 6
 * follows (Cephes expf), scaled by adding n to the exponent bits, which cannot overflow in this range. A GPU
 * rounds by adding 1.5 2^23, which also leaves n in the low bits. The results have the same bits
 * (test_formula.c). */
#define TRI_EXP_LOW  (-87.33654f)
#define TRI_EXP_HIGH 88.72283f
TRI_INLINE float tri_exp_near(float t) {
  float p = 1.9875691500e-4f, n, r, y;
#if TRI_ON_GPU
  float shifted = __fadd_rn(__fmul_rn(t, 1.44269504088896341f), 0x1.8p23f);
  n = shifted - 0x1.8p23f;
#else
  union {
    float    f;
    uint32_t u;
  } scaled;
  n = rintf(t * 1.44269504088896341f);
#endif
  r = fmaf(n, -0.693359375f, t);
  r = fmaf(n, 2.12194440e-4f, r);
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  y = fmaf(p, r * r, r) + 1.0f;
#if TRI_ON_GPU
  return __uint_as_float(__float_as_uint(y) + (__float_as_uint(shifted) << 23));
#else
  scaled.f = y;
  scaled.u += (uint32_t)(int32_t)n << 23;
  return scaled.f;
#endif
}

/* Returns e^x to about 1 ulp for |x| <= 87. Below -87.3 it is 0, above 88.7 infinity. It has no branches, so
 * loops vectorise. */
TRI_INLINE float tri_exp(float x) {
#if TRI_ON_GPU
  float t = fminf(fmaxf(x, TRI_EXP_LOW), TRI_EXP_HIGH); /* NaN becomes TRI_EXP_LOW */
#else
  float t = x > TRI_EXP_LOW ? x : TRI_EXP_LOW; /* NaN too, as it has no int value */
  t = t < TRI_EXP_HIGH ? t : TRI_EXP_HIGH;
#endif
  float y = tri_exp_near(t);
  y = x < TRI_EXP_LOW ? 0.0f : y;
  y = x > TRI_EXP_HIGH ? INFINITY : y;
  return x != x ? x : y;
}

/* SiLU (Elfwing et al. 2018) is x * sigmoid(x). Its derivative follows. */
TRI_INLINE float tri_sigmoid(float x) { return 1.0f / (1.0f + tri_exp(-x)); }
TRI_INLINE float tri_silu(float x) { return x * tri_sigmoid(x); }
TRI_INLINE float tri_silu_slope(float x) {
  float s = tri_sigmoid(x);
  return s * fmaf(x, 1.0f - s, 1.0f);
}

/* GELU in its tanh form (Hendrycks, Gimpel 2016) is x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). The
 * first function is its gate, the sigmoid. The second is its derivative from x and gate. */
#define TRI_GELU_RISE  1.59576912f /* 2 sqrt(2 / pi) */
#define TRI_GELU_CUBIC 0.044715f
TRI_INLINE float tri_gelu_gate(float x) {
  return tri_sigmoid(TRI_GELU_RISE * x * fmaf(TRI_GELU_CUBIC * x, x, 1.0f));
}
TRI_INLINE float tri_gelu_slope(float x, float gate) {
  float square = x * x < 1e6f ? x * x : 1e6f; /* for larger x the gate is 0 or 1 */
  return gate * fmaf(x * (1.0f - gate), TRI_GELU_RISE * fmaf(3.0f * TRI_GELU_CUBIC, square, 1.0f), 1.0f);
}

/* Returns tanh x to about 2 ulp, near 0 by a polynomial (Cephes tanhf), else from e^2x. */
TRI_INLINE float tri_tanh(float x) {
  float a = fabsf(x), z = x * x, p = -5.70498872745e-3f, far;
  p = fmaf(p, z, 2.06390887954e-2f);
  p = fmaf(p, z, -5.37397155531e-2f);
  p = fmaf(p, z, 1.33314422036e-1f);
  p = fmaf(p, z, -3.33332819422e-1f);
  far = 1.0f - 2.0f / (tri_exp(a + a) + 1.0f);
  return a < 0.625f ? fmaf(x * z, p, x) : copysignf(far, x);
}

/* Soft cap (Gemma 2, 2024) is cap tanh(x / cap), with inverse = 1 / cap. The second function is its
 * derivative from the capped value. */
TRI_INLINE float tri_softcap(float x, float cap, float inverse) {
#if TRI_ON_GPU
  return __fmul_rn(cap, tri_tanh(x * inverse)); /* no kernel may fuse it into an FMA */
#else
  return cap * tri_tanh(x * inverse);
#endif
}
TRI_INLINE float tri_softcap_slope(float capped, float inverse) {
  float t = capped * inverse;
  return fmaf(-t, t, 1.0f);
}

/* Returns d, but not less than TRI_FAR, because tri_exp is 0 there. This keeps exp(d) * d from being 0 *
 * infinity. A NaN stays a NaN. */
#define TRI_FAR (-104.0f)
TRI_INLINE float tri_not_far(float d) { return d < TRI_FAR ? TRI_FAR : d; }

/* Returns the log-probability of a logit x in nats. max is the largest logit * inv_temperature. log_sum is
 * the log of the sum of exp(x * inv_temperature - max) over the row. */
TRI_INLINE float tri_softmax_logp(float x, float inv_temperature, float max, double log_sum) {
  return (float)((double)fmaf(x, inv_temperature, -max) - log_sum);
}

/* Returns d/dx (dlogp * logp + dent * entropy) at a logit x other than the target. Here d logp = -p and d
 * entropy = -p (log p + entropy), both times inv_temperature. At the target the caller adds inv_temperature *
 * dlogp. */
TRI_INLINE float tri_logit_grad(float x, float inv_temperature, float lse, float ent, float dlogp,
                                float dent) {
  float d = tri_not_far(fmaf(x, inv_temperature, -lse));
  return -inv_temperature * tri_exp(d) * fmaf(dent, d + ent, dlogp);
}

/* Unsigned numbers in the order of the floats. -0 and 0 get the same number. tri_order_value is the inverse
 * of tri_order_key. */
TRI_INLINE uint32_t tri_order_key(float x) {
  union {
    float    f;
    uint32_t u;
  } c;
  c.f = x + 0.0f;
  return c.u & 0x80000000u ? ~c.u : c.u | 0x80000000u;
}
TRI_INLINE float tri_order_value(uint32_t key) {
  union {
    uint32_t u;
    float    f;
  } c;
  c.u = key & 0x80000000u ? key & 0x7fffffffu : ~key;
  return c.f;
}

/* AdamW (Loshchilov, Hutter 2019, algorithm 2) for one element. rate = lr / (1 - beta1^t), root = 1 / sqrt(1
 * - beta2^t), shrink = 1 - lr * weight_decay. */
TRI_INLINE void tri_adamw(float *w, float *m, float *v, float g, float beta1, float beta2, float eps,
                          float rate, float root, float shrink) {
  *m = fmaf(beta1, *m, (1.0f - beta1) * g);
  *v = fmaf(beta2, *v, (1.0f - beta2) * g * g);
  *w = *w * shrink - rate * *m / (sqrtf(*v) * root + eps);
}

#endif
