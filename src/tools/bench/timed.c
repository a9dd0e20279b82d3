/* timed.c - times a kernel call on all ranks at once, and makes random data for it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "timed.h"

#include "base/host_memory.h"
#include "base/tensor.h"

#include <string.h>

enum { MOST_CALLS = 1000, MOST_NUMBERS = 16, PIECE = 1 << 16 };
static const double run_s = 1e-3; /* chosen, far longer than a clock tick or a launch */

tri_status tri_slowest(tri_comm *world, double *x, int n) {
  int64_t ns[MOST_NUMBERS];

  TRI_ASSERT(n <= MOST_NUMBERS);
  for (int i = 0; i < n; i++) ns[i] = (int64_t)(x[i] * 1e9 + 0.5);
  TRI_TRY(tri_host_max(world, ns, n));
  for (int i = 0; i < n; i++) x[i] = (double)ns[i] / 1e9;
  return TRI_OK;
}

static tri_status run(tri_session *se, tri_timed_work work, void *ctx, int calls, tri_series *s) {
  tri_series_begin(s);
  for (int i = 0; i < calls; i++) TRI_TRY(work(ctx, se->stream));
  TRI_TRY(se->device->ops->stream_sync(se->stream));
  tri_series_end(s);
  return TRI_OK;
}

static int calls_of(double one_s) {
  double n = one_s > 0 ? run_s / one_s + 1 : MOST_CALLS;

  return n > MOST_CALLS ? MOST_CALLS : (int)n;
}

tri_status tri_timed(tri_session *se, tri_timed_work work, void *ctx, const tri_effort *e, double *call_s) {
  tri_comm  *world = se->comm[TRI_WORLD];
  tri_series first = {.effort = {1, 1, 0, 0}}, s = {.effort = *e};
  bool       enough = false;
  int        calls;

  while (!tri_series_enough(&first)) TRI_TRY(run(se, work, ctx, 1, &first));
  calls = calls_of(tri_series_median(&first));
  while (!enough) {
    TRI_TRY(run(se, work, ctx, calls, &s));
    TRI_TRY(tri_series_ask(world, &s, &enough));
  }
  *call_s = tri_series_median(&s) / calls;
  return tri_slowest(world, call_s, 1);
}

float tri_noise(uint64_t i) { return (float)((i * 2654435761u >> 7) % 1001) / 10000.0f - 0.05f; }

tri_status tri_noise_put(tri_session *se, void *where, tri_dtype t, int64_t n) {
  size_t     each = tri_dtype_bytes(t);
  char      *piece = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(piece, (size_t)PIECE * each));
  for (int64_t i = 0; i < PIECE; i++) {
    float    x = tri_noise((uint64_t)i);
    uint16_t half = t == TRI_F32 ? 0 : tri_f32_to_half(t, x);
    memcpy(piece + (size_t)i * each, t == TRI_F32 ? (const void *)&x : &half, each);
  }
  for (int64_t at = 0; at < n; at += PIECE)
    TRI_TRY_DONE(se->device->ops->copy(se->stream, (char *)where + (size_t)at * each, piece,
                                       (size_t)(n - at < PIECE ? n - at : PIECE) * each));
  TRI_TRY_DONE(se->device->ops->stream_sync(se->stream));
done:
  TRI_FREE(piece);
  return st;
}

void *tri_carve_next(tri_carve *c, size_t n) {
  void *part = c->base ? c->base + c->used : NULL;

  c->used += (n + 255) & ~(size_t)255;
  return part;
}
