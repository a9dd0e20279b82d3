/* elementwise.cu - operations on flat arrays, on rows and on columns: axpby, cast, soft cap, sum of squares,
 * AdamW, rows_get, rows_add, cols_put, cols_get, join_cols. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/cuda_util.cuh"

enum {
  THREADS = 256, /* chosen */
  PARTS = 1024   /* partial sums of sumsq, chosen */
};

/* Returns the blocks for n elements, with TRI_UNIT elements per thread and turn. */
static unsigned grid_of(const tri_stream *s, int64_t n) {
  return tri_grid(s, tri_blocks(n, TRI_UNIT), THREADS);
}

/* The loop of every flat kernel. i is the first of eight elements of this thread's turn. */
#define FOR_UNITS(i, n)                                                                                      \
  for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * TRI_UNIT; i < n;                          \
       i += (int64_t)gridDim.x * THREADS * TRI_UNIT)

/* y[n] = a x + b y. y is not read if b is 0. The grid is grid_of. Tested against tri_cpu_axpby. */
template <bool VEC>
__global__ void __launch_bounds__(THREADS)
    axpby_kernel(float *y, float a, const float *x, float b, int64_t n) {
  FOR_UNITS(i, n) {
    float v[8], w[8];
    tri_load8<VEC>(v, x + i, n - i);
    if (b == 0) {
#pragma unroll
      for (int j = 0; j < 8; j++) w[j] = a * v[j];
    } else {
      tri_load8<VEC>(w, y + i, n - i);
#pragma unroll
      for (int j = 0; j < 8; j++) w[j] = fmaf(a, v[j], b * w[j]);
    }
    tri_store8<VEC>(y + i, w, n - i);
  }
}

tri_status tri_cuda_axpby(tri_stream *s, tri_out y, float a, tri_in x, float b) {
  int64_t n = tri_tensor_count(y);

  TRI_ASSERT(y->dtype == TRI_F32 && x->dtype == TRI_F32 && tri_tensor_count(x) == n);
  if (tri_vec8(n, y->data, x->data))
    return TRI_LAUNCH((axpby_kernel<true>), grid_of(s, n), THREADS, 0, s, y->data, a, x->data, b, n);
  return TRI_LAUNCH((axpby_kernel<false>), grid_of(s, n), THREADS, 0, s, y->data, a, x->data, b, n);
}

/* y[n] = x in the other type. The grid is grid_of. Tested against tri_cpu_cast. */
template <class Y, class X, bool VEC>
__global__ void __launch_bounds__(THREADS) cast_kernel(Y *y, const X *x, int64_t n) {
  FOR_UNITS(i, n) {
    float v[8];
    tri_load8<VEC>(v, x + i, n - i);
    tri_store8<VEC>(y + i, v, n - i);
  }
}

tri_status tri_cuda_cast(tri_stream *s, tri_out y, tri_in x) {
  int64_t n = tri_tensor_count(y);
  bool    vec = tri_vec8(n, y->data, x->data);

  TRI_ASSERT(tri_tensor_count(x) == n && tri_dtype_computes(y->dtype) && tri_dtype_computes(x->dtype));
  if (y->dtype == x->dtype)
    return s->device->ops->copy(s, y->data, x->data, (size_t)n * tri_dtype_bytes(y->dtype));
  TRI_ASSERT(y->dtype == TRI_F32 || x->dtype == TRI_F32);
#define CAST(Y, X, VEC)                                                                                      \
  TRI_LAUNCH((cast_kernel<Y, X, VEC>), grid_of(s, n), THREADS, 0, s, y->data, x->data, n)
#define NARROW(Y) (vec ? CAST(Y, float, true) : CAST(Y, float, false))
#define WIDEN(X)  (vec ? CAST(float, X, true) : CAST(float, X, false))
  if (y->dtype == TRI_F32) return x->dtype == TRI_BF16 ? WIDEN(tri_bf16) : WIDEN(tri_f16);
  return y->dtype == TRI_BF16 ? NARROW(tri_bf16) : NARROW(tri_f16);
#undef CAST
#undef NARROW
#undef WIDEN
}

/* x[n] = cap tanh(x / cap). The grid is grid_of. Tested against tri_cpu_softcap_fwd. */
template <bool VEC>
__global__ void __launch_bounds__(THREADS) softcap_fwd_kernel(float *x, float cap, float inverse, int64_t n) {
  FOR_UNITS(i, n) {
    float v[8];
    tri_load8<VEC>(v, x + i, n - i);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = tri_softcap(v[j], cap, inverse);
    tri_store8<VEC>(x + i, v, n - i);
  }
}

tri_status tri_cuda_softcap_fwd(tri_stream *s, tri_out x, float cap) {
  int64_t n = tri_tensor_count(x);

  TRI_ASSERT(x->dtype == TRI_F32 && cap > 0);
  if (tri_vec8(n, x->data))
    return TRI_LAUNCH((softcap_fwd_kernel<true>), grid_of(s, n), THREADS, 0, s, x->data, cap, 1.0f / cap, n);
  return TRI_LAUNCH((softcap_fwd_kernel<false>), grid_of(s, n), THREADS, 0, s, x->data, cap, 1.0f / cap, n);
}

/* Multiplies dx[n] by 1 - (y / cap)^2. The grid is grid_of. Tested against tri_cpu_softcap_bwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    softcap_bwd_kernel(A *dx, const float *y, float inverse, int64_t n) {
  FOR_UNITS(i, n) {
    float d[8], v[8];
    tri_load8<VEC>(d, dx + i, n - i);
    tri_load8<VEC>(v, y + i, n - i);
#pragma unroll
    for (int j = 0; j < 8; j++) d[j] *= tri_softcap_slope(v[j], inverse);
    tri_store8<VEC>(dx + i, d, n - i);
  }
}

tri_status tri_cuda_softcap_bwd(tri_stream *s, tri_out dx, tri_in y, float cap) {
  int64_t n = tri_tensor_count(dx);

  TRI_ASSERT(y->dtype == TRI_F32 && tri_tensor_count(y) == n && cap > 0);
  return TRI_LAUNCH_TYPED(softcap_bwd_kernel, tri_type(dx), tri_vec8(n, dx->data, y->data), grid_of(s, n),
                          THREADS, 0, s, dx->data, y->data, 1.0f / cap, n);
}

/* part[block] = sum of x^2 over elements [block each, (block + 1) each). `each` is a multiple of
 * TRI_UNIT. The assignment of elements to threads depends on n alone. The grid is the parts. */
template <bool VEC>
__global__ void __launch_bounds__(THREADS)
    sumsq_kernel(tri_dd *part, const float *x, int64_t n, int64_t each) {
  int64_t first = blockIdx.x * each, end = first + each < n ? first + each : n;
  tri_dd  sum = {0, 0};

  for (int64_t i = first + threadIdx.x * TRI_UNIT; i < end; i += THREADS * TRI_UNIT) {
    float v[8];
    tri_load8<VEC>(v, x + i, end - i);
#pragma unroll
    for (int j = 0; j < 8; j++) /* a square of an f32 is exact in f64 */
      tri_dd_take(&sum.hi, &sum.lo, (double)v[j] * (double)v[j]);
  }
  sum = tri_block_sum<THREADS / 32>(sum);
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

/* *sum += the parts. It runs as one block. */
__global__ void __launch_bounds__(THREADS) sumsq_total_kernel(tri_dd *sum, const tri_dd *part, int n_parts) {
  tri_dd total = {0, 0};

  for (int i = threadIdx.x; i < n_parts; i += THREADS) total = tri_dd_add(total, part[i]);
  total = tri_block_sum<THREADS / 32>(total);
  if (threadIdx.x == 0) *sum = tri_dd_add(*sum, total);
}

/* Tested against tri_cpu_sumsq. */
tri_status tri_cuda_sumsq(tri_stream *s, tri_dd *sum, tri_in x) {
  int64_t n = tri_tensor_count(x), units = tri_blocks(n, THREADS * TRI_UNIT);
  int64_t each = tri_blocks(units, PARTS) * THREADS * TRI_UNIT, parts = n > 0 ? tri_blocks(n, each) : 0;
  void   *part = tri_cuda_scratch(s);

  TRI_ASSERT(x->dtype == TRI_F32);
  if (parts == 0) return TRI_OK;
  if (tri_vec8(n, x->data))
    TRI_TRY(TRI_LAUNCH((sumsq_kernel<true>), (unsigned)parts, THREADS, 0, s, part, x->data, n, each));
  else
    TRI_TRY(TRI_LAUNCH((sumsq_kernel<false>), (unsigned)parts, THREADS, 0, s, part, x->data, n, each));
  return TRI_LAUNCH(sumsq_total_kernel, 1, THREADS, 0, s, sum, part, (int)parts);
}

struct adamw_numbers { /* numbers of tri_adamw */
  float beta1, beta2, eps, rate, root, shrink, scale;
};

/* Makes one pass over w, m, v, g [n] f32 and, unless NULL, half [n] = w. This moves 30 bytes per element. The
 * grid is grid_of. Tested against tri_cpu_adamw. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    adamw_kernel(float *w, float *m, float *v, A *half, const float *g, adamw_numbers a, int64_t n) {
  FOR_UNITS(i, n) {
    float wi[8], mi[8], vi[8], gi[8];
    tri_load8<VEC>(wi, w + i, n - i);
    tri_load8<VEC>(mi, m + i, n - i);
    tri_load8<VEC>(vi, v + i, n - i);
    tri_load8<VEC>(gi, g + i, n - i);
#pragma unroll
    for (int j = 0; j < 8; j++)
      tri_adamw(wi + j, mi + j, vi + j, a.scale * gi[j], a.beta1, a.beta2, a.eps, a.rate, a.root, a.shrink);
    tri_store8<VEC>(w + i, wi, n - i);
    tri_store8<VEC>(m + i, mi, n - i);
    tri_store8<VEC>(v + i, vi, n - i);
    if (half) tri_store8<VEC>(half + i, wi, n - i);
  }
}

tri_status tri_cuda_adamw(tri_stream *s, tri_out w, tri_out m, tri_out v, tri_out half, tri_in g,
                          const tri_adamw_rule *rule) {
  void         *to = half ? half->data : NULL;
  int64_t       n = tri_tensor_count(w);
  double        t = (double)rule->step;
  adamw_numbers a = {rule->beta1,
                     rule->beta2,
                     rule->eps,
                     (float)(rule->lr / (1 - pow(rule->beta1, t))),
                     (float)(1 / sqrt(1 - pow(rule->beta2, t))),
                     1.0f - rule->decay,
                     rule->scale};

  TRI_ASSERT(w->dtype == TRI_F32 && m->dtype == TRI_F32 && v->dtype == TRI_F32 && g->dtype == TRI_F32);
  TRI_ASSERT(tri_tensor_count(m) == n && tri_tensor_count(v) == n && tri_tensor_count(g) == n &&
             rule->step > 0);
  TRI_ASSERT(!half ||
             (half->dtype != TRI_F32 && tri_dtype_computes(half->dtype) && tri_tensor_count(half) == n));
  bool vec = tri_vec8(n, w->data, m->data, v->data, to, g->data);
#define LAUNCH(A)                                                                                            \
  TRI_LAUNCH_VEC(adamw_kernel, A, vec, grid_of(s, n), THREADS, 0, s, w->data, m->data, v->data, to, g->data, \
                 a, n)
  return half && half->dtype == TRI_F16 ? LAUNCH(tri_f16) : LAUNCH(tri_bf16);
#undef LAUNCH
}

/* y[K,C] = x[row[K],C], where x has n_rows. With ADD, y[row[K],C] += x[K,C], and y has n_rows. The grid is K.
 * Tested against tri_cpu_rows_*. */
template <bool ADD, bool VEC>
__global__ void __launch_bounds__(THREADS)
    rows_kernel(float *y, const float *x, const int32_t *row, int64_t n_rows, int64_t C) {
  int64_t      at = row[blockIdx.x];
  float       *to = y + (ADD ? at : (int64_t)blockIdx.x) * C;
  const float *from = x + (ADD ? (int64_t)blockIdx.x : at) * C;

  TRI_KERNEL_ASSERT(at >= 0 && at < n_rows);
  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += THREADS * TRI_UNIT) {
    float v[8], w[8];
    tri_load8<VEC>(v, from + c, C - c);
    if (ADD) {
      tri_load8<VEC>(w, to + c, C - c);
#pragma unroll
      for (int j = 0; j < 8; j++) v[j] += w[j];
    }
    tri_store8<VEC>(to + c, v, C - c);
  }
}

tri_status tri_cuda_rows_get(tri_stream *s, tri_out y, tri_in x, tri_in row) {
  int64_t  C = x->dim[1];
  unsigned K = (unsigned)row->dim[0];

  TRI_ASSERT(y->dtype == TRI_F32 && x->dtype == TRI_F32 && y->dim[1] == C);
  if (tri_vec8(C, y->data, x->data))
    return TRI_LAUNCH((rows_kernel<false, true>), K, THREADS, 0, s, y->data, x->data, row->data, x->dim[0],
                      C);
  return TRI_LAUNCH((rows_kernel<false, false>), K, THREADS, 0, s, y->data, x->data, row->data, x->dim[0], C);
}

tri_status tri_cuda_rows_add(tri_stream *s, tri_out dx, tri_in dy, tri_in row) {
  int64_t  C = dx->dim[1];
  unsigned K = (unsigned)row->dim[0];

  TRI_ASSERT(dx->dtype == TRI_F32 && dy->dtype == TRI_F32 && dy->dim[1] == C);
  if (tri_vec8(C, dx->data, dy->data))
    return TRI_LAUNCH((rows_kernel<true, true>), K, THREADS, 0, s, dx->data, dy->data, row->data, dx->dim[0],
                      C);
  return TRI_LAUNCH((rows_kernel<true, false>), K, THREADS, 0, s, dx->data, dy->data, row->data, dx->dim[0],
                    C);
}

/* Columns first .. first + w - 1 of y[M,W] = scale x[M,w]. The grid may be any, with one element per thread
 * and turn, since these are a model's smallest matrices. Tested against tri_cpu_cols_put. */
template <class A>
__global__ void __launch_bounds__(THREADS)
    cols_put_kernel(A *y, int64_t W, int64_t first, float scale, const A *x, int64_t w, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
    tri_put(y + i / w * W + first + i % w, scale * tri_get(x[i]));
}

tri_status tri_cuda_cols_put(tri_stream *s, tri_out y, int64_t first, float scale, tri_in x) {
  int64_t  M = x->dim[0], w = x->dim[1], W = y->dim[1];
  unsigned grid = tri_grid(s, M * w, THREADS);

  TRI_ASSERT(y->dtype == x->dtype && y->dim[0] == M && first >= 0 && first + w <= W);
#define LAUNCH(A)                                                                                            \
  TRI_LAUNCH((cols_put_kernel<A>), grid, THREADS, 0, s, y->data, W, first, scale, x->data, w, M *w)
  return TRI_BY_TYPE(tri_type(x), LAUNCH);
#undef LAUNCH
}

/* x[M,w] = scale times columns first .. first + w - 1 of y[M,W], plus x if `add`. The grid is as in cols_put.
 * Tested against tri_cpu_cols_get. */
__global__ void __launch_bounds__(THREADS) cols_get_kernel(float *x, int64_t w, const float *y, int64_t W,
                                                           int64_t first, float scale, bool add, int64_t n) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
    x[i] = fmaf(scale, y[i / w * W + first + i % w], add ? x[i] : 0.0f);
}

tri_status tri_cuda_cols_get(tri_stream *s, tri_out x, tri_in y, int64_t first, float scale, bool add) {
  int64_t M = x->dim[0], w = x->dim[1], W = y->dim[1];

  TRI_ASSERT(x->dtype == TRI_F32 && y->dtype == TRI_F32 && y->dim[0] == M && first >= 0 && first + w <= W);
  return TRI_LAUNCH(cols_get_kernel, tri_grid(s, M * w, THREADS), THREADS, 0, s, x->data, w, y->data, W,
                    first, scale, add, M * w);
}

/* y[M,n,w] = x[n,M,w], in units U of 16 bytes or of one element. The grid is tri_grid over M w, then n.
 * Tested against tri_cpu_join_cols. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    join_cols_kernel(U *y, const U *x, int64_t M, int64_t w, int64_t W) {
  const U *part = x + blockIdx.y * M * w;
  int64_t  twice = blockIdx.y == gridDim.y - 1 ? gridDim.y * w - W : 0; /* columns of the rank before */

  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < M * w; i += (int64_t)gridDim.x * THREADS)
    if (i % w >= twice) y[i / w * W + blockIdx.y * w - twice + i % w] = part[i];
}

tri_status tri_cuda_join_cols(tri_stream *s, tri_out y, tri_in x) {
  int64_t n = x->dim[0], M = x->dim[1], w = x->dim[2], W = y->dim[1];
  size_t  size = tri_dtype_bytes(tri_type(x)), bytes = (size_t)w * size, row = (size_t)W * size;
  bool    wide = ((uintptr_t)x->data | (uintptr_t)y->data | bytes | row) % sizeof(uint4) == 0;

  TRI_ASSERT(y->dtype == x->dtype && x->ndim == 3 && y->ndim == 2 && y->dim[0] == M && n * w >= W &&
             n * w - W < w);
  if (wide) w = (int64_t)(bytes / sizeof(uint4)), W = (int64_t)(row / sizeof(uint4));
#define LAUNCH(U)                                                                                            \
  TRI_LAUNCH((join_cols_kernel<U>), dim3(tri_grid(s, M *w, THREADS), (unsigned)n), THREADS, 0, s, y->data,   \
             x->data, M, w, W)
  return wide ? LAUNCH(uint4) : size == 4 ? LAUNCH(uint32_t) : LAUNCH(uint16_t);
#undef LAUNCH
}
