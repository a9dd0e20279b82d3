/* attention_decode.cu - the key/value cache: kv_put, and attention of one new token per sequence with one
 * block per key/value head. attention_spread.cu does it with many blocks. attention_tile.cuh fixes the work
 * of a row and its order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_decode.cuh"

/* ---- kv_put ---- */

enum { PUT_ROWS = 32, PUT_THREADS = 256 };

template <class A> struct put_pair;
template <> struct put_pair<tri_bf16> { typedef uint32_t type; };
template <> struct put_pair<tri_f16> { typedef uint32_t type; };
template <> struct put_pair<float> { typedef float2 type; };

/* Writes k and v of rows of qkv A [N,E] to slot[N] of k_page [P,G,D,TRI_PAGE] and v_page [P,G,TRI_PAGE,D]. A
 * block has 32 rows of one key/value head, so rows of one page are written together. The grid is (N / 32, G).
 * Tested against tri_cpu_kv_put. */
template <class A>
__global__ void __launch_bounds__(PUT_THREADS)
    kv_put_kernel(A *k_page, A *v_page, const A *qkv, const int32_t *slot, int64_t N, int64_t E,
                  int64_t slots, int H, int D) {
  typedef typename put_pair<A>::type pair;
  TRI_SHARED(A, keys, [PUT_ROWS][ATTN_MAX_D + 2]);
  TRI_SHARED(int, place, [PUT_ROWS]);
  int     G = gridDim.y, g = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int64_t first = (int64_t)blockIdx.x * PUT_ROWS;
  int     n = N - first < PUT_ROWS ? (int)(N - first) : PUT_ROWS, to;

  if (threadIdx.x < PUT_ROWS) {
    to = (int)threadIdx.x < n ? slot[first + threadIdx.x] : -1;
    TRI_KERNEL_ASSERT(to < slots);
    place[threadIdx.x] = to;
  }
  __syncthreads();
  for (int row = warp; row < n; row += PUT_THREADS / 32) {
    const A *k = qkv + (first + row) * E + (H + g) * D, *v = k + (int64_t)G * D;
    A       *at = v_page + (((int64_t)place[row] / TRI_PAGE * G + g) * TRI_PAGE + place[row] % TRI_PAGE) * D;
    if (place[row] < 0) continue;
    for (int d = 2 * lane; d < D; d += 64) { /* D is even */
      *(pair *)&keys[row][d] = *(const pair *)(k + d);
      *(pair *)(at + d) = *(const pair *)(v + d);
    }
  }
  __syncthreads();
  to = place[lane];
  if (to < 0) return;
  k_page += ((int64_t)to / TRI_PAGE * G + g) * D * TRI_PAGE + to % TRI_PAGE;
  for (int d = warp; d < D; d += PUT_THREADS / 32) k_page[d * TRI_PAGE] = keys[lane][d];
}

tri_status tri_cuda_kv_put(tri_stream *s, tri_out k_page, tri_out v_page, tri_in qkv, tri_in slot,
                           const tri_heads *h) {
  int64_t N = qkv->dim[0], E = qkv->dim[1], slots = tri_tensor_count(k_page) / ((int64_t)h->G * h->D);
  dim3    grid((unsigned)tri_blocks(N, PUT_ROWS), (unsigned)h->G);

  TRI_TRY(attn_check(h, qkv));
  TRI_ASSERT(k_page->dtype == qkv->dtype && v_page->dtype == qkv->dtype && slot->dtype == TRI_I32);
#define LAUNCH(A)                                                                                            \
  TRI_LAUNCH(kv_put_kernel<A>, grid, PUT_THREADS, 0, s, k_page->data, v_page->data, qkv->data, slot->data,   \
             N, E, slots, h->H, h->D)
  return TRI_BY_TYPE(tri_type(qkv), LAUNCH);
#undef LAUNCH
}

/* ---- attn_decode ---- */

/* Computes o A [B,H*D]. A block has up to 16 heads of one row and one key/value head, which are the rows of
 * its mma. Keys and values are read once, ahead of their use, and page numbers a tile earlier. With SMALL
 * there are two slots, one for keys and one for values. */
template <int D, bool VEC, bool RULED, bool SMALL>
static __device__ __forceinline__ void decode_block(decode_call c) {
  typedef decode_shape<D, SMALL> shape;
  constexpr int                  LEFT = shape::RING - 2; /* loads in flight during a wait */
  TRI_SHARED_DYNAMIC(tri_bf16, queries);
  TRI_SHARED(decode_share, share, [1]);
  decode_place p = decode_find(c, ROWS, blockIdx.x);
  tri_bf16    *ring = queries + ROWS * D, *slot[3] = {ring, ring + shape::SLOT, ring + 2 * shape::SLOT};
  int          lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float        scale_log2 = attn_scale_log2<RULED>(c.rule);
  int          first = RULED ? attn_first_tile<ATTN_KEYS>(c.rule, p.len - 1) : 0;
  float        o[shape::N][4] = {}, sum[2] = {0, 0}, reference[2] = {-INFINITY, -INFINITY};
  uint32_t     q[D / 16][4];
  int64_t      page[HALVES];

  attn_load<D, ROWS, THREADS, VEC>(queries, (const tri_bf16 *)c.qkv + p.b * c.E + p.h * c.D, c.D, p.n, c.D);
  tri_cp_commit();
  for (int i = 0; i < HALVES; i++) page[i] = decode_page(c, p, first + i * TRI_PAGE);
  decode_load_keys<D>(slot[0], c, page, p.len - first);
  tri_cp_commit();
  if (!SMALL) {
    decode_load_values<D, VEC>(slot[1], c, page, p.len - first);
    tri_cp_commit();
    for (int i = 0; i < HALVES; i++) page[i] = decode_page(c, p, first + ATTN_KEYS + i * TRI_PAGE);
  }
  tri_cp_wait<LEFT + 1>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < D / 16; i++)
    tri_ldmatrix<4, false>(q[i], queries + attn_at<D>(lane % 16, 2 * i + lane / 16));
  for (int n = p.len - first; n > 0; n -= ATTN_KEYS) { /* keys from this tile on */
    float     s[2][4] = {}, factor[2];
    tri_bf16 *keys = slot[0];
    tri_cp_wait<LEFT>();
    __syncthreads();
    if (SMALL) {
      decode_load_values<D, VEC>(slot[1], c, page, n);
      for (int i = 0; i < HALVES; i++) page[i] = decode_page(c, p, p.len - n + ATTN_KEYS + i * TRI_PAGE);
    } else if (n > ATTN_KEYS) {
      decode_load_keys<D>(slot[2], c, page, n - ATTN_KEYS);
    }
    tri_cp_commit();
    decode_scores<D, RULED>(s, q, keys, n, c.rule, share);
    tri_cp_wait<LEFT>();
    __syncthreads();
    if (SMALL) {
      if (n > ATTN_KEYS) decode_load_keys<D>(keys, c, page, n - ATTN_KEYS);
    } else if (n > ATTN_KEYS) {
      decode_load_values<D, VEC>(keys, c, page, n - ATTN_KEYS);
    }
    tri_cp_commit();
    if (!SMALL)
      for (int i = 0; i < HALVES; i++) page[i] = decode_page(c, p, p.len - n + 2 * ATTN_KEYS + i * TRI_PAGE);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      factor[r] = attn_raise_of<RULED>(&reference[r], decode_best(share, lane / 4 + 8 * r) * scale_log2);
      decode_weights<RULED>(s, r, reference[r], scale_log2, warp, share);
    }
    __syncthreads();
    decode_values<D>(o, sum, factor, slot[1], share);
    if (!SMALL) slot[0] = slot[2], slot[2] = slot[1], slot[1] = keys;
  }
  decode_end<D>(o, sum, c, p, 0);
}

/* Arrays as in decode_block. The grid is B * G * parts. Sums are f32 (mma). Shared memory is
 * decode_shape::SHARED and decode_share. VEC needs 16-byte aligned rows of D. Tested against
 * tri_cpu_attn_decode and the bits of attn_fwd_kernel. */
template <int D, bool VEC, bool RULED>
__global__ void __launch_bounds__(THREADS, decode_shape<D>::PER_SM) attn_decode_kernel(decode_call c) {
  decode_block<D, VEC, RULED, false>(c);
}
template <int D, bool VEC, bool RULED>
__global__ void __launch_bounds__(THREADS, decode_shape<D>::PER_SM) attn_decode_small_kernel(decode_call c) {
  decode_block<D, VEC, RULED, true>(c);
}

template <int D, bool VEC, bool RULED>
static tri_status launch_decode(tri_stream *s, const decode_call &c, unsigned grid) {
  constexpr size_t ALL = decode_shape<D>::SHARED + sizeof(decode_share);

  if constexpr (ALL > TRI_CUDA_SHARED_LEAST) {
    typedef decode_shape<D, true> small;
    static_assert(small::SHARED + sizeof(decode_share) <= TRI_CUDA_SHARED_LEAST, "the small form fits");
    if (!tri_cuda_has_shared(s, ALL))
      return TRI_LAUNCH((attn_decode_small_kernel<D, VEC, RULED>), grid, THREADS, small::SHARED, s, c);
  }
  return TRI_LAUNCH((attn_decode_kernel<D, VEC, RULED>), grid, THREADS, decode_shape<D>::SHARED, s, c);
}

/* Floats of shared memory for queries [F32_ROWS,D], keys, values and weights, in the layout of
 * attn_f32_tile. */
template <int COLS> static size_t decode_f32_shared(int D) {
  return sizeof(float) * (size_t)(F32_ROWS * D + D * ATTN_F32_LD + ATTN_F32_KEYS * (32 * COLS + F32_ROWS));
}

/* As attn_decode_kernel, for A f32 or f16 and D <= 32 COLS. A block has up to 8 heads. The grid is B * G *
 * parts. */
template <class A, int COLS>
__global__ void __launch_bounds__(THREADS) attn_decode_f32_kernel(decode_call c) {
  TRI_SHARED_DYNAMIC(float, queries);
  float                     *keys = queries + F32_ROWS * c.D, *values = keys + c.D * ATTN_F32_LD;
  int                        warp = threadIdx.x / 32;
  float                     *weights = values + ATTN_F32_KEYS * 32 * COLS + warp * F32_R * ATTN_F32_KEYS;
  decode_place               p = decode_find(c, F32_ROWS, blockIdx.x);
  attn_f32_rows<F32_R, COLS> a;

  decode_f32_queries<A>(queries, c, p);
  attn_f32_begin(a);
  for (int key = attn_first_tile<ATTN_F32_KEYS>(c.rule, p.len - 1); key < p.len; key += TRI_PAGE) {
    int     n_keys = p.len - key < TRI_PAGE ? p.len - key : TRI_PAGE;
    int64_t page = decode_page(c, p, key);
    __syncthreads(); /* all threads have read the tile before */
    decode_f32_keys(keys, (const A *)c.k_page + page, c.D, n_keys);
    attn_f32_values<COLS>(values, (const A *)c.v_page + page, c.D, n_keys, c.D);
    __syncthreads();
    attn_f32_tile(a, queries + warp * F32_R * c.D, keys, values, weights, c.D, c.rule, p.len - key, 0);
  }
#pragma unroll
  for (int r = 0; r < F32_R; r++)
    if (warp * F32_R + r < p.n)
      attn_f32_end(a, r, (A *)c.o + ((int64_t)p.b * c.H + p.h + warp * F32_R + r) * c.D, c.D);
}

tri_status tri_cuda_attn_decode(tri_stream *s, tri_out o, tri_out work, tri_in qkv, tri_in k_page,
                                tri_in v_page, tri_in table, tri_in len, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;

  int64_t     B = qkv->dim[0], D = h->D;
  tri_dtype   A = tri_type(qkv);
  int         rows = A == TRI_BF16 ? (int)ROWS : (int)F32_ROWS;
  int         parts = (int)tri_blocks(h->H / h->G, rows);
  unsigned    grid = (unsigned)(B * h->G * parts);
  decode_call c = {o->data,
                   qkv->data,
                   k_page->data,
                   v_page->data,
                   (const int32_t *)table->data,
                   (const int32_t *)len->data,
                   qkv->dim[1],
                   tri_tensor_count(k_page) / (h->G * D * TRI_PAGE),
                   (int)table->dim[1],
                   h->H,
                   h->G,
                   h->D,
                   parts,
                   attn_rule_of(rule)};

  TRI_TRY(attn_check(h, qkv));
  TRI_ASSERT(o->dtype == qkv->dtype && k_page->dtype == qkv->dtype && v_page->dtype == qkv->dtype);
  TRI_ASSERT(rule->scale > 0 && (uintptr_t)k_page->data % 16 == 0);
  if (work) return tri_cuda_attn_spread(s, c, A, B, work);
#define LAUNCH(D, VEC) launch_decode<D, VEC, false>(s, c, grid)
  if (A == TRI_BF16 && !attn_is_ruled(c.rule))
    return TRI_ATTN_D(h->D, tri_vec8(D, qkv->data, v_page->data), LAUNCH);
#undef LAUNCH
#define LAUNCH(D, VEC) launch_decode<D, VEC, true>(s, c, grid)
  if (A == TRI_BF16) return TRI_ATTN_RULED(h->D, tri_vec8(D, qkv->data, v_page->data), LAUNCH);
#undef LAUNCH
#define LAUNCH(A, COLS)                                                                                      \
  TRI_LAUNCH((attn_decode_f32_kernel<A, COLS>), grid, THREADS, decode_f32_shared<COLS>(h->D), s, c)
  return A == TRI_F16 ? TRI_ATTN_COLS(h->D, tri_f16, LAUNCH) : TRI_ATTN_COLS(h->D, float, LAUNCH);
#undef LAUNCH
}
