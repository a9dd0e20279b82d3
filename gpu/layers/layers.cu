/* layers.cu - embedding, rotary positions, gated products, and the input of a decode step from the step
 * before. For decode rows, rotary positions also write the cache. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/cuda_util.cuh"

enum {
  THREADS = 256, /* chosen */
  WARPS = THREADS / 32
};

/* x[N,C] f32 = scale table A [V,C] at token[N]. The grid is N. Tested against tri_cpu_embed_fwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    embed_fwd_kernel(float *x, const A *table, const int32_t *token, int64_t V, int64_t C, float scale) {
  int64_t  id = token[blockIdx.x];
  float   *to = x + (int64_t)blockIdx.x * C;
  const A *from = table + id * C;

  TRI_KERNEL_ASSERT(id >= 0 && id < V);
  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += THREADS * TRI_UNIT) {
    float v[8];
    tri_load8<VEC>(v, from + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] *= scale;
    tri_store8<VEC>(to + c, v, C - c);
  }
}

tri_status tri_cuda_embed_fwd(tri_stream *s, tri_out x, tri_in table, tri_in token, float scale) {
  int64_t N = token->dim[0], V = table->dim[0], C = table->dim[1];

  TRI_ASSERT(x->dtype == TRI_F32 && x->dim[0] == N && x->dim[1] == C);
  return TRI_LAUNCH_TYPED(embed_fwd_kernel, tri_type(table), tri_vec8(C, x->data, table->data), (unsigned)N,
                          THREADS, 0, s, x->data, table->data, token->data, V, C, scale);
}

enum { LOOK = 16, FIND = 4 }; /* ids a thread compares at once, looking back and forward. Chosen. */

/* Returns whether one of the first n ids is `id`. All threads of the block get the same answer. */
static __device__ __forceinline__ bool any_before(const int32_t *token, int64_t n, int32_t id) {
  for (int64_t base = 0; base < n; base += THREADS * LOOK) {
    bool found = false;
#pragma unroll
    for (int k = 0; k < LOOK; k++) {
      int64_t i = base + k * THREADS + threadIdx.x;
      found |= i < n && token[i] == id;
    }
    if (__syncthreads_or(found)) return true;
  }
  return false;
}

/* dtable[V,C] += scale dx[N,C] at token[N], f32. The block of a token's first occurrence adds all its rows in
 * their order. The grid is N. Shared memory has the places of a token in THREADS * FIND ids. Tested against
 * the bits of tri_cpu_embed_bwd. */
__global__ void __launch_bounds__(THREADS)
    embed_bwd_kernel(float *dtable, const float *dx, const int32_t *token, int64_t N, int64_t V, int64_t C,
                     float scale) {
  TRI_SHARED(int, place, [THREADS * FIND]);
  TRI_SHARED(int, total, [WARPS]);
  int64_t first = blockIdx.x;
  int32_t id = token[first];
  int     lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float  *to = dtable + id * C;

  TRI_KERNEL_ASSERT(id >= 0 && id < V);
  if (any_before(token, first, id)) return;
  for (int64_t base = first; base < N; base += THREADS * FIND) {
    unsigned hits = 0;
    int      n = 0, at, count = 0;
#pragma unroll
    for (int k = 0; k < FIND; k++) {
      int64_t i = base + threadIdx.x * FIND + k;
      if (i < N && token[i] == id) hits |= 1u << k, n++;
    }
    at = n; /* hits up to this thread, in its warp */
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      int more = __shfl_up_sync(~0u, at, d);
      if (lane >= d) at += more;
    }
    if (lane == 31) total[warp] = at;
    __syncthreads();
    at -= n;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      if (w < warp) at += total[w];
      count += total[w];
    }
#pragma unroll
    for (int k = 0; k < FIND; k++)
      if (hits >> k & 1) place[at++] = threadIdx.x * FIND + k;
    __syncthreads();
    for (int64_t c = threadIdx.x; count > 0 && c < C; c += THREADS) {
      float sum = to[c];
      for (int i = 0; i < count; i++) sum = fmaf(dx[(base + place[i]) * C + c], scale, sum);
      to[c] = sum;
    }
    __syncthreads(); /* place and total are about to be overwritten */
  }
}

tri_status tri_cuda_embed_bwd(tri_stream *s, tri_out dtable, tri_in dx, tri_in token, float scale) {
  int64_t N = token->dim[0], V = dtable->dim[0], C = dtable->dim[1];

  TRI_ASSERT(dtable->dtype == TRI_F32 && dx->dtype == TRI_F32 && dx->dim[0] == N && dx->dim[1] == C);
  return TRI_LAUNCH(embed_bwd_kernel, (unsigned)N, THREADS, 0, s, dtable->data, dx->data, token->data, N, V,
                    C, scale);
}

/* Rotates eight pairs (x[j], x[half + j]) of a head in place. `turn` holds the cosines, and `half` further
 * the sines. a and b get the results. */
template <class A, bool VEC>
static __device__ __forceinline__ void rope_turn(float (&a)[8], float (&b)[8], A *x, const float *turn,
                                                 int half, int left, float sign) {
  float cosine[8], sine[8];

  tri_load8<VEC>(a, x, left);
  tri_load8<VEC>(b, x + half, left);
  tri_load8<VEC>(cosine, turn, left);
  tri_load8<VEC>(sine, turn + half, left);
#pragma unroll
  for (int k = 0; k < 8; k++) {
    float p = a[k], q = b[k], z = sign * sine[k];
    a[k] = fmaf(-q, z, p * cosine[k]);
    b[k] = fmaf(p, z, q * cosine[k]);
  }
  tri_store8<VEC>(x, a, left);
  tri_store8<VEC>(x + half, b, left);
}

/* Rotary positions (Su et al. 2021) in the halves convention. (a, b) = x[0..half), x[half..2 half) of a head
 * become (a cos - b sin, b cos + a sin). qkv is A [N,E], table is f32 [positions,2 half] of cosines, then
 * sines. The grid is N. A thread takes 8 pairs of one head at a time. Tested against tri_cpu_rope. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    rope_kernel(A *qkv, const int32_t *pos, const float *table, int64_t positions, int heads, int half, int D,
                int64_t E, float sign) {
  int64_t      at = pos[blockIdx.x];
  const float *turn = table + at * 2 * half;
  A           *row = qkv + (int64_t)blockIdx.x * E;
  int          units = (half + TRI_UNIT - 1) / TRI_UNIT;

  TRI_KERNEL_ASSERT(at >= 0 && at < positions);
  for (int i = threadIdx.x; i < heads * units; i += THREADS) {
    int   j = i % units * TRI_UNIT;
    float a[8], b[8];
    rope_turn<A, VEC>(a, b, row + (int64_t)(i / units) * D + j, turn + j, half, half - j, sign);
  }
}

/* Returns whether the alignment of qkv and the table allows loads of eight pairs at a time. */
static bool rope_vec(tri_in qkv, tri_in table, const tri_heads *h) {
  return tri_vec8(table->dim[1] / 2, qkv->data, table->data) && h->D % TRI_UNIT == 0;
}

tri_status tri_cuda_rope(tri_stream *s, tri_out qkv, tri_in pos, tri_in table, const tri_heads *h, int sign) {
  int64_t N = qkv->dim[0], E = qkv->dim[1], R = table->dim[1];

  TRI_ASSERT(E == (int64_t)(h->H + 2 * h->G) * h->D && R % 2 == 0 && R <= h->D && (sign == 1 || sign == -1));
  if (R == 0) return TRI_OK;
  return TRI_LAUNCH_TYPED(rope_kernel, tri_type(qkv), rope_vec(qkv, table, h), (unsigned)N, THREADS, 0, s,
                          qkv->data, pos->data, table->data, table->dim[0], h->H + h->G, (int)(R / 2), h->D,
                          E, (float)sign);
}

struct rope_put_call {             /* the arguments of one rope_put */
  void          *qkv;              /* A [N,E] */
  void          *k_page, *v_page;  /* A [P,G,D,TRI_PAGE], [P,G,TRI_PAGE,D] */
  const int32_t *pos, *slot;       /* [N] */
  const float   *table;            /* f32 [positions,2 half] */
  int64_t        positions, slots; /* slots = P TRI_PAGE */
  int            H, G, D, half;
};

/* As rope_kernel with sign 1, and the rotated k and v also go to their place in the cache. Each row has a
 * page of its own, with columns of keys TRI_PAGE apart. The grid is N. Tested against the bits of rope_kernel
 * and kv_put_kernel. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS) rope_put_kernel(const rope_put_call c) {
  int          at = c.pos[blockIdx.x], to = c.slot[blockIdx.x];
  int          D = c.D, units = (c.half + TRI_UNIT - 1) / TRI_UNIT, rest = D - 2 * c.half;
  A           *row = (A *)c.qkv + (int64_t)blockIdx.x * (c.H + 2 * c.G) * D;
  const A     *v = row + (c.H + c.G) * D;
  const float *turn = c.table + (int64_t)at * 2 * c.half;
  int64_t      head = (int64_t)(to / TRI_PAGE) * c.G * D * TRI_PAGE; /* offset of head 0's page */

  TRI_KERNEL_ASSERT(at >= 0 && at < c.positions && to < c.slots);
  for (int i = threadIdx.x; i < (c.H + c.G) * units; i += THREADS) {
    int   h = i / units, j = i % units * TRI_UNIT;
    A    *key = (A *)c.k_page + head + ((h - c.H) * D + j) * TRI_PAGE + to % TRI_PAGE;
    float a[8], b[8];
    rope_turn<A, VEC>(a, b, row + h * D + j, turn + j, c.half, c.half - j, 1.0f);
    if (h < c.H || to < 0) continue;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      if (j + k >= c.half) break;
      tri_put(key + k * TRI_PAGE, a[k]);
      tri_put(key + (c.half + k) * TRI_PAGE, b[k]);
    }
  }
  if (to < 0) return;
  for (int i = threadIdx.x; i < c.G * rest; i += THREADS) { /* columns of keys without rotation */
    int d = i / rest * D + 2 * c.half + i % rest;
    ((A *)c.k_page)[head + (int64_t)d * TRI_PAGE + to % TRI_PAGE] = row[c.H * D + d];
  }
  for (int i = threadIdx.x; i < c.G * D; i += THREADS)
    ((A *)c.v_page)[head + (i / D * TRI_PAGE + to % TRI_PAGE) * D + i % D] = v[i];
}

tri_status tri_cuda_rope_put(tri_stream *s, tri_out qkv, tri_out k_page, tri_out v_page, tri_in pos,
                             tri_in table, tri_in slot, const tri_heads *h) {
  int64_t       N = qkv->dim[0];
  rope_put_call c = {qkv->data,
                     k_page->data,
                     v_page->data,
                     (const int32_t *)pos->data,
                     (const int32_t *)slot->data,
                     (const float *)table->data,
                     table->dim[0],
                     tri_tensor_count(k_page) / ((int64_t)h->G * h->D),
                     h->H,
                     h->G,
                     h->D,
                     (int)(table->dim[1] / 2)};

  TRI_ASSERT(qkv->dim[1] == (int64_t)(h->H + 2 * h->G) * h->D && table->dim[1] % 2 == 0 &&
             table->dim[1] <= h->D);
  TRI_ASSERT(k_page->dtype == qkv->dtype && v_page->dtype == qkv->dtype && slot->dtype == TRI_I32);
  return TRI_LAUNCH_TYPED(rope_put_kernel, tri_type(qkv), rope_vec(qkv, table, h), (unsigned)N, THREADS, 0, s,
                          c);
}

/* gate_of is the gate of a gated product. slope_of is the slope of x gate. */
template <tri_act ACT> static __device__ __forceinline__ float gate_of(float x) {
  return ACT == TRI_ACT_GELU ? tri_gelu_gate(x) : tri_sigmoid(x);
}
template <tri_act ACT> static __device__ __forceinline__ float slope_of(float x, float gate) {
  return ACT == TRI_ACT_GELU ? tri_gelu_slope(x, gate) : gate * fmaf(x, 1.0f - gate, 1.0f);
}

/* y A [N,F] = act(g) u, with gu A [N,2F] = [g | u]. The grid may be any. Threads take units of 8 columns, row
 * by row. Tested against tri_cpu_glu_fwd. */
template <class A, bool VEC, tri_act ACT>
__global__ void __launch_bounds__(THREADS) glu_fwd_kernel(A *y, const A *gu, int64_t N, int64_t F) {
  int64_t units = (F + TRI_UNIT - 1) / TRI_UNIT;

  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < N * units;
       i += (int64_t)gridDim.x * THREADS) {
    int64_t  n = i / units, f = i % units * TRI_UNIT;
    const A *row = gu + n * 2 * F + f;
    float    g[8], u[8];
    tri_load8<VEC>(g, row, F - f);
    tri_load8<VEC>(u, row + F, F - f);
#pragma unroll
    for (int j = 0; j < 8; j++) g[j] = g[j] * gate_of<ACT>(g[j]) * u[j];
    tri_store8<VEC>(y + n * F + f, g, F - f);
  }
}

/* dgu = [dy u act'(g) | dy act(g)]. y, unless NULL, is as from glu_fwd_kernel. Tested against
 * tri_cpu_glu_bwd. */
template <class A, bool VEC, tri_act ACT>
__global__ void __launch_bounds__(THREADS)
    glu_bwd_kernel(A *dgu, A *y, const A *dy, const A *gu, int64_t N, int64_t F) {
  int64_t units = (F + TRI_UNIT - 1) / TRI_UNIT;

  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < N * units;
       i += (int64_t)gridDim.x * THREADS) {
    int64_t  n = i / units, f = i % units * TRI_UNIT;
    const A *row = gu + n * 2 * F + f;
    A       *to = dgu + n * 2 * F + f;
    float    g[8], u[8], d[8], act[8];
    tri_load8<VEC>(g, row, F - f);
    tri_load8<VEC>(u, row + F, F - f);
    tri_load8<VEC>(d, dy + n * F + f, F - f);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float gate = gate_of<ACT>(g[j]);
      act[j] = g[j] * gate;
      g[j] = d[j] * u[j] * slope_of<ACT>(g[j], gate);
      d[j] = d[j] * act[j];
      act[j] = act[j] * u[j];
    }
    tri_store8<VEC>(to, g, F - f);
    tri_store8<VEC>(to + F, d, F - f);
    if (y) tri_store8<VEC>(y + n * F + f, act, F - f);
  }
}

static unsigned glu_grid(const tri_stream *s, int64_t N, int64_t F) {
  return tri_grid(s, N * tri_blocks(F, TRI_UNIT), THREADS);
}

template <tri_act ACT> static tri_status glu_fwd(tri_stream *s, tri_out y, tri_in gu) {
  int64_t  N = y->dim[0], F = y->dim[1];
  unsigned grid = glu_grid(s, N, F);
  bool     vec = tri_vec8(F, y->data, gu->data);

#define GLU(A, VEC) TRI_LAUNCH((glu_fwd_kernel<A, VEC, ACT>), grid, THREADS, 0, s, y->data, gu->data, N, F)
#define LAUNCH(A)   (vec ? GLU(A, true) : GLU(A, false))
  return TRI_BY_TYPE(tri_type(y), LAUNCH);
#undef GLU
#undef LAUNCH
}

template <tri_act ACT>
static tri_status glu_bwd(tri_stream *s, tri_out dgu, tri_out y, tri_in dy, tri_in gu) {
  int64_t  N = dy->dim[0], F = dy->dim[1];
  void    *again = y ? y->data : NULL;
  unsigned grid = glu_grid(s, N, F);
  bool     vec = tri_vec8(F, dgu->data, again, dy->data, gu->data);

#define GLU(A, VEC)                                                                                          \
  TRI_LAUNCH((glu_bwd_kernel<A, VEC, ACT>), grid, THREADS, 0, s, dgu->data, again, dy->data, gu->data, N, F)
#define LAUNCH(A) (vec ? GLU(A, true) : GLU(A, false))
  return TRI_BY_TYPE(tri_type(dy), LAUNCH);
#undef GLU
#undef LAUNCH
}

tri_status tri_cuda_glu_fwd(tri_stream *s, tri_out y, tri_in gu, tri_act act) {
  TRI_ASSERT(gu->dtype == y->dtype && gu->dim[0] == y->dim[0] && gu->dim[1] == 2 * y->dim[1]);
  return act == TRI_ACT_GELU ? glu_fwd<TRI_ACT_GELU>(s, y, gu) : glu_fwd<TRI_ACT_SILU>(s, y, gu);
}

tri_status tri_cuda_glu_bwd(tri_stream *s, tri_out dgu, tri_out y, tri_in dy, tri_in gu, tri_act act) {
  int64_t F = dy->dim[1];

  TRI_ASSERT(gu->dtype == dy->dtype && dgu->dtype == dy->dtype && gu->dim[1] == 2 * F &&
             dgu->dim[1] == 2 * F);
  return act == TRI_ACT_GELU ? glu_bwd<TRI_ACT_GELU>(s, dgu, y, dy, gu)
                             : glu_bwd<TRI_ACT_SILU>(s, dgu, y, dy, gu);
}

/* token[b] = drawn[from[b]] and table[b, pos[b] / TRI_PAGE] = slot[b] / TRI_PAGE. The first is skipped if
 * from is -1, the second if slot is -1. The grid is B / THREADS. Tested against tri_cpu_decode_in. */
__global__ void __launch_bounds__(THREADS)
    decode_in_kernel(int32_t *token, int32_t *table, const int32_t *drawn, const int32_t *from,
                     const int32_t *pos, const int32_t *slot, int64_t B, int64_t P, int64_t K) {
  int64_t b = (int64_t)blockIdx.x * THREADS + threadIdx.x;

  if (b < B) {
    int32_t of = from[b], to = slot[b], page = pos[b] / TRI_PAGE;
    TRI_KERNEL_ASSERT(of < K && page >= 0 && page < P);
    if (of >= 0) token[b] = drawn[of];
    if (to >= 0) table[b * P + page] = to / TRI_PAGE;
  }
}

tri_status tri_cuda_decode_in(tri_stream *s, tri_out token, tri_out table, tri_in drawn, tri_in from,
                              tri_in pos, tri_in slot) {
  int64_t B = token->dim[0];

  TRI_ASSERT(from->dim[0] == B && pos->dim[0] == B && slot->dim[0] == B && table->dim[0] == B);
  return TRI_LAUNCH(decode_in_kernel, (unsigned)tri_blocks(B, THREADS), THREADS, 0, s, token->data,
                    table->data, drawn->data, from->data, pos->data, slot->data, B, table->dim[1],
                    drawn->dim[0]);
}
