/* timed.c - times a kernel call by the device's events, on one rank or on all ranks at once, and makes random
 * data for it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "timed.h"

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/tensor.h"

#include <string.h>

enum { WARM_UP = 2, MOST_CALLS = 1000, MOST_NUMBERS = 16, PIECE = 1 << 16 };
static const double run_s = 1e-3; /* chosen, far longer than a clock tick or a launch */

tri_timer tri_timer_of(const tri_session *se) {
  return (tri_timer){se->device, se->stream, se->comm[TRI_WORLD]};
}

tri_status tri_slowest(tri_comm *world, double *x, int n) {
  int64_t ns[MOST_NUMBERS];

  TRI_ASSERT(n <= MOST_NUMBERS);
  for (int i = 0; i < n; i++) ns[i] = (int64_t)(x[i] * 1e9 + 0.5);
  TRI_TRY(tri_host_max(world, ns, n));
  for (int i = 0; i < n; i++) x[i] = (double)ns[i] / 1e9;
  return TRI_OK;
}

/* ---- runs ---- */

tri_status tri_timed_run(const tri_timer *t, tri_timed_work work, void *ctx, int calls, double *call_s) {
  const tri_device_ops *ops = t->device->ops;
  tri_event            *from = NULL, *to = NULL;
  double                ms;
  tri_status            st = TRI_OK;

  TRI_TRY_DONE(ops->event_open(t->device, &from));
  TRI_TRY_DONE(ops->event_open(t->device, &to));
  TRI_TRY_DONE(ops->event_record(from, t->stream));
  for (int i = 0; i < calls; i++) TRI_TRY_DONE(work(ctx, t->stream));
  TRI_TRY_DONE(ops->event_record(to, t->stream));
  TRI_TRY_DONE(ops->stream_sync(t->stream));
  TRI_TRY_DONE(ops->event_ms(from, to, &ms));
  *call_s = ms / 1e3 / calls;
done:
  ops->event_close(&to);
  ops->event_close(&from);
  return st;
}

static int calls_of(double one_s) {
  double n = one_s > 0 ? run_s / one_s + 1 : MOST_CALLS;

  return n > MOST_CALLS ? MOST_CALLS : (int)n;
}

tri_status tri_timed_warm_up(const tri_timer *t, tri_timed_work work, void *ctx, int *calls) {
  double one_s = 0;

  for (int i = 0; i < WARM_UP; i++) TRI_TRY(tri_timed_run(t, work, ctx, 1, &one_s));
  *calls = calls_of(one_s);
  return TRI_OK;
}

/* Sets *enough, the same on every rank of t->world. */
static tri_status ask(const tri_timer *t, const tri_series *s, bool *enough) {
  if (t->world) return tri_series_ask(t->world, s, enough);
  *enough = tri_series_enough(s);
  return TRI_OK;
}

tri_status tri_timed(const tri_timer *t, tri_timed_work work, void *ctx, const tri_effort *e,
                     tri_timing *out) {
  tri_series s = {.effort = *e};
  bool       enough = false;
  double     each[2];
  int        calls;

  TRI_TRY(tri_timed_warm_up(t, work, ctx, &calls));
  while (!enough) {
    double call_s;
    TRI_TRY(tri_timed_run(t, work, ctx, calls, &call_s));
    tri_series_add(&s, call_s, tri_now_s());
    TRI_TRY(ask(t, &s, &enough));
  }
  each[0] = tri_series_median(&s);
  each[1] = tri_series_best(&s);
  if (t->world) TRI_TRY(tri_slowest(t->world, each, 2));
  *out = (tri_timing){each[0], each[1], s.n, calls};
  return TRI_OK;
}

/* ---- data ---- */

float tri_noise(uint64_t i) { return (float)((i * 2654435761u >> 7) % 1001) / 10000.0f - 0.05f; }

tri_status tri_noise_put(tri_stream *s, void *where, tri_dtype t, int64_t n) {
  const tri_device_ops *ops = s->device->ops;
  size_t                each = tri_dtype_bytes(t);
  char                 *piece = NULL;
  tri_status            st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(piece, (size_t)PIECE * each));
  for (int64_t i = 0; i < PIECE; i++) {
    float    x = tri_noise((uint64_t)i);
    uint16_t half = t == TRI_F32 ? 0 : tri_f32_to_half(t, x);
    memcpy(piece + (size_t)i * each, t == TRI_F32 ? (const void *)&x : &half, each);
  }
  for (int64_t at = 0; at < n; at += PIECE)
    TRI_TRY_DONE(ops->copy(s, (char *)where + (size_t)at * each, piece,
                           (size_t)(n - at < PIECE ? n - at : PIECE) * each));
  TRI_TRY_DONE(ops->stream_sync(s));
done:
  TRI_FREE(piece);
  return st;
}

void *tri_carve_next(tri_carve *c, size_t n) {
  void *part = c->base ? c->base + c->used : NULL;

  c->used += (n + 255) & ~(size_t)255;
  return part;
}
