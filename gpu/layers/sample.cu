/* sample.cu - draw one token per row of logits: temperature, top-k, top-p, keyed random numbers.
 *
 * It follows the steps of src/cpu/kernels/sample.c and is tested against it. Weights exp(scaled logit - max)
 * have the CPU's bits. They are then cut to whole multiples of 2^-(62 - log2 V), which is 2^-44 for 150,000
 * tokens and exact down to weights of 2^-21. So every sum here is one of whole numbers, the same in any
 * order. The token is the CPU's except in these cases:
 * - The CPU's draw without filters takes the sum of weights from logp's f32 sums, 1e-7 apart, and its other
 *   sums round in f64. A uniform number this close to the border of two tokens may give the neighbour.
 * - Tokens lighter than 2^-44 of the heaviest are never drawn here.
 * - If top-p ends within 1e-8 of the border of two tokens, it may keep one token more or less.
 *
 * Each warp owns a stretch of the row. It keeps the candidates of its stretch in order of id, at the
 * stretch's own place in `work`. Blocks synchronise only for histograms and for sums over warps. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "logprob.cuh"
#include "base/rng.h"

enum {
  BITS = 11, /* bits of a key in one turn, 32 in three turns */
  BINS = 1 << BITS,
  TILE = 128 /* candidates a warp takes at a time, four in a row per lane */
};

typedef unsigned long long mass; /* a sum of weights, or a count */

struct rule_numbers { /* numbers of tri_sample_rule, top_k 0 and top_p 1 are off */
  float    inv_temperature, top_p;
  float    unit; /* whole number for weight 1 */
  int      top_k;
  bool     greedy;
  uint64_t seed;
};

struct weighing { /* the weights of a row */
  float inv_temperature, max, unit;
};

struct candidates { /* those of one warp's stretch, in order of id */
  const float *x;   /* logits of a row [V], the candidates' are [first, first + n) */
  int          first, n;
  bool         moved; /* to `work` with ids behind the logits, so x[i] has id (int)x[V + i], else i */
};

/* 2 is more than any weight, except for logits beyond 10^7 with rounding errors this large. */
static __device__ __forceinline__ mass weight_of(float x, const weighing &w) {
  return (mass)(fminf(tri_exp(fmaf(x, w.inv_temperature, -w.max)), 2.0f) * w.unit);
}

/* Returns the sum of n weights, added by one warp, to every lane. */
template <bool VEC>
static __device__ __forceinline__ mass warp_mass(const float *x, int n, const weighing &w) {
  mass sum = 0;

#pragma unroll 1
  for (int i = threadIdx.x % 32 * 4; i < n; i += TILE) {
    float v[4];
    tri_logits4<VEC>(v, x + i, n - i);
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (i + j < n) sum += weight_of(v[j], w);
  }
  return tri_warp_sum(sum);
}

/* Shares one number per warp with the whole block. All turns use the same shared memory. */
template <int THREADS> static __device__ __forceinline__ mass *share(mass own) {
  TRI_SHARED(mass, part, [THREADS / 32]);
  __syncthreads(); /* a thread may still read the numbers before */
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = own;
  __syncthreads();
  return part;
}

/* The weights of bins in two words each. The hardware adds words in shared memory at once, but 64 bits by
 * retrying. */
struct bins {
  uint32_t low[BINS], high[BINS];
};
static __device__ __forceinline__ mass bin_of(const bins &b, int i) {
  return (mass)b.high[i] << 32 | b.low[i];
}
static __device__ __forceinline__ void add_to_bin(bins *b, uint32_t i, mass weight) {
  uint32_t low = (uint32_t)weight, high = (uint32_t)(weight >> 32);
  if (low) high += atomicAdd(b->low + i, low) + low < low; /* the carry */
  if (high) atomicAdd(b->high + i, high);
}

/* Fills b with the weights of the candidates with keys that begin like `cut`, binned by the `width` bits of
 * the key from `shift` on. */
template <int THREADS, bool VEC>
static __device__ __forceinline__ void fill_bins(bins *b, const candidates &c, const weighing &w,
                                                 bool by_mass, uint32_t cut, int shift, int width) {
  __syncthreads(); /* a thread may still read the bins before */
  for (int i = threadIdx.x; i < BINS; i += THREADS) b->low[i] = b->high[i] = 0;
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x % 32 * 4; i < c.n; i += TILE) {
    uint32_t mask = (1u << width) - 1;
    float    v[4];
    tri_logits4<VEC>(v, c.x + c.first + i, c.n - i);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      uint32_t key = tri_order_key(v[j]);
      if (i + j < c.n && (key ^ cut) >> shift >> width == 0) {
        if (by_mass)
          add_to_bin(b, (key >> shift) & mask, weight_of(v[j], w));
        else
          atomicAdd(b->low + ((key >> shift) & mask), 1u);
      }
    }
  }
}

/* Returns the bin in which the weight, counted from the last bin down, reaches `need`. Adds the weight of the
 * bins beyond it to *above. `whole` is share() of the warps' own bins, the same number of bins each. Every
 * warp finds the same bin. */
template <int THREADS>
static __device__ __forceinline__ int find_bin(const bins &b, const mass *whole, mass need, mass *above) {
  enum { EACH = BINS / (THREADS / 32), LANE_BINS = EACH / 32 };
  int  lane = threadIdx.x % 32, w = THREADS / 32 - 1, at, found;
  mass own = 0, upto;

#pragma unroll 1
  for (; w > 0 && *above + whole[w] < need; w--) *above += whole[w];
  at = (w + 1) * EACH - 1 - lane * LANE_BINS; /* this lane's last bin, lane 0 has the warp's last */
  for (int i = 0; i < LANE_BINS; i++) own += bin_of(b, at - i);
  upto = own;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    mass more = __shfl_up_sync(~0u, upto, d);
    if (lane >= d) upto += more;
  }
  found = __ffs((int)__ballot_sync(~0u, *above + upto >= need)) - 1;
  *above += upto - own;
  for (int i = 1; i < LANE_BINS && *above + bin_of(b, at) < need; i++) *above += bin_of(b, at--);
  *above = __shfl_sync(~0u, *above, found);
  return __shfl_sync(~0u, at, found);
}

/* Returns the number of flagged elements of a tile before this lane's first. */
static __device__ __forceinline__ int rank_in_tile(const bool (&flag)[4], int *total) {
  uint32_t before = (1u << threadIdx.x % 32) - 1;
  int      rank = 0;

  *total = 0;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    uint32_t votes = __ballot_sync(~0u, flag[j]);
    rank += __popc(votes & before);
    *total += __popc(votes);
  }
  return rank;
}

/* Keeps the candidates above `cut` and the first `ties` candidates of the row equal to it. Moves them to the
 * front of the stretch's place in work [2*V]. */
template <int THREADS, bool VEC>
static __device__ __forceinline__ void keep(candidates *c, float *work, int V, uint32_t cut, uint32_t ties) {
  const float *x = c->x + c->first;
  int32_t     *id = (int32_t *)(work + V) + c->first;
  int          n_kept = 0, lane = threadIdx.x % 32;
  uint32_t     tie = 0; /* ties before the tile */

  if (ties < UINT32_MAX) { /* otherwise all are kept */
    mass own = 0, *part;
#pragma unroll 1
    for (int i = lane * 4; i < c->n; i += TILE)
      for (int j = 0; j < 4; j++) own += i + j < c->n && tri_order_key(x[i + j]) == cut;
    part = share<THREADS>(tri_warp_sum(own));
#pragma unroll 1
    for (int w = 0; w < (int)threadIdx.x / 32; w++) tie += (uint32_t)part[w];
  }
  work += c->first;
#pragma unroll 1
  for (int i = lane * 4; i - lane * 4 < c->n; i += TILE) {
    float   v[4];
    int32_t name[4];
    bool    equal[4], kept[4];
    int     rank, total;
    tri_logits4<VEC>(v, x + i, c->n - i);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      uint32_t key = tri_order_key(v[j]);
      kept[j] = i + j < c->n && key >= cut;
      equal[j] = kept[j] && key == cut;
    }
    if (!__any_sync(~0u, kept[0] || kept[1] || kept[2] || kept[3])) continue;
    rank = rank_in_tile(equal, &total);
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (equal[j]) kept[j] = tie + (uint32_t)rank++ < ties;
    tie += (uint32_t)total;
    rank = n_kept + rank_in_tile(kept, &total);
    n_kept += total;
#pragma unroll
    for (int j = 0; j < 4; j++) name[j] = !kept[j] ? 0 : c->moved ? id[i + j] : c->first + i + j;
    __syncwarp(); /* the warp has read the tile, it may be overwritten */
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (kept[j]) work[rank] = v[j], id[rank++] = name[j];
  }
  __syncwarp();
  c->x = work - c->first;
  c->n = n_kept;
  c->moved = true;
}

/* Keeps the candidates with the largest logits, lowest id first among equals. It keeps as many as their
 * weight needs to reach top_k (1 each), or by_mass top_p of the weight of all, and at least one. It is a
 * radix selection like the CPU's. After the first turn it drops candidates below its bin, so later turns read
 * few. */
template <int THREADS, bool VEC>
static __device__ __forceinline__ void keep_largest(candidates *c, float *work, int V, const weighing &w,
                                                    const rule_numbers &rule, bool by_mass) {
  TRI_SHARED(bins, all_bins, [1]);
  enum { EACH = BINS / (THREADS / 32) };
  mass     need = (mass)rule.top_k, above = 0; /* weight of the candidates beyond the cut's bin */
  uint32_t cut = 0;                            /* key of the last candidate kept, as far as known */

#pragma unroll 1
  for (int shift = 32 - BITS;; shift = shift > BITS ? shift - BITS : 0) {
    int         width = shift > 0 ? BITS : 32 - 2 * BITS;
    const mass *whole;
    mass        sum = 0;
    fill_bins<THREADS, VEC>(all_bins, *c, w, by_mass, cut, shift, width);
    __syncthreads();
    for (int i = threadIdx.x % 32; i < EACH; i += 32) sum += bin_of(all_bins[0], threadIdx.x / 32 * EACH + i);
    whole = share<THREADS>(tri_warp_sum(sum));
    if (shift == 32 - BITS && by_mass) {
      mass all = 0;
#pragma unroll 1
      for (int i = 0; i < THREADS / 32; i++) all += whole[i];
      need = (mass)ceil((double)rule.top_p * (double)all);
      need = need < 1 ? 1 : need > all ? all : need;
    }
    cut |= (uint32_t)find_bin<THREADS>(all_bins[0], whole, need, &above) << shift;
    if (shift == 0) break;
    if (shift == 32 - BITS) keep<THREADS, VEC>(c, work, V, cut, UINT32_MAX);
  }
  need -= above;
  if (by_mass) {
    mass each = weight_of(tri_order_value(cut), w);
    need = each > 0 ? (need + each - 1) / each : 1;
  }
  keep<THREADS, VEC>(c, work, V, cut, (uint32_t)need);
}

/* Returns the warp's part of the row in which the running sum passes *target. *target then counts from the
 * start of the part. */
template <int THREADS> static __device__ __forceinline__ int pass(const mass *part, mass *target) {
  int w = 0;
#pragma unroll 1
  for (; w < THREADS / 32 - 1 && *target >= part[w]; w++) *target -= part[w];
  return w;
}

/* Returns the first of n elements at which the running sum of weights passes target, or n if none does. One
 * warp calls it. */
template <bool VEC>
static __device__ __forceinline__ int first_past(const float *x, int n, mass target, const weighing &w) {
  int lane = threadIdx.x % 32;

#pragma unroll 1
  for (int i = lane * 4; i - lane * 4 < n; i += TILE) {
    float v[4];
    mass  weight[4], own = 0, upto, all;
    int   found, j = 0;
    tri_logits4<VEC>(v, x + i, n - i);
#pragma unroll
    for (int k = 0; k < 4; k++) own += weight[k] = i + k < n ? weight_of(v[k], w) : 0;
    upto = own;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      mass more = __shfl_up_sync(~0u, upto, d);
      if (lane >= d) upto += more;
    }
    all = __shfl_sync(~0u, upto, 31);
    if (target >= all) {
      target -= all;
      continue;
    }
    found = __ffs((int)__ballot_sync(~0u, target < upto)) - 1;
    upto -= own;
#pragma unroll
    for (int k = 0; k < 3; k++) {
      upto += weight[k];
      j += target >= upto;
    }
    return __shfl_sync(~0u, i + j, found);
  }
  return n;
}

/* Returns the token at which the running sum of weights, in order of id, passes u times the weight of all, or
 * -1 if all weights are 0. The block narrows the place down by parts, one per warp. Stretches lie `stretch`
 * elements apart. */
template <int THREADS, bool VEC>
static __device__ __forceinline__ int32_t draw(const candidates &c, const weighing &w, int V, int stretch,
                                               uint64_t seed, const int64_t *key) {
  enum { WARPS = THREADS / 32 };
  const mass *part = share<THREADS>(warp_mass<VEC>(c.x + c.first, c.n, w));
  mass        all = 0, target;
  int         at, n, first;

#pragma unroll 1
  for (int i = 0; i < WARPS; i++) all += part[i];
  if (all == 0) return -1;
  target = (mass)(tri_rng_draw(seed, key) * (double)all);
  target = target < all ? target : all - 1; /* against rounding */
  at = pass<THREADS>(part, &target);
  first = at * stretch;
  n = (int)share<THREADS>((mass)c.n)[at];
#pragma unroll 1
  while (WARPS > 1 && n > TILE) {
    int each = (n + 4 * WARPS - 1) / (4 * WARPS) * 4, from = threadIdx.x / 32 * each;
    part = share<THREADS>(warp_mass<VEC>(c.x + first + from, n - from < each ? n - from : each, w));
    at = pass<THREADS>(part, &target);
    first += at * each;
    n = n - at * each < each ? n - at * each : each;
  }
  first += first_past<VEC>(c.x + first, n, target, w);
  return c.moved ? ((const int32_t *)c.x)[V + first] : first;
}

/* Returns the first element of x[V] equal to `top`. There must be one. */
template <int THREADS, bool VEC>
static __device__ __forceinline__ int32_t first_of(const float *x, int V, float top) {
  TRI_SHARED(int, least, [1]);
  int found = V;

  if (threadIdx.x == 0) least[0] = V;
  __syncthreads();
  for (int i = threadIdx.x * 4; i < V && found == V; i += THREADS * 4) {
    float v[4];
    tri_logits4<VEC>(v, x + i, V - i);
#pragma unroll
    for (int j = 3; j >= 0; j--)
      if (v[j] == top) found = i + j;
  }
  if (found < V) atomicMin(least, found);
  __syncthreads();
  return least[0];
}

/* Draws the token of a row with weights, by the filters of `rule`. work is [2*V]. */
template <int THREADS, bool VEC>
static __device__ __forceinline__ int32_t draw_row(const float *x, int V, float *work, const weighing &w,
                                                   const rule_numbers &rule, const int64_t *key) {
  int        stretch = (V + THREADS / 8 - 1) / (THREADS / 8) * 4; /* per warp, a multiple of 4 */
  int        at = threadIdx.x / 32 * stretch;
  candidates c;

  c.x = x;
  c.first = at < V ? at : V;
  c.n = V - c.first < stretch ? V - c.first : stretch;
  c.moved = false;
#pragma unroll 1
  for (int by_mass = 0; by_mass < 2; by_mass++)
    if (by_mass ? rule.top_p < 1 : rule.top_k > 0 && rule.top_k < V)
      keep_largest<THREADS, VEC>(&c, work, V, w, rule, by_mass);
  return draw<THREADS, VEC>(c, w, V, stretch, rule.seed, key);
}

/* Computes token i32 and logp f32 [B] from logits f32 [B,V]. key is i64 [B,3]. work is f32 [B,2*V], per row
 * logits [V], ids [V]. The grid is B. Tested against tri_cpu_sample. */
template <int THREADS, bool VEC>
__global__ void __launch_bounds__(THREADS)
    sample_kernel(int32_t *token, float *logp, float *work, const float *logits, const int64_t *key, int V,
                  rule_numbers rule) {
  int64_t         row = blockIdx.x;
  const float    *x = logits + row * V;
  tri_row_softmax r = tri_softmax_row<THREADS, VEC>(x, V, rule.inv_temperature);
  bool            good = fabsf(r.max) < INFINITY && r.sum > 0 && r.sum < INFINITY;
  weighing        w = {rule.inv_temperature, r.max, rule.unit};
  int32_t         id = 0;

  if (good) {
    id = rule.greedy ? -1 : draw_row<THREADS, VEC>(x, V, work + 2 * row * V, w, rule, key + 3 * row);
    if (id < 0) id = first_of<THREADS, VEC>(x, V, r.top);
  }
  if (threadIdx.x == 0) {
    token[row] = id;
    logp[row] = good ? tri_softmax_logp(x[id], rule.inv_temperature, r.max, log(r.sum)) : NAN;
  }
}

tri_status tri_cuda_sample(tri_stream *s, tri_out token, tri_out logp, tri_out work, tri_in logits,
                           tri_in key, const tri_sample_rule *rule) {
  int64_t      B = logits->dim[0], V = logits->dim[1];
  int          log2_V = 0;
  bool         greedy = rule->temperature <= 0;
  rule_numbers numbers = {
      greedy ? 1.0f : 1.0f / rule->temperature, rule->top_p, 0, rule->top_k, greedy, rule->seed};

  TRI_ASSERT(logits->dtype == TRI_F32 && key->dtype == TRI_I64 && key->dim[0] == B && key->dim[1] == 3);
  TRI_ASSERT(work->dtype == TRI_F32 && tri_tensor_count(work) >= 2 * B * V && V > 0 && V <= INT32_MAX / 2);
  if (B == 0) return TRI_OK;
  while ((int64_t)1 << log2_V < V) log2_V++;
  numbers.unit = ldexpf(1.0f, 62 - log2_V); /* V weights of at most 2 fit a mass */
  return TRI_LAUNCH_ROWS(sample_kernel, B, V, tri_vec4(V, logits->data, work->data), s, token->data,
                         logp->data, work->data, logits->data, key->data, V, numbers);
}
