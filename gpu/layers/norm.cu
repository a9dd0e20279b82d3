/* norm.cu - RMSNorm of rows and of heads, column sums. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/row_sums.cuh"

enum {
  NORM_THREADS = 128, /* for a row. The thread of a column depends on the column alone */
  NORM_WARPS = NORM_THREADS / 32
};

/* total[C] += column sums of dy A [N,C], or with NORM of dy * x * rstd, with x f32 [N,C] and rstd f32 [N].
 * With several parts, total[part,C] = the part's sums. The grid is tri_row_grid. Tested against
 * tri_cpu_colsum and tri_cpu_rmsnorm_bwd. */
template <class A, bool NORM>
__global__ void __launch_bounds__(TRI_SUM_COLUMNS *TRI_SUM_LANES)
    column_kernel(float *total, const A *dy, const float *x, const float *rstd, int64_t N, int64_t C,
                  tri_row_parts p) {
  tri_row_share at = tri_row_share_of(p, N, C);
  float         sum = 0;

#pragma unroll 4
  for (int64_t n = at.first; n < at.end; n += TRI_SUM_LANES) {
    float v = tri_get(dy[n * C + at.column]);
    sum = NORM ? fmaf(v, x[n * C + at.column] * rstd[n], sum) : sum + v;
  }
  tri_put_row_sum(total, sum, at, p, C);
}

template <class A, bool NORM>
static tri_status add_columns(tri_stream *s, void *total, const void *dy, const void *x, const void *rstd,
                              int64_t N, int64_t C) {
  tri_row_parts p = tri_row_parts_of(N, C, TRI_SUM_ROWS);

  TRI_TRY(TRI_LAUNCH((column_kernel<A, NORM>), tri_row_grid(p, N, C), TRI_SUM_COLUMNS * TRI_SUM_LANES, 0, s,
                     tri_row_parts_to(s, p, total), dy, x, rstd, N, C, p));
  return tri_add_row_parts(s, total, p, C);
}

tri_status tri_cuda_colsum(tri_stream *s, tri_out db, tri_in dy) {
  int64_t N = dy->dim[0], C = dy->dim[1];

  TRI_ASSERT(db->dtype == TRI_F32 && db->dim[0] == C);
#define ADD(A) add_columns<A, false>(s, db->data, dy->data, nullptr, nullptr, N, C)
  return TRI_BY_TYPE(tri_type(dy), ADD);
#undef ADD
}

/* Returns 1 / sqrt(mean of squares + eps) of a row f32 [C]. A block of NORM_THREADS calls it. */
template <bool VEC>
static __device__ __forceinline__ float row_rstd(const float *from, int64_t C, float eps) {
  float sum = 0;

  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8];
    tri_load8<VEC>(v, from + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) sum = fmaf(v[j], v[j], sum);
  }
  return 1.0f / sqrtf(tri_block_sum<NORM_WARPS>(sum) / (float)C + eps);
}

/* RMSNorm (Zhang, Sennrich 2019, eq. 4). y A [N,C] = x rstd (plus + w), rstd[N] f32. The grid is N. Tested
 * against tri_cpu_rmsnorm_fwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(NORM_THREADS)
    rmsnorm_fwd_kernel(A *y, float *rstd, const float *x, const A *w, tri_norm_rule rule, int64_t C) {
  const float *from = x + (int64_t)blockIdx.x * C;
  A           *to = y + (int64_t)blockIdx.x * C;
  float        r = row_rstd<VEC>(from, C, rule.eps);

  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8], g[8];
    tri_load8<VEC>(v, from + c, C - c); /* from the cache, as a row has at most 32 KiB */
    tri_load8<VEC>(g, w + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = v[j] * r * (rule.plus + g[j]);
    tri_store8<VEC>(to + c, v, C - c);
  }
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

/* The same added to base f32 [N,C]. y is f32 [N,C] and may be base. */
template <class A, bool VEC>
__global__ void __launch_bounds__(NORM_THREADS)
    rmsnorm_add_kernel(float *y, float *rstd, const float *x, const A *w, const float *base,
                       tri_norm_rule rule, int64_t C) {
  int64_t at = (int64_t)blockIdx.x * C;
  float   r = row_rstd<VEC>(x + at, C, rule.eps);

  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8], g[8], b[8];
    tri_load8<VEC>(v, x + at + c, C - c);
    tri_load8<VEC>(g, w + c, C - c);
    tri_load8<VEC>(b, base + at + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = fmaf(v[j] * r, rule.plus + g[j], b[j]);
    tri_store8<VEC>(y + at + c, v, C - c);
  }
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

tri_status tri_cuda_rmsnorm_fwd(tri_stream *s, tri_out y, tri_out rstd, tri_in x, tri_in w, tri_in base,
                                const tri_norm_rule *rule) {
  int64_t   N = x->dim[0], C = x->dim[1];
  tri_dtype A = tri_type(w);

  TRI_ASSERT(x->dtype == TRI_F32 && w->dim[0] == C && y->dim[1] == C);
  TRI_ASSERT(y->dtype == (base ? TRI_F32 : w->dtype) && (!base || base->dtype == TRI_F32));
  if (base)
    return TRI_LAUNCH_TYPED(rmsnorm_add_kernel, A, tri_vec8(C, y->data, x->data, w->data, base->data),
                            (unsigned)N, NORM_THREADS, 0, s, y->data, rstd->data, x->data, w->data,
                            base->data, *rule, C);
  return TRI_LAUNCH_TYPED(rmsnorm_fwd_kernel, A, tri_vec8(C, y->data, x->data, w->data), (unsigned)N,
                          NORM_THREADS, 0, s, y->data, rstd->data, x->data, w->data, *rule, C);
}

/* dx += rstd (w dy - x rstd^2 mean(w dy x)), with plus added to w. The grid is N. Tested against
 * tri_cpu_rmsnorm_bwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(NORM_THREADS)
    rmsnorm_bwd_kernel(float *dx, const A *dy, const float *x, const A *w, const float *rstd, float plus,
                       int64_t C) {
  int64_t at = (int64_t)blockIdx.x * C;
  float   sum = 0, mean, r = rstd[blockIdx.x];

  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8], d[8], g[8];
    tri_load8<VEC>(v, x + at + c, C - c);
    tri_load8<VEC>(d, dy + at + c, C - c);
    tri_load8<VEC>(g, w + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) sum = fmaf(d[j] * (plus + g[j]), v[j], sum);
  }
  mean = tri_block_sum<NORM_WARPS>(sum) / (float)C * r * r;
  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8], d[8], g[8], to[8];
    tri_load8<VEC>(v, x + at + c, C - c);
    tri_load8<VEC>(d, dy + at + c, C - c);
    tri_load8<VEC>(g, w + c, C - c);
    tri_load8<VEC>(to, dx + at + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) to[j] = fmaf(r, fmaf(-v[j], mean, d[j] * (plus + g[j])), to[j]);
    tri_store8<VEC>(dx + at + c, to, C - c);
  }
}

tri_status tri_cuda_rmsnorm_bwd(tri_stream *s, tri_out dx, tri_out dw, tri_in dy, tri_in x, tri_in w,
                                tri_in rstd, const tri_norm_rule *rule) {
  int64_t   N = x->dim[0], C = x->dim[1];
  tri_dtype A = tri_type(dy);

  TRI_ASSERT(dx->dtype == TRI_F32 && x->dtype == TRI_F32 && w->dtype == dy->dtype);
  TRI_ASSERT(!dw || dw->dtype == TRI_F32);
  TRI_TRY(TRI_LAUNCH_TYPED(rmsnorm_bwd_kernel, A, tri_vec8(C, dx->data, dy->data, x->data, w->data),
                           (unsigned)N, NORM_THREADS, 0, s, dx->data, dy->data, x->data, w->data, rstd->data,
                           rule->plus, C));
  if (!dw) return TRI_OK;
#define ADD(A) add_columns<A, true>(s, dw->data, dy->data, x->data, rstd->data, N, C)
  return TRI_BY_TYPE(A, ADD);
#undef ADD
}

/* ---- heads of q and k ---- */

enum { HEAD_WARPS = 4, HEAD_MAX_D = 512 }; /* heads of a block, one warp each. Chosen. */

struct head_call {              /* the arguments of a head_norm */
  void         *qkv;            /* A [N,E], q, k, v or their gradient */
  void         *raw;            /* A [N,heads D] */
  float        *rstd;           /* f32 [N,heads] */
  const void   *wq, *wk;        /* A [D] */
  int64_t       rows;           /* N heads */
  int           E, H, heads, D; /* heads = H + G */
  tri_norm_rule rule;
};

/* A warp has one head of one row, and its lane l columns l, l + 32, ... It writes raw and rstd unless they
 * are NULL. The grid is rows / HEAD_WARPS. Tested against tri_cpu_head_norm_fwd. */
template <class A>
__global__ void __launch_bounds__(HEAD_WARPS * 32) head_norm_fwd_kernel(const head_call c) {
  int64_t i = (int64_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32, n = i / c.heads;
  int     h = (int)(i % c.heads), lane = threadIdx.x % 32;
  float   sum = 0, r;

  if (i < c.rows) {
    A       *x = (A *)c.qkv + n * c.E + h * c.D, *kept = c.raw ? (A *)c.raw + i * c.D : NULL;
    const A *w = (const A *)(h < c.H ? c.wq : c.wk);
    for (int d = lane; d < c.D; d += 32) {
      float v = tri_get(x[d]);
      sum = fmaf(v, v, sum);
      if (kept) kept[d] = x[d];
    }
    r = 1.0f / sqrtf(tri_warp_sum(sum) / (float)c.D + c.rule.eps);
    for (int d = lane; d < c.D; d += 32) tri_put(x + d, tri_get(x[d]) * r * (c.rule.plus + tri_get(w[d])));
    if (c.rstd && lane == 0) c.rstd[i] = r;
  }
}

/* Turns dy in qkv into dx, as rmsnorm_bwd_kernel does. The grid is rows / HEAD_WARPS. Tested against
 * tri_cpu_head_norm_bwd. */
template <class A>
__global__ void __launch_bounds__(HEAD_WARPS * 32) head_norm_bwd_kernel(const head_call c) {
  int64_t i = (int64_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32, n = i / c.heads;
  int     h = (int)(i % c.heads), lane = threadIdx.x % 32;
  float   sum = 0, mean, r;

  if (i < c.rows) {
    A       *dy = (A *)c.qkv + n * c.E + h * c.D;
    const A *x = (const A *)c.raw + i * c.D, *w = (const A *)(h < c.H ? c.wq : c.wk);
    r = c.rstd[i];
    for (int d = lane; d < c.D; d += 32)
      sum = fmaf(tri_get(dy[d]) * (c.rule.plus + tri_get(w[d])), tri_get(x[d]), sum);
    mean = tri_warp_sum(sum) / (float)c.D * r * r;
    for (int d = lane; d < c.D; d += 32)
      tri_put(dy + d, r * fmaf(-tri_get(x[d]), mean, tri_get(dy[d]) * (c.rule.plus + tri_get(w[d]))));
  }
}

/* total[D] += sums of dy x rstd over n_row rows of n_head heads from `first_head` on, as in column_kernel. */
template <class A>
__global__ void __launch_bounds__(TRI_SUM_COLUMNS *TRI_SUM_LANES)
    head_column_kernel(float *total, const head_call c, int first_head, int n_head, int64_t n_row,
                       tri_row_parts p) {
  tri_row_share at = tri_row_share_of(p, n_row, c.D);
  float         sum = 0;

  for (int64_t i = at.first; i < at.end; i += TRI_SUM_LANES) {
    int64_t n = i / n_head, h = first_head + i % n_head, own = n * c.heads + h;
    sum = fmaf(tri_get(((const A *)c.qkv)[n * c.E + h * c.D + at.column]),
               tri_get(((const A *)c.raw)[own * c.D + at.column]) * c.rstd[own], sum);
  }
  tri_put_row_sum(total, sum, at, p, c.D);
}

template <class A>
static tri_status add_heads(tri_stream *s, void *dw, const head_call &c, int first, int n_head) {
  int64_t       n_row = c.rows / c.heads * n_head;
  tri_row_parts p = tri_row_parts_of(n_row, c.D, TRI_SUM_ROWS);

  TRI_TRY(TRI_LAUNCH((head_column_kernel<A>), tri_row_grid(p, n_row, c.D), TRI_SUM_COLUMNS * TRI_SUM_LANES, 0,
                     s, tri_row_parts_to(s, p, dw), c, first, n_head, n_row, p));
  return tri_add_row_parts(s, dw, p, c.D);
}

/* ---- all heads of q as one row, and of k ---- */

/* A block of NORM_THREADS has q (blockIdx.x even) or k of one row. It computes x (plus + w) rstd in place, as
 * rmsnorm_fwd_kernel. rstd is f32 [N,2]. It writes raw and rstd unless they are NULL. The grid is 2 N. Tested
 * against tri_cpu_head_norm_fwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(NORM_THREADS) whole_norm_fwd_kernel(const head_call c) {
  int64_t  n = blockIdx.x / 2, q = (int64_t)c.H * c.D, width = (int64_t)c.heads * c.D;
  bool     is_k = blockIdx.x % 2 != 0;
  int64_t  from = is_k ? q : 0, C = is_k ? width - q : q;
  A       *x = (A *)c.qkv + n * c.E + from, *kept = c.raw ? (A *)c.raw + n * width + from : NULL;
  const A *w = (const A *)(is_k ? c.wk : c.wq);
  float    sum = 0, r;

  for (int64_t i = threadIdx.x * TRI_UNIT; i < C; i += NORM_THREADS * TRI_UNIT) {
    float v[8];
    tri_load8<VEC>(v, x + i, C - i);
#pragma unroll
    for (int j = 0; j < 8; j++) sum = fmaf(v[j], v[j], sum);
    if (kept) tri_store8<VEC>(kept + i, v, C - i);
  }
  r = 1.0f / sqrtf(tri_block_sum<NORM_WARPS>(sum) / (float)C + c.rule.eps);
  for (int64_t i = threadIdx.x * TRI_UNIT; i < C; i += NORM_THREADS * TRI_UNIT) {
    float v[8], g[8];
    tri_load8<VEC>(v, x + i, C - i);
    tri_load8<VEC>(g, w + i, C - i);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = v[j] * r * (c.rule.plus + g[j]);
    tri_store8<VEC>(x + i, v, C - i);
  }
  if (c.rstd && threadIdx.x == 0) c.rstd[blockIdx.x] = r;
}

/* Turns dy in qkv into dx. The grid is 2 N. Tested against tri_cpu_head_norm_bwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(NORM_THREADS) whole_norm_bwd_kernel(const head_call c) {
  int64_t  n = blockIdx.x / 2, q = (int64_t)c.H * c.D, width = (int64_t)c.heads * c.D;
  bool     is_k = blockIdx.x % 2 != 0;
  int64_t  from = is_k ? q : 0, C = is_k ? width - q : q;
  A       *dy = (A *)c.qkv + n * c.E + from;
  const A *x = (const A *)c.raw + n * width + from, *w = (const A *)(is_k ? c.wk : c.wq);
  float    sum = 0, mean, r = c.rstd[blockIdx.x];

  for (int64_t i = threadIdx.x * TRI_UNIT; i < C; i += NORM_THREADS * TRI_UNIT) {
    float v[8], d[8], g[8];
    tri_load8<VEC>(v, x + i, C - i);
    tri_load8<VEC>(d, dy + i, C - i);
    tri_load8<VEC>(g, w + i, C - i);
#pragma unroll
    for (int j = 0; j < 8; j++) sum = fmaf(d[j] * (c.rule.plus + g[j]), v[j], sum);
  }
  mean = tri_block_sum<NORM_WARPS>(sum) / (float)C * r * r;
  for (int64_t i = threadIdx.x * TRI_UNIT; i < C; i += NORM_THREADS * TRI_UNIT) {
    float v[8], d[8], g[8];
    tri_load8<VEC>(v, x + i, C - i);
    tri_load8<VEC>(d, dy + i, C - i);
    tri_load8<VEC>(g, w + i, C - i);
#pragma unroll
    for (int j = 0; j < 8; j++) d[j] = r * fmaf(-v[j], mean, d[j] * (c.rule.plus + g[j]));
    tri_store8<VEC>(dy + i, d, C - i);
  }
}

/* total[C] += sums of dy x rstd over N rows of q (is_k 0) or of k (is_k 1), as in column_kernel. */
template <class A>
__global__ void __launch_bounds__(TRI_SUM_COLUMNS *TRI_SUM_LANES)
    whole_column_kernel(float *total, const head_call c, int is_k, int64_t N, int64_t C, tri_row_parts p) {
  tri_row_share at = tri_row_share_of(p, N, C);
  int64_t       from = (is_k ? (int64_t)c.H * c.D : 0) + at.column, width = (int64_t)c.heads * c.D;
  const A      *dy = (const A *)c.qkv + from, *x = (const A *)c.raw + from;
  float         sum = 0;

  for (int64_t n = at.first; n < at.end; n += TRI_SUM_LANES)
    sum = fmaf(tri_get(dy[n * c.E]), tri_get(x[n * width]) * c.rstd[2 * n + is_k], sum);
  tri_put_row_sum(total, sum, at, p, C);
}

template <class A> static tri_status add_whole(tri_stream *s, tri_out dw, const head_call &c, int is_k) {
  int64_t       N = c.rows / c.heads, C = dw->dim[0];
  tri_row_parts p = tri_row_parts_of(N, C, TRI_SUM_ROWS);

  TRI_TRY(TRI_LAUNCH((whole_column_kernel<A>), tri_row_grid(p, N, C), TRI_SUM_COLUMNS * TRI_SUM_LANES, 0, s,
                     tri_row_parts_to(s, p, dw->data), c, is_k, N, C, p));
  return tri_add_row_parts(s, dw->data, p, C);
}

/* Returns whether the alignment of q and k allows loads of eight elements at a time. */
static bool     whole_vec(const head_call &c) { return tri_vec8(c.D, c.qkv, c.raw, c.wq, c.wk); }
static unsigned whole_grid(const head_call &c) { return (unsigned)(2 * (c.rows / c.heads)); }

static head_call head_call_of(tri_in qkv, tri_in raw, tri_in rstd, tri_in wq, tri_in wk, const tri_heads *h,
                              const tri_norm_rule *rule) {
  int       heads = h->H + h->G;
  head_call c = {qkv->data,
                 raw ? raw->data : NULL,
                 rstd ? (float *)rstd->data : NULL,
                 wq->data,
                 wk->data,
                 qkv->dim[0] * heads,
                 (int)qkv->dim[1],
                 h->H,
                 heads,
                 h->D,
                 *rule};

  TRI_ASSERT(qkv->dim[1] == (int64_t)(h->H + 2 * h->G) * h->D && h->D > 0 && h->D <= HEAD_MAX_D);
  TRI_ASSERT(wq->dtype == qkv->dtype && wk->dtype == qkv->dtype);
  TRI_ASSERT(!raw == !rstd && (!raw || (raw->dtype == qkv->dtype && rstd->dtype == TRI_F32)));
  return c;
}

tri_status tri_cuda_head_norm_fwd(tri_stream *s, tri_out qkv, tri_out raw, tri_out rstd, tri_in wq, tri_in wk,
                                  const tri_heads *h, const tri_norm_rule *rule) {
  head_call c = head_call_of(qkv, raw, rstd, wq, wk, h, rule);
  unsigned  grid = (unsigned)tri_blocks(c.rows, HEAD_WARPS);

  if (tri_norms_whole(h, wq->dim[0], wk->dim[0]))
    return TRI_LAUNCH_TYPED(whole_norm_fwd_kernel, tri_type(qkv), whole_vec(c), whole_grid(c), NORM_THREADS,
                            0, s, c);
#define LAUNCH(A) TRI_LAUNCH(head_norm_fwd_kernel<A>, grid, HEAD_WARPS * 32, 0, s, c)
  return TRI_BY_TYPE(tri_type(qkv), LAUNCH);
#undef LAUNCH
}

template <class A>
static tri_status head_norm_bwd(tri_stream *s, const head_call &c, tri_out dwq, tri_out dwk) {
  if (dwq) {
    TRI_TRY(add_heads<A>(s, dwq->data, c, 0, c.H));
    TRI_TRY(add_heads<A>(s, dwk->data, c, c.H, c.heads - c.H));
  }
  return TRI_LAUNCH(head_norm_bwd_kernel<A>, (unsigned)tri_blocks(c.rows, HEAD_WARPS), HEAD_WARPS * 32, 0, s,
                    c);
}

template <class A>
static tri_status whole_norm_bwd(tri_stream *s, const head_call &c, tri_out dwq, tri_out dwk) {
  if (dwq) {
    TRI_TRY(add_whole<A>(s, dwq, c, 0));
    TRI_TRY(add_whole<A>(s, dwk, c, 1));
  }
  if (whole_vec(c)) return TRI_LAUNCH((whole_norm_bwd_kernel<A, true>), whole_grid(c), NORM_THREADS, 0, s, c);
  return TRI_LAUNCH((whole_norm_bwd_kernel<A, false>), whole_grid(c), NORM_THREADS, 0, s, c);
}

tri_status tri_cuda_head_norm_bwd(tri_stream *s, tri_out dqkv, tri_out dwq, tri_out dwk, tri_in raw,
                                  tri_in rstd, tri_in wq, tri_in wk, const tri_heads *h,
                                  const tri_norm_rule *rule) {
  head_call c = head_call_of(dqkv, raw, rstd, wq, wk, h, rule);

  TRI_ASSERT(raw && !dwq == !dwk);
  if (tri_norms_whole(h, wq->dim[0], wk->dim[0])) {
#define BACK(A) whole_norm_bwd<A>(s, c, dwq, dwk)
    return TRI_BY_TYPE(tri_type(dqkv), BACK);
#undef BACK
  }
#define BACK(A) head_norm_bwd<A>(s, c, dwq, dwk)
  return TRI_BY_TYPE(tri_type(dqkv), BACK);
#undef BACK
}
