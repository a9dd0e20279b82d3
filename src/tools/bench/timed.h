/* timed.h - a kernel's call, timed on all ranks at once; noise for it to work on. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_TIMED_H
#define TRI_BENCH_TIMED_H

#include "comm/session.h"
#include "series.h"

typedef tri_status (*tri_timed_work)(void *ctx, tri_stream *s);

/* Collective over world. Seconds of one call on the slowest rank, the median of runs of about a millisecond
 * or more, each of as many calls as that takes. */
TRI_CHECKED tri_status tri_timed(tri_session *se, tri_timed_work work, void *ctx, const tri_effort *e,
                                 double *call_s);

/* Collective over world. Each x [n], seconds, becomes that of the rank where it is largest. */
TRI_CHECKED tri_status tri_slowest(tri_comm *world, double *x, int n);

/* Pure. Numbers as those of a new model, for products of zeros may be faster. */
float tri_noise(uint64_t i);
/* Not collective. n elements of it in device memory. */
TRI_CHECKED tri_status tri_noise_put(tri_session *se, void *where, tri_dtype t, int64_t n);

/* A part of one block: the next n bytes, 256-byte aligned. Without a block, NULL: how far it must reach. */
typedef struct tri_carve {
  char  *base;
  size_t used;
} tri_carve;
void *tri_carve_next(tri_carve *c, size_t n);

#endif
