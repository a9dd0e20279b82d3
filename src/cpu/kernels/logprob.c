/* logprob.c - log-probability, entropy and their gradient from rows of logits. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include <string.h>

enum { BLOCK = TRI_CPU_LOGITS };

static inline float block_max(const float *x, int64_t n) {
  float   lane[TRI_CPU_LANES];
  int64_t i = 0;
  for (int j = 0; j < TRI_CPU_LANES; j++) lane[j] = -INFINITY;
  for (; i + TRI_CPU_LANES <= n; i += TRI_CPU_LANES) {
#pragma omp simd
    for (int j = 0; j < TRI_CPU_LANES; j++) lane[j] = tri_cpu_max(x[i + j], lane[j]);
  }
  for (int j = 0; i + j < n; j++) lane[j] = tri_cpu_max(x[i + j], lane[j]);
  return tri_cpu_fold_max(lane);
}

/* Computes the sums of exp(d) and of exp(d) d, with d = inv_temperature x - max. */
static inline void block_sums(const float *x, int64_t n, float inv_temperature, float max, float *sum,
                              float *moment) {
  float   s[TRI_CPU_LANES] = {0}, t[TRI_CPU_LANES] = {0};
  int64_t i = 0;
  for (; i + TRI_CPU_LANES <= n; i += TRI_CPU_LANES) {
#pragma omp simd
    for (int j = 0; j < TRI_CPU_LANES; j++) {
      float d = tri_not_far(fmaf(x[i + j], inv_temperature, -max)), e = tri_exp(d);
      s[j] += e;
      t[j] = fmaf(e, d, t[j]);
    }
  }
  for (int j = 0; i + j < n; j++) {
    float d = tri_not_far(fmaf(x[i + j], inv_temperature, -max)), e = tri_exp(d);
    s[j] += e;
    t[j] = fmaf(e, d, t[j]);
  }
  *sum = tri_cpu_fold_sum(s);
  *moment = tri_cpu_fold_sum(t);
}

/* Online softmax (Milakov, Gimelshein 2018). It also accumulates the first moment, for the entropy. */
void tri_cpu_softmax_row(const float *x, int64_t V, float inv_temperature, tri_cpu_softmax *out,
                         double *mass) {
  float  max = -INFINITY;
  double sum = 0, moment = 0;

  for (int64_t first = 0; first < V; first += BLOCK) {
    int64_t n = V - first < BLOCK ? V - first : BLOCK;
    float   top = tri_cpu_max(block_max(x + first, n) * inv_temperature, max), block_sum, block_moment;
    if (top > max) {
      if (sum > 0) {
        double factor = exp((double)max - top);
        moment = factor * fma((double)max - top, sum, moment);
        sum *= factor;
      }
      max = top;
    }
    block_sums(x + first, n, inv_temperature, max == -INFINITY ? 0 : max, &block_sum, &block_moment);
    sum += block_sum;
    moment += block_moment;
    if (mass) mass[2 * (first / BLOCK)] = block_sum, mass[2 * (first / BLOCK) + 1] = max;
  }
  for (int64_t i = 0; mass && i * BLOCK < V; i++) mass[i] = mass[2 * i] * exp(mass[2 * i + 1] - (double)max);
  out->max = max;
  out->log_sum = log(sum);
  out->excess = moment / sum;
}

tri_status tri_cpu_logp_fwd(tri_stream *s, tri_out logp, tri_out ent, tri_out lse, tri_in logits,
                            tri_in target, float inv_temperature) {
  int64_t        K = logits->dim[0], V = logits->dim[1];
  const int32_t *id = target->data;

  TRI_ASSERT(logits->dtype == TRI_F32 && target->dim[0] == K);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * K * V))
  for (int64_t k = 0; k < K; k++) {
    const float    *x = (const float *)logits->data + k * V;
    tri_cpu_softmax r;
    TRI_ASSERT(id[k] >= 0 && id[k] < V);
    tri_cpu_softmax_row(x, V, inv_temperature, &r, NULL);
    ((float *)logp->data)[k] = tri_softmax_logp(x[id[k]], inv_temperature, r.max, r.log_sum);
    ((float *)ent->data)[k] = (float)(r.log_sum - r.excess);
    ((float *)lse->data)[k] = (float)(r.max + r.log_sum);
  }
  return TRI_OK;
}

static TRI_CPU_EACH void logp_row_bwd(const tri_dtype A, void *dx, const float *x, int64_t V, int32_t target,
                                      float lse, float ent, float dlogp, float dent, float inv_temperature) {
  float at_target =
      fmaf(inv_temperature, dlogp, tri_logit_grad(x[target], inv_temperature, lse, ent, dlogp, dent));
  float own[TRI_CPU_PIECE];
  for (int64_t at = 0; at < V; at += TRI_CPU_PIECE) {
    int64_t n = V - at < TRI_CPU_PIECE ? V - at : TRI_CPU_PIECE;
    float  *to = tri_cpu_piece(A, dx, at, own);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = tri_logit_grad(x[at + i], inv_temperature, lse, ent, dlogp, dent);
    tri_cpu_put_piece(A, dx, at, to, n);
  }
  tri_cpu_set(dx, A, target, at_target);
}

tri_status tri_cpu_logp_bwd(tri_stream *s, tri_out dlogits, tri_in logits, tri_in target, tri_in lse,
                            tri_in ent, tri_in dlogp, tri_in dent, float inv_temperature) {
  int64_t        K = logits->dim[0], V = logits->dim[1];
  const int32_t *id = target->data;
  const float   *x = logits->data, *l = lse->data, *h = ent->data, *dl = dlogp->data, *dh = dent->data;
  tri_dtype      A = tri_cpu_type(dlogits);

  TRI_ASSERT(logits->dtype == TRI_F32 && dlogits->dim[0] == K && dlogits->dim[1] == V);
#pragma omp parallel for schedule(static) num_threads(tri_cpu_threads(s, 8 * K * V))
  for (int64_t k = 0; k < K; k++) {
    void *to = tri_cpu_at_out(dlogits->data, A, k * V);
    TRI_ASSERT(id[k] >= 0 && id[k] < V);
    if (dl[k] == 0 && dh[k] == 0)
      memset(to, 0, (size_t)V * tri_dtype_bytes(dlogits->dtype));
    else
      TRI_CPU_OF(A, logp_row_bwd, to, x + k * V, V, id[k], l[k], h[k], dl[k], dh[k], inv_temperature);
  }
  return TRI_OK;
}
