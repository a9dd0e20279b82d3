/* logprob.cu - log-probability, entropy and their gradient from rows of logits. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "logprob.cuh"

enum { THREADS = 256 }; /* threads of logp_bwd_kernel, chosen */

/* Computes logp, ent, lse f32 [K] from logits f32 [K,V] and target i32 [K]. The grid is K. Tested against
 * tri_cpu_logp_fwd. */
template <int N_THREADS, bool VEC>
__global__ void __launch_bounds__(N_THREADS)
    logp_fwd_kernel(float *logp, float *ent, float *lse, const float *logits, const int32_t *target, int V,
                    float inv_temperature) {
  const float    *x = logits + (int64_t)blockIdx.x * V;
  int             id = target[blockIdx.x];
  tri_row_softmax r;

  TRI_KERNEL_ASSERT(id >= 0 && id < V);
  r = tri_softmax_row<N_THREADS, VEC>(x, V, inv_temperature);
  if (threadIdx.x == 0) {
    double log_sum = log(r.sum);
    logp[blockIdx.x] = tri_softmax_logp(x[id], inv_temperature, r.max, log_sum);
    ent[blockIdx.x] = (float)(log_sum - r.moment / r.sum);
    lse[blockIdx.x] = (float)((double)r.max + log_sum);
  }
}

tri_status tri_cuda_logp_fwd(tri_stream *s, tri_out logp, tri_out ent, tri_out lse, tri_in logits,
                             tri_in target, float inv_temperature) {
  int64_t K = logits->dim[0], V = logits->dim[1];

  TRI_ASSERT(logits->dtype == TRI_F32 && target->dim[0] == K && V > 0 && V <= INT32_MAX / 2);
  return TRI_LAUNCH_ROWS(logp_fwd_kernel, K, V, tri_vec4(V, logits->data), s, logp->data, ent->data,
                         lse->data, logits->data, target->data, V, inv_temperature);
}

/* dlogits A [K,V] = d/dlogits of sum(dlogp * logp + dent * ent). Rows with both 0 are written without being
 * read. The grid is K rows of `tiles` blocks, with 8 columns per thread. Tested against tri_cpu_logp_bwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    logp_bwd_kernel(A *dlogits, const float *logits, const int32_t *target, const float *lse,
                    const float *ent, const float *dlogp, const float *dent, int V, int tiles,
                    float inv_temperature) {
  int     k = blockIdx.x / tiles, i = (blockIdx.x % tiles * THREADS + threadIdx.x) * TRI_UNIT, id = target[k];
  int64_t at = (int64_t)k * V + i;
  float   dl = dlogp[k], dh = dent[k], l = lse[k], h = ent[k], v[8];

  TRI_KERNEL_ASSERT(id >= 0 && id < V);
  if (dl == 0 && dh == 0) {
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = 0;
  } else {
    tri_load8<VEC>(v, logits + at, V - i);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      v[j] = tri_logit_grad(v[j], inv_temperature, l, h, dl, dh);
      if (i + j == id) v[j] = fmaf(inv_temperature, dl, v[j]);
    }
  }
  tri_store8<VEC>(dlogits + at, v, V - i);
}

tri_status tri_cuda_logp_bwd(tri_stream *s, tri_out dlogits, tri_in logits, tri_in target, tri_in lse,
                             tri_in ent, tri_in dlogp, tri_in dent, float inv_temperature) {
  int64_t K = logits->dim[0], V = logits->dim[1], tiles = tri_blocks(V, THREADS * TRI_UNIT);

  TRI_ASSERT(logits->dtype == TRI_F32 && dlogits->dim[0] == K && dlogits->dim[1] == V);
  TRI_ASSERT(V > 0 && V <= INT32_MAX / 2 && K * tiles <= INT32_MAX);
  return TRI_LAUNCH_TYPED(logp_bwd_kernel, tri_type(dlogits), tri_vec8(V, dlogits->data, logits->data),
                          (unsigned)(K * tiles), THREADS, 0, s, dlogits->data, logits->data, target->data,
                          lse->data, ent->data, dlogp->data, dent->data, V, tiles, inv_temperature);
}
