/* gemm_cublas.c - the linear_* operations by cuBLASLt: products, and which algorithm runs them.
 *
 * cuBLASLt's arrays are column-major, so every product here is the transposed one: y^T [n_out,M] = W x^T. The library
 * picks an algorithm for one number of rows, and two algorithms may add in different orders. So those in use are chosen
 * when the shape is opened, none of them divides a sum (split-K), and all that serve fwd give a row the same bits
 * (gemm_agree.c). */
#include "gpu/gemm_impl.h"

enum { ALIGN_WEIGHTS = 128 }; /* bytes; 64 elements, which params.c keeps to, in the smaller type */
/* An algorithm's workspace at most: NVIDIA's advice for compute capability 9.0. */
enum { LT_BYTES = 32 << 20 };

static cudaDataType_t lt_type(tri_dtype t) { return t == TRI_F32 ? CUDA_R_32F : CUDA_R_16BF; }

static tri_status lt_failed(const tri_linear *l, int line, cublasStatus_t e, const char *what) {
  return tri_fail(__FILE__, line, __func__, TRI_EDEVICE,
                  "cuBLASLt %zu, [%lld,%lld] weight of type %s: %s in %s", cublasLtGetVersion(),
                  (long long)l->n_out, (long long)l->n_in, tri_lt_type_name(l->dtype),
                  cublasLtGetStatusString(e), what);
}
#define LT_TRY(call)                                                                                         \
  do {                                                                                                       \
    cublasStatus_t try_ = (call);                                                                            \
    if (try_ != CUBLAS_STATUS_SUCCESS) return lt_failed(l, __LINE__, try_, #call);                           \
  } while (0)
#define LT_TRY_DONE(call)                                                                                    \
  do {                                                                                                       \
    cublasStatus_t try_ = (call);                                                                            \
    if (try_ != CUBLAS_STATUS_SUCCESS) {                                                                     \
      st = lt_failed(l, __LINE__, try_, #call);                                                              \
      goto done;                                                                                             \
    }                                                                                                        \
  } while (0)

/* ---- one product ---- */

typedef struct layouts {
  cublasLtMatrixLayoutOpaque_t a, b, d;
} layouts;

/* d = op(a) op(b): fwd y^T = W x^T, bwd_x dx^T = W^T dy^T, bwd_w dw^T = x^T dy; a [n_in,..] each time. */
static tri_status set_layouts(const tri_linear *l, const tri_lt *p, int64_t rows, layouts *out) {
  uint64_t in = (uint64_t)l->n_in, o = (uint64_t)l->n_out, M = (uint64_t)rows,
           b = p->dir == TRI_LT_FWD ? in : o;
  uint64_t d_rows = p->dir == TRI_LT_FWD ? o : in, d_cols = p->dir == TRI_LT_BWD_W ? o : M;

  LT_TRY(cublasLtMatrixLayoutInit(&out->a, lt_type(l->dtype), in, p->dir == TRI_LT_BWD_W ? M : o, l->n_in));
  LT_TRY(cublasLtMatrixLayoutInit(&out->b, lt_type(l->dtype), b, M, (int64_t)b));
  LT_TRY(cublasLtMatrixLayoutInit(&out->d, lt_type(p->out), d_rows, d_cols, (int64_t)d_rows));
  return TRI_OK;
}

/* What the address of any row of n elements is a multiple of, if that of the first is one of ALIGN_WEIGHTS. */
static uint32_t row_align(int64_t n, tri_dtype t) {
  uint32_t bytes = ALIGN_WEIGHTS;

  while ((n * (int64_t)tri_dtype_bytes(t)) % bytes) bytes /= 2;
  return bytes;
}

static tri_status set_preference(const tri_linear *l, const tri_lt *p, cublasLtMatmulPreference_t pref) {
  const uint64_t bytes = LT_BYTES;
  const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE, weights = ALIGN_WEIGHTS;
  const uint32_t in = row_align(l->n_in, l->dtype),
                 b = row_align(p->dir == TRI_LT_FWD ? l->n_in : l->n_out, l->dtype);
  const uint32_t y = row_align(p->dir == TRI_LT_FWD ? l->n_out : l->n_in, p->out);
  const struct {
    cublasLtMatmulPreferenceAttributes_t what;
    const uint32_t                      *value;
  } set[] = {{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p->dir == TRI_LT_BWD_W ? &in : &weights},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p->dir == TRI_LT_BWD_W ? &weights : &y},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p->dir == TRI_LT_BWD_W ? &weights : &y}};

  LT_TRY(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                              sizeof bytes));
  for (size_t i = 0; i < sizeof set / sizeof *set; i++)
    LT_TRY(cublasLtMatmulPreferenceSetAttribute(pref, set[i].what, set[i].value, sizeof *set[i].value));
  return TRI_OK;
}

/* Whether the algorithm adds each sum in one piece. One that does not say so is judged by its bits. */
static bool is_whole(const cublasLtMatmulAlgo_t *algo) {
  int32_t  splits = 1;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t   n;

  if (cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits, &n))
    splits = 1;
  if (cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                           sizeof scheme, &n))
    scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  return splits <= 1 && scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

/* Algorithms for `rows` rows, the quickest (as the library thinks) first; n = 0 if it has none. */
tri_status tri_lt_look_up(const tri_linear *l, const tri_lt *p, int64_t rows, tri_lt_found *out) {
  tri_status                 st = TRI_OK;
  cublasLtMatmulPreference_t pref = NULL;
  layouts                    t;
  int                        n = 0;
  cublasStatus_t             e;

  out->n = 0;
  TRI_TRY(set_layouts(l, p, rows, &t));
  LT_TRY(cublasLtMatmulPreferenceCreate(&pref));
  TRI_TRY_DONE(set_preference(l, p, pref));
  e = cublasLtMatmulAlgoGetHeuristic(l->device->blas, p->desc, &t.a, &t.b, &t.d, &t.d, pref, TRI_LT_TRIES,
                                     out->at, &n);
  if (e != CUBLAS_STATUS_NOT_SUPPORTED) LT_TRY_DONE(e);
  for (int i = 0; i < n; i++)
    if (out->at[i].state == CUBLAS_STATUS_SUCCESS && is_whole(&out->at[i].algo) &&
        out->at[i].workspaceSize <= LT_BYTES)
      out->at[out->n++] = out->at[i];
done:
  cublasLtMatmulPreferenceDestroy(pref);
  return st;
}

static tri_status product_open(tri_linear *l, tri_lt *p, tri_lt_direction dir, tri_dtype out, bool bias) {
  const cublasOperation_t a = dir == TRI_LT_FWD ? CUBLAS_OP_T : CUBLAS_OP_N,
                          b = dir == TRI_LT_BWD_W ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasLtEpilogue_t end = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  tri_lt_found             f;

  p->dir = dir;
  p->out = out;
  p->bias = bias;
  LT_TRY(cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F)); /* no tf32 */
  LT_TRY(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
  LT_TRY(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
  LT_TRY(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end));
  TRI_TRY(tri_lt_look_up(l, p, tri_lt_rows[TRI_LT_MANY], &f));
  if (!f.n)
    TRI_FAIL(TRI_EDEVICE,
             "cuBLASLt %zu on %s has no algorithm without split sums for a [%lld,%lld] weight of type %s",
             cublasLtGetVersion(), l->device->name, (long long)l->n_out, (long long)l->n_in,
             tri_lt_type_name(l->dtype));
  for (int i = 0; i < TRI_LT_BUCKETS; i++) p->algo[i] = f.at[0].algo;
  tri_lt_enlarge(&l->lt_bytes, f.at[0].workspaceSize);
  return TRI_OK;
}

tri_status tri_lt_run(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo, tri_stream *s,
                      const tri_lt_call *c) {
  const float alpha = 1, beta = c->base ? 1 : 0;
  layouts     t;

  TRI_ASSERT(p->desc && c->workspace && p->bias == (c->bias != NULL));
  if (c->rows == 0) return TRI_OK;
  TRI_TRY(set_layouts(l, p, c->rows, &t));
  if (c->bias)
    LT_TRY(
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &c->bias, sizeof c->bias));
  LT_TRY(cublasLtMatmul(l->device->blas, p->desc, &alpha, c->a, &t.a, c->b, &t.b, &beta,
                        c->base ? c->base : c->d, &t.d, c->d, &t.d, algo, c->workspace, c->bytes,
                        tri_cuda_stream_of(s)));
  return TRI_OK;
}

/* ---- open, size, bind ---- */

void tri_cuda_blas_close(tri_cuda_device *d) {
  if (d->blas) cublasLtDestroy(d->blas);
  d->blas = NULL;
}

static tri_status open_products(tri_linear *l) {
  const bool half = l->dtype != TRI_F32;

  if (!l->device->blas) LT_TRY(cublasLtCreate(&l->device->blas));
  TRI_TRY(product_open(l, &l->fwd[TRI_LT_Y_A], TRI_LT_FWD, l->dtype, false));
  TRI_TRY(product_open(l, &l->fwd[TRI_LT_Y_A_BIAS], TRI_LT_FWD, l->dtype, true));
  if (half) TRI_TRY(product_open(l, &l->fwd[TRI_LT_Y_F32], TRI_LT_FWD, TRI_F32, false));
  if (!l->backward) return TRI_OK;
  TRI_TRY(product_open(l, &l->bwd_x[0], TRI_LT_BWD_X, l->dtype, false));
  if (half) TRI_TRY(product_open(l, &l->bwd_x[1], TRI_LT_BWD_X, TRI_F32, false));
  return product_open(l, &l->bwd_w, TRI_LT_BWD_W, TRI_F32, false);
}

tri_status tri_cuda_linear_open(tri_device *d, const tri_linear_spec *spec, tri_linear **out) {
  tri_status  st = TRI_OK;
  tri_linear *l = NULL;

  *out = NULL;
  TRI_ASSERT(spec->n_out > 0 && spec->n_in > 0 && (spec->dtype == TRI_F32 || spec->dtype == TRI_BF16));
  TRI_CUDA_TRY(cudaSetDevice(d->index));
  TRI_TRY(TRI_ALLOC(l, 1));
  l->device = (tri_cuda_device *)d;
  l->n_out = spec->n_out;
  l->n_in = spec->n_in;
  l->dtype = spec->dtype;
  l->backward = spec->backward;
  TRI_TRY_DONE(open_products(l));
  TRI_TRY_DONE(tri_lt_settle(l));
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
  *out = (tri_linear_bytes){.workspace = l->lt_bytes + tri_lt_check_bytes(l)};
  return TRI_OK;
}

tri_status tri_cuda_linear_bind(tri_linear *l, void *workspace, size_t bytes) {
  tri_linear_bytes need;

  TRI_TRY(tri_cuda_linear_size(l, &need));
  TRI_ASSERT(workspace && bytes >= need.workspace && (uintptr_t)workspace % 256 == 0);
  l->workspace = workspace;
  return TRI_OK;
}

/* Both directions multiply by w itself. */
tri_status tri_cuda_linear_pack(tri_stream *s, tri_linear *l, void *packed_fwd, void *packed_bwd, tri_in w) {
  (void)s;
  TRI_ASSERT(!packed_fwd && !packed_bwd && w->dtype == l->dtype && w->dim[0] == l->n_out &&
             w->dim[1] == l->n_in);
  return TRI_OK;
}

/* ---- the products ---- */

static void assert_shape(tri_in t, int64_t rows, int64_t cols) {
  TRI_ASSERT(t->ndim == 2 && t->dim[0] == rows && t->dim[1] == cols);
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
  return tri_lt_run(l, p, &p->algo[tri_lt_bucket(c.rows)], s, &c);
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
  return tri_lt_run(l, p, &p->algo[tri_lt_bucket(c.rows)], s, &c);
}

tri_status tri_cuda_linear_bwd_w(tri_stream *s, tri_linear *l, tri_out dw, tri_in dy, tri_in x, bool add) {
  const tri_lt_call c = {.a = x->data,
                         .b = dy->data,
                         .d = dw->data,
                         .base = add ? dw->data : NULL,
                         .rows = x->dim[0],
                         .workspace = l->workspace,
                         .bytes = l->lt_bytes};

  assert_shape(x, c.rows, l->n_in);
  assert_shape(dy, c.rows, l->n_out);
  assert_shape(dw, l->n_out, l->n_in);
  TRI_ASSERT(l->backward && x->dtype == l->dtype && dy->dtype == l->dtype && dw->dtype == TRI_F32);
  if (!c.rows && !add) /* a sum of nothing */
    return s->device->ops->fill(s, dw->data, 0, (size_t)(l->n_out * l->n_in) * sizeof(float));
  return tri_lt_run(l, &l->bwd_w, &l->bwd_w.algo[0], s, &c);
}
