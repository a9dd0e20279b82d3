/* layers.cu - embedding, RMSNorm, rotary positions, SwiGLU, column sums. */
#include "gpu/base/cuda_util.cuh"

enum {
  THREADS = 256, /* chosen */
  WARPS = THREADS / 32,
  NORM_THREADS = 128, /* of a row; which thread adds what depends on the column alone */
  NORM_WARPS = NORM_THREADS / 32
};

/* x[N,C] f32 = table A [V,C] at token[N]. Grid: N. Judge: tri_cpu_embed_fwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    embed_fwd_kernel(float *x, const A *table, const int32_t *token, int64_t V, int64_t C) {
  int64_t  id = token[blockIdx.x];
  float   *to = x + (int64_t)blockIdx.x * C;
  const A *from = table + id * C;

  TRI_KERNEL_ASSERT(id >= 0 && id < V);
  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += THREADS * TRI_UNIT) {
    float v[8];
    tri_load8<VEC>(v, from + c, C - c);
    tri_store8<VEC>(to + c, v, C - c);
  }
}

tri_status tri_cuda_embed_fwd(tri_stream *s, tri_out x, tri_in table, tri_in token) {
  int64_t N = token->dim[0], V = table->dim[0], C = table->dim[1];

  TRI_ASSERT(x->dtype == TRI_F32 && x->dim[0] == N && x->dim[1] == C);
  return TRI_LAUNCH_TYPED(embed_fwd_kernel, tri_is_bf16(table), tri_vec8(C, x->data, table->data),
                          (unsigned)N, THREADS, 0, s, x->data, table->data, token->data, V, C);
}

enum {
  LOOK = 16,
  FIND = 4
}; /* ids one thread compares at a time: for an earlier one, for later ones. Chosen. */

/* Whether one of the first n ids is `id`; the same for every thread of the block. */
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

/* dtable[V,C] += dx[N,C] at token[N], f32. The block of a token's first occurrence adds all of them in their
 * order. Grid: N. Shared: the places of a token in THREADS * FIND ids. Judge: tri_cpu_embed_bwd, whose bits
 * it has. */
__global__ void __launch_bounds__(THREADS)
    embed_bwd_kernel(float *dtable, const float *dx, const int32_t *token, int64_t N, int64_t V, int64_t C) {
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
      for (int i = 0; i < count; i++) sum += dx[(base + place[i]) * C + c];
      to[c] = sum;
    }
    __syncthreads(); /* place and total are written again */
  }
}

tri_status tri_cuda_embed_bwd(tri_stream *s, tri_out dtable, tri_in dx, tri_in token) {
  int64_t N = token->dim[0], V = dtable->dim[0], C = dtable->dim[1];

  TRI_ASSERT(dtable->dtype == TRI_F32 && dx->dtype == TRI_F32 && dx->dim[0] == N && dx->dim[1] == C);
  return TRI_LAUNCH(embed_bwd_kernel, (unsigned)N, THREADS, 0, s, dtable->data, dx->data, token->data, N, V,
                    C);
}

enum {
  COLUMNS = 32, /* of a block of column_kernel: one warp reads one row's. Chosen. */
  ROW_LANES = 32,
  PART_ROWS = 64, /* of a part at least */
  PARTS = 16
};

/* How N rows of C columns are added up: in parts of neighbouring rows, as many as N and C alone say. */
struct column_parts {
  int     n;
  int64_t rows; /* of a part */
};
static column_parts parts_of(int64_t N, int64_t C) {
  int64_t n = tri_blocks(N, PART_ROWS), most = TRI_CUDA_SCRATCH / (int64_t)sizeof(float) / C;

  most = most > PARTS ? (int64_t)PARTS : most;
  n = n > most ? most : n;
  n = n < 1 ? 1 : n;
  return {(int)n, tri_blocks(N, n)};
}

/* total[C] += column sums of dy A [N,C], or (NORM) of dy * x * rstd with x f32 [N,C], rstd f32 [N]; with
 * several parts of `rows` rows total[part,C] = the part's sums. A row lane adds its rows in order, then the
 * lanes are added in order. Grid: parts * (C / COLUMNS). Judges: tri_cpu_colsum, tri_cpu_rmsnorm_bwd. */
template <class A, bool NORM>
__global__ void __launch_bounds__(COLUMNS *ROW_LANES)
    column_kernel(float *total, const A *dy, const float *x, const float *rstd, int64_t N, int64_t C,
                  int parts, int64_t rows) {
  TRI_SHARED(float, lane, [ROW_LANES][COLUMNS]);
  int     col = threadIdx.x % COLUMNS, row = threadIdx.x / COLUMNS;
  int     part = (int)(blockIdx.x % (unsigned)parts);
  int64_t c = (int64_t)(blockIdx.x / (unsigned)parts) * COLUMNS + col;
  int64_t first = part * rows, end = first + rows < N ? first + rows : N;
  float   sum = 0;

  if (c < C) {
#pragma unroll 4
    for (int64_t n = first + row; n < end; n += ROW_LANES) {
      float v = tri_get(dy[n * C + c]);
      sum = NORM ? fmaf(v, x[n * C + c] * rstd[n], sum) : sum + v;
    }
  }
  lane[row][col] = sum;
  __syncthreads();
  if (row == 0 && c < C) {
    sum = 0;
#pragma unroll
    for (int i = 0; i < ROW_LANES; i++) sum += lane[i][col];
    if (parts == 1)
      total[c] += sum;
    else
      total[part * C + c] = sum;
  }
}

/* total[C] += part[0,C] + part[1,C] + ..., in this order. Grid: C / THREADS. */
__global__ void __launch_bounds__(THREADS)
    parts_kernel(float *total, const float *part, int parts, int64_t C) {
  int64_t c = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  float   sum = 0;

  if (c >= C) return;
  for (int i = 0; i < parts; i++) sum += part[i * C + c];
  total[c] += sum;
}

template <class A, bool NORM>
static tri_status add_columns(tri_stream *s, void *total, const void *dy, const void *x, const void *rstd,
                              int64_t N, int64_t C) {
  column_parts p = parts_of(N, C);
  unsigned     grid = N > 0 ? (unsigned)(tri_blocks(C, COLUMNS) * p.n) : 0;
  void        *to = p.n > 1 ? tri_cuda_scratch(s) : total;

  TRI_TRY(TRI_LAUNCH((column_kernel<A, NORM>), grid, COLUMNS * ROW_LANES, 0, s, to, dy, x, rstd, N, C, p.n,
                     p.rows));
  if (p.n == 1) return TRI_OK;
  return TRI_LAUNCH(parts_kernel, (unsigned)tri_blocks(C, THREADS), THREADS, 0, s, total, to, p.n, C);
}

tri_status tri_cuda_colsum(tri_stream *s, tri_out db, tri_in dy) {
  int64_t N = dy->dim[0], C = dy->dim[1];

  TRI_ASSERT(db->dtype == TRI_F32 && db->dim[0] == C);
  return tri_is_bf16(dy) ? add_columns<tri_bf16, false>(s, db->data, dy->data, nullptr, nullptr, N, C)
                         : add_columns<float, false>(s, db->data, dy->data, nullptr, nullptr, N, C);
}

/* RMSNorm: Zhang, Sennrich 2019, eq. 4. y A [N,C] = x rstd w, rstd[N] f32. Grid: N. Judge:
 * tri_cpu_rmsnorm_fwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(NORM_THREADS)
    rmsnorm_fwd_kernel(A *y, float *rstd, const float *x, const A *w, float eps, int64_t C) {
  const float *from = x + (int64_t)blockIdx.x * C;
  A           *to = y + (int64_t)blockIdx.x * C;
  float        sum = 0, r;

  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8];
    tri_load8<VEC>(v, from + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) sum = fmaf(v[j], v[j], sum);
  }
  r = 1.0f / sqrtf(tri_block_sum<NORM_WARPS>(sum) / (float)C + eps);
  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8], g[8];
    tri_load8<VEC>(v, from + c, C - c); /* from the cache: a row is 32 KiB at most */
    tri_load8<VEC>(g, w + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = v[j] * r * g[j];
    tri_store8<VEC>(to + c, v, C - c);
  }
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

tri_status tri_cuda_rmsnorm_fwd(tri_stream *s, tri_out y, tri_out rstd, tri_in x, tri_in w, float eps) {
  int64_t N = x->dim[0], C = x->dim[1];

  TRI_ASSERT(x->dtype == TRI_F32 && w->dtype == y->dtype && w->dim[0] == C && y->dim[1] == C);
  return TRI_LAUNCH_TYPED(rmsnorm_fwd_kernel, tri_is_bf16(y), tri_vec8(C, y->data, x->data, w->data),
                          (unsigned)N, NORM_THREADS, 0, s, y->data, rstd->data, x->data, w->data, eps, C);
}

/* dx += rstd (w dy - x rstd^2 mean(w dy x)). Grid: N. Judge: tri_cpu_rmsnorm_bwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(NORM_THREADS)
    rmsnorm_bwd_kernel(float *dx, const A *dy, const float *x, const A *w, const float *rstd, int64_t C) {
  int64_t at = (int64_t)blockIdx.x * C;
  float   sum = 0, mean, r = rstd[blockIdx.x];

  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8], d[8], g[8];
    tri_load8<VEC>(v, x + at + c, C - c);
    tri_load8<VEC>(d, dy + at + c, C - c);
    tri_load8<VEC>(g, w + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) sum = fmaf(d[j] * g[j], v[j], sum);
  }
  mean = tri_block_sum<NORM_WARPS>(sum) / (float)C * r * r;
  for (int64_t c = threadIdx.x * TRI_UNIT; c < C; c += NORM_THREADS * TRI_UNIT) {
    float v[8], d[8], g[8], to[8];
    tri_load8<VEC>(v, x + at + c, C - c);
    tri_load8<VEC>(d, dy + at + c, C - c);
    tri_load8<VEC>(g, w + c, C - c);
    tri_load8<VEC>(to, dx + at + c, C - c);
#pragma unroll
    for (int j = 0; j < 8; j++) to[j] = fmaf(r, fmaf(-v[j], mean, d[j] * g[j]), to[j]);
    tri_store8<VEC>(dx + at + c, to, C - c);
  }
}

tri_status tri_cuda_rmsnorm_bwd(tri_stream *s, tri_out dx, tri_out dw, tri_in dy, tri_in x, tri_in w,
                                tri_in rstd) {
  int64_t N = x->dim[0], C = x->dim[1];
  bool    bf16 = tri_is_bf16(dy);

  TRI_ASSERT(dx->dtype == TRI_F32 && dw->dtype == TRI_F32 && x->dtype == TRI_F32 && w->dtype == dy->dtype);
  TRI_TRY(TRI_LAUNCH_TYPED(rmsnorm_bwd_kernel, bf16, tri_vec8(C, dx->data, dy->data, x->data, w->data),
                           (unsigned)N, NORM_THREADS, 0, s, dx->data, dy->data, x->data, w->data, rstd->data,
                           C));
  return bf16 ? add_columns<tri_bf16, true>(s, dw->data, dy->data, x->data, rstd->data, N, C)
              : add_columns<float, true>(s, dw->data, dy->data, x->data, rstd->data, N, C);
}

/* Rotary positions (Su et al. 2021), halves convention: (a, b) = x[0..D/2), x[D/2..D) of a head become (a cos
 * - b sin, b cos + a sin). qkv A [N,E], table f32 [positions,D] = cosines, sines. Grid: N; a thread takes 8
 * pairs of one head at a time. Judge: tri_cpu_rope. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    rope_kernel(A *qkv, const int32_t *pos, const float *table, int64_t positions, int heads, int half,
                int64_t E, float sign) {
  int64_t      at = pos[blockIdx.x];
  const float *turn = table + at * 2 * half;
  A           *row = qkv + (int64_t)blockIdx.x * E;
  int          units = (half + TRI_UNIT - 1) / TRI_UNIT;

  TRI_KERNEL_ASSERT(at >= 0 && at < positions);
  for (int i = threadIdx.x; i < heads * units; i += THREADS) {
    int   j = i % units * TRI_UNIT, left = half - j;
    A    *x = row + (int64_t)(i / units) * 2 * half + j;
    float a[8], b[8], cosine[8], sine[8];
    tri_load8<VEC>(a, x, left);
    tri_load8<VEC>(b, x + half, left);
    tri_load8<VEC>(cosine, turn + j, left);
    tri_load8<VEC>(sine, turn + half + j, left);
#pragma unroll
    for (int k = 0; k < 8; k++) {
      float p = a[k], q = b[k], z = sign * sine[k];
      a[k] = fmaf(-q, z, p * cosine[k]);
      b[k] = fmaf(p, z, q * cosine[k]);
    }
    tri_store8<VEC>(x, a, left);
    tri_store8<VEC>(x + half, b, left);
  }
}

tri_status tri_cuda_rope(tri_stream *s, tri_out qkv, tri_in pos, tri_in table, const tri_heads *h, int sign) {
  int64_t N = qkv->dim[0], E = qkv->dim[1];

  TRI_ASSERT(E == (int64_t)(h->H + 2 * h->G) * h->D && h->D % 2 == 0 && table->dim[1] == h->D &&
             (sign == 1 || sign == -1));
  return TRI_LAUNCH_TYPED(rope_kernel, tri_is_bf16(qkv), tri_vec8(h->D / 2, qkv->data, table->data),
                          (unsigned)N, THREADS, 0, s, qkv->data, pos->data, table->data, table->dim[0],
                          h->H + h->G, h->D / 2, E, (float)sign);
}

/* y A [N,F] = silu(g) u, gu A [N,2F] = [g | u]. Grid: any; units of 8 columns, row by row. Judge:
 * tri_cpu_swiglu_fwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS) swiglu_fwd_kernel(A *y, const A *gu, int64_t N, int64_t F) {
  int64_t units = (F + TRI_UNIT - 1) / TRI_UNIT;

  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < N * units;
       i += (int64_t)gridDim.x * THREADS) {
    int64_t  n = i / units, f = i % units * TRI_UNIT;
    const A *row = gu + n * 2 * F + f;
    float    g[8], u[8];
    tri_load8<VEC>(g, row, F - f);
    tri_load8<VEC>(u, row + F, F - f);
#pragma unroll
    for (int j = 0; j < 8; j++) g[j] = tri_silu(g[j]) * u[j];
    tri_store8<VEC>(y + n * F + f, g, F - f);
  }
}

/* dgu = [dy u silu'(g) | dy silu(g)]; y, unless NULL, as swiglu_fwd_kernel gives it. Judge:
 * tri_cpu_swiglu_bwd. */
template <class A, bool VEC>
__global__ void __launch_bounds__(THREADS)
    swiglu_bwd_kernel(A *dgu, A *y, const A *dy, const A *gu, int64_t N, int64_t F) {
  int64_t units = (F + TRI_UNIT - 1) / TRI_UNIT;

  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < N * units;
       i += (int64_t)gridDim.x * THREADS) {
    int64_t  n = i / units, f = i % units * TRI_UNIT;
    const A *row = gu + n * 2 * F + f;
    A       *to = dgu + n * 2 * F + f;
    float    g[8], u[8], d[8], silu[8];
    tri_load8<VEC>(g, row, F - f);
    tri_load8<VEC>(u, row + F, F - f);
    tri_load8<VEC>(d, dy + n * F + f, F - f);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float s = tri_sigmoid(g[j]);
      silu[j] = g[j] * s;
      g[j] = d[j] * u[j] * (s * fmaf(g[j], 1.0f - s, 1.0f));
      d[j] = d[j] * silu[j];
      silu[j] = silu[j] * u[j];
    }
    tri_store8<VEC>(to, g, F - f);
    tri_store8<VEC>(to + F, d, F - f);
    if (y) tri_store8<VEC>(y + n * F + f, silu, F - f);
  }
}

static unsigned swiglu_grid(const tri_stream *s, int64_t N, int64_t F) {
  return tri_grid(s, N * tri_blocks(F, TRI_UNIT), THREADS);
}

tri_status tri_cuda_swiglu_fwd(tri_stream *s, tri_out y, tri_in gu) {
  int64_t N = y->dim[0], F = y->dim[1];

  TRI_ASSERT(gu->dtype == y->dtype && gu->dim[0] == N && gu->dim[1] == 2 * F);
  return TRI_LAUNCH_TYPED(swiglu_fwd_kernel, tri_is_bf16(y), tri_vec8(F, y->data, gu->data),
                          swiglu_grid(s, N, F), THREADS, 0, s, y->data, gu->data, N, F);
}

tri_status tri_cuda_swiglu_bwd(tri_stream *s, tri_out dgu, tri_out y, tri_in dy, tri_in gu) {
  int64_t N = dy->dim[0], F = dy->dim[1];
  void   *again = y ? y->data : NULL;

  TRI_ASSERT(gu->dtype == dy->dtype && dgu->dtype == dy->dtype && gu->dim[1] == 2 * F &&
             dgu->dim[1] == 2 * F);
  return TRI_LAUNCH_TYPED(swiglu_bwd_kernel, tri_is_bf16(dy),
                          tri_vec8(F, dgu->data, again, dy->data, gu->data), swiglu_grid(s, N, F), THREADS, 0,
                          s, dgu->data, again, dy->data, gu->data, N, F);
}
