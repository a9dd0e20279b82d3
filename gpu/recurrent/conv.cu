/* conv.cu - the causal convolution of each column before a gated delta rule. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/row_sums.cuh"

enum {
  CONV_THREADS = 128, /* columns of a block of conv_fwd_kernel. Chosen. */
  CONV_ROWS = 16,     /* rows of such a block */
  COLUMNS = 32,       /* of a block of conv_bwd_kernel, one warp reads one row's. Chosen. */
  RUNS = 8,           /* runs of neighbouring rows of such a block, one warp each */
  PART_ROWS = 128,    /* least rows of a part, which is a block's */
  MOST = TRI_CONV_MOST
};
static_assert(CONV_ROWS >= MOST - 1, "only the first block of a sequence reads the tail");

struct conv_call {
  const void    *mix, *w; /* A [N,Er], A [Er,W] */
  const int32_t *cu;      /* [S+1] */
  int64_t        N, S, Er;
  int            W;
};

/* tap[i] is the weight of the row i before the newest. */
template <class A>
static __device__ __forceinline__ void conv_taps(float (&tap)[MOST], const conv_call &c, int64_t col) {
#pragma unroll
  for (int i = 0; i < MOST; i++) tap[i] = i < c.W ? tri_get(((const A *)c.w)[col * c.W + c.W - 1 - i]) : 0.0f;
}
/* x[i] is the row i before the newest. */
static __device__ __forceinline__ void conv_shift(float (&x)[MOST], float newest) {
#pragma unroll
  for (int i = MOST - 1; i > 0; i--) x[i] = x[i - 1];
  x[0] = newest;
}
/* Adds up from the oldest row on. */
static __device__ __forceinline__ float conv_sum(const float (&tap)[MOST], const float (&x)[MOST], int W) {
  float sum = 0;

#pragma unroll
  for (int i = MOST - 1; i >= 0; i--)
    if (i < W) sum = fmaf(tap[i], x[i], sum);
  return sum;
}

/* The blocks of sequence s have the numbers from cu[s] / CONV_ROWS + s on, and these are enough for its rows.
 * Returns the sequence of block n. */
static __device__ __forceinline__ int conv_find_block(const int32_t *cu, int64_t S, int64_t n) {
  int64_t low = 0, high = S - 1;

  while (low < high) {
    int64_t mid = (low + high + 1) / 2;
    if (cu[mid] / CONV_ROWS + mid <= n)
      low = mid;
    else
      high = mid - 1;
  }
  return (int)low;
}
/* Returns the sequence of row n, the largest s < S with cu[s] <= n. */
static __device__ __forceinline__ int64_t conv_find_row(const int32_t *cu, int64_t S, int64_t n) {
  int64_t low = 0, high = S - 1;

  while (low < high) {
    int64_t mid = (low + high + 1) / 2;
    if (cu[mid] <= n)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

struct conv_fwd_call {
  conv_call      of;
  void          *out;          /* A [N,Er] */
  void          *tail;         /* A [Z,W-1,Er] or NULL */
  const int32_t *slot, *fresh; /* [S] or NULL */
  int64_t        slots;
};

/* A block has 16 rows of 128 columns of one sequence, a thread one column. The block of a sequence's
 * first rows reads and writes its tail, so no other thread uses what it overwrites. The grid is (N /
 * CONV_ROWS + S, Er / CONV_THREADS). Tested against tri_cpu_conv_fwd. */
template <class A> __global__ void __launch_bounds__(CONV_THREADS) conv_fwd_kernel(const conv_fwd_call c) {
  int      s = conv_find_block(c.of.cu, c.of.S, blockIdx.x), W = c.of.W, slot = c.slot ? c.slot[s] : -1;
  int64_t  begin = c.of.cu[s], end = c.of.cu[s + 1], Er = c.of.Er;
  int64_t  row = begin + ((int64_t)blockIdx.x - begin / CONV_ROWS - s) * CONV_ROWS, last = row + CONV_ROWS;
  int64_t  col = (int64_t)blockIdx.y * CONV_THREADS + threadIdx.x;
  bool     first = row == begin, old = slot >= 0 && first && !c.fresh[s];
  const A *mix = (const A *)c.of.mix + col;
  A       *tail = slot < 0 ? NULL : (A *)c.tail + (int64_t)slot * (W - 1) * Er + col;
  A       *out = (A *)c.out + col;
  float    tap[MOST], x[MOST];

  TRI_KERNEL_ASSERT(slot < c.slots);
  if (col >= Er) return;
  last = last < end ? last : end;
  if (row < last || first) {
    conv_taps<A>(tap, c.of, col);
#pragma unroll
    for (int i = 0; i < MOST; i++) { /* row - 1 - i */
      x[i] = 0;
      if (i < W - 1 && row - 1 - i >= begin)
        x[i] = tri_get(mix[(row - 1 - i) * Er]);
      else if (i < W - 1 && old)
        x[i] = tri_get(tail[(W - 2 - i) * Er]);
    }
#pragma unroll 4
    for (; row < last; row++) {
      conv_shift(x, tri_get(mix[row * Er]));
      tri_put(out + row * Er, tri_silu(conv_sum(tap, x, W)));
    }
    if (first && slot >= 0)
      for (int64_t i = 0; i < W - 1; i++) { /* the rows at the end of the sequence, the newest last */
        int64_t at = end - (W - 1) + i,
                before = at - begin + W - 1; /* before >= i, so it is not overwritten */
        if (at >= begin)
          tail[i * Er] = mix[at * Er];
        else if (old)
          tail[i * Er] = tail[before * Er];
        else
          tri_put(tail + i * Er, 0.0f);
      }
  }
}

static conv_call conv_call_of(tri_in mix, tri_in w, tri_in cu) {
  TRI_ASSERT(w->dtype == tri_type(mix) && w->dim[0] == mix->dim[1] && cu->dtype == TRI_I32);
  TRI_ASSERT(w->dim[1] >= 2 && w->dim[1] <= TRI_CONV_MOST && cu->dim[0] > 0);
  return {mix->data,   w->data,       (const int32_t *)cu->data, mix->dim[0], cu->dim[0] - 1,
          mix->dim[1], (int)w->dim[1]};
}

tri_status tri_cuda_conv_fwd(tri_stream *s, tri_out c, tri_in mix, tri_in w, tri_out tail,
                             const tri_delta_rows *rows) {
  conv_fwd_call call = {conv_call_of(mix, w, rows->cu), c->data, NULL, NULL, NULL, 0};
  int64_t       S = call.of.S;
  dim3          grid(tri_whole_grid(S > 0 ? call.of.N / CONV_ROWS + S : 0),
                     (unsigned)tri_blocks(call.of.Er, CONV_THREADS));

  TRI_ASSERT(tri_same_rows(c, mix));
  TRI_ASSERT(!rows->slot == !rows->fresh);
  if (rows->slot) {
    int64_t own = (call.of.W - 1) * call.of.Er; /* elements of a slot */
    TRI_ASSERT(tail && tail->dtype == mix->dtype && tri_tensor_count(tail) % own == 0);
    TRI_ASSERT(rows->slot->dim[0] == S && rows->fresh->dim[0] == S);
    call.tail = tail->data;
    call.slots = tri_tensor_count(tail) / own;
    call.slot = (const int32_t *)rows->slot->data;
    call.fresh = (const int32_t *)rows->fresh->data;
  }
#define LAUNCH(A) TRI_LAUNCH((conv_fwd_kernel<A>), grid, CONV_THREADS, 0, s, call)
  return TRI_BY_TYPE(tri_type(mix), LAUNCH);
#undef LAUNCH
}

struct conv_bwd_call {
  conv_call   of;
  const void *dc;    /* A [N,Er] */
  void       *dmix;  /* A [N,Er] */
  float      *dw;    /* f32 [Er,W], or [parts,Er,W], or NULL */
  int         parts; /* parts of neighbouring rows, each the rows of a block */
  int64_t     run;   /* rows of a run, RUNS of them make a part */
};

/* A thread has one column and a run of rows. It goes on for W - 1 rows behind its run, since these read
 * the run's rows. The gradient of a row is complete W - 1 rows later or at the end of its sequence.
 * dw[Er,W] += the sums, or with several parts dw[part] = the sums. A run adds its rows in order, then the
 * runs are added in order. The grid is parts * (Er / COLUMNS). Tested against tri_cpu_conv_bwd. */
template <class A> __global__ void __launch_bounds__(COLUMNS *RUNS) conv_bwd_kernel(const conv_bwd_call c) {
  TRI_SHARED(float, total, [RUNS][MOST][COLUMNS]);
  int     lane = threadIdx.x % COLUMNS, warp = threadIdx.x / COLUMNS, W = c.of.W;
  int     part = (int)(blockIdx.x % (unsigned)c.parts);
  int64_t col = (int64_t)(blockIdx.x / (unsigned)c.parts) * COLUMNS + lane, Er = c.of.Er;
  int64_t first = ((int64_t)part * RUNS + warp) * c.run,
          last = first + c.run < c.of.N ? first + c.run : c.of.N;
  const A *mix = (const A *)c.of.mix + col, *dc = (const A *)c.dc + col;
  A       *dmix = (A *)c.dmix + col;
  float tap[MOST], x[MOST] = {}, sum[MOST] = {}, dx[MOST] = {}; /* dx[i] is of the row i before the newest */

  if (col < Er && first < last) {
    int64_t s = conv_find_row(c.of.cu, c.of.S, first), begin = c.of.cu[s], end = c.of.cu[s + 1];
    conv_taps<A>(tap, c.of, col);
#pragma unroll
    for (int i = 0; i < MOST; i++)
      if (i < W - 1 && first - 1 - i >= begin) x[i] = tri_get(mix[(first - 1 - i) * Er]);
    for (int64_t row = first; row < last + W - 1; row++) {
      float d;
      if (row == end) { /* the rows before are complete, and the next sequence begins */
#pragma unroll
        for (int i = 0; i < MOST; i++) {
          int64_t to = row - 1 - i;
          if (i < W - 1 && to >= first && to >= begin && to < last) tri_put(dmix + to * Er, dx[i]);
          x[i] = dx[i] = 0;
        }
        if (row >= last) break;
        while (c.of.cu[s + 1] <= row) s++;
        begin = c.of.cu[s];
        end = c.of.cu[s + 1];
      }
      conv_shift(x, tri_get(mix[row * Er]));
      conv_shift(dx, 0.0f);
      d = tri_get(dc[row * Er]) * tri_silu_slope(conv_sum(tap, x, W));
#pragma unroll
      for (int i = 0; i < MOST; i++) {
        if (i >= W) break;
        if (row < last) sum[i] = fmaf(d, x[i], sum[i]);
        dx[i] = fmaf(tap[i], d, dx[i]);
        if (i == W - 1 && row - i >= first && row - i >= begin) tri_put(dmix + (row - i) * Er, dx[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < MOST; i++) total[warp][i][lane] = sum[i];
  __syncthreads();
  if (c.dw && warp < W && col < Er) { /* RUNS is at least W */
    float *to = c.dw + (c.parts > 1 ? part * Er * W : 0) + col * W + W - 1 - warp;
    float  all = 0;
#pragma unroll
    for (int i = 0; i < RUNS; i++) all += total[i][warp][lane];
    *to = c.parts > 1 ? all : *to + all;
  }
}
static_assert(RUNS >= MOST, "a warp for each tap");

tri_status tri_cuda_conv_bwd(tri_stream *s, tri_out dmix, tri_out dw, tri_in dc, tri_in mix, tri_in w,
                             tri_in cu) {
  conv_bwd_call c = {conv_call_of(mix, w, cu), dc->data, dmix->data, NULL, 1, 0};
  int64_t       Er = c.of.Er, n = Er * c.of.W;
  tri_row_parts p = tri_row_parts_of(c.of.N, n, PART_ROWS);
  unsigned      grid = tri_whole_grid(c.of.N > 0 ? tri_blocks(Er, COLUMNS) * p.n : 0);

  TRI_ASSERT(tri_same_rows(dc, mix) && tri_same_rows(dmix, mix));
  TRI_ASSERT(!dw || (dw->dtype == TRI_F32 && dw->dim[0] == Er && dw->dim[1] == c.of.W));
  c.parts = p.n;
  c.run = tri_blocks(c.of.N, (int64_t)p.n * RUNS);
  if (dw) c.dw = tri_row_parts_to(s, p, dw->data);
#define LAUNCH(A) TRI_LAUNCH((conv_bwd_kernel<A>), grid, COLUMNS *RUNS, 0, s, c)
  TRI_TRY(TRI_BY_TYPE(tri_type(mix), LAUNCH));
#undef LAUNCH
  return dw ? tri_add_row_parts(s, dw->data, p, n) : TRI_OK;
}
