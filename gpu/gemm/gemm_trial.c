/* gemm_trial.c - a product tried with noise: whether algorithms give rows the same bits, and how long one
 * takes.
 *
 * A bf16 result hides what f32 sums differ in. So such a product is compared with -y of its judge added: what
 * is left of a sum when its upper 8 bits are taken away. */
#include "gemm_impl.h"

#include <math.h>

enum { TURNS = 3 }; /* runs of which the shortest counts; chosen */
/* Written before each timed run, so that the weights come from memory as in a model; twice an H100's cache of
 * 50 MB. */
enum { EVICT_BYTES = 128 << 20 };

static size_t x_bytes(const tri_linear *l, int64_t rows) {
  return tri_lt_round((size_t)(rows * l->n_in) * tri_dtype_bytes(l->dtype));
}
static size_t y_bytes(const tri_linear *l, int64_t rows, tri_dtype t) {
  return tri_lt_round((size_t)(rows * l->n_out) * tri_dtype_bytes(t));
}

size_t tri_lt_room_bytes(const tri_linear *l, int64_t rows) {
  return tri_gpu_trial_bytes(l->n_out, l->n_in, l->dtype, rows);
}

tri_status tri_lt_room_fill(const tri_linear *l, tri_lt_room *r, char *at) {
  tri_tensor x = tri_view2(at, l->dtype, r->rows, l->n_in), bias;

  r->x = at;
  r->bias = r->x + x_bytes(l, r->rows);
  r->judge = r->bias + tri_lt_round((size_t)l->n_out * 4);
  bias = tri_view1(r->bias, l->dtype, l->n_out);
  TRI_TRY(tri_cuda_noise(r->s, &x, 1));
  return tri_cuda_noise(r->s, &bias, 2);
}

/* Rows [first, first + rows) by this algorithm. */
static tri_status run_part(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                           const tri_lt_room *r, int64_t first, int64_t rows, char *to, bool add) {
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

tri_status tri_lt_judge(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                        tri_lt_room *r) {
  tri_tensor base;

  r->y = r->judge + y_bytes(l, r->rows, p->out);
  r->base = r->y + y_bytes(l, r->rows, p->out);
  if (p->out == TRI_F32) return run_part(l, p, algo, r, 0, r->rows, r->judge, false);
  TRI_TRY(run_part(l, p, algo, r, 0, r->rows, r->base, false));
  base = tri_view2(r->base, p->out, r->rows, l->n_out);
  TRI_TRY(tri_cuda_negate(r->s, &base));
  return run_part(l, p, algo, r, 0, r->rows, r->judge, true);
}

tri_status tri_lt_agree(const tri_linear *l, const tri_lt *p, cublasLtMatmulHeuristicResult_t *c,
                        const tri_lt_room *r, int64_t first, int64_t rows, bool *same) {
  const size_t y = (size_t)l->n_out * tri_dtype_bytes(p->out);
  int32_t     *flag = tri_cuda_scratch(r->s), differ = 0;
  size_t       need;

  TRI_ASSERT(first >= 0 && rows > 0 && first + rows <= r->rows);
  *same = *same && tri_lt_fits(l, p, rows, &c->algo, &need) && need <= r->lt_bytes;
  if (!*same) return TRI_OK;
  if (need > c->workspaceSize) c->workspaceSize = need;
  if (run_part(l, p, &c->algo, r, first, rows, r->y, p->out != TRI_F32) != TRI_OK) {
    tri_error_clear(); /* the library's check of an algorithm promises nothing */
    *same = false;
    return TRI_OK;
  }
  TRI_TRY(tri_cuda_differ(r->s, flag, r->y, r->judge + (size_t)first * y, (size_t)rows * y));
  TRI_TRY(r->s->device->ops->copy(r->s, &differ, flag, sizeof differ));
  TRI_TRY(r->s->device->ops->stream_sync(r->s));
  *same = !differ;
  return TRI_OK;
}

tri_status tri_lt_time(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                       const tri_lt_room *r, int64_t rows, double *ms) {
  tri_status            st = TRI_OK;
  tri_device           *d = r->s->device;
  const tri_device_ops *ops = d->ops;
  const size_t          y = y_bytes(l, r->rows, p->out);
  tri_event            *from = NULL, *to = NULL;
  double                took;

  *ms = HUGE_VAL;
  TRI_TRY_DONE(ops->event_open(d, &from));
  TRI_TRY_DONE(ops->event_open(d, &to));
  for (int i = 0; i < TURNS; i++) {
    TRI_TRY_DONE(ops->fill(r->s, r->y, 0, y < EVICT_BYTES ? y : EVICT_BYTES));
    TRI_TRY_DONE(ops->event_record(from, r->s));
    TRI_TRY_DONE(run_part(l, p, algo, r, r->rows - rows, rows, r->y, false));
    TRI_TRY_DONE(ops->event_record(to, r->s));
    TRI_TRY_DONE(ops->event_ms(from, to, &took));
    if (took < *ms) *ms = took;
  }
done:
  ops->event_close(&to);
  ops->event_close(&from);
  return st;
}
