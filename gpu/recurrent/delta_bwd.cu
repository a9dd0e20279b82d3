/* delta_bwd.cu - the gradient of the gated delta rule.
 *
 * A block has W columns of one value head of one sequence, as in delta.cuh. It runs forward and keeps the
 * state before every 16th row in `work`. Then it goes back, 16 rows at a time. These rows are a stage.
 * They are numbered from 0, S0 is the state before them, and dS is the gradient of the state behind them.
 * Decays are products of g:
 *   decay(j,t)   over rows j + 1 .. t
 *   all(t)       over rows 0 .. t
 *   to(t)        over rows t + 1 .. 15
 * With do the gradient of o and rest = v - g S' k the rule of kernels.h gives, each row inserted into the
 * next:
 *   S_t = all(t) S0 + sum over j <= t of decay(j,t) k_j d_j'
 *   dS_t = to(t) dS + sum over j >= t of decay(t,j) q_j do_j' + sum over j > t of decay(t,j) k_j u_j'
 *   e_t = dS_t' k_t    u_t = -beta_t e_t    dv_t = beta_t e_t    dbeta_t = e_t rest_t
 *   dq_t = S_t do_t    dk_t = dS_t d_t + g_t S_(t-1) u_t
 *   x_t = g_t dg_t = <dS_t + k_t u_t', g_t S_(t-1)>
 *   new dS = all(15) dS + sum over j of all(j) (q_j do_j' + k_j u_j')
 * A decay is at most 1, so nothing overflows. Inserted into x_t these are a sum of flows. A flow comes
 * from S0 or a row j < t and goes to dS or a row m >= t:
 *   from S0 to dS         all(15) <dS, S0>
 *   from S0 to row m      all(m) (do_m S0' q_m + u_m S0' k_m)
 *   from row j to dS      to(j) d_j dS' k_j
 *   from row j to row m   decay(j,m) ((q_m k_j) (do_m d_j) + (k_m k_j) (u_m d_j))
 * So x has no difference of large numbers, and it is 0 where g is.
 *
 * Groups of columns run one after the other and add to `work`, where sums over columns are then complete.
 * Other kernels add the value heads of a key head and go through the norms and gates. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "delta.cuh"

enum { C = DELTA_STAGE, COLUMN = C + 4 /* floats from column to column. They begin in different banks */ };

struct delta_bwd_call {
  delta_call  of;
  const void *dout;     /* A [N,Hv*Dv] */
  void       *dc, *dba; /* A [N,Er], A [N,2 Hv] */
  float      *states;   /* f32 [(N + 15) / 16,Hv,columns,Dk4] */
  float      *keys;     /* f32 [N,Hv,2,Dk], dq and dk of normalised keys */
  float      *gates;    /* f32 [N,Hv,2], dbeta and x */
  int64_t     N, group; /* group = columns Dk4 */
  int         first;    /* column of the group. All but group 0 add */
};

template <int DK> struct delta_bwd_shape : delta_shape<DK> {
  static constexpr int WIDE = DK + 4 * delta_shape<DK>::LANES; /* floats from column to column of a state. The
                                                                  eight threads of an access hit all banks */
  static constexpr int TILE = DK / 32;                         /* rows of dq of a thread, 4 columns wide */
};

/* A stage's arrays in shared memory. */
template <int DK> struct delta_stage {
  typedef delta_bwd_shape<DK> shape;
  delta_rows<DK>              rows;
  float                       S0[shape::W][shape::WIDE], dS[shape::W][shape::WIDE];
  float                       dout[shape::W][COLUMN], e[shape::W][COLUMN], rest[shape::W][COLUMN];
  float                       v[shape::W][COLUMN];    /* later to(t) d_t */
  float                       u[shape::W][COLUMN];    /* all(t) u_t, before that the flow from row t to dS */
  float                       dall[shape::W][COLUMN]; /* all(t) do_t */
  float                       decay[C][C];            /* [j,t], j <= t */
  float qk[C][C], kk[C][C];          /* [t,j] decay(t,j) q_j k_t, 0 for j < t, later the flow from t to j;
                                      * k_j k_t, 0 for j <= t */
  float dod[C][C], dod_turned[C][C]; /* [t,j] decay(j,t) do_t d_j, 0 for j > t; [j,t] */
  float ud[C][C];                    /* [t,j] = [j,t] = decay(j,t) u_t d_j for j < t; 0 for j = t */
  float all[C], start[2][C], end[C]; /* start: the flows from S0, in two parts. end: those to dS */
};

/* Loads a thread's elements of a kept state, or stores them. Rows and columns beyond the state are 0. */
template <int DK>
static __device__ __forceinline__ void delta_keep(const float (&S)[DELTA_OWN], float *to, int Dk,
                                                  bool valid) {
  if (!valid) return;
#pragma unroll
  for (int i = 0; i < DELTA_OWN; i += 4) {
    int d = delta_row_of<DK>(i);
    if (d < Dk) *(float4 *)(to + d) = make_float4(S[i], S[i + 1], S[i + 2], S[i + 3]);
  }
}
template <int DK>
static __device__ __forceinline__ void delta_recall(float (&S)[DELTA_OWN], const float *from, int Dk,
                                                    bool valid) {
#pragma unroll
  for (int i = 0; i < DELTA_OWN; i += 4) {
    int    d = delta_row_of<DK>(i);
    float4 x = valid && d < Dk ? *(const float4 *)(from + d) : make_float4(0, 0, 0, 0);
    S[i] = x.x, S[i + 1] = x.y, S[i + 2] = x.z, S[i + 3] = x.w;
  }
}
/* Copies a thread's elements to a column in shared memory. */
template <int DK>
static __device__ __forceinline__ void delta_show(float *column, const float (&S)[DELTA_OWN]) {
#pragma unroll
  for (int i = 0; i < DELTA_OWN; i += 4)
    *(float4 *)(column + delta_row_of<DK>(i)) = make_float4(S[i], S[i + 1], S[i + 2], S[i + 3]);
}

/* Runs forward from row to row and keeps the state before every 16th one but the first. */
template <class A, int DK>
static __device__ __forceinline__ void delta_run(const delta_bwd_call &c, delta_stage<DK> &at,
                                                 const delta_head &head, int64_t begin, int64_t end, int h) {
  typedef delta_bwd_shape<DK> shape;
  int                         col = threadIdx.x / shape::LANES, t0 = threadIdx.x / DELTA_EACH;
  int                         part = threadIdx.x % DELTA_EACH * shape::VALUES;
  bool                        used = c.first + col < c.of.Dv;
  int64_t                     Dk4 = (c.of.Dk + 3) / 4 * 4;
  float                       S[DELTA_OWN] = {};

  for (int64_t row = begin; row + C < end; row += C) {
    int64_t        place = begin / C + (row - begin) / C + 1;
    delta_load<DK> next;
    delta_fetch<A>(next, c.of, row, end, h, c.first);
    delta_put(at.rows, next, head, c.of.Dk, true);
#pragma unroll
    for (int i = 0; i < shape::VALUES; i++) at.v[part + i][t0] = next.v[i];
    __syncthreads();
#pragma unroll 1
    for (int t = 0; t < C; t++) {
      float rest;
      delta_step<DK, false>(S, at.rows, t, at.v[col][t], &rest);
    }
    delta_keep<DK>(S, c.states + (place * c.of.Hv + h) * c.group + col * Dk4, c.of.Dk, used);
    __syncthreads();
  }
}

/* Fills in decay and all. */
template <int DK> static __device__ __forceinline__ void delta_decays(delta_stage<DK> &at) {
  int j = threadIdx.x;

  if (j < C) {
    float product = 1;
    for (int t = j; t < C; t++) at.decay[j][t] = product = t == j ? 1.0f : product * at.rows.g[t];
  } else if (j == C) {
    float product = 1;
    for (int t = 0; t < C; t++) at.all[t] = product = product * at.rows.g[t];
  }
}

/* Fills in qk and kk. A thread has k_a and q_a of one row a, and k_b of two rows b. */
template <int DK> static __device__ __forceinline__ void delta_key_products(delta_stage<DK> &at) {
  int   a = threadIdx.x / 8, b = threadIdx.x % 8;
  float kk[2] = {0, 0}, qk[2] = {0, 0};

#pragma unroll 4
  for (int i = 0; i < DK; i += 4) {
    float4 k = *(const float4 *)&at.rows.k[a][i], q = *(const float4 *)&at.rows.q[a][i];
#pragma unroll
    for (int m = 0; m < 2; m++) {
      float4 y = *(const float4 *)&at.rows.k[b + 8 * m][i];
      kk[m] = fmaf(k.x, y.x, fmaf(k.y, y.y, fmaf(k.z, y.z, fmaf(k.w, y.w, kk[m]))));
      qk[m] = fmaf(q.x, y.x, fmaf(q.y, y.y, fmaf(q.z, y.z, fmaf(q.w, y.w, qk[m]))));
    }
  }
#pragma unroll
  for (int m = 0; m < 2; m++) {
    int t = b + 8 * m;
    at.kk[t][a] = a > t ? at.decay[t][a] * kk[m] : 0.0f;
    at.qk[t][a] = a >= t ? at.decay[t][a] * qk[m] : 0.0f;
  }
}

/* Computes e of every row and column. A column's threads first compute e without the sum over u, for rows of
 * their own. Then all of them go back through the rows. */
template <int DK>
static __device__ __forceinline__ void delta_errors(delta_stage<DK> &at, const float (&dS)[DELTA_OWN]) {
  typedef delta_bwd_shape<DK> shape;
  int                         col = threadIdx.x / shape::LANES, lane = threadIdx.x % shape::LANES;
  float                       d[C], u[C];

#pragma unroll 1
  for (int t = 0; t < C; t++) {
    float sum = delta_column_sum<DK>(delta_times<DK>(dS, at.rows.k[t] + 4 * lane)) * at.decay[t][C - 1];
    if (lane == t % shape::LANES) {
      at.e[col][t] = sum;
      at.u[col][t] = sum * at.rows.beta[t] * at.rest[col][t];
    }
  }
#pragma unroll
  for (int j = 0; j < C; j++) d[j] = at.dout[col][j];
#pragma unroll 1
  for (int t = lane; t < C; t += shape::LANES) {
    float sum = at.e[col][t];
#pragma unroll
    for (int j = 0; j < C; j++) sum = fmaf(at.qk[t][j], d[j], sum);
    at.e[col][t] = sum;
  }
  __syncwarp();
#pragma unroll
  for (int t = C - 1; t >= 0; t--) {
    float sum = at.e[col][t];
#pragma unroll
    for (int j = t + 1; j < C; j++) sum = fmaf(at.kk[t][j], u[j], sum);
    u[t] = -at.rows.beta[t] * sum;
    d[t] = sum;
  }
  __syncwarp(); /* all have read e */
#pragma unroll
  for (int t = 0; t < C; t++)
    if (lane == t % shape::LANES) at.e[col][t] = d[t];
}

/* Sums over the block's columns: dbeta, the flows to dS, and the products of do and u with d. Writes dv. */
template <class A, int DK>
static __device__ __forceinline__ void delta_row_products(const delta_bwd_call &c, delta_stage<DK> &at,
                                                          int64_t row, int n, int h) {
  typedef delta_bwd_shape<DK> shape;
  int                         t = threadIdx.x / DELTA_EACH, each = threadIdx.x % DELTA_EACH;
  int                         a = threadIdx.x / C, b = threadIdx.x % C;
  float                       beta = at.rows.beta[t], dbeta = 0, flow = 0, od[2] = {0, 0}, ed[2] = {0, 0};

  for (int w = each; w < shape::W; w += DELTA_EACH) {
    dbeta = fmaf(at.e[w][t], at.rest[w][t], dbeta);
    flow += at.u[w][t];
  }
  dbeta = delta_row_sum(dbeta);
  flow = delta_row_sum(flow);
  if (each == 0) {
    at.end[t] = flow;
    if (t < n) {
      float *to = c.gates + ((row + t) * c.of.Hv + h) * 2;
      *to = c.first ? *to + dbeta : dbeta;
    }
  }
  if (t < n) {
    A *dv = (A *)c.dc + (row + t) * c.of.Er + 2 * (int64_t)c.of.Hk * c.of.Dk + (int64_t)h * c.of.Dv + c.first;
    for (int w = each; w < shape::W && c.first + w < c.of.Dv; w += DELTA_EACH)
      tri_put(dv + w, beta * at.e[w][t]);
  }
#pragma unroll 4
  for (int w = 0; w < shape::W; w++) {
    float d = at.rest[w][b];
#pragma unroll
    for (int m = 0; m < 2; m++) {
      od[m] = fmaf(at.dout[w][a + 8 * m], d, od[m]);
      ed[m] = fmaf(at.e[w][a + 8 * m], d, ed[m]);
    }
  }
#pragma unroll
  for (int m = 0; m < 2; m++) {
    int i = a + 8 * m; /* row i >= row b */
    if (i < b) {
      at.dod[i][b] = at.dod_turned[b][i] = 0;
    } else {
      float beta_b = at.rows.beta[b], ud = -at.rows.beta[i] * beta_b * ed[m];
      at.dod[i][b] = at.dod_turned[b][i] = at.decay[b][i] * beta_b * od[m];
      at.ud[i][b] = at.ud[b][i] = i > b ? at.decay[b][i] * ud : 0.0f;
      at.qk[b][i] = fmaf(at.qk[b][i] * beta_b, od[m], at.kk[b][i] * ud);
    }
  }
}

/* Fills in the arrays times decays. */
template <int DK> static __device__ __forceinline__ void delta_scale(delta_stage<DK> &at) {
  typedef delta_bwd_shape<DK> shape;
  int                         col = threadIdx.x / shape::LANES;

  for (int t = threadIdx.x % shape::LANES; t < C; t += shape::LANES) {
    float beta = at.rows.beta[t], all = at.all[t];
    at.v[col][t] = at.decay[t][C - 1] * beta * at.rest[col][t];
    at.u[col][t] = -all * beta * at.e[col][t];
    at.dall[col][t] = all * at.dout[col][t];
  }
}

static __device__ __forceinline__ void delta_add4(float (&sum)[4], float a, const float4 &x) {
  sum[0] = fmaf(a, x.x, sum[0]), sum[1] = fmaf(a, x.y, sum[1]);
  sum[2] = fmaf(a, x.z, sum[2]), sum[3] = fmaf(a, x.w, sum[3]);
}

/* dq and dk of normalised keys, summed over the block's columns, and the flows from S0. A thread has TILE
 * rows of 4 columns. */
template <int DK>
static __device__ __forceinline__ void delta_keys(const delta_bwd_call &c, delta_stage<DK> &at, int64_t row,
                                                  int n, int h) {
  typedef delta_bwd_shape<DK> shape;
  constexpr int               TILE = shape::TILE;
  int                         i = threadIdx.x % (DK / 4) * 4, t0 = threadIdx.x / (DK / 4) * TILE;
  float                       dq[TILE][4] = {}, dk[TILE][4] = {};

#pragma unroll 2
  for (int w = 0; w < shape::W; w++) {
    float4 S = *(const float4 *)&at.S0[w][i];
#pragma unroll
    for (int t = 0; t < TILE; t++) {
      delta_add4(dq[t], at.dall[w][t0 + t], S);
      delta_add4(dk[t], at.u[w][t0 + t], S);
    }
  }
#pragma unroll
  for (int t = 0; t < TILE; t++) {
    float4 q = *(const float4 *)&at.rows.q[t0 + t][i], k = *(const float4 *)&at.rows.k[t0 + t][i];
    float  flow = fmaf(q.x, dq[t][0], fmaf(q.y, dq[t][1], fmaf(q.z, dq[t][2], q.w * dq[t][3])));
    flow = fmaf(k.x, dk[t][0], fmaf(k.y, dk[t][1], fmaf(k.z, dk[t][2], fmaf(k.w, dk[t][3], flow))));
#pragma unroll
    for (int d = (DK < 128 ? DK / 4 : 32) / 2; d > 0; d /= 2) flow += __shfl_xor_sync(~0u, flow, d);
    if (i % 128 == 0) at.start[i / 128][t0 + t] = flow;
  }
#pragma unroll 2
  for (int w = 0; w < shape::W; w++) {
    float4 dS = *(const float4 *)&at.dS[w][i];
#pragma unroll
    for (int t = 0; t < TILE; t++) delta_add4(dk[t], at.v[w][t0 + t], dS);
  }
#pragma unroll 2
  for (int j = 0; j < C; j++) {
    float4 k = *(const float4 *)&at.rows.k[j][i], q = *(const float4 *)&at.rows.q[j][i];
#pragma unroll
    for (int t = 0; t < TILE; t++) {
      delta_add4(dq[t], at.dod_turned[j][t0 + t], k);
      delta_add4(dk[t], at.ud[j][t0 + t], k);
      delta_add4(dk[t], at.dod[j][t0 + t], q);
    }
  }
#pragma unroll
  for (int t = 0; t < TILE; t++) {
    float *to = c.keys + ((row + t0 + t) * c.of.Hv + h) * 2 * c.of.Dk + i;
    if (t0 + t >= n) break;
    if (c.of.Dk % 4 == 0) {
      if (i < c.of.Dk) {
        float4 *q = (float4 *)to, *k = (float4 *)(to + c.of.Dk);
        float4  x = c.first ? *q : make_float4(0, 0, 0, 0), y = c.first ? *k : make_float4(0, 0, 0, 0);
        *q = make_float4(x.x + dq[t][0], x.y + dq[t][1], x.z + dq[t][2], x.w + dq[t][3]);
        *k = make_float4(y.x + dk[t][0], y.y + dk[t][1], y.z + dk[t][2], y.w + dk[t][3]);
      }
    } else {
#pragma unroll
      for (int m = 0; m < 4; m++) {
        if (i + m >= c.of.Dk) break;
        to[m] = (c.first ? to[m] : 0.0f) + dq[t][m];
        to[c.of.Dk + m] = (c.first ? to[c.of.Dk + m] : 0.0f) + dk[t][m];
      }
    }
  }
}

/* Writes x of every row, the sum of the flows past it. `flow` is that from S0 to dS. */
template <int DK>
static __device__ __forceinline__ void delta_flows(const delta_bwd_call &c, const delta_stage<DK> &at,
                                                   float flow, int64_t row, int n, int h) {
  int    t = threadIdx.x;
  float *to = c.gates + ((row + t) * c.of.Hv + h) * 2 + 1;

  if (t >= n) return;
  for (int j = 0; j < t; j++) flow += at.end[j];
  for (int m = t; m < C; m++) {
    flow += at.start[0][m];
    if (DK > 128) flow += at.start[1][m];
    for (int j = 0; j < t; j++) flow += at.qk[j][m];
  }
  *to = c.first ? *to + flow : flow;
}

/* dS = all(15) dS + the rows' products. */
template <int DK>
static __device__ __forceinline__ void delta_pull(float (&dS)[DELTA_OWN], const delta_stage<DK> &at) {
  typedef delta_bwd_shape<DK> shape;
  int                         col = threadIdx.x / shape::LANES;
  float                       all = at.all[C - 1];

#pragma unroll
  for (int i = 0; i < DELTA_OWN; i++) dS[i] *= all;
#pragma unroll 1
  for (int j = 0; j < C; j++) {
    float d = at.dall[col][j], u = at.u[col][j];
#pragma unroll
    for (int i = 0; i < DELTA_OWN; i += 4) {
      float4 q = *(const float4 *)&at.rows.q[j][delta_row_of<DK>(i)];
      float4 k = *(const float4 *)&at.rows.k[j][delta_row_of<DK>(i)];
      dS[i] = fmaf(q.x, d, fmaf(k.x, u, dS[i])), dS[i + 1] = fmaf(q.y, d, fmaf(k.y, u, dS[i + 1]));
      dS[i + 2] = fmaf(q.z, d, fmaf(k.z, u, dS[i + 2])), dS[i + 3] = fmaf(q.w, d, fmaf(k.w, u, dS[i + 3]));
    }
  }
}

/* Writes dv to dc, and keys and gates. The grid is S * Hv, for the group of columns from c.first on. Sums are
 * f32. Shared memory is delta_stage, at most 90 KiB. Tested against tri_cpu_delta_bwd. */
template <class A, int DK>
__global__ void __launch_bounds__(DELTA_THREADS, DK == 128 ? 3 : 2) delta_bwd_kernel(const delta_bwd_call c) {
  typedef delta_bwd_shape<DK> shape;
  TRI_SHARED_DYNAMIC(delta_stage<DK>, all);
  delta_stage<DK> &at = *all;
  int              h = (int)(blockIdx.x % (unsigned)c.of.Hv), s = (int)(blockIdx.x / (unsigned)c.of.Hv);
  int              col = threadIdx.x / shape::LANES, t0 = threadIdx.x / DELTA_EACH;
  int              part = threadIdx.x % DELTA_EACH * shape::VALUES;
  int64_t          begin = c.of.cu[s], end = c.of.cu[s + 1], Dk4 = (c.of.Dk + 3) / 4 * 4;
  bool             used = c.first + col < c.of.Dv;
  delta_head       head = delta_head_of<A>(c.of, h);
  float            dS[DELTA_OWN] = {};

  delta_run<A>(c, at, head, begin, end, h);
  for (int64_t stage = (end - begin + C - 1) / C - 1; stage >= 0; stage--) {
    int64_t row = begin + stage * C;
    int     n = end - row < C ? (int)(end - row) : C;
    float   S[DELTA_OWN], flow = 0;
    {
      const A       *dout = (const A *)c.dout + ((row + t0) * c.of.Hv + h) * c.of.Dv + c.first + part;
      delta_load<DK> now;
      delta_fetch<A>(now, c.of, row, end, h, c.first);
      delta_put(at.rows, now, head, c.of.Dk, t0 < n);
#pragma unroll
      for (int i = 0; i < shape::VALUES; i++) {
        bool valid = t0 < n && c.first + part + i < c.of.Dv;
        at.v[part + i][t0] = now.v[i];
        at.dout[part + i][t0] = valid ? tri_get(dout[i]) : 0.0f;
      }
    }
    delta_recall<DK>(S, c.states + ((begin / C + stage) * c.of.Hv + h) * c.group + col * Dk4, c.of.Dk,
                     used && stage > 0);
    delta_show<DK>(at.S0[col], S);
    delta_show<DK>(at.dS[col], dS);
    __syncthreads();
    delta_decays(at);
#pragma unroll
    for (int i = 0; i < DELTA_OWN; i++) flow = fmaf(dS[i], S[i], flow);
#pragma unroll 1
    for (int t = 0; t < C; t++) {
      float rest;
      delta_step<DK, false>(S, at.rows, t, at.v[col][t], &rest);
      if (threadIdx.x % shape::LANES == 0) at.rest[col][t] = rest;
    }
    flow = tri_block_sum<DELTA_THREADS / 32>(flow); /* its barriers show decays and rests, too */
    flow *= at.all[C - 1];                          /* read after them, so not in the same expression */
    delta_key_products(at);
    __syncthreads();
    delta_errors(at, dS);
    __syncthreads();
    delta_row_products<A>(c, at, row, n, h);
    __syncthreads();
    delta_scale(at);
    __syncthreads();
    delta_keys(c, at, row, n, h);
    delta_pull(dS, at);
    __syncthreads(); /* the flows are whole, and the stage is about to be overwritten, except them */
    delta_flows(c, at, flow, row, n, h);
  }
}

/* ---- through the norms and the gates ---- */

enum { KEY_WARPS = 4, GATE_THREADS = 256 };

/* Writes dq and dk of c, and dba. A warp has one key head of one row, and adds its value heads in order. The
 * grid is N * Hk / KEY_WARPS. Tested against tri_cpu_delta_bwd. */
template <class A>
__global__ void __launch_bounds__(KEY_WARPS * 32) delta_norm_bwd_kernel(const delta_bwd_call c) {
  int64_t i = (int64_t)blockIdx.x * KEY_WARPS + threadIdx.x / 32, n = i / c.of.Hk;
  int     hk = (int)(i % c.of.Hk), lane = threadIdx.x % 32, Dk = c.of.Dk, group = c.of.Hv / c.of.Hk;

  if (n >= c.N) return;
  for (int part = 0; part < 2; part++) { /* q, then k */
    int64_t      at = n * c.of.Er + ((int64_t)part * c.of.Hk + hk) * Dk;
    const A     *x = (const A *)c.of.c + at;
    A           *dx = (A *)c.dc + at;
    const float *dy = c.keys + ((n * c.of.Hv + (int64_t)hk * group) * 2 + part) * Dk;
    float        square = 0, dot = 0, r, scale = part == 0 ? 1.0f / sqrtf((float)Dk) : 1.0f;
    float        sum[TRI_DELTA_MOST / 32] = {};
    for (int g = 0; g < group; g++, dy += 2 * Dk) {
#pragma unroll
      for (int m = 0; m < TRI_DELTA_MOST / 32; m++)
        if (lane + 32 * m < Dk) sum[m] += dy[lane + 32 * m];
    }
#pragma unroll
    for (int m = 0; m < TRI_DELTA_MOST / 32; m++) {
      float v = lane + 32 * m < Dk ? tri_get(x[lane + 32 * m]) : 0.0f;
      square = fmaf(v, v, square);
      dot = fmaf(v, sum[m], dot);
    }
    r = 1.0f / sqrtf(tri_warp_sum(square) + 1e-6f);
    dot = tri_warp_sum(dot) * r * r;
#pragma unroll
    for (int m = 0; m < TRI_DELTA_MOST / 32; m++) {
      int d = lane + 32 * m;
      if (d < Dk) tri_put(dx + d, scale * r * fmaf(-tri_get(x[d]), dot, sum[m]));
    }
  }
  for (int g = lane; g < group; g += 32) {
    int          h = hk * group + g;
    const float *from = c.gates + (n * c.of.Hv + h) * 2;
    const A     *ba = (const A *)c.of.ba + n * 2 * c.of.Hv;
    A           *to = (A *)c.dba + n * 2 * c.of.Hv;
    float        beta = tri_sigmoid(tri_get(ba[h]));
    tri_put(to + h, from[0] * beta * (1.0f - beta));
    tri_put(to + c.of.Hv + h,
            from[1] * delta_log_decay_slope(delta_head_of<A>(c.of, h), tri_get(ba[c.of.Hv + h])));
  }
}

/* dA_log[Hv] += sums of x log g and ddt_bias[Hv] += sums of da, over all rows. A block has one head, a thread
 * rows GATE_THREADS apart. The grid is Hv. Tested against tri_cpu_delta_bwd. */
template <class A>
__global__ void __launch_bounds__(GATE_THREADS)
    delta_gate_bwd_kernel(float *dA_log, float *ddt_bias, const delta_bwd_call c) {
  int        h = blockIdx.x;
  delta_head head = delta_head_of<A>(c.of, h);
  float      log = 0, bias = 0;

#pragma unroll 4
  for (int64_t n = threadIdx.x; n < c.N; n += GATE_THREADS) {
    float a = tri_get(((const A *)c.of.ba)[(n * 2 + 1) * c.of.Hv + h]),
          x = c.gates[(n * c.of.Hv + h) * 2 + 1];
    log = fmaf(x, delta_log_decay(head, a), log);
    bias = fmaf(x, delta_log_decay_slope(head, a), bias);
  }
  log = tri_block_sum<GATE_THREADS / 32>(log);
  bias = tri_block_sum<GATE_THREADS / 32>(bias);
  if (threadIdx.x == 0) {
    dA_log[h] += log;
    ddt_bias[h] += bias;
  }
}

template <int DK> static tri_status delta_bwd(tri_stream *s, tri_dtype type, delta_bwd_call c, int64_t S) {
  unsigned grid = tri_whole_grid(S * c.of.Hv);

  static_assert(sizeof(delta_stage<DK>) + 1024 <= TRI_CUDA_SHARED_LEAST,
                "a block of every GPU holds a stage");
#define LAUNCH(A) TRI_LAUNCH((delta_bwd_kernel<A, DK>), grid, DELTA_THREADS, sizeof(delta_stage<DK>), s, c)
  for (c.first = 0; c.first < c.of.Dv; c.first += delta_shape<DK>::W) TRI_TRY(TRI_BY_TYPE(type, LAUNCH));
#undef LAUNCH
  return TRI_OK;
}

tri_status tri_cuda_delta_bwd(tri_stream *s, tri_out dc, tri_out dba, tri_out dA_log, tri_out ddt_bias,
                              tri_out work, tri_in dout, tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias,
                              tri_in cu, const tri_delta_rule *rule) {
  int64_t        N = c->dim[0], S = cu->dim[0] - 1, group = tri_delta_group(rule);
  float         *states = (float *)work->data;
  float         *keys = states + tri_blocks(N, DELTA_STAGE) * rule->Hv * group;
  float         *gates = keys + N * rule->Hv * 2 * rule->Dk;
  delta_bwd_call call = {delta_call_of(c, ba, A_log, dt_bias, cu, rule),
                         dout->data,
                         dc->data,
                         dba->data,
                         states,
                         keys,
                         gates,
                         N,
                         group,
                         0};
  tri_dtype      A = c->dtype;

  TRI_ASSERT(work->dtype == TRI_F32 && tri_tensor_count(work) >= tri_delta_work(rule, N));
  TRI_ASSERT((uintptr_t)work->data % 16 == 0 && tri_same_rows(dc, c) && tri_same_rows(dba, ba));
  TRI_ASSERT(dout->dtype == A && dout->dim[0] == N && dout->dim[1] == (int64_t)rule->Hv * rule->Dv);
  TRI_ASSERT(!dA_log == !ddt_bias);
  TRI_ASSERT(!dA_log || (dA_log->dtype == TRI_F32 && ddt_bias->dtype == TRI_F32));
  TRI_ASSERT(!dA_log || (dA_log->dim[0] == rule->Hv && ddt_bias->dim[0] == rule->Hv));
  if (N == 0) return TRI_OK;
  TRI_TRY(rule->Dk <= 64    ? delta_bwd<64>(s, A, call, S)
          : rule->Dk <= 128 ? delta_bwd<128>(s, A, call, S)
                            : delta_bwd<256>(s, A, call, S));
#define NORM(A)                                                                                              \
  TRI_LAUNCH((delta_norm_bwd_kernel<A>), tri_whole_grid(tri_blocks(N * rule->Hk, KEY_WARPS)),                \
             KEY_WARPS * 32, 0, s, call)
  TRI_TRY(TRI_BY_TYPE(A, NORM));
#undef NORM
  if (!dA_log) return TRI_OK;
#define GATE(A)                                                                                              \
  TRI_LAUNCH((delta_gate_bwd_kernel<A>), (unsigned)rule->Hv, GATE_THREADS, 0, s, dA_log->data,               \
             ddt_bias->data, call)
  return TRI_BY_TYPE(A, GATE);
#undef GATE
}
