/* gemm_cublas.c - the linear_* operations by cuBLASLt, each product by the algorithm chosen for its number of
 * rows.
 *
 * cuBLASLt's arrays are column-major, so every product here is the transposed one: y^T [n_out,M] = W x^T. The
 * library picks an algorithm for one number of rows, and two algorithms may add in different orders. So the
 * algorithms in use are chosen when the shape is opened, and all algorithms for fwd give a row the same bits
 * (gemm_agree.c). NVIDIA promises less. It promises the same bits from run to run of one call on one kind of
 * GPU by one version ("Results Reproducibility"). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "gemm_cuda.h"
#include "gemm_impl.h"

/* ---- open, size, bind ---- */

/* The products of gradients run beside collectives. They are made for the multiprocessors these leave free. A
 * kernel with a block for every place on the GPU would need a second wave. fwd is excluded, because its bits
 * may depend on it. */
static tri_status leave_to_lanes(const tri_linear *l, const tri_lt *p) {
  const int32_t left = l->device->n_sm - l->device->lane_sm;

  if (p->dir == TRI_LT_FWD || !l->device->lane_sm || left <= 0) return TRI_OK;
  TRI_LT_TRY(
      cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &left, sizeof left));
  return TRI_OK;
}

static tri_status product_open(tri_linear *l, tri_lt *p, tri_lt_direction dir, tri_dtype out, bool bias) {
  const cublasOperation_t a = dir == TRI_LT_FWD ? CUBLAS_OP_T : CUBLAS_OP_N,
                          b = dir == TRI_LT_BWD_W ? CUBLAS_OP_T : CUBLAS_OP_N;
  const void *const        somewhere = (const void *)(uintptr_t)256; /* aligned as params.c aligns tensors */
  const cublasLtEpilogue_t end = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  tri_lt_found             f;

  p->dir = dir;
  p->out = out;
  p->bias = bias;
  TRI_LT_TRY(cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F)); /* no tf32 */
  TRI_LT_TRY(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
  TRI_LT_TRY(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
  TRI_LT_TRY(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end));
  if (bias) /* the library may judge algorithms by its address */
    TRI_LT_TRY(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &somewhere,
                                              sizeof somewhere));
  TRI_TRY(leave_to_lanes(l, p));
  TRI_TRY(tri_lt_look_up(l, p, tri_lt_rows[TRI_LT_MANY], false, &f));
  if (!f.n)
    TRI_FAIL(
        TRI_EDEVICE,
        "cuBLASLt %zu on %s has no algorithm without split sums for a [%lld,%lld] weight of type %s. If a "
        "size, such as the vocabulary, is not a multiple of 8, use a model padded to one, or set "
        "model.dtype: f32",
        cublasLtGetVersion(), l->device->base.model, (long long)l->n_out, (long long)l->n_in,
        tri_lt_type_name(l->dtype));
  for (int i = 0; i < TRI_LT_BUCKETS; i++) p->algo[i] = f.at[0].algo;
  tri_lt_enlarge(&l->lt_bytes, f.at[0].workspaceSize);
  return TRI_OK;
}

void tri_cuda_blas_close(tri_cuda_device *d) {
  if (d->blas) cublasLtDestroy(d->blas);
  d->blas = NULL;
}

static tri_status open_products(tri_linear *l) {
  const bool half = l->dtype != TRI_F32;

  if (!l->device->blas) TRI_LT_TRY(cublasLtCreate(&l->device->blas));
  TRI_TRY(product_open(l, &l->fwd[TRI_LT_Y_A], TRI_LT_FWD, l->dtype, false));
  TRI_TRY(product_open(l, &l->fwd[TRI_LT_Y_A_BIAS], TRI_LT_FWD, l->dtype, true));
  if (half) TRI_TRY(product_open(l, &l->fwd[TRI_LT_Y_F32], TRI_LT_FWD, TRI_F32, false));
  if (!l->backward) return TRI_OK;
  TRI_TRY(product_open(l, &l->bwd_x[0], TRI_LT_BWD_X, l->dtype, false));
  if (half) TRI_TRY(product_open(l, &l->bwd_x[1], TRI_LT_BWD_X, TRI_F32, false));
  return product_open(l, &l->bwd_w, TRI_LT_BWD_W, TRI_F32, false);
}

static tri_status settle(tri_linear *l, const tri_linear *whole) {
  if (!tri_lt_recall(l, TRI_LT_PART_FWD)) {
    TRI_TRY(l->any_order ? tri_lt_settle_free(l) : tri_lt_settle(l, whole));
    tri_lt_remember(l, TRI_LT_PART_FWD);
  }
  if (!l->backward || tri_lt_recall(l, TRI_LT_PART_BWD)) return TRI_OK;
  TRI_TRY(tri_lt_settle_backward(l));
  tri_lt_remember(l, TRI_LT_PART_BWD);
  return TRI_OK;
}

tri_status tri_cuda_linear_open(tri_device *d, const tri_linear_spec *spec, tri_linear **out) {
  const tri_linear *whole = spec->any_order ? NULL : spec->whole;
  tri_status        st = TRI_OK;
  tri_linear       *l = NULL;

  *out = NULL;
  TRI_ASSERT(spec->n_out > 0 && spec->n_in > 0 && tri_dtype_computes(spec->dtype));
  TRI_ASSERT(!whole || (whole->n_out >= spec->n_out && whole->n_in == spec->n_in &&
                        whole->dtype == spec->dtype && !whole->any_order && !spec->backward));
  TRI_CUDA_TRY(cudaSetDevice(d->index));
  TRI_TRY(TRI_ALLOC(l, 1));
  l->device = (tri_cuda_device *)d;
  l->n_out = spec->n_out;
  l->n_in = spec->n_in;
  l->n_whole = spec->whole ? spec->whole->n_out : 0;
  l->dtype = spec->dtype;
  l->backward = spec->backward;
  l->any_order = spec->any_order;
  TRI_TRY_DONE(open_products(l));
  TRI_TRY_DONE(settle(l, whole));
  *out = l;
  l = NULL;
done:
  (void)tri_cuda_linear_close(&l);
  return st;
}

tri_status tri_cuda_linear_close(tri_linear **l) {
  if (!*l) return TRI_OK;
  for (int i = 0; i < TRI_LT_FWDS; i++)
    if ((*l)->fwd[i].desc) cublasLtMatmulDescDestroy((*l)->fwd[i].desc);
  for (int i = 0; i < 2; i++)
    if ((*l)->bwd_x[i].desc) cublasLtMatmulDescDestroy((*l)->bwd_x[i].desc);
  if ((*l)->bwd_w.desc) cublasLtMatmulDescDestroy((*l)->bwd_w.desc);
  TRI_FREE(*l);
  return TRI_OK;
}

tri_status tri_cuda_linear_size(const tri_linear *l, tri_linear_bytes *out) {
  *out = (tri_linear_bytes){.workspace = tri_gpu_workspace_bytes(l->n_out, l->n_in, l->dtype)};
  return TRI_OK;
}

tri_status tri_cuda_linear_bind(tri_linear *l, void *workspace, size_t bytes) {
  tri_linear_bytes need;

  TRI_TRY(tri_cuda_linear_size(l, &need));
  TRI_ASSERT(workspace && bytes >= need.workspace && (uintptr_t)workspace % 256 == 0);
  l->workspace = workspace;
  return TRI_OK;
}

/* Does nothing, since both directions multiply by w itself. */
tri_status tri_cuda_linear_pack(tri_stream *s, tri_linear *l, void *packed_fwd, void *packed_bwd, tri_in w,
                                int part, int n_part) {
  (void)s, (void)part, (void)n_part;
  TRI_ASSERT(!packed_fwd && !packed_bwd && w->dtype == l->dtype && w->dim[0] == l->n_out &&
             w->dim[1] == l->n_in);
  return TRI_OK;
}

/* ---- the products ---- */

static void assert_shape(tri_in t, int64_t rows, int64_t cols) {
  TRI_ASSERT(t->ndim == 2 && t->dim[0] == rows && t->dim[1] == cols);
}

/* Returns the rows of a block. A product of more than `most` rows runs in blocks of about one size. */
static int64_t block_rows(int64_t rows, int64_t most) {
  int64_t n = (rows + most - 1) / most;

  return n ? (rows + n - 1) / n : 1;
}

/* Returns c for rows [first, first + n). b, d and base advance by these bytes per row. */
static tri_lt_call block_of(const tri_lt_call *c, int64_t first, int64_t n, size_t b_row, size_t d_row) {
  tri_lt_call part = *c;

  part.rows = c->rows - first < n ? c->rows - first : n;
  part.b = (const char *)c->b + (size_t)first * b_row;
  part.d = (char *)c->d + (size_t)first * d_row;
  if (c->base) part.base = (const char *)c->base + (size_t)first * d_row;
  return part;
}

/* Runs fwd or bwd_x. Each row of d comes from the same row of b. */
static tri_status run_rows(tri_stream *s, const tri_linear *l, const tri_lt *p, const tri_lt_call *c) {
  int64_t k = p->dir == TRI_LT_FWD ? l->n_in : l->n_out, width = l->n_in + l->n_out - k;
  int64_t n = block_rows(c->rows, p->dir == TRI_LT_FWD ? l->fwd_rows : tri_lt_rows[TRI_LT_MANY]);

  for (int64_t first = 0; first < c->rows; first += n) {
    tri_lt_call part =
        block_of(c, first, n, (size_t)k * tri_dtype_bytes(l->dtype), (size_t)width * tri_dtype_bytes(p->out));
    TRI_TRY(tri_lt_run(l, p, &p->algo[tri_lt_bucket(part.rows)], s, &part));
  }
  return TRI_OK;
}

tri_status tri_cuda_linear_fwd(tri_stream *s, tri_linear *l, const void *packed_fwd, tri_out y, tri_in x,
                               tri_in bias, tri_in base) {
  tri_lt_call   c = {.a = packed_fwd,
                     .b = x->data,
                     .d = y->data,
                     .base = base ? base->data : NULL,
                     .rows = x->dim[0],
                     .workspace = l->workspace,
                     .bytes = l->lt_bytes};
  const tri_lt *p = &l->fwd[y->dtype == l->dtype ? TRI_LT_Y_A : TRI_LT_Y_F32];

  assert_shape(x, c.rows, l->n_in);
  assert_shape(y, c.rows, l->n_out);
  if (base) assert_shape(base, c.rows, l->n_out);
  TRI_ASSERT(!base || base->dtype == y->dtype);
  TRI_ASSERT(x->dtype == l->dtype && (y->dtype == TRI_F32 || y->dtype == l->dtype));
  TRI_ASSERT(!bias || (bias->dim[0] == l->n_out && (bias->dtype == l->dtype || y->dtype == TRI_F32)));
  if (bias && bias->dtype == y->dtype && y->dtype == l->dtype) {
    p = &l->fwd[TRI_LT_Y_A_BIAS];
    c.bias = bias->data;
  } else if (bias) {
    TRI_TRY(tri_cuda_bias_rows(s, y, bias, base));
    c.base = y->data;
  }
  return run_rows(s, l, p, &c);
}

tri_status tri_cuda_linear_bwd_x(tri_stream *s, tri_linear *l, const void *packed_bwd, tri_out dx, tri_in dy,
                                 bool add) {
  const tri_lt     *p = &l->bwd_x[dx->dtype != l->dtype];
  const tri_lt_call c = {.a = packed_bwd,
                         .b = dy->data,
                         .d = dx->data,
                         .base = add ? dx->data : NULL,
                         .rows = dy->dim[0],
                         .workspace = l->workspace,
                         .bytes = l->lt_bytes};

  assert_shape(dy, c.rows, l->n_out);
  assert_shape(dx, c.rows, l->n_in);
  TRI_ASSERT(l->backward && dy->dtype == l->dtype && (dx->dtype == TRI_F32 || dx->dtype == l->dtype));
  return run_rows(s, l, p, &c);
}

tri_status tri_cuda_linear_bwd_w(tri_stream *s, tri_linear *l, tri_out dw, tri_in dy, tri_in x, bool add) {
  const tri_lt_call c = {.a = x->data,
                         .b = dy->data,
                         .d = dw->data,
                         .rows = x->dim[0],
                         .workspace = l->workspace,
                         .bytes = l->lt_bytes};
  int64_t           n;

  assert_shape(x, c.rows, l->n_in);
  assert_shape(dy, c.rows, l->n_out);
  assert_shape(dw, l->n_out, l->n_in);
  TRI_ASSERT(l->backward && x->dtype == l->dtype && dy->dtype == l->dtype && dw->dtype == TRI_F32);
  if (!c.rows && !add) /* an empty sum */
    return s->device->ops->fill(s, dw->data, 0, (size_t)(l->n_out * l->n_in) * sizeof(float));
  n = block_rows(c.rows, l->sum_rows);
  for (int64_t first = 0; first < c.rows; first += n) {
    tri_lt_call part = block_of(&c, first, n, (size_t)l->n_out * tri_dtype_bytes(l->dtype), 0);
    part.a = (const char *)c.a + (size_t)(first * l->n_in) * tri_dtype_bytes(l->dtype);
    part.base = add || first > 0 ? dw->data : NULL;
    TRI_TRY(tri_lt_run(l, &l->bwd_w, &l->bwd_w.algo[tri_lt_bucket(part.rows)], s, &part));
  }
  return TRI_OK;
}
