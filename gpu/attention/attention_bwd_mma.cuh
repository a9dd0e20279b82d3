/* attention_bwd_mma.cuh - the gradient of attention for bf16 rows: the work of a block, by warp products.
 * Private to its room.
 *
 * A warp can hold the sums of 32 rows of one gradient (16 rows of 256 columns), so each load of the other
 * side serves 32 rows. Keys need two gradients, so two warps share 32 keys. One computes P and dv. The other
 * computes dP, and then dS and dk from the P it receives in f32 through shared memory. Each warp does two
 * products, and no product is done twice.
 *
 * P and dS enter their products rounded to bf16, as in FlashAttention-2 and -3 (csrc/flash_attn of
 * Dao-AILab/flash-attention). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_ATTENTION_BWD_MMA_CUH
#define TRI_GPU_ATTENTION_BWD_MMA_CUH

#include "attention_bwd_tile.cuh"

static constexpr float BWD_LOG2E = 1.44269504f; /* 1 / ln 2 */

/* The shape of a block that owns keys or queries, with head width D. It is chosen to fit a warp's registers
 * and the shared memory of sm_90 with BLOCKS blocks. The registers of a thread hold the sums (PARTS D / 2),
 * the scores (PARTS SEEN / 2, twice for queries), and for keys the warp's own rows (PARTS D / 4). Shared
 * memory has two tiles of the other side, so one loads during the work on the other. SMALL is the form for 99
 * KiB of shared memory. Its tiles have half the rows, and queries of 256 columns use a single tile. Both
 * forms sum 16 rows at a time. */
template <int D, bool KEYS, bool RULED = false, bool SMALL = false> struct bwd_shape {
  static constexpr int WARPS = 4, THREADS = 32 * WARPS;
  static constexpr int PARTS = D > (RULED ? 96 : 128) ? 1 : 2, ROWS = 16 * PARTS; /* rows of a warp */
  static constexpr int OWN = KEYS ? ROWS * WARPS / 2 : ROWS * WARPS;
  static constexpr int SEEN = SMALL || (!KEYS && D > 128) ? 16 : 32;
  static constexpr int STAGES = SMALL && !KEYS && D > 128 ? 1 : 2; /* tiles of the other side */
  static constexpr int BLOCKS = D <= 64 && !RULED ? 3 : 2;
  static constexpr int ROW = D + 8; /* in shared memory, 8 rows' 16 bytes lie in different banks */
  static constexpr int TILE = SEEN * ROW, STAGE = 2 * TILE + 4 * SEEN; /* two bf16 tiles, two f32 rows */
  static constexpr int HANDED = KEYS ? ROWS * SEEN : 0;                /* f32 for a pair of warps */
  static constexpr int BYTES =
      (2 * OWN * ROW + STAGES * STAGE) * (int)sizeof(tri_bf16) + 2 * HANDED * (int)sizeof(float);
};

/* Loads D columns from `column` on, of ROWS rows from `first` on, of an array with `stride` columns. Rows
 * from first + left on become 0. Each address is the previous one plus a step. With products of stride the
 * compiler would keep all addresses in registers. */
template <int D, int ROWS>
static __device__ __forceinline__ void bwd_fetch(tri_bf16 *to, const void *base, int first, int stride,
                                                 int column, int left) {
  constexpr int   WIDE = D % 128 == 0 ? 16 : D % 64 == 0 ? 8 : 4; /* threads per row */
  constexpr int   STEP = bwd_shape<D, true>::THREADS / WIDE, ROW = bwd_shape<D, true>::ROW;
  int             row = threadIdx.x / WIDE, col = threadIdx.x % WIDE * TRI_UNIT;
  const tri_bf16 *from = (const tri_bf16 *)base + ((int64_t)(first + row) * stride + (column + col));

  static_assert(ROWS % STEP == 0 && D % (WIDE * TRI_UNIT) == 0, "whole turns");
  to += row * ROW + col;
  stride *= STEP;
#pragma unroll
  for (int i = 0; i < ROWS; i += STEP, from += stride)
#pragma unroll
    for (int d = 0; d < D; d += WIDE * TRI_UNIT) tri_cp_async16(to + i * ROW + d, from + d, row + i < left);
}
/* Load two such tiles, one behind the other, of the block's sequence from `row` on. They hold keys and
 * values, or queries and dout of a head. */
template <int D, int ROWS>
static __device__ __forceinline__ void bwd_fetch_keys(tri_bf16 *to, const bwd_call &c, const bwd_place &w,
                                                      int row) {
  int column = (c.H + w.kv) * D;
  bwd_fetch<D, ROWS>(to, c.qkv, w.start + row, c.E, column, w.len - row);
  to += ROWS * bwd_shape<D, true>::ROW;
  bwd_fetch<D, ROWS>(to, c.qkv, w.start + row, c.E, column + c.G * D, w.len - row);
}
template <int D, int ROWS>
static __device__ __forceinline__ void bwd_fetch_queries(tri_bf16 *to, const bwd_call &c, const bwd_place &w,
                                                         int row, int head) {
  bwd_fetch<D, ROWS>(to, c.qkv, w.start + row, c.E, head * D, w.len - row);
  to += ROWS * bwd_shape<D, true>::ROW;
  bwd_fetch<D, ROWS>(to, c.dout, w.start + row, c.H * D, head * D, w.len - row);
}

/* The offset of a lane for ldmatrix. The first is for a left operand or rows to be added. The second is for
 * the rows scores are computed with. Callers keep these offsets and move them from tile to tile. If they were
 * computed anew at each tile, the compiler would keep a register for every load. */
template <int D> static __device__ __forceinline__ int bwd_lane() {
  int lane = threadIdx.x % 32;
  return lane % 16 * bwd_shape<D, true>::ROW + lane / 16 * 8;
}
template <int D> static __device__ __forceinline__ int bwd_score_lane() {
  int lane = threadIdx.x % 32;
  return (lane / 16 * 8 + lane % 8) * bwd_shape<D, true>::ROW + lane / 8 % 2 * 8;
}

/* Loads columns d .. d + 15 of a warp's own rows [16 PARTS,D] as left operand. `own` is the first row plus
 * bwd_lane. */
template <int D, int PARTS>
static __device__ __forceinline__ void bwd_left(uint32_t (&a)[PARTS][4], const tri_bf16 *own, int d) {
#pragma unroll
  for (int m = 0; m < PARTS; m++) tri_ldmatrix<4, false>(a[m], own + m * 16 * bwd_shape<D, true>::ROW + d);
}

/* s [16 PARTS,SEEN] = own [16 PARTS,D] seen [SEEN,D]^T, for a warp. left(a, d) works like bwd_left. `seen` is
 * the tile plus bwd_score_lane. */
template <int D, int PARTS, int SEEN, class L>
static __device__ __forceinline__ void bwd_scores(float (&s)[PARTS][SEEN / 8][4], const L &left,
                                                  const tri_bf16 *seen) {
  constexpr int ROW = bwd_shape<D, true>::ROW;

#pragma unroll
  for (int m = 0; m < PARTS; m++)
#pragma unroll
    for (int j = 0; j < SEEN / 8; j++) s[m][j][0] = s[m][j][1] = s[m][j][2] = s[m][j][3] = 0;
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    uint32_t a[PARTS][4];
    left(a, d);
#pragma unroll
    for (int j = 0; j < SEEN / 8; j += 2) {
      uint32_t r[4];
      tri_ldmatrix<4, false>(r, seen + j * 8 * ROW + d);
      uint32_t b0[2] = {r[0], r[1]}, b1[2] = {r[2], r[3]};
#pragma unroll
      for (int m = 0; m < PARTS; m++) {
        tri_mma_bf16(s[m][j], a[m], b0);
        tri_mma_bf16(s[m][j + 1], a[m], b1);
      }
    }
  }
}

/* sum [16 PARTS,D] += x [16 PARTS,SEEN] rows [SEEN,D], for a warp, with x rounded to bf16. `rows` is the tile
 * plus bwd_lane. */
template <int D, int PARTS, int SEEN>
static __device__ __forceinline__ void bwd_add(float (&sum)[PARTS][D / 8][4],
                                               const float (&x)[PARTS][SEEN / 8][4], const tri_bf16 *rows) {
  constexpr int ROW = bwd_shape<D, true>::ROW;

#pragma unroll
  for (int j = 0; j < SEEN / 8; j += 2) {
    uint32_t a[PARTS][4];
#pragma unroll
    for (int i = 0; i < 4 * PARTS; i++) { /* two columns of eight, rows lane / 4 and 8 further */
      const float(&from)[4] = x[i / 4][j + i % 4 / 2];
      a[i / 4][i % 4] = tri_round2(from[i % 2 * 2], from[i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int d = 0; d < D; d += 32) {
      uint32_t r[2][4];
      tri_ldmatrix<4, true>(r[0], rows + j * 8 * ROW + d);
      tri_ldmatrix<4, true>(r[1], rows + j * 8 * ROW + d + 16);
#pragma unroll
      for (int i = 0; i < 4 * PARTS; i++) {
        int      n = i % 4, m = i / 4;
        uint32_t b[2] = {r[n / 2][n % 2 * 2], r[n / 2][n % 2 * 2 + 1]};
        tri_mma_bf16(sum[m][d / 8 + n], a[m], b);
      }
    }
  }
}

/* Stores a warp's sums [16,D] times scale to rows `stride` elements apart. The sequence has `left` more
 * rows. */
static __device__ __forceinline__ void bwd_put2(tri_bf16 *to, float x, float y) {
  *(uint32_t *)to = tri_round2(x, y);
}
static __device__ __forceinline__ void bwd_put2(float *to, float x, float y) {
  *(float2 *)to = make_float2(x, y);
}
template <int D, class A>
static __device__ __forceinline__ void bwd_store(A *to, int stride, const float (&sum)[D / 8][4], int left,
                                                 float scale) {
  int lane = threadIdx.x % 32;

#pragma unroll
  for (int half = 0; half < 2; half++) {
    int row = lane / 4 + 8 * half;
    if (row < left) {
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        bwd_put2(to + row * stride + n * 8 + lane % 4 * 2, sum[n][2 * half] * scale,
                 sum[n][2 * half + 1] * scale);
    }
  }
}

/* ---- blocks of keys ---- */

/* Returns whether this warp computes dv. Warps 2 i and 2 i + 1 of a block share keys, the first computes dv
 * and the second dk. */
static __device__ __forceinline__ bool bwd_makes_dv() { return threadIdx.x / 32 % 2 == 0; }

/* If scores are capped, turns a product into its capped score and sets slope to the derivative there. */
static __device__ __forceinline__ void bwd_rule(float &x, float &slope, const attn_rule &rule) {
  if (rule.cap > 0) {
    x = tri_softcap(x, rule.cap, rule.inverse);
    slope = tri_softcap_slope(x, rule.inverse_cap);
  }
}

/* Lets a warp's own keys or values (`left`, as bwd_left) meet a tile of queries and dout. P = exp(scale q k -
 * lse), dS = P (dout v - delta). `seen` is the side of the tile for the warp's scores (bwd_scores), `rows` is
 * the other side (bwd_add). `row` points to the lane's lse / ln 2, or delta, of every 8 queries. `handed` is
 * in shared memory, the lane's place of the pair. `ahead` is the lane's first own row minus its first row in
 * the tile, in rows of the sequence. With RULED, P follows the rule's scores. If these are capped, P is
 * handed over times their slope. */
template <int D, bool RULED, bool SMALL, class L>
static __device__ __forceinline__ void
bwd_meet_queries(float (&sum)[bwd_shape<D, true, RULED>::PARTS][D / 8][4], const L &left,
                 const tri_bf16 *seen, const tri_bf16 *rows, const float2 *row, float4 *handed,
                 const attn_rule &rule, int ahead) {
  typedef bwd_shape<D, true, RULED, SMALL> shape;
  constexpr int                            SEEN = shape::SEEN, PARTS = shape::PARTS, COLS = SEEN / 8;
  bool                                     dv = bwd_makes_dv();
  float                                    s[PARTS][COLS][4], scale_log2 = attn_scale_log2<RULED>(rule);

  bwd_scores<D, PARTS, SEEN>(s, left, seen);
  if (RULED && dv) {
    bool border = ahead + shape::ROWS - 8 > 0 || ahead - SEEN + 1 + rule.window <= 0;
#pragma unroll
    for (int j = 0; j < COLS; j++) {
      float2 lse = row[j * 4];
#pragma unroll
      for (int m = 0; m < PARTS; m++) {
        float slope[4] = {1.0f, 1.0f, 1.0f, 1.0f};
        float(&x)[4] = s[m][j];
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int  apart = ahead + m * 16 + e / 2 * 8 - j * 8 - e % 2;
          bool sees = !border || (apart <= 0 && apart > -rule.window);
          bwd_rule(x[e], slope[e], rule);
          x[e] = sees ? tri_exp2(fmaf(x[e], scale_log2, e % 2 ? -lse.y : -lse.x)) : 0.0f;
        }
        handed[(m * COLS + j) * 32] =
            make_float4(x[0] * slope[0], x[1] * slope[1], x[2] * slope[2], x[3] * slope[3]);
      }
    }
  } else if (dv) {
    if (ahead + shape::ROWS - 8 > 0) {
#pragma unroll
      for (int i = 0; i < PARTS * COLS * 4; i++) {
        int e = i % 4, j = i / 4 % COLS, m = i / 4 / COLS;
        if (ahead + m * 16 + e / 2 * 8 - j * 8 - e % 2 > 0) s[m][j][e] = -INFINITY;
      }
    }
#pragma unroll
    for (int j = 0; j < COLS; j++) {
      float2 lse = row[j * 4];
#pragma unroll
      for (int i = 0; i < PARTS * 4; i++) {
        float &x = s[i / 4][j][i % 4];
        x = tri_exp2(fmaf(x, scale_log2, i % 2 ? -lse.y : -lse.x));
      }
    }
#pragma unroll
    for (int i = 0; i < PARTS * COLS; i++) {
      const float(&p)[4] = s[i / COLS][i % COLS];
      handed[i * 32] = make_float4(p[0], p[1], p[2], p[3]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < COLS; j++) {
      float2 delta = row[j * 4];
#pragma unroll
      for (int i = 0; i < PARTS * 4; i++) s[i / 4][j][i % 4] -= i % 2 ? delta.y : delta.x;
    }
  }
  threadIdx.x < 64 ? tri_barrier(1, 64) : tri_barrier(2, 64);
  if (!dv) {
#pragma unroll
    for (int i = 0; i < PARTS * COLS; i++) {
      float(&ds)[4] = s[i / COLS][i % COLS];
      float4 p = handed[i * 32];
      ds[0] *= p.x, ds[1] *= p.y, ds[2] *= p.z, ds[3] *= p.w;
    }
  }
  bwd_add<D, PARTS, SEEN>(sum, s, rows);
}

/* Does the work of a block of keys: dv = P dout, dk = scale dS q. w is in shared memory, so its members need
 * no registers between uses. */
template <int D, bool RULED, bool SMALL>
static __device__ __forceinline__ void bwd_keys(const bwd_call &c, const bwd_place &w, tri_bf16 *shared) {
  typedef bwd_shape<D, true, RULED, SMALL> shape;
  constexpr int   OWN = shape::OWN, SEEN = shape::SEEN, TILE = shape::TILE, PARTS = shape::PARTS;
  int             lane = threadIdx.x % 32, pair = threadIdx.x / 64, row = w.first, head = w.head;
  bool            dv = bwd_makes_dv();
  float           value; /* this thread's lse / ln 2 or delta of the tile being loaded */
  tri_bf16       *own = shared, *tile = own + 2 * OWN * shape::ROW;
  const tri_bf16 *seen = tile + (dv ? 0 : TILE) + bwd_score_lane<D>();
  const tri_bf16 *rows = tile + (dv ? TILE : 0) + bwd_lane<D>();
  const float2   *stat = (const float2 *)(tile + 2 * TILE) + (dv ? 0 : SEEN / 2) + lane % 4;
  float4         *handed = (float4 *)(tile + 2 * shape::STAGE) + pair * shape::HANDED / 4 + lane;
  int             flip = shape::STAGE; /* step to the next tile */
  float           sum[PARTS][D / 8][4] = {};
  uint32_t        held[D / 16][PARTS][4];
  int             end = RULED ? bwd_end(c, w, OWN) : w.len;

  auto mine = [&] { return w.first + pair * shape::ROWS; }; /* the warp's first own row */
  auto fetch = [&](int at) {
    int query = row + (int)threadIdx.x % SEEN;
    bwd_fetch_queries<D, SEEN>(tile + at, c, w, row, head);
    tri_cp_commit();
    value = threadIdx.x < SEEN ? bwd_lse(c, w, query, head) * BWD_LOG2E : bwd_delta(c, w, query, head);
  };
  auto keep = [&](int at) {
    if (threadIdx.x < 2 * SEEN) ((float *)(tile + at + 2 * TILE))[threadIdx.x] = value;
  };
  auto left = [&](uint32_t(&a)[PARTS][4], int d) {
#pragma unroll
    for (int i = 0; i < 4 * PARTS; i++) a[i / 4][i % 4] = held[d / 16][i / 4][i % 4];
  };

  bwd_fetch_keys<D, OWN>(own, c, w, w.first);
  fetch(0), keep(0);
  tri_cp_wait<0>();
  __syncthreads();
  own += ((dv ? 0 : OWN) + pair * shape::ROWS) * shape::ROW + bwd_lane<D>();
#pragma unroll
  for (int d = 0; d < D; d += 16) bwd_left<D, PARTS>(held[d / 16], own, d);
  while (head < w.head + w.n_head) {
    int  at = row;
    bool last;
    tri_cp_wait<0>();
    __syncthreads();
    row += SEEN;
    if (row >= end) row = w.first, head++;
    last = head == w.head + w.n_head;
    if (!last) fetch(flip > 0 ? flip : 0);
    if (at + SEEN > mine()) /* otherwise no query sees a key */
      bwd_meet_queries<D, RULED, SMALL>(sum, left, seen, rows, stat, handed, c.rule,
                                        mine() + lane / 4 - at - lane % 4 * 2);
    if (!last) keep(flip > 0 ? flip : 0);
    seen += flip, rows += flip, stat += flip / 4;
    flip = -flip;
  }
#pragma unroll
  for (int m = 0; m < PARTS; m++) {
    int   first = mine() + 16 * m, g = dv ? c.G + w.kv : w.kv;
    float scale = dv ? 1.0f : c.rule.scale;
    if (c.parts == 1)
      bwd_store<D>((tri_bf16 *)c.dqkv + bwd_k(c, w, first, g), c.E, sum[m], w.len - first, scale);
    else
      bwd_store<D>(c.part + bwd_part(c, w, first, g), 2 * c.G * D, sum[m], w.len - first, scale);
  }
}

/* ---- blocks of queries ---- */

/* A thread's part of the sums dS k, and lse / ln 2 and delta of its rows. */
template <int D, bool RULED> struct bwd_state {
  static constexpr int PARTS = bwd_shape<D, false, RULED>::PARTS;
  float                sum[PARTS][D / 8][4], lse[PARTS][2], delta[PARTS][2];
};

/* Lets a warp's own queries, with dout behind them (bwd_left), meet a tile of keys with values behind them.
 * `ahead` is as in bwd_meet_queries. */
template <int D, bool RULED, bool SMALL>
static __device__ __forceinline__ void bwd_meet_keys(bwd_state<D, RULED> *a, const tri_bf16 *own,
                                                     const tri_bf16 *seen, const tri_bf16 *rows,
                                                     const attn_rule &rule, int ahead) {
  typedef bwd_shape<D, false, RULED, SMALL> shape;
  constexpr int                             SEEN = shape::SEEN, PARTS = shape::PARTS, COLS = SEEN / 8;
  float                                     p[PARTS][COLS][4], ds[PARTS][COLS][4];
  float                                     scale_log2 = attn_scale_log2<RULED>(rule);
  auto queries = [&](uint32_t(&x)[PARTS][4], int d) { bwd_left<D, PARTS>(x, own, d); };
  auto douts = [&](uint32_t(&x)[PARTS][4], int d) {
    bwd_left<D, PARTS>(x, own + shape::OWN * shape::ROW, d);
  };

  bwd_scores<D, PARTS, SEEN>(p, queries, seen);
  bwd_scores<D, PARTS, SEEN>(ds, douts, seen + shape::TILE);
  if (RULED) {
    bool border = ahead - SEEN + 8 <= 0 || ahead + shape::ROWS - 8 >= rule.window;
#pragma unroll
    for (int i = 0; i < PARTS * COLS * 4; i++) {
      int   e = i % 4, j = i / 4 % COLS, m = i / 4 / COLS, apart = ahead + m * 16 + e / 2 * 8 - j * 8 - e % 2;
      float x = p[m][j][e], slope = 1.0f;
      bool  sees = !border || (apart >= 0 && apart < rule.window);
      bwd_rule(x, slope, rule);
      x = sees ? tri_exp2(fmaf(x, scale_log2, -a->lse[m][e / 2])) : 0.0f;
      ds[m][j][e] = x * slope * (ds[m][j][e] - a->delta[m][e / 2]);
    }
  } else {
    if (ahead - SEEN + 8 <= 0) {
#pragma unroll
      for (int i = 0; i < PARTS * COLS * 4; i++) {
        int e = i % 4, j = i / 4 % COLS, m = i / 4 / COLS;
        if (ahead + m * 16 + e / 2 * 8 - j * 8 - e % 2 < 0) p[m][j][e] = -INFINITY;
      }
    }
#pragma unroll
    for (int i = 0; i < PARTS * COLS * 4; i++) {
      int e = i % 4, j = i / 4 % COLS, m = i / 4 / COLS;
      p[m][j][e] = tri_exp2(fmaf(p[m][j][e], scale_log2, -a->lse[m][e / 2]));
      ds[m][j][e] = p[m][j][e] * (ds[m][j][e] - a->delta[m][e / 2]);
    }
  }
  bwd_add<D, PARTS, SEEN>(a->sum, ds, rows);
}

/* Does the work of a block of queries: dq = scale dS k. w is as in bwd_keys. */
template <int D, bool RULED, bool SMALL>
static __device__ __forceinline__ void bwd_queries(const bwd_call &c, const bwd_place &w, tri_bf16 *shared) {
  typedef bwd_shape<D, false, RULED, SMALL> shape;
  constexpr int                             OWN = shape::OWN, SEEN = shape::SEEN;
  constexpr bool      ALONE = shape::STAGES == 1; /* one tile only, used before the next loads */
  int                 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  tri_bf16           *own = shared, *tile = own + 2 * OWN * shape::ROW;
  const tri_bf16     *seen = tile + bwd_score_lane<D>(), *rows = tile + bwd_lane<D>();
  int                 flip = ALONE ? 0 : shape::STAGE; /* step to the next tile */
  bwd_state<D, RULED> a = {};
  int                 from = RULED ? attn_first_tile<SEEN>(c.rule, w.first) : 0;

  auto mine = [&] { return w.first + warp * shape::ROWS; }; /* the warp's first own row */
  auto end = [&] { return w.first + OWN < w.len ? w.first + OWN : w.len; };
  bwd_fetch_queries<D, OWN>(own, c, w, w.first, w.head);
  bwd_fetch_keys<D, SEEN>(tile, c, w, from);
  tri_cp_commit();
#pragma unroll
  for (int i = 0; i < 2 * shape::PARTS; i++) {
    a.lse[i / 2][i % 2] = bwd_lse(c, w, mine() + lane / 4 + 8 * i, w.head) * BWD_LOG2E;
    a.delta[i / 2][i % 2] = bwd_delta(c, w, mine() + lane / 4 + 8 * i, w.head);
  }
  own += warp * shape::ROWS * shape::ROW + bwd_lane<D>();
  for (int row = from; row < end(); row += SEEN) {
    tri_cp_wait<0>();
    __syncthreads();
    if (!ALONE && row + SEEN < end()) bwd_fetch_keys<D, SEEN>(tile + (flip > 0 ? flip : 0), c, w, row + SEEN);
    if (!ALONE) tri_cp_commit();
    if (row < mine() + shape::ROWS) /* otherwise no query sees a key */
      bwd_meet_keys<D, RULED, SMALL>(&a, own, seen, rows, c.rule, mine() + lane / 4 - row - lane % 4 * 2);
    if (ALONE && row + SEEN < end()) {
      __syncthreads(); /* all warps have finished with the tile */
      bwd_fetch_keys<D, SEEN>(tile, c, w, row + SEEN);
      tri_cp_commit();
    }
    seen += flip, rows += flip;
    flip = -flip;
  }
#pragma unroll
  for (int m = 0; m < shape::PARTS; m++) {
    int first = mine() + 16 * m;
    bwd_store<D>((tri_bf16 *)c.dqkv + bwd_q(c, w, first, w.head), c.E, a.sum[m], w.len - first, c.rule.scale);
  }
}

#endif
