/* conv.c - the short causal convolution of recurrent layers, forward and backward.
 *
 * Work is divided into pieces of columns and blocks of rows. A row reads the W - 1 rows before it, from the
 * batch, from its slot's tail or from a row of zeros. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include <string.h>

enum {
  PIECE = 128, /* chosen: columns of a piece. The rows of a block, 20 KiB, stay in the first-level cache */
  ROWS = 32,   /* rows of a unit of work forward, and of a partial sum backward */
  W_MOST = TRI_CONV_MOST
};

typedef struct conv_call { /* the arguments of one call */
  const void    *mix, *w, *tail;
  tri_dtype      A;
  int64_t        N, Er, S;
  int            W;
  const int32_t *cu, *slot, *fresh;
} conv_call;

/* Sets taps[W,PIECE] to columns first .. first + n - 1 of w [Er,W]. */
static void load_taps(float taps[W_MOST][PIECE], const conv_call *c, int64_t first, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    for (int j = 0; j < c->W; j++) taps[j][i] = tri_cpu_get(c->w, c->A, (first + i) * c->W + j);
}

/* Sets x to n columns of the rows t - (W - 1) .. t of the sequence in batch rows `start` on, from column `at`
 * on. zero is a row of zeros. */
static void find_rows(const void *x[W_MOST], const conv_call *c, int64_t seq, int64_t t, int64_t at,
                      const void *zero) {
  const int64_t start = c->cu[seq], before = c->W - 1;
  const bool    goes_on = c->slot && c->slot[seq] >= 0 && !c->fresh[seq];

  for (int64_t j = 0; j <= before; j++) {
    int64_t from = t - before + j;
    if (from >= 0)
      x[j] = tri_cpu_at(c->mix, c->A, (start + from) * c->Er + at);
    else
      x[j] = goes_on ? tri_cpu_at(c->tail, c->A, (c->slot[seq] * before + before + from) * c->Er + at) : zero;
  }
}

/* Sets u to the sums of one row, n columns. */
static TRI_CPU_EACH void add_taps(const tri_dtype A, float *restrict u, const void *const x[W_MOST],
                                  float taps[W_MOST][PIECE], int W, int64_t n) {
#pragma omp              simd
  for (int64_t i = 0; i < n; i++) u[i] = taps[0][i] * tri_cpu_get(x[0], A, i);
  for (int j = 1; j < W; j++) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) u[i] = fmaf(taps[j][i], tri_cpu_get(x[j], A, i), u[i]);
  }
}

/* Computes columns at .. at + n - 1 of rows first .. end - 1. */
static void conv_rows(void *to, const conv_call *c, int64_t first, int64_t end, int64_t at, int64_t n) {
  float       taps[W_MOST][PIECE], u[PIECE], zero[PIECE] = {0};
  const void *x[W_MOST];
  int64_t     seq = tri_cpu_find_sequence(c->cu, c->S, first);

  load_taps(taps, c, at, n);
  for (int64_t row = first; row < end; row++) {
    while (c->cu[seq + 1] <= row) seq++;
    find_rows(x, c, seq, row - c->cu[seq], at, zero);
    TRI_CPU_OF(c->A, add_taps, u, x, taps, c->W, n);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) u[i] = tri_silu(u[i]);
    TRI_CPU_OF(c->A, tri_cpu_narrow, tri_cpu_at_out(to, c->A, row * c->Er + at), u, n, 1.0f);
  }
}

/* Leaves the last W - 1 rows of sequence seq in its slot's tail. With fewer rows the older ones move up, the
 * oldest first, so none is overwritten before it is read. */
static void keep_rows(void *tail, const conv_call *c, int64_t seq, int64_t at, int64_t n) {
  const int64_t before = c->W - 1, start = c->cu[seq], T = c->cu[seq + 1] - start;
  const size_t  size = tri_dtype_bytes(c->A);

  for (int64_t j = 0; j < before; j++) {
    int64_t from = T - before + j;
    void   *to = tri_cpu_at_out(tail, c->A, (c->slot[seq] * before + j) * c->Er + at);
    if (from >= 0)
      memcpy(to, tri_cpu_at(c->mix, c->A, (start + from) * c->Er + at), (size_t)n * size);
    else if (c->fresh[seq])
      memset(to, 0, (size_t)n * size);
    else
      memmove(to, tri_cpu_at(tail, c->A, (c->slot[seq] * before + before + from) * c->Er + at),
              (size_t)n * size);
  }
}

static conv_call conv_open(tri_in mix, tri_in w, tri_in cu) {
  conv_call c = {.mix = mix->data,
                 .w = w->data,
                 .A = tri_cpu_type(mix),
                 .N = mix->dim[0],
                 .Er = mix->dim[1],
                 .S = cu->dim[0] - 1,
                 .W = (int)w->dim[1],
                 .cu = cu->data};

  TRI_ASSERT(w->dtype == mix->dtype && w->dim[0] == c.Er && c.W >= 2 && c.W <= W_MOST);
  TRI_ASSERT(c.S >= 0 && c.cu[c.S] == c.N);
  return c;
}

tri_status tri_cpu_conv_fwd(tri_stream *s, tri_out c, tri_in mix, tri_in w, tri_out tail,
                            const tri_delta_rows *rows) {
  conv_call call = conv_open(mix, w, rows->cu);
  int64_t   N = call.N, Er = call.Er, S = call.S;
  int       threads = tri_cpu_threads(s, 8 * N * Er);

  TRI_ASSERT(tri_cpu_same_rows(c, mix));
  TRI_ASSERT(!rows->slot == !rows->fresh && (!rows->slot || (tail && tail->dtype == mix->dtype)));
  if (rows->slot) call.slot = rows->slot->data, call.fresh = rows->fresh->data, call.tail = tail->data;
  for (int64_t seq = 0; call.slot && seq < S; seq++)
    TRI_ASSERT(call.slot[seq] < tri_tensor_count(tail) / ((call.W - 1) * Er));
#pragma omp parallel num_threads(threads)
  {
#pragma omp for collapse(2) schedule(static)
    for (int64_t first = 0; first < N; first += ROWS)
      for (int64_t at = 0; at < Er; at += PIECE)
        conv_rows(c->data, &call, first, first + ROWS < N ? first + ROWS : N, at,
                  Er - at < PIECE ? Er - at : PIECE);
#pragma omp for collapse(2) schedule(static)
    for (int64_t seq = 0; seq < (call.slot ? S : 0); seq++)
      for (int64_t at = 0; at < Er; at += PIECE)
        if (call.slot[seq] >= 0) keep_rows(tail->data, &call, seq, at, Er - at < PIECE ? Er - at : PIECE);
  }
  return TRI_OK;
}

/* Replaces the sums u of a row by their gradients, dc silu'(u). */
static TRI_CPU_EACH void times_slope(const tri_dtype A, float *restrict u, const void *dc, int64_t n) {
#pragma omp              simd
  for (int64_t i = 0; i < n; i++) u[i] = tri_cpu_get(dc, A, i) * tri_silu_slope(u[i]);
}

/* Adds the share of one row to dw. */
static TRI_CPU_EACH void add_share(const tri_dtype A, float dw[W_MOST][PIECE], const float *restrict du,
                                   const void *const x[W_MOST], int W, int64_t n) {
  for (int j = 0; j < W; j++) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dw[j][i] = fmaf(du[i], tri_cpu_get(x[j], A, i), dw[j][i]);
  }
}

/* Computes the gradients of n columns from `at` on, for all rows of one sequence. In blocks of ROWS rows,
 * du of the block and of the W - 1 rows behind it gives dmix of the block and its share of dw [W,PIECE]. */
static void conv_back(void *dmix, float dw[W_MOST][PIECE], float taps[W_MOST][PIECE], const conv_call *c,
                      const void *dc, int64_t seq, int64_t at, int64_t n) {
  const int64_t start = c->cu[seq], T = c->cu[seq + 1] - start;
  const int     W = c->W;
  float         du[ROWS + W_MOST][PIECE], part[W_MOST][PIECE], zero[PIECE] = {0};
  const void   *x[W_MOST];

  for (int64_t first = 0; first < T; first += ROWS) {
    const int64_t end = first + ROWS < T ? first + ROWS : T, ahead = end + W - 1;
    memset(part, 0, sizeof part);
    for (int64_t t = first; t < ahead; t++) {
      float *to = du[t - first];
      if (t >= T) {
        memset(to, 0, (size_t)n * sizeof *to);
        continue;
      }
      find_rows(x, c, seq, t, at, zero);
      TRI_CPU_OF(c->A, add_taps, to, x, taps, W, n);
      TRI_CPU_OF(c->A, times_slope, to, tri_cpu_at(dc, c->A, (start + t) * c->Er + at), n);
      if (t < end) TRI_CPU_OF(c->A, add_share, part, to, x, W, n);
    }
    for (int64_t t = first; t < end; t++) {
      float sum[PIECE];
#pragma omp simd
      for (int64_t i = 0; i < n; i++) sum[i] = taps[W - 1][i] * du[t - first][i];
      for (int j = W - 2; j >= 0; j--) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) sum[i] = fmaf(taps[j][i], du[t - first + W - 1 - j][i], sum[i]);
      }
      TRI_CPU_OF(c->A, tri_cpu_narrow, tri_cpu_at_out(dmix, c->A, (start + t) * c->Er + at), sum, n, 1.0f);
    }
    for (int j = 0; j < W; j++) {
#pragma omp simd
      for (int64_t i = 0; i < n; i++) dw[j][i] += part[j][i];
    }
  }
}

tri_status tri_cpu_conv_bwd(tri_stream *s, tri_out dmix, tri_out dw, tri_in dc, tri_in mix, tri_in w,
                            tri_in cu) {
  conv_call call = conv_open(mix, w, cu);
  int64_t   Er = call.Er;
  int       threads = tri_cpu_threads(s, 24 * call.N * Er);
  int64_t   stripe = tri_cpu_stripe(Er, threads);

  if (stripe > PIECE) stripe = PIECE;
  TRI_ASSERT(tri_cpu_same_rows(dmix, mix) && tri_cpu_same_rows(dc, mix));
  TRI_ASSERT(!dw || (dw->dtype == TRI_F32 && dw->dim[0] == Er && dw->dim[1] == call.W));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t at = 0; at < Er; at += stripe) {
    int64_t n = Er - at < stripe ? Er - at : stripe;
    float   taps[W_MOST][PIECE], sum[W_MOST][PIECE];
    memset(sum, 0, sizeof sum);
    load_taps(taps, &call, at, n);
    for (int64_t seq = 0; seq < call.S; seq++) conv_back(dmix->data, sum, taps, &call, dc->data, seq, at, n);
    for (int64_t i = 0; i < (dw ? n : 0); i++)
      for (int j = 0; j < call.W; j++) ((float *)dw->data)[(at + i) * call.W + j] += sum[j][i];
  }
  return TRI_OK;
}
