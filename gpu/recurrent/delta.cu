/* delta.cu - the gated delta rule forward, row by row with the state in registers. Decoding is the same
 * kernel with one row a sequence. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "delta.cuh"

struct delta_fwd_call {
  delta_call     of;
  void          *o;            /* A [N,Hv*Dv] */
  float         *state;        /* f32 [Z,Hv,Dk,Dv] or NULL */
  const int32_t *slot, *fresh; /* [S] or NULL */
  int64_t        slots;
  int            blocks; /* column blocks of a head */
};

/* Returns the first of this thread's elements of the state that sequence s goes on from or leaves, or
 * NULL. Later ones are in rows behind it, Dv apart. It is read again at the end, since addresses would
 * take registers all the time. */
template <int DK>
static __device__ __forceinline__ float *delta_state_of(const delta_fwd_call &c, int s, int h, int col) {
  int slot = c.slot ? c.slot[s] : -1;

  TRI_KERNEL_ASSERT(slot < c.slots);
  if (slot < 0 || col >= c.of.Dv) return NULL;
  return c.state + (((int64_t)slot * c.of.Hv + h) * c.of.Dk + delta_row_of<DK>(0)) * c.of.Dv + col;
}

/* A block has W columns of one value head of one sequence. The grid is S * Hv * blocks. Sums are f32, in
 * an order that depends on Dk alone. Shared memory is static, at most 36 KiB. Tested against
 * tri_cpu_delta_fwd. */
template <class A, int DK>
__global__ void __launch_bounds__(DELTA_THREADS, DK == 128 ? 4 : 3) delta_fwd_kernel(const delta_fwd_call c) {
  typedef delta_shape<DK> shape;
  TRI_SHARED(delta_rows<DK>, rows, [1]);
  TRI_SHARED(float, value, [DELTA_STAGE][shape::W]);
  TRI_SHARED(float, out, [DELTA_STAGE][shape::W]);
  int            first = (int)(blockIdx.x % (unsigned)c.blocks) * shape::W;
  int            h = (int)(blockIdx.x / (unsigned)c.blocks % (unsigned)c.of.Hv);
  int            s = (int)(blockIdx.x / (unsigned)c.blocks / (unsigned)c.of.Hv);
  int            col = threadIdx.x / shape::LANES, t0 = threadIdx.x / DELTA_EACH;
  int            part = threadIdx.x % DELTA_EACH * shape::VALUES, Dv = c.of.Dv;
  int            left = c.of.Dk - delta_row_of<DK>(0); /* rows of the state from the thread's first on */
  int64_t        row = c.of.cu[s], end = c.of.cu[s + 1];
  delta_head     head = delta_head_of<A>(c.of, h);
  float         *state = delta_state_of<DK>(c, s, h, first + col);
  float          S[DELTA_OWN];
  delta_load<DK> next;

  if (state && c.fresh[s]) state = NULL;
#pragma unroll
  for (int i = 0; i < DELTA_OWN; i++) {
    int d = delta_row_of<DK>(i) - delta_row_of<DK>(0);
    S[i] = state && d < left ? state[d * Dv] : 0.0f;
  }
  delta_fetch<A>(next, c.of, row, end, h, first);
  for (; row < end; row += DELTA_STAGE) {
    int n = end - row < DELTA_STAGE ? (int)(end - row) : DELTA_STAGE;
    delta_put(rows[0], next, head, c.of.Dk, t0 < n);
#pragma unroll
    for (int i = 0; i < shape::VALUES; i++) value[t0][part + i] = next.v[i];
    __syncthreads();
    delta_fetch<A>(next, c.of, row + DELTA_STAGE, end, h, first); /* in flight during the steps */
#pragma unroll 1
    for (int t = 0; t < n; t++) {
      float rest, o = delta_step<DK, true>(S, rows[0], t, value[t][col], &rest);
      if (threadIdx.x % shape::LANES == 0) out[t][col] = o;
    }
    __syncthreads(); /* out is whole, and rows are about to be overwritten */
    if (t0 < n) {
      A *to = (A *)c.o + ((row + t0) * c.of.Hv + h) * Dv + first + part;
#pragma unroll
      for (int i = 0; i < shape::VALUES; i++)
        if (first + part + i < Dv) tri_put(to + i, out[t0][part + i]);
    }
  }
  state = delta_state_of<DK>(c, s, h, first + col);
  if (!state) return;
#pragma unroll
  for (int i = 0; i < DELTA_OWN; i++) {
    int d = delta_row_of<DK>(i) - delta_row_of<DK>(0);
    if (d < left) state[d * Dv] = S[i];
  }
}

template <int DK> static tri_status delta_fwd(tri_stream *s, tri_dtype type, delta_fwd_call c, int64_t S) {
  unsigned grid;

  c.blocks = (c.of.Dv + delta_shape<DK>::W - 1) / delta_shape<DK>::W;
  grid = tri_whole_grid(S * c.of.Hv * c.blocks);
#define LAUNCH(A) TRI_LAUNCH((delta_fwd_kernel<A, DK>), grid, DELTA_THREADS, 0, s, c)
  return TRI_BY_TYPE(type, LAUNCH);
#undef LAUNCH
}

tri_status tri_cuda_delta_fwd(tri_stream *s, tri_out o, tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias,
                              tri_out state, const tri_delta_rows *rows, const tri_delta_rule *rule) {
  delta_fwd_call call = {
      delta_call_of(c, ba, A_log, dt_bias, rows->cu, rule), o->data, NULL, NULL, NULL, 0, 0};
  int64_t S = rows->cu->dim[0] - 1;

  TRI_ASSERT(o->dtype == c->dtype && o->dim[0] == c->dim[0] && o->dim[1] == (int64_t)rule->Hv * rule->Dv);
  TRI_ASSERT(!rows->slot == !rows->fresh);
  if (rows->slot) {
    TRI_ASSERT(state && state->dtype == TRI_F32 && tri_tensor_count(state) % tri_delta_state(rule) == 0);
    TRI_ASSERT(rows->slot->dim[0] == S && rows->fresh->dim[0] == S);
    call.state = (float *)state->data;
    call.slots = tri_tensor_count(state) / tri_delta_state(rule);
    call.slot = (const int32_t *)rows->slot->data;
    call.fresh = (const int32_t *)rows->fresh->data;
  }
  return rule->Dk <= 64    ? delta_fwd<64>(s, c->dtype, call, S)
         : rule->Dk <= 128 ? delta_fwd<128>(s, c->dtype, call, S)
                           : delta_fwd<256>(s, c->dtype, call, S);
}
