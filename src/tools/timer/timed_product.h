/* timed_product.h - times one matrix product y [M,n_out] = x [M,n_in] W^T, forward and its two gradients.
 *
 * It calls the linear_* kernels of an open device (kernels.h) on the timer's stream, with packed weights and
 * random operands. timed.h explains warm-up, runs and caches. One call has 2 M n_out n_in operations. Users
 * are `trireme bench`, `trireme doctor`, and bench_linear and bench_gpu of tests/bench. The choice of an
 * algorithm in gpu/gemm/gemm_trial.c measures something else. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TIMER_TIMED_PRODUCT_H
#define TRI_TIMER_TIMED_PRODUCT_H

#include "device/kernels.h"
#include "timed.h"

/* A is the type of W and x. */
typedef enum tri_product_call {
  TRI_PRODUCT_FWD,      /* y A [M,n_out] = x A [M,n_in] W^T */
  TRI_PRODUCT_FWD_F32,  /* y f32 = x W^T */
  TRI_PRODUCT_FWD_ADD,  /* y f32 += x W^T */
  TRI_PRODUCT_BWD_X,    /* dx A [M,n_in] = dy A [M,n_out] W */
  TRI_PRODUCT_BWD_W,    /* dw f32 [n_out,n_in] = dy^T x */
  TRI_PRODUCT_BWD_W_ADD /* dw += dy^T x */
} tri_product_call;

/* Initialise with zero. */
typedef struct tri_timed_product {
  tri_device      *device; /* borrowed */
  tri_linear_spec  spec;
  int64_t          rows; /* most rows M of a call */
  tri_linear      *linear;
  tri_linear_bytes bytes;
  size_t           memory_bytes; /* memory of the device, for tri_timed_product_start */
  /* Operands in that memory. The gradients dy, dx and dw are NULL without spec.backward. */
  void *w, *fwd, *bwd, *work; /* w A [n_out,n_in]. fwd, bwd: packed w, or w itself */
  void *x, *y;                /* x A [rows,n_in], y A or f32 [rows,n_out] */
  void *dy, *dx, *dw;         /* dy A [rows,n_out], dx A [rows,n_in], dw f32 [n_out,n_in] */
} tri_timed_product;

/* Not collective, all that follow, unless they say Collective. Opens the linear and sets memory_bytes. It
 * also works in a pretended session. */
TRI_CHECKED tri_status tri_timed_product_open(tri_device *d, const tri_linear_spec *spec, int64_t rows,
                                              tri_timed_product *out);
/* Lays the operands into memory, memory_bytes of the device, borrowed and 256-byte aligned. Fills and packs
 * them. Waits. */
TRI_CHECKED tri_status tri_timed_product_start(tri_timed_product *p, void *memory, tri_stream *s);
void                   tri_timed_product_close(tri_timed_product *p); /* accepts a zeroed one */

/* Collective over t->world, if there is one. Times a call of M <= p->rows rows. */
TRI_CHECKED tri_status tri_timed_product_time(tri_timed_product *p, tri_product_call call, int64_t M,
                                              const tri_timer *t, const tri_effort *e, tri_timing *out);

typedef struct tri_product_work {
  tri_timed_product *product;
  tri_product_call   call;
  int64_t            M;
} tri_product_work;
/* Not collective. The call as a tri_timed_work, for callers that take turns between several calls. ctx: a
 * tri_product_work. */
TRI_CHECKED tri_status tri_timed_product_run(void *ctx, tri_stream *s);

/* Pure. Returns the floating point operations of any one of the calls. */
double tri_timed_product_flops(int64_t M, int64_t n_out, int64_t n_in);

#endif
