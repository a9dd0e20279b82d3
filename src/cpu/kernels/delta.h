/* delta.h - the operands of the gated delta rule, shared by its forward and backward kernels. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_DELTA_H
#define TRI_CPU_DELTA_H

#include "cpu.h"

typedef struct tri_cpu_delta_in { /* the inputs of one delta_fwd or delta_bwd */
  const void    *c, *ba;
  tri_in         A_log, dt_bias;
  tri_dtype      A;
  int64_t        Er;
  tri_delta_rule rule;
} tri_cpu_delta_in;

/* Consecutive rows of one value head. k and q are f32 [rows,ld], normalised, with zeros behind column Dk. */
typedef struct tri_cpu_delta_chunk {
  int64_t ld; /* Dk rounded up to 16 */
  float   k[TRI_DELTA_ROWS * TRI_DELTA_MOST], q[TRI_DELTA_ROWS * TRI_DELTA_MOST];
  float   g[TRI_DELTA_ROWS], beta[TRI_DELTA_ROWS]; /* the decay, not its logarithm */
  float   kq[TRI_DELTA_ROWS];                      /* k q */
} tri_cpu_delta_chunk;

/* The numbers by which a head computes its decay. */
typedef struct tri_cpu_decay {
  float rate, bias; /* exp(A_log), dt_bias */
} tri_cpu_decay;

/* delta.c. Checks shapes and types. */
tri_cpu_delta_in tri_cpu_delta_open(tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias,
                                    const tri_delta_rule *rule);
tri_cpu_decay    tri_cpu_delta_decay(const tri_cpu_delta_in *in, int h);
/* Loads n <= TRI_DELTA_ROWS rows of value head h, from batch row `row` on. */
void tri_cpu_delta_load(const tri_cpu_delta_in *in, tri_cpu_delta_chunk *r, int64_t row, int n, int h);

/* Returns softplus(x) as transformers computes it, and its derivative. */
static inline float tri_cpu_softplus(float x) { return x > 20.0f ? x : log1pf(tri_exp(x)); }
static inline float tri_cpu_softplus_slope(float x) { return x > 20.0f ? 1.0f : tri_sigmoid(x); }

/* Returns 1 / sqrt(sum of x^2 + 1e-6), by which rows of q and k are normalised. */
float tri_cpu_delta_scale(const float *x, int64_t n);
/* Returns the sum of a b in TRI_CPU_LANES partial sums. n is a multiple of 16. */
float tri_cpu_delta_dot(const float *a, const float *b, int64_t n);

#endif
