/* attention_bwd.cu - gradient of causal attention by algorithm 2 of Dao 2023 (FlashAttention-2). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_bwd_mma.cuh"
#include "gpu/cudnn/sdpa.h"

enum { BWD_MAX_D = 256, DELTA_THREADS = 256, PART_THREADS = 256 };

/* delta f32 [N H] = sum over D of dout o, A [N H,D]. It is the term softmax's gradient subtracts. A row has
 * `lanes` threads (8, 16, 32) with 8 elements each. A thread adds its elements in order, then the threads add
 * as a tree. Sums are f32. The grid is blocks of DELTA_THREADS / lanes rows. Tested against row_delta in
 * src/cpu/kernels/attention_bwd.c. */
template <class A, bool VEC>
__global__ void __launch_bounds__(DELTA_THREADS)
    attn_delta_kernel(float *delta, const A *dout, const A *o, int64_t n_row, int D, int lanes) {
  int64_t row = (int64_t)blockIdx.x * (DELTA_THREADS / lanes) + threadIdx.x / lanes;
  int     d = threadIdx.x % lanes * TRI_UNIT, left = row < n_row ? D - d : 0;
  float   a[8], b[8], sum = 0;

  tri_load8<VEC>(a, dout + row * D + d, left);
  tri_load8<VEC>(b, o + row * D + d, left);
#pragma unroll
  for (int i = 0; i < 8; i++) sum = fmaf(a[i], b[i], sum);
  for (int i = lanes / 2; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
  if (row < n_row && d == 0) delta[row] = sum;
}

/* Computes dk and dv A [N,E], columns H D and on, as the sum of c.part over the parts, first to last. A
 * thread adds 8 elements. The grid is blocks of PART_THREADS * 8 elements of [N,2 G D]. Tested against
 * tri_cpu_attn_bwd. */
__global__ void __launch_bounds__(PART_THREADS) attn_parts_kernel(const bwd_call c) {
  int64_t width = (int64_t)2 * c.G * c.D, n = c.N * width;
  int64_t at = ((int64_t)blockIdx.x * PART_THREADS + threadIdx.x) * TRI_UNIT;
  float   sum[8], more[8];

  if (at < n) {
    tri_load8<true>(sum, c.part + at, TRI_UNIT);
    for (int i = 1; i < c.parts; i++) {
      tri_load8<true>(more, c.part + i * n + at, TRI_UNIT);
#pragma unroll
      for (int e = 0; e < 8; e++) sum[e] += more[e];
    }
    tri_store8<true>((tri_bf16 *)c.dqkv + at / width * c.E + c.H * c.D + at % width, sum, TRI_UNIT);
  }
}

template <int D, bool RULED> static constexpr bwd_plan mma_plan() {
  return {bwd_shape<D, true, RULED>::OWN, bwd_shape<D, false, RULED>::OWN, false};
}

template <int D, bool RULED, bool SMALL> static constexpr size_t mma_shared() { /* bytes, for both kinds */
  typedef bwd_shape<D, true, RULED, SMALL>  keys;
  typedef bwd_shape<D, false, RULED, SMALL> queries;
  return (size_t)(keys::BYTES > queries::BYTES ? keys::BYTES : queries::BYTES);
}

template <int D, bool RULED, bool SMALL> static __device__ __forceinline__ void mma_block(const bwd_call &c) {
  TRI_SHARED_DYNAMIC(tri_bf16, shared);
  TRI_SHARED(bwd_place, place, [1]);

  bwd_find(place, c, mma_plan<D, RULED>());
  if (place->what == BWD_QUERY)
    bwd_queries<D, RULED, SMALL>(c, *place, shared);
  else if (place->what != 0)
    bwd_keys<D, RULED, SMALL>(c, *place, shared);
}

/* Computes dqkv [N,E], or with several parts only its dq and c.part. The type is bf16 and D is 64, 96, 128 or
 * 256. Sums are f32. The grid is bwd_blocks. Shared memory is mma_shared and a bwd_place. Rows of qkv and
 * dout are 16-byte aligned, rows of dqkv 4-byte. Tested against tri_cpu_attn_bwd, and in the small form
 * against the bits of attn_bwd_mma_kernel. */
template <int D, bool RULED>
__global__ void __launch_bounds__(bwd_shape<D, true, RULED>::THREADS, bwd_shape<D, true, RULED>::BLOCKS)
    attn_bwd_mma_kernel(const bwd_call c) {
  mma_block<D, RULED, false>(c);
}
template <int D, bool RULED>
__global__ void __launch_bounds__(bwd_shape<D, true, RULED>::THREADS)
    attn_bwd_mma_small_kernel(const bwd_call c) {
  mma_block<D, RULED, true>(c);
}

template <int D, bool RULED> static tri_status launch_blocks(tri_stream *s, const bwd_call &c) {
  constexpr size_t BYTES = mma_shared<D, RULED, false>(), SMALL_BYTES = mma_shared<D, RULED, true>();
  constexpr int    THREADS = bwd_shape<D, true, RULED>::THREADS;
  unsigned         blocks = bwd_blocks(c, mma_plan<D, RULED>());

  if constexpr (BYTES + sizeof(bwd_place) > TRI_CUDA_SHARED_LEAST) {
    static_assert(SMALL_BYTES + sizeof(bwd_place) <= TRI_CUDA_SHARED_LEAST, "the small form fits");
    if (!tri_cuda_has_shared(s, BYTES + sizeof(bwd_place)))
      return TRI_LAUNCH((attn_bwd_mma_small_kernel<D, RULED>), blocks, THREADS, SMALL_BYTES, s, c);
  }
  return TRI_LAUNCH((attn_bwd_mma_kernel<D, RULED>), blocks, THREADS, BYTES, s, c);
}

template <int D, bool RULED> static tri_status launch_mma(tri_stream *s, bwd_call c, const tri_heads *h) {
  c.parts = tri_attn_parts(h);
  TRI_TRY((launch_blocks<D, RULED>(s, c)));
  if (c.parts == 1) return TRI_OK;
  return TRI_LAUNCH(attn_parts_kernel,
                    (unsigned)tri_blocks(c.N * ((int64_t)2 * c.G * D / TRI_UNIT), PART_THREADS), PART_THREADS,
                    0, s, c);
}

template <bool RULED> static tri_status launch_width(tri_stream *s, const bwd_call &c, const tri_heads *h) {
  return c.D == 64    ? launch_mma<64, RULED>(s, c, h)
         : c.D == 96  ? launch_mma<96, RULED>(s, c, h)
         : c.D == 128 ? launch_mma<128, RULED>(s, c, h)
                      : launch_mma<256, RULED>(s, c, h);
}

/* ---- f32, f16, and bf16 of other widths, by fused multiply-adds ---- */

/* Rows of a tile, TILE below. Chosen so that four tiles of 256 f32 fit the shared memory of sm_80, and in the
 * small form 99 KiB. A thread has rows threadIdx / 16 and every 8th of its own side, and rows threadIdx % 16
 * and every 16th of the other side. */
enum { FMA_THREADS = 128, FMA_TILE = 32, FMA_SMALL_TILE = 16 };

static constexpr __host__ __device__ __forceinline__ int fma_row(int D) { return (D + 3) / 4 * 4 + 4; }

/* Loads a tile [TILE, fma_row(D)] of rows `stride` apart. Columns behind D and rows from `left` on become
 * 0. */
template <int TILE, class A>
static __device__ __forceinline__ void fma_load(float *to, const void *base, int64_t at, int stride, int left,
                                                int D) {
  const A *from = (const A *)base + at;
  int      ld = fma_row(D);

  for (int row = threadIdx.x / 32; row < TILE; row += FMA_THREADS / 32)
    for (int d = threadIdx.x % 32; d < ld; d += 32)
      to[row * ld + d] = row < left && d < D ? tri_get(from[row * stride + d]) : 0.0f;
}

/* Computes s, the products of a thread's own rows with its rows of `seen`. */
template <int TILE>
static __device__ __forceinline__ void fma_scores(float (&s)[TILE / 8][TILE / 16], const float *own,
                                                  const float *seen, int D) {
  int ld = fma_row(D);

  own += threadIdx.x / 16 * ld;
  seen += threadIdx.x % 16 * ld;
#pragma unroll
  for (int r = 0; r < TILE / 8; r++)
#pragma unroll
    for (int j = 0; j < TILE / 16; j++) s[r][j] = 0;
  for (int d = 0; d < D; d += 4) {
    float4 x[TILE / 16];
#pragma unroll
    for (int j = 0; j < TILE / 16; j++) x[j] = *(const float4 *)(seen + j * 16 * ld + d);
#pragma unroll
    for (int r = 0; r < TILE / 8; r++) {
      float4 a = *(const float4 *)(own + 8 * r * ld + d);
#pragma unroll
      for (int j = 0; j < TILE / 16; j++)
        s[r][j] = fmaf(a.w, x[j].w, fmaf(a.z, x[j].z, fmaf(a.y, x[j].y, fmaf(a.x, x[j].x, s[r][j]))));
    }
  }
}

/* sum += p [TILE,TILE+1] rows [TILE,D], for a thread's rows and columns 4 (threadIdx % 16) .. + 3 and every
 * 64th. */
template <int TILE>
static __device__ __forceinline__ void fma_add(float (&sum)[TILE / 8][BWD_MAX_D / 64][4], const float *p,
                                               const float *rows, int D) {
  int ld = fma_row(D), col = threadIdx.x % 16 * 4;

  p += threadIdx.x / 16 * (TILE + 1);
  for (int s = 0; s < TILE; s++) {
    float w[TILE / 8];
#pragma unroll
    for (int r = 0; r < TILE / 8; r++) w[r] = p[8 * r * (TILE + 1) + s];
#pragma unroll
    for (int j = 0; j < BWD_MAX_D / 64; j++)
      if (col + 64 * j < D) {
        float4 x = *(const float4 *)(rows + s * ld + col + 64 * j);
#pragma unroll
        for (int r = 0; r < TILE / 8; r++) {
          sum[r][j][0] = fmaf(w[r], x.x, sum[r][j][0]);
          sum[r][j][1] = fmaf(w[r], x.y, sum[r][j][1]);
          sum[r][j][2] = fmaf(w[r], x.z, sum[r][j][2]);
          sum[r][j][3] = fmaf(w[r], x.w, sum[r][j][3]);
        }
      }
  }
}

/* The tiles a block meets. fma_each gives their number for one head, fma_at the head and first row of the
 * i-th. */
struct fma_rows {
  int head, row;
};
template <int TILE>
static __device__ __forceinline__ int fma_first(const bwd_call &c, const bwd_place &w, bool keys) {
  return keys ? w.first : attn_first_tile<TILE>(c.rule, w.first);
}
template <int TILE>
static __device__ __forceinline__ int fma_each(const bwd_call &c, const bwd_place &w, bool keys) {
  int end = keys ? bwd_end(c, w, TILE) : w.first + TILE < w.len ? w.first + TILE : w.len;
  return (end - fma_first<TILE>(c, w, keys) + TILE - 1) / TILE; /* for one head */
}
template <int TILE>
static __device__ __forceinline__ fma_rows fma_at(const bwd_call &c, const bwd_place &w, bool keys, int i) {
  int      each = fma_each<TILE>(c, w, keys), turn = i / each;
  fma_rows at = {w.head + turn, fma_first<TILE>(c, w, keys) + (i - turn * each) * TILE};
  return at;
}

template <int TILE> static constexpr size_t fma_shared(int D) { /* bytes */
  return (size_t)(4 * TILE * fma_row(D) + TILE * (TILE + 1) + 2 * TILE) * sizeof(float);
}
static_assert(fma_shared<FMA_SMALL_TILE>(BWD_MAX_D) + sizeof(bwd_place) <= TRI_CUDA_SHARED_LEAST, "");

/* Does the work of a block by the formulas of bwd_meet_queries. A block computes one gradient. `shared` holds
 * the tiles, p [TILE,TILE+1], and lse and delta of the queries, on either side. */
template <int TILE, class A>
static __device__ __forceinline__ void fma_work(const bwd_call &c, const bwd_place w, float *shared) {
  int    D = c.D, tile = TILE * fma_row(D), ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  float *own1 = shared, *own2 = own1 + tile, *seen1 = own2 + tile, *seen2 = seen1 + tile;
  float *p = seen2 + tile, *lse = p + TILE * (TILE + 1), *delta = lse + TILE;
  float  sum[TILE / 8][BWD_MAX_D / 64][4] = {};

  bool keys = w.what != BWD_QUERY;
  int  left = w.len - w.first;
  if (keys) {
    int64_t k = bwd_k(c, w, w.first, w.kv);
    fma_load<TILE, A>(own1, c.qkv, k, c.E, left, D);
    fma_load<TILE, A>(own2, c.qkv, k + c.G * D, c.E, left, D);
  } else {
    fma_load<TILE, A>(own1, c.qkv, bwd_q(c, w, w.first, w.head), c.E, left, D);
    fma_load<TILE, A>(own2, c.dout, bwd_o(c, w, w.first, w.head), c.H * D, left, D);
  }
  for (int i = 0; i < fma_each<TILE>(c, w, keys) * w.n_head; i++) {
    fma_rows at = fma_at<TILE>(c, w, keys, i);
    float    s[TILE / 8][TILE / 16], ds[TILE / 8][TILE / 16];
    int      query = (keys ? at.row : w.first) + (int)threadIdx.x;
    left = w.len - at.row;
    __syncthreads(); /* all threads are done with the tile before */
    if (keys) {
      fma_load<TILE, A>(seen1, c.qkv, bwd_q(c, w, at.row, at.head), c.E, left, D);
      fma_load<TILE, A>(seen2, c.dout, bwd_o(c, w, at.row, at.head), c.H * D, left, D);
    } else {
      int64_t k = bwd_k(c, w, at.row, w.kv);
      fma_load<TILE, A>(seen1, c.qkv, k, c.E, left, D);
      fma_load<TILE, A>(seen2, c.qkv, k + c.G * D, c.E, left, D);
    }
    if (threadIdx.x < TILE) {
      lse[threadIdx.x] = bwd_lse(c, w, query, at.head);
      delta[threadIdx.x] = bwd_delta(c, w, query, at.head);
    }
    __syncthreads();
    fma_scores<TILE>(s, own1, seen1, D);
    if (w.what != BWD_VALUE) fma_scores<TILE>(ds, own2, seen2, D);
#pragma unroll
    for (int r = 0; r < TILE / 8; r++)
#pragma unroll
      for (int j = 0; j < TILE / 16; j++) {
        int   me = ty + 8 * r, it = tx + 16 * j, q = keys ? it : me;
        int   apart = (keys ? 1 : -1) * (at.row + it - w.first - me); /* distance from the key to the query */
        bool  sees = apart >= 0 && apart < c.rule.window;
        float score =
            c.rule.cap > 0 ? tri_softcap(s[r][j], c.rule.cap, c.rule.inverse) : s[r][j] * c.rule.scale;
        float x = sees ? tri_exp(score - lse[q]) : 0.0f;
        if (w.what != BWD_VALUE) {
          x *= ds[r][j] - delta[q];
          if (c.rule.cap > 0) x *= tri_softcap_slope(score, c.rule.inverse_cap);
        }
        p[me * (TILE + 1) + it] = x;
      }
    __syncthreads();
    fma_add<TILE>(sum, p, w.what == BWD_VALUE ? seen2 : seen1, D);
  }
  A *to = (A *)c.dqkv + (keys ? bwd_k(c, w, w.first, w.kv) : bwd_q(c, w, w.first, w.head));
  if (w.what == BWD_VALUE) to += c.G * D;
#pragma unroll
  for (int r = 0; r < TILE / 8; r++)
#pragma unroll
    for (int i = 0; i < BWD_MAX_D / 16; i++) {
      int row = ty + 8 * r, d = tx * 4 + i / 4 * 64 + i % 4;
      if (w.first + row < w.len && d < D)
        tri_put(to + row * c.E + d, sum[r][i / 4][i % 4] * (w.what == BWD_VALUE ? 1.0f : c.rule.scale));
    }
}

template <int TILE> static constexpr bwd_plan fma_plan() { return {TILE, TILE, true}; }

template <int TILE, class A> static __device__ __forceinline__ void fma_block(const bwd_call &c) {
  TRI_SHARED_DYNAMIC(float, shared);
  TRI_SHARED(bwd_place, place, [1]);

  bwd_find(place, c, fma_plan<TILE>());
  if (place->what) fma_work<TILE, A>(c, *place, shared);
}

/* Computes all of dqkv [N,E], for any even D up to BWD_MAX_D. Sums are f32. The grid is bwd_blocks. Shared
 * memory is fma_shared and a bwd_place. Tested against tri_cpu_attn_bwd, and in the small form against the
 * bits of attn_bwd_fma_kernel. */
template <class A> __global__ void __launch_bounds__(FMA_THREADS, 3) attn_bwd_fma_kernel(const bwd_call c) {
  fma_block<FMA_TILE, A>(c);
}
template <class A>
__global__ void __launch_bounds__(FMA_THREADS, 3) attn_bwd_fma_small_kernel(const bwd_call c) {
  fma_block<FMA_SMALL_TILE, A>(c);
}

template <class A> static tri_status launch_fma(tri_stream *s, const bwd_call &c) {
  size_t bytes = fma_shared<FMA_TILE>(c.D), small = fma_shared<FMA_SMALL_TILE>(c.D);

  if (!tri_cuda_has_shared(s, bytes + sizeof(bwd_place)))
    return TRI_LAUNCH((attn_bwd_fma_small_kernel<A>), bwd_blocks(c, fma_plan<FMA_SMALL_TILE>()), FMA_THREADS,
                      small, s, c);
  return TRI_LAUNCH((attn_bwd_fma_kernel<A>), bwd_blocks(c, fma_plan<FMA_TILE>()), FMA_THREADS, bytes, s, c);
}

struct bwd_arguments { /* arguments of attn_bwd */
  tri_out              dqkv, work;
  tri_in               dout, o, lse, qkv, cu;
  const tri_attn_rule *rule;
};

static tri_status own_bwd(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o, tri_in lse,
                          tri_in qkv, tri_in cu, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;

  int64_t   N = qkv->dim[0], E = qkv->dim[1], S = cu->dim[0] - 1, n_row = N * h->H;
  int       D = h->D, lanes = D <= 64 ? 8 : D <= 128 ? 16 : 32;
  tri_dtype A = tri_type(qkv);
  bool      fast = A == TRI_BF16 && (D == 64 || D == 96 || D == 128 || D == 256);
  float    *part = (float *)work->data, *delta = part + tri_attn_work(h, N) - n_row;
  bwd_call  c = {dqkv->data,
                 part,
                 dout->data,
                 qkv->data,
                 (const float *)lse->data,
                 delta,
                 (const int32_t *)cu->data,
                 (int)N,
                 (int)E,
                 (int)S,
                 h->H,
                 h->G,
                 D,
                 h->H / h->G,
                 1,
                 attn_rule_of(rule)};

  TRI_ASSERT(D > 0 && D <= BWD_MAX_D && D % 2 == 0 && h->G > 0 && h->H % h->G == 0 && rule->scale > 0);
  TRI_ASSERT(E == (int64_t)(h->H + 2 * h->G) * D && lse->dtype == TRI_F32 && cu->dtype == TRI_I32);
  TRI_ASSERT(tri_tensor_count(work) >= tri_attn_work(h, N) && work->dtype == TRI_F32);
  TRI_ASSERT(dqkv->dtype == qkv->dtype && dout->dtype == qkv->dtype && o->dtype == qkv->dtype);
  if (N == 0) return TRI_OK;
  TRI_TRY(TRI_LAUNCH_TYPED(attn_delta_kernel, A, tri_vec8(D, dout->data, o->data),
                           (unsigned)tri_blocks(n_row * lanes, DELTA_THREADS), DELTA_THREADS, 0, s, delta,
                           dout->data, o->data, n_row, D, lanes));
  /* Device memory and rows of such widths are 16-byte aligned. Another path here would give other bits. */
  TRI_ASSERT(!fast || tri_vec8(D, dqkv->data, dout->data, qkv->data, work->data));
#define LAUNCH(A) launch_fma<A>(s, c)
  if (!fast) return TRI_BY_TYPE(A, LAUNCH);
#undef LAUNCH
  return attn_is_ruled(c.rule) ? launch_width<true>(s, c, h) : launch_width<false>(s, c, h);
}

static tri_status run_own(void *ctx, tri_stream *s) {
  const bwd_arguments *a = (const bwd_arguments *)ctx;

  return own_bwd(s, a->dqkv, a->work, a->dout, a->o, a->lse, a->qkv, a->cu, a->rule);
}

tri_status tri_cuda_attn_bwd(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o, tri_in lse,
                             tri_in qkv, tri_in cu, const tri_attn_rule *rule) {
  bwd_arguments a = {dqkv, work, dout, o, lse, qkv, cu, rule};
  bool          done;

  TRI_TRY(tri_cudnn_attn_bwd(s, dqkv, work, dout, o, lse, qkv, cu, rule, {run_own, &a}, &done));
  return done ? TRI_OK : run_own(&a, s);
}
