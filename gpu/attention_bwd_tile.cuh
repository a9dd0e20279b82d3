/* attention_bwd_tile.cuh - attention's gradient: what a block does, and how by bf16 warp products. Layer 1.
 *
 * Two kinds of blocks, none of which waits for another. A block of keys owns a tile of keys of one key/value
 * head, meets all queries that see them, head after head of the group, and ends with dk and dv. A block of
 * queries owns a tile of queries of one head, meets the keys they see and ends with dq. Both compute the
 * scores: 7 products where blocks of keys that also collect dq need 5, but there are no sums in global
 * memory, and the probabilities go from product to product in registers.
 *
 * Tiles begin at their sequence's first row: a row's sums have one order whatever the batch holds.
 *
 * A probability and its gradient enter their products as two bf16 terms, x = high + low within 2^-17 |x|.
 * With one term the results would err by 2^-9 of the largest term, which is more than the tests' bound for
 * sums in f32 (tried: 0.007 where 0.004 is allowed). The low terms meet operands that are in registers
 * already. */
#ifndef TRI_GPU_ATTENTION_BWD_TILE_CUH
#define TRI_GPU_ATTENTION_BWD_TILE_CUH

#include "gpu/cuda_util.cuh"

/* The gradients a block makes; keys and values may go together. */
enum { BWD_KEY = 1, BWD_VALUE = 2, BWD_QUERY = 4 };

struct bwd_call { /* the arguments of one attn_bwd, on the device */
  void          *dqkv;
  const void    *dout, *qkv;
  const float   *lse, *delta;             /* [N,H]; delta = sum over D of dout o */
  const int32_t *cu;                      /* [S+1] */
  int            N, E, S, H, G, D, group; /* group = H / G */
  float          scale;
};

/* How a launch shares the work: keys and queries to a tile; whether dk and dv are made by blocks of their
 * own. */
struct bwd_plan {
  int  key_tile, query_tile;
  bool apart;
};

struct bwd_place { /* of one block */
  int what;        /* 0: nothing */
  int head, kv;    /* query head (of a block of keys: the first that uses kv), key/value head */
  int start, len;  /* of the sequence: its first row in the batch, its rows */
  int first;       /* of its rows the first that the block owns */
};

/* Places for tiles in all sequences. Those of sequence s stand at cu / tile + s and behind, which is at
 * least as far apart as they need. */
static __host__ __device__ __forceinline__ int64_t bwd_slots(const bwd_call &c, int tile) {
  return c.N / tile + c.S;
}

/* Host. How many blocks bwd_find shares the work among. */
static inline unsigned bwd_blocks(const bwd_call &c, bwd_plan plan) {
  return (unsigned)(bwd_slots(c, plan.key_tile) * (plan.apart ? 2 : 1) * c.G +
                    bwd_slots(c, plan.query_tile) * c.H);
}

/* The place of this block, into shared memory. Long work first: keys from their sequence's start on, then
 * queries from the batch's end. */
static __device__ __forceinline__ void bwd_find(bwd_place *place, const bwd_call &c, bwd_plan plan) {
  if (threadIdx.x == 0) {
    int       per_key = plan.apart ? 2 * c.G : c.G, lo = 0, hi = c.S, tile = plan.key_tile;
    int64_t   at = blockIdx.x, slot = at / per_key;
    bwd_place w;
    if (slot < bwd_slots(c, tile)) {
      int i = (int)(at % per_key);
      w.kv = i % c.G;
      w.head = w.kv * c.group;
      w.what = !plan.apart ? BWD_KEY | BWD_VALUE : i < c.G ? BWD_KEY : BWD_VALUE;
    } else {
      at -= bwd_slots(c, tile) * per_key;
      tile = plan.query_tile;
      slot = bwd_slots(c, tile) - 1 - at / c.H;
      w.head = (int)(at % c.H);
      w.kv = w.head / c.group;
      w.what = BWD_QUERY;
    }
    while (hi - lo > 1) {
      int mid = lo + (hi - lo) / 2;
      if (c.cu[mid] / tile + mid <= slot)
        lo = mid;
      else
        hi = mid;
    }
    w.start = c.cu[lo];
    w.len = c.cu[lo + 1] - c.cu[lo];
    w.first = (int)(slot - (w.start / tile + lo)) * tile;
    if (w.first >= w.len) w.what = 0;
    *place = w;
  }
  __syncthreads();
}

/* Of the tiles of `seen` rows a block of `own` rows meets: how many, and head and first row of the i-th. A
 * block's first row is a multiple of `seen`. Computed at every turn, to hold little in registers. */
struct bwd_rows {
  int head, row;
};
static __device__ __forceinline__ int bwd_count(const bwd_call &c, const bwd_place &w, bool keys, int own,
                                                int seen) {
  int end = w.first + own < w.len ? w.first + own : w.len;
  return keys ? (w.len - w.first + seen - 1) / seen * c.group : (end + seen - 1) / seen;
}
static __device__ __forceinline__ bwd_rows bwd_tile(const bwd_place &w, bool keys, int seen, int i) {
  int      each = (w.len - w.first + seen - 1) / seen, turn = keys ? i / each : 0;
  bwd_rows at = {w.head + turn, keys ? w.first + (i - turn * each) * seen : i * seen};
  return at;
}

/* Element offsets of the sequence's row `row`: of query head h or key/value head g in qkv, of head h in
 * dout. */
static __device__ __forceinline__ int64_t bwd_q(const bwd_call &c, const bwd_place &w, int row, int h) {
  return (int64_t)(w.start + row) * c.E + h * c.D;
}
static __device__ __forceinline__ int64_t bwd_k(const bwd_call &c, const bwd_place &w, int row, int g) {
  return (int64_t)(w.start + row) * c.E + (c.H + g) * c.D;
}
static __device__ __forceinline__ int64_t bwd_o(const bwd_call &c, const bwd_place &w, int row, int h) {
  return ((int64_t)(w.start + row) * c.H + h) * c.D;
}

/* lse or delta of a query; behind the sequence's end what makes its probabilities 0. */
static __device__ __forceinline__ float bwd_lse(const bwd_call &c, const bwd_place &w, int row, int h) {
  return row < w.len ? c.lse[(int64_t)(w.start + row) * c.H + h] : INFINITY;
}
static __device__ __forceinline__ float bwd_delta(const bwd_call &c, const bwd_place &w, int row, int h) {
  return row < w.len ? c.delta[(int64_t)(w.start + row) * c.H + h] : 0.0f;
}

/* ---- bf16 ---- */

static constexpr float BWD_LOG2E = 1.44269504f; /* 1 / ln 2 */

/* A block of head width D that owns keys, or queries. Chosen so that the sums of a warp (D / 2 registers of
 * a thread for 16 rows of one gradient) and its scores (SEEN / 2 for 16 rows, twice) fit its registers, and
 * BLOCKS blocks the shared memory of sm_90. A warp with one gradient has room for 32 rows, which share what
 * it loads of the other side. Two tiles of that side are in shared memory: one comes while the
 * other is met. */
template <int D, bool KEYS> struct bwd_shape {
  static constexpr bool APART = D > 128; /* dk and dv by blocks of their own */
  static constexpr int  WARPS = 4, THREADS = 32 * WARPS;
  static constexpr int  PARTS = KEYS || APART ? 1 : 2; /* of 16 rows, to a warp */
  static constexpr int  OWN = 16 * PARTS * WARPS;
  static constexpr int  SEEN = APART ? 16 : 64 / PARTS;
  static constexpr int  BLOCKS = D <= 64 ? 3 : 2;
  static constexpr int  ROW = D + 8; /* of a tile in shared memory: 8 rows' 16 bytes lie in different banks */
  static constexpr int  TILE = SEEN * ROW, STAGE = 2 * TILE + 4 * SEEN; /* two tiles bf16, two rows f32 */
  static constexpr int  BYTES = (2 * OWN * ROW + 2 * STAGE) * (int)sizeof(tri_bf16);
};

/* Ask for ROWS rows of D elements, `stride` apart; those from `left` on become 0. Addresses are sums, one
 * after the other: as products of stride the compiler would keep all of them in registers. */
template <int D, int ROWS>
static __device__ __forceinline__ void bwd_fetch(tri_bf16 *to, const void *base, int64_t at, int stride,
                                                 int left) {
  constexpr int   WIDE = D % 128 == 0 ? 16 : D % 64 == 0 ? 8 : 4; /* threads of a row */
  constexpr int   STEP = bwd_shape<D, true>::THREADS / WIDE, ROW = bwd_shape<D, true>::ROW;
  int             row = threadIdx.x / WIDE, col = threadIdx.x % WIDE * TRI_UNIT;
  const tri_bf16 *from = (const tri_bf16 *)base + at + row * stride + col;

  static_assert(ROWS % STEP == 0 && D % (WIDE * TRI_UNIT) == 0, "whole turns");
  to += row * ROW + col;
  stride *= STEP;
#pragma unroll
  for (int i = 0; i < ROWS; i += STEP, from += stride)
#pragma unroll
    for (int d = 0; d < D; d += WIDE * TRI_UNIT) tri_cp_async16(to + i * ROW + d, from + d, row + i < left);
}

/* 2^x, 0 below 2^-126. One instruction where tri_exp takes 20; no other kernel needs the bits of what is
 * made of it. */
static __device__ __forceinline__ float bwd_exp2(float x) {
#if TRI_CUDA_EMULATED
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/* s[16 PARTS,SEEN] = own [16 PARTS,D] seen [SEEN,D]^T, of a warp. */
template <int D, int PARTS, int SEEN>
static __device__ __forceinline__ void bwd_scores(float (&s)[PARTS][SEEN / 8][4], const tri_bf16 *own,
                                                  const tri_bf16 *seen) {
  constexpr int ROW = bwd_shape<D, true>::ROW;
  int           lane = threadIdx.x % 32;

  own += lane % 16 * ROW + lane / 16 * 8;
  seen += (lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 8;
#pragma unroll
  for (int m = 0; m < PARTS; m++)
#pragma unroll
    for (int j = 0; j < SEEN / 8; j++) s[m][j][0] = s[m][j][1] = s[m][j][2] = s[m][j][3] = 0;
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    uint32_t a[PARTS][4];
#pragma unroll
    for (int m = 0; m < PARTS; m++) tri_ldmatrix<4, false>(a[m], own + m * 16 * ROW + d);
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

/* A warp's [16,16] as left operand, in two bf16 terms: left and right eight columns. */
struct bwd_terms {
  uint32_t high[4], low[4];
};
static __device__ __forceinline__ bwd_terms bwd_split(const float (&left)[4], const float (&right)[4]) {
  const float x[4][2] = {{left[0], left[1]}, {left[2], left[3]}, {right[0], right[1]}, {right[2], right[3]}};
  bwd_terms   t;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    t.high[i] = tri_round2(x[i][0], x[i][1]);
    t.low[i] = tri_round2(x[i][0] - tri_low(t.high[i]), x[i][1] - tri_high(t.high[i]));
  }
  return t;
}

/* sum[16 PARTS,D] += x [16 PARTS,16] rows [16,D], of a warp. */
template <int D, int PARTS>
static __device__ __forceinline__ void bwd_add(float (&sum)[PARTS][D / 8][4], const bwd_terms (&x)[PARTS],
                                               const tri_bf16 *rows) {
  int lane = threadIdx.x % 32;

  rows += lane % 16 * bwd_shape<D, true>::ROW + lane / 16 * 8;
#pragma unroll
  for (int d = 0; d < D; d += 32) {
    uint32_t r[2][4];
    tri_ldmatrix<4, true>(r[0], rows + d);
    tri_ldmatrix<4, true>(r[1], rows + d + 16);
#pragma unroll
    for (int i = 0; i < 8 * PARTS; i++) { /* an element's two terms as far apart as they can be */
      int      n = i % 4, m = i / 4 % PARTS;
      uint32_t b[2] = {r[n / 2][n % 2 * 2], r[n / 2][n % 2 * 2 + 1]};
      tri_mma_bf16(sum[m][d / 8 + n], i < 4 * PARTS ? x[m].high : x[m].low, b);
    }
  }
}

/* A warp's sums [16,D] times scale to rows of the sequence, of which `left` are left. */
template <int D>
static __device__ __forceinline__ void bwd_store(tri_bf16 *to, int E, const float (&sum)[D / 8][4], int left,
                                                 float scale) {
  int lane = threadIdx.x % 32;

#pragma unroll
  for (int half = 0; half < 2; half++) {
    int row = lane / 4 + 8 * half;
    if (row < left) {
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        *(uint32_t *)(to + row * E + n * 8 + lane % 4 * 2) =
            tri_round2(sum[n][2 * half] * scale, sum[n][2 * half + 1] * scale);
    }
  }
}

/* What one launch of bwd_work knows at compile time. */
template <int D, int WHAT> struct bwd_kind : bwd_shape<D, WHAT != BWD_QUERY> {
  static constexpr bool KEYS = WHAT != BWD_QUERY, DV = (WHAT & BWD_VALUE) != 0, DS = (WHAT & ~BWD_VALUE) != 0;
};

/* A thread's part of the sums P dout, and dS q or dS k; lse / ln 2 and delta of its rows, if they are
 * queries. */
template <int D, int WHAT> struct bwd_state {
  typedef bwd_kind<D, WHAT> kind;
  float p_sum[kind::PARTS][kind::DV ? D / 8 : 1][4], ds_sum[kind::PARTS][kind::DS ? D / 8 : 1][4];
  float lse[kind::PARTS][2], delta[kind::PARTS][2];
};

/* A warp's rows `own` meet the tile `seen`; one of queries is followed by their lse / ln 2 and delta. P =
 * exp(scale q k - lse), dS = P (dout v - delta). ahead: by how many rows of the sequence the thread's first
 * own row is ahead of its first one of the tile; hide: some key is later than some query. */
template <int D, int WHAT>
static __device__ __forceinline__ void bwd_meet(bwd_state<D, WHAT> *a, const tri_bf16 *own,
                                                const tri_bf16 *seen, float scale, int ahead, bool hide) {
  typedef bwd_kind<D, WHAT> kind;
  constexpr int             SEEN = kind::SEEN, TILE = kind::TILE, PARTS = kind::PARTS;
  float                     p[PARTS][SEEN / 8][4], ds[PARTS][kind::DS ? SEEN / 8 : 1][4];
  const float              *row = (const float *)(seen + 2 * TILE) + threadIdx.x % 4 * 2;

  bwd_scores<D, PARTS, SEEN>(p, own, seen);
  if constexpr (kind::DS) bwd_scores<D, PARTS, SEEN>(ds, own + kind::OWN * kind::ROW, seen + TILE);
  if (hide) {
#pragma unroll
    for (int i = 0; i < PARTS * SEEN / 2; i++) {
      int e = i % 4, j = i / 4 % (SEEN / 8), m = i / 4 / (SEEN / 8);
      int by = ahead + m * 16 + e / 2 * 8 - j * 8 - e % 2;
      if (kind::KEYS ? by > 0 : by < 0) p[m][j][e] = -INFINITY;
    }
  }
#pragma unroll
  for (int j = 0; j < SEEN / 8; j += 2) {
    bwd_terms x[PARTS], dx[PARTS];
#pragma unroll
    for (int i = 0; i < 2 * PARTS; i++) {
      int    m = i / 2, k = j + i % 2;
      float2 seen_lse = {}, seen_delta = {};
      if (kind::KEYS)
        seen_lse = *(const float2 *)(row + k * 8), seen_delta = *(const float2 *)(row + SEEN + k * 8);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float minus = kind::KEYS ? e % 2 ? seen_lse.y : seen_lse.x : a->lse[m][e / 2];
        float less = kind::KEYS ? e % 2 ? seen_delta.y : seen_delta.x : a->delta[m][e / 2];
        p[m][k][e] = bwd_exp2(fmaf(p[m][k][e], scale * BWD_LOG2E, -minus));
        if constexpr (kind::DS) ds[m][k][e] = p[m][k][e] * (ds[m][k][e] - less);
      }
      if constexpr (kind::DV) x[m] = bwd_split(p[m][j], p[m][j + 1]);
      if constexpr (kind::DS) dx[m] = bwd_split(ds[m][j], ds[m][j + 1]);
    }
    if constexpr (kind::DV) bwd_add<D, PARTS>(a->p_sum, x, seen + TILE + j * 8 * kind::ROW);
    if constexpr (kind::DS) bwd_add<D, PARTS>(a->ds_sum, dx, seen + j * 8 * kind::ROW);
  }
}

/* The work of a block that makes the gradients WHAT: keys and values meet queries and dout, or the other way
 * round. dv = P dout, dk = scale dS q, dq = scale dS k. w is in shared memory: what is read there again need
 * not be held in registers. */
template <int D, int WHAT>
static __device__ __forceinline__ void bwd_work(const bwd_call &c, const bwd_place &w, tri_bf16 *shared) {
  typedef bwd_kind<D, WHAT> kind;
  constexpr int             OWN = kind::OWN, SEEN = kind::SEEN, TILE = kind::TILE, ROWS = 16 * kind::PARTS;
  constexpr bool            KEYS = kind::KEYS;
  int                       lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float     value = 0; /* this thread's lse / ln 2 or delta of the tile that comes, if it is of queries */
  tri_bf16 *own = shared, *tile = own + 2 * OWN * kind::ROW;
  int       flip = kind::STAGE; /* from `tile` to the next one */
  bwd_state<D, WHAT> a = {};

  auto mine = [&] { return w.first + warp * ROWS; }; /* the warp's first own row */
  auto fetch = [&](tri_bf16 *to, int i) {
    bwd_rows from = bwd_tile(w, KEYS, SEEN, i);
    int      left = w.len - from.row, row = from.row + (int)threadIdx.x % SEEN;
    if (KEYS) {
      bwd_fetch<D, SEEN>(to, c.qkv, bwd_q(c, w, from.row, from.head), c.E, left);
      bwd_fetch<D, SEEN>(to + TILE, c.dout, bwd_o(c, w, from.row, from.head), c.H * D, left);
      value =
          threadIdx.x < SEEN ? bwd_lse(c, w, row, from.head) * BWD_LOG2E : bwd_delta(c, w, row, from.head);
    } else {
      int64_t k = bwd_k(c, w, from.row, w.kv);
      bwd_fetch<D, SEEN>(to, c.qkv, k, c.E, left);
      bwd_fetch<D, SEEN>(to + TILE, c.qkv, k + c.G * D, c.E, left);
    }
    tri_cp_commit();
  };
  auto keep = [&](tri_bf16 *to) {
    if (KEYS && threadIdx.x < 2 * SEEN) ((float *)(to + 2 * TILE))[threadIdx.x] = value;
  };

  if (KEYS) {
    int64_t k = bwd_k(c, w, w.first, w.kv);
    bwd_fetch<D, OWN>(own, c.qkv, k, c.E, w.len - w.first);
    if (kind::DS) bwd_fetch<D, OWN>(own + OWN * kind::ROW, c.qkv, k + c.G * D, c.E, w.len - w.first);
  } else {
    bwd_fetch<D, OWN>(own, c.qkv, bwd_q(c, w, w.first, w.head), c.E, w.len - w.first);
    bwd_fetch<D, OWN>(own + OWN * kind::ROW, c.dout, bwd_o(c, w, w.first, w.head), c.H * D, w.len - w.first);
#pragma unroll
    for (int i = 0; i < 2 * kind::PARTS; i++) {
      a.lse[i / 2][i % 2] = bwd_lse(c, w, mine() + lane / 4 + 8 * i, w.head) * BWD_LOG2E;
      a.delta[i / 2][i % 2] = bwd_delta(c, w, mine() + lane / 4 + 8 * i, w.head);
    }
  }
  own += warp * ROWS * kind::ROW;
  fetch(tile, 0), keep(tile);
  for (int i = 0; i < bwd_count(c, w, KEYS, OWN, SEEN); i++) {
    bool more = i + 1 < bwd_count(c, w, KEYS, OWN, SEEN);
    int  at = bwd_tile(w, KEYS, SEEN, i).row;
    tri_cp_wait<0>();
    __syncthreads();
    if (more) fetch(tile + flip, i + 1);
    if (KEYS ? at + SEEN > mine() : at < mine() + ROWS) /* else no query sees a key */
      bwd_meet<D, WHAT>(&a, own, tile, c.scale, mine() + lane / 4 - at - lane % 4 * 2,
                        KEYS ? at < w.first + OWN : at + SEEN > w.first);
    if (more) keep(tile + flip);
    tile += flip;
    flip = -flip;
  }
#pragma unroll
  for (int m = 0; m < kind::PARTS; m++) {
    int       row = mine() + 16 * m, left = w.len - row;
    tri_bf16 *to = (tri_bf16 *)c.dqkv + (KEYS ? bwd_k(c, w, row, w.kv) : bwd_q(c, w, row, w.head));
    if constexpr (kind::DS) bwd_store<D>(to, c.E, a.ds_sum[m], left, c.scale);
    if constexpr (kind::DV) bwd_store<D>(to + c.G * D, c.E, a.p_sum[m], left, 1.0f);
  }
}

#endif
