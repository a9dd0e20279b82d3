/* cudnn_trial.c - compares cuDNN's gradients with the own kernel's, on numbers independent of any batch.
 *
 * A resumed run tries again, at another batch, and must find the same. So the sequences and their contents
 * follow from the shape. Behind the last row there is NaN, as there may be in reused memory. An engine that
 * reads it and multiplies it by 0 is found, and one that writes there too. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cudnn_trial.h"

#include "base/host_memory.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* All chosen. BEHIND is the graph's least T, and 256 rows have several tiles. */
enum { BEHIND = 128, LEAST = 256, ALIGN = 256, N_ARRAYS = 6 };

/* The rows of the other sequences. The longest comes third. The others have a part of a tile, no row and one
 * row. */
enum { FIRST = 37, LAST = 1, N_SEQUENCES = 4 };

static int64_t rows_of(int64_t longest) { return FIRST + longest + LAST; }
static int64_t row_elements(const tri_heads *h) { return (int64_t)(h->H + 2 * h->G) * h->D; }
static size_t  row_bytes(const tri_heads *h) { /* rows of qkv and dqkv, o and dout, lse */
  return (size_t)(2 * row_elements(h) + 2 * (int64_t)h->H * h->D) * sizeof(uint16_t) +
         (size_t)h->H * sizeof(float);
}
static size_t bytes_of(const tri_heads *h, int64_t longest) {
  return N_ARRAYS * ALIGN + (size_t)(rows_of(longest) + BEHIND) * row_bytes(h);
}

size_t tri_cudnn_trial_bytes(const tri_heads *h, int64_t T) { return bytes_of(h, T < LEAST ? T : LEAST); }

int64_t tri_cudnn_trial_longest(const tri_heads *h, int64_t T, size_t bytes) {
  const int64_t longest = ((int64_t)bytes - N_ARRAYS * ALIGN) / (int64_t)row_bytes(h) - BEHIND - rows_of(0);

  return longest < T ? longest : T;
}

size_t tri_cudnn_trial_work_bytes(const tri_heads *h, int64_t T) {
  return (size_t)tri_attn_work(h, rows_of(T)) * sizeof(float);
}

/* ---- numbers ---- */

/* Takes an array of n rows, and of the rows behind them. *at moves on. */
static tri_tensor take(char **at, tri_dtype t, int64_t n, int64_t width) {
  const tri_tensor x = tri_view2(*at, t, n, width);
  const size_t     bytes = (size_t)((n + BEHIND) * width) * tri_dtype_bytes(t);

  *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  return x;
}

/* Uniform in (-2, 2). Scores are far enough apart to show which keys are seen. */
static tri_status put_numbers(tri_stream *s, tri_out x, uint64_t seed) {
  const tri_rng_key     key = tri_rng_make_key(seed, TRI_RNG_TEST);
  const tri_device_ops *ops = s->device->ops;
  const int64_t         n = tri_tensor_count(x);
  tri_status            st = TRI_OK;
  uint16_t             *from = NULL;
  uint32_t              bits[4] = {0};

  TRI_TRY(TRI_ALLOC(from, n));
  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) tri_rng_bits(key, 0, (uint64_t)i, bits);
    from[i] = tri_f32_to_half(TRI_BF16, 4 * tri_rng_unit(bits[i % 4]) - 2);
  }
  TRI_TRY_DONE(ops->copy(s, x->data, from, (size_t)n * sizeof *from));
  TRI_TRY_DONE(ops->stream_sync(s));
done:
  TRI_FREE(from);
  return st;
}

tri_status tri_cudnn_trial_put(tri_stream *s, const tri_attn_rule *rule, int64_t longest, char *at,
                               tri_cudnn_arrays *out) {
  const tri_device_ops *ops = s->device->ops;
  const tri_heads      *h = &rule->heads;
  const int64_t         n = rows_of(longest), E = row_elements(h), HD = (int64_t)h->H * h->D;
  const int32_t         cu[N_SEQUENCES + 1] = {0, FIRST, FIRST, (int32_t)(n - LAST), (int32_t)n};

  TRI_TRY(ops->fill(s, at, 0xff, bytes_of(h, longest)));
  out->rule = *rule;
  out->rule.longest = longest;
  out->cu = tri_view1(at, TRI_I32, N_SEQUENCES + 1);
  at += ALIGN;
  out->qkv = take(&at, TRI_BF16, n, E);
  out->dqkv = take(&at, TRI_BF16, n, E);
  out->o = take(&at, TRI_BF16, n, HD);
  out->dout = take(&at, TRI_BF16, n, HD);
  out->lse = take(&at, TRI_F32, n, h->H);
  TRI_TRY(ops->copy(s, out->cu.data, cu, sizeof cu));
  TRI_TRY(ops->stream_sync(s)); /* cu is freed after this */
  TRI_TRY(put_numbers(s, &out->qkv, 1));
  TRI_TRY(put_numbers(s, &out->dout, 2));
  return ops->kernels->attn_fwd(s, &out->o, &out->lse, &out->qkv, &out->cu, &out->rule);
}

/* ---- the gradients of both ---- */

/* Gets the gradients of a way, and the elements behind them, on the host. Everything is NaN before, so a
 * missing write shows. */
static size_t     size_of(tri_in dqkv) { return (size_t)((dqkv->dim[0] + BEHIND) * dqkv->dim[1]); }
static tri_status get_gradients(tri_stream *s, tri_out dqkv, tri_cudnn_way way, uint16_t *to) {
  const tri_device_ops *ops = s->device->ops;
  const size_t          bytes = size_of(dqkv) * sizeof *to;

  TRI_TRY(ops->fill(s, dqkv->data, 0xff, bytes));
  TRI_TRY(way.run(way.ctx, s));
  TRI_TRY(ops->copy(s, to, dqkv->data, bytes));
  return ops->stream_sync(s);
}

/* The same by cuDNN. A failure counts in the verdict. After an error of CUDA itself no kernel runs any more,
 * and this wait fails too. */
static tri_status get_cudnn(tri_stream *s, tri_out dqkv, tri_cudnn_way way, uint16_t *to,
                            tri_cudnn_verdict *v) {
  const tri_status st = v->failed[0] ? TRI_OK : get_gradients(s, dqkv, way, to);

  if (st != TRI_EDEVICE) return st;
  snprintf(v->failed, sizeof v->failed, "%s", tri_error_message());
  TRI_TRY(tri_error_at(s->device->ops->stream_sync(s),
                       "the trial of cuDNN (set TRI_CUDA_ATTN_BWD=own to run without it)"));
  tri_error_clear();
  (void)cudaGetLastError(); /* it is reported, and the next launch would ask for it */
  return TRI_OK;
}

typedef struct own_call {
  const tri_cudnn_arrays *a;
  tri_tensor              work;
} own_call;
static tri_status run_own(void *ctx, tri_stream *s) { /* without space for cuDNN attn_bwd is the own kernel */
  own_call        *c = ctx;
  tri_cudnn_arrays a = *c->a;

  return s->device->ops->kernels->attn_bwd(s, &a.dqkv, &c->work, &a.dout, &a.o, &a.lse, &a.qkv, &a.cu,
                                           &a.rule);
}

/* Finds the largest difference in columns [first, end) of n rows, and the largest of `want`. NaN stays
 * NaN. */
static void compare(const uint16_t *got, const uint16_t *want, int64_t n, int64_t E, int64_t first,
                    int64_t end, double *apart, double *largest) {
  *apart = *largest = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i * E + first; j < i * E + end; j++) {
      const double w = (double)tri_half_to_f32(TRI_BF16, want[j]),
                   d = fabs((double)tri_half_to_f32(TRI_BF16, got[j]) - w);
      if (d > *apart || isnan(d)) *apart = d;
      if (fabs(w) > *largest || isnan(w)) *largest = fabs(w);
    }
}

/* Measures each of dq, dk and dv by its own largest, but at least by a rounding of the largest of all. For
 * rows that see one key, dq and dk are noise. *most is the largest of the three, or NaN if one has NaN. */
static tri_status find_apart(const uint16_t *got, const uint16_t *want, int64_t n, const tri_heads *h,
                             double *most) {
  const int64_t q = (int64_t)h->H * h->D, k = (int64_t)h->G * h->D, E = q + 2 * k;
  const int64_t end[] = {0, q, q + k, E};
  double        apart[3], size[3], all = 0;

  for (int i = 0; i < 3; i++) compare(got, want, n, E, end[i], end[i + 1], &apart[i], &size[i]);
  for (int i = 0; i < 3; i++)
    if (size[i] > all || isnan(size[i])) all = size[i];
  if (!(all > 0 && all < HUGE_VAL))
    TRI_FAIL(TRI_EDEVICE, "the largest gradient of the own kernel in the trial of cuDNN is %g", all);
  *most = 0;
  for (int i = 0; i < 3; i++) {
    const double x = apart[i] / fmax(size[i], all / 256);
    if (x > *most || isnan(x)) *most = x;
  }
  return TRI_OK;
}

tri_status tri_cudnn_try(tri_stream *s, const tri_cudnn_arrays *a, void *work, tri_cudnn_way way,
                         tri_cudnn_verdict *out) {
  tri_tensor    dqkv = a->dqkv;
  const int64_t n = dqkv.dim[0];
  const size_t  all = size_of(&dqkv), used = (size_t)tri_tensor_count(&dqkv);
  own_call      own = {a, tri_view1(work, TRI_F32, tri_attn_work(&a->rule.heads, n))};
  tri_status    st = TRI_OK;
  uint16_t     *want = NULL, *got = NULL, *again = NULL;

  *out = (tri_cudnn_verdict){0};
  TRI_TRY_DONE(TRI_ALLOC(want, all));
  TRI_TRY_DONE(TRI_ALLOC(got, all));
  TRI_TRY_DONE(TRI_ALLOC(again, all));
  TRI_TRY_DONE(get_gradients(s, &dqkv, (tri_cudnn_way){run_own, &own}, want));
  TRI_TRY_DONE(get_cudnn(s, &dqkv, way, again, out));
  TRI_TRY_DONE(get_cudnn(s, &dqkv, way, got, out));
  if (out->failed[0]) goto done;
  out->repeats = !memcmp(got, again, all * sizeof *got);
  out->behind = memcmp(got + used, want + used, (all - used) * sizeof *got) != 0;
  TRI_TRY_DONE(find_apart(got, want, n, &a->rule.heads, &out->apart));
done:
  TRI_FREE(want);
  TRI_FREE(got);
  TRI_FREE(again);
  return st;
}

tri_status tri_cudnn_time(tri_stream *s, tri_cudnn_way way, double *ms) {
  const tri_device_ops *ops = s->device->ops;
  tri_status            st = TRI_OK;
  tri_event            *from = NULL, *to = NULL;

  TRI_TRY_DONE(ops->event_open(s->device, &from));
  TRI_TRY_DONE(ops->event_open(s->device, &to));
  TRI_TRY_DONE(way.run(way.ctx, s)); /* loads its code */
  TRI_TRY_DONE(ops->event_record(from, s));
  TRI_TRY_DONE(way.run(way.ctx, s));
  TRI_TRY_DONE(ops->event_record(to, s));
  TRI_TRY_DONE(ops->event_ms(from, to, ms));
done:
  ops->event_close(&to);
  ops->event_close(&from);
  return st;
}
