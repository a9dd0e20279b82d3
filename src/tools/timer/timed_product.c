/* timed_product.c - times one matrix product y [M,n_out] = x [M,n_in] W^T, forward and its two gradients. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "timed_product.h"

/* Lays out the operands in the block of *at. Without a block, only counts their bytes. */
static void lay_out(tri_timed_product *p, tri_carve *at) {
  size_t A = tri_dtype_bytes(p->spec.dtype), weights = (size_t)(p->spec.n_out * p->spec.n_in),
         in = (size_t)(p->rows * p->spec.n_in), out = (size_t)(p->rows * p->spec.n_out);
  bool backward = p->spec.backward;

  p->w = tri_carve_next(at, weights * A);
  p->fwd = p->bytes.fwd ? tri_carve_next(at, p->bytes.fwd) : p->w;
  p->bwd = p->bytes.bwd ? tri_carve_next(at, p->bytes.bwd) : p->w;
  p->x = tri_carve_next(at, in * A);
  p->y = tri_carve_next(at, out * 4);
  p->dy = backward ? tri_carve_next(at, out * A) : NULL;
  p->dx = backward ? tri_carve_next(at, in * A) : NULL;
  p->dw = backward ? tri_carve_next(at, weights * 4) : NULL;
  p->work = tri_carve_next(at, p->bytes.workspace);
}

tri_status tri_timed_product_open(tri_device *d, const tri_linear_spec *spec, int64_t rows,
                                  tri_timed_product *out) {
  const tri_kernels *k = d->ops->kernels;
  tri_carve          at = {0};

  *out = (tri_timed_product){.device = d, .spec = *spec, .rows = rows};
  TRI_TRY(k->linear_open(d, spec, &out->linear));
  TRI_TRY(k->linear_size(out->linear, &out->bytes));
  lay_out(out, &at);
  out->memory_bytes = at.used;
  return TRI_OK;
}

void tri_timed_product_close(tri_timed_product *p) {
  if (p->linear && p->device->ops->kernels->linear_close(&p->linear) != TRI_OK) tri_error_clear();
}

/* y and dw are zero, because the calls that add begin with them. */
static tri_status fill(tri_timed_product *p, tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  int64_t weights = p->spec.n_out * p->spec.n_in, in = p->rows * p->spec.n_in, out = p->rows * p->spec.n_out;

  TRI_TRY(tri_noise_put(s, p->w, p->spec.dtype, weights));
  TRI_TRY(tri_noise_put(s, p->x, p->spec.dtype, in));
  TRI_TRY(ops->fill(s, p->y, 0, (size_t)out * 4));
  if (!p->spec.backward) return TRI_OK;
  TRI_TRY(tri_noise_put(s, p->dy, p->spec.dtype, out));
  return ops->fill(s, p->dw, 0, (size_t)weights * 4);
}

tri_status tri_timed_product_start(tri_timed_product *p, void *memory, tri_stream *s) {
  const tri_kernels *k = p->device->ops->kernels;
  tri_carve          at = {memory, 0};
  tri_tensor         w;

  lay_out(p, &at);
  TRI_TRY(k->linear_bind(p->linear, p->work, p->bytes.workspace));
  TRI_TRY(fill(p, s));
  w = tri_view2(p->w, p->spec.dtype, p->spec.n_out, p->spec.n_in);
  if (p->bytes.fwd || p->bytes.bwd)
    TRI_TRY(
        k->linear_pack(s, p->linear, p->bytes.fwd ? p->fwd : NULL, p->bytes.bwd ? p->bwd : NULL, &w, 0, 1));
  return p->device->ops->stream_sync(s);
}

tri_status tri_timed_product_run(void *ctx, tri_stream *s) {
  const tri_product_work *work = ctx;
  tri_timed_product      *p = work->product;
  const tri_kernels      *k = p->device->ops->kernels;
  tri_product_call        call = work->call;
  tri_dtype               A = p->spec.dtype, of_y = call == TRI_PRODUCT_FWD ? A : TRI_F32;
  int64_t                 M = work->M, n_out = p->spec.n_out, n_in = p->spec.n_in;
  tri_tensor              x = tri_view2(p->x, A, M, n_in), y = tri_view2(p->y, of_y, M, n_out),
             dy = tri_view2(p->dy, A, M, n_out), dx = tri_view2(p->dx, A, M, n_in),
             dw = tri_view2(p->dw, TRI_F32, n_out, n_in);

  switch (call) {
  case TRI_PRODUCT_FWD:
  case TRI_PRODUCT_FWD_F32:
    return k->linear_fwd(s, p->linear, p->fwd, &y, &x, NULL, NULL);
  case TRI_PRODUCT_FWD_ADD:
    return k->linear_fwd(s, p->linear, p->fwd, &y, &x, NULL, &y);
  case TRI_PRODUCT_BWD_X:
    return k->linear_bwd_x(s, p->linear, p->bwd, &dx, &dy, false);
  case TRI_PRODUCT_BWD_W:
  case TRI_PRODUCT_BWD_W_ADD:
    return k->linear_bwd_w(s, p->linear, &dw, &dy, &x, call == TRI_PRODUCT_BWD_W_ADD);
  }
  TRI_ASSERT(false);
}

tri_status tri_timed_product_time(tri_timed_product *p, tri_product_call call, int64_t M, const tri_timer *t,
                                  const tri_effort *e, tri_timing *out) {
  tri_product_work work = {p, call, M};

  TRI_ASSERT(M <= p->rows && (p->spec.backward || call < TRI_PRODUCT_BWD_X));
  return tri_timed(t, tri_timed_product_run, &work, e, out);
}

double tri_timed_product_flops(int64_t M, int64_t n_out, int64_t n_in) {
  return 2 * (double)M * (double)n_out * (double)n_in;
}
