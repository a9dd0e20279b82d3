/* elementwise.cu - operations on flat arrays and on rows: axpby, cast, sum of squares, AdamW, rows_get,
 * rows_add. */
#include "gpu/base/cuda_util.cuh"

enum {
  THREADS = 256, /* chosen */
  PARTS = 1024   /* partial sums of sumsq, f64; chosen */
};

/* Blocks for n elements, TRI_UNIT to a thread and turn. */
static unsigned grid_of(const tri_stream *s, int64_t n) {
  return tri_grid(s, tri_blocks(n, TRI_UNIT), THREADS);
}

/* The loop of every flat kernel: i, the first of eight elements of this thread's turn. */
#define FOR_UNITS(i, n)                                                                                      \
  for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * TRI_UNIT; i < n;                          \
       i += (int64_t)gridDim.x * THREADS * TRI_UNIT)

/* y[n] = a x + b y, y not read where b is 0. Grid: grid_of; judge: tri_cpu_axpby. */
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

/* y[n] = x in the other type. Grid: grid_of; judge: tri_cpu_cast. */
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

  TRI_ASSERT(tri_tensor_count(x) == n && y->dtype <= TRI_BF16 && x->dtype <= TRI_BF16);
  if (y->dtype == x->dtype)
    return s->device->ops->copy(s, y->data, x->data, (size_t)n * tri_dtype_bytes(y->dtype));
  if (y->dtype == TRI_BF16 && vec)
    return TRI_LAUNCH((cast_kernel<tri_bf16, float, true>), grid_of(s, n), THREADS, 0, s, y->data, x->data,
                      n);
  if (y->dtype == TRI_BF16)
    return TRI_LAUNCH((cast_kernel<tri_bf16, float, false>), grid_of(s, n), THREADS, 0, s, y->data, x->data,
                      n);
  if (vec)
    return TRI_LAUNCH((cast_kernel<float, tri_bf16, true>), grid_of(s, n), THREADS, 0, s, y->data, x->data,
                      n);
  return TRI_LAUNCH((cast_kernel<float, tri_bf16, false>), grid_of(s, n), THREADS, 0, s, y->data, x->data, n);
}

/* part[block] = sum of x^2 over elements [block each, (block + 1) each), f64; each is a multiple of TRI_UNIT.
 * Which thread adds what depends on n alone. Grid: the parts. */
template <bool VEC>
__global__ void __launch_bounds__(THREADS)
    sumsq_kernel(double *part, const float *x, int64_t n, int64_t each) {
  int64_t first = blockIdx.x * each, end = first + each < n ? first + each : n;
  double  sum = 0;

  for (int64_t i = first + threadIdx.x * TRI_UNIT; i < end; i += THREADS * TRI_UNIT) {
    float v[8];
    tri_load8<VEC>(v, x + i, end - i);
#pragma unroll
    for (int j = 0; j < 8; j++) sum = fma((double)v[j], (double)v[j], sum);
  }
  sum = tri_block_sum<THREADS / 32>(sum);
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

/* *sum += the parts. One block. */
__global__ void __launch_bounds__(THREADS) sumsq_total_kernel(double *sum, const double *part, int n_parts) {
  double total = 0;

  for (int i = threadIdx.x; i < n_parts; i += THREADS) total += part[i];
  total = tri_block_sum<THREADS / 32>(total);
  if (threadIdx.x == 0) *sum += total;
}

/* Judge: tri_cpu_sumsq. */
tri_status tri_cuda_sumsq(tri_stream *s, double *sum, tri_in x) {
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

struct adamw_numbers { /* of tri_adamw */
  float beta1, beta2, eps, rate, root, shrink, scale;
};

/* One pass over w, m, v, g [n] f32 and, unless NULL, half [n] = w: 30 bytes an element. Grid: grid_of; judge:
 * tri_cpu_adamw. */
template <bool VEC>
__global__ void __launch_bounds__(THREADS)
    adamw_kernel(float *w, float *m, float *v, tri_bf16 *half, const float *g, adamw_numbers a, int64_t n) {
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
  TRI_ASSERT(!half || (half->dtype == TRI_BF16 && tri_tensor_count(half) == n));
  if (tri_vec8(n, w->data, m->data, v->data, to, g->data))
    return TRI_LAUNCH((adamw_kernel<true>), grid_of(s, n), THREADS, 0, s, w->data, m->data, v->data, to,
                      g->data, a, n);
  return TRI_LAUNCH((adamw_kernel<false>), grid_of(s, n), THREADS, 0, s, w->data, m->data, v->data, to,
                    g->data, a, n);
}

/* y[K,C] = x[row[K],C] (x has n_rows); ADD: y[row[K],C] += x[K,C] (y has n_rows). Grid: K. Judges:
 * tri_cpu_rows_*. */
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
