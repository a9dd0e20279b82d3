/* attention_tile.cuh - the order in which attn_fwd and attn_decode compute a row, the same in both. Private
 * to its room.
 *
 * bf16. Key tiles have ATTN_KEYS keys, counted from the start of the sequence, and go first to last. A score
 * is the chain of mma.m16n8k16 over columns 0..15, 16..31, ... of D padded with zeros. The row's reference
 * follows its largest score (attn_raise). Weights are tri_exp2 of score minus reference. Each lane adds its
 * weights of a tile by attn_lane_sum. o is the chain of mma over keys 0..15, 16..31, ... of the tile, with
 * weights rounded to bf16. Keys a row may not see have weight 0, and keys behind the sequence's end have
 * value 0 too. So a whole tile of such keys changes no bit. The value of a later key in the same tile and
 * sequence is multiplied by 0, so it must be finite.
 *
 * f32. The same with tiles of 32 keys and chains of fmaf. Unseen keys are not multiplied (attn_f32_tile). f16
 * computes as f32.
 *
 * Source: Dao 2023 (FlashAttention-2), algorithm 1. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_ATTENTION_TILE_CUH
#define TRI_GPU_ATTENTION_TILE_CUH

#include "gpu/base/cuda_util.cuh"

enum {
  ATTN_MAX_D = 256,
  ATTN_KEYS =
      64, /* in a bf16 tile, two cache pages. Chosen, 32 rows by 64 scores of a warp fit its registers */
  ATTN_F32_KEYS = TRI_PAGE, /* in an f32 tile, one key per lane */
};

/* The amount, in units of log2, by which a row's largest score may exceed its reference before the reference
 * follows. Weights stay below 2^8, and most tiles need no rescaling. Chosen. */
#define ATTN_SLACK 8.0f

/* Host. Refuses heads no kernel here supports, and asserts the shape of qkv [N,E]. */
static inline tri_status attn_check(const tri_heads *h, tri_in qkv) {
  TRI_ASSERT(h->G > 0 && h->H > 0 && h->H % h->G == 0 && h->D > 0);
  TRI_ASSERT(qkv->dim[1] == (int64_t)(h->H + 2 * h->G) * h->D);
  if (h->D % 2 != 0 || h->D > ATTN_MAX_D)
    TRI_FAIL(TRI_EDEVICE,
             "attention heads have %d columns. With run.device: cuda the number must be even and at most %d. "
             "Set run.device: cpu for this model",
             h->D, (int)ATTN_MAX_D);
  return TRI_OK;
}

/* ---- the place of a tile of queries ---- */

/* Sequence s has the slots from cu[s] / ROWS + s on, one for each tile of ROWS queries and perhaps one
 * more. A grid of N / ROWS + S slots (attn_slots) thus has a place for every tile, and a launch need not
 * know cu. */
static inline int64_t attn_slots(int64_t N, int64_t S, int rows) { return S > 0 ? N / rows + S : 0; }

struct attn_place {
  int start; /* the sequence's first row in the batch */
  int len;   /* its tokens */
  int row;   /* the tile's first row in the sequence. The slot is empty if row >= len */
};
/* cu is i32 [S+1]. The slots of a sequence hold its tiles last first, so long work begins early. Whole warps
 * call it. */
template <int ROWS>
static __device__ __forceinline__ attn_place attn_find(const int32_t *cu, int S, int slot) {
  attn_place p;
  int        lane = threadIdx.x % 32, lo = 0, n = S, tile, n_tiles;

  while (n > 1) { /* finds the last s in lo .. lo + n - 1 with its first slot at or before ours */
    int step = (n + 31) / 32, at = lane * step;
    int hits = __popc(__ballot_sync(~0u, at < n && cu[lo + at] / ROWS + lo + at <= slot));
    lo += (hits - 1) * step;
    n = n - (hits - 1) * step < step ? n - (hits - 1) * step : step;
  }
  p.start = cu[lo];
  p.len = cu[lo + 1] - cu[lo];
  tile = slot - (cu[lo] / ROWS + lo);
  n_tiles = (p.len + ROWS - 1) / ROWS;
  p.row = tile < n_tiles ? (n_tiles - 1 - tile) * ROWS : p.len;
  return p;
}

/* ---- bf16 tiles in shared memory ---- */

/* Returns the element of column 8 * chunk of a row in a tile [rows][D]. Chunks of 16 bytes are permuted
 * within a row. So the eight rows of one chunk lie in different banks, and so do eight chunks of one row. D
 * is 64, or 32 times an odd number, or 128 m. */
template <int D> static __device__ __forceinline__ int attn_turn(int row) {
  return D % 64 == 0 ? row & 7 : row >> 1 & 3;
}
template <int D> static __device__ __forceinline__ int attn_at(int row, int chunk) {
  return row * D + (chunk ^ attn_turn<D>(row)) * 8;
}
/* The same for chunk 2 * i + first of one row. It is row_at + (first_at ^ 16 i), so a loop over i costs one
 * XOR. */
template <int D> struct attn_walk {
  int                        row_at, first_at;
  __device__ __forceinline__ attn_walk(int row, int first)
      : row_at(row * D), first_at((first ^ attn_turn<D>(row)) * 8) {}
  __device__ __forceinline__ int at(int i) const { return row_at + (first_at ^ 16 * i); }
};

/* Loads rows of d elements, `stride` elements apart, to a tile [ROWS][D]. With VEC it uses cp.async and needs
 * 16-byte aligned rows and d % 8 == 0. Otherwise it copies at once. Rows from n on and columns from d on
 * become 0. All THREADS of the block call it. */
template <int D, int ROWS, int THREADS, bool VEC>
static __device__ __forceinline__ void attn_load(tri_bf16 *tile, const tri_bf16 *from, int stride, int n,
                                                 int d) {
  constexpr int CHUNKS = D / 8, STEP = THREADS / CHUNKS;
  int           row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;

  if (THREADS % CHUNKS != 0 && row >= STEP) return;
  from += row * stride + chunk * 8;
#pragma unroll
  for (int i = 0; i < ROWS; i += STEP) {
    tri_bf16 *to = tile + attn_at<D>(row + i, chunk);
    if (ROWS % STEP != 0 && row + i >= ROWS) break;
    if (VEC) {
      tri_cp_async16(to, from, row + i < n && chunk * 8 < d);
    } else {
      uint32_t w[4];
#pragma unroll
      for (int e = 0; e < 4; e++) { /* d is even, so pairs are whole and 4-byte aligned */
        bool valid = row + i < n && chunk * 8 + 2 * e < d;
        w[e] = valid ? *(const uint32_t *)(from + 2 * e) : 0;
      }
      *(uint4 *)to = make_uint4(w[0], w[1], w[2], w[3]);
    }
    from += STEP * stride;
  }
}

/* ---- the softmax of a bf16 row ---- */

/* For a row, `best` is the largest of its scores in this tile, times scale * log2(e). Moves the reference if
 * it must. Returns the factor for the sums so far, exactly 1 if the reference did not move. */
static __device__ __forceinline__ float attn_raise(float *reference, float best) {
  float to = best > *reference + ATTN_SLACK ? best : *reference;
  float factor = tri_exp2(tri_minus(*reference, to));
  *reference = to;
  return factor;
}

static __device__ __forceinline__ float attn_weight(float score, float scale_log2, float reference) {
  return tri_exp2(fmaf(score, scale_log2, -reference));
}

/* For rows with a window or capped scores (RULED). Such a row may see no key of a tile before it has a
 * reference, and then keeps its bits. attn_at_reference gives the reference for attn_weight. */
template <bool RULED> static __device__ __forceinline__ float attn_raise_of(float *reference, float best) {
  if (RULED && best == -INFINITY) return 1.0f;
  return attn_raise(reference, best);
}
template <bool RULED> static __device__ __forceinline__ float attn_at_reference(float reference) {
  return RULED && reference == -INFINITY ? 0.0f : reference;
}

/* The rule of a call in the form of the kernels. */
struct attn_rule {
  float scale, cap, inverse, inverse_cap; /* cap 0 for none, scale / cap, 1 / cap */
  int   window;                           /* without a window, so large that no key is before it */
};
enum { ATTN_NO_WINDOW = 1 << 30 };

/* Host. */
static inline attn_rule attn_rule_of(const tri_attn_rule *rule) {
  bool      wide = rule->window <= 0 || rule->window > ATTN_NO_WINDOW;
  bool      capped = rule->softcap > 0;
  attn_rule r = {rule->scale, rule->softcap, capped ? rule->scale / rule->softcap : 0,
                 capped ? 1.0f / rule->softcap : 0, wide ? (int)ATTN_NO_WINDOW : (int)rule->window};
  return r;
}
static inline bool attn_is_ruled(const attn_rule &r) { return r.cap > 0 || r.window < ATTN_NO_WINDOW; }

/* Returns the factor from unscaled scores to units of log2. Capped scores already include their scale. */
template <bool RULED> static __device__ __forceinline__ float attn_scale_log2(const attn_rule &r) {
  return (RULED && r.cap > 0 ? 1.0f : r.scale) * 1.44269504f; /* log2(e) */
}
/* Returns the first key of the tile of KEYS keys with the first key seen by a row at `row`. */
template <int KEYS> static __device__ __forceinline__ int attn_first_tile(const attn_rule &r, int row) {
  return row >= r.window ? (row + 1 - r.window) / KEYS * KEYS : 0;
}

/* Adds a lane's weights of 16 keys (two n8 fragments), then of the 64 keys of a tile. */
static __device__ __forceinline__ float attn_lane_sum(float a0, float a1, float b0, float b1) {
  return (a0 + a1) + (b0 + b1);
}
/* Over the four lanes of a row. All four get the result. */
static __device__ __forceinline__ float attn_quad_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}
static __device__ __forceinline__ float attn_quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}

/* ---- f32 rows, and f16 rows computed as f32 and rounded at the end ---- */

/* R rows of one warp. Lane l has columns l, l + 32, ... of o. */
template <int R, int COLS> struct attn_f32_rows {
  float o[R][COLS], top[R], sum[R]; /* sums of p v, largest score, sum of p */
};

template <int R, int COLS> static __device__ __forceinline__ void attn_f32_begin(attn_f32_rows<R, COLS> &a) {
#pragma unroll
  for (int r = 0; r < R; r++) {
#pragma unroll
    for (int c = 0; c < COLS; c++) a.o[r][c] = 0;
    a.top[r] = -INFINITY;
    a.sum[r] = 0;
  }
}

/* Floats from column to column of a tile of keys, without bank conflicts. */
enum { ATTN_F32_LD = ATTN_F32_KEYS + 1 };

/* Computes the scores of the rows with the lane's key of a tile. q is f32 [R,D] times scale, k is
 * [D,ATTN_F32_LD], both in shared memory. */
template <int R>
static __device__ __forceinline__ void attn_f32_scores(float (&s)[R], const float *q, const float *k, int D) {
  int lane = threadIdx.x % 32;

#pragma unroll
  for (int r = 0; r < R; r++) s[r] = 0;
  for (int d = 0; d < D; d += 2) {
    float k0 = k[d * ATTN_F32_LD + lane], k1 = k[(d + 1) * ATTN_F32_LD + lane];
#pragma unroll
    for (int r = 0; r < R; r++) {
      float2 x = *(const float2 *)(q + r * D + d);
      s[r] = fmaf(x.y, k1, fmaf(x.x, k0, s[r]));
    }
  }
}

/* Returns whether any of the rows sees a key of a tile. Row r sees the last `window` keys before seen + r *
 * step. */
template <int R>
static __device__ __forceinline__ bool attn_f32_sees(const attn_rule &rule, int seen, int step) {
  return seen + (R - 1) * step > 0 && seen - rule.window < ATTN_F32_KEYS;
}

/* Lets the rows meet a tile they see some keys of. s comes from attn_f32_scores. v is [ATTN_F32_KEYS,32*COLS]
 * in shared memory. p is [R,ATTN_F32_KEYS], this warp's own in shared memory. A row that sees no key keeps
 * its bits, and no unseen key is multiplied. */
template <int R, int COLS>
static __device__ __forceinline__ void attn_f32_join(attn_f32_rows<R, COLS> &a, const float (&s)[R],
                                                     const float *v, float *p, const attn_rule &rule,
                                                     int seen, int step) {
  int lane = threadIdx.x % 32, most = seen + (R - 1) * step, before = seen - rule.window;

#pragma unroll
  for (int r = 0; r < R; r++) {
    int   end = seen + r * step, first = before + r * step;
    float x = rule.cap > 0 ? tri_softcap(s[r], rule.cap, rule.inverse_cap) : s[r], top, factor;
    if (end <= 0 || first >= ATTN_F32_KEYS) continue;
    x = lane >= first && lane < end ? x : -INFINITY;
    top = fmaxf(a.top[r], tri_warp_max(x));
    factor = tri_exp(a.top[r] - top);
    x = tri_exp(x - top);
    a.sum[r] = fmaf(a.sum[r], factor, tri_warp_sum(x));
    a.top[r] = top;
    p[r * ATTN_F32_KEYS + lane] = x;
#pragma unroll
    for (int c = 0; c < COLS; c++) a.o[r][c] *= factor;
  }
  __syncwarp();
  for (int j = 0; j < ATTN_F32_KEYS && j < most; j++) {
    float value[COLS];
#pragma unroll
    for (int c = 0; c < COLS; c++) value[c] = v[(j * COLS + c) * 32 + lane];
#pragma unroll
    for (int r = 0; r < R; r++) {
      if (j >= seen + r * step || j < before + r * step) continue;
#pragma unroll
      for (int c = 0; c < COLS; c++) a.o[r][c] = fmaf(p[r * ATTN_F32_KEYS + j], value[c], a.o[r][c]);
    }
  }
  __syncwarp(); /* p is about to be overwritten */
}

/* Does both, so the rows meet one tile. */
template <int R, int COLS>
static __device__ __forceinline__ void attn_f32_tile(attn_f32_rows<R, COLS> &a, const float *q,
                                                     const float *k, const float *v, float *p, int D,
                                                     const attn_rule &rule, int seen, int step) {
  float s[R];

  if (!attn_f32_sees<R>(rule, seen, step)) return;
  attn_f32_scores(s, q, k, D);
  attn_f32_join(a, s, v, p, rule, seen, step);
}

/* Writes row r of the rows to o A [D]. */
template <int R, int COLS, class A>
static __device__ __forceinline__ void attn_f32_end(const attn_f32_rows<R, COLS> &a, int r, A *o, int D) {
  float inverse = 1.0f / a.sum[r];
#pragma unroll
  for (int c = 0; c < COLS; c++) {
    int d = c * 32 + threadIdx.x % 32;
    if (d < D) tri_put(o + d, a.o[r][c] * inverse);
  }
}

/* Loads rows [n,D], `stride` apart, to v [ATTN_F32_KEYS,32*COLS]. The rest becomes 0. All threads of the
 * block call it. */
template <int COLS, class A>
static __device__ __forceinline__ void attn_f32_values(float *v, const A *from, int64_t stride, int n,
                                                       int D) {
  for (int i = threadIdx.x; i < ATTN_F32_KEYS * 32 * COLS; i += blockDim.x) {
    int j = i / (32 * COLS), d = i % (32 * COLS);
    v[i] = j < n && d < D ? tri_get(from[j * stride + d]) : 0.0f;
  }
}

/* Host. Chooses an instance by the padded D. TRI_ATTN_D(d, vec, LAUNCH) calls LAUNCH(D, VEC) of the bf16
 * kernel for heads of d columns. TRI_ATTN_COLS(d, A, LAUNCH) calls LAUNCH(A, COLS) of the f32 kernel. Rows
 * that cannot be loaded 16 bytes at a time share two slower instances. */
#define TRI_ATTN_D(d, vec, LAUNCH)                                                                           \
  (!(vec)       ? (d) <= 64 ? LAUNCH(64, false) : LAUNCH(256, false)                                         \
         : (d) <= 64 ? LAUNCH(64, true)                                                                      \
   : (d) <= 96  ? LAUNCH(96, true)                                                                           \
   : (d) <= 128 ? LAUNCH(128, true)                                                                          \
                : LAUNCH(256, true))
#define TRI_ATTN_RULED(d, vec, LAUNCH) /* the same for rows with a rule */                                   \
  (!(vec) || (d) > 128 ? (vec) ? LAUNCH(256, true) : LAUNCH(256, false) : LAUNCH(128, true))
#define TRI_ATTN_COLS(d, A, LAUNCH) ((d) <= 64 ? LAUNCH(A, 2) : (d) <= 128 ? LAUNCH(A, 4) : LAUNCH(A, 8))

#endif
