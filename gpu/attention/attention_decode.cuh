/* attention_decode.cuh - the common parts of the kernels of attn_decode: the place of a block, and the steps
 * of a bf16 tile. One block and many blocks (attention_spread.cu) thus compute a row alike. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_ATTENTION_DECODE_CUH
#define TRI_GPU_ATTENTION_DECODE_CUH

#include "attention_tile.cuh"

struct decode_call {              /* the arguments of one attn_decode */
  void          *o;               /* A [B,H*D] */
  const void    *qkv;             /* A [B,E] */
  const void    *k_page, *v_page; /* A [n_pages,G,D,TRI_PAGE], [n_pages,G,TRI_PAGE,D] */
  const int32_t *table, *len;     /* i32 [B,P], [B] */
  int64_t        E, n_pages;
  int            P, H, G, D, parts; /* parts counts the blocks sharing the query heads of a key/value head */
  attn_rule      rule;
};

struct decode_place { /* the work of a block, heads h .. h + n - 1 of row b, all of key/value head g */
  int            b, g, h, n, len;
  const int32_t *pages; /* the row's page table */
};
/* `rows` is the most heads of one block. `block` counts through B * G * parts. */
static __device__ __forceinline__ decode_place decode_find(const decode_call &c, int rows, unsigned block) {
  decode_place p;
  int          group = c.H / c.G, part = block % c.parts;

  p.g = block / c.parts % c.G;
  p.b = block / (c.parts * c.G);
  p.h = p.g * group + part * rows;
  p.n = group - part * rows < rows ? group - part * rows : rows;
  p.len = c.len[p.b];
  p.pages = c.table + (int64_t)p.b * c.P;
  TRI_KERNEL_ASSERT(p.len > 0 && p.len <= c.P * TRI_PAGE);
  return p;
}
/* Returns the offset in elements of the head's keys and values in the page of key `key`. Behind the last key
 * it is that of page 0. */
static __device__ __forceinline__ int64_t decode_page(const decode_call &c, const decode_place &p, int key) {
  int page = key < p.len ? p.pages[key / TRI_PAGE] : 0;
  TRI_KERNEL_ASSERT(page >= 0 && page < c.n_pages);
  return ((int64_t)page * c.G + p.g) * c.D * TRI_PAGE;
}

enum { ROWS = 16, WARPS = 4, THREADS = WARPS * 32, HALVES = ATTN_KEYS / TRI_PAGE, RING = 3 };

/* The shape of a block for heads padded to D columns. Each warp has the scores of 16 keys of a tile, then D /
 * 4 columns of o. Loads run RING - 1 half tiles ahead. SMALL is the form for 99 KiB of shared memory. */
template <int D, bool SMALL = false> struct decode_shape {
  static constexpr int RING = SMALL ? 2 : (int)::RING;
  static constexpr int SLOT = ATTN_KEYS * D,
                       N = D / 32; /* elements of a ring slot, n8 fragments of a warp's o */
  static constexpr int SHARED = (ROWS * D + RING * SLOT) * (int)sizeof(tri_bf16);
  static constexpr int PER_SM = D <= 128 ? 4 : 2; /* blocks, by shared memory, enough for copies in flight */
};

struct decode_share { /* exchanged by the warps about a tile */
  tri_bf16 weights[ROWS * ATTN_KEYS];
  float    best[ROWS][WARPS];  /* largest score of each warp's keys */
  float    part[WARPS][32][2]; /* attn_lane_sum of each warp's keys, rows lane / 4 and 8 further */
};

/* Loads keys of two pages to a slot [D][ATTN_KEYS], transposed as in the pages. */
template <int D>
static __device__ __forceinline__ void decode_load_keys(tri_bf16 *slot, const decode_call &c,
                                                        const int64_t (&page)[HALVES], int n) {
  int             chunk = threadIdx.x % 8, row = threadIdx.x / 8;
  const tri_bf16 *from =
      (const tri_bf16 *)c.k_page + (chunk < 4 ? page[0] : page[1]) + row * TRI_PAGE + chunk % 4 * 8;

#pragma unroll
  for (int i = 0; i < D; i += THREADS / 8)
    tri_cp_async16(slot + attn_at<ATTN_KEYS>(row + i, chunk), from + i * TRI_PAGE,
                   row + i < c.D && chunk * 8 < n);
}
template <int D, bool VEC>
static __device__ __forceinline__ void decode_load_values(tri_bf16 *slot, const decode_call &c,
                                                          const int64_t (&page)[HALVES], int n) {
#pragma unroll
  for (int i = 0; i < HALVES; i++)
    attn_load<D, TRI_PAGE, THREADS, VEC>(slot + i * TRI_PAGE * D, (const tri_bf16 *)c.v_page + page[i], c.D,
                                         n - i * TRI_PAGE, c.D);
}

/* Computes the scores of the rows with this warp's 16 keys of a tile. The tile has n keys left, and those
 * from n - window on are seen. The largest scores go to `best`. */
template <int D, bool RULED>
static __device__ __forceinline__ void decode_scores(float (&s)[2][4], const uint32_t (&q)[D / 16][4],
                                                     const tri_bf16 *keys, int n, const attn_rule &rule,
                                                     decode_share *share) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int at = attn_at<ATTN_KEYS>(lane % 16, 2 * warp + lane / 16);

#pragma unroll
  for (int i = 0; i < D / 16; i++) {
    uint32_t k[4];
    tri_ldmatrix<4, true>(k, keys + i * 16 * ATTN_KEYS + at);
#pragma unroll
    for (int f = 0; f < 2; f++) {
      uint32_t b[2] = {k[2 * f], k[2 * f + 1]};
      tri_mma_bf16(s[f], q[i], b);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float best = -INFINITY;
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float *x = &s[e / 2][2 * r + e % 2];
      int    key = warp * 16 + e / 2 * 8 + lane % 4 * 2 + e % 2;
      if (RULED && rule.cap > 0) *x = tri_softcap(*x, rule.cap, rule.inverse);
      if (key >= n || (RULED && key < n - rule.window)) *x = -INFINITY;
      best = fmaxf(best, *x);
    }
    best = attn_quad_max(best);
    if (lane % 4 == 0) share->best[lane / 4 + 8 * r][warp] = best;
  }
}

/* Returns the largest score of a row in the tile, once all warps know theirs. */
static __device__ __forceinline__ float decode_best(const decode_share *share, int row) {
  const float *best = share->best[row];
  return fmaxf(fmaxf(best[0], best[1]), fmaxf(best[2], best[3]));
}

/* Turns the scores of row lane / 4 + 8 r with the tile's 16 keys from 16 `sixteen` on into weights, which all
 * warps need. */
template <bool RULED>
static __device__ __forceinline__ void decode_weights(const float (&s)[2][4], int r, float reference,
                                                      float scale_log2, int sixteen, decode_share *share) {
  int   lane = threadIdx.x % 32, row = lane / 4 + 8 * r;
  float p[4];

#pragma unroll
  for (int e = 0; e < 4; e++)
    p[e] = attn_weight(s[e / 2][2 * r + e % 2], scale_log2, attn_at_reference<RULED>(reference));
#pragma unroll
  for (int f = 0; f < 2; f++)
    *(uint32_t *)(share->weights + attn_at<ATTN_KEYS>(row, 2 * sixteen + f) + lane % 4 * 2) =
        tri_round2(p[2 * f], p[2 * f + 1]);
  share->part[sixteen][lane][r] = attn_lane_sum(p[0], p[1], p[2], p[3]);
}

/* o += weights times the values of a tile, for this warp's columns. sum += weights. */
template <int D>
static __device__ __forceinline__ void decode_values(float (&o)[decode_shape<D>::N][4], float (&sum)[2],
                                                     const float (&factor)[2], const tri_bf16 *values,
                                                     const decode_share *share) {
  constexpr int N = decode_shape<D>::N;
  int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t      p[ATTN_KEYS / 16][4];

#pragma unroll
  for (int i = 0; i < ATTN_KEYS / 16; i++)
    tri_ldmatrix<4, false>(p[i], share->weights + attn_at<ATTN_KEYS>(lane % 16, 2 * i + lane / 16));
#pragma unroll
  for (int r = 0; r < 2; r++)
    sum[r] = fmaf(sum[r], factor[r],
                  attn_lane_sum(share->part[0][lane][r], share->part[1][lane][r], share->part[2][lane][r],
                                share->part[3][lane][r]));
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) o[n][e] *= factor[e / 2];
#pragma unroll
  for (int i = 0; i < ATTN_KEYS / 32; i++)
#pragma unroll
    for (int n = 0; n < N; n++) {
      uint32_t v[4];
      tri_ldmatrix<4, true>(v, values + attn_at<D>(32 * i + lane, warp * N + n));
#pragma unroll
      for (int f = 0; f < 2; f++) {
        uint32_t b[2] = {v[2 * f], v[2 * f + 1]};
        tri_mma_bf16(o[n], p[2 * i + f], b);
      }
    }
}

/* Writes the rows to o, this warp's columns from `column` on. */
template <int D>
static __device__ __forceinline__ void decode_end(const float (&o)[decode_shape<D>::N][4],
                                                  const float (&sum)[2], const decode_call &c,
                                                  const decode_place &p, int column) {
  constexpr int N = decode_shape<D>::N;
  int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;

#pragma unroll
  for (int r = 0; r < 2; r++) {
    float     inverse = 1.0f / attn_quad_sum(sum[r]);
    int       row = lane / 4 + 8 * r;
    tri_bf16 *to = (tri_bf16 *)c.o + ((int64_t)p.b * c.H + p.h + row) * c.D;
#pragma unroll
    for (int n = 0; n < N; n++) {
      int d = column + (warp * N + n) * 8 + lane % 4 * 2;
      if (row < p.n && d < c.D)
        *(uint32_t *)(to + d) = tri_round2(o[n][2 * r] * inverse, o[n][2 * r + 1] * inverse);
    }
  }
}

/* ---- f32, f16 ---- */

enum { F32_R = 2, F32_ROWS = F32_R * WARPS }; /* rows of a warp, of a block. Chosen. */

/* Loads the block's queries times scale, [F32_ROWS,D], and the first n keys of a page, [D,ATTN_F32_LD]. The
 * rest becomes 0. All threads of the block call it. */
template <class A>
static __device__ __forceinline__ void decode_f32_queries(float *queries, const decode_call &c,
                                                          const decode_place &p) {
  const A *q = (const A *)c.qkv + p.b * c.E + p.h * c.D;
  for (int i = threadIdx.x; i < F32_ROWS * c.D; i += THREADS)
    queries[i] = i < p.n * c.D ? tri_get(q[i]) * c.rule.scale : 0.0f;
}
template <class A>
static __device__ __forceinline__ void decode_f32_keys(float *keys, const A *from, int D, int n) {
  for (int i = threadIdx.x; i < TRI_PAGE * D; i += THREADS)
    keys[i / TRI_PAGE * ATTN_F32_LD + i % TRI_PAGE] = i % TRI_PAGE < n ? tri_get(from[i]) : 0.0f;
}

/* Host. attn_decode of B rows by many blocks each, in attention_spread.cu. A is the type of c's arrays. */
extern "C" tri_status tri_cuda_attn_spread(tri_stream *s, const decode_call &c, tri_dtype A, int64_t B,
                                           tri_out work);

#endif
