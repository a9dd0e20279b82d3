/* products.h - the matrix products of a layer and of the head, as a pass of learning has them, timed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_PRODUCTS_H
#define TRI_BENCH_PRODUCTS_H

#include "bench_setup.h"
#include "comm/session.h"
#include "series.h"

typedef struct tri_product_times {
  const char *name;
  int64_t     n_out, n_in, rows;             /* y [rows,n_out] = x [rows,n_in] W^T */
  double      in_pass;                       /* how many of them a pass of learning has */
  double      again;                         /* and backward once more, where layers are recomputed */
  double      forward_s, grad_x_s, grad_w_s; /* of one; grad_w_s 0: W does not learn */
} tri_product_times;

typedef struct tri_products {
  tri_session     *se; /* borrowed */
  tri_dtype        dtype;
  bool             learns; /* W does */
  tri_linear      *linear[TRI_SLOT_PRODUCTS];
  tri_linear_bytes bytes[TRI_SLOT_PRODUCTS];
  int              n;
  size_t           workspace; /* bytes of the device that timing takes */
} tri_products;

/* Not collective. out [TRI_SLOT_PRODUCTS], p->n of them, without times: a scalar head's is not among them. */
TRI_CHECKED tri_status tri_products_open(tri_session *se, const tri_bench_case *c, tri_products *p,
                                         tri_product_times *out);
/* Collective over world. workspace: p->workspace bytes of the device. The effort is that of each time. */
TRI_CHECKED tri_status tri_products_time(tri_products *p, void *workspace, const tri_effort *e,
                                         tri_product_times *out);
void                   tri_products_close(tri_products *p); /* a zeroed one is legal */

/* Pure. Floating point operations of one. */
double tri_product_flops(const tri_product_times *t);
/* Pure. Seconds of a pass's, t [n]: forward; backward. */
double tri_products_forward_s(const tri_product_times *t, int n);
double tri_products_backward_s(const tri_product_times *t, int n);

#endif
