/* attention.cu - causal attention forward over packed sequences. attention_tile.cuh fixes the order of its
 * sums. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_tile.cuh"

struct fwd_call {     /* the arguments of one attn_fwd */
  void          *o;   /* A [N,H*D] */
  float         *lse; /* f32 [N,H] */
  const void    *qkv; /* A [N,E] */
  const int32_t *cu;  /* i32 [S+1] */
  int            E, S, H, G, D;
  attn_rule      rule;
  int64_t        N;
};

/* ---- bf16 ---- */

/* The shape of a block for heads padded to D columns. A block has ROWS queries. A warp has M tiles of 16
 * rows, WARPS * 16 rows apart. With M = 2 the two tiles share every fragment of keys and values, which halves
 * the reads of shared memory. M is 2 if the registers suffice. Loads run RING - 1 half tiles ahead. SMALL is
 * the form for 99 KiB of shared memory. */
template <int D, bool SMALL = false> struct fwd_shape {
  static constexpr int ROWS = SMALL ? 64 : 128, RING = SMALL ? 2 : 3; /* RING counts key or value slots */
  static constexpr int M = D <= 128 ? 2 : 1, WARPS = ROWS / 16 / M, THREADS = WARPS * 32;
  static constexpr int PER_SM = D <= 128 ? 2 : 1;                                 /* blocks, by registers */
  static constexpr int SLOT = ATTN_KEYS * D;                                      /* elements */
  static constexpr int SHARED = (ROWS * D + RING * SLOT) * (int)sizeof(tri_bf16); /* bytes */
  static_assert(!SMALL || (M == 1 && SHARED <= TRI_CUDA_SHARED_LEAST), "the small form is for wide heads");
};

/* The state of a warp. For m-tile m, a lane has rows lane / 4 and 8 further ([2] below). It holds their
 * reference and sum of weights, and columns 8 n + 2 (lane % 4) and the next of o. */
template <int D> struct fwd_rows {
  static constexpr int M = fwd_shape<D>::M;
  float                o[M][D / 8][4], reference[M][2], sum[M][2];
};

/* Computes the scores of a warp's m-tiles from FIRST on with the 64 keys of a tile. Fragments are read one
 * step ahead. */
template <int D, int FIRST>
static __device__ __forceinline__ void fwd_scores(float (&s)[fwd_shape<D>::M][8][4], const tri_bf16 *queries,
                                                  const tri_bf16 *keys) {
  constexpr int M = fwd_shape<D>::M, STEPS = D / 16, APART = fwd_shape<D>::WARPS * 16 * D;
  int           lane = threadIdx.x % 32;
  attn_walk<D>  q_at(threadIdx.x / 32 * 16 + lane % 16, lane / 16);
  attn_walk<D>  k_at(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  uint32_t      q[2][M][4], k[2][4];

#pragma unroll
  for (int m = FIRST; m < M; m++) tri_ldmatrix<4, false>(q[0][m], queries + m * APART + q_at.at(0));
  tri_ldmatrix<4, false>(k[0], keys + k_at.at(0));
#pragma unroll
  for (int i = 0; i < STEPS * 4; i++) { /* 16 columns, 16 keys */
    int step = i / 4, pair = i % 4;
    if (i + 1 < STEPS * 4)
      tri_ldmatrix<4, false>(k[(i + 1) % 2], keys + (i + 1) % 4 * 16 * D + k_at.at((i + 1) / 4));
    if (pair == 0 && step + 1 < STEPS) {
#pragma unroll
      for (int m = FIRST; m < M; m++)
        tri_ldmatrix<4, false>(q[(step + 1) % 2][m], queries + m * APART + q_at.at(step + 1));
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
      uint32_t b[2] = {k[i % 2][2 * n], k[i % 2][2 * n + 1]};
#pragma unroll
      for (int m = FIRST; m < M; m++) tri_mma_bf16(s[m][2 * pair + n], q[step % 2][m], b);
    }
  }
}

/* Caps the scores of one m-tile. */
static __device__ __forceinline__ void fwd_cap(float (&s)[8][4], const attn_rule &rule) {
#pragma unroll
  for (int n = 0; n < 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) s[n][e] = tri_softcap(s[n][e], rule.cap, rule.inverse);
}

/* Sets the scores of one m-tile to -infinity for keys before its rows' windows. `ahead` is as in fwd_mask. */
static __device__ __forceinline__ void fwd_mask_window(float (&s)[8][4], int ahead, int window) {
  int lane = threadIdx.x % 32, row = ahead + lane / 4 - window;

#pragma unroll
  for (int n = 0; n < 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (8 * n + lane % 4 * 2 + e % 2 <= row + e / 2 * 8) s[n][e] = -INFINITY;
}

/* Sets the scores of one m-tile to -infinity for keys its rows may not see. Row 0 of the m-tile is `ahead`
 * positions after the tile's first key. */
static __device__ __forceinline__ void fwd_mask(float (&s)[8][4], int ahead) {
  int lane = threadIdx.x % 32, row = ahead + lane / 4;

#pragma unroll
  for (int n = 0; n < 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (8 * n + lane % 4 * 2 + e % 2 > row + e / 2 * 8) s[n][e] = -INFINITY;
}

/* Turns scores into weights and updates the rows' references and sums. */
template <int D, int FIRST, bool RULED>
static __device__ __forceinline__ void fwd_softmax(fwd_rows<D> &a, float (&s)[fwd_shape<D>::M][8][4],
                                                   float        scale_log2) {
  constexpr int M = fwd_shape<D>::M;
  float         factor[M][2];
  bool          moved = false;

#pragma unroll
  for (int m = FIRST; m < M; m++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float best = -INFINITY;
#pragma unroll
      for (int n = 0; n < 8; n++) best = fmaxf(best, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
      factor[m][r] = attn_raise_of<RULED>(&a.reference[m][r], attn_quad_max(best) * scale_log2);
      moved = moved || factor[m][r] != 1.0f;
    }
  if (__any_sync(~0u, moved)) { /* else every factor is 1 */
#pragma unroll
    for (int m = FIRST; m < M; m++)
#pragma unroll
      for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) a.o[m][n][e] *= factor[m][e / 2];
  }
#pragma unroll
  for (int m = FIRST; m < M; m++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float part[4], reference = attn_at_reference<RULED>(a.reference[m][r]);
#pragma unroll
      for (int n = 0; n < 8; n++) {
        s[m][n][2 * r] = attn_weight(s[m][n][2 * r], scale_log2, reference);
        s[m][n][2 * r + 1] = attn_weight(s[m][n][2 * r + 1], scale_log2, reference);
        if (n % 2 == 1)
          part[n / 2] =
              attn_lane_sum(s[m][n - 1][2 * r], s[m][n - 1][2 * r + 1], s[m][n][2 * r], s[m][n][2 * r + 1]);
      }
      a.sum[m][r] = fmaf(a.sum[m][r], factor[m][r], attn_lane_sum(part[0], part[1], part[2], part[3]));
    }
}

/* o += weights times the values of a tile. */
template <int D, int FIRST>
static __device__ __forceinline__ void fwd_values(fwd_rows<D>    &a, const float (&s)[fwd_shape<D>::M][8][4],
                                                  const tri_bf16 *values) {
  constexpr int M = fwd_shape<D>::M, PAIRS = D / 16, STEPS = ATTN_KEYS / 16;
  int           lane = threadIdx.x % 32;
  attn_walk<D>  v_at(lane % 16, lane / 16);
  uint32_t      v[2][4], p[M][4];

  tri_ldmatrix<4, true>(v[0], values + v_at.at(0));
#pragma unroll
  for (int i = 0; i < STEPS * PAIRS; i++) { /* 16 keys, 16 columns */
    int step = i / PAIRS, pair = i % PAIRS;
    if (i + 1 < STEPS * PAIRS)
      tri_ldmatrix<4, true>(v[(i + 1) % 2], values + (i + 1) / PAIRS * 16 * D + v_at.at((i + 1) % PAIRS));
    if (pair == 0) {
#pragma unroll
      for (int m = FIRST; m < M; m++) {
        const float(&left)[4] = s[m][2 * step], (&right)[4] = s[m][2 * step + 1];
        p[m][0] = tri_round2(left[0], left[1]);
        p[m][1] = tri_round2(left[2], left[3]);
        p[m][2] = tri_round2(right[0], right[1]);
        p[m][3] = tri_round2(right[2], right[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
      uint32_t b[2] = {v[i % 2][2 * n], v[i % 2][2 * n + 1]};
#pragma unroll
      for (int m = FIRST; m < M; m++) tri_mma_bf16(a.o[m][2 * pair + n], p[m], b);
    }
  }
}

/* The position of a block in qkv and in the ring of slots in shared memory. It is 32 bits wide because
 * registers are scarce. */
struct fwd_walk {
  int start, n_keys; /* first row of the sequence, and number of its keys the block needs */
  int column, slot;  /* column of qkv with the head's keys, and offset in the ring of the next load */
};

/* Begins to load tile `tile` of keys or values, from `column` of qkv on, into the ring's next slot. It
 * commits the group even if it is empty. */
template <int D, bool VEC, bool SMALL>
static __device__ __forceinline__ void fwd_load(fwd_walk &w, const fwd_call &c, tri_bf16 *ring, int column,
                                                int tile) {
  typedef fwd_shape<D, SMALL> shape;
  int                         key = tile * ATTN_KEYS;

  if (key < w.n_keys)
    attn_load<D, ATTN_KEYS, shape::THREADS, VEC>(
        ring + w.slot, (const tri_bf16 *)c.qkv + (int64_t)(w.start + key) * c.E + column, c.E, w.n_keys - key,
        c.D);
  w.slot = w.slot == (shape::RING - 1) * shape::SLOT ? 0 : w.slot + shape::SLOT;
  tri_cp_commit();
}

/* Returns the slot loaded RING - 1 loads ago. The next load goes to another slot. */
template <int D, bool SMALL> static __device__ __forceinline__ int fwd_slot(const fwd_walk &w) {
  typedef fwd_shape<D, SMALL> shape;
  if (SMALL) return shape::SLOT - w.slot;
  return w.slot == 0 ? shape::SLOT : w.slot == shape::SLOT ? 2 * shape::SLOT : 0;
}

/* Lets the block's rows meet a tile. At each barrier all warps have finished with the slot to be loaded next.
 * That load brings a half of the next tile, or with only two slots the half needed next. `live` says that the
 * sequence has rows of this warp from m-tile FIRST on. */
template <int D, bool VEC, int FIRST, bool RULED, bool SMALL>
static __device__ __forceinline__ void fwd_tile(fwd_rows<D> &a, fwd_walk &w, const fwd_call &c,
                                                tri_bf16 *queries, int tile, float scale_log2, int ahead,
                                                bool live) {
  constexpr int LEFT = fwd_shape<D, SMALL>::RING - 2; /* loads still in flight */
  float         s[fwd_shape<D>::M][8][4] = {};
  tri_bf16     *ring = queries + fwd_shape<D, SMALL>::ROWS * D, *slot = ring + fwd_slot<D, SMALL>(w);
  int           values = w.column + c.G * c.D;

  tri_cp_wait<LEFT>();
  __syncthreads();
  fwd_load<D, VEC, SMALL>(w, c, ring, SMALL ? values : w.column, SMALL ? tile : tile + 1);
  if (live) fwd_scores<D, FIRST>(s, queries, slot);
  slot = ring + fwd_slot<D, SMALL>(w);
  tri_cp_wait<LEFT>();
  __syncthreads();
  fwd_load<D, VEC, SMALL>(w, c, ring, SMALL ? w.column : values, tile + 1);
  if (live) {
    /* Rows of a second m-tile see all of the tile, unless FIRST is the second. */
    if (RULED) {
#pragma unroll
      for (int m = FIRST; m < fwd_shape<D>::M; m++) {
        int row = ahead + (m * fwd_shape<D>::WARPS + threadIdx.x / 32) * 16;
        if (c.rule.cap > 0) fwd_cap(s[m], c.rule);
        if (row + 15 >= c.rule.window) fwd_mask_window(s[m], row, c.rule.window);
      }
    }
    if (ahead <= 0) fwd_mask(s[FIRST], ahead + (FIRST * fwd_shape<D>::WARPS + threadIdx.x / 32) * 16);
    fwd_softmax<D, FIRST, RULED>(a, s, scale_log2);
    fwd_values<D, FIRST>(a, s, slot);
  }
}

/* Writes the warp's rows to o and lse, through its own rows of the tile of queries. n counts the block's rows
 * in the sequence. */
template <int D, bool VEC>
static __device__ __forceinline__ void fwd_end(const fwd_rows<D> &a, tri_bf16 *tile, const fwd_call &c,
                                               int64_t first, int n, int h) {
  typedef fwd_shape<D> shape;
  int                  lane = threadIdx.x % 32;
  tri_bf16            *to = (tri_bf16 *)c.o + (first * c.H + h) * c.D;

#pragma unroll
  for (int m = 0; m < shape::M; m++) {
    int begin = (m * shape::WARPS + threadIdx.x / 32) * 16;
#pragma unroll
    for (int r = 0; r < 2; r++) {
      int   row = begin + lane / 4 + 8 * r;
      float sum = attn_quad_sum(a.sum[m][r]), inverse = 1.0f / sum;
#pragma unroll
      for (int i = 0; i < D / 8; i++)
        *(uint32_t *)(tile + attn_at<D>(row, i) + lane % 4 * 2) =
            tri_round2(a.o[m][i][2 * r] * inverse, a.o[m][i][2 * r + 1] * inverse);
      if (lane % 4 == 0 && row < n)
        c.lse[(first + row) * c.H + h] = fmaf(a.reference[m][r], 0.693147181f, logf(sum)); /* ln 2 */
    }
    __syncwarp();
    for (int i = lane; i < 16 * (D / 8); i += 32) {
      int             row = begin + i / (D / 8), chunk = i % (D / 8);
      const tri_bf16 *from = tile + attn_at<D>(row, chunk);
      tri_bf16       *at = to + (int64_t)row * c.H * c.D + chunk * 8;
      if (row >= n) continue;
      if (VEC) {
        if (chunk * 8 < c.D) *(uint4 *)at = *(const uint4 *)from;
      } else {
        for (int e = 0; e < 8 && chunk * 8 + e < c.D; e++) at[e] = from[e];
      }
    }
  }
}

/* Computes o A [N,H*D] and lse f32 [N,H] from qkv A [N,E]. A block has ROWS queries of one head and one
 * sequence. */
template <int D, bool VEC, bool RULED, bool SMALL>
static __device__ __forceinline__ void fwd_block(const fwd_call &c) {
  typedef fwd_shape<D, SMALL> shape;
  constexpr int               ROWS = shape::ROWS;
  TRI_SHARED_DYNAMIC(tri_bf16, queries);
  int         h = blockIdx.x % c.H;
  attn_place  at = attn_find<ROWS>(c.cu, c.S, blockIdx.x / c.H);
  int         n = at.len - at.row < ROWS ? at.len - at.row : ROWS; /* queries */
  fwd_walk    w = {at.start, at.row + n, (c.H + h / (c.H / c.G)) * c.D, 0};
  fwd_rows<D> a;
  float       scale_log2 = attn_scale_log2<RULED>(c.rule);
  int         top = threadIdx.x / 32 * 16;
  int         tile = RULED ? attn_first_tile<ATTN_KEYS>(c.rule, at.row) / ATTN_KEYS : 0;

  if (n <= 0) return;
  attn_load<D, ROWS, shape::THREADS, VEC>(
      queries, (const tri_bf16 *)c.qkv + (int64_t)(at.start + at.row) * c.E + h * c.D, c.E, n, c.D);
  fwd_load<D, VEC, SMALL>(w, c, queries + ROWS * D, w.column, tile);
  if (!SMALL) fwd_load<D, VEC, SMALL>(w, c, queries + ROWS * D, w.column + c.G * c.D, tile);
#pragma unroll
  for (int m = 0; m < shape::M; m++) {
#pragma unroll
    for (int i = 0; i < D / 8 * 4; i++) a.o[m][i / 4][i % 4] = 0;
    for (int r = 0; r < 2; r++) a.reference[m][r] = -INFINITY, a.sum[m][r] = 0;
  }
  for (; tile * ATTN_KEYS <= at.row; tile++)
    fwd_tile<D, VEC, 0, RULED, SMALL>(a, w, c, queries, tile, scale_log2, at.row - tile * ATTN_KEYS, top < n);
  top += (shape::M - 1) * ATTN_KEYS;
  if (n > ATTN_KEYS) /* the first half of the rows sees nothing of the last tile */
    fwd_tile<D, VEC, shape::M - 1, RULED, SMALL>(a, w, c, queries, tile, scale_log2, -ATTN_KEYS,
                                                 top >= ATTN_KEYS && top < n);
  fwd_end<D, VEC>(a, queries, c, at.start + at.row, n, h);
}

/* Arrays as in fwd_block. The grid is slots * H, with the heads of one slot together. Sums are f32 (mma).
 * Shared memory is fwd_shape::SHARED. VEC needs 16-byte aligned rows. RULED allows rows with a window or
 * capped scores. Tested against tri_cpu_attn_fwd, and in the small form against the bits of
 * attn_fwd_kernel. */
template <int D, bool VEC, bool RULED>
__global__ void __launch_bounds__(fwd_shape<D>::THREADS, fwd_shape<D>::PER_SM) attn_fwd_kernel(fwd_call c) {
  fwd_block<D, VEC, RULED, false>(c);
}
template <int D, bool VEC, bool RULED>
__global__ void __launch_bounds__(fwd_shape<D, true>::THREADS) attn_fwd_small_kernel(fwd_call c) {
  fwd_block<D, VEC, RULED, true>(c);
}

template <int D, bool VEC, bool RULED> static tri_status launch_fwd(tri_stream *s, const fwd_call &c) {
  typedef fwd_shape<D> shape;

  if constexpr (shape::SHARED > TRI_CUDA_SHARED_LEAST) {
    typedef fwd_shape<D, true> small;
    if (!tri_cuda_has_shared(s, shape::SHARED))
      return TRI_LAUNCH((attn_fwd_small_kernel<D, VEC, RULED>),
                        (unsigned)(attn_slots(c.N, c.S, small::ROWS) * c.H), small::THREADS, small::SHARED, s,
                        c);
  }
  return TRI_LAUNCH((attn_fwd_kernel<D, VEC, RULED>), (unsigned)(attn_slots(c.N, c.S, shape::ROWS) * c.H),
                    shape::THREADS, shape::SHARED, s, c);
}

/* ---- f32 ---- */

enum { F32_R = 8, F32_SMALL_R = 4, F32_WARPS = 4 }; /* rows of a warp, of the small form too. Chosen */

/* Bytes of shared memory of a block with R rows per warp. It holds queries [ROWS,D], keys, values and weights
 * in the layout of attn_f32_tile. */
template <int COLS, int R> static constexpr size_t fwd_f32_shared(int D) {
  return sizeof(float) *
         (size_t)(R * F32_WARPS * D + D * ATTN_F32_LD + ATTN_F32_KEYS * (32 * COLS + R * F32_WARPS));
}
static_assert(fwd_f32_shared<ATTN_MAX_D / 32, F32_SMALL_R>(ATTN_MAX_D) <= TRI_CUDA_SHARED_LEAST, "");

/* As fwd_block, for A f32 or f16 and D <= 32 COLS. */
template <class A, int COLS, int F32_R>
static __device__ __forceinline__ void fwd_f32_block(const fwd_call &c) {
  constexpr int F32_ROWS = F32_R * F32_WARPS; /* queries of the block */
  TRI_SHARED_DYNAMIC(float, queries);
  float                     *keys = queries + F32_ROWS * c.D, *values = keys + c.D * ATTN_F32_LD;
  int                        warp = threadIdx.x / 32, h = blockIdx.x % c.H;
  float                     *weights = values + ATTN_F32_KEYS * 32 * COLS + warp * F32_R * ATTN_F32_KEYS;
  attn_place                 at = attn_find<F32_ROWS>(c.cu, c.S, blockIdx.x / c.H);
  int64_t                    E = c.E;
  const A                   *from = (const A *)c.qkv + at.start * E;
  const A                   *k = from + (c.H + h / (c.H / c.G)) * c.D, *v = k + c.G * c.D;
  const A                   *q = from + at.row * E + h * c.D;
  int                        n = at.len - at.row < F32_ROWS ? at.len - at.row : F32_ROWS;
  int64_t                    first = at.start + at.row;
  attn_f32_rows<F32_R, COLS> a;

  if (n <= 0) return;
  for (int i = threadIdx.x; i < F32_ROWS * c.D; i += F32_WARPS * 32)
    queries[i] = i / c.D < n ? tri_get(q[i / c.D * E + i % c.D]) * c.rule.scale : 0.0f;
  attn_f32_begin(a);
  for (int key = attn_first_tile<ATTN_F32_KEYS>(c.rule, at.row); key < at.row + n; key += ATTN_F32_KEYS) {
    int n_keys = at.row + n - key < ATTN_F32_KEYS ? at.row + n - key : ATTN_F32_KEYS;
    __syncthreads(); /* all threads have read the tile before */
    for (int i = threadIdx.x; i < ATTN_F32_KEYS * c.D; i += F32_WARPS * 32) {
      int j = i / c.D, d = i % c.D;
      keys[d * ATTN_F32_LD + j] = j < n_keys ? tri_get(k[(key + j) * E + d]) : 0.0f;
    }
    attn_f32_values<COLS>(values, v + key * E, E, n_keys, c.D);
    __syncthreads();
    attn_f32_tile(a, queries + warp * F32_R * c.D, keys, values, weights, c.D, c.rule,
                  at.row + warp * F32_R + 1 - key, 1);
  }
#pragma unroll
  for (int r = 0; r < F32_R; r++) {
    int64_t row = first + warp * F32_R + r;
    if (warp * F32_R + r >= n) continue;
    attn_f32_end(a, r, (A *)c.o + (row * c.H + h) * c.D, c.D);
    if (threadIdx.x % 32 == 0) c.lse[row * c.H + h] = a.top[r] + logf(a.sum[r]);
  }
}

/* Arrays as in fwd_block, with A f32 or f16. The grid is slots * H. Sums are f32. Shared memory is
 * fwd_f32_shared. Tested against tri_cpu_attn_fwd, and in the small form against the bits of
 * attn_fwd_f32_kernel. */
template <class A, int COLS>
__global__ void __launch_bounds__(F32_WARPS * 32, 2) attn_fwd_f32_kernel(fwd_call c) {
  fwd_f32_block<A, COLS, F32_R>(c);
}
template <class A, int COLS>
__global__ void __launch_bounds__(F32_WARPS * 32) attn_fwd_f32_small_kernel(fwd_call c) {
  fwd_f32_block<A, COLS, F32_SMALL_R>(c);
}

template <class A, int COLS> static tri_status launch_fwd_f32(tri_stream *s, const fwd_call &c) {
  size_t bytes = fwd_f32_shared<COLS, F32_R>(c.D);

  if constexpr (fwd_f32_shared<COLS, F32_R>(32 * COLS) > TRI_CUDA_SHARED_LEAST) {
    if (!tri_cuda_has_shared(s, bytes))
      return TRI_LAUNCH((attn_fwd_f32_small_kernel<A, COLS>),
                        (unsigned)(attn_slots(c.N, c.S, F32_SMALL_R * F32_WARPS) * c.H), F32_WARPS * 32,
                        (fwd_f32_shared<COLS, F32_SMALL_R>(c.D)), s, c);
  }
  return TRI_LAUNCH((attn_fwd_f32_kernel<A, COLS>), (unsigned)(attn_slots(c.N, c.S, F32_R * F32_WARPS) * c.H),
                    F32_WARPS * 32, bytes, s, c);
}

tri_status tri_cuda_attn_fwd(tri_stream *s, tri_out o, tri_out lse, tri_in qkv, tri_in cu,
                             const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;

  tri_dtype A = tri_type(qkv);
  int64_t   N = qkv->dim[0], E = qkv->dim[1], S = cu->dim[0] - 1;
  fwd_call c = {o->data, (float *)lse->data, qkv->data, (const int32_t *)cu->data, (int)E, (int)S, h->H, h->G,
                h->D,    attn_rule_of(rule), N};

  TRI_TRY(attn_check(h, qkv));
  TRI_ASSERT(qkv->dim[1] <= INT32_MAX / fwd_shape<64>::ROWS && S <= INT32_MAX &&
             attn_slots(N, S, F32_SMALL_R * F32_WARPS) * h->H <= INT32_MAX);
  TRI_ASSERT(o->dtype == qkv->dtype && lse->dtype == TRI_F32 && rule->scale > 0);
#define LAUNCH(D, VEC) launch_fwd<D, VEC, false>(s, c)
  if (A == TRI_BF16 && !attn_is_ruled(c.rule))
    return TRI_ATTN_D(h->D, tri_vec8(h->D, qkv->data, o->data), LAUNCH);
#undef LAUNCH
#define LAUNCH(D, VEC) launch_fwd<D, VEC, true>(s, c)
  if (A == TRI_BF16) return TRI_ATTN_RULED(h->D, tri_vec8(h->D, qkv->data, o->data), LAUNCH);
#undef LAUNCH
#define LAUNCH(A, COLS) launch_fwd_f32<A, COLS>(s, c)
  return A == TRI_F16 ? TRI_ATTN_COLS(h->D, tri_f16, LAUNCH) : TRI_ATTN_COLS(h->D, float, LAUNCH);
#undef LAUNCH
}
