/* gemm_trial.c - tries a product with noise: do algorithms give rows the same bits, and how long does one
 * take.
 *
 * A bf16 result hides differences of f32 sums. So a product is made a second time with -y of the reference
 * added. This leaves the part of a sum below its upper bits. It also tries the addition used by models (o and
 * down add to the residual stream), because an algorithm may add it first or last.
 *
 * Its timer differs from that of src/tools/timer, which times the linear_* calls of an open product. Here a
 * product is still being opened, its algorithm is given, and weights come from memory instead of a cache. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gemm_impl.h"

#include <math.h>

enum { TURNS = 5 }; /* runs, the shortest counts, chosen */

static size_t x_bytes(const tri_linear *l, int64_t rows) {
  return tri_lt_round((size_t)(rows * l->n_in) * tri_dtype_bytes(l->dtype));
}
static size_t y_bytes(const tri_linear *l, int64_t rows, tri_dtype t) {
  return tri_lt_round((size_t)(rows * l->n_out) * tri_dtype_bytes(t));
}

/* Bytes written before each timed run, so that the weights come from memory as in a model. */
size_t tri_lt_evict_bytes(const tri_linear *l) { return 2 * l->device->l2_bytes; }

size_t tri_lt_workspace_bytes(const tri_linear *l, int64_t rows) {
  return tri_gpu_trial_bytes(l->n_out, l->n_in, l->dtype, rows);
}

tri_status tri_lt_workspace_fill(const tri_linear *l, tri_lt_workspace *r, char *at) {
  tri_tensor x = tri_view2(at, l->dtype, r->rows, l->n_in), bias;

  r->x = at;
  r->bias = r->x + x_bytes(l, r->rows);
  r->base = r->bias + tri_lt_round((size_t)l->n_out * 4);
  bias = tri_view1(r->bias, l->dtype, l->n_out);
  TRI_TRY(tri_cuda_noise(r->s, &x, 1));
  return tri_cuda_noise(r->s, &bias, 2);
}

/* Multiplies rows [first, first + rows) by this algorithm. */
static tri_status run_part(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                           const tri_lt_workspace *r, int64_t first, int64_t rows, char *to, bool add) {
  const size_t      y = (size_t)l->n_out * tri_dtype_bytes(p->out);
  const tri_lt_call c = {.a = r->w,
                         .b = r->x + (size_t)(first * l->n_in) * tri_dtype_bytes(l->dtype),
                         .bias = p->bias ? r->bias : NULL,
                         .d = to,
                         .base = add ? r->base + (size_t)first * y : NULL,
                         .rows = rows,
                         .workspace = r->lt,
                         .bytes = r->lt_bytes};

  return tri_lt_run(l, p, algo, r->s, &c);
}

void tri_lt_place(const tri_linear *l, const tri_lt *p, tri_lt_workspace *r) {
  r->judge = r->base + y_bytes(l, r->rows, p->out);
  r->y = r->judge + y_bytes(l, r->rows, p->out);
}

tri_status tri_lt_judge(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                        tri_lt_workspace *r) {
  tri_tensor base = tri_view2(r->base, p->out, r->rows, l->n_out);

  tri_lt_place(l, p, r);
  TRI_TRY(run_part(l, p, algo, r, 0, r->rows, r->base, false));
  TRI_TRY(tri_cuda_negate(r->s, &base));
  return run_part(l, p, algo, r, 0, r->rows, r->judge, true);
}

/* Sets differ[0] and differ[1], on the device, if the rows differ without and with an addend. */
static tri_status try_part(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                           const tri_lt_workspace *r, int64_t first, int64_t rows, int32_t *differ) {
  const size_t y = (size_t)l->n_out * tri_dtype_bytes(p->out), at = (size_t)first * y,
               bytes = (size_t)rows * y;

  TRI_TRY(run_part(l, p, algo, r, first, rows, r->y, false));
  TRI_TRY(tri_cuda_differ(r->s, &differ[0], r->y, r->base + at, bytes, p->out, true));
  TRI_TRY(run_part(l, p, algo, r, first, rows, r->y, true));
  return tri_cuda_differ(r->s, &differ[1], r->y, r->judge + at, bytes, p->out, false);
}

tri_status tri_lt_agree(const tri_linear *l, const tri_lt *p, cublasLtMatmulHeuristicResult_t *c,
                        const tri_lt_workspace *r, int64_t first, int64_t rows, bool *same) {
  int32_t *flag = tri_cuda_scratch(r->s), differ[2] = {0, 0};
  size_t   need;

  TRI_ASSERT(first >= 0 && rows > 0 && first + rows <= r->rows);
  *same = *same && tri_lt_fits(l, p, rows, &c->algo, &need) && need <= r->lt_bytes;
  if (!*same) return TRI_OK;
  if (need > c->workspaceSize) c->workspaceSize = need;
  if (try_part(l, p, &c->algo, r, first, rows, flag) != TRI_OK) {
    tri_error_clear(); /* the library's check of an algorithm promises nothing */
    *same = false;
    return TRI_OK;
  }
  TRI_TRY(r->s->device->ops->copy(r->s, differ, flag, sizeof differ));
  TRI_TRY(r->s->device->ops->stream_sync(r->s));
  *same = !differ[0] && !differ[1];
  return TRI_OK;
}

/* All turns are queued before the first ends, because writing so many bytes takes longer than queueing the
 * rest. So no turn waits for the host, and each finds the weights out of the cache. */
tri_status tri_lt_time(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                       const tri_lt_workspace *r, int64_t rows, double *ms) {
  tri_status            st = TRI_OK;
  tri_device           *d = r->s->device;
  const tri_device_ops *ops = d->ops;
  const size_t          evict = tri_lt_evict_bytes(l);
  tri_event            *from[TURNS] = {NULL}, *to[TURNS] = {NULL};
  double                took;

  *ms = HUGE_VAL;
  for (int i = 0; i < TURNS; i++) {
    TRI_TRY_DONE(ops->event_open(d, &from[i]));
    TRI_TRY_DONE(ops->event_open(d, &to[i]));
  }
  TRI_TRY_DONE(ops->fill(r->s, r->evict, 0, evict));
  for (int i = 0; i < TURNS; i++) {
    TRI_TRY_DONE(ops->fill(r->s, r->evict, 0, evict));
    TRI_TRY_DONE(ops->event_record(from[i], r->s));
    TRI_TRY_DONE(run_part(l, p, algo, r, r->rows - rows, rows, r->y, false));
    TRI_TRY_DONE(ops->event_record(to[i], r->s));
  }
  for (int i = 0; i < TURNS; i++) {
    TRI_TRY_DONE(ops->event_ms(from[i], to[i], &took));
    if (took < *ms) *ms = took;
  }
done:
  for (int i = 0; i < TURNS; i++) {
    ops->event_close(&to[i]);
    ops->event_close(&from[i]);
  }
  return st;
}
