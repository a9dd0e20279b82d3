/* attention_spread.cu - attn_decode of few rows with long contexts. A row's head is spread over many blocks
 * and has the bits of attention_decode.cu.
 *
 * Little has to be done in order: updating references, and adding weights times values. So first each tile's
 * scores, with the largest of each row, go to the call's work array, one block per tile. Then blocks with
 * some columns of o each walk all tiles, first to last, as the single block does. Each of them computes
 * references, weights and their sums for itself. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_decode.cuh"

struct spread_call {
  decode_call decode;
  float      *scores, *best; /* f32 [B,H,tiles,keys of a tile], [B,H,tiles], block layout below */
  int         tiles = 0;     /* tiles of P pages. The default lets derived members follow without padding */
};
struct spread_tiles : spread_call { /* call of the kernels that compute scores */
  int every;                        /* blocks per row and head over its tiles, each takes every such tile */
};

/* The scores of tile `tile` and their largest, of a block's n heads, as [tiles,n * KEYS] and [tiles,n]. */
template <int KEYS>
static __device__ __forceinline__ float *spread_scores(const spread_call &w, const decode_place &p,
                                                       int tile) {
  return w.scores + (((int64_t)p.b * w.decode.H + p.h) * w.tiles + (int64_t)tile * p.n) * KEYS;
}
static __device__ __forceinline__ float *spread_best(const spread_call &w, const decode_place &p, int tile) {
  return w.best + ((int64_t)p.b * w.decode.H + p.h) * w.tiles + (int64_t)tile * p.n;
}
/* The offset, in a bf16 tile's scores, of a lane's four scores of one row and 16 keys, as decode_scores
 * leaves them. */
static __device__ __forceinline__ int spread_at(int n, int sixteen, int row) {
  return ((sixteen * n + row) * 4 + threadIdx.x % 4) * 4;
}

/* ---- bf16 ---- */

/* Computes the f32 scores of tiles and their largest, each tile by one block. The grid is B * G * parts *
 * every. Sums are f32 (mma). Shared memory has queries [ROWS,D] and keys [D,ATTN_KEYS]. Tested against the
 * bits of attn_decode_kernel. */
template <int D>
__global__ void __launch_bounds__(THREADS, D <= 128 ? 8 : 4) attn_spread_scores_kernel(spread_tiles w) {
  TRI_SHARED_DYNAMIC(tri_bf16, queries);
  TRI_SHARED(decode_share, share, [1]);
  const decode_call &c = w.decode;
  decode_place       p = decode_find(c, ROWS, blockIdx.x / w.every);
  int                lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int                first = attn_first_tile<ATTN_KEYS>(c.rule, p.len - 1);
  uint32_t           q[D / 16][4];
  int64_t            page[HALVES];

  attn_load<D, ROWS, THREADS, false>(queries, (const tri_bf16 *)c.qkv + p.b * c.E + p.h * c.D, c.D, p.n, c.D);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < D / 16; i++)
    tri_ldmatrix<4, false>(q[i], queries + attn_at<D>(lane % 16, 2 * i + lane / 16));
  for (int tile = blockIdx.x % w.every, key; (key = first + tile * ATTN_KEYS) < p.len; tile += w.every) {
    float *to = spread_scores<ATTN_KEYS>(w, p, tile), s[2][4] = {};
    for (int i = 0; i < HALVES; i++) page[i] = decode_page(c, p, key + i * TRI_PAGE);
    decode_load_keys<D>(queries + ROWS * D, c, page, p.len - key);
    tri_cp_commit();
    tri_cp_wait<0>();
    __syncthreads(); /* the largest of the tile before have been read too */
    decode_scores<D, true>(s, q, queries + ROWS * D, p.len - key, c.rule, share);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      int row = lane / 4 + 8 * r;
      if (row < p.n)
        *(float4 *)(to + spread_at(p.n, warp, row)) =
            make_float4(s[0][2 * r], s[0][2 * r + 1], s[1][2 * r], s[1][2 * r + 1]);
    }
    __syncthreads(); /* this tile's keys have been read too */
    if ((int)threadIdx.x < p.n) spread_best(w, p, tile)[threadIdx.x] = decode_best(share, threadIdx.x);
  }
}

/* COLS columns of o per block, and TURN tiles per turn, with one warp's weights each. A turn has one barrier.
 * Chosen so that 64 bytes of a row are two sectors and 48 KiB of values are in flight. */
enum { COLS = 32, TURN = WARPS, TURN_SLOT = TURN * ATTN_KEYS * COLS };

struct spread_lane { /* a lane's data of a turn, the scores of its warp's tile and the largest of each tile */
  float s[ATTN_KEYS / 16][2][4], best[TURN][2];
};
/* Reads the data of the turn that begins with tile `tile` of n_tiles. Missing tiles read as 0. */
static __device__ __forceinline__ void spread_fetch(spread_lane &x, const spread_call &w,
                                                    const decode_place &p, int tile, int n_tiles) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

#pragma unroll
  for (int r = 0; r < 2; r++) {
    int row = lane / 4 + 8 * r;
#pragma unroll
    for (int i = 0; i < TURN; i++)
      x.best[i][r] = row < p.n && tile + i < n_tiles ? spread_best(w, p, tile + i)[row] : 0.0f;
#pragma unroll
    for (int i = 0; i < ATTN_KEYS / 16; i++) {
      float4 v = make_float4(0, 0, 0, 0);
      if (row < p.n && tile + warp < n_tiles)
        v = *(const float4 *)(spread_scores<ATTN_KEYS>(w, p, tile + warp) + spread_at(p.n, i, row));
      x.s[i][0][2 * r] = v.x, x.s[i][0][2 * r + 1] = v.y;
      x.s[i][1][2 * r] = v.z, x.s[i][1][2 * r + 1] = v.w;
    }
  }
}

/* Loads a turn's values, from key `key` and column `column` on, to a slot [TURN][ATTN_KEYS,COLS]. `page` is
 * the offset of page lane % 8 of the turn, from decode_page. */
template <bool VEC>
static __device__ __forceinline__ void spread_load(tri_bf16 *slot, const decode_call &c,
                                                   const decode_place &p, int64_t page, int key, int column) {
#pragma unroll
  for (int i = 0; i < TURN * HALVES; i++)
    attn_load<COLS, TRI_PAGE, THREADS, VEC>(slot + i * TRI_PAGE * COLS,
                                            (const tri_bf16 *)c.v_page + __shfl_sync(~0u, page, i) + column,
                                            c.D, p.len - key - i * TRI_PAGE, c.D - column);
}

/* Computes o A [B,H*D]. A block has COLS of the columns of a block of attn_decode_kernel, in turns of TURN
 * tiles. Values are read two turns ahead, scores one. The grid is B * G * parts * columns. Sums are f32
 * (mma). Shared memory is RING times TURN_SLOT and decode_share. VEC needs 16-byte aligned rows of D. Tested
 * against the bits of attn_decode_kernel. */
template <bool VEC, bool RULED>
__global__ void __launch_bounds__(THREADS, 3) attn_spread_values_kernel(spread_call w, int columns) {
  TRI_SHARED_DYNAMIC(tri_bf16, ring);
  TRI_SHARED(decode_share, all, [2][TURN]);
  const decode_call &c = w.decode;
  decode_place       p = decode_find(c, ROWS, blockIdx.x / columns);
  tri_bf16          *slot[RING] = {ring, ring + TURN_SLOT, ring + 2 * TURN_SLOT};
  int                column = blockIdx.x % columns * COLS, warp = threadIdx.x / 32;
  int                first = RULED ? attn_first_tile<ATTN_KEYS>(c.rule, p.len - 1) : 0;
  int                n_tiles = (p.len - first + ATTN_KEYS - 1) / ATTN_KEYS;
  int                key = first + threadIdx.x % 8 * TRI_PAGE; /* key on the page this lane looks up */
  float              o[1][4] = {}, sum[2] = {0, 0}, reference[2] = {-INFINITY, -INFINITY};
  float              scale_log2 = attn_scale_log2<RULED>(c.rule);
  spread_lane        x;
  int64_t            page;

  for (int i = 0; i < 2; i++) {
    spread_load<VEC>(slot[i], c, p, decode_page(c, p, key + i * TURN * ATTN_KEYS),
                     first + i * TURN * ATTN_KEYS, column);
    tri_cp_commit();
  }
  spread_fetch(x, w, p, 0, n_tiles);
  page = decode_page(c, p, key + 2 * TURN * ATTN_KEYS);
  for (int tile = 0; tile < n_tiles; tile += TURN) {
    decode_share *share = all[tile / TURN % 2];
    tri_bf16     *values = slot[0];
    float         factor[TURN][2], mine[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < TURN; i++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        factor[i][r] = 1;
        if (tile + i < n_tiles) factor[i][r] = attn_raise_of<RULED>(&reference[r], x.best[i][r] * scale_log2);
        if (i == warp) mine[r] = reference[r];
      }
#pragma unroll
    for (int i = 0; i < ATTN_KEYS / 16; i++)
#pragma unroll
      for (int r = 0; r < 2; r++) decode_weights<RULED>(x.s[i], r, mine[r], scale_log2, i, share + warp);
    spread_fetch(x, w, p, tile + TURN, n_tiles);
    tri_cp_wait<1>();
    __syncthreads(); /* all warps are done with the slot and the share of the turn before */
    spread_load<VEC>(slot[2], c, p, page, first + (tile + 2 * TURN) * ATTN_KEYS, column);
    tri_cp_commit();
    page = decode_page(c, p, key + (tile + 3 * TURN) * ATTN_KEYS);
#pragma unroll
    for (int i = 0; i < TURN; i++)
      if (tile + i < n_tiles)
        decode_values<COLS>(o, sum, factor[i], values + i * ATTN_KEYS * COLS, share + i);
    slot[0] = slot[1], slot[1] = slot[2], slot[2] = values;
  }
  decode_end<COLS>(o, sum, c, p, column);
}

/* ---- f32, f16 ---- */

/* As attn_spread_scores_kernel, for A f32 or f16. The scores are not capped yet and their largest are not
 * kept. The grid is B * G * parts * every. Shared memory has queries [F32_ROWS,D] and keys
 * [D,ATTN_F32_LD]. */
template <class A> __global__ void __launch_bounds__(THREADS) attn_spread_f32_scores_kernel(spread_tiles w) {
  TRI_SHARED_DYNAMIC(float, queries);
  const decode_call &c = w.decode;
  float             *keys = queries + F32_ROWS * c.D, s[F32_R];
  decode_place       p = decode_find(c, F32_ROWS, blockIdx.x / w.every);
  int                lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int                first = attn_first_tile<ATTN_F32_KEYS>(c.rule, p.len - 1);

  decode_f32_queries<A>(queries, c, p);
  for (int tile = blockIdx.x % w.every, key; (key = first + tile * ATTN_F32_KEYS) < p.len; tile += w.every) {
    __syncthreads(); /* all threads have read the keys of the tile before */
    decode_f32_keys(keys, (const A *)c.k_page + decode_page(c, p, key), c.D, p.len - key);
    __syncthreads();
    attn_f32_scores(s, queries + warp * F32_R * c.D, keys, c.D);
#pragma unroll
    for (int r = 0; r < F32_R; r++) {
      int row = warp * F32_R + r;
      if (row < p.n) spread_scores<ATTN_F32_KEYS>(w, p, tile)[row * ATTN_F32_KEYS + lane] = s[r];
    }
  }
}

/* As attn_spread_values_kernel, for A f32 or f16. The grid is B * G * parts * columns. */
template <class A>
__global__ void __launch_bounds__(THREADS) attn_spread_f32_values_kernel(spread_call w, int columns) {
  TRI_SHARED(float, values, [ATTN_F32_KEYS * COLS]);
  TRI_SHARED(float, weights, [WARPS][F32_R * ATTN_F32_KEYS]);
  const decode_call      &c = w.decode;
  decode_place            p = decode_find(c, F32_ROWS, blockIdx.x / columns);
  int                     column = blockIdx.x % columns * COLS;
  int                     tile = 0, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  attn_f32_rows<F32_R, 1> a;

  attn_f32_begin(a);
  for (int key = attn_first_tile<ATTN_F32_KEYS>(c.rule, p.len - 1); key < p.len; key += ATTN_F32_KEYS) {
    const float *from = spread_scores<ATTN_F32_KEYS>(w, p, tile++);
    float        s[F32_R];
    __syncthreads(); /* all threads have read the tile before */
    attn_f32_values<1>(values, (const A *)c.v_page + decode_page(c, p, key) + column, c.D, p.len - key,
                       c.D - column);
#pragma unroll
    for (int r = 0; r < F32_R; r++) {
      int row = warp * F32_R + r;
      s[r] = row < p.n ? from[row * ATTN_F32_KEYS + lane] : 0.0f;
    }
    __syncthreads();
    attn_f32_join(a, s, values, weights[warp], c.rule, p.len - key, 0);
  }
#pragma unroll
  for (int r = 0; r < F32_R; r++) {
    int64_t row = (int64_t)p.b * c.H + p.h + warp * F32_R + r;
    if (warp * F32_R + r < p.n) attn_f32_end(a, r, (A *)c.o + row * c.D + column, c.D - column);
  }
}

/* Blocks of scores per multiprocessor, a few more than run at once. Chosen. */
enum { WAVES = 8 };

tri_status tri_cuda_attn_spread(tri_stream *s, const decode_call &c, tri_dtype A, int64_t B, tri_out work) {
  int         tile = A == TRI_BF16 ? ATTN_KEYS / TRI_PAGE : ATTN_F32_KEYS / TRI_PAGE; /* pages */
  int         columns = (c.D + COLS - 1) / COLS;
  int64_t     blocks = B * c.G * c.parts;
  spread_call w = {c, (float *)work->data, NULL, (c.P + tile - 1) / tile};
  tri_heads   h = {c.H, c.G, c.D};
  int64_t     fill = tri_blocks((int64_t)WAVES * tri_cuda_n_sm(s), (int)blocks); /* P may be far too large */
  int         every = (int)(fill < w.tiles ? fill : w.tiles);
  unsigned    tiles = (unsigned)(blocks * every), grid = (unsigned)(blocks * columns);

  TRI_ASSERT(work->dtype == TRI_F32 && tri_tensor_count(work) >= tri_attn_spread_work(&h, B, c.P));
  TRI_ASSERT((uintptr_t)work->data % 16 == 0 && blocks * w.tiles <= INT32_MAX);
  w.best = w.scores + B * c.H * w.tiles * tile * TRI_PAGE;
  const spread_tiles t = {w, every};
#define LAUNCH(D)                                                                                            \
  TRI_LAUNCH(attn_spread_scores_kernel<D>, tiles, THREADS, (ROWS + ATTN_KEYS) * D * sizeof(tri_bf16), s, t)
  if (A == TRI_BF16)
    TRI_TRY(c.D <= 64 ? LAUNCH(64) : c.D <= 96 ? LAUNCH(96) : c.D <= 128 ? LAUNCH(128) : LAUNCH(256));
#undef LAUNCH
#define LAUNCH(VEC, RULED)                                                                                   \
  TRI_LAUNCH((attn_spread_values_kernel<VEC, RULED>), grid, THREADS, RING *TURN_SLOT * sizeof(tri_bf16), s,  \
             w, columns)
  if (A == TRI_BF16 && attn_is_ruled(c.rule))
    return tri_vec8(c.D, c.v_page) ? LAUNCH(true, true) : LAUNCH(false, true);
  if (A == TRI_BF16) return tri_vec8(c.D, c.v_page) ? LAUNCH(true, false) : LAUNCH(false, false);
#undef LAUNCH
#define LAUNCH(A)                                                                                            \
  TRI_LAUNCH(attn_spread_f32_scores_kernel<A>, tiles, THREADS,                                               \
             sizeof(float) * (size_t)(c.D * (F32_ROWS + ATTN_F32_LD)), s, t)
  TRI_TRY(A == TRI_F16 ? LAUNCH(tri_f16) : LAUNCH(float));
#undef LAUNCH
#define LAUNCH(A) TRI_LAUNCH(attn_spread_f32_values_kernel<A>, grid, THREADS, 0, s, w, columns)
  return A == TRI_F16 ? LAUNCH(tri_f16) : LAUNCH(float);
#undef LAUNCH
}
