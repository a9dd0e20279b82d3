/* products.h - times the matrix products of a layer and of the head, as a training pass computes them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_PRODUCTS_H
#define TRI_BENCH_PRODUCTS_H

#include "bench_setup.h"
#include "comm/session.h"
#include "tools/timer/timed_product.h"

typedef struct tri_product_times {
  const char *name;
  int64_t     n_out, n_in, rows;             /* y [rows,n_out] = x [rows,n_in] W^T */
  double      in_pass;                       /* number in a training pass */
  double      again;                         /* forward products repeated in backward, with recomputed
                                              * layers */
  double      forward_s, grad_x_s, grad_w_s; /* one product. grad_w_s 0: W does not learn */
} tri_product_times;

typedef struct tri_products {
  tri_session      *se;     /* borrowed */
  bool              learns; /* W learns */
  tri_timed_product product[TRI_SLOT_PRODUCTS];
  tri_slot          slot[TRI_SLOT_PRODUCTS]; /* of product i */
  int               n;
  size_t            workspace; /* bytes of device memory for timing */
} tri_products;

/* Not collective. Sets p->n of out [TRI_SLOT_PRODUCTS], without times. A scalar head is not among them. */
TRI_CHECKED tri_status tri_products_open(tri_session *se, const tri_bench_case *c, tri_products *p,
                                         tri_product_times *out);
/* Collective over world. workspace: p->workspace bytes of the device. e: effort of each measurement. */
TRI_CHECKED tri_status tri_products_time(tri_products *p, void *workspace, const tri_effort *e,
                                         tri_product_times *out);
void                   tri_products_close(tri_products *p); /* accepts a zeroed one */

/* Pure. Returns the floating point operations of one product. */
double tri_product_flops(const tri_product_times *t);
/* Pure. Return the seconds of a pass's products t [n], forward and backward. */
double tri_products_forward_s(const tri_product_times *t, int n);
double tri_products_backward_s(const tri_product_times *t, int n);

#endif
