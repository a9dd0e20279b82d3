/* trial.c - cuDNN's gradients beside the own kernel's, on the numbers of the first call of a shape. */
#include "trial.h"

#include <math.h>
#include <string.h>

/* Milliseconds of one run of a way. */
static tri_status take_time(tri_stream *s, tri_cudnn_way way, double *ms) {
  const tri_device_ops *ops = s->device->ops;
  tri_status            st = TRI_OK;
  tri_event            *from = NULL, *to = NULL;

  TRI_TRY_DONE(ops->event_open(s->device, &from));
  TRI_TRY_DONE(ops->event_open(s->device, &to));
  TRI_TRY_DONE(ops->event_record(from, s));
  TRI_TRY_DONE(way.run(way.ctx, s));
  TRI_TRY_DONE(ops->event_record(to, s));
  TRI_TRY_DONE(ops->event_ms(from, to, ms));
done:
  ops->event_close(&to);
  ops->event_close(&from);
  return st;
}

/* A way's gradients, bf16 on the host. Before it each is NaN: what it leaves out shows. */
static tri_status get_gradients(tri_stream *s, tri_out dqkv, tri_cudnn_way way, double *ms, uint16_t *to) {
  const tri_device_ops *ops = s->device->ops;
  const size_t          bytes = (size_t)tri_tensor_count(dqkv) * sizeof *to;

  TRI_TRY(ops->fill(s, dqkv->data, 0xff, bytes));
  TRI_TRY(take_time(s, way, ms));
  TRI_TRY(ops->copy(s, to, dqkv->data, bytes));
  return ops->stream_sync(s);
}

/* Of columns [first, end) of n rows: how far apart at most, and the largest of want. NaN stays. */
static void compare(const uint16_t *got, const uint16_t *want, int64_t n, int64_t E, int64_t first,
                    int64_t end, double *apart, double *largest) {
  *apart = *largest = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i * E + first; j < i * E + end; j++) {
      const double w = (double)tri_half_to_f32(TRI_BF16, want[j]),
                   d = fabs((double)tri_half_to_f32(TRI_BF16, got[j]) - w);
      if (!(d <= *apart)) *apart = d;
      if (!(fabs(w) <= *largest)) *largest = fabs(w);
    }
}

/* Each of dq, dk and dv by its own largest, but none by less than a rounding of the largest of all: of rows
 * that see one key, dq and dk are noise. */
static double apart_of(const uint16_t *got, const uint16_t *want, int64_t n, const tri_heads *h) {
  const int64_t q = (int64_t)h->H * h->D, k = (int64_t)h->G * h->D, E = q + 2 * k;
  const int64_t end[] = {0, q, q + k, E};
  double        apart[3], size[3], all = 0, most = 0;

  for (int i = 0; i < 3; i++) compare(got, want, n, E, end[i], end[i + 1], &apart[i], &size[i]);
  for (int i = 0; i < 3; i++)
    if (!(size[i] <= all)) all = size[i];
  if (all == 0) return apart[0] == 0 && apart[1] == 0 && apart[2] == 0 ? NAN : HUGE_VAL;
  if (!(all < HUGE_VAL)) return NAN;
  for (int i = 0; i < 3; i++) {
    const double x = apart[i] / fmax(size[i], all / 256);
    most = isnan(x) ? HUGE_VAL : fmax(most, x);
  }
  return most;
}

tri_status tri_cudnn_try(tri_stream *s, tri_out dqkv, const tri_heads *h, tri_cudnn_way own,
                         tri_cudnn_way other, tri_cudnn_verdict *out) {
  const int64_t n = tri_tensor_count(dqkv);
  tri_status    st = TRI_OK;
  uint16_t     *want = NULL, *got = NULL, *again = NULL;

  *out = (tri_cudnn_verdict){0};
  TRI_TRY_DONE(TRI_ALLOC(want, n));
  TRI_TRY_DONE(TRI_ALLOC(got, n));
  TRI_TRY_DONE(TRI_ALLOC(again, n));
  for (int i = 0; i < 2; i++) /* the first of each loads its code */
    TRI_TRY_DONE(get_gradients(s, dqkv, own, &out->own_ms, want));
  TRI_TRY_DONE(get_gradients(s, dqkv, other, &out->ms, again));
  TRI_TRY_DONE(get_gradients(s, dqkv, other, &out->ms, got));
  out->repeats = !memcmp(got, again, (size_t)n * sizeof *got);
  out->apart = apart_of(got, want, dqkv->dim[0], h);
done:
  TRI_FREE(want);
  TRI_FREE(got);
  TRI_FREE(again);
  return st;
}
