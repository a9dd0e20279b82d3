/* attention_bwd_tile.cuh - the gradient of attention: the division of work among blocks, and the layout of
 * arrays. Private to its room.
 *
 * There are two kinds of blocks, and none waits for another. A block of keys owns a tile of keys of one
 * key/value head. It meets all queries that see them, head after head of its part of the group, and ends
 * with dk and dv. A block of queries owns a tile of queries of one head, meets the keys they see and ends
 * with dq. Both compute the scores. This takes 7 products, and 5 would suffice if blocks of keys also
 * collected dq. In return there are no sums in global memory, and the probabilities stay in registers from
 * product to product.
 *
 * With few key/value heads there would be few, long blocks of keys. So the query heads of a group are divided
 * into parts (tri_attn_parts). Each part leaves its sums in `work`, and attn_parts_kernel adds them part
 * after part. Eight parts in all are the fewest that suffice. For 4096 tokens they make 8 times 64 blocks of
 * keys. The longest of these takes no longer than 132 multiprocessors need for everything.
 *
 * Tiles begin at the first row of their sequence, so a row's sums have one order in every batch. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_ATTENTION_BWD_TILE_CUH
#define TRI_GPU_ATTENTION_BWD_TILE_CUH

#include "attention_tile.cuh"

/* The gradients a block computes. Keys and values may go together. */
enum { BWD_KEY = 1, BWD_VALUE = 2, BWD_QUERY = 4 };

struct bwd_call { /* the arguments of one attn_bwd, on the device */
  void          *dqkv;
  float         *part; /* [parts,N,2,G,D], dk and dv of each part, if parts > 1 */
  const void    *dout, *qkv;
  const float   *lse, *delta;                    /* [N,H], delta = sum over D of dout o */
  const int32_t *cu;                             /* [S+1] */
  int            N, E, S, H, G, D, group, parts; /* group = H / G */
  attn_rule      rule;
};

/* The division of work in a launch: the rows of a tile of keys and of queries, and whether dk and dv have
 * blocks of their own. */
struct bwd_plan {
  int  key_tile, query_tile;
  bool apart;
};

struct bwd_place {  /* the work of one block */
  int what;         /* gradients to compute, 0 for none */
  int head, n_head; /* first query head it meets, and their number */
  int kv, part;     /* key/value head, and part of the group */
  int start, len;   /* first row of the sequence in the batch, and its rows */
  int first;        /* first row of the sequence the block owns */
};

/* Slots for tiles in all sequences. The slots of sequence s begin at cu[s] / tile + s. This leaves every
 * sequence at least as many slots as it needs. */
static __host__ __device__ __forceinline__ int64_t bwd_slots(const bwd_call &c, int tile) {
  return c.N / tile + c.S;
}

/* Number of blocks that own the same keys, over all key/value heads. */
static __host__ __device__ __forceinline__ int bwd_per_key(const bwd_call &c, bwd_plan plan) {
  return c.G * c.parts * (plan.apart ? 2 : 1);
}

/* Host. Returns the number of blocks bwd_find divides the work among. */
static inline unsigned bwd_blocks(const bwd_call &c, bwd_plan plan) {
  return (unsigned)(bwd_slots(c, plan.key_tile) * bwd_per_key(c, plan) + bwd_slots(c, plan.query_tile) * c.H);
}

/* Writes the place of this block to shared memory. Long work comes first: keys from the start of their
 * sequence on, then queries from the end of the batch. */
static __device__ __forceinline__ void bwd_find(bwd_place *place, const bwd_call &c, bwd_plan plan) {
  if (threadIdx.x == 0) {
    int       per_key = bwd_per_key(c, plan), lo = 0, hi = c.S, tile = plan.key_tile;
    int64_t   at = blockIdx.x, slot = at / per_key;
    bwd_place w = {};
    if (slot < bwd_slots(c, tile)) {
      int i = (int)(at % per_key) / c.G, each = (c.group + c.parts - 1) / c.parts;
      w.kv = (int)(at % c.G);
      w.part = i % c.parts;
      w.head = w.kv * c.group + w.part * each;
      w.n_head = c.group - w.part * each < each ? c.group - w.part * each : each;
      w.what = !plan.apart ? BWD_KEY | BWD_VALUE : i < c.parts ? BWD_KEY : BWD_VALUE;
    } else {
      at -= bwd_slots(c, tile) * per_key;
      tile = plan.query_tile;
      slot = bwd_slots(c, tile) - 1 - at / c.H;
      w.head = (int)(at % c.H);
      w.n_head = 1;
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

/* Element offsets of the sequence's row `row`. They are for query head h or key/value head g in qkv, for head
 * h in dout, and for key/value head g in the block's part. */
static __device__ __forceinline__ int64_t bwd_q(const bwd_call &c, const bwd_place &w, int row, int h) {
  return (int64_t)(w.start + row) * c.E + h * c.D;
}
static __device__ __forceinline__ int64_t bwd_k(const bwd_call &c, const bwd_place &w, int row, int g) {
  return (int64_t)(w.start + row) * c.E + (c.H + g) * c.D;
}
static __device__ __forceinline__ int64_t bwd_o(const bwd_call &c, const bwd_place &w, int row, int h) {
  return ((int64_t)(w.start + row) * c.H + h) * c.D;
}
static __device__ __forceinline__ int64_t bwd_part(const bwd_call &c, const bwd_place &w, int row, int g) {
  return (((int64_t)w.part * c.N + w.start + row) * 2 * c.G + g) * c.D;
}

/* Returns the row behind the last query of the sequence that sees any of the n keys from w.first on. */
static __device__ __forceinline__ int bwd_end(const bwd_call &c, const bwd_place &w, int n) {
  int end = w.first + n - 1 + c.rule.window;
  return end < w.len ? end : w.len;
}

/* lse or delta of a query. Behind the sequence's end the values make its probabilities 0. */
static __device__ __forceinline__ float bwd_lse(const bwd_call &c, const bwd_place &w, int row, int h) {
  return row < w.len ? c.lse[(int64_t)(w.start + row) * c.H + h] : INFINITY;
}
static __device__ __forceinline__ float bwd_delta(const bwd_call &c, const bwd_place &w, int row, int h) {
  return row < w.len ? c.delta[(int64_t)(w.start + row) * c.H + h] : 0.0f;
}

#endif
