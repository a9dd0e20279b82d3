/* gate.cu - gates: the gated norm behind a gated delta rule, and the gate of attention's output. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/row_sums.cuh"

enum {
  THREADS = 256, /* chosen */
  HEAD_WARPS = 4 /* heads of a block, one warp each. Chosen. */
};

struct gate_norm_call {       /* the arguments of gate_norm */
  void       *y, *dout, *dz;  /* A [N,Hv*Dv], each NULL if not wanted */
  const void *dy, *o, *z, *w; /* A [N,Hv*Dv], w A [Dv] */
  float      *rstd;           /* f32 [N,Hv] */
  int64_t     rows;           /* N Hv */
  int         Dv;
  float       eps;
};

/* y = w o rstd silu(z), rstd = 1 / sqrt(mean of o^2 + eps). A warp has one head of one row, and its lane l
 * columns l, l + 32, ... The grid is rows / HEAD_WARPS. Tested against tri_cpu_gate_norm_fwd. */
template <class A>
__global__ void __launch_bounds__(HEAD_WARPS * 32) gate_norm_fwd_kernel(const gate_norm_call c) {
  int64_t i = (int64_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32;
  int     lane = threadIdx.x % 32;
  float   sum = 0, r;

  if (i < c.rows) {
    const A *o = (const A *)c.o + i * c.Dv, *z = (const A *)c.z + i * c.Dv, *w = (const A *)c.w;
    A       *y = (A *)c.y + i * c.Dv;
    for (int d = lane; d < c.Dv; d += 32) sum = fmaf(tri_get(o[d]), tri_get(o[d]), sum);
    r = 1.0f / sqrtf(tri_warp_sum(sum) / (float)c.Dv + c.eps);
    for (int d = lane; d < c.Dv; d += 32)
      tri_put(y + d, tri_get(w[d]) * (tri_get(o[d]) * r) * tri_silu(tri_get(z[d])));
    if (c.rstd && lane == 0) c.rstd[i] = r;
  }
}

/* dout = rstd (n - o rstd^2 mean(n o)) with n = w silu(z) dy, and dz = w o rstd silu'(z) dy. y is as from
 * gate_norm_fwd_kernel. A lane reads an element before it writes it, so dout may be dy and dz may be z.
 * The grid is rows / HEAD_WARPS. Tested against tri_cpu_gate_norm_bwd. */
template <class A>
__global__ void __launch_bounds__(HEAD_WARPS * 32) gate_norm_bwd_kernel(const gate_norm_call c) {
  int64_t i = (int64_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32, at = i * c.Dv;
  int     lane = threadIdx.x % 32;
  float   sum = 0, mean, r;

  if (i < c.rows) {
    const A *dy = (const A *)c.dy + at, *o = (const A *)c.o + at, *z = (const A *)c.z + at,
            *w = (const A *)c.w;
    r = c.rstd[i];
    for (int d = lane; d < c.Dv; d += 32)
      sum = fmaf(tri_get(dy[d]) * tri_get(w[d]) * tri_silu(tri_get(z[d])), tri_get(o[d]), sum);
    mean = tri_warp_sum(sum) / (float)c.Dv * r * r;
    for (int d = lane; d < c.Dv; d += 32) {
      float v = tri_get(o[d]), gate = tri_get(z[d]), g = tri_get(dy[d]), scale = tri_get(w[d]);
      float act = tri_silu(gate), normed = scale * (v * r);
      tri_put((A *)c.dout + at + d, r * fmaf(-v, mean, g * scale * act));
      tri_put((A *)c.dz + at + d, g * normed * tri_silu_slope(gate));
      if (c.y) tri_put((A *)c.y + at + d, normed * act);
    }
  }
}

/* total[Dv] += sums of dy silu(z) o rstd over the rows of all heads. With several parts, total[part,Dv] = the
 * part's sums. The grid is tri_row_grid. Tested against tri_cpu_gate_norm_bwd. */
template <class A>
__global__ void __launch_bounds__(TRI_SUM_COLUMNS *TRI_SUM_LANES)
    gate_column_kernel(float *total, const gate_norm_call c, tri_row_parts p) {
  tri_row_share share = tri_row_share_of(p, c.rows, c.Dv);
  float         sum = 0;

#pragma unroll 2
  for (int64_t i = share.first; i < share.end; i += TRI_SUM_LANES) {
    int64_t at = i * c.Dv + share.column;
    float   act = tri_silu(tri_get(((const A *)c.z)[at]));
    sum = fmaf(tri_get(((const A *)c.dy)[at]) * act, tri_get(((const A *)c.o)[at]) * c.rstd[i], sum);
  }
  tri_put_row_sum(total, sum, share, p, c.Dv);
}

static gate_norm_call gate_norm_of(tri_in o, tri_in z, tri_in w, const tri_delta_rule *r) {
  gate_norm_call c = {};

  TRI_ASSERT(o->dim[1] == (int64_t)r->Hv * r->Dv && tri_same_rows(z, o));
  TRI_ASSERT(w->dtype == tri_type(o) && w->dim[0] == r->Dv && r->Dv > 0 && r->Dv <= TRI_DELTA_MOST);
  c.o = o->data;
  c.z = z->data;
  c.w = w->data;
  c.rows = o->dim[0] * r->Hv;
  c.Dv = r->Dv;
  c.eps = r->eps;
  return c;
}

tri_status tri_cuda_gate_norm_fwd(tri_stream *s, tri_out y, tri_out rstd, tri_in o, tri_in z, tri_in w,
                                  const tri_delta_rule *rule) {
  gate_norm_call c = gate_norm_of(o, z, w, rule);

  TRI_ASSERT(tri_same_rows(y, o));
  TRI_ASSERT(!rstd || (rstd->dtype == TRI_F32 && tri_tensor_count(rstd) == c.rows));
  c.y = y->data;
  c.rstd = rstd ? (float *)rstd->data : NULL;
#define LAUNCH(A)                                                                                            \
  TRI_LAUNCH((gate_norm_fwd_kernel<A>), tri_whole_grid(tri_blocks(c.rows, HEAD_WARPS)), HEAD_WARPS * 32, 0,  \
             s, c)
  return TRI_BY_TYPE(tri_type(o), LAUNCH);
#undef LAUNCH
}

template <class A> static tri_status gate_add_columns(tri_stream *s, void *dw, const gate_norm_call &c) {
  tri_row_parts p = tri_row_parts_of(c.rows, c.Dv, TRI_SUM_ROWS);

  TRI_TRY(TRI_LAUNCH((gate_column_kernel<A>), tri_row_grid(p, c.rows, c.Dv), TRI_SUM_COLUMNS * TRI_SUM_LANES,
                     0, s, tri_row_parts_to(s, p, dw), c, p));
  return tri_add_row_parts(s, dw, p, c.Dv);
}

tri_status tri_cuda_gate_norm_bwd(tri_stream *s, tri_out dout, tri_out dz, tri_out y, tri_out dw, tri_in dy,
                                  tri_in o, tri_in z, tri_in w, tri_in rstd, const tri_delta_rule *rule) {
  gate_norm_call c = gate_norm_of(o, z, w, rule);

  TRI_ASSERT(tri_same_rows(dy, o) && tri_same_rows(dout, o) && tri_same_rows(dz, o));
  TRI_ASSERT(rstd->dtype == TRI_F32 && tri_tensor_count(rstd) == c.rows && (!y || tri_same_rows(y, o)));
  TRI_ASSERT(!dw || (dw->dtype == TRI_F32 && dw->dim[0] == c.Dv));
  if (c.rows == 0) return TRI_OK;
  c.y = y ? y->data : NULL;
  c.dout = dout->data;
  c.dz = dz->data;
  c.dy = dy->data;
  c.rstd = (float *)rstd->data;
#define ADD(A) gate_add_columns<A>(s, dw->data, c) /* first, since dout may be dy */
  if (dw) TRI_TRY(TRI_BY_TYPE(tri_type(o), ADD));
#undef ADD
#define LAUNCH(A)                                                                                            \
  TRI_LAUNCH((gate_norm_bwd_kernel<A>), tri_whole_grid(tri_blocks(c.rows, HEAD_WARPS)), HEAD_WARPS * 32, 0,  \
             s, c)
  return TRI_BY_TYPE(tri_type(o), LAUNCH);
#undef LAUNCH
}

/* ---- the gate of attention's output ---- */

/* Copies between raw A [N,E+H*D], where gate h stands behind query h, and qkv A [N,E] with gate A
 * [N,H*D]. JOIN copies to raw, else from it. The grid may be any. Threads take units of 8 columns of a
 * head, row by row. Tested against tri_cpu_split_gate and tri_cpu_join_gate. */
template <class A, bool VEC, bool JOIN>
__global__ void __launch_bounds__(THREADS)
    split_gate_kernel(A *raw, A *qkv, A *gate, int64_t N, int H, int G, int D) {
  int     units = (D + TRI_UNIT - 1) / TRI_UNIT, heads = 2 * (H + G);
  int64_t E = (int64_t)(H + 2 * G) * D, HD = (int64_t)H * D, all = N * heads * units;

  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += (int64_t)gridDim.x * THREADS) {
    int64_t n = i / ((int64_t)heads * units);
    int     rest = (int)(i % ((int64_t)heads * units)), h = rest / units, d = rest % units * TRI_UNIT;
    A      *one = raw + n * (E + HD) + (int64_t)h * D + d, *other;
    float   v[8];
    if (h >= 2 * H)
      other = qkv + n * E + (int64_t)(h - H) * D + d;
    else
      other = h % 2 ? gate + n * HD + (int64_t)(h / 2) * D + d : qkv + n * E + (int64_t)(h / 2) * D + d;
    tri_load8<VEC>(v, JOIN ? other : one, D - d);
    tri_store8<VEC>(JOIN ? one : other, v, D - d);
  }
}

template <bool JOIN>
static tri_status move_gates(tri_stream *s, tri_in raw, tri_in qkv, tri_in gate, const tri_heads *h) {
  int64_t  N = raw->dim[0], E = (int64_t)(h->H + 2 * h->G) * h->D, HD = (int64_t)h->H * h->D;
  unsigned grid = tri_grid(s, N * 2 * (h->H + h->G) * tri_blocks(h->D, TRI_UNIT), THREADS);
  bool     vec = tri_vec8(h->D, raw->data, qkv->data, gate->data);

  TRI_ASSERT(raw->dim[1] == E + HD && qkv->dim[0] == N && qkv->dim[1] == E && gate->dim[0] == N &&
             gate->dim[1] == HD && qkv->dtype == tri_type(raw) && gate->dtype == raw->dtype);
#define MOVE(A, VEC)                                                                                         \
  TRI_LAUNCH((split_gate_kernel<A, VEC, JOIN>), grid, THREADS, 0, s, raw->data, qkv->data, gate->data, N,    \
             h->H, h->G, h->D)
#define LAUNCH(A) (vec ? MOVE(A, true) : MOVE(A, false))
  return TRI_BY_TYPE(tri_type(raw), LAUNCH);
#undef MOVE
#undef LAUNCH
}

tri_status tri_cuda_split_gate(tri_stream *s, tri_out qkv, tri_out gate, tri_in raw, const tri_heads *h) {
  return move_gates<false>(s, raw, qkv, gate, h);
}
tri_status tri_cuda_join_gate(tri_stream *s, tri_out raw, tri_in qkv, tri_in gate, const tri_heads *h) {
  return move_gates<true>(s, raw, qkv, gate, h);
}

/* y = o sigmoid(gate), n elements. y may be o. The grid may be any. Tested against tri_cpu_gate_fwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS) gate_fwd_kernel(A *y, const A *o, const A *gate, int64_t n) {
  for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * TRI_UNIT; i < n;
       i += (int64_t)gridDim.x * THREADS * TRI_UNIT) {
    float v[8], g[8];
    tri_load8<VEC>(v, o + i, n - i);
    tri_load8<VEC>(g, gate + i, n - i);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] *= tri_sigmoid(g[j]);
    tri_store8<VEC>(y + i, v, n - i);
  }
}

/* dout = dy sigmoid(gate), dgate = dy o sigmoid'(gate), and y, unless NULL, as from gate_fwd_kernel. A thread
 * reads its elements before it writes them, so dout may be dy and dgate may be gate. Tested against
 * tri_cpu_gate_bwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    gate_bwd_kernel(A *dout, A *dgate, A *y, const A *dy, const A *o, const A *gate, int64_t n) {
  for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * TRI_UNIT; i < n;
       i += (int64_t)gridDim.x * THREADS * TRI_UNIT) {
    float d[8], v[8], g[8];
    tri_load8<VEC>(d, dy + i, n - i);
    tri_load8<VEC>(v, o + i, n - i);
    tri_load8<VEC>(g, gate + i, n - i);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float sigmoid = tri_sigmoid(g[j]);
      g[j] = d[j] * v[j] * sigmoid * (1.0f - sigmoid);
      d[j] *= sigmoid;
      v[j] *= sigmoid;
    }
    tri_store8<VEC>(dout + i, d, n - i);
    tri_store8<VEC>(dgate + i, g, n - i);
    if (y) tri_store8<VEC>(y + i, v, n - i);
  }
}

tri_status tri_cuda_gate_fwd(tri_stream *s, tri_out y, tri_in o, tri_in gate) {
  int64_t  n = tri_tensor_count(o);
  unsigned grid = tri_grid(s, tri_blocks(n, TRI_UNIT), THREADS);
  bool     vec = tri_vec8(n, y->data, o->data, gate->data);

  TRI_ASSERT(tri_same_rows(y, o) && tri_same_rows(gate, o));
#define GATE(A, VEC)                                                                                         \
  TRI_LAUNCH((gate_fwd_kernel<A, VEC>), grid, THREADS, 0, s, y->data, o->data, gate->data, n)
#define LAUNCH(A) (vec ? GATE(A, true) : GATE(A, false))
  return TRI_BY_TYPE(tri_type(o), LAUNCH);
#undef GATE
#undef LAUNCH
}

tri_status tri_cuda_gate_bwd(tri_stream *s, tri_out dout, tri_out dgate, tri_out y, tri_in dy, tri_in o,
                             tri_in gate) {
  int64_t  n = tri_tensor_count(o);
  void    *again = y ? y->data : NULL;
  unsigned grid = tri_grid(s, tri_blocks(n, TRI_UNIT), THREADS);
  bool     vec = tri_vec8(n, dout->data, dgate->data, again, dy->data, o->data, gate->data);

  TRI_ASSERT(tri_same_rows(dy, o) && tri_same_rows(gate, o) && tri_same_rows(dout, o));
  TRI_ASSERT(tri_same_rows(dgate, o) && (!y || tri_same_rows(y, o)));
#define GATE(A, VEC)                                                                                         \
  TRI_LAUNCH((gate_bwd_kernel<A, VEC>), grid, THREADS, 0, s, dout->data, dgate->data, again, dy->data,       \
             o->data, gate->data, n)
#define LAUNCH(A) (vec ? GATE(A, true) : GATE(A, false))
  return TRI_BY_TYPE(tri_type(o), LAUNCH);
#undef GATE
#undef LAUNCH
}
