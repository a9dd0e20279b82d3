/* delta.cuh - the state of a gated delta rule in the registers of a block: its elements, its rows in shared
 * memory, and one step. delta.cu and delta_bwd.cu use it.
 *
 * A block has W columns of the state of one value head. Each of its 128 threads has 32 elements of one
 * column. So DK (64, 128 or 256, at least Dk) rows of W = 4096 / DK columns are in registers. Rows beyond Dk
 * and columns beyond Dv are zero. Keys and queries of 16 rows at a time lie in shared memory, normalised. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_DELTA_CUH
#define TRI_GPU_DELTA_CUH

#include "gpu/base/cuda_util.cuh"

enum {
  DELTA_THREADS = 128,
  DELTA_OWN = 32,                           /* elements of a thread. Chosen, 32 registers */
  DELTA_STAGE = 16,                         /* rows in shared memory at a time */
  DELTA_EACH = DELTA_THREADS / DELTA_STAGE, /* threads that load one row */
};
static_assert(DELTA_THREADS * DELTA_OWN == (int)TRI_DELTA_BLOCK && DELTA_STAGE == (int)TRI_DELTA_STAGE,
              "tri_delta_work");

template <int DK> struct delta_shape {
  static constexpr int LANES = DK / DELTA_OWN;    /* neighbouring threads with the same column */
  static constexpr int W = DELTA_THREADS / LANES; /* columns of a block */
  static constexpr int STRIDE = DK + 4;           /* floats from key to key. Keys begin in different banks */
  static constexpr int UNITS = DK / (8 * DELTA_EACH); /* units of 8 elements a thread loads of a key */
  static constexpr int VALUES = W / DELTA_EACH;       /* columns of v a thread loads of a row */
};

struct delta_call {               /* the arguments of delta_fwd and delta_bwd */
  const void    *c, *ba;          /* A [N,Er], A [N,2 Hv] */
  const void    *A_log, *dt_bias; /* A or f32 [Hv] */
  const int32_t *cu;              /* [S+1] */
  int64_t        Er;
  int            Hk, Hv, Dk, Dv;
  bool           log_f32, bias_f32, vec; /* vec: keys are loaded 16 bytes at a time */
};

/* How a value head decays. */
struct delta_head {
  float rate, bias; /* exp(A_log), dt_bias */
};
template <class A> static __device__ __forceinline__ delta_head delta_head_of(const delta_call &c, int h) {
  float log = c.log_f32 ? ((const float *)c.A_log)[h] : tri_get(((const A *)c.A_log)[h]);
  float bias = c.bias_f32 ? ((const float *)c.dt_bias)[h] : tri_get(((const A *)c.dt_bias)[h]);
  return {tri_exp(log), bias};
}
static __device__ __forceinline__ float delta_log_decay(const delta_head &h, float a) {
  float x = a + h.bias, soft = x > 20.0f ? x : log1pf(tri_exp(x));
  return -h.rate * soft;
}
/* Returns the derivative of delta_log_decay by a. */
static __device__ __forceinline__ float delta_log_decay_slope(const delta_head &h, float a) {
  float x = a + h.bias;
  return -h.rate * (x > 20.0f ? 1.0f : tri_sigmoid(x));
}

/* The rows in shared memory. */
template <int DK> struct delta_rows {
  float q[DELTA_STAGE][delta_shape<DK>::STRIDE], k[DELTA_STAGE][delta_shape<DK>::STRIDE];
  float g[DELTA_STAGE], beta[DELTA_STAGE], kq[DELTA_STAGE]; /* kq = k q */
};
/* A thread's share of one row. Eight neighbouring threads load a row. */
template <int DK> struct delta_load {
  float q[delta_shape<DK>::UNITS][8], k[delta_shape<DK>::UNITS][8], v[delta_shape<DK>::VALUES], b, a;
};

template <class A>
static __device__ __forceinline__ void delta_load8(float (&v)[8], const A *p, int left, bool vec) {
  if (vec)
    tri_load8<true>(v, p, left);
  else
    tri_load8<false>(v, p, left);
}

/* Loads this thread's share of rows `row` to row + 15, for value head h and columns from `first` on. Rows
 * from `end` on read as zero. */
template <class A, int DK>
static __device__ __forceinline__ void delta_fetch(delta_load<DK> &to, const delta_call &c, int64_t row,
                                                   int64_t end, int h, int first) {
  typedef delta_shape<DK> shape;
  int64_t                 n = row + threadIdx.x / DELTA_EACH;
  int                     each = threadIdx.x % DELTA_EACH;
  bool                    valid = n < end;
  const A                *q = (const A *)c.c + n * c.Er + (int64_t)(h / (c.Hv / c.Hk)) * c.Dk;
  const A                *k = q + (int64_t)c.Hk * c.Dk;
  const A                *v = (const A *)c.c + n * c.Er + 2 * (int64_t)c.Hk * c.Dk + (int64_t)h * c.Dv;

#pragma unroll
  for (int i = 0; i < shape::UNITS; i++) {
    int at = 8 * (each + DELTA_EACH * i), left = valid ? c.Dk - at : 0;
    delta_load8(to.q[i], q + at, left, c.vec);
    delta_load8(to.k[i], k + at, left, c.vec);
  }
#pragma unroll
  for (int i = 0; i < shape::VALUES; i++) {
    int at = first + each * shape::VALUES + i;
    to.v[i] = valid && at < c.Dv ? tri_get(v[at]) : 0.0f;
  }
  to.b = valid ? tri_get(((const A *)c.ba)[n * 2 * c.Hv + h]) : 0.0f;
  to.a = valid ? tri_get(((const A *)c.ba)[n * 2 * c.Hv + c.Hv + h]) : 0.0f;
}

/* Returns the sum over the eight threads of a row. */
static __device__ __forceinline__ float delta_row_sum(float v) {
#pragma unroll
  for (int d = DELTA_EACH / 2; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

/* Normalises the loaded row and writes it to shared memory, except v. A row from `end` on changes no state: g
 * is 1, all else 0. */
template <int DK>
static __device__ __forceinline__ void delta_put(delta_rows<DK> &to, const delta_load<DK> &from,
                                                 const delta_head &head, int Dk, bool valid) {
  typedef delta_shape<DK> shape;
  int                     t = threadIdx.x / DELTA_EACH, each = threadIdx.x % DELTA_EACH;
  float                   qq = 0, kk = 0, kq = 0;

#pragma unroll
  for (int i = 0; i < shape::UNITS; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      qq = fmaf(from.q[i][j], from.q[i][j], qq);
      kk = fmaf(from.k[i][j], from.k[i][j], kk);
    }
  qq = 1.0f / sqrtf(delta_row_sum(qq) + 1e-6f) * (1.0f / sqrtf((float)Dk));
  kk = 1.0f / sqrtf(delta_row_sum(kk) + 1e-6f);
#pragma unroll
  for (int i = 0; i < shape::UNITS; i++) {
    float q[8], k[8];
#pragma unroll
    for (int j = 0; j < 8; j++) {
      q[j] = from.q[i][j] * qq;
      k[j] = from.k[i][j] * kk;
      kq = fmaf(k[j], q[j], kq);
    }
    tri_store8<true>(&to.q[t][8 * (each + DELTA_EACH * i)], q, 8);
    tri_store8<true>(&to.k[t][8 * (each + DELTA_EACH * i)], k, 8);
  }
  kq = delta_row_sum(kq);
  if (each == 0) {
    to.kq[t] = kq;
    to.beta[t] = valid ? tri_sigmoid(from.b) : 0.0f;
    to.g[t] = valid ? tri_exp(delta_log_decay(head, from.a)) : 1.0f;
  }
}

/* Returns the sum over the threads of a column. */
template <int DK> static __device__ __forceinline__ float delta_column_sum(float v) {
#pragma unroll
  for (int d = delta_shape<DK>::LANES / 2; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

/* Returns the sum of a thread's elements of a column times a key, over all rows of the state. `key` points to
 * the thread's first element of the key. Four sums of 8 elements, then these, then the threads. */
template <int DK>
static __device__ __forceinline__ float delta_times(const float (&S)[DELTA_OWN], const float *key) {
  float sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < DELTA_OWN / 4; i++) {
    float4 x = *(const float4 *)(key + 4 * delta_shape<DK>::LANES * i);
    sum[0] = fmaf(S[4 * i], x.x, sum[0]), sum[1] = fmaf(S[4 * i + 1], x.y, sum[1]);
    sum[2] = fmaf(S[4 * i + 2], x.z, sum[2]), sum[3] = fmaf(S[4 * i + 3], x.w, sum[3]);
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* One row: S = g S + k d', with d = beta rest and rest = v - g S' k. Returns o = g S' q + (k q) d, which
 * is S' q of the new state, if OUT, else 0. So one exchange between threads serves both sums. */
template <int DK, bool OUT>
static __device__ __forceinline__ float delta_step(float (&S)[DELTA_OWN], const delta_rows<DK> &rows, int t,
                                                   float v, float *rest) {
  const float *k = rows.k[t] + 4 * (threadIdx.x % delta_shape<DK>::LANES);
  const float *q = rows.q[t] + 4 * (threadIdx.x % delta_shape<DK>::LANES);
  float        g = rows.g[t], sk = delta_times<DK>(S, k), sq = OUT ? delta_times<DK>(S, q) : 0.0f, d;

  sk = delta_column_sum<DK>(sk);
  if (OUT) sq = delta_column_sum<DK>(sq);
  *rest = fmaf(-g, sk, v);
  d = rows.beta[t] * *rest;
#pragma unroll
  for (int i = 0; i < DELTA_OWN / 4; i++) {
    float4 x = *(const float4 *)(k + 4 * delta_shape<DK>::LANES * i);
    S[4 * i] = fmaf(x.x, d, g * S[4 * i]), S[4 * i + 1] = fmaf(x.y, d, g * S[4 * i + 1]);
    S[4 * i + 2] = fmaf(x.z, d, g * S[4 * i + 2]), S[4 * i + 3] = fmaf(x.w, d, g * S[4 * i + 3]);
  }
  return OUT ? fmaf(g, sq, rows.kq[t] * d) : 0.0f;
}

/* Returns the state's row of element i of this thread. */
template <int DK> static __device__ __forceinline__ int delta_row_of(int i) {
  return 4 * (threadIdx.x % delta_shape<DK>::LANES + delta_shape<DK>::LANES * (i / 4)) + i % 4;
}

/* Host. Fills in the arguments. */
static inline delta_call delta_call_of(tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias, tri_in cu,
                                       const tri_delta_rule *r) {
  int64_t Er = tri_delta_width(r);

  TRI_ASSERT(c->dim[1] == Er && ba->dim[0] == c->dim[0] && ba->dim[1] == 2 * (int64_t)r->Hv &&
             ba->dtype == tri_type(c));
  TRI_ASSERT(A_log->dim[0] == r->Hv && dt_bias->dim[0] == r->Hv && cu->dtype == TRI_I32);
  TRI_ASSERT(A_log->dtype == TRI_F32 || A_log->dtype == c->dtype);
  TRI_ASSERT(dt_bias->dtype == TRI_F32 || dt_bias->dtype == c->dtype);
  TRI_ASSERT(r->Hk > 0 && r->Hv > 0 && r->Hv % r->Hk == 0 && r->Dk > 0 && r->Dv > 0 && cu->dim[0] > 0);
  TRI_ASSERT(r->Dk <= TRI_DELTA_MOST && r->Dv <= TRI_DELTA_MOST);
  return {c->data,
          ba->data,
          A_log->data,
          dt_bias->data,
          (const int32_t *)cu->data,
          Er,
          r->Hk,
          r->Hv,
          r->Dk,
          r->Dv,
          A_log->dtype == TRI_F32,
          dt_bias->dtype == TRI_F32,
          tri_vec8(Er, c->data) && r->Dk % TRI_UNIT == 0};
}

#endif
