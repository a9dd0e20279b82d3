/* gemm_product.c - one product by cuBLASLt: its layouts, its call and its error message. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gemm_impl.h"

tri_status tri_lt_failed(const tri_linear *l, const char *file, int line, cublasStatus_t e,
                         const char *what) {
  return tri_fail(file, line, "cuBLASLt", TRI_EDEVICE,
                  "cuBLASLt %zu, [%lld,%lld] weight of type %s: %s in %s", cublasLtGetVersion(),
                  (long long)l->n_out, (long long)l->n_in, tri_lt_type_name(l->dtype),
                  cublasLtGetStatusString(e), what);
}

/* d = op(a) op(b). fwd is y^T = W x^T, bwd_x is dx^T = W^T dy^T, bwd_w is dw^T = x^T dy. a is [n_in,..] each
 * time. */
tri_status tri_lt_set_layouts(const tri_linear *l, const tri_lt *p, int64_t rows, tri_lt_layouts *out) {
  uint64_t in = (uint64_t)l->n_in, o = (uint64_t)l->n_out, M = (uint64_t)rows,
           b = p->dir == TRI_LT_FWD ? in : o;
  uint64_t d_rows = p->dir == TRI_LT_FWD ? o : in, d_cols = p->dir == TRI_LT_BWD_W ? o : M;

  TRI_LT_TRY(
      cublasLtMatrixLayoutInit(&out->a, tri_lt_type(l->dtype), in, p->dir == TRI_LT_BWD_W ? M : o, l->n_in));
  TRI_LT_TRY(cublasLtMatrixLayoutInit(&out->b, tri_lt_type(l->dtype), b, M, (int64_t)b));
  TRI_LT_TRY(cublasLtMatrixLayoutInit(&out->d, tri_lt_type(p->out), d_rows, d_cols, (int64_t)d_rows));
  return TRI_OK;
}

tri_status tri_lt_run(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo, tri_stream *s,
                      const tri_lt_call *c) {
  const float    alpha = 1, beta = c->base ? 1 : 0;
  tri_lt_layouts t;

  TRI_ASSERT(p->desc && c->workspace && p->bias == (c->bias != NULL));
  if (c->rows == 0) return TRI_OK;
  TRI_TRY(tri_lt_set_layouts(l, p, c->rows, &t));
  if (c->bias)
    TRI_LT_TRY(
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &c->bias, sizeof c->bias));
  TRI_LT_TRY(cublasLtMatmul(l->device->blas, p->desc, &alpha, c->a, &t.a, c->b, &t.b, &beta,
                            c->base ? c->base : c->d, &t.d, c->d, &t.d, algo, c->workspace, c->bytes,
                            tri_cuda_stream_of(s)));
  return TRI_OK;
}
